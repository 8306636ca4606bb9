"""A PostgreSQL for tests of the team server: one for all processes of a test run, stopped by the last of them."""

from __future__ import annotations

import fcntl
import functools
import os
import secrets
import shutil
import tempfile
import threading
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import uvicorn
from httpx._transports import default as transports
from starlette.testclient import TestClient

from backstory.server.api import Api
from backstory.server.codes import token_of
from backstory.server.database import make_own, prepared
from backstory.server.limits import Limits
from backstory.server.postgres import own_database
from backstory.server.serving import ServerPlace, listening
from tests.support.clock import Clock
from tests.support.going import until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from backstory.server.database import TeamDatabase
    from backstory.server.people import LetIn

# Each client would read all certificates of this machine, which takes longer than most of what it then asks for.
transports.create_ssl_context = functools.cache(transports.create_ssl_context)  # type: ignore[attr-defined]


@contextmanager
def shared_postgres(folder: Path) -> Iterator[str]:
    """The address of the PostgreSQL of a test run, as its admin. ``folder``: shared by the run."""
    with (folder / "postgres.lock").open("a+") as users, (folder / "postgres.start").open("a+") as starting:
        fcntl.flock(starting, fcntl.LOCK_EX)
        fcntl.flock(users, fcntl.LOCK_SH)
        noted = folder / "postgres.folder"
        if not noted.exists():
            noted.write_text(open_folder())
        own = own_database(Path(noted.read_text()))
        own.start()
        fcntl.flock(starting, fcntl.LOCK_UN)
        try:
            yield own.address
        finally:
            fcntl.flock(starting, fcntl.LOCK_EX)
            try:
                fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                pass
            else:
                own.stop()
                shutil.rmtree(own.folder, ignore_errors=True)
                noted.unlink()


def open_folder() -> str:
    """A folder for PostgreSQL, in memory if there is any, that its account may pass through."""
    parent = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    made = tempfile.mkdtemp(prefix="backstory-team-", dir=parent)
    Path(made).chmod(0o711)
    return made


class Team:
    """A server on the shared PostgreSQL with a clock that stands still, asked without a network."""

    def __init__(self, database: TeamDatabase, clock: Clock, folder: Path) -> None:
        self.database, self.clock, self.folder = database, clock, folder
        api = self.api()
        self.people, self.deriving = api.people, api.deriving
        self.client = TestClient(api.app())

    def now(self) -> datetime:
        """The time of the clock."""
        return datetime.fromtimestamp(self.clock.ms / 1_000, UTC)

    def api(self) -> Api:
        """The answers of this server."""
        return Api(self.database, self.folder, self.now, Limits(10_000))

    @contextmanager
    def served(self) -> Iterator[str]:
        """The address of this server, on a port of this machine, while this lasts."""
        # What belongs to the loop of one server is not for another one.
        api = self.api()
        config = uvicorn.Config(api.app(), lifespan="off", ws="none", log_level="critical", access_log=False)
        with listening(ServerPlace(host="127.0.0.1", port=0)) as sock:
            server = uvicorn.Server(config)
            thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]})
            thread.start()
            try:
                until(lambda: server.started)
                yield f"http://127.0.0.1:{sock.getsockname()[1]}"
            finally:
                api.views.hub.end()
                server.should_exit = True
                thread.join()

    def founded(self, name: str = "anna") -> LetIn:
        """A new organisation with its first admin."""
        return self.people.join(self.people.found("The team"), name, "laptop")

    def ask(self, method: str, path: str, token: object = "", body: Any = None) -> tuple[int, Any]:
        """The status and the JSON of an answer."""
        answer = self.client.request(method, path, json=body, headers={"Authorization": f"Bearer {token}"})
        return answer.status_code, answer.json()

    def derive(self, who: LetIn) -> int:
        """Work off the jobs of a person's organisation; returns how many these were."""
        done = 0
        while self.deriving.work_one(tenant_of(who.token)):
            done += 1
        return done

    def joined(self, admin: LetIn, name: str, role: str = "member") -> LetIn:
        """A person whom the admin invited."""
        _, found = self.ask("POST", "/v1/invites", admin.token, {"role": role})
        return self.people.join(found["code"], name, f"machine of {name}")


@contextmanager
def empty_database(admin: str) -> Iterator[str]:
    """A database without anything in it, owned by the server's account; it is gone afterwards."""
    make_own(admin)
    name = f"test_{secrets.token_hex(6)}"
    with psycopg.connect(admin, autocommit=True) as connection:
        connection.execute(f"create database {name} owner backstory".encode())
        try:
            yield f"host={connection.info.host} user=backstory dbname={name}"
        finally:
            connection.execute(f"drop database {name} with (force)".encode())


@contextmanager
def team_of(address: str, clock: Clock, prepare: Callable[[str], TeamDatabase] = prepared) -> Iterator[Team]:
    """A team server with this database."""
    with prepare(address) as database, tempfile.TemporaryDirectory(prefix="backstory-sessions-") as folder:
        team = Team(database, clock, Path(folder))
        # All requests in one loop, as in a server.
        with team.client:
            yield team


def tenant_of(token: str) -> int:
    """The tenant of a token."""
    found = token_of(token)
    assert found is not None
    return found.tenant
