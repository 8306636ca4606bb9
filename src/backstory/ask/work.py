"""The work done in a session: its turns, the files that it changed, the results of its commands. Never commits."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from msgspec import structs

from backstory.derive.check_programs import DeedKind
from backstory.derive.deeds import Deed, commands_of, made, succeeded, was_refused
from backstory.model import AssistantText, Outcome, Relation, ToolCall, ToolResult, event_from_json
from backstory.store import codec, schema
from backstory.store.intake import coverage, derived_tables
from backstory.store.schema import fetch, fetch_by

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import apsw

    from backstory.store.codec import EventCodec
    from backstory.store.intake.derived_tables import StoredRef


class WorkTurn(NamedTuple):
    """A turn. Times are in ms since 1970; ``answer``: the last thing the model said, '' for nothing.

    ``last_kind``: the kind of its last event, where no log says how it ended.
    """

    uid: str
    seq: int
    prompt: str
    started: int | None
    outcome: str | None
    answer: str
    last_kind: str | None

    @property
    def is_answered(self) -> bool:
        """True if it completed; where no log says so, whether its last words are the model's answer."""
        return self.outcome == Outcome.COMPLETED or (self.outcome is None and self.last_kind == AssistantText.kind)


class DoneDeed(Deed, frozen=True, kw_only=True):
    """One thing that was done at a record. ``ok``: whether it went well; None where nobody knows.

    ``failed``: whether its call did; ``cut``: the record of what that returned, if only a part of it was looked at;
    ``made``: the commit or pull request, as far as that says.
    """

    session_id: int
    turn_uid: str | None
    seq: int
    at: int | None
    ok: bool | None
    failed: bool | None
    cut: int | None
    made: str = ""


class Output(NamedTuple):
    """The output of a call, as far as the compact form has it, and the place of the whole if that is longer."""

    content: str | None = None
    cut: int | None = None


class StoredWork(NamedTuple):
    """The work of a session: its turns, what was done in it and by its subagents, and what it named; in order.

    ``is_covered``: whether what is derived is known of it.
    """

    turns: list[WorkTurn]
    deeds: list[DoneDeed]
    refs: list[StoredRef]
    is_covered: bool


def of_sessions(db: apsw.Connection, session_ids: Sequence[int]) -> dict[int, StoredWork]:
    """The work of each of these sessions, without what a person removed."""
    subagents = below(db, session_ids)
    members = {each: sorted([each, *subagents.get(each, [])]) for each in session_ids}
    deeds = _by_session(_deeds(db, sorted({member for each in members.values() for member in each})))
    turns, refs = _turns(db, session_ids), derived_tables.refs_of(db, session_ids)
    uncovered, found = coverage.uncovered_ids(db, session_ids), dict[int, StoredWork]()
    for each in session_ids:
        done = [deed for member in members[each] for deed in deeds.get(member, ())]
        if len(members[each]) > 1:
            # Records of several sessions are in order by their times only.
            done.sort(key=lambda deed: deed.at or 0)
        found[each] = StoredWork(turns.get(each, []), done, refs.get(each, []), each not in uncovered)
    return found


def turns_of(db: apsw.Connection, session_id: int) -> list[WorkTurn]:
    """A session's own turns, in order; without those of branches that a person removed."""
    return _turns(db, [session_id]).get(session_id, [])


def holders(db: apsw.Connection, turn_uids: Sequence[str]) -> list[tuple[str, int, str]]:
    """The sessions that have these turns, or copies of them, with those that a person removed left out.

    Each is the turn's uid, the session's id and its uid.
    """
    return fetch(db, tuple[str, int, str], _HOLDERS, (schema.json_list(turn_uids),))


def below(db: apsw.Connection, session_ids: Sequence[int]) -> dict[int, list[int]]:
    """The sessions of each session's subagents, and of theirs; without sessions that have none."""
    found = fetch_by(db, tuple[int], _BELOW, (schema.json_list(session_ids),))
    return {root: [each for (each,) in below] for root, below in found.items()}


def _turns(db: apsw.Connection, session_ids: Sequence[int]) -> dict[int, list[WorkTurn]]:
    return fetch_by(db, WorkTurn, _TURNS, (schema.json_list(session_ids),))


def _by_session(deeds: Iterable[DoneDeed]) -> dict[int, list[DoneDeed]]:
    found: dict[int, list[DoneDeed]] = {}
    for each in deeds:
        found.setdefault(each.session_id, []).append(each)
    return found


def changed_files(db: apsw.Connection, session_ids: Sequence[int]) -> dict[tuple[int, int, int], list[str]]:
    """The paths of files that calls of these sessions changed, by session, record and part."""
    changed: dict[tuple[int, int, int], list[str]] = {}
    for session_id, seq, part, path in fetch(db, tuple[int, int, int, str], _CHANGED, (schema.json_list(session_ids),)):
        changed.setdefault((session_id, seq, part), []).append(path)
    return changed


def _deeds(db: apsw.Connection, session_ids: Sequence[int]) -> Iterator[DoneDeed]:
    ids = schema.json_list(session_ids)
    changed = changed_files(db, session_ids)
    codecs: dict[int, EventCodec] = {}
    for session_id, turn_uid, seq, part, at, data, is_error, result_id in db.execute(_CALLS, (ids,)):
        event = event_from_json(codec.unpack_event(db, codecs, data))
        if not isinstance(event, ToolCall):
            continue
        failed = None if is_error is None else bool(is_error)
        commands = commands_of(event)
        said = output_of(db, codecs, result_id) if commands else Output()
        if was_refused(failed, said.content):
            continue
        where = {"session_id": session_id, "turn_uid": turn_uid, "seq": seq, "at": at, "failed": failed}
        for path in changed.get((session_id, seq, part), []):
            yield DoneDeed(kind=DeedKind.EDIT, text=path, ok=True, cut=None, **where)
        for deed in commands:
            ok = succeeded(deed, failed, said.content)
            yield DoneDeed(
                **structs.asdict(deed), **where, ok=ok, cut=said.cut, made=made(deed.kind, said.content)
            )  # fmt: skip


def output_of(db: apsw.Connection, codecs: dict[int, EventCodec], event_id: int | None) -> Output:
    """Return the output of a call; nothing for one without a result."""
    for data, seq, chars in db.execute("select data, seq, char_len from events where id = ?", (event_id,)):
        event = event_from_json(codec.unpack_event(db, codecs, data))
        if isinstance(event, ToolResult):
            return Output(event.content, seq if chars > len(event.content) else None)
    return Output()


_BELOW = f"""
with recursive below(root, id) as (
  select parent_id, id from sessions
  where relation = '{Relation.SUBAGENT}' and parent_id in (select value from json_each(?))
  union select b.root, s.id from sessions s join below b on s.parent_id = b.id where s.relation = '{Relation.SUBAGENT}'
)
select root, id from below
"""
_TURNS = f"""
select t.session_id, t.uid, t.first_seq, t.prompt, t.started, t.outcome, coalesce(x.answer, ''), iif(
  t.outcome is not null, null, (
  select e.kind from events e where e.session_id = t.session_id and e.turn_id = t.id
  and e.seq between t.first_seq and t.last_seq and e.kind in {schema.CONTENT} order by e.seq desc, e.part desc limit 1))
from turns t left join turn_texts x on x.turn_id = t.id
where t.removed is null and t.session_id in (select value from json_each(?))
order by t.session_id, t.first_seq, t.id
"""
_HOLDERS = """
select t.uid, t.session_id, s.uid from turns t join sessions s on s.id = t.session_id
where t.removed is null and t.uid in (select value from json_each(?))
"""
_CALLS = f"""
select e.session_id, t.uid, e.seq, e.part, e.at, e.data, c.is_error, c.result_id
from events e left join turns t on t.id = e.turn_id left join call_results c on c.call_id = e.id
where e.kind in {schema.CALLS} and t.removed is null and e.session_id in (select value from json_each(?))
order by e.session_id, e.seq, e.part
"""
_CHANGED = """
select f.session_id, t.seq, t.part, coalesce(t.to_path, f.file_path)
from session_files f join file_touches t on t.file_id = f.id
where t.action <> 'read' and f.session_id in (select value from json_each(?))
"""
