"""A session as one HTML file, which asks nobody for anything: the page of a session with all of its blocks.

It is given out piece by piece, a block of entries at a time. The policy in its head allows the one script and the one
style that are in it, by their hashes, and no request.
"""

from __future__ import annotations

import gc
from base64 import b64encode
from hashlib import sha256
from importlib.resources import files
from typing import TYPE_CHECKING

from markupsafe import Markup

from backstory import model
from backstory.errors import RecordNotFound
from backstory.web import listing, reading
from backstory.web.drawing import environment
from backstory.web.markup import plain
from backstory.web.minimap import map_of
from backstory.web.source import related
from backstory.workspace.history.blocks import content_of
from backstory.workspace.history.images import image_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from backstory.model import Event
    from backstory.web.reading import PageEntry
    from backstory.workspace.history.blocks import Content, Key
    from backstory.workspace.located import LocatedSession
    from backstory.workspace.shared_reader import SharedReader

STYLES, SCRIPTS = ("style.css", "file.css"), ("session.js", "file.js")
PIECE_CHARS = 256 * 1024
"""The least characters that are given out at once."""


def session_file(
    reader: SharedReader, located: LocatedSession, now: int, *, beside: Collection[str] = (),
    see: Callable[[Event], None] = lambda event: None,
) -> Iterator[str]:  # fmt: skip
    """The text of the file. ``beside``: the uids of sessions that have files in the same folder, with links to them.

    ``see`` receives each event that is in it.
    """
    return session_page(FileLinks(reader, located, beside), reader, located, now, see)


def session_page(
    links: FileLinks, reader: SharedReader, located: LocatedSession, now: int, see: Callable[[Event], None]
) -> Iterator[str]:
    """The text of a session's page with these links, some of it at a time."""
    held, chars = list[str](), 0
    for piece in _page(links, reader, located, now, see):
        held.append(piece)
        chars += len(piece)
        if chars >= PIECE_CHARS:
            yield "".join(held)
            held, chars = [], 0
    yield "".join(held)


def name_of(uid: str) -> str:
    """The name of a session's file beside those of others."""
    return f"{uid}.html"


def _page(
    links: FileLinks, reader: SharedReader, located: LocatedSession, now: int, see: Callable[[Event], None]
) -> Iterator[str]:
    content = content_of(reader, located)
    listed = content.transcript.session
    parent, children = related(content)
    template = environment(links).get_template("session.html")
    return template.generate(
        row=listing.row(listed, now), folder=plain(listed.said_folder), place="", uid=listed.uid,
        session_uid=listed.uid, parent=parent, children=children, copies=(), is_whole=True,
        blocks=[FileBlock(reader, content, n, now, see) for n in range(len(content.blocks))],
        outline=reading.outline(content), prompts_left_out=reading.prompts_left_out(content), drawn=map_of(content),
        has_branches=False,
    )  # fmt: skip


class FileBlock:
    """A block of a session, which is read when its entries are asked for."""

    def __init__(
        self, reader: SharedReader, content: Content, number: int, now: int, see: Callable[[Event], None]
    ) -> None:
        self._reader, self._content, self._number, self._now, self._see = reader, content, number, now, see
        block, order = content.blocks[number], content.order
        self.place = reading.place_of(order.key(block.first))
        self.last = order.seqs[block.end - 1]
        self.lines = reading.likely_lines(block)

    @property
    def items(self) -> Iterator[PageEntry]:
        """Its entries."""
        yield from reading.items_of(self._reader, self._content, self._number, self._now)
        for each in self._reader.whole.values():
            self._see(each)
        # A template leaves cycles behind, which a command would keep to its end.
        gc.collect(1)


class FileLinks:
    """Links inside one file, and to those beside it."""

    is_file = True

    def __init__(
        self, reader: SharedReader, located: LocatedSession, beside: Collection[str], *, layout: str = "file.html"
    ) -> None:
        self._reader, self._located, self._uid, self._beside = reader, located, located.session.uid, beside
        self.layout = layout
        self.style, self.script = joined(STYLES), joined(SCRIPTS)
        self.policy = self.policy_with()

    def policy_with(self, *scripts: str) -> str:
        """The rules of a file that has the style, the script, and these scripts."""
        allowed = " ".join(f"'{_hash(each)}'" for each in (self.script, *scripts))
        return "; ".join([
            "default-src 'none'", f"script-src {allowed}", f"style-src '{_hash(self.style)}'", "img-src data:",
            "base-uri 'none'", "form-action 'none'",
        ])  # fmt: skip

    def session(self, uid: str) -> str:
        """The address of a session's file; '' for this one's own and if there is none."""
        return name_of(uid) if uid in self._beside and uid != self._uid else ""

    def entry(self, uid: str, place: str | int) -> str:
        """The address of an entry."""
        where = self.session(uid)
        return f"{where}#r{place}" if where or uid == self._uid else ""

    def image(self, uid: str, place: str, number: int) -> str:
        """An image itself, as an address; '' in a file that is masked: nobody can mask an image."""
        key = reading.read_place(place)
        if self._reader.is_masked or uid != self._uid or key is None:
            return ""
        try:
            found = image_of(self._located, *key, number)
        except RecordNotFound:
            return ""
        return f"data:{found.media_type};base64,{b64encode(found.data).decode()}"

    def whole(self, item: PageEntry) -> list[str]:
        """The texts of the records of an entry, of each that says more than is shown."""
        return [part for part in self._parts(item) if part.strip() and part not in (item.text, item.subject)]

    def _parts(self, item: PageEntry) -> Iterator[str]:
        key = reading.read_place(item.place)
        event = None if key is None else self._reader.whole.get(key)
        if key is None or event is None:
            return
        if not is_shown(event, item):
            yield reading.whole(event, key).text
        if isinstance(event, model.ToolCall) and item.result:
            for at, result in _results(self._reader.whole, int(item.result), event.tool_use_id):
                yield reading.whole(result, at).text


def is_shown(event: Event, item: PageEntry) -> bool:
    """True if an entry has all words of its event: of a call on its line, of another as Markdown."""
    if not isinstance(event, model.ToolCall):
        return item.html is not None and not item.is_cut
    given = event.input
    return isinstance(given, dict) and (not given or [*given.values()] == [item.subject])


def _results(whole: dict[Key, Event], seq: int, call: str | None) -> Sequence[tuple[Key, Event]]:
    """The results in a record, of several that of this call."""
    found = [(at, each) for at, each in whole.items() if at[0] == seq and isinstance(each, model.ToolResult)]
    own = [(at, each) for at, each in found if isinstance(each, model.ToolResult) and each.tool_use_id == call]
    return own or found[:1]


def _hash(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"


def joined(names: tuple[str, ...]) -> Markup:
    """Files of the package that become one text of ours."""
    static = files("backstory.web").joinpath("static")
    return Markup("\n".join(static.joinpath(each).read_text("utf-8") for each in names))
