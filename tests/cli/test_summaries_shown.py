"""Summaries where people meet them: in show, context --explain, search and compact --show."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from backstory import AssistantText, Compacted, UserMessage, open_store
from backstory.cli.tui import blocks
from backstory.cli.tui.blocks import SessionView
from backstory.store.tables import compactions
from backstory.store.tables.compactions import NewCompaction
from backstory.workspace.history.blocks import content_of
from backstory.workspace.opening import open_workspace

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.shell import Shell

SUMMARY = (
    "The quicksilver table was kept, because the ledger lost cents at 4,711 rows.\nNothing is open. " + "It is. " * 70
)


@pytest.fixture
def told(bare: Shell) -> Path:
    """Five exchanges of two records each, of which a summary covers the first four records."""
    path = bare.home / "told.bks"
    with open_store(path) as store:
        session = store.create_session()
        for n in range(1, 6):
            said = f"answer {n}: we will keep the table, because the ledger lost cents at 4,711 rows and 9,999 lines"
            store.append_events(session, [UserMessage(content=f"prompt {n}"), AssistantText(text=said)])
        store.decide(compactions.add, session.id, NewCompaction(after_seq=4, summary=SUMMARY, agent="claude"))
    return path


def undo(path: Path) -> None:
    with open_store(path) as store:
        store.decide(compactions.undo, 1)


def test_show_folds_a_summary_where_it_stands(bare: Shell, told: Path) -> None:
    lines = bare("show", "S1", "--db", told).out.splitlines()
    (at,) = (n for n, line in enumerate(lines) if "≡" in line)
    assert "2 exchanges summarised (@1–@4)" in lines[at]
    assert f"{len(SUMMARY):,} characters · by claude" in lines[at]
    assert "quicksilver" not in "".join(lines)
    assert any("answer 2" in line for line in lines[:at])
    assert any("prompt 3" in line for line in lines[at:])


@pytest.mark.parametrize(("after_seq", "place"), [(4, "prompt 3"), (10, "✓")])
def test_the_screen_folds_a_summary_where_it_is(bare: Shell, told: Path, after_seq: int, place: str) -> None:
    undo(told)
    with open_store(told) as store:
        (session,) = store.sessions()
        store.mark_completed(session, duration_ms=1, cost_usd=0.1)
        store.decide(compactions.add, session.id, NewCompaction(after_seq=after_seq, summary=SUMMARY, agent="claude"))
    with open_workspace(bare.cwd, bare.environ, store=str(told)) as workspace:
        content = content_of(workspace.reader, workspace.resolve("S1"))
        view = SessionView(columns=80, now=0)
        lines = [each.text for each in blocks.drawn(workspace.reader, content, 0, view)]
    (at,) = (n for n, line in enumerate(lines) if "≡" in line)
    assert f"(@1–@{after_seq})" in lines[at]
    assert any(place in line for line in lines[at:])
    assert not any("answer 2" in line for line in lines[at:])


def test_in_full_it_is_whole_and_not_one_word_of_what_it_covers_is_lost(bare: Shell, told: Path) -> None:
    shown = bare("show", "S1", "--full", "--db", told).out
    assert all(line.strip() in shown for line in SUMMARY.splitlines())
    assert all(f"prompt {n}" in shown and f"answer {n}: we" in shown for n in range(1, 6))


def test_taken_back_it_is_shown_no_more(bare: Shell, told: Path) -> None:
    undo(told)
    assert "≡" not in bare("show", "S1", "--db", told).out
    assert json.loads(bare("show", "S1", "--json", "--db", told).out)["compactions"] == []


def test_json_has_it_beside_the_turns(bare: Shell, told: Path) -> None:
    (found,) = json.loads(bare("show", "S1", "--json", "--db", told).out)["compactions"]
    assert {name: found[name] for name in ("first_seq", "after_seq", "exchanges", "agent", "in_force", "summary")} == {
        "first_seq": 1, "after_seq": 4, "exchanges": 2, "agent": "claude", "in_force": True, "summary": SUMMARY,
    }  # fmt: skip


def test_one_turn_shows_only_the_summary_in_it(bare: Shell, told: Path) -> None:
    assert "≡" not in bare("show", "S1", "--turn", "1", "--db", told).out
    assert "≡" in bare("show", "S1", "--turn", "2", "--db", told).out
    assert "≡" not in bare("show", "S1", "--turn", "3", "--db", told).out


def test_every_record_that_it_covers_is_reached_by_its_number(bare: Shell, told: Path) -> None:
    for n in range(1, 6):
        assert f"prompt {n}" in bare("show", "S1", f"@{2 * n - 1}", "--db", told).out
        assert f"answer {n}: we" in bare("show", "S1", f"@{2 * n}", "--db", told).out


def test_a_search_that_finds_it_leads_to_its_text(bare: Shell, told: Path) -> None:
    (hit,) = json.loads(bare("search", "quicksilver", "--json", "--db", told).out)["hits"]
    assert (hit["seq"], hit["kind"], hit["scope"]) == (4, "Compacted", "system")
    assert "quicksilver" in hit["snippet"]
    assert "quicksilver" in bare("show", "S1", f"@{hit['seq']}", "--full", "--db", told).out
    (found,) = json.loads(bare("show", "S1", "@4", "--json", "--db", told).out)["compactions"]
    assert found["summary"] == SUMMARY
    assert bare("search", "quicksilver", "--db", told).out
    undo(told)
    assert bare("search", "quicksilver", "--db", told).code == 1


def test_explain_says_what_the_summary_stands_for(bare: Shell, told: Path) -> None:
    done = bare("context", "S1", "--explain", "--db", told)
    states = [line.split()[2] for line in done.err.splitlines()[1:6]]
    assert states == ["summarised", "summarised", "sent", "sent", "sent"]
    assert f"A summary of {len(SUMMARY):,} characters, by claude, stands for all up to @4" in done.err
    given = json.loads(bare("context", "S1", "--explain", "--json", "--db", told).out)
    assert given["compaction"]["after_seq"] == 4
    assert [each["state"] for each in given["explained"]] == states
    assert [each["sent"] for each in given["explained"]] == [False, False, True, True, True]
    undo(told)
    assert json.loads(bare("context", "S1", "--json", "--db", told).out)["compaction"] is None
    assert "summarised" not in bare("context", "S1", "--explain", "--db", told).err


def test_what_is_in_brief_is_told(bare: Shell, told: Path) -> None:
    with open_store(told) as store:
        for n in range(6, 12):
            store.append_events(1, [UserMessage(content=f"prompt {n}"), AssistantText(text="word " * 600)])
    done = bare("context", "S1", "--explain", "--budget", "10000", "--db", told)
    states = [line.split("  ")[-2].strip() for line in done.err.splitlines()[3:12]]
    assert "in brief" in done.err
    assert "before those in brief" in done.err
    assert states


def test_compact_show_prints_what_the_summary_still_names(bare: Shell, told: Path) -> None:
    done = bare("compact", "S1", "--show", "--db", told)
    assert "Of what it covers it still names 0 of 2 decisions, 1 of 2 numbers." in done.err
    given = json.loads(bare("compact", "S1", "--show", "--json", "--db", told).out)
    kept: list[dict[str, Any]] = given["retention"]
    assert {each["kind"]: (each["named"], each["total"]) for each in kept} == {"decisions": (0, 2), "numbers": (1, 2)}


def test_an_agents_own_summary_is_shown_as_such(bare: Shell, told: Path) -> None:
    with open_store(told) as store:
        store.append_events(1, [Compacted(summary="An agent's own words of before.")])
    shown = bare("show", "S1", "--db", told).out
    assert "context compacted" in shown
    assert "An agent's own words" in bare("show", "S1", "--full", "--db", told).out
    assert bare("search", "agent's own words", "--db", told).out
