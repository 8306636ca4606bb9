"""Lists for SQL: groups of event kinds, and values as one parameter.

``model`` says which kinds each group has; ``*.sql`` is tested to agree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from backstory import model

if TYPE_CHECKING:
    from collections.abc import Iterable

    from backstory.model import Event


def sql_list(kinds: Iterable[type[Event]]) -> str:
    """Kinds as the right side of an ``in``.

    >>> sql_list([model.Plan, model.Error])
    "('Plan', 'Error')"
    """
    return "(" + ", ".join(f"'{each.kind}'" for each in kinds) + ")"


def json_list(values: Iterable[int | str]) -> str:
    """Values as one parameter, which ``json_each`` takes apart.

    >>> json_list([1, 2])
    '[1,2]'
    """
    return msgspec.json.encode(list(values)).decode()


CONTENT = sql_list(model.CONTENT_KINDS)
MESSAGES = sql_list(model.MESSAGE_KINDS)
TEXTS = sql_list(model.TEXT_KINDS)
ANSWERS = sql_list(model.ANSWER_KINDS)
FROM_MODEL = sql_list(model.MODEL_KINDS)
TOOLS = sql_list(model.TOOL_KINDS)
CALLS = sql_list([model.ToolCall])
READ = sql_list(model.READ_KINDS)
