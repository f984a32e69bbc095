"""The base class of environments by its Hermes name: a subclass only starts bash, the rest is here.

A command runs in a new bash. What it leaves behind is stored in a file at its end, from which the
next one begins: exported variables, functions, aliases, and the directory.
"""

import contextlib
import logging
import secrets
import shlex
import subprocess
import time
from typing import Any

from hermetic.contract.tool import Fields
from hermetic.hermes.activity import set_activity_callback
from hermetic.hermes.handles import LOOK, Drain, ProcessHandle, end, settle
from hermetic.hermes.shared import shared

__all__ = ["BaseEnvironment", "set_activity_callback"]

INTERRUPTED = "[Command interrupted]"
ENDING_SECONDS = 2.0  # for a killed process, and for its last output
LONGEST_PATH = 4096

# Writes the state of the shell to the file $1, whole or not at all. Exported variables that are not
# in it were unset.
SAVE = r"""
umask 077
{ printf '%s\n' 'for __hermetic_name in $(compgen -e); do' \
    'case $__hermetic_name in BASHOPTS|SHELLOPTS|BASH_*|PPID|UID|EUID) ;; *) unset "$__hermetic_name" ;; esac; done'
  export -p
  declare -F | while read -r _ _ name; do case $name in _[!_]*) ;; *) declare -f "$name" ;; esac; done
  alias -p
  printf '%s\n' 'unset __hermetic_name' 'shopt -s expand_aliases' 'set +e +u'
} > {snapshot}.$BASHPID && mv -f {snapshot}.$BASHPID {snapshot}
"""

_log = logging.getLogger("hermetic.hermes")


class BaseEnvironment:
    """An environment by one method: `_run_bash`, which starts bash there. `cleanup` releases it.

    A constructor calls `init_session` when bash can be started.
    """

    _stdin_mode = "pipe"  # "heredoc": a process there has no input of its own
    _snapshot_timeout = 30.0  # seconds for the login shell

    def __init__(self, cwd: str, timeout: float, env: dict[str, str] | None = None) -> None:
        self.cwd = cwd
        self.timeout = timeout
        self.env = env or {}
        self._session_id = secrets.token_hex(6)
        directory = self.get_temp_dir().rstrip("/")
        self._snapshot_path = f"{directory}/hermetic-snap-{self._session_id}.sh"
        self._snapshot_ready = False

    # -- methods of subclasses
    def _run_bash(
        self,
        cmd_string: str,
        *,
        login: bool = False,
        timeout: float = 120,
        stdin_data: str | None = None,
    ) -> ProcessHandle:
        """Starts bash with a script, and returns at once. stderr goes to stdout."""
        raise NotImplementedError(f"{type(self).__name__} must implement _run_bash()")

    def cleanup(self) -> None:
        """Releases what the environment holds."""
        raise NotImplementedError(f"{type(self).__name__} must implement cleanup()")

    def get_temp_dir(self) -> str:
        """The directory there for the state of the session."""
        return "/tmp"

    def _before_execute(self) -> None:
        """Called before each command, to send files for example."""

    def _kill_process(self, proc: ProcessHandle) -> None:
        """Kills a process."""
        end(proc)

    # -- for callers
    def init_session(self) -> None:
        """Reads the profile of a login shell once.

        Where that fails, every command runs in a login shell.
        """
        mark = _new_mark()
        script = f"{self._saving()}\nbuiltin cd -- {quote_directory(self.cwd)} 2>/dev/null\n{_report(mark)}"
        try:
            proc = self._run_bash(script, login=True, timeout=self._snapshot_timeout)
            result = self._wait_for_process(proc, self._snapshot_timeout, mark)
            if result["returncode"] != 0:
                raise RuntimeError(f"exit code {result['returncode']}: {result['output'][-500:]}")
        except Exception as error:  # of a subclass
            _log.warning("the login shell of session %s failed: %s", self._session_id, error)
            return
        self._snapshot_ready = True
        self._take_cwd(result, mark)

    def execute(
        self,
        command: str,
        cwd: str = "",
        *,
        timeout: float | None = None,
        stdin_data: str | None = None,
        **_: Any,
    ) -> Fields:
        """Runs a command:

        `output`, with stderr in it, and `returncode`; 124 after a timeout, 130 when interrupted.
        """
        seconds = self._seconds(timeout)
        self._before_execute()
        mark, stdin = _new_mark(), stdin_data
        text = f"eval {shlex.quote(command)}"
        if stdin is not None and self._stdin_mode == "heredoc":
            text, stdin = f"{text} {_heredoc(stdin)}", None
        script = self._wrapped(text, cwd, mark)
        proc = self._run_bash(
            script, login=not self._snapshot_ready, timeout=seconds, stdin_data=stdin
        )
        result = self._wait_for_process(proc, seconds, mark)
        self._take_cwd(result, mark)
        return result

    def start_bash(self, command: str, cwd: str, timeout: float) -> ProcessHandle:
        """A handle for a command that runs on, with the state of the session; it changes none of
        it.
        """
        state = self._sourced()
        script = (
            f"{state}builtin cd -- {quote_directory(cwd)} || exit 126\neval {shlex.quote(command)}"
        )
        return self._run_bash(script, login=not self._snapshot_ready, timeout=timeout)

    def stop(self) -> None:
        """As `cleanup`."""
        self.cleanup()

    def __del__(self) -> None:
        with contextlib.suppress(Exception):  # nothing can be done about it here
            self.cleanup()

    # -- one command
    def _seconds(self, timeout: float | None) -> float:
        if timeout is not None and not timeout > 0:
            raise ValueError(
                f"timeout must be seconds above zero, not {timeout!r}; leave it out for {self.timeout}"
            )
        return self.timeout if timeout is None else timeout

    def _sourced(self) -> str:
        return (
            f". {shlex.quote(self._snapshot_path)} 2>/dev/null || true\n"
            if self._snapshot_ready
            else ""
        )

    def _saving(self) -> str:
        return f"({SAVE.replace('{snapshot}', shlex.quote(self._snapshot_path))})"

    def _wrapped(self, text: str, cwd: str, mark: str) -> str:
        """The script around a command: state before it, and after it, also where it calls `exit`."""
        save = f"{self._saving()} 2>/dev/null" if self._snapshot_ready else ":"
        after = (
            f"__hermetic_status=$?; trap - EXIT; {save}\n{_report(mark)}; exit $__hermetic_status"
        )
        return f"{self._sourced()}{self._entered(cwd)}trap {shlex.quote(after)} EXIT\n{text}\n"

    def _entered(self, cwd: str) -> str:
        """Enters a given directory, or exits with 126; from the session's own, if it is gone, the
        nearest one above.
        """
        if cwd:
            return f"builtin cd -- {quote_directory(cwd)} || exit 126\n"
        return (
            f"__hermetic_cwd={quote_directory(self.cwd)}\n"
            'while ! builtin cd -- "$__hermetic_cwd" 2>/dev/null; do\n'
            "case $__hermetic_cwd in /*/*) __hermetic_cwd=${__hermetic_cwd%/*} ;; *) __hermetic_cwd=/ ;; esac; done\n"
            "unset __hermetic_cwd\n"
        )

    def _wait_for_process(self, proc: ProcessHandle, timeout: float, mark: str = "") -> Fields:
        """The result of a started process; it is killed after the timeout, by an interrupt and by
        an exception.
        """
        drain, caller, deadline = Drain(proc, mark), shared.caller(), time.monotonic() + timeout
        line, code = "", 0
        try:
            while not drain.is_done.wait(LOOK) and not settle(proc, drain):
                if caller.stop():
                    line, code = INTERRUPTED, 130
                    break
                if time.monotonic() >= deadline:
                    line, code = late(timeout), 124
                    break
                caller.beat()
            if not line:
                code = proc.wait(max(ENDING_SECONDS, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            line, code = late(timeout), 124
        finally:
            if proc.poll() is None:
                self._kill_process(proc)
                drain.is_done.wait(ENDING_SECONDS)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    proc.wait(ENDING_SECONDS)
        return {"output": with_line(drain.text, line), "returncode": code}

    def _take_cwd(self, result: Fields, mark: str) -> None:
        """Takes the report of the directory out of the output."""
        before, found, rest = result["output"].rpartition(f"\n{mark}")
        path, end, _ = rest.partition(mark)
        if found and end and len(path) <= LONGEST_PATH:
            result["output"] = before
            self.cwd = path.strip() or self.cwd


def late(seconds: float) -> str:
    """The last line of a command that was ended because its time was over."""
    return f"[Command timed out after {seconds:g}s]"


def with_line(output: str, line: str) -> str:
    """The output of a command with a line behind it that says why it was ended, if there is one."""
    return f"{output}\n{line}" if output and line else output or line


def quote_directory(path: str) -> str:
    """A directory for a script; `~` stays the home there."""
    if path in ("~", "~/"):
        return '"$HOME"'
    return f'"$HOME"/{shlex.quote(path[2:])}' if path.startswith("~/") else shlex.quote(path)


def _new_mark() -> str:
    """Surrounds the report of the directory. No command knows it."""
    return f"__HERMES_CWD_{secrets.token_hex(8)}__"


def _report(mark: str) -> str:
    return f"printf '\\n%s%s%s\\n' {mark} \"$(builtin pwd -P)\" {mark}"


def _heredoc(data: str) -> str:
    """The input as part of the script."""
    end = f"HERMES_STDIN_{secrets.token_hex(6)}"
    return f"<<'{end}'\n{data}\n{end}"
