"""Of what was removed nothing is left on the server: in no table, frame, statistic, log, nor file of PostgreSQL."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest

from backstory.server.database import make_own
from backstory.server.postgres import OwnDatabase, own_database
from tests.support.clock import Clock
from tests.support.going import until
from tests.support.kept_files import cleaned, in_files, in_tables
from tests.support.leftovers import leftovers
from tests.support.senders import Sender, cut
from tests.support.team import Team, open_folder, team_of

if TYPE_CHECKING:
    from collections.abc import Iterator

UIDS = [f"01M3250V00CJ5X1JHP0Z69AW{each}" for each in ("DA", "DB", "DC", "DD")]
WORDS = [f"zqx{number}{'wvutsrqponm'[number % 11]}plomb" for number in range(20)]
"""Words that nothing else has."""
STAYING = "zqxstaying"


@pytest.fixture(scope="module")
def own() -> Iterator[OwnDatabase]:
    """A PostgreSQL whose files nobody else writes."""
    made = own_database(Path(open_folder()))
    made.start()
    yield made
    made.stop()
    shutil.rmtree(made.folder)


@pytest.fixture(scope="module")
def alone(own: OwnDatabase) -> Iterator[Team]:
    with team_of(make_own(own.address), Clock()) as team:
        yield team


def admin_of(own: OwnDatabase) -> str:
    return f"{own.address} dbname=backstory"


def sent(sender: Sender, uid: str, words: list[str]) -> None:
    frames = cut([[" ".join(words[:10])], [" ".join(words[10:])]], uid=uid, title=words[0])
    assert sender.send(*frames) == ["ok", "ok"]
    assert sender.team.derive(sender.who) == 1
    # It is read, so that a store of it is kept.
    for path in (f"/v1/sessions/{uid}", f"/v1/sessions/{uid}/entries"):
        assert sender.team.client.get(path, headers=sender.headers).status_code == 200
    assert any(word in text for word in words for text in kept(sender))
    assert sender.send(*cut([[STAYING]], uid="01M3250V00CJ5X1JHP0Z69AWZZ")) in (["ok"], ["had"])


def kept(sender: Sender) -> list[str]:
    """What the stores of single sessions tell of what was planted."""
    words = [*UIDS, *WORDS, *(f"{each}out" for each in WORDS), *(f"{each}all" for each in WORDS)]
    return [f"{each} {word}" for word in words for each in leftovers(sender.team.folder, word)]


def left(own: OwnDatabase, words: list[str]) -> set[str]:
    """Where words are when all is done that the docs name."""
    cleaned(admin_of(own))
    return in_tables(admin_of(own), words) | in_files(own.folder, words)


def planted(own: OwnDatabase, words: list[str]) -> None:
    """Assert that the words would be found: in tables, in files, and in what plans are made of."""
    with psycopg.connect(admin_of(own), autocommit=True) as connection:
        connection.execute("analyze")
        connection.execute("checkpoint")
    there, files = in_tables(admin_of(own), words), in_files(own.folder, words)
    assert {word for word in words if any(each.endswith(word) for each in there)} == {*words}
    assert {word for word in words if any(each.endswith(word) for each in files)} == {*words}


@pytest.mark.slow
def test_of_a_session_that_was_removed_nothing_is_left_in_any_file(own: OwnDatabase, alone: Team) -> None:
    anna = Sender(alone, alone.founded())
    sent(anna, UIDS[0], WORDS)
    planted(own, [UIDS[0], *WORDS])
    anna.forget(UIDS[0])
    assert kept(anna) == []
    assert left(own, [UIDS[0], *WORDS]) == set()
    assert left(own, [STAYING]) != set()


@pytest.mark.slow
def test_of_a_person_who_was_put_out_nothing_is_left_in_any_file(own: OwnDatabase, alone: Team) -> None:
    words = [f"{each}out" for each in WORDS]
    anna = alone.founded("anna")
    ben = Sender(alone, alone.joined(anna, "bennamedso"))
    sent(ben, UIDS[1], words)
    planted(own, [UIDS[1], "bennamedso", *words])
    assert alone.ask("DELETE", "/v1/people/bennamedso", anna.token)[0] == 200
    assert kept(ben) == []
    assert left(own, [UIDS[1], "bennamedso", *words]) == set()


@pytest.mark.slow
def test_of_all_that_a_person_sent_nothing_is_left_in_any_file(own: OwnDatabase, alone: Team) -> None:
    words = [f"{each}all" for each in WORDS]
    anna = Sender(alone, alone.founded())
    sent(anna, UIDS[2], words)
    status, found = alone.ask("DELETE", "/v1/sessions", anna.token)
    assert (status, UIDS[2] in found["uids"]) == (200, True)
    assert kept(anna) == []
    assert left(own, [UIDS[2], *words]) == set()
    assert anna.send(*cut([["again"]], uid=UIDS[2])) == ["forgotten"]


# at the same time -----------------------------------------------------------------------------------------------------


def waits(admin: str) -> bool:
    """Return True while somebody waits for a row of the server's database that another one has."""
    with psycopg.connect(admin) as connection:
        found = connection.execute(
            "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and usename = 'backstory'"
        )
        return found.fetchone() != (0,)


def test_what_is_stored_while_its_person_is_put_out_is_erased_too(own: OwnDatabase, alone: Team) -> None:
    anna = alone.founded()
    ben = Sender(alone, alone.joined(anna, "ben"))
    with ThreadPoolExecutor(1) as threads:
        with alone.database.of(ben.tenant) as rows:
            # As a sync does that is under way.
            rows.execute("update person set generation = generation + 1 where name = 'ben'")
            put_out = threads.submit(alone.ask, "DELETE", "/v1/people/ben", anna.token)
            until(lambda: waits(own.address))
            rows.execute("insert into removal select tenant, id, 'zqxlate', now(), 1 from person where name = 'ben'")
        assert put_out.result()[0] == 200
    assert in_tables(admin_of(own), ["zqxlate"]) == set()


def test_who_is_put_out_while_sending_is_told_so(own: OwnDatabase, alone: Team) -> None:
    anna = alone.founded()
    ben = Sender(alone, alone.joined(anna, "ben"))
    with ThreadPoolExecutor(1) as threads:
        with alone.database.of(ben.tenant) as rows:
            rows.execute("select from person where name = 'ben' for update")
            sending = threads.submit(ben.answer, *cut([["a"]]))
            until(lambda: waits(own.address))
            rows.execute("delete from person where name = 'ben'")
        status, found = sending.result()
    assert (status, found["error"]["kind"]) == (401, "not_logged_in")
