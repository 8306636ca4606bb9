"""Figures go into the document between its marks, and nothing else of it changes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from bench.document import BEGIN, DOCUMENT, END, IN_README, README, rendered, rendered_for_readme, replaced
from bench.figures import Figure, as_json, not_measured

if TYPE_CHECKING:
    from pathlib import Path

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


@pytest.mark.parametrize("path", [DOCUMENT, README], ids=lambda path: path.name)
def test_the_document_has_its_marks(path: Path) -> None:
    assert replaced(path.read_text("utf-8"), "new").count("new\n") >= 1


def test_the_readme_has_a_row_for_each_of_its_figures_of_the_real_logs() -> None:
    measured = [as_json(Figure(name, 0.5, "s", section=section)) for section, name, _ in IN_README.values()]
    of_other_logs = [as_json(Figure(name, 9.5, "s", section=section)) for section, name, _ in IN_README.values()]
    rows = rendered_for_readme({**TOLD, "figures": measured + of_other_logs}).splitlines()[2:]
    assert rows == [f"| {name} | 0.500 s {words} |" for name, (_, _, words) in IN_README.items()]


def test_the_readme_is_not_given_figures_that_were_not_measured() -> None:
    with pytest.raises(SystemExit, match="bare Python"):
        rendered_for_readme(TOLD)


def test_the_figures_of_the_readme_are_those_of_the_document() -> None:
    sections = dict(
        re.findall(r"^### (.+?)\n(.*?)(?=^###|\Z)", DOCUMENT.read_text("utf-8"), re.MULTILINE | re.DOTALL)[::-1]
    )
    shown = README.read_text("utf-8").partition(BEGIN)[2].partition(END)[0]
    for name, (section, figure, words) in IN_README.items():
        found = re.search(
            rf"^\| {re.escape(figure)} \| (.+?) \|", sections[section[:1].upper() + section[1:]], re.MULTILINE
        )
        assert found, f"docs/performance.md has no {figure!r}"
        assert f"| {name} | {found.group(1)} {words} |" in shown
