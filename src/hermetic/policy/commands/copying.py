"""Copying files between machines: what leaves, and what arrives and is unseen code when it runs."""

from __future__ import annotations

import re

from hermetic.policy.call import Call, Judge
from hermetic.policy.destroys import CLOUD_DESTROYS
from hermetic.policy.effects import read, write
from hermetic.policy.marks import NET, SECRET, shown
from hermetic.policy.network import EXFIL
from hermetic.policy.options import parse_options
from hermetic.policy.paths import resolve
from hermetic.policy.tables import names

from .unseen import UNKNOWN_COMMAND, run_code

_PUT = re.compile(r"-?(put|send|reput|upload|append|mput|mirror\s+(-R|--reverse)|fput|lput)\s+(.+)")
_GET = re.compile(r"-?(get|recv|reget|mget|pget|mirror|download|more|page)\s+(.+)")
_FROM_AFAR = re.compile(r"(s3|gs|az|abfss?|https?|svn|svn\+ssh|hg|oss|cos|b2|r2|oci|docker)://|[\w.@/-]+:(?!//)\S")
_DELETE = re.compile(r"-?(mdelete|mrm|rm|rmdir|delete|del|deltree|rename)\s")


def land(call: Call, target: str, sources: list[str]) -> None:
    """Judge that files arrive from another machine at a target, or by their names inside it."""
    write(call, target)
    full = resolve(target, call.shell)
    call.shell.files.pop(full, None)
    arrived = [f"{full.rstrip('/')}/{re.split('[/:]', source.rstrip('/'))[-1]}" for source in sources]
    if target.endswith(("/", ".")) or full in ("/tmp", "/var/tmp", call.shell.home, call.shell.workspace):
        call.shell.fetched.update(path for path in arrived if path != full + "/")
    else:
        call.shell.fetched.update((full, *arrived))


def leave(call: Call, path: str) -> None:
    """Judge that a file goes to another machine."""
    if SECRET in read(call, path, tree=True):
        call.report(EXFIL, f"sends credentials to another machine: {shown(path)}")


def is_remote(path: str) -> bool:
    """True for `host:path` and for addresses."""
    return ":" in path.split("/", 1)[0] or "://" in path


def judge_scp(call: Call) -> str | None:
    """scp and sftp copy between machines; -S and -D run a program here."""
    options = parse_options(call.args, "cFiJloPSDXbBs", ())
    for program in options.values("S", "D"):
        call.run([program])
        call.report(UNKNOWN_COMMAND, f"runs a program: {shown(program)}")
    for setting in options.values("o"):
        if setting.lower().startswith(("proxycommand", "localcommand")):
            run_code(call, setting.partition("=")[2], "an option of ssh")
            call.report(UNKNOWN_COMMAND, f"runs a program here: {shown(setting)}")
    words = options.operands
    if call.name == "sftp":
        batch = options.value("b")
        _script(call, read(call, batch) if batch else call.stdin or "")
        if len(words) == 1 and ":" in words[0]:
            words = [words[0], "."]
    if len(words) < 2:
        return None
    *sources, target = words
    if is_remote(target):
        for path in sources:
            if not is_remote(path):
                leave(call, path)
    else:
        land(call, target, [path for path in sources if is_remote(path)])
    return None


def _script(call: Call, text: str) -> None:
    """The lines of a transfer program's script: files sent, files fetched, files deleted, commands run here."""
    for line in re.split(r"[\n;]", text):
        line = line.strip()
        if line.startswith("!"):
            run_code(call, line[1:], call.name)
        elif match := _PUT.match(line):
            leave(call, _first_path(match[3]).replace("~", call.shell.home, 1))
        elif _DELETE.match(line):
            call.report(CLOUD_DESTROYS, "deletes files on another machine")
        elif match := _GET.match(line):
            words = [word for word in match[2].split() if not word.startswith("-")]
            if words:
                land(call, words[1] if len(words) > 1 else "./", words[:1])


def _first_path(text: str) -> str:
    return next((word.strip("'\"") for word in text.split() if not word.startswith("-")), "")


def judge_ftp(call: Call) -> str | None:
    """ftp, lftp, tftp, smbclient: their scripts can run local commands, send files and fetch them."""
    words = [arg for arg in call.args if not arg.startswith("-")]
    if call.name in ("ftpput", "ncftpput", "curlftpfs", "smbput"):
        for path in words:
            leave(call, path)
        return None
    if call.name in ("ftpget", "ncftpget", "smbget"):
        land(call, "./", words)
        return None
    flags = ("-c", "-e", "--command")
    texts = [value for flag, value in zip(call.args, call.args[1:], strict=False) if flag in flags]
    if call.name in ("tftp", "atftp") and "-g" in call.args:
        options = parse_options(call.args, "rlp")
        land(call, options.value("l") or "./", options.values("r", "l"))
    elif call.name in ("tftp", "atftp"):
        texts.append(" ".join(word for word in call.args if not word.startswith("-") or word == "-R").partition(" ")[2])
    for text in [*texts, call.stdin or ""]:
        _script(call, text)
    return NET


def judge_cloud_copy(call: Call) -> None:
    """Remember what a cloud's, an engine's or a repository's client brings here."""
    words = [arg for arg in call.args if not arg.startswith("-")]
    verbs = " ".join(words[:3])
    if not re.search(r"\b(cp|copy|copyto|sync|download|export|checkout|co|clone|mirror|pull|rsync)\b", verbs):
        return
    given = parse_options(
        call.args, "fodDp", ("file", "output", "dir", "local-dir", "destination", "pattern", "path")
    ).given
    for name, value in given:
        if (
            value
            and name in ("f", "o", "file", "output", "dir", "local-dir", "D", "destination", "path")
            and "/" not in value[:1]
        ):
            call.shell.fetched.add(resolve(value, call.shell))
        elif value and name in ("p", "pattern"):
            land(call, "./", [value])
    remote = [word for word in words if _comes_from_afar(word)]
    if remote and len(words) > 1:
        target = words[-1] if words[-1] is not remote[-1] else "./"
        if not _comes_from_afar(target):
            land(call, target if target != "." else "./", remote)


def _comes_from_afar(word: str) -> bool:
    return bool(_FROM_AFAR.match(word))


def with_copies(judges: dict[str, Judge], fallback: Judge) -> dict[str, Judge]:
    """The same judges for programs that bring files from elsewhere, with that added."""

    def joined(judge: Judge) -> Judge:
        def both(call: Call) -> str | None:
            judge_cloud_copy(call)
            return judge(call)

        return both

    carriers = names(
        "aws gsutil gcloud az rclone mc s3cmd s5cmd b2 docker podman kubectl oc gh glab svn hg huggingface-cli hf"
    )
    return {name: joined(judges.get(name, fallback)) for name in carriers}


JUDGES: dict[str, Judge] = {
    **dict.fromkeys(("scp", "sftp", "pscp", "rcp", "psftp"), judge_scp),
    **dict.fromkeys(
        names("ftp lftp tftp atftp smbclient ncftp ncftpput ncftpget ftpput ftpget tnftp smbget curlftpfs"), judge_ftp
    ),
}
