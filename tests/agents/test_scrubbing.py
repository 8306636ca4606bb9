"""A case that somebody gives away holds nothing of them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstory.agents.scrubbing import Scrubber, filler

PLANTED = {
    "name": "Ann Miller", "user": "annmiller", "mail": "ann.miller@corp.example",
    "path": "/home/annmiller/work/secret.py", "host": "annmiller-laptop",
    "token": "ghp_16C7e42F292c6912E7710c838347Ae178B4a", "password": "correct horse battery",
    "phone": "+49 151 2345678", "at": "2025-11-03T14:15:16.789+05:30", "pin": 471_123, "seconds": 1_762_179_316,
    "card": 4_929_123_412_341_234, "height": 1.731,
}  # fmt: skip


def scrubbed(record: dict[str, Any], *about: str, agent: str = "claude") -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Scrubber(agent, about).line(json.dumps(record).encode()))
    return found


def parts(value: Any) -> list[str]:
    """The words and numbers of a planted value that say something."""
    return [part for part in str(value).replace("/", " ").replace("@", " ").split() if len(part) > 2]


@pytest.mark.parametrize("planted", PLANTED)
@pytest.mark.parametrize("place", ["value", "key", "json", "list", "type"])
def test_nothing_of_a_person_is_left(planted: str, place: str) -> None:
    value = PLANTED[planted]
    records: dict[str, dict[str, Any]] = {
        "value": {"type": "user", "cwd": PLANTED["path"], "mood": {"of": value}},
        "key": {"type": "user", "cwd": PLANTED["path"], "mood": {str(value): 1}},
        "json": {"type": "user", "text": json.dumps({"mood": [{str(value): value}]})},
        "list": {"type": "user", "content": [[value], value]},
        "type": {"type": str(value), "role": str(value), "message": {"content": [{"type": str(value)}]}},
    }
    found = json.dumps(scrubbed(records[place], "mood"), ensure_ascii=False)
    assert [part for part in parts(value) if part in found] == []


def test_texts_keep_their_length_and_kind() -> None:
    text = "Ann's code: /home/ann/größe.py\n\t(3 ✓)"
    assert len(filler(text)) == len(text)
    found = scrubbed({"type": "user", "message": {"content": text, "usage": {"input_tokens": 12_345}}, "isMeta": True})
    assert found["message"]["content"] == filler(text)
    assert (found["message"]["usage"]["input_tokens"], found["isMeta"]) == (10_000, True)


def test_ids_are_others_and_the_same_where_they_were_the_same() -> None:
    scrubber = Scrubber("claude")
    one, other = "3f2b8f5e-5a6b-4d5c-9d8f-0a1b2c3d4e5f", "toolu_01AbCdEf23456789"
    first = json.loads(scrubber.line(json.dumps({"uuid": one, "parentUuid": other}).encode()))
    second = json.loads(scrubber.line(json.dumps({"uuid": "x", "parentUuid": one}).encode()))
    assert second["parentUuid"] == first["uuid"] != one
    assert first["parentUuid"] != other
    assert first["parentUuid"].startswith("toolu_")
    assert [len(first["uuid"]), len(first["parentUuid"])] == [len(one), len(other)]


def test_times_keep_their_order_and_their_form() -> None:
    found = scrubbed({"at": "2025-11-03T14:15:16.789Z", "then": "2025-11-03 14:15:17", "now": 1_762_179_316_000})
    assert found["key1" if "at" not in found else "at"] == "2026-01-01T00:00:00.000Z"
    assert sorted(map(str, found.values())) == ["1767225602000", "2026-01-01 00:00:01", "2026-01-01T00:00:00.000Z"]


def test_the_words_of_the_format_stay() -> None:
    record = {
        "type": "assistant",
        "version": "2.1.330",
        "message": {"role": "assistant", "content": [{"type": "text"}]},
    }
    assert scrubbed(record) == record


def test_the_unknown_words_that_a_case_is_about_stay_and_are_named() -> None:
    scrubber = Scrubber("claude", ["telepathy", "mood"])
    found = json.loads(scrubber.line(b'{"type": "telepathy", "mood": {"annmiller": 1, "tokenCount": 2}}'))
    assert found == {"type": "telepathy", "mood": {"key1": 1, "tokenCount": 2}}
    assert scrubber.kept == {"telepathy", "mood", "tokenCount"}


@given(st.text(st.characters(categories=["L", "N", "P", "S", "Z"]), min_size=1))
def test_of_any_text_no_word_is_left(text: str) -> None:
    value = Scrubber("claude").line(json.dumps({"message": {"content": text}}).encode())
    found = json.loads(value)["message"]["content"]
    letters = {each for each in text if each.isalpha() and each not in "xX"}
    if not any(each.isascii() and each.isdigit() for each in text) and text[:1] not in ("[", "{"):
        assert not letters & {*found}
