"""Train a dictionary that stores are given: ``train_dictionary.py [--heads] LOGS... > src/backstory/store/NAME.zdict``.

LOGS are logs of any agent. Without an option the dictionary is for events (``events.zdict``), with ``--heads`` for the
bytes of logs (``logs.zdict``): it is trained on how logs begin. Only every second log is used, so that the rest can
measure what it is worth. A released dictionary is never changed: a better one gets a new id and is added beside it.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import string
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import zstandard

from backstory import agents
from backstory.agents.contract import Agent
from backstory.conversation.compact import compact_event
from backstory.model import LogIdentity, event_to_json

if TYPE_CHECKING:
    from collections.abc import Iterator

SIZE = 64 * 1024
FIRST_PRIVATE_ID = 32768  # the zstd format leaves the ids from here to 2**31 to whoever wants them
EVENTS_ID, LOGS_ID = FIRST_PRIVATE_ID + 1, FIRST_PRIVATE_ID + 2
HEADS_SIZE = 32 * 1024
HEAD_BYTES = 64 * 1024
"""So much of each log's beginning is looked at."""
FOLDERS_MIN = 3
"""Only a word that stands in logs of so many folders is one of an agent's own."""
LIST_MAX = 3
TEXT_MAX = 200
FIRST_TIME, LAST_TIME = 1_750_000_000, 1_800_000_000
WORDS = (
    *(
        "the",
        "file",
        "test",
        "is",
        "and",
        "not",
        "error",
        "return",
        "import",
        "function",
        "line",
        "for",
        "in",
        "of",
        "it",
    ),
    *(
        "read",
        "value",
        "name",
        "path",
        "user",
        "session",
        "code",
        "src",
        "added",
        "check",
        "should",
        "with",
        "to",
        "this",
    ),
)
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]{8,16}Z")
_ID = re.compile(r"(?=.*[0-9])[A-Za-z0-9_-]{16,64}")
_ID_PREFIX = re.compile(r"(?:msg|req|toolu|call|rs|fc|chatcmpl)_(?:01|vrtx_|bdrk_)*")
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_.:-]{0,39}")


def compact_events(log: Path) -> list[bytes]:
    """The stored JSON of every event in a log."""
    data = log.read_bytes()
    for agent in map(agents.load, agents.names()):
        identity = agent.log.identify(log, data[:65536]) if agent.log.is_log(log) else None
        if identity is not None:
            return _events(agent, identity, data)
    return []


def _events(agent: Agent, identity: LogIdentity, data: bytes) -> list[bytes]:
    reader = agent.log.reader(identity, None, lambda: ())
    lines = [line for line in data.split(b"\n") if line.strip()]
    return [event_to_json(compact_event(e)) for n, line in enumerate(lines) for _, e in reader.read(line, n).events]


def heads(logs: list[Path]) -> list[bytes]:
    """How logs begin, record by record, as their agents write them: without what anybody said, or called a thing.

    A dictionary goes into every store, so that nothing of the logs it is trained on may be read in it.
    """
    records = {log: _records(log) for log in logs}
    seen = dict[str, set[Path]]()
    for log, parsed in records.items():
        for text in {text for record in parsed for text in _texts(record)}:
            seen.setdefault(text, set()).add(log.parent)
    common = {text for text, folders in seen.items() if len(folders) >= FOLDERS_MIN and _WORD.fullmatch(text)}
    disguise = _Disguise(common)
    return [
        json.dumps(disguise.of(record), separators=(",", ":"), ensure_ascii=False).encode() + b"\n"
        for parsed in records.values()
        for record in parsed
    ]


def _records(log: Path) -> list[Any]:
    lines = log.read_bytes()[:HEAD_BYTES].split(b"\n")[:-1]
    return [json.loads(line) for line in lines if line.strip()]


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _texts(each)


class _Disguise:
    """The same records with other texts, ids, times and numbers in them, made up, and of the same kind and length."""

    def __init__(self, common: set[str]) -> None:
        self._common, self._chance = common, random.Random(1)

    def of(self, value: Any) -> Any:
        """A value with only those texts in it that many have in common."""
        if isinstance(value, dict):
            return {key: self.of(each) for key, each in value.items() if _WORD.fullmatch(key)}
        if isinstance(value, list):
            return [self.of(each) for each in value[:LIST_MAX]]
        if isinstance(value, str):
            return value if value in self._common else self._text(value)
        if isinstance(value, bool) or value is None:
            return value
        return self._chance.randrange(10 ** min(len(str(value)), 12))

    def _text(self, text: str) -> str:
        if _TIME.fullmatch(text):
            made = datetime.fromtimestamp(self._chance.randrange(FIRST_TIME, LAST_TIME), UTC)
            return f"{made:%Y-%m-%dT%H:%M:%S}.{self._chance.randrange(1000):03d}Z"
        if _ID.fullmatch(text):
            prefix = _ID_PREFIX.match(text)
            kept = prefix.group() if prefix else ""
            return kept + "".join(map(self._digit, text[len(kept) :]))
        words, length = list[str](), 0
        while length < min(len(text), TEXT_MAX):
            words.append(self._chance.choice(WORDS))
            length += len(words[-1]) + 1
        return ("/" if text.startswith("/") else " ").join(words)

    def _digit(self, digit: str) -> str:
        if digit in string.hexdigits:
            return self._chance.choice("0123456789abcdef")
        return self._chance.choice(string.ascii_letters) if digit.isalnum() else digit


def main() -> None:
    """Train, say on stderr what it is worth on the logs left out, write the dictionary to stdout."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("logs", type=Path, nargs="+")
    parser.add_argument("--heads", action="store_true", help="for the bytes of logs, not for events")
    given = parser.parse_args()
    logs = sorted(given.logs)
    samples: list[bytes | bytearray | memoryview]
    if given.heads:
        samples, held_out = [*heads(logs[::2])], [log.read_bytes()[:HEAD_BYTES] for log in logs[1::2]]
        dictionary = zstandard.train_dictionary(HEADS_SIZE, samples, dict_id=LOGS_ID)
    else:
        samples = [event for log in logs[::2] for event in compact_events(log)]
        held_out = [event for log in logs[1::2] for event in compact_events(log)]
        dictionary = zstandard.train_dictionary(SIZE, samples, dict_id=EVENTS_ID)
    dictionary.precompute_compress(level=3)
    with_it = zstandard.ZstdCompressor(level=3, dict_data=dictionary)
    without = zstandard.ZstdCompressor(level=3)
    plain = sum(map(len, held_out))
    for name, packer in (("without", without), ("with", with_it)):
        print(f"{name}: {sum(len(packer.compress(each)) for each in held_out) / plain:.4f}", file=sys.stderr)
    sys.stdout.buffer.write(dictionary.as_bytes())


if __name__ == "__main__":
    main()
