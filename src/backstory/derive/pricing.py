"""Costs of tokens by a table of prices. Pure: the table comes in as a value, and nothing is guessed.

A model without a price on its day costs nobody knows what. Where the output is known to be at least so much, where it
is not known how long a cache was to hold what was written, or whether a request was so long that it cost more, the cost
is a lower bound.
"""

from __future__ import annotations

import math
import re
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct, field

from backstory.bounds import UNKNOWN as UNKNOWN_SHOWN
from backstory.lazy import lazy_regex
from backstory.model import PARTIAL, Tokens

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from collections.abc import Set as AbstractSet

CHARS_PER_TOKEN = 3
"""The characters of output per token, for the estimate of output that was not counted."""
MILLION = 1_000_000
CENT_USD = 0.01
REPORTED = "reported"
_DAY = r"\d{4}-\d\d-\d\d"
_DATED = lazy_regex(rf"-(?:20\d{{6}}|{_DAY})$")


class CostKind(StrEnum):
    """The ways in which a cost is known."""

    EXACT = "exact"
    COMPUTED = "computed"
    LOWER_BOUND = "lower bound"
    INCLUDED = "included"
    UNKNOWN = "unknown"


class Cost(Struct, frozen=True, kw_only=True):
    """A cost in dollars. ``usd`` where it is known, ``low_usd`` what it is at least, ``high_usd`` an estimate."""

    kind: CostKind = CostKind.UNKNOWN
    usd: float | None = None
    low_usd: float | None = None
    high_usd: float | None = None

    @property
    def shown(self) -> str:
        """Text for a person, on every face: ``$1.20`` as reported, ``~$1.20`` computed, ``–`` unknown.

        Of a lower bound ``$1.20–$1.50`` where an estimate is known, else ``≥ $1.20``.
        """
        if self.low_usd is None:
            return UNKNOWN_SHOWN
        low = _dollars(self.low_usd)
        if self.usd is None and self.high_usd is not None and (high := _dollars(self.high_usd)) != low:
            return f"{low}–{high}"
        return f"{_MARKS.get(self.kind, '')}{low}"

    @property
    def known(self) -> str:
        """The same text; '' of an unknown cost."""
        return "" if self.low_usd is None else self.shown


def shown_as(kind: CostKind, usd: float) -> str:
    """Return an amount as text, in the notation of costs."""
    return Cost(kind=kind, low_usd=usd).shown


def _dollars(usd: float) -> str:
    """Format an amount to the cent, or below a cent to a tenth of one."""
    if usd >= CENT_USD or usd == 0:
        return f"${usd:,.2f}"
    return f"${usd:.3f}" if usd >= CENT_USD / 20 else "<$0.001"


def cost_as_json(cost: Cost | None) -> dict[str, Any]:
    """Return the keys by which all JSON gives a cost; None: nothing is said of one."""
    if cost is None:
        return dict.fromkeys(("cost_usd", "cost_kind", "low_usd", "high_usd"))
    return {"cost_usd": cost.usd, "cost_kind": cost.kind, "low_usd": cost.low_usd, "high_usd": cost.high_usd}


_MARKS: dict[str, str] = {"computed": "~", "lower bound": "≥ "}
UNKNOWN = Cost()
INCLUDED = Cost(kind=CostKind.INCLUDED)
"""It is a part of what was reported for another turn."""


class Rates(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The prices of a million tokens; None for an unknown one."""

    input: float | None = None
    output: float | None = None
    cache_read: float | None = None
    cache_write: float | None = None
    cache_write_1h: float | None = None


class LongRates(Rates, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The prices of all tokens of a request whose input, caches included, is larger than ``over``."""

    over: int


class Price(Rates, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The price of a million tokens of some models, from one day to another, both included."""

    models: list[str]
    input: float
    output: float
    long: LongRates | None = None
    since: str | None = field(default=None, name="from")
    until: str | None = None
    source: str = ""


class Prices(Struct, frozen=True, kw_only=True):
    """A file of prices. ``credits`` are the agents that are paid in something else than dollars."""

    price: list[Price] = []
    credits: list[str] = []
    read: str = ""
    about: str = ""


class PriceTable:
    """Prices by model and day. Those of a person stand in for all that the table has of the same model."""

    def __init__(self, shipped: Prices, own: Prices | None = None) -> None:
        self._credits = frozenset(shipped.credits) | frozenset(own.credits if own else ())
        self._prices: dict[str, list[Price]] = {}
        for prices in (shipped, own):
            rows: dict[str, list[Price]] = {}
            for each in prices.price if prices else ():
                for name in each.models:
                    rows.setdefault(name, []).append(each)
            self._prices |= rows

    @property
    def mark(self) -> str:
        """A text that another table with other prices does not have."""
        from hashlib import sha256  # a plain list asks for none

        return sha256(msgspec.json.encode([sorted(self._credits), self._prices])).hexdigest()[:16]

    def price(self, agent: str, model: str | None, day: str | None) -> Price | None:
        """The price of a model on a day (ISO 8601); None where there is none, or not in dollars."""
        return next((each for each in self.at_any_time(agent, model) if _counts(each, day)), None)

    def at_any_time(self, agent: str, model: str | None) -> Sequence[Price]:
        """The prices that a model has, each for its days, in dollars; the first for a day counts."""
        if model is None or agent in self._credits:
            return ()
        return self._prices.get(model) or self._prices.get(_DATED.sub("", model)) or ()


def _counts(price: Price, day: str | None) -> bool:
    if day is None:
        return price.since is None and price.until is None
    return (price.since is None or price.since <= day) and (price.until is None or day <= price.until)


def cost_of(
    tokens: Tokens,
    price: Price | None,
    *,
    source: str | None = None,
    reported: float | None = None,
    is_exact: bool = True,
    chars: int = 0,
) -> Cost:
    """Return the cost of a turn: as reported, else by its tokens. ``chars``: the length of its partial output.

    ``is_exact``: what was reported is the agent's own word, and nothing that another program computed.

    >>> price = Price(models=["m"], input=1, output=10)
    >>> cost_of(Tokens(input=1_000_000, output=100_000), price).usd
    2.0
    """
    if reported is not None:
        kind = CostKind.EXACT if is_exact else CostKind.COMPUTED
        return Cost(kind=kind, usd=reported, low_usd=reported, high_usd=reported)
    if price is None or not is_counted(tokens):
        return UNKNOWN
    if source == PARTIAL and not (tokens.input or tokens.output or tokens.cache_read or tokens.cache_write):
        return UNKNOWN
    least, most = _rates(tokens, price)
    low = _sum(tokens, least)
    if least is most and not _is_bound(tokens, least, source):
        return Cost(kind=CostKind.COMPUTED, usd=low, low_usd=low, high_usd=low)
    missing = max(-(-chars // CHARS_PER_TOKEN) - (tokens.output or 0), 0) if source == PARTIAL else 0
    high = _estimate(tokens, most, missing) if _can_be_estimated(tokens, source) else None
    return Cost(kind=CostKind.LOWER_BOUND, low_usd=low, high_usd=high)


def is_counted(tokens: Tokens) -> bool:
    """Return True if anything is known of how many tokens there were."""
    return not (
        tokens.input is None and tokens.output is None and tokens.cache_read is None and tokens.cache_write is None
    )


def total(costs: Iterable[Cost]) -> Cost:
    """Return the cost of several turns together; estimates are not added up."""
    known = [each for each in costs if each.kind is not CostKind.INCLUDED]
    return summed({each.kind for each in known}, [each.low_usd for each in known if each.low_usd is not None])


def summed(kinds: AbstractSet[CostKind], lows: Iterable[float]) -> Cost:
    """A cost of several: the kinds that occur among them but INCLUDED, and what each is at least.

    The sum is the same in whichever order they come.
    """
    if not (low := list(lows)):
        return UNKNOWN
    amount = exact_sum(low)
    if not kinds.isdisjoint((CostKind.LOWER_BOUND, CostKind.UNKNOWN)):
        return Cost(kind=CostKind.LOWER_BOUND, low_usd=amount)
    return Cost(kind=CostKind.COMPUTED if CostKind.COMPUTED in kinds else CostKind.EXACT, usd=amount, low_usd=amount)


def exact_sum(amounts: Iterable[float]) -> float:
    """A sum that does not depend on the order; infinity where it is too large for a number.

    >>> exact_sum([0.1] * 10), exact_sum([1e308, 1e308])
    (1.0, inf)
    """
    try:
        return math.fsum(amounts)
    except OverflowError:
        return math.inf


def prices_from(values: object) -> Prices:
    """The prices of a file that was decoded. Raises ValueError where they mean nothing."""
    prices = msgspec.convert(values, Prices)
    for each in prices.price:
        amounts = [amount for rates in (each, each.long) if rates is not None for amount in _amounts(rates)]
        if any(amount is not None and not 0 <= amount < float("inf") for amount in amounts):
            raise ValueError(f"a price of {each.models[0] if each.models else 'nothing'} is no amount")
        if each.long is not None and each.long.over < 0:
            raise ValueError(f"no request is longer than {each.long.over} tokens")
        for day in (each.since, each.until):
            if day is not None and not re.fullmatch(_DAY, day):
                raise ValueError(f"{day!r} is no day like 2026-01-31")
    return prices


def _amounts(rates: Rates) -> tuple[float | None, ...]:
    return rates.input, rates.output, rates.cache_read, rates.cache_write, rates.cache_write_1h


def _rates(tokens: Tokens, price: Price) -> tuple[Rates, Rates]:
    """Return the least and the highest prices of these tokens; the same if it is known which requests were long."""
    long = price.long
    if long is None:
        return price, price
    whole = (tokens.input or 0) + (tokens.cache_read or 0) + (tokens.cache_write or 0)
    largest = tokens.largest_input
    if (whole if largest is None else largest) <= long.over:
        return price, price
    # As large as all of them together: it was the only one.
    return (long, long) if largest == whole and long.input is not None else (price, long)


def _sum(tokens: Tokens, rates: Rates) -> float:
    # Written out, because it is asked for every turn there is.
    held_1h = 0 if rates.cache_write_1h is None else tokens.cache_write_1h or 0
    amount = (
        (tokens.input or 0) * (rates.input or 0)
        + (tokens.output or 0) * (rates.output or 0)
        + (tokens.cache_read or 0) * (rates.cache_read or 0)
        + ((tokens.cache_write or 0) - held_1h) * (rates.cache_write or 0)
        + held_1h * (rates.cache_write_1h or 0)
    )
    return amount / MILLION


def _can_be_estimated(tokens: Tokens, source: str | None) -> bool:
    """Return True if nothing but output is missing, of which there are words, or how long a cache holds."""
    if source == PARTIAL:
        # Without a request's input, or what a cache had of it, no request is known to be the largest.
        return tokens.input is not None and tokens.largest_input is not None
    return tokens.input is not None and tokens.output is not None


def _estimate(tokens: Tokens, rates: Rates, missing_output: int) -> float | None:
    """Return the lower bound plus the output that was not counted, with caches held for an hour."""
    if rates.input is None or rates.output is None:
        return None
    written_1h = tokens.cache_write if tokens.cache_write_1h is None else tokens.cache_write_1h
    held = msgspec.structs.replace(tokens, cache_write_1h=written_1h)
    return _sum(held, rates) + missing_output * rates.output / MILLION


def _is_bound(tokens: Tokens, rates: Rates, source: str | None) -> bool:
    """Return True if there may be more to pay than what is known to be."""
    if source == PARTIAL or tokens.input is None or tokens.output is None:
        return True
    lacks_any = rates.input is None or rates.output is None or rates.cache_read is None or rates.cache_write is None
    if lacks_any and _lacks_a_rate(tokens, rates):
        return True
    # The longer a cache holds what is written, the more that costs.
    is_known = tokens.cache_write_1h is not None or not tokens.cache_write
    return not is_known and rates.cache_write_1h not in (None, rates.cache_write)


def _lacks_a_rate(tokens: Tokens, rates: Rates) -> bool:
    """Return True if there are tokens of which nobody knows what they cost."""
    held_1h = 0 if rates.cache_write_1h is None else tokens.cache_write_1h or 0
    counts = tokens.input, tokens.output, tokens.cache_read, (tokens.cache_write or 0) - held_1h
    known = rates.input, rates.output, rates.cache_read, rates.cache_write
    return any(count and rate is None for count, rate in zip(counts, known, strict=True))
