"""How time, memory and the store grow: ``python -m bench.growth LOGS [--gigabytes 0.1 1 4] [--sessions 1000 10000]``.

LOGS is a home folder with logs, or an archive of one. It is copied again and again, each time with other ids, so that
every copy holds sessions and turns of its own. Sessions are small: a prompt and an answer. Each size is ingested into a
new store, then once more with nothing to do, and asked. A factor is what an answer takes more than at the size before,
divided by how much more there is: linear is 1.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import tempfile
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from bench import homes, startup
from bench.figures import Figure, arguments, report
from bench.measuring import answer, empty, peak_mb, spend
from bench.plan import Machine

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

UUID = re.compile(rb"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
IDS = re.compile(rb"(?:msg|toolu|req|call|chatcmpl|rs|fc)_[A-Za-z0-9]{8,}")

ASKED = {
    "ingest, nothing new": ("ingest",), "list --all": ("list", "--all"), "search": ("search", "the"),
    "stats --all": ("stats", "--all"), "show": ("show", "SESSION"),
}  # fmt: skip
TIMES = 3
"""The best of so many runs of a question counts."""
FACTOR_MAX = 1.1
SESSIONS = (1_000, 10_000, 100_000)


class Size(NamedTuple):
    """What one size took. ``amount``: bytes or sessions; ``cpu_s`` and ``peak_mb`` by command, over bare Python."""

    name: str
    amount: float
    cpu_s: dict[str, float]
    peak_mb: dict[str, float]
    store: float
    """Bytes of the store ÷ bytes of the logs."""


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


def copied(logs: Path, gigabytes: Iterable[float], folder: Path) -> Iterator[Size]:
    """Sizes of copied logs, in one home folder that grows."""
    machine = Machine(folder / "home", folder / "store")
    machine.home.mkdir()
    size = copies = 0
    for wanted in sorted(gigabytes):
        while size < wanted * 1e9:
            came = copy(logs, machine.home, copies, wanted * 1e9 - size)
            if not came:
                sys.exit(f"{logs} holds no logs of {', '.join(homes.AGENTS)}")
            size, copies = size + came, copies + 1
        yield measured(machine, f"{size / 1e9:.2g} GB of copies", size, size)


def small(sessions: Iterable[int], folder: Path) -> Iterator[Size]:
    """Numbers of small sessions, each in a home folder of its own."""
    for number in sorted(sessions):
        machine = Machine(folder / f"{number}", folder / f"{number}-store")
        machine.home.mkdir()
        yield measured(machine, f"{number:,} small sessions", number, homes.small(machine.home, number))


def measured(machine: Machine, name: str, amount: float, logs: int) -> Size:
    """Ingest the logs of a machine, and ask."""
    ingest = machine.command("ingest", before=empty(machine.folder))
    bare = min(spend(startup.bare(machine)).cpu_s for _ in range(TIMES))
    cpu_s, memory = {"ingest": spend(ingest).cpu_s - bare}, {"ingest": peak_mb(ingest)}
    newest = json.loads(answer(machine.command("list", "--all", "--json", "--limit", "1")))["sessions"][0]["uid"]
    for question, words in ASKED.items():
        command = machine.command(*(word.replace("SESSION", newest) for word in words))
        cpu_s[question] = min(spend(command).cpu_s for _ in range(TIMES)) - bare
        memory[question] = peak_mb(command)
    return Size(name, amount, cpu_s, memory, machine.store.stat().st_size / logs)


def figures(sizes: Iterable[Size]) -> Iterator[Figure]:
    """What each size takes, beside the size before."""
    before: Size | None = None
    for size in sizes:
        yield Figure(f"{size.name}: store ÷ logs", size.store)
        for command, cpu_s in size.cpu_s.items():
            name, memory = f"{size.name}: {command}", size.peak_mb[command]
            grown = "" if before is None else f", {memory / before.peak_mb[command]:.2f} × the size before"
            yield Figure(name, cpu_s * 1000, "ms", note=f"{memory:.0f} MB{grown}")
            if before is not None:
                yield Figure(f"{name}, factor", factor(before, size, command), most=FACTOR_MAX)
        before = size


def factor(before: Size, size: Size, command: str) -> float:
    """How much more a command takes than at the size before, divided by how much more there is."""
    return size.cpu_s[command] / before.cpu_s[command] / (size.amount / before.amount)


def main() -> None:
    """Print a line for each figure."""
    parser = arguments(__doc__)
    parser.add_argument("logs", type=Path)
    parser.add_argument("--gigabytes", type=float, nargs="*", default=[0.1, 1.0])
    parser.add_argument("--sessions", type=int, nargs="*", default=SESSIONS)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        logs = homes.real(given.logs, Path(folder, "logs"))
        found = chain(
            figures(copied(logs, given.gigabytes, Path(folder))), figures(small(given.sessions, Path(folder)))
        )
        report(given, found)


if __name__ == "__main__":
    main()
