"""A session on the server, looked at while it goes on: each entry once and in order, read once for all who look."""

from __future__ import annotations

import json
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from backstory.server import live_runs, live_view
from backstory.server.database import TeamDatabase
from backstory.server.live_runs import LiveRuns
from backstory.web.live import DROPPED
from tests.support.going import until
from tests.support.live_senders import APP, LiveSender
from tests.support.senders import DESK, LAPTOP, OTHER, UID, Sender, cut
from tests.support.streamed import StreamedByTeam

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backstory.server.people import LetIn
    from tests.support.team import Team


@pytest.fixture(autouse=True)
def _looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_view, "LOOK_S", 0.02)
    monkeypatch.setattr("backstory.web.live.IDLE_WAIT_S", 0.05)


class Views:
    """Streams of a server, which end with the test."""

    def __init__(self, address: str) -> None:
        self.address, self._all = address, list[StreamedByTeam]()

    def __call__(self, who: LetIn | str, uid: str = UID, last: str = "") -> StreamedByTeam:
        token = who if isinstance(who, str) else who.token
        self._all.append(StreamedByTeam(self.address, token, uid, last))
        return self._all[-1]

    def close(self) -> None:
        for each in self._all:
            each.close()


@contextmanager
def views_of(team: Team) -> Iterator[Views]:
    with team.served() as address:
        found = Views(address)
        try:
            yield found
        finally:
            found.close()


@pytest.fixture
def views(team: Team) -> Iterator[Views]:
    with views_of(team) as found:
        yield found


def said(stream: StreamedByTeam) -> list[str]:
    """What stands on the page of what came, without the heads of turns."""
    return [each for each in stream.words if not each.startswith("turn ")]


# what a viewer sees ---------------------------------------------------------------------------------------------------


def test_what_a_run_says_comes_in_order_and_is_what_is_stored_then(team: Team, views: Views) -> None:
    anna = team.founded()
    going, ben = LiveSender(team, anna), team.joined(anna, "ben")
    going.begins("first")
    stream = views(ben)
    stream.until("first")
    going.tells("second", "third")
    stream.until("third")
    assert said(stream) == ["Where?", "first", "second", "third"]
    assert going.stores("first", "second", "third") == ["ok"]
    until(lambda: len(stream.of("base")) == 2)
    assert stream.of("base")[1].value == {"seq": 4, "turn": 1}
    assert (said(stream), going.rows()) == ([], {"live": 0, "live_run": 0})


def test_an_answer_that_is_written_comes_as_it_grows(team: Team, views: Views) -> None:
    anna = team.founded()
    going = LiveSender(team, anna)
    going.begins(writing="One line.\n")
    stream = views(anna)
    until(lambda: stream.of("writing"))
    going.tells(writing="One line.\nAnother.\n")
    until(lambda: stream.of("more"))
    assert [each.value["text"] for each in stream.of("more")] == ["Another.\n"]
    going.tells("One line.\nAnother.\nThe end.")
    until(lambda: stream.of("writing")[-1].value == {"text": ""})
    assert "The end." in stream.words[-1]


def test_a_session_that_grows_by_frames_is_not_made_anew_for_each(
    team: Team, views: Views, monkeypatch: pytest.MonkeyPatch
) -> None:
    anna = team.founded()
    sender, rounds = Sender(team, anna), [["a", "b"], ["c"], ["d"]]
    parts = cut(rounds)
    sender.send(parts[0])
    stream = views(anna)
    until(lambda: stream.of("base"))
    built = list[object]()
    monkeypatch.setattr("backstory.server.one_session.build", lambda *args: built.append(args))
    for part, word in zip(parts[1:], "cd", strict=True):
        sender.send(part)
        stream.until(word)
    entries = [(each.value["seq"], each.words) for each in stream.of("entry")]
    assert ([each for each in entries if each[0]], built) == ([(3, "@3 c Copy"), (4, "@4 d Copy")], [])


def test_what_is_told_again_after_a_lost_answer_comes_once(team: Team, views: Views) -> None:
    anna = team.founded()
    going = LiveSender(team, anna)
    going.begins("first")
    stream = views(anna)
    stream.until("first")
    before = going.next
    going.tells("second")
    going.next = before
    assert going.tells("second", "third")["next"] == before + 2
    stream.until("third")
    assert said(stream) == ["Where?", "first", "second", "third"]


def test_a_beginning_that_was_dropped_is_said(team: Team, views: Views) -> None:
    anna = team.founded()
    going = LiveSender(team, anna)
    going.begins("first")
    stream = views(anna)
    stream.until("first")
    going.next += 5
    going.tells("later")
    stream.until("later")
    assert ([each.value["text"] for each in stream.of("note")], said(stream)) == ([DROPPED], ["later"])
    with views_of(team) as afterwards:
        late = afterwards(anna)
        late.until("later")
        assert (said(late), len(late.of("note"))) == (["later"], 1)


def test_of_much_that_a_run_says_the_end_is_kept(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_runs, "RUN_BYTES_MAX", 1_000)
    going = LiveSender(team, team.founded())
    going.begins()
    for number in range(20):
        going.tells(f"{number:>100}")
    assert (going.rows()["live"], going.next) == (7, 22)


# a machine that is silent ---------------------------------------------------------------------------------------------


def test_a_machine_that_is_silent_is_said_to_be_and_what_it_wrote_is_not_shown_as_going_on(
    team: Team, views: Views
) -> None:
    anna = team.founded()
    going = LiveSender(team, anna)
    going.begins("first", writing="and\n")
    stream = views(anna)
    until(lambda: stream.of("writing"))
    team.clock.ms += 21_000
    until(lambda: stream.of("note"))
    (note,) = stream.of("note")
    assert note.value["text"].startswith("There is no news of this run since ")
    until(lambda: stream.of("writing")[-1].value == {"text": ""})
    going.tells("here")
    until(lambda: len(stream.of("note")) == 2)
    assert stream.of("note")[1].value["text"] == "There is news of this run again."


def test_a_run_that_was_killed_is_said_to_be(team: Team, views: Views) -> None:
    anna = team.founded()
    going = LiveSender(team, anna)
    going.begins("first")
    stream = views(anna)
    stream.until("first")
    going.tells(state="killed")
    until(lambda: stream.of("note"))
    assert [each.value["text"] for each in stream.of("note")] == [live_view.KILLED]


@pytest.mark.parametrize(("state", "minutes", "left"), [("running", 59, 1), ("running", 61, 0), ("over", 11, 0)])
def test_what_nobody_hears_of_any_more_is_erased(state: str, minutes: int, left: int, team: Team) -> None:
    going = LiveSender(team, team.founded())
    going.begins("first", state=state)
    team.clock.ms += int(timedelta(minutes=minutes).total_seconds() * 1_000)
    LiveRuns(team.database, team.now).erase_old()
    assert going.rows() == {"live": 2 * left, "live_run": left}


def test_a_session_that_goes_from_the_server_ends_its_views(team: Team, views: Views) -> None:
    anna = team.founded()
    going = LiveSender(team, anna)
    going.begins("first")
    stream = views(team.joined(anna, "ben"))
    stream.until("first")
    assert going.forget()[0] == 200
    until(lambda: stream.is_over)
    assert [each.value for each in stream.of("ended")] == [{"text": live_view.PUT_OUT}]
    assert going.tells("second") == {"next": None, "is_forgotten": True, "steering": []}
    assert going.rows() == {"live": 0, "live_run": 0}


def test_forgetting_all_bars_a_run_that_has_no_frame_yet(team: Team) -> None:
    going = LiveSender(team, team.founded())
    going.begins("first")
    assert team.ask("DELETE", "/v1/sessions", going.token) == (200, {"uids": [UID]})
    assert going.tells("second") == {"next": None, "is_forgotten": True, "steering": []}
    assert going.rows() == {"live": 0, "live_run": 0}


def test_runs_that_are_over_keep_none_from_being_told_and_the_oldest_of_them_go(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_runs, "RUNS_MAX", 3)
    going = LiveSender(team, team.founded())
    runs = [f"01M3250V00RRRRRRRRRRRRRR{n:02}" for n in range(8)]
    for each in runs[:5]:
        team.clock.ms += 1_000
        going.tells(each, run=each, first=1, state="over")
    assert going.rows() == {"live": 3, "live_run": 3}
    for each in runs[5:]:
        going.tells(each, run=each, first=1)
    assert going.tells("x", expects=409)["error"]["kind"] == "too_many"
    assert going.rows() == {"live": 6, "live_run": 6}


def test_the_end_of_a_run_that_comes_behind_its_frames_begins_none(team: Team) -> None:
    going = LiveSender(team, team.founded())
    going.begins("first")
    assert going.stores("first", "second") == ["ok"]
    assert going.tells("second", state="over")["next"] == 4
    going.tells(state="over")
    assert going.rows() == {"live": 0, "live_run": 0}


def test_what_a_machine_takes_back_goes_from_pages_before_anything_follows(team: Team, views: Views) -> None:
    anna = team.founded()
    going = LiveSender(team, anna)
    going.begins("first")
    stream = views(anna)
    stream.until("first")
    going.next += 1
    going.tells()
    until(lambda: stream.of("note"))
    assert (said(stream), [each.value["text"] for each in stream.of("note")]) == ([], [DROPPED])
    assert going.rows()["live"] == 0
    going.tells("second")
    stream.until("second")
    assert said(stream) == ["second"]


# who may look ---------------------------------------------------------------------------------------------------------


def limited(team: Team, who: LetIn, scopes: list[str], repositories: list[str] | None = None) -> str:
    body = {"name": "a program", "scopes": scopes, "repositories": repositories}
    status, found = team.ask("POST", "/v1/logins", who.token, body)
    assert status == 200, found
    return str(found["token"])


def test_who_may_not_see_a_session_is_told_what_is_told_of_none(team: Team) -> None:
    anna = team.founded()
    LiveSender(team, anna).begins("first")
    others = [
        team.founded("zoe").token, limited(team, anna, ["read"], ["github.com/me/other"]),
    ]  # fmt: skip
    answers = [team.ask("GET", f"/v1/sessions/{UID}/live", each) for each in others]
    assert answers == [team.ask("GET", f"/v1/sessions/{OTHER}/live", anna.token)] * 2
    assert answers[0][0] == 404
    assert team.ask("GET", f"/v1/sessions/{UID}/live", limited(team, anna, ["sync"]))[0] == 403
    assert team.ask("GET", f"/v1/sessions/{UID}/live?speed=9", anna.token)[0] == 400


def test_who_may_not_look_any_more_is_put_out_and_the_others_stay(team: Team, views: Views) -> None:
    anna = team.founded()
    going, ben, eve = LiveSender(team, anna), team.joined(anna, "ben"), team.joined(anna, "eve")
    going.begins("first")
    own, of_ben, of_eve = views(anna), views(ben), views(limited(team, eve, ["read"]))
    for each in (own, of_ben, of_eve):
        each.until("first")
    assert team.ask("DELETE", "/v1/people/ben", anna.token)[0] == 200
    assert team.ask("DELETE", "/v1/people/eve", anna.token)[0] == 200
    until(lambda: of_ben.is_over and of_eve.is_over)
    going.tells("after")
    own.until("after")
    assert not any("after" in each for other in (of_ben, of_eve) for each in other.words)


def test_a_token_of_another_repository_tells_of_no_run(team: Team) -> None:
    anna = team.founded()
    token = limited(team, anna, ["sync"], ["github.com/me/app"])
    going = LiveSender(team, anna)
    going.send(*cut([["a"]]))
    going.token = token
    assert going.tells("x", repository="github.com/me/other", expects=403)["error"]["kind"] == "not_allowed"
    going.tells("x")
    assert going.rows()["live_run"] == 1


@pytest.mark.parametrize("machine", [LAPTOP, DESK])
def test_a_token_of_another_repository_makes_no_run_one_of_its_own(machine: str, team: Team) -> None:
    anna = team.founded()
    going = LiveSender(team, anna)
    going.begins("first", repository="github.com/me/other")
    own, going.token, going.machine = going.token, limited(team, anna, ["sync", "read"], [APP]), machine
    assert going.tells("x", repository=APP, expects=403)["error"]["kind"] == "not_allowed"
    assert team.ask("GET", f"/v1/sessions/{UID}/live", going.token)[0] == 404
    going.token, going.machine = own, LAPTOP
    going.tells("x", repository=APP)
    with team.database.of(going.tenant) as rows:
        assert rows.execute("select repository from live_run").fetchall() == [("github.com/me/other",)]


def test_a_token_of_another_repository_tells_of_no_run_of_a_session_that_another_machine_sent(team: Team) -> None:
    anna = team.founded()
    going = LiveSender(team, anna)
    going.send(*cut([["a"]]))
    going.token, going.machine = limited(team, anna, ["sync"], ["github.com/me/other"]), DESK
    going.tells("x", repository="github.com/me/other", expects=403)
    assert going.rows()["live_run"] == 0


def test_a_token_that_only_reads_tells_of_no_run(team: Team) -> None:
    anna = team.founded()
    going = LiveSender(team, anna)
    going.token = limited(team, anna, ["read"])
    going.tells("x", expects=403)
    assert going.rows() == {"live": 0, "live_run": 0}


@pytest.mark.parametrize("events", [["x"], [{"AssistantText": 3}], [[]], [1]])
def test_what_is_no_event_is_refused(events: list[Any], team: Team) -> None:
    going = LiveSender(team, team.founded())
    going.tells(events=events, expects=400)
    assert going.rows() == {"live": 0, "live_run": 0}


# one reading ----------------------------------------------------------------------------------------------------------


def test_fifty_viewers_are_one_reading(team: Team, views: Views, monkeypatch: pytest.MonkeyPatch) -> None:
    anna = team.founded()
    going = LiveSender(team, anna)
    going.begins("first")
    looks, asked = list[int](), list[str]()
    own_look, own_of = live_view.LiveViews.look, TeamDatabase.of

    def look(self: live_view.LiveViews, *args: Any) -> Any:
        looks.append(1)
        return own_look(self, *args)

    @contextmanager
    def of(self: TeamDatabase, tenant: int) -> Iterator[Any]:
        with own_of(self, tenant) as rows:
            asked.append("transaction")
            yield rows

    alone = views(anna)
    alone.until("first")
    monkeypatch.setattr(live_view.LiveViews, "look", look)
    many = [views(anna) for _ in range(49)]
    for each in many:
        each.until("first")
    monkeypatch.setattr(TeamDatabase, "of", of)
    looks.clear()
    asked.clear()
    until(lambda: len(looks) >= 20)
    # Each look is one transaction, whoever looks; another may be under way.
    assert len(asked) <= len(looks) + 1
    going.tells("second")
    for each in [alone, *many]:
        each.until("second")
    assert all(said(each) == ["Where?", "first", "second"] for each in [alone, *many])


def test_nobody_takes_the_places_of_another_organisation(
    team: Team, views: Views, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("backstory.web.live.FOLLOWED_MOST", 1)
    anna, eve = team.founded(), team.founded("eve")
    LiveSender(team, anna).begins("first")
    LiveSender(team, eve).begins("hers")
    LiveSender(team, eve).tells("another of hers", uid=OTHER, run=DESK)
    views(eve).until("hers")
    address = f"{views.address}/v1/sessions/{OTHER}/live"
    assert httpx.get(address, headers={"Authorization": f"Bearer {eve.token}"}).status_code == 503
    views(anna).until("first")


def test_a_server_that_is_begun_anew_in_mid_view_shows_it_all_once(team: Team) -> None:
    anna = team.founded()
    going = LiveSender(team, anna)
    going.begins("first")
    with team.served() as address:
        stream = StreamedByTeam(address, anna.token, UID)
        stream.until("first")
        place = stream.place
    until(lambda: stream.is_over)
    stream.close()
    assert [each.kind for each in stream.events][-1] == "ended"
    going.tells("second")
    with views_of(team) as views:
        again = views(anna, last=place)
        again.until("second")
        assert said(again) == ["Where?", "first", "second"]
        assert json.dumps(again.of("base")[0].value) == '{"seq": 0, "turn": 0}'


def test_another_machine_of_a_person_tells_of_its_own_runs(team: Team) -> None:
    anna = team.founded()
    going = LiveSender(team, anna)
    going.begins("first")
    going.machine, going.next = DESK, 1
    going.begins("there")
    assert going.rows() == {"live": 4, "live_run": 2}
