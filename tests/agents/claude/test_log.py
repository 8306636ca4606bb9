"""Whose a log of Claude Code is, and what its odd lines are."""

from __future__ import annotations

from pathlib import Path

import pytest

from backstory.agents.claude import AGENT
from backstory.model import (
    AssistantText,
    Relation,
    Unknown,
)
from tests.support.claude_records import (
    SESSION,
    answer,
    assistant,
    control,
    only,
    record,
    said,
    user,
)


def test_a_session_goes_by_the_name_of_its_file() -> None:
    assert said(user("go")).identity.native_id == SESSION


def test_a_subagent_goes_under_the_session_whose_folder_it_lies_in() -> None:
    identity = said(user("count"), path=f"projects/p/{SESSION}/subagents/agent-abc.jsonl").identity
    assert (identity.native_id, identity.parent_native_id) == (f"{SESSION}/abc", SESSION)
    assert identity.relation == Relation.SUBAGENT


def test_an_older_subagent_beside_its_session_goes_under_the_session_its_records_name() -> None:
    identity = said(user("count", isSidechain=True), path="projects/p/agent-abc.jsonl").identity
    assert (identity.native_id, identity.relation) == (f"{SESSION}/abc", Relation.SUBAGENT)


def test_a_file_without_records_of_ours_is_not_taken() -> None:
    assert AGENT.log.identify(Path("x.jsonl"), b'{"timestamp":"2026","type":"event_msg","payload":{}}\n') is None


def test_the_journal_of_a_workflow_is_no_log() -> None:
    assert not AGENT.log.is_log(Path("workflows/r/journal.jsonl"))
    assert AGENT.log.is_log(Path("a.jsonl.zst"))


def test_a_record_goes_by_its_uuid() -> None:
    assert AGENT.log.native_id_of(user("go", "u-7")) == "u-7"
    assert AGENT.log.native_id_of(control("mode")) is None
    assert AGENT.log.native_id_of(b"torn {") is None


@pytest.mark.parametrize(
    "line",
    [
        answer("ok").replace(b'"ok"', rb'"ok \ud800"'),
        answer("ok").replace(b'"uuid"', b'"score": NaN, "uuid"'),
        b"\xef\xbb\xbf" + answer("ok"),
        answer("ok") + b"\0\0\0",
        answer("ok").replace(b"ok", b"ok \xff"),
    ],
    ids=["a lone surrogate", "NaN", "a byte order mark", "a tail of NUL", "invalid UTF-8"],
)
def test_an_odd_line_is_still_read(line: bytes) -> None:
    what = said(user("go"), line)
    assert only(what, AssistantText).text.startswith("ok")
    assert what.unknown == {}


def test_two_records_on_a_line_are_both_read() -> None:
    what = said(user("go"), answer("one") + control("summary", summary="A title"))
    assert only(what, AssistantText).text == "one"
    assert what.session.title == "A title"


def test_a_line_nested_beyond_reason_is_unknown_and_does_not_stop_the_rest() -> None:
    deep = b'{"type":"user","uuid":"d","attachment":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    what = said(user("go"), deep, b"not json at all", answer("ok"))
    assert what.unknown == {"not JSON": 2}
    assert only(what, AssistantText).text == "ok"


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        (record("novelty"), "novelty"),
        (control("novelty"), "novelty"),
        (record("system", subtype="novelty"), "system/novelty"),
        (record("attachment", attachment={"type": "novelty"}), "attachment/novelty"),
        (assistant({"type": "novelty"}), "assistant/novelty"),
        (b'{"sessionId":"s"}', "record without a type"),
    ],
)
def test_an_unknown_type_is_an_event_and_counted(line: bytes, kind: str) -> None:
    what = said(user("go"), line)
    assert only(what, Unknown).type == kind
    assert what.unknown == {kind: 1}


def test_a_record_that_was_written_twice_is_told_once() -> None:
    assert len(said(user("go"), answer("ok", "a1"), answer("ok", "a1")).all(AssistantText)) == 1
