"""The server in an agent's settings: added whole or not at all, and gone again without a trace."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from backstory.errors import (
    AgentWithout,
    BackstoryError,
    EntryNotOurs,
    InstallNoteUnreadable,
    NotInstalled,
    SettingsChanged,
    SettingsReadOnly,
    SettingsUnusable,
    UnknownAgent,
)
from backstory.export import rewriting
from backstory.workspace.clients import agent_servers
from backstory.workspace.clients.agent_servers import AgentServers, ServerProgram
from backstory.workspace.clients.settings_change import SettingsChange

PROGRAM = ServerProgram(command=("/opt/a b/backstory", "mcp"), environ={"BACKSTORY_HOME": "/bh"})
MOVED = ServerProgram(command=("/new/backstory", "mcp"), environ={})
FILES = {
    ("claude", "user"): "home/.claude.json", ("claude", "project"): "project/.mcp.json",
    ("codex", "user"): "home/.codex/config.toml", ("codex", "project"): "project/.codex/config.toml",
    ("copilot", "user"): "home/.copilot/mcp-config.json", ("copilot", "project"): "project/.github/mcp.json",
}  # fmt: skip
TOML_TEXT = b'\xef\xbb\xbf# mine\r\nmodel = "x"   # why\r\n\r\n[mcp_servers.other] # y\r\ncommand = "/y"\r\n\r\n# end'
JSON_TEXT = (
    b'\xef\xbb\xbf{\r\n\t"b": 1,\r\n\t"a":   [1,2],\r\n\t"mcpServers": {\r\n\t\t"other": {"command": "/y"}\r\n\t}\r\n}'
)


class Home:
    """A person's home, a project, and our home."""

    def __init__(self, root: Path, **environ: str) -> None:
        self.root = root
        for name in ("home", "project", "ours"):
            (root / name).mkdir(exist_ok=True)
        self.servers = AgentServers(root / "ours", environ, root / "home", root / "project")

    def file(self, agent: str, scope: str = "user") -> Path:
        return self.root / FILES[agent, scope]

    def put(self, data: bytes, agent: str = "claude", scope: str = "user") -> Path:
        file = self.file(agent, scope)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
        return file

    def install(self, agent: str = "claude", scope: str = "user", program: ServerProgram = PROGRAM) -> SettingsChange:
        change = self.servers.plan_install(agent, scope, program)
        self.servers.perform(change)
        return change

    def uninstall(self, agent: str = "claude", scope: str = "user", program: ServerProgram = PROGRAM) -> SettingsChange:
        change = self.servers.plan_uninstall(agent, scope, program)
        self.servers.perform(change)
        return change

    def entry(self, agent: str = "claude") -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.file(agent).read_bytes())["mcpServers"]["backstory"]
        return found

    def tree(self) -> dict[str, bytes | None]:
        """All that lies in the person's home and the project."""
        found = (each for top in ("home", "project") for each in (self.root / top).rglob("*"))
        return {str(each.relative_to(self.root)): each.read_bytes() if each.is_file() else None for each in found}


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def format_of(agent: str) -> bytes:
    return TOML_TEXT if agent == "codex" else JSON_TEXT


# comes and goes -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("agent", "scope"), FILES)
def test_settings_are_byte_for_byte_as_they_were_when_the_server_is_gone(home: Home, agent: str, scope: str) -> None:
    home.put(format_of(agent), agent, scope)
    before = home.tree()
    assert home.install(agent, scope).action == "add"
    written = home.file(agent, scope).read_bytes()
    assert b"/opt/a b/backstory" in written
    assert home.install(agent, scope).action == "none"
    assert home.file(agent, scope).read_bytes() == written
    home.uninstall(agent, scope)
    assert home.tree() == before
    with pytest.raises(NotInstalled):
        home.uninstall(agent, scope)


@pytest.mark.parametrize(("agent", "scope"), FILES)
def test_a_file_and_folders_that_were_made_go_with_the_server(home: Home, agent: str, scope: str) -> None:
    home.install(agent, scope)
    assert home.file(agent, scope).is_file()
    home.uninstall(agent, scope)
    assert home.tree() == {}


@pytest.mark.parametrize("data", [b"", b"\n", b"{}", b" {\n}\n", b'{"mcpServers":{}}', b'{"mcpServers": {}, "x": 1}\n'])
def test_a_file_that_was_there_stays_however_little_it_held(home: Home, data: bytes) -> None:
    file = home.put(data)
    home.install()
    assert home.entry()["command"] == "/opt/a b/backstory"
    home.uninstall()
    assert file.read_bytes() == data


def test_a_folder_that_holds_something_of_another_stays(home: Home) -> None:
    home.install("copilot")
    (home.root / "home" / ".copilot" / "log").write_text("x")
    home.uninstall("copilot")
    assert home.tree() == {"home/.copilot": None, "home/.copilot/log": b"x"}


@pytest.mark.parametrize("agent", ["claude", "codex", "copilot"])
def test_what_was_changed_meanwhile_stays_and_only_the_server_goes(home: Home, agent: str) -> None:
    file = home.put(format_of(agent), agent)
    home.install(agent)
    change = (b"# end", b"# the end\r\n[z]\r\n") if agent == "codex" else (b'"b": 1', b'"b":  2, "c": {"x": [ ]}')
    file.write_bytes(file.read_bytes().replace(*change))
    home.uninstall(agent)
    assert file.read_bytes() == format_of(agent).replace(*change)


WAIT = b"mcp_optional_startup_grace_ms = 10000\n"


def test_a_client_that_waits_for_no_slow_server_is_told_to(home: Home) -> None:
    file = home.put(b"# mine\n[a]\nb = 1\n", "codex")
    home.install("codex")
    assert file.read_bytes().startswith(WAIT + b"# mine\n")
    home.install("codex", program=MOVED)
    assert file.read_bytes().count(WAIT) == 1
    home.uninstall("codex", program=MOVED)
    assert file.read_bytes() == b"# mine\n[a]\nb = 1\n"


@pytest.mark.parametrize("before", [b"# mine\n[a]\nb = 1\n", None])
def test_a_server_that_an_earlier_version_added_gets_the_line_that_its_client_waits_by(
    home: Home, monkeypatch: pytest.MonkeyPatch, before: bytes | None
) -> None:
    file = home.file("codex") if before is None else home.put(before, "codex")
    with monkeypatch.context() as earlier:
        earlier.setattr(agent_servers, "waiting", lambda *_: None)
        home.install("codex")
    installed = file.read_bytes()

    change = home.install("codex")

    assert (change.action, [each.added for each in change.edits]) == ("update", [(WAIT.decode().strip(),)])
    assert file.read_bytes() == WAIT + installed
    assert home.install("codex").action == "none"
    home.uninstall("codex")
    assert (file.read_bytes() if file.exists() else None) == before


def test_how_long_a_person_has_a_client_wait_stays(home: Home) -> None:
    own = b"mcp_optional_startup_grace_ms = 500\n"
    file = home.put(own, "codex")
    home.install("codex")
    assert file.read_bytes().count(b"grace") == 1
    home.uninstall("codex")
    assert file.read_bytes() == own
    home.put(b"", "codex")
    home.install("codex")
    file.write_bytes(file.read_bytes().replace(b"10000", b"20000"))
    home.uninstall("codex")
    assert file.read_bytes().strip() == b"mcp_optional_startup_grace_ms = 20000"


def test_a_file_that_its_client_wrote_anew_loses_only_the_server(home: Home) -> None:
    file = home.put(b'{"x": 1}')
    home.install()
    settings = json.loads(file.read_bytes())
    file.write_text(json.dumps({"started": 2, **settings, "last": 3}, indent=2))
    home.uninstall()
    assert file.read_text() == json.dumps({"started": 2, "x": 1, "last": 3}, indent=2)


def test_a_made_file_that_its_client_filled_stays_without_the_server(home: Home) -> None:
    home.install()
    settings = json.loads(home.file("claude").read_bytes())
    home.file("claude").write_text(json.dumps({**settings, "userID": "u"}, indent=2))
    home.uninstall()
    assert home.file("claude").read_text() == json.dumps({"userID": "u"}, indent=2)


def test_approvals_that_the_client_wrote_into_the_entry_go_with_it(home: Home) -> None:
    file = home.put(b"m = 1\n", "codex")
    home.install("codex")
    with file.open("a") as opened:
        opened.write('\n[mcp_servers.backstory.tools.get_session]\napproval_mode = "approve"\n\n[z]\n')
    assert home.install("codex").action == "none"
    home.uninstall("codex")
    assert file.read_text() == "m = 1\n\n[z]\n"


def test_without_its_note_an_entry_that_starts_this_program_is_removed_all_the_same(home: Home) -> None:
    home.put(JSON_TEXT)
    home.install()
    for note in (home.root / "ours" / "installed").iterdir():
        note.unlink()
    home.uninstall()
    assert home.file("claude").read_bytes() == JSON_TEXT


def test_nothing_is_noted_of_what_is_gone(home: Home) -> None:
    home.install()
    home.uninstall()
    assert list((home.root / "ours" / "installed").iterdir()) == []


# one that moved, and one of others ------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [None, JSON_TEXT, b"{}"])
def test_a_program_that_moved_takes_the_place_of_the_old_one(home: Home, data: bytes | None) -> None:
    if data is not None:
        home.put(data)
    before = home.tree()
    home.install()
    change = home.install(program=MOVED)
    assert change.action == "update"
    assert [bool(each.removed) for each in change.edits] == [True, False]
    assert home.entry() == {"type": "stdio", "command": "/new/backstory", "args": ["mcp"], "env": {}}
    home.uninstall(program=MOVED)
    assert home.tree() == before


def test_a_home_that_moved_takes_the_place_of_the_old_one(home: Home) -> None:
    home.install()
    elsewhere = structs.replace(PROGRAM, environ={"BACKSTORY_HOME": "/elsewhere"})
    assert home.install(program=elsewhere).action == "update"
    assert home.entry()["env"] == {"BACKSTORY_HOME": "/elsewhere"}
    assert home.install(program=elsewhere).action == "none"


def test_a_home_that_moved_to_where_it_needs_no_name_is_named_no_more(home: Home) -> None:
    home.install()
    unnamed = structs.replace(PROGRAM, environ={})
    assert home.install(program=unnamed).action == "update"
    assert home.entry()["env"] == {}
    assert home.install(program=unnamed).action == "none"


def test_a_variable_that_a_person_added_or_changed_stays(home: Home) -> None:
    file = home.put(b"{}")
    home.install()
    file.write_bytes(file.read_bytes().replace(b'"/bh"', b'"/mine", "MORE": "1"'))
    assert home.install(program=structs.replace(PROGRAM, environ={})).action == "none"
    assert home.entry()["env"] == {"BACKSTORY_HOME": "/mine", "MORE": "1"}


def test_the_old_program_is_removed_by_the_new_one(home: Home) -> None:
    home.install("codex")
    home.uninstall("codex", program=MOVED)
    assert home.tree() == {}


@pytest.mark.parametrize(
    "entry", [{"command": "/else/backstory", "args": ["mcp"]}, {"command": "/opt/a b/backstory", "args": []},
              {"url": "https://x"}, "x", None, 3, []],
)  # fmt: skip
def test_another_server_of_this_name_is_left_alone(home: Home, entry: object) -> None:
    file = home.put(json.dumps({"mcpServers": {"backstory": entry}}).encode())
    before = home.tree()
    for act in (home.install, home.uninstall):
        with pytest.raises((EntryNotOurs, SettingsUnusable)) as refused:
            act()
        assert str(file) in str(refused.value)
    assert home.tree() == before


def test_an_entry_that_a_person_changed_is_not_brought_up_to_date_over_that(home: Home) -> None:
    file = home.put(b"{}")
    home.install()
    file.write_bytes(file.read_bytes().replace(b'"type"', b'"timeout": 9, "type"'))
    edited = file.read_bytes()
    assert home.install().action == "none"
    with pytest.raises(EntryNotOurs):
        home.install(program=MOVED)
    assert file.read_bytes() == edited
    home.uninstall()
    assert file.read_bytes() == b"{}"


# refused --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("agent", "data", "why"),
    [
        ("claude", b'{"mcpServers": []}', "has a mcpServers that is not a table of names"),
        ("claude", b"{", "cannot be read as JSON"),
        ("claude", b"[]", "holds no object"),
        ("claude", b'{"x": "\xff"}', "is not UTF-8 text"),
        ("claude", '{"x": 1}'.encode("utf-16"), "is not UTF-8 text"),
        ("codex", b"a = ", "cannot be read as TOML"),
        ("codex", b"mcp_servers = { y = {} }", "could not be changed in this entry alone"),
        ("codex", b"mcp_servers = []", "has a mcp_servers that is not a table of names"),
    ],
)
def test_settings_of_another_shape_are_left_as_they_are(home: Home, agent: str, data: bytes, why: str) -> None:
    file = home.put(data, agent)
    with pytest.raises(SettingsUnusable) as refused:
        home.install(agent)
    assert str(refused.value).startswith(f"{file} was left as it is: it {why}")
    assert file.read_bytes() == data
    assert not (home.root / "ours" / "installed").exists()


def test_what_is_no_file_is_not_read_and_nobody_waits_for_it(home: Home) -> None:
    os.mkfifo(home.file("claude"))
    (home.file("copilot")).mkdir(parents=True)
    (home.root / "home" / ".codex").write_text("a file")
    for agent in ("claude", "copilot", "codex"):
        with pytest.raises(SettingsUnusable):
            home.install(agent)


def test_a_larger_file_than_any_client_writes_is_not_read(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rewriting, "BYTES_MAX", 10)
    home.put(b'{"x": 12345678}')
    with pytest.raises(SettingsUnusable):
        home.install()


def test_an_agent_without_such_settings_is_refused_with_those_that_have_them(home: Home) -> None:
    with pytest.raises(AgentWithout) as refused:
        home.install("ah")
    assert "claude, codex, copilot" in str(refused.value)
    with pytest.raises(UnknownAgent):
        home.install("nonesuch")


def test_comments_stay_and_a_client_that_does_not_read_them_is_named(home: Home) -> None:
    text = b'{\n  // mine\n  "x": 1,\n}\n'
    for agent in ("claude", "copilot"):
        home.put(text, agent)
    assert any("Claude Code reads plain JSON" in each for each in home.install("claude").remarks)
    assert home.install("copilot").remarks == ()
    for agent in ("claude", "copilot"):
        assert b"// mine" in home.file(agent).read_bytes()
        home.uninstall(agent)
        assert home.file(agent).read_bytes() == text


# files ----------------------------------------------------------------------------------------------------------


def test_a_link_stays_one_and_what_it_leads_to_is_written(home: Home) -> None:
    target = home.root / "dotfiles" / "claude.json"
    target.parent.mkdir()
    target.write_bytes(JSON_TEXT)
    home.file("claude").symlink_to("../dotfiles/claude.json")
    home.install()
    assert home.file("claude").is_symlink()
    assert b"/opt/a b" in target.read_bytes()
    home.uninstall()
    assert (home.file("claude").is_symlink(), target.read_bytes()) == (True, JSON_TEXT)


def test_a_link_to_nothing_gets_its_file_and_stays_when_that_goes(home: Home) -> None:
    target = home.root / "dotfiles" / "claude.json"
    home.file("claude").symlink_to(target)
    home.install()
    assert target.is_file()
    home.uninstall()
    assert (home.file("claude").is_symlink(), target.parent.exists()) == (True, False)


def test_a_projects_link_does_not_lead_us_out_of_the_project(home: Home) -> None:
    outside = home.put(b"{}")
    home.file("claude", "project").symlink_to(outside)
    (home.root / "project" / ".codex").symlink_to(home.root / "home")
    for agent in ("claude", "codex"):
        with pytest.raises(SettingsUnusable) as refused:
            home.install(agent, "project")
        assert "leads out of the project" in str(refused.value)
    assert outside.read_bytes() == b"{}"


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o660])
def test_a_file_keeps_its_mode(home: Home, mode: int) -> None:
    file = home.put(JSON_TEXT)
    file.chmod(mode)
    home.install()
    assert file.stat().st_mode & 0o777 == mode
    home.uninstall()
    assert file.stat().st_mode & 0o777 == mode


def test_what_is_made_for_a_person_is_for_them_alone_and_what_is_made_for_a_project_is_not(home: Home) -> None:
    os.umask(before := os.umask(0o022))
    try:
        os.umask(0o022)
        home.install("codex")
        home.install("codex", "project")
    finally:
        os.umask(before)
    modes = [home.file("codex", scope).stat().st_mode & 0o777 for scope in ("user", "project")]
    folders = [home.file("codex", scope).parent.stat().st_mode & 0o777 for scope in ("user", "project")]
    assert (modes, folders) == ([0o600, 0o644], [0o700, 0o755])


def test_a_read_only_file_is_left_alone(home: Home) -> None:
    file = home.put(JSON_TEXT)
    file.chmod(0o444)
    with pytest.raises(SettingsReadOnly):
        home.install()
    assert file.read_bytes() == JSON_TEXT
    file.chmod(0o644)
    home.install()
    file.chmod(0o400)
    with pytest.raises(SettingsReadOnly):
        home.uninstall()
    assert b"/opt/a b" in file.read_bytes()


@pytest.mark.parametrize("data", [JSON_TEXT, None])
def test_what_another_program_wrote_between_reading_and_writing_is_kept(home: Home, data: bytes | None) -> None:
    if data is not None:
        home.put(data)
    change = home.servers.plan_install("claude", "user", PROGRAM)
    file = home.put(b'{"newer": true}')
    with pytest.raises(SettingsChanged):
        home.servers.perform(change)
    assert file.read_bytes() == b'{"newer": true}'
    assert [each.name for each in file.parent.iterdir()] == [".claude.json"]
    home.install()
    change = home.servers.plan_uninstall("claude", "user", PROGRAM)
    file.write_bytes(file.read_bytes() + b"\n")
    with pytest.raises(SettingsChanged):
        home.servers.perform(change)
    home.uninstall()
    assert file.read_bytes() == b'{"newer": true}\n'


def test_a_file_that_appears_after_the_last_look_is_not_replaced(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    real_link = os.link

    def late(source: Path, target: Path) -> None:
        target.write_bytes(b'{"newer": true}')
        real_link(source, target)

    monkeypatch.setattr("os.link", late)
    with pytest.raises(SettingsChanged):
        home.install()
    assert home.file("claude").read_bytes() == b'{"newer": true}'


def test_a_file_of_ours_that_somebody_filled_at_the_last_moment_is_not_removed(home: Home) -> None:
    home.install()
    change = home.servers.plan_uninstall("claude", "user", PROGRAM)
    home.put(b'{"newer": true}')
    with pytest.raises(SettingsChanged):
        home.servers.perform(change)
    assert home.file("claude").read_bytes() == b'{"newer": true}'


STEPS = ("open", "fchmod", "fsync", "replace", "link")


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("data", [JSON_TEXT, None])
def test_a_failure_at_any_step_leaves_the_file_as_it_was(
    home: Home, data: bytes | None, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if data is not None:
        home.put(data)
    before, change = home.tree(), home.servers.plan_install("claude", "user", PROGRAM)

    def fail(*args: object, **options: object) -> None:
        raise OSError(28, "No space left on device")

    real_open = os.open
    with monkeypatch.context() as failing:
        if step == "open":
            failing.setattr(
                "os.open", lambda path, *rest: fail() if str(path).endswith(".part") else real_open(path, *rest)
            )
        elif step == "replace":
            failing.setattr(Path, "replace", fail)
        else:
            failing.setattr(f"os.{step}", fail)
        try:
            home.servers.perform(change)
        except BackstoryError as refused:
            assert home.tree() == before
            assert refused.exit_code == 74
            assert list((home.root / "ours" / "installed").glob("*.json")) == []
        else:
            # A step that this file did not need, or that has another way.
            assert b"/opt/a b" in home.file("claude").read_bytes()
    assert not list(home.root.rglob(".backstory-*"))


def test_a_note_of_a_file_that_was_never_written_does_no_harm(home: Home) -> None:
    home.put(JSON_TEXT)
    change = home.servers.plan_install("claude", "user", PROGRAM)
    assert change.note is not None
    home.servers._notes.write(change.note)  # as a crash leaves it
    with pytest.raises(NotInstalled):
        home.uninstall()
    home.install()
    home.uninstall()
    assert home.file("claude").read_bytes() == JSON_TEXT


def test_a_note_that_cannot_be_read_is_named(home: Home) -> None:
    home.install()
    (note,) = (home.root / "ours" / "installed").iterdir()
    note.write_text("{")
    with pytest.raises(InstallNoteUnreadable) as refused:
        home.uninstall()
    assert str(note) in str(refused.value)


# where ----------------------------------------------------------------------------------------------------------


def test_the_agents_own_variables_say_where_its_settings_are(tmp_path: Path) -> None:
    places = {
        "CLAUDE_CONFIG_DIR": tmp_path / "c", "CODEX_HOME": tmp_path / "x", "COPILOT_HOME": tmp_path / "p",
    }  # fmt: skip
    home = Home(tmp_path, **{name: str(place) for name, place in places.items()})
    for agent in ("claude", "codex", "copilot"):
        home.install(agent)
    made = {str(each.relative_to(tmp_path)) for each in tmp_path.rglob("*") if each.is_file()}
    assert made >= {"c/.claude.json", "x/config.toml", "p/mcp-config.json"}


def test_settings_of_an_old_build_are_changed_where_the_client_reads_them(home: Home) -> None:
    old = home.root / "home" / ".claude" / ".config.json"
    old.parent.mkdir()
    old.write_text('{"x": 1}')
    home.install()
    assert "backstory" in old.read_text()
    assert not home.file("claude").exists()


def test_two_files_have_two_notes(home: Home) -> None:
    home.install("claude")
    home.install("claude", "project")
    home.uninstall("claude")
    assert home.file("claude", "project").is_file()
    home.uninstall("claude", "project")
    assert home.tree() == {}


def test_a_change_says_the_lines_that_come_and_no_others(home: Home) -> None:
    home.put(b'{\n  "secret": "s",\n  "mcpServers": {\n    "y": {}\n  }\n}\n')
    change = home.install()
    (edit,) = change.edits
    assert (edit.line, edit.removed, edit.added[0], edit.added[-1]) == (4, (), '    "backstory": {', "    },")
    (gone,) = home.uninstall().edits
    assert gone == structs.replace(edit, removed=edit.added, added=())
