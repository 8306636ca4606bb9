"""The output of a run's agent: parsed as it arrives, to be shown, and again at the end, to be stored in batches."""

from __future__ import annotations

import os
import shutil
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct

from backstory import agents
from backstory.agents.bounded import stream_reader
from backstory.agents.contract import Ending
from backstory.agents.jsonl import LineReader
from backstory.conversation.context import typed_part
from backstory.conversation.tree import Point
from backstory.errors import AgentCannotRun, AgentMissing, StoreRefused, in_words
from backstory.ingest.record_source import RecordLines, record_source
from backstory.model import (
    STOPPED_TO_COMPACT,
    AssistantText,
    Complete,
    Error,
    Event,
    LogIdentity,
    Outcome,
    Record,
    ToolCall,
    Turn,
)
from backstory.store import RunStart, codec
from backstory.store.intake import batches
from backstory.store.intake.append import APPEND_TRIES, STALE
from backstory.store.intake.batches import SUFFIX, Arrivals, BatchContent, BatchRun, RecordBatch, chunks_of
from backstory.store.tables import logs, runs, sidecars
from backstory.store.tables.logs import API, STDERR, STREAM

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path
    from typing import IO

    from backstory.agents.contract import Exit, StreamReader
    from backstory.agents.contract import RunPart as AgentRunPart
    from backstory.ingest.record_source import NumberedLine, RecordSource
    from backstory.runs.spool import Run, Spool, Word
    from backstory.store import Store
    from backstory.store.database import Asking
    from backstory.store.tables.sidecars import Sidecar


READ_BYTES = 1024 * 1024
PIECE_BYTES = 2 * 1024 * 1024
"""The approximate size of a transaction that stores a part of a run."""


class Shown(Struct, frozen=True):
    """Output to show at once: events, or text that a later event repeats as a whole."""

    events: list[Event]
    delta: str = ""
    is_of_stop: bool = False
    """True if the agent was asked to stop before, so that these events may only report it."""
    is_interrupted: bool = False
    """True if it was asked by a Ctrl-C here, so that another one kills it."""


def run_part(name: str) -> AgentRunPart:
    """Return the part of an agent that runs it; raises UnknownAgent, AgentCannotRun."""
    run = agents.load(name).run
    if run is None:
        raise AgentCannotRun(name)
    return run


def chosen_id(agent: str) -> str | None:
    """Return an id for a session that an agent is about to begin; None where it chooses one itself."""
    return run_part(agent).native_id(os.urandom(16))


def is_installed(name: str, executable: str | None, environ: Mapping[str, str]) -> bool:
    """Return True if an agent's program is on this machine."""
    return shutil.which(executable or run_part(name).executable, path=environ.get("PATH")) is not None


def program(name: str, executable: str | None, environ: Mapping[str, str]) -> str:
    """Return the path of an agent's program; raises UnknownAgent, AgentCannotRun, AgentMissing."""
    wanted = executable or run_part(name).executable
    found = shutil.which(wanted, path=environ.get("PATH"))
    if found is None:
        raise AgentMissing(name, wanted)
    return found


def native_id(spool: Spool, run: Run) -> str | None:
    """Return the agent's own id of a run's session: from the run, else from its first records."""
    if run.native_id is not None:
        return run.native_id
    reader = stream_reader(agents.load(run.agent))
    stdout, stderr = outputs(spool.folder, reader)
    with closing(stdout), closing(stderr):
        # It is among the first records, or not there: no more than a block is read.
        next((None for _ in stdout.new() if reader.native_id is not None), None)
    return reader.native_id


class RunOutput:
    """An output of a run's agent, read as it grows: its records, each as ``parse`` returns it.

    ``start``: from which byte it is read; of a line that began before, the rest is no record. ``number``: as of
    ``RecordLines``; what is only shown has none. ``notes``: receives the times of its bytes.
    """

    def __init__(
        self, path: Path, parse: Callable[[NumberedLine], Record], *, start: int = 0,
        number: Callable[[int, bytes | None], int | None] = lambda start, line: 0, notes: ArrivalNotes | None = None,
    ) -> None:  # fmt: skip
        try:
            self._file: IO[bytes] | None = path.open("rb")
        except FileNotFoundError:
            self._file = None
        if self._file is not None:
            self._file.seek(start)
        self._parse, self._notes = parse, notes
        self._lines = RecordLines(number, LineReader(start))
        self.data = b""
        """The bytes that were read last."""

    @property
    def is_open(self) -> bool:
        """True if there was an output when this was made; it can be read to its end, also if it is removed."""
        return self._file is not None

    @property
    def size(self) -> int:
        """The present length of the output, also if it was removed since it was opened."""
        return os.fstat(self._file.fileno()).st_size if self._file is not None else 0

    @property
    def read_to(self) -> int:
        """The number of bytes read."""
        return self._lines.read_to

    @property
    def whole_to(self) -> int:
        """The end of the last whole line that was parsed."""
        return self._lines.start

    def new(self) -> Iterator[Record]:
        """Return the records of the next block; the next call continues."""
        came = self.part(READ_BYTES)
        if self._notes is not None:
            # Before anything is shown: the reader of our output may be slow.
            self._notes.looked(len(self.data))
        return came

    def part(self, at_most: int) -> Iterator[Record]:
        """Read this many bytes, and return the records that they finish."""
        self.data = self._file.read(at_most) if self._file else b""
        return map(self._parse, self._lines.feed(self.data))

    def before(self, end: int) -> Iterator[Record]:
        """Return the records that end before this position, in blocks: an output of 1 GB is not in memory whole."""
        while self.read_to < end:
            yield from self.part(min(READ_BYTES, end - self.read_to))
            if not self.data:
                return

    def rest(self) -> Iterator[Record]:
        """Return all records up to now, also an unfinished last line, but nothing that is added meanwhile."""
        size = self.size
        if self._notes is not None:
            self._notes.looked(max(size - self.read_to, 0))
        yield from self.before(size)
        yield from self.unfinished()

    def unfinished(self) -> Iterator[Record]:
        """Return the last line as a record, if its end has not come: it will not, when its agent is over."""
        if (last := self._lines.unfinished()) is not None:
            yield self._parse(last)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
        if self._notes is not None:
            self._notes.close()


def outputs(
    folder: Path, reader: StreamReader, notes: Callable[[Path], ArrivalNotes | None] = lambda path: None
) -> tuple[RunOutput, RunOutput]:
    """Open both outputs of an agent, stdout first; they have one reader, which knows what came on either."""
    stdout, stderr = (
        RunOutput(path, record_source(kind, "", LogIdentity(native_id=""), reader=reader).parse, notes=notes(path))
        for kind, path in ((STREAM, folder / "stdout"), (STDERR, folder / "stderr"))
    )
    return stdout, stderr


class Received:
    """The messages that were sent to a running agent, each returned once the agent has acknowledged it."""

    def __init__(self, spool: Spool, agent: str, reader: StreamReader) -> None:
        self._spool, self._reader, self._steer = spool, reader, agents.load(agent).steer
        self._waiting: list[Word] = []
        self._taken = 0
        self.look()

    def look(self) -> None:
        """Read the messages that were sent so far; of a spool that is gone those read before stay."""
        if self._steer is not None:
            self._waiting = self._spool.words()[self._taken :] or self._waiting

    def new(self) -> list[Word]:
        """Return the messages that the agent has just acknowledged; it does so in order."""
        steer, state = self._steer if self._waiting else None, self._reader.steering
        if steer is None or state is None:
            return []
        known = state.acknowledged
        last = max((n for n, word in enumerate(self._waiting) if steer.message_id(word.uid) in known), default=-1)
        found, self._waiting = self._waiting[: last + 1], self._waiting[last + 1 :]
        self._taken += len(found)
        return found


class SpooledRun:
    """A finished run, read from its spool by a new reader."""

    def __init__(self, spool: Spool, run: Run, ended: Exit, now: int) -> None:
        self._spool, self.run, self._ended, self._now = spool, run, ended, now
        self.session_uid = run.session_uid
        self._begin(RunStart())

    def _begin(self, start: RunStart) -> None:
        run = self.run
        # New for each try: a reader that has read to the end is in the state of the end.
        self._reader = stream_reader(agents.load(run.agent))
        self._has_complete = False
        self._unfinished: list[str] = []
        self._received = Received(self._spool, run.agent, self._reader)
        self._ends: dict[str, tuple[int, bytes]] = {}
        """For each kind of log its length so far, and its last bytes."""
        self._arrivals: dict[str, Arrivals] = {}
        self._beside: dict[str, Sidecar] = {}
        """The sidecar of each output's log, until a batch contains it."""
        for kind, output in ((STREAM, self._spool.stdout), (STDERR, self._spool.stderr)):
            noted, mtime_ns = read_notes(output)
            self._arrivals[kind] = Arrivals(noted)
            if noted:
                self._beside[kind] = sidecars.pack(f"{run.turn_uid}.{kind}{SUFFIX}", mtime_ns, noted)
        self._seq = self._next_seq = start.next_seq
        self.acknowledged: list[str] = []
        """The uids of the messages that the agent acknowledged while it ran."""
        self.tools = 0
        """The number of tool calls so far."""
        self.refused: list[ToolCall] = []
        """Calls that the agent's permissions refused; complete after the last batch."""
        self.error: str | None = None
        """The reason why it failed; known after the last batch."""
        self.end_error: str | None = None
        """The same, if no event of the agent contains it."""
        requested = Point(run.parent_uid, run.parent_seq) if run.parent_uid and run.parent_seq else None
        begun, leaf = (start.leaf, None) if start.was_begun else (None, start.leaf)
        self._after = begun or requested or leaf
        self._follows_leaf = not start.was_begun and requested is None
        prompt, _ = typed_part(run.prompt)
        self.turn = Turn(
            uid=run.turn_uid, agent=run.agent, native_id=run.native_id or "", prompt=prompt, model=run.model,
            started=run.started, first_seq=start.next_seq, parent_uid=self._after.uid if self._after else None,
            parent_seq=self._after.seq if self._after else None,
        )  # fmt: skip

    def batches(self, start: RunStart) -> Iterator[list[RecordBatch]]:
        """Return the run from its beginning, numbered as the store requires: lists of batches to write together.

        There is at least one list; only the last batch has the end of the run. Each call reads the spool again.
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
        """Read it to its end, only for its outcome."""
        for _ in self.batches(RunStart()):
            pass

    def _prompt(self) -> RecordBatch:
        run, content = self.run, BatchContent()
        content.add(Record([(0, typed_part(run.prompt)[1])], run.turn_uid, run.started), self._seq, run.cwd)
        self._seq += 1
        batch = self._batch(content, None)
        batch.follows_leaf, batch.expected_leaf = self._follows_leaf, self._after
        batch.run = BatchRun(
            turn_uid=run.turn_uid, is_first=True, prefix_chars=run.prefix_chars, prefix_sha256=run.prefix_sha256
        )
        return batch

    def _parts(self) -> Iterator[tuple[str, int, int]]:
        """Return the parts of both outputs in the recorded order: the output, and the part's start and end.

        Later output of processes that the agent left running is not included.
        """
        paths = {STREAM: self._spool.stdout, STDERR: self._spool.stderr}
        sizes = {kind: path.stat().st_size if path.exists() else 0 for kind, path in paths.items()}
        done = dict.fromkeys(paths, 0)
        for ends in self._spool.order():
            for kind, end in zip(paths, ends, strict=True):
                # A note may name bytes that a full or broken disk does not have.
                if done[kind] < end <= sizes[kind]:
                    yield kind, done[kind], end
                    done[kind] = end
        for kind in paths:
            yield kind, done[kind], sizes[kind]

    def _output(self, kind: str, begin: int, end: int) -> Iterator[RecordBatch]:
        """Return a part of an output in batches of a few megabytes; the last one may be empty."""
        run, content = self.run, BatchContent(arrivals=self._arrivals[kind])
        source = record_source(
            kind, run.agent, LogIdentity(native_id=""), turn_uid=run.turn_uid, cwd=run.cwd, reader=self._reader
        )
        path = self._spool.stdout if kind == STREAM else self._spool.stderr
        output = RunOutput(path, partial(self._take, content, source), start=begin, number=self._number)
        data: list[bytes] = []
        with closing(output):
            while output.read_to < end:
                at, used = output.read_to, 0
                for _ in output.part(min(READ_BYTES, end - at)):
                    if words := self._received.new():
                        # A message is stored where the agent acknowledged it: the output is split there.
                        stop = output.whole_to - at
                        yield self._batch(content, kind, b"".join([*data, output.data[used:stop]]))
                        yield self._messages(words)
                        data, used = [], stop
                if not output.data:
                    break
                data.append(output.data[used:])
                if sum(map(len, data)) >= PIECE_BYTES:
                    yield self._batch(content, kind, b"".join(data))
                    data = []
            for _ in output.unfinished():
                pass
            yield self._batch(content, kind, b"".join(data))
            if words := self._received.new():
                yield self._messages(words)

    def _number(self, start: int, line: bytes | None) -> int:
        # The next one takes the same number if this one takes none, which only its record says.
        return self._seq

    def _take(self, content: BatchContent, source: RecordSource, line: NumberedLine) -> Record:
        record = content.take(source, line.content, line.seq, line.start)
        if record.delta:
            self._unfinished.append(record.delta)
        for _, event in record.events:
            if isinstance(event, AssistantText):
                # The text is whole now: nothing of what came of it before is missing.
                self._unfinished.clear()
            self.tools += isinstance(event, ToolCall)
            self._has_complete = self._has_complete or isinstance(event, Complete)
            self.error = event.message if isinstance(event, Error) else self.error
        if record.takes_number:
            content.count(line.start, line.stop, line.seq)
            self._seq += 1
        return record

    def _messages(self, words: list[Word]) -> RecordBatch:
        """Return the messages sent to the agent as records of their own."""
        self.acknowledged += [word.uid for word in words]
        content, data = BatchContent(), b"".join(word.line + b"\n" for word in words)
        source = record_source(API, self.run.agent, LogIdentity(native_id=""), cwd=self.run.cwd)
        at, _ = self._ends.get(API, (0, b""))
        for line in RecordLines(self._number, LineReader(at)).feed(data):
            self._take(content, source, line)
        return self._batch(content, API, data)

    def _batch(self, content: BatchContent, kind: str | None, data: bytes = b"") -> RecordBatch:
        """Return a batch of the records since the last one; all batches share the turn, which is filled on the way."""
        run = self.run
        start, tail = self._ends.get(kind or "", (0, b""))
        end, tail = start + len(data), (tail + data)[-logs.TAIL_BYTES :]
        self._ends[kind or ""] = end, tail
        self.turn.last_seq = self._seq - 1
        batch = RecordBatch(
            agent=run.agent, identity=LogIdentity(native_id=self._reader.native_id or self.turn.native_id),
            session_uid=run.session_uid, kind=kind, relpath=f"runs/{run.turn_uid}.{kind}", modified=self._now,
            cwd=run.cwd, run=BatchRun(turn_uid=run.turn_uid), expected_read_to=start, expected_next_seq=self._next_seq,
            read_to=end, parsed_to=end, next_seq=self._seq, tail_hash=codec.chunk_digest(tail),
            pending=content.pending(), chunks=chunks_of(start, data), turns=[self.turn],
        )  # fmt: skip
        self._next_seq = self._seq
        batch.sidecar = self._beside.pop(kind or "", None)
        content.move_to(batch, run.cwd).last_active = None
        return batch

    def _end(self) -> RecordBatch:
        """Return the batch of the run's end: events that no record of the agent has; it completes the turn."""
        turn, now = self.turn, self._now
        try:
            ending = self._reader.ended(self._ended)
        except Exception as refused:
            ending = Ending(
                outcome=Outcome.CRASHED, error=f"The end of the run could not be parsed: {in_words(refused)}."
            )
        turn.native_id = self._reader.native_id or turn.native_id
        turn.model = ending.model or turn.model
        turn.ended, turn.outcome, turn.stop_reason = now, ending.outcome, ending.stop_reason
        lasted = max(now - self.run.started, 0)
        turn.duration_ms = ending.duration_ms if ending.duration_ms is not None else lasted
        turn.api_latency_ms = ending.api_latency_ms
        turn.tokens, turn.tokens_source = ending.tokens, ending.tokens_source
        turn.cost_usd, turn.cost_source = ending.cost_usd, ending.cost_source
        turn.context_window = ending.context_window
        error = ending.error
        if ending.outcome == Outcome.CANCELLED and self._spool.why_cancelled == STOPPED_TO_COMPACT:
            turn.stop_reason, error = STOPPED_TO_COMPACT, None
        elif ending.outcome == Outcome.CANCELLED and not error:
            error = self._spool.why_cancelled or None
        if error is not None or ending.outcome != Outcome.FAILED:
            self.error = error
        self.end_error, self.refused = error, ending.refused
        # An answer that was cut off is kept as far as it came.
        unfinished, success = "".join(self._unfinished), turn.outcome == Outcome.COMPLETED
        new: list[Event] = [AssistantText(text=unfinished)] if unfinished else []
        new += [Error(message=error)] if error is not None else []
        if not self._has_complete:
            new.append(Complete(success=success, duration_ms=turn.duration_ms, cost_usd=turn.cost_usd))
        content = BatchContent()
        for event in new:
            content.add(Record([(0, event)], turn.uid, now), self._seq, self.run.cwd)
            self._seq += 1
        batch = self._batch(content, None)
        batch.run, batch.last_active = BatchRun(turn_uid=turn.uid, is_last=True), now
        return batch


def append_run(
    run: SpooledRun,
    store: Store,
    beside: Store | None = None,
    at_end: Callable[[Asking, str], None] | None = None,
) -> bool:
    """Store a run; returns whether ``beside`` has stored all of it, too. ``at_end``: as of a ``Runner``.

    It is read to its end in any case, for its outcome and the acknowledged messages. Raises if it cannot be stored.
    """

    def noted(asking: Asking) -> None:
        if at_end is not None:
            at_end(asking, run.session_uid)

    # Stale: the session has grown since the run was numbered, so it is numbered again.
    for _ in range(APPEND_TRIES):
        refused, is_beside = None, beside is not None
        for read in run.batches(store.ask(runs.start_in, run.session_uid, run.run.turn_uid)):
            if refused is None:
                written = store.append(read, at_end=noted)
                refused = next((each.refused for each in written if each.refused), None)
                # It keeps its parent, wherever the session continues.
                read[0].follows_leaf = False
                is_beside = is_beside and refused is None and beside is not None and _is_taken(beside, read)
        if refused != STALE:
            return is_beside and refused is None
    missing = f"a part of run {run.run.turn_uid} is missing before the next one, or its session changes all the time"
    raise StoreRefused(store.path, missing)


def _is_taken(store: Store, batches: list[RecordBatch]) -> bool:
    """Return True if a store accepted these batches; otherwise they are copied when the run is stored."""
    try:
        return all(each.refused is None for each in store.append(batches, is_copy=True))
    except Exception:
        return False


# the notes of a runner that watches an output: its length at each time. see ``store.arrivals`` ------------------------


WATCH_GAP_MS = 5_000
"""Output of a longer unwatched period has no time, so no time is late by more than this."""


def notes_of(output: Path) -> Path:
    """Return the path of the notes about an output."""
    return output.with_name(output.name + batches.SUFFIX)


def read_notes(output: Path) -> tuple[bytes, int]:
    """Return the notes about an output, and the mtime (ns) of their file; empty if there are none."""
    try:
        with notes_of(output).open("rb") as file:
            return file.read(batches.BYTES_MAX), os.fstat(file.fileno()).st_mtime_ns
    except OSError:
        return b"", 0


class ArrivalNotes:
    """The notes about one output, from its first byte on; ``since`` is when looking began, in ms since 1970."""

    def __init__(self, output: Path, now: Callable[[], int], since: int) -> None:
        self._path, self._now, self._looked = notes_of(output), now, since
        self._last_ms = self._written = 0
        self._file: int | None = None
        self._is_over = False

    def looked(self, length: int) -> None:
        """Record that ``length`` bytes came since the last call."""
        now = self._now()
        was_watched, self._looked = now - self._looked <= WATCH_GAP_MS, now
        if not length or self._is_over:
            return
        if was_watched:
            self._append(batches.seen(length, now - self._last_ms))
            self._last_ms = now
        else:
            self._append(batches.unwatched(length))

    def _append(self, note: bytes) -> None:
        try:
            if self._file is None:
                flags = os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_APPEND
                self._file = os.open(self._path, flags, 0o600)
                note = bytes([batches.VERSION]) + note
            self._written += len(note)
            is_whole = self._written <= batches.BYTES_MAX and os.write(self._file, note) == len(note)
        except OSError:
            is_whole = False
        # Each note is relative to the one before, so none may follow a missing one.
        self._is_over = not is_whole

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
