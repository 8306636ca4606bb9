"""Other tools' logs. One file per agent: the file is its own registration.

``names()`` lists the agents without importing any; ``load(name)`` imports one. A package elsewhere adds its
own through the entry point group ``backstory.agents`` (name = the agent, value = a module with ``AGENT``).
To add an agent here: one file with an ``AGENT``, and one folder of cases in ``tests/agents/cases``.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from msgspec import Struct, field

from backstory.errors import UnknownAgent
from backstory.ids import record_key
from backstory.model import Tokens

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from importlib.metadata import EntryPoint
    from pathlib import PurePath

    from backstory.found import Found, FoundRef, FoundSummary
    from backstory.model import Event, LogIdentity, Parsed, Permissions, SessionFacts, ToolResult, Turn

ENTRY_POINTS = "backstory.agents"


class Place(Struct, frozen=True, kw_only=True):
    """A folder where an agent keeps logs, and the agent's own folder that it lies in."""

    folder: Path
    root: Path


class Agent(Protocol):
    """What an agent's file says about it."""

    name: str
    title: str

    def places(self, environ: Mapping[str, str], home: Path) -> list[Place]:
        """Where this agent's logs would be, whether or not the folders exist."""

    def is_log(self, path: Path) -> bool:
        """Whether a file below one of the places is meant to be a log, by its name alone."""

    def identify(self, path: Path, head: bytes) -> LogIdentity | None:
        """Whose log it is, from the file's place and its first 64 KB; None when no record of ours is in them."""

    def reader(self, identity: LogIdentity, state: bytes | None, earlier: Callable[[], Iterable[bytes]]) -> LogReader:
        """A reader that goes on from ``state`` (None: from the start).

        ``earlier`` gives the log's lines before that point again, for the rare record that points far back.
        """

    def is_whole(self, line: bytes) -> bool:
        """Whether a last line without its end looks like a whole record."""

    def native_id_of(self, line: bytes) -> str | None:
        """The id a record carries, for matching a rewritten log with what is kept; None when it has none."""


class CompanionFacts(Struct, frozen=True, kw_only=True):
    """What a file beside a log says about the session; None where it says nothing."""

    title: str | None = None
    is_title_given: bool = False
    """Whether a person chose the title; else the agent did."""
    cwd: str | None = None
    repository: str | None = None
    branch: str | None = None
    checkpoint: tuple[int, str] | None = None
    """A checkpoint's number and its text."""
    checkpoint_titles: dict[int, str] = field(default_factory=dict)


class KeepsCompanions(Protocol):
    """An agent that keeps small files beside its logs or below them, each rewritten whole. See ``companions_of``."""

    def log_of(self, below: PurePath) -> PurePath | None:
        """The log that a file, itself none, belongs to, by its name alone; None for a file of no interest.

        Both are paths below the folder of a place, and the file lies in the log's folder or below that.
        """

    def tells(self, name: str) -> bool:
        """Whether a companion of this name (its path below the log's folder) may say anything about the session."""

    def told_by(self, name: str, content: bytes) -> CompanionFacts:
        """What a companion says; nothing when its content is not what its name promises."""

    def spilled_to(self, result: ToolResult) -> str | None:
        """The end of a companion's name, when a result stands there and the log has only its beginning."""


class KeepsDocuments(Protocol):
    """An agent of whose logs some are one document over many lines. See ``documents_of``."""

    def is_document(self, path: PurePath) -> bool:
        """Whether a log is such a document, by its name alone; in others each line is a record."""

    def record_end(self, head: bytes) -> re.Pattern[bytes]:
        """What the last line of every record of a document matches, from its beginning."""

    def started_ms(self, head: bytes) -> int:
        """When the session of a document began, ms since 1970, from its beginning; 0 when it is not told."""


class SessionRows(Struct, frozen=True, kw_only=True):
    """A session that stands in a database, as lines of JSON, one a row: read like a log."""

    native_id: str
    content: bytes


class UnreadRows(Struct, frozen=True, kw_only=True):
    """What of a database could not be read, and why. ``native_id``: the session's, where it is of one."""

    native_id: str | None = None
    reason: str


class UnreadableDatabase(Exception):
    """A database that is damaged, of a later version, or something else; says which."""


class KeepsRows(Protocol):
    """An agent with a database of sessions, which may hold what logs no longer do. See ``rows_of``."""

    def databases(self, environ: Mapping[str, str], home: Path) -> list[Path]:
        """Where such a database would be, whether or not it exists."""

    def sessions_without_logs(self, database: Path, copy: Path) -> Iterator[SessionRows | UnreadRows]:
        """The sessions of a database whose logs are gone from beside it. ``copy`` is read; raises UnreadableDatabase.

        It is ours, as are its journals beside it, and may be changed.

        Their rows are what ``identify`` and ``reader`` are given as a log, whose path is the database's, a ``#`` and
        the session's id.
        """


class ReportsSubagents(Protocol):
    """An agent whose logs repeat what its subagents said. See ``reports_of``."""

    def reported(self, line: bytes) -> list[tuple[str, bytes]]:
        """The subagents, by their ids, that a line of a log reports of, each with the record of its own log."""

    def own_logs(self, path: Path, subagent: str) -> list[Path]:
        """Where the own log of a subagent of the log at ``path`` may lie."""


class KeptFile(Struct, frozen=True, kw_only=True):
    """A file beside a log, as our store has it. ``name``: its path below the log's folder."""

    name: str
    read: Callable[[], bytes]


class KeptLog(Struct, frozen=True, kw_only=True):
    """A log as our store has it, whose it is, and where it lay; its bytes and what lies beside it when asked for."""

    session_id: int
    """As in the rows of the same source."""
    agent: str
    native_id: str
    path: str
    read: Callable[[], Iterable[bytes]]
    beside: Callable[[], list[KeptFile]]


class Exported(Protocol):
    """Sessions of one of our stores, for an agent to write in its own form."""

    def rows(self, view: str, columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        """What a view that ``backstory sql`` shows has of these sessions, in the order of its ``id``."""

    def logs(self) -> Iterator[KeptLog]:
        """The agents' own logs of these sessions; where a log was rewritten, what it was before comes first."""


class WritesStore(Protocol):
    """An agent in whose own form sessions can be written. See ``writer_of``."""

    name: str

    def write_store(self, path: Path, sources: Iterable[Exported], *, exact: bool, now: int) -> dict[str, int]:
        """Fill the empty file at ``path``; gives how many rows of each kind it has.

        ``exact``: as the agent itself would write them from its own logs, at ``now`` (ms since 1970), with all that it
        gets wrong; else what is known. Raises OSError or sqlite3.Error where the file cannot be written.
        """


class Exit(Struct, frozen=True, kw_only=True):
    """How an agent's process ended: its exit code, or the signal that ended it; whether we had asked it to stop."""

    code: int | None = None
    signal: int | None = None
    was_cancelled: bool = False


class Ending(Struct, frozen=True, kw_only=True):
    """What a run came to, from its events and its exit together."""

    outcome: str
    error: str | None = None
    """Why it failed, where no event said so."""
    duration_ms: int | None = None
    api_latency_ms: int | None = None
    stop_reason: str | None = None
    model: str | None = None
    tokens: Tokens = field(default_factory=Tokens)
    tokens_source: str | None = None
    cost_usd: float | None = None
    cost_source: str | None = None


class Streamed(Struct, frozen=True):
    """What one line of a run's output says."""

    events: list[tuple[int, Event]]
    takes_number: bool = True
    """False for a delta, which a later record tells whole."""
    delta: str = ""
    """Text to show at once; it is told again as part of an AssistantText."""


class Runnable(Protocol):
    """An agent that backstory can run. Its prompt always comes on stdin, and its own resume is never used."""

    name: str
    executable: str
    """What it is called on PATH."""
    prompt_chars_max: int | None
    """A longer prompt, the context in it, is refused; None where no bound is known."""

    def native_id(self, randomness: bytes) -> str | None:
        """The session id a run is given beforehand, from 16 random bytes; None where the agent chooses it."""

    def command(
        self, executable: str, *, model: str | None, permissions: Permissions, native_id: str | None
    ) -> list[str]:
        """The command line of one run."""

    def stream_reader(self) -> StreamReader:
        """A reader for the output of one run."""


class Steerable(Protocol):
    """An agent that takes further words on stdin while it runs, between its steps. See ``steerable``."""

    def listening(self, command: list[str]) -> list[str]:
        """A command line, changed so that the prompt is a line on a stdin that stays open for more."""

    def line(self, text: str, word: str = "") -> bytes:
        """A prompt, or later words, as a line for stdin. ``word`` is their id; a prompt has none."""

    def word_of(self, uid: str) -> str:
        """The id that words are given, from the uid they were queued under: always the same."""


class ListeningReader(Protocol):
    """A StreamReader of an agent that is steerable."""

    tells_taken: bool
    """Whether the agent, as it said, tells which words it takes up; until then it is told none."""
    is_deaf: bool
    """Whether the agent has begun to answer, or to say what it can, without saying that."""
    is_waiting: bool
    """Whether it has answered all it was told, and waits for more or for the end of its stdin."""
    taken: list[str]
    """The ids of the words that it has taken up, in order."""


class StreamReader(Protocol):
    """Understands a run's output as it comes."""

    native_id: str | None
    unknown: dict[str, int]

    def read(self, line: bytes) -> Streamed:
        """Take a line of stdout, without its end."""

    def stderr(self, line: bytes) -> list[Event]:
        """Take a line of stderr: what is an error that stdout does not tell."""

    def ended(self, exit: Exit) -> Ending:
        """What it all came to."""


class LogReader(Protocol):
    """Folds a log's records, in order, into events, turns and facts about their session. It invents nothing."""

    session: SessionFacts
    unknown: dict[str, int]
    """Types of records that the adapter neither maps nor names as kept, with how often each came."""

    def read(self, line: bytes, seq: int) -> Parsed:
        """Take one record (a line without its end), whose number in the session is ``seq``."""

    def touched(self) -> Iterator[Turn]:
        """The turns that records since the last call began or changed."""

    def state(self) -> bytes:
        """All that is needed to go on later; small, whatever the log's size."""


class MeetsReports(Protocol):
    """A reader of logs in which subagents are reported of."""

    def has_reported(self) -> bool:
        """Whether a record since the last call does."""


class NamesRefs(Protocol):
    """A reader of logs in which pull requests, issues and commits stand by themselves, in no text and no call."""

    def named(self) -> list[FoundRef]:
        """Those that records since the last call name."""


class MeetsSummaries(Protocol):
    """A reader of logs in which conversations are summed up in a few words, also those of other sessions."""

    def summed_up(self) -> tuple[list[str], list[FoundSummary]]:
        """The ids of the records since the last call, in order, and the summaries that it met since."""


def names() -> list[str]:
    """The agents known here, in alphabetical order; none is imported."""
    return sorted(_own() | {point.name for point in _entry_points()})


def load(name: str) -> Agent:
    """The agent called ``name``; raises UnknownAgent."""
    known = sys.modules.get(f"{__name__}.{name}")
    if known is not None and hasattr(known, "AGENT"):
        # Looking through the folder each time would cost more than what is asked of the agent.
        return _agent_of(known)
    if name in _own():
        return _agent_of(importlib.import_module(f"{__name__}.{name}"))
    for point in _entry_points():
        if point.name == name:
            return _agent_of(point.load())
    raise UnknownAgent(name, names())


def reader_of(
    agent: Agent, identity: LogIdentity, state: bytes | None, earlier: Callable[[], Iterable[bytes]]
) -> LogReader:
    """The agent's reader of a log, which tells only numbers and times that can be kept; see ``Agent.reader``."""
    from backstory.agents import _numbers

    return _numbers.fitting(agent.reader(identity, state, earlier))


def stream_reader_of(agent: Runnable) -> StreamReader:
    """The agent's reader of a run's output, which tells only numbers that can be kept."""
    from backstory.agents import _numbers

    return _numbers.fitting_stream(agent.stream_reader())


def companions_of(agent: Agent) -> KeepsCompanions | None:
    """What an agent's file says about companions; None when there are none."""
    return cast("KeepsCompanions", agent) if hasattr(agent, "log_of") else None


def documents_of(agent: Agent) -> KeepsDocuments | None:
    """What an agent's file says about logs that are documents; None when it has none."""
    return cast("KeepsDocuments", agent) if hasattr(agent, "is_document") else None


def rows_of(agent: Agent) -> KeepsRows | None:
    """What an agent's file says about its database; None when there is none."""
    return cast("KeepsRows", agent) if hasattr(agent, "databases") else None


def reports_of(agent: Agent) -> ReportsSubagents | None:
    """What an agent's file says about reports of subagents; None when its logs hold none."""
    return cast("ReportsSubagents", agent) if hasattr(agent, "reported") else None


def has_reported(reader: LogReader) -> bool:
    """Whether a record that a reader took since the last call reports of a subagent."""
    return cast("MeetsReports", reader).has_reported() if hasattr(reader, "has_reported") else False


def refs_named_by(reader: LogReader) -> list[FoundRef]:
    """The refs that stand by themselves in what a reader read since the last call; most readers meet none."""
    return cast("NamesRefs", reader).named() if hasattr(reader, "named") else []


def note_found(reader: LogReader, found: Found) -> None:
    """Add what stands by itself in what a reader read since the last call: refs, summaries, and its records' ids."""
    found.refs += refs_named_by(reader)
    if hasattr(reader, "summed_up"):
        record_ids, summaries = cast("MeetsSummaries", reader).summed_up()
        found.record_ids += b"".join(map(record_key, record_ids))
        found.summaries += summaries


def writer_of(agent: Agent) -> WritesStore | None:
    """What an agent's file says about writing its form; None when it does not."""
    return cast("WritesStore", agent) if hasattr(agent, "write_store") else None


def steerable(agent: Runnable) -> Steerable | None:
    """What an agent's file says about words while it runs; None when it takes none."""
    return cast("Steerable", agent) if hasattr(agent, "word_of") else None


def _agent_of(module: object) -> Agent:
    agent: Agent = module.AGENT  # type: ignore[attr-defined]
    return agent


def _own() -> set[str]:
    found = (each.name for each in pkgutil.iter_modules([str(Path(__file__).parent)]))
    return {name for name in found if not name.startswith("_")}


@cache
def _entry_points() -> tuple[EntryPoint, ...]:
    from importlib.metadata import entry_points  # costs 50 ms, so only where agents are looked for

    return tuple(entry_points(group=ENTRY_POINTS))
