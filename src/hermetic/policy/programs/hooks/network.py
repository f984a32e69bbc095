"""Downloads, uploads, connections and servers: what is fetched, sent and offered, and programs that
run at either end.
"""

from __future__ import annotations

import itertools
import re

from hermetic.policy.call import Call
from hermetic.policy.dynamic_code import run_code, run_program
from hermetic.policy.effects import read, write
from hermetic.policy.languages.sql import destruction
from hermetic.policy.marks import LOCAL, NET, SECRET, TOKEN, UNSET, is_known, literal_globs, shown
from hermetic.policy.network import check_address, check_sent, check_served, host_of, is_local
from hermetic.policy.options import Options, dashed
from hermetic.policy.paths import is_env_file, is_secret, resolve
from hermetic.policy.programs.table import alternatives
from hermetic.policy.programs.texts import judge_patterns
from hermetic.policy.tables import regex

_DATABASE, _STORED, _KEY_HEADER = map(
    alternatives, ("http-databases", "http-stores", "key-headers")
)
_CLUSTER = regex(r"/apis?/(v\d|[\w.]+/v\d)\S*/(namespaces|nodes|persistentvolumes)\b")
_ENGINE = regex(r"(docker|containerd|podman|crio|k3s|lxd|libvirt)[^/]*\.sock|/lxd/unix\.socket")
_ENGINE_PORT = regex(r":237[56]/")
_CONNECT_TO = regex(r"(?:\[[^\]]*\]|[^:]*):[^:]*:(\[[^\]]*\]|[^:]*):[^:]*$")
_MOST_ADDRESSES = 64  # that one argument is followed to
_HARMLESS = regex(
    r"(^|\s)(-t|-T|-V|-v|-h|-G|--help|--version|--test|status|info|list\w*|peers)(\s|$)"
)


def judge_http(call: Call) -> str | None:
    """curl, wget, http, aria2c …: options name what is sent, where it goes, and what is read."""
    row, options, words = call.row, call.options, list(call.options.operands)
    for program in options.values(*row.program.split()):
        run_program(call, program, "a hook")
    method = options.value(*row.method.split()) or ""
    if row.has("items") and words and re.fullmatch("(?i)[A-Z]{3,7}", words[0]):
        method = words.pop(0)
    urls, items = (words[:1], words[1:]) if row.has("items") else (words, [])
    urls += options.values("url")
    for url in urls:
        for address in [url] if options.has("g", "globoff") else _addresses(url):
            check_address(call, address)
    _redirected(call, options)
    check_engine(call, *options.values("unix-socket", "abstract-unix-socket"))
    for path in options.values("unix-socket", *row.reads.split()):
        read(call, path)
    held = "".join(read(call, url) for url in urls if url.startswith("file:"))
    _configured(call, options)
    _sent(call, method.upper(), urls, items)
    for path in options.values(*row.writes.split()):
        write(call, path, content=NET)
    return _saved(call, urls, held)


def _configured(call: Call, options: Options) -> None:
    """Follow a file of curl's options that this text wrote or feeds in."""
    for path in options.values("K", "config"):
        text = call.input() if path == "-" else read(call, path)
        if is_known(text) and ("url" in text or "output" in text):
            pairs = re.findall(r"(\w[\w-]*)\s*[=:\s]\s*\"?([^\"\n]+)", text)
            call.run(["curl", *(part for name, value in pairs for part in (f"--{name}", value))])


def _saved(call: Call, urls: list[str], held: str) -> str:
    """Write what arrives to where options say; gives what is printed."""
    row, options = call.row, call.options
    targets = options.values(*row.target.split())
    folder = options.value(*row.folder.split())
    content = "".join(map(_fetched, urls)) or NET
    for path in targets:
        if path != "-":
            write(call, f"{folder}/{path}" if folder else path, content=content)
    if row.has("saves") and options.has("r", "recursive", "m", "mirror"):
        call.shell.fetched.update(resolve(host_of(url), call.shell) for url in urls)
    if targets[-1:] not in ([], ["-"]):
        return ""
    if not targets and (row.has("saves") or not _NAMED.isdisjoint(options.given)):
        for url in urls:
            write(call, f"{folder or '.'}/{_name(url)}", content=_fetched(url))
        if folder and not urls:
            write(call, folder, tree=True)
        return ""
    return held or content + "\n"


# Options by which curl saves under the name of an address.
_NAMED = frozenset((name, None) for name in ("O", "remote-name", "remote-name-all"))


def _name(url: str) -> str:
    return url.split("?")[0].rstrip("/").rsplit("/", 1)[-1]


def _fetched(url: str) -> str:
    return LOCAL if is_local(url) else NET


def _addresses(url: str) -> list[str]:
    """The addresses that curl makes of one with alternatives; those of a range cannot be known."""
    found = [""]
    for piece in re.split(r"(\{[^{}]*\}|\[[^\[\]:]*\])", literal_globs(url)):
        ways = piece[1:-1].split(",") if piece.startswith("{") else [piece]
        ways = [UNSET] if piece.startswith("[") else ways
        found = [before + way for before in found for way in ways]
        if len(found) > _MOST_ADDRESSES:
            return [UNSET]
    return found if len(found) > 1 or found[0] != literal_globs(url) else [url]


def _redirected(call: Call, options: Options) -> None:
    """Note the machines that are reached in place of those which addresses name."""
    for value in options.values("connect-to"):
        if (match := _CONNECT_TO.match(value)) and match[1]:
            check_address(call, match[1])
    for value in options.values("resolve"):
        for address in value.split(":", 2)[-1].split(","):
            check_address(call, address)
            if not is_local(address):
                call.machine.note("reach", UNSET)  # whose machine that is cannot be known
    for value in options.values("H", "header"):
        name, _, host = value.partition(":")
        if name.strip().lower() == "host":
            check_address(call, host.strip())


def check_engine(call: Call, *addresses: str) -> None:
    """Report a connection to a container engine's socket."""
    if any(map(_ENGINE.search, addresses)):
        call.report("engine-socket", "speaks to the container engine, which owns the host")


def _sent(call: Call, method: str, urls: list[str], items: list[str]) -> None:
    row, options, sends = call.row, call.options, method in ("POST", "PUT", "PATCH")
    for name, value in options.given:
        if value is None:
            continue
        if name in row.header.split():
            name = value.partition(":")[0].strip().lower()
            if SECRET in value or not _KEY_HEADER.fullmatch(name):
                check_sent(call, value)
        elif name in row.login.split():
            check_sent(call, value.replace(TOKEN, ""))
        elif name in row.body.split() or name in row.upload.split():
            sends = sends or not options.has("G", "get")
            _payload(call, name, value)
            if any(map(_DATABASE.search, urls)) and destruction(value.partition("=")[2] or value):
                call.report("sql-destroys", "destroys data of a database by HTTP")
    for item in items:
        if (match := re.match(r"[\w.-]+(?:@|=@|:=@)(.+)", item)) and "/" in match[1]:
            _payload(call, "d", "@" + match[1])
    if row.has("items"):
        check_sent(call, *items, call.stdin or "")
    bodies = options.values(*row.body.split()) if sends else []
    for url in urls if sends else ():
        if is_local(url) and not _ENGINE_PORT.search(url):
            continue
        judge_patterns(call, " ".join([url, *bodies, *items]), "request")
    for url in urls:
        check_sent(call, url.replace(TOKEN, "") if is_local(url) else url)
        if method == "DELETE" or re.search(r"_delete_by_query|/_(all|forcemerge)$", url):
            _http_delete(call, url)
        elif sends and not is_local(url):
            call.report("http-change", f"sends data to {shown(url)}")


def _http_delete(call: Call, url: str) -> None:
    if _CLUSTER.search(url):
        call.report("cloud-destroys", f"deletes resources of a cluster: {shown(url)}")
    elif not is_local(url):
        call.report("cloud-destroys", f"deletes something on another machine: {shown(url)}")
    elif _STORED.search(url):
        call.report("sql-destroys", "deletes data in a database by HTTP")
    else:
        call.report("http-change", f"deletes something by HTTP: {shown(url)}")


def _payload(call: Call, name: str, value: str) -> None:
    path, text = "", value
    if name in call.row.upload.split():
        path = value
    elif name not in ("data-raw", "form-string"):
        pattern = r"^[^=@]*@(.+)" if name == "data-urlencode" else r"(?:^|=)[@<]([^;]+)"
        path = match[1] if (match := re.search(pattern, value)) else ""
    if path == "-":
        text += call.input()
    elif path:
        path = re.sub("^~(?=/)", call.shell.home, path)
        full = resolve(path, call.shell)
        if is_secret(full, call.shell) or is_env_file(full):
            call.report("send-secret", f"sends credentials to another machine: {shown(path)}")
            return
        text += read(call, path)
    check_sent(call, text.replace(TOKEN, "") if any(map(is_local, call.args)) else text)


def judge_nc(call: Call) -> str | None:
    """nc, telnet and kin: a raw connection; -e and -c run a program on it."""
    options, words = call.options, call.options.operands
    if options.value(*call.row.script.split()):
        call.report("reverse-shell", _RUNS_FOR)
        return NET
    if options.has("z"):
        return LOCAL
    judge_patterns(call, call.stdin or "", "connection")
    check_engine(call, *words)
    listens, local = options.has("l", "listen"), bool(words) and is_local(words[0])
    if words and options.has("U", "unixsock"):
        read(call, words[0])
    elif words and not listens:
        check_address(call, words[0])
    if not listens and not local:
        check_sent(call, call.stdin or "", *words)
    return (LOCAL if local else NET) + "\n"


_RUNS_FOR = "runs a program for whoever is at the other end of a connection"


def judge_socat(call: Call) -> str | None:
    """socat joins two addresses; EXEC and SYSTEM run programs, OPEN and FILE touch files."""
    words = [arg for arg in call.args if not arg.startswith("-") or arg == "-"]
    text, stdin = " ".join(words).lower(), call.stdin or ""
    networked = re.search(
        r"(tcp|udp|openssl|ssl|sctp|socks|proxy|dccp|vsock|unix-connect)\d?(-\w+)?:", text
    )
    away = networked and not re.search(r"localhost|127\.0\.0\.1", text)
    check_engine(call, *words)
    judge_patterns(call, stdin or "", "connection")
    for word in words:
        kind, _, rest = word.partition(":")
        kind, path = kind.lower(), rest.split(",")[0]
        if kind in ("exec", "system", "shell"):
            if networked:
                offers = "offers a program to whoever connects"
                call.report("reverse-shell", _RUNS_FOR if away else offers)
            run_code(call, re.split(r",(?=\w+($|=|,))", rest)[0].strip("'\""), "socat")
        elif kind in ("unix", "unix-connect", "unix-client", "unix-sendto"):
            read(call, path)
        elif kind in ("file", "open", "gopen", "creat", "create"):
            stdin += read(call, path) if networked else ""
            written = kind.startswith("creat") or re.search(r"creat|wronly|append|trunc", rest)
            target = words[-1:] * ("-u" in call.args) + words[:1] * ("-U" in call.args)
            if written or word in target:
                write(call, path, content=NET)
    if away:
        check_sent(call, stdin)
    return NET if away else LOCAL


_PROGRAMS, _PROXIES = map(alternatives, ("ssh-program-settings", "ssh-proxies"))


def check_settings(call: Call) -> list[tuple[str, str]]:
    """Report settings of ssh by which a program runs here; gives all of them."""
    settings: list[tuple[str, str]] = []
    for setting in call.options.values("o"):
        name, _, value = setting.replace(" ", "=", 1).partition("=")
        settings.append((name.lower(), value))
        text = value.strip("'\"")
        is_proxy = _PROXIES.match(text) and not call.machine.probe_text(text, call.shell)
        if _PROGRAMS.fullmatch(name.lower()) and not is_proxy:
            call.report("run-unknown", f"runs a program here: {shown(setting)}")
            run_code(call, text, "an option of ssh")
    return settings


def judge_ssh(call: Call) -> str | None:
    """ssh runs a command on another machine; some options run programs here or open ways in."""
    if call.options.operands[1:] and call.options.operands[1].startswith(
        "-"
    ):  # options behind the host
        host, *rest = call.options.operands
        call = call.named(call.name, call.args[: len(call.args) - len(rest) - 1] + rest)
        call.options.operands.insert(0, host)
    options, words = call.options, call.options.operands
    settings = check_settings(call)
    forwards = any(name in ("remoteforward", "tunnel") for name, _ in settings)
    if options.value("R") or options.value("w") or forwards:
        call.report("open-tunnel", "lets another machine reach into this one")
    check_engine(call, *options.values("L"))
    held = call.shell.files.get(call.place(options.value("F") or ".")[0], "")
    for text in re.findall(r"(?im)^\s*(?:proxy|local|knownhosts)command\s+(.+)", held):
        run_code(call, text, "a setting of ssh")
    if call.place(options.value("F") or ".")[1] == "temp":
        call.report("run-unknown", "takes its settings from a file anyone can write")
    if not words:
        return None
    named = [value for name, value in settings if name in ("hostname", "proxyjump")]
    for host in [words[0], *",".join(named).split(",")]:
        check_address(call, host) if host else None
    check_sent(call, call.stdin or "")
    if len(words) > 1:
        output = call.machine.run_text(" ".join(words[1:]), call.shell.elsewhere(), call.stdin)
        return NET + (output if is_known(output) else "")
    if call.stdin is not None and is_known(call.stdin):
        call.machine.run_text(call.stdin, call.shell.elsewhere(), "")
    return NET


def judge_server(call: Call) -> None:
    """serve, http-server, caddy, httpd …: what an option names, the first operand, or the current
    directory.
    """
    if call.name == "caddy" and call.args[:1] != ["file-server"]:
        return
    if not _HARMLESS.search(" ".join(call.args)) or call.row.serves:
        options = tuple(map(dashed, call.row.serves.split()))
        if call.name == "python:http.server":  # its operand is a port
            check_served(call, call.options.value(*call.row.serves.split()) or ".")
        else:
            check_served(call, served(call.args, options))


def served(args: list[str], options: tuple[str, ...]) -> str:
    """The directory a server offers by its options or its first operand; the current one without."""
    for flag, value in itertools.pairwise([*args, ""]):
        name, equals, glued = flag.partition("=")
        if name in options:
            return glued if equals else value
    verbs = r"-.*|[\w.:\[\]]*:?\d+|file-server|web|serve|http"
    return next((arg for arg in args if not re.fullmatch(verbs, arg, re.DOTALL)), ".")
