"""Sessions written as JSON lines and imported: what comes back, what is left alone, and what is refused."""

from __future__ import annotations

import base64
import hashlib
import json
import sqlite3
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import apsw
import msgspec
import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from backstory.bounds import LINE_BYTES_MAX
from backstory.derive.deriver import Deriver
from backstory.derive.secrets import Redactor
from backstory.errors import ImportRefused, ImportTooNew
from backstory.exchange import imported, json_lines, portable, replication
from backstory.ingest import json_import, json_session
from backstory.ingest import reindex as reindexing
from backstory.ingest.reindex import reindex
from backstory.model import KINDS, AssistantText, At, Complete, Event, ToolCall, ToolResult, UserMessage
from backstory.store import Store, open_store
from backstory.store.file import maintenance
from backstory.store.tables import compactions, decisions
from backstory.store.tables import sessions as stored_sessions
from backstory.store.tables.compactions import NewCompaction
from tests.support.clock import NOW
from tests.support.counts import examples
from tests.support.machines import SMALL, Machine, claude_line, claude_log, conversation, differences, indexed, lines
from tests.support.make_golden import GOLDEN
from tests.support.portable import Importer, came, exported, held
from tests.support.store_machine import events, texts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LOG = claude_log("s")


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    made = Machine(tmp_path / "machine")
    yield made
    made.close()


@pytest.fixture
def importer(tmp_path: Path) -> Importer:
    return Importer(tmp_path / "other")


def with_logs(machine: Machine, *names: str) -> Machine:
    for name in names or SMALL:
        machine.put(name)
    machine.read()
    return machine


def with_records(machine: Machine, records: int) -> bytes:
    """What is exported of a machine whose one log has so many records."""
    machine.write(LOG, lines(*conversation(records)))
    machine.read("claude")
    return exported(machine.store)


def a_project(path: Path) -> Store:
    """A project's store with names, branches, a removed turn, a summary and a removed session."""
    clock = count(NOW)
    store = open_store(path, now=clock.__next__)
    first = store.create_session("The first", "/w/app")
    store.append_events(first, [
        UserMessage(content="Why is it red?"),
        ToolCall(tool_use_id="t", tool_name="Bash", tool="SHELL", input={"command": "make"}),
        ToolResult(tool_use_id="t", tool_name="Bash", tool="SHELL", content="\n".join(map(str, range(40)))),
        AssistantText(text="A comma."), Complete(success=True, duration_ms=7, cost_usd=0.5),
        UserMessage(content="and now?"), AssistantText(text="It is green."),
    ])  # fmt: skip
    store.checkout(first, store.place(first, 4).point)
    store.append_events(first, [UserMessage(content="another way"), AssistantText(text="yes")])
    store.name_branch(first, "the other", store.place(first, 7).point)
    store.remove_turns(first, [store.turns(first)[-1].uid])
    store.decide(decisions.set_context, first.uid, "a ticket", "A-1", store.now())
    store.decide(
        compactions.add, first.id, NewCompaction(after_seq=4, summary="A comma was wrong. " * 20, agent="claude")
    )
    second = store.create_session("The second")
    store.append_events(second, [UserMessage(content="hello"), AssistantText(text="hi")])
    store.remove(store.create_session("The removed"))
    return store


# a round trip --------------------------------------------------------------------------------------------------------


def test_agents_logs_come_back_as_they_are(machine: Machine, importer: Importer) -> None:
    with_logs(machine)
    done = importer(exported(machine.store))
    assert came(done) == {"new": machine.store.ask(stored_sessions.count)}
    assert differences(held(machine.store), held(importer.store)) == []
    assert importer.store.verify().problems == []


def test_without_the_logs_nothing_is_left_to_be_derived(machine: Machine, importer: Importer) -> None:
    with_logs(machine)
    importer(exported(machine.store, has_bytes=False))
    assert maintenance.sessions_to_derive(importer.store, only_stale=True) == []
    came_with, words = held(importer.store, has_bytes=False), indexed_words(importer.store)
    assert any(each["derived"][0] for each in came_with.values())
    reindex(importer.store, now=NOW)
    assert differences(came_with, held(importer.store, has_bytes=False)) == []
    assert indexed_words(importer.store) == words


def test_what_cannot_be_derived_as_it_comes_is_derived_from_what_is_kept(
    machine: Machine, importer: Importer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_logs(machine)
    data = exported(machine.store, has_bytes=False)
    with monkeypatch.context() as patch:
        patch.setattr(json_session, "Deriver", Stumbling)
        importer(data)
    other = Importer(importer.home.parent / "another")
    other(data)
    assert differences(held(other.store, has_bytes=False), held(importer.store, has_bytes=False)) == []
    assert indexed_words(importer.store) == indexed_words(other.store)


class Stumbling(Deriver):
    """Fails at calls."""

    def take(self, event: Event, where: At, cwd: str | None) -> None:
        if isinstance(event, ToolCall):
            raise RecursionError
        super().take(event, where, cwd)


def test_a_session_that_cannot_be_derived_is_found_by_what_is_shown_of_it(
    machine: Machine, importer: Importer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_logs(machine)
    data = exported(machine.store)

    def fails(*_: object, **__: object) -> None:
        raise ValueError("no")

    monkeypatch.setattr(reindexing, "kept_source", fails)
    done = importer(data)
    assert len(done.failed) == len(done.came["new"]) == machine.store.ask(stored_sessions.count)
    for session_id, each in ((session.id, session) for session in importer.store.sessions()):
        assert indexed(importer.store, session_id), each.uid


def indexed_words(store: Store) -> list[Any]:
    """Every word of the index, with its place in its event."""
    with closing(apsw.Connection(str(store.path), flags=apsw.SQLITE_OPEN_READONLY)) as db:
        db.execute("create virtual table temp.words using fts5vocab('main', 'search_index', 'instance')")
        asked = (
            "select s.uid, e.seq, e.part, w.term, w.offset from temp.words w join events e on e.id = w.doc "
            "join sessions s on s.id = e.session_id order by 1, 2, 3, 5"
        )
        return db.execute(asked).fetchall()


def test_after_a_reindex_they_are_still_equal(machine: Machine, importer: Importer) -> None:
    with_logs(machine)
    importer(exported(machine.store))
    reindex(importer.store, now=NOW, events_too=True)
    assert differences(held(machine.store), held(importer.store)) == []


def test_without_bytes_all_but_the_bytes_comes_back(machine: Machine, importer: Importer) -> None:
    with_logs(machine)
    done = importer(exported(machine.store, has_bytes=False))
    assert not done.bytes
    assert differences(held(machine.store, has_bytes=False), held(importer.store, has_bytes=False)) == []
    reindex(importer.store, now=NOW, events_too=True)
    assert differences(held(machine.store, has_bytes=False), held(importer.store, has_bytes=False)) == []
    assert importer.store.verify().problems == []


def test_what_was_imported_is_exported_alike(machine: Machine, importer: Importer, tmp_path: Path) -> None:
    with_logs(machine)
    data = exported(machine.store)
    importer(data)
    assert sorted(exported(importer.store).splitlines()) == sorted(data.splitlines())
    bare = Importer(tmp_path / "third")
    bare(exported(machine.store, has_bytes=False))
    fourth = Importer(tmp_path / "fourth")
    fourth(exported(bare.store))
    assert differences(held(bare.store), held(fourth.store)) == []


@pytest.mark.parametrize("has_bytes", [True, False])
def test_names_branches_removals_and_summaries_come_back(tmp_path: Path, importer: Importer, has_bytes: bool) -> None:
    with a_project(tmp_path / "project.bks") as store:
        importer(exported(store, has_bytes=has_bytes))
        assert differences(held(store, has_bytes=has_bytes), held(importer.store, has_bytes=has_bytes)) == []
        assert [each.shown_number for each in importer.store.sessions()] == ["S2", "S1"]


def test_the_store_that_is_named_takes_them(tmp_path: Path) -> None:
    with a_project(tmp_path / "project.bks") as store:
        importer = Importer(tmp_path / "other", store=tmp_path / "copy" / "sessions.bks")
        importer(exported(store))
        assert differences(held(store), held(importer.store)) == []
    assert not (importer.home / "store.db").exists()


def test_a_project_that_takes_its_own_back_gives_no_number_twice(tmp_path: Path) -> None:
    with a_project(path := tmp_path / "project.bks") as store:
        data, store_id = exported(store), store.id
    path.unlink()
    importer = Importer(tmp_path / "other", store=path)
    importer.store.begin_as(store_id)
    importer.workspace.known_projects.begin = lambda _store: None  # type: ignore[method-assign,assignment]
    importer(data)
    assert importer.store.create_session().number == 3


def test_one_session_comes_with_its_subagents(machine: Machine, importer: Importer) -> None:
    with_logs(machine)
    parent = next(each.parent_uid for each in machine.store.sessions(subagents=True) if each.relation == "subagent")
    assert parent is not None
    data = exported(machine.store, only=[machine.store.session(parent).id])
    assert came(importer(data)) == {"new": data.count(b'{"type":"session",')}
    assert {each.parent_uid for each in importer.store.sessions(subagents=True) if each.relation} == {parent}


def test_a_log_goes_on_where_the_import_ended(machine: Machine, importer: Importer, tmp_path: Path) -> None:
    importer(with_records(machine, 4))
    importer.store.close()
    other = Machine(tmp_path / "continued")
    other.store_path.write_bytes((importer.home / "store.db").read_bytes())
    other.write(LOG, lines(*conversation(8)))
    assert other.read("claude").errors == []
    machine.write(LOG, lines(*conversation(8)))
    machine.read("claude")
    assert [log.generation for log in other.store.logs()] == [1]
    assert [event.event for event in other.store.events(1)] == [event.event for event in machine.store.events(1)]
    other.close()


@settings(max_examples=examples(20), suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(made=st.lists(st.tuples(texts, events), min_size=1, max_size=4), has_bytes=st.booleans())
def test_any_session_comes_back(
    tmp_path_factory: pytest.TempPathFactory, made: list[tuple[str, list[Event]]], has_bytes: bool
) -> None:
    folder = tmp_path_factory.mktemp("any")
    with open_store(folder / "one.bks", now=lambda: NOW) as store:
        for name, new in made:
            store.append_events(store.create_session(name), new)
        importer = Importer(folder)
        importer(exported(store, has_bytes=has_bytes))
        assert differences(held(store, has_bytes=has_bytes), held(importer.store, has_bytes=has_bytes)) == []
        importer.workspace.close()


LONG = 2_000_000
"""Characters of a text that no line has room for in the test below."""


@pytest.mark.parametrize("sign", ["x", "[", "\x01"], ids=["long", "lists", "escaped"])
def test_what_no_line_has_room_for_is_cut_in_the_file_and_whole_in_the_bytes(
    tmp_path: Path, importer: Importer, monkeypatch: pytest.MonkeyPatch, sign: str
) -> None:
    monkeypatch.setattr(json_lines, "LINE_BYTES_MAX", LONG if sign != "[" else 2 * LONG)
    monkeypatch.setattr(json_lines, "STRUCTURES_MAX", LONG // 2)
    text = sign * LONG
    with open_store(tmp_path / "one.bks", now=lambda: NOW) as store:
        session = store.create_session("one")
        store.append_events(session, [UserMessage(content=text), AssistantText(text=text), Complete(success=True)])
        store.append_events(session, [UserMessage(content="short")])
        data = exported(store)
        assert came(importer(data)) == {"new": 1}
        assert came(importer(exported(store, has_bytes=False))) == {"less": 1}
    assert [turn.prompt for turn in importer.store.turns(1)] == [f"{text[:100_000]}…", "short"]
    assert [each.char_len for each in importer.store.events(1)][:2] == [LONG, LONG]
    assert max(map(len, data.splitlines())) <= LINE_BYTES_MAX


def test_a_sum_that_cannot_be_is_left_out(tmp_path: Path, importer: Importer) -> None:
    with open_store(tmp_path / "one.bks", now=lambda: NOW) as store:
        for cost, duration_ms in ((-1.0, -5), (float("inf"), 5)):
            session = store.create_session()
            store.append_events(session, [UserMessage(content="a"), Complete(success=True)])
            store.mark_completed(session, duration_ms, cost)
        assert came(importer(exported(store))) == {"new": 2}


def test_every_golden_store_goes_out_and_comes_back(tmp_path: Path) -> None:
    packed = sorted(GOLDEN.glob("*.zst"))
    assert packed
    for golden in (*(GOLDEN / f"store-v{version}.bks" for version in (3, 4, 5)), *packed):
        path, data = tmp_path / golden.name.removesuffix(".zst"), golden.read_bytes()
        path.write_bytes(zstandard.ZstdDecompressor().decompress(data) if golden in packed else data)
        with open_store(path, shared=path.suffix == ".db", now=lambda: NOW) as store:
            store.make_ready()
            reindex(store, now=NOW)
            for has_bytes, redactor in ((True, None), (False, None), (False, Redactor("/home/dev"))):
                name = f"{golden.name}-{has_bytes}-{redactor is not None}"
                first, second = Importer(tmp_path / f"{name}-1"), Importer(tmp_path / f"{name}-2")
                out = exported(store, has_bytes=has_bytes, redactor=redactor)
                assert came(first(out, strict=True)).keys() == {"new"}
                again = exported(first.store, has_bytes=has_bytes, redactor=redactor)
                assert came(second(again, strict=True)).keys() == {"new"}
                third = exported(second.store, has_bytes=has_bytes, redactor=redactor)
                assert sorted(third.splitlines()) == sorted(again.splitlines())
                assert without_logs(again, has_bytes=has_bytes) == without_logs(out, has_bytes=has_bytes)


def without_logs(data: bytes, *, has_bytes: bool) -> list[bytes]:
    """The lines of a file; where it has no bytes, without those of logs, in whose place another one came."""
    return sorted(line for line in data.splitlines() if has_bytes or not line.startswith(b'{"type":"log"'))


def test_a_session_whose_log_is_said_to_be_longer_than_it_is_is_left_out_of_an_export_of_all(machine: Machine) -> None:
    machine.write(claude_log("00000001-0000-4000-8000-000000000000"), lines(*conversation(4)))
    machine.read("claude")
    with closing(sqlite3.connect(machine.store_path)) as db, db:
        db.execute("update logs set read_to = ?", (2**63 - 1,))
    assert [json.loads(line)["type"] for line in exported(machine.store).splitlines()] == ["backstory", "end"]


def test_the_document_names_every_column_that_is_written() -> None:
    document = (Path(__file__).parents[2] / "docs" / "json-format.md").read_text("utf-8")
    for table, line in portable.LINES.items():
        assert [name for name in portable.fields(table) if f"`{name}`" not in section_of(document, line)] == [], table


def section_of(document: str, line: Any) -> str:
    _, _, section = document.partition(f"\n### `{line.__struct_config__.tag}`\n")
    return section.partition("\n## ")[0].partition("\n### ")[0]


def test_the_document_names_every_field_of_every_line() -> None:
    document = (Path(__file__).parents[2] / "docs" / "json-format.md").read_text("utf-8")
    assert "`more`" in document
    for line in get_args(json_lines.AnyLine):
        fields = set(line.__struct_fields__) - {"more"}
        assert [name for name in fields if f"`{name}`" not in section_of(document, line)] == [], line
    events = document.partition("The kinds and their fields")[2].partition("\n### ")[0]
    for kind in KINDS.values():
        row = next(each for each in events.splitlines() if f"`{kind.kind}`" in each)
        assert [name for name in kind.__struct_fields__ if f"`{name}`" not in row] == [], kind


# what is here already ------------------------------------------------------------------------------------------------


def test_a_second_import_changes_nothing(machine: Machine, importer: Importer) -> None:
    with_logs(machine)
    data = exported(machine.store)
    importer(data)
    before = held(importer.store)
    assert came(importer(data)) == {"same": len(before)}
    assert held(importer.store) == before


def test_an_import_that_says_more_adds(machine: Machine, importer: Importer) -> None:
    less, more = with_records(machine, 4), with_records(machine, 8)
    importer(less)
    assert came(importer(more)) == {"updated": 1}
    assert differences(held(machine.store), held(importer.store)) == []


def test_an_import_that_says_less_takes_nothing_away(machine: Machine, importer: Importer) -> None:
    less, more = with_records(machine, 5), with_records(machine, 6)
    importer(more)
    assert came(importer(less)) == {"less": 1}
    assert differences(held(machine.store), held(importer.store)) == []


def test_an_import_without_bytes_takes_no_bytes_away(machine: Machine, importer: Importer) -> None:
    data = with_records(machine, 6)
    importer(data)
    assert came(importer(exported(machine.store, has_bytes=False))) == {"less": 1}
    assert differences(held(machine.store), held(importer.store)) == []


def test_an_import_with_bytes_adds_them(machine: Machine, importer: Importer) -> None:
    data = with_records(machine, 6)
    importer(exported(machine.store, has_bytes=False))
    assert came(importer(data)) == {"updated": 1}
    assert differences(held(machine.store), held(importer.store)) == []


def test_of_two_that_each_say_more_none_replaces_the_other(tmp_path: Path, importer: Importer) -> None:
    with a_project(path := tmp_path / "project.bks") as store:
        store.backup(tmp_path / "copy.bks")
        for each, said in ((path, "here"), (tmp_path / "copy.bks", "there")):
            with open_store(each, now=lambda: NOW + 99) as went_on:
                went_on.append_events(2, [UserMessage(content=said)])
        importer(exported(store))
    before = held(importer.store)
    with open_store(tmp_path / "copy.bks") as copy:
        assert came(importer(exported(copy))) == {"same": 1, "differs": 1}
    assert held(importer.store) == before


def test_a_session_of_an_own_log_is_not_touched(machine: Machine, tmp_path: Path) -> None:
    data = with_records(machine, 8)
    other = Machine(tmp_path / "own")
    other.write(LOG, lines(*conversation(4)))
    importer = Importer(tmp_path / "own")
    importer.home.mkdir()
    other.store = open_store(importer.home / "store.db", shared=True, now=lambda: NOW)
    other.read("claude")
    before = held(other.store)
    assert came(importer(data)) == {"own": 1}
    assert held(other.store) == before
    other.close()


def test_a_session_of_a_project_is_not_touched(tmp_path: Path, importer: Importer) -> None:
    with a_project(tmp_path / "project.bks") as store:
        replication.pull_sessions(importer.store, store)
        before = held(importer.store)
        store.append_events(2, [UserMessage(content="more")])
        assert came(importer(exported(store))) == {"own": 2}
    assert held(importer.store) == before


def test_a_session_that_was_removed_here_stays_removed(machine: Machine, importer: Importer) -> None:
    data = with_records(machine, 4)
    importer(data)
    importer.store.remove(1)
    assert came(importer(data)) == {"removed": 1}
    assert importer.store.ask(stored_sessions.count) == 0


def test_once_the_own_log_was_read_an_import_touches_it_no_more(machine: Machine, importer: Importer) -> None:
    less, more = with_records(machine, 4), with_records(machine, 8)
    importer(less)
    own = Machine(importer.home.parent)
    own.store = open_store(importer.home / "store.db", shared=True, now=lambda: NOW)
    own.write(LOG, lines(*conversation(4)))
    own.read("claude")
    before = held(own.store)
    assert came(importer(more)) == {"own": 1}
    assert held(own.store) == before
    own.close()


# trust ---------------------------------------------------------------------------------------------------------------


def test_without_trust_no_name_and_no_removal_counts(tmp_path: Path, importer: Importer) -> None:
    with a_project(tmp_path / "project.bks") as store:
        importer(exported(store), trusted=False)
        uids = [each.uid for each in store.sessions()]
    sessions = importer.store.sessions()
    assert [(each.name, each.uid, each.is_own) for each in sessions] == [("", uid, False) for uid in uids]
    assert importer.store.execute_read_only("select * from context_values").rows == []
    assert all(importer.store.branch_names(each) == [] for each in sessions)
    tree = importer.store.tree(sessions[-1])
    assert [turn.removed for turn in tree] == [None] * 3
    assert not importer.store.ask_or(False, stored_sessions.is_forgotten, "0" * 26)
    assert len(importer.store.execute_read_only("select uid from forgotten").rows) == 0


def test_without_trust_it_gives_way_to_the_own_log(machine: Machine, importer: Importer) -> None:
    data = with_records(machine, 8)
    importer(data, trusted=False)
    assert [each.elsewhere for each in importer.store.sessions()] == ["sessions.jsonl"]
    own = Machine(importer.home.parent)
    own.store = open_store(importer.home / "store.db", shared=True, now=lambda: NOW)
    own.write(LOG, lines(*conversation(4)))
    assert own.read("claude").errors == []
    (session,) = own.store.sessions()
    assert (session.elsewhere, session.events) == (None, 4)
    assert [log.kind for log in own.store.logs()] == ["file"]
    own.close()


def test_without_trust_a_turn_that_is_known_here_is_not_claimed(machine: Machine, tmp_path: Path) -> None:
    with_logs(machine, "claude/fork")
    data = exported(machine.store)
    other = with_logs(Machine(tmp_path / "own"), "claude/resume")
    importer = Importer(tmp_path / "own")
    importer.home.mkdir()
    other.store.close()
    (importer.home / "store.db").write_bytes(other.store_path.read_bytes())
    assert came(importer(data, trusted=False)) == {"shared": 1}
    assert came(importer(data, trusted=True)) == {"new": 1}


def test_without_trust_what_was_trusted_is_not_replaced(machine: Machine, importer: Importer) -> None:
    less, more = with_records(machine, 4), with_records(machine, 8)
    importer(less)
    before = held(importer.store)
    assert came(importer(more, trusted=False)) == {"trusted": 1}
    assert held(importer.store) == before
    assert came(importer(more)) == {"updated": 1}


def test_without_trust_an_import_adds_to_one_without_trust(machine: Machine, importer: Importer) -> None:
    less, more = with_records(machine, 4), with_records(machine, 8)
    importer(less, trusted=False)
    assert came(importer(more, trusted=False)) == {"updated": 1}
    assert [each.events for each in importer.store.sessions()] == [8]
    assert came(importer(more)) == {"updated": 1}
    assert differences(held(machine.store), held(importer.store)) == []


@pytest.mark.parametrize("trusted", [False, True])
def test_without_trust_none_is_a_child_of_a_session_of_ours(small: bytes, tmp_path: Path, trusted: bool) -> None:
    importer, own = Importer(tmp_path / "own"), Machine(tmp_path / "own")
    importer.home.mkdir()
    own.store = open_store(importer.home / "store.db", shared=True, now=lambda: NOW)
    own.write(claude_log("ours"), claude_line("user", "one", "hello", sessionId="ours") + b"\n")
    own.read("claude")
    (parent,) = own.store.sessions()
    claim = b'"relation":"subagent","parent":"%s","native_id":"s"' % parent.uid[10:].encode()
    data = small.replace(b'"native_id":"s"', claim, 1)
    uid = json.loads(small.splitlines()[1])["uid"]
    assert came(importer(data, trusted=trusted)) == {"new": 1}
    assert own.store.session(uid).parent_uid == (parent.uid if trusted else None)
    own.close()


def test_names_of_later_date_win_and_come_only_with_trust(tmp_path: Path, importer: Importer) -> None:
    with a_project(tmp_path / "project.bks") as store:
        importer(exported(store))
        store.rename(2, "Renamed")
        data = exported(store)
    assert came(importer(data, trusted=False)) == {"same": 2}
    assert "Renamed" not in {each.name for each in importer.store.sessions()}
    importer(data)
    assert "Renamed" in {each.name for each in importer.store.sessions()}


def test_a_key_of_a_context_that_was_unset_later_goes(tmp_path: Path, importer: Importer) -> None:
    asked = "select key, value from context_values"
    with a_project(tmp_path / "project.bks") as store:
        importer(exported(store))
        assert importer.store.execute_read_only(asked).rows == [("a ticket", "A-1")]
        store.decide(decisions.set_context, store.session(1).uid, "a ticket", None, store.now())
        importer(exported(store))
    assert importer.store.execute_read_only(asked).rows == []


def test_a_removal_removes_with_trust_what_was_imported(tmp_path: Path, importer: Importer) -> None:
    with a_project(tmp_path / "project.bks") as store:
        importer(exported(store))
        store.remove(2)
        data = exported(store)
    assert importer(data, trusted=False).removed == 0
    assert importer.store.ask(stored_sessions.count) == 2
    assert importer(data).removed == 1
    assert [each.name for each in importer.store.sessions()] == ["The first"]


def test_a_removal_does_not_remove_what_is_here_from_a_project(tmp_path: Path, importer: Importer) -> None:
    with a_project(tmp_path / "project.bks") as store:
        replication.pull_sessions(importer.store, store)
        store.remove(2)
        assert importer(exported(store)).removed == 0
    assert importer.store.ask(stored_sessions.count) == 2


# secrets -------------------------------------------------------------------------------------------------------------

SECRET = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"


def test_what_is_redacted_holds_no_secret_and_no_bytes(tmp_path: Path, importer: Importer) -> None:
    with open_store(tmp_path / "one.bks", now=lambda: NOW) as store:
        session = store.create_session(f"the {SECRET}")
        store.decide(decisions.set_context, session.uid, f"key {SECRET}", f"value {SECRET}", NOW)
        store.append_events(session, [
            UserMessage(content=f"export GITHUB_TOKEN={SECRET}"),
            ToolCall(tool_name="Bash", tool="SHELL", input={"command": f"echo {SECRET}"}),
            ToolResult(tool_name="Bash", tool="SHELL", content=f"{SECRET}\n" * 20), AssistantText(text=SECRET),
        ])  # fmt: skip
        data = exported(store, redactor=Redactor("/home/dev"))
    assert SECRET.encode() not in data
    assert base64.b64encode(SECRET.encode())[4:-4] not in data
    assert b'"type":"bytes"' not in data
    head = json.loads(data.splitlines()[0])
    assert (head["bytes"], head["redacted"]) == (False, True)
    done = importer(data)
    assert (done.bytes, done.redacted) == (False, True)
    assert [event.kind for event in importer.store.events(1)] == [
        "UserMessage",
        "ToolCall",
        "ToolResult",
        "AssistantText",
    ]


# what is refused -----------------------------------------------------------------------------------------------------

Change = tuple[str, "Callable[[dict[str, Any]], Any]"]


def change(of: str, **fields: Any) -> Callable[[list[dict[str, Any]]], None]:
    """Gives the first line of a type other fields; None takes one away."""

    def apply(found: list[dict[str, Any]]) -> None:
        line = next(each for each in found if each["type"] == of)
        line.update(fields)
        for name in [name for name, value in fields.items() if value is None]:
            del line[name]

    return apply


def drop(of: str) -> Callable[[list[dict[str, Any]]], None]:
    return lambda found: found.remove(next(each for each in found if each["type"] == of))


def twice(of: str) -> Callable[[list[dict[str, Any]]], None]:
    def apply(found: list[dict[str, Any]]) -> None:
        at = next(n for n, each in enumerate(found) if each["type"] == of)
        found.insert(at, dict(found[at]))

    return apply


def whole_session_twice(found: list[dict[str, Any]]) -> None:
    end = next(n for n, each in enumerate(found) if each["type"] == "session_end") + 1
    found[end:end] = [dict(each) for each in found[1:end]]
    found[-1]["sessions"] = 2


OTHER_BYTES = {"data": base64.b64encode(b"x").decode(), "sha256": hashlib.sha256(b"x").hexdigest()}
WRONG = {
    "no head": drop("backstory"),
    "a second head": twice("backstory"),
    "format 0": change("backstory", format=0),
    "format of another kind": change("backstory", format="1"),
    "a true format": change("backstory", format=True),
    "no end": drop("end"),
    "another count": change("end", sessions=2),
    "no end of a session": drop("session_end"),
    "a context with a key of ours": change("session", context={"session_name": "x"}),
    "a context with a key too long": change("session", context={"k" * 201: "x"}),
    "a context with a value too long": change("session", context={"k": "x" * (64 * 1024 + 1)}),
    "a context with too many keys": change("session", context=dict.fromkeys(map(str, range(65)), "")),
    "another count of turns": change("session_end", turns=7),
    "another count of events": change("session_end", events=7),
    "another session's end": change("session_end", uid="0" * 26),
    "a session twice": whole_session_twice,
    "a session in a session": twice("session"),
    "no uid": change("session", uid=None),
    "a path for a uid": change("session", uid="../../../../../../etc/pass"),
    "a lower-case uid": change("session", uid="0" * 25 + "a"),
    "a uid and a line": change("session", uid="0" * 26 + "\n"),
    "a huge number": change("session", next_seq=10**30),
    "a number beyond all": change("session", next_seq=2**53 + 1),
    "a negative number": change("session", next_seq=-1),
    "a number for a text": change("session", title=1),
    "a list for a text": change("session", title=["a"]),
    "no time": change("session", created="soon"),
    "a time without a zone": change("session", created="2026-09-21T14:13:20"),
    "a time before 1970": change("session", created="1900-01-01T00:00:00Z"),
    "a cost that is none": change("session", cost_usd=-1),
    "a log that is none": change("log", kind="database"),
    "a log of another number": change("log", log=2),
    "a log twice": twice("log"),
    "a log that is longer": change("log", length=10**9),
    "a log that was parsed beyond its end": change("log", parsed_to=10**9),
    "no log": drop("log"),
    "no bytes": drop("bytes"),
    "bytes twice": twice("bytes"),
    "bytes from elsewhere": change("bytes", start=1),
    "bytes of another hash": change("bytes", sha256="0" * 64),
    "other bytes": change("bytes", **OTHER_BYTES),
    "no base64": change("bytes", data="&&&&"),
    "a hash that is none": change("bytes", sha256="x" * 64),
    "numbers behind the log": change("numbers", ranges=[[0, 10**9, 1, 2]]),
    "numbers backwards": change("numbers", ranges=[[5, 3, 1, 1]]),
    "more numbers than records": change("numbers", ranges=[[0, 5, 1, 10**6]]),
    "numbers of too few columns": change("numbers", ranges=[[0, 5, 1]]),
    "a turn twice": twice("turn"),
    "a turn of no outcome": change("turn", outcome="won"),
    "a turn without a uid": change("turn", uid="turn"),
    "a turn beyond the session": change("turn", last_seq=999),
    "tokens beyond all": change("turn", input_tokens=2**63),
    "an event twice": twice("event"),
    "an event of an unknown turn": change("event", turn="0" * 26),
    "an event of an unknown log": change("event", log=9),
    "an event behind its log": change("event", position=10**9),
    "an event beyond the session": change("event", seq=999),
    "an event of no kind": change("event", event={"Sung": {}}),
    "an event that is a text": change("event", event="UserMessage"),
    "an event of two kinds": change("event", event={"UserMessage": {"content": "a"}, "Plan": {}}),
    "an event of another shape": change("event", event={"UserMessage": {"content": 1}}),
    "an event without a record": change("event", seq=None),
    "a line of no type": change("event", type="song"),
    "a line without a type": change("event", type=None),
}


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """An export of one short log."""
    machine = Machine(tmp_path_factory.mktemp("small"))
    data = with_records(machine, 4)
    machine.close()
    return data


def untouched(importer: Importer) -> bool:
    """Whether nothing was written: no store, and nothing of what was read."""
    return not importer.home.exists() or list(importer.home.iterdir()) == []


OF_NO_SESSION = {
    "no head", "a second head", "format 0", "format of another kind", "a true format", "no end", "another count",
}  # fmt: skip
"""Those that are wrong in no session."""
REFUSED = r"^sessions.jsonl, line \d+: .+\. Nothing was imported\.$"


def as_file(found: list[dict[str, Any]]) -> bytes:
    return b"\n".join(json.dumps(each).encode() for each in found) + b"\n"


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_wrong_is_refused_where_it_stands(small: bytes, importer: Importer, wrong: str) -> None:
    found = [json.loads(line) for line in small.splitlines()]
    WRONG[wrong](found)
    with pytest.raises(ImportRefused, match=REFUSED):
        importer(as_file(found), strict=True)
    if wrong not in ("a session twice", "a second head"):
        with pytest.raises(ImportRefused, match=REFUSED):
            importer(as_file(found))
    assert untouched(importer)


def test_damaged_sessions_are_named_by_their_lines_and_the_others_are_imported(
    small: bytes, importer: Importer
) -> None:
    head, *_ = [json.loads(line) for line in small.splitlines()]
    wrong = sorted(WRONG.keys() - OF_NO_SESSION - {"a session twice"})
    names = [f"{n:02}" for n in range(10, 11 + len(wrong))]
    found, places, whole = [head], dict[str, range](), list[Any]()
    for damage, of_one in zip([*wrong, None], session_lines(small, *names), strict=True):
        changed = [head, *of_one, {"type": "end", "sessions": 1}]
        if damage is None:
            whole = of_one
        else:
            WRONG[damage](changed)
            places[damage] = range(len(found) + 1, len(found) + len(changed))
        found += changed[1:-1]
    end = {"type": "end", "sessions": len(names)}
    done = importer(as_file([*found, end]))
    named = [each.line for each in done.damaged]
    # A session that lacks its end is missed where the next one begins.
    at = {damage: [n for n in named if n in place] for damage, place in places.items()}
    assert [damage for damage, of_it in at.items() if not of_it] == []
    assert done.came["new"] == [whole[0]["uid"]]
    assert importer.store.verify().problems == []
    intact = Importer(importer.home.parent / "intact")
    intact(as_file([head, *whole, {"type": "end", "sessions": 1}]))
    assert differences(held(importer.store), held(intact.store)) == []


def session_lines(data: bytes, *names: str) -> list[list[dict[str, Any]]]:
    """The lines of the one session of an export, as those of several: each has its two letters in all its ids."""
    _, *session, _ = data.splitlines()
    uid = json.loads(session[0])["uid"].encode()
    renamed = []
    for name in names:
        of_one = [line.replace(uid, name.encode() * 13).replace(b':"s"', b':"%b"' % name.encode()) for line in session]
        renamed.append([json.loads(line) for line in of_one])
    for lines_of_one, name in zip(renamed, names, strict=True):
        turns = {each["uid"]: f"{name}{each['uid'][2:]}" for each in lines_of_one if each["type"] == "turn"}
        for each in lines_of_one:
            for field in ("uid", "turn", "parent_uid", "leaf_turn"):
                if each.get(field) in turns:
                    each[field] = turns[each[field]]
    return renamed


def test_a_damaged_session_that_was_written_half_way_keeps_no_other_out(
    small: bytes, importer: Importer, monkeypatch: pytest.MonkeyPatch
) -> None:
    head, *session, _ = [json.loads(line) for line in small.splitlines()]
    damaged, _ = session_lines(small, "AA", "BB")
    for line, whole in zip(damaged, session, strict=True):
        if line["type"] == "log":
            line["native_id"] = whole["native_id"]
    damaged[-1]["events"] = 99
    monkeypatch.setattr(imported, "ROWS_AT_ONCE", 1)
    done = importer(as_file([head, *damaged, *session, {"type": "end", "sessions": 2}]))
    assert done.came["new"] == [session[0]["uid"]]
    assert [each.session for each in done.damaged] == ["A" * 26]
    assert importer.store.verify().problems == []


def test_a_damaged_session_line_is_named_without_a_session(small: bytes, importer: Importer) -> None:
    head, *rest = small.splitlines()
    torn = [b'{"type":"session","uid":"0', *rest[1:-1]]
    done = importer(b"\n".join([head, *torn, *rest[:-1], b'{"type":"end","sessions":2}']))
    assert [(each.line, each.session) for each in done.damaged] == [(2, None)]
    assert len(done.came["new"]) == 1


def test_a_session_that_is_lost_with_its_neighbours_lines_is_missed(small: bytes, importer: Importer) -> None:
    head, *_ = small.splitlines()
    one, other, last = session_lines(small, "AA", "BB", "CC")
    found = [*one[:-3], *other[-2:], *last]
    done = importer(head + b"\n" + as_file([*found, {"type": "end", "sessions": 3}]))
    assert done.came["new"] == ["C" * 26]
    assert done.damaged[0].session == "A" * 26
    assert done.damaged[1].reason == "it says 3 sessions, and the file has 2"


def test_a_file_of_too_many_damaged_sessions_is_refused(
    small: bytes, importer: Importer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_import, "DAMAGED_MAX", 3)
    head, *session, _ = small.splitlines()
    end = b'{"type":"removed","uid":"00000000000000000000000000","at":"soon"}\n' * 4 + b'{"type":"end","sessions":1}'
    with pytest.raises(ImportRefused, match="line 2: "):
        importer(b"\n".join([head, end]))
    with pytest.raises(ImportRefused):
        importer(b"\n".join([head, *session, end]))


def test_the_line_is_named(small: bytes, importer: Importer) -> None:
    at = next(n for n, line in enumerate(small.splitlines(), 1) if b'"type":"bytes"' in line)
    broken = small.replace(b'"data":"', b'"data":"AAAA', 1)
    with pytest.raises(ImportRefused, match=f"line {at}: "):
        importer(broken)


BEGUN = b'{"type":"session","uid":"00000000000000000000000000","created":"2026-01-01T00:00:00Z","next_seq":'


def test_of_two_sessions_with_one_log_the_first_is_imported(small: bytes, importer: Importer) -> None:
    head, *session, end = small.splitlines()
    uid = json.loads(session[0])["uid"].encode()
    again = [line.replace(uid, b"0" * 26) for line in session]
    data = b"\n".join([head, *session, *again, end.replace(b":1", b":2")])
    with pytest.raises(ImportRefused, match="contradicts itself"):
        importer(data, strict=True)
    assert untouched(importer)
    done = importer(data)
    assert done.came["new"] == [uid.decode()]
    ((line, session_uid, reason),) = [(each.line, each.session, each.reason) for each in done.damaged]
    assert (line, session_uid) == (2 * len(session) + 1, "0" * 26)
    assert "contradicts itself" in reason


def test_a_session_that_contradicts_the_store_keeps_no_other_from_it(small: bytes, importer: Importer) -> None:
    head, *session, end = small.splitlines()
    uid, native_id = json.loads(session[0])["uid"].encode(), b'"native_id":"s"'
    importer(small)
    before = held(importer.store)
    stranger = [line.replace(uid, b"0" * 26) for line in session]
    other = [line.replace(uid, b"1" * 26).replace(native_id, b'"native_id":"z"') for line in session]
    done = importer(b"\n".join([head, *stranger, *other, end.replace(b":1", b":2")]))
    assert [each.session for each in done.failed] == ["0" * 26]
    after = held(importer.store)
    assert {uid: after[uid] for uid in before} == before
    assert set(after) - set(before) == {"1" * 26}
    assert importer.store.verify().problems == []


@pytest.mark.parametrize(
    "line",
    [
        b"", b"hello", b"[1]", b"{", b'{"type":"event","seq":1,"event":' + b"[" * 200_000, b"\x00\x01", b"\xff\xfe",
        BEGUN + b'1,"name":"\\ud83d"}', BEGUN + b"1e999}", BEGUN + b"9" * 5000 + b"}",
        b'{"type":"removed","uid":"x","at":"2026-01-01T00:00:00Z"}',
    ],
    ids=["nothing", "text", "list", "torn", "deep", "binary", "latin", "surrogate", "float", "digits", "removed"],
)  # fmt: skip
def test_a_line_that_is_none_is_refused(small: bytes, importer: Importer, line: bytes) -> None:
    head = small.splitlines()[0]
    with pytest.raises(ImportRefused):
        importer(head + b"\n" + line)
    with pytest.raises(ImportRefused):
        importer(line)
    assert untouched(importer)


def test_a_line_that_is_too_long_is_refused_before_it_is_read(
    small: bytes, importer: Importer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (json_import, json_lines):
        monkeypatch.setattr(module, "LINE_BYTES_MAX", 1024 * 1024)
    with pytest.raises(ImportRefused, match="line 2: it is longer than 1 MB"):
        importer(small.splitlines()[0] + b"\n" + b" " * 3_000_000)


def test_a_line_of_too_many_lists_is_refused_before_it_is_parsed(
    small: bytes, importer: Importer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_lines, "STRUCTURES_MAX", 10)
    call = msgspec.json.encode(
        {"type": "event", "seq": 1, "event": {"ToolCall": {"tool_name": "x", "input": [[]] * 20}}}
    )
    with pytest.raises(ImportRefused, match="lists and objects"):
        importer(small.splitlines()[0] + b"\n" + call)


def test_a_later_format_is_refused_as_such(small: bytes, importer: Importer) -> None:
    with pytest.raises(ImportTooNew):
        importer(small.replace(b'"format":1', b'"format":2,"zip":[1]'))
    assert untouched(importer)


def test_cut_anywhere_it_is_refused(small: bytes, importer: Importer) -> None:
    for at in [*range(0, len(small) - 1, 97), len(small) - 3]:
        with pytest.raises(ImportRefused):
            importer(small[:at])
    assert untouched(importer)
    assert came(importer(small)) == {"new": 1}


def test_lines_may_end_as_windows_ends_them_and_fields_may_be_added(small: bytes, importer: Importer) -> None:
    data = small.replace(b"\n", b"\r\n").replace(b'{"type":"turn",', b'{"later":{"a":[1]},"type":"turn",')
    assert came(importer(data)) == {"new": 1}


@settings(max_examples=examples(20), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_whatever_is_changed_costs_no_more_than_the_session_that_it_is_in(
    small: bytes, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    importer = Importer(tmp_path_factory.mktemp("changed"))
    head, end = small.splitlines(keepends=True)[0], b'{"type":"end","sessions":3}\n'
    sessions = [as_file(of_one) for of_one in session_lines(small, "AA", "BB", "CC")]
    changed = sessions[1]
    at = data.draw(st.integers(0, len(changed) - 1))
    put = data.draw(
        st.binary(max_size=4) | st.sampled_from([b"0", b"-", b'"', b"[", b"{}", b"null", b"9" * 30, b"\\ud800"])
    )
    changed = changed[:at] + put + changed[at + len(put) :]
    done = importer(head + sessions[0] + changed.rstrip(b"\n") + b"\n" + sessions[2] + end)
    assert {"A" * 26, "C" * 26} <= {*done.came["new"]}
    assert (len(done.came["new"]) == 3) != bool(done.damaged)
    assert importer.store.verify().problems == []
    importer.workspace.close()


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_whatever_is_changed_it_is_refused_or_the_store_is_whole(
    small: bytes, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    importer = Importer(tmp_path_factory.mktemp("changed"))
    at = data.draw(st.integers(0, len(small) - 1))
    put = data.draw(
        st.binary(max_size=4) | st.sampled_from([b"0", b"-", b'"', b"[", b"{}", b"null", b"9" * 30, b"\\ud800"])
    )
    try:
        importer(small[:at] + put + small[at + len(put) :])
    except ImportRefused:
        assert untouched(importer)
    else:
        assert importer.store.verify().problems == []
    importer.workspace.close()
