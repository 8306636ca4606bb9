"""Times as people write them: ``yesterday``, ``workday``, ``3 days``, ``last week``, ``monday 9:30``, ISO 8601.

What is said covers a span: a day, a week, a month, a year, or one moment. The clock is an argument; its zone, or the
system's where it names none, is the one that days begin in.
"""

from __future__ import annotations

import calendar
import re
from datetime import datetime, timedelta

from backstory.errors import BadTime
from backstory.lazy import lazy_regex

TEXT_CHARS_MAX = 100
_WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_WEEKDAY = lazy_regex(
    r"(?:(?:last|this|on) )?(?:(mon)(?:day)?|(tue)(?:s|sday)?|(wed)(?:nesday)?|(thu)(?:r|rs|rsday)?|(fri)(?:day)?"
    r"|(sat)(?:urday)?|(sun)(?:day)?)"
)
_DAYS_SINCE_WORKDAY = {0: 3, 6: 2}
"""Days since the last working day on a Monday and on a Sunday; on other days it was the day before."""
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH = (
    r"(?P<month>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?"
    r"|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)"
)
_DAY, _YEAR = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?", r"(?P<year>\d{4})"
_NAMED_DATE = (
    lazy_regex(rf"(?:in )?{_MONTH}(?:,? {_YEAR})?"),
    lazy_regex(rf"{_MONTH}\.? {_DAY}(?:,? {_YEAR})?"),
    lazy_regex(rf"{_DAY}\.? (?:of )?{_MONTH}(?:,? {_YEAR})?"),
)
_NUMBERS = {
    "a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8,
    "nine": 9, "ten": 10, "eleven": 11, "twelve": 12,
}  # fmt: skip
_AMOUNT = lazy_regex(
    rf"(\d+|{'|'.join(sorted(_NUMBERS, key=len, reverse=True))}) ?(?:"
    r"(?P<s>s|secs?|seconds?)|(?P<min>m|mins?|minutes?)|(?P<h>h|hrs?|hours?)|(?P<d>d|days?)|(?P<w>w|wks?|weeks?)"
    r"|(?P<mo>mo|mos|months?)|(?P<y>y|yrs?|years?))(?![a-z])(?:,? ?(?:and )?)"
)
_SECONDS = {"s": 1, "min": 60, "h": 3600}
_PERIOD = lazy_regex(r"(this|last|previous) (day|week|month|year)")
_CLOCK = lazy_regex(r"(?:(.*?),? (?:at )?)?(?:(\d{1,2}):(\d{2})|(\d{1,2})(?::(\d{2}))? ?([ap])m|(noon|midnight))")
_ISO_DATE = lazy_regex(r"(\d{4})(?:-(\d{2})(?:-(\d{2}))?)?")

Span = tuple[datetime, datetime]


def since(text: str, now: datetime) -> int:
    """The first moment of what is said, in ms since 1970; raises BadTime.

    >>> from datetime import UTC
    >>> since("yesterday", datetime(2026, 11, 22, 15, tzinfo=UTC)) == datetime(2026, 11, 21, tzinfo=UTC).timestamp() * 1000
    True
    """  # noqa: E501
    return _ms(text, now, 0)


def until(text: str, now: datetime) -> int:
    """The moment when what is said is over: of a day the next midnight; raises BadTime."""
    return _ms(text, now, 1)


def _ms(text: str, now: datetime, end: int) -> int:
    try:
        # A number of hours is as many hours, also where the clock was changed between.
        return round(_span(text, now)[end].timestamp() * 1000)
    except (ValueError, OverflowError, OSError) as refused:
        raise BadTime(text) from refused


def _span(text: str, now: datetime) -> Span:
    words = " ".join(text.lower().split())
    if len(words) > TEXT_CHARS_MAX:
        raise ValueError(text)
    found = _day(words, now) or _period(words, now) or _ago(words, now) or _date(words, now) or _at_clock(words, now)
    if found is not None:
        return found
    moment = datetime.fromisoformat(text.strip())
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=now.tzinfo)
    return moment, moment


def _day(words: str, now: datetime) -> Span | None:
    today = _midnight(now)
    if words == "now":
        return now, now
    if words in ("today", "yesterday", "day before yesterday", "the day before yesterday"):
        return _days(today - timedelta(days=0 if words == "today" else 1 if words == "yesterday" else 2))
    if words in ("workday", "last workday"):
        return _days(today - timedelta(days=_DAYS_SINCE_WORKDAY.get(today.weekday(), 1)))
    if named := _WEEKDAY.fullmatch(words):
        day = _WEEKDAYS.index(next(each for each in named.groups() if each))
        # Of today's own weekday the one a week ago is meant: today is called so.
        return _days(today - timedelta(days=(today.weekday() - day) % 7 or 7))
    return None


def _period(words: str, now: datetime) -> Span | None:
    named = _PERIOD.fullmatch(words)
    if named is None:
        return None
    back, unit, today = int(named.group(1) != "this"), named.group(2), _midnight(now)
    if unit == "day":
        return _days(today - timedelta(days=back))
    if unit == "week":
        return _days(today - timedelta(days=today.weekday() + 7 * back), 7)
    return _months(today.replace(day=1, month=1), -12 * back, 12) if unit == "year" else _months(today, -back, 1)


def _ago(words: str, now: datetime) -> Span | None:
    """A time before now: ``3 days``, ``1h30m``, ``two weeks ago``, ``the last 5 minutes``."""
    amounts = re.sub(r"^(?:the )?(?:last|past) (?=\d|[a-z]+ [a-z])| ago$", "", words)
    at, moment = 0, now
    while found := _AMOUNT.match(amounts, at):
        number = _NUMBERS.get(found.group(1)) or int(found.group(1))
        moment = _before(moment, number, found.lastgroup or "")
        at = found.end()
    return (moment, moment) if at and at == len(amounts) else None


def _before(moment: datetime, number: int, unit: str) -> datetime:
    if unit in _SECONDS:
        # Hours are counted as they pass, not as the clock on the wall shows them.
        return datetime.fromtimestamp(moment.timestamp() - number * _SECONDS[unit], moment.tzinfo)
    if unit in ("d", "w"):
        return moment - timedelta(days=number * (7 if unit == "w" else 1))
    first = _month_away(moment, -number * (12 if unit == "y" else 1))
    return first.replace(day=min(moment.day, calendar.monthrange(first.year, first.month)[1]))


def _date(words: str, now: datetime) -> Span | None:
    if found := _ISO_DATE.fullmatch(words):
        year, month, day = (int(each) if each else None for each in found.groups())
        first = _midnight(now).replace(year=int(year or 0), month=month or 1, day=day or 1)
        return _days(first) if day else _months(first, 0, 1 if month else 12)
    for pattern in _NAMED_DATE:
        if found := pattern.fullmatch(words):
            return _named_date({name: value for name, value in found.groupdict().items() if value}, now)
    return None


def _named_date(named: dict[str, str], now: datetime) -> Span:
    month, day = 1 + _MONTHS.index(named["month"][:3]), int(named.get("day", 1))
    year = int(named.get("year", now.year))
    if "year" not in named and (month, day) > (now.month, now.day):
        # Nothing was said or done in the future.
        year -= 1
    first = _midnight(now).replace(year=year, month=month, day=day)
    return _days(first) if "day" in named else _months(first, 0, 1)


def _at_clock(words: str, now: datetime) -> Span | None:
    """A time of day, of the day that stands before it; alone, the last time the clock showed it."""
    found = _CLOCK.fullmatch(words)
    if found is None:
        return None
    day, hour, minute, half_hour, half_minute, half, named = found.groups()
    start = _midnight(now)
    if day:
        span = _day(day, now) or _date(day, now)
        if span is None:
            return None
        start = span[0]
    if half:
        if not 1 <= int(half_hour) <= 12:
            raise ValueError(words)
        hour, minute = int(half_hour) % 12 + (12 if half == "p" else 0), half_minute
    elif named:
        hour = 12 if named == "noon" else 0
    moment = start.replace(hour=int(hour), minute=int(minute or 0))
    if not day and moment > now:
        moment -= timedelta(days=1)
    return moment, moment


def _midnight(now: datetime) -> datetime:
    return now.replace(hour=0, minute=0, second=0, microsecond=0, fold=0)


def _days(first: datetime, number: int = 1) -> Span:
    return first, first + timedelta(days=number)


def _months(first: datetime, away: int, number: int) -> Span:
    return _month_away(first, away), _month_away(first, away + number)


def _month_away(moment: datetime, number: int) -> datetime:
    """Return the first of the month that is ``number`` months away."""
    months = moment.year * 12 + moment.month - 1 + number
    return moment.replace(year=months // 12, month=months % 12 + 1, day=1)
