"""How well a row of the index fits a query: bm25, where a term that is there in another spelling only counts less.

SQLite calls it for every row that is ranked. FTS5's own would count each spelling as a term of its own, and reads all
hits of every phrase once more to know how rare it is, which the search that asks knows already.
"""

from __future__ import annotations

import math
from operator import mul
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from collections.abc import Sequence

    import apsw

SATURATION = 1.2
"""bm25's k1: how soon more places of a term in one text count no more."""
LENGTH_WEIGHT = 0.9
"""bm25's b: how much a long text needs more of them."""
_NEEDED_LEAST = SATURATION * (1 - LENGTH_WEIGHT)
NAME = "relevance"
"""What SQL calls it: ``relevance(search_index)``. The best fit has the highest."""

_known: WeakKeyDictionary[apsw.Connection, Relevance] = WeakKeyDictionary()


def for_connection(db: apsw.Connection) -> Relevance:
    """The function of a connection. It is registered once, because FTS5 keeps every one that it was given."""
    if (found := _known.get(db)) is None:
        found = _known[db] = Relevance()
        db.register_fts5_function(NAME, found)
    return found


class Relevance:
    """The function that SQL calls, and what it is asked at the moment."""

    def __init__(self) -> None:
        self.ask([], [])

    def ask(self, phrases: Sequence[tuple[int, float]], hits: Sequence[int]) -> None:
        """Set what the rows of the next statement are measured by.

        ``phrases``: of each phrase of the expression in order the number of its term, and what it counts if none of
        the term's phrases before it is there. ``hits``: of each term how many rows have it.
        """
        self._phrases = phrases
        self._hits = hits
        self._rarities: list[float] = []
        self._per_word = 0.0

    def __call__(self, api: apsw.FTS5ExtensionApi, *_: object) -> float:
        if not self._per_word:
            self._begin(api.row_count, api.column_total_size())
        needed = _NEEDED_LEAST + self._per_word * api.column_size()
        if len(self._phrases) == 1:
            return self._rarities[0] * (places := api.inst_count) / (places + needed)
        if len(self._rarities) == 1:
            for number, (_term, weight) in enumerate(self._phrases):
                if places := len(api.phrase_locations(number)[0]):
                    return self._rarities[0] * weight * places / (places + needed)
            return 0.0
        fits = [0.0] * len(self._rarities)
        for phrase, (term, weight) in enumerate(self._phrases):
            if not fits[term] and (places := len(api.phrase_locations(phrase)[0])):
                fits[term] = weight * places / (places + needed)
        return math.fsum(map(mul, self._rarities, fits))

    def _begin(self, rows: int, words: int) -> None:
        self._per_word = SATURATION * LENGTH_WEIGHT * rows / max(words, 1)
        self._rarities = [math.log(1 + (max(rows - hits, 0) + 0.5) / (hits + 0.5)) for hits in self._hits]
