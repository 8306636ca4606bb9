"""Runs that no store has yet, read from their spools as far as they have come. It changes nothing there."""

from __future__ import annotations

from contextlib import closing
from itertools import chain
from typing import TYPE_CHECKING

from backstory import agents, model
from backstory.agents import bounded
from backstory.conversation.context import typed_part
from backstory.errors import BackstoryError
from backstory.ingest.record_source import record_source
from backstory.model import LogIdentity, Record
from backstory.runs.runner import exit_unseen
from backstory.runs.spool import list_spools
from backstory.runs.stream import READ_BYTES, Received, RunOutput, SpooledRun, outputs
from backstory.store.tables.logs import STREAM

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from backstory.model import Event, Turn
    from backstory.runs.spool import Run, Spool

TAIL_BYTES = 256 * 1024
"""The most of the end of a run's output that is read for what it is doing."""


class LiveRun:
    """A run that no store has yet: shown as far as it has come by ``events``, followed as it goes on by ``new``.

    Raises UnknownAgent, AgentCannotRun. ``now``: the end of a run that wrote nothing.
    """

    def __init__(self, spool: Spool, run: Run, now: int) -> None:
        self.run, self._spool = run, spool
        self.is_running, self.pid = spool.is_alive, spool.pid
        self._reader = bounded.stream_reader(agents.load(run.agent))
        # Opened here, so that they can still be read when the run is stored and its spool removed meanwhile.
        self._outputs = self._open()
        self._received = Received(spool, run.agent, self._reader)
        self._order = spool.order()
        self._spooled = SpooledRun(spool, run, exit_unseen(spool), _last_written(spool, now))
        self._answer: list[str] = []
        """The answer that is being written: the words that no event has yet."""
        self.is_begun = False
        """True if its prompt was returned."""
        self.is_over = False
        """True if its agent has ended, and all of its output was returned by ``new``."""

    @property
    def turn(self) -> Turn:
        """The known facts of its turn; its end only after ``find_end``."""
        return self._spooled.turn

    @property
    def has_output(self) -> bool:
        """True if its output could be read: a run may be stored, and its spool removed, before anybody looks."""
        return bool(self._outputs)

    def find_end(self) -> None:
        """Read a run that is over to its end: how it ended only all of its output tells."""
        if not self.is_running:
            self._spooled.read()

    def events(self) -> Iterator[Event]:
        """Its events as far as it had come, once: at the end also the text of an answer that was not finished."""
        for record in self._records():
            yield from (event for _, event in record.events)
        self.close()
        yield from self._unfinished()
        if self._spooled.end_error is not None:
            yield model.Error(message=self._spooled.end_error)

    @property
    def writing(self) -> str:
        """The answer that the agent is writing, as far as it was read; '' between two answers, and at the end."""
        return "" if self.is_over else "".join(self._answer)

    def _unfinished(self) -> list[Event]:
        """The same as the event that is stored if no more comes."""
        return [model.AssistantText(text="".join(self._answer))] if self._answer else []

    def new(self) -> list[Event]:
        """Its events since the last call; first the prompt."""
        # Asked before reading: what an agent writes until it ends is there when it is found to have ended.
        self.is_running = self._spool.is_alive
        self._received.look()
        self._outputs = self._outputs or self._open()
        found = [event for record in self._records() for _, event in record.events]
        # Before its output is there, its agent is being started.
        if not self.is_running and (self.has_output or not self._spool.folder.exists()):
            self.is_over = True
            found += self._unfinished()
            self.close()
        return found

    def _records(self) -> Iterator[Record]:
        """The prompt, and then all output, each message to the agent where the agent acknowledged it."""
        if not self.is_begun:
            self.is_begun = True
            yield Record([(0, typed_part(self.run.prompt)[1])])
        for record in self._output():
            if any(isinstance(event, model.AssistantText) for _, event in record.events):
                self._answer.clear()
            if record.delta:
                self._answer.append(record.delta)
            yield record
            if words := self._received.new():
                yield Record([(0, word.event) for word in words])

    def _output(self) -> Iterator[Record]:
        while self._order and self._outputs:
            for output, end in zip(self._outputs, self._order.pop(0), strict=True):
                yield from output.before(end)
        for output in self._outputs:
            # So many as the output is long: an agent may write faster than a terminal reads.
            for _ in range(output.size // READ_BYTES + 1):
                yield from output.new()
            if not self.is_running:
                yield from output.rest()

    def _open(self) -> tuple[RunOutput, ...]:
        """Open both outputs, or none: the second file is made a moment after the first."""
        both = outputs(self._spool.folder, self._reader)
        if all(each.is_open for each in both):
            return both
        for each in both:
            each.close()
        return ()

    def close(self) -> None:
        """Let go of its files."""
        for output in self._outputs:
            output.close()


def open_call(spool: Spool, agent: str) -> model.ToolCall | None:
    """The last call in a run's output that has no result yet. Only the end of the output is read."""
    try:
        reader = bounded.stream_reader(agents.load(agent))
    except BackstoryError:
        return None
    source = record_source(STREAM, agent, LogIdentity(native_id=""), reader=reader)
    calls: dict[str, model.ToolCall] = {}
    with closing(RunOutput(spool.stdout, source.parse, start=max(_size(spool.stdout) - TAIL_BYTES, 0))) as output:
        for _, event in chain.from_iterable(record.events for record in output.new()):
            if isinstance(event, model.ToolCall):
                calls[event.tool_use_id] = event
            elif isinstance(event, model.ToolResult):
                calls.pop(event.tool_use_id, None)
            elif isinstance(event, model.AssistantText):
                calls.clear()
    return next(reversed(calls.values()), None)


def spooled_runs(spools: Path, session_uid: str) -> dict[str, tuple[Spool, Run]]:
    """The runs of a session that no store has yet, by their turns' uids, the oldest first."""
    found = ((spool, spool.run) for spool in list_spools(spools))
    return {run.turn_uid: (spool, run) for spool, run in found if run is not None and run.session_uid == session_uid}


def live_run(spool: Spool, run: Run, now: int, report: Callable[[str], None]) -> LiveRun | None:
    """A run to be shown; None if it cannot be, and ``report`` receives why."""
    try:
        return LiveRun(spool, run, now)
    except BackstoryError as refused:
        report(f"A run in {spool.folder} is not shown: {refused}")
        return None


def live_runs(spools: Path, session_uid: str, now: int, report: Callable[[str], None]) -> list[LiveRun]:
    """The runs of a session that are still in their spools, the oldest first, each with its end if that is known."""
    runs = (live_run(spool, run, now, report) for spool, run in spooled_runs(spools, session_uid).values())
    found = [run for run in runs if run is not None]
    for each in found:
        each.find_end()
    return found


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _last_written(spool: Spool, now: int) -> int:
    """Return the time of the last line of an agent that is over, in ms."""
    try:
        return spool.stdout.stat().st_mtime_ns // 1_000_000
    except OSError:
        return now
