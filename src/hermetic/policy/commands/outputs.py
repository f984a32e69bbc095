"""Programs that write where an option or an operand says, besides what their own judge knows of them."""

import msgspec

from hermetic.policy.call import Call, Judge
from hermetic.policy.effects import write


class Outputs(msgspec.Struct, frozen=True):
    """Where a program writes: options whose value is a path, and which operands are paths it writes."""

    options: tuple[str, ...] = ()
    operands: str = ""  # "", "last" of several, or "all"
    needs: str = ""  # an argument without which it writes nothing


_COMPILER = Outputs(("-o", "--output", "--out-dir", "--output-dir", "-MF"))
_CONVERTER = Outputs((), "last")
_INSTALLER = Outputs(("--target", "--prefix", "--root", "--install-dir"))
_EDITOR = Outputs((), "all")
WRITERS: dict[str, Outputs] = {
    **dict.fromkeys(
        ("gcc", "g++", "clang", "clang++", "cc", "c++", "ld", "as", "rustc", "go", "tcc", "ghc", "nasm", "swiftc"),
        _COMPILER,
    ),
    **dict.fromkeys(("javac", "tsc", "protoc"), Outputs(("-d", "--outDir", "--outFile"))),
    **dict.fromkeys(("convert", "magick", "rsvg-convert", "cwebp", "sox", "gs2pdf", "pdftotext"), _CONVERTER),
    **dict.fromkeys(("objcopy", "strip", "patchelf", "dos2unix", "unix2dos", "mogrify", "chrpath"), _EDITOR),
    **dict.fromkeys(("zstd", "xz", "gzip", "lz4", "brotli"), Outputs(("-o", "--output"))),
    **dict.fromkeys(("shuf", "sort", "pandoc", "dot", "gs", "pdftk", "qpdf", "mkisofs", "genisoimage"), _COMPILER),
    "tcpdump": Outputs(("-w",)),
    "tshark": Outputs(("-w",)),
    "csplit": Outputs(("-f", "--prefix")),
    "script": Outputs((), "last"),
    "xxd": Outputs((), "last", needs="-r"),
    "iconv": Outputs(("-o", "--output")),
    "openssl": Outputs(("-out", "-keyout")),
    "ssh-keyscan": Outputs(),
    **dict.fromkeys(("pip", "pip3", "npm", "cargo", "gem"), _INSTALLER),
    **dict.fromkeys(("nmap", "masscan"), Outputs(("-oN", "-oX", "-oG", "-oA", "-oL", "-oJ"))),
    **dict.fromkeys(("gpg", "gpg2", "age"), Outputs(("-o", "--output"))),
    "cmake": Outputs(("--prefix", "-o")),
    "dpkg-deb": Outputs((), "last", needs="-x"),
    "mktemp": Outputs(("-p", "--tmpdir")),
}
_GUARDED = ("root", "system", "disk", "startup", "kernel", "device", "hook", "log", "history", "elsewhere", "home")


def judge_output(call: Call) -> None:
    """Report what such a program would overwrite outside the workspace."""
    spec = WRITERS[call.name]
    if spec.needs and not any(arg == spec.needs or arg.startswith(spec.needs) for arg in call.args):
        return
    operands: list[str] = []
    args = iter(call.args)
    for arg in args:
        name, equals, value = arg.partition("=")
        if name in spec.options:
            _overwrite(call, value if equals else next(args, ""))
            continue
        glued = next((option for option in spec.options if len(option) == 2 and arg.startswith(option)), None)
        if glued and not arg.startswith("--"):
            _overwrite(call, arg[2:])
        elif not arg.startswith("-"):
            operands.append(arg)
    for path in operands[1:][-1:] if spec.operands == "last" else operands if spec.operands == "all" else ():
        _overwrite(call, path)


def _overwrite(call: Call, path: str) -> None:
    if path and not path.startswith("-") and call.place(path)[1] in _GUARDED:
        write(call, path)


def with_outputs(judges: dict[str, Judge], fallback: Judge) -> dict[str, Judge]:
    """The same judges for these programs, with what they write added."""

    def joined(judge: Judge) -> Judge:
        def both(call: Call) -> str | None:
            judge_output(call)
            return judge(call)

        return both

    return {name: joined(judges.get(name, fallback)) for name in WRITERS}
