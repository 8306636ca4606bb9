"""Each column says what copies and readers of it may have, and a new one is in all that are made."""

from __future__ import annotations

from typing import TYPE_CHECKING

import apsw
import pytest

from backstory.derive.secrets import Redactor
from backstory.errors import ImportRefused
from backstory.exchange import portable, replication
from backstory.store import schema
from tests.support.copies import merge, opened, say
from tests.support.machines import looked_up
from tests.support.portable import Importer, came, exported

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from backstory.store import Store
    from tests.support.clock import Clock

_TEXTS = schema.texts()
BEFORE = "  prompt             text not null"
SECRET = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"


@pytest.fixture
def add_column(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Adds a column to the table of turns, as a line of schema.sql would."""
    kept, derived = _TEXTS

    def add(line: str) -> None:
        assert kept.count(BEFORE) == 1
        monkeypatch.setattr(schema, "texts", lambda: (kept.replace(BEFORE, f"  {line}\n{BEFORE}"), derived))
        _forget()

    yield add
    monkeypatch.undo()
    _forget()


def _forget() -> None:
    for each in (*vars(schema).values(), *vars(portable).values()):
        if hasattr(each, "cache_clear"):
            each.cache_clear()


def _columns() -> dict[str, dict[str, str]]:
    """The columns as SQLite knows them, with their types."""
    db = apsw.Connection(":memory:")
    for text in _TEXTS:
        db.execute(text)
    return {
        table: {str(row[1]): str(row[2]) for row in db.execute(f"pragma table_xinfo({table})") if row[6] != 1}
        for table in schema.columns()
    }


def test_every_column_says_how_copies_of_its_row_treat_it() -> None:
    said = {table: {each.name: each.fate for each in found} for table, found in schema._declared().items()}
    assert {table: set(found) for table, found in said.items()} == {
        table: set(found) for table, found in _columns().items()
    }
    assert [
        (table, name) for table, found in said.items() for name, fate in found.items() if fate not in schema.FATES
    ] == []


def test_every_text_that_is_kept_says_whether_secrets_in_it_are_masked() -> None:
    undecided = [
        (table, each.name)
        for table, found in schema._declared().items()
        for each in found
        if each.fate != schema.DERIVED and each.kind == "text" and each.is_plain is None
    ]
    assert undecided == []


def test_a_column_that_says_nothing_is_in_no_copy_and_its_text_is_masked(add_column: Callable[[str], None]) -> None:
    add_column("whim text,    -- of nobody")
    (whim,) = (each for each in schema.columns()["turns"] if each.name == "whim")
    assert (whim.fate, whim.is_plain) == ("", None)
    assert "whim" not in schema.names("turns", *schema.FATES)
    assert "whim" not in schema.plain_texts("turns")


class Stores:
    """A store with one session whose first turn has a value in a new column, and others."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._folder, self._clock = folder, clock
        self._opened: list[Store] = []
        self.one = self.open("one")
        session = self.one.create_session("herons")
        say(self.one, session, "first")
        say(self.one, session, "second")
        self.uid = session.uid
        self.set_whims(self.one, SECRET, "first")

    def open(self, name: str) -> Store:
        self._opened.append(opened(self._folder / name, self._clock))
        return self._opened[-1]

    def set_whims(self, store: Store, whim: str, prompt: str) -> None:
        store.change(lambda db: db.execute("update turns set whim = ? where prompt = ?", (whim, prompt)))

    def close(self) -> None:
        for store in self._opened:
            store.close()


def whims(store: Store) -> list[tuple[str, str | None]]:
    return looked_up(store.path, "select prompt, whim from turns order by first_seq")


@pytest.fixture
def stores(add_column: Callable[[str], None], tmp_path: Path, clock: Clock) -> Iterator[Stores]:
    add_column("whim text,    -- kept masked: why it was asked")
    made = Stores(tmp_path, clock)
    yield made
    made.close()


SET = [("first", SECRET), ("second", None)]


def test_a_new_column_is_in_a_copy(stores: Stores) -> None:
    two = stores.open("two")
    replication.copy_session(two, stores.one, stores.uid)
    assert whims(two) == SET


def test_a_new_column_is_in_a_session_that_goes_on_elsewhere(stores: Stores) -> None:
    two = stores.open("two")
    replication.continue_session(two, stores.one, stores.uid)
    assert whims(two) == SET


def test_a_new_column_is_in_sessions_turns_and_facts_that_are_merged(stores: Stores) -> None:
    two = stores.open("two")
    assert merge(two, stores.one)
    assert whims(two) == SET
    say(stores.one, stores.one.session(stores.uid), "third")
    stores.set_whims(stores.one, "a later one", "third")
    stores.set_whims(stores.one, "of a turn that is there", "second")
    assert merge(two, stores.one)
    assert whims(two) == [SET[0], ("second", "of a turn that is there"), ("third", "a later one")]


@pytest.mark.parametrize("has_bytes", [True, False])
def test_a_new_column_is_in_a_json_export_and_comes_back(stores: Stores, tmp_path: Path, *, has_bytes: bool) -> None:
    importer = Importer(tmp_path / "other")
    assert came(importer(exported(stores.one, has_bytes=has_bytes))) == {"new": 1}
    assert whims(importer.store) == SET


def test_a_new_column_is_masked_in_what_is_redacted(stores: Stores, tmp_path: Path) -> None:
    importer = Importer(tmp_path / "other")
    data = exported(stores.one, redactor=Redactor("/home/dev"))
    assert SECRET.encode() not in data
    assert came(importer(data)) == {"new": 1}
    ((_, masked), second) = whims(importer.store)
    assert (masked not in (None, "", SECRET), second) == (True, SET[1])


def test_a_new_column_has_its_default_where_an_earlier_version_made_the_store(
    add_column: Callable[[str], None], tmp_path: Path, clock: Clock
) -> None:
    with opened(tmp_path / "earlier", clock) as earlier:
        session = earlier.create_session("herons")
        say(earlier, session, "first")
        add_column("whim text default 'none',    -- kept masked: why it was asked")
        with opened(tmp_path / "later", clock) as later:
            replication.copy_session(later, earlier, session.uid)
            assert whims(later) == [("first", "none")]


def test_a_value_of_another_kind_in_a_line_is_refused(stores: Stores, tmp_path: Path) -> None:
    data = exported(stores.one).replace(SECRET.encode(), b"7").replace(b'"whim":"7"', b'"whim":7')
    with pytest.raises(ImportRefused, match="line 6: whim is no text"):
        Importer(tmp_path / "other")(data)


# indexes --------------------------------------------------------------------------------------------------------------

ASKED = {
    "select 1 from turns where uid = ?": "idx_turns_uid",
    "select 1 from turns where session_id = ? and uid = ?": "idx_turns_uid",
    "select 1 from sessions where owner = ? and number = ?": "idx_sessions_number",
    "select 1 from sessions where parent_id = ?": "idx_sessions_parent",
    "select 1 from sessions where repository = ?": "idx_sessions_repo",
    "select 1 from session_files where session_id = ?": "idx_session_files_session",
    "select 1 from session_files where session_id = ? and file_path = ?": "idx_session_files_path",
    "select 1 from checkpoints where session_id = ?": "sqlite_autoindex_checkpoints_1",
}


def _empty() -> apsw.Connection:
    db = apsw.Connection(":memory:")
    for text in _TEXTS:
        db.execute(text)
    return db


@pytest.mark.parametrize("asked", ASKED)
def test_what_is_looked_for_has_an_index(asked: str) -> None:
    plan = _empty().execute(f"explain query plan {asked}", (1,) * asked.count("?")).fetchall()
    assert [ASKED[asked] in str(step[3]) for step in plan] == [True]


def test_no_index_begins_as_another_does() -> None:
    db = _empty()
    of_tables = "from sqlite_schema m, pragma_index_list(m.name) l where m.type = 'table' and not l.partial"
    found = {
        (table, name): [row[0] for row in db.execute(f"select coalesce(name, '') from pragma_index_info('{name}')")]
        for table, name in db.execute(f"select m.name, l.name {of_tables}").fetchall()
    }
    assert [
        (one, other)
        for (table, one), columns in found.items()
        for (of, other), more in found.items()
        if table == of and one != other and more[: len(columns)] == columns
    ] == []


def test_a_store_has_each_number_once_and_many_sessions_without_one() -> None:
    db = _empty()
    db.execute("insert into sessions(owner) values ('a'), ('a'), (null), (null)")
    db.execute("insert into sessions(owner, number) values ('a', 1), ('b', 1)")
    with pytest.raises(apsw.ConstraintError):
        db.execute("insert into sessions(owner, number) values ('a', 1)")
