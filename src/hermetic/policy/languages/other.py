"""What shows in a script as a whole, where its calls are not read one by one."""

from __future__ import annotations

import itertools
import re

from hermetic.policy.call import Call
from hermetic.policy.effects import delete, write
from hermetic.policy.network import is_local
from hermetic.policy.paths import is_secret, resolve
from hermetic.policy.tables import regex
from hermetic.policy.variables import is_known_registry

from .calls import LANGUAGES
from .sql import destruction
from .tokens import Token

_MONGO = regex(
    r"\b(dropDatabase|dropIndexes|dropUser|dropAllUsers|dropRole|shutdownServer)\(|\.(drop)\(\)"
    r"|\.(deleteMany|remove|deleteOne|updateMany)\((\{\})?[,)]|\{(dropDatabase|drop|shutdown|dropAllUsersFromDatabase):"
)
# A name, or a string taken for one, by which a script starts something.
_STARTS = regex(
    r"(?i)(^|[^a-z])(system|exec\w*|spawn\w*|shell\w*|sh|popen\w*|command|run-?program|run|process|create-?process|"
    r"open-?process|call-?process|uiop|launch|subprocess|backtick|child_process)([^a-z]|$)"
)
_DELETES = regex(
    r"(?i)(^|[^a-z])(remove-?(item|dir\w*|tree|path|file|all)?|delete-?(tree|dir\w*|file\w*|path|recursively)?|rm-?r?f?|"
    r"rmtree|unlink|erase|del_?dir\w*|deltree|removedir\w*)([^a-z]|$)"
)
_EVALS = regex(r"(?i)(eval|instance_eval|load|loadstring|exec|compile|read-from-string|Function)")
_DECODES = regex(
    r"(?i)(pack|unpack\w*|decode\w*|from_?char_?code|atob|fromhex|hex2bin|rot13|unescape|b64\w*)"
)
_HARMFUL = regex(
    r"\s*(/\S*/)?(rm|dd|shred|mkfs\S*|chmod|chown|curl|wget|nc|mv|kill|reboot|shutdown|sh|bash|find)\b"
)


def changes_users(tokens: list[Token]) -> bool:
    """True for a script of a document database's shell that changes who may use it."""
    return any(one.text in _USERS for one in tokens)


_USERS = frozenset(
    ("createUser", "grantRolesToUser", "updateUser", "createRole", "changeUserPassword")
)


def empties_database(tokens: list[Token]) -> bool:
    """True for a script of a document or key-value database's shell that deletes its content."""
    bare = "".join('""' if one.kind in ("string", "template") else one.text for one in tokens)
    strings = {one.text.upper() for one in tokens if one.kind in ("string", "template")}
    return _MONGO.search(bare) is not None or not strings.isdisjoint({"FLUSHALL", "FLUSHDB"})


# Names of what speaks to other machines, and beginnings of paths that only the script knows.
_SPEAKS = regex(
    r"(?i)(^|[^a-z])(socket|tcp|udp|connect|https?|fetch|request|post|upload|send|net|dial|url|uri|curl|smtp|ftp|ws)"
    r"([^a-z]|$|client|stream|listener|conn)"
)
_HOME = regex(r"^(~|\$?\{[^}]*\}|%s|#\{[^}]*\}|\$\w+(\{\w+\}|->\{\w+\})?)?/?(?=\.)")


def names_secret(call: Call, tokens: list[Token]) -> bool:
    """True for a script with the path of credentials below a home directory, perhaps in parts."""
    parts: list[str] = []
    for token in tokens:
        if token.kind in ("string", "template"):
            parts.append(token.text)
            for path in (token.text, "/".join(parts[-2:]), "/".join(parts[-3:])):
                inner = _HOME.sub("", path, count=1)
                full = f"{call.shell.home}/{inner}" if inner[:1] == "." else inner
                if full.startswith("/") and is_secret(resolve(full, call.shell), call.shell):
                    return True
        elif token.text not in (",", "+", ".", "/", "(", ")"):
            parts.clear()
    return False


# Names by which a language without a table of its own runs what a text holds, or a program that no string names.
_RUNS_TEXT = regex(
    r"(?i)(?<![\w.])(eval\w*|evaluate|load|load-string|include_string|source|source_url|read-string|parse)\b"
    r"|\b(exec|system|shell|popen|cmd|execute|startProcess|sh)\b\s*\(?\s*(?![\s(\[]*\"\")[A-Za-z$_(]"
)
_WRITES = regex(
    r"(?i)(write\w*|spit|output|append\w*|truncate|chmod|set_?(readable|writable|executable|permissions)|put_?file)!?"
)
_READS = regex(r"(?i)(read\w*|slurp\w*|text|open\w*|lines|load\w*|file|cat|get_?contents?)!?")
_LOOPS = regex(r"(?i)\b(while\s*\(?\s*(true|1|TRUE)\b|repeat\b|loop\b|for\s*\{|for\s*\(\s*;\s*;)")
_LAUNCHES = regex(
    r"(?i)ProcessBuilder|getRuntime|exec\.Command|Command\.new|\bCommand\s*\(|Process\.(start|run)|posix_spawn|start-?process"
    r'|(?<![\w.])(system2?|shell|spawn)\s*\(|""\.execute\s*\(|(?<![\w.])fork\s*\('
)
_PAUSES = regex(
    r"(?i)\b(sleep|wait(?!\s*=\s*false)\w*|await|join|break|return|accept|recv|readline|output|status)\b"
)
_ENDS_ALL = regex(r"(?i)\ball_?processes\b.*\b(destroy\w*|kill\w*|terminate)\b")
_CONNECTS = regex(r"(?i)(socket|gen_tcp|tcp(client|stream)|connect|dial)")


# Names by which a script installs a package, or takes code, from an address.
_INSTALLS = regex(
    r"(?i)(install(_?(url|git|packages?))?|add|develop|use_dep|git/url|grab\w*|packagespec|add-libs|quickload|repository|resolvers|importfile)"
)


_INLINE = {"perl": regex("install"), "ruby": regex("gemfile")}
_LAUNCHED = regex(
    r"(?i)exec\w*|spawn\w*|system|popen\w*|Command|ProcessBuilder|Runtime|Process|startProcess"
)
_NONE = regex(r"(?!)")
_SHELL = regex(r"(/\S*/)?(ba|z|da|k)?sh")
_ENDS = frozenset((")", "]", "}", ";", "."))


def _is_foreign(text: str) -> bool:
    return "://" in text and not is_known_registry(text)


_LOADS = regex(
    r"\b(URLClassLoader|Assembly\.Load\w*|defineClass|GroovyShell|GroovyScriptEngine|dlopen|System\.load)\b"
)


def _near(tokens: list[Token], at: int) -> str:
    """The strings of a statement just behind a name."""
    near = itertools.takewhile(lambda one: one.text != ";", tokens[at : at + 20])
    return next((one.text for one in near if one.kind != "name" and "://" in one.text), "")


def _judge_received(call: Call, bare: str, strings: list[str]) -> None:
    """Report a script that has an address, and runs something that its text does not show."""
    if _LOOPS.search(bare) and _LAUNCHES.search(bare) and not _PAUSES.search(bare):
        call.report("fork-bomb", "starts processes without end")
    if _ENDS_ALL.search(bare):
        call.report("kill-many", "ends every process")
    away = [text for text in strings if "://" in text and not is_local(text)]
    is_away = bool(away)
    if is_away and _LOADS.search(bare):
        call.report("run-download", "loads code that another machine sends")
    if is_away and _RUNS_TEXT.search(bare):
        call.report("run-download", "runs what another machine sends")
    has_shell = any(re.fullmatch(r"(/\S*/)?(ba|z|da|k)?sh", text) for text in strings)
    if _CONNECTS.search(bare) and (has_shell or re.search(r"\bshell\s*\(\s*[a-z]", bare)):
        call.report("reverse-shell", "connects a shell to another machine")


# Methods that destroy what a database or a cloud keeps, and names before a statement that is run.
_DESTROYS = regex(
    r"(?i)(drop_?(table|database|schema|collection|all_?tables|namespace)\w*|(delete|destroy)_?all!?|flush_?(all|db)|truncate_?tables?)"
    r"|([Dd]elete|[Tt]erminate|[Dd]estroy)_?(?i:bucket|instances?|cluster|table|db\w*|stack|function|namespace|database|volume|hosted_?zone|project"
    r"|repo(sitory)?|queue|topic|objects|secret|service|deployment|resource_?group|user|role|key_?pair|snapshot|image)\w*"
)
_DESTROYS_ONE = regex(
    r"(?i)\b(servers?|instances?|droplets?|clusters?|buckets?|volumes?|databases?|stacks?|namespaces?|projects?|zones?|apps?|machines?|deployments?"
    r"|resource_?groups?|vms?|virtual_?machines?|networks?|disks?|snapshots?|images?|repos?(itories)?)\s*(\(\s*\))?\s*\.\s*(begin_?)?"
    r"(delete|destroy|terminate|purge|shutdown)\w*"
)
_EMPTIES = regex(r"\bRepo \. delete_all (\( )?[A-Z][\w.: ]*( \)|$)")
_QUERIES = regex(r"(?i).*(query|exec(ute)?|sql|statement|raw|unsafe|do|run|prepare)\w*!?")
_CLOUDS = regex(
    r"(?i)aws|amazon|google.?cloud|gcp|azure|k8s|kubernetes|digitalocean|mongo|redis|firestore|stripe|github|gitlab|hcloud|hetzner|linode|vultr|scaleway|openstack|heroku|cloudflare|vercel|netlify|nomad|consul|docker"
)


def _judge_data(call: Call, tokens: list[Token], language: str) -> None:
    """Report methods and statements that destroy what a database or a cloud keeps."""
    texts = [one.text for one in tokens]
    whole = " ".join(texts)
    if "sqlite" in whole.lower() or ":memory:" in whole:
        return
    if _CLOUDS.search(whole) and _DESTROYS_ONE.search(whole):
        call.report("cloud-destroys", "destroys shared resources")
    if language == "elixir" and _EMPTIES.search(whole):
        call.report("sql-destroys", "deletes every record")
    for at, token in enumerate(tokens):
        called = texts[at + 1 : at + 2] == ["("] or language not in LANGUAGES
        if (
            token.kind == "name"
            and called
            and at
            and _DESTROYS.fullmatch(token.text.rpartition("::")[2])
        ):
            if token.text[:4].lower() in ("drop", "flus", "trun") or _CLOUDS.search(whole):
                call.report("cloud-destroys", f"destroys shared data: {token.text}")
        elif token.kind in ("string", "template"):
            is_run = any(map(_QUERIES.fullmatch, texts[max(at - 8, 0) : at]))
            if is_run and (reason := destruction(token.text)):
                call.report("sql-destroys", reason)


_HOME_NAME = regex(r"(?i)home[-_]?(dir|path)")


def _named_before(tokens: list[Token]) -> str:
    """The last path among some tokens of a statement, a person's home included."""
    for token in reversed(tokens):
        if token.text == ";":
            break
        if token.kind in ("string", "template"):
            return "~" if token.text in ("user.home", "HOME") else token.text
        if token.kind == "name" and _HOME_NAME.search(token.text):
            return "~"
    return ""


def judge_strings(call: Call, tokens: list[Token], language: str) -> None:
    """Report strings that are commands in a script that starts programs, and paths given to what
    deletes.
    """
    words = [one.text for one in tokens if one.kind == "name"]
    strings = [one.text for one in tokens if one.kind in ("string", "template")]
    if any(map(_EVALS.fullmatch, words)) and any(map(_DECODES.fullmatch, words)):
        call.report("run-decoded", f"runs {language} code that only a decoder shows")
    if any(map(_SPEAKS.search, words)) and names_secret(call, tokens):
        call.report("send-secret", "sends credentials to another machine")
    _judge_data(call, tokens, language)
    installs = _INSTALLS if language not in LANGUAGES else _INLINE.get(language, _NONE)
    fetched = [one for one in strings if one[:1] in ("/", ".") and strings.count(one) > 1]
    if fetched and any(map(_is_foreign, strings)) and any(map(_LAUNCHED.fullmatch, words)):
        call.report("run-download", f"runs a file that it fetches: {fetched[0]}")
    begun = [
        at for at, one in enumerate(tokens) if installs.fullmatch(one.text.rpartition("::")[2])
    ]
    if any(_is_foreign(_near(tokens, at)) for at in begun):
        call.report("run-download", "runs a package from an address")
    pairs = itertools.pairwise(tokens)
    if language not in LANGUAGES and any(map(_is_foreign, strings)):
        feeds = any(_SHELL.fullmatch(one.text) and after.text in _ENDS for one, after in pairs)
        if feeds:
            call.report("run-download", "feeds a shell what another machine sends")
    if language not in LANGUAGES:
        bare = " ".join('""' if one.kind in ("string", "template") else one.text for one in tokens)
        _judge_received(call, re.sub(r" ([-.:]) ", r"\1", bare), strings)
    if (
        language not in LANGUAGES
        and any(map(_READS.fullmatch, words))
        and names_secret(call, tokens)
    ):
        call.report("read-secret", "reads credentials")
    shape = " ".join(one.text if one.kind == "symbol" else '""' for one in tokens)
    if re.search(r"[)\]]\s*\(\s*\"\"", shape) or any(map(_STARTS.search, [*words, *strings])):
        for at, text in enumerate(strings):
            if not _HARMFUL.match(text):
                continue
            argv = [text.strip(), *strings[at + 1 :]]
            if " " in argv[0]:
                call.machine.probe_text(text, call.shell) and call.shell_text(text)
            elif len(argv) > 1 and call.machine.probe_argv(argv, call.shell):
                call.run(argv)
    for at, token in enumerate(tokens):
        writes = language not in LANGUAGES and _WRITES.fullmatch(token.text)
        if token.kind == "name" and (writes or _DELETES.search(token.text)):
            near = tokens[at + 1 : at + (3 if writes else 9)]
            given = next((one.text for one in near if one.kind in ("string", "template")), "")
            is_method = tokens[at - 1].text in (".", ":") or not writes
            if not given and any(_HOME_NAME.search(one.text) for one in near):
                given = "~"
            if language not in LANGUAGES and not given and is_method:
                given = _named_before(tokens[max(at - 30, 0) : at])
            if given.startswith(("/", "~")):
                path = re.sub("^~", call.shell.home, given)
                write(call, path) if writes else delete(call, path, recursive=True)
