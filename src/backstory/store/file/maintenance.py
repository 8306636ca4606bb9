"""Changes of a store as a whole: removed, checked, derived anew, packed."""

from __future__ import annotations

from contextlib import closing, nullcontext
from functools import partial
from typing import TYPE_CHECKING

from backstory import errors
from backstory.lazy import lazy_module
from backstory.store.database import believed, merge_whole, reset_index, set_index
from backstory.store.file import connection, migrate
from backstory.store.intake import coverage
from backstory.store.schema import fetch
from backstory.store.tables import branches, logs, sessions

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    import apsw

    from backstory.store.database import Database
    from backstory.store.file import erasing, verify
    from backstory.store.file.verify import Verified
    from backstory.store.intake import append, derived_tables, own_log, rederiving
    from backstory.store.tables import decisions, lent, repositories, titles
    from backstory.store.tables.logs import Log
else:
    append = lazy_module("backstory.store.intake.append")
    decisions = lazy_module("backstory.store.tables.decisions")
    lent = lazy_module("backstory.store.tables.lent")
    derived_tables = lazy_module("backstory.store.intake.derived_tables")
    erasing = lazy_module("backstory.store.file.erasing")
    own_log = lazy_module("backstory.store.intake.own_log")
    rederiving = lazy_module("backstory.store.intake.rederiving")
    repositories = lazy_module("backstory.store.tables.repositories")
    titles = lazy_module("backstory.store.tables.titles")
    verify = lazy_module("backstory.store.file.verify")


# removing -----------------------------------------------------------------------------------------------------------


def doomed(db: apsw.Connection, session_id: int) -> dict[str, list[Log]]:
    """The uids of what ``remove`` would remove with a session, itself too, each with its logs."""
    return {uid: logs.of_session(db, each) for each, uid in sessions.doomed(db, session_id)}


def remove(store: Database, session_ids: Sequence[int]) -> list[str]:
    """Remove sessions and their subagents', with their bytes; return their uids. See ``Store.remove``."""

    def remove_all(db: apsw.Connection) -> list[str]:
        going, noted = [sessions.get(db, each).id for each in session_ids], sessions.project_names(db).upto
        erasing.note_removal(db)
        # It is merged once, when all are removed.
        set_index(db, automerge=0)
        uids = [uid for each in going for uid in sessions.remove(db, each, store.now())]
        for uid in uids:
            decisions.forget(db, uid)
        # A title may have been lent to another session by one that goes.
        titles.assign(db)
        if noted:
            repositories.note_names(db, store.moves, upto=noted)
        reset_index(db)
        return uids

    # The rows go in one transaction, and count as gone; to write the file anew comes behind it and may be repeated.
    removed = store.decide(remove_all)
    erase(store)
    return removed


def prune_turns(store: Database, session_id: int | None = None, only: Mapping[str, int] | None = None) -> int:
    """Drop for good what removed turns of one session, or of all, hold; return how many turns that were.

    ``only``: these turns, each with the time at which it was removed in another store.
    """
    todo = store.ask(branches.prunable) if session_id is None else [session_id]
    if only is not None:
        store.change(branches.mark_removed, todo, only)
    dropped = sum(_prune(store, each, only) for each in todo)
    if dropped:
        erase(store)
    return dropped


def _prune(store: Database, session_id: int, only: Collection[str] | None) -> int:
    """Drop what removed turns of a session hold; what they named first may be named elsewhere, too."""

    def prune(db: apsw.Connection) -> int | None:
        # What the turns name was read outside this transaction, and something was stored since.
        if (db.execute("select next_seq from sessions where id = ?", (session_id,)).get or 0) != next_seq:
            return None
        erasing.note_removal(db)
        count = branches.prune(db, session_id, only)
        derived_tables.write(db, session_id, named, turn_ids)
        return count

    for _ in range(append.APPEND_TRIES):
        next_seq, named, turn_ids = store.ask(own_log.refs_kept, session_id)
        if (count := store.change(prune)) is not None:
            return count
    raise errors.StoreBusy(store.path)


def erase(store: Database) -> None:
    """Leave nothing in the file of what was removed from it. See ``Store.erase``."""
    if not store.ask(erasing.is_due):
        return
    db = store.writer()
    # In this order: the index leaves free pages, the file drops them, the WAL still has the old ones; only then is it
    # done.
    for step in (
        lambda: merge_index(store),
        lambda: erasing.rewrite(db, store.path),
        lambda: erasing.empty_wal(db, store.path),
        lambda: store.write(erasing.note_done),
    ):
        erasing.patiently(store.path, step)


# the file -----------------------------------------------------------------------------------------------------------


def merge_index(store: Database) -> None:
    """Merge all segments of the search index."""
    with connection.translated(store.path):
        merge_whole(store.writer(), store.path)


_TO_SETTLE = "exists (select 1 from lent)"


def merge_idle_chunks(store: Database, before: int) -> int:
    """Merge the small chunks of logs that were last written before this time (ms); return how many logs."""
    query = "select id from logs where frames > 1 and coalesce(modified, 0) < ?"

    def merge(db: apsw.Connection) -> int:
        idle = fetch(db, tuple[int], query, (before,))
        for (log_id,) in idle:
            logs.merge_chunks(db, log_id, idle=True)
        # Another program may have removed a log that others are made of.
        lent.settle(db)
        return len(idle)

    # Asked first, without a writer's lock: mostly there is nothing to merge.
    waiting = store.ask(lambda db: db.execute(f"select exists ({query}) or {_TO_SETTLE}", (before,)).get)
    return store.write(merge) if waiting else 0


def check(store: Database, progress: Callable[[int, int], None]) -> Verified:
    """Check everything that can be checked; see ``store/file/verify.py``."""
    # A connection of its own: what FTS5 remembers of the index in another is not renewed for this check.
    store.reader()
    with (
        believed(store.path) if store.is_elsewhere else nullcontext(),
        closing(connection.open_reader(store.path)) as db,
        connection.translated(store.path),
    ):
        return verify.verify(db, progress)


def optimize(store: Database, before: int, progress: Callable[[int, int], None]) -> None:
    """Make the file smaller. See ``Store.optimize``."""
    todo = store.ask(logs.to_repack, before)
    for number, log_id in enumerate(todo, 1):
        # A chunk a transaction, so that writers get in between.
        start: int | None = 0
        while start is not None:
            start = store.change(partial(logs.repack, log_id=log_id, start=start))
        progress(number, len(todo))
    merge_index(store)
    store.give_pages_back()
    erase(store)


# deriving again -----------------------------------------------------------------------------------------------------


def sessions_to_derive(store: Database, *, only_stale: bool) -> list[int]:
    """The ids of the sessions to derive again: all, or those that an earlier version derived."""
    store.make_ready()
    return store.ask_or([], rederiving.sessions, only_stale=only_stale)


def begin_reindex(db: apsw.Connection) -> None:
    """Empty the search index where the settings say that there is none."""
    if not coverage.rule_of(db).enabled:
        coverage.empty_index(db)


def note_reindexed(db: apsw.Connection, *, is_whole: bool) -> None:
    """Note that nothing is left that an earlier version derived; ``is_whole``: all is as the settings say."""
    migrate.note_derived(db)
    if is_whole:
        coverage.note_current(db)


def rederive_unlogged(store: Database, session_id: int) -> None:
    """Derive what no log of a session holds: the prompts of its runs."""
    batch = store.ask(rederiving.unlogged, session_id)
    if batch is not None:
        store.change(append.rederive, batch, events_too=False)
