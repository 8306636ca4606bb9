"""Train the dictionary that new stores are given: ``train_dictionary.py LOGS... > src/backstory/store/events.zdict``.

LOGS are logs of any agent. Only every second one is used, so that the rest can measure what it is worth.
A released dictionary is never changed: a better one gets a new id and is added beside it.
"""

from __future__ import annotations

import sys
from pathlib import Path

import zstandard

from backstory import agents
from backstory.agents.contract import Agent
from backstory.conversation.compact import compact_event
from backstory.model import LogIdentity, event_to_json

SIZE = 64 * 1024
FIRST_PRIVATE_ID = 32768  # the zstd format leaves the ids from here to 2**31 to whoever wants them
DICTIONARY_ID = FIRST_PRIVATE_ID + 1


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


def main() -> None:
    """Train, say on stderr what it is worth on the logs left out, write the dictionary to stdout."""
    logs = sorted(Path(name) for name in sys.argv[1:])
    samples: list[bytes | bytearray | memoryview] = [event for log in logs[::2] for event in compact_events(log)]
    held_out = [event for log in logs[1::2] for event in compact_events(log)]
    dictionary = zstandard.train_dictionary(SIZE, samples, dict_id=DICTIONARY_ID)
    dictionary.precompute_compress(level=3)
    with_it = zstandard.ZstdCompressor(level=3, dict_data=dictionary)
    without = zstandard.ZstdCompressor(level=3)
    plain = sum(map(len, held_out))
    for name, packer in (("without", without), ("with", with_it)):
        print(f"{name}: {sum(len(packer.compress(event)) for event in held_out) / plain:.3f}", file=sys.stderr)
    sys.stdout.buffer.write(dictionary.as_bytes())


if __name__ == "__main__":
    main()
