"""Findings about the machine and the home folder: SQLite, the clock, marks of a move, permissions, room."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from backstory.bounds import size
from backstory.errors import BackstoryError
from backstory.export.installed import SERVER, InstallNotes
from backstory.projects.home_state import closed_above, is_network
from backstory.projects.registry import file_at
from backstory.store import moves
from backstory.store.file import maintenance, untouched
from backstory.workspace.care.findings import US, Finding
from backstory.workspace.place import HOME_STORE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from backstory.workspace.care.case import Case

DAY_MS = 86_400_000
ROOM_LEAST_BYTES = 16 * 1024 * 1024
"""With less room than this an ingest may fail."""
PRUNE = (US, "prune", "--older", "1y")
"""It lists what would go, and asks."""
HOME_VARIABLE = "BACKSTORY_HOME"


def of_machine(case: Case) -> Iterator[Finding]:
    """SQLite, and the clock."""
    version = untouched.sqlite_version()
    if lacking := untouched.sqlite_lacks(version):
        yield Finding(name="sqlite-lacks", about=f"SQLite {version}", detail=", ".join(lacking))
    # The file system dates our files by the same clock.
    if (written := _written_ms(case.store)) > case.now + DAY_MS:
        yield Finding(name="clock-wrong", detail=f"it says {_day(case.now)}, and a file was written on {_day(written)}")
    elif (newest := case.look(case.store).newest_ms) > case.now + DAY_MS:
        yield Finding(name="times-ahead", about=str(case.store), detail=f"the newest is of {_day(newest)}")


def of_settings(case: Case) -> Iterator[Finding]:
    """Settings that cannot be read."""
    if isinstance(case.settings, BackstoryError):
        yield Finding(name="settings-broken", detail=str(case.settings))


def of_marks(case: Case) -> Iterator[Finding]:
    """A home that is no folder, that was moved, or whose move was not finished: then nothing else can be asked."""
    home = case.home
    if (closed := closed_above(home)) is not None:
        mend = ("chmod", "u+rwx", str(closed.folder)) if closed.is_own else ()
        yield Finding(name="home-closed", about=str(closed.folder), command=mend)
    elif home.is_file():
        yield Finding(name="home-not-a-folder", about=str(home))
    elif (moved := moves.moved_to(home)) is not None and moved.is_over:
        yield Finding(
            name="home-moved", about=str(home), command=("export", f"{HOME_VARIABLE}={moved.to}"),
            detail=f"it is in {moved.to} now",
        )  # fmt: skip
    elif (source := moves.moved_from(home)) is not None:
        yield Finding(
            name="home-half-moved", about=str(home), command=(US, "migrate-home", str(source.source), str(home))
        )


def of_home(case: Case) -> Iterator[Finding]:
    """A home that is gone, copied, open to others, another's, read-only, or on a network file system."""
    home, state = str(case.home), case.home_state
    if state is None:
        if case.is_home_set and not case.named:
            yield Finding(name="home-gone", about=home, command=(US, "ingest"))
        return
    if not state.is_writable:
        mend = ("chmod", "u+rwx", home) if state.may_own else ()
        yield Finding(name="home-read-only", about=home, command=mend)
    if state.owner is not None:
        own = case.home.stat().st_uid if state.owner != case.home.stat().st_uid else case.user_home.stat().st_uid
        yield Finding(
            name="home-of-other", about=home, detail=f"account {state.owner}",
            command=("sudo", "chown", "-R", str(own), home),
        )  # fmt: skip
    if state.is_open:
        yield Finding(name="home-open", about=home, command=("chmod", "-R", "go=", home), is_safe=True)
    if is_network(state.file_system):
        yield Finding(name="home-on-network", about=home, detail=state.file_system)
    own_id = case.look(case.store).store_id
    for other in _other_homes(case):
        if own_id and case.look(other / HOME_STORE).store_id == own_id:
            yield Finding(name="home-copied", about=home, detail=f"the other is {other}")


def of_disk(case: Case) -> Iterator[Finding]:
    """Room on the disk of the home."""
    if case.home_state is None:
        return
    free, bytes_ = case.home_state.free_bytes, case.look(case.store).bytes
    detail = f"{size(free)} are left"
    if free < ROOM_LEAST_BYTES:
        yield Finding(name="disk-full", about=str(case.home), detail=detail, command=PRUNE)
    elif free < (needed := bytes_ + bytes_ // maintenance.ROOM_PART):
        yield Finding(
            name="disk-low", about=str(case.home), detail=f"{detail}, and it may take {size(needed)}", command=PRUNE
        )


def _other_homes(case: Case) -> list[Path]:
    """Other homes that this machine knows of: the default one, and those that agents' clients are started with."""
    noted = (home_of(each.entry) for each in InstallNotes(case.home).all(SERVER))
    found = [case.default_home, *(Path(each) for each in noted if each)]
    here = file_at(case.store)
    return [each for each in dict.fromkeys(found) if file_at(each / HOME_STORE) not in (None, here)]


def home_of(entry: Mapping[str, object]) -> str:
    """The home that an agent's settings start our server with; '' for the default one."""
    environ = entry.get("env")
    return str(environ.get(HOME_VARIABLE) or "") if isinstance(environ, dict) else ""


def _written_ms(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns // 1_000_000
    except OSError:
        return 0


def _day(ms: int) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(ms / 1000))
