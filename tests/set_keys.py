"""Writes the table of keys into docs/screen.md: ``python -m tests.set_keys``."""

from __future__ import annotations

from pathlib import Path

from backstory.cli.tui.actions import (
    ACTIONS,
    ANYWHERE,
    COMPARED,
    FIELD,
    LINE,
    PANE,
    PROMPT,
    QUESTION,
    REPORTS,
    SESSION,
    SESSIONS,
    TREE,
)

DOCUMENT = Path(__file__).parents[1] / "docs" / "screen.md"
HEADING = "## Keys\n\n"
PLACES = {
    (SESSIONS,): "In the list of sessions", (FIELD,): "In its field", (SESSION, PANE): "In a session",
    (TREE,): "At the branches of a session", (COMPARED,): "Where two are compared",
    (PROMPT,): "While a prompt is written", (QUESTION,): "At a question", (LINE,): "In a field of one line",
    (REPORTS,): "In the reports", (ANYWHERE,): "Anywhere else",
}  # fmt: skip


def table() -> str:
    """The keys of each place, as Markdown."""
    rows = ["| where | keys | |", "|---|---|---|"]
    for places, where in PLACES.items():
        for each in (each for each in ACTIONS if each.place in places):
            rows.append(f"| {where} | {' · '.join(f'`{key}`' for key in each.shown.split())} | {each.help} |")
            where = ""
    return "\n".join(rows) + "\n"


def main() -> None:
    """Write the table."""
    before = DOCUMENT.read_text("utf-8").partition(HEADING)[0]
    DOCUMENT.write_text(before + HEADING + table(), "utf-8")


if __name__ == "__main__":
    main()
