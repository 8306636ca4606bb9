"""Digests of all that a store holds, whatever the order in which it came: ``python -m bench.content_digest STORE``.

Four SHA-256, printed as JSON: of the records with the texts in them, of the turns, of the sessions with their facts,
and of the bytes of the logs. It runs with earlier revisions of the package, too: what is quicker or smaller must not
have become less. Numbers of rows are left out.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import msgspec

from backstory.store import open_store

KINDS = ("records", "turns", "sessions", "logs")
ROWS = {"id", "number", "elsewhere", "root", "shown"}
"""Fields of a session that say where it is in this store, not what it is."""


def digests(store: Any) -> dict[str, str]:
    """Return the digest of each of ``KINDS``."""
    found: dict[str, list[str]] = {kind: [] for kind in KINDS}
    for session in store.sessions(subagents=True):
        facts = msgspec.structs.asdict(session)
        facts = {name: value for name, value in facts.items() if name not in ROWS}
        found["sessions"].append(_digest(facts))
        found["turns"].append(_digest(session.uid, *store.turns(session)))
        records = ((each.seq, each.part, each.kind, each.at, each.event) for each in store.events(session))
        found["records"].append(_digest(session.uid, *records))
        for log in store.logs(session):
            kept = hashlib.sha256(f"{log.agent} {log.native_id} ".encode())
            for piece in store.stream_log(log.id):
                kept.update(piece)
            found["logs"].append(kept.hexdigest())
    return {kind: _digest(*sorted(each)) for kind, each in found.items()}


def _digest(*parts: object) -> str:
    digest = hashlib.sha256()
    for part in parts:
        plain = msgspec.to_builtins(part, builtin_types=(bytes,))
        digest.update(json.dumps(plain, sort_keys=True, default=repr).encode("utf-8", "surrogatepass") + b"\n")
    return digest.hexdigest()


def main() -> None:
    """Print the digests of a store."""
    with open_store(Path(sys.argv[1])) as store:
        print(json.dumps(digests(store), indent=2))


if __name__ == "__main__":
    main()
