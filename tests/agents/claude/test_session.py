"""Titles, folders, branches and versions of sessions."""

from __future__ import annotations

from backstory import ids
from backstory.agents import bounded
from backstory.agents.claude import AGENT
from backstory.derive.facts import DerivedFacts, RecordFacts
from backstory.model import (
    FoundSummary,
    LogIdentity,
)
from tests.support.claude_records import (
    SESSION,
    answer,
    control,
    said,
    user,
)


def test_a_summary_is_told_with_its_leaf_and_is_no_title_of_the_log_that_it_stands_in() -> None:
    reader, facts = bounded.log_reader(AGENT, LogIdentity(native_id=SESSION), None, tuple), RecordFacts()
    for line in (control("summary", summary=" Theirs ", leafUuid="elsewhere"), user("go", "u1"), answer("ok", "a1")):
        facts.take(reader.read(line, 1))
    found = DerivedFacts()
    facts.move_to(found)
    assert reader.session.title is None
    assert found.summaries == [FoundSummary(ids.record_key("elsewhere"), "Theirs")]
    assert found.record_ids == ids.record_key("u1") + ids.record_key("a1")


def test_a_summary_that_names_no_leaf_is_of_the_log_that_it_stands_in() -> None:
    assert said(control("summary", summary="Ours"), user("go")).session.title == "Ours"


def test_a_title_given_by_hand_wins_over_one_that_was_made() -> None:
    what = said(user("go"), control("custom-title", customTitle="Mine"), control("ai-title", aiTitle="Made"))
    assert what.session.title == "Mine"


def test_the_folder_is_the_first_and_the_branch_and_version_are_the_last() -> None:
    what = said(
        user("a", cwd="/a", gitBranch="main", version="2.0"), user("b", cwd="/b", gitBranch="fix", version="2.1"),
        user("c", cwd="/b", gitBranch="HEAD", version="2.1"),
    )  # fmt: skip
    facts = what.session
    assert (facts.cwd, facts.branch, facts.agent_version) == ("/a", "fix", "2.1")
