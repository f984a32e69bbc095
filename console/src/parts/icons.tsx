/** Line icons, 16 by 16, in the text's colour. */

const PATHS = {
  timeline: "M2.5 4h2M7 4h6.5M2.5 8h2M7 8h6.5M2.5 12h2M7 12h4",
  terminal: "M3.5 5l3 3-3 3M8.5 11h4.5",
  processes: "M2 8h3l2-5 3 10 2-5h2",
  approvals: "M8 1.8l5 2v4c0 3.2-2.1 5.4-5 6.4-2.9-1-5-3.2-5-6.4v-4zM5.8 8l1.6 1.6 3-3.2",
  files: "M4 1.8h5l3.5 3.5v8.9H4zM9 1.8v3.5h3.5",
  folder: "M1.8 4h4.4l1.4 1.6h6.6v7.4H1.8z",
  search: "M7 2.2a4.8 4.8 0 1 1 0 9.6a4.8 4.8 0 1 1 0-9.6M10.6 10.6l3.2 3.2",
  recordings: "M8 2.2a5.8 5.8 0 1 1 0 11.6a5.8 5.8 0 1 1 0-11.6M6.6 5.6l3.8 2.4-3.8 2.4z",
  environments: "M2 4.2l6-2.6 6 2.6-6 2.6zM2 8l6 2.6L14 8M2 11.6l6 2.6 6-2.6",
  sun: "M8 5.2a2.8 2.8 0 1 1 0 5.6a2.8 2.8 0 1 1 0-5.6M8 1.2v1.6M8 13.2v1.6M1.2 8h1.6M13.2 8h1.6M3.2 3.2l1.1 1.1M11.7 11.7l1.1 1.1M12.8 3.2l-1.1 1.1M4.3 11.7l-1.1 1.1",
  moon: "M13.4 9.6A5.8 5.8 0 0 1 6.4 2.6a5.8 5.8 0 1 0 7 7z",
  stop: "M5.2 1.8h5.6l3.4 3.4v5.6l-3.4 3.4H5.2l-3.4-3.4V5.2zM5.8 5.8h4.4v4.4H5.8z",
  bell: "M4 11V7a4 4 0 0 1 8 0v4l1.2 1.4H2.8zM6.6 14h2.8",
  chevron: "M6 3.5L10.5 8L6 12.5",
  close: "M4 4l8 8M12 4l-8 8",
  plus: "M8 3v10M3 8h10",
  link: "M6.6 9.4l2.8-2.8M7 4.6l1.4-1.4a2.8 2.8 0 0 1 4 4L11 8.6M9 11.4l-1.4 1.4a2.8 2.8 0 0 1-4-4L5 7.4",
  key: "M5.4 7.2a3 3 0 1 1 0 5.9a3 3 0 1 1 0-5.9M7.6 8.2l5.6-5.6M10.6 5.2l1.8 1.8",
  keyboard: "M1.8 4h12.4v8H1.8zM4.4 6.6h.1M7 6.6h.1M9.6 6.6h.1M12 6.6h.1M5 9.6h6",
  reader: "M2.6 6h2.6L8.6 3v10L5.2 10H2.6zM11 5.8a3 3 0 0 1 0 4.4M12.8 3.8a6 6 0 0 1 0 8.4",
  record: "M8 2.6a5.4 5.4 0 1 1 0 10.8a5.4 5.4 0 1 1 0-10.8M8 6.4a1.6 1.6 0 1 1 0 3.2a1.6 1.6 0 1 1 0-3.2",
  play: "M5 3l8 5-8 5z",
  pause: "M5 3v10M11 3v10",
  person: "M8 2.4a2.6 2.6 0 1 1 0 5.2a2.6 2.6 0 1 1 0-5.2M3 13.6c.4-2.8 2.4-4.2 5-4.2s4.6 1.4 5 4.2",
  agent: "M3.4 5.4h9.2v7H3.4zM8 5.2V2.6M6 8.4v1M10 8.4v1M1.6 8v2.4M14.4 8v2.4",
  share: "M11.8 2.4a1.8 1.8 0 1 1 0 3.6a1.8 1.8 0 1 1 0-3.6M4.2 6.2a1.8 1.8 0 1 1 0 3.6a1.8 1.8 0 1 1 0-3.6M11.8 10a1.8 1.8 0 1 1 0 3.6a1.8 1.8 0 1 1 0-3.6M5.8 7.2l4.4-2.2M5.8 8.8l4.4 2.2",
  copy: "M5.6 5.6h7.6v7.6H5.6zM10.4 5.4V2.8H2.8v7.6h2.6",
  ok: "M3 8.6l3.4 3.4L13 4.8",
  failed: "M4.2 4.2l7.6 7.6M11.8 4.2l-7.6 7.6",
  stopped: "M4 8h8",
  up: "M8 13V3M4 7l4-4 4 4",
  down: "M8 3v10M4 9l4 4 4-4",
};

export type IconName = keyof typeof PATHS;

export function Icon({ name, size = 16 }: { name: IconName; size?: number }) {
  return (
    <svg class="icon" width={size} height={size} viewBox="0 0 16 16" aria-hidden="true">
      <path d={PATHS[name]} />
    </svg>
  );
}
