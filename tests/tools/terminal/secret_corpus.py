"""Secrets in many forms and data that only looks like them, made anew from templates, and how
redaction does on both.

`python -m tests.tools.terminal.secret_corpus` prints the figures. No value here is anybody's
secret: all are random, from fixed seeds.
"""

import base64
import itertools
import json
import random
import re
import string
import sys
import urllib.parse
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from hermetic.redaction.known_secrets import KnownSecret
from hermetic.redaction.patterns import Content
from hermetic.redaction.redactor import Redactor
from tests.tools.terminal.secret_bait import BAIT, CODE_BAIT

_LETTERS = {
    "A": string.ascii_letters + string.digits,
    "L": string.ascii_lowercase + string.digits,
    "U": string.ascii_uppercase + "234567",
    "N": string.ascii_uppercase + string.digits,
    "h": "0123456789abcdef",
    "d": string.digits,
    "u": string.ascii_letters + string.digits + "-_",
    "b": string.ascii_letters + string.digits + "+/",
    "p": string.ascii_letters + string.digits + "!#*+=?~",
}
_HOLE = re.compile(r"\{([ALUNhdubp])(\d+)\}")

VENDORS = """
ghp_{A36} gho_{A36} ghs_{A36} github_pat_{A22}_{A59} glpat-{u20} sk-ant-api03-{u80} sk-proj-{u64} sk-svcacct-{u50}
sk-or-v1-{h64} sk-{A48} sk-{h32} AKIA{U16} ASIA{U16} AIza{u35} ya29.{u60} GOCSPX-{u28} 1//0{u60} {A3}8Q~{A34}
xoxb-{d12}-{d12}-{A24} xoxp-{d11}-{d11}-{d12}-{h32} xapp-1-{N11}-{d13}-{h64} https://hooks.slack.com/services/T{N8}/B{N8}/{A24}
M{A23}.{A6}.{u27} {d10}:AA{u33} sk_live_{A24} rk_live_{A24} sk_test_{A40} whsec_{A32} sq0atp-{u22} shpat_{h32} SK{h32}
SG.{u22}.{u43} key-{h32} {h32}-us12 re_{A8}_{A24} npm_{A36} pypi-AgEIcHlwaS5vcmc{u80} rubygems_{h48} dckr_pat_{u27}
hf_{A34} r8_{A37} gsk_{A52} xai-{A80} pplx-{A48} nvapi-{u64} pcsk_{A50} sk_{h48} tvly-{A32} fc-{h32} e2b_{h40} dtn_{h64}
lsv2_pt_{h32}_{h10} dop_v1_{h64} HRKU-{h8}-{h4}-{h4}-{h4}-{h12} nfp_{A36} sbp_{h40} sb_secret_{u31} pscale_tkn_{u43}
napi_{L60} dp.pt.{A43} hvs.{u90} {A14}.atlasv1.{u67} pul-{h40} dapi{h32} lin_api_{A40} ntn_{A46} secret_{A43}
pat{A14}.{h64} ATATT3{u180} figd_{u40} PMAK-{h24}-{h34} glsa_{A32}_{h8} NRAK-{N27} sntrys_{A120} sntryu_{h64}
dt0c01.{N24}.{N64} LTAI{A20} AKID{A32} tskey-auth-{A12}-{A32} bkua_{h40} AGE-SECRET-KEY-1{N58}
sk-lf-{h8}-{h4}-{h4}-{h4}-{h12} cio{A32} oy2{L43} csk-{L48} fw_{A24} as-{A22} fm2_{A400} CCIPAT_{A22}_{h40}
ops_eyJ{A300}
https://discord.com/api/webhooks/{d18}/{u68} eyJhbGciOiJIUzI1NiJ9.eyJ{u60}.{u43}
"""

PLACES: tuple[tuple[str, Content], ...] = (
    ("{secret}", "output"),
    ("export SERVICE={secret}", "output"),
    ("got {secret}, using it", "output"),
    ('{{"value": "{secret}", "n": 1}}', "output"),
    ("GET /x?q={secret}&n=1 200", "output"),
    ("client = Client('{secret}')", "code"),
    ("+  value: {secret}", "code"),
)

_RSA = "-----BEGIN RSA PRIVATE KEY-----\n{secret}\n-----END RSA PRIVATE KEY-----"
_OPENSSH = "-----BEGIN OPENSSH PRIVATE KEY-----\n{secret}\n-----END OPENSSH PRIVATE KEY-----"
_PGP = "-----BEGIN PGP PRIVATE KEY BLOCK-----\n\n{secret}\n-----END PGP PRIVATE KEY BLOCK-----"
_SERVICE_ACCOUNT = (
    '"private_key": "-----BEGIN PRIVATE KEY-----\\n{secret}\\n-----END PRIVATE KEY-----\\n"'
)

# A name before it, a header, a URL around it: the value itself has no form.
CONTEXTS: tuple[tuple[str, str, str, Content], ...] = (
    ("name=value", "DB_PASSWORD={secret}", "{p14}", "output"),
    ("name=value", "export AWS_SECRET_ACCESS_KEY={secret}", "{b40}", "output"),
    ("name=value", "aws_secret_access_key = {secret}", "{b40}", "output"),
    ("name=value", "password: {secret}", "{A10}9", "output"),
    ("name=value", "  api_key: '{secret}'", "{A24}7", "output"),
    ("name=value", "client_secret={secret}&grant=x", "{A32}5", "output"),
    ("name=value", "dsn host=db user=app password={secret} dbname=x", "{A12}3", "output"),
    ("name=value", "mysql --password={secret} -h db", "{A9}4", "output"),
    ("name=value", "deploy --token {secret} --all", "{A30}1", "output"),
    ("name=value", "[debug] auth_token={secret} accepted", "{h32}", "output"),
    ("name=value", "password='{secret}'", "MyPassword{d3}!", "output"),
    ("name=value", 'PASSPHRASE = "{secret}"', "{p20}7a", "output"),
    ("JSON", '{{"password": "{secret}"}}', "{p12}4x", "output"),
    ("JSON", '{{"accessToken":"{secret}","x":1}}', "{A40}0", "output"),
    ("JSON", '"client_secret" : "{secret}",', "{u30}1a", "output"),
    ("JSON", '"{{\\"apiKey\\": \\"{secret}\\"}}"', "{A28}2", "output"),
    ("JSON", '"SecretAccessKey": "{secret}"', "{b40}", "output"),
    ("JSON", '"refresh_token": "{secret}"', "{u50}1", "output"),
    ("header", "Authorization: Bearer {secret}", "{u40}3", "output"),
    ("header", "> authorization: Basic {secret}", "{A26}==", "output"),
    ("header", "-H 'Authorization: token {secret}'", "{h40}", "output"),
    ("header", 'curl -H "X-Api-Key: {secret}" https://x', "{A32}", "code"),
    ("header", "PRIVATE-TOKEN: {secret}", "{u20}8", "output"),
    ("header", 'headers={{"Authorization": "Bearer {secret}"}}', "{A44}", "code"),
    ("header", "X-Vault-Token: {secret}", "{A26}6", "output"),
    ("URL", "postgres://app:{secret}@db.internal:5432/x", "{A14}8", "output"),
    ("URL", "redis://:{secret}@cache:6379/0", "{A20}1", "code"),
    ("URL", "mongodb+srv://root:{secret}@c.mongodb.net", "{A16}2", "code"),
    ("URL", "https://user:{secret}@git.internal/x.git", "{h40}", "output"),
    ("URL", "https://x/y?access_token={secret}", "{A40}4", "output"),
    ("URL", "https://x.blob/y?sv=1&sig={secret}&se=2", "{A40}4", "output"),
    ("URL", "curl -u admin:{secret} https://x", "{A12}4", "output"),
    ("URL", "AccountName=x;AccountKey={secret};Endpoint=y", "{b86}==", "code"),
    ("variables", "GITHUB_PAT_TOKEN={secret}", "{L10}", "environment"),
    ("variables", "DB_PASSWORD={secret}", "correcthorsebattery", "environment"),
    ("variables", 'declare -x OPENAI_API_KEY="{secret}"', "{A20} {A8}", "environment"),
    ("variables", "export SMTP_PASS='{secret}'", "a & b; {A6}", "environment"),
    ("variables", "SESSION_KEY={secret}", "{A64}", "environment"),
    ("variables", "    DATABASE_URL: postgres://u:{secret}@h/x", "postgres-{L4}", "environment"),
    ("private key", _RSA, "{b64}\n{b64}\n{b30}=", "output"),
    ("private key", _OPENSSH, "{b70}\n{b70}\n{b70}", "code"),
    ("private key", _SERVICE_ACCOUNT, "{b64}\\n{b64}", "output"),
    ("private key", "-----BEGIN EC PRIVATE KEY-----\n{secret}", "{b64}\n{b64}\n{b64}", "output"),
    ("private key", "{secret}\n-----END PRIVATE KEY-----", "{b64}\n{b64}\n{b20}==", "output"),
    ("private key", _PGP, "{b64}\n{b64}", "output"),
    ("private key", "{secret}", "{b70}\n{b70}\n{b70}\n", "output"),
    ("private key", "{secret}", "{b64}\n{b64}\n{b64}", "environment"),
    ("private key", "{secret}\n", "{b64}\n{b64}\n{b64}\n{b64}", "output"),
    ("private key", "{secret}", "{b30}\n{b64}\r\n{b64}\r\n{b64}\n{b20}==", "code"),
    (
        "files of passwords",
        "machine api.internal login bob password {secret}",
        "correcthorse{d2}",
        "output",
    ),
    (
        "files of passwords",
        "machine api.internal\n  login bob\n  password {secret}",
        "{L12}",
        "code",
    ),
    ("files of passwords", "db.internal:5432:app:bob:{secret}", "{A14}1", "output"),
    ("files of passwords", "db:*:*:bob:{secret}", "correcthorse", "environment"),
    (
        "files of passwords",
        '"auths": {{"r.internal": {{"auth": "{secret}"}}}}',
        "Ym9iOn{A20}",
        "code",
    ),
    ("files of passwords", "//r.internal/:_auth={secret}", "Ym9iOn{A20}", "output"),
    ("files of passwords", ".dockerconfigjson: {secret}", "eyJhdXRocyI6{A80}", "output"),
    ("options", "sshpass -p {secret} ssh bob@db", "{A11}4", "output"),
    ("options", "+ sshpass -p '{secret}' scp a b", "{p14}4a", "output"),
    ("options", "mysql -u root -p{secret} app", "{A11}4", "output"),
    ("options", "bob 1 0.0 mysqldump -h db -p'{secret}' app", "{A11}4", "output"),
    ("options", "redis-cli -h cache -a {secret} ping", "{A20}1", "output"),
    ("options", "docker login -u bob -p {secret} r.internal", "{A16}7", "output"),
    ("options", "az login -u bob -p {secret}", "{A16}7", "output"),
    ("options", "oc login https://r.internal -u bob -p {secret}", "{A16}7", "output"),
    ("options", "twine upload -u bob -p {secret} dist/x", "{A16}7", "output"),
    ("options", "ipmitool -H h -U bob -P {secret} power status", "{A12}7", "output"),
    ("options", "xfreerdp /u:bob /p:{secret} /v:h", "{A12}7", "output"),
    ("options", "+ useradd -m -p '{secret}' bob", "{A12}7", "output"),
    ("options", "ldapsearch -D cn=x -w{secret} -b o=x", "{A12}7", "output"),
    ("options", "curl --proxy-user bob:{secret} https://x.internal", "{A12}7", "output"),
    ("options", "psql 'host=db user=bob password={secret}'", "{A12}7", "output"),
    ("options", "echo {secret} | docker login -u bob --password-stdin", "{A12}7", "output"),
    ("options", "echo bob:{secret} | sudo chpasswd", "{A12}7", "output"),
    ("options", "htpasswd -bB users bob {secret}", "{A12}7", "output"),
    ("options", "openssl rsa -in k.pem -passin pass:{secret}", "{A12}4", "output"),
    ("name=value", "DB_PASS='{secret}'", "{p14}a1", "output"),
    ("name=value", "GH_PAT={secret}", "{A20}7", "output"),
    ("name=value", 'export STRIPE_SK="{secret}"', "{A20}7", "output"),
    ("name=value", "BEARER={secret}", "{A30}7", "output"),
    ("name=value", "smtp_pass: {secret}", "{A12}2", "output"),
    ("variables", 'SLACK_WEBHOOK_URL="{secret}"', "{A30}1", "environment"),
    ("XML and PHP", "<password>{secret}</password>", "{A12}9", "output"),
    ("XML and PHP", '<ns:apiKey type="x">{secret}</ns:apiKey>', "{A30}9", "output"),
    ("XML and PHP", "define('DB_PASSWORD', '{secret}');", "{p16}1a", "output"),
    ("XML and PHP", 'define( "AUTH_KEY", "{secret}" );', "{A60}", "environment"),
    ("XML and PHP", "<property name='password' value='{secret}'/>", "{A12}9", "output"),
    ("XML and PHP", '<add key="Db.Password" value="{secret}"/>', "{A12}9", "output"),
    ("XML and PHP", 'define("AUTH_KEY", "{secret}");', "{p20} {p20} {p20}1a", "output"),
    ("files of passwords", "default login bob password {secret}", "correcthorse{d2}", "output"),
    ("files of passwords", "# redis.conf\nrequirepass {secret}", "{A20}1", "output"),
    ("files of passwords", '  ssid="home"\n  psk="{secret}"', "{A12}1", "output"),
    ("SQL", "CREATE USER bob IDENTIFIED BY '{secret}';", "{A12}1", "output"),
    ("SQL", "alter role bob with password '{secret}';", "{p12}1a", "output"),
    ("options", "7z a -p{secret} x.7z dir", "{A12}1", "output"),
    ("options", "zip -r -P {secret} x.zip dir", "{A12}1", "output"),
    ("options", "unzip -P {secret} x.zip", "{A12}1", "output"),
    ("options", "lftp -u bob,{secret} ftp.internal", "{A12}1", "output"),
    ("options", "sqlplus -S bob/{secret}@db", "{A12}1", "output"),
    ("options", "echo {secret} | sudo -S apt update", "correcthorse", "output"),
    ("options", "+ sudo -S -k ls <<< '{secret}'", "correcthorse", "output"),
    ("SQL", "ALTER USER bob PASSWORD '{secret}';", "{A12}1", "output"),
    ("name=value", "os.environ['API_TOKEN'] = '{secret}'", "{A24}7", "output"),
    ("name=value", "secret_key_base: {secret}", "{h64}{h64}", "output"),
    ("name=value", "ENV API_TOKEN {secret}", "{A24}7", "output"),
    ("options", "aws configure set aws_secret_access_key {secret}", "{b40}", "output"),
    ("options", "echo {secret} | sudo passwd --stdin bob", "correcthorse", "output"),
    ("cookies", "Set-Cookie: session={secret}; Path=/; HttpOnly", "{u40}1", "output"),
    ("cookies", "Cookie: theme=dark; sid={secret}; lang=en", "{A32}1", "output"),
    ("cookies", "curl -b 'session={secret}' https://x", "{A32}1", "code"),
    ("cookies", ".x.internal\tTRUE\t/\tTRUE\t0\tsid\t{secret}", "{A24}", "output"),
    ("name=value", "user: bob\npass: {secret}\nport: 22", "{L9}4a", "output"),
    ("name=value", "  pass: '{secret}'", "a{d1}B{A8}1x", "output"),
    ("name=value", "connect host=db, login=bob pass={secret}", "{L9}4a", "output"),
    ("name=value", "ncat --pass={secret} db", "a{d1}B{A8}", "output"),
    ("name=value", "password: !!str {secret}", "{A12}9a", "output"),
    ("name=value", "db_password: &db {secret}", "{A12}9a", "output"),
    ("name=value", "Password:{blanks}{secret}", "{A12}9a", "output"),
    ("name=value", "**Password:** {secret}", "{A12}9a", "output"),
    ("name=value", "passcode: {secret}", "{A12}9a", "output"),
    ("JSON", '{{"user":"bob","pass":"{secret}"}}', "{L9}4a", "output"),
    ("JSON", '{{"user":"bob","pass":"{secret}"}}', "{L9}4a", "environment"),
    ("JSON", '{{"name": "DB_PASSWORD", "value": "{secret}"}}', "{A12}9", "output"),
    ("JSON", '{{\n  "Key": "apiKey",\n  "Value": "{secret}"\n}}', "{A12}9", "output"),
    ("YAML blocks", "password: |\n  {secret}\nport: 1", "{p14}a1", "output"),
    ("YAML blocks", "db:\n  - password: >-\n      {secret}\n    port: 1", "{A12}9a", "output"),
    ("YAML blocks", "'api_key': |2+ # of bob\n\n   {secret}", "{A30}9a", "output"),
    ("YAML blocks", "  TOKEN: !!str |\n\t  {secret}\n\t  second", "{A30}9a", "environment"),
    ("YAML blocks", "password: |-\n  {secret}\nuser: bob", "correct{L4} horse", "environment"),
    ("YAML blocks", "password:\n  {secret}\nuser: bob", "{A12}9a", "output"),
    ("YAML blocks", "Your token:\r\n\r\n    {secret}\r\n\r\n", "{A30}9a", "output"),
    ("YAML blocks", "- name: DB_PASSWORD\n  value: {secret}", "{A12}9a", "output"),
    ("YAML blocks", "env:\n- name: DB_PASS\n  value: {secret}", "correct{L9}", "environment"),
    ("YAML blocks", 'password = """\n{secret}\n"""\nport = 1', "{A12}9a", "output"),
    ("YAML blocks", "secret = '''{secret}'''", "{p14}9a", "output"),
    # Nothing but the value tells these: only known values can be hidden there.
    ("no sign at all", "the password is {secret}", "{L9}", "output"),
    ("no sign at all", "{secret}", "{b40}", "output"),
    ("no sign at all", "login: app / {secret}", "{A12}", "output"),
    ("no sign at all", "password={secret}", "correcthorse", "output"),
    ("no sign at all", "PIN: {secret}", "{d6}", "output"),
    ("no sign at all", 'password = "{secret}"', "{A14}", "code"),
)

KNOWN: tuple[str, ...] = (
    "{secret}",
    "x{secret}y",
    "the password is {secret}",
    "+ curl -d {secret}",
    "if token == '{secret}':",
    "https://x/?t={url}",
    '{{"t": "{json}"}}',
    "Basic {basic}",
    "{hex}",
)


class Case(NamedTuple):
    """A text with a secret in it, or without one."""

    kind: str
    text: str
    secret: str  # empty: bait
    content: Content
    known: tuple[KnownSecret, ...] = ()


class Figure(NamedTuple):
    """How many of a kind's texts came out wrong."""

    kind: str
    wrong: int
    total: int


def fill(template: str, seed: object) -> str:
    """The template with random characters in its holes, always the same for a seed."""
    chosen = random.Random(f"{template}/{seed}")
    return _HOLE.sub(
        lambda hole: "".join(chosen.choices(_LETTERS[hole[1]], k=int(hole[2]))), template
    )


def secrets(repeats: int = 3) -> Iterator[Case]:
    """Texts with a secret."""
    for (vendor, (place, content)), seed in itertools.product(
        itertools.product(VENDORS.split(), PLACES), range(repeats)
    ):
        secret = fill(vendor, seed)
        yield Case("vendor's token", place.format(secret=secret), secret, content)
    for (kind, place, template, content), seed in itertools.product(CONTEXTS, range(repeats * 4)):
        secret = fill(template, seed)
        text = place.format(secret=secret, blanks=" " * 20)
        yield Case(kind, text, secret, content)
    for place, template, seed in itertools.product(
        KNOWN, ("{p12}a1", "{A40}", 'q"{A9}\\{A4}', "{L9}"), range(repeats)
    ):
        yield _known(place, fill(template, seed))


def _known(place: str, secret: str) -> Case:
    spellings = {
        "secret": secret,
        "url": urllib.parse.quote(secret, safe=""),
        "json": json.dumps(secret)[1:-1],
        "basic": base64.b64encode(f"app:{secret}".encode()).decode(),
        "hex": secret.encode().hex(),
    }
    spelled = next(spelling for name, spelling in spellings.items() if f"{{{name}}}" in place)
    return Case(
        "known value",
        place.format(**spellings),
        spelled,
        "code",
        (KnownSecret("APP_TOKEN", secret),),
    )


def bait(repeats: int = 3) -> Iterator[Case]:
    """Texts without any."""
    kinds: tuple[Content, ...] = ("output", "code")
    for (kind, template), seed, content in itertools.product(BAIT, range(repeats), kinds):
        yield Case(kind, fill(template, seed), "", content)
    for (kind, template), seed in itertools.product(CODE_BAIT, range(repeats)):
        yield Case(kind, fill(template, seed), "", "code")


def is_missed(case: Case) -> bool:
    """True when more than a token's start and end can still be read."""
    shown = Redactor(case.known).redact(case.text, case.content)
    return any(case.secret[at : at + 11] in shown for at in range(max(1, len(case.secret) - 10)))


def is_changed(case: Case) -> bool:
    """True when a text without a secret came out changed."""
    return Redactor().redact(case.text, case.content) != case.text


def figures() -> tuple[list[Figure], list[Figure]]:
    """Missed secrets and changed bait, by kind."""
    return _count(secrets(), is_missed), _count(bait(), is_changed)


def _count(cases: Iterable[Case], is_wrong: Callable[[Case], bool]) -> list[Figure]:
    table: dict[str, list[bool]] = {}
    for case in cases:
        table.setdefault(case.kind, []).append(is_wrong(case))
    return [Figure(kind, sum(wrong), len(wrong)) for kind, wrong in table.items()]


def as_table() -> str:
    """Both lists as a table of the documentation."""
    lines = ["| texts with a secret | missed | of |", "|---|---|---|"]
    missed, changed = figures()
    lines += [
        f"| {figure.kind} | {figure.wrong} | {figure.total:,} |"
        for figure in [*missed, _sum(missed)]
    ]
    lines += ["", "| texts without one | changed | of |", "|---|---|---|"]
    lines += [
        f"| {figure.kind} | {figure.wrong} | {figure.total:,} |"
        for figure in [*changed, _sum(changed)]
    ]
    return "\n".join(lines)


def _sum(rows: list[Figure]) -> Figure:
    wrong, total = sum(row.wrong for row in rows), sum(row.total for row in rows)
    return Figure(f"all ({wrong / total:.1%})", wrong, total)


if __name__ == "__main__":
    if "--wrong" in sys.argv:
        for case in [case for case in secrets() if is_missed(case)] + [
            case for case in bait() if is_changed(case)
        ]:
            print(f"{case.kind:16} {case.content:12} {case.text!r}")
            print(f"{'':29} {Redactor(case.known).redact(case.text, case.content)!r}")
    elif "--write" in sys.argv:
        page = Path(__file__).parents[3] / "docs" / "redaction.md"
        head, rest = page.read_text().split("<!-- figures:begin -->\n")
        page.write_text(
            f"{head}<!-- figures:begin -->\n{as_table()}\n{rest[rest.index('<!-- figures:end -->') :]}"
        )
    else:
        print(as_table())
