"""A store with texts to be searched."""

from __future__ import annotations

from contextlib import closing

import apsw

from backstory.derive.index_text import index_text
from backstory.model import Event, UserMessage
from backstory.store import Filter, Session, Store

DAY_MS = 24 * 3600 * 1000


def begin(store: Store, *events: Event, name: str | None = None) -> Session:
    session = store.create_session(name)
    store.append_events(session, events)
    return session


def said(store: Store, text: str) -> Session:
    return begin(store, UserMessage(content=text))


def change(store: Store, sentence: str, *values: object) -> None:
    """Change a store behind its back."""
    with closing(apsw.Connection(str(store.path))) as db:
        db.execute(sentence, values)


def found(store: Store, query: str, wanted: Filter | None = None, **how: int | None) -> list[int]:
    return [hit.session_id for hit in store.search(query, wanted, **how).hits]  # type: ignore[arg-type]


def indexed(store: Store, text: str, scope: str = "prompt") -> Session:
    """A session whose text is in the index as it is after an ingest."""
    session = said(store, text)
    stored = store.events(session)[0]
    change(store, "delete from search_index where rowid = ?", stored.id)
    change(
        store, "insert into search_index(rowid, content, session_id, scope) values (?, ?, ?, ?)", stored.id,
        index_text(text, scope), session.id, scope,
    )  # fmt: skip
    return session
