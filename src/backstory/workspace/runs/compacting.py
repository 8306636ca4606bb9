"""Compaction of one session: how full its context is, what a summary would cover, and making one."""

from __future__ import annotations

import time
from functools import reduce
from typing import TYPE_CHECKING

from msgspec import Struct

from backstory import agents
from backstory.ask import costs
from backstory.bounds import iso
from backstory.conversation import compaction
from backstory.conversation.compaction import SUMMARY_CHARS_MAX, Boundary, Exchange, facts_of
from backstory.conversation.context import build_summarized, rendered_blocks
from backstory.conversation.tree import Point, Span
from backstory.errors import AgentCannotSummarise, BackstoryError, CompactionFailed, CompactionRunning, NothingToCompact
from backstory.model import Tokens, TurnWithEvents
from backstory.runs import compactor
from backstory.runs.answering import Question, ask
from backstory.runs.stream import is_installed, program
from backstory.store.tables import branches, compactions
from backstory.store.tables.compactions import NewCompaction
from backstory.workspace.runs.contexts import NO_LIMIT
from backstory.workspace.runs.requests import usual_agent
from backstory.workspace.runs.run_events import Compacting, SummaryMade
from backstory.workspace.runs.running import limit_of, measure, summarised_from

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from backstory.conversation.compaction import KeptFacts
    from backstory.conversation.context import History
    from backstory.derive.pricing import Cost
    from backstory.runs.answering import AgentAnswer
    from backstory.store import Session, Store
    from backstory.store.tables.compactions import Compaction
    from backstory.workspace.place import Place

TRIES = 2
PIECE_CHARS_MIN = 2_000


class CompactionPlan(Struct, frozen=True, kw_only=True):
    """The fill of a session's context, and the turns that a summary made now would cover."""

    chars: int
    """Characters of the context since the summary in force, nothing cut."""
    limit: int
    """From how many on it is summarised; 0: never."""
    boundary: Boundary | None
    history: History

    @property
    def is_due(self) -> bool:
        """True if the context has passed its limit, and something can be summarised."""
        return self.is_over and self.boundary is not None

    @property
    def is_over(self) -> bool:
        """True if the context has passed its limit."""
        return 0 < self.limit <= self.chars


class _Spent:
    """The sums of the answers for one summary; unknown if one of them is."""

    def __init__(self) -> None:
        self.answers: list[AgentAnswer] = []

    @property
    def tokens(self) -> Tokens:
        return reduce(Tokens.plus, (each.tokens for each in self.answers))

    @property
    def cost_usd(self) -> float | None:
        known = [each.cost_usd for each in self.answers if each.cost_usd is not None]
        return sum(known) if len(known) == len(self.answers) else None

    @property
    def model(self) -> str | None:
        return next((each.model for each in reversed(self.answers) if each.model), None)


class Compactor:
    """Summarises the beginning of one session, in the store that owns it.

    ``to``: the record that the context leads to; None: where the session goes on.
    """

    def __init__(self, place: Place, store: Store, session: Session, to: Point | None = None) -> None:
        self._place, self._store, self._session, self._to = place, store, session, to

    def plan(self) -> CompactionPlan:
        """Return the turns that a summary made now would cover."""
        history = self._store.ask(compactions.history, self._session.id, NO_LIMIT, self._to)
        exchanges = exchanges_of(history.turns)
        limit = self._limit(history.turns)
        return CompactionPlan(
            chars=sum(each.chars for each in exchanges),
            limit=limit,
            boundary=compaction.boundary(exchanges, limit or NO_LIMIT),
            history=history,
        )

    def check(self) -> None:
        """Raise what keeps an agent from being asked at all: AgentMissing, AgentCannotRun, AgentCannotSummarise."""
        agent, settings = self._agent(), self._place.config.settings
        program(agent, settings.program_of(agent) or None, self._place.environ)

    def _limit(self, turns: Sequence[TurnWithEvents]) -> int:
        if not turns:
            return self._place.config.settings.compaction.chars
        last = turns[-1].turn
        return summarised_from(self._place, self._store.ask, self._session.id, last.agent, last.model)

    def compact(self, plan: CompactionPlan | None = None) -> Generator[Compacting | SummaryMade, None, SummaryMade]:
        """Make a summary of what a plan covers, and store it.

        Raises NothingToCompact, CompactionRunning, CompactionFailed, and what keeps its agent from being run.
        """
        plan = plan or self.plan()
        if plan.boundary is None:
            raise NothingToCompact(self._session.shown_number or self._session.uid[:12])
        self.check()
        # Found out before an agent is paid for what could not be kept.
        self._store.check_writable()
        home, uid = self._place.home, self._session.uid
        lock = compactor.lock_of(home, uid)
        if not lock.take():
            raise CompactionRunning(self._session.shown_number or uid[:12])
        trouble = ""
        try:
            compactor.note_begun(home, uid)
            return (yield from self._compact(plan, plan.boundary))
        except BackstoryError as refused:
            trouble = str(refused)
            raise
        finally:
            # Not reached where the process is killed: then the next run begins again.
            compactor.note_trouble(home, uid, trouble)
            lock.release()

    def _compact(
        self, plan: CompactionPlan, boundary: Boundary
    ) -> Generator[Compacting | SummaryMade, None, SummaryMade]:
        turns = _covered(plan.history.turns, boundary.after_seq)
        touched = self._touched(turns, boundary.after_seq)
        summary, spent = plan.history.summary, _Spent()
        agent, began = self._agent(), time.monotonic()
        pieces = list(_pieces(turns, self._piece_chars(plan, agent)))
        for step, piece in enumerate(pieces, 1):
            yield Compacting(
                session=self._session, agent=agent, exchanges=boundary.summarized, step=step, steps=len(pieces)
            )
            prompt = compaction.summary_prompt(build_summarized(summary, piece))
            summary = self._ask(agent, prompt, touched if step == len(pieces) else {}, spent)
        new = NewCompaction(
            after_seq=boundary.after_seq,
            summary=summary or "",
            agent=agent,
            model=spent.model or self._place.config.settings.compaction.model or None,
            tokens=spent.tokens,
            cost_usd=spent.cost_usd,
            duration_ms=round(1_000 * (time.monotonic() - began)),
        )
        is_stored = self._store.decide(compactions.add, self._session.id, new)
        if is_stored:
            self._make_known()
        done = SummaryMade(
            session=self._session,
            after_seq=new.after_seq,
            summary=new.summary,
            exchanges=boundary.summarized,
            is_stored=is_stored,
            retention=compaction.retention(new.summary, facts_of(turns, touched)),
            tokens=spent.tokens,
            cost=self._cost(new),
            model=new.model,
            duration_ms=new.duration_ms,
        )
        yield done
        return done

    def _piece_chars(self, plan: CompactionPlan, agent: str) -> int:
        """Return the most characters of one question: no more than the writer of the summary can take."""
        model = self._place.config.settings.compaction.model or None
        limit = limit_of(self._place, self._store.ask, self._session.id, agent, model)
        return min(plan.limit or limit, limit)

    def _ask(self, agent: str, prompt: str, touched: dict[str, str], spent: _Spent) -> str:
        """An answer that is a summary; one that is none is asked for once more, and what it took counts, too."""
        settings = self._place.config.settings
        question = Question(
            agent=agent,
            prompt=prompt,
            model=settings.compaction.model or None,
            executable=settings.program_of(agent) or None,
            timeout_s=settings.compaction.timeout_s,
        )
        why = ""
        for _ in range(TRIES):
            answer = ask(question, self._place.environ)
            spent.answers.append(answer)
            why = answer.error or compaction.problem_with(answer.text, touched) or ""
            if not why:
                return answer.text
        raise CompactionFailed(self._session.shown_number or self._session.uid[:12], why)

    def _agent(self) -> str:
        settings = self._place.config.settings
        if chosen := settings.compaction.agent:
            if agents.load(chosen).run is None:
                raise AgentCannotSummarise(chosen)
            return chosen
        last = usual_agent(self._place, self._store, self._session, self._to)
        can_run = agents.load(last).run is not None
        if can_run and is_installed(last, settings.program_of(last), self._place.environ):
            return last
        return usual_agent(self._place, self._store, None, None)

    def _cost(self, new: NewCompaction) -> Cost:
        prices = costs.price_table(self._store.prices_file)
        return costs.of_summary(prices, new.agent, new.model, iso(self._place.now()), new.tokens, new.cost_usd)

    def _touched(self, turns: Sequence[TurnWithEvents], up_to: int) -> dict[str, str]:
        spans = [Span(each.turn.uid, each.turn.first_seq, min(each.turn.last_seq, up_to)) for each in turns]
        return self._store.ask(branches.touched, self._session.id, spans)

    def retention(self, found: Compaction) -> tuple[KeptFacts, ...]:
        """Return the facts of all covered turns that a summary still names."""
        turns = self._store.turns(self._session)
        last = next((each for each in turns if each.first_seq <= found.after_seq <= each.last_seq), None)
        if last is None:
            return ()
        covered = self._store.context_turns(self._session, NO_LIMIT, Point(last.uid, found.after_seq))
        return compaction.retention(found.summary, facts_of(covered, self._touched(covered, found.after_seq)))

    def undo(self) -> Compaction | None:
        """Take the summary in force out of force; None where there is none."""
        undone = self._store.decide(compactions.undo, self._session.id)
        if undone is not None:
            self._make_known()
        return undone

    def _make_known(self) -> None:
        """Count the context anew, and have the stores that hold the session, too, know its summaries.

        What cannot be written now is taken over by the next ingest.
        """
        measure(self._place, self._store, self._session)
        self._place.decisions.copy(self._store, self._session.uid)


def exchanges_of(turns: Sequence[TurnWithEvents]) -> list[Exchange]:
    """The exchanges of these turns: what no person asked for belongs to the exchange before it."""
    found: list[Exchange] = []
    for turn, blocks in zip(turns, rendered_blocks(turns), strict=True):
        chars = sum(len(block) + 1 for block in blocks)
        if found and not turn.turn.prompt:
            chars += found.pop().chars
        found.append(Exchange(last_seq=turn.turn.last_seq, chars=chars))
    return found


def _covered(turns: Sequence[TurnWithEvents], after_seq: int) -> list[TurnWithEvents]:
    last = next(n for n, each in enumerate(turns) if each.turn.last_seq == after_seq)
    return list(turns[: last + 1])


def _pieces(turns: Sequence[TurnWithEvents], limit: int) -> list[str]:
    """Divide the text to summarise into pieces that leave room for the summary before each."""
    blocks = [block for turn in rendered_blocks(turns) for block in turn]
    room = max(limit - SUMMARY_CHARS_MAX, PIECE_CHARS_MIN)
    return list(compaction.steps(blocks, room))
