"""Logs that nobody understands yet: kept like any other, under the name they lay under.

Each is in a session of its own, which is no conversation, and each of its records is Unknown. When more of it
comes, or a later adapter knows it, it is read anew from what is kept, as the log that it is.
"""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING

from backstory import ids
from backstory.agents import bounded
from backstory.agents.jsonl import BLANK, FOLDER_LINE, LINE_BYTES_MAX
from backstory.model import LogIdentity, Parsed, Relation, SessionFacts, Unknown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from backstory.agents.contract import Agent, LogReader
    from backstory.model import Turn

PREFIX = "not understood: "
"""The native id of such a log begins so; its path below the agent's own folder follows."""
RECORD = "not understood"
LOOKED_AT_BYTES = 4 * 1024 * 1024
"""The most of a log that is looked at where its first 64 KB do not say whose it is: its first record may be long."""


def identity_of(relpath: str) -> LogIdentity:
    """Return the identity of a file that nobody understands: its own."""
    return LogIdentity(native_id=f"{PREFIX}{relpath}", relation=Relation.UNREAD)


def is_unread(native_id: str) -> bool:
    """Return True if a log with this native id is one that nobody understands."""
    return native_id.startswith(PREFIX)


def identified(agent: Agent, path: Path, read: Callable[[int, int], bytes]) -> tuple[LogIdentity | None, bytes]:
    """Return the owner of a file, None if its agent does not give one, and its first bytes after blank space.

    The beginning is empty where the file holds nothing. ``read`` gives so many bytes from an offset on.
    """
    at, head = _beginning(read)
    records = head if agent.folders is None else _records_in(head)
    identity = agent.log.identify(path, records) if records else None
    if identity is None and len(head) == ids.HEAD_BYTES:
        more = read(at, LOOKED_AT_BYTES)
        identity = agent.log.identify(path, more if agent.folders is None else _records_in(more))
    return identity, records or head


def _records_in(head: bytes) -> bytes:
    """The beginning of a folder's log from its first record on: before it there may be lines of ours."""
    while head.startswith(FOLDER_LINE):
        head = head.partition(b"\n")[2]
    return head


def _beginning(read: Callable[[int, int], bytes]) -> tuple[int, bytes]:
    """Return where a log begins to hold text, and 64 KB from there; from 0 on if that is within the first 64 KB."""
    at = 0
    # A disk that lost a file's first blocks gives zeros for them: what follows that hole is looked at.
    while (block := read(at, ids.HEAD_BYTES)) and at <= LINE_BYTES_MAX:
        if rest := block.lstrip(BLANK + b"\n"):
            begun = at + len(block) - len(rest)
            return (begun, read(begun, ids.HEAD_BYTES)) if at else (0, block)
        at += len(block)
    return at, block


def reader_of(
    agent: Agent, identity: LogIdentity, state: bytes | None, earlier: Callable[[], Iterable[bytes]]
) -> LogReader:
    """The agent's reader of a log; of one that nobody understands, one that says so of each record."""
    if is_unread(identity.native_id):
        return _Reader(identity)
    return bounded.log_reader(agent, identity, state, earlier)


class _Reader:
    """Understands nothing."""

    def __init__(self, identity: LogIdentity) -> None:
        name = PurePath(identity.native_id.removeprefix(PREFIX)).name
        self.session = SessionFacts(title=f"{name}, not understood")
        self.unknown: dict[str, int] = {}

    def read(self, line: bytes, seq: int) -> Parsed:
        return Parsed(None, [(0, Unknown(type=RECORD))], None)

    def touched(self) -> Iterator[Turn]:
        return iter(())

    def state(self) -> bytes:
        return b""
