"""The execution layer for AI agents: where their commands, scripts and background processes run.

Every name below is resolved on first use, so that the import itself costs nearly nothing.
"""

# type checkers take it for typing's; importing typing costs more than the rest of this file
TYPE_CHECKING = False

if TYPE_CHECKING:
    from hermetic import blocking as blocking
    from hermetic.contract.approval import Approval as Approval
    from hermetic.contract.approval import ApprovalRequest as ApprovalRequest
    from hermetic.contract.approval import Denial as Denial
    from hermetic.contract.command import Result as Result
    from hermetic.contract.edits import Patched as Patched
    from hermetic.contract.endings import Cancelled as Cancelled
    from hermetic.contract.endings import Ending as Ending
    from hermetic.contract.endings import Exited as Exited
    from hermetic.contract.endings import Lost as Lost
    from hermetic.contract.endings import OutOfMemory as OutOfMemory
    from hermetic.contract.endings import Signalled as Signalled
    from hermetic.contract.endings import TimedOut as TimedOut
    from hermetic.contract.endings import Yielded as Yielded
    from hermetic.contract.environment import Isolation as Isolation
    from hermetic.contract.errors import ApprovalRequired as ApprovalRequired
    from hermetic.contract.errors import BridgeError as BridgeError
    from hermetic.contract.errors import ConfigError as ConfigError
    from hermetic.contract.errors import EditRefused as EditRefused
    from hermetic.contract.errors import EnvironmentUnavailable as EnvironmentUnavailable
    from hermetic.contract.errors import ExecutionError as ExecutionError
    from hermetic.contract.errors import FileChanged as FileChanged
    from hermetic.contract.errors import InputClosed as InputClosed
    from hermetic.contract.errors import InvalidArgument as InvalidArgument
    from hermetic.contract.errors import NotInstalled as NotInstalled
    from hermetic.contract.errors import NotPermitted as NotPermitted
    from hermetic.contract.errors import UnknownApproval as UnknownApproval
    from hermetic.contract.errors import UnknownProcess as UnknownProcess
    from hermetic.contract.errors import Unreachable as Unreachable
    from hermetic.contract.errors import Unsupported as Unsupported
    from hermetic.contract.files import Bounds as Bounds
    from hermetic.contract.files import FileContent as FileContent
    from hermetic.contract.files import FilePage as FilePage
    from hermetic.contract.files import FileStatus as FileStatus
    from hermetic.contract.files import Findings as Findings
    from hermetic.contract.files import Found as Found
    from hermetic.contract.files import Written as Written
    from hermetic.contract.fleet import FleetInfo as FleetInfo
    from hermetic.contract.fleet import ItemResult as ItemResult
    from hermetic.contract.fleet import Mapped as Mapped
    from hermetic.contract.fleet import MapProgress as MapProgress
    from hermetic.contract.fleet import MapSummary as MapSummary
    from hermetic.contract.fleet import Removed as Removed
    from hermetic.contract.fleet import TaskInfo as TaskInfo
    from hermetic.contract.notice import Notice as Notice
    from hermetic.contract.process import Chunk as Chunk
    from hermetic.contract.process import ProcessEvent as ProcessEvent
    from hermetic.contract.process import ProcessInfo as ProcessInfo
    from hermetic.contract.process import Shown as Shown
    from hermetic.contract.process import Status as Status
    from hermetic.contract.tool import Tool as Tool
    from hermetic.contract.verdict import Part as Part
    from hermetic.contract.verdict import ShellState as ShellState
    from hermetic.contract.verdict import Verdict as Verdict
    from hermetic.fleet.fleet import Fleet as Fleet
    from hermetic.fleet.opening import attach as attach
    from hermetic.fleet.opening import open as open
    from hermetic.policy.assess import assess as assess
    from hermetic.session.environment import Environment as Environment
    from hermetic.session.process import Process as Process
    from hermetic.session.session import Session as Session
    from hermetic.toolbox import Toolbox as Toolbox
    from hermetic.tools.base.task import ToolLimits as ToolLimits
    from hermetic.tools.code.arguments import CodeLimits as CodeLimits
    from hermetic.tools.code.arguments import CodeOptions as CodeOptions

    __version__: str

# Module → its public names.
_HOMES = {
    "contract.endings": "Cancelled Ending Exited Lost OutOfMemory Signalled TimedOut Yielded",
    "contract.approval": "Approval ApprovalRequest Denial",
    "contract.errors": "ApprovalRequired BridgeError ConfigError EditRefused EnvironmentUnavailable ExecutionError "
    "FileChanged InputClosed InvalidArgument NotInstalled NotPermitted UnknownApproval UnknownProcess Unreachable "
    "Unsupported",
    "contract.command": "Result",
    "contract.edits": "Patched",
    "contract.environment": "Isolation",
    "contract.notice": "Notice",
    "contract.tool": "Tool",
    "contract.process": "Chunk ProcessEvent ProcessInfo Shown Status",
    "contract.verdict": "Part ShellState Verdict",
    "contract.files": "Bounds FileContent FilePage FileStatus Findings Found Written",
    "contract.fleet": "FleetInfo ItemResult MapProgress MapSummary Mapped Removed TaskInfo",
    "fleet.fleet": "Fleet",
    "policy.assess": "assess",
    "session.environment": "Environment",
    "fleet.opening": "attach open",
    "session.process": "Process",
    "session.session": "Session",
    "tools.base.task": "ToolLimits",
    "tools.code.arguments": "CodeLimits CodeOptions",
    "toolbox": "Toolbox",
}

__all__ = sorted(
    ["__version__", "blocking", *(name for names in _HOMES.values() for name in names.split())]
)


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name == "blocking":
        return import_module("hermetic.blocking")
    if name == "__version__":
        value = import_module("hermetic.contract").VERSION
    elif home := next((home for home, names in _HOMES.items() if name in names.split()), None):
        value = getattr(import_module(f"hermetic.{home}"), name)
    else:
        raise AttributeError(f"module 'hermetic' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
