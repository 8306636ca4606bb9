"""Sessions as reports over many of them need them, without events: parts that travel, and a store that is made of them.

A part holds the rows of its session's turns, so that sums over them are those of any store, and what was done in it.
"""

from __future__ import annotations

from itertools import count, groupby, zip_longest
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from backstory.ask import session_rows
from backstory.ask import work as stored_work
from backstory.ask.session_rows import SessionTexts
from backstory.ask.work import DoneDeed, StoredWork, WorkTurn
from backstory.errors import StoreDamaged
from backstory.exchange.imported import StagedRows, Staging
from backstory.ids import session_identity
from backstory.model import AssistantText, event_to_json
from backstory.store import codec
from backstory.store.codec import CodecError
from backstory.store.intake.derived_tables import StoredRef
from backstory.store.tables import repositories
from backstory.workspace.history.work import settled_work

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from backstory.store import Session, Store

FOLDER_LEFT_OUT = "."
"""The folder of a session as it leaves a machine, where that is no repository's."""
P = TypeVar("P", bound=Struct)


class SessionPart(Struct, frozen=True, array_like=True):
    """A session on its way: whose it is, the number of its events, its turns, and its work if that was asked for.

    ``figures`` and ``work`` are packed; None where they are not known yet.
    """

    uid: str
    person: str
    machine: str
    events: int
    figures: bytes | None
    work: bytes | None = None


class _Figures(Struct, frozen=True):
    """Rows by table, as columns and values. ``chars``: of turns whose output was not counted to its end, by uid."""

    rows: dict[str, tuple[list[str], list[list[Any]]]]
    chars: dict[str, int]


class _Work(Struct, frozen=True):
    turns: list[WorkTurn]
    deeds: list[DoneDeed]
    refs: list[StoredRef]
    is_covered: bool
    named_deeds: list[DoneDeed] | None = None
    """With all commits by the whole of what their calls returned; None: the same."""
    texts: SessionTexts = SessionTexts(([], []), [])


def figures_of(store: Store, session: Session, heading: str) -> bytes:
    """Return the turns of a session, packed. ``heading``: its subject, as lists have it."""
    rows = store.ask(session_rows.rows_of, session.id)
    columns, (row,) = rows["sessions"]
    row[columns.index("title")] = heading
    found = _Figures(rows, store.ask(session_rows.partial_chars, session.id))
    return codec.pack_text(msgspec.json.encode(found))


def work_of(store: Store, session: Session) -> bytes:
    """Return the work in a session, packed: its own turns' and not that of its subagents."""
    found, named = (settled_work(store, session.id, is_named=each) for each in (False, True))
    named_deeds = named.deeds if named.deeds != found.deeds else None
    texts = store.ask(session_rows.texts_of, session.id)
    return codec.pack_text(msgspec.json.encode(_Work(*found, named_deeds=named_deeds, texts=texts)))


def turns_in(part: SessionPart) -> set[str]:
    """Return the uids of the turns of a part."""
    return {turn["uid"] for turn in _named(_unpacked(part.figures, _Figures), "turns")} if part.figures else set()


class PartPage(Struct, frozen=True):
    """Some of the parts that somebody asked for. ``end``: where the next page begins; None: nowhere."""

    parts: list[SessionPart]
    end: str | None


def all_parts(page: Callable[[str | None], PartPage]) -> Iterator[SessionPart]:
    """Yield the parts of all pages. ``page`` returns the one that begins at a place; None: the first."""
    found = page(None)
    yield from found.parts
    while found.end is not None:
        found = page(found.end)
        yield from found.parts


class ReportStore(Staging):
    """A store of such parts. What was done in its sessions it knows as it came, for it has no events."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._works, self._named = dict[int, StoredWork](), dict[int, StoredWork]()

    def add(self, parts: Iterable[SessionPart]) -> None:
        """Put sessions in, without those that are not derived yet. Raises StoreDamaged.

        Of several copies of a session the longest counts, with what only others have.
        """
        known = [each for each in parts if each.figures is not None]
        known.sort(key=lambda each: (session_identity(each.uid), -each.events, each.machine))
        copies_of = groupby(known, key=lambda each: session_identity(each.uid))
        copied = {identity: list(group) for identity, group in copies_of}
        rows = _PartRows({identity: n for n, identity in enumerate(copied, 1)})
        try:
            for session_id, copies in enumerate(copied.values(), 1):
                works = [_unpacked(each.work, _Work) for each in copies if each.work is not None]
                rows.add(session_id, copies, works[0] if works else None)
                if works:
                    self._works[session_id] = _joined(session_id, works)
                    if any(each.named_deeds is not None for each in works):
                        self._named[session_id] = _joined(session_id, works, is_named=True)
        except (msgspec.MsgspecError, CodecError, ValueError, TypeError, KeyError, IndexError) as refused:
            raise StoreDamaged(self.path, f"a part of a session is none: {refused}") from refused
        self.put(rows.staged)
        self.settle()
        self.change(repositories.note_names, self.moves)

    def work_of(self, session_ids: Sequence[int], *, is_named: bool = False) -> dict[int, StoredWork]:
        """The work of each of these sessions with that of its subagents, as ``ask.work.of_sessions`` has it."""
        below, found = self.ask(stored_work.below, session_ids), dict[int, StoredWork]()
        known = self._works | self._named if is_named else self._works
        for each in session_ids:
            own = known.get(each, _NONE)
            members = [known.get(n, _NONE).deeds for n in sorted([each, *below.get(each, ())])]
            deeds = [deed for done in members for deed in done]
            if len(members) > 1:
                deeds.sort(key=lambda deed: deed.at or 0)
            found[each] = own._replace(deeds=deeds)
        return found


class _PartRows:
    """The rows of parts, with keys of their own. ``ids``: those of the sessions, by identity."""

    def __init__(self, ids: Mapping[str, int]) -> None:
        self.staged, self._ids = StagedRows(), ids
        self._turn_ids, self._event_ids = count(1), count(1)
        self._numbers = set[tuple[Any, Any]]()

    def add(self, session_id: int, copies: Iterable[SessionPart], work: _Work | None) -> None:
        """Add the copies of a session. ``work``: of the first, which has its texts in whole."""
        uids = set[str]()
        prompts = {} if work is None else {turn.uid: turn.prompt for turn in work.turns}
        for n, each in enumerate(copies):
            found = _unpacked(each.figures, _Figures)
            if n == 0:
                (session,) = _named(found, "sessions")
                # No folder's name leaves a machine, so that all of those that are no repository would be one.
                if session.get("project") == FOLDER_LEFT_OUT:
                    session |= {"project": None, "cwd": None}
                # Two machines may have given the same number.
                key = session.get("owner"), session.get("number")
                session["number"] = None if key in self._numbers else key[1]
                self._numbers.add(key)
                parent = self._ids.get(session.get("parent_identity") or "")
                self.staged.add("sessions", id=session_id, parent_id=parent, **session)
                self._add_texts(session_id, found, SessionTexts(([], []), []) if work is None else work.texts)
            for turn in _named(found, "turns"):
                if turn["uid"] not in uids:
                    uids.add(turn["uid"])
                    turn["prompt"] = prompts.get(turn["uid"], turn["prompt"])
                    self._add_turn(session_id, turn, found.chars.get(turn["uid"]))

    def _add_texts(self, session_id: int, found: _Figures, texts: SessionTexts) -> None:
        for row, text in zip_longest(_named(found, "compactions"), texts.summaries):
            if row is not None:
                self.staged.add(
                    "compactions", session_id=session_id, **(row if text is None else row | {"summary": text})
                )
        for row in _named(found, "session_branches"):
            self.staged.add("session_branches", session_id=session_id, **row)
        for row in _as_rows("checkpoints", *texts.checkpoints):
            self.staged.add("checkpoints", session_id=session_id, **row)

    def _add_turn(self, session_id: int, turn: dict[str, Any], chars: int | None) -> None:
        turn_id = next(self._turn_ids)
        self.staged.add("turns", id=turn_id, session_id=session_id, **turn)
        if chars is not None:
            # Costs are estimated by how much the model wrote, which is counted from events.
            self.staged.add(
                "events", session_id=session_id, seq=next(self._event_ids), turn_id=turn_id, kind=AssistantText.kind,
                data=_SILENT, char_len=chars,
            )  # fmt: skip


def _named(found: _Figures, table: str) -> Iterator[dict[str, Any]]:
    """The rows of a table by column, without columns that only another version has."""
    return _as_rows(table, *found.rows.get(table, ([], [])))


def _as_rows(table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Iterator[dict[str, Any]]:
    known = [(n, name) for n, name in enumerate(columns) if name in _COLUMNS[table]]
    return ({name: row[n] for n, name in known} for row in rows)


def _joined(session_id: int, works: Sequence[_Work], *, is_named: bool = False) -> StoredWork:
    """The work of a session, of which the first copy is the longest."""
    turns = {turn.uid: turn for work in reversed(works) for turn in work.turns}
    deeds, met = list[DoneDeed](), set[str | None]()
    for work in works:
        theirs = work.named_deeds if is_named and work.named_deeds is not None else work.deeds
        deeds += [replace(each, session_id=session_id) for each in theirs if each.turn_uid not in met]
        met |= {None, *(turn.uid for turn in work.turns)}
    in_order = sorted(turns.values(), key=lambda turn: turn.seq)
    return StoredWork(in_order, deeds, works[0].refs, all(each.is_covered for each in works))


def _unpacked(packed: bytes | None, of: type[P]) -> P:
    return msgspec.json.decode(codec.unpack_text(packed or b""), type=of)


_COLUMNS = {table: frozenset(session_rows.columns(table)) for table in (*session_rows.TABLES, "checkpoints")}
_NONE = StoredWork([], [], [], True)
_SILENT = event_to_json(AssistantText(text=""))
