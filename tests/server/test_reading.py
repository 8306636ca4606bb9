"""Answers about the history of an organisation: all of it, nobody else's, and only what a token is good for."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg.errors import InsufficientPrivilege

from backstory.exchange import frames
from backstory.server.database import prepared
from backstory.server.turn_words import sign_of
from tests.support.senders import DESK, LAPTOP, OTHER, UID, Sender, cut, exported, line
from tests.support.team import empty_database

if TYPE_CHECKING:
    from tests.support.team import Team


def repositories(sender: Sender) -> list[tuple[str, int, int, int]]:
    status, found = sender.team.ask("GET", "/v1/repositories", sender.token)
    assert status == 200
    return [(each["repository"], each["sessions"], each["events"], each["people"]) for each in found["repositories"]]


def test_repositories_are_counted_over_all_people_of_the_organisation_alone(team: Team) -> None:
    anna = team.founded()
    first, second = Sender(team, anna), Sender(team, team.joined(anna, "ben"))
    eve = Sender(team, team.founded("eve"))
    first.send(*cut([["a", "b"]]), *cut([["c"]], uid=OTHER))
    second.send(*cut([["a"]]))
    assert repositories(first) == repositories(second) == [("github.com/me/app", 3, 4, 2)]
    assert repositories(eve) == []
    first.forget()
    assert repositories(second) == [("github.com/me/app", 2, 2, 2)]


def test_a_copy_of_another_machine_that_is_its_beginning_counts_once(team: Team) -> None:
    anna = team.founded()
    laptop, desk = Sender(team, anna), Sender(team, anna, DESK)
    whole = cut([["a"], ["b"]])
    laptop.send(*whole)
    desk.send(whole[0])
    assert repositories(laptop) == [("github.com/me/app", 1, 2, 1)]


def test_a_token_for_some_repositories_counts_these_alone(team: Team) -> None:
    sender = Sender(team, team.founded())
    sender.send(*cut([["a"]]))
    with team.database.of(sender.tenant) as rows:
        rows.execute("update token set repositories = %s where tenant = %s", (["github.com/me/other"], sender.tenant))
    assert repositories(sender) == []


# questions ------------------------------------------------------------------------------------------------------------


def listed(sender: Sender, path: str = "/v1/sessions") -> list[tuple[str, str]]:
    status, found = sender.team.ask("GET", path, sender.token)
    assert status == 200, found
    return [(each["uid"], each["person"]) for each in found["sessions"]]


def questions(sender: Sender) -> list[Any]:
    """What is answered of another's session by every question."""
    asked = [f"/v1/resolve?words={UID}", "/v1/resolve?words=01M32", "/v1/resolve?words=nati", "/v1/sessions/count"]
    return [listed(sender), repositories(sender), *(sender.team.ask("GET", each, sender.token) for each in asked)]


def test_sessions_are_listed_of_all_people_of_the_organisation_alone(team: Team) -> None:
    anna = team.founded()
    first, second = Sender(team, anna), Sender(team, team.joined(anna, "ben"))
    eve = Sender(team, team.founded("eve"))
    nothing = questions(eve)
    first.send(*cut([["a"]]))
    second.send(*cut([["a"]]), *cut([["b"]], uid=OTHER))
    for who in (anna, eve.who):
        team.derive(who)
    assert sorted(listed(first)) == sorted(listed(second)) == [(UID, "anna"), (UID, "ben"), (OTHER, "ben")]
    assert listed(first, "/v1/sessions?person=anna") == [(UID, "anna")]
    assert questions(eve) == nothing


def test_a_token_for_some_repositories_sees_these_alone(team: Team) -> None:
    sender = Sender(team, team.founded())
    nothing = questions(sender)
    sender.send(*cut([["a"]]))
    team.derive(sender.who)
    assert questions(sender) != nothing
    with team.database.of(sender.tenant) as rows:
        rows.execute("update token set repositories = %s where tenant = %s", (["github.com/me/other"], sender.tenant))
    assert questions(sender) == nothing


def test_a_label_says_nothing_of_a_session_that_is_hidden(team: Team) -> None:
    sender = Sender(team, team.founded())
    hidden = [each.replace(b"me/app", b"me/hid") for each in exported(["b"], uid=OTHER)]
    sender.send(*cut([["a"]]), *frames.frames(hidden, session=OTHER, is_redacted=True))

    def labels() -> list[str]:
        (candidate,) = team.ask("GET", f"/v1/resolve?words={UID}", sender.token)[1]["candidates"]
        listed = team.ask("GET", "/v1/sessions", sender.token)[1]["sessions"]
        return [candidate["label"], *(each["label"] for each in listed if each["uid"] == UID)]

    assert labels() == [UID, UID], "There is another one with the same beginning."
    with team.database.of(sender.tenant) as rows:
        rows.execute("update token set repositories = %s where tenant = %s", (["github.com/me/app"], sender.tenant))
    assert labels() == [UID[:12], UID[:12]]


def test_a_function_answers_for_the_organisation_of_the_transaction_alone(team: Team) -> None:
    sender, eve = Sender(team, team.founded()), Sender(team, team.founded("eve"))
    sender.send(*cut([["needle"]]))
    team.derive(sender.who)
    needle = f"'{sign_of(sender.tenant)}needle'"
    calls = (
        "repositories_of(%s, null)", f"sessions_found(%s{', null' * 13})", "sessions_called(%s, null, 'uid', %s, 1)",
        f"sessions_with(%s, null, {needle}, {needle}{', null' * 12}, 1, 1)", f"session_parts(%s{', null' * 10}, 9)",
        "uids_not_alone(%s, null, '{01M3250V00CJ5X1JHP0Z69AWSX}', 12)",
    )  # fmt: skip
    for call in calls:
        values = (sender.tenant, UID)[: call.count("%s")]
        for who, count in ((sender, 1), (eve, 0)):
            with team.database.of(who.tenant) as rows:
                assert len(rows.execute(f"select * from {call}".encode(), values).fetchall()) == count, call
    with team.database.of(eve.tenant) as rows:
        assert rows.execute("select change_token(%s)", (sender.tenant,)).fetchall() == [(None,)]


def test_the_rows_behind_the_functions_are_not_open_to_the_application(team: Team) -> None:
    with pytest.raises(InsufficientPrivilege), team.database.of(1) as rows:
        rows.execute("select from listed_session")


def test_of_two_machines_the_longer_copy_is_listed_and_copies_that_differ_both_are(team: Team) -> None:
    anna = team.founded()
    laptop, desk = Sender(team, anna), Sender(team, anna, DESK)
    laptop.send(*cut([["a"], ["b"]]))
    desk.send(*cut([["a"]]))
    found = team.ask("GET", "/v1/sessions", anna.token)[1]["sessions"]
    assert [(each["event_count"], each["machine"]) for each in found] == [(2, LAPTOP)]
    desk.send(cut([["a"], ["c"]])[1])
    assert len(listed(laptop)) == 2


def test_the_token_changes_with_what_comes_what_goes_and_what_is_derived(team: Team) -> None:
    sender, eve = Sender(team, team.founded()), Sender(team, team.founded("eve"))

    def token() -> str:
        said: str = team.ask("GET", "/v1/change-token", sender.token)[1]["token"]
        return said

    tokens = [token()]
    for change in (lambda: sender.send(*cut([["a"]])), lambda: team.derive(sender.who), sender.forget):
        change()
        tokens.append(token())
    assert len(set(tokens)) == len(tokens)
    eve.send(*cut([["a"]]))
    assert token() == tokens[-1]


@pytest.mark.parametrize("query", [
    "limit=x", "since=yesterday", "since=2026-01-01T00:00:00", "unknown=1", "after=x", "after=WzFd", "title=%00",
    f"branch={'*' * 1_001}",
])  # fmt: skip
def test_a_question_that_is_none_is_refused(query: str, team: Team) -> None:
    status, found = team.ask("GET", f"/v1/sessions?{query}", team.founded().token)
    assert (status, found["error"]["kind"]) == (400, "request_wrong")


@pytest.mark.parametrize("person", [2**63, 10**30, -1])
def test_a_place_behind_a_person_that_cannot_be_is_refused(person: int, team: Team) -> None:
    who = team.founded()
    place = base64.urlsafe_b64encode(json.dumps([1.0, UID, person, "m"]).encode()).decode()
    for path in ("/v1/sessions?", "/v1/search?words=x&"):
        status, found = team.ask("GET", f"{path}after={place}", who.token)
        assert (status, found["error"]["kind"]) == (400, "request_wrong"), path
    assert team.ask("POST", "/v1/session-parts", who.token, {"after": place})[0] == 400


# plans ----------------------------------------------------------------------------------------------------------------


PLANNED = """
load 'auto_explain';
set auto_explain.log_min_duration = 0; set auto_explain.log_nested_statements = on; set auto_explain.log_analyze = on;
set auto_explain.log_timing = off; set client_min_messages = log; set role backstory_app; set search_path = backstory
"""
FILL = """
insert into session (tenant, person, uid, machine, repository, epoch, frames, events, title, agent, branch, created,
  last_active, generation)
select t, 1, '01M3250V00' || lpad(n::text, 16, '0'), 'M', 'me/app', 1, 1, 1, 'title ' || n, 'claude', 'main', now(),
  '2026-01-01'::timestamptz + n * interval '1 minute', 1 from generate_series(1, 4000) n, (values (1), (2)) o(t);
insert into derivation (tenant, person, session, machine, version, epoch, frames, listed, heading, name, native_id,
  is_run, agents, branches)
select tenant, 1, uid, 'M', 1, 1, 1, '{}', 'title', uid, 'native ' || uid, false, '{claude}', '{main}' from session;
insert into frame (tenant, person, session, machine, epoch, number, chain, events, is_end, generation, head, data)
select tenant, 1, uid, 'M', 1, 1, uid::bytea, 1, true, 1, '', '' from session;
insert into turn (tenant, person, session, machine, number, uid, first_seq, last_seq, agent, is_run, tools)
select tenant, 1, uid, 'M', 1, 'T' || uid, 1, 1, 'claude', false, '{}' from session
"""


@pytest.fixture(scope="module")
def plans(postgres: str) -> Iterator[Callable[[str], str]]:
    """The plans of what the functions do for one of two organisations with many sessions."""
    with empty_database(postgres) as address, prepared(address):
        name = address.rpartition("dbname=")[2]
        admin = f"{postgres.rpartition('dbname=')[0]} dbname={name}"
        with psycopg.connect(admin, autocommit=True) as connection:
            connection.execute("set search_path = backstory")
            for each in FILL.split(";"):
                connection.execute(each.encode())
            connection.execute("analyze")
            connection.execute(PLANNED.encode())
            said = list[str]()
            connection.add_notice_handler(lambda each: said.append(each.message_primary or ""))

            def planned(call: str) -> str:
                connection.execute("select set_config('backstory.tenant', '1', false)")
                said.clear()
                connection.execute(call.encode()).fetchall()
                return "\n".join(said)

            yield planned


@pytest.mark.parametrize(("call", "index"), [
    (f"sessions_found(1{', null' * 12}, 50)", "session_in_order"),
    (f"sessions_found(1{', null' * 8}, '2026-01-02', 'S9', 1, 'M', 50)", "session_in_order"),
    (f"session_parts(1, null, null, null, '2026-01-02', null, true{', null' * 4}, 50)", "session_in_order"),
    ("session_parts(1, null, 1, 'app', '2026-01-02', null, true, '2026-01-02', 'S9', 1, 'M', 50)", "session_in_order"),
    (f"session_parts(1, null, null, null, null, null, false{', null' * 4}, 50)", "session_in_order"),
    ("sessions_called(1, null, 'uid', '01M3250V000000000000000077', 8)", "session_of_uid"),
    ("sessions_called(1, null, 'uid prefix', '01M3250V000000000000000077', 8)", "session_of_uid"),
    ("sessions_called(1, null, 'name', 'x', 8)", "derivation_of_name"),
    ("sessions_called(1, null, 'native prefix', 'x', 8)", "derivation_of_native"),
])  # fmt: skip
def test_a_question_is_answered_by_an_index(call: str, index: str, plans: Callable[[str], str]) -> None:
    plan = plans(f"select * from {call}")
    assert index in plan
    assert not re.search(r"Seq Scan on (session|turn|frame|derivation)", plan), plan


@pytest.mark.parametrize("time", ["infinity", "10000-01-01T00:00:00Z", "0001-01-01 BC", "now", "2026-09-21T14:13:20"])
def test_a_time_that_no_calendar_has_hides_nothing_from_others(time: str, team: Team) -> None:
    anna = team.founded()
    sender, eve = Sender(team, anna), Sender(team, team.joined(anna, "eve"))
    sender.send(*cut([["a"]]))
    lines = [line("session", uid=OTHER, created=time, last_active=time, next_seq=1, title="x"),
             line("session_end", uid=OTHER, turns=0, events=0)]  # fmt: skip
    eve.send(*frames.frames(lines, session=OTHER, epoch=1, is_redacted=True))
    assert (UID, "anna") in listed(sender)
    assert repositories(sender)
