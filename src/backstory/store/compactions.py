"""Summaries that stand for the earlier part of a session, and which of them is in force where. Never commits.

A summary counts on the paths that hold the last record it covers. Nothing is removed by one: ``undo`` takes it out of
force, and what it covered is in contexts again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from backstory.conversation.compaction import problem_with
from backstory.conversation.context import History
from backstory.conversation.tree import Point, Span
from backstory.store import branches, events, turns
from backstory.store.rows import fetch

if TYPE_CHECKING:
    from collections.abc import Iterator

    import apsw

_ROWS = (
    "select id, after_seq, summary, created, agent from compactions where session_id = ? and undone = 0 "
    "order by after_seq, id"
)
_SECTIONS = "title, overview, history, work_done, technical_details, important_files, next_steps"
_IN_LOGS = (
    f"select seq, concat_ws(char(10, 10), {_SECTIONS}) from checkpoints where session_id = ? and seq is not null "
    "order by seq"
)


class Compaction(Struct, frozen=True, kw_only=True):
    """A summary of all that a path holds up to the record ``after_seq``."""

    after_seq: int
    summary: str
    id: int | None = None
    """None: its agent made it, and it is a record of its log."""
    created: str | None = None
    """ISO 8601."""
    agent: str | None = None


class NewCompaction(Struct, frozen=True, kw_only=True):
    """A summary to be stored, and who wrote it."""

    after_seq: int
    summary: str
    agent: str | None = None


def of_session(db: apsw.Connection, session_id: int) -> list[Compaction]:
    """Every summary of a session that was not taken out of force, those of its logs included, by what they cover."""
    stored = fetch(db, tuple[int, int, str, str, str | None], _ROWS, (session_id,))
    logged = fetch(db, tuple[int, str], _IN_LOGS, (session_id,))
    found = [
        *(Compaction(after_seq=seq, summary=text) for seq, text in logged),
        *(
            Compaction(id=row_id, after_seq=seq, summary=text, created=created, agent=agent)
            for row_id, seq, text, created, agent in stored
            if text.strip()
        ),
    ]
    return sorted(found, key=lambda each: each.after_seq)


def in_force(db: apsw.Connection, session_id: int, to: Point | None) -> Compaction | None:
    """The newest summary on the way to a record, None: to where the session goes on.

    A summary out of an agent's log counts where it would count if it had been asked for.
    """
    found = of_session(db, session_id)
    return next(_on_path(db, session_id, to, found), None) if found else None


def _on_path(db: apsw.Connection, session_id: int, to: Point | None, found: list[Compaction]) -> Iterator[Compaction]:
    """Those of these summaries that count on the way to a record, the newest first."""
    to = to or branches.leaf(db, session_id)
    spans = [Span(turn.uid, turn.first_seq, cut) for _, turn, cut in turns.upwards(db, session_id, to)]
    for n, span in enumerate(spans):
        for each in reversed(found):
            if span.first <= each.after_seq <= span.last and _counts(db, session_id, each, spans[n:]):
                yield each


def _counts(db: apsw.Connection, session_id: int, summary: Compaction, covered: list[Span]) -> bool:
    if summary.id is not None:
        return True
    before = [Span(span.uid, span.first, min(span.last, summary.after_seq)) for span in covered]
    return problem_with(summary.summary, branches.touched(db, session_id, before)) is None


def history(db: apsw.Connection, session_id: int, budget_chars: int, to: Point | None = None) -> History:
    """What a context of that size is built of: the summary in force, and the turns behind what it covers."""
    to = to or branches.leaf(db, session_id)
    summary = in_force(db, session_id, to)
    after = summary.after_seq if summary is not None else 0
    given = events.context_turns(db, session_id, budget_chars, to, after)
    is_all = bool(given) and (given[0].is_rest or given[0].turn.parent_uid is None)
    return History(
        turns=given,
        turn_count=len(given) if is_all else _count_behind(db, session_id, to, after),
        summary=summary.summary if summary is not None else None,
    )


def _count_behind(db: apsw.Connection, session_id: int, to: Point | None, after_seq: int) -> int:
    """How many turns on the way to a record have something behind another record."""
    count = 0
    for _, turn, cut in turns.upwards(db, session_id, to):
        if cut <= after_seq:
            break
        count += 1
        if turn.first_seq <= after_seq:
            break
    return count


def add(db: apsw.Connection, session_id: int, new: NewCompaction) -> bool:
    """Store a summary, unless a newer one is in force, or what it covers is on no branch any more; returns whether."""
    holder = db.execute(
        "select uid from turns where session_id = ?1 and ?2 between first_seq and last_seq and removed is null",
        (session_id, new.after_seq),
    ).fetchone()
    if holder is None:
        return False
    newer = in_force(db, session_id, None)
    if newer is not None and newer.after_seq >= new.after_seq and _is_ahead(db, session_id, new.after_seq):
        return False
    db.execute(
        "insert into compactions(session_id, after_seq, summary, agent) values (?, ?, ?, ?)",
        (session_id, new.after_seq, new.summary, new.agent),
    )
    return True


def _is_ahead(db: apsw.Connection, session_id: int, seq: int) -> bool:
    """Whether a record is on the way to where the session goes on."""
    to = branches.leaf(db, session_id)
    return any(turn.first_seq <= seq <= cut for _, turn, cut in turns.upwards(db, session_id, to))


def undo(db: apsw.Connection, session_id: int) -> Compaction | None:
    """Take the stored summary in force out of force, and return it; None where there is none."""
    to = branches.leaf(db, session_id)
    stored = [each for each in of_session(db, session_id) if each.id is not None]
    found = next(_on_path(db, session_id, to, stored), None) if stored else None
    if found is not None:
        db.execute("update compactions set undone = 1 where id = ?", (found.id,))
    return found


def copy(db: apsw.Connection, source: str, old: int, new: int) -> None:
    """Have the summaries of a session as the store attached as ``source`` has them."""
    db.execute("delete from compactions where session_id = ?", (new,))
    db.execute(
        "insert into compactions(session_id, after_seq, summary, created, agent, undone) "
        f"select ?, after_seq, summary, created, agent, undone from {source}.compactions where session_id = ? "
        "order by id",
        (new, old),
    )
