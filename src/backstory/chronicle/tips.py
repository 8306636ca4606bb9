"""Tips: patterns in how a person works with agents, each with its evidence and what to do about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from backstory.bounds import counted, duration, iso
from backstory.chronicle.patterns import (
    caches,
    contexts,
    failures,
    missing,
    models,
    permissions,
    prompts,
    rereads,
    waits,
)
from backstory.chronicle.progress import line
from backstory.chronicle.report import Cell, OfSession, OfSessions, Report, ReportRow, Section, Tone, row, rows
from backstory.chronicle.window import window_words
from backstory.derive.pricing import CENT_USD, CostKind, shown_as
from backstory.ids import session_keys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from backstory.chronicle.patterns.finding import Pattern, Tip, TipEvidence
    from backstory.workspace.history.habits import HabitTurn
    from backstory.workspace.history.sessions import ListedSession, SessionFilter
    from backstory.workspace.reader import Reader

PATTERNS: tuple[Pattern, ...] = tuple(
    module.PATTERN
    for module in (contexts, caches, models, permissions, waits, failures, missing, rereads, prompts)
)  # fmt: skip
MOST = 5
EVIDENCE_SHOWN = 3
YEAR_2020_MS = 1_577_836_800_000
"""Before that there were no agents."""
LIMITS = (
    "What a tip cost is an estimate from tokens and prices, so it is about, not exactly, what would be saved",
    "Turns whose cost nobody knows add nothing",
    "Whether a cheaper model would have done as well, with as many tokens, is not known",
)


class TipsReport(Struct, frozen=True, kw_only=True):
    """Findings, those that cost most first. ``left_out``: how many more there are; ``turns``: that were looked at.

    ``sessions``: those that findings name, by their uids. Subagents' turns are looked at, but not counted as turns.
    """

    wanted: SessionFilter
    findings: tuple[Tip, ...]
    left_out: int
    sessions: Mapping[str, ListedSession]
    turns: int
    looked_at: int
    """Number of sessions that those turns are in."""
    facts: CostFacts | None
    """Only in a report about costs."""


class CostFacts(Struct, frozen=True, kw_only=True):
    """The known costs of all turns, also of those that phrased a report. ``cache_read``: tokens read from caches."""

    low_usd: float
    unknown_turns: int
    cache_read: int
    all_input: int
    subagents_usd: float


def tips(
    reader: Reader,
    wanted: SessionFilter,
    *,
    about_costs: bool = False,
    most: int | None = MOST,
    report: Callable[[int, int], None],
) -> TipsReport:
    """Look for patterns in the sessions and the time that a filter asks for.

    ``about_costs``: only findings about costs. ``most``: at most this number, one of each pattern; None: all.
    ``report`` receives how many steps are done, of how many.
    """
    patterns = [each for each in PATTERNS if each.is_cost or not about_costs]
    paid = reader.habits(wanted, report)
    habits = paid.without_reports()
    found = [finding for pattern in patterns for finding in pattern.find(habits)]
    shown = strongest(found, most)
    uids = {uid for each in shown for evidence in each.evidence for uid in (evidence.session, evidence.context)}
    return TipsReport(
        wanted=wanted,
        findings=tuple(shown),
        left_out=len(found) - len(shown),
        sessions={each.uid: each for each in reader.sessions_of(sorted(uids))},
        turns=sum(turn.is_own for turn in habits.turns),
        looked_at=len({turn.session for turn in habits.turns}),
        facts=_facts(paid.turns) if about_costs else None,
    )


def strongest(found: Iterable[Tip], most: int | None) -> list[Tip]:
    """Sort findings by cost, dearest first; ``most``: at most this number, the strongest of each pattern."""
    ordered = sorted(found, key=lambda each: (-each.weight, -each.count, each.problem))
    if most is None:
        return ordered
    firsts: dict[str, Tip] = {}
    for each in ordered:
        firsts.setdefault(each.pattern, each)
    return list(firsts.values())[:most]


def _facts(turns: Sequence[HabitTurn]) -> CostFacts:
    read = sum(turn.tokens.cache_read or 0 for turn in turns)
    return CostFacts(
        low_usd=sum(turn.cost.low_usd or 0 for turn in turns),
        unknown_turns=sum(turn.cost.kind == "unknown" and turn.model is not None for turn in turns),
        cache_read=read,
        all_input=read + sum((turn.tokens.input or 0) + (turn.tokens.cache_write or 0) for turn in turns),
        subagents_usd=sum(turn.cost.low_usd or 0 for turn in turns if not turn.is_own),
    )


def rules(*, about_costs: bool) -> dict[str, str]:
    """The rule of each pattern, by its name."""
    return {each.name: each.rule for each in PATTERNS if each.is_cost or not about_costs}


def report(found: TipsReport, evidence_most: int = EVIDENCE_SHOWN) -> Report:
    """Draw each tip with its cost, what to do, and where it is seen."""
    name = "Tips" if found.facts is None else "Cost tips"
    looked_at = f"{counted(found.turns, 'turn')} in {counted(found.looked_at, 'session')}"
    sections = [
        Section(
            title=tip.problem, number=n, rows=tuple(_rows(found, tip, evidence_most)),
            about=OfSessions(tuple(dict.fromkeys(each.session for each in tip.evidence))),
        )
        for n, tip in enumerate(found.findings, 1)
    ]  # fmt: skip
    if found.facts is not None:
        sections.append(Section(title="Facts", rows=rows(_fact_words(found.facts))))
        sections.append(Section(title="Limits", rows=rows(LIMITS)))
    if found.left_out:
        sections.append(Section(title="More", rows=rows([f"{counted(found.left_out, 'tip')} more: --full"])))
    return Report(title=f"{name} {window_words(found.wanted)}: {looked_at}", sections=tuple(sections))


def _rows(found: TipsReport, tip: Tip, evidence_most: int) -> Iterator[ReportRow]:
    session = found.sessions.get(tip.evidence[0].context)
    yield row(f"{'Cost' if found.facts is None else 'Expected'}: {_cost_words(found, tip)}")
    action = tip.action.replace("SESSION", session.label) if session is not None else tip.action
    seen = [_evidence_row(found, each) for each in tip.evidence[:evidence_most]]
    if (more := len(tip.evidence) - evidence_most) > 0:
        seen.append(row(Cell(f"and {more:,} more: --json", Tone.NOTE)))
    yield row(f"Do: {action}", below=seen)


def _cost_words(found: TipsReport, tip: Tip) -> str:
    usd = "" if tip.usd is None else f"{shown_as(CostKind.COMPUTED, tip.usd)}{'' if found.facts is None else ' less'}"
    parts = [usd, "" if tip.ms is None else f"about {duration(tip.ms)}"]
    known = " and ".join(filter(None, parts)) or "not known"
    return f"{known}, in {counted(tip.sessions, 'session')}"


def _evidence_row(found: TipsReport, evidence: TipEvidence) -> ReportRow:
    session = found.sessions.get(evidence.context)
    label = evidence.context if session is None else session.label
    cost = (
        f" ({shown_as(CostKind.COMPUTED, evidence.usd)})"
        if evidence.usd is not None and evidence.usd >= CENT_USD
        else ""
    )
    about = OfSession(evidence.context, evidence.seqs[0])
    return row(Cell(f"{label} @{evidence.seqs[0]}", Tone.REF), f"{line(evidence.text)}{cost}", about=about)


def _fact_words(facts: CostFacts) -> Iterator[str]:
    unknown = counted(facts.unknown_turns, "turn")
    rest = f"; what {unknown} cost is not known" if facts.unknown_turns else ""
    yield f"These turns cost {shown_as(CostKind.LOWER_BOUND, facts.low_usd)}{rest}"
    if facts.all_input:
        yield f"{facts.cache_read / facts.all_input:.0%} of all input was read from caches"
    if facts.subagents_usd:
        yield f"Subagents cost {shown_as(CostKind.LOWER_BOUND, facts.subagents_usd)} of it"


def as_json(found: TipsReport) -> dict[str, Any]:
    """A report as ``report tips --json`` and ``report cost-tips --json`` print it."""
    facts = found.facts
    return {
        "since": iso(found.wanted.since),
        "until": iso(found.wanted.until),
        "turn_count": found.turns,
        "session_count": found.looked_at,
        "tips": [_finding_as_json(each) for each in found.findings],
        "left_out": found.left_out,
    } | (
        {}
        if facts is None
        else {
            "low_usd": facts.low_usd,
            "turns_without_cost": facts.unknown_turns,
            "cache_read_tokens": facts.cache_read,
            "all_input_tokens": facts.all_input,
            "subagents_usd": facts.subagents_usd,
        }
    )


def _finding_as_json(finding: Tip) -> dict[str, Any]:
    return {
        "pattern": finding.pattern,
        "problem": finding.problem,
        "advice": finding.action,
        "count": finding.count,
        "session_count": finding.sessions,
        "estimated_usd": finding.usd,
        "estimated_ms": finding.ms,
        "evidence": [_evidence_as_json(each) for each in finding.evidence],
    }


def _evidence_as_json(evidence: TipEvidence) -> dict[str, Any]:
    return {
        **session_keys(evidence.session),
        **{f"holder_{name}": value for name, value in session_keys(evidence.context).items()},
        "seqs": evidence.seqs,
        "text": evidence.text,
        "estimated_usd": evidence.usd,
        "estimated_ms": evidence.ms,
    }


def no_tips(found: TipsReport) -> str:
    """Say that no tip was found in what was looked at."""
    looked_at = f"{counted(found.turns, 'turn')} in {counted(found.looked_at, 'session')}"
    longer = " A longer time may show some: --since 2020-01-01" if (found.wanted.since or 0) > YEAR_2020_MS else ""
    return f"No tips yet from {looked_at}: most need the same pattern in 3 sessions.{longer}"
