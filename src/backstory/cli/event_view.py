"""What happened in a session, as lines for a terminal: the same for what is stored and for what runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from backstory import model
from backstory.cli import output
from backstory.conversation.compact import without_wrapping
from backstory.derive.essence import changed_lines, essence, is_path, without_terminal_codes
from backstory.derive.notices import noted, why

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backstory.model import Event

RESULT_LINES = 6
CHANGED_LINES = 6
"""Of an edit so many lines are shown without ``--full``."""
SHOWN_CHARS_MAX = 20_000
"""Of a longer text only the beginning is shown without ``--full``."""
EMPTY_NOTICES = frozenset({"No response requested."})
"""What an agent notes in place of an answer that nobody asked for."""
OF_HELPERS = ("subagent", "message from ")
"""How notes of messages between an agent and its subagents begin."""
_COLOURS = {"+": "green", "-": "red"}


def event_lines(seq: int | None, event: Event, *, full: bool, answered: model.ToolCall | None = None) -> Iterator[str]:
    """An event as lines for a terminal, with its record's number if it has one yet.

    ``answered``: the call that a result belongs to, where it does not stand right above; or a helper's words.
    """
    at = "      " if seq is None else output.style(f"@{seq:<5}", dim=True)
    match event:
        case model.UserMessage():
            yield from _block(at, "❯", event.content, full=full, fg="cyan", bold=True)
        case model.AssistantText():
            yield from _block(at, " ", event.text, full=full)
        case model.Thinking():
            yield from _block(at, "~", event.text, full=full, dim=True)
        case model.ToolCall():
            yield from _call_lines(at, event, full=full)
        case model.ToolResult():
            yield from _result_lines(at, event, answered, full=full)
        case model.Error():
            message = event.message if full else why(event.message)
            yield from _block(at, "!", without_terminal_codes(message), full=full, fg="red")
        case model.Compacted():
            yield from _block(at, "≡", event.summary if full else "context compacted", full=full, fg="magenta")
        case model.Hook(output=text) if text in EMPTY_NOTICES and not full:
            return
        case model.Complete() | model.Init():
            return
        case model.Plan():
            yield from _noted(at, f"Plan: {event.name}", event.content, None)
        case model.Hook(name=name, output=text) if full or name.startswith(OF_HELPERS):
            yield from _noted(at, _hook_head(name, answered), text, full)
        case model.Command(name=name, output=text) if text.strip() and name:
            yield from _noted(at, f"Command: {name}", text, full)
        case model.Command(output=text) if text.strip():
            # What it printed is a record of its own with most agents, and stands below it then.
            printed = text if full else without_wrapping(text)
            yield from _result_lines(at, model.ToolResult(content=printed.strip("\n")), None, full=full)
        case model.Retry() if not full:
            yield _retry_line(at, event)
        case model.Hook() if not full:
            yield from _told(at, "Hook", f"{event.name} · {noted(event.output)}")
        case _:
            yield from _told(at, event.kind, " ".join(str(value) for value in msgspec.to_builtins(event).values()))


def _hook_head(name: str, answered: model.ToolCall | None) -> str:
    # What a subagent was asked and answered is no hook's word to the person reading.
    head = f"{name[:1].upper()}{name[1:]}" if name.startswith(OF_HELPERS) else f"Hook: {name}"
    about = f": {call_words(answered, output.width() - 12 - len(head))}" if answered else ""
    return head + about


def _told(at: str, head: str, text: str) -> Iterator[str]:
    """A line that says what stands beside the conversation, as far as it fits; nothing of what says nothing."""
    words = without_terminal_codes(text).strip()
    if words:
        yield f"{at} {output.style(f'{head}: {output.one_line(words, output.width() - 20)}', dim=True)}"


def _retry_line(at: str, retry: model.Retry) -> str:
    """Why a request failed, as far as it fits, and which try comes next."""
    of = f" of {retry.attempts_max}" if retry.attempts_max else ""
    again = f"trying again, {retry.attempt}{of}" if retry.attempt else "trying again"
    room = output.width() - 11 - len(again)
    reason = output.one_line(without_terminal_codes(why(retry.message)).strip() or "no answer", room)
    return f"{at} {output.style(f'↻ {reason}, {again}', dim=True)}"


def _noted(at: str, head: str, text: str, full: bool | None) -> Iterator[str]:
    """What stands beside the conversation: a line that says what it is, and its text, or the beginning of it."""
    yield f"{at} {output.style(output.one_liner(head), dim=True)}"
    lines = without_terminal_codes(text).strip("\n").split("\n")
    shown = lines[:RESULT_LINES] if full is False else lines
    begun, left = _begun("\n".join(shown), full=bool(full))
    if begun:
        yield from _indented(begun, dim=True)
    yield from left
    if len(shown) < len(lines):
        yield output.style(f"         (+{len(lines) - len(shown)} more)", dim=True)


def _call_lines(at: str, call: model.ToolCall, *, full: bool) -> Iterator[str]:
    yield f"{at} {output.style('●', fg='blue')} {_named(call)}"
    changed = list(changed_lines(call))
    shown = changed if full else changed[:CHANGED_LINES]
    for sign, line in shown:
        text = line if full else output.one_line(line, output.width() - 11, keep_blanks=True)
        # What has no sign is the name of the file whose lines come next.
        yield f"         {output.style(f'{sign} {text}', fg=_COLOURS[sign]) if sign else text}"
    if left := sum(bool(sign) for sign, _ in changed[len(shown) :]):
        yield output.style(f"         (+{left} more changed; --full shows them)", dim=True)
    if full:
        yield from _indented(msgspec.json.format(msgspec.json.encode(call.input), indent=2).decode())


def _named(call: model.ToolCall) -> str:
    """A call in a line: its tool, and what it is about."""
    name = output.one_liner(call.tool_name)
    return f"{output.style(name, bold=True)} {call_words(call, output.width() - 12 - len(name))}".rstrip()


def call_words(call: model.ToolCall, room: int) -> str:
    """What a call is about in at most so many columns; of a path the end says most."""
    words = without_terminal_codes(essence(call))
    return output.end_of_line(words, room) if is_path(call) else output.one_line(words, room)


def _result_lines(at: str, result: model.ToolResult, answered: model.ToolCall | None, *, full: bool) -> Iterator[str]:
    if answered is not None:
        yield f"{at} {output.style('↳', fg='blue')} {_named(answered)}"
        at = "      "
    content = without_terminal_codes(result.content) or "(nothing)"
    lines = [line.removesuffix("\r") for line in content.split("\n")]
    shown = lines if full else lines[:RESULT_LINES]
    text, left = _begun("\n".join(shown), full=full)
    how: dict[str, Any] = {"fg": "red"} if result.is_error else {"dim": True}
    first, *rest = text.split("\n")
    yield f"{at}   {output.style(first, **how)}".rstrip()
    for line in rest:
        yield f"         {output.style(line, **how)}"
    yield from left
    if len(shown) < len(lines):
        yield output.style(f"         (+{len(lines) - len(shown)} more)", dim=True)


def _begun(text: str, *, full: bool) -> tuple[str, list[str]]:
    """A text, or of a long one the beginning, and a line that says how much is left."""
    if full or len(text) <= SHOWN_CHARS_MAX:
        return text, []
    left = f"         (+{len(text) - SHOWN_CHARS_MAX:,} more characters; --full shows them)"
    return text[:SHOWN_CHARS_MAX], [output.style(left, dim=True)]


def _block(at: str, mark: str, text: str, *, full: bool, **how: Any) -> Iterator[str]:
    text, left = _begun(text.strip("\n"), full=full)
    first, *rest = text.split("\n")
    yield f"{at} {output.style(f'{mark} {first}', **how)}"
    for line in rest:
        yield f"         {output.style(line, **how)}"
    yield from left


def _indented(text: str, **how: Any) -> Iterator[str]:
    for line in text.split("\n"):
        yield f"         {output.style(line, **how)}"
