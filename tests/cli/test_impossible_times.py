"""A time that no calendar has, as a store of an earlier version may hold: it is shown as none, and nothing fails."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import apsw
import pytest

from backstory import bounds
from backstory.cli import main, output
from backstory.cli.commands.sql_command import EXAMPLES

if TYPE_CHECKING:
    from tests.support.shell import Shell

pytestmark = pytest.mark.slow

IMPOSSIBLE = (bounds.TIME_MAX_MS + 1, 253_402_351_199_999, -1, -62_135_596_800_001, 2**62, -(2**63))


@pytest.mark.parametrize("ms", IMPOSSIBLE)
def test_an_impossible_time_is_shown_as_none(ms: int) -> None:
    assert output.iso(ms) is None
    assert output.local(ms) == "no time"


@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "Etc/GMT+12", "UTC"])
@pytest.mark.parametrize("ms", [0, bounds.TIME_MAX_MS])
def test_the_first_and_the_last_time_are_shown_in_every_zone(
    monkeypatch: pytest.MonkeyPatch, zone: str, ms: int
) -> None:
    import time

    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        assert output.local(ms)[:4] in ("1969", "1970", "9999")
        assert (output.iso(ms) or "").startswith(("1970-01-01T00:00:00.000", "9999-12-31T23:59:59.999"))
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize("ms", [None, 0, -1, 2**63, 2**70])
def test_any_duration_is_shown(ms: int | None) -> None:
    assert isinstance(output.duration(ms), str)


@pytest.mark.parametrize("ms", IMPOSSIBLE)
def test_a_store_with_impossible_times_is_listed_shown_and_searched(bare: Shell, ms: int) -> None:
    bare.put("claude/tools")
    assert bare("ingest").code == 0
    with closing(apsw.Connection(str(bare.store))) as db:
        db.execute("update sessions set last_active = ?1", (ms,))
        db.execute("update turns set started = ?1, ended = ?1, duration_ms = 9223372036854775807", (ms,))
        db.execute("update events set at = ?1", (ms,))
    (session,) = bare("list", "--all", "--json").json()["sessions"]
    assert session["last_active"] is None
    for command in (["list", "--all"], ["show", session["uid"]], ["show", session["uid"], "--json"],
                    ["search", "the"], ["tree", session["uid"]], ["context", session["uid"]],
                    ["sql", "select * from turns"], ["chronicle", "tips", "--since", "1970-01-01"],
                    ["chronicle", "cost", "--since", "1970-01-01"]):  # fmt: skip
        done = bare(*command)
        assert (done.code, "Traceback" in done.err) == (0, False), (command, done.err)
    assert bare("reindex", "--force").code == 0
    assert bare("ingest").code == 0


def test_the_tables_of_usage_are_told_though_sums_are_too_large(bare: Shell) -> None:
    bare.put("claude/tools", "claude/denied", "claude/fork")
    bare("ingest")
    with closing(apsw.Connection(str(bare.store))) as db:
        db.execute("update turns set input_tokens = 9223372036854775807, output_tokens = 9223372036854775807")
        assert db.execute("select count(*) from turns").get > 1
    for question in (EXAMPLES["Cost and tokens by week"], EXAMPLES["Tokens by model"]):
        assert bare("sql", question).code == 0


def test_a_clock_that_no_program_can_read_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def too_late() -> int:
        raise OverflowError("timestamp too large to convert to C _PyTime_t")

    monkeypatch.setattr("time.time_ns", too_late)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 71
    assert "clock" in capsys.readouterr().err
