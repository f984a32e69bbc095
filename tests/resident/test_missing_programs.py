"""An argv whose program cannot start has bash's exit code, also where directories of PATH are closed."""

import shutil
import tempfile
from pathlib import Path

import hermetic.blocking
from tests.environments.ordinary_user import OrdinaryUser
from tests.programs import need, need_root

# In bash, a program without `#!` is a script; an argv has no shell to read it.
CODE = """
import os, subprocess, sys
import hermetic.blocking
home = sys.argv[1]
closed, bad, loop, plain = (f"{home}/{name}" for name in ("closed", "bad", "loop", "plain"))
system = "/usr/bin:/bin"
PATHS = [
    *(f"{odd}:{system}" for odd in (closed, bad, loop, plain, "/etc/passwd", "x" * 5000)),
    f"{system}:{closed}", closed, "", f"{closed}:{bad}:{system}", f"{closed}::{bad}"
]
PROGRAMS = ["no-such", "denied", "orphaned", "uname", "folder", "dangling", "locked", "unloaded",
            "broken", f"{bad}/denied", f"{bad}/orphaned",
            f"{bad}/none", f"{bad}/folder", f"{closed}/x", "/etc/passwd/x"]
with hermetic.blocking.open("local") as env:
    for path in PATHS:
        for program in PROGRAMS:
            ours = env.run([program], env={"PATH": path})
            shell = ["/bin/bash", "-c", 'PATH=$1; "$2"', "bash", path, program]
            bash = subprocess.run(shell, capture_output=True).returncode
            if ours.exit_code != bash:
                print(path[:60], program[:60], ours.exit_code, bash, ours.output[:200])
    scripts = ["orphaned", "windows", "locked", "unloaded", "broken", "denied", "plain"]
    for program in [*scripts, f"{bad}/plain", "no-such", f"{bad}/none", bad]:
        print(env.run([program], env={"PATH": f"{closed}:{bad}:{system}"}).output, end="")
"""


def test_a_program_that_cannot_start_has_bashs_code() -> None:
    need_root("only root becomes another user")
    home = Path(tempfile.mkdtemp(prefix="hm-user-", dir="/tmp"))
    try:
        user = OrdinaryUser("nobody", home)
        home.chmod(0o755)
        (home / "closed").mkdir(mode=0)
        (home / "bad" / "folder").mkdir(parents=True)
        (home / "bad" / "denied").write_text("#!/bin/sh\n")
        (home / "bad" / "orphaned").write_text("#!/no/such/interpreter\n")
        (home / "bad" / "windows").write_bytes(b"#!/bin/sh\r\necho\r\n")
        (home / "bad" / "locked").write_text(f"#!{home}/bad/denied -x\n")
        (home / "bad" / "plain").write_text("true\n")
        (home / "bad" / "dangling").symlink_to("nowhere")
        true = Path(need("true")).read_bytes()
        (home / "bad" / "unloaded").write_bytes(true.replace(b"/lib", b"/no/", 1))
        (home / "bad" / "broken").write_bytes(b"\x7fELF\0")
        for name in ("orphaned", "windows", "locked", "plain", "unloaded", "broken"):
            (home / "bad" / name).chmod(0o755)
        (home / "loop").symlink_to("loop")
        (home / "plain").write_text("")
        said = user.run(CODE, str(home)).splitlines()
        bad = f"{home}/bad"
        assert said == [
            f"hermetic: {bad}/orphaned: its interpreter /no/such/interpreter is missing",
            f"hermetic: {bad}/windows: its interpreter '/bin/sh\\r' is missing",
            f"hermetic: {bad}/locked: its interpreter {bad}/denied: Permission denied",
            f"hermetic: {bad}/unloaded: its loader is missing",
            f"hermetic: {bad}/broken: Exec format error",
            f"hermetic: {bad}/denied: Permission denied",
            f"hermetic: {bad}/plain: Exec format error; without a line #! it needs its interpreter as a word before it",
            f"hermetic: {bad}/plain: Exec format error; without a line #! it needs its interpreter as a word before it",
            "hermetic: no-such: command not found",
            f"hermetic: {bad}/none: No such file or directory",
            f"hermetic: {bad}: Is a directory",
        ]
    finally:
        shutil.rmtree(home)


def test_a_script_that_names_no_interpreter_is_refused_without_its_name(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("#!")
    script.chmod(0o755)
    with hermetic.blocking.open("local") as env:
        refused = env.run([str(script)])
    assert (refused.exit_code, refused.output) == (126, f"hermetic: {script}: Permission denied\n")
