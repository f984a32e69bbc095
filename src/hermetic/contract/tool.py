"""A function offered to a model: its name, its description, and its arguments as one type."""

import json
import re
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from functools import cached_property
from typing import Any, Generic, Literal, TypeVar

import msgspec

from hermetic.contract.errors import ConfigError, InvalidArgument

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")

A = TypeVar("A", bound=msgspec.Struct)

DEFAULT_TASK = "default"

Form = Literal["openai", "anthropic", "mcp"]
Fields = dict[str, Any]  # what a tool answers: becomes JSON

# True in tasks and threads that serve a script's call: what its handler prints to stdout is
# dropped.
IS_SILENT: ContextVar[bool] = ContextVar("IS_SILENT", default=False)

# (tool, arguments) → its answer, for a tool that calls others; never an exception for what its
# caller can act on
Dispatch = Callable[[str, Mapping[str, Any]], Awaitable[Mapping[str, Any]]]


def about(text: str, **limits: Any) -> msgspec.Meta:
    """Metadata of an argument: its description for a model, and its limits."""
    return msgspec.Meta(description=text, **limits)


class Interrupted(Exception):
    """The call was interrupted before it had a result."""


class Tool(Generic[A]):
    """One definition gives the validation, the schema in every form, and the documentation."""

    def __init__(
        self,
        name: str,
        description: str | Callable[[], str],
        arguments: type[A],
        run: Callable[[Any, A], Awaitable[Fields]],
        *,
        missing: Callable[[], str | None] | None = None,
        answers: str = "",
    ) -> None:
        """`missing` says why it cannot be used now, or None: it is then not offered. It is asked
        often, so it is quick.

        A description that depends on what else there is is a function. `answers` is the shape of
        its answer for scripts that call it: `{output: str, error?: str}`.

        Raises ConfigError for a name, a description or arguments that no model's interface takes.
        """
        if not _NAME.fullmatch(name):
            raise ConfigError(
                f"a tool cannot be called {name!r}; use 1 to 64 of A-Z a-z 0-9 _ -", setting="name"
            )
        if isinstance(description, str) and not description.strip():
            raise ConfigError(
                f"tool {name} has no description; say what it does and when to use it", setting=name
            )
        if not (isinstance(arguments, type) and issubclass(arguments, msgspec.Struct)):
            raise ConfigError(
                f"the arguments of tool {name} must be one msgspec.Struct", setting=name
            )
        self.missing = missing
        self.name = name
        self._description = description
        self.arguments = arguments
        self.answers = answers
        self.run = run

    def __repr__(self) -> str:
        return f"<Tool {self.name}>"

    @property
    def description(self) -> str:
        """Description for a model."""
        return self._description if isinstance(self._description, str) else self._description()

    def schema(self, form: Form = "openai") -> Fields:
        """What a model's interface wants to know of it."""
        parameters = self.parameters()
        if form == "anthropic":
            return {"name": self.name, "description": self.description, "input_schema": parameters}
        if form == "mcp":
            return {"name": self.name, "description": self.description, "inputSchema": parameters}
        function = {"name": self.name, "description": self.description, "parameters": parameters}
        return {"type": "function", "function": function}

    def parameters(self) -> Fields:
        """The JSON schema of the arguments, with nothing to look up elsewhere."""
        whole = msgspec.json.schema(self.arguments)
        found = dict(whole["$defs"][self.arguments.__name__])
        found.pop("title", None)
        found["additionalProperties"] = False
        return found

    def read(self, given: Mapping[str, Any]) -> A:
        """The arguments, checked; what can be converted is.

        Raises InvalidArgument that says what would be right.
        """
        if not isinstance(given, Mapping):
            raise InvalidArgument(
                f"the arguments of {self.name} must be an object, not {type(given).__name__}"
            )
        valid = self.arguments.__struct_encode_fields__  # as the schema names them
        for name in given:
            if name not in valid:
                raise InvalidArgument(
                    f"{self.name} has no argument {name!r}; it takes {', '.join(valid)}",
                    argument=str(name),
                )
        # Models often send null for what they leave out, and text for what is a list.
        plain = {
            name: self._parsed(name, value) for name, value in given.items() if value is not None
        }
        try:
            return msgspec.convert(plain, self.arguments, strict=False)
        except msgspec.ValidationError as error:
            name = str(error).partition("`$.")[2].partition("`")[0].partition("[")[0]
            raise InvalidArgument(
                f"{self.name}: {error}{self._allowed(name)}", argument=name
            ) from None

    def _allowed(self, name: str) -> str:
        """What an argument may be, where it is one of a few words."""
        schema = self.parameters()["properties"].get(name, {})
        words = next(
            (kind["enum"] for kind in (schema, *schema.get("anyOf", ())) if "enum" in kind), ()
        )
        return (
            f"; use one of {', '.join(str(word) for word in words if word is not None)}"
            if words
            else ""
        )

    @cached_property
    def _texts(self) -> set[str]:
        """The arguments that may be text."""
        return {
            name for name, schema in self.parameters()["properties"].items() if _takes_text(schema)
        }

    def _parsed(self, name: str, value: Any) -> Any:
        """A list or object that came as text is what the text spells."""
        if not isinstance(value, str) or value[:1] not in ("[", "{") or name in self._texts:
            return value
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value


def _takes_text(schema: Fields) -> bool:
    kinds = [schema, *schema.get("anyOf", ())]
    return any(kind.get("type") == "string" or "enum" in kind for kind in kinds)
