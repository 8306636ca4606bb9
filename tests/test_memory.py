"""The measure of memory that other tests use."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.memory import PROGRAM

LARGE_BYTES = 200_000_000


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the system tells it otherwise")
def test_a_program_that_a_large_one_starts_is_measured_by_itself() -> None:
    large = (
        f"import subprocess, sys\nlarge = b'x' * {LARGE_BYTES}\n"
        "subprocess.run([sys.executable, '-c', sys.argv[1] + 'print(peak_kib())'], check=True)"
    )
    done = subprocess.run([sys.executable, "-c", large, PROGRAM], capture_output=True, check=True)
    assert 1_000 < int(done.stdout) < LARGE_BYTES // 1024 // 2


def test_what_a_program_took_and_gave_back_is_measured() -> None:
    taking = f"{PROGRAM}large = b'x' * {LARGE_BYTES}\ndel large\nprint(peak_kib())"
    done = subprocess.run([sys.executable, "-c", taking], capture_output=True, check=True)
    assert int(done.stdout) > LARGE_BYTES // 1024
