"""A session pruned in part: its bytes overwritten in place, what they say derived anew, in one transaction.

Everything is made before: the bytes as they will be, and the batches that today's readers make of them, both packed.
Where prompts, turns or their figures would differ then, records stay as they are, or the session is refused. A long log
is read a chunk at a time: for what it says, for its new bytes, and for what those say.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import msgspec
from msgspec import Struct, field

from backstory.agents.jsonl import LineReader
from backstory.derive import pruning
from backstory.derive.pruning import IMAGES, PROMPTS, TOOL_OUTPUTS, PrunedTexts, Pruning
from backstory.errors import PruneRefused
from backstory.ingest import kept, sidecars
from backstory.ingest.log_reader import SLICE_BYTES, kept_end, kept_lines
from backstory.model import Event, Record, Relation, Unknown, UserMessage, event_to_json
from backstory.store import codec
from backstory.store.file import maintenance
from backstory.store.intake import overwriting
from backstory.store.intake.batches import SUFFIX as TIMES
from backstory.store.intake.overwriting import HeldBatch, Overwriting, OverwrittenFile, OverwrittenLog
from backstory.store.intake.run_facts import SUFFIX as FACTS
from backstory.store.tables import logs, pruned, sessions
from backstory.store.tables import sidecars as stored_sidecars
from backstory.store.tables.logs import FAILED

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from backstory.agents.jsonl import Line
    from backstory.ingest.record_source import NumberedLine, RecordSource
    from backstory.model import Turn
    from backstory.store import Log, Session, Store
    from backstory.store.tables.logs import Chunk, ChunkMark
    from backstory.store.tables.sidecars import StoredSidecar

TRIES = 5
"""The most plans for one session, which is refused where another process changes it again and again."""


class Freed(Struct, frozen=True, kw_only=True):
    """The room that a session took before it was pruned, and takes then; how many records were overwritten."""

    before: int = 0
    after: int = 0
    records: int = 0
    """0 also where only files beside its logs were."""


class _Record(Struct, gc=False):
    """A record of a log: its place, and of what it says as much as shows whether that stays."""

    start: int
    stop: int
    seq: int
    turn_uid: str | None
    staying: bytes
    """The hash of its events that stay; b"" if none does."""
    has_events: bool
    goes: bool
    """True if an event of it goes."""


class _LogPlan(Struct):
    """A log, and how it will be: nothing of it is held whole but the chunks that differ then, packed."""

    log: Log
    marks: list[ChunkMark]
    read: Callable[[int, int], bytes]
    """Gives its bytes as they are, by their start and length."""
    records: dict[int, _Record] = field(default_factory=dict)
    """By their starts."""
    events: dict[int, list[Event]] | None = None
    """Events of its records, by their starts; None where the log is too long for that, and is read again."""
    turns: dict[str, Turn] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)
    changed: dict[int, Chunk] = field(default_factory=dict)
    """The chunks that differ, by their starts, with their new bytes."""
    count: int = 0
    """The records that differ."""
    whole: set[int] = field(default_factory=set)
    """Starts of records that stay as they are: without them a prompt would read otherwise."""
    careful: set[int] = field(default_factory=set)
    headed: set[int] = field(default_factory=set)
    """Starts of records of which less goes: see ``pruned_record``."""
    batches: list[HeldBatch] | None = None
    """All that it says then, once that was read."""


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
        files or any(plan.changed for plan in plans) or store.ask(overwriting.has_other_texts, session.id, wanted)
    )
    next_seq = before.next_seq if only is not None and before is not None else store.ask(sessions.next_seq, session.uid)
    made = [
        OverwrittenLog(
            log=plan.log,
            marks=plan.marks,
            changed=plan.changed,
            batches=[] if is_empty else _made(store, session, plan),
        )
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
    logs_here = store.logs(session)
    is_short = sum(log.read_to for log in logs_here) <= SLICE_BYTES
    plans = [_read(store, session, log, what, known, is_person=is_person, keeps_events=is_short) for log in logs_here]
    for plan in plans:
        known.names |= plan.names
    for plan in plans:
        _overwrite(store, session, plan, what, known, only, is_person=is_person)
        _check(store, session, plan, what, known, only, is_person=is_person)
    return plans, known, sum(plan.count for plan in plans)


def _names(session: Session) -> list[str | None]:
    return [
        session.title, session.name, session.cwd, session.recorded_cwd, session.root, session.worktree, session.project,
        session.repository, session.branch,
    ]  # fmt: skip


def _read(
    store: Store, session: Session, log: Log, what: Pruning, known: PrunedTexts, *, is_person: bool, keeps_events: bool
) -> _LogPlan:
    """Read what a log says; ``known`` receives its texts."""
    plan = _LogPlan(log, store.ask(logs.chunk_marks, log.id), partial(store.read_log, log.id))
    plan.events = {} if keeps_events else None
    source, _ = kept.kept_source(store, log, session.said_folder)
    for line in kept_lines(store, log):
        events, turn_uid = _events(source, line.content, line.seq)
        known.note(events, what, is_person=is_person)
        plan.records[line.start] = _Record(
            line.start, line.stop, line.seq, turn_uid, _staying(events, what, is_person=is_person), bool(events),
            any(what.goes(event, is_person=is_person) for event in events),
        )  # fmt: skip
        if plan.events is not None:
            plan.events[line.start] = events
    plan.turns = {turn.uid: turn for turn in source.turns()}
    facts = source.facts
    names = {facts.title, facts.cwd, facts.branch, facts.repository, *(facts.branches or ())}
    plan.names = {each for each in names if each} | {turn.model for turn in plan.turns.values() if turn.model}
    return plan


def _events(source: RecordSource, content: bytes | None, seq: int) -> tuple[list[Event], str | None]:
    if content is None:
        return [], None
    try:
        record = source.read(content, seq)
        return [event for _, event in record.events], record.turn_uid
    except Exception:
        # As it is stored: a record that its adapter fails at is kept like one that it does not know.
        return [Unknown(type=FAILED)], None


def _figures(turns: dict[str, Turn]) -> tuple[object, ...]:
    """The figures that pruned turns keep: tokens in sum alone, as some agents' turns share them by their texts."""
    tokens = [msgspec.structs.astuple(each.tokens) for each in turns.values()]
    return (
        [
            (each.uid, each.parent_uid, each.model, each.started, each.native_id, each.cost_usd)
            for each in sorted(turns.values(), key=lambda turn: turn.uid)
        ],
        [sum(each or 0 for each in kind) for kind in zip(*tokens, strict=True)],
    )


def _overwrite(
    store: Store, session: Session, plan: _LogPlan, what: Pruning, known: PrunedTexts, only: Collection[str] | None, *,
    is_person: bool,
) -> None:  # fmt: skip
    """Make the bytes of a log as they will be, a chunk at a time."""
    plan.changed, plan.count, plan.batches, is_past = {}, 0, None, False
    source, _ = kept.kept_source(store, plan.log, session.said_folder)
    marks, held = deque(plan.marks), bytearray()
    for start, stop, content in _all_lines(store, plan.log):
        record, events, turn_uid = plan.records.get(start), list[Event](), None
        if record is not None:
            turn_uid = record.turn_uid
            events = _events(source, content, record.seq)[0] if plan.events is None else plan.events[start]
        stays = start in plan.whole
        if only is not None:
            # What belongs to no turn is as old as the turns before it.
            is_past = is_past or (turn_uid is not None and turn_uid not in only)
            stays = stays or (turn_uid not in only if turn_uid is not None else is_past)
        old = plan.read(start, stop - start) if content is None else content
        # A last one has no end that was cut off.
        body = old.removesuffix(b"\n") if len(old) == stop - start else old
        new = body if stays else pruning.pruned_record(
            body, events, what, known, is_person=is_person, is_careful=start in plan.careful,
            keeps_heads=start in plan.headed,
        )  # fmt: skip
        plan.count += new != body
        held += new
        held += b"\n" * (stop - start - len(new))
        while marks and len(held) >= marks[0].length:
            mark = marks.popleft()
            data = bytes(memoryview(held)[: mark.length])
            del held[: mark.length]
            if codec.chunk_digest(data) != mark.sha256:
                plan.changed[mark.start] = logs.pack(mark.start, data)


def _all_lines(store: Store, log: Log) -> Iterator[Line]:
    """The lines of a log, also those that have no number, and a last one that has no end."""
    reader = LineReader(record_end=kept_end(store, log))
    for data in store.stream_log(log.id):
        yield from reader.lines(data)
    if reader.read_to > reader.start:
        yield reader.start, reader.read_to, reader.unfinished


def _check(
    store: Store, session: Session, plan: _LogPlan, what: Pruning, known: PrunedTexts, only: Collection[str] | None, *,
    is_person: bool,
) -> None:  # fmt: skip
    """Have what stays read as before; where it does not, records stay as they are.

    Raises PruneRefused where turns would differ.
    """
    if not plan.changed:
        return
    for attempt in (plan.careful, plan.whole, None):
        wrong = {start for start, each in plan.records.items() if each.staying}
        # What an agent puts into its log as if it were typed is known by how it begins.
        silent = set[int]()

        def compare(start: int, events: list[Event], wrong: set[int] = wrong, silent: set[int] = silent) -> None:
            before = plan.records[start]
            if _staying(events, what, is_person=is_person) == before.staying:
                wrong.discard(start)
            else:
                wrong.add(start)
            if not before.has_events and any(isinstance(event, UserMessage) for event in events):
                silent.add(start)

        plan.batches = None
        turns = {turn.uid: turn for each in _made(store, session, plan, compare) for turn in each.batch.turns}
        if not wrong and not silent and _figures(turns) == _figures(plan.turns):
            return
        if attempt is None:
            break
        attempt |= wrong
        if not wrong and not silent:
            # In a log of plain lines the figures are in lines that say nothing else.
            plan.whole.update(
                each.start
                for each in plan.records.values()
                if not each.goes and not pruning.is_json(plan.read(each.start, each.stop - each.start))
            )
        (plan.headed if attempt is plan.careful else plan.whole).update(silent)
        _overwrite(store, session, plan, what, known, only, is_person=is_person)
    raise PruneRefused(session.shown_name, "its turns would read otherwise without their texts")


def _staying(events: Collection[Event], what: Pruning, *, is_person: bool) -> bytes:
    """The hash of the events that stay; b"" if none does."""
    staying = [
        event
        for event in events
        if (isinstance(event, UserMessage) if what.keep is None else what.stays(event, is_person=is_person))
    ]
    if IMAGES in what.kinds:
        staying = [pruning.without_its_images(event) for event in staying]
    return codec.chunk_digest(b"\0".join(map(event_to_json, staying))) if staying else b""


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


class _Watched:
    """The reader of a log, which notes what the last record says."""

    def __init__(self, source: RecordSource) -> None:
        self._source, self.events = source, list[Event]()

    def read(self, line: bytes, seq: int) -> Record:
        self.events = [Unknown(type=FAILED)]
        record = self._source.read(line, seq)
        self.events = [event for _, event in record.events]
        return record

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)


def _made(
    store: Store, session: Session, plan: _LogPlan, compare: Callable[[int, list[Event]], None] | None = None
) -> list[HeldBatch]:
    """All that a log says as it will be. ``compare`` receives what each record says, by its start."""
    if plan.batches is None:
        source, created = kept.kept_source(store, plan.log, session.said_folder, partial(_new_bytes, store, plan))
        watched = _Watched(source)

        def lines() -> Iterator[NumberedLine]:
            for line in kept_lines(store, plan.log, _new_chunks(store, plan)):
                watched.events = []
                # Whoever takes it has read it when the next one is asked for.
                yield line
                if compare is not None:
                    compare(line.start, watched.events)

        derived = kept.rederived(
            store, session, plan.log, cast("RecordSource", watched), created, lines(), events_too=True
        )
        plan.batches = [HeldBatch.of(batch) for batch in derived]
    return plan.batches


def _new_chunks(store: Store, plan: _LogPlan) -> Iterator[bytes]:
    for mark in plan.marks:
        chunk = plan.changed.get(mark.start)
        yield plan.read(mark.start, mark.length) if chunk is None else _unpacked(store, chunk)


def _new_bytes(store: Store, plan: _LogPlan, start: int, length: int) -> bytes:
    data = bytearray(plan.read(start, length))
    for chunk in plan.changed.values():
        begin, end = max(chunk.start, start), min(chunk.start + chunk.length, start + len(data))
        if begin < end:
            data[begin - start : end - start] = _unpacked(store, chunk)[begin - chunk.start : end - chunk.start]
    return bytes(data)


def _unpacked(store: Store, chunk: Chunk) -> bytes:
    return store.ask(lambda db: codec.unpack_chunk(chunk.frame, chunk.length, chunk.digest, codec.dictionaries_of(db)))


def _room_then(store: Store, session: Session, made: Iterable[OverwrittenLog], files: Iterable[OverwrittenFile]) -> int:
    """The room that a session will take."""
    size, going = store.ask(overwriting.loose_room, session.id), {each.file.id: each.data for each in files}
    for each in made:
        size += sum(batch.room for batch in each.batches)
        for at, length in store.ask(overwriting.frames, each.log.id):
            size += len(each.changed[at].frame) if at in each.changed else length
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
