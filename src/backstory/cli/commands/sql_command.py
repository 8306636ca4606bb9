"""``backstory sql``: a person's own queries over one store."""

from __future__ import annotations

import csv
import io
import os
import re
import sys
import threading
from typing import TYPE_CHECKING, Any

import click

from backstory.ask import readonly
from backstory.cli import failing, output
from backstory.cli.options import json_option, limit_option, store_option
from backstory.errors import SqlTooSlow
from backstory.store import ROWS_MAX, TIMEOUT_S
from backstory.workspace.queries import full_form_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from backstory.ask.readonly import Answer
    from backstory.cli.app import App

CELL_COLUMNS_MAX = 120
"""A wider cell of a table is cut; other formats print it in full."""
COLUMN_WIDTH_MIN = 6
ROWS_AT_ONCE = 500
GRACE_S = 3.0
"""SQLite is asked to stop at the deadline; if it does not within this time, the whole command ends."""
WHY_STOPPED = {
    "rows": "The first {rows} rows; --limit shows more.",
    "bytes": "The first {rows} rows: more would exceed {megabytes} MB. Select fewer columns, or substr(…) of them.",
    "time": "The {rows} rows found in {timeout_s:g} s; there may be more: --timeout.",
}
EXAMPLES = {
    "Cost and tokens by week": """\
select strftime('%Y week %W', at) as week, count(*) as turns, round(sum(cost_usd), 2) as usd,
  sum(cost_kind = 'unknown') as without_cost, cast(total(output_tokens) as integer) as output_tokens
from usage group by week order by week desc""",
    "Tokens by model": """\
select model, count(*) as turns, cast(total(input_tokens) as integer) as input,
  cast(total(cache_read_tokens) as integer) as from_cache, cast(total(output_tokens) as integer) as output,
  round(sum(cost_usd), 2) as usd
from usage group by model order by output desc""",
    "Files by churn": """\
select coalesce(relative_path, file_path) as file, count(*) as sessions, sum(touches) as touches
from session_files where action <> 'read' group by 1 order by sessions desc, touches desc limit 20""",
    "The sessions of a pull request": """\
select s.uid, s.agent, s.branch, s.summary, s.updated_at
from session_refs r join sessions s on s.id = r.session_id
where r.ref_type = 'pr' and r.ref_value = '12' order by s.updated_at desc""",
    "Commands that failed": """\
select session_id, '@' || seq as record, exit_code, command, output
from tool_calls where tool = 'SHELL' and is_error and not is_copy order by at desc limit 20""",
    "Which tools fail most": """\
select tool_name, count(*) as calls, sum(is_error) as failed, round(100.0 * sum(is_error) / count(*), 1) as percent
from tool_calls where not is_copy group by tool_name order by failed desc limit 20""",
    "Days at work": """\
select date(timestamp, 'localtime') as day, count(*) as prompts, count(distinct session_id) as sessions
from turns where not is_copy group by day order by day desc limit 14""",
    "Messages about a topic": """\
select s.summary, f.scope, f.source_id, f.text as words
from search_index f join sessions s on s.id = f.session_id
where search_index match 'deadlock' order by rank limit 10""",
}


@click.command("sql")
@click.argument("sql", required=False)
@click.option("--here", is_flag=True, help="Query this project's store instead of the home store.")
@json_option
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV (RFC 4180).")
@click.option("--md", "as_markdown", is_flag=True, help="Print a Markdown table.")
@limit_option("The most rows printed.", default=ROWS_MAX)
@click.option(
    "--timeout", "timeout_s", metavar="SECONDS", type=click.FloatRange(min=0, min_open=True, max=86_400),
    default=TIMEOUT_S, show_default=True, help="The time limit.",
)  # fmt: skip
@click.option("--schema", "is_schema", is_flag=True, help="Print the views and their columns, each with its meaning.")
@click.option("--examples", "is_examples", is_flag=True, help="Print example queries.")
@store_option
@click.pass_obj
def command(
    app: App, sql: str | None, here: bool, as_json: bool, as_csv: bool, as_markdown: bool, limit: int,
    timeout_s: float, is_schema: bool, is_examples: bool,
) -> None:  # fmt: skip
    """Query the store with one read-only SQL statement, given as the argument or on stdin.

    Views and columns: backstory sql --schema. Example queries: backstory sql --examples.
    """
    if as_json + as_csv + as_markdown > 1:
        raise click.UsageError("Use only one of --json, --csv and --md.")
    if is_schema or is_examples:
        if as_json:
            raise click.UsageError("--schema and --examples print text: use them without --json.")
        output.pages(_schema() if is_schema else (f"-- {title}\n{text};\n" for title, text in EXAMPLES.items()))
        return
    if here and app.store_path:
        raise click.UsageError("Use only one of --here and --store.")
    store = app.project_store if here else app.home_store
    statement = _statement(sql)
    with _Watch(timeout_s, as_json=as_json), store:
        answer = store.execute_read_only(statement, limit, timeout_s=timeout_s, full_form=full_form_of(store))
    if as_json:
        _print_json(answer)
    elif as_csv:
        _print_csv(answer)
    else:
        output.pages(_markdown(answer) if as_markdown else _table(answer))
    if answer.stopped_by:
        facts = {"rows": len(answer.rows), "timeout_s": timeout_s, "megabytes": readonly.BYTES_MAX // 1_000_000}
        output.talk(WHY_STOPPED[answer.stopped_by].format(**facts))
    elif not answer.rows:
        output.talk("No rows.")


def _statement(sql: str | None) -> str:
    if sql is not None and sql != "-":
        return sql
    if sql is None and sys.stdin.isatty():
        raise click.UsageError("There is no SQL. Give it as an argument or on stdin, or see --examples.")
    return sys.stdin.buffer.read().decode("utf-8", "surrogateescape").removeprefix("\ufeff")


class _Watch:
    """Ends the command when SQLite does not stop at its deadline, inside one endless function call."""

    def __init__(self, timeout_s: float, *, as_json: bool) -> None:
        self._timeout_s, self._as_json = timeout_s, as_json
        self._timer = threading.Timer(timeout_s + GRACE_S, self._end)
        self._timer.daemon = True

    def __enter__(self) -> None:
        self._timer.start()

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()

    def _end(self) -> None:
        late = SqlTooSlow(self._timeout_s)
        failing.refuse(late, as_json=self._as_json)
        # The query wrote nothing, so there is nothing to finish.
        os._exit(late.exit_code)


def _print_json(answer: Answer) -> None:
    head = {"columns": answer.columns, "truncated": answer.truncated, "elapsed_ms": answer.elapsed_ms}
    output.json_lines(head, "rows", answer.rows)


def _print_csv(answer: Answer) -> None:
    """Print rows as CSV (RFC 4180)."""
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    rows = [answer.columns, *answer.rows]
    for start in range(0, len(rows), ROWS_AT_ONCE):
        writer.writerows([_shown(cell, "") for cell in row] for row in rows[start : start + ROWS_AT_ONCE])
        output.exact(text.getvalue())
        text.seek(0)
        text.truncate()


def _markdown(answer: Answer) -> Iterator[str]:
    yield _markdown_row(answer.columns)
    yield "|" + " --- |" * len(answer.columns)
    for row in answer.rows:
        yield _markdown_row(row)


def _markdown_row(cells: Sequence[Any]) -> str:
    return "| " + " | ".join(_markdown_cell(_shown(cell)) for cell in cells) + " |"


def _markdown_cell(text: str) -> str:
    escaped = re.sub(r"([\\`*_\[\]<>|~&#])", r"\\\1", text)
    return output.clean(re.sub(r"\r\n|\r|\n", "<br>", escaped)).replace("\t", " ")


def _table(answer: Answer) -> Iterator[str]:
    """Rows as aligned columns: numbers to the right, the widest columns cut to the terminal's width."""
    rows = [[output.one_line(_shown(cell), CELL_COLUMNS_MAX) for cell in row] for row in answer.rows]
    heads = [output.one_line(name, CELL_COLUMNS_MAX) for name in answer.columns]
    natural = [max(map(output.columns, column)) for column in zip(heads, *rows, strict=True)]
    widths = _fitted(natural, output.width()) if sys.stdout.isatty() else natural
    is_figure = [
        all(isinstance(cell, int | float | None) for cell in column) for column in zip(*answer.rows, strict=True)
    ] or [False] * len(heads)
    yield output.style(_aligned(heads, widths, is_figure), dim=True)
    for row in rows:
        yield _aligned(row, widths, is_figure)


def _fitted(natural: list[int], room: int) -> list[int]:
    """Widths that together fit: all wider columns are narrowed to the same width."""
    spare = room - 2 * (len(natural) - 1)
    widths, widest = list(natural), max(natural)
    while sum(widths) > spare and widest > COLUMN_WIDTH_MIN:
        widest -= 1
        widths = [min(width, widest) for width in natural]
    return widths


def _aligned(cells: list[str], widths: list[int], is_figure: list[bool]) -> str:
    shown = []
    for cell, width, to_the_right in zip(cells, widths, is_figure, strict=True):
        text = output.one_line(cell, width)
        padding = " " * (width - output.columns(text))
        shown.append(padding + text if to_the_right else text + padding)
    return "  ".join(shown).rstrip()


def _shown(cell: Any, null: str = "NULL") -> str:
    if cell is None:
        return null
    return f"x'{cell.hex()}'" if isinstance(cell, bytes) else str(cell)


def _schema() -> Iterator[str]:
    for view in readonly.views():
        yield f"{output.style(view.name, bold=True)}: {view.meaning}"
        room = max(map(len, view.columns))
        yield from (f"  {name.ljust(room)}  {meaning}" for name, meaning in view.columns.items())
        yield ""
    yield "Functions in addition to SQLite's own:"
    room = max(map(len, readonly.FUNCTIONS))
    yield from (f"  {name.ljust(room)}  {meaning}" for name, meaning in readonly.FUNCTIONS.items())
    yield ""
    yield "The store's tables are main.NAME; they may change from version to version."
