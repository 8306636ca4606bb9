"""A session as lines for a terminal: its head, its turns and their events, the same for stored and for running ones."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

from backstory import model
from backstory.bounds import short
from backstory.cli import output
from backstory.cli.output import GUTTER, MARGIN, flowing, flowing_facts, page_columns, room_beside
from backstory.cli.views.call_view import RESULT_LINES, begun, call_lines, call_words, number, result_lines
from backstory.conversation.compact import without_wrapping
from backstory.derive.essence import EventWords, every_value, noted, why, without_terminal_codes, words_of
from backstory.derive.moments import moment, outcome_mark, stretch
from backstory.derive.naming import NO_PROMPT, short_model
from backstory.ids import may_be_written
from backstory.model import Relation
from backstory.workspace.history.sessions import is_resumable
from backstory.workspace.runs.running import meter_words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from backstory.model import Event, Turn
    from backstory.store import Session
    from backstory.workspace.history.entries import ShownResult
    from backstory.workspace.history.sessions import ListedSession
    from backstory.workspace.history.transcript import ListedTurn, Transcript


PROMPT_LINES = 4
"""Most lines of a long prompt shown without ``--full``."""
PROMPT_LINES_LEFT_LEAST = 3
"""Fewer lines than this are not left out."""
PROMPT_CHARS_MAX, PROMPT_CHARS_SHOWN = 1_000, 600
"""A prompt with long lines: its most characters, and the number shown of a longer one."""
EMPTY_NOTICES = frozenset({"No response requested."})
"""Texts that an agent notes instead of an answer that nobody asked for."""
BLOCKS: dict[str, tuple[str, Callable[[str], str], dict[str, Any]]] = {
    "answer": (" ", str, {}),
    "thought": ("~", str, {"dim": True}),
    "error": ("!", why, {"fg": "red"}),
    "summary": ("≡", lambda _: "context compacted", {"bold": True}),
}
"""The sign of a text, what it is without ``--full``, and its style."""
OF_HELPERS = ("subagent", "message from ")
"""Beginnings of notes of messages between an agent and its subagents."""


def event_lines(
    seq: int | None,
    event: Event,
    *,
    full: bool,
    answered: model.ToolCall | None = None,
    answer: ShownResult | None = None,
    folder: str = "",
    folded: bool = False,
) -> Iterator[str]:
    """An event as lines for a terminal, with its record's number if it has one yet.

    ``answered``: the call that a result belongs to, where it does not stand right above; or a helper's words.
    ``answer``: the result that stands right below a call, and is drawn with it. ``folder``: where the session was.
    ``folded``: of a call and its result only the line that names them.
    """
    at, words = number(seq), words_of(event)
    if isinstance(event, model.ToolCall):
        yield from call_lines(at, event, full=full, answer=answer, folder=folder, folded=folded)
    elif isinstance(event, model.ToolResult):
        yield from result_lines(at, event, answered, full=full, folder=folder, folded=folded)
    elif isinstance(event, model.Retry) and not full:
        yield _retry_line(at, event)
    elif words.tone == "prompt":
        yield from _prompt_lines(seq, words.body, full=full)
    elif words.tone in BLOCKS:
        mark, in_short, how = BLOCKS[words.tone]
        text = words.body if full else in_short(words.body)
        yield from _block(at, mark, without_terminal_codes(text) if words.tone == "error" else text, full=full, **how)
    elif words.tone == "plan":
        yield from _noted(at, f"Plan: {words.head}", words.body, None)
    elif words.tone == "hook":
        yield from _hook_lines(at, words, answered, full=full, folder=folder)
    elif words.tone == "command" and words.body.strip():
        yield from _command_lines(at, words, full=full)
    elif words.tone:
        yield from _told(at, event.kind, every_value(event))


def _hook_lines(
    at: str, words: EventWords, answered: model.ToolCall | None, *, full: bool, folder: str
) -> Iterator[str]:
    """Words of the client, of a hook or of a helper, which are no part of the conversation itself."""
    if full or (words.head.startswith(OF_HELPERS) and words.body not in EMPTY_NOTICES):
        yield from _noted(at, _hook_head(words.head, answered, "" if full else folder), words.body, full)
    elif words.body not in EMPTY_NOTICES:
        yield from _told(at, "Hook", f"{words.head} · {noted(words.body)}")


def _command_lines(at: str, words: EventWords, *, full: bool) -> Iterator[str]:
    if words.head:
        yield from _noted(at, f"Command: {words.head}", words.body, full)
        return
    # What it printed is a record of its own with most agents, and stands below it then.
    printed = words.body if full else without_wrapping(words.body)
    yield from result_lines(at, model.ToolResult(content=printed.strip("\n")), None, full=full)


def _hook_head(name: str, answered: model.ToolCall | None, folder: str) -> str:
    # What a subagent was asked and answered is no hook's word to the person reading.
    head = f"{name[:1].upper()}{name[1:]}" if name.startswith(OF_HELPERS) else f"Hook: {name}"
    about = f": {call_words(answered, room_beside(12 + len(head)), folder)}" if answered else ""
    return head + about


def _told(at: str, head: str, text: str) -> Iterator[str]:
    """A line that says what stands beside the conversation, as far as it fits; nothing of what says nothing."""
    words = without_terminal_codes(text).strip()
    if words:
        line = output.one_line(f"{head}: {words}", room_beside(len(GUTTER)))
        yield f"{at} {output.style(line, dim=True)}"


def _retry_line(at: str, retry: model.Retry) -> str:
    """Return the reason that a request failed, as far as it fits, and the number of the next try."""
    of = f" of {retry.attempts_max}" if retry.attempts_max else ""
    again = f"trying again, {retry.attempt}{of}" if retry.attempt else "trying again"
    room = room_beside(11 + len(again))
    reason = output.one_line(without_terminal_codes(why(retry.message)).strip() or "no answer", room)
    return f"{at} {output.style(f'↻ {reason}, {again}', dim=True)}"


def _noted(at: str, head: str, text: str, full: bool | None) -> Iterator[str]:
    """Yield a note outside the conversation: a line with its kind, and its text, or the beginning of it."""
    yield f"{at} {output.style(output.one_liner(head), dim=True)}"
    lines = without_terminal_codes(text).strip("\n").split("\n")
    shown = lines[:RESULT_LINES] if full is False else lines
    first, left = begun("\n".join(shown), full=bool(full))
    if first:
        yield from (f"{MARGIN}{output.style(line, dim=True)}" for line in flowing(first))
    yield from left
    if len(shown) < len(lines):
        yield output.style(f"{MARGIN}(+{len(lines) - len(shown)} more)", dim=True)


def _prompt_lines(seq: int | None, text: str, *, full: bool) -> Iterator[str]:
    """A prompt; of a long one the beginning, and how much more there is."""
    how: dict[str, Any] = {"bold": True}
    shown, left = (text, "") if full else _folded(text.strip("\n"))
    yield from _block(number(seq), "❯", shown, full=full, **how)
    if left:
        at = "" if seq is None else f", show @{seq}"
        yield output.style(f"{MARGIN}… (+{left}{at})", dim=True)


def _folded(text: str) -> tuple[str, str]:
    """A prompt, or of a long one the first lines that have words; and how much is left, in words."""
    lines = text.split("\n")
    is_long = len(lines) >= PROMPT_LINES + PROMPT_LINES_LEFT_LEAST
    wordy = [n for n, line in enumerate(lines) if line.strip()][:PROMPT_LINES] if is_long else range(len(lines))
    shown = "\n".join(lines[n] for n in wordy)
    if len(shown) > PROMPT_CHARS_MAX:
        first = shown[:PROMPT_CHARS_SHOWN]
        shown = first.rpartition(" ")[0] or first
        return shown, f"{len(text) - len(shown):,} characters"
    return shown, output.counted(len(lines) - 1 - wordy[-1], "line") if is_long else ""


def _block(at: str, mark: str, text: str, *, full: bool, **how: Any) -> Iterator[str]:
    text, left = begun(text.strip("\n"), full=full)
    first, *rest = flowing(text)
    yield f"{at} {output.style(f'{mark} {first}', **how)}"
    yield from (f"{MARGIN}{output.style(line, **how)}" for line in rest)
    yield from left


# a turn, above and below its events -----------------------------------------------------------------------------------


def turn_line(listed: ListedTurn, now: int, *, beside: ListedTurn | None = None) -> str:
    """The line above a turn: its number and when it began; who answers, where that is not as in the turn ``beside``."""
    turn = listed.turn
    before = None if beside is None else beside.turn
    facts = [moment(turn.started, None if before is None else before.started, now)]
    facts += [turn.agent] if before is None or turn.agent != before.agent else []
    if turn.model and (before is None or turn.model != before.model):
        facts.append(short_model(turn.model, [turn.agent]))
    title = f"── turn {listed.number}"
    about = _about(facts, len(title) + 2)
    return output.style(title, bold=True) + output.style(f"  {about}", dim=True) + _left_behind(listed)


def _how(turn: Turn) -> str:
    """Return the outcome in words: a turn stopped for a summary was not cancelled by anybody."""
    return "stopped for a summary" if turn.stop_reason == model.STOPPED_TO_COMPACT else str(turn.outcome)


def _left_behind(listed: ListedTurn) -> str:
    if listed.removed is not None:
        return output.style("  removed", fg="red")
    return output.style("  rewound", bold=True) if listed.is_rewound else ""


def end_line(listed: ListedTurn, *, is_news: bool = False) -> Iterator[str]:
    """The line below a turn: how it ended, how long it took and what it used; none where nothing of that is known.

    ``is_news``: somebody saw it end, and reads which turn it was.
    """
    turn, tokens = listed.turn, listed.turn.tokens
    mark, colour = outcome_mark(turn.outcome, turn.stop_reason)
    how = "" if turn.outcome in (None, model.Outcome.COMPLETED) else _how(turn)
    how = f"turn {listed.number} {_how(turn)}" if is_news else how
    is_counted = tokens.output is not None or turn.tokens_source == model.PARTIAL
    used = [f"{_input_tokens(turn)} in, {_output_tokens(turn)} out"] if is_counted else []
    facts = [each for each in (how, output.duration(turn.duration_ms), *used, listed.cost.known) if each]
    if mark or facts:
        about = output.style(f" {_about(facts, len(MARGIN))}", dim=True) if facts else ""
        yield f"{GUTTER}{output.style(mark, fg=colour) if mark else ' '}{about}"


def _about(facts: list[str], taken: int) -> str:
    """Break facts into the lines that a narrow terminal needs, in the room that ``taken`` columns leave."""
    return f"\n{' ' * taken}".join(flowing_facts([output.one_liner(each) for each in facts if each], taken))


def _input_tokens(turn: Turn) -> str:
    tokens = turn.tokens
    known = sum(each or 0 for each in (tokens.input, tokens.cache_read, tokens.cache_write))
    # Without the input of a request none is known to be the largest.
    is_lacking = tokens.input is None or (turn.tokens_source == model.PARTIAL and tokens.largest_input is None)
    if is_lacking:
        return f"≥ {short(known)}" if known else output.UNKNOWN
    return short(known)


def _output_tokens(turn: Turn) -> str:
    if turn.tokens.output is None:
        return output.UNKNOWN
    return f"{'≥ ' if turn.tokens_source == model.PARTIAL else ''}{short(turn.tokens.output)}"


def unknown_line(count: int) -> Iterator[str]:
    """Yield the number of records that are not shown because their kind is unknown, if there are any."""
    if count:
        yield output.style(f"{MARGIN}(+{output.counted(count, 'record')} of an unknown kind: --full)", dim=True)


# the head of a session ------------------------------------------------------------------------------------------------


MODELS_NAMED_MAX = 3
RETOLD = "calls and results: only what the program showed of them"
"""The remark on a session whose file has no more than that, also on its full form."""


def head_lines(transcript: Transcript, home: str, now: int) -> Iterator[str]:
    """The lines above a session's turns. ``home``: the person's home folder, which paths are shortened by."""
    session = transcript.session
    called = f"{session.number or ''} {session.heading or NO_PROMPT}".strip()
    yield output.style(output.one_line(called, page_columns()), bold=True)
    agent = ", ".join(session.agents)
    facts = [agent, *models(session.agents, transcript.turns), _when(transcript.turns, now), _where(session, home)]
    facts += [output.counted(session.turns, "turn"), *_how_much(session)]
    yield from (
        output.style(line, dim=True) for line in flowing_facts([output.one_liner(each) for each in facts if each])
    )
    if mark := session.origin_mark:
        yield output.style(output.one_liner(f"{mark}{session.elsewhere}"), bold=True)
    if session.pruned:
        yield output.style(session.pruned_words, bold=True)
    yield from (output.style(line, dim=True) for line in flowing_facts(_way_back(session)))
    if session.parent_uid:
        yield output.style(f"{session.relation} of {session.parent_uid}", dim=True)
    if session.relation == Relation.RETOLD:
        yield output.style(RETOLD, dim=True)
    yield from _child_lines(transcript.children)


def models(agents: Iterable[str], turns: Iterable[ListedTurn]) -> list[str]:
    """The models that answered, the first first, without what the agents' names say; at most a few, as one fact."""
    named = list(dict.fromkeys(short_model(each.turn.model, agents) for each in turns if each.turn.model))
    more = [f"{len(named) - MODELS_NAMED_MAX} more"] if len(named) > MODELS_NAMED_MAX else []
    return [", ".join([*named[:MODELS_NAMED_MAX], *more])] if named else []


def _when(turns: Iterable[ListedTurn], now: int) -> str:
    """From the first turn's beginning to the last one's end."""
    times = [ms for each in turns for ms in (each.turn.started, each.turn.ended) if ms is not None]
    return stretch(min(times), max(times), now) if times else ""


def _where(session: ListedSession, home: str) -> str:
    folder = session.cwd or session.project or ""
    if home and (folder == home or folder.startswith(f"{home}/")):
        folder = f"~{folder.removeprefix(home)}"
    branch = f"({session.branch})" if session.branch else ""
    return f"{folder} {branch}".strip()


def _how_much(session: ListedSession) -> list[str]:
    least = "≥ " if session.partial_tokens else ""
    tokens = [f"{least}{short(session.tokens)} tokens"] if session.tokens else []
    full, _ = meter_words(session.meter)
    context = [f"context {full}"] if full else []
    return [*tokens, *filter(None, [session.cost.known]), *context]


def _way_back(session: ListedSession) -> list[str]:
    """The command that goes on with a session in its own agent, and the agent's id of it; else its id here."""
    if session.elsewhere is None and is_resumable(session.agents, session.native_id, session.number):
        # The agent's own command is in --json: naming it here would import the agent.
        own = f"{', '.join(session.agents)} {session.native_id}"
        return [f"resume: backstory resume {session.label}", output.one_liner(own)]
    return [f"id: {session.uid}"]


def _child_lines(children: Iterable[Session]) -> Iterator[str]:
    room = page_columns()
    for child in children:
        line = f"  └ {child.relation} {child.uid[:12]} ({output.counted(child.turns, 'turn')}) {child.shown_title}"
        yield output.style(output.one_line(line.rstrip(), room), dim=True)


def elsewhere_lines(transcript: Transcript) -> Iterator[str]:
    """The turns that another session shows, because they ran there, or were written of it."""
    store = transcript.located.store
    elsewhere = (each for each in transcript.turns if each.shown_in is not None)
    for (uid, is_copy), same in groupby(elsewhere, _where_shown):
        found = list(same)
        owner = store.session(uid)
        places = {turn.uid: turn.first_seq for turn in store.turns(owner)}
        where, first = f"backstory show {owner.shown_number or owner.uid}", found[0]
        if is_copy and len(found) > 1:
            yield output.style(f"── turns {first.number}–{found[-1].number}  copied: {where}", dim=True)
            continue
        for each in found:
            why = "copied" if is_copy else "follows a run"
            yield output.style(f"── turn {each.number}  {why}: {where} @{places[each.turn.uid]}", dim=True)


def _where_shown(turn: ListedTurn) -> tuple[str, bool]:
    """The session that shows a turn, and whether that is because it was written of it."""
    return turn.shown_in or "", may_be_written(turn.turn.native_id or "")
