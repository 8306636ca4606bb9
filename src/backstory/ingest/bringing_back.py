"""Sessions that were pruned in part, made whole from the agents' files that still have the bytes that were here."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from backstory.errors import BackstoryError, SessionNotFound
from backstory.ingest.log_reader import opened, read_exactly
from backstory.ingest.reindex import derive_again
from backstory.store import codec
from backstory.store.tables import pruned
from backstory.store.tables.logs import FILE

if TYPE_CHECKING:
    from backstory.store import Log, Session, Store
    from backstory.store.tables.pruned import Range


def bring_back(store: Store) -> int:
    """Put back what agents' files still have of sessions that were pruned in part; returns how many are whole then.

    The note that a session is pruned goes last: who is killed before does it again.
    """
    whole = 0
    for session_id in store.ask_or([], pruned.sessions):
        with suppress(SessionNotFound):
            whole += _bring_back(store, store.session(session_id))
    return whole


def _bring_back(store: Store, session: Session) -> bool:
    has_come = False
    for log in store.logs(session):
        if log.kind == FILE and log.path:
            has_come |= _log(store, log) | _files(store, log)
    is_left = any(store.ask(pruned.ranges, log.id) for log in store.logs(session))
    if not has_come and is_left:
        return False
    derive_again(store, session, events_too=True)
    return store.decide(pruned.note_whole, session.id)


def _log(store: Store, log: Log) -> bool:
    """Put back what a log's file still has; returns whether anything came."""
    found: list[tuple[Range, bytes]] = []
    with suppress(OSError, codec.ZstdError, BackstoryError), opened(Path(log.path)) as file:
        for each in store.ask(pruned.ranges, log.id):
            file.seek(each.start)
            data = read_exactly(file, each.length)
            if codec.chunk_digest(data) == each.sha256:
                found.append((each, data))

    if found:
        store.decide(pruned.put_all_back, log.id, found)
    return bool(found)


def _files(store: Store, log: Log) -> bool:
    has_come = False
    for name, digest in store.ask(pruned.files, log.id):
        with suppress(OSError):
            data = Path(log.path).parent.joinpath(*PurePath(name).parts).read_bytes()
            if codec.chunk_digest(data) == digest:
                store.decide(pruned.put_file_back, log.id, name, data)
                has_come = True
    return has_come
