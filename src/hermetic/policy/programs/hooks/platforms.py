"""Containers, clusters and clouds: what they get of the host, commands that run there, files that go
there and come from there.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence

from hermetic.policy.call import Call
from hermetic.policy.effects import read, write
from hermetic.policy.languages.sql import destruction
from hermetic.policy.marks import LOCAL, NET, NUMBER, SECRET, is_known, shown
from hermetic.policy.network import check_sent, is_remote, leave
from hermetic.policy.options import Options, parse_options
from hermetic.policy.paths import is_env_file, is_secret
from hermetic.policy.programs.interpret import judge_by_row, report_all
from hermetic.policy.programs.playbook import arguments_of, judge_task
from hermetic.policy.programs.table import alternatives
from hermetic.policy.tables import names, regex

_ESCAPE = "container-reaches-host"
_REACHES_HOST, _SHARED = map(alternatives, ("reaches-host", "shared-with-containers"))
_MOUNTED = ("elsewhere", "workspace", "workspace root")
_CHANGES_FILES = names(
    "rm rmdir unlink shred mv cp tee truncate dd find touch ln install sed chmod chown"
)


def judge_docker(call: Call) -> str | None:
    """docker, podman and nerdctl: a verb, perhaps behind a group."""
    words = call.options.operands
    if words[:1] == ["compose"]:
        return judge_compose(call.named("docker-compose", words[1:]))
    own = words[words[:1] == ["container"] :]
    if own[:1] in (["run"], ["create"]):
        return _run(call.named("docker-run", own[1:]))
    if own[:1] in (["exec"], ["attach"]):
        return _exec(call, own[1:])
    if own[:1] in (["ps"], ["ls"]) and any(arg.startswith(("-f", "--filter")) for arg in own):
        return NUMBER + "\n"  # some containers, not all
    return copy_across(call, words[1:]) if words[:1] == ["cp"] else judge_by_row(call)


def judge_compose(call: Call) -> str | None:
    """docker compose: descriptions of containers, and commands in them."""
    verb, *rest = call.options.operands or [""]
    if verb in ("up", "run", "create", "start"):
        check_manifests(call)
    if verb == "run":
        _check_flags(call.named("docker-run", rest))
        return None
    return _exec(call, rest) if verb == "exec" else judge_by_row(call)


def _exec(call: Call, rest: list[str]) -> str | None:
    call = call.named("docker-exec", rest)
    call.env = {**call.env, "@container": "".join(call.options.operands[:1])}
    output = judge_by_row(call) or LOCAL
    return output if is_known(output) else LOCAL + "\n"


def _fields(value: str) -> dict[str, str]:
    fields = dict(field.partition("=")[::2] for field in value.split(","))
    return fields if fields.get("type", "bind") == "bind" else {}


def _mounts(options: Options) -> Iterator[tuple[str, str, bool]]:
    """Host paths that a container gets, where it sees them, and whether read-only."""
    for value in options.values("v", "volume", "B", "bind", "b"):
        host, colon, rest = value.partition(":")
        if colon or value.startswith("/"):
            yield host, rest.split(":")[0].rstrip("/"), value.endswith(":ro") or ":ro," in value
    for fields in map(_fields, options.values("mount")):
        target = fields.get("target") or fields.get("destination") or fields.get("dst") or ""
        if host := fields.get("source") or fields.get("src") or "":
            yield host, target.rstrip("/"), "readonly" in fields or "ro" in fields


def _changes(words: list[str]) -> Iterator[list[str]]:
    """The programs among these words, or in a shell's text, that change files."""
    name = words[0].rsplit("/", 1)[-1]
    if name in ("sh", "bash", "ash", "dash") and "-c" in words[1:-1]:
        texts = re.split(r"&&|\|\||[;|&\n]", words[words.index("-c") + 1])
        first = ("".join(text.split()[:1]) for text in texts)
        found = (text for text, one in zip(texts, first, strict=True) if one in _CHANGES_FILES)
        yield from (["sh", "-c", text] for text in found)
    elif name in _CHANGES_FILES:
        yield words


def _run(call: Call) -> str | None:
    _check_flags(call)
    if any(NET in image for image in call.options.operands[:1]):
        call.report("run-download", "runs an image that another machine names")
    for path in call.options.values("env-file"):
        read(call, path)
    mounts = list(_mounts(call.options))
    _run_inside(call, call.options.operands[1:], mounts)
    return "test-container\n" if call.options.has("d", "detach") else LOCAL + "\n"


def _run_inside(call: Call, inside: list[str], mounts: list[tuple[str, str, bool]]) -> None:
    """A command in a container touches the host through what is mounted."""
    for host, target, _ in mounts if inside else ():
        if not target or "/" not in host or call.place(host)[1] not in _MOUNTED:
            continue
        seen = re.compile(rf"(?<![\w.-]){re.escape(target)}(?=/|\s|$|['\"*])")
        mapped = [seen.sub(host.replace("\\", r"\\"), arg) for arg in inside]
        is_danger = mapped != inside and call.machine.probe_argv(mapped, call.shell)
        for words in [mapped] if is_danger else _changes(mapped) if mapped != inside else ():
            call.run(words)


def _check_flags(call: Call) -> None:
    """Report options by which a container reaches the host; `call` is read as `docker run`."""
    options = call.options
    before = call.named("docker-run", call.args[: len(call.args) - len(options.operands)])
    report_all(before)
    for host, _, read_only in _mounts(options):
        _check_mount(call, host, read_only)


_HOST = names("root system home kernel device disk startup log")


def _check_mount(call: Call, path: str, read_only: bool) -> None:
    if not path.startswith(("/", ".", "~")) and is_known(path):
        return
    full, place = call.place(path)
    if re.search(r"(docker|containerd|podman|crio)[^/]*\.sock$", full):
        call.report(_ESCAPE, "gives a container the engine that owns the host", full)
    elif _SHARED.fullmatch(full) and (read_only or "X11" in full or "localtime" in full):
        return
    elif place in _HOST or is_secret(full, call.shell):
        call.report(_ESCAPE, f"gives a container a part of the host: {shown(path)}", full)
    elif place == "unknown":
        call.report("container-prune", f"mounts a path that cannot be known: {shown(path)}", full)


def copy_across(call: Call, rest: list[str]) -> str | None:
    """Judge a copy between this machine and a container."""
    words = [arg for arg in rest if not arg.startswith("-")]
    if len(words) == 2:
        if ":" not in words[0].split("/")[0] and SECRET in read(call, words[0], tree=True):
            call.report(_ESCAPE, f"copies credentials into a container: {shown(words[0])}")
        inside = words[0].partition(":")[2]
        if inside.startswith("/") and is_secret(inside, call.shell):
            call.report("read-secret", f"copies credentials out of a container: {shown(inside)}")
        if ":" not in words[1].split("/")[0]:
            write(call, words[1], tree=True)
    return None


_COMPOSE = ["docker-compose.yml", "docker-compose.yaml", "compose.yml", "compose.yaml"]


def check_manifests(call: Call, named: Sequence[str] = ()) -> None:
    """Look into descriptions of containers that this text wrote or feeds in, for what reaches the
    host.
    """
    options = parse_options(call.args, "fk", ("file", "filename", "kustomize"))
    files = [*options.values("f", "file", "filename"), *named]
    files = files or (_COMPOSE if call.name.endswith("compose") else [])
    texts = [call.shell.files.get(call.place(path)[0], "") for path in files]
    texts += [call.input()] if "-" in files else []
    if any(map(_REACHES_HOST.search, texts)):
        call.report(_ESCAPE, "describes a container that reaches its host")


_UPLOADS = regex(r"\b(cp|put|upload|sync|create|push|mv|copy|paste|send)\b")
_COMMAND_OPTION = regex(r"--(command|scripts?|cmd|exec(ute)?)=")
_COMMAND_OPTIONS = names("--command -C --scripts --script --cmd --exec -c --execute")


def judge_cloud(call: Call) -> str | None:
    """A platform's command line: its row, commands it runs on its machines, and files that leave
    this one.
    """
    _remote_commands(call)
    words = call.options.operands
    if call.name == "nomad" and words[1:2] == ["run"]:
        check_manifests(call, words[2:])
    printed = judge_by_row(call)
    if _UPLOADS.search(" ".join(words[:4])):
        for word in call.args:
            if "/" in word or word.startswith("."):
                _leaves(call, word.removeprefix("file://").removeprefix("fileb://"))
        check_sent(call, *(text for text in (*words, call.stdin or "") if SECRET in text))
    return printed or (NET if words[-1:] == ["-"] else LOCAL) + "\n"


def _leaves(call: Call, word: str) -> None:
    full = call.place(word)[0]
    if is_secret(full, call.shell) or is_env_file(full):
        call.report("send-secret", "sends credentials to another machine")
    elif not is_remote(word):
        leave(call, word)


def _remote_commands(call: Call) -> None:
    """Commands a platform runs on its machines: behind `--`, after `run`, or in an option."""
    args = call.args
    texts = [value for flag, value in itertools.pairwise(args) if flag in _COMMAND_OPTIONS]
    texts += [arg.partition("=")[2] for arg in args if _COMMAND_OPTION.match(arg)]
    if "--" in args:
        texts.append(" ".join(args[args.index("--") + 1 :]))
    elif call.name in ("heroku", "dokku", "kamal") and args[:1] == ["run"]:
        texts.append(" ".join(call.options.operands[1:]))
    texts += re.findall(r"commands=\[?['\"]?(.+?)['\"]?\]?$", " ".join(args))  # of aws ssm
    for text in texts:
        if reason := destruction(text):
            call.report("sql-destroys", reason)
        if call.machine.probe_text(text, call.shell.elsewhere()):
            call.machine.run_text(text, call.shell.elsewhere(), None)


def judge_kubectl(call: Call) -> str | None:
    """kubectl and kin: its row, descriptions in files, copies to and from containers."""
    words = call.options.operands
    if words[:1] in (["apply"], ["create"], ["replace"]):
        check_manifests(call)
    if words[:1] == ["cp"]:
        copy_across(call, words[1:])
    if words[:1] == ["run"] and "--" in call.args:
        call.run(call.args[call.args.index("--") + 1 :], shell=call.shell.elsewhere())
    return judge_by_row(call) or LOCAL + "\n"


def judge_ansible(call: Call) -> str | None:
    """ansible runs modules on many machines."""
    options = call.options
    if call.name != "ansible":
        return judge_by_row(call)
    module = (options.value("m", "module-name") or "command").rpartition(".")[2]
    inside = call.again(call.argv)
    inside.shell = call.shell.elsewhere()
    judge_task(inside, module, arguments_of(options.value("a", "args") or ""))
    is_known_module = module in _COMMANDS
    return None if is_known_module else judge_by_row(call)


_COMMANDS = names("shell command raw script win_shell ping setup debug gather_facts")
