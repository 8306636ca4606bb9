"""A file that was found, or a log that is kept, as what is read: for the reader and the store."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field

from backstory import ids
from backstory.ingest.discover import Candidate
from backstory.ingest.log_reader import Source
from backstory.model import Relation
from backstory.store import FileStamp

if TYPE_CHECKING:
    from backstory.agents.contract import Agent
    from backstory.ingest.databases import DatabaseRows
    from backstory.model import LogIdentity
    from backstory.store import Log


class Reading(Struct, kw_only=True):
    """A log whose slices are coming in."""

    each: Candidate
    others: list[Log] = field(default_factory=list)
    """The session's other logs, whose records it may repeat."""
    log_id: int | None = None
    is_refused: bool = False
    is_unparsed: bool = False
    """True if what it says could not be stored: of what follows the bytes are kept alone."""
    is_kept: bool = False
    """It is read from what the store keeps of it, not from its file."""
    parent: Candidate | None = None
    """The log that reported this one, if it has none of its own."""
    subagents: dict[str, Reading] = field(default_factory=dict)
    """Those that it reports of and that are read along with it, by their paths."""
    is_along: bool = True
    """False once its subagents are to be read from its beginning: something of them is kept, or cannot be stored."""


def source_of(each: Candidate, identity: LogIdentity, head: bytes, log: Log | None) -> Source:
    """A log to read; ``head`` is its beginning, ``log`` what is kept of it."""
    named_by = _started_ms(each.agent, each.path, head) or identity.began or ids.first_timestamp_ms(head)
    if identity.relation == Relation.ASIDE:
        # The file that holds the conversation names the session, whichever of them comes first.
        named_by = 0
    return Source(
        agent=each.agent, identity=identity, path=Path(each.path), relpath=relpath(each),
        session_uid=ids.session_uid(each.agent.name, identity.native_id, named_by),
        created=created_ms(each.agent, each.path, head), place=place_of(each, log.id if log else None),
    )  # fmt: skip


def created_ms(agent: Agent, path: str, head: bytes) -> int:
    """Return the begin of a log's session from its first bytes; 0 if they do not give it."""
    return _started_ms(agent, path, head) or ids.first_own_time_ms(head)


def place_of(each: Candidate, log_id: int | None, reason: str | None = None) -> FileStamp:
    """A file as it was found, and the log that it is kept as; without one, or with all of it not, for a reason."""
    return FileStamp(
        path=each.path, agent=each.agent.name, log_id=log_id, device=each.device, inode=each.inode, size=each.size,
        mtime_ns=each.mtime_ns, ctime_ns=each.ctime_ns, reason=reason,
    )  # fmt: skip


def is_as_noted(each: Candidate, seen: FileStamp) -> bool:
    """Return True if a file is as it was when it was last looked at; a ctime that was not noted counts for nothing."""
    return (seen.size, seen.mtime_ns, seen.inode, seen.device, seen.ctime_ns) == (
        each.size, each.mtime_ns, each.inode, each.device, seen.ctime_ns if seen.ctime_ns is None else each.ctime_ns,
    )  # fmt: skip


def kept_candidate(log: Log, agent: Agent) -> Candidate:
    """A log that is read from what is kept of it, as if it were found."""
    return Candidate(
        agent=agent, path=log.path or log.relpath, relpath=log.relpath, device=0, inode=0, size=log.read_to,
        mtime_ns=(log.modified or 0) * 1_000_000,
    )  # fmt: skip


def rows_candidate(rows: DatabaseRows) -> Candidate:
    """A session that only a database still holds, as if its log were found."""
    return Candidate(
        agent=rows.agent, path=rows.path, relpath=rows.relpath, device=0, inode=rows.mark, size=len(rows.content),
        mtime_ns=rows.mtime_ns,
    )  # fmt: skip


def relpath(each: Candidate) -> str:
    """Return the path of a log below its agent's own folder, compressed or not."""
    return each.relpath.removesuffix(".zst")


def _started_ms(agent: Agent, path: str, head: bytes) -> int:
    documents = agent.documents
    return documents.started_ms(head) if documents is not None and documents.is_document(Path(path)) else 0
