"""A JSON export, imported: read whole into a store of its own, then taken over session by session.

Some sessions are taken over in one transaction, so that a kill leaves none in part; the next import takes the rest.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import IO, TYPE_CHECKING

from msgspec import Struct

from backstory.errors import in_words
from backstory.exchange import replication
from backstory.exchange.imported import Came
from backstory.ids import session_keys
from backstory.ingest.import_folder import staging
from backstory.ingest.json_import import Damaged, JsonImport
from backstory.ingest.pruning import prune_again
from backstory.store.intake import ingesting
from backstory.store.tables import boarding
from backstory.workspace.stores.importing import count_contexts, derive_all, no_progress, settle_lists

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from pathlib import Path

    from backstory.exchange.imported import Staging
    from backstory.ingest.reindex import Reindexed
    from backstory.store import Store
    from backstory.workspace.stores.importing import Progress
    from backstory.workspace.workspace import Workspace

MANY_SESSIONS = 50
"""From so many sessions on the index is merged once, at the end."""


class NotImported(Struct, frozen=True, kw_only=True):
    """A session that could not be taken over, and why."""

    session: str
    reason: str


class Imported(Struct, kw_only=True):
    """The result of an import. The lists are uids."""

    file: str
    sessions: int
    bytes: bool
    """True if it had the logs' bytes."""
    redacted: bool
    trusted: bool
    came: dict[str, list[str]]
    """The result for each session, by the words of ``Came``."""
    removed: int
    """The number of sessions removed here because they were removed in the exporting store."""
    failed: list[NotImported]
    damaged: list[Damaged] = []
    """The sessions that are left out because a line of theirs is wrong."""
    board_items: int = 0
    """The number of items of context boards that came, changed or went."""


def import_json(
    workspace: Workspace,
    file: IO[bytes],
    path: Path,
    size: int,
    *,
    trusted: bool,
    strict: bool = False,
    progress: Progress = no_progress,
) -> Imported:
    """Import an export into the selected store. ``path``: where it lies; ``size``: its bytes, 0 if not known.

    ``strict``: a file with a damaged session is refused. Raises ImportRefused and ImportTooNew, before anything is
    written, ImportRunning, and what writing raises.
    """
    store = workspace.home_store
    with staging(workspace.home, workspace.now) as staged:
        reader = JsonImport(staged, str(path), trusted=trusted, strict=strict)
        with progress("Reading") as note:
            reader.read(file, lambda read: note(read, size))
        done = Imported(
            file=str(path), sessions=len(reader.uids), bytes=reader.head.bytes, redacted=reader.head.redacted,
            trusted=trusted, came={each.value: [] for each in Came}, removed=0, failed=[],
            damaged=reader.damaged,
        )  # fmt: skip
        if not reader.uids and not (trusted and (reader.removed or reader.board_items)):
            return done
        if not store.exists and store is not workspace.machine_store:
            workspace.known_projects.begin(store)
        _take(store, staged, reader.uids, path, done, progress)
        if trusted:
            done.removed = replication.take_removals(store, reader.removed)
            done.board_items = boarding.take(store, reader.board_items)
    derived = derive_what_came(workspace, progress, has_changed=bool(done.came[Came.NEW] or done.came[Came.UPDATED]))
    done.failed += [NotImported(session=each.session, reason=f"not derived: {each.reason}") for each in derived.failed]
    return done


def _take(store: Store, staged: Staging, uids: list[str], path: Path, done: Imported, progress: Progress) -> None:
    with progress("Importing") as note:
        for number, (uid, how) in enumerate(take_over(store, staged, uids, path, trusted=done.trusted), 1):
            if isinstance(how, Came):
                done.came[how.value].append(uid)
            else:
                done.failed.append(NotImported(session=uid, reason=in_words(how)))
            note(number, len(uids))


def take_over(
    store: Store, staged: Staging, uids: Sequence[str], path: Path, *, trusted: bool, followed: Collection[str] = (),
    anew: Collection[str] = (),
) -> Iterator[tuple[str, Came | Exception]]:  # fmt: skip
    """Take over sessions that were put into a store of their own; of each how it came, or why it did not.

    ``followed``: those that came from the same place before, which decides what they are by now; ``anew``: those of
    which it took back what it said before.
    """
    beside = replication.beside(store, staged) if uids else nullcontext()
    with ingesting.bulk(store, is_bulk=len(uids) >= MANY_SESSIONS), beside:
        at = 0
        while at < len(uids):
            taken = replication.take_imported(
                store, staged, uids[at:], path, trusted=trusted, followed=followed, anew=anew
            )
            yield from zip(uids[at:], taken, strict=False)
            at += len(taken)


def derive_what_came(workspace: Workspace, progress: Progress, *, has_changed: bool) -> Reindexed:
    """Derive the rest of sessions that were taken over, and have them listed and found."""
    if has_changed:
        # Of a session that was pruned here what came is pruned again.
        prune_again(workspace.home_store)
    derived = derive_all(workspace, progress, only_stale=True)
    if not derived.sessions and has_changed:
        count_contexts(workspace)
    for each in derived.failed:
        replication.index_compact(workspace.home_store, each.session)
    settle_lists(workspace)
    return derived


def as_json(done: Imported) -> dict[str, object]:
    """Return the result as ``backstory import --json`` prints it."""
    return {
        "file": done.file, "session_count": done.sessions, "has_bytes": done.bytes, "redacted": done.redacted,
        "trusted": done.trusted, "came": done.came, "removed_count": done.removed, "board_items": done.board_items,
        "failed": [session_keys(each.session) | {"reason": each.reason} for each in done.failed],
        "damaged": [_damaged_as_json(each) for each in done.damaged],
    }  # fmt: skip


def _damaged_as_json(damaged: Damaged) -> dict[str, object]:
    keys = session_keys(damaged.session) if damaged.session else {"uid": None, "label": None}
    return keys | {"line": damaged.line, "reason": damaged.reason}
