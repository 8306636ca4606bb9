"""A session as a log that an agent's own client continues, made from what the store holds of one branch.

>>> log = NativeLog(store, session, "NAME", to=None, folder="/work", settings={})    # doctest: +SKIP
>>> written = b"".join(log.lines())                                                 # doctest: +SKIP
>>> log.fidelity.counts, log.contents                                               # doctest: +SKIP
"""

from __future__ import annotations

from functools import cached_property
from itertools import chain, groupby, pairwise
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from backstory import agents, ids
from backstory.conversation.carried import CarriedSession, Fate, Fidelity
from backstory.conversation.carrying import BEFORE_ANY, IMAGE, CarryEvent, NativeCall, TurnCarrier, is_inside, masked
from backstory.conversation.tree import Tree
from backstory.errors import AgentUnusable, CannotResume, UnknownAgent
from backstory.export.full_form import FullForms
from backstory.export.path_events import path_events
from backstory.export.read_back import Contents
from backstory.export.redacted import learn
from backstory.lazy import lazy_regex
from backstory.model import AssistantText, Relation, ToolCall, ToolResult, UserMessage
from backstory.store.tables import compactions, events

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from backstory.agents.contract import WritePart
    from backstory.conversation.carried import CarriedTurn, Image
    from backstory.conversation.tree import Point, Span
    from backstory.derive.secrets import Redactor
    from backstory.model import Turn
    from backstory.store import Session, Store, StoredEvent, TreeTurn

OTHER_BRANCH = "it is on another branch"
NO_EVENT = "a note of the agent's client, or said in another record"
SUMMARISED = "the summary in force stands for it"
BEHIND = "it stands behind the record that was named"
NOT_SHOWN = ("Thinking", "Init", "ModelSwitch", "Retry", "Complete", "Unknown")
"""Kinds of which nothing is written, and whose length does not count."""
MASKED = " masked"
"""Behind the last turn's uid, of which a log's id is made, where its secrets are masked."""


class _Path(Struct, frozen=True, kw_only=True):
    """The branch that is written: its spans, those of them that a summary covers, and that summary."""

    spans: list[Span]
    covered: int
    summary: str | None

    @property
    def uncovered(self) -> list[Span]:
        """The spans that are written."""
        return self.spans[self.covered :]


class NativeLog:
    """One branch of a session, as a log of the agent ``target``. ``to``: its last record; None: where it stands.

    ``folder``: the real path that the client is started in. ``settings``: see ``contract.WritePart``. ``redactor``
    masks what is said and done. Raises CannotResume where the session has no turns.
    """

    def __init__(
        self, store: Store, session: Session, target: str, *, to: Point | None, folder: str,
        settings: dict[str, str], redactor: Redactor | None = None,
    ) -> None:  # fmt: skip
        self._store, self._session, self.target = store, session, target
        self._redactor = redactor
        self.label = session.shown_number or session.uid[:12]
        self._tree = Tree(store.tree(session))
        self._to = to or store.leaf(session)
        if self._to is None or self._to.uid not in self._tree:
            raise CannotResume(self.label, "it has no turns")
        self.native_id = ids.written_log_id(session.uid, self._last_turn(), target)
        self.head = CarriedSession(
            native_id=self.native_id,
            folder=folder,
            branch=self._masked(session.branch),
            started=self._started(),
            settings=settings,
        )
        self.fidelity, self.contents = Fidelity(), Contents()

    def _last_turn(self) -> str:
        """The uid of the last turn; with its record where it is written in part, and a mark where secrets are masked.

        For then it is another log.
        """
        assert self._to is not None
        turn = self._tree[self._to.uid]
        cut = "" if self._to.seq >= turn.last_seq else f"@{self._to.seq}"
        return f"{turn.uid}{cut}{'' if self._redactor is None else MASKED}"

    def _started(self) -> int:
        path = self._tree.ancestry(self._to.uid) if self._to is not None else []
        known = (turn.started for turn in path if turn.started is not None)
        return next(known, None) or ids.time_of(self._session.uid)

    @property
    def part(self) -> WritePart:
        """The part that writes the log."""
        part = agents.load(self.target).write
        assert part is not None
        return part

    def lines(self) -> Iterator[bytes]:
        """The log, line by line. Then ``fidelity`` has what became of each record, and ``contents`` what it holds."""
        self.fidelity, self.contents = Fidelity(), Contents()
        path = self._path()
        if self._redactor is not None:
            learn(self._redactor, self._store, [self._session.id])
        turns = CarriedTurns(
            self._store, self._session, self._tree, target=self.target, folder=self.head.folder, fidelity=self.fidelity,
            contents=self.contents, redactor=self._redactor,
        )  # fmt: skip
        yield from self.part.lines(self.head, turns.of(path.uncovered), self._masked(path.summary))
        self._note_rest(path)

    # which records --------------------------------------------------------------------------------------------------

    def _path(self) -> _Path:
        """The branch. Its summary counts only where the whole has no room in the target's window."""
        assert self._to is not None
        spans = self._tree.path(self._to)
        if self._chars(spans) <= self.part.window_chars:
            return _Path(spans=spans, covered=0, summary=None)
        found = self._store.ask(compactions.in_force, self._session.id, self._to)
        covered = sum(span.last <= found.after_seq for span in spans) if found is not None else 0
        return _Path(spans=spans, covered=covered, summary=found.summary if found is not None and covered else None)

    def _chars(self, spans: list[Span]) -> int:
        ends = {self._tree[span.uid].id: (span.first, span.last) for span in spans}
        return sum(
            each.char_len
            for each in self._store.ask(events.outline, self._session.id)
            if each.kind not in NOT_SHOWN and _is_in(each.seq, ends.get(each.turn_id or 0))
        )

    def _note_rest(self, path: _Path) -> None:
        """Note what became of all records of which nothing was written."""
        written = {seq for span in path.spans for seq in range(span.first, span.last + 1)}
        covered = {seq for span in path.spans[: path.covered] for seq in range(span.first, span.last + 1)}
        kinds: dict[int, str] = {}
        of_turns: dict[int, int] = {}
        for each in self._store.ask(events.outline, self._session.id):
            kinds.setdefault(each.seq, each.kind)
            of_turns.setdefault(each.seq, each.turn_id or 0)
        on_path = {self._tree[span.uid].id for span in path.spans}
        for seq in self._store.ask(events.record_numbers, self._session.id):
            if self.fidelity.is_known(seq):
                continue
            kind, turn = kinds.get(seq, ""), of_turns.get(seq)
            if turn is not None and turn not in on_path and turn != 0:
                self.fidelity.note(seq, Fate.LEFT_OUT, kind, OTHER_BRANCH)
            elif seq in covered and kind:
                self.fidelity.note(seq, Fate.AS_TEXT, kind, SUMMARISED)
            elif seq in written or not kind:
                self.fidelity.note(seq, Fate.LEFT_OUT, kind, NO_EVENT)
            else:
                self.fidelity.note(seq, Fate.LEFT_OUT, kind, BEFORE_ANY if not turn else BEHIND)

    def _masked(self, text: str | None) -> str | None:
        return self._redactor.text(text) if self._redactor is not None and text else text


def _is_in(seq: int, ends: tuple[int, int] | None) -> bool:
    return ends is not None and ends[0] <= seq <= ends[1]


# carried turns --------------------------------------------------------------------------------------------------------
# The turns of a branch on their way into another agent's log: read from the store, each event in its full form.


_CALL_ID = lazy_regex(r"[A-Za-z0-9_-]{1,64}")


class CarriedTurns:
    """The turns of one session for the agent ``target``, whose client is started in ``folder``.

    ``fidelity`` receives the fate of each record, and ``contents`` what is said and done: the words of a person as the
    store has them, the rest as it is written. ``redactor`` masks what was said and done.
    """

    def __init__(
        self, store: Store, session: Session, tree: Tree[TreeTurn], *, target: str, folder: str, fidelity: Fidelity,
        contents: Contents, redactor: Redactor | None,
    ) -> None:  # fmt: skip
        self._store, self._session, self._tree = store, session, tree
        self._target, self._folder, self._redactor = target, folder, redactor
        self._fidelity, self._contents = fidelity, contents
        self._turns = {turn.uid: turn for turn in store.turns(session)}

    def of(self, spans: list[Span]) -> Iterator[CarriedTurn]:
        """These turns, in their order, as far as the spans go; what became of their records is noted."""
        calls, subagents = _CallIds(), SubagentAnswers(self._store, self._session, self._redactor)
        before: TurnCarrier | None = None
        for turn, records in self._records(spans):
            first = next(records, [])
            if before is not None:
                # Words that are typed while a tool runs are logged with its result, which ends the turn before.
                first = before.take_results(first)
                yield self._carried(before)
            before = TurnCarrier(
                turn, turn.agent == self._target, self._fidelity, self._native_call(turn, calls), subagents.named_in
            )
            before.take(chain([first], records))
        if before is not None:
            yield self._carried(before)

    def _records(self, spans: list[Span]) -> Iterator[tuple[Turn, Iterator[list[CarryEvent]]]]:
        """Each turn with its records; the words typed in them are noted before anything is made of them."""
        forms = FullForms(self._store)
        for span, own in self.by_turn(spans):
            turn = self._turns[span.uid]
            self._contents.begin_turn(turn.prompt if self._redactor is None else self._redactor.text(turn.prompt))
            yield turn, self._noted(own, forms, turn.agent)

    def _noted(self, own: Iterator[StoredEvent], forms: FullForms, agent: str) -> Iterator[list[CarryEvent]]:
        for _, of_record in groupby((self._event(each, forms, agent) for each in own), key=lambda each: each.seq):
            record = [*of_record]
            for each in record:
                if isinstance(each.event, UserMessage) and not is_inside(each, each.event.content, record):
                    self._contents.add_typed(each.event.content, each.seq)
            yield record

    def _carried(self, carrier: TurnCarrier) -> CarriedTurn:
        turn = carrier.carried()
        self._contents.add_steps(turn)
        return turn

    def by_turn(self, spans: list[Span]) -> Iterator[tuple[Span, Iterator[StoredEvent]]]:
        """The events of each turn. Where turns follow each other, as they nearly always do, all are read in one go."""
        ids_of = {turn.uid: turn.id for turn in self._tree}
        in_order = all(one.last < other.first for one, other in pairwise(spans))
        together = path_events(self._store, self._session, spans, self._tree) if in_order else iter(())
        held = next(together, None)
        for span in spans:
            if not in_order:
                yield span, path_events(self._store, self._session, [span], self._tree)
                continue
            own: list[StoredEvent] = []
            while held is not None and held.seq <= span.last:
                own.append(held)
                held = next(together, None)
            yield span, (each for each in own if each.turn_id == ids_of[span.uid])

    def _event(self, stored: StoredEvent, forms: FullForms, agent: str) -> CarryEvent:
        event = forms.expand(stored)
        images: tuple[Image, ...] = ()
        words = event.content if isinstance(event, UserMessage | ToolResult) else ""
        writer = _writer_of(agent)
        if IMAGE in words and writer is not None:
            call = event.tool_use_id if isinstance(event, ToolResult) else None
            images = tuple(each for each in writer.images(forms.record(stored)) if each.call_id == call)
        found = CarryEvent(seq=stored.seq, part=stored.part, at=stored.at, event=event, images=images)
        return found if self._redactor is None else masked(found, self._redactor.value)

    def _native_call(self, turn: Turn, calls: _CallIds) -> Callable[[CarryEvent, ToolCall], NativeCall | None]:
        """Return a function that writes a turn's call for the target, or None if the target has no tool for it."""
        source, target = _writer_of(turn.agent), _writer_of(self._target)

        def of(at: CarryEvent, call: ToolCall) -> NativeCall | None:
            given: tuple[str, Any] | None = None
            if target is None:
                return None
            if turn.agent == self._target:
                given = target.own_call(call)
            elif source is not None and (action := source.action_of(call)) is not None:
                given = target.call_for(action, self._folder)
            if given is None:
                return None
            call_id = calls.unused(call.tool_use_id, f"{turn.uid}/{at.seq}.{at.part}")
            is_same = given == (call.tool_name, call.input) and call_id == call.tool_use_id
            return NativeCall(id=call_id, name=given[0], input=given[1], is_same=is_same)

        return of


class _CallIds:
    """Ids of calls, each given once: a service refuses a second call of one id, and runs count theirs anew."""

    def __init__(self) -> None:
        self._used: set[str] = set()

    def unused(self, wanted: str, place: str) -> str:
        """The id of a call itself, or one that its place in the session has where that is taken, or no id."""
        is_good = _CALL_ID.fullmatch(wanted) is not None and wanted not in self._used
        given = wanted if is_good else f"call_{ids.written_turn_id(place).replace('-', '')}"
        self._used.add(given)
        return given


def _writer_of(agent: str) -> WritePart | None:
    """Return the part that knows an agent's calls and images; None if there is none, or its package is gone."""
    try:
        return agents.load(agent).write
    except (UnknownAgent, AgentUnusable):
        return None


# subagents ------------------------------------------------------------------------------------------------------------
# Last messages of a session's subagents, for the results of the calls that started them.


ID_CHARS_MIN = 6
"""A shorter id may stand in a text by chance."""


class SubagentAnswers:
    """The subagents of one session, by their own ids, which the results of calls name."""

    def __init__(self, store: Store, session: Session, redactor: Redactor | None) -> None:
        self._store, self._session, self._redactor = store, session, redactor
        self._forms = FullForms(store)

    def named_in(self, text: str) -> str | None:
        """Return the last message of the subagent that a result names; None if there is no name or no message."""
        for own_id, child in self._children.items():
            if own_id in text:
                answer = self._last_answer(child)
                return self._redactor.text(answer) if answer and self._redactor is not None else answer
        return None

    @cached_property
    def _children(self) -> dict[str, Session]:
        found = {}
        for child in self._store.children(self._session):
            own_id = (child.native_id or "").rpartition("/")[2]
            if child.relation == Relation.SUBAGENT and len(own_id) >= ID_CHARS_MIN:
                found[own_id] = child
        return found

    def _last_answer(self, child: Session) -> str | None:
        said = [each for each in self._store.ask(events.outline, child.id) if each.kind == AssistantText.kind]
        if not said:
            return None
        for stored in self._store.ask(events.of_records, child.id, [said[-1].seq]):
            event = self._forms.expand(stored)
            if isinstance(event, AssistantText) and stored.part == said[-1].part:
                return event.text.strip() or None
        return None
