"""Sessions that are no longer wanted: which they are, what removing them frees, and the removal.

A plan is made without changing anything. It names every session that goes, and those that stay although they were
meant, each with the reason. A session goes as ``backstory rm`` has it go.
"""

from __future__ import annotations

import shutil
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

from backstory.ask import room
from backstory.ask.room import FileRoom
from backstory.derive.naming import main_folder
from backstory.derive.pruning import SUMMARIES, TOOL_OUTPUTS, Pruning
from backstory.errors import BackstoryError, PruneRefused
from backstory.ingest.pruning import prune_session
from backstory.model import Compacted, ToolResult, UserMessage
from backstory.runs.lock import host, is_held
from backstory.runs.spool import SPOOLS, list_spools
from backstory.store.file import erasing, maintenance
from backstory.store.tables import session_filter
from backstory.store.tables.queue import Queue, QueuedKind
from backstory.workspace.history.listing import Listing
from backstory.workspace.history.sessions import SessionFilter
from backstory.workspace.runs.unsent import drop_unsent
from backstory.workspace.stores.removing import Removal, with_copies_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from backstory.ask.room import RoomSession, Share
    from backstory.store import Store
    from backstory.workspace.decisions import Late
    from backstory.workspace.place import Place
    from backstory.workspace.stores.importing import Progress

SUBAGENTS = "subagents"
NAMED = "named"
AT_ONCE = 100
"""The most sessions that are removed in one transaction of each store."""
DISK_PART = 3
"""A transaction takes no more of what the disk has free than one of so many parts, unless one session needs more."""
PAGES = 1.02
"""The bytes of a file that a packed byte takes."""
DERIVED_TEXTS = 2
"""The texts in what is derived of a session, answers and summaries, are one of so many parts of it."""
UID_SHOWN = 12
RUNS, WAITS = "it runs, or a run of it is not stored yet", "a prompt is queued for it"
IS_NAMED = "it has a name"


class PruneWish(Struct, frozen=True, kw_only=True):
    """The sessions that are no longer wanted: all that is said must be true of one. Sizes in bytes of the file."""

    before: int | None = None
    """Only those that were last active before this time (ms)."""
    larger: int | None = None
    to_size: int | None = None
    """Only so many, those that were active longest ago first, that the store is no longer than this."""
    wanted: SessionFilter = SessionFilter(everywhere=True)
    """Only those that it lets through; it has no times."""
    gone: bool = False
    """Only those whose project's folder is gone."""
    of_subagents: bool = False
    """Subagents alone, and not the sessions that they worked for."""
    keeps_named: bool = False
    partly: Pruning = Pruning()
    """The parts of a session that go; nothing said: all of it."""

    @property
    def is_partial(self) -> bool:
        """True if the sessions stay, without some of what they say."""
        return bool(self.partly.words)

    @property
    def is_narrow(self) -> bool:
        """True if not simply every session is meant."""
        said = (self.before, self.larger, self.to_size)
        return (
            self.gone
            or self.of_subagents
            or bool(self.partly.kinds)
            or self.wanted.is_narrow
            or any(each is not None for each in said)
        )


class PruneChoice(Struct, kw_only=True):
    """A session that goes, with those that go with it. ``bytes``: of its logs; ``room``: in the files, about."""

    uid: str
    label: str
    agent: str
    project: str
    active: int
    uids: list[str]
    owners: set[str]
    is_named: bool
    bytes: int
    room: int
    here: dict[Path, int]
    """The room that it takes in each store."""


class Spared(Struct, frozen=True):
    """A session that was meant, and that stays."""

    uid: str
    label: str
    reason: str


class StoreRoom(Struct, kw_only=True):
    """A store, and its length before and after; before the removal the second one is about that."""

    path: Path
    before: int
    after: int
    is_due: bool
    """It may still hold what was removed earlier."""


class PrunePlan(Struct, kw_only=True):
    """The sessions that go, those that stay, and the stores."""

    going: list[PruneChoice]
    spared: list[Spared]
    stores: list[StoreRoom]
    partly: Pruning = Pruning()
    is_enough: bool = True
    """False if the store stays longer than was asked for."""

    @property
    def frees(self) -> int:
        """The bytes that are free on the disk afterwards, about."""
        return sum(each.before - each.after for each in self.stores)

    @property
    def is_empty(self) -> bool:
        """True if nothing is to be done."""
        return not self.going and not any(each.is_due for each in self.stores)


class Pruned(Struct, kw_only=True):
    """The result of pruning. ``copies``: how many sessions hold copies of turns of those that went."""

    uids: list[str]
    spared: list[Spared]
    stores: list[StoreRoom]
    late: list[Late]
    copies: int
    problems: list[BackstoryError]


class SeenStore(NamedTuple):
    """A store, with its sessions and its room."""

    store: Store
    rows: dict[int, RoomSession]
    families: dict[int, list[int]]
    fits: frozenset[int]
    room: FileRoom
    is_due: bool

    @property
    def by_uid(self) -> dict[str, RoomSession]:
        """The sessions by their uids."""
        return {each.uid: each for each in self.rows.values()}


class Pruner:
    """Prunes the stores of a machine; where a store was named, that one alone."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._is_alone = bool(place.named)
        home = place.home_store
        others = [] if self._is_alone else [place.project_store, *place.known_projects.stores()]
        ours = [home, *(each for each in others if not each.is_elsewhere)]
        self.stores = [*{each.path: each for each in reversed(ours) if each.exists}.values()][::-1]

    # planning -------------------------------------------------------------------------------------------------------

    def plan(
        self, wish: PruneWish, note: Callable[[int, int], None] = lambda done, total: None, *, is_measured: bool = True
    ) -> PrunePlan:
        """Choose what goes. Changes nothing. Raises UnknownAgent.

        ``is_measured``: False where nobody wants to know what it frees; then a session may be among those that are
        pruned in part of which nothing goes.
        """
        is_measured = is_measured or wish.larger is not None or wish.to_size is not None
        seen, chosen = self.look(wish, note, is_measured=is_measured)
        busy, spared, going = self._busy(), list[Spared](), list[PruneChoice]()
        for each in sorted(chosen.values(), key=lambda each: (each.active, each.uid)):
            reason = IS_NAMED if wish.keeps_named and each.is_named else self._reason(each, busy)
            if reason:
                spared.append(Spared(each.uid, each.label, reason))
            else:
                going.append(each)
        if wish.is_partial and is_measured:
            going = self._shrunk(going, spared, seen, wish, note)
        is_enough = True
        if wish.to_size is not None and seen:
            going, is_enough = _down_to(wish.to_size, going, seen[0])
        stores = [_room_of(each, going) for each in seen]
        return PrunePlan(going=going, spared=spared, stores=stores, partly=wish.partly, is_enough=is_enough)

    def look(
        self, wish: PruneWish, note: Callable[[int, int], None], *, is_measured: bool = True
    ) -> tuple[list[SeenStore], dict[str, PruneChoice]]:
        """Return the stores with what is in them, and the sessions that are meant, by uid."""
        seen = list[SeenStore]()
        for number, store in enumerate(self.stores):
            note(number, len(self.stores))
            seen.append(self._seen(store, wish, (note if len(self.stores) == 1 else _ignore) if is_measured else None))
        return seen, self._chosen(seen, wish)

    def _shrunk(
        self, going: Sequence[PruneChoice], spared: list[Spared], seen: Sequence[SeenStore], wish: PruneWish,
        note: Callable[[int, int], None],
    ) -> list[PruneChoice]:  # fmt: skip
        """Return those of which something goes, each with what only that frees; ``spared`` receives who refuses."""
        found, left = list[PruneChoice](), wish.to_size
        enough = seen[0].room.used - left if left is not None else None
        for number, each in enumerate(going):
            if enough is not None and enough <= 0:
                break
            note(number, len(going))
            try:
                freed = {(at.store.path, uid): self._freed(at, uid, wish.partly) for at in seen for uid in each.uids}
            except PruneRefused as refused:
                spared.append(Spared(each.uid, each.label, refused.why))
                continue
            uids = {uid for (_, uid), size in freed.items() if size is not None}
            if not uids:
                continue
            each.uids = [uid for uid in each.uids if uid in uids]
            each.here = {
                at.store.path: sum(size or 0 for (path, _), size in freed.items() if path == at.store.path)
                for at in seen
                if at.store.path in each.here
            }
            each.room = sum(each.here.values())
            found.append(each)
            if enough is not None:
                enough -= each.here.get(seen[0].store.path, 0)
        return found

    def _freed(self, seen: SeenStore, uid: str, what: Pruning) -> int | None:
        """The bytes of a file that pruning a session in part frees, about; None where nothing is to be done."""
        row = seen.by_uid.get(uid)
        if row is None:
            return None
        freed = prune_session(seen.store, seen.store.session(row.id), what, is_dry=True)
        if not freed.records and freed.after == freed.before:
            return None
        share = seen.room.shares[row.id]
        index = share.of_kinds(_kinds_that_go(what, share)).words
        derived = share.derived / DERIVED_TEXTS if what.keep is not None else 0
        return max(round((freed.before - freed.after) * PAGES + index + derived), 0)

    def _seen(self, store: Store, wish: PruneWish, note: Callable[[int, int], None] | None) -> SeenStore:
        rows = store.ask(room.sessions)
        families = store.ask(room.families, rows, of_subagents=wish.of_subagents)
        asked = Listing(self._place).filter_of(store, wish.wanted)
        conditions, values = session_filter.conditions(asked)
        fits = store.ask(room.fitting, conditions, values)
        measured = store.ask(room.measure, note) if note is not None else FileRoom(used=0, free=0, own=0, shares={})
        is_due = store.ask(erasing.is_due)
        return SeenStore(store, {each.id: each for each in rows}, families, fits, measured, is_due)

    def _chosen(self, seen: Sequence[SeenStore], wish: PruneWish) -> dict[str, PruneChoice]:
        """The sessions that are meant, by uid; of one that several stores have, its room in each."""
        found: dict[str, PruneChoice] = {}
        for each in seen:
            for top in each.fits.intersection(each.families):
                new = self._choice(each, top)
                if (known := found.get(new.uid)) is None:
                    found[new.uid] = new
                    continue
                known.here |= new.here
                known.room += new.room
                known.active = max(known.active, new.active)
                known.uids = [*dict.fromkeys([*known.uids, *new.uids])]
                known.owners |= new.owners
                known.is_named |= new.is_named
        there: dict[str, bool] = {}
        gone = {
            row.uid for each in seen for row in each.rows.values() if wish.gone and _is_gone(each.store, row, there)
        }
        return {
            uid: each
            for uid, each in found.items()
            if (wish.before is None or each.active < wish.before)
            and (wish.larger is None or each.room > wish.larger)
            and (not wish.gone or uid in gone)
        }

    def _choice(self, seen: SeenStore, top: int) -> PruneChoice:
        row, family = seen.rows[top], [seen.rows[each] for each in seen.families[top]]
        moves, shares = seen.store.moves, seen.room.shares
        project, root, cwd = (each and moves.here(each, row.created) for each in (row.project, row.root, row.cwd))
        taken = sum(shares[each.id].bytes for each in family if each.id in shares)
        number = f"S{row.number}" if row.number is not None and row.owner == seen.store.id else ""
        return PruneChoice(
            uid=row.uid, label=row.name or number or row.uid[:UID_SHOWN], agent=row.agent or "",
            project=self._place.project_names().of(project, row.repository, root, cwd).name,
            active=max(each.active for each in family), uids=[each.uid for each in family],
            owners={each.owner for each in family if each.owner is not None},
            is_named=any(each.name for each in family), bytes=sum(each.bytes for each in family), room=taken,
            here={seen.store.path: taken},
        )  # fmt: skip

    # what stays -----------------------------------------------------------------------------------------------------

    def _busy(self) -> dict[str, str]:
        """The sessions that run or wait, by uid, each with the reason why it stays."""
        found = dict[str, str]()
        now = self._place.now()
        for store in self.stores:
            with Queue(store.path, self._place.report) as queue:
                waiting = [*queue.prompts(), *queue.prompts(kind=QueuedKind.HELD)]
                owners = queue.owners()
            found |= {each.session_uid: WAITS for each in waiting}
            found |= {each.session_uid: RUNS for each in owners if each.host != host() and each.is_fresh(now)}
        runs = (spool.run for spool in list_spools(self._place.home / SPOOLS))
        return found | {run.session_uid: RUNS for run in runs if run is not None}

    def _reason(self, choice: PruneChoice, busy: dict[str, str]) -> str:
        """Return the reason that a session stays for; '' if it goes."""
        found = next((busy[uid] for uid in choice.uids if uid in busy), "")
        if not found and any(is_held(self._place.home, uid) for uid in choice.uids):
            found = RUNS
        return found or next(filter(None, map(self._closed, sorted(choice.owners))), "")

    def _closed(self, owner: str) -> str:
        """Return a reason if the store with this id is there and cannot be written."""
        if self._is_alone:
            return ""
        closed = (path for path in self._place.known_projects.places_of(owner) if path.is_file())
        ours = {each.path for each in self.stores if each.is_writable}
        path = next((each for each in closed if each not in ours), None)
        return "" if path is None else f"its store is not to be written: {path}"

    # doing it -------------------------------------------------------------------------------------------------------

    def perform(self, plan: PrunePlan, progress: Progress) -> Pruned:
        """Remove what a plan says, but for what runs or waits by now, and give the room back to the disk.

        It may be stopped at any time: the next call goes on.
        """
        done = Pruned(uids=[], spared=[], stores=plan.stores, late=[], copies=0, problems=[])
        copies, is_partial = set[str](), bool(plan.partly.words)
        with progress("Pruning sessions" if is_partial else "Removing sessions") as note:
            start = 0
            while start < len(plan.going):
                note(start, len(plan.going))
                together = 1 if is_partial else self._together(plan.going[start : start + AT_ONCE])
                going = self._still(plan.going[start : start + together], done)
                try:
                    copies |= self._shrink(going, plan.partly, done) if is_partial else self._remove(going, done)
                except BackstoryError as refused:
                    # Such as a full disk: what went already is freed.
                    done.problems.append(refused)
                    break
                start += together
        done.copies = len(copies.difference(done.uids))
        done.late = [*dict.fromkeys(done.late)]
        with progress("Freeing room") as note:
            for number, each in enumerate(plan.stores):
                note(number, len(plan.stores))
                self._free(each, done)
        return done

    def _still(self, going: Sequence[PruneChoice], done: Pruned) -> list[PruneChoice]:
        """Return those that neither run nor wait by now."""
        busy = self._busy()
        spared = [Spared(each.uid, each.label, reason) for each in going if (reason := self._reason(each, busy))]
        done.spared += spared
        return [each for each in going if each.uid not in {stays.uid for stays in spared}]

    def _shrink(self, going: Sequence[PruneChoice], what: Pruning, done: Pruned) -> set[str]:
        """Prune sessions in part, in every store that has them; returns the uids of those that hold copies."""
        before = len(done.uids)
        for each in going:
            for uid in each.uids:
                holding = [store for store in self.stores if store.has(uid)]
                try:
                    freed = [prune_session(store, store.session(uid), what) for store in holding]
                except PruneRefused as refused:
                    done.spared.append(Spared(each.uid, each.label, refused.why))
                else:
                    done.uids += [uid] * any(size.records or size.before != size.after for size in freed)
        holders = with_copies_of(self.stores, done.uids[before:])
        return {each.uid for each in holders if not {*what.words} <= self._words_pruned(each.uid)}

    def _words_pruned(self, uid: str) -> set[str]:
        """The words for what was pruned of a session."""
        store = next(each for each in self.stores if each.has(uid))
        return {*(store.session(uid).pruned or "").split()}

    def _together(self, going: Sequence[PruneChoice]) -> int:
        """Count those that can be removed at once: the disk has to take about their room until that is free."""
        left, count = shutil.disk_usage(self.stores[0].path.parent).free // DISK_PART, 0
        for each in going:
            left -= each.room
            if left < 0 and count:
                break
            count += 1
        return count

    def _remove(self, going: Sequence[PruneChoice], done: Pruned) -> set[str]:
        """Remove some sessions everywhere; returns the uids of those that hold copies of their turns."""
        places = list(self._places([each.uid for each in going]))
        if not places:
            return set()
        place = self._place
        project = None if place.project_store.is_elsewhere else place.project_store
        removal = Removal(place.decisions, places, project, stores=self.stores if self._is_alone else None)
        removed = removal.perform(place.home, place.report, erases=False)
        drop_unsent(place.home, removal.uids)
        done.uids += removal.uids
        done.late += removed.late
        done.problems += removed.problems
        return {each.uid for each in removal.remaining}

    def _places(self, uids: Collection[str]) -> Iterator[tuple[Store, str]]:
        for uid in uids:
            # One that is gone by now was removed meanwhile.
            if (store := next((each for each in self.stores if each.has(uid)), None)) is not None:
                yield store, uid

    def _free(self, planned: StoreRoom, done: Pruned) -> None:
        store = next(each for each in self.stores if each.path == planned.path)
        try:
            maintenance.free_room(store)
        except BackstoryError as refused:
            if str(refused) not in map(str, done.problems):
                done.problems.append(refused)
        with suppress(OSError):
            planned.after, planned.is_due = _length(store.path), False


def _ignore(_done: int, _total: int) -> None:
    """For who shows no progress."""


def _is_gone(store: Store, row: RoomSession, there: dict[str, bool]) -> bool:
    """True if a session worked here in a folder that is gone, with all that it belonged to."""
    if row.is_imported:
        # Its folders are another machine's.
        return False
    recorded = [each for each in (row.worktree, row.root, row.cwd, row.project) if each and each.startswith("/")]
    now = [store.moves.here(each, row.created) for each in recorded]
    folders = {*now, *map(main_folder, now)}
    for each in folders.difference(there):
        there[each] = _is_there(each)
    return bool(folders) and not any(there[each] for each in folders)


def _is_there(folder: str) -> bool:
    try:
        return Path(folder).exists()
    except OSError:
        # Nobody may look: that says nothing.
        return True


def _kinds_that_go(what: Pruning, share: Share) -> set[str]:
    """The kinds of events whose words go, of those that a session has."""
    if what.keep is None:
        return {ToolResult.kind} if TOOL_OUTPUTS in what.kinds else set()
    return set(share.kinds) - {UserMessage.kind} - ({Compacted.kind} if what.keep == SUMMARIES else set())


def _down_to(size: int, going: Sequence[PruneChoice], seen: SeenStore) -> tuple[list[PruneChoice], bool]:
    """Only the first of these, until the store has no more bytes than that; and whether it then has."""
    left, chosen, path = seen.room.used, list[PruneChoice](), seen.store.path
    for each in going:
        if left <= size:
            break
        if here := each.here.get(path, 0):
            chosen.append(each)
            left -= here
    return chosen, left <= size


def _room_of(seen: SeenStore, going: Sequence[PruneChoice]) -> StoreRoom:
    path, freed = seen.store.path, sum(each.here.get(seen.store.path, 0) for each in going)
    before = _length(path)
    frees = freed + seen.room.free if freed or seen.is_due else 0
    return StoreRoom(path=path, before=before, after=max(before - frees, 0), is_due=seen.is_due)


def _length(path: Path) -> int:
    """The bytes that a store takes on the disk, with those that wait to be moved into it."""
    files = (path, path.with_name(f"{path.name}-wal"))
    return sum(each.stat().st_size for each in files if each.exists())


class PlaceRoom(Struct):
    """The sessions of one agent in one project that go."""

    project: str
    agent: str
    sessions: int = 0
    bytes: int = 0
    room: int = 0


def by_place(going: Sequence[PruneChoice]) -> list[PlaceRoom]:
    """Sum up what goes, by project and agent, the most room first."""
    found: dict[tuple[str, str], PlaceRoom] = {}
    for each in going:
        place = found.setdefault((each.project, each.agent), PlaceRoom(each.project, each.agent))
        place.sessions += 1
        place.bytes += each.bytes
        place.room += each.room
    return sorted(found.values(), key=lambda each: (-each.room, each.project, each.agent))


def reasons(spared: Sequence[Spared]) -> Counter[str]:
    """Count the sessions that stay for each reason."""
    return Counter(each.reason for each in spared)
