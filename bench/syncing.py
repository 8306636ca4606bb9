"""Processor time of a sync with a team's server, of each side: ``python -m bench.syncing STORE [--sessions N]``.

STORE is a store with real sessions. All of them are sent once, to a server in a process of its own with a PostgreSQL of
its own, which derives no words. "Without masks" is a client that masks nothing, which only this has. Then N sessions
(10,000) that are generated are sent, and sent again unchanged, and a session of 10,000 records goes on by one.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from backstory import agents
from backstory.ask import origins
from backstory.derive.secrets import Redactor
from backstory.ingest.ingest import ingest
from backstory.store import open_store
from backstory.sync.account import new_secret
from backstory.sync.notes import SyncNotes
from backstory.sync.opted import OptedIn
from backstory.sync.outward import machine_of
from backstory.sync.remote import Remote
from backstory.sync.uploading import Uploader
from bench import homes, watch
from bench.figures import Figure, arguments, report
from bench.leaving import plain, us_an_event

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backstory.store import Store
    from backstory.sync.uploading import Sent

WITHOUT_MASKS_US, NO_CHANGE_S, NO_CHANGE_REQUESTS, RSS_MB = 40, 1.0, 3, 200
"""The most that an event may cost all sides without masks, a sync of nothing, and the server in memory."""
LONG_RECORDS = 10_000
KEY = b"k" * 32
TICKS = os.sysconf("SC_CLK_TCK")


class Spent(NamedTuple):
    """Processor time of each side in seconds, and what was sent."""

    client: float
    server: float
    database: float
    requests: int
    done: Sent

    def us(self, seconds: float) -> float:
        """Microseconds an event."""
        return seconds * 1e6 / max(self.done.events, 1)


class _Unmasked(Redactor):
    """Leaves all as it is."""

    def value(self, value: Any) -> Any:
        return value

    def text(self, text: str) -> str:
        return text

    def foresee(self, value: Any) -> None:
        return


class Server:
    """A server that runs, by its processes."""

    def __init__(self, address: str, code: str, pid: int, postmaster: int) -> None:
        self.address, self.pid, self._postmaster = address, pid, postmaster
        with Remote(address) as remote:
            asked = {"code": code, "name": f"anna{time.monotonic_ns()}", "machine": "bench", "secret": new_secret()}
            self.token = str(remote.ask("POST", "/v1/join", asked)["token"])

    def cpu_s(self) -> tuple[float, float]:
        """Processor time so far: its own, and its database's."""
        told = Path(f"/proc/{self._postmaster}/task/{self._postmaster}/children").read_text().split()
        of_children = sum(_cpu_s(int(each)) for each in told)
        return _cpu_s(self.pid), _cpu_s(self._postmaster, has_ended=True) + of_children

    def peak_mb(self) -> float:
        """The most memory that its process had."""
        return watch.memory_mb(self.pid)[1]


def _cpu_s(pid: int, *, has_ended: bool = False) -> float:
    """Processor time of a process; ``has_ended``: and of its children that ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11 : 15 if has_ended else 13])) / TICKS


class Client:
    """A machine with one store, which syncs. ``is_bare``: it masks nothing."""

    def __init__(self, server: Server, store: Store, notes: Path, machine: str, *, is_bare: bool = False) -> None:
        self._server, self._store, self._machine, self._is_bare = server, store, machine, is_bare
        self._notes = notes

    def sync(self) -> Spent:
        """Send what is new, as a command does."""
        before, began = self._server.cpu_s(), time.process_time()
        keys = {each.project for each in self._store.ask(origins.origins) if each.project}
        opted = OptedIn(keys=frozenset(each if each.startswith("/") else each.lower() for each in keys))
        with Remote(self._server.address, self._server.token, self._machine) as remote:
            uploader = Uploader(
                remote, SyncNotes.read(self._notes), machine_of([self._store], "/home/dev"), self._redactor, 0
            )
            done = uploader.run([self._store], opted)
            client, after = time.process_time() - began, self._server.cpu_s()
            return Spent(client, after[0] - before[0], after[1] - before[1], remote.requests, done)

    def _redactor(self) -> Redactor:
        return (_Unmasked if self._is_bare else Redactor)(people=False, key=lambda: KEY)


def serve(folder: Path) -> None:
    """Serve until the input ends: the address, a code, and the postmaster's number are printed."""
    import uvicorn

    from backstory.server.api import Api
    from backstory.server.database import make_own, prepared
    from backstory.server.postgres import own_database
    from backstory.server.serving import ServerPlace, listening

    own = own_database(folder)
    own.start()
    try:
        with prepared(make_own(own.address)) as database, listening(ServerPlace(host="127.0.0.1", port=0)) as sock:
            api = Api(database, folder / "sessions")
            postmaster = (own.data / "postmaster.pid").read_text().split()[0]
            print(f"http://127.0.0.1:{sock.getsockname()[1]}", api.people.first_code("bench"), postmaster, flush=True)
            config = uvicorn.Config(api.app(), lifespan="off", ws="none", log_level="critical", access_log=False)
            uvicorn.Server(config).run(sockets=[sock])
    finally:
        own.stop()


@contextmanager
def served() -> Iterator[Server]:
    """A server in a process of its own, in a folder that is gone afterwards."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        # PostgreSQL's account passes through it.
        Path(folder).chmod(0o711)
        process = subprocess.Popen(
            [sys.executable, "-m", "bench.syncing", folder, "--serve"], stdout=subprocess.PIPE, text=True
        )
        try:
            assert process.stdout is not None
            address, code, postmaster = process.stdout.readline().split()
            yield Server(address, code, process.pid, int(postmaster))
        finally:
            process.terminate()
            process.communicate(timeout=60)


def figures(path: Path, sessions: int) -> Iterator[Figure]:
    """Each of them; what is compared is of one run."""
    exported = us_an_event(plain, path)
    with served() as server, tempfile.TemporaryDirectory() as folder:
        with open_store(path) as store:
            bare = Client(server, store, Path(folder, "bare"), _machine(1), is_bare=True).sync()
            masked = Client(server, store, Path(folder, "masked"), _machine(2)).sync()
        sides = masked.us(masked.server + masked.database)
        note = f"{masked.done.events:,} events, {masked.requests} requests; a plain export: {exported:.0f} µs"
        yield Figure("first sync, an event: client", masked.us(masked.client), "µs", note=note)
        yield Figure(
            "client without masks",
            bare.us(bare.client),
            "µs",
            note=f"{bare.us(bare.client) / exported:.2f} × a plain export",
        )
        yield Figure("server", masked.us(masked.server), "µs")
        yield Figure("database", masked.us(masked.database), "µs")
        yield Figure("all sides without masks", bare.us(bare.client) + sides, "µs", most=WITHOUT_MASKS_US)
        yield from _many(server, Path(folder), sessions)
        yield Figure("memory of the server at most", server.peak_mb(), "MB", most=RSS_MB)


def _many(server: Server, folder: Path, sessions: int) -> Iterator[Figure]:
    home, log = folder / "home", folder / "home/.claude/projects/long/00000000-0000-4000-8000-000000000000.jsonl"
    homes.small(home, sessions)
    log.parent.mkdir(parents=True)
    log.write_bytes(b"".join(watch.line(log.stem, each, f"item {each}") for each in range(LONG_RECORDS)))
    with open_store(folder / "store.db") as store:
        _read(store, home)
        client = Client(server, store, folder / "many", _machine(3))
        client.sync()
        again = client.sync()
        title = f"{sessions:,} sessions, none changed"
        yield Figure(title, again.client + again.server + again.database, "s", most=NO_CHANGE_S)
        yield Figure(f"{title}: requests", again.requests, most=NO_CHANGE_REQUESTS)
        with log.open("ab") as file:
            file.write(watch.line(log.stem, LONG_RECORDS, "one more"))
        _read(store, home)
        more = client.sync()
        assert more.done.events == 1
        yield Figure(
            f"one event more in a session of {LONG_RECORDS:,}, beside it", (more.client - again.client) * 1e3, "ms"
        )


def _machine(number: int) -> str:
    """The id of a machine."""
    return f"{number:026}"


def _read(store: Store, home: Path) -> None:
    ingest(store, [agents.load("claude")], environ={}, home=home, now=0)


def main() -> None:
    """Measure and print."""
    parser = arguments(__doc__)
    parser.add_argument("store", type=Path)
    parser.add_argument("--sessions", type=int, default=10_000)
    parser.add_argument("--serve", action="store_true", help="Be the server, with its data in that folder.")
    asked = parser.parse_args()
    if asked.serve:
        serve(asked.store)
    else:
        report(asked, figures(asked.store, asked.sessions))


if __name__ == "__main__":
    main()
