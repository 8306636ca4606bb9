"""Trust: whose a store is that lies in a project, and so whether its decisions count and whether it may be written.

A store is ours if it was noted, with its path or with its file, when we made it or when a person trusted it. Any other
comes from elsewhere: it is read and shown, and decides nothing. Facts in, verdict out: nothing here looks at the disk.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class Verdict(StrEnum):
    """Whose a store is."""

    OURS = "ours"
    ABSENT = "absent"
    """There is none: the first session begins one, and it is ours."""
    ELSEWHERE = "elsewhere"
    MACHINE = "machine"
    """It is the machine's own store, in the place of a project's."""


class Place(Struct, frozen=True, kw_only=True):
    """Where a store of ours lies, as noted. Notes of earlier versions lack the file's device and inode."""

    store_id: str
    path: str
    device: int | None = None
    inode: int | None = None


class Seen(Struct, frozen=True, kw_only=True):
    """What lies at a path. ``store_id`` is None where no store is."""

    path: str
    store_id: str | None = None
    device: int | None = None
    inode: int | None = None
    is_named: bool = False
    """A person named this very file, so what it is a link to was their choice."""
    is_link: bool = False
    """The file, or the folder that holds it, is a symbolic link."""
    is_machine: bool = False
    """It is the file of the machine's own store."""


def whose(seen: Seen, noted: Iterable[Place]) -> Verdict:
    """Whose a store is. A link that was not noted under its own path may lead anywhere, so it is never ours."""
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
    """The sessions of a store from elsewhere that the machine's store knows from another place: not to be touched.

    ``known``: where the machine's store took each session that it has; None for those that are its own.
    ``is_id_known``: the store's id is one of ours, so all that it holds claims to be ours.
    """
    return {each for each in identities if is_id_known or (each in known and known[each] != place)}


def _file(place: Place | Seen) -> tuple[int | None, int | None]:
    return place.device, place.inode
