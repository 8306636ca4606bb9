"""Serves the pages at 127.0.0.1 until Ctrl-C, once for each person: a second start finds the first."""

from __future__ import annotations

import os
import signal
import socket
from contextlib import contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING
from zlib import crc32

import msgspec
import uvicorn
from msgspec import Struct

from backstory.errors import NoPort
from backstory.runs import process
from backstory.web.access import TOKEN, Access
from backstory.web.site import Site

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from backstory.web.acting import Acting
    from backstory.workspace.workspace import Workspace

FIRST_PORT, PORTS = 20_000, 20_000
"""The ports of which a person has one, by the path of the home folder."""
ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
TRIED = 20
"""The number of ports that are tried, from the first one on."""
RUNNING = "web.json"
"""The file in the home folder that says where pages are served now."""


class Served(Struct, frozen=True):
    """Pages that are served: the process, its start in the system's format, and the address with its token."""

    pid: int
    birth: str
    address: str


def served_already(home: Path) -> Served | None:
    """The pages that another process of this person serves; None if none does."""
    try:
        found = msgspec.json.decode((home / RUNNING).read_bytes(), type=Served)
    except (OSError, msgspec.MsgspecError):
        return None
    return found if process.birth(found.pid) == found.birth else None


def serve(
    open_workspace: Callable[[], Workspace], user_home: Path, home: Path, port: int | None,
    tell: Callable[[str, int | None], None], *, is_shared: bool, acting: Acting | None = None,
) -> None:  # fmt: skip
    """Serve until a person ends it. ``tell`` receives the address, and the port that was wanted, if that was taken.

    ``is_shared``: a second start shall find this one. ``acting``: None for pages that only read. Raises NoPort.
    """
    wanted = port if port is not None else FIRST_PORT + crc32(os.fsencode(home)) % PORTS
    with listening(wanted, TRIED if port is None else 1) as sock:
        address, server = server_of(open_workspace, user_home, sock, acting)
        with ended_by_signals(server), _noted(home, address) if is_shared else nullcontext():
            taken = sock.getsockname()[1] != wanted
            tell(address, wanted if taken else None)
            server.run(sockets=[sock])


def server_of(
    open_workspace: Callable[[], Workspace], user_home: Path, sock: socket.socket, acting: Acting | None = None
) -> tuple[str, Server]:  # fmt: skip
    """The server of a socket that is bound, and the address that lets a browser in."""
    port = sock.getsockname()[1]
    site = Site(open_workspace, user_home, acting)
    access = Access(site.app(), port, acts=acting is not None)
    config = uvicorn.Config(
        access, lifespan="off", ws="none", log_level="critical", access_log=False, server_header=False,
        timeout_graceful_shutdown=1,
    )  # fmt: skip
    return f"http://127.0.0.1:{port}/?{TOKEN}={access.token}", Server(config, site)


class Server(uvicorn.Server):
    """Tells the browsers that watch a session when it ends, and lets go of the stores."""

    def __init__(self, config: uvicorn.Config, site: Site) -> None:
        super().__init__(config)
        self.site = site

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End what is sent without an end, and then as always."""
        self.site.end()
        await super().shutdown(sockets)
        self.site.kept.close()


@contextmanager
def ended_by_signals(server: uvicorn.Server) -> Iterator[None]:
    """Have the signals by which a person ends the pages end them, and nothing else."""

    def stop(_number: int, _frame: object) -> None:
        server.should_exit = True

    # The server takes the first two itself, and raises them again when it has stopped.
    handlers = {each: signal.signal(each, stop) for each in ENDS}
    try:
        yield
    finally:
        for each, handler in handlers.items():
            signal.signal(each, handler)


@contextmanager
def listening(first: int, tried: int) -> Iterator[socket.socket]:
    """A socket at the first of these ports that is free, or at any for 0; of this machine alone. Raises NoPort."""
    for port in range(first, first + tried):
        found = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        with found:
            try:
                found.bind(("127.0.0.1", port))
            except OSError:
                continue
            yield found
            return
    raise NoPort(first, tried)


@contextmanager
def _noted(home: Path, address: str) -> Iterator[None]:
    """Note where the pages are, for a second start, as long as this lasts."""
    path, own = home / RUNNING, Served(os.getpid(), process.birth(os.getpid()) or "", address)
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    with suppress(FileNotFoundError):
        path.unlink()
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(msgspec.json.encode(own))
    try:
        yield
    finally:
        # Another one that began since has a file of its own there.
        with suppress(OSError, msgspec.MsgspecError):
            if msgspec.json.decode(path.read_bytes(), type=Served) == own:
                path.unlink()
