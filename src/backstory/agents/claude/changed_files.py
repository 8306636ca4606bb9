"""The files that a shell command changed, as a client saw them that watches the repository it works in."""

from __future__ import annotations

import msgspec
from msgspec import Struct, field

MARK = b'"bashEditDiff"'
"""In every result that lists such files."""


class _ChangedFile(Struct):
    path: str = field(name="filePath")
    created: bool = False
    deleted: bool = False


class _Diff(Struct):
    files: list[_ChangedFile] = field(default_factory=list)
    changed: list[str] = field(default_factory=list, name="changedFiles")


class _ShellResult(Struct):
    diff: _Diff = field(default_factory=_Diff, name="bashEditDiff")


def changes(tool_use_result: bytes) -> dict[str, str]:
    """Return the change of each path by a shell's result: ``create``, ``edit`` or ``delete``."""
    try:
        seen = msgspec.json.decode(tool_use_result, type=_ShellResult).diff
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    found = dict.fromkeys(seen.changed, "edit")
    for each in seen.files:
        found[each.path] = "create" if each.created else "delete" if each.deleted else "edit"
    return found
