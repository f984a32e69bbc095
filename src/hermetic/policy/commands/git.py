"""git: what it does to shared history, and the many ways it runs other programs."""

from __future__ import annotations

import re

from hermetic.policy.call import Call, Judge
from hermetic.policy.effects import WORKSPACE_DELETE, delete, read, write
from hermetic.policy.marks import LOCAL, NET, SECRET, UNSET, is_plain, shown
from hermetic.policy.network import check_sent, is_local
from hermetic.policy.options import parse_options
from hermetic.policy.paths import is_env_file, resolve
from hermetic.policy.rules import Rule
from hermetic.policy.tables import names

from .git_paths import note_undone
from .servers import serve_with
from .unseen import UNKNOWN_COMMAND, run_code

HISTORY = Rule(
    name="rewrite-shared-history",
    category="git-history",
    severity=8,
    effects=("deletes", "changes shared state", "network"),
    catches=(
        "git push --force",
        "git push origin +main",
        "git push origin :main",
        "git push --mirror",
        "git push -fu origin main",
        "git filter-branch --force x",
        "git update-ref -d refs/heads/main",
        "git send-pack --force origin main",
        "git push origin $(git for-each-ref --format=':%(refname:short)')",
    ),
    spares=(
        "git push origin feature-f",
        "git push --force-with-lease",
        "git push --dry-run --force",
        "git push --help",
        "git branch -d x",
    ),
)
LOCAL_UNDO = Rule(
    name="git-local-undo",
    category="git-local",
    label="caution",
    severity=3,
    effects=("deletes",),
    catches=("git reset --hard", "git checkout -f main", "git clean -fd", "git branch -D x", "git stash clear"),
    spares=("git reset HEAD~1", "git clean -n", "git branch -d x"),
)
PUSH = Rule(
    name="git-push",
    category="remote-change",
    label="caution",
    severity=2,
    effects=("changes shared state", "network"),
    catches=("git push origin main", "git push --force-with-lease"),
    spares=("git pull", "git push --dry-run", "git push -u origin feature/x"),
)
CONFIG = Rule(
    name="git-config-code",
    category="package-config-tamper",
    severity=8,
    effects=("writes", "executes unseen code"),
    catches=(
        "git config --global core.hooksPath /tmp/h",
        "git config --global alias.st '!curl x|sh'",
        "git config core.fsmonitor ./x",
        "git config --global url.https://x.example/.insteadOf https://github.com/",
    ),
    spares=(
        "git config --global user.email a@example.com",
        "git config --get core.editor",
        "git config core.editor vim",
        "git config --list",
    ),
)
RULES = (HISTORY, LOCAL_UNDO, PUSH, CONFIG)

_CODE_KEYS = re.compile(
    r"(?i)(core\.(pager|editor|sshcommand|fsmonitor|hookspath|askpass|gitproxy|attributesfile|worktree)|sequence\.editor|diff\.external|(diff|merge)\.[^.]+\.(command|driver|textconv)|(difftool|mergetool|browser|man)\.[^.]+\.(cmd|path)"
    r"|pager\.\w+|credential(\..*)?\.helper|gpg(\.\w+)?\.program|filter\.[^.]+\.(clean|smudge|process)|init\.templatedir|uploadpack\.packobjectshook|remote\.[^.]+\.(uploadpack|receivepack|vcs|proxy)|interactive\.difffilter|sendemail\.\w*cmd|include(if)?\..*|trailer\.[^.]+\.(cmd|command)|submodule\.[^.]+\.update|web\.browser|instaweb\.httpd|guitool\.[^.]+\.cmd|core\.alternaterefscommand|http\.proxy|protocol\.ext\.allow)"
)
# An alias that runs git itself, or only prints.
_ALIAS_OF_GIT = re.compile(
    r"!\s*((sh|bash) -c ['\"]\s*)?(f\s*\(\)\s*\{\s*)?"
    r"(git|gh|hub|cd|echo|printf|grep|cat|less|fzf|test|true|gitk|tig|\[)\b"
)
_SAFE_VALUES = re.compile(
    r"(less|more|cat|vim?|nvim|nano|emacs|code --wait|code -w|delta|diff-so-fancy.*|true|false|"
    r"store|cache.*|osxkeychain|manager(-core)?|libsecret|gh auth git-credential|!gh auth "
    r"git-credential|gpg2?|ssh|less -\S+|\.husky(/_)?|\.githooks|git-lfs .*|subl -n -w|vim "
    r"-f|bat|ssh -i \S+.*|)"
)


def judge_git(call: Call) -> str | None:
    """git: global options, then a subcommand."""
    args = list(call.args)
    shell = call.shell
    settings: list[str] = []
    while args and args[0].startswith("-"):
        arg = args.pop(0)
        if arg in ("-c", "--config-env") and args:
            settings.append(args.pop(0))
        elif arg in ("-C", "--git-dir", "--work-tree", "--namespace", "--exec-path", "--super-prefix") and args:
            value = args.pop(0)
            if arg in ("-C", "--work-tree"):
                shell = shell.fork()
                shell.cwd = resolve(value, shell)
        elif arg.startswith(("--work-tree=",)):
            shell = shell.fork()
            shell.cwd = resolve(arg.partition("=")[2], shell)
        elif arg.startswith("--exec-path="):
            call.report(UNKNOWN_COMMAND, "takes git's own programs from another place")
        elif arg in ("--help", "--version", "-h", "-v"):
            return None
    inner = call.again(["git", *args])
    inner.shell = shell
    for setting in settings:
        name, _, value = setting.partition("=")
        if re.fullmatch(r"remote\..*\.(push|mirror)", name.lower()) and value.startswith(("+", "true", ":")):
            call.shell.git_aliases["\0forces"] = value
        _setting(inner, name, value)
    if not args:
        return None
    verb, rest = args[0], args[1:]
    if any(arg in ("--help", "-h") for arg in rest if verb not in ("grep",)) and verb not in ("commit",):
        return None
    if call.name == "hub" and verb == "delete":
        call.report(HISTORY, "deletes a repository that others share")
    for flag in rest:
        if flag.startswith(("--exec=", "--upload-pack=", "--receive-pack=")):
            run_code(inner, flag.partition("=")[2], "git")
    if verb == "add" and {"-f", "--force"}.intersection(rest) and any(is_env_file(resolve(a, shell)) for a in rest):
        call.shell.files[resolve(".git/forced", call.shell)] = SECRET
    handler = _VERBS.get(verb)
    if handler:
        return handler(inner, verb, rest)
    alias = call.shell.git_aliases.get(verb)
    if alias is not None:
        return _alias(inner, alias, rest)
    return LOCAL + "\n"


def _alias(call: Call, alias: str, rest: list[str]) -> str | None:
    if alias.startswith("!"):
        return run_code(call, " ".join([alias[1:], *rest]), "a git alias")
    return call.run(["git", *alias.split(), *rest])


def _setting(call: Call, name: str, value: str, *, lasting: bool = False) -> None:
    lowered = name.lower()
    if lowered.startswith("alias."):
        call.shell.git_aliases[name[6:]] = value
        if value.startswith("!") and (lasting or call.machine.probe_text(value[1:], call.shell)):
            run_code(call, value[1:], "a git alias")
            if lasting and not _ALIAS_OF_GIT.match(value):
                call.report(CONFIG, "makes an everyday git command run something else")
        return
    if re.match(r"(?i)url\..*\.(insteadof|pushinsteadof)$", name):
        if lasting:
            call.report(CONFIG, "sends git to another address than the one written")
        return
    if re.match(r"(?i)http\.(.*\.)?sslverify$", name) and value.lower() in ("false", "0", "no"):
        call.report(CONFIG, "turns off the check of who is at the other end")
        return
    if not _CODE_KEYS.fullmatch(name) or _SAFE_VALUES.fullmatch(value.strip("'\"")):
        return
    if lowered in ("core.worktree", "http.proxy", "core.attributesfile") or (
        lowered.startswith(("include", "pager.")) and value in ("true", "false")
    ):
        return
    text = value.lstrip("!").strip()
    if lowered in ("core.hookspath", "init.templatedir"):
        if call.place(value)[1] not in ("workspace",) or (lasting and lowered != "core.hookspath"):
            call.report(CONFIG, f"makes git run programs from elsewhere: {shown(name)}={shown(value)}")
        return
    if call.machine.probe_text(text, call.shell):
        run_code(call, text, "git's settings")
    elif (
        lasting
        or "/" in text.split(" ")[0]
        or re.match(r"(sh|bash|curl|nc|python\d?|perl)\b", text)
        or not is_plain(text)
    ):
        call.report(CONFIG, f"makes git run a program: {shown(name)}={shown(value)}")


def run_transport(call: Call, url: str) -> None:
    """The ext transport runs any command in place of a connection."""
    call.report(CONFIG, f"makes git run a program: {shown(url)}")
    run_code(call, url[5:].replace("% ", " "), "git's transport")


def _push(call: Call, verb: str, rest: list[str]) -> str | None:
    options = parse_options(rest, "o", ("push-option", "receive-pack", "exec", "repo"))
    for program in options.values("receive-pack", "exec"):
        run_code(call, program, "git")
    exact = {name for name, _ in options.given}
    if exact & {"n", "dry-run"}:
        return None
    specs = options.operands[1:]
    check_sent(call, call.shell.files.get(resolve(".git/forced", call.shell), ""))
    forced = "f" in exact or any(name == "force" for name in exact) or "\0forces" in call.shell.git_aliases
    if forced or exact & {"mirror", "prune"}:
        call.report(HISTORY, "overwrites history that others share")
    elif "d" in exact or "delete" in exact:
        call.report(HISTORY, "deletes a branch or tag that others share")
    elif any(spec.startswith("+") for spec in options.operands):
        call.report(HISTORY, "overwrites history that others share")
    elif any(spec.startswith(":") and len(spec) > 1 for spec in specs):
        call.report(HISTORY, "deletes a branch or tag that others share")
    elif any(name.startswith("force-") for name in exact) or any(
        re.search(r"(^|:|/)(main|master|release\S*|prod\S*|develop)$", spec) for spec in specs
    ):
        call.report(PUSH, "publishes commits")
    if options.operands and options.operands[0].startswith("ext::"):
        run_transport(call, options.operands[0])
    return None


def _config(call: Call, verb: str, rest: list[str]) -> str | None:
    options = parse_options(
        rest,
        "f",
        names(
            """
file blob type default get get-all get-regexp unset unset-all value comment
"""
        ),
    )
    words = options.operands
    if words[:1] in (["set"], ["get"], ["list"], ["unset"], ["edit"]):
        if words[0] != "set":
            return LOCAL + "\n"
        words = words[1:]
    if (
        any(
            name in ("get", "get-all", "get-regexp", "l", "list", "get-urlmatch", "show-origin", "e", "edit")
            for name, _ in options.given
        )
        or len(words) < 2
    ):
        secret = re.search(r"extraheader|token|password|credential", " ".join(rest), re.IGNORECASE)
        return (SECRET if secret else LOCAL) + "\n"
    shared = options.has("global", "system")
    if options.has("system"):
        call.report(CONFIG, "changes git for every user of this machine")
    if options.value("f", "file"):
        write(call, options.value("f", "file") or "")
    _setting(call, words[0], words[1], lasting=True)
    if re.fullmatch(r"remote\..*\.(push|mirror)", words[0].lower()) and words[1].startswith(("+", "true", ":")):
        call.shell.git_aliases["\0forces"] = words[1]
    if shared and not call.shell.remote:
        call.report(LOCAL_UNDO, "changes git's settings for all repositories")
    return None


def _clean(call: Call, verb: str, rest: list[str]) -> str | None:
    options = parse_options(rest, "e", ("exclude",))
    if options.has("n", "dry-run") or not (options.has("f", "force") or options.has("i")):
        return None
    for path in options.operands or ["."]:
        full, place = call.place(path)
        if place in ("workspace", "workspace root", "temp"):
            call.machine.note("delete", f"{full}/{UNSET}", scope="tree")  # what git does not know of it
            call.report(LOCAL_UNDO, f"deletes files git does not know: {shown(path)}")
        else:
            delete(call, path, recursive=True)
    return None


def _undo(call: Call, verb: str, rest: list[str]) -> str | None:
    options = parse_options(rest, "bBmcCsS", ("orphan", "message", "source", "pathspec-from-file", "conflict"))
    loses = {
        "reset": options.has("hard"),
        "checkout": any(name in ("f", "force") for name, _ in options.given) or "--" in rest or rest[-1:] == ["."],
        "switch": options.has("discard-changes", "f", "force"),
        "restore": not options.has("staged") or options.has("worktree"),
        "branch": any(name in ("D",) for name, _ in options.given)
        or (options.has("d", "delete") and options.has("f", "force")),
        "tag": options.has("d", "delete"),
        "stash": rest[:1] in (["drop"], ["clear"]),
        "worktree": rest[:1] in (["remove"], ["prune"]),
        "rm": any(name in ("r", "f") for name, _ in options.given) and not options.has("cached", "n", "dry-run"),
        "reflog": rest[:1] in (["expire"], ["delete"]),
        "gc": options.has("prune"),
        "prune": True,
        "am": False,
        "notes": rest[:1] == ["prune"],
    }
    if verb == "reflog" and loses["reflog"]:
        call.report(HISTORY, "deletes the record that could undo a mistake")
    elif verb == "gc" and loses["gc"] and options.value("prune") in ("now", "all"):
        call.report(LOCAL_UNDO, "deletes what could undo a mistake")
    elif loses.get(verb) and call.place(".")[1] in ("system", "root", "startup"):
        write(call, ".", tree=True)
    elif loses.get(verb):
        call.report(LOCAL_UNDO, "throws away local work")
    note_undone(call, verb, rest, options, loses=bool(loses.get(verb)))
    if verb == "worktree" and rest[:1] == ["add"]:
        for path in options.operands[1:2]:
            write(call, path)
    if verb == "rm":
        for path in options.operands:
            if call.place(path)[1] == "workspace root" and loses["rm"]:
                call.report(WORKSPACE_DELETE, "deletes everything in the workspace")
    return LOCAL + "\n"


def _rewrite(call: Call, verb: str, rest: list[str]) -> str | None:
    if any(arg in ("--dry-run", "-n", "--analyze") for arg in rest):
        return None
    for flag, value in zip(rest, [*rest[1:], ""], strict=False):
        if flag in (
            "--tree-filter",
            "--index-filter",
            "--msg-filter",
            "--env-filter",
            "--commit-filter",
            "--setup",
            "--tag-name-filter",
        ):
            run_code(call, value, "git filter-branch")
    call.report(HISTORY, "rewrites the whole history")
    return None


def _update_ref(call: Call, verb: str, rest: list[str]) -> str | None:
    if any(arg in ("-d", "--delete") or arg == "--stdin" for arg in rest) or verb == "replace":
        call.report(HISTORY, "deletes a branch behind git's back")
    return None


def _foreach(call: Call, verb: str, rest: list[str]) -> str | None:
    words = [arg for arg in rest if not arg.startswith("--")]
    if verb == "submodule" and words[:1] == ["foreach"]:
        run_code(call, " ".join(words[1:]), "git submodule foreach")
    elif verb == "submodule" and words[:1] == ["deinit"] and ("-f" in rest or "--force" in rest or "--all" in rest):
        call.report(LOCAL_UNDO, "throws away local work")
    elif verb == "bisect" and words[:1] == ["run"]:
        call.run(words[1:])
    elif verb in ("rebase", "merge"):
        for at, arg in enumerate(rest):
            if arg in ("-x", "--exec") and at + 1 < len(rest):
                run_code(call, rest[at + 1], "git rebase")
            elif arg.startswith("--exec="):
                run_code(call, arg[7:], "git rebase")
            elif arg.startswith("-x") and len(arg) > 2:
                run_code(call, arg[2:], "git rebase")
    return None


def _search(call: Call, verb: str, rest: list[str]) -> str | None:
    if "--no-index" in rest:
        for path in rest:
            if not path.startswith("-"):
                read(call, path)
    for at, arg in enumerate(rest):
        glued = re.match(r"(?:-O|--open-files-in-pager=)(.+)", arg)
        if glued:
            run_code(call, glued[1], "git's pager")
        if arg in ("-x", "--extcmd", "--tool-help") and verb in ("difftool", "mergetool") and at + 1 < len(rest):
            run_code(call, rest[at + 1], "git difftool")
        if arg.startswith("--extcmd="):
            run_code(call, arg[9:], "git difftool")
        if arg.startswith(("--output=", "-o=")) or (
            arg == "-o" and at + 1 < len(rest) and verb in ("archive", "format-patch", "bundle")
        ):
            write(call, arg.partition("=")[2] or rest[at + 1])
        if arg == "--output" and at + 1 < len(rest):
            write(call, rest[at + 1])
        if verb == "checkout-index" and arg.startswith("--prefix="):
            write(call, arg[9:], tree=True)
        if arg.startswith(("--remote=ext::", "ext::")):
            run_transport(call, "ext::" + arg.partition("ext::")[2])
    if verb == "archive" and any(arg.startswith("--remote=") and not is_local(arg[9:]) for arg in rest):
        return NET + "\n"
    return LOCAL + "\n"


def _clone(call: Call, verb: str, rest: list[str]) -> str | None:
    options = parse_options(
        rest,
        "boucj",
        names(
            """
branch origin upload-pack config depth template reference separate-git-dir jobs filter shallow-since
"""
        ),
    )
    for setting in options.values("c", "config"):
        name, _, value = setting.partition("=")
        _setting(call, name, value)
    for program in options.values("u", "upload-pack"):
        run_code(call, program, "git")
    template = options.value("template")
    if template and call.place(template)[1] != "workspace":
        call.report(CONFIG, "takes hooks from another place")
    words = options.operands
    url = words[0] if words else ""
    if url.startswith("ext::"):
        run_transport(call, url)
    if verb == "clone" and url:
        target = (
            words[1]
            if len(words) > 1
            else re.sub(r"\.git/?$", "", url.rstrip("/")).rsplit("/", 1)[-1].rsplit(":", 1)[-1]
        )
        if len(words) > 1:
            write(call, target)
            call.shell.files.pop(resolve(target, call.shell), None)
        if re.match(r"\w+://|[\w.-]+@|[\w.-]+:", url) and not is_local(url):
            call.shell.fetched.add(resolve(target, call.shell))
    elif verb == "remote":
        for word in words[1:]:
            if word.startswith("ext::"):
                run_transport(call, word)
    return (NET if verb == "ls-remote" else LOCAL) + "\n"


def _rev_parse(call: Call, verb: str, rest: list[str]) -> str | None:
    if "--show-toplevel" in rest or "--show-superproject-working-tree" in rest:
        return call.shell.workspace + "\n"
    if "--git-dir" in rest or "--absolute-git-dir" in rest or "--git-common-dir" in rest:
        return call.shell.workspace + "/.git\n"
    if "--show-prefix" in rest or "--show-cdup" in rest:
        return "\n"
    return LOCAL + "\n"


def _each_ref(call: Call, verb: str, rest: list[str]) -> str | None:
    """What for-each-ref prints: its format, with something unknown in each field."""
    form = parse_options(rest, "", ("format", "sort", "count")).value("format") or "%(refname)"
    return re.sub(r"%\([^)]*\)", LOCAL, form) + "\n"


def _daemon(call: Call, verb: str, rest: list[str]) -> str | None:
    serve_with("git-daemon", call, rest)
    return None


def _credential(call: Call, verb: str, rest: list[str]) -> str | None:
    if rest[:1] == ["fill"]:
        call.run(["cat", call.shell.home + "/.git-credentials"])
    return None


_VERBS = {
    **dict.fromkeys(("push", "send-pack", "http-push"), _push),
    "config": _config,
    "clean": _clean,
    **dict.fromkeys(
        names(
            """
reset checkout switch restore branch tag stash worktree rm reflog gc prune
"""
        ),
        _undo,
    ),
    **dict.fromkeys(("filter-branch", "filter-repo"), _rewrite),
    "update-ref": _update_ref,
    "replace": _update_ref,
    **dict.fromkeys(("submodule", "bisect", "rebase", "merge"), _foreach),
    **dict.fromkeys(
        names(
            """
grep difftool mergetool archive format-patch bundle diff log show checkout-index
"""
        ),
        _search,
    ),
    **dict.fromkeys(("clone", "fetch", "pull", "ls-remote", "remote", "init"), _clone),
    "for-each-ref": _each_ref,
    "daemon": _daemon,
    "rev-parse": _rev_parse,
    "credential": _credential,
}


JUDGES: dict[str, Judge] = {
    "git": judge_git,
    "hub": judge_git,
}
