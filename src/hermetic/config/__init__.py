"""Settings: from files and variables, read once by a front door, passed on as frozen values.

Nothing here is a global, and nothing below asks for settings: it is given what it needs.
"""

from hermetic.config.loading import load
from hermetic.config.settings import Settings

__all__ = ["Settings", "load"]
