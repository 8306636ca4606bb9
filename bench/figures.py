"""A figure beside its bound, and the one table in which every measurement is printed.

Figures are values: what was measured, its bound, and what the verdict depends on. Wall time says little on a machine
that does other work, so it is judged only if the load was low before every run. What could not be measured says why.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

QUIET_LOAD = 0.5
"""Wall time is judged only if the load of the last minute was below this before each run."""


class Figure(NamedTuple):
    """One row of the table."""

    name: str
    value: float | None
    unit: str = ""
    most: float | None = None
    """The value may be at most so much."""
    least: float | None = None
    """The value must be at least so much."""
    runs: int = 1
    """It is the median of so many runs."""
    loads: tuple[float, ...] | None = None
    """Of wall time: the load before each run."""
    note: str = ""
    why_not: str = ""
    """Why it was not measured."""
    profile: tuple[str, ...] = ()
    """Where it goes, if it does not meet its bound."""
    section: str = ""


def not_measured(name: str, why_not: str, *, most: float | None = None, least: float | None = None) -> Figure:
    """A figure that is missing."""
    return Figure(name, None, most=most, least=least, why_not=why_not)


def verdict(figure: Figure) -> str:
    """``met``, ``not met``, ``not judged``, ``not measured``, or nothing if it has no bound."""
    if figure.value is None:
        return "not measured"
    if figure.most is None and figure.least is None:
        return ""
    if figure.loads is not None and (not figure.loads or max(figure.loads) >= QUIET_LOAD):
        return "not judged"
    is_met = (figure.most is None or figure.value <= figure.most) and (
        figure.least is None or figure.value >= figure.least
    )
    return "met" if is_met else "not met"


def bound(figure: Figure) -> str:
    """Its bound in words."""
    if figure.most is not None:
        return f"≤ {figure.most:g} {figure.unit}".strip()
    return f"≥ {figure.least:g} {figure.unit}".strip() if figure.least is not None else ""


def value(figure: Figure) -> str:
    """It with its unit."""
    return "–" if figure.value is None else f"{_short(figure.value)} {figure.unit}".strip()


def beside(figure: Figure) -> str:
    """What else is to be known of it."""
    words = [figure.why_not, figure.note, f"median of {figure.runs}" if figure.runs > 1 else ""]
    if figure.loads is not None:
        words.append("load " + (" ".join(f"{each:.2f}" for each in figure.loads) or "not known"))
    return "; ".join(each for each in words if each)


def row(figure: Figure) -> str:
    """A line of the table."""
    line = f"  {figure.name:56} {value(figure):>10} {bound(figure):>10} {verdict(figure):12} {beside(figure)}"
    return line.rstrip()


def _short(value: float) -> str:
    if value != 0 and abs(value) < 10:
        return f"{value:.3f}" if abs(value) < 1 else f"{value:.2f}"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}"


def show(figure: Figure) -> None:
    """Print a row, and its profile below."""
    print(row(figure), flush=True)
    for line in figure.profile:
        print(f"      | {line}", flush=True)


def as_json(figure: Figure) -> dict[str, Any]:
    """A figure for programs."""
    return {**figure._asdict(), "verdict": verdict(figure)}


def from_json(told: dict[str, Any]) -> Figure:
    """A figure that another process measured."""
    known = {name: told[name] for name in Figure._fields}
    loads = None if known["loads"] is None else tuple(known["loads"])
    return Figure(**{**known, "loads": loads, "profile": tuple(known["profile"])})


def arguments(doc: str | None) -> argparse.ArgumentParser:
    """What every module understands when it is run alone."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to FILE, too")
    parser.add_argument("--profile", action="store_true", help="profile what does not meet its bound")
    return parser


def report(given: argparse.Namespace, figures: Iterable[Figure]) -> None:
    """Print figures as they are measured; with ``--json`` write them to a file at the end."""
    every = []
    for figure in figures:
        show(figure)
        every.append(figure)
    if given.json:
        given.json.write_text(json.dumps([as_json(each) for each in every], indent=2) + "\n", "utf-8")


def profiled(figure: Figure, lines: Callable[[], list[str]], *, wanted: bool) -> Figure:
    """A figure that does not meet its bound, with its profile."""
    if not wanted or verdict(figure) != "not met":
        return figure
    try:
        return figure._replace(profile=tuple(lines()))
    except Exception as failed:  # A measurement is worth more than the reason for it.
        print(f"no profile of {figure.name}: {failed}", file=sys.stderr)
        return figure
