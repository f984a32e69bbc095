"""`hermetic completion`: the printed scripts work in the shells they are for."""

import shutil
import subprocess

import pytest

from tests.cli.program import hermetic


def completed(line: str) -> list[str]:
    """What bash offers for the last word of a line."""
    script = hermetic("completion", "bash").stdout.decode()
    call = f"COMP_WORDS=({line}) COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 )); _hermetic; echo ${{COMPREPLY[@]}}"
    done = subprocess.run(["bash", "--norc", "-c", f"{script}\n{call}"], capture_output=True, check=True)
    return done.stdout.decode().split()


def test_bash_completes_commands_and_options() -> None:
    assert completed("hermetic wai") == ["wait"]
    assert completed("hermetic logs --f") == ["--follow"]
    assert "--image" in completed("hermetic run --")


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_script_is_valid_in(shell: str) -> None:
    script = hermetic("completion", shell).stdout
    assert b"run" in script
    if shutil.which(shell):
        assert subprocess.run([shell, "-n"], input=script, capture_output=True).stderr == b""
