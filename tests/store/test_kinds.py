"""Which kinds of events are words, work or facts is said once, in the model; SQL and Python ask it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from backstory import model
from backstory.model import KINDS, KindClass, kinds_of
from backstory.store import schema

SOURCE = Path(model.__file__).parent
SQL = sorted(SOURCE.rglob("*.sql"))
GROUPS = {name: {each.kind for each in group} for name, group in vars(model).items() if name.endswith("_KINDS")}
_LISTED = re.compile(r"kind in \(([^()]*)\)")
_SINGLE = re.compile(r"kind(?: =|\s+when) '([A-Z]\w+)'")
_QUOTED = re.compile("'(" + "|".join(KINDS) + ")'")
HISTORY = {"store/file/migrate.py"}
"""What earlier versions ran stays as it was."""


def test_every_kind_is_words_work_or_a_fact() -> None:
    assert {each.kind for each in KINDS.values()} == {each.kind for each in kinds_of(*KindClass)}
    assert {each.kind for each in kinds_of(KindClass.DONE)} == {"ToolCall", "ToolResult"}
    assert GROUPS["CONTENT_KINDS"] == {
        "UserMessage", "AssistantText", "Thinking", "ToolCall", "ToolResult", "Error", "Plan", "Compacted",
    }  # fmt: skip


@pytest.mark.parametrize("path", SQL, ids=lambda path: path.name)
def test_kinds_that_sql_lists_are_a_group_of_the_model(path: Path) -> None:
    for listed in _LISTED.findall(path.read_text("utf-8")):
        assert set(_QUOTED.findall(listed)) in GROUPS.values(), listed


@pytest.mark.parametrize("path", SQL, ids=lambda path: path.name)
def test_a_kind_that_sql_names_is_one_of_the_model(path: Path) -> None:
    text = path.read_text("utf-8")
    assert {*_SINGLE.findall(text)} <= KINDS.keys()


def test_a_list_for_sql_holds_the_kinds_of_its_group() -> None:
    lists = {name: text for name, text in vars(schema).items() if name.isupper() and str(text).startswith("(")}
    told = {name: set(_QUOTED.findall(text)) for name, text in lists.items()}
    assert told == {
        "CONTENT": GROUPS["CONTENT_KINDS"], "MESSAGES": GROUPS["MESSAGE_KINDS"], "TEXTS": GROUPS["TEXT_KINDS"],
        "ANSWERS": GROUPS["ANSWER_KINDS"], "FROM_MODEL": GROUPS["MODEL_KINDS"], "TOOLS": GROUPS["TOOL_KINDS"],
        "CALLS": {"ToolCall"}, "READ": GROUPS["READ_KINDS"],
    }  # fmt: skip


def test_no_code_spells_a_kind_where_it_asks_for_one() -> None:
    found = {str(path.relative_to(SOURCE)): spelt_kinds(path) for path in SOURCE.rglob("*.py")}
    assert len(found) > 400
    assert {path for path, kinds in found.items() if kinds} <= HISTORY


def spelt_kinds(path: Path) -> list[str]:
    asked = []
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "kind" in node.value:
            asked += re.findall(r"\bkind(?:\s+in\s+\(|\s*=\s*)'[A-Z]\w+'", node.value)
        if isinstance(node, ast.Compare) and isinstance(node.left, ast.Attribute) and node.left.attr == "kind":
            named = [each.value for each in ast.walk(node) if isinstance(each, ast.Constant)]
            asked += [each for each in named if each in KINDS]
        if isinstance(node, ast.Match) and isinstance(node.subject, ast.Attribute) and node.subject.attr == "kind":
            patterns = [each for case in node.cases for each in ast.walk(case.pattern)]
            named = [each.value for each in patterns if isinstance(each, ast.Constant)]
            asked += [each for each in named if each in KINDS]
    return asked
