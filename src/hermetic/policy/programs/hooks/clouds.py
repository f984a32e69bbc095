"""Clouds and clusters: commands that run there, files that go there and come from there."""

from __future__ import annotations

import itertools
import re

from hermetic.policy.call import Call
from hermetic.policy.effects import read, write
from hermetic.policy.languages.sql import destruction
from hermetic.policy.marks import LOCAL, NET, SECRET, shown
from hermetic.policy.network import check_sent
from hermetic.policy.paths import is_env_file, is_secret, resolve
from hermetic.policy.programs.hooks.containers import check_manifests, copy_across
from hermetic.policy.programs.interpret import is_dry, judge_by_row
from hermetic.policy.tables import regex

_UPLOADS = regex(r"\b(cp|put|upload|sync|create|push|mv|copy|paste|send)\b")
_COMMAND_OPTION = regex(r"--(command|scripts?|cmd|exec(ute)?)=")
_COMMAND_OPTIONS = (
    "--command",
    "-C",
    "--scripts",
    "--script",
    "--cmd",
    "--exec",
    "-c",
    "--execute",
)


def judge_cloud(call: Call) -> str | None:
    """A platform's command line: its row, commands it runs on its machines, and files that leave
    this one.
    """
    if is_dry(call, call.row):
        return None
    _remote_commands(call)
    words = call.options.operands
    printed = judge_by_row(call)
    if _UPLOADS.search(" ".join(words[:4])):
        for word in call.args:
            if "/" in word or word.startswith("."):
                _leaves(call, word)
        check_sent(call, *(text for text in (*words, call.stdin or "") if SECRET in text))
    return printed or LOCAL + "\n"


def _leaves(call: Call, word: str) -> None:
    full = resolve(word.removeprefix("file://").removeprefix("fileb://"), call.shell)
    if is_secret(full, call.shell) or is_env_file(full):
        call.report("send-secret", "sends credentials to another machine")


def _remote_commands(call: Call) -> None:
    """Commands a platform runs on its machines: behind `--`, after `run`, or in an option."""
    args = call.args
    texts = [value for flag, value in itertools.pairwise(args) if flag in _COMMAND_OPTIONS]
    texts += [arg.partition("=")[2] for arg in args if _COMMAND_OPTION.match(arg)]
    if "--" in args:
        texts.append(" ".join(args[args.index("--") + 1 :]))
    elif call.name in ("heroku", "dokku", "kamal") and args[:1] == ["run"]:
        texts.append(" ".join(call.options.operands[1:]))
    for text in texts:
        if reason := destruction(text):
            call.report("sql-destroys", reason)
        if call.machine.probe_text(text, call.shell.elsewhere()):
            call.machine.run_text(text, call.shell.elsewhere(), None)


def judge_aws(call: Call) -> str | None:
    """aws: its row, commands on other machines, and copies to and from buckets."""
    if is_dry(call, call.row):
        return None
    printed = judge_by_row(call)
    words = call.options.operands
    if words[:2] in (["ssm", "send-command"], ["ssm", "start-session"], ["ecs", "execute-command"]):
        match = re.search(
            r"commands=(?:\[?['\"]?)(.+?)(?:['\"]?\]?)$|--command[= ](.+)", " ".join(call.args)
        )
        if match:
            call.machine.run_text(
                (match[1] or match[2]).strip("'\" []"), call.shell.elsewhere(), None
            )
    if words[:1] != ["s3"] or words[1:2] not in (["cp"], ["mv"], ["sync"]):
        return printed or LOCAL + "\n"
    source, target = [*words[2:4], "", ""][:2]
    if source == "-":
        check_sent(call, call.stdin or "")
    elif not source.startswith("s3://") and SECRET in read(call, source, tree=True):
        call.report("send-secret", "sends credentials to another machine")
    if target not in ("", "-") and not target.startswith("s3://"):
        write(call, target, content=NET)
    return (NET if target == "-" else LOCAL) + "\n"


def judge_kubectl(call: Call) -> str | None:
    """kubectl and kin: its row, descriptions in files, copies to and from containers."""
    if call.args[:1] == ["kubectl"]:
        return judge_kubectl(call.again([call.argv[0], *call.args[1:]]))
    if is_dry(call, call.row):
        return None
    words = call.options.operands
    if words[:1] in (["apply"], ["create"], ["replace"]):
        check_manifests(call)
    for path in re.findall(r"--from-(?:env-)?file[= ](?:[\w.-]+=)?(\S+)", " ".join(call.args)):
        if is_secret(call.place(path)[0], call.shell):
            call.report("read-secret", f"puts credentials into a cluster: {shown(path)}")
    if words[:1] == ["cp"]:
        copy_across(call, words[1:])
    return judge_by_row(call) or LOCAL + "\n"


def judge_ansible(call: Call) -> str | None:
    """ansible runs modules on many machines."""
    if is_dry(call, call.row):
        return None
    given = dict(itertools.pairwise(call.args))
    module = given.get("-m") or given.get("--module-name") or "command"
    module, argument = module.rsplit(".", 1)[-1], given.get("-a") or given.get("--args") or ""
    if call.name != "ansible":
        return judge_by_row(call)
    if module in ("shell", "command", "raw", "script", "win_shell"):
        call.machine.run_text(argument.removeprefix("cmd="), call.shell.elsewhere(), None)
    elif (
        module in ("file", "copy", "lineinfile", "template", "blockinfile")
        and "absent" not in argument
    ):
        for path in re.findall(r"(?:path|dest|name)=(\S+)", argument):
            other = call.again(["tee", path])
            other.shell = call.shell.elsewhere()
            write(other, path)
    elif module not in ("ping", "setup", "debug", "gather_facts"):
        return judge_by_row(call)
    return None
