"""What commands print of a session whose log we wrote: what was copied into it is named, not told again."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.support.bench import Bench
from tests.support.written_logs import own, written_of

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

CLAUDE = own("claude", "original", "alpha", "beta", minute=1)
CODEX = written_of(CLAUDE, "codex", minute=10).with_more("gamma", minute=20)


@pytest.fixture
def continued(tmp_path: Path) -> Bench:
    bench = Bench(tmp_path)
    for log in (CODEX, CLAUDE):
        path = bench.root / log.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(log.bytes)
    assert bench.backstory("ingest").returncode == 0
    return bench


def test_show_names_where_copied_turns_are_shown(continued: Bench) -> None:
    shown = continued.backstory("show", CODEX.native_id).stdout
    assert f"── turns 1–2  copied: backstory show {CLAUDE.uid}\n" in shown
    assert "ask alpha" not in shown
    assert "ask gamma" in shown
    told = json.loads(continued.backstory("show", CODEX.native_id, "--json").stdout)
    assert [turn["shown_in"] for turn in told["turns"]] == [CLAUDE.uid, CLAUDE.uid, None]


def test_show_names_what_continues_a_session(continued: Bench) -> None:
    assert f"└ continuation {CODEX.uid[:12]} (1 turn) ask gamma" in continued.backstory("show", CLAUDE.uid).stdout
    told = json.loads(continued.backstory("show", CLAUDE.uid, "--json").stdout)
    assert told["session"]["children"] == [
        {"uid": CODEX.uid, "label": CODEX.uid[:12], "relation": "continuation", "turn_count": 1}
    ]


def test_rm_says_that_copies_remain_in_what_was_written(continued: Bench) -> None:
    done = continued.backstory("rm", CLAUDE.uid, "--yes")
    assert f"Copies of its turns remain in {CODEX.uid[:12]}" in done.stdout + done.stderr
    (left,) = json.loads(continued.backstory("list", "--all", "--json").stdout)["sessions"]
    assert (left["uid"], left["turn_count"]) == (CODEX.uid, 3)
