"""The context: the text that carries a session into a run, and how it is known again in a log that echoes it.

A context holds whole turns, the newest first to be chosen, in the order they happened; where not all fit, some of
those before them are in brief. It stands before the prompt, in tags; the same tags inside the history are escaped, so
that the end of a context is always its end.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from backstory import model
from backstory.conversation.pairing import with_interruptions
from backstory.derive.essence import INTERRUPTED
from backstory.derive.index_text import texts_in
from backstory.lazy import lazy_regex

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence


TAG = "backstory-session-context"
OPEN, CLOSE = f"<{TAG}>", f"</{TAG}>"
FOREIGN_TAG = "azureal-session-context"
"""Another program's tag of the same meaning, found in the logs of agents that it ran."""
FOREIGN_GO_ON = "azureal-internal-auto-continue"
"""The tag of what that program sends an agent by itself, behind a context, to have it go on with its work."""
AUTO_CONTINUE = "backstory-auto-continue"
CONTINUE_PROMPT = f"""\
<{AUTO_CONTINUE}>
Your work on the last request was interrupted to shorten the context above. It has the request and your work so far. \
Continue that work from where it stands. This is no new request: the objectives and instructions are unchanged.
</{AUTO_CONTINUE}>"""
"""The prompt to continue a turn that was stopped for a summary. No person typed it or is shown it."""

SUMMARY_HEADER = "[Previous conversation summary]"
RESULT_CHARS_MAX = 600
FAILURE_CHARS_MAX = 3_000
"""The most characters of a failed result; failures get more room than successes."""
EDIT_CHARS_MAX = 4_000
INPUT_CHARS_MAX = 500
BRIEF_SHARE = 10
"""The divisor of a context's length that gives the room of earlier turns, if not all turns fit."""
BRIEF_ROOM_LEAST = 4_000
"""A smaller context has whole turns only."""

_TAGS = lazy_regex(rf"<(/?)({TAG}|{FOREIGN_TAG})>")
_UNSEEN = (
    "[\\s\u00ad\u034f\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff\U000e0000-\U000e01ef]*+"
)
"""Blanks, and characters that nobody sees: an agent may read a tag with them as the tag."""
_LIKE_TAGS = lazy_regex(
    rf"<(?={_UNSEEN}(?:/{_UNSEEN})?(?:"
    + "|".join(
        _UNSEEN.join(tag.replace("-", "~")).replace("~", "[-_\u2010-\u2015\u2212]") for tag in (TAG, FOREIGN_TAG)
    )
    + "))",
    re.IGNORECASE,
)
"""The start of any text that could be taken for a tag of a context, however it continues."""


_IN_BRIEF = (
    "(Of the turns from here on, before those that are whole, only prompts, decisions, edits, commands and failures "
    "are given, shortened.)\n"
)
_RESULT_LEFT_OUT = "[A result is left out here.]\n"


class _Block(Struct, frozen=True):
    """A part of a context that stays together."""

    text: str
    is_result: bool = False


class History(Struct, frozen=True, kw_only=True):
    """The parts of a context: a summary, if one is in force, and the turns behind those it covers, oldest first."""

    turns: Sequence[model.TurnWithEvents]
    turn_count: int
    """The number of turns behind the summary; not all of them may be given."""
    summary: str | None = None


class Context(Struct, frozen=True, kw_only=True):
    """A context, and what it is made of."""

    text: str
    turns: int
    """The number of whole turns, or cut ones if there is only one."""
    turns_left_out: int
    turns_in_brief: int = 0
    """Turns before those of which only prompts, decisions, edits, commands and failures are given, shortened."""
    results_left_out: int = 0
    """Results of tools that gave way, with a summary in force, so that what was said could stay."""

    @property
    def is_cut(self) -> bool:
        """True if turns are missing or in brief."""
        return self.turns_left_out + self.turns_in_brief > 0


def build_context(
    history: History | Sequence[model.TurnWithEvents], *, budget_chars: int, summary: str | None = None, turns: int = 0
) -> Context:
    """Render turns, oldest first, into at most ``budget_chars`` characters; older turns give way, and it says so.

    First those before the newest are in brief: failures, decisions and edits are kept longer than what was read.

    ``summary`` stands for what happened before them: with one, the oldest results of tools give way first. ``turns`` is
    how many the session has, where not all are given here. A single turn that is larger than the budget is cut.
    """
    if isinstance(history, History):
        return build_context(
            history.turns, budget_chars=budget_chars, summary=history.summary, turns=history.turn_count
        )
    head = _head(summary, budget_chars // 2) if summary and summary.strip() else ""
    turns = max(turns, len(history))
    room = budget_chars - len(head) - len(_left_out(turns))
    rendered = [list(_rendered(each)) for each in history]
    results_left_out = _leave_results_out(rendered, room) if head else 0
    kept, brief = _filled(history, [_joined(each) for each in rendered], room)
    left_out = turns - len(kept)
    parts = [head] if head else []
    if left_out and room > 0:
        parts.append(_left_out(left_out))
    if brief:
        parts.append(_IN_BRIEF)
    return Context(
        text="\n".join([*parts, *kept]).strip("\n"),
        turns=len(kept) - brief,
        turns_left_out=left_out,
        turns_in_brief=brief,
        results_left_out=results_left_out,
    )


def _filled(turns: Sequence[model.TurnWithEvents], whole: list[str], room: int) -> tuple[list[str], int]:
    """As much of turns as has room, oldest first, and how many of the first of those are in brief.

    The newest are whole; the last tenth of the room is for those before them: in brief, then in outline.
    """
    if sum(len(each) + 1 for each in whole) <= room or room < BRIEF_ROOM_LEAST:
        kept = _newest(len(turns), whole.__getitem__, room)
        return kept[::-1], 0
    kept = _newest(len(turns), whole.__getitem__, room - room // BRIEF_SHARE)
    count = len(kept)
    room -= sum(len(each) + 1 for each in kept) + len(_IN_BRIEF) + 1
    for form in (in_brief, in_outline):
        older = turns[: len(turns) - len(kept)]
        more = _newest(len(older), lambda n, form=form: _joined(_rendered(form(turns[n]))), room, cut=False)  # type: ignore[misc]
        room -= sum(len(each) + 1 for each in more)
        kept += more
    return kept[::-1], len(kept) - count


def _newest(count: int, text_of: Callable[[int], str], room: int, *, cut: bool = True) -> list[str]:
    """Return as many texts as fit, from the last backwards; with ``cut`` the end of a last one that is too long."""
    kept: list[str] = []
    for n in reversed(range(count)):
        text = text_of(n)
        if len(text) + 1 > room:
            if cut and not kept and room > 0:
                kept.append(_cut(text, room - 1))
            break
        kept.append(text)
        room -= len(text) + 1
    return kept


def _joined(blocks: Iterable[_Block]) -> str:
    return "\n".join(block.text for block in blocks)


def rendered_blocks(history: Sequence[model.TurnWithEvents]) -> list[list[str]]:
    """Return each turn as a context without cuts has it: a text for its prompt, and one for each of its events."""
    return [[block.text for block in _rendered(each)] for each in history]


def build_summarized(summary: str | None, text: str) -> str:
    """Rendered history behind a summary of what came before it, whole."""
    return f"{_head(summary, len(summary) + 1)}\n{text}" if summary else text


def _head(summary: str, most: int) -> str:
    text = escaped(summary.strip())
    if len(text) > most:
        note = "\n(The rest of this summary is left out here.)"
        text = text[: max(most - len(note), 0)] + note
    return f"{SUMMARY_HEADER}\n{text}\n\n[Conversation continues]\n"


def _leave_results_out(rendered: list[list[_Block]], room: int) -> int:
    """Replace the oldest results of tools until all fits, or none is left; returns how many."""
    excess = sum(len(block.text) + 1 for each in rendered for block in each) - room
    left_out = 0
    for each in rendered:
        for n, block in enumerate(each):
            if excess <= 0:
                return left_out
            if block.is_result and len(block.text) > len(_RESULT_LEFT_OUT):
                excess -= len(block.text) - len(_RESULT_LEFT_OUT)
                each[n] = _Block(_RESULT_LEFT_OUT)
                left_out += 1
    return left_out


def chars_at_least(event: model.Event) -> int:
    """Return the least characters of a context that an event takes; quick to count, to know when enough is read."""
    match event:
        case model.AssistantText():
            return len(event.text)
        case model.ToolResult() if event.tool not in (model.Tool.READ, model.Tool.EDIT, model.Tool.WRITE):
            return min(len(event.content), RESULT_CHARS_MAX)
        case _:
            return 0


def build_context_prompt(context: str, prompt: str) -> str:
    """The prompt with the context before it; the prompt alone when there is no context.

    >>> build_context_prompt("", "Go on")
    'Go on'
    """
    return context_prefix(context) + prompt


def with_offer(offered: str, context: str) -> str:
    """The notes that a run is offered, and the history behind them; both are between the tags of the context.

    >>> with_offer("", "## User"), with_offer("[Notes]", "")
    ('## User', '[Notes]')
    """
    return "\n\n".join(each for each in (offered, context) if each)


def context_prefix(context: str) -> str:
    """Exactly what is put before a prompt: cut so many characters off, and the prompt is as typed."""
    return f"{OPEN}\n{context}\n{CLOSE}\n\n" if context else ""


PREFIX_CHARS = len(context_prefix(".")) - 1
"""The characters of a prompt that the text around a context takes."""


def strip_context(text: str) -> str:
    """A prompt as typed, from a log that nobody recorded the prefix for: what follows the context's end.

    Text that begins a context and does not end it is all context.

    >>> strip_context(build_context_prompt("## User", "Go on"))
    'Go on'
    """
    found = _TAGS.match(text.lstrip())
    if found is None or found.group(1):
        return text
    _, end, rest = text.partition(f"</{found.group(2)}>")
    return rest.lstrip("\n") if end else ""


def typed_part(prompt: str) -> tuple[str, model.UserMessage | model.Hook]:
    """Return the typed part of a prompt, without its context, and its event; a prompt that no person typed has none.

    >>> typed_part("Go on")[0], typed_part("<azureal-internal-auto-continue>Go on</azureal-internal-auto-continue>")[0]
    ('Go on', '')
    """
    for tag in (FOREIGN_GO_ON, AUTO_CONTINUE):
        rest = prompt.strip().removeprefix(f"<{tag}>")
        if rest != prompt.strip() and rest.find(end := f"</{tag}>") == len(rest) - len(end) > 0:
            return "", model.Hook(name=tag, output=prompt.strip())
    return prompt, model.UserMessage(content=prompt)


def escaped(text: str) -> str:
    """A text in which nothing can be taken for a tag of a context."""
    return _LIKE_TAGS.sub("&lt;", text) if "<" in text else text


def _left_out(turns: int) -> str:
    return f"({turns} earlier {'turn is' if turns == 1 else 'turns are'} left out here.)\n"


def _cut(text: str, room: int) -> str:
    """The end of a text that is too long: what happened last matters most."""
    note = "(The beginning of this turn is left out here.)\n"
    return note + text[-max(room - len(note), 0) :] if room > len(note) else ""


def event_chars(event: model.Event) -> int:
    """Return the characters of a context that an event takes, nothing cut."""
    text = _event(event)
    return len(escaped(text)) + 2 if text else 0


def _rendered(given: model.TurnWithEvents) -> Iterator[_Block]:
    if not given.is_rest and given.turn.prompt:
        yield _Block(f"## User\n{escaped(given.turn.prompt)}\n")
    is_ours = given.turn.stop_reason == model.STOPPED_TO_COMPACT
    for event in with_interruptions(given.events, lambda each: each, lambda _, event: event):
        # Nobody interrupted what we stopped.
        is_said = not (is_ours and isinstance(event, model.Error) and event.code == INTERRUPTED)
        text = _event(event) if is_said else ""
        if text:
            yield _Block(f"{escaped(text)}\n", isinstance(event, model.ToolResult))
    is_cut_short = given.turn.outcome in (model.Outcome.CANCELLED, model.Outcome.CRASHED)
    if is_cut_short and not is_ours:
        yield _Block(f"(This turn was {given.turn.outcome} before it was done.)\n")


def _event(event: model.Event) -> str:
    match event:
        case model.UserMessage():
            # Words that came while the turn went on; its prompt stands before.
            return f"## User\n{event.content}"
        case model.AssistantText():
            return f"## Assistant\n{event.text}"
        case model.ToolCall():
            return _call(event)
        case model.ToolResult(is_error=True, content=content) if content == INTERRUPTED:
            return f"[Interrupted: {event.tool_name}]"
        case model.ToolResult(is_error=True):
            return f"[Failed: {event.tool_name}] {short(event.content, FAILURE_CHARS_MAX)}"
        case model.ToolResult(tool=model.Tool.READ | model.Tool.EDIT | model.Tool.WRITE):
            # What a file held can be read again; the call says that it was read or written.
            return ""
        case model.ToolResult():
            return f"[Result: {event.tool_name}] {short(event.content, RESULT_CHARS_MAX)}"
        case model.Plan():
            return f"## Plan\n{event.content}"
        case model.Error():
            return f"[Error] {short(event.message, FAILURE_CHARS_MAX)}"
        case model.Compacted(summary=summary) if summary:
            return f"## Summary\n{summary}"
        case _:
            return ""


def _call(call: model.ToolCall) -> str:
    texts = [text for text in texts_in(call.input) if text != call.file_path]
    room = EDIT_CHARS_MAX if call.tool == model.Tool.EDIT else INPUT_CHARS_MAX
    named = f"## Tool: {call.tool_name}" + (f" ({call.file_path})" if call.file_path else "")
    return f"{named}\n{short(chr(10).join(texts), room)}" if texts else named


# older turns, in brief ------------------------------------------------------------------------------------------------


SAID_CHARS = 600
PASSING_CHARS = 200
"""The most characters of words between two steps, unless they decide something."""
EDIT_CHARS = 200
COMMAND_CHARS = 150
FAILURE_CHARS = 300
OUTLINE_CHARS = 160
"""The most characters of a prompt and of the last answer, if a turn is only outlined."""

_DECIDES = lazy_regex(
    r"\b(?:decid(?:e|ed|ing|es)|decision|instead of|rather than|we(?:'ll| will| should)|i(?:'ll| will) (?:use|keep|go)|"
    r"because|so that|chose|choose|must(?: not)?|never|always)\b",
    re.IGNORECASE,
)
_SENTENCE = lazy_regex(r"[^.!?\n]{20,400}(?:[.!?](?=\s|$)|$)", re.MULTILINE)
EDITS = (model.Tool.EDIT, model.Tool.WRITE)


def in_brief(given: model.TurnWithEvents) -> model.TurnWithEvents:
    """A turn's prompt, answers, edits, commands and failures, each shortened; without what it read and found."""
    last = _last_answer(given)
    events = (_brief(event, is_last=event is last) for event in given.events)
    return _with(given, SAID_CHARS, [event for event in events if event is not None])


def in_outline(given: model.TurnWithEvents) -> model.TurnWithEvents:
    """The beginning and the end of a turn's prompt and of its last answer, and the names of the files it changed."""
    return _with(given, OUTLINE_CHARS, list(_outline(given)))


def decisions_in(text: str) -> list[str]:
    """The sentences of a text that decide something or say why.

    >>> decisions_in("The parser is slow. We will use a table instead of the regex.")
    ['We will use a table instead of the regex.']
    """
    return [found for each in _SENTENCE.findall(text) if _DECIDES.search(found := each.strip())]


def short(text: str, room: int) -> str:
    """A text, or its beginning and its end with what is left out between them."""
    if len(text) <= room:
        return text
    half = room // 2
    return f"{text[:half]}\n… ({len(text) - 2 * half} characters left out) …\n{text[-half:]}"


def _with(given: model.TurnWithEvents, prompt_chars: int, events: list[model.Event]) -> model.TurnWithEvents:
    return replace(given, turn=replace(given.turn, prompt=short(given.turn.prompt, prompt_chars)), events=events)


def _last_answer(given: model.TurnWithEvents) -> model.AssistantText | None:
    return next((event for event in reversed(given.events) if isinstance(event, model.AssistantText)), None)


def _brief(event: model.Event, *, is_last: bool) -> model.Event | None:
    match event:
        case model.UserMessage():
            return replace(event, content=short(event.content, SAID_CHARS))
        case model.AssistantText():
            is_decision = is_last or _DECIDES.search(event.text) is not None
            return replace(event, text=short(event.text, SAID_CHARS if is_decision else PASSING_CHARS))
        case model.ToolCall(tool=model.Tool.EDIT | model.Tool.WRITE):
            return _shortened(event, EDIT_CHARS)
        case model.ToolCall(tool=model.Tool.SHELL):
            return _shortened(event, COMMAND_CHARS)
        case model.ToolResult(is_error=True):
            return replace(event, content=short(event.content, FAILURE_CHARS))
        case model.Error():
            return replace(event, message=short(event.message, FAILURE_CHARS))
        case model.Plan():
            return replace(event, content=short(event.content, SAID_CHARS))
        case model.Compacted(summary=summary) if summary:
            return event
        case _:
            return None


def _shortened(call: model.ToolCall, room: int) -> model.ToolCall:
    texts = [text for text in texts_in(call.input) if text != call.file_path]
    return replace(call, input={"text": short("\n".join(texts), room)} if texts else {})


def _outline(given: model.TurnWithEvents) -> Iterator[model.Event]:
    named = set[str]()
    for event in given.events:
        if isinstance(event, model.ToolCall) and event.tool in EDITS and event.file_path not in (None, *named):
            named.add(event.file_path or "")
            yield replace(event, input={})
    if (last := _last_answer(given)) is not None:
        yield replace(last, text=short(last.text, OUTLINE_CHARS))
