"""`python -m benchmarks.policy`: how well verdicts match the repository's commands, and what each
part earns.

score          recall, false alarms and time over tests/policy
earns          what each data file and hook earns: the score without it
rows           rows of programs that no command of the repository touches
dump FILE      the verdict on every command that the repository holds, one JSON line each
diff OLD NEW   what two dumps disagree on
"""

import argparse
import ast
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from hermetic.policy.assess import examine_command
from hermetic.policy.programs import table
from hermetic.policy.programs.catalog import FALLBACK, HOOKS, all_rules
from hermetic.policy.scoring import Row, score

ROOT = Path(__file__).parents[1]
CORPUS = ROOT / "tests" / "policy"
UNSEEN = CORPUS / "unseen"
TESTS = ("tests/policy", "tests/approvals", "tests/security", "tests/scenarios")
MAX_TEXT = 4000  # characters of a string in a test that is taken for a command


def labelled(folder: Path = CORPUS) -> list[Row]:
    """The labelled commands of a folder, and those of every day as safe ones."""
    rows = [row for path in sorted(folder.glob("*.jsonl")) for row in rows_of(path)]
    safe = everyday() if folder == CORPUS else []
    return rows + [Row(command=command, label="safe", category="everyday") for command in safe]


def rows_of(path: Path) -> list[Row]:
    """The commands of a labelled file."""
    return [Row(**json.loads(line)) for line in path.read_text("utf-8").splitlines() if line]


def unseen() -> dict[str, list[Row]]:
    """The commands of other authors, by the file that holds them."""
    return {f"unseen {path.stem}": rows_of(path) for path in sorted(UNSEEN.glob("*.jsonl"))}


def everyday() -> list[str]:
    """The commands of the everyday files."""
    return [line for path in sorted(CORPUS.glob("everyday*.txt")) for line in _lines(path)]


def _lines(path: Path) -> list[str]:
    """The commands of a file with one on each line."""
    lines = path.read_text("utf-8").splitlines()
    return [line.replace("⏎", "\n") for line in lines if line and not line.startswith("#")]


def commands() -> list[str]:
    """Every command of the corpora and of the rules' examples, and every string of the tests, each
    once.
    """
    found = [row.command for row in labelled()]
    found += [one for rule in all_rules() for one in (*rule.catches, *rule.spares)]
    found += _lines(CORPUS / "siblings.txt")
    found += _strings()
    return list(dict.fromkeys(found))


def _strings() -> Iterator[str]:
    for folder in TESTS:
        for path in sorted((ROOT / folder).glob("*.py")):
            for node in ast.walk(ast.parse(path.read_bytes())):
                if (
                    isinstance(node, ast.Constant)
                    and isinstance(node.value, str)
                    and len(node.value) <= MAX_TEXT
                ):
                    yield node.value


def dump(path: Path) -> None:
    """Write the verdict on every command."""
    with path.open("w", encoding="utf-8") as file:
        for command in commands():
            examined = examine_command(command)
            verdict = examined.verdict
            rules = sorted({part.rule for part in verdict.parts})
            acts = sorted({f"{act.deed} {act.shown()}" for act in examined.acts})
            line = {"command": command, "label": verdict.label, "category": verdict.category}
            file.write(json.dumps({**line, "rules": rules, "acts": acts}, ensure_ascii=True) + "\n")


def diff(old: Path, new: Path, *, whole: bool) -> int:
    """Print each command on which two dumps disagree; the number of those with another label."""
    before, after = (
        {row["command"]: row for row in map(json.loads, path.read_text("utf-8").splitlines())}
        for path in (old, new)
    )
    changed = 0
    keys = ("label", "category", "rules", "acts") if whole else ("label", "category", "rules")
    for command in before.keys() & after.keys():
        one, other = before[command], after[command]
        if all(one[key] == other[key] for key in keys):
            continue
        changed += one["label"] != other["label"]
        shown = [f"{key}: {one[key]} -> {other[key]}" for key in keys if one[key] != other[key]]
        print(f"{command[:300]!r}\n    " + "\n    ".join(shown))
    print(
        f"{changed} labels differ; {len(before.keys() ^ after.keys())} commands are in one dump alone"
    )
    return changed


def show() -> None:
    """Print recall, false alarms and time, on the repository's commands and on those written by
    another author.
    """
    for name, rows in {"repository": labelled(), **unseen()}.items():
        result, times = score(rows), warm_times(rows)
        lowest = min(result.by_category.items(), key=lambda item: item[1][0] / item[1][1])
        print(f"{name}: {result.rows} commands, exceptions {result.exceptions}")
        print(
            f"  recall {result.recall:.2%}, obfuscated {result.recall_hidden:.2%}, lowest category {lowest}"
        )
        print(
            f"  false alarms {result.false_alarms:.2%}, tricky {result.false_alarms_tricky:.2%}",
            end=", ",
        )
        print(f"cautions on safe commands {result.cautions:.2%}")
        print(
            f"  warm assess: p50 {times[len(times) // 2]:.3f} ms, p95 {times[len(times) * 95 // 100]:.3f} ms"
        )
        if name != "repository":
            continue  # who changes the policy should not read what is missed elsewhere
        for command in result.missed:
            print(f"  missed: {command[:160]!r}")
        for command in result.alarmed:
            print(f"  alarmed: {command[:160]!r}")
    print(f"first assess in a process, with the import: {first_assess():.1f} ms")


def warm_times(rows: list[Row]) -> list[float]:
    """Milliseconds of processor time for each command, sorted; every command was judged before."""
    times: list[float] = []
    for row in rows:
        begun = time.thread_time()
        examine_command(row.command)
        times.append((time.thread_time() - begun) * 1000)
    return sorted(times)


def first_assess() -> float:
    """Milliseconds of processor time until the first verdict of a new process; the best of five."""
    code = (
        "import time, hermetic.contract.verdict, hermetic.contract.environment; begun = time.process_time()\n"
        "from hermetic.policy import assess; assess('git push -f && rm -rf build')\n"
        "print((time.process_time() - begun) * 1000)"
    )
    runs = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        for _ in range(5)
    ]
    return min(float(run.stdout) for run in runs)


@contextmanager
def _without_file(left_out: Path) -> Iterator[None]:
    """All rows and patterns but those of one file.

    Its rules and lists stay, because code names them.
    """
    whole = dict(vars(table.TABLE))
    rest = table.Table({path.stem: table.load(path) for path in table.FILES if path != left_out})
    texts = {language: rest.texts.get(language, []) for language in whole["texts"]}
    vars(table.TABLE).update(
        vars(rest) | {"rules": whole["rules"], "lists": whole["lists"], "texts": texts}
    )
    try:
        yield
    finally:
        vars(table.TABLE).update(whole)


@contextmanager
def _without_hook(name: str) -> Iterator[None]:
    """The generic rule in place of a hook."""
    hook, HOOKS[name] = HOOKS[name], FALLBACK
    try:
        yield
    finally:
        HOOKS[name] = hook


def earns() -> None:
    """Print what is no longer caught, and what is a false alarm, without each data file and each
    hook.
    """
    rows = [*labelled(), *labelled(UNSEEN)]
    whole = [examine_command(row.command).verdict.label for row in rows]
    files = [path for path in table.FILES if table.load(path).keys() - {"rules", "lists"}]
    parts = [(path.name, partial(_without_file, path)) for path in files]
    parts += [(f"hook {name}", partial(_without_hook, name)) for name in sorted(HOOKS)]
    print("without              missed  alarms  other labels")
    for name, left_out in parts:
        with left_out():
            labels = [examine_command(row.command).verdict.label for row in rows]
        changed = [
            (row, before, now)
            for row, before, now in zip(rows, whole, labels, strict=True)
            if before != now
        ]
        missed = sum(row.label == "dangerous" and now != "dangerous" for row, _, now in changed)
        alarms = sum(row.label == "safe" and now == "dangerous" for row, _, now in changed)
        print(f"{name:20} {missed:6}  {alarms:6}  {len(changed) - missed - alarms:6}", flush=True)


def untouched() -> None:
    """Print the rows of which no program is run by a command of the repository."""
    run = {
        act.words[0].rsplit("/", 1)[-1]
        for one in commands()
        for act in examine_command(one).acts
        if act.words
    }
    for path in table.FILES:
        rows = {
            name: fields.get("programs", name).split()
            for name, fields in table.load(path).items()
            if name not in ("rules", "texts", "lists")
        }
        idle = [
            name
            for name, programs in rows.items()
            if run.isdisjoint(programs) and "-" not in programs[0]
        ]
        print(
            f"{path.name}: {len(idle)} of {len(rows)} rows untouched{': ' if idle else ''}{', '.join(idle)}"
        )


def main() -> int:
    """Does what was asked for; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.policy", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    for verb in ("score", "earns", "rows"):
        verbs.add_parser(verb)
    verbs.add_parser("dump").add_argument("file", type=Path)
    one = verbs.add_parser("diff")
    one.add_argument("old", type=Path)
    one.add_argument("new", type=Path)
    one.add_argument(
        "--acts",
        action="store_true",
        help="compare what is read, written, deleted and reached as well",
    )
    arguments = parser.parse_args()
    if arguments.verb == "dump":
        dump(arguments.file)
    elif arguments.verb == "diff":
        return int(diff(arguments.old, arguments.new, whole=arguments.acts) > 0)
    else:
        {"score": show, "earns": earns, "rows": untouched}[arguments.verb]()
    return 0


if __name__ == "__main__":
    sys.exit(main())
