"""Events as values, and as the JSON they are stored as."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstory import model
from backstory.conversation.compact import compact_event
from backstory.model import KINDS, Event, Tokens, event_from_json, event_to_json

# JSON has no lone surrogates, no NaN and no infinity.
texts = st.text(st.characters(codec="utf-8"), max_size=40)
numbers = st.integers(min_value=-(2**63), max_value=2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
json_values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=10,
)
optional_texts = st.none() | texts

FIELDS: dict[str, dict[str, st.SearchStrategy[Any]]] = {
    "Init": {"cwd": texts, "model": texts, "version": texts},
    "UserMessage": {"content": texts},
    "AssistantText": {"text": texts},
    "Thinking": {"text": texts},
    "ToolCall": {
        "tool_use_id": texts,
        "tool_name": texts,
        "tool": st.sampled_from(model.Tool).map(str) | texts,
        "file_path": optional_texts,
        "input": json_values,
        "is_compact": st.booleans(),
    },
    "ToolResult": {
        "tool_use_id": texts,
        "tool_name": texts,
        "tool": texts,
        "file_path": optional_texts,
        "content": texts,
        "is_error": st.booleans(),
        "changes": st.dictionaries(texts, texts, max_size=2),
        "duration_ms": st.none() | st.integers(min_value=0, max_value=2**53),
        "details": texts,
        "is_compact": st.booleans(),
    },
    "Error": {"message": texts, "code": texts},
    "Plan": {"name": texts, "content": texts},
    "Hook": {"tool_use_id": texts, "is_state": st.booleans(), "name": texts, "output": texts},
    "Command": {"name": texts, "output": texts},
    "ModelSwitch": {"model": texts},
    "Retry": {
        "attempt": st.integers(min_value=0, max_value=2**31),
        "attempts_max": st.integers(min_value=0, max_value=2**31),
        "message": texts,
    },
    "Compacted": {"summary": texts},
    "Complete": {
        "success": st.booleans(),
        "duration_ms": st.none() | st.integers(min_value=0, max_value=2**53),
        "cost_usd": st.none() | st.floats(min_value=0, allow_infinity=False),
    },
    "Unknown": {"type": texts},
}


def events_of(kind: str) -> st.SearchStrategy[Event]:
    return st.builds(KINDS[kind], **FIELDS[kind])


any_event = st.sampled_from(sorted(KINDS)).flatmap(events_of)


def test_every_kind_and_every_field_is_covered_here() -> None:
    assert {kind: list(fields) for kind, fields in FIELDS.items()} == {
        name: list(kind.__struct_fields__) for name, kind in KINDS.items()
    }


@given(any_event)
def test_an_event_comes_back_from_its_json(event: Event) -> None:
    assert event_from_json(event_to_json(event)) == event


@given(any_event)
def test_a_compact_event_comes_back_from_its_json(event: Event) -> None:
    compact = compact_event(event)
    assert compact.kind == event.kind
    assert event_from_json(event_to_json(compact)) == compact


@given(any_event)
def test_the_json_of_an_event_is_one_line_with_its_kind_as_the_only_key(event: Event) -> None:
    written = event_to_json(event)
    assert b"\n" not in written
    assert list(msgspec.json.decode(written)) == [event.kind]


def test_a_kind_of_a_later_version_is_unknown() -> None:
    assert event_from_json(b'{"Dream":{"about":"sheep"}}') == model.Unknown(type="Dream")


def test_a_field_of_a_later_version_is_passed_over() -> None:
    assert event_from_json(b'{"UserMessage":{"content":"hi","mood":"good"}}') == model.UserMessage(content="hi")


@pytest.mark.parametrize("written", [b"", b"{", b"[]", b"{}", b'"Compacting"', b'{"UserMessage":{}}', b"\xff"])
def test_what_is_no_event_is_refused(written: bytes) -> None:
    with pytest.raises(ValueError):
        event_from_json(written)


def test_an_event_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        model.UserMessage(content="hi").content = "ho"  # type: ignore[misc]


def test_an_event_is_found_under_its_own_name() -> None:
    assert all(kind.__name__ == name == kind.kind for name, kind in KINDS.items())


def test_a_sum_of_tokens_of_which_a_part_is_unknown_is_unknown() -> None:
    counted, lacking = Tokens(input=1, output=2, largest_input=9), Tokens(output=3)
    assert (counted.plus(lacking), lacking.plus(counted)) == (Tokens(output=5), Tokens(output=5))
    assert counted.plus(counted) == Tokens(input=2, output=4, largest_input=9)
