"""Sessions for another tool's store, without their secrets: whatever that tool's file asks for is masked on its way.

What only its name tells to be a secret is learned from everything that was said and done before the first row is
given, so that it is masked in a title, a path or an index of words, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from backstory.agents.contract import KeptFile, KeptLog
from backstory.export.full_form import FullForms

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from backstory.agents.contract import ExportSource
    from backstory.conversation.board import BoardItem
    from backstory.derive.secrets import Redactor
    from backstory.store import Store

WINDOW = 500
NOTE_TEXTS = ("repository", "branch", "description", "content")


def learn(redactor: Redactor, store: Store, session_ids: Iterable[int]) -> None:
    """Remember the secrets of all that was said and done in sessions."""
    forms = FullForms(store)
    for session_id in session_ids:
        after = (0, -1)
        while window := store.events(session_id, after=after, limit=WINDOW):
            events = [forms.expand(stored) for stored in window]
            redactor.foresee(events)
            for each in events:
                redactor.learn(each)
            after = (window[-1].seq, window[-1].part)


class RedactedSource:
    """See ``contract.ExportSource``: what ``source`` has, masked."""

    def __init__(self, source: ExportSource, redactor: Redactor) -> None:
        self._source, self._redactor = source, redactor

    def rows(self, view: str, columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        for row in self._source.rows(view, columns):
            yield tuple(map(self._cell, row))

    def logs(self) -> Iterator[KeptLog]:
        for log in self._source.logs():
            yield KeptLog(
                session_id=log.session_id,
                agent=log.agent,
                native_id=self._redactor.text(log.native_id),
                path=self._redactor.text(log.path),
                read=self._reading(log.read),
                beside=self._beside(log.beside),
            )

    def notes(self) -> list[BoardItem]:
        return [replace(each, **self._masked(each)) for each in self._source.notes()]

    def _masked(self, item: BoardItem) -> dict[str, str]:
        """Return the texts of a note, and its owner, masked; its name keeps the form of a name."""
        return {each: self._redactor.text(getattr(item, each)) for each in NOTE_TEXTS}

    def tip(self) -> int | None:
        return self._source.tip()

    def _cell(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._redactor.json(value)
        return self._redactor.bytes(value) if isinstance(value, bytes) else value

    def _reading(self, read: Callable[[], Iterable[bytes]]) -> Callable[[], Iterable[bytes]]:
        return lambda: map(self._redactor.bytes, _lines(read()))

    def _beside(self, beside: Callable[[], list[KeptFile]]) -> Callable[[], list[KeptFile]]:
        def file(each: KeptFile) -> KeptFile:
            return KeptFile(name=self._redactor.text(each.name), read=lambda: self._redactor.bytes(each.read()))

        return lambda: [file(each) for each in beside()]


def _lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Lines with their ends; the last may have none."""
    held: list[bytes] = []
    for piece in pieces:
        *whole, rest = piece.split(b"\n")
        for line in whole:
            yield b"".join((*held, line, b"\n"))
            held = []
        held.append(rest)
    if last := b"".join(held):
        yield last
