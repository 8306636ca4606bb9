"""Options and arguments that several commands share: which sessions, which point of one; and remarks below lists."""

from __future__ import annotations

import os
from contextlib import contextmanager
from datetime import datetime
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource
from msgspec.structs import replace

from backstory import agents
from backstory.cli import output
from backstory.errors import Next, NoSessionFits, UnknownValue
from backstory.lazy import lazy_module
from backstory.workspace import questions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from backstory.cli.app import App
    from backstory.store import Session, Store
    from backstory.workspace.history import sessions
    from backstory.workspace.history.searching import SearchQuery
    from backstory.workspace.history.sessions import SessionFilter
    from backstory.workspace.history.targets import Target
    from backstory.workspace.located import LocatedSession
    from backstory.workspace.questions import Field
    from backstory.workspace.reader import Reader
else:
    sessions = lazy_module("backstory.workspace.history.sessions")


def _take_store(ctx: click.Context, _param: click.Parameter, value: str | None) -> None:
    if value is not None:
        ctx.obj.store_path = value


store_option = click.option(
    "--store",
    "--db",
    metavar="PATH",
    expose_value=False,
    callback=_take_store,
    help="Use this store file instead of the home store.",
)
POSITIVE = click.IntRange(min=1)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


class NamedArgument(click.types.StringParamType):
    """A text that names something. Shells complete it with the function ``completed`` of ``completing``."""

    def __init__(self, name: str, completed: str) -> None:
        self.name, self._completed = name, completed

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
        from backstory.cli import completing

        found: list[Any] = getattr(completing, self._completed)(ctx, incomplete)
        return found


AGENT = NamedArgument("name", "agents")
RUNNING_AGENT = NamedArgument("name", "running_agents")
SERVED_AGENT = NamedArgument("agent", "served_agents")
SKILLED_AGENT = NamedArgument("agent", "skilled_agents")
REPOSITORY = NamedArgument("name", "repositories")
GIT_BRANCH = NamedArgument("name", "git_branches")
PROJECT = NamedArgument("name", "projects")
MODEL = NamedArgument("name", "models")
TOOL = NamedArgument("name", "tools")
BOARD_ITEM = NamedArgument("name", "board_items")
SESSION = NamedArgument("session", "sessions")
SESSION_NAME = NamedArgument("name", "session_names")
SETTING = NamedArgument("key", "settings")


def sessions_starting(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
    """Return the sessions whose number or uid starts like this, for shell completion; first a group's commands."""
    found = SESSION.shell_complete(ctx, param, incomplete)
    if isinstance(param, click.Argument) and isinstance(ctx.command, click.Group):
        return [*ctx.command.shell_complete(ctx, incomplete), *found]
    return found


def session_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """``-S``: names the session where the argument is something else."""
    option = click.option(
        "--session", "-S", "wanted", metavar="SESSION", shell_complete=sessions_starting,
        help="The session: S3, a name, the start of a uid.",
    )  # fmt: skip
    return option(function)


class OwnArgument(click.Argument):
    """An argument of its command, and none of the commands below that."""

    def get_usage_pieces(self, ctx: click.Context) -> list[str]:
        """Return the words for the usage of a command."""
        return super().get_usage_pieces(ctx) if self in ctx.command.params else []


def session_argument(function: Callable[..., Any]) -> Callable[..., Any]:
    """SESSION or ``-S SESSION``, which are the same: a number, name, uid prefix or the agent's own id, or None."""

    @wraps(function)
    def with_one(*args: Any, session: str | None, wanted: str | None, **rest: Any) -> Any:
        return function(*args, session=one_session(session, wanted), **rest)

    argument = click.argument(
        "session", cls=OwnArgument, metavar="[SESSION]", required=False, shell_complete=sessions_starting
    )
    return argument(session_option(with_one))


def one_session(session: str | None, wanted: str | None) -> str | None:
    """Return the session named as an argument or with -S. Raises UsageError if the two differ."""
    if session is not None and wanted is not None and session != wanted:
        raise click.UsageError(
            f"SESSION is {readable(session)!r}, and -S names {readable(wanted)!r}: name one session."
        )
    return wanted if session is None else session


def sessions_argument(function: Callable[..., Any]) -> Callable[..., Any]:
    """Any number of SESSIONs, or of ``-S SESSION``."""

    @wraps(function)
    def with_all(*args: Any, sessions: tuple[str, ...], wanted: tuple[str, ...], **rest: Any) -> Any:
        if sessions and wanted and set(sessions) != set(wanted):
            raise click.UsageError("Name the sessions either as arguments or with -S.")
        return function(*args, sessions=sessions or wanted, **rest)

    option = click.option(
        "--session", "-S", "wanted", metavar="SESSION", multiple=True, shell_complete=sessions_starting,
        help="The same as the argument SESSION.",
    )  # fmt: skip
    argument = click.argument("sessions", metavar="[SESSION]...", nargs=-1, shell_complete=sessions_starting)
    return argument(option(with_all))


def pick_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """``-i``, and ``--print`` for what inserts the command elsewhere."""
    for option in (
        click.option("--print", "prints", is_flag=True, help="With -i: print the command instead of running it."),
        click.option("--interactive", "-i", "picks", is_flag=True, help="Pick one, then show, resume or continue it."),
    ):
        function = option(function)
    return function


LIMIT = "backstory.limit"


def limit_option(
    about: str,
    *,
    kind: click.ParamType[int, int] | type[int] = POSITIVE,
    default: int | None = None,
    n_stays: bool = False,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """``--limit``. ``-n``, its earlier name, works too, and says so unless installed skills name it (``n_stays``)."""

    def with_options(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def with_one(*args: Any, limit: int | None, limit_as_n: int | None, **rest: Any) -> Any:
            if limit_as_n is not None and not n_stays:
                output.talk(
                    f"-n {limit_as_n} is called --limit {limit_as_n} now; the next release no longer knows -n here."
                )
            return function(*args, limit=click.get_current_context().meta.get(LIMIT, limit), **rest)

        shown = click.option(
            "--limit", type=kind, default=default, show_default=default is not None, help=about, callback=_note_limit
        )
        return shown(click.option("-n", "limit_as_n", type=kind, hidden=True, callback=_note_limit)(with_one))

    return with_options


def _note_limit(context: click.Context, option: click.Parameter, value: int | None) -> int | None:
    """Keep the limit that was typed, under whichever name: they come in their order, so the last one counts."""
    if option.name is not None and context.get_parameter_source(option.name) is ParameterSource.COMMANDLINE:
        context.meta[LIMIT] = value
    return value


def scope_options(*, everywhere: bool, has_all: bool = True) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """``--all`` and ``--here``: the command receives ``everywhere``, by default as it is here.

    ``has_all``: false where ``--all`` still means something else.
    """

    def with_options(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def with_scope(*args: Any, here: bool, everything: bool = False, **rest: Any) -> Any:
            if here and everything:
                raise click.UsageError("Give one of --all and --here.")
            return function(*args, everywhere=everything or (everywhere and not here), **rest)

        given: Callable[..., Any] = click.option(
            "--here", is_flag=True, help=f"Only sessions of this project.{'' if everywhere else '  [default]'}"
        )(with_scope)
        every = f"Sessions of every project.{'  [default]' if everywhere else ''}"
        return click.option("--all", "everything", is_flag=True, help=every)(given) if has_all else given

    return with_options


def readable(text: str) -> str:
    """An argument as text; invalid bytes become replacement characters."""
    return os.fsencode(text).decode("utf-8", "replace")


def moment(text: str | None, now: datetime, *, end: bool = False) -> int | None:
    """Parse a time as people write it to ms since 1970: its beginning, or its ``end``. Raises BadTime.

    ``now`` without a zone is in the system's zone.
    """
    if text is None:
        return None
    from backstory import times

    return (times.until if end else times.since)(text, now)


# which sessions are meant ---------------------------------------------------------------------------------------------


class OneOf(click.Choice[str]):
    """One of a few words, for a filter: another is refused like every value that nothing has (64), with the nearest."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value not in self.choices:
            raise UnknownValue(param.opts[0] if param is not None else "", str(value), [*self.choices])
        return super().convert(value, param, ctx)


_COMPLETED = {
    "agent": AGENT, "repo": REPOSITORY, "project": PROJECT, "branch": GIT_BRANCH, "tool": TOOL, "model": MODEL,
}  # fmt: skip
_SHORT = {"agent": "-a"}


def filter_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options of the filter: the command receives what was typed as ``chosen``, keywords of a ``Selection``."""
    return _with_fields(function, of_events=False)


def search_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same with the options that choose events: keywords of a ``SearchQuery``."""
    return _with_fields(function, of_events=True)


def _with_fields(function: Callable[..., Any], *, of_events: bool) -> Callable[..., Any]:
    asked = tuple(questions.fields(of_events=of_events))

    @wraps(function)
    def with_filter(*args: Any, **how: Any) -> Any:
        app, typed = click.get_current_context().obj, {each.name: how.pop(f"only_{each.name}") for each in asked}
        if blank := next((name for name, text in typed.items() if text is not None and not text.strip()), None):
            # A variable of a script that is not set: it must not mean every session.
            raise click.UsageError(f"--{blank} needs a value. Leave it out for every session.")
        home = app.user_home if typed.get("path") or typed.get("project") else None
        return function(*args, chosen=questions.read(typed, app.cwd, home), **how)

    for field in reversed(asked):
        with_filter = _option_of(field)(with_filter)
    return with_filter


def _option_of(field: Field) -> Callable[..., Any]:
    names = [f"--{field.name}", *filter(None, [_SHORT.get(field.name)]), f"only_{field.name}"]
    kind = OneOf(field.choices) if field.choices else _COMPLETED.get(field.name)
    metavar = None if kind is not None else {"since": "TIME", "until": "TIME"}.get(field.kind, field.name.upper())
    return click.option(*names, type=kind, metavar=metavar, help=field.about)


# remarks below a list of sessions -------------------------------------------------------------------------------------


def report_runs(reader: Reader) -> None:
    """Print what the list does not show of runs: how many there are, and those that are not stored yet."""
    found = reader.runs()
    runs = [run for run in found if run.session is not None]
    if running := sum(run.is_running for run in runs):
        output.talk(f"{running} running: backstory ps")
    if over := len(runs) - running:
        what, them = ("run is", "it") if over == 1 else ("runs are", "them")
        output.talk(f"{over} finished {what} not stored yet; the next `backstory run` will store {them}.")
    for run in runs:
        if run.problem and not run.is_running:
            uid = str(run.session)[: sessions.UID_SHOWN]
            output.talk(f"A run of {uid} could not be stored: {run.problem} It is kept in {run.folder}")
    for run in found:
        if run.session is None:
            output.talk(str(run.problem))


def report_elsewhere(app: App) -> None:
    """Print that this project's store is a stranger's, and what of it claims to be ours."""
    store = app.project_store
    if not store.is_elsewhere or not store.exists:
        return
    output.talk(f"{store.path} came from elsewhere: it is only read, unless you give --trust.")
    if app.conflicts:
        count = output.counted(len(app.conflicts), "session")
        output.talk(f"In conflict: {count} of it, also known from another place. The machine's store keeps that copy.")


def report_left_behind(app: App) -> None:
    """Print which folders are gone that held the repository of this one, and how their sessions are listed here."""
    for each in app.reader.left_behind():
        root, shown = app.workspace.worktree, _from_home(app, each.folder)
        command = Next("project move", shown or Path(each.folder), "." if root == app.cwd else root)
        gone = f"{output.counted(each.sessions, 'session')} of {shown or each.folder}, which is gone"
        same = f"the same git repository (first commit {each.commit[:7]})"
        output.talk(output.one_liner(f"{gone}: {same}. Show them here: {command}"))


def _from_home(app: App, folder: str) -> str:
    """A folder in the user's home as a shell reads it; '' for any other."""
    import shlex  # mostly no folder is gone

    home = f"{app.environ.get('HOME', '').rstrip('/')}/"
    return f"~/{shlex.quote(folder[len(home) :])}" if len(home) > 1 and folder.startswith(home) else ""


def why_no_sessions(app: App, wanted: SessionFilter, elsewhere: str = "--all") -> str:
    """Return the reason that no session is found, and a remedy. ``elsewhere``: the option for other projects."""
    store = next((store for store in app.stores if store.exists), None)
    if store is None:
        return (
            f"Nothing was imported yet: there is no store at {app.home_store.path}. `backstory ingest` imports logs of "
            f"{', '.join(agents.names())}; if there are none, `backstory run PROMPT` starts a session."
        )
    if wanted.is_narrow and (line := app.reader.nobody_has(wanted)):
        return line
    return app.workspace.why_none(wanted, elsewhere) or f"{store.path} has no sessions. Try: backstory ingest --explain"


def more_elsewhere(app: App, wanted: SessionFilter, here: int | None = None, elsewhere: str = "--all") -> str:
    """Return how many sessions of other projects fit, and the option that shows them; '' where none does.

    ``here``: how many fit of this project, where that is known.
    """
    if wanted.everywhere:
        return ""
    everywhere = app.reader.count(replace(wanted, everywhere=True))
    more = everywhere - (app.reader.count(wanted) if here is None else here)
    return f"{more:,} more in other projects: {elsewhere}" if more > 0 else ""


def print_elsewhere(app: App, wanted: SessionFilter, elsewhere: str = "--all") -> None:
    """Say to a person how many sessions of other projects fit and are left out."""
    if output.is_screen() and (more := more_elsewhere(app, wanted, elsewhere=elsewhere)):
        output.talk(more)


def not_searched(app: App, query: SearchQuery) -> str:
    """Return how many sessions a search of this project leaves out, and the option for them; '' where none is."""
    wanted = sessions.SessionFilter(**query.shared, everywhere=not query.here or query.session is not None)
    more = 0 if wanted.everywhere else app.reader.count(replace(wanted, everywhere=True)) - app.reader.count(wanted)
    return f"{output.counted(more, 'session')} of other projects not searched: --all" if more > 0 else ""


def chosen_sessions(app: App, wanted: SessionFilter) -> list[tuple[Store, Session]]:
    """Return the sessions that a filter lets through, with their subagents'. Raises NoSessionFits."""
    if found := app.reader.with_subagents(wanted):
        return found
    raise NoSessionFits(why_no_sessions(app, wanted))


# points of a session --------------------------------------------------------------------------------------------------


SHOWN_COLUMNS = 60


def find(
    app: App, wanted: str | None, *, running_first: bool = False, is_work: bool = False, has_heading: bool = False
) -> LocatedSession:
    """The session that is meant; without a word the default one, which is printed. The rest as ``default`` has it.

    ``has_heading``: what is printed next names the session, so a person on a screen is not told it twice.
    """
    if wanted is not None:
        return app.workspace.resolve(wanted)
    found = app.workspace.default(running_first=running_first, is_work=is_work)
    if not (has_heading and output.is_screen()):
        print_default(found)
    return found


def print_default(found: LocatedSession) -> None:
    """Print which session is meant by no word."""
    room = max(min(output.width() - len(found.label) - 1, SHOWN_COLUMNS), 8)
    output.talk(f"{found.label} {output.one_line(found.session.shown_title, room)}".strip())


def find_target(app: App, words: str, wanted: str | None) -> Target:
    """The record or branch that is meant, in the session that is meant; the default session is printed."""
    session = None if wanted is None else app.workspace.resolve(wanted)
    target = app.workspace.target(readable(words), session)
    if target.is_default:
        print_default(target.located)
    return target


def tell_moved(target: Target) -> None:
    """Say where a record that lies inside a tool's call was taken to."""
    if target.tip is None and target.point.seq < target.asked:
        output.talk(
            f"@{target.asked} lies between a tool's call and its result, so the agent receives it up to "
            f"@{target.point.seq}, before the call."
        )


@contextmanager
def locked(app: App, uid: str, shown_as: str) -> Iterator[None]:
    """Hold the right to write a session while something is decided about it; raises SessionBusy."""
    scheduler = app.workspace.scheduler
    for problem in scheduler.recover():
        output.talk(problem)
    with scheduler.locked(uid, shown_as):
        yield
