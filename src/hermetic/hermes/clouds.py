"""Environments by their Hermes names in sandboxes of clouds: modal and daytona, with all arguments."""

import logging
from collections.abc import Mapping
from typing import Any

from hermetic.hermes.environments import HermeticEnvironment, limits_of, task_of

SIZES = ("cpu", "memory")
MOST_DISK = 10240  # MiB, by Daytona's limits

_log = logging.getLogger("hermetic.hermes")


class ModalEnvironment(HermeticEnvironment):
    """Commands run in a sandbox of Modal.

    With `persistent_filesystem`, `cleanup` saves the files as a snapshot; the next object of the
    task starts from it. `modal_sandbox_kwargs` are arguments of `Sandbox.create`.
    """

    def __init__(
        self,
        image: str,
        cwd: str = "/root",
        timeout: float = 60,
        modal_sandbox_kwargs: Mapping[str, Any] | None = None,
        persistent_filesystem: bool = True,
        task_id: str = "default",
    ) -> None:
        given = dict(modal_sandbox_kwargs or {})
        options: dict[str, Any] = {"image": image, "cwd": cwd, "persistent": persistent_filesystem}
        options |= {"lifetime": given.pop("timeout")} if "timeout" in given else {}
        # a pair of a request and a limit is for the SDK alone
        sizes = {
            name: given.pop(name) for name in SIZES if isinstance(given.get(name), int | float)
        }
        options |= limits_of(sizes.get("cpu", 0), sizes.get("memory", 0), 0)
        options |= {"create_arguments": given} if given else {}
        task = task_of(task_id, is_kept=persistent_filesystem)
        super().__init__("modal", cwd, timeout, options, task=task)


class DaytonaEnvironment(HermeticEnvironment):
    """Commands run in a sandbox of Daytona, of whole GiB.

    With `persistent_filesystem`, `cleanup` stops the sandbox `hermes-TASK`, and the next object of
    the task starts it.
    """

    def __init__(
        self,
        image: str,
        cwd: str = "/home/daytona",
        timeout: float = 60,
        cpu: float = 1,
        memory: int = 5120,
        disk: int = 10240,
        persistent_filesystem: bool = True,
        task_id: str = "default",
    ) -> None:
        if disk > MOST_DISK:
            _log.warning("a disk of %d MiB was asked for; Daytona has at most %d", disk, MOST_DISK)
        directory = "~" if cwd == "/home/daytona" else cwd
        options: dict[str, Any] = {
            "image": image,
            "cwd": directory,
            "persistent": persistent_filesystem,
            "labels": {"hermes_task_id": task_id},
            **limits_of(cpu, memory, min(disk, MOST_DISK)),
        }
        options |= {"name": f"hermes-{task_id}"} if persistent_filesystem else {}
        task = task_of(task_id, is_kept=persistent_filesystem)
        super().__init__("daytona", directory, timeout, options, task=task)
