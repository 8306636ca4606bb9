"""Processor time and memory for what arrives: an export imported into an empty home, again, and once it has grown.

``python -m bench.arriving STORE [--turns N]``. STORE is a store with real sessions. All of it is exported, with the
bytes of logs and without, and each file imported in turn, N times (3), by a process of its own. Figures are medians, in
microseconds an event beyond what an import of nothing takes.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from bench.figures import Figure, arguments, report
from bench.measuring import Command, backstory, empty, environment, in_turn, spend

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

NEW_US = 120
"""The most that an event without the bytes of logs may cost."""
GROWN_BY = 10
"""A session that has grown has this part of its events more, at least one."""
EVENT, SESSION, SESSION_END, END = (b'{"type":"%s"' % each for each in (b"event", b"session", b"session_end", b"end"))


def earlier(lines: Iterable[bytes]) -> Iterator[bytes]:
    """The lines of an export without the last events of each session that has some."""
    events = list[bytes]()
    for line in lines:
        if line.startswith(EVENT):
            events.append(line)
            continue
        if line.startswith(SESSION_END):
            kept = len(events) - (-(-len(events) // GROWN_BY) if len(events) > 1 else 0)
            yield from events[:kept]
            line = msgspec.json.encode(msgspec.json.decode(line) | {"events": kept}) + b"\n"
            events.clear()
        elif events:
            # Names of branches and summaries may stand for records that this leaves out.
            continue
        yield line


def half(lines: Iterable[bytes]) -> Iterator[bytes]:
    """The lines of an export with every second session alone."""
    sessions = 0
    for line in lines:
        sessions += line.startswith(SESSION + b",")
        if line.startswith(END + b","):
            yield msgspec.json.encode(msgspec.json.decode(line) | {"sessions": (sessions + 1) // 2}) + b"\n"
        elif sessions % 2 or not sessions:
            yield line


def nothing(lines: Iterable[bytes]) -> Iterator[bytes]:
    """An export without a session."""
    yield next(iter(lines))
    yield b'{"type":"end","sessions":0}\n'


def figures(store: Path, turns: int, folder: Path) -> Iterator[Figure]:
    """Each of them; ``folder`` receives the files and homes."""
    whole, with_bytes = folder / "whole.jsonl", folder / "with-bytes.jsonl"
    env = environment(folder, store.parent)
    for file, options in ((whole, ["--no-bytes"]), (with_bytes, [])):
        spend(Command(backstory("export", "--all", "--format", "json", *options, "-o", str(file)), env, cwd=folder))
    made = {"earlier": earlier, "half": half, "nothing": nothing}
    for name, make in made.items():
        with whole.open("rb") as lines, (folder / f"{name}.jsonl").open("wb") as written:
            written.writelines(make(lines))
    with whole.open("rb") as lines:
        events = sum(line.startswith(EVENT) for line in lines)

    def importing(name: str, home: str, *, is_new: bool = True) -> Command:
        words, env = backstory("import", "--trust", str(folder / f"{name}.jsonl")), environment(folder, folder / home)
        return Command(words, env, cwd=folder, before=empty(folder / home) if is_new else empty())

    commands = {
        "nothing": importing("nothing", "none"), "half": importing("half", "half"),
        "new": importing("whole", "new"), "again": importing("whole", "new", is_new=False),
        "earlier": importing("earlier", "grown"), "grown": importing("whole", "grown", is_new=False),
        "bytes": importing("with-bytes", "bytes"),
    }  # fmt: skip
    took = in_turn(commands, turns)
    for name, said in (
        ("new", "import, an event"),
        ("again", "import again, an event"),
        ("grown", "import of what has grown, an event of the whole"),
        ("bytes", "import with the bytes of logs, an event"),
    ):
        cpu = took.over(name, "nothing") * 1e6 / max(events, 1)
        yield Figure(said, cpu, "µs", most=NEW_US if name == "new" else None, runs=turns)
    for name, said in (("half", "peak memory, half of the sessions"), ("new", "peak memory, all")):
        size = (folder / f"{'whole' if name == 'new' else name}.jsonl").stat().st_size
        yield Figure(said, took.median(name, "peak_mb"), "MB", runs=turns, note=f"a file of {size / 1e6:.0f} MB")


def main() -> None:
    """Measure and print."""
    parser = arguments(__doc__)
    parser.add_argument("store", type=Path)
    parser.add_argument("--turns", type=int, default=3)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        report(asked, figures(asked.store, asked.turns, Path(folder)))


if __name__ == "__main__":
    main()
