"""Everything that can be derived, made again from the bytes that are kept; no agent's file is needed for it.

A session is cleared and derived again, a batch to a transaction. A log is marked when all of it is derived, so that one
that was left half way is derived again by the next reindex or ingest.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field

from backstory.errors import SessionNotFound, in_words
from backstory.ingest import sidecars
from backstory.ingest.ingest import read_reported, understand
from backstory.ingest.kept import arrivals, kept_source, rederived
from backstory.ingest.log_reader import kept_lines
from backstory.ingest.unread import is_unread
from backstory.store.file import maintenance
from backstory.store.intake import append, ingesting, rederiving
from backstory.store.tables.logs import FILE

if TYPE_CHECKING:
    from collections.abc import Callable

    from backstory.store import Log, Session, Store

BULK_SESSIONS = 50
"""From so many sessions on the index is merged once at the end."""


class FailedSession(Struct, frozen=True):
    """A session that could not be derived again, and why. What was derived of it before is gone; its bytes are not."""

    session: str
    reason: str


class Reindexed(Struct, kw_only=True):
    """The number of sessions that were derived, that are left, and whose logs are gone, and those that failed."""

    sessions: int = 0
    left: int = 0
    gone: int = 0
    failed: list[FailedSession] = field(default_factory=list)


def reindex(
    store: Store,
    *,
    now: int,
    events_too: bool = False,
    only_stale: bool = False,
    progress: Callable[[int, int], None] = lambda done, total: None,
    is_over: Callable[[], bool] = lambda: False,
) -> Reindexed:
    """Derive again what is derived: of every session, or with ``only_stale`` of those that an older version derived.

    ``events_too``: also what their records say, with today's adapters. ``progress`` receives sessions done and to do.
    ``is_over``: asked before each session, whether the rest is left.
    """
    done = Reindexed()
    todo = maintenance.sessions_to_derive(store, only_stale=only_stale)
    if not only_stale and todo:
        store.change(maintenance.begin_reindex)
    with ingesting.bulk(store, is_bulk=len(todo) >= BULK_SESSIONS, is_rewriting=True):
        for number, session_id in enumerate(todo, 1):
            if is_over():
                done.left = len(todo) - number + 1
                break
            try:
                session = store.session(session_id)
            except SessionNotFound:
                # It was removed meanwhile.
                continue
            try:
                derive_again(store, session, events_too=events_too)
                done.sessions += 1
            except Exception as refused:
                done.failed.append(FailedSession(session.uid, in_words(refused)))
            progress(number, len(todo))
    if not done.failed and not done.left and (todo or not only_stale) and store.exists:
        store.change(maintenance.note_reindexed, is_whole=not only_stale)
    if not only_stale:
        done.gone = store.change(rederiving.mark_missing, [log.id for log in store.logs() if _is_gone(log)], now)
    return done


def _is_gone(log: Log) -> bool:
    # Of a log out of a database it is the database's path that counts.
    path = log.path.rpartition("#")[0] or log.path
    return log.kind == FILE and bool(path) and not Path(log.path).exists() and not Path(path).exists()


def derive_again(store: Store, session: Session, *, events_too: bool) -> None:
    """Derive one session again from the bytes of its logs."""
    understood = [understand(store, log) for log in store.logs(session) if is_unread(log.native_id)]
    if any(understood):
        # It was derived in the session that it belongs to.
        return
    derived: set[str] = set()
    # What cannot be derived again is found out before anything is cleared.
    logs = [(log, *kept_source(store, log, session.said_folder)) for log in store.logs(session)]
    for log, *_ in logs:
        arrivals(store, log)
    store.change(rederiving.clear, session.id)
    for log, source, created in logs:
        for batch in rederived(store, session, log, source, created, kept_lines(store, log), events_too=events_too):
            derived |= {turn.uid for turn in batch.turns}
            store.change(append.rederive, batch, events_too=events_too)
    maintenance.rederive_unlogged(store, session.id)
    for log in store.logs(session):
        sidecars.reapply_sidecars(store, log)
    # A turn that today's adapter does not emit goes, but only where agents' own logs are all that there is.
    if events_too and session.number is None and all(log.source_kind == FILE for log, *_ in logs):
        store.change(rederiving.drop_turns_but, session.id, derived, {log.id: log.told_end for log, *_ in logs})
    for log, source, *_ in logs:
        if source.has_reported():
            # An earlier version did not make sessions of what a log reports.
            read_reported(store, log)
