"""The execution layer for AI agents: where their commands, scripts and background processes run.

Every name below is resolved on first use, so that the import itself costs nearly nothing.
"""

TYPE_CHECKING = False  # type checkers take it for typing's; importing typing costs more than the rest of this file

if TYPE_CHECKING:
    from hermetic import blocking
    from hermetic.contract import VERSION as __version__
    from hermetic.contract.approval import Approval, ApprovalRequest, Denial
    from hermetic.contract.command import Result
    from hermetic.contract.edits import Patched
    from hermetic.contract.endings import (
        Cancelled,
        Ending,
        Exited,
        Lost,
        OutOfMemory,
        Signalled,
        TimedOut,
        Yielded,
    )
    from hermetic.contract.environment import Isolation
    from hermetic.contract.errors import (
        ApprovalRequired,
        BridgeError,
        ConfigError,
        EditRefused,
        EnvironmentUnavailable,
        ExecutionError,
        FileChanged,
        InputClosed,
        InvalidArgument,
        NotInstalled,
        NotPermitted,
        UnknownApproval,
        UnknownProcess,
        Unreachable,
        Unsupported,
    )
    from hermetic.contract.files import Bounds, FileContent, FilePage, FileStatus, Findings, Found, Written
    from hermetic.contract.fleet import FleetInfo, Removed, TaskInfo
    from hermetic.contract.notice import Notice
    from hermetic.contract.process import Chunk, ProcessEvent, ProcessInfo, Shown, Status
    from hermetic.contract.tool import Tool
    from hermetic.contract.verdict import Part, ShellState, Verdict
    from hermetic.fleet.fleet import Fleet
    from hermetic.fleet.opening import attach, open
    from hermetic.policy.assess import assess
    from hermetic.session.environment import Environment
    from hermetic.session.process import Process
    from hermetic.session.session import Session
    from hermetic.toolbox import Toolbox
    from hermetic.tools.base.task import ToolLimits
    from hermetic.tools.code.arguments import CodeLimits, CodeOptions

__all__ = [
    "Approval",
    "ApprovalRequest",
    "ApprovalRequired",
    "Bounds",
    "BridgeError",
    "Cancelled",
    "Chunk",
    "CodeLimits",
    "CodeOptions",
    "ConfigError",
    "Denial",
    "EditRefused",
    "Ending",
    "Environment",
    "EnvironmentUnavailable",
    "ExecutionError",
    "Exited",
    "FileChanged",
    "FileContent",
    "FilePage",
    "FileStatus",
    "Findings",
    "Fleet",
    "FleetInfo",
    "Found",
    "InputClosed",
    "InvalidArgument",
    "Isolation",
    "Lost",
    "NotInstalled",
    "NotPermitted",
    "Notice",
    "OutOfMemory",
    "Part",
    "Patched",
    "Process",
    "ProcessEvent",
    "ProcessInfo",
    "Removed",
    "Result",
    "Session",
    "ShellState",
    "Shown",
    "Signalled",
    "Status",
    "TaskInfo",
    "TimedOut",
    "Tool",
    "ToolLimits",
    "Toolbox",
    "UnknownApproval",
    "UnknownProcess",
    "Unreachable",
    "Unsupported",
    "Verdict",
    "Written",
    "Yielded",
    "__version__",
    "assess",
    "attach",
    "blocking",
    "open",
]

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
    "contract.fleet": "FleetInfo Removed TaskInfo",
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


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name == "__version__":
        value: object = import_module("hermetic.contract").VERSION
        globals()[name] = value
        return value
    if name == "blocking":
        return import_module("hermetic.blocking")
    for module, names in _HOMES.items():
        if name in names.split():
            value = getattr(import_module(f"hermetic.{module}"), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module 'hermetic' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
