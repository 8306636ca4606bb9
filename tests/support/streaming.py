"""Reading recorded runs in tests: what one printed, and what came of it in a form that a person can review."""

from __future__ import annotations

import json
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct, field

from backstory import agents
from backstory.agents.contract import Ending, Exit, RunPart, Streamed

if TYPE_CHECKING:
    from backstory.model import Event

STREAMS = Path(__file__).parent.parent / "agents" / "streams"


class Run(Struct):
    """All that a run said."""

    lines: list[bytes]
    streamed: list[Streamed]
    events: list[Event]
    ending: Ending
    native_id: str | None
    unknown: dict[str, int]
    told_on_stderr: list[Event] = field(default_factory=list)

    def all(self, kind: type[Event]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


def runnable(agent: str) -> RunPart:
    run = agents.load(agent).run
    assert run is not None
    return run


def ran(agent: str, lines: list[bytes], exit: Exit | None = None, stderr: tuple[bytes, ...] = ()) -> Run:
    """A run that printed ``lines`` and ended with code 0, unless ``exit`` says otherwise."""
    reader = runnable(agent).stream_reader()
    streamed = [reader.read(line) for line in lines]
    told = [event for line in stderr for event in reader.stderr(line)]
    return Run(
        lines=lines,
        streamed=streamed,
        events=[event for each in streamed for _, event in each.events],
        ending=reader.ended(exit or Exit(code=0)),
        native_id=reader.native_id,
        unknown=dict(reader.unknown),
        told_on_stderr=told,
    )


def recorded(agent: str, name: str, exit: Exit | None = None, stderr: tuple[bytes, ...] = ()) -> Run:
    return ran(agent, (STREAMS / agent / f"{name}.jsonl").read_bytes().splitlines(), exit, stderr)


def runs(agent: str) -> list[Path]:
    return sorted((STREAMS / agent).glob("*.jsonl"), key=lambda path: path.stem)


def expectations(agent: str) -> tuple[Path, dict[str, Any]]:
    path = STREAMS / agent / "expected.json"
    return path, json.loads(path.read_text("utf-8")) if path.exists() else {}


def stream_reviewed(agent: str, path: Path, exit: dict[str, Any]) -> dict[str, Any]:
    """Kinds in order, how often each came in a row, and what the run came to."""
    run = recorded(agent, path.stem, msgspec.convert(exit, Exit))
    counted = [(kind, len(list(same))) for kind, same in groupby(event.kind for event in run.events)]
    ending = _filled(msgspec.to_builtins(run.ending))
    return {
        "kinds": " ".join(kind if count == 1 else f"{kind}*{count}" for kind, count in counted),
        **ending,
        "tokens": _filled(ending["tokens"]),
    }


def _filled(fields: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value not in (None, [])}
