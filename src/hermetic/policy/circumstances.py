"""What tells one act from all others, so that an approval of one is never an approval of another."""

from __future__ import annotations

import hashlib
import re

import msgspec

from hermetic.contract.verdict import Source

from .call import Call
from .marks import is_known, shown
from .rules import Finding

# Variables by which the same words reach another account, cluster, database, repository or program.
_CONTEXT = re.compile(
    r"PATH$|LD_|DYLD_|GIT_|SSH_|KUBE|AWS_|AZURE_|ARM_|GOOGLE_|GCLOUD|CLOUDSDK_|DOCKER_|CONTAINER_|COMPOSE_|PODMAN_"
    r"|PG|MYSQL|REDIS|MONGO|SQL|DATABASE_|DB_|TF_|TERRAFORM|HELM|VAULT_|CONSUL_|NOMAD_|ANSIBLE_|PULUMI_|HEROKU_|FLY_"
    r"|NPM_|npm_|YARN_|PIP_|UV_|CARGO_|GEM_|BUNDLE_|MAVEN_|TWINE_|GH_|GITHUB_|GITLAB_|HTTPS?_PROXY|https?_proxy|HOST$"
    r"|PYTHON|PERL|RUBY|NODE_|JAVA|BASH_|ENV$|IFS$|HOME$|TMPDIR$|SUDO_|RSYNC_|ETCD|OS_|LINODE_|DIGITALOCEAN_|HCLOUD_"
)


def of_call(finding: Finding, call: Call, *, redirecting: bool) -> Finding:
    """The finding with the program that does it, or beside which a redirection does it."""
    exact = _exact(finding, call) if finding.rule.label == "dangerous" else ""
    source: Source = "redirect" if redirecting else "program"
    return msgspec.structs.replace(finding, argv=tuple(map(shown, call.argv)), source=source, exact=exact)


def _exact(finding: Finding, call: Call) -> str:
    """A digest that is equal only for the same words, input, directory and variables.

    Empty when a part of them cannot be known, or when code runs that nobody has seen: then one approval is good for one
    time alone.
    """
    rule, shell = finding.rule, call.shell
    if "executes unseen code" in rule.effects:
        return ""
    words = [
        rule.name,
        finding.reason,
        finding.path or "",
        shell.cwd,
        str(shell.remote),
        shell.secrets,
        call.stdin or "",
        *call.argv,
    ]
    context = {name: value for name, value in shell.variables.items() if _CONTEXT.match(name)}
    context.update(call.env)
    known = [*words, *(str(value) for value in context.values())]
    if not all(map(is_known, known)):
        return ""
    words += [" ".join(argv) for argv in call.machine.carriers if argv != call.argv]  # that run it, such as sudo
    words += [f"{path}={content}" for path, content in sorted(shell.files.items())]  # that this text wrote before
    words += [f"{name}={value}" for name, value in sorted(context.items())]
    return hashlib.sha256("\0".join(words).encode("utf-8", "surrogatepass")).hexdigest()[:32]
