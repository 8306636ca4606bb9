"""An entry is added to settings of any layout, and taken away; every other character stays."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstory.agents import json_text
from backstory.agents.contract import ServerFile
from backstory.agents.entries import added, entry_in, has_table, removed
from backstory.agents.text_edit import NotEditable, TextEdit, applied
from tests.support.every import every

JSON = ServerFile(path=Path("x.json"), format="json", table="mcpServers")
TOML = ServerFile(path=Path("x.toml"), format="toml", table="mcp_servers")
NAME = "backstory"
ENTRY: dict[str, Any] = {"command": '/opt/ü b/"x"\\y', "args": ["mcp"], "env": {"A.B": "1"}}


def with_entry(text: str, file: ServerFile) -> tuple[str, str]:
    """A text with the entry, and what was inserted."""
    edit = added(text, file, NAME, ENTRY)
    assert edit.start == edit.end
    return applied(text, [edit]), edit.text


# layout ---------------------------------------------------------------------------------------------------------

SMALL = {"a": 1}
LAYOUTS = {
    "empty": ("", '{\n  "mcpServers": {\n    "backstory": {\n      "a": 1\n    }\n  }\n}\n'),
    "an empty object": ("{}", '{\n  "mcpServers": {\n    "backstory": {\n      "a": 1\n    }\n  }\n}'),
    "an empty object over lines": (
        "{\n}\n", '{\n  "mcpServers": {\n    "backstory": {\n      "a": 1\n    }\n  }\n}\n'
    ),
    "no table": (
        '{\n  "x": 1\n}\n',
        '{\n  "mcpServers": {\n    "backstory": {\n      "a": 1\n    }\n  },\n  "x": 1\n}\n',
    ),
    "an empty table": (
        '{\n    "x": 1,\n    "mcpServers": {}\n}\n',
        '{\n    "x": 1,\n    "mcpServers": {\n        "backstory": {\n            "a": 1\n        }\n    }\n}\n',
    ),
    "another server, tabs": (
        '{\n\t"mcpServers": {\n\t\t"y": {}\n\t}\n}',
        '{\n\t"mcpServers": {\n\t\t"backstory": {\n\t\t\t"a": 1\n\t\t},\n\t\t"y": {}\n\t}\n}',
    ),
    "carriage returns": (
        '{\r\n  "mcpServers": {\r\n    "y": {}\r\n  }\r\n}\r\n',
        '{\r\n  "mcpServers": {\r\n    "backstory": {\r\n      "a": 1\r\n    },\r\n    "y": {}\r\n  }\r\n}\r\n',
    ),
    "one line": ('{"x":1,"mcpServers":{"y":{}}}', '{"x":1,"mcpServers":{"backstory":{"a":1},"y":{}}}'),
    "one line with spaces": (
        '{"x": 1, "mcpServers": {}}\n', '{"x": 1, "mcpServers": {"backstory": {"a": 1}}}\n'
    ),
    "comments": (
        '// all\n{ // mine\n  // of y\n  "mcpServers": { /* here */ // and\n    // y\n    "y": {}, // last,\n  },\n}\n',
        '// all\n{ // mine\n  // of y\n  "mcpServers": { /* here */ // and\n    "backstory": {\n      "a": 1\n    },\n'
        '    // y\n    "y": {}, // last,\n  },\n}\n',
    ),
    "a name in escapes": (
        '{\n  "mcp\\u0053ervers": {\n    "y": "}{"\n  }\n}',
        '{\n  "mcp\\u0053ervers": {\n    "backstory": {\n      "a": 1\n    },\n    "y": "}{"\n  }\n}',
    ),
}  # fmt: skip


@every("case", LAYOUTS)
def test_an_entry_is_laid_out_like_what_stands_around_it(case: str) -> None:
    text, wanted = LAYOUTS[case]
    edit = added(text, JSON, NAME, SMALL)
    assert applied(text, [edit]) == wanted
    is_new = not has_table(text, JSON)
    assert applied(wanted, removed(wanted, JSON, NAME, edit.text, with_table=is_new)) == text


REMOVALS = {
    "the first": (
        '{\n  "mcpServers": {\n    "backstory": {},\n    "y": 1\n  }\n}', '{\n  "mcpServers": {\n    "y": 1\n  }\n}'
    ),
    "the last": (
        '{\n  "mcpServers": {\n    "y": 1,\n    "backstory": {}\n  }\n}', '{\n  "mcpServers": {\n    "y": 1\n  }\n}'
    ),
    "the last, with its comma": (
        '{\n  "mcpServers": {\n    "y": 1,\n    "backstory": {},\n  }\n}', '{\n  "mcpServers": {\n    "y": 1,\n  }\n}'
    ),
    "behind a comment": (
        '{\n  "mcpServers": {\n    "y": 1, // why\n    "backstory": {}\n  }\n}',
        '{\n  "mcpServers": {\n    "y": 1 // why\n  }\n}',
    ),
    "in a line": ('{"mcpServers": {"x": 1, "backstory": {}, "y": 1}}', '{"mcpServers": {"x": 1, "y": 1}}'),
    "at the end of a line": ('{"mcpServers":{"x":1,"backstory":{}}}', '{"mcpServers":{"x":1}}'),
    "alone": ('{\n  "mcpServers": {\n    "backstory": {}\n  }\n}', '{\n  "mcpServers": {}\n}'),
    "beside a comment": (
        '{\n  "mcpServers": {\n    // keep\n    "backstory": {}\n  }\n}', '{\n  "mcpServers": {\n    // keep\n  }\n}'
    ),
}  # fmt: skip


@every("case", REMOVALS)
def test_an_entry_that_was_laid_out_anew_is_removed_with_its_comma(case: str) -> None:
    text, wanted = REMOVALS[case]
    assert applied(text, removed(text, JSON, NAME)) == wanted


def test_a_table_that_was_made_for_the_entry_goes_with_it_and_one_that_was_there_stays() -> None:
    text = '{\n  "x": 1,\n  "mcpServers": {\n    "backstory": {}\n  }\n}'
    assert applied(text, removed(text, JSON, NAME, with_table=True)) == '{\n  "x": 1\n}'
    assert applied(text, removed(text, JSON, NAME)) == '{\n  "x": 1,\n  "mcpServers": {}\n}'
    other = '{"mcpServers": {"backstory": {}, "y": 1}}'
    assert applied(other, removed(other, JSON, NAME, with_table=True)) == '{"mcpServers": {"y": 1}}'


def test_a_comment_in_a_table_that_was_made_for_the_entry_stays_with_the_table() -> None:
    text = '{\n  "mcpServers": {\n    // mine\n    "backstory": {}\n  }\n}'
    assert applied(text, removed(text, JSON, NAME, with_table=True)) == '{\n  "mcpServers": {\n    // mine\n  }\n}'


TABLES = {
    "empty": ("", '[mcp_servers.backstory]\na = 1\n'),
    "no newline at the end": ("# x\nm = 1", "# x\nm = 1\n\n[mcp_servers.backstory]\na = 1\n"),
    "carriage returns": ("m = 1 # c\r\n", "m = 1 # c\r\n\r\n[mcp_servers.backstory]\r\na = 1\r\n"),
    "another server": (
        '[mcp_servers.y]\ncommand = "/y"\n\n\n', '[mcp_servers.y]\ncommand = "/y"\n\n\n[mcp_servers.backstory]\na = 1\n'
    ),
    "a server of dotted keys": (
        "mcp_servers.y.command = '/y'\n", "mcp_servers.y.command = '/y'\n\n[mcp_servers.backstory]\na = 1\n"
    ),
    "comments at the end": ("[a]\nx = 1\n# end\n", "[a]\nx = 1\n# end\n\n[mcp_servers.backstory]\na = 1\n"),
}  # fmt: skip


@pytest.mark.parametrize("case", TABLES)
def test_a_table_is_added_behind_all_and_removed(case: str) -> None:
    text, wanted = TABLES[case]
    edit = added(text, TOML, NAME, SMALL)
    assert applied(text, [edit]) == wanted
    assert applied(wanted, removed(wanted, TOML, NAME, edit.text)) == text


def test_what_a_client_wrote_below_the_table_goes_with_it_and_nothing_else_does() -> None:
    text = (
        'm = 1\n\n[mcp_servers.backstory]\ncommand = "/x" # c\n\n# of z\n[z]\nq = """\n[mcp_servers.backstory]\n"""\n\n'
        '[mcp_servers."backstory".tools.get]\napproval_mode = "approve"\n\n[ mcp_servers . backstory2 ]\nx = 1\n'
    )
    left = 'm = 1\n\n# of z\n[z]\nq = """\n[mcp_servers.backstory]\n"""\n\n[ mcp_servers . backstory2 ]\nx = 1\n'
    with pytest.raises(NotEditable):
        # The lines in the text look like a table: nothing is done rather than something wrong.
        removed(text, TOML, NAME)
    plain = text.replace('[mcp_servers.backstory]\n"""', '"""')
    assert applied(plain, removed(plain, TOML, NAME)) == left.replace('[mcp_servers.backstory]\n"""', '"""')


# what is refused ------------------------------------------------------------------------------------------------


@every(
    ("text", "file", "why"),
    [
        ("{", JSON, "cannot be read as JSON"),
        ('{"a": 1', JSON, "cannot be read as JSON"),
        ("{'a': 1}", JSON, "cannot be read as JSON"),
        ('{"a": 1} x', JSON, "cannot be read as JSON"),
        ("/* open", JSON, "cannot be read as JSON"),
        ("// only a comment", JSON, "cannot be read as JSON"),
        ("[]", JSON, "holds no object"),
        ("null", JSON, "holds no object"),
        ('{"mcpServers": []}', JSON, "has a mcpServers that is not a table of names"),
        ('{"mcpServers": null}', JSON, "has a mcpServers that is not a table of names"),
        ('{"mcpServers": {"a": 1}, "mcpServers": {}}', JSON, "could not be changed in this entry alone"),
        ("[" * 100_000, JSON, "is nested too deeply"),
        ('{"x":' * 100_000, JSON, "is nested too deeply"),
        ("a = ", TOML, "cannot be read as TOML"),
        ("mcp_servers = 3", TOML, "has a mcp_servers that is not a table of names"),
        ("mcp_servers = { y = { command = '/y' } }", TOML, "could not be changed in this entry alone"),
        ("[[mcp_servers]]\nx = 1", TOML, "has a mcp_servers that is not a table of names"),
    ],
)
def test_settings_of_another_shape_are_not_touched(text: str, file: ServerFile, why: str) -> None:
    with pytest.raises(NotEditable) as refused:
        added(text, file, NAME, ENTRY)
    assert str(refused.value).startswith(why)


def test_the_line_that_cannot_be_read_is_named_also_below_comments() -> None:
    with pytest.raises(NotEditable) as refused:
        added('{\n  // a\n  /* b\n  c */ "x": 1,\n  y: 2\n}', JSON, NAME, ENTRY)
    assert "line 5 " in str(refused.value)


@pytest.mark.parametrize(
    "text", ["mcp_servers = { backstory = { command = '/x' } }", "[mcp_servers]\nbackstory = { command = '/x' }\n",
             "[mcp_servers]\nbackstory.command = '/x'\n"],
)  # fmt: skip
def test_an_entry_in_a_form_that_is_not_cut_out_alone_is_not_touched(text: str) -> None:
    assert entry_in(text, TOML, NAME) == ({"command": "/x"},)
    with pytest.raises(NotEditable):
        removed(text, TOML, NAME)


# any text -------------------------------------------------------------------------------------------------------

FILLERS = ["", "", "", " ", "\n", "\n    ", "\r\n\t", "/* c, } */", '// c " {\n', " /**/ "]
KEYS = st.sampled_from(["a", "mcpServers", "b\n", "//", '"', "ü", "backstory2"])
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=5))
VALUES = st.recursive(
    SCALARS, lambda each: st.lists(each, max_size=3) | st.dictionaries(KEYS, each, max_size=3), max_leaves=8
)
SETTINGS = st.builds(
    lambda rest, servers: rest if servers is None else {**rest, "mcpServers": servers},
    st.dictionaries(KEYS.filter(lambda key: key != "mcpServers"), VALUES, max_size=3),
    st.none() | st.dictionaries(KEYS, VALUES, max_size=3),
)


@st.composite
def written(draw: st.DrawFn) -> str:
    """Settings as somebody may have laid them out: spaces, comments and commas anywhere."""

    def fill() -> str:
        return draw(st.sampled_from(FILLERS))

    def write(value: Any) -> str:
        if isinstance(value, dict):
            parts = [f"{fill()}{json.dumps(key)}{fill()}:{fill()}{write(each)}{fill()}" for key, each in value.items()]
            return "{" + joined(parts) + "}"
        if isinstance(value, list):
            return "[" + joined([f"{fill()}{write(each)}{fill()}" for each in value]) + "]"
        return json.dumps(value, ensure_ascii=draw(st.booleans()))

    def joined(parts: list[str]) -> str:
        stray = "," if bool(parts) and draw(st.booleans()) else ""
        return ",".join(parts) + stray + fill()

    return fill() + write(draw(SETTINGS)) + fill()


@pytest.mark.slow
@given(written())
def test_any_json_is_as_it_was_when_the_entry_is_gone(text: str) -> None:
    before, is_new = json_text.parse(text), not has_table(text, JSON)
    edited, inserted = with_entry(text, JSON)
    assert entry_in(edited, JSON, NAME) == (ENTRY,)
    after = json_text.parse(edited)
    assert next(iter(after["mcpServers"])) == NAME
    assert applied(edited, removed(edited, JSON, NAME, inserted, with_table=is_new)) == text
    # The same without knowing what was inserted: the values are as before, and no comment is lost.
    cut = applied(edited, removed(edited, JSON, NAME, with_table=is_new))
    assert json_text.parse(cut) == before
    assert (cut.count("/* c"), cut.count("// c")) == (text.count("/* c"), text.count("// c"))


@given(written(), st.text(max_size=30), st.integers(0, 200))
def test_a_damaged_text_is_refused_or_changed_in_the_entry_alone(text: str, noise: str, at: int) -> None:
    damaged = text[:at] + noise + text[at:]
    try:
        edit = added(damaged, JSON, NAME, ENTRY)
    except NotEditable:
        return
    assert edit == TextEdit(edit.start, edit.start, edit.text)
    assert entry_in(applied(damaged, [edit]), JSON, NAME) == (ENTRY,)


LINES = ["", "# [c]", "[a]", "x = 1", "[mcp_servers.y]", "s = '''", "'''", "l = [", "]", '"a",']


@given(st.lists(st.sampled_from(LINES), max_size=9), st.sampled_from(["\n", "\r\n"]))
def test_any_toml_is_as_it_was_when_the_entry_is_gone(lines: list[str], newline: str) -> None:
    text = newline.join(lines)
    try:
        edited, inserted = with_entry(text, TOML)
    except NotEditable:
        return
    before = tomllib.loads(text)
    assert applied(edited, removed(edited, TOML, NAME, inserted)) == text
    assert tomllib.loads(applied(edited, removed(edited, TOML, NAME))) == before
