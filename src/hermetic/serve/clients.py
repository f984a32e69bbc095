"""Programs that connect to the server and get environments of their own: which kind, with which
options.
"""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from hermetic.resident.lazy import Lazy

if TYPE_CHECKING:
    from hermetic import config
else:
    config = Lazy("hermetic.config")


class ClientOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Environments of clients, as the command line says."""

    kind: str | None = None  # None: as the settings say
    options: Mapping[str, Any] = {}

    def settings(self) -> "config.Settings":
        """The settings of the directory in which the server was started. Raises ConfigError."""
        return config.load(os.getcwd(), kind=self.kind)
