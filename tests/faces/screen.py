"""A screen of sessions as plain text, without a terminal: keys come in as values, lines go out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backstory.derive.harmless import clean
from backstory.workspace.history.sessions import END, Page, SessionFilter

if TYPE_CHECKING:
    from collections.abc import Callable

    from backstory.store.tables.sessions import Sort
    from backstory.workspace.history.sessions import ListedSession
    from backstory.workspace.workspace import Workspace

SORTS: tuple[Sort | None, ...] = (None, "tokens", "time", "turns", "cost")
"""Those before the one in force come next."""


class Screen:
    """The state of a screen with some rows for sessions. ``key`` changes it, ``lines`` draws it."""

    def __init__(self, workspace: Workspace, rows: int, columns: int = 80) -> None:
        self._workspace, self._reader, self._rows, self._columns = workspace, workspace.reader, rows, columns
        self._title, self._is_typing, self._sort, self._opened = "", False, SORTS[0], ""
        self._turn(Page(limit=rows))

    def _turn(self, page: Page) -> None:
        """Show another page, its first session chosen; one beyond an end of the list changes nothing."""
        # Older than the page by what happens meanwhile, so that nothing is missed.
        self._token = self._reader.change_token()
        found = self._reader.sessions(SessionFilter(everywhere=True, title=self._title or None), page)
        if found.sessions or not (page.after or page.before):
            self._asked, self._page, self._chosen, self._sort = page, found, 0, page.sort

    def tick(self) -> bool:
        """Show what changed since the page was read, with the same session chosen; whether anything did."""
        uid, chosen = self._uid, self._chosen
        if self._reader.change_token() == self._token:
            return False
        self._turn(self._asked)
        uids = [each.uid for each in self._page.sessions]
        self._choose(uids.index(uid) if uid in uids else chosen)
        return True

    def _choose(self, row: int) -> None:
        self._chosen = max(0, min(row, len(self._page.sessions) - 1))

    @property
    def _uid(self) -> str:
        return self._page.sessions[self._chosen].uid if self._page.sessions else ""

    def key(self, key: str) -> None:
        """Take a key: its letter, or its name."""
        if self._is_typing and key not in ("enter", "escape"):
            self._title = self._title[:-1] if key == "backspace" else self._title + key
            self._turn(self._at())
        elif self._is_typing:
            self._is_typing = False
        elif action := self._actions().get(key):
            action()

    def _at(self, *, after: str | None = None, before: str | None = None) -> Page:
        return Page(limit=self._rows, sort=self._sort, after=after, before=before)

    def _actions(self) -> dict[str, Callable[[], None]]:
        return {
            "down": lambda: self._choose(self._chosen + 1),
            "up": lambda: self._choose(self._chosen - 1),
            "pagedown": lambda: self._turn(self._at(after=self._page.end)),
            "pageup": lambda: self._turn(self._at(before=self._page.start)),
            "home": lambda: self._turn(self._at()),
            "end": lambda: self._turn(self._at(before=END)),
            "enter": lambda: setattr(self, "_opened", self._uid),
            "escape": lambda: setattr(self, "_opened", ""),
            "/": lambda: setattr(self, "_is_typing", True),
            "s": lambda: self._turn(Page(limit=self._rows, sort=SORTS[SORTS.index(self._sort) - 1])),
        }

    def lines(self) -> list[str]:
        """Draw the screen: a list, or the session that is open."""
        shown = self._session_lines() if self._opened else self._list_lines()
        return [clean(" ".join(line.split("\n")))[: self._columns] for line in shown]

    def _list_lines(self) -> list[str]:
        title = f" /{self._title}" if self._title else ""
        rows = (f"{'>' if n == self._chosen else ' '} {row(each)}" for n, each in enumerate(self._page.sessions))
        return [f"{self._page.total:,} sessions by {self._sort or 'last activity'}{title}", *rows]

    def _session_lines(self) -> list[str]:
        found = self._reader.transcript(self._workspace.resolve(self._opened))
        return [row(found.session), *(f"{n.number}. {n.turn.prompt} [{n.cost.shown}]" for n in found.turns)]


def row(each: ListedSession) -> str:
    """Draw a session in a line."""
    return f"{'●' if each.is_running else ' '} {each.label} {each.heading} ({each.turns} turns, {each.cost.shown})"
