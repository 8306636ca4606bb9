"""How fast logs go in, beside the least that any such tool must do: parse, compress, index.

``ingest.py HOME [--runs N] [--json]`` ingests the Claude Code and Codex logs below HOME into throw-away stores.
"floor" is a loop that decodes every line with msgspec, compresses the bytes in 1 MB zstd blocks and puts the
same texts into an FTS5 table of the same kind, and keeps nothing else. Runs are interleaved; read the ratios.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MB = 1e6
CHILD = """
import sys, time, json, resource
from pathlib import Path
sys.path.insert(0, {bench!r})
import ingest as bench
print(json.dumps(getattr(bench, {what!r})(Path({home!r}), Path({out!r}))))
"""


def floor(home: Path, out: Path) -> dict[str, float]:
    """Parse, zstd and FTS alone, in one process."""
    import apsw
    import zstandard

    from backstory import agents
    from backstory.derive import index_text
    from backstory.ingest.discover import discover
    from backstory.model import LogIdentity

    logs, _ = discover([agents.load("claude"), agents.load("codex")], {}, home)
    db = apsw.Connection(str(out / "floor.db"))
    db.execute("pragma journal_mode = wal; pragma synchronous = normal; pragma page_size = 8192")
    db.execute("create virtual table f using fts5(content, content='', contentless_delete=1)")
    for name, value in (("automerge", 0), ("crisismerge", 2000), ("hashsize", 32 * 1024 * 1024)):
        db.execute("insert into f(f, rank) values (?, ?)", (name, value))
    compressor = zstandard.ZstdCompressor(level=3)
    started, size = time.perf_counter(), 0
    rows: list[tuple[str]] = []

    def flush() -> None:
        db.execute("begin")
        db.executemany("insert into f(content) values (?)", rows)
        db.execute("commit")
        rows.clear()

    pending = 0
    for log in logs:
        data = Path(log.path).read_bytes()
        for at in range(0, len(data), 1 << 20):
            compressor.compress(data[at : at + (1 << 20)])
        reader = log.agent.log.reader(LogIdentity(native_id="x"), None, lambda: ())
        for line in data.split(b"\n"):
            if line:
                for _, event in reader.read(line, 1).events:
                    found = index_text.searchable(event)
                    if found:
                        rows.append((found[1],))
        size += len(data)
        pending += len(data)
        if pending > 16 << 20:
            flush()
            pending = 0
    flush()
    db.execute("insert into f(f) values ('optimize')")
    return {"seconds": time.perf_counter() - started, "bytes": size, "peak_mb": _peak_mb()}


def whole(home: Path, out: Path) -> dict[str, float]:
    """backstory's ingest, complete."""
    from backstory import agents
    from backstory.ingest.ingest import ingest
    from backstory.store import open_store

    started = time.perf_counter()
    store = open_store(out / "store.db", shared=True)
    report = ingest(store, [agents.load("claude"), agents.load("codex")], environ={}, home=home, now=0)
    store.close()
    seconds = time.perf_counter() - started
    again_started = time.perf_counter()
    again = ingest(store, [agents.load("claude"), agents.load("codex")], environ={}, home=home, now=0)
    again_seconds = time.perf_counter() - again_started
    return {
        "seconds": seconds,
        "bytes": report.total("bytes_read"),
        "store_bytes": (out / "store.db").stat().st_size,
        "events": report.total("events_new"),
        "again_seconds": again_seconds,
        "again_read": again.total("logs_read"),
        "logs": report.total("logs_seen"),
        "peak_mb": _peak_mb(),
    }


def _peak_mb() -> float:
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    helpers = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return (own + helpers) / (1024 if sys.platform != "darwin" else 1024 * 1024)


def _run(what: str, home: Path) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as out:
        code = CHILD.format(bench=str(Path(__file__).parent), what=what, home=str(home), out=out)
        said = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, env=dict(os.environ))
        figures: dict[str, float] = json.loads(said.stdout)
        return figures


def main() -> None:
    """Interleave the two, print medians and the ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("home", type=Path)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    floors, wholes = [], []
    for _ in range(given.runs):
        floors.append(_run("floor", given.home))
        wholes.append(_run("whole", given.home))
    ratios = [f["seconds"] / w["seconds"] for f, w in zip(floors, wholes, strict=True)]
    last = wholes[-1]
    figures = {
        "logs": last["logs"],
        "log_mb": last["bytes"] / MB,
        "floor_mb_per_s": statistics.median(f["bytes"] / MB / f["seconds"] for f in floors),
        "ingest_mb_per_s": statistics.median(w["bytes"] / MB / w["seconds"] for w in wholes),
        "speed_against_floor": statistics.median(ratios),
        "store_against_logs": last["store_bytes"] / last["bytes"],
        "second_ingest_ms": statistics.median(w["again_seconds"] for w in wholes) * 1000,
        "second_ingest_read": last["again_read"],
        "peak_mb": max(w["peak_mb"] for w in wholes),
    }
    if given.json:
        print(json.dumps(figures))
    else:
        for name, value in figures.items():
            print(f"{name:22} {value:10.3f}")


if __name__ == "__main__":
    main()
