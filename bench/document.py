"""Puts measured figures into docs/performance.md, and five into README.md: ``python -m bench.document FIGURES.json``.

FIGURES.json is what ``make bench JSON=FIGURES.json`` wrote. Only the tables between the two marks are replaced.
"""

from __future__ import annotations

import itertools
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.figures import Figure, beside, bound, from_json, value, verdict
from bench.measuring import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

DOCUMENT = ROOT / "docs" / "performance.md"
README = ROOT / "README.md"
BEGIN, END = "<!-- figures -->", "<!-- end of figures -->"
PROFILE_LINES = 8
IN_README = {
    "bare Python, to compare machines": ("commands on them, over bare Python", "bare Python", "of processor time"),
    "first ingest, everything derived": ("ingest of real logs", "processor time", "of processor time"),
    "store ÷ logs": ("ingest of real logs", "store ÷ logs", "with every byte of the logs"),
    "second ingest, nothing new": (
        "ingest of real logs", "ingest again, nothing new: processor time", "of processor time",
    ),
    "a search, whole process": ("search in them", "process, 95th percentile", "of processor time (95th percentile)"),
    "a run of 200 events": ("a run", "a run of 200 events, over the bare agent", "of processor time over the agent"),
}  # fmt: skip
"""The rows of the README: the section and the name of each figure, and what is said behind it."""


def rendered(told: dict[str, Any]) -> str:
    """The figures as Markdown."""
    figures = [from_json(each) for each in told["figures"]]
    counts = [verdict(each) for each in figures]
    words = ", ".join(f"{counts.count(each)} {each}" for each in ("met", "not met", "not judged", "not measured"))
    quick = " with `QUICK=1`" if told["quick"] else ""
    head = (
        f"Measured at {told['measured_at']}{quick}, revision {told['revision']}, Python {told['python']}, "
        f"{told['processors']} processors, load {told['load']:.1f} at the beginning, in {told['took_s']:,} s: {words}."
    )
    lines = [head]
    for title, each in itertools.groupby(figures, lambda figure: figure.section):
        lines += ["", f"### {title[:1].upper()}{title[1:]}", "", *_table(each)]
    return "\n".join([*lines, *_profiles(figures)])


def rendered_for_readme(told: dict[str, Any]) -> str:
    """The figures that the README shows, as Markdown. Raises SystemExit if one was not measured."""
    # Of two sections with one title the first is about the real logs.
    known = {(each.section, each.name): each for each in map(from_json, reversed(told["figures"]))}
    lines = ["| | |", "|---|---|"]
    for name, (section, figure_name, words) in IN_README.items():
        figure = known.get((section, figure_name))
        if figure is None or figure.value is None:
            raise SystemExit(f"{README.name} shows {figure_name!r} of {section!r}, which was not measured")
        lines.append(f"| {name} | {value(figure)} {words} |")
    return "\n".join(lines)


def _table(figures: Iterable[Figure]) -> Iterator[str]:
    yield "| | figure | bound | | |"
    yield "|---|---|---|---|---|"
    for figure in figures:
        cells = (figure.name, value(figure), bound(figure), verdict(figure), beside(figure))
        yield "| " + " | ".join(each.replace("|", "\\|") for each in cells) + " |"


def _profiles(figures: Iterable[Figure]) -> Iterator[str]:
    missed = [each for each in figures if each.profile]
    if missed:
        yield from ("", "### Where it goes, of what is not met")
    for figure in missed:
        yield from ("", f"{figure.section}: {figure.name}", "", "```text", *figure.profile[:PROFILE_LINES], "```")


def replaced(document: str, figures: str) -> str:
    """A document with other figures."""
    before, _, rest = document.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        raise SystemExit(f"The document has no {BEGIN} … {END}")
    return f"{before}{BEGIN}\n{figures}\n{END}{after}"


def main() -> None:
    """Replace."""
    told = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    for_readme = rendered_for_readme(told)
    DOCUMENT.write_text(replaced(DOCUMENT.read_text("utf-8"), rendered(told)), "utf-8")
    README.write_text(replaced(README.read_text("utf-8"), for_readme), "utf-8")


if __name__ == "__main__":
    main()
