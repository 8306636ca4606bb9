"""Reads the files beside a log: the workspace, plans, checkpoints."""

from __future__ import annotations

import re
from pathlib import PurePath

import msgspec

from backstory.agents.contract import SidecarContent
from backstory.agents.copilot.places import LOG
from backstory.lazy import lazy_regex
from backstory.model import ToolResult

WORKSPACE = "workspace.yaml"
PLAN = "plan.md"
BESIDE = frozenset({WORKSPACE, PLAN, "autopilot-objective.json", "client-metadata.json", "vscode.metadata.json"})
MADE = frozenset({"files", "research"})
"""The folders of what a session made, text or not."""
INDEX = "checkpoints/index.md"
_CHECKPOINT = lazy_regex(r"checkpoints/0*(\d{1,9})(?:-[^/]*)?\.md$")
_INDEXED = lazy_regex(r"^\| *(\d{1,9}) *\| *(.*?) *\| *[^|]*\|\s*$", re.MULTILINE)
_YAML_PAIR = lazy_regex(r"([A-Za-z_][A-Za-z0-9_]*):(?: +(.*))?$")
_YAML_BLOCK = lazy_regex(r"[|>][+-]?$")
_YAML_NOT_TEXT = lazy_regex(r"[\[\]{}&*!%@`?,|>#]|-(?: |$)")
_YAML_NOTHING = frozenset({"", "~", "null", "Null", "NULL"})
_TITLE_CHARS_MAX = 1_000
_text_decoder = msgspec.json.Decoder(str)


class Sidecars:
    """See ``contract.SidecarPart``."""

    def log_of(self, below: PurePath) -> PurePath | None:
        session, *rest = below.parts
        match rest:
            case [name] if name in BESIDE:
                pass
            case ["checkpoints", name] if name.endswith(".md"):
                pass
            case [folder, _, *_] if folder in MADE:
                pass
            case _:
                return None
        return PurePath(session, f"{LOG}.jsonl")

    def name_of(self, log: PurePath) -> PurePath:
        return log

    def is_read(self, name: str) -> bool:
        return name in (WORKSPACE, INDEX) or _CHECKPOINT.match(name) is not None

    def read(self, name: str, content: bytes) -> SidecarContent:
        text = content.decode("utf-8", "replace").removeprefix("\ufeff").replace("\r\n", "\n")
        if name == WORKSPACE:
            return _workspace(_flat_yaml(text))
        if name == INDEX:
            titles = {int(number): title.replace("\\|", "|") for number, title in _INDEXED.findall(text)}
            return SidecarContent(checkpoint_titles={number: title for number, title in titles.items() if title})
        found = _CHECKPOINT.match(name)
        if found is None or not text.strip():
            return SidecarContent()
        return SidecarContent(checkpoint=(int(found.group(1)), text))

    def is_searched(self, name: str) -> bool:
        return is_made(name)

    def spilled_to(self, result: ToolResult) -> str | None:
        return None


def is_made(name: str) -> bool:
    """Return True if a companion is a session's own work, not a note about it."""
    return name == PLAN or name.partition("/")[0] in MADE


def workspace_pairs(text: str) -> dict[str, str]:
    return _flat_yaml(text.removeprefix("\ufeff").replace("\r\n", "\n"))


def _workspace(values: dict[str, str]) -> SidecarContent:
    # Once the title stood under "summary"; a name beside one is the user's.
    name, summary = values.get("name", "").strip(), values.get("summary", "").strip()
    return SidecarContent(
        title=(name or summary)[:_TITLE_CHARS_MAX] or None,
        is_title_given=bool(name) and values.get("user_named", "true" if summary else "false") == "true",
        cwd=values.get("cwd") or None,
        repository=values.get("repository") or None,
        branch=values.get("branch") or None,
        host_type=values.get("host_type") or None,
    )


def _flat_yaml(text: str) -> dict[str, str]:
    """The texts of a document of ``key: value`` lines. What is no plain text on one line, or a block, is left out."""
    values: dict[str, str] = {}
    lines = iter(text.split("\n"))
    line = next(lines, None)
    while line is not None:
        found, line = _YAML_PAIR.match(line.rstrip()), next(lines, None)
        block: list[str] = []
        while line is not None and (line.startswith(" ") or not line.strip()):
            block.append(line)
            line = next(lines, None)
        value = _yaml_value((found.group(2) or "").strip(), block) if found else None
        if found and value is not None:
            values.setdefault(found.group(1), value)
    return values


def _yaml_value(given: str, block: list[str]) -> str | None:
    if _YAML_BLOCK.match(given):
        return ("\n" if given[0] == "|" else " ").join(line.strip() for line in block).strip()
    if any(line.strip() for line in block):
        return None
    if given.startswith('"'):
        try:
            return str(_text_decoder.decode(given))
        except (msgspec.DecodeError, RecursionError):
            return None
    if given.startswith("'"):
        inner = given[1:-1].replace("''", "")
        return given[1:-1].replace("''", "'") if len(given) > 1 and given[-1] == "'" and "'" not in inner else None
    plain = given.partition(" #")[0].rstrip()
    return None if plain in _YAML_NOTHING or _YAML_NOT_TEXT.match(plain) or ": " in plain else plain
