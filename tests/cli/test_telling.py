"""`version`, `doctor`, `demo` and the help."""

import contextlib
import importlib.metadata
import os
import re
import shutil
import signal
import subprocess
import sys
import tomllib
import urllib.request
from pathlib import Path

import pytest

import hermetic as package
from hermetic.cli.dispatch import COMMANDS, main
from hermetic.cli.report import age, one_line, size, span
from hermetic.environments import catalog
from hermetic.registry.records import Records, runtime_path
from tests.cli.program import COMMAND, as_json, hermetic

ROOT = Path(__file__).parents[2]


def test_version_is_told() -> None:
    assert hermetic("version").stdout.decode().startswith(f"hermetic {package.__version__} ")
    assert hermetic("--version").stdout == hermetic("version").stdout
    assert as_json("version")["hermetic"] == package.__version__


@pytest.mark.parametrize(
    ("words", "unneeded"),
    [
        (["version"], {"asyncio"}),
        (
            ["--help"],
            {"asyncio", "msgspec", "logging", "subprocess", "hermetic.session", "hermetic.cli.run"},
        ),
        (["run", "--", "true"], {"hermetic.cli.attach", "hermetic.config", "hermetic.policy"}),
    ],
)
def test_a_command_does_not_import_what_others_need(words: list[str], unneeded: set[str]) -> None:
    code = """
import atexit, sys
from hermetic.cli import main
atexit.register(lambda: print(*sys.modules))
main(sys.argv[1:])
"""
    # it would be a setting
    environ = {name: value for name, value in os.environ.items() if name != "HERMETIC_FULL"}
    done = subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, text=True, env=environ
    )
    imported = set(done.stdout.splitlines()[-1].split())
    assert "hermetic.cli" in imported
    assert not imported & unneeded


def test_every_command_has_help_and_is_in_the_documentation_with_its_options(
    capsys: pytest.CaptureFixture[str],
) -> None:
    whole = hermetic("--help").stdout.decode()
    with open(
        os.path.join(os.path.dirname(__file__), "../../docs/cli.md"), encoding="utf-8"
    ) as page:
        documentation = page.read()
    for name in COMMANDS:
        assert re.search(rf"^ +{name}\b", whole, re.MULTILINE)
        with pytest.raises(SystemExit, match="0"):
            main([name, "--help"])
        told = capsys.readouterr().out
        assert f"hermetic {name}" in told
        assert re.search(rf"^## .*`hermetic {name}\b", documentation, re.MULTILINE)
        for option in re.findall(r"(--[a-z-]+)", told):
            assert (
                option == "--help" or f"`{option}" in documentation or f" {option}" in documentation
            ), (name, option)


def test_doctor_tries_what_is_here() -> None:
    checks = {check["name"]: check for check in as_json("doctor")}
    assert {"python", "bash", "subreaper", "runtime directory", "spool", "local"} <= checks.keys()
    assert checks["local"]["state"] in ("ok", "weak")
    assert checks["bash"]["found"]
    assert all(check["advice"] for check in checks.values() if check["state"] != "ok")
    plain = hermetic("doctor").stdout.decode()
    assert "runtime directory" in plain


def test_doctor_advises_only_what_this_version_can_use() -> None:
    plain = {"python", "bash", "subreaper", "runtime directory", "spool", "web"}
    named = {check["name"] for check in as_json("doctor")} - plain
    assert {name for name in named if not name.startswith("extra ")} <= set(catalog.kinds())


def test_doctor_lists_the_extras_with_their_command() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    published = project["optional-dependencies"].keys() - {"dev", "docs"}
    checks = {check["name"]: check for check in as_json("doctor")}
    assert {name for name in checks if name.startswith("extra ")} == {
        f"extra {name}" for name in published
    }
    installed = checks["extra serve"]
    assert (installed["state"], installed["advice"]) == ("ok", "")
    assert f"uvicorn {importlib.metadata.version('uvicorn')}" in installed["found"]
    missing = checks["extra otel"]  # not among the packages for development
    assert (missing["state"], missing["advice"]) == ("missing", "pip install 'hermetic[otel]'")
    assert missing["found"].partition("not installed: ")[2].startswith("opentelemetry-distro")
    assert checks["modal"]["advice"] == "pip install 'hermetic[modal]'"
    assert checks["extra modal"]["advice"] == "see modal"
    assert hermetic("doctor").returncode == 0


def test_doctor_says_what_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    done = hermetic("doctor")
    assert done.returncode == 1
    assert re.search(r"^missing +bash", done.stdout.decode(), re.MULTILINE)
    assert re.search(r"^broken +local", done.stdout.decode(), re.MULTILINE)


def test_the_demonstration_tells_its_story_without_a_terminal() -> None:
    done = hermetic("demo")
    assert (done.returncode, done.stderr) == (0, b"")
    told = done.stdout.decode()
    assert told.count("hello from demo, in /tmp") == 2
    assert "exited with code 3" in told
    assert "timed out after 0.3 s" in told
    assert "processes left of it: 0" in told
    assert "'line 2\\nline 3\\n'" in told
    assert "in this session:" in told


def test_the_demonstration_takes_commands_on_a_terminal() -> None:
    master, slave = os.openpty()
    process = subprocess.Popen([*COMMAND, "demo"], stdin=slave, stdout=slave, stderr=slave)
    os.close(slave)
    try:
        seen = read_until(master, b"hermetic> ")
        os.write(master, b"cd /; v=4; exit 2\n")
        seen = read_until(master, b"hermetic> ")
        assert b"exited with code 2" in seen
        os.write(master, b'echo "<$PROJECT>"\n')
        assert b"<demo>" in read_until(master, b"hermetic> ")
        os.write(master, b"for i in 1 2\n")
        read_until(master, b"\n> ")
        os.write(master, b"do echo n$i; done\n")
        assert b"n1\r\nn2\r\n" in read_until(master, b"hermetic> ")
        os.write(master, b":q\n")
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
        os.close(master)


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM, signal.SIGQUIT])
def test_the_demonstration_ends_its_environment_when_its_terminal_goes(
    number: signal.Signals,
) -> None:
    master, slave = os.openpty()
    process = subprocess.Popen([*COMMAND, "demo"], stdin=slave, stdout=slave, stderr=slave)
    os.close(slave)
    try:
        read_until(master, b"hermetic> ")
        os.write(master, b"echo up; sleep 600\n")
        read_until(master, b"\nup")
        process.send_signal(number)
        os.close(master)
        assert process.wait(60) >= 0
    finally:
        process.kill()
        process.wait()
    assert Records(runtime_path()).all() == []


CONSOLE = """
import sys, pathlib
from hermetic.serve import static_files
static_files.PAGE = pathlib.Path(sys.argv.pop(1))
from hermetic.cli import main
sys.exit(main())
"""


def test_the_demonstration_is_shown_in_the_console(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("<title>the page</title>")
    master, slave = os.openpty()
    words = [sys.executable, "-c", CONSOLE, str(tmp_path), "demo", "--console"]
    process = subprocess.Popen(words, stdin=slave, stdout=slave, stderr=slave)
    os.close(slave)
    try:
        seen = read_until(master, b"hermetic> ").decode()
        found = re.search(r"in your browser: (http://127.0.0.1:\d+/)#token=\S+", seen)
        assert found is not None, seen
        assert seen.index("in your browser") < seen.index("Opened a local environment")
        with urllib.request.urlopen(found[1], timeout=60) as page:
            assert b"the page" in page.read()
        os.write(master, b"echo $((6 * 7))\n")
        assert b"42" in read_until(master, b"hermetic> ")
        os.write(master, b"\x1b[A\n")  # the command before
        assert b"42" in read_until(master, b"hermetic> ")
        assert interrupt(process) == 0
    finally:
        process.kill()
        process.wait()
        os.close(master)
        shutil.rmtree(runtime_path() / "console", ignore_errors=True)
    history = Path.home() / ".local/state/hermetic/demo-history"
    assert "echo $((6 * 7))" in history.read_text()
    history.unlink()


def test_the_demonstration_goes_on_in_text_without_the_page(tmp_path: Path) -> None:
    master, slave = os.openpty()
    words = [sys.executable, "-c", CONSOLE, str(tmp_path), "demo", "--console"]
    process = subprocess.Popen(words, stdin=slave, stdout=slave, stderr=slave)
    os.close(slave)
    try:
        seen = read_until(master, b"hermetic> ")
        assert b"going on without the console: The page of the console is not built" in seen
        os.write(master, b":q\n")
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
        os.close(master)


@pytest.mark.parametrize("words", [("--once",), ()])
def test_without_a_prompt_the_demonstration_starts_no_console(words: tuple[str, ...]) -> None:
    done = hermetic("demo", "--console", *words)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"browser" not in done.stdout


def interrupt(process: "subprocess.Popen[bytes]") -> int:
    """The exit code after Ctrl-C, pressed again where it came between the prompt and readline's
    wait for input.
    """
    for _ in range(5):
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.wait(15)
    raise AssertionError("it does not end by SIGINT")


def read_until(fd: int, text: bytes) -> bytes:
    seen = b""
    while text not in seen:
        seen += os.read(fd, 4096)
    return seen


def test_sizes_and_times_are_for_people() -> None:
    assert [size(n) for n in (0, 1023, 1536, 5 << 20, 3 << 30)] == [
        "0 B",
        "1023 B",
        "1.5 KiB",
        "5.0 MiB",
        "3.0 GiB",
    ]
    assert [span(s) for s in (0.0004, 0.35, 12, 300, 7200, 200000)] == [
        "0.4 ms",
        "350 ms",
        "12 s",
        "5 min",
        "2 h",
        "2 d",
    ]
    assert age(0).endswith(" d")


def test_text_from_elsewhere_is_one_harmless_line() -> None:
    assert one_line("a\nb\tc\x1b[2J\x9b") == "a⏎b c�[2J�"
    assert len(one_line("x" * 500)) == 200
