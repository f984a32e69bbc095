"""What Hermes' registry knows of one background process."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from hermetic.contract.tool import Fields

BUFFER = 200_000  # characters of output that are kept


@dataclass
class ProcessSession:
    """A background process as it was last seen."""

    id: str
    command: str
    task_id: str = ""
    session_key: str = ""
    pid: int | None = None
    cwd: str | None = None
    started_at: float = 0.0  # seconds since 1970
    exited: bool = False
    exit_code: int | None = None
    completion_reason: str = "exited"
    termination_source: str = ""
    output_buffer: str = ""
    detached: bool = False  # started by another process
    pid_scope: str = "host"  # or "sandbox"
    env_ref: Any = None  # the environment object it was started with
    notify_on_complete: bool = False
    watch_patterns: list[str] = field(default_factory=list)
    watcher_interval: int = 0  # seconds; 0: nothing watches it
    watcher_platform: str = ""  # of the gateway's conversation, as are the next ones
    watcher_chat_id: str = ""
    watcher_user_id: str = ""
    watcher_user_name: str = ""
    watcher_thread_id: str = ""
    watcher_message_id: str = ""
    act: Callable[..., Fields] = field(
        default=lambda action, **given: {}, repr=False, compare=False
    )

    def is_of(self, task_id: str | None, session_key: str | None) -> bool:
        """Whether it belongs to the task or to the conversation; without both, any does."""
        if not task_id and not session_key:
            return True
        return bool(
            (task_id and self.task_id == task_id)
            or (session_key and self.session_key == session_key)
        )

    def update(self, answer: Fields) -> None:
        """Takes over what an answer of the process tool says."""
        self.pid = answer.get("pid", self.pid)
        if "exit_code" in answer and answer.get("completion_reason"):
            self.exited, self.exit_code = True, answer["exit_code"]
            self.completion_reason = answer["completion_reason"]
            self.termination_source = answer.get("termination_source", self.termination_source)
        if "total_lines" in answer:
            self.output_buffer = answer["output"][-BUFFER:]
