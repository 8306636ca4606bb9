"""What an earlier version got wrong is right after the next ingest, and is said until then.

``zero-after-a-copied-past.db.zst`` in ``golden`` is a home store whose second turn is said to have cost nothing: its
log tells one running total twice, the first time for turns that were copied, too.
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


@pytest.fixture
def home(bare: Shell) -> Shell:
    bare.store.parent.mkdir(mode=0o700)
    packed = (GOLDEN / "zero-after-a-copied-past.db.zst").read_bytes()
    bare.store.write_bytes(zstandard.ZstdDecompressor().decompress(packed))
    bare.store.chmod(0o600)
    return bare


def turns(home: Shell) -> list[Any]:
    with closing(apsw.Connection(str(home.store))) as db:
        return db.execute("select cost_usd, cost_source from turns order by first_seq").fetchall()


def test_a_turn_that_cost_an_unknown_part_is_not_said_to_have_cost_nothing_after_the_next_ingest(home: Shell) -> None:
    assert turns(home) == [(None, None), (0.0, "reported"), (0.5, "reported")]
    done = home("ingest")
    assert "1 session is counted by the rules of this version now" in done.err
    assert turns(home) == [(None, None), (None, None), (0.5, "reported")]
    assert "counted by the rules" not in home("ingest").err


def test_until_then_it_is_said_also_where_a_command_wrote_to_the_store_meanwhile(home: Shell) -> None:
    assert SAID in home("stats").err
    uid = home("list", "--all", "--json").json()[0]["uid"]
    assert home("rename", uid, "named").code == 0
    for words in (("stats",), ("list", "--all"), ("search", "copied")):
        told = home(*words)
        assert (told.code, SAID in told.err) == (0, True), told
    assert home("ingest").code == 0
    assert SAID not in home("stats").err
