"""The full form of an event: what its record says, read again from the bytes that are kept.

Where an agent put a long result into a file beside its log, the full form is what that file holds.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from backstory import agents
from backstory.conversation.compact import THOUGHT_CHARS, compact_event
from backstory.derive.essence import essence, exit_line
from backstory.derive.index_text import char_len
from backstory.errors import StoreDamaged
from backstory.lazy import lazy_module
from backstory.model import OWN_PARTS_FROM, Event, Hook, LogIdentity, Thinking, Tool, ToolCall, ToolResult, encoded
from backstory.store.tables import sidecars
from backstory.store.tables.logs import API, JSON, STREAM

if TYPE_CHECKING:
    from collections.abc import Callable

    from backstory.ingest import record_source
    from backstory.store import Log, Store, StoredEvent
else:
    # Mostly a compact form is enough.
    record_source = lazy_module("backstory.ingest.record_source")

EDITS = (Tool.EDIT, Tool.WRITE)
AHEAD_BYTES = 1 << 20
"""Bytes unpacked at once for reads record by record: each read would unpack the same chunk."""


class FullForms:
    """Reads full forms from one store; remembers its logs and adapters between calls.

    ``record`` reads a record's bytes in its own way.
    """

    def __init__(self, store: Store, record: Callable[[StoredEvent], bytes] | None = None) -> None:
        self._store, self._record = store, record or self.record
        self._logs: dict[int, Log | None] = {}
        self._events: tuple[tuple[int | None, int | None, int], Log, dict[tuple[int, str], Event]] | None = None
        """The events of the record read last: its other events are asked for next."""
        self._near: tuple[int, int, bytes] = (0, 0, b"")
        """Bytes of a log from some place on."""

    def expand(self, stored: StoredEvent) -> Event:
        """The event as its record has it; the compact form when its bytes are not here."""
        if is_whole(stored):
            return stored.event
        where = stored.log_id, stored.position, stored.seq
        if self._events is None or self._events[0] != where:
            self._events = None
            record = self._record(stored)
            log = self._log(stored)
            if not record or log is None:
                return stored.event
            # By a reader that has seen nothing else.
            source = record_source.record_source(log.source_kind, log.agent, LogIdentity(native_id=log.native_id))
            parsed = reversed(source.read(record, stored.seq).events)
            self._events = where, log, {(part, event.kind): event for part, event in parsed}
        _, log, events = self._events
        # A reader that has seen nothing else numbers a record's own events from 0.
        event = events.get((stored.part, stored.kind)) or events.get((stored.part - OWN_PARTS_FROM, stored.kind))
        if event is None:
            return stored.event
        if log.source_kind in (API, JSON):
            return event
        event = self._whole(log, _with_call(event, stored.event))
        if isinstance(event, ToolCall) and event.tool in EDITS and log.source_kind == STREAM:
            return _with_change(event, stored.event)
        return event

    def with_words(self, stored: StoredEvent) -> Event:
        """The event in its compact form, but whole where it is a call of which that form says nothing.

        A command that failed is given the line that says its exit code, which that form leaves out.
        """
        event = stored.event
        if isinstance(event, ToolResult) and event.is_error and event.tool == Tool.SHELL:
            return self._with_exit_code(stored, event)
        return self.expand(stored) if isinstance(event, ToolCall) and not essence(event) else event

    def _with_exit_code(self, stored: StoredEvent, event: ToolResult) -> Event:
        whole = self.expand(stored)
        return _saying_exit_code(event, whole) if isinstance(whole, ToolResult) else event

    def record(self, stored: StoredEvent) -> bytes:
        """The bytes of the record behind an event."""
        if stored.log_id is None or stored.position is None or stored.length is None:
            return b""
        log_id, start, data = self._near
        at = stored.position - start
        if log_id != stored.log_id or not 0 <= at <= len(data) - stored.length:
            goes_on = log_id == stored.log_id and 0 <= at - len(data) <= AHEAD_BYTES
            data = self._read(stored.log_id, stored.position, stored.length, ahead=goes_on)
            self._near, at = (stored.log_id, stored.position, data), 0
        return data[at : at + stored.length]

    def _read(self, log_id: int, start: int, length: int, *, ahead: bool) -> bytes:
        if ahead and length < AHEAD_BYTES:
            # What is damaged behind a record is no reason not to give it.
            with suppress(StoreDamaged):
                return self._store.read_log(log_id, start, AHEAD_BYTES)
        return self._store.read_log(log_id, start, length)

    def _whole(self, log: Log, event: Event) -> Event:
        keeper = agents.load(log.agent).sidecars
        ending = keeper.spilled_to(event) if keeper is not None and isinstance(event, ToolResult) else None
        sidecar = self._store.ask(sidecars.ending_in, log.id, ending) if ending else None
        if sidecar is None:
            return event
        content = self._store.ask(sidecars.read, sidecar).decode("utf-8", "replace")
        return msgspec.structs.replace(event, content=content)

    def _log(self, stored: StoredEvent) -> Log | None:
        if stored.log_id is None:
            return None
        if stored.log_id not in self._logs:
            self._logs[stored.log_id] = self._store.log(stored.log_id)
        return self._logs[stored.log_id]


def is_whole(stored: StoredEvent) -> bool:
    """Return True if the compact form is all of an event, so that its record need not be read."""
    event = stored.event
    if isinstance(event, ToolCall):
        # What is written is counted in lines there; of any other input some fields are left out, or none.
        return "_lines" not in event.input and char_len(event) == stored.char_len
    if isinstance(event, Thinking):
        return len(event.text) <= THOUGHT_CHARS
    return not isinstance(event, ToolResult)


def words_form(whole: Event) -> Event:
    """An event with all that its record says as ``FullForms.with_words`` has it."""
    short = compact_event(whole)
    if isinstance(short, ToolCall):
        return short if essence(short) else whole
    if isinstance(short, ToolResult) and isinstance(whole, ToolResult) and short.is_error and short.tool == Tool.SHELL:
        return _saying_exit_code(short, whole)
    return short


def _saying_exit_code(short: ToolResult, whole: ToolResult) -> ToolResult:
    line = exit_line(whole.content)
    if not line or short.content.startswith(line):
        return short
    return msgspec.structs.replace(short, content=f"{line}\n{short.content}")


def _with_change(event: ToolCall, compact: Event) -> ToolCall:
    """An edit of a run with what it changed: the agent's own log of the run may contain that if its stream does not."""
    if isinstance(compact, ToolCall) and _has_lines(compact) and not _has_lines(event):
        return msgspec.structs.replace(event, input=compact.input)
    return event


def _has_lines(call: ToolCall) -> bool:
    """Return True if a call's input holds any text of a file, not only its name."""
    return rb"\n" in encoded(call.input)


def _with_call(event: Event, compact: Event) -> Event:
    """Add facts of other records that the compact form keeps: a result's tool, path, failure; a subagent's call."""
    if isinstance(event, Hook) and isinstance(compact, Hook):
        return msgspec.structs.replace(event, tool_use_id=compact.tool_use_id)
    if isinstance(event, ToolResult) and isinstance(compact, ToolResult):
        return msgspec.structs.replace(
            event, tool_name=compact.tool_name, tool=compact.tool, file_path=compact.file_path,
            is_error=compact.is_error,
        )  # fmt: skip
    return event
