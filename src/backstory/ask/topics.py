"""Sessions about a topic: by the words of people and agents, their titles, their files. Reads only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from backstory.ask import query
from backstory.ask.query import Reach
from backstory.derive.index_text import Scope
from backstory.store import schema
from backstory.store.schema import fetch

if TYPE_CHECKING:
    import apsw

    from backstory.ask.query import Term
    from backstory.store.tables.session_filter import Filter

SAID = (Scope.PROMPT, Scope.COMMAND, Scope.ANSWER)
"""The scopes that tell a topic: tools print and name too much in passing."""


def about(db: apsw.Connection, words: str, wanted: Filter) -> list[str]:
    """The uids of sessions that have every telling word, each in whatever form, the last active first.

    A word counts in a prompt, an answer, the session's name, title or git branch, or the path of a file that it
    changed; words may stand apart, and in a subagent's session. Words without a meaning of their own, such as "the",
    count only if there are no others.
    """
    asked = query.asked(words)
    telling = [term for term in asked if term.is_telling] or asked
    # A turn of the time may follow from words that were said before it.
    reach = Reach(db, replace(wanted, since=None, until=None), SAID)
    shown = list(dict.fromkeys(place.shown_id for place in reach.places().values()))
    for term in telling:
        found = {*reach.those_holding(term.any, shown), *_named(db, term, shown)}
        shown = [each for each in shown if each in found]
    uids = dict(fetch(db, tuple[int, str], _UIDS, (schema.json_list(shown),)))
    return [uids[each] for each in shown if each in uids] if telling else []


def _named(db: apsw.Connection, term: Term, shown: list[int]) -> list[int]:
    """Those that have a word in a name: their own, their branch's, a file's."""
    word = term.typed.rstrip("*").lower()
    rows = fetch(db, tuple[int], _NAMED, (schema.json_list(shown), word, word))
    return [each for (each,) in rows]


_UIDS = "select id, uid from sessions where id in (select value from json_each(?))"
_NAMED = """
select s.id from sessions s where s.id in (select value from json_each(?)) and (
  instr(lower(concat_ws(char(10), s.name, s.title, s.branch)), ?) > 0
  or exists (
    select 1 from session_files f join file_touches t on t.file_id = f.id
    where f.session_id = s.id and t.action <> 'read' and instr(lower(f.file_path), ?) > 0
  )
)
"""
