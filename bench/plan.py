"""What is to be measured, on which logs, beside what."""

from __future__ import annotations

import subprocess
import tarfile
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from bench.figures import Figure, profiled
from bench.measuring import ROOT, Command, Quiet, backstory, environment

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.peers import Peer


@dataclass(frozen=True)
class Before:
    """An earlier revision of ours."""

    revision: str
    source: Path | None
    """The folder with its package; nothing if it cannot be had."""
    why_not: str = ""


@dataclass(frozen=True)
class Plan:
    """All that a section needs."""

    logs: Path
    """A home folder with real logs, or an archive of one."""
    work: Path
    """A folder for throw-away files."""
    before: Before
    peers: dict[str, Peer]
    quiet: Quiet
    runs: int
    quick: bool
    profiles: bool

    def profiled(self, figure: Figure, lines: Callable[[], list[str]]) -> Figure:
        """A figure, with its profile if its bound is not met and profiles are wanted."""
        return profiled(figure, lines, wanted=self.profiles)


@dataclass(frozen=True)
class Machine:
    """Logs, and the store that ours makes of them."""

    home: Path
    folder: Path

    @property
    def store(self) -> Path:
        """The store's file."""
        return self.folder / "store.db"

    def command(self, *words: str, before: Callable[[], None] | None = None, **more: str) -> Command:
        """A command of ours; ``before`` is done before each run."""
        made = Command(backstory(*words), environment(self.home, self.folder, **more), self.home)
        return made if before is None else Command(made.words, made.env, made.cwd, before)


def earlier(revision: str, folder: Path) -> Before:
    """The package as it was at a revision, from git."""
    if not revision:
        return Before("", None, "no revision is named to compare with")
    done = subprocess.run(["git", "-C", str(ROOT), "archive", revision, "src"], capture_output=True, check=False)
    if done.returncode:
        return Before(revision, None, f"git has no {revision}: {done.stderr.decode().strip()[:120]}")
    with tarfile.open(fileobj=BytesIO(done.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return Before(revision, folder / "src")
