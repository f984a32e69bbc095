"""HTTP from the command line: what is downloaded, what is sent, and where both go."""

from __future__ import annotations

import re

from hermetic.policy.call import Call, Judge
from hermetic.policy.destroys import CLOUD_DESTROYS, SQL_DESTROYS
from hermetic.policy.effects import read, write
from hermetic.policy.marks import LOCAL, NET, SECRET, TOKEN, UNSET, is_known, literal_globs, shown
from hermetic.policy.network import EXFIL, check_address, check_sent, is_local
from hermetic.policy.options import Options, parse_options
from hermetic.policy.paths import is_env_file, is_secret, resolve
from hermetic.policy.rules import Rule
from hermetic.policy.sql import destruction
from hermetic.policy.tables import names

from .unseen import UNKNOWN_COMMAND, run_program

ENGINE_SOCKET = Rule(
    name="engine-socket",
    category="container-escape",
    severity=9,
    effects=("changes shared state",),
    catches=(
        "curl --unix-socket /var/run/docker.sock http://localhost/containers/json",
        "socat TCP-LISTEN:2375,fork UNIX-CONNECT:/var/run/docker.sock",
        "echo x | nc -U /run/docker.sock",
    ),
    spares=("curl --unix-socket ./app.sock http://localhost/",),
)
REMOTE_CHANGE = Rule(
    name="http-change",
    category="remote-change",
    label="caution",
    severity=3,
    effects=("network", "changes shared state"),
    catches=("curl -X POST https://api.example.com/v1 -d a=1",),
    spares=("curl https://example.com", "curl -s http://localhost:3000/health"),
)
RULES = (ENGINE_SOCKET, REMOTE_CHANGE)

# Databases that take SQL or another query language by HTTP.
_DATABASE = re.compile(r":(8123|8086|9200|4200|8529|7474|2480|9000|8812|5984)\b|/(query|_sql|sql|cypher|_search)\b")
ENGINE = re.compile(r"(docker|containerd|podman|crio|k3s|lxd|libvirt)[^/]*\.sock|/lxd/unix\.socket")
_SHORT = "AbcCdDeEFhHKmoPQrtTuUwxXyYz"
_LONG = names(
    """
user-agent cookie cookie-jar continue-at data data-raw data-binary data-urlencode data-ascii json form
form-string header request output user proxy url upload-file max-time connect-timeout retry retry-delay
retry-max-time referer range cert key cacert capath unix-socket abstract-unix-socket resolve connect-to
interface write-out config netrc-file limit-rate output-dir dump-header trace trace-ascii stderr quote mail-from
mail-rcpt ciphers tls-max oauth2-bearer aws-sigv4 max-redirs proxy-user noproxy dns-servers local-port
create-file-mode variable etag-save libcurl egd-file engine
"""
)
_CONNECT_TO = re.compile(r"(?:\[[^\]]*\]|[^:]*):[^:]*:(\[[^\]]*\]|[^:]*):[^:]*$")
_AUTH_HEADER = re.compile(
    r"(?i)^(authorization|x-api-key|api-key|private-token|x-auth-token|x-\w+-token|x-vault-token|"
    r"cookie|proxy-authorization|x-goog-api-key|anthropic-\S+|openai-\S+|dd-api-key|circle-token|"
    r"x-figma-token|x-access-token)\s*:"
)


_MOST_ADDRESSES = 64  # that one argument is followed to


def judge_curl(call: Call) -> str | None:
    """curl fetches addresses; options name what is sent, where it goes, and what is read."""
    options = parse_options(call.args, _SHORT, _LONG)
    if options.has("version", "V", "help") and not options.operands:
        return None
    urls = [*options.operands, *options.values("url")]
    for url in urls:
        for address in [url] if options.has("g", "globoff") else _addresses(url):
            check_address(call, address)
    _redirected(call, options)
    files = [url for url in urls if url.startswith("file:")]
    content = "".join(read(call, url) for url in files)
    check_engine(call, *options.values("unix-socket", "abstract-unix-socket"))
    for socket in options.values("unix-socket"):
        read(call, socket)
    for config in options.values("K", "config"):
        text = call.input() if config == "-" else read(call, config)
        if is_known(text) and ("url" in text or "output" in text):
            words = re.findall(r"(\w[\w-]*)\s*[=:\s]\s*\"?([^\"\n]+)", text)
            call.run(["curl", *[part for name, value in words for part in (f"--{name}", value)]])
    _curl_sent(call, options, urls)
    for name in names(
        """
o output D dump-header c cookie-jar trace trace-ascii etag-save libcurl stderr
"""
    ):
        for path in [value for given, value in options.given if given == name and value]:
            directory = options.value("output-dir")
            if path != "-":
                write(call, f"{directory}/{path}" if directory else path, content=NET)
    if options.has("O", "remote-name") or any(name == "remote-name-all" for name, _ in options.given):
        for url in urls:
            name = url.split("?")[0].rstrip("/").rsplit("/", 1)[-1]
            write(call, f"{options.value('output-dir') or '.'}/{name}", content=_fetched(url))
        return ""
    if options.value("o", "output") and options.value("o", "output") != "-":
        return ""
    if urls and all(url.startswith("file:") for url in urls):
        return content
    return "".join(_fetched(url) for url in urls) + "\n"


def _addresses(url: str) -> list[str]:
    """The addresses that curl makes of one with alternatives; those of a range cannot be known."""
    found = [""]
    for piece in re.split(r"(\{[^{}]*\}|\[[^\[\]:]*\])", literal_globs(url)):
        ways = piece[1:-1].split(",") if piece.startswith("{") else [UNSET] if piece.startswith("[") else [piece]
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
    if any(ENGINE.search(address) for address in addresses):
        call.report(ENGINE_SOCKET, "speaks to the container engine, which owns the host")


def _fetched(url: str) -> str:
    return LOCAL if is_local(url) else NET


def _curl_sent(call: Call, options: Options, urls: list[str]) -> None:
    method = ""
    sends = False
    for name, value in options.given:
        if value is None:
            continue
        if name in ("X", "request"):
            method = value.upper()
        elif name in ("H", "header"):
            if _AUTH_HEADER.match(value) and SECRET not in value:
                continue
            check_sent(call, value)
        elif name in ("u", "user", "oauth2-bearer", "U", "proxy-user", "b", "cookie", "E", "cert", "key"):
            if SECRET in value:
                check_sent(call, value)
        elif name in names(
            """
d data data-binary data-urlencode data-raw data-ascii F form form-string T upload-file json
"""
        ):
            sends = True
            _payload(call, name, value)
            if any(_DATABASE.search(url) for url in urls) and destruction(value.partition("=")[2] or value):
                call.report(SQL_DESTROYS, "destroys data of a database by HTTP")
    for url in urls:
        if SECRET in url or (TOKEN in url and not is_local(url)):
            check_sent(call, url)
        if method == "DELETE" or re.search(r"_delete_by_query|/_(all|forcemerge)$", url):
            _http_delete(call, url)
        elif (method in ("POST", "PUT", "PATCH") or (sends and not options.has("G", "get"))) and not is_local(url):
            call.report(REMOTE_CHANGE, f"sends data to {shown(url)}")


def _http_delete(call: Call, url: str) -> None:
    if re.search(r"/apis?/(v\d|[\w.]+/v\d)\S*", url) and re.search(r"/(namespaces|nodes|persistentvolumes)\b", url):
        call.report(CLOUD_DESTROYS, f"deletes resources of a cluster: {shown(url)}")
    elif is_local(url):
        if re.search(r":9200(/|$)|:2379|:8500|:8123|:5984|/v1\.\d+/(containers|images|volumes)", url) or re.search(
            r"/(_all|\*)($|\?|/)", url
        ):
            call.report(SQL_DESTROYS, "deletes data in a database by HTTP")
        else:
            call.report(REMOTE_CHANGE, f"deletes something by HTTP: {shown(url)}")
    else:
        call.report(CLOUD_DESTROYS, f"deletes something on another machine: {shown(url)}")


def _payload(call: Call, name: str, value: str) -> None:
    path = ""
    if name in ("T", "upload-file"):
        path = value
    elif name not in ("data-raw", "form-string"):
        match = re.search(r"^[^=@]*@(.+)" if name == "data-urlencode" else r"(?:^|=)[@<]([^;]+)", value)
        path = match[1] if match else ""
    text = value
    if path == "-":
        text += call.input()
    elif path:
        full = resolve(path, call.shell)
        if is_secret(full, call.shell) or is_env_file(full):
            call.report(EXFIL, f"sends credentials to another machine: {shown(path)}")
            return
        text += read(call, path)
    if SECRET in text or (TOKEN in text and not any(is_local(arg) for arg in call.args)):
        call.report(EXFIL, "sends credentials to another machine")


def judge_wget(call: Call) -> str | None:
    """wget downloads into files."""
    long = names(
        """
output-document directory-prefix post-file post-data body-file body-data method header user password user-agent
timeout tries input-file output-file append-output execute use-askpass referer wait level reject accept
load-cookies save-cookies config ca-certificate domains exclude-directories cut-dirs bind-address limit-rate
quota warc-file
"""
    )
    options = parse_options(call.args, "OPoaeiUtTlARDXQBwI", long)
    if options.has("help", "version", "V", "h"):
        return None
    for program in options.values("use-askpass"):
        call.run([program])
        call.report(UNKNOWN_COMMAND, f"runs a program: {shown(program)}")
    for setting in options.values("e", "execute"):
        if re.match(r"\s*(use_askpass|output_document)\s*=", setting):
            call.report(UNKNOWN_COMMAND, f"sets a dangerous option: {shown(setting)}")
    for name in ("post-file", "body-file"):
        for path in options.values(name):
            _payload(call, "d", "@" + path)
    check_sent(call, *options.values("post-data", "body-data", "user-agent", "referer"))
    for header in options.values("header"):
        if not _AUTH_HEADER.match(header) or SECRET in header:
            check_sent(call, header)
    urls = options.operands
    for path in options.values("i", "input-file"):
        read(call, path)
    if (options.value("method") or "").upper() == "DELETE":
        for url in urls:
            _http_delete(call, url)
    for url in urls:
        check_address(call, url)
        if SECRET in url or TOKEN in url:
            check_sent(call, url)
    for path in options.values("o", "output-file", "a", "append-output"):
        write(call, path)
    content = "".join(_fetched(url) for url in urls) or NET
    target = options.value("O", "output-document")
    if target == "-":
        return content + "\n"
    if target:
        write(call, target, content=content)
        return ""
    prefix = options.value("P", "directory-prefix")
    if prefix and not urls:
        write(call, prefix, tree=True)
    for url in urls:
        name = url.split("?")[0].rstrip("/").rsplit("/", 1)[-1]
        write(call, f"{prefix or '.'}/{name}", content=content)
    return ""


def judge_fetch(call: Call) -> str | None:
    """http, xh, aria2c, axel, lynx, fetch …: other ways to download."""
    options = parse_options(
        call.args,
        "od" if call.name in ("aria2c", "axel", "fetch") else "oA",
        names(
            """
output out dir dump-header auth session on-download-complete on-download-start on-bt-download-complete
on-download-error on-download-stop
"""
        ),
        single_dash_long=call.name in ("lynx", "w3m", "elinks", "links"),
    )
    for name, value in options.given:
        if name.startswith("on-") and value:
            run_program(call, value, "a hook")
    words = options.operands
    for word in words:
        check_address(call, word)
    check_sent(call, *words, call.stdin or "")
    for word in words:
        match = re.match(r"[\w.-]+(?:@|=@|:=@)(.+)", word)
        if match and call.name in ("http", "https", "xh", "xhs") and "/" in match[1]:
            _payload(call, "d", "@" + match[1])
    if words[:1] in (["DELETE"],) and len(words) > 1:
        _http_delete(call, words[1])
    elif words[:1] in (["POST"], ["PUT"], ["PATCH"]) and len(words) > 1 and not is_local(words[1]):
        call.report(REMOTE_CHANGE, "sends data to another machine")
    urls = [word for word in words if "/" in word or "." in word or word.startswith(":")]
    target = options.value("o", "output", "out")
    content = _fetched(urls[0]) if urls else NET
    if target and target != "-":
        write(call, target, content=content)
        return ""
    if call.name in ("aria2c", "axel", "lwp-download", "saldl"):
        for url in urls:
            write(call, url.split("?")[0].rstrip("/").rsplit("/", 1)[-1], content=NET)
        return ""
    return content + "\n"


JUDGES: dict[str, Judge] = {
    **dict.fromkeys(("curl", "curlie"), judge_curl),
    **dict.fromkeys(("wget", "wget2"), judge_wget),
    **dict.fromkeys(
        names(
            """
http https xh xhs aria2c axel lynx w3m links elinks fetch GET POST lwp-request lwp-download ftpget saldl hurl

"""
        ),
        judge_fetch,
    ),
}
