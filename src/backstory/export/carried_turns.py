"""The turns of a branch on their way into another agent's log: read from the store, each event in its full form."""

from __future__ import annotations

from itertools import chain, groupby, pairwise
from typing import TYPE_CHECKING, Any

from backstory import agents, ids
from backstory.conversation.carrying import IMAGE, CarryEvent, NativeCall, TurnCarrier, is_inside, masked
from backstory.errors import AgentUnusable, UnknownAgent
from backstory.export.full_form import FullForms
from backstory.export.path_events import path_events
from backstory.export.subagents import SubagentAnswers
from backstory.lazy import lazy_regex
from backstory.model import ToolCall, ToolResult, UserMessage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from backstory.agents.contract import WritePart
    from backstory.conversation.carried import CarriedTurn, Fidelity, Image
    from backstory.conversation.tree import Span, Tree
    from backstory.derive.secrets import Redactor
    from backstory.export.read_back import Contents
    from backstory.model import Turn
    from backstory.store import Session, Store, StoredEvent, TreeTurn

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
        for _, events in groupby((self._event(each, forms, agent) for each in own), key=lambda each: each.seq):
            record = [*events]
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
