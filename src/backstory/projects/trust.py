"""Trust: who owns a project's store, and so whether its decisions count and whether it may be written.

A store is ours if its path or its file was noted when we created it or a person trusted it. Any other store comes
from elsewhere: it is read and shown, and decides nothing. Facts in, verdict out: nothing here looks at the disk.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class Verdict(StrEnum):
    """The ownership of a store."""

    OURS = "ours"
    ABSENT = "absent"
    """There is none: the first session creates one, which is ours."""
    ELSEWHERE = "elsewhere"
    MACHINE = "machine"
    """It is the home store, at the path of a project's."""


class Place(Struct, frozen=True, kw_only=True):
    """The noted path of a store of ours. Notes of earlier versions lack the device and inode."""

    store_id: str
    path: str
    device: int | None = None
    inode: int | None = None
    merged: int | None = None
    """It was merged into another store of ours when its mtime was this, ns, and holds nothing more since."""


class Seen(Struct, frozen=True, kw_only=True):
    """The file at a path. ``store_id`` is None if it is no store."""

    path: str
    store_id: str | None = None
    device: int | None = None
    inode: int | None = None
    is_named: bool = False
    """A person named this very file, so following a link was their choice."""
    is_link: bool = False
    """The file, or the folder that holds it, is a symbolic link."""
    is_machine: bool = False
    """It is the file of the home store."""


def whose(seen: Seen, noted: Iterable[Place]) -> Verdict:
    """Decide whose a store is. A link that is not noted under its own path may lead anywhere, so it is never ours."""
    if seen.is_machine:
        return Verdict.OURS if seen.is_named else Verdict.MACHINE
    may_lead_anywhere = seen.is_link and not seen.is_named
    for place in noted:
        is_there = place.path == seen.path
        if seen.store_id is None and is_there:
            return Verdict.ABSENT
        is_moved = not may_lead_anywhere and place.inode is not None and _file(place) == _file(seen)
        if place.store_id == seen.store_id and (is_there or is_moved):
            return Verdict.OURS
    return Verdict.ABSENT if seen.store_id is None and not may_lead_anywhere else Verdict.ELSEWHERE


def in_conflict(
    identities: Iterable[str], known: Mapping[str, str | None], place: str, *, is_id_known: bool
) -> set[str]:
    """Return the sessions of a store from elsewhere that the home store knows from another place.

    ``known``: the origin of each session of the home store; None for its own.
    ``is_id_known``: the store has the id of one of ours, so all its sessions claim to be ours.
    """
    return {each for each in identities if is_id_known or (each in known and known[each] != place)}


def _file(place: Place | Seen) -> tuple[int | None, int | None]:
    return place.device, place.inode
