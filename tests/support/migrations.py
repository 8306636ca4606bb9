"""Tables of a team's server as one of before has them."""

from __future__ import annotations

import shutil
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from backstory.server import database
from backstory.server.database import prepared

if TYPE_CHECKING:
    import pytest

MIGRATIONS = sorted(each.name for each in files("backstory.server").joinpath("migrations").iterdir())


def left_at(count: int, folder: Path, monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    """Have the tables of a server of before, which knew so many migrations."""
    (folder / "migrations").mkdir(parents=True)
    for name in MIGRATIONS[:count]:
        source = Path(str(files("backstory.server").joinpath("migrations", name)))
        shutil.copy(source, folder / "migrations")
    with monkeypatch.context() as patched:
        patched.setattr(database, "files", lambda package: folder)
        with prepared(address):
            pass
