"""A crontab for tests: a program of that name which keeps its table in a file beside it, as cron's does."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = """#!/bin/sh
case "$1" in
-l) [ -f "{table}" ] || {{ echo "no crontab for somebody" >&2; exit 1; }}; cat "{table}" ;;
-r) rm "{table}" ;;
-) cat > "{table}" ;;
esac
"""


def put_crontab(folder: Path) -> Path:
    """Put the program into a folder, and return where its table will be."""
    table = folder / "table"
    folder.mkdir(exist_ok=True)
    put_program(folder / "crontab", PROGRAM.format(table=table))
    return table


def put_program(path: Path, text: str) -> None:
    """Write a file that can be started."""
    path.write_text(text)
    path.chmod(0o755)
