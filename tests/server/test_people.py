"""Who comes in, as what, and when no more. What a stranger is told is the same whatever is wrong."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from backstory.server import audit, codes
from backstory.server.people import INVITE_DAYS, LOGIN_S, TOKEN_DAYS, People, TeamRole
from backstory.server.refusals import Refused
from backstory.sync.account import new_secret
from tests.support.team import tenant_of

if TYPE_CHECKING:
    from tests.support.team import Team

DAY_MS = 86_400_000
NOT_IN = (401, {"error": {"kind": "not_logged_in", "message": "This needs a login."}})


def names(team: Team, token: str) -> dict[str, str]:
    _, found = team.ask("GET", "/v1/people", token)
    return {each["name"]: each["role"] for each in found["people"]}


# coming in ------------------------------------------------------------------------------------------------------------


def test_the_first_code_makes_an_admin(team: Team) -> None:
    anna = team.founded()
    assert (anna.role, anna.organisation, names(team, anna.token)) == (TeamRole.ADMIN, "The team", {"anna": "admin"})


def test_a_code_is_good_once(team: Team) -> None:
    code = team.people.found("The team")
    team.people.join(code, "anna", "")
    status, found = team.ask("POST", "/v1/join", body={"code": code, "name": "eve"})
    assert (status, found["error"]["kind"]) == (401, "code_unknown")


def test_one_of_many_at_once_comes_in_by_a_code(team: Team) -> None:
    code = team.people.found("The team")

    def join(number: int) -> str | None:
        try:
            return team.people.join(code, f"name {number}", "").token
        except Refused:
            return None

    with ThreadPoolExecutor(6) as threads:
        came = [each for each in threads.map(join, range(6)) if each is not None]
    assert (len(came), len(names(team, came[0]))) == (1, 1)


def test_a_code_ends_after_a_week(team: Team) -> None:
    code = team.people.found("The team")
    team.clock.ms += INVITE_DAYS * DAY_MS
    with pytest.raises(Refused, match="not good"):
        team.people.join(code, "anna", "")


def test_a_name_that_is_taken_uses_up_no_code(team: Team) -> None:
    anna = team.founded()
    _, found = team.ask("POST", "/v1/invites", anna.token, {})
    status, refused = team.ask("POST", "/v1/join", body={"code": found["code"], "name": "anna"})
    assert (status, refused["error"]["kind"]) == (409, "name_taken")
    assert team.people.join(found["code"], "ben", "").role == TeamRole.MEMBER


@pytest.mark.parametrize("name", ["", "   ", "a" * 61, "a\nb", "\x1b[31m", "a\u202eb"])
def test_a_name_that_cannot_be_seen_is_refused(name: str, team: Team) -> None:
    with pytest.raises(Refused, match="A name has"):
        team.people.join(team.people.found("The team"), name, "")


def test_a_start_prints_the_first_code_anew_until_somebody_is_admin(empty: str, team: Team) -> None:
    from tests.support.team import team_of

    with team_of(empty, team.clock) as new:
        first, second = new.people.first_code("A"), new.people.first_code("A")
        assert first is not None
        assert second is not None
        with pytest.raises(Refused):
            new.people.join(first, "anna", "")
        new.people.join(second, "anna", "")
        assert new.people.first_code("A") is None


def test_a_further_machine_is_let_in_by_one_that_is_in(team: Team) -> None:
    anna = team.founded()
    _, waiting = team.ask("POST", "/v1/login", body={"machine": "desk"})
    assert team.ask("POST", "/v1/login/token", body={"login": waiting["login"]}) == (200, {"waiting": True})
    typed = waiting["code"].lower().replace("-", " ")
    assert team.ask("POST", "/v1/login/approve", anna.token, {"code": typed}) == (200, {
        "machine": "desk", "is_browser": False, "scopes": ["read", "search", "sync", "admin"],
    })  # fmt: skip
    _, came = team.ask("POST", "/v1/login/token", body={"login": waiting["login"]})
    assert (came["name"], came["token"] != anna.token, names(team, came["token"])) == ("anna", True, {"anna": "admin"})


def test_a_machine_that_calls_itself_a_browser_is_told_for_what_it_is(team: Team) -> None:
    anna, waiting = team.founded(), team.people.wait("browser Firefox")
    _, said = team.ask("POST", "/v1/login/approve", anna.token, {"code": waiting.code})
    assert (said["is_browser"], "admin" in said["scopes"]) == (False, True)


def test_a_login_that_was_ended_does_not_come_back(team: Team) -> None:
    anna, waiting, secret = team.founded(), team.people.wait("desk"), new_secret()
    team.ask("POST", "/v1/login/approve", anna.token, {"code": waiting.code})
    asked = {"login": waiting.login, "secret": secret}
    _, came = team.ask("POST", "/v1/login/token", body=asked)
    (login,) = [each["id"] for each in team.ask("GET", "/v1/logins", anna.token)[1]["logins"] if each["name"] == "desk"]
    assert team.ask("DELETE", f"/v1/logins/{login}", anna.token)[0] == 200
    assert team.ask("POST", "/v1/login/token", body=asked)[0] == 401
    assert team.ask("GET", "/v1/me", came["token"])[0] == 401


def test_a_login_gives_one_token(team: Team) -> None:
    anna, waiting = team.founded(), team.people.wait("desk")
    team.ask("POST", "/v1/login/approve", anna.token, {"code": waiting.code})
    assert team.ask("POST", "/v1/login/token", body={"login": waiting.login})[0] == 200
    assert team.ask("POST", "/v1/login/token", body={"login": waiting.login})[0] == 401


def test_nobody_approves_a_machine_that_another_let_in(team: Team) -> None:
    anna, eve, waiting = team.founded(), team.founded("eve"), team.people.wait("desk")
    team.ask("POST", "/v1/login/approve", anna.token, {"code": waiting.code})
    assert team.ask("POST", "/v1/login/approve", eve.token, {"code": waiting.code})[0] == 404
    assert team.people.come_in(waiting.login).name == "anna"  # type: ignore[union-attr]


def test_a_login_that_nobody_approved_ends(team: Team) -> None:
    anna, waiting = team.founded(), team.people.wait("desk")
    team.clock.ms += LOGIN_S * 1_000
    assert team.ask("POST", "/v1/login/approve", anna.token, {"code": waiting.code})[0] == 404
    assert team.ask("POST", "/v1/login/token", body={"login": waiting.login})[0] == 401


def test_a_machine_waits_only_with_the_person_who_is_still_in(team: Team) -> None:
    anna = team.founded()
    ben, waiting = team.joined(anna, "ben"), team.people.wait("desk")
    team.ask("POST", "/v1/login/approve", ben.token, {"code": waiting.code})
    team.ask("DELETE", "/v1/people/ben", anna.token)
    assert team.ask("POST", "/v1/login/token", body={"login": waiting.login})[0] == 401


# being refused --------------------------------------------------------------------------------------------------------


def test_whatever_is_wrong_with_a_token_the_answer_is_the_same(team: Team) -> None:
    anna, eve = team.founded(), team.founded("eve")
    own, other = codes.token_of(anna.token), codes.token_of(eve.token)
    assert own is not None
    assert other is not None
    wrong = [
        "", "x", anna.token[:-1], f"{anna.token}x", str(codes.LoginToken(own.tenant, own.id, other.secret)),
        str(codes.LoginToken(other.tenant, own.id, own.secret)), str(codes.new_token(own.tenant)),
        str(codes.LoginToken(0, own.id, own.secret)), anna.token.upper(),
    ]  # fmt: skip
    assert {str(team.ask("GET", "/v1/me", each)) for each in wrong} == {str(NOT_IN)}


def test_a_token_ends_after_a_year(team: Team) -> None:
    anna = team.founded()
    team.clock.ms += TOKEN_DAYS * DAY_MS
    assert team.ask("GET", "/v1/me", anna.token) == NOT_IN


def test_who_logs_out_of_a_machine_stays_in_on_others(team: Team) -> None:
    anna, waiting = team.founded(), team.people.wait("desk")
    team.ask("POST", "/v1/login/approve", anna.token, {"code": waiting.code})
    desk = team.people.come_in(waiting.login)
    assert desk is not None
    assert team.ask("POST", "/v1/logout", desk.token)[0] == 200
    assert (team.ask("GET", "/v1/me", desk.token), team.ask("GET", "/v1/me", anna.token)[0]) == (NOT_IN, 200)


def test_who_is_put_out_is_a_stranger_at_once(team: Team) -> None:
    anna = team.founded()
    ben = team.joined(anna, "ben")
    assert team.ask("DELETE", "/v1/people/ben", anna.token)[0] == 200
    assert (team.ask("GET", "/v1/me", ben.token), names(team, anna.token)) == (NOT_IN, {"anna": "admin"})


@pytest.mark.parametrize("method, path, body", [
    ("POST", "/v1/invites", {}), ("PATCH", "/v1/people/anna", {"role": "reader"}), ("DELETE", "/v1/people/anna", None),
])  # fmt: skip
def test_only_an_admin_lets_in_and_out(method: str, path: str, body: Any, team: Team) -> None:
    anna = team.founded()
    for role in ("reader", "member"):
        other = team.joined(anna, f"the {role}", role)
        status, found = team.ask(method, path, other.token, body)
        assert (status, found["error"]["kind"]) == (403, "not_allowed")


def test_a_role_that_is_taken_away_is_gone_at_once(team: Team) -> None:
    anna = team.founded()
    ben = team.joined(anna, "ben", "admin")
    team.ask("PATCH", "/v1/people/ben", anna.token, {"role": "reader"})
    assert team.ask("POST", "/v1/invites", ben.token, {})[0] == 403


@pytest.mark.parametrize("method, body", [("DELETE", None), ("PATCH", {"role": "member"})])
def test_invitations_of_who_is_no_admin_any_more_are_worthless(method: str, body: Any, team: Team) -> None:
    anna = team.founded()
    ben = team.joined(anna, "ben", "admin")
    code = team.ask("POST", "/v1/invites", ben.token, {"role": "admin"})[1]["code"]
    kept = team.ask("POST", "/v1/invites", anna.token, {})[1]["code"]
    assert team.ask(method, "/v1/people/ben", anna.token, body)[0] == 200
    assert team.ask("POST", "/v1/join", "", {"code": code, "name": "ben again"})[0] == 401
    assert team.ask("POST", "/v1/join", "", {"code": kept, "name": "carl"})[0] == 200


def test_the_last_admin_stays(team: Team) -> None:
    anna = team.founded()
    team.joined(anna, "ben")
    for method, body in (("DELETE", None), ("PATCH", {"role": "member"})):
        status, found = team.ask(method, "/v1/people/anna", anna.token, body)
        assert (status, found["error"]["kind"]) == (409, "last_admin")
    assert names(team, anna.token) == {"anna": "admin", "ben": "member"}


def test_of_two_admins_who_put_each_other_out_at_once_one_stays(team: Team) -> None:
    for _ in range(4):
        anna = team.founded()
        ben = team.joined(anna, "ben", "admin")

        def put_out(who: tuple[str, str]) -> int:
            return team.ask("DELETE", f"/v1/people/{who[1]}", who[0])[0]

        with ThreadPoolExecutor(2) as threads:
            statuses = list(threads.map(put_out, [(anna.token, "ben"), (ben.token, "anna")]))
        assert 200 in statuses
        left = anna.token if statuses[0] == 200 else ben.token
        assert len(names(team, left)) == 1


def test_nobody_learns_of_another_organisation(team: Team) -> None:
    anna, eve = team.founded(), team.founded("eve")
    team.joined(anna, "ben")
    assert names(team, eve.token) == {"eve": "admin"}
    nobody = team.ask("DELETE", "/v1/people/nobody", eve.token)
    assert str(team.ask("DELETE", "/v1/people/ben", eve.token)).replace("ben", "nobody") == str(nobody)


def test_who_was_never_here_cannot_be_put_out(team: Team) -> None:
    anna = team.founded()
    status, found = team.ask("DELETE", "/v1/people/ghost", anna.token)
    assert (status, found["error"]["kind"]) == (404, "person_unknown")


@pytest.mark.parametrize(
    "body", [b"{", b"[]", b'{"role": "king"}', b'{"role": "member", "more": 1}', b"\xff", b"[" * 100_000]
)
def test_a_request_that_is_not_understood_is_refused(body: bytes, team: Team) -> None:
    anna = team.founded()
    answer = team.client.post("/v1/invites", content=body, headers={"Authorization": f"Bearer {anna.token}"})
    assert answer.status_code in (400, 413)
    assert answer.json()["error"]["kind"] in ("request_wrong", "too_long")


# what is kept ---------------------------------------------------------------------------------------------------------


def test_no_secret_is_kept(team: Team) -> None:
    anna, waiting = team.founded(), team.people.wait("desk")
    _, invite = team.ask("POST", "/v1/invites", anna.token, {})
    kept = ""
    for tenant in (tenant_of(anna.token), 0):
        with team.database.of(tenant) as rows:
            for table in ("token", "invite", "login", "audit", "person"):
                kept += str(rows.execute(f"select t::text from {table} t".encode()).fetchall())
    secrets = [anna.token.split("_", 2)[2], invite["code"].split("_", 2)[2], waiting.login]
    assert [each for each in secrets if each in kept or each.encode().hex() in kept] == []


def test_what_an_admin_did_is_in_the_audit_without_names(team: Team) -> None:
    anna = team.founded()
    team.joined(anna, "benjamin")
    team.ask("DELETE", "/v1/people/benjamin", anna.token)
    with team.database.of(tenant_of(anna.token)) as rows:
        lines = rows.execute("select action, object from audit order by number").fetchall()
    assert [action for action, _ in lines] == ["join", "login", "invite", "join", "login", "put_out"]
    assert "benjamin" not in str(lines)


@pytest.mark.parametrize("change", [
    "update audit set action = 'join' where number = 2",
    "update audit set at = at + interval '1 second' where number = 2",
    "update audit set person = null where number = 2", "delete from audit where number = 2",
    "update audit set object = 'x' where number = 2", "update audit set hash = hash where number = 99",
])  # fmt: skip
def test_a_line_of_the_audit_that_was_changed_is_found(change: str, team: Team) -> None:
    anna = team.founded()
    team.joined(anna, "ben")
    with team.database.of(tenant_of(anna.token)) as rows:
        assert audit.first_wrong(rows, tenant_of(anna.token)) is None
        rows.execute(change.encode())
        found = audit.first_wrong(rows, tenant_of(anna.token))
    assert found == (None if "99" in change else 2)


def test_lines_of_the_audit_are_numbered_without_a_gap_when_many_write(team: Team) -> None:
    anna = team.founded()
    with ThreadPoolExecutor(6) as threads:
        list(threads.map(lambda _: team.ask("POST", "/v1/invites", anna.token, {}), range(12)))
    with team.database.of(tenant_of(anna.token)) as rows:
        assert audit.first_wrong(rows, tenant_of(anna.token)) is None
        assert rows.execute("select count(*) from audit").fetchone() == (14,)


def test_people_have_no_other_way_in() -> None:
    """Each public way that needs no caller is one of these, which a test above holds."""
    ways = {name for name in vars(People) if not name.startswith("_")}
    need = {name for name in ways if "caller" in vars(People)[name].__annotations__}
    assert ways - need == {"first_code", "found", "join", "wait", "come_in", "caller"}
