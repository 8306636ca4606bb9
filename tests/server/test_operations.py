"""Those who run a server see what it does and nothing of what it holds; no request is lost when it changes or ends."""

from __future__ import annotations

import json
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING, Any

import httpx
import psycopg
import pytest
from prometheus_client import generate_latest
from starlette.testclient import TestClient

from backstory.errors import CannotWrite, DatabaseUnusable
from backstory.server import database
from backstory.server.api import MACHINE
from backstory.server.database import TeamDatabase, prepared
from backstory.server.observing import Observed, ServerFigures, ServerLog
from backstory.server.postgres import own_database
from tests.support.clock import Clock
from tests.support.going import until
from tests.support.migrations import MIGRATIONS, left_at
from tests.support.senders import LAPTOP, UID, Sender, cut
from tests.support.served import RunningServer
from tests.support.team import Team, team_of
from tests.support.typed_home import TypedHome

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

WORD = "heliotrope"
"""In every place of a request where somebody may write something."""


class Seen(Sender):
    """A server that is observed, with a log in a file."""

    def __init__(self, team: Team, path: Path) -> None:
        super().__init__(team, team.founded(WORD))
        self.path, self.figures, self.log = path, ServerFigures(team.database), ServerLog(path, team.now)
        self.client = TestClient(Observed(team.api().app(), self.figures, self.log), raise_server_exceptions=False)

    def asks(self, method: str, path: str, **how: Any) -> int:
        return self.client.request(method, path, headers=self.headers, **how).status_code

    def close(self) -> None:
        self.client.close()
        self.log.__exit__()

    def said(self) -> str:
        return generate_latest(self.figures.registry).decode()

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.path.read_text("utf-8").splitlines()]


@pytest.fixture
def seen(team: Team, tmp_path: Path) -> Iterator[Seen]:
    with closing(Seen(team, tmp_path / "log")) as made:
        yield made


def test_neither_figures_nor_lines_say_what_somebody_asked_or_sent(seen: Seen) -> None:
    assert seen.asks("POST", "/v1/sync", content=b"".join(cut([[WORD], [f"{WORD} again"]]))) == 200
    assert seen.asks("GET", f"/v1/sessions/{UID}") == 200
    assert seen.asks("GET", f"/v1/resolve?words={WORD}") == 404
    assert seen.asks("GET", f"/v1/sessions?title={WORD}&person={WORD}") == 200
    assert seen.asks("GET", f"/v1/{WORD}/{WORD}") == 404
    assert seen.asks(WORD.upper(), "/v1/sessions") == 405
    assert seen.asks("POST", "/v1/join", json={"code": WORD, "name": WORD}) == 401
    everything = (seen.said() + seen.path.read_text("utf-8")).lower()
    for word in (WORD, UID.lower(), seen.token.lower(), LAPTOP.lower(), f"{seen.tenant:x}"):
        assert word not in everything


def test_a_request_is_counted_and_written_by_its_route(seen: Seen) -> None:
    seen.asks("GET", f"/v1/sessions/{UID}")
    seen.asks("GET", "/v1/me")
    seen.asks("GET", "/v1/nowhere")
    assert [(each["method"], each["route"], each["status"]) for each in seen.lines()] == [
        ("GET", "/v1/sessions/{uid}", 404), ("GET", "/v1/me", 200), ("other", "other", 404),
    ]  # fmt: skip
    assert 'backstory_requests_total{method="GET",route="/v1/me",status="200"} 1.0' in seen.said()
    assert "backstory_requests_open 0.0" in seen.said()


def test_an_error_of_ours_is_written_by_its_kind_and_places(seen: Seen, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise ZeroDivisionError(WORD)

    monkeypatch.setattr(database.TeamDatabase, "state", fails)
    assert seen.asks("GET", "/v1/me") == 500
    error, request = seen.lines()
    assert (error["event"], error["kind"], error["places"][-1][:6]) == ("error", "ZeroDivisionError", "fails:")
    assert (request["status"], WORD in json.dumps([error, request])) == (500, False)


def test_what_waits_to_be_found_is_a_figure(seen: Seen) -> None:
    def waiting() -> float:
        return float(seen.said().partition("\nbackstory_sessions_waiting ")[2].partition("\n")[0])

    before = waiting()
    seen.send(*cut([["a"]]))
    assert waiting() == before + 1
    seen.team.derive(seen.who)
    assert waiting() == before


def test_a_database_that_is_away_is_a_figure_and_no_error(seen: Seen, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "backstory_database_up 1.0" in seen.said()

    def away(*_: object) -> None:
        raise DatabaseUnusable("it is away")

    monkeypatch.setattr(database.TeamDatabase, "of", away)
    assert "backstory_database_up 0.0" in seen.said()


def test_a_log_is_private_and_begun_anew_where_it_was_moved_away(tmp_path: Path) -> None:
    with ServerLog(tmp_path / "log") as log:
        log.write("one")
        (tmp_path / "log").rename(tmp_path / "log.1")
        log.write("two")
    assert [json.loads((tmp_path / name).read_text())["event"] for name in ("log.1", "log")] == ["one", "two"]
    assert (tmp_path / "log").stat().st_mode & 0o777 == 0o600


def test_a_log_that_cannot_be_written_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(CannotWrite):
        ServerLog(tmp_path / "none" / "log")


# migrations beside servers that answer --------------------------------------------------------------------------------


def test_tables_are_brought_up_while_a_server_stores(
    empty: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One server answers on, and two others of the next version start at once."""
    left_at(len(MIGRATIONS) - 1, tmp_path / "before", monkeypatch, empty)
    (last,) = MIGRATIONS[-1:]
    with team_of(empty, Clock(), TeamDatabase) as team:
        sender, over, words = Sender(team, team.founded()), threading.Event(), list[str]()

        def sends() -> None:
            frames = cut([[str(number)] for number in range(200)])
            for each in frames:
                words.extend(sender.send(each))
                if over.is_set():
                    break

        with ThreadPoolExecutor() as threads:
            sending = threads.submit(sends)
            until(lambda: len(words) > 3)
            for each in [threads.submit(prepared, empty) for _ in range(2)]:
                each.result().__exit__(None, None, None)
            until(lambda: len(words) > 10)
            over.set()
            sending.result()
        assert set(words) == {"ok"}
        assert sender.state()["events"] == len(words)
    with psycopg.connect(empty) as rows:
        assert rows.execute("select max(number) from backstory.migration").fetchone() == (int(last[:4]),)


def test_a_migration_does_not_make_others_wait_for_whom_it_waits_for(
    empty: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left_at(4, tmp_path / "before", monkeypatch, empty)
    monkeypatch.setattr(database, "LOCK_WAIT_MS", 20)
    monkeypatch.setattr(database, "LOCK_TRIES", 3)
    with psycopg.connect(empty) as holder:
        holder.execute("lock table backstory.session in access share mode")
        with pytest.raises(DatabaseUnusable, match="held its tables for too long"):
            prepared(empty)
        holder.rollback()
    with prepared(empty), psycopg.connect(empty) as rows:
        assert rows.execute("select count(*) from backstory.migration").fetchone() == (len(MIGRATIONS),)


# the end of a server --------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_who_asked_before_the_end_has_an_answer_and_nothing_is_left(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "anna").mkdir()
    anna, log = TypedHome(tmp_path / "anna"), tmp_path / "log"
    server = RunningServer(folder, tmp_path, "--log", str(log), "--metrics", "127.0.0.1:0")
    assert anna.types("login", server.address, "--code", server.code, "--person", "anna").returncode == 0
    token = json.loads((anna.home / "backstory" / "server.json").read_text("utf-8"))["token"]
    headers = {"Authorization": f"Bearer {token}", MACHINE: LAPTOP}
    (figures,) = [line.split()[-1] for line in server.said.splitlines() if "Prometheus" in line]
    assert 'route="/v1/join"' in httpx.get(figures).text
    admin = own_database(folder).address.replace("dbname=postgres", "dbname=backstory")
    with ThreadPoolExecutor() as threads, psycopg.connect(admin) as holder:
        holder.execute("lock table backstory.session in access exclusive mode")
        asked = threads.submit(httpx.get, f"{server.address}/v1/sessions", headers=headers, timeout=30)
        until(lambda: "backstory_requests_open 1.0" in httpx.get(figures).text)
        server.process.send_signal(signal.SIGTERM)
        until(lambda: not accepts(server.address))
        assert not asked.done()
        holder.rollback()
        assert (asked.result().status_code, asked.result().json()["total"]) == (200, 0)
    assert server.end(None) == 0
    assert not own_database(folder).is_running
    events = [json.loads(line)["event"] for line in log.read_text("utf-8").splitlines()]
    assert (events[0], events[-1]) == ("started", "ended")


def accepts(address: str) -> bool:
    try:
        httpx.get(f"{address}/v1/health", timeout=5)
    except httpx.HTTPError:
        return False
    return True
