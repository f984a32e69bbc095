"""What a Python text would do, and what writing a file means, without a shell in between."""

import pytest

from hermetic.contract.environment import Isolation
from hermetic.policy import examine_python, examine_writes
from hermetic.policy.assess import Surroundings, assess

CONTAINER = Isolation(
    kind="docker", separate_files=True, separate_processes=True, separate_user=True
)


@pytest.mark.parametrize(
    ("source", "label"),
    [
        ("print(1)", "safe"),
        ("from hermetic_tools import terminal\nterminal('ls')", "safe"),
        ("import os\nos.system('rm -rf /')", "dangerous"),
        ("import shutil\nshutil.rmtree('/home/dev/photos')", "dangerous"),
        ("open('/etc/passwd', 'w').write('x')", "dangerous"),
        ("open('notes.txt', 'w').write('x')", "safe"),
        ("é = 'ß'\nimport os\nos.remove('/home/dev/ünder')", "dangerous"),
        ("import functools\n@functools.cache\ndef f(x): return x\nf.cache_clear()", "safe"),
        ("x" * 200_000, "dangerous"),
    ],
)
def test_a_script_is_judged_by_what_it_calls(source: str, label: str) -> None:
    assert examine_python(source).verdict.label == label


@pytest.mark.parametrize(("place", "label"), [("/home/user", "dangerous"), ("build", "caution")])
def test_arguments_of_apply_reach_the_function(place: str, label: str) -> None:
    wipe = "function wipe(path) { fs.rmSync(path, { recursive: true }) }"
    code = f'const fs = require("fs"); {wipe}; wipe.apply(null, ["{place}"])'
    assert assess(f"node -e '{code}'").label == label


COUNTS = """\
import os, shutil, threading
from hermetic_tools import terminal
sums = {}
def work(number):
    for turn in range(20):
        answer = terminal('echo %d %d' % (number, turn))
        sums[number] = sums.get(number, 0) + len(answer['output'])
threads = [threading.Thread(target=work, args=(number,)) for number in range(40)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""


@pytest.mark.parametrize(
    ("after", "label"),
    [
        ("print(sums)", "safe"),
        ("os.system('rm -rf /')", "dangerous"),
        ("for command in ('ls', 'rm -rf /'): os.system(command)", "dangerous"),
        (
            "os.system(''.join(chr(code) for code in (114, 109, 32, 45, 114, 102, 32, 47)))",
            "dangerous",
        ),
        ("text = ''\nfor at in range(8): text += 'rm -rf /'[at]\nos.system(text)", "dangerous"),
        ("exec(''.join(chr(ord('a') + at) for at in range(9)))", "dangerous"),
        ("shutil.rmtree('/ho' + 'me')", "dangerous"),
        ("for at in range(20): shutil.rmtree('/'[at])", "dangerous"),
    ],
)
def test_a_script_with_many_turns_of_short_loops_is_read_to_its_end(after: str, label: str) -> None:
    verdict = examine_python(COUNTS + after).verdict
    assert verdict.label == label
    assert not any("too large" in part.reason for part in verdict.parts)


def test_a_script_of_too_many_steps_is_not_taken_for_a_safe_one() -> None:
    assert examine_python("x = [" + "f(1), " * 5000 + "]").verdict.label == "dangerous"
    words = ", ".join(f"'w{number}'" for number in range(24))
    nested = f"for a in ({words}):\n for b in ({words}):\n  for c in ({words}): print(a, b, c)"
    assert examine_python(nested).verdict.label == "dangerous"


@pytest.mark.parametrize(
    ("path", "label"),
    [
        ("/home/dev/project/src/a.py", "safe"),
        ("/tmp/x", "safe"),
        ("/home/dev/project/.env", "caution"),
        *(
            (path, "dangerous")
            for path in (
                "/etc/passwd",
                "/etc/sudoers.d/x",
                "/usr/bin/ls",
                "/home/dev/.ssh/authorized_keys",
                "/home/dev/.aws/credentials",
                "/home/dev/.gnupg/x",
                "/home/dev/.kube/config",
                "/home/dev/.docker/config.json",
                "/home/dev/.azure/x",
                "/home/dev/.config/gh/hosts.yml",
                "/home/dev/.config/gcloud/x",
                "/home/dev/.netrc",
                "/home/dev/.pgpass",
                "/home/dev/.npmrc",
                "/home/dev/.pypirc",
                "/home/dev/.git-credentials",
                "/var/run/docker.sock",
                "/run/docker.sock",
                "/home/dev/.config/hermetic/config.toml",
                "/home/dev/.local/state/hermetic/approvals.toml",
                "/home/dev/project/hermetic.toml",
                "/home/dev/.hermes/config.yaml",
                "/home/dev/.bashrc",
                "/home/dev/project/.git/hooks/pre-commit",
                "/home/dev/project/../.ssh/config",
            )
        ),
    ],
)
def test_a_protected_path_is_not_written_without_being_asked_about(path: str, label: str) -> None:
    assert examine_writes([path]).verdict.label == label


def test_one_bad_path_among_good_ones_decides() -> None:
    verdict = examine_writes(
        ["/home/dev/project/a", "/home/dev/.netrc", "/home/dev/project/b"]
    ).verdict
    assert verdict.label == "dangerous"
    assert "/home/dev/.netrc" in verdict.reason


def test_a_place_of_its_own_keeps_its_system_to_itself() -> None:
    assert (
        examine_writes(["/etc/passwd"], Surroundings(isolation=CONTAINER)).verdict.label
        == "caution"
    )
