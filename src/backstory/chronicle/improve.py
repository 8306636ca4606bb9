"""Friction in a repository's sessions, and what to tell agents there so that it does not come again."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from backstory.bounds import counted, iso, local
from backstory.chronicle.friction import corrections, left_failing, loops, mistakes, told_again
from backstory.chronicle.friction.findings import in_order
from backstory.chronicle.progress import line
from backstory.chronicle.proposals import proposals, unified_diff, with_lines
from backstory.chronicle.report import Cell, Report, ReportRow, Section, Tone, facts, row
from backstory.chronicle.window import window_words
from backstory.ids import session_keys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from backstory.chronicle.friction.findings import FrictionEvidence, FrictionFinding
    from backstory.chronicle.proposals import Proposal
    from backstory.workspace.clients.instructions import Instructions
    from backstory.workspace.history.sessions import SessionFilter
    from backstory.workspace.history.work import SessionAttempts
    from backstory.workspace.reader import Reader

EVIDENCE_SHOWN = 5
NOTHING = "Nothing to propose: nothing came often enough that agents are not told already."
RULES = "\n".join(
    (corrections.RULE, left_failing.RULE, loops.RULE, mistakes.RULE, told_again.RULE, """\
proposed: at most 5, of a rule at most 2: what most sessions have comes first. What was seen once fills up to 3, if the
person's words are a rule of their own. Nothing that stands in a file of instructions already.""")
)  # fmt: skip


class Friction(Struct, frozen=True, kw_only=True):
    """Friction found in sessions, before a place to write it is known. ``agents``: those of each session."""

    wanted: SessionFilter
    sessions: int
    agents: tuple[tuple[str, ...], ...]
    findings: tuple[FrictionFinding, ...]
    labels: Mapping[str, str]


class Improvements(Struct, frozen=True, kw_only=True):
    """The report. ``sessions``: how many were read; ``labels``: what commands take for each session.

    ``file``: the one that is proposed to be changed, '' where none can be, for the reason in ``why``.
    """

    wanted: SessionFilter
    sessions: int
    findings: tuple[FrictionFinding, ...]
    proposals: tuple[Proposal, ...]
    labels: Mapping[str, str]
    file: str
    why: str
    diff: str


def read_friction(reader: Reader, wanted: SessionFilter, report: Callable[[int, int], None]) -> Friction:
    """Find friction in the sessions that a filter asks for. ``report`` receives how many were read, of how many."""
    read = reader.attempts(wanted, report)
    findings = tuple(in_order(find(read)))
    uids = dict.fromkeys(each.session_uid for finding in findings for each in finding.evidence)
    return Friction(
        wanted=wanted,
        sessions=len(read),
        agents=tuple(each.session.agents for each in read),
        findings=findings,
        labels=reader.labels(list(uids)) | {each.session.uid: each.session.label for each in read},
    )


def find(read: Sequence[SessionAttempts]) -> list[FrictionFinding]:
    """Apply every rule. A correction that was typed in several sessions is not also an explanation."""
    corrected = corrections.corrections(read)
    known = {(each.session_uid, each.seq) for finding in corrected for each in finding.evidence}
    again = told_again.told_again(read)
    return [
        *corrected,
        *left_failing.left_failing(read),
        *loops.loops(read),
        *mistakes.mistakes(read),
        *mistakes.useless_checks(read),
        *mistakes.useless_options(read),
        *mistakes.missing_paths(read),
        *(each for each in again if not known.issuperset((e.session_uid, e.seq) for e in each.evidence)),
    ]


def improvements(
    friction: Friction, instructions: Instructions | None, mask: Callable[[str], str], why: str = ""
) -> Improvements:
    """Return what to tell agents. ``mask`` hides secrets; ``why``: the reason that there are no ``instructions``."""
    texts = () if instructions is None else instructions.texts
    found = proposals(friction.findings, texts, instructions.has if instructions else None, mask)
    return Improvements(
        wanted=friction.wanted,
        sessions=friction.sessions,
        findings=friction.findings,
        proposals=tuple(found),
        labels=friction.labels,
        file=instructions.file.name if instructions else "",
        why=instructions.why if instructions else why,
        diff=diff_of(instructions, found) if instructions else "",
    )


def diff_of(instructions: Instructions, chosen: Iterable[Proposal]) -> str:
    """The change of the file, with some of the proposals."""
    file = instructions.file
    after = with_lines(file.text, [each.text for each in chosen])
    return unified_diff(_real_name(instructions), None if file.content is None else file.text, after)


def content_with(instructions: Instructions, chosen: Iterable[Proposal]) -> bytes:
    """The file's new content, with some of the proposals."""
    return with_lines(instructions.file.text, [each.text for each in chosen]).encode()


def _real_name(instructions: Instructions) -> str:
    """Return the path of the real file: git changes no file behind a link."""
    file = instructions.file
    return file.target.relative_to(file.root).as_posix()


def report(found: Improvements) -> Report:
    """Draw each proposal with its evidence, then the change as a diff."""
    counts = Counter({each.rule: 0 for each in found.findings})
    for each in found.findings:
        counts[each.rule] += len(each.evidence)
    seen = ", ".join(f"{rule} {count:,}" for rule, count in counts.most_common())
    sections = [proposal_section(found, number, each) for number, each in enumerate(found.proposals, 1)]
    if found.file and found.proposals:
        notes = (f"{found.file}: {found.why}. --apply asks before each is added.",)
        sections.append(Section(notes=notes, diff=found.diff))
    else:
        sections.append(Section(notes=(f"No file is changed: {found.why}." if found.proposals else NOTHING,)))
    return Report(
        title=f"What to tell agents here, {window_words(found.wanted)}",
        lead=f"{counted(found.sessions, 'session')}: {seen or 'no friction that a rule knows'}.",
        sections=tuple(sections),
    )


def proposal_section(found: Improvements, number: int, proposal: Proposal) -> Section:
    """Draw a proposal with its evidence, the newest first."""
    evidence = sorted(proposal.finding.evidence, key=lambda each: each.at or 0, reverse=True)
    shown = [_evidence_row(found, proposal, each) for each in evidence[:EVIDENCE_SHOWN]]
    if (more := len(evidence) - EVIDENCE_SHOWN) > 0:
        shown.append(row(Cell(f"and {more:,} more: --json", Tone.NOTE)))
    return Section(title=proposal.text, number=number, rows=tuple(shown))


def _evidence_row(found: Improvements, proposal: Proposal, each: FrictionEvidence) -> ReportRow:
    where = f"{found.labels.get(each.session_uid, each.session_uid)} @{each.seq}"
    why = facts((local(each.at)[:10], proposal.finding.rule, each.reason))
    return row(Cell(where, Tone.REF), f"{why}: {line(each.words)}")


def as_json(found: Improvements) -> dict[str, Any]:
    """A report as ``report improve --json`` prints it."""
    return {
        "since": iso(found.wanted.since),
        "until": iso(found.wanted.until),
        "session_count": found.sessions,
        "file": found.file or None,
        "file_reason": found.why or None,
        "proposals": [
            {"text": each.text, **_finding_as_json(each.finding)} for each in found.proposals
        ],
        "findings": [_finding_as_json(each) for each in found.findings],
        "diff": found.diff or None,
    }  # fmt: skip


def _finding_as_json(finding: FrictionFinding) -> dict[str, Any]:
    return {
        "rule": finding.rule,
        "about": finding.about,
        "session_count": finding.sessions,
        "evidence": [_evidence_as_json(each) for each in finding.evidence],
    }


def _evidence_as_json(each: FrictionEvidence) -> dict[str, Any]:
    return {
        **session_keys(each.session_uid), "seq": each.seq, "at": iso(each.at), "text": each.words,
        "reason": each.reason,
    }  # fmt: skip
