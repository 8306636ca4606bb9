"""Logs into the store, again and again: without doubles, in any order, whatever happens to the files."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from backstory import agents, ids
from backstory.ingest import log_reader
from backstory.ingest.ingest import ingest
from backstory.ingest.log_reader import numbered_lines
from backstory.store.tables import decisions
from backstory.store.tables import logs as stored_logs
from backstory.store.tables import sessions as stored_sessions
from tests.support.clock import NOW
from tests.support.counts import examples
from tests.support.machines import (
    ORIGINAL_ID,
    PARENT_ID,
    SMALL,
    Machine,
    bytes_of,
    case,
    claude_line,
    claude_log,
    compressed,
    conversation,
    differences,
    indexed,
    kept,
    lines,
    place,
    prompts,
    sha256,
)
from tests.support.recorded import home_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from backstory.ingest.report import IngestReport
    from backstory.model import Event
    from backstory.store import Session, Store

LOG = claude_log("a1b2c3")
FEW = settings(
    max_examples=examples(15),
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def only(store: Store) -> Session:
    (session,) = store.sessions(subagents=True)
    return session


def numbered(store: Store) -> dict[str, list[int]]:
    """The numbers of each log's records, by the log's path and generation."""
    return {
        f"{Path(log.path).name}/{log.generation}": [seq for _, seq in numbered_lines(store, log)]
        for log in store.logs()
    }


def agrees_with_itself(store: Store) -> bool:
    """Whether every event's number is that of the record whose bytes it names."""
    for log in store.logs():
        whole = b"".join(store.stream_log(log.id))
        at, starts = 0, {}
        for line in whole.split(b"\n"):
            starts[at] = line
            at += len(line) + 1
        numbers = {seq: line for line, seq in numbered_lines(store, log)}
        for event in store.events(log.session_id):
            if event.log_id == log.id and numbers.get(event.seq) != starts.get(event.position or 0):
                return False
    return store.verify().problems == []


# again, and a little more ---------------------------------------------------------------------------------------


def test_every_log_is_kept_byte_for_byte(machine: Machine) -> None:
    for name in SMALL:
        machine.put(name)
    report = machine.read()
    assert (report.total("logs_seen"), report.total("logs_read"), report.errors) == (len(SMALL), len(SMALL), [])
    assert report.total("bytes_read") == sum(len(case(name)) for name in SMALL)
    assert kept(machine.store) == sorted(sha256(case(name)) for name in SMALL)
    assert agrees_with_itself(machine.store)


def test_a_store_that_was_verified_is_whole_after_it_grew(machine: Machine) -> None:
    for name in SMALL:
        machine.put(name)
        machine.read()
        assert machine.store.verify().problems == []


def test_the_report_counts_what_the_store_has(machine: Machine) -> None:
    for name in SMALL:
        machine.put(name)
    report = machine.read()
    sessions = machine.store.sessions(subagents=True)
    assert report.total("sessions_new") == len(sessions) == len(SMALL)
    assert report.total("events_new") == sum(session.events for session in sessions)
    assert {name: tally.logs_seen for name, tally in report.by_agent.items()} == {"claude": 6, "codex": 6}


def test_a_second_ingest_opens_no_file_and_changes_nothing(
    machine: Machine, files_opened: Callable[[], AbstractContextManager[list[str]]]
) -> None:
    for name in SMALL:
        machine.put(name)
    with files_opened() as opened:
        machine.read()
    assert len(opened) == len(SMALL)
    before = machine.content()
    with files_opened() as opened:
        report = machine.read()
    assert (opened, report.total("logs_seen"), report.total("logs_read")) == ([], len(SMALL), 0)
    assert (report.total("bytes_read"), report.total("events_new")) == (0, 0)
    assert machine.content() == before


def test_files_that_gave_nothing_are_not_opened_again_either(
    machine: Machine, files_opened: Callable[[], AbstractContextManager[list[str]]]
) -> None:
    machine.write(claude_log("empty"), b"")
    machine.write(claude_log("foreign"), b'{"some": "thing else"}\n')
    machine.read()
    with files_opened() as opened:
        report = machine.read()
    assert opened == []
    assert {Path(each.path).stem: each.reason for each in (*report.gave_nothing, *report.not_understood)} == {
        "empty": "it is empty",
        "foreign": "no record of this agent is in its beginning",
    }


def test_a_log_touched_but_not_changed_gives_nothing_new(machine: Machine) -> None:
    path = machine.put("claude/tools")
    machine.read()
    before = machine.content()
    os.utime(path, ns=(1, 1))
    report = machine.read()
    assert (report.total("logs_read"), machine.content()) == (0, before)


def test_an_appended_log_costs_its_tail_only(machine: Machine) -> None:
    first, whole = case("claude/tools"), case("claude/resume")
    path = machine.put("claude/resume", first)
    machine.read()
    path.write_bytes(whole)
    report = machine.read()
    assert (report.total("bytes_read"), report.total("logs_read")) == (len(whole) - len(first), 1)
    assert (report.total("sessions_new"), report.total("sessions_updated")) == (0, 1)


@pytest.mark.parametrize(
    ("first", "whole"), [("claude/tools", "claude/resume"), ("codex/sigint-in-tool", "codex/resume-after-sigint")]
)
def test_a_session_that_was_resumed_is_as_if_read_at_once(
    machine: Machine, another: Callable[[], Machine], first: str, whole: str
) -> None:
    machine.put(whole, case(first))
    machine.read()
    machine.put(whole)
    machine.read()
    at_once = another()
    at_once.put(whole)
    at_once.read()
    assert differences(machine.content(), at_once.content()) == []


# any order ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@given(st.permutations(SMALL), st.sets(st.integers(1, len(SMALL) - 1)))
@FEW
def test_the_order_of_arrival_does_not_matter(order: list[str], reads: set[int]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        together, mixed = Machine(Path(folder) / "together"), Machine(Path(folder) / "mixed")
        for name in SMALL:
            together.put(name)
        together.read()
        for number, name in enumerate(order):
            if number in reads:
                mixed.read()
            mixed.put(name)
        mixed.read()
        assert differences(mixed.content(), together.content()) == []
        assert mixed.store.verify().problems == []
        together.close()
        mixed.close()


@pytest.mark.parametrize("order", [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)])
def test_copies_of_copies_have_the_same_parents_in_any_order(machine: Machine, order: tuple[int, ...]) -> None:
    shared = conversation(2)
    logs = [
        lines(*shared),
        lines(claude_line("mode", None, timestamp="2026-11-21T20:00:01.000Z"), *shared, *conversation(2, 10)),
        lines(claude_line("mode", None, timestamp="2026-11-21T20:00:02.000Z"), *shared, *conversation(2, 20)),
    ]
    logs[0] = lines(claude_line("mode", None, timestamp="2026-11-21T20:00:00.000Z")) + logs[0]
    for number in order:
        machine.write(claude_log(f"copy-{number}"), logs[number])
        machine.read()
    sessions = {session.native_id: session for session in machine.store.sessions()}
    first = sessions["copy-0"].uid
    assert sessions["copy-0"].parent_uid is None
    assert (sessions["copy-1"].parent_uid, sessions["copy-1"].relation) == (first, "fork")
    assert (sessions["copy-2"].parent_uid, sessions["copy-2"].relation) == (first, "fork")


def test_a_fork_of_a_fork_that_went_on_comes_from_the_fork(machine: Machine) -> None:
    shared, more = conversation(2), conversation(2, 10)
    stamps = [claude_line("mode", None, timestamp=f"2026-11-21T20:00:0{n}.000Z") for n in range(3)]
    machine.write(claude_log("copy-0"), lines(stamps[0], *shared))
    machine.write(claude_log("copy-1"), lines(stamps[1], *shared, *more))
    machine.write(claude_log("copy-2"), lines(stamps[2], *shared, *more, *conversation(2, 20)))
    machine.read()
    sessions = {session.native_id: session for session in machine.store.sessions()}
    assert sessions["copy-2"].parent_uid == sessions["copy-1"].uid
    assert sessions["copy-1"].parent_uid == sessions["copy-0"].uid


# lines that are not finished ------------------------------------------------------------------------------------


def test_a_torn_last_line_is_held_and_told_when_it_is_complete(machine: Machine) -> None:
    said = lines(*conversation(4))
    path = machine.write(LOG, said[:-30])
    report = machine.read()
    assert report.total("bytes_read") == len(said) - 30
    assert report.unknown_records == {}
    assert prompts(machine.store) == ["word0 said", "word2 said"]
    assert [event.seq for event in machine.store.events(only(machine.store))] == [1, 2, 3]
    path.write_bytes(said)
    assert machine.read().total("bytes_read") == 30
    assert [event.seq for event in machine.store.events(only(machine.store))] == [1, 2, 3, 4]
    assert agrees_with_itself(machine.store)


def test_a_torn_last_line_can_be_restored(machine: Machine) -> None:
    said = lines(*conversation(4))[:-30]
    machine.write(LOG, said)
    machine.read()
    assert kept(machine.store) == [sha256(said)]


def test_a_last_line_without_its_end_is_told_once(machine: Machine) -> None:
    path = machine.write(LOG, lines(*conversation(3)) + conversation(1, 3)[0])
    machine.read()
    session = only(machine.store)
    assert [event.seq for event in machine.store.events(session)] == [1, 2, 3, 4]
    machine.read()
    with path.open("ab") as file:
        file.write(b"\n" + lines(*conversation(2, 4)))
    machine.read()
    assert [event.seq for event in machine.store.events(session)] == [1, 2, 3, 4, 5, 6]
    assert machine.store.search("word3").total == 1
    assert agrees_with_itself(machine.store)


def test_a_last_line_that_turns_out_to_be_two_records_keeps_its_number(machine: Machine) -> None:
    one, two, three = conversation(3)
    path = machine.write(LOG, lines(one) + two)
    machine.read()
    path.write_bytes(lines(one) + two + three[:20])
    machine.read()
    assert [event.seq for event in machine.store.events(only(machine.store))] == [1]
    path.write_bytes(lines(one, two + three))
    machine.read()
    assert [(e.seq, e.part) for e in machine.store.events(only(machine.store))] == [(1, 0), (2, 0), (2, 1)]
    assert agrees_with_itself(machine.store)


def test_a_title_on_a_last_line_is_there_before_the_line_ends(machine: Machine) -> None:
    machine.write(LOG, lines(*conversation(2)) + b'{"type":"custom-title","customTitle":"Mine","sessionId":"s"}')
    machine.read()
    assert only(machine.store).title == "Mine"


def test_a_log_that_begins_without_a_time_has_its_time_once_there_is_one(
    machine: Machine, another: Callable[[], Machine]
) -> None:
    begun = b'{"type":"mode","mode":"normal","sessionId":"s"}\n'
    machine.write(LOG, begun)
    machine.read()
    assert only(machine.store).uid.startswith("0000000000")
    machine.write(LOG, begun + lines(*conversation(2)))
    machine.read()
    at_once = another()
    at_once.write(LOG, begun + lines(*conversation(2)))
    at_once.read()
    assert differences(machine.content(), at_once.content()) == []
    assert only(machine.store).created == "2026-11-21T21:00:00.000Z"


def test_what_was_decided_about_a_log_without_a_time_stays_when_it_has_one(machine: Machine) -> None:
    begun = b'{"type":"mode","mode":"normal","sessionId":"s"}\n'
    machine.write(LOG, begun)
    machine.read()
    early = only(machine.store).uid
    machine.store.decide(decisions.set_context, early, "ticket", "A-1", NOW)
    machine.write(LOG, begun + lines(*conversation(2)))
    machine.read()
    later = only(machine.store).uid
    assert later != early
    assert machine.store.ask(decisions.context_of, later) == {"ticket": "A-1"}
    assert list(machine.store.ask(decisions.times, later).values()) == [NOW]
    assert (machine.store.ask(decisions.context_of, early), machine.store.ask(decisions.times, early)) == ({}, {})


SNAPSHOT = (
    b'{"type":"file-history-snapshot","messageId":"u0","snapshot":{"messageId":"u0","trackedFileBackups":{},'
    b'"timestamp":"2026-11-21T21:00:02.500Z"},"isSnapshotUpdate":false}\n'
)
"""A record without a time of its own; what it holds is later than the prompt that stands behind it."""


def test_a_session_began_with_its_first_record_and_keeps_the_uid_of_the_time_within(machine: Machine) -> None:
    machine.write(LOG, SNAPSHOT + lines(*conversation(2)))
    machine.read()
    session = only(machine.store)
    assert session.created == "2026-11-21T21:00:00.000Z"
    assert ids.time_of(session.uid) == ids.parse_time_ms("2026-11-21T21:00:02.500Z")


def test_a_prompt_that_is_logged_behind_what_came_of_it_began_the_session(machine: Machine) -> None:
    hook = claude_line("progress", "h0", timestamp="2026-11-21T21:00:00.400Z", data={"type": "hook_progress"})
    machine.write(LOG, SNAPSHOT + lines(hook))
    machine.read()
    machine.write(LOG, SNAPSHOT + lines(hook, *conversation(2)))
    machine.read()
    late = claude_line("user", "u2", "And then?", timestamp="2026-11-21T21:05:00.000Z")
    machine.write(LOG, SNAPSHOT + lines(hook, *conversation(2), late))
    machine.read()
    assert only(machine.store).created == "2026-11-21T21:00:00.000Z"


def test_when_a_session_began_is_known_once_a_record_says_it(machine: Machine) -> None:
    machine.write(LOG, SNAPSHOT)
    machine.read()
    before = only(machine.store)
    assert before.created == "2026-11-21T21:00:02.500Z"
    machine.write(LOG, SNAPSHOT + lines(*conversation(2)))
    machine.read()
    after = only(machine.store)
    assert (after.uid, after.created) == (before.uid, "2026-11-21T21:00:00.000Z")


def test_a_session_that_begins_with_a_very_long_prompt_began_with_it(machine: Machine) -> None:
    prompt = {"type": "user", "uuid": "u0", "sessionId": "s", "message": {"role": "user", "content": "x" * 70_000}}
    line = json.dumps(prompt | {"timestamp": "2026-11-21T21:00:00.000Z"}).encode()
    machine.write(LOG, SNAPSHOT + lines(line, *conversation(2, start=1)))
    machine.read()
    assert only(machine.store).created == "2026-11-21T21:00:00.000Z"


PIECES = (
    "claude/resume",
    "claude/fork",
    "claude/glued-records",
    "claude/helper",
    "codex/helper",
    "codex/queued-prompt",
)


@pytest.mark.slow
@pytest.mark.parametrize("name", PIECES)
@given(st.data())
@settings(FEW, max_examples=examples(6))
def test_a_log_read_in_random_pieces_equals_it_read_whole(name: str, data: st.DataObject) -> None:
    whole = case(name)
    cuts = sorted(data.draw(st.sets(st.integers(1, len(whole) - 1), min_size=1, max_size=25), label="cuts"))
    ends = [at for at, byte in enumerate(whole) if byte == 0x0A]
    # A cut just before or behind a line's end is where the mistakes are.
    cuts += [end + data.draw(st.integers(-1, 2), label="shift") for end in ends[:: max(len(ends) // 6, 1)]]
    with tempfile.TemporaryDirectory() as folder:
        together, growing = Machine(Path(folder) / "together"), Machine(Path(folder) / "growing")
        together.put(name)
        together.read()
        for cut in sorted({min(max(cut, 1), len(whole)) for cut in cuts} | {len(whole)}):
            growing.put(name, whole[:cut])
            growing.read()
        assert differences(growing.content(), together.content()) == []
        assert agrees_with_itself(growing.store)
        together.close()
        growing.close()


def test_a_turn_told_twice_in_a_log_is_the_same_in_one_reading_and_in_two(
    machine: Machine, another: Callable[[], Machine]
) -> None:
    thread, stamp = ORIGINAL_ID, '{"timestamp":"2026-11-21T21:00:%02d.000Z",'
    said = [stamp % 0 + f'"type":"session_meta","payload":{{"id":"{thread}","cwd":"/w","source":"exec"}}}}']
    for second in (1, 5):
        said += [
            stamp % second + '"type":"event_msg","payload":{"type":"task_started","turn_id":"t1"}}',
            stamp % second + '"type":"event_msg","payload":{"type":"user_message","message":"once"}}',
            stamp % second + '"type":"event_msg","payload":{"type":"task_complete","turn_id":"t1"}}',
        ]
    path = f".codex/sessions/2026/rollout-2026-11-21T21-00-00-{thread}.jsonl"
    at_once = another()
    at_once.write(path, "\n".join([*said, ""]).encode())
    at_once.read()
    for end in (4, 7):
        machine.write(path, "\n".join([*said[:end], ""]).encode())
        machine.read()
    assert differences(machine.content(), at_once.content()) == []


@pytest.mark.long
@pytest.mark.slow
def test_a_log_that_grows_a_byte_at_a_time_stays_whole_and_small(machine: Machine) -> None:
    said = lines(*conversation(4)) + lines(claude_line("user", "x", "é" * 30))
    for end in range(1, len(said) + 1):
        machine.write(LOG, said[:end])
        machine.read()
    (log,) = machine.store.logs()
    assert b"".join(machine.store.stream_log(log.id)) == said
    assert len(machine.store.ask(stored_logs.chunk_marks, log.id)) < 70
    assert agrees_with_itself(machine.store)


def test_blocks_and_slices_smaller_than_lines_make_no_difference(
    machine: Machine, another: Callable[[], Machine], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in SMALL:
        machine.put(name)
    machine.read()
    sliced = another()
    for name in SMALL:
        sliced.put(name)
    monkeypatch.setattr(log_reader, "BLOCK_BYTES", 700)
    monkeypatch.setattr(log_reader, "SLICE_BYTES", 2_000)
    sliced.read()
    assert differences(sliced.content(), machine.content()) == []
    assert agrees_with_itself(sliced.store)


def test_a_slice_that_ends_with_the_file_in_a_line_without_its_end(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = lines(*conversation(6)).removesuffix(b"\n")
    monkeypatch.setattr(log_reader, "BLOCK_BYTES", len(said))
    monkeypatch.setattr(log_reader, "SLICE_BYTES", len(said))
    path = machine.write(LOG, said)
    machine.read()
    assert agrees_with_itself(machine.store)
    path.write_bytes(said + b"\n" + lines(*conversation(2, 6)))
    machine.read()
    assert [event.seq for event in machine.store.events(only(machine.store))] == list(range(1, 9))
    assert list(numbered(machine.store).values()) == [list(range(1, 9))]
    assert agrees_with_itself(machine.store)


# files that move, shrink and change -----------------------------------------------------------------------------


def test_a_moved_log_is_the_same_log(machine: Machine) -> None:
    path = machine.put("claude/tools")
    machine.read()
    before = machine.content()
    moved = machine.home / ".claude/projects/-elsewhere" / path.name
    moved.parent.mkdir()
    path.rename(moved)
    report = machine.read()
    assert (report.total("logs_read"), report.total("bytes_read"), report.errors) == (0, 0, [])
    (log,) = machine.store.logs()
    assert (log.path, log.relpath) == (str(moved), f"projects/-elsewhere/{path.name}")
    after = machine.content()
    for facts in (*before.values(), *after.values()):
        del facts["logs"]
    assert after == before


def test_a_moved_log_goes_on_where_it_stood(machine: Machine) -> None:
    path = machine.write(LOG, lines(*conversation(4)))
    machine.read()
    moved = machine.home / ".claude/projects/-elsewhere" / path.name
    moved.parent.mkdir()
    path.rename(moved)
    moved.write_bytes(lines(*conversation(6)))
    machine.read()
    assert [event.seq for event in machine.store.events(only(machine.store))] == [1, 2, 3, 4, 5, 6]
    assert len(machine.store.logs()) == 1


def test_a_copy_is_not_kept_twice(
    machine: Machine, files_opened: Callable[[], AbstractContextManager[list[str]]]
) -> None:
    path = machine.put("codex/resume")
    machine.read()
    before = machine.content()
    machine.write(path.relative_to(machine.home).parent.parent / "22" / path.name, path.read_bytes())
    assert machine.read().total("bytes_read") == 0
    with files_opened() as opened:
        machine.read()
    assert (machine.content(), opened) == (before, [])


def test_copies_that_are_found_together_are_kept_once(machine: Machine) -> None:
    for folder in ("-a", "-b", "-c", "-d", "-e", "-f"):
        machine.write(Path(".claude/projects") / folder / f"{ORIGINAL_ID}.jsonl", case("claude/resume"))
    report = machine.read()
    assert report.errors == []
    assert kept(machine.store) == [sha256(case("claude/resume"))]
    assert report.total("events_new") == only(machine.store).events


def test_copies_of_different_length_that_are_found_together_lose_nothing(machine: Machine) -> None:
    whole = case("claude/resume")
    for folder, data in (("-a", case("claude/tools")), ("-b", whole), ("-c", whole[:5_000]), ("-d", whole[:-7])):
        machine.write(Path(".claude/projects") / folder / f"{ORIGINAL_ID}.jsonl", data)
    assert machine.read().errors == []
    assert kept(machine.store) == [sha256(whole)]
    assert agrees_with_itself(machine.store)


def test_copies_that_went_apart_are_one_session_with_all_of_both(machine: Machine) -> None:
    shared, left, right = conversation(4), conversation(2, 10), conversation(2, 20)
    name = LOG.name
    machine.write(Path(".claude/projects/-a") / name, lines(*shared, *left))
    machine.write(Path(".claude/projects/-b") / name, lines(*shared, *right))
    machine.read()
    store = machine.store
    assert kept(store) == sorted([sha256(lines(*shared, *left)), sha256(lines(*shared, *right))])
    assert sorted(prompts(store)) == ["word0 said", "word10 said", "word2 said", "word20 said"]
    assert [event.seq for event in store.events(only(store))] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert agrees_with_itself(store)


def test_copies_that_went_apart_each_grow(machine: Machine) -> None:
    shared = conversation(2)
    a = machine.write(Path(".claude/projects/-a") / LOG.name, lines(*shared, *conversation(2, 100)))
    b = machine.write(Path(".claude/projects/-b") / LOG.name, lines(*shared, *conversation(2, 200)))
    machine.read()
    for n in range(0, 80, 2):
        for path, base in ((a, 102), (b, 202)):
            said = lines(*conversation(2, base + n))
            for piece in (said[:17], said[17:]):
                with path.open("ab") as file:
                    file.write(piece)
                machine.read()
    assert kept(machine.store) == sorted([sha256(a.read_bytes()), sha256(b.read_bytes())])
    assert len(prompts(machine.store)) == 83
    assert agrees_with_itself(machine.store)


def test_a_compressed_log_is_the_same_log(
    machine: Machine, files_opened: Callable[[], AbstractContextManager[list[str]]]
) -> None:
    path = machine.put("codex/resume")
    machine.read()
    before = machine.content()
    path.with_name(path.name + ".zst").write_bytes(compressed(path.read_bytes()))
    path.unlink()
    report = machine.read()
    assert (report.total("logs_read"), report.errors, machine.content()) == (0, [], before)
    with files_opened() as opened:
        machine.read()
    assert opened == []


@pytest.mark.parametrize("together", [True, False])
def test_a_log_plain_and_compressed_is_kept_once(machine: Machine, together: bool) -> None:
    path = machine.put("codex/resume")
    if not together:
        machine.read()
    path.with_name(path.name + ".zst").write_bytes(compressed(path.read_bytes()))
    assert machine.read().errors == []
    assert kept(machine.store) == [sha256(case("codex/resume"))]


def test_a_log_that_is_only_there_compressed_is_read(machine: Machine, another: Callable[[], Machine]) -> None:
    relative = place("codex/resume")
    machine.write(relative.with_name(relative.name + ".zst"), compressed(case("codex/resume")))
    machine.read()
    plain = another()
    plain.put("codex/resume")
    plain.read()
    assert differences(machine.content(), plain.content()) == []


def test_a_log_compressed_in_several_frames_is_read_whole(machine: Machine) -> None:
    relative, data = place("codex/resume"), case("codex/resume")
    machine.write(relative.with_name(relative.name + ".zst"), compressed(data[:10_000]) + compressed(data[10_000:]))
    machine.read()
    assert kept(machine.store) == [sha256(data)]


def test_a_log_that_grew_before_it_was_compressed_costs_its_tail(machine: Machine) -> None:
    first, whole = case("codex/sigint-in-tool"), case("codex/resume-after-sigint")
    path = machine.put("codex/sigint-in-tool")
    machine.read()
    path.unlink()
    path.with_name(path.name + ".zst").write_bytes(compressed(whole))
    assert machine.read().total("bytes_read") == len(whole) - len(first)
    assert kept(machine.store) == [sha256(whole)]


def test_a_truncated_log_loses_nothing_here(
    machine: Machine, files_opened: Callable[[], AbstractContextManager[list[str]]]
) -> None:
    path = machine.write(LOG, lines(*conversation(6)))
    machine.read()
    before = machine.content()
    path.write_bytes(lines(*conversation(2)))
    report = machine.read()
    assert (report.total("logs_read"), report.errors, machine.content()) == (0, [], before)
    with files_opened() as opened:
        machine.read()
    assert opened == []


def test_a_log_that_grew_again_after_it_was_cut_short_has_both_ends(machine: Machine) -> None:
    path = machine.write(LOG, lines(*conversation(6)))
    machine.read()
    path.write_bytes(lines(*conversation(2)))
    machine.read()
    path.write_bytes(lines(*conversation(2), *conversation(2, 10)))
    machine.read()
    store = machine.store
    assert prompts(store) == ["word0 said", "word2 said", "word4 said", "word10 said"]
    assert [event.seq for event in store.events(only(store))] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert len(kept(store)) == 2
    assert agrees_with_itself(store)


def test_a_log_that_was_cut_short_and_written_again_as_it_was_is_one_log(machine: Machine) -> None:
    path = machine.write(LOG, lines(*conversation(6)))
    for count in (6, 2, 4, 6, 8):
        path.write_bytes(lines(*conversation(count)))
        machine.read()
    assert kept(machine.store) == [sha256(lines(*conversation(8)))]
    assert [event.seq for event in machine.store.events(only(machine.store))] == list(range(1, 9))


def test_a_log_rewritten_in_place_with_the_same_size_is_noticed(machine: Machine) -> None:
    before = lines(*conversation(4))
    path = machine.write(LOG, before)
    machine.read()
    inode, after = path.stat().st_ino, before.replace(b"word2", b"WORD2")
    with path.open("r+b") as file:
        file.write(after)
    os.utime(path, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns + 1))
    assert (path.stat().st_ino, len(after)) == (inode, len(before))
    machine.read()
    # The records are known again by their ids, so the new telling stands in place of the old, whose bytes stay.
    assert prompts(machine.store) == ["word0 said", "WORD2 said"]
    assert [event.seq for event in machine.store.events(only(machine.store))] == [1, 2, 3, 4]
    assert kept(machine.store) == sorted([sha256(before), sha256(after)])
    assert agrees_with_itself(machine.store)


def test_a_log_rewritten_without_some_records_keeps_them_and_the_numbers_of_the_others(machine: Machine) -> None:
    said = conversation(12)
    machine.write(LOG, lines(*said))
    machine.read()
    machine.write(LOG, lines(*(said[n] for n in (0, 1, 3, 4, 6, 7, 9, 11)), *conversation(2, 12)))
    machine.read()
    store = machine.store
    events = store.events(only(store))
    assert [event.seq for event in events] == list(range(1, 15))
    assert len(prompts(store)) == 7
    assert numbered(store) == {
        f"{LOG.name}/1": list(range(1, 13)),
        f"{LOG.name}/2": [1, 2, 4, 5, 7, 8, 10, 12, 13, 14],
    }
    assert kept(store)[0] != kept(store)[1]
    assert agrees_with_itself(store)


def test_a_log_rewritten_with_records_put_in_between_numbers_only_those_anew(machine: Machine) -> None:
    said, more = conversation(4), conversation(2, 10)
    machine.write(LOG, lines(*said))
    machine.read()
    machine.write(LOG, lines(said[0], said[1], *more, said[2], said[3]))
    machine.read()
    assert numbered(machine.store) == {f"{LOG.name}/2": [1, 2, 5, 6, 3, 4]}
    assert sorted(prompts(machine.store)) == ["word0 said", "word10 said", "word2 said"]
    assert agrees_with_itself(machine.store)


def test_a_rewritten_log_that_goes_on_costs_its_tail_only(machine: Machine) -> None:
    said = conversation(6)
    path = machine.write(LOG, lines(*said))
    machine.read()
    path.write_bytes(lines(*said[:2], *said[3:]))
    machine.read()
    tail = lines(*conversation(2, 6))
    with path.open("ab") as file:
        file.write(tail)
    assert machine.read().total("bytes_read") == len(tail)
    assert [event.seq for event in machine.store.events(only(machine.store))] == list(range(1, 9))
    assert agrees_with_itself(machine.store)


def test_a_record_that_comes_again_word_for_word_is_a_record_of_its_own(machine: Machine) -> None:
    again = b'{"type":"novelty","sessionId":"s"}'
    said = conversation(6)
    path = machine.write(LOG, lines(*said[:2], again, *said[2:]))
    machine.read()
    path.write_bytes(lines(said[0], again, *said[2:]))
    machine.read()
    with path.open("ab") as file:
        file.write(lines(again))
    machine.read()
    kinds = [event.kind for event in machine.store.events(only(machine.store))]
    assert kinds.count("Unknown") == 2
    assert agrees_with_itself(machine.store)


def test_a_log_cut_at_its_head_and_made_whole_again_has_every_record(machine: Machine) -> None:
    said = conversation(3)
    for chosen in (said[:2], said[1:2], said):
        machine.write(LOG, lines(*chosen))
        machine.read()
    assert [event.seq for event in machine.store.events(only(machine.store))] == [1, 2, 3]
    assert agrees_with_itself(machine.store)


def test_one_of_two_equal_records_that_goes_stays_here(machine: Machine) -> None:
    again = b'{"type":"novelty","sessionId":"s"}'
    machine.write(LOG, lines(*conversation(2), again, again))
    machine.read()
    machine.write(LOG, lines(*conversation(1), again))
    machine.read()
    machine.write(LOG, lines(*conversation(2), again))
    machine.read()
    kinds = [event.kind for event in machine.store.events(only(machine.store))]
    assert kinds.count("Unknown") == 2
    assert agrees_with_itself(machine.store)


def test_a_torn_line_that_the_rewritten_log_lacks_stays_here(machine: Machine) -> None:
    old = lines(*conversation(2)) + b'{"type":"user","sess'
    machine.write(LOG, old)
    machine.read()
    machine.write(LOG, lines(*conversation(2), *conversation(1, 4)))
    machine.read()
    assert sha256(old) in kept(machine.store)


def test_a_rotated_log_is_the_old_one_and_a_new_one(machine: Machine) -> None:
    path = machine.write(LOG, lines(*conversation(4)))
    machine.read()
    path.rename(path.with_name("rotated.jsonl"))
    path.write_bytes(lines(*conversation(4, 10)))
    report = machine.read()
    assert report.errors == []
    assert set(kept(machine.store)) == {sha256(lines(*conversation(4))), sha256(lines(*conversation(4, 10)))}
    assert {"word0 said", "word2 said", "word10 said", "word12 said"} == set(prompts(machine.store))
    assert agrees_with_itself(machine.store)


def test_a_log_deleted_at_its_source_stays(machine: Machine) -> None:
    path = machine.put("claude/tools")
    machine.put("claude/denied")
    machine.read()
    before = machine.content()
    path.unlink()
    report = machine.read()
    assert (report.errors, machine.content()) == ([], before)


# removed by a person --------------------------------------------------------------------------------------------


def test_a_removed_session_stays_away_until_asked_for(machine: Machine) -> None:
    path = machine.put("claude/resume", case("claude/tools"))
    machine.read()
    machine.store.remove(only(machine.store))
    machine.read()
    path.write_bytes(case("claude/resume"))
    report = machine.read()
    assert machine.store.sessions(subagents=True) == []
    assert [each.reason for each in report.gave_nothing] == [
        "removed by you; `backstory ingest --forgotten` brings it back"
    ]
    assert (report.total("events_new"), report.errors) == (0, [])
    machine.store.decide(stored_sessions.unforget)
    machine.read()
    assert kept(machine.store) == [sha256(case("claude/resume"))]


@pytest.mark.parametrize("agent", ["aider", "opencode"])
def test_a_removed_session_of_a_file_with_many_comes_back_though_that_did_not_change(
    agent: str, machine: Machine
) -> None:
    home_of(machine.home.parent, agent, "hello")

    def read() -> IngestReport:
        places = [machine.home / "shop"]
        return ingest(machine.store, [agents.load(agent)], environ={}, home=machine.home, now=NOW, places=places)

    read()
    before = machine.content()
    machine.store.remove(only(machine.store))
    read()
    assert machine.store.sessions() == []
    machine.store.decide(stored_sessions.unforget)
    assert read().total("logs_read") == 1
    assert read().total("logs_read") == 0
    assert machine.content() == before


def test_a_removed_parent_that_is_brought_back_is_parent_again(machine: Machine) -> None:
    for name in SMALL:
        machine.put(name)
    machine.read()
    before = machine.content()
    for native_id in (ORIGINAL_ID, PARENT_ID):
        machine.store.remove(machine.store.session(native_id))
    machine.read()
    assert len(machine.store.sessions(subagents=True)) == len(SMALL) - 3
    machine.store.decide(stored_sessions.unforget)
    machine.read()
    assert machine.content() == before


# whose a log is -------------------------------------------------------------------------------------------------


def codex_log(thread: str, text: str) -> bytes:
    stamp = b'{"timestamp":"2026-11-21T21:00:00.000Z",'
    return lines(
        stamp + b'"type":"session_meta","payload":{"id":"%s","cwd":"/w","source":"exec"}}' % thread.encode(),
        stamp + b'"type":"event_msg","payload":{"type":"user_message","message":"%s"}}' % text.encode(),
    )


def test_two_agents_with_one_native_id_are_two_sessions(machine: Machine) -> None:
    thread = PARENT_ID
    machine.write(f".codex/sessions/2026/rollout-2026-11-21T21-00-00-{thread}.jsonl", codex_log(thread, "to codex"))
    machine.put("claude/helper")
    machine.read()
    codex, helper = machine.store.sessions(agent="codex"), machine.store.sessions(agent="claude", subagents=True)
    assert (len(codex), helper[0].parent_uid) == (1, None)
    machine.put("claude/with-a-helper")
    machine.read()
    child, parent = sorted(machine.store.sessions(agent="claude", subagents=True), key=lambda s: s.relation or "z")
    assert child.parent_uid == parent.uid
    assert machine.store.children(codex[0]) == []


@pytest.mark.parametrize("relative", [Path(PARENT_ID) / "subagents", Path()], ids=["below", "beside"])
@pytest.mark.parametrize("parent_first", [True, False])
def test_a_helper_is_a_child_wherever_its_log_lies(machine: Machine, relative: Path, parent_first: bool) -> None:
    parents, name = place("claude/with-a-helper"), "agent-aef43dbe576fa72df.jsonl"
    logs = [(parents, case("claude/with-a-helper")), (parents.parent / relative / name, case("claude/helper"))]
    for path, data in logs if parent_first else reversed(logs):
        machine.write(path, data)
        machine.read()
    store = machine.store
    parent = only_shown(store)
    (helper,) = store.children(parent)
    assert (parent.native_id, helper.relation, helper.parent_uid) == (PARENT_ID, "subagent", parent.uid)
    assert helper.native_id == f"{PARENT_ID}/aef43dbe576fa72df"


def test_a_helper_beside_its_parent_that_is_torn_in_its_first_record_waits(machine: Machine) -> None:
    relative = place("claude/with-a-helper").parent / "agent-aef43dbe576fa72df.jsonl"
    said = claude_line("user", "h1", "go").replace(b'"sessionId": "s", ', b"")[:-1] + b', "sessionId": "s"}\n'
    for end in (40, 120, len(said) - 20, len(said)):
        machine.write(relative, said[:end])
        machine.read()
    assert only(machine.store).native_id == "s/aef43dbe576fa72df"


def only_shown(store: Store) -> Session:
    (session,) = store.sessions()
    return session


def test_a_helper_without_its_parent_is_listed_itself(machine: Machine) -> None:
    machine.put("claude/helper")
    machine.read()
    assert only_shown(machine.store).relation == "subagent"


def test_codex_helpers_stand_below_their_parents(machine: Machine) -> None:
    machine.put("codex/helper")
    machine.put("codex/with-a-helper")
    machine.read()
    parent = only_shown(machine.store)
    (helper,) = machine.store.children(parent)
    assert (helper.relation, parent.relation, parent.parent_uid) == ("subagent", None, None)


def test_a_helper_that_was_given_its_parents_turns_is_called_by_its_own_task(machine: Machine) -> None:
    machine.put("codex/helper")
    machine.put("codex/with-a-helper")
    machine.read()
    store = machine.store
    (helper,) = store.children(only_shown(store))
    assert [turn.prompt for turn in store.turns(helper)] == ["Do the work.", "SUBTASK: count the files"]
    assert helper.shown_title == "SUBTASK: count the files"
    (row,) = store.execute_read_only("select summary from sessions where relation = 'subagent'").rows
    assert row == ("SUBTASK: count the files",)


def test_a_forks_copies_are_the_same_turns_and_are_found_once(machine: Machine) -> None:
    machine.put("claude/resume")
    machine.put("claude/fork")
    machine.read()
    store = machine.store
    sessions = {session.native_id: session for session in store.sessions()}
    original = sessions.pop(ORIGINAL_ID)
    (fork,) = sessions.values()
    assert (fork.parent_uid, fork.relation, original.parent_uid) == (original.uid, "fork", None)
    shared = {turn.uid: turn for turn in store.turns(original)}
    copies = [turn for turn in store.turns(fork) if turn.uid in shared]
    assert (len(copies), len(shared)) == (2, 2)
    assert [turn.tokens for turn in copies] == [shared[turn.uid].tokens for turn in copies]
    told = store.search('"notes.txt now says beta"')
    assert [(hit.session_id, hit.copied) for hit in told.hits] == [(original.id, False), (fork.id, True)]
    every = store.search('"notes.txt now says beta"', hits_per_session=None).hits
    assert {hit.session_id for hit in every} == {original.id}


def test_everything_that_was_read_is_in_the_index_once(machine: Machine) -> None:
    machine.write(LOG, lines(*conversation(4)))
    machine.read()
    machine.write(LOG, lines(*conversation(5)).removesuffix(b"\n"))
    machine.read()
    machine.write(LOG, lines(*conversation(6)))
    machine.read()
    found = [(str(row[0]), str(row[2])) for row in indexed(machine.store, only(machine.store).id)]
    assert found == [(str(n), str(n)) for n in range(1, 7)]
    assert [machine.store.search(f"word{n}").total for n in range(6)] == [1] * 6


def test_a_folder_named_by_the_environment_is_looked_at_instead(machine: Machine, tmp_path: Path) -> None:
    from backstory import agents
    from backstory.ingest.ingest import ingest

    machine.put("claude/tools")
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "projects" / "-x").mkdir(parents=True)
    (elsewhere / "projects" / "-x" / f"{ORIGINAL_ID}.jsonl").write_bytes(case("claude/resume"))
    report = ingest(
        machine.store, [agents.load("claude")], environ={"CLAUDE_CONFIG_DIR": str(elsewhere)}, home=machine.home, now=0
    )
    assert [(each.folder, each.found) for each in report.looked] == [(str(elsewhere / "projects"), 1)]
    (log,) = machine.store.logs()
    assert bytes_of(machine.store, log.id)[1] == sha256(case("claude/resume"))


def test_a_folder_that_is_not_there_is_named(machine: Machine) -> None:
    report = machine.read()
    assert [each.note for each in report.looked] == ["it does not exist"] * len(report.looked)
    assert not machine.store.exists


STATES = st.lists(
    st.tuples(
        st.sampled_from(["-a", "-b"]),
        st.lists(st.integers(0, 9), unique=True, max_size=10),
        st.integers(0, 40),
        st.booleans(),
    ),
    min_size=1,
    max_size=7,
)


@pytest.mark.slow
@given(STATES)
@settings(FEW, max_examples=examples(60))
def test_whatever_becomes_of_files_no_record_is_lost_doubled_or_renumbered(
    states: list[tuple[str, list[int], int, bool]],
) -> None:
    """Files at two places take any content, one after the other: records in any order, torn or not, sorted or not."""
    records = conversation(10)
    with tempfile.TemporaryDirectory() as folder:
        machine, numbers = Machine(Path(folder) / "machine"), dict[str, int]()
        for step, (where, chosen, torn, is_sorted) in enumerate(states):
            said = lines(*(records[n] for n in (sorted(chosen) if is_sorted else chosen)))
            path = machine.write(Path(".claude/projects") / where / LOG.name, said[: len(said) - torn])
            os.utime(path, ns=(step, step))
            assert machine.read().errors == []
            if not (machine.store.exists and machine.store.logs()):
                continue
            known = {word_of(event.event): event.seq for event in machine.store.events(only(machine.store))}
            assert len(known) == only(machine.store).events, "no record is there twice"
            assert numbers.items() <= known.items(), "none is lost, and each keeps its number"
            assert len(set(known.values())) == len(known)
            numbers = known
            assert agrees_with_itself(machine.store)
        machine.close()


def word_of(event: Event) -> str:
    return str(getattr(event, "content", None) or getattr(event, "text", None))
