"""What is found in a store, in which order, and what is not found."""

from __future__ import annotations

import itertools
import os
import random
import string
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import apsw
import pytest

from backstory.ask import ranking, search
from backstory.ask.search import every, match_expression, terms
from backstory.exchange import replication
from backstory.model import AssistantText, Thinking, ToolCall, ToolResult, UserMessage
from backstory.store import Filter, Session, Store, open_store
from tests.support.clock import NOW
from tests.support.counts import examples
from tests.support.indexed import DAY_MS, begin, change, found, indexed, said

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.clock import Clock

QUERY_SECONDS_MAX = 1.0


# what was typed -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("login.ts", "edit src/login.ts now"), ("C++", "we use C++ here"), ("#12", "see #12 there"),
        ('"rate limit', "the rate limit was hit"), ("東京", "私は東京に住む"), ("cafe", "naïve café"),
        ("café", "a cafe"), ("case name", "snake_case_name"), ("log*", "logging"), ("src/login", "in src/login.ts"),
        ("한국", "한국어 문서"), ("RATE", "rate"), ("rate-limit", "rate limit"), ('"a b" c', "c then a b"),
        ("userName", "get user_name"), ("cafe", "cafe\u0301"), ("--flag", "with --flag set"), (".env", "the .env file"),
    ],
)  # fmt: skip
def test_what_people_type_is_found(store: Store, query: str, text: str) -> None:
    said(store, "something else entirely")
    session = said(store, text)
    assert found(store, query) == [session.id]


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("東京", "京東"), ('"limit rate"', "rate limit"), ("log", "blog logging"), ("rate limit", "rate"),
        ("NOT rate", "a limit"), ("content:rate", "rate"), ("rate OR limit", "a limit"),
    ],
)  # fmt: skip
def test_what_was_not_meant_is_not_found(store: Store, query: str, text: str) -> None:
    said(store, text)
    told = store.search(query)
    assert told.relaxed or all(hit.near for hit in told.hits)
    assert store.search(query, near=False).hits == []


@pytest.mark.parametrize(
    "query", ["user name", "getUserName", '"user name"', "userName", "http server", "user_name", "user-name", "serv*"]
)
def test_identifiers_are_found_by_their_parts(store: Store, query: str) -> None:
    session = indexed(store, "call getUserName of HTTPServer")
    assert found(store, query) == [session.id]


@pytest.mark.parametrize("query", ["name user", '"name user"', "nam", "username", "userNam"])
def test_what_is_no_part_of_an_identifier_is_not_found_in_it(store: Store, query: str) -> None:
    indexed(store, "call getUserName of HTTPServer")
    told = store.search(query)
    # What occurs nowhere is looked for as what it may have been meant for.
    assert (told.hits == []) is (query not in ("name user", "nam"))
    assert store.search(query, near=False).hits == []


def test_an_open_quote_is_no_part_of_a_word() -> None:
    assert terms('say "hello wor') == ["say", "hello", "wor"]


def test_the_same_word_twice_is_looked_for_once() -> None:
    assert match_expression("log log log") == '"log"'


def test_a_query_without_letters_finds_nothing(store: Store) -> None:
    said(store, "++ --")
    assert store.search("++").hits == []


def test_a_long_text_that_was_pasted_finds_where_it_was_said(store: Store) -> None:
    text = " ".join(f"word{n}" for n in range(5_000))
    session = said(store, text)
    assert found(store, text) == [session.id]
    assert found(store, f'"{text}"') == [session.id]


def printable_queries(longest: int) -> Iterator[str]:
    for length in range(1, longest + 1):
        for letters in itertools.product(string.printable, repeat=length):
            yield "".join(letters)


@pytest.fixture
def filled(store: Store) -> Store:
    for text in ("login.ts C++ #12 a b c", "1 2 3 x y z AND OR NOT NEAR", "é 東京 a_b getUserName"):
        said(store, text)
    return store


def check(store: Store, queries: Iterator[str]) -> None:
    for query in queries:
        started = time.perf_counter()
        store.search(query)
        assert time.perf_counter() - started < QUERY_SECONDS_MAX, query


@pytest.mark.slow
def test_no_short_text_is_a_mistake(filled: Store) -> None:
    check(filled, itertools.islice(printable_queries(3), 0, None, 97))


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.skipif(not os.environ.get("BACKSTORY_FUZZ"), reason="a million queries: set BACKSTORY_FUZZ")
def test_no_text_of_up_to_three_signs_is_a_mistake(filled: Store) -> None:
    check(filled, printable_queries(3))


@pytest.mark.slow
def test_no_random_text_is_a_mistake(filled: Store) -> None:
    chance = random.Random(1)
    letters = string.printable + "\"'*^():+-{}.#,\\" * 4 + "é東한\u0301\u200b\ud800\U0001f600\0"
    check(filled, ("".join(chance.choices(letters, k=chance.randint(1, 40))) for _ in range(examples(10_000))))


@pytest.mark.parametrize(
    "query",
    ["x " * 5_000, '"' * 10_000, "*" * 10_000, "x" * 100_000, '"' + "x " * 10_000, "(" * 10_000, "a.b." * 9_000],
    ids=lambda query: query[:4],
)
def test_no_long_text_is_a_mistake(filled: Store, query: str) -> None:
    check(filled, iter([query]))


# order --------------------------------------------------------------------------------------------------------


def test_a_prompt_comes_before_a_tools_output(store: Store) -> None:
    output = begin(store, ToolResult(tool_name="Bash", content="the gasket is worn"))
    prompt = said(store, "the gasket is worn")
    assert found(store, "gasket") == [prompt.id, output.id]


def test_of_equals_the_newer_comes_first(store: Store) -> None:
    newer, older = said(store, "the gasket is worn"), said(store, "the gasket is worn")
    change(store, "update sessions set last_active = ? where id = ?", NOW - 400 * DAY_MS, older.id)
    assert found(store, "gasket") == [newer.id, older.id]


def test_each_session_is_shown_once_by_its_best_hit(store: Store) -> None:
    begin(store, ToolResult(tool_name="Bash", content="a gasket"), UserMessage(content="gasket"))
    (hit,) = store.search("gasket").hits
    assert hit.scope == "prompt"


def test_all_hits_of_a_session_are_shown_when_asked_for(store: Store) -> None:
    begin(store, UserMessage(content="gasket"), AssistantText(text="a gasket"), Thinking(text="gasket?"))
    assert len(store.search("gasket", hits_per_session=None).hits) == 3
    assert len(store.search("gasket", hits_per_session=2).hits) == 2
    assert len(store.search("gasket", hits_per_session=None, limit=2).hits) == 2


def test_where_nothing_has_every_word_what_has_some_is_shown_and_told(store: Store) -> None:
    session = said(store, "the gasket is worn")
    said(store, "the the the")
    told = store.search("the worn gasket xyzzy")
    assert (told.relaxed, told.hits[0].session_id) == (True, session.id)
    assert store.search("worn gasket").relaxed is False


def test_what_was_nowhere_said_is_not_found_by_other_words(store: Store) -> None:
    said(store, "the gasket is worn")
    assert store.search("xyzzy plugh") == search.SearchResult(total=0, truncated=False, hits=[])


def test_it_is_told_how_many_there_are(store: Store) -> None:
    for _ in range(5):
        said(store, "gasket")
    told = store.search("gasket", limit=3)
    assert (told.total, told.truncated, len(told.hits)) == (5, True, 3)
    assert store.search("gasket", limit=5).truncated is False


def test_words_come_before_parts_of_identifiers(store: Store) -> None:
    words = indexed(store, "the user has a name, and what it is and where it comes from is told elsewhere")
    parts = indexed(store, "getUserName setUserName hasUserName")
    change(store, "update sessions set last_active = ? where id = ?", NOW - DAY_MS, words.id)
    assert found(store, "user name") == [words.id, parts.id]


@pytest.mark.parametrize("scope", ["prompt", "tool_output"])
def test_c_plus_plus_comes_before_the_letter(store: Store, scope: str) -> None:
    meant = indexed(store, "the program was written in C++17 long ago, by people whom nobody remembers", scope)
    letters = [indexed(store, "git -C a -C b", "prompt").id for _ in range(3)]
    assert found(store, "C++") == [meant.id, *letters]


def test_a_rare_word_counts_more_than_a_common_one(store: Store) -> None:
    common = [said(store, "a pump").id for _ in range(5)]
    rare = said(store, "a washer")
    told = store.search("washer pump")
    assert (told.relaxed, [hit.session_id for hit in told.hits]) == (True, [rare.id, *common])


def test_a_connection_is_told_once_how_to_rank(store: Store) -> None:
    said(store, "a pump")
    with closing(apsw.Connection(str(store.path))) as db:
        assert ranking.for_connection(db) is ranking.for_connection(db)


def test_what_is_asked_is_forgotten_by_the_next_search(store: Store) -> None:
    session = said(store, "a pump with a washer")
    first = store.search("washer pump").hits[0].score
    assert found(store, "pump") == [session.id]
    assert store.search("washer pump").hits[0].score == first


# too many hits ------------------------------------------------------------------------------------------------


@pytest.fixture
def crowded(store: Store, monkeypatch: pytest.MonkeyPatch) -> Store:
    """A store where a common word has more hits than are ranked."""
    for module in (search, ranking):
        monkeypatch.setattr(module, "RANKED_HITS_MAX", 50)
    monkeypatch.setattr(ranking, "HITS_OF_SESSION", 3)
    monkeypatch.setattr(ranking, "SESSIONS_RANKED", 2)
    said(store, "common rare")
    for _ in range(10):
        begin(store, *[AssistantText(text="common") for _ in range(20)])
    return store


def test_a_rare_word_is_found_however_common_the_others_are(crowded: Store) -> None:
    assert found(crowded, "common rare") == [1]


def test_of_a_common_word_the_newest_sessions_are_found(crowded: Store) -> None:
    change(crowded, "update sessions set last_active = ? + 1 where id = 3", NOW)
    told = crowded.search("common", limit=5)
    assert (told.total, told.truncated, 3 in [hit.session_id for hit in told.hits]) == (201, True, True)


@pytest.mark.parametrize("query", ["common", "com*"])
def test_a_filter_finds_in_old_sessions_too(crowded: Store, query: str) -> None:
    assert found(crowded, query, Filter(scopes=("prompt",))) == [1]
    assert found(crowded, query, Filter(session_id=1)) == [1]
    assert found(crowded, query, Filter(tool="Bash")) == []


def test_of_the_beginning_of_words_the_newest_sessions_are_found(crowded: Store) -> None:
    change(crowded, "update sessions set last_active = ? + 1 where id = 3", NOW)
    assert 3 in found(crowded, "com*", limit=5)


def test_a_time_long_ago_finds_in_old_sessions(crowded: Store) -> None:
    change(crowded, "update events set at = ? where session_id = 1", NOW - 9 * DAY_MS)
    assert found(crowded, "common", Filter(until=NOW - DAY_MS)) == [1]


def test_words_are_found_however_many_identifiers_have_them(crowded: Store) -> None:
    words = said(crowded, "the spanner")
    for _ in range(60):
        indexed(crowded, "newSpannerSet")
    told = crowded.search("spanner", limit=3)
    assert (told.hits[0].session_id, told.total, told.truncated) == (words.id, 61, True)


def test_parts_of_identifiers_come_after_words_and_are_marked(store: Store) -> None:
    words = [said(store, "the spanner").id for _ in range(3)]
    part = indexed(store, "newSpannerSet")
    told = store.search("spanner")
    assert [(hit.session_id, hit.near) for hit in told.hits] == [*((each, False) for each in words), (part.id, True)]
    assert (told.sessions, told.events, told.near, told.total) == (3, 3, 1, 4)
    assert found(store, "spanner", near=False) == words


def test_where_words_fill_the_room_nothing_near_is_looked_for(store: Store) -> None:
    words = [said(store, "the spanner").id for _ in range(3)]
    indexed(store, "newSpannerSet")
    told = store.search("spanner", limit=2)
    assert ([hit.session_id in words for hit in told.hits], told.truncated) == ([True, True], True)


@pytest.mark.parametrize("query", ["common", "com*", "common washer"])
def test_every_session_is_reachable(crowded: Store, query: str) -> None:
    for _ in range(60):
        begin(crowded, UserMessage(content="common washer"), AssistantText(text="common"))
    told = crowded.search(query, limit=1_000)
    least = 60 if "washer" in query else 71
    assert (len({hit.shown_id for hit in told.hits if not hit.near}), told.sessions) == (least, least)
    assert len(crowded.search(query, limit=7).hits) == 7


def test_of_every_hit_as_many_are_given_as_are_wanted(crowded: Store) -> None:
    assert len({hit.event_id for hit in crowded.search("common", limit=150, hits_per_session=None).hits}) == 150


def test_one_session_of_many_is_found(crowded: Store) -> None:
    change(crowded, "update sessions set branch = 'old' where id = 2")
    assert found(crowded, "common", Filter(branch="old")) == [2]


# filters ------------------------------------------------------------------------------------------------------


@pytest.fixture
def two(store: Store) -> tuple[Session, Session]:
    """Two sessions that say the same."""
    return said(store, "gasket"), said(store, "gasket")


@pytest.mark.parametrize("asked", ["acme/pump", "pump", "ACME/Pump", "github.com/acme/pump", "pump.git"])
def test_by_repository(store: Store, two: tuple[Session, Session], asked: str) -> None:
    change(store, "update sessions set repository = 'acme/pump', project = 'github.com/acme/pump' where id = 1")
    change(store, "update sessions set repository = 'acme/newpump', project = 'github.com/acme/newpump' where id = 2")
    assert found(store, "gasket", Filter(repository=asked)) == [1]


@pytest.mark.parametrize(
    ("asked", "ids"), [("main", [1]), ("feat/x", [2]), ("feat/*", [2]), ("feat", []), ("*", [1, 2])]
)
def test_by_branch(store: Store, two: tuple[Session, Session], asked: str, ids: list[int]) -> None:
    change(store, "update sessions set branch = 'main' where id = 1")
    change(store, "update sessions set branch = 'feat/x' where id = 2")
    assert sorted(found(store, "gasket", Filter(branch=asked))) == ids


@pytest.mark.parametrize(
    ("asked", "ids"),
    [
        ("/a/src/login.ts", [1]), ("login.ts", [1]), ("src/login.ts", [1]), ("src", [1, 2]), ("/a", [1]),
        ("/a/", [1]), ("ogin.ts", []), ("*.ts", [1, 2]), ("./src/login.ts", [1]), ("moved.ts", [2]), ("[x].ts", []),
        ("/a/src/login", []),
    ],
)  # fmt: skip
def test_by_path(store: Store, two: tuple[Session, Session], asked: str, ids: list[int]) -> None:
    columns = "id, session_id, file_path, tool_name, action, first_seq"
    file = f"insert into session_files({columns}) values (?, ?, ?, ?, ?, 1)"
    change(store, file, 1, 1, "/a/src/login.ts", "Edit", "edit")
    change(store, file, 2, 2, "/b/src/other.ts", "Bash", "rename")
    change(store, "insert into file_touches values (2, 1, 0, 'rename', '/b/moved.ts')")
    assert sorted(found(store, "gasket", Filter(path=asked))) == ids


@pytest.mark.parametrize(
    ("asked", "ids"),
    [
        ("12", [1]), ("#12", [1]), ("pr:12", [1]), ("PR #12", [1]), ("issue 12", []), ("acme/pump#12", [1]),
        ("https://github.com/acme/pump/pull/12", [1]), ("acme/other#12", []), ("1a2b3c4", [2]), ("1a2b", [2]),
        ("1a2b3c4d5e6f", [2]), ("commit 1a2b3c4", [2]), ("1a2b3c5", []), ("7", [2]), ("acme/lib#7", [2]), ("", []),
        ("deadbeef", [2]), ("%", []), ("2", []),
    ],
)  # fmt: skip
def test_by_ref(store: Store, two: tuple[Session, Session], asked: str, ids: list[int]) -> None:
    ref = "insert into session_refs(session_id, ref_type, ref_value, repository, seq) values (?, ?, ?, ?, 1)"
    change(store, ref, 1, "pr", "12", "acme/pump")
    change(store, ref, 2, "commit", "1a2b3c4d", "acme/pump")
    change(store, ref, 2, "issue", "acme/lib#7", "acme/lib")
    change(store, ref, 2, "commit", "acme/lib@deadbeef", "acme/lib")
    assert found(store, "gasket", Filter(ref=asked)) == ids


def test_by_time(store: Store, two: tuple[Session, Session]) -> None:
    for session_id, at in ((1, NOW - 2 * DAY_MS), (2, NOW)):
        change(store, "update events set at = ? where session_id = ?", at, session_id)
        change(store, "update sessions set last_active = ? where id = ?", at, session_id)
    assert found(store, "gasket", Filter(since=NOW - DAY_MS)) == [2]
    assert found(store, "gasket", Filter(until=NOW - DAY_MS)) == [1]
    assert found(store, "gasket", Filter(since=NOW, until=NOW)) == []
    assert found(store, "gasket", Filter(since=NOW, until=NOW + 1)) == [2]


def test_of_a_long_session_the_events_of_the_time_count(store: Store) -> None:
    begin(store, UserMessage(content="gasket"), AssistantText(text="washer"))
    change(store, "update events set at = ? where seq = 1", NOW - 9 * DAY_MS)
    assert found(store, "gasket", Filter(since=NOW - DAY_MS)) == []
    assert found(store, "washer", Filter(since=NOW - DAY_MS)) == [1]


def test_by_scope(store: Store) -> None:
    prompt, answer = said(store, "gasket"), begin(store, AssistantText(text="gasket"))
    assert found(store, "gasket", Filter(scopes=("prompt",))) == [prompt.id]
    assert found(store, "gasket", Filter(scopes=("answer", "thinking"))) == [answer.id]


@pytest.mark.parametrize(("asked", "scopes"), [("Bash", 2), ("bash", 2), ("SHELL", 2), ("Read", 0), ("", 0)])
def test_by_tool(store: Store, asked: str, scopes: int) -> None:
    begin(
        store, UserMessage(content="gasket"),
        ToolCall(tool_name="Bash", tool="SHELL", input={"command": "make gasket"}),
        ToolResult(tool_name="Bash", tool="SHELL", content="gasket made"),
    )  # fmt: skip
    assert len(store.search("gasket", Filter(tool=asked), hits_per_session=None).hits) == scopes


def test_a_session_is_left_out(store: Store, two: tuple[Session, Session]) -> None:
    assert found(store, "gasket", Filter(without=(1,))) == [2]


def test_a_record_that_was_read_again_is_found_in_its_session(store: Store) -> None:
    session = begin(store, UserMessage(content="washer"), AssistantText(text="gasket"), AssistantText(text="pump"))
    change(store, "update events set id = 99 where seq = 2")
    insert = "insert into search_index(rowid, content, session_id, scope) values (99, 'gasket', ?, 'answer')"
    change(store, insert, session.id)
    assert found(store, "gasket", Filter(session_id=session.id)) == [session.id]
    assert len(store.search(None, Filter(session_id=session.id)).hits) == 3


# what must not be found ---------------------------------------------------------------------------------------


def test_an_event_that_another_program_deleted_is_not_found(store: Store) -> None:
    session = said(store, "gasket")
    change(store, "delete from events where session_id = ?", session.id)
    for told in (store.search("gasket"), store.search("gasket", ranked=False), store.search("gasket", Filter(since=1))):
        assert (told.total, told.hits) == (0, [])


def test_a_session_that_was_removed_is_not_found(store: Store) -> None:
    store.remove(said(store, "gasket"))
    assert store.search("gasket") == search.SearchResult(total=0, truncated=False, hits=[])


def claim(store: Store) -> tuple[int, int]:
    """A run, and its agent's own log of it, which is not shown."""
    run, log = said(store, "gasket"), said(store, "gasket")
    uid = store.turns(run)[0].uid
    change(store, "update sessions set owner = null, number = null, native_id = 'n1' where id = ?", log.id)
    change(store, "update turns set native_id = 'n1' where session_id = ?", run.id)
    change(store, "update turns set uid = ? where session_id = ?", uid, log.id)
    return run.id, log.id


def test_the_agents_own_log_of_a_run_is_not_found_beside_it(store: Store) -> None:
    run, log = claim(store)
    assert [session.id for session in store.sessions(subagents=True)] == [run]
    assert found(store, "gasket", hits_per_session=None) == [run]
    assert found(store, "gasket", Filter(session_id=log)) == []
    assert [hit.session_id for hit in store.search("gasket", ranked=False).hits] == [run]
    assert [hit.session_id for hit in store.search(None).hits] == [run]


def test_a_helpers_hit_counts_for_the_session_that_called_it(store: Store) -> None:
    parent, helper, helpers_own = said(store, "fix the gasket"), said(store, "gasket"), said(store, "gasket gasket")
    for child, of in ((helper, parent), (helpers_own, helper)):
        change(store, "update sessions set parent_id = ?, relation = 'subagent' where id = ?", of.id, child.id)
    told = store.search("gasket").hits
    assert [hit.shown_id for hit in told] == [parent.id]
    assert {hit.shown_id for hit in store.search("gasket", hits_per_session=None).hits} == {parent.id}
    assert found(store, "gasket", Filter(without=(parent.id,))) == []


def test_a_helper_of_an_agents_own_log_counts_for_the_run(store: Store) -> None:
    run, log = claim(store)
    helper = said(store, "washer")
    change(store, "update sessions set parent_id = ?, relation = 'subagent' where id = ?", log, helper.id)
    (hit,) = store.search("washer").hits
    assert (hit.session_id, hit.shown_id) == (helper.id, run)


def test_a_helper_whose_parents_go_in_a_circle_is_found(store: Store) -> None:
    one, other = said(store, "gasket"), said(store, "washer")
    for child, of in ((one, other), (other, one)):
        change(store, "update sessions set parent_id = ?, relation = 'subagent' where id = ?", of.id, child.id)
    assert len(store.search("gasket").hits) == 1


def test_a_copied_turn_is_found_in_the_oldest_session(tmp_path: Path, clock: Clock) -> None:
    with open_store(tmp_path / "one.bks", now=clock) as one, open_store(tmp_path / "two.bks", now=clock) as two:
        original = said(one, "gasket")
        clock.ms += DAY_MS
        replication.copy_session(two, one, original.uid)
        continuation = replication.continue_session(two, one, original.uid)
        two.append_events(continuation, [UserMessage(content="washer")])
        uids = {session.id: session.uid for session in two.sessions()}
        assert [uids[hit] for hit in found(two, "gasket", hits_per_session=None)] == [original.uid]
        assert [uids[hit] for hit in found(two, "washer")] == [continuation.uid]


# not ranked ---------------------------------------------------------------------------------------------------


def test_every_event_is_given_the_newest_session_first(store: Store) -> None:
    older, newer = begin(store, UserMessage(content="a"), AssistantText(text="b")), said(store, "c")
    change(store, "update sessions set last_active = ? where id = ?", NOW - DAY_MS, older.id)
    assert [hit.session_id for hit in store.search(None).hits] == [newer.id, older.id, older.id]


def test_what_is_not_ranked_has_a_limit_too(store: Store) -> None:
    begin(store, *[AssistantText(text="gasket") for _ in range(5)])
    told = store.search("gasket", limit=3, ranked=False)
    assert (len(told.hits), told.truncated) == (3, True)


def test_without_a_term_nothing_is_given(store: Store) -> None:
    said(store, "gasket")
    with closing(apsw.Connection(str(store.path))) as db:
        assert every(db, "++", Filter(), limit=5).hits == []
