"""Programs whose output follows from their input: they are computed, so that what they hide is seen."""

from __future__ import annotations

import base64
import binascii
import re
import urllib.parse

from hermetic.policy.budget import MAX_TEXT, joined
from hermetic.policy.call import Call, Judge
from hermetic.policy.effects import SECRET_READ, read, write
from hermetic.policy.marks import DECODED, ENDLESS, LOCAL, NUMBER, UNSET, is_known, is_plain, marks_in, unknown_like
from hermetic.policy.options import parse_options
from hermetic.policy.quoting import decode_backslashes
from hermetic.policy.tables import names

from .connections import judge_telnet
from .unseen import EXHAUSTION, run_program

MAX_REPEATS = 500
_FORMAT = re.compile(r"%(?:(%)|([-+ #0]*)(\*|\d+)?(?:\.(\*|\d+))?([a-zA-Z]|\([^)]*\)T))")
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
    text = format_printf(args[0], args[1:])
    if variable is not None:
        if "[" in variable:
            call.machine.fold_text(variable, call.shell)
        call.shell.set(variable.partition("[")[0], text)
        return ""
    return text


def format_printf(template: str, values: list[str]) -> str:
    """What printf prints."""
    if not is_plain(template) or re.search(r"%\d+\$", template):
        return unknown_like(template, *values)
    out: list[str] = []
    size = 0
    rest = list(values)
    for _ in range(MAX_REPEATS):
        before = len(rest)
        pos = 0
        for match in _FORMAT.finditer(template):
            out.append(decode_backslashes(template[pos : match.start()], octal_needs_zero=False)[0])
            pos = match.end()
            out.append(_formatted(match, rest))
            size += len(out[-2]) + len(out[-1])
            if size > MAX_TEXT:
                return unknown_like(*values)
        out.append(decode_backslashes(template[pos:], octal_needs_zero=False)[0])
        if not rest or len(rest) == before:
            return joined(out)
    return joined([*out, unknown_like(*rest)])


def _formatted(match: re.Match[str], rest: list[str]) -> str:
    if match[1]:
        return "%"
    flags, width, precision, kind = match[2] or "", match[3], match[4], match[5]
    if width == "*":
        width = rest.pop(0) if rest else "0"
    if precision == "*":
        precision = rest.pop(0) if rest else "0"
    value = rest.pop(0) if rest else ""
    if kind in ("b", "q", "s"):
        if kind == "b":
            value = decode_backslashes(re.sub(r"\\0([0-7]{1,3})", r"\\\1", value), octal_needs_zero=False)[0]
        if precision and precision.isdigit():
            value = value[: int(precision)] if is_plain(value) else value
        if width and width.lstrip("-").isdigit() and int(width) < 10_000:
            value = value.ljust(int(width)) if "-" in flags else value.rjust(int(width))
        return value
    if kind == "c":
        return value[:1]
    if not is_plain(value):
        return NUMBER
    if value[:1] in ("'", '"') and len(value) > 1:
        number = ord(value[1])
    else:
        try:
            number = int(value, 0) if not re.fullmatch(r"0\d+", value) else int(value, 8)
        except ValueError:
            return value if kind in "feg" else NUMBER if value else "0"
    layout = {"d": "d", "i": "d", "u": "d", "x": "x", "X": "X", "o": "o"}.get(kind)
    if layout is None:
        return str(number)
    text = format(number, layout)
    if width and width.isdigit() and int(width) < 1000:
        fill = "0" if "0" in flags and "-" not in flags else " "
        text = text.ljust(int(width)) if "-" in flags else text.rjust(int(width), fill)
    return text


def inputs(call: Call, operands: list[str]) -> str:
    """The joined content of the files a filter reads, or standard input."""
    if not operands:
        return call.input()
    return joined(read(call, path) for path in operands)


def judge_cat(call: Call) -> str | None:
    """cat and kin print files."""
    short = {
        "less": "bhjkopPtTxyzD",
        "more": "",
        "bat": "lHrm",
        "nl": "bdfhilnsvw",
        "fold": "w",
        "fmt": "w",
        "expand": "t",
        "pr": "",
        "column": "sctN",
    }
    options = parse_options(call.args, short.get(call.name, ""), ("language", "pager", "style", "width"))
    if call.name == "bat" and options.value("pager"):
        call.shell_text(options.value("pager") or "")
    if call.name in ("less", "more") and any(arg.startswith("+") and "!" in arg for arg in call.args):
        call.shell_text(next(arg for arg in call.args if arg.startswith("+")).partition("!")[2])
    text = inputs(call, [path for path in options.operands if not path.startswith("+")])
    if call.name in ("cat", "less", "more", "bat", "batcat", "pv", "most"):
        return text
    width = options.value("w", "width") or "80"
    if call.name == "fold" and is_plain(text) and width.isdigit() and int(width) and not options.has("s", "b"):
        return "".join(_folded(line, int(width)) for line in text.splitlines(keepends=True))
    return unknown_like(text).replace(UNSET, LOCAL) + "\n"


def _folded(line: str, width: int) -> str:
    body = line.rstrip("\n")
    return "\n".join(body[at : at + width] for at in range(0, len(body), width)) + line[len(body) :]


def judge_head(call: Call) -> str | None:
    """head and tail print a part of their input."""
    options = parse_options(call.args, "ncs", ("lines", "bytes", "pid"))
    text = inputs(call, options.operands)
    count = options.value("n", "lines") or next((flag for flag, _ in options.given if flag.isdigit()), "10")
    size = options.value("c", "bytes")
    if ENDLESS in text:
        if call.name == "tail":
            call.report(EXHAUSTION, "keeps what never ends in memory")
        text = text.replace(ENDLESS, "")
    if not is_known(text):
        return text + LOCAL
    try:
        if size is not None:
            number = int(size.lstrip("+-"))
            if call.name == "head":
                return text[:number] if not size.startswith("-") else text[: len(text) - number]
            return text[number - 1 :] if size.startswith("+") else text[-number:] if number else ""
        number = int(count.lstrip("+-"))
        lines = text.splitlines(keepends=True)
        if call.name == "head":
            return "".join(lines[: -number or None] if count.startswith("-") else lines[:number])
        return "".join(lines[max(number - 1, 0) :] if count.startswith("+") else lines[-number:] if number else [])
    except ValueError:
        return unknown_like(text)


def judge_rev(call: Call) -> str | None:
    """rev and tac turn lines or their order around."""
    text = inputs(call, parse_options(call.args, "s").operands)
    lines = text.split("\n")
    if ENDLESS in text and call.name == "tac":
        call.report(EXHAUSTION, "keeps what never ends in memory")
    if call.name == "tac":
        body = lines[:-1] if text.endswith("\n") else lines
        return "\n".join(reversed(body)) + "\n"
    return "\n".join(line[::-1] for line in lines)


def _tr_set(text: str) -> str:
    for name, letters in _TR_CLASSES.items():
        text = text.replace(name, letters)
    text = decode_backslashes(text, octal_needs_zero=False)[0]
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
    options = parse_options(call.args)
    text = call.input()
    sets = [_tr_set(operand) for operand in options.operands]
    if not sets:
        return text
    complement = options.has("c", "C", "complement")
    if options.has("d", "delete"):
        return "".join(char for char in text if (char in sets[0]) == complement or ord(char) >= 0xE000)
    if len(sets) < 2 or not sets[1] or complement:
        return text if is_known(text) and not complement else unknown_like(text)
    target = sets[1].ljust(len(sets[0]), sets[1][-1])
    return text.translate({ord(a): b for a, b in zip(sets[0], target, strict=False)})


def judge_cut(call: Call) -> str | None:
    """cut prints fields or columns of lines."""
    options = parse_options(call.args, "bcdf", ("delimiter", "fields", "characters", "bytes", "output-delimiter"))
    text = inputs(call, options.operands)
    spec = options.value("f", "fields") or options.value("c", "characters", "b", "bytes")
    if not is_known(text) or spec is None or not re.fullmatch(r"[\d,-]+", spec) or len(spec) > 200:
        return unknown_like(text)
    by_field = options.value("f", "fields") is not None
    delimiter = options.value("d", "delimiter") or "\t"
    lines: list[str] = []
    for line in text.splitlines():
        parts = line.split(delimiter) if by_field else list(line)
        if by_field and len(parts) == 1:
            lines.append(line)
            continue
        picked = [part for number, part in enumerate(parts, 1) if _in_ranges(number, spec)]
        lines.append((delimiter if by_field else "").join(picked))
    return "".join(f"{line}\n" for line in lines)


def _in_ranges(number: int, spec: str) -> bool:
    for piece in spec.split(","):
        low, dash, high = piece.partition("-")
        if not dash:
            if low and number == int(low):
                return True
        elif (not low or number >= int(low)) and (not high or number <= int(high)):
            return True
    return False


def judge_base(call: Call) -> str | None:
    """base64, base32, basenc encode and decode."""
    options = parse_options(call.args, "wi", ("wrap",) if call.name != "base64" else ("wrap", "input"))
    if any(flag == "i" and value for flag, value in options.given):  # coreutils' -i is a flag, BSD's takes a file
        options = parse_options(call.args, "w", ("wrap",))
    text = inputs(call, options.operands)
    decode = options.has("d", "D", "decode")
    if not is_plain(text):
        return unknown_like(text).replace(UNSET, DECODED if decode else LOCAL)
    codec = "base32" if "32" in call.name or options.has("base32") else "base16" if options.has("base16") else "base64"
    return decode_base(text, codec) if decode else encode_base(text, codec) + "\n"


def decode_base(text: str, codec: str) -> str:
    """The decoded text, or a mark when it does not decode."""
    packed = re.sub(r"[^A-Za-z0-9+/_=-]", "", text)
    packed += "=" * (-len(packed) % (8 if codec == "base32" else 4))
    try:
        if codec == "base32":
            data = base64.b32decode(packed.upper())
        elif codec == "base16":
            data = base64.b16decode(packed.rstrip("=").upper())
        else:
            data = base64.b64decode(packed.replace("-", "+").replace("_", "/"))
    except (binascii.Error, ValueError):
        return DECODED
    return data.decode("latin-1")


def encode_base(text: str, codec: str) -> str:
    """The encoded text."""
    data = text.encode("latin-1", "replace")
    encoded = {"base32": base64.b32encode, "base16": base64.b16encode}.get(codec, base64.b64encode)(data)
    return encoded.decode("ascii")


def judge_xxd(call: Call) -> str | None:
    """xxd -r turns a hex dump back into bytes."""
    options = parse_options(call.args, "clogs")
    text = inputs(call, options.operands[:1])
    if not any("r" in arg[1:] for arg in call.args if arg.startswith("-") and not arg.startswith("--")):
        if options.has("p", "ps", "plain") and is_plain(text):
            return text.encode("latin-1").hex() + "\n"
        return LOCAL + "".join(m for m in marks_in(text)) + "\n"
    if not is_plain(text):
        return unknown_like(text).replace(UNSET, DECODED)
    plain = options.has("p")
    if not plain:
        text = "".join(re.sub(r"^\s*[0-9a-fA-F]+:\s*", "", line).split("  ")[0] for line in text.splitlines())
    digits = re.sub(r"[^0-9a-fA-F]", "", text)
    return bytes.fromhex(digits[: len(digits) // 2 * 2]).decode("latin-1")


# Programs that put a file's packed or unpacked form in its place, and the options that keep it.
_REPLACES = names("gzip gunzip bzip2 bunzip2 xz unxz lzma unlzma compress uncompress")
_KEEPS = re.compile(r"-[A-Za-z0-9]*[kctlhVL][A-Za-z0-9]*|--(?:keep|stdout|to-stdout|test|list|help|version)")


def judge_decoder(call: Call) -> str | None:
    """gunzip, xz, openssl, gpg, uudecode …: what comes out is not seen."""
    decodes = call.name not in names(
        """
gzip bzip2 xz zstd lz4 lzma compress brotli openssl gpg gpg2 age qprint
"""
    )
    decodes = decodes or any(re.fullmatch(r"-\w*d\w*|--(d|de|dec|decr|decomp)\w*|-\w*D\w*", arg) for arg in call.args)
    operands = [arg for arg in call.args if not arg.startswith("-")]
    if call.name == "openssl":
        return _openssl(call, decodes)
    if call.name in _REPLACES and not any(_KEEPS.fullmatch(arg) for arg in call.args):
        for path in operands:
            call.machine.note("delete", call.place(path)[0])
    text = "".join(read(call, path) for path in operands) if operands else call.input()
    carried = "".join(mark for mark in marks_in(text) if mark in "\ue003\ue005\ue006")
    if call.name in ("gpg", "gpg2") and any("export-secret" in arg for arg in call.args):
        call.report(SECRET_READ, "shows secret keys")
        return "\ue005"
    return (DECODED if decodes else LOCAL) + carried + "\n"


def _openssl(call: Call, decodes: bool) -> str | None:
    if call.args[:1] == ["s_client"]:
        named = [value for flag, value in zip(call.args, call.args[1:], strict=False) if flag in ("-connect", "-host")]
        return judge_telnet(call.again(["telnet", *named]))
    from_file = [
        value for flag, value in zip(call.args, call.args[1:], strict=False) if flag in ("-in", "-inkey", "-key")
    ]
    text = "".join(read(call, path) for path in from_file) or call.input()
    for flag, value in zip(call.args, call.args[1:], strict=False):
        if flag == "-out":
            write(call, value, content=text)
    kind = call.args[0] if call.args else ""
    if (
        kind in ("base64", "enc")
        and is_plain(text)
        and not any(arg.startswith(("-aes", "-des", "-k", "-pass", "-bf")) for arg in call.args)
    ):
        return decode_base(text, "base64") if decodes else encode_base(text, "base64") + "\n"
    carried = "".join(mark for mark in marks_in(text) if mark in "\ue003\ue005\ue006")
    return (DECODED if decodes else LOCAL) + carried + "\n"


def judge_seq(call: Call) -> str | None:
    """seq prints numbers; a long run becomes its ends and an unknown number."""
    options = parse_options([arg for arg in call.args if not re.fullmatch(r"-\d+", arg)], "fs", ("separator", "format"))
    numbers = [int(arg) for arg in call.args if re.fullmatch(r"-?\d{1,9}", arg)]
    if not numbers or len(numbers) != len(options.operands) + sum(1 for a in call.args if re.fullmatch(r"-\d+", a)):
        return NUMBER + "\n"
    first, step, last = (
        (1, 1, numbers[0]) if len(numbers) == 1 else (numbers[0], 1, numbers[1]) if len(numbers) == 2 else numbers[:3]
    )
    separator = options.value("s", "separator") or "\n"
    if step == 0 or abs(last - first) // abs(step) > 64:
        return joined((str(first), str(last), NUMBER + NUMBER), separator) + "\n"
    return joined((str(n) for n in range(first, last + (1 if step > 0 else -1), step)), separator) + "\n"


def judge_yes(call: Call) -> str | None:
    """yes repeats a line."""
    return (" ".join(call.args) or "y") + "\n" + ENDLESS


def judge_sort(call: Call) -> str | None:
    """sort, uniq, comm, join, paste: filters; sort can write a file and start a compressor."""
    options = parse_options(
        call.args,
        "koStTd",
        (
            "key",
            "output",
            "buffer-size",
            "field-separator",
            "compress-program",
            "temporary-directory",
            "parallel",
            "batch-size",
            "files0-from",
        ),
    )
    if call.name == "sort":
        program = options.value("compress-program")
        if program:
            run_program(call, program, "a compressor")
        if options.value("o", "output"):
            write(call, options.value("o", "output") or "")
    text = inputs(call, options.operands if call.name != "uniq" else options.operands[:1])
    if call.name == "uniq" and len(options.operands) > 1:
        write(call, options.operands[1])
    if ENDLESS in text and call.name == "sort":
        call.report(EXHAUSTION, "keeps what never ends in memory")
    if not is_known(text):
        return text
    if call.name == "sort" and not options.has("n", "k", "key", "h", "V", "u", "M", "g", "R", "random-sort"):
        return "".join(sorted(text.splitlines(keepends=True), reverse=options.has("r", "reverse")))
    if call.name == "paste" and options.has("s"):
        glue = "\t" if options.value("d") is None else (options.value("d") or "")[:1]
        return glue.join(text.rstrip("\n").split("\n")) + "\n"
    return text


def judge_urldecode(call: Call) -> str | None:
    """urldecode and jq -r @… are decoders."""
    text = inputs(call, [arg for arg in call.args if not arg.startswith("-")])
    return urllib.parse.unquote(text) if is_plain(text) else unknown_like(text)


def judge_grep_output(call: Call) -> str | None:
    """A filter that keeps some lines of its input, nobody knows which."""
    return unknown_like(call.input()).replace(UNSET, LOCAL) + "\n"


JUDGES: dict[str, Judge] = {
    "echo": judge_echo,
    "printf": judge_printf,
    "print": judge_echo,
    **dict.fromkeys(
        names(
            """
cat less more bat batcat nl fold fmt expand unexpand pv most column pr
"""
        ),
        judge_cat,
    ),
    **dict.fromkeys(("head", "tail"), judge_head),
    **dict.fromkeys(("rev", "tac"), judge_rev),
    "tr": judge_tr,
    "cut": judge_cut,
    **dict.fromkeys(("base64", "base32", "basenc", "gbase64"), judge_base),
    "xxd": judge_xxd,
    **dict.fromkeys(
        names(
            """
gunzip zcat gzip bzip2 bunzip2 bzcat xz unxz xzcat zstd zstdcat unzstd lz4 lz4cat lzma uncompress openssl gpg
gpg2 uudecode age funzip unlzma lzcat brotli pigz unpigz ascii85 qprint uncrypt ccdecrypt mcrypt mdecrypt
steghide zipgrep recode
"""
        ),
        judge_decoder,
    ),
    "seq": judge_seq,
    "yes": judge_yes,
    **dict.fromkeys(("sort", "uniq", "comm", "join", "paste", "shuf"), judge_sort),
    "urldecode": judge_urldecode,
}
