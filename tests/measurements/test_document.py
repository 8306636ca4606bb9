"""Figures go into the document between its marks, and nothing else of it changes."""

from __future__ import annotations

import pytest

from bench.document import BEGIN, DOCUMENT, END, rendered, replaced
from bench.figures import Figure, as_json, not_measured

TOLD = {
    "measured_at": "2026-11-22T21:00:00Z", "took_s": 1234, "revision": "abc", "python": "3.11.7", "processors": 2,
    "load": 0.2, "quick": False,
    "figures": [
        as_json(Figure("cpu", 1.5, "s", most=1, runs=5, section="ingest", profile=("1.2 s  slow.py:1 crawl",))),
        as_json(not_measured("wall", "no network", least=2.8)._replace(section="ingest")),
        as_json(Figure("list | all", 12, "ms", section="commands")),
    ],
}  # fmt: skip


def test_every_figure_stands_beside_its_bound_with_its_verdict() -> None:
    lines = rendered(TOLD).splitlines()
    assert "| cpu | 1.50 s | ≤ 1 s | not met | median of 5 |" in lines
    assert "| wall | – | ≥ 2.8 | not measured | no network |" in lines
    assert "| list \\| all | 12.0 ms |  |  |  |" in lines
    assert [line for line in lines if line.startswith("### ")] == [
        "### Ingest", "### Commands", "### Where it goes, of what is not met",
    ]  # fmt: skip
    assert "1.2 s  slow.py:1 crawl" in lines
    assert "1 not met" in lines[0]


def test_only_what_is_between_the_marks_is_replaced() -> None:
    document = f"before\n{BEGIN}\nold\n{END}\nafter\n"
    once = replaced(document, "new")
    assert once == f"before\n{BEGIN}\nnew\n{END}\nafter\n"
    assert replaced(once, "new") == once


def test_a_document_without_marks_is_refused() -> None:
    with pytest.raises(SystemExit):
        replaced("before and after", "new")


def test_the_document_has_its_marks() -> None:
    assert replaced(DOCUMENT.read_text("utf-8"), "new").count("new\n") >= 1
