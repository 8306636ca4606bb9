"""The repositories that a person allowed to leave the machine, by name. Nothing that only resembles one is let through.

An entry is a remote (``github.com/me/app``, also as git has it), ``me/app`` for one at github.com, all of an owner
(``github.com/me/*``), or the folder of a repository without a remote (``/work/app``, ``~/app``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from backstory.derive.naming import normalised

if TYPE_CHECKING:
    from collections.abc import Iterable

DEFAULT_HOST = "github.com"
ALL = "*"
_SMALL = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}
"""Letters of ASCII alone: others have small forms that are letters of other names."""


class OptedIn(Struct, frozen=True, kw_only=True):
    """The repositories of a setting. ``keys``: of projects; ``owners``: hosts with owners of which all are meant.

    ``unusable``: entries that name no repository, as they were typed.
    """

    keys: frozenset[str] = frozenset()
    owners: frozenset[str] = frozenset()
    unusable: tuple[str, ...] = ()

    def covers(self, project: str | None) -> bool:
        """Return True if sessions of this project's key may leave."""
        key = _small(project or "")
        return bool(key) and (key in self.keys or key.rpartition("/")[0] in self.owners)


def opted_in(entries: Iterable[str], user_home: str) -> OptedIn:
    """Read the entries of the setting."""
    keys, owners, unusable = set[str](), set[str](), list[str]()
    for entry in entries:
        key = _key(entry.strip(), user_home)
        above, _, last = key.rpartition("/")
        if not key or (ALL in key and (last != ALL or ALL in above or _is_folder(key))):
            unusable.append(entry)
        elif last == ALL:
            owners.add(above)
        else:
            keys.add(key)
    return OptedIn(keys=frozenset(keys), owners=frozenset(owners), unusable=tuple(unusable))


def _key(entry: str, user_home: str) -> str:
    """The key of a project that an entry names; '' if it names none."""
    if entry.startswith("~/"):
        entry = f"{user_home}{entry[1:]}"
    if _is_folder(entry):
        return entry.rstrip("/")
    parts = normalised(entry).strip("/").split("/")
    if not all(parts) or {".", ".."} & {*parts}:
        return ""
    if len(parts) == 2 and "." not in parts[0]:
        parts = [DEFAULT_HOST, *parts]
    return _small("/".join(parts)) if len(parts) > 2 else ""


def _is_folder(key: str) -> bool:
    return key.startswith("/")


def _small(key: str) -> str:
    """A key as it is compared: folders differ by case, remotes do not."""
    return key if _is_folder(key) else key.translate(_SMALL)
