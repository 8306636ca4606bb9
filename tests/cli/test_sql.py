"""``backstory sql`` as people and scripts meet it."""

from __future__ import annotations

import csv
import io
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from backstory.ask import readonly
from backstory.cli.commands.sql_command import EXAMPLES, _fitted
from backstory.cli.output import columns
from backstory.export.full_form import FullForms
from backstory.model import UserMessage
from backstory.store import open_store
from tests.support import make_golden
from tests.support.machines import SMALL
from tests.support.one_of_each import OUTPUT, fill
from tests.support.shell import Shell

if TYPE_CHECKING:
    from tests.support.shell import Done

pytestmark = pytest.mark.slow

DOCUMENT = (Path(__file__).parent.parent.parent / "docs" / "sql.md").read_text("utf-8")
ODD = ["a|b", 'say "no"', "two\nlines", "tab\there", "<b>*x*</b>", "\x1b[31mred", "日本語", ""]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    """A machine whose store has a history; only for tests that change nothing."""
    home = tmp_path_factory.mktemp("told") / "home"
    home.mkdir()
    shell = Shell(home)
    fill(shell.store)
    with open_store(home / "odd.bks") as store:
        session = store.create_session()
        store.append_events(session, [UserMessage(content=each or "empty") for each in ODD])
    return shell


def refused(done: Done, code: int, words: str) -> None:
    assert (done.code, done.out) == (code, "")
    assert words in done.err
    assert done.err.count("\n") == 1


def test_a_table_is_aligned_and_has_no_colour_when_piped(told: Shell) -> None:
    done = told("sql", "select id, name, completed from sessions where id < 3 order by id")
    assert done.out.splitlines() == [
        "id  name           completed",
        " 1  Fix the build       NULL",
        " 2  S2                  NULL",
    ]


def test_the_statement_may_come_from_stdin(told: Shell) -> None:
    asked = "-- how many\nselect count(*) as n\nfrom sessions;\n"
    assert told("sql", "--csv", typed=asked).out == told("sql", "--csv", "-", typed=asked).out == "n\r\n4\r\n"


def test_json_has_columns_rows_and_whether_it_is_cut_off(told: Shell) -> None:
    done = told(
        "sql", "--json", "--limit", "2", "select id, null as a, 1.5 as a, x'00ff' as b from sessions order by id"
    )
    answer = done.json()
    assert answer.pop("elapsed_ms") >= 0
    assert answer == {
        "columns": ["id", "a", "a", "b"],
        "rows": [[1, None, 1.5, "AP8="], [2, None, 1.5, "AP8="]],
        "truncated": True,
    }
    assert "--limit" in done.err


def test_csv_gives_back_what_was_stored(told: Shell) -> None:
    done = told("--store", told.home / "odd.bks", "sql", "--csv", "select turn_index, user_message as p from turns")
    rows = list(csv.reader(io.StringIO(done.out, newline="")))
    assert rows == [["turn_index", "p"], *([str(n), text or "empty"] for n, text in enumerate(ODD))]
    assert done.out.startswith("turn_index,p\r\n")


def test_markdown_has_a_line_for_each_row_whatever_is_in_it(told: Shell) -> None:
    done = told("--store", told.home / "odd.bks", "sql", "--md", "select user_message as p from turns")
    lines = done.out.splitlines()
    assert lines[:3] == ["| p |", "| --- |", r"| a\|b |"]
    assert r"| \<b\>\*x\*\</b\> |" in lines
    assert "| two<br>lines |" in lines
    assert len(lines) == 2 + len(ODD)
    assert "\x1b" not in done.out


def test_a_table_shows_control_characters_and_counts_wide_letters(told: Shell) -> None:
    done = told("--store", told.home / "odd.bks", "sql", "select user_message as p, 'x' as x from turns")
    assert "\\x1b[31mred" in done.out
    assert len({columns(line) for line in done.out.splitlines()}) == 1


def test_a_long_cell_is_cut_in_the_table_only(told: Shell) -> None:
    asked = "select printf('%.*c', 5000, 'x') as long"
    assert len(told("sql", asked).out.splitlines()[1]) < 200
    assert "x" * 5000 in told("sql", "--md", asked).out
    assert told("sql", "--json", asked).json()["rows"] == [["x" * 5000]]


def test_no_rows_are_said_to_be_none(told: Shell) -> None:
    done = told("sql", "select id from sessions where false")
    assert (done.code, done.out, done.err) == (0, "id\n", "No rows.\n")


def test_a_full_form_is_read_from_the_log(told: Shell) -> None:
    sql = "select event_full(session_id, result_seq) ->> '$.ToolResult.content' from tool_calls where session_id = 1"
    assert told("sql", "--json", sql).json()["rows"] == [[OUTPUT]]


def test_ah_s_blocks_hold_whole_outputs(told: Shell) -> None:
    sql = "select tool_output from content_blocks where block_type = 'tool_result' and session_id = 1"
    assert told("sql", "--json", sql).json()["rows"] == [[OUTPUT]]


def test_full_forms_of_real_logs_are_read(read_once: Shell) -> None:
    sql = (
        "select session_id, seq, part, event_full(session_id, seq, part) from events where kind = 'ToolResult' limit 20"
    )
    rows = read_once("sql", "--json", sql).json()["rows"]
    assert rows
    with open_store(read_once.store) as store:
        forms = FullForms(store)
        for session_id, seq, part, told in rows:
            (stored,) = store.events(session_id, after=(seq, part - 1), limit=1)
            assert json.loads(told)["ToolResult"].get("content", "") == forms.expand(stored).content  # type: ignore[attr-defined]


def test_real_logs_are_in_every_view_of_sessions(read_once: Shell) -> None:
    asked = "select count(*) from {} where session_id in (select id from sessions)"
    for view in ("turns", "events", "tool_calls", "usage", "messages", "content_blocks"):
        assert read_once("sql", "--json", asked.format(view)).json()["rows"][0][0] > 0, view


def test_here_asks_the_project_s_own_store(bare: Shell) -> None:
    with open_store(bare.cwd / ".backstory" / "sessions.bks") as store:
        store.create_session("of the project")
    assert bare("sql", "--here", "--csv", "select name from sessions").out == "name\r\nof the project\r\n"


def test_without_a_store_nothing_is_made(bare: Shell) -> None:
    refused(bare("sql", "select 1"), 66, "backstory ingest")
    assert not bare.store.exists()


def test_an_older_store_is_asked_after_what_the_error_says_was_done(bare: Shell) -> None:
    old = make_golden.derived_earlier(bare.home / "old.bks")
    told = bare("--store", old, "sql", "select 1")
    refused(told, 65, "an earlier version")
    (advised,) = re.findall(r"`backstory (reindex .*?)`", told.err)
    bare.put(*SMALL)
    assert bare(*advised.split()).code == 0
    assert bare("--store", old, "sql", "--csv", "select count(*) from sessions").out == "count(*)\r\n2\r\n"


@pytest.mark.parametrize(
    ("sql", "code", "words"),
    [
        ("delete from main.sessions", 77, "This query is read-only"),
        ("select 1; select 2", 64, "several statements"),
        ("", 64, "no statement"),
        ("select id from nowhere", 64, "no such table: nowhere"),
        ("select zeroblob(1e9)", 65, "16 MB"),
        ("with recursive n(x) as (select 1 union all select x + 1 from n) select count(*) from n", 75, "--timeout"),
    ],
)
def test_what_cannot_be_answered_is_told_in_a_sentence(told: Shell, sql: str, code: int, words: str) -> None:
    refused(told("sql", "--timeout", "0.2", sql), code, words)


@pytest.mark.parametrize(
    "options", [("--json", "--csv"), ("--here", "--store", "x"), ("--limit", "0"), ("--timeout", "0")]
)
def test_options_that_contradict_are_refused(told: Shell, options: tuple[str, ...]) -> None:
    assert told("sql", *options, "select 1").code == 2


def test_bytes_that_are_no_text_are_refused(told: Shell) -> None:
    assert told("sql", b"select '\xff'").code == 64


def test_a_function_that_looks_at_no_clock_is_stopped_with_the_command(told: Shell) -> None:
    hopeless = f"select replace(hex(zeroblob(8000000)), '0', 'a') like '%{'a' * 240}b'"
    asking = (
        "import sys\nfrom backstory.cli import main\nfrom backstory.cli.commands import sql_command\n"
        "sql_command.GRACE_S = 0.1\n"
        f"sys.argv = ['backstory', 'sql', '--timeout', '0.1', {hopeless!r}]\nmain()"
    )
    done = subprocess.run([sys.executable, "-c", asking], env=told.environ, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (75, "")
    assert "returned nothing within 0.1 s" in done.stderr


# the document


def test_the_document_describes_every_column_of_every_view() -> None:
    for view in readonly.views():
        (section,) = re.findall(rf"^### {view.name}\n(.*?)(?=^##|\Z)", DOCUMENT, re.MULTILINE | re.DOTALL)
        assert view.meaning in " ".join(section.split())
        assert dict(re.findall(r"^\| `(\w+)` \| (.+) \|$", section, re.MULTILINE)) == view.columns


def test_the_document_describes_no_other_view() -> None:
    _, views = DOCUMENT.split("## Views\n")
    assert re.findall(r"^### (\w+)$", views, re.MULTILINE) == [each.name for each in readonly.views()]


def test_the_document_has_every_function() -> None:
    assert [name for name in readonly.FUNCTIONS if f"| `{name}` |" not in DOCUMENT] == []


def test_the_document_has_every_example() -> None:
    assert [title for title, sql in EXAMPLES.items() if f"{title}:\n\n```sql\n{sql}\n```" not in DOCUMENT] == []


@pytest.mark.parametrize("sql", re.findall(r"```sql\n(.*?)\n```", DOCUMENT, re.DOTALL))
def test_an_example_of_the_document_gives_rows(told: Shell, sql: str) -> None:
    done = told("sql", "--json", sql)
    assert done.code == 0, done.err
    assert done.json()["rows"]


def test_the_document_s_python_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (example,) = re.findall(r"```python\n(.*?)```\n\n```text\n", DOCUMENT, re.DOTALL)
    (printed,) = re.findall(r"```python\n.*?```\n\n```text\n(.*?)```", DOCUMENT, re.DOTALL)
    exec(compile(example, "sql.md", "exec"), {})
    assert capsys.readouterr().out == printed


@pytest.mark.parametrize("option", ["--schema", "--examples"])
def test_what_is_text_only_is_refused_as_json(bare: Shell, option: str) -> None:
    done = bare("sql", option, "--json")
    assert (done.code, done.out) == (2, "")


def test_the_schema_is_printed_without_a_store(bare: Shell) -> None:
    done = bare("sql", "--schema")
    assert done.code == 0
    for view in readonly.views():
        assert f"{view.name}: {view.meaning}\n" in done.out
        assert all(re.search(rf"^  {column} +\S", done.out, re.MULTILINE) for column in view.columns)


def test_the_examples_are_printed_as_sql(bare: Shell) -> None:
    printed = bare("sql", "--examples").out
    assert [title for title, sql in EXAMPLES.items() if f"-- {title}\n{sql};\n" not in printed] == []


def test_a_wide_table_keeps_its_width_when_piped(told: Shell) -> None:
    done = told("sql", f"select '{'x' * 90}' as a, '{'y' * 90}' as b", COLUMNS="80")
    assert done.out.splitlines()[1] == f"{'x' * 90}  {'y' * 90}"


def test_columns_share_the_room_that_a_terminal_has() -> None:
    assert _fitted([3, 10, 200, 90], 60) == [3, 10, 20, 20]
    assert _fitted([3, 10], 60) == [3, 10]
    assert _fitted([50] * 20, 60) == [6] * 20
