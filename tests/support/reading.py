"""Reading logs in tests: whole or in pieces, and what came of it in a form that a person can review."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from backstory import agents, ids
from backstory.agents import documents
from backstory.agents.jsonl import LineReader
from backstory.model import Event, Turn, UserMessage

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from backstory.agents.contract import LogReader
    from backstory.model import LogIdentity, Parsed, SessionFacts

CASES = Path(__file__).parent.parent / "agents" / "cases"
EXPECTED = "expected.json"
TEXT_SHOWN_MAX = 90


class Told(Struct):
    """All that a log said."""

    identity: LogIdentity
    events: list[tuple[int, int, int | None, str | None, Event]]
    turns: dict[str, Turn]
    session: SessionFacts
    unknown: dict[str, int]

    def all(self, kind: type[Event]) -> list[Any]:
        return [event for *_, event in self.events if isinstance(event, kind)]

    def prompts(self) -> list[str]:
        return [event.content for event in self.all(UserMessage)]

    def in_order(self) -> list[Turn]:
        return sorted(self.turns.values(), key=lambda turn: turn.first_seq)


def lines_of(data: bytes) -> list[bytes]:
    return data.removesuffix(b"\n").split(b"\n")


def records_of(agent: str, data: bytes, path: Path) -> list[bytes]:
    """The records of a log: its lines, or what a document's lines add up to."""
    lines = lines_of(data)
    keeper = agents.load(agent).documents
    if keeper is None or not keeper.is_document(path):
        return lines
    if (parts := keeper.pieces(data)) is not None:
        return lines_of(documents.grown(b"", parts))
    reader = LineReader(record_end=keeper.record_end(data))
    records = [line for _, _, line in reader.lines(data) if line is not None]
    return [*records, *filter(None, [reader.unfinished])]


def told(agent: str, data: bytes, path: Path = Path("log.jsonl"), cuts: Sequence[int] = ()) -> Told:
    """What a log says, read whole, or by a new reader after each of the lines in ``cuts``."""
    adapter = agents.load(agent)
    identity = adapter.log.identify(path, data[: ids.HEAD_BYTES])
    assert identity is not None, f"{path} was not taken for a log of {agent}"
    lines = records_of(agent, data, path)
    reader = adapter.log.reader(identity, None, lambda: ())
    events: list[tuple[int, int, int | None, str | None, Event]] = []
    turns: dict[str, Turn] = {}
    unknown: dict[str, int] = {}
    for seq, line in enumerate(lines, start=1):
        if seq - 1 in cuts:
            _collect(reader, turns, unknown)
            reader = adapter.log.reader(identity, reader.state(), lambda done=seq - 1: lines[:done])  # type: ignore[misc]
        if line.strip():
            parsed = reader.read(line, seq)
            events += _rows(parsed, seq)
    _collect(reader, turns, unknown)
    return Told(identity=identity, events=events, turns=turns, session=reader.session, unknown=unknown)


def _rows(parsed: Parsed, seq: int) -> Iterator[tuple[int, int, int | None, str | None, Event]]:
    for part, event in parsed.events:
        yield seq, part, parsed.at, parsed.turn.uid if parsed.turn else None, event


def _collect(reader: LogReader, turns: dict[str, Turn], unknown: dict[str, int]) -> None:
    for turn in reader.touched():
        told = msgspec.convert(msgspec.to_builtins(turn), Turn)
        if turn.uid in turns:
            # As in the store, where a turn keeps the prompt it began with.
            told.prompt = turns[turn.uid].prompt
        turns[turn.uid] = told
    for kind, count in reader.unknown.items():
        unknown[kind] = unknown.get(kind, 0) + count


def cases() -> list[Path]:
    """The folders of all cases of one log, as ``cases/<agent>/<name>``; ``recorded.py`` has those of a whole home."""
    homes = {path.parent for path in CASES.glob("*/*/count.json")}
    return sorted(folder for folder in CASES.glob("*/*") if folder.is_dir() and folder not in homes)


def case_name(folder: Path) -> str:
    return f"{folder.parent.name}/{folder.name}"


def log_of(folder: Path) -> Path:
    (log,) = [*folder.rglob("*.jsonl"), *folder.rglob("history-session-state/*.json")]
    return log


def case_told(folder: Path, cuts: Sequence[int] = ()) -> Told:
    log = log_of(folder)
    return told(folder.parent.name, log.read_bytes(), log, cuts)


def reviewed(said: Told) -> dict[str, Any]:
    """What ``expected.json`` holds: turns by their number, texts cut short, times and identities whole."""
    turns = said.in_order()
    number = {turn.uid: place for place, turn in enumerate(turns, start=1)}
    return {
        "identity": _filled(msgspec.to_builtins(said.identity)),
        "session": _filled(msgspec.to_builtins(said.session)),
        "turns": [_turn_shown(turn, number) for turn in turns],
        "events": [
            [seq, part, event.kind, at, number.get(uid or ""), _event_shown(event)]
            for seq, part, at, uid, event in said.events
        ],
        "unknown": said.unknown,
    }


def _turn_shown(turn: Turn, number: dict[str, int]) -> dict[str, Any]:
    shown: dict[str, Any] = _filled(msgspec.to_builtins(turn))
    shown["prompt"] = _short(turn.prompt)
    shown["tokens"] = _filled(shown["tokens"])
    if turn.parent_uid is not None:
        shown["parent"] = number.get(turn.parent_uid, turn.parent_uid)
    return {key: value for key, value in shown.items() if key not in ("agent", "parent_uid")}


def _event_shown(event: Event) -> str:
    fields = msgspec.to_builtins(event)
    marks = [fields.pop("tool_name", ""), fields.pop("tool", ""), fields.pop("file_path", None) or ""]
    failed = ["FAILED"] if fields.pop("is_error", False) else []
    fields.pop("tool_use_id", None)
    rest = [value if isinstance(value, str) else msgspec.json.encode(value).decode() for value in fields.values()]
    return " | ".join([mark for mark in (*marks, *failed) if mark] + [_short(text) for text in rest if text])


def _short(text: str) -> str:
    line = text.replace("\n", "⏎")
    return line if len(line) <= TEXT_SHOWN_MAX else f"{line[:TEXT_SHOWN_MAX]}… ({len(text)} characters)"


def _filled(fields: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value is not None}
