"""The tokens of requests, from logs with growing totals of a thread and the last request beside them."""

from __future__ import annotations

from backstory.agents import numbers
from backstory.bounds import LOST, added, less
from backstory.model import Tokens


class Usage(numbers.Counts):
    """The usage of one request, or of several. Input and output come together: one that is not there is lost."""

    input_tokens: numbers.Count = None
    cached_input_tokens: numbers.Count = None
    cache_write_input_tokens: numbers.Count = None
    output_tokens: numbers.Count = None
    reasoning_output_tokens: numbers.Count = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.input_tokens = LOST if self.input_tokens is None else self.input_tokens
        self.output_tokens = LOST if self.output_tokens is None else self.output_tokens

    def spent(self) -> int:
        """All tokens; those from a cache are input, too, and reasoning is output."""
        return added(self.input_tokens, self.output_tokens)

    def since(self, before: Usage) -> Usage:
        """By how much a total grew."""
        return Usage(
            input_tokens=_grown(before.input_tokens, self.input_tokens),
            cached_input_tokens=_grown(before.cached_input_tokens, self.cached_input_tokens),
            cache_write_input_tokens=_grown(before.cache_write_input_tokens, self.cache_write_input_tokens),
            output_tokens=_grown(before.output_tokens, self.output_tokens),
            reasoning_output_tokens=_grown(before.reasoning_output_tokens, self.reasoning_output_tokens),
        )


NOT_KNOWN = Usage()
"""The usage of requests of which there was some, and nobody knows how much."""


def added_to(tokens: Tokens, more: Usage, last: Usage | None = None) -> Tokens:
    """A turn's tokens with ``more``. ``last``, the last request, shows whether that is one request or several.

    Of the counts of caches one that is not there is 0.
    """
    cached = more.cached_input_tokens or 0
    written = more.cache_write_input_tokens
    read = more.input_tokens
    is_one = not more.spent() or (last is not None and last.input_tokens == read)
    return Tokens(
        # What came from a cache is counted as input too.
        input=added(tokens.input, less(read, cached)),
        output=added(tokens.output, more.output_tokens),
        cache_read=added(tokens.cache_read, cached),
        cache_write=tokens.cache_write if written is None else added(tokens.cache_write, written),
        reasoning=added(tokens.reasoning, more.reasoning_output_tokens),
        largest_input=numbers.largest_input(tokens, read if is_one else None),
    )


def _grown(before: int | None, now: int | None) -> int | None:
    return None if now is None else less(now, before or 0)
