"""Shared by ``report tips`` and ``report cost-tips``."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from backstory.chronicle.window import DAY_MS
from backstory.cli import output
from backstory.cli.output import flowing
from backstory.cli.report_options import print_report, print_where_there_is, wanted_by, window
from backstory.cli.views.counting import counting
from backstory.export.safe_markdown import plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from backstory.chronicle.patterns.finding import Tip, TipEvidence
    from backstory.chronicle.tips import CostFacts, TipsReport
    from backstory.cli.app import App
    from backstory.cli.report_options import Form, ReportQuestion


DAYS = 30
YEAR_2020_MS = 1_577_836_800_000
"""Before that there were no agents."""


def full_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """``--full``: the command receives ``whole``. ``--all``, its earlier name, works too, and says so."""

    @wraps(function)
    def with_full(*args: Any, whole: bool, whole_as_all: bool, **rest: Any) -> Any:
        if whole_as_all:
            output.talk("--all is called --full here now; in the next release it means every project.")
        return function(*args, whole=whole or whole_as_all, **rest)

    shown = click.option(
        "--full", "whole", is_flag=True, help="Print every tip, not only the strongest of each pattern."
    )
    return shown(click.option("--all", "whole_as_all", is_flag=True, hidden=True)(with_full))


def print_tips(app: App, asked: ReportQuestion, form: Form, *, about_costs: bool, whole: bool) -> None:
    """Look for patterns, and print what was found."""
    app.bring_up_to_date()
    from backstory.chronicle import tips

    wanted = wanted_by(app, asked, DAYS * DAY_MS)
    with counting("Looking for patterns") as report:
        found = tips.tips(app.reader, wanted, about_costs=about_costs, most=None if whole else tips.MOST, report=report)
    if form.explain:
        _print_queries(found, about_costs=about_costs)
        return
    if not found.turns:
        print_where_there_is(app, wanted)
    elif not found.findings:
        output.talk(_nothing(found))
    if not (found.findings or form.json or (about_costs and found.turns)):
        return
    print_report(
        app, form, found, as_json=tips.as_json, text_lines=text_lines, markdown_lines=markdown_lines,
        kind="tips about how a person works with agents",
    )  # fmt: skip


def _nothing(found: TipsReport) -> str:
    looked_at = f"{output.counted(found.turns, 'turn')} in {output.counted(found.looked_at, 'session')}"
    longer = " A longer time may show some: --since 2020-01-01" if (found.wanted.since or 0) > YEAR_2020_MS else ""
    return f"No tips yet from {looked_at}: most need the same pattern in 3 sessions.{longer}"


def _print_queries(found: TipsReport, *, about_costs: bool) -> None:
    from backstory.chronicle.explain_tips import explained

    for each in explained(found, about_costs=about_costs):
        output.data(each)


# tips as text and as markdown -----------------------------------------------------------------------------------------


EVIDENCE_SHOWN = 3
LIMITS = (
    "What a tip cost is an estimate from tokens and prices, so it is about, not exactly, what would be saved",
    "Turns whose cost nobody knows add nothing",
    "Whether a cheaper model would have done as well, with as many tokens, is not known",
)


def text_lines(report: TipsReport) -> Iterator[str]:
    """Each tip with what it cost, what to do, and where it is seen."""
    yield output.style(_title(report), bold=True)
    for number, finding in enumerate(report.findings, 1):
        yield ""
        head = f"{number}. "
        first, *more = flowing(finding.problem, len(head))
        yield output.style(f"{head}{first}", bold=True)
        yield from (output.style(f"{' ' * len(head)}{line}", bold=True) for line in more)
        for name, value in _said(report, finding):
            yield from (f"   {line}" for line in flowing(f"{name}: {value}", 3))
        for evidence in finding.evidence[:EVIDENCE_SHOWN]:
            where, text = _where(report, evidence)
            first, *more = flowing(f"{where}  {output.one_line(text, 100)}", 7)
            yield f"     {output.ident(where)}{first.removeprefix(where)}"
            yield from (f"       {line}" for line in more)
        if more_seen := _more(finding):
            yield output.style(f"     {more_seen}", dim=True)
    for name, lines in _ends(report):
        yield ""
        yield output.style(name, bold=True)
        yield from (f"  {part}" for line in lines for part in flowing(line, 2))


def markdown_lines(report: TipsReport) -> Iterator[str]:
    """The same as Markdown."""
    yield f"# {_title(report)}"
    for number, finding in enumerate(report.findings, 1):
        yield from ("", f"## {number}. {plain(finding.problem)}", "")
        yield from (f"- {name}: {plain(value)}" for name, value in _said(report, finding))
        for evidence in finding.evidence[:EVIDENCE_SHOWN]:
            where, text = _where(report, evidence)
            yield f"  - `{where}` {plain(output.one_line(text, 300))}"
        if more_seen := _more(finding):
            yield f"  - {more_seen}"
    for name, lines in _ends(report):
        yield from ("", f"## {name}", "", *(f"- {plain(line)}" for line in lines))


def _title(report: TipsReport) -> str:
    name = "Tips" if report.facts is None else "Cost tips"
    counts = f"{output.counted(report.turns, 'turn')} in {output.counted(report.looked_at, 'session')}"
    return f"{name} {window(report.wanted)}: {counts}"


def _said(report: TipsReport, finding: Tip) -> Iterator[tuple[str, str]]:
    session = report.sessions.get(finding.evidence[0].context)
    action = finding.action.replace("SESSION", session.label) if session is not None else finding.action
    yield ("Cost" if report.facts is None else "Expected"), _cost(report, finding)
    yield "Do", action


def _cost(report: TipsReport, finding: Tip) -> str:
    parts = []
    if finding.usd is not None:
        parts.append(f"about {output.dollars(finding.usd)}{'' if report.facts is None else ' less'}")
    if finding.ms is not None:
        parts.append(f"about {output.duration(finding.ms)}")
    known = " and ".join(parts) or "not known"
    return f"{known}, in {output.counted(finding.sessions, 'session')}"


def _where(report: TipsReport, evidence: TipEvidence) -> tuple[str, str]:
    session = report.sessions.get(evidence.context)
    label = evidence.context if session is None else session.label
    cost = f" (~{output.dollars(evidence.usd)})" if evidence.usd is not None and evidence.usd >= 0.01 else ""
    return f"{label} @{evidence.seqs[0]}", f"{evidence.text}{cost}"


def _more(finding: Tip) -> str:
    more = len(finding.evidence) - EVIDENCE_SHOWN
    return f"and {more:,} more: --json" if more > 0 else ""


def _ends(report: TipsReport) -> Iterator[tuple[str, list[str]]]:
    if report.facts is not None:
        yield "Facts", list(_facts(report.facts))
        yield "Limits", list(LIMITS)
    if report.left_out:
        yield "More", [f"{output.counted(report.left_out, 'tip')} more: --full"]


def _facts(facts: CostFacts) -> Iterator[str]:
    unknown = output.counted(facts.unknown_turns, "turn")
    rest = f"; what {unknown} cost is not known" if facts.unknown_turns else ""
    yield f"These turns cost {output.dollars(facts.low_usd)} at least{rest}"
    if facts.all_input:
        yield f"{facts.cache_read / facts.all_input:.0%} of all input was read from caches"
    if facts.subagents_usd:
        yield f"Subagents cost {output.dollars(facts.subagents_usd)} of it"
