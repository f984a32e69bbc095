"""Images that lack Python, bash or both: the portable runtime is mounted, and nothing of it shows
to commands.
"""

import asyncio
import io
import os
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

import hermetic
from hermetic.contract.environment import Started
from hermetic.contract.errors import EnvironmentUnavailable
from hermetic.environments.containers.start import ContainerStart
from hermetic.environments.runtime import choice, store
from hermetic.environments.runtime.choice import Mount, RuntimeChoice
from hermetic.link.archive import NO_PYTHON_CODE
from hermetic.registry.records import is_id, runtime_root
from tests.boxes import opened_in
from tests.environments.apptainers import Apptainers, write_docker_archive
from tests.environments.engines import (
    ENGINES,
    PODMAN,
    ask,
    both_engines,
    containers,
    need_engine,
    ours,
)
from tests.programs import need, need_variable
from tests.sizes import at_full_size

pytestmark = pytest.mark.slow
SECONDS = 60.0

WHICH = {
    "IMAGE_BASE": "image",
    "IMAGE_NOPYTHON": "portable python",
    "IMAGE_MINIMAL": "portable python",
    "IMAGE_NOBASH": "portable bash",
    "IMAGE_SCRATCH": "portable python and bash",
    "IMAGE_MUSL": "portable python and bash",
}


IN_PODMAN = ("IMAGE_SCRATCH", "IMAGE_NOBASH")  # the mounts of both programs, and of bash alone
EVERY = [
    pytest.param(
        engine, image, marks=() if engine == "docker" or image in IN_PODMAN else pytest.mark.full
    )
    for engine in ENGINES
    for image in WHICH
]


@pytest.mark.parametrize(("engine", "image"), EVERY, indirect=["engine"])
async def test_only_what_an_image_lacks_is_brought_along(engine: str, image: str) -> None:
    async with hermetic.open(engine, image=need_variable(image)) as env:
        info = await env.info()
        assert (info.runtime, info.weak) == (WHICH[image], ())
        await env.run('kept="two words"')
        has_python = image in ("IMAGE_BASE", "IMAGE_MINIMAL", "IMAGE_NOBASH")
        assert (await env.run("command -v python3")).output == "/usr/bin/python3\n" * has_python
        assert (await env.run('echo "$kept"')).output == "two words\n"


async def test_a_known_image_is_started_once(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    starts = []

    async def counted(self: ContainerStart, name: str, errors: int) -> Started:
        starts.append(name)
        return await once(self, name, errors)

    once = ContainerStart._once
    monkeypatch.setattr(ContainerStart, "_once", counted)
    image = f"hermetic-test-unknown-{os.getpid()}"
    ask(engine, ["tag", need_variable("IMAGE_SCRATCH"), image])
    try:
        for count in (3, 4):  # the image's own, with a Python, with both; then with both at once
            async with hermetic.open(engine, image=image):
                assert len(starts) == count
    finally:
        ask(engine, ["rmi", image])


async def test_commands_see_nothing_of_the_runtime(engine: str) -> None:
    async with hermetic.open(engine, image=need_variable("IMAGE_SCRATCH"), cwd="/tmp") as env:
        variables = (await env.run("export -p")).output
        assert not [
            line
            for line in variables.splitlines()
            if "/.hermetic" in line or " LD_" in line or " PYTHON" in line
        ]
        assert "/.hermetic" not in (await env.run("echo $PATH $SHELL $BASH $0")).output
        shown = "busybox readlink /proc/$$/exe; cat /proc/$$/comm; bash -c 'echo $BASH; busybox readlink /proc/$$/exe; :'"
        assert (await env.run(shown)).output.split() == [
            "/bin/bash",
            "bash",
            "/bin/bash",
            "/bin/bash",
        ]
        script = "printf '#!/bin/bash\\necho \"$BASH $1\"\\n' >s; busybox chmod +x s; ./s a; bash s b; bash -c './s c'"
        assert (await env.run(script)).output == "/bin/bash a\n/bin/bash b\n/bin/bash c\n"


@pytest.mark.full
async def test_characters_are_counted(engine: str) -> None:
    async with hermetic.open(
        engine, image=need_variable("IMAGE_SCRATCH"), env={"LC_ALL": "C.UTF-8"}
    ) as env:
        assert (await env.run("x=äö; echo ${#x}; bash -c 'x=äö; echo ${#x}'")).output == "2\n2\n"


async def test_terminals_scripts_files_and_trees_work_there(engine: str) -> None:
    async with hermetic.open(engine, image=need_variable("IMAGE_SCRATCH"), cwd="/tmp") as env:
        process = await env.start("[ -t 0 ] && echo tty; read x; echo got $x", pty=True)
        await process.wait_for("tty", timeout=SECONDS)
        await process.submit("line")
        await process.wait_for("got line", timeout=SECONDS)
        await env.write_file("/tmp/a", "one\ntwo\n")
        await env.patch("/tmp/a", "two", "three")
        assert await env.read_file("/tmp/a") == "one\nthree\n"
        assert "three" in str(await env.search_files("thr", path="/tmp"))
        ended = await env.run(
            "busybox sleep 600 & (busybox sleep 601 &); busybox sleep 602", timeout=1
        )
        assert isinstance(ended.ending, hermetic.TimedOut)
        left = "for p in /proc/[0-9]*/cmdline; do read -rd '' line <$p; [ \"$line\" = busybox ] && echo $p; done"
        assert (await env.run(left)).output == ""


HTTPS = """\
import http.server, ssl, threading, urllib.error, urllib.request

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"verified")

    def log_message(self, *words):
        pass

server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
own = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
own.load_cert_chain("/server.pem")
server.socket = own.wrap_socket(server.socket, server_side=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
try:
    print(urllib.request.urlopen(f"https://127.0.0.1:{server.server_port}").read().decode())
except urllib.error.URLError as error:
    print(error.reason.reason)
"""


def make_certificate(server: Path, kept: Path) -> None:
    """A key and a certificate of this machine in one file, and the certificate in another."""
    words = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    words += ["-subj", "/CN=test", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2"]
    kept.parent.mkdir(parents=True)
    words += ["-keyout", str(server), "-out", str(kept)]
    subprocess.run([need("openssl"), *words], check=True, capture_output=True)
    server.write_text(server.read_text() + kept.read_text())


@pytest.mark.parametrize(
    ("kept_at", "answer"),
    [
        pytest.param(  # Fedora
            "etc/pki/tls/certs/ca-bundle.crt", "verified", marks=pytest.mark.full
        ),
        ("etc/ssl/cert.pem", "verified"),  # Alpine
        ("etc/elsewhere.pem", "CERTIFICATE_VERIFY_FAILED"),
    ],
)
async def test_a_script_verifies_a_server_by_the_certificates_of_the_image(
    kept_at: str, answer: str, tmp_path: Path
) -> None:
    need_engine("docker")
    make_certificate(tmp_path / "server.pem", tmp_path / kept_at)
    with changed_image("docker", "IMAGE_SCRATCH", {"A": "b"}, tmp_path) as image:
        async with opened_in("docker", {"image": image, "cwd": "/tmp"}) as box:
            said = await box.call("execute_code", code=HTTPS)
            assert (said["status"], said["output"]) == ("success", f"{answer}\n"), said


@pytest.mark.full
async def test_a_virtual_environment_of_a_python_without_ctypes_is_the_images_own(
    engine: str, tmp_path: Path
) -> None:
    """The resident runs on the portable Python, and commands and scripts on that of the image."""
    own = tmp_path / "project/.venv/bin"
    own.mkdir(parents=True)
    (own / "python3").symlink_to("/usr/bin/python3")
    (own.parent / "pyvenv.cfg").write_text(
        "home = /usr/bin\ninclude-system-site-packages = false\n"
    )
    path = "/project/.venv/bin:/usr/bin:/bin"
    with changed_image(engine, "IMAGE_MINIMAL", {"PATH": path}, tmp_path) as image:
        async with opened_in(engine, {"image": image, "cwd": "/project"}) as box:
            async with box.toolbox.fleet.use("t") as environment:
                info = await environment.info()
                assert (info.runtime, info.weak) == ("portable python", ())
            code = "import sys; print(sys.executable, sys.prefix)"
            said = await box.terminal(f"command -v python3; .venv/bin/python3 -c '{code}'")
            own_python = "/project/.venv/bin/python3"
            assert said["output"].split() == [own_python, own_python, "/project/.venv"]
            script = (
                f"from hermetic_tools import terminal\n{code}\nprint(terminal('echo on')['output'])"
            )
            answer = await box.call("execute_code", code=script)
            assert answer["output"].split() == [own_python, "/project/.venv", "on"], answer


@pytest.mark.full
async def test_a_python_without_ctypes_is_used_where_nothing_better_can_be_had(
    engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def none() -> store.Runtime:
        raise store.CannotBuild("no portable runtime can be built here")

    monkeypatch.setattr(choice, "portable", none)
    async with hermetic.open(engine, image=need_variable("IMAGE_MINIMAL")) as env:
        info = await env.info()
        assert (info.runtime, info.weak != ()) == ("image", True)


@both_engines
@pytest.mark.parametrize("programs", [(), ("usr/bin/python3", "usr/bin/bash")])
async def test_an_image_for_another_architecture_is_refused(
    engine: str, programs: tuple[str, ...], tmp_path: Path
) -> None:
    with open("/bin/true", "rb") as file:  # noqa: ASYNC230
        program = bytearray(file.read())
    program[18:20] = (243).to_bytes(2, "little")  # RISC-V, in its header
    with tarfile.open(tmp_path / "layer.tar", "w") as layer:
        for path in programs:
            member = tarfile.TarInfo(path)
            member.size, member.mode = len(program), 0o755
            layer.addfile(member, io.BytesIO(program))
    image = f"hermetic-test-foreign-{os.getpid()}:latest"
    write_docker_archive(
        tmp_path / "image.tar", tmp_path / "layer.tar", [], architecture="riscv64", name=image
    )
    ask(engine, ["load", "--input", str(tmp_path / "image.tar")])
    try:
        with pytest.raises(
            EnvironmentUnavailable,
            match=r"is for riscv64 machines, and this one is .*; use an image",
        ):
            await hermetic.open(engine, image=image)
        assert ours(engine) == []
    finally:
        ask(engine, ["rmi", "--force", image])


@contextmanager
def changed_image(
    engine: str, base: str, variables: dict[str, str], files: Path | None = None
) -> Iterator[str]:
    """An image like another, with more variables and the files of a directory in its root."""
    image = f"hermetic-test-changed-{os.getpid()}"
    container = ask(engine, ["create", need_variable(base), "/bin/busybox"])
    try:
        if files is not None:
            ask(engine, ["cp", f"{files}/.", f"{container}:/"])
        changes = [
            word
            for name, value in variables.items()
            for word in ("--change", f"ENV {name}={value}")
        ]
        ask(engine, ["commit", *changes, container, image])
        yield image
    finally:
        ask(engine, ["rm", container])
        ask(engine, ["rmi", "-f", image])


@pytest.mark.full
async def test_the_image_has_its_own_library_path(engine: str, tmp_path: Path) -> None:
    (tmp_path / "broken").mkdir()
    for name in ("libc.so.6", "libm.so.6", "libtinfo.so.6"):
        (tmp_path / "broken" / name).write_text("no library")
    variables = {"LD_LIBRARY_PATH": "/broken", "PYTHONHOME": "/nowhere"}
    with changed_image(engine, "IMAGE_SCRATCH", variables, tmp_path) as image:
        async with hermetic.open(engine, image=image) as env:
            said = await env.run("echo $LD_LIBRARY_PATH $PYTHONHOME; bash -c 'echo in'")
            assert said.output == "/broken /nowhere\nin\n"


def make_libraries(directory: Path) -> None:
    """A library to preload, and in /usr/lib the one it needs, which only the image's own loader
    finds.
    """
    needed = directory / "usr/lib/libneeded.so"
    needed.parent.mkdir(parents=True)
    link = [need("gcc"), "-shared", "-x", "c", "/dev/null", "-x", "none", "-o"]
    subprocess.run([*link, str(needed), "-Wl,-soname,libneeded.so"], check=True)
    subprocess.run(
        [*link, str(directory / "preloaded.so"), "-Wl,--no-as-needed", str(needed)], check=True
    )


@pytest.mark.parametrize(
    ("base", "seen"), [("IMAGE_SCRATCH", ""), ("IMAGE_NOPYTHON", "/preloaded.so")]
)
async def test_what_the_image_preloads_is_left_to_its_own_programs(
    engine: str, base: str, seen: str, tmp_path: Path
) -> None:
    make_libraries(tmp_path)
    with changed_image(engine, base, {"LD_PRELOAD": "/preloaded.so"}, tmp_path) as image:
        async with hermetic.open(engine, image=image) as env:
            assert (
                await env.run('echo "$LD_PRELOAD"; bash -c "echo up"')
            ).output == f"{seen}\nup\n"
            notes = [
                note
                for note in env.isolation.notes
                if "LD_PRELOAD=/preloaded.so of the image is not set" in note
            ]
            assert bool(notes) == (not seen)


@pytest.fixture(params=["docker", PODMAN, "apptainer", "sandbox"])
def place(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, Any]:
    """Options of an environment that gets the runtime by a mount."""
    kind = str(request.param)
    if kind == "apptainer":
        Apptainers(tmp_path, monkeypatch)
        return {"kind": kind, "image": need_variable("IMAGE_SCRATCH_SIF")}
    if kind == "sandbox":
        need("bwrap")
        (tmp_path / "workspace").mkdir()
        return {"kind": kind, "workspace": str(tmp_path / "workspace"), "runtime": "portable"}
    need_engine(kind)
    return {"kind": kind, "image": need_variable("IMAGE_SCRATCH")}


def left(place: dict[str, Any]) -> list[str]:
    """What is there of an environment that did not come up."""
    directories = [path.name for path in runtime_root().iterdir() if is_id(path.name)]
    return directories + (ours(place["kind"]) if place["kind"] in ENGINES else [])


async def test_an_engine_that_cannot_mount_it_is_an_error_that_says_what_to_do(
    place: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = [Mount("/nowhere/on/this/machine", "/.hermetic")]
    monkeypatch.setattr(
        RuntimeChoice, "mounts", property(lambda choice: wrong if choice.lacks else [])
    )
    with pytest.raises(
        EnvironmentUnavailable,
        match=r"(?s)cannot be mounted or does not run there; use an environment with.*nowhere",
    ):
        await hermetic.open(**place)
    assert left(place) == []


TOO_OLD = """\
#!/bin/sh
while read -r line; do :; done
echo FATAL: kernel too old >&2
exit 127
"""


async def test_a_runtime_that_the_kernel_is_too_old_for_is_an_error_that_says_what_to_do(
    place: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the C library says it; no kernel is so old that it could be had for a test.

    It reads its input first: podman now and then loses the last output of a program that does not.
    """
    runtime = await store.portable()
    broken = tmp_path / "runtime"
    shutil.copytree(runtime.directory, broken)
    (broken / "python/bin/python3").write_text(TOO_OLD)
    damaged = msgspec.structs.replace(runtime, directory=str(broken))

    async def obtain(self: RuntimeChoice) -> store.Runtime:
        return damaged

    monkeypatch.setattr(RuntimeChoice, "obtain", obtain)
    with pytest.raises(
        EnvironmentUnavailable,
        match=r"(?s)does not run there; use an environment with.*kernel too old",
    ):
        await hermetic.open(**place)
    assert left(place) == []


async def test_a_container_that_is_removed_behind_our_back_is_lost(engine: str) -> None:
    env = await hermetic.open(engine, image=need_variable("IMAGE_SCRATCH"))
    process = await env.start("echo up; busybox sleep 600")
    await process.wait_for("up", timeout=SECONDS)
    running = asyncio.create_task(env.run("busybox sleep 600"))
    ask(engine, ["rm", "-f", *containers(engine, f"hermetic.id={env.id}")])
    async with asyncio.timeout(SECONDS):
        assert isinstance((await running).ending, hermetic.Lost)
    await env.close()


@pytest.mark.parametrize(
    ("image", "lacking"), [("IMAGE_SCRATCH", "python3 >= 3.8"), ("IMAGE_NOBASH", "bash >= 4.4")]
)
async def test_the_image_alone_can_be_asked_for(engine: str, image: str, lacking: str) -> None:
    with pytest.raises(
        EnvironmentUnavailable,
        match=f"no {lacking} there; use another image, or the option runtime",
    ):
        await hermetic.open(engine, image=need_variable(image), runtime="image")
    assert ours(engine) == []


async def test_the_runtime_can_be_asked_for(engine: str) -> None:
    async with hermetic.open(engine, image=need_variable("IMAGE_BASE"), runtime="portable") as env:
        info = await env.info()
        assert (info.runtime, info.bash) == ("portable python and bash", "/.hermetic/bin/bash")
        assert (
            await env.run("bash -c 'echo $BASH'; command -v python3")
        ).output == "/usr/bin/bash\n/usr/bin/python3\n"
    runtime = await store.portable()
    async with hermetic.open(
        engine, image=need_variable("IMAGE_SCRATCH"), runtime=runtime.directory
    ) as env:
        assert (await env.info()).runtime == "portable python and bash"


async def test_a_damaged_runtime_is_refused_before_anything_starts(
    engine: str, tmp_path: Path
) -> None:
    with pytest.raises(EnvironmentUnavailable, match="holds no portable runtime"):
        await hermetic.open(engine, image=need_variable("IMAGE_SCRATCH"), runtime=str(tmp_path))
    assert ours(engine) == []


@pytest.mark.parametrize("user", [*at_full_size(None), "1000"])
async def test_long_output_is_kept_without_a_directory_for_it(
    engine: str, user: str | None
) -> None:
    async with hermetic.open(
        engine, image=need_variable("IMAGE_SCRATCH"), user=user, cwd="/tmp"
    ) as env:
        result = await env.run("for ((i = 0; i < 100000; i++)); do echo line $i; done")
        assert len(result.data) == 1 << 20
        assert result.output.endswith("line 99999\n")


@pytest.mark.full
async def test_another_image_of_the_same_name_is_noticed(engine: str) -> None:
    name = f"hermetic-test-renamed-{os.getpid()}"
    try:
        for image in ("IMAGE_SCRATCH", "IMAGE_NOPYTHON", "IMAGE_BASE"):
            ask(engine, ["tag", need_variable(image), name])
            async with hermetic.open(engine, image=name) as env:
                assert (await env.info()).runtime == WHICH[image]
            assert ours(engine) == []
    finally:
        ask(engine, ["rmi", name])


async def test_an_old_bash_is_not_used_and_not_hidden(engine: str, tmp_path: Path) -> None:
    old = tmp_path / "usr/local/bin/bash"
    old.parent.mkdir(parents=True)
    old.write_text("#!/bin/sh\n# @(#)Bash version 4.2.46(1) release GNU\necho old\n")
    old.chmod(0o755)
    with changed_image(engine, "IMAGE_BASE", {"A": "b"}, tmp_path) as image:
        async with hermetic.open(engine, image=image) as env:
            info = await env.info()
            assert (info.runtime, info.bash) == ("portable bash", "/.hermetic/bin/bash")
            assert (
                await env.run("echo $A $BASH; bash -c 'echo new'")
            ).output == "b /.hermetic/bin/bash\nold\n"


async def test_an_old_python_is_not_used_and_not_hidden(engine: str, tmp_path: Path) -> None:
    old = tmp_path / "usr/local/bin/python3"
    old.parent.mkdir(parents=True)
    # Stands for an old version: the same exit code as that of our start there.
    old.write_text(f"#!/bin/sh\ncat >/dev/null; exit {NO_PYTHON_CODE}\n")
    old.chmod(0o755)
    with changed_image(engine, "IMAGE_BASE", {"A": "b"}, tmp_path) as image:
        async with hermetic.open(engine, image=image) as env:
            assert (await env.info()).runtime == "portable python"
            assert (await env.run("command -v python3")).output == "/usr/local/bin/python3\n"
