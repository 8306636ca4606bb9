"""Notes of the board in runs: what an agent is sent, what is stored of it, and what ``--no-board`` leaves out."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from backstory.conversation.context import CLOSE, OPEN, strip_context
from backstory.store import open_store
from backstory.store.tables.queue import Options, QueuedKind, QueuedPrompt
from backstory.workspace.runs.unsent import command_for

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.bench import Bench

PROMPT = "Why do the checkout tests fail?"
NOTE = "They need KESTREL=1."
GOOD = {"result": True}


@pytest.fixture
def noted(bench: Bench) -> Bench:
    """A project with a note that fits the prompt, and one that does not."""
    for words in (["checkout-tests", NOTE], ["zebra", "Nothing of this."]):
        assert bench.backstory("board", "add", *words).returncode == 0
    return bench


def home_items(bench: Bench) -> dict[str, Any]:
    found = json.loads(bench.backstory("board", "list", "--json").stdout)["items"]
    return {each["name"]: (each["read_count"], each["session_count"]) for each in found}


def test_a_run_is_sent_the_notes_that_fit_before_the_prompt_as_typed(noted: Bench) -> None:
    done = noted.run(PROMPT, {"say": "so"}, GOOD, options=("--json",))
    sent = noted.sent()
    assert sent.startswith(OPEN)
    assert sent.endswith(f"\n{CLOSE}\n\n{PROMPT}")
    assert f"* checkout-tests, by a person:\n> {NOTE}\n" in sent
    assert "zebra" not in sent
    assert strip_context(sent) == PROMPT
    assert json.loads(done.stdout.splitlines()[-1])["board"] == ["checkout-tests"]


def test_the_prompt_is_stored_as_typed_with_the_hash_of_all_that_was_sent_before_it(noted: Bench) -> None:
    noted.run(PROMPT, GOOD)
    prefix = noted.sent().removesuffix(PROMPT)
    asked = "select prompt, prefix_chars, prefix_sha256 from main.turns"
    with noted.store as store, open_store(noted.home / "store.db", shared=True) as home:
        for each in (store, home):
            found = each.execute_read_only(asked).rows
            assert found == [(PROMPT, len(prefix), hashlib.sha256(prefix.encode()).hexdigest())]
            assert each.search("KESTREL").hits == []


def test_being_offered_is_no_read_and_a_new_session_counts_once(noted: Bench) -> None:
    noted.run(PROMPT, GOOD)
    noted.run("and the checkout tests again?", GOOD)
    assert home_items(noted) == {"checkout-tests": (0, 1), "zebra": (0, 1)}
    noted.run(PROMPT, GOOD, options=("-n",))
    assert home_items(noted) == {"checkout-tests": (0, 2), "zebra": (0, 2)}


def test_notes_stand_before_the_session_so_far_and_are_not_part_of_it(noted: Bench) -> None:
    noted.run(PROMPT, {"say": "so"}, GOOD)
    noted.run("and the checkout tests again?", GOOD)
    sent = noted.sent()
    assert sent.index("[End of the notes]") < sent.index(f"## User\n{PROMPT}") < sent.index("## Assistant\nso")
    assert sent.count(NOTE) == 1
    noted.run("something else", GOOD)
    assert NOTE not in noted.sent()


@pytest.mark.parametrize("options", [("--no-board",), ("--no-board", "-n")])
def test_without_the_board_nothing_of_it_is_sent(noted: Bench, options: tuple[str, ...]) -> None:
    done = noted.run(PROMPT, GOOD, options=(*options, "--json"))
    assert noted.sent() == PROMPT
    assert json.loads(done.stdout.splitlines()[-1])["board"] == []


def test_a_note_of_another_branch_or_project_is_not_sent(noted: Bench) -> None:
    (noted.project / ".git" / "HEAD").write_text("ref: refs/heads/other\n")
    noted.run(PROMPT, GOOD)
    assert noted.sent() == PROMPT


def test_the_context_that_is_shown_is_the_one_that_is_sent(noted: Bench) -> None:
    noted.run("first", {"say": "one"}, GOOD)
    shown = noted.backstory("context", "--prompt", PROMPT)
    as_json = json.loads(noted.backstory("context", "--prompt", PROMPT, "--json").stdout)
    noted.run(PROMPT, GOOD)
    assert shown.stdout == f"{as_json['context']}\n"
    assert noted.sent() == f"{OPEN}\n{as_json['context']}\n{CLOSE}\n\n{PROMPT}"
    assert (as_json["board"], as_json["prefix_chars"]) == (["checkout-tests"], len(noted.sent()) - len(PROMPT))
    without = json.loads(noted.backstory("context", "--json").stdout)
    assert (without["board"], NOTE in without["context"]) == ([], False)


def test_where_a_context_is_small_the_session_goes_before_the_notes(noted: Bench) -> None:
    noted.backstory("config", "set", "run.context_chars", "1000")
    noted.run(PROMPT, GOOD)
    assert noted.sent() == PROMPT


def test_a_home_store_that_cannot_be_read_keeps_nothing_from_being_run(noted: Bench) -> None:
    with closing(sqlite3.connect(noted.home / "store.db")) as db, db:
        db.execute("drop table context_items")
    done = noted.run(PROMPT, GOOD)
    assert done.returncode == 0
    assert noted.sent() == PROMPT
    assert "The board could not be read" in done.stderr


def test_a_queued_prompt_is_offered_notes_when_it_runs_and_none_if_it_says_so(noted: Bench) -> None:
    noted.run("first", GOOD)
    noted.backstory("followup", "--no-run", PROMPT)
    noted.backstory("queue", "run", script=[GOOD])
    assert NOTE in noted.sent()
    noted.backstory("followup", "--no-run", "--no-board", PROMPT)
    noted.backstory("queue", "run", script=[GOOD])
    assert NOTE not in noted.sent().partition("## User")[0]


def test_a_prompt_that_could_not_be_queued_is_repeated_as_it_was_asked_for(tmp_path: Path) -> None:
    prompt = QueuedPrompt(
        uid="Q", session_uid="S", kind=QueuedKind.FOLLOWUP, content="go", options=Options(no_board=True)
    )
    assert command_for(prompt, "S1", tmp_path, None) == "backstory followup -S S1 --no-board -- go"
