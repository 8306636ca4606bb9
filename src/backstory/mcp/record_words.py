"""An event of history as words: who said or did what, with what came of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backstory import model
from backstory.derive.essence import changed_lines, essence, result_body, result_facts, without_terminal_codes

if TYPE_CHECKING:
    from backstory.model import Event


def event_words(event: Event) -> str:
    """Return an event's text, after a word for its kind; '' if a reader learns nothing from it.

    >>> event_words(model.UserMessage(content="fix it"))
    'prompt: fix it'
    """
    match event:
        case model.UserMessage(content=text):
            return _said("prompt", text)
        case model.AssistantText(text=text):
            return _said("answer", text)
        case model.Thinking(text=text):
            return _said("thought", text)
        case model.ToolCall():
            return _call(event)
        case model.ToolResult():
            return _result(event)
        case model.Error(message=text):
            return _said("error", text)
        case model.Plan(name=name, content=text):
            return _said(f"plan {name}".rstrip(), text)
        case model.Compacted(summary=text):
            return _said("summary of what came before", text)
        case model.Command(name=name, output=text):
            return _said(f"command {name}".rstrip(), text) or name
        case model.Hook(name=name, output=text):
            return _said(f"hook {name}".rstrip(), text)
    return ""


def _said(what: str, text: str) -> str:
    words = without_terminal_codes(text).strip()
    return f"{what}: {words}" if words else ""


def _call(call: model.ToolCall) -> str:
    changed = "".join(f"\n{sign or '#'} {line}" for sign, line in changed_lines(call))
    return f"call {call.tool_name}: {without_terminal_codes(essence(call))}{changed}".rstrip(": ")


def _result(result: model.ToolResult) -> str:
    facts = result_facts(result)
    facts = f" ({facts})" if facts and len(facts) < 40 else ""
    return f"result{facts}: {without_terminal_codes(result_body(result)).strip()}".rstrip(": ")
