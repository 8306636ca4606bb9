"""Other indexers of the same logs, in a folder of their own: ``python -m bench.peers FOLDER`` installs them.

One that cannot be installed is left out and says why: nobody's registry or network can fail a measurement.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

INSTALL_S = 120
VERSIONS = {"agentsview": "0.46.1", "puenteo": "0.13.0", "agsearch": "0.2.0"}
"""Those that ours was compared with; another version is another program."""


class Peer(NamedTuple):
    """Another indexer."""

    name: str
    version: str
    program: Path | None
    why_not: str = ""

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


def installed(folder: Path) -> dict[str, Peer]:
    """Each peer, with its program if it could be installed."""
    why_not = "" if (folder / "bin").is_dir() else _run([sys.executable, "-m", "venv", str(folder)])
    return {name: _installed(folder, name, version, why_not) for name, version in VERSIONS.items()}


def none(why_not: str) -> dict[str, Peer]:
    """No peers, for a reason."""
    return {name: Peer(name, version, None, why_not) for name, version in VERSIONS.items()}


def _installed(folder: Path, name: str, version: str, why_not: str) -> Peer:
    program = folder.absolute() / "bin" / name
    marker = folder / f"{name}-{version}"
    if not why_not and not marker.exists():
        pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        why_not = _run([*pip, f"{name}=={version}"])
        if not why_not:
            marker.touch()
    if not why_not and not program.exists():
        why_not = f"it brings no program {name}"
    return Peer(
        name, version, None if why_not else program, why_not and f"{name} {version} is not installed: {why_not}"
    )


def _run(words: list[str]) -> str:
    """Why a command failed, in a line; nothing if it did not."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=INSTALL_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as failed:
        return str(failed).splitlines()[0][:200]
    if not done.returncode:
        return ""
    said = [line for line in (done.stderr + done.stdout).splitlines() if line.strip() and "WARNING" not in line]
    return next((line for line in said if "ERROR" in line), [*said, f"exit code {done.returncode}"][-1])[:200]


def main() -> None:
    """Install them, and say what is there."""
    for peer in installed(Path(sys.argv[1])).values():
        print(f"{peer}: {peer.program or peer.why_not}")


if __name__ == "__main__":
    main()
