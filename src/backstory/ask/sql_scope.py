"""Read-only SQL for an asker who may see some sessions only: the same views, of those sessions, and nothing beneath.

The views that are asked are made twice. What reads tables has names that are drawn for each question, and reads them
through views of the scope's sessions. Under the names that people know stands ``select * from`` those. The authorizer
lets nobody read a table but what has a drawn name, and SQLite tells it the view by which a table is read. A query can
give a subquery of its own any name but one that it cannot know.
"""

from __future__ import annotations

import re
import secrets
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from backstory.lazy import lazy_regex
from backstory.store import schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import apsw

_VIEW = lazy_regex(r"create temp view (\w+)")
_TABLE = lazy_regex(r"(left join )?\bmain\.(\w+)")
_MAIN = lazy_regex(r"(?<![\w$])main\s*\.", re.IGNORECASE)
_ENDS_IN_MAIN = lazy_regex(r"(?<![\w$])main\s*\Z", re.IGNORECASE)
_COMMENT = lazy_regex(r"--[^\n]*")
_OWN = lazy_regex(r"\btemp\.(\w+)")
OF_SESSIONS = frozenset({
    "branches", "checkpoints", "compactions", "events", "logs", "search_index", "session_files", "session_refs",
    "session_values", "side_texts", "turns",
})  # fmt: skip
"""Tables with a row's session in ``session_id``. Of what others have only rows are read that one of these names."""
OF_SESSION = frozenset({
    "branch_number", "event_full", "event_json", "event_text", "full_field", "is_current", "is_rewound",
    "message_above", "row_text", "turn_cost", "turn_depth",
})  # fmt: skip
"""Functions whose first argument of several is a session."""
INDEX = "search_index"
"""The index, whose columns are matched and ranked as they are: what it holds of a row are words of ours and numbers."""
OF_SESSION_ALONE = frozenset({"current_message"})
TABLE_FUNCTIONS = frozenset({"json_each", "json_tree", "generate_series"})
"""Tables that are made of their arguments."""


class SqlScope(Struct, frozen=True, kw_only=True):
    """The part of a store that an asker may see. ``mask`` makes a text one that may be shown.

    ``repository``: whose context board; None: every one.
    """

    session_ids: frozenset[int]
    mask: Callable[[str], str]
    repository: str | None = None


class _Template(Struct, frozen=True):
    """Views for a question before their names are drawn. ``tables``: those that they read; ``shown``: their names."""

    text: str
    tables: tuple[str, ...]
    shown: frozenset[str]


_END = "_@"
"""Stands for the end of a drawn name."""


@cache
def _template(helpers: str, sql: str) -> _Template:
    sql = _COMMENT.sub("", sql)
    tables, shown = dict.fromkeys(found[1] for found in _TABLE.findall(sql)), sorted(set(_VIEW.findall(sql)))
    renamed = rf"create temp view \g<1>{_END}"
    inner = _OWN.sub(rf"temp.\g<1>{_END}", _VIEW.sub(renamed, sql))
    # The right side of a left join could not be a view without all of it being read first; its rows are those that
    # the left side names.
    inner = _TABLE.sub(lambda found: found[0] if found[1] else f"temp.{found[2]}_of{_END}", inner)
    whole = (f"create temp view {name} as select * from temp.{name}{_END};" for name in shown)
    return _Template("".join([_VIEW.sub(renamed, helpers), inner, *whole]), tuple(tables), frozenset(shown))


class Guard:
    """The scope of one question: its views, and what the authorizer lets through."""

    def __init__(self, scope: SqlScope) -> None:
        self.scope = scope
        self._end = f"_{secrets.token_hex(12)}"
        self._shown = set[str]()
        self._trusted = 0
        self.is_asked = False
        """True once the statement was understood: from then on only the index reads, for what was asked of it."""

    def views(self, db: apsw.Connection, helpers: str, sql: str) -> str:
        """SQL that makes views of the scope, from SQL that makes the views of everything.

        ``helpers``: views that say of rows of others what they are; they stay views of everything.
        """
        template = _template(helpers, sql)
        self._shown |= template.shown
        of_tables = "".join(self._table_view(db, each) for each in template.tables)
        return of_tables + template.text.replace(_END, self._end)

    def fill(self, db: apsw.Connection) -> None:
        """Make the table of the sessions that may be seen, and the function that masks."""
        add: Callable[..., None] = db.create_scalar_function
        add(f"masked{self._end}", self._masked, 1, deterministic=True)
        db.execute(f"create temp table scope{self._end}(id integer primary key)")
        # The index reads its settings when it is first named, which must not be in a statement of the asker's.
        db.execute(f"select 1 from main.{INDEX} where {INDEX} match 'x' limit 0").fetchall()
        # One text, because binding many values takes longer.
        ids = ",".join(map(str, sorted(self.scope.session_ids)))
        db.execute(f"insert into scope{self._end} select value from json_each(?)", (f"[{ids}]",))

    def _table_view(self, db: apsw.Connection, table: str) -> str:
        plain = schema.plain_texts(table)
        if table == INDEX:
            names = ", ".join(str(name) for _, name, *_ in db.execute(f"pragma main.table_xinfo({table})"))
            rows = f"select rowid, {names} from main.{table}{self._where(table)}"
            return f"create temp view {table}_of{self._end} as {rows};"
        columns = ", ".join(
            f"masked{self._end}({name}) as {name}" if name not in plain and may_be_text(kind) else name
            for _, name, kind, *_ in db.execute(f"pragma main.table_xinfo({table})")
        )
        return f"create temp view {table}_of{self._end} as select {columns} from main.{table}{self._where(table)};"

    def _where(self, table: str) -> str:
        allowed = f"(select id from temp.scope{self._end})"
        if table == "sessions":
            return f" where id in {allowed}"
        if table in OF_SESSIONS:
            return f" where session_id in {allowed}"
        if table == "context_items" and self.scope.repository is not None:
            name = self.scope.repository.replace("'", "''")
            return f" where repository = '{name}'"
        return ""

    def _masked(self, text: Any) -> Any:
        return self.scope.mask(text) if isinstance(text, str) else text

    # functions ------------------------------------------------------------------------------------------------------

    def adding(self, db: apsw.Connection) -> Callable[..., None]:
        """Return a function that adds others to a connection, limited to the sessions of the scope, and masked."""

        def add(name: str, function: Callable[..., Any], count: int, **how: Any) -> None:
            is_of_session = (name in OF_SESSION and count > 1) or name in OF_SESSION_ALONE

            def answer(*given: Any) -> Any:
                with self._trusting():
                    if is_of_session and not self._sees(db, given[0]):
                        return None
                    return self._masked(function(*given))

            db.create_scalar_function(name, answer, count, **how)

        return add

    def _sees(self, db: apsw.Connection, session: Any) -> bool:
        """Return True if a function may answer about a session, given by its id or its uid."""
        if isinstance(session, str):
            session = db.execute("select id from main.sessions where uid = ?", (session,)).get
        return session in self.scope.session_ids

    @contextmanager
    def _trusting(self) -> Iterator[None]:
        """While a function of ours reads, the authorizer lets it."""
        self._trusted += 1
        try:
            yield
        finally:
            self._trusted -= 1

    def may_read(self, table: str, column: str, schema: str | None, by: str | None) -> bool:
        """Return True if a table or view may be read; ``by``: the innermost view or subquery that does."""
        if self._trusted or table in TABLE_FUNCTIONS or table.endswith(self._end):
            return True
        if schema == "temp":
            return table in self._shown
        if self.is_asked and table.startswith(f"{INDEX}_"):
            return True
        if not column and by is None:
            # Of a table that only counts SQLite does not say by which view. One that a view's name hides cannot be
            # meant by its own, because ``main.`` is refused.
            return table in self._shown
        return by is not None and by.endswith(self._end)


def may_be_text(kind: str) -> bool:
    """Tell a column that may hold a text from one of numbers, by the type that it is declared with."""
    return kind.lower() not in ("integer", "real")


def names_main(tokens: Iterable[str]) -> bool:
    """Return True if a statement names a table as ``main.NAME``, however that is quoted. ``tokens``: without comments.

    >>> names_main(["select ", "'main'", " from ", '"MAIN"', " .sessions"]), names_main(["select ", "'main'"])
    (True, False)
    """
    is_named = False
    for token in tokens:
        if token[0] in "'\"`[":
            is_named = token[1:-1].lower() == "main"
        elif token.strip():
            if (is_named and token.lstrip().startswith(".")) or _MAIN.search(token):
                return True
            is_named = bool(_ENDS_IN_MAIN.search(token))
    return False
