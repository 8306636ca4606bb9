"""Reports of real logs, as they are printed: ``python -m tests.support.report_goldens`` writes them anew.

``tests/cli/report_logs.tar.xz`` holds a home folder with logs of several agents: all that began on 20 and 21 January
2026, and one session of each agent. ``tests/cli/golden_log_reports/README.md`` says where they come from.
"""

from __future__ import annotations

import sys
import tarfile
import tempfile
from pathlib import Path

from tests.support.masks import numbered
from tests.support.shell import Shell

CLI = Path(__file__).parents[1] / "cli"
LOGS = CLI / "report_logs.tar.xz"
GOLDEN = CLI / "golden_log_reports"
REGENERATE = "python -m tests.support.report_goldens"
DAYS = ("--since", "2026-01-20", "--until", "2026-01-21")
REPORTS: dict[str, tuple[str, ...]] = {
    "standup": ("standup", *DAYS),
    "standup-md": ("standup", *DAYS, "--md"),
    "standup-json": ("standup", *DAYS, "--json"),
    "standup-explain": ("standup", *DAYS, "--agent", "claude", "--explain"),
    "recap-claude": ("recap", "01KH0ZR81Y1E"),
    "recap-codex": ("recap", "01KSXJGHC3SG"),
    "recap-copilot": ("recap", "01KZ98Z747WR"),
    "recap-md": ("recap", "01KZ98Z747WR", "--md"),
    "recap-json": ("recap", "01KZ98Z747WR", "--json"),
}
"""What is typed behind ``backstory chronicle`` for each golden."""


def machine_with_logs(folder: Path) -> Shell:
    """A machine that has read the logs."""
    home = folder / "home"
    home.mkdir(parents=True)
    with tarfile.open(LOGS) as archive:
        archive.extractall(home, filter="data")
    shell = Shell(home)
    assert shell("ingest").code == 0
    return shell


def report(shell: Shell, name: str) -> str:
    """What a report prints."""
    done = shell("chronicle", *REPORTS[name], TZ="UTC")
    assert (done.code, done.err) == (0, ""), done.err
    return numbered(done.out)


def main() -> None:
    """Write what every report prints."""
    with tempfile.TemporaryDirectory() as folder:
        shell = machine_with_logs(Path(folder))
        for name in REPORTS:
            (GOLDEN / f"{name}.txt").write_text(report(shell, name), "utf-8")
            sys.stdout.write(f"{name}\n")


if __name__ == "__main__":
    main()
