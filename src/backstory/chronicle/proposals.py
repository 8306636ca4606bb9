"""Proposals of what to tell agents, from friction: a sentence each, of commands that ran and words typed. Pure.

Nothing that a tool or a page returned can stand in one. What is quoted stands on one line, as a quotation.
"""

from __future__ import annotations

import difflib
import re
from html import unescape
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from backstory.chronicle.friction.findings import FrictionFinding, Rule, in_order
from backstory.chronicle.friction.typed import is_quotable, words_of
from backstory.derive.checks import CheckKind, check_of
from backstory.export.safe_markdown import plain
from backstory.lazy import lazy_regex

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

PROPOSALS_MAX = 5
PROPOSALS_MIN = 3
"""The number of names, filled up with those seen only once."""
OF_A_RULE_MAX = 2
COMMAND_CHARS_MAX = 100
LINES_ABOVE = 6
_COMMAND = lazy_regex(r"[\w./@+:=,-]+(?: [\w./@+:=,-]+)*")
_PATH = lazy_regex(r"[\w./@+-]+")
_RUN = {CheckKind.TEST: "Run tests with", CheckKind.BUILD: "Build with", CheckKind.LINT: "Lint with"}


class Proposal(Struct, frozen=True, kw_only=True):
    """A sentence for agents, as Markdown in one line, and why. ``core``: what of it must not stand there already."""

    text: str
    core: tuple[str, ...]
    finding: FrictionFinding


def proposals(
    findings: Iterable[FrictionFinding],
    texts: Sequence[str],
    has: Callable[[str], bool] | None,
    mask: Callable[[str], str],
) -> list[Proposal]:
    """The sentences to propose, those with most evidence first; nothing that ``texts`` say already.

    ``has``: whether a path below the repository is there, None if nobody can look; ``mask``: hides a text's secrets.
    """
    ordered = [each for finding in in_order(findings) if (each := _proposal(finding, texts, has, mask)) is not None]
    repeated = [each for each in ordered if each.finding.is_repeated]
    single = [each for each in ordered if not each.finding.is_repeated]
    chosen = list(_few_of_a_rule(_each_once(repeated)))[:PROPOSALS_MAX]
    return [*chosen, *list(_few_of_a_rule(single))[: max(0, PROPOSALS_MIN - len(chosen))]]


def _each_once(ordered: Iterable[Proposal]) -> Iterator[Proposal]:
    """Without those whose commands an earlier one names, too."""
    named = set[str]()
    for each in ordered:
        if not named.issuperset(each.core):
            yield each
        named.update(each.core)


def _few_of_a_rule(ordered: Iterable[Proposal]) -> Iterator[Proposal]:
    counts: dict[Rule, int] = {}
    for each in ordered:
        rule = each.finding.rule
        counts[rule] = counts.get(rule, 0) + 1
        if counts[rule] <= OF_A_RULE_MAX:
            yield each


def _proposal(
    finding: FrictionFinding, texts: Sequence[str], has: Callable[[str], bool] | None, mask: Callable[[str], str]
) -> Proposal | None:
    if not finding.is_standing:
        return None
    if finding.quote:
        return _quotation(finding, texts, mask)
    commands = [each for each in finding.commands if _is_safe(each, finding.rule) and mask(each) == each]
    stands = _is_demanded if finding.rule in (Rule.LEFT_FAILING, Rule.LOOP) else _stands
    commands = [each for each in commands if finding.instead or not stands(each, texts)]
    core = (finding.instead,) if finding.instead else tuple(commands)
    if not commands or (finding.instead and stands(finding.instead, texts)):
        return None
    if finding.instead and (not _is_safe(finding.instead, finding.rule) or mask(finding.instead) != finding.instead):
        return None
    if finding.rule == Rule.MISSING_PATH and has is not None and not _is_elsewhere(finding, has):
        return None
    finding = _about(finding, commands)
    return Proposal(text=_SENTENCES[finding.rule](finding, commands), core=core, finding=finding)


def _about(finding: FrictionFinding, commands: Sequence[str]) -> FrictionFinding:
    """A finding with the records about these of its commands alone: the others are said already, or cannot be."""
    if not finding.evidence_of:
        return finding
    pairs = zip(finding.commands, finding.evidence_of, strict=True)
    kept = {(each.session_uid, each.seq) for command, records in pairs if command in commands for each in records}
    return replace(finding, evidence=tuple(each for each in finding.evidence if (each.session_uid, each.seq) in kept))


def _is_elsewhere(finding: FrictionFinding, has: Callable[[str], bool]) -> bool:
    """Return True if a path is still not there, and the one that was found for it is."""
    return not has(finding.commands[0]) and (not finding.instead or has(finding.instead))


def _is_safe(words: str, rule: Rule) -> bool:
    shape = _PATH if rule == Rule.MISSING_PATH else _COMMAND
    return len(words) <= COMMAND_CHARS_MAX and shape.fullmatch(words) is not None and is_quotable(words)


def _stands(words: str, texts: Iterable[str]) -> bool:
    return any(f" {words} " in f" {_ENDS.sub(' ', text)} " for text in texts)


def _is_demanded(command: str, texts: Iterable[str]) -> bool:
    """Return True if a text says when to run a command, in the same line or just above it."""
    for text in texts:
        lines = text.splitlines()
        for number, line in enumerate(lines):
            above = lines[max(0, number - LINES_ABOVE) : number + 1]
            if _stands(command, [line]) and any(map(_WHEN.search, above)):
                return True
    return False


_WHEN = lazy_regex(r"\b(?:before|after|always|every|must|required|done|finish\w*|commit\w*)\b", re.IGNORECASE)
_ENDS = lazy_regex(r"[\s`'\"“”()]+|[.,;:](?=\s|$)")


def _quotation(finding: FrictionFinding, texts: Iterable[str], mask: Callable[[str], str]) -> Proposal | None:
    quote = " ".join(finding.quote.split())
    if not is_quotable(quote) or mask(quote) != quote:
        return None
    spoken = f" {' '.join(words_of(quote))} "
    if any(spoken in f" {' '.join(words_of(unescape(text)))} " for text in texts):
        return None
    said = "The user said this" if finding.rule == Rule.TOLD_AGAIN else "The user corrected this"
    often = f" in {_sessions(finding)}" if finding.is_repeated else " once"
    return Proposal(text=f"{said}{often}: “{plain(quote).rstrip('.')}”.", core=(quote,), finding=finding)


def _left_failing(finding: FrictionFinding, commands: Sequence[str]) -> str:
    often = "once" if not finding.is_repeated else f"in {_sessions(finding)}"
    return (
        f"Before you say that work is done, run {_listed(commands)} and fix what fails: failures had to be reported "
        f"{often}."
    )


def _loop(finding: FrictionFinding, commands: Sequence[str]) -> str:
    return (
        f"Run {_listed(commands)} after each change, and read all that it reports before the next one: it failed again "
        f"and again in {_sessions(finding)}."
    )


def _mistake(finding: FrictionFinding, commands: Sequence[str]) -> str:
    if not finding.instead:
        return f"Do not run `{commands[0]}`: it cannot work here ({_sessions(finding)})."
    check = check_of(finding.instead.split())
    begin = _RUN[check.kind] if check is not None else "Use"
    return f"{begin} `{finding.instead}`; `{commands[0]}` does not work here ({_sessions(finding)})."


def _missing(finding: FrictionFinding, commands: Sequence[str]) -> str:
    where = f"There is no `{commands[0]}`"
    where = f"{where}: it is `{finding.instead}`" if finding.instead else where
    return f"{where} ({_sessions(finding)} looked for it)."


_SENTENCES: dict[Rule, Callable[[FrictionFinding, Sequence[str]], str]] = {
    Rule.LEFT_FAILING: _left_failing, Rule.LOOP: _loop, Rule.MISTAKE: _mistake, Rule.MISSING_PATH: _missing,
}  # fmt: skip


def _listed(commands: Sequence[str]) -> str:
    shown = [f"`{each}`" for each in commands]
    return " and ".join((", ".join(shown[:-1]), shown[-1])) if len(shown) > 1 else shown[0]


def _sessions(finding: FrictionFinding) -> str:
    count = finding.sessions
    return "one session" if count == 1 else f"{count} sessions"


# instruction diff -----------------------------------------------------------------------------------------------------
# Lines added to a file of instructions, and the change as a unified diff that ``git apply`` takes. Pure.


HEADING = "## Learned from sessions"
_NEXT_HEADING = lazy_regex(r"#{1,2}\s")
_FENCE = lazy_regex(r" {0,3}(?:```|~~~)")
_NO_NEWLINE = "\n\\ No newline at end of file\n"


def with_lines(text: str, lines: Sequence[str]) -> str:
    r"""A text with list items below our heading, which is put at its end if it is not there. Line ends are kept.

    >>> with_lines("# A\r\n", ["one"])
    '# A\r\n\r\n## Learned from sessions\r\n\r\n- one\r\n'
    >>> with_lines("## Learned from sessions\n\n- one\n\n## B\n", ["two"])
    '## Learned from sessions\n\n- one\n- two\n\n## B\n'
    """
    if not lines:
        return text
    end = "\r\n" if text.count("\r\n") * 2 > text.count("\n") else "\n"
    items = [f"- {each}{end}" for each in lines]
    stand = text.split("\n")
    kept = [f"{each}\n" for each in stand[:-1]] + ([stand[-1]] if stand[-1] else [])
    at = _end_of_section(kept)
    if at is None:
        at = len(kept)
        if kept and not kept[-1].endswith("\n"):
            kept[-1] += end
        between = [end] if kept and kept[-1].strip() else []
        items = [*between, f"{HEADING}{end}", end, *items]
    else:
        if not kept[at - 1].endswith("\n"):
            kept[at - 1] += end
        items = [end, *items] if kept[at - 1].strip() == HEADING else items
    return "".join((*kept[:at], *items, *kept[at:]))


def _end_of_section(lines: Sequence[str]) -> int | None:
    """Behind which line our section ends, without the blank lines before what follows; None if there is none."""
    begin, is_code = None, False
    stop = len(lines)
    for number, line in enumerate(lines):
        if _FENCE.match(line):
            is_code = not is_code
        if is_code:
            continue
        if begin is None:
            begin = number if line.strip() == HEADING else None
        elif _NEXT_HEADING.match(line):
            stop = number
            break
    if begin is None:
        return None
    while not lines[stop - 1].strip():
        stop -= 1
    return stop


def unified_diff(name: str, before: str | None, after: str) -> str:
    """The change of a file as git writes it; ``before`` is None for a file that is not there yet; '' for no change."""
    if before == after or (before is None and not after):
        return ""
    old, new = _quoted(f"a/{name}"), _quoted(f"b/{name}")
    head = [f"diff --git {old} {new}\n"]
    if before is None:
        head += ["new file mode 100644\n", "--- /dev/null\n"]
    else:
        head.append(f"--- {old}{_behind(old)}\n")
    head.append(f"+++ {new}{_behind(new)}\n")
    return "".join((*head, *_hunks(before or "", after)))


def _hunks(before: str, after: str) -> Iterator[str]:
    lines = list(difflib.unified_diff(_lines(before), _lines(after), n=3, lineterm="\n"))
    for each in lines[2:]:
        yield each if each.endswith("\n") else each + _NO_NEWLINE


def _lines(text: str) -> list[str]:
    """Lines as git knows them: only a newline ends one."""
    kept = [f"{each}\n" for each in text.split("\n")]
    kept[-1] = kept[-1][:-1]
    return kept if kept[-1] else kept[:-1]


def _behind(name: str) -> str:
    """Return the end that git writes behind a name with blanks, so that nothing is taken for a time."""
    return "\t" if " " in name and not name.startswith('"') else ""


def _quoted(name: str) -> str:
    """A path as git quotes it."""
    if all(" " <= letter <= "~" and letter not in '"\\' for letter in name):
        return name
    shown = "".join(
        chr(byte) if 32 <= byte < 127 and chr(byte) not in '"\\' else f"\\{byte:03o}"
        for byte in name.encode("utf-8", "surrogateescape")
    )
    return f'"{shown}"'
