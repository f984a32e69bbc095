"""Filters: programs whose output follows from their input is computed, so that what they hide is
seen.
"""

from __future__ import annotations

import base64
import binascii
import itertools
import re

from hermetic.policy import marks
from hermetic.policy.budget import MAX_TEXT, joined
from hermetic.policy.call import Call
from hermetic.policy.dynamic_code import run_program
from hermetic.policy.effects import read, write
from hermetic.policy.marks import is_known, is_plain, marks_in, unknown_like
from hermetic.policy.programs.hooks.network import judge_nc
from hermetic.policy.programs.interpret import judge_by_row
from hermetic.policy.shell.expansion import Folder
from hermetic.policy.shell.quoting import decode_backslashes
from hermetic.policy.tables import regex

MAX_REPEATS = 500
_FORMAT = regex(r"%(?:(%)|([-+ #0]*)(\*|\d+)?(?:\.(\*|\d+))?([a-zA-Z]|\([^)]*\)T))")
_TR_CLASSES = {
    "[:upper:]": "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
    "[:lower:]": "abcdefghijklmnopqrstuvwxyz",
    "[:digit:]": "0123456789",
    "[:space:]": " \t\n\r\v\f",
    "[:blank:]": " \t",
    "[:punct:]": "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~",
}
_TR_CLASSES["[:alpha:]"] = _TR_CLASSES["[:upper:]"] + _TR_CLASSES["[:lower:]"]
_TR_CLASSES["[:alnum:]"] = _TR_CLASSES["[:digit:]"] + _TR_CLASSES["[:alpha:]"]


# Sequences by which a terminal fills the clipboard or hides what follows.
_UNSEEN = regex("\x1b\\](?:52|1337);|\x1b\\[(?:[\\d;]*;)?8m")


def _check_shown(call: Call, text: str) -> None:
    if "\x1b" in text and _UNSEEN.search(text):
        call.report("deceptive-text", "prints what a terminal does not show")


def judge_echo(call: Call) -> str | None:
    """echo prints its arguments."""
    args = list(call.args)
    newline, escapes = "\n", False
    while args and re.fullmatch(r"-[neE]+", args[0]):
        flags = args.pop(0)
        newline = "" if "n" in flags else newline
        escapes = ("e" in flags) or (escapes and "E" not in flags)
    text = " ".join(args)
    if escapes:
        text, cut = decode_backslashes(text, octal_needs_zero=True)
        _check_shown(call, text)
        newline = "" if cut else newline
    return text + newline


def judge_printf(call: Call) -> str | None:
    """printf formats its arguments, again and again while there are any; -v keeps the text."""
    args = list(call.args)
    variable = None
    if len(args) >= 2 and args[0] == "-v":
        variable = args[1]
        args = args[2:]
    if args[:1] == ["--"]:
        args = args[1:]
    if not args:
        return ""
    text = _format_printf(args[0], args[1:])
    _check_shown(call, text)
    if variable is not None:
        Folder(call.machine, call.shell).set_named(variable, text)
        return ""
    return text


def _format_printf(template: str, values: list[str]) -> str:
    """What printf prints."""
    if not is_plain(template) or re.search(r"%\d+\$", template):
        return unknown_like(template, *values)
    out, rest, size = list[str](), list(values), 0
    for _ in range(MAX_REPEATS):
        before, pos = len(rest), 0
        for match in _FORMAT.finditer(template):
            out += [_unescaped(template[pos : match.start()]), _formatted(match, rest)]
            pos = match.end()
            size += len(out[-2]) + len(out[-1])
            if size > MAX_TEXT:
                return unknown_like(*values)
        out.append(_unescaped(template[pos:]))
        if not rest or len(rest) == before:
            return joined(out)
    return joined([*out, unknown_like(*rest)])


def _unescaped(text: str) -> str:
    return decode_backslashes(text, octal_needs_zero=False)[0]


def _formatted(match: re.Match[str], rest: list[str]) -> str:
    if match[1]:
        return "%"
    flags, *sizes, kind = match.group(2, 3, 4, 5)
    width, precision = ((rest.pop(0) if rest else "0") if one == "*" else one for one in sizes)
    value = rest.pop(0) if rest else ""
    if kind == "b":
        value = _unescaped(re.sub(r"\\0([0-7]{1,3})", r"\\\1", value))
    is_text, is_number = kind in "bqs", kind in "diuxXoeEfFgG"
    if not re.fullmatch(r"-?\d{0,4}", width or "") or not (is_text or is_number):
        return unknown_like(value)
    number: float = 0
    if not is_text:
        try:
            number = _number(value, as_float=kind in "eEfFgG")
        except ValueError:
            return marks.NUMBER
    exact = bool(precision) and precision.isdigit() and len(precision) < 5 and is_plain(value)
    layout = f"%{flags}{width or ''}{'.' + precision if exact else ''}{'s' if is_text else kind}"
    return layout % (value if is_text else number,)


def _number(value: str, *, as_float: bool) -> float:
    if as_float:
        return float(value or "0")
    return int(value or "0", 8 if re.fullmatch(r"0\d+", value) else 0)


def inputs(call: Call, operands: list[str]) -> str:
    """The joined content of the files a filter reads, or standard input."""
    if not operands:
        return call.input()
    return joined(read(call, path) for path in operands)


def _keeps(call: Call, text: str) -> str:
    """A text without its endless part, which the program would keep in memory."""
    if marks.ENDLESS in text:
        call.report("use-everything-up", "keeps what never ends in memory")
    return text.replace(marks.ENDLESS, "")


def judge_cat(call: Call) -> str | None:
    """cat and kin print files; pagers run what stands behind `+!`."""
    for code in call.options.values("pager"):
        call.shell_text(code)
    starts = [word for word in call.options.operands if word.startswith("+")]
    for word in starts:
        if "!" in word and call.name in ("less", "more"):
            call.shell_text(word.partition("!")[2])
    return inputs(call, [word for word in call.options.operands if word not in starts])


_HUGE = regex(r"\d+[TPEZ]i?B?|\d{3,}Gi?B?|\d{12,}")  # as much as a disk holds


def judge_head(call: Call) -> str | None:
    """head and tail print a part of their input."""
    options = call.options
    text = inputs(call, options.operands)
    size = options.value("c", "bytes")
    if call.name == "tail":
        text = _keeps(call, text)
    elif not _HUGE.fullmatch(size or ""):
        text = text.replace(marks.ENDLESS, "")
    digits = [flag for flag, _ in options.given if flag.isdigit()] or ["10"]
    count = size or options.value("n", "lines") or digits[0]
    if not is_known(text):
        # a piece that no reader would see as such
        return text + (marks.LOCAL if size is None else marks.DECODED)
    if not re.fullmatch(r"[+-]?\d{1,9}", count):
        return unknown_like(text)
    number = int(count.lstrip("+-"))
    units = text.splitlines(keepends=True) if size is None else list(text)
    if call.name == "head":
        return "".join(units[: len(units) - number] if count.startswith("-") else units[:number])
    start = max(number - 1, 0) if count.startswith("+") else max(len(units) - number, 0)
    return "".join(units[start:])


def judge_rev(call: Call) -> str | None:
    """rev and tac turn lines or their order around."""
    text = inputs(call, call.options.operands)
    if call.name == "tac":
        lines = _keeps(call, text).split("\n")
        return "\n".join(reversed(lines[:-1] if text.endswith("\n") else lines)) + "\n"
    turned = "\n".join(line[::-1] for line in text.split("\n"))
    return turned if is_known(text) else turned + marks.DECODED


def _tr_set(text: str) -> str:
    for name, letters in _TR_CLASSES.items():
        text = text.replace(name, letters)
    text = _unescaped(text)
    out: list[str] = []
    at = 0
    while at < len(text):
        if at + 2 < len(text) and text[at + 1] == "-" and ord(text[at]) <= ord(text[at + 2]):
            out.extend(chr(code) for code in range(ord(text[at]), ord(text[at + 2]) + 1))
            at += 3
        else:
            out.append(text[at])
            at += 1
    return "".join(out)


def judge_tr(call: Call) -> str | None:
    """tr exchanges or deletes characters."""
    options, text = call.options, call.input()
    sets = [_tr_set(operand) for operand in options.operands]
    if not sets:
        return text
    complement = options.has("c", "C", "complement")
    if options.has("d", "delete"):
        kept = (char for char in text if (char in sets[0]) == complement or ord(char) >= 0xE000)
        return "".join(kept)
    if len(sets) < 2 or not sets[1] or complement:
        return text if is_known(text) and not complement else unknown_like(text)
    target = sets[1].ljust(len(sets[0]), sets[1][-1])
    if not is_known(text) and sum(map(str.isalpha, sets[0])) > 1:
        return text + marks.DECODED  # letters stand for others
    return text.translate({ord(a): b for a, b in zip(sets[0], target, strict=False)})


def judge_cut(call: Call) -> str | None:
    """cut prints fields or columns of lines."""
    options = call.options
    text = inputs(call, options.operands)
    spec = options.value("f", "fields") or options.value("c", "characters", "b", "bytes")
    if not is_known(text) or spec is None or not re.fullmatch(r"[\d,-]+", spec) or len(spec) > 200:
        return unknown_like(text)
    by_field = options.value("f", "fields") is not None
    delimiter = (options.value("d", "delimiter") or "\t") if by_field else ""
    lines: list[str] = []
    for line in text.splitlines():
        parts = line.split(delimiter) if by_field else list(line)
        picked = [part for number, part in enumerate(parts, 1) if _in_ranges(number, spec)]
        lines.append(line if by_field and len(parts) == 1 else delimiter.join(picked))
    return "".join(f"{line}\n" for line in lines)


def _in_ranges(number: int, spec: str) -> bool:
    for piece in spec.split(","):
        low, dash, high = piece.partition("-")
        if int(low or "1") <= number <= (int(high or number) if dash else int(low or "0")):
            return True
    return False


def judge_base(call: Call) -> str | None:
    """base64, base32, basenc encode and decode."""
    options = call.options
    text = inputs(call, options.operands)
    decode = options.has("d", "D", "decode")
    if not is_plain(text):
        return unknown_like(text).replace(marks.UNSET, marks.DECODED if decode else marks.LOCAL)
    codecs = [one for one in ("32", "16") if one in call.name or options.has("base" + one)]
    codec = (codecs or ["64"])[0]
    return _decode(text, codec) if decode else _encode(text, codec) + "\n"


def _decode(text: str, codec: str) -> str:
    """The decoded text, or a mark when it does not decode."""
    packed = re.sub(r"[^A-Za-z0-9+/_=-]", "", text).replace("-", "+").replace("_", "/")
    packed = packed.rstrip("=").upper() if codec != "64" else packed
    padding = {"64": -len(packed) % 4, "32": -len(packed) % 8, "16": 0}[codec]
    try:
        data: bytes = getattr(base64, f"b{codec}decode")(packed + "=" * padding)
    except (binascii.Error, ValueError):
        return marks.DECODED
    return data.decode("latin-1")


def _encode(text: str, codec: str) -> str:
    data: bytes = getattr(base64, f"b{codec}encode")(text.encode("latin-1", "replace"))
    return data.decode("ascii")


def judge_xxd(call: Call) -> str | None:
    """xxd -r turns a hex dump back into bytes."""
    options = call.options
    text = inputs(call, options.operands[:1])
    if not options.has("r"):
        if options.has("p", "ps", "plain") and is_plain(text):
            return text.encode("latin-1").hex() + "\n"
        return marks.LOCAL + marks_in(text) + "\n"
    if not is_plain(text) or not options.has("p"):
        return unknown_like(text).replace(marks.UNSET, marks.DECODED)
    digits = re.sub(r"[^0-9a-fA-F]", "", text)
    return bytes.fromhex(digits[: len(digits) // 2 * 2]).decode("latin-1")


# Options by which a program that puts a file's packed or unpacked form in its place keeps it.
_KEEPS = regex(
    r"-[A-Za-z0-9]*[kctlhVL][A-Za-z0-9]*|--(?:keep|stdout|to-stdout|test|list|help|version)"
)
_DECODES = regex(r"-\w*d\w*|--(d|de|dec|decr|decomp)\w*|-\w*D\w*")


def judge_decoder(call: Call) -> str | None:
    """gunzip, xz, gpg, uudecode …: what comes out is not seen."""
    words = [arg for arg in call.args if not arg.startswith("-")]
    if call.row.has("replaces") and not any(map(_KEEPS.fullmatch, call.args)):
        for path in words:
            call.machine.note("delete", call.place(path)[0])
    for path in call.options.values("xf", "extractfile", "write-out"):
        write(call, path, content=marks.DECODED)
    text = "".join(read(call, path) for path in words) if words else call.input()
    if call.name in ("gpg", "gpg2") and "export-secret" in "".join(call.args):
        return marks.SECRET
    return _decoded(text, call.row.has("decodes") or any(map(_DECODES.fullmatch, call.args)))


def _decoded(text: str, decodes: bool) -> str:
    kept = "".join(mark for mark in (marks.NET, marks.SECRET, marks.TOKEN) if mark in text)
    return (marks.DECODED if decodes else marks.LOCAL) + kept + "\n"


def judge_openssl(call: Call) -> str | None:
    """openssl: connections, encodings and ciphers."""
    pairs, kind = list(itertools.pairwise(call.args)), "".join(call.args[:1])
    if kind == "s_client":
        hosts = [value for flag, value in pairs if flag in ("-connect", "-host")]
        return judge_nc(call.again(["nc", *hosts]))
    decodes = any(map(_DECODES.fullmatch, call.args))
    plain = not any(map(regex("-(aes|des|k|pass|bf|in)").match, call.args))
    if kind in ("base64", "enc") and plain:
        return judge_base(call.named("base64", ["-d"] if decodes else []))
    return _decoded(judge_by_row(call) or call.input(), decodes)


def judge_seq(call: Call) -> str | None:
    """seq prints numbers; a long run becomes its ends and an unknown number."""
    if any(re.match("-[a-z-]", arg) for arg in call.args):
        return marks.LOCAL + "\n"
    if call.args[-1:] in (["inf"], ["infinity"]):
        return marks.NUMBER + "\n" + marks.ENDLESS
    if not all(re.fullmatch(r"-?\d{1,9}", word) for word in call.args) or len(call.args) > 3:
        return marks.NUMBER + "\n"
    *begin, last = map(int, call.args or ["1"])
    first, step = (*begin, 1, 1)[:2]
    if step == 0 or abs(last - first) // abs(step) > 64:
        return f"{first}\n{last}\n{marks.NUMBER * 2}\n"
    return "".join(f"{n}\n" for n in range(first, last + (1 if step > 0 else -1), step))


def judge_yes(call: Call) -> str | None:
    """yes repeats a line."""
    return (" ".join(call.args) or "y") + "\n" + marks.ENDLESS


def judge_sort(call: Call) -> str | None:
    """sort, uniq, comm, join, paste: filters; sort can write a file and start a compressor."""
    options, words = call.options, call.options.operands
    for program in options.values("compress-program"):
        run_program(call, program, "a compressor")
    for path in [*options.values("o", "output"), *(words[1:2] if call.name == "uniq" else [])]:
        write(call, path)
    text = inputs(call, words[:1] if call.name == "uniq" else words)
    if call.name == "sort":
        text = _keeps(call, text)
    if not is_known(text):
        return text
    if call.name == "sort":
        return "".join(sorted(text.splitlines(keepends=True), reverse=options.has("r", "reverse")))
    if call.name == "paste" and options.has("s"):
        glue = "\t" if options.value("d") is None else (options.value("d") or "")[:1]
        return glue.join(text.rstrip("\n").split("\n")) + "\n"
    return text
