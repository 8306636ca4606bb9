"""Texts of a record, however they are wrapped."""

from __future__ import annotations

from typing import Any

from backstory.model import encoded


def plain_text(value: Any) -> str:
    """The text of a content value: a string, parts with text, or anything else as JSON."""
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, list):
        return "\n".join(text for text in map(plain_text, value) if text)
    if isinstance(value, dict):
        if isinstance(value.get("text"), str):
            return str(value["text"])
        kind = text_of(value.get("type"))
        if "image" in kind:
            return "[image]"
        if kind == "encrypted_content":
            sealed = text_of(value.get("encrypted_content"))
            return "" if sealed.startswith("gAAAA") else sealed
    return encoded(value).decode()


def text_of(value: Any) -> str:
    return value if isinstance(value, str) else ""


def code_of(info: dict[str, Any] | str | None) -> str:
    """An error's name, whether it stands alone or over its details."""
    return next(iter(info), "") if isinstance(info, dict) else info or ""
