"""Names of keys, and the bytes that a terminal sends for them."""

from hermetic.contract.errors import InvalidArgument

_NAMED = {
    "enter": "\r",
    "return": "\r",
    "tab": "\t",
    "esc": "\x1b",
    "escape": "\x1b",
    "space": " ",
    "backspace": "\x7f",
    "delete": "\x1b[3~",
    "insert": "\x1b[2~",
    "up": "\x1b[A",
    "down": "\x1b[B",
    "right": "\x1b[C",
    "left": "\x1b[D",
    "home": "\x1b[H",
    "end": "\x1b[F",
    "pageup": "\x1b[5~",
    "pagedown": "\x1b[6~",
    "f1": "\x1bOP",
    "f2": "\x1bOQ",
    "f3": "\x1bOR",
    "f4": "\x1bOS",
    "f5": "\x1b[15~",
    "f6": "\x1b[17~",
    "f7": "\x1b[18~",
    "f8": "\x1b[19~",
    "f9": "\x1b[20~",
    "f10": "\x1b[21~",
    "f11": "\x1b[23~",
    "f12": "\x1b[24~",
    "shift-tab": "\x1b[Z",
    "backtab": "\x1b[Z",
}

# Ctrl with a letter or one of @[\]^_ is that character without its upper bits.
_CONTROL = {
    "space": "\x00",
    "?": "\x7f",
    **{char: chr(ord(char) & 0x1F) for char in "ABCDEFGHIJKLMNOPQRSTUVWXYZ@[\\]^_"},
}

# What xterm puts between the brackets for a cursor or function key with these held: 1 + shift 1 +
# alt 2 + ctrl 4.
_MODIFIERS = {"shift": 1, "alt": 2, "meta": 2, "ctrl": 4, "c": 4, "control": 4}


# These have another form for programs that have asked for it, as curses does: ESC O A instead of
# ESC [ A.
_CURSOR = frozenset({"up", "down", "right", "left", "home", "end"})


def encode_keys(names: str, *, application: bool = False) -> bytes:
    """The bytes for key names with spaces between: `ctrl-c`, `up`, `alt-x`, `ctrl-left`, `f1`, or a
    character.

    `application`: the program has asked for the cursor keys' other form.
    """
    words = names.split()
    if not words:
        raise InvalidArgument('no key named; give names like "ctrl-c up enter"', argument="keys")
    return "".join(_application(word) if application else _encode(word) for word in words).encode()


def has_cursor_key(names: str) -> bool:
    """True when one of the keys has two forms."""
    return not _CURSOR.isdisjoint(names.lower().split())


def _application(word: str) -> str:
    return _encode(word).replace("[", "O") if word.lower() in _CURSOR else _encode(word)


def _encode(word: str) -> str:
    if len(word) == 1:
        return word
    lower = word.lower()
    if plain := _NAMED.get(lower):
        return plain
    *held, key = _split(lower)
    if held and all(name in _MODIFIERS for name in held) and key:
        bits = 0
        for name in held:
            bits |= _MODIFIERS[name]
        if encoded := _modified(key, bits):
            return encoded
    raise InvalidArgument(
        f"unknown key {word!r}; use a character, ctrl-X, alt-X, shift-tab, or one of: {', '.join(sorted(_NAMED))}",
        argument="keys",
    )


def _split(word: str) -> list[str]:
    """`ctrl-alt-x` → ctrl, alt, x; the key itself may be a dash."""
    return [*word[:-2].split("-"), "-"] if word.endswith("--") else word.split("-")


def _modified(key: str, bits: int) -> str | None:
    named = _NAMED.get(key)
    # a cursor or function key: ESC [ 1 ; m A, ESC [ 15 ; m ~
    if named is not None and len(named) > 2:
        return _with_number(named, 1 + bits)
    prefix = "\x1b" if bits & 2 else ""
    if bits & 4:
        control = _CONTROL.get(key.upper()) or _CONTROL.get(key)
        return None if control is None else prefix + control
    plain = named or (key if len(key) == 1 else None)
    if plain is None:
        return None
    return prefix + (plain.upper() if bits & 1 else plain)


def _with_number(sequence: str, number: int) -> str:
    if sequence.endswith("~"):
        return f"{sequence[:-1]};{number}~"
    return f"\x1b[1;{number}{sequence[-1]}"
