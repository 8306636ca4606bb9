"""The key of a machine's masks: made once, private, and a new one where it is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from backstory.derive.secrets import KEY_BYTES
from backstory.projects.mask_key import MASK_KEY, mask_key

if TYPE_CHECKING:
    from pathlib import Path


def test_a_key_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    home = tmp_path / "home"
    key = mask_key(home)
    assert (len(key), mask_key(home)) == (KEY_BYTES, key)
    assert [each.name for each in home.iterdir()] == [MASK_KEY]
    assert (home / MASK_KEY).stat().st_mode & 0o777 == 0o600


def test_a_lost_key_is_a_new_one(tmp_path: Path) -> None:
    key = mask_key(tmp_path)
    (tmp_path / MASK_KEY).unlink()
    assert mask_key(tmp_path) != key


@pytest.mark.parametrize("content", [b"", b"no key", b"\xff\xfe", b"ab" * 31, b"ab" * 33], ids=repr)
def test_what_is_no_key_is_replaced(tmp_path: Path, content: bytes) -> None:
    (tmp_path / MASK_KEY).write_bytes(content)
    key = mask_key(tmp_path)
    assert (len(key), mask_key(tmp_path)) == (KEY_BYTES, key)
    assert [each.name for each in tmp_path.iterdir()] == [MASK_KEY]


def test_a_key_that_others_may_read_is_closed_to_them(tmp_path: Path) -> None:
    mask_key(tmp_path)
    (tmp_path / MASK_KEY).chmod(0o644)
    mask_key(tmp_path)
    assert (tmp_path / MASK_KEY).stat().st_mode & 0o777 == 0o600


def test_the_key_of_a_process_that_was_first_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def published(part: Path, target: Path) -> None:
        target.write_text("cd" * KEY_BYTES)
        raise FileExistsError

    monkeypatch.setattr("backstory.projects.mask_key.publish", published)
    assert mask_key(tmp_path) == b"\xcd" * KEY_BYTES


def test_where_no_file_can_be_a_key_is_for_this_process_alone(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("a file")
    assert len(mask_key(tmp_path / "home")) == KEY_BYTES
    assert (tmp_path / "home").read_text() == "a file"
