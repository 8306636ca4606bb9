"""A session as it grows, sent to a browser as Server-Sent Events until either of the two ends."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse

from backstory.errors import BackstoryError
from backstory.web.live import StreamPlace, message
from backstory.web.markup import plain

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from starlette.types import Receive, Scope, Send

    from backstory.web.live import Channel, Hub, Wake
    from backstory.workspace.workspace import Workspace

PING_S = 15.0
"""The most time without a byte: a connection that is gone without a word is noticed when one is sent."""
LAST = "last"
"""The parameter for the place of a page that was hidden; a browser that connects again says it in a header."""
TOO_MANY = "Too many sessions are followed at once. Close a page."


class Stream:
    """Answers with the events of a session."""

    def __init__(self, hub: Hub, open_workspace: Callable[[], Workspace]) -> None:
        self._hub, self._open_workspace = hub, open_workspace

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send events to the one who asked."""
        request = Request(scope, receive)
        try:
            uid = await run_in_threadpool(self._resolved, request.path_params["uid"])
        except BackstoryError as refused:
            await PlainTextResponse(plain(str(refused)), 404)(scope, receive, send)
            return
        viewer = StreamViewer(partial(self._hub.join, uid), partial(self._hub.leave, uid))
        await viewer(scope, receive, send)

    def _resolved(self, uid: str) -> str:
        with self._open_workspace() as workspace:
            return workspace.resolve(uid).session.uid


class StreamViewer:
    """One who looks at a session: sent its events until either ends. ``join`` and ``leave``: as a hub's for a key."""

    def __init__(
        self, join: Callable[[Wake], Channel | None], leave: Callable[[Wake], None],
        headers: Sequence[tuple[bytes, bytes]] = (),
    ) -> None:  # fmt: skip
        self._join, self._leave, self._headers = join, leave, headers
        self.put_out = ""
        """The sentence for one who may not look any more: it is sent, and nothing behind it."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send events."""
        loop, more = asyncio.get_running_loop(), asyncio.Event()

        def wake() -> None:
            # The loop may end while a thread still has something for it.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(more.set)

        request, channel = Request(scope, receive), self._join(wake)
        if channel is None:
            await PlainTextResponse(TOO_MANY, 503)(scope, receive, send)
            return
        place = StreamPlace.read(request.headers.get("last-event-id") or request.query_params.get(LAST, ""))
        gone = asyncio.ensure_future(_gone(receive))
        try:
            await send({
                "type": "http.response.start", "status": 200,
                "headers": [(b"content-type", b"text/event-stream; charset=utf-8"), *self._headers],
            })  # fmt: skip
            await self._send_all(channel, place, more, gone, send)
        finally:
            gone.cancel()
            self._leave(wake)

    async def _send_all(
        self, channel: Channel, place: StreamPlace, more: asyncio.Event, gone: asyncio.Future[None], send: Send
    ) -> None:
        """Send what there is, and what comes. Who reads slowly is sent more when it has read that."""
        is_over, data = False, b": here\n\n"
        more.set()
        while not gone.done():
            if data:
                await send({"type": "http.response.body", "body": data, "more_body": not is_over})
            if is_over:
                return
            waiting = asyncio.ensure_future(more.wait())
            either: set[asyncio.Future[Any]] = {waiting, gone}
            await asyncio.wait(either, timeout=PING_S, return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()
            is_woken = more.is_set()
            more.clear()
            if self.put_out:
                data, is_over = message("ended", {"text": plain(self.put_out)}), True
                continue
            data, place, is_over = channel.since(place)
            data = data or (b"" if is_woken else b": still here\n\n")


async def _gone(receive: Receive) -> None:
    """Wait until the browser closes the connection."""
    while (await receive())["type"] != "http.disconnect":
        pass
