"""Parts of sessions for reports: of the caller's organisation and of what the token is good for, page by page."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from backstory.exchange import frames
from backstory.server import team_reports
from backstory.workspace.stores.report_store import PartPage
from tests.support.senders import DESK, OTHER, UID, Sender, cut, exported, line
from tests.support.team import Team

if TYPE_CHECKING:
    from backstory.workspace.stores.report_store import SessionPart


def page(sender: Sender, **wanted: Any) -> PartPage:
    answer = sender.team.client.post("/v1/session-parts", json=wanted, headers=sender.headers)
    assert answer.status_code == 200, answer.content
    return msgspec.msgpack.decode(answer.content, type=PartPage)


def parts(sender: Sender, **wanted: Any) -> list[SessionPart]:
    return page(sender, **wanted).parts


def whose(sender: Sender, **wanted: Any) -> list[tuple[str, str]]:
    return sorted((each.uid, each.person) for each in parts(sender, **wanted))


def test_parts_are_of_all_people_of_the_organisation_alone(team: Team) -> None:
    anna = team.founded()
    first, second = Sender(team, anna), Sender(team, team.joined(anna, "ben"))
    eve = Sender(team, team.founded("eve"))
    first.send(*cut([["a"]]))
    second.send(*cut([["b"]], uid=OTHER))
    for who in (anna, eve.who):
        team.derive(who)
    assert whose(first) == whose(second) == [(UID, "anna"), (OTHER, "ben")]
    assert whose(first, person="ben") == [(OTHER, "ben")]
    assert whose(eve) == []
    answer = team.client.post("/v1/session-parts", json={"person": "anna"}, headers=eve.headers)
    nobody = team.client.post("/v1/session-parts", json={"person": "nobody"}, headers=eve.headers)
    assert (answer.status_code, answer.json()["error"]["kind"]) == (nobody.status_code, nobody.json()["error"]["kind"])


def test_a_token_for_some_repositories_gets_these_alone(team: Team) -> None:
    sender = Sender(team, team.founded())
    sender.send(*cut([["a"]]))
    team.derive(sender.who)
    assert whose(sender, repository="me/app") == [(UID, "anna")]
    with team.database.of(sender.tenant) as rows:
        rows.execute("update token set repositories = %s where tenant = %s", (["github.com/me/other"], sender.tenant))
    assert whose(sender) == whose(sender, repository="me/app") == []


def test_a_session_that_is_not_derived_yet_has_no_figures(team: Team) -> None:
    sender = Sender(team, team.founded())
    sender.send(*cut([["a"]]))
    (waiting,) = parts(sender, work=True)
    assert (waiting.figures, waiting.work) == (None, None)
    team.derive(sender.who)
    (without,), (known,) = parts(sender), parts(sender, work=True)
    assert without.figures == known.figures is not None
    assert without.work is None
    assert known.work is not None


def one(sender: Sender) -> tuple[int, Any]:
    answer = sender.team.client.post(f"/v1/sessions/{UID}/parts", json={}, headers=sender.headers)
    if answer.status_code != 200:
        return answer.status_code, answer.json()["error"]["kind"]
    return 200, [each.uid for each in msgspec.msgpack.decode(answer.content, type=PartPage).parts]


def test_a_session_that_was_removed_is_in_no_report(team: Team) -> None:
    sender = Sender(team, team.founded())
    sender.send(*cut([["a"]]))
    team.derive(sender.who)
    assert one(sender) == (200, [UID])
    sender.forget()
    assert parts(sender) == []
    assert one(sender) == (404, "session_unknown")


def test_the_parts_of_one_session_are_of_the_organisation_and_of_the_repositories_of_a_token(team: Team) -> None:
    sender, eve = Sender(team, team.founded()), Sender(team, team.founded("eve"))
    sender.send(*cut([["a"]]))
    assert one(sender) == (200, [UID])
    assert one(eve) == (404, "session_unknown")
    with team.database.of(sender.tenant) as rows:
        rows.execute("update token set repositories = %s where tenant = %s", (["github.com/me/other"], sender.tenant))
    assert one(sender) == (404, "session_unknown")


def test_the_parts_of_subagents_in_other_repositories_are_not_for_a_token_of_one(team: Team) -> None:
    sender = Sender(team, team.founded())
    other = {"relation": "subagent", "parent": UID[10:]}
    lines = exported(["b"], uid=OTHER)
    head = json.loads(lines[0]) | {"repository": "github.com/me/other"} | other
    sender.send(
        *cut([["a"]]), *frames.frames([line(head.pop("type"), **head), *lines[1:]], session=OTHER, is_redacted=True)
    )
    team.derive(sender.who)
    assert one(sender) == (200, [UID, OTHER])
    with team.database.of(sender.tenant) as rows:
        rows.execute("update token set repositories = %s where tenant = %s", (["github.com/me/app"], sender.tenant))
    assert one(sender) == (200, [UID])


@pytest.mark.parametrize(("bound", "most"), [("PARTS_AT_ONCE", 1), ("PAGE_BYTES", 1)])
def test_pages_have_each_part_once(bound: str, most: int, team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(team_reports, bound, most)
    anna = team.founded()
    laptop, desk = Sender(team, anna), Sender(team, anna, DESK)
    laptop.send(*cut([["a"]]), *cut([["b"]], uid=OTHER))
    desk.send(*cut([["a"]]))
    team.derive(anna)
    found, end = list[tuple[str, str]](), None
    while True:
        got = page(laptop, since="2020-01-01T00:00:00Z", **({"after": end} if end else {}))
        assert len(got.parts) == 1
        found += [(each.uid, each.machine) for each in got.parts]
        end = got.end
        if end is None:
            break
    assert len(found) == len(set(found)) == 3


@pytest.mark.parametrize("wrong", [{"since": "yesterday"}, {"unknown": 1}, {"after": "x"}, {"work": "x"}], ids=str)
def test_a_question_that_is_none_is_refused(wrong: dict[str, Any], team: Team) -> None:
    sender = Sender(team, team.founded())
    answer = team.client.post("/v1/session-parts", json=wrong, headers=sender.headers)
    assert (answer.status_code, answer.json()["error"]["kind"]) == (400, "request_wrong")


def test_a_token_without_the_right_to_read_gets_none(team: Team) -> None:
    anna = team.founded()
    _, made = team.ask("POST", "/v1/logins", anna.token, {"name": "ci", "scopes": ["sync"]})
    answer = team.client.post("/v1/session-parts", json={}, headers={"Authorization": f"Bearer {made['token']}"})
    assert answer.status_code == 403
