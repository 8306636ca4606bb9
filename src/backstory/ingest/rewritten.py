"""Documents that their agents write anew, between their files and what is kept of them: see ``agents.documents``."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path, PurePath
from typing import IO, TYPE_CHECKING

from backstory import agents
from backstory.errors import UnknownAgent
from backstory.ingest.log_reader import opened
from backstory.lazy import lazy_module
from backstory.model import DOCUMENT_LINE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from backstory.agents import documents
    from backstory.agents.contract import Agent
    from backstory.store import Log, Store
else:
    # An ingest with nothing new reads no document.
    documents = lazy_module("backstory.agents.documents")

DOCUMENT_BYTES_MAX = 512 * 1024 * 1024
"""A larger one is not read: it is in memory as a whole, several times."""


class DocumentTooLarge(OSError):
    """A document that is too large to be read; says so as ``strerror``."""

    strerror = f"a document of more than {DOCUMENT_BYTES_MAX >> 20} MB, which is not read"


def is_rewritten(agent: Agent, path: str | PurePath) -> bool:
    """Return True if a log is a document that is kept in pieces."""
    keeper = agent.documents
    return keeper is not None and keeper.is_document(PurePath(path)) and keeper.pieces(b"") is not None


def as_kept(agent: Agent, file: IO[bytes], kept: bytes = b"") -> IO[bytes]:
    """The kept form of a document, given as its file, behind what is kept; raises DocumentTooLarge."""
    assert agent.documents is not None
    data = file.read(DOCUMENT_BYTES_MAX + 1)
    if len(data) > DOCUMENT_BYTES_MAX:
        raise DocumentTooLarge
    return BytesIO(documents.grown(kept, agent.documents.pieces(data) or ()))


def kept_form(store: Store, path: str, file: IO[bytes], kept: Sequence[Log]) -> bytes:
    """The kept form that a file continues: of its own path, of one that is gone, or one with the same content.

    A file at another path has a form of its own: what one of the two says last is not what the other does.
    """
    data: bytes | None = None
    for log in sorted(kept, key=lambda log: (log.path != path, -log.id)):
        form = b"".join(store.stream_log(log.id))
        if log.path != path and Path(log.path).exists():
            if data is None:
                file.seek(0)
                data = file.read(DOCUMENT_BYTES_MAX + 1)
            if documents.newest(form) != data:
                continue
        return form
    return b""


def is_kept_in_pieces(log: Log, head: bytes) -> bool:
    """Return True if a log is such a kept form; ``head``: its first bytes."""
    if not head.startswith(DOCUMENT_LINE):
        return False
    try:
        return is_rewritten(agents.load(log.agent), log.path or log.relpath)
    except UnknownAgent:
        # No file of the agent's begins like this.
        return True


def as_file(log: Log, data: Iterable[bytes]) -> Iterator[bytes]:
    """The file that a log was, from its kept bytes."""
    every = iter(data)
    first = next(every, b"")
    if is_kept_in_pieces(log, first):
        yield documents.newest(first + b"".join(every))
        return
    yield first
    yield from every


def opened_like(store: Store, log: Log, path: Path) -> IO[bytes]:
    """A file that may be a log that is kept, in the form in which that is kept."""
    file, agent = opened(path), agents.load(log.agent)
    if not is_rewritten(agent, path):
        return file
    with file:
        return as_kept(agent, file, b"".join(store.stream_log(log.id)))
