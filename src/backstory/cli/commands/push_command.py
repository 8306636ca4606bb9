"""``backstory push``: history of this machine into a folder that other machines of the same person see."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from backstory.cli import output
from backstory.cli.options import json_option
from backstory.cli.trusting import may_act, says_off
from backstory.cli.views.passing import passphrase_file_option, passphrase_of

if TYPE_CHECKING:
    from backstory.cli.app import App
    from backstory.workspace.stores.pushing import Pushed

SHOWN_MAX = 10
UNMASKED = "Nothing is masked in it: it is for machines of your own."


@click.command("push")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--plain", is_flag=True, help="Do not seal it: whoever sees the folder reads your history.")
@click.option("--anew", is_flag=True, help="Write all of it again, and remove what this machine wrote before.")
@passphrase_file_option
@json_option
@click.pass_obj
def command(app: App, folder: Path, plain: bool, anew: bool, passphrase_file: Path | None, as_json: bool) -> None:
    """Write what is new in the home store into FOLDER, for `backstory pull FOLDER` on another machine of yours.

    FOLDER is one that both see: a disk, or one that a service keeps in step. What is written is sealed with a
    passphrase, and unmasked: logs with all their bytes. Each machine writes files of its own. What you removed stays in
    earlier files until --anew.
    """
    from backstory.sync.folder import KEY_FILE
    from backstory.workspace.stores.pushing import as_json as pushed_as_json
    from backstory.workspace.stores.pushing import own_writer, push

    if says_off(app, as_json=as_json):
        return
    may_act(app, app.machine_store)
    app.bring_up_to_date()
    target = Path(os.path.normpath(app.cwd / folder.expanduser()))
    has_key = (target / own_writer(app.workspace, target) / KEY_FILE).exists()
    passphrase = None if plain else passphrase_of(app, passphrase_file, is_new=not has_key)
    done = push(app.workspace, target, passphrase, anew=anew, progress=output.progress)
    if as_json:
        output.json(pushed_as_json(done))
    else:
        _tell(done)
    if done.failed:
        raise click.exceptions.Exit(1)


def _tell(done: Pushed) -> None:
    if done.files:
        parts = [output.counted(len(done.sessions), "session")] if done.sessions else []
        parts += [f"{output.counted(len(done.removed), 'removal')}"] if done.removed else []
        how = "sealed" if done.is_sealed else "in clear"
        files = f"{output.counted(done.files, 'file')}, {output.size(done.bytes)}, {how}"
        output.data(output.one_liner(f"{', '.join(parts)} written to {done.folder} ({files})."))
        output.talk(UNMASKED)
    else:
        output.data(output.one_liner(f"Nothing new for {done.folder}."))
    if done.pruned:
        was = "was" if done.pruned == 1 else "were"
        sessions = output.counted(done.pruned, "session")
        output.talk(f"{sessions} {was} pruned in part and not sent: what was sent before stays as it is there.")
    for each in done.failed[:SHOWN_MAX]:
        output.talk(output.one_liner(f"Not written: session {each.session}: {each.reason}"))
