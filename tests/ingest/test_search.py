"""What was read from logs is found: by every session that holds it, on every branch that it was on."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from backstory.ask import ranking
from backstory.ask.search import ROLES
from backstory.export.full_form import FullForms
from backstory.ingest.reindex import reindex
from backstory.model import AssistantText, Plan, UserMessage
from backstory.search.query import find
from backstory.store import Filter
from tests.support.claude_records import assistant, result, user
from tests.support.clock import NOW
from tests.support.machines import SMALL, case, claude_line, claude_log, lines, place

if TYPE_CHECKING:
    from backstory.store import Store
    from tests.support.machines import Machine

WORDS_LOOKED_FOR = 60


def said(store: Store) -> dict[str, str]:
    """All that was asked and answered in each session, read from its bytes, by the uid of the session that is shown."""
    forms, found = FullForms(store), dict[str, str]()
    for session in store.sessions(subagents=True):
        uid = session.parent_uid if session.relation == "subagent" and session.parent_uid else session.uid
        for stored in store.events(session):
            match forms.expand(stored):
                case UserMessage(content=text) | AssistantText(text=text) | Plan(content=text):
                    found[uid] = f"{found.get(uid, '')}\n\n{text}"
                case _:
                    pass
    return found


@pytest.mark.parametrize("few", [5, ranking.RANKED_HITS_MAX], ids=["common words", "rare words"])
def test_a_word_is_found_in_every_session_in_which_it_was_said(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    monkeypatch.setattr(ranking, "RANKED_HITS_MAX", few)
    for name in SMALL:
        machine.put(name)
    machine.read()
    texts = said(machine.store)
    uids = {session.id: session.uid for session in machine.store.sessions(subagents=True)}
    counted = Counter(word for text in texts.values() for word in re.findall(r"[a-z]{2,}", text.lower()))
    for word, _ in counted.most_common(WORDS_LOOKED_FOR):
        pattern = re.compile(rf"(?<![^\W_]){word}(?![^\W_])", re.IGNORECASE)
        told = machine.store.search(word, Filter(scopes=("prompt", "answer")), limit=1_000, near=False)
        holders = {uid for uid, text in texts.items() if pattern.search(text)}
        assert ({uids[hit.shown_id] for hit in told.hits}, told.sessions) == (holders, len(holders)), word


COMMANDS = [
    ("claude", "claude/slash-commands", "model", "set"),
    ("codex", "codex/typed-commands", "heron", "Duration"),
    ("copilot", "copilot/live-compacted", "hand", None),
]
"""An agent, a case, a word of a command that a person typed, and one that only the command printed."""


@pytest.mark.parametrize(("agent", "name", "typed", "printed"), COMMANDS, ids=[each[0] for each in COMMANDS])
def test_a_command_is_found_among_the_persons_words_and_what_it_printed_is_not(
    machine: Machine, agent: str, name: str, typed: str, printed: str | None
) -> None:
    path = Path(".copilot/session-state/s/events.jsonl") if agent == "copilot" else place(name)
    machine.write(path, case(name))
    machine.read(agent)
    hits = machine.store.search(typed, Filter(scopes=ROLES["user"])).hits
    assert [hit.scope for hit in hits if hit.scope != "prompt"] == ["command"]
    if printed is not None:
        assert machine.store.search(printed, Filter(scopes=("system",))).hits
        assert not machine.store.search(printed, Filter(scopes=("command",))).hits
    # A command begins no turn and names no session.
    prompts = [turn.prompt for session in machine.store.sessions() for turn in machine.store.turns(session)]
    assert not [prompt for prompt in prompts if prompt.startswith(("!", "/"))]


def branches(machine: Machine) -> list[str]:
    every = ("main", "fix", "later", "HEAD", "none")
    return [name for name in every if machine.store.search("flange", Filter(branch=name)).hits]


def test_a_session_is_found_by_every_branch_that_it_was_on(machine: Machine) -> None:
    on_two = [claude_line("user", "a", "a flange", gitBranch="main"), claude_line("user", "b", "two", gitBranch="fix")]
    machine.write(claude_log("s"), lines(*on_two))
    machine.read()
    assert branches(machine) == ["main", "fix"]
    more = (claude_line("user", "c", "three", gitBranch="later"), claude_line("user", "d", "four", gitBranch="HEAD"))
    machine.write(claude_log("s"), lines(*on_two, *more))
    machine.read()
    assert branches(machine) == ["main", "fix", "later"]
    reindex(machine.store, now=NOW, events_too=True)
    assert branches(machine) == ["main", "fix", "later"]


def test_what_another_program_said_to_go_on_is_no_persons_and_no_name(machine: Machine) -> None:
    said = "<azureal-internal-auto-continue>\nContinue the flange\n</azureal-internal-auto-continue>"
    context = "<azureal-session-context>\n## User\ngo\n</azureal-session-context>\n\n"
    answer = claude_line("assistant", "u1", message={"id": "m", "usage": {"output_tokens": 7}, "content": "Done."})
    machine.write(claude_log("s"), lines(claude_line("user", "u0", context + said), answer))
    machine.read()
    (session,) = machine.store.sessions()
    (turn,) = machine.store.turns(session)
    assert (session.shown_title, turn.prompt, turn.tokens.output) == ("", "", 7)
    hits = {scope: len(machine.store.search("flange", Filter(scopes=(scope,))).hits) for scope in ("prompt", "system")}
    assert hits == {"prompt": 0, "system": 1}


def test_the_excerpt_of_an_output_needs_no_reader_of_its_agent(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = assistant({"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "make"}}, uuid="u1")
    output = "".join(f"line {n}\n" for n in range(90)) + "a bent flange\n" + "and more\n" * 9
    machine.write(claude_log("s"), lines(user("go", uuid="u0"), call, result(output, "t1", uuid="u2")))
    machine.read()

    def refuse(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(FullForms, "expand", refuse)
    (excerpt,) = find(machine.store, "flange", Filter(), limit=5).excerpts
    start, end = excerpt.marks[0]
    assert excerpt.snippet[start:end] == "flange"
    assert excerpt.stored.char_len == len(output)
