"""``mcp install`` and ``skill install`` as people use them: what is shown, what is written, and that it starts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import pytest

from backstory.cli import cli, installing
from backstory.errors import McpNotInstalled
from backstory.export.rewriting import found_file, rewrite
from backstory.workspace.clients.agent_skills import skill_text

if TYPE_CHECKING:
    from tests.support.shell import Done, Shell

pytestmark = pytest.mark.slow

REFUSED, NOT_THERE, IN_THE_WAY, BROKEN, UNAVAILABLE = 64, 66, 73, 65, 69
SCRIPT = Path(sys.executable).with_name("backstory")
PYTHON = [sys.executable, "-P", "-m", "backstory", "mcp"]


def entry(shell: Shell, file: str = ".claude.json") -> dict[str, Any]:
    found: dict[str, Any] = json.loads((shell.home / file).read_bytes())["mcpServers"]["backstory"]
    return found


def started(shell: Shell, command: list[str], cwd: Path, **environ: str) -> dict[str, Any]:
    """What a server says of itself to a client that starts it in a folder, with these variables alone."""
    asked = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    request = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": asked}
    done = subprocess.run(
        command, cwd=cwd, env={"HOME": str(shell.home), "PATH": "/usr/bin:/bin", **environ}, capture_output=True,
        input=f"{json.dumps(request)}\n", text=True, timeout=120, check=True,
    )  # fmt: skip
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[0])["result"]
    return found


def run_as(shell: Shell, command: list[str], *words: str) -> Done:
    from tests.support.shell import Done

    done = subprocess.run([*command, *words], cwd=shell.cwd, env=shell.environ, capture_output=True, timeout=120)
    return Done(done.returncode, done.stdout.decode(), done.stderr.decode())


# what a kill leaves -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words", [("mcp", "install", "claude"), ("mcp", "install", "codex"), ("skill", "install", "claude")]
)
def test_a_copy_that_a_killed_install_left_is_gone_after_the_next(bare: Shell, words: tuple[str, ...]) -> None:
    assert bare(*words).code == 0
    written = [each for each in bare.home.rglob("*") if each.is_file() and "backstory" in each.read_bytes().decode()]
    folders = {each.parent for each in written if not each.is_relative_to(bare.home / "backstory")}
    for folder in folders:
        (folder / ".backstory-0123456789ab.part").write_text('{"token": "heron-7"}')
    assert bare(words[0], "uninstall", *words[2:]).code == 0
    assert bare(*words).code == 0
    assert [*bare.home.rglob("*.part")] == []


def test_a_copy_that_another_install_is_writing_stays(bare: Shell) -> None:
    import fcntl

    left = bare.home / ".backstory-0123456789ab.part"
    with left.open("w") as writing:
        fcntl.flock(writing, fcntl.LOCK_EX)
        assert bare("mcp", "install", "claude").code == 0
        assert left.exists()


# what is shown, and when it is written ---------------------------------------------------------------------------


def test_the_change_is_shown_and_then_written_and_the_second_time_nothing_is(bare: Shell) -> None:
    (bare.home / ".claude.json").write_text('{\n  "token": "heron-7"\n}\n')
    done = bare("mcp", "install", "claude")
    assert done.code == 0
    head, *lines = done.out.splitlines()
    assert head == f"{bare.home}/.claude.json, line 2:"
    assert lines[:2] == ['+   "mcpServers": {', '+     "backstory": {']
    assert all(line.startswith("+ ") for line in lines)
    assert "heron-7" not in done.out + done.err
    assert done.err == f"Written: {bare.home}/.claude.json, the MCP server of Claude Code\n"
    (note,) = (bare.home / "backstory" / "installed").iterdir()
    assert "heron-7" not in note.read_text()
    text = (bare.home / ".claude.json").read_text()
    again = bare("mcp", "install", "claude")
    assert (again.code, again.out) == (0, "")
    assert again.err == f"Nothing to do: it is in {bare.home}/.claude.json already.\n"
    assert (bare.home / ".claude.json").read_text() == text


WAIT = "mcp_optional_startup_grace_ms = 10000"


def test_what_has_a_client_wait_is_shown_before_it_is_written(bare: Shell) -> None:
    shown = bare("mcp", "install", "codex", "--dry-run")
    assert f"+ {WAIT}" in shown.out.splitlines()
    assert not (bare.home / ".codex" / "config.toml").exists()
    assert f"+ {WAIT}" in bare("mcp", "install", "codex").out.splitlines()


def test_what_goes_is_shown_as_going(bare: Shell) -> None:
    bare("mcp", "install", "codex")
    done = bare("mcp", "uninstall", "codex")
    gone = [line for line in done.out.splitlines() if line.startswith("- ")]
    assert gone[:2] == [f"- {WAIT}", "- [mcp_servers.backstory]"]
    assert done.err == f"Removed: {bare.home}/.codex/config.toml, the MCP server of Codex CLI\n"
    assert not (bare.home / ".codex").exists()
    assert bare("mcp", "uninstall", "codex").code == NOT_THERE


@pytest.mark.parametrize("words", [("mcp", "install"), ("skill", "install")])
def test_a_dry_run_writes_nothing(bare: Shell, words: tuple[str, ...]) -> None:
    done = bare(*words, "codex", "--dry-run")
    assert (done.code, "Nothing was written." in done.err, "+ " in done.out) == (0, True, True)
    assert not (bare.home / ".codex").exists()
    assert not (bare.home / "backstory" / "installed").exists()
    bare(*words, "codex")
    undone = bare(words[0], "uninstall", "codex", "--dry-run")
    assert (undone.code, "Nothing was written." in undone.err) == (0, True)
    assert (bare.home / ".codex").exists()


def test_programs_are_told_the_same_as_json(bare: Shell) -> None:
    said = bare("mcp", "install", "copilot", "--json", "--dry-run").json()
    assert said["written"] is False
    said = bare("mcp", "install", "copilot", "--json").json()
    assert (said["agent"], said["scope"], said["action"], said["written"]) == ("copilot", "user", "add", True)
    assert said["file"] == f"{bare.home}/.copilot/mcp-config.json"
    assert (said["command"], said["env"]) == (PYTHON, {"BACKSTORY_HOME": str(bare.home / "backstory")})
    (edit,) = said["edits"]
    assert "\n".join(edit["added_lines"]) == (bare.home / ".copilot/mcp-config.json").read_text().rstrip()
    again = bare("mcp", "install", "copilot", "--json").json()
    assert (again["action"], again["written"], again["edits"]) == ("none", False, [])
    gone = bare("mcp", "uninstall", "copilot", "--json").json()
    assert (gone["action"], gone["written"], gone["edits"][0]["removed_lines"]) == ("remove", True, edit["added_lines"])


def test_a_project_is_its_worktree_and_what_a_person_must_know_is_said(bare: Shell) -> None:
    subprocess.run(["git", "init", "-q", str(bare.cwd)], check=True)
    root, bare.cwd = bare.cwd, bare.cwd / "a" / "b"
    bare.cwd.mkdir(parents=True)
    done = bare("mcp", "install", "claude", "--scope", "project")
    assert (root / ".mcp.json").is_file()
    assert "a path of this machine" in done.err
    assert "asks once" in done.err
    assert "a path of this machine" not in bare("mcp", "install", "claude").err
    bare("mcp", "uninstall", "claude", "--scope", "project")
    assert not (root / ".mcp.json").exists()
    assert (bare.home / ".claude.json").exists()


# what is refused -------------------------------------------------------------------------------------------------


def test_settings_of_another_shape_are_left_alone_and_named(bare: Shell) -> None:
    file = bare.home / ".claude.json"
    file.write_text('{"mcpServers": ["x"]}')
    done = bare("mcp", "install", "claude")
    assert (done.code, done.out) == (BROKEN, "")
    assert f"{file} was left as it is: it has a mcpServers that is not a table of names." in done.err
    assert file.read_text() == '{"mcpServers": ["x"]}'


def test_what_broken_settings_hold_does_not_act_on_a_terminal(bare: Shell) -> None:
    (bare.home / ".codex").mkdir()
    (bare.home / ".codex" / "config.toml").write_text('a = 1\n\x1b[31mx\x07 = "\n')
    done = bare("mcp", "install", "codex")
    assert done.code == BROKEN
    assert not {"\x1b", "\x07"} & {*done.out, *done.err}


def test_another_server_of_this_name_is_left_alone(bare: Shell) -> None:
    text = '{"mcpServers": {"backstory": {"command": "/else"}}}'
    (bare.home / ".claude.json").write_text(text)
    for command in ("install", "uninstall"):
        assert bare("mcp", command, "claude").code == IN_THE_WAY
    assert (bare.home / ".claude.json").read_text() == text


@pytest.mark.parametrize("agent", ["ah", "nonesuch", "\x1b[31m"])
def test_an_agent_that_has_none_or_is_not_known_is_refused(bare: Shell, agent: str) -> None:
    for family in ("mcp", "skill"):
        done = bare(family, "install", agent)
        assert (done.code, "\x1b" in done.err) == (REFUSED, False)


def test_without_the_extra_nothing_is_written_and_it_is_said_first(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", missing)
    with pytest.raises(McpNotInstalled) as refused:
        installing._check_extra()
    assert "pip install 'mcp>=2.3'" in str(refused.value)


# what the client starts ------------------------------------------------------------------------------------------


def test_the_entry_starts_the_server_from_any_folder_with_few_variables(bare: Shell) -> None:
    bare("mcp", "install", "claude")
    found = entry(bare)
    # A project may have folders of these names, which are not to be taken for modules.
    for name in ("mcp", "backstory"):
        (bare.cwd / name).mkdir()
        (bare.cwd / name / "__init__.py").write_text("raise SystemExit('a project was imported')")
    said = started(bare, [found["command"], *found["args"]], bare.cwd, **found["env"])
    assert said["serverInfo"]["name"] == "backstory"


def test_an_installed_program_is_named_by_its_own_path_with_spaces_and_links(bare: Shell) -> None:
    folder = bare.home / "my programs"
    folder.mkdir()
    (folder / "backstory").symlink_to(SCRIPT)
    for command in ([str(folder / "backstory")], ["../my programs/backstory"]):
        done = run_as(bare, command, "mcp", "install", "codex")
        assert done.code == 0, done.err
    (found,) = tomllib.loads((bare.home / ".codex/config.toml").read_text())["mcp_servers"].values()
    assert (found["command"], found["args"]) == (str(folder / "backstory"), ["mcp"])
    assert started(bare, [found["command"], *found["args"]], bare.cwd, **found["env"])["serverInfo"]
    assert run_as(bare, [str(folder / "backstory")], "mcp", "uninstall", "codex").code == 0


def test_a_program_that_a_client_could_not_start_is_not_written(bare: Shell) -> None:
    copied = bare.home / "copy"
    copied.mkdir()
    (copied / "backstory").write_text(f"#!{sys.executable}\nimport os\nassert os.environ['ONLY_HERE']\n"
                                      "from backstory.__main__ import main\nmain()\n")  # fmt: skip
    (copied / "backstory").chmod(0o755)
    bare.environ["ONLY_HERE"] = "1"
    done = run_as(bare, [str(copied / "backstory")], "mcp", "install", "claude")
    assert (done.code, done.out) == (UNAVAILABLE, "")
    assert "KeyError: 'ONLY_HERE'" in done.err
    assert not (bare.home / ".claude.json").exists()


def test_variables_that_lead_to_stores_and_logs_are_in_the_entry_and_no_others(bare: Shell) -> None:
    bare.environ |= {"CODEX_HOME": str(bare.home / "cx"), "SECRET_KEY": "s-1", "XDG_DATA_HOME": "/x"}
    bare("mcp", "install", "claude")
    assert entry(bare)["env"] == {
        "BACKSTORY_HOME": str(bare.home / "backstory"), "CODEX_HOME": str(bare.home / "cx"),
    }  # fmt: skip


def test_a_home_that_was_named_from_the_folder_is_found_from_others(bare: Shell) -> None:
    bare("mcp", "install", "claude", BACKSTORY_HOME="there")
    assert entry(bare)["env"] == {"BACKSTORY_HOME": str(bare.cwd / "there")}


def test_where_nothing_is_set_nothing_is_in_the_entry(bare: Shell) -> None:
    bare.environ.pop("BACKSTORY_HOME")
    bare("mcp", "install", "claude")
    assert entry(bare)["env"] == {}


# the skill -------------------------------------------------------------------------------------------------------


def test_the_skill_is_put_where_the_client_looks_and_taken_away(bare: Shell) -> None:
    done = bare("skill", "install", "codex")
    file = bare.home / ".codex/skills/backstory/SKILL.md"
    assert file.read_text() == skill_text() == bare("skill", "show").out
    assert [line[2:] for line in done.out.splitlines()[1:]] == skill_text().splitlines()
    assert f"Written: {file}, the skill of Codex CLI" in done.err
    assert "Nothing to do" in bare("skill", "install", "codex").err
    assert f"Removed: {file}" in bare("skill", "uninstall", "codex").err
    assert not (bare.home / ".codex").exists()


def skills_alone(tmp_path: Path) -> str:
    """Return a folder of packages with an agent in it whose client reads skills, and knows no MCP servers."""
    code = """from backstory.agents.contract import Agent


class Skills:
    def folder(self, environ, home, project):
        return (project or home) / ".lark" / "skills"


class Log:
    def roots(self, environ, home):
        return []


AGENT = Agent(name="lark", title="Lark", log=Log(), skills=Skills())
"""
    about = tmp_path / "site" / "lark_agent-1.0.dist-info"
    about.mkdir(parents=True)
    (about.parent / "lark_agent.py").write_text(code)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: lark-agent\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[backstory.agents]\nlark = lark_agent\n")
    return str(about.parent)


def test_an_agent_without_mcp_gets_the_skill_and_loses_it_again(bare: Shell, tmp_path: Path) -> None:
    file = bare.home / ".lark/skills/backstory/SKILL.md"
    bare.environ["PYTHONPATH"] = skills_alone(tmp_path)
    done = run_as(bare, PYTHON, "install", "lark")
    assert (done.code, file.is_file()) == (0, True), done
    assert file.read_text() == skill_text()
    assert "Lark has no MCP settings that can be written from here: it gets the skill" in done.err
    assert f"Written: {file}, the skill of Lark" in done.err
    said = run_as(bare, PYTHON, "uninstall", "lark", "--json").json()
    assert (said["action"], said["file"], said["written"]) == ("remove", str(file), True)
    assert not (bare.home / ".lark").exists()


def test_a_program_that_is_not_on_path_is_told_of(bare: Shell) -> None:
    assert "not on PATH" in bare("skill", "install", "claude", PATH="/usr/bin:/bin").err
    (bare.home / "bin").mkdir()
    (bare.home / "bin" / "backstory").symlink_to(SCRIPT)
    found = f"{bare.home / 'bin'}:{os.environ['PATH']}"
    assert "not on PATH" not in bare("skill", "install", "copilot", PATH=found).err


def commands_taught() -> list[list[str]]:
    lines = [line.partition(" #")[0].split() for line in skill_text().splitlines() if line.startswith("backstory ")]
    return [line[1:] for line in lines]


def test_the_skill_teaches_searching_reading_and_blaming() -> None:
    assert {line[0] for line in commands_taught()} == {"search", "show", "report"}


@pytest.mark.parametrize("line", commands_taught(), ids=" ".join)
def test_every_command_of_the_skill_is_one_with_these_options(line: list[str]) -> None:
    command: click.Command | None = cli
    words, context = list(line), click.Context(cli)
    while isinstance(command, click.Group) and words:
        command = command.get_command(context, words.pop(0))
    assert command is not None
    known = {name for param in command.params for name in param.opts}
    assert {word for word in words if word.startswith("-")} <= known


def test_the_commands_of_the_skill_find_and_read_what_it_says_they_do(read_once: Shell) -> None:
    (fields,) = [line for line in skill_text().splitlines() if line.startswith("- The best hit")]
    (hit, *_) = read_once("search", "--json", "the").json()["hits"]
    assert set(fields.replace(",", "").split("`")[3::2]) <= hit.keys()
    for line in commands_taught():
        if line[0] == "show":
            words = [
                hit["label"] if word == "SESSION" else f"@{hit['seq']}" if word[0] == "@" else word for word in line
            ]
            done = read_once(*words)
            assert (done.code, bool(done.out)) == (0, True), line
    assert read_once("search", "--json", "nonesuchword").code == 1


def test_every_option_that_the_skill_names_is_one_of_search() -> None:
    command = cli.get_command(click.Context(cli), "search")
    assert command is not None
    known = {name for param in command.params for name in param.opts}
    (narrow,) = [line for line in skill_text().splitlines() if line.startswith("- Narrow it")]
    named = {part.split()[0] for part in narrow.split("`")[1::2]}
    assert named
    assert named <= known


def test_a_file_system_without_locks_is_written_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_file: object, _how: int) -> None:
        raise OSError("no locks available")

    monkeypatch.setattr("fcntl.flock", refuse)
    rewrite(found_file(tmp_path / "settings.json"), b"{}")
    assert [(each.name, each.read_bytes()) for each in tmp_path.iterdir()] == [("settings.json", b"{}")]
