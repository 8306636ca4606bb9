"""What was done in a session, as a store returns it."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import apsw

from backstory.ask import work
from backstory.derive.check_programs import DeedKind
from backstory.model import ToolCall, ToolResult, UserMessage
from backstory.store import open_store

if TYPE_CHECKING:
    from pathlib import Path


def test_what_a_person_removed_was_not_done(tmp_path: Path) -> None:
    call = ToolCall(tool_use_id="c1", tool_name="Bash", tool="SHELL", input={"command": "git commit -qm x"})
    result = ToolResult(tool_use_id="c1", tool_name="Bash", tool="SHELL", content="[main 1a2b3c4] x")
    with open_store(tmp_path / "s.bks") as store:
        session = store.create_session("one")
        store.append_events(session, [UserMessage(content="commit it"), call, result])
        turns, deeds = store.ask(work.of_session, session.id)
        assert [each.prompt for each in turns] == ["commit it"]
        assert [(each.kind, each.text, each.ok) for each in deeds] == [(DeedKind.COMMIT, "git commit -qm x", True)]
    with closing(apsw.Connection(str(tmp_path / "s.bks"))) as db:
        db.execute("update turns set removed = 1")
    with open_store(tmp_path / "s.bks") as store:
        assert store.ask(work.of_session, 1) == ([], [])
