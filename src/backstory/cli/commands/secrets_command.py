"""``backstory secrets``: which stored sessions hold secrets, without showing one."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from backstory.ask import scoped
from backstory.cli import CommandGroup, output, removing
from backstory.cli.options import (
    chosen_sessions,
    filter_options,
    json_option,
    readable,
    sessions_argument,
    store_option,
)
from backstory.cli.trusting import may_act, trust_option
from backstory.derive.secrets import Redactor
from backstory.errors import StoreNotFound, UnknownValue
from backstory.ids import LABEL_LENGTH, session_keys
from backstory.projects.secret_notes import ACCEPTED, AcceptedSecrets
from backstory.workspace.history.sessions import SessionFilter
from backstory.workspace.located import LocatedSession
from backstory.workspace.runs.unsent import drop_unsent
from backstory.workspace.stores.secret_scan import SecretScan

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from backstory.cli.app import App
    from backstory.store import Session, Store
    from backstory.workspace.stores.secret_scan import ScanCounts, SecretFinding, SecretPlaceFound

FOUND = 1
ALL = "all"
SESSIONS_SHOWN_MAX, PLACES_SHOWN_MAX, REASONS_SHOWN_MAX = 20, 12, 20
"""The most that is listed; --json has all."""
COMMAND = "backstory secrets scan"


@click.group("secrets", cls=CommandGroup)
def command() -> None:
    """Find the secrets in what is stored; none is ever shown."""


@command.command("scan")
@sessions_argument
@filter_options
@click.option("--baseline", metavar="FILE", help="The accepted secrets are in this file, not in the home's own.")
@click.option("--accept", metavar="NAME", multiple=True, help="Accept this secret, or all, from now on (repeatable).")
@click.option("--rm", "removes", is_flag=True, help="Delete the sessions that are listed, as `rm` does.")
@click.option("--yes", "-y", is_flag=True, help="With --rm: do not ask.")
@json_option
@trust_option
@store_option
@click.pass_context
def _scan(
    ctx: click.Context, sessions: tuple[str, ...], chosen: dict[str, Any], baseline: str | None,
    accept: tuple[str, ...], removes: bool, yes: bool, as_json: bool,
) -> None:  # fmt: skip
    """List the secrets in stored sessions, each with its places, by the shapes that masks go by.

    No value is printed. A secret is called by its mask, which is the same in what you export, and made with a key of
    this machine. A place is a record (`show SESSION @12`) or a file beside the log. What was looked through is noted,
    so the next scan reads only what is new. Images, and other bytes in base64, are not looked at.

    Exit code 1: there are some that nobody accepted. Those that you accepted are counted and not listed.
    """
    app: App = ctx.obj
    if removes and accept:
        raise click.UsageError("Give one of --rm and --accept.")
    if not any(store.exists for store in app.stores):
        raise StoreNotFound(app.home_store.path)
    scan = SecretScan(app.home, app.workspace.now)
    path = app.home / ACCEPTED if baseline is None else app.cwd / readable(baseline)
    accepted = AcceptedSecrets(path, scan.key)
    with output.progress("Looking for secrets") as progress:
        for store, ids in _wanted(app, sessions, chosen):
            scan.scan(store, ids, progress)
    if accept:
        accepted.accept(each.secret for each in _named(scan.findings, accept))
    new = [each for each in scan.findings if each.secret.digits not in accepted.secrets]
    shown = _Shown(new, Redactor(people=False, key=lambda: scan.key))
    if as_json and not removes:
        output.json(_as_json(scan, shown, new))
    elif not as_json:
        _tell(scan, shown, new)
    if removes and new:
        is_gone, uids = _remove(app, shown, yes=yes)
        if as_json:
            output.json(_as_json(scan, shown, new) | {"uids": uids})
        ctx.exit(0 if is_gone else FOUND)
    if as_json and removes:
        output.json(_as_json(scan, shown, new) | {"uids": []})
    ctx.exit(FOUND if new else 0)


def _wanted(app: App, named: Sequence[str], chosen: dict[str, Any]) -> Iterator[tuple[Store, set[int] | None]]:
    """Yield each store with the sessions that are meant; None: all of it. Without the home's it is the project's."""
    if named:
        located = [app.workspace.resolve(each) for each in named]
        for store in {id(each.store): each.store for each in located}.values():
            ids = [each.session.id for each in located if each.store is store]
            yield store, set(store.ask(scoped.with_subagents, ids))
    elif chosen:
        found = chosen_sessions(app, SessionFilter(**chosen, everywhere=True, subagents=True, unread=True))
        for store in {id(store): store for store, _ in found}.values():
            yield store, {session.id for where, session in found if where is store}
    else:
        for store in [app.home_store] if app.home_store.exists else app.stores:
            yield store, None


def _named(findings: Sequence[SecretFinding], names: Sequence[str]) -> list[SecretFinding]:
    """Return the findings that are named. Raises UnknownValue."""
    known = {name: each for each in findings for name in (each.secret.digits, each.secret.name)}
    if unknown := [readable(name) for name in names if name != ALL and name not in known]:
        raise UnknownValue("--accept", unknown[0], [each.secret.name for each in findings])
    return list(findings) if ALL in names else [known[name] for name in names]


class _Shown:
    """The sessions of findings, by the store and the id there, and their files without a secret in a name."""

    def __init__(self, findings: Sequence[SecretFinding], redactor: Redactor) -> None:
        self.redactor = redactor
        self._sessions: dict[tuple[int, int], LocatedSession] = {}
        meant = [where for each in findings for where in each.sessions]
        for store in {id(store): store for store, _ in meant}.values():
            ids = sorted({session_id for where, session_id in meant if where is store})
            for session in store.several_sessions(ids):
                self._sessions[id(store), session.id] = LocatedSession(store, session)

    @property
    def located(self) -> list[LocatedSession]:
        return list(self._sessions.values())

    def session_of(self, place: SecretPlaceFound) -> Session:
        return self._sessions[id(place.store), place.session_id].session

    def file(self, place: SecretPlaceFound) -> str | None:
        return None if place.file is None else self.redactor.text(place.file)

    def errors(self, counts: ScanCounts) -> list[tuple[str, str]]:
        return [(self.redactor.text(path), self.redactor.text(reason)) for path, reason in counts.errors]


def _remove(app: App, shown: _Shown, *, yes: bool) -> tuple[bool, list[str]]:
    """Remove the sessions, if a person agrees; whether they went, and the uids. Raises as ``rm`` does."""
    found = shown.located
    for store in {id(each.store): each.store for each in found}.values():
        may_act(app, store)
    removal = removing.removal_of(app, found)
    # A title or a prompt may be what holds the secret.
    if not removing.is_agreed_to(found, removal, yes=yes, copies=False, has_titles=False):
        return False, []
    removed = removal.perform(app.home, removing.report)
    if removed.prompts:
        output.talk(f"Deleted {output.counted(len(removed.prompts), 'queued prompt')}.")
        removed.prompts = []
    removing.talk(removal, removed, drop_unsent(app.home, removal.uids), shown.redactor.text)
    return True, list(removal.uids)


def _tell(scan: SecretScan, shown: _Shown, new: Sequence[SecretFinding]) -> None:
    for each in new:
        output.data(f"{each.secret.name}: {output.counted(len(each.places), 'place')}")
        lines = list(_lines(each, shown))
        for line in lines[:SESSIONS_SHOWN_MAX]:
            output.data(output.one_liner(f"    {line}"))
        if len(lines) > SESSIONS_SHOWN_MAX:
            output.data(f"    … and {len(lines) - SESSIONS_SHOWN_MAX} more sessions; --json lists all.")
    counts = scan.counts
    what = output.counted(len(new), "secret") if new else "No secret"
    where = f" in {output.counted(len(shown.located), 'session')}" if new else ""
    old = len(scan.findings) - len(new)
    accepted = f", and {old:,} that you accepted" if old else ""
    looked = f"{output.counted(counts.logs, 'log')}, {output.counted(counts.files, 'file')} beside logs"
    output.talk(f"{what}{where}{accepted}. Looked through: {looked} ({output.size(counts.bytes)} of them new).")
    if new:
        output.talk(f"Accept one: {COMMAND} --accept {new[0].secret.name} · delete the sessions: {COMMAND} --rm")
    _tell_problems(counts, shown)


def _tell_problems(counts: ScanCounts, shown: _Shown) -> None:
    if counts.not_text:
        output.talk(f"Not looked at: {output.counted(counts.not_text, 'file')} beside logs, no text.")
    for path, reason in shown.errors(counts)[:REASONS_SHOWN_MAX]:
        output.talk(output.one_liner(f"Not read: {path}: {reason}"))
    if len(counts.errors) > REASONS_SHOWN_MAX:
        output.talk(f"… and {len(counts.errors) - REASONS_SHOWN_MAX} more; --json lists all.")
    if not counts.is_noted:
        output.talk("The home could not be written to: the next scan reads all of it again.")


def _lines(finding: SecretFinding, shown: _Shown) -> Iterator[str]:
    """A line for each session: as `show` takes it, and the places in it."""
    by_session: dict[str, list[str]] = {}
    for place in finding.places:
        uid = shown.session_of(place).uid
        by_session.setdefault(uid, []).append(_place(place, shown))
    for uid, places in by_session.items():
        more = f" … {len(places) - PLACES_SHOWN_MAX} more" if len(places) > PLACES_SHOWN_MAX else ""
        yield f"{uid[:LABEL_LENGTH]} {' '.join(places[:PLACES_SHOWN_MAX])}{more}"


def _place(place: SecretPlaceFound, shown: _Shown) -> str:
    if (file := shown.file(place)) is not None:
        return os.fsencode(file).decode("utf-8", "replace")
    return "(around its records)" if place.seq is None else f"@{place.seq}"


def _as_json(scan: SecretScan, shown: _Shown, new: Sequence[SecretFinding]) -> dict[str, Any]:
    counts = scan.counts
    return {
        "secrets": [
            {
                "mask": each.secret.name, "kind": each.secret.kind, "fingerprint": each.secret.digits,
                "sighting_count": len(each.places), "session_count": len(each.sessions),
                "sightings": [
                    session_keys(shown.session_of(place).uid) | {"seq": place.seq, "sidecar": shown.file(place)}
                    for place in each.places
                ],
            }
            for each in new
        ],
        "accepted_count": len(scan.findings) - len(new),
        "logs_read": counts.logs,
        "sidecars_read": counts.files,
        "bytes_read": counts.bytes,
        "sidecars_without_text": counts.not_text,
        "errors": [{"path": path, "reason": reason} for path, reason in shown.errors(counts)],
    }  # fmt: skip
