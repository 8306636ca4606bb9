"""Moves a person's home to another folder: what speaks against it, and then the move, or the rest of one.

Who writes in the home keeps it from being moved. Who only reads, as an MCP server or ``show -f``, holds nothing between
two looks, and says afterwards where the home is. ``projects/home_move.py`` says what a kill leaves.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from backstory.errors import (
    BackstoryError,
    HomeHasStore,
    HomeInUse,
    HomeNotFound,
    HomeNotMoved,
    HomeNotWhole,
    HomeWasMoved,
    StoreBusy,
)  # fmt: skip
from backstory.export.installed import SERVER, InstallNotes
from backstory.export.placing import FOLDER as RESUMED
from backstory.ingest.import_folder import FOLDER as IMPORT
from backstory.ingest.lock import WATCHING
from backstory.projects import home_move, link
from backstory.projects.home_files import DATABASES, files_of
from backstory.projects.home_move import HomeMove
from backstory.runs import compactor
from backstory.runs.handover import open_clients
from backstory.runs.lock import LOCKS, is_taken, taken_locks
from backstory.runs.spool import SPOOLS, list_spools
from backstory.store import moves
from backstory.store.file import connection
from backstory.store.moves import Moving
from backstory.store.private import as_ours, make_folder
from backstory.workspace.stores.importing import no_progress

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from backstory.store.moves import MovedFrom
    from backstory.workspace.stores.importing import Progress

NAMED_MAX = 8
"""The most entries that are named in an error."""


class MovedHome(Struct, frozen=True, kw_only=True):
    """The result of a move. Paths in ``moved``, ``skipped`` and ``left`` are below the home."""

    source: Path
    to: Path
    moved: Sequence[str]
    skipped: Sequence[str]
    """They stay in the old folder, because the new one has others of these names."""
    left: Sequence[str]
    """They are not ours, so they stay, too."""
    bytes: int
    is_link: bool
    """The old folder is a link to the new one now."""
    served: Sequence[tuple[str, str]] = ()
    """Agents, each with the settings in which our server still starts with the old folder."""


def as_json(moved: MovedHome) -> dict[str, Any]:
    """A move as ``migrate-home --json`` prints it."""
    return {
        "from": str(moved.source), "to": str(moved.to), "moved_paths": list(moved.moved), "bytes": moved.bytes,
        "skipped_paths": list(moved.skipped), "left_paths": list(moved.left), "symlink": moved.is_link,
        "served": [{"agent": agent, "path": path} for agent, path in moved.served],
    }  # fmt: skip


def move_home(
    source: Path, to: Path, *, current: Path, symlink: bool = False, progress: Progress = no_progress
) -> MovedHome:
    """Move the home ``source`` to the folder ``to``, both absolute, or finish that. ``current``: the home in use.

    ``symlink``: the old folder becomes a link to the new one. Raises HomeNotFound, HomeNotMoved, HomeInUse,
    HomeHasStore, HomeOfOther, HomeWasMoved, HomeCopyDiffers, StoreBusy, NotAStore, DiskFull, CannotWrite.
    """
    real = source.resolve()
    is_linked = source.is_symlink() and real == to.resolve() and bool(files_of(real).units)
    if symlink and (is_linked or link.is_half_replaced(real)):
        # All is done but, perhaps, what the link needs.
        link.replace_by_link(source if is_linked else real, to)
        return _result(HomeMove(source=source, to=real, to_name=to, source_names=[]), is_link=True)
    _check_source(source, real, to, current)
    mark = moves.moved_to(real)
    is_over = mark is not None and mark.is_over
    if mark is not None and is_over and mark.to.resolve() != to.resolve():
        raise HomeWasMoved(source, mark.to)
    _check_target(to)
    with ExitStack() as stack:
        move = _begun(source, real, to, is_over=is_over, symlink=symlink, stack=stack)
        if not is_over:
            _carry_over(move, progress, stack)
        home_move.clear_source(move)
        home_move.finish(move)
        if symlink:
            link.replace_by_link(real, to)
    return _result(move, is_link=symlink)


def _result(move: HomeMove, *, is_link: bool) -> MovedHome:
    left = () if is_link else files_of(move.source).strangers
    served = () if is_link else [(each.agent, each.path) for each in InstallNotes(move.to).all(SERVER)]
    return MovedHome(
        source=move.source_names[0] if move.source_names else move.source, to=move.to_name, moved=move.moved,
        skipped=move.stayed, left=left, bytes=move.bytes, is_link=is_link, served=served,
    )  # fmt: skip


def _begun(source: Path, real: Path, to: Path, *, is_over: bool, symlink: bool, stack: ExitStack) -> HomeMove:
    """The move, once both folders are ours alone. Nothing was written but the new folder."""
    made = not to.exists()
    if is_over and made:
        raise HomeNotFound(to, "is not there now, and the home was moved to it")
    try:
        make_folder(to)
    except OSError as refused:
        raise as_ours(to, refused) from refused
    try:
        stack.enter_context(home_move.folder_held(real))
        stack.enter_context(home_move.folder_held(to))
        earlier = moves.moved_from(to)
        kept = _kept(real, to, earlier, is_over=is_over)
        move = HomeMove(
            source=real, to=to.resolve(), to_name=to, source_names=list(dict.fromkeys([source, real])), kept=kept,
            made_target=made,
        )  # fmt: skip
        if symlink:
            _check_link(move)
    except BackstoryError:
        if made:
            to.rmdir()
        raise
    return move


def _kept(real: Path, to: Path, earlier: MovedFrom | None, *, is_over: bool) -> frozenset[str]:
    """Return the files of the new folder from before the move."""
    if earlier is not None:
        if earlier.source != real:
            raise HomeNotWhole(to, earlier.source, to / moves.MOVED_FROM)
        return earlier.kept
    kept = frozenset(files_of(to).units)
    if is_over and not kept:
        # Perhaps a disk that is not mounted.
        raise HomeNotFound(to, f"does not hold the home that was moved to it from {real}")
    if not is_over and any(each.startswith(DATABASES) for each in kept):
        raise HomeHasStore(real, to)
    return kept


def _carry_over(move: HomeMove, progress: Progress, stack: ExitStack) -> None:
    """Copy all of it to the new folder, check it, and note that in the old one."""
    moving = Moving(move.source, move.to_name)
    stack.callback(moving.close)
    try:
        home_move.check_space(move)
        moves.mark_target(move.to, move.source, move.kept)
        moving.begin()
        check_idle(move.source)
        try:
            home_move.settle_databases(move.source)
        except StoreBusy as refused:
            raise HomeInUse(move.source, "Another process has its store open") from refused
        with progress("Copying") as note:
            home_move.copy_all(move, note)
        with progress("Checking") as note:
            home_move.check_all(move, note)
        moving.commit()
    except (BackstoryError, OSError):
        # An interrupt leaves what was copied for the next time.
        moving.take_back()
        home_move.take_back(move)
        raise


# what speaks against it -----------------------------------------------------------------------------------------


def _check_source(source: Path, real: Path, to: Path, current: Path) -> None:
    """Refuse a folder that is no home of ours: its files would only be called like ours."""
    if not real.is_dir():
        raise HomeNotFound(source, "is no folder: name the one that holds store.db")
    target = to.resolve()
    if target == real:
        raise HomeNotMoved(f"{to} is {source}: name another folder.")
    if target.is_relative_to(real) or real.is_relative_to(target):
        raise HomeNotMoved(f"One of {source} and {to} lies in the other: name a folder beside it.")
    home_move.check_owner(real)
    if (unfinished := moves.moved_from(real)) is not None:
        raise HomeNotWhole(source, unfinished.source, real / moves.MOVED_FROM)
    store = real / moves.STORE
    if connection.exists(store):
        connection.check_header(store)
    elif moves.moved_to(real) is None and not (real == current.resolve() and files_of(real).units):
        raise HomeNotFound(source, "holds no home store: name the folder that holds store.db")


def _check_target(to: Path) -> None:
    """Refuse a target that is no folder of the person's own."""
    if to.exists() and not to.is_dir():
        raise HomeNotMoved(f"{to} is a file: name a folder.")
    if to.exists():
        home_move.check_owner(to)


def _check_link(move: HomeMove) -> None:
    """Refuse to make a link of a folder in which something stays."""
    found = files_of(move.source)
    stay = [*found.strangers, *home_move.differing(move)]
    if stay:
        named = ", ".join(stay[:NAMED_MAX])
        raise HomeNotMoved(
            f"--symlink makes a link of {move.source}, and these would stay in it: {named}. Move them away, or leave "
            "--symlink out."
        )


def check_idle(home: Path, done: str = "moved", path: Path | None = None) -> None:
    """Raise HomeInUse while something works in the home that is not over at once.

    ``done``: what is then not done with ``path``, by default the home.
    """
    path = path or home
    for spool in list_spools(home / SPOOLS):
        if spool.is_alive:
            run = spool.run
            of = f" of session {run.session_uid}" if run is not None else ""
            raise HomeInUse(
                path, f"A run{of} is alive ({spool.folder.name})", "Wait for it, or: backstory cancel", done=done
            )
    for uid in compactor.under_way(home):
        raise HomeInUse(path, f"Session {uid} is being summarised", done=done)
    for name in taken_locks(home / LOCKS):
        if name == WATCHING:
            raise HomeInUse(path, "`backstory ingest --watch` follows logs", "End it", done=done)
        raise HomeInUse(path, f"Session {name} is in use", done=done)
    if is_taken(home / IMPORT):
        raise HomeInUse(path, "`backstory import` imports sessions", done=done)
    for uid in open_clients(home / RESUMED):
        raise HomeInUse(path, f"Session {uid} is open in its agent's own client", "Close it", done=done)
