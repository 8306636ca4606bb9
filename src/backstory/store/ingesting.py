"""Logs and what lies beside them, on their way into a store."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from functools import cached_property
from typing import TYPE_CHECKING

from backstory import errors, ids
from backstory.lazy_module import lazy_module
from backstory.store import connection, logs, sessions
from backstory.store.database import checked, id_of
from backstory.store.reading import Reading
from backstory.store.segments import BULK_CRISIS_MERGE, is_scattered, merge_whole, reset_index, set_index
from backstory.store.sessions import Session

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    import apsw

    from backstory.store import lineage, rederiving, retold, run_facts, runs, sidecars, titles, written
    from backstory.store.logs import ChunkMark, FileStamp, Log, SeqRange
    from backstory.store.run_facts import Unmatched
    from backstory.store.runs import RunStart
    from backstory.store.sidecars import Mark, Sidecar, SidecarBatch, StoredSidecar
else:
    lineage = lazy_module("backstory.store.lineage")
    rederiving = lazy_module("backstory.store.rederiving")
    retold = lazy_module("backstory.store.retold")
    run_facts = lazy_module("backstory.store.run_facts")
    runs = lazy_module("backstory.store.runs")
    sidecars = lazy_module("backstory.store.sidecars")
    titles = lazy_module("backstory.store.titles")
    written = lazy_module("backstory.store.written")


BULK_HASH_BYTES = 32 * 1024 * 1024
BULK_WAL_PAGES = 8_192
WAL_PAGES = 1_000
FREE_SHARE = 50
"""One page in so many may be free when an ingest is done."""


def _has_many_free_pages(db: apsw.Connection) -> bool:
    """Whether so much of the file is free, as after merging the index, that giving it back is worth the writing."""
    return int(db.pragma("freelist_count")) * FREE_SHARE > int(db.pragma("page_count"))


class Ingesting(Reading):
    """The methods of a store that ingest uses."""

    @cached_property
    def _chunks(self) -> logs.UnpackedChunks:
        return logs.UnpackedChunks()

    def run_start(self, session_uid: str, turn_uid: str) -> RunStart:
        """Where a run begins in its session as it is now; raises SessionNotFound."""
        return self._read(lambda db: runs.start_in(db, session_uid, turn_uid))

    def note_native_id(self, session_uid: str, native_id: str) -> None:
        """Note the agent's own id of a session that runs, for all who look into the file meanwhile."""
        self._change(lambda db: runs.note_native_id(db, session_uid, native_id))

    def native_ids(self) -> dict[str, str]:
        """The agents' own ids of sessions that run, or whose run is not stored yet, by the sessions' uids."""
        return self._read_if_begun(runs.native_ids, {})

    def drop_native_ids(self, gone: dict[str, str]) -> None:
        """Take away those of sessions of which no run will be stored any more."""
        self._change(lambda db: runs.drop_native_ids(db, gone))

    def file_stamps(self, reason: str | None = None) -> dict[str, FileStamp]:
        """Every file that was looked at, by path, as it was then; with a reason those that gave nothing for it."""
        return self._read_if_begun(lambda db: logs.file_stamps(db, reason), {})

    def stamps_of(self, paths: Iterable[str]) -> dict[str, FileStamp]:
        """These files as they were when they were looked at, by path; without those that never were."""
        return self._read_if_begun(lambda db: logs.stamps_of(db, paths), {})

    def known_paths(self, paths: Sequence[str]) -> set[str]:
        """Those of these paths whose files were looked at."""
        return self._read_if_begun(lambda db: logs.known_paths(db, paths), set())

    def recent_stamps(self, limit: int) -> list[FileStamp]:
        """The files of logs that were written last, as they were when they were read."""
        return self._read_if_begun(lambda db: logs.recent_stamps(db, limit), [])

    def newest_log(self) -> int:
        """The greatest id that a log was given; it never gets less."""
        return self._read_if_begun(logs.newest, 0)

    def log(self, log_id: int) -> Log | None:
        """One log."""
        return self._read(lambda db: logs.get(db, log_id))

    def pending_calls(self, log_id: int) -> bytes | None:
        """What ``deriver`` left of a log: calls whose results had not come when it was read."""
        return self._read(lambda db: logs.pending(db, log_id))

    def logs(self, session: Session | int | None = None) -> list[Log]:
        """The logs of a session, or all."""
        return self._read(lambda db: logs.all_logs(db) if session is None else logs.of_session(db, id_of(session)))

    def salvage_logs(self) -> tuple[list[Log], list[int]]:
        """The logs that a store still knows, damaged or not, and the ids of those whose rows cannot be read."""
        return self._read(logs.salvaged)

    def logs_of(self, agent: str, native_id: str) -> list[Log]:
        """The logs of one of an agent's sessions."""
        return self._read_if_begun(lambda db: logs.of_native_id(db, agent, native_id), [])

    def next_seq(self, uid: str) -> int:
        """The number that the next record of a session gets; 1 for a session that is not here."""
        return self._read_if_begun(lambda db: sessions.next_seq(db, ids.session_identity(uid)), 1)

    def read_log(self, log_id: int, start: int, length: int, *, checked: bool = True) -> bytes:
        """Bytes of a log, checked unless it is only to look at them, which is quicker; raises StoreDamaged."""
        if not checked:
            return self._read(lambda db: logs.look_at(db, log_id, start, length))
        return self._read(lambda db: logs.read(db, log_id, start, length, self._chunks))

    def stream_log(self, log_id: int) -> Iterator[bytes]:
        """All bytes of a log, a chunk at a time, checked; raises StoreDamaged."""
        db = self._reading_connection()
        pieces = logs.stream(db, log_id)
        while True:
            with connection.translated(self.path), checked(self.path):
                piece = next(pieces, None)
            if piece is None:
                return
            yield piece

    def sidecar_marks(self, log_ids: Collection[int] | None = None) -> dict[tuple[int, str], Mark]:
        """Size and mtime (ns) of the sidecars of these logs (None: all) when last read, by log's id and name."""
        return self._read_if_begun(lambda db: sidecars.marks(db, log_ids), {})

    def sidecars(self, log_id: int) -> list[StoredSidecar]:
        """The small files that an agent keeps beside a log."""
        return self._read(lambda db: sidecars.of_log(db, log_id))

    def read_sidecar(self, sidecar_id: int) -> bytes:
        """A sidecar's bytes, checked; raises StoreDamaged."""
        return self._read(lambda db: sidecars.read(db, sidecar_id))

    def sidecar_ending_in(self, log_id: int, ending: str) -> int | None:
        """The id of a sidecar of this log, or of the session that its session helps, whose name ends so."""
        return self._read(lambda db: sidecars.ending_in(db, log_id, ending))

    def keep_sidecars(self, pieces: Sequence[SidecarBatch]) -> None:
        """Keep sidecars of several logs as they are now, and what they say."""

        def write_all(db: apsw.Connection) -> None:
            for piece in pieces:
                sidecars.write(db, piece)

        self._write(write_all)

    def unmatched_runs(self) -> list[Unmatched]:
        """The runs whose agents' own logs are here, and were not read for them, or have changed since."""
        nothing: list[Unmatched] = []
        return self._read_if_begun(run_facts.unmatched, nothing)

    def keep_run_facts(self, run: Unmatched, sidecar: Sidecar) -> None:
        """Keep what the agent's own log says of a run, of its events and of its turn."""
        self._change(lambda db: run_facts.keep(db, run.stream_id, sidecar, own_log=run.log_id))

    def link_retold(self) -> int:
        """Have turns that another program retold be those of the agents' own logs; returns how many are so now."""
        found = self._read_if_begun(retold.links, None)
        if found is None:
            return 0
        self._change(lambda db: retold.link(db, found))
        return len(found.turns)

    def chunk_marks(self, log_id: int) -> list[ChunkMark]:
        """(start, length, sha256) of each chunk of a log."""
        return self._read(lambda db: logs.chunk_marks(db, log_id))

    def record_numbers(self, session: Session | int) -> list[int]:
        """The numbers of all records of a session, in order."""
        return self._read(lambda db: logs.record_numbers(db, id_of(session)))

    def seq_ranges(self, log_id: int) -> list[SeqRange]:
        """The numbers of a log's records, in the order of their places."""
        return self._read(lambda db: logs.seq_ranges(db, log_id))

    def mark_stale(self, log_id: int) -> None:
        """Have what a log says derived again by the next ingest."""
        self._write(lambda db: db.execute("update logs set derived = 0 where id = ?", (log_id,)))

    def unparsed_logs(self) -> list[Log]:
        """The logs of which something is kept as bytes only, because storing what it says failed."""
        return self._read_if_begun(logs.unparsed, [])

    def remember_stamps(self, places: Iterable[FileStamp], moved: Iterable[tuple[int, str, str]] = ()) -> None:
        """Note files as they are now, so that they need not be opened again.

        ``moved``: (log id, path, path below the agent's own folder) of logs that lie elsewhere now.
        """

        def remember(db: apsw.Connection) -> None:
            for log_id, path, relpath in moved:
                db.execute(f"update logs set {logs.PLACED} where id = ?", (*logs.placed(path, relpath), log_id))
            for place in places:
                logs.remember_stamp(db, place)

        self._write(remember)

    def note_ctimes(self, ctimes: Mapping[str, int]) -> None:
        """Note the ctime of files, by path, that an earlier version looked at."""
        self._write(lambda db: logs.note_ctimes(db, ctimes))

    def drop_logs(self, log_ids: Sequence[int], *, in_favour_of: int) -> None:
        """Remove logs whose every record another log of the session holds too."""

        self._write(lambda db: rederiving.drop_logs(db, log_ids, in_favour_of))

    def drop_reported(self, log_ids: Sequence[int]) -> None:
        """Remove logs that were made of what other logs report, with all that they say: the session is read anew."""

        def drop(db: apsw.Connection) -> None:
            for log_id in log_ids:
                rederiving.drop_reported(db, log_id)

        self._write(drop)

    def replace_unread(self, log_id: int, understood: int) -> bool:
        """Remove a log that nobody understood, and its session, if another one holds all of its bytes by now."""

        def replace(db: apsw.Connection) -> bool:
            old, new = logs.get(db, log_id), logs.get(db, understood)
            if old is None or new is None or new.read_to < old.read_to:
                return False
            rederiving.drop_logs(db, [log_id], understood)
            sessions.drop_read(db, understood)
            return True

        return self._write(replace)

    def mark_missing(self, log_ids: list[int], now: int) -> int:
        """Note which logs' files are gone; gives how many sessions have none left."""
        return self._change(lambda db: rederiving.mark_missing(db, log_ids, now))

    def run_folder(self, log_id: int) -> str | None:
        """The folder that the run whose stream a log is was in."""
        return self._read(lambda db: logs.run_folder(db, log_id))

    def turn_uid_of(self, log_id: int) -> str | None:
        """The turn whose stream a log is; None for a whole session's log."""
        return self._read(lambda db: logs.turn_uid(db, log_id))

    def settle_written(self) -> None:
        """Have turns of logs that we wrote for agents be those that they were written of, as far as these are here."""
        while not self._read_if_begun(written.is_settled, otherwise=True):
            self._change(lambda db: lineage.link_copies(db, written.settle(db)))

    @contextmanager
    def bulk(self, *, is_bulk: bool = True) -> Iterator[None]:
        """A block in which logs are written: a lot, with ``begin_bulk`` before it and ``end_bulk`` behind it, or not.

        If the block fails the index gets its settings back, and is merged by those who write next.
        """
        if is_bulk:
            self.begin_bulk()
        try:
            yield
            if self._read_if_begun(titles.are_due, otherwise=False):
                self._change(titles.assign)
            if is_bulk:
                self.end_bulk()
            elif self._writer is not None and self._writer.total_changes() and self._read(_has_many_free_pages):
                self._give_pages_back()
        except BaseException:
            # Where even that fails, opening the store again does it.
            with suppress(errors.BackstoryError):
                if is_bulk:
                    self._leave_bulk()
            raise

    def begin_bulk(self) -> None:
        """Put off merging the index, and emptying the WAL, while a lot is written; ``end_bulk`` does both once."""
        self._write(lambda db: set_index(db, automerge=0, crisismerge=BULK_CRISIS_MERGE, hashsize=BULK_HASH_BYTES))
        self._writing_connection().wal_autocheckpoint(BULK_WAL_PAGES)

    def end_bulk(self) -> None:
        """Give the index its settings back, and the free pages; an index in many segments is merged first."""
        if self._read(is_scattered):
            self._merge_index()
        self._leave_bulk()
        self._give_pages_back()

    def _leave_bulk(self) -> None:
        self._writing_connection().wal_autocheckpoint(WAL_PAGES)
        self._write(reset_index)

    def _merge_index(self) -> None:
        with connection.translated(self.path):
            merge_whole(self._writing_connection(), self.path)
