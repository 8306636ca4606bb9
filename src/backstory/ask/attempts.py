"""Attempts of a session: shell commands with how each ended, edits, and paths that were not there. Never commits.

What tools returned is read here and goes no further: only how a call ended, in words of ours and of the call.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any
from zlib import crc32

from msgspec import Struct

from backstory.ask import work
from backstory.derive import error_words, shell_parse
from backstory.derive.check_programs import DeedKind
from backstory.derive.checks import Check, checks_in
from backstory.derive.deeds import Deed, succeeded
from backstory.derive.essence import is_refusal
from backstory.derive.faults import NO_PATH, READ_CHARS, Fault, fault_in
from backstory.model import ToolCall, event_from_json
from backstory.store import codec, schema

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import apsw

    from backstory.ask.work import WorkTurn
    from backstory.store.codec import EventCodec


class CallEnd(StrEnum):
    """The end of a call."""

    WELL = "well"
    FAILED = "failed"
    REFUSED = "refused"
    """By a person."""
    UNKNOWN = "unknown"


class Attempt(Struct, frozen=True, kw_only=True):
    """One call. ``script``: of a shell; ``edits``: paths that it changed.

    ``path``: what another tool was given; ``is_missing``: it was not there. ``messages``: of a check that failed, a
    number for each line that says why: the same line has the same number.
    """

    session_uid: str
    turn_uid: str | None
    seq: int
    at: int | None
    ended: CallEnd
    script: str | None = None
    checks: tuple[Check, ...] = ()
    fault: Fault | None = None
    messages: frozenset[int] = frozenset()
    edits: tuple[str, ...] = ()
    path: str | None = None
    is_missing: bool = False


def of_session(db: apsw.Connection, session_id: int) -> tuple[list[WorkTurn], list[Attempt]]:
    """A session's turns, and what was tried in it and, behind that, by its subagents; each in order."""
    ids = [session_id, *work.below(db, [session_id]).get(session_id, [])]
    return work.turns_of(db, session_id), list(_attempts(db, ids))


def _attempts(db: apsw.Connection, session_ids: Sequence[int]) -> Iterator[Attempt]:
    changed = work.changed_files(db, session_ids)
    codecs: dict[int, EventCodec] = {}
    for row in db.execute(_CALLS, (schema.json_list(session_ids),)):
        session_id, uid, turn_uid, seq, part, at, data, is_error, result_id = row
        call = event_from_json(codec.unpack_event(db, codecs, data))
        if not isinstance(call, ToolCall):
            continue
        found = _Call(call)
        output = (work.output_of(db, codecs, result_id).content or "") if is_error or found.checks else ""
        ended = found.ended(is_error, output)
        yield Attempt(
            session_uid=uid, turn_uid=turn_uid, seq=seq, at=at, ended=ended,
            script=found.script,
            checks=found.checks,
            fault=fault_in(found.script, output) if found.script and ended == CallEnd.FAILED else None,
            messages=_messages(found.checks, output) if ended == CallEnd.FAILED else frozenset(),
            edits=tuple(changed.get((session_id, seq, part), ())) if ended != CallEnd.FAILED else (),
            path=found.path,
            is_missing=bool(is_error and found.path and NO_PATH.search(output, 0, READ_CHARS)),
        )  # fmt: skip


def _messages(checks: Sequence[Check], output: str) -> frozenset[int]:
    """The lines that say why checks failed, as numbers. A line of words that each failure of them has says nothing."""
    own = {word for check in checks for word in error_words.words(check.head)} | _OF_EVERY_CHECK
    told = filter(error_words.says_why, error_words.key_lines(output)) if checks else ()
    lines = set(map(error_words.normal, told))
    return frozenset(crc32(line.encode()) for line in lines if error_words.rare_words(line, 1, but=own))


_OF_EVERY_CHECK = frozenset(
    {"checks", "exited", "finished", "issue", "issues", "lint", "make", "ok", "problem", "problems", "process", "task"}
)
"""Words of the lines that close any failure."""


class _Call:
    """The subject of a call: a script and the checks in it, or the path of a file."""

    def __init__(self, call: ToolCall) -> None:
        given: dict[str, Any] = call.input if isinstance(call.input, dict) else {}
        is_shell = shell_parse.is_shell(call.tool_name, call.tool)
        self.script = shell_parse.script_in(call)
        self.checks = tuple(checks_in(self.script)) if self.script else ()
        path = given.get("file_path") or given.get("path")
        self.path = path if isinstance(path, str) and not is_shell else None

    def ended(self, is_error: int | None, output: str) -> CallEnd:
        """Return how it ended, by its result and, for a check whose exit a pipe may hide, by the last words of that."""
        if is_error and is_refusal(output):
            return CallEnd.REFUSED
        if is_error is None:
            return CallEnd.UNKNOWN
        check = Deed(kind=DeedKind.TEST, text="")
        went_well = not is_error and not (self.checks and succeeded(check, False, output) is False)
        return CallEnd.WELL if went_well else CallEnd.FAILED


_CALLS = f"""
select e.session_id, s.uid, t.uid, e.seq, e.part, e.at, e.data, c.is_error, c.result_id
from events e join sessions s on s.id = e.session_id left join turns t on t.id = e.turn_id
left join call_results c on c.call_id = e.id
where e.kind in {schema.CALLS} and t.removed is null and e.session_id in (select value from json_each(?))
order by e.session_id, e.seq, e.part
"""
