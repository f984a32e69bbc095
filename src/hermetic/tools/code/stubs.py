"""The modules that scripts import: for each tool a typed and documented function, written from its
schema.
"""

import __future__

import builtins
import functools
import hashlib
import keyword
import marshal
import textwrap
import zlib
from collections.abc import Container, Iterable, Mapping, Sequence
from importlib.util import MAGIC_NUMBER
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from hermetic.contract.tool import Tool
from hermetic.link.archive import READABLE_BY_ALL, codec_source

# Arguments that a script's call may not give: it waits for its answer, and has no terminal.
DROPPED: Mapping[str, frozenset[str]] = {
    "terminal": frozenset(
        {"background", "pty", "notify_on_complete", "watch_patterns", "check_interval"}
    )
}
# Positional arguments in their order; all others are keyword-only.
ORDER: Mapping[str, Sequence[str]] = {
    "terminal": ("command", "timeout", "workdir"),
    "read_file": ("path", "offset", "limit"),
    "write_file": ("path", "content"),
    "search_files": str.split("pattern target path file_glob limit offset output_mode context"),
    "patch": ("path", "old_string", "new_string", "replace_all", "mode", "patch"),
    "web_search": ("query", "limit"),
    "web_extract": ("urls",),
}
# Defaults of calls in a script: a command that outlives its timeout would go on unattended.
DEFAULTS: Mapping[str, Mapping[str, Any]] = {"terminal": {"on_timeout": "kill"}}

_INSIDE = Path(__file__).parent / "inside"
_LAZY = "from __future__ import annotations\n"
_KINDS = {
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "null": "None",
    "object": "dict",
}


class Stub(NamedTuple):
    """A tool as scripts see it."""

    tool: str
    name: str  # of the function
    signature: str
    source: str
    description: str
    answers: str  # the shape of its answer; "" where that is not known
    parameters: dict[str, Any]  # JSON schema


def stubs_of(tools: Iterable[Tool[Any]]) -> dict[str, Stub]:
    """The functions for tools, by the tools' names; no two have the same name."""
    found: dict[str, Stub] = {}
    taken = set(_names_of_the_module())
    for tool in tools:
        found[tool.name] = stub_of(tool, taken)
        taken.add(found[tool.name].name)
    return found


@functools.cache
def _names_of_the_module() -> frozenset[str]:
    """What the module itself is written with: a tool of that name would be in its way."""
    return frozenset([*dir(builtins), *compile(_inside("tools"), "", "exec").co_names])


def stub_of(tool: Tool[Any], taken: Container[str] = ()) -> Stub:
    """The function for one tool."""
    parameters = tool.parameters()
    dropped = DROPPED.get(tool.name, frozenset())
    properties = {
        name: schema for name, schema in parameters["properties"].items() if name not in dropped
    }
    parameters = {**parameters, "properties": properties}
    required = [name for name in parameters.get("required", ()) if name in properties]
    by_place = [name for name in ORDER.get(tool.name, properties) if name in properties]
    by_place.sort(key=lambda name: name not in required)  # what has to be given stands first
    by_name = [name for name in properties if name not in by_place]
    defaults = DEFAULTS.get(tool.name, {})
    spelled = _spelled(properties)

    def parameter(name: str) -> str:
        return _parameter(spelled[name], properties[name], name in required, defaults.get(name))

    words = [parameter(name) for name in by_place]
    if by_name:
        words += ["*", *map(parameter, by_name)]
    function = identifier(tool.name, taken)
    signature = f"{function}({', '.join(words)}) -> dict"
    source = _source(tool, signature, properties, spelled)
    return Stub(
        tool.name, function, signature, source, tool.description.strip(), tool.answers, parameters
    )


def _spelled(properties: Iterable[str]) -> dict[str, str]:
    """How a function's parameters are called, by their true names."""
    found: dict[str, str] = {}
    for name in properties:
        found[name] = identifier(name, {"_call", "locals", *found.values()})
    return found


def module_source(stubs: Iterable[Stub]) -> str:
    """The text that follows `inside/tools.py` in the module that scripts import."""
    known = {
        stub.name: {
            "signature": stub.signature,
            "description": stub.description,
            "answers": stub.answers,
            "parameters": stub.parameters,
        }
        for stub in stubs
    }
    packed = msgspec.msgpack.encode(known)
    return "".join([*(stub.source for stub in stubs), f"\n\n_TOOLS = {packed!r}\n"])


def identifier(name: str, taken: Container[str] = ()) -> str:
    """The name as one that Python takes, and that is not taken."""
    plain = "".join(character if f"_{character}".isidentifier() else "_" for character in name)
    plain = plain if plain.isidentifier() else f"_{plain}"
    while keyword.iskeyword(plain) or plain in taken:
        plain += "_"
    return plain


def _source(
    tool: Tool[Any], signature: str, properties: Mapping[str, Any], spelled: Mapping[str, str]
) -> str:
    lines = [
        f"{spelled[name]}: {text}"
        for name, schema in properties.items()
        if (text := schema.get("description"))
    ]
    answers = [f"Answers {tool.answers}"] if tool.answers else []
    doc = "\n\n".join([tool.description.strip(), *(["\n".join(lines)] if lines else []), *answers])
    body = textwrap.indent(_quoted(doc), "    ")
    is_plain = all(name == word for name, word in spelled.items())
    given = ", ".join(f"{name!r}: {word}" for name, word in spelled.items())
    arguments = "locals()" if is_plain else f"{{{given}}}"
    return f"\n\n@_tool\ndef {signature}:\n{body}\n    return _call({tool.name!r}, {arguments})\n"


def _quoted(doc: str) -> str:
    """The text as a docstring that keeps its lines."""
    plain = doc.replace("\\", "\\\\").replace('"', '\\"')
    return f'"""{plain}\n"""'


def _parameter(word: str, schema: Mapping[str, Any], is_required: bool, meant: object) -> str:
    typed = f"{word}: {_type(schema)}"
    if is_required:
        return typed
    default = schema.get("default") if meant is None else meant
    if default is None and "None" not in typed:
        return f"{typed} | None = None"
    return f"{typed} = {default!r}"


def _type(schema: Mapping[str, Any]) -> str:
    if "anyOf" in schema:
        return " | ".join(dict.fromkeys(_type(kind) for kind in schema["anyOf"]))
    if "enum" in schema:
        return " | ".join(dict.fromkeys(type(value).__name__ for value in schema["enum"]))
    kind = schema.get("type")
    if isinstance(kind, list):
        return " | ".join(_type({**schema, "type": one}) for one in kind)
    if kind == "array":
        return f"list[{_type(schema.get('items') or {})}]"
    return _KINDS.get(str(kind), "object")


# -- modules
def boot() -> str:
    """The program of a script's interpreter: it reads the rest from standard input and runs the
    script.
    """
    return _inside("boot")


@functools.cache  # a constant: the text is the one we were started with
def _inside(name: str) -> str:
    return (_INSIDE / f"{name}.py").read_text(encoding="utf-8")


class ScriptModules:
    """The modules that scripts import, as text and as this Python compiles them."""

    def __init__(self, stubs: str) -> None:
        self.sources = {
            "_hermetic_start": _inside("start"),
            "_hermetic_frames": codec_source(),
            "hermetic_tools": _inside("tools") + stubs,
        }
        codes = {name: _compiled(name, text) for name, text in self.sources.items()}
        # Read by another Python than this one.
        packed = zlib.compress(marshal.dumps(self.sources, READABLE_BY_ALL))
        self.data = marshal.dumps((MAGIC_NUMBER, codes, packed), READABLE_BY_ALL)
        self.name = hashlib.sha256(self.data).hexdigest()[:32]

    def __repr__(self) -> str:
        return f"<ScriptModules {', '.join(self.sources)}>"


def script_input(script: str, variables: Mapping[str, str]) -> bytes:
    """What comes behind the modules: the script, and variables of its run alone."""
    return marshal.dumps((script, dict(variables)), READABLE_BY_ALL)


def _compiled(name: str, text: str) -> bytes:
    """The module without the import that says how annotations are meant: it would be the slowest
    one of a script.
    """
    plain = text.replace(_LAZY, "\n", 1)
    flags = __future__.annotations.compiler_flag if plain != text else 0
    return marshal.dumps(compile(plain, name, "exec", flags, dont_inherit=True))
