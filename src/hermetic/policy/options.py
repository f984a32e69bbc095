"""Options as getopt reads them: bundled letters, values, long names and their abbreviations."""

from __future__ import annotations

import msgspec


class Options(msgspec.Struct):
    """A command's options in order, and its operands."""

    given: list[tuple[str, str | None]]
    operands: list[str]
    rest: list[str] = []  # the value of an option that ends all others, and the words behind it

    def has(self, *names: str) -> bool:
        """True when one of the options was given; long names also by a prefix of at least one
        letter.
        """
        return any(_matches(given, name) for given, _ in self.given for name in names)

    def value(self, *names: str) -> str | None:
        """The last value given to one of the options."""
        return next(reversed(self.values(*names)), None)

    def values(self, *names: str) -> list[str]:
        """All values given to the options, in order."""
        return [
            value
            for given, value in self.given
            if value is not None and any(_matches(given, n) for n in names)
        ]


def dashed(name: str) -> str:
    """An option as it is written."""
    return f"-{name}" if len(name) == 1 else f"--{name}"


def _matches(given: str, name: str) -> bool:
    if given == name:
        return True
    return len(name) > 1 and len(given) > 1 and name.startswith(given) and not given.startswith("-")


def parse_options(
    args: list[str],
    short: str = "",
    long: tuple[str, ...] = (),
    *,
    stop_early: bool = False,
    single_dash_long: bool = False,
    glued: str = "",
    last: tuple[str, ...] = (),
) -> Options:
    """Options and operands. `short` are letters, `long` names that take a value; `glued` letters
    that take the rest of their word alone; `last` those behind whose value nothing is an option.

    With `stop_early` everything after the first operand is an operand, as for wrappers.
    """
    given: list[tuple[str, str | None]] = []
    operands: list[str] = []
    at = 0
    while at < len(args):
        arg = args[at]
        at += 1
        if arg == "--":
            operands += args[at:]
            return Options(given, operands, args[at:] if arg in last else [])
        if arg.startswith("--") or (single_dash_long and arg.startswith("-") and len(arg) > 2):
            name, equals, value = arg.lstrip("-").partition("=")
            if equals:
                given.append((name, value))
            elif any(_matches(name, known) for known in long) and at < len(args):
                given.append((name, args[at]))
                at += 1
            else:
                given.append((name, None))
        elif arg.startswith("-") and len(arg) > 1:
            at = _letters(arg, args, at, short, glued, given)
        elif stop_early:
            operands += args[at - 1 :]
            break
        else:
            operands.append(arg)
        if last and given and given[-1][0] in last:
            first = given[-1][1]
            return Options(given, operands, [*([] if first is None else [first]), *args[at:]])
    return Options(given, operands)


def _letters(
    arg: str, args: list[str], at: int, short: str, glued: str, given: list[tuple[str, str | None]]
) -> int:
    for place, letter in enumerate(arg[1:], 1):
        rest = arg[place + 1 :]
        if letter in glued or (glued and rest.startswith(".")):
            given.append((letter, rest))
            return at
        if letter in short:
            given.append((letter, rest or (args[at] if at < len(args) else None)))
            return at + (not rest and at < len(args))
        given.append((letter, None))
    return at
