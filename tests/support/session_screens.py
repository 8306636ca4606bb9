"""The screens of one session, as a terminal shows them: what was said and done in it, one record, its turns as a tree.

``python -m tests.support.session_screens`` writes the screens that tests compare with and the pictures of them.
"""

from __future__ import annotations

import shlex
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.machines import CLAUDE_FOLDER, claude_line, lines
from tests.support.screens import PICTURE_COLUMNS, PICTURES, ROOT, WIDTHS, Machine, picture, plain

if TYPE_CHECKING:
    from collections.abc import Iterator

GOLDEN = ROOT / "tests" / "cli" / "golden_session_screens"
REGENERATE = "python -m tests.support.session_screens"
SESSION = "talk"
SCREENS: dict[str, tuple[str, ...]] = {
    "show": ("show", SESSION),
    "show-record": ("show", SESSION, "@9", "--find", "rate limits"),
    "show-own": ("show", "S2"),
    "tree": ("tree", SESSION),
    "tree-records": ("tree", "--records", SESSION),
}
"""The screens by the name of their pictures, and the words that are typed for each."""
FOLDER = "/work/acme/shop"
PLAN = "\n".join(
    ["Implement the following plan:", "", "# Count requests per person", "", "## Why", "",
     "One person's script must not lock everybody out of the login, which is what the limit of all requests does.",
     *(f"- step {n}" for n in range(1, 31))]
)  # fmt: skip
ANSWER = """\
Done. The limit counts per person now:

- `limits.py` asks `who(request)` for a key, which is the account and, before the login, the address that it came from
- the old limit of all requests stays, ten times as high

| limit | per minute |
|---|---|
| person | 60 |

日本語の利用者も同じ上限です。שלום 🎉👩\u200d💻 – 60 לדקה."""
GATEWAY = "\n".join(
    [*(f"{n:>6}→def case_{n}(): ..." for n in range(1, 40)),
     "    40→# The gateway's own rate limits are per address, and higher than ours, so that a person who is refused "
     "here is not refused there as well",
     *(f"{n:>6}→def case_{n}(): ..." for n in range(41, 60))]
)  # fmt: skip
OLD = "KEY = 'all'\n\ndef allowed(request):\n    return hits(KEY) < LIMIT"
NEW = "def allowed(request):\n    # Each person counts for themselves.\n    return hits(who(request)) < LIMIT"


class SessionMachine(Machine):
    """The machine of all screens, with one more session, in which everything occurs that a session may have."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        path = self.home / CLAUDE_FOLDER / f"{SESSION}.jsonl"
        path.write_bytes(lines(*_records()))
        self.shown("ingest")


def _records() -> Iterator[bytes]:
    number = 0

    def record(kind: str, said: Any, second: int, **more: Any) -> bytes:
        nonlocal number
        number += 1
        stamp = f"2001-05-04T09:{30 + second // 60:02}:{second % 60:02}.000Z"
        message: dict[str, Any] = {"role": kind, "content": said}
        if kind == "assistant":
            usage = {"input_tokens": 9_000, "cache_read_input_tokens": 41_000, "output_tokens": 210}
            message |= {"id": f"m{number}", "model": "claude-opus-4-5-20251101", "usage": usage}
        parent = f"u{number - 1}" if number > 1 else None
        about: dict[str, Any] = {
            "sessionId": SESSION,
            "cwd": FOLDER,
            "gitBranch": "limits",
            "version": "2.0.0",
            "parentUuid": parent,
        }
        return claude_line(kind, f"u{number}", **about, timestamp=stamp, message=message | more)

    def call(name: str, number: int, **given: Any) -> dict[str, Any]:
        return {"type": "tool_use", "id": f"t{number}", "name": name, "input": given}

    def result(number: int, content: str, *, is_error: bool = False) -> list[dict[str, Any]]:
        return [{"type": "tool_result", "tool_use_id": f"t{number}", "content": content, "is_error": is_error}]

    def text(words: str) -> list[dict[str, Any]]:
        return [{"type": "text", "text": words}]

    yield record("user", PLAN, 0)
    yield record("assistant", text("I read the limit and its test first."), 2)
    yield record("assistant", [call("Read", 1, file_path=f"{FOLDER}/limits.py")], 3)
    yield record("assistant", [call("Bash", 2, command="pytest -q tests/test_limits.py -k 'not slow'")], 3)
    yield record("assistant", [call("Read", 3, file_path=f"{FOLDER}/{'deeply/' * 12}gateway.py")], 3)
    yield record("user", result(2, "Exit code 1\n1 failed, 11 passed\nFAILED test_two_people", is_error=True), 7)
    yield record("user", result(1, "\n".join(f"{n:>6}→line {n}" for n in range(1, 85))), 8)
    yield record("assistant", text("The gateway has limits of its own."), 9)
    yield record("user", result(3, GATEWAY), 9)
    yield record("assistant", [call("Edit", 4, file_path=f"{FOLDER}/limits.py", old_string=OLD, new_string=NEW)], 12)
    yield record("user", result(4, "The file limits.py has been updated."), 12)
    yield record(
        "assistant", [call("Write", 5, file_path=f"{FOLDER}/who.py", content="# Who asks\n\ndef who(r): ...\n")], 15
    )
    yield record("user", result(5, "File created successfully at: who.py"), 15)
    yield record("assistant", [call("Bash", 6, command="pytest -q")], 20)
    yield record("user", result(6, "............\n12 passed in 3.81s"), 24)
    yield record("assistant", text(ANSWER), 53, stop_reason="end_turn")
    yield record("user", "Wie viel " * 400 + "?", 400)
    yield record("assistant", text("Viel."), 402, stop_reason="end_turn")


def screens(machine: SessionMachine, width: int) -> Iterator[tuple[str, str]]:
    """Yield the name of each screen, and what a terminal of this width is sent."""
    for name, words in SCREENS.items():
        yield name, machine.shown(*words, width=width)


def main() -> None:
    """Write the screens and their pictures."""
    GOLDEN.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as root:
        machine = SessionMachine(Path(root))
        for width in WIDTHS:
            for name, shown in screens(machine, width):
                (GOLDEN / f"{name}-{width}.txt").write_text(plain(shown), "utf-8")
                if width == PICTURE_COLUMNS:
                    title = shlex.join(("backstory", *SCREENS[name]))
                    (PICTURES / f"{name}.svg").write_text(picture(title, shown), "utf-8")
        (GOLDEN / "show-piped.txt").write_text(machine.piped("show", SESSION), "utf-8")


if __name__ == "__main__":
    main()
