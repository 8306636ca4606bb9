"""Forms of ``export`` with a file for each session: HTML, masked unless a person wants it otherwise, and ATIF."""

from __future__ import annotations

import importlib.util
import sys
from collections import Counter
from typing import TYPE_CHECKING

import click

from backstory.cli import output
from backstory.cli.views import sharing
from backstory.derive.secrets import SecretCount
from backstory.errors import BackstoryError, FileInTheWay, LockNotInstalled, PagesNotInstalled
from backstory.export.exporting import NotWritten, WrittenFile
from backstory.export.files import whole_file
from backstory.model import Relation, encoded
from backstory.workspace.located import LocatedSession

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from backstory.cli.app import App
    from backstory.derive.secrets import Redactor
    from backstory.export.exporting import Chosen
    from backstory.model import Event
    from backstory.workspace.shared_reader import SharedReader

HTML, ATIF = "html", "atif"
FORMS = {HTML: ".html", ATIF: ".json"}
"""The forms, and what the names of their files end in."""
PACKAGES = ("jinja2", "markdown_it")
OF_LOCK = "cryptography"
PASSWORD_CHARS_GOOD = 12
"""A shorter password is used, and it is said that it can be guessed."""


def write(
    app: App, form: str, chosen: Sequence[Chosen], target: Path, *, one: bool, force: bool, redactor: Redactor | None,
    is_locked: bool,
) -> list[WrittenFile | NotWritten]:  # fmt: skip
    """Write sessions: one to the file ``target``, or each to its file in the folder ``target``.

    ``is_locked``: the files open only with a password, which is asked for.

    A session that cannot be read keeps no other from its file; where that is so of every one, what the first raised is
    raised. Raises PagesNotInstalled and FileInTheWay before anything is written, DiskFull and CannotWrite.
    """
    _refuse(form, target, one=one, is_locked=is_locked)
    places, folder = _located(chosen), target.absolute()
    places = _with_parents(places) if form == ATIF else places
    targets = [folder if one else folder / f"{each.session.uid}{FORMS[form]}" for each in places]
    if in_the_way := [each for each in targets if each.exists() and not force]:
        raise FileInTheWay(in_the_way[0])
    password = asked_password() if is_locked else None
    reader = app.workspace.reader_for_others(redactor)
    for each in places:
        reader.learn(each)
    secrets, done = SecretCount(), list[WrittenFile | NotWritten]()
    beside = frozenset[str]() if one else frozenset(each.session.uid for each in places)
    first: BackstoryError | None = None

    def see(event: Event) -> None:
        if redactor is None:
            secrets.add(encoded(event).decode())

    for each, file in zip(places, targets, strict=True):
        pieces = _pieces(app, form, reader, each, beside, see, password)
        try:
            done.append(_write_one(form, pieces, file, force=force, redactor=redactor))
        except BackstoryError as failed:
            first = first or failed
            done.append(NotWritten(format=form, file=str(file), session=each.session.uid, reason=str(failed)))
    if first is not None and not any(isinstance(each, WrittenFile) for each in done):
        raise first
    sharing.tell_masked(redactor)
    if secrets:
        remedy = "leave out --no-redact to mask them" if form == HTML else "add --redact before you share it"
        output.talk(f"{output.counted(len(secrets), 'secret')} in it, not masked: {remedy}.")
    return done


def _refuse(form: str, target: Path, *, one: bool, is_locked: bool) -> None:
    """Raise PagesNotInstalled, LockNotInstalled or UsageError where nothing can be written."""
    if form == HTML and any(importlib.util.find_spec(each) is None for each in PACKAGES):
        raise PagesNotInstalled
    if is_locked and importlib.util.find_spec(OF_LOCK) is None:
        raise LockNotInstalled
    if not one and target.suffix == FORMS[form]:
        raise click.UsageError("Each session becomes a file: name the folder for them with -o.")


def _pieces(
    app: App, form: str, reader: SharedReader, located: LocatedSession, beside: frozenset[str],
    see: Callable[[Event], None], password: str | None,
) -> Iterator[bytes]:  # fmt: skip
    now = app.workspace.now()
    if form == ATIF:
        from backstory.workspace.history.trajectory import trajectory

        return trajectory(reader, located, see)
    if password is None:
        from backstory.web.session_file import session_file

        pieces = session_file(reader, located, now, beside=beside, see=see)
    else:
        from backstory.web.locked_file import locked_file

        pieces = locked_file(reader, located, now, password, beside=beside, see=see)
    return (each.encode("utf-8", "replace") for each in pieces)


def asked_password() -> str:
    """A password, typed twice and not shown; of a program, the first line of standard input. Raises UsageError."""
    if sys.stdin.isatty():
        password = output.asked("Password", hide_input=True, confirmation_prompt=True)
    else:
        password = sys.stdin.readline().removesuffix("\n").removesuffix("\r")
    if not password:
        raise click.UsageError(
            "--password needs one: type it when asked, or give it in the first line of standard input."
        )
    if len(password) < PASSWORD_CHARS_GOOD:
        output.talk("That is a short password: whoever has the file can try as many as they like.")
    return password


def _write_one(
    form: str, pieces: Iterator[bytes], file: Path, *, force: bool, redactor: Redactor | None
) -> WrittenFile:
    before = Counter(redactor.counts if redactor is not None else ())
    with whole_file(file, force=force) as opened:
        size = sum(map(opened.write, pieces))
    masked = None if redactor is None else dict(Counter(redactor.counts) - before)
    return WrittenFile(
        format=form, file=str(file), exact=False, bytes=size, rows={"sessions": 1}, left_out=0, masked=masked
    )


def _with_parents(places: Sequence[LocatedSession]) -> list[LocatedSession]:
    """The sessions without subagents whose parents are among them: these are in the files of those."""
    uids = {each.session.uid for each in places}
    return [
        each for each in places if each.session.relation != Relation.SUBAGENT or each.session.parent_uid not in uids
    ]


def _located(chosen: Sequence[Chosen]) -> list[LocatedSession]:
    found = list[LocatedSession]()
    for each in chosen:
        sessions = each.store.sessions(subagents=True) if each.is_all_but else map(each.store.session, each.ids)
        wanted = (session for session in sessions if not (each.is_all_but and session.id in each.ids))
        found += [LocatedSession(each.store, session) for session in wanted]
    return found
