"""The screens of runs: one from its first line to its last, what runs beside it, and what is queued behind that.

``python -m tests.support.run_screens`` writes the screens that tests compare with. What is looked at while a run goes
on has a clock that stands still; random ids are written as zeros.
"""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.bench import Bench
from tests.support.going import Going, until
from tests.support.screens import AT_NOW, ROOT, ROWS, WIDTHS, plain

if TYPE_CHECKING:
    from collections.abc import Iterator

GOLDEN = ROOT / "tests" / "cli" / "golden_run_screens"
REGENERATE = "python -m tests.support.run_screens"
PROMPT = "Fix the failing test of the calculator, which says that one and one are three"
FOLLOWUPS = ("Then tidy up what the fix left behind, and say in a sentence why the sign was wrong", "次のテスト 🎉")
COMMANDS: dict[str, tuple[str, ...]] = {"ps": ("ps",), "queue": ("queue", "list")}
"""What is looked at while a run goes on, and the words that are typed for it."""
_ID = re.compile(r"\b[0-9A-HJKMNP-TV-Z]{8}\b(?= [ ·])")


def _line_of(kind: str, **part: Any) -> dict[str, str]:
    message = {"id": "m", "role": kind, "content": [part]}
    return {"raw": json.dumps({"type": kind, "message": message}) + "\n"}


def _call(number: int, name: str, **given: Any) -> dict[str, str]:
    return _line_of("assistant", type="tool_use", id=f"t{number}", name=name, input=given)


def _result(number: int, content: str, *, is_error: bool = False) -> dict[str, str]:
    return _line_of("user", type="tool_result", tool_use_id=f"t{number}", content=content, is_error=is_error)


ANSWERS = (
    "I look at the test first, then at what it calls; the sign in `add` is the one of `subtract`.",
    "The fix is one line, but I may not write it: allow edits, and ask again.",
)
_SCRIPT: tuple[dict[str, Any], ...] = (
    {"say": ANSWERS[0]},
    _call(1, "Bash", command="cd /work/acme/calc && python -m pytest -q tests/test_calc.py --maxfail 1"),
    _result(1, "F\n1 failed, 11 passed in 0.21s"),
    _call(2, "Edit", file_path="/work/acme/calc/calc.py", old_string="return a - b", new_string="return a + b"),
    _result(2, "Claude requested permissions to write to calc.py, but you haven't granted it yet.", is_error=True),
    {"say": ANSWERS[1]},
    {
        "raw": json.dumps(
            {
                "type": "result",
                "subtype": "success",
                "is_error": False,
                "total_cost_usd": 0.0042,
                "permission_denials": [
                    {"tool_name": "Edit", "tool_use_id": "t2", "tool_input": {"file_path": "calc.py"}}
                ],
            }
        )
        + "\n"
    },
)


def typed(bench: Bench, *words: str, width: int, script: tuple[dict[str, Any], ...] = ()) -> str:
    """What a terminal of so many columns is sent, without colours."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, width, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-c", AT_NOW, *words], cwd=bench.project, stdin=subprocess.DEVNULL, stdout=theirs,
        stderr=theirs, env=bench.environ(list(script)) | {"TERM": "xterm-256color"},
    )  # fmt: skip
    os.close(theirs)
    seen = b""
    with suppress(OSError):
        while block := os.read(ours, 65536):
            seen += block
    os.close(ours)
    process.wait(timeout=120)
    return plain(seen.decode()).replace("\r\n", "\n")


def steady(shown: str) -> str:
    """A screen without what differs from one run to the next."""
    return _ID.sub("00000000", shown)


def screens(root: Path, width: int) -> Iterator[tuple[str, str]]:
    """Yield the name of each screen, and what a terminal of this width is sent."""
    for name in ("first", "busy"):
        (root / name).mkdir()
    first = Bench(root / "first")
    yield "run", typed(first, "run", "-a", "claude", PROMPT, width=width, script=_SCRIPT)
    yield "run-again", typed(first, "run", "-a", "claude", "Why?", width=width, script=({"say": "A sign."}, _GOOD))
    busy = Bench(root / "busy")
    with Going(busy, _call(1, "Bash", command="python -m pytest -q tests/test_calc.py"), then=(_GOOD,)):
        until(lambda: "pytest" in busy.backstory("ps").stdout)
        for prompt in FOLLOWUPS:
            typed(busy, "followup", prompt, width=width)
        for name, words in COMMANDS.items():
            yield name, steady(typed(busy, *words, width=width))
        busy.backstory("queue", "clear")


_GOOD: dict[str, Any] = {"result": True}
NAMES = ("run", "run-again", *COMMANDS)


def main() -> None:
    """Write the screens anew."""
    GOLDEN.mkdir(exist_ok=True)
    for width in WIDTHS:
        with tempfile.TemporaryDirectory() as folder:
            for name, shown in screens(Path(folder), width):
                (GOLDEN / f"{name}-{width}.txt").write_text(shown, "utf-8")


if __name__ == "__main__":
    main()
