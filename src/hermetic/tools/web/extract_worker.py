"""Reads the text of a page: HTML and PDF as markdown. Run as a program.

A page can be made so that parsing it takes hours or all memory. Only a process with limits can be
ended then.
"""

import codecs
import io
import json
import re
import resource
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import urljoin

SHORT = 200  # characters of a page that is perhaps built by scripts
SCRIPTED = "the page builds its text with scripts, which are not run here; it needs a browser"

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
# Names that pages use for a larger set of characters.
_MEANT = {
    "iso-8859-1": "cp1252",
    "latin1": "cp1252",
    "us-ascii": "cp1252",
    "ascii": "cp1252",
    "iso-8859-9": "cp1254",
    "shift_jis": "cp932",
    "x-sjis": "cp932",
    "sjis": "cp932",
    "windows-31j": "cp932",
    "euc-kr": "cp949",
    "ks_c_5601-1987": "cp949",
    "windows-949": "cp949",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "x-gbk": "gb18030",
    "windows-936": "gb18030",
    "tis-620": "cp874",
    "windows-874": "cp874",
    "iso-8859-8-i": "iso-8859-8",
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


# -- HTML
_DROPPED = frozenset(
    str.split("""
    head script style noscript template svg math iframe frame object embed applet canvas audio video map button select
    option datalist input textarea progress meter dialog nav footer
""")
)
_BLOCKS = frozenset(
    str.split("""
    address article aside body center dd details div dl dt fieldset figcaption figure form h1 h2 h3 h4 h5 h6 header
    hgroup li main ol p section summary table tbody td tfoot th thead tr ul caption legend
""")
)
_ROLES = frozenset(
    str.split("""
    navigation banner contentinfo search dialog alertdialog complementary menu menubar toolbar
""")
)
# Words in a class or id of parts that are not the page's own text.
_BESIDES = frozenset(
    str.split("""
    cookie cookies consent gdpr cookie-banner cookie-consent cookie-notice navbar nav navigation sidebar breadcrumb
    breadcrumbs share sharing social social-share newsletter subscribe promo advert advertisement ads ad sponsored
    related related-posts popup modal overlay pagination pager skip-link skiplink headerlink anchor-link permalink
    linenos lineno line-numbers gutter copybtn edit-page sr-only visually-hidden screen-reader-text
""")
)
_NOTES = re.compile(
    r"note|tip|warning|caution|danger|important|admonition|callout|info", re.IGNORECASE
)
_HIDDEN = re.compile(
    r"display\s*:\s*none|visibility\s*:\s*hidden|font-size\s*:\s*0(?![.\d]*[1-9])|opacity\s*:\s*0(?![.\d]*[1-9])"
    r"|(?:left|top|text-indent)\s*:\s*-\d{3,}",
    re.IGNORECASE,
)
_LANGUAGE = re.compile(
    r"(?:^|\s)(?:lang(?:uage)?-|highlight-source-|highlight-|brush:\s*)([A-Za-z][\w+#.-]*)"
)
_NO_LANGUAGE = ("default", "none", "text", "plain", "plaintext", "notranslate")
_SPACE = re.compile(r"[ \t\r\n\f\u00a0]+")
_WRAPS = {"strong": "**", "b": "**", "em": "*", "i": "*", "del": "~~", "s": "~~"}
Leave = Callable[[], None]  # writes the end of a node
Attributes = dict[str, str | None]


class Markdown:
    """Writes nodes as markdown, in document order and without recursion: pages can be nested
    arbitrarily deep.
    """

    def __init__(self, base: str, share: Callable[[Any], float]) -> None:
        self._base, self._share = base, share
        self._blocks: list[tuple[bool, str]] = []  # whether it belongs to a list, text
        self._inline: list[str] = []
        self._frames: list[list[str]] = []  # prefix of the next line, prefix of the lines after it
        self._lists: list[int | None] = []  # number of the next item; None: without numbers
        self._rows: list[list[list[str]]] = []  # of open tables
        self._closed = 0  # open elements in which blocks are inline: links, cells

    def of(self, root: Any) -> str:
        """The markdown of a node and all below it."""
        leaves: list[Leave] = []
        node, depth = root, 0
        while True:
            leave = self._enter(node)
            child = None if leave is None else node.first_child
            if child is not None and leave is not None:
                leaves.append(leave)
                node, depth = child, depth + 1
                continue
            if leave is not None:
                leave()
            while depth and node.next is None:
                leaves.pop()()
                node, depth = node.parent, depth - 1
            if not depth:
                break
            node = node.next
        self._flush()
        return self._whole()

    def _whole(self) -> str:
        pieces: list[str] = []
        before = False
        for in_list, text in self._blocks:
            if pieces:
                pieces.append("\n" if before and in_list else "\n\n")
            pieces.append(text)
            before = in_list
        return "".join(pieces)

    # -- blocks
    def _flush(self) -> None:
        """Ends a block, where blocks can be."""
        if self._closed:
            self._inline.append(" ")
            return
        text = _tidy("".join(self._inline))
        self._inline = []
        if text:
            self._emit(text)

    def _emit(self, text: str) -> None:
        lines = []
        for line in text.split("\n"):
            lines.append(("".join(frame[0] for frame in self._frames) + line).rstrip())
            for frame in self._frames:
                frame[0] = frame[1]
        self._blocks.append((bool(self._lists), "\n".join(lines)))

    def _enter(self, node: Any) -> Leave | None:
        """Writes the start of a node; what writes its end, or None for a node that is left out with
        all below it.
        """
        tag = node.tag
        if tag == "-text":
            self._inline.append(_SPACE.sub(" ", node.text_content or ""))
            return None
        if tag is None or tag.startswith("-") or tag in _DROPPED:
            return None
        about = node.attributes
        if self._is_left_out(node, tag, about):
            return None
        if special := self._ELEMENTS.get(tag):
            return special(self, node, about)
        if tag in _WRAPS:
            return self._wrapped(lambda text: f"{_WRAPS[tag]}{text}{_WRAPS[tag]}")
        if tag in ("code", "kbd", "samp", "tt"):
            return self._wrapped(_code)
        if tag == "sup":
            return self._wrapped(lambda text: f"^{text}")
        if tag in ("h1", "h2", "h3", "h4", "h5", "h6") and not self._closed:
            return self._block(f"{'#' * int(tag[1])} ", "")
        if tag in _BLOCKS:
            self._flush()
            return self._flush
        return _nothing

    def _is_left_out(self, node: Any, tag: str, about: Attributes) -> bool:
        if (
            "hidden" in about
            or about.get("aria-hidden") == "true"
            or _HIDDEN.search(about.get("style") or "")
        ):
            return True
        if not about and tag not in ("header", "aside"):
            return False
        words = f"{about.get('class') or ''} {about.get('id') or ''}".lower().split()
        if tag == "aside":
            return not any(map(_NOTES.search, words))
        if tag == "header":
            return self._is_minor(node) and node.css_first("h1") is None
        if (about.get("role") or "").lower() in _ROLES or not _BESIDES.isdisjoint(words):
            return self._is_minor(node)
        return False

    def _is_minor(self, node: Any) -> bool:
        """True for a part that is less than half of the page."""
        return self._share(node) < 0.5

    def _block(self, first: str, rest: str) -> Leave:
        """A block whose lines have prefixes."""
        self._flush()
        self._frames.append([first, rest])

        def leave() -> None:
            self._flush()
            self._frames.pop()

        return leave

    def _wrapped(self, wrap: Callable[[str], str]) -> Leave:
        """Inline text that is written as `wrap` says, once it is complete."""
        outer, self._inline = self._inline, []
        self._closed += 1

        def leave() -> None:
            self._closed -= 1
            whole, self._inline = "".join(self._inline), outer
            if text := _tidy(whole).replace("\n", " "):
                before, after = (" " if whole[at].isspace() else "" for at in (0, -1))
                outer.append(f"{before}{wrap(text)}{after}")
            elif whole:
                outer.append(" ")

        return leave

    # -- elements
    def _br(self, node: Any, about: Attributes) -> None:
        self._inline.append(" " if self._closed else "\n")

    def _hr(self, node: Any, about: Attributes) -> None:
        self._flush()
        if not self._closed:
            self._emit("---")

    def _a(self, node: Any, about: Attributes) -> Leave:
        address = (about.get("href") or "").strip()
        if (
            not address
            or address.startswith("#")
            or re.match(r"(?i)(?:javascript|data|vbscript):", address)
        ):
            return _nothing
        target = _joined(self._base, address)
        return self._wrapped(lambda text: f"[{text}]({target})" if text.strip("¶#§🔗 ") else "")

    def _img(self, node: Any, about: Attributes) -> None:
        text, address = (
            _tidy(about.get("alt") or "").replace("\n", " "),
            (about.get("src") or "").strip(),
        )
        if text:
            is_inside = not address or address.lower().startswith("data:")
            self._inline.append(
                f"[IMAGE: {text}]" if is_inside else f"![{text}]({_joined(self._base, address)})"
            )

    def _pre(self, node: Any, about: Attributes) -> None:
        for one in node.css("br"):
            one.replace_with("\n")
        for one in node.css(".linenos, .lineno, .line-numbers-rows, button"):
            one.decompose()
        text = (node.text() or "").replace("\r\n", "\n").strip("\n")
        if self._closed:
            self._inline.append(_code(_tidy(text).replace("\n", " ")) if text.strip() else "")
            return
        self._flush()
        fence = "`" * max(3, 1 + max(map(len, re.findall(r"`+", text)), default=0))
        if text.strip():
            self._emit(f"{fence}{_language(node)}\n{text}\n{fence}")

    def _blockquote(self, node: Any, about: Attributes) -> Leave:
        return self._block("> ", "> ")

    def _ul(self, node: Any, about: Attributes) -> Leave:
        return self._listed(None)

    def _ol(self, node: Any, about: Attributes) -> Leave:
        start = about.get("start") or "1"
        return self._listed(int(start) if start.isdecimal() else 1)

    def _listed(self, number: int | None) -> Leave:
        self._flush()
        self._lists.append(number)

        def leave() -> None:
            self._flush()
            self._lists.pop()

        return leave

    def _li(self, node: Any, about: Attributes) -> Leave:
        number = self._lists[-1] if self._lists else None
        if self._lists and number is not None:
            self._lists[-1] = number + 1
        mark = "- " if number is None else f"{number}. "
        return self._block(mark, " " * len(mark))

    def _dd(self, node: Any, about: Attributes) -> Leave:
        return self._block(": ", "  ")

    # -- tables
    def _table(self, node: Any, about: Attributes) -> Leave:
        if (
            self._closed
            or about.get("role") in ("presentation", "none")
            or node.css_first("td table, td pre, th pre")
        ):
            self._flush()
            return self._flush
        self._flush()
        self._rows.append([])

        def leave() -> None:
            rows = [row for row in self._rows.pop() if any(row)]
            columns = max(map(len, rows), default=0)
            if columns == 1:
                self._emit("\n".join(row[0] for row in rows))
            elif rows:
                lines = [[*row, *[""] * (columns - len(row))] for row in rows]
                lines.insert(1, ["---"] * columns)
                self._emit("\n".join(f"| {' | '.join(line)} |" for line in lines))

        return leave

    def _tr(self, node: Any, about: Attributes) -> Leave:
        if not self._rows or self._closed:
            self._flush()
            return self._flush
        self._rows[-1].append([])
        return _nothing

    def _td(self, node: Any, about: Attributes) -> Leave:
        if not self._rows or self._closed or not self._rows[-1]:
            self._flush()
            return self._flush
        row, span = self._rows[-1][-1], about.get("colspan") or "1"
        row.append("")
        at = len(row) - 1
        row += [""] * (min(int(span), 50) - 1 if span.isdecimal() else 0)

        def cell(text: str) -> str:
            row[at] = text.replace("|", "\\|")
            return ""

        return self._wrapped(cell)

    _ELEMENTS: Mapping[str, Callable[["Markdown", Any, Attributes], Leave | None]] = {
        "br": _br,
        "hr": _hr,
        "a": _a,
        "img": _img,
        "pre": _pre,
        "blockquote": _blockquote,
        "ul": _ul,
        "ol": _ol,
        "li": _li,
        "dd": _dd,
        "table": _table,
        "tr": _tr,
        "td": _td,
        "th": _td,
    }


def _nothing() -> None:
    """Ends a node that has no text of its own."""


def _tidy(text: str) -> str:
    """The text without superfluous blanks."""
    return re.sub(r" *\n *", "\n", re.sub(r" {2,}", " ", text)).strip()


def _code(text: str) -> str:
    fence = "`" * (1 + max(map(len, re.findall(r"`+", text)), default=0))
    blank = " " if "`" in text else ""
    return f"{fence}{blank}{text}{blank}{fence}"


def _joined(base: str, address: str) -> str:
    try:
        return urljoin(base, address).replace(" ", "%20").replace("(", "%28").replace(")", "%29")
    except ValueError:
        return address


def _language(pre: Any) -> str:
    nodes = [pre, pre.css_first("code"), pre.parent, pre.parent and pre.parent.parent]
    for node in nodes:
        about = node.attributes if node is not None else {}
        found = _LANGUAGE.search(about.get("class") or "")
        name = (
            found[1] if found else about.get("data-lang") or about.get("data-language") or ""
        ).lower()
        if name and name not in _NO_LANGUAGE:
            return name
    return ""


def read_html(text: str, url: str) -> dict[str, str]:
    """Title and main text of an HTML page."""
    from selectolax.lexbor import LexborHTMLParser

    tree = LexborHTMLParser(text)
    heading = tree.css_first("head > title") or tree.css_first("h1")
    title = _tidy(_SPACE.sub(" ", heading.text() if heading else ""))
    base = tree.css_first("base[href]")
    address = _joined(url, (base.attributes.get("href") or "") if base else "")
    body = tree.body
    if body is None:
        return {"title": title, "text": ""}
    is_scripted, metadata = (
        tree.css_first("script") is not None,
        list(dict.fromkeys(_metadata(tree))),
    )
    tree.strip_tags(["script", "style", "template"])
    whole = max(1, len(body.text()))
    markdown = Markdown(address, lambda node: len(node.text()) / whole).of(
        _main_part(tree, body, whole)
    )
    if len(markdown) >= SHORT or not is_scripted:
        return {"title": title, "text": markdown}
    about = [said for said in metadata if said not in markdown]
    if about or not markdown:
        return {
            "title": title,
            "text": "\n\n".join(filter(None, [markdown, *about])),
            "problem": SCRIPTED,
        }
    return {"title": title, "text": markdown}


def _main_part(tree: Any, body: Any, whole: int) -> Any:
    """The element that holds the page's own text."""
    for selector in ("main", "[role=main]", "article"):
        found = tree.css(selector)
        if len(found) == 1 and len(found[0].text()) > whole / 4:
            return found[0]
    return body


def _metadata(tree: Any) -> Iterator[str]:
    """What the page says about itself for other programs."""
    for script in tree.css('script[type="application/ld+json"]'):
        try:
            waiting = [json.loads(script.text())]
        except (ValueError, RecursionError):
            continue
        while waiting:
            one = waiting.pop(0)
            if isinstance(one, list):
                waiting += one
            elif isinstance(one, dict):
                waiting += [one["@graph"]] if "@graph" in one else []
                yield from (
                    one[name]
                    for name in ("articleBody", "description")
                    if isinstance(one.get(name), str)
                )
    for selector in ('meta[property="og:description"]', 'meta[name="description"]'):
        found = tree.css_first(selector)
        if found is not None and (said := found.attributes.get("content")):
            yield said.strip()


# -- other kinds
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
    return {"title": _tidy(title), "text": "\n\n".join(filter(None, pages))}


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
    sys.path[:] = asked["path"]
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


if __name__ == "__main__":
    main()
