"""Which variables commands on this machine start with."""

import pytest

from hermetic.environments.child_environment import child_environment, is_credential

CREDENTIALS = (
    "OPENAI_API_KEY", "GITHUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "PGPASSWORD", "DB_PASSWD", "GPG_PASSPHRASE", "MYSQL_PWD",
    "GOOGLE_APPLICATION_CREDENTIALS", "SLACK_TOKENS", "apikey", "SSH_KEY", "NPM_AUTH", "SESSION_JWT", "MY_CREDS",
)  # fmt: skip
ORDINARY = (
    "PATH", "HOME", "PWD", "OLDPWD", "SSH_AUTH_SOCK", "TOKENIZERS_PARALLELISM", "KEYBOARD", "MONKEY", "XAUTHORITY",
    "LANG", "SSH_ASKPASS", "AUTHOR", "COMPASS",
)  # fmt: skip


@pytest.mark.parametrize("name", CREDENTIALS)
def test_a_credential_stays_with_the_opener(name: str) -> None:
    assert is_credential(name)
    assert name not in child_environment({name: "s3cret"})


@pytest.mark.parametrize("name", ORDINARY)
def test_an_ordinary_variable_is_passed_on(name: str) -> None:
    assert child_environment({name: "x"})[name] == "x"


def test_a_named_credential_is_passed_through() -> None:
    assert child_environment({"A_TOKEN": "1", "B_TOKEN": "2"}, passthrough=["A_TOKEN"]).keys() & {
        "A_TOKEN",
        "B_TOKEN",
    } == {"A_TOKEN"}


def test_no_pager_waits_and_extra_variables_win() -> None:
    children = child_environment({"PAGER": "less", "TERM": "xterm"}, extra={"TERM": "vt100"})
    assert children == {"PAGER": "cat", "GIT_PAGER": "cat", "TERM": "vt100"}


def test_the_agents_own_virtual_environment_is_not_the_commands() -> None:
    assert "VIRTUAL_ENV" not in child_environment({"VIRTUAL_ENV": "/venv"})


def test_bytes_that_are_no_text_are_left_out() -> None:
    assert "BAD" not in child_environment({"BAD": "\udcff"})
