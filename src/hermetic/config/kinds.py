"""The kinds of environments as settings see them: their names and the options that each has."""

from typing import Any

import msgspec

from hermetic.contract.errors import ConfigError
from hermetic.environments import catalog
from hermetic.environments.options import choices

# Used where a kind needs an image and none is given.
DEFAULT_IMAGE = "nikolaik/python-nodejs:python3.11-nodejs20"


def checked(kind: str, place: str) -> str:
    """The kind's own name. Raises ConfigError with the valid kinds."""
    if kind not in catalog.kinds():
        raise ConfigError(
            f"{place}: unknown environment kind {kind!r}; {choices(kind, catalog.kinds())}", setting="kind"
        )
    return catalog.ALIASES.get(kind, kind)


def option_types(kind: str) -> dict[str, Any] | None:
    """Option → its type; None for a kind that declares no options."""
    fields = option_fields(kind)
    return {name: field.type for name, field in fields.items()} or None


def option_fields(kind: str) -> dict[str, msgspec.structs.FieldInfo]:
    """Option → its type and default; empty for a kind that declares no options."""
    shape = getattr(catalog.find(kind), "option_shape", None)
    return {} if shape is None else {field.name: field for field in msgspec.structs.fields(shape)}


def default_image(kind: str) -> str | None:
    """The image for a kind that wants one."""
    if kind in ("docker", "podman"):
        return DEFAULT_IMAGE
    return f"docker://{DEFAULT_IMAGE}" if kind == "apptainer" else None
