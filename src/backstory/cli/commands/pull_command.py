"""``backstory pull``: history of one's own from other machines: by a team's server, over ssh, or out of a folder."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from backstory.cli import output
from backstory.cli.options import json_option
from backstory.cli.trusting import may_act, says_off
from backstory.cli.views.passing import passphrase_file_option, passphrase_of
from backstory.errors import BackstoryError
from backstory.sync import account as accounts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from backstory.cli.app import App
    from backstory.sync.folder import Passphrase
    from backstory.workspace.stores.pulling import Pulled

SHOWN_MAX = 10
CAME = {
    "new": ("new session", "new sessions"),
    "updated": ("session went on", "sessions went on"),
}
NOT_TOUCHED = {
    "differs": "here and there each has something that the other one lacks",
    "less": "what is here has more of it",
}


@click.command("pull")
@click.argument("source", required=False)
@click.option("--program", default="backstory", metavar="PATH", help="Where backstory is on the other machine.")
@passphrase_file_option
@click.option("--plain", is_flag=True, help="Also read files of a folder that are not sealed.")
@click.option("--serve", is_flag=True, hidden=True)
@json_option
@click.pass_obj
def command(
    app: App, source: str | None, program: str, passphrase_file: Path | None, plain: bool, serve: bool, as_json: bool
) -> None:
    """Bring what another machine of yours has, and this one lacks, into the home store. SOURCE: ssh://HOST or a folder.

    Without SOURCE it brings what your other machines sent to the team's server that you are logged in to: masked, and
    without the bytes of logs.

    ssh://USER@HOST:PORT runs your own ssh, and backstory there. A folder is one that `backstory push` writes to on the
    other machine. Of both logs come byte for byte, unmasked. Sessions of this machine are never changed; one that was
    removed here stays removed. A pull that was cut goes on where it was.
    """
    if serve:
        _serve(app)
        return
    if source is None and not accounts.path_of(app.home).exists():
        raise click.UsageError("Missing argument 'SOURCE': ssh://HOST, or a folder. A team's server needs a login.")
    if says_off(app, as_json=as_json):
        return
    may_act(app, app.machine_store)
    if source is None:
        _from_server(app, as_json=as_json)
        return
    if source.startswith("ssh:"):
        pulled = [_from_far(app, source, program, as_json=as_json)]
    else:
        folder = Path(os.path.normpath(app.cwd / Path(source).expanduser()))
        pulled = list(_from_folder(app, folder, passphrase_of(app, passphrase_file, plain=plain)))
    _end(pulled, source, as_json=as_json)


def _end(pulled: Sequence[Pulled], source: str, *, as_json: bool) -> None:
    """Print what came, and exit so."""
    _print(pulled, source, as_json=as_json)
    if any(each.failed or each.passed_over or each.came["differs"] for each in pulled):
        raise click.exceptions.Exit(1)


def _serve(app: App) -> None:
    """Answer the machine that pulls, on standard input and output."""
    from backstory.sync.serving import serve

    app.bring_up_to_date()
    store = app.machine_store
    store.begin()
    serve(store, sys.stdin.buffer, sys.stdout.buffer)


def _from_far(app: App, source: str, program: str, *, as_json: bool) -> Pulled:
    from backstory.sync.far_end import FarEnd, far_address
    from backstory.sync.sources import FarSource
    from backstory.workspace.stores.pulling import pull

    address = far_address(source)
    may_ask = output.can_ask() and not as_json
    with FarEnd(address, program, app.environ, output.talk, may_ask=may_ask) as far:
        hello = far.greet()
        return pull(app.workspace, FarSource(far, source, hello.id), output.progress)


def _from_server(app: App, *, as_json: bool) -> None:
    from backstory.cli.syncing import remote
    from backstory.sync import boards
    from backstory.sync.server_source import sources
    from backstory.workspace.stores.pulling import noted, pull

    own = accounts.account(app.home)
    with remote(app, own) as server:
        found = sources(server, own, lambda id_: noted(app.workspace, id_))
        pulled = [pull(app.workspace, each, output.progress) for each in found]
        try:
            # Where no machine sent one this asks nothing.
            if any(each.has_boards for each in found) and (count := boards.take(server, app.machine_store)):
                output.talk(f"Boards: {output.counted(count, 'item')}.")
        except BackstoryError:
            # What came stays, and is said.
            _print(pulled, own.address, as_json=as_json)
            raise
    _end(pulled, own.address, as_json=as_json)


def _from_folder(app: App, folder: Path, passphrase: Passphrase) -> Iterator[Pulled]:
    from backstory.errors import FolderNotUsable, PassphraseWrong
    from backstory.sync.folder import FolderSource, writers
    from backstory.workspace.stores.pulling import Pulled, noted, pull
    from backstory.workspace.stores.pushing import own_writer

    if not folder.is_dir():
        raise FolderNotUsable(folder, "it is not there")
    found, strange = writers(folder)
    if strange:
        yield Pulled(source=str(folder), passed_over=strange)
    own = own_writer(app.workspace, folder)
    for each in found:
        if each.name != own:
            source = FolderSource(each, passphrase, noted(app.workspace, each.name).files)
            try:
                yield pull(app.workspace, source, output.progress)
            except PassphraseWrong:
                if len(found) == 1:
                    raise
                yield Pulled(source=str(each), passed_over=[f"{each}: it was sealed with another passphrase"])


def _print(pulled: Sequence[Pulled], source: str, *, as_json: bool) -> None:
    from backstory.workspace.stores.pulling import as_json as pulled_as_json

    if as_json:
        output.json({"source": source, "pulled": [pulled_as_json(each) for each in pulled]})
    else:
        counts = {name: sum(len(each.came[name]) for each in pulled) for name in CAME}
        parts = [output.counted(count, *CAME[name]) for name, count in counts.items() if count]
        removed = sum(each.removed for each in pulled)
        parts += [f"{output.counted(removed, 'session')} removed, as there"] if removed else []
        output.data(f"{', '.join(parts) or 'Nothing new'}.")
    for each in pulled:
        for name, why in NOT_TOUCHED.items():
            if uids := each.came[name]:
                more = f" and {len(uids) - SHOWN_MAX} more" if uids[SHOWN_MAX:] else ""
                output.talk(f"Not touched, because {why}: {', '.join(uids[:SHOWN_MAX])}{more}")
        for line in [f"session {one.session}: {one.reason}" for one in each.failed[:SHOWN_MAX]]:
            output.talk(output.one_liner(f"Did not come: {line}"))
        if each.failed[SHOWN_MAX:]:
            output.talk(f"Did not come: {len(each.failed) - SHOWN_MAX} more (--json names them).")
        for line in each.passed_over[:SHOWN_MAX]:
            output.talk(output.one_liner(f"Passed over: {line}"))
