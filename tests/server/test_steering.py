"""A message for a run of one's own, from another machine: taken once, if the machine lets it, and else refused."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from backstory.model import UserMessage
from backstory.server.live_runs import TOO_LATE, LiveRuns
from backstory.server.people import SCOPES, TeamRole
from backstory.server.steering import ENDED, NOT_RUNNING
from backstory.workspace.runs import steered
from backstory.workspace.runs.steered import NOT_ALLOWED, UNSURE
from tests.support.going import GOOD, Going, until
from tests.support.live_senders import RUN, LiveSender
from tests.support.senders import DESK, OTHER, UID, cut
from tests.support.streamed import StreamedByTeam
from tests.support.team_pages import TeamVisitor
from tests.support.telling_machines import TellingMachine

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from backstory.server.people import LetIn
    from tests.support.team import Team

ID, TEXT = "message-1", "Look at the otter, too."
NEXT_RUN = "01M3250V00RRRRRRRRRRRRRRR2"
PATH = f"/v1/sessions/{UID}/steer"


def token(team: Team, who: LetIn, *scopes: str, repositories: list[str] | None = None) -> str:
    body = {"name": "a program", "scopes": scopes, "repositories": repositories}
    status, found = team.ask("POST", "/v1/logins", who.token, body)
    assert status == 200, found
    return str(found["token"])


def steer(team: Team, with_token: str, uid: str = UID, **fields: object) -> tuple[int, Any]:
    """The status, and how far the message is, or the kind of the refusal."""
    status, found = team.ask("POST", f"/v1/sessions/{uid}/steer", with_token, {"id": ID, "text": TEXT} | fields)
    return status, found["state"] if status == 200 else found["error"]["kind"]


def kept(going: LiveSender) -> list[tuple[Any, ...]]:
    with going.team.database.of(going.tenant) as rows:
        return rows.execute("select id, text, state, reason from steering order by at, id").fetchall()


@pytest.fixture
def going(team: Team) -> LiveSender:
    """A run of Anna's whose machine takes messages."""
    found = LiveSender(team, team.founded())
    found.begins("first", takes=True)
    return found


# the server -----------------------------------------------------------------------------------------------------------


def test_a_message_waits_for_the_machine_and_is_forgotten_when_it_was_taken(going: LiveSender, team: Team) -> None:
    assert steer(team, token(team, going.who, "steer")) == (200, "waiting")
    assert going.tells(takes=True)["steering"] == [{"id": ID, "text": TEXT}]
    # The answer was lost.
    assert going.tells(takes=True)["steering"] == [{"id": ID, "text": TEXT}]
    assert going.tells(takes=True, steered=[{"id": ID, "state": "taken"}])["steering"] == []
    assert kept(going) == [(ID, "", "taken", "")]


def test_the_same_message_sent_again_is_there_once(going: LiveSender, team: Team) -> None:
    own = token(team, going.who, "steer")
    assert [steer(team, own) for _ in range(2)] == [(200, "waiting")] * 2
    going.tells(takes=True, steered=[{"id": ID, "state": "taken"}])
    assert (steer(team, own), len(kept(going))) == ((200, "taken"), 1)


@pytest.mark.parametrize("scopes", [("read",), ("search",), ("sync",), ("read", "search", "sync")])
def test_a_token_without_the_right_steers_nothing(scopes: tuple[str, ...], going: LiveSender, team: Team) -> None:
    assert steer(team, token(team, going.who, *scopes)) == (403, "not_allowed")
    assert kept(going) == []


def test_a_machines_own_login_steers_nothing_and_makes_a_token_that_does(going: LiveSender, team: Team) -> None:
    assert steer(team, going.token) == (403, "not_allowed")
    assert "steer" not in SCOPES[TeamRole.ADMIN]
    own = token(team, going.who, "steer")
    status, found = team.ask("POST", "/v1/logins", own, {"name": "x", "scopes": ["steer"]})
    assert (status, found["error"]["kind"]) == (403, "not_allowed")


def test_who_only_reads_may_not_steer(going: LiveSender, team: Team) -> None:
    ben = team.joined(going.who, "ben", "reader")
    body = {"name": "x", "scopes": ["steer"]}
    assert team.ask("POST", "/v1/logins", ben.token, body)[0] == 403
    eve = team.joined(going.who, "eve")
    own = token(team, eve, "steer")
    assert team.ask("PATCH", "/v1/people/eve", going.token, {"role": "reader"})[0] == 200
    assert steer(team, own) == (403, "not_allowed")


def test_a_session_of_anybody_else_is_as_none(going: LiveSender, team: Team) -> None:
    others = [
        token(team, team.joined(going.who, "ben"), "read", "steer"), token(team, team.founded("zoe"), "steer"),
        token(team, going.who, "steer", repositories=["github.com/me/other"]),
    ]  # fmt: skip
    for each in others:
        assert team.ask("POST", PATH, each, {"id": ID, "text": TEXT}) == team.ask(
            "POST", f"/v1/sessions/{OTHER}/steer", each, {"id": ID, "text": TEXT}
        )
        assert steer(team, each) == (404, "session_unknown")
    assert kept(going) == []


def test_a_session_that_does_not_run_takes_none(team: Team) -> None:
    going = LiveSender(team, team.founded())
    own = token(team, going.who, "steer")
    going.send(*cut([["a"]]))
    assert steer(team, own) == (409, "not_running")
    going.begins("first", takes=True)
    team.clock.ms += 21_000
    assert steer(team, own) == (409, "not_running")
    going.tells(takes=True)
    assert steer(team, own) == (200, "waiting")
    going.tells(state="over")
    assert kept(going) == [(ID, "", "refused", ENDED)]
    assert steer(team, own, id="message-2") == (409, "not_running")


def test_a_machine_that_takes_none_is_named_with_its_setting(team: Team) -> None:
    going = LiveSender(team, team.founded())
    going.begins("first")
    status, found = team.ask("POST", PATH, token(team, going.who, "steer"), {"id": ID, "text": TEXT})
    assert (status, "backstory config set sync.steer true" in found["error"]["message"]) == (409, True)
    assert kept(going) == []


def test_what_no_machine_takes_in_ten_minutes_is_refused_and_forgotten(going: LiveSender, team: Team) -> None:
    steer(team, token(team, going.who, "steer"))
    team.clock.ms += 601_000
    # Also where no machine says anything any more.
    LiveRuns(team.database, team.now).erase_old()
    assert kept(going) == [(ID, "", "refused", TOO_LATE)]
    assert going.tells(takes=True)["steering"] == []
    team.clock.ms += 3_600_000
    LiveRuns(team.database, team.now).erase_old()
    assert kept(going) == []


@pytest.mark.parametrize(
    "fields", [{"text": " "}, {"text": "a\0"}, {"text": ""}, {"id": "x"}, {"id": "a b c d e"}, {"more": 1}]
)
def test_a_message_that_is_none_is_refused(fields: dict[str, Any], going: LiveSender, team: Team) -> None:
    assert steer(team, token(team, going.who, "steer"), **fields) == (400, "request_wrong")


def test_the_audit_says_that_somebody_steered_and_not_how(going: LiveSender, team: Team) -> None:
    steer(team, token(team, going.who, "steer"))
    with team.database.of(going.tenant) as rows:
        lines = rows.execute("select action, object from audit order by number").fetchall()
    assert lines[-1][0] == "steer"
    assert not any(each in str(lines) for each in (TEXT, ID, UID))


def test_a_message_is_for_the_run_that_its_sender_saw(going: LiveSender, team: Team) -> None:
    own = token(team, going.who, "steer")
    assert steer(team, own, machine=going.machine, run=RUN) == (200, "waiting")
    assert going.tells(takes=True, run=NEXT_RUN, first=1)["steering"] == []
    going.tells(state="over", run=RUN)
    assert kept(going) == [(ID, "", "refused", ENDED)]
    assert steer(team, own, id="message-2", machine=going.machine, run=RUN) == (409, "not_running")
    assert steer(team, own, id="message-3", machine=DESK, run=NEXT_RUN) == (409, "not_running")
    assert steer(team, own, id="message-4", machine=going.machine, run=NEXT_RUN) == (200, "waiting")


def test_the_end_of_one_run_refuses_no_message_for_the_next(going: LiveSender, team: Team) -> None:
    going.tells(takes=True, run=NEXT_RUN, first=1)
    assert steer(team, token(team, going.who, "steer"), run=NEXT_RUN) == (200, "waiting")
    going.tells(state="over")
    assert going.tells(takes=True, run=NEXT_RUN, first=1)["steering"] == [{"id": ID, "text": TEXT}]


def test_a_message_that_was_taken_is_not_told_as_refused_when_its_word_comes_late(
    going: LiveSender, team: Team
) -> None:
    own = token(team, going.who, "steer")
    steer(team, own)
    assert going.tells(takes=True)["steering"] == [{"id": ID, "text": TEXT}]
    team.clock.ms += 601_000
    assert going.tells(takes=True, steered=[{"id": ID, "state": "taken"}])["steering"] == []
    assert (kept(going), steer(team, own)) == ([(ID, "", "taken", "")], (200, "taken"))


def test_a_token_of_another_repository_takes_no_message(going: LiveSender, team: Team) -> None:
    assert steer(team, token(team, going.who, "steer")) == (200, "waiting")
    going.token = token(team, going.who, "sync", repositories=["github.com/me/other"])
    for machine in (going.machine, DESK):
        going.machine = machine
        for run in (RUN, NEXT_RUN):
            going.tells(takes=True, run=run, repository="github.com/me/other", first=1, expects=403)
    assert kept(going) == [(ID, TEXT, "waiting", "")]


def test_colleagues_are_told_of_no_message(going: LiveSender, team: Team) -> None:
    with team.served() as address:
        own, of_ben = (
            StreamedByTeam(address, each, UID) for each in (going.token, team.joined(going.who, "ben").token)
        )
        for stream in (own, of_ben):
            stream.until("first")
        steer(team, token(team, going.who, "steer"))
        until(lambda: own.of("steering"))
        going.tells("second", takes=True)
        for stream in (own, of_ben):
            stream.until("second")
        assert of_ben.of("steering") == []
        for stream in (own, of_ben):
            stream.close()


# the machine ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def machine(tmp_path: Path, team: Team) -> Iterator[TellingMachine]:
    made = TellingMachine(tmp_path, team)
    made.takes = True
    yield made
    made.teller.close()


class Steered:
    """A run on a machine, which is steered from elsewhere."""

    def __init__(self, machine: TellingMachine) -> None:
        self.machine, self.team = machine, machine.sender.team
        machine.tells()
        self.uid = machine.line.parts[0]["uid"]
        self.token = token(self.team, machine.sender.who, "steer")

    def says(self) -> None:
        assert steer(self.team, self.token, self.uid) == (200, "waiting")

    def words(self) -> list[tuple[str, str]]:
        """What the machine said of messages."""
        return [(each["state"], each["reason"]) for part in self.machine.line.parts for each in part["steered"]]

    def heard(self) -> list[str]:
        path = self.machine.bench.received.with_suffix(".heard")
        return [json.loads(each) for each in path.read_text().splitlines()] if path.exists() else []


def test_a_message_from_elsewhere_arrives_in_the_agent(machine: TellingMachine) -> None:
    with Going(machine.bench, {"listens": True}, then=({"hear": 1}, GOOD)) as going:
        run = Steered(machine)
        run.says()
        machine.tells(3)
        going.go.touch()
        assert going.process.wait() == 0
        machine.tells(3)
    assert (run.heard(), run.words()) == ([TEXT], [("taken", "")])


def test_after_lost_answers_and_a_new_start_it_is_handed_over_once(machine: TellingMachine) -> None:
    with Going(machine.bench, {"listens": True}, then=({"hear": 1}, GOOD)) as going:
        run = Steered(machine)
        run.says()
        machine.tells(3)
        machine.line.lost = [True, True]
        machine.tells(10)
        machine.tells(10)
        machine.teller.close()
        machine.teller = machine.new_teller()
        machine.tells(60)
        machine.tells(60)
        going.go.touch()
        assert going.process.wait() == 0
    with machine.bench.store as store:
        (session,) = store.sessions()
        said = [each.event.content for each in store.events(session) if isinstance(each.event, UserMessage)]
    assert (said, run.heard(), {*run.words()}) == (["Where now?", TEXT], [TEXT], {("taken", "")})


def test_a_machine_that_was_stopped_while_it_took_one_says_that_it_does_not_know(
    machine: TellingMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with Going(machine.bench, {"listens": True}):
        run = Steered(machine)
        run.says()
        with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
            patched.setattr(steered, "_queued", killed)
            machine.tells(3)
        machine.tells(60)
        machine.tells(60)
    assert (run.words(), run.heard()) == ([("refused", UNSURE)], [])


def test_a_full_disk_ends_nothing_and_the_message_is_handed_over_once_there_is_room(
    machine: TellingMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with Going(machine.bench, {"listens": True}, then=({"hear": 1}, GOOD)) as going:
        run = Steered(machine)
        run.says()
        with monkeypatch.context() as patched:
            patched.setattr(steered, "write_private", full)
            assert [len(machine.tells(3)) for _ in range(3)] == [1, 1, 1]
        assert ([("No space left" in each) for each in machine.said], run.words()) == ([True], [])
        machine.tells(3)
        going.go.touch()
        assert going.process.wait() == 0
        machine.tells(3)
    assert (run.heard(), run.words()) == ([TEXT], [("taken", "")])


def test_a_machine_whose_settings_do_not_allow_it_takes_none_whatever_the_server_says(machine: TellingMachine) -> None:
    with Going(machine.bench, {"listens": True}):
        run = Steered(machine)
        run.says()
        machine.takes = False
        machine.tells(10)
        machine.line.adds = {"steering": [{"id": "message-2", "text": TEXT}]}
        machine.tells(10)
        machine.line.adds = {}
        machine.tells(10)
    with run.team.database.of(machine.sender.tenant) as rows:
        ((state, reason),) = rows.execute("select state, reason from steering").fetchall()
    assert (state, "sync.steer" in reason) == ("refused", True)
    assert ({*run.words()}, run.heard()) == ({("refused", NOT_ALLOWED)}, [])


# the page -------------------------------------------------------------------------------------------------------------


def stored(going: LiveSender) -> None:
    going.send(*cut([["a word"]]))
    going.team.derive(going.who)


def visitor(team: Team, address: str, who: LetIn, *, steers: bool) -> TeamVisitor:
    found = TeamVisitor(team, address)
    found.come_in(who, steer=steers)
    return found


def sent(page: str) -> dict[str, str]:
    form = page.partition('id="steering"')[2].partition("</form>")[0]
    return dict(re.findall(r'name="(csrf|id|machine|run)" value="([\w-]+)"', form))


def test_a_page_steers_a_run_of_ones_own_and_says_how_far_it_is(going: LiveSender, team: Team) -> None:
    stored(going)
    with team.served() as address:
        browser = visitor(team, address, going.who, steers=True)
        fields = sent(browser.get(f"/s/{UID}").text)
        stream = StreamedByTeam(address, going.token, UID)
        answer = browser.post(f"/s/{UID}/steer", fields | {"text": TEXT})
        assert (fields["machine"], fields["run"]) == (going.machine, RUN)
        assert (answer.status, answer.headers["location"]) == (303, f"/s/{UID}#steering")
        # A form that is sent twice is one message.
        browser.post(f"/s/{UID}/steer", fields | {"text": TEXT})
        assert "The message waits for the machine." in browser.get(f"/s/{UID}").words
        assert going.tells(takes=True)["steering"] == [{"id": fields["id"], "text": TEXT}]
        going.tells(takes=True, steered=[{"id": fields["id"], "state": "taken"}])
        assert "The run's machine took the message." in browser.get(f"/s/{UID}").words
        until(lambda: any(each.value["state"] == "taken" for each in stream.of("steering")))
        stream.close()


def test_a_page_without_the_right_or_of_a_colleague_has_no_form_and_takes_none(going: LiveSender, team: Team) -> None:
    stored(going)
    ben = team.joined(going.who, "ben")
    with team.served() as address:
        for who, steers, status in ((going.who, False, 403), (ben, True, 404)):
            browser = visitor(team, address, who, steers=steers)
            page = browser.get(f"/s/{UID}").text
            assert 'id="steering"' not in page
            csrf = re.findall(r'name="csrf" value="(\w+)"', browser.get("/account").text)[0]
            fields = {"csrf": csrf, "id": ID, "text": TEXT}
            assert browser.post(f"/s/{UID}/steer", fields).status == status
            assert browser.post(f"/s/{UID}/steer", fields | {"csrf": "0" * len(csrf)}).status == 403
    assert kept(going) == []


def test_a_page_says_which_setting_lets_the_machine_take_messages(team: Team) -> None:
    going = LiveSender(team, team.founded())
    stored(going)
    with team.served() as address:
        browser = visitor(team, address, going.who, steers=True)
        assert 'id="steering"' not in browser.get(f"/s/{UID}").text
        going.begins("first")
        assert "backstory config set sync.steer true" in browser.get(f"/s/{UID}").words
        assert NOT_RUNNING not in browser.get(f"/s/{UID}").words
