"""How time, memory and the store grow with the logs: ``python -m bench.growth LOGS [--gigabytes 0.1 1 5]``.

LOGS is a home folder with logs, or an archive of one. It is copied again and again, each time with other ids, so that
every copy holds sessions and turns of its own; each size is ingested into a new store, and then
once more with nothing to do.
"""

from __future__ import annotations

import hashlib
import re
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from bench import homes
from bench.figures import Figure, arguments, report
from bench.measuring import empty, peak_mb, spend
from bench.plan import Machine

if TYPE_CHECKING:
    from collections.abc import Iterator

UUID = re.compile(rb"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
IDS = re.compile(rb"(?:msg|toolu|req|call|chatcmpl|rs|fc)_[A-Za-z0-9]{8,}")


def renamed(data: bytes, number: int) -> bytes:
    """A log with other ids: the same id becomes the same other one, wherever it stands."""

    def other(found: re.Match[bytes]) -> bytes:
        digest = hashlib.blake2b(found.group(), digest_size=4, salt=number.to_bytes(8, "big")).hexdigest().encode()
        return digest + found.group()[8:]

    def other_id(found: re.Match[bytes]) -> bytes:
        digest = hashlib.blake2b(found.group(), digest_size=4, salt=number.to_bytes(8, "big")).hexdigest().encode()
        return found.group()[:-8] + digest

    return IDS.sub(other_id, UUID.sub(other, data)) if number else data


def copy(logs: Path, home: Path, number: int, most: float) -> int:
    """Put one copy of the logs into a home folder, up to about ``most`` bytes; gives the bytes."""
    written = 0
    for folder in homes.AGENTS:
        for path in sorted((logs / folder).rglob("*")):
            if written >= most or not path.is_file() or path.is_symlink() or path.suffix in (".db", ".sqlite"):
                continue
            name = renamed(str(path.relative_to(logs)).encode(), number).decode()
            target = home / name
            if target.exists():
                # Its name holds no id: it belongs to nobody in particular.
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            written += target.write_bytes(renamed(path.read_bytes(), number))
    return written


def sizes(logs: Path, gigabytes: list[float], folder: Path) -> Iterator[dict[str, float]]:
    """Each size in turn, in one home folder that grows."""
    home, store = folder / "home", folder / "store"
    home.mkdir()
    size = copies = 0
    for wanted in sorted(gigabytes):
        while size < wanted * 1e9:
            came = copy(logs, home, copies, wanted * 1e9 - size)
            if not came:
                sys.exit(f"{logs} holds no logs of {', '.join(homes.AGENTS)}")
            size, copies = size + came, copies + 1
        machine = Machine(home, store)
        first = spend(machine.command("ingest", before=empty(store)))
        memory = peak_mb(machine.command("ingest", before=empty(store)))
        again = spend(machine.command("ingest"))
        yield {"gb": size / 1e9, "cpu_s": first.cpu_s, "wall_s": first.wall_s, "peak_mb": memory,
               "again_s": again.cpu_s, "store": machine.store.stat().st_size / size}  # fmt: skip


def figures(logs: Path, gigabytes: list[float]) -> Iterator[Figure]:
    """Linear is: a megabyte costs the same, memory stays."""
    with tempfile.TemporaryDirectory() as folder:
        for row in sizes(homes.real(logs, Path(folder, "logs")), gigabytes, Path(folder)):
            name, mb = f"{row['gb']:.2g} GB of copies with other ids", row["gb"] * 1e3
            note = (
                f"again {row['again_s']:.2f} CPU s; wall {mb / row['wall_s']:.0f} MB/s; store ÷ logs {row['store']:.3f}"
            )
            yield Figure(
                name, row["cpu_s"] / mb * 1000, "ms/MB", note=f"{note}; both processes {row['peak_mb']:.0f} MB"
            )


def main() -> None:
    """Print a line for each size."""
    parser = arguments(__doc__)
    parser.add_argument("logs", type=Path)
    parser.add_argument("--gigabytes", type=float, nargs="+", default=[0.1, 1.0])
    given = parser.parse_args()
    report(given, figures(given.logs, given.gigabytes))


if __name__ == "__main__":
    main()
