"""git: its global options and settings, and the verbs whose meaning is procedural. Other verbs are
rows of git.toml.

A verb is judged under the name of git's own program for it: `git push` is `git-push`.
"""

from __future__ import annotations

import re

from hermetic.policy.call import Call, Judge
from hermetic.policy.dynamic_code import run_code
from hermetic.policy.effects import delete, read, write
from hermetic.policy.marks import LOCAL, NET, SECRET, UNSET, is_plain, shown
from hermetic.policy.network import check_sent, host_of, is_local
from hermetic.policy.options import Options, parse_options
from hermetic.policy.paths import is_env_file, resolve
from hermetic.policy.programs.aspects import take_patch
from hermetic.policy.programs.hooks.network import judge_server
from hermetic.policy.programs.interpret import is_dry, judge_by_row, matched
from hermetic.policy.programs.table import TABLE, alternatives
from hermetic.policy.tables import names, regex
from hermetic.policy.variables import is_foreign

_CONFIG = "git-config-code"
_UNDO = "git-local-undo"

# Settings whose value git runs as a program, or from which it takes programs.
_CODE_KEYS, _SAFE_VALUES = map(alternatives, ("git-code-keys", "git-safe-values"))
# An alias that runs git itself, or only prints.
_ALIAS_OF_GIT = regex(
    r"!\s*((sh|bash) -c ['\"]\s*)?(f\s*\(\)\s*\{\s*)?"
    r"(git|gh|hub|cd|echo|printf|grep|cat|less|fzf|test|true|gitk|tig|\[)\b"
)
_RUNS = regex(r"\S*/|(sh|bash|curl|nc|python\d?|perl)\b")
_FORCED_PUSH = regex(r"remote\..*\.(push|mirror)=[+:t]")
_FORCED = "\0forces"  # the alias that stands for a setting by which every push is forced
_IGNORED_FILE = ".git/forced"  # the file that stands for ignored files added with force
_REMOTE = "\0remote "  # the alias that stands for a remote which this text adds
_URL = regex(r"\w+://|[\w.-]+@|[\w.-]+:")
_FORGES = TABLE.words("forges")
_TRANSPORTS = names("push clone fetch pull ls-remote remote archive submodule")


def judge_git(call: Call) -> str | None:
    """Global options, then a verb."""
    options = parse_options(call.args, "cC", ("config-env", *_DIRECTORIES), stop_early=True)
    if options.has("help", "version", "h", "v") or not options.operands:
        return None
    verb, *rest = options.operands
    inner = call.moved(options.value("C", "work-tree")).of_verb("git", verb, rest)
    for setting in options.values("c", "config-env"):
        _set(inner, *_pair(setting))
    if verb not in ("grep", "commit") and {"--help", "-h"}.intersection(rest):
        return None
    for arg in rest if verb in _TRANSPORTS else ():
        if arg.removeprefix("--remote=").startswith("ext::"):
            _run_transport(inner, arg.removeprefix("--remote="))
    return _judge_verb(inner, verb, rest)


_DIRECTORIES = ("git-dir", "work-tree", "namespace", "super-prefix")


def _judge_verb(call: Call, verb: str, rest: list[str]) -> str | None:
    take_patch(call)
    if call.name in TABLE:
        own = globals().get(f"judge_{call.row.hook}", judge_by_row)
        judge: Judge = judge_server if call.row.hook == "server" else own
        return judge(call)
    alias = call.shell.git_aliases.get(verb)
    if alias is None:
        return LOCAL + "\n"
    if alias.startswith("!"):
        return run_code(call, " ".join([alias[1:], *rest]), "a git alias")
    return call.run(["git", *alias.split(), *rest])


def _pair(setting: str) -> tuple[str, str]:
    name, _, value = setting.partition("=")
    return name, value


def _set(call: Call, name: str, value: str, *, lasting: bool = False) -> None:
    """A setting, for one command or from now on."""
    key = name.lower()
    if _FORCED_PUSH.match(f"{key}={value}"):
        call.shell.git_aliases[_FORCED] = value
    if key.startswith("alias."):
        _set_alias(call, name[6:], value, lasting=lasting)
    elif re.match(r"url\..*\.(push)?insteadof$", key):
        if lasting:
            call.report(_CONFIG, "sends git to another address than the one written")
    elif re.match(r"http\.(.*\.)?sslverify$", key) and value.lower() in ("false", "0", "no"):
        call.report(_CONFIG, "turns off the check of who is at the other end")
    elif _CODE_KEYS.fullmatch(key) and not _is_safe(value):
        _set_program(call, name, value, lasting=lasting)


def _is_safe(value: str) -> bool:
    text = value.strip("'\"")
    return not text or bool(_SAFE_VALUES.fullmatch(text))


def _set_alias(call: Call, alias: str, value: str, *, lasting: bool) -> None:
    call.shell.git_aliases[alias] = value
    if not value.startswith("!"):
        if lasting:
            call.machine.note("run", " ".join(["git", *value.split()]))
    elif lasting or call.machine.probe_text(value[1:], call.shell):
        run_code(call, value[1:], "a git alias")
        if lasting and not _ALIAS_OF_GIT.match(value):
            call.report(_CONFIG, "makes an everyday git command run something else")


def _set_program(call: Call, name: str, value: str, *, lasting: bool) -> None:
    key, text = name.lower(), value.lstrip("!").strip()
    if key in ("core.hookspath", "init.templatedir"):
        if call.place(value)[1] != "workspace" or (lasting and key == "init.templatedir"):
            reason = f"makes git run programs from elsewhere: {shown(name)}={shown(value)}"
            call.report(_CONFIG, reason)
    elif call.machine.probe_text(text, call.shell):
        run_code(call, text, "git's settings")
    elif lasting or not is_plain(text) or _RUNS.match(text):
        call.report(_CONFIG, f"makes git run a program: {shown(name)}={shown(value)}")


def _run_transport(call: Call, url: str) -> None:
    """The ext transport runs any command in place of a connection."""
    call.report(_CONFIG, f"makes git run a program: {shown(url)}")
    run_code(call, url[5:].replace("% ", " "), "git's transport")


def judge_git_add(call: Call) -> None:
    paths = [resolve(word, call.shell) for word in call.options.operands]
    if call.options.has("f", "force") and any(map(is_env_file, paths)):
        call.shell.files[resolve(_IGNORED_FILE, call.shell)] = SECRET


def judge_git_push(call: Call) -> str | None:
    if not is_dry(call, call.row):
        check_sent(call, call.shell.files.get(resolve(_IGNORED_FILE, call.shell), ""))
        if _FORCED in call.shell.git_aliases:
            call.report("rewrite-shared-history", "overwrites history that others share")
        _check_target(call, "".join(call.options.operands[:1]))
    return judge_by_row(call)


def _check_target(call: Call, target: str) -> None:
    """Report a push to an address, or to a remote that this text adds, on a host that was
    not chosen before.
    """
    url = call.shell.git_aliases.get(_REMOTE + target, target)
    if not _URL.match(url) or is_local(url):
        return
    host = host_of(url) if "://" in url else re.split(r"[@:]", url)[-2]
    if not host.endswith(_FORGES):
        reason = f"sends the repository to a host it has not named before: {shown(host)}"
        call.report("git-push-elsewhere", reason)


def judge_git_config(call: Call) -> str | None:
    options, words = call.options, call.options.operands
    asks = words[:1] in (["get"], ["list"], ["unset"], ["edit"])
    words = words[1:] if words[:1] == ["set"] else words
    given = {name for name, _ in options.given}
    if asks or len(words) < 2 or given.intersection(_QUERIES):
        secret = re.search("(?i)extraheader|token|password|credential", " ".join(call.args))
        return (SECRET if secret else LOCAL) + "\n"
    if options.has("system"):
        call.report(_CONFIG, "changes git for every user of this machine")
    if path := options.value("f", "file"):
        write(call, path)
    _set(call, words[0], words[1], lasting=True)
    if options.has("global", "system") and not call.shell.remote:
        call.report(_UNDO, "changes git's settings for all repositories")
    return None


_QUERIES = names("get get-all get-regexp l list get-urlmatch show-origin e edit")


def judge_git_clean(call: Call) -> None:
    options = call.options
    if options.has("n", "dry-run") or not options.has("f", "force", "i"):
        return
    for path in options.operands or ["."]:
        # git's own patterns
        full, place = call.place("." if re.search(r"^:|[*?\[]", path) else path)
        if place in ("workspace", "workspace root", "temp"):
            # what git does not know of it
            call.machine.note("delete", f"{full}/{UNSET}", scope="tree")
            call.report(_UNDO, f"deletes files git does not know: {shown(path)}")
        else:
            delete(call, path, recursive=True)


def judge_git_undo(call: Call) -> None:
    """A verb that can lose work: its row says by which arguments."""
    loss = next((entry for entry in call.row.rules if matched(call, entry)), None)
    if loss and loss.rule == _UNDO and call.place(".")[1] in ("system", "root", "startup"):
        write(call, ".", tree=True)
    elif loss:
        call.report(loss.rule, loss.reason or call.rule(loss.rule).reason)
    verb, words = call.name[4:], call.options.operands
    if verb == "rm" and loss and any(call.place(word)[1] == "workspace root" for word in words):
        call.report("delete-in-workspace", "deletes everything in the workspace")
    if verb == "worktree" and words[:1] == ["add"]:
        for path in words[1:2]:
            write(call, path)
    _note_undone(call, verb, call.options, loses=loss is not None)


def _note_undone(call: Call, verb: str, options: Options, *, loses: bool) -> None:
    """Notes files that are written anew or deleted; those below a directory cannot be known."""
    words, here, note = options.operands, call.place(".")[0], call.machine.note
    paths = [call.place(word)[0] for word in words]
    if verb == "worktree" and words[:1] == ["remove"]:
        for path in paths[1:]:
            note("delete", path, scope="tree")
    elif verb == "rm" and not options.has("cached", "n", "dry-run"):
        for path in paths:
            note("delete", path, scope="tree" if options.has("r") else "one")
    elif verb in ("checkout", "restore") and not options.has("b", "B", "orphan"):
        for path in paths:
            note("write", f"{path}/{UNSET}" if path == here else path)
    elif verb == "mv" and len(paths) > 1:
        for path in paths[:-1]:
            note("delete", path)
        note("write", paths[-1])
    whole = {
        "reset": loses,
        "switch": loses,
        "checkout": loses and options.has("f", "force"),
        "checkout-index": loses,
        "read-tree": options.has("u", "reset"),
        "stash": words[:1] not in (["list"], ["show"], ["create"]),
    }
    if whole.get(verb):
        note("write", f"{here}/{UNSET}")


def judge_git_checkout_index(call: Call) -> None:
    if prefix := call.options.value("prefix"):
        write(call, prefix, tree=True)
    else:
        _note_undone(call, "checkout-index", call.options, loses=call.options.has("f", "force"))


def judge_git_words(call: Call) -> str | None:
    """`bisect run` and `submodule foreach` run the command that follows."""
    verb, *words = parse_options(call.args, stop_early=True).operands or [""]
    if verb == "run":
        return call.run(words)
    if verb == "foreach":
        words = parse_options(words, stop_early=True).operands
        return run_code(call, " ".join(words), "git submodule foreach")
    return judge_by_row(call)


def judge_git_search(call: Call) -> None:
    """grep and diff, which read any file with `--no-index`."""
    for arg in call.args:
        if glued := re.match(r"(?:-O|--open-files-in-pager=)(.+)", arg):
            run_code(call, glued[1], "git's pager")
        elif "--no-index" in call.args and not arg.startswith("-"):
            read(call, arg)
    judge_by_row(call)


def judge_git_archive(call: Call) -> str | None:
    judge_by_row(call)
    remote = call.options.value("remote")
    return (NET if remote and not is_local(remote) else LOCAL) + "\n"


def judge_git_clone(call: Call) -> None:
    judge_by_row(call)
    options, words = call.options, call.options.operands
    for setting in options.values("c", "config"):
        _set(call, *_pair(setting))
    template = options.value("template")
    if template and call.place(template)[1] != "workspace":
        call.report(_CONFIG, "takes hooks from another place")
    if call.name == "git-remote" and words[:1] == ["add"] and words[1:2] != ["origin"]:
        call.shell.git_aliases[_REMOTE + "".join(words[1:2])] = "".join(words[2:3])
    if call.name in ("git-pull", "git-fetch") and is_foreign("".join(words[:1])):
        call.shell.foreign.add(resolve(".", call.shell))
    if call.name != "git-clone" or not words:
        return
    url, *targets = words
    named = re.sub(r"\.git/?$", "", url.rstrip("/")).rsplit("/", 1)[-1].rsplit(":", 1)[-1]
    target = resolve(targets[0] if targets else named, call.shell)
    if targets:
        write(call, targets[0])
        call.shell.files.pop(target, None)
    if _URL.match(url) and not is_local(url):
        call.shell.fetched.add(target)
    if is_foreign(url):
        call.shell.foreign.add(target)


def judge_git_rev_parse(call: Call) -> str | None:
    asked = set(call.args)
    if asked & {"--show-toplevel", "--show-superproject-working-tree"}:
        return call.shell.workspace + "\n"
    if asked & {"--git-dir", "--absolute-git-dir", "--git-common-dir"}:
        return call.shell.workspace + "/.git\n"
    return "\n" if asked & {"--show-prefix", "--show-cdup"} else LOCAL + "\n"


def judge_git_each_ref(call: Call) -> str | None:
    """Prints its format, with something unknown in each field."""
    form = call.options.value("format") or "%(refname)"
    return re.sub(r"%\([^)]*\)", LOCAL, form) + "\n"
