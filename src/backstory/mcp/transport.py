"""Messages of the protocol, a line of JSON each, on stdin and stdout; within limits, whatever the client sends.

A line has a greatest length, and the number of waiting requests is limited: at the limit no more is read, so that a
flooding client waits. Nothing else reaches stdout: what is printed by mistake goes to stderr.
"""

from __future__ import annotations

import json
import os
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import anyio
import msgspec
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from mcp_types import (
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    jsonrpc_message_adapter,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

    from backstory.mcp.lobby import Lobby

    Reading = MemoryObjectReceiveStream[SessionMessage | Exception]
    Writing = MemoryObjectSendStream[SessionMessage]

LINE_BYTES_MAX = 4 * 1024 * 1024
"""A longer line is no request that anything here takes."""
WAITING_MAX = 16
"""The most requests that may wait for an answer; then the client has to wait before it is read again."""
READ_BYTES = 64 * 1024
PAUSE_S = 0.01
END_S = 15.0
"""The time for the last answers once the client has closed its end."""
WRITE_BYTES = 4096
"""Bytes that can be written without blocking wherever something can be written."""


@asynccontextmanager
async def standard_streams(lobby: Lobby) -> AsyncIterator[tuple[Reading, Writing]]:
    """The messages that come on stdin, after those that a lobby kept, and where to send those for stdout."""
    source, sink = _taken_over(0, os.O_RDONLY), _taken_over(1, os.O_WRONLY)
    incoming, reading = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    writing, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
    wire = _Wire(source, sink, lobby)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wire.read, incoming)
        tasks.start_soon(wire.write, outgoing)
        yield reading, writing
        tasks.cancel_scope.cancel()


def _taken_over(number: int, mode: int) -> int:
    """A standard file for this module alone; in its place stands stderr, or nothing to read."""
    own = os.dup(number)
    other = os.open(os.devnull, os.O_RDONLY) if mode == os.O_RDONLY else os.dup(2)
    os.dup2(other, number)
    os.close(other)
    return own


class _Wire:
    def __init__(self, source: int, sink: int, lobby: Lobby) -> None:
        self._source, self._sink = source, sink
        self._kept, self._answered = lobby.rest, set[Any](lobby.answered)
        self._room = anyio.Semaphore(WAITING_MAX, max_value=WAITING_MAX)
        self._writing, self._reader_left = anyio.Lock(), anyio.Event()

    async def read(self, incoming: MemoryObjectSendStream[SessionMessage | Exception]) -> None:
        """Pass on what comes until the client closes its end."""
        async with incoming:
            with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                async for line in self._lines():
                    if line is None:
                        await self._refuse(None, INVALID_REQUEST, f"a line of more than {LINE_BYTES_MAX:,} bytes")
                    elif line.strip():
                        await self._pass_on(line, incoming)
                await self._wait_for_answers()

    async def _wait_for_answers(self) -> None:
        """Let what was asked before the client closed its end be answered, if it still reads."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._stop_waiting, tasks.cancel_scope)
            with anyio.move_on_after(END_S):
                for _ in range(WAITING_MAX):
                    await self._room.acquire()
            tasks.cancel_scope.cancel()

    async def _stop_waiting(self, scope: anyio.CancelScope) -> None:
        await self._reader_left.wait()
        scope.cancel()

    async def _lines(self) -> AsyncIterator[bytes | None]:
        """Each line; None for one that is too long, of which nothing is kept."""
        kept, is_too_long = bytearray(), False
        while data := await self._some():
            *ends, rest = data.split(b"\n")
            for end in ends:
                is_too_long = is_too_long or len(kept) + len(end) > LINE_BYTES_MAX
                yield None if is_too_long else bytes(kept + end)
                kept, is_too_long = bytearray(), False
            is_too_long = is_too_long or len(kept) + len(rest) > LINE_BYTES_MAX
            if is_too_long:
                kept.clear()
            else:
                kept += rest

    async def _some(self) -> bytes:
        if self._kept:
            kept, self._kept = self._kept, b""
            return kept
        while True:
            # A regular file can always be read, and cannot be waited for.
            with suppress(OSError):
                await anyio.wait_readable(self._source)
            try:
                return os.read(self._source, READ_BYTES)
            except BlockingIOError:
                # Another process that reads the same pipe was quicker.
                await anyio.sleep(PAUSE_S)
            except OSError:
                return b""

    async def _pass_on(self, line: bytes, incoming: MemoryObjectSendStream[SessionMessage | Exception]) -> None:
        try:
            message = jsonrpc_message_adapter.validate_json(line, by_name=False)
            if isinstance(message, JSONRPCNotification) and _has_id(line):
                raise ValueError("an id that is neither a number nor a text")
        except (ValueError, RecursionError):
            code, why = _why_not(line)
            await self._refuse(_id_of(line), code, why)
            return
        metadata = None
        if isinstance(message, JSONRPCRequest):
            await self._room.acquire()
            metadata = ServerMessageMetadata(on_request_unanswered=self._is_settled)
        await incoming.send(SessionMessage(message, metadata))

    async def _is_settled(self) -> None:
        # What is sent without having been asked for made no use of a place.
        with suppress(ValueError):
            self._room.release()

    async def _refuse(self, message_id: Any, code: int, why: str) -> None:
        await self._put(JSONRPCError(jsonrpc="2.0", id=message_id, error=ErrorData(code=code, message=why)))

    async def write(self, outgoing: MemoryObjectReceiveStream[SessionMessage]) -> None:
        """Write what is sent, until nobody reads it."""
        async with outgoing:
            async for sent in outgoing:
                if not isinstance(sent.message, JSONRPCResponse | JSONRPCError):
                    await self._put(sent.message)
                    continue
                if sent.message.id in self._answered:
                    self._answered.discard(sent.message.id)
                else:
                    await self._put(sent.message)
                await self._is_settled()

    async def _put(self, message: Any) -> None:
        line = message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
        async with self._writing:
            for at in range(0, len(line), WRITE_BYTES):
                await self._put_bytes(line[at : at + WRITE_BYTES])

    async def _put_bytes(self, data: bytes) -> None:
        while data:
            with suppress(OSError):
                await anyio.wait_writable(self._sink)
            try:
                data = data[os.write(self._sink, data) :]
            except BlockingIOError:
                await anyio.sleep(PAUSE_S)
            except OSError:
                # Nobody reads any more. The end of stdin, which comes with it, ends the rest.
                self._reader_left.set()
                return


def _why_not(line: bytes) -> tuple[int, str]:
    try:
        msgspec.json.decode(line)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return PARSE_ERROR, "a line that is not JSON"
    return INVALID_REQUEST, "not a message of JSON-RPC 2.0"


class _WithId(msgspec.Struct):
    id: int | str | None = None


class _WithAnyId(msgspec.Struct):
    id: Any = msgspec.UNSET


def _has_id(line: bytes) -> bool:
    return msgspec.json.decode(line, type=_WithAnyId).id is not msgspec.UNSET


def _id_of(line: bytes) -> int | str | None:
    """The id under which the client waits, where it can be seen."""
    with suppress(msgspec.MsgspecError, ValueError, RecursionError):
        return msgspec.json.decode(line, type=_WithId).id
    # Half of a surrogate pair is no text, but other libraries write it.
    with suppress(msgspec.MsgspecError, ValueError, RecursionError):
        return msgspec.convert(json.loads(line), _WithId).id
    return None
