"""What was read from logs is found: by every session that holds it, on every branch that it was on."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from backstory.fullform import FullForms
from backstory.model import AssistantText, Plan, UserMessage
from backstory.reindex import reindex
from backstory.store import Filter, ranking
from tests.support.clock import NOW
from tests.support.machines import SMALL, claude_line, claude_log, lines

if TYPE_CHECKING:
    from backstory.store import Store
    from tests.support.machines import Machine

WORDS_LOOKED_FOR = 60


def said(store: Store) -> dict[str, str]:
    """All that was asked and answered in each session, read from its bytes, by the uid of the session that is shown."""
    forms, found = FullForms(store), dict[str, str]()
    for session in store.sessions(helpers=True):
        uid = session.parent_uid if session.relation == "subagent" and session.parent_uid else session.uid
        for stored in store.events(session):
            match forms.of(stored):
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
    uids = {session.id: session.uid for session in machine.store.sessions(helpers=True)}
    counted = Counter(word for text in texts.values() for word in re.findall(r"[a-z]{2,}", text.lower()))
    for word, _ in counted.most_common(WORDS_LOOKED_FOR):
        pattern = re.compile(rf"(?<![^\W_]){word}(?![^\W_])", re.IGNORECASE)
        told = machine.store.search(word, Filter(scopes=("prompt", "answer")), limit=1_000, near=False)
        holders = {uid for uid, text in texts.items() if pattern.search(text)}
        assert ({uids[hit.shown_id] for hit in told.hits}, told.sessions) == (holders, len(holders)), word


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
