"""How full a context is, as kept with a session: it is there in copies, and gone once it may be wrong."""

from __future__ import annotations

import shutil
from contextlib import closing
from typing import TYPE_CHECKING

import apsw
import pytest

from backstory.conversation.tree import Point
from backstory.exchange import replication
from backstory.ingest.reindex import reindex
from backstory.model import AssistantText, Tokens, UserMessage
from backstory.store import Session, Store, open_store
from backstory.store.tables import compactions, sessions
from backstory.store.tables.compactions import NewCompaction
from tests.support import make_golden

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

SUMMARY = NewCompaction(
    after_seq=2, summary="What was before. " * 40, agent="claude", model="small", duration_ms=1_500, cost_usd=0.25,
    tokens=Tokens(input=10, output=20, cache_read=30, cache_write=40),
)  # fmt: skip


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(tmp_path / "project" / "sessions.bks", now=lambda: 1_790_000_000_000) as opened:
        yield opened


@pytest.fixture
def session(store: Store) -> Session:
    made = store.create_session()
    for n in (1, 2, 3):
        store.append_events(made, [UserMessage(content=f"prompt {n}"), AssistantText(text=f"answer {n}")])
    store.change(sessions.note_context, made.id, 1_000, 4_000)
    return made


def count(store: Store, session: Session) -> tuple[int | None, int | None]:
    found = store.session(session.uid)
    return found.context_chars, found.context_limit


def append(store: Store, session: Session) -> None:
    store.append_events(session, [UserMessage(content="more")])


def check_out(store: Store, session: Session) -> None:
    store.checkout(session, Point(store.turns(session)[0].uid, 2))


def summarise(store: Store, session: Session) -> None:
    store.decide(compactions.add, session.id, SUMMARY)


def undo(store: Store, session: Session) -> None:
    summarise(store, session)
    store.change(sessions.note_context, session.id, 500, 4_000)
    store.decide(compactions.undo, session.id)


def remove(store: Store, session: Session) -> None:
    store.remove_turns(session, [store.turns(session)[2].uid])


@pytest.mark.parametrize("change", [append, check_out, summarise, undo, remove])
def test_what_changes_the_context_makes_it_unknown(
    store: Store, session: Session, change: Callable[[Store, Session], None]
) -> None:
    assert count(store, session) == (1_000, 4_000)
    change(store, session)
    assert count(store, session)[0] is None


def test_what_does_not_change_the_context_leaves_it(store: Store, session: Session) -> None:
    store.rename(session, "called so")
    store.name_branch(session, "main", Point(store.turns(session)[2].uid, 6))
    append(store, store.create_session())
    assert count(store, session) == (1_000, 4_000)


def test_copies_and_continuations_have_it_and_what_summaries_took(
    store: Store, session: Session, tmp_path: Path
) -> None:
    summarise(store, session)
    store.change(sessions.note_context, session.id, 500, 4_000)
    with open_store(tmp_path / "home.db") as home, open_store(tmp_path / "other" / "sessions.bks") as other:
        replication.copy_session(home, store, session.uid)
        continued = replication.continue_session(other, store, session.uid)
        for there, which in ((home, session.uid), (other, continued.uid)):
            assert count(there, there.session(which)) == (500, 4_000)
            (found,) = there.ask(compactions.of_session, there.session(which).id)
            assert (found.agent, found.model, found.cost_usd, found.duration_ms) == ("claude", "small", 0.25, 1_500)
            asked = there.execute_read_only("select input_tokens, output_tokens, cache_read_tokens from compactions")
            assert [tuple(row) for row in asked.rows] == [(10, 20, 30)]


def test_of_an_older_store_nothing_is_known_until_it_is_counted(tmp_path: Path) -> None:
    copy = tmp_path / "copy.bks"
    shutil.copy(make_golden.GOLDEN / "store-v3.bks", copy)
    with open_store(copy, now=lambda: make_golden.BEGUN + 10**6) as store:
        session = store.session("S1")
        append(store, session)
        assert count(store, session) == (None, None)
        store.change(sessions.note_context, session.id, 7, 70)
        assert count(store, session) == (7, 70)
        append(store, session)
        assert count(store, session) == (None, 70)
        assert store.verify().ok


def test_an_event_that_is_read_otherwise_makes_it_unknown(tmp_path: Path) -> None:
    copy = tmp_path / "copy.bks"
    shutil.copy(make_golden.GOLDEN / "store-v4.bks", copy)
    with open_store(copy, now=lambda: make_golden.BEGUN + 10**6) as store:
        read = next(each for each in store.sessions() if store.logs(each))
        store.change(sessions.note_context, read.id, 700, 7_000)
        reindex(store, now=make_golden.BEGUN + 10**6)
        assert count(store, read) == (700, 7_000)
        reindex(store, now=make_golden.BEGUN + 10**6, events_too=True)
        assert count(store, read) == (None, 7_000)
        assert store.ask_or([], sessions.uncounted) == [read.uid]


def test_a_turn_that_is_there_no_more_makes_it_unknown(store: Store, session: Session) -> None:
    with closing(apsw.Connection(str(store.path))) as db:
        db.execute("delete from turns where id = (select max(id) from turns)")
    assert count(store, session)[0] is None
