"""Proposals for agents, as text and as Markdown: each with its evidence, then the change as a diff."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from backstory.cli import output
from backstory.cli.output import flowing, room_beside
from backstory.cli.report_options import window
from backstory.export.safe_markdown import plain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backstory.chronicle.friction.findings import FrictionEvidence
    from backstory.chronicle.improve import Improvements
    from backstory.chronicle.proposals import Proposal

EVIDENCE_SHOWN = 5
WORDS_SHOWN = 160
NOTHING = "Nothing to propose: nothing came often enough that agents are not told already."


def text_lines(report: Improvements) -> Iterator[str]:
    """The lines of a report on a terminal."""
    yield output.style(_title(report), bold=True)
    yield from flowing(_read(report), 0)
    for number, each in enumerate(report.proposals, 1):
        yield ""
        yield from proposal_lines(report, number, each)
    if not report.proposals:
        yield from flowing(NOTHING, 0)
    elif report.file:
        yield ""
        yield from flowing(f"{report.file}: {report.why}. --apply asks before each is added.", 0)
        yield ""
        yield from diff_lines(report.diff)
    else:
        yield ""
        yield from flowing(f"No file is changed: {report.why}.", 0)


def proposal_lines(report: Improvements, number: int, proposal: Proposal) -> Iterator[str]:
    """A proposal and its evidence."""
    first, *rest = flowing(proposal.text, 3)
    yield f"{number}. {first}"
    yield from (f"   {each}" for each in rest)
    for each in shown_evidence(proposal):
        head = f"   {output.ident(_handle(report, each))} "
        facts = f"{_rule(proposal, each)}: {each.words}"
        yield head + output.one_line(facts, room_beside(output.columns_shown(head)))
    if (more := len(proposal.finding.evidence) - EVIDENCE_SHOWN) > 0:
        yield f"   and {more:,} more; --json has all"


def diff_lines(diff: str) -> Iterator[str]:
    """The lines of a diff, coloured as git does."""
    for line in diff.splitlines():
        is_added = line.startswith("+") and not line.startswith("+++")
        yield output.style(output.clean(line), fg="green") if is_added else output.clean(line)


def shown_evidence(proposal: Proposal) -> list[FrictionEvidence]:
    """The latest evidence, the newest first."""
    return sorted(proposal.finding.evidence, key=lambda each: each.at or 0, reverse=True)[:EVIDENCE_SHOWN]


def markdown_lines(report: Improvements) -> Iterator[str]:
    """The lines of a report as Markdown."""
    yield f"# {plain(_title(report))}"
    yield ""
    yield plain(_read(report))
    if not report.proposals:
        yield from ("", plain(NOTHING))
    for number, each in enumerate(report.proposals, 1):
        yield from ("", f"{number}. {each.text}", "")
        for found in shown_evidence(each):
            facts = f"{_rule(each, found)}: {output.one_line(found.words, WORDS_SHOWN)}"
            yield f"   - `{_handle(report, found)}` {plain(facts)}"
    if report.diff:
        yield from ("", f"{plain(report.file)}: {plain(report.why)}.", "")
        fence = "`" * max(3, _longest_ticks(report.diff) + 1)
        yield from (f"{fence}diff", *(output.clean(line) for line in report.diff.splitlines()), fence)


def _title(report: Improvements) -> str:
    return f"What to tell agents here, {window(report.wanted)}"


def _read(report: Improvements) -> str:
    """Return the number of sessions read, and the amount of friction in them."""
    counts = Counter({each.rule: 0 for each in report.findings})
    for each in report.findings:
        counts[each.rule] += len(each.evidence)
    seen = ", ".join(f"{rule} {count:,}" for rule, count in counts.most_common())
    read = output.counted(report.sessions, "session")
    return f"{read}: {seen}." if seen else f"{read}: no friction that a rule knows."


def _handle(report: Improvements, each: FrictionEvidence) -> str:
    return f"{report.labels.get(each.session_uid, each.session_uid)} @{each.seq}"


def _rule(proposal: Proposal, each: FrictionEvidence) -> str:
    day = output.local(each.at)[:10]
    return " · ".join(part for part in (day, proposal.finding.rule, each.reason) if part)


def _longest_ticks(text: str) -> int:
    longest = run = 0
    for letter in text:
        run = run + 1 if letter == "`" else 0
        longest = max(longest, run)
    return longest
