"""The tools that look through all sessions: for words, for a file, for an error that was met before."""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from msgspec import Meta, Struct

from backstory.derive.essence import changed_lines, essence
from backstory.mcp.answer import (
    CHARS_MAX,
    Answered,
    FilteredTool,
    McpTool,
    ToolAnswer,
    in_scope,
    minute,
    without_asking,
)
from backstory.model import Tool as ToolKind
from backstory.workspace import questions

if TYPE_CHECKING:
    from backstory.ask.calls_made import CallMade, TouchingCall
    from backstory.search.query import Excerpt
    from backstory.store import Session
    from backstory.workspace.history.agent_history import AgentHistory
    from backstory.workspace.history.fixes import Fix

SEARCH_CHARS = 1_600
"""The characters of a search's answer, unless more are asked for: the best hits are first."""
HIT_TITLE_CHARS = 70
CHANGES_SHOWN = 6
COMMAND_CHARS = 300
TITLE_CHARS = 120
PROMPT_CHARS = 200
LINE_CHARS = 300
RECORDS_SHOWN = 6


class SearchSessions(FilteredTool, frozen=True, kw_only=True):
    """Full-text search, one hit a session."""

    name: ClassVar[str] = "search_sessions"
    about: ClassVar[str] = (
        "Search what was said and done in earlier coding-agent sessions: prompts, answers, commands, output. "
        'All words must match; "a phrase"; log* for a prefix. Read a hit with get_session(session, at).'
    )
    filters: ClassVar[tuple[questions.Field, ...]] = tuple(questions.fields(of_events=True))
    explains_filters: ClassVar[bool] = True

    query: Annotated[str, Meta(max_length=2_000, description="Words to look for.")]
    limit: Annotated[int, Meta(ge=1, le=50, description="The most sessions.")] = 10
    max_chars: Annotated[int, Meta(ge=SEARCH_CHARS, le=CHARS_MAX, description="The most characters.")] = SEARCH_CHARS

    def answer(self, history: AgentHistory, remarks: list[str]) -> Answered:
        result = history.search(self.query, self.wanted(), self.limit)
        found, answer, said = result.findings, ToolAnswer(self.max_chars, masks=history.masks), list[str]()
        hits = (
            _hit(each, result.labels, answer, history.excerpt(each, self.query, answer.redactor.text))
            for each in found.excerpts
        )
        shown = sum(takewhile(bool, (answer.add_item("hits", each, _hit_lines(each)) for each in hits)))
        if found.relaxed and shown:
            said.append("No session has all of these words; these have some.")
        sessions = found.sessions + found.near
        if result.missing_store is not None:
            said.append("Nothing was imported yet. The person can do that: backstory ingest")
        elif not shown:
            said.append(_why_none(history, self.query))
        elif shown < sessions or found.truncated:
            said.append(
                f"Left out: {shown} of {'at least ' if found.at_least else ''}{sessions} sessions are shown. "
                f"{_wider(self, shown)} more words, since or agent."
            )
        if self.only.keys() & {"repo", "project"} and history.scope.is_here:
            said.append(_only_here(history))
        said += history.left_out(result)
        without_asking(history, said)
        return answer.answered([*said, *remarks])


class FileHistory(McpTool, frozen=True, kw_only=True):
    """The sessions that touched a file."""

    name: ClassVar[str] = "file_history"
    about: ClassVar[str] = (
        "Which sessions read or changed a file or folder, the newest first, with the records of the changes and the "
        "prompt that led to them."
    )

    path: Annotated[str, Meta(min_length=1, max_length=2_000, description="Absolute, or the end of a path; * for any.")]
    limit: Annotated[int, Meta(ge=1, le=50, description="The most sessions.")] = 10

    def answer(self, history: AgentHistory, remarks: list[str]) -> Answered:
        by_session: dict[int, list[TouchingCall]] = {}
        for touch in history.touches(self.path):
            by_session.setdefault(touch.session_id, []).append(touch)
        sessions = history.sessions(list(by_session)[: self.limit])
        labels = history.labels([each.uid for each in sessions.values()])
        answer = ToolAnswer(masks=history.masks)
        found = ((sessions[each], by_session[each]) for each in list(by_session)[: self.limit])
        shown = answer.add_each(_touch_lines(each, touches, labels[each.uid], answer) for each, touches in found)
        said = []
        if not by_session:
            said.append(f"No session touched {self.path!r:.200}{in_scope(history)}.")
        elif shown < len(by_session):
            said.append(
                f"Left out: {shown} of {len(by_session)} sessions are shown. file_history(path={self.path!r:.200}, "
                f"limit={min(len(by_session), 50)})"
            )
        without_asking(history, said)
        return answer.answered([*said, *remarks])


class FindFix(McpTool, frozen=True, kw_only=True):
    """The remedy that worked when an error was met before."""

    name: ClassVar[str] = "find_fix"
    about: ClassVar[str] = (
        "This command or error was met before: what worked. Give a failing command, or the lines of its output that "
        "say what went wrong. Returns the earlier failure, what was changed after it, and the call that succeeded."
    )

    error: Annotated[str, Meta(min_length=1, max_length=20_000, description="A command, or what it printed.")]
    limit: Annotated[int, Meta(ge=1, le=10, description="The most answers.")] = 4

    def answer(self, history: AgentHistory, remarks: list[str]) -> Answered:
        fixes = history.fixes(self.error, self.limit)
        labels = history.labels([each.session.uid for each in fixes])
        answer = ToolAnswer(masks=history.masks)
        shown = answer.add_each(_fix_lines(each, _Cited(labels[each.session.uid], answer)) for each in fixes)
        said = []
        if not fixes:
            said.append(
                f"No earlier failure like this was found{in_scope(history)}. "
                "search_sessions(query) finds single words of it."
            )
        elif shown < len(fixes):
            reads = [f"get_session(session={labels[f.session.uid]!r}, at={f.failed.seq})" for f in fixes[shown:]]
            said.append(f"Left out: {len(reads)} more. {', '.join(reads)}")
        without_asking(history, said)
        return answer.answered([*said, *remarks])


def _wider(asked: SearchSessions, shown: int) -> str:
    """Name the argument that shows more: the limit that was reached, or the characters."""
    if shown >= asked.limit:
        return "search_sessions with a higher limit (at most 50),"
    return f"search_sessions with max_chars={min(asked.max_chars * 4, CHARS_MAX)},"


def _why_none(history: AgentHistory, query: str) -> str:
    """Say that nothing was found; where the scope holds nothing at all, how many sessions were not looked at."""
    if history.scope.is_here:
        here, elsewhere = history.counted()
        if not here:
            return (
                f"There is no session of {history.scope.name}; {elsewhere:,} of other places were not looked at. "
                "The person can widen it: backstory config set mcp.scope all"
            )
    from backstory.workspace.history.searching import nothing_found

    return nothing_found(query)


def _only_here(history: AgentHistory) -> str:
    return (
        f"This server answers from the sessions of {history.scope.name} alone. "
        "The person can widen it: backstory config set mcp.scope all"
    )


def _hit(hit: Excerpt, labels: dict[str, str], answer: ToolAnswer, excerpt: str) -> dict[str, Any]:
    """A hit as fields that may be shown. Few, as their names take room of the hits."""
    session = hit.session
    facts = [
        minute(hit.stored.at) or session.created[:16].replace("T", " "), ", ".join(session.agents),
        session.shown_project, session.branch or "", session.pruned_fact,
        # Its own title: the session that it counts for may be of another repository.
        answer.begun(session.shown_title or "(no prompt)", HIT_TITLE_CHARS),
    ]  # fmt: skip
    return {
        "label": labels[session.uid],
        "seq": hit.stored.seq,
        "from": answer.shown(" · ".join(filter(None, facts))),
        "text": answer.shown(f"{hit.file or hit.scope}: {excerpt}"),
    }


def _hit_lines(hit: dict[str, Any]) -> str:
    return f"{hit['label']} @{hit['seq']} · {hit['from']}\n   {hit['text']}"


def _session_words(session: Session, label: str, answer: ToolAnswer) -> str:
    facts = [", ".join(session.agents), session.shown_project, session.branch or "", session.pruned_fact]
    title = answer.begun(session.shown_title or "(no prompt)", TITLE_CHARS)
    return f"{label} · {' · '.join(filter(None, facts))} · {title}"


def _touch_lines(session: Session, touches: list[TouchingCall], label: str, answer: ToolAnswer) -> str:
    changes = [each for each in touches if each.action != "read"]
    lines = [f"{minute(touches[0].at)} {_session_words(session, label, answer)}"]
    for path in dict.fromkeys(each.path for each in touches):
        of_path = [each for each in touches if each.path == path]
        done = [f"{each.action} @{each.seq}" for each in of_path if each.action != "read"][::-1]
        reads = [f"@{each.seq}" for each in of_path if each.action == "read"][::-1]
        if len(lines) > RECORDS_SHOWN:
            lines.append("   … and more files")
            break
        parts = [_some(done)] if done else []
        if reads:
            parts.append(f"read {_some(reads)}")
        lines.append(f"   {path}: {'; '.join(parts)}")
    first = (changes or touches)[-1]
    if first.prompt:
        lines.append(f"   asked: {answer.begun(first.prompt, PROMPT_CHARS)}")
    return "\n".join(lines)


def _some(words: list[str]) -> str:
    more = f" and {len(words) - RECORDS_SHOWN} more" if len(words) > RECORDS_SHOWN else ""
    return ", ".join(words[:RECORDS_SHOWN]) + more


class _Cited(Struct, frozen=True):
    """The citations of one session's records."""

    label: str
    answer: ToolAnswer

    def at(self, attempt: CallMade) -> str:
        """A call's record."""
        return f"{self.label} @{attempt.seq}"


def _fix_lines(fix: Fix, cited: _Cited) -> str:
    times = f", {fix.failures} times" if fix.failures > 1 else ""
    lines = [
        f"{minute(fix.failed.at)} {_session_words(fix.session, cited.label, cited.answer)}",
        f"  failed{times}: {cited.at(fix.failed)} {_named(fix.failed, cited)}",
    ]
    if fix.line:
        lines.append(f"    {cited.answer.short(fix.line, LINE_CHARS)}")
    if fix.worked is None:
        came_next = "; what came next:" if fix.steps else ", and nothing came after it."
        lines.append(f"  the same call was not seen to succeed later in that session{came_next}")
        lines += [line for step in fix.steps for line in _step_lines(step, cited)]
    else:
        if fix.steps_left_out:
            lines.append(f"  … {fix.steps_left_out} earlier steps")
        lines += [line for step in fix.steps for line in _step_lines(step, cited)]
        lines.append(f"  worked: {cited.at(fix.worked)} {_named(fix.worked, cited)}")
    lines.append(f"  read: get_session(session={cited.label!r}, at={fix.failed.seq})")
    return "\n".join(lines)


def _step_lines(step: CallMade, cited: _Cited) -> list[str]:
    is_change = step.call.tool in (ToolKind.EDIT, ToolKind.WRITE)
    done = "changed" if is_change else "read" if step.call.tool == ToolKind.READ else "ran"
    lines = [f"  {done}: {cited.at(step)} {_named(step, cited)}"]
    changed = list(changed_lines(step.call)) if is_change else []
    lines += [f"    {sign or '#'} {cited.answer.short(line, LINE_CHARS)}" for sign, line in changed[:CHANGES_SHOWN]]
    if len(changed) > CHANGES_SHOWN:
        lines.append(f"    … and {len(changed) - CHANGES_SHOWN} more lines")
    return lines


def _named(attempt: CallMade, cited: _Cited) -> str:
    command = " ".join(essence(attempt.call).split())
    return f"{attempt.call.tool_name}: {cited.answer.short(command, COMMAND_CHARS)}"
