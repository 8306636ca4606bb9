"""History sent to the team's server, for the commands that do it: by whose leave, and what a reindex offers."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from backstory.ask import origins
from backstory.cli import output
from backstory.cli.app import now_ms
from backstory.config import SyncSettings
from backstory.errors import NothingMayLeave, NotLoggedIn, ServerBusy, ServerUnreachable
from backstory.sync import account as accounts
from backstory.sync import uploading
from backstory.sync.live_masks import live_masks
from backstory.sync.notes import SyncNotes
from backstory.sync.opted import opted_in
from backstory.sync.outward import machine_of
from backstory.sync.remote import Remote
from backstory.sync.uploading import Uploader
from backstory.workspace import opening
from backstory.workspace.runs.telling import RunTeller, TellingRules
from backstory.workspace.stores import pulling

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from backstory.cli.app import App
    from backstory.store import Store
    from backstory.sync.account import Account
    from backstory.sync.live_masks import LiveMasks
    from backstory.sync.opted import OptedIn
    from backstory.workspace.workspace import Workspace

LOCK = "syncing"
NAMED_MOST = 3
"""The most entries of sync.repositories that the offer names."""


def allowed(app: App) -> Account:
    """Return the login by which history may be sent. Raises NothingMayLeave, NotLoggedIn."""
    settings = app.config.settings.sync
    if not settings.is_enabled:
        raise NothingMayLeave(SyncSettings.is_enabled.key, "true")
    if not settings.repositories:
        raise NothingMayLeave(SyncSettings.repositories.key, "me/app")
    return accounts.account(app.home)


def alone(app: App) -> AbstractContextManager[None]:
    """Keep other syncs of this home waiting: two would write one file of notes. Raises ImportRunning."""
    return pulling.alone(app.workspace, LOCK, "sync")


@contextmanager
def sender(app: App) -> Iterator[tuple[Account, Remote, Uploader]]:
    """Yield the login, its server, and what sends there; says what waits where it is away. Raises as ``allowed``."""
    own = allowed(app)
    with alone(app), remote(app, own) as server:
        notes = SyncNotes.read(accounts.notes_of(app.home, own))
        try:
            yield own, server, uploader(app, server, notes)
        except (ServerUnreachable, ServerBusy):
            found = uploading.waiting(notes, stores(app), opted(app))
            sessions = output.counted(found.session_count, "session")
            events = output.counted(found.event_count, "new event")
            waits = f"Not sent yet: {sessions}, with {events}. The next sync sends them."
            output.talk(waits if found.session_count else "Nothing new waits to be sent.")
            raise


def uploader(app: App, server: Remote, notes: SyncNotes) -> Uploader:
    """Return what sends to a server once."""
    machine, redactor = machine_of(stores(app), str(app.user_home)), partial(app.workspace.redactor, people=False)
    has_boards = app.config.settings.sync.has_board
    return Uploader(server, notes, machine, redactor, app.workspace.now(), has_boards=has_boards)


def remote(app: App, own: Account, *, is_patient: bool = True) -> Remote:
    """Return the server of a login, which is told that this machine asks: by the id of its store, made if need be."""
    app.machine_store.begin()
    return Remote(own.address, own.token, app.machine_store.id, is_patient=is_patient)


def teller(app: App, own: Account, server: Remote) -> RunTeller:
    """Return what tells a server of runs that go on."""

    def masks_of(place: Workspace, uid: str, before: LiveMasks | None) -> LiveMasks | None:
        known = {each.path for each in stores(app)}
        found = [*stores(app), *(each for each in place.stores if each.exists and each.path not in known)]
        return live_masks(
            uid, found, opted(app), SyncNotes.read(accounts.notes_of(app.home, own)),
            machine_of(found, str(app.user_home)), partial(app.workspace.redactor, people=False), now_ms(),
            before,
        )  # fmt: skip

    def rules(masks: LiveMasks) -> TellingRules:
        # Who switched it off, or named other repositories, meanwhile is obeyed.
        settings, uid = _settings(app), masks.session.origin.uid
        covers = opted_in(settings.repositories, str(app.user_home)).covers(masks.session.repository)
        gone = any(uid in each.ask_or([], origins.forgotten) for each in stores(app))
        return TellingRules(settings.is_enabled and covers and not gone, settings.takes_steering)

    return RunTeller(app.home, app.environ, server, masks_of, rules, output.talk, now_ms)


def _settings(app: App) -> SyncSettings:
    """Return the settings as they are now; of ignored ones nothing is said again."""
    return opening.open_workspace(app.cwd, app.environ, store=app.store_path, now=now_ms).config.settings.sync


def stores(app: App) -> list[Store]:
    """Return the stores that may be sent from."""
    return [each for each in app.stores if each.exists]


def opted(app: App) -> OptedIn:
    """Return the repositories that a person named."""
    return opted_in(app.config.settings.sync.repositories, str(app.user_home))


def offer(app: App) -> str | None:
    """Return what a reindex asks once of whoever is logged in: whether to send, too. None: there is nothing to ask."""
    try:
        own = allowed(app)
    except (NothingMayLeave, NotLoggedIn):
        return None
    unusable = opted(app).unusable
    entries = [each for each in app.config.settings.sync.repositories if each not in unusable]
    if own.was_asked or not entries:
        return None
    named = ", ".join(entries[:NAMED_MOST])
    if len(entries) > NAMED_MOST:
        named += f" and {len(entries) - NAMED_MOST} more"
    return (
        f"Also send the history of {named} to {own.address}? Secrets are masked, and the people of "
        f"{own.organisation} may read it. What would leave: backstory sync --dry-run"
    )


def note_asked(app: App) -> None:
    """Note that the offer was answered: it is not made again for this login. Raises CannotWrite."""
    accounts.keep(app.home, replace(accounts.account(app.home), was_asked=True))
