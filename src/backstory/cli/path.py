"""The records of a path through a session, and how one is shown in a line."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

import msgspec

from backstory import model
from backstory.cli import output
from backstory.derive.essence import essence, without_terminal_codes
from backstory.export.full_form import FullForms

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from backstory.cli.app import Found
    from backstory.conversation.tree import Span
    from backstory.store import StoredEvent, TreeTurn

WINDOW = 500
"""So many events are read at once; gaps in a path that are shorter are read over."""
TOLD_COLUMNS_LEAST = 20
NAME_COLUMNS = 30
LINES_AT_ONCE = 200


def records(found: Found, spans: Sequence[Span], turns: Iterable[TreeTurn]) -> Iterator[StoredEvent]:
    """The events of a path's records, in the order of their numbers."""
    forms = FullForms(found.store)
    ids = {turn.uid: turn.id for turn in turns}
    last = {ids[span.uid]: span.last for span in spans}
    first = {ids[span.uid]: span.first for span in spans}
    for start, stop in _joined(spans):
        after = (start - 1, 1 << 30)
        while window := found.store.events(found.session, after=after, limit=WINDOW):
            for stored in window:
                turn = stored.turn_id or 0
                if stored.seq <= stop and first.get(turn, 1) <= stored.seq <= last.get(turn, 0):
                    yield msgspec.structs.replace(stored, event=forms.with_words(stored))
            after = (window[-1].seq, window[-1].part)
            if after[0] > stop or len(window) < WINDOW:
                break


def at_once(texts: Iterable[str]) -> Iterator[str]:
    """Lines, many in one text, so that printing them costs little."""
    texts = iter(texts)
    while some := list(islice(texts, LINES_AT_ONCE)):
        yield "\n".join(some)


def _joined(spans: Sequence[Span]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for span in sorted(spans, key=lambda each: each.first):
        if joined and span.first - joined[-1][1] <= WINDOW:
            joined[-1] = (joined[-1][0], max(joined[-1][1], span.last))
        else:
            joined.append((span.first, span.last))
    return joined


def told(event: model.Event) -> tuple[str, str] | None:
    """Whose word an event is (U, A, → for a tool, ! for an error), and the word; None for what says nothing here."""
    match event:
        case model.UserMessage():
            return "U", event.content
        case model.AssistantText():
            return "A", event.text
        case model.ToolCall():
            return "→", f"{output.one_line(event.tool_name, NAME_COLUMNS)} {essence(event)}".strip()
        case model.ToolResult(is_error=True):
            return "!", f"{event.tool_name}: {without_terminal_codes(event.content)}"
        case model.Error():
            return "!", event.message
        case model.Plan():
            return "A", f"plan: {event.content}"
        case model.Compacted():
            return "≡", event.summary or "context compacted"
        case _:
            return None


def lines(stored: Iterable[StoredEvent], *, marked: bool = False) -> Iterator[str]:
    """Records as lines; ``marked``: the last one has a > before it."""
    waiting: tuple[int, str, str] | None = None
    for each in stored:
        word = told(each.event)
        if word is not None and word[1].strip():
            if waiting is not None:
                yield _line(*waiting, mark=" ")
            waiting = (each.seq, *word)
    if waiting is not None:
        yield _line(*waiting, mark=">" if marked else " ")


def _line(seq: int, who: str, text: str, *, mark: str) -> str:
    at = f"@{seq:<4}"
    start = f"{output.style(mark, fg='green') if mark.strip() else mark} {output.style(at, dim=True)} "
    room = max(output.width() - 3 - len(at), TOLD_COLUMNS_LEAST)
    if who in "→!≡":
        colour = {"→": "blue", "!": "red", "≡": "magenta"}[who]
        return f"{start}   {output.style(who, fg=colour)} {output.one_line(text, room - 5)}"
    how: dict[str, Any] = {"fg": "cyan", "bold": True} if who == "U" else {}
    return f"{start}{output.style(f'{who}: {output.one_line(text, room - 3)}', **how)}"


def as_dict(stored: StoredEvent) -> dict[str, Any] | None:
    """A record as printed in JSON; None for what says nothing here."""
    word = told(stored.event)
    if word is None:
        return None
    event = stored.event
    role = {"U": "user", "A": "assistant", "→": "tool", "!": "error", "≡": "system"}[word[0]]
    head = {"seq": stored.seq, "part": stored.part, "role": role, "kind": stored.kind, "at": output.iso(stored.at)}
    if isinstance(event, model.ToolCall):
        return head | {"tool": event.tool_name, "text": word[1].partition(" ")[2]}
    return head | {"text": word[1]}
