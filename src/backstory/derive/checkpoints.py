"""Summaries that agents put in the place of their own history: their sections, as some agents write them. Pure."""

from __future__ import annotations

import re

from backstory.lazy import lazy_regex

Texts = tuple[str | None, ...]
"""The texts of a checkpoint, in the order of SECTIONS."""
SECTIONS = ("overview", "history", "work_done", "technical_details", "important_files", "next_steps")
SOURCE_TYPES = (
    "checkpoint_overview",
    "checkpoint_history",
    "checkpoint_work_done",
    "checkpoint_technical",
    "checkpoint_files",
    "checkpoint_next_steps",
)
"""The names that a search index has for the sections, in the same order."""
_SECTION = lazy_regex(rf"<({'|'.join(SECTIONS)})>(.*?)</\1>", re.DOTALL)
_LATER_SECTION = lazy_regex(rf"<({'|'.join(SECTIONS[1:])})>(.*?)</\1>", re.DOTALL)
_TITLE = lazy_regex(r"<checkpoint_title>(.*?)</checkpoint_title>", re.DOTALL)


def texts_of(checkpoint: str) -> Texts:
    """The texts of a checkpoint's sections, in the order of SECTIONS; without any, all of it is the overview."""
    sections = {name: text.strip() for name, text in _SECTION.findall(checkpoint)}
    # Only some agents write their summaries in sections.
    if not any(sections.values()):
        sections = {"overview": checkpoint.strip()}
    return tuple(sections.get(name) or None for name in SECTIONS)


def title_of(checkpoint: str) -> str | None:
    """The title that a checkpoint has among its sections."""
    found = _TITLE.search(checkpoint)
    return found.group(1).strip() if found else None


def overview_of(checkpoint: str) -> str:
    """A checkpoint's text without the sections behind its overview, which are found by themselves."""
    return _LATER_SECTION.sub("", checkpoint)
