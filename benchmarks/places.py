"""The places that are measured: how each is opened on this machine, what it is held to, and what it
is held against.

Engines, images and keys come from the variables that scripts/engines/up prints.
"""

import os
import shutil
from collections.abc import Callable, Mapping

from benchmarks.figures import Target
from benchmarks.measuring import Place
from benchmarks.raw import RawApptainer, RawContainer, RawSandbox, RawSsh

PIDS = 2048  # in a container: hundreds of processes are started in it

# Of every place, unless its own say otherwise; by the last part of a row's name.
TARGETS: Mapping[str, Target] = {
    "parallel": Target(of="median", least=1000.0),
    "output": Target(of="ratio", most=1.3),
    "output-memory": Target(of="worst", most=32.0),
    "background": Target(of="ratio", most=2.0),
    "background-memory": Target(of="median", most=64.0),
    "background-threads": Target(of="median", most=0.0),
    **{stop: Target(of="median", most=50.0) for stop in ("timeout", "cancel", "kill")},
    **{f"{stop}-worst": Target(of="worst", most=250.0) for stop in ("timeout", "cancel", "kill")},
    "survivors": Target(of="median", most=0.0),
    "jobs": Target(of="median", most=0.0),
    "pool": Target(of="median", most=5.0),
    "file-page": Target(of="median", most=50.0),
    "file-memory": Target(of="worst", most=32.0),
    "search": Target(of="ratio", most=2.0),
    "codemode-call": Target(of="median", most=0.3),
    "judging": Target(of="median", most=1.0),
    "terminal": Target(of="ratio", most=1.5),
    "terminal-output": Target(of="ratio", most=1.2),
    "codemode-read": Target(of="median", most=0.5),
    "codemode-start": Target(of="ratio", most=1.5),
    "codemode-warm": Target(of="median", most=5.0),
    "codemode-row": Target(of="ratio", most=1.5),
    "codemode-shim": Target(of="ratio", most=1.5),
}

LOCAL: Mapping[str, Target] = {
    "settled": Target(of="ratio", most=0.35),
    "back-to-back": Target(of="ratio", most=0.4),
    "copies": Target(of="ratio", most=0.7),
    "functions": Target(of="ratio", most=1.5),
    "blocking": Target(of="difference", most=0.25),
    "open": Target(of="median", most=100.0),
}

CONTAINER: Mapping[str, Target] = {
    "settled-exec": Target(of="ratio", most=0.02),
    "settled-local": Target(of="ratio", most=2.0),
    "open": Target(of="ratio", most=1.2),
}


class Missing(Exception):
    """A place that cannot be had here; the message says what would help."""


def local() -> Place:
    """This machine itself."""
    return Place("local", targets={**TARGETS, **LOCAL})


def docker() -> Place:
    """A container of docker, on an engine that is up."""
    return _container("docker")


def podman() -> Place:
    """A container of podman."""
    _variable("PODMAN")
    return _container("podman")


def sandbox() -> Place:
    """A sandbox of bubblewrap, with a workspace of its own."""
    program = _program(os.environ.get("BWRAP") or "bwrap")
    workspace = os.path.join(os.environ["HOME"], "workspace")
    os.makedirs(workspace, exist_ok=True)
    targets = {
        "settled-local": Target(of="ratio", most=1.2),
        "open": Target(of="median", most=60.0),
    }
    return Place(
        "sandbox",
        workspace=workspace,
        pids=PIDS,
        targets={**TARGETS, **targets},
        raw=RawSandbox(program),
    )


def ssh() -> Place:
    """A machine behind ssh: this one, by its loopback."""
    port, known = int(_variable("SSH_PORT")), _variable("SSH_KNOWN_HOSTS")
    options = {
        "host": _variable("SSH_HOST"),
        "port": port,
        "user": _variable("SSH_USER"),
        "key": _variable("SSH_KEY"),
        "settings": {"UserKnownHostsFile": known, "ControlPersist": "1"},
        "env": {"HOME": os.environ["HOME"]},
    }
    raw = RawSsh(
        [
            "ssh",
            "-o",
            f"UserKnownHostsFile={known}",
            "-o",
            "BatchMode=yes",
            "-i",
            _variable("SSH_KEY"),
            "-p",
            str(port),
            f"{options['user']}@{options['host']}",
        ]
    )
    return Place(
        "ssh", **options, targets={**TARGETS, "settled": Target(of="ratio", most=0.6)}, raw=raw
    )


def apptainer() -> Place:
    """A container of apptainer."""
    program, image = _program(_variable("APPTAINER")), _variable("IMAGE_BASE_SIF")
    os.environ["HERMETIC_APPTAINER_BINARY"] = program
    return Place("apptainer", image=image, targets=TARGETS, raw=RawApptainer(program, image))


PLACES: Mapping[str, Callable[[], Place]] = {
    "local": local,
    "sandbox": sandbox,
    "docker": docker,
    "podman": podman,
    "apptainer": apptainer,
    "ssh": ssh,
}


def _container(kind: str) -> Place:
    _program(kind)
    image = _variable("IMAGE_BASE")
    raw = RawContainer(kind, image)
    if not raw.is_up():
        raise Missing(f"no engine answers `{kind} version`; start it (scripts/engines/up)")
    return Place(kind, image=image, pids=PIDS, targets={**TARGETS, **CONTAINER}, raw=raw)


def _variable(name: str) -> str:
    if value := os.environ.get(name):
        return value
    raise Missing(f"{name} is not set; scripts/engines/up prints it")


def _program(name: str) -> str:
    if path := shutil.which(name):
        return path
    raise Missing(f"no {name} on PATH; install it, or run scripts/engines/up as root on Debian")
