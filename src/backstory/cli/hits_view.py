"""What a search found: each session with its title, below it its hits, wrapped inside a margin with matches marked.

Into a pipe an excerpt is one line, nothing is cut, and a day is a date.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from msgspec import Struct

from backstory.cli import moments, output
from backstory.cli.layout import fact_lines, spans
from backstory.derive.naming import NO_PROMPT
from backstory.workspace.resume_command import is_resumable
from backstory.workspace.searching import Mode

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from backstory.search.query import Excerpt, Findings
    from backstory.workspace.searching import SearchResult

ONE_LINE_COLUMNS = 100
"""A terminal that is narrower shows what stands beside the title in a second line."""
TITLE_COLUMNS_MAX, TITLE_COLUMNS_LEAST = 100, 25
EXCERPT_COLUMNS_LEAST = 40
"""Where an excerpt would have fewer columns, it begins below the number of its record."""
MARGIN = 3


class _Group(Struct, frozen=True, kw_only=True):
    """The hits of one session. ``facts``: what stands beside its title."""

    label: str
    title: str
    facts: tuple[str, ...]
    hits: list[Excerpt]


def screen(result: SearchResult, now: int) -> Iterator[str]:
    """Yield the lines of what was found. ``now``: the time, in ms since 1970."""
    groups = _grouped(result, now)
    heads = _heads(groups)
    kinds = [_kinds(group.hits) for group in groups]
    numbers = max((len(f"@{each.stored.seq}") for each in result.findings.excerpts), default=0)
    widest = max((len(kind) for each in kinds for kind in each), default=0)
    for group, head, of_group in zip(groups, heads, kinds, strict=True):
        yield head
        for hit, kind in zip(group.hits, of_group, strict=True):
            yield from _hit_lines(hit, kind.ljust(widest), numbers)


def foot(result: SearchResult) -> Iterator[str]:
    """Yield how much there is beside what is shown, and what to do next, for a terminal."""
    best = result.findings.excerpts[0]
    find = ""
    if result.query.text and result.query.mode is not Mode.REGEX:
        import shlex  # only where a command is shown

        find = f" --find {shlex.quote(result.query.text)}"
    read = f"read: backstory show {result.labels[best.session.uid]} @{best.stored.seq}{find}"
    steps = (*counted(result), output.one_liner(read), output.one_liner(_resume(best, result.labels)))
    yield ""
    for line in fact_lines(steps, output.width() - 1):
        yield f" {output.style(line, dim=True)}"


def _resume(best: Excerpt, labels: dict[str, str]) -> str:
    """How the best hit's session is continued in its agent's own client; '' if that cannot be."""
    # A subagent's session is resumed as the one that began it.
    session = best.shown
    if session.elsewhere is not None or not is_resumable(session.agents, session.native_id, session.shown_number):
        return ""
    return f"resume: backstory resume {labels[session.uid]} ({', '.join(session.agents)} {session.native_id})"


def counted(result: SearchResult) -> tuple[str, ...]:
    """How many sessions and hits there are, and how to see those that are not shown."""
    findings = result.findings
    shown = len({each.shown.uid for each in findings.excerpts})
    more = f"more: -n {4 * result.query.limit}" if findings.truncated else ""
    if result.query.mode is not Mode.WORDS:
        return f"the first {output.counted(shown, 'session')}" if more else output.counted(shown, "session"), more
    if not findings.sessions:
        return f"nowhere as typed, nearly in {output.counted(findings.near, 'session')}", more
    near = f"{findings.near:,} more nearly (marked near)" if findings.near else ""
    return _exact_count(findings, shown), near, more


def _exact_count(findings: Findings, shown: int) -> str:
    least = "at least " if findings.at_least else ""
    sessions, hits = output.counted(findings.sessions, "session"), output.counted(findings.events, "hit")
    exact = sum(not each.near for each in findings.excerpts)
    is_cut = findings.truncated and exact and shown < findings.sessions
    return f"{shown:,} of {least}{sessions} ({hits})" if is_cut else f"{least}{sessions}, {hits}"


def _grouped(result: SearchResult, now: int) -> list[_Group]:
    gathered: dict[str, list[Excerpt]] = {}
    for each in result.findings.excerpts:
        gathered.setdefault(each.session.uid, []).append(each)
    return [_group(hits, result.labels, now) for hits in gathered.values()]


def _group(hits: list[Excerpt], labels: dict[str, str], now: int) -> _Group:
    first = hits[0]
    session, shown = first.session, first.shown
    at = first.stored.at if first.stored.at is not None else session.last_active
    counts = first.events > 0 and not first.near and not first.copied
    facts = (
        "from elsewhere" if session.elsewhere is not None else "",
        ", ".join(session.agents),
        session.shown_project,
        moments.when(at, now) if sys.stdout.isatty() else output.local(at)[:10],
        ", ".join([output.counted(first.events, "hit")] if counts else _shared_marks(hits)),
        f"subagent of {labels[shown.uid]}" if shown.uid != session.uid else "",
    )
    title = " ".join((shown.shown_title or session.shown_title or NO_PROMPT).split())
    cleaned = tuple(output.clean(" ".join(each.split())) for each in facts)
    return _Group(label=labels[session.uid], title=title, facts=cleaned, hits=hits)


def _heads(groups: Sequence[_Group]) -> Iterator[str]:
    """The lines above each session's hits."""
    if not sys.stdout.isatty():
        for group in groups:
            about = "  ".join(filter(None, group.facts))
            yield f"{output.ident(group.label)}  {output.clean(group.title)}  {output.style(about, dim=True)}"
        return
    labels = max((output.columns(group.label) for group in groups), default=0)
    begun = [f" {output.padded(output.ident(group.label), labels)}  " for group in groups]
    room = output.width() - labels - 4
    if output.width() >= ONE_LINE_COLUMNS:
        yield from _in_columns(groups, begun, room)
        return
    for group, head in zip(groups, begun, strict=True):
        below = next(fact_lines(group.facts, output.width() - MARGIN), "")
        yield f"{head}{output.one_line(group.title, max(room, 8))}\n{' ' * MARGIN}{output.style(below, dim=True)}"


def _in_columns(groups: Sequence[_Group], begun: Sequence[str], room: int) -> Iterator[str]:
    """A line for each session: its title, and what stands beside it in columns, those that are empty left out."""
    widths = [max(map(output.columns, column)) for column in zip(*(group.facts for group in groups), strict=True)]
    kept = [n for n, wide in enumerate(widths) if wide]
    longest = max((output.columns(output.one_line(group.title, TITLE_COLUMNS_MAX)) for group in groups), default=0)
    room = min(longest, max(room - sum(widths[n] + 2 for n in kept), TITLE_COLUMNS_LEAST))
    for group, head in zip(groups, begun, strict=True):
        title = output.padded(output.one_line(group.title, room), room)
        about = "  ".join(output.padded(group.facts[n], widths[n]) for n in kept).rstrip()
        beside = output.one_line(about, output.width() - 1 - output.columns_shown(f"{head}{title}  "), keep_blanks=True)
        yield f"{head}{title}  {output.style(beside, dim=True)}"


def _shared_marks(hits: Sequence[Excerpt]) -> list[str]:
    """What is true of all of these hits."""
    is_so = {"near": all(each.near for each in hits), "a copy": all(each.copied for each in hits)}
    return [mark for mark in is_so if is_so[mark]]


def _kinds(hits: Sequence[Excerpt]) -> list[str]:
    """What each hit is: whose words, and what is not true of all of the session's hits."""
    shared = _shared_marks(hits)
    marks = [{"near": each.near, "a copy": each.copied} for each in hits]
    own = [[mark for mark, is_so in each.items() if is_so and mark not in shared] for each in marks]
    return [", ".join([each.scope.replace("_", " "), *more]) for each, more in zip(hits, own, strict=True)]


def _hit_lines(hit: Excerpt, kind: str, numbers: int) -> Iterator[str]:
    """A hit's record, what it is, and its excerpt; ``numbers``: the columns of the records' numbers."""
    head = f"{' ' * MARGIN}{output.padded(output.ident(f'@{hit.stored.seq}'), numbers)}  {kind}  "
    margin = MARGIN + numbers + 4 + len(kind)
    if not sys.stdout.isatty():
        yield head + _marked(hit.snippet, hit.marks)
        return
    if output.width() - margin < EXCERPT_COLUMNS_LEAST:
        yield head.rstrip()
        margin, head = MARGIN + 2, " " * (MARGIN + 2)
    for line in _marked_lines(hit.snippet, hit.marks, output.width() - margin - 1):
        yield head + line
        head = " " * margin


def _marked_lines(text: str, marks: list[tuple[int, int]], width: int) -> Iterator[str]:
    """An excerpt in lines of so many columns, its matches marked also where they are broken."""
    text, marks = _harmless(text, marks)
    for start, end in spans(text, width):
        inside = [(max(a, start) - start, min(b, end) - start) for a, b in marks if a < end and b > start]
        yield _marked(text[start:end], inside)


def _harmless(text: str, marks: list[tuple[int, int]]) -> tuple[str, list[tuple[int, int]]]:
    """A text whose acting characters are written as escapes, and where its matches are in it."""
    cleaned = output.clean(text)
    if cleaned == text:
        return text, marks
    return cleaned, [(len(output.clean(text[:a])), len(output.clean(text[:b]))) for a, b in marks]


def _marked(text: str, marks: list[tuple[int, int]]) -> str:
    pieces, at = [], 0
    for start, end in marks:
        pieces += [output.clean(text[at:start]), output.style(output.clean(text[start:end]), bold=True, fg="green")]
        at = end
    return "".join([*pieces, output.clean(text[at:])])
