"""A count that an agent's log lacks, from the log to what commands print: no total with a part missing is whole."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.lost_counts import FIELDS, LOGS, NEEDED, PATHS, WHOLE

if TYPE_CHECKING:
    from tests.support.shell import Shell

pytestmark = pytest.mark.slow

DAY = "2026-10-05T10:00:00.000Z"
MODELS = {"claude": "claude-opus-4-5-20251101", "codex": "gpt-5.5"}
LACKING = [
    *((kind, name, bad) for kind, name in FIELDS for bad in (-1, 10**23) if kind in MODELS),
    *((kind, name, None) for kind, name in FIELDS if kind in MODELS and name in NEEDED),
]


def records(kind: str, number: int, name: str | None, bad: int | None) -> bytes:
    """A log of two requests, the last of which lacks a count or has one that cannot be kept."""
    usages: list[dict[str, Any]] = [
        {each: count * (n if kind == "codex" else 1) for each, count in WHOLE[kind].items()} for n in (1, 2)
    ]
    for each in usages if kind == "claude" else ():
        # Of what a cache holds for an hour more is to pay.
        each["cache_creation"] = {"ephemeral_5m_input_tokens": 2}
    if name is not None:
        usages[-1][name] = bad
    lines = [json.dumps({"timestamp": DAY, "cwd": "/p", **each}) for each in LOGS[kind](usages)]
    text = "".join(f"{each}\n" for each in lines).replace('"m"', json.dumps(MODELS[kind]))
    # Ids of records and turns are those of their session.
    for own in ('"s"', '"q"', '"a0"', '"a1"', '"m0"', '"m1"', '"t1"'):
        text = text.replace(own, json.dumps(f"{own[1:-1]}-{number}"))
    return text.replace("1f2e3d4c5b6a", f"{number:012}").encode()


def put(bare: Shell, kind: str, number: int, data: bytes) -> None:
    folder = bare.home / (".claude/projects/p" if kind == "claude" else ".codex/sessions/2026/10/05")
    name = f"s-{number}.jsonl" if kind == "claude" else PATHS[kind].name.replace("1f2e3d4c5b6a", f"{number:012}")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data)


def printed(bare: Shell, *words: str) -> Any:
    done = bare(*words)
    assert done.code == 0, done.err
    return done.json()


def test_no_command_says_that_a_total_is_whole_which_lacks_a_count(bare: Shell) -> None:
    for number, (kind, name, bad) in enumerate(LACKING):
        put(bare, kind, number, records(kind, number, name, bad))
    for number, kind in enumerate(MODELS, len(LACKING)):
        put(bare, kind, number, records(kind, number, None, None))
    assert bare("ingest").code == 0
    listed = printed(bare, "list", "--all", "--json", "-n", "100")
    kinds = [each["cost_kind"] for each in listed]
    assert (len(kinds), kinds.count("computed"), kinds.count("exact")) == (len(LACKING) + 2, 2, 0)
    for each in listed:
        (turn,) = printed(bare, "show", "-S", each["uid"], "--json")["turns"]
        is_whole = each["cost_kind"] == "computed"
        assert (turn["tokens_source"], turn["cost_kind"]) == ("reported" if is_whole else "partial", each["cost_kind"])
        assert (turn["cost_usd"] is None, each["cost_usd"] is None) == (not is_whole, not is_whole)
    counted = printed(bare, "stats", "--all", "--json", "--by", "agent")
    assert counted["total"]["turns_with_partial_tokens"] == len(LACKING)
    assert (counted["total"]["cost_usd"], counted["total"]["cost_kind"]) == (None, "lower bound")
    assert [(each["turns"], each["cost_usd"]) for each in counted["groups"]] == [(11, None)] * 2
    out = bare.home / "out.jsonl"
    assert bare("export", "--all", "--format", "json", "-o", str(out)).code == 0
    sources = [line.count('"tokens_source":"partial"') for line in out.read_text().splitlines()]
    assert sum(sources) == len(LACKING)
