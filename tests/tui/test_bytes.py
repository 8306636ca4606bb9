"""The bytes that leave the screen: nothing that history holds is obeyed by a terminal, on no screen."""

from __future__ import annotations

import json
import unicodedata
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.forked import COMMAND
from tests.support.going import Going
from tests.support.machines import CLAUDE_FOLDER, claude_line, lines
from tests.support.watched import TEXTUALS, Watched

if TYPE_CHECKING:
    from tests.support.bench import Bench

pytestmark = pytest.mark.slow

EVIL = (
    "\x1b]52;c;aGVyb24=\x07\x1b]0;title\x1b\\\x1bP1$q\x1b\\\x1b[8m\x1b[31;7;5m\x1b[999;999H\x1b[6A\x1b[2J\x1bc\x9b6n\x9d2;t\x9c"
    "\x90q\x07\x08\x00\x7f\u202e\u2066\u200f\u061c\u2028\u2029\x85\u200b\ufeff\U000e0041\r[red]{!"
)
LONG = f"heron{EVIL}{'y' * 10_000}" * 100
"""A line of a megabyte."""
ACTS = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""The kinds of characters that a terminal obeys, or that nobody sees."""
PASTED = EVIL.replace("\x1b", "")
"""What a terminal lets through of a paste."""
BINARY = bytes(range(256)).decode("latin-1") * 20


def records(folder: str) -> list[bytes]:
    """A session with two branches; everything that can be said in it is said by somebody who means harm."""

    def said(kind: str, number: int, parent: int | None, content: Any) -> bytes:
        message: dict[str, Any] = {"role": kind, "content": content, "model": f"model{EVIL}", "id": f"m{number}"}
        return claude_line(
            kind, f"u{number}", sessionId="evil", cwd=folder, gitBranch=f"branch{EVIL}", version=EVIL,
            parentUuid=None if parent is None else f"u{parent}", timestamp=f"2001-05-04T09:30:{number:02}.000Z",
            message=message,
        )  # fmt: skip

    def call(number: int, name: str, **given: Any) -> dict[str, Any]:
        return {"type": "tool_use", "id": f"t{number}", "name": name, "input": given}

    asked = {"question": f"Which heron?{EVIL}", "options": [{"label": f"left{EVIL}", "description": EVIL}]}
    calls = [
        {"type": "thinking", "thinking": f"thought{EVIL}"},
        {"type": "text", "text": f"# answer heron{EVIL}\n- {EVIL}\n```\n{EVIL}\n```\n|{EVIL}|\n|-|\n|{EVIL}|"},
        call(1, "Bash", command=f"echo {EVIL}"),
        call(2, "Edit", file_path=f"/p/{EVIL}", old_string=EVIL, new_string="x"),
        call(3, "TodoWrite", todos=[{"content": f"todo{EVIL}", "status": "pending"}]),
        call(4, "AskUserQuestion", questions=[asked]), call(5, f"Own{EVIL}", given=EVIL),
    ]  # fmt: skip
    results = [
        {"type": "tool_result", "tool_use_id": f"t{n}", "content": text, "is_error": n == 1}
        for n, text in ((1, f"failed{EVIL}"), (2, EVIL), (3, EVIL), (4, EVIL), (5, BINARY))
    ]
    return [
        said("user", 1, None, f"prompt heron{EVIL}"), said("assistant", 2, 1, calls), said("user", 3, 2, results),
        said("assistant", 4, 3, [{"type": "text", "text": LONG}]), said("user", 5, 4, f"one heron{EVIL}"),
        said("assistant", 6, 5, [{"type": "text", "text": f"left{EVIL}"}]), said("user", 7, 4, f"two heron{EVIL}"),
        said("assistant", 8, 7, [{"type": "text", "text": f"right{EVIL}"}]),
        json.dumps({"type": "summary", "summary": f"title{EVIL}", "leafUuid": "u8"}).encode(),
    ]  # fmt: skip


WALK: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("f", ("leave the field",)),
    ("title", ("1 title",)),
    ("\x1b", ("Enter open",)),
    ("/", ("leave the field",)),
    ("heron", ("in texts", "»")),
    ("\x1b", ("Enter open",)),
    ("\r", ("completed", "resume: backstory")),
    ("G", ("right\\x1b]52",)),
    ("g", ("prompt heron\\x1b]52",)),
    ("t", ("thought\\x1b]52",)),
    ("J", ("yyyyyyyyyy",)),
    ("?", ("Search in this session",)),
    ("\x1b", ("!Search in this session",)),
    ("p", ("to the agent",)),
    (f"\x1b[200~typed{PASTED}\x1b[201~", ("typed",)),
    ("\x1b", ("s sessions",)),
    ("e", ("Write the session to a file",)),
    ("\x1b", ("!Write the session to a file",)),
    ("b", ("one heron\\x1b]52",)),
    ("v", ("Choose another turn",)),
    ("gv", ("fork point",)),
    ("\x1b", ("go there",)),
    ("n", ("A name for the branch",)),
    ("\x1b", ("!A name for the branch",)),
    ("b", ("!◆",)),
    ("b", ("s sessions",)),
    ("s", ("Enter open",)),
    ("R", ("Stand-up",)),
    ("+++", ("all time",)),
    ("2", ("TURNS",)),
    ("3", ("HOUR",)),
    ("4", ("Tips of",)),
    ("q", ()),
)
"""Keys, and words that are painted after them, or gone where they begin with a !."""


def test_no_screen_sends_what_history_holds(bench: Bench) -> None:
    log = bench.root / CLAUDE_FOLDER / "evil.jsonl"
    log.parent.mkdir(parents=True)
    log.write_bytes(lines(*records(str(bench.project))))
    todo = {"type": "tool_use", "id": "t9", "name": "TodoWrite", "input": {"todos": [{"content": f"now{EVIL}"}]}}
    message = {"role": "assistant", "id": "m9", "model": EVIL, "content": [todo]}
    step = {"raw": json.dumps({"type": "assistant", "message": message}) + "\n"}
    assert bench.backstory("ingest").returncode == 0
    with (
        Going(bench, step),
        Watched([*COMMAND, "tui", "--all"], bench.project, bench.environ([]), width=110, rows=36) as terminal,
    ):
        terminal.wait("title", "2 sessions", "1 ●")
        terminal.press("\r", "to do · 0 of 1 done", "now\\x1b]52")
        terminal.press("s", "2 sessions")
        for keys, words in WALK:
            terminal.press(keys, *words)
        shown = terminal.end()
    left = TEXTUALS.sub("", shown)
    assert [word for word in ("Which heron?", "failed", "echo", "branch") if word not in left] == []
    assert [left[max(n - 40, 0) : n + 40] for n, each in enumerate(left) if unicodedata.category(each) in ACTS] == []
