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
from backstory.runs.stream import READ_BYTES, Output, Received, SpooledRun, outputs
from backstory.store.tables.logs import STREAM

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from backstory.model import Event
    from backstory.runs.spool import Run, Spool

TAIL_BYTES = 256 * 1024
"""The most of the end of a run's output that is read for what it is doing."""


class LiveRun:
    """A run that the store does not have yet, as far as it had come when this was made, at ``now``.

    Raises UnknownAgent, AgentCannotRun.
    """

    def __init__(self, spool: Spool, run: Run, now: int) -> None:
        self.run = run
        self.is_running, self.pid = spool.is_alive, spool.pid
        # Opened here, so that they can still be read when the run is stored and its spool removed meanwhile.
        reader = bounded.stream_reader(agents.load(run.agent))
        self._outputs = [(output, output.size // READ_BYTES + 1) for output in outputs(spool, reader)]
        self._received = Received(spool, run.agent, reader)
        self._order = spool.order()
        spooled = SpooledRun(spool, run, exit_unseen(spool), _last_written(spool, now))
        if not self.is_running:
            spooled.read()
        self._error = spooled.end_error
        self.turn = spooled.turn
        """The known facts of its turn; its end only if it is over."""

    def events(self) -> Iterator[Event]:
        """Its events, once: at the end also the text of an answer that was not finished."""
        yield typed_part(self.run.prompt)[1]
        unfinished = list[str]()
        for record in self._records():
            yield from (event for _, event in record.events)
            if any(isinstance(event, model.AssistantText) for _, event in record.events):
                unfinished.clear()
            unfinished.append(record.delta)
        if text := "".join(unfinished):
            yield model.AssistantText(text=text)
        if self._error is not None:
            yield model.Error(message=self._error)

    def _records(self) -> Iterator[Record]:
        """All output, each message to the agent where the agent acknowledged it."""
        for record in self._output():
            yield record
            if words := self._received.new():
                yield Record([(0, word.event) for word in words])

    def _output(self) -> Iterator[Record]:
        for ends in self._order:
            for (output, _), end in zip(self._outputs, ends, strict=True):
                yield from output.before(end)
        for output, reads in self._outputs:
            # So many as the output was long: an agent may write faster than a terminal reads.
            for _ in range(reads):
                yield from output.new()
            if not self.is_running:
                yield from output.rest()
            output.close()


class FollowedRun:
    """A run as it goes on, from its prompt. Raises UnknownAgent, AgentCannotRun."""

    def __init__(self, spool: Spool, run: Run) -> None:
        self.run, self._spool = run, spool
        self._reader = bounded.stream_reader(agents.load(run.agent))
        self._received = Received(spool, run.agent, self._reader)
        self._outputs: tuple[Output, ...] = ()
        self.is_begun = False
        """True if its prompt was returned."""
        self.is_over = False
        """True if its agent has ended, and all of its output was returned."""

    @property
    def has_output(self) -> bool:
        """True if its output could be read: a run may be stored, and its spool removed, before anybody looks."""
        return bool(self._outputs)

    @property
    def pid(self) -> int | None:
        """The agent's process, while that runs."""
        return self._spool.pid

    def new(self) -> list[Event]:
        """Its events since the last call; first the prompt."""
        found: list[Event] = [] if self.is_begun else [model.UserMessage(content=self.run.prompt)]
        self.is_begun = True
        is_running = self._spool.is_alive
        self._received.look()
        if not self._outputs:
            opened = outputs(self._spool, self._reader)
            if all(each.is_open for each in opened):
                self._outputs = opened
            else:
                for each in opened:
                    each.close()
        for output in self._outputs:
            for record in _up_to_now(output, has_ended=not is_running):
                found += (event for _, event in record.events)
                found += (word.event for word in self._received.new())
        # Before its output is there, its agent is being started.
        if not is_running and (self._outputs or not self._spool.folder.exists()):
            self.is_over = True
            self.close()
        return found

    def close(self) -> None:
        """Let go of its files."""
        for output in self._outputs:
            output.close()


def _up_to_now(output: Output, *, has_ended: bool) -> Iterator[Record]:
    """Return an output's new part. ``has_ended``: nobody writes it any more, so its last line is whole."""
    for _ in range(output.size // READ_BYTES + 1):
        yield from output.new()
    if has_ended:
        yield from output.rest()


def open_call(spool: Spool, agent: str) -> model.ToolCall | None:
    """The last call in a run's output that has no result yet. Only the end of the output is read."""
    try:
        reader = bounded.stream_reader(agents.load(agent))
    except BackstoryError:
        return None
    source = record_source(STREAM, agent, LogIdentity(native_id=""), reader=reader)
    calls: dict[str, model.ToolCall] = {}
    with closing(Output(spool.stdout, source.parse, start=max(_size(spool.stdout) - TAIL_BYTES, 0))) as output:
        for _, event in chain.from_iterable(record.events for record in output.new()):
            if isinstance(event, model.ToolCall):
                calls[event.tool_use_id] = event
            elif isinstance(event, model.ToolResult):
                calls.pop(event.tool_use_id, None)
            elif isinstance(event, model.AssistantText):
                calls.clear()
    return next(reversed(calls.values()), None)


def followed_runs(spools: Path, session_uid: str) -> dict[str, tuple[Spool, Run]]:
    """The runs of a session that no store has yet, by their turns' uids, the oldest first."""
    found = ((spool, spool.run) for spool in list_spools(spools))
    return {run.turn_uid: (spool, run) for spool, run in found if run is not None and run.session_uid == session_uid}


def live_runs(spools: Path, session_uid: str, now: int, report: Callable[[str], None]) -> list[LiveRun]:
    """The runs of a session that are still in their spools, the oldest first; ``report`` receives why one is not."""
    found = []
    for spool in list_spools(spools):
        run = spool.run
        if run is not None and run.session_uid == session_uid:
            try:
                found.append(LiveRun(spool, run, now))
            except BackstoryError as refused:
                report(f"A run in {spool.folder} is not shown: {refused}")
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
