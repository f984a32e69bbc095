"""What an environment and its processes use:

CPU time, memory and ports, as the resident reads them from /proc.
"""

from hermetic.contract.errors import (
    EnvironmentUnavailable,
    UnknownProcess,
    Unreachable,
    Unsupported,
)
from hermetic.link import answers
from hermetic.session.environment import Environment
from hermetic.session.keeping import link_of


async def usage_of(environment: Environment) -> answers.Usage | None:
    """CPU time and memory of everything in it; None where it is gone, or its resident is older.

    Raises Unreachable.
    """
    try:
        return (await link_of(environment).ask("usage", answers.usage))[0]
    except Unreachable:
        raise
    except (EnvironmentUnavailable, Unsupported):
        return None


async def tree_of(environment: Environment, process: str) -> answers.Tree:
    """The processes of a job, parents first, and their ports; none if it is forgotten, or the
    resident is older.
    """
    try:
        return (await link_of(environment).ask("tree", answers.tree, process=process))[0]
    except (UnknownProcess, Unsupported):
        return answers.Tree(())
