"""Approvals and secrets over MCP: asked through the client, in both protocol eras, and never
through the model.
"""

import asyncio
import functools
import html
import json
import os
from pathlib import Path
from typing import Any

import httpx2
import mcp_types
import pytest
from mcp import Client as MCPClient
from mcp.client.stdio import stdio_client
from mcp_types import ElicitRequestFormParams, ElicitRequestURLParams, ElicitResult

from hermetic.config.settings import Settings, SudoSettings
from hermetic.mcp.calls import Calls
from hermetic.mcp.client import ANSWERING, TYPING, About, ServeOptions
from hermetic.mcp.client import Client as HermeticClient
from tests.environments.sshd import running
from tests.mcp.clients import ERAS, answer, connected, eventually, in_process, send_form, server
from tests.tools.terminal.test_sudo import PASSWORD, USER, let_in, user_with_password

SECRET = "correct-horse-battery"


RULES = """
[[approvals.rules]]
decision = "ask"
command = ["rm"]
reason = "removes files"
matches = ["rm -rf x"]
"""


@pytest.fixture
def asks(tmp_path: Path) -> dict[str, Any]:
    """Options of a client whose user's settings ask before a file is removed."""
    (settings := tmp_path / "config" / "hermetic").mkdir(parents=True)
    (settings / "config.toml").write_text(RULES)
    return {"variables": {"XDG_CONFIG_HOME": str(tmp_path / "config")}}


@pytest.fixture(params=ERAS)
def era(request: pytest.FixtureRequest) -> str:
    """The protocol that the client speaks."""
    return str(request.param)


@pytest.fixture
def doomed(tmp_path: Path) -> Path:
    """A directory that a command is to remove."""
    (directory := tmp_path / "old").mkdir()
    return directory


class User:
    """Answers forms by a list of replies, and types a secret on pages."""

    def __init__(self, *replies: ElicitResult) -> None:
        self.replies = list(replies)
        self.secret = SECRET
        self.forms: list[ElicitRequestFormParams] = []
        self.pages: list[ElicitRequestURLParams] = []
        self.shown: list[str] = []  # texts of pages

    async def __call__(self, _: Any, params: mcp_types.ElicitRequestParams) -> ElicitResult:
        if isinstance(params, ElicitRequestFormParams):
            self.forms.append(params)
            return self.replies.pop(0)
        self.pages.append(params)
        async with httpx2.AsyncClient(trust_env=False) as browser:
            page = await browser.get(params.url)
            assert (page.status_code, "type=password" in page.text) == (200, True)
            self.shown.append(html.unescape(page.text))
            sent = await send_form(browser, page, self.secret)
            assert sent.status_code == 200
            assert (await browser.get(params.url)).status_code == 404
        return ElicitResult(action="accept")


def reply(answer: str, reason: str = "") -> ElicitResult:
    return ElicitResult(action="accept", content={"answer": answer, "reason": reason})


async def test_a_dangerous_command_runs_after_a_yes(
    era: str, doomed: Path, asks: dict[str, Any]
) -> None:
    user = User(reply("once"))
    async with connected(era, elicitation_callback=user, **asks) as client:
        done = await answer(client, "terminal", {"command": f"cd /; rm -rf {doomed} && echo gone"})
        assert (done["output"], done["exit_code"]) == ("gone\n", 0)
        assert not os.access(doomed, os.F_OK)
    [form] = user.forms
    assert f"rm -rf {doomed}" in form.message
    assert "once" in form.requested_schema["properties"]["answer"]["enum"]


@pytest.mark.parametrize("no", [reply("deny", "keep it"), ElicitResult(action="decline")])
async def test_a_denied_command_is_blocked_and_not_asked_about_again(
    era: str, no: ElicitResult, doomed: Path, asks: dict[str, Any]
) -> None:
    user = User(no)
    async with connected(era, elicitation_callback=user, **asks) as client:
        for _ in range(2):
            refused = await answer(client, "terminal", {"command": f"cd /; rm -rf {doomed}"})
            assert (refused["status"], refused["refused_by"]) == ("blocked", "user")
            assert os.access(doomed, os.F_OK)
    assert len(user.forms) == 1


async def test_a_closed_question_allows_nothing_and_is_asked_again(
    era: str, doomed: Path, asks: dict[str, Any]
) -> None:
    user = User(ElicitResult(action="cancel"), reply("once"))
    async with connected(era, elicitation_callback=user, **asks) as client:
        command = {"command": f"cd /; rm -rf {doomed}"}
        assert (await answer(client, "terminal", command))["status"] == "blocked"
        assert (await answer(client, "terminal", command))["exit_code"] == 0
    assert len(user.forms) == 2


async def test_a_client_that_cannot_ask_is_refused_and_not_offered_to_ask(
    era: str, tmp_path: Path, asks: dict[str, Any]
) -> None:
    async with connected(era, **asks) as client:
        assert "request_approval" not in {tool.name for tool in (await client.list_tools()).tools}
        refused = await answer(client, "terminal", {"command": f"cd /; rm -rf {tmp_path}"})
        assert (refused["status"], refused["refused_by"]) == ("blocked", "nobody")


async def test_a_script_is_asked_about_in_its_middle_and_runs_once(
    era: str, doomed: Path, tmp_path: Path, asks: dict[str, Any]
) -> None:
    user = User(reply("once"))
    code = (
        "from hermetic_tools import terminal\n"
        f"open({str(tmp_path / 'runs')!r}, 'a').write('x')\n"
        f"print(terminal(command='cd /; rm -rf {doomed} && echo gone')['output'])\n"
    )
    async with connected(era, elicitation_callback=user, **asks) as client:
        done = await answer(client, "execute_code", {"code": code})
        assert done["output"].strip() == "gone", done
    assert (tmp_path / "runs").read_text() == "x"
    assert len(user.forms) == 1


async def test_a_secret_is_typed_on_a_page_and_no_message_holds_it(
    era: str, tmp_path: Path
) -> None:
    user, seen, messages = User(), tmp_path / "seen", tmp_path / "messages"
    given = server()
    given.args = ["-c", f'"$0" "$@" | tee {messages}', given.command, *given.args]
    given.command = "bash"

    async def watch(_: float, __: float | None, ___: str | None) -> None:
        (tmp_path / "go").touch()

    options: dict[str, Any] = {"mode": era, "elicitation_callback": user}
    async with MCPClient(stdio_client(given), **options) as client:
        command = f"read -rs -p 'Password: ' x; echo; echo \"$x\" > {seen}; echo got $x"
        command += f"; until [ -e {tmp_path}/go ]; do sleep 0.05; echo still $x; done"
        started = await answer(
            client, "terminal", {"command": command, "background": True, "pty": True}
        )
        id = started["session_id"]
        typed = await answer(
            client, "type_secret", {"session_id": id, "reason": "The database asks."}
        )
        assert typed["status"] == "typed", typed
        ended = await answer(
            client, "process", {"action": "wait", "session_id": id}, progress_callback=watch
        )
        assert ended["exit_code"] == 0
        log = await answer(client, "process", {"action": "log", "session_id": id})
        assert "got" in log["output"], log
        await client.read_resource(f"hermetic://logs/{id}")
    assert seen.read_text().strip() == SECRET
    [page] = user.pages
    assert page.url.startswith("http://127.0.0.1:")
    written = messages.read_text()
    assert page.url in written
    assert "notifications/progress" in written
    assert written.count("got ") >= 2  # the log as an answer and as a resource
    assert SECRET not in written


async def test_the_page_shows_the_whole_command_before_the_models_reason() -> None:
    user = User()
    command = (
        f'read -rs x; echo {"psql --set=ON_ERROR_STOP=1 " * 20}; echo "$x" | base64 > /dev/null'
    )
    reason = "Your login password. It is typed into: sudo apt-get update " + "x" * 500
    async with connected("legacy", elicitation_callback=user) as client:
        started = await answer(
            client, "terminal", {"command": command, "background": True, "pty": True}
        )
        asked = {"session_id": started["session_id"], "reason": reason}
        assert (await answer(client, "type_secret", asked))["status"] == "typed"
        long = f"read -rs x; : {'y' * 5000}; echo $x > /dev/null"
        started = await answer(
            client, "terminal", {"command": long, "background": True, "pty": True}
        )
        asked = {"session_id": started["session_id"], "reason": "x"}
        assert (await answer(client, "type_secret", asked))["status"] == "typed"
    first, second = user.shown
    assert f"<pre>{command}</pre><p>The model says: Your login password." in first
    assert "x" * 200 not in first
    assert "y\n[this is the start of a longer command]</pre>" in second
    message = user.pages[0].message
    assert message.index(command) < message.index("The model says: Your login")


async def test_a_sudo_page_shows_the_command_of_the_call(tmp_path: Path) -> None:
    user = User()
    user.secret = PASSWORD
    with user_with_password(), running(tmp_path / "there") as sshd:
        let_in(tmp_path / "there", sshd.home)
        given = {**sshd.options, "user": USER}
        options = [
            word for name, value in given.items() for word in ("-o", f"{name}={json.dumps(value)}")
        ]
        async with in_process(
            "legacy", "--env", "ssh", *options, elicitation_callback=user
        ) as client:
            command = f": {'x' * 300}; sudo id -u"
            done = await answer(client, "terminal", {"command": command})
    assert done["output"] == "0\n", done
    [shown] = user.shown
    assert f"<pre>{command}</pre><p>sudo asks: " in shown


def test_the_page_of_sudo_stays_open_as_long_as_other_pages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seconds: list[float] = []
    monkeypatch.setattr(
        "hermetic.mcp.client.Toolbox",
        lambda **given: seconds.append(given["settings"].sudo.timeout),
    )
    for settings in (
        Settings(),
        Settings(sudo=SudoSettings(timeout=7), places={"sudo.timeout": "a file"}),
    ):
        HermeticClient(ServeOptions(settings=settings), About(opens_pages=True))
    assert seconds == [ANSWERING + TYPING, 7]


async def run_script(client: MCPClient, code: str, **more: Any) -> Any:
    """The answer to one request of a script, which may be a question."""
    return await client.session.call_tool(
        "execute_code", {"code": code}, allow_input_required=True, **more
    )


async def test_a_late_answer_settles_no_later_question(
    tmp_path: Path, asks: dict[str, Any]
) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    code = (
        "from hermetic_tools import terminal\n"
        f"for name in ('one', 'two'): print(terminal(command='rm -rf {tmp_path}/' + name)['status'])\n"
    )
    async with connected("auto", elicitation_callback=User(), **asks) as client:
        call = functools.partial(run_script, client, code)
        first = await call()
        assert isinstance(first, mcp_types.InputRequiredResult)
        no: dict[str, Any] = {"question": ElicitResult(action="decline")}
        second = await call(request_state=first.request_state, input_responses=no)
        assert isinstance(second, mcp_types.InputRequiredResult)
        assert second.request_state != first.request_state
        yes: dict[str, Any] = {"question": reply("once")}
        # the answer to the first one
        last = await call(request_state=first.request_state, input_responses=yes)
        assert isinstance(last, mcp_types.InputRequiredResult)
        assert last.request_state == second.request_state
        over = await call(request_state=second.request_state, input_responses=no)
        assert isinstance(over, mcp_types.CallToolResult)
    assert (tmp_path / "one").exists()
    assert (tmp_path / "two").exists()


async def test_a_continuation_that_is_sent_twice_cancels_nothing(
    tmp_path: Path, asks: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hermetic.mcp.server.UNCLAIMED", unclaimed := 5.0)
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    code = (
        "import time\nfrom hermetic_tools import terminal\n"
        f"for name in ('one', 'two'): print(terminal(command='rm -rf {tmp_path}/' + name)['exit_code'])\n"
        f"time.sleep({unclaimed + 1})\nprint('end')\n"
    )
    async with in_process("auto", elicitation_callback=User(), **asks) as client:
        call = functools.partial(run_script, client, code)
        first = await call()
        yes: dict[str, Any] = {"question": reply("once")}
        again = {"request_state": first.request_state, "input_responses": yes}
        second, same = await asyncio.gather(call(**again), call(**again))
        assert second.request_state == same.request_state
        async with asyncio.timeout(60):
            last = await call(request_state=second.request_state, input_responses=yes)
        assert json.loads(last.content[0].text)["output"] == "0\n0\nend\n"


async def test_a_request_whose_call_was_cancelled_by_another_is_answered(
    tmp_path: Path, asks: dict[str, Any]
) -> None:
    (tmp_path / "one").mkdir()
    code = (
        "import time\nfrom hermetic_tools import terminal\n"
        f"terminal(command='rm -rf {tmp_path}/one')\ntime.sleep(1000)\n"
    )
    async with in_process("auto", elicitation_callback=User(), **asks) as client:
        call = functools.partial(run_script, client, code)
        first = await call()
        yes: dict[str, Any] = {"question": reply("once")}
        again = {"request_state": first.request_state, "input_responses": yes}
        given_up, kept = (asyncio.create_task(call(**again)) for _ in range(2))
        await eventually(lambda: not (tmp_path / "one").exists())
        given_up.cancel()
        async with asyncio.timeout(60):
            over = await kept
        assert "not open any more" in over.content[0].text


async def test_a_call_that_the_client_does_not_continue_is_forgotten() -> None:
    calls = Calls()

    async def work() -> str:
        call = calls.asking("mcp")
        assert call is not None
        await call.ask(
            ElicitRequestFormParams(
                message="x", requested_schema={"type": "object", "properties": {}}
            )
        )
        return "{}"

    call = calls.start("terminal", {}, "mcp", work())
    question = await call.next_question()
    assert question is not None
    state = call.suspend(question, 0.01)
    assert calls.find(state, "terminal", {}) is call
    await asyncio.wait([call.task])
    await eventually(lambda: calls.find(state, "terminal", {}) is None)
    await calls.close()


async def test_a_repeated_request_with_a_foreign_state_starts_nothing(tmp_path: Path) -> None:
    async with connected("auto") as client:
        result = await client.session.call_tool(
            "terminal",
            {"command": f"touch {tmp_path}/x"},
            request_state="made up",
            input_responses={"question": reply("once")},
            allow_input_required=True,
        )
        assert isinstance(result, mcp_types.CallToolResult)
        assert result.is_error
    assert not (tmp_path / "x").exists()
