"""Copilot's session database, as another program wrote it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.machines import sha256

if TYPE_CHECKING:
    from backstory.ingest.report import IngestReport
    from tests.support.machines import Machine

ROOT = Path(".copilot")
DATABASE = ROOT / "session-store.db"
LOST = "514f3844-2975-44e4-a4d0-211fd59e36e9"
HERE = "e61a042d-fb07-4cea-af6f-8aba91101fcc"
TABLES = """
create table schema_version(version integer not null);
create table sessions(id text primary key, cwd text, repository text, host_type text, branch text, summary text,
  created_at text default (datetime('now')), updated_at text default (datetime('now')));
create table turns(id integer primary key autoincrement, session_id text not null references sessions(id),
  turn_index integer not null, user_message text, assistant_response text, timestamp text default (datetime('now')),
  unique(session_id, turn_index));
create table checkpoints(id integer primary key autoincrement, session_id text not null references sessions(id),
  checkpoint_number integer not null, title text, overview text, history text, work_done text, technical_details text,
  important_files text, next_steps text, created_at text default (datetime('now')),
  unique(session_id, checkpoint_number));
create table session_files(id integer primary key autoincrement, session_id text not null references sessions(id),
  file_path text not null, tool_name text, turn_index integer, first_seen_at text default (datetime('now')),
  unique(session_id, file_path));
create table session_refs(id integer primary key autoincrement, session_id text not null references sessions(id),
  ref_type text not null, ref_value text not null, turn_index integer, created_at text default (datetime('now')));
"""


ROWS = f"""
insert into schema_version values (3);
insert into sessions(id, cwd, repository, branch, summary, created_at, updated_at) values
  ('{LOST}', '/src', 'dev/work', 'main', 'Mend it', '2026-11-21T21:00:00.000Z', '2026-11-21T22:00:00.000Z'),
  ('{HERE}', '/src', null, null, 'Else', '2026-11-21T21:00:00.000Z', '2026-11-21T21:00:00.000Z');
insert into turns(session_id, turn_index, user_message, assistant_response, timestamp) values
  ('{LOST}', 0, 'Mend the gate', 'It is mended.', '2026-11-21T21:00:01.000Z'),
  ('{LOST}', 1, 'Paint it', null, '2026-11-21 21:00:02'),
  ('{HERE}', 0, 'Told by its log', null, '2026-11-21T21:00:01.000Z');
insert into session_files(session_id, file_path, tool_name, turn_index) values
  ('{LOST}', '/src/gate.py', 'edit', 0), ('{LOST}', 'paint.py', 'create', 1);
insert into session_refs(session_id, ref_type, ref_value, turn_index) values ('{LOST}', 'pr', '12', 0);
insert into checkpoints(session_id, checkpoint_number, title, overview, next_steps) values
  ('{LOST}', 1, 'The gate', 'We mended.', 'Paint.');
"""


def read(machine: Machine) -> IngestReport:
    return machine.read("copilot")


def changed(database: Path, statement: str) -> None:
    with closing(sqlite3.connect(database)) as db:
        db.executescript(statement)


def folder_content(folder: Path) -> dict[str, tuple[str, int]]:
    """Every file below a folder: its bytes' hash and its mtime."""
    return {
        str(each.relative_to(folder)): (sha256(each.read_bytes()), each.stat().st_mtime_ns)
        for each in folder.rglob("*")
        if each.is_file()
    }
