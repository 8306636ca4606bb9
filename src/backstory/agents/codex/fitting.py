"""Objects as Structs as far as they fit: a field of another type than any build has written is as if it were not there.

Well-formed records never come here: they are decoded at once, and what a decoder refuses is read again like this.
"""

from __future__ import annotations

from functools import cache
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec import UNSET, Struct

from backstory.agents import jsonl

S = TypeVar("S", bound=Struct)


def decode_fitting(line: bytes, decoder: msgspec.json.Decoder[S]) -> list[S]:
    """The records on a line, as ``jsonl.decode``, but for fields that do not fit. Raises NotJson."""
    try:
        return [decoder.decode(line)]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return [fitted(each, decoder.type) for each in jsonl.patiently(line)]


def fitted(given: dict[str, Any], kind: type[S]) -> S:
    """Raises NotJson where a ``type`` is no word: nobody knows what such an object is."""
    try:
        return msgspec.convert(given, kind)
    except (msgspec.ValidationError, RecursionError):
        values = [(name, _fitted_value(given[key], type_)) for name, key, type_ in _fields(kind) if key in given]
    if ("type", UNSET) in values:
        raise jsonl.NotJson("a type that is no word")
    return kind(**{name: value for name, value in values if value is not UNSET})


def _fitted_value(value: Any, type_: Any) -> Any:
    """UNSET for what does not fit."""
    try:
        return msgspec.convert(value, type_)
    except (msgspec.ValidationError, RecursionError):
        choices = get_args(type_) if isinstance(type_, UnionType) or get_origin(type_) is Union else (type_,)
        structs = (each for each in choices if isinstance(each, type) and issubclass(each, Struct))
        struct = next(structs, None)
        return fitted(value, struct) if struct is not None and isinstance(value, dict) else UNSET


@cache
def _fields(kind: type[Struct]) -> list[tuple[str, str, Any]]:
    return [(each.name, each.encode_name, each.type) for each in msgspec.structs.fields(kind)]
