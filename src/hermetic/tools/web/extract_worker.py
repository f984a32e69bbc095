"""Reads the text of a page: HTML and PDF as markdown. `extract` runs it as a program.

A page can be made so that parsing it takes hours or all memory. Only a process with limits can be
ended then.
"""

import codecs
import io
import json
import re
import resource
import sys

from hermetic.tools.web.markdown import read_html

# -- characters
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_META = re.compile(rb"<meta[^>]{0,256}?charset\s*=\s*[\"']?\s*([\w.:-]{2,40})", re.IGNORECASE)
_XML = re.compile(rb"<\?xml[^>]{0,256}?encoding\s*=\s*[\"']([\w.:-]{2,40})", re.IGNORECASE)
_CODECS = re.compile(
    r"utf-?8|utf-?16(?:[lb]e|-[lb]e)?|iso-?8859-?\d{1,2}|windows-\d{3,4}|cp\d{3,4}|koi8-[ru]|euc-(?:jp|kr)|shift_jis|big5"
    r"|big5-hkscs|gb2312|gbk|gb18030|iso-2022-jp|macintosh|mac-roman|tis-620"
)
# Names that pages use for a larger set of characters: the set, and these names.
_MEANT = {
    name: larger
    for larger, *names in map(
        str.split,
        """\
cp1252 iso-8859-1 latin1 us-ascii ascii
cp1254 iso-8859-9
cp932 shift_jis x-sjis sjis windows-31j
cp949 euc-kr ks_c_5601-1987 windows-949
gb18030 gb2312 gbk x-gbk windows-936
cp874 tis-620 windows-874
iso-8859-8 iso-8859-8-i""".splitlines(),
    )
    for name in names
}
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x84\x86-\x9f\u00ad\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)


def decode(body: bytes, charset: str) -> str:
    """The text of a page: by its byte order mark, its header, its own declaration, else by its
    bytes.
    """
    for mark, name in _MARKS:
        if body.startswith(mark):
            return body[len(mark) :].decode(name, "replace")
    start = body[:4096]
    declared = [
        found[1].decode("ascii").lower()
        for pattern in (_META, _XML)
        if (found := pattern.search(start))
    ]
    for label in (charset, *declared):
        name = _MEANT.get(label, label)
        if _is_known(name):
            return body.decode(
                "utf-8" if name.startswith("utf-16") and label in declared else name, "replace"
            )
    try:
        return codecs.getincrementaldecoder("utf-8")().decode(body)  # the last character may be cut
    except UnicodeDecodeError:
        from charset_normalizer import from_bytes

        best = from_bytes(body[: 1 << 16]).best()
        return body.decode(best.encoding if best else "cp1252", "replace")


def _is_known(name: str) -> bool:
    """True for a set of characters of the web. Python knows others too, which are none for text."""
    try:
        codecs.lookup(name)
    except (LookupError, ValueError):
        return False
    return name in _MEANT.values() or _CODECS.fullmatch(name) is not None


# -- kinds of pages
def read_pdf(body: bytes, most: int) -> dict[str, str]:
    """Title and text of a PDF document."""
    from pypdf import PdfReader
    from pypdf.errors import DependencyError

    try:
        reader = PdfReader(io.BytesIO(body))
        if reader.is_encrypted and not reader.decrypt(""):
            return {"error": "the PDF is protected by a password"}
        pages, size = [], 0
        for number, page in enumerate(reader.pages, 1):
            text = re.sub(r"[ \t]+\n", "\n", page.extract_text()).strip()
            pages.append(f"[page {number}]\n\n{text}" if text else "")
            size += len(text)
            if size > most:
                break
        title = str((reader.metadata and reader.metadata.title) or "")
    except MemoryError:
        raise
    except DependencyError:
        return {"error": "the PDF is encrypted; pip install cryptography to read such documents"}
    except Exception as error:  # of many types, with texts that may quote the document
        return {"error": f"the PDF cannot be read: {type(error).__name__}"}
    if not any(pages):
        return {"error": "the PDF has no text; it may consist of images"}
    return {"title": " ".join(title.split()), "text": "\n\n".join(filter(None, pages))}


def read(body: bytes, kind: str, charset: str, url: str, most: int) -> dict[str, str]:
    """`title`, `text` and `problem` of a page, or `error`."""
    if body[:1024].lstrip().startswith(b"%PDF-"):
        return read_pdf(body, most)
    is_wide = charset.startswith("utf-16") or body.startswith(
        (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
    )
    if b"\0" in body[:4096] and not is_wide:
        return {"error": f"this is no text but {kind or 'binary data'}"}
    text = decode(body, charset)
    if "html" in kind or (
        "xml" not in kind
        and re.match(r"\s*(?:<!--.{0,1000}?-->\s*)?<(?:!doctype html|html)", text, re.I | re.S)
    ):
        return read_html(text, url)
    return {"title": "", "text": text.strip()}


def main() -> None:
    """Reads one page from stdin: a line with its description and the limits, then its bytes.

    Answers JSON.
    """
    asked = json.loads(sys.stdin.buffer.readline())
    resource.setrlimit(resource.RLIMIT_AS, (asked["memory"], asked["memory"]))
    resource.setrlimit(resource.RLIMIT_CPU, (asked["seconds"], asked["seconds"]))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    body, most = sys.stdin.buffer.read(), asked["characters"]
    try:
        answer = read(body, asked["kind"], asked["charset"], asked["url"], most)
    except MemoryError:
        answer = {"error": "the page needs too much memory to be read"}
    except Exception as error:  # whatever a parser raises for a page that is made to break it
        answer = {"error": f"the page cannot be read: {type(error).__name__}"}
    if "text" in answer:
        answer["text"] = _UNSEEN.sub("", answer["text"][:most])
        answer["title"] = _UNSEEN.sub("", answer["title"])[:500]
    sys.stdout.write(json.dumps(answer))
