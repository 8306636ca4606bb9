"""The agent's own log of a run of ours."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

from backstory.store import Session, Store
from backstory.store.intake import run_facts
from backstory.store.tables.sidecars import pack
from tests.support.bench import Bench

USAGE = {"input_tokens": 10, "output_tokens": 7}


def own_log(bench: Bench, *prompts: str, native_id: str | None = None, usage: dict[str, int] | None = None) -> str:
    """What the agent writes of a run beside its stream: one log with the run's session id; gives that id."""
    if native_id is None:
        words = bench.argv()
        native_id = words[words.index("--session-id") + 1]
    folder = bench.root / ".claude" / "projects" / "p"
    folder.mkdir(parents=True, exist_ok=True)
    records = []
    for n, prompt in enumerate(prompts):
        common = {"sessionId": native_id, "timestamp": f"2030-11-21T10:00:0{n}.000Z", "cwd": str(bench.project)}
        above = {"parentUuid": f"{native_id}-a{n - 1}"} if n else {}
        user = {
            "type": "user", "uuid": f"{native_id}-u{n}", **above, "message": {"role": "user", "content": prompt},
        }  # fmt: skip
        content = [{"type": "text", "text": f"the heron answer {n}"}]
        answer = {
            "type": "assistant", "uuid": f"{native_id}-a{n}", "parentUuid": f"{native_id}-u{n}",
            "message": {
                "id": f"m{n}", "role": "assistant", "content": content, "stop_reason": "end_turn",
                "usage": usage or USAGE,
            },
        }  # fmt: skip
        records += [json.dumps({**user, **common}), json.dumps({**answer, **common})]
    (folder / f"{native_id}.jsonl").write_text("\n".join(records) + "\n")
    return native_id


def native_id(stream: bytes) -> str:
    return str(json.loads(stream.split(b"\n", 1)[0])["thread_id"])


def give_facts(store: Store, session: Session, content: bytes) -> None:
    """Keep beside the stream of a session's run what its agent's own log says of it, or what a hostile store holds."""
    stream = next(log for log in store.logs(session) if log.kind == "stream")
    sidecar = pack(f"{store.turns(session)[0].uid}.stream{run_facts.SUFFIX}", 0, content)
    with closing(sqlite3.connect(store.path)) as db, db:
        db.execute(
            "insert into sidecars(log_id, name, size, mtime_ns, sha256, data) values (?, ?, ?, ?, ?, ?)",
            (stream.id, sidecar.name, sidecar.size, sidecar.mtime_ns, sidecar.digest, sidecar.frame),
        )
