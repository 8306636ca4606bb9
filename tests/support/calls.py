"""Runs ``backstory`` and counts the calls of our functions: ``python -m tests.support.calls FILE [WORDS...]``.

Counts go to FILE as JSON, by the folder of the function's module. A generator that goes on is a call, as is a
comprehension where Python makes one of it, so versions of Python differ. Work in another process or thread is not seen.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import CodeType, FrameType

OURS = f"{Path(__file__).parent.parent.parent / 'src' / 'backstory'}/"
NOUNS = "nouns"
"""Stands for the folder of modules that lie in none."""

calls = Counter["CodeType"]()


def note(frame: FrameType, event: str, arg: object) -> None:
    """Count a call."""
    if event == "call":
        calls[frame.f_code] += 1


def by_folder() -> dict[str, int]:
    """The calls of our functions that were counted."""
    folders = Counter[str]()
    for code, count in calls.items():
        if code.co_filename.startswith(OURS):
            folders[code.co_filename.removeprefix(OURS).rpartition("/")[0] or NOUNS] += count
    return dict(sorted(folders.items()))


def main() -> None:
    """Count, run, write."""
    out, *words = sys.argv[1:]
    sys.argv = ["backstory", *words]
    from backstory.__main__ import main as backstory

    sys.setprofile(note)
    try:
        backstory()
    finally:
        sys.setprofile(None)
        Path(out).write_text(json.dumps(by_folder()), "utf-8")


if __name__ == "__main__":
    main()
