"""What is typed, put together to what will run: in pieces, over lines, with corrections."""

import time

import pytest

from hermetic.approvals.readers import language_of
from hermetic.approvals.typed_input import MOST_KEYS, MOST_LINES, Language, Transcript
from hermetic.policy.assess import Surroundings

AROUND = Surroundings()
CASES: list[tuple[Language, tuple[str, ...], list[str]]] = [
    ("shell", ("ls\r",), ["safe"]),
    ("shell", ("rm -rf ", "~/d", "\r"), ["dangerous"]),
    ("shell", ("x=rm\r", "$x -rf ~/d\r"), ["safe", "dangerous"]),
    ("shell", ("alias ll='rm -rf'\r", "ll ~/d\r"), ["safe", "dangerous"]),
    ("shell", ("rm \\\r", "-rf ~/d\r"), ["dangerous"]),
    ("shell", ("for i in 1 2\r", "do rm -rf ~/$i\r", "done\r"), ["dangerous"]),
    ("shell", ("if )\r", "rm \\\r", "-rf ~/d\r"), ["dangerous", "dangerous"]),
    ("shell", ("lss\x7f\r", "junk\x15ls\r", "junk\x03ls\r"), ["safe", "safe", "safe"]),
    # a shell that ignores interrupts keeps the line
    ("shell", ("rm -rf ~/d\x03ls\r",), ["dangerous"]),
    ("shell", ("rm -rf ~/d\x01\x15\r",), ["dangerous"]),  # nothing stands before the cursor
    # the interrupt is a letter of the comment
    ("shell", ("rm -rf ~/d#\x16\x03\r",), ["dangerous"]),
    # a letter for a shell without editing
    ("shell", ("rm -rf ~/d;" + "\b" * 12 + "\r",), ["dangerous"]),
    ("shell", ("\x1b[A", "\x15", "ls\r"), ["safe"]),  # an older line, taken back whole
    ("shell", ("\x1b[A\x1b[D\x15ls\r",), ["dangerous"]),
    ("shell", ("rm a\x17-rf ~/d\r",), ["dangerous"]),
    ("shell", ("rm -rf ~/d # \\\r",), ["dangerous"]),  # a comment does not go on
    ("shell", ("bash <<X\r", "rm -rf ~/d\r"), ["safe", "dangerous"]),
    (
        "shell",
        ("echo rm -rf ~/d\r", "^echo ^\r", "!!:s/echo//\r"),
        ["safe", "dangerous", "dangerous"],
    ),
    ("shell", ("echo rm -rf ~/d\r", "fc -s echo=\r"), ["safe", "dangerous"]),
    ("shell", ('bind \'"z": "rm -rf ~/d\\n"\'\r',), ["dangerous"]),
    ("shell", ("test 1 != 2 && ! false\r", "echo 'hi!x'\r"), ["safe", "safe"]),
    ("shell", ("ls\x1b[A\r",), ["dangerous"]),
    ("shell", ("\x12rm\r",), ["dangerous"]),
    ("shell", ("rm -rf ~/d\x0f",), ["dangerous"]),
    ("shell", ("echo 'a\r", "b ; c\r", "'\r", "ls\r"), ["safe", "safe"]),
    # should it be none
    ("shell", ("echo 'a\r", "rm -rf ~/d\r", "'\r", "ls\r"), ["dangerous", "safe", "safe"]),
    ("shell", ("rm -rf ~/d\r", "ls\r"), ["dangerous", "safe"]),
    (
        "python",
        ("import os as o\r", "o.system('rm -rf ~/d')\r", "print(1)\r"),
        ["safe", "dangerous", "safe"],
    ),
    (
        "python",
        (
            "def f():\r",
            "  import shutil\r",
            "  shutil.rmtree('/srv/x')\r",
            "\r",
            "f()\r",
            "f()\r",
            "print(1)\r",
        ),
        ["dangerous", "dangerous", "dangerous", "safe"],
    ),
    (
        "python",
        ("if 1:\r", " import shutil\r", " shutil.rmtree('/srv/x')\r", "\x04"),
        ["dangerous"],
    ),
    ("python", ("1 +\r", "2\r"), ["safe", "safe"]),
    ("python", ("import os\r", "rm -rf ~/d\r", "os.getcwd()\r"), ["safe", "safe", "safe"]),
    ("python", ("!rm -rf ~/d\r", "%sx rm -rf ~/d\r"), ["dangerous", "dangerous"]),
]


@pytest.mark.parametrize(("language", "typed", "labels"), CASES, ids=lambda one: repr(one)[:60])
def test_a_text_is_judged_when_it_is_complete(
    language: Language, typed: tuple[str, ...], labels: list[str]
) -> None:
    transcript = Transcript(language, terminal=True)
    found = [
        text.examined.verdict.label for data in typed for text in transcript.type(data, AROUND)
    ]
    assert found == labels


INPUTS = [
    (
        ["node"],
        ["const cp = require('child_process')", "cp.execSync('rm -rf ~/d')", "1 + 1"],
        [None, "dangerous", None],
    ),
    (["node", "-i"], ["require('fs').rmSync('/srv/x', {recursive: true})"], ["dangerous"]),
    (
        ["sqlite3", "a.db"],
        ["select 1;", ".shell rm -rf ~/d", ".system rm -rf ~/d", ".tables"],
        [None, "dangerous", "dangerous", None],
    ),
    (
        ["sqlite3", "a.db"],
        [
            ".sh rm -rf ~/d",
            ".sy rm -rf ~/d",
            ".once '|rm -rf ~/d'",
            ".import '|rm -rf ~/d' t",
            '.out "|rm -rf ~/d"',
        ],
        ["dangerous"] * 5,
    ),
    (
        ["sqlite3", "a.db"],
        [".schema t", ".import a.csv t", ".once 'a b.txt'", ".open x.db"],
        [None] * 4,
    ),
    (
        ["psql", "app"],
        ["select 1;", "\\! rm -rf ~/d", "DROP TABLE users;"],
        [None, "dangerous", "dangerous"],
    ),
    (
        ["mysql", "-p", "app"],
        ["hunter22", "system rm -rf ~/d", "show tables;"],
        [None, "dangerous", None],
    ),
    (["redis-cli"], ["GET a", "FLUSHALL"], [None, "dangerous"]),
    (["irb"], ["x = 1", "system('rm -rf ~/d')"], [None, "dangerous"]),
    (["lua", "-i"], ["os.execute('rm -rf ~/d')"], ["dangerous"]),
    (["ed"], ["!rm -rf ~/d"], ["dangerous"]),
    (["sftp", "h"], ["ls", "!rm -rf ~/d"], [None, "dangerous"]),
    (["awk", "-f", "-"], ['BEGIN { system("rm -rf ~/d") }'], ["dangerous"]),
    (
        ["gawk", "-f", "/dev/stdin", "a"],
        ["{ print }", '{ system("rm -rf ~/d") }'],
        [None, "dangerous"],
    ),
    (["sed", "-f", "-", "a"], ["s/a/b/", "1e rm -rf ~/d"], [None, "dangerous"]),
    (["parallel"], ["ls", "rm -rf ~/d"], [None, "dangerous"]),
    (["dc"], ["1 2 +", "!rm -rf ~/d"], [None, "dangerous"]),
    (["octave"], ["x = 1", "system('rm -rf ~/d')"], [None, "dangerous"]),
    (["pwsh"], ["Get-ChildItem", "rm -rf ~/d"], [None, "dangerous"]),
    (["guile"], ["(+ 1 2)", '(system "rm -rf ~/d")'], [None, "dangerous"]),
    (["socat", "-", "EXEC:sh"], ["ls", "rm -rf ~/d"], [None, "dangerous"]),
    (["gdb", "./a"], ["bt", "shell rm -rf ~/d", "!rm -rf ~/d"], [None, "dangerous", "dangerous"]),
]


@pytest.mark.parametrize("terminal", [True, False])
@pytest.mark.parametrize(("argv", "lines", "labels"), INPUTS, ids=lambda one: repr(one)[:40])
def test_input_of_a_program_is_judged_as_that_program_s(
    argv: list[str], lines: list[str], labels: list[str | None], terminal: bool
) -> None:
    assert language_of(argv[0], argv) == "input"
    transcript = Transcript("input", terminal=terminal, argv=argv)
    for line, label in zip(lines, labels, strict=True):
        found = [
            one.examined.verdict.label
            for one in transcript.type(line + ("\r" if terminal else "\n"), AROUND)
        ]
        assert [one for one in found if one == "dangerous"] == ([label] if label else []), line


def test_what_an_input_does_not_do_is_not_shown_to_anybody() -> None:
    assert Transcript("input", terminal=True, argv=["mysql", "-p"]).type("hunter22\r", AROUND) == []


KEYS = [
    (":!rm -rf ~/d\r", True),
    ("\x1b:!rm -rf ~/d\r", True),
    ("ihello\x1b:r !rm -rf ~/d\r", True),
    (":w !sudo rm -rf ~/d\r", True),
    (":%!rm -rf ~/d\r", True),
    (":silent! !rm -rf ~/d\r", True),
    ("!!rm -rf ~/d\r", True),
    ("\x1b!Grm -rf ~/d\r", True),
    ("!rm -rf ~/d\r", True),
    (":!lss\x7f && rm -rf ~/d\r", True),
    (":call system('rm -rf ~/d')\r", True),
    (":terminal rm -rf ~/d\r", True),
    (":!\x12a\r", True),
    (":sh\rrm -rf ~/d\r", True),
    (":!bash\rrm -rf ~/d\r", True),
    ("irm -rf ~/d\x1b:w !sh\r", True),
    (":%!bash\r", True),
    ("!Gsh\r", True),
    (":lua os.execute('rm -rf ~/d')\r", True),
    (":py3 import os; os.system('rm -rf ~/d')\r", True),
    (":call job_start('rm -rf ~/d')\r", True),
    (":call job_start(['rm', '-rf', '/srv/d'])\r", True),
    (':silent call system("rm -rf ~/d")\r', True),
    (":echo system(x)\r", True),
    (":set makeprg=rm\\ -rf\\ ~/d\r", True),
    (":let &makeprg='rm -rf ~/d'\r", True),
    (":make\r", False),
    (":sh\rls\r", False),
    (":set number\r", False),
    (":w notes.txt\r", False),
    (":%!sort\r", False),
    (":w !wc\r", False),
    ("irm -rf ~/d is what the page warns of\x1b:wq\r", False),
    (":s/a/b/g\r", False),
    (":!make test\r", False),
    (":q!\r", False),
    (":wq\r", False),
    ("/word\r", False),
    ("iHello, world! How are you?\r", False),
    ("\x1b[B\x1b[B\r", False),
]


@pytest.mark.parametrize(("keys", "is_dangerous"), KEYS, ids=lambda one: repr(one)[:40])
def test_an_editor_s_escape_to_a_shell_is_judged(keys: str, is_dangerous: bool) -> None:
    assert language_of("vim", ["vim", "a.txt"]) == "keys"
    for pieces in ([keys], list(keys)):
        transcript = Transcript("keys", terminal=True, argv=["vim", "a.txt"])
        found = [
            one.examined.verdict.label for piece in pieces for one in transcript.type(piece, AROUND)
        ]
        assert ("dangerous" in found) is is_dangerous, found


@pytest.mark.parametrize(
    ("keys", "is_dangerous"),
    [
        ("!rm -rf ~/d\r", True),
        ("|$rm -rf ~/d\r", True),
        ("#rm -rf ~/d\r", True),
        ("jjG|arm -rf ~/d\r", True),
        ("jj!rm -rf ~/d\r", True),
        ("!sh\rrm -rf ~/d\r", True),
        ("/a#b\r", False),
        ("G\r", False),
        ("!ls\r", False),
    ],
)
@pytest.mark.parametrize("program", ["less", "man"])
def test_a_pager_s_escape_to_a_shell_is_judged(program: str, keys: str, is_dangerous: bool) -> None:
    assert language_of(program, [program, "a"]) == "keys"
    found = Transcript("keys", terminal=True, argv=[program, "a"]).type(keys, AROUND)
    assert ("dangerous" in [one.examined.verdict.label for one in found]) is is_dangerous


@pytest.mark.parametrize("text", ["# rm -rf ~/d is dangerous\r", "a | rm -rf ~/d\r"])
def test_text_for_an_editor_is_no_pager_s_escape(text: str) -> None:
    assert (
        Transcript("keys", terminal=True, argv=["/usr/bin/vim.basic", "a.md"]).type(
            f"ia\r{text}", AROUND
        )
        == []
    )


@pytest.mark.parametrize(
    "argv", [["node", "server.js"], ["perl", "x.pl"], ["cat"], ["php", "-f", "x.php"]]
)
def test_input_of_a_script_is_data(argv: list[str]) -> None:
    assert language_of(argv[0], argv) is None


def test_keys_that_cannot_be_followed_do_not_hide_what_is_never_run() -> None:
    (found,) = Transcript("shell", terminal=True).type("rm -rf /\x01\x15\r", AROUND)
    assert found.examined.verdict.hardline


def test_what_was_refused_was_not_typed_and_what_stood_there_still_does() -> None:
    transcript = Transcript("shell", terminal=True)
    transcript.type("rm -rf ~/d", AROUND)
    for _ in range(2):  # the first is refused
        assert [one.examined.verdict.label for one in transcript.copy().type("\r", AROUND)] == [
            "dangerous"
        ]


def test_in_a_pipe_only_a_newline_ends_a_line() -> None:
    transcript = Transcript("shell", terminal=False)
    assert transcript.type("rm -rf \x15~/d\r", AROUND) == []
    assert [one.examined.verdict.label for one in transcript.type("\n", AROUND)] == ["dangerous"]


@pytest.mark.parametrize(
    ("line", "count"),
    [
        ("rm -rf ~/d", 1),
        ("it's {just data", 0),
        ("hunter2", 0),
        ('{"a": 1}', 0),
        ("x && rm -rf ~/d", 1),
    ],
)
def test_ahead_of_a_shell_only_what_is_plainly_bad_counts(line: str, count: int) -> None:
    typed = Transcript("shell", terminal=False, ahead=True).type(f"{line}\n", AROUND)
    assert sum(not one.is_data for one in typed) == count


def test_lines_that_were_typed_ahead_of_a_shell_are_read_together() -> None:
    ahead = Transcript("shell", terminal=False, ahead=True)
    assert [one.is_data for one in ahead.type("it's data\nx=rm\n", AROUND)] == [True, True]
    [typed] = ahead.copy().type("$x -rf ~/d\n", AROUND)
    assert not typed.is_data
    [after] = Transcript("shell", terminal=False, ran=ahead.ahead).type("$x -rf ~/d\n", AROUND)
    assert after.examined.verdict.decoded.startswith("rm -rf ")


@pytest.mark.parametrize(
    ("program", "argv", "language"),
    [
        ("bash", ["-bash"], "shell"),
        ("bash", ["bash", "-i"], "shell"),
        ("bash", ["bash", "--norc"], "shell"),
        ("bash", ["bash", "-c", "cat"], None),
        ("bash", ["bash", "x.sh"], None),
        ("bash", ["bash", "-s", "a"], "shell"),
        ("dash", ["sh"], "shell"),
        ("busybox", ["sh"], "shell"),
        ("zsh", ["zsh", "-l"], "shell"),
        ("bash", ["bash", "-lc", "x"], None),
        ("bash", ["bash", "-o", "vi"], "shell"),
        ("python3.11", ["python3"], "python"),
        ("python3.11", ["python3", "-q"], "python"),
        ("python3.11", ["python3", "-"], "python"),
        ("python3.11", ["python3", "x.py"], None),
        ("python3.11", ["python3", "-i", "x.py"], "python"),
        ("python3.11", ["python3", "-c", "x"], None),
        ("python3.11", ["python3", "-m", "http.server"], None),
        ("python3.11", ["python3", "-m", "IPython"], "python"),
        ("cat", ["cat"], None),
        ("psql", ["psql"], "input"),
        ("bash", ["bash", "/dev/stdin"], "shell"),
        ("bash", ["bash", "--", "/proc/self/fd/0"], "shell"),
        ("bash", ["bash", "--", "x.sh"], None),
        ("busybox", ["busybox", "sh"], "shell"),
        ("busybox", ["/bin/busybox", "cat"], None),
        ("python3.11", ["python3", "/dev/fd/0"], "python"),
        ("mawk", ["awk", "{ print }"], None),
        ("sed", ["sed", "s/a/b/", "f"], None),
        ("octave", ["octave", "x.m"], None),
        ("", [], None),
    ],
)
def test_who_runs_what_it_reads_is_known_by_name_and_words(
    program: str, argv: list[str], language: Language | None
) -> None:
    assert language_of(program, argv) == language


@pytest.mark.parametrize("text", ["x" * 3_000_000, "a\b" * 500_000, "\x1b[A" * 200_000])
@pytest.mark.parametrize("terminal", [True, False])
def test_very_long_input_is_put_together_at_once(text: str, terminal: bool) -> None:
    began = time.thread_time()
    transcript = Transcript("shell", terminal=terminal)
    assert transcript.type(text, AROUND) == []
    assert time.thread_time() - began < 10


def test_a_line_with_more_keys_than_anybody_types_is_not_followed() -> None:
    transcript = Transcript("shell", terminal=True)
    transcript.type("a\b" * MOST_KEYS, AROUND)
    (typed,) = transcript.type("ls\r", AROUND)
    assert typed.examined.verdict.label == "dangerous"


def test_more_lines_than_are_followed_are_one_question() -> None:
    transcript = Transcript("shell", terminal=False)
    begun = time.thread_time()
    found = transcript.type(":\n" * (MOST_LINES + 1) + "rm -rf ~/d\n" * 100_000, AROUND)
    assert time.thread_time() - begun < 30
    assert found[-1].examined.verdict.label == "dangerous"
    assert "lines are typed at once" in found[-1].examined.verdict.reason
    assert [one.examined.verdict.label for one in transcript.type("ls\n", AROUND)] == ["safe"]


@pytest.mark.parametrize(
    "piece",
    [
        ":",
        ":!",
        "!",
        "system('",
        ":te",
        ":sil",
        "\x1b!",
        "\x1b:w ",
        "#",
        "|a",
        ":%",
        ": ",
        "\x12:",
        ":!a\x7f",
    ],
)
def test_keys_take_bounded_time(piece: str) -> None:
    transcript = Transcript("keys", terminal=True)
    begun = time.thread_time()
    transcript.type(piece * (60_000 // len(piece)) + "\r", AROUND)
    assert time.thread_time() - begun < 10  # a tenth of that on an idle machine


@pytest.mark.parametrize(
    ("program", "language"),
    [("lua5.4", "input"), ("ruby3.1", "input"), ("php8.2", "input"), ("vim.basic", "keys")],
)
def test_a_version_in_a_name_hides_nothing(program: str, language: Language) -> None:
    assert language_of(program, [program]) == language


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        (["psql", "app"], "INSERT INTO t VALUES ({n}, 'text');\n"),
        (["node"], "const a{n} = require('fs').readFileSync('x')\n"),
    ],
    ids=["psql", "node"],
)
def test_many_lines_at_once_are_judged_as_few_texts(argv: list[str], line: str) -> None:
    transcript = Transcript("input", terminal=False, argv=argv)
    begun = time.thread_time()
    transcript.type("".join(line.format(n=n) for n in range(1000)), AROUND)
    assert time.thread_time() - begun < 10  # 0.3 s on an idle machine, 100 s line by line
