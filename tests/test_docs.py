"""The documents are true: what they name exists."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import apsw
import pytest
from click.testing import CliRunner

import backstory
from backstory import config, errors
from backstory.ask import readonly
from backstory.cli import INTERRUPTED, PIPE_CLOSED, cli
from backstory.cli.failing import kind_of
from backstory.errors import BackstoryError
from backstory.store import open_store
from tests.support.shown_commands import arguments, options

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "backstory"
FILE_FORMAT = (ROOT / "docs" / "file-format.md").read_text("utf-8")
COMING_FROM = (ROOT / "docs" / "coming-from.md").read_text("utf-8")
EXIT_CODES = (ROOT / "docs" / "exit-codes.md").read_text("utf-8")
README = (ROOT / "README.md").read_text("utf-8")


@pytest.fixture(scope="module")
def columns(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """The columns of each table of a store, as SQLite tells them."""
    path = tmp_path_factory.mktemp("docs") / "store.db"
    with open_store(path) as store:
        store.create_session()
    db = apsw.Connection(str(path))
    tables = [row[0] for row in db.execute("select name from sqlite_schema where type = 'table'")]
    return {
        str(table): [row[1] for row in db.execute(f"select * from pragma_table_xinfo('{table}')")]
        for table in tables
        if not str(table).startswith(("search_index_", "sqlite_"))
    }


def section(table: str) -> str:
    found = re.search(rf"^### {table}\b.*?(?=^##)", FILE_FORMAT, re.MULTILINE | re.DOTALL)
    assert found, f"docs/file-format.md has no section about {table}"
    return found.group()


def test_every_table_and_column_of_the_file_is_described(columns: dict[str, list[str]]) -> None:
    hidden = {"search_index", "rank"}
    missing = [
        f"{table}.{column}"
        for table, names in columns.items()
        for column in names
        if column not in hidden and f"`{column}`" not in section(table)
    ]
    assert missing == []


def test_the_column_lists_name_no_column_that_is_not_there(columns: dict[str, list[str]]) -> None:
    for table, names in columns.items():
        listed = re.match(r"### \w+.*?\n(?:\n)?((?:`[a-z_0-9]+`(?:, |,\n|\.\n|\.| ))+)", section(table))
        if listed:
            assert set(re.findall(r"`(\w+)`", listed.group(1))) - set(names) == set()


def test_every_exit_code_is_listed() -> None:
    meanings, _, _ = EXIT_CODES.partition("## Errors as JSON")
    listed = {int(code) for code in re.findall(r"^\| (\d+) \|", meanings, re.MULTILINE)}
    ours = {each.exit_code for each in vars(errors).values() if isinstance(each, type) and hasattr(each, "exit_code")}
    assert listed == ours | {0, 1, 2, INTERRUPTED, PIPE_CLOSED}


def test_every_kind_of_error_is_listed_with_its_exit_code() -> None:
    _, _, kinds = EXIT_CODES.partition("## Errors as JSON")
    listed = {
        (int(code), kind)
        for code, row in re.findall(r"^\| (\d+) \| (.*) \|", kinds, re.MULTILINE)
        for kind in re.findall("`(.+?)`", row)
    }
    known = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, BackstoryError)]
    ours = {(each.exit_code, kind_of(each)) for each in known if each is not BackstoryError}
    assert listed == ours | {(1, "bug"), (2, "usage"), (64, "not_text"), (130, "interrupted")}


def test_the_examples_for_other_programs_run(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with open_store(path) as store:
        session = store.create_session()
        store.append_events(session, [backstory.UserMessage(content="hello")])
    (sql,) = re.findall(r"```sql\n(.*?)```", FILE_FORMAT, re.DOTALL)
    db = apsw.Connection(str(path))
    for statement in filter(str.strip, sql.split(";")):
        assert db.execute(statement).fetchall()


def test_the_python_examples_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (example,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    exec(compile(example, "README.md", "exec"), {})
    assert capsys.readouterr().out == "[1]\n"


def test_the_reader_without_backstory_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with open_store(tmp_path / "store.db") as store:
        store.append_events(store.create_session(), [backstory.UserMessage(content="hello")])
    (example,) = re.findall(r"```python\n(.*?)```", FILE_FORMAT, re.DOTALL)
    scope: dict[str, Any] = {}
    exec(compile(example, "file-format.md", "exec"), scope)
    scope["db"].close()
    assert "{'UserMessage': {'content': 'hello'}}" in capsys.readouterr().out


def test_every_name_of_ours_in_coming_from_exists(columns: dict[str, list[str]]) -> None:
    ours = [row.split("|")[2] for row in COMING_FROM.splitlines() if row.startswith("| ") and "---" not in row]
    known = set(backstory.__all__) | set(columns) | {f"{t}.{c}" for t, names in columns.items() for c in names}
    known |= {name for names in columns.values() for name in names}
    known |= {f"Store.{name}" for name in dir(backstory.Store) if not name.startswith("_")}
    known |= {view.name for view in readonly.views()} | {name for view in readonly.views() for name in view.columns}
    literal = {
        ".backstory/sessions.bks",
        ".backstory/config.toml",
        "store.db",
        "BACKSTORY_HOME",
        "S1",
        "S2",
        "S3",
        "✓",
        "✗",
    }
    for cell in ours:
        for name in re.findall(r"`([^`]+)`", cell):
            if name.startswith(("backstory ", "--")) or name in literal:
                continue
            assert name in known, f"docs/coming-from.md names {name}"


def test_every_option_and_argument_in_coming_from_exists() -> None:
    known, cells = options() | arguments(), [row.split("|")[2:4] for row in COMING_FROM.splitlines() if "|" in row]
    named = {each for _, differs in cells for each in re.findall(r"`(--[a-z-]+)`", differs)}
    named |= {each for ours, _ in cells for each in re.findall(r"\b[A-Z]{3,}\b", re.sub(r"`[^`]*`", "", ours))}
    assert len(named) > 5
    assert named - known == set()


def test_every_option_in_the_readme_exists() -> None:
    typed = re.findall(r"^\$ backstory ([a-z]+)([^|\n]*)", README, re.MULTILINE)
    named = re.findall(r"`backstory ([a-z]+)([^`]*)`", README)
    checked = 0
    for name, words in typed + named:
        shown = CliRunner().invoke(cli, [name, "--help"]).output
        for option in re.findall(r"(?<![\w-])--?[a-zA-Z][a-z-]*", words):
            checked += 1
            assert re.search(rf"(?<![\w-]){option}\b", shown), f"README names {option} of {name}"
    assert checked


def test_every_file_that_the_documents_link_is_there() -> None:
    missing = [
        f"{document.name}: {target}"
        for document in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", document.read_text("utf-8"))
        if "://" not in target and not (document.parent / target).exists()
    ]
    assert missing == []


def test_every_setting_has_a_meaning() -> None:
    assert all(setting.meaning for setting in config.SETTINGS)


ARCHITECTURE = (ROOT / "ARCHITECTURE.md").read_text("utf-8")


def test_every_module_that_the_architecture_names_is_there() -> None:
    named = re.findall(r"`((?:\w+/)+[\w*]+\.\w+)`", ARCHITECTURE)
    assert len(named) > 40
    ours = [name for name in named if "NAME" not in name and not name.startswith(("tests/", "docs/"))]
    assert [name for name in ours if not list(PACKAGE.glob(name))] == []


def test_every_room_is_in_the_architecture() -> None:
    rooms = {each.name for each in PACKAGE.iterdir() if (each / "__init__.py").exists()}
    assert set(re.findall(r"\*\*`(\w+)/`\*\*", ARCHITECTURE)) == rooms


def test_the_architecture_can_be_read_in_one_sitting() -> None:
    assert len(ARCHITECTURE.splitlines()) <= 140


def test_each_rule_of_merging_names_its_test() -> None:
    named = re.findall(r"\| `(test_\w+)` \|", FILE_FORMAT)
    sources = "".join(path.read_text("utf-8") for path in (ROOT / "tests").glob("*/test_merge*.py"))
    assert len(named) > 20
    assert [name for name in named if f"def {name}(" not in sources] == []
