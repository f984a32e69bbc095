import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { defineConfig, type Plugin } from "vite";

const server = process.env.HERMETIC_SERVE ?? "http://127.0.0.1:7625"; // for `npm run dev`

/** Writes NAME.gz beside every text file; the server sends those. */
const packed: Plugin = {
  name: "packed",
  apply: "build",
  writeBundle({ dir = "" }) {
    for (const name of readdirSync(dir, { recursive: true, encoding: "utf8" })) {
      if (/\.(css|html|js|svg)$/.test(name)) writeFileSync(`${join(dir, name)}.gz`, gzipSync(readFileSync(join(dir, name)), { level: 9 }));
    }
  },
};

export default defineConfig({
  plugins: [packed],
  build: {
    assetsInlineLimit: 0,
    chunkSizeWarningLimit: 600,
    emptyOutDir: true,
    modulePreload: { polyfill: false },
    outDir: "../src/hermetic/serve/page",
    target: "es2022",
  },
  server: { proxy: { "/api": { target: server, ws: true } } },
});
