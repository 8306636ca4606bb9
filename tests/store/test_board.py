"""The board of a store: what is counted, what is kept when it is copied, and what stays removed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstory import errors
from backstory.conversation.board import ITEMS_KEPT, ITEMS_MAX, BoardKey
from backstory.derive.secrets import Redactor
from backstory.exchange import replication
from backstory.ingest.reindex import reindex
from backstory.model import UserMessage
from backstory.store import Workplace, open_store
from backstory.store.file import connection
from backstory.store.moves import Move
from backstory.store.tables import boarding
from backstory.store.tables.board_items import ItemCopy, NewItem, merged
from tests.support.clock import NOW, Clock
from tests.support.machines import CLAUDE_FOLDER, Machine, looked_up
from tests.support.portable import Importer, exported

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    import apsw

    from backstory.store import Store

KEY = BoardKey("me/tool", "main")
HERE = Workplace(project="github.com/me/tool", branch="main", cwd="/home/dev/tool", root="/home/dev/tool")
COMMIT = "0123456789abcdef0123456789abcdef01234567"
SHOWN = (
    "select repository, branch, src, name, content, read_count, count from dynamic_context_items order by 1, 2, 3, 4"
)


@pytest.fixture
def store(tmp_path: Path, clock: Clock) -> Iterator[Store]:
    with open_store(tmp_path / "store.db", shared=True, now=clock) as opened:
        yield opened


def put(store: Store, name: str, content: str = "text", *, agent: str | None = "x", key: BoardKey = KEY) -> bool:
    return boarding.put(store, key, NewItem("user" if agent is None else "agent", name, "", content, agent))


def counts(store: Store, key: BoardKey = KEY) -> dict[str, tuple[int, int]]:
    return {each.name: (each.read_count, each.count) for each in boarding.items(store, key)}


def begin(store: Store, clock: Clock, at: Workplace = HERE) -> None:
    clock.ms += 1_000
    store.append_events(store.create_session(at=at), [UserMessage(content="hi")])


def copy(**changed: Any) -> ItemCopy:
    fields: dict[str, Any] = {
        "repository": "me/tool", "branch": "main", "src": "agent", "name": "a", "description": "", "content": "text",
        "author": "x", "read_count": 0, "created": NOW, "changed": NOW, "removed": 0,
    }  # fmt: skip
    return ItemCopy(**fields | changed)


def removed(**changed: Any) -> ItemCopy:
    return copy(**{"content": "", "author": None, "removed": 1} | changed)


def test_a_session_on_the_board_counts_once_for_every_item_that_was_there(store: Store, clock: Clock) -> None:
    begin(store, clock)
    clock.ms += 1
    put(store, "early")
    begin(store, clock)
    clock.ms += 1
    put(store, "late", agent=None)
    begin(store, clock)
    assert counts(store) == {"early": (0, 2), "late": (0, 1)}


@pytest.mark.parametrize(
    ("place", "key"),
    [
        (Workplace(project="github.com/me/tool"), BoardKey("me/tool")),
        (Workplace(project="github.com/me/tool", branch="HEAD"), BoardKey("me/tool")),
        (Workplace(project="github.com/me/tool", branch=COMMIT), BoardKey("me/tool")),
        (Workplace(project="/p", cwd="/p/sub", root="/p", branch="main"), BoardKey("local:/p", "main")),
        (Workplace(project="/p", cwd="/p"), BoardKey("local:/p")),
    ],
)
def test_each_session_counts_on_its_own_board_alone(
    store: Store, clock: Clock, place: Workplace, key: BoardKey
) -> None:
    put(store, "there", key=key)
    put(store, "elsewhere")
    put(store, "elsewhere", key=BoardKey("you/tool", "main"))
    begin(store, clock, place)
    assert counts(store, key) == {"there": (0, 1)}
    assert counts(store) == {"elsewhere": (0, 0)}
    assert [row[6] for row in store.execute_read_only(SHOWN).rows].count(1) == 1


@pytest.mark.parametrize(
    "unlike",
    [
        "relation = 'subagent'",
        "relation = 'fork'",
        "relation = 'continuation'",
        "relation = 'unread'",
        "elsewhere = '/x'",
    ],
)
def test_what_is_no_session_of_its_own_is_not_counted(store: Store, clock: Clock, unlike: str) -> None:
    put(store, "a")
    begin(store, clock)
    looked_up(store.path, f"update sessions set {unlike}")
    assert counts(store) == {"a": (0, 0)}
    assert [row[6] for row in store.execute_read_only(SHOWN).rows] == [0]


def test_the_view_says_what_the_board_says(store: Store, clock: Clock) -> None:
    for key in (KEY, BoardKey("local:/p", "default")):
        put(store, "build-notes", key=key)
        put(store, "build-notes", "a person's", agent=None, key=key)
    for place in (HERE, HERE, Workplace(project="/p", cwd="/p", root="/p", branch=COMMIT)):
        begin(store, clock, place)
        clock.ms += 1
        put(store, f"since-{clock.ms}")
    boarding.count_read(store, boarding.items(store, KEY)[0])
    boarding.remove(store, [boarding.items(store, KEY)[-1]])
    said = [
        (each.repository, each.branch, each.src, each.name, each.content, each.read_count, each.count)
        for key in boarding.boards(store)
        for each in boarding.items(store, key)
    ]
    assert sorted(store.execute_read_only(SHOWN).rows) == sorted(said)
    assert {row[6] for row in said} == {0, 1, 2}


def test_sessions_that_are_read_from_logs_count_as_ours_do(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    put(machine.store, "a", key=BoardKey("local:/home/dev/work", "main"))
    looked_up(machine.store.path, "update context_items set created = 0")
    for number in range(3):
        record = (
            f'{{"type":"user","uuid":"u{number}","sessionId":"0000000{number}-0000-4000-8000-000000000000","cwd":"/home/dev/work",'
            f'"gitBranch":"main","timestamp":"2026-09-2{number}T10:00:00.000Z","message":{{"role":"user","content":"hi"}}}}\n'
        )
        machine.write(CLAUDE_FOLDER / f"0000000{number}-0000-4000-8000-000000000000.jsonl", record.encode())
    machine.read("claude")
    machine.read("claude")
    assert counts(machine.store, BoardKey("local:/home/dev/work", "main")) == {"a": (0, 3)}
    reindex(machine.store, now=NOW, events_too=True)
    assert counts(machine.store, BoardKey("local:/home/dev/work", "main")) == {"a": (0, 3)}
    machine.close()


def test_what_is_written_anew_keeps_its_counts(store: Store, clock: Clock) -> None:
    assert put(store, "a", "first")
    boarding.count_read(store, boarding.items(store, KEY)[0])
    begin(store, clock)
    assert not put(store, "a", "second")
    assert counts(store) == {"a": (1, 1)}
    assert [each.content for each in boarding.items(store, KEY)] == ["second"]


def test_what_was_removed_begins_anew_and_nothing_of_it_stays_in_the_file(store: Store, clock: Clock) -> None:
    put(store, "a", "flamingo-4711")
    boarding.count_read(store, boarding.items(store, KEY)[0])
    begin(store, clock)
    boarding.remove(store, boarding.items(store, KEY))
    assert boarding.items(store, KEY) == []
    store.close()
    assert b"flamingo-4711" not in store.path.read_bytes()
    clock.ms += 1
    assert put(store, "a", "again")
    assert counts(store) == {"a": (0, 0)}


def test_a_full_board_takes_no_new_item_and_still_takes_another_text(store: Store) -> None:
    for number in range(ITEMS_MAX):
        put(store, f"n-{number}", agent="x" if number % 2 else None)
    with pytest.raises(errors.BoardFull, match="has 25 items"):
        put(store, "one-more")
    with pytest.raises(errors.BoardFull):
        put(store, "n-0")
    assert not put(store, "n-1", "other")
    assert put(store, "one-more", key=BoardKey("me/tool", "other"))


def test_pruning_takes_the_items_of_agents_that_are_read_least_per_session(store: Store, clock: Clock) -> None:
    for number in range(20):
        put(store, f"agents-{number:02}")
    for number in range(5):
        put(store, f"persons-{number}", agent=None)
    begin(store, clock)
    for item in boarding.items(store, KEY):
        if item.name < "agents-13":
            boarding.count_read(store, item)
    gone = boarding.prune(store, KEY, ITEMS_KEPT)
    assert [each.name for each in gone] == [f"agents-{number}" for number in range(13, 20)]
    assert len(boarding.items(store, KEY)) == ITEMS_KEPT
    assert [each.name for each in boarding.prune(store, KEY, 0)] == [f"agents-{number:02}" for number in range(13)]
    assert [each.name for each in boarding.items(store, KEY)] == [f"persons-{number}" for number in range(5)]


def test_a_new_item_is_not_pruned_before_one_that_many_sessions_did_not_read(store: Store, clock: Clock) -> None:
    put(store, "unread")
    begin(store, clock)
    clock.ms += 1
    put(store, "new")
    assert [each.name for each in boarding.prune(store, KEY, 1)] == ["unread"]


def test_a_board_goes_along_with_a_folder_that_is_moved(store: Store, clock: Clock) -> None:
    before, now = BoardKey("local:/old", "main"), BoardKey("local:/new", "main")
    put(store, "a", key=before)
    begin(store, clock, Workplace(project="/old", cwd="/old/sub", root="/old", branch="main"))
    clock.ms += 1
    store.change_moves(lambda known: [*known, Move(old="/old", new="/new", at=clock.ms)])
    begin(store, clock, Workplace(project="/new", cwd="/new", root="/new", branch="main"))
    assert counts(store, now) == {"a": (0, 2)}
    assert counts(store, before) == {}
    assert boarding.boards(store) == [now]
    assert [(row[0], row[6]) for row in store.execute_read_only(SHOWN).rows] == [("local:/new", 2)]
    boarding.count_read(store, boarding.items(store, now)[0])
    assert not put(store, "a", "another text", key=now)
    assert counts(store, now) == {"a": (1, 2)}
    assert looked_up(store.path, "select repository from context_items") == [("local:/new",)]


def test_what_is_written_in_the_old_folder_since_is_of_another_board(store: Store, clock: Clock) -> None:
    before, now = BoardKey("local:/old", "main"), BoardKey("local:/new", "main")
    put(store, "a", key=before)
    clock.ms += 1
    store.change_moves(lambda known: [*known, Move(old="/old", new="/new", at=clock.ms)])
    clock.ms += 1
    put(store, "b", key=before)
    boarding.remove(store, boarding.items(store, now))
    assert (counts(store, before), counts(store, now)) == ({"b": (0, 0)}, {})


def test_what_is_written_and_removed_is_on_the_disk_at_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    lasting = connection.lasting

    def noted(db: apsw.Connection, path: Path) -> AbstractContextManager[None]:
        synced.append(path.name)
        return lasting(db, path)

    monkeypatch.setattr(connection, "lasting", noted)
    put(store, "a")
    assert len(synced) == 1
    boarding.count_read(store, boarding.items(store, KEY)[0])
    assert len(synced) == 1
    boarding.remove(store, boarding.items(store, KEY))
    assert len(synced) == 2


def test_a_backup_has_the_board(store: Store, clock: Clock, tmp_path: Path) -> None:
    put(store, "a")
    begin(store, clock)
    store.backup(tmp_path / "backup.db")
    with open_store(tmp_path / "backup.db") as backup:
        assert boarding.items(backup, KEY) == boarding.items(store, KEY)


def test_of_two_stores_the_later_text_counts_in_both(store: Store, clock: Clock, tmp_path: Path) -> None:
    with open_store(tmp_path / "other.db", now=clock) as other:
        put(store, "both", "older")
        put(store, "mine")
        clock.ms += 1
        put(other, "both", "newer")
        for to, source in ((store, other), (other, store)):
            boarding.take(to, boarding.copies(source))
        assert boarding.copies(store) == boarding.copies(other)
        assert {each.name: each.content for each in boarding.items(store, KEY)} == {"both": "newer", "mine": "text"}
        assert boarding.take(store, boarding.copies(other)) == 0


def test_an_older_copy_does_not_bring_back_what_was_removed(store: Store, clock: Clock, tmp_path: Path) -> None:
    put(store, "a")
    store.backup(tmp_path / "backup.db")
    clock.ms += 1
    boarding.remove(store, boarding.items(store, KEY))
    with open_store(tmp_path / "backup.db", now=clock) as backup:
        assert boarding.take(store, boarding.copies(backup)) == 0
        assert boarding.items(store, KEY) == []
        assert boarding.take(backup, boarding.copies(store)) == 1
        assert boarding.items(backup, KEY) == []


CHANGED, CREATED = st.integers(1, 4), st.integers(1, 3)
LIVE = st.builds(copy, changed=CHANGED, created=CREATED, read_count=st.integers(0, 3), content=st.sampled_from("ab"))


@given(st.tuples(*[LIVE | st.builds(removed, changed=CHANGED, created=CREATED)] * 3))
def test_copies_come_to_the_same_in_whichever_order_they_meet(some: tuple[ItemCopy, ItemCopy, ItemCopy]) -> None:
    one, two, three = some
    assert merged(one, two) == merged(two, one)
    assert merged(merged(one, two), two) == merged(one, two)
    first, last = merged(merged(one, two), three), merged(one, merged(two, three))
    assert first._replace(read_count=0) == last._replace(read_count=0)


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": "Not Kebab"}, {"src": "root"}, {"content": "x" * 4_001}, {"content": ""}, {"content": b"bytes"},
        {"read_count": -1}, {"changed": 2**62}, {"removed": 1}, {"description": "x" * 201}, {"branch": None},
    ],
)  # fmt: skip
def test_a_row_that_is_not_as_ours_are_made_is_not_taken(store: Store, wrong: dict[str, Any]) -> None:
    put(store, "a")
    assert boarding.take(store, [copy(**{"name": "b"} | wrong)]) == 0
    assert [each.name for each in boarding.items(store, KEY)] == ["a"]


def test_the_home_store_has_what_is_written_in_a_projects_store(store: Store, clock: Clock, tmp_path: Path) -> None:
    with open_store(tmp_path / "p" / ".backstory" / "sessions.bks", now=clock) as project:
        begin(project, clock)
        put(project, "a")
        replication.pull_sessions(store, project)
        assert [each.name for each in boarding.items(store, KEY)] == ["a"]
        clock.ms += 1
        boarding.remove(store, boarding.items(store, KEY))
        replication.pull_sessions(store, project)
        assert boarding.items(store, KEY) == []


def test_an_export_has_the_board_and_an_import_that_is_trusted_takes_it(
    store: Store, clock: Clock, tmp_path: Path
) -> None:
    put(store, "a", "how it is built")
    put(store, "gone")
    begin(store, clock)
    boarding.count_read(store, boarding.items(store, KEY)[0])
    clock.ms += 1
    boarding.remove(store, [each for each in boarding.items(store, KEY) if each.name == "gone"])
    data = exported(store)
    bring = Importer(tmp_path / "there")
    assert bring(data, trusted=False).board_items == 0
    assert boarding.items(bring.store, KEY) == []
    assert bring(data).board_items == 1
    assert boarding.copies(bring.store) == boarding.copies(store)
    assert bring(data).board_items == 0
    assert counts(bring.store) == {"a": (1, 1)}


def test_an_export_of_one_session_has_no_board(store: Store, clock: Clock) -> None:
    put(store, "a")
    begin(store, clock)
    assert b'"board_item"' in exported(store)
    assert b'"board_item"' not in exported(store, only=[1])


def test_an_export_of_an_untrusted_store_has_no_board(store: Store, clock: Clock) -> None:
    put(store, "a")
    begin(store, clock)
    store.is_elsewhere = True
    assert b'"board_item"' not in exported(store)


def test_an_export_that_is_masked_is_imported_also_where_masks_are_longer(store: Store, tmp_path: Path) -> None:
    put(store, "a", "TOKEN=abc123xyz789 " * 210)
    redactor = Redactor()
    redactor.learn("TOKEN=abc123xyz789")
    data = exported(store, redactor=redactor)
    assert b"abc123xyz789" not in data
    bring = Importer(tmp_path / "there")
    assert bring(data).board_items == 1
    assert "abc123" not in boarding.items(bring.store, KEY)[0].content


def test_rows_of_another_program_that_break_the_rules_are_no_items(store: Store) -> None:
    put(store, "a")
    for name, content in [("'A B'", "'x'"), ("'b'", "x'00ff'"), ("'c'", f"'{'x' * 4_001}'"), ("'d'", "''")]:
        looked_up(
            store.path,
            "insert into context_items(repository, branch, src, name, content, created, changed) "
            f"values ('me/tool', 'main', 'agent', {name}, {content}, 1, 1)",
        )
    assert list(counts(store)) == ["a"]


@pytest.mark.parametrize(
    ("told", "wrong"),
    [(b'"name":"a"', b'"name":"A B"'), (b'"src":"agent"', b'"src":"root"'), (b'"content":"text"', b'"content":""')],
)
def test_an_import_with_an_item_that_breaks_the_rules_is_refused(
    store: Store, tmp_path: Path, told: bytes, wrong: bytes
) -> None:
    put(store, "a")
    data = exported(store)
    assert told in data
    with pytest.raises(errors.ImportRefused):
        Importer(tmp_path / "there")(data.replace(told, wrong))
