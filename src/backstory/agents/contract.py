"""The contract of an agent: an ``Agent`` is a value whose parts give its abilities.

Only ``log`` is required. A part that an agent does not have is None, so callers ask ``agent.steer is not None``.
Each part is an object with exactly the members of its class here; ``conformance`` tests that, and what they return.

The shapes in which an agent keeps a session, and the part that carries each:

- a file that grows, or several files of one session: ``log``;
- a whole file rewritten: ``documents``;
- rows of a database that its agent writes meanwhile: ``live``;
- a folder that reads as one log, of chunks named after their content, or of one file an event: ``folders``.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from msgspec import Struct, field

from backstory.model import Tokens

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path, PurePath

    from backstory.conversation.board import BoardItem
    from backstory.conversation.carried import Action, CarriedSession, CarriedTurn, Image
    from backstory.model import (
        Event,
        LogIdentity,
        Parsed,
        Permissions,
        RunFacts,
        SessionFacts,
        ToolCall,
        ToolResult,
        Turn,
    )


class Agent(Struct, frozen=True, kw_only=True):
    """One agent: its name as typed and stored, its title as shown, and its parts."""

    name: str
    title: str
    log: LogPart
    documents: DocumentPart | None = None
    reports: ReportPart | None = None
    sidecars: SidecarPart | None = None
    database: DatabasePart | None = None
    live: LiveDatabasePart | None = None
    folders: FolderPart | None = None
    run: RunPart | None = None
    steer: SteerPart | None = None
    own_log: OwnLogPart | None = None
    resume: ResumePart | None = None
    asking: AskingPart | None = None
    write: WritePart | None = None
    export: ExportPart | None = None
    session_export: SessionExportPart | None = None
    commits: CommitPart | None = None
    instruction_files: tuple[str, ...] = ()
    """Files of a repository's instructions that it reads, as paths below the root; new ones go to the first."""
    guide: GuidePart | None = None
    retention: RetentionPart | None = None
    servers: ServerPart | None = None
    skills: SkillPart | None = None
    keeps_trees: bool = False
    """Its own history is a tree with a current branch, and its records say nothing by the order they come in."""


# logs -----------------------------------------------------------------------------------------------------------


class LogRoot(Struct, frozen=True, kw_only=True):
    """A folder where an agent keeps logs, and the agent's own folder that it lies in."""

    folder: Path
    root: Path


class LogPart(Protocol):
    """The agent's logs: where they are, whose each is, and how one is read.

    A session may lie in several files. Each is a log of its own, read by itself in any order: ``identify`` gives all of
    them the session's id, and one without anything of the conversation the relation ``Relation.ASIDE``, which begins
    no session. A turn that is in several of them has one uid, and two turns never have. ``conformance`` has a check.
    """

    def roots(self, environ: Mapping[str, str], home: Path) -> list[LogRoot]:
        """Return the folders of this agent's logs, whether or not they exist."""

    def is_log(self, path: Path) -> bool:
        """Return True if a file below one of the roots is meant to be a log, by its name alone."""

    def identify(self, path: Path, head: bytes) -> LogIdentity | None:
        """Return a log's owner, from the file's path and its first 64 KB; None if they hold no record of the agent."""

    def reader(self, identity: LogIdentity, state: bytes | None, earlier: Callable[[], Iterable[bytes]]) -> LogReader:
        """A reader that continues from ``state`` (None: from the start).

        ``earlier`` returns the log's lines before that point again, for the rare record that points far back.
        """

    def is_whole(self, line: bytes) -> bool:
        """Return True if a last line without its end looks like a whole record."""

    def native_id_of(self, line: bytes) -> str | None:
        """The id a record carries, for matching a rewritten log with what is kept; None when it has none."""


class LogReader(Protocol):
    """Folds a log's records, in order, into events, turns and facts about their session. It invents nothing."""

    @property
    def session(self) -> SessionFacts:
        """Return the facts of the session in the records so far."""

    @property
    def unknown(self) -> Mapping[str, int]:
        """Types of records that the adapter neither maps nor names as kept, with how often each came."""

    def read(self, line: bytes, seq: int) -> Parsed:
        """Take one record (a line without its end), whose number in the session is ``seq``."""

    def touched(self) -> Iterator[Turn]:
        """The turns that records since the last call began or changed."""

    def state(self) -> bytes:
        """All that is needed to continue later; small, whatever the log's size."""


class RecordBegin(Protocol):
    """Cuts the lines of one document into records. It is asked for each line in order, from a record's first one on."""

    def begins(self, line: bytes) -> bool:
        """Return True if a record begins with this line; what it remembers began with that record, too."""


class DocumentPart(Protocol):
    """Logs that are one document of JSON over many lines, which the agent writes anew at each change.

    The shape *a whole file rewritten*: ``pieces`` cuts the file at the elements of its list, and what is kept of it,
    and read, are the lines of ``documents``, each version behind the ones before. ``identify`` is given either form.
    A reader takes each line with ``documents.record``; an element whose content changed comes again, and says only
    what is new in it. One without an id is known by its place, which the line before it names. So a history of
    elements with neither ids nor times fits as well: a turn is then known by how many began before it.
    """

    def is_document(self, path: PurePath) -> bool:
        """Return True if a log is such a document, by its name alone; in others each line is a record."""

    def pieces(self, document: bytes) -> list[bytes] | None:
        """Cut a document, damaged or not, into what is kept once: ``documents.pieces`` does it. Joined they are it.

        None, whatever the document: it is kept as it is, each rewriting as a log of its own, and ``record_end`` cuts.
        """

    def record_end(self, head: bytes) -> re.Pattern[bytes] | RecordBegin | None:
        """Return what cuts a document into records, from its beginning: the pattern of the last line of every record.

        Where a record ends is not always seen in its last line; then it is a new ``RecordBegin``.

        None for one that ``pieces`` cuts.
        """

    def started_ms(self, head: bytes) -> int:
        """Return the begin of a document's session, ms since 1970, from its first bytes; 0 if that is unknown."""


class ReportedRecord(NamedTuple):
    """A subagent, by its id, the record that its own log would have, and the parts of that which the line repeats."""

    subagent: str
    record: bytes
    repeated: tuple[bytes, ...] = ()


class ReportPart(Protocol):
    """Logs that repeat what subagents said."""

    def reported(self, line: bytes) -> list[ReportedRecord]:
        """Return the records of subagents that a line of a log reports."""

    def own_logs(self, path: Path, subagent: str) -> list[Path]:
        """Return the possible places of the own log of a subagent of the log at ``path``."""


# beside logs ----------------------------------------------------------------------------------------------------


class SidecarContent(Struct, frozen=True, kw_only=True):
    """The facts of a session in a file beside its log; None for those that it does not give."""

    title: str | None = None
    is_title_given: bool = False
    """True if a person chose the title; else the agent did."""
    cwd: str | None = None
    repository: str | None = None
    branch: str | None = None
    host_type: str | None = None
    checkpoint: tuple[int, str] | None = None
    """A checkpoint's number and its text."""
    checkpoint_titles: dict[int, str] = field(default_factory=dict)
    outcome: str | None = None
    """The outcome of the last turn, which counts where the log leaves that open."""


class SidecarPart(Protocol):
    """Small files that the agent keeps beside its logs or below them, each rewritten whole."""

    def log_of(self, below: PurePath) -> PurePath | None:
        """The log that a file, itself none, belongs to, by its name alone; None for a file of no interest.

        Both are paths below the folder of a root, and the file lies in the log's folder or below that, or in or below
        the folder that this one is in. The log is called as ``name_of`` calls it.
        """

    def name_of(self, log: PurePath) -> PurePath:
        """The name by which ``log_of`` calls a log: its own, or one in its folder that all files of a session share."""

    def is_read(self, name: str) -> bool:
        """Return True if a sidecar of this name (its path from the log's folder) may tell of the session."""

    def read(self, name: str, content: bytes) -> SidecarContent:
        """Return the content of a sidecar; empty if it is not what its name promises."""

    def is_searched(self, name: str) -> bool:
        """Return True if the text of a sidecar of this name is to be found: one that its session made, or a result."""

    def spilled_to(self, result: ToolResult) -> str | None:
        """The end of a sidecar's name, when a result is stored there and the log has only its beginning."""


class SessionRows(Struct, frozen=True, kw_only=True):
    """A session of a database, as lines of JSON, one a row, or its own bytes of a file of many: read like a log."""

    native_id: str
    content: bytes


class UnreadRows(Struct, frozen=True, kw_only=True):
    """Rows of a database that could not be read, and the reason. ``native_id``: the session's, if they are of one."""

    native_id: str | None = None
    reason: str
    is_final: bool = False
    """True if the database says no more until it changes: it is not read again before."""
    is_large: bool = False
    """True if there was no room for them."""


class UnreadableDatabase(Exception):
    """A database that is damaged, of a later version, or something else; says which."""


class DatabasePart(Protocol):
    """Databases of sessions, which may hold what logs no longer do; also files to which each session is appended.

    The shape *one file with many sessions*: each is the bytes from its beginning to that of the next one, as they stand
    there. Together they are the file, but for an end in which nothing is asked yet. A session is known by words at its
    beginning, so its id stays when the file grows. ``conformance`` has a check.
    """

    def databases(self, environ: Mapping[str, str], home: Path) -> list[Path]:
        """Return the places of such databases in a person's home, whether or not they exist."""

    def databases_in(self, place: Path) -> list[Path]:
        """The databases of a folder that the agent was used in, or the one at this path; often none."""

    def beside(self, database: Path) -> list[Path]:
        """The databases that belong to another, whether or not they exist: they are copied with it."""

    def sessions_without_logs(self, database: Path, copy: Path) -> Iterator[SessionRows | UnreadRows]:
        """The sessions of a database whose logs are gone from beside it. ``copy`` is read; raises UnreadableDatabase.

        It is ours, as are its journals beside it, and may be changed.

        Their rows are what ``identify`` and ``reader`` are given as a log, whose path is the database's, a ``#`` and
        the session's id.
        """


class OpenTables(Protocol):
    """A database that is open for reading, within limits; ``foreign`` has it."""

    left_out: int

    def begin_session(self) -> None:
        """Begin another session, with limits of its own."""

    def columns(self, table: str) -> tuple[str, ...]:
        """The columns of a table; none when there is no such table."""

    def rows(self, table: str, rest: str = "", values: Sequence[Any] = ()) -> list[dict[str, Any]]:
        """The rows of a table. ``rest``: what comes after ``from table t``."""

    def select(
        self, table: str, given: Sequence[str], rest: str = "", values: Sequence[Any] = ()
    ) -> list[tuple[Any, ...]]:
        """Expressions of a table's rows; nothing where there is no such table."""


class LiveDatabasePart(Protocol):
    """Databases that their agent writes meanwhile, and in which its sessions stand alone: they have no other log.

    A session's lines come in an order that stays when rows are added. What is kept of it is never written anew: a line
    that is new, or whose row changed, is added behind it. ``log.native_id_of`` names the row of a line, and ``reader``
    takes a later line of a row as what the row is from then on.
    """

    @property
    def tables(self) -> frozenset[str]:
        """The tables that are read; no other one is opened, so that no credentials are."""

    def databases(self, environ: Mapping[str, str], home: Path) -> list[Path]:
        """Return the places of such databases in a person's home, whether or not they exist."""

    def marks(self, db: OpenTables) -> dict[str, tuple[int, int]]:
        """Each session with a number that changes with its rows, and its last change in ms since 1970.

        It is asked for every time, so it must not read what grows with the conversations. Raises UnreadableDatabase.
        """

    def sessions(self, db: OpenTables, wanted: Container[str]) -> Iterator[SessionRows | UnreadRows]:
        """The sessions with these ids, each whole; raises UnreadableDatabase."""


class FolderOrder(Struct, frozen=True, kw_only=True):
    """The files of a session's folder that hold its records, in the order to read them in."""

    names: Sequence[str]
    missing: str | None = None
    """The reason why not all of them are there; None if all are."""


class FolderPart(Protocol):
    """Folders that read as one log: a session's records lie in several files, which an order makes one.

    It is for chunks named after their content, which get another name with each append, and for one file an event.
    The log's path is the folder's ``head``. Its lines are the records as they stand in their files, and lines of ours
    that say which file is made of what, so every byte that was seen is kept once, and the folder can be made again.
    A record that was read is not read again, under whatever file's name it comes; one that is new, or changed, comes
    behind what is kept, also where its file comes late, or stands before others. So ``log.identify`` is given the
    head's path and the first records, ``log.native_id_of`` the record's own id, and ``log.reader`` takes a later record
    with an id as what this one is from then on. A line break in a record comes as a carriage return.
    """

    @property
    def head(self) -> str:
        """The name, in a session's folder, of the file or folder whose own stat changes when records are added."""

    @property
    def watched(self) -> tuple[str, ...]:
        """Names of further files there that may change while the head does not; an import looks at them, too.

        One that ends in a slash is a folder, and stands for the files in it.
        """

    def folder_of(self, below: PurePath) -> PurePath | None:
        """The session's folder that a path is, or lies in, by its name alone; both are below the folder of a root."""

    def order(self, names: Sequence[str], read: Callable[[str], bytes]) -> FolderOrder:
        """Return which of the files there (paths below the folder) hold records. ``read`` may raise OSError.

        A file that is left out is kept, and holds no record yet.
        """

    def records(self, name: str, content: bytes) -> Sequence[tuple[int, int]] | None:
        """The places (start, stop) of the records of such a file, one behind the other; None if it is cut short."""


# runs -----------------------------------------------------------------------------------------------------------


CUT_OFF = "The run was cut off; how it ended is not known."
"""The error of a run whose runner was killed, and whose agent did not name its end."""


class Exit(Struct, frozen=True, kw_only=True):
    """The end of an agent's process: its exit code, or the signal that ended it; True if we had asked it to stop."""

    code: int | None = None
    signal: int | None = None
    was_cancelled: bool = False
    was_seen: bool = True
    """True if anybody saw how it ended; else the code is 0, and only what the agent said counts."""

    @property
    def in_words(self) -> str:
        """Return the reason of a failed run that gave none."""
        if not self.was_seen:
            return CUT_OFF
        return f"signal {self.signal}" if self.signal is not None else f"exit code {self.code}"

    def why(self, message: str) -> str:
        """Return why a run failed. ``message``, the agent's last one, is no reason if nobody saw the run's end."""
        return "\n".join(filter(None, [self.in_words, message])) if not self.was_seen else message or self.in_words


class Ending(Struct, frozen=True, kw_only=True):
    """The end of a run, from its events and its exit together."""

    outcome: str
    error: str | None = None
    """The reason why it failed, if no event gave one."""
    duration_ms: int | None = None
    api_latency_ms: int | None = None
    stop_reason: str | None = None
    model: str | None = None
    tokens: Tokens = field(default_factory=Tokens)
    tokens_source: str | None = None
    cost_usd: float | None = None
    cost_source: str | None = None
    context_window: int | None = None
    """The most tokens that its model takes."""
    refused: list[ToolCall] = field(default_factory=list)
    """Calls that the agent's permissions did not let through, as far as its output says which."""


class Streamed(Struct, frozen=True):
    """The content of one line of a run's output."""

    events: list[tuple[int, Event]]
    takes_number: bool = True
    """False for a delta, which a later record repeats whole."""
    delta: str = ""
    """Text to show at once; it comes again as part of an AssistantText."""
    at: int | None = None
    """Its time, in ms since 1970, if the line itself gives it."""


class SteerState(Struct, kw_only=True):
    """Reports of a running agent about the messages it is sent."""

    acknowledges: bool = False
    """True if the agent, as it said, reports which messages it takes; until then none is sent."""
    is_deaf: bool = False
    """True if the agent has begun to answer, or to say what it can, without saying that."""
    is_idle: bool = False
    """True if it has answered all it was sent, and waits for more or for the end of its stdin."""
    acknowledged: list[str] = field(default_factory=list)
    """The ids of the messages that it has taken, in order."""


class RunPart(Protocol):
    """Running the agent. Its prompt always comes on stdin, and its own resume is never used."""

    @property
    def executable(self) -> str:
        """The name of its program on PATH."""

    @property
    def prompt_chars_max(self) -> int | None:
        """A longer prompt, with the context in it, is refused; None where no limit is known."""

    def native_id(self, randomness: bytes) -> str | None:
        """The session id a run is given beforehand, from 16 random bytes; None where the agent chooses it."""

    def command(
        self, executable: str, *, model: str | None, permissions: Permissions, native_id: str | None
    ) -> list[str]:
        """The command line of one run."""

    def answer_command(self, executable: str, *, model: str | None) -> list[str]:
        """The command line for one answer without tools, of which the agent keeps no log of its own."""

    def answer_folders(self, environ: Mapping[str, str], home: Path, folder: Path) -> list[Path]:
        """The folders of its own that it makes for one answer in ``folder`` (a real path), the innermost first."""

    def stream_reader(self) -> StreamReader:
        """A reader for the output of one run."""


class StreamReader(Protocol):
    """Understands a run's output as it comes."""

    @property
    def native_id(self) -> str | None:
        """The agent's own id of the session, once a line has said it."""

    @property
    def unknown(self) -> Mapping[str, int]:
        """As ``LogReader.unknown``."""

    @property
    def steering(self) -> SteerState | None:
        """Return the reports about messages in the lines so far; None for an agent that takes none while it runs."""

    def read(self, line: bytes) -> Streamed:
        """Take a line of stdout, without its end."""

    def stderr(self, line: bytes) -> list[Event]:
        """Take a line of stderr: an error that stdout does not report."""

    def ended(self, exit: Exit) -> Ending:
        """Return the end of the run."""


class SteerPart(Protocol):
    """Sending further messages on stdin while the agent runs, between its steps."""

    def streaming_command(self, command: list[str]) -> list[str]:
        """A command line, changed so that the prompt is a line on a stdin that stays open for more."""

    def encode_message(self, text: str, message_id: str = "") -> bytes:
        """A prompt, or a later message, as a line for stdin. A prompt has no id."""

    def message_id(self, uid: str) -> str:
        """The id that a message is given, from the uid it was queued under: always the same."""


class OwnLogPart(Protocol):
    """The agent's own log of a run, for what the run's stream does not say."""

    def run_facts(self, stream: Iterable[tuple[int, bytes]], log: Iterable[bytes]) -> RunFacts:
        """Return the log's facts about the stream's records.

        ``stream``: the lines of the run's stdout, each with its offset. ``log``: the lines of the log up to the end of
        the run's turn. A record that is not found in the log is left out; nothing is raised for lines that are odd.
        """


# resume ---------------------------------------------------------------------------------------------------------


class InUse(Struct, frozen=True, kw_only=True):
    """A process that an agent's own files name as one that has a session open. It may be dead by now.

    ``birth``: when it started, in the system's format, where the agent wrote it down.
    """

    pid: int
    birth: str | None = None


class IndexChange(Struct, frozen=True, kw_only=True):
    """The change of the agent's own database that makes it lead to a log, and its earlier content.

    ``before`` is None where a row was added.
    """

    database: str
    native_id: str
    log: str
    before: dict[str, str | int | None] | None = None


class ResumePart(Protocol):
    """Handing a session over to the agent's own client, which continues the session in its own log."""

    @property
    def executable(self) -> str:
        """The name of its client on PATH."""

    def command(self, executable: str, native_id: str) -> list[str]:
        """The command line that continues a session; further words of a person follow it."""

    def log_names(self, relpath: PurePath, folder: str) -> list[PurePath]:
        """Return the client's places of a log, below its own folder, if it is started in ``folder`` (a real path).

        ``relpath``: where the log lay, below the agent's own folder. It is put in the first of these places if it is in
        none of them. Empty if the client cannot continue such a log.
        """

    def in_use(self, root: Path, native_id: str) -> list[InUse]:
        """The processes that the files in the agent's own folder name as users of a session."""

    def enter(
        self, environ: Mapping[str, str], log: Path, root: Path, native_id: str, aside: Callable[[Path], None]
    ) -> IndexChange | None:
        """Make the agent's own database lead to a log, in one transaction; None if nothing had to be changed.

        ``aside`` is called with the database before it is changed. Raises OSError, sqlite3.Error.
        """

    def leave(self, change: IndexChange) -> None:
        """Undo such a change, unless the agent changed that row meanwhile. Raises sqlite3.Error."""


# asking -----------------------------------------------------------------------------------------------------------


class Asker(Struct, frozen=True, kw_only=True):
    """The facts of a client that asks a server which it started itself.

    ``environ``: the server's; ``processes``: those above the server, the nearest first, each with its birth in the
    system's format; ``said``: what came with the question, as the client wrote it; ``home``: the person's home folder.
    """

    environ: Mapping[str, str]
    processes: Sequence[tuple[int, str]]
    said: Mapping[str, Any]
    home: Path


class AskingPart(Protocol):
    """Knows from which of the agent's own sessions a question comes."""

    def native_id(self, asker: Asker) -> str | None:
        """The agent's own id of the session; None where it was not this agent that asks, or nothing says."""


class WritePart(Protocol):
    """Writing a log anew that the agent's own client continues as its own.

    A call is a pair of the tool's name and its input, as a record of the log is read.
    """

    @property
    def version_min(self) -> str:
        """The least version of the client that was seen to continue such a log; the log says that it is of this one."""

    @property
    def window_chars(self) -> int:
        """Return the least characters of a conversation that its models hold."""

    def images(self, line: bytes) -> list[Image]:
        """The images that a record of this agent holds, in order."""

    def action_of(self, call: ToolCall) -> Action | None:
        """Return the action of a call of this agent; None if that has no name of ours."""

    def own_call(self, call: ToolCall) -> tuple[str, Any] | None:
        """Return the form of a call of this agent in its log; None if that is unknown."""

    def call_for(self, action: Action, folder: str) -> tuple[str, Any] | None:
        """The agent's own call that does this in a session of ``folder``; None if it has no tool for it."""

    def settings(self, environ: Mapping[str, str], root: Path) -> dict[str, str]:
        """Return the settings of the client on this machine that a log must hold to be continued."""

    def obstacle(self, environ: Mapping[str, str], root: Path) -> str | None:
        """Return the obstacle that would keep the client here from a log written now, as a clause; None for none."""

    def log_name(self, session: CarriedSession) -> PurePath:
        """Return the client's place of the log, below its own folder."""

    def lines(self, session: CarriedSession, turns: Iterable[CarriedTurn], summary: str | None) -> Iterator[bytes]:
        """The log's lines, each with its end. ``summary`` stands for the turns before them.

        The same for the same turns: a turn's first record is known by ``ids.written_turn_id`` of its uid.
        """


# export ---------------------------------------------------------------------------------------------------------


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


class ExportSource(Protocol):
    """Sessions of one of our stores, for an agent to write in its own form."""

    def rows(self, view: str, columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        """Yield these sessions' rows of a view that ``backstory sql`` shows, in the order of its ``id``."""

    def logs(self) -> Iterator[KeptLog]:
        """The agents' own logs of these sessions; where a log was rewritten, what it was before comes first."""

    def tip(self) -> int | None:
        """The event that the next prompt follows, by its id in the rows, of one session; None where none is known."""

    def notes(self) -> Sequence[BoardItem]:
        """The items of the context boards that go with these sessions."""


class SessionFile(Struct, frozen=True, kw_only=True):
    """A file that a session becomes: its path below a folder, and how to fill it.

    ``write`` returns how many rows of each kind it has.
    """

    name: str
    write: Callable[[Path], dict[str, int]]


class StoreContent(Struct, frozen=True, kw_only=True):
    """The content of a filled store: the rows of each kind, and the number of values that it has no place for."""

    rows: dict[str, int]
    reduced: dict[str, int] = field(default_factory=dict)


class ExportPart(Protocol):
    """Writing sessions as one store of the agent's own form."""

    @property
    def format(self) -> str:
        """The name of that form."""

    def write_store(self, path: Path, sources: Iterable[ExportSource], *, exact: bool, now: int) -> StoreContent:
        """Fill the empty file at ``path``; returns what it has.

        ``exact``: as the agent itself would write them from its own logs, at ``now`` (ms since 1970), with all that it
        gets wrong; else what is known. Raises OSError or sqlite3.Error where the file cannot be written.
        """


class SessionExportPart(Protocol):
    """Writing each session as files of its own, in the agent's own form."""

    def session_files(self, session: ExportSource) -> Sequence[SessionFile]:
        """The files that one session becomes."""


# commits --------------------------------------------------------------------------------------------------------


class CommitPart(Protocol):
    """The lines that the agent writes below the message of a commit that it makes, each ``KEY: VALUE``."""

    def names_session(self, key: str) -> bool:
        """Return True if such a line names a session of this agent."""

    def session_id(self, key: str, value: str) -> str | None:
        """The agent's own id of the session that a line names, as its logs have it; None where it is no such id."""

    def is_author(self, email: str) -> bool:
        """Return True if a co-author with this address is the agent."""


# settings -------------------------------------------------------------------------------------------------------


class ServerFile(Struct, frozen=True, kw_only=True):
    """A file in which the agent's client looks for MCP servers.

    ``format``: ``json`` or ``toml``; ``table``: the name of the object or table of servers, by their names.
    """

    path: Path
    format: str
    table: str
    has_comments: bool = True
    """True if the client reads a file with comments; else one with comments is broken for it."""
    remark: str = ""
    """The steps that a person must still take before the client starts a server of this file; empty for none."""
    wait: tuple[str, int] | None = None
    """A setting beside the table, in TOML, and the value with which the client waits for a server that starts."""


class ServerPart(Protocol):
    """The MCP servers that the agent's client starts."""

    def file(self, environ: Mapping[str, str], home: Path, project: Path | None) -> ServerFile:
        """The file with the servers of a person, or of a project's folder, whether or not it exists."""

    def entry(self, command: Sequence[str], environ: Mapping[str, str]) -> dict[str, Any]:
        """The entry of a server that is started with a command and further variables.

        Its members ``command`` and ``args`` are the command's first word and the others.
        """


class SkillPart(Protocol):
    """The skills that the agent's client offers its model: a folder each, with a ``SKILL.md``."""

    def folder(self, environ: Mapping[str, str], home: Path, project: Path | None) -> Path:
        """The folder of a person's skills, or of a project's, whether or not it exists."""


# advice ---------------------------------------------------------------------------------------------------------


class NotRun(StrEnum):
    """The reason why a call did not run."""

    REFUSED = "refused"
    """A person said no."""
    DROPPED = "dropped"
    """Another call beside it failed."""


class RetentionPart(Protocol):
    """The time for which the agent keeps its logs: its client deletes older ones by itself."""

    @property
    def setting(self) -> str:
        """The place where a person sets that: the name of a setting, and its file."""

    def days(self, environ: Mapping[str, str], home: Path) -> int | None:
        """After how many days without a change a log is deleted, as it is set here; None where none is."""


class GuidePart(Protocol):
    """The calls that the agent asks a person about, and the way to make it stop asking."""

    @property
    def settings(self) -> str:
        """The place of its allow rules: a file and a key in it, or an option of its command line."""

    def allow_rule(self, tool_name: str, words: Sequence[str]) -> str | None:
        """The rule by which it asks no more about calls of a tool; None if there is none.

        ``words``: with which the command of a call begins; none for a tool that runs no commands.
        """

    def why_not_run(self, output: str) -> NotRun | None:
        """Return the reason why a call with this error did not run; None if it ran. ``output`` may be cut off."""
