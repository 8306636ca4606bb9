"""Shows that tests of mended faults fail on an earlier revision: ``python -m tests.fails_before REVISION``.

The revision is checked out and installed in a temporary folder. Each test of ``mended.json`` runs twice, from today's
tests: with the earlier package and with today's. Prints a row a test; exits with 1 unless each failed and now passes.
A test that cannot even be imported with the earlier package is shown as such and counts as failed there.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
MENDED = Path(__file__).with_name("mended.json")
"""What was mended, in words, and the tests that show it."""
PASSED, FAILED, INTERRUPTED = 0, 1, 2
"""Exit codes of pytest."""
ENDS = {PASSED: "passes", FAILED: "fails", INTERRUPTED: "cannot be imported", 4: "cannot be imported"}


class Row(NamedTuple):
    """A test with its ends, before and now."""

    mended: str
    test: str
    before: int
    now: int

    @property
    def is_shown(self) -> bool:
        return self.before in ENDS and self.before != PASSED and self.now == PASSED

    def __str__(self) -> str:
        ends = f"{ENDS.get(self.before, self.before):18}  {ENDS.get(self.now, self.now):6}"
        return f"{'ok' if self.is_shown else 'NO':2}  {ends}  {self.mended}: {self.test}"


def main() -> int:
    """Install the revision, run the tests with both packages, print the rows."""
    mended: dict[str, list[str]] = json.loads(MENDED.read_text("utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        before = installed(sys.argv[1], Path(folder))
        rows = []
        for words, tests in mended.items():
            for test in tests:
                rows.append(Row(words, test, end(before, test), end(sys.executable, test)))
                sys.stdout.write(f"{rows[-1]}\n")
                sys.stdout.flush()
    return int(not all(row.is_shown for row in rows))


def installed(revision: str, folder: Path) -> str:
    """The Python of a new environment that has an earlier revision of the package."""
    source, python = folder / "source", folder / "environment" / "bin" / "python"
    run("git", "-C", str(ROOT), "clone", "--quiet", "--no-checkout", str(ROOT), str(source))
    run("git", "-C", str(source), "checkout", "--quiet", revision)
    run(sys.executable, "-m", "venv", str(folder / "environment"))
    run(str(python), "-m", "pip", "install", "--quiet", "--upgrade", "pip")
    run(
        str(python),
        "-m",
        "pip",
        "install",
        "--quiet",
        "--editable",
        str(source),
        "--group",
        f"{source}/pyproject.toml:dev",
    )
    return str(python)


def run(*words: str) -> None:
    subprocess.run(words, check=True)


def end(python: str, test: str) -> int:
    """The exit code of pytest for one test of today."""
    words = [python, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", test]
    return subprocess.run(words, cwd=ROOT, capture_output=True, timeout=1_800).returncode


if __name__ == "__main__":
    sys.exit(main())
