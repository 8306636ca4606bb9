"""The whole table, on so little that it is measured in seconds: nothing of it fails, everything is in its JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from bench import __main__ as table
from bench import ingests

pytestmark = pytest.mark.slow

SAMPLES = Path(__file__).parent.parent.parent / "demo" / "home"


def test_the_table_is_whole_without_peers_and_earlier_revisions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(table, "GENERATED_BYTES_QUICK", 1e6)
    monkeypatch.setattr(table, "MANY", 20)
    monkeypatch.setattr(ingests, "COPILOT_TURNS", 40)
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
