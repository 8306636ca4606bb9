"""Work in the sessions of a list: turns, and what a person would report of them. Each turn counts once."""

from __future__ import annotations

import time
from array import array
from contextlib import suppress
from itertools import chain, groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

from msgspec import Struct
from msgspec.structs import replace

from backstory.ask import attempts as stored_attempts
from backstory.ask import work
from backstory.derive.check_programs import DeedKind
from backstory.derive.deeds import CHECKS, is_aside, is_below, made, succeeded, was_refused
from backstory.derive.git_values import Commit
from backstory.derive.naming import main_folder
from backstory.derive.phrasing import phrases_report
from backstory.errors import GitFailed, NoGit
from backstory.model import ToolResult
from backstory.projects import git
from backstory.store.tables import events

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from backstory.ask.attempts import Attempt
    from backstory.ask.work import DoneDeed, StoredWork, WorkTurn
    from backstory.export.full_form import FullForms
    from backstory.projects.git_history import GitHistory
    from backstory.store import Session, Store
    from backstory.store.intake.derived_tables import StoredRef
    from backstory.workspace.history.listing import Listing
    from backstory.workspace.history.sessions import ListedSession, SessionFilter

    _Placed = tuple[int, int, int]

REPOSITORIES_MAX = 30
"""Git is asked about no more repositories in one report: those of the work that is drawn first."""
REPOSITORY_SECONDS = 5.0
SECONDS_MAX = 15.0
"""No further repository is asked when all together took this long."""
SECOND_MS, MONTH_MS = 1_000, 30 * 86_400_000
READ_AT_ONCE = 100
"""The most sessions whose work is held at once."""
PLACES_AT_ONCE = 2_000
"""Progress is reported each time that so many sessions were listed."""
_NOBODY = ("[", True)
"""Behind every uid."""
_TOLD_BY_OUTPUT = (DeedKind.COMMIT, DeedKind.PULL_REQUEST)


class SessionWork(Struct, frozen=True, kw_only=True):
    """A session with its own turns, and what was done in them, subagents' deeds with it.

    ``turns``: those that began in the time that was asked for; ``deeds``: of these and of earlier ones, in order.
    ``roots``: the folders that paths are shown below, also as they were called before they were moved.
    ``session``: where several were asked for, without its cost.
    """

    session: ListedSession
    turns: tuple[WorkTurn, ...]
    deeds: tuple[DoneDeed, ...]
    refs: tuple[StoredRef, ...]
    roots: tuple[str, ...]
    is_covered: bool = True
    """Else its edits, and what its calls returned, are not known: index.repositories leaves them out."""
    rank: int = 0
    """Its place in the list."""


@runtime_checkable
class KnowsWork(Protocol):
    """A store without events, which was told the work in its sessions."""

    def work_of(self, session_ids: Sequence[int], *, is_named: bool = False) -> dict[int, StoredWork]:
        """The work of these sessions, as ``ask.work.of_sessions`` has it; ``is_named``: commits with their names."""


class HandCommits:
    """Commits of what sessions edited and left to others, as git says; ``until``: authored before this time.

    ``makers``: returns the uids of the sessions whose own calls made a commit.
    """

    def __init__(
        self, environ: Mapping[str, str], makers: Callable[[str], Iterable[str]], until: int | None = None
    ) -> None:
        self._environ, self._makers, self._until = environ, makers, until
        self._asked: dict[Path, _Asked] = {}
        self._over = time.monotonic() + SECONDS_MAX

    def of(self, work: SessionWork, edits: Sequence[DoneDeed]) -> tuple[str, str | None] | None:
        """The last commit of these edits, and the session that made it, if any; None if one of them is not committed.

        A file that is not there, and in no commit since, was needed for a while only. Git is not asked about folders
        that a store from elsewhere names: nobody here was in them.
        """
        last: dict[str, int | None] = {each.text: each.at for each in edits}
        times = [at for at in last.values() if at is not None]
        if work.session.elsewhere is not None or not times or len(times) < len(last):
            return None
        commits, places = list[Commit](), dict[Path, list[str]]()
        for path, at in last.items():
            place = _place_now(path, work.roots)
            root = None if place is None else git.repository_root(place.parent)
            if place is None or root is None:
                return None
            commit = self._commits(root, min(times)).get(place.relative_to(root).as_posix())
            if commit is not None and commit.authored + SECOND_MS > (at or 0):
                commits.append(commit)
                places.setdefault(root, []).append(place.relative_to(root).as_posix())
            elif place.exists():
                return None
        if not commits or not self._are_as_committed(places):
            return None
        newest = max(commits, key=lambda each: each.authored)
        return newest.hash, next(iter(self._makers(newest.hash)), None)

    def _are_as_committed(self, places: Mapping[Path, Sequence[str]]) -> bool:
        """Return True if the files are as the last commit has them: another branch's commit is not this work's."""
        try:
            return all(self._asked[root].history.is_clean(paths) for root, paths in places.items())
        except (NoGit, GitFailed):
            return False

    def _commits(self, root: Path, since: int) -> dict[str, Commit]:
        """The newest commit of each file of a repository since a time, or since an earlier one."""
        from backstory.projects.git_history import GitHistory

        asked = self._asked.get(root)
        if asked is None and (len(self._asked) == REPOSITORIES_MAX or time.monotonic() > self._over):
            return {}
        if asked is None or since < asked.since:
            history = GitHistory(root, self._environ, seconds=REPOSITORY_SECONDS) if asked is None else asked.history
            # Other sessions may have edited there before.
            since, commits = max(0, since - MONTH_MS), {} if asked is None else dict(asked.commits)
            # What an earlier question found stays where a longer one takes too long.
            with suppress(NoGit, GitFailed):
                commits |= history.committed_since(since, self._until)
            self._asked[root] = asked = _Asked(history, since, commits)
        return asked.commits


class _Asked(NamedTuple):
    """The newest commit of each file of a repository since a time, in ms since 1970, by the file's path."""

    history: GitHistory
    since: int
    commits: dict[str, Commit]


def _place_now(path: str, roots: Sequence[str]) -> Path | None:
    """The place of a file that was edited, by the folder of its session as it is called now; None where that is gone.

    What was in a worktree that is gone is in the folder that the worktree was in.
    """
    holders = [each for each in roots if is_below(path, each)] if path.startswith("/") else [""]
    if not holders:
        return Path(path)
    holder = next((each for each in holders if main_folder(each) != each), holders[0])
    folders = [holder, main_folder(holder), *roots, *map(main_folder, roots)]
    try:
        folder = next((each for each in folders if each.startswith("/") and Path(each).is_dir()), None)
        short = path[len(holder.rstrip("/")) :].lstrip("/")
        return None if folder is None else (Path(folder) / short).resolve()
    except (OSError, ValueError, RuntimeError):
        return None


def done_in(
    listing: Listing, wanted: SessionFilter, report: Callable[[int, int | None], None]
) -> Iterator[SessionWork]:
    """Yield the work in listed sessions; those without a turn of their own in the time are left out.

    Those of one branch of a repository come together, in the order of the list. A turn that phrased a report is none,
    as it is about other work. ``report`` receives how many sessions were read, of how many; None while these are
    counted.
    """
    stores = listing.stores(everywhere=wanted.everywhere)
    places, done = _by_place(listing, stores, wanted, lambda: report(0, None)), 0
    listed = [{session_id for each in places for _, at, session_id in each if at == n} for n in range(len(stores))]
    total = sum(map(len, listed))
    for _, group in groupby(chain.from_iterable(places), key=itemgetter(1)):
        while some := list(islice(group, READ_AT_ONCE)):
            report(done, total)
            yield from _done(listing, stores, some, listed, wanted)
            done += len(some)


class _Places:
    """Sessions of one branch of a repository: of each its rank in the list, its store's number and its id there.

    There may be very many of them, and they are held while all are read.
    """

    def __init__(self) -> None:
        self._numbers = array("q")

    def add(self, rank: int, store: int, session_id: int) -> None:
        self._numbers.extend((rank, store, session_id))

    def __iter__(self) -> Iterator[_Placed]:
        numbers = iter(self._numbers)
        return zip(numbers, numbers, numbers, strict=True)


def _by_place(listing: Listing, stores: list[Store], wanted: SessionFilter, go_on: Callable[[], None]) -> list[_Places]:
    places: dict[tuple[str, str | None], _Places] = {}
    numbers, names = {id(store): number for number, store in enumerate(stores)}, listing.project_names()
    keys: dict[tuple[str | None, ...], str] = {}
    for rank, (store, place) in enumerate(listing.each_place(stores, wanted)):
        if rank % PLACES_AT_ONCE == PLACES_AT_ONCE - 1:
            go_on()
        # A folder that was moved is another one for what began there later.
        facts = place.created if store.moves else None, *place[5:]
        if facts not in keys:
            keys[facts] = place.shown(names, store.moves).key
        places.setdefault((keys[facts], place.branch), _Places()).add(rank, numbers[id(store)], place.id)
    return list(places.values())


def _done(
    listing: Listing, stores: list[Store], some: Sequence[_Placed], listed: Sequence[Collection[int]],
    wanted: SessionFilter,
) -> Iterator[SessionWork]:  # fmt: skip
    """Yield the work in some sessions of one store."""
    store, ids = stores[some[0][1]], [session_id for _, _, session_id in some]
    sessions = {each.id: each for each in store.several_sessions(ids)}
    found_here = [(store, each) for each in sessions.values()]
    values = listing.values(stores, found_here, {}, {}, everywhere=wanted.everywhere, is_priced=False)
    as_listed = dict(zip(sessions, values, strict=True))
    stored = _stored(store, list(sessions))
    first = _first_holders(stores, listed, [turn.uid for each in stored.values() for turn in each.turns])
    for rank, _, session_id in some:
        if (session := sessions.get(session_id)) is None:
            continue
        found, own = stored[session_id], (session.uid, store.is_elsewhere)
        copied = {each.uid for each in found.turns if first.get(each.uid, own) < own or phrases_report(each.prompt)}
        mine = [each for each in found.turns if each.uid not in copied and wanted.is_in_time(each.started)]
        if mine:
            deeds = [each for each in found.deeds if each.turn_uid not in copied and _is_before(wanted.until, each.at)]
            own_work = found._replace(turns=mine, deeds=deeds)
            yield _work(store, session, as_listed[session_id], own_work, rank=rank)


def _first_holders(
    stores: Sequence[Store], listed: Sequence[Collection[int]], uids: Sequence[str]
) -> dict[str, tuple[str, bool]]:
    """The listed session that has the original of each of these turns: of a copied turn that with the smallest uid."""
    first: dict[str, tuple[str, bool]] = {}
    for store, those in zip(stores, listed, strict=True):
        for uid, session_id, session_uid in store.ask(work.holders, uids):
            holder = session_uid, store.is_elsewhere
            if session_id in those and holder < first.get(uid, _NOBODY):
                first[uid] = holder
    return first


def work_of(store: Store, session: Session, value: ListedSession) -> SessionWork:
    """Return the work in one session, with all its turns, copies of others' too, and the names of its commits."""
    return _work(store, session, value, _stored(store, [session.id], is_named=True)[session.id], is_named=True)


def settled_work(store: Store, session_id: int, *, is_named: bool) -> StoredWork:
    """Return the work in a session without that of subagents, by the whole of what each of its calls returned.

    ``is_named``: also of commits and pull requests that seem to be made, which it then names.
    """
    from backstory.export.full_form import FullForms  # only who derives for others asks

    stored, forms = store.ask(work.of_sessions, [session_id])[session_id], FullForms(store)
    own = [each for each in stored.deeds if each.session_id == session_id]
    is_open = (
        each.kind in CHECKS or (each.kind in _TOLD_BY_OUTPUT and (is_named or bool(each.failed))) for each in own
    )
    whole = [_by_whole(store, forms, each) if so else each for each, so in zip(own, is_open, strict=True)]
    return stored._replace(deeds=[replace(each, cut=None) for each in whole if each is not None])


def _stored(store: Store, session_ids: list[int], *, is_named: bool = False) -> dict[int, StoredWork]:
    if isinstance(store, KnowsWork):
        return store.work_of(session_ids, is_named=is_named)
    return store.ask(work.of_sessions, session_ids)


def _work(
    store: Store, session: Session, value: ListedSession, stored: StoredWork, *, rank: int = 0, is_named: bool = False
) -> SessionWork:
    roots = _roots(store, session)
    counted = [each for each in stored.deeds if not is_aside(each.text if _is_edit(each) else each.folder, roots)]
    return SessionWork(
        session=value, turns=tuple(stored.turns), deeds=tuple(_settled(store, counted, is_named=is_named)),
        refs=tuple(stored.refs), roots=roots, is_covered=stored.is_covered, rank=rank,
    )  # fmt: skip


def below(path: str, roots: Iterable[str]) -> str | None:
    """A path as it is below the first of these folders that holds it; None outside of them all.

    >>> below("/p/src/a.py", ["/p"]), below("/q/a.py", ["/p"])
    ('src/a.py', None)
    """
    return next((path[len(each.rstrip("/")) + 1 :] for each in roots if is_below(path, each)), None)


def _roots(store: Store, session: Session) -> tuple[str, ...]:
    """The folders of a session, the outermost first."""
    now = [each for each in (session.root, session.worktree, session.cwd, session.recorded_cwd) if each]
    earlier = [before for each in now for before in store.moves.earlier(each)]
    return tuple(sorted(dict.fromkeys([*now, *earlier]), key=len))


def _is_edit(deed: DoneDeed) -> bool:
    return deed.kind == DeedKind.EDIT


def _settled(store: Store, deeds: list[DoneDeed], *, is_named: bool) -> Iterator[DoneDeed]:
    """The same by the whole of what was returned, where that decides: of the last checks, and of what seems to fail.

    ``is_named``: of all commits and pull requests, which it names.
    """
    from backstory.export.full_form import FullForms  # few sessions end in a long output

    forms, left = None, set(CHECKS)
    settled: list[DoneDeed] = []
    for deed in reversed(deeds):
        is_open = deed.kind in left or (deed.kind in _TOLD_BY_OUTPUT and (is_named or deed.failed))
        is_by_whole = is_open and deed.cut is not None
        now = _by_whole(store, forms := forms or FullForms(store), deed) if is_by_whole else deed
        if now is not None:
            left.discard(now.kind)
            settled.append(now)
    yield from reversed(settled)


def _by_whole(store: Store, forms: FullForms, deed: DoneDeed) -> DoneDeed | None:
    """A deed by the whole text that its call returned; None if a person refused it."""
    if deed.cut is None:
        return deed
    stored = store.ask(events.of_records, deed.session_id, [deed.cut])
    said = "\n".join(each.content for each in map(forms.expand, stored) if isinstance(each, ToolResult))
    if was_refused(deed.failed, said):
        return None
    return replace(deed, ok=succeeded(deed, deed.failed, said), made=made(deed.kind, said))


def _is_before(until: int | None, at: int | None) -> bool:
    return until is None or at is None or at < until


# attempts -------------------------------------------------------------------------------------------------------------
# Attempts in the sessions of a list: their turns, and calls with how each ended. Each turn counts once.


class SessionAttempts(Struct, frozen=True, kw_only=True):
    """A session with its own turns of the time that was asked for, and what was tried in them, also by subagents.

    ``root``: the folder that its paths are below.
    """

    session: ListedSession
    turns: tuple[WorkTurn, ...]
    attempts: tuple[Attempt, ...]
    root: str | None


def tried_in(
    listing: Listing, wanted: SessionFilter, report: Callable[[int, int], None]
) -> tuple[SessionAttempts, ...]:
    """Return the attempts in listed sessions, the first begun first; ``report``: (done, total) sessions.

    A turn that phrased a report is left out.
    """
    placed = listing.placed(wanted)
    found, met = list[SessionAttempts](), set[str]()
    # The original of a copied turn has the smaller uid.
    for number, (store, session, value) in enumerate(sorted(placed, key=lambda each: each[1].uid)):
        report(number, len(placed))
        turns, attempts = store.ask(stored_attempts.of_session, session.id)
        worked = [each for each in turns if each.uid not in met and not phrases_report(each.prompt)]
        mine = [each for each in worked if wanted.is_in_time(each.started)]
        foreign = {each.uid for each in turns} - {each.uid for each in mine}
        met |= {each.uid for each in turns}
        if mine:
            found.append(
                SessionAttempts(
                    session=value, turns=tuple(mine), root=session.worktree or session.cwd,
                    attempts=tuple(
                        each for each in attempts
                        if each.turn_uid not in foreign
                        and (each.session_uid == session.uid or wanted.is_in_time(each.at))
                    ),
                )
            )  # fmt: skip
    return tuple(found)
