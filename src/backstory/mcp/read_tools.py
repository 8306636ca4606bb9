"""The tools that read one session: around a record, and whole records."""

from __future__ import annotations

from itertools import starmap
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from msgspec import Meta
from msgspec.structs import replace

from backstory import model
from backstory.chronicle.report import Report, outline_lines
from backstory.conversation.pairing import with_interruptions
from backstory.derive.essence import (
    changed_lines,
    essence,
    result_body,
    result_facts,
    without_terminal_codes,
    words_of,
)
from backstory.errors import RecordNotFound
from backstory.mcp.answer import (
    CHARS_MAX,
    CUT,
    NUMBER_MAX,
    SESSION,
    Answered,
    FilteredTool,
    McpTool,
    ToolAnswer,
    in_scope,
    minute,
    without_asking,
)
from backstory.workspace import questions
from backstory.workspace.history.entries import with_event

if TYPE_CHECKING:
    from backstory.model import Event
    from backstory.workspace.history.agent_history import AgentHistory, ReadSession

RECORD_CHARS = 2_000
"""Most characters of a session's record; the one that was asked for may have four times as many."""
SESSION_CHARS = 8_000
"""The characters of a session's answer, unless more are asked for."""
TURNS_SHOWN = 12
PROMPT_CHARS = 160
"""Most characters of each prompt in a list of a session's prompts."""
RECORDS_MAX = 400
"""The most records that are looked at for one answer."""
OVERLAP_CHARS = 4_096
"""The most around a piece of a long text that is looked at for secrets that its edges may cut."""


class GetSession(McpTool, frozen=True, kw_only=True):
    """Records of a session around one."""

    name: ClassVar[str] = "get_session"
    about: ClassVar[str] = (
        "Read a session around a record, such as a hit of search_sessions; without `at` from its beginning, with a "
        "list of its prompts. Long records are shortened: expand has them whole."
    )

    session: Annotated[str, Meta(max_length=300, description=SESSION)]
    at: Annotated[int, Meta(ge=0, le=NUMBER_MAX, description="The record, N of @N; 0: the beginning.")] = 0
    before: Annotated[int, Meta(ge=0, le=200, description="So many records before it.")] = 5
    after: Annotated[int, Meta(ge=0, le=200, description="So many records after it.")] = 20
    max_chars: Annotated[int, Meta(ge=2_000, le=CHARS_MAX, description="The most characters.")] = SESSION_CHARS

    def answer(self, history: AgentHistory, remarks: list[str]) -> Answered:
        read = history.around(history.find(self.session), self.at, self.before, self.after)
        label, answer = history.label(read.located), ToolAnswer(self.max_chars, masks=history.masks)
        head = answer.shown(_head_line(read, label, answer))
        answer.add_field("head", head, head)
        if not self.at:
            prompts = [answer.shown(each) for each in _prompt_lines(read, answer)]
            answer.add_field("prompts", [each.strip() for each in prompts], "\n".join(prompts))
        left_from, is_cut = self._add_records(read, answer)
        said = []
        if is_cut:
            said.append(f"Records with […] are shortened. Whole: expand(session={label!r}, from_seq=N, to_seq=N)")
        if read.earlier is not None and self.at:
            said.append(f"Left out: what came before. get_session(session={label!r}, at={read.earlier}, after=0)")
        if (following := left_from or read.later) is not None:
            said.append(f"Left out: what follows. get_session(session={label!r}, at={following}, before=0)")
        return answer.answered([*said, *remarks])

    def _add_records(self, read: ReadSession, answer: ToolAnswer) -> tuple[int | None, bool]:
        """Add records while there is room; the first that has none, and whether any was shortened.

        What is asked for comes before what stands around it, where not all of it fits.
        """
        most, is_cut = min(RECORD_CHARS, answer.room // 5), False
        lines = list[tuple[int, str]]()

        def cost(seq: int, text: str) -> int:
            return answer.cost(_record(seq, text), f"@{seq} {text}")

        for entry in with_interruptions(read.entries, lambda each: each.event, with_event):
            if words := event_words(entry.event):
                room = most * 4 if entry.outline.seq == self.at else most
                text = answer.short(words, room)
                is_cut = is_cut or (CUT in text and CUT not in words)
                lines.append((entry.outline.seq, text))
        earlier = [each for each in lines if each[0] < self.at]
        # So much of the room is for what came before.
        while earlier and sum(starmap(cost, earlier)) > answer.room // 3:
            earlier.pop(0)
            is_cut = True
        for seq, text in [*earlier, *(each for each in lines if each[0] >= self.at)]:
            if not answer.add_item("records", _record(seq, text), f"@{seq} {text}"):
                return seq, is_cut
        return None, is_cut


def _record(seq: int, words: str) -> dict[str, Any]:
    return {"seq": seq, "words": words}


class Expand(McpTool, frozen=True, kw_only=True):
    """Records in full."""

    name: ClassVar[str] = "expand"
    about: ClassVar[str] = (
        "Records of a session in full, with the model's thinking and whole tool output, from one number to another."
    )

    session: Annotated[str, Meta(max_length=300, description=SESSION)]
    from_seq: Annotated[int, Meta(ge=0, le=NUMBER_MAX, description="The first record, N of @N.")]
    to_seq: Annotated[int, Meta(ge=0, le=NUMBER_MAX, description="The last record.")]
    offset: Annotated[
        int, Meta(ge=0, le=NUMBER_MAX, description="So many characters of the first record are passed over.")
    ] = 0

    def answer(self, history: AgentHistory, remarks: list[str]) -> Answered:
        located = history.find(self.session)
        seqs = history.seqs(located, self.from_seq, self.to_seq, RECORDS_MAX + 1)
        if not seqs:
            raise RecordNotFound(self.from_seq)
        label, answer = history.label(located), ToolAnswer(masks=history.masks)
        left, offset = seqs[RECORDS_MAX] if len(seqs) > RECORDS_MAX else None, self.offset
        for seq in seqs[:RECORDS_MAX]:
            words = [each for entry in history.entries(located, [seq], "full") if (each := event_words(entry.event))]
            text = "\n".join(words) or "(nothing that is shown)"
            rest = _add_piece(answer, seq, text, offset)
            if rest is not None:
                left, offset = seq, rest
                break
            offset = 0
        said = []
        if left is not None:
            behind = f", offset={offset}" if offset else ""
            said.append(
                f"Left out: what follows. expand(session={label!r}, from_seq={left}, to_seq={self.to_seq}{behind})"
            )
        return answer.answered([*said, *remarks])


class SumUp(McpTool, frozen=True, kw_only=True):
    """A session in short."""

    name: ClassVar[str] = "recap"
    about: ClassVar[str] = "Sum up a session: what was asked and changed, how it ended, what is open."

    session: Annotated[str, Meta(max_length=300, description=SESSION)]

    def answer(self, history: AgentHistory, remarks: list[str]) -> Answered:
        from backstory.chronicle import recap

        found = recap.recap(history.reader, history.find(self.session))
        # A subagent that worked in another project is of that one's scope.
        seen = tuple(each for each in found.subagents if history.sees(each.uid))
        return _drawn(recap.report(replace(found, subagents=seen)), history, SESSION_CHARS, remarks)


class Sums(FilteredTool, frozen=True, kw_only=True):
    """Sums of what sessions used and cost."""

    name: ClassVar[str] = "stats"
    about: ClassVar[str] = "Count sessions, turns, tokens, cost and time worked. Filters are those of search_sessions."
    filters: ClassVar[tuple[questions.Field, ...]] = tuple(questions.fields())

    by: Annotated[
        Literal["", "day", "project", "model", "agent", "branch", "tool"], Meta(description="A line for each.")
    ] = ""

    def answer(self, history: AgentHistory, remarks: list[str]) -> Answered:
        from backstory.chronicle import cost

        said, wanted = list[str](), self.wanted()
        if self.by == "tool":
            calls = history.tool_stats(wanted)
            section, is_empty = cost.tools_report(calls), not calls.tools
        else:
            sums = history.stats(wanted, self.by or None)
            section, is_empty = cost.stats_report(sums), not sums.total.sessions
        without_asking(history, said)
        if is_empty:
            return ToolAnswer().answered([f"Nothing to count{in_scope(history)}.", *said, *remarks])
        return _drawn(
            Report(title=f"Sums{in_scope(history)}", sections=(section,)), history, SESSION_CHARS, [*said, *remarks]
        )


def _drawn(report: Report, history: AgentHistory, most: int, remarks: list[str]) -> Answered:
    """Return a report as an outline, as much of it as there is room for."""
    answer, lines = ToolAnswer(most, masks=history.masks), [*outline_lines(report)]
    shown = answer.add_each(lines)
    left = [f"Left out: {len(lines) - shown} more lines."] if shown < len(lines) else []
    return answer.answered([*left, *remarks])


def _add_piece(answer: ToolAnswer, seq: int, text: str, offset: int) -> int | None:
    """Add a record's text from an offset on; where not all of it fits, the offset at which it goes on."""
    head = f"@{seq} " if not offset else f"@{seq} (from character {offset:,} of {len(text):,}) "
    room = answer.room - len(head) - 1
    rest = text[offset:]
    # A secret that the edge cuts is known by the part that stands in the neighbourhood.
    answer.redactor.learn(text[max(offset - OVERLAP_CHARS, 0) : offset + room + OVERLAP_CHARS])
    piece = answer.shown(rest[: room + 1])
    if len(rest) <= room and len(piece) <= room:
        answer.add_shown(head + piece)
        return None
    if room < min(RECORD_CHARS, len(rest)):
        return offset
    end = _piece_end(rest, room)
    shown = answer.shown(rest[:end])
    while len(shown) > room:
        end = _piece_end(rest, end - (len(shown) - room) - 1)
        shown = answer.shown(rest[:end])
    answer.add_shown(head + shown)
    return offset + end


def _piece_end(text: str, most: int) -> int:
    """Return the end of a piece of text: after a line or a word, if one ends in its last part."""
    for sign in ("\n", " "):
        at = text.rfind(sign, most - most // 4, most)
        if at > 0:
            return at + 1
    return max(most, 1)


def _head_line(read: ReadSession, label: str, answer: ToolAnswer) -> str:
    """A session in a line: what it is called, who worked where and when, and how long it is."""
    session = read.session
    facts = [
        ", ".join(session.agents), session.project_name, session.branch or "",
        f"{session.created[:16].replace('T', ' ')} to {minute(session.last_active)}", _turns(session.turns),
        f"{session.events} events", session.pruned_words,
    ]  # fmt: skip
    title = answer.begun(session.heading or "(no prompt)", PROMPT_CHARS)
    return f"Session {label} · {' · '.join(filter(None, facts))} · {title}"


def _prompt_lines(read: ReadSession, answer: ToolAnswer) -> list[str]:
    turns = [each for each in read.turns if each.removed is None and each.live is None]
    lines = [
        f"  turn {each.number} @{each.turn.first_seq}: {answer.begun(each.turn.prompt, PROMPT_CHARS)}"
        for each in turns[:TURNS_SHOWN]
    ]
    if len(turns) > len(lines):
        lines.append(f"  … and {len(turns) - len(lines)} more turns")
    return lines


def _turns(count: int) -> str:
    return "1 turn" if count == 1 else f"{count:,} turns"


# record words ---------------------------------------------------------------------------------------------------------
# An event of history as words: who said or did what, with what came of it.


def event_words(event: Event) -> str:
    """Return an event's text, after a word for its kind; '' if a reader learns nothing from it.

    >>> event_words(model.UserMessage(content="fix it"))
    'prompt: fix it'
    """
    if isinstance(event, model.ToolCall):
        return _call(event)
    if isinstance(event, model.ToolResult):
        return _result(event)
    words = words_of(event)
    told = {"summary": "summary of what came before", "retry": "", "other": "", "": ""}.get(words.tone, words.tone)
    text = without_terminal_codes(words.body).strip() if told else ""
    return f"{f'{told} {words.head}'.rstrip()}: {text}" if text else words.head if told == "command" else ""


def _call(call: model.ToolCall) -> str:
    changed = "".join(f"\n{sign or '#'} {line}" for sign, line in changed_lines(call))
    return f"call {call.tool_name}: {without_terminal_codes(essence(call))}{changed}".rstrip(": ")


def _result(result: model.ToolResult) -> str:
    facts = result_facts(result)
    facts = f" ({facts})" if facts and len(facts) < 40 else ""
    return f"result{facts}: {without_terminal_codes(result_body(result)).strip()}".rstrip(": ")
