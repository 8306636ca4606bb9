"""A file read without a lock: what one transaction left, or nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import apsw
import pytest

from backstory.store.file import waiting

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "small.db"
    db = apsw.Connection(str(path))
    db.execute("create table facts(one); insert into facts values (1)")
    db.close()
    return path


def journal(path: Path) -> Path:
    return path.with_name(path.name + "-journal")


def commit(path: Path) -> None:
    db = apsw.Connection(str(path))
    db.execute("update facts set one = one + 1")
    db.close()


def begin(path: Path) -> None:
    journal(path).touch()


class Meanwhile(apsw.Connection):
    """A connection that has something happen as soon as it has read the file."""

    happens: Callable[[], None]

    def read(self, schema: str, which: int, offset: int, amount: int) -> tuple[bool, bytes]:
        given = super().read(schema, which, offset, amount)
        if amount > waiting.HEADER_BYTES:
            self.happens()
        return given


def test_a_file_that_nobody_writes_is_copied_as_it_is(path: Path) -> None:
    copy = waiting.copy_of(apsw.Connection(str(path)), path)
    assert copy is not None
    assert copy.execute("select one from facts").get == 1


@pytest.mark.parametrize("change", [commit, begin])
def test_what_is_written_while_it_is_read_is_not_taken_for_the_file(path: Path, change: Callable[[Path], None]) -> None:
    db = Meanwhile(str(path))
    db.happens = lambda: change(path)
    assert waiting.copy_of(db, path) is None


def test_a_file_with_a_journal_is_not_read(path: Path) -> None:
    journal(path).write_bytes(b"of a transaction that goes on, or was cut off")
    assert waiting.copy_of(apsw.Connection(str(path)), path) is None


def test_what_was_begun_before_it_is_read_and_ends_meanwhile_is_not_taken_for_the_file(path: Path) -> None:
    begin(path)
    db = Meanwhile(str(path))
    # The counter may have been counted up before the rest was written.
    db.happens = journal(path).unlink
    assert waiting.copy_of(db, path) is None


def test_a_file_that_is_removed_is_not_read(path: Path) -> None:
    db = apsw.Connection(str(path))
    path.unlink()
    assert waiting.copy_of(db, path) is None


def test_a_file_with_a_journal_of_another_kind_is_not_read(path: Path) -> None:
    db = apsw.Connection(str(path))
    db.execute("pragma journal_mode = wal")
    assert waiting.copy_of(db, path) is None


def test_each_transaction_changes_the_stamp_and_looking_does_not(path: Path) -> None:
    db = apsw.Connection(str(path))
    before = waiting.stamp(db, path)
    assert waiting.stamp(db, path) == before
    commit(path)
    assert waiting.stamp(db, path) != before
