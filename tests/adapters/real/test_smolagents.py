"""smolagents with a scripted model. Run in an environment that has `smolagents`."""

import os
from collections.abc import Iterator
from typing import Any

import pytest
from smolagents import ChatMessage, CodeAgent, Model, tool
from smolagents.models import MessageRole
from smolagents.utils import AgentExecutionError

from hermetic.adapters.smolagents import HermeticExecutor
from tests.adapters.examples import run_example

KINDS: dict[str, dict[str, Any]] = {
    "local": {},
    "docker": {"image": os.environ.get("IMAGE_BASE", "")},
}


class ScriptedModel(Model):
    """Answers with one piece of code after the other."""

    def __init__(self, *pieces: str) -> None:
        super().__init__(model_id="scripted")
        self._pieces = iter(pieces)

    def generate(self, *_: Any, **__: Any) -> ChatMessage:
        return ChatMessage(
            role=MessageRole.ASSISTANT, content=f"<code>\n{next(self._pieces)}\n</code>"
        )


@tool
def double(number: int) -> int:
    """Twice the number.

    Args:
        number: Any number.
    """
    return 2 * number


@pytest.fixture(params=sorted(KINDS))
def executor(request: pytest.FixtureRequest) -> Iterator[HermeticExecutor]:
    with HermeticExecutor(request.param, timeout=2, **KINDS[request.param]) as executor:
        yield executor


def test_the_example_of_the_docs_runs() -> None:
    run_example("smolagents", model=ScriptedModel("x = 6 * 7", "final_answer(x)"))


def test_an_agent_keeps_variables_uses_tools_and_answers(executor: HermeticExecutor) -> None:
    model = ScriptedModel(
        "import os\nx = double(21)\nprint('printed', os.getpid())",
        "1 / 0",
        "final_answer({'x': x, 'given': given})",
    )
    agent = CodeAgent(tools=[double], model=model, executor=executor)
    assert agent.run("go", additional_args={"given": [1, 2]}) == {"x": 42, "given": [1, 2]}
    first, second = agent.memory.steps[1:3]
    assert f"printed {os.getpid()}" not in str(first.observations)
    assert "printed" in str(first.observations)
    assert "ZeroDivisionError" in str(second.error)


def test_code_gives_what_it_printed_and_the_value_of_its_last_expression(
    executor: HermeticExecutor,
) -> None:
    output = executor("import subprocess\nprint('a')\nsubprocess.run(['echo', 'b'])\n[1, 'two']")
    assert (output.output, output.is_final_answer) == ("[1, 'two']", False)
    assert sorted(output.logs.split()) == ["a", "b"]


def test_code_that_takes_too_long_is_interrupted_and_its_variables_stay(
    executor: HermeticExecutor,
) -> None:
    executor("x = 7")
    with pytest.raises(AgentExecutionError, match="interrupted after 2 s"):
        executor("import time\ntime.sleep(60)")
    assert executor("x").output == "7"


def test_an_interpreter_that_has_ended_is_replaced_and_knows_the_tools(
    executor: HermeticExecutor,
) -> None:
    executor.send_variables({"given": 5})
    executor.send_tools({"double": double})
    with pytest.raises(AgentExecutionError, match="has ended"):
        executor("import os\nos._exit(3)")
    assert executor("double(given)").output == "10"


def test_nothing_is_installed_on_this_machine() -> None:
    with pytest.raises(AgentExecutionError, match="install no-such-package-x yourself"):
        HermeticExecutor("local", additional_imports=["pip", "no-such-package-x"])
