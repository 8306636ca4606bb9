"""Settings: where they come from, and what is said of those that mean nothing."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from backstory.config import ONLY_OWN, REMARKS_MAX, SETTINGS, Config, Setting, SettingsTable, parse, parse_as, write
from backstory.errors import CannotWrite, ConfigBroken, SettingNotHere, SettingRefused, UnknownSetting
from backstory.model import Permissions

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "config.toml"


def written(file: Path, text: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, "utf-8")
    return file


def ask_all(config: Config) -> None:
    for each in SETTINGS:
        config.get(each.key)


def projects(tmp_path: Path, text: str) -> Path:
    """A project's file."""
    return written(tmp_path / "project" / ".backstory" / "config.toml", text)


def test_without_a_file_everything_is_as_it_is_unless_set(file: Path) -> None:
    config = Config(file)
    assert {each.key: config.get(each.key) for each in SETTINGS} == {each.key: each.default for each in SETTINGS}
    assert config.origin("list.limit") is None


def typed_values(config: Config) -> dict[str, object]:
    """The values of all attributes of all tables, by the keys of their settings."""
    names = ("ingest", "run", "compaction", "store", "index", "prune", "list", "screen", "search", "mcp", "sync")
    tables = [getattr(config.settings, name) for name in names]
    assert all(isinstance(table, SettingsTable) for table in tables)
    return {
        each.key: getattr(table, name)
        for table in tables
        for name, each in vars(type(table)).items()
        if isinstance(each, Setting)
    }


def test_every_setting_is_an_attribute_of_its_table(file: Path) -> None:
    config = Config(written(file, "[list]\nlimit = 5\n[run]\nagent = 'codex'\n[ingest]\nexclude = ['*.tmp']\n"))
    assert typed_values(config) == {each.key: config.get(each.key) for each in SETTINGS}
    assert (config.settings.list.limit, config.settings.run.agent) == (5, "codex")
    assert config.settings.ingest.exclude == ["*.tmp"]


def test_permissions_and_programs_are_typed(file: Path) -> None:
    settings = Config(written(file, "[run]\npermissions = 'edit'\n[agents]\ncodex = '/opt/codex'\n")).settings
    assert settings.run.permissions is Permissions.EDIT
    assert (settings.program_of("codex"), settings.program_of("claude")) == ("/opt/codex", "")


def test_a_wrong_value_concerns_only_who_asks_for_it(file: Path) -> None:
    run = Config(written(file, "[run]\nsilence_s = 'long'\ncontext_chars = 9\n")).settings.run
    assert (run.context_chars, run.permissions) == (9, Permissions.AGENT)
    with pytest.raises(ConfigBroken, match=r"run\.silence_s"):
        run.silence_s  # noqa: B018


def test_what_a_project_may_set_wins(file: Path, tmp_path: Path) -> None:
    own = written(file, "[list]\nlimit = 5\n[run]\nsilence_s = 6\n")
    near = projects(tmp_path, "[run]\nsilence_s = 7\nagent = 'claude'\ncontext_chars = 8\n")
    config = Config(own, near)
    assert (config.get("run.silence_s"), config.origin("run.silence_s")) == (7, near)
    assert (config.get("run.agent"), config.get("run.context_chars")) == ("claude", 8)
    assert (config.get("list.limit"), config.origin("list.limit")) == (5, own)
    assert config.remarks == []


@pytest.mark.parametrize(
    ("text", "key", "why"),
    [
        ("[agents]\nclaude = './evil.sh'\n", "agents.claude", ONLY_OWN),
        ("[run]\npermissions = 'all'\n", "run.permissions", ONLY_OWN),
        ("[ingest]\nexclude = ['*']\n", "ingest.exclude", ONLY_OWN),
        ("[ingest]\nagents = ['codex']\n", "ingest.agents", ONLY_OWN),
        ("[list]\nlimit = 1\n", "list.limit", ONLY_OWN),
        ("[search]\nlimit = 1\n", "search.limit", ONLY_OWN),
        ("[run]\ncontext_chars = 500001\n", "run.context_chars", "a project may only lower it, and it is 500000"),
        ("[run]\ncontext_chars = 'all'\n", "run.context_chars", "it must be a whole number"),
        ("[run]\ncontext_chars = -1\n", "run.context_chars", "it must be from 0 to 2147483647"),
        ("[run]\nsilence_s = 99999999999\n", "run.silence_s", "it must be from 0 to 2147483647"),
        ("[run]\nagent = 'other'\n", "run.agent", "no agent of this name is installed"),
    ],
)
def test_what_a_project_may_not_set_is_named_and_ignored(
    file: Path, tmp_path: Path, text: str, key: str, why: str
) -> None:
    near = projects(tmp_path, text)
    config = Config(file, near, is_installed=lambda name, program: name == "claude")
    assert config.remarks == [f"{key} in {near} is ignored: {why}."]
    assert config.get(key) == Config(file).get(key)
    assert config.origin(key) is None


def test_a_context_that_its_person_made_smaller_is_not_made_larger_by_a_project(file: Path, tmp_path: Path) -> None:
    config = Config(written(file, "[run]\ncontext_chars = 10\n"), projects(tmp_path, "[run]\ncontext_chars = 11\n"))
    assert (config.get("run.context_chars"), config.origin("run.context_chars")) == (10, file)
    assert len(config.remarks) == 1


def test_the_program_that_its_person_set_is_looked_for(file: Path, tmp_path: Path) -> None:
    asked: list[tuple[str, str]] = []

    def ask(name: str, program: str) -> bool:
        asked.append((name, program))
        return True

    Config(
        written(file, "[agents]\nclaude = '/opt/claude'\n"),
        projects(tmp_path, "[run]\nagent = 'claude'\n"),
        is_installed=ask,
    )
    assert asked == [("claude", "/opt/claude")]


@pytest.mark.parametrize("program", ["./claude", "bin/claude", "../claude"])
def test_a_program_is_never_taken_from_the_current_folder(file: Path, program: str) -> None:
    config = Config(written(file, f"[agents]\nclaude = '{program}'\n"))
    with pytest.raises(ConfigBroken, match=r"agents\.claude: a program is its whole path, or a name on PATH"):
        config.get("agents.claude")
    assert config.get("agents.codex") == ""


def test_a_program_of_the_current_folder_cannot_be_set(file: Path) -> None:
    with pytest.raises(SettingRefused, match="its whole path, or a name on PATH"):
        Config(file).set("agents.claude", "./claude")
    assert not file.exists()


@pytest.mark.parametrize("program", ["/opt/claude", "claude-next"])
def test_a_whole_path_and_a_name_on_path_are_programs(file: Path, program: str) -> None:
    Config(file).set("agents.claude", program)
    assert Config(file).get("agents.claude") == program


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("[list]\nlimt = 5\n", "'list.limt'"),
        ("[lst]\nlimit = 5\n", "'lst.limit'"),
        ("limit = 5\n", "'limit'"),
        ("[list.limit.x]\ny = 5\n[run.x]\n", "'run.x'"),
        ('"a\\u001b]0;b\\u202e" = 1\n', r"'a\x1b]0;b\u202e'"),
    ],
)
def test_a_setting_that_nobody_knows_is_named_and_stops_nothing(
    file: Path, tmp_path: Path, text: str, named: str
) -> None:
    near = projects(tmp_path, text)
    config = Config(file, near)
    ask_all(config)
    assert f"{named} in {near} is ignored: there is no such setting." in config.remarks
    if "limit.x" not in text:
        own = Config(written(file, text))
        ask_all(own)
        (remark,) = own.remarks
        assert remark.startswith(f"{named} in {file} is ignored: there is no such setting")


def test_of_a_misspelt_setting_of_ones_own_the_right_one_is_named(file: Path) -> None:
    (remark,) = Config(written(file, "[serch]\nlimit = 5\n")).remarks
    assert remark == f"'serch.limit' in {file} is ignored: there is no such setting; search.limit is one."


def test_of_many_ignored_settings_some_are_named(file: Path, tmp_path: Path) -> None:
    config = Config(file, projects(tmp_path, "".join(f"x{n} = 1\n" for n in range(1_000))))
    assert len(config.remarks) == REMARKS_MAX + 1
    assert config.remarks[-1] == "… and 995 more settings are ignored."


def test_a_name_without_end_is_cut(file: Path, tmp_path: Path) -> None:
    (remark,) = Config(file, projects(tmp_path, f"{'x' * 10_000} = 1\n")).remarks
    assert len(remark) < 300 + len(str(tmp_path))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[list\n", "Expected"),
        ("x = " + "[" * 5_000, "it is nested too deeply"),
        ("x = " + "9" * 5_000, "Exceeds the limit"),
        ("#" * 17_000, "it is larger than 16 KB"),
    ],
)
def test_a_projects_file_that_cannot_be_read_is_named_and_stops_nothing(
    file: Path, tmp_path: Path, text: str, why: str
) -> None:
    near = projects(tmp_path, text)
    config = Config(file, near)
    ask_all(config)
    (remark,) = config.remarks
    assert remark.startswith(f"{near} is ignored: {why}")


def test_a_pipe_in_a_projects_place_is_not_waited_for(file: Path, tmp_path: Path) -> None:
    near = projects(tmp_path, "")
    near.unlink()
    os.mkfifo(near)
    assert Config(file, near).remarks == [f"{near} is ignored: it is no regular file."]


@pytest.mark.parametrize("linked", ["config.toml", ".backstory"])
def test_a_link_out_of_the_project_is_not_followed(file: Path, tmp_path: Path, linked: str) -> None:
    near = projects(tmp_path, "")
    elsewhere = written(tmp_path / "elsewhere" / "config.toml", "[run]\nsilence_s = 1\n")
    near.unlink()
    if linked == ".backstory":
        near.parent.rmdir()
        near.parent.symlink_to(elsewhere.parent)
    else:
        near.symlink_to(elsewhere)
    config = Config(file, near)
    assert config.get("run.silence_s") == 3_600
    assert config.remarks == [f"{near} is ignored: it is a link that leads out of the project."]
    with pytest.raises(ConfigBroken, match="leads out of the project"):
        config.set("run.silence_s", "5", here=True)
    assert elsewhere.read_text() == "[run]\nsilence_s = 1\n"


def test_a_link_inside_the_project_is_followed(file: Path, tmp_path: Path) -> None:
    near = projects(tmp_path, "")
    near.unlink()
    near.symlink_to(written(near.parent.parent / "shared.toml", "[run]\nsilence_s = 1\n"))
    assert Config(file, near).get("run.silence_s") == 1


@pytest.mark.parametrize(
    ("text", "key", "named"),
    [
        ("[list]\nlimit = 'five'\n", "list.limit", "list.limit: it must be a whole number"),
        ("[list]\nlimit = true\n", "list.limit", "list.limit: it must be a whole number"),
        ("[ingest]\nagents = 'claude'\n", "ingest.agents", "ingest.agents: it must be a list of texts"),
        ("[ingest]\nexclude = [1]\n", "ingest.exclude", "ingest.exclude: it must be a list of texts"),
        ("[ingest]\nagents = [['x']]\n", "ingest.agents", "ingest.agents: it must be a list of texts"),
        ("[list.limit]\nx = 5\n", "list.limit", "list.limit: it must be a whole number"),
        ("[run]\npermissions = 'al'\n", "run.permissions", "it must be one of agent, ask, edit, all"),
        ("[run]\nagent = 'foo'\n", "run.agent", "run.agent: no agent is called 'foo'"),
        ("[ingest]\nagents = ['claude', 'foo']\n", "ingest.agents", "ingest.agents: no agent is called 'foo'"),
        ("[list]\nlimit = 99999999999999999999999\n", "list.limit", "list.limit: it must be from 0 to 2147483647"),
        ("[search]\nlimit = 0\n", "search.limit", "search.limit: it must be from 1 to 2147483647"),
        ("[run]\ncontext_chars = -1\n", "run.context_chars", "run.context_chars: it must be from 0 to 2147483647"),
    ],
)
def test_a_wrong_value_of_ones_own_is_an_error_where_it_is_asked_for(
    file: Path, text: str, key: str, named: str
) -> None:
    config = Config(written(file, text), agents=agents)
    assert config.get("run.silence_s") == 3_600
    with pytest.raises(ConfigBroken, match=named.replace(".", r"\.")) as refused:
        config.get(key)
    assert str(file) in str(refused.value)


def test_a_file_of_ones_own_that_cannot_be_read_is_an_error(file: Path) -> None:
    with pytest.raises(ConfigBroken, match="config"):
        Config(written(file, "[list\nlimit = 5\n"))


def test_bytes_that_are_no_text_are_named(file: Path) -> None:
    written(file, "").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigBroken, match="config"):
        Config(file)


def test_a_setting_that_does_not_exist_is_named_with_those_that_do(file: Path) -> None:
    with pytest.raises(UnknownSetting, match=r"list\.limt.*list\.limit"):
        Config(file).get("list.limt")
    with pytest.raises(UnknownSetting):
        write(file, "list.limt", 3)
    assert not file.exists()


def test_a_value_is_read_in_its_settings_type() -> None:
    assert parse("list.limit", "7") == 7
    assert parse("ingest.agents", "claude, copilot,") == ["claude", "copilot"]
    assert parse("ingest.agents", "") == []


def test_a_value_of_another_type_is_refused() -> None:
    with pytest.raises(SettingRefused, match=r"list\.limit cannot be 'many': it must be a whole number"):
        parse("list.limit", "many")


def agents() -> list[str]:
    return ["claude", "codex"]


@pytest.mark.parametrize(
    ("key", "text", "why"),
    [
        ("run.permissions", "foo", "it must be one of agent, ask, edit, all"),
        ("run.permissions", "", "it must be one of agent, ask, edit, all"),
        ("prune.keep", "foo", "it must be one of '', prompts, summaries, named"),
        ("run.agent", "foo", "no agent is called 'foo'"),
        ("ingest.agents", "claude,foo", "no agent is called 'foo'"),
        ("run.context_chars", "-1", "it must be from 0 to 2147483647"),
        ("run.context_chars", "1e3", "it must be a whole number"),
        ("run.silence_s", "2147483648", "it must be from 0 to 2147483647"),
        ("run.silence_s", "9" * 5_000, "it must be a whole number"),
        ("list.limit", "1.5", "it must be a whole number"),
        ("search.limit", "0", "it must be from 1 to 2147483647"),
    ],
)
def test_a_value_that_a_setting_cannot_have_is_not_set(file: Path, key: str, text: str, why: str) -> None:
    with pytest.raises(SettingRefused, match=why) as refused:
        Config(file, agents=agents).set(key, text)
    assert str(refused.value).startswith(f"{key} cannot be '{text[:20]}")
    assert not file.exists()


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("run.permissions", "edit", "edit"),
        ("run.agent", "codex", "codex"),
        ("run.agent", "", ""),
        ("ingest.agents", "codex,claude", ["codex", "claude"]),
        ("ingest.exclude", "*/foo/*", ["*/foo/*"]),
        ("ingest.places", "/mnt/me,codex=~/.codex-work", ["/mnt/me", "codex=~/.codex-work"]),
        ("run.context_chars", "0", 0),
        ("run.silence_s", "2147483647", 2_147_483_647),
        ("search.limit", "1", 1),
        ("agents.codex", "codex-next", "codex-next"),
    ],
)
def test_a_value_that_a_setting_can_have_is_set(file: Path, key: str, text: str, value: object) -> None:
    Config(file, agents=agents).set(key, text)
    assert Config(file, agents=agents).get(key) == value


def test_every_number_has_bounds_that_its_default_keeps() -> None:
    for each in SETTINGS:
        if isinstance(each.default, int):
            assert parse(each.key, str(each.default)) == each.default
            for beyond in (each.least - 1, 2**31):
                with pytest.raises(SettingRefused):
                    parse(each.key, str(beyond))


@pytest.mark.parametrize(
    ("text", "value"), [("true", True), ("Yes", True), ("on", True), ("false", False), ("NO", False), ("off", False)]
)
def test_a_switch_is_set_in_words(text: str, value: bool) -> None:
    assert parse_as(False, text) is value
    assert parse_as(False, "maybe") == "maybe"


@pytest.mark.parametrize(
    ("key", "meant"),
    [("run.permission", "run.permissions"), ("lst.limit", "list.limit"), ("agents.claud", "agents.claude")],
)
def test_a_setting_that_does_not_exist_is_not_set_and_the_one_meant_is_named(file: Path, key: str, meant: str) -> None:
    with pytest.raises(UnknownSetting, match=f"Did you mean {meant}"):
        Config(file, agents=agents).set(key, "5")
    assert not file.exists()


def test_a_setting_like_no_other_gets_no_guess(file: Path) -> None:
    with pytest.raises(UnknownSetting) as refused:
        Config(file, agents=agents).set("qqq", "5")
    assert "Did you mean" not in str(refused.value)


def test_agents_are_only_looked_for_where_a_setting_names_one(file: Path) -> None:
    def never() -> list[str]:
        raise AssertionError

    ask_all(Config(written(file, "[run]\nagent = ''\nsilence_s = 5\n[agents]\nclaude = 'x'\n"), agents=never))


def test_what_is_written_is_read_again(file: Path) -> None:
    write(file, "list.limit", 7)
    write(file, "ingest.exclude", ["*/tmp/*", 'a"b'])
    config = Config(file)
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


@pytest.mark.parametrize(
    ("key", "value"), [("list.limit", "3"), ("run.permissions", "all"), ("run.context_chars", "11")]
)
def test_what_would_be_ignored_is_not_set_for_a_project(file: Path, tmp_path: Path, key: str, value: str) -> None:
    near = projects(tmp_path, "[run]\ncontext_chars = 5\n")
    with pytest.raises(SettingNotHere, match=key.replace(".", r"\.")):
        Config(written(file, "[run]\ncontext_chars = 10\n"), near).set(key, value, here=True)
    assert near.read_text() == "[run]\ncontext_chars = 5\n"


def test_what_a_project_may_set_is_set_for_it(file: Path, tmp_path: Path) -> None:
    near = projects(tmp_path, "")
    assert Config(file, near).set("run.context_chars", "9", here=True) == near
    assert Config(file, near).get("run.context_chars") == 9
    assert not file.exists()


def test_a_value_in_a_tables_place_is_not_written_over(file: Path) -> None:
    written(file, "list = 5\n")
    with pytest.raises(ConfigBroken, match="list is no table"):
        write(file, "list.limit", 7)
    assert file.read_text("utf-8") == "list = 5\n"


def test_a_file_of_ones_own_that_lies_in_a_project_is_ones_own(tmp_path: Path) -> None:
    own = projects(tmp_path, "[list]\nlimit = 5\n")
    config = Config(own, own)
    assert (config.get("list.limit"), config.remarks) == (5, [])


def test_numbers_by_name_are_set_as_pairs(file: Path) -> None:
    config = Config(file)
    config.set("compaction.chars_for", "one=300000, one/model=9")
    settings = Config(file).settings.compaction
    assert (settings.chars_of("one", "model"), settings.chars_of("one", None), settings.chars_of("two", None)) == (
        9, 300_000, 400_000,
    )  # fmt: skip


@pytest.mark.parametrize("text", ["one=many", "one=-1", "one", f"one={2**31}"])
def test_what_is_no_number_by_name_is_refused(file: Path, text: str) -> None:
    with pytest.raises(SettingRefused):
        Config(file).set("compaction.chars_for", text)
