"""Figures and lines for those who run a server: how many requests, how long they took, what waits. Without content.

A request is named by its route and never by its address, which may hold a name or words that somebody looks for. No
figure is of one organisation. They are answered at an address of their own, to which its people need no access.
"""

from __future__ import annotations

import logging
import os
import time
import traceback
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from functools import partial
from logging.handlers import WatchedFileHandler
from typing import TYPE_CHECKING, Any

import msgspec
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, start_http_server
from prometheus_client.core import GaugeMetricFamily

from backstory.errors import BackstoryError, CannotWrite, PortTaken
from backstory.lazy import lazy_regex
from backstory.server.jobs import TRIES_MAX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path
    from typing import Self

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from backstory.server.database import TeamDatabase

OTHER = "other"
"""The route of a request that has none."""
_OURS = lazy_regex("(?:[a-z][a-z0-9-]{0,30})?")
"""A part of a path that no one chose."""
METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"))
BUCKETS_S = (0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 60)
NO_ANSWER, STDERR = 500, "-"


class ServerLog:
    """Writes a line of JSON for each event. ``path``: a file, '-' for standard error.

    A file that was moved away is begun anew, so that other programs may rotate it. Raises CannotWrite.
    """

    def __init__(self, path: Path, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._now = now
        try:
            self._handler = logging.StreamHandler() if str(path) == STDERR else _PrivateFile(path)
        except OSError as refused:
            raise CannotWrite(path, refused.strerror or str(refused)) from refused

    def write(self, event: str, **facts: Any) -> None:
        """Write an event with its facts: numbers, and names of ours."""
        line = msgspec.json.encode({"at": self._now(), "event": event} | facts).decode()
        self._handler.handle(logging.LogRecord("backstory.server", logging.INFO, "", 0, line, (), None))

    def __exit__(self, *_: object) -> None:
        self._handler.close()

    def __enter__(self) -> Self:
        return self


class _PrivateFile(WatchedFileHandler):
    """A file that its owner alone may read."""

    def _open(self) -> Any:
        return open(self.baseFilename, "a", encoding="utf-8", opener=partial(os.open, mode=0o600))


class ServerFigures:
    """The figures of Prometheus, as ``docs/server.md`` names them."""

    def __init__(self, database: TeamDatabase) -> None:
        self.registry = CollectorRegistry()
        of_request = ("method", "route")
        self.requests = Counter(
            "backstory_requests", "Requests that were answered.", (*of_request, "status"), registry=self.registry
        )
        self.seconds = Histogram(
            "backstory_request_seconds", "Time until a request was answered.", of_request, buckets=BUCKETS_S,
            registry=self.registry,
        )  # fmt: skip
        self.open = Gauge("backstory_requests_open", "Requests that are being answered.", registry=self.registry)
        self.received = Counter("backstory_received_bytes", "Bytes of requests.", registry=self.registry)
        self.registry.register(_StateOfDatabase(database))
        ProcessCollector(registry=self.registry)


class _StateOfDatabase:
    """Asks the database when somebody asks for the figures."""

    def __init__(self, database: TeamDatabase) -> None:
        self._database = database

    def collect(self) -> Iterable[GaugeMetricFamily]:
        try:
            with self._database.of(0) as rows:
                return self._families(rows.execute("select * from state_of_server(%s)", (TRIES_MAX,)).fetchone())
        except BackstoryError:
            return self._families(None)

    def _families(self, found: tuple[Any, ...] | None) -> Iterable[GaugeMetricFamily]:
        yield GaugeMetricFamily("backstory_database_up", "1 if the database answers.", value=float(found is not None))
        for (name, words), value in zip(_OF_DATABASE, found or (), strict=False):
            yield GaugeMetricFamily(f"backstory_{name}", words, value=float(value))


_OF_DATABASE = (
    ("sessions_waiting", "Sessions that wait to be derived, and so to be found."),
    ("longest_wait_seconds", "The time for which the first of them has waited."),
    ("sessions_given_up", "Sessions of which deriving failed again and again."),
    ("database_bytes", "The size of the database."),
)


class Observed:
    """An application whose requests are counted, and written down where ``log`` is not None."""

    def __init__(self, app: ASGIApp, figures: ServerFigures, log: ServerLog | None) -> None:
        self._app, self._figures, self._log = app, figures, log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun, status, size = time.perf_counter(), NO_ANSWER, [0, 0]

        async def receiving() -> Message:
            message = await receive()
            size[0] += len(message.get("body", b""))
            return message

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            size[1] += len(message.get("body", b""))
            await send(message)

        with self._figures.open.track_inprogress():
            try:
                await self._app(scope, receiving, sending)
            except Exception as error:
                self._note_error(error)
                raise
            finally:
                self._count(scope, status, time.perf_counter() - begun, size)

    def _count(self, scope: Scope, status: int, seconds: float, size: list[int]) -> None:
        route = _route(scope)
        # A word that somebody made up is no name of a figure.
        method = scope["method"] if route != OTHER and scope["method"] in METHODS else OTHER
        self._figures.requests.labels(method, route, str(status)).inc()
        self._figures.seconds.labels(method, route).observe(seconds)
        self._figures.received.inc(size[0])
        if self._log is not None:
            self._log.write(
                "request", method=method, route=route, status=status, ms=round(seconds * 1_000, 1),
                bytes_in=size[0], bytes_out=size[1],
            )  # fmt: skip

    def _note_error(self, error: Exception) -> None:
        """Write where an error of ours came from: its kind and places, for its words may be of the history."""
        if self._log is not None:
            places = [f"{each.name}:{each.lineno}" for each in traceback.extract_tb(error.__traceback__)]
            self._log.write("error", kind=type(error).__name__, places=places)


def _route(scope: Scope) -> str:
    """The route of a request that was answered: its path, with the names of what somebody chose in its place."""
    if "endpoint" not in scope:
        return OTHER
    chosen = {str(value): f"{{{name}}}" for name, value in scope.get("path_params", {}).items()}
    parts = scope["path"].split("/")
    return "/".join(chosen.get(each, each if _OURS.fullmatch(each) else "{}") for each in parts)


@contextmanager
def figures_at(host: str, port: int, figures: ServerFigures) -> Iterator[str]:
    """Answer Prometheus while this lasts; gives the address. Raises PortTaken."""
    try:
        server, thread = start_http_server(port, host, figures.registry)
    except OSError as refused:
        raise PortTaken(host, port, refused.strerror or str(refused)) from refused
    try:
        yield f"http://{f'[{host}]' if ':' in host else host}:{server.server_port}/metrics"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def log_in(path: Path | None) -> AbstractContextManager[ServerLog | None]:
    """The log while this lasts; ``path``: as ``ServerLog`` has it, None for no log. Raises CannotWrite."""
    return nullcontext() if path is None else ServerLog(path)
