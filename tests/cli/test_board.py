"""``backstory board``: what people write, read and remove, and what they are told where that cannot be."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from backstory.conversation.board import BoardKey
from backstory.store import open_store
from backstory.store.tables import boarding
from backstory.store.tables.board_items import NewItem
from tests.support.read_only import read_only, without_power

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.shell import Done, Shell

pytestmark = pytest.mark.slow

ITEM_FIELDS = {
    "repository", "branch", "src", "name", "description", "content", "author", "read_count", "session_count", "created",
    "changed",
}  # fmt: skip
INVALID, FULL, NOT_FOUND, NOT_ALLOWED = 64, 65, 66, 77


def key_of(shell: Shell) -> BoardKey:
    return BoardKey(f"local:{shell.cwd}", "default")


def fill(shell: Shell, count: int, *, agent: str | None = "codex") -> None:
    with open_store(shell.store, shared=True) as store:
        for number in range(count):
            src = "user" if agent is None else "agent"
            boarding.put(store, key_of(shell), NewItem(src, f"n-{number:02}", "", f"text {number}", agent))  # type: ignore[arg-type]


def items(shell: Shell, *words: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = shell("board", "list", "--json", *words).json()["items"]
    return found


def test_what_is_added_is_listed_and_shown(bare: Shell) -> None:
    added = bare("board", "add", "build-notes", "Run", "make", "first.", "-d", "how it is built")
    assert (added.code, added.out) == (0, "")
    assert added.err == f"Added build-notes on the board of local:{bare.cwd} (default): 1 item.\n"
    assert bare("board", "list").out.splitlines() == [
        "NAME         BY    READS/SESSIONS  ABOUT", "build-notes  user  0/0             how it is built"
    ]  # fmt: skip
    assert bare("board", "show", "build-notes").out == "Run make first.\n"


def test_a_text_is_piped_in_or_written_in_an_editor(bare: Shell) -> None:
    bare("board", "add", "one", "-", typed="a\nb\n")
    bare("board", "add", "two", typed="c")
    bare("board", "add", "one", "--edit", EDITOR="sed -i 1s/a/edited/")
    assert [each["content"] for each in items(bare)] == ["edited\nb", "c"]


def test_an_editor_that_is_left_empty_changes_nothing(bare: Shell) -> None:
    bare("board", "add", "one", "text")
    done = bare("board", "add", "one", "--edit", EDITOR="truncate -s 0")
    assert (done.code, "nothing was changed" in done.err) == (INVALID, True)
    assert [each["content"] for each in items(bare)] == ["text"]


def test_showing_counts_a_read_and_listing_does_not(bare: Shell) -> None:
    bare("board", "add", "one", "text")
    items(bare)
    assert bare("board", "show", "one", "--json").json()["read_count"] == 1
    assert bare("board", "show", "one", "--json").json()["read_count"] == 2
    assert [each["read_count"] for each in items(bare)] == [2]


def test_json_has_names_that_stay(bare: Shell) -> None:
    added = bare("board", "add", "one", "text", "--agent", "codex", "--json").json()
    assert added.keys() == ITEM_FIELDS | {"is_new", "item_count"}
    assert (added["src"], added["author"], added["is_new"], added["item_count"]) == ("agent", "codex", True, 1)
    board = bare("board", "list", "--json").json()
    assert board.keys() == {"repository", "branch", "items_max", "items"}
    assert [each.keys() for each in board["items"]] == [ITEM_FIELDS]
    assert bare("board", "list", "--all", "--json").json()["boards"] == [
        {"repository": f"local:{bare.cwd}", "branch": "default", "item_count": 1}
    ]
    assert bare("board", "prune", "--keep", "0", "--json").json().keys() == {"removed_items", "item_count"}


def test_an_agent_and_a_person_may_use_one_name(bare: Shell) -> None:
    bare("board", "add", "one", "a person's")
    bare("board", "add", "one", "an agent's", "--agent", "codex")
    done = bare("board", "show", "one")
    assert (done.code, "--src agent or --src user" in done.err) == (INVALID, True)
    assert bare("board", "show", "one", "--src", "user").out == "a person's\n"
    assert bare("board", "show", "one", "--src", "agent").out == "an agent's\n"
    assert bare("board", "rm", "one").code == INVALID
    assert bare("board", "rm", "one", "--src", "agent").code == 0
    assert [each["src"] for each in items(bare)] == ["user"]


def test_boards_are_of_a_repository_and_a_branch(bare: Shell) -> None:
    subprocess.run(["git", "init", "-q", "-b", "main", "."], cwd=bare.cwd, check=True)
    remote = ["git", "remote", "add", "origin", "git@github.com:me/tool.git"]
    subprocess.run(remote, cwd=bare.cwd, check=True)
    bare("board", "add", "one", "text")
    board = bare("board", "list", "--json").json()
    assert (board["repository"], board["branch"]) == ("me/tool", "main")
    assert items(bare, "--branch", "other") == []
    assert "This repository has some on (--branch): main" in bare("board", "list", "--branch", "other").err
    subprocess.run(["git", "symbolic-ref", "HEAD", "refs/heads/other"], cwd=bare.cwd, check=True)
    assert items(bare) == []
    for words in (["--branch", "main"], ["--repo", "https://github.com/me/tool", "--branch", "main"]):
        assert [each["name"] for each in items(bare, *words)] == ["one"]
    (bare.cwd / "sub").mkdir()
    bare.cwd = bare.cwd / "sub"
    assert [each["name"] for each in items(bare, "--branch", "main", "--repo", "..")] == ["one"]


def test_a_nearly_full_board_warns_and_a_full_one_refuses(bare: Shell) -> None:
    fill(bare, 21)
    assert "backstory board prune" not in bare("board", "add", "a", "x").err
    assert "The board has 23 of 25 items." in bare("board", "add", "b", "x").err
    bare("board", "add", "c", "x"), bare("board", "add", "d", "x")
    done = bare("board", "add", "e", "x")
    assert (done.code, "is full: it has 25 items. Nothing was added." in done.err) == (FULL, True)
    assert bare("board", "add", "d", "another text").code == 0
    pruned = bare("board", "prune")
    assert "Removed 7 items; 18 left" in pruned.err
    assert len(pruned.out.splitlines()) == 7
    assert {"a", "b", "c", "d"} <= {each["name"] for each in items(bare)}


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["add", "Build Notes", "x"], INVALID, "Try: build-notes"),
        (["add", "日本", "x"], INVALID, "lower-case letters and digits"),
        (["add", "one", "x" * 4_001], INVALID, "The content has 4,001 characters; 4,000 fit."),
        (["add", "one", "x", "-d", "y" * 201], INVALID, "The description has 201 characters; 200 fit."),
        (["add", "one"], INVALID, "The item is empty."),
        (["add", "one", " \n\x1b"], INVALID, "The item is empty."),
        (["show", "build-nots"], NOT_FOUND, "Did you mean build-notes?"),
        (["show", "zebra"], NOT_FOUND, "Try: backstory board list"),
        (["rm", "zebra"], NOT_FOUND, "has no item 'zebra'"),
        (["show", "build-notes", "--src", "agent"], NOT_FOUND, "has no item"),
    ],
)
def test_bad_input_says_what_would_be_good(bare: Shell, words: list[str], code: int, says: str) -> None:
    bare("board", "add", "build-notes", "text")
    done = bare("board", *words)
    assert (done.code, done.out) == (code, "")
    assert says in done.err
    assert [each["name"] for each in items(bare)] == ["build-notes"]


def test_characters_are_counted_as_code_points(bare: Shell) -> None:
    assert bare("board", "add", "one", "-", typed="😀" * 4_000).code == 0
    assert bare("board", "add", "two", "-", typed="😀" * 4_001).code == INVALID


def test_a_text_is_printed_as_it_is_and_acts_on_no_terminal(bare: Shell) -> None:
    bare("board", "add", "one", "-", typed="red \x1b[31m\r\nback \u202e")
    assert bare("board", "show", "one").out == "red [31m\nback \\u202e\n"


def in_a_read_only_home(bare: Shell, *words: str) -> Done:
    from tests.support.shell import Done

    with read_only(bare.store.parent):
        done = subprocess.run(
            [sys.executable, "-m", "backstory", *words], cwd=bare.cwd, env=bare.environ, capture_output=True, text=True,
            stdin=subprocess.DEVNULL, preexec_fn=without_power if os.geteuid() == 0 else None, check=False,
        )  # fmt: skip
    return Done(done.returncode, done.stdout, done.stderr)


def test_in_a_home_that_cannot_be_written_items_are_read_and_it_is_said(bare: Shell) -> None:
    bare("board", "add", "one", "text")
    bare.store.chmod(0o444)
    shown = in_a_read_only_home(bare, "board", "show", "one")
    assert (shown.code, shown.out) == (0, "text\n")
    assert "This read was not counted: read-only" in shown.err
    added = in_a_read_only_home(bare, "board", "add", "two", "text")
    assert (added.code, added.out) == (NOT_ALLOWED, "")
    bare.store.chmod(0o600)
    assert [(each["name"], each["read_count"]) for each in items(bare)] == [("one", 0)]


def test_a_store_from_elsewhere_is_read_and_neither_counted_nor_changed(bare: Shell, tmp_path: Path) -> None:
    there = tmp_path / "there" / ".backstory" / "sessions.bks"
    with open_store(there) as store:
        store.create_session()
        boarding.put(store, key_of(bare), NewItem("agent", "one", "", "text", "codex"))
    before = there.read_bytes()
    shown = bare("board", "show", "one", "--store", there)
    assert (shown.code, shown.out) == (0, "text\n")
    assert "This read was not counted" in shown.err
    for words in (["add", "two", "x"], ["rm", "one"], ["prune", "--keep", "0"]):
        assert bare("board", *words, "--store", there).code == NOT_ALLOWED
    assert there.read_bytes() == before
    assert items(bare) == []


def test_listing_an_empty_board_says_how_to_begin_and_makes_no_store(bare: Shell) -> None:
    done = bare("board", "list")
    assert (done.code, done.out) == (0, "")
    assert "backstory board add NAME TEXT" in done.err
    assert json.loads(bare("board", "list", "--json").out)["items"] == []
