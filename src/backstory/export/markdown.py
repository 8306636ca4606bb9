"""A session as Markdown, fit for a pull request: prompts, answers, what tools did (folded), and what it is about.

Rendered as it is read: at most ``HELD_MAX`` events wait, for the line that says what is folded below it.
"""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING

from backstory import model
from backstory.bounds import iso
from backstory.conversation.compact import without_wrapping
from backstory.conversation.pairing import results_below_calls, without_repeats
from backstory.derive.essence import changed_lines, essence, why, without_terminal_codes, words_of
from backstory.derive.naming import pruned_words
from backstory.export.safe_markdown import code, fenced, plain, prose, quoted, ref, summary
from backstory.export.shared import SharedEvent

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from backstory.export.shared import SharedRef, SharedSession, SharedTurn
    from backstory.model import Event

HELD_MAX = 200
HELD_CHARS_MAX = 1_000_000
PROMPT_LINES = 30
"""A longer prompt is folded."""
OUTPUT_LINES = 20
CHANGED_LINES = 60
LINE_CHARS = 300
REFS_MAX = 100
_REFS = {"pr": "Pull request", "issue": "Issue", "commit": "Commit"}


def document(
    session: SharedSession, events: Iterable[SharedEvent], *, full: bool = False, thinking: bool = False,
    is_masked: bool = False, is_part: bool = False,
) -> Iterator[str]:  # fmt: skip
    """The lines of a session. ``full``: all that tools returned; ``is_masked``: says that secrets were masked.

    ``is_part``: only those of the events, without what is said of the session.
    """
    yield from () if is_part else _head(session, is_masked=is_masked)
    turns = {each.number: each for each in session.turns}
    pairs = results_below_calls(events, _event_of, lambda each: each.turn)
    if not full:
        pairs = without_repeats(pairs, _event_of, _with_event)
    current: int | None = None
    held: list[SharedEvent] = []
    chars = 0
    for each, _ in pairs:
        if each.turn != current:
            yield from _folded(held, full=full)
            held, chars, current = [], 0, each.turn
            if each.turn in turns:
                yield from ("", _turn_line(turns[each.turn]))
        if isinstance(each.event, model.TOOL_KINDS):
            held.append(each)
            chars += len(getattr(each.event, "content", ""))
        if len(held) < HELD_MAX and chars < HELD_CHARS_MAX and isinstance(each.event, model.TOOL_KINDS):
            continue
        said = list(_said(each, full=full, thinking=thinking))
        if said or not isinstance(each.event, model.META_KINDS) or len(held) >= HELD_MAX:
            yield from _folded(held, full=full)
            held, chars = [], 0
            yield from said
    yield from _folded(held, full=full)
    yield from _refs(session.refs)


def _event_of(each: SharedEvent) -> Event:
    return each.event


def _with_event(each: SharedEvent, event: Event) -> SharedEvent:
    return SharedEvent(seq=each.seq, turn=each.turn, event=event, at=each.at)


def _head(session: SharedSession, *, is_masked: bool) -> Iterator[str]:
    yield f"# {plain(session.title) or 'A session'}"
    count = len(session.turns)
    facts = [
        ", ".join(map(code, session.agents)),
        code(session.project or ""),
        f"branch {code(session.branch)}" if session.branch else "",
        _time(session.started),
        f"{count} turn{'s' if count != 1 else ''}",
        plain(session.cost.known),
    ]
    yield from ("", " · ".join(each for each in facts if each))
    if session.pruned:
        yield from ("", f"*{pruned_words(session.pruned).capitalize()}.*")
    if is_masked:
        yield from ("", "*Secrets, and people's names in paths, are masked.*")


def _turn_line(turn: SharedTurn) -> str:
    how = "" if turn.outcome in (None, model.Outcome.COMPLETED) else str(turn.outcome)
    facts = [
        f"Turn {turn.number}",
        how,
        "rewound" if turn.is_rewound else "",
        plain(turn.model or turn.agent),
        _time(turn.started),
        _duration(turn.duration_ms),
        plain(turn.cost.known),
    ]
    return f"## {' · '.join(each for each in facts if each)}"


def _time(ms: int | None) -> str:
    text = iso(ms)
    return f"{text[:10]} {text[11:16]} UTC" if text else ""


def _duration(ms: int | None) -> str:
    if ms is None or ms < 0:
        return ""
    return f"{ms / 1000:.1f} s" if ms < 60_000 else f"{ms // 60_000} min"


def _said(each: SharedEvent, *, full: bool, thinking: bool) -> Iterator[str]:
    """An event that is shown where it stands."""
    words = words_of(each.event)
    text, has_text = words.body, bool(words.body.strip())
    match words.tone:
        case "prompt" if has_text:
            yield from _prompt(each.seq, text)
        case "answer" if has_text:
            yield from ("", *prose(without_terminal_codes(text)))
        case "thought" if thinking and has_text:
            yield from _details("Thinking", fenced(text))
        case "plan" if has_text:
            yield from _details(f"Plan: {words.head}", prose(text), is_open=True)
        case "error":
            yield from ("", f"**Error:** {plain(without_terminal_codes(text if full else why(text)))}")
        case "command" if words.head:
            yield from ("", f"**Command:** {code(words.head)}")
            if has_text:
                yield from _details("Output", fenced(_cut(without_terminal_codes(text), full=full)))
        case "summary":
            yield from ("", "*The agent replaced its context by a summary.*")


def _prompt(seq: int | None, text: str) -> Iterator[str]:
    text = without_terminal_codes(text).strip("\n")
    at = "" if seq is None else f" {code(f'@{seq}')}"
    yield from ("", f"**Prompt**{at}", "")
    count = text.count("\n") + 1
    if count <= PROMPT_LINES:
        yield from quoted(text)
        return
    first = next(line for line in text.split("\n") if line.strip())
    yield f"> {plain(first[:LINE_CHARS])}"
    yield from _details(f"All {count} lines", fenced(text))


def _details(title: str, lines: Iterable[str], *, is_open: bool = False) -> Iterator[str]:
    yield from ("", f"<details{' open' if is_open else ''}><summary>{summary(title)}</summary>", "")
    rest = iter(lines)
    if first := next(rest, ""):
        yield first
    yield from rest
    yield from ("", "</details>")


def _folded(held: list[SharedEvent], *, full: bool) -> Iterator[str]:
    """Yield the tool calls between two messages, folded."""
    if not held:
        return
    names = Counter(each.event.tool_name for each in held if isinstance(each.event, model.ToolCall))
    count = sum(names.values())
    shown = ", ".join(f"{name} ×{n}" if n > 1 else name for name, n in names.most_common(6))
    failed = sum(1 for each in held if isinstance(each.event, model.ToolResult) and each.event.is_error)
    title = f"{count} tool call{'s' if count != 1 else ''}: {shown}" if count else "Output of tools"
    more = (line for each in held for line in _tool(each, full=full))
    yield from _details(f"{title}{', …' if len(names) > 6 else ''}{f' ({failed} failed)' if failed else ''}", more)


def _tool(each: SharedEvent, *, full: bool) -> Iterator[str]:
    match each.event:
        case model.ToolCall() as call:
            at = "" if each.seq is None else f"{code(f'@{each.seq}')} "
            words = without_terminal_codes(essence(call))
            yield from (
                "",
                f"{at}**{plain(call.tool_name) or 'tool'}** {code(words if full else _short(words))}".rstrip(),
            )
            changed = (f"{sign or ' '} {line}" for sign, line in changed_lines(call))
            lines = list(changed if full else islice(changed, CHANGED_LINES + 1))
            if len(lines) > CHANGED_LINES and not full:
                lines[-1] = "  …"
            yield from ("", *fenced("\n".join(lines), "diff")) if lines else ()
        case model.ToolResult(content=content, is_error=is_error):
            text = without_terminal_codes(content if full else without_wrapping(content)).strip("\n")
            if text.strip():
                yield from ("", *(["Failed:", ""] if is_error else []), *fenced(_cut(text, full=full)))


def _short(text: str) -> str:
    return text if len(text) <= LINE_CHARS else f"{text[:LINE_CHARS]}…"


def _cut(text: str, *, full: bool) -> str:
    if full:
        return text
    lines = text.split("\n")
    shown = [_short(line) for line in lines[:OUTPUT_LINES]]
    return "\n".join([*shown, f"(+{len(lines) - OUTPUT_LINES} more lines)"] if len(lines) > OUTPUT_LINES else shown)


def _refs(refs: tuple[SharedRef, ...]) -> Iterator[str]:
    if not refs:
        return
    yield from ("", "## References", "")
    for each in refs[:REFS_MAX]:
        where = ref(each.type, each.value, each.host, each.repository)
        yield f"- {_REFS.get(each.type, plain(each.type))} {where} {code(f'@{each.seq}')}"
    if len(refs) > REFS_MAX:
        yield f"- and {len(refs) - REFS_MAX} more"
