"""Text of others as HTML that shows it and does nothing: no script, no request, no letter that hides or turns others.

Everything that a template shows passes ``plain`` or is escaped by it; Markdown becomes elements of a fixed set.
"""

from __future__ import annotations

from functools import cache
from itertools import chain
from typing import TYPE_CHECKING

from markdown_it import MarkdownIt
from markupsafe import Markup, escape

from backstory.derive import harmless
from backstory.lazy import lazy_regex
from backstory.web.colour import Palette, grammar_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from markdown_it.renderer import RendererHTML
    from markdown_it.token import Token
    from markdown_it.utils import EnvType, OptionsDict

NESTING_MOST = 20
"""Deeper lists and quotes are text: a hostile answer would cost a deep stack."""
FOLLOWED = lazy_regex(r"(?i)(?:https?://|mailto:)")
"""The links that a person may follow; others are shown as they are named."""
FENCE_NAME = lazy_regex(r"[\w.+#-]+")
"""The language that a fence names first."""

SIDES = ("left", "center", "right")


def plain(text: str) -> str:
    """A text in which what would act on the reader is an escape that can be read."""
    return harmless.clean(text)


def markdown(text: str, palette: Palette | None = None) -> Markup:
    """Markdown as HTML. Images and HTML in it stay text; a link to elsewhere opens a page of its own.

    ``palette``: colours the code in it.
    """
    return Markup(_parser().render(plain(text), {"palette": palette}))


def marked(text: str, marks: Iterable[tuple[int, int]]) -> Markup:
    """A text in which these places, as (start, end) in characters, are marked."""
    found, end = list[Markup](), 0
    for start, stop in sorted(marks):
        if start >= end:
            found += [_shown(text[end:start]), Markup("<mark>{}</mark>").format(_shown(text[start:stop]))]
            end = stop
    return Markup().join([*found, _shown(text[end:])])


def _shown(text: str) -> Markup:
    return escape(plain(text))


@cache
def _parser() -> MarkdownIt:
    found = MarkdownIt("commonmark", {"html": False, "maxNesting": NESTING_MOST}).enable(["table", "strikethrough"])
    found.add_render_rule("link_open", _link_open)
    found.add_render_rule("image", _image)
    for name in ("th_open", "td_open"):
        found.add_render_rule(name, _cell_open)
    found.add_render_rule("fence", _fence)
    return found


def _fence(_r: RendererHTML, tokens: Sequence[Token], at: int, _o: OptionsDict, env: EnvType) -> str:
    says = FENCE_NAME.match(tokens[at].info)
    palette: Palette = env["palette"] or Palette(0)
    lines = palette.lines(tokens[at].content, grammar_of(says.group() if says else ""))
    return Markup("<pre><code>{}</code></pre>\n").format(Markup("\n").join(lines))


def _link_open(_r: RendererHTML, tokens: Sequence[Token], at: int, _o: OptionsDict, _e: EnvType) -> str:
    href = str(tokens[at].attrGet("href") or "")
    if not FOLLOWED.match(href):
        return "<a>"
    return Markup('<a href="{}" rel="noopener noreferrer" target="_blank">').format(href)


def _cell_open(_r: RendererHTML, tokens: Sequence[Token], at: int, _o: OptionsDict, _e: EnvType) -> str:
    side = str(tokens[at].attrGet("style") or "").removeprefix("text-align:")
    # The policy of a page allows no style of an element.
    return f'<{tokens[at].tag} class="to-{side}">' if side in SIDES else f"<{tokens[at].tag}>"


def _image(_r: RendererHTML, tokens: Sequence[Token], at: int, _o: OptionsDict, _e: EnvType) -> str:
    words = "".join(each.content for each in chain(tokens[at].children or []))
    return Markup('<span class="image">[image: {}]</span>').format(words or str(tokens[at].attrGet("src") or ""))
