"""Secrets are hidden, ordinary data is not, and what was hidden cannot be written back unseen."""

import itertools
import json
import os
import re
import subprocess
import time
from pathlib import Path
from re import _parser as sre_parse  # type: ignore[attr-defined]

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hermetic
from hermetic.redaction import tokens
from hermetic.redaction.blocks import find_blocks
from hermetic.redaction.known_secrets import KnownSecret, secrets_of
from hermetic.redaction.patterns import PATTERNS, Content
from hermetic.redaction.redactor import MARK, Redactor, hidden_in
from hermetic.registry.records import runtime_root
from hermetic.tools.base.show import content_of_command
from tests.docs.pages import read
from tests.programs import need
from tests.sizes import scale
from tests.tools.terminal.secret_corpus import (
    KNOWN,
    VENDORS,
    as_table,
    bait,
    figures,
    fill,
    secrets,
)

CONTENTS: tuple[Content, ...] = ("output", "code", "environment")


def test_the_figures_of_the_documentation_are_true() -> None:
    page = read("docs/redaction.md")
    shown = page.partition("<!-- figures:begin -->\n")[2].partition("\n<!-- figures:end -->")[0]
    assert shown == as_table(), "python -m tests.tools.terminal.secret_corpus --write"


def test_no_form_of_token_is_shorter_than_the_words_that_are_looked_at() -> None:
    for token in tokens.TOKENS:
        parts = token.before, token.after
        least = sum(sre_parse.parse(part).getwidth()[0] for part in parts) + min(
            map(len, token.keywords)
        )
        assert least >= tokens.SHORTEST, token
        assert not any(blank in part for part in parts for blank in (" ", "\\s", "\\W", "[^")), (
            token
        )


def test_what_has_a_form_or_a_place_is_seldom_missed_and_ordinary_data_stays() -> None:
    missed, changed = figures()
    told = {figure.kind: figure.wrong / figure.total for figure in missed}
    # the figure is of honest interest only while these are in it
    assert told.pop("no sign at all") == 1
    assert max(told.values()) <= 0.02
    assert [figure for figure in changed if figure.wrong] == []


def test_a_text_without_a_patterns_sign_holds_nothing_that_it_finds() -> None:
    found = 0
    for case, pattern in itertools.product((*secrets(), *bait()), PATTERNS):
        lowered = case.text.lower()
        if pattern.sign not in lowered:
            assert list(pattern.find(case.text, lowered, True)) == [], (pattern.sign, case.text)
        elif list(pattern.find(case.text, lowered, True)):
            found += 1
    assert found > 100  # the patterns do find


def test_every_form_of_token_is_in_the_corpus() -> None:
    unseen = [
        token.keywords
        for token in tokens.TOKENS
        if not any(keyword in vendor for keyword in token.keywords for vendor in VENDORS.split())
    ]
    assert unseen == []
    assert len({token.vendor for token in tokens.TOKENS}) >= 60


@pytest.mark.parametrize("template", KNOWN)
def test_a_known_value_gives_way_to_its_name(template: str) -> None:
    redactor = Redactor([KnownSecret("APP_TOKEN", "pa+ss/wörd1")])
    spellings = {
        "secret": "pa+ss/wörd1",
        "url": "pa%2Bss%2Fw%C3%B6rd1",
        "json": "pa+ss/w\\u00f6rd1",
    }
    text = template.format(
        **spellings, basic="YXBwOnBhK3NzL3fDtnJkMQ==", hex="70612b73732f77c3b6726431"
    )
    assert f"{MARK}value of APP_TOKEN]" in redactor.redact(text, "code")


def test_known_values_are_hidden_in_every_kind_of_content() -> None:
    redactor = Redactor([KnownSecret("sudo password", "hunter22")], patterns=False)
    for content in CONTENTS:
        assert redactor.redact("echo hunter22", content) == f"echo {MARK}value of sudo_password]"


def test_the_longest_known_value_names_what_is_hidden_whole() -> None:
    redactor = Redactor([KnownSecret("A", "abcd1234"), KnownSecret("B", "xabcd1234y")])
    assert redactor.redact("<xabcd1234y>") == f"<{MARK}value of B]>"


def test_only_telling_values_of_credentials_are_taken_from_the_environment() -> None:
    variables = {
        "GITHUB_TOKEN": "f00bar-b4z-1",
        "DB_PASSWORD": "postgres",
        "API_KEY": "short1",
        "HOME": "/home/somebody1",
        "SSH_KEY": "/home/me/.ssh/id_1",
        "TOKEN_URL": "https://login.example/1",
        "TOKEN_LIMIT": "100000000",
        "DB_URL_SECRET": "https://u:p4ss@h",
    }
    assert [secret.name for secret in secrets_of(variables)] == ["GITHUB_TOKEN", "DB_URL_SECRET"]


@pytest.mark.parametrize(
    ("text", "content", "shown"),
    [
        ("PASSWORD=Tr0ub4dor", "output", f"PASSWORD={MARK}***]"),
        ("PASSWORD=Tr0ub4dor", "code", "PASSWORD=Tr0ub4dor"),
        ("PASSWORD=trouble", "output", "PASSWORD=trouble"),
        ("PASSWORD=trouble", "environment", f"PASSWORD={MARK}***]"),
        ('{"token": "a1b2c3d4e5"}', "output", f'{{"token": "{MARK}***]"}}'),
        ('{"token": "a1b2c3d4e5"}', "code", '{"token": "a1b2c3d4e5"}'),
        ("PATH=/usr/bin\nEDITOR=vi", "environment", "PATH=/usr/bin\nEDITOR=vi"),
        ("password: |\n  a1b2c3d4", "output", f"password: |\n  {MARK}***]"),
        ("password: |\n  a1b2c3d4", "code", "password: |\n  a1b2c3d4"),
        ("password: >-\n  trouble", "output", "password: >-\n  trouble"),
        ("password: >-\n  trouble", "environment", f"password: >-\n  {MARK}***]"),
        ("user: me\npass: a1b2c3d4", "output", f"user: me\npass: {MARK}***]"),
        ("user: me\npass: a1b2c3d4", "code", "user: me\npass: a1b2c3d4"),
        ("pass: a1b2c3d4", "output", "pass: a1b2c3d4"),
    ],
)
def test_names_hide_values_only_where_the_text_is_no_code(
    text: str, content: Content, shown: str
) -> None:
    assert Redactor().redact(text, content) == shown


def test_a_long_token_shows_its_ends_and_a_short_one_nothing() -> None:
    token = fill("ghp_{A36}", 1)
    assert Redactor().redact(token) == f"{MARK}{token[:6]}...{token[-4:]}]"
    assert Redactor().redact("password=abc123x") == f"password={MARK}***]"


def test_a_hidden_value_cannot_be_written_back_unseen() -> None:
    text = Redactor().redact(f"a = '{fill('ghp_{A36}', 2)}'\nb = 1\n", "code")
    [mark] = hidden_in(text)
    assert mark.startswith(MARK)
    assert hidden_in("a = 'ghp_abc...wxyz'") == []
    for case in [*secrets(1)]:
        shown = Redactor(case.known).redact(case.text, case.content)
        assert (shown == case.text) == (hidden_in(shown) == [])


@pytest.mark.parametrize("content", CONTENTS)
def test_what_is_hidden_stays_as_it_is_the_second_time(content: Content) -> None:
    for case in [*secrets(1), *bait(1)]:
        redactor = Redactor(case.known)
        once = redactor.redact(case.text, content)
        assert redactor.redact(once, content) == once


CASES = [case.text for case in [*secrets(1), *bait(1)]]
SIGNS = [
    "PASSWORD=",
    '"token": "',
    "://u:",
    "@h",
    "-----BEGIN RSA PRIVATE KEY-----",
    "Bearer ",
    "eyJ",
    "=",
    "\\n",
    "İ",
    MARK,
]


@settings(max_examples=scale(3000), deadline=None)
@given(
    st.lists(
        st.one_of(st.sampled_from(CASES), st.sampled_from(SIGNS), st.text(max_size=8)), max_size=6
    ),
    st.sampled_from(CONTENTS),
)
def test_lines_stay_countable_whatever_stands_beside_what(
    pieces: list[str], content: Content
) -> None:
    text = "".join(pieces)
    shown = Redactor([KnownSecret("K", "a\nb\nc-d-e-f")]).redact(text, content)
    assert shown.count("\n") == text.count("\n")


def test_the_standard_library_is_read_unchanged() -> None:
    files = sorted(Path(os.__file__).parent.glob("*.py"))[: max(200, scale(2000))]
    redactor = Redactor([KnownSecret("K", "no-such-value-anywhere")])
    changed = [
        path.name
        for path in files
        if redactor.redact(text := path.read_text("utf-8", "replace"), "code") != text
    ]
    assert len(files) >= 150
    assert changed == []


LONG = 300_000
HARD = {
    "one letter": "a" * LONG,
    "quotes": '"' * LONG,
    "names": "password" * (LONG // 8),
    "names and signs": "password=" * (LONG // 9),
    "names and blanks": "password" + " " * LONG,
    "open values": "secret='" * (LONG // 8),
    "long values": ("token=" + "a1" * 300 + "(") * (LONG // 607),
    "urls": "://a:" * (LONG // 5),
    "at signs": "://" + "a" * LONG + ":@" * 10,
    "tokens": "ghp_" * (LONG // 4),
    "web tokens": "eyJ" * (LONG // 3),
    "web tokens with points": "eyJaaaaaaaa.eyJaaaaaaaa." * (LONG // 24),
    "begins": "-----BEGIN RSA PRIVATE KEY-----" * (LONG // 31),
    "ends": "A\n" * (LONG // 4) + "-----END RSA PRIVATE KEY-----" * 1000,
    "bearer": "bearer " * (LONG // 7),
    "headers": "authorization: " * (LONG // 15),
    "telegram": "1234567890:AA" * (LONG // 13),
    "mailchimp": "0123456789abcdef0123456789abcdef-us" * (LONG // 35),
    "variables": "A_TOKEN=" * (LONG // 8),
    "variables in lines": "A_TOKEN: \n" * (LONG // 10),
    "marks": MARK * (LONG // 21),
    "hidden": f"{MARK}***] password=abc123x " * (LONG // 60),
    "blocks": "token: |\n" * (LONG // 9),
    "blocks in blocks": "".join(f"{' ' * at}token: |\n" for at in range(600)),
    "long blocks": ("token: |\n" + "  a b\n" * 500) * (LONG // 3009),
    "comments": ":#" * (LONG // 2),
    "blanks before a sign": "token" + " \t" * LONG + ":\n",
    "three quotes": 'token: """' * (LONG // 10),
    "three quotes that stay open": "token='''a" * (LONG // 10),
    "fields": "{pass: a1b2c3d4," * (LONG // 16),
    "pairs": "name: token\nvalue: " * (LONG // 19),
    "names without a value": "name: " + "token" * (LONG // 5),
    "query": "?token=" * (LONG // 7),
    "base64": "QUJD" * (LONG // 4),
    "lines of base64": "-----BEGIN CERTIFICATE-----\n"
    + f"{'QUJDabcdefghi123' * 4}\n\n" * 2000
    + f"{'QUJDabZdYfghi123' * 4}\n" * 2000,
    "lines of one character": "a\n" * (LONG // 2),
    "pipes": "echo a1b2c3 | sudo -" * (LONG // 20),
    "statements": "identified by " * (LONG // 14),
    "attributes": " name='password' value='" * (LONG // 24),
}


@pytest.mark.parametrize("text", HARD.values(), ids=HARD)
def test_no_text_takes_more_than_linear_time(text: str) -> None:
    redactor = Redactor([KnownSecret("K", "aaaaaaab")])
    begun = time.thread_time()
    redactor.redact(text, "environment")
    assert time.thread_time() - begun < 10  # below 1 s on an idle core


@settings(max_examples=scale(300), deadline=None)
@given(
    st.text(st.sampled_from("ab1= :\"'{}[]()/@.-_\n\\$<>&;"), max_size=60), st.integers(200, 800)
)
def test_no_repeated_piece_takes_more_than_linear_time(piece: str, times: int) -> None:
    begun = time.thread_time()
    Redactor().redact(f"token={piece}" * times, "environment")
    assert time.thread_time() - begun < 10


@pytest.mark.parametrize("style", ["|", ""])
def test_a_line_in_blocks_of_blocks_is_looked_at_once(style: str) -> None:
    heads = "".join(f"{' ' * at}token: {style}\n" for at in range(100))
    text = f"{heads}{' ' * 100}{'a1b2c3D' * 20}\n"
    assert len(list(find_blocks(text, weak=True))) <= text.count("\n")
    begun = time.thread_time()
    Redactor().redact(heads + f"{' ' * 100}{'a1b2c3D' * 60_000}\n", "output")
    assert time.thread_time() - begun < 2  # a tenth of it on an idle core


def test_a_mark_has_no_sign_that_would_break_what_is_around_it() -> None:
    assert not re.search(r"[\"'\\\n<>]", MARK)


SECRET = "s3cr3t-v4lue-0f-m1ne"
DUMPS = {
    "xxd": "xxd",
    "xxd -p": "xxd -p",
    "xxd -u -p": "xxd -u -p",
    "hexdump -C": "hexdump -C",
    "od": "od -An -tx1",
    "od with addresses": "od -Ax -tx1",
}


@pytest.mark.parametrize("before", ["", "x", "token: "])
@pytest.mark.parametrize("program", DUMPS.values(), ids=list(DUMPS))
def test_a_known_value_is_hidden_in_hexadecimal_dumps(program: str, before: str) -> None:
    need(program.split()[0])
    dump = subprocess.run(
        program.split(), input=f"{before}{SECRET}\n".encode(), capture_output=True, check=True
    )
    shown = Redactor([KnownSecret("A", SECRET)]).redact(dump.stdout.decode())
    digits = re.sub(r"[^0-9a-f]", "", shown.lower().replace(MARK, ""))
    assert MARK in shown
    assert SECRET[6:].encode().hex()[:12] not in digits
    assert SECRET[:6] not in shown


@pytest.mark.parametrize("separator", [":", " ", "\\x", ", 0x"])
def test_separated_digits_of_a_known_value_are_hidden(separator: str) -> None:
    text = separator.join(f"{byte:02x}" for byte in SECRET.encode())
    assert Redactor([KnownSecret("A", SECRET)]).redact(text.removeprefix("\\x")).startswith(MARK)


@pytest.mark.parametrize(
    "command",
    ["sed -n 3,6p ~/.ssh/id_rsa", "head -c 900 server.key | tail -c 500", "cat deploy.p8"],
)
def test_lines_of_a_key_file_are_hidden_without_its_borders(command: str) -> None:
    body = fill("{b64}\n{b64}\n{b64}", 7)
    assert content_of_command(command) == "environment"
    shown = Redactor().redact(body, content_of_command(command))
    assert not any(line[:12] in shown for line in body.split("\n"))


def test_the_token_of_a_record_is_hidden_wherever_it_is_printed() -> None:
    with hermetic.blocking.open("local", login=False) as env:
        path = Path(runtime_root()) / env.id / "env.json"
        record = path.read_text()
        token = json.loads(record)["token"]
        found = env.run(f"grep -r token {path.parents[1]} --include=env.json").output
    assert token in found
    for text in (record, found, json.dumps(json.loads(record)), json.dumps({"output": record})):
        for content in CONTENTS:
            assert token not in Redactor().redact(text, content)
            assert '"pid' in Redactor().redact(text, content).replace("\\", "")


def test_a_certificate_beside_a_key_stays() -> None:
    text = fill("-----BEGIN CERTIFICATE-----\n{b64}\n{b64}\n-----END CERTIFICATE-----\n", 3)
    assert Redactor().redact(text, "environment") == text


def test_a_part_of_a_key_is_hidden_that_begins_within_it() -> None:
    before, text = fill("{b64}\n{b64}\n{b30}", 1), fill("{b34}\n{b64}\n{b20}==\nbob$ ", 2)
    shown = Redactor().join(before, text)
    assert shown.startswith(MARK)
    assert shown.endswith("]\nbob$ ")


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_known_value_is_hidden_that_stands_one_character_to_a_line(end: str) -> None:
    redactor = Redactor([KnownSecret("A", SECRET)])
    column = end.join(f"begin{SECRET}")
    assert redactor.redact(f"x{end}{end.join(SECRET)}{end}y").startswith(f"x{end}{MARK}value of A]")
    for size in range(4, len(SECRET)):
        arrived = "some words" + end + end.join(SECRET[:size]) + end
        held = redactor.unfinished(arrived)
        assert arrived[: len(arrived) - held] == "some words" + end, size
    assert redactor.unfinished(column + end) == 0
    assert redactor.unfinished(end.join("abcdefgh")) == 0
