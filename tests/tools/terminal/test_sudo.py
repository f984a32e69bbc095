"""sudo in a model's command: the real one, for a user that needs a password, by ssh and in
containers.
"""

import asyncio
import json
import os
import subprocess
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from hermetic.toolbox import Toolbox
from hermetic.tools.terminal.sudo import LOCKED, MISSING, Passwords, mentions_sudo
from tests.environments.engines import need_engine
from tests.environments.sshd import running
from tests.programs import need, need_root, need_variable
from tests.sizes import at_full_size

USER = f"hermetic-sudo-{os.getpid()}"  # runs of tests at once have one each
PASSWORD = "pa ss\"w$rd'ß"
CHANNELS = ("cmdline", "environ")


@contextmanager
def user_with_password() -> Iterator[None]:
    """A user of this machine who may use sudo, with a password."""
    need_root("only root can change the machine's view")
    for program in ("sudo", "useradd", "chpasswd"):
        need(program)
    subprocess.run(["useradd", "--create-home", "--shell", "/bin/bash", USER], check=True)
    rule = Path(f"/etc/sudoers.d/{USER}")
    try:
        subprocess.run(["chpasswd"], input=f"{USER}:{PASSWORD}".encode(), check=True)
        rule.write_text(f"{USER} ALL=(ALL) ALL\nDefaults:{USER} timestamp_timeout=0\n")
        rule.chmod(0o440)
        yield
    finally:
        rule.unlink(missing_ok=True)
        subprocess.run(["userdel", "--remove", "--force", USER], check=True, capture_output=True)


def sudo_for(user: int, at: Path) -> list[str]:
    """Volumes by which an image of this machine's Debian has this machine's sudo, and a user who
    needs a password.
    """
    need_root("only root can change the machine's view")
    at.mkdir(exist_ok=True)
    sudo, openssl = need("sudo"), need("openssl")
    words = [openssl, "passwd", "-6", "-stdin"]
    sealed = (
        subprocess.run(words, input=PASSWORD.encode(), check=True, capture_output=True)
        .stdout.decode()
        .strip()
    )
    texts = {
        "passwd": f"root:x:0:0::/root:/bin/bash\n{USER}:x:{user}:{user}::/tmp:/bin/bash\nnobody:x:65534:1::/:/bin/sh\n",
        "shadow": f"root:*:19000::::::\n{USER}:{sealed}:19000::::::\n",
        "sudoers": f"root ALL=(ALL) ALL\n{USER} ALL=(ALL) ALL\nDefaults timestamp_timeout=0\n",
    }
    for name, text in texts.items():
        (at / name).write_text(text)
        (at / name).chmod(0o440 if name != "passwd" else 0o444)
    own = [f"{path}:{path}:ro" for path in (sudo, "/usr/libexec/sudo", "/etc/pam.d/sudo")]
    return own + [f"{at / name}:/etc/{name}:ro" for name in texts]


ALLOWING = [
    "--security-opt",
    "no-new-privileges=false",
    "--cap-add",
    "SETUID",
    "--cap-add",
    "SETGID",
    "--cap-add",
    "AUDIT_WRITE",
    "--cap-add",
    "DAC_OVERRIDE",
]

places = pytest.mark.parametrize("kind", ["ssh", "docker"])
# the same where the password is the matter of this side
on_this_side = pytest.mark.parametrize("kind", ["ssh", *at_full_size("docker")])


@asynccontextmanager
async def toolbox(at: Path, kind: str = "ssh", **options: Any) -> AsyncIterator[Toolbox]:
    """Where commands run as a user who needs a password, on this machine by ssh or in a container
    that allows sudo.
    """
    if kind == "docker":
        async with in_container(at, "1234", ALLOWING, **options) as box:
            yield box
        return
    with user_with_password(), running(at) as sshd:
        let_in(at, sshd.home)
        box = Toolbox(
            environment="ssh", options={**sshd.options, "user": USER}, policy="off", **options
        )
        try:
            yield box
        finally:
            await box.close(remove=True)


@asynccontextmanager
async def in_container(
    at: Path, user: str, allowing: list[str], **options: Any
) -> AsyncIterator[Toolbox]:
    need_engine("docker")
    place = {
        "image": need_variable("IMAGE_TOOLS"),
        "user": user,
        "cwd": "/tmp",
        "volumes": sudo_for(1234, at),
    }
    box = Toolbox(
        environment="docker", options={**place, "extra_args": allowing}, policy="off", **options
    )
    try:
        yield box
    finally:
        await box.close(remove=True)


def let_in(at: Path, home: Path) -> None:
    """Lets another user reach their home below the test's directory."""
    home.chmod(0o777)
    for directory in (at, *at.parents):
        if directory.is_relative_to("/tmp") and directory != Path("/tmp"):
            directory.chmod(0o755)


async def run(box: Toolbox, command: str, **more: Any) -> Any:
    return json.loads(await box.call("terminal", {"command": command, **more}, task_id="t"))


@places
async def test_the_password_is_given_to_sudo_alone(tmp_path: Path, kind: str) -> None:
    async with toolbox(tmp_path / "there", kind, sudo_password=PASSWORD) as box:
        answer = await run(box, "sudo id -u; sudo -u nobody id -un")
        assert (answer["output"], answer["exit_code"]) == ("0\nnobody\n", 0)
        # Texts, arguments and input stay as they are.
        assert (await run(box, "echo sudo 'sudo id'"))["output"] == "sudo sudo id\n"
        assert (await run(box, "echo one sudo | grep -c sudo"))["output"] == "1\n"
        assert (await run(box, "cat <<'E'\nsudo rm x\nE"))["output"] == "sudo rm x\n"
        assert (await run(box, "printf 'a\\nb\\n' | sudo tee /dev/null | wc -l"))["output"] == "2\n"
        assert (await run(box, "sudo cat", stdin="my input"))["output"] == "my input"
        assert (await run(box, "if true; then ! time sudo false; fi"))["exit_code"] == 0
        # A command that runs the program itself is nobody's child of sudo.
        answer = await run(box, '"$SUDO_ASKPASS" sudo; echo $?; env | grep -c ASKPASS')
        assert answer["output"] == "1\n1\n"
        assert (await run(box, "echo [$SUDO_ASKPASS$DISPLAY]"))["output"] == "[]\n"


@places
async def test_the_password_is_nowhere_to_be_seen(tmp_path: Path, kind: str) -> None:
    async with toolbox(tmp_path / "there", kind, sudo_password=PASSWORD) as box:
        started = await run(box, "sudo sleep 100", background=True)
        while not any("sleep 100" in " ".join(words) for words in arguments()):  # noqa: ASYNC110 — nobody tells of it
            await asyncio.sleep(0.05)
        found = [
            f"/proc/{pid}/{name}"
            for pid in os.listdir("/proc")
            if pid.isdigit()
            for name in CHANNELS
            if PASSWORD.encode() in read(f"/proc/{pid}/{name}")
        ]
        assert found == []
        printed = await run(box, f"sudo true; cat <<'E'\n{PASSWORD}\nE")
        assert PASSWORD not in printed["output"]
        assert json.loads(await box.call("process", {"action": "list"}, task_id="t"))["count"] == 1
        await box.call(
            "process", {"action": "kill", "session_id": started["session_id"]}, task_id="t"
        )


@on_this_side
async def test_a_wrong_password_is_forgotten_and_told(tmp_path: Path, kind: str) -> None:
    asked: list[str] = []
    answers = ["wrong", PASSWORD, PASSWORD]

    def ask(prompt: str, task: str) -> str | None:
        asked.append(task)
        return answers[len(asked) - 1]

    async with toolbox(tmp_path / "there", kind, ask_password=ask) as box:
        answer = await run(box, "sudo id -u")
        assert answer["exit_code"] == 0
        assert "0\n" in answer["output"]
        assert answer["sudo_auth_failed"]
        assert answer["sudo_cache_cleared"]
        answer = await run(box, "sudo id -u")
        assert (answer["output"], "sudo_auth_failed" in answer) == ("0\n", False)
        assert asked == ["t", "t"]  # the second one is remembered


async def test_a_plain_function_that_waits_for_a_person_leaves_the_event_loop_free() -> None:
    typed = threading.Event()
    asking = asyncio.create_task(
        Passwords(ask=lambda prompt, task: PASSWORD if typed.wait(20) else None).get("t", "")
    )
    await asyncio.sleep(0)  # it is called now
    typed.set()
    assert await asking == PASSWORD


async def test_a_person_has_the_time_that_the_settings_say() -> None:
    async def ask(prompt: str, task: str) -> str | None:
        return await asyncio.Future()

    assert await asyncio.wait_for(Passwords(ask=ask, seconds=0.01).get("t", ""), 30) is None


@pytest.mark.parametrize(
    "how", [{}, {"background": True}, {"stdin": "guess\n"}, {"pty": True}], ids=str
)
async def test_sudo_that_reads_a_password_from_its_input_needs_an_approval(
    tmp_path: Path, how: dict[str, Any]
) -> None:
    box = Toolbox(options={"login": False, "cwd": str(tmp_path)})
    try:
        for command in ("sudo -S id", "sudo -k --stdin id"):
            answer = await run(box, command, **how)
            assert (answer["status"], "password" in answer["error"]) == ("blocked", True), answer
        assert box.fleet.tasks == []
    finally:
        await box.close()


async def test_sudo_typed_into_a_shell_that_runs_needs_an_approval(tmp_path: Path) -> None:
    box = Toolbox(options={"login": False, "cwd": str(tmp_path)})
    try:
        id = (await run(box, "bash", background=True))["session_id"]
        given = {"action": "submit", "session_id": id, "data": "sudo -S id"}
        answer = json.loads(await box.call("process", given, task_id="t"))
        assert (answer["status"], "password" in answer["error"]) == ("blocked", True), answer
    finally:
        await box.close(remove=True)


@on_this_side
async def test_somebody_who_cannot_answer_is_no_answer(tmp_path: Path, kind: str) -> None:
    async def ask(prompt: str, task: str) -> str | None:
        raise RuntimeError("the terminal is closed")

    async with toolbox(tmp_path / "there", kind, ask_password=ask) as box:
        assert (await run(box, "sudo id"))["exit_code"] == 1


@on_this_side
async def test_without_a_password_it_fails_on_its_own(tmp_path: Path, kind: str) -> None:
    async with toolbox(tmp_path / "there", kind) as box:
        answer = await run(box, "sudo id")
        assert answer["exit_code"] == 1, answer
        assert "a terminal is required" in answer["output"]
        assert "sudo_password" in answer["hint"]
    async with toolbox(tmp_path / "again", kind, sudo_password="wrong") as box:
        answer = await run(box, "sudo id")
        assert answer["exit_code"] == 1
        assert answer["sudo_auth_failed"]


@pytest.mark.parametrize("user", ["1234", "0"])
async def test_in_a_container_that_lets_nobody_gain_rights_it_says_so(
    tmp_path: Path, user: str
) -> None:
    async with in_container(tmp_path, user, [], sudo_password=PASSWORD) as box:
        answer = await run(box, "sudo id -u")
        if user == "0":  # root needs no password and no rights
            assert "0" in answer["output"].splitlines()
            assert "hint" not in answer
        else:
            assert 'The "no new privileges" flag is set' in answer["output"]
            assert "Go on without sudo" in answer["hint"]


@pytest.mark.parametrize("kind", ["docker", "sandbox"])
async def test_a_place_where_it_cannot_work_says_what_to_do(tmp_path: Path, kind: str) -> None:
    options: dict[str, Any] = {"workspace": str(tmp_path)}
    if kind == "docker":
        need_engine("docker")
        options = {"image": need_variable("IMAGE_BASE")}
    else:
        need("bwrap")
    box = Toolbox(environment=kind, options=options, policy="off", sudo_password=PASSWORD)
    try:
        answer = await run(box, "sudo id -u")
        assert answer["exit_code"] != 0, answer
        assert answer.get("hint") == (MISSING if kind == "docker" else LOCKED), answer
    finally:
        await box.close(remove=True)


def arguments() -> Iterator[list[str]]:
    for pid in os.listdir("/proc"):
        if pid.isdigit():
            yield read(f"/proc/{pid}/cmdline").decode("utf-8", "replace").split("\0")


def read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""


@pytest.mark.parametrize(
    ("text", "does"),
    [
        ("sudo id", True),
        ("x | sudo tee f", True),
        ("/usr/bin/sudo id", True),
        ("(sudo id)", True),
        ("if sudo -n true; then", True),
        ("visudo", False),
        ("cat /etc/sudoers", False),
        ("sudo-rs", False),
        ("pseudosudo", False),
    ],
)
def test_the_word_is_known(text: str, does: bool) -> None:
    assert bool(mentions_sudo(text)) is does
