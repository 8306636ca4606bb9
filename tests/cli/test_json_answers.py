"""With ``--json`` each command that changes something says on stdout what it changed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click
import pytest

from backstory.cli import cli
from tests.support.bench import Bench
from tests.support.going import Going
from tests.support.own_log import own_log
from tests.support.running import GOOD

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NO_JSON = {"completion", "help", "skill show", "tui", "web", "serve", "logout"}
"""What these print is a text for a program or a person already."""


@pytest.fixture(scope="module")
def two_turns(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """A project with a session of two turns."""
    bench = Bench(tmp_path_factory.mktemp("json"))
    for prompt in ("first", "second"):
        bench.run(prompt, {"say": f"the answer to {prompt}"}, GOOD)
    return bench


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def answer(bench: Bench, *words: str, cwd: Path | None = None) -> Any:
    done = bench.backstory(*words, "--json", cwd=cwd)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def leaves(command: click.Command, words: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    if not isinstance(command, click.Group):
        yield " ".join(words), command
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        if (found := command.get_command(context, name)) is not None:
            yield from leaves(found, (*words, name))


def test_every_command_that_prints_or_changes_something_has_json() -> None:
    without = {
        words
        for words, command in leaves(cli)
        if not any("--json" in option.opts for option in command.params if isinstance(option, click.Option))
    }
    assert without == NO_JSON


def test_a_branch_is_named_and_its_name_removed(two_turns: Bench) -> None:
    named = answer(two_turns, "branch", "name", "main")
    assert (named.pop("uid"), named) == (uid(two_turns), {"label": "S1", "name": "main", "seq": named["seq"]})
    assert answer(two_turns, "branch", "unname", "main") == {"uid": uid(two_turns), "label": "S1", "unnamed": "main"}


def uid(bench: Bench) -> str:
    with bench.store as store:
        return store.session("S1").uid


def test_a_removed_branch_is_restored_and_another_is_deleted_for_good(two_turns: Bench) -> None:
    with two_turns.store as store:
        first, second = store.turns(store.session("S1"))[:2]
    two_turns.backstory("branch", "rm", f"@{second.first_seq}", "--yes")
    back = answer(two_turns, "branch", "restore")
    assert (back["restored"], back["seq"]) == (1, first.last_seq)
    two_turns.backstory("branch", "rm", f"@{second.first_seq}", "--yes")
    assert answer(two_turns, "branch", "prune", "--yes") == {"uid": uid(two_turns), "label": "S1", "deleted": 1}


def test_a_session_is_renamed(two_turns: Bench) -> None:
    named = {"uid": uid(two_turns), "label": "S1", "name": "herons"}
    assert answer(two_turns, "rename", "S1", "herons") == named
    assert answer(two_turns, "rename", "S1", "")["name"] is None


def test_a_key_of_the_context_is_set_and_removed(two_turns: Bench) -> None:
    said = {"uid": uid(two_turns), "label": "S1", "key": "ticket"}
    assert answer(two_turns, "context", "set", "ticket", "ABC-12", "S1") == said | {"value": "ABC-12"}
    assert answer(two_turns, "context", "unset", "ticket", "-S", "S1") == said | {"value": None}


def test_a_run_that_is_stopped_is_named(bench: Bench) -> None:
    with Going(bench, {"say": "so far"}):
        stopped = answer(bench, "cancel", "S1")
    assert stopped == {
        "uid": uid(bench), "label": "S1", "was_running": True, "was_summarising": False, "dropped_count": 0,
        "queued_count": 0,
    }  # fmt: skip


def test_a_backup_says_where_it_is_and_how_long(two_turns: Bench) -> None:
    made = answer(two_turns, "backup", "copy.db")
    path = two_turns.project / "copy.db"
    assert made == {"path": str(path), "bytes": path.stat().st_size}


def test_a_setting_is_a_value_and_a_file(two_turns: Bench) -> None:
    assert answer(two_turns, "config", "set", "run.silence_s", "90") == {
        "key": "run.silence_s", "value": 90, "file": str(two_turns.home / "config.toml")
    }  # fmt: skip


def test_a_moved_folder_is_named_with_the_number_of_its_sessions(bench: Bench) -> None:
    own_log(bench, "first", native_id="3f2b8f5e-5a6b-4d5c-9d8f-0a1b2c3d4e5f")
    bench.backstory("ingest")
    old, new = bench.project, bench.project.rename(bench.root / "new")
    moved = answer(bench, "project", "move", str(old), str(new), cwd=new)
    assert (moved["moved"]["from"], moved["moved"]["to"], moved["session_count"]) == (str(old), str(new), 1)
    assert answer(bench, "project", "move", str(old), "--undo", cwd=new)["moved"]["from"] == str(old)


def test_what_is_removed_is_named_by_its_uids(two_turns: Bench) -> None:
    removed = uid(two_turns)
    assert answer(two_turns, "rm", "S1", "--yes") == {"uids": [removed], "dropped_prompts": [], "copies": []}
