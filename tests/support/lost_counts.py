"""Logs of every agent that counts tokens, made of the usages that they are to have."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

THREAD = "0195b3c4-7b1f-7c3d-9a77-1f2e3d4c5b6a"
CLAUDE = {
    "input_tokens": 5, "output_tokens": 7, "cache_read_input_tokens": 1, "cache_creation_input_tokens": 2,
}  # fmt: skip
CODEX = {"input_tokens": 9, "cached_input_tokens": 1, "output_tokens": 7, "reasoning_output_tokens": 2}
COPILOT = {
    "inputTokens": 9, "outputTokens": 7, "cacheReadTokens": 1, "cacheWriteTokens": 2, "reasoningTokens": 3,
}  # fmt: skip
AH = {"input_tokens": 5, "output_tokens": 7, "cache_read_input_tokens": 1, "cache_creation_input_tokens": 2}
FIELDS = [
    *(("claude", each) for each in CLAUDE),
    *(("codex", each) for each in CODEX),
    *(("copilot", each) for each in COPILOT),
    *(("totals", each) for each in COPILOT),
    *(("ah", each) for each in AH),
    *(("ah messages", each) for each in ("input_tokens", "output_tokens")),
]
NEEDED = ("input_tokens", "output_tokens", "inputtokens", "outputtokens")


def claude(usages: list[Any]) -> list[Any]:
    prompt = {"type": "user", "uuid": "q", "sessionId": "s", "message": {"role": "user", "content": "go"}}
    answers = [
        {
            "type": "assistant", "uuid": f"a{n}", "sessionId": "s",
            "message": {"id": f"m{n}", "model": "m", "content": "ok", "stop_reason": "end_turn", "usage": each},
        }
        for n, each in enumerate(usages)
    ]  # fmt: skip
    return [prompt, *answers]


def codex(usages: list[Any]) -> list[Any]:
    counts = [{"type": "token_count", "info": {"total_token_usage": each, "last_token_usage": each}} for each in usages]
    told = [{"type": "user_message", "message": "go"}, *counts]
    return [
        {"type": "session_meta", "payload": {"id": THREAD, "cwd": "/p"}},
        {"type": "turn_context", "payload": {"turn_id": "t1", "model": "m"}},
        *({"type": "event_msg", "payload": each} for each in told),
    ]


def copilot(usages: list[Any]) -> list[Any]:
    begun = [("session.start", {"sessionId": THREAD}), ("user.message", {"content": "go"})]
    told = [*begun, *(("session.usage_record", {"usage": {"model": "m", **each}}) for each in usages)]
    return [{"type": kind, "id": f"r{n}", "data": data} for n, (kind, data) in enumerate(told)]


def totals(usages: list[Any]) -> list[Any]:
    metrics = {f"m{n}": {"usage": each} for n, each in enumerate(usages)}
    return [*copilot([]), {"type": "session.shutdown", "id": "end", "data": {"modelMetrics": metrics}}]


def ah(usages: list[Any]) -> list[Any]:
    told = [{"event_type": "api_call_end", "details": json.dumps({"model": "m", **each})} for each in usages]
    return [*ah_messages([]), *({"table": "events", "row": {"id": f"e{n}", **row}} for n, row in enumerate(told))]


def ah_messages(usages: list[Any]) -> list[Any]:
    text = [{"block_type": "text", "content": "go"}]
    rows = [{"role": "user"}, *({"role": "assistant", "model": "m", **each} for each in usages)]
    return [
        {"table": "session", "row": {"id": "s"}},
        *(
            {
                "table": "messages",
                "row": {"id": f"m{n}", "parent_id": f"m{n - 1}" if n else None, **row},
                "blocks": text,
            }
            for n, row in enumerate(rows)
        ),
    ]


LOGS = {
    "claude": claude, "codex": codex, "copilot": copilot, "totals": totals, "ah": ah, "ah messages": ah_messages,
}  # fmt: skip
WHOLE = {
    "claude": CLAUDE, "codex": CODEX, "copilot": COPILOT, "totals": COPILOT, "ah": AH, "ah messages": AH,
}  # fmt: skip
AGENTS = {"totals": "copilot", "ah messages": "ah"}
PATHS = {
    "ah": Path("s.ah#s"),
    "azureal": Path("s.azs#s"),
    "claude": Path("s.jsonl"),
    "codex": Path(f"rollout-2026-11-21T21-00-00-{THREAD}.jsonl"),
    "copilot": Path(THREAD) / "events.jsonl",
}
