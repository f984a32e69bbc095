"""Printed configurations: each client's own form, and what the documentation shows."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from hermetic.cli import main
from hermetic.mcp.clients import CONFIGURATIONS, WAIT, longest_wait
from tests.cli.program import hermetic as command_line

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "use-from-claude-code.md"


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["mcp", *words]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("client", CONFIGURATIONS)
def test_a_configuration_starts_the_server_with_the_given_options(
    client: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = printed(
        capsys,
        "--print-config",
        client,
        "--env",
        "docker",
        "--image",
        "a b",
        "--directory",
        "d",
        "--wait",
        "9",
        "-o",
        'env={"A": "🦊"}',
    )
    found: dict[str, Any] = tomllib.loads(text) if client == "codex" else json.loads(text)
    [servers] = found.values()
    assert servers["hermetic"]["command"] == "hermetic"
    options = [
        "--env",
        "docker",
        "--image",
        "a b",
        "--directory",
        "d",
        "--wait",
        "9",
        "-o",
        'env={"A": "🦊"}',
    ]
    assert servers["hermetic"]["args"] == ["mcp", *options]


@pytest.mark.parametrize("client", ["codex", "cursor", "vscode", "gemini"])
def test_the_documentation_shows_what_is_printed(
    client: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = printed(capsys, "--print-config", client, "--env", "sandbox")
    blocks = [block.partition("\n")[2] for block in PAGE.read_text().split("```")[1::2]]
    parse: Any = tomllib.loads if client == "codex" else json.loads
    assert any(_parsed(parse, block) == parse(text) for block in blocks)


@pytest.mark.parametrize("client", CONFIGURATIONS)
def test_a_configuration_connects_to_a_server_over_http(
    client: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["mcp", "--print-config", client, "--url", "http://127.0.0.1:7625/"]) == 0
    printed = capsys.readouterr()
    parse: Any = tomllib.loads if client == "codex" else json.loads
    found = parse(printed.out)
    [server] = next(
        found[key] for key in ("mcpServers", "servers", "mcp_servers") if key in found
    ).values()
    assert "http://127.0.0.1:7625/mcp" in (server.get("url"), server.get("httpUrl"))
    assert ("HERMETIC_TOKEN" in printed.out) == (client != "vscode")
    assert "hermetic serve token --scope mcp" in printed.err
    blocks = [block.partition("\n")[2] for block in PAGE.read_text().split("```")[1::2]]
    assert any(_parsed(parse, block) == found for block in blocks)


@pytest.mark.parametrize("words", [["--env", "docker"], ["-o", "lease=1"], ["--wait", "9"]])
def test_options_of_the_server_do_not_go_with_a_url(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["mcp", "--print-config", "codex", "--url", "http://127.0.0.1:7625", *words]) == 2
    assert "does not go with --url" in capsys.readouterr().err


def test_a_url_needs_a_client_and_a_scheme(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mcp", "--url", "http://127.0.0.1:7625"]) == 2
    assert main(["mcp", "--print-config", "codex", "--url", "127.0.0.1:7625"]) == 2


def _parsed(parse: Any, block: str) -> object:
    try:
        return parse(block)
    except ValueError:
        return None


def test_an_unknown_client_is_told_which_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["mcp", "--print-config", "emacs"])
    assert "claude-code" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "wait"),
    [
        ("claude-code", None),
        ("Visual Studio Code", None),
        ("gemini-cli-mcp-client-x", 540.0),
        ("other", WAIT),
        ("", WAIT),
    ],
)
def test_calls_wait_as_long_as_the_client_does(name: str, wait: float | None) -> None:
    assert longest_wait(name) == wait


def test_a_wrong_kind_or_option_ends_the_server_with_a_reason() -> None:
    assert b"nonsense" in command_line("mcp", "--env", "nonsense").stderr
    printed = command_line("mcp", "--print-config", "cursor", "--env", "nonsense")
    assert (printed.returncode, printed.stdout) == (2, b"")
    wrong = command_line("mcp", "-o", "nonsense=1", stdin=b"{}\n")
    assert (wrong.returncode, wrong.stdout) == (2, b"")
    assert b"-o nonsense" in wrong.stderr
