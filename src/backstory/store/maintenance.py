"""What is done to a store as a whole: removed, checked, backed up, derived anew, packed."""

from __future__ import annotations

from contextlib import closing, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from backstory.lazy_module import lazy_module
from backstory.store import connection, coverage, logs, migrate, moves, sessions
from backstory.store.database import believed, id_of
from backstory.store.ingesting import Ingesting
from backstory.store.rows import fetch
from backstory.store.segments import reset_index, set_index
from backstory.store.sessions import Session

if TYPE_CHECKING:
    from collections.abc import Callable

    import apsw

    from backstory.store import append, decisions, erasing, rederiving, titles, verify
    from backstory.store.batches import RecordBatch
    from backstory.store.logs import Log
    from backstory.store.moves import Move
    from backstory.store.verify import Verified
else:
    append = lazy_module("backstory.store.append")
    decisions = lazy_module("backstory.store.decisions")
    erasing = lazy_module("backstory.store.erasing")
    rederiving = lazy_module("backstory.store.rederiving")
    titles = lazy_module("backstory.store.titles")
    verify = lazy_module("backstory.store.verify")


class Maintenance(Ingesting):
    """The methods of a store that concern all of it."""

    def settle(self) -> None:
        """Note the root of the project where it lies now, if the store says another one or none.

        A store that is no project's has none.
        """
        root = moves.root_of(self.path)
        if root is not None and self._read(lambda db: moves.is_unsettled(db, root)):
            self._change(lambda db: moves.settle(db, root, self._now()), decided=True)
            self._moves = None

    def change_moves(self, change: Callable[[list[Move]], list[Move]]) -> None:
        """Change which folders the store knows to be moved."""
        self._change(lambda db: moves.changed(db, change), decided=True)
        self._moves = None

    def follow(self, owner: str, move: Move) -> None:
        """Have the sessions that a store owns be in the folder that its project was moved to."""
        self._change(lambda db: sessions.follow(db, owner, move))

    def doomed(self, session: Session | int) -> dict[str, list[Log]]:
        """The uids of what ``remove`` would remove with a session, itself too, each with its logs."""
        return self._read(
            lambda db: {uid: logs.of_session(db, each) for each, uid in sessions.doomed(db, id_of(session))}
        )

    def remove(self, *sessions_: Session | int) -> list[str]:
        """Remove sessions and their subagents', with their bytes; gives their uids. Reading the logs again skips them.

        Nothing of them stays in the file. Raises NotErased where that could not be done: they are removed all the
        same, and ``optimize`` erases what is left.
        """

        def remove(db: apsw.Connection) -> list[str]:
            doomed = [sessions.get(db, id_of(each)).id for each in sessions_]
            erasing.note_removal(db)
            # It is merged once, when all are removed.
            set_index(db, automerge=0)
            uids = [uid for each in doomed for uid in sessions.remove(db, each, self._now())]
            for uid in uids:
                decisions.forget(db, uid)
            titles.assign(db)
            reset_index(db)
            return uids

        removed = self._change(remove, decided=True)
        self.erase()
        return removed

    def erase(self) -> None:
        """Leave nothing in the file of what was removed from it: a second time there is nothing to do.

        Raises NotErased when another process, or a full disk, is in the way.
        """
        if not self._read(erasing.is_due):
            return
        db = self._writing_connection()
        for step in (
            self._merge_index,
            lambda: erasing.rewrite(db, self.path),
            lambda: erasing.empty_wal(db, self.path),
            lambda: self._write(erasing.note_done),
        ):
            erasing.patiently(self.path, step)

    def merge_idle_chunks(self, before: int) -> int:
        """Merge the small chunks of logs that were last written before this time (ms); returns how many logs."""

        def merge(db: apsw.Connection) -> int:
            idle = fetch(
                db, tuple[int], "select id from logs where frames > 1 and coalesce(modified, 0) < ?", (before,)
            )
            for (log_id,) in idle:
                logs.merge_chunks(db, log_id, idle=True)
            return len(idle)

        waiting = self._read(
            lambda db: (
                db.execute(
                    "select exists (select 1 from logs where frames > 1 and coalesce(modified, 0) < ?)", (before,)
                ).get
            )
        )
        return self._write(merge) if waiting else 0

    def verify(self, progress: Callable[[int, int], None] = lambda done, total: None) -> Verified:
        """Check everything that can be checked; see ``store/verify.py``."""
        # A connection of its own: what FTS5 remembers of the index in another is not renewed for this check.
        self._reading_connection()
        with (
            believed(self.path) if self.is_elsewhere else nullcontext(),
            closing(connection.open_reader(self.path)) as db,
            connection.translated(self.path),
        ):
            return verify.verify(db, progress)

    def backup(self, target: Path) -> int:
        """Copy the store as it is now into a single new file; gives its size in bytes."""
        from backstory.store import backup

        return backup.write(self.path, target)

    def sessions_to_derive(self, *, only_stale: bool) -> list[int]:
        """The ids of the sessions to derive again: all, or those that an earlier version derived."""
        self.make_ready()
        return self._read_if_begun(lambda db: rederiving.sessions(db, only_stale=only_stale), list[int]())

    def begin_reindex(self) -> None:
        """Empty the search index where the settings say that there is none."""

        def begin(db: apsw.Connection) -> None:
            if not coverage.rule_of(db).enabled:
                coverage.empty_index(db)

        self._change(begin)

    def note_reindexed(self, *, is_whole: bool) -> None:
        """Note that nothing is left that an earlier version derived; ``is_whole``: all is as the settings say."""

        def note(db: apsw.Connection) -> None:
            migrate.note_derived(db)
            if is_whole:
                coverage.note_current(db)

        self._change(note)

    def clear_derived(self, session_id: int) -> None:
        """Remove what is derived of a session, to derive it again."""
        self._change(lambda db: rederiving.clear(db, session_id))

    def rederive(self, batch: RecordBatch, *, events_too: bool) -> None:
        """Store what a log that was read again says: what is derived, and with ``events_too`` its events and turns."""
        self._change(lambda db: append.rederive(db, batch, events_too=events_too))

    def rederive_unlogged(self, session_id: int) -> None:
        """Derive what no log of a session says: the prompts of its runs."""
        batch = self._read(lambda db: rederiving.unlogged(db, session_id))
        if batch is not None:
            self.rederive(batch, events_too=False)

    def drop_turns_but(self, session_id: int, derived: set[str], read: dict[int, int]) -> None:
        """Remove a session's turns that were not derived again, if its logs are as they were ``read`` (to where)."""
        self._change(lambda db: rederiving.drop_turns_but(db, session_id, derived, read))

    def counts(self) -> dict[str, int]:
        """How many sessions, turns, events, files, refs and checkpoints there are."""
        return self._read(rederiving.counts)

    def optimize(self, before: int, progress: Callable[[int, int], None] = lambda done, total: None) -> None:
        """Make the file smaller: pack logs that were last written before this time (ms) harder, and merge the index.

        Each transaction is short; it may be stopped at any time. ``progress`` receives logs done and to do. A file that
        may still hold something that was removed, as those of earlier versions may, is written anew.
        """
        todo = self._read(lambda db: logs.to_repack(db, before))
        for number, log_id in enumerate(todo, 1):
            start: int | None = 0
            while start is not None:
                start = self._change(partial(logs.repack, log_id=log_id, start=start))
            progress(number, len(todo))
        self._merge_index()
        self._give_pages_back()
        self.erase()
