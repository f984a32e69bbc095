"""Texts of fetched pages, read by a process of its own with limits on time and memory, and without
any variables.
"""

import asyncio
import json
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from hermetic.config.settings import WebSettings
from hermetic.contract.limits import WEB_EXTRACT, WEB_EXTRACT_MEMORY, WEB_EXTRACTS, WEB_TEXT
from hermetic.tools.web import extract_worker
from hermetic.tools.web.addresses import Sites
from hermetic.tools.web.errors import FetchError
from hermetic.tools.web.fetch import Answer, Fetcher
from hermetic.tools.web.providers import PROVIDERS, Page, Provider

_PROGRAM = (
    f"import sys; sys.path[:] = sys.argv[1:]; from {extract_worker.__name__} import main; main()"
)


class Extractor:
    """Reads pages, a few at a time."""

    def __init__(self) -> None:
        self._slots = asyncio.Semaphore(WEB_EXTRACTS)

    async def read(self, answer: Answer) -> Page:
        """Title and text of a page. Raises FetchError for one that has none or takes too long."""
        asked = {
            "url": answer.url,
            "kind": answer.kind,
            "charset": answer.charset,
            "characters": WEB_TEXT,
            "memory": WEB_EXTRACT_MEMORY,
            "seconds": int(WEB_EXTRACT),
        }
        async with self._slots:
            found = await _ask(json.dumps(asked).encode() + b"\n" + answer.body)
        problems = []
        if answer.status >= 400:
            problems.append(f"the server answered with status {answer.status}; this is its page")
        if answer.is_cut:
            problems.append(
                f"the page is longer; only the first {len(answer.body):,} bytes were read"
            )
        problems += [text for name in ("problem", "error") if (text := found.get(name))]
        if "error" in found:
            raise FetchError("; ".join(problems))
        return Page(found["title"], found["text"], "; ".join(problems), answer.url)


async def _ask(question: bytes) -> dict[str, str]:
    worker = await asyncio.create_subprocess_exec(
        sys.executable,
        "-Ic",
        _PROGRAM,
        *sys.path,
        stdin=PIPE,
        stdout=PIPE,
        stderr=DEVNULL,
        env={},
    )
    try:
        async with asyncio.timeout(WEB_EXTRACT):
            said, _ = await worker.communicate(question)
        found: dict[str, str] = json.loads(said)
    except TimeoutError:
        raise FetchError(f"the page cannot be read within {WEB_EXTRACT:g} s") from None
    except ValueError:
        raise FetchError("the page cannot be read: it takes too much time or memory") from None
    finally:
        if worker.returncode is None:
            worker.kill()
            await worker.wait()
    return found


class Parts(NamedTuple):
    """What the web tools work with."""

    fetcher: Fetcher
    extractor: Extractor
    providers: Mapping[str, Provider]  # by name


def made(settings: WebSettings, environ: Mapping[str, str], denied: Sequence[str]) -> Parts:
    """The parts by the user's settings and variables; `denied` are hosts that other settings
    exclude.
    """
    sites = Sites(settings.allow, (*settings.deny, *denied), settings.private_hosts)
    fetcher = Fetcher(sites, seconds=settings.timeout, proxy=settings.proxy)
    return Parts(fetcher, Extractor(), {kind.name: kind(environ) for kind in PROVIDERS})
