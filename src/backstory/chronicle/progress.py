"""The progress and results of work: the rule that reports share. Pure."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from backstory.bounds import counted, iso, local
from backstory.chronicle.report import Cell, Tone
from backstory.derive.check_programs import DeedKind
from backstory.derive.deeds import CHECKS
from backstory.workspace.history.sessions import UID_SHOWN, is_resumable
from backstory.workspace.history.work import below

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Sequence

    from backstory.ask.work import DoneDeed, WorkTurn
    from backstory.store.intake.derived_tables import StoredRef
    from backstory.workspace.history.sessions import ListedSession
    from backstory.workspace.history.work import HandCommits, SessionWork

RULE = """\
done: the last turn completed (where no log says how it ended: the model's answer is its end), and after the last edit
came a commit or a pull request, or nothing was edited. Or git has a commit of each file that was edited since then,
authored after its last edit: by hand, or of another session.
stuck: the last turn failed, crashed or was cancelled; or the last run of tests or the last build failed, and nothing
was edited, committed or proposed after it.
in progress: everything else.
Edits in temporary folders and in hidden folders of a home do not count, nor do calls that a person refused."""
BY_NO_SQL = """\
By no SQL: status, reason and open end (the rule above), files (of session_files those edited in the time, without
what is aside), commits, and how the last tests and the last build ended. They are read from the words of commands and
from what these returned: tool_calls has both. Commits that the session did not make are read from git."""
HASH_SHOWN = 10
LINE_CHARS = 200
NOTHING_EDITED = "the last prompt was answered, and nothing was edited"
FILES_SHOWN = 5
REFS_SHOWN = 6
NOT_COVERED = "what it edited is not known, as index.repositories does not cover it"
"""The reason that a session cannot be called done."""


def explained() -> Iterator[str]:
    """The rule, and what no SQL returns, as comments of SQL."""
    yield from (f"-- {each}".rstrip() for each in (*RULE.splitlines(), "", *BY_NO_SQL.splitlines()))
    yield ""


class Status(StrEnum):
    """The progress of work."""

    DONE = "done"
    IN_PROGRESS = "in progress"
    STUCK = "stuck"


class Progress(Struct, frozen=True, kw_only=True):
    """The progress of work, the reason for it, and what is left to do."""

    status: Status
    reason: str
    open: str | None


class LastCheck(Struct, frozen=True, kw_only=True):
    """The last run of tests, or the last build. ``ok``: None where nobody knows how it ended."""

    kind: DeedKind
    command: str
    ok: bool | None
    seq: int
    at: int | None


class Results(Struct, frozen=True, kw_only=True):
    """Results of work. ``files``: edited ones, below the project's folder; ``elsewhere``: outside of it, absolute."""

    files: tuple[str, ...]
    elsewhere: tuple[str, ...]
    commits: int
    checks: tuple[LastCheck, ...]


def results_of(work: SessionWork, since: int | None = None) -> Results:
    """Return the results of a session's work since a time in ms since 1970."""
    deeds = [each for each in work.deeds if since is None or each.at is None or each.at >= since]
    edited = dict.fromkeys(each.text for each in deeds if each.kind == DeedKind.EDIT)
    inside = {path: below(path, work.roots) if _is_absolute(path) else path for path in edited}
    return Results(
        files=tuple(dict.fromkeys(each for each in inside.values() if each)),
        elsewhere=tuple(path for path, short in inside.items() if short is None),
        commits=sum(each.kind == DeedKind.COMMIT and each.ok is True for each in deeds),
        checks=tuple(_last_checks(deeds)),
    )


def progress_of(work: SessionWork, by_hand: HandCommits) -> Progress:
    """Return the progress of a session by RULE. ``by_hand``: asks git for commits that the session did not make."""
    last = work.turns[-1]
    deeds = [each for each in work.deeds if each.ok or each.kind in CHECKS]
    if last.outcome in _WAS:
        return _progress(Status.STUCK, f"the last turn {_WAS[last.outcome]}", _last_prompt(last))
    failed = _open_failure(deeds) if work.is_covered else None
    if failed is not None:
        why = f"the last {_RUNS[failed.kind]} failed (@{failed.seq})"
        return _progress(Status.STUCK, why, f"failing: {line(failed.text)}")
    if not last.is_answered:
        return _progress(Status.IN_PROGRESS, "the last prompt was not answered", _last_prompt(last))
    if not work.is_covered:
        return _progress(Status.IN_PROGRESS, NOT_COVERED, question(last.answer))
    edit, kept = _last(deeds, (DeedKind.EDIT,)), _last(deeds, (DeedKind.COMMIT, DeedKind.PULL_REQUEST))
    if edit is None:
        return _progress(Status.DONE, NOTHING_EDITED, question(last.answer))
    if kept is not None and kept > edit:
        why = f"a {deeds[kept].kind} followed the last edit (@{deeds[kept].seq})"
        return _progress(Status.DONE, why, question(last.answer))
    edits = [each for each in deeds[(kept or 0) :] if each.kind == DeedKind.EDIT]
    if (commit := by_hand.of(work, edits)) is not None:
        why = f"{_made(*commit)}, after the last edit (@{deeds[edit].seq})"
        return _progress(Status.DONE, why, question(last.answer))
    return _progress(Status.IN_PROGRESS, f"edited and not committed since (@{deeds[edit].seq})", question(last.answer))


_WAS = {"cancelled": "was cancelled", "failed": "failed", "crashed": "crashed"}
_RUNS = {DeedKind.TEST: "run of tests", DeedKind.BUILD: "build"}


def _made(commit: str, session: str | None) -> str:
    where = "by hand" if session is None else f"in session {session[:UID_SHOWN]}"
    return f"committed {where}, {commit[:HASH_SHOWN]}"


def _progress(status: Status, reason: str, open_end: str | None) -> Progress:
    return Progress(status=status, reason=reason, open=open_end)


def _last_prompt(turn: WorkTurn) -> str:
    return f"the last prompt: {line(turn.prompt)}"


def _open_failure(deeds: Sequence[DoneDeed]) -> DoneDeed | None:
    """The last check that failed, if nothing was changed or kept after it."""
    change = _last(deeds, (DeedKind.EDIT, DeedKind.COMMIT, DeedKind.PULL_REQUEST))
    lasts = [found for kind in CHECKS if (found := _last(deeds, (kind,))) is not None]
    failed = [each for each in lasts if deeds[each].ok is False and (change is None or change < each)]
    return deeds[max(failed)] if failed else None


def _last(deeds: Sequence[DoneDeed], kinds: Container[DeedKind]) -> int | None:
    for n in range(len(deeds) - 1, -1, -1):
        if deeds[n].kind in kinds:
            return n
    return None


def _last_checks(deeds: Sequence[DoneDeed]) -> Iterable[LastCheck]:
    for kind in CHECKS:
        found = _last(deeds, (kind,))
        if found is not None:
            each = deeds[found]
            yield LastCheck(kind=kind, command=each.text, ok=each.ok, seq=each.seq, at=each.at)


def question(answer: str) -> str | None:
    """Return the question at the end of the model's answer, if there is one."""
    last = line(answer.strip().rpartition("\n")[2])
    return f"asked: {last}" if last.endswith("?") else None


def line(text: str, chars: int = LINE_CHARS) -> str:
    """A text as one line of at most so many characters; what is cut ends in ``…``."""
    whole = " ".join(text.split())
    return whole if len(whole) <= chars else f"{whole[: chars - 1]}…"


def goes_on(session: ListedSession) -> tuple[str, ...]:
    """Return the words of the command that continues a session: in its agent's own client, else in a run."""
    if session.elsewhere is None and is_resumable(session.agents, session.native_id, session.number):
        return ("backstory", "resume", session.label)
    return ("backstory", "run", "--session", session.label)


def _is_absolute(path: str) -> bool:
    return path.startswith(("/", "~", "\\")) or path[1:3] in (":/", ":\\")


def results_as_json(results: Results) -> dict[str, Any]:
    """Return results of work by the names that reports share."""
    return {
        "paths": results.files,
        "paths_elsewhere": results.elsewhere,
        "commits": results.commits,
        "checks": [
            {"kind": each.kind, "command_line": each.command, "ok": each.ok, "seq": each.seq, "at": iso(each.at)}
            for each in results.checks
        ],
    }


def ref_as_json(ref: StoredRef) -> dict[str, Any]:
    """A pull request, issue or commit; ``as_of``: when it was named first, which is how old its state is."""
    return {
        "type": ref.type, "value": ref.value, "host": ref.host, "repository": ref.repository, "seq": ref.seq,
        "as_of": iso(ref.created_at),
    }  # fmt: skip


# results of work in words ---------------------------------------------------------------------------------------------


MARKS = {
    Status.DONE: Cell("✓", Tone.GOOD),
    Status.IN_PROGRESS: Cell("…", Tone.OPEN),
    Status.STUCK: Cell("✗", Tone.BAD),
}
_REFS = {"pr": "PR", "issue": "issue", "commit": "commit"}
_HOW = {True: "passed", False: "failed", None: "ended unknown"}


def result_words(results: Results) -> Iterator[str]:
    """Yield the results of work, a few words each: files, commits, checks."""
    if results.files:
        yield f"Files: {names(results.files, FILES_SHOWN)}"
    if results.elsewhere:
        yield counted(len(results.elsewhere), "file") + " elsewhere"
    if results.commits:
        yield counted(results.commits, "commit")
    yield from map(check_words, results.checks)


def names(shown: Sequence[str], most: int) -> str:
    """The first names, and the number of the others."""
    more = f" and {len(shown) - most:,} more" if len(shown) > most else ""
    return ", ".join(shown[:most]) + more


def check_words(check: LastCheck) -> str:
    """Return the outcome of the last tests or the last build, and its record."""
    return f"{check.kind} {_HOW[check.ok]} (@{check.seq})"


def ref_words(each: StoredRef) -> str:
    """A pull request, issue or commit, with the day of which its state is."""
    name = f"#{each.value}" if each.value.isdecimal() and each.type != "commit" else each.value[:40]
    as_of = f" (as of {local(each.created_at)[:10]})" if each.created_at and each.type != "commit" else ""
    return f"{_REFS.get(each.type, each.type)} {name}{as_of}"
