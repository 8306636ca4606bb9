"""What people decide is written where the session is owned, and in the other stores now or at the next exchange."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import apsw
import pytest

from backstory.conversation.tree import Point
from backstory.errors import BranchNameTaken, DiskFull, StoreBusy, StoreReadOnly
from backstory.exchange import replication
from backstory.model import AssistantText, Complete, UserMessage
from backstory.projects.registry import KnownProjects
from backstory.store import Session, Store, open_store
from backstory.store.file import connection
from backstory.store.tables.queue import Queue, QueuedKind, QueuedPrompt
from backstory.workspace.decisions import DecisionWriter
from backstory.workspace.stores.removing import Removal
from tests.support.leftovers import leftovers
from tests.support.machines import looked_up

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from backstory.workspace.decisions import Decided
    from backstory.workspace.stores.removing import Removed
    from tests.support.clock import Clock

SECRET = "qzxwvkjheron"


class Machine:
    """A home store, and a project's store with one session, which both hold."""

    def __init__(self, root: Path, clock: Clock) -> None:
        self.root, self.clock = root, clock
        self.home_folder = root / "home"
        self.home = open_store(self.home_folder / "store.db", shared=True, now=clock)
        self.path = root / "project" / ".backstory" / "sessions.bks"
        self.project = open_store(self.path, now=clock)
        self.projects = KnownProjects(self.home_folder, self.home, clock)
        self.uid = self.begin("first")
        self.projects.remember(self.project)
        assert self.exchange() == []

    def begin(self, prompt: str) -> str:
        session = self.project.create_session()
        self.say(self.project, session, prompt)
        return session.uid

    def say(self, store: Store, session: Session, prompt: str) -> None:
        self.clock.ms += 1
        store.append_events(
            session, [UserMessage(content=prompt), AssistantText(text=f"to {prompt}"), Complete(success=True)]
        )

    def exchange(self) -> list[str]:
        """What ``ingest`` does with projects' stores; returns what it says."""
        problems = list[str]()
        self.clock.ms += 1
        self.projects.replicate(problems.append)
        return problems

    def rename(self, name: str, found: Store | None = None) -> Decided[None]:
        self.clock.ms += 1
        decisions = DecisionWriter(self.home, self.projects)
        return decisions.decide(found or self.home, self.uid, lambda store, session: store.rename(session, name))

    def remove(self, found: Store | None = None) -> Removed:
        self.clock.ms += 1
        decisions = DecisionWriter(self.home, self.projects)
        return Removal(decisions, [(found or self.home, self.uid)], None).perform(self.home_folder, print)

    def names(self) -> tuple[str | None, str | None]:
        """What the session is called in the project's store and in the home store; None where it is not."""
        project, home = (
            each.session(self.uid).name if each.has(self.uid) else None for each in (self.project, self.home)
        )
        return project, home

    @contextmanager
    def away(self) -> Iterator[None]:
        """The project's folder is not mounted."""
        self.project.close()
        mounted = (self.root / "project").rename(self.root / "elsewhere")
        yield
        mounted.rename(self.root / "project")


@pytest.fixture
def machine(tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    monkeypatch.setattr(connection, "BUSY_TIMEOUT_MS", 1)
    made = Machine(tmp_path, clock)
    yield made
    made.home.close()
    made.project.close()


@contextmanager
def locked(store: Store) -> Iterator[None]:
    """Another process writes the store."""
    other = apsw.Connection(str(store.path))
    other.execute("begin immediate")
    yield
    other.execute("rollback")
    other.close()


# rename ----------------------------------------------------------------------------------------------------------


def test_a_rename_is_in_both_stores_at_once(machine: Machine) -> None:
    decided = machine.rename("herons")
    assert (machine.names(), decided.store.path, decided.late) == (("herons", "herons"), machine.path, [])


def test_when_a_checkout_and_a_branch_name_were_decided_is_in_both_stores(machine: Machine) -> None:
    session = machine.project.session(machine.uid)
    (first,) = machine.project.tree(session)
    machine.project.name_branch(session, "main", Point(first.uid, first.last_seq))
    machine.say(machine.project, session, "second")
    began = machine.clock.ms
    machine.clock.ms += 5
    machine.project.checkout(session, Point(first.uid, first.last_seq))
    assert machine.exchange() == []
    for store in (machine.project, machine.home):
        path = store.path
        assert looked_up(path, "select leaf_uid, leaf_at from sessions") == [(first.uid, began + 5)]
        assert looked_up(path, "select name, moved from branches") == [("main", began)]


def test_a_rename_while_the_home_store_is_locked_catches_up(machine: Machine) -> None:
    with locked(machine.home):
        (late,) = machine.rename("herons", machine.project).late
    assert machine.names() == ("herons", "")
    assert str(late) == (
        f"the copy in {machine.home.path} could not be written now (locked) and will catch up at the next "
        "`backstory ingest`"
    )
    assert machine.exchange() == []
    assert machine.names() == ("herons", "herons")


def test_a_rename_while_the_projects_store_is_locked_catches_up_and_is_not_undone(machine: Machine) -> None:
    with locked(machine.project):
        (late,) = machine.rename("herons").late
    assert (machine.names(), late.reason) == (("", "herons"), "locked")
    assert machine.exchange() == []
    assert machine.names() == ("herons", "herons")
    assert machine.exchange() == []
    assert machine.names() == ("herons", "herons")


def test_a_rename_while_the_project_is_not_mounted_catches_up(machine: Machine) -> None:
    with machine.away():
        (late,) = machine.rename("herons").late
        assert machine.exchange() == []
    assert (late.path, late.reason) == (machine.path, "not there")
    assert machine.exchange() == []
    assert machine.names() == ("herons", "herons")


def test_a_rename_that_the_projects_disk_has_no_room_for_catches_up(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(session: Session | int, name: str) -> None:
        raise DiskFull(machine.path)

    monkeypatch.setattr(machine.project, "rename", refuse)
    (late,) = machine.rename("herons", machine.project).late
    assert (machine.names(), late.reason) == (("", "herons"), "disk full")
    assert machine.exchange() == []
    assert machine.names() == ("herons", "herons")


def test_a_rename_that_no_store_takes_is_an_error_and_changes_nothing(machine: Machine) -> None:
    with locked(machine.home), locked(machine.project), pytest.raises(StoreBusy):
        machine.rename("herons")
    assert machine.names() == ("", "")


def test_of_two_renames_the_later_one_wins_wherever_it_was_written(machine: Machine) -> None:
    with machine.away():
        machine.rename("earlier")
    machine.rename("later", machine.project)
    machine.exchange()
    assert machine.names() == ("later", "later")


def test_of_two_renames_in_one_millisecond_the_second_wins(machine: Machine) -> None:
    machine.rename("earlier")
    with machine.away():
        machine.clock.ms -= 1
        machine.rename("later")
    machine.exchange()
    assert machine.names() == ("later", "later")


def test_a_clock_that_was_set_back_does_not_make_a_rename_the_earlier_one(machine: Machine) -> None:
    with machine.away():
        machine.rename("earlier")
    machine.clock.ms -= 100_000
    machine.rename("later", machine.project)
    machine.exchange()
    assert machine.names() == ("later", "later")


def test_a_rename_that_takes_the_name_away_is_one(machine: Machine) -> None:
    machine.rename("herons")
    with machine.away():
        machine.rename("")
    machine.exchange()
    assert machine.names() == ("", "")


def test_a_run_that_is_stored_does_not_undo_a_rename_that_its_store_missed(machine: Machine) -> None:
    with locked(machine.project):
        machine.rename("herons")
    machine.say(machine.project, machine.project.session(machine.uid), "second")
    replication.replicate_session(machine.home, machine.project, machine.uid, has_all=False)
    assert machine.names() == ("herons", "herons")
    assert len(machine.home.turns(machine.home.session(machine.uid))) == 2


def test_events_come_from_a_store_that_cannot_be_written_and_the_name_stays(machine: Machine) -> None:
    with machine.away():
        machine.rename("herons")
    machine.say(machine.project, machine.project.session(machine.uid), "second")
    machine.project.close()
    with locked(machine.project):
        (problem,) = machine.exchange()
    assert "could not be written there (locked)" in problem
    assert machine.names() == ("", "herons")
    assert len(machine.home.turns(machine.home.session(machine.uid))) == 2
    assert machine.exchange() == []
    assert machine.names() == ("herons", "herons")


def test_a_name_that_an_earlier_version_gave_in_the_owners_store_is_taken_over(machine: Machine) -> None:
    db = apsw.Connection(str(machine.path))
    db.execute("update sessions set name = 'old ways'")
    db.close()
    machine.exchange()
    assert machine.names() == ("old ways", "old ways")


def test_a_session_that_only_its_log_owns_is_named_in_the_home_store_and_in_a_copy(machine: Machine) -> None:
    for store in (machine.home, machine.project):
        db = apsw.Connection(str(store.path))
        db.execute("update sessions set owner = null, number = null")
        db.close()
    with locked(machine.project):
        assert machine.rename("herons").store is machine.home
    machine.projects.look_again(machine.project.id)
    machine.exchange()
    assert machine.names() == ("herons", "herons")


# branches --------------------------------------------------------------------------------------------------------


def test_a_branchs_name_catches_up_and_follows_what_came_since(machine: Machine) -> None:
    with machine.away():
        decisions = DecisionWriter(machine.home, machine.projects)
        point = machine.home.leaf(machine.home.session(machine.uid))
        assert point is not None
        decisions.decide(machine.home, machine.uid, lambda store, each: store.name_branch(each, "main", point))
    session = machine.project.session(machine.uid)
    machine.say(machine.project, session, "second")
    machine.exchange()
    for store in (machine.project, machine.home):
        session = store.session(machine.uid)
        (named,) = store.branch_names(session)
        assert (named.name, named.uid) == ("main", store.turns(session)[-1].uid)


def test_a_branchs_name_that_was_taken_away_does_not_come_back(machine: Machine) -> None:
    session = machine.project.session(machine.uid)
    point = machine.project.leaf(session)
    assert point is not None
    machine.project.name_branch(session, "main", point)
    machine.exchange()
    with machine.away():
        decisions = DecisionWriter(machine.home, machine.projects)
        decisions.decide(machine.home, machine.uid, lambda store, each: store.unname_branch(each, "main"))
    machine.exchange()
    assert [store.branch_names(store.session(machine.uid)) for store in (machine.project, machine.home)] == [[], []]


def test_a_name_that_another_branch_has_is_refused_and_nothing_is_late(machine: Machine) -> None:
    session = machine.project.session(machine.uid)
    machine.say(machine.project, session, "second")
    first, second = (machine.project.place(session, seq).point for seq in (2, 4))
    machine.project.name_branch(session, "main", first)
    decisions = DecisionWriter(machine.home, machine.projects)
    with pytest.raises(BranchNameTaken):
        decisions.decide(machine.project, machine.uid, lambda store, each: store.name_branch(each, "main", second))


def test_what_was_pruned_while_the_home_store_was_locked_is_pruned_there_too(machine: Machine) -> None:
    session = machine.project.session(machine.uid)
    machine.say(machine.project, session, "a heron")
    machine.exchange()
    machine.project.remove_turns(session, [machine.project.turns(session)[-1].uid])
    machine.exchange()
    with locked(machine.home):
        decisions = DecisionWriter(machine.home, machine.projects)
        assert decisions.decide(machine.project, machine.uid, lambda store, each: store.prune_turns(each)).late
    assert machine.home.execute_read_only("select count(*) from events where char_len = 7").rows == [(1,)]
    assert machine.exchange() == []
    assert machine.home.execute_read_only("select count(*) from events where char_len = 7").rows == [(0,)]


# removal ---------------------------------------------------------------------------------------------------------


def test_a_removal_is_in_both_stores_at_once(machine: Machine) -> None:
    assert (machine.remove().late, machine.names()) == ([], (None, None))


def test_a_removal_that_the_home_store_missed_does_not_come_back(machine: Machine) -> None:
    with locked(machine.home):
        (late,) = machine.remove(machine.project).late
    assert (machine.names(), late.path, late.reason) == ((None, ""), machine.home.path, "locked")
    assert machine.exchange() == []
    assert machine.names() == (None, None)


@pytest.mark.parametrize("how", ["locked", "away"])
def test_a_removal_that_the_projects_store_missed_does_not_come_back(machine: Machine, how: str) -> None:
    with locked(machine.project) if how == "locked" else machine.away():
        (late,) = machine.remove().late
        machine.exchange()
    assert (machine.names(), late.path) == (("", None), machine.path)
    assert machine.exchange() == []
    assert machine.names() == (None, None)


def test_a_removal_that_no_store_takes_is_an_error(machine: Machine) -> None:
    with locked(machine.home), locked(machine.project), pytest.raises(StoreBusy):
        machine.remove()
    assert machine.names() == ("", "")


def test_a_session_that_was_used_since_it_was_removed_elsewhere_is_kept(machine: Machine) -> None:
    with machine.away():
        machine.remove()
    machine.say(machine.project, machine.project.session(machine.uid), "still here")
    assert machine.exchange() == []
    assert machine.names() == ("", None)


def test_what_was_queued_for_a_session_goes_with_it_when_the_removal_catches_up(machine: Machine) -> None:
    with Queue(machine.path) as queue:
        queue.add(
            [
                QueuedPrompt(uid="0" * 26, session_uid=machine.uid, kind=QueuedKind.FOLLOWUP, content=SECRET),
                QueuedPrompt(uid="1" * 26, session_uid="2" * 26, kind=QueuedKind.FOLLOWUP, content="another's"),
            ]
        )
    with machine.away():
        machine.remove()
    machine.exchange()
    with Queue(machine.path) as queue:
        assert [text.content for text in queue.prompts()] == ["another's"]
    assert leftovers(machine.path.parent, SECRET) == set()


def test_another_session_is_untouched_by_a_removal(machine: Machine) -> None:
    other = machine.begin("other")
    machine.exchange()
    with machine.away():
        machine.remove()
    machine.exchange()
    assert [store.uids() for store in (machine.project, machine.home)] == [[other], [other]]


def test_a_store_that_may_never_be_written_is_read_all_the_same(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    with machine.away():
        machine.rename("herons")
    machine.project.close()
    opened = connection.open_writer

    def refused(path: Path) -> apsw.Connection:
        if path == machine.path:
            raise StoreReadOnly(path)
        return opened(path)

    monkeypatch.setattr(connection, "open_writer", refused)
    (problem,) = machine.exchange()
    assert "(read-only)" in problem
    assert machine.names() == ("", "herons")
