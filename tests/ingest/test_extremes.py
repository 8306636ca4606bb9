"""Whatever stands in a number or a time of a recorded log or stream, it is read, listed, shown and found."""

from __future__ import annotations

import json
import re
from itertools import cycle
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from backstory import agents, bounds, ids
from backstory.agents.contract import Agent, LogRoot
from backstory.cli import cli
from backstory.ingest.ingest import ingest
from backstory.ingest.reindex import reindex
from backstory.runs.runner import Runner
from backstory.runs.spool import SPOOLS, Run, Spool
from backstory.store import Store, open_store
from tests.support.clock import NOW
from tests.support.machines import kept, looked_up, sha256
from tests.support.reading import case_name, cases, log_of
from tests.support.streaming import STREAMS
from tests.support.wrapped import WrappedLogs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from backstory.ingest.report import IngestReport

NUMBERS = (
    "9223372036854775807", "9223372036854775808", "18446744073709551616", "1180591620717411303424", "-1",
    "-9223372036854775809", "1e400", "-1e400", "1e300", "NaN", "Infinity", "-Infinity", "1.5", '"many"', '"12"',
    "true", "null", "[]", "{}",
)  # fmt: skip
TIMES = (
    '"0000-00-00T00:00:00Z"', '"0001-01-01T00:00:00Z"', '"1969-12-31T23:59:59.999Z"', '"9999-12-31T23:59:59.999Z"',
    '"9999-12-31T23:59:59.999-14:00"', '"0001-01-01T00:00:00+14:00"', '"10000-01-01T00:00:00Z"',
    '"+123456-01-01T00:00:00Z"', "253402300800000", "-62135596800000", "1e300", '"soon"', "null",
)  # fmt: skip
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d")
_MARK = re.compile(r'"\\u0001(\d+)\\u0001"')
ROWS = r"""
select 'turns', count(*) from turns where started not between 0 and ?1 or ended not between 0 and ?1
  or input_tokens < 0 or output_tokens < 0 or duration_ms < 0 or api_latency_ms < 0 or cost_usd < 0
union all select 'events', count(*) from events where at not between 0 and ?1
union all select 'sessions', count(*) from sessions where last_active not between 0 and ?1
  or created not glob '[0-9][0-9][0-9][0-9]-*'
"""


class Recorded(WrappedLogs):
    """An agent whose logs all lie in one folder, each under the name of its case; it has no databases."""

    def __init__(self, name: str, folder: Path) -> None:
        super().__init__(name)
        self._folder = folder / name

    def as_agent(self) -> Agent:
        return msgspec.structs.replace(super().as_agent(), database=None)

    def roots(self, environ: Mapping[str, str], home: Path) -> list[LogRoot]:
        return [LogRoot(folder=self._folder, root=self._folder)]

    def is_log(self, path: Path) -> bool:
        return path.suffix in (".json", ".jsonl")


def with_extremes(line: bytes, choose: Callable[[tuple[str, ...]], str | None]) -> bytes:
    """A line with other numbers and times in it; ``choose`` may leave one as it is."""
    put: list[str] = []

    def changed(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: changed(each) for key, each in value.items()}
        if isinstance(value, list):
            return [changed(each) for each in value]
        is_time = isinstance(value, str) and _TIME.match(value)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        extreme = choose(TIMES if is_time else NUMBERS) if is_time or is_number else None
        if extreme is None:
            return value
        put.append(extreme)
        return f"\x01{len(put) - 1}\x01"

    try:
        told = json.loads(line)
    except ValueError:
        return line
    return _MARK.sub(lambda found: put[int(found.group(1))], json.dumps(changed(told))).encode()


def mangled(data: bytes, choose: Callable[[tuple[str, ...]], str | None]) -> bytes:
    return b"\n".join(with_extremes(line, choose) for line in data.split(b"\n"))


def mangled_document(data: bytes, choose: Callable[[tuple[str, ...]], str | None]) -> bytes:
    """The same of a document over many lines, whose lines stay what they are."""
    number = re.compile(rb"(?m)(?<=: )-?\d[\d.eE+-]*(?=,?$)")
    time = re.compile(rb'(?m)(?<=: )"\d{4}-\d\d-\d\dT[^"]*"(?=,?$)')
    data = number.sub(lambda found: (choose(NUMBERS) or found.group().decode()).encode(), data)
    return time.sub(lambda found: (choose(TIMES) or found.group().decode()).encode(), data)


def read_all(folder: Path, chosen: list[Path], choose: Callable[[tuple[str, ...]], str | None]) -> Store:
    """Read the logs of these cases with extremes in them."""
    written = dict[str, bytes]()
    for case in chosen:
        log, agent = log_of(case), case.parent.name
        name = log.relative_to(case) if log.name != "log.jsonl" else Path(f"{case.name}.jsonl")
        path = folder / agent / case.name / name if log.name != "log.jsonl" else folder / agent / name
        path.parent.mkdir(parents=True, exist_ok=True)
        change = mangled_document if log.suffix == ".json" else mangled
        data = change(log.read_bytes(), choose)
        path.write_bytes(data)
        identity = agents.load(agent).log.identify(path, data[: ids.HEAD_BYTES])
        assert identity is not None
        # Of some cases one is the beginning of another, which is kept in its place.
        written[identity.native_id] = data if identity.native_id not in written else b""
    store = open_store(folder / "store.db", shared=True, now=lambda: NOW)
    read = [Recorded(name, folder).as_agent() for name in {case.parent.name for case in chosen}]
    report: IngestReport = ingest(store, read, environ={}, home=folder, now=NOW)
    assert report.errors == []
    assert {sha256(data) for data in written.values() if data} <= set(kept(store))
    return store


def look_at(store: Store) -> None:
    """List, show, search and derive what a store has: none of that fails, and nothing impossible stands in it."""
    assert looked_up(store.path, ROWS, bounds.TIME_MAX_MS) == [("turns", 0), ("events", 0), ("sessions", 0)]
    uids = [session.uid for session in store.sessions(subagents=True)]
    assert uids
    commands = [("list", "--all"), ("list", "--all", "--json"), ("search", "the"), ("search", "the", "--json")]
    commands += [("show", uid, *more) for uid in uids for more in ((), ("--json",), ("--json", "--full"))]
    commands += [("sql", "select * from sessions"), ("sql", "select * from turns"), ("sql", "select * from usage")]
    for command in commands:
        done = CliRunner().invoke(cli, ["--store", str(store.path), *command], env={"BACKSTORY_HOME": "/nonexistent"})
        if command[0] != "search":
            assert (done.exit_code, done.exception) == (0, None), (command, done.output[-500:])
        assert done.exception is None or isinstance(done.exception, SystemExit), (command, done.exception)
    assert reindex(store, now=NOW, events_too=True).failed == []
    assert store.verify().problems == []


def at_random(seed: int, share: float) -> Callable[[tuple[str, ...]], str | None]:
    random = Random(seed)
    return lambda extremes: random.choice(extremes) if random.random() < share else None


@pytest.mark.slow
@pytest.mark.parametrize("agent", ["ah", "claude", "codex", "copilot"])
def test_extremes_in_every_number_and_time_of_every_log(tmp_path: Path, agent: str) -> None:
    chosen = [case for case in cases() if case.parent.name == agent]
    with read_all(tmp_path, chosen, at_random(1, 1.0)) as store:
        look_at(store)


@pytest.mark.slow
@pytest.mark.parametrize(("number", "time"), [*zip(NUMBERS, cycle(TIMES), strict=False)])
def test_the_same_extreme_in_every_number_and_another_in_every_time(tmp_path: Path, number: str, time: str) -> None:
    chosen = [case for case in cases() if case_name(case).endswith("/tools") or case.parent.name == "ah"]
    with read_all(tmp_path, chosen, lambda extremes: number if extremes == NUMBERS else time) as store:
        look_at(store)


@pytest.mark.slow
@settings(max_examples=20, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    chosen=st.lists(st.sampled_from(cases()), min_size=1, max_size=4, unique=True),
    seed=st.integers(0, 2**32),
    share=st.sampled_from([0.05, 0.3, 0.9]),
)
def test_extremes_here_and_there(
    tmp_path_factory: pytest.TempPathFactory, chosen: list[Path], seed: int, share: float
) -> None:
    with read_all(tmp_path_factory.mktemp("extremes"), chosen, at_random(seed, share)) as store:
        look_at(store)


@pytest.mark.slow
@settings(max_examples=20, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    stream=st.sampled_from(sorted(STREAMS.glob("*/*.jsonl"))),
    seed=st.integers(0, 2**32),
    share=st.sampled_from([0.3, 1.0]),
)
@pytest.mark.long
def test_extremes_in_what_a_run_says(
    tmp_path_factory: pytest.TempPathFactory, stream: Path, seed: int, share: float
) -> None:
    folder = tmp_path_factory.mktemp("extremes")
    with open_store(folder / "project.bks") as store, open_store(folder / "home.db", shared=True) as machine:
        session = store.create_session()
        run = Run(
            turn_uid="0" * 26, session_uid=session.uid, store=str(store.path), agent=stream.parent.name,
            prompt="say the word", cwd="/w", started=NOW,
        )  # fmt: skip
        spool = Spool.begin(folder / SPOOLS, run, run.prompt)
        spool.stdout.write_bytes(mangled(stream.read_bytes(), at_random(seed, share)))
        spool.stderr.touch()
        told: list[str] = []
        assert Runner(folder, machine, {}, lambda: NOW).recover_finished_runs(told.append) == 1
        assert told == []
        assert not spool.folder.exists()
        assert len(store.turns(session)) == 1
        look_at(store)
        look_at(machine)


def test_what_is_out_of_range_is_counted_by_its_name(tmp_path: Path) -> None:
    usage = {"input_tokens": 2**63, "output_tokens": 5, "cache_read_input_tokens": -1}
    said = [
        {"type": "user", "uuid": "a", "sessionId": "s", "message": {"role": "user", "content": "hi"}},
        {"type": "assistant", "uuid": "b", "message": {"id": "m", "content": "yes", "usage": usage}, "costUSD": -2},
        {"type": "user", "uuid": "c", "timestamp": "10000-01-01T00:00:00Z", "message": {"content": "and?"}},
    ]
    log = tmp_path / "claude" / "s.jsonl"
    log.parent.mkdir()
    log.write_text("".join(json.dumps(each) + "\n" for each in said))
    with open_store(tmp_path / "store.db", now=lambda: NOW) as store:
        report = ingest(store, [Recorded("claude", tmp_path).as_agent()], environ={}, home=tmp_path, now=NOW)
        assert report.unknown_records == {
            "out of range: input_tokens": 1, "out of range: cache_read_input_tokens": 1,
            "out of range: cost_usd": 1, "out of range: time": 1,
        }  # fmt: skip
        first, second = store.turns(store.session("s"))
        assert (first.tokens.output, first.cost_usd, second.started) == (5, None, None)


def test_counts_whose_sum_is_too_large_are_nothing(tmp_path: Path) -> None:
    usage = {"input_tokens": 2**62, "output_tokens": 5}
    said: list[dict[str, Any]] = [{"type": "user", "uuid": "a", "sessionId": "s", "message": {"content": "hi"}}]
    said += [
        {"type": "assistant", "uuid": f"b{n}", "message": {"id": f"m{n}", "content": "yes", "usage": usage}}
        for n in range(9)
    ]
    log = tmp_path / "claude" / "s.jsonl"
    log.parent.mkdir()
    log.write_text("".join(json.dumps(each) + "\n" for each in said))
    with open_store(tmp_path / "store.db", now=lambda: NOW) as store:
        report = ingest(store, [Recorded("claude", tmp_path).as_agent()], environ={}, home=tmp_path, now=NOW)
        assert (report.errors, report.unknown_records) == ([], {"out of range: input_tokens": 1})
        (turn,) = store.turns(store.session("s"))
        assert (turn.tokens.input, turn.tokens.output) == (None, 45)


def test_durations_of_a_session_whose_sum_is_too_large_are_the_largest_there_is(tmp_path: Path) -> None:
    said = []
    for n in range(3):
        said += [
            {"type": "user", "uuid": f"a{n}", "sessionId": "s", "message": {"content": "hi"}},
            {"type": "system", "subtype": "turn_duration", "uuid": f"c{n}", "durationMs": 2**62},
        ]
    log = tmp_path / "claude" / "s.jsonl"
    log.parent.mkdir()
    log.write_text("".join(json.dumps(each) + "\n" for each in said))
    with open_store(tmp_path / "store.db", now=lambda: NOW) as store:
        report = ingest(store, [Recorded("claude", tmp_path).as_agent()], environ={}, home=tmp_path, now=NOW)
        assert report.errors == []
        assert store.session("s").duration_ms == bounds.INTEGER_MAX
        look_at(store)
