"""A case of a record that no adapter knows, for a test: the record scrubbed, behind those that say whose log it is."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from backstory import agents, ids
from backstory.agents.formats import Format, KnownKeys, format_of
from backstory.agents.jsonl import NotJson
from backstory.agents.scrubbing import Scrubber
from backstory.errors import CannotWrite
from backstory.ingest.formats import name_of_key, records_of_line
from backstory.ingest.log_reader import kept_lines
from backstory.model import Unknown
from backstory.store.private import MODE, as_ours, make_folder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backstory.agents.contract import Agent
    from backstory.ingest.formats import Strange
    from backstory.model import LogIdentity
    from backstory.store import Store

LOG = Path("log.jsonl")
HEAD_RECORDS_MAX = 20
"""The most records from a log's beginning that a case has, so that its agent is known."""
RECORD_BYTES_MAX = 4 * 1024 * 1024


class WrittenCase(Struct, frozen=True, kw_only=True):
    """A case that was written."""

    path: Path
    records: int
    kept: list[str]
    """Words in it that no format has, and that therefore somebody should look at."""


def write_case(store: Store, strange: Strange, folder: Path) -> WrittenCase:
    """Write a case of what is strange into a new folder for its owner alone. Raises CannotWrite, DiskFull.

    What is written was read again: its agent is known by it, and the same is strange in it.
    """
    agent = agents.load(strange.agent)
    about = [*strange.kind.split("/"), strange.kind, *(strange.key or "").replace("[", ".").replace("]", "").split(".")]
    scrubber = Scrubber(strange.agent, filter(None, about))
    lines = _scrubbed(store, agent, strange, folder, scrubber)
    try:
        make_folder(folder.parent)
        folder.mkdir(mode=MODE)
        file = os.open(folder / LOG, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        with os.fdopen(file, "wb") as log:
            log.write(b"".join(line + b"\n" for line in lines))
    except FileExistsError as refused:
        raise CannotWrite(folder, "it is there already") from refused
    except OSError as refused:
        raise as_ours(folder, refused) from refused
    return WrittenCase(path=folder / LOG, records=len(lines), kept=sorted(scrubber.kept))


def _scrubbed(store: Store, agent: Agent, strange: Strange, folder: Path, scrubber: Scrubber) -> list[bytes]:
    """The fewest records that tell whose they are, and in which the same is strange."""
    came = strange.came[0]
    if agent.documents is not None and agent.documents.is_document(Path(came.log.path or came.log.relpath)):
        raise CannotWrite(folder, "the record is a part of a document, which cannot be made smaller")
    head, record = list[bytes](), b""
    for line in kept_lines(store, came.log):
        if line.seq == came.seq:
            record = line.content or b""
            break
        if len(head) < HEAD_RECORDS_MAX and line.content is not None and len(line.content) < RECORD_BYTES_MAX:
            head.append(line.content)
    try:
        if not record or len(record) > RECORD_BYTES_MAX:
            raise NotJson("its record is not there any more" if not record else "its record is too long")
        for count in range(len(head) + 1):
            lines = [scrubber.line(each) for each in (*head[:count], record)]
            identity = agent.log.identify(LOG, b"".join(line + b"\n" for line in lines)[: ids.HEAD_BYTES])
            if identity is not None and strange.name in _names_in(agent, identity, lines):
                return lines
    except NotJson as refused:
        raise CannotWrite(folder, str(refused)) from refused
    raise CannotWrite(folder, "without its texts the record is not recognised any more")


def _names_in(agent: Agent, identity: LogIdentity, lines: Sequence[bytes]) -> set[str]:
    """The names of what is strange in a log of these lines."""
    reader, found = agent.log.reader(identity, None, tuple), set[str]()
    form = format_of(agent.name)
    keys = KnownKeys(form or Format())
    for seq, line in enumerate(lines, start=1):
        found |= {event.type for _, event in reader.read(line, seq).events if isinstance(event, Unknown)}
        for record in records_of_line(line):
            kind = keys.kind(record)
            found |= {name_of_key(kind, key.path) for key in keys.unknown(kind, record)} if form is not None else set()
            found |= set() if keys.has_case(kind) else {kind}
    return found
