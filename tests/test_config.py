"""Settings: where they come from, and what is said of those that mean nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from backstory.config import SETTINGS, Config, parse, write
from backstory.errors import CannotWrite, ConfigBroken, UnknownSetting

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "config.toml"


def written(file: Path, text: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, "utf-8")
    return file


def test_without_a_file_everything_is_as_it_is_unless_set(file: Path) -> None:
    config = Config([file])
    assert {each.key: config.get(each.key) for each in SETTINGS} == {each.key: each.default for each in SETTINGS}
    assert config.origin("list.limit") is None


def test_the_nearer_file_wins(file: Path, tmp_path: Path) -> None:
    far, near = (
        written(file, "[list]\nlimit = 5\n[search]\nlimit = 6\n"),
        written(tmp_path / "near", "[list]\nlimit = 7\n"),
    )
    config = Config([far, near])
    assert (config.get("list.limit"), config.origin("list.limit")) == (7, near)
    assert (config.get("search.limit"), config.origin("search.limit")) == (6, far)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("[list]\nlimt = 5\n", "list.limt"),
        ("[lst]\nlimit = 5\n", "lst.limit"),
        ("limit = 5\n", "limit"),
        ("[list]\nlimit = 'five'\n", "list.limit must be a int"),
        ("[list]\nlimit = true\n", "list.limit must be a int"),
        ("[ingest]\nagents = 'claude'\n", "ingest.agents must be a list"),
        ("[list\nlimit = 5\n", "config.toml"),
        ("[list.limit]\nx = 5\n", "list.limit"),
    ],
)
def test_a_file_that_means_nothing_is_named_with_what_is_wrong(file: Path, text: str, named: str) -> None:
    with pytest.raises(ConfigBroken, match=named.replace(".", r"\.")) as refused:
        Config([written(file, text)])
    assert str(file) in str(refused.value)


@pytest.mark.parametrize("text", ["[ingest]\nexclude = [1]\n", "[ingest]\nagents = [['x']]\n"])
def test_a_list_of_something_else_is_refused(file: Path, text: str) -> None:
    with pytest.raises(ConfigBroken, match="must be a list of texts"):
        Config([written(file, text)])


def test_bytes_that_are_no_text_are_named(file: Path) -> None:
    written(file, "").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigBroken, match="config"):
        Config([file])


def test_a_setting_that_does_not_exist_is_named_with_those_that_do(file: Path) -> None:
    with pytest.raises(UnknownSetting, match=r"list\.limt.*list\.limit"):
        Config([]).get("list.limt")
    with pytest.raises(UnknownSetting):
        write(file, "list.limt", 3)
    assert not file.exists()


def test_a_value_is_read_in_its_settings_type() -> None:
    assert parse("list.limit", "7") == 7
    assert parse("ingest.agents", "claude, copilot,") == ["claude", "copilot"]
    assert parse("ingest.agents", "") == []


def test_a_value_of_another_type_is_refused() -> None:
    with pytest.raises(UnknownSetting, match="a int"):
        parse("list.limit", "many")


def test_what_is_written_is_read_again(file: Path) -> None:
    write(file, "list.limit", 7)
    write(file, "ingest.exclude", ["*/tmp/*", 'a"b'])
    config = Config([file])
    assert (config.get("list.limit"), config.get("ingest.exclude")) == (7, ["*/tmp/*", 'a"b'])


def test_writing_keeps_comments_and_other_lines(file: Path) -> None:
    written(file, "# mine\n[search]\nlimit = 6  # few\n\n[list]\nlimit = 5\n")
    write(file, "list.limit", 7)
    assert file.read_text("utf-8") == "# mine\n[search]\nlimit = 6  # few\n\n[list]\nlimit = 7\n"


def test_a_file_that_is_written_is_only_its_owners(file: Path) -> None:
    write(file, "list.limit", 7)
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)


def test_a_broken_file_is_not_written_over(file: Path) -> None:
    written(file, "[list\n")
    with pytest.raises(ConfigBroken):
        write(file, "list.limit", 7)
    assert file.read_text("utf-8") == "[list\n"


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "in-the-way").write_text("")
    with pytest.raises((CannotWrite, ConfigBroken), match="in-the-way"):
        write(tmp_path / "in-the-way" / "config.toml", "list.limit", 7)
