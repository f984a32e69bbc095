"""A sandbox's life: what it shows, what it protects, how it ends, and that nothing is left on this
side.
"""

import asyncio
import os
import signal
import socket
import sys
from pathlib import Path

import pytest

import hermetic
from hermetic.environments.runtime import store
from hermetic.registry.host_process import ended
from hermetic.registry.records import Records, runtime_root
from tests.environments.sandboxes import (
    first_child_of,
    kept_of,
    left_of,
    nothing_left,
    parent_of,
    run_program,
    sandbox,
)
from tests.programs import need
from tests.scenarios.living import begin
from tests.sizes import scale


async def test_commands_work_on_the_workspace_as_the_caller(tmp_path: Path) -> None:
    (tmp_path / "in").write_text("from outside\n")
    async with sandbox(tmp_path) as environment:
        result = await environment.run("cat in; echo from inside > out; pwd; id -u")
        assert result.output == f"from outside\n{tmp_path}\n{os.geteuid()}\n"
        assert (tmp_path / "out").stat().st_uid == os.geteuid()


async def test_a_cwd_in_the_workspace_is_where_commands_start(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    async with sandbox(tmp_path, cwd="deep") as environment:
        assert (await environment.run("pwd")).output == f"{tmp_path}/deep\n"


async def test_more_directories_can_be_shown_but_not_written(tmp_path: Path) -> None:
    (tmp_path / "ws").mkdir()
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "tool").write_text("a tool\n")
    async with sandbox(tmp_path / "ws", readable=[tmp_path / "tools"]) as environment:
        result = await environment.run(f"cat {tmp_path}/tools/tool; echo x > {tmp_path}/tools/tool")
        assert result.output.startswith("a tool\n")
        assert "Read-only file system" in result.output


async def test_the_record_and_its_token_cannot_be_seen_from_inside(tmp_path: Path) -> None:
    async with sandbox(tmp_path, task="seen") as environment:
        assert "env.json" in os.listdir(kept_of(environment).directory)
        found = await environment.run(
            "find / -name env.json -not -path '/proc/*' 2>/dev/null; ls -d /tmp/hm-*"
        )
        assert "env.json" not in found.output
        await environment.close(remove=True)


async def test_a_link_in_the_place_of_the_socket_is_not_followed(tmp_path: Path) -> None:
    need("bwrap")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "host.sock"))
        listener.listen()
        listener.setblocking(False)
        (tmp_path / "ws").mkdir()
        async with sandbox(tmp_path / "ws", task="linked", lease=30) as environment:
            place = "/run/hermetic/place"
            await environment.run(f"rm {place}/s; ln -s {tmp_path}/host.sock {place}/s")
            with pytest.raises(hermetic.EnvironmentUnavailable):
                await hermetic.attach("linked")
            with pytest.raises(BlockingIOError):
                listener.accept()
            await environment.close(remove=True)


WRITES = """
echo evil > .git/hooks/pre-commit; echo evil > .git/config; echo evil >> hermetic.toml; echo evil > .hermetic/x
mkdir -p .git/hooks .hermetic; mv .git .gone; mv .hermetic .gone; mv hermetic.toml .gone; rm -rf .git .hermetic
rm -f hermetic.toml; ln -sf /tmp .git; git init -q; true
"""


async def test_what_this_side_obeys_stays_as_it_is(tmp_path: Path) -> None:
    await run_program(need("git"), "init", "-q", tmp_path)
    (tmp_path / "hermetic.toml").write_text("[policy]\n")
    (tmp_path / ".hermetic").mkdir()
    before = {
        path: path.read_bytes() for path in (tmp_path / ".git/config", tmp_path / "hermetic.toml")
    }
    hooks = sorted(os.listdir(tmp_path / ".git/hooks"))
    async with sandbox(tmp_path) as environment:
        worked = await environment.run(
            "echo a > a && git add a && git -c user.name=n -c user.email=e commit -qm a && git log --oneline | wc -l"
        )
        assert worked.output == "1\n"
        await environment.run(WRITES)
    assert {path: path.read_bytes() for path in before} == before
    assert sorted(os.listdir(tmp_path / ".git/hooks")) == hooks
    assert list((tmp_path / ".hermetic").iterdir()) == []


async def test_a_directory_that_is_no_repository_can_become_one(tmp_path: Path) -> None:
    need("git")
    async with sandbox(tmp_path) as environment:
        assert os.listdir(tmp_path) == []
        notes = " ".join(environment.isolation.notes)
        assert ".git/hooks/, .git/config, .hermetic/, hermetic.toml did not exist" in notes
        made = await environment.run(
            "git init -q . && echo a > a && git add a && git -c user.name=n -c user.email=e commit -qm a && git status"
        )
        assert made.exit_code == 0, made.output
        assert ".git/hooks/, .git/config, .hermetic/" in " ".join(environment.isolation.notes), (
            "it is as unprotected as before"
        )
    assert sorted(os.listdir(tmp_path)) == [".git", "a"]
    async with sandbox(tmp_path) as environment:  # from now on it is one
        assert (await environment.run("git config a.b c")).exit_code != 0
        assert not any(note.startswith(".git/hooks/") for note in environment.isolation.notes)


REDIRECTS = """
mkdir -p evil/hooks; printf '[core]\n\thooksPath = evil/hooks\n' > evil/config
cp -r .git/refs .git/HEAD .git/objects evil
echo ../evil > .git/commondir; echo x > .git/gitdir; cp evil/config .git/config.worktree; cp evil/config shared.inc
for d in .git/worktrees/* .git/modules/*; do echo ../../../evil > $d/commondir; cp evil/config $d/config.worktree; done
cp evil/config .git/modules/m/config; echo x > .git/modules/m/hooks/pre-commit; echo x > .husky/pre-commit; mv .husky y
mv .git/worktrees .git/x; mv .git/worktrees/wt .git/z; mv .git/modules .git/w; true
"""


async def test_nothing_that_git_is_led_to_can_be_changed(tmp_path: Path) -> None:
    git = need("git")
    workspace, outside = tmp_path / "work", tmp_path / "wt"
    await run_program(git, "init", "-q", workspace)
    author = ("-c", "user.name=n", "-c", "user.email=e")
    await run_program(git, "-C", workspace, *author, "commit", "-q", "--allow-empty", "-m", "m")
    await run_program(git, "-C", workspace, "worktree", "add", "-q", outside)
    await run_program(git, "init", "-q", "--bare", workspace / ".git/modules/m")
    (workspace / ".husky").mkdir()
    (workspace / "shared.inc").write_text("[a]\n\tb = c\n")
    for name, value in {"core.hooksPath": ".husky", "include.path": "../shared.inc"}.items():
        await run_program(git, "-C", workspace, "config", name, value)

    async def outsiders() -> list[tuple[int | None, str]]:
        where = ("rev-parse", "--path-format=absolute", "--git-common-dir", "--git-path", "hooks")
        words = ("config", "--list"), where
        places = (workspace, outside, workspace / ".git/modules/m")
        return [await run_program(git, "-C", place, *asked) for place in places for asked in words]

    before = await outsiders()
    async with sandbox(workspace) as environment:
        worked = await environment.run(
            "echo a > a && git add a && git -c user.name=n -c user.email=e commit --no-verify -qm a && git status -s"
        )
        assert (worked.exit_code, worked.output) == (0, "?? shared.inc\n")
        await environment.run(REDIRECTS)
        assert await outsiders() == before  # also while it lives
    assert await outsiders() == before
    left = {path.name for path in (workspace / ".git").iterdir()}
    assert not left & {"commondir", "gitdir", "config.worktree"}
    assert list((workspace / ".husky").iterdir()) == []


async def test_repositories_in_the_workspace_keep_their_settings(tmp_path: Path) -> None:
    git = need("git")
    trees = [tmp_path / "one", tmp_path / "group/two"]
    for tree in trees:
        await run_program(git, "init", "-q", tree)
    before = [(tree / ".git/config").read_bytes() for tree in trees]
    async with sandbox(tmp_path) as environment:
        worked = await environment.run(
            "cd group/two && echo a > a && git add a && git -c user.name=n -c user.email=e commit -qm a && git status"
        )
        assert worked.exit_code == 0, worked.output
        await environment.run(
            "for d in one group/two; do echo x > $d/.git/hooks/pre-commit; echo x > $d/.git/config;"
            " git -C $d config a.b c; echo ../../x > $d/.git/commondir; mv $d/.git $d/gone; done"
        )
    assert [(tree / ".git/config").read_bytes() for tree in trees] == before
    for tree in trees:
        assert "pre-commit" not in os.listdir(tree / ".git/hooks")
        assert "commondir" not in os.listdir(tree / ".git")


POINTERS = """
cp -r .git/modules/lib evil; rm -f evil/config
printf '[core]\\n\\tworktree = ../lib\\n\\thooksPath = .\\n' > evil/config
for tree in lib tree; do
    echo 'gitdir: ../evil' > $tree/.git; rm -f $tree/.git; mv $tree gone; mkdir -p $tree
    echo 'gitdir: ../evil' > $tree/.git
done; true
"""


async def test_submodules_and_worktrees_keep_their_repositories(tmp_path: Path) -> None:
    git = need("git")
    author = ("-c", "user.name=n", "-c", "user.email=e")
    workspace, library = tmp_path / "work", tmp_path / "library"
    for repository in (library, workspace):
        await run_program(git, "init", "-q", repository)
        await run_program(
            git, "-C", repository, *author, "commit", "-q", "--allow-empty", "-m", "m"
        )
    await run_program(
        git,
        "-C",
        workspace,
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "-q",
        "add",
        library,
        "lib",
    )
    await run_program(git, "-C", workspace, "worktree", "add", "-q", workspace / "tree")
    trees = [workspace / "lib", workspace / "tree"]
    before = [(tree / ".git").read_text() for tree in trees]
    assert all(text.startswith("gitdir:") for text in before)
    async with sandbox(workspace) as environment:
        worked = await environment.run(
            "for tree in lib tree; do echo a > $tree/a && git -C $tree add a || exit; done"
        )
        assert worked.exit_code == 0, worked.output
        await environment.run(POINTERS)
    assert [(tree / ".git").read_text() for tree in trees] == before


async def test_a_workspace_of_two_stays_protected_until_the_last_has_ended(tmp_path: Path) -> None:
    await run_program(need("git"), "init", "-q", tmp_path)
    (tmp_path / ".git/hooks").rename(tmp_path / ".git/was")
    missing = {"hooks", "commondir", "gitdir", "config.worktree"}
    async with sandbox(tmp_path) as first:
        async with sandbox(tmp_path) as second:
            await second.run(WRITES)
        await first.run(WRITES)
        async with sandbox(tmp_path) as third:
            await first.close()
            await third.run(WRITES)
            assert missing < set(os.listdir(tmp_path / ".git"))
            assert os.listdir(tmp_path / ".git/hooks") == []
    assert not missing & set(os.listdir(tmp_path / ".git"))


async def test_what_is_written_on_this_side_meanwhile_is_not_taken_away(tmp_path: Path) -> None:
    async with sandbox(tmp_path, protect=["settings"]):
        (tmp_path / "settings").write_text("[real]\n")
    assert (tmp_path / "settings").read_text() == "[real]\n"


async def test_a_repository_that_lies_elsewhere_keeps_its_pointer(tmp_path: Path) -> None:
    (tmp_path / ".git").write_text("gitdir: /somewhere/else\n")
    async with sandbox(tmp_path) as environment:
        result = await environment.run(
            "echo gitdir: /tmp/evil > .git; mv .git x; rm -f .git; cat .git"
        )
        assert result.output.endswith("gitdir: /somewhere/else\n")


async def test_nothing_inside_ends_the_environment(tmp_path: Path) -> None:
    async with sandbox(tmp_path) as environment:
        before = (await environment.info()).resident
        await environment.run("kill -9 1; kill -9 -1")
        assert (await environment.run("echo still here")).output == "still here\n"
        assert (await environment.info()).resident == before


async def test_it_ends_with_bubblewrap_and_nothing_is_left(tmp_path: Path) -> None:
    async with sandbox(tmp_path, task="killed") as environment:
        await environment.start("setsid sleep 1000")
        kept = kept_of(environment)
        resident, _ = kept.processes
        inside = first_child_of(resident.pid)
        running = await begin(environment, "echo up; sleep 1000")
        os.kill(parent_of(resident.pid), signal.SIGKILL)
        assert isinstance((await running).ending, hermetic.Lost)
        async with asyncio.timeout(20):
            await ended(inside)
        await nothing_left(kept)


async def test_it_ends_with_its_keeper_and_the_next_one_takes_away_what_is_left(
    tmp_path: Path,
) -> None:
    async with sandbox(tmp_path, task="unkept") as environment:
        kept = kept_of(environment)
        resident, keeper = kept.processes
        os.kill(keeper.pid, signal.SIGKILL)
        async with asyncio.timeout(20):
            await ended(resident.pid)
    assert left_of(kept)
    async with sandbox(tmp_path, task="unkept") as environment:
        assert (await environment.run("echo again")).output == "again\n"
        await environment.close(remove=True)
    assert left_of(kept) == []
    assert os.listdir(tmp_path) == []


OPEN_AND_WAIT = """
import asyncio, sys, hermetic
async def main():
    env = await hermetic.open("sandbox", workspace=sys.argv[1], lease=0.2, unattended=0.2, login=False)
    await env.start("setsid sleep 1000")
    print(env.id, flush=True)
    await asyncio.sleep(1000)
asyncio.run(main())
"""


@pytest.mark.slow
async def test_twenty_killed_callers_leave_nothing(tmp_path: Path) -> None:
    need("bwrap")
    seen, count = [], max(3, scale(20))
    for number in range(count):
        (tmp_path / str(number)).mkdir()
        caller = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            OPEN_AND_WAIT,
            tmp_path / str(number),
            stdout=asyncio.subprocess.PIPE,
        )
        assert caller.stdout is not None
        id = (await caller.stdout.readline()).decode().strip()
        async with hermetic.attach(id) as environment:
            seen.append(kept_of(environment))
        caller.kill()
        await caller.wait()
    for kept in seen:
        await nothing_left(kept)
    assert [os.listdir(tmp_path / str(number)) for number in range(count)] == [[]] * count


@pytest.mark.slow
async def test_a_hundred_opens_and_closes_leave_nothing(tmp_path: Path) -> None:
    seen = []
    for _ in range(max(8, scale(100))):
        async with sandbox(tmp_path) as environment:
            seen.append(kept_of(environment))
    assert [left for kept in seen for left in left_of(kept)] == []
    assert os.listdir(tmp_path) == []


async def test_a_descriptor_of_the_opener_is_not_passed_on(tmp_path: Path) -> None:
    (tmp_path / "ws").mkdir()
    (tmp_path / "secret").write_text("canary\n")
    secret = os.open(tmp_path / "secret", os.O_RDONLY)
    read, write = os.pipe()
    try:
        os.set_inheritable(secret, True)
        os.set_inheritable(write, True)
        async with sandbox(tmp_path / "ws") as environment:
            os.close(write)
            assert os.read(read, 1) == b""  # nobody else holds the other end
            result = await environment.run(f"cat <&{secret}; ls -l /proc/self/fd /proc/1/fd")
            assert "canary" not in result.output
            assert "secret" not in result.output
    finally:
        os.close(secret)
        os.close(read)


async def test_sockets_of_this_side_are_not_named_inside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSH_AUTH_SOCK", "/tmp/agent")
    monkeypatch.setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path=/run/bus")
    monkeypatch.setenv("MY_TOKEN", "canary")
    async with sandbox(tmp_path, passthrough=["MY_TOKEN"]) as environment:
        said = (await environment.run("env")).output
        assert "SSH_AUTH_SOCK" not in said
        assert "DBUS" not in said
        assert "MY_TOKEN=canary" in said


async def test_it_says_what_it_does_not_limit(tmp_path: Path) -> None:
    async with sandbox(tmp_path) as environment:
        isolation = environment.isolation
    assert (isolation.separate_files, isolation.separate_processes, isolation.separate_network) == (
        True,
        True,
        True,
    )
    assert isolation.separate_user is False
    assert isolation.shared_paths == (str(tmp_path),)
    assert any("no disk quota" in note for note in isolation.notes)
    async with sandbox(tmp_path, network=True) as environment:
        assert environment.isolation.separate_network is False
        assert any("network is this machine's own" in note for note in environment.isolation.notes)


# -- what cannot be opened


@pytest.mark.parametrize(
    "path",
    ["/", "/tmp", "/usr", "/etc/ssl", "/proc/self", "~", "~/..", "/nowhere/at/all", "/etc/passwd"],
)
async def test_a_workspace_that_must_not_be_shared_is_refused(path: str) -> None:
    need("bwrap")
    with pytest.raises(hermetic.ConfigError, match="workspace=DIRECTORY"):
        await hermetic.open("sandbox", workspace=path)


async def test_a_workspace_that_holds_our_own_records_is_refused() -> None:
    need("bwrap")
    with pytest.raises(hermetic.ConfigError, match="no command may see"):
        await hermetic.open("sandbox", workspace=os.environ["HERMETIC_RUNTIME_DIR"])


async def test_a_cwd_outside_of_the_workspace_is_refused(tmp_path: Path) -> None:
    (tmp_path / "out").symlink_to("/usr")
    for cwd in ("..", "/usr", "missing", "out"):
        with pytest.raises(hermetic.InvalidArgument, match="workspace"):
            async with sandbox(tmp_path, cwd=cwd):
                pass


async def test_a_protected_path_that_is_a_link_is_refused_and_nothing_left(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / ".hermetic").symlink_to("elsewhere")
    with pytest.raises(hermetic.ConfigError, match="symbolic link"):
        async with sandbox(tmp_path):
            pass
    assert sorted(os.listdir(tmp_path)) == [".hermetic", "elsewhere"]
    with pytest.raises(hermetic.ConfigError, match="protect"):
        async with sandbox(tmp_path, protect=["../x"]):
            pass


async def test_a_missing_bubblewrap_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(hermetic.EnvironmentUnavailable, match="apt install bubblewrap"):
        await hermetic.open("sandbox", workspace=tmp_path)
    assert os.listdir(tmp_path) == []


async def test_an_old_bubblewrap_is_told_from_one_that_will_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/bwrap").write_text("#!/bin/sh\n# knows --perms\n")
    (tmp_path / "bin/bwrap").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    with pytest.raises(hermetic.EnvironmentUnavailable, match=r"too old.*--size"):
        await hermetic.open("sandbox", workspace=tmp_path)


OPEN = """
import asyncio, os, sys, hermetic
async def main():
    try:
        async with hermetic.open("sandbox", workspace=sys.argv[1], lease=5) as env:
            print((await env.run("echo works")).output)
    except hermetic.EnvironmentUnavailable as error:
        print("unavailable:", error)
    print(os.listdir(sys.argv[1]), [name for name in os.listdir(os.environ["HERMETIC_RUNTIME_DIR"])])
asyncio.run(main())
"""


async def test_forbidden_namespaces_are_told_with_what_to_do_and_nothing_is_left(
    tmp_path: Path,
) -> None:
    need("bwrap")
    (tmp_path / "ws").mkdir()
    (tmp_path / "run").mkdir(mode=0o700)
    forbidden = 'echo 0 >/proc/sys/user/max_user_namespaces && exec "$@"'
    argv = [
        need("unshare"),
        "-Ur",
        "sh",
        "-c",
        forbidden,
        "sh",
        sys.executable,
        "-c",
        OPEN,
        str(tmp_path / "ws"),
    ]
    _, said = await run_program(*argv, environ={"HERMETIC_RUNTIME_DIR": str(tmp_path / "run")})
    assert "unavailable: this user may make no namespaces here" in said
    assert "sysctl -w" in said
    assert said.endswith("[] []\n")


async def test_without_a_workspace_it_is_the_current_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need("bwrap")
    monkeypatch.chdir(tmp_path)
    code, said = await run_program(
        sys.executable, "-m", "hermetic", "run", "--env", "sandbox", "--", "pwd; false"
    )
    assert (code, said) == (1, f"{tmp_path}\n")


async def test_the_resident_can_run_on_the_portable_runtime(tmp_path: Path) -> None:
    async with sandbox(tmp_path, runtime="portable") as environment:
        info = await environment.info()
        assert (info.runtime, info.bash) == ("portable python and bash", "/.hermetic/bin/bash")
        assert (
            await environment.run("bash -c 'echo $BASH'; : >out; ls -d /.hermetic")
        ).output.endswith("/.hermetic\n")
        assert "Read-only" in (await environment.run(": >/.hermetic/new")).output
        record = Records(runtime_root()).read(environment.id)
        assert record is not None
        # which keeps it from being collected
        assert record.place["runtime"] == (await store.portable()).digest


async def test_a_workspace_that_holds_the_portable_runtimes_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need("bwrap")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for path in (store.runtime_cache(), tmp_path):
        with pytest.raises(hermetic.ConfigError, match="no command may see"):
            await hermetic.open("sandbox", workspace=path)
