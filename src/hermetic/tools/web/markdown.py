"""HTML as markdown: the main text of a page, in one walk over its parsed tree."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import urljoin

SHORT = 200  # characters of a page that is perhaps built by scripts
SCRIPTED = "the page builds its text with scripts, which are not run here; it needs a browser"

_DROPPED = frozenset(
    str.split("""
    head script style noscript template svg math iframe frame object embed applet canvas audio video map button select
    option datalist input textarea progress meter dialog nav footer
""")
)
_BLOCKS = frozenset(
    str.split("""
    address article aside blockquote body center dd details div dl dt fieldset figcaption figure form
    h1 h2 h3 h4 h5 h6 header hgroup li main ol p section summary table tbody td tfoot th thead tr ul caption legend
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
# Blocks whose first line and whose others have prefixes.
_PREFIXES = {
    **{f"h{level}": (f"{'#' * level} ", "") for level in range(1, 7)},
    "blockquote": ("> ", "> "),
    "dd": (": ", "  "),
}
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
        text = tidy("".join(self._inline))
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
        if tag in _INLINE:
            return self._wrapped(_INLINE[tag])
        if tag in _PREFIXES and not self._closed:
            return self._block(*_PREFIXES[tag])
        if tag in _BLOCKS:
            self._flush()
            return self._flush
        return _nothing

    def _is_left_out(self, node: Any, tag: str, about: Attributes) -> bool:
        is_hidden = "hidden" in about or about.get("aria-hidden") == "true"
        if is_hidden or _HIDDEN.search(about.get("style") or ""):
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
            if text := tidy(whole).replace("\n", " "):
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
        if re.match(r"(?i)$|#|(?:javascript|data|vbscript):", address):
            return _nothing
        target = _joined(self._base, address)
        return self._wrapped(lambda text: f"[{text}]({target})" if text.strip("¶#§🔗 ") else "")

    def _img(self, node: Any, about: Attributes) -> None:
        address = (about.get("src") or "").strip()
        if text := tidy(about.get("alt") or "").replace("\n", " "):
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
            self._inline.append(_code(tidy(text).replace("\n", " ")) if text.strip() else "")
            return
        self._flush()
        fence = "`" * max(3, 1 + max(map(len, re.findall(r"`+", text)), default=0))
        if text.strip():
            self._emit(f"{fence}{_language(node)}\n{text}\n{fence}")

    def _list(self, node: Any, about: Attributes) -> Leave:
        start = about.get("start") or "1"
        self._flush()
        self._lists.append((int(start) if start.isdecimal() else 1) if node.tag == "ol" else None)

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

    # -- tables
    def _table(self, node: Any, about: Attributes) -> Leave:
        self._flush()
        is_layout = about.get("role") in ("presentation", "none")
        if self._closed or is_layout or node.css_first("td table, td pre, th pre"):
            return self._flush
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
        "ul": _list,
        "ol": _list,
        "li": _li,
        "table": _table,
        "tr": _tr,
        "td": _td,
        "th": _td,
    }


def _nothing() -> None:
    """Ends a node that has no text of its own."""


def tidy(text: str) -> str:
    """The text without superfluous blanks."""
    return re.sub(r" *\n *", "\n", re.sub(r" {2,}", " ", text)).strip()


def _code(text: str) -> str:
    fence = "`" * (1 + max(map(len, re.findall(r"`+", text)), default=0))
    blank = " " if "`" in text else ""
    return f"{fence}{blank}{text}{blank}{fence}"


_INLINE: Mapping[str, Callable[[str], str]] = {
    **dict.fromkeys(("strong", "b"), "**{}**".format),
    **dict.fromkeys(("em", "i"), "*{}*".format),
    **dict.fromkeys(("del", "s"), "~~{}~~".format),
    **dict.fromkeys(("code", "kbd", "samp", "tt"), _code),
    "sup": "^{}".format,
}


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
    title = tidy(_SPACE.sub(" ", heading.text() if heading else ""))
    base = tree.css_first("base[href]")
    address = _joined(url, (base.attributes.get("href") or "") if base else "")
    body = tree.body
    if body is None:
        return {"title": title, "text": ""}
    is_scripted, metadata = tree.css_first("script") is not None, dict.fromkeys(_metadata(tree))
    tree.strip_tags(["script", "style", "template"])
    whole = max(1, len(body.text()))
    writer = Markdown(address, lambda node: len(node.text()) / whole)
    markdown = writer.of(_main_part(tree, body, whole))
    about = [said for said in metadata if said not in markdown]
    if len(markdown) >= SHORT or not is_scripted or (markdown and not about):
        return {"title": title, "text": markdown}
    text = "\n\n".join(filter(None, [markdown, *about]))
    return {"title": title, "text": text, "problem": SCRIPTED}


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
