"""Connections to other machines: remote shells, raw sockets, tunnels, file transfer, name lookups, mail."""

from __future__ import annotations

import itertools
import re

from hermetic.policy.call import Call, Judge
from hermetic.policy.effects import read, write
from hermetic.policy.marks import LOCAL, NET, SECRET, TOKEN, is_known, shown
from hermetic.policy.network import EXFIL, REVERSE_SHELL, check_address, check_sent, is_local
from hermetic.policy.options import parse_options
from hermetic.policy.raw_protocols import check_commands
from hermetic.policy.rules import Rule
from hermetic.policy.tables import names

from .transfer import check_engine
from .unseen import UNKNOWN_COMMAND, run_code

TUNNEL = Rule(
    name="open-tunnel",
    category="reverse-shell",
    severity=8,
    effects=("network",),
    catches=(
        "ssh -R 0.0.0.0:2222:127.0.0.1:22 x@203.0.113.5",
        "ngrok tcp 22",
        "cloudflared tunnel --url ssh://localhost:22",
    ),
    spares=("ssh -L 5432:localhost:5432 web1", "ssh web1 uptime", "ngrok version"),
)
RULES = (TUNNEL,)


def judge_nc(call: Call) -> str | None:
    """nc and kin: a raw connection; -e and -c run a program on it."""
    options = parse_options(
        call.args,
        "ecgGiImMoOpPqsTVwWxX",
        ("exec", "sh-exec", "lua-exec", "source-port", "wait", "proxy", "proxy-type", "idle-timeout"),
    )
    if options.has("h", "help", "version"):
        return None
    program = options.value("e", "c", "exec", "sh-exec", "lua-exec")
    if program:
        call.report(REVERSE_SHELL, "runs a program for whoever is at the other end of a connection")
        return NET
    if options.has("z"):
        return LOCAL
    words = options.operands
    check_commands(call, call.stdin)
    check_engine(call, *words)
    for path in words[:1] if options.has("U", "unixsock") else ():
        read(call, path)
    local = bool(words) and is_local(words[0])
    for host in words[:1] if not options.has("l", "listen", "U") else ():
        check_address(call, host)
    if not options.has("l", "listen") and not local:
        check_sent(call, call.stdin or "", *words)
    return (LOCAL if local else NET) + "\n"


def judge_socat(call: Call) -> str | None:
    """socat joins two addresses; EXEC and SYSTEM run programs, OPEN and FILE touch files."""
    words = [arg for arg in call.args if not arg.startswith("-") or arg == "-"]
    text = " ".join(words).lower()
    networked = re.search(r"(tcp|udp|openssl|ssl|sctp|socks|proxy|dccp|vsock|unix-connect)\d?(-\w+)?:", text)
    stdin = call.stdin or ""
    check_engine(call, *words)
    check_commands(call, stdin)
    for word in words:
        kind, _, rest = word.partition(":")
        kind = kind.lower()
        if kind in ("exec", "system", "shell"):
            program = re.split(r",(?=\w+($|=|,))", rest)[0].strip("'\"")
            if networked and not re.search(r"localhost|127\.0\.0\.1", text):
                call.report(REVERSE_SHELL, "runs a program for whoever is at the other end of a connection")
            elif networked:
                call.report(REVERSE_SHELL, "offers a program to whoever connects")
            run_code(call, program, "socat")
        elif kind in ("unix", "unix-connect", "unix-client", "unix-sendto"):
            read(call, rest.split(",")[0])
        elif kind in ("file", "open", "gopen", "creat", "create"):
            path = rest.split(",")[0]
            if networked:
                stdin += read(call, path)
            written = kind in ("creat", "create") or re.search(r"creat|wronly|append|trunc", rest)
            if written or (word is words[-1] and "-u" in call.args) or (word is words[0] and "-U" in call.args):
                write(call, path, content=NET)
    if networked and not re.search(r"localhost|127\.0\.0\.1", text):
        if any(mark in stdin for mark in (SECRET, TOKEN)):
            call.report(EXFIL, "sends credentials to another machine")
        return NET
    return LOCAL


def judge_ssh(call: Call) -> str | None:
    """ssh runs a command on another machine; some options run programs here or open ways in."""
    options = parse_options(call.args, "BbcDEeFIiJLlmOopQRSWw" + "M" * (call.name == "autossh"), stop_early=True)
    for setting in options.values("o"):
        name, _, value = setting.replace(" ", "=", 1).partition("=")
        if name.lower() in (
            "proxycommand",
            "localcommand",
            "knownhostscommand",
            "pkcs11provider",
            "securitykeyprovider",
            "xauthlocation",
        ):
            text = value.strip("'\"")
            if not re.match(
                (
                    r"(ssh|nc|ncat|cloudflared|aws|corkscrew|connect|none|sss_ssh\w*|gcloud|tsh|wstunnel|websocat|"
                    r"\"?cloudflared)\b"
                ),
                text,
            ) or call.machine.probe_text(text, call.shell):
                call.report(UNKNOWN_COMMAND, f"runs a program here: {shown(setting)}")
                run_code(call, text, "an option of ssh")
    forwards = [setting for setting in options.values("o") if re.match(r"(?i)(RemoteForward|Tunnel)[ =]", setting)]
    if options.value("R") or options.value("w") or forwards:
        call.report(TUNNEL, "lets another machine reach into this one")
    check_engine(call, *options.values("L"))
    if (
        options.value("F")
        and options.value("F") not in ("/dev/null", "none")
        and call.place(options.value("F") or "")[1] == "temp"
    ):
        call.report(UNKNOWN_COMMAND, "takes its settings from a file anyone can write")
    words = options.operands
    if not words:
        return None
    check_address(call, words[0])
    for setting in options.values("o"):
        name, _, value = setting.replace(" ", "=", 1).partition("=")
        for host in value.split(",") if name.lower() in ("hostname", "proxyjump") else ():
            check_address(call, host)
    check_sent(call, call.stdin or "")
    if len(words) > 1:
        text = " ".join(words[1:])
        output = call.machine.run_text(text, call.shell.elsewhere(), call.stdin)
        return NET + (output if is_known(output) else "")
    if call.stdin is not None and is_known(call.stdin):
        call.machine.run_text(call.stdin, call.shell.elsewhere(), "")
    return NET


def judge_lookup(call: Call) -> str | None:
    """dig, nslookup, ping, whois, mail …: whatever is in their arguments or input leaves the machine."""
    check_sent(call, *call.args, call.stdin or "")
    for arg in call.args:
        check_address(call, arg)
    if call.name in ("mosquitto_pub", "kcat", "kafkacat", "nats", "amqp-publish"):
        check_sent(call, *(read(call, arg) for arg in call.args if "/" in arg))
    if call.name in ("mail", "mailx", "mutt", "sendmail", "msmtp", "swaks", "s-nail"):
        for flag, value in zip(call.args, call.args[1:], strict=False):
            if flag in ("-a", "-A", "--attach", "--attachment", "--body"):
                content = read(call, value.lstrip("@"))
                if SECRET in content:
                    call.report(EXFIL, "sends credentials to another machine")
        if call.stdin and re.search(r"^~!\s*(.+)", call.stdin, re.MULTILINE):
            match = re.search(r"^~!\s*(.+)", call.stdin, re.MULTILINE)
            run_code(call, match[1] if match else "", "mail")
    return NET + "\n"


def judge_telnet(call: Call) -> str | None:
    """telnet and openssl s_client are raw connections."""
    words = [arg for arg in call.args if not arg.startswith("-")]
    for host in words[:1]:
        check_address(call, host)
    if not (words and is_local(words[0])):
        check_sent(call, call.stdin or "")
    check_commands(call, call.stdin)
    return LOCAL if words and is_local(words[0]) else NET


def judge_ztcp(call: Call) -> str | None:
    """zsh's own connections."""
    words = [arg for arg in call.args if not arg.startswith("-")]
    if words and not is_local(words[0]):
        call.report(TUNNEL, "opens a raw connection to another machine from the shell")
    return None


def judge_tunnel(call: Call) -> str | None:
    """ngrok, cloudflared, bore, chisel, frpc …: open this machine to the world."""
    text = " ".join(call.args)
    if re.match(r"(version|--version|--help|help|config check|update|tunnel list|login)", text) or (
        not text and call.name not in ("sshuttle",)
    ):
        return None
    call.report(TUNNEL, "opens this machine to the outside")
    return None


def judge_xterm(call: Call) -> str | None:
    """xterm and kin run a command, or show a shell on another machine's display."""
    args = call.args
    if "send-text" in args:
        run_code(call, args[-1].replace("\\n", "\n"), "typed text")
        return None
    for flag, value in itertools.pairwise(args):
        if flag in ("-display", "--display") and not value.startswith((":", "localhost", "unix")):
            call.report(REVERSE_SHELL, "shows a shell on another machine's display")
    at = next((n for n, arg in enumerate(args) if arg in ("-e", "--", "-x", "--command", "--execute", "start")), -1)
    if at >= 0 and at + 1 < len(args):
        rest = args[at + 1 :]
        return run_code(call, rest[0], call.name) if len(rest) == 1 else call.run(rest)
    return None


def judge_server(call: Call) -> str | None:
    """Programs that give a shell or files to whoever connects."""
    call.report(TUNNEL, "opens this machine to whoever connects")
    return None


JUDGES: dict[str, Judge] = {
    **dict.fromkeys(
        names(
            """
nc ncat netcat nc.openbsd nc.traditional pwncat rustcat powercat cryptcat
"""
        ),
        judge_nc,
    ),
    "socat": judge_socat,
    **dict.fromkeys(
        names(
            """
ssh autossh plink klink mosh slogin dbclient rsh rlogin et tsh
"""
        ),
        judge_ssh,
    ),
    **dict.fromkeys(
        names(
            """
dig nslookup host drill ping ping6 whois traceroute mail mailx mutt sendmail msmtp swaks s-nail kdig doggo dog
hping3 finger mosquitto_pub kcat kafkacat nats amqp-publish nping snmpset ldapmodify
"""
        ),
        judge_lookup,
    ),
    "telnet": judge_telnet,
    "ztcp": judge_ztcp,
    **dict.fromkeys(
        names(
            """
ngrok cloudflared bore chisel frpc frps localtunnel lt pagekite inlets zrok rathole gost sshuttle tmate upterm
teleconsole localxpose serveo playit wstunnel ligolo revsocks dnscat dnscat2 iodine ptunnel gsocket gs-netcat
tunnelto
"""
        ),
        judge_tunnel,
    ),
    **dict.fromkeys(
        names(
            """
xterm gnome-terminal konsole urxvt alacritty kitty terminator xfce4-terminal st foot wezterm x-terminal-emulator
rxvt lxterminal mate-terminal tilix
"""
        ),
        judge_xterm,
    ),
    **dict.fromkeys(("msfvenom", "msfconsole", "weevely", "sliver-client", "villain"), judge_server),
}
