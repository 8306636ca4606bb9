"""Logins of a person: listed, ended, and made with fewer rights; a token can never do more than it was made for."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from backstory.exchange import frames
from backstory.exchange.frames import START, FramePoint
from backstory.sync.notes import SyncNotes
from tests.support.desks import Desk
from tests.support.senders import UID, Sender, cut

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from backstory.server.people import LetIn
    from tests.support.team import Team

APP, OTHER_APP = "github.com/me/app", "github.com/me/other"
DAY_MS = 86_400_000


def made(team: Team, token: object, **wanted: Any) -> tuple[int, Any]:
    return team.ask("POST", "/v1/logins", token, {"name": "builds", "scopes": ["sync"], **wanted})


def token_of(team: Team, maker: LetIn, **wanted: Any) -> str:
    status, found = made(team, maker.token, **wanted)
    assert status == 200, found
    return str(found["token"])


def logins(team: Team, token: object) -> list[dict[str, Any]]:
    status, found = team.ask("GET", "/v1/logins", token)
    assert status == 200, found
    listed: list[dict[str, Any]] = found["logins"]
    return listed


def test_a_token_that_may_send_sends_and_reads_nothing(team: Team) -> None:
    anna = team.founded()
    token = token_of(team, anna)
    sender = Sender(team, anna)
    sender.token = token
    assert sender.send(*cut([["a"]])) == ["ok"]
    assert team.ask("GET", "/v1/me", token)[1]["scopes"] == ["sync"]
    assert [team.ask("GET", path, token)[0] for path in ("/v1/sessions", "/v1/repositories")] == [403, 403]


def test_a_token_that_may_read_sends_nothing(team: Team) -> None:
    anna = team.founded()
    sender = Sender(team, anna)
    sender.send(*cut([["a"]]))
    sender.token = token_of(team, anna, scopes=["read"])
    assert sender.answer(*cut([["b"]], uid=UID[:-1] + "R"))[0] == 403
    assert len(team.ask("GET", "/v1/repositories", sender.token)[1]["repositories"]) == 1


def test_a_token_for_a_repository_is_good_for_no_other(team: Team) -> None:
    anna = team.founded()
    sender = Sender(team, anna)
    sender.send(*cut([["a"]]))
    sender.token = token_of(team, anna, scopes=["read", "sync"], repositories=[OTHER_APP])
    assert team.ask("GET", "/v1/repositories", sender.token)[1]["repositories"] == []
    assert sender.answer(*cut([["b"]], uid=UID[:-1] + "R"))[0] == 403
    assert sender.forget()[0] == 403
    sender.token = token_of(team, anna, repositories=[APP])
    assert sender.send(*cut([["b"]], uid=UID[:-1] + "R")) == ["ok"]


@pytest.mark.parametrize("method, path, body", [
    ("POST", "/v1/login/approve", {"code": "BCDF-GHJK"}), ("DELETE", "/v1/me", None), ("DELETE", "/v1/sessions", None),
    ("DELETE", "/v1/machines/x", None), ("GET", "/v1/logins", None), ("POST", "/v1/invites", {}),
    ("POST", "/v1/logins", {"name": "more", "scopes": ["read"], "days": 300}), ("DELETE", "/v1/logins/x", None),
    ("PATCH", "/v1/people/anna", {"role": "reader"}), ("DELETE", "/v1/people/ben", None), ("GET", "/v1/changes", None),
    ("GET", "/v1/machines?person=anna", None),
])  # fmt: skip
def test_with_a_token_nobody_is_let_in_or_out_and_nothing_erased(method: str, path: str, body: Any, team: Team) -> None:
    anna = team.founded()
    every: dict[str, Any] = {"scopes": ["read", "search", "sync"]}
    for maker in (anna, team.joined(anna, "carl")):
        for wanted in (every, every | {"repositories": [APP]}):
            status, found = team.ask(method, path, token_of(team, maker, **wanted), body)
            assert (status, found["error"]["kind"]) == (403, "not_allowed")
    assert team.ask("GET", "/v1/me", anna.token)[0] == 200


@pytest.mark.parametrize("wanted, status", [
    ({"scopes": ["admin"]}, 403), ({"scopes": []}, 403), ({"scopes": ["sync", "admin"]}, 403), ({"scopes": ["?"]}, 403),
    ({"days": 0}, 400), ({"days": 366}, 400), ({"name": " "}, 400), ({"name": "x" * 61}, 400),
    ({"repositories": []}, 400),
])  # fmt: skip
def test_what_no_token_can_be_is_refused(wanted: dict[str, Any], status: int, team: Team) -> None:
    anna = team.founded()
    assert made(team, anna.token, **wanted)[0] == status
    assert len(logins(team, anna.token)) == 1


def test_a_reader_makes_no_token_that_sends(team: Team) -> None:
    reader = team.joined(team.founded(), "ben", "reader")
    assert made(team, reader.token)[0] == 403
    assert made(team, reader.token, scopes=["read"])[0] == 200


def test_a_token_ends_with_its_days_and_never_behind_its_makers(team: Team) -> None:
    anna = team.founded()
    short, long = token_of(team, anna, days=2), token_of(team, anna, days=365)
    team.clock.ms += 2 * DAY_MS
    assert [team.ask("GET", "/v1/me", each)[0] for each in (short, long)] == [401, 200]
    # That of a machine is good for a year; a token that it makes near its end is not good for a year more.
    late = token_of(team, anna, days=365)
    team.clock.ms += 363 * DAY_MS
    assert [team.ask("GET", "/v1/me", each)[0] for each in (anna.token, late)] == [401, 401]


def test_a_login_that_is_ended_is_a_strangers_and_only_its_owner_ends_it(team: Team) -> None:
    anna = team.founded()
    ben = team.joined(anna, "ben")
    token = token_of(team, anna)
    (login,) = [each["id"] for each in logins(team, anna.token) if each["name"] == "builds"]
    assert team.ask("DELETE", f"/v1/logins/{login}", ben.token)[0] == 404
    assert team.ask("GET", "/v1/me", token)[0] == 200
    assert team.ask("DELETE", f"/v1/logins/{login}", anna.token)[0] == 200
    assert team.ask("GET", "/v1/me", token)[0] == 401


def test_who_loses_a_role_has_tokens_without_it(team: Team) -> None:
    anna = team.founded()
    ben = team.joined(anna, "ben")
    token = token_of(team, ben)
    team.ask("PATCH", "/v1/people/ben", anna.token, {"role": "reader"})
    sender = Sender(team, ben)
    sender.token = token
    assert sender.answer(*cut([["a"]]))[0] == 403


# as it is typed -------------------------------------------------------------------------------------------------------


@pytest.fixture
def desks(team: Team, tmp_path: Path) -> Iterator[tuple[Desk, Desk]]:
    with team.served() as address:
        for name in ("desk", "builds"):
            (tmp_path / name).mkdir()
        yield Desk(tmp_path / "desk", team, address, 1), Desk(tmp_path / "builds", team, address, 2)


def test_a_build_server_sends_with_a_token_and_can_be_put_out(desks: tuple[Desk, Desk]) -> None:
    desk, builds = desks
    desk.log_in()
    token = desk.shell("team", "logins", "--for", "builds", "--repo", "github.com/me/tool").out.strip()
    done = builds.shell("login", builds.address, "--token", "-", typed=f"{token}\n")
    assert (done.code, token in done.out + done.err) == (0, False)
    assert builds.shell("ingest").code == 0
    assert builds.shell("sync").code == 0
    assert builds.there() == 2
    shown = desk.shell("team", "logins", "--json")
    assert token.rpartition("_")[2] not in shown.out
    (login,) = [each["login_id"] for each in json.loads(shown.out)["logins"] if each["name"] == "builds"]
    assert desk.shell("team", "logins", login, "--remove").code == 0
    assert builds.shell("sync").code == 77


@pytest.mark.parametrize("typed", ["t\N{LATIN SMALL LETTER O WITH DIAERESIS}ken-xyz", "token xyz"])
def test_what_is_no_token_is_refused_and_not_printed(typed: str, desks: tuple[Desk, Desk]) -> None:
    desk, _ = desks
    for words in (("--token", "-"), ("--code", "-")):
        done = desk.shell("login", "http://127.0.0.1:1", *words, typed=f"{typed}\n")
        assert (done.code, "xyz" in done.err + done.out) == (2, False)
        assert desk.shell("login", "http://127.0.0.1:1", *words, typed="\n").code == 130


def test_a_login_forgets_what_was_sent_and_keeps_what_stays_out(desks: tuple[Desk, Desk]) -> None:
    _, desk = desks
    desk.log_in()
    assert desk.shell("ingest").code == 0
    assert desk.shell("sync").code == 0
    uid, *others = (each["uid"] for each in desk.shell("list", "--json").json()["sessions"])
    assert desk.shell("sync", "forget", uid, "--yes").code == 0
    (path,) = (desk.shell.home / "backstory/sync").glob("server-*.jsonl")
    token = desk.token()
    assert others
    assert set(SyncNotes.read(path).sent) == {uid, *others}
    assert desk.shell("login", desk.address, "--token", "-", typed=f"{token}\n").code == 0
    assert {*SyncNotes.read(path).sent} == {uid}
    done = desk.shell("sync", "--json").json()
    assert (done["event_count"], done["sent_uids"], desk.there()) == (0, [], len(others))


def test_a_token_on_the_command_line_is_refused(desks: tuple[Desk, Desk]) -> None:
    desk, _ = desks
    done = desk.shell("login", desk.address, "--token", "bks_1-2_3")
    assert (done.code, "never typed on the command line" in done.err) == (2, True)


# what is there already of another repository --------------------------------------------------------------------------


def of_app(sender: Sender, *lines: dict[str, Any], epoch: int = 1) -> bytes:
    """A frame that goes on with what is there, or begins an epoch, and says that it is of the app."""
    state = sender.state()
    said = [json.dumps({"uid": UID, **each}, separators=(",", ":")).encode() + b"\n" for each in lines]
    after, prev = (FramePoint(*state["upto"]), state["chain"]) if epoch == 1 else (START, "")
    (made,) = frames.frames(said, session=UID, epoch=epoch, after=after, prev=prev, is_redacted=True)
    return made


SESSION: dict[str, Any] = {
    "type": "session", "created": "2026-09-21T14:13:20.123Z", "next_seq": 2, "title": "x", "repository": OTHER_APP,
}  # fmt: skip
END = {"type": "session_end", "turns": 0, "events": 0}


@pytest.mark.parametrize("epoch", [1, 2])
@pytest.mark.parametrize("named", [[SESSION], []], ids=["renamed", "unnamed"])
def test_a_token_for_one_repository_takes_over_no_session_of_another(
    named: list[dict[str, Any]], epoch: int, team: Team
) -> None:
    anna = team.founded()
    sender = Sender(team, anna)
    sender.send(*cut([["a"]]))
    frame = of_app(sender, *named, END, epoch=epoch)
    limited = Sender(team, anna)
    limited.token = token_of(team, anna, scopes=["read", "sync"], repositories=[OTHER_APP])
    assert limited.answer(frame)[0] == 403
    assert (limited.state()["events"], limited.state()["chain"]) == (0, "")
    assert sender.state()["events"] == 1
    assert team.ask("GET", f"/v1/sessions/{UID}/entries", limited.token)[0] == 404


def test_a_token_goes_on_with_what_it_began_before_that_is_whole(team: Team) -> None:
    anna = team.founded()
    sender = Sender(team, anna)
    sender.token = token_of(team, anna, repositories=[APP])
    first, *rest = cut([["a" * 1_100_000, "b"]])
    assert sender.send(first) == ["ok"]
    assert set(sender.send(*rest)) == {"ok"}
    other = Sender(team, anna)
    other.token = token_of(team, anna, repositories=[OTHER_APP])
    assert other.state()["events"] == 0


def test_a_token_counts_sessions_of_its_repositories_alone(team: Team) -> None:
    anna = team.founded()
    Sender(team, anna).send(*cut([["a"]]))
    for repository, count in ((APP, 1), (OTHER_APP, 0)):
        found = team.ask("GET", "/v1/machines", token_of(team, anna, repositories=[repository]))[1]["machines"]
        assert [each["session_count"] for each in found] == [count]
