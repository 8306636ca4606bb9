"""Summaries that stand for the earlier part of a session, and which of them is in force where. Never commits.

A summary counts on the paths that hold the last record it covers. Nothing is removed by one: ``undo`` takes it out of
force, and what it covered is in contexts again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct, field

from backstory.conversation.compaction import problem_with
from backstory.conversation.context import History
from backstory.conversation.tree import Point, Span
from backstory.model import Compacted, Tokens
from backstory.store.schema import fetch
from backstory.store.tables import branches, event_rows, events, turns
from backstory.store.tables.events import StoredEvent

if TYPE_CHECKING:
    from collections.abc import Iterator

    import apsw

BRIEF_READ = 3
"""The multiple of a context's room that is read, because turns that do not fit whole are in it in brief."""
_ROWS = (
    "select id, after_seq, summary, created, agent, model, cost_usd, duration_ms, "
    "input_tokens, output_tokens, cache_read_tokens, cache_write_tokens from compactions "
    "where session_id = ? and undone = 0 order by after_seq, id"
)
_TOOK = "model, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, cost_usd, duration_ms"
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
    model: str | None = None
    tokens: Tokens = field(default_factory=Tokens)
    """Tokens of the run that made it."""
    cost_usd: float | None = None
    """The cost of making it, in USD, as its agent reported."""
    duration_ms: int | None = None


class NewCompaction(Struct, frozen=True, kw_only=True):
    """A summary to be stored, who wrote it, and what that took."""

    after_seq: int
    summary: str
    agent: str | None = None
    model: str | None = None
    tokens: Tokens = field(default_factory=Tokens)
    cost_usd: float | None = None
    duration_ms: int | None = None


def of_session(db: apsw.Connection, session_id: int) -> list[Compaction]:
    """Every summary of a session that was not taken out of force, those of its logs included, by what they cover."""
    logged = fetch(db, tuple[int, str], _IN_LOGS, (session_id,))
    found = [*(Compaction(after_seq=seq, summary=text) for seq, text in logged), *_stored(db, session_id)]
    # The sort is stable: of two at one record the stored one, which somebody asked for, comes last and counts.
    return sorted(found, key=lambda each: each.after_seq)


def _stored(db: apsw.Connection, session_id: int) -> Iterator[Compaction]:
    names = ("id", "after_seq", "summary", "created", "agent", "model", "cost_usd", "duration_ms")
    counts = ("input", "output", "cache_read", "cache_write")
    for row in db.execute(_ROWS, (session_id,)).fetchall():
        # Another program may have written anything.
        took = dict(zip(counts, row[len(names) :], strict=True))
        found = msgspec.convert(dict(zip(names, row[: len(names)], strict=True)) | {"tokens": took}, Compaction)
        if found.summary.strip():
            yield found


def in_force(db: apsw.Connection, session_id: int, to: Point | None = None) -> Compaction | None:
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
            # The span ends where the path leaves the turn, so a summary of what was left behind does not count.
            if span.first <= each.after_seq <= span.last and _counts(db, session_id, each, spans[n:]):
                yield each


def _counts(db: apsw.Connection, session_id: int, summary: Compaction, covered: list[Span]) -> bool:
    # It was checked before it was stored; nobody has checked an agent's own.
    if summary.id is not None:
        return True
    before = [Span(span.uid, span.first, min(span.last, summary.after_seq)) for span in covered]
    return problem_with(summary.summary, branches.touched(db, session_id, before)) is None


def history(db: apsw.Connection, session_id: int, budget_chars: int, to: Point | None = None) -> History:
    """Return the parts of a context of that size: the summary in force, and the turns behind its end."""
    to = to or branches.leaf(db, session_id)
    summary = in_force(db, session_id, to)
    after = summary.after_seq if summary is not None else 0
    # Of turns in brief there is room for more than of whole ones.
    given = events.context_turns(db, session_id, budget_chars * BRIEF_READ, to, after)
    # Only where not all turns were read is their number worth a walk of its own.
    is_all = bool(given) and (given[0].is_rest or given[0].turn.parent_uid is None)
    return History(
        turns=given,
        turn_count=len(given) if is_all else _count_behind(db, session_id, to, after),
        summary=summary.summary if summary is not None else None,
    )


def _count_behind(db: apsw.Connection, session_id: int, to: Point | None, after_seq: int) -> int:
    """Return the number of turns on the way to a record that have something behind another record."""
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
    # To summarise takes minutes, and the branch may have been removed meanwhile.
    if holder is None:
        return False
    newer = in_force(db, session_id, None)
    # Two processes may have summarised at once; the one that covers more stays in force.
    if newer is not None and newer.after_seq >= new.after_seq and _is_ahead(db, session_id, new.after_seq):
        return False
    db.execute(
        f"insert into compactions(session_id, after_seq, summary, agent, {_TOOK}) "
        "values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            session_id, new.after_seq, new.summary, new.agent, new.model, new.tokens.input, new.tokens.output,
            new.tokens.cache_read, new.tokens.cache_write, new.cost_usd, new.duration_ms,
        ),
    )  # fmt: skip
    index(db, session_id)
    return True


def _is_ahead(db: apsw.Connection, session_id: int, seq: int) -> bool:
    """Return True if a record is on the way to where the session goes on."""
    to = branches.leaf(db, session_id)
    return any(turn.first_seq <= seq <= cut for _, turn, cut in turns.upwards(db, session_id, to))


def undo(db: apsw.Connection, session_id: int) -> Compaction | None:
    """Take the stored summary in force out of force, and return it; None where there is none."""
    to = branches.leaf(db, session_id)
    stored = [each for each in of_session(db, session_id) if each.id is not None]
    found = next(_on_path(db, session_id, to, stored), None) if stored else None
    if found is not None:
        db.execute("update compactions set undone = 1 where id = ?", (found.id,))
        index(db, session_id)
    return found


def index(db: apsw.Connection, session_id: int) -> None:
    """Put a session's stored summaries into the search index, without those that were taken out of force.

    Another program's row, which nobody has put into the index, is put there, too.
    """
    event_rows.delete_summaries(db, "session_id = ?", (session_id,))
    stored = [each for each in _stored(db, session_id) if each.id is not None]
    event_rows.index_summaries(db, session_id, [(each.id or 0, each.after_seq, each.summary) for each in stored])


def as_event(db: apsw.Connection, row_id: int) -> StoredEvent | None:
    """A stored summary as the event that a search finds; None for one that is gone or was taken out of force.

    Its id is below those of events, and it stands at the last record that it covers.
    """
    found = fetch(
        db,
        tuple[int, int, str, int | None, int | None],
        "select c.session_id, c.after_seq, c.summary, cast(unixepoch(c.created, 'subsec') * 1000 as integer), "
        "(select t.id from turns t where t.session_id = c.session_id and c.after_seq between t.first_seq and "
        "t.last_seq and t.removed is null) from compactions c where c.id = ? and c.undone = 0",
        (row_id,),
    )
    return next((_event(row_id, *each[1:]) for each in found), None)


def _event(row_id: int, after_seq: int, summary: str, at: int | None, turn_id: int | None) -> StoredEvent:
    return StoredEvent(
        id=-row_id, seq=after_seq, part=0, turn_id=turn_id, at=at, kind=Compacted.kind, char_len=len(summary),
        log_id=None, position=None, length=None, event=Compacted(summary=summary),
    )  # fmt: skip


def clear(db: apsw.Connection, session_id: int) -> None:
    """Remove the summaries of a session, with what the search index holds of them."""
    event_rows.delete_summaries(db, "session_id = ?", (session_id,))
    db.execute("delete from compactions where session_id = ?", (session_id,))
