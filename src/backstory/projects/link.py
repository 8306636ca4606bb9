"""A folder that is replaced by a link to another one, with no moment at which its path leads nowhere.

Where a system cannot exchange two paths in one step there is such a moment, between two steps.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from backstory.store.moves import MOVED_TO
from backstory.store.private import EXCHANGE, as_ours, renamed, sync

if TYPE_CHECKING:
    from pathlib import Path


def replace_by_link(folder: Path, to: Path) -> None:
    """Replace a folder that holds nothing but the mark of its move, or finish that. Raises CannotWrite."""
    beside = folder.with_name(f".{folder.name}.link")
    aside = folder.with_name(f".{folder.name}.moved")
    try:
        if not folder.is_symlink():
            _put_link(folder, to, beside, aside)
        for left in (beside, aside):
            if left.is_symlink():
                left.unlink()
            elif left.is_dir():
                (left / MOVED_TO).unlink(missing_ok=True)
                left.rmdir()
        sync(folder.parent)
    except OSError as refused:
        raise as_ours(folder, refused) from refused


def is_half_replaced(folder: Path) -> bool:
    """Return True if a kill came between the two steps: only what is beside the folder says what was to be there."""
    return not os.path.lexists(folder) and (folder.with_name(f".{folder.name}.moved") / MOVED_TO).exists()


def _put_link(folder: Path, to: Path, beside: Path, aside: Path) -> None:
    if beside.is_symlink():
        beside.unlink()
    beside.symlink_to(to)
    if os.path.lexists(folder):
        if renamed(beside, folder, EXCHANGE):
            return
        folder.rename(aside)
    beside.rename(folder)
