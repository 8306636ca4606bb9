"""A scan sees the bytes as they are: grown, folded, pruned, around records, in summaries; each once."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING

import pytest

from backstory.agents import jsonl
from backstory.derive.pruning import PROMPTS, Pruning
from backstory.ingest import log_reader, pruning
from backstory.projects import secret_notes
from backstory.store import Store, codec, open_store
from backstory.store.file import maintenance
from backstory.workspace.stores.secret_scan import SecretScan
from tests.support.clock import NOW
from tests.support.machines import Machine, claude_line, claude_log, lines

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TOKEN, OTHER = "ghp_" + "a1B2" * 9, "xoxb-123456789012-1234567890123-" + "Ab3" * 8


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    machine = Machine(tmp_path)
    yield machine
    machine.close()


def scanned(machine: Machine) -> SecretScan:
    scan = SecretScan(machine.store_path.parent, lambda: NOW)
    scan.scan(machine.store)
    return scan


def places(scan: SecretScan) -> dict[str, list[int | None]]:
    return {each.secret.kind: [place.seq for place in each.places] for each in scan.findings}


def test_a_log_that_grew_line_by_line_is_found_the_same_as_one_that_came_at_once(machine: Machine) -> None:
    written = [claude_line("user", f"u{n}", f"line {n} {TOKEN if n % 3 == 0 else ''}") for n in range(9)]
    for count in range(1, 10):
        machine.write(claude_log("s"), lines(*written[:count]))
        machine.read()
        grown = scanned(machine)
    (machine.store_path.parent / "secrets.scanned").unlink()
    assert places(grown) == places(scanned(machine)) == {"github-token": [1, 4, 7]}


def test_chunks_that_were_joined_have_the_same_findings(machine: Machine) -> None:
    for count in range(1, 6):
        machine.write(claude_log("s"), lines(*[claude_line("user", f"u{n}", f"{n} {TOKEN}") for n in range(count)]))
        machine.read()
    before = places(scanned(machine))
    maintenance.optimize(machine.store, NOW, lambda done, total: None)
    after = scanned(machine)
    assert (places(after), after.counts.errors) == (before, [])


def test_what_was_pruned_is_found_no_more(machine: Machine) -> None:
    said = [claude_line("user", "p1", f"use {TOKEN}"), claude_line("assistant", "a1", f"I used {TOKEN} and {OTHER}")]
    machine.write(claude_log("s"), lines(*said))
    machine.read()
    assert places(scanned(machine)) == {"github-token": [1, 2], "slack-token": [2]}
    (session,) = machine.store.sessions()
    pruning.prune_session(machine.store, session, Pruning(keep=PROMPTS))
    assert places(scanned(machine)) == {"github-token": [1]}


def test_what_stands_around_the_records_of_a_document_is_found(machine: Machine) -> None:
    message = {"id": "m", "role": "user", "content": "<user_input>go</user_input>", "ts": 1795416184718}
    document = {"sessionId": "1795416182012_9zomc", "env": f"GITHUB={TOKEN}", "messages": [message]}
    folder = ".cline/data/sessions/1795416182012_9zomc"
    machine.write(f"{folder}/1795416182012_9zomc.messages.json", json.dumps(document).encode())
    machine.read("cline")
    assert places(scanned(machine)) == {"github-token": [2]}


def test_bytes_without_a_number_are_looked_through(machine: Machine) -> None:
    machine.write(claude_log("s"), lines(claude_line("user", "p1", "go"), claude_line("user", "p2", TOKEN)))
    machine.read()
    machine.store.change(lambda db: db.execute("delete from numbers"))
    assert places(scanned(machine)) == {"github-token": [None]}


def test_a_summary_that_we_had_written_is_looked_through(machine: Machine) -> None:
    machine.write(claude_log("s"), lines(claude_line("user", "p1", "go")))
    machine.read()
    (session,) = machine.store.sessions()
    machine.store.change(
        lambda db: db.execute(
            "insert into compactions(session_id, after_seq, summary) values (?, 1, ?)", (session.id, f"used {TOKEN}")
        )
    )
    assert places(scanned(machine)) == places(scanned(machine)) == {"github-token": [1]}
    machine.store.change(lambda db: db.execute("delete from compactions"))
    assert places(scanned(machine)) == {}


def test_a_line_too_long_to_be_parsed_is_looked_through(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonl, "LINE_BYTES_MAX", 1_000)
    long = claude_line("user", "p1", "x " * 1_000 + TOKEN)
    machine.write(claude_log("s"), lines(long, claude_line("user", "p2", "go")))
    machine.read()
    assert places(scanned(machine)) == {"github-token": [1]}


@pytest.mark.parametrize("before", [0, 40_000])
def test_a_line_that_ended_later_leaves_no_secret_of_its_beginning(machine: Machine, before: int) -> None:
    whole = lines(
        claude_line("user", "p1", TOKEN), claude_line("user", "p2", 'x" ' * before + "password: Kx93vQp7Zt2m")
    )
    cut = whole.index(b"Kx93vQp") + 7
    machine.write(claude_log("s"), whole[:cut])
    machine.read()
    assert places(scanned(machine)) == {"github-token": [1], "password": [None]}
    machine.write(claude_log("s"), whole)
    machine.read()
    grown = scanned(machine)
    assert [(each.secret.kind, [at.seq for at in each.places]) for each in grown.findings] == [
        ("github-token", [1]), ("password", [2]),
    ]  # fmt: skip


def test_around_records_one_secret_is_one_place_and_stays_one(machine: Machine) -> None:
    said = [claude_line("user", f"p{n}", TOKEN) for n in range(3)]
    machine.write(claude_log("s"), lines(*said))
    machine.read()
    machine.store.change(lambda db: db.execute("delete from numbers"))
    assert places(scanned(machine)) == places(scanned(machine)) == {"github-token": [None]}


def test_of_a_log_that_grew_no_more_is_in_memory_at_once_than_a_chunk(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_reader, "BLOCK_BYTES", 100_000)
    monkeypatch.setattr(codec, "CHUNK_BYTES", 100_000)
    said = [claude_line("user", f"p{n}", f"{random.Random(n).randbytes(2_000).hex()}") for n in range(100)]
    machine.write(claude_log("s"), lines(*said[:1]))
    machine.read()
    scanned(machine)
    machine.write(claude_log("s"), lines(*said))
    machine.read()
    (log,) = machine.store.logs()
    most = max(map(len, machine.store.stream_log(log.id, 1_000)))
    read, piece = list[int](), Store.read_log

    def noted(store: Store, log_id: int, start: int, length: int, **how: bool) -> bytes:
        read.append(length)
        return piece(store, log_id, start, length, **how)

    monkeypatch.setattr(Store, "read_log", noted)
    scanned(machine)
    assert most < log.read_to / 2
    assert all(length <= most for length in read)


def test_what_came_is_told_once(machine: Machine) -> None:
    machine.write(claude_log("s"), lines(claude_line("user", "p1", TOKEN)))
    machine.read()
    assert len(scanned(machine).came) == 1
    assert scanned(machine).came == set()
    both = [claude_line("user", "p1", TOKEN), claude_line("user", "p2", f"{TOKEN} {OTHER}")]
    machine.write(claude_log("s"), lines(*both))
    machine.read()
    scan = scanned(machine)
    assert {each.secret.kind for each in scan.findings if each.secret.digits in scan.came} == {"slack-token"}


def test_notes_that_cannot_be_written_are_told(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.write(claude_log("s"), lines(claude_line("user", "p1", TOKEN)))
    machine.read()
    monkeypatch.setattr(secret_notes.ScanNotes, "keep", lambda notes: False)
    scan = scanned(machine)
    assert (places(scan), scan.counts.is_noted) == ({"github-token": [1]}, False)


def test_a_copy_with_the_same_id_has_notes_of_its_own(machine: Machine, tmp_path: Path) -> None:
    machine.write(claude_log("s"), lines(claude_line("user", "p1", TOKEN)))
    machine.read()
    whole = scanned(machine).counts.bytes
    machine.store.backup(tmp_path / "copy.db")
    with open_store(tmp_path / "copy.db") as copy:
        scan = SecretScan(tmp_path, lambda: NOW)
        scan.scan(copy)
        assert (scan.counts.bytes, places(scan)) == (whole, {"github-token": [1]})
    assert scanned(machine).counts.bytes == 0


def test_notes_of_the_stores_scanned_last_are_kept(tmp_path: Path) -> None:
    notes = secret_notes.ScanNotes(tmp_path, b"k" * 32)
    for number in range(secret_notes.STORES_MAX + 5):
        notes.of_store(f"store {number}", (), (), (), ())
        notes.of_store("store 0", (), (), (), ())
    notes.keep()
    kept = json.loads((tmp_path / "secrets.scanned").read_text("utf-8"))["stores"]
    assert (len(kept), "store 0" in kept, "store 1" in kept) == (secret_notes.STORES_MAX, True, False)
