"""Processes on a terminal: programs that want one work, and keys, size and screen are as a person
has them.
"""

import pytest

from hermetic import Environment, Exited, InvalidArgument, Session, Signalled
from hermetic.conformance.observing import need, output_of


async def test_there_is_a_terminal(shell: Session) -> None:
    process = await shell.start(
        "tty; [ -t 0 ] && [ -t 1 ] && [ -t 2 ] && echo all; : </dev/tty && echo own", pty=True
    )
    assert await process.wait(10) == Exited(0)
    lines = (await process.read()).data.decode().split("\r\n")
    assert lines[0].startswith("/dev/pts/")
    assert lines[1:3] == ["all", "own"]


async def test_its_size_is_what_was_asked_for(shell: Session) -> None:
    assert (
        await output_of(await shell.start("stty size", pty=True, rows=33, cols=111))
        == b"33 111\r\n"
    )


async def test_it_can_be_resized(shell: Session) -> None:
    process = await shell.start(
        "trap 'stty size' WINCH; echo up; while :; do sleep 0.02; done", pty=True
    )
    await process.wait_for("up", timeout=10)
    await process.resize(50, 132)
    await process.wait_for("50 132", timeout=10)


async def test_what_is_typed_is_echoed_and_read(shell: Session) -> None:
    process = await shell.start('read -r line; echo "got <$line>"', pty=True)
    await process.submit("hello there")
    assert await output_of(process) == b"hello there\r\ngot <hello there>\r\n"


async def test_ctrl_c_interrupts(shell: Session) -> None:
    process = await shell.start("echo up; sleep 300", pty=True)
    await process.wait_for("up", timeout=10)
    await process.keys("ctrl-c")
    assert await process.wait(10) in (Signalled(2), Exited(130))


async def test_the_end_of_input_can_be_given(shell: Session) -> None:
    process = await shell.start("cat; echo over", pty=True)
    await process.submit("line")
    await process.wait_for("line\r\nline", timeout=10)
    await process.close_input()
    assert await process.wait(10) == Exited(0)
    assert (await process.read()).data.endswith(b"over\r\n")


async def test_unknown_keys_are_refused(shell: Session) -> None:
    process = await shell.start("cat", pty=True)
    with pytest.raises(InvalidArgument):
        await process.keys("ctrl-nosuchkey")


async def test_an_interactive_bash_works(shell: Session) -> None:
    process = await shell.start(
        ["bash", "--norc", "-i"], pty=True, env={"PS1": "prompt> ", "TERM": "xterm"}
    )
    await process.wait_for("prompt> ", timeout=10)
    await process.submit("echo $((6 * 7))")
    await process.wait_for("42\r\n", timeout=10)
    await process.wait_for("prompt> ", timeout=10)
    await process.submit("bash -c 'echo in the fore''ground; exec sleep 300'")
    await process.wait_for("in the foreground", timeout=10)
    await process.keys("ctrl-c")
    await process.wait_for("prompt> ", timeout=10)
    await process.submit("exit 3")
    assert await process.wait(10) == Exited(3)


async def test_an_interactive_python_works(env: Environment, shell: Session) -> None:
    await need(env, "python3")
    process = await shell.start(
        "python3 -q -i -S -E", pty=True, env={"TERM": "dumb", "PYTHON_BASIC_REPL": "1"}
    )
    await process.wait_for(">>> ", timeout=20)
    await process.submit("print(6 * 7)")
    await process.wait_for("42", timeout=10)
    await process.submit("raise SystemExit(9)")
    assert await process.wait(10) == Exited(9)


async def test_a_password_prompt_works_and_the_secret_is_kept_out_of_the_log(
    shell: Session,
) -> None:
    process = await shell.start("read -r -s -p 'Password: ' p; echo; echo \"${#p} $p\"", pty=True)
    await process.wait_for("Password: ", timeout=10)
    await process.write_secret("open sesame")
    seen = await output_of(process)
    assert b"sesame" not in seen
    assert b"11 " in seen


async def test_the_screen_shows_what_a_person_would_see(shell: Session) -> None:
    process = await shell.start(
        r"printf 'one\ntwo\e[1;1HX\e[2;4H!'; sleep 30", pty=True, rows=5, cols=20
    )
    await process.wait_for("!", timeout=10, on="screen")
    assert (await process.screen()).split("\n")[:3] == ["Xne", "two!", ""]


async def test_a_program_that_takes_the_whole_screen_gives_it_back(shell: Session) -> None:
    switch = r"printf 'before'; read -r; printf '\e[?1049h\e[Hinside'; read -r; printf '\e[?1049l'; read -r"
    process = await shell.start(f"stty -echo; {switch}", pty=True, rows=4, cols=20)
    await process.wait_for("before", timeout=10, on="screen")
    shown = await process.shown()
    assert (shown.rows, shown.cols, shown.cursor, shown.alternate) == (4, 20, (0, 6), False)
    await process.submit("")
    await process.wait_for("inside", timeout=10, on="screen")
    shown = await process.shown()
    assert (shown.lines[0], shown.alternate) == ("inside", True)
    await process.submit("")
    await process.wait_for("before", timeout=10, on="screen")
    shown = await process.shown()
    assert (shown.text.strip(), shown.alternate, shown.cursor) == ("before", False, (0, 6))


async def test_vim_edits_a_file(env: Environment, shell: Session, directory: str) -> None:
    await need(env, "vim")
    process = await shell.start(f"vim -u NONE '{directory}/f'", pty=True, env={"TERM": "xterm"})
    await process.wait_for("~", timeout=20, on="screen")
    await process.write("ihello from vim")
    await process.keys("escape")
    await process.write(":wq\r")
    assert await process.wait(20) == Exited(0)
    assert await env.read_file(f"{directory}/f") == "hello from vim\n"


async def test_less_pages(env: Environment, shell: Session) -> None:
    await need(env, "less")
    process = await shell.start(
        "seq 1 500 | less", pty=True, rows=10, cols=40, env={"TERM": "xterm"}
    )
    await process.wait_for("9\n", timeout=10, on="screen")
    await process.keys("G")
    await process.wait_for("500", timeout=10, on="screen")
    await process.keys("q")
    assert await process.wait(10) == Exited(0)
