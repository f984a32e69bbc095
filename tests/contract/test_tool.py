"""One definition of a tool: schemas, conversion, and errors a model can act on."""

from typing import Annotated, Any

import msgspec
import pytest
from msgspec import Meta

from hermetic.contract.errors import InvalidArgument
from hermetic.contract.tool import Fields, Tool


class Arguments(msgspec.Struct, frozen=True, kw_only=True):
    command: Annotated[str, Meta(description="What to run.")]
    count: Annotated[int, Meta(ge=1)] = 1
    loud: bool = False
    names: list[str] | None = None
    mixed: str | list[str] | None = None


async def run(context: object, given: Arguments) -> Fields:
    return {}


TOOL = Tool("shout", "Shouts.", Arguments, run)


def test_every_form_holds_the_same_parameters() -> None:
    openai, anthropic, mcp = (TOOL.schema(form) for form in ("openai", "anthropic", "mcp"))
    assert (
        openai["function"]["parameters"]
        == anthropic["input_schema"]
        == mcp["inputSchema"]
        == TOOL.parameters()
    )
    parameters = TOOL.parameters()
    assert parameters["type"] == "object"
    assert parameters["required"] == ["command"]
    assert parameters["additionalProperties"] is False
    assert parameters["properties"]["command"] == {"type": "string", "description": "What to run."}
    assert "$ref" not in msgspec.json.encode(openai).decode()


@pytest.mark.parametrize(
    ("given", "field", "value"),
    [
        ({"count": "3"}, "count", 3),
        ({"loud": "true"}, "loud", True),
        ({"loud": None}, "loud", False),
        ({"names": '["a", "b"]'}, "names", ["a", "b"]),
        ({"names": ["a"]}, "names", ["a"]),
        ({"mixed": '["a"]'}, "mixed", '["a"]'),
        ({"command": '["not", "parsed"]'}, "command", '["not", "parsed"]'),
    ],
)
def test_what_can_be_converted_is(given: dict[str, Any], field: str, value: object) -> None:
    assert getattr(TOOL.read({"command": "x", **given}), field) == value


@pytest.mark.parametrize(
    ("given", "argument", "says"),
    [
        ({}, "", "missing required field `command`"),
        ({"command": 5}, "command", "Expected `str`"),
        ({"command": "x", "count": 0}, "count", ">= 1"),
        ({"command": "x", "count": "many"}, "count", "Expected `int`"),
        ({"command": "x", "comand": "y"}, "comand", "it takes command, count"),
        ({"command": "x", "names": "[broken"}, "names", "Expected `array"),
    ],
)
def test_what_cannot_is_told_with_what_would_be_right(
    given: dict[str, Any], argument: str, says: str
) -> None:
    with pytest.raises(InvalidArgument, match=says.replace("[", r"\[")) as caught:
        TOOL.read(given)
    assert caught.value.argument == argument


def test_arguments_are_an_object() -> None:
    with pytest.raises(InvalidArgument, match="must be an object"):
        TOOL.read("ls")  # type: ignore[arg-type]
