"""Search text and facts on the server: derived from frames, by jobs that no kill loses, and gone with their session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from backstory.errors import DatabaseUnusable
from backstory.exchange import frames
from backstory.server import database, deriving, jobs
from backstory.server.database import prepared
from backstory.server.turn_words import sign_of
from tests.support.clock import Clock
from tests.support.senders import OTHER, UID, Sender, cut, line
from tests.support.team import team_of

if TYPE_CHECKING:
    from tests.support.team import Team


T1, T2 = "01M3250V00TTTTTTTTTTTTTTT1", "01M3250V00TTTTTTTTTTTTTTT2"


@pytest.fixture
def sender(team: Team) -> Sender:
    return Sender(team, team.founded())


def rows_of(sender: Sender, sql: str) -> list[tuple[Any, ...]]:
    with sender.team.database.of(sender.tenant) as rows:
        return rows.execute(sql.encode()).fetchall()


def said(sender: Sender) -> list[str]:
    found = rows_of(sender, "select said from turn_text order by session, number")
    return ["\n".join(text for *_, text in said) for (said,) in found]


def derive(sender: Sender) -> int:
    return sender.team.derive(sender.who)


def worked(uid: str = UID) -> list[bytes]:
    """The frames of a session of two turns, which used tools."""
    call = {"tool_name": "Bash", "tool": "shell"}
    events: list[tuple[str, dict[str, Any]]] = [
        (T1, {"UserMessage": {"content": "Fix the naïve getUserName"}}),
        (T1, {"Thinking": {"text": "pondering"}}),
        (T1, {"ToolCall": {**call, "tool_use_id": "a", "input": {"command": "grep " + "x" * 600 + " behind"}}}),
        (T1, {"ToolResult": {"tool_use_id": "a", "tool_name": "Bash", "content": "printed", "is_error": True}}),
        (T1, {"ToolCall": {**call, "tool_use_id": "b", "input": {"command": "ls"}}}),
        (T2, {"UserMessage": {"content": "and now?"}}),
        (T2, {"AssistantText": {"text": "It's done."}}),
    ]
    lines = [
        line("session", uid=uid, created="2026-09-21T14:13:20.123Z", next_seq=8, title="hi", branch="main",
             repository="me/app", last_active="2026-09-21T14:20:00.000Z"),
        line("turn", uid=T1, first_seq=1, last_seq=5, agent="claude", model="claude-opus-4-5",
             prompt="Fix the naïve getUserName", input_tokens=1_000_000, output_tokens=0, outcome="completed",
             started="2026-09-21T14:13:20.123Z", ended="2026-09-21T14:14:20.123Z", duration_ms=60_000),
        line("turn", uid=T2, parent_uid=T1, first_seq=6, last_seq=7, agent="claude", prompt="and now?",
             cost_usd=0.25, cost_source="reported"),
        *(line("event", seq=number, turn=turn, event=event) for number, (turn, event) in enumerate(events, 1)),
        line("session_end", uid=uid, turns=2, events=7),
    ]  # fmt: skip
    return [*frames.frames(lines, session=uid, is_redacted=True)]


# what is derived ------------------------------------------------------------------------------------------------------


def test_what_came_is_derived_once(sender: Sender) -> None:
    sender.send(*cut([["said this"]]), *cut([["and that"]], uid=OTHER))
    assert derive(sender) == 2
    assert said(sender) == ["said this", "and that"]
    assert derive(sender) == 0


def test_prompts_answers_and_the_beginning_of_inputs_are_searched_and_results_are_not(sender: Sender) -> None:
    sender.send(*worked())
    derive(sender)
    first, second = said(sender)
    assert (first[:36], second) == ("Fix the naïve getUserName\nBash grep ", "and now?\nIt's done.")
    assert [each for each in ("pondering", "printed", "behind") if each in first] == []


@pytest.mark.parametrize(("words", "found"), [
    ("'#naive'", [1]), ("'#getusername'", [1]), ("'#it' <-> '#s' <-> '#done'", [2]), ("'#printed'", []),
    ("'#bash' & '#ls'", [1]),
    ("'#\ue000user' & '#\ue000name'", [1]), ("'#done':A", []), ("'#done':B", [2]), ("'#ls':D", [1]),
])  # fmt: skip
def test_words_are_found_as_the_local_index_has_them(words: str, found: list[int], sender: Sender) -> None:
    sender.send(*worked())
    derive(sender)
    signed = words.replace("#", sign_of(sender.tenant))
    with sender.team.database.of(sender.tenant) as rows:
        numbers = rows.execute(
            "select number from turn_text where words @@ %s::tsquery order by 1", (signed,)
        ).fetchall()
    assert [number for (number,) in numbers] == found


def test_facts_are_those_of_the_turns(sender: Sender) -> None:
    sender.send(*worked())
    derive(sender)
    names = "uid, model, input_tokens, outcome, duration_ms, cost_usd, cost_source, low_usd, tools"
    first, second = rows_of(sender, f"select {names} from turn order by number")
    assert first[:-2] == (T1, "claude-opus-4-5", 1_000_000, "completed", 60_000, None, None)
    assert first[-2:] == (5.0, {"Bash": {"calls": 2, "failed": 1, "without_result": 1}})
    assert (second[0], *second[5:]) == (T2, 0.25, "reported", 0.25, {})


def test_a_turn_with_more_words_than_the_database_takes_is_found_by_the_first(sender: Sender) -> None:
    sender.send(*cut([["needle " + " ".join(f"w{number:07}" for number in range(120_000))]]))
    assert derive(sender) == 1
    assert rows_of(sender, "select error from job") == []
    found = " and ".join(f"words @@ '{sign_of(sender.tenant)}{word}'" for word in ("needle", "w0000100"))
    assert rows_of(sender, f"select {found}, length(words) > 50000 from turn_text") == [(True, True)]


def test_text_that_the_database_does_not_take_is_kept_without_it(sender: Sender) -> None:
    sender.send(*cut([["a\0b 'quoted\\ \ud83d\ude00"]]))
    assert (derive(sender), rows_of(sender, "select error from job")) == (1, [])
    assert said(sender) == ["ab 'quoted\\ \U0001f600"]


def test_a_text_that_names_the_escape_of_a_nul_is_kept(sender: Sender) -> None:
    sender.send(*cut([["a \\u0000 needle"]], title="The escape \\u0000, and \\\\u0000, and \0"))
    assert (derive(sender), rows_of(sender, "select error from job")) == (1, [])
    assert said(sender) == ["a \\u0000 needle"]
    title = "The escape \\u0000, and \\\\u0000, and "
    assert rows_of(sender, "select listed ->> 'title' from derivation") == [(title,)]


# jobs -----------------------------------------------------------------------------------------------------------------


def backfill(sender: Sender, **body: str) -> int:
    status, found = sender.team.ask("POST", "/v1/analytics/backfill", sender.token, body)
    assert status == 200
    count: int = found["sessions_queued"]
    return count


def test_a_session_that_goes_on_is_derived_again_after_a_while(sender: Sender) -> None:
    first, second = cut([["a"], ["b"]])
    sender.send(first)
    derive(sender)
    sender.send(second)
    assert derive(sender) == 0
    sender.team.clock.ms += 10
    assert (derive(sender), said(sender)) == (1, ["a\nb"])


def test_what_was_sent_anew_leaves_nothing_of_before(sender: Sender) -> None:
    sender.send(*cut([["a secret"]]))
    derive(sender)
    sender.send(*cut([["masked"]], epoch=2))
    assert said(sender) == []
    sender.team.clock.ms += 10
    derive(sender)
    assert said(sender) == ["masked"]


def test_a_removed_session_leaves_nothing_derived_and_no_job(sender: Sender) -> None:
    sender.send(*cut([["a"]]), *cut([["b"]], uid=OTHER))
    derive(sender)
    backfill(sender, session_id=UID)
    sender.forget()
    found = [rows_of(sender, f"select session from {table}") for table in ("turn", "derivation", "job")]
    assert found == [[(OTHER,)], [(OTHER,)], []]


def test_a_session_that_is_removed_while_it_is_derived_stays_away(
    sender: Sender, monkeypatch: pytest.MonkeyPatch
) -> None:
    really = deriving.derive

    def slow(*given: Any) -> Any:
        found = really(*given)
        assert sender.forget()[0] == 200
        return found

    monkeypatch.setattr(deriving, "derive", slow)
    sender.send(*cut([["a"]]))
    assert derive(sender) == 1
    assert [rows_of(sender, f"select session from {table}") for table in ("turn", "derivation", "job")] == [[], [], []]


def test_a_session_that_is_taken_back_and_sent_again_while_it_is_derived_is_derived_as_it_is_now(
    sender: Sender, monkeypatch: pytest.MonkeyPatch
) -> None:
    really, again = deriving.derive, [cut([["b"]])]

    def slow(*given: Any) -> Any:
        found = really(*given)
        if again:
            assert sender.team.ask("DELETE", f"/v1/machines/{sender.machine}/sessions/{UID}", sender.token)[0] == 200
            assert sender.send(*again.pop()) == ["ok"]
        return found

    monkeypatch.setattr(deriving, "derive", slow)
    sender.send(*cut([["a"]]))
    assert derive(sender) == 2
    assert [text.split()[-1] for text in said(sender)] == ["b"]


def test_what_comes_while_a_session_is_derived_is_derived_too(sender: Sender, monkeypatch: pytest.MonkeyPatch) -> None:
    really, (first, second) = deriving.derive, cut([["a"], ["b"]])

    def slow(*given: Any) -> Any:
        found = really(*given)
        sender.send(second)
        sender.team.clock.ms += 10
        return found

    monkeypatch.setattr(deriving, "derive", slow)
    sender.send(first)
    assert (derive(sender), said(sender)) == (2, ["a\nb"])


def test_a_job_whose_worker_was_killed_is_taken_by_the_next_one(
    sender: Sender, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        """The end of a worker."""

    def killed(*_: Any) -> Any:
        raise Killed

    sender.send(*cut([["a"]]))
    with monkeypatch.context() as patched, pytest.raises(Killed):
        patched.setattr(deriving, "derive", killed)
        derive(sender)
    assert derive(sender) == 0
    sender.team.clock.ms += 60_000
    assert (derive(sender), said(sender)) == (1, ["a"])


def test_a_session_that_cannot_be_derived_is_tried_some_times_and_keeps_no_other_waiting(
    sender: Sender, monkeypatch: pytest.MonkeyPatch
) -> None:
    really = deriving.derive

    def failing(workspace: Any, located: Any, *of: Any) -> Any:
        if located.session.uid == UID:
            raise ValueError("planted words")
        return really(workspace, located, *of)

    with monkeypatch.context() as patched:
        patched.setattr(deriving, "derive", failing)
        sender.send(*cut([["a"]]), *cut([["b"]], uid=OTHER))
        tried = derive(sender)
        for _ in range(20):
            sender.team.clock.ms += 3_600_000
            tried += derive(sender)
    assert (tried, said(sender)) == (jobs.TRIES_MAX + 1, ["b"])
    assert rows_of(sender, "select error, tries from job") == [("ValueError", jobs.TRIES_MAX)]
    assert (backfill(sender), derive(sender), said(sender)) == (1, 1, ["a", "b"])


def test_backfill_queues_what_is_not_derived_as_it_is_now(sender: Sender) -> None:
    sender.send(*cut([["a"]]), *cut([["b"]], uid=OTHER))
    assert backfill(sender) == 2
    derive(sender)
    assert (backfill(sender), backfill(sender, session_id=UID), derive(sender)) == (0, 1, 1)


def test_backfill_is_for_what_is_the_callers_and_the_token_is_good_for(team: Team, sender: Sender) -> None:
    ben = Sender(team, team.joined(sender.who, "ben"))
    eve = Sender(team, team.founded("eve"))
    sender.send(*cut([["a"]]))
    assert [backfill(each, session_id=UID) for each in (ben, eve)] == [0, 0]
    with team.database.of(sender.tenant) as rows:
        rows.execute("update token set repositories = '{x}' where tenant = %s", (sender.tenant,))
    assert backfill(sender) == 0


def test_a_newer_server_derives_anew(empty: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # A start looks at all organisations, so this one has a database of its own.
    with team_of(empty, Clock()) as team:
        sender = Sender(team, team.founded())
        sender.send(*cut([["a"]]))
        assert (team.deriving.work(), team.deriving.begin(), team.deriving.work()) == (1, 0, 0)
        monkeypatch.setattr(jobs, "VERSION", jobs.VERSION + 1)
        assert (team.deriving.begin(), team.deriving.work()) == (1, 1)
        assert rows_of(sender, "select version from derivation") == [(jobs.VERSION,)]


def test_two_workers_take_a_job_once(sender: Sender) -> None:
    sender.send(*cut([["a"]]))
    now = sender.team.now()
    with sender.team.database.of(sender.tenant) as one, sender.team.database.of(sender.tenant) as other:
        taken = [jobs.take(rows, sender.tenant, now) for rows in (one, other)]
    assert [each is not None for each in taken] == [True, False]


def test_one_job_is_taken_however_the_database_looks_for_it(empty: str, postgres: str) -> None:
    uids = [f"01M3250V00CJ5X1JHP0Z69AW{letter}Q" for letter in "ABCDEFGH"]
    with team_of(empty, Clock()) as team:
        sender = Sender(team, team.founded())
        sender.send(*cut([["a"]], uid=uids[0]))
        admin = f"{postgres.rpartition('dbname=')[0]}dbname={empty.rpartition('dbname=')[2]}"
        with psycopg.connect(admin, autocommit=True) as connection:
            # It believes that there is one.
            connection.execute("analyze backstory.job")
        sender.send(*(cut([["a"]], uid=uid)[0] for uid in uids[1:]))
        with team.database.of(sender.tenant) as rows:
            assert jobs.take(rows, sender.tenant, team.now()) is not None
        assert rows_of(sender, "select sum(tries) from job") == [(1,)]


# the database ---------------------------------------------------------------------------------------------------------


def test_a_database_without_the_extension_is_a_sentence(empty: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "EXTENSION", "no_such_extension")
    with pytest.raises(DatabaseUnusable, match="it has no extension no_such_extension; an admin installs"):
        prepared(empty)
    with psycopg.connect(empty) as connection:
        assert connection.execute("select to_regclass('backstory.person')").fetchone() == (None,)
