"""A person picks one of many sessions or hits, then it is shown, resumed or continued. Used by ``list`` and ``search``.

With fzf (0.30 or later) it is fzf's screen with a preview; without it a numbered list that asks for a number. What fzf
may put into a shell's command is a uid and a record's number, and nothing else: titles are only shown. Sessions are
handed to fzf page by page while the person types, until fzf ends.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

import click
from msgspec import Struct

from backstory.cli import output
from backstory.cli.views.moments import OUTCOMES, RUNNING, origin_mark
from backstory.derive.naming import NO_PROMPT
from backstory.errors import FinderFailed
from backstory.lazy import lazy_regex

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import IO, NoReturn

    from backstory.cli.app import App
    from backstory.search.query import Excerpt
    from backstory.workspace.history.sessions import ListedSession

OLDEST_FZF = (0, 30)
NOTHING_CHOSEN = 130
"""As fzf has it, and as for everything that a person ended."""
NO_MATCH = 1
"""fzf's exit code where nothing is left that could be chosen."""
PLAIN_UID = lazy_regex(r"[0-9A-Za-z]{8,64}")
"""A uid as every store of ours has it. A store from elsewhere may have others, which no shell gets to see."""
VERSION = lazy_regex(r"(\d+)\.(\d+)")
ANSWER = lazy_regex(r"([0-9]{1,9})\s*([rc]?)")
SHOW, RESUME, CONTINUE = "show", "resume", "run"
BY_KEY = {"": SHOW, "enter": SHOW, "alt-r": RESUME, "alt-c": CONTINUE}
BY_LETTER = {"": SHOW, "r": RESUME, "c": CONTINUE}
KEYS = "Enter: show · Alt-R: resume · Alt-C: continue here"
FIND, STORE = "BACKSTORY_PICK_FIND", "BACKSTORY_PICK_STORE"
"""Variables of the preview: it gets these values in its environment, and never in its command."""


class Choice(Struct, frozen=True, kw_only=True):
    """A choice: a session, or one record of it; and the line that describes it."""

    uid: str
    text: str
    seq: int | None = None


class Picked(Struct, frozen=True, kw_only=True):
    """The choice made, and its action: SHOW, RESUME or CONTINUE."""

    choice: Choice
    action: str


def pick(app: App, pages: Iterable[Sequence[Choice]], *, words: str = "", prints: bool = False) -> int:
    """Let a person pick, then become the command for it; returns NOTHING_CHOSEN where nothing was picked.

    ``words``: what was searched for, to be marked. ``prints``: print the command instead. Raises FinderFailed.
    """
    if not output.can_ask():
        raise click.UsageError("-i asks a person, so it needs a terminal.")
    safe = ([each for each in page if PLAIN_UID.fullmatch(each.uid)] for page in pages)
    finder = _finder(app.environ)
    picked = _picked_from_list(safe) if finder is None else _picked_in_fzf(finder, app, safe, words)
    if picked is None:
        return NOTHING_CHOSEN
    command = _command(picked, words, app.store_path)
    if not prints:
        _become(app, command)
    output.data(shlex.join(["backstory", *command]))
    return 0


def _become(app: App, command: list[str]) -> NoReturn:
    """Replace this process by the command, with the terminal as a person left it."""
    app.close()
    sys.stdout.flush()
    os.execv(sys.executable, [*_ourselves(), *command])


def _command(picked: Picked, words: str, store: str | None) -> list[str]:
    """The words of the command for what was picked."""
    choice = picked.choice
    named = [f"--store={store}"] if store else []
    match picked.action:
        case "run":
            return [CONTINUE, *named, "-S", choice.uid]
        case "resume":
            return [RESUME, *named, choice.uid]
        case _:
            marked = [f"--find={words}"] if words and choice.seq is not None else []
            record = [] if choice.seq is None else [f"@{choice.seq}"]
            return [SHOW, *named, *marked, choice.uid, *record]


def _ourselves() -> list[str]:
    """This program, with nothing imported from the current folder, which may be anybody's."""
    return [sys.executable, "-P", "-m", "backstory"]


# fzf --------------------------------------------------------------------------------------------------------------


def _finder(environ: Mapping[str, str]) -> str | None:
    """The path of an fzf that is new enough."""
    found = shutil.which("fzf", path=environ.get("PATH"))
    if found is None:
        return None
    try:
        told = subprocess.run([found, "--version"], capture_output=True, text=True, check=False, timeout=10).stdout
    except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError):
        return None
    version = VERSION.match(told)
    return found if version and (int(version[1]), int(version[2])) >= OLDEST_FZF else None


def _picked_in_fzf(finder: str, app: App, pages: Iterator[list[Choice]], words: str) -> Picked | None:
    first = next(pages, [])
    shown = {_key(each): each for each in first}
    environ = {**app.environ, "SHELL": "/bin/sh", FIND: words, STORE: app.store_path or ""}
    process = subprocess.Popen(
        [finder, *_options(bool(words), app.store_path is not None)], env=environ, stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )  # fmt: skip
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        _hand_over(process, process.stdin, first, pages, shown)
        told = process.stdout.read().decode("utf-8", "replace")
        code = process.wait()
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    if code in (NOTHING_CHOSEN, NO_MATCH):
        return None
    if code:
        raise FinderFailed(code)
    key, _, line = told.partition("\n")
    choice = shown.get("\t".join(line.split("\t")[:2]))
    return None if choice is None else Picked(choice=choice, action=BY_KEY.get(key, SHOW))


def _hand_over(
    process: subprocess.Popen[bytes], pipe: IO[bytes], first: list[Choice], rest: Iterator[list[Choice]],
    shown: dict[str, Choice],
) -> None:  # fmt: skip
    """Write what can be picked, page by page, until there is no more or fzf has ended."""
    page: list[Choice] | None = first
    with suppress(BrokenPipeError):
        try:
            while page is not None and process.poll() is None:
                shown |= {_key(each): each for each in page}
                pipe.write("".join(f"{_key(each)}\t{each.text}\n" for each in page).encode("utf-8", "replace"))
                pipe.flush()
                page = next(rest, None)
        finally:
            pipe.close()


def _key(choice: Choice) -> str:
    """Return the name of a choice for the preview: two fields without any text from history."""
    return f"{choice.uid}\t{'' if choice.seq is None else f'@{choice.seq}'}"


def _options(has_words: bool, has_store: bool) -> list[str]:
    """fzf's options: what FZF_DEFAULT_OPTS says of what is printed is set back, the looks are a person's own."""
    find = f' --find="${FIND}"' if has_words else ""
    store = f' --store="${STORE}"' if has_store else ""
    preview = f"COLUMNS=$FZF_PREVIEW_COLUMNS exec {shlex.join(_ourselves())} show --preview{find}{store} {{1}} {{2}}"
    return [
        "--delimiter=\t", "--with-nth=3..", "--nth=..", "--tiebreak=index", "--no-multi", "--no-print-query",
        "--no-print0", "--no-select-1", "--no-exit-0", "--no-ansi", "--expect=alt-r,alt-c", f"--header={KEYS}",
        "--preview-window=down,60%,wrap", f"--preview={preview}",
    ]  # fmt: skip


# without fzf ------------------------------------------------------------------------------------------------------


def _picked_from_list(pages: Iterator[list[Choice]]) -> Picked | None:
    """Ask for one of the first page by its number, with the letter of what is to be done with it."""
    choices = next(pages, [])
    digits = len(str(len(choices)))
    for number, each in enumerate(choices, 1):
        output.talk(output.one_line(f"{number:>{digits}}  {each.text}", output.width(), keep_blanks=True))
    while choices:
        answer = _answer(f"Number (3: show, 3r: resume, 3c: continue here; Enter: nothing) [1-{len(choices)}]: ")
        if not answer:
            return None
        found = ANSWER.fullmatch(answer)
        if found and 1 <= int(found[1]) <= len(choices):
            return Picked(choice=choices[int(found[1]) - 1], action=BY_LETTER[found[2]])
        output.talk(f"There is no {answer!r}.")
    return None


def _answer(question: str) -> str:
    output.ask(question)
    return sys.stdin.readline().strip().lower()


# choices --------------------------------------------------------------------------------------------------------------
# Sessions and hits as the lines that a person picks from: when, which agent, where, and what it is about.


AGENT_COLUMNS, PROJECT_COLUMNS, TEXT_COLUMNS = 8, 20, 400


def session_choice(session: ListedSession) -> Choice:
    """A session as a line, as ``list`` describes it."""
    mark, _ = OUTCOMES.get(RUNNING if session.is_running else session.outcome or "", (" ", ""))
    origin = origin_mark(session.elsewhere, is_conflict=session.is_conflict)
    title = f"{origin}{session.heading or NO_PROMPT}"
    cells = (mark, output.local(session.last_active)[:16].ljust(16), *_where(session.agents, session.project_name))
    return Choice(uid=session.uid, text=output.one_line("  ".join((*cells, title)), TEXT_COLUMNS, keep_blanks=True))


def hit_choice(found: Excerpt) -> Choice:
    """A hit as a line: its session, and the words around the match."""
    session = found.session
    at = found.stored.at if found.stored.at is not None else session.last_active
    title = found.shown.shown_title or session.shown_title or NO_PROMPT
    cells = (output.local(at)[:10].ljust(10), *_where(session.agents, session.shown_project), title)
    text = f"{output.one_line('  '.join(cells), TEXT_COLUMNS // 2, keep_blanks=True)}  » {found.snippet}"
    return Choice(
        uid=session.uid, seq=found.stored.seq, text=output.one_line(text, TEXT_COLUMNS, keep_blanks=True)
    )  # fmt: skip


def _where(agents: tuple[str, ...], project: str) -> tuple[str, str]:
    """An agent and a project, each padded to its column."""
    return _padded(", ".join(agents), AGENT_COLUMNS), _padded(project, PROJECT_COLUMNS)


def _padded(text: str, room: int) -> str:
    shown = output.one_line(text, room)
    return shown + " " * (room - output.columns(shown))
