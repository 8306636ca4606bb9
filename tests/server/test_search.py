"""A search of an organisation's history: what is found, and nothing of anybody else's."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from backstory.ask.query import asked
from backstory.exchange import frames
from backstory.server import searching, turn_words
from backstory.server.database import _SAMPLED, prepared
from backstory.server.jobs import TRIES_MAX
from backstory.server.searching import labelled, tsquery
from backstory.server.turn_words import (
    SaidText,
    SaidTurn,
    agent_label,
    label,
    repository_label,
    sign_of,
    words_of,
)
from tests.support.clock import Clock
from tests.support.senders import DESK, LAPTOP, OTHER, UID, Sender, cut, line
from tests.support.team import empty_database, team_of

if TYPE_CHECKING:
    from tests.support.team import Team

THIRD = "01M3250V00CJ5X1JHP0Z69AWSS"
T1, T2 = "01M3250V00TTTTTTTTTTTTTTT1", "01M3250V00TTTTTTTTTTTTTTT2"
CALL = {"tool_name": "Bash", "tool": "shell", "tool_use_id": "a"}
Texts = list[tuple[str, dict[str, Any]]]


@pytest.fixture
def sender(team: Team) -> Sender:
    return Sender(team, team.founded())


def session(
    turns: list[tuple[str, Texts]], uid: str = UID, repository: str = "github.com/me/app", **head: Any
) -> list[bytes]:
    """The frames of a session with these turns: when each began, and its events."""
    events, told = list[bytes](), list[bytes]()
    for number, (started, texts) in enumerate(turns, 1):
        turn = f"01M3250V00TTTTTTTTTTTT{uid[-3:]}{number}"
        first = len(events) + 1
        events += [line("event", seq=first + n, turn=turn, event={kind: said}) for n, (kind, said) in enumerate(texts)]
        told.append(line("turn", uid=turn, first_seq=first, last_seq=len(events), agent="claude", started=started))
    lines = [
        line("session", uid=uid, created=turns[0][0], last_active=turns[-1][0], next_seq=len(events) + 1, title=uid,
             repository=repository, branch="main", **head),
        *told, *events, line("session_end", uid=uid, turns=len(told), events=len(events)),
    ]  # fmt: skip
    return [*frames.frames(lines, session=uid, is_redacted=True)]


def month(number: int, text: str, uid: str = UID, **more: Any) -> list[bytes]:
    """A session of one turn in a month of 2026."""
    return session([(f"2026-{number:02}-05T10:00:00.000Z", [("UserMessage", {"content": text})])], uid, **more)


def send(sender: Sender, *frames: bytes) -> None:
    sender.send(*frames)
    sender.team.derive(sender.who)


def search(sender: Sender, words: str, **more: object) -> dict[str, Any]:
    status, found = sender.team.ask("GET", f"/v1/search?{urlencode({'words': words, **more})}", sender.token)
    assert status == 200, found
    answer: dict[str, Any] = found
    return answer


def uids(sender: Sender, words: str, **more: object) -> list[str]:
    return [each["uid"] for each in search(sender, words, **more)["hits"]]


def refusal(sender: Sender, query: dict[str, object]) -> tuple[int, str]:
    status, found = sender.team.ask("GET", f"/v1/search?{urlencode(query)}", sender.token)
    return status, found["error"]["kind"]


# what is found --------------------------------------------------------------------------------------------------------


WORKED: Texts = [
    ("UserMessage", {"content": "Fix the naïve getUserName, rate limit of C++"}),
    ("Thinking", {"text": "pondering"}),
    ("ToolCall", {**CALL, "input": {"command": "grep " + "x" * 600 + " behind"}}),
    ("ToolResult", {"tool_use_id": "a", "tool_name": "Bash", "content": "printed"}),
    ("Plan", {"name": "plan", "content": "First the logs of 1a2b3c4d5e"}),
    ("AssistantText", {"text": "It's done."}),
]


@pytest.mark.parametrize(("words", "seq", "scope", "is_near"), [
    ("naive", 1, "prompt", False), ("NAÏVE getusername", 1, "prompt", False), ('"rate limit"', 1, "prompt", False),
    ("user-name", 1, "prompt", True), ("C++", 1, "prompt", False), ("log*", 5, "answer", False),
    ("1a2b3c4", 5, "answer", False), ("grep", 3, "tool_input", False), ("done naive", 1, "prompt", False),
    ('"it\'s done', 6, "answer", False),
])  # fmt: skip
def test_a_hit_says_where_the_words_are(words: str, seq: int, scope: str, is_near: bool, sender: Sender) -> None:
    send(sender, *session([("2026-09-21T14:13:10.123Z", WORKED)]))
    (hit,) = search(sender, words)["hits"]
    assert (hit["uid"], hit["seq"], hit["scope"], hit["near"]) == (UID, seq, scope, is_near)
    assert (hit["person"], hit["machine"], hit["at"]) == ("anna", LAPTOP, "2026-09-21T14:13:10.123Z")


@pytest.mark.parametrize(
    "words", ["pondering", "printed", "behind", "nai", '"limit rate"', "C#", "absent", "naive absent"]
)
def test_what_is_not_searched_or_not_there_is_not_found(words: str, sender: Sender) -> None:
    send(sender, *session([("2026-09-21T14:13:10.123Z", WORKED)]))
    found = search(sender, words)
    assert (found["hits"], found["total"], found["totals"]["session_count"], found["end"]) == ([], 0, 0, None)
    assert "tool output is not searched here" in found["searched"]


def test_the_excerpt_marks_the_words(sender: Sender) -> None:
    send(sender, *session([("2026-09-21T14:13:10.123Z", WORKED)]))
    (hit,) = search(sender, '"rate limit"')["hits"]
    assert hit["snippet"] == "Fix the naïve getUserName, rate limit of C++"
    assert [hit["snippet"][start:end] for start, end in hit["marks"]] == ["rate limit"]


def test_scopes_narrow_it_and_words_as_typed_leave_out_parts_of_identifiers(sender: Sender) -> None:
    send(sender, *session([("2026-09-21T14:13:10.123Z", WORKED)]))
    scoped = {
        scope: [word for word in ("naive", "done", "grep") if uids(sender, word, scope=scope)]
        for scope in ("prompt", "answer", "tool_input", "prompt,answer", "command")
    }
    assert scoped == {"prompt": ["naive"], "answer": ["done"], "tool_input": ["grep"],
                      "prompt,answer": ["naive", "done"], "command": []}  # fmt: skip
    assert (uids(sender, "user-name"), uids(sender, "user-name", near="false")) == ([UID], [])
    assert refusal(sender, {"words": "printed", "scope": "tool_output"}) == (400, "scope_not_searched")


def test_filters_are_those_of_the_list_and_times_are_those_of_turns(sender: Sender) -> None:
    ben = Sender(sender.team, sender.team.joined(sender.who, "ben"))
    send(sender, *month(3, "needle"), *month(5, "needle", OTHER, repository="github.com/me/other"))
    send(ben, *month(7, "needle", THIRD))
    assert uids(sender, "needle") == [THIRD, OTHER, UID]
    narrowed: dict[str, dict[str, object]] = {
        "person": {"person": "ben"}, "repository": {"repository": "other"}, "since": {"since": "2026-05-01T00:00:00Z"},
        "until": {"until": "2026-05-01T00:00:00Z"}, "title": {"title": UID}, "session": {"session": OTHER},
        "agent": {"agent": "codex"}, "branch": {"branch": "mai*", "person": "anna"},
    }  # fmt: skip
    assert {name: uids(sender, "needle", **more) for name, more in narrowed.items()} == {
        "person": [THIRD], "repository": [OTHER], "since": [THIRD, OTHER], "until": [UID], "title": [UID],
        "session": [OTHER], "agent": [], "branch": [OTHER, UID],
    }  # fmt: skip


def test_all_hits_of_a_session_are_listed_the_newest_first(sender: Sender) -> None:
    turns = [(f"2026-0{n}-01T00:00:00Z", [("UserMessage", {"content": f"needle {n}"})]) for n in (1, 2, 3)]
    send(sender, *session(turns))
    (one,) = search(sender, "needle")["hits"]
    assert (one["snippet"], one["session_hits"]) == ("needle 3", 3)
    found = search(sender, "needle", session=UID, all_hits="true")
    assert [each["snippet"] for each in found["hits"]] == ["needle 3", "needle 2", "needle 1"]
    assert refusal(sender, {"words": "needle", "all_hits": "true"}) == (400, "request_wrong")


def test_all_hits_are_those_of_each_copy_and_all_are_counted(sender: Sender) -> None:
    ben = Sender(sender.team, sender.team.joined(sender.who, "ben"), DESK)
    turns = [(f"2026-0{n}-01T00:00:00Z", [("UserMessage", {"content": f"needle {n}"})]) for n in (1, 2, 3)]
    send(sender, *session(turns[:2]))
    send(ben, *session(turns))
    found = search(sender, "needle", session=UID, all_hits="true")
    assert [(each["person"], each["snippet"]) for each in found["hits"]] == [
        ("ben", "needle 3"), ("ben", "needle 2"), ("ben", "needle 1"), ("anna", "needle 2"), ("anna", "needle 1"),
    ]  # fmt: skip
    cut_off = search(sender, "needle", session=UID, all_hits="true", limit=2)
    assert [(each["total"], len(each["hits"]), each["truncated"]) for each in (found, cut_off)] == [
        (5, 5, False), (5, 2, True)
    ]  # fmt: skip


# pages ----------------------------------------------------------------------------------------------------------------


def test_pages_go_on_from_month_to_month_and_name_each_session_once_where_its_newest_hit_is(sender: Sender) -> None:
    early, late = ("2026-01-05T10:00:00Z", [("UserMessage", {"content": "needle"})]), "2026-08-05T10:00:00Z"
    send(sender, *session([early, (late, early[1])]), *month(3, "needle", OTHER), *month(6, "needle", THIRD))
    found = search(sender, "needle", limit=1)
    pages = [[each["uid"] for each in found["hits"]]]
    while found["end"] is not None:
        found = search(sender, "needle", limit=1, after=found["end"])
        pages.append([each["uid"] for each in found["hits"]])
    assert pages == [[UID], [THIRD], [OTHER], []]
    assert search(sender, "needle", limit=2)["totals"]["at_least"] is True
    whole = search(sender, "needle")
    assert (whole["total"], whole["totals"]["session_count"], whole["totals"]["at_least"]) == (4, 3, False)


# who sees what --------------------------------------------------------------------------------------------------------


def everything(sender: Sender) -> list[Any]:
    asked = ["words=needle", "words=need*", f"words=needle&session={UID}", "words=needle&person=ben"]
    return [sender.team.ask("GET", f"/v1/search?{each}", sender.token) for each in asked]


def test_nothing_of_another_organisation_is_found_counted_or_said(team: Team) -> None:
    sender, eve = Sender(team, team.founded()), Sender(team, team.founded("eve"))
    nothing = everything(eve)
    send(sender, *month(3, "needle"))
    sender.send(*month(4, "needle", OTHER))
    assert uids(sender, "needle") == [UID]
    assert everything(eve) == nothing


def test_a_token_of_some_repositories_finds_and_counts_these_alone(sender: Sender) -> None:
    nothing = everything(sender)
    send(sender, *month(3, "needle"))
    sender.send(*month(4, "needle", OTHER))
    assert everything(sender) != nothing
    with sender.team.database.of(sender.tenant) as rows:
        rows.execute("update token set repositories = %s where tenant = %s", (["github.com/me/none"], sender.tenant))
    assert everything(sender) == nothing


APP, SECRET = "github.com/me/app", "github.com/me/secret"


def limit_to(sender: Sender, *repositories: str) -> None:
    """From here on the token is good for these alone."""
    with sender.team.database.of(sender.tenant) as rows:
        rows.execute("update token set repositories = %s where tenant = %s", (list(repositories), sender.tenant))


def test_a_helper_is_found_by_its_own_repository_whoever_it_works_for(sender: Sender) -> None:
    helper = {"relation": "subagent", "parent": UID[10:]}
    send(sender, *month(3, "open"), *month(4, "needle", OTHER, repository=SECRET, **helper))
    send(sender, *month(5, "needle", THIRD, **helper | {"parent": OTHER[10:]}))
    assert uids(sender, "needle") == [THIRD, OTHER], "Also the helper of a helper."
    assert uids(sender, "needle", title=UID) == [THIRD, OTHER], "By the title of what is listed."
    assert uids(sender, "needle", title=THIRD) == []
    limit_to(sender, APP)
    assert uids(sender, "needle") == uids(sender, "needle", title=THIRD) == [THIRD]
    assert (uids(sender, "needle", title=UID), uids(sender, "needle", title=OTHER)) == ([], [])
    limit_to(sender, SECRET)
    assert uids(sender, "needle") == uids(sender, "needle", title=OTHER) == [OTHER]


def test_a_parent_of_another_repository_is_not_named(sender: Sender) -> None:
    send(sender, *month(3, "open", repository=SECRET))
    send(sender, *month(4, "needle", OTHER, relation="subagent", parent=UID[10:]))

    def parents() -> list[str | None]:
        _, head = sender.team.ask("GET", f"/v1/sessions/{OTHER}", sender.token)
        (hit,) = search(sender, "needle")["hits"]
        return [head["session"]["parent_uid"], hit["parent_uid"]]

    assert parents() == [UID, UID]
    limit_to(sender, APP)
    assert parents() == [None, None]


def test_where_a_fork_comes_from_is_not_named_if_it_is_of_another_repository(sender: Sender) -> None:
    send(sender, *month(3, "needle", repository=SECRET))
    shared = month(3, "needle", OTHER, relation="fork")
    send(sender, *shared)
    turn = "update turn set uid = 'T' where tenant = %s"
    with sender.team.database.of(sender.tenant) as rows:
        rows.execute(turn, (sender.tenant,))
    (of_fork,) = search(sender, "needle", session=OTHER)["hits"]
    limit_to(sender, APP)
    (limited,) = search(sender, "needle", session=OTHER)["hits"]
    assert (of_fork["parent_uid"], limited["parent_uid"]) == (UID, None)


def test_what_is_of_others_is_not_walked_but_passed_over_in_the_index(sender: Sender) -> None:
    send(sender, *month(3, "needle"), *month(4, "needle", OTHER, repository="github.com/ME/Secret/"))

    def walked(of: str) -> list[str]:
        wanted = tsquery(asked("needle", with_forms=False), sign_of(sender.tenant)) + of
        with sender.team.database.of(sender.tenant) as rows:
            found = "select session from turn_text where tenant = %s and words @@ %s::tsquery order by at"
            return [uid for (uid,) in rows.execute(found, (sender.tenant, wanted)).fetchall()]

    def of(among: list[str] | None = None, agent: str | None = None, repository: str | None = None) -> list[str]:
        return walked(labelled(sign_of(sender.tenant), among, agent, repository))

    both = [UID, OTHER]
    assert [of(), of([APP]), of([APP, "github.com/ME/Secret/"]), of([SECRET])] == [both, [UID], both, []]
    assert [of(agent="claude"), of(agent="codex")] == [both, []]
    assert [of(repository=each) for each in ("app", "me/app", APP, "e/app", "secret/", "needle")] == [
        [UID], [UID], [UID], [], [OTHER], []
    ]  # fmt: skip
    assert of(repository="/".join("a" * 40)) == both, "This is looked at afterwards."


def test_a_label_is_no_word_that_can_be_searched(sender: Sender) -> None:
    send(sender, *month(3, "needle"))
    for each in (repository_label(APP), agent_label("claude"), label("place", "app")):
        assert uids(sender, each) == uids(sender, f"{each[:5]}*") == []


def test_a_token_of_no_repository_finds_nothing(sender: Sender) -> None:
    send(sender, *month(3, "needle"))
    limit_to(sender)
    assert uids(sender, "needle") == []


def test_a_phrase_is_not_found_across_two_texts(sender: Sender) -> None:
    texts: Texts = [("UserMessage", {"content": "first needle"}), ("AssistantText", {"text": "thread last"})]
    send(sender, *session([("2026-03-05T10:00:00Z", texts)]))
    assert (uids(sender, '"needle thread"'), uids(sender, '"first needle"')) == ([], [UID])
    assert uids(sender, "needle thread") == [UID]


def test_a_hit_beyond_what_is_kept_shows_the_beginning_of_its_turn(
    sender: Sender, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turn_words, "SAID_CHARS_MAX", 10)
    texts: Texts = [("UserMessage", {"content": "first words of it"}), ("AssistantText", {"text": "needle"})]
    send(sender, *session([("2026-03-05T10:00:00Z", texts)]))
    (hit,) = search(sender, "needle", scope="answer")["hits"]
    assert (hit["uid"], hit["snippet"], hit["marks"]) == (UID, "first word", [])


def test_a_token_without_the_right_to_search_is_refused(sender: Sender) -> None:
    with sender.team.database.of(sender.tenant) as rows:
        rows.execute("update token set scopes = '{read}' where tenant = %s", (sender.tenant,))
    assert refusal(sender, {"words": "needle"}) == (403, "not_allowed")


def test_a_copy_that_is_not_listed_is_no_hit(sender: Sender) -> None:
    desk = Sender(sender.team, sender.who, DESK)
    send(sender, *cut([["needle"], ["more"]]))
    send(desk, *cut([["needle"]]))
    found = search(sender, "needle")
    assert [(each["uid"], each["machine"]) for each in found["hits"]] == [(UID, LAPTOP)]
    assert found["totals"]["session_count"] == 1


def test_a_removed_session_and_one_sent_anew_leave_no_words(sender: Sender) -> None:
    send(sender, *cut([["needle"]]))
    sender.send(*cut([["masked"]], epoch=2))
    assert uids(sender, "needle") == []
    sender.forget()
    with sender.team.database.of(sender.tenant) as rows:
        assert rows.execute("select count(*) from turn_text").fetchall() == [(0,)]


def test_an_answer_says_how_many_sessions_the_index_waits_for(sender: Sender) -> None:
    sender.send(*month(3, "needle"), *month(4, "needle", OTHER))
    assert search(sender, "needle")["waiting_sessions"] == 2
    sender.team.derive(sender.who)
    found = search(sender, "needle")
    assert (found["waiting_sessions"], len(found["hits"])) == (0, 2)


def test_a_session_that_was_given_up_is_none_that_the_index_waits_for(sender: Sender) -> None:
    sender.send(*month(3, "needle"))
    for tries, waiting in ((TRIES_MAX - 1, 1), (TRIES_MAX, 0)):
        with sender.team.database.of(sender.tenant) as rows:
            rows.execute("update job set tries = %s", (tries,))
        assert search(sender, "needle")["waiting_sessions"] == waiting


# months ---------------------------------------------------------------------------------------------------------------


def test_a_month_that_two_make_at_once_is_made_once_behind_the_wall_and_without_samples(empty: str) -> None:
    with prepared(empty) as database:

        def make(_: int) -> None:
            with database.of(0) as rows:
                rows.execute("select make_turn_month('2026-03-01')")

        with ThreadPoolExecutor(4) as threads:
            list(threads.map(make, range(8)))
        with database.of(0) as rows:
            parts = rows.execute(PARTS).fetchall()
            sampled = rows.execute(_SAMPLED.encode(), ("backstory",)).fetchall()
    assert parts == [(name, True, True, True, False) for name in ("turn_text_2026_03", "turn_text_other")]
    assert sampled == []


def reading_all(address: str) -> psycopg.Connection[tuple[Any, ...]]:
    """Somebody who reads all tables, and goes on, as ``pg_dump`` does."""
    connection = psycopg.connect(address)
    tables = connection.execute(EACH_PART).fetchall()
    connection.execute(f"lock table {', '.join(name for (name,) in tables)} in access share mode".encode())
    return connection


EACH_PART = "select relid::text from pg_partition_tree('backstory.turn_text') where level >= 0"


def test_a_month_is_made_while_a_copy_is_made(empty: str) -> None:
    with team_of(empty, Clock()) as team, reading_all(empty):
        sender = Sender(team, team.founded())
        send(sender, *month(3, "needle"))
        assert uids(sender, "needle") == [UID]


def test_a_month_that_cannot_be_made_now_takes_no_try_of_a_session(empty: str) -> None:
    with team_of(empty, Clock()) as team, psycopg.connect(empty) as other:
        sender = Sender(team, team.founded())
        sender.send(*month(3, "needle"))
        other.execute("alter function backstory.make_turn_month set lock_timeout = '1ms'")
        other.commit()
        other.execute("lock table backstory.turn_text in share update exclusive mode")
        for _ in range(TRIES_MAX + 1):
            assert team.deriving.work() == 1
            team.clock.ms += 60_000
        assert search(sender, "needle")["waiting_sessions"] == 1
        other.rollback()
        assert team.deriving.work() == 1
        assert uids(sender, "needle") == [UID]


def test_this_month_and_the_next_are_made_before_something_goes_into_them(empty: str) -> None:
    clock = Clock()
    clock.ms = 1_797_000_000_000
    with team_of(empty, clock) as team:
        for made in (["2026_12", "2027_01"], ["2026_12", "2027_01", "2027_02"]):
            team.deriving.work()
            with team.database.of(0) as rows:
                found = [name for name, *_ in rows.execute(PARTS).fetchall()]
            assert found == [*(f"turn_text_{each}" for each in made), "turn_text_other"]
            clock.ms += 31 * 24 * 3_600_000


PARTS = """
select c.relname, c.relrowsecurity, c.relforcerowsecurity,
  exists (select from pg_policy p where p.polrelid = c.oid and p.polname = 'of_tenant'),
  has_table_privilege('backstory_app', c.oid, 'select')
from pg_inherits i join pg_class c on c.oid = i.inhrelid where i.inhparent = 'backstory.turn_text'::regclass order by 1
"""


@pytest.mark.parametrize("month", ["2026-03-02", "1999-12-01", "9999-01-01", "infinity"])
def test_no_table_is_made_for_what_is_no_month(month: str, team: Team) -> None:
    with pytest.raises(psycopg.errors.RaiseException), team.database.of(0) as rows:
        rows.execute("select make_turn_month(%s)", (month,))


@pytest.mark.parametrize(("started", "at"), [
    ("9999-12-31T23:59:59Z", "2026-09-21T14:13:20.000Z"), ("1970-01-01T00:00:00Z", "1970-01-01T00:00:00.000Z"),
    ("1999-12-31T23:59:59Z", "1999-12-31T23:59:59.000Z"),
])  # fmt: skip
def test_a_turn_of_any_time_is_found_and_makes_no_month_of_its_own(started: str, at: str, sender: Sender) -> None:
    send(sender, *session([(started, [("UserMessage", {"content": "needle"})])]))
    assert [each["at"] for each in search(sender, "needle")["hits"]] == [at]
    with sender.team.database.of(0) as rows:
        names = [name for name, *_ in rows.execute(PARTS).fetchall()]
    assert [name for name in names if not name.startswith(("turn_text_202", "turn_text_other"))] == []


# hostile --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [
    "x" * 2_001, " ".join(f"w{n}" for n in range(10_000)), "needle\0", "ж" * 600, " ".join(f"w{n}" for n in range(65)),
])  # fmt: skip
def test_a_query_that_is_too_much_is_refused(words: str, sender: Sender) -> None:
    assert refusal(sender, {"words": words}) == (400, "request_wrong")


@pytest.mark.parametrize("words", [
    "needle:*", "needle' | 'other", "((((needle))))", "needle & !other", "'needle':A", r"needle\'",
    '"needle', "needle <-> ",
])  # fmt: skip
def test_signs_of_the_database_are_no_signs_of_a_query(words: str, sender: Sender) -> None:
    send(sender, *month(3, "needle"), *month(4, "other", OTHER))
    assert uids(sender, words) in ([], [UID])


@pytest.mark.parametrize("words", ["", "*", '""', "_ -- !", "\ue000"])
def test_a_query_without_a_word_finds_nothing(words: str, sender: Sender) -> None:
    send(sender, *month(3, "needle"))
    assert uids(sender, words) == []


@pytest.mark.parametrize("query", [{"unknown": 1}, {"limit": "x"}, {"after": "x"}, {"since": "yesterday"}])
def test_a_field_that_nobody_knows_is_refused(query: dict[str, object], sender: Sender) -> None:
    assert refusal(sender, {"words": "x", **query}) == (400, "request_wrong")


def test_a_search_that_takes_too_long_is_ended_with_a_sentence(sender: Sender, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "SECONDS_MAX", 0.01)
    monkeypatch.setattr(searching, "_FOUND", f"{searching._FOUND}, pg_sleep(5)")
    assert refusal(sender, {"words": "needle"}) == (422, "search_too_long")


# nothing is missed ----------------------------------------------------------------------------------------------------


PIECES = st.sampled_from(["limit", "getUserName", "user_name", "naïve", "HTTPServer2", "C++", "C#", "日本語", "it's",
                          "a1b2c3d4", "x-ray", "Limits", "ﬁne", "İstanbul", "12345678", "e\u0301t\u0301"])  # fmt: skip
TEXT = st.lists(PIECES, min_size=1, max_size=12).map(" ".join)


@pytest.fixture(scope="module")
def scanning(made_team: Team) -> Iterator[Callable[[str, str], bool]]:
    """Asks PostgreSQL whether a text has what is looked for."""
    with psycopg.connect(made_team.database.address, autocommit=True) as connection:

        def has(text: str, query: str) -> bool:
            words = SaidTurn([SaidText(1, 0, "UserMessage", "prompt", text)]).words("")
            return connection.execute("select %s::tsvector @@ %s::tsquery", (words, query)).fetchall() == [(True,)]

        yield has


def scan(text: str, typed: str, *, is_prefix: bool = False) -> bool:
    """True if a text has the words of what was typed, one behind the other."""
    words, wanted = list(words_of(text)), list(words_of(typed))
    last = len(wanted) - 1
    return any(
        words[at : at + last] == wanted[:-1] and words[at + last : at + last + 1] != [] and (
            words[at + last].startswith(wanted[-1]) if is_prefix else words[at + last] == wanted[-1])
        for at in range(len(words) - last)
    )  # fmt: skip


def test_no_word_of_an_organisation_is_one_of_another_in_the_index(team: Team, postgres: str) -> None:
    """Else the time that a search takes would tell which words others have."""
    words = list[set[str]]()
    for name in ("anna", "ben"):
        sender = Sender(team, team.founded(name))
        sender.send(*cut([["heliotrope and getUserName"]]))
        team.derive(sender.who)
        with psycopg.connect(postgres, dbname="backstory") as rows:
            found = rows.execute(
                "select unnest(tsvector_to_array(words)) from backstory.turn_text where tenant = %s", (sender.tenant,)
            ).fetchall()
        words.append({word for (word,) in found})
        assert len(words[-1]) > 3
    assert words[0].isdisjoint(words[1])


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=TEXT, data=st.data())
def test_words_phrases_and_prefixes_of_a_text_are_found_and_others_are_not(
    text: str, data: st.DataObject, scanning: Callable[[str, str], bool]
) -> None:
    words = text.split()
    first = data.draw(st.integers(0, len(words) - 1))
    phrase = " ".join(words[first : data.draw(st.integers(first + 1, len(words)))])
    assert scanning(text, tsquery(asked(f'"{phrase}"', with_forms=False), ""))
    other = data.draw(TEXT)
    if not {"C++", "C#", "a1b2c3d4", "12345678"} & {*other.split()}:
        assert scanning(text, tsquery(asked(f'"{other}"', with_forms=False), "")) == scan(text, other)
    word = data.draw(st.sampled_from([each for each in words if each.isalnum()] or ["absent"]))
    begin = word[: data.draw(st.integers(1, len(word)))]
    assert scanning(text, tsquery(asked(f"{begin}*", with_forms=False), "")) == scan(text, begin, is_prefix=True)


@pytest.mark.parametrize("typed", ["user name", "user-name", "User_Name", "userName", "getUserName", "getusername"])
def test_identifiers_are_found_by_their_parts(typed: str, scanning: Callable[[str, str], bool]) -> None:
    found = asked(f'"{typed}"', with_forms=False)
    assert scanning("calls getUserName twice", tsquery(found, "", in_any_way=True))


# plans ----------------------------------------------------------------------------------------------------------------


PLANNED = """
load 'auto_explain';
set auto_explain.log_min_duration = 0; set auto_explain.log_nested_statements = on; set auto_explain.log_analyze = on;
set auto_explain.log_timing = off; set client_min_messages = log; set role backstory_app; set search_path = backstory
"""
FILL = """
select make_turn_month(m::date) from generate_series('2026-01-01'::timestamp, '2026-06-01', '1 month') m;
insert into session (tenant, person, uid, machine, repository, epoch, frames, events, title, agent, branch, created,
  last_active, generation)
select t, 1, '01M3250V00' || lpad(n::text, 16, '0'), 'M', 'me/app', 1, 1, 1, 'title ' || n, 'claude', 'main', now(),
  '2026-01-01'::timestamptz + n * interval '1 hour', 1 from generate_series(1, 4300) n, (values (1), (2)) o(t)
where t = 2 or n % 10 = 0;
insert into derivation (tenant, person, session, machine, version, epoch, frames, listed, heading, name, native_id,
  is_run, agents, branches)
select tenant, 1, uid, 'M', 1, 1, 1, '{}', 'title', uid, 'native ' || uid, false, '{claude}', '{main}' from session;
insert into turn_text (tenant, person, session, machine, number, month, at, said, words)
select tenant, 1, uid, 'M', 1, date_trunc('month', last_active at time zone 'UTC'), last_active, '[]',
  ('common:1A w' || (hashtext(uid) & 1023) || ':2B' || case tenant when 2 then ' hidden:3A' else '' end)::tsvector
from session;
insert into turn_text (tenant, person, session, machine, number, month, at, said, words)
select 1, 1, 'old', 'M', n, '0001-01-01', '2010-01-01', '[]', 'old:1A' from generate_series(1, 2000) n
"""


@pytest.fixture(scope="module")
def plans(postgres: str) -> Iterator[Callable[[str], list[str]]]:
    """The plans of what a search does for one of two organisations, in order."""
    with empty_database(postgres) as address, prepared(address):
        name = address.rpartition("dbname=")[2]
        with psycopg.connect(f"{postgres.rpartition('dbname=')[0]} dbname={name}", autocommit=True) as connection:
            connection.execute("set search_path = backstory")
            for each in FILL.split(";"):
                connection.execute(each.encode())
            connection.execute("analyze")
            connection.execute(PLANNED.encode())
            said = list[str]()
            connection.add_notice_handler(lambda each: said.append(each.message_primary or ""))

            def planned(call: str) -> list[str]:
                connection.execute("select set_config('backstory.tenant', '1', false)")
                said.clear()
                connection.execute(call.encode()).fetchall()
                return said[:]

            yield planned


def asks(words: str, /, most: int = 20, **more: Any) -> str:
    names = ("session", "person", "agent", "repository", "branch", "since", "until", "title", "a", "u", "p", "m")
    given = ", ".join(more.get(each, "null") for each in names)
    return f"select * from sessions_with(1, null, '{words}', '{words}', {given}, 1, {most})"


def months(plans: list[str]) -> list[str]:
    """The months whose index of words was asked, in order."""
    return re.findall(r"on (turn_text_\w+?)_tenant_words_idx", "\n".join(plans))


def test_a_search_asks_the_index_of_one_month_after_the_other_and_stops_when_the_page_is_full(
    plans: Callable[[str], list[str]],
) -> None:
    found = plans(asks("common"))
    assert months(found) == ["turn_text_2026_06"]
    assert re.search(r"Seq Scan on (turn_text|session|derivation|frame|turn)", "\n".join(found)) is None
    everywhere = months(plans(asks("absent")))
    assert everywhere == [*(f"turn_text_2026_0{n}" for n in (6, 5, 4, 3, 2, 1)), "turn_text_other"]
    assert months(plans(asks("w77", 500))) == everywhere


def test_months_that_no_time_asks_for_are_not_read(plans: Callable[[str], list[str]]) -> None:
    assert months(plans(asks("absent", since="'2026-05-31T00:00Z'"))) == [
        "turn_text_2026_06", "turn_text_2026_05", "turn_text_other"
    ]  # fmt: skip
    place: dict[str, Any] = {"a": "'2026-02-27T00:00Z'", "u": "'S'", "p": "1", "m": "'M'"}
    assert months(plans(asks("common", **place))) == ["turn_text_2026_02"]


def test_a_word_of_nobody_and_one_of_somebody_else_are_asked_for_alike(plans: Callable[[str], list[str]]) -> None:
    def shape(words: str) -> list[str]:
        return [
            re.sub(r"[\d.]+", "", each.partition("'tsquery")[0]) for each in plans(asks(words)) if "turn_text t" in each
        ]

    assert len(shape("absent")) == len(shape("hidden")) == 7
    assert months(plans(asks("hidden"))) == months(plans(asks("absent")))


def test_without_the_function_no_index_of_words_is_used(plans: Callable[[str], list[str]]) -> None:
    assert months(plans("select from turn_text where tenant = 1 and words @@ 'w77'")) == []
