"""`hermetic config` shows what holds and where it comes from."""

from pathlib import Path

import pytest

from tests.cli.program import as_json, hermetic


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A settings file of the user's own."""
    path = tmp_path / "config.toml"
    path.write_text(
        '[environments.local]\nlogin = false\n[sudo]\npassword = "hunter22"\n[approvals]\nmode = "deny"\n'
        '[web]\nproxy = "http://me:hunter22@proxy.example:3128"\n'
    )
    path.chmod(0o600)
    monkeypatch.setenv("HERMETIC_CONFIG", str(path))
    monkeypatch.setenv("TERMINAL_TIMEOUT", "90")
    return path


def test_every_setting_is_shown_with_its_place_and_no_password(file: Path) -> None:
    done = hermetic("config", str(file.parent))
    lines = {line.split()[0]: line.split()[1:] for line in done.stdout.decode().splitlines()}
    assert lines["terminal.timeout"] == ["90.0", "TERMINAL_TIMEOUT"]
    assert lines["environments.local.login"] == ["false", f"{file}:2"]
    assert lines["terminal.longest_timeout"] == ["600.0", "default"]
    assert lines["sudo.password"] == ["(hidden)", f"{file}:4"]
    assert lines["sudo.timeout"] == ["45.0", "default"]
    assert lines["web.proxy"] == ["(hidden)", f"{file}:8"]
    assert lines["approvals.mode"] == ["deny", f"{file}:6"]
    assert b"hunter22" not in done.stdout + done.stderr


def test_a_machine_can_read_it(file: Path) -> None:
    said = as_json("config", str(file.parent))
    assert said["settings"]["terminal.timeout"] == 90
    assert said["places"]["environments.local.login"] == f"{file}:2"
    assert "hunter22" not in str(said)


def test_a_mistake_is_told_in_one_line(file: Path) -> None:
    file.write_text("[terminal]\ntimout = 1\n")
    done = hermetic("config", str(file.parent))
    assert done.returncode == 2
    assert done.stderr.decode().startswith(
        f"hermetic: {file}:2: no setting 'timout' in [terminal]; did you mean 'timeout'"
    )
    assert done.stderr.count(b"\n") == 1
