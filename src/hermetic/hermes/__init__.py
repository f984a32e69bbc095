"""The Python names of Hermes Agent's execution layer, on top of Hermetic: same arguments, same
shapes of answers.

Settings are those of the command line and Hermes' own variables (`TERMINAL_*`); they are read with
the first call, and again after `cleanup_all_environments`. Every name is resolved on first use. See
docs/hermes.md.
"""

from importlib import import_module

TYPE_CHECKING = False  # type checkers take it for typing's

if TYPE_CHECKING:
    from hermetic.hermes.base import BaseEnvironment as BaseEnvironment
    from hermetic.hermes.base import set_activity_callback as set_activity_callback
    from hermetic.hermes.clouds import DaytonaEnvironment as DaytonaEnvironment
    from hermetic.hermes.clouds import ModalEnvironment as ModalEnvironment
    from hermetic.hermes.code import build_execute_code_schema as build_execute_code_schema
    from hermetic.hermes.code import execute_code as execute_code
    from hermetic.hermes.code import generate_hermes_tools_module as generate_hermes_tools_module
    from hermetic.hermes.containers import find_docker as find_docker
    from hermetic.hermes.containers import reap_orphan_containers as reap_orphan_containers
    from hermetic.hermes.environments import DockerEnvironment as DockerEnvironment
    from hermetic.hermes.environments import LocalEnvironment as LocalEnvironment
    from hermetic.hermes.environments import SingularityEnvironment as SingularityEnvironment
    from hermetic.hermes.environments import SSHEnvironment as SSHEnvironment
    from hermetic.hermes.process_session import ProcessSession as ProcessSession
    from hermetic.hermes.processes import ProcessRegistry as ProcessRegistry
    from hermetic.hermes.processes import process_registry as process_registry
    from hermetic.hermes.terminal import check_terminal_requirements as check_terminal_requirements
    from hermetic.hermes.terminal import cleanup_all_environments as cleanup_all_environments
    from hermetic.hermes.terminal import cleanup_vm as cleanup_vm
    from hermetic.hermes.terminal import clear_task_env_overrides as clear_task_env_overrides
    from hermetic.hermes.terminal import (
        get_active_environments_info as get_active_environments_info,
    )
    from hermetic.hermes.terminal import register_task_env_overrides as register_task_env_overrides
    from hermetic.hermes.terminal import set_approval_callback as set_approval_callback
    from hermetic.hermes.terminal import set_interrupt_event as set_interrupt_event
    from hermetic.hermes.terminal import set_sudo_password_callback as set_sudo_password_callback
    from hermetic.hermes.terminal import terminal_tool as terminal_tool
    from hermetic.hermes.web_terminal import TerminalSession as TerminalSession
    from hermetic.hermes.web_terminal import close_all_terminals as close_all_terminals
    from hermetic.hermes.web_terminal import close_terminal as close_terminal
    from hermetic.hermes.web_terminal import get_terminal as get_terminal
    from hermetic.hermes.web_terminal import resize_terminal as resize_terminal
    from hermetic.hermes.web_terminal import start_terminal as start_terminal
    from hermetic.hermes.web_terminal import write_terminal as write_terminal

# Module → its public names.
_HOMES = {
    "base": "BaseEnvironment set_activity_callback",
    "clouds": "DaytonaEnvironment ModalEnvironment",
    "code": "build_execute_code_schema execute_code generate_hermes_tools_module",
    "containers": "find_docker reap_orphan_containers",
    "environments": "DockerEnvironment LocalEnvironment SSHEnvironment SingularityEnvironment",
    "process_session": "ProcessSession",
    "processes": "ProcessRegistry process_registry",
    "terminal": "check_terminal_requirements cleanup_all_environments cleanup_vm clear_task_env_overrides "
    "get_active_environments_info register_task_env_overrides set_approval_callback set_interrupt_event "
    "set_sudo_password_callback terminal_tool",
    "web_terminal": "TerminalSession close_all_terminals close_terminal get_terminal resize_terminal start_terminal "
    "write_terminal",
}

__all__ = sorted(name for names in _HOMES.values() for name in names.split())


def __getattr__(name: str) -> object:
    home = next((home for home, names in _HOMES.items() if name in names.split()), None)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"hermetic.hermes.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
