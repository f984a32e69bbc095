"""Files that say what is allowed: one that cannot be trusted is refused with a message, never
passed over.
"""

import asyncio
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hermetic.approvals.journal import Journal
from hermetic.approvals.store import Store
from hermetic.config import load
from hermetic.contract.errors import ConfigError
from hermetic.toolbox import Toolbox
from tests.programs import need_root

RULES = "[approvals]\ndeny = ['git push*']\n"
NOBODY = 65534  # another user


@contextmanager
def as_somebody_else() -> Iterator[None]:
    """With the rights of a user that others can refuse; root is one nobody can."""
    before = os.geteuid()
    if before == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(before)


def user(path: Path) -> None:
    load("/", environ={"HERMETIC_CONFIG": str(path)})


def project(path: Path) -> None:
    load(str(path.parent), environ={})


READERS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "the user's settings": ("config.toml", user),
    "a project's settings": ("hermetic.toml", project),
    "answers that are kept": ("approvals.toml", Store),
    "the journal": ("decisions.jsonl", Journal),
}


def corrupt(path: Path) -> None:
    path.write_text("[[approval")


def no_text(path: Path) -> None:
    path.write_bytes(b"\xff\xfe\x00")


def huge(path: Path) -> None:
    path.write_bytes(b"# x\n" * 300_000)


def unreadable(path: Path) -> None:
    path.write_text(RULES)
    path.chmod(0)


def writable_by_anybody(path: Path) -> None:
    path.write_text(RULES)
    path.chmod(0o666)


def of_another_user(path: Path) -> None:
    need_root("only root can give a file away")
    path.write_text(RULES)
    path.chmod(0o600)
    os.chown(path, NOBODY, NOBODY)


def link(path: Path) -> None:
    real = path.with_name("elsewhere")
    real.write_text(RULES)
    real.chmod(0o600)
    path.symlink_to(real)


def link_to_nothing(path: Path) -> None:
    path.symlink_to(path.with_name("nothing"))


def directory(path: Path) -> None:
    path.mkdir()


def pipe(path: Path) -> None:
    os.mkfifo(path, 0o600)


FAULTS: dict[Callable[[Path], None], str] = {
    corrupt: "this is no TOML|cannot be understood",
    no_text: "no UTF-8|cannot be understood",
    huge: "is larger than",
    unreadable: "cannot be read|cannot be looked at|cannot be written",
    writable_by_anybody: "can be written by anybody|is open to others",
    of_another_user: "belongs to another user",
    link: "is a link|is no plain file|Too many levels",
    link_to_nothing: "is a link|is no plain file|Too many levels",
    directory: "is no plain file|Is a directory",
    pipe: "is no plain file|No such device",
}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
@pytest.mark.parametrize("kind", READERS)
async def test_a_file_that_cannot_be_trusted_is_refused(
    tmp_path: Path, kind: str, fault: Callable[[Path], None]
) -> None:
    name, reader = READERS[kind]
    if kind == "the journal" and fault in (corrupt, no_text, huge):
        return  # it is only ever added to
    path = tmp_path / name
    fault(path)
    if fault in (corrupt, no_text, huge):
        path.chmod(0o600)

    def read() -> None:
        if fault is unreadable:
            with as_somebody_else():
                reader(path)
        else:
            reader(path)

    async with asyncio.timeout(10):  # a pipe that nobody writes keeps nobody waiting
        with pytest.raises(ConfigError, match=FAULTS[fault]) as refused:
            await asyncio.to_thread(read) if fault is pipe else read()
    assert str(path) in str(refused.value)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_what_such_a_file_forbids_is_not_allowed_meanwhile(
    tmp_path: Path, fault: Callable[[Path], None]
) -> None:
    """A project's rules cannot be got rid of by breaking their file: there are no settings at all
    then.
    """
    (tmp_path / ".git").mkdir()
    (tmp_path / "below").mkdir()
    fault(tmp_path / "hermetic.toml")
    with as_somebody_else() if fault is unreadable else as_myself(), pytest.raises(ConfigError):
        load(str(tmp_path / "below"), environ={})


@contextmanager
def as_myself() -> Iterator[None]:
    yield


@pytest.mark.parametrize(
    ("tool", "given"),
    [
        ("write_file", {"path": "conf/{}", "content": "x"}),
        ("write_file", {"path": "link/{}", "content": "x"}),
        ("terminal", {"command": "echo x >> conf/{}"}),
        ("terminal", {"command": "cd conf && tee ./{} < /dev/null"}),
        ("terminal", {"command": "rm -rf conf"}),
        ("terminal", {"command": "cp a link/{}"}),
        ("execute_code", {"code": "open('conf/{}', 'a').write('x')"}),
    ],
    ids=str,
)
@pytest.mark.parametrize("name", ["mine.toml", "grants.toml", "lines.jsonl"])
async def test_our_own_files_are_protected_wherever_they_were_put(
    tmp_path: Path, tool: str, given: dict[str, str], name: str
) -> None:
    conf = tmp_path / "conf"
    conf.mkdir()
    (tmp_path / "link").symlink_to(conf)
    (tmp_path / "a").touch()
    (conf / "mine.toml").write_text(
        f"[approvals]\nfile = '{conf}/grants.toml'\nlog = '{conf}/lines.jsonl'\n"
    )
    settings = load("/", environ={"HERMETIC_CONFIG": str(conf / "mine.toml")})
    before = (conf / "mine.toml").read_text()
    toolbox = Toolbox(options={"cwd": str(tmp_path), "login": False}, settings=settings)
    try:
        asked = {field: text.format(name) for field, text in given.items()}
        answer = json.loads(await toolbox.call(tool, asked, task_id="t"))
        assert answer["status"] == "blocked", answer
        assert "changes what Hermetic itself may do" in answer["error"]
        assert toolbox.fleet.tasks == []
    finally:
        await toolbox.close(remove=True)
    assert (conf / "mine.toml").read_text() == before
