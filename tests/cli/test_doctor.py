"""``backstory doctor formats``: what an agent writes that its adapter does not know, from the bytes that are kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from backstory.derive.harmless import clean
from backstory.ingest import formats
from tests.support.forked import COMMAND
from tests.support.strange_records import NEW_KEY, NEW_TYPE, PROMPT, SESSION, put, record
from tests.support.terminal import Terminal

if TYPE_CHECKING:
    from tests.support.shell import Shell


def test_types_and_keys_that_no_adapter_knows_are_listed_with_their_places(bare: Shell) -> None:
    put(bare, PROMPT, NEW_KEY, NEW_TYPE, NEW_KEY | {"version": "2.10.0", "uuid": "x"})
    found = bare("doctor", "formats", "--json").json()
    ((new_type,), (new_key,)) = found["types"], found["keys"]
    assert (new_type["agent"], new_type["kind"], new_type["count"]) == ("claude", "telepathy", 1)
    assert (new_key["kind"], new_key["key"], new_key["count"]) == ("user", "message.mood", 2)
    assert [(each["version"], each["count"], each["seq"]) for each in new_key["versions"]] == [
        ("2.9.0", 1, 2), ("2.10.0", 1, 4),
    ]  # fmt: skip
    assert (found["logs_read"], found["records_read"], found["left_out"], found["errors"]) == (1, 4, 0, [])


def test_a_store_that_is_known_says_so(read_once: Shell) -> None:
    done = read_once("doctor", "formats")
    assert (done.code, done.out) == (0, "")
    assert "No type and no key that no adapter knows, in" in done.err


def test_a_known_type_that_nobody_recorded_is_named_apart(bare: Shell) -> None:
    put(bare, PROMPT, record(2, type="bridge-session", whatever=1))
    found = bare("doctor", "formats", "--json").json()
    assert (found["types"], found["keys"]) == ([], [])
    assert [each["kind"] for each in found["without_case"]] == ["bridge-session"]
    assert "claude bridge-session (1)" in bare("doctor", "formats").err


def test_only_the_agents_and_the_time_that_are_asked_for_are_read(bare: Shell) -> None:
    put(bare, PROMPT, NEW_TYPE)
    assert bare("doctor", "formats", "-a", "codex", "--json").json()["logs_read"] == 0
    assert bare("doctor", "formats", "-a", "claude", "--since", "yesterday", "--json").json()["logs_read"] == 1
    assert bare("doctor", "formats", "--since", "2099-01-01", "--json").json()["logs_read"] == 0
    assert bare("doctor", "formats", "-a", "clade").code == 64


def test_without_a_store_it_is_an_error(bare: Shell) -> None:
    assert (bare("doctor", "formats").code, bare("doctor", "formats").out) == (66, "")


def test_what_a_log_calls_its_types_is_harmless_and_bounded(bare: Shell) -> None:
    evil = "\x1b]0;title\x07" + "x" * 10_000
    put(bare, PROMPT, *(record(n, type=f"{evil}{n}") for n in range(2, 5)), NEW_KEY | {"\x1b[2J": 1})
    done = bare("doctor", "formats")
    assert "\x1b" not in done.out
    assert max(map(len, done.out.splitlines())) < 2 * formats.NAME_CHARS_MAX + 100
    assert {each["key"] for each in bare("doctor", "formats", "--json").json()["keys"]} == {"*", "message.mood"}


def test_more_than_can_be_told_apart_is_counted(bare: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "FOUND_MAX", 3)
    put(bare, PROMPT, *(record(n, type=f"new-{n}") for n in range(2, 8)))
    done = bare("doctor", "formats", "--json").json()
    assert (len(done["types"]), done["left_out"]) == (3, 3)


@pytest.mark.slow
def test_on_a_narrow_terminal_a_name_stands_above_its_place(bare: Shell) -> None:
    put(bare, PROMPT, NEW_KEY, NEW_TYPE)
    with Terminal(
        [*COMMAND, "doctor", "formats"], bare.cwd, bare.environ | {"COLUMNS": "60"}, is_copied=True
    ) as terminal:
        shown = terminal.end()
    lines = [clean(line.rstrip("\r")) for line in shown.split("\n")]
    assert "claude key user: message.mood" in "\n".join(lines)
    assert "1 times" not in shown


def test_a_log_that_is_damaged_is_named_and_the_others_are_read(bare: Shell) -> None:
    import apsw

    other = SESSION.replace("1", "2")
    put(bare, PROMPT)
    put(bare, *({**each, "sessionId": other} for each in (PROMPT | {"uuid": "y"}, NEW_TYPE)), name=other)
    db = apsw.Connection(str(bare.store))
    db.execute("update chunks set data = zeroblob(length(data)) where id = (select min(id) from chunks)")
    db.close()
    found = bare("doctor", "formats", "--json").json()
    assert len(found["errors"]) == 1
    assert [each["kind"] for each in found["types"]] == ["telepathy"]
