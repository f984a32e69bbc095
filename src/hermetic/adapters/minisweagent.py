"""An environment for mini-swe-agent.

    mini --environment-class hermetic.adapters.minisweagent.HermeticEnvironment

The keys of its configuration are those of `HermeticConfig`. Timeouts and lost environments are
results for the model.
"""

import os
from typing import Any

from hermetic import blocking
from hermetic.adapters.frameworks import framework
from hermetic.contract.endings import Exited
from hermetic.contract.errors import ExecutionError

with framework("minisweagent"):
    from minisweagent.exceptions import Submitted
    from pydantic import BaseModel

SUBMIT = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"


class HermeticConfig(BaseModel):
    """Settings of an environment."""

    kind: str = "sandbox"
    options: dict[str, Any] = {}
    """Options of the kind, as for `hermetic.open`."""
    image: str = ""
    """The option `image`."""
    cwd: str = ""
    env: dict[str, str] = {}
    timeout: int = 30
    persistent: bool = False
    """Keep directory and variables between commands. The usual prompts say that each runs in a new shell."""


class HermeticEnvironment:
    """Commands in an environment of Hermetic, which ends with `cleanup`, or with this program."""

    def __init__(
        self, *, config_class: type[HermeticConfig] = HermeticConfig, **settings: Any
    ) -> None:
        self.config = config_class(**settings)
        image = {"image": self.config.image} if self.config.image else {}
        self._environment = blocking.open(self.config.kind, **{**self.config.options, **image})

    def __repr__(self) -> str:
        return f"<HermeticEnvironment {self.config.kind}>"

    def execute(
        self, action: dict[str, Any], cwd: str = "", *, timeout: int | None = None
    ) -> dict[str, Any]:
        """Runs `action["command"]`. Raises Submitted when the agent has handed in its work."""
        text = action.get("command", "")
        command = text if self.config.persistent else ["bash", "-c", text]
        cwd = cwd or self.config.cwd
        try:
            result = self._environment.run(
                command,
                cwd=cwd or None,
                env=self.config.env,
                timeout=timeout or self.config.timeout,
            )
        except (ExecutionError, OSError) as error:
            return _failed("", error)
        if result.exit_code is None or not isinstance(result.ending, Exited):
            return _failed(result.output, result.ending)
        if result.exit_code == 0:
            _check_submitted(result.output)
        return {"output": result.output, "returncode": result.exit_code, "exception_info": ""}

    def get_template_vars(self, **more: Any) -> dict[str, Any]:
        """The names that prompts may use; `system`, `machine` and the like are those of the
        environment.
        """
        uname = self._environment.run(
            "uname -s; uname -n; uname -r; uname -v; uname -m"
        ).output.splitlines()
        names = ("system", "node", "release", "version", "machine")
        return {
            **self.config.model_dump(),
            **dict(zip(names, uname, strict=False)),
            **os.environ,
            **more,
        }

    def serialize(self) -> dict[str, Any]:
        """The part of a trajectory that describes the environment."""
        config = {
            "environment": self.config.model_dump(mode="json"),
            "environment_type": f"{type(self).__module__}.{type(self).__name__}",
        }
        return {"info": {"config": config}}

    def cleanup(self) -> None:
        """Ends the environment and all that runs in it."""
        self._environment.close(remove=True)


def _failed(output: str, problem: object) -> dict[str, Any]:
    text = f"An error occurred while executing the command: {problem}"
    return {"output": output, "returncode": -1, "exception_info": text}


def _check_submitted(output: str) -> None:
    first, _, rest = output.lstrip().partition("\n")
    if first.strip() == SUBMIT:
        extra = {"exit_status": "Submitted", "submission": rest}
        raise Submitted({"role": "exit", "content": rest, "extra": extra})
