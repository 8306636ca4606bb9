"""The same mistake in several sessions: commands that cannot work here, and paths that are not there. Pure."""

from __future__ import annotations

from collections import Counter
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from backstory.ask.attempts import CallEnd
from backstory.chronicle.friction.findings import FrictionFinding, Rule, several, tried_at
from backstory.derive.checks import head_of
from backstory.derive.faults import FaultKind
from backstory.derive.shell_parse import simple_commands

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from backstory.ask.attempts import Attempt
    from backstory.chronicle.friction.findings import FrictionEvidence
    from backstory.derive.faults import Fault
    from backstory.workspace.history.work import SessionAttempts

SESSIONS_MIN = 2
SESSIONS_MIN_WITHOUT = 3
"""Least number of sessions for a path that was looked for and that no session found elsewhere."""
LOOKED_AHEAD = 8
LONG_MIN = 2
RULE = f"""\
mistake: in {SESSIONS_MIN} sessions or more the same command failed because there is no such program, option or task,
and has not worked since; the word that is wrong stands in the command. If another check of the same kind passed next,
twice, within {LOOKED_AHEAD} calls and without an edit in between, that is proposed instead; where a module of Python is
missing, only then. Or: a check never passed, and in {SESSIONS_MIN} sessions or more another one of its kind did
next, without an edit in between. Or: in {SESSIONS_MIN} sessions or more a command failed with a long option each time,
alone in its script and with no other option that never worked, and without that option it went well.
missing path: in {SESSIONS_MIN} sessions or more a tool was given the same path below the repository, it was not there,
and a path that differs only behind its last dot or in its folder was found next, twice; without that in
{SESSIONS_MIN_WITHOUT} sessions. Not if the session wrote the path later, or it is there now, or the
other is not."""


def mistakes(found: Sequence[SessionAttempts]) -> list[FrictionFinding]:
    """The commands that could not work in several sessions, and did not since."""
    evidence: dict[Fault, list[FrictionEvidence]] = {}
    instead: dict[Fault, Counter[str]] = {}
    worked: dict[str, int] = {}
    for session in found:
        for number, each in enumerate(session.attempts):
            if each.fault is not None:
                evidence.setdefault(each.fault, []).append(tried_at(session, each, each.fault.head, _why(each.fault)))
                instead.setdefault(each.fault, Counter()).update(_passed_next(each, session.attempts[number + 1 :]))
            elif each.script is not None and each.ended == CallEnd.WELL:
                worked |= {begin: max(each.at or 0, worked.get(begin, 0)) for begin in _begins(each.script)}
    return [
        FrictionFinding(
            rule=Rule.MISTAKE, about=f"{fault.head} {fault.word}".strip(), evidence=tuple(each),
            commands=(f"{fault.head} {fault.word}" if fault.kind == FaultKind.OPTION else fault.head,),
            instead=often(instead[fault]),
        )
        for fault, each in evidence.items()
        if several(each) >= SESSIONS_MIN
        # What an option is of may work; else what works by now is no mistake any more.
        and (fault.kind == FaultKind.OPTION or worked.get(fault.head, 0) <= max(e.at or 0 for e in each))
        # A module may be missing because it is yet to be written.
        and (fault.kind != FaultKind.MODULE or often(instead[fault]))
    ]  # fmt: skip


def often(counted: Counter[str]) -> str:
    """Return the most frequent text, if it was seen more than once; else ''."""
    words, count = counted.most_common(1)[0] if counted else ("", 0)
    return words if count > 1 else ""


def _begins(script: str) -> set[str]:
    """Return the beginnings of a script's commands, and their programs."""
    heads = {head for head, _ in named_commands(script)}
    return heads | {head.partition(" ")[0] for head in heads}


def _why(fault: Fault) -> str:
    return f"{fault.kind}: {fault.word}" if fault.word else str(fault.kind)


def _passed_next(failed: Attempt, following: Sequence[Attempt]) -> Iterator[str]:
    """The check that passed next, and is of the kind of the one that failed."""
    kinds = {check.kind for check in failed.checks}
    for each in following[:LOOKED_AHEAD]:
        if each.edits or each.session_uid != failed.session_uid:
            return
        for check in each.checks:
            is_other = check.head not in {failing.head for failing in failed.checks}
            if check.kind in kinds and each.ended == CallEnd.WELL and is_other:
                yield check.text
                return


def useless_checks(found: Sequence[SessionAttempts]) -> list[FrictionFinding]:
    """The checks that never passed, in several sessions, where another one of their kind then did without an edit."""
    evidence: dict[str, list[FrictionEvidence]] = {}
    instead: dict[str, Counter[str]] = {}
    passed = set[str]()
    for session in found:
        for number, each in enumerate(session.attempts):
            if each.ended == CallEnd.WELL:
                passed.update(check.head for check in each.checks)
            elif each.ended == CallEnd.FAILED and len(each.checks) == 1 and each.fault is None:
                other = list(_passed_next(each, session.attempts[number + 1 :]))
                if other:
                    head = each.checks[0].head
                    evidence.setdefault(head, []).append(
                        tried_at(session, each, head, "failed, and another one passed")
                    )
                    instead.setdefault(head, Counter()).update(other)
    return [
        FrictionFinding(
            rule=Rule.MISTAKE, about=head, evidence=tuple(each), commands=(head,), instead=often(instead[head])
        )
        for head, each in evidence.items()
        if head not in passed and several(each) >= SESSIONS_MIN and often(instead[head])
    ]


def useless_options(found: Sequence[SessionAttempts]) -> list[FrictionFinding]:
    """The options with which a command failed each time, in several sessions, while it went well without them."""
    failed: list[tuple[SessionAttempts, Attempt, str, tuple[str, ...]]] = []
    went_well = set[tuple[str, str]]()
    for session in found:
        for each in session.attempts:
            commands = [] if each.script is None else named_commands(each.script)
            if each.ended == CallEnd.WELL:
                went_well |= {(head, option) for head, options in commands for option in ("", *options)}
            elif each.ended == CallEnd.FAILED and len(commands) == 1 and not each.checks and each.fault is None:
                failed.append((session, each, *commands[0]))
    evidence: dict[str, list[FrictionEvidence]] = {}
    for session, each, head, options in failed:
        blamed = [option for option in options if (head, option) not in went_well]
        if len(blamed) == 1 and (head, "") in went_well:
            words = f"{head} {blamed[0]}"
            evidence.setdefault(words, []).append(
                tried_at(session, each, words, "failed, as each time with this option")
            )
    return [
        FrictionFinding(rule=Rule.MISTAKE, about=words, evidence=tuple(each), commands=(words,))
        for words, each in evidence.items()
        if several(each) >= SESSIONS_MIN
    ]


def named_commands(script: str) -> list[tuple[str, tuple[str, ...]]]:
    """Return the beginning of each command of a script, and its long options.

    >>> named_commands("gh pr diff 88 --stat --color=never | cat")
    [('gh pr diff', ('--stat', '--color')), ('cat', ())]
    """
    return [
        (head_of(each.words), tuple(dict.fromkeys(
            word.partition("=")[0] for word in each.words[1:] if word and word.startswith("--") and len(word) > LONG_MIN
        )))
        for each in simple_commands(script) if each.words and each.words[0]
    ]  # fmt: skip


def missing_paths(found: Sequence[SessionAttempts]) -> list[FrictionFinding]:
    """The paths below the repository that several sessions looked for, and that were not there."""
    evidence: dict[str, list[FrictionEvidence]] = {}
    instead: dict[str, Counter[str]] = {}
    for session in found:
        made = {_below(path, session.root) for each in session.attempts for path in each.edits}
        for number, each in enumerate(session.attempts):
            path = _below(each.path or "", session.root) if each.is_missing else None
            if path is None or path in made:
                continue
            evidence.setdefault(path, []).append(tried_at(session, each, path, "was not there"))
            instead.setdefault(path, Counter()).update(_found_next(path, session, number))
    return [
        FrictionFinding(rule=Rule.MISSING_PATH, about=path, evidence=tuple(each), commands=(path,),
                instead=often(instead[path]))
        for path, each in evidence.items()
        if several(each) >= (SESSIONS_MIN if often(instead[path]) else SESSIONS_MIN_WITHOUT)
    ]  # fmt: skip


def _found_next(path: str, session: SessionAttempts, number: int) -> Iterator[str]:
    """The path of the same name, but for what is behind its last dot, that was found next."""
    name, uid = PurePosixPath(path).stem, session.attempts[number].session_uid
    for each in session.attempts[number + 1 : number + 1 + LOOKED_AHEAD]:
        other = _below(each.path or "", session.root)
        is_found = other is not None and each.session_uid == uid and each.ended == CallEnd.WELL and other != path
        if is_found and other is not None and PurePosixPath(other).stem == name:
            yield other
            return


def _below(path: str, root: str | None) -> str | None:
    """A path below the repository; None for the repository itself and what is elsewhere."""
    folder = f"{(root or '').rstrip('/')}/"
    if path.startswith("/"):
        path = path[len(folder) :] if folder != "/" and path.startswith(folder) else ""
    parts = PurePosixPath(path).parts
    return str(PurePosixPath(path)) if parts and ".." not in parts else None
