"""``backstory export``: sessions in the format of another tool, or one as a log that an agent's client continues.

What the second prints as JSON stands in ``native_log_view``.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from backstory.cli import output
from backstory.cli.options import chosen_sessions, filter_options, json_option, sessions_argument, store_option
from backstory.cli.trusting import trust_option
from backstory.cli.views import file_export, sharing, text_export
from backstory.cli.views.native_log_view import LogRequest, native_formats, show_native_log, show_undone
from backstory.errors import NoSessionHere, StoreNotFound
from backstory.export import exporting
from backstory.ids import session_keys
from backstory.workspace.history.sessions import SessionFilter

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from backstory.cli.app import App

FORMATS = [*text_export.FORMATS, *file_export.FORMS, *sorted({*exporting.formats(), *native_formats()})]

ENDINGS = text_export.ENDINGS | {".html": file_export.HTML}


@click.command("export")
@sessions_argument
@filter_options
@click.option("--all", "everything", is_flag=True, help="Every session of every agent.")
@click.option("--here", is_flag=True, help="Every session of this project.")
@click.option(
    "--format", "form", type=click.Choice(FORMATS),
    help="json: all that is kept, for `backstory import`; md: Markdown; html: a page that needs nothing else; atif: a "
    "trajectory for evaluation; else the tool whose format to write. Default: what the name of the file ends in.",
)  # fmt: skip
@click.option(
    "-o", "--to", "target", type=click.Path(path_type=Path),
    help="The file to write (- for stdout: json, md); for a format with a file per session, the folder of a project; "
    "for html and atif of several sessions, the folder for their files.",
)  # fmt: skip
@click.option("--at", "at", metavar="@N", help="A log for a client: only up to this record.")
@click.option(
    "--cwd", type=click.Path(path_type=Path), metavar="DIR", help="A log for a client: the folder to continue in."
)
@click.option("--write", "is_written", is_flag=True, help="A log for a client: write it; else only say what would be.")
@click.option("--undo", is_flag=True, help="Remove logs that were written, if nothing was added to them.")
@click.option(
    "--exact", is_flag=True, help="Write what that tool would have written from its own logs, including its errors."
)
@click.option("--no-bytes", is_flag=True, help="json: without the original logs (much smaller).")
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
@click.option(
    "--redact/--no-redact", "redact", default=None,
    help="Mask secrets, and people's names in paths, in all that is written. Default: only html is masked.",
)  # fmt: skip
@click.option(
    "--password", "is_locked", is_flag=True,
    help="html: the file opens only with a password, which is asked for; without a terminal, the first line of stdin.",
)  # fmt: skip
@json_option
@trust_option
@store_option
@click.pass_obj
def command(
    app: App, sessions: tuple[str, ...], everything: bool, here: bool, form: str | None, target: Path | None,
    at: str | None, cwd: Path | None, is_written: bool, undo: bool, exact: bool, no_bytes: bool, force: bool,
    redact: bool | None, is_locked: bool, as_json: bool, chosen: dict[str, Any],
) -> None:  # fmt: skip
    """Write the SESSIONs (--here: this project's, --all: all) as JSON, Markdown, HTML, or in another tool's format.

    With --here or --all the filters choose among them, as in `list`.

    JSON holds all that is kept of a session, with its bytes; `backstory import` reads it. An HTML file shows one
    session in any browser, without a network; secrets are masked in it unless --no-redact. ATIF is the JSON of agents'
    runs that evaluation harnesses read.

    Sessions of every agent are written, with their original times. With --exact only the tool's own sessions are
    written, as it would have done it. A tool with a file per session can continue them in that folder, with all
    their branches.

    The name of an agent with a client writes one SESSION as a log that this client can resume, where it looks for it;
    so no -o. The plan for every record is printed; --write does it.
    """
    form = form or _format_of(target)
    redact = form == file_export.HTML if redact is None else redact
    if is_locked and form != file_export.HTML:
        raise click.UsageError("--password applies to --format html: no other format opens with one.")
    if form in native_formats():
        _refuse_for_logs(
            sessions, everything=everything or here or bool(chosen), is_other=bool(target or exact or force or no_bytes)
        )
        asked = LogRequest(form=form, at=at, cwd=cwd, is_written=is_written, redact=redact, as_json=as_json)
        show_undone(app, sessions[0], asked) if undo else show_native_log(app, sessions[0], asked)
        return
    if target is None or at is not None or cwd is not None or is_written or undo:
        raise click.UsageError(f"The format {form} needs -o; --at, --cwd, --write and --undo are for logs of agents.")
    wanted = SessionFilter(**chosen, everywhere=everything, unread=bool(chosen)) if chosen or here else None
    _export(
        app, sessions, wanted, form, target, everything=everything, here=here, exact=exact, no_bytes=no_bytes,
        force=force, redact=redact, is_locked=is_locked, as_json=as_json,
    )  # fmt: skip


def _format_of(target: Path | None) -> str:
    """Return the format that a file's name ends in, or raise UsageError."""
    form = ENDINGS.get(target.suffix) if target else None
    if form is None:
        said = f"Missing option '--format'. Choose from: {', '.join(FORMATS)}."
        raise click.UsageError(f"{said} A file that ends in {' or '.join(ENDINGS)} needs none.")
    return form


def _refuse_for_logs(sessions: tuple[str, ...], *, everything: bool, is_other: bool) -> None:
    """Raise UsageError for what does not go with a log that a client continues."""
    if everything or len(set(sessions)) != 1:
        raise click.UsageError("Name one session: each is continued by itself.")
    if is_other:
        raise click.UsageError("A log goes where its client looks for it: leave out -o, --exact and --force.")


def _export(
    app: App, sessions: tuple[str, ...], wanted: SessionFilter | None, form: str, target: Path, *, everything: bool,
    here: bool, exact: bool, no_bytes: bool, force: bool, redact: bool, is_locked: bool,
    as_json: bool,
) -> None:  # fmt: skip
    from backstory.cli.app import now_ms

    if bool(sessions) + everything + here != 1:
        raise click.UsageError("Name sessions, or use --here or --all.")
    if sessions and wanted is not None:
        raise click.UsageError("Filters choose among --here or --all: leave them out, or the sessions.")
    _refuse_combinations(form, target, exact=exact, no_bytes=no_bytes, as_json=as_json)
    chosen, redactor = _chosen(app, sessions, wanted), sharing.redactor_of(app) if redact else None
    if form in file_export.FORMS:
        one = len(set(sessions)) == 1
        done = file_export.write(
            app, form, chosen, target, one=one, force=force, redactor=redactor, is_locked=is_locked
        )  # fmt: skip
        _print_files(done, one=one, as_json=as_json)
        return
    if form in text_export.FORMATS:
        text = text_export.write(
            app, form, chosen, target, everything=everything, has_bytes=not no_bytes, force=force, redactor=redactor
        )
        if text is not None:
            _print_one(text, as_json=as_json)
        return
    if exporting.writes_folder(form):
        if exact:
            raise click.UsageError(f"--exact does not apply to {form}: its own sessions are always exported exactly.")
        done = exporting.export_each(form, chosen, target.absolute(), force=force, redactor=redactor)
        sharing.tell_masked(redactor)
        _print(done, as_json=as_json)
        return
    chosen = exporting.with_notes(chosen, app.home_store, everything=everything)
    written = exporting.export(
        form, chosen, target.absolute(), exact=exact, force=force, now=now_ms(), redactor=redactor
    )
    sharing.tell_masked(redactor)
    _print_one(written, as_json=as_json)
    if written.left_out and not as_json:
        left_out = output.counted(written.left_out, "session")
        output.talk(f"Not in the file, because no log was written by {form}: {left_out}.")


def _refuse_combinations(form: str, target: Path, *, exact: bool, no_bytes: bool, as_json: bool) -> None:
    """Raise UsageError for options that do not go together."""
    is_text = form in text_export.FORMATS
    if exact and (is_text or form in file_export.FORMS):
        raise click.UsageError(f"--exact does not apply to {form}: it has no errors of another tool.")
    if no_bytes and form != text_export.JSON:
        raise click.UsageError(
            "--no-bytes applies to --format json: no other format has the bytes of logs as they are."
        )
    if target == text_export.STDOUT and not is_text:
        raise click.UsageError(f"--format {form} writes files: name one.")
    if target == text_export.STDOUT and as_json:
        raise click.UsageError("--json describes the file; with -o - that goes to stdout itself. Use one of the two.")


def _as_json(done: exporting.WrittenFile | exporting.NotWritten) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(done)
    if isinstance(done, exporting.NotWritten):
        return session_keys(found.pop("session")) | found
    return {"row_counts": found.pop("rows")} | found


def _print_one(written: exporting.WrittenFile, *, as_json: bool) -> None:
    if as_json:
        output.json(_as_json(written))
    else:
        _print([written], as_json=False)


def _print_files(
    done: Sequence[exporting.WrittenFile | exporting.NotWritten], *, one: bool, as_json: bool
) -> None:  # fmt: skip
    """Print files with a session each; of ``one`` that was named, that file alone."""
    first = done[0] if done else None
    if one and isinstance(first, exporting.WrittenFile):
        _print_one(first, as_json=as_json)
    else:
        _print(done, as_json=as_json)


def _chosen(app: App, sessions: tuple[str, ...], wanted: SessionFilter | None) -> list[exporting.Chosen]:
    """The named sessions, or those that a filter lets through; all if neither is given."""
    if wanted == SessionFilter() and not app.reader.count(wanted):
        raise NoSessionHere(app.workspace.why_none())
    if wanted is not None:
        return exporting.these(chosen_sessions(app, wanted))
    if sessions:
        return exporting.these((each.store, each.session) for each in map(app.workspace.resolve, sessions))
    stores = [store for store in app.stores if store.exists]
    if not stores:
        raise StoreNotFound(app.home_store.path)
    return exporting.everything(stores)


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {_noun(name.replace('_', ' '), count)}" for name, count in counts.items())


def _noun(plural: str, count: int) -> str:
    """A noun as it stands behind a number.

    >>> _noun("branches", 1), _noun("turn times", 1), _noun("entries", 1), _noun("branches", 0)
    ('branch', 'turn time', 'entry', 'branches')
    """
    if count != 1:
        return plural
    return (
        f"{plural[:-3]}y" if plural.endswith("ies") else plural.removesuffix("es" if plural.endswith("ches") else "s")
    )


def _print(done: Sequence[exporting.WrittenFile | exporting.NotWritten], *, as_json: bool) -> None:
    """Print what was written; exits with 1 if a session was not."""
    missing = [each for each in done if isinstance(each, exporting.NotWritten)]
    if as_json:
        output.json({"exports": [_as_json(each) for each in done]})
    for each in done:
        if isinstance(each, exporting.WrittenFile) and not as_json:
            output.data(f"{each.file}  {output.size(each.bytes)}")
            output.talk(f"{_counted(each.rows)}.")
            if each.reduced:
                output.talk(f"This format has no place for {_counted(each.reduced)}.")
    for failed in missing:
        output.talk(f"Session {failed.session} is not in {failed.file}: {failed.reason}")
    if missing:
        raise click.exceptions.Exit(1)
