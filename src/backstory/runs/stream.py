"""What a run's agent says: as it comes, to be shown, and once more when it is over, to be stored piece by piece."""

from __future__ import annotations

import shutil
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from backstory import agents
from backstory.agents.bounded import stream_reader
from backstory.agents.contract import Ending, Streamed
from backstory.conversation.tree import Point
from backstory.errors import AgentCannotRun, AgentMissing, in_words
from backstory.model import (
    AssistantText,
    Complete,
    Error,
    Event,
    Outcome,
    OwnLine,
    ToolCall,
    Turn,
    Unknown,
    event_from_json,
)
from backstory.store.logs import API, BLANK, FAILED, LINE_BYTES_MAX, OVERSIZE, STDERR, STREAM
from backstory.store.runs import End, Output, RunPiece

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path
    from typing import IO

    from backstory.agents.contract import Exit, RunPart, StreamReader
    from backstory.runs.spool import Run, Spool

READ_BYTES = 1024 * 1024
PIECE_BYTES = 2 * 1024 * 1024
"""A run is stored in pieces of about so many bytes."""


class Shown(Struct, frozen=True):
    """Something to show at once: events as they come, or text that a later event will tell whole."""

    events: list[Event]
    delta: str = ""


def run_part(name: str) -> RunPart:
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
        for _, line in lines.new():
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

    def __init__(self, path: Path) -> None:
        self._file: IO[bytes] | None = path.open("rb") if path.exists() else None
        self._carry: list[bytes] = []
        self._carried = self._at = 0
        self.data = b""
        """What was read last."""

    def new(self, at_most: int = READ_BYTES) -> Iterator[tuple[int, bytes | None]]:
        """(offset, line) of those that the next bytes finish; None stands for a line that is too long to read."""
        self.data = self._file.read(at_most) if self._file else b""
        *lines, rest = self.data.split(b"\n")
        for piece in lines:
            start, line = self._at, self._joined(piece)
            self._at += self._carried + len(piece) + 1
            self._carried = 0
            yield start, line
        if rest:
            self._carried += len(rest)
            if self._carried > LINE_BYTES_MAX:
                self._carry.clear()
            else:
                self._carry.append(rest)

    @property
    def read_to(self) -> int:
        """How many bytes were read."""
        return self._at + self._carried

    def up_to(self, size: int) -> Iterator[tuple[int, bytes | None]]:
        """The same for all bytes before ``size``, and at last a line that has no end there."""
        while self.read_to < size:
            before = self.read_to
            yield from self.new(min(READ_BYTES, size - before))
            if self.read_to == before:
                break
        yield self._at, self._joined(b"")

    def _joined(self, piece: bytes) -> bytes | None:
        whole = self._carried + len(piece) <= LINE_BYTES_MAX
        line = b"".join((*self._carry, piece)) if whole else None
        self._carry.clear()
        return line

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            self._file.close()


class Followed:
    """One output of an agent, as far as it has been shown."""

    def __init__(self, path: Path, reader: StreamReader, *, is_error: bool) -> None:
        self._path, self._reader, self._is_error = path, reader, is_error
        self._lines = Lines(path)

    def new(self) -> Iterator[Shown]:
        """What has come since, at most some of it: there is always a next time."""
        for _, line in self._lines.new():
            yield self._shown(line)

    def rest(self) -> Iterator[Shown]:
        """All that has come by now, also a last line that has no end; what comes meanwhile is left."""
        for _, line in self._lines.up_to(self._path.stat().st_size):
            yield self._shown(line)

    def _shown(self, line: bytes | None) -> Shown:
        if line is None or not line.strip(BLANK):
            return Shown([])
        try:
            told = Streamed(list(enumerate(self._reader.stderr(line)))) if self._is_error else self._reader.read(line)
        except Exception:
            # Whatever an adapter stumbles over, the run goes on.
            return Shown([Unknown(type=FAILED)])
        return Shown([event for _, event in told.events], told.delta)

    def close(self) -> None:
        """Let go of the file."""
        self._lines.close()


class Told:
    """All of a run, read from its spool by a reader that has seen nothing of it."""

    def __init__(self, spool: Spool, run: Run, ended: Exit, now: int) -> None:
        self._spool, self.run, self.ended, self.now = spool, run, ended, now
        self._reader = stream_reader(agents.load(run.agent))
        self._was_told = False
        self._unfinished: list[str] = []
        self._words = deque(spool.words())
        self._words_at = 0
        self.acknowledged: list[str] = []
        """The uids of the messages that the agent took while it ran."""
        self.session_uid = run.session_uid
        self.tools = 0
        """Calls of tools so far."""
        self.error: str | None = None
        """Why it failed, once all is read."""
        self.turn = self._turn()

    def pieces(self) -> Iterator[RunPiece]:
        """The run as pieces for the store: at least one, and only the last with its end."""
        is_first, full = True, list[Output]()
        for kind, path in ((STREAM, self._spool.stdout), (STDERR, self._spool.stderr)):
            for output in self._outputs(kind, path):
                full.append(output)
                if sum(len(each.data) for each in full) >= PIECE_BYTES:
                    yield self._piece(full, is_first=is_first)
                    is_first, full = False, []
        end = self._end()
        yield self._piece(full, is_first=is_first, end=end)

    def _outputs(self, kind: str, path: Path) -> Iterator[Output]:
        """One output's bytes and records, a few megabytes at a time; the last piece may be empty."""
        lines = Lines(path)
        # What something that the agent left behind goes on writing is not the agent's.
        size = path.stat().st_size if path.exists() else 0
        output, data = Output(kind=kind, start=0), list[bytes]()
        try:
            while lines.read_to < size:
                at, used = lines.read_to, 0
                for start, line in lines.new(min(READ_BYTES, size - lines.read_to)):
                    self._take(output, start, line)
                    if (words := self._taken_up()) is not None:
                        # What it was told stands where it took it up: the output is cut there.
                        cut = start + len(line or b"") + 1
                        output.data = b"".join([*data, lines.data[used : cut - at]])
                        yield output
                        yield words
                        output, data, used = Output(kind=kind, start=cut), [], cut - at
                if not lines.data:
                    break
                data.append(lines.data[used:])
                if sum(map(len, data)) >= PIECE_BYTES:
                    output.data = b"".join(data)
                    yield output
                    output, data = Output(kind=kind, start=output.start + len(output.data)), []
            for start, line in lines.up_to(0):
                self._take(output, start, line)
            output.data = b"".join(data)
            yield output
            if (words := self._taken_up()) is not None:
                yield words
        finally:
            lines.close()

    def _taken_up(self) -> Output | None:
        """The words that the agent has just taken up, as records of their own; they are taken in order."""
        steer, state = agents.load(self.run.agent).steer if self._words else None, self._reader.steering
        if steer is None or state is None:
            return None
        known = state.acknowledged
        last = max((n for n, word in enumerate(self._words) if steer.message_id(word.uid) in known), default=-1)
        if last < 0:
            return None
        output = Output(kind=API, start=self._words_at)
        for _ in range(last + 1):
            word = self._words.popleft()
            event = event_from_json(bytes(msgspec.json.decode(word.line, type=OwnLine).event))
            output.records.append((self._words_at, len(word.line), [(0, event)]))
            output.data += word.line + b"\n"
            self._words_at += len(word.line) + 1
            self.acknowledged.append(word.uid)
        return output

    def _take(self, output: Output, start: int, line: bytes | None) -> None:
        if line is None:
            output.records.append((start, 0, [(0, Unknown(type=OVERSIZE))]))
        elif line.strip(BLANK):
            events, takes_number = self._events(output.kind, line)
            if takes_number:
                output.records.append((start, len(line), events))

    def _events(self, kind: str, line: bytes) -> tuple[list[tuple[int, Event]], bool]:
        try:
            told = Streamed(list(enumerate(self._reader.stderr(line)))) if kind == STDERR else self._reader.read(line)
        except Exception:
            # Whatever an adapter stumbles over, the line is kept, and the others are stored.
            told = Streamed([(0, Unknown(type=FAILED))])
        events, takes_number = told.events, told.takes_number
        if told.delta:
            self._unfinished.append(told.delta)
        for _, event in events:
            if isinstance(event, AssistantText):
                self._unfinished.clear()
            self.tools += isinstance(event, ToolCall)
            self._was_told = self._was_told or isinstance(event, Complete)
            self.error = event.message if isinstance(event, Error) else self.error
        return events, takes_number

    def _piece(self, outputs: list[Output], *, is_first: bool, end: End | None = None) -> RunPiece:
        if end is None:
            self.turn.native_id = self._reader.native_id or self.turn.native_id
        run = self.run
        return RunPiece(
            session_uid=run.session_uid,
            turn=self.turn,
            is_first=is_first,
            outputs=outputs,
            cwd=run.cwd,
            after=Point(run.parent_uid, run.parent_seq) if run.parent_uid and run.parent_seq else None,
            prefix_chars=run.prefix_chars,
            prefix_sha256=run.prefix_sha256,
            end=end,
        )

    def _turn(self) -> Turn:
        run = self.run
        return Turn(
            uid=run.turn_uid,
            agent=run.agent,
            native_id=run.native_id or "",
            prompt=run.prompt,
            model=run.model,
            started=run.started,
        )

    def _end(self) -> End:
        """What it all came to; the turn learns it."""
        turn = self.turn
        try:
            ending = self._reader.ended(self.ended)
        except Exception as refused:
            ending = Ending(
                outcome=Outcome.CRASHED, error=f"How it ended could not be understood: {in_words(refused)}."
            )
        turn.native_id = self._reader.native_id or turn.native_id
        turn.model = ending.model or turn.model
        turn.ended, turn.outcome, turn.stop_reason = self.now, ending.outcome, ending.stop_reason
        lasted = max(self.now - self.run.started, 0)
        turn.duration_ms = ending.duration_ms if ending.duration_ms is not None else lasted
        turn.api_latency_ms = ending.api_latency_ms
        turn.tokens, turn.tokens_source = ending.tokens, ending.tokens_source
        turn.cost_usd, turn.cost_source = ending.cost_usd, ending.cost_source
        error = ending.error
        if ending.outcome == Outcome.CANCELLED and not error:
            error = self._spool.why_cancelled or None
        if error is not None or ending.outcome != Outcome.FAILED:
            self.error = error
        unfinished = "".join(self._unfinished)
        return End(at=self.now, error=error, was_told=self._was_told, unfinished=unfinished)
