"""``context set`` and ``unset``: keys that a person gives a session, in the project's store and the home's."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from backstory.store import open_store
from backstory.store.tables import decisions
from tests.support.bench import Bench, MadeOnce

if TYPE_CHECKING:
    from pathlib import Path


GOOD: dict[str, Any] = {"result": {"is_error": False}}
VALUES = "select key, value from context_values order by key"
KEY_CHARS, VALUE_BYTES, KEYS = 200, 64 * 1024, 64


@pytest.fixture(scope="module")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> MadeOnce:
    bench = Bench(tmp_path_factory.mktemp("ran"))
    assert bench.run("hello", {"say": "hi"}, GOOD).returncode == 0
    return MadeOnce(bench)


@pytest.fixture
def ran(made_once: MadeOnce) -> Bench:
    return made_once.anew_and_noted()


def done(bench: Bench, *words: str, code: int = 0) -> str:
    said = bench.backstory("context", *words)
    assert (said.returncode, "Traceback" in said.stderr) == (code, False), said.stderr
    return said.stderr


def asked(path: Path, sql: str = VALUES) -> list[tuple[Any, ...]]:
    with open_store(path, shared=True) as store:
        return store.execute_read_only(sql).rows


def everywhere(bench: Bench) -> list[tuple[str, str]]:
    """What is set, which is the same in both stores."""
    found = asked(bench.store.path)
    assert asked(bench.home / "store.db") == found
    return found


def test_a_key_is_set_changed_and_removed_in_every_store(ran: Bench) -> None:
    assert done(ran, "set", "ticket", "A-1", "S1") == "'ticket' is set in the context of S1.\n"
    assert everywhere(ran) == [("ticket", "A-1")]
    done(ran, "set", "ticket", "A-2", "-S", "S1")
    done(ran, "set", "a blank", "")
    assert everywhere(ran) == [("a blank", ""), ("ticket", "A-2")]
    assert done(ran, "unset", "ticket", "S1") == "'ticket' is not set any more in the context of S1.\n"
    assert everywhere(ran) == [("a blank", "")]


def test_the_view_of_ahs_shape_has_it_beside_what_is_ours(ran: Bench) -> None:
    done(ran, "set", "ticket", "A-1")
    rows = asked(ran.store.path, "select key, value from context where key <> 'current_message' order by 1")
    assert rows[-2:] == [("session_state", "closed"), ("ticket", "A-1")]


def test_it_is_there_after_an_ingest_and_a_reindex(ran: Bench) -> None:
    done(ran, "set", "ticket", "A-1")
    for words in (("ingest",), ("reindex",)):
        assert ran.backstory(*words).returncode == 0
        assert everywhere(ran) == [("ticket", "A-1")]


def test_it_is_there_after_a_run_that_follows(ran: Bench) -> None:
    done(ran, "set", "ticket", "A-1")
    assert ran.run("more", {"say": "yes"}, GOOD).returncode == 0
    assert everywhere(ran) == [("ticket", "A-1")]


def test_it_goes_with_its_session(ran: Bench) -> None:
    done(ran, "set", "ticket", "quokka")
    assert ran.backstory("rm", "S1", "--yes").returncode == 0
    assert everywhere(ran) == []
    for path in (ran.store.path, ran.home / "store.db"):
        assert asked(path, "select key from main.meta where key like 'context %'") == []
        assert b"quokka" not in path.read_bytes()


def test_what_a_store_missed_comes_at_the_next_ingest(ran: Bench) -> None:
    with open_store(ran.home / "store.db", shared=True) as home:
        uid = ran.store.session("S1").uid
        home.decide(decisions.set_context, uid, "ticket", "A-1", home.now())
    assert ran.backstory("ingest").returncode == 0
    assert everywhere(ran) == [("ticket", "A-1")]


def test_no_word_of_a_key_stays_in_the_notes_of_decisions(ran: Bench) -> None:
    done(ran, "set", "quokka", "A-1")
    done(ran, "unset", "quokka")
    assert "quokka" not in str(asked(ran.store.path, "select key, value from main.meta"))


@pytest.mark.parametrize("key", decisions.OWN_KEYS)
def test_a_key_that_agents_keep_is_refused_and_all_of_them_are_named(ran: Bench, key: str) -> None:
    said = done(ran, "set", key, "x", code=64)
    assert all(each in said for each in decisions.OWN_KEYS)
    assert everywhere(ran) == []


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("", "x", "at least one character"),
        (" ", "x", "at least one character"),
        ("k" * (KEY_CHARS + 1), "x", "at most 200 characters; this has 201"),
        ("k", "é" * (VALUE_BYTES // 2) + "x", "at most 65,536 bytes; this has 65,537"),
    ],
    ids=["empty", "blank", "long key", "long value"],
)
def test_what_is_out_of_bounds_is_refused_and_says_the_bound(ran: Bench, key: str, value: str, words: str) -> None:
    assert words in done(ran, "set", key, value, code=64)
    assert everywhere(ran) == []


def test_the_longest_key_and_value_are_kept_whole(ran: Bench) -> None:
    done(ran, "set", "é" * KEY_CHARS, "é" * (VALUE_BYTES // 2))
    assert everywhere(ran) == [("é" * KEY_CHARS, "é" * (VALUE_BYTES // 2))]


def test_more_keys_than_a_context_takes_are_refused_and_one_that_is_there_can_change(ran: Bench) -> None:
    uid = ran.store.session("S1").uid
    for number in range(KEYS):
        ran.store.decide(decisions.set_context, uid, f"key {number}", "x", ran.store.now())
    assert f"has {KEYS} keys set" in done(ran, "set", "one more", "x", code=65)
    done(ran, "set", "key 0", "y")
    found = dict(asked(ran.store.path))
    assert (len(found), found["key 0"]) == (KEYS, "y")


def test_a_key_that_nobody_set_cannot_be_removed_and_those_that_are_set_are_named(ran: Bench) -> None:
    assert "None is set." in done(ran, "unset", "ticket", code=66)
    done(ran, "set", "ticket", "A-1")
    assert "Did you mean ticket? Set are: ticket." in done(ran, "unset", "tickt", code=66)
    assert everywhere(ran) == [("ticket", "A-1")]


def test_a_session_that_nobody_has_is_not_found(ran: Bench) -> None:
    done(ran, "set", "ticket", "A-1", "S9", code=66)
    assert everywhere(ran) == []


def test_an_error_is_json_where_that_is_asked_for(ran: Bench) -> None:
    said = ran.backstory("context", "set", "session_name", "x", "--json")
    assert json.loads(said.stderr.splitlines()[-1])["error"]["kind"] == "context_unusable"


def test_the_preview_still_shows_the_session_that_a_first_word_names(ran: Bench) -> None:
    assert ran.backstory("rename", "S1", "set").returncode == 0
    shown = ran.backstory("context", "--", "set")
    assert (shown.returncode, shown.stdout) == (0, ran.backstory("context", "S1").stdout)
    assert "hello" in shown.stdout


def test_bytes_that_are_no_text_become_marks(ran: Bench) -> None:
    done(ran, "set", os.fsdecode(b"k\xff"), os.fsdecode(b"v\xff"))
    assert everywhere(ran) == [("k\ufffd", "v\ufffd")]
