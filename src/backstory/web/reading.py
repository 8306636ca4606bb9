"""A session as values that a page draws: what is in a block, and each entry in words with what opens below it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec
from msgspec import Struct

from backstory import model
from backstory.bounds import duration
from backstory.derive.essence import (
    call_facts,
    call_words_in,
    is_said_by_facts,
    result_body,
    result_facts,
    without_terminal_codes,
    words_of,
)
from backstory.derive.given import questions_of
from backstory.derive.moments import moment, outcome_mark
from backstory.derive.naming import short_model
from backstory.web.colour import Palette
from backstory.web.diffs import changes_of
from backstory.web.markup import markdown, plain
from backstory.workspace.history.blocks import ShownEntry, TurnBegun, TurnEnded, block_items
from backstory.workspace.history.images import image_count
from backstory.workspace.history.subagents import Subagents
from backstory.workspace.history.transcript import ShownSummary

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from markupsafe import Markup

    from backstory.model import Event, ToolCall
    from backstory.web.diffs import ChangedFile
    from backstory.workspace.history.blocks import Block, Content, Key
    from backstory.workspace.history.subagents import ComingSession
    from backstory.workspace.history.transcript import ListedTurn
    from backstory.workspace.reader import Reader

CHARS_SHOWN = 20_000
"""The most characters of a text on the page; a link leads to all of a longer one."""
LINES_CHANGED, LINES_OF_RECORD = 400, 5_000
"""The most changed lines of an edit on the page, and where all that its record says is shown."""
PROMPTS_MOST = 1_000
"""The most prompts in the outline of a session."""
PROMPT_CHARS, SUBJECT_CHARS = 120, 400
"""The most characters of a prompt in the outline, and of the subject of a call on its line."""
OPEN_TONES = frozenset({"prompt", "answer", "error", "plan"})
"""Entries that are read without opening them."""


class StartedSession(NamedTuple):
    """A subagent at the call that started it."""

    uid: str
    title: str


class EntryImages(NamedTuple):
    """The images that an entry names: the place of the event that holds them, and how many."""

    place: str
    number: int


class PageEntry(Struct, frozen=True, kw_only=True):
    """One thing on the page. ``tone``: what it is, as ``derive.essence`` has it, or turn, end or summary.

    ``place``: the record and part, for its permalink; '' for what is no entry. ``head``: its line, of a call the tool;
    ``subject``: what a call is about; ``facts``: what came of it. ``html``: words in Markdown; ``text``: words as they
    are, and ``result`` the place of a result that is below its call. ``is_cut``: the record has more than is shown.
    """

    tone: str
    place: str = ""
    head: str = ""
    subject: str = ""
    facts: str = ""
    html: Markup | None = None
    text: str = ""
    result: str = ""
    changes: tuple[ChangedFile, ...] = ()
    is_error: bool = False
    is_cut: bool = False
    images: EntryImages | None = None
    started: StartedSession | None = None
    stands_for: tuple[int, int] | None = None
    """The first and the last record that a summary stands for."""

    @property
    def is_open(self) -> bool:
        """True if it is read without opening it."""
        return self.tone in OPEN_TONES

    @property
    def has_body(self) -> bool:
        """True if there is something to open."""
        return bool(self.html or self.text or self.changes or self.is_cut or self.images)


class OutlinedPrompt(NamedTuple):
    """A prompt in the outline: its record, its words, and the mark of how its turn ended, with that in words."""

    seq: int
    text: str
    mark: str
    outcome: str


def outline(content: Content) -> list[OutlinedPrompt]:
    """The last prompts of a session, to go to."""
    turns = _prompted(content)
    return [
        OutlinedPrompt(
            each.turn.first_seq, _begun(each.turn.prompt, PROMPT_CHARS), outcome_mark(each.turn.outcome)[0],
            each.turn.outcome or "",
        )
        for each in turns[-PROMPTS_MOST:]
    ]  # fmt: skip


def prompts_left_out(content: Content) -> int:
    """The number of earlier prompts that the outline does not have."""
    return max(len(_prompted(content)) - PROMPTS_MOST, 0)


def _prompted(content: Content) -> list[ListedTurn]:
    return [each for each in content.transcript.turns if each.turn.prompt and each.live is None]


def place_of(key: Key) -> str:
    """The name of an entry in addresses: its record's number, and behind a dot its part if that is not the first."""
    seq, part = key
    return f"{seq}.{part}" if part else str(seq)


def read_place(text: str) -> Key | None:
    """The entry that an address names; None if it is no such name."""
    seq, _, part = text.partition(".")
    if not (seq.isascii() and seq.isdigit() and len(seq) < 16) or (part and not (part.isascii() and part.isdigit())):
        return None
    return int(seq), int(part[:9] or 0)


def likely_lines(block: Block) -> int:
    """Estimate how many lines a block has, for the room that it takes before it is read."""
    return max(block.lines + (block.answers + block.prompts) // 90, 1)


def items_of(
    reader: Reader, content: Content, number: int, now: int, coming: Sequence[ComingSession] | None = None
) -> Iterator[PageEntry]:
    """Read a block. ``coming``: the sessions that come from it, where its own store does not know them."""
    known: Sequence[ComingSession] = content.transcript.children if coming is None else coming
    palette, subagents = Palette(), Subagents(content.located, known)
    for each in block_items(reader, content, number):
        match each:
            case TurnBegun(before=before, turn=turn):
                if before is not None:
                    yield turn_ended(before)
                yield turn_begun(before, turn, now)
            case TurnEnded(turn=turn):
                yield turn_ended(turn)
            case ShownSummary():
                head = f"{each.exchanges} exchanges summarised (@{each.first_seq}–@{each.after_seq})"
                stands_for = each.first_seq, each.after_seq
                yield PageEntry(tone="summary", head=head, html=markdown(each.summary, palette), stands_for=stands_for)
            case ShownEntry(event=model.Unknown()):
                pass
            case ShownEntry():
                for n, entry in enumerate(entries_of(content.folder, each, palette)):
                    # What comes behind a call is a question in it.
                    yield entry if n else _completed(entry, each, content, subagents)


def _completed(entry: PageEntry, shown: ShownEntry, content: Content, subagents: Subagents) -> PageEntry:
    """An entry with its images, the subagent that it started, and what it stands for."""
    event, answer = shown.event, shown.answer
    started = subagents.started_by(shown)
    holder, key = (
        (event, shown.key) if answer is None or answer.seq is None else (answer.result, (answer.seq, answer.part))
    )
    count, first = image_count(holder), content.order.seqs[0]
    return msgspec.structs.replace(
        entry,
        images=EntryImages(place_of(key), count) if count else None,
        started=None if started is None else StartedSession(started.uid, plain(started.shown_title or started.uid)),
        stands_for=(first, shown.key[0] - 1) if entry.tone == "summary" and shown.key[0] > first else None,
    )


def whole(event: Event, key: Key) -> PageEntry:
    """An entry with all that its record says."""
    words = words_of(event)
    if isinstance(event, model.ToolCall):
        text = msgspec.json.format(msgspec.json.encode(event.input), indent=2).decode()
        changes, _ = changes_of(event, Palette(), LINES_OF_RECORD)
        head = plain(words.head)
        return PageEntry(tone="call", place=place_of(key), head=head, text=plain(text), changes=changes)
    return PageEntry(tone=words.tone or "other", place=place_of(key), head=plain(words.head), text=plain(words.body))


def turn_begun(before: ListedTurn | None, listed: ListedTurn, now: int) -> PageEntry:
    """Draw the beginning of a turn; of what it shares with the one before nothing is said."""
    turn = listed.turn
    other = None if before is None else before.turn
    facts = [moment(turn.started, None if other is None else other.started, now)]
    facts += [turn.agent] if other is None or turn.agent != other.agent else []
    if turn.model and (other is None or turn.model != other.model):
        facts.append(short_model(turn.model, [turn.agent]))
    facts += ["removed"] if listed.removed is not None else ["rewound"] if listed.is_rewound else []
    return PageEntry(tone="turn", head=f"turn {listed.number}", facts=plain(" · ".join(filter(None, facts))))


def turn_ended(listed: ListedTurn) -> PageEntry:
    """Draw the end of a turn."""
    turn = listed.turn
    mark, _ = outcome_mark(turn.outcome, turn.stop_reason)
    facts = [mark, turn.outcome or "", duration(turn.duration_ms), listed.cost.known]
    return PageEntry(tone="end", facts=plain(" · ".join(filter(None, facts))), is_error=turn.outcome == "failed")


def entries_of(folder: str, shown: ShownEntry, palette: Palette) -> Iterator[PageEntry]:
    """Draw an entry, a call with what it asked."""
    event, words = shown.event, words_of(shown.event)
    place = place_of(shown.key)
    if isinstance(event, model.ToolCall):
        yield _call(folder, shown, event, palette)
        for question in questions_of(event):
            options = [f"- {' – '.join(filter(None, option))}" for option in question.options]
            yield PageEntry(tone="plan", head="Question", html=markdown("\n".join([question.words, "", *options])))
    elif isinstance(event, model.ToolResult):
        head = "" if shown.answered is None else call_words_in(shown.answered, folder)
        text, is_cut = _cut(without_terminal_codes(event.content))
        yield PageEntry(
            tone="result", place=place, head=plain(f"{event.tool_name or 'result'} {head}".strip()), text=plain(text),
            facts=plain(result_facts(event)), is_error=event.is_error, is_cut=is_cut,
        )  # fmt: skip
    elif words.tone in ("answer", "plan", "summary"):
        text, is_cut = _cut(words.body)
        head = "context compacted" if words.tone == "summary" else plain(words.head)
        yield PageEntry(tone=words.tone, head=head, html=markdown(text, palette), is_cut=is_cut, place=place)
    elif words.tone:
        text, is_cut = _cut(without_terminal_codes(words.body))
        yield PageEntry(
            tone=words.tone,
            head=plain(words.head),
            text=plain(text),
            is_cut=is_cut,
            is_error=words.tone == "error",
            place=place,
        )


def _call(folder: str, shown: ShownEntry, call: ToolCall, palette: Palette) -> PageEntry:
    answer = shown.answer
    result = None if answer is None else answer.result
    facts = [call_facts(call)]
    if answer is not None:
        facts += [result_facts(answer.result), answer.lasted]
    changes, has_more = changes_of(call, palette, LINES_CHANGED)
    body = "" if result is None or is_said_by_facts(result) else without_terminal_codes(result_body(result))
    text, is_cut = _cut(body)
    return PageEntry(
        tone="call", place=place_of(shown.key), head=plain(call.tool_name),
        text=plain(text), facts=plain(", ".join(filter(None, facts))), changes=changes,
        subject=_begun(call_words_in(call, folder), SUBJECT_CHARS),
        result="" if answer is None or answer.seq is None else str(answer.seq),
        is_error=result is not None and result.is_error, is_cut=is_cut or has_more,
    )  # fmt: skip


def _cut(text: str) -> tuple[str, bool]:
    return text[:CHARS_SHOWN], len(text) > CHARS_SHOWN


def _begun(text: str, chars: int) -> str:
    """The beginning of a text in one line."""
    line = plain(" ".join(text[: 4 * chars].split()))
    return line if len(line) <= chars else f"{line[:chars]}…"
