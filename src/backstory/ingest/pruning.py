"""A session pruned in part: its bytes overwritten in place, what they say derived anew, in one transaction.

Everything is made before: the bytes as they will be, and the batches that today's readers make of them. Where prompts,
turns or their figures would differ then, records stay as they are, or the session is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct, field

from backstory.agents.jsonl import LineReader
from backstory.derive import pruning
from backstory.derive.pruning import IMAGES, PROMPTS, TOOL_OUTPUTS, PrunedTexts, Pruning
from backstory.errors import PruneRefused
from backstory.ingest import kept, sidecars
from backstory.ingest.log_reader import kept_end, kept_lines
from backstory.model import Event, Relation, Unknown, UserMessage
from backstory.store import codec
from backstory.store.file import maintenance
from backstory.store.intake import overwriting
from backstory.store.intake.batches import SUFFIX as TIMES
from backstory.store.intake.overwriting import Overwriting, OverwrittenFile, OverwrittenLog
from backstory.store.intake.run_facts import SUFFIX as FACTS
from backstory.store.tables import logs, pruned, sessions
from backstory.store.tables import sidecars as stored_sidecars
from backstory.store.tables.logs import FAILED

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from backstory.model import Turn
    from backstory.store import Log, Session, Store
    from backstory.store.tables.logs import ChunkMark
    from backstory.store.tables.sidecars import StoredSidecar

TRIES = 5
"""The most plans for one session, which is refused where another process changes it again and again."""


class Freed(Struct, frozen=True, kw_only=True):
    """The room that a session took before it was pruned, and takes then; how many records were overwritten."""

    before: int = 0
    after: int = 0
    records: int = 0
    """0 also where only files beside its logs were."""


class _Record(Struct):
    """A line of a log: its place, and what it says."""

    start: int
    stop: int
    events: list[Event] = field(default_factory=list)
    turn_uid: str | None = None
    seq: int | None = None


class _LogPlan(Struct):
    """A log, its bytes as they are and as they will be, and the chunks that differ then."""

    log: Log
    marks: list[ChunkMark]
    data: bytes
    records: list[_Record] = field(default_factory=list)
    turns: dict[str, Turn] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)
    new: bytearray = field(default_factory=bytearray)
    whole: set[int] = field(default_factory=set)
    """Starts of records that stay as they are: without them a prompt would read otherwise."""
    careful: set[int] = field(default_factory=set)
    headed: set[int] = field(default_factory=set)
    """Starts of records of which less goes: see ``pruned_record``."""

    def changed(self) -> list[tuple[ChunkMark, bytes]]:
        """The chunks that are to be overwritten, with their new bytes."""
        return [
            (mark, new)
            for mark in self.marks
            if (new := bytes(self.new[mark.start : mark.start + mark.length]))
            != self.data[mark.start : mark.start + mark.length]
        ]


def prune_session(
    store: Store, session: Session, what: Pruning, *, is_dry: bool = False, only: Collection[str] | None = None
) -> Freed:
    """Prune a session in part, and derive it anew; nothing is written if ``is_dry``.

    ``only``: the uids of the turns that are pruned; None: all. The caller erases the store's file when all sessions
    are done. Raises PruneRefused where a run of it goes on, or its turns would differ then, NoRoomLeft.
    """
    for _ in range(TRIES):
        with store.snapshot():
            plan, freed = _planned(store, session, what, only)
        if is_dry or plan is None:
            return freed
        if not plan.is_empty:
            maintenance.check_room_for(store, freed.before)
        if store.decide(overwriting.write, plan, store.now()):
            if not plan.is_empty:
                for log in store.logs(session):
                    sidecars.reapply_sidecars(store, log)
                store.change(overwriting.settle, session.id)
            return freed
    raise PruneRefused(session.shown_name, "another process goes on changing it")


# the plan -------------------------------------------------------------------------------------------------------------


def _planned(
    store: Store, session: Session, what: Pruning, only: Collection[str] | None
) -> tuple[Overwriting | None, Freed]:
    """Plan a prune; None where nothing is to be done. Returns the room that it frees, too."""
    if store.ask(overwriting.is_running, session.id):
        raise PruneRefused(session.shown_name, "a run of it is not stored yet")
    before, room = store.ask(pruned.noted, session.id), store.ask(overwriting.room, session.id)
    wanted = what if before is None else what | before.pruning
    if before is not None and before.pruning == wanted and store.ask(pruned.is_settled, session.id):
        return None, Freed(before=room, after=room)
    try:
        plans, known, records = _planned_logs(
            store, session, wanted, only, is_person=session.relation != Relation.SUBAGENT
        )
    except PruneRefused:
        if session.relation != Relation.SUBAGENT:
            raise
        # Some agents' turns are known by their prompts.
        plans, known, records = _planned_logs(store, session, wanted, only, is_person=True)
    files = _files(store, plans, wanted, known)
    is_empty = not (
        files or any(plan.changed() for plan in plans) or store.ask(overwriting.has_other_texts, session.id, wanted)
    )
    next_seq = before.next_seq if only is not None and before is not None else store.ask(sessions.next_seq, session.uid)
    made = [
        OverwrittenLog(log=plan.log, marks=plan.marks, changed=[], batches=[])
        if is_empty
        else _made(store, session, plan)
        for plan in plans
    ]
    after = room if is_empty else _room_then(store, session, made, files)
    done = Overwriting(session_id=session.id, what=wanted, next_seq=next_seq, logs=made, files=files, is_empty=is_empty)
    return done, Freed(before=room, after=after, records=records)


def _planned_logs(
    store: Store, session: Session, what: Pruning, only: Collection[str] | None, *, is_person: bool
) -> tuple[list[_LogPlan], PrunedTexts, int]:
    """The logs of a session as they will be, what its texts were, and how many records differ then."""
    known = PrunedTexts(names={each for each in _names(session) if each})
    plans = [_read(store, session, log) for log in store.logs(session)]
    for plan in plans:
        known.names |= plan.names
        for record in plan.records:
            known.note(record.events, what, is_person=is_person)
    records = sum(_overwrite(plan, what, known, only, is_person=is_person) for plan in plans)
    for plan in plans:
        records -= _check(store, session, plan, what, known, only, is_person=is_person)
    return plans, known, records


def _names(session: Session) -> list[str | None]:
    return [
        session.title, session.name, session.cwd, session.recorded_cwd, session.root, session.worktree, session.project,
        session.repository, session.branch,
    ]  # fmt: skip


def _read(store: Store, session: Session, log: Log) -> _LogPlan:
    """A log's bytes, and what each of its lines says."""
    data = b"".join(store.stream_log(log.id))
    plan = _LogPlan(log=log, marks=store.ask(logs.chunk_marks, log.id), data=data)
    said, plan.turns, plan.names = _said(store, session, log, data)
    reader = LineReader(record_end=kept_end(store, log))
    for start, stop, _ in reader.lines(data):
        plan.records.append(said.get(start) or _Record(start, stop))
    if reader.start < len(data):
        plan.records.append(said.get(reader.start) or _Record(reader.start, len(data)))
    return plan


def _said(
    store: Store, session: Session, log: Log, data: bytes
) -> tuple[dict[int, _Record], dict[str, Turn], set[str]]:
    """The records of a log that have numbers, by their starts; its turns; its names."""
    source, _ = kept.kept_source(store, log, session.said_folder, _reading(data))
    said: dict[int, _Record] = {}
    for line in kept_lines(store, log, [data]):
        events, turn_uid = list[Event](), None
        if line.content is not None:
            try:
                record = source.read(line.content, line.seq)
                events, turn_uid = [event for _, event in record.events], record.turn_uid
            except Exception:
                # As it is stored: a record that its adapter fails at is kept like one that it does not know.
                events = [Unknown(type=FAILED)]
        said[line.start] = _Record(line.start, line.stop, events, turn_uid, line.seq)
    turns = {turn.uid: turn for turn in source.turns()}
    facts = source.facts
    names = {facts.title, facts.cwd, facts.branch, facts.repository, *(facts.branches or ())}
    return said, turns, {each for each in names if each} | {turn.model for turn in turns.values() if turn.model}


def _reading(data: bytes | bytearray) -> Callable[[int, int], bytes]:
    return lambda at, length: bytes(data[at : at + length])


def _figures(turns: dict[str, Turn]) -> tuple[object, ...]:
    """The figures that pruned turns keep: tokens in sum alone, as some agents' turns share them by their texts."""
    tokens = [msgspec.structs.astuple(each.tokens) for each in turns.values()]
    return (
        [
            (each.uid, each.parent_uid, each.model, each.started, each.native_id, each.cost_usd)
            for each in turns.values()
        ],
        [sum(each or 0 for each in kind) for kind in zip(*tokens, strict=True)],
    )


def _overwrite(
    plan: _LogPlan, what: Pruning, known: PrunedTexts, only: Collection[str] | None, *, is_person: bool
) -> int:
    """Make the bytes of a log as they will be; returns how many records differ then."""
    plan.new, count, is_past = bytearray(plan.data), 0, False
    for each in plan.records:
        if only is not None:
            # What belongs to no turn is as old as the turns before it.
            is_past = is_past or (each.turn_uid is not None and each.turn_uid not in only)
            if each.turn_uid not in only if each.turn_uid is not None else is_past:
                continue
        if each.start in plan.whole:
            continue
        old = plan.data[each.start : each.stop]
        end = b"\n" if old.endswith(b"\n") else b""
        body = old.removesuffix(b"\n")
        new = pruning.pruned_record(
            body, each.events, what, known, is_person=is_person, is_careful=each.start in plan.careful,
            keeps_heads=each.start in plan.headed,
        )  # fmt: skip
        if new != body:
            plan.new[each.start : each.stop] = new + end
            count += 1
    return count


def _check(
    store: Store, session: Session, plan: _LogPlan, what: Pruning, known: PrunedTexts, only: Collection[str] | None, *,
    is_person: bool,
) -> int:  # fmt: skip
    """Have what stays read as before; returns how many records stay as they are for that.

    Raises PruneRefused where turns would differ.
    """
    if not plan.changed():
        return 0
    for attempt in (plan.careful, plan.whole, None):
        said, turns, _ = _said(store, session, plan.log, bytes(plan.new))
        now = {each.start: said[each.start].events if each.start in said else [] for each in plan.records}
        wrong = {
            each.start
            for each in plan.records
            if _staying(each.events, what, is_person=is_person) != _staying(now[each.start], what, is_person=is_person)
        }
        # What an agent puts into its log as if it were typed is known by how it begins.
        silent = {
            each.start
            for each in plan.records
            if not each.events and any(isinstance(event, UserMessage) for event in now[each.start])
        }
        if not wrong and not silent and _figures(turns) == _figures(plan.turns):
            return len(plan.whole)
        if attempt is None:
            break
        attempt |= wrong
        if not wrong and not silent:
            # In a log of plain lines the figures are in lines that say nothing else.
            plan.whole.update(
                each.start
                for each in plan.records
                if not any(what.goes(event, is_person=is_person) for event in each.events) and not _is_json(plan, each)
            )
        (plan.headed if attempt is plan.careful else plan.whole).update(silent)
        _overwrite(plan, what, known, only, is_person=is_person)
    raise PruneRefused(session.shown_name, "its turns would read otherwise without their texts")


def _is_json(plan: _LogPlan, record: _Record) -> bool:
    return pruning.is_json(plan.data[record.start : record.stop])


def _staying(events: Collection[Event], what: Pruning, *, is_person: bool) -> list[Event]:
    if what.keep is None:
        found: list[Event] = [event for event in events if isinstance(event, UserMessage)]
    else:
        found = [event for event in events if what.stays(event, is_person=is_person)]
    return [pruning.without_its_images(event) for event in found] if IMAGES in what.kinds else found


def _files(store: Store, plans: Collection[_LogPlan], what: Pruning, known: PrunedTexts) -> list[OverwrittenFile]:
    """The files beside logs that go, with their bytes as they will be."""
    found = []
    for plan in plans:
        results = store.ask(overwriting.results, plan.log.id)
        for each in store.ask(stored_sidecars.of_log, plan.log.id):
            if each.name.endswith(TIMES):
                continue
            data = store.ask(stored_sidecars.read, each.id)
            new = _file(each, data, what, known, is_result=each.id in results)
            if new != data:
                found.append(OverwrittenFile(log_id=plan.log.id, file=each, data=new))
    return found


def _file(each: StoredSidecar, data: bytes, what: Pruning, known: PrunedTexts, *, is_result: bool) -> bytes:
    if IMAGES in what.kinds and pruning.is_image(data):
        return pruned.blank_file(each.size)
    if what.keep is None:
        is_output = is_result or "tool-results/" in each.name
        return pruned.blank_file(each.size) if TOOL_OUTPUTS in what.kinds and is_output else data
    if each.name.endswith(FACTS):
        # It is ours, and the times in it are kept.
        return pruning.pruned_record(data, [], what, known)
    if what.keep != PROMPTS and "checkpoints/" in each.name:
        return data
    return pruned.blank_file(each.size)


# room -----------------------------------------------------------------------------------------------------------------


def _made(store: Store, session: Session, plan: _LogPlan) -> OverwrittenLog:
    """A log as it will be, with all that it says then."""
    source, created = kept.kept_source(store, plan.log, session.said_folder, _reading(plan.new))
    lines = kept_lines(store, plan.log, [bytes(plan.new)])
    batches = list(kept.rederived(store, session, plan.log, source, created, lines, events_too=True))
    return OverwrittenLog(log=plan.log, marks=plan.marks, changed=plan.changed(), batches=batches)


def _room_then(store: Store, session: Session, made: Iterable[OverwrittenLog], files: Iterable[OverwrittenFile]) -> int:
    """The room that a session will take."""
    size, going = store.ask(overwriting.loose_room, session.id), {each.file.id: each.data for each in files}
    for each in made:
        new = {mark.start: data for mark, data in each.changed}
        size += sum(len(event.data) for batch in each.batches for event in batch.events)
        for at, length in store.ask(overwriting.frames, each.log.id):
            size += len(codec.pack_chunk(new[at])) if at in new else length
        for sidecar_id, length in store.ask(overwriting.file_frames, each.log.id):
            size += len(codec.pack_chunk(going[sidecar_id])) if sidecar_id in going else length
    return size


# what came since ------------------------------------------------------------------------------------------------------


def prune_again(store: Store) -> list[tuple[str, PruneRefused]]:
    """Prune what came once more of turns that were pruned: by a log that was rewritten, or a document.

    Returns the sessions of which that could not be done, and why.
    """
    refused = []
    todo = store.ask_or([], pruned.unsettled)
    for session_id in todo:
        session, note = store.session(session_id), store.ask(pruned.noted, session_id)
        assert note is not None
        old = {turn.uid for turn in store.turns(session) if turn.first_seq < note.next_seq}
        try:
            prune_session(store, session, note.pruning, only=old)
        except PruneRefused as reason:
            refused.append((session.uid, reason))
    if todo and len(refused) < len(todo):
        store.erase()
    return refused
