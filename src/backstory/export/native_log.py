"""A session as a log that an agent's own client continues, made from what the store holds of one branch.

>>> log = NativeLog(store, session, "NAME", to=None, folder="/work", settings={})    # doctest: +SKIP
>>> written = b"".join(log.lines())                                                 # doctest: +SKIP
>>> log.fidelity.counts, log.contents                                               # doctest: +SKIP
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from backstory import agents, ids
from backstory.conversation.carried import CarriedSession, Fate, Fidelity
from backstory.conversation.carrying import BEFORE_ANY
from backstory.conversation.tree import Tree
from backstory.errors import CannotResume
from backstory.export.carried_turns import CarriedTurns
from backstory.export.read_back import Contents
from backstory.export.redacted import learn
from backstory.store.tables import compactions, events, logs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backstory.agents.contract import WritePart
    from backstory.conversation.tree import Point, Span
    from backstory.derive.secrets import Redactor
    from backstory.store import Session, Store

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
        for seq in self._store.ask(logs.record_numbers, self._session.id):
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
