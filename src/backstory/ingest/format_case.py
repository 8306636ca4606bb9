"""A case of a record that no adapter knows, for a test: the record scrubbed, behind those that say whose log it is."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from backstory import agents, ids
from backstory.agents import documents
from backstory.agents.formats import Format, KnownKeys, format_of
from backstory.agents.jsonl import NotJson
from backstory.agents.scrubbing import Scrubber
from backstory.errors import CannotWrite
from backstory.ingest.formats import is_ours, name_of_key, records_of_line
from backstory.ingest.log_reader import kept_lines
from backstory.ingest.rewritten import is_rewritten
from backstory.model import Unknown
from backstory.store.private import MODE, as_ours, make_folder

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

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
    place = _place_of(agent, Path(strange.came[0].log.path or strange.came[0].log.relpath), scrubber)
    if place is None:
        raise CannotWrite(folder, "the record is a part of a document, which cannot be made smaller")
    content, records = _scrubbed(store, agent, strange, folder, place, scrubber)
    try:
        make_folder(folder.parent)
        folder.mkdir(mode=MODE)
        make_folder((folder / place).parent)
        file = os.open(folder / place, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        with os.fdopen(file, "wb") as log:
            log.write(content)
    except FileExistsError as refused:
        raise CannotWrite(folder, "it is there already") from refused
    except OSError as refused:
        raise as_ours(folder, refused) from refused
    return WrittenCase(path=folder / place, records=records, kept=sorted(scrubber.kept))


def _place_of(agent: Agent, path: Path, scrubber: Scrubber) -> Path | None:
    """The path below a case's folder by which its agent knows a log of this path; None if it cannot be made smaller."""
    if agent.folders is not None and path.name == agent.folders.head:
        return Path(scrubber.text(path.parent.name), path.name)
    if agent.documents is None or not agent.documents.is_document(path):
        return LOG
    if not is_rewritten(agent, path):
        return None
    # The shortest ending, since what stands before it may be anybody's words.
    names = ("".join([LOG.stem, *path.suffixes[start:]]) for start in range(len(path.suffixes) - 1, -1, -1))
    return next((Path(name) for name in names if agent.documents.is_document(Path(name))), None)


def _scrubbed(
    store: Store, agent: Agent, strange: Strange, folder: Path, place: Path, scrubber: Scrubber
) -> tuple[bytes, int]:
    """The fewest records that tell whose they are, and in which the same is strange, as a file; and their number."""
    came = strange.came[0]
    head, record = list[bytes](), b""
    for line in kept_lines(store, came.log):
        if line.seq == came.seq:
            record = line.content or b""
            break
        if len(head) < HEAD_RECORDS_MAX and line.content is not None and len(line.content) < RECORD_BYTES_MAX:
            head += [] if is_ours(line.content) else [line.content]
    try:
        if not record or len(record) > RECORD_BYTES_MAX:
            raise NotJson("its record is not there any more" if not record else "its record is too long")
        for content, lines in _tries(agent, place, head, record, scrubber):
            identity = agent.log.identify(place, content[: ids.HEAD_BYTES])
            if identity is not None and strange.name in _names_in(agent, identity, lines):
                return content, sum(not is_ours(line) for line in lines)
    except NotJson as refused:
        raise CannotWrite(folder, str(refused)) from refused
    raise CannotWrite(folder, "without its texts the record is not recognised any more")


def _tries(
    agent: Agent, place: Path, head: Sequence[bytes], record: bytes, scrubber: Scrubber
) -> Iterator[tuple[bytes, list[bytes]]]:
    """The cases that may do, the smallest first: each as a file, and as the lines that are read of it."""
    if agent.documents is not None and is_rewritten(agent, place):
        content = _document([documents.record(line) for line in (*head, record)], scrubber)
        kept = documents.grown(b"", agent.documents.pieces(content) or ())
        yield content, kept.removesuffix(b"\n").split(b"\n")
        return
    for count in range(len(head) + 1):
        lines = [scrubber.line(each) for each in (*head[:count], record)]
        yield b"".join(line + b"\n" for line in lines), lines


def _document(pieces: Sequence[documents.KeptLine], scrubber: Scrubber) -> bytes:
    """A document of the last of these pieces, and of what stands before its list."""
    last, begin = pieces[-1], next((each for each in reversed(pieces) if each.begins), None)
    if begin is None:
        raise NotJson("the beginning of its document is not there")
    listed = scrubber.line(last.content) if last.is_element else b""
    behind = b"}" if last.is_element or last.begins else scrubber.line(last.content).replace(b"{", b", ", 1)
    return scrubber.line(begin.content).removesuffix(b"]}") + listed + b"]" + behind + b"\n"


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
