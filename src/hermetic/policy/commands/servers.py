"""Servers: programs that give a shell, a debugger or files to whoever connects."""

from __future__ import annotations

import itertools
import re

from hermetic.policy.call import Call, Judge
from hermetic.policy.marks import literal_globs
from hermetic.policy.paths import is_secret
from hermetic.policy.rules import Rule
from hermetic.policy.tables import names

SERVE_SHELL = Rule(
    name="serve-shell",
    category="reverse-shell",
    severity=9,
    effects=("network", "executes unseen code"),
    catches=(
        "ttyd -p 8080 bash",
        "sshd -p 2222",
        "code tunnel",
        "jupyter lab --ip=0.0.0.0 --IdentityProvider.token=''",
        "node --inspect=0.0.0.0:9229 app.js",
        "tcpserver 0 4444 sh",
    ),
    spares=("sshd -t", "code .", "jupyter lab", "node --inspect app.js", "ttyd --version"),
)
SERVE_FILES = Rule(
    name="serve-files",
    category="secret-exfil",
    severity=8,
    effects=("network", "reads secrets"),
    catches=(
        "python3 -m http.server --directory ~/.ssh",
        "cd / && php -S 0.0.0.0:8000",
        "npx serve ~",
        "caddy file-server --root /home",
        "git daemon --base-path=$HOME --export-all",
    ),
    spares=("python3 -m http.server 8000", "npx serve dist", "php -S localhost:8000 -t public", "caddy fmt"),
)
RULES = (SERVE_SHELL, SERVE_FILES)

_SHELLS = names(
    """
ttyd gotty wetty shellinaboxd sshd dropbear telnetd in.telnetd utelnetd rshd rlogind in.rshd x11vnc vncserver Xvnc
x0vncserver tigervncserver wayvnc krfb mosh-server code-server openvscode-server tcpserver tcpsvd ipsvd faucet inetd
xinetd inetutils-inetd systemd-socket-activate socketd rustdesk anydesk teamviewer meshagent sshx tty-share gritty
microsocks 3proxy sockd danted ss-server ssserver gostproxy v2ray xray openvpn zerotier-cli nebula netbird netclient
headscale chrome-remote-desktop xrdp x2goserver guacd stunnel stunnel4
"""
)
_HARMLESS = re.compile(r"(^|\s)(-t|-T|-V|-v|-h|-G|--help|--version|--test|status|info|list\w*|peers)(\s|$)")
# Directory servers: the options that name what they serve. Without one the first operand is served, or the directory.
_FILES: dict[str, tuple[str, ...]] = {
    "serve": (),
    "http-server": (),
    "live-server": (),
    "sirv": (),
    "miniserve": (),
    "dufs": (),
    "darkhttpd": (),
    "simple-http-server": (),
    "uploadserver": (),
    "goshs": ("-d",),
    "updog": ("-d", "--directory"),
    "httpd": ("-h",),
    "webfsd": ("-r",),
    "thttpd": ("-d",),
    "caddy": ("--root", "-r"),
    "static-web-server": ("--root", "-d"),
    "twistd": ("--path",),
    "twist": ("--path",),
    "python": ("-d", "--directory"),
    "php": ("-t",),
    "git-daemon": ("--base-path",),
    "rclone": (),
}
# Debuggers and control ports: whoever reaches them runs code.
_ON_EVERY_ADDRESS = r"(0\.0\.0\.0|\*|\[?::\]?)"
_CONTROL = re.compile(
    rf"--inspect(-brk)?={_ON_EVERY_ADDRESS}|jdwp=\S*address={_ON_EVERY_ADDRESS}:|--listen[= ]{_ON_EVERY_ADDRESS}:"
    rf"|--rc-no-auth|--address[= ]{_ON_EVERY_ADDRESS}(\s|$)|--no-auth\b|--auth[= ]none|--remote-debugging-address=0"
)


def judge_shell_server(call: Call) -> str | None:
    """ttyd, sshd, telnetd, vnc, proxies, mesh networks: ways into this machine."""
    text = " ".join(call.args)
    if _HARMLESS.search(text) and not (call.name == "shellinaboxd" and "-s" in call.args):
        return None
    if call.name in ("zerotier-cli", "netbird", "netclient") and not re.search(r"\b(join|up|set|service)\b", text):
        return None
    call.report(SERVE_SHELL, "opens this machine to whoever connects")
    return None


def judge_file_server(call: Call) -> str | None:
    """serve, http-server, caddy, httpd …: directories offered to whoever connects."""
    if call.name == "caddy" and call.args[:1] != ["file-server"]:
        return None
    if not _HARMLESS.search(" ".join(call.args)) or call.name in ("httpd", "webfsd"):
        check_served(call, served(call.args, _FILES[call.name]))
    return None


def served(args: list[str], options: tuple[str, ...]) -> str:
    """The directory a server offers by its options or its first operand; the current one without."""
    for flag, value in itertools.pairwise([*args, ""]):
        name, equals, glued = flag.partition("=")
        if name in options:
            return glued if equals else value
    words = [arg for arg in args if not arg.startswith("-") and not re.fullmatch(r"[\w.:\[\]]*:?\d+", arg)]
    return next((word for word in words if word not in ("file-server", "web", "serve", "http")), ".")


def check_served(call: Call, directory: str) -> None:
    """Report a directory that holds credentials, or everything a person has."""
    full, place = call.place(directory)
    if place in ("home", "root", "startup", "system", "history", "unknown") or is_secret(full, call.shell):
        call.report(SERVE_FILES, f"offers files to whoever connects: {directory}", full)


def serve_with(name: str, call: Call, args: list[str]) -> None:
    """Judge that a program serves a directory in the way the named server does."""
    check_served(call, served(args, _FILES[name]))


def judge_share(call: Call) -> str | None:
    """exportfs, smbd, ftp daemons: whole directories for whoever connects."""
    if call.args and not _HARMLESS.search(" ".join(call.args)):
        call.report(SERVE_FILES, "offers files to whoever connects")
    return None


def judge_control(call: Call) -> None:
    """Report a debugger or control port that is open on every address."""
    if _CONTROL.search(literal_globs(" ".join(call.args))):
        call.report(SERVE_SHELL, "lets whoever connects run code")


def judge_notebook(call: Call) -> str | None:
    """jupyter, marimo, code: servers with a shell in them."""
    text = " ".join(call.args)
    if call.name == "code":
        opens = call.args[:1] in (["tunnel"], ["serve-web"]) and "--help" not in call.args
    else:
        opens = bool(re.search(r"(token|password)=(''|\"\"|\s|$)", text + " ")) or bool(
            re.search(rf"--(\w+\.)?(ip|host)[= ]{_ON_EVERY_ADDRESS}(\s|$)", text)
            and re.search(r"no-token|allow-root", text)
        )
    if opens:
        call.report(SERVE_SHELL, "lets whoever connects run code")
    return None


def judge_websocat(call: Call) -> str | None:
    """websocat joins a web socket to a program."""
    if any(re.match(r"(exec|sh-c|cmd):", arg) for arg in call.args):
        call.report(SERVE_SHELL, "runs a program for whoever is at the other end of a connection")
    return None


def with_control(judges: dict[str, Judge], fallback: Judge) -> dict[str, Judge]:
    """The same judges for programs that can open a control port, with that added."""

    def joined(judge: Judge) -> Judge:
        def both(call: Call) -> str | None:
            judge_control(call)
            if call.name == "code":
                judge_notebook(call)
            return judge(call)

        return both

    opening = names(
        "node nodejs java rclone debugpy kubectl oc chrome chromium google-chrome dlv deno bun ts-node tsx code"
    )
    return {name: joined(judges.get(name, fallback)) for name in opening}


JUDGES: dict[str, Judge] = {
    **dict.fromkeys(_SHELLS, judge_shell_server),
    **dict.fromkeys(
        (name for name in _FILES if name not in ("python", "php", "rclone", "git-daemon")), judge_file_server
    ),
    **dict.fromkeys(("jupyter", "jupyter-lab", "jupyter-notebook", "marimo", "jupyterhub"), judge_notebook),
    "websocat": judge_websocat,
    **dict.fromkeys(names("exportfs smbd vsftpd proftpd pure-ftpd in.tftpd atftpd rpc.nfsd"), judge_share),
}
