"""Which variables commands on this machine start with."""

import pytest

from hermetic.environments.child_environment import child_environment, is_credential
from hermetic.redaction.known_secrets import secrets_of

CREDENTIALS = (
    "OPENAI_API_KEY",
    "GITHUB_TOKEN",
    "AWS_SECRET_ACCESS_KEY",
    "PGPASSWORD",
    "DB_PASSWD",
    "GPG_PASSPHRASE",
    "MYSQL_PWD",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "SLACK_TOKENS",
    "apikey",
    "SSH_KEY",
    "NPM_AUTH",
    "SESSION_JWT",
    "MY_CREDS",
    "GH_PAT",
    "STRIPE_SK",
    "BEARER",
    "SLACK_WEBHOOK_URL",
    "SENTRY_DSN",
    "SESSION_COOKIE",
    "AZURE_SAS",
    "DB_CONN_STR",
    "AZURE_STORAGE_CONNECTION_STRING",
    "DBPASS",
    "DB_PW",
    "SSHPASS",
    "DOCKER_AUTH_CONFIG",
    "MASTERKEY",
    "STRIPE_RK",
    "TEAMS_HOOK_URL",
    "SEED_PHRASE",
    "TOKEN2",
    "DB_PASSWORD_1",
    "SENTRY_DSN_2",
    "PRIVKEY",
)
ORDINARY = (
    "PATH",
    "HOME",
    "PWD",
    "OLDPWD",
    "SSH_AUTH_SOCK",
    "TOKENIZERS_PARALLELISM",
    "KEYBOARD",
    "MONKEY",
    "XAUTHORITY",
    "LANG",
    "SSH_ASKPASS",
    "AUTHOR",
    "COMPASS",
    "PATTERN",
    "MANPATH",
    "DESKTOP_SESSION",
    "DATABASE_URL",
    "TASK",
    "DISK",
    "BYPASS",
    "HOTKEY_FILE",
    "XDG_CONFIG_HOME",
    "HOOKS_DIR",
    "SEED",
    "NGINX_CONFIG",
    "UTF8",
    "LC_TIME2",
)


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


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DATABASE_URL", "postgres://app:s3cret@db:5432/app"),
        ("CACHE", "redis://:s3cret@cache:6379/0"),
        ("PIP_INDEX_URL", "https://bob:s3cret@pypi.internal/simple"),
        ("REPOSITORY", "https://t0k3n-of-bob-77@git.internal/x"),
        ("DATABASE", "Server=db;User Id=app;Password=abc"),
        ("DATABASE", "Server=db;pwd = abc;Encrypt=yes"),
        ("CONTENT", "-----BEGIN RSA PRIVATE KEY-----\nMIIE"),
        ("GREETING", f"ghp_{'a1B2' * 9}"),
        ("NOTIFY", "https://hooks.slack.com/services/T0/B0/abc"),
    ],
)
def test_a_value_with_a_secret_in_it_stays_with_the_opener(name: str, value: str) -> None:
    assert name not in child_environment({name: value})
    assert child_environment({name: value}, passthrough=[name])[name] == value


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DATABASE_URL", "sqlite:///dev.db"),
        ("API_URL", "https://bob@api.internal/x"),
        ("https_proxy", "http://bob:s3cret@proxy:3128"),
        ("TIMES", "http://h/a:b@c"),
        ("REMOTE", "ssh://git@github.example/x"),
        ("LS_COLORS", "rs=0:di=01;34:ln=01;36"),
        ("PROMPT_COMMAND", "a=1;password=$x"),
        ("NOTES", "see https://h/x and sk-learn, ghp_ is a prefix"),
    ],
)
def test_a_url_without_one_and_a_proxy_are_passed_on(name: str, value: str) -> None:
    assert child_environment({name: value})[name] == value


def test_the_password_of_a_url_is_a_known_secret() -> None:
    known = secrets_of(
        {"DATABASE_URL": "postgres://app:s3cret-1234@db/x", "OTHER_URL": "https://x/y"}
    )
    assert [(secret.name, secret.value) for secret in known] == [("DATABASE_URL", "s3cret-1234")]
