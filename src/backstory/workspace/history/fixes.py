"""Finds the steps that worked when a command or an error was met before.

No model is asked: a fix is a call that failed, the same call that succeeded later in the session, and what was changed
and run between the two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from backstory.ask import calls_made
from backstory.derive.error_words import (
    Alike,
    CommandWords,
    alike,
    command_words,
    key_lines,
    only_looks,
    rare_words,
    same_command,
    says_failure,
    words,
)
from backstory.derive.essence import essence, is_refusal
from backstory.export.full_form import FullForms
from backstory.model import Tool, ToolResult
from backstory.store.tables import events

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backstory.ask.calls_made import CallMade
    from backstory.store import Filter, Session, Store

LIKE_LEAST = 0.5
"""An output with less of the error in it is of another error."""
CANDIDATES_MAX = 24
"""The most calls that have words of the error that are looked at, with all that they printed."""
HITS_PER_SESSION = 3
CALLS_BEHIND = 150
"""Within so many calls behind the one that failed the same one has to succeed."""
CALLS_AT_ONCE = 30
STEPS_MAX = 8
NEXT_MAX = 3
"""The number of calls shown that came next, if nothing worked."""
NOT_RUN = ("Sibling tool call errored", "<tool_use_error>Sibling tool call")
"""First words of the result of a call that was not made because another one failed."""
LINES_ASKED = 3
WORDS_ASKED = (6, 3)
CHANGES = (Tool.EDIT, Tool.WRITE)


class Fix(Struct, frozen=True, kw_only=True):
    """A failed call, and what came of it. ``line``: the line of its output that is most like the error.

    ``worked``: the call that then succeeded; None: none did. ``steps``: what was changed and run before that;
    ``steps_left_out``: how much more there was; ``failures``: how often the call failed the same way.
    """

    session: Session
    failed: CallMade
    line: str
    likeness: float
    worked: CallMade | None
    steps: tuple[CallMade, ...]
    steps_left_out: int
    failures: int


def find_fixes(store: Store, wanted: Filter, error: str, limit: int) -> list[Fix]:
    """Find places of an error or a failed command in the wanted sessions: the likeliest first, fixes before."""
    kept, seen = list[Fix](), set[object]()
    for each in sorted(_Search(store, wanted, error).fixes(), key=_rank, reverse=True):
        # A session that was resumed or forked has a copy of it.
        ends = {(part.at, essence(part.call)) for part in (each.failed, each.worked) if part is not None}
        if not ends & seen:
            kept.append(each)
        seen |= ends
    return kept[:limit]


def _rank(fix: Fix) -> tuple[bool, float, int]:
    return fix.worked is not None, round(fix.likeness, 2), fix.failed.at or 0


class _Failed(Struct, frozen=True):
    """A call that failed, and how like the error it is."""

    attempt: CallMade
    alike: Alike
    is_same_command: bool


class _Search:
    def __init__(self, store: Store, wanted: Filter, error: str) -> None:
        self._store, self._wanted = store, wanted
        self._forms = FullForms(store)
        self._lines = key_lines(error)
        self._asked = [found for each in self._lines if (found := words(each))]
        is_command = len(error.strip().splitlines()) == 1
        self._command = command_words(error.strip().removeprefix("$ ")) if is_command else None

    def fixes(self) -> Iterator[Fix]:
        """Each failed call that is like the error, with what came behind it."""
        failed = list(self._failed())
        # A line that every failure of a tool has says less than one that few have.
        met = [sum(each.alike.shares[n] > LIKE_LEAST for each in failed) for n in range(len(self._asked))]
        weights = [1 / max(count, 1) for count in met]
        for each in failed:
            score = 1.0 if each.is_same_command else each.alike.score(weights)
            if score >= LIKE_LEAST:
                yield self._followed(each, score)

    def _failed(self) -> Iterator[_Failed]:
        for attempt in self._candidates():
            text = self._printed(attempt)
            if not _has_failed(attempt, text):
                continue
            is_same = self._command is not None and same_command(self._command, _command_of(attempt))
            found = alike(self._asked, text)
            line = next(iter(key_lines(text)), "") if is_same else found.line
            yield _Failed(attempt, Alike(found.shares, line), is_same)

    def _candidates(self) -> Iterator[CallMade]:
        """Calls that have words of the error, in what they were given or printed, each once."""
        seen = set[tuple[int, int, int]]()
        for event_id in self._hits():
            attempt = self._store.ask(calls_made.of_event, event_id)
            if attempt is None or attempt.result is None:
                continue
            if attempt.call.tool != Tool.SHELL and not attempt.failed:
                continue
            place = attempt.session_id, attempt.seq, attempt.part
            if place not in seen:
                seen.add(place)
                yield attempt
            if len(seen) >= CANDIDATES_MAX:
                return

    def _hits(self) -> Iterator[int]:
        for count in WORDS_ASKED:
            for line in self._lines[:LINES_ASKED]:
                if asked := rare_words(line, count):
                    found = self._store.search(
                        " ".join(asked), self._wanted, limit=CANDIDATES_MAX, hits_per_session=HITS_PER_SESSION,
                        near=False,
                    )  # fmt: skip
                    yield from (hit.event_id for hit in found.hits)

    def _printed(self, attempt: CallMade) -> str:
        """All that a call returned."""
        if attempt.result_seq is None or attempt.result is None:
            return ""
        of_call = attempt.result.tool_use_id
        for stored in self._store.ask(events.of_records, attempt.session_id, [attempt.result_seq]):
            if isinstance(stored.event, ToolResult) and stored.event.tool_use_id == of_call:
                full = self._forms.expand(stored)
                return full.content if isinstance(full, ToolResult) else stored.event.content
        return attempt.result.content

    def _behind(self, attempt: CallMade) -> Iterator[CallMade]:
        """The calls behind one in its session, read as they are asked for."""
        after, left = attempt.seq, CALLS_BEHIND
        while left > 0:
            found = self._store.ask(calls_made.of_session, attempt.session_id, after, min(CALLS_AT_ONCE, left))
            yield from found
            if len(found) < CALLS_AT_ONCE:
                return
            after, left = found[-1].seq, left - len(found)

    def _followed(self, found: _Failed, score: float) -> Fix:
        steps: list[CallMade] = []
        attempt, line = found.attempt, found.alike.line
        failed, failures = attempt, 1
        asked = [words(line)] if line else self._asked
        worked = None
        for each in self._behind(attempt):
            if not _is_same(attempt, each):
                steps += [each] if _matters(attempt, each) else []
                continue
            text = self._printed(each)
            if each.result is not None and not each.failed and not says_failure(text):
                worked = each
                break
            if alike(asked, text).score() >= LIKE_LEAST:
                failed, failures, steps = each, failures + 1, []
        # Without a success: what was tried instead.
        shown = steps[-STEPS_MAX:] if worked is not None else steps[:NEXT_MAX]
        session = self._store.session(attempt.session_id)
        return Fix(
            session=session, failed=failed, line=line, likeness=score, worked=worked, steps=tuple(shown),
            steps_left_out=len(steps) - len(shown), failures=failures,
        )  # fmt: skip


def _has_failed(attempt: CallMade, text: str) -> bool:
    """Return True if a call failed by itself: one that a person refused did not."""
    return (attempt.failed and not text.startswith(NOT_RUN) and not is_refusal(text)) or says_failure(text)


def _matters(failed: CallMade, attempt: CallMade) -> bool:
    """Return True if a call may have been part of a fix: it changed a file or ran something that does more than look.

    Of a tool that works on a file also a look into that file.
    """
    if attempt.failed:
        return False
    if attempt.call.tool == Tool.SHELL:
        return not only_looks(essence(attempt.call))
    if attempt.call.tool == Tool.READ:
        return failed.call.tool in CHANGES and attempt.call.file_path == failed.call.file_path
    return attempt.call.tool in CHANGES


def _is_same(one: CallMade, other: CallMade) -> bool:
    """Return True if a call is tried again: the same command; of other tools the same tool on the same file."""
    if one.call.tool != other.call.tool:
        return False
    if one.call.tool == Tool.SHELL:
        return same_command(_command_of(one), _command_of(other))
    return one.call.tool_name == other.call.tool_name and one.call.file_path == other.call.file_path


def _command_of(attempt: CallMade) -> CommandWords:
    return command_words(essence(attempt.call))
