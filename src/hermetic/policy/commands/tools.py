"""Tools of every day that can be told to run a program, and programs nobody has described here."""

from __future__ import annotations

import re

from hermetic.policy.call import Call, Judge
from hermetic.policy.destroys import CLOUD_DESTROYS
from hermetic.policy.effects import read, write
from hermetic.policy.marks import LOCAL, NET, PIDS, SECRET, TOKEN, UNSET, is_plain, shown
from hermetic.policy.network import EXFIL, is_metadata
from hermetic.policy.options import parse_options
from hermetic.policy.paths import is_secret, resolve
from hermetic.policy.rules import Rule
from hermetic.policy.tables import names

from .unseen import OPTION_RUNS, run_code

WRAPPED = Rule(
    name="hidden-in-arguments",
    category="recursive-delete",
    severity=8,
    effects=("executes unseen code",),
    catches=("some-wrapper rm -rf /usr", "some-tool --exec 'rm -rf /usr'"),
    spares=("some-tool --note 'rm -rf /usr'", "some-tool rm -rf build"),
)
RULES = (WRAPPED,)

# Programs whose arguments are data, however they read.
_DATA = frozenset(
    names(
        """
true false : ls dir vdir tree exa eza lsd stat file wc du df free top htop uptime w who last tldr cheat apropos
whatis info help logger wall notify-send say espeak figlet cowsay toilet lolcat sleep wait jobs fg bg disown
ulimit umask times getopts return exit break continue caller dirs suspend expr factor bc dc cal ncal
pytest py.test tox nox mypy ruff black isort flake8 pylint eslint prettier tsc jest vitest mocha playwright
cypress rspec phpunit clippy rustc gcc g++ clang clang++ cc c++ ld as ar nm objdump readelf ldd cmake ctest
meson cksum md5sum sha1sum sha256sum sha512sum b2sum md5 shasum ss netstat arp lsblk blkid lsusb lspci lscpu
lshw hostid nproc tty locale getconf clear reset tput stty banner fc convert magick identify ffprobe xdg-open
open tsort look spell aspell hunspell diff cmp sdiff diff3 colordiff delta numfmt tokei cloc scc hexyl
dpkg-query apt-cache lsb_release vmstat iostat mpstat sar pmap pstree pwdx gofmt rustfmt shellcheck shfmt
yamllint hadolint markdownlint vale codespell typos commitlint bandit semgrep trivy grype syft actionlint
pre-commit detect-secrets gettext msgfmt
"""
    )
)
# Programs that delete their operands: the verbs by which they do, none when they always do.
_DELETERS: dict[str, tuple[str, ...]] = {
    "gio": ("remove", "trash"),
    "gvfs-rm": (),
    "tmpreaper": (),
    "tmpwatch": (),
    "cmake": ("remove_directory", "rm", "remove"),
}
# Programs that name files without showing their content.
_NAMES_ONLY = frozenset(
    names(
        """
ls dir vdir tree exa eza lsd stat file du test [ echo printf basename dirname realpath readlink namei getfacl
lsattr md5sum sha256sum sha1sum cksum wc touch ssh-add find df locate which type export cd pushd sha512sum true
: kubectl helm gcloud aws sops ssh-keyscan
"""
    )
)
_EXEC_OPTION = re.compile(
    r"^--?(exec|execute|cmd|command|commands|run|shell|shell-command|eval|hook|pre|post|pre-\w+|"
    r"post-\w+|on-\w+|\w+-(program|command|cmd|hook|script|exec|shell)|filter|pager|editor|"
    r"rsh|script|start|callback|init|then|do|each|after|before|action|system|proxy-command|"
    r"up|down|ipchange|route-up|tls-verify|learn-address|client-connect|auth-user-pass-verify|"
    r"to-command|cleanup|prepare|setup|teardown|trigger|notify|alert-cmd|plugin|preprocessor)"
    r"$|^-(c|e|x|X|E|C|ex|eval|exec)$"
)
_DESTRUCTIVE_VERB = re.compile(
    r"^(delete|destroy|purge|wipe|nuke|terminate|erase|drop|obliterate|delete-all|destroy-all|"
    r"drop-all|factory-reset|wipe-all|purge-all|decommission|teardown|remove-all|truncate)"
    r"$|^(delete|destroy|purge|wipe|drop|terminate)-[\w-]+$|^[\w-]+:(destroy|delete|wipe|purge|"
    r"drop|reset)$"
)
_SURE = re.compile(
    r"^(-y|-f|--yes|--force|--all|--auto-approve|--no-confirm|--noconfirm|--confirm(=.*)?|"
    r"--non-interactive|--assume-yes|--recursive|--skip-confirm\w*|--no-prompt|--quiet|-q|"
    r"--prod|--production|--purge)$"
)


def judge_anything(call: Call) -> str | None:
    """A program nobody has described: what its arguments give away."""
    if call.name in _DELETERS:
        return _deleter(call)
    if call.name not in _DATA:
        if any(arg in ("--help", "--version") for arg in call.args):
            return None
        _hidden_command(call)
        _code_options(call)
        _verbs(call)
        _outputs(call)
    return _secrets(call)


def _deleter(call: Call) -> str | None:
    """gio, tmpreaper, tmpwatch, cmake -E: tools that delete by other names."""
    verbs = _DELETERS[call.name]
    words = [arg for arg in call.args if not arg.startswith("-")]
    if not verbs or (words and words[0] in verbs):
        call.run(["rm", "-rf", *words[1:]])
    return None


def _secrets(call: Call) -> str | None:
    shown_secret = False
    if call.name not in _NAMES_ONLY:
        for arg in call.args:
            for path in _paths_in(arg):
                full = resolve(path, call.shell)
                if is_secret(full, call.shell) or full in call.shell.files:
                    shown_secret = SECRET in read(call, path) or shown_secret
                elif re.search(r"(^|/)\.env(\.\w+)?$", path) and call.name not in _DATA:
                    read(call, path)
            if re.match(r"https?://", arg) and is_metadata(arg):
                shown_secret = True
                read(call, "/run/secrets/metadata")
    text = "".join(arg for arg in call.args)
    if (
        any(re.match(r"(https?|ftp|tcp|ssh)://|\d+\.\d+\.\d+\.\d+", arg) for arg in call.args)
        and call.name not in _DATA
        and (shown_secret or SECRET in text or TOKEN in text or (call.stdin and SECRET in call.stdin))
    ):
        call.report(EXFIL, "may send credentials to another machine")
    if shown_secret:
        return SECRET + "\n"
    return None


def _paths_in(arg: str) -> list[str]:
    """The paths an argument may name: itself, after `=` or `@`, or each part of a list."""
    if not arg or " " in arg or "\n" in arg:
        return []
    found = [arg]
    for mark in ("=", "@", ":", ","):
        if mark in arg:
            found += [part for part in arg.split(mark) if part.startswith(("/", "~", "."))]
    return [path.lstrip("@<") for path in found if "/" in path or path.startswith(".")][:6]


def _hidden_command(call: Call) -> None:
    """Another command among the arguments, as behind an unknown wrapper."""
    args = call.args
    start = args.index("--") + 1 if "--" in args else -1
    for at in range(len(args)):
        word = args[at]
        if word.startswith("-") or "=" in word or not is_plain(word):
            continue
        name = word.rsplit("/", 1)[-1]
        tried = name in WORTH_TRYING and (at == start or len(args) > at + 1)
        if tried and call.machine.probe_argv(args[at:], call.shell):
            call.report(WRAPPED, f"runs a dangerous command behind {shown(call.name)}")
            call.run(args[at:])
            return


WORTH_TRYING = frozenset(
    names(
        """
rm dd shred truncate mv cp chmod chown sh bash zsh dash ksh python python3 perl ruby node php find xargs sudo
doas env nc ncat curl wget tee kill pkill killall mkfs mkfs.ext4 systemctl git docker kubectl terraform crontab
iptables busybox unlink rmdir rsync tar sed awk eval exec nohup timeout setsid cat useradd usermod passwd wipefs
blkdiscard insmod ssh scp socat psql mysql redis-cli aws gcloud ln install
"""
    )
)


def _code_options(call: Call) -> None:
    """Options named like code whose value reads as a dangerous command."""
    args = call.args
    for at, arg in enumerate(args):
        if not arg.startswith("-"):
            continue
        name, equals, value = arg.partition("=")
        if not equals:
            value = args[at + 1] if at + 1 < len(args) else ""
        if not value or not _EXEC_OPTION.match(name):
            continue
        text = re.sub(r"^(shell|!|:!|system|exec[=:]?|run)\s*", "", value)
        if call.machine.probe_text(text, call.shell):
            call.report(WRAPPED, f"runs a dangerous command by an option of {shown(call.name)}: {shown(name)}")
            run_code(call, text, f"an option of {call.name}")


def _verbs(call: Call) -> None:
    words = [arg for arg in call.args[:5] if not arg.startswith("-")]
    if "/" in call.argv[0] and not call.argv[0].startswith(("/usr/", "/bin/", "/opt/")):
        return
    if (
        any(_DESTRUCTIVE_VERB.match(word) for word in words[:3])
        and (
            any(_SURE.match(arg) for arg in call.args)
            or any(re.search(r"(^|[-_/])prod(uction)?($|[-_/])", arg) for arg in call.args)
        )
        and not any(re.match(r"--(dry-?run|check|plan|preview|simulate|help)", arg) for arg in call.args)
    ):
        call.report(CLOUD_DESTROYS, f"destroys something with {shown(call.name)} and asks nobody")


def _outputs(call: Call) -> None:
    args = call.args
    edits = any(
        re.fullmatch(
            (
                r"--(set|write|in-?place|inplace|edit|replace|fix|delete|del|update|add|install|overwrite)"
                r"(=.*)?|-i|-w"
            ),
            arg,
        )
        for arg in args
    )
    for at, arg in enumerate(args):
        name, equals, value = arg.partition("=")
        if re.fullmatch(
            (
                r"-o|--(out|output|outfile|output-file|output-dir|outdir|dest|destination|target-dir|log-file|"
                r"logfile|save|export|report)"
            ),
            name,
        ):
            path = value if equals else (args[at + 1] if at + 1 < len(args) else "")
            if (
                path
                and not path.startswith("-")
                and "://" not in path
                and call.place(path)[1]
                in ("system", "disk", "startup", "elsewhere", "hook", "kernel", "history", "log", "home")
            ):
                write(call, path)
        elif edits and arg.startswith(("/", "~")) and call.place(arg)[1] in ("system", "startup", "disk", "kernel"):
            write(call, arg)


_PROGRAM_OPTIONS: dict[str, tuple[str, ...]] = {
    "tcpdump": ("-z",),
    "nmap": ("--script",),
    "nodemon": ("-x", "--exec"),
    "chokidar": ("-c", "--command"),
    "fd": ("-x", "-X", "--exec", "--exec-batch"),
    "fdfind": ("-x", "-X", "--exec", "--exec-batch"),
    "fzf": ("--preview", "--bind"),
    "rpmbuild": ("--eval", "-E"),
    "openvpn": ("--up", "--down", "--script-security", "--route-up", "--ipchange", "--tls-verify"),
    "dhclient": ("-sf",),
    "pppd": ("connect", "disconnect", "pty"),
    "irssi": ("--exec",),
    "weechat": ("-r",),
    "wireshark": ("-X",),
    "tshark": ("-X",),
    "dosbox": ("-c",),
    "zathura": ("-x",),
    "facter": ("--custom-dir", "--external-dir"),
    "ansible-inventory": ("-i",),
    "mpv": ("--script",),
    "jrunscript": ("-e",),
    "latexmk": ("-e", "-pdflatex"),
    "wpa_cli": ("-a",),
    "check_by_ssh": ("-o", "-C"),
    "ksu": ("-e",),
    "rofi": ("-run-command", "-terminal"),
    "rdiff-backup": ("--remote-schema",),
    "unison": ("-sshcmd", "-servercmd"),
    "sshfs": ("-o",),
    "pidstat": ("-e",),
    "varnishncsa": ("-g",),
    "genie": ("-c",),
    "neofetch": ("--config",),
    "octave-cli": ("--eval",),
    "openfortivpn": ("--pppd-plugin",),
    "rc": ("-c",),
    "rpmverify": ("--eval",),
    "rpmdb": ("--eval",),
    "rpmquery": ("--eval",),
    "sqlmap": ("--eval", "--os-cmd"),
    "jtag": ("--interactive",),
}
_COMMAND_RUNNERS = ("entr", "watchexec", "reflex", "pexec", "multitime", "choom")


def judge_option_runner(call: Call) -> str | None:
    """Tools with an option that names a program to run; the value is judged, and unseen scripts reported."""
    names = _PROGRAM_OPTIONS.get(call.name, ())
    args = call.args
    for at, arg in enumerate(args):
        name, equals, value = arg.partition("=")
        if name in names:
            value = value if equals else (args[at + 1] if at + 1 < len(args) else "")
            if call.name in ("fd", "fdfind"):
                return _fd(call, args, at)
            _judge_value(call, value, name)
            continue
        glued = next((option for option in names if len(option) == 2 and arg.startswith(option) and len(arg) > 2), None)
        if glued:
            _judge_value(call, arg[2:], glued)
    if call.name in _COMMAND_RUNNERS:
        options = parse_options(
            args,
            "wefidrn" if call.name != "entr" else "",
            ("exts", "watch", "filter", "ignore", "delay"),
            stop_early=True,
        )
        rest = options.operands
        if rest:
            call.run(rest) if len(rest) > 1 else run_code(call, rest[0], call.name)
        return None
    if call.name in ("concurrently",):
        for arg in args:
            if " " in arg:
                run_code(call, arg, call.name)
    if (
        call.name in ("pdflatex", "xelatex", "latex", "tex", "lualatex")
        and any("shell-escape" in arg or "enable-write18" in arg for arg in args)
        and any("write18" in arg or "directlua" in arg for arg in args)
    ):
        match = re.search(r"write18\{([^}]*)\}", " ".join(args))
        run_code(call, match[1] if match else UNSET, call.name)
    if call.name in ("ffmpeg",):
        for arg in args[-1:]:
            if not arg.startswith("-") and "://" not in arg:
                write(call, arg)
        for at, arg in enumerate(args[:-1]):
            if arg == "-i":
                read(call, args[at + 1])
        return None
    _secrets(call)
    return None


def _judge_value(call: Call, value: str, name: str) -> None:
    if not value:
        return
    if call.name == "nmap" and not re.search(r"/|\.nse", value):
        return
    if (
        call.name == "fzf"
        and "execute" not in value
        and "reload" not in value
        and "become" not in value
        and name == "--bind"
    ):
        return
    if call.name == "sshfs" and not re.search(r"ssh_command|ProxyCommand", value):
        return
    if (
        call.name == "fzf"
        and name == "--preview"
        and not call.machine.probe_text(value.replace("{}", "FILE"), call.shell)
    ):
        return
    run_code(call, value.replace("{}", "FILE"), f"an option of {call.name}")
    first = value.split()[0] if value.split() else ""
    if "/" in first and not re.match(r"(/usr)?/s?bin/", first):
        call.report(OPTION_RUNS, f"makes {call.name} run {shown(first)}")


def _fd(call: Call, args: list[str], at: int) -> str | None:
    """fd PATTERN ROOT -x COMMAND: each match below the root."""
    command = [arg for arg in args[at + 1 :] if arg not in (";", "\\;")]
    words = [arg for arg in args[:at] if not arg.startswith("-")]
    roots = words[1:] or ["."]
    for root in roots[:4]:
        path = root.rstrip("/") + "/\ue010"
        filled = [part.replace("{}", path) for part in command]
        call.run(filled if filled != command else [*command, path], stdin="")
    return None


def judge_fd(call: Call) -> str | None:
    """fd without an action prints paths below its roots."""
    if any(
        arg in ("-x", "-X", "--exec", "--exec-batch") or arg.startswith(("--exec=", "--exec-batch="))
        for arg in call.args
    ):
        return judge_option_runner(call)
    words = [arg for arg in call.args if not arg.startswith("-")]
    roots = words[1:] or ["."]
    return "".join(f"{root.rstrip('/')}/\ue010\n" for root in roots)


def judge_ls(call: Call) -> str | None:
    """ls prints names: of its operands with -d, else of what is in them."""
    options = parse_options(
        call.args, "ITw", ("color", "sort", "time", "format", "ignore", "hide", "time-style", "block-size")
    )
    names = options.operands or ["."]
    if any(resolve(name, call.shell) == "/proc" for name in names):
        return PIDS + "\n"
    if options.has("d", "directory"):
        return "".join(f"{name}\n" for name in names)
    out = [f"{name}\n" if re.search(r"\.\w+$|\ue010\.\w", name) else "\ue010\n" for name in names]
    return "".join(out)


def judge_strings(call: Call) -> str | None:
    """strings, od, hexdump and other readers of any file."""
    options = parse_options(call.args, "nteANjtvw")
    for path in options.operands:
        read(call, path)
    return (
        LOCAL
        + ("\ue005" if any(is_secret(resolve(path, call.shell), call.shell) for path in options.operands) else "")
        + "\n"
    )


def judge_sshpass(call: Call) -> str | None:
    """sshpass gives a password to the command that follows."""
    options = parse_options(call.args, "pfdP", (), stop_early=True)
    return call.run(options.operands)


_TYPES = ("type", "send-text", "write-chars", "send-keys")


def judge_xdotool(call: Call) -> str | None:
    """Typing into other windows runs what is typed there."""
    words = [arg for arg in call.args if not arg.startswith("-")]
    at = next((at for at, word in enumerate(words) if word in _TYPES), -1)
    if call.name == "wtype" or (0 <= at < len(words) - 1):
        run_code(call, " ".join(words[at + 1 :]).replace("\\n", "\n"), "typed text")
    return None


def judge_clipboard(call: Call) -> str | None:
    """Clipboards give what nobody sees."""
    if any(arg in ("-o", "-out", "--output", "-p") for arg in call.args) or call.name in ("pbpaste", "wl-paste"):
        return NET + "\n"
    return None


JUDGES: dict[str, Judge] = {
    **dict.fromkeys(("ls", "exa", "eza", "lsd"), judge_ls),
    **dict.fromkeys(("strings", "od", "hexdump", "hd", "hexyl"), judge_strings),
    "sshpass": judge_sshpass,
    "xdotool": judge_xdotool,
    "ydotool": judge_xdotool,
    "wtype": judge_xdotool,
    "zellij": judge_xdotool,
    **dict.fromkeys(("pbpaste", "wl-paste", "xclip", "xsel"), judge_clipboard),
    **dict.fromkeys(
        (
            *_PROGRAM_OPTIONS,
            *_COMMAND_RUNNERS,
            "concurrently",
            "ffmpeg",
            "pdflatex",
            "xelatex",
            "latex",
            "tex",
            "lualatex",
        ),
        judge_option_runner,
    ),
    **dict.fromkeys(("fd", "fdfind"), judge_fd),
}
