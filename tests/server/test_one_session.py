"""One session on the server: as `show` has it, from files that are bounded, erased with it, and nobody else's."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec
import psycopg
import pytest

from backstory.server import kept_sessions, one_session
from backstory.server.kept_sessions import LAST_EVENTS, KeptSessions
from backstory.workspace.history import entries
from backstory.workspace.history import transcript as transcripts
from backstory.workspace.opening import open_workspace
from tests.support.clock import NOW
from tests.support.machines import SMALL, Machine
from tests.support.senders import DESK, LAPTOP, OTHER, UID, Sender, cut, frames_of_store

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.team import Team


@pytest.fixture
def sender(team: Team) -> Sender:
    return Sender(team, team.founded())


def ask(sender: Sender, path: str, status: int = 200) -> Any:
    found, answer = sender.team.ask("GET", path, sender.token)
    assert found == status, answer
    return answer


def texts(sender: Sender, query: str = "", uid: str = UID) -> list[str]:
    return [each["text"] for each in ask(sender, f"/v1/sessions/{uid}/entries?{query}")["events"]]


def kept(sender: Sender) -> list[Path]:
    """The files that are kept of an organisation."""
    folder = sender.team.folder / "kept" / f"{sender.tenant:x}"
    return sorted(folder.rglob("*")) if folder.exists() else []


def long(count: int, epoch: int = 1) -> list[bytes]:
    return cut([[f"entry {number}" for number in range(1, count + 1)]], epoch=epoch)


# what is answered -----------------------------------------------------------------------------------------------------


def test_sessions_are_shown_as_in_a_store(sender: Sender, tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    for each in SMALL:
        machine.put(each)
    machine.read()
    environ = {"BACKSTORY_HOME": str(tmp_path / "backstory"), "HOME": str(tmp_path)}
    with open_workspace(tmp_path, environ, store=str(machine.store_path), now=lambda: NOW) as workspace:
        workspace.believe(workspace.home_store)
        reader, seen = workspace.reader, 0
        for uid in machine.store.uids():
            sender.send(*frames_of_store(machine.store, machine.store.session(uid)))
            sender.team.derive(sender.who)
            located = workspace.resolve(uid)
            turns = json.loads(msgspec.json.encode([transcripts.as_json(each) for each in reader.turns(located)]))
            there = ask(sender, f"/v1/sessions/{uid}")
            # A helper's turns cost nothing where its caller's log says what both cost.
            costs = ("cost_usd", "cost_kind", "low_usd", "high_usd") if located.session.parent_uid else ()
            assert [untold(each, *costs) for each in there["turns"]] == [untold(each, *costs) for each in turns]
            for form in ("compact", "full"):
                found = ask(sender, f"/v1/sessions/{uid}/entries?limit=500&full={str(form == 'full').lower()}")[
                    "events"
                ]
                here = [entries.event_as_json(each) for each in reader.events(located, form=form)]
                assert found == json.loads(msgspec.json.encode(here))
                seen += len(found)
    machine.close()
    assert seen > 100


def untold(turn: dict[str, Any], *names: str) -> dict[str, Any]:
    """A turn without what other sessions tell of it."""
    return {name: value for name, value in turn.items() if name not in ("shown_in", *names)}


def test_a_helper_is_named_by_the_session_that_called_it(sender: Sender, tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    for each in ("claude/with-a-helper", "claude/helper"):
        machine.put(each)
    machine.read()
    for uid in machine.store.uids():
        sender.send(*frames_of_store(machine.store, machine.store.session(uid)))
    sender.team.derive(sender.who)
    helper = next(each for each in map(machine.store.session, machine.store.uids()) if each.parent_uid)
    machine.close()
    (child,) = ask(sender, f"/v1/sessions/{helper.parent_uid}")["session"]["children"]
    assert (child["uid"], child["relation"], child["turn_count"]) == (helper.uid, "subagent", helper.turns)
    assert ask(sender, f"/v1/sessions/{helper.uid}")["session"]["parent_uid"] == helper.parent_uid


# pages ----------------------------------------------------------------------------------------------------------------


def test_entries_come_from_the_end_in_pages_up_to_the_beginning(sender: Sender) -> None:
    sender.send(*long(7))
    page = ask(sender, f"/v1/sessions/{UID}/entries?limit=3")
    found = [each["text"] for each in page["events"]]
    while page["has_earlier"]:
        page = ask(sender, f"/v1/sessions/{UID}/entries?limit=3&before={page['start']}")
        found = [each["text"] for each in page["events"]] + found
    assert found == [f"entry {number}" for number in range(1, 8)]


def test_of_a_long_session_the_last_entries_come_first_and_are_those_of_the_whole(sender: Sender) -> None:
    sender.send(*long(kept_sessions.WHOLE_EVENTS + 10))
    first = ask(sender, f"/v1/sessions/{UID}/entries?limit=20")
    assert (first["has_earlier"], [each.suffix for each in kept(sender)]) == (True, [".last"])
    before = ask(sender, f"/v1/sessions/{UID}/entries?limit=2&before={first['start']}")
    assert [each["text"] for each in before["events"]] == ["entry 1989", "entry 1990"]
    assert sorted(each.suffix for each in kept(sender)) == [".db", ".last"]
    assert ask(sender, f"/v1/sessions/{UID}/entries?limit=20") == first


def test_the_head_of_a_long_session_counts_all_of_it(sender: Sender) -> None:
    sender.send(*long(kept_sessions.WHOLE_EVENTS + 10))
    head = ask(sender, f"/v1/sessions/{UID}")
    assert (head["session"]["event_count"], head["is_whole"], len(head["turns"])) == (2_010, False, 1)
    ask(sender, f"/v1/sessions/{UID}/entries?limit={LAST_EVENTS}&before=2.0")
    assert ask(sender, f"/v1/sessions/{UID}")["is_whole"] is True


@pytest.mark.parametrize("query", ["before=x", "before=1", "limit=x", "full=maybe", "more=1"])
def test_a_page_that_is_none_is_refused(query: str, sender: Sender) -> None:
    sender.send(*cut([["a"]]))
    assert ask(sender, f"/v1/sessions/{UID}/entries?{query}", 400)["error"]["kind"] == "request_wrong"


def test_what_went_on_is_there_at_once(sender: Sender) -> None:
    first, second = cut([["a"], ["b"]])
    sender.send(first)
    assert texts(sender) == ["a"]
    sender.send(second)
    assert texts(sender) == ["a", "b"]


def test_copies_of_people_and_machines_are_named_and_each_can_be_read(team: Team, sender: Sender) -> None:
    ben = Sender(team, team.joined(sender.who, "ben"))
    desk = Sender(team, sender.who, DESK)
    sender.send(*cut([["a"]]))
    desk.send(*cut([["a"], ["b"]]))
    ben.send(*cut([["x"]]))
    copies = [(each["person"], each["machine"]) for each in ask(ben, f"/v1/sessions/{UID}")["copies"]]
    assert copies == [("ben", LAPTOP), ("anna", DESK), ("anna", LAPTOP)]
    assert [texts(ben), texts(ben, "person=anna"), texts(ben, f"person=anna&machine={LAPTOP}")] == [
        ["x"], ["a", "b"], ["a"],
    ]  # fmt: skip


# whose it is ----------------------------------------------------------------------------------------------------------


def test_what_is_not_there_and_what_is_anothers_have_one_answer_by_the_same_work(
    team: Team, sender: Sender, monkeypatch: pytest.MonkeyPatch
) -> None:
    eve = Sender(team, team.founded("eve"))
    sender.send(*cut([["a"]]))
    texts(sender)
    scoped = Sender(team, team.joined(sender.who, "ben"))
    with team.database.of(sender.tenant) as rows:
        rows.execute(
            "update token set repositories = '{x}' where tenant = %s and person = (select id from person"
            " where tenant = %s and name = 'ben')", (sender.tenant, sender.tenant),
        )  # fmt: skip
    for path in ("/v1/sessions/{}", "/v1/sessions/{}/entries"):
        nothing = team.ask("GET", path.format(OTHER), eve.token)
        assert nothing[0] == 404
        for who in (eve, scoped):
            assert [team.ask("GET", path.format(uid), who.token) for uid in (UID, OTHER)] == [nothing, nothing]
            work = list[list[bytes]]()
            for uid in (UID, OTHER):
                statements = list[bytes]()
                with monkeypatch.context() as patched:
                    patched.setattr(psycopg.Cursor, "execute", noting(statements))
                    team.ask("GET", path.format(uid), who.token)
                work.append(statements)
            assert work[0] == work[1]
            assert len(work[0]) > 3
    assert kept(eve) == []


def noting(statements: list[bytes]) -> Any:
    """The method that sends a statement, which is noted."""
    really: Any = psycopg.Cursor.execute

    def execute(self: Any, query: Any, *values: Any, **more: Any) -> Any:
        statements.append(query if isinstance(query, bytes) else str(query).encode())
        return really(self, query, *values, **more)

    return execute


# files ----------------------------------------------------------------------------------------------------------------


def test_what_is_kept_is_for_the_server_alone_and_names_nothing(sender: Sender) -> None:
    sender.send(*cut([["a"]]))
    texts(sender)
    (file,) = kept(sender)
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert UID not in str(file)


def test_what_is_kept_is_used_again(sender: Sender, monkeypatch: pytest.MonkeyPatch) -> None:
    sender.send(*cut([["a"]]))
    texts(sender)
    monkeypatch.setattr(one_session, "build", None)
    assert texts(sender) == ["a"]


@pytest.mark.parametrize("broken", [b"", b"no store", None])
def test_a_broken_file_is_made_anew(broken: bytes | None, sender: Sender) -> None:
    sender.send(*cut([["a"]]))
    texts(sender)
    (file,) = kept(sender)
    file.write_bytes(file.read_bytes()[:5000] if broken is None else broken)
    assert texts(sender) == ["a"]


def test_a_removed_session_leaves_no_file(sender: Sender) -> None:
    sender.send(*cut([["a"]]), *cut([["b"]], uid=OTHER))
    texts(sender)
    texts(sender, uid=OTHER)
    sender.forget()
    assert len(kept(sender)) == 1
    assert ask(sender, f"/v1/sessions/{UID}/entries", 404)["error"]["kind"] == "session_unknown"
    assert texts(sender, uid=OTHER) == ["b"]


def test_what_was_sent_anew_replaces_the_file(sender: Sender) -> None:
    sender.send(*cut([["a secret"]]))
    texts(sender)
    sender.send(*cut([["masked"]], epoch=2))
    assert kept(sender) == []
    assert texts(sender) == ["masked"]


@pytest.mark.parametrize("path", ["/v1/sessions", f"/v1/machines/{LAPTOP}", "/v1/me", "/v1/people/ben"])
def test_who_takes_everything_out_leaves_no_file(path: str, team: Team, sender: Sender) -> None:
    ben = Sender(team, team.joined(sender.who, "ben"))
    ben.send(*cut([["a"]]))
    texts(ben)
    assert len(kept(ben)) == 1
    assert team.ask("DELETE", path, sender.token if path.startswith("/v1/people") else ben.token)[0] == 200
    assert kept(ben) == []


def test_a_session_that_is_removed_while_its_file_is_made_leaves_none(
    sender: Sender, monkeypatch: pytest.MonkeyPatch
) -> None:
    really = one_session.build

    def slow(*given: Any) -> None:
        assert sender.forget()[0] == 200
        really(*given)

    monkeypatch.setattr(one_session, "build", slow)
    sender.send(*cut([["a"]]))
    assert ask(sender, f"/v1/sessions/{UID}/entries", 404)["error"]["kind"] == "session_unknown"
    assert kept(sender) == []


def test_a_file_that_is_being_made_stays_when_the_session_goes_on(sender: Sender) -> None:
    sender.send(*cut([["a"]]))
    ask(sender, f"/v1/sessions/{UID}/entries")
    (file,) = kept(sender)
    part = file.with_name(f"{file.name}.1.part")
    part.touch()
    sender.send(*cut([["a"], ["b"]]))
    assert kept(sender) == [part]
    part.unlink()


def test_what_is_kept_of_an_organisation_is_bounded_and_what_was_read_last_stays(sender: Sender) -> None:
    few = KeptSessions(sender.team.database, sender.team.folder / "kept", 1_000_000, sender.team.now)
    uids = [f"01M3250V00CJ5X1JHP0Z69AW{letter}Q" for letter in "ABCDEF"]
    for uid in uids:
        sender.send(*cut([["a"]], uid=uid))
    for uid in uids:
        texts(sender, uid=uid)
        size = kept(sender)[0].stat().st_size
    assert len(kept(sender)) == len(uids)
    few._most = 3 * size
    few._shrink(sender.tenant, kept(sender)[0])
    assert len(kept(sender)) == 3


def test_a_start_erases_what_an_earlier_server_kept(sender: Sender) -> None:
    sender.send(*cut([["a"]]))
    texts(sender)
    KeptSessions(sender.team.database, sender.team.folder / "kept").begin()
    assert kept(sender) == []
