"""What is not there and what is not the asker's take the same answer, and the same work: statements and rows alike."""

from __future__ import annotations

import time
from contextlib import contextmanager
from statistics import median
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from backstory.server import codes
from backstory.sync.account import new_secret
from tests.support.counts import IS_LONG
from tests.support.senders import DESK, LAPTOP, UID, Sender, cut
from tests.support.team import tenant_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.team import Team

NOBODYS, ANOTHERS = "01M3250V00CJ5X1JHP0Z69AWSR", "01M3250V00CJ5X1JHP0Z69AWSS"
EVES = "01M3250V00CJ5X1JHP0Z69AWST"
"""A session of another organisation alone: colleagues read each other's."""
ELSEWHERE = "01M3250V00CCCCCCCCCCCCCCCC"
"""A machine of another organisation."""


@contextmanager
def noted_work(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, int]]]:
    """The statements that are run, and how many rows each found or changed."""
    done, execute = list[tuple[str, int]](), psycopg.Cursor.execute

    def noted(self: Any, query: Any, *given: Any, **named: Any) -> Any:
        found = execute(self, query, *given, **named)
        done.append((str(query), self.rowcount))
        return found

    with monkeypatch.context() as patched:
        patched.setattr(psycopg.Cursor, "execute", noted)
        yield done


class People:
    """Anna asks; Ben is of her organisation, Eve of another. Each has a session, and machines that the others lack."""

    def __init__(self, team: Team) -> None:
        admin = team.founded()
        self.team, self.admin = team, admin
        self.anna = Sender(team, team.joined(admin, "anna2"))
        self.ben, self.eve = Sender(team, team.joined(admin, "ben"), DESK), Sender(team, team.founded("eve"), ELSEWHERE)
        self.anna.send(*cut([["a"]]))
        self.ben.send(*cut([["b"]], uid=ANOTHERS))
        self.eve.send(*cut([["c"]], uid=ANOTHERS), *cut([["d"]], uid=EVES))


@pytest.fixture
def people(team: Team) -> People:
    return People(team)


def asked(people: People, method: str, path: str, body: Any = None) -> tuple[int, bytes]:
    answer = people.team.client.request(method, path, json=body, headers=people.anna.headers)
    # What was asked for may be said again; nothing else differs.
    content = answer.content
    for each in (ANOTHERS, EVES, NOBODYS):
        content = content.replace(each.encode(), b"ID")
    return answer.status_code, content


ALIKE: list[tuple[str, str, Any, Any]] = [
    ("DELETE", "/v1/sessions/{}", ANOTHERS, NOBODYS),
    ("DELETE", "/v1/machines/{}", DESK, "01M3250V00DDDDDDDDDDDDDDDD"),
    ("DELETE", "/v1/machines/{}", ELSEWHERE, "01M3250V00DDDDDDDDDDDDDDDD"),
    ("GET", "/v1/machines/{}/sessions", DESK, "01M3250V00DDDDDDDDDDDDDDDD"),
    ("GET", "/v1/machines/{}/sessions", ELSEWHERE, "01M3250V00DDDDDDDDDDDDDDDD"),
    ("DELETE", "/v1/machines/{}/sessions/" + UID, DESK, "01M3250V00DDDDDDDDDDDDDDDD"),
    ("DELETE", f"/v1/machines/{LAPTOP}/sessions/{{}}", ANOTHERS, NOBODYS),
    ("GET", "/v1/sessions/{}", EVES, NOBODYS),
    ("GET", "/v1/sessions/{}/entries", EVES, NOBODYS),
    ("GET", "/v1/resolve?words={}", EVES, NOBODYS),
    ("GET", "/v1/sessions?machine={}", ELSEWHERE, "01M3250V00DDDDDDDDDDDDDDDD"),
    ("GET", "/v1/changes?after=1.{}.1", ANOTHERS, NOBODYS),
]


@pytest.mark.parametrize("method, path, others, nobodys", ALIKE)
def test_an_address_of_somebody_elses_is_one_of_nobodys(
    method: str, path: str, others: str, nobodys: str, people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    with noted_work(monkeypatch) as done:
        first = asked(people, method, path.format(others))
        work = [*done]
        done.clear()
        assert asked(people, method, path.format(nobodys)) == first
        assert done == work
    assert (people.ben.state(ANOTHERS)["events"], people.eve.state(ANOTHERS)["events"]) == (1, 1)


def test_the_state_of_somebody_elses_session_is_that_of_nobodys(
    people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    with noted_work(monkeypatch) as done:
        first = asked(people, "POST", "/v1/state", {"uids": [ANOTHERS]})
        work = [*done]
        done.clear()
        assert asked(people, "POST", "/v1/state", {"uids": [NOBODYS]}) == first
        assert done == work


def test_the_marks_of_what_another_removed_tell_nobody_else(people: People, monkeypatch: pytest.MonkeyPatch) -> None:
    people.eve.forget(ANOTHERS)
    people.ben.forget(ANOTHERS)
    with noted_work(monkeypatch) as done:
        assert people.anna.state(ANOTHERS)["is_forgotten"] is False
        work = [*done]
        done.clear()
        assert people.anna.state(NOBODYS)["is_forgotten"] is False
        assert done == work


def test_a_token_of_another_organisation_opens_nothing_in_whatever_parts(people: People) -> None:
    own, other = codes.token_of(people.anna.token), codes.token_of(people.eve.token)
    assert own is not None
    assert other is not None
    for tenant, number, secret in ((own.tenant, other.id, other.secret), (other.tenant, own.id, own.secret)):
        token = str(codes.LoginToken(tenant, number, secret))
        assert people.team.ask("GET", "/v1/me", token)[0] == 401


def wrong_tokens(people: People) -> dict[str, str]:
    own = codes.token_of(people.anna.token)
    assert own is not None
    return {
        "of nobody": str(codes.new_token(own.tenant)), "of no organisation": str(codes.new_token(1)),
        "with a wrong secret": str(codes.LoginToken(own.tenant, own.id, new_secret())),
    }  # fmt: skip


def test_a_wrong_token_takes_the_same_statements_whatever_is_wrong(
    people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = set[tuple[Any, ...]]()
    with noted_work(monkeypatch) as done:
        for token in wrong_tokens(people).values():
            done.clear()
            answer = people.team.ask("GET", "/v1/me", token)
            found.add((str(answer), *(query for query, _ in done)))
    assert len(found) == 1


def test_codes_of_another_organisation_make_nobody_of_this_one(people: People) -> None:
    _, invited = people.team.ask("POST", "/v1/invites", people.admin.token, {"role": "admin"})
    code = codes.invite_of(invited["code"])
    assert code is not None
    moved = str(codes.Invite(people.eve.tenant, code.secret))
    assert people.team.ask("POST", "/v1/join", body={"code": moved, "name": "x"})[0] == 401
    came = people.team.people.join(invited["code"], "carl", "x")
    assert tenant_of(came.token) == people.anna.tenant


def test_a_login_that_one_approved_is_nobody_elses(people: People) -> None:
    waiting = people.team.people.wait("desk")
    assert people.team.ask("POST", "/v1/login/approve", people.anna.token, {"code": waiting.code})[0] == 200
    assert people.team.ask("POST", "/v1/login/approve", people.eve.token, {"code": waiting.code})[0] == 404
    assert people.team.ask("POST", "/v1/login/token", body={"login": new_secret()})[0] == 401
    _, came = people.team.ask("POST", "/v1/login/token", body={"login": waiting.login})
    assert tenant_of(came["token"]) == people.anna.tenant


@pytest.mark.parametrize(
    "role, refused",
    [
        # A reader who sent something before may erase it.
        ("reader", [("POST", "/v1/sync"), ("DELETE", f"/v1/sessions/{UID}"), ("POST", "/v1/invites"),
                    ("DELETE", f"/v1/machines/{LAPTOP}/sessions/{UID}"), ("DELETE", "/v1/people/anna"),
                    ("PATCH", "/v1/people/anna"), ("POST", "/v1/analytics/backfill"), ("POST", "/v1/state")]),
        ("member", [("POST", "/v1/invites"), ("DELETE", "/v1/people/anna"), ("PATCH", "/v1/people/anna")]),
    ],
)  # fmt: skip
def test_nobody_does_what_the_role_does_not_let(role: str, refused: list[tuple[str, str]], team: Team) -> None:
    ben = Sender(team, team.joined(team.founded(), "ben", role))
    for method, path in refused:
        answer = team.client.request(method, path, json={"role": "admin"}, headers=ben.headers)
        assert (answer.status_code, answer.json()["error"]["kind"]) == (403, "not_allowed"), path


def test_a_token_of_who_was_put_out_opens_nothing(team: Team) -> None:
    admin = team.founded()
    ben = Sender(team, team.joined(admin, "ben", "admin"))
    ben.send(*cut([["a"]]))
    team.ask("DELETE", "/v1/people/ben", admin.token)
    for method, path in (("GET", "/v1/me"), ("POST", "/v1/sync"), ("GET", "/v1/changes"), ("GET", "/v1/people"),
                         ("POST", "/v1/invites"), ("DELETE", "/v1/people/anna"), ("GET", "/v1/sessions")):  # fmt: skip
        assert team.client.request(method, path, json={}, headers=ben.headers).status_code == 401, path


@pytest.mark.long
@pytest.mark.skipif(not IS_LONG, reason="the clock of a busy machine tells little in a few seconds: `make long`")
def test_the_clock_tells_no_difference_either(people: People) -> None:
    def spent(uid: str) -> float:
        began = time.perf_counter()
        asked(people, "DELETE", f"/v1/sessions/{uid}")
        return time.perf_counter() - began

    # In turn, so that whatever else the machine does is in both.
    times = [(spent(ANOTHERS), spent(NOBODYS)) for _ in range(2_000)]
    first, second = (median(each) for each in zip(*times, strict=True))
    assert abs(first - second) < 0.1 * second
