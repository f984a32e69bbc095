"""pydantic-ai's own checks of a workspace backend, and a run.

Needs an environment that has `pydantic-ai-slim`.
"""

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import Agent, RunContext
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.workspaces import WorkspaceBackend, WorkspaceRef
from pydantic_ai.workspaces.conformance import WorkspaceBackendSuite

import hermetic
from hermetic.adapters.pydantic_ai import HermeticWorkspace, HermeticWorkspaces
from tests.adapters.examples import run_example

KINDS: dict[str, dict[str, Any]] = {
    "local": {},
    "docker": {"image": os.environ.get("IMAGE_BASE", ""), "user": "1000:1000"},
}


async def end(backend: WorkspaceBackend) -> None:
    """Ends the environment of a backend."""
    if backend.ref is not None:
        with suppress(hermetic.EnvironmentUnavailable):
            environment = await hermetic.attach(backend.ref.id)
            await environment.close(remove=True)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.parametrize("kind", KINDS)
class TestHermeticWorkspace(WorkspaceBackendSuite):
    @pytest.fixture
    def make(self, kind: str, tmp_path: Path) -> Callable[..., HermeticWorkspace]:
        options = {
            **KINDS[kind],
            **({"cwd": str(tmp_path)} if kind == "local" else {"cwd": "/tmp"}),
        }
        return lambda ref=None: HermeticWorkspace(kind, ref=ref, **options)

    @pytest.fixture
    async def made(self) -> AsyncIterator[list[HermeticWorkspace]]:
        backends: list[HermeticWorkspace] = []
        yield backends
        for backend in backends:
            await end(backend)

    @pytest.fixture
    def fresh_backend(  # type: ignore[override]
        self, make: Callable[..., HermeticWorkspace], made: list[HermeticWorkspace]
    ) -> Callable[[], HermeticWorkspace]:
        def fresh() -> HermeticWorkspace:
            made.append(make())
            return made[-1]

        return fresh

    @pytest.fixture
    def backend(self, fresh_backend: Callable[[], HermeticWorkspace]) -> HermeticWorkspace:  # type: ignore[override]
        return fresh_backend()

    @pytest.fixture
    def attach_backend(
        self, make: Callable[..., HermeticWorkspace]
    ) -> Callable[[WorkspaceRef], WorkspaceBackend]:
        return make

    @pytest.fixture
    def destroy_environment(self) -> Callable[[WorkspaceBackend], Awaitable[None]]:
        return end


def test_the_example_of_the_docs_runs() -> None:
    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if isinstance(last := messages[-1].parts[-1], ToolReturnPart):
            return ModelResponse(parts=[TextPart(f"It is {str(last.content).strip()}.")])
        return ModelResponse(parts=[ToolCallPart("shell", {"command": "echo $((6 * 7))"})])

    names = run_example("pydantic-ai", model=FunctionModel(model))
    ref = names["result"].all_messages()[-1].workspace_ref
    hermetic.blocking.attach(ref.id).close(remove=True)


@pytest.mark.anyio
async def test_a_run_works_in_a_workspace_and_the_next_goes_on_there(tmp_path: Path) -> None:
    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        last = messages[-1].parts[-1]
        if isinstance(last, ToolReturnPart):
            return ModelResponse(parts=[TextPart(str(last.content))])
        return ModelResponse(
            parts=[ToolCallPart("shell", {"command": "echo x >> seen; wc -l < seen"})]
        )

    agent = Agent(
        FunctionModel(model), capabilities=[HermeticWorkspaces("sandbox", workspace=str(tmp_path))]
    )

    @agent.tool
    async def shell(ctx: RunContext[None], command: str) -> str:
        return (await ctx.workspace.run(command, shell=True)).stdout.strip()

    first = await agent.run("go")
    second = await agent.run("again", message_history=first.all_messages())
    try:
        assert (first.output, second.output) == ("1", "2")
    finally:
        ref = first.all_messages()[-1].workspace_ref  # type: ignore[union-attr]
        await end(HermeticWorkspace(ref=ref))
