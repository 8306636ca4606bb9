"""Runs ``backstory`` and notes which modules of ours it calls: ``python -m tests.support.called FILE [WORDS...]``.

A module is called when one of its functions runs; what runs while modules are imported does not count, nor what runs
in another process.
"""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import FrameType

OURS = f"{Path(__file__).parent.parent.parent / 'src' / 'backstory'}/"

called = set[str]()
"""The modules that were called, by their paths below the package."""
thread = threading.local()
"""``importing``: how many imports are under way in a thread, one inside the other."""


def note(frame: FrameType, event: str, arg: object) -> None:
    """Note the module of each function that is called."""
    file = frame.f_code.co_filename
    if file == "<frozen importlib._bootstrap>" and frame.f_code.co_name == "_find_and_load":
        thread.importing = getattr(thread, "importing", 0) + {"call": 1, "return": -1}.get(event, 0)
    elif event == "call" and not getattr(thread, "importing", 0) and file.startswith(OURS):
        called.add(file.removeprefix(OURS).removesuffix(".py"))


def main() -> None:
    """Note, run, write."""
    out, *words = sys.argv[1:]
    sys.argv = ["backstory", *words]
    threading.setprofile(note)
    sys.setprofile(note)
    from backstory.__main__ import main as backstory

    try:
        backstory()
    finally:
        sys.setprofile(None)
        Path(out).write_text(json.dumps(sorted(called)), "utf-8")


if __name__ == "__main__":
    main()
