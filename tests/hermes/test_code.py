"""`execute_code`, its schema, and the module for scripts."""

import inspect
import json
import os
import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from hermetic import hermes
from hermetic.contract.tool import Fields

SEVEN = {
    "web_search",
    "web_extract",
    "read_file",
    "write_file",
    "search_files",
    "patch",
    "terminal",
}


def run(code: str, **more: Any) -> Fields:
    answer: Fields = json.loads(hermes.execute_code(code, **more))
    return answer


def test_a_script_answers_status_output_calls_and_time(tmp_path: Path) -> None:
    code = (
        "from hermes_tools import terminal, write_file, read_file, json_parse, shell_quote, retry\n"
        "write_file('f.txt', 'one\\ntwo\\n')\n"
        "print(read_file('f.txt', 2)['content'], terminal('echo hi')['output'], shell_quote('a b'))\n"
    )
    answer = run(code, task_id="t")
    assert (answer["status"], answer["output"], answer["tool_calls_made"]) == (
        "success",
        "2|two hi\n 'a b'\n",
        3,
    )
    assert 0 < answer["duration_seconds"] < 60
    assert (tmp_path / "f.txt").read_text() == "one\ntwo\n"


def test_its_tools_act_in_the_tasks_own_environment() -> None:
    hermes.terminal_tool("export SEEN=1", task_id="t")
    code = "from hermes_tools import terminal\nprint(terminal('echo $SEEN')['output'])"
    assert run(code, task_id="t")["output"] == "1\n\n"


def test_a_failing_script_answers_its_error() -> None:
    answer = run("print('before'); raise SystemExit(3)")
    assert (answer["status"], answer["tool_calls_made"]) == ("error", 0)
    assert answer["output"].startswith("before\n")
    assert "error" in answer
    assert "ZeroDivisionError" in run("1 / 0")["output"]


@pytest.mark.parametrize("code", ["", "  \n", None])
def test_no_code_is_an_error(code: Any) -> None:
    assert run(code) == {"error": "No code provided."}


@pytest.mark.parametrize("code", [3, b"print(1)"])
def test_code_that_is_no_text_is_an_error(code: Any) -> None:
    answer = run(code)
    assert (answer["status"], "Expected `str`" in answer["error"]) == ("error", True)


def test_only_enabled_tools_can_be_imported() -> None:
    listed = "import hermes_tools\nprint([n for n in ('terminal', 'read_file', 'patch') if hasattr(hermes_tools, n)])"
    assert (
        run(listed, enabled_tools=["terminal", "patch", "browser"])["output"]
        == "['terminal', 'patch']\n"
    )
    assert run(listed, enabled_tools=["browser"])["output"] == "[]\n"  # never more than was enabled
    assert run(listed)["output"] == "['terminal', 'read_file', 'patch']\n"


def test_an_interrupt_ends_a_script() -> None:
    threading.Timer(0.5, hermes.set_interrupt_event, [True]).start()
    answer = run("import time; print('before', flush=True); time.sleep(600)")
    hermes.set_interrupt_event(False)
    assert answer["status"] == "interrupted"


def test_a_timeout_is_read_from_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERMETIC_CODE_EXECUTION_TIMEOUT", "1")
    answer = run("import time; time.sleep(600)")
    assert answer["status"] == "timeout"
    assert "1 s" in answer["error"]


# -- schema
def test_the_schema_names_enabled_tools_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEARXNG_URL", "http://127.0.0.1:1")
    whole = hermes.build_execute_code_schema()
    assert whole["name"] == "execute_code"
    assert whole["parameters"]["required"] == ["code"]
    assert list(whole["parameters"]["properties"]) == ["code"]
    assert all(f"  {name}(" in whole["description"] for name in SEVEN)
    assert "web_search, terminal, ..." in whole["parameters"]["properties"]["code"]["description"]
    some = hermes.build_execute_code_schema({"read_file", "patch"}, mode="strict")
    assert "read_file(" in some["description"]
    assert "terminal(command" not in some["description"]
    assert "web_search" not in json.dumps(some)
    assert "patch, read_file, ..." in some["parameters"]["properties"]["code"]["description"]


def test_the_schema_names_web_tools_where_they_can_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERMETIC_WEB_EXTRACT_BACKEND", "off")
    for enabled in (None, SEVEN):
        schema = hermes.build_execute_code_schema(enabled)
        assert "web_" not in json.dumps(schema)
        assert "terminal, ..." in schema["parameters"]["properties"]["code"]["description"]


# -- the module
def module(source: str) -> Any:
    names: dict[str, Any] = {}
    exec(compile(source, "hermes_tools.py", "exec"), names)
    return names


def test_the_module_has_a_function_for_each_enabled_tool() -> None:
    names = module(hermes.generate_hermes_tools_module(["terminal", "search_files", "browser"]))
    assert {"terminal", "search_files"} <= set(names)
    assert not {"browser", "patch", "read_file"} & set(names)
    assert (
        str(inspect.signature(names["terminal"]))
        == "(command: str, timeout: int = None, workdir: str = None)"
    )
    parameters = inspect.signature(names["search_files"]).parameters
    assert {
        name: one.default for name, one in parameters.items() if one.default is not one.empty
    } == {
        "target": "content",
        "path": ".",
        "file_glob": None,
        "limit": 50,
        "offset": 0,
        "output_mode": "content",
        "context": 0,
    }
    every = module(hermes.generate_hermes_tools_module(SEVEN, transport="file"))
    assert set(every) >= SEVEN | {"json_parse", "shell_quote", "retry"}


def test_its_calls_go_to_a_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, asked = str(Path(os.environ["HERMETIC_RUNTIME_DIR"], "rpc.sock")), []
    monkeypatch.setenv("HERMES_RPC_SOCKET", path)
    names = module(hermes.generate_hermes_tools_module(["terminal", "read_file"]))
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen()

        def serve() -> None:
            client, _ = server.accept()
            with client, client.makefile("rwb") as stream:
                for answer in ({"output": "x"}, json.dumps({"content": "y"}), "plain"):
                    asked.append(json.loads(stream.readline()))
                    stream.write(json.dumps(answer).encode() + b"\n")
                    stream.flush()

        thread = threading.Thread(target=serve)
        thread.start()
        assert names["terminal"]("ls", timeout=5) == {"output": "x"}
        assert names["read_file"]("f") == {"content": "y"}
        assert names["read_file"]("f", 3) == "plain"
        thread.join()
        with pytest.raises((RuntimeError, OSError)):
            names["terminal"]("ls")
    assert asked[0]["tool"] == "terminal"
    assert asked[0]["args"] == {"command": "ls", "timeout": 5, "workdir": None}
    os.unlink(path)
    names["_connection"].close()


def test_its_calls_go_through_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERMES_RPC_DIR", str(tmp_path))
    names = module(hermes.generate_hermes_tools_module(["write_file"], transport="file"))
    request, answer = tmp_path / "req_000001", tmp_path / "res_000001"
    answer.write_text(json.dumps({"bytes_written": 1}))
    assert names["write_file"]("f", "x") == {"bytes_written": 1}
    asked = json.loads(request.read_text())
    assert (asked["tool"], asked["args"], asked["seq"]) == (
        "write_file",
        {"path": "f", "content": "x"},
        1,
    )
    assert not answer.exists()


def test_helpers_of_the_module() -> None:
    names = module(hermes.generate_hermes_tools_module([]))
    assert names["json_parse"]('{"a": "b\tc"}') == {"a": "b\tc"}
    assert names["shell_quote"]("a b") == "'a b'"
    tries: list[int] = []

    def fails() -> None:
        tries.append(1)
        raise KeyError("no")

    with pytest.raises(KeyError):
        names["retry"](fails, max_attempts=2, delay=0)
    assert len(tries) == 2
