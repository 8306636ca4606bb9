"""The places of Copilot's files, and their names."""

from __future__ import annotations

from pathlib import Path, PurePath

from backstory.agents import jsonl

NAME = "copilot"
FOLDER = "session-state"
EARLIEST = "history-session-state"
DATABASE = "session-store.db"
LOG = "events"


def is_document(path: PurePath) -> bool:
    return path.suffix == ".json" and path.parent.name == EARLIEST


def holds_documents(root: Path) -> bool:
    """Return True if the earliest builds' folder is there, and is not only the way to another one."""
    folder = root / EARLIEST
    return folder.is_dir() and not folder.is_symlink()


def is_moved(root: Path) -> bool:
    """Return True if a root's sessions lie elsewhere by now, so that this is only the way to them."""
    return (root / FOLDER).is_symlink()


def entries_of(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def holds_log(entry: Path) -> bool:
    """Return True if an entry of the sessions' folder is a log, or has one."""
    if entry.name.endswith(jsonl.ENDINGS):
        return True
    return any((entry / f"{LOG}{ending}").exists() for ending in jsonl.ENDINGS)
