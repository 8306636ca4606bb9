"""Which sessions the index covers, as names and globs say it, and what follows when a repository becomes known."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import apsw

from backstory.model import AssistantText, Complete, UserMessage
from backstory.store import Store, Workplace, open_store
from backstory.store.file import maintenance
from backstory.store.intake import coverage
from backstory.store.intake.coverage import EVERYTHING, IndexRule, is_covered
from backstory.store.tables import events, sessions
from tests.support.derived import uids
from tests.support.every import every

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.clock import Clock

OURS = IndexRule(repositories=("me/app",))
SAID = [UserMessage(content="a prompt"), AssistantText(text="an answer"), Complete(success=True)]


@every(
    ("pattern", "repository", "project", "is_meant"),
    [
        ("me/app", "me/app", "github.com/me/app", True),
        ("Me/App", "me/app", "github.com/me/app", True),
        ("app", "me/app", "github.com/me/app", True),
        ("me/*", "me/app", "github.com/me/app", True),
        ("github.com/me/*", "me/app", "github.com/me/app", True),
        ("ap", "me/app", "github.com/me/app", False),
        ("you/*", "me/app", "github.com/me/app", False),
        ("app", None, "/home/me/app", True),
        ("/home/me/*", None, "/home/me/app", True),
        ("app", None, None, False),
    ],
)
def test_a_repository_is_meant_by_its_name_or_a_glob(
    pattern: str, repository: str | None, project: str | None, is_meant: bool
) -> None:
    assert IndexRule(repositories=(pattern,)).covers(repository, project) is is_meant


def test_without_names_all_is_covered() -> None:
    assert EVERYTHING.covers(None, None)


def ruled(path: Path, clock: Clock, rule: IndexRule) -> Store:
    store = open_store(path, now=clock)
    store.index_rule = lambda: rule
    return store


def meta(path: Path) -> set[str]:
    with closing(apsw.Connection(str(path))) as db:
        return {str(key) for (key,) in db.execute("select key from meta") if str(key).startswith("index_")}


def test_the_defaults_leave_no_trace_in_a_store(store_path: Path, clock: Clock) -> None:
    with ruled(store_path, clock, EVERYTHING) as store:
        store.create_session("one")

    assert meta(store_path) == set()


def test_a_store_is_outdated_from_a_change_until_all_is_derived_anew(store_path: Path, clock: Clock) -> None:
    with ruled(store_path, clock, OURS) as store:
        store.create_session("one")
        assert not store.ask(coverage.state, store.index_rule and store.index_rule()).is_outdated
        assert store.ask(coverage.state, store.index_rule and store.index_rule()).uncovered == 1

    with ruled(store_path, clock, EVERYTHING) as store:
        assert store.ask(coverage.state, store.index_rule and store.index_rule()).is_outdated
        store.create_session("two")
        assert store.ask(coverage.state, store.index_rule and store.index_rule()).is_outdated
        store.change(maintenance.note_reindexed, is_whole=True)
        assert not store.ask(coverage.state, store.index_rule and store.index_rule()).is_outdated
    assert meta(store_path) == set()


def test_what_was_said_before_a_session_turned_out_to_be_covered_is_derived_later(
    store_path: Path, clock: Clock
) -> None:
    with ruled(store_path, clock, OURS) as store:
        session = store.create_session("one")
        store.append_events(session, SAID)
        assert set().union(*uids(store_path).values()) == set()

        store.change(sessions.place, session.id, Workplace(project="github.com/me/app"))

        assert maintenance.sessions_to_derive(store, only_stale=True) == [session.id]


def test_what_was_derived_of_a_session_goes_when_it_is_another_repositorys(store_path: Path, clock: Clock) -> None:
    with ruled(store_path, clock, IndexRule(repositories=("github.com/me/*",))) as store:
        session = store.create_session("one", at=Workplace(project="github.com/me/app"))
        store.append_events(session, SAID)
        assert uids(store_path)["search_index"] == {session.uid}

        with closing(apsw.Connection(str(store_path))) as db:
            db.execute("update sessions set repository = null")
        store.change(sessions.place, session.id, Workplace(project="github.com/you/app"))

        assert set().union(*uids(store_path).values()) == set()
        assert store.ask(events.count, session.id) == len(SAID)


def test_a_subagent_without_a_repository_is_covered_as_its_parent_is(store_path: Path, clock: Clock) -> None:
    with ruled(store_path, clock, OURS) as store:
        parent = store.create_session("one", at=Workplace(project="github.com/me/app"))
        child, stranger = store.create_session("two"), store.create_session("three")

    with closing(apsw.Connection(str(store_path))) as db:
        db.execute("update sessions set parent_id = ? where id = ?", (parent.id, child.id))
        assert [is_covered(db, each.id) for each in (parent, child, stranger)] == [True, True, False]


def test_a_store_that_leaves_sessions_out_is_whole(store_path: Path, clock: Clock) -> None:
    with ruled(store_path, clock, OURS) as store:
        store.append_events(store.create_session("one"), SAID)
        assert store.verify().problems == []


def test_a_row_that_is_missing_of_a_covered_session_is_still_found(store_path: Path, clock: Clock) -> None:
    with ruled(store_path, clock, OURS) as store:
        session = store.create_session("one", at=Workplace(project="github.com/me/app"))
        store.append_events(session, SAID)
    with closing(apsw.Connection(str(store_path))) as db:
        db.execute("delete from search_index")

    with open_store(store_path, now=clock) as store:
        assert any("not in it" in each for each in store.verify().problems)
