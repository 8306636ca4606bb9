"""What an earlier version got wrong is right after the next ingest, and is said until then.

Each file of the golden stores that is named here is a home store with such a fault, made by revision 28160295.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest
import zstandard

from tests.support.shell import Shell

pytestmark = pytest.mark.slow

GOLDEN = Path(__file__).parent.parent / "store" / "golden"
SAID = "An earlier version counted what is here, so sums may be other ones"


FAULTS: dict[str, tuple[list[Any], list[Any]]] = {
    # One running total is told twice, the first time for turns that were copied, too.
    "zero-after-a-copied-past": (
        [(None, None, 1000), (0.0, "reported", 1000), (0.5, "reported", 1000)],
        [(None, None, 1000), (None, None, 1000), (0.5, "reported", 1000)],
    ),
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
    assert "1 session is counted by the rules of this version now" in home("ingest").err
    assert turns(home) == after
    assert "counted by the rules" not in home("ingest").err


def test_until_then_it_is_said_also_where_a_command_wrote_to_the_store_meanwhile(bare: Shell) -> None:
    home = home_of(bare, "zero-after-a-copied-past")
    assert SAID in home("stats").err
    uid = home("list", "--all", "--json").json()[0]["uid"]
    assert home("rename", uid, "named").code == 0
    for words in (("stats",), ("list", "--all"), ("search", "copied")):
        told = home(*words)
        assert (told.code, SAID in told.err) == (0, True), told
    assert home("ingest").code == 0
    assert SAID not in home("stats").err
