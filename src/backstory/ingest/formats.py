"""Records in kept logs that adapters do not know: types, keys, how often each came, and where it came first.

Computed from the bytes that are kept, when asked; an import does none of it. Types are those that an agent's reader
calls unknown, keys those that ``agents.formats`` does not know.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct, field

from backstory.agents import documents, jsonl
from backstory.agents.formats import KnownKeys, format_of, version_in, version_order
from backstory.derive.facts import DerivedFacts
from backstory.errors import AgentUnusable, BackstoryError, UnknownAgent, in_words
from backstory.ingest.kept import kept_source
from backstory.ingest.log_reader import kept_lines
from backstory.model import DOCUMENT_LINE, Unknown
from backstory.store.tables.logs import FILE, STREAM

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from backstory.ingest.record_source import NumberedLine, RecordSource
    from backstory.store import Log, Session, Store

FOUND_MAX = 2_000
"""The most types and keys that are told apart; others are counted together."""
NAME_CHARS_MAX = 160
RECORDS_AT_ONCE = 1_000
VERSION_WITHIN = 50
"""The number of records at the beginning of a log that are asked for the version of its agent."""
_any = msgspec.json.Decoder()


class Sighting(Struct, kw_only=True):
    """A count of something in the logs of one version of an agent, and its first place: ``show UID @SEQ``."""

    version: str | None
    count: int
    log: Log
    seq: int


class Strange(Struct, kw_only=True):
    """A type of records, or a key of records of a kind, that an agent's adapter does not know."""

    agent: str
    kind: str
    key: str | None = None
    """Its path; None: the type itself is unknown."""
    is_read: bool = False
    """True for a type that the adapter knows, and of which no recorded case tells the keys."""
    came: list[Sighting] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The name by which it is listed and chosen."""
        return self.kind if self.key is None else name_of_key(self.kind, self.key)

    @property
    def count(self) -> int:
        return sum(each.count for each in self.came)


class Drift(Struct, kw_only=True):
    """All that was found, and how much was looked at."""

    strange: list[Strange] = field(default_factory=list)
    logs: int = 0
    records: int = 0
    bytes: int = 0
    left_out: int = 0
    """The number of times that something came that was not told apart any more."""
    unchecked: list[str] = field(default_factory=list)
    """The agents whose adapters do not say which keys they know."""
    errors: list[tuple[str, str]] = field(default_factory=list)
    """Logs that could not be read, each with the reason."""


def name_of_key(kind: str, key: str) -> str:
    """Return the name by which a key of a kind of records is listed."""
    return f"{kind}: {key}"


def drift_of(
    store: Store, logs: Iterable[Log], progress: Callable[[int, int], None] = lambda done, total: None
) -> Drift:
    """Read these logs for what their adapters do not know; ``progress`` receives bytes done and to do."""
    todo = [log for log in logs if log.source_kind in (FILE, STREAM)]
    looking, total = _Looking(), sum(log.read_to for log in todo)
    for log in todo:
        try:
            for line in _lines(store, log, looking):
                progress(looking.found.bytes + line.stop, total)
        except (BackstoryError, UnknownAgent, AgentUnusable) as refused:
            looking.found.errors.append((log.path or log.relpath, in_words(refused)))
        looking.found.logs += 1
        looking.found.bytes += log.read_to
        progress(looking.found.bytes, total)
    for strange in looking.found.strange:
        strange.came.sort(key=lambda each: version_order(each.version))
    looking.found.strange.sort(key=lambda each: (each.agent, each.key is not None, -each.count, each.name))
    return looking.found


def version_of(store: Store, session: Session) -> str | None:
    """The version of the agent that wrote a session, as a record near the beginning of its log says it."""
    looking = _Looking()
    for log in store.logs(session):
        keys = looking.keys_of(log.agent) if log.source_kind == FILE else None
        for line in islice(kept_lines(store, log), VERSION_WITHIN) if keys is not None else ():
            for record in records_of_line(line.content):
                if keys is not None and (version := version_in(keys.form, record)):
                    return version
    return None


def _lines(store: Store, log: Log, looking: _Looking) -> Iterator[NumberedLine]:
    """Look at each record of a log; yields one from time to time."""
    source, _ = kept_source(store, log, None)
    keys = looking.keys_of(log.agent) if log.source_kind == FILE else None
    version: str | None = None
    for number, line in enumerate(kept_lines(store, log)):
        looking.found.records += line.content is None or not is_ours(line.content)
        kinds = _unknown_types(source, line)
        if keys is not None:
            for record in records_of_line(line.content):
                version = version_in(keys.form, record) or version
                if not kinds:
                    looking.keys(log, line.seq, version, keys, record)
        for kind in kinds:
            looking.note(log, line.seq, version, kind)
        if number % RECORDS_AT_ONCE == 0:
            # What a reader gathers for the store is not needed here.
            source.turns()
            source.note_found(DerivedFacts())
            yield line


def _unknown_types(source: RecordSource, line: NumberedLine) -> list[str]:
    return [event.type for _, event in source.parse(line).events if isinstance(event, Unknown)]


def records_of_line(line: bytes | None) -> list[dict[str, Any]]:
    """Return the JSON objects on a line of an agent, or in a piece of a document that is kept in pieces."""
    if line is None or is_ours(line):
        return []
    try:
        found = [_any.decode(line)]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        found = _patiently(line) or _patiently(documents.record(line).content)
    return [each for each in found if isinstance(each, dict)]


def _patiently(line: bytes) -> list[Any]:
    try:
        return jsonl.patiently(line)
    except jsonl.NotJson:
        return []


def is_ours(line: bytes) -> bool:
    """Return True if a line in what is kept of a folder or a document is ours, and no record."""
    return line.startswith((jsonl.FOLDER_LINE, DOCUMENT_LINE))


class _Looking:
    """Gathers what is found."""

    def __init__(self) -> None:
        self.found = Drift()
        self._keys: dict[str, KnownKeys | None] = {}
        self._strange: dict[tuple[str, str, str | None], Strange] = {}
        self._came: dict[tuple[str, str, str | None, str | None], Sighting] = {}

    def keys_of(self, agent: str) -> KnownKeys | None:
        """Return what walks the records of an agent; None if its adapter does not say which keys it knows."""
        if agent not in self._keys:
            form = format_of(agent)
            self._keys[agent] = None if form is None else KnownKeys(form)
            self.found.unchecked += [agent] if form is None else []
        return self._keys[agent]

    def keys(self, log: Log, seq: int, version: str | None, keys: KnownKeys, record: dict[str, Any]) -> None:
        """Note the keys of a record that are unknown; of a kind that no case has, only the kind."""
        kind = keys.kind(record)
        if not keys.has_case(kind):
            self.note(log, seq, version, kind, is_read=True)
            return
        for key in {each.path for each in keys.unknown(kind, record)}:
            self.note(log, seq, version, kind, key)

    def note(
        self, log: Log, seq: int, version: str | None, kind: str, key: str | None = None, *, is_read: bool = False
    ) -> None:
        """Count something strange."""
        kind = kind[:NAME_CHARS_MAX]
        named = log.agent, kind, key, version
        if (came := self._came.get(named)) is not None:
            came.count += 1
        elif len(self._came) == FOUND_MAX:
            self.found.left_out += 1
        else:
            strange = self._strange.get(named[:3])
            if strange is None:
                strange = self._strange[named[:3]] = Strange(agent=log.agent, kind=kind, key=key, is_read=is_read)
                self.found.strange.append(strange)
            came = self._came[named] = Sighting(version=version, count=1, log=log, seq=seq)
            strange.came.append(came)
