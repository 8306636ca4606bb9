"""What small appends cost: one new line in a log that is kept, and a thousand of them.

``append.py [--lines N]``. A log of recorded shape grows by one line at a time, with an ingest after each, in
process. "written against appended" is the bytes put into chunk rows (small frames, and again when they are
folded) over the bytes appended; "file writes" is what the kernel was given to write, with journal and index.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
import uuid
from pathlib import Path

from backstory import agents
from backstory.ingest.ingest import ingest
from backstory.store import logs, open_store

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


def main() -> None:
    """Append, ingest, measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, default=1000)
    given = parser.parse_args()
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
            for number in range(200, 200 + given.lines):
                data = line(number)
                with log.open("ab") as file:
                    file.write(data)
                appended += len(data)
                started = time.perf_counter()
                report = ingest(store, [claude], environ={}, home=home, now=0)
                times.append((time.perf_counter() - started) * 1000)
                assert report.total("bytes_read") == len(data)
            figures = {
                "one_line_ms_median": statistics.median(times),
                "one_line_ms_p95": statistics.quantiles(times, n=20)[-1],
                "written_against_appended": packed / appended,
                "file_writes_against_appended": (_bytes_written() - before) / appended,
            }
    for name, value in figures.items():
        print(f"{name:30} {value:10.3f}")


def _bytes_written() -> int:
    """Bytes this process gave to write() so far (Linux; 0 elsewhere)."""
    try:
        for row in Path("/proc/self/io").read_text().splitlines():
            if row.startswith("wchar"):
                return int(row.split()[1])
    except OSError:
        pass
    return 0


if __name__ == "__main__":
    main()
