"""Stores written as JSON lines and imported, and all that two stores hold, in comparable form."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

from backstory.config import Config
from backstory.export.exporting import Chosen, everything
from backstory.export.full_form import FullForms
from backstory.export.portable import JsonExport
from backstory.model import event_to_json
from backstory.workspace.stores.json_importing import Imported, import_json
from backstory.workspace.workspace import Workspace
from tests.support.clock import NOW
from tests.support.machines import answers, bytes_of, derived, indexed, looked_up

if TYPE_CHECKING:
    from collections.abc import Iterable

    from backstory.derive.secrets import Redactor
    from backstory.store import Store

FILE = Path("sessions.jsonl")
LEFT_OUT = {"id", "parent_id", "imported", "elsewhere", "last_claude_uuid", "last_native_id"}
"""Columns of a session that say something about a store or a moment."""
LATER = NOW + 90 * 86_400_000
"""When a file is imported: after all that it says."""


def exported(
    *stores: Store, only: Iterable[int] | None = None, has_bytes: bool = True, redactor: Redactor | None = None
) -> bytes:
    """All sessions of some stores, or those with these ids of one, as the lines of a file."""
    chosen = everything(stores) if only is None else [Chosen(store=stores[0], ids=list(only))]
    export = JsonExport(has_bytes=has_bytes, now=NOW, redactor=redactor)
    return b"".join(export.lines(chosen, removed=only is None))


class Importer:
    """A home folder that files are imported into."""

    def __init__(self, folder: Path, *, store: Path | None = None) -> None:
        self.home = folder / "backstory"
        (folder / "work").mkdir(parents=True, exist_ok=True)
        settings = self.home / "config.toml"
        self.workspace = Workspace(
            lambda: Config(settings, None, is_installed=lambda *_: True, agents=list, make_folder=Path.mkdir),
            self.home, folder / "work", store=str(store) if store else None, now=lambda: LATER,
        )  # fmt: skip

    @property
    def store(self) -> Store:
        return self.workspace.home_store

    def __call__(self, data: bytes, *, trusted: bool = True, strict: bool = False) -> Imported:
        more: dict[str, Any] = {"strict": True} if strict else {}
        return import_json(self.workspace, io.BytesIO(data), FILE, len(data), trusted=trusted, **more)


def came(done: Imported) -> dict[str, int]:
    """How many sessions came how; only those words that apply."""
    assert done.failed == []
    assert done.damaged == []
    return {word: len(uids) for word, uids in done.came.items() if uids}


def held(store: Store, *, has_bytes: bool = True) -> dict[str, Any]:
    """All that a store holds of its sessions, by their uids; without ``has_bytes`` what is left without the logs."""
    return {uid: _session(store, session_id, has_bytes=has_bytes) for session_id, uid in _rows(store, "id, uid")}


def _session(store: Store, session_id: int, *, has_bytes: bool) -> dict[str, Any]:
    columns = [name for name in _columns(store, "sessions") if name not in LEFT_OUT]
    ours = [name for name in _columns(store, "turns") if name not in ("id", "session_id")]
    found = {name: _asked(store, question, session_id) for name, question in _QUESTIONS.items()}
    found |= {
        "session": _rows(store, ", ".join(columns), f"where id = {session_id}"),
        "turns": _asked(store, f"select {', '.join(ours)} from turns where session_id = ? order by uid", session_id),
        "events": _events(store, session_id, has_bytes=has_bytes),
        "answers": answers(store, session_id),
        "indexed": indexed(store, session_id),
        "derived": derived(store, session_id),
    }
    return found | ({"logs": _logs(store, session_id)} if has_bytes else {})


_QUESTIONS = {
    "parent": "select p.uid from sessions s join sessions p on p.id = s.parent_id where s.id = ?",
    "branches": "select name, leaf_uid, leaf_seq, created, moved from branches where session_id = ? order by 1",
    "summaries": "select after_seq, summary, created, agent, undone, model, input_tokens, cost_usd from compactions "
    "where session_id = ? order by 1, 2",
    "git": "select branch from session_branches where session_id = ? order by 1",
    "context": "select substr(key, 36), value from meta, sessions s where s.id = ? "
    "and substr(key, 1, 35) = 'context ' || s.uid || ' ' order by 1",
    "decided": "select value from meta, sessions s where s.id = ? and key = 'decided ' || s.uid",
}


def _events(store: Store, session_id: int, *, has_bytes: bool) -> list[Any]:
    forms = FullForms(store)
    uids = dict(_asked(store, "select id, uid from turns where session_id = ?", session_id))
    return [
        (each.seq, each.part, uids.get(each.turn_id), each.at, each.kind, each.char_len, event_to_json(each.event),
         event_to_json(forms.expand(each)), (each.position, each.length) if has_bytes else None)
        for each in store.events(session_id)
    ]  # fmt: skip


def _logs(store: Store, session_id: int) -> list[Any]:
    columns = (
        "id, turn_uid, agent, kind, native_id, path, root_chars, relpath, modified, first_hash, tail_hash, read_to, "
        "parsed_to, tail_seq, generation, cwd, told_to"
    )
    order = "order by agent, native_id, generation, kind, turn_uid"
    return [
        (
            more, bytes_of(store, log_id),
            _asked(store, "select start, stop, first_seq, records from numbers where log_id = ? order by 1", log_id),
            _asked(store, "select name, size, mtime_ns, sha256 from sidecars where log_id = ? order by 1", log_id),
        )
        for log_id, *more in _asked(store, f"select {columns} from logs where session_id = ? {order}", session_id)
    ]  # fmt: skip


def _columns(store: Store, table: str) -> list[str]:
    return [name for (name,) in looked_up(store.path, "select name from pragma_table_xinfo(?)", table)]


def _rows(store: Store, columns: str, rest: str = "") -> list[Any]:
    return looked_up(store.path, f"select {columns} from sessions {rest}")


def _asked(store: Store, question: str, *values: Any) -> list[Any]:
    return looked_up(store.path, question, *values)
