"""What a person removes goes from the server and from other machines, and comes back from nowhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from backstory.errors import LoginRefused
from backstory.sync import removed, uploading
from backstory.sync.notes import SyncNote, SyncNotes
from tests.support.pulled import LATER
from tests.support.senders import OTHER, UID, Sender, cut

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.team import Team
    from tests.support.team_machines import TeamMachine


def forgets(machine: TeamMachine, *uids: str) -> None:
    assert uploading.forget(machine.remote, SyncNotes.read(machine.notes), uids) == [*uids]


def removes(machine: TeamMachine, uid: str) -> None:
    machine.store.remove(machine.store.session(uid))


@pytest.fixture
def pair(machine: Callable[..., TeamMachine], team: Team) -> tuple[TeamMachine, TeamMachine]:
    """Two machines, of which the second pulled two sessions of the first."""
    team.clock.ms = LATER
    laptop, desk = machine("laptop"), machine("desk")
    for name in ("aaaaaaaa", "bbbbbbbb"):
        laptop.works(name, "first")
    laptop.sync()
    assert desk.came() == {"new": 2}
    return laptop, desk


@pytest.mark.parametrize("is_at_origin", [False, True])
def test_what_was_removed_goes_from_other_machines_with_their_next_pull(
    is_at_origin: bool, pair: tuple[TeamMachine, TeamMachine]
) -> None:
    laptop, desk = pair
    uid, other = sorted(laptop.store.uids())
    if is_at_origin:
        removes(laptop, uid)
        assert laptop.sync().erased == [uid]
        assert (laptop.sync().erased, laptop.store.uids()) == ([], [other])
    else:
        forgets(desk, uid)
        assert sorted(laptop.store.uids()) == [uid, other]
    assert [each.removed for each in desk.pulls()] == [1]
    assert desk.store.uids() == [other]
    assert [each.removed for each in desk.pulls()] == [0]
    laptop.works("aaaaaaaa", "second")
    laptop.works("bbbbbbbb", "second")
    laptop.sync()
    assert (desk.came(), desk.store.uids(), [*laptop.sent_lines()]) == ({"updated": 1}, [other], [other])


def test_what_was_used_since_it_was_removed_stays(pair: tuple[TeamMachine, TeamMachine], team: Team) -> None:
    laptop, desk = pair
    uid = laptop.store.uids()[0]
    team.clock.ms = (desk.store.turns(desk.store.session(uid))[0].started or 0) - 1
    forgets(laptop, uid)
    assert [each.removed for each in desk.pulls()] == [0]
    assert uid in desk.store.uids()


def test_a_pull_asks_about_removals_only_when_there_are_more(pair: tuple[TeamMachine, TeamMachine]) -> None:
    laptop, desk = pair
    laptop.works("aaaaaaaa", "second")
    laptop.sync()
    desk.remote.requests = 0
    assert (desk.came(), desk.remote.requests) == ({"updated": 1}, 3)
    forgets(laptop, laptop.store.uids()[0])
    desk.remote.requests = 0
    assert ([each.removed for each in desk.pulls()], desk.remote.requests) == ([1], 3)
    desk.remote.requests = 0
    assert (desk.came(), desk.remote.requests) == ({}, 1)


def test_of_a_copy_that_is_removed_the_original_stays(machine: Callable[..., TeamMachine]) -> None:
    laptop, desk = machine("laptop"), machine("desk")
    laptop.works("aaaaaaaa", "first")
    (uid,) = laptop.store.uids()
    laptop.sync()
    desk.pull(laptop)
    assert desk.sync().sent == [uid]
    removes(desk, uid)
    assert desk.sync().erased == [uid]
    assert (desk.sender.state(uid)["chain"], laptop.sender.state(uid)["events"]) == ("", 2)
    laptop.works("aaaaaaaa", "second")
    assert (laptop.sync().sent, laptop.sender.state(uid)["events"], desk.sync().sent) == ([uid], 4, [])


def test_what_was_removed_is_erased_though_the_notes_are_lost(pair: tuple[TeamMachine, TeamMachine]) -> None:
    laptop, _ = pair
    uid, other = sorted(laptop.store.uids())
    removes(laptop, uid)
    laptop.notes.unlink()
    assert laptop.sync().erased == [uid]
    assert [*laptop.sent_lines()] == [other]
    laptop.remote.requests = 0
    assert (laptop.sync().erased, laptop.remote.requests) == ([], 1)


def test_what_was_removed_before_it_was_sent_is_sent_once_it_is_here_again(machine: Callable[..., TeamMachine]) -> None:
    laptop = machine("laptop")
    laptop.works("aaaaaaaa", "first")
    (uid,) = laptop.store.uids()
    removes(laptop, uid)
    assert laptop.sync().sent == []
    assert removed.erasing(SyncNotes.read(laptop.notes), [uid]) == []
    laptop.store.change(lambda db: db.execute("delete from forgotten"))
    laptop.works("aaaaaaaa", "second")
    (again,) = laptop.store.uids()
    assert laptop.sync().sent == [again]


def test_what_is_taken_out_before_it_was_sent_is_not_sent(machine: Callable[..., TeamMachine]) -> None:
    laptop = machine("laptop")
    laptop.works("aaaaaaaa", "first")
    (uid,) = laptop.store.uids()
    assert uploading.forget(laptop.remote, SyncNotes.read(laptop.notes), [uid]) == []
    done = laptop.sync()
    assert (done.sent, done.forgotten, [*laptop.sent_lines()]) == ([], [uid], [])


def test_one_that_the_server_does_not_erase_stops_no_other(
    pair: tuple[TeamMachine, TeamMachine], monkeypatch: pytest.MonkeyPatch
) -> None:
    laptop, _ = pair
    uid, other = sorted(laptop.store.uids())
    removes(laptop, uid)
    removes(laptop, other)
    laptop.works("cccccccc", "first")
    ask = laptop.remote.ask

    def refuses(method: str, path: str, *args: Any, **words: Any) -> Any:
        if method == "DELETE" and path.endswith(uid):
            raise LoginRefused("http://x", 403, "not_allowed", "not for this repository")
        return ask(method, path, *args, **words)

    monkeypatch.setattr(laptop.remote, "ask", refuses)
    done = laptop.sync()
    assert (done.erased, [each.session for each in done.failed], len(done.sent)) == ([other], [uid], 1)
    monkeypatch.undo()
    assert laptop.sync().erased == [uid]


def restored(machine: TeamMachine, taken_out: str) -> None:
    """Have a machine find its server as it was before the machine took a session out of it."""
    SyncNotes.read(machine.notes).add(SyncNote(uid=taken_out, sent=removed.forgotten()), SyncNote(state="earlier"))


def test_what_another_machine_sent_is_taken_out_again_of_a_server_that_was_restored(
    pair: tuple[TeamMachine, TeamMachine],
) -> None:
    laptop, desk = pair
    uid, other = laptop.store.uids()
    desk.sync()
    restored(desk, uid)
    desk.sync()
    assert [*laptop.sent_lines()] == [other]
    assert removed.erasing(SyncNotes.read(desk.notes), [uid]) == []


def test_a_login_that_may_not_erase_sends_to_a_server_that_was_restored(
    pair: tuple[TeamMachine, TeamMachine], monkeypatch: pytest.MonkeyPatch
) -> None:
    laptop, _ = pair
    laptop.works("cccccccc", "first")
    ask = laptop.remote.ask

    def refuses(method: str, path: str, *args: Any, **words: Any) -> Any:
        if method == "DELETE":
            raise LoginRefused("http://x", 403, "not_allowed", "not for this token")
        return ask(method, path, *args, **words)

    monkeypatch.setattr(laptop.remote, "ask", refuses)
    restored(laptop, laptop.store.uids()[0])
    assert len(laptop.sync().sent) == 1


def test_what_was_never_sent_is_asked_about_once(pair: tuple[TeamMachine, TeamMachine]) -> None:
    _, desk = pair
    removes(desk, desk.store.uids()[0])
    assert desk.sync().erased == []
    desk.remote.requests = 0
    assert (desk.sync().erased, desk.remote.requests) == ([], 1)


def test_an_erasing_whose_answer_was_lost_is_done_again(pair: tuple[TeamMachine, TeamMachine]) -> None:
    laptop, _ = pair
    uid = laptop.store.uids()[0]
    removes(laptop, uid)
    before = laptop.notes.read_bytes()
    assert laptop.sync().erased == [uid]
    laptop.notes.write_bytes(before)
    assert laptop.sync().erased == [uid]
    assert removed.erasing(SyncNotes.read(laptop.notes), [uid]) == []


def test_nobody_learns_of_removals_of_another_person(team: Team) -> None:
    anna = team.founded()
    ben = team.joined(anna, "ben")
    Sender(team, anna).send(*cut([["a"]]))
    _, found = Sender(team, anna).forget()
    _, removals = team.ask("POST", "/v1/removals", anna.token, {"uids": [OTHER, UID]})
    assert [each["uid"] for each in removals["removed"]] == [UID]
    assert team.ask("POST", "/v1/removals", ben.token, {"uids": [UID]}) == (200, {"removed": []})
    for token, mark in ((ben.token, found["removal"]), (anna.token, "x"), (anna.token, "00" * 32)):
        assert team.ask("GET", f"/v1/removals/{mark}", token)[0] == 404


def test_a_removal_says_what_is_left_and_what_of_backups(team: Team) -> None:
    anna = team.founded()
    sender = Sender(team, anna)
    sender.send(*cut([["a"]]), *cut([["b"]], uid=OTHER))
    _, found = sender.forget()
    path = f"/v1/removals/{found['removal']}"
    _, said = team.ask("GET", path, anna.token)
    assert (set(said["left"].values()), {"frame", "session"} <= {*said["left"]}) == ({0}, True)
    assert "as long as they are kept" in said["backups"]
    with team.database.of(sender.tenant) as rows:
        rows.execute("update frame set session = %s where session = %s", (UID, OTHER))
    assert team.ask("GET", path, anna.token)[1]["left"]["frame"] == 1


def test_too_many_are_not_asked_about_at_once(team: Team) -> None:
    assert team.ask("POST", "/v1/removals", team.founded().token, {"uids": [UID] * 1_001})[0] == 400
