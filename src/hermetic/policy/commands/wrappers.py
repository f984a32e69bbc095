"""Programs that run another program: each has its own options before the command begins."""

from __future__ import annotations

import itertools
import re
import shlex

import msgspec

from hermetic.policy.call import Call, Judge
from hermetic.policy.effects import WORKSPACE_DELETE, delete, read, write
from hermetic.policy.marks import INPUT, LOCAL, SECRET, STAR, is_known, is_plain, marks_in
from hermetic.policy.options import parse_options
from hermetic.policy.rules import Rule
from hermetic.policy.tables import names
from hermetic.policy.words import split_ifs

from .builtins import ENVIRONMENT_DUMP
from .environment import judge_variable
from .execution import judge_shell
from .unseen import run_code

PRIVILEGE = Rule(
    name="privilege",
    category="privileged-read",
    label="caution",
    severity=3,
    effects=("changes shared state",),
    catches=("sudo ls", "doas cat x"),
    spares=("echo sudo",),
)
ROOT_SHELL = Rule(
    name="root-shell",
    category="permission-ownership",
    severity=7,
    effects=("changes shared state", "executes unseen code"),
    catches=("sudo -i", "sudo su -", "sudo bash", "pkexec sh", "sudo -s", "setpriv --reuid=0 sh"),
    spares=("sudo -l", "sudo -k", "su --help"),
)
PASSWORD_STDIN = Rule(
    name="sudo-password-on-stdin",
    category="permission-ownership",
    severity=6,
    effects=("changes shared state",),
    catches=("echo pw | sudo -S ls",),
    spares=("sudo -n true",),
)
NAMESPACE = Rule(
    name="enter-host",
    category="container-escape",
    severity=9,
    effects=("changes shared state",),
    catches=("nsenter -t 1 -m sh", "sudo chroot /mnt/host /bin/bash", "sudo nsenter --target 1 --all"),
    spares=("unshare --help", "chroot --version"),
)
DEFERRED = Rule(
    name="deferred-job",
    category="persistence",
    severity=7,
    effects=("changes shared state", "executes unseen code"),
    catches=("echo ./x | at now + 1 hour", "batch <<< /tmp/x", "systemd-run --user --on-boot=1 x"),
    spares=("atq", "at -l"),
)
RULES = (PRIVILEGE, ROOT_SHELL, PASSWORD_STDIN, NAMESPACE, DEFERRED)


class Wrapper(msgspec.Struct, frozen=True):
    """A wrapper's options with a value, operands before the command, and options that are shell code."""

    short: str = ""
    long: tuple[str, ...] = ()
    skip: int = 0
    code: tuple[str, ...] = ()
    privileged: bool = False


# Wrappers that take no options worth knowing: the command is the first word that is not an option.
_PLAIN = """
nohup setsid chronic unbuffer dbus-launch eatmydata linux64 linux32 i386 x86_64 catchsegv torsocks torify tsocks
firejail bwrap catatonit newgrp run-one run-this-one keep-one-running nocache primusrun optirun gamemoderun wine
noglob nocorrect winpty host-spawn distrobox-host-exec perf valgrind capsh ddtrace-run
"""
_WRAPPERS = {
    "time": Wrapper("fo"),
    "nice": Wrapper("n", ("adjustment",)),
    "ionice": Wrapper("cnpPu", ("class", "classdata", "pid")),
    "timeout": Wrapper("ks", ("kill-after", "signal"), skip=1),
    "gtimeout": Wrapper("ks", ("kill-after", "signal"), skip=1),
    "stdbuf": Wrapper("ioe", ("input", "output", "error")),
    "chrt": Wrapper("TPDp", ("sched-runtime", "sched-period", "sched-deadline"), skip=1),
    "taskset": Wrapper(skip=1),
    "strace": Wrapper("abeEIoOpPsSuUX", ("output", "trace", "env", "user", "attach")),
    "ltrace": Wrapper("aAeDFlnopsuwx", ("output",)),
    "fakeroot": Wrapper("lsibfc", ("lib", "faked")),
    "dbus-run-session": Wrapper("", ("config-file", "dbus-daemon")),
    "proot": Wrapper("rbqwvk", ("rootfs", "bind", "cwd", "pwd")),
    "cpulimit": Wrapper("lpPe", ("limit",)),
    "trickle": Wrapper("udwtlLn"),
    "numactl": Wrapper("NmpCiP", ("cpunodebind", "membind", "physcpubind", "interleave", "preferred")),
    "setarch": Wrapper(skip=1),
    "heaptrack": Wrapper("o"),
    "hyperfine": Wrapper(
        "wrmMspLnDuSc",
        names(
            """
warmup runs prepare cleanup setup export-json export-markdown parameter-list shell
"""
        ),
        code=("prepare", "cleanup", "setup", "p", "s", "c"),
    ),
    "xvfb-run": Wrapper("efnps", ("error-file", "auth-file", "server-num", "server-args")),
    "proxychains": Wrapper("f"),
    "proxychains4": Wrapper("f"),
    "cgexec": Wrapper("g"),
    "chpst": Wrapper("ueUnb/lLPmodfcrtop"),
    "softlimit": Wrapper("abcdfflmoprst"),
    "prlimit": Wrapper("p", ("pid",)),
    "setuidgid": Wrapper(skip=1),
    "s6-setuidgid": Wrapper(skip=1),
    "setlock": Wrapper(skip=1),
    "tini": Wrapper("p"),
    "dumb-init": Wrapper("r"),
    "rlwrap": Wrapper("abcCdDeEfFgGHilmMnNoOpPqQrRsStTwz"),
    "faketime": Wrapper("fm", skip=1),
    "ssh-agent": Wrapper("aEtP"),
    "gdbserver": Wrapper(skip=1),
    "unshare": Wrapper("SGRw", ("setuid", "setgid", "root", "wd", "propagation")),
    "sg": Wrapper(skip=1),
    "gosu": Wrapper(skip=1, privileged=True),
    "su-exec": Wrapper(skip=1, privileged=True),
    "dtach": Wrapper("eErz", skip=1),
    "abduco": Wrapper(skip=1),
    "daemonize": Wrapper("acelopuE"),
    "daemon": Wrapper("noiuPFDleErXOIMC", ("name", "output")),
    "caffeinate": Wrapper("tw"),
    "sem": Wrapper("j", ("jobs", "id")),
    "retry": Wrapper("tdm"),
    "ifne": Wrapper("n"),
    "systemd-inhibit": Wrapper("", ("what", "who", "why", "mode")),
    "systemd-cat": Wrapper("tp", ("identifier", "priority")),
    "schedtool": Wrapper("napM"),
    "tsp": Wrapper("lLtcpowkSND"),
    "logsave": Wrapper("asv", skip=1),
    "runcon": Wrapper("utrlc", ("user", "role", "type", "range")),
    "pkexec": Wrapper("", ("user",), privileged=True),
    "doas": Wrapper("Cu", privileged=True),
    "gksudo": Wrapper("u", privileged=True),
    "kdesu": Wrapper("u", privileged=True),
    "run0": Wrapper("u", ("user", "unit"), privileged=True),
    "flatpak-spawn": Wrapper("", ("directory", "env")),
}
WRAPPERS: dict[str, Wrapper] = {**dict.fromkeys(_PLAIN.split(), Wrapper()), **_WRAPPERS}
_RUNNERS = {  # program → words before the command begins
    "poetry": ("run",),
    "pipenv": ("run",),
    "uv": ("run",),
    "pdm": ("run",),
    "hatch": ("run",),
    "rye": ("run",),
    "pixi": ("run",),
    "bundle": ("exec",),
    "conda": ("run",),
    "mamba": ("run",),
    "micromamba": ("run",),
    "mise": ("exec", "x"),
    "rtx": ("exec",),
    "asdf": ("exec",),
    "pyenv": ("exec",),
    "rbenv": ("exec",),
    "nodenv": ("exec",),
    "direnv": ("exec",),
    "doppler": ("run",),
    "infisical": ("run",),
    "op": ("run",),
    "aws-vault": ("exec",),
    "devbox": ("run",),
    "devenv": ("shell",),
    "corepack": ("run",),
    "yarn": ("exec",),
    "pnpm": ("exec",),
    "npm": ("exec", "x"),
    "bun": ("x",),
    "nix": ("run", "shell", "develop"),
    "rustup": ("run",),
    "volta": ("run",),
    "fnm": ("exec",),
    "nvm": ("exec", "run"),
    "flatpak": ("run",),
    "foreman": ("run",),
    "heroku": ("run",),
    "chamber": ("exec",),
    "teller": ("run",),
    "sops": ("exec-env", "exec-file"),
    "rvm": ("exec",),
    "perf": ("stat", "record", "trace"),
    "ddtrace-run": (),
    "newrelic-admin": ("run-program",),
    "lxc": ("exec",),
    "incus": ("exec",),
    "machinectl": ("shell",),
    "vagrant": ("ssh",),
}


def judge_wrapper(call: Call) -> str | None:
    """A wrapper from the table: skip its own words, judge the rest."""
    spec = WRAPPERS[call.name]
    options = parse_options(call.args, spec.short, spec.long, stop_early=True)
    for code in options.values(*spec.code) if spec.code else ():
        run_code(call, code, f"{call.name}'s option")
    rest = options.operands[spec.skip :]
    if call.name in ("strace", "ltrace", "time") and options.value("o", "output"):
        write(call, options.value("o", "output") or "")
    if spec.privileged and rest:
        _privileged(call, rest)
    if call.name == "perf" and rest:
        rest = rest[1:]
    if call.name in ("hyperfine", "sem", "sg", "gksudo", "kdesu"):
        for text in rest if call.name == "hyperfine" else [" ".join(rest[1:] if rest[:1] == ["-c"] else rest)]:
            run_code(call, text, call.name)
        return None
    if rest[:1] == ["-c"] and len(rest) > 1:
        return run_code(call, rest[1], call.name)
    if call.name == "capsh" and "--" in call.args:
        return judge_shell(call.again(["sh", *call.args[call.args.index("--") + 1 :]]))
    while rest and re.match(r"[A-Za-z_]\w*=", rest[0]):
        name, _, value = rest.pop(0).partition("=")
        judge_variable(call, name, value, temporary=True)
    return call.run(rest) if rest else None


def _privileged(call: Call, rest: list[str]) -> None:
    call.report(PRIVILEGE, "runs with the rights of another user")
    name = rest[0].rsplit("/", 1)[-1]
    if name in ("bash", "sh", "zsh", "su", "dash", "fish", "ksh") and not [
        a for a in rest[1:] if a not in ("-", "-l", "-i", "root", "--login")
    ]:
        call.report(ROOT_SHELL, "opens a shell with all rights")


def judge_sudo(call: Call) -> str | None:
    """sudo runs a command as another user."""
    options = parse_options(
        call.args,
        "AbCcDEgHhKpRrTtUu".replace("A", "")
        .replace("b", "")
        .replace("E", "")
        .replace("H", "")
        .replace("K", "")
        .replace("c", ""),
        names(
            """
user group host prompt close-from chdir chroot role type other-user command-timeout
"""
        ),
        stop_early=True,
    )
    rest = options.operands
    while rest and re.match(r"[A-Za-z_]\w*=", rest[0]):
        name, _, value = rest[0].partition("=")
        judge_variable(call, name, value, temporary=True)
        rest = rest[1:]
    if options.has("S", "stdin") and call.stdin is not None:
        call.report(PASSWORD_STDIN, "feeds a password to sudo")
    if options.has("e", "edit"):
        for path in rest:
            write(call, path)
        return None
    if not rest:
        if options.has("i", "s", "login", "shell"):
            if call.stdin is not None:
                return judge_shell(call.again(["sh"]))
            call.report(ROOT_SHELL, "opens a shell with all rights")
        elif not options.has("k", "K", "v", "l", "V", "h", "version", "help", "list", "validate"):
            call.report(PRIVILEGE, "runs with the rights of another user")
        return None
    _privileged(call, rest)
    shell = call.shell
    if options.has("i", "login"):
        shell = call.shell.fork()
        shell.cwd = "/root"
    if options.has("s", "i", "shell", "login"):
        return call.machine.run_text(" ".join(rest), shell, call.stdin)
    return call.run(rest, shell=shell)


def judge_su(call: Call) -> str | None:
    """su and runuser run a shell, or `-c TEXT`, or a command."""
    options = parse_options(
        call.args, "csugGw", ("command", "shell", "user", "group", "session-command"), stop_early=call.name == "runuser"
    )
    text = options.value("c", "command", "session-command")
    call.report(PRIVILEGE, "runs with the rights of another user")
    if text is not None:
        return run_code(call, text, call.name)
    rest = options.operands
    if call.name == "runuser" and options.value("u", "user"):
        return call.run(rest) if rest else None
    if call.stdin is not None:
        return judge_shell(call.again(["sh"]))
    if not options.has("help", "version", "h", "V"):
        call.report(ROOT_SHELL, "opens a shell of another user")
    return None


def judge_env(call: Call) -> str | None:
    """env sets variables and runs a command; -S splits a text into one; alone it shows the environment."""
    args = list(call.args)
    while args:
        arg = args[0]
        split = re.match(r"(?:-\w*S|--split-string=?)(.*)", arg, re.DOTALL)
        if split and arg != "-":
            text = split[1]
            args.pop(0)
            if not text and args:
                text = args.pop(0)
            return run_code(call, " ".join([text.lstrip("="), *(shlex.quote(arg) for arg in args)]), "env")
        if arg in ("-u", "--unset", "-C", "--chdir", "-P", "-a", "--argv0"):
            if arg in ("-C", "--chdir") and len(args) > 1:
                call.shell = call.shell.fork()
                call.shell.cwd = args[1] if args[1].startswith("/") else call.shell.cwd + "/" + args[1]
            args = args[2:]
        elif arg == "--":
            args.pop(0)
            break
        elif arg.startswith("-"):
            args.pop(0)
        else:
            break
    while args and re.match(r"[A-Za-z_]\w*=", args[0]):
        name, _, value = args.pop(0).partition("=")
        judge_variable(call, name, value, temporary=True)
        call.env = {**call.env, name: value}
    if args:
        return call.run(args)
    if not any(arg in ("--help", "--version") for arg in call.args):
        call.report(ENVIRONMENT_DUMP, "shows the environment, which may hold credentials")
        return SECRET
    return None


def judge_xargs(call: Call) -> str | None:
    """xargs appends its input to a command, or puts it where -I says."""
    options = parse_options(
        call.args,
        "aEIJLnPsdRS",
        ("arg-file", "delimiter", "replace", "max-args", "max-procs", "max-chars", "max-lines", "process-slot-var"),
        stop_early=True,
    )
    source = options.value("a", "arg-file")
    text = read(call, source) if source else call.input() if call.stdin is not None else INPUT
    command = options.operands or ["echo"]
    replace = options.value("I", "J", "replace") or ("{}" if options.has("i") or options.has("replace") else None)
    if options.has("0", "null"):
        items = [item for item in text.split("\0") if item]
    elif options.value("d", "delimiter"):
        delimiter = (
            (options.value("d", "delimiter") or " ").replace("\\n", "\n").replace("\\0", "\0").replace("\\t", "\t")
        )
        items = [item for item in text.rstrip("\n").split(delimiter[:1] or " ") if item]
    elif replace:
        items = [line.strip() for line in text.split("\n") if line.strip()]
    else:
        items = (
            split_ifs(text.replace("'", "").replace('"', ""), " \t\n") if is_known(text) else split_ifs(text, " \t\n")
        )
    if not items:
        items = [marks_in(text)] if marks_in(text) else []
    if replace:
        out = [call.run([word.replace(replace, item) for word in command], stdin="") for item in items[:50]]
        return "".join(out)
    if not items and options.has("r", "no-run-if-empty"):
        return ""
    return call.run([*command, *items[:500]], stdin="")


def judge_parallel(call: Call) -> str | None:
    """GNU parallel: a command, then ::: and its arguments, or arguments on standard input."""
    options = parse_options(
        call.args,
        "jaIncPsSNXLdC",
        ("jobs", "arg-file", "sshlogin", "colsep", "max-args", "joblog", "results", "delimiter", "timeout"),
        stop_early=True,
    )
    rest = options.operands
    cut = next((at for at, word in enumerate(rest) if re.fullmatch(r":::\+?|::::", word)), len(rest))
    command, sources = rest[:cut], [word for word in rest[cut + 1 :] if not word.startswith(":::")]
    text = " ".join(command)
    if not sources:
        source = options.value("a", "arg-file")
        lines = (read(call, source) if source else call.input()).split("\n")
        sources = [line for line in lines if line]
    for item in sources[:50] or [LOCAL]:
        line = re.sub(r"\{[./#]*\}", item.replace("\\", "\\\\"), text) if "{" in text else f"{text} {item}"
        run_code(call, line.strip(), "parallel")
    return None


def judge_watch(call: Call) -> str | None:
    """watch joins its words and runs them with sh again and again."""
    options = parse_options(call.args, "ndq", ("interval", "equexit"), stop_early=True)
    return run_code(call, " ".join(options.operands), "watch") if options.operands else None


def judge_flock(call: Call) -> str | None:
    """flock runs a command, or -c TEXT, while it holds a lock file."""
    options = parse_options(call.args, "wEc", ("timeout", "conflict-exit-code", "command", "wait"), stop_early=True)
    rest = options.operands
    if options.value("c", "command"):
        return run_code(call, options.value("c", "command") or "", "flock")
    if rest[1:2] == ["-c"]:
        return run_code(call, " ".join(rest[2:3]), "flock")
    return call.run(rest[1:]) if len(rest) > 1 else None


def judge_script(call: Call) -> str | None:
    """script records a command into a file."""
    options = parse_options(
        call.args,
        "cEoIOBmtT",
        ("command", "log-out", "log-in", "log-io", "echo", "output-limit", "logging-format", "log-timing"),
    )
    text = options.value("c", "command")
    for path in options.operands[:1]:
        write(call, path)
    if text:
        return run_code(call, text, "script")
    if len(options.operands) > 1:
        return call.run(options.operands[1:])
    return None


def judge_busybox(call: Call) -> str | None:
    """busybox and toybox hold many programs; the first word says which."""
    rest = [arg for arg in call.args if arg not in ("--list", "--list-full", "--install", "-s")]
    return call.run(rest) if rest else None


def judge_loader(call: Call) -> str | None:
    """The dynamic loader runs the program it is given."""
    options = parse_options(
        call.args, "", ("library-path", "inhibit-rpath", "audit", "preload", "argv0"), stop_early=True
    )
    return call.run(options.operands) if options.operands else None


def judge_namespace(call: Call) -> str | None:
    """nsenter and chroot step into another root or another process's view of the machine."""
    options = parse_options(
        call.args,
        "tSGrw" if call.name == "nsenter" else "",
        ("target", "setuid", "setgid", "userspec", "groups"),
        stop_early=True,
    )
    if options.has("help", "version", "V", "h"):
        return None
    call.report(NAMESPACE, "steps out into another root or the host's own view of the machine")
    rest = options.operands if call.name == "nsenter" else options.operands[1:]
    return call.run(rest) if rest else None


def judge_setpriv(call: Call) -> str | None:
    """setpriv changes the user a command runs as."""
    options = parse_options(
        call.args,
        "",
        names(
            """
reuid regid ruid rgid euid egid groups bounding-set inh-caps ambient-caps securebits selinux-label
apparmor-profile
"""
        ),
        stop_early=True,
    )
    rest = options.operands
    if options.value("reuid", "euid", "ruid") in ("0", "root"):
        call.report(ROOT_SHELL, "runs as root")
    return call.run(rest) if rest else None


def judge_start_stop(call: Call) -> str | None:
    """start-stop-daemon starts a program or stops others."""
    options = parse_options(
        call.args,
        "xpnuksRgcNIPT",
        ("exec", "pidfile", "name", "user", "signal", "startas", "chuid", "retry"),
        stop_early=True,
    )
    program = options.value("x", "exec", "a", "startas")
    if program:
        return call.run([program, *options.operands])
    return None


def judge_systemd_run(call: Call) -> str | None:
    """systemd-run starts a unit now or at a time."""
    options = parse_options(
        call.args,
        "pHMu",
        names(
            """
unit property description slice host machine uid gid nice working-directory setenv on-active on-boot on-startup
on-unit-active on-calendar timer-property path-property
"""
        ),
        stop_early=True,
    )
    if any(name.startswith("on-") for name, _ in options.given):
        call.report(DEFERRED, "starts something later, when nobody watches")
    return call.run(options.operands) if options.operands else None


def judge_at(call: Call) -> str | None:
    """at and batch keep commands for later."""
    options = parse_options(call.args, "qftd", ())
    if options.has("l", "c", "V") or (options.has("d", "r") and call.name == "at"):
        return None
    call.report(DEFERRED, "starts something later, when nobody watches")
    if call.stdin is not None:
        judge_shell(call.again(["sh"]))
    return None


def judge_screen(call: Call) -> str | None:
    """screen and tmux start commands in a terminal nobody watches; tmux also types into others."""
    if call.name == "screen":
        options = parse_options(call.args, "SctTeEhp", (), stop_early=True)
        for flag, value in zip(call.args, call.args[1:], strict=False):
            if flag == "-X" and value == "stuff":
                run_code(call, call.args[-1].replace("\\n", "\n").replace("^M", "\n"), "screen")
                return None
        return call.run(options.operands) if options.operands else None
    args = list(call.args)
    while args and args[0].startswith("-"):
        args = args[2:] if args[0] in ("-L", "-S", "-f", "-c", "-T") else args[1:]
    if not args:
        return None
    verb = args[0]
    options = parse_options(args[1:], "ceFfnstxyp")
    words = options.operands
    if verb in ("send-keys", "send"):
        text = " ".join(word for word in words if word not in ("Enter", "C-m", "C-c", "C-d"))
        run_code(call, text, "tmux")
    elif verb.startswith(("new", "split", "respawn", "run", "if", "popup", "display-p", "pipe", "command")):
        for text in words[:2] if verb.startswith("if") else [" ".join(words)]:
            run_code(call, text, "tmux")
    return None


def judge_runner(call: Call) -> str | None:
    """`poetry run`, `bundle exec`, `npm exec` and kin run the command that follows."""
    args = call.args
    words = _RUNNERS[call.name]
    at = next((at for at, arg in enumerate(args) if arg in words), -1)
    if at < 0:
        return None
    rest = args[at + 1 :]
    if "--" in rest and call.name not in ("uv",):
        rest = (
            rest[rest.index("--") + 1 :]
            if all(a.startswith("-") or at2 < 3 for at2, a in enumerate(rest[: rest.index("--")]))
            else rest
        )
    else:
        options = parse_options(
            rest,
            "ncpe",
            names(
                """
name cwd with python package env-file prefix group extra command run
"""
            ),
            stop_early=True,
        )
        if options.value("c", "command", "run"):
            return run_code(call, options.value("c", "command", "run") or "", call.name)
        rest = options.operands
        if call.name in ("direnv", "aws-vault", "lxc", "incus", "machinectl", "rbenv", "rustup"):
            rest = rest[1:] if call.name != "rbenv" else rest
    return call.run(rest) if rest else None


def judge_runner_with(judges: dict[str, Judge]) -> dict[str, Judge]:
    """Runners whose other verbs are judged by the given families."""

    def joined(name: str) -> Judge:
        other = judges.get(name)

        def judge(call: Call) -> str | None:
            words = _RUNNERS[name]
            at = next((at for at, arg in enumerate(call.args) if not arg.startswith("-")), -1)
            if at >= 0 and call.args[at] in words:
                return judge_runner(call)
            return other(call) if other else None

        return judge

    return {name: joined(name) for name in _RUNNERS}


def judge_find(call: Call) -> str | None:
    """find: starting points, then tests and actions; -exec runs commands, -delete deletes, -fprint writes."""
    roots, tests = _find_parts(call)
    picks = ("-name", "-iname", "-path", "-wholename", "-ipath", "-regex")
    names = [
        tests[at + 1]
        for at in range(len(tests) - 1)
        if tests[at] in picks and (at == 0 or tests[at - 1] not in ("!", "-not"))
    ]
    found = _found(roots, names, tests)
    at = 0
    while at < len(tests):
        word = tests[at]
        at += 1
        if word in ("-exec", "-execdir", "-ok", "-okdir"):
            end = next(
                (n for n in range(at, len(tests)) if tests[n] == ";" or (tests[n] == "+" and tests[n - 1] == "{}")),
                len(tests),
            )
            command = tests[at:end]
            at = end + 1
            for path in found[:8]:
                call.run([part.replace("{}", path) for part in command], stdin="")
        elif word == "-delete":
            _find_delete(call, roots, names, found)
        elif word in ("-fprint", "-fprint0", "-fls", "-fprintf") and at < len(tests):
            write(call, tests[at])
    if "-printf" in tests or "-exec" in tests:
        return LOCAL + "\n"
    separator = "\0" if "-print0" in tests else "\n"
    return "".join(path + separator for path in found)


def _find_parts(call: Call) -> tuple[list[str], list[str]]:
    args = list(call.args)
    while args and (args[0] in ("-H", "-L", "-P") or args[0].startswith(("-O", "-D"))):
        args.pop(0)
    at = next((n for n, arg in enumerate(args) if arg.startswith("-") or arg in ("(", "!", ")", ",")), len(args))
    return args[:at] or ["."], args[at:]


def _found(roots: list[str], names: list[str], tests: list[str]) -> list[str]:
    """The paths find comes across: the pattern below each root, or the root and anything in it."""
    if names and is_plain(names[0]) and names[0] not in ("*", ".*"):
        pattern = names[0].replace("*", STAR).replace("?", STAR).rsplit("/", 1)[-1]
        return [f"{root.rstrip('/')}/{pattern}" for root in roots]
    top = [] if any(flag == "-mindepth" and value != "0" for flag, value in itertools.pairwise(tests)) else list(roots)
    if any(flag == "-maxdepth" and value == "0" for flag, value in itertools.pairwise(tests)):
        return list(roots)
    if any(flag == "-type" and value == "f" for flag, value in itertools.pairwise(tests)) or any(
        flag in ("-mtime", "-size", "-newer", "-mmin", "-atime", "-ctime", "-empty", "-user", "-perm") for flag in tests
    ):
        top = []
    return [*top, *(f"{root.rstrip('/')}/{STAR}" for root in roots)]


def _find_delete(call: Call, roots: list[str], names: list[str], found: list[str]) -> None:
    from_delete = call.again(["find", *call.args])
    for path in found:
        delete_found(from_delete, path, bool(names) or path not in roots)


def delete_found(call: Call, path: str, filtered: bool) -> None:
    """Judge find's own deletion: everything below a root, or what a test picked there."""
    full, place = call.place(path)
    if place == "workspace root" and filtered and not path.rstrip("/").endswith(STAR):
        call.report(WORKSPACE_DELETE, "deletes matching files in the workspace", full)
        return
    if place == "workspace root" and any(
        test in call.args for test in ("-empty", "-mtime", "-newer", "-size", "-mmin", "-user", "-perm")
    ):
        call.report(WORKSPACE_DELETE, "deletes matching files in the workspace", full)
        return
    delete(call, path, recursive=True)


JUDGES: dict[str, Judge] = {
    **dict.fromkeys(WRAPPERS, judge_wrapper),
    "sudo": judge_sudo,
    "su": judge_su,
    "runuser": judge_su,
    "env": judge_env,
    "xargs": judge_xargs,
    "gxargs": judge_xargs,
    "parallel": judge_parallel,
    "rush": judge_parallel,
    "watch": judge_watch,
    "viddy": judge_watch,
    "flock": judge_flock,
    "script": judge_script,
    "busybox": judge_busybox,
    "toybox": judge_busybox,
    "box": judge_busybox,
    "ld.so": judge_loader,
    "ld-linux-x86-64.so.2": judge_loader,
    "ld-linux.so.2": judge_loader,
    "ld-linux-aarch64.so.1": judge_loader,
    "ld-musl-x86_64.so.1": judge_loader,
    "nsenter": judge_namespace,
    "chroot": judge_namespace,
    "pivot_root": judge_namespace,
    "setpriv": judge_setpriv,
    "start-stop-daemon": judge_start_stop,
    "systemd-run": judge_systemd_run,
    "at": judge_at,
    "batch": judge_at,
    "screen": judge_screen,
    "tmux": judge_screen,
    "byobu": judge_screen,
    "find": judge_find,
    "gfind": judge_find,
}
