"""A reader for what goes to other people: without removed branches, and with a redactor without secrets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from backstory.export.full_form import words_form
from backstory.workspace.reader import Reader

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator, Sequence

    from backstory.derive.secrets import Redactor
    from backstory.model import Event
    from backstory.workspace.history.entries import Form, SessionEntry
    from backstory.workspace.history.transcript import Transcript
    from backstory.workspace.located import LocatedSession
    from backstory.workspace.place import Place


def _ignore(_remark: str) -> None:
    """For who says nothing."""


class SharedReader(Reader):
    """Answers as ``Reader`` does. Everything of a session that a person could read is masked.

    ``whole``: the events of the entries that were read last for a face, by record and part, with all that their records
    say.
    """

    def __init__(self, place: Place, redactor: Redactor | None) -> None:
        super().__init__(place)
        self._redactor = redactor
        self.whole: dict[tuple[int, int], Event] = {}

    @property
    def is_masked(self) -> bool:
        """True if secrets are masked."""
        return self._redactor is not None

    def learn(self, located: LocatedSession) -> None:
        """Remember the secrets of a session: what only its name tells to be one has to be known everywhere."""
        if self._redactor is not None:
            for each in super().events(located, form="full"):
                self._redactor.learn(each.event)

    def transcript(self, located: LocatedSession, report: Callable[[str], None] = _ignore) -> Transcript:
        """The turns of a session, without those of removed branches."""
        found = super().transcript(located, report)
        found = replace(found, turns=tuple(each for each in found.turns if each.removed is None))
        if self._redactor is None:
            return found
        masked: Transcript = self._redactor.value(found)
        return replace(masked, located=located)

    def events(
        self, located: LocatedSession, after: tuple[int, int] = (0, -1), *, form: Form = "compact",
        turns: Container[int | None] | None = None, limit: int | None = None,
    ) -> Iterator[SessionEntry]:  # fmt: skip
        """The events of a session behind ``after``."""
        for each in super().events(located, after, form="full", turns=turns, limit=limit):
            event = each.event if self._redactor is None else self._redactor.value(each.event)
            yield replace(each, event=event if form == "full" else words_form(event))

    def entries(self, located: LocatedSession, seqs: Sequence[int], form: Form = "compact") -> tuple[SessionEntry, ...]:
        """The entries of these records. Masked before they are made short: nobody could tell what half a secret is."""
        found = super().entries(located, seqs, "full")
        if self._redactor is not None:
            found = tuple(replace(each, event=self._redactor.value(each.event)) for each in found)
        if form == "words":
            self.whole = {(each.outline.seq, each.outline.part): each.event for each in found}
        return found if form == "full" else tuple(replace(each, event=words_form(each.event)) for each in found)
