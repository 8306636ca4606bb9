"""The tools, each with what it takes: the fields of a Struct are the arguments, checked, with their limits."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import msgspec
from msgspec import Meta, Struct

from backstory import times
from backstory.bounds import iso
from backstory.mcp.answer import CHARS_MAX, Answer, shortened
from backstory.mcp.record_words import event_words

if TYPE_CHECKING:
    from backstory.search.query import Excerpt
    from backstory.workspace.agent_history import AgentHistory, ReadSession

RECORD_CHARS = 2_000
"""A record of a session has at most so many characters; the one that was asked for may have four times as many."""
TURNS_SHOWN = 12
PROMPT_CHARS = 160
"""Where the prompts of a session are listed, so many of each."""
SINCE = "Only what happened since then: an ISO date, 'yesterday', '3 days', 'last week'."
SESSION = "A session, as results cite it: the start of its uid, S3, its name."

Words = Annotated[str, Meta(max_length=2_000)]


class Tool(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The family of tools. ``about``: what a model is told of one."""

    name: ClassVar[str] = ""
    about: ClassVar[str] = ""
    writes: ClassVar[bool] = False

    def answer(self, history: AgentHistory, remarks: list[str]) -> str:
        """What the tool says; ``remarks``: what is to be said behind it. Raises BackstoryError."""
        raise NotImplementedError


class SearchSessions(Tool, frozen=True, kw_only=True):
    """Full-text search, one hit a session."""

    name: ClassVar[str] = "search_sessions"
    about: ClassVar[str] = (
        "Search what was said and done in earlier coding-agent sessions: prompts, answers, commands, output. "
        'All words must match; "a phrase"; log* for a prefix. Read a hit with get_session(session, at).'
    )

    query: Annotated[str, Meta(max_length=2_000, description="Words to look for.")]
    repository: Annotated[str, Meta(max_length=300, description="Only there: owner/name, or name.")] = ""
    agent: Annotated[str, Meta(max_length=100, description="Only sessions of this agent.")] = ""
    since: Annotated[str, Meta(max_length=100, description=SINCE)] = ""
    limit: Annotated[int, Meta(ge=1, le=50, description="The most sessions.")] = 10

    def answer(self, history: AgentHistory, remarks: list[str]) -> str:
        result = history.search(
            self.query, repository=self.repository or None, agent=self.agent or None, since=moment(self.since),
            limit=self.limit,
        )  # fmt: skip
        found, answer = result.findings, Answer()
        shown = 0
        for hit in found.excerpts:
            answer.redactor.learn(hit.stored.event)
            if not answer.add(_hit_lines(hit, result.labels)):
                break
            shown += 1
        sessions = found.sessions + found.near
        more = "at least " if found.at_least else ""
        if not found.excerpts:
            remarks.insert(0, f"Nothing found for {self.query!r:.200}. Try fewer or other words.")
        elif shown < sessions or found.truncated:
            remarks.insert(
                0, f"{shown} of {more}{sessions} sessions. More: search_sessions with a higher limit (at most 50), "
                "more words, since or agent."
            )  # fmt: skip
        if found.relaxed:
            remarks.insert(0, "No session has all of these words; these have some.")
        return answer.text(remarks)


class GetSession(Tool, frozen=True, kw_only=True):
    """Records of a session around one."""

    name: ClassVar[str] = "get_session"
    about: ClassVar[str] = (
        "Read a session around a record, such as a hit of search_sessions; without `at` from its beginning, with a "
        "list of its prompts. Long records are shortened: expand has them whole."
    )

    session: Annotated[str, Meta(max_length=300, description=SESSION)]
    at: Annotated[int, Meta(ge=0, le=2**53, description="The record, N of @N; 0: the beginning.")] = 0
    before: Annotated[int, Meta(ge=0, le=200, description="So many records before it.")] = 5
    after: Annotated[int, Meta(ge=0, le=200, description="So many records after it.")] = 20
    max_chars: Annotated[int, Meta(ge=2_000, le=CHARS_MAX, description="The most characters.")] = CHARS_MAX

    def answer(self, history: AgentHistory, remarks: list[str]) -> str:
        located = history.find(self.session)
        read = history.around(located, self.at, self.before, self.after)
        label, answer = history.label(located), Answer(self.max_chars)
        answer.add_cut(head_line(read, label))
        if not self.at:
            for line in _prompt_lines(read):
                answer.add_cut(line)
        most = min(RECORD_CHARS, answer.room // 4)
        left, is_cut = None, False
        for entry in read.entries:
            words = event_words(entry.event)
            if not words:
                continue
            text = answer.shown(words)
            room = most * 4 if entry.outline.seq == self.at else most
            is_cut = is_cut or len(text) > room
            line = f"@{entry.outline.seq} {shortened(text, room)}"
            if len(line) + 1 > answer.room:
                left = entry.outline.seq
                break
            answer.add_shown(line)
        following = left or read.later
        if following is not None:
            remarks.insert(0, f"Left out: what follows. get_session(session={label!r}, at={following}, before=0)")
        if read.earlier is not None and self.at:
            remarks.insert(0, f"Left out: what came before. get_session(session={label!r}, at={read.earlier}, after=0)")
        if is_cut:
            remarks.insert(0, f"Records with […] are shortened: expand(session={label!r}, from_seq=N, to_seq=N)")
        return answer.text(remarks)


TOOLS: dict[str, type[Tool]] = {each.name: each for each in (SearchSessions, GetSession)}


def moment(text: str) -> int | None:
    """The first moment that a text means, in ms since 1970; None for ''. Raises BadTime."""
    return times.since(text, datetime.now()) if text.strip() else None


def schema(tool: type[Tool]) -> dict[str, Any]:
    """The arguments of a tool as JSON Schema."""
    found = msgspec.json.schema(tool)["$defs"][tool.__name__]
    found.pop("title", None)
    found.pop("description", None)
    return dict(found)


def _hit_lines(hit: Excerpt, labels: dict[str, str]) -> str:
    session = hit.session
    facts = [
        (iso(hit.stored.at) or session.created)[:16].replace("T", " "), ", ".join(session.agents),
        session.shown_project, session.branch or "",
    ]  # fmt: skip
    title = hit.shown.shown_title or session.shown_title or "(no prompt)"
    return (
        f"{labels[session.uid]} @{hit.stored.seq} · {' · '.join(filter(None, facts))} · {shortened(title, 120)}\n"
        f"   {hit.scope}: {hit.snippet}"
    )


def head_line(read: ReadSession, label: str) -> str:
    """A session in a line: what it is called, who worked where and when, and how long it is."""
    session = read.session
    ended = (iso(session.last_active) or "")[:16].replace("T", " ")
    facts = [
        ", ".join(session.agents), session.project_name, session.branch or "",
        f"{session.created[:16].replace('T', ' ')} to {ended}", f"{session.turns} turns", f"{session.events} events",
    ]  # fmt: skip
    return f"Session {label} · {' · '.join(filter(None, facts))} · {shortened(session.heading or '(no prompt)', 200)}"


def _prompt_lines(read: ReadSession) -> list[str]:
    turns = [each for each in read.turns if each.removed is None and each.live is None]
    shown = turns[:TURNS_SHOWN]
    lines = [
        f"  turn {each.number} @{each.turn.first_seq}: {shortened(' '.join(each.turn.prompt.split()), PROMPT_CHARS)}"
        for each in shown
    ]
    if len(turns) > len(shown):
        lines.append(f"  … and {len(turns) - len(shown)} more turns")
    return lines
