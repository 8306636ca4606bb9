"""A file in an agent's place that nobody understands is kept all the same, and is a log as soon as somebody does."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from backstory import agents
from backstory.ingest import unread
from backstory.ingest.ingest import ingest
from backstory.ingest.reindex import reindex
from backstory.model import LogIdentity, Unknown
from tests.support.clock import NOW
from tests.support.machines import (
    CLAUDE_FOLDER,
    CODEX_FOLDER,
    Machine,
    case,
    claude_line,
    claude_log,
    compressed,
    content,
    conversation,
    differences,
    kept,
    lines,
    looked_up,
    place,
    sha256,
)
from tests.support.wrapped import WrappedLogs

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from backstory.ingest.report import IngestReport
    from backstory.model import Event

LOG = claude_log("odd")
CLAUDE = agents.load("claude")
NEW_KINDS = lines(*[b'{"kind": "of tomorrow", "number": %d}' % n for n in range(5)])
UTF_16 = lines(*conversation(2)).decode().encode("utf-16")
NOT_UNDERSTOOD = {
    "only kinds of tomorrow": NEW_KINDS,
    "UTF-16": UTF_16,
    "binary": b"\x7fELF" + bytes(range(256)) * 500,
    "a first record without an end": b'{"type": "us',
}
BLANK_FIRST = {
    "NUL before the first record": b"\0" * 70_000 + lines(*conversation(4)),
    "lines of blanks": b" \t\r\n" * 40_000 + lines(*conversation(4)),
    "a hole of a megabyte": b"\0" * (1 << 20) + b"\n" + lines(*conversation(4)),
    "a long first record": lines(claude_line("user", "u0", "word0 said", aaa="x" * 200_000), *conversation(4)),
}


class Later(WrappedLogs):
    """Claude's adapter as a later version has it: it knows what today's does not."""

    def __init__(self) -> None:
        super().__init__("claude")

    def identify(self, path: Path, head: bytes) -> LogIdentity | None:
        known = LogIdentity(native_id=path.stem) if b"of tomorrow" in head else None
        return known or super().identify(path, head)


LATER = Later().as_agent()


def read_later(machine: Machine) -> IngestReport:
    return ingest(machine.store, [LATER], environ={}, home=machine.home, now=NOW)


def only_unread(machine: Machine) -> Any:
    (session,) = machine.store.sessions(unread=True)
    return session


def said_of(machine: Machine) -> list[Event]:
    return [each.event for each in machine.store.events(only_unread(machine))]


@pytest.mark.parametrize("data", NOT_UNDERSTOOD.values(), ids=list(NOT_UNDERSTOOD))
def test_what_nobody_understands_is_kept_byte_for_byte_and_read_once(machine: Machine, data: bytes) -> None:
    path = machine.write(LOG, data)
    report = machine.read()
    assert [(each.path, each.reason) for each in report.not_understood] == [
        (str(path), "no record of this agent is in its beginning")
    ]
    assert (report.errors, report.total("logs_read"), report.total("bytes_read")) == ([], 1, len(data))
    assert (report.total("sessions_new"), report.total("events_new"), report.unknown_records) == (0, 0, {})
    assert kept(machine.store) == [sha256(data)]
    again = machine.read()
    assert (again.total("logs_read"), again.not_understood) == (0, report.not_understood)
    assert machine.store.verify().problems == []


@pytest.mark.parametrize("data", BLANK_FIRST.values(), ids=list(BLANK_FIRST))
def test_a_log_is_known_by_what_stands_behind_blank_space_or_in_a_long_first_record(
    machine: Machine, data: bytes
) -> None:
    machine.write(LOG, data)
    report = machine.read()
    assert (report.errors, report.not_understood, kept(machine.store)) == ([], [], [sha256(data)])
    assert [turn.prompt for turn in machine.store.turns(machine.store.session("odd"))][-1] == "word2 said"
    machine.write(LOG, data + lines(*conversation(2, start=4)))
    assert machine.read().total("bytes_read") == len(lines(*conversation(2, start=4)))
    before = machine.content()
    reindex(machine.store, now=NOW, events_too=True)
    assert differences(machine.content(), before) == []


def test_behind_more_blank_space_than_is_looked_through_nothing_is_looked_for(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unread, "LINE_BYTES_MAX", 1 << 20)
    data = b"\0" * (6 << 20) + b"\n" + lines(*conversation(1))
    machine.write(LOG, data)
    assert len(machine.read().not_understood) == 1
    assert kept(machine.store) == [sha256(data)]


def test_it_is_no_conversation_and_each_of_its_records_is_unknown(machine: Machine) -> None:
    machine.write(LOG, NEW_KINDS)
    machine.read()
    assert machine.store.sessions(subagents=True) == []
    session = only_unread(machine)
    assert (session.relation, session.title, session.turns) == ("unread", "odd.jsonl, not understood", 0)
    assert said_of(machine) == [Unknown(type="not understood")] * 5
    reindex(machine.store, now=NOW, events_too=True)
    assert said_of(machine) == [Unknown(type="not understood")] * 5


def test_what_is_added_to_it_is_all_that_is_read(machine: Machine) -> None:
    path = machine.write(LOG, NEW_KINDS)
    machine.read()
    path.write_bytes(NEW_KINDS + b'{"kind": "more"}\n')
    assert machine.read().total("bytes_read") == 17
    assert kept(machine.store) == [sha256(path.read_bytes())]


def test_it_is_hidden_by_no_other_log_of_its_name(machine: Machine) -> None:
    """A damaged copy beside the log that it was of leaves that one as it is."""
    whole = lines(*conversation(4))
    machine.write(LOG, whole)
    machine.read()
    before = machine.content()
    damaged = machine.write(CLAUDE_FOLDER.with_name("-elsewhere") / LOG.name, whole.decode().encode("utf-16"))
    machine.read()
    assert machine.content() == before
    assert kept(machine.store) == sorted([sha256(whole), sha256(damaged.read_bytes())])


def test_a_log_that_is_damaged_after_it_was_read_is_kept_as_it_was_and_as_it_is(machine: Machine) -> None:
    whole = lines(*conversation(4))
    path = machine.write(LOG, whole)
    machine.read()
    before = machine.content()
    path.write_bytes(b"\xff" * len(whole))
    machine.read()
    assert machine.content() == before
    assert len(kept(machine.store)) == 2


def test_it_becomes_the_log_that_it_is_when_more_of_it_says_so(
    machine: Machine, another: Callable[[], Machine]
) -> None:
    whole = NEW_KINDS + lines(*conversation(4))
    path = machine.write(LOG, NEW_KINDS)
    machine.read()
    path.write_bytes(whole)
    report = machine.read()
    assert (report.total("bytes_read"), report.not_understood) == (len(whole) - len(NEW_KINDS), [])
    assert kept(machine.store) == [sha256(whole)]
    at_once = another()
    at_once.write(LOG, whole)
    at_once.read()
    assert differences(content(machine.store), content(at_once.store)) == []
    assert looked_up(machine.store_path, "select count(*) from sessions") == [(1,)]
    assert (machine.read().total("logs_read"), machine.store.verify().problems) == (0, [])


def test_reindex_with_an_adapter_that_knows_it_makes_it_the_log_that_it_is(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = machine.write(LOG, NEW_KINDS)
    machine.read()
    path.unlink()
    monkeypatch.setattr(agents, "load", lambda name: LATER)
    reindex(machine.store, now=NOW)
    (session,) = machine.store.sessions()
    assert (session.native_id, session.relation) == ("odd", None)
    assert machine.store.sessions(unread=True) == [session]
    assert kept(machine.store) == [sha256(NEW_KINDS)]
    assert machine.store.verify().problems == []


def test_after_reindex_its_file_is_as_it_was(
    machine: Machine,
    monkeypatch: pytest.MonkeyPatch,
    files_opened: Callable[[], AbstractContextManager[list[str]]],
) -> None:
    machine.write(LOG, NEW_KINDS)
    machine.read()
    monkeypatch.setattr(agents, "load", lambda name: LATER)
    reindex(machine.store, now=NOW)
    with files_opened() as opened:
        report = read_later(machine)
    assert (opened, report.not_understood) == ([], [])


def test_a_removed_one_stays_away(machine: Machine) -> None:
    path = machine.write(LOG, NEW_KINDS)
    machine.read()
    machine.store.remove(only_unread(machine))
    for more in (b"", b"more\n"):
        path.write_bytes(path.read_bytes() + more)
        report = machine.read()
        assert (report.not_understood, machine.store.sessions(unread=True)) == ([], [])
        assert ["removed by you" in each.reason for each in report.gave_nothing] == [True]


def test_many_are_read_by_the_second_process_too(
    machine: Machine, another: Callable[[], Machine], monkeypatch: pytest.MonkeyPatch
) -> None:
    by_two = another()
    for each in (machine, by_two):
        for n in range(10):
            each.write(claude_log(f"odd-{n}"), NEW_KINDS * (n + 1))
            each.write(claude_log(f"good-{n}"), lines(*conversation(4)))
    machine.read()
    monkeypatch.setattr("backstory.ingest.ingest.WORKER_BYTES", 0)
    report = by_two.read()
    assert (len(report.not_understood), report.errors) == (10, [])
    assert kept(by_two.store) == kept(machine.store)


def test_a_torn_compressed_log_of_unknown_kind_is_kept_as_far_as_it_goes(machine: Machine) -> None:
    data = lines(*[b'{"kind": "of tomorrow", "said": "%s"}' % os.urandom(200).hex().encode() for _ in range(3000)])
    frame = compressed(data)
    path = machine.write(LOG.with_name("odd.jsonl.zst"), frame[: len(frame) // 2])
    (problem,) = machine.read().not_understood
    assert problem.reason == (
        "no record of this agent is in its beginning; its compressed content ends too early: "
        "kept as far as it can be read"
    )
    begun = machine.store.logs(only_unread(machine))[0].read_to
    path.write_bytes(frame)
    report = machine.read()
    assert report.total("bytes_read") == len(data) - begun
    assert kept(machine.store) == [sha256(data)]


def test_a_rollout_of_codex_that_begins_with_new_records_is_known_by_them_later(machine: Machine) -> None:
    whole = case("codex/mcp")
    path = machine.write(CODEX_FOLDER / place("codex/mcp").name, b"\xff\n")
    machine.read()
    path.write_bytes(b"\xff\n" + whole)
    assert machine.read().not_understood == []
    (session,) = machine.store.sessions(unread=True)
    assert session.turns > 0


def test_written_in_place_with_its_size_and_time_as_before_is_noticed(machine: Machine) -> None:
    path = machine.write(LOG, lines(*conversation(4)))
    machine.read()
    told = path.stat()
    with path.open("r+b") as file:
        file.write(path.read_bytes().replace(b"word2 said", b"word2 sang"))
    os.utime(path, ns=(told.st_atime_ns, told.st_mtime_ns))
    assert machine.read().total("logs_read") == 1
    assert [turn.prompt for turn in machine.store.turns(machine.store.session("odd"))] == ["word0 said", "word2 sang"]


def test_a_store_that_knows_no_ctime_learns_it_without_reading_anything(
    machine: Machine, files_opened: Callable[[], AbstractContextManager[list[str]]]
) -> None:
    machine.write(LOG, lines(*conversation(4)))
    machine.read()
    looked_up(machine.store_path, "update logs set ctime_ns = null")
    with files_opened() as opened:
        machine.read()
    assert opened == []
    assert looked_up(machine.store_path, "select ctime_ns from logs") == [((machine.home / LOG).stat().st_ctime_ns,)]


class Forgetful(Later):
    """Claude's adapter as a later version has it that knows the beginning of no log any more."""

    def identify(self, path: Path, head: bytes) -> LogIdentity | None:
        return None


FORGETFUL = Forgetful().as_agent()


def test_a_log_whose_beginning_is_not_known_any_more_is_told_again_all_the_same(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.write(LOG, lines(*conversation(4)))
    machine.read()
    before = machine.content()
    monkeypatch.setattr(agents, "load", lambda name: FORGETFUL)
    assert reindex(machine.store, now=NOW, events_too=True).failed == []
    assert differences(machine.content(), before) == []
