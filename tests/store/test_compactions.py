"""Summaries in the store: which is in force where, what contexts hold with one, and that nothing is removed by one."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from backstory.conversation.context import SUMMARY_HEADER, build_context
from backstory.conversation.tree import Point
from backstory.exchange import replication
from backstory.ingest.reindex import reindex
from backstory.model import AssistantText, Compacted, Tool, ToolCall, ToolResult, UserMessage
from backstory.search.query import find_pattern
from backstory.store import Filter, Session, Store, open_store
from backstory.store.tables import compactions
from backstory.store.tables.compactions import NewCompaction

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from backstory.store.tables.events import StoredEvent

SUMMARY = "The parser was rewritten, because it lost escapes. " * 10


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(tmp_path / "project" / "sessions.bks", now=lambda: 1_790_000_000_000) as opened:
        yield opened


@pytest.fixture
def session(store: Store) -> Session:
    """Five exchanges of two records each: @1 prompt 1, @2 answer 1, … @10 answer 5."""
    session = store.create_session()
    for n in range(1, 6):
        say(store, session, n)
    return session


def say(store: Store, session: Session, n: int) -> None:
    store.append_events(session, [UserMessage(content=f"prompt {n}"), AssistantText(text=f"answer {n}")])


def context(store: Store, session: Session, budget: int = 100_000, to: Point | None = None) -> str:
    return build_context(store.ask(compactions.history, session.id, budget, to), budget_chars=budget).text


def add(store: Store, session: Session, after_seq: int, summary: str = SUMMARY) -> bool:
    return store.decide(
        compactions.add, session.id, NewCompaction(after_seq=after_seq, summary=summary, agent="claude")
    )


def test_a_summary_stands_for_what_it_covers(store: Store, session: Session) -> None:
    assert add(store, session, 4)
    text = context(store, session)
    assert text.startswith(f"{SUMMARY_HEADER}\n{SUMMARY.strip()}\n\n[Conversation continues]\n\n## User\nprompt 3")
    assert "prompt 2" not in text
    assert "answer 5" in text


def test_undone_the_context_is_as_before(store: Store, session: Session) -> None:
    before = context(store, session)
    add(store, session, 4)
    undone = store.decide(compactions.undo, session.id)
    assert undone is not None
    assert undone.after_seq == 4
    assert context(store, session) == before
    assert store.decide(compactions.undo, session.id) is None


def test_undoing_the_newer_one_brings_the_older_one_back(store: Store, session: Session) -> None:
    add(store, session, 2, "first " * 100)
    add(store, session, 6, "second " * 100)
    assert "second second" in context(store, session)
    store.decide(compactions.undo, session.id)
    assert "first first" in context(store, session)


def test_every_record_is_still_there(store: Store, session: Session) -> None:
    before = store.events(session)
    add(store, session, 8)
    assert store.events(session) == before


def test_a_branch_from_before_the_boundary_has_its_history_whole(store: Store, session: Session) -> None:
    add(store, session, 6)
    fork = store.place(session, 2).point
    assert context(store, session, to=fork) == "## User\nprompt 1\n\n## Assistant\nanswer 1"


def test_a_summary_of_another_branch_does_not_count(store: Store, session: Session) -> None:
    store.checkout(session, store.place(session, 2).point)
    say(store, session, 6)
    add(store, session, 8)
    assert SUMMARY_HEADER not in context(store, session)
    store.checkout(session, store.place(session, 10).point)
    assert SUMMARY_HEADER in context(store, session)


def test_a_summary_does_not_replace_a_newer_one(store: Store, session: Session) -> None:
    assert add(store, session, 6)
    assert not add(store, session, 4)
    assert not add(store, session, 6)
    assert len(store.ask(compactions.of_session, session.id)) == 1


def test_what_is_on_no_branch_any_more_is_not_summarised(store: Store, session: Session) -> None:
    store.remove_turns(session, [turn.uid for turn in store.turns(session)][1:])
    assert not add(store, session, 6)
    assert not add(store, session, 999)


def test_a_boundary_inside_a_turn_leaves_the_rest_of_it(store: Store, session: Session) -> None:
    add(store, session, 5)
    assert context(store, session).split("[Conversation continues]\n\n")[1].startswith("## Assistant\nanswer 3")


def test_another_programs_row_counts_like_ours(store: Store, session: Session) -> None:
    store.close()
    with closing(sqlite3.connect(store.path)) as db, db:
        db.execute("insert into compactions(session_id, after_seq, summary) values (?, 4, 'In short.')", (session.id,))
    assert context(store, session).startswith(f"{SUMMARY_HEADER}\nIn short.\n")


@pytest.mark.parametrize("empty", ["", "  \n "])
def test_an_empty_summary_is_none(store: Store, session: Session, empty: str) -> None:
    store.close()
    with closing(sqlite3.connect(store.path)) as db, db:
        db.execute("insert into compactions(session_id, after_seq, summary) values (?, 4, ?)", (session.id, empty))
    assert "prompt 1" in context(store, session)


def test_a_summary_of_10_mb_leaves_room_for_what_stays(store: Store, session: Session) -> None:
    store.close()
    with closing(sqlite3.connect(store.path)) as db, db:
        db.execute(
            "insert into compactions(session_id, after_seq, summary) values (?, 4, ?)", (session.id, "x" * 10_000_000)
        )
    text = context(store, session, 10_000)
    assert len(text) <= 10_000
    assert "(The rest of this summary is left out here.)" in text
    assert "prompt 3" in text
    assert "answer 5" in text


def test_with_a_summary_the_oldest_results_give_way_before_what_was_said(store: Store) -> None:
    session = store.create_session()
    say(store, session, 1)
    for n in range(2, 5):
        store.append_events(
            session,
            [
                UserMessage(content=f"prompt {n}"),
                ToolCall(tool_use_id=f"t{n}", tool_name="Bash", tool=Tool.SHELL, input={"command": "make"}),
                ToolResult(tool_use_id=f"t{n}", tool_name="Bash", tool=Tool.SHELL, content=f"result {n} " * 50),
                AssistantText(text=f"answer {n}"),
            ],
        )
    add(store, session, 2)
    built = build_context(store.ask(compactions.history, session.id, 1_700), budget_chars=1_700)
    assert built.results_left_out == 2
    assert built.turns_left_out == 0
    assert "result 2" not in built.text
    assert "result 4" in built.text
    assert all(f"prompt {n}" in built.text and f"answer {n}" in built.text for n in (2, 3, 4))
    assert "[A result is left out here.]" in built.text
    assert len(built.text) <= 1_700


def test_what_does_not_fit_behind_a_summary_is_counted(store: Store, session: Session) -> None:
    for n in range(6, 60):
        say(store, session, n)
    add(store, session, 4)
    built = build_context(store.ask(compactions.history, session.id, 1_200), budget_chars=1_200)
    assert built.turns + built.turns_left_out == 57
    assert built.text.startswith(SUMMARY_HEADER)
    assert f"({built.turns_left_out} earlier turns are left out here.)" in built.text


def test_an_agents_own_summary_serves_until_there_is_a_newer_one(store: Store) -> None:
    session = store.create_session()
    say(store, session, 1)
    store.append_events(
        session, [UserMessage(content="prompt 2"), Compacted(summary=SUMMARY), AssistantText(text="on")]
    )
    say(store, session, 3)
    say(store, session, 4)
    text = context(store, session)
    assert text.startswith(SUMMARY_HEADER)
    assert "prompt 2" not in text
    assert "## Assistant\non" in text
    add(store, session, 7, "Ours. " * 100)
    assert context(store, session).startswith(f"{SUMMARY_HEADER}\nOurs.")


def test_an_agents_own_summary_that_is_none_does_not_serve(store: Store) -> None:
    session = store.create_session()
    store.append_events(
        session, [UserMessage(content="prompt"), Compacted(summary="API Error"), AssistantText(text="x")]
    )
    assert SUMMARY_HEADER not in context(store, session)


def test_the_machines_copy_has_the_summary_too(store: Store, session: Session, tmp_path: Path) -> None:
    with open_store(tmp_path / "home" / "store.db", shared=True) as home:
        replication.copy_session(home, store, session.uid)
        add(store, session, 4)
        replication.reconcile(home, store, session.uid)
        there = home.session(session.uid)
        assert context(home, there) == context(store, session)
        store.decide(compactions.undo, session.id)
        replication.reconcile(home, store, session.uid)
        assert context(home, home.session(session.uid)) == context(store, session)


def test_a_continuation_begins_with_the_summary(store: Store, session: Session, tmp_path: Path) -> None:
    add(store, session, 4)
    with open_store(tmp_path / "other" / "sessions.bks", now=lambda: 1_790_000_000_000) as other:
        continued = replication.continue_session(other, store, session.uid)
        assert context(other, continued) == context(store, session)


# found ------------------------------------------------------------------------------------------------------------

RARE = "The quicksilver decision was made, because the ledger lost cents. " * 10


def found(store: Store, words: str = "quicksilver ledger", wanted: Filter | None = None) -> list[tuple[int, str, str]]:
    """The session's id, the kind and the words of each hit that is there."""
    hits = store.search(words, wanted, hits_per_session=None).hits
    events = [(hit.session_id, store.event(hit.event_id)) for hit in hits]
    return [(each, event.kind, text_of(event)) for each, event in events if event is not None]


def text_of(stored: StoredEvent) -> str:
    return getattr(stored.event, "summary", "")


def test_a_summary_is_found_where_it_stands(store: Store, session: Session) -> None:
    add(store, session, 4, RARE)
    (hit,) = store.search("quicksilver").hits
    stored = store.event(hit.event_id)
    assert stored is not None
    assert (stored.seq, stored.kind, text_of(stored)) == (4, "Compacted", RARE)
    assert stored.turn_id == store.events(session)[3].turn_id
    assert stored.at is not None


def test_a_summary_that_was_taken_back_is_not_found(store: Store, session: Session) -> None:
    add(store, session, 4, RARE)
    store.decide(compactions.undo, session.id)
    assert store.search("quicksilver").total == 0


def test_a_summary_of_a_removed_session_is_not_found(store: Store, session: Session) -> None:
    add(store, session, 4, RARE)
    store.remove(session)
    assert store.search("quicksilver").total == 0
    assert b"quicksilver" not in store.path.read_bytes()


def test_a_summary_of_a_removed_branch_is_found_again_when_that_is_back(store: Store, session: Session) -> None:
    first, second = (turn.uid for turn in store.turns(session)[:2])
    store.checkout(session, Point(first, 2))
    store.append_events(session, [UserMessage(content="another way"), AssistantText(text="so be it")])
    uids = [turn.uid for turn in store.turns(session)[1:5]]
    add(store, session, 4, RARE)
    store.remove_turns(session, uids)
    assert found(store) == []
    store.restore_turns(session, second)
    assert len(found(store)) == 1


def test_pruned_with_its_branch_nothing_of_a_summary_stays(store: Store, session: Session) -> None:
    add(store, session, 10, RARE)
    store.remove_turns(session, [store.turns(session)[4].uid])
    store.prune_turns(session)
    assert store.ask(compactions.of_session, session.id) == []
    assert store.search("quicksilver").total == 0
    assert b"quicksilver" not in store.path.read_bytes()


def test_a_filter_by_scope_role_and_session_holds_for_summaries(store: Store, session: Session) -> None:
    add(store, session, 4, RARE)
    other = store.create_session()
    assert len(found(store, wanted=Filter(scopes=("system",)))) == 1
    assert found(store, wanted=Filter(scopes=("answer",))) == []
    assert len(found(store, wanted=Filter(session_id=session.id))) == 1
    assert found(store, wanted=Filter(session_id=other.id)) == []
    assert found(store, wanted=Filter(tool="Bash")) == []


def test_a_summary_among_very_many_hits_is_found(store: Store, session: Session) -> None:
    store.append_events(session, [AssistantText(text="quicksilver ledger") for _ in range(2_100)])
    add(store, session, 4, RARE)
    assert store.search("quicksilver").hits
    assert len(found(store, "quicksilver decision made")) == 1


def test_another_programs_summary_is_found_once_ours_is_stored(store: Store, session: Session) -> None:
    with closing(sqlite3.connect(store.path)) as other, other:
        other.execute("insert into compactions(session_id, after_seq, summary) values (?, 2, ?)", (session.id, RARE))
    add(store, session, 6)
    assert [each[2] for each in found(store)] == [RARE]


def test_a_copy_of_a_session_has_its_summary_found_and_taken_back(
    store: Store, session: Session, tmp_path: Path
) -> None:
    add(store, session, 4, RARE)
    with open_store(tmp_path / "home.db") as home:
        replication.copy_session(home, store, session.uid)
        assert len(found(home)) == 1
        replication.copy_session(home, store, session.uid)
        assert len(found(home)) == 1
        store.decide(compactions.undo, session.id)
        replication.copy_session(home, store, session.uid)
        assert found(home) == []
        assert home.verify().ok


def test_reindex_and_verify_leave_summaries_alone(store: Store, session: Session) -> None:
    add(store, session, 4, RARE)
    before = store.ask(compactions.of_session, session.id)
    for events_too in (False, True):
        reindex(store, now=0, events_too=events_too)
        assert store.ask(compactions.of_session, session.id) == before
        assert len(found(store)) == 1
    assert store.verify().ok


def test_a_pattern_without_a_word_finds_summaries_too(store: Store, session: Session) -> None:
    add(store, session, 4, RARE)
    findings = find_pattern(store, "qu.c?k", Filter(), limit=5, hits_per_session=None)
    assert [each.stored.seq for each in findings.excerpts] == [4]
    store.decide(compactions.undo, session.id)
    assert find_pattern(store, "qu.c?k", Filter(), limit=5, hits_per_session=None).excerpts == []
