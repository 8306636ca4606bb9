"""A summary is a title of the session that holds its leaf, in whatever log it stands and whichever is read first."""

from __future__ import annotations

from contextlib import closing
from itertools import permutations
from typing import TYPE_CHECKING

import apsw
import pytest

from backstory.exchange import replication
from backstory.ingest.reindex import reindex
from tests.support.clock import NOW
from tests.support.machines import Machine, claude_line, claude_log, differences, lines, looked_up

if TYPE_CHECKING:
    from collections.abc import Callable

    from backstory.store import Session

EARLY, LATE, LATER = "2026-11-21T20:00:00.000Z", "2026-11-21T21:00:00.000Z", "2026-11-21T22:00:00.000Z"


def summary(leaf: str, title: str) -> bytes:
    return claude_line("summary", None, summary=title, leafUuid=leaf)


def talk(*uuids: str, at: str = EARLY) -> list[bytes]:
    return [
        claude_line("assistant" if n % 2 else "user", uuid, f"words {n}", timestamp=at) for n, uuid in enumerate(uuids)
    ]


LOGS = {
    "about": lines(*talk("a1", "a2", "a3", "a4")),
    "teller": lines(summary("a2", "Half of it"), summary("a4", "All of it"), *talk("b1", "b2", at=LATE)),
    "other": lines(summary("a4", "All of it, again"), summary("gone", "Nobody's"), *talk("c1", "c2", at=LATER)),
}


def put(machine: Machine, name: str, data: bytes | None = None) -> None:
    machine.write(claude_log(name), LOGS[name] if data is None else data)


def read(machine: Machine, **logs: bytes) -> None:
    for name, data in logs.items():
        put(machine, name, data)
    assert machine.read("claude").errors == []


def session(machine: Machine, name: str) -> Session:
    (found,) = (each for each in machine.store.sessions(subagents=True) if each.native_id == name)
    return found


def titles(machine: Machine) -> dict[str | None, str | None]:
    return {each.native_id: each.title for each in machine.store.sessions(subagents=True)}


@pytest.mark.parametrize("order", [*permutations(LOGS)], ids=" ".join)
def test_whichever_log_is_read_first_the_session_with_the_leaf_gets_the_title(
    machine: Machine, order: tuple[str, ...]
) -> None:
    for name in order:
        put(machine, name)
        machine.read("claude")
    assert titles(machine) == {"about": "All of it, again", "teller": None, "other": None}


def test_logs_that_are_read_together_give_the_same_titles(machine: Machine) -> None:
    read(machine, **LOGS)
    assert titles(machine) == {"about": "All of it, again", "teller": None, "other": None}


def test_a_leaf_that_is_added_to_a_log_later_is_found(machine: Machine) -> None:
    read(machine, about=lines(*talk("a1", "a2")), teller=LOGS["teller"])
    assert titles(machine)["about"] == "Half of it"
    read(machine, about=lines(*talk("a1", "a2", "a3", "a4")))
    assert titles(machine)["about"] == "All of it"


def test_a_summary_far_behind_its_own_leaf_is_a_title_when_it_is_added_later(machine: Machine) -> None:
    said = talk(*[f"a{n}" for n in range(60)])
    read(machine, about=lines(*said))
    read(machine, about=lines(*said, summary("a3", "Early words")))
    assert titles(machine)["about"] == "Early words"


def test_of_a_session_and_its_copy_the_one_that_began_first_gets_the_title(machine: Machine) -> None:
    read(machine, copy=lines(*talk("a1", "a2", "a3", "a4", at=LATE)), teller=LOGS["teller"])
    assert titles(machine)["copy"] == "All of it"
    read(machine, about=LOGS["about"])
    assert titles(machine) == {"about": "All of it", "copy": None, "teller": None}


def test_the_copy_of_a_session_that_is_removed_gets_its_title(machine: Machine) -> None:
    read(machine, about=LOGS["about"], copy=lines(*talk("a1", "a2", "a3", "a4", at=LATE)), teller=LOGS["teller"])
    machine.store.remove(session(machine, "about"))
    assert titles(machine) == {"copy": "All of it", "teller": None}
    before = machine.content()
    reindex(machine.store, now=NOW, events_too=True)
    assert differences(machine.content(), before) == []


def test_a_title_goes_with_the_session_that_told_it(machine: Machine) -> None:
    read(machine, about=LOGS["about"], teller=LOGS["teller"])
    machine.store.remove(session(machine, "teller"))
    assert titles(machine) == {"about": None}


def test_without_the_session_that_told_it_last_another_ones_title_is_taken(machine: Machine) -> None:
    read(machine, **LOGS)
    machine.store.remove(session(machine, "other"))
    assert titles(machine)["about"] == "All of it"


AI_TITLE = claude_line("ai-title", None, aiTitle="Its own")


def own_title_first(machine: Machine) -> None:
    read(machine, about=lines(*talk("a1", "a2", "a3", "a4"), AI_TITLE))
    read(machine, teller=LOGS["teller"])


def summary_first(machine: Machine) -> None:
    read(machine, teller=LOGS["teller"])
    read(machine, about=lines(*talk("a1", "a2", "a3", "a4"), AI_TITLE))


def own_title_last(machine: Machine) -> None:
    read(machine, about=LOGS["about"], teller=LOGS["teller"])
    assert titles(machine)["about"] == "All of it"
    read(machine, about=lines(*talk("a1", "a2", "a3", "a4"), AI_TITLE))


@pytest.mark.parametrize("came", [own_title_first, summary_first, own_title_last])
def test_what_a_sessions_own_log_calls_it_comes_before_a_summary(
    machine: Machine, came: Callable[[Machine], None]
) -> None:
    came(machine)
    assert titles(machine)["about"] == "Its own"
    read(machine, other=LOGS["other"])
    assert titles(machine)["about"] == "Its own"
    reindex(machine.store, now=NOW, events_too=True)
    assert titles(machine)["about"] == "Its own"


def test_what_a_person_calls_a_session_comes_before_a_summary(machine: Machine) -> None:
    read(machine, about=LOGS["about"])
    machine.store.rename(session(machine, "about"), "mine")
    read(machine, teller=LOGS["teller"])
    assert session(machine, "about").shown_title == "mine"


@pytest.mark.parametrize("events_too", [False, True])
@pytest.mark.parametrize("what", ["nothing", "record_ids", "summaries", "summary_leaves", "lent_titles"])
def test_a_reindex_gives_the_same_titles_whatever_was_lost(machine: Machine, events_too: bool, what: str) -> None:
    read(machine, **LOGS, copy=lines(*talk("a1", "a2", "a3", "a4", at=LATE)))
    before = machine.content()
    if what != "nothing":
        with closing(apsw.Connection(str(machine.store_path))) as db:
            db.execute(f"delete from {what}")
    reindex(machine.store, now=NOW, events_too=events_too)
    assert differences(machine.content(), before) == []


def test_what_was_copied_into_a_session_of_a_person_holds_no_leaves(machine: Machine) -> None:
    read(machine, about=LOGS["about"])
    copy = replication.continue_session(machine.store, machine.store, session(machine, "about").uid)
    reindex(machine.store, now=NOW)
    machine.store.remove(session(machine, "about"))
    read(machine, teller=LOGS["teller"])
    assert machine.store.session(copy.uid).title is None


def test_what_goes_on_from_a_session_is_not_called_by_what_another_ones_log_says(machine: Machine) -> None:
    read(machine, about=LOGS["about"], teller=LOGS["teller"])
    goes_on = replication.continue_session(machine.store, machine.store, session(machine, "about").uid)
    machine.store.remove(session(machine, "teller"))
    assert machine.store.session(goes_on.uid).title is None


def test_what_goes_on_from_a_session_is_called_as_its_own_log_says(machine: Machine) -> None:
    read(machine, about=lines(*talk("a1", "a2", "a3", "a4"), AI_TITLE), teller=LOGS["teller"])
    goes_on = replication.continue_session(machine.store, machine.store, session(machine, "about").uid)
    assert goes_on.title == "Its own"


def test_a_reindex_notes_nothing_twice(machine: Machine) -> None:
    read(machine, **LOGS)
    tables = ("record_ids", "summaries", "summary_leaves", "lent_titles")
    before = [looked_up(machine.store_path, f"select count(*) from {table}") for table in tables]
    reindex(machine.store, now=NOW)
    assert [looked_up(machine.store_path, f"select count(*) from {table}") for table in tables] == before


def test_a_title_that_an_earlier_version_took_from_a_summary_is_not_the_logs_own(machine: Machine) -> None:
    read(machine, about=lines(summary("a2", "Half of it"), *talk("a1", "a2", "a3", "a4")))
    with closing(apsw.Connection(str(machine.store_path))) as db:
        # As it was before summaries were noted.
        db.execute("delete from lent_titles; delete from summaries; delete from record_ids")
    reindex(machine.store, now=NOW)
    read(machine, other=LOGS["other"])
    assert titles(machine)["about"] == "All of it, again"


def test_a_log_that_was_rewritten_without_the_leaf_keeps_the_title_with_its_records(machine: Machine) -> None:
    read(machine, about=LOGS["about"], teller=LOGS["teller"])
    read(machine, about=lines(*talk("a1", "a2", "z9")))
    assert titles(machine)["about"] is not None


def test_a_helpers_records_are_no_leaves(machine: Machine) -> None:
    helper = [claude_line("user", "a4", "count", isSidechain=True, timestamp=EARLY)]
    machine.write(claude_log("about").with_suffix("") / "subagents" / "agent-h.jsonl", lines(*helper))
    read(machine, teller=LOGS["teller"])
    assert titles(machine)["about/h"] is None


def test_an_ingest_without_new_summaries_finds_nothing_to_settle(machine: Machine) -> None:
    read(machine, **LOGS)
    with closing(apsw.Connection(str(machine.store_path))) as db:
        assert db.execute("select count(*) from summaries where is_settled = 0").get == 0
        read(machine, about=lines(*talk("a1", "a2", "a3", "a4", "a5")))
        assert db.execute("select count(*) from summaries where is_settled = 0").get == 0
