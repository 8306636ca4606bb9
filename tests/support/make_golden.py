"""Makes the golden file of today's schema: ``python -m tests.support.make_golden``.

A released schema's file is made once and then kept for good: later versions must read it. Only the file of
a schema that was never released may be made again. Clock and randomness stand still, so that the content is
the same each time.
"""

from __future__ import annotations

import itertools
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

from backstory.conversation.board import AGENT, USER, BoardKey
from backstory.model import AssistantText, Complete, Init, Plan, Thinking, ToolCall, ToolResult, UserMessage
from backstory.store import Store, open_store
from backstory.store.file import migrate
from backstory.store.tables import boarding
from backstory.store.tables.board_items import NewItem
from tests.support.clock import Clock

GOLDEN = Path(__file__).parent.parent / "store" / "golden"
BOARD = BoardKey("me/tool", "main")
BEGUN = 1_790_000_000_000
STEP_MS = 1_000
OUTPUT = "".join(f"line {n}\n" for n in range(200))


def make(path: Path) -> None:
    """Write the golden store to ``path``."""
    clock = Clock()
    clock.ms = BEGUN
    randomness = itertools.count(1)
    with open_store(path, now=clock, randomness=lambda length: next(randomness).to_bytes(length, "big")) as store:
        _fill(store, clock)


def derived_earlier(path: Path) -> Path:
    """A copy of the golden store as a version left it that derived nothing yet."""
    shutil.copy(GOLDEN / f"store-v{migrate.SCHEMA_VERSION}.bks", path)
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("update logs set derived = 0")
        db.execute("update meta set value = '0' where key = 'derived_version'")
        db.execute("delete from file_touches")
        db.execute("delete from session_files")
    return path


def _fill(store: Store, clock: Clock) -> None:
    named = store.create_session("Fix the login page", "/home/dev/project")
    store.append_events(
        named,
        [
            Init(cwd="/home/dev/project", model="opus", version="1.2.3"),
            UserMessage(content="why does the login page overheat? 東京"),
            Thinking(text="perhaps the flux capacitor"),
            ToolCall(
                tool_use_id="t1", tool_name="Read", tool="READ", file_path="/f.py",
                input={"file_path": "/f.py", "offset": 3},
            ),
            ToolResult(tool_use_id="t1", tool_name="Read", tool="READ", file_path="/f.py", content=OUTPUT),
            AssistantText(text="It is the flux capacitor."),
            Complete(success=True, duration_ms=5_000, cost_usd=0.25),
        ],
    )  # fmt: skip
    store.mark_completed(named, 5_000, 0.25)
    clock.ms += STEP_MS
    forgotten = store.create_session("regretted")
    store.append_events(forgotten, [UserMessage(content="a secret")])
    clock.ms += STEP_MS
    plain = store.create_session()
    for n in range(70):
        store.append_events(plain, [AssistantText(text=f"thought number {n}")])
    store.append_events(plain, [UserMessage(content="go on"), Plan(name="plan", content="1. go on")])
    store.mark_completed(plain, 1_500, None, success=False)
    store.remove(forgotten)
    clock.ms += STEP_MS
    _fill_board(store)


def _fill_board(store: Store) -> None:
    for src, name, author in [
        (AGENT, "build-notes", "codex"),
        (AGENT, "outdated", "codex"),
        (USER, "build-notes", None),
    ]:
        text = f"how {src}s build it"
        boarding.put(store, BOARD, NewItem(src, name, "building", text, author))
    kept, outdated, _ = boarding.items(store, BOARD)
    boarding.count_read(store, kept)
    boarding.remove(store, [outdated])


if __name__ == "__main__":
    GOLDEN.mkdir(exist_ok=True)
    golden = GOLDEN / f"store-v{migrate.SCHEMA_VERSION}.bks"
    golden.unlink(missing_ok=True)
    make(golden)
    golden.chmod(0o644)
