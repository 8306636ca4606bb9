"""What was meant, though it was not typed so: found after what was typed, and marked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from backstory.ask import query, ranking
from backstory.model import AssistantText, ToolResult, UserMessage
from backstory.store import Filter
from tests.support.clock import NOW
from tests.support.indexed import DAY_MS, begin, change, found, indexed, said

if TYPE_CHECKING:
    from backstory.model import Event
    from backstory.store import Store


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("rate limit", "the rate limits"), ("rate limits", "a rate limit"), ("failing", "it failed"),
        ("query", "two queries"), ('"rate limit"', "both rate limits"), ("stop", "it was stopped"),
        ("dont", "I don't know"), ("don't", "i dont know"), ("doesnt", "it doesn\u2019t"), ("file", "the testFile"),
        ("1234567", "12345678"),
    ],
)  # fmt: skip
def test_other_ways_to_write_it_are_found_and_marked(store: Store, query: str, text: str) -> None:
    session = indexed(store, text)
    told = store.search(query)
    assert [(hit.session_id, hit.near) for hit in told.hits] == [(session.id, True)]
    assert (told.sessions, told.near) == (0, 1)
    assert store.search(query, near=False).hits == []


def test_a_session_that_has_the_words_comes_before_one_that_has_their_forms(store: Store) -> None:
    forms, words = (
        begin(store, AssistantText(text="rate limits")),
        begin(store, ToolResult(tool_name="Bash", content="the rate and a limit")),
    )
    change(store, "update sessions set last_active = ? where id = ?", NOW - 900 * DAY_MS, words.id)
    assert found(store, "rate limit") == [words.id, forms.id]


# other forms in a prompt ---------------------------------------------------------------------------------------


@pytest.fixture(params=["all ranked", "some ranked", "very many"])
def printed(store: Store, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> list[int]:
    """Twelve sessions in which a tool printed the word "gaskets", the oldest first."""
    if request.param != "all ranked":
        monkeypatch.setattr(ranking, "RANKED_HITS_MAX", 3)
        monkeypatch.setattr(ranking, "SESSIONS_RANKED", 1)
        monkeypatch.setattr(ranking, "TWICE_WANTED_MAX", 0)
    if request.param == "very many":
        monkeypatch.setattr(query, "GROUPED_SESSIONS_MAX", 3)
        monkeypatch.setattr(query, "NEWEST_SESSIONS", 1)
    return [_prints(store, "gaskets " * 5) for _ in range(12)]


def _prints(store: Store, output: str, *before: Event) -> int:
    return begin(store, *before, ToolResult(tool_name="Bash", content=output)).id


def _last_active(store: Store, session_id: int, at: int) -> None:
    change(store, "update sessions set last_active = ? where id = ?", at, session_id)


def test_a_plural_finds_the_singular_in_a_prompt_however_many_sessions_printed_the_plural(
    store: Store, printed: list[int]
) -> None:
    asked = said(store, "why is the gasket of the pump worn").id
    _last_active(store, asked, NOW - 900 * DAY_MS)
    told = store.search("gaskets", limit=10)
    assert (told.hits[0].session_id, told.hits[0].near) == (asked, True)
    assert [hit.near for hit in told.hits[1:]] == [False] * 9
    assert (told.sessions, told.events, told.near, told.truncated) == (12, 12, 1, True)


def test_every_session_that_has_the_word_is_found_all_the_same(store: Store, printed: list[int]) -> None:
    asked = said(store, "the gasket").id
    told = store.search("gaskets", limit=100)
    assert sorted(hit.session_id for hit in told.hits if not hit.near) == printed
    assert [hit.session_id for hit in told.hits if hit.near] == [asked]


def test_the_word_as_typed_in_a_prompt_comes_before_its_other_form(store: Store, printed: list[int]) -> None:
    typed = said(store, f"gaskets {'and much that is something else ' * 20}").id
    form = said(store, "gasket").id
    assert found(store, "gaskets", limit=10)[:2] == [typed, form]


def test_a_session_that_printed_the_word_is_not_near_for_a_form_in_its_prompt(store: Store, printed: list[int]) -> None:
    both = _prints(store, "gaskets and much else " * 9, UserMessage(content="the gasket"))
    _last_active(store, both, NOW - 900 * DAY_MS)
    told = store.search("gaskets", limit=10)
    assert (told.hits[0].session_id, told.hits[0].near, told.hits[0].scope) == (both, False, "tool_output")
    assert (told.sessions, told.near) == (13, 0)


def test_of_several_words_each_may_have_another_form(store: Store) -> None:
    printed = [_prints(store, "change the other session " * 3) for _ in range(12)]
    asked = said(store, "show the changes of other sessions").id
    assert found(store, "change other session", limit=10) == [asked, *printed[:9]]
    said(store, "show the changes")
    assert found(store, "change other session", limit=10)[:2] == [asked, printed[0]]


@pytest.mark.parametrize(
    ("query", "how"),
    [
        ('"gaskets"', {}), ('"worn gaskets"', {}), ("gaskets", {"near": False}), ("gaskets", {"sort": "time"}),
        ("gaskets", {"hits_per_session": None}), ("gaskets", {"wanted": Filter(scopes=("tool_output",))}),
        ("gaskets", {"wanted": Filter(tool="Bash")}), ("世界", {}), ("gaskets*", {}),
    ],
)  # fmt: skip
def test_no_prompt_is_asked_for_other_forms(store: Store, query: str, how: dict[str, Any]) -> None:
    printed = [_prints(store, "worn gaskets, 世界") for _ in range(12)]
    said(store, "one worn gasket, 世")
    _last_active(store, 13, NOW - DAY_MS)
    told = store.search(query, **{"limit": 10, **how})
    assert {hit.session_id for hit in told.hits} <= {*printed}
    assert (len(told.hits), told.near) == (10, 0)


def test_words_that_stand_apart_in_a_session_are_found_and_marked(store: Store) -> None:
    apart = begin(store, UserMessage(content="the gasket"), AssistantText(text="a washer"))
    said(store, "the gasket")
    together = said(store, "washer of a gasket")
    told = store.search("gasket washer")
    assert [(hit.session_id, hit.near) for hit in told.hits] == [(together.id, False), (apart.id, True)]


def test_words_that_stand_in_a_session_and_its_helper_are_found(store: Store) -> None:
    parent, helper = said(store, "the gasket"), said(store, "a washer")
    change(store, "update sessions set parent_id = ?, relation = 'subagent' where id = ?", parent.id, helper.id)
    assert [hit.shown_id for hit in store.search("gasket washer").hits] == [parent.id]


def test_an_answer_to_a_question_need_not_have_its_function_words(store: Store) -> None:
    meant = said(store, "main branch tests failing - why?")
    others = [said(store, "why are the main tests of a branch failing in words that mean nothing else").id]
    told = store.search("why are the main branch tests failing")
    assert [hit.session_id for hit in told.hits] == [*others, meant.id]
    assert [hit.near for hit in told.hits] == [False, True]


@pytest.mark.parametrize(
    ("typed", "searched"),
    [
        ("fucntion", "function"), ("functon", "function"), ("functiom", "function"), ("func", "func*"),
        ("fucntio", "functio*"), ("the_function", "the function"),
    ],
)  # fmt: skip
def test_a_word_that_occurs_nowhere_is_searched_as_its_nearest(store: Store, typed: str, searched: str) -> None:
    session = said(store, "here a function, then the other")
    told = store.search(typed)
    assert (told.instead, [hit.session_id for hit in told.hits]) == (((typed, searched),), [session.id])
    assert (told.sessions, told.hits[0].near) == (0, True)


def test_a_word_that_occurs_somewhere_is_searched_as_it_is(store: Store) -> None:
    said(store, "the function")
    fault = said(store, "a fucntion")
    assert found(store, "fucntion") == [fault.id]
    assert store.search("fucntion", Filter(scopes=("answer",))).instead == ()


@pytest.mark.parametrize(
    ("query", "is_found"), [("1a2b3c4", True), ("1A2B3C4", True), ("1a2b3c", False), ("abcdefa", False)]
)
def test_the_beginning_of_a_commits_hash_is_enough(store: Store, query: str, is_found: bool) -> None:
    session = said(store, "see 1a2b3c4d5e and abcdefabcd")
    told = store.search(query, near=False)
    assert [hit.session_id for hit in told.hits] == ([session.id] if is_found else [])


def name_ref(store: Store, session_id: int, kind: str, value: str, seq: int = 1) -> None:
    ref = "insert into session_refs(session_id, ref_type, ref_value, repository, seq) values (?, ?, ?, 'a/b', ?)"
    change(store, ref, session_id, kind, value, seq)


@pytest.mark.parametrize("query", ["#92", "a/b#92"])
def test_a_number_asks_the_refs_first(store: Store, query: str) -> None:
    words = [said(store, "92 and 92 in a b 92").id for _ in range(3)]
    named = begin(store, UserMessage(content="see the pull request"), AssistantText(text="92"))
    change(store, "update sessions set last_active = ? where id = ?", NOW - 900 * DAY_MS, named.id)
    name_ref(store, named.id, "pr", "92")
    told = store.search(query)
    assert told.hits[0].session_id == named.id
    assert sorted(hit.session_id for hit in told.hits) == sorted([*words, named.id])
    assert told.sessions == 4


def test_a_trackers_key_asks_the_refs_first(store: Store) -> None:
    said(store, "ent-221 here")
    named = said(store, "the issue ENT-221 in many words that say nothing else of it, and go on")
    assert found(store, "ENT-221")[0] == named.id
    assert found(store, "issue", Filter(ref="ent-221")) == [named.id]


def test_without_words_a_ref_lists_the_sessions_that_name_it(store: Store) -> None:
    older, other, newer = said(store, "one"), said(store, "two"), begin(
        store, UserMessage(content="first"), AssistantText(text="it is #92")
    )  # fmt: skip
    change(store, "update sessions set last_active = ? where id = ?", NOW - DAY_MS, older.id)
    name_ref(store, older.id, "pr", "92")
    name_ref(store, newer.id, "pr", "92", seq=2)
    told = store.sessions_named(Filter(ref="#92"))
    assert [(hit.session_id, hit.scope) for hit in told.hits] == [(newer.id, "answer"), (older.id, "prompt")]
    assert (told.sessions, other.id in [hit.session_id for hit in told.hits]) == (2, False)


def test_every_branch_that_a_session_was_on_counts(store: Store) -> None:
    session = said(store, "gasket")
    change(store, "update sessions set branch = 'main' where id = ?", session.id)
    change(store, "insert into session_branches(session_id, branch) values (?, 'feat/x')", session.id)
    for asked in ("main", "feat/x", "feat/*"):
        assert found(store, "gasket", Filter(branch=asked)) == [session.id]
    assert found(store, "gasket", Filter(branch="feat")) == []


def test_sorted_by_time_the_last_active_comes_first(store: Store) -> None:
    newer, older = begin(store, ToolResult(tool_name="Bash", content="a gasket")), said(store, "gasket")
    change(store, "update sessions set last_active = ? where id = ?", NOW - DAY_MS, older.id)
    assert [hit.session_id for hit in store.search("gasket", sort="time").hits] == [newer.id, older.id]
    assert found(store, "gasket") == [older.id, newer.id]


@pytest.mark.parametrize("begun", ["03a1", "03a1382e-aaaa"])
def test_a_session_is_known_by_the_beginning_of_its_agents_own_id(store: Store, begun: str) -> None:
    session, helper, other = said(store, "one"), said(store, "two"), said(store, "three")
    for each, native in ((session, "03a1382e-aaaa-bbbb"), (helper, "03a1382e-aaaa-bbbb/x1"), (other, "04a1382e")):
        change(store, "update sessions set native_id = ? where id = ?", native, each.id)
    assert store.session(begun).id == session.id
    assert store.session("03a1382e-aaaa-bbbb/x").id == helper.id
