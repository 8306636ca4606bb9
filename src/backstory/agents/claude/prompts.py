"""Tells apart the texts in the user's place: prompts, commands, and those that nobody typed."""

from __future__ import annotations

import re

from backstory.conversation.context import strip_context
from backstory.lazy import lazy_regex
from backstory.model import Command, Error, Event, Hook

_CLIENT_CONTEXT = lazy_regex(r"<(ide_opened_file|ide_selection|system-reminder)>.*?</\1>\s*", re.DOTALL)
_TAG = lazy_regex(r"</?[a-z-]+>")
_NOTIFICATIONS = (
    "<task-notification>", "<agent-notification>", "<user-prompt-submit-hook>", "<local-command-caveat>",
)  # fmt: skip
_COMMAND_NAME = lazy_regex(r"<command-name>(.*?)</command-name>", re.DOTALL)
_COMMAND_ARGS = lazy_regex(r"<command-args>(.*?)</command-args>", re.DOTALL)


def untyped_event(text: str) -> Event | None:
    """The event for text in the user's place that the user did not type, or None for a prompt."""
    start = text.lstrip()
    if start.startswith("[Request interrupted by user"):
        return Error(message=start, code="interrupted")
    if start.startswith(("<command-name>", "<local-command-", "<bash-input>", "<bash-stdout>", "<bash-stderr>")):
        return command_event(text)
    if start.startswith("Operation stopped by hook:"):
        return Hook(name="stopped", output=start)
    if start.startswith(_NOTIFICATIONS):
        return Hook(name=start[1 : start.index(">")], output=text)
    return None


def typed_prompt(text: str) -> str:
    """A prompt as it was typed: without what the editor, the client or a carried on session put before it."""
    return _expanded_command(text) or strip_context(_CLIENT_CONTEXT.sub("", text))


def is_compaction_summary(text: str) -> bool:
    """Return True if a text is the summary that the client gave the model in place of a conversation."""
    return text.startswith("This session is being continued from a previous conversation")


def command_event(text: str) -> Command:
    """Return the event of a command that the client ran by itself, or of its output."""
    name = _COMMAND_NAME.search(text)
    if name:
        args = _COMMAND_ARGS.search(text)
        return Command(name=f"{name.group(1).strip()} {args.group(1).strip() if args else ''}".strip())
    start = text.lstrip()
    if start.startswith("<bash-input>"):
        return Command(name="! " + _TAG.sub("", text).strip())
    return Command(name="", output=_TAG.sub("", text).strip())


def _expanded_command(text: str) -> str | None:
    """A command that expands to a prompt, as it was typed: ``/review 12``. The agent's own commands do not."""
    if not text.lstrip().startswith("<command-message>"):
        return None
    name = _COMMAND_NAME.search(text)
    args = _COMMAND_ARGS.search(text)
    typed = f"{name.group(1) if name else ''} {args.group(1) if args else ''}".strip()
    return typed or None
