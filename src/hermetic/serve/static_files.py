"""The files of the page, which the build leaves in `page/` beside this module."""

import html
import re
from pathlib import Path

from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, Response

PAGE = Path(__file__).parent / "page"
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".woff2": "font/woff2",
    ".json": "application/json",
    ".webmanifest": "application/manifest+json",
    ".txt": "text/plain; charset=utf-8",
    ".wasm": "application/wasm",
}
_PLAIN = re.compile(r"/|(?:/[\w.~@-]+)+/?", re.ASCII)
HOW_TO_BUILD = (
    "The page of the console is not built here. In a checkout with Node 20 or newer run `scripts/build-console`; a "
    "package from a release has it. The API under /api/v1 works without it."
)


def is_page_path(path: str) -> bool:
    """True for a path that the page or one of its files may have."""
    return _PLAIN.fullmatch(path) is not None and ".." not in path


def is_built() -> bool:
    """True when there is a page to serve."""
    return (PAGE / "index.html").is_file()


class Page:
    """Serves the files of the build, and nothing else: names are looked up, not joined to a path."""

    def __init__(self) -> None:
        self._files: dict[str, Path] = {}

    def __repr__(self) -> str:
        return f"<Page in {PAGE}: {len(self._files)} files>"

    async def __call__(self, request: Request) -> Response:
        """The file of a path; the page itself for every path of its own router."""
        if not is_built():
            note = html.escape(HOW_TO_BUILD)
            return HTMLResponse(f"<!doctype html><title>Hermetic console</title><p>{note}</p>", 503)
        name = request.url.path.removeprefix("/")
        if name not in self._files:
            self._files = {str(path.relative_to(PAGE)): path for path in PAGE.rglob("*")}
        path = self._files.get(name)
        if path is None or path.suffix not in TYPES or not path.is_file():
            if "." in name.rpartition("/")[2]:
                return Response("No such file.\n", 404, media_type="text/plain")
            path = PAGE / "index.html"
        return _response(path, request)


def _response(path: Path, request: Request) -> Response:
    headers = {"Vary": "Accept-Encoding", "Cache-Control": "no-cache"}
    if path.parent.name == "assets":  # their names hold a hash of their content
        headers["Cache-Control"] = "public, max-age=31536000, immutable"
    packed = path.with_name(f"{path.name}.gz")
    if "gzip" in request.headers.get("accept-encoding", "") and packed.is_file():
        return FileResponse(
            packed, media_type=TYPES[path.suffix], headers={**headers, "Content-Encoding": "gzip"}
        )
    return FileResponse(path, media_type=TYPES[path.suffix], headers=headers)
