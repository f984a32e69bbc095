"""The portable runtime: built from this machine's programs, found again, verified, removed when
unused.
"""

import asyncio
import io
import json
import os
import shutil
import struct
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from pathlib import Path

import pytest

from hermetic.cli.dispatch import main
from hermetic.contract.errors import ConfigError, EnvironmentUnavailable
from hermetic.contract.fleet import Removed
from hermetic.environments.runtime import build, store, upload
from hermetic.environments.runtime.choice import MEMORY, PYTHON, RuntimeChoice
from hermetic.environments.runtime.elf import Elf, Unsuitable
from hermetic.environments.runtime.store import Damaged, Runtime
from hermetic.environments.starting import StartFailed
from hermetic.fleet import garbage
from hermetic.registry import file_lock
from hermetic.registry.private import spool_base
from hermetic.registry.records import Records, runtime_root
from hermetic.tools.files.access import write_bounds
from tests.environments.sandboxes import sandbox
from tests.programs import need, need_root, unavailable
from tests.sizes import at_full_size

WHOLE_BYTES, LEAN_BYTES = 14_000_000, 6_000_000  # of the archives


@pytest.fixture
def shared() -> Runtime:
    """A runtime in the cache that all tests share."""
    return asyncio.run(store.portable(lean=True))


@pytest.fixture
def cache(shared: Runtime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of its own, with copies of what the shared one holds."""
    keys = [
        path for path in store.runtime_cache().glob("*.key") if shared.digest in path.read_text()
    ]
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    base = store.runtime_cache()
    shutil.copytree(shared.directory, base / shared.digest)
    for path in keys:
        shutil.copy(path, base)
    return base


@pytest.fixture
def builds(shared: Runtime, cache: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The directories of builds.

    Each is a copy of the shared runtime, because the store around it is tested.
    """
    found = []
    sources = [
        Path(path) for key in cache.glob("*.key") for path in json.loads(key.read_text())["sources"]
    ]

    def copy(root: Path, *, prefix: str, lean: bool) -> build.Built:
        found.append(root)
        shutil.copytree(
            shared.directory, root / prefix[1:], ignore=shutil.ignore_patterns(store.MANIFEST)
        )
        return build.Built(shared.version, sources)

    monkeypatch.setattr(build, "build", copy)
    return found


def inside(runtime: Runtime, root: Path, *argv: str, **environ: str) -> str:
    """The output of a program in a root that holds the runtime alone."""
    need_root("only root can chroot")
    target = root / runtime.prefix[1:]
    if not target.exists():
        shutil.copytree(runtime.directory, target)
    chroot = shutil.which("chroot", path="/usr/sbin:/usr/bin") or ""
    done = subprocess.run(
        [chroot, str(root), *argv], capture_output=True, text=True, env=environ, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("lean", [False, True])
def test_both_programs_run_where_nothing_else_is(lean: bool, tmp_path: Path) -> None:
    runtime = asyncio.run(store.portable(lean=lean))
    code = "import json, sys; print(json.dumps([sys.executable, sys.prefix, sys.path]))"
    said = inside(runtime, tmp_path, runtime.python, "-I", "-S", "-c", code)
    assert said.startswith(f'["{runtime.python}", "/.hermetic/python", ["/.hermetic/python/')
    assert "/usr" not in said
    said = inside(runtime, tmp_path, runtime.bash, "-c", "echo $BASH; exec $BASH -c 'echo $BASH'")
    assert said.split() == [runtime.bash] * 2


def test_bash_counts_characters(tmp_path: Path) -> None:
    runtime = asyncio.run(store.portable(lean=True))
    assert (
        inside(runtime, tmp_path, runtime.bash, "-c", "x=äö; echo ${#x}", LC_ALL="C.UTF-8") == "2"
    )


def test_libraries_of_the_image_are_not_loaded(tmp_path: Path) -> None:
    runtime = asyncio.run(store.portable(lean=True))
    for folder in ("broken", "lib", "usr/lib"):
        (tmp_path / folder).mkdir(parents=True)
        for name in ("libc.so.6", "libm.so.6", "libtinfo.so.6"):
            (tmp_path / folder / name).write_bytes(b"no library")
    said = inside(
        runtime,
        tmp_path,
        runtime.bash,
        "-c",
        f"{runtime.python} -c 'print(7)'",
        LD_LIBRARY_PATH="/broken",
    )
    assert said == "7"


def test_the_whole_standard_library_is_there(tmp_path: Path) -> None:
    runtime = asyncio.run(store.portable())
    code = (
        "import asyncio, decimal, hashlib, sqlite3, ssl, unittest, urllib.request, xml.etree.ElementTree, zoneinfo\n"
        "print('ok')"
    )
    assert inside(runtime, tmp_path, runtime.python, "-I", "-c", code) == "ok"


def test_servers_are_verified_by_the_certificates_of_the_environment(tmp_path: Path) -> None:
    """Which other distributions keep elsewhere."""
    runtime = asyncio.run(store.portable())
    words = [
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-subj",
        "/CN=test",
    ]
    certificate = tmp_path / "certificate"
    files = ["-days", "2", "-keyout", os.devnull, "-out", str(certificate)]
    subprocess.run([need("openssl"), *words, *files], check=True, capture_output=True)
    code = "import ssl; print(len(ssl.create_default_context().get_ca_certs()))"
    root = tmp_path / "root"
    assert inside(runtime, root, runtime.python, "-I", "-c", code) == "0"
    for path in (
        "etc/pki/tls/certs/ca-bundle.crt",
        "etc/ssl/cert.pem",
        "etc/ssl/certs/ca-certificates.crt",
    ):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(certificate, root / path)
        assert inside(runtime, root, runtime.python, "-I", "-c", code) == "1"
        (root / path).unlink()
    shutil.copy(certificate, root / "own.pem")
    assert inside(runtime, root, runtime.python, "-I", "-c", code, SSL_CERT_FILE="/own.pem") == "1"


@pytest.mark.parametrize(
    ("lean", "most"), [pytest.param(False, WHOLE_BYTES, marks=pytest.mark.full), (True, LEAN_BYTES)]
)
def test_archives_are_small_and_reproducible(lean: bool, most: int) -> None:
    runtime = asyncio.run(store.portable(lean=lean))
    data = upload.cargo_for(runtime, runtime.prefix).archive()
    assert len(data) <= most
    assert upload.cargo_for(runtime, runtime.prefix).archive() == data
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        members = {member.name: member for member in archive}
    assert members["bin/bash"].mode == 0o755
    assert {(member.uid, member.mtime) for member in members.values()} == {(0, 0)}


def test_another_prefix_is_built_in(tmp_path: Path) -> None:
    runtime = asyncio.run(store.portable(lean=True, prefix="/var/tmp/.h1000"))
    assert runtime.python == "/var/tmp/.h1000/python/bin/python3"
    assert inside(runtime, tmp_path, runtime.bash, "-c", f"{runtime.python} -c 'print(7)'") == "7"


def test_a_prefix_that_is_too_long_is_refused() -> None:
    with pytest.raises(EnvironmentUnavailable, match="is longer than"):
        asyncio.run(store.portable(lean=True, prefix="/var/tmp/a-directory-with-a-long-name"))


def test_it_is_built_once(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "build", lambda *_, **__: pytest.fail("built again"))
    first = asyncio.run(store.portable(lean=True))
    assert (
        asyncio.run(store.portable(lean=True))
        == first
        == asyncio.run(store.runtime_at(first.directory))
    )
    assert store.runtimes() == [first]


def test_openers_at_the_same_time_share_one_build(cache: Path, builds: list[Path]) -> None:
    shutil.rmtree(cache)

    async def both() -> tuple[Runtime, Runtime]:
        return await asyncio.gather(store.portable(lean=True), store.portable(lean=True))

    first, second = asyncio.run(both())
    assert first == second
    assert len(builds) == 1
    assert not list(cache.glob(".building-*")) + list(cache.glob("*.lock"))


def test_a_new_version_of_a_library_is_built_in(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one that only the caller's LD_LIBRARY_PATH leads to."""
    before = asyncio.run(store.portable(lean=True))
    python = build.source_files()[0]
    (library,) = (path for path in build._libraries([python]) if path.name.startswith("libm."))
    own = tmp_path / "lib" / library.name
    own.parent.mkdir()
    shutil.copy(library, own)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(own.parent))
    first = asyncio.run(store.portable(lean=True))
    assert first == before  # the same content
    inode = Path(first.directory, "lib", own.name).stat().st_ino
    data = bytearray(own.read_bytes())
    note = data.index(b"GNU C Library") if b"GNU C Library" in data else data.rindex(b"GNU")
    data[note : note + 3] = b"New"
    own.write_bytes(data)
    second = asyncio.run(store.portable(lean=True))
    assert second.digest != first.digest
    assert b"New" in Path(second.directory, "lib", own.name).read_bytes()
    assert Path(first.directory, "lib", own.name).stat().st_ino == inode
    assert asyncio.run(store.portable(lean=True)) == second


@pytest.mark.parametrize("damage", ["shortened", "changed", "removed"])
def test_a_damaged_runtime_is_built_again(cache: Path, builds: list[Path], damage: str) -> None:
    runtime = asyncio.run(store.portable(lean=True))
    library = Path(runtime.directory, "lib", "libc.so.6")
    content = library.read_bytes()
    if damage == "removed":
        library.unlink()
    else:
        library.write_bytes(
            content[:-1] if damage == "shortened" else content[:-1] + bytes([content[-1] ^ 1])
        )
    with pytest.raises(
        Damaged, match=r"libc\.so\.6 is not as it was built; use an environment with python3"
    ):
        asyncio.run(store.runtime_at(runtime.directory))
    assert asyncio.run(store.portable(lean=True)) == runtime
    assert library.read_bytes() == content
    assert len(builds) == 1
    assert not list(cache.glob(".building-*"))


def test_a_directory_without_a_runtime_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Damaged, match="holds no portable runtime"):
        asyncio.run(store.runtime_at(str(tmp_path)))


def test_a_runtime_of_another_architecture_is_refused(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = asyncio.run(store.portable(lean=True))
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    with pytest.raises(Damaged, match=r"is for \w+, not riscv64; use an environment"):
        asyncio.run(store.runtime_at(runtime.directory))


@contextmanager
def mounted(at: Path, options: str) -> Iterator[None]:
    """A file system in memory, as the cache."""
    need_root("only root can mount")
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"{options},mode=700", "tmpfs", at], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", at], check=True)


@pytest.mark.parametrize("megabytes", [1, 5, 8, 12, *at_full_size(7, 9)])
def test_a_full_disk_leaves_nothing(
    megabytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Modules are copied, then compiled, then programs and libraries are copied: the disk is full
    in each step.
    """
    with mounted(tmp_path, f"size={megabytes}m"):
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        with pytest.raises(
            EnvironmentUnavailable,
            match="No space left on device; free 60 MB there, or set XDG_CACHE_HOME",
        ):
            asyncio.run(store.portable(lean=True))
        assert not list(store.runtime_cache().iterdir())


def test_a_cache_where_no_program_runs_is_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with mounted(tmp_path, "noexec"):
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        with pytest.raises(
            EnvironmentUnavailable, match=r"\(noexec\): set XDG_CACHE_HOME to another directory"
        ):
            asyncio.run(store.portable(lean=True))


def test_a_user_without_a_home_is_told_the_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.delenv("HERMETIC_SPOOL_DIR", raising=False)
    monkeypatch.setattr(Path, "home", no_home)
    with pytest.raises(ConfigError, match="set XDG_CACHE_HOME"):
        store.runtime_cache()
    assert spool_base() in (None, Path(f"/var/tmp/hermetic-{os.geteuid()}"))
    assert RuntimeChoice("auto", "image").lacks == set()


def test_a_note_on_an_image_that_cannot_be_read_is_ignored() -> None:
    choice = RuntimeChoice("auto", "image")
    choice.lacks = {PYTHON}
    choice.remember()
    assert RuntimeChoice("auto", "image").lacks == {PYTHON}
    (note,) = (runtime_root() / MEMORY).iterdir()
    note.write_bytes(b"\xff\xfe")
    assert RuntimeChoice("auto", "image").lacks == set()


@pytest.mark.parametrize(
    ("stderr", "code", "learns"),
    [
        ('exec: "python3": executable file not found in $PATH', 255, True),
        ("", 127, True),
        ('exec: "docker-init": executable file not found in $PATH', 127, False),
        ('exec: "fuse2fs": executable file not found in $PATH', 255, False),
    ],
)
def test_only_a_missing_python_counts_as_one(stderr: str, code: int, learns: bool) -> None:
    choice = RuntimeChoice("auto", f"image of {stderr}")
    assert choice.learn(StartFailed("it ended", stderr, exit_code=code)) is learns


def test_a_runtime_that_fails_its_test_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(build, "CHECK", "import sys; sys.exit('FATAL: kernel too old')")
    with pytest.raises(
        EnvironmentUnavailable, match="FATAL: kernel too old; use an environment with python3"
    ):
        asyncio.run(store.portable(lean=True))
    assert not list(store.runtime_cache().iterdir())


def test_collecting_removes_what_is_unused(cache: Path) -> None:
    runtime = asyncio.run(store.portable(lean=True))
    (cache / ".building-0123.abc").mkdir()
    assert asyncio.run(store.collect([])) == [str(cache / ".building-0123.abc")]
    long_ago = time.time() - store.UNUSED_SECONDS - 60
    os.utime(cache / f"{runtime.digest}.used", (long_ago, long_ago))
    assert asyncio.run(store.collect([runtime.digest])) == []
    assert asyncio.run(store.collect([])) == [runtime.directory]
    asyncio.run(store.collect([]))
    assert not list(cache.iterdir())


def test_the_same_content_built_again_leaves_the_one_in_use(cache: Path) -> None:
    runtime = asyncio.run(store.portable(lean=True))
    inode = Path(runtime.directory).stat().st_ino
    for path in cache.glob("*.key"):
        path.unlink()
    assert asyncio.run(store.portable(lean=True)) == runtime
    assert Path(runtime.directory).stat().st_ino == inode


@pytest.mark.usefixtures("builds")
def test_a_damaged_runtime_stays_for_those_that_use_it(cache: Path) -> None:
    runtime = asyncio.run(store.portable(lean=True))
    Path(runtime.directory, "lib", "libc.so.6").unlink()
    assert asyncio.run(store.portable(lean=True)) == runtime
    (old,) = cache.glob(f"{runtime.digest}.old-*")
    assert (old / "bin/bash").exists()
    long_ago = time.time() - store.UNUSED_SECONDS - 60
    os.utime(old, (long_ago, long_ago))
    assert asyncio.run(store.collect([runtime.digest])) == []
    assert asyncio.run(store.collect([])) == [str(old)]
    assert asyncio.run(store.runtime_at(runtime.directory)) == runtime


@pytest.mark.usefixtures("builds")
def test_a_forged_runtime_is_not_used(cache: Path) -> None:
    """One with a manifest that fits its files, at the path of another."""
    runtime = asyncio.run(store.portable(lean=True))
    manifest = Path(runtime.directory, store.MANIFEST)
    manifest.write_bytes(manifest.read_bytes() + b"\n")
    assert store.runtimes() == []
    assert asyncio.run(store.portable(lean=True)) == runtime
    assert not manifest.read_bytes().endswith(b"\n")


def test_a_runtime_that_is_used_meanwhile_is_not_collected(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = asyncio.run(store.portable(lean=True))
    used = cache / f"{runtime.digest}.used"
    long_ago = time.time() - store.UNUSED_SECONDS - 60
    os.utime(used, (long_ago, long_ago))
    original = file_lock.locked_at_once

    def late(path: Path) -> AbstractAsyncContextManager[bool]:
        used.touch()
        return original(path)

    monkeypatch.setattr(store, "locked_at_once", late)
    assert asyncio.run(store.collect([])) == []
    assert Path(runtime.directory).is_dir()


def test_a_copy_is_verified_by_itself(cache: Path, tmp_path: Path) -> None:
    """Not by the last verification of a runtime with the same content."""
    runtime = asyncio.run(store.portable(lean=True))
    copy = tmp_path / "copy"
    shutil.copytree(runtime.directory, copy)
    library = copy / "lib/libc.so.6"
    content = library.read_bytes()
    library.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    later = time.time() + 60
    os.utime(cache / f"{runtime.digest}.used", (later, later))
    with pytest.raises(Damaged, match=r"libc\.so\.6 is not as it was built"):
        asyncio.run(store.runtime_at(str(copy)))


def test_a_change_during_the_verification_is_seen_by_the_next(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = next(path for path in cache.iterdir() if path.is_dir())
    library = directory / "lib/libc.so.6"
    original = store._sha256

    def changed(path: Path) -> str:
        found = original(path)
        if path == library:
            content = library.read_bytes()
            library.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        return found

    with monkeypatch.context() as patch:
        patch.setattr(store, "_sha256", changed)
        asyncio.run(store.runtime_at(str(directory)))
    with pytest.raises(Damaged, match=r"libc\.so\.6 is not as it was built"):
        asyncio.run(store.runtime_at(str(directory)))


def test_tools_do_not_write_to_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert f"{tmp_path}/hermetic/*" in write_bounds(None).deny


def test_only_elf_files_are_rewritten(tmp_path: Path) -> None:
    (tmp_path / "script").write_bytes(b"#!/bin/sh\n")
    with pytest.raises(Unsuitable, match="no 64-bit little-endian ELF"):
        Elf(tmp_path / "script")


def test_a_loader_of_another_libc_is_unsuitable(tmp_path: Path) -> None:
    copy = tmp_path / "bash"
    shutil.copy(shutil.which("bash") or "", copy)
    with pytest.raises(Unsuitable, match="not the loader of the GNU C library"):
        Elf(copy).set_default_directories("/.hermetic/lib")


def test_a_file_without_spare_slots_keeps_its_library_path(tmp_path: Path) -> None:
    copy = tmp_path / "bash"
    shutil.copy(build.source_files()[1], copy)
    elf = Elf(copy)
    dynamic = elf.segments(2)
    if not dynamic:
        unavailable("bash is static here")
    for at in range(dynamic[0].offset, dynamic[0].offset + dynamic[0].file_size, 16):
        if struct.unpack_from("<Q", elf.data, at)[0] == 0:
            struct.pack_into("<Q", elf.data, at, 21)
    before = bytes(elf.data)
    assert not elf.set_library_path("/.hermetic/lib", may_add=True)
    assert elf.data == before


def test_the_command_line_builds_lists_and_names_runtimes(
    capfd: pytest.CaptureFixture[str],
) -> None:
    runtime = asyncio.run(store.portable(lean=True))
    for action in ("build", "path"):
        assert main(["runtime", action, "--lean"]) == 0
        assert capfd.readouterr().out == f"{runtime.directory}\n"
    assert main(["runtime", "list"]) == 0
    assert f"{runtime.directory}  " in capfd.readouterr().out


def test_the_first_build_says_what_takes_its_time(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    environ = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    for said in (
        [
            "building the portable runtime, once for this Python and bash",
            "built the portable runtime in",
        ],
        [],
    ):
        words = [sys.executable, "-m", "hermetic", "runtime", "build", "--lean"]
        done = subprocess.run(
            words, env=environ, capture_output=True, text=True, check=True, timeout=600
        )
        lines = done.stderr.splitlines()
        assert len(lines) == len(said)
        assert all(text in line for text, line in zip(said, lines, strict=True))
        assert done.stdout.startswith(str(tmp_path))


async def test_garbage_collection_keeps_a_runtime_that_an_environment_uses(
    cache: Path, tmp_path: Path
) -> None:
    runtime = await store.portable(lean=True)
    long_ago = time.time() - store.UNUSED_SECONDS - 60
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    async with sandbox(workspace, runtime=runtime.directory) as env:
        os.utime(cache / f"{runtime.digest}.used", (long_ago, long_ago))
        removed = await garbage.collect(Records(runtime_root()))
        assert [one for one in removed if one.what == "runtime"] == []
        assert (await env.run("echo runs on")).output == "runs on\n"
        assert (await env.run("bash -c 'echo $BASH_VERSION'")).exit_code == 0
    removed = await garbage.collect(Records(runtime_root()))
    assert Removed(what="runtime", name=runtime.directory) in removed


async def test_garbage_collection_removes_an_unused_runtime(cache: Path) -> None:
    runtime = await store.portable(lean=True)
    long_ago = time.time() - store.UNUSED_SECONDS - 60
    os.utime(cache / f"{runtime.digest}.used", (long_ago, long_ago))
    removed = await garbage.collect(Records(runtime_root()))
    assert Removed(what="runtime", name=runtime.directory) in removed
