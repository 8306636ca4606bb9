"""What is derived from an event: the text that is searched, its scope, its length."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstory.derive.index_text import (
    IDENTIFIERS_MAX,
    INDEXED_CHARS_MAX,
    Scope,
    as_parts,
    char_len,
    identifier_parts,
    index_text,
    searchable,
    signed_words,
    texts_in,
)
from backstory.model import (
    KINDS,
    AssistantText,
    Command,
    Compacted,
    Complete,
    Error,
    Event,
    Hook,
    Init,
    ModelSwitch,
    Plan,
    Retry,
    Thinking,
    ToolCall,
    ToolResult,
    Unknown,
    UserMessage,
)
from tests.support.every import every

FOUND = [
    (UserMessage(content="hello"), (Scope.PROMPT, "hello"), 5),
    (AssistantText(text="sure"), (Scope.ANSWER, "sure"), 4),
    (Thinking(text="hm"), (Scope.THINKING, "hm"), 2),
    (Plan(name="p", content="do it"), (Scope.ANSWER, "do it"), 5),
    (ToolResult(tool_name="Bash", content="ok"), (Scope.TOOL_OUTPUT, "ok"), 2),
    (
        ToolCall(tool_name="Bash", input={"command": "make", "n": 1}),
        (Scope.TOOL_INPUT, "Bash make"),
        len('Bash{"command":"make","n":1}'),
    ),
    (Error(message="boom", code="E1"), (Scope.SYSTEM, "boom"), 4),
    (Retry(attempt=2, message="busy"), (Scope.SYSTEM, "busy"), 4),
    (Compacted(summary="long ago"), (Scope.SYSTEM, "long ago"), 8),
    (Hook(name="Stop", output="fine"), (Scope.SYSTEM, "Stop fine"), 4),
    (Command(name="/compact"), (Scope.COMMAND, "/compact"), 8),
    (Command(name="", output="done"), (Scope.SYSTEM, "done"), 4),
    (Command(name="/compact", output="done"), (Scope.SYSTEM, "/compact done"), 12),
]
SILENT: list[Event] = [Init(cwd="/a"), ModelSwitch(model="opus"), Complete(success=True), Unknown(type="odd")]


@every(("event", "found", "length"), FOUND, ids=[each[0].kind for each in FOUND])
def test_each_kind_is_searched_under_its_scope(event: Event, found: tuple[str, str], length: int) -> None:
    assert searchable(event) == found
    assert char_len(event) == length


@pytest.mark.parametrize("event", SILENT, ids=lambda event: event.kind)
def test_kinds_that_say_nothing_are_not_searched(event: Event) -> None:
    assert searchable(event) is None
    assert char_len(event) == 0


def test_every_kind_is_covered_here() -> None:
    assert {event.kind for event, _, _ in FOUND} | {event.kind for event in SILENT} == set(KINDS)


@pytest.mark.parametrize("event", [UserMessage(content=""), AssistantText(text=""), ToolResult(), Error(message="")])
def test_an_empty_text_is_not_searched(event: Event) -> None:
    assert searchable(event) is None


def test_characters_are_counted_not_bytes() -> None:
    assert char_len(UserMessage(content="héllo 日本")) == 8
    assert char_len(ToolCall(tool_name="é", input={"a": "日"})) == len('é{"a":"日"}')


def test_every_text_inside_an_input_is_searched_in_order() -> None:
    assert list(texts_in({"a": "one", "b": [1, "two", {"c": "three", "d": None}], "e": True})) == [
        "one",
        "two",
        "three",
    ]


def test_the_names_of_fields_are_not_searched() -> None:
    assert searchable(ToolCall(tool_name="Bash", input={"timeout": 5})) == (Scope.TOOL_INPUT, "Bash ")


def test_ascii_goes_into_the_index_as_it_is() -> None:
    assert index_text("rate limit (429)") == "rate limit (429)"


@pytest.mark.parametrize("letters", ["東京", "カナ", "한국", "\U00020000\U00020001"])
def test_each_letter_of_scripts_without_spaces_is_a_word(letters: str) -> None:
    assert index_text(f"a{letters}b").split() == ["a", *letters, "b"]


def test_only_so_many_characters_of_an_event_are_indexed() -> None:
    assert len(index_text("x" * (INDEXED_CHARS_MAX + 5))) == INDEXED_CHARS_MAX


@given(st.text())
def test_the_index_gets_every_letter_of_a_text(text: str) -> None:
    assert "".join(index_text(text).split()) == "".join(text.split())


@pytest.mark.parametrize("scope", [Scope.PROMPT, Scope.ANSWER, Scope.TOOL_INPUT])
def test_parts_of_identifiers_follow_the_text(scope: Scope) -> None:
    assert index_text("call getUserName or HTTPServer", scope) == (
        f"call getUserName or HTTPServer\n{as_parts(['get', 'User', 'Name'])}\n{as_parts(['HTTP', 'Server'])}"
    )


@pytest.mark.parametrize("scope", [None, Scope.TOOL_OUTPUT, Scope.THINKING, Scope.SYSTEM])
def test_elsewhere_identifiers_stay_whole(scope: Scope | None) -> None:
    assert index_text("call getUserName", scope) == "call getUserName"


@pytest.mark.parametrize("scope", list(Scope))
def test_names_with_signs_are_found_in_every_scope(scope: Scope) -> None:
    assert index_text("in C++", scope) == "in C++\nCplusplus"


def test_an_identifier_is_taken_apart_once() -> None:
    assert index_text("aB aB aB", Scope.PROMPT) == f"aB aB aB\n{as_parts('aB')}"


@every(
    ("word", "parts"),
    [
        ("getUserName", "get User Name"), ("HTTPServer", "HTTP Server"), ("parseHTTPHeader", "parse HTTP Header"),
        ("userID", "user ID"), ("v2API", "v2 API"), ("plain", ""), ("LOUD", ""), ("Title", ""), ("", ""),
    ],
)  # fmt: skip
def test_case_tells_the_parts(word: str, parts: str) -> None:
    assert " ".join(identifier_parts(word)) == parts


@given(st.text(alphabet="abAB12", max_size=30))
def test_parts_hold_every_letter_in_order(word: str) -> None:
    assert "".join(identifier_parts(word)) in ("", word)


@every(
    ("text", "words"),
    [
        ("C++", ["Cplusplus"]),
        ("in C# or C++?", ["Csharp", "Cplusplus"]),
        ("see #12", []),
        ("C +", []),
        ("a+++b", []),
        ("-std=C++17", ["Cplusplus"]),
        ("argc++", []),
        ("C## C#x", []),
    ],
)
def test_names_with_signs_have_words(text: str, words: list[str]) -> None:
    assert signed_words(text) == words


def test_only_so_many_identifiers_are_taken_apart() -> None:
    text = " ".join(f"aB{n}" for n in range(IDENTIFIERS_MAX + 5))
    assert len(index_text(text, Scope.PROMPT).splitlines()) == 1 + IDENTIFIERS_MAX
