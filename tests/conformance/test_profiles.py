"""The user's profile: what it defines is there, and one that fails costs the profile, not the
session.
"""

from pathlib import Path

import pytest

import hermetic


async def run_with_profile(home: Path, profile: str, command: str) -> hermetic.Result:
    """What a command gives in a local environment whose user has this profile."""
    (home / ".bash_profile").write_text(profile)
    async with hermetic.open("local", env={"HOME": str(home)}) as environment:
        result = await environment.run(command)
        assert (await environment.run("echo usable")).output == "usable\n"
        return result


async def test_what_it_defines_is_there(tmp_path: Path) -> None:
    profile = "export FROM_PROFILE=1; plain=2; _f() { echo f; }; alias hi='echo hello'; umask 027; echo noise"
    result = await run_with_profile(tmp_path, profile, "echo $FROM_PROFILE $plain; _f; hi; umask")
    assert result.output == "1 2\nf\nhello\n0027\n"
    assert result.notes == ()


@pytest.mark.parametrize(
    "profile",
    [
        "exit 1",
        "exec sleep 0",
        "kill -9 $$",
        "set -e; false",
        "set -n",
        "exec 0<&- 1>&- 2>&-; exit 3",
    ],
)
async def test_one_that_ends_the_shell_costs_only_itself(tmp_path: Path, profile: str) -> None:
    result = await run_with_profile(tmp_path, f"export EARLY=1\n{profile}", "echo works")
    assert result.output == "works\n"
    assert any("profile" in note for note in result.notes), result.notes


@pytest.mark.parametrize(
    "profile",
    [
        "false",
        "nosuchcommand",
        "echo 'unbalanced",
        "set -eu",
        "cd /nonexistent",
        "trap 'echo bye' EXIT",
        "IFS=x",
        "read line",
        "cat",
        "builtin() { :; }; unset -f builtin",
        "shopt -s expand_aliases; alias eval=false",
    ],
)
async def test_one_with_errors_leaves_a_usable_session(tmp_path: Path, profile: str) -> None:
    assert (await run_with_profile(tmp_path, profile, "echo works")).output == "works\n"


async def test_it_can_be_left_out(tmp_path: Path) -> None:
    (tmp_path / ".bash_profile").write_text("export FROM_PROFILE=1")
    async with hermetic.open("local", env={"HOME": str(tmp_path)}, login=False) as environment:
        assert (await environment.run('echo "[$FROM_PROFILE]"')).output == "[]\n"


@pytest.mark.parametrize(
    "profile",
    ["", "PATH=/usr/bin:/bin", "PATH=/added:$PATH", "PATH=", "unset PATH", "IFS=/; PATH+=:/x"],
)
async def test_entries_of_the_callers_path_stay_in_front(tmp_path: Path, profile: str) -> None:
    (tmp_path / ".bash_profile").write_text(f"{profile}\n")
    program = tmp_path / "it's a venv" / "bin" / "python3"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\necho mine\n")
    program.chmod(0o755)
    path = f"{program.parent}:/usr/bin:/bin"
    async with hermetic.open("local", env={"HOME": str(tmp_path), "PATH": path}) as environment:
        assert (await environment.run("python3")).output == "mine\n"
        found = (await environment.run('echo "$PATH"')).output.rstrip("\n")
        assert found.startswith(path)
        assert len(set(found.split(":"))) == len(found.split(":"))
        assert ("/added" in found) == ("/added" in profile)
        assert (await environment.run("bash -c 'echo \"$PATH\"'")).output.rstrip("\n") == found


async def test_the_bashrc_is_read_once_and_can_be_left_out(tmp_path: Path) -> None:
    (tmp_path / ".bashrc").write_text("count=$((count + 1)); alias hi='echo hello'; exported=1")
    for profile, options, expected in (
        (None, {}, "1"),
        ("echo plain", {}, "1"),
        (". ~/.bashrc", {}, "1"),
        (None, {"init_files": ()}, ""),
        (None, {"init_files": ("~/other",)}, ""),
        (None, {"login": False}, ""),
    ):
        (tmp_path / ".profile").unlink(missing_ok=True)
        if profile:
            (tmp_path / ".profile").write_text(profile)
        async with hermetic.open("local", env={"HOME": str(tmp_path)}, **options) as environment:
            result = await environment.run("echo $count")
            assert (result.output, result.notes) == (f"{expected}\n", ()), (profile, options)


async def test_a_bashrc_that_ends_the_shell_costs_only_itself(tmp_path: Path) -> None:
    (tmp_path / ".bashrc").write_text("exit 3")
    async with hermetic.open("local", env={"HOME": str(tmp_path)}) as environment:
        result = await environment.run("echo works")
        assert result.output == "works\n"
        assert any("profile" in note for note in result.notes)
