"""A person picks one of many sessions or hits, then it is shown, resumed or continued. Used by ``list``, ``search``.

State, screen and terminal have modules of their own; here a ``Reader`` is asked in the background, so that a key
waits for no answer, and the process becomes the command for what was picked.
"""

from __future__ import annotations

import os
import shlex
import signal
import sys
import threading
import time
from contextlib import ExitStack, suppress
from functools import partial
from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

from backstory.cli import output
from backstory.cli.picker import layout, state
from backstory.cli.picker.state import (
    Choice,
    Counted,
    CountQuestion,
    Failed,
    Found,
    Listed,
    ListQuestion,
    Noted,
    PickRow,
    Previewed,
    PreviewQuestion,
    State,
    StoreChanged,
    TextQuestion,
)
from backstory.cli.picker.terminal import open_terminal
from backstory.cli.picker.watching import FolderWatch
from backstory.derive.moments import OUTCOMES, RUNNING, when
from backstory.derive.naming import NO_PROMPT
from backstory.errors import BackstoryError, Cancelled, StoreBusy, StoreNotFound
from backstory.lazy import lazy_regex
from backstory.runs.sent import ourselves
from backstory.workspace.history.sessions import Page, SessionFilter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import NoReturn

    from backstory.cli.app import App
    from backstory.cli.picker.state import Answer, Question
    from backstory.cli.picker.terminal import Terminal
    from backstory.derive.tally import Figures
    from backstory.search.query import Excerpt
    from backstory.store.tables.sessions import Sort
    from backstory.workspace.history.searching import Cancellation, SearchAnswer, SearchQuery
    from backstory.workspace.history.sessions import ListedSession

NOTHING_CHOSEN = 130
"""As for everything that a person ended."""
HITS_MOST = 50
"""The most hits that are listed."""
EVERYWHERE = SessionFilter(everywhere=True)
LOOK_S = 1.0
"""The least time between two looks at whether a store changed, and the most where the system tells of no change."""
PLAIN_UID = lazy_regex(r"[0-9A-Za-z]{8,64}")
"""A uid as every store of ours has it. A store from elsewhere may have others, which no command gets to see."""


def can_pick(*, prints: bool) -> bool:
    """Return True if a person can pick here; False on a terminal that cannot be painted, which gets a plain list.

    Raises UsageError where nobody can be asked, and where what is printed is to be what was picked.
    """
    if not output.can_ask():
        raise click.UsageError("-i asks a person, so it needs a terminal.")
    if prints and not output.can_paint():
        raise click.UsageError("--print needs a terminal that can be painted; TERM is dumb.")
    return output.can_paint()


def pick(
    app: App,
    wanted: SessionFilter,
    *,
    sort: Sort | None = None,
    query: SearchQuery | None = None,
    prints: bool = False,
    if_none: int = NOTHING_CHOSEN,
) -> int:
    """Let a person pick, then become the command for it; returns NOTHING_CHOSEN where nothing was picked.

    ``wanted``: the list, a title in which stands in the field. ``query``: hits alone are listed, of its text at first.
    ``prints``: print the command instead. ``if_none``: returned where no session was ever imported, after saying what
    to do. Raises what a first answer raises, before the screen is taken.
    """
    app.check_store()
    asked = Asked(app, wanted, sort, query)
    first = begun(asked, wanted, query)
    if not first.rows and not app.reader.count(EVERYWHERE):
        if not has_imported(app):
            return if_none
        first = begun(asked, wanted, query)
    with ExitStack() as held:
        terminal = held.enter_context(open_terminal(is_coloured=not app.environ.get("NO_COLOR")))
        known = [each.question for each in (*first.pages, first.found) if each is not None]
        ended = _picking(first, terminal, held.enter_context(Background(asked, terminal.wake, known)))
    if ended.action is None or ended.row is None:
        return NOTHING_CHOSEN
    command = _command(ended.action, ended.row, ended.marked if asked.marks_words else "", app.store_path)
    if not prints:
        _become(app, command)
    output.data(shlex.join(["backstory", *command]))
    return 0


def has_imported(app: App) -> bool:
    """Import what there is for the first time, of much if a person agrees; False if there still is no session."""
    is_behind = app.bring_up_to_date()
    if is_behind and not app.reader.count(EVERYWHERE) and sys.stdout.isatty() and output.confirm("Import them now?"):
        from backstory.cli.commands.ingest_command import import_logs  # once in the life of a store

        import_logs(app)
    if app.reader.count(EVERYWHERE):
        return True
    from backstory.cli.options import why_no_sessions

    output.talk(why_no_sessions(app, EVERYWHERE))
    output.talk("Help: backstory help")
    return False


def begun(asked: Asked, wanted: SessionFilter, query: SearchQuery | None) -> State:
    """The state with the first answers. Raises what they raise."""
    text = query.text if query is not None else wanted.title or ""
    now = State(
        text=text, cursor=len(text), given=text if query is not None else "", hits_only=query is not None,
        everywhere=wanted.everywhere, place=asked.place, takes_prefix=asked.takes_prefix,
        is_narrow=replace(wanted, title=None).is_narrow, wanted=ListQuestion(title=text, everywhere=wanted.everywhere),
    )  # fmt: skip
    while not (now.is_listed or now.found):
        # Where this project has no sessions, the second answer is those of every one.
        now = state.answered(now, asked.answer(next(state.questions(now))))
    return now


def _picking(now: State, terminal: Terminal, asking: Background) -> State:
    """Take keys and answers until the person has chosen, or leaves."""
    pressed_s: float | None = None
    while not now.is_over:
        now = state.resized(now, *terminal.size())
        # Words of the command line are whole ones, until a person types.
        idle_ms = 0 if pressed_s is None else (time.monotonic() - pressed_s) * 1000
        terminal.paint(layout.lines(now), layout.cursor(now))
        asking.want([*state.questions(now, idle_ms)])
        waits = pressed_s is not None and idle_ms < state.PREFIX_MS
        keys = terminal.read((state.PREFIX_MS - idle_ms) / 1000 if waits else None)
        if keys is None:
            return replace(now, is_over=True, action=None)
        for key in keys:
            pressed_s = time.monotonic()
            if key.name == "ctrl-z":
                signal.raise_signal(signal.SIGTSTP)
            elif not now.is_over:
                now = state.pressed(now, key)
        for answer in asking.answers():
            now = state.answered(now, answer)
    return now


def _become(app: App, command: list[str]) -> NoReturn:
    """Replace this process by the command, with the terminal as a person left it."""
    app.close()
    sys.stdout.flush()
    os.execv(sys.executable, [*ourselves(), *command])


def _command(action: Choice, row: PickRow, words: str, store: str | None) -> list[str]:
    """The words of the command for what was picked."""
    named = [f"--store={store}"] if store else []
    match action:
        case Choice.CONTINUE:
            return [action, *named, "-S", row.uid]
        case Choice.RESUME:
            return [action, *named, row.uid]
        case Choice.SHOW:
            marked = [f"--find={words}"] if words and row.seq is not None else []
            record = [] if row.seq is None else [f"@{row.seq}"]
            return [action, *named, *marked, row.uid, *record]


# questions ------------------------------------------------------------------------------------------------------------


class Asked:
    """The answers of a ``Reader``, as rows and lines. ``figures``: those of sessions instead of all that they have."""

    def __init__(
        self, app: App, wanted: SessionFilter, sort: Sort | None, query: SearchQuery | None,
        figures: Mapping[str, Figures] | None = None,
    ) -> None:  # fmt: skip
        self._app, self.reader, self._sort = app, app.reader, sort
        # What is wrong with the settings is printed now, and not into the screen.
        app.config.settings  # noqa: B018
        self._wanted = replace(wanted, title=None)
        self._query, self.figures = query, figures or {}
        self.token: object = self.reader.change_token()
        """Taken before anything is read, so that no change is missed."""
        mode = "words" if query is None else query.mode.value
        self.marks_words, self.takes_prefix = mode != "regex", mode == "words"
        known, folder = app.workspace.project_names(), str(app.project_folder)
        self.place = known.of(app.project_key, None, folder, str(app.cwd)).name or "this project"

    def answer(self, question: Question, cancellation: Cancellation | None = None) -> Answer:
        """Return the answer to a question. Raises what the reader raises, Cancelled, and StoreNotFound for one gone."""
        if self.token and not self.reader.change_token():
            # Without a store there is no session, which says nothing to who saw some here.
            raise StoreNotFound(self._app.home_store.path)
        match question:
            case ListQuestion():
                return self._listed(question)
            case CountQuestion():
                wanted = replace(self._wanted, title=question.title or None, everywhere=question.everywhere)
                return Counted(question=question, total=self.reader.count(wanted))
            case TextQuestion():
                return self._found(question, cancellation)
            case PreviewQuestion():
                return self._previewed(question)

    def news(self) -> Iterator[Noted]:
        """Take in what agents wrote since, and yield what a person is to know about it."""
        update = self._app.workspace.bring_up_to_date(self._app.user_home)
        yield from (Noted(message=each) for each in update.remarks)

    def _listed(self, question: ListQuestion) -> Listed:
        wanted = replace(self._wanted, title=question.title or None, everywhere=question.everywhere)
        if not wanted.everywhere and not wanted.is_narrow and not self.reader.count(wanted):
            # To look for a page of them would be to look at every session of the machine.
            return Listed(question=question)
        part = Page(limit=question.limit, after=question.after, before=question.before, sort=self._sort, counts=False)
        page = self.reader.sessions(wanted, part)
        now = self._app.workspace.now()
        return Listed(
            question=question,
            rows=tuple(self._session_row(each, now) for each in page.sessions if PLAIN_UID.fullmatch(each.uid)),
            has_more=page.has_more,
            has_earlier=page.has_earlier,
            start=page.start,
            end=page.end,
        )

    def _session_row(self, session: ListedSession, now: int) -> PickRow:
        row, figures = _session_row(session, now), self.figures.get(session.uid)
        return row if figures is None else replace(row, turns=figures.turns, cost=figures.cost.known)

    def _found(self, question: TextQuestion, cancellation: Cancellation | None) -> Found:
        from backstory.workspace.history.searching import SearchQuery  # the first screen is there without it

        query = self._query or SearchQuery(
            **self._wanted.shared, limit=HITS_MOST, asking_run=self._app.environ.get("BACKSTORY_RUN")
        )
        query = replace(query, text=question.words, here=not question.everywhere, counts=False)
        answer = self.reader.search(query, cancellation)
        now, hits = self._app.workspace.now(), answer.findings.excerpts
        rows = tuple(_hit_row(each, now) for each in hits if PLAIN_UID.fullmatch(each.session.uid))
        return Found(question=question, rows=rows, has_more=answer.findings.truncated, note=_note(answer))

    def _previewed(self, question: PreviewQuestion) -> Previewed:
        from backstory.cli.views import record_view  # the first screen is there without it

        found = self._app.workspace.resolve(question.uid)
        with output.window_of(question.columns):
            if question.seq is None:
                drawn = list(record_view.preview_lines(self.reader, found))
            else:
                record = self.reader.record(found, question.seq)
                words = question.words if self.marks_words else ""
                now = self._app.workspace.now()
                drawn = list(record_view.record_lines(self.reader, found, record, words, now=now, full=False))
        lines = tuple("\n".join(drawn).strip("\n").split("\n"))
        return Previewed(question=question, lines=lines, at=_line_of_match(lines))


def _line_of_match(lines: Sequence[str]) -> int:
    """Return the first line with the sign of a match."""
    return next((n for n, line in enumerate(lines) if line.startswith(f"{output.GUTTER}> ")), 0)


def _note(answer: SearchAnswer) -> str:
    """Return what differs from what was asked, as a sentence."""
    findings = answer.findings
    if findings.stopped:
        return "The time limit ended the search: narrow it."
    if findings.instead:
        return " ".join(f"Nothing has {typed!r}; searched for {other!r}." for typed, other in findings.instead)
    return "No session has all of these words; these have some." if findings.relaxed else ""


class Background:
    """Asks in threads while it lasts; ``wake`` is called for each answer. Of a kind only the last question counts.

    ``known``: questions that were answered already.
    """

    def __init__(self, asked: Asked, wake: Callable[[], None], known: Sequence[Question] = ()) -> None:
        self._asked, self._wake = asked, wake
        self._changed = threading.Condition()
        self._last: dict[type[Question], Question] = {type(each): each for each in known}
        self._waiting: dict[type[Question], Question] = {}
        self._answers: list[Answer | Exception] = []
        self._searched: TextQuestion | None = None
        self._cancellation: Cancellation | None = None
        self._is_over = False
        self._asks_again = False
        """True after a store could not be read: what mends it may be no change that is told."""
        self._token = asked.token
        self._watch = FolderWatch(self._note_change, LOOK_S)
        self._look_s: float | None = LOOK_S
        self._has_changed = False
        self._threads = [
            threading.Thread(target=self._work, args=(kinds,), daemon=True)
            for kinds in ((ListQuestion, PreviewQuestion), (TextQuestion, CountQuestion))
        ]

    def __enter__(self) -> Background:
        return self

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._is_over = True
            self._cancel()
            self._changed.notify_all()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join()
        self._watch.close()

    def _note_change(self) -> None:
        with self._changed:
            self._has_changed = True
            self._changed.notify_all()

    def want(self, questions: Sequence[Question]) -> None:
        """Ask these, and nothing else any more."""
        with self._changed:
            now = {type(each): each for each in questions}
            self._waiting = {kind: each for kind, each in self._waiting.items() if now.get(kind) == each}
            for kind, each in now.items():
                if self._last.get(kind) != each:
                    self._last[kind] = self._waiting[kind] = each
            searched = now.get(TextQuestion)
            if self._searched is not None and not _goes_on(self._searched, searched):
                self._cancel()
            if TextQuestion not in now:
                self._last.pop(TextQuestion, None)
            self._changed.notify_all()
        for thread in self._threads:
            # They begin after the first screen.
            if thread.ident is None:
                thread.start()

    def _cancel(self) -> None:
        if self._cancellation is not None:
            self._cancellation.cancel()

    def answers(self) -> list[Answer]:
        """Return what was answered since. Raises what is no error of ours, but a fault."""
        with self._changed:
            found, self._answers = self._answers, []
        for each in found:
            if isinstance(each, Exception):
                raise each
        return [each for each in found if not isinstance(each, Exception)]

    def _work(self, kinds: Sequence[type[Question]]) -> None:
        from backstory.workspace.history.searching import Cancellation  # the first screen is there without it

        looks = TextQuestion not in kinds
        if not looks:
            self._guarded(self._asked.news)
        while True:
            with self._changed:
                look_s = self._look_s if looks else None
                is_awake = partial(self._is_awake, kinds, look_s, looks=looks)
                is_due = not self._changed.wait_for(is_awake, look_s) or self._has_changed
                if self._is_over:
                    return
                question = next((self._waiting.pop(kind) for kind in kinds if kind in self._waiting), None)
                if question is None and not is_due:
                    continue
                if question is None:
                    self._has_changed = False
                if isinstance(question, TextQuestion):
                    self._searched, self._cancellation = question, Cancellation()
            self._guarded(self._changes if question is None else partial(self._answers_to, question))

    def _is_awake(self, kinds: Sequence[type[Question]], look_s: float | None, *, looks: bool) -> bool:
        """Return True if a thread has something to do, or has to look again after another time."""
        is_asked = self._is_over or any(kind in self._waiting for kind in kinds)
        return is_asked or (looks and (self._has_changed or self._look_s != look_s))

    def _answers_to(self, question: Question) -> Iterator[Answer]:
        try:
            yield self._asked.answer(question, self._cancellation)
        except Cancelled:
            # Another one is asked already.
            return
        except BackstoryError as refused:
            if isinstance(refused, StoreBusy) or isinstance(question, ListQuestion):
                with self._changed:
                    self._asks_again, self._look_s = True, LOOK_S
                    self._changed.notify_all()
            yield Failed(question=question, message=output.one_liner(str(refused)))

    def _changes(self) -> Iterator[StoreChanged]:
        is_watched, token = False, None
        # Why a store cannot be read is said by the answers.
        with suppress(BackstoryError):
            # A change after this is told, so what is read now is not too old.
            folders = self._asked.reader.change_folders()
            token = self._asked.reader.change_token()
            is_watched = folders is not None and self._watch.watch(folders)
        with self._changed:
            is_other, self._token = token != self._token or self._asks_again, token
            self._asks_again, self._look_s = False, None if is_watched else LOOK_S
        if is_other:
            yield StoreChanged()

    def _guarded(self, ask: Callable[[], Iterable[Answer]]) -> None:
        """Ask, and keep the answers; a fault is raised where they are taken."""
        found: Sequence[Answer | Exception]
        try:
            found = [*ask()]
        except BackstoryError as refused:
            found = [Noted(message=output.one_liner(str(refused)))]
        except Exception as fault:
            found = [fault]
        with self._changed:
            self._answers += found
        if found:
            self._wake()


def _goes_on(searched: TextQuestion, question: Question | None) -> bool:
    """Return True if what is looked for is still asked: itself, or first itself and then as the beginning of more."""
    if not isinstance(question, TextQuestion):
        return False
    return question in (searched, state.beginning(searched))


# rows -----------------------------------------------------------------------------------------------------------------


def _session_row(session: ListedSession, now: int) -> PickRow:
    """A session as ``list`` describes it."""
    mark, colour = OUTCOMES.get(RUNNING if session.is_running else session.outcome or "", ("", ""))
    return PickRow(
        uid=session.uid, mark=mark, colour=colour, when=when(session.last_active, now),
        agent=", ".join(session.agents), project=session.project_name, number=session.number or "",
        branch=session.branch or "", turns=session.turns, cost=session.cost.known,
        title=f"{session.origin_mark}{session.pruned_mark}{session.heading or NO_PROMPT}",
    )  # fmt: skip


def _hit_row(found: Excerpt, now: int) -> PickRow:
    """A hit: its session, and the words around the match."""
    session, shown = found.session, found.shown
    return PickRow(
        uid=session.uid, seq=found.stored.seq, agent=", ".join(session.agents), project=session.shown_project,
        when=when(found.stored.at if found.stored.at is not None else session.last_active, now),
        title=shown.shown_title or session.shown_title or NO_PROMPT, snippet=found.snippet,
        marks=tuple(found.marks),
    )  # fmt: skip
