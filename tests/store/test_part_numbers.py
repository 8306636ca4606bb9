"""Prompts that an earlier version numbered below 0: its store and its export, beside what is read from the log today.

``parts-below-0.db.zst`` and ``parts-below-0.jsonl`` in ``golden`` are a home store and its export. That version made
both of a log like the one in ``tests/agents/cases/codex/prompt-of-the-model-alone``.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
import zstandard

from backstory.exchange import replication
from backstory.export.full_form import FullForms
from backstory.ingest.reindex import reindex
from backstory.model import ToolCall, UserMessage
from backstory.store import Store, open_store
from tests.support.clock import NOW
from tests.support.copies import merge, said
from tests.support.machines import Machine, differences, looked_up
from tests.support.make_golden import GOLDEN
from tests.support.portable import Importer, came, exported, held

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FILE = GOLDEN / "parts-below-0.jsonl"
ROLLOUT = ".codex/sessions/2026/11/12/rollout-2026-11-12T09-30-00-019a7721-6c10-7d03-9d3e-52f1c7b0a9e4.jsonl"
LATER = 1_795_000_000_000
PARTS = {6: [7, 8, 9], 22: [6, 7, 8], 24: [0, 1]}
"""The parts of those records that have several events."""


def as_it_was(path: Path) -> Store:
    """A copy of the store that the earlier version made."""
    path.write_bytes(zstandard.ZstdDecompressor().decompress((GOLDEN / "parts-below-0.db.zst").read_bytes()))
    return open_store(path, shared=True, now=lambda: LATER)


def derived_again(path: Path) -> Store:
    """The same, after an ingest of today."""
    store = as_it_was(path)
    reindex(store, now=LATER, only_stale=True)
    return store


def parts(store: Store) -> dict[int, list[int]]:
    found = dict[int, list[int]]()
    for each in store.events(store.sessions()[0]):
        found.setdefault(each.seq, []).append(each.part)
    return {seq: of_one for seq, of_one in found.items() if of_one != [0]}


@pytest.fixture
def old(tmp_path: Path) -> Iterator[Store]:
    with as_it_was(tmp_path / "old.db") as store:
        yield store


@pytest.fixture
def new(tmp_path: Path) -> Iterator[Store]:
    with derived_again(tmp_path / "new.db") as store:
        yield store


@pytest.fixture
def importer(tmp_path: Path) -> Importer:
    return Importer(tmp_path / "other")


def test_the_golden_store_has_parts_below_0(old: Store) -> None:
    assert parts(old) == {6: [-1, 0, 1], 22: [-2, -1, 0], 24: [0, 1]}
    assert FILE.read_bytes().count(b'"part":-') == 3


def test_what_is_derived_again_has_the_parts_of_a_log_that_is_read_today(tmp_path: Path, new: Store) -> None:
    assert parts(new) == PARTS
    assert new.verify().problems == []
    machine = Machine(tmp_path / "machine")
    machine.write(ROLLOUT, new.read_log(new.logs()[0].id, 0, 1 << 20))
    machine.read("codex")
    (one,), (other,) = held(new).values(), held(machine.store).values()
    # The rest is of the place where it was read, and of the person who named it.
    alike = one.keys() - {"session", "logs", "branches", "summaries", "decided"}
    assert differences({name: one[name] for name in alike}, {name: other[name] for name in alike}) == []
    machine.close()


def test_what_touches_files_is_found_again_under_its_new_part(new: Store) -> None:
    touched = "select t.seq, t.part, e.kind from file_touches t join session_files f on f.id = t.file_id join events e "
    where = "on e.session_id = f.session_id and e.seq = t.seq and e.part = t.part order by t.seq"
    assert looked_up(new.path, touched + where) == [(13, 0, "ToolCall"), (22, 8, "ToolCall")]
    results = "select c.seq, c.part from call_results x join events c on c.id = x.call_id order by 1"
    assert looked_up(new.path, results) == [(13, 0), (22, 8)]


def test_a_forced_reindex_says_the_same(tmp_path: Path, new: Store) -> None:
    with as_it_was(tmp_path / "forced.db") as forced:
        reindex(forced, now=LATER, events_too=True)
        (one,), (other,) = held(forced).values(), held(new).values()
        # What was checked out gives way to where the log ends.
        assert differences(one | {"session": None}, other | {"session": None}) == []


def test_the_full_form_of_an_event_is_found_under_its_new_part(new: Store) -> None:
    forms = FullForms(new)
    whole = {(each.seq, each.part): forms.expand(each) for each in new.events(new.sessions()[0])}
    assert whole[22, 7] == UserMessage(content="One test is enough.")
    call = whole[22, 8]
    assert isinstance(call, ToolCall)
    assert "assert total([199, 1]) == 200" in call.input["patch"]


def test_names_checkouts_and_summaries_stay_where_they_were(old: Store, new: Store) -> None:
    asked = (
        "select b.name, b.leaf_uid, b.leaf_seq, s.name, s.leaf_uid, s.leaf_seq, c.after_seq "
        "from sessions s, branches b, compactions c"
    )
    assert looked_up(new.path, asked) == looked_up(old.path, asked)
    assert len(looked_up(new.path, asked)) == 1


# export and import ---------------------------------------------------------------------------------------------------


def test_a_log_with_a_prompt_that_only_the_model_was_sent_goes_out_and_comes_back(
    tmp_path: Path, importer: Importer
) -> None:
    machine = Machine(tmp_path / "machine")
    machine.put("codex/prompt-of-the-model-alone")
    machine.read("codex")
    assert came(importer(exported(machine.store))) == {"new": 1}
    assert differences(held(importer.store), held(machine.store)) == []
    assert sorted(exported(importer.store).splitlines()) == sorted(exported(machine.store).splitlines())
    machine.close()


def test_what_it_is_exported_as_is_imported(old: Store, new: Store, importer: Importer) -> None:
    assert sorted(exported(old).splitlines()) == sorted(exported(new).splitlines())
    assert came(importer(exported(old))) == {"new": 1}
    assert parts(importer.store) == PARTS
    assert differences(held(importer.store), held(new)) == []
    assert importer.store.verify().problems == []


def test_a_file_of_the_earlier_version_is_imported(new: Store, importer: Importer) -> None:
    assert came(importer(FILE.read_bytes())) == {"new": 1}
    assert differences(held(importer.store), held(new)) == []


def test_without_the_bytes_of_its_logs_it_is_imported_too(old: Store, new: Store, tmp_path: Path) -> None:
    first, second = Importer(tmp_path / "first"), Importer(tmp_path / "second")
    first(exported(old, has_bytes=False))
    second(exported(new, has_bytes=False))
    assert parts(first.store) == PARTS
    assert differences(held(first.store), held(second.store)) == []
    reindex(first.store, now=NOW, events_too=True)
    assert differences(held(first.store), held(second.store)) == []


def test_an_export_imported_into_its_own_home_changes_nothing(tmp_path: Path) -> None:
    for name, home in (("old", as_it_was), ("new", derived_again)):
        for file in (FILE.read_bytes(), exported_of(home, tmp_path / "exported.db")):
            own = Importer(tmp_path / f"{name}{len(file)}")
            own.home.mkdir()
            with home(own.home / "store.db") as store:
                before = held(store)
            assert came(own(file)) == {"own": 1}
            if home is derived_again:
                assert differences(held(own.store), before) == []
            assert parts(own.store) == PARTS


def exported_of(home: object, path: Path) -> bytes:
    path.unlink(missing_ok=True)
    with (as_it_was if home is as_it_was else derived_again)(path) as store:
        return exported(store)


def test_imported_twice_from_both_versions_it_is_there_once(new: Store, tmp_path: Path) -> None:
    for name, files in (("old", [FILE.read_bytes(), exported(new)]), ("new", [exported(new), FILE.read_bytes()])):
        importer = Importer(tmp_path / name)
        assert [came(importer(file)) for file in files] == [{"new": 1}, {"same": 1}]
        assert differences(held(importer.store), held(new)) == []


# other stores --------------------------------------------------------------------------------------------------------


def test_merged_either_way_round_nothing_is_there_twice(old: Store, new: Store, tmp_path: Path) -> None:
    with as_it_was(tmp_path / "second.db") as second:
        assert not merge(second, new)
        assert differences(held(second), held(new)) == []
    assert not merge(new, old)
    assert parts(new) == PARTS


def test_a_turn_that_is_merged_has_the_parts_of_today(old: Store, tmp_path: Path) -> None:
    with open_store(tmp_path / "empty.db", shared=True, now=lambda: LATER) as empty:
        assert merge(empty, old)
        assert [*parts(empty).values()] == [*PARTS.values()]
        assert not merge(empty, old)


def test_a_longer_copy_of_a_turn_replaces_one_of_the_earlier_version(new: Store, tmp_path: Path) -> None:
    with as_it_was(tmp_path / "shorter.db") as shorter:
        with closing(sqlite3.connect(shorter.path)) as db, db:
            db.execute("delete from events where seq = 26")
        assert merge(shorter, new)
        assert [*parts(shorter).values()] == [*PARTS.values()]
        uid = new.sessions()[0].uid
        assert said(shorter)[uid]["events"] == said(new)[uid]["events"]


def test_a_copy_of_its_session_has_the_parts_of_today(old: Store, tmp_path: Path) -> None:
    uid = old.sessions()[0].uid
    with open_store(tmp_path / "home.db", shared=True, now=lambda: LATER) as home:
        replication.copy_session(home, old, uid)
        assert parts(home) == PARTS
        reindex(home, now=LATER, only_stale=True)
        before = held(home)
        replication.copy_session(home, old, uid)
        reindex(home, now=LATER, only_stale=True)
        assert differences(held(home), before) == []


def test_a_session_that_goes_on_from_it_has_the_parts_of_today(old: Store, tmp_path: Path) -> None:
    with open_store(tmp_path / "sessions.bks", now=lambda: LATER) as project:
        replication.continue_session(project, old, old.sessions()[0].uid)
        assert parts(project) == PARTS
