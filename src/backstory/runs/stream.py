"""What a run's agent says: as it comes, to be shown, and once more when it is over, to be stored batch by batch."""

from __future__ import annotations

import shutil
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec import Struct

from backstory import agents
from backstory.agents.bounded import stream_reader
from backstory.agents.contract import Ending
from backstory.agents.lines import BLANK, LineReader, lines_of
from backstory.conversation.tree import Point
from backstory.errors import AgentCannotRun, AgentMissing, StoreRefused, in_words
from backstory.ingest.record_source import record_source
from backstory.model import (
    AssistantText,
    Complete,
    Error,
    Event,
    LogIdentity,
    Outcome,
    Record,
    ToolCall,
    Turn,
    Unknown,
    UserMessage,
)
from backstory.runs.arrival_notes import read_notes
from backstory.store import RunStart, codec, logs, sidecars
from backstory.store.append import APPEND_TRIES, STALE
from backstory.store.arrivals import SUFFIX, Arrivals
from backstory.store.batches import BatchContent, RecordBatch, RunPart, chunks_of
from backstory.store.logs import API, FAILED, STDERR, STREAM

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path
    from typing import IO

    from backstory.agents.contract import Exit, StreamReader
    from backstory.agents.contract import RunPart as AgentRunPart
    from backstory.agents.lines import Line
    from backstory.ingest.record_source import RecordSource
    from backstory.runs.arrival_notes import ArrivalNotes
    from backstory.runs.spool import Run, Spool, Word
    from backstory.store import Store
    from backstory.store.sidecars import Sidecar

READ_BYTES = 1024 * 1024
PIECE_BYTES = 2 * 1024 * 1024
"""A run is stored in transactions of about so many bytes."""


class Shown(Struct, frozen=True):
    """Something to show at once: events as they come, or text that a later event will tell whole."""

    events: list[Event]
    delta: str = ""
    is_of_stop: bool = False
    """Whether the agent was asked to stop before, and these events may only say so."""


def run_part(name: str) -> AgentRunPart:
    """How the agent called ``name`` is run; raises UnknownAgent, AgentCannotRun."""
    run = agents.load(name).run
    if run is None:
        raise AgentCannotRun(name)
    return run


def is_installed(name: str, executable: str | None, environ: Mapping[str, str]) -> bool:
    """Whether an agent's program is on this machine."""
    return shutil.which(executable or run_part(name).executable, path=environ.get("PATH")) is not None


def program(name: str, executable: str | None, environ: Mapping[str, str]) -> str:
    """The path of an agent's program; raises UnknownAgent, AgentCannotRun, AgentMissing."""
    wanted = executable or run_part(name).executable
    found = shutil.which(wanted, path=environ.get("PATH"))
    if found is None:
        raise AgentMissing(name, wanted)
    return found


def native_id(spool: Spool, run: Run) -> str | None:
    """The agent's own id of a run's session: as it was told, else as the first records of the run tell it."""
    if run.native_id is not None:
        return run.native_id
    lines, reader = Lines(spool.stdout), stream_reader(agents.load(run.agent))
    try:
        for _, _, line in lines.new():
            if line is not None:
                with suppress(Exception):
                    # What it fails at tells no id.
                    reader.read(line)
            if reader.native_id is not None:
                break
    finally:
        lines.close()
    return reader.native_id


class Lines:
    """The whole lines of a file, as far as it has grown; an unfinished last one is given when more has come."""

    def __init__(self, path: Path, start: int = 0) -> None:
        self._file: IO[bytes] | None = path.open("rb") if path.exists() else None
        if self._file is not None:
            self._file.seek(start)
        self._reader = LineReader(start)
        self.data = b""
        """What was read last."""

    def new(self, at_most: int = READ_BYTES) -> Iterator[Line]:
        """Those that the next bytes finish."""
        self.data = self._file.read(at_most) if self._file else b""
        return self._reader.lines(self.data)

    @property
    def read_to(self) -> int:
        """How many bytes were read."""
        return self._reader.read_to

    @property
    def whole_to(self) -> int:
        """Where the last whole line ends."""
        return self._reader.start

    def up_to(self, size: int) -> Iterator[Line]:
        """The same for all bytes before ``size``, and at last a line that has no end there."""
        while self.read_to < size:
            before = self.read_to
            yield from self.new(min(READ_BYTES, size - before))
            if self.read_to == before:
                break
        yield self._reader.start, self.read_to, self._reader.unfinished

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            self._file.close()


class Followed:
    """One output of an agent, as far as it has been shown. ``notes``: where is noted when it came."""

    def __init__(self, path: Path, reader: StreamReader, *, is_error: bool, notes: ArrivalNotes | None = None) -> None:
        self._path, self._notes = path, notes
        self._source = record_source(STDERR if is_error else STREAM, "", LogIdentity(native_id=""), reader=reader)
        self._lines = Lines(path)

    def new(self) -> Iterator[Shown]:
        """What has come since, at most some of it: there is always a next time."""
        came = self._lines.new()
        if self._notes is not None:
            # Before anything is shown: who reads it may be slow.
            self._notes.looked(len(self._lines.data))
        for _, _, line in came:
            yield self._shown(line)

    @property
    def whole_to(self) -> int:
        """Where the last line ends that was shown."""
        return self._lines.whole_to

    def before(self, end: int) -> Iterator[Shown]:
        """What has come before this place, where a line ends."""
        while self._lines.read_to < end:
            read_to = self._lines.read_to
            for _, _, line in self._lines.new(min(READ_BYTES, end - read_to)):
                yield self._shown(line)
            if self._lines.read_to == read_to:
                return

    def rest(self) -> Iterator[Shown]:
        """All that has come by now, also a last line that has no end; what comes meanwhile is left."""
        size = self._path.stat().st_size
        if self._notes is not None:
            self._notes.looked(max(size - self._lines.read_to, 0))
        for _, _, line in self._lines.up_to(size):
            yield self._shown(line)

    def _shown(self, line: bytes | None) -> Shown:
        if line is None or not line.strip(BLANK):
            return Shown([])
        try:
            told = self._source.read(line, 0)
        except Exception:
            # Whatever an adapter stumbles over, the run goes on.
            return Shown([Unknown(type=FAILED)])
        return Shown([event for _, event in told.events], told.delta)

    def close(self) -> None:
        """Let go of the file."""
        self._lines.close()
        if self._notes is not None:
            self._notes.close()


class SpooledRun:
    """A run that is over, read from its spool by a reader that has seen nothing of it."""

    def __init__(self, spool: Spool, run: Run, ended: Exit, now: int) -> None:
        self._spool, self.run, self._ended, self._now = spool, run, ended, now
        self.session_uid = run.session_uid
        self._begin(RunStart())

    def _begin(self, start: RunStart) -> None:
        run = self.run
        self._reader = stream_reader(agents.load(run.agent))
        self._was_told = False
        self._unfinished: list[str] = []
        self._words = deque(self._spool.words())
        self._ends: dict[str, tuple[int, bytes]] = {}
        """Of each kind of log how long it is so far, and its last bytes."""
        self._arrivals: dict[str, Arrivals] = {}
        self._beside: dict[str, Sidecar] = {}
        """What is to be kept beside the log of each output, until a batch of it has it."""
        for kind, output in ((STREAM, self._spool.stdout), (STDERR, self._spool.stderr)):
            noted, mtime_ns = read_notes(output)
            self._arrivals[kind] = Arrivals(noted)
            if noted:
                self._beside[kind] = sidecars.pack(f"{run.turn_uid}.{kind}{SUFFIX}", mtime_ns, noted)
        self._seq = self._next_seq = start.next_seq
        self.acknowledged: list[str] = []
        """The uids of the messages that the agent took while it ran."""
        self.tools = 0
        """Calls of tools so far."""
        self.refused: list[ToolCall] = []
        """Calls that the agent's permissions refused, once all is read."""
        self.error: str | None = None
        """Why it failed, once all is read."""
        self.end_error: str | None = None
        """The same where no event of the agent says so."""
        told = Point(run.parent_uid, run.parent_seq) if run.parent_uid and run.parent_seq else None
        begun, leaf = (start.leaf, None) if start.was_begun else (None, start.leaf)
        self._after = begun or told or leaf
        self._follows_leaf = not start.was_begun and told is None
        self.turn = Turn(
            uid=run.turn_uid, agent=run.agent, native_id=run.native_id or "", prompt=run.prompt, model=run.model,
            started=run.started, first_seq=start.next_seq, parent_uid=self._after.uid if self._after else None,
            parent_seq=self._after.seq if self._after else None,
        )  # fmt: skip

    def batches(self, start: RunStart) -> Iterator[list[RecordBatch]]:
        """The run from the beginning, numbered from what the store says: batches that are written together.

        At least one list; only the last batch of all has its end. Asked for again it is read again.
        """
        self._begin(start)
        together = [self._prompt()]
        for kind, begin, end in self._parts():
            for batch in self._output(kind, begin, end):
                together.append(batch)
                if sum(each.length for each in together) >= PIECE_BYTES:
                    self.turn.native_id = self._reader.native_id or self.turn.native_id
                    yield together
                    together = []
        yield [*together, self._end()]

    def read(self) -> None:
        """Read it to its end, for what it came to alone."""
        for _ in self.batches(RunStart()):
            pass

    def _prompt(self) -> RecordBatch:
        run, content = self.run, BatchContent()
        content.add(Record([(0, UserMessage(content=run.prompt))], run.turn_uid, run.started), self._seq, run.cwd)
        self._seq += 1
        batch = self._batch(content, None)
        batch.follows_leaf, batch.expected_leaf = self._follows_leaf, self._after
        batch.run = RunPart(
            turn_uid=run.turn_uid, is_first=True, prefix_chars=run.prefix_chars, prefix_sha256=run.prefix_sha256
        )
        return batch

    def _parts(self) -> Iterator[tuple[str, int, int]]:
        """Both outputs in the order in which they came, as far as that is known: of which, and from where to where.

        What something that the agent left behind goes on writing is not the agent's.
        """
        paths = {STREAM: self._spool.stdout, STDERR: self._spool.stderr}
        sizes = {kind: path.stat().st_size if path.exists() else 0 for kind, path in paths.items()}
        done = dict.fromkeys(paths, 0)
        for ends in self._spool.order():
            for kind, end in zip(paths, ends, strict=True):
                if done[kind] < end <= sizes[kind]:
                    yield kind, done[kind], end
                    done[kind] = end
        for kind in paths:
            yield kind, done[kind], sizes[kind]

    def _output(self, kind: str, begin: int, end: int) -> Iterator[RecordBatch]:
        """A part of an output, a few megabytes at a time; the last batch may be empty."""
        run, content = self.run, BatchContent(arrivals=self._arrivals[kind])
        lines = Lines(self._spool.stdout if kind == STREAM else self._spool.stderr, begin)
        source = record_source(
            kind, run.agent, LogIdentity(native_id=""), turn_uid=run.turn_uid, cwd=run.cwd, reader=self._reader
        )
        data: list[bytes] = []
        try:
            while lines.read_to < end:
                at, used = lines.read_to, 0
                for start, stop, line in lines.new(min(READ_BYTES, end - lines.read_to)):
                    self._take(content, source, start, stop, line)
                    if words := self._taken_up():
                        # What it was told stands where it took it up: the output is cut there.
                        yield self._batch(content, kind, b"".join([*data, lines.data[used : stop - at]]))
                        yield self._told(words)
                        data, used = [], stop - at
                if not lines.data:
                    break
                data.append(lines.data[used:])
                if sum(map(len, data)) >= PIECE_BYTES:
                    yield self._batch(content, kind, b"".join(data))
                    data = []
            for start, stop, line in lines.up_to(0):
                self._take(content, source, start, stop, line)
            yield self._batch(content, kind, b"".join(data))
            if words := self._taken_up():
                yield self._told(words)
        finally:
            lines.close()

    def _take(self, content: BatchContent, source: RecordSource, start: int, stop: int, line: bytes | None) -> None:
        if line is not None and not line.strip(BLANK):
            return
        record = content.take(source, line, self._seq, start)
        if record.delta:
            self._unfinished.append(record.delta)
        for _, event in record.events:
            if isinstance(event, AssistantText):
                self._unfinished.clear()
            self.tools += isinstance(event, ToolCall)
            self._was_told = self._was_told or isinstance(event, Complete)
            self.error = event.message if isinstance(event, Error) else self.error
        if record.takes_number:
            content.count(start, stop, self._seq)
            self._seq += 1

    def _taken_up(self) -> list[Word]:
        """The words that the agent has just taken up; they are taken in order."""
        steer, state = agents.load(self.run.agent).steer if self._words else None, self._reader.steering
        if steer is None or state is None:
            return []
        known = state.acknowledged
        last = max((n for n, word in enumerate(self._words) if steer.message_id(word.uid) in known), default=-1)
        return [self._words.popleft() for _ in range(last + 1)]

    def _told(self, words: list[Word]) -> RecordBatch:
        """Words that the agent was told, as records of their own."""
        self.acknowledged += [word.uid for word in words]
        content, data = BatchContent(), b"".join(word.line + b"\n" for word in words)
        source = record_source(API, self.run.agent, LogIdentity(native_id=""), cwd=self.run.cwd)
        at, _ = self._ends.get(API, (0, b""))
        for start, stop, line in lines_of([data]):
            self._take(content, source, at + start, at + stop, line)
        return self._batch(content, API, data)

    def _batch(self, content: BatchContent, kind: str | None, data: bytes = b"") -> RecordBatch:
        """A batch of what was read since the last one; all batches share the turn, which learns more and more."""
        run = self.run
        start, tail = self._ends.get(kind or "", (0, b""))
        end, tail = start + len(data), (tail + data)[-logs.TAIL_BYTES :]
        self._ends[kind or ""] = end, tail
        self.turn.last_seq = self._seq - 1
        batch = RecordBatch(
            agent=run.agent, identity=LogIdentity(native_id=self._reader.native_id or self.turn.native_id),
            session_uid=run.session_uid, kind=kind, relpath=f"runs/{run.turn_uid}.{kind}", modified=self._now,
            cwd=run.cwd, run=RunPart(turn_uid=run.turn_uid), expected_read_to=start, expected_next_seq=self._next_seq,
            read_to=end, parsed_to=end, next_seq=self._seq, tail_hash=codec.text_digest(tail),
            pending=content.pending(), chunks=chunks_of(start, data), turns=[self.turn],
        )  # fmt: skip
        self._next_seq = self._seq
        batch.sidecar = self._beside.pop(kind or "", None)
        content.move_to(batch, run.cwd).last_active = None
        return batch

    def _end(self) -> RecordBatch:
        """What no record of the agent's says: why it failed, and that it is over; the turn learns how."""
        turn, now = self.turn, self._now
        try:
            ending = self._reader.ended(self._ended)
        except Exception as refused:
            ending = Ending(
                outcome=Outcome.CRASHED, error=f"How it ended could not be understood: {in_words(refused)}."
            )
        turn.native_id = self._reader.native_id or turn.native_id
        turn.model = ending.model or turn.model
        turn.ended, turn.outcome, turn.stop_reason = now, ending.outcome, ending.stop_reason
        lasted = max(now - self.run.started, 0)
        turn.duration_ms = ending.duration_ms if ending.duration_ms is not None else lasted
        turn.api_latency_ms = ending.api_latency_ms
        turn.tokens, turn.tokens_source = ending.tokens, ending.tokens_source
        turn.cost_usd, turn.cost_source = ending.cost_usd, ending.cost_source
        error = ending.error
        if ending.outcome == Outcome.CANCELLED and not error:
            error = self._spool.why_cancelled or None
        if error is not None or ending.outcome != Outcome.FAILED:
            self.error = error
        self.end_error, self.refused = error, ending.refused
        unfinished, success = "".join(self._unfinished), turn.outcome == Outcome.COMPLETED
        new: list[Event] = [AssistantText(text=unfinished)] if unfinished else []
        new += [Error(message=error)] if error is not None else []
        if not self._was_told:
            new.append(Complete(success=success, duration_ms=turn.duration_ms, cost_usd=turn.cost_usd))
        content = BatchContent()
        for event in new:
            content.add(Record([(0, event)], turn.uid, now), self._seq, self.run.cwd)
            self._seq += 1
        batch = self._batch(content, None)
        batch.run, batch.last_active = RunPart(turn_uid=turn.uid, is_last=True), now
        return batch


def append_run(run: SpooledRun, store: Store, beside: Store | None = None) -> bool:
    """Store a run; whether ``beside`` has taken all of it, too.

    It is read to its end in any case: that tells how it ended, and which words the agent took up. Raises what keeps it
    from being stored.
    """
    for _ in range(APPEND_TRIES):
        refused, is_beside = None, beside is not None
        for batches in run.batches(store.run_start(run.session_uid, run.run.turn_uid)):
            if refused is None:
                refused = next((each.refused for each in store.append(batches) if each.refused), None)
                # It has the parent that it was given, wherever else a session goes on.
                batches[0].follows_leaf = False
                is_beside = is_beside and refused is None and beside is not None and _is_taken(beside, batches)
        if refused != STALE:
            return is_beside and refused is None
    missing = f"a part of run {run.run.turn_uid} is missing before the next one, or its session never stands still"
    raise StoreRefused(store.path, missing)


def _is_taken(store: Store, batches: list[RecordBatch]) -> bool:
    """Whether a store took these batches; what it does not take is copied when the run is stored."""
    try:
        return all(each.refused is None for each in store.append(batches))
    except Exception:
        return False
