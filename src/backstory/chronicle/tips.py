"""Tips: patterns in how a person works with agents, each with its evidence and what to do about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from backstory.bounds import iso
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

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from backstory.chronicle.patterns.finding import Pattern, Tip, TipEvidence
    from backstory.workspace.history.habits import HabitTurn
    from backstory.workspace.history.sessions import ListedSession, SessionFilter
    from backstory.workspace.reader import Reader

PATTERNS: tuple[Pattern, ...] = tuple(
    module.PATTERN
    for module in (contexts, caches, models, permissions, waits, failures, missing, rereads, prompts)
)  # fmt: skip
MOST = 5


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


def as_json(report: TipsReport) -> dict[str, Any]:
    """A report as ``report tips --json`` and ``report cost-tips --json`` print it."""
    facts = report.facts
    return {
        "since": iso(report.wanted.since),
        "until": iso(report.wanted.until),
        "turns": report.turns,
        "sessions": report.looked_at,
        "tips": [_finding_as_json(each) for each in report.findings],
        "left_out": report.left_out,
    } | (
        {}
        if facts is None
        else {
            "low_usd": facts.low_usd,
            "unknown_turns": facts.unknown_turns,
            "cache_read": facts.cache_read,
            "all_input": facts.all_input,
            "subagents_usd": facts.subagents_usd,
        }
    )


def _finding_as_json(finding: Tip) -> dict[str, Any]:
    return {
        "pattern": finding.pattern,
        "problem": finding.problem,
        "action": finding.action,
        "count": finding.count,
        "sessions": finding.sessions,
        "estimated_usd": finding.usd,
        "estimated_ms": finding.ms,
        "evidence": [_evidence_as_json(each) for each in finding.evidence],
    }


def _evidence_as_json(evidence: TipEvidence) -> dict[str, Any]:
    return {
        "session": evidence.session,
        "context": evidence.context,
        "seqs": evidence.seqs,
        "text": evidence.text,
        "estimated_usd": evidence.usd,
        "estimated_ms": evidence.ms,
    }
