"""kubectl and its kin: verbs on a cluster that others share."""

from __future__ import annotations

import re

from hermetic.policy.call import Call, Judge
from hermetic.policy.destroys import CLOUD_CHANGES, CLOUD_DESTROYS, TO_ZERO
from hermetic.policy.effects import SECRET_READ
from hermetic.policy.marks import LOCAL, SECRET, shown
from hermetic.policy.options import parse_options
from hermetic.policy.paths import is_secret
from hermetic.policy.rules import Rule
from hermetic.policy.tables import names

from .containers import ESCAPE, check_manifests, copy_across
from .unseen import REMOTE_CODE

_VALUES = names(
    """
-n --namespace --context --kubeconfig --cluster --user -s --server --token --as --request-timeout -v
--certificate-authority
"""
)
_CHANGES = names("apply create patch edit set label annotate rollout scale replace expose autoscale uncordon adm run")
# Verbs (none: any), what their words look like, and what that does: the first that fits is reported.
_DOES: tuple[tuple[tuple[str, ...], str, Rule, str], ...] = (
    (("replace", "create"), r"--raw[= ]\S", CLOUD_DESTROYS, "changes a cluster behind its own checks"),
    (("apply",), r"--prune(\s|=true|$)", CLOUD_DESTROYS, "deletes what the files do not name"),
    ((), TO_ZERO.pattern, CLOUD_DESTROYS, "stops a service of the cluster"),
    (("drain",), "", CLOUD_DESTROYS, "takes a node out of service"),
    (("cordon", "taint"), "", CLOUD_CHANGES, "takes a node out of service"),
    (("scale",), r"--replicas[= ]0\b", CLOUD_DESTROYS, "stops a service of the cluster"),
    (("replace",), r"(^|\s)--force(\s|$)", CLOUD_DESTROYS, "deletes and makes resources anew"),
    (("debug",), r"\bnodes?/|--profile=(sysadmin|netadmin)", ESCAPE, "opens a shell on a node of the cluster"),
    (("run",), r"privileged|hostPID|hostNetwork|hostPath|--overrides", ESCAPE, "runs a container reaching its host"),
    (("apply", "create", "replace"), r"https?://", REMOTE_CODE, "installs what another machine describes"),
    (
        ("create",), r"clusterrolebinding.*cluster-admin|--clusterrole=cluster-admin", CLOUD_DESTROYS,
        "gives away all rights on the cluster",
    ),
    (("proxy",), r"--address[= ]0\.0\.0\.0|--accept-hosts", ESCAPE, "opens the cluster to everyone"),
    (("patch",), r"finalizers.{0,6}(null|\[\])", CLOUD_DESTROYS, "removes what protects a resource from deletion"),
    (("adm",), r"^drain(\s|$)", CLOUD_DESTROYS, "takes a node out of service"),
)  # fmt: skip


def judge_kubectl(call: Call) -> str | None:
    """kubectl, oc, k3s kubectl: verbs on a shared cluster."""
    args = list(call.args)
    if call.name in ("k3s", "microk8s", "minikube") and args[:1] == ["kubectl"]:
        args = args[1:]
    while args and args[0].startswith("-"):
        args = args[2:] if args[0] in _VALUES else args[1:]
    if not args:
        return None
    verb, rest = args[0], args[1:]
    text = " ".join(rest)
    if "--help" in rest or "-h" in rest or re.search(r"--dry-run(=client|=server|\s|$)", text):
        return None
    if verb == "exec":
        _exec(call, rest)
        return LOCAL + "\n"
    _check_files(call, verb, text)
    if _shows_secrets(verb, rest, text):
        call.report(SECRET_READ, "shows or makes the cluster's credentials")
        return SECRET
    return _judge_verb(call, verb, rest, text)


def _judge_verb(call: Call, verb: str, rest: list[str], text: str) -> str | None:
    for verbs, pattern, rule, reason in _DOES:
        if (not verbs or verb in verbs) and re.search(pattern, text):
            call.report(rule, reason)
            return LOCAL + "\n"
    if verb == "delete":
        _delete(call, rest, text)
    elif verb == "cp":
        copy_across(call, [arg for arg in rest if arg != "-n"])
    elif verb == "rollout" and rest[:1] in (["status"], ["history"]):
        return None
    elif verb in _CHANGES:
        call.report(CLOUD_CHANGES, "changes a shared cluster")
    return LOCAL + "\n"


def _exec(call: Call, rest: list[str]) -> None:
    """What runs in a container of the cluster."""
    if "--" in rest:
        inside = rest[rest.index("--") + 1 :]
    else:
        inside = parse_options(rest, "nc", ("namespace", "container"), stop_early=True).operands[1:]
    if inside:
        call.run(inside, shell=call.shell.elsewhere())


def _check_files(call: Call, verb: str, text: str) -> None:
    """What is described by files, and what is put into the cluster from them."""
    if verb in ("apply", "create", "replace"):
        check_manifests(call)
    for path in re.findall(r"--from-(?:env-)?file[= ](?:[\w.-]+=)?(\S+)", text):
        if is_secret(call.place(path)[0], call.shell):
            call.report(SECRET_READ, f"puts credentials into a cluster: {shown(path)}")


def _shows_secrets(verb: str, rest: list[str], text: str) -> bool:
    if verb == "config":
        return "--raw" in rest
    if verb == "create":
        return rest[:1] == ["token"]
    if verb != "get":
        return False
    raw = re.search(r"--raw[= ](\S+)", text)
    if raw and re.search(r"/(secrets|configmaps|token)\b", raw[1]):
        return True
    names_secrets = re.search(r"(^|\s)secrets?(/\S+)?(\s|$)", text) and re.search(r"-o|--output|--template", text)
    return names_secrets is not None and not re.search(r"-o\s*(name|wide)\b", text)


def _delete(call: Call, rest: list[str], text: str) -> None:
    words = [arg for arg in rest if not arg.startswith("-")]
    kind = words[0].split("/")[0].split(",")[0].lower() if words else ""
    one_pod = (
        kind in ("pod", "pods", "po", "job", "jobs", "event", "events", "rs", "replicaset")
        and not re.search(r"--all\b|-A\b|--all-namespaces|(^|\s)-l|--selector|--force", text)
        and (len(words) == 2 or "/" in (words[0] if words else ""))
    )
    if one_pod:
        call.report(CLOUD_CHANGES, "deletes a pod, which comes back")
    else:
        call.report(CLOUD_DESTROYS, "deletes resources of a shared cluster")


JUDGES: dict[str, Judge] = dict.fromkeys(("kubectl", "oc", "k3s", "microk8s", "k"), judge_kubectl)
