"""What was done in a session, as a store returns it."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import apsw

from backstory.ask import work
from backstory.derive.check_programs import DeedKind
from backstory.model import ToolCall, ToolResult, UserMessage
from backstory.store import open_store
from tests.support.clock import Clock

if TYPE_CHECKING:
    from pathlib import Path


def test_what_a_person_removed_was_not_done(tmp_path: Path) -> None:
    call = ToolCall(tool_use_id="c1", tool_name="Bash", tool="SHELL", input={"command": "git commit -qm x"})
    result = ToolResult(tool_use_id="c1", tool_name="Bash", tool="SHELL", content="[main 1a2b3c4] x")
    with open_store(tmp_path / "s.bks") as store:
        session = store.create_session("one")
        store.append_events(session, [UserMessage(content="commit it"), call, result])
        done = store.ask(work.of_sessions, [session.id])[session.id]
        assert [each.prompt for each in done.turns] == ["commit it"]
        assert [(each.kind, each.text, each.ok) for each in done.deeds] == [(DeedKind.COMMIT, "git commit -qm x", True)]
    with closing(apsw.Connection(str(tmp_path / "s.bks"))) as db:
        db.execute("update turns set removed = 1")
    with open_store(tmp_path / "s.bks") as store:
        done = store.ask(work.of_sessions, [1])[1]
        assert (done.turns, done.deeds) == ([], [])


def test_the_work_of_several_sessions_is_that_of_each(tmp_path: Path) -> None:
    with open_store(tmp_path / "s.bks") as store:
        for name, command in (("one", "git commit -qm x"), ("two", "git push"), ("three", "")):
            call = ToolCall(tool_use_id="c1", tool_name="Bash", tool="SHELL", input={"command": command})
            result = ToolResult(tool_use_id="c1", tool_name="Bash", tool="SHELL", content="[main 1a2b3c4] x")
            said = [UserMessage(content=name), *([call, result] if command else [])]
            store.append_events(store.create_session(name), said)
        sessions = [each.id for each in store.sessions()]
        together = store.ask(work.of_sessions, sessions)
        alone = [store.ask(work.of_sessions, [each])[each] for each in sessions]
    assert [together[each] for each in sessions] == alone
    assert [[each.prompt for each in done.turns] for done in alone] == [["three"], ["two"], ["one"]]


def test_what_a_subagent_did_lies_between_what_was_done_before_and_behind_it(tmp_path: Path) -> None:
    clock = Clock()
    with open_store(tmp_path / "s.bks", now=clock) as store:
        parent, child = store.create_session("parent"), store.create_session("child")
        for session, command in ((parent, "git add a"), (child, "pytest"), (parent, "git commit -qm x")):
            clock.ms += 1_000
            call = ToolCall(tool_use_id="c1", tool_name="Bash", tool="SHELL", input={"command": f"{command} && pytest"})
            store.append_events(session, [UserMessage(content="go"), call])
    with closing(apsw.Connection(str(tmp_path / "s.bks"))) as db:
        db.execute("update sessions set relation = 'subagent', parent_id = ? where id = ?", (parent.id, child.id))
        times = [each.at for each in work.of_sessions(db, [parent.id])[parent.id].deeds]
    assert len(set(times)) == 3
    assert times == sorted(times, key=lambda at: at or 0)
