"""Who holds the words: the sessions that a search finds are those that a plain look at every text finds."""

from __future__ import annotations

import re
from contextlib import closing
from typing import TYPE_CHECKING

import apsw
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from backstory.ask import query, ranking
from backstory.derive.index_text import index_text, searchable
from backstory.model import AssistantText, Event, ToolCall, ToolResult, UserMessage
from backstory.store import Filter, Store, open_store
from tests.support.clock import NOW
from tests.support.counts import examples

if TYPE_CHECKING:
    from pathlib import Path

    from backstory.store import SearchResult, Session

pytestmark = pytest.mark.slow

DAY_MS = 24 * 3600 * 1000
EVERYTHING = 10_000
WORDS = [
    "test",
    "tests",
    "testFile",
    "test_file",
    "file",
    "File",
    "files",
    "git",
    "dont",
    "don't",
    "C++",
    "a",
    "1a2b3c4",
]
TEXTS = st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(" ".join)
EVENTS = st.one_of(
    TEXTS.map(lambda text: UserMessage(content=text)),
    TEXTS.map(lambda text: AssistantText(text=text)),
    TEXTS.map(lambda text: ToolCall(tool_name="Bash", tool="SHELL", input={"command": text})),
    TEXTS.map(lambda text: ToolResult(tool_name="Read", tool="READ", content=text)),
)
SESSIONS = st.lists(
    st.tuples(
        st.lists(st.tuples(EVENTS, st.integers(-9, 0)), min_size=1, max_size=5),
        st.sampled_from(["main", "feat/x", None]),
        st.booleans(),
    ),
    min_size=1,
    max_size=9,
)
FILTERS = st.builds(
    lambda scopes, branch, since, until, tool: Filter(
        scopes=tuple(sorted(scopes)), branch=branch, tool=tool,
        since=None if since is None else NOW + since * DAY_MS, until=None if until is None else NOW + until * DAY_MS,
    ),
    st.sets(st.sampled_from(["prompt", "answer", "tool_input", "tool_output"])),
    st.sampled_from([None, "main", "feat/*"]),
    st.none() | st.integers(-9, 0), st.none() | st.integers(-9, 0), st.sampled_from([None, None, "bash", "READ"]),
)  # fmt: skip


def fill(store: Store, machine: list[tuple[list[tuple[Event, int]], str | None, bool]]) -> dict[int, int]:
    """Sessions with these events, of these times, on these branches; each helps the one before it, if it is to.

    Gives for each session the one that is shown for it.
    """
    shown, above = dict[int, int](), 0
    for events, branch, is_helper in machine:
        session = store.create_session()
        store.append_events(session, [event for event, _ in events])
        with closing(apsw.Connection(str(store.path))) as db:
            db.execute("update sessions set branch = ? where id = ?", (branch, session.id))
            for stored, (event, day) in zip(store.events(session), events, strict=True):
                db.execute("update events set at = ? where id = ?", (NOW + day * DAY_MS, stored.id))
                _index(db, session, stored.id, event)
            newest = NOW + max(day for _, day in events) * DAY_MS
            parent = shown[above] if is_helper and above else None
            db.execute(
                "update sessions set last_active = ?, parent_id = ?, relation = ? where id = ?",
                (newest, parent, "subagent" if parent else None, session.id),
            )
        shown[session.id] = parent or session.id
        above = session.id
    return shown


def _index(db: apsw.Connection, session: Session, event_id: int, event: Event) -> None:
    """As an ingest does."""
    scope, text = searchable(event) or ("", "")
    db.execute("delete from search_index where rowid = ?", (event_id,))
    db.execute(
        "insert into search_index(rowid, content, session_id, scope) values (?, ?, ?, ?)",
        (event_id, index_text(text, scope), session.id, scope),
    )


def holds(text: str, words: list[str]) -> bool:
    """Whether each word stands in a text as a whole."""
    return all(re.search(rf"(?<![^\W_]){re.escape(word)}(?![^\W_])", text, re.IGNORECASE) for word in words)


def scanned(store: Store, words: list[str], wanted: Filter, shown: dict[int, int]) -> tuple[set[int], int]:
    """The sessions that hold the words, and how many of their events do, by looking at every one."""
    found, count = set[int](), 0
    for session in store.sessions(subagents=True):
        branch = session.branch or ""
        if wanted.branch and not (branch.startswith("feat/") if wanted.branch == "feat/*" else branch == wanted.branch):
            continue
        for stored in store.events(session):
            scope, text = searchable(stored.event) or ("", "")
            if wanted.scopes and scope not in wanted.scopes:
                continue
            if wanted.tool and wanted.tool.lower() not in _tool(stored.event):
                continue
            at = stored.at or 0
            if (wanted.since is None or at >= wanted.since) and (wanted.until is None or at < wanted.until):
                is_there = holds(text, words)
                found |= {shown[session.id]} if is_there else set()
                count += is_there
    return found, count


def _tool(event: Event) -> tuple[str, ...]:
    return (event.tool_name.lower(), event.tool.lower()) if isinstance(event, ToolCall | ToolResult) else ()


def exact(told: SearchResult) -> list[int]:
    return [hit.shown_id for hit in told.hits if not hit.near]


@pytest.mark.parametrize("few", [1, 3, 2_000], ids=lambda few: f"ranked whole up to {few} hits")
@settings(max_examples=examples(30), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    machine=SESSIONS,
    words=st.lists(
        st.sampled_from(["test", "file", "git", "testFile", "dont", "a"]), min_size=1, max_size=2, unique=True
    ),
    wanted=FILTERS,
    very_many=st.booleans(),
    one_by_one=st.booleans(),
)
def test_the_sessions_found_are_those_that_hold_the_words(
    tmp_path_factory: pytest.TempPathFactory, few: int, machine: list[tuple[list[tuple[Event, int]], str | None, bool]],
    words: list[str], wanted: Filter, very_many: bool, one_by_one: bool,
) -> None:  # fmt: skip
    path: Path = tmp_path_factory.mktemp("store") / "one.bks"
    with pytest.MonkeyPatch.context() as patch, open_store(path, now=lambda: NOW) as store:
        patch.setattr(ranking, "RANKED_HITS_MAX", few)
        patch.setattr(ranking, "HITS_OF_SESSION", 1)
        patch.setattr(ranking, "SESSIONS_RANKED", 1)
        patch.setattr(query, "GROUPED_SESSIONS_MAX", 0 if very_many else 20_000)
        patch.setattr(query, "LOOKED_INTO_IDS", 200_000 if one_by_one else -200_000)
        shown = fill(store, machine)
        holders, events = scanned(store, words, wanted, shown)
        told = store.search(" ".join(words), wanted, limit=EVERYTHING, near=False)
        assert sorted(exact(told)) == sorted(holders)
        assert (told.sessions, told.events, told.truncated, told.at_least) == (len(holders), events, False, False)
        with_near = store.search(" ".join(words), wanted, limit=EVERYTHING)
        assert sorted(exact(with_near)) == sorted(holders)
        # Another form in a prompt comes before the word in what a tool printed; all else that is near comes last.
        marks = [hit.near for hit in with_near.hits if hit.scope not in ("prompt", "tool_output")]
        assert marks == sorted(marks)
        for limit in range(1, len(holders)):
            some = store.search(" ".join(words), wanted, limit=limit, sort="time")
            assert (len(set(exact(some))), some.truncated) == (limit, True)
            uncounted = store.search(" ".join(words), wanted, limit=limit, sort="time", counts=False)
            assert (uncounted.hits, uncounted.truncated) == (some.hits, True)
            assert limit < uncounted.sessions <= len(holders)


def test_of_very_many_sessions_the_newest_are_given_and_all_counted(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranking, "RANKED_HITS_MAX", 5)
    monkeypatch.setattr(query, "GROUPED_SESSIONS_MAX", 5)
    monkeypatch.setattr(query, "NEWEST_SESSIONS", 4)
    fill(store, [([(UserMessage(content="test"), -day)], None, False) for day in range(9, -1, -1)])
    told = store.search("test", limit=3, sort="time")
    assert (exact(told), told.sessions, told.events, told.truncated) == ([10, 9, 8], 10, 10, True)
    assert len(store.search("test", limit=9).hits) == 9


@pytest.mark.parametrize(("words", "looked_into"), [("test", 4), ("tes*", 0)], ids=["a word", "a beginning"])
def test_a_search_that_counts_nothing_ends_when_it_has_enough_of_very_many_sessions(
    store: Store, monkeypatch: pytest.MonkeyPatch, words: str, looked_into: int
) -> None:
    monkeypatch.setattr(ranking, "RANKED_HITS_MAX", 5)
    monkeypatch.setattr(query, "GROUPED_SESSIONS_MAX", 5)
    monkeypatch.setattr(query, "NEWEST_SESSIONS", 4)
    fill(store, [([(UserMessage(content="test"), -day)], None, False) for day in range(9, -1, -1)])
    asked = list[str]()

    def note(_cursor: object, sql: str, _values: object) -> bool:
        asked.append(sql)
        return True

    store.ask(lambda db: db.set_exec_trace(note))
    uncounted = store.search(words, limit=3, near=False, counts=False)
    looks = sum("f.rowid between ? and ? and c.c1 = ? limit 1" in each for each in asked)
    assert (looks, [each for each in asked if "count(distinct c.c1)" in each]) == (looked_into, [])
    assert (uncounted.hits, uncounted.at_least) == (store.search(words, limit=3, near=False).hits, True)


@pytest.mark.parametrize("every", [1, 2, 7])
def test_of_the_beginning_of_a_word_in_very_many_sessions_the_same_is_found(
    store: Store, monkeypatch: pytest.MonkeyPatch, every: int
) -> None:
    monkeypatch.setattr(ranking, "RANKED_HITS_MAX", 2)
    monkeypatch.setattr(query, "NEWEST_SESSIONS", 2)
    # The newest is the oldest in the store, and has more events than a byte is for.
    said = ["other words" if n % every else "tested" for n in range(40)]
    fill(store, [([(UserMessage(content=text), -n)] * (3 if n else 40), None, False) for n, text in enumerate(said)])

    def found() -> list[tuple[int, float]]:
        return [(hit.event_id, hit.score) for hit in store.search("tes*", limit=3, near=False, counts=False).hits]

    few = found()
    monkeypatch.setattr(query, "GROUPED_SESSIONS_MAX", 5)
    assert len(few) == 3
    assert found() == few


def test_the_events_that_hold_a_word_are_counted_once_until_the_store_changes(store: Store) -> None:
    fill(store, [([(UserMessage(content=text), 0)], None, False) for text in ("tested words", "tested")])
    asked = list[str]()

    def note(_cursor: object, sql: str, _values: object) -> bool:
        asked.append(sql)
        return True

    def counted(words: str) -> tuple[int, int]:
        asked.clear()
        found = store.search(words, near=False).events
        return found, sum(each.startswith("select count(*) from search_index") for each in asked)

    store.ask(lambda db: db.set_exec_trace(note))
    assert (counted("tested"), counted("tested")) == ((2, 1), (2, 0))
    # The words together, and the other one.
    assert counted("tested words") == (1, 2)
    fill(store, [([(UserMessage(content="tested"), 0)], None, False)])
    assert (counted("tested"), counted("tested")) == ((3, 1), (3, 0))


def test_the_hits_of_all_that_are_listed_of_very_many_sessions_are_counted(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranking, "RANKED_HITS_MAX", 1)
    monkeypatch.setattr(query, "GROUPED_SESSIONS_MAX", 0)
    fill(store, [([(UserMessage(content="test"), 0), (UserMessage(content="test"), 0)], "main", False)])
    found = store.search("test", near=False)
    assert (found.sessions, found.events, found.at_least) == (1, 2, False)
