"""The whole table, on so little that it is measured in seconds: nothing of it fails, everything is in its JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from bench import __main__ as table
from bench import homes, ingests, measuring, startup

pytestmark = pytest.mark.slow

POOL = "POOL_LIMIT = 140_000_000"
SAMPLES = Path(__file__).parent.parent.parent / "demo" / "home"


@pytest.mark.long
def test_the_table_is_whole_without_peers_and_earlier_revisions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(table, "GENERATED_BYTES_QUICK", 1e6)
    monkeypatch.setattr(table, "MANY", 20)
    monkeypatch.setattr(ingests, "COPILOT_TURNS", 40)
    monkeypatch.setattr(table, "_few_queries", lambda plan: ["--queries", "5", "--rounds", "1"])
    in_turn, alone = measuring.in_turn, table.alone
    few = {"run": ["--runs", "1"], "syncing": ["--sessions", "50"], "arriving": ["--turns", "1"]}
    monkeypatch.setattr(table, "alone", lambda plan, name, *words: alone(plan, name, *words, *few.get(name, [])))
    monkeypatch.setattr(startup, "in_turn", lambda commands, runs, *more: in_turn(commands, 1, *more))
    # The program that makes logs reads its words from this machine: much less of it does for few logs.
    program = Path(homes.__file__).with_name("make_logs.py").read_text("utf-8")
    assert POOL in program
    (tmp_path / "make_logs.py").write_text(program.replace(POOL, "POOL_LIMIT = 1_000_000"), "utf-8")
    monkeypatch.setattr(homes, "__file__", str(tmp_path / "homes.py"))
    out = tmp_path / "figures.json"
    monkeypatch.setattr(sys, "argv", ["bench", str(SAMPLES), "--quick", "--runs", "1", "--json", str(out)])
    table.main()
    told = json.loads(out.read_text("utf-8"))["figures"]
    missing = {each["name"]: each["why_not"] for each in told if each["verdict"] == "not measured"}
    reasons = {"left out by QUICK", "no folder is named for it", "no revision is named to compare with"}
    assert set(missing.values()) == reasons
    assert "the rest of it" not in missing
    bounded = {each["name"] for each in told if each["most"] or each["least"]}
    assert bounded >= {"store ÷ logs", "--version", "list", "syncs of a run", "store ÷ logs after optimize --all"}
    assert all(each["name"] in capsys.readouterr().out for each in told[:1])
