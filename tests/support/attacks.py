"""Machines on which every text of the history attacks the page that shows it."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import apsw

from backstory import AssistantText, Compacted, Thinking, ToolCall, ToolResult, UserMessage, open_store
from backstory.model import Error, Hook, Plan

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from backstory.model import Event
    from tests.support.shell import Shell

MARK = "fired"
"""What an attack would call, or load."""
ATTACKS: list[str] = json.loads(Path(__file__).parents[1].joinpath("web", "attacks.json").read_text("utf-8"))
CANARY = f"for (const name of ['{MARK}', 'alert', 'print']) window[name] = () => console.error('{MARK}')"
TOUCHED = """() => {
  for (const each of document.querySelectorAll("details")) each.open = true;
  for (const each of document.querySelectorAll("main, main *"))
    for (const name of ["mouseover", "mousemove", "pointerrawupdate", "focus", "toggle", "beforeinput",
                        "animationstart", "error", "load", "begin"])
      each.dispatchEvent(new Event(name, { bubbles: true }));
}"""
"""Opens and touches whatever there is, as a person would in an hour."""
NAMES = """
update sessions set branch = :attack, cwd = :attack, root = :attack, repository = :attack, project = :attack
  where uid = :uid;
update turns set model = :attack, stop_reason = :attack, cost_usd = 1, cost_source = 'reported',
  input_tokens = 10, output_tokens = 10, tokens_source = 'reported'
  where session_id = (select id from sessions where uid = :uid);
"""


def put(shell: Shell, sessions: Iterable[Sequence[str]]) -> None:
    """Store a session for each of these groups of attacks, in which each stands wherever a text can."""
    shell.store.parent.mkdir(parents=True)
    names = dict[str, str]()
    with open_store(shell.store) as store:
        for attacks in sessions:
            session = store.create_session()
            store.rename(session, f"{' '.join(attacks)} name")
            store.append_events(session, [event for attack in attacks for event in said(attack)])
            names[session.uid] = attacks[0]
    with closing(apsw.Connection(str(shell.store))) as db, db:
        for uid, attack in names.items():
            db.execute(NAMES, {"attack": attack.replace("\0", ""), "uid": uid})


def said(attack: str) -> list[Event]:
    """A turn in which everything attacks."""
    edit = {"file_path": attack, "old_string": "a", "new_string": attack}
    write = {"file_path": f"{attack}.html", "content": f"{attack}\n'{attack}"}
    return [
        UserMessage(content=attack), Thinking(text=attack), AssistantText(text=attack),
        ToolCall(tool_name=attack, tool_use_id="1", input={"command": attack, attack: attack}),
        ToolResult(tool_use_id="1", tool_name=attack, content=attack, is_error=True),
        ToolCall(tool_name="Edit", tool_use_id="2", tool="EDIT", file_path=attack, input=edit),
        AssistantText(text=f"```py {attack}\n{attack}\n```\n```{attack}\n{attack}\n```"),
        ToolCall(tool_name="Write", tool_use_id="3", tool="WRITE", file_path=write["file_path"], input=write),
        Plan(name=attack, content=attack), Error(message=attack), Hook(name=attack, output=attack),
        Compacted(summary=attack),
    ]  # fmt: skip
