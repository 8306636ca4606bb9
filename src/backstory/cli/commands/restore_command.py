"""``backstory restore``: logs and their sidecars, byte for byte.

``--json`` prints ``logs``, each with:

- ``uid`` and ``label`` of its session, and ``original``: where it was last seen;
- ``path``: where it is now, its ``bytes`` and ``sha256``; or ``error``: why it was not written (the others are null);
- ``companions``: its sidecars, each with its ``name`` there, and ``path``, ``bytes``, ``sha256``, ``error``. Of a
  session that is a folder ``path`` is that folder, its ``sha256`` null, and these are its files.
"""

from __future__ import annotations

from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

import click

from backstory import agents
from backstory.cli import output
from backstory.cli.options import chosen_sessions, filter_options, json_option, sessions_argument, store_option
from backstory.cli.trusting import trust_option
from backstory.errors import BackstoryError, RestoreIncomplete, StoreNotFound
from backstory.export.restore import Restored, RestoredFile, Restoring
from backstory.ids import session_keys
from backstory.ingest.databases import ROWS_OF, is_part
from backstory.workspace.history.sessions import SessionFilter

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence, Set

    from backstory.cli.app import App
    from backstory.store import Session, Store
    from backstory.workspace.clients.resuming import PutBack, Resumption


@click.command("restore")
@sessions_argument
@filter_options
@click.option("--all", "everything", is_flag=True, help="Every log in the store.")
@click.option("--to", "target", type=click.Path(path_type=Path), help="The folder to write them in.")
@click.option("--in-place", is_flag=True, help="Put logs that are gone back where their agent looks for them.")
@click.option(
    "--cwd", type=click.Path(path_type=Path), metavar="DIR", help="With --in-place: the session's folder now."
)
@click.option(
    "--force", is_flag=True, help="Overwrite files that differ; with --in-place: also if the session is in use."
)
@click.option("--partial", is_flag=True, help="Also write what is left of logs that were pruned in part.")
@json_option
@trust_option
@store_option
@click.pass_obj
def command(
    app: App, sessions: tuple[str, ...], everything: bool, target: Path | None, in_place: bool, cwd: Path | None,
    force: bool, partial: bool, as_json: bool, chosen: dict[str, Any],
) -> None:  # fmt: skip
    """Write the original logs of the SESSIONs (--all: of every session) to a folder, byte for byte.

    Their layout is that of the agent's own folder, sidecar files included. If two have the same name, the older
    one gets a number. A log that was pruned in part is refused; --partial writes what is left of it. Files that
    cannot be restored are listed, and the exit code is 73. With --all the filters choose among the sessions, as in
    `list`.

    --in-place does what `resume` does before it starts the agent: it overwrites nothing, and `resume --undo` removes
    what it put back.
    """
    if bool(sessions) == everything or (everything and in_place):
        raise click.UsageError("Name sessions." if in_place else "Name sessions, or use --all.")
    if in_place == (target is not None) or (cwd is not None and not in_place):
        raise click.UsageError("Give --to FOLDER, or --in-place, which --cwd belongs to.")
    if chosen and not everything:
        raise click.UsageError("Filters choose among --all: leave them out, or the sessions.")
    if partial and in_place:
        raise click.UsageError("No agent goes on with what is left of a pruned log: --partial needs --to.")
    if target is None:
        _show(list(_in_place(app, sessions, cwd, force=force)), as_json=as_json)
    else:
        named = [(each.store, each.session) for each in map(app.workspace.resolve, sessions)]
        if chosen:
            named = chosen_sessions(app, SessionFilter(**chosen, everywhere=True, unread=True))
        _restore(app, named, target, force=force, partial=partial, as_json=as_json)


def _in_place(app: App, sessions: Sequence[str], cwd: Path | None, *, force: bool) -> Iterator[Restored]:
    from backstory.cli.handing_over import planned, resuming  # writing logs to a folder needs none of it

    at_work = resuming(app)
    for found in [app.workspace.resolve(each) for each in sessions]:
        try:
            resumption = planned(app, at_work, found, cwd)
            with at_work.held(resumption, force=force):
                yield _put_back(at_work.put_back(resumption), resumption)
        except BackstoryError as refused:
            if len(sessions) == 1:
                raise
            yield Restored(session=found.session.uid, original="", error=str(refused))


def _put_back(done: PutBack, resumption: Resumption) -> Restored:
    """Return files put back as restored ones; a log that was there stays as it is."""
    files = [
        RestoredFile(name=Path(each.path).name, written=each.path, bytes=each.bytes, sha256=each.sha256)
        for each in done.files
    ]
    log = next((each for each in files if each.written == str(resumption.log)), None)
    there = next((each for each in resumption.places if each.exists()), resumption.log)
    return Restored(
        session=resumption.located.session.uid, original=resumption.original, written=str(there),
        bytes=there.stat().st_size if log is None else log.bytes, sha256=None if log is None else log.sha256,
        companions=[each for each in files if each is not log],
    )  # fmt: skip


def _restore(
    app: App, named: Sequence[tuple[Store, Session]], target: Path, *, force: bool, partial: bool, as_json: bool
) -> None:
    """Restore the logs of these sessions; without any, of all."""
    stores = {store.path: store for store, _ in named}
    if not named:
        stores = {store.path: store for store in app.stores if store.exists}
        if not stores:
            raise StoreNotFound(app.home_store.path)
    restoring = Restoring(stores.values(), target.absolute(), force=force, partial=partial)
    chosen = {(store.path, session.id) for store, session in named}
    wanted = [each for each in restoring.logs if not named or (each[0].path, each[1].session_id) in chosen]
    of_many = [log for _, log in wanted if ROWS_OF in PurePath(log.path).name]
    parts = {log.path for log in of_many if is_part(agents.load(log.agent), PurePath(log.path))}
    done = list(restoring.lost)
    with output.progress("Restoring logs") as progress:
        for n, restored in enumerate(restoring.each(wanted)):
            progress(n, len(wanted))
            done.append(restored)
    _show(done, as_json=as_json, parts=parts)


def _as_json(done: Restored) -> dict[str, Any]:
    import msgspec

    found: dict[str, Any] = msgspec.to_builtins(done)
    beside = [_named(each) for each in found.pop("companions")]
    return session_keys(found.pop("session")) | _named(found) | {"companions": beside}


def _named(file: dict[str, Any]) -> dict[str, Any]:
    return {"path" if name == "written" else name: value for name, value in file.items()}


def _show(done: Sequence[Restored], *, as_json: bool, parts: Set[str] = frozenset()) -> None:
    """Print what was restored; ``parts``: the originals that are parts of files. Raises RestoreIncomplete."""
    if as_json:
        output.json({"logs": [_as_json(each) for each in done]})
    else:
        _print(done, parts)
    failures = _failures(done)
    for failure in failures:
        output.talk(output.one_liner(f"Not restored: {failure}"))
    if failures:
        raise RestoreIncomplete(len(failures), sum(1 + len(each.companions) for each in done))


def _print(done: Sequence[Restored], parts: Set[str]) -> None:
    files: list[Restored | RestoredFile] = []
    for each in done:
        files += (each, *each.companions)
    whole = [one for one in files if one.error is None]
    for one in whole:
        output.data(output.one_liner(f"{one.written}  {output.size(one.bytes or 0)}"))
    logs = sum(each.error is None for each in done)
    beside = f" and {output.counted(len(whole) - logs, 'sidecar')}" if len(whole) > logs else ""
    # A folder has the bytes of its files.
    length = sum(one.bytes or 0 for one in whole if isinstance(one, RestoredFile) or one.sha256 is not None)
    output.talk(f"{output.counted(logs, 'log')}{beside}, {output.size(length)}.")
    written = [each.original for each in done if each.error is None and ROWS_OF in PurePath(each.original).name]
    if rows := sum(each not in parts for each in written):
        said = "the rows that were read, a line of JSON for each"
        output.talk(f"{output.counted(rows, 'session')} of a database: {said}.")
    if count := len(written) - rows:
        said = "one behind the other, by their names, they are that file"
        output.talk(f"{output.counted(count, 'part')} of a file of many sessions: {said}.")


def _failures(done: Sequence[Restored]) -> list[str]:
    """A line for each file that could not be restored: its session, its original path, and why."""
    lines = []
    for each in done:
        named = f"{each.session[:12]} {each.original}"
        lines += [f"{named}: {each.error}"] if each.error is not None else []
        lines += [f"{named}: {one.name}: {one.error}" for one in each.companions if one.error is not None]
    return lines
