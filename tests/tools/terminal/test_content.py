"""Which kind of text a command prints or a file holds."""

import pytest

from hermetic.redaction.patterns import Content
from hermetic.tools.base.show import content_of_command, content_of_file


@pytest.mark.parametrize(
    ("command", "content"),
    [
        ("env", "environment"),
        ("env | grep TOKEN", "environment"),
        ("printenv GITHUB_TOKEN", "environment"),
        ("set", "environment"),
        ("set | sort", "environment"),
        ("export", "environment"),
        ("export -p", "environment"),
        ("declare -x", "environment"),
        ("sudo env", "environment"),
        ("bash -c 'env'", "environment"),
        ("cat .env", "environment"),
        ("cat app/.env.production | head", "environment"),
        ("cat ~/.aws/credentials", "environment"),
        ("tr '\\0' '\\n' < x; cat /proc/self/environ", "environment"),
        ("docker exec web env", "environment"),
        ("docker inspect web", "environment"),
        ("kubectl get secret db -o yaml", "environment"),
        ("cat app.py; env", "environment"),
        ("cat app.py", "code"),
        ("cd src && cat app.py main.go | head -50", "code"),
        ("sed -n '1,80p' src/app.ts", "code"),
        ("git diff", "code"),
        ("git -C x show HEAD:a.py", "code"),
        ("grep -rn password src", "code"),
        ("rg token --type py", "code"),
        ("cat README.md package-lock.json", "code"),
        ("cat .env.example", "code"),
        ("cat app.py && ./deploy", "output"),
        ("cat config.yaml", "output"),
        ("cat app.log", "output"),
        ("env FOO=1 make", "output"),
        ("set -e; make", "output"),
        ("export A=1; make", "output"),
        ("make test", "output"),
        ("echo env", "output"),
        ("", "output"),
        ("cat 'unclosed", "output"),
    ],
)
def test_a_command_prints(command: str, content: Content) -> None:
    assert content_of_command(command) == content


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("src/app.py", "code"),
        ("/x/Makefile", "code"),
        ("yarn.lock", "code"),
        ("data.csv", "code"),
        (".env", "environment"),
        ("deploy/.env.local", "environment"),
        (".env.sample", "code"),
        ("/proc/1/environ", "environment"),
        ("/root/.kube/config", "environment"),
        ("prod.tfvars", "environment"),
        ("settings.ini", "output"),
        ("notes.txt", "output"),
        ("", "output"),
    ],
)
def test_a_file_holds(path: str, content: Content) -> None:
    assert content_of_file(path) == content
