"""Programs that run another program: each has its own options before the command begins."""

from __future__ import annotations

import re
import shlex

import msgspec

from hermetic.policy.call import Call, Judge
from hermetic.policy.effects import write
from hermetic.policy.marks import SECRET
from hermetic.policy.options import parse_options
from hermetic.policy.rules import Rule
from hermetic.policy.tables import names

from .builtins import ENVIRONMENT_DUMP
from .environment import import_function, judge_variable
from .execution import judge_shell
from .privileges import NAMESPACE, report_privilege
from .servers import SERVE_SHELL
from .unseen import OPTION_RUNS, run_code

DEFERRED = Rule(
    name="deferred-job",
    category="persistence",
    severity=7,
    effects=("changes shared state", "executes unseen code"),
    catches=("echo ./x | at now + 1 hour", "batch <<< /tmp/x", "systemd-run --user --on-boot=1 x"),
    spares=("atq", "at -l"),
)
RULES = (DEFERRED,)


class Wrapper(msgspec.Struct, frozen=True):
    """A wrapper's options with a value, operands before the command, and options that are shell code."""

    short: str = ""
    long: tuple[str, ...] = ()
    skip: int = 0
    code: tuple[str, ...] = ()
    privileged: bool = False
    chdir: tuple[str, ...] = ()  # options that name the directory the command runs in


# Wrappers that take no options worth knowing: the command is the first word that is not an option.
_PLAIN = """
nohup setsid chronic unbuffer dbus-launch eatmydata linux64 linux32 i386 x86_64 catchsegv torsocks torify tsocks
catatonit newgrp run-one run-this-one keep-one-running nocache primusrun optirun gamemoderun wine
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
    "proot": Wrapper("rbqwvk", ("rootfs", "bind", "cwd", "pwd"), chdir=("w", "cwd", "pwd")),
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
    "chpst": Wrapper("ueUnb/lLPmodfcrtopC", chdir=("C",)),
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
    "bwrap": Wrapper("", names("chdir uid gid hostname setenv unsetenv"), chdir=("chdir",)),
    "firejail": Wrapper("", ("private-cwd",), chdir=("private-cwd",)),
    "cpulimit": Wrapper("lpPe", ("limit",)),
    "unshare": Wrapper("SGRw", ("setuid", "setgid", "root", "wd", "propagation"), chdir=("w", "wd")),
    "sg": Wrapper(skip=1),
    "gosu": Wrapper(skip=1, privileged=True),
    "su-exec": Wrapper(skip=1, privileged=True),
    "dtach": Wrapper("eErz", skip=1),
    "abduco": Wrapper(skip=1),
    "daemonize": Wrapper("acelopuE", chdir=("c",)),
    "daemon": Wrapper("noiuPFDleErXOIMC", ("name", "output", "chdir"), chdir=("D", "chdir")),
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
    "run0": Wrapper("uD", ("user", "unit", "chdir"), privileged=True, chdir=("D", "chdir")),
    "flatpak-spawn": Wrapper("", ("directory", "env"), chdir=("directory",)),
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
    "yarn": ("exec",),
    "pnpm": ("exec",),
    "npm": ("exec", "x"),
    "bun": ("x",),
    "nix": ("run", "shell", "develop"),
    "opam": ("exec",),
    "stack": ("exec",),
    "guix": ("shell", "environment"),
    "rustup": ("run",),
    "volta": ("run",),
    "fnm": ("exec",),
    "nvm": ("exec", "run"),
    "flatpak": ("run",),
    "foreman": ("run",),
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
    call = call.moved(options.value(*spec.chdir) if spec.chdir else None)
    if call.name in ("strace", "ltrace", "time") and options.value("o", "output"):
        write(call, options.value("o", "output") or "")
    if spec.privileged and rest:
        report_privilege(call, rest)
    if call.name == "gdbserver" and re.match(r"(0\.0\.0\.0)?:\d", "".join(options.operands[:1])):
        call.report(SERVE_SHELL, "lets whoever connects run code")
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
            call = call.moved(args[1] if arg in ("-C", "--chdir") and len(args) > 1 else None)
            args = args[2:]
        elif directory := re.match(r"(?:--chdir=|-\w*C)(.+)", arg):
            call = call.moved(directory[1])
            args.pop(0)
        elif arg == "--":
            args.pop(0)
            break
        elif arg.startswith("-"):
            args.pop(0)
        else:
            break
    while args and re.match(r"[^\s=/-][^\s=/]*=", args[0]):
        name, _, value = args.pop(0).partition("=")
        call = import_function(call, name, value)
        judge_variable(call, name, value, temporary=True)
        call.env = {**call.env, name: value}
    if args:
        return call.run(args)
    if not any(arg in ("--help", "--version") for arg in call.args):
        call.report(ENVIRONMENT_DUMP, "shows the environment, which may hold credentials")
        return SECRET
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
    rest = [
        arg.removeprefix("--coreutils-prog=")
        for arg in call.args
        if arg not in ("--list", "--list-full", "--install", "-s")
    ]
    return call.run(rest) if rest else None


def judge_loader(call: Call) -> str | None:
    """The dynamic loader runs the program it is given."""
    options = parse_options(
        call.args, "", ("library-path", "inhibit-rpath", "audit", "preload", "argv0"), stop_early=True
    )
    for library in options.values("preload", "audit"):
        call.report(OPTION_RUNS, f"loads a library into another program: {library}")
    return call.run(options.operands) if options.operands else None


def judge_start_stop(call: Call) -> str | None:
    """start-stop-daemon starts a program or stops others."""
    options = parse_options(
        [arg for arg in call.args if arg != "--start"],
        "xpnusRgcNIPda",
        ("exec", "pidfile", "name", "user", "signal", "startas", "chuid", "retry", "chdir"),
        stop_early=True,
    )
    call = call.moved(options.value("d", "chdir"))
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
    if options.value("M", "machine") == ".host":
        call.report(NAMESPACE, "steps out into the host")
    call = call.moved(options.value("working-directory"))
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
    if "--" in rest[1:] and not rest[0].startswith("-"):
        call.run(rest)  # a program of its own name, to which the dashes belong
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
                if other and call.args[at + 1 : at + 2] == [".host"]:
                    other(call)
                return judge_runner(call)
            return other(call) if other else None

        return judge

    return {name: joined(name) for name in _RUNNERS}


JUDGES: dict[str, Judge] = {
    **dict.fromkeys(WRAPPERS, judge_wrapper),
    "env": judge_env,
    "watch": judge_watch,
    "viddy": judge_watch,
    "flock": judge_flock,
    "script": judge_script,
    "busybox": judge_busybox,
    "toybox": judge_busybox,
    "coreutils": judge_busybox,
    "box": judge_busybox,
    "ld.so": judge_loader,
    "ld-linux-x86-64.so.2": judge_loader,
    "ld-linux.so.2": judge_loader,
    "ld-linux-aarch64.so.1": judge_loader,
    "ld-musl-x86_64.so.1": judge_loader,
    "start-stop-daemon": judge_start_stop,
    "systemd-run": judge_systemd_run,
    "at": judge_at,
    "batch": judge_at,
    "screen": judge_screen,
    "tmux": judge_screen,
    "byobu": judge_screen,
}
