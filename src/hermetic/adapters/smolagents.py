"""An executor for smolagents.

    with HermeticExecutor("docker", image="python:3.12") as executor:
        agent = CodeAgent(tools=[], model=model, executor=executor)

The agent's code and the source code of its tools run in a Python interpreter of the environment.
"""

import ast
import json
import time
from pathlib import Path
from typing import Any, Self

from hermetic import blocking
from hermetic.adapters.frameworks import framework
from hermetic.contract.errors import ExecutionError

with framework("smolagents"):
    from smolagents import Tool
    from smolagents.local_python_executor import CodeOutput
    from smolagents.monitoring import AgentLogger
    from smolagents.remote_executors import RemotePythonExecutor
    from smolagents.utils import AgentExecutionError

KERNEL = Path(__file__).with_name("python_kernel.py")
# Prints which of the named packages are not installed.
MISSING = """
import importlib.metadata, sys
for name in sys.argv[1:]:
    try:
        importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        print(name)
"""
# the final answer that the framework sends works without them, but imports them
OPTIONAL = ("numpy", "PIL")
INTERRUPTED = 5.0  # seconds that code has to end after an interrupt


class HermeticExecutor(RemotePythonExecutor):
    """A Python interpreter in an environment of Hermetic, which ends with `cleanup`, or with this
    program.

    Code that exceeds `timeout` is interrupted and keeps its variables. An interpreter that does not
    stop is replaced; then only tools and the agent's own variables remain.
    """

    def __init__(
        self,
        kind: str = "sandbox",
        *,
        additional_imports: list[str] | None = None,
        logger: AgentLogger | None = None,
        allow_pickle: bool = False,
        timeout: float = 120.0,
        python: str = "python3",
        **options: Any,
    ) -> None:
        super().__init__(additional_imports or [], logger or AgentLogger(), allow_pickle)
        self._timeout, self._python = timeout, python
        self._process: blocking.Process | None = None
        self._offset, self._unread = 0, b""
        self._preparing = False
        self._prepared: list[str] = []  # code that a new interpreter runs first
        self._environment = blocking.open(kind, **options)
        try:
            self.installed_packages = self.install_packages(self.additional_imports)
        except BaseException:
            self.cleanup()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.cleanup()

    def cleanup(self) -> None:
        """Ends the environment and all that runs in it."""
        self._environment.close(remove=True)

    def send_tools(self, tools: dict[str, Tool]) -> None:
        """Defines the agent's tools, and installs the packages that they import."""
        others = [tool for name, tool in tools.items() if name != "final_answer"]
        wanted = {package for tool in others for package in tool.to_dict()["requirements"]}
        self.installed_packages += [package for package in OPTIONAL if package not in wanted]
        self._prepare(lambda: super(HermeticExecutor, self).send_tools(tools))

    def send_variables(self, variables: dict[str, Any]) -> None:
        """Sets variables."""
        self._prepare(lambda: super(HermeticExecutor, self).send_variables(variables))

    def run_code_raise_errors(self, code: str) -> CodeOutput:
        """Runs code.

        Raises AgentExecutionError for an exception in it, and when it was interrupted.
        """
        if self._preparing:
            code = _with_optional_imports(code)
            self._prepared.append(code)
        answer = self._ask(code)
        printed = answer["printed"]
        if answer.get("error") == self.FINAL_ANSWER_EXCEPTION:
            value = self._deserialize_final_answer(answer["carried"], self.allow_pickle)
            return CodeOutput(output=value, logs=printed, is_final_answer=True)
        if "error" in answer:
            raise AgentExecutionError(f"{printed}\n{answer['text']}", self.logger)
        return CodeOutput(output=answer["value"], logs=printed, is_final_answer=False)

    def install_packages(self, additional_imports: list[str]) -> list[str]:
        """Installs missing packages with pip, but not on this machine itself.

        Raises AgentExecutionError.
        """
        if not additional_imports:
            return []
        missing = self._environment.run(
            [self._python, "-c", MISSING, *additional_imports]
        ).output.split()
        if missing and self._environment.kind == "local":
            names = " ".join(missing)
            raise AgentExecutionError(
                f"install {names} yourself: the kind local has this machine's Python", self.logger
            )
        if missing:
            done = self._environment.run([self._python, "-m", "pip", "install", *missing])
            if done.exit_code != 0:
                raise AgentExecutionError(f"pip {done.ending}: {done.output}", self.logger)
            self.logger.log(done.output)
        return additional_imports

    def _prepare(self, send: Any) -> None:
        self._preparing = True
        try:
            send()
        finally:
            self._preparing = False

    def _ask(self, code: str) -> dict[str, Any]:
        """The interpreter's answer.

        Raises AgentExecutionError when it is gone or was interrupted.
        """
        try:
            self._send(code)
            if (answer := self._answer(self._timeout)) is not None:
                return answer
            assert self._process is not None
            self._process.signal("INT")
            late = f"the code was interrupted after {self._timeout:g} s"
            if (answer := self._answer(INTERRUPTED)) is not None:
                raise AgentExecutionError(f"{answer['printed']}\n{late}", self.logger)
            self._process.kill()
            self._process = None
            raise AgentExecutionError(
                f"{late}; its interpreter had to be ended, and variables are lost", self.logger
            )
        except (ExecutionError, EOFError) as error:
            self._process = None
            raise AgentExecutionError(f"the interpreter has ended: {error}", self.logger) from error

    def _send(self, code: str) -> None:
        if self._process is None:
            self._process = self._environment.start(
                [self._python, "-c", KERNEL.read_text()], separate=True
            )
            self._offset, self._unread = 0, b""
            for prepared in self._prepared[: -1 if self._preparing else None]:
                self._write(prepared)
                self._answer(self._timeout)
        self._write(code)

    def _write(self, code: str) -> None:
        assert self._process is not None
        self._process.write(json.dumps({"code": code}) + "\n")

    def _answer(self, seconds: float) -> dict[str, Any] | None:
        """The next answer; None when there was none in time.

        Raises EOFError when the interpreter has ended.
        """
        assert self._process is not None
        until = time.monotonic() + seconds
        while b"\n" not in self._unread:
            if (rest := until - time.monotonic()) <= 0:
                return None
            chunk = self._process.read(self._offset, wait=rest)
            self._offset, self._unread = chunk.end, self._unread + chunk.data
            if chunk.ended and b"\n" not in self._unread:
                raise EOFError(str(self._process.wait()))
        line, _, self._unread = self._unread.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        return answer


def _with_optional_imports(code: str) -> str:
    """The code, in which the first imports of optional packages may fail."""
    tree = ast.parse(code)
    for at, node in enumerate(tree.body):
        names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if any(name.partition(".")[0] in OPTIONAL for name in names):
            guarded = ast.parse("try:\n    pass\nexcept ImportError:\n    pass").body[0]
            assert isinstance(guarded, ast.Try)
            guarded.body, tree.body[at] = [node], guarded
    return ast.unparse(tree)
