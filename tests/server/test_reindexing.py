"""A reindex that sends, too: by whose leave, what it counts, and what it says where the server does not take all."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.support.desks import SESSIONS, Desk

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.team import Team

OFFER = "Also send the history of me/tool to "


@pytest.fixture
def desk(team: Team, tmp_path: Path) -> Iterator[Desk]:
    with team.served() as address:
        home = tmp_path / "home"
        home.mkdir()
        yield Desk(home, team, address)


@pytest.mark.parametrize(
    "words", [("reindex", "--sync"), ("chronicle", "reindex", "--sync"), ("reindex", "--confirmed")]
)
def test_what_was_indexed_is_sent_and_counted_in_the_last_line(words: tuple[str, ...], desk: Desk) -> None:
    desk.log_in()
    done = desk.shell(*words)
    assert done.code == 0, done
    said = rf"✓ Reindex complete: {SESSIONS} sessions indexed locally, {SESSIONS} cloud sessions created, \d+ events"
    assert re.fullmatch(rf"{said} uploaded, \d+ queued for backfill", done.out.strip())
    assert desk.there() == SESSIONS


def test_there_is_a_line_for_each_twenty_sessions(desk: Desk) -> None:
    desk.log_in()
    said = re.findall(r"Syncing sessions: (\d+) of (\d+)", desk.shell("reindex", "--sync").err)
    assert said == [("20", str(SESSIONS)), ("40", str(SESSIONS))]


def test_a_second_one_creates_and_sends_nothing(desk: Desk) -> None:
    desk.log_in()
    first = desk.shell("reindex", "--sync", "--json").json()["sync"]
    again = desk.shell("reindex", "--sync", "--json").json()["sync"]
    assert (first["created_count"], again["created_count"], again["event_count"]) == (SESSIONS, 0, 0)
    assert first["event_count"] > SESSIONS
    assert (first["failed_count"], first["backfill_failed_count"]) == (0, 0)


def test_without_a_login_it_is_told_before_anything_is_done(desk: Desk) -> None:
    done = desk.shell("reindex", "--sync")
    assert (done.code, done.out) == (77, "")
    assert "backstory login" in done.err
    assert not desk.shell.store.exists()


def test_what_may_not_leave_stays(desk: Desk) -> None:
    desk.log_in()
    desk.allow("false")
    assert desk.shell("reindex", "--sync").code == 78
    assert "Reindex complete" in desk.shell("reindex", "--confirmed").out
    assert desk.there() == 0


def test_a_server_that_is_gone_costs_no_reindex(desk: Desk) -> None:
    desk.log_in()
    account = desk.shell.home / "backstory/server.json"
    account.write_text(account.read_text("utf-8").replace(desk.address, "http://127.0.0.1:9"), "utf-8")
    done = desk.shell("reindex", "--sync")
    assert done.code == 69
    assert f"✓ Reindex complete: {SESSIONS} sessions, " in done.out
    assert "⚠ Cloud sync failed." in done.err
    assert "does not answer" in done.err


def test_in_a_script_nothing_is_asked_or_sent(desk: Desk) -> None:
    desk.log_in()
    done = desk.shell("reindex")
    assert (done.code, OFFER in done.err) == (0, False)
    assert desk.there() == 0


@pytest.mark.parametrize("typed, count", [("continue\r", SESSIONS), ("cancel\r", 0), ("\r", 0)])
def test_a_person_is_asked_once_whether_to_send_too(typed: str, count: int, desk: Desk) -> None:
    desk.log_in()
    code, seen = desk.on_terminal(typed)
    assert code == 0
    assert OFFER in seen
    assert desk.there() == count
    code, seen = desk.on_terminal()
    assert (code, OFFER in seen) == (0, False)


def test_of_many_repositories_the_offer_names_some(desk: Desk) -> None:
    desk.log_in()
    desk.shell("config", "set", "sync.repositories", ",".join(f"me/tool-{number}" for number in range(9)))
    code, seen = desk.on_terminal("cancel\r")
    assert (code, "of me/tool-0, me/tool-1, me/tool-2 and 6 more to http" in seen.replace("\n", " ")) == (0, True)


def test_who_is_not_logged_in_is_asked_nothing(desk: Desk) -> None:
    code, seen = desk.on_terminal()
    assert (code, OFFER in seen) == (0, False)
