"""What an earlier version got wrong is right after the next ingest, and is said until then.

Each file of the golden stores that is named here is a home store with such a fault, made by revision 28160295.
"""

from __future__ import annotations

import re
import shutil
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import apsw
import pytest
import zstandard

from backstory.cli.app import App
from backstory.store.intake import append
from backstory.workspace.stores import importing
from tests.support.shell import Shell

pytestmark = pytest.mark.slow

GOLDEN = Path(__file__).parent.parent / "store" / "golden"
SAID = "An earlier version counted what is here, so sums may be other ones"


class Usage(NamedTuple):
    """Of a disk, as ``shutil.disk_usage`` says it."""

    free: int


FAULTS: dict[str, tuple[list[Any], list[Any]]] = {
    # One running total is told twice, the first time for turns that were copied, too.
    "zero-after-a-copied-past": (
        [(None, None, 1000), (0.0, "reported", 1000), (0.5, "reported", 1000)],
        [(None, None, 1000), (None, None, 1000), (0.5, "reported", 1000)],
    ),
    # A total that does not hold the second turn said that its input is nothing.
    "zero-beside-counted-tokens": ([(None, None, 1000), (None, None, 0)], [(None, None, 1000), (None, None, None)]),
    # The second turn's counts are a negative number and a text.
    "count-that-is-none": (
        [(None, None, 1000), (None, None, 0), (None, None, 1000)],
        [(None, None, 1000), (None, None, None), (None, None, 1000)],
    ),
}


def home_of(bare: Shell, fault: str) -> Shell:
    bare.store.parent.mkdir(mode=0o700)
    bare.store.write_bytes(zstandard.ZstdDecompressor().decompress((GOLDEN / f"{fault}.db.zst").read_bytes()))
    bare.store.chmod(0o600)
    return bare


def turns(home: Shell) -> list[Any]:
    with closing(apsw.Connection(str(home.store))) as db:
        return db.execute("select cost_usd, cost_source, input_tokens from turns order by first_seq").fetchall()


@pytest.mark.parametrize("fault", FAULTS)
def test_what_an_earlier_version_counted_wrongly_is_right_after_the_next_ingest(bare: Shell, fault: str) -> None:
    home, (before, after) = home_of(bare, fault), FAULTS[fault]
    assert turns(home) == before
    told = home("ingest").err
    converts, _, done = told.partition("1 session is counted by the rules of this version now")
    assert "An earlier version counted what is here. 1 session to convert: about 1 s" in converts and done, told
    assert turns(home) == after
    assert "counted by the rules" not in home("ingest").err


def test_without_room_nothing_is_converted_and_that_is_said(bare: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    home, (before, after) = home_of(bare, "zero-after-a-copied-past"), FAULTS["zero-after-a-copied-past"]
    room = 3 * home.store.stat().st_size
    with monkeypatch.context() as changed:
        changed.setattr(shutil, "disk_usage", lambda _: Usage(room - 1))
        told = home("ingest")
    assert (told.code, "Nothing of it is converted: the disk has " in told.err) == (0, True), told
    assert turns(home) == before
    assert SAID in home("stats").err
    assert "1 session is counted by the rules of this version now" in home("ingest").err
    assert turns(home) == after


@pytest.mark.parametrize(
    "words", [("stats",), ("list", "--all"), ("search", "copied"), ("stats", "--store", "{store}")]
)
@pytest.mark.parametrize("auto", ["true", "false"])
def test_until_then_it_is_said_whatever_is_read(bare: Shell, words: tuple[str, ...], auto: str) -> None:
    home = home_of(bare, "zero-after-a-copied-past")
    told = home(*(each.format(store=home.store) for each in words), BACKSTORY_INGEST_AUTO=auto)
    assert (told.code, SAID in told.err) == (0, True), told
    (line,) = (line for line in told.err.splitlines() if SAID in line)
    assert re.search(
        r"backstory ingest.* \(1 session to convert: about 1 s, and up to [\d.]+ MB of room meanwhile\)$", line
    )
    assert turns(home) == FAULTS["zero-after-a-copied-past"][0]


@pytest.mark.parametrize(
    "words", [("stats", "--all"), ("stats", "--all", "--by", "tool"), ("chronicle", "cost", "--since", "2020-01-01")]
)
def test_sums_as_json_say_that_an_earlier_version_counted_until_the_next_ingest(
    bare: Shell, words: tuple[str, ...]
) -> None:
    home = home_of(bare, "count-that-is-none")
    assert home(*words, "--json").json()["counted_earlier"] is True
    assert home("ingest").code == 0
    assert home(*words, "--json").json()["counted_earlier"] is False


def test_a_command_that_acts_counts_anew_when_its_work_is_done(bare: Shell) -> None:
    home = home_of(bare, "zero-after-a-copied-past")
    uid = home("list", "--all", "--json").json()["sessions"][0]["uid"]
    told = home("rename", uid, "named")
    assert (told.code, "1 session is counted by the rules of this version now" in told.err) == (0, True)
    assert turns(home) == FAULTS["zero-after-a-copied-past"][1]
    assert home("list", "--all", "--json").json()["sessions"][0]["name"] == "named"
    assert SAID not in home("stats").err


def end_of_a_command(home: Shell) -> None:
    app = App({"BACKSTORY_HOME": str(home.store.parent), "HOME": str(home.home)}, home.home)
    app.has_acted = True
    app.close()


def test_a_command_that_acts_leaves_to_the_next_one_what_takes_too_long(
    bare: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, (before, after) = home_of(bare, "zero-after-a-copied-past"), FAULTS["zero-after-a-copied-past"]
    with monkeypatch.context() as changed:
        changed.setattr(importing, "AFTER_COMMAND_CPU_S", 0.0)
        end_of_a_command(home)
    assert turns(home) == before
    assert SAID in home("stats").err
    end_of_a_command(home)
    assert turns(home) == after


def test_ctrl_c_while_it_counts_anew_costs_nothing(bare: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    home = home_of(bare, "zero-after-a-copied-past")
    with monkeypatch.context() as changed:
        changed.setattr(append, "rederive", stopped)
        end_of_a_command(home)
    assert SAID in home("stats").err
    end_of_a_command(home)
    assert turns(home) == FAULTS["zero-after-a-copied-past"][1]
    assert SAID not in home("stats").err
