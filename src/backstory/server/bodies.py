"""Bodies of requests, read with limits of size, time and memory: who sends slowly, or much, takes nobody's turn."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from starlette.requests import ClientDisconnect

from backstory.server.refusals import Refused

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.requests import Request

PAUSE_S = 15.0
"""The longest that a body may make no progress."""
SLOWEST = 32 * 1024
"""Bytes a second that a body has to come with behind its first pause."""
BYTES_AT_ONCE = 64 * 1024 * 1024
"""The most that is kept of long bodies together."""
OF_ONE_PERSON = 2
"""The number of long bodies of one person at once."""
WORKED_ON = 4
"""The number of long bodies that are unpacked at once: each takes several times its size."""
WAIT_S = 30.0


class Bodies:
    """Room for the long bodies that one loop reads."""

    def __init__(self) -> None:
        self._changed = asyncio.Condition()
        self._bytes, self._of = 0, Counter[tuple[int, int]]()
        self.working = asyncio.Semaphore(WORKED_ON)

    @asynccontextmanager
    async def room(self, who: tuple[int, int], size: int) -> AsyncIterator[None]:
        """Room for a body of this person, while it lasts. Raises Refused where none comes free in time."""

        def fits() -> bool:
            return self._of[who] < OF_ONE_PERSON and self._bytes + size <= BYTES_AT_ONCE

        try:
            async with asyncio.timeout(WAIT_S), self._changed:
                await self._changed.wait_for(fits)
                self._of[who] += 1
                self._bytes += size
        except TimeoutError as refused:
            raise Refused(503, "try_again", "The server has much to do now.") from refused
        try:
            yield
        finally:
            async with self._changed:
                self._bytes -= size
                self._of[who] -= 1
                if not self._of[who]:
                    del self._of[who]
                self._changed.notify_all()


def announced(request: Request, most: int) -> int:
    """The bytes that a request says it has, or as many as it may have. Raises Refused."""
    text = request.headers.get("content-length", "")
    size = int(text) if text.isascii() and text.isdigit() and len(text) < 16 else most
    if size > most:
        raise _too_long(most)
    return size


async def body(request: Request, most: int) -> bytes:
    """The body of a request, read no further than it may be long, and no longer than it may take. Raises Refused."""
    parts, size, clock = list[bytes](), 0, asyncio.get_running_loop().time
    began, stream = clock(), request.stream()
    try:
        while True:
            left = PAUSE_S + size / SLOWEST - (clock() - began)
            async with asyncio.timeout(max(min(left, PAUSE_S), 0)):
                part = await anext(stream, None)
            if part is None:
                return b"".join(parts)
            size += len(part)
            if size > most:
                raise _too_long(most)
            parts.append(part)
    except TimeoutError as refused:
        raise Refused(408, "too_slow", "The request came too slowly.") from refused
    except ClientDisconnect as refused:
        raise Refused(400, "cut", "The request was cut.") from refused


def _too_long(most: int) -> Refused:
    return Refused(413, "too_long", f"A request has at most {most:,} bytes.")
