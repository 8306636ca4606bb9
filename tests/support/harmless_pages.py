"""The elements that our pages are made of: whatever else is on one, somebody's text became a part of it."""

from __future__ import annotations

import re

from tests.support.pages import Elements

TAGS = frozenset({
    "a", "article", "aside", "b", "blockquote", "body", "br", "button", "circle", "code", "dd", "defs", "desc",
    "details", "div", "dl", "dt", "em", "figcaption", "figure", "form", "h1", "h2", "h3", "h4", "h5", "h6",
    "head", "header", "hr", "html", "input", "label", "li", "link", "main", "mark", "meta", "nav", "ol", "option",
    "p", "path", "pattern", "pre", "rect", "s", "script", "section", "select", "span", "strong", "summary", "svg",
    "table", "tbody", "td", "text", "th", "thead", "title", "tr", "ul",
})  # fmt: skip
ATTRIBUTES = frozenset({
    "action", "aria-current", "aria-hidden", "aria-label", "aria-labelledby", "aria-live", "autocomplete",
    "autofocus", "charset", "class", "colspan", "content", "cx", "cy", "d", "data-block", "data-lines",
    "data-live", "data-more", "data-place", "data-whole", "defer", "fill", "height", "hidden", "href", "id",
    "lang", "name", "open", "patternunits", "placeholder", "preserveaspectratio", "r", "rel", "role", "scope",
    "selected", "src", "start", "tabindex", "target", "title", "type", "value", "viewbox", "width", "x", "y",
})  # fmt: skip
TAGS_OF_SESSIONS = frozenset({"dialog", "i", "img", "output"})
OF_SESSIONS = frozenset({
    "alt", "aria-pressed", "data-after", "data-copy", "data-copy-part",
    "data-diffs", "data-inside", "data-keys", "data-print", "data-seq", "download",
    "loading", "method",
})  # fmt: skip
OF_LISTS = frozenset({"data-hit", "form", "required"})
SCRIPTS = frozenset(f"/static/{each}.js" for each in ("acting", "list", "live", "page", "search", "session"))
TAGS_OF_FILES, OF_FILES = frozenset({"output", "style"}), frozenset({"data-fold", "data-step", "http-equiv"})
PLACE = re.compile(r"#[\w.]*|[0-9A-Z]{26}\.html")
OWN = re.compile(r"/(?!/)[\w./?=&%+:~-]*|/s/\w+\?after=\d+#prompt")
FILL = re.compile(r"url\(#\w+\)")
FOLLOWED = re.compile(r"https?://|mailto:|#|data:,$")
OF_LIVE_PAGES = frozenset({"data-changes", "data-last", "data-seq", "data-turn"})
OF_FIELDS = frozenset({"checked", "data-act", "inputmode", "method", "required", "rows"})


def wrong(page: str, *, is_file: bool = False) -> list[object]:
    """Whatever of a page is not what our templates and Markdown are made of. ``is_file``: it may lead to no page."""
    found = Elements()
    found.feed(page)
    bad: list[object] = []
    tags = TAGS | TAGS_OF_SESSIONS | (TAGS_OF_FILES if is_file else frozenset())
    known = ATTRIBUTES | OF_SESSIONS | (OF_FILES if is_file else OF_LISTS)
    known |= OF_LIVE_PAGES if is_file else OF_LIVE_PAGES | OF_FIELDS
    tags |= frozenset() if is_file else {"textarea"}
    for tag, attributes in found.found:
        bad += [tag] if tag not in tags else []
        bad += [(tag, name) for name in attributes if name not in known]
        here = "#" if is_file else "/"
        address = attributes.get("href") or attributes.get("src") or attributes.get("action") or here
        is_ours = (PLACE if is_file else OWN).fullmatch(address) is not None
        if not is_ours and not (tag in ("a", "link") and FOLLOWED.match(address)):
            bad.append((tag, address))
        if not FILL.fullmatch(attributes.get("fill") or "url(#own)"):
            bad.append((tag, attributes["fill"]))
        is_own = not attributes if is_file else is_our_script(attributes)
        if tag == "script" and not is_own:
            bad.append((tag, attributes))
    return bad


def is_our_script(attributes: dict[str, str | None]) -> bool:
    return attributes.keys() == {"src", "defer"} and attributes["src"] in SCRIPTS
