"""Runs the server until it is ended: its database first, then its answers. The end waits for what is under way."""

from __future__ import annotations

import ipaddress
import socket
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import uvicorn
from msgspec import Struct

from backstory import __version__
from backstory.errors import ListeningRefused, PortTaken
from backstory.server.api import DERIVING, Api
from backstory.server.database import make_own, prepared
from backstory.server.door import BrowserNames
from backstory.server.observing import Observed, ServerFigures, figures_at, log_in
from backstory.server.postgres import own_database
from backstory.server.working import working
from backstory.web.serving import ended_by_signals

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from backstory.server.database import TeamDatabase
    from backstory.server.postgres import OwnDatabase

SESSIONS = "sessions"
"""The folder for sessions that are read, in that of the server."""
ENDS_IN_S = 10
"""The longest that the end waits for what is under way."""


class ServedTeam(Struct, frozen=True, kw_only=True):
    """Told by a start: where the server is, and the code of the first admin until there is one."""

    address: str
    code: str | None
    is_own: bool
    """It has a PostgreSQL of its own, which ends with it."""
    figures: str | None = None
    """The address that answers Prometheus."""


class SeenFrom(Struct, frozen=True, kw_only=True):
    """Places for who runs a server. ``figures``: the address and port for Prometheus; ``log``: a file, '-' for stderr.

    None: nothing is answered or written there.
    """

    figures: tuple[str, int] | None = None
    log: Path | None = None


UNSEEN = SeenFrom()


class ServerPlace(Struct, frozen=True, kw_only=True):
    """A place to listen at. ``certificate`` and ``key``: files of TLS, both or none."""

    host: str
    port: int
    certificate: Path | None = None
    key: Path | None = None
    is_behind_proxy: bool = False

    @property
    def is_encrypted(self) -> bool:
        """True if what comes from other machines is encrypted on its way."""
        return self.certificate is not None or self.is_behind_proxy

    @property
    def address(self) -> str:
        """The address that a client is given."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.certificate else 'http'}://{host}:{self.port}"


def serve(
    place: ServerPlace, folder: Path, database_url: str | None, organisation: str, tell: Callable[[ServedTeam], None],
    kept_bytes: int, seen: SeenFrom = UNSEEN,
) -> None:  # fmt: skip
    """Serve until a person or the system ends it.

    ``database_url``: of a PostgreSQL, else one of its own is in ``folder``; ``organisation``: the name of the first;
    ``kept_bytes``: the most of sessions that are read, for each organisation; ``seen``: for who runs it.
    Raises DatabaseNotStarted, DatabaseUnusable, PortTaken, ListeningRefused, ServerNotInstalled, CannotWrite.
    """
    check(place)
    with ExitStack() as ends:
        log = ends.enter_context(log_in(seen.log))
        sock = ends.enter_context(listening(place))
        database = ends.enter_context(opened(folder, database_url))
        sessions = folder / SESSIONS
        ends.enter_context(working(database.address, sessions / DERIVING))
        api = Api(database, sessions, kept_bytes=kept_bytes, names=BrowserNames(place.is_encrypted))
        api.kept.begin()
        api.reports.begin()
        figures, figures_address = ServerFigures(database), None
        if seen.figures is not None:
            figures_address = ends.enter_context(figures_at(*seen.figures, figures))
        config = uvicorn.Config(
            Observed(api.app(), figures, log), lifespan="off", ws="none", log_level="critical", access_log=False,
            server_header=False, timeout_graceful_shutdown=ENDS_IN_S, proxy_headers=place.is_behind_proxy,
            ssl_certfile=place.certificate, ssl_keyfile=place.key,
        )  # fmt: skip
        server = _Server(config, api)
        bound = ServerPlace(host=place.host, port=sock.getsockname()[1], certificate=place.certificate)
        ends.enter_context(ended_by_signals(server))
        code = api.people.first_code(organisation)
        tell(ServedTeam(address=bound.address, code=code, is_own=database_url is None, figures=figures_address))
        if log is not None:
            log.write("started", version=__version__)
            ends.callback(log.write, "ended")
        server.run(sockets=[sock])


class _Server(uvicorn.Server):
    """Tells those who follow a session when it ends: what is sent without an end would keep it."""

    def __init__(self, config: uvicorn.Config, api: Api) -> None:
        super().__init__(config)
        self._api = api

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End what is sent without an end, and then as always."""
        self._api.views.hub.end()
        await super().shutdown(sockets)


def check(place: ServerPlace) -> None:
    """Refuse to be reached from other machines without encryption. Raises ListeningRefused."""
    if not place.is_encrypted and not _is_this_machine(place.host):
        raise ListeningRefused(place.host)


@contextmanager
def opened(folder: Path, database_url: str | None) -> Iterator[TeamDatabase]:
    """The database, up to date. One of our own is stopped at the end, if this started it."""
    with ExitStack() as ends:
        if database_url is None:
            own = own_database(folder)
            own.start_or_end()
            ends.callback(_stop, own)
            ends.enter_context(own.kept())
            database_url = make_own(own.address)
        yield ends.enter_context(prepared(database_url))


def _stop(own: OwnDatabase) -> None:
    if own.is_running:
        own.stop()


@contextmanager
def listening(place: ServerPlace) -> Iterator[socket.socket]:
    """A socket at the address. Raises PortTaken."""
    family = socket.AF_INET6 if ":" in place.host else socket.AF_INET
    try:
        sock = socket.create_server((place.host, place.port), family=family)
    except OSError as refused:
        raise PortTaken(place.host, place.port, refused.strerror or str(refused)) from refused
    with sock:
        yield sock


def _is_this_machine(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
