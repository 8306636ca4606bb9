"""Files of a session that its agent wrote and that are gone, and the places where its client looks for them."""

from __future__ import annotations

from functools import partial
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from backstory.errors import CannotResume, LogDiffers, LogNotRead, NoFileToReplace
from backstory.export.files import FILE, inside, kind_of, whole_log
from backstory.export.placing import WantedFile
from backstory.ingest.log_reader import opened
from backstory.ingest.matching import begins_with, is_beginning_of, size_of
from backstory.ingest.reported import is_reported
from backstory.model import Relation
from backstory.store.tables import sidecars
from backstory.store.tables.logs import FILE as LOG_FILE
from backstory.workspace.clients.handing_over import PARENTS_MAX
from backstory.workspace.history.resume_command import is_safe_id
from backstory.workspace.located import LocatedSession

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backstory.agents.contract import ResumePart
    from backstory.store import Log, Store


def own_logs(located: LocatedSession) -> tuple[str, str, list[Log]]:
    """The agent of a session, its own id, and its logs: the one that was last begun comes last."""
    session = located.session
    own = [log for log in located.store.logs(session) if log.kind == LOG_FILE and not is_reported(log.relpath)]
    own = [log for log in own if log.native_id == session.native_id and log.read_to > 0]
    if not own:
        raise CannotResume(located.label, "the store has no log of an agent for it")
    own.sort(key=lambda log: (log.generation, log.id))
    native_id = own[-1].native_id
    if not is_safe_id(native_id):
        raise CannotResume(located.label, f"its agent's own id {native_id[:80]!r} is not an id")
    return own[-1].agent, native_id, own


class MissingFiles:
    """The files of one session. ``root``: the agent's own folder; ``folder``: where its client is started."""

    def __init__(self, part: ResumePart, root: Path, folder: Path) -> None:
        self._part, self._root, self._folder = part, root, folder

    def log(self, located: LocatedSession, kept: list[Log]) -> tuple[Log, tuple[Path, ...], list[WantedFile]]:
        """The log that the client looks for, the places where it does, and the log to put there if it is in none.

        Raises CannotResume, LogDiffers, LogNotRead, NoFileToReplace.
        """
        store = located.store
        log, names = _chosen(located, self._part, kept, self._root, self._folder)
        places = tuple(self._root.joinpath(*inside(str(name))) for name in names)
        missing = [] if _is_there(store, log, places) else [_wanted_log(store, log, self._root, names[0])]
        _check_read(store, log, places)
        return log, places, missing

    def beside(self, store: Store, log: Log, target: Path) -> list[WantedFile]:
        """The files beside a log that are gone."""
        found = [
            WantedFile(target.parent, inside(kept.name), partial(_sidecar, store, kept.id))
            for kept in store.ask(sidecars.of_log, log.id)
            if inside(kept.name)
        ]
        return [each for each in found if kind_of(each.path) is None]

    def subagents(self, located: LocatedSession, above: Path, depth: int = 0) -> list[WantedFile]:
        """The logs of a session's subagents that are gone, with what lies beside them.

        ``above``: the folder of the session's own log, below which no link is followed.
        """
        missing: list[WantedFile] = []
        store = located.store
        for child in store.children(located.session) if depth < PARENTS_MAX else ():
            if child.relation != Relation.SUBAGENT or child.elsewhere is not None:
                continue
            for log in store.logs(child)[-1:]:
                names = self._part.log_names(PurePath(log.relpath), str(self._folder)) if log.kind == LOG_FILE else []
                if not names or is_reported(log.relpath):
                    continue
                places = [self._root.joinpath(*inside(str(name))) for name in names]
                if all(kind_of(each) is None for each in places):
                    missing.append(_below(above, _wanted_log(store, log, self._root, names[0]), places[0]))
                missing += self.beside(store, log, places[0])
            missing += self.subagents(LocatedSession(store, child), above, depth + 1)
        return missing


def _sidecar(store: Store, sidecar_id: int) -> Iterator[bytes]:
    yield store.ask(sidecars.read, sidecar_id)


def _chosen(
    located: LocatedSession, part: ResumePart, kept: list[Log], root: Path, folder: Path
) -> tuple[Log, list[PurePath]]:
    """The log to put back, and where: of several the one that lay where the client looks, else the last."""
    found = [(log, part.log_names(PurePath(log.relpath), str(folder))) for log in kept]
    found = [(log, names) for log, names in found if names]
    if not found:
        raise CannotResume(located.label, f"its client continues no log like {kept[-1].relpath}")
    at_place = [each for each in found if Path(each[0].path) in {root / name for name in each[1]}]
    return (at_place or found)[-1]


def _wanted_log(store: Store, log: Log, root: Path, name: PurePath) -> WantedFile:
    """A log to put at its place. Folders that are there may be links: they are the person's own."""
    folder, parts = root, list(inside(str(name)))
    while len(parts) > 1 and (folder / parts[0]).is_dir():
        folder /= parts.pop(0)
    return WantedFile(folder, tuple(parts), partial(whole_log, store, log))


def _below(above: Path, wanted: WantedFile, path: Path) -> WantedFile:
    """A file to put, without following a link below a folder, if it lies there."""
    return WantedFile(above, path.relative_to(above).parts, wanted.pieces) if path.is_relative_to(above) else wanted


def _is_there(store: Store, log: Log, places: tuple[Path, ...]) -> bool:
    """Return True if one of these files is the log, or continues it. Raises LogDiffers, NoFileToReplace."""
    for path in places:
        kind = kind_of(path)
        if kind is None:
            continue
        if kind != FILE:
            raise NoFileToReplace(path, kind)
        with opened(path) as file:
            if not begins_with(store, file, log):
                raise LogDiffers(path, log.path, is_shorter=is_beginning_of(store, file, log))
        return True
    return False


def _check_read(store: Store, log: Log, places: tuple[Path, ...]) -> None:
    """Check that the store has all of a log that lies elsewhere. Raises LogNotRead."""
    path = Path(log.path)
    if path in places or not path.is_absolute() or not path.is_file():
        return
    with opened(path) as file:
        if size_of(file) != log.read_to or not begins_with(store, file, log):
            raise LogNotRead(path)
