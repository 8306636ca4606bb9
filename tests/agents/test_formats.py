"""The keys that an adapter knows, and the data that says so."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec import Struct

from backstory import agents
from backstory.agents import formats
from backstory.agents.formats import Format, KnownKeys, format_of, is_plain, version_in
from tests import set_formats

SET = "PYTHONPATH=src python -m tests.set_formats"
FORM = Format(
    kind=("type", "data.type"), version=("version",), packed=("text",), free=("call[].input",), maps=("files",),
    known=("old", "call[].id"), seen={"a": {"type": [], "call": [], "call[run].input": [], "files": [], "files.*": [],
                                            "files.*.size": [], "text": [], "text[].said": []}},
)  # fmt: skip


class Inner(Struct, rename="camel"):
    file_path: str = ""


class Outer(Struct):
    inner: list[Inner] | None = None


def unknown(record: dict[str, Any], form: Format = FORM) -> list[str]:
    keys = KnownKeys(form)
    return [key.path for key in keys.unknown(keys.kind(record), record)]


@pytest.mark.parametrize(
    ("record", "found"),
    [
        ({"type": "a", "old": 1}, []),
        ({"type": "a", "new": {"below": 1}}, ["new"]),
        ({"type": "a", "call": [{"id": 1, "input": {"any": 1}, "type": "run"}]}, ["call[run].type"]),
        ({"type": "a", "call": [{"input": 1, "type": "walk"}]}, ["call[walk].input", "call[walk].type"]),
        ({"type": "a", "files": {"/home/ann/x.py": {"size": 1, "owner": 1}}}, ["files.*.owner"]),
        ({"type": "a", "files": {"readme": {"size": 1}}}, []),
        ({"type": "a", "text": '{"said": 1, "thought": 2}'}, ["text[].thought"]),
        ({"type": "a", "text": "no JSON"}, []),
        ({"type": "a", "/home/ann": 1}, ["*"]),
    ],
    ids=["known", "below", "element", "other element", "map", "plain in map", "packed", "text", "path"],
)
def test_a_key_that_nobody_named_is_found_where_it_is(record: dict[str, Any], found: list[str]) -> None:
    assert unknown(record) == found


def test_keys_that_an_adapter_decodes_are_known() -> None:
    form = Format(decoded=(f"{__name__}:Outer",), seen={"": {}})
    assert unknown({"inner": [{"filePath": 1, "line": 2}]}, form) == ["inner[].line"]


def test_a_kind_and_a_version_are_the_words_of_a_record() -> None:
    keys = KnownKeys(FORM)
    assert keys.kind({"type": "a", "data": {"type": "b"}}) == "a/b"
    assert (keys.kind({"data": 3}), keys.kind({"type": ["a"]})) == ("", "")
    assert tuple(version_in(keys.form, each) for each in ({"version": "2.1"}, {"version": 3}, {})) == ("2.1", "3", None)


def test_more_keys_than_a_format_has_are_no_more_kept() -> None:
    keys = KnownKeys(FORM)
    found = {key.path for n in range(3 * formats.CHILDREN_MAX) for key in keys.unknown("a", {f"k{n}": 1})}
    assert len(found) <= formats.CHILDREN_MAX + 1
    kinds = set()
    for n in range(2 * formats.KINDS_MAX):
        kinds.add(kind := keys.kind({"type": f"t{n}"}))
        list(keys.unknown(kind, {}))
    assert len(kinds) <= formats.KINDS_MAX + 1


def test_what_is_nested_deeper_than_a_format_is_not_walked() -> None:
    record: dict[str, Any] = {}
    for _ in range(5_000):
        record = {"a": record}
    keys = KnownKeys(Format(), learns=True)
    assert len(list(keys.unknown("", record))) == formats.DEPTH_MAX


def test_a_word_that_is_long_is_no_plain_one() -> None:
    assert is_plain("a" * formats.WORD_CHARS_MAX)
    assert not is_plain("a" * (formats.WORD_CHARS_MAX + 1))


def test_each_agent_of_ours_whose_logs_are_json_says_which_keys_it_knows() -> None:
    assert {*set_formats.names()} >= {
        "claude",
        "codex",
        "copilot",
        "gemini",
        "opencode",
        "kilo",
        "pi",
        "ah",
        "azureal",
        "openhands",
        "vibe",
        "cline",
    }


@pytest.mark.parametrize("name", set_formats.names())
def test_the_keys_of_the_cases_are_those_that_are_listed(name: str) -> None:
    """And what is decoded is there."""
    form = set_formats.form_of(name)
    assert form.seen == msgspec.convert(set_formats.seen(name), dict[str, dict[str, list[str]]]), SET
    assert KnownKeys(form) is not None


@pytest.mark.parametrize("name", set_formats.names())
def test_the_page_of_an_agent_s_records_is_what_its_cases_have(name: str) -> None:
    assert (set_formats.PAGES / f"{name}.md").read_text("utf-8") == set_formats.page(name), SET


def test_no_page_is_of_an_agent_that_is_gone() -> None:
    assert {path.stem for path in set_formats.PAGES.iterdir()} == {*set_formats.names()}


def test_an_agent_of_another_package_has_its_file_beside_its_log(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "toy_format_agent"
    folder.mkdir()
    (folder / "__init__.py").write_text("class Log: ...\n", "utf-8")
    (folder / formats.FILE_NAME).write_text('{"known": ["x"]}', "utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    import toy_format_agent  # type: ignore[import-not-found]

    agent = msgspec.structs.replace(agents.load("pi"), name="toy", log=toy_format_agent.Log())
    monkeypatch.setattr(agents, "load", lambda name: agent)
    found = format_of("toy")
    assert found is not None
    assert found.known == ("x",)
