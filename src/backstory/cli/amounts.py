"""Large numbers as a person reads them."""

from __future__ import annotations

_STEPS = ((1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k"))


def amount(count: int) -> str:
    """Format a count in two or three digits.

    >>> [amount(each) for each in (0, 999, 1000, 9_949, 12_345, 999_600, 1_900_000)]
    ['0', '999', '1 k', '9.9 k', '12 k', '1 M', '1.9 M']
    """
    for size, unit in _STEPS:
        # 999,600 is a million rather than 1,000 thousands.
        if count >= size * 0.9995:
            scaled = count / size
            return f"{scaled:.1f}".removesuffix(".0") + f" {unit}" if scaled < 9.95 else f"{scaled:.0f} {unit}"
    return str(count)
