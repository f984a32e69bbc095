"""What adapters do themselves, on a real environment and without their frameworks."""

import ast
import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import hermetic
from hermetic.adapters import opening
from hermetic.adapters.results import exit_code
from hermetic.session.users import Users, users_of
from hermetic.toolbox.images import split_images
from tests.adapters.absent import adapter
from tests.environments.engines import need_engine
from tests.programs import need_variable


@pytest.mark.parametrize("name", ["openai_loop", "anthropic_loop"])
def test_a_model_loop_has_twenty_lines(name: str) -> None:
    text = (Path(__file__).parents[2] / "examples" / f"{name}.py").read_text()
    words = ast.parse(text).body[0].end_lineno  # the docstring
    code = [line for line in text.splitlines()[words:] if line.strip()]
    assert len([line for line in code if not line.startswith(("import ", "from "))]) <= 20


async def test_endings_become_codes_and_the_frameworks_errors() -> None:
    async with hermetic.open("local") as environment:
        ended = await environment.run(["sh", "-c", "kill -9 $$"])
        late = await environment.run(["sleep", "60"], timeout=0.1)
    assert exit_code(ended, late=TimeoutError, gone=ConnectionError) == 137
    with pytest.raises(TimeoutError):
        exit_code(late, late=TimeoutError, gone=ConnectionError)


async def test_a_kind_of_this_machine_gets_a_directory_that_ends_with_its_environment() -> None:
    options, own = opening.with_directory("local", {"env": {"A": "1"}})
    environment = await hermetic.open("local", **options)
    assert (await environment.run("pwd; echo $A")).output == f"{own}\n1\n"
    await opening.end(environment, own)
    assert os.path.basename(own) not in os.listdir(os.path.dirname(own))
    assert opening.with_directory("local", {"cwd": "/"}) == ({"cwd": "/"}, "")
    assert opening.with_directory("docker", {}) == ({}, "")


@pytest.mark.parametrize(
    ("users", "user", "words"),
    [
        (Users("me", "1000"), None, ["ls", "-l"]),
        (Users("me", "1000"), 1000, ["ls", "-l"]),
        (Users("me", "1000"), "root", None),
        (Users("root", "0", True), "root", ["ls", "-l"]),
        (
            Users("root", "0", True),
            "me",
            ["su", "-s", "/bin/sh", "-c", 'exec "$@"', "--", "me", "sh", "ls", "-l"],
        ),
        (
            Users("root", "0", True),
            7,
            ["setpriv", "--reuid=7", "--regid=7", "--clear-groups", "--", "ls", "-l"],
        ),
    ],
)
def test_a_program_runs_as_another_user_where_that_is_possible(
    users: Users, user: str | int | None, words: list[str] | None
) -> None:
    assert users.argv(user, ["ls", "-l"]) == words


async def test_nobody_else_is_reachable_on_this_machine() -> None:
    async with hermetic.open("local") as environment:
        users = await users_of(environment)
    assert (users.id, users.can_switch) == (str(os.geteuid()), False)


async def test_root_of_a_container_reaches_its_other_users() -> None:
    need_engine("docker")
    async with hermetic.open("docker", image=need_variable("IMAGE_BASE")) as environment:
        users = await users_of(environment)
        assert (users.name, users.id, users.can_switch) == ("root", "0", True)
        for user, name in (("nobody", "nobody"), (65534, "nobody")):
            words = users.argv(user, ["sh", "-c", 'echo "$(id -un)" "$1"', "sh", "a  b"])
            assert words is not None
            assert (await environment.run(words)).output == f"{name} a  b\n"


async def test_inspect_ai(tmp_path: Path) -> None:
    with adapter("inspect_ai", "inspect_ai") as module:
        module.SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE = 1000
        environments = await module.HermeticSandbox.sample_init(
            "", module.HermeticConfig(kind="local"), {}
        )
        sandbox = environments["default"]
        try:
            await sandbox.write_file("d/file", "text")
            done = await sandbox.exec(["sh", "-c", "cat file; pwd >&2; exit 3"], cwd="d")
            with pytest.raises(TimeoutError) as late:
                await sandbox.exec(["sh", "-c", "echo begun; sleep 60"], timeout=1)
            with pytest.raises(PermissionError):
                await sandbox.exec([str(tmp_path)])
            with pytest.raises(module.SandboxUserUnsupportedError):
                await sandbox.exec(["true"], user="nobody-else")
        finally:
            await module.opening.end(sandbox._environment, sandbox._own)
    assert done.values == (False, 3, "text", f"{sandbox._directory}/d\n")
    assert late.value.truncated_output == "begun\n"  # type: ignore[attr-defined]


def test_minisweagent() -> None:
    with adapter("minisweagent", "minisweagent") as module:
        environment = module.HermeticEnvironment(kind="local", timeout=1)
        try:
            failed = environment.execute({"command": "echo out; exit 3"})
            late = environment.execute({"command": "sleep 60"})
            with pytest.raises(module.Submitted) as handed_in:
                environment.execute({"command": f"echo {module.SUBMIT}; echo work"})
            names = environment.get_template_vars(more="yes")
        finally:
            environment.cleanup()
    assert failed == {"output": "out\n", "returncode": 3, "exception_info": ""}
    assert late["returncode"] == -1
    assert handed_in.value.args[0]["content"] == "work\n"
    assert (names["system"], names["more"]) == ("Linux", "yes")


async def test_pydantic_ai(tmp_path: Path) -> None:
    with adapter("pydantic_ai", "pydantic_ai") as module:
        workspace = module.HermeticWorkspace("local", cwd=str(tmp_path))
        try:
            done = await workspace.run("echo out; echo err >&2; exit 3", shell=True)
            with pytest.raises(TypeError):
                await workspace.run("ls")
            with pytest.raises(module.WorkspaceTimeoutError):
                await workspace.run(["sleep", "60"], timeout=0.1)
            await workspace.make_dir("d")
            await workspace.write_bytes("d/file", b"data")
            names = [
                (entry.name, entry.is_dir, entry.size) for entry in await workspace.list_dir(".")
            ]
            with pytest.raises(ValueError, match="working directory"):
                await workspace.remove("..")
            await workspace.remove("d")
        finally:
            await opening.end(await hermetic.attach(workspace.ref.id), "")
        again = module.HermeticWorkspace(ref=workspace.ref)
        with pytest.raises(module.WorkspaceUnavailableError):
            await again.run(["true"])
    assert (done.exit_code, done.stdout, done.stderr) == (3, "out\n", "err\n")
    assert names == [("d", True, None)]
    assert os.listdir(tmp_path) == []


async def test_openai_agents(tmp_path: Path) -> None:
    with adapter("openai_agents", "agents") as module:
        async with hermetic.open("local", cwd=str(tmp_path)) as environment:
            action = SimpleNamespace(
                commands=["cd /; false", "pwd"], timeout_ms=None, max_output_length=9
            )
            request = SimpleNamespace(data=SimpleNamespace(action=action))
            result = await module.shell_executor(environment)(request)
            action.commands, action.timeout_ms = ["sleep 60", "echo never"], 100
            late = await module.shell_executor(environment)(request)
            # A character that arrives in two pieces is not cut.
            process = await environment.start(r"printf 'a\342'; read -r _; printf '\202\254'")
            terminal = module._Terminal(process, tty=False)
            first = ("", False)
            while not first[0]:
                first = await terminal.read(0.2)
            await process.submit("")
            assert (first, await terminal.read(60)) == (("a", False), ("€", True))
    assert [(one.outcome.exit_code, one.stdout) for one in result.output] == [(1, ""), (0, "/\n")]
    assert [one.outcome.type for one in late.output] == ["timeout"]


async def test_deepagents(tmp_path: Path) -> None:
    with (
        adapter("deepagents", "deepagents") as module,
        module.HermeticBackend("local", cwd=str(tmp_path)) as backend,
    ):
        kept = [
            backend.execute("cd /; A=1; false"),
            await backend.aexecute("pwd; echo $A", timeout=60),
        ]
        late = backend.execute("echo begun; sleep 60", timeout=1)
        put = backend.upload_files([(f"{tmp_path}/d/file", b"1\r\n2\n"), ("/proc/none/file", b"")])
        got = backend.download_files([f"{tmp_path}/d/file", f"{tmp_path}/missing", str(tmp_path)])
        listed = backend.ls(str(tmp_path)).entries
        page = module._read_result(
            backend._environment.read_lines(f"{tmp_path}/d/file", 1, 1), 0, 1
        )
    assert [(one.exit_code, one.output) for one in kept] == [(1, ""), (0, "/\n1\n")]
    assert (late.exit_code, late.output) == (124, "begun\n\n[timed out after 1 s]")
    assert put[0].error is None
    assert put[1].error is not None
    assert [one.error for one in got[1:]] == ["file_not_found", "is_directory"]
    assert got[0].content == b"1\r\n2\n"
    assert [(one.path, one.is_dir) for one in listed] == [(f"{tmp_path}/d", True)]
    assert (page.file_data.content, page.start_line, page.next_offset, page.total_lines) == (
        "1",
        1,
        1,
        2,
    )


async def test_claude_agent_sdk() -> None:
    with adapter("claude_agent_sdk", "claude_agent_sdk") as module:
        made: dict[str, Any] = {}
        module.create_sdk_mcp_server = lambda name, version, tools: made.update(
            {tool.values[0]: tool for tool in tools}
        )
        async with hermetic.Toolbox(policy="deny") as toolbox:
            options = module.agent_options(toolbox, allowed_tools=["Skill"], cwd="/")
            _, _, schema, handler = made["terminal"].values
            done = await handler({"command": "echo $((6 * 7))"})
            refused = await handler({"command": "rm -rf /"})
    assert (options.tools, options.cwd) == ([], "/")
    assert {"mcp__hermetic__terminal", "mcp__hermetic__read_file", "Skill"} <= set(
        options.allowed_tools
    )
    assert "command" in schema["properties"]
    assert json.loads(done["content"][0]["text"])["output"] == "42\n"
    assert (done["is_error"], refused["is_error"]) == (False, True)


def test_images_of_an_answer_are_shown_apart() -> None:
    answer = {
        "files": [
            {"media_type": "image/png", "data": "AA==", "path": "a"},
            {"media_type": "text/csv", "data": "1"},
        ]
    }
    text, images = split_images("", answer)
    assert images == answer["files"][:1]
    assert json.loads(text) == {
        "files": [{"media_type": "image/png", "path": "a"}, answer["files"][1]]
    }


def test_smolagents() -> None:
    with adapter("smolagents", "smolagents") as module:
        module.RemotePythonExecutor.__init__ = lambda self, imports, *_: setattr(
            self, "additional_imports", imports
        )
        module.RemotePythonExecutor.send_variables = lambda self, given: self.run_code_raise_errors(
            f"x = {given}"
        )
        module.RemotePythonExecutor.FINAL_ANSWER_EXCEPTION = "FinalAnswerException"
        with module.HermeticExecutor("local", timeout=1) as executor:
            executor.logger, executor.allow_pickle = None, False
            executor.send_variables(6)
            value = executor.run_code_raise_errors(
                "import os, sys\nprint('out')\nos.system('echo err >&2')\nx * 7"
            )
            with pytest.raises(module.AgentExecutionError, match="ZeroDivisionError"):
                executor.run_code_raise_errors("y = 1\n1 / 0")
            with pytest.raises(module.AgentExecutionError, match="interrupted after 1 s"):
                executor.run_code_raise_errors("import time\ntime.sleep(60)")
            kept = executor.run_code_raise_errors("y")
            with pytest.raises(module.AgentExecutionError, match="has ended: exited with code 3"):
                executor.run_code_raise_errors("os._exit(3)")
            replaced = executor.run_code_raise_errors("x")
    assert (value.output, sorted(value.logs.split())) == ("42", ["err", "out"])
    assert (kept.output, replaced.output) == ("1", "6")


async def test_swerex() -> None:
    with adapter("swerex", "swerex") as module:
        deployment = module.HermeticDeployment("local")
        deployment._hooks.on_custom_step = lambda _: None
        await deployment.start()

        async def act(command: str, **more: Any) -> Any:
            given = {
                "session": "a",
                "check": "silent",
                "timeout": 60,
                "error_msg": "",
                "expect": [],
            } | more
            given = {"is_interactive_command": False} | given
            return await deployment.runtime.run_in_session(
                module.BashAction(command=command, **given)
            )

        try:
            request = SimpleNamespace(session="a", startup_source=[], startup_timeout=1)
            await deployment.runtime.create_session(request)
            with pytest.raises(module.SessionExistsError):
                await deployment.runtime.create_session(request)
            await act("cd /; A=1")
            kept = await act("pwd; echo $A; false")
            with pytest.raises(module.BashIncorrectSyntaxError):
                await act("if then")
            with pytest.raises(module.CommandTimeoutError):
                await act("sleep 60", timeout=0.2)
            prompt = await act(
                "while read -r -p 'more> ' x; do echo got $x; done", expect=["more> "]
            )
            echoed = await act("seven", expect=["more> "])
            ended = await act("\x04")
            back = await act("echo back")
        finally:
            await deployment.stop()
    assert (kept.output, kept.exit_code) == ("/\n1\n", 1)
    assert prompt.expect_string == "more> "
    assert (echoed.output, back.output) == ("got seven", "back\n")
    assert ended.exit_code == 0


async def test_harbor(tmp_path: Path) -> None:
    with adapter("harbor", "harbor") as module:
        with pytest.raises(ValueError, match="docker or podman"):
            module.HermeticEnvironment(tmp_path, "a", "b", None, None, kind="local")
        environment = module.HermeticEnvironment(tmp_path, "a", "b", None, None)
        environment._merge_env, environment._resolve_user = lambda env: env, lambda user: user
        environment._output_callback, environment._users = lambda: None, Users("agent", "1000")
        with pytest.raises(hermetic.EnvironmentUnavailable):
            await environment.exec("true")
        environment._environment = await hermetic.open("local", cwd=str(tmp_path))
        try:
            done = await environment.exec(
                "echo $A; echo err >&2; exit 3", env={"A": "1"}, user=1000
            )
            with pytest.raises(TimeoutError):
                await environment.exec("sleep 60", timeout_sec=1)
            with pytest.raises(PermissionError):
                await environment.exec("true", user="root")
            await environment.exec("mkdir tree; echo text > tree/file")
            await environment.download_dir(f"{tmp_path}/tree", tmp_path / "down")
            await environment.upload_dir(tmp_path / "down", f"{tmp_path}/again")
        finally:
            await environment.stop(delete=True)
    assert (done.return_code, done.stdout, done.stderr) == (3, "1\n", "err\n")
    assert os.listdir(tmp_path / "again") == ["file"]
