"""The HTML form of ``export``: a file for each session, masked unless a person wants it otherwise."""

from __future__ import annotations

import importlib.util
from collections import Counter
from typing import TYPE_CHECKING

import click

from backstory.cli import output
from backstory.cli.views import sharing
from backstory.derive.secrets import SecretCount
from backstory.errors import BackstoryError, FileInTheWay, PagesNotInstalled
from backstory.export.exporting import NotWritten, WrittenFile
from backstory.export.files import whole_file
from backstory.model import encoded
from backstory.workspace.located import LocatedSession

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from backstory.cli.app import App
    from backstory.derive.secrets import Redactor
    from backstory.export.exporting import Chosen
    from backstory.model import Event
    from backstory.workspace.shared_reader import SharedReader

HTML, ENDING = "html", ".html"
PACKAGES = ("jinja2", "markdown_it")


def write(
    app: App, chosen: Sequence[Chosen], target: Path, *, one: bool, force: bool, redactor: Redactor | None
) -> list[WrittenFile | NotWritten]:
    """Write sessions: one to the file ``target``, or each to its file in the folder ``target``.

    A session that cannot be read keeps no other from its file; where that is so of every one, what the first raised is
    raised. Raises PagesNotInstalled and FileInTheWay before anything is written, DiskFull and CannotWrite.
    """
    if any(importlib.util.find_spec(each) is None for each in PACKAGES):
        raise PagesNotInstalled
    if not one and target.suffix == ENDING:
        raise click.UsageError("Each session becomes a file: name the folder for them with -o.")
    from backstory.web.session_file import name_of

    places, folder = _located(chosen), target.absolute()
    targets = [folder if one else folder / name_of(each.session.uid) for each in places]
    if in_the_way := [each for each in targets if each.exists() and not force]:
        raise FileInTheWay(in_the_way[0])
    reader = app.workspace.reader_for_others(redactor)
    for each in places:
        reader.learn(each)
    secrets, done = SecretCount(), list[WrittenFile | NotWritten]()
    beside = frozenset[str]() if one else frozenset(each.session.uid for each in places)
    first: BackstoryError | None = None
    for each, file in zip(places, targets, strict=True):
        try:
            done.append(_write_one(app, reader, each, file, beside, force=force, redactor=redactor, secrets=secrets))
        except BackstoryError as failed:
            first = first or failed
            done.append(NotWritten(format=HTML, file=str(file), session=each.session.uid, reason=str(failed)))
    if first is not None and not any(isinstance(each, WrittenFile) for each in done):
        raise first
    sharing.tell_masked(redactor)
    if secrets:
        output.talk(f"{output.counted(len(secrets), 'secret')} in it, not masked: leave out --no-redact to mask them.")
    return done


def _write_one(
    app: App, reader: SharedReader, located: LocatedSession, file: Path, beside: frozenset[str], *, force: bool,
    redactor: Redactor | None, secrets: SecretCount,
) -> WrittenFile:  # fmt: skip
    from backstory.web.session_file import session_file

    before = Counter(redactor.counts if redactor is not None else ())

    def see(event: Event) -> None:
        if redactor is None:
            secrets.add(encoded(event).decode())

    with whole_file(file, force=force) as opened:
        pieces = session_file(reader, located, app.workspace.now(), beside=beside, see=see)
        size = sum(opened.write(each.encode("utf-8", "replace")) for each in pieces)
    masked = None if redactor is None else dict(Counter(redactor.counts) - before)
    return WrittenFile(
        format=HTML, file=str(file), exact=False, bytes=size, rows={"sessions": 1}, left_out=0, masked=masked
    )


def _located(chosen: Sequence[Chosen]) -> list[LocatedSession]:
    found = list[LocatedSession]()
    for each in chosen:
        sessions = each.store.sessions(subagents=True) if each.is_all_but else map(each.store.session, each.ids)
        wanted = (session for session in sessions if not (each.is_all_but and session.id in each.ids))
        found += [LocatedSession(each.store, session) for session in wanted]
    return found
