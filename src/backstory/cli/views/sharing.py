"""Prints of ``show`` and ``export`` for other people: Markdown, an outline, and the number of masked values."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from backstory.cli import output
from backstory.export.shared import masked_words, point_as_json, session_as_json

if TYPE_CHECKING:
    from backstory.cli.app import App, Found
    from backstory.derive.secrets import Redactor, SecretCount
    from backstory.export.shared import OutlinePoint

MARKS = {"prompt": ("❯", "cyan"), "decision": ("◆", "magenta"), "commit": ("✓", "green")}
SHAPES_SHOWN_MAX = 12


def redactor_of(app: App) -> Redactor:
    """A redactor that also knows the home folder of the person who asks."""
    return app.workspace.redactor(str(app.user_home))


def print_markdown(app: App, found: Found, *, full: bool, thinking: bool, redact: bool) -> None:
    """Print a session as Markdown."""
    from backstory.derive.secrets import SecretCount
    from backstory.export.markdown import document

    redactor, secrets = redactor_of(app) if redact else None, SecretCount()
    shared = app.reader.shared(found, redactor, full=full)
    lines = document(shared.session, shared.events, full=full, thinking=thinking, is_masked=redact)
    output.pages(lines if redact else secrets.counting(lines))
    tell_masked(redactor)
    tell_secrets(secrets)


def print_outline(app: App, found: Found, *, redact: bool, as_json: bool) -> None:
    """Print the outline of a session."""
    redactor = redactor_of(app) if redact else None
    session, points = app.reader.points(found, redactor)
    if as_json:
        head = {"session": session_as_json(session)}
        masked = (lambda: {"masked": redactor.counts}) if redactor is not None else dict
        output.json_lines(head, "points", map(point_as_json, points), masked)
    else:
        output.data(output.style(output.one_line(session.title, output.width()), bold=True))
        output.pages(map(_line, points))
    tell_masked(redactor)


def tell_masked(redactor: Redactor | None) -> None:
    """Say how much was masked, by the names of the shapes."""
    if redactor is not None:
        output.talk(masked_words(redactor.counts))


def tell_secrets(secrets: SecretCount) -> None:
    """Say how many secrets are in what was written as it is."""
    if secrets:
        output.talk(f"{output.counted(len(secrets), 'secret')} in it, not masked: add --redact before you share it.")


def refuse_combinations(*, md: bool, outline: bool, redact: bool, as_json: bool, part: bool) -> None:
    """Raise UsageError for options that do not go together. ``part``: only a part of the session was asked for."""
    if md and outline:
        raise click.UsageError("Choose --md or --outline.")
    if redact and not (md or outline):
        raise click.UsageError("--redact masks what is shared: add --md or --outline.")
    if md and as_json:
        raise click.UsageError("--md prints Markdown, not JSON: use one of the two.")
    if (md or outline) and part:
        raise click.UsageError("--md and --outline are of a whole session: leave out @N, --turn and --find.")


def _line(point: OutlinePoint) -> str:
    mark, colour = MARKS[point.kind]
    at = "      " if point.seq is None else output.style(f"@{point.seq:<5}", dim=True)
    room = output.width() - 9
    return f"{at} {output.style(f'{mark} {output.one_line(point.text, room)}', fg=colour)}"
