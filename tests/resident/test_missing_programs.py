"""An argv whose program cannot start has bash's exit code, also where directories of PATH are closed."""

import shutil
import tempfile
from pathlib import Path

from tests.environments.ordinary_user import OrdinaryUser
from tests.programs import need_root

# In bash, a program without `#!` is a script; an argv has no shell to read it.
CODE = """
import os, subprocess, sys
import hermetic.blocking
home = sys.argv[1]
closed, bad, loop, plain = (f"{home}/{name}" for name in ("closed", "bad", "loop", "plain"))
system = "/usr/bin:/bin"
PATHS = [
    *(f"{odd}:{system}" for odd in (closed, bad, loop, plain, "/etc/passwd", "x" * 5000)),
    f"{system}:{closed}", closed, ""
]
PROGRAMS = ["no-such", "denied", "orphaned", "uname", "folder", f"{bad}/denied", f"{bad}/orphaned",
            f"{bad}/none", f"{bad}/folder", f"{closed}/x", "/etc/passwd/x"]
with hermetic.blocking.open("local") as env:
    for path in PATHS:
        for program in PROGRAMS:
            ours = env.run([program], env={"PATH": path})
            shell = ["/bin/bash", "-c", 'PATH=$1; "$2"', "bash", path, program]
            bash = subprocess.run(shell, capture_output=True).returncode
            if ours.exit_code != bash:
                print(path[:60], program[:60], ours.exit_code, bash, ours.output[:200])
    print(env.run([f"{bad}/orphaned"]).output, end="")
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
        (home / "bad" / "orphaned").chmod(0o755)
        (home / "loop").symlink_to("loop")
        (home / "plain").write_text("")
        said = user.run(CODE, str(home)).splitlines()
        assert said == [f"hermetic: {home}/bad/orphaned: its interpreter is missing"]
    finally:
        shutil.rmtree(home)
