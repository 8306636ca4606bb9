"""``backstory show``: a session, turn by turn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
import msgspec

from backstory import model
from backstory.cli import output
from backstory.cli.list_command import session_as_json
from backstory.cli.options import json_option, session_argument, store_option
from backstory.fullform import FullForms

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backstory.cli.app import App, Found
    from backstory.model import Event, Turn
    from backstory.store import Store, StoredEvent

WINDOW = 500
"""So many events are read at once; nothing of the store is held while they are printed."""
RESULT_LINES = 6
MARKS = {"completed": ("✓", "green"), "failed": ("✗", "red"), "cancelled": ("■", "yellow"), "crashed": ("✗", "red")}


@click.command("show")
@session_argument()
@click.option("--full", is_flag=True, help="Everything, read again from the bytes, instead of the compact form.")
@click.option("--turn", "-t", type=int, metavar="N", help="Only this turn.")
@click.option("--thinking", is_flag=True, help="Also what the model thought.")
@json_option
@store_option
@click.pass_obj
def command(app: App, session: str, full: bool, turn: int | None, thinking: bool, as_json: bool) -> None:
    """Show a session: its turns, and what happened in them. SESSION is S3, a name, or the start of a uid."""
    found = app.find(session)
    turns = found.store.turns(found.session)
    events = _events(found, full=full, turn=turn)
    if as_json:
        head = {
            "session": session_as_json(found.session) | {"children": _children(found)},
            "turns": [turn_as_json(number, each) for number, each in enumerate(turns, 1) if turn in (None, number)],
        }
        output.json_lines(head, "events", (event_as_json(*each) for each in events))
        return
    output.pages(_lines(found, turns, events, full=full, thinking=thinking or full))


def turn_as_json(number: int, turn: Turn) -> dict[str, Any]:
    """A turn as printed."""
    return {
        "number": number,
        "uid": turn.uid,
        "seq": turn.first_seq,
        "last_seq": turn.last_seq,
        "parent": turn.parent_uid,
        "parent_seq": turn.parent_seq,
        "agent": turn.agent,
        "model": turn.model,
        "prompt": turn.prompt,
        "started": output.iso(turn.started),
        "ended": output.iso(turn.ended),
        "outcome": turn.outcome,
        "stop_reason": turn.stop_reason,
        "duration_ms": turn.duration_ms,
        "tokens": turn.tokens,
        "tokens_source": turn.tokens_source,
        "cost_usd": turn.cost_usd,
        "cost_source": turn.cost_source,
    }


def event_as_json(stored: StoredEvent, event: Event, turn: int | None) -> dict[str, Any]:
    """An event as printed: where it stands, then its own fields."""
    head = {"seq": stored.seq, "part": stored.part, "turn": turn, "kind": stored.kind, "at": output.iso(stored.at)}
    fields = msgspec.to_builtins(event)
    return head | {"char_len": stored.char_len} | {name: fields[name] for name in fields if name not in head}


def _events(found: Found, *, full: bool, turn: int | None) -> Iterator[tuple[StoredEvent, Event, int | None]]:
    store, session = found.store, found.session
    numbers = store.turn_numbers(session)
    forms = FullForms(store)
    after = (0, -1)
    while window := store.events(session, after=after, limit=WINDOW):
        for stored in window:
            number = numbers.get(stored.turn_id or 0)
            if turn is None or number == turn:
                yield stored, forms.of(stored) if full else stored.event, number
        after = (window[-1].seq, window[-1].part)


def _children(found: Found) -> list[dict[str, Any]]:
    return [
        {"uid": child.uid, "relation": child.relation, "turns": child.turns}
        for child in found.store.children(found.session)
    ]


def _lines(
    found: Found,
    turns: list[Turn],
    events: Iterator[tuple[StoredEvent, Event, int | None]],
    *,
    full: bool,
    thinking: bool,
) -> Iterator[str]:
    session = found.session
    yield output.style(output.clean(session.shown_name or session.uid), bold=True)
    where = session.project or session.cwd or session.worktree
    facts = [session.uid, ", ".join(session.agents), where, session.branch, _count(session.turns)]
    yield output.style(output.clean(" · ".join(each for each in facts if each)), dim=True)
    if session.parent_uid:
        yield output.style(f"{session.relation} of {session.parent_uid}", dim=True)
    yield from _child_lines(found.store, session.id)
    current: int | None = 0
    for stored, event, number in events:
        if number != current and number is not None:
            yield from ("", _turn_line(number, turns[number - 1]))
        current = number
        if not thinking and isinstance(event, model.Thinking):
            continue
        yield from event_lines(stored.seq, event, full=full)


def _child_lines(store: Store, session_id: int) -> Iterator[str]:
    for child in store.children(session_id):
        yield output.style(f"  └ {child.relation} {child.uid[:12]} ({_count(child.turns)})", dim=True)


def _count(turns: int) -> str:
    return f"{turns} turn" if turns == 1 else f"{turns} turns"


def _turn_line(number: int, turn: Turn) -> str:
    tokens = turn.tokens
    used = [] if tokens.output is None else [f"{_input_tokens(tokens):,} in, {tokens.output:,} out"]
    cost = [] if turn.cost_usd is None else [f"${turn.cost_usd:.4f}"]
    mark, colour = MARKS.get(turn.outcome or "", ("", "white"))
    facts = [turn.agent, turn.model, output.local(turn.started), output.duration(turn.duration_ms), *used, *cost]
    title = f"── turn {number} " + output.style(mark, fg=colour)
    return output.style(title, bold=True) + output.style("  " + " · ".join(each for each in facts if each), dim=True)


def _input_tokens(tokens: model.Tokens) -> int:
    return (tokens.input or 0) + (tokens.cache_read or 0) + (tokens.cache_write or 0)


def event_lines(seq: int | None, event: Event, *, full: bool) -> Iterator[str]:
    """An event as lines for a terminal, with its record's number if it has one yet."""
    at = "      " if seq is None else output.style(f"@{seq:<5}", dim=True)
    match event:
        case model.UserMessage():
            yield from _block(at, "❯", event.content, fg="cyan", bold=True)
        case model.AssistantText():
            yield from _block(at, " ", event.text)
        case model.Thinking():
            yield from _block(at, "~", event.text, dim=True)
        case model.ToolCall():
            told = output.one_line(_key_field(event), output.width() - 12 - len(event.tool_name))
            yield f"{at} {output.style('●', fg='blue')} {output.style(output.clean(event.tool_name), bold=True)} {told}"
            if full:
                yield from _indented(msgspec.json.format(msgspec.json.encode(event.input), indent=2).decode())
        case model.ToolResult():
            lines = event.content.split("\n")
            shown = lines if full else lines[:RESULT_LINES]
            how = {"fg": "red"} if event.is_error else {"dim": True}
            yield from _indented("\n".join(shown), **how)
            if len(shown) < len(lines):
                yield output.style(f"         (+{len(lines) - len(shown)} more)", dim=True)
        case model.Error():
            yield from _block(at, "!", event.message, fg="red")
        case model.Compacted():
            yield from _block(at, "≡", event.summary if full else "context compacted", fg="magenta")
        case model.Complete() | model.Init():
            return
        case _:
            told = " ".join(str(value) for value in msgspec.to_builtins(event).values())
            yield f"{at} {output.style(f'{event.kind}: {output.one_line(told, output.width() - 20)}', dim=True)}"


def _key_field(call: model.ToolCall) -> str:
    given = call.input if isinstance(call.input, dict) else {}
    for key in ("command", "cmd", "file_path", "path", "pattern", "url", "query", "description", "patch"):
        if given.get(key):
            value = given[key]
            return " ".join(map(str, value)) if isinstance(value, list) else str(value)
    return call.file_path or ""


def _block(at: str, mark: str, text: str, **how: Any) -> Iterator[str]:
    first, *rest = output.clean(text.strip("\n")).split("\n")
    yield f"{at} {output.style(f'{mark} {first}', **how)}"
    for line in rest:
        yield f"         {output.style(line, **how)}"


def _indented(text: str, **how: Any) -> Iterator[str]:
    for line in output.clean(text).split("\n"):
        yield f"         {output.style(line, **how)}"
