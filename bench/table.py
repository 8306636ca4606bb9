"""The index's figures beside their bounds, as one table: ``table.py LOGS [options]``; what cannot be measured says why.

LOGS is shaped like a home folder. ``--generated`` names a second one, of made-up logs; ``--agentsview`` the program to
be faster than; ``--searches`` other indexers' commands, as in ``compare.py``; ``--quick`` leaves the large sizes out.
Each row is measured by the benchmark that is named in it, which tells more when run by itself.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

BENCH = Path(__file__).parent
Row = tuple[str, str, str, str]
"""What is measured, the bound, today's figure, and by which benchmark."""


def measured(script: str, *words: str) -> Any:
    """The JSON that a benchmark prints."""
    done = subprocess.run(
        [sys.executable, str(BENCH / script), *words, "--json"], capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{script} failed:\n{done.stderr[-3000:]}")
    return json.loads(done.stdout)


def backstory(home: Path, store: Path, *words: str) -> None:
    """Run a command on logs and a store of their own."""
    env = {**os.environ, "HOME": str(home), "BACKSTORY_HOME": str(store)}
    subprocess.run([sys.executable, "-m", "backstory", *words], env=env, check=True, capture_output=True)


def ratio(store: Path) -> float:
    """Bytes of a store over the bytes of the logs that it keeps."""
    from backstory.store import open_store

    with open_store(store / "store.db", shared=True) as opened:
        kept = sum(log.read_to for log in opened.logs())
    return (store / "store.db").stat().st_size / kept if kept else 0.0


def stored(home: Path, store: Path, bound: str) -> list[Row]:
    """How large a store is, as it is filled and after optimize."""
    backstory(home, store, "ingest")
    before = ratio(store)
    rows = [("store / logs", f"≤ {bound}", f"{before:.3f}", "ingest")]
    backstory(home, store, "optimize", "--all")
    return [*rows, ("less after optimize", "≥ 0.025", f"{before - ratio(store):.3f}", "optimize --all")]


def searched(store: Path) -> list[Row]:
    """Times in process, and how well known things are found."""
    told = measured("search.py", str(store / "store.db"))
    bounds = {"rare": 1, "phrase": 8, "common": 15, "filtered": 15, "20 excerpts": 15, "process": 120}
    times, text = told["times"], f"search in {told['text_mb']:.0f} MB of text"
    rows = [(f"{text}, {kind}", f"p95 ≤ {most} ms", f"{times[kind]['p95_ms']:.1f} ms", "search.py")
            for kind, most in bounds.items()]  # fmt: skip
    rows += [(f"found first: {kind}", "", f"{each['hit@1']:.2f} (MRR {each['mrr']:.2f})", "search.py")
             for kind, each in told["known items"].items()]  # fmt: skip
    return rows


def compared(logs: Path, program: str, commands: list[str]) -> list[Row]:
    """Beside other indexers."""
    if not program:
        return [
            ("cold ingest beside agentsview", "≥ 2.5 ×", "not measured: --agentsview names no program", "compare.py")
        ]
    words = [word for each in commands for word in ("--search", each)]
    told = measured("compare.py", str(logs), "--agentsview", program, *words)
    rate = f"{told['times_as_fast']:.2f} × ({told['logs_mb'] / told['ours_s']:.0f} MB/s)"
    rows = [("cold ingest beside agentsview", "≥ 2.5 ×", rate, "compare.py")]
    own = told["search_ms"].pop("backstory search", None)
    if own is not None:
        rows.append(("backstory search, whole process", "≤ 120 ms", f"{own:.0f} ms", "compare.py"))
    return rows + [
        (Path(name.split()[0]).name + " " + " ".join(name.split()[1:]), "slower", f"{median:.0f} ms", "compare.py")
        for name, median in told["search_ms"].items()
    ]


def followed() -> list[Row]:
    """What following logs costs."""
    told = measured("watch.py")
    return [(f"ingest --watch: {name}", "", f"{value:.2f}", "watch.py") for name, value in told.items()]


def grown(logs: Path, *, quick: bool) -> list[Row]:
    """Time and memory as logs grow."""
    sizes = ["0.1", "0.3"] if quick else ["0.1", "1", "5"]
    return [
        (
            f"ingest of {row['gb']} GB",
            "linear, memory flat",
            f"{row['mb_per_s']} MB/s, peak {sum(row['peak_mb'])} MB, again {row['again_seconds']} s",
            "growth.py",
        )
        for row in measured("growth.py", str(logs), "--gigabytes", *sizes)
    ]


def turns(*, quick: bool) -> list[Row]:
    """Many small sessions of one agent."""
    told = measured("copilot_turns.py", "--turns", *(["8000"] if quick else ["8000", "80000"]))
    return [
        (
            f"{row['turns']:,.0f} turns of Copilot, then again",
            "≤ 2 s, ≤ 0.1 s" if row["turns"] == 8000 else "linear",
            f"{row['first']:.2f} s, {row['rerun']:.3f} s",
            "copilot_turns.py",
        )
        for row in told
    ]


def show(title: str, rows: list[Row]) -> None:
    """Print rows as soon as they are measured."""
    print(f"\n{title}")
    for what, bound, figure, by in rows:
        print(f"  {what:44} {bound:22} {figure:44} {by}", flush=True)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("logs", type=Path)
    parser.add_argument("--generated", type=Path)
    parser.add_argument("--agentsview", default="")
    parser.add_argument("--searches", default="", metavar="COMMANDS", help="separated by commas")
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    show("beside others", compared(given.logs, given.agentsview, [each for each in given.searches.split(",") if each]))
    with tempfile.TemporaryDirectory() as folder:
        for name, logs, bound in (("real logs", given.logs, "0.30"), ("made-up logs", given.generated, "0.42")):
            if logs is not None:
                store = Path(folder, name)
                show(name, stored(logs, store, bound))
                show(f"{name}: search", searched(store))
    show("growth", grown(given.logs, quick=given.quick) + turns(quick=given.quick))
    show("following", followed())


if __name__ == "__main__":
    main()
