"""Memory does not grow with the size of a log."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.support.machines import case, claude_log
from tests.support.memory import PROGRAM

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

LOG_BYTES = 100_000_000
PEAK_KIB_MAX = 300 * 1024
READING = f"""{PROGRAM}
import json, pathlib, sys
from backstory import agents, open_store
from backstory.ingest.ingest import ingest
store, home = sys.argv[1:]
with open_store(store, shared=True) as opened:
    report = ingest(opened, [agents.load("claude")], environ=dict(), home=pathlib.Path(home), now=0)
peak = max(peak_kib(), helpers_peak_kib())
print(json.dumps([report.total("bytes_read"), report.total("events_new"), peak]))
"""


PRUNED_BYTES = 24_000_000
PRUNED_KIB_MAX = 120 * 1024
PRUNING = f"""{PROGRAM}
import json, sys
from backstory import open_store
from backstory.derive.pruning import Pruning
from backstory.ingest.pruning import prune_session
with open_store(sys.argv[1], shared=True) as opened:
    (session,) = opened.sessions()
    freed = prune_session(opened, session, Pruning(keep="prompts"))
print(json.dumps([freed.records, peak_kib()]))
"""


def write_long_log(path: Path, length: int = LOG_BYTES) -> int:
    """Real records over and over, each time with ids of their own."""
    records = case("claude/tools")
    ids = {json.loads(line).get("uuid") for line in records.splitlines()} - {None}
    path.parent.mkdir(parents=True)
    with path.open("wb") as file:
        for round_ in range(length // len(records) + 1):
            said = records
            for number, each in enumerate(sorted(ids)):
                said = said.replace(each.encode(), f"{round_:08x}-{number:04x}-4000-8000-{each[24:]}".encode())
            file.write(said)
    return path.stat().st_size


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_a_log_of_100_megabytes_is_read_within_300_megabytes(tmp_path: Path) -> None:
    size = write_long_log(tmp_path / "home" / claude_log("long"))
    done = subprocess.run(
        [sys.executable, "-c", READING, str(tmp_path / "store.db"), str(tmp_path / "home")],
        capture_output=True, check=True, env={**os.environ, "HOME": str(tmp_path)},
    )  # fmt: skip
    read, events, peak_kib = json.loads(done.stdout)
    assert read == size >= LOG_BYTES
    assert events > 20_000
    assert peak_kib < PEAK_KIB_MAX, f"{peak_kib / 1024:.0f} MB"


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_a_log_of_24_megabytes_is_pruned_within_120_megabytes(tmp_path: Path) -> None:
    write_long_log(tmp_path / "home" / claude_log("long"), PRUNED_BYTES)
    told = [
        json.loads(
            subprocess.run(
                [sys.executable, "-c", program, str(tmp_path / "store.db"), str(tmp_path / "home")],
                capture_output=True, check=True, env={**os.environ, "HOME": str(tmp_path)},
            ).stdout
        )
        for program in (READING, PRUNING)
    ]  # fmt: skip
    records, peak_kib = told[1]
    assert records > 8_000
    assert peak_kib < PRUNED_KIB_MAX, f"{peak_kib / 1024:.0f} MB"
