"""Command lines of clouds, clusters and platforms: a destructive verb is enough, whichever resource it names."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping

from hermetic.policy.call import Call, Judge
from hermetic.policy.destroys import CLOUD_CHANGES, CLOUD_DESTROYS, SQL_DESTROYS, TO_ZERO
from hermetic.policy.effects import SECRET_READ, read, write
from hermetic.policy.marks import LOCAL, SECRET, is_known
from hermetic.policy.network import EXFIL, check_sent
from hermetic.policy.paths import is_env_file, is_secret, resolve
from hermetic.policy.sql import destruction
from hermetic.policy.tables import names

from .verbs import words_of

_DESTROY = re.compile(
    r"^(delete|destroy|remove|rm|rb|purge|terminate|drop|uninstall|wipe|flush|nuke|deprovision|undeploy|teardown|tear-down|empty|del|erase|truncate|rmdir|unpublish|deregister|deactivate|revoke|disband|obliterate|recreate|factory-reset|reset-cluster|force-destroy)$"
    r"|^(delete|destroy|remove|terminate|purge|deregister|revoke|disable|detach|drop|batch-delete|delete-\w+|schedule-key-deletion|cancel|wipe|erase)-[\w-]+$|^[\w-]+:(destroy|delete|reset|remove|drop|wipe|truncate|purge|kill|clear)$|^[\w:]+-(delete|destroy)$"
)
_CHANGE = re.compile(
    r"^(create|update|set|put|apply|deploy|import|attach|modify|add|start|stop|restart|scale|"
    r"publish|merge|close|edit|upload|cp|sync|mv|run|invoke|reboot|rollback|upgrade|install|"
    r"push|promote|enable|config:set|login|rename|move|up|release|archive|transfer)(-[\w-]+)"
    r"?$"
)
_PRIVILEGE = re.compile(
    r"AdministratorAccess|PowerUserAccess|IAMFullAccess|roles/(owner|editor|iam\.\w*admin)"
    r"|\"Action\"\s*:\s*\"\*\"|(^|\s)Owner(\s|$)|cluster-admin|0\.0\.0\.0/0|AllUsers|allUsers|"
    r"allAuthenticatedUsers|public-read"
)
_VALUES = (
    "--region --profile --output --query --project --resource-group -g --name -n --zone --namespace "
    "--context --org --team --app -a -p --subscription --endpoint-url --format --filter --location "
    "-l --cluster --account -c --config --address --token --kubeconfig --kube-context -o "
    "--stack -s --cwd -C --endpoints --cacert --cert --key --user -u --url -t --environment "
    "-e --ca-cert"
)
_PROGRAMS = names(
    """
gcloud az doctl heroku flyctl fly vercel vc netlify supabase firebase linode-cli hcloud scw oci ibmcloud aliyun
openstack nomad consul etcdctl helm argocd flux istioctl eksctl kops glab railway render wrangler pscale neonctl
atlas stripe cf bosh juju pulumi terragrunt cdk sam serverless sls packer s3cmd gsutil mc bq vault boundary
waypoint kustomize helmfile skaffold tkn kn linkerd velero rancher rke kind minikube k3d civo vultr-cli upctl
exo gridscale databricks snow confluent ccloud aiven avn cockroach temporal dapr fastly akamai
cloudflare cfcli deployctl amplify eb ecs-cli copilot chalice zappa apex up now surge dokku caprover
kamal cap mina porter ionos tfe infracost crossplane clusterctl talosctl kubeadm kubeone okteto tsuru
convox sentry-cli launchdarkly ldcli auth0 okta twilio sendgrid pagerduty pd newrelic datadog-ci elastic ecctl
meilisearch qdrant pinecone wp drush magento kafka-topics kafka-topics.sh kafka-delete-records kafka-configs
kafka-consumer-groups zkCli.sh hdfs hadoop spark-submit gh b2 wasabi swift minio s5cmd obsutil ossutil coscmd
ansible-galaxy chef knife salt teleport tctl step certbot acme.sh lego dnscontrol octodns-sync
kubeseal cosign oras crane skopeo regctl harbor svcat aws-nuke cloud-nuke awsnuke
modal runpodctl vastai lambda sky ray prefect dagster airflow dvc mlflow wandb huggingface-cli hf kaggle
replicate platform upsun pantheon terminus lagoon acli
"""
)


def _dry(text: str) -> bool:
    return (
        bool(
            re.search(
                (
                    r"(^|\s)(--help|help|--dry-?run(=(client|server|true|\w+))?|--dryrun|--version|--check|"
                    r"--what-if|--preview|--no-execute|--plan|--validate-only)(\s|$)"
                ),
                text,
            )
        )
        and "--dry-run=none" not in text
        and "--dry-run=false" not in text
    )


def judge_cloud(call: Call) -> str | None:
    """Any of the command lines above: look at the verbs among their words."""
    text = " ".join(call.args)
    if _dry(text):
        return None
    _remote_commands(call)
    words = words_of(call.args, _VALUES)
    verbs = [word for word in words[:6] if is_known(word)]
    if call.name in ("aws-nuke", "cloud-nuke", "awsnuke"):
        call.report(CLOUD_DESTROYS, "deletes a whole account's resources")
        return None
    if call.name in ("gh", "glab") and verbs[:2] in (["gist", "create"], ["snippet", "create"]):
        judge_gist(call)
    if call.name == "gh" and re.search(r"api .*git/refs", text) and "force=true" in text:
        call.report(CLOUD_DESTROYS, "overwrites history that others share")
        return None
    secret = _secret_verbs(call.name, " ".join(verbs), text)
    if secret:
        call.report(SECRET_READ, "shows stored credentials")
        return SECRET
    for word in verbs:
        if _DESTROY.match(word) and not (call.name == "gh" and not _gh_destroys(verbs)):
            call.report(CLOUD_DESTROYS, f"destroys shared resources: {word}")
            return None
    if _special(call, verbs, text):
        return None
    if TO_ZERO.search(text):
        call.report(CLOUD_DESTROYS, "stops a shared service")
        return None
    if _PRIVILEGE.search(text) and any(_CHANGE.match(word) or "binding" in word or "policy" in word for word in verbs):
        call.report(CLOUD_DESTROYS, "gives away wide rights on shared resources")
    elif any(_CHANGE.match(word) for word in verbs) and not _only_shows(verbs):
        call.report(CLOUD_CHANGES, "changes shared resources")
    _uploads(call, words)
    return LOCAL + "\n"


def _remote_commands(call: Call) -> None:
    """Commands a platform runs on its machines: behind `--`, after `run`, or in an option."""
    args = call.args
    texts = [
        value
        for flag, value in itertools.pairwise(args)
        if flag in ("--command", "-C", "--scripts", "--script", "--cmd", "--exec", "-c", "--execute")
    ]
    texts += [arg.partition("=")[2] for arg in args if re.match(r"--(command|scripts?|cmd|exec(ute)?)=", arg)]
    if "--" in args:
        texts.append(" ".join(args[args.index("--") + 1 :]))
    elif call.name in ("heroku", "dokku", "kamal") and args[:1] == ["run"]:
        texts.append(" ".join(words_of(args[1:], _VALUES)))
    for text in texts:
        reason = destruction(text)
        if reason:
            call.report(SQL_DESTROYS, reason)
        if call.machine.probe_text(text, call.shell.elsewhere()):
            call.machine.run_text(text, call.shell.elsewhere(), None)


def _only_shows(verbs: list[str]) -> bool:
    """`run watch`, `diff upgrade`: a noun or a rehearsal that reads like a verb."""
    return any(
        word in ("diff", "list", "view", "watch", "status", "show", "get", "describe", "template", "lint", "ls", "logs")
        for word in verbs[:3]
    )


def _gh_destroys(verbs: list[str]) -> bool:
    return verbs[:1] in (
        ["repo"],
        ["release"],
        ["secret"],
        ["variable"],
        ["ruleset"],
        ["codespace"],
        ["cache"],
        ["ssh-key"],
        ["gpg-key"],
        ["gist"],
        ["label"],
        ["issue"],
        ["run"],
        ["api"],
        ["extension"],
    ) and verbs[:2] not in (
        ["label", "delete"],
        ["cache", "delete"],
        ["extension", "remove"],
        ["run", "delete"],
        ["gist", "delete"],
        ["codespace", "delete"],
    )


def _secret_verbs(name: str, verbs: str, text: str) -> bool:
    patterns = {
        "gcloud": (
            r"auth (print-access-token|print-identity-token|application-default print-access-token)"
            r"|secrets versions access|iam service-accounts keys create"
        ),
        "az": (
            r"account get-access-token|keyvault secret (show|download)|storage account keys list|acr "
            r"credential show|cosmosdb keys list"
        ),
        "gh": r"auth token|auth status .*--show-token",
        "heroku": r"config(:get)?$|auth:token",
        "vault": r"^(kv get|read|token create|print token|kv export|unwrap)",
        "doctl": r"auth token",
        "vercel": r"env pull",
        "flyctl": r"auth token|tokens create",
        "fly": r"auth token|tokens create",
        "argocd": r"account generate-token|admin initial-password",
        "consul": r"kv get .*(secret|token|password)",
        "etcdctl": r"get .*(secret|--prefix)",
        "oci": r"iam auth-token create",
        "stripe": r"config --list",
    }
    pattern = patterns.get(name)
    return bool(pattern and (re.search(pattern, verbs) or re.search(pattern, text)))


# Words of particular programs that destroy without a destructive verb.
_DESTROYING: Mapping[str, str] = {
    "terragrunt": r"(^|\s)(destroy|run-all destroy|-destroy)",
    "helm": r"^(uninstall|delete|del|rollback --force)",
    "nomad": r"(job stop .*-purge|system gc|node drain|job stop|stop )",
    "consul": r"kv delete|(^|\s)leave|force-leave|snapshot restore",
    "etcdctl": r"(^|\s)del(\s|$)|snapshot restore|member remove|auth disable|user delete",
    "velero": r"(backup|schedule) delete|restore create",
    "mc": r"(^|\s)(rb|rm|ilm rm|mirror.*--remove|admin service stop)",
    "s3cmd": r"(^|\s)(del|rb|rm)(\s|$)|--delete-removed",
    "gsutil": r"(^|\s)(rm|rb)(\s|$)|rsync.*\s-\w*d|iam ch allUsers",
    "bq": r"(^|\s)rm(\s|$)|query.*\b(DROP|TRUNCATE|DELETE)\b",
    "swift": r"(^|\s)delete",
    "b2": r"delete|(^|\s)rm(\s|$)",
    "s5cmd": r"(^|\s)(rm|rb)(\s|$)|sync.*--delete",
    "hdfs": r"-rm(r|dir)?\b|-expunge|namenode -format",
    "hadoop": r"fs -rm(r)?\b|namenode -format",
    "kubeadm": r"^reset",
    "talosctl": r"^(reset|wipe|shutdown|reboot|upgrade)",
    "kind": r"^delete",
    "kafka-topics": r"--delete",
    "kafka-topics.sh": r"--delete",
    "kafka-configs": r"--delete-config",
    "kafka-consumer-groups": r"--(delete|reset-offsets)",
    "zkCli.sh": r"(delete|rmr|deleteall)",
    "gh": (
        r"repo (delete|archive|edit .*--visibility public)|api .*(-X|--method)[= ]?DELETE|secret "
        r"(delete|remove)|release delete|workflow disable"
    ),
    "glab": r"(repo|project) delete|api .*-X DELETE",
    "wp": r"(db (drop|reset|clean)|site (delete|empty)|(post|user|plugin|theme) delete)",
    "drush": r"sql[:-](drop|create)|site[:-]install|sql-drop",
    "salt": r"(cmd\.run|service\.stop|system\.(reboot|shutdown)|file\.remove)",
    "knife": r"(delete|bulk delete)",
    "supabase": r"db reset|projects delete",
    "firebase": r"(delete|:disable|firestore:delete|database:remove|database:set / )",
    "airflow": r"db (reset|clean)|dags delete",
    "prefect": r"server database reset",
    "ray": r"^(down|stop)",
    "sky": r"^down",
    "pulumi": r"(^|\s)(destroy|state delete|stack rm|cancel)",
    "cdk": r"^destroy",
    "sls": r"^remove",
    "serverless": r"^remove",
    "sam": r"^delete",
    "amplify": r"^delete",
    "eb": r"^terminate",
    "copilot": r"(delete|app delete)",
    "up": r"stack delete",
    "dokku": r"(destroy|ps:stop|apps:destroy|postgres:destroy)",
    "kamal": r"(remove|app stop|accessory remove)",
    "rancher": r"(rm|delete)",
    "juju": r"(destroy|remove|kill)-",
    "cf": r"^(delete|purge|unbind)",
    "bosh": r"(delete|cleanup|stop|recreate)",
    "certbot": r"^(delete|revoke|unregister)",
    "vault": (
        r"(^|\s)(delete|lease revoke|secrets disable|auth disable|operator (seal|step-down)|token "
        r"revoke|kv (delete|destroy|metadata delete)|policy delete|write .*policy.*\*)"
    ),
    "skopeo": r"^delete",
    "crane": r"^delete",
    "regctl": r"delete",
    "dvc": r"(remove|destroy|gc .*-c)",
    "temporal": r"(delete|terminate)",
    "cockroach": r"(node decommission|quit|nodelocal delete)",
    "atlas": r"delete",
    "confluent": r"delete",
    "databricks": r"(rm -r|delete|permanent-delete)",
    "huggingface-cli": r"(repo delete|delete-cache)",
    "stripe": r"(delete|--live)",
    "twilio": r"remove",
    "auth0": r"(delete|rm)",
    "linode-cli": r"(delete|rebuild|shutdown)",
    "hcloud": r"(delete|rebuild|poweroff|reset)",
    "openstack": r"(delete|rebuild)",
    "doctl": r"(delete|rebuild|power-off)",
    "gcloud": (
        r"instances (stop|reset)|projects add-iam-policy-binding .*roles/owner|kms keys versions "
        r"destroy"
    ),
    "az": r"(vm (deallocate|stop)|ad sp create-for-rbac .*Owner|group delete|keyvault purge)",
    "heroku": r"(pg:reset|ps:scale .*=0|maintenance:on|config:unset|domains:clear|addons:destroy|repo:reset)",
    "flyctl": r"(destroy|scale count 0|apps suspend)",
    "fly": r"(destroy|scale count 0|apps suspend)",
    "wrangler": r"(delete|d1 execute .*\b(DROP|DELETE)\b|kv:bulk delete)",
    "railway": r"(down|delete)",
    "minikube": r"^delete",
    "k3d": r"(cluster|node) delete",
    "rke": r"^remove",
}
_LOCAL_CLUSTERS = ("kind", "minikube", "k3d")


def _special(call: Call, verbs: list[str], text: str) -> bool:
    """Words of particular programs that destroy without a destructive verb."""
    pattern = _DESTROYING.get(call.name)
    if pattern is None or not any(re.search(pattern, said, re.IGNORECASE) for said in (" ".join(verbs), text)):
        return False
    if call.name in _LOCAL_CLUSTERS:
        call.report(CLOUD_CHANGES, "deletes a local cluster")
    else:
        call.report(CLOUD_DESTROYS, "destroys shared resources")
    return True


def _uploads(call: Call, words: list[str]) -> None:
    """Files that leave the machine: credentials among them are reported."""
    joined = " ".join(words[:4])
    if not re.search(r"\b(cp|put|upload|sync|create|push|mv|copy|paste|send)\b", joined):
        return
    for word in words[1:]:
        if "/" in word or word.startswith("."):
            full = resolve(word.removeprefix("file://").removeprefix("fileb://"), call.shell)
            if is_secret(full, call.shell) or is_env_file(full):
                call.report(EXFIL, "sends credentials to another machine")
    check_sent(
        call, *[word for word in words if SECRET in word], call.stdin if call.stdin and SECRET in call.stdin else ""
    )


_AWS_DESTROYS = re.compile(
    r"(delete|terminate|destroy|remove|deregister|purge|schedule-key-deletion|stop|disable|"
    r"revoke|detach|batch-delete|release|reset|cancel|put-bucket-lifecycle|put-public-access|"
    r"reboot|modify-db-instance|update-trail|leave|close-account|delete)-?"
)
_AWS_PRIVILEGE = re.compile(
    r"(attach|put|create-access-key|create-login|add-user|update-assume|create-policy-version|"
    r"update-login|create-user)"
)
_AWS_SECRETS = re.compile(
    r"(get-secret-value|get-session-token|get-federation-token|assume-role|batch-get-secret-value|"
    r"get-password-data|get-parameters?(-by-path)?|export-credentials|decrypt)"
)
_AWS_LOOKS = re.compile(
    r"(describe|list|get|ls|head|wait|help|lookup|search|filter|query|scan|tail|presign|select|"
    r"test|validate|estimate|simulate|view|batch-get|configure|sts)"
)
_AWS_VALUES = (
    "--region --profile --output --query --endpoint-url --cli-input-json --color --ca-bundle "
    "--cli-connect-timeout --cli-read-timeout"
)


def judge_aws(call: Call) -> str | None:
    """aws: a service, then an operation."""
    text = " ".join(call.args)
    if re.search(r"(^|\s)(--dry-run|--dryrun|help|--help|--generate-cli-skeleton)(\s|$)", text):
        return None
    words = words_of(call.args, _AWS_VALUES)
    service, operation = [*words, "", ""][:2]
    if _aws_empties_buckets(call, service, operation):
        call.report(CLOUD_DESTROYS, "deletes objects of a bucket")
    elif TO_ZERO.search(text):
        call.report(CLOUD_DESTROYS, "stops a shared service")
    elif operation in ("execute-statement", "batch-execute-statement", "execute-sql") and destruction(_sql_of(call)):
        call.report(SQL_DESTROYS, "destroys data of a shared database")
    elif service == "s3" and operation == "rm":
        call.report(CLOUD_CHANGES, "deletes an object of a bucket")
    elif _AWS_DESTROYS.match(operation) and not operation.startswith(("remove-tags", "delete-tags")):
        call.report(CLOUD_DESTROYS, f"destroys or stops shared resources: {operation}")
    elif _aws_changes_rights(service, operation, text):
        call.report(CLOUD_DESTROYS, "changes who may do what on the account")
    elif _aws_shows_secrets(operation, text):
        call.report(SECRET_READ, "shows stored credentials")
        return SECRET
    elif (service, operation) in (("ssm", "send-command"), ("ssm", "start-session"), ("ecs", "execute-command")):
        _aws_runs_elsewhere(call, text)
    elif operation and not _AWS_LOOKS.match(operation) and service not in ("sts", "configure", "help", "sso"):
        call.report(CLOUD_CHANGES, "changes shared resources")
    return _aws_copies(call, words) if service == "s3" and operation in ("cp", "mv", "sync") else LOCAL + "\n"


def _aws_empties_buckets(call: Call, service: str, operation: str) -> bool:
    return (
        (service in ("s3", "s3api") and operation == "rb")
        or (service == "s3" and operation == "rm" and "--recursive" in call.args)
        or (service == "s3" and operation in ("sync", "mv") and "--delete" in call.args)
    )


def _aws_changes_rights(service: str, operation: str, text: str) -> bool:
    if service == "iam" and _AWS_PRIVILEGE.match(operation):
        return True
    return _PRIVILEGE.search(text) is not None and not operation.startswith(("describe", "list", "get"))


def _aws_shows_secrets(operation: str, text: str) -> bool:
    if text.startswith(("configure get aws_secret", "configure export-credentials")):
        return True
    is_plain = operation.startswith("get-parameter") and "--with-decryption" not in text
    return _AWS_SECRETS.match(operation) is not None and not is_plain


def _aws_runs_elsewhere(call: Call, text: str) -> None:
    match = re.search(r"commands=(?:\[?['\"]?)(.+?)(?:['\"]?\]?)$|--command[= ](.+)", text)
    if match:
        call.machine.run_text((match[1] or match[2]).strip("'\" []"), call.shell.elsewhere(), None)
    call.report(CLOUD_CHANGES, "runs commands on other machines")


def _aws_copies(call: Call, words: list[str]) -> str:
    """Files that go to a bucket or come from one."""
    for path in words[2:3]:
        if path == "-":
            check_sent(call, call.stdin or "")
        elif not path.startswith("s3://") and SECRET in read(call, path, tree=True):
            call.report(EXFIL, "sends credentials to another machine")
    for path in words[3:4]:
        if path == "-":
            return "\ue003\n"
        if not path.startswith("s3://"):
            write(call, path, content="\ue003")
    return LOCAL + "\n"


def _sql_of(call: Call) -> str:
    return next((value for flag, value in itertools.pairwise(call.args) if flag in ("--sql", "--statement")), "")


def judge_terraform(call: Call) -> str | None:
    """terraform, tofu: destroy and apply."""
    text = " ".join(call.args)
    words = [arg for arg in call.args if not arg.startswith("-")]
    if re.search(r"(^|\s)-{1,2}help(\s|$)", text) or not words:
        return None
    verb = words[0]
    if (
        verb == "destroy"
        or (verb == "apply" and re.search(r"(^|\s)-{1,2}destroy(\s|=true|$)", text))
        or (verb == "run-all" and "destroy" in words)
    ):
        call.report(CLOUD_DESTROYS, "destroys shared infrastructure")
    elif (
        (verb == "state" and words[1:2] in (["push"],))
        or verb in ("force-unlock",)
        or (verb == "workspace" and words[1:2] == ["delete"])
    ):
        call.report(CLOUD_DESTROYS, "overwrites or deletes the record of shared infrastructure")
    elif verb in ("apply", "import", "taint", "untaint", "state", "refresh", "run-all") and words[1:2] not in (
        ["list"],
        ["show"],
        ["pull"],
    ):
        call.report(CLOUD_CHANGES, "changes shared infrastructure")
    elif verb == "console" and call.stdin:
        return None
    return LOCAL + "\n"


def judge_gist(call: Call) -> str | None:
    """Paste services take what they are given to the public."""
    text = call.stdin or ""
    for arg in call.args:
        if not arg.startswith("-"):
            full = resolve(arg, call.shell)
            if is_secret(full, call.shell) or is_env_file(full):
                text += SECRET
    check_sent(call, text)
    return None


JUDGES: dict[str, Judge] = {
    **dict.fromkeys(_PROGRAMS, judge_cloud),
    "aws": judge_aws,
    "awslocal": judge_aws,
    **dict.fromkeys(("terraform", "tofu"), judge_terraform),
    **dict.fromkeys(
        names(
            """
pastebinit gist sprunge ix transfer ffsend croc wormhole magic-wormhole termbin
"""
        ),
        judge_gist,
    ),
}
