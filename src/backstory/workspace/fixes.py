"""What worked when a command or an error was met before.

No model is asked: a fix is a call that failed, the same call that succeeded later in the session, and what was changed
and run between the two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from backstory.derive.error_words import (
    command_words,
    key_lines,
    likeness,
    rare_words,
    same_command,
    says_failure,
    words,
)
from backstory.derive.essence import essence
from backstory.model import Tool, ToolResult
from backstory.workspace.entries import entries_of
from backstory.workspace.located import LocatedSession

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backstory.store import Filter, Session, Store
    from backstory.store.attempts import Attempt

LIKE_LEAST = 0.5
"""An output with less of the error in it is of another error."""
CANDIDATES_MAX = 24
"""So many calls that have words of the error are looked at, with all that they printed."""
HITS_PER_SESSION = 3
CALLS_BEHIND = 150
"""Within so many calls behind the one that failed the same one has to succeed."""
STEPS_MAX = 8
LINES_ASKED = 3
WORDS_ASKED = (6, 3)
CHANGES = (Tool.EDIT, Tool.WRITE)


class Fix(Struct, frozen=True, kw_only=True):
    """A failed call, and what came of it. ``line``: the line of its output that is most like the error.

    ``worked``: the call that then succeeded; None: none did. ``steps``: what was changed and run before that;
    ``steps_left_out``: how much more there was; ``failures``: how often the call failed the same way.
    """

    session: Session
    failed: Attempt
    line: str
    likeness: float
    worked: Attempt | None
    steps: tuple[Attempt, ...]
    steps_left_out: int
    failures: int


def find_fixes(store: Store, wanted: Filter, error: str, limit: int) -> list[Fix]:
    """Where an error or a failed command was met in the sessions that are wanted: the likeliest first, fixes before."""
    search = _Search(store, wanted, error)
    found: dict[object, Fix] = {}
    for each in search.fixes():
        # A session that was resumed or forked has a copy of it.
        key = (each.worked or each.failed).at, essence(each.failed.call)
        if key not in found or _rank(each) > _rank(found[key]):
            found[key] = each
    return sorted(found.values(), key=_rank, reverse=True)[:limit]


def _rank(fix: Fix) -> tuple[bool, float, int]:
    return fix.worked is not None, round(fix.likeness, 1), fix.failed.at or 0


class _Search:
    def __init__(self, store: Store, wanted: Filter, error: str) -> None:
        self._store, self._wanted = store, wanted
        self._lines = key_lines(error)
        self._asked = [found for each in self._lines if (found := words(each))]
        is_command = len(error.strip().splitlines()) == 1
        self._command = command_words(error.strip().removeprefix("$ ")) if is_command else frozenset[str]()

    def fixes(self) -> Iterator[Fix]:
        """Each failed call that is like the error, with what came behind it."""
        for attempt in self._candidates():
            session = self._store.session(attempt.session_id)
            located = LocatedSession(self._store, session)
            score, line = self._score(located, attempt)
            if score >= LIKE_LEAST:
                yield self._followed(located, attempt, score, line)

    def _candidates(self) -> Iterator[Attempt]:
        """Calls that have words of the error, in what they were given or printed, each once."""
        seen = set[tuple[int, int, int]]()
        for event_id in self._hits():
            attempt = self._store.attempt_of(event_id)
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

    def _score(self, located: LocatedSession, attempt: Attempt) -> tuple[float, str]:
        """How much a call that failed is like what is asked for, and the line that shows it."""
        text = _printed(located, attempt)
        if not attempt.failed and not says_failure(text):
            return 0.0, ""
        score, line = likeness(self._asked, text)
        if self._command and same_command(self._command, _command_of(attempt)):
            said = next(iter(key_lines(text)), "")
            return max(score, 1.0), line if score >= LIKE_LEAST else said
        return score, line

    def _followed(self, located: LocatedSession, attempt: Attempt, score: float, line: str) -> Fix:
        steps: list[Attempt] = []
        failed, failures = attempt, 1
        asked = [words(line)] if line else self._asked
        worked = None
        for each in self._store.attempts(located.session, attempt.seq, CALLS_BEHIND):
            if not _is_same(attempt, each):
                steps += [each] if _matters(each) else []
                continue
            text = _printed(located, each)
            if not each.failed and not says_failure(text) and each.result is not None:
                worked = each
                break
            if likeness(asked, text)[0] >= LIKE_LEAST:
                failed, failures, steps = each, failures + 1, []
        shown = steps[-STEPS_MAX:] if worked is not None else []
        return Fix(
            session=located.session, failed=failed, line=line, likeness=score, worked=worked, steps=tuple(shown),
            steps_left_out=len(steps) - len(shown) if worked is not None else 0, failures=failures,
        )  # fmt: skip


def _matters(attempt: Attempt) -> bool:
    """Whether a call may have been part of a fix: it changed a file or ran something, and did not fail."""
    return attempt.call.tool in (*CHANGES, Tool.SHELL) and not attempt.failed


def _is_same(one: Attempt, other: Attempt) -> bool:
    """Whether a call is tried again: the same command; of other tools the same tool on the same file."""
    if one.call.tool != other.call.tool:
        return False
    if one.call.tool == Tool.SHELL:
        return same_command(_command_of(one), _command_of(other))
    return one.call.tool_name == other.call.tool_name and one.call.file_path == other.call.file_path


def _command_of(attempt: Attempt) -> frozenset[str]:
    return command_words(essence(attempt.call))


def _printed(located: LocatedSession, attempt: Attempt) -> str:
    """All that a call returned."""
    if attempt.result_seq is None or attempt.result is None:
        return ""
    of_call = attempt.result.tool_use_id
    for entry in entries_of(located, [attempt.result_seq], "full"):
        if isinstance(entry.event, ToolResult) and entry.event.tool_use_id == of_call:
            return entry.event.content
    return attempt.result.content
