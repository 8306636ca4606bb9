"""What small appends cost: one new line in a log that is kept, and a thousand of them.

``python -m bench.append [--lines N]``. A log of recorded shape grows by one line at a time, with an ingest after each,
in process. "written against appended" is the bytes put into chunk rows (small frames, and again when they are
folded) over the bytes appended; "file writes" is what the kernel was given to write, with journal and index.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

from backstory import agents
from backstory.ingest.ingest import ingest
from backstory.store import open_store
from backstory.store.tables import logs
from bench.figures import Figure, arguments, report

if TYPE_CHECKING:
    from collections.abc import Iterator

CWD = "/home/dev/project"


def line(number: int) -> bytes:
    """A line as Claude Code writes it: a prompt, then answers with tools."""
    common: dict[str, object] = {
        "uuid": str(uuid.UUID(int=number + 1)),
        "parentUuid": str(uuid.UUID(int=number)) if number else None,
        "sessionId": "6f3a1c52-0000-4000-8000-000000000001",
        "timestamp": f"2026-11-{1 + number // 86400:02d}T{number // 3600 % 24:02d}:{number // 60 % 60:02d}:00.000Z",
        "cwd": CWD,
        "version": "2.1.330",
    }
    if number % 20 == 0:
        record: dict[str, object] = {
            "type": "user",
            "message": {"role": "user", "content": f"Please look at step {number}"},
            **common,
        }
    else:
        text = f"Step {number}: the value of item {number * 7919 % 1013} is now {number * 31 % 977}. " * 6
        usage = {"input_tokens": 10, "output_tokens": 50}
        message: dict[str, object] = {"id": f"msg_{number}", "role": "assistant", "model": "m", "usage": usage}
        record = {"type": "assistant", "message": {**message, "content": [{"type": "text", "text": text}]}, **common}
    return json.dumps(record).encode() + b"\n"


def figures(count: int) -> Iterator[Figure]:
    """Append, ingest, measure."""
    packed = 0
    insert = logs.insert_chunks

    def counted(db, log_id, chunks):  # type: ignore[no-untyped-def]
        nonlocal packed
        packed += sum(len(chunk.frame) for chunk in chunks)
        insert(db, log_id, chunks)

    logs.insert_chunks = counted
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        log = home / ".claude" / "projects" / "p" / "6f3a1c52-0000-4000-8000-000000000001.jsonl"
        log.parent.mkdir(parents=True)
        log.write_bytes(b"".join(map(line, range(200))))
        claude = agents.load("claude")
        with open_store(home / "store.db", shared=True) as store:
            ingest(store, [claude], environ={}, home=home, now=0)
            packed, appended, times, before = 0, 0, [], _bytes_written()
            for number in range(200, 200 + count):
                data = line(number)
                with log.open("ab") as file:
                    file.write(data)
                appended += len(data)
                started = time.process_time()
                report_of = ingest(store, [claude], environ={}, home=home, now=0)
                times.append((time.process_time() - started) * 1000)
                assert report_of.total("bytes_read") == len(data)
    p95 = f"95th percentile {statistics.quantiles(times, n=20)[-1]:.1f} ms"
    yield Figure("one line more in a log, in process", statistics.median(times), "ms", note=p95, runs=count)
    yield Figure("bytes put into chunks for each byte appended", packed / appended)
    yield Figure("bytes written to files for each byte appended", (_bytes_written() - before) / appended)


def _bytes_written() -> int:
    """Bytes this process gave to write() so far (Linux; 0 elsewhere)."""
    try:
        for row in Path("/proc/self/io").read_text().splitlines():
            if row.startswith("wchar"):
                return int(row.split()[1])
    except OSError:
        pass
    return 0


def main() -> None:
    """Print the figures."""
    parser = arguments(__doc__)
    parser.add_argument("--lines", type=int, default=1000)
    given = parser.parse_args()
    report(given, figures(given.lines))


if __name__ == "__main__":
    main()
