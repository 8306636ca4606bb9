"""Shared by reports on the command line: their options, the sessions they are about, and their printing."""

from __future__ import annotations

import secrets
from functools import wraps
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click
from msgspec import Struct

from backstory.chronicle.report import masked
from backstory.chronicle.window import last, nearest_day
from backstory.cli import output
from backstory.cli.options import (
    RUNNING_AGENT,
    filter_options,
    json_option,
    more_elsewhere,
    print_elsewhere,
    readable,
    scope_options,
    store_option,
    why_no_sessions,
)
from backstory.cli.trusting import may_act, trust_option
from backstory.cli.views.counting import at_once, counting
from backstory.cli.views.printing import print_events, printer_for
from backstory.derive.phrasing import prompt_for
from backstory.model import Permissions
from backstory.workspace.history.sessions import SessionFilter
from backstory.workspace.runs.scheduler import Destination, Options

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from backstory.chronicle.report import Report
    from backstory.cli.app import App


T = TypeVar("T")


class Form(Struct, frozen=True, kw_only=True):
    """The form of a report: text, or one of these. ``writer``: the agent that phrases it."""

    markdown: bool
    json: bool
    explain: bool
    writer: str | None
    model: str | None


class ReportQuestion(Struct, frozen=True, kw_only=True):
    """The sessions that a report is asked about."""

    here: bool
    chosen: dict[str, Any]
    words: str


_FORMS = (
    click.option("--md", "as_markdown", is_flag=True, help="Print Markdown."),
    json_option,
    click.option("--explain", is_flag=True, help="Print the rules, and the SQL that returns the same numbers."),
    click.option("--write", "writer", type=RUNNING_AGENT, metavar="AGENT", help="Let this agent phrase it, in a run."),
    click.option("--write-model", "model", metavar="NAME", help="With --write: the agent's model."),
    click.option("-m", "model_as_m", hidden=True, help="The earlier short name of --write-model."),
    trust_option,
    store_option,
)
_SESSIONS = (
    click.argument("words", nargs=-1),
    filter_options,
)


def form_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options that say how a report is printed: the command receives them as ``form``."""

    @wraps(function)
    def with_form(
        *args: Any, as_markdown: bool, as_json: bool, explain: bool, writer: str | None, model: str | None,
        model_as_m: str | None, **how: Any,
    ) -> Any:  # fmt: skip
        model = model or model_as_m
        if as_markdown + as_json + explain + (writer is not None) > 1:
            raise click.UsageError("Choose one of --md, --json, --explain and --write.")
        if model is not None and writer is None:
            raise click.UsageError("--write-model needs --write: a report is computed without a model.")
        form = Form(markdown=as_markdown, json=as_json, explain=explain, writer=writer, model=model)
        return function(*args, form=form, **how)

    return _with(with_form, _FORMS)


def report_options(function: Callable[..., Any], *, has_all: bool = True) -> Callable[..., Any]:
    """The options of a report about several sessions: the command receives ``asked`` and ``form``."""

    @wraps(function)
    def with_sessions(*args: Any, words: tuple[str, ...], everywhere: bool, chosen: dict[str, Any], **how: Any) -> Any:
        if how["form"].writer is not None and how["form"].model is None and "model" in chosen:
            # For one release: what --model meant here must not become something else in silence.
            raise click.UsageError("--model chooses sessions. The model of the agent that writes is --write-model.")
        asked = ReportQuestion(here=not everywhere, chosen=chosen, words=readable(" ".join(words)))
        return function(*args, asked=asked, **how)

    return _with(form_options(with_sessions), (*_SESSIONS, scope_options(everywhere=True, has_all=has_all)))


def about_one_place(function: Callable[..., Any]) -> Callable[..., Any]:
    """As ``report_options``, for a report where ``--all`` would mean nothing, or means something else."""
    return report_options(function, has_all=False)


def _with(function: Callable[..., Any], options: Iterable[Callable[..., Any]]) -> Callable[..., Any]:
    for option in reversed(tuple(options)):
        function = option(function)
    return function


def wanted_by(app: App, asked: ReportQuestion, span_ms: int | None) -> SessionFilter:
    """The sessions that a report is about: of the last ``span_ms`` where no time was asked for; None: of all time."""
    wanted = SessionFilter(**asked.chosen, everywhere=not asked.here)
    if span_ms is not None:
        wanted = last(wanted, app.workspace.now(), span_ms)
    return app.reader.about(asked.words, wanted) if asked.words else wanted


def print_report(
    app: App,
    form: Form,
    found: Any,
    *,
    as_json: Callable[[Any], Any],
    drawn: Callable[[Any], Report],
    kind: str,
    wanted: SessionFilter | None = None,
    elsewhere: str = "--all",
) -> None:
    """Print what was found in the form that is asked for, secrets masked, or let an agent phrase it.

    ``drawn`` makes a report of it. ``kind``: what it is. ``wanted``: the sessions that it is about; a person is told
    how many of other projects there are, and the option for these, ``elsewhere``.
    """
    from backstory.chronicle.report import markdown_lines
    from backstory.cli.views.report_view import text_lines

    with counting("Masking secrets") as tell:
        is_shared = form.markdown or form.writer is not None
        found = masked(found, app.reader.masks, lambda done: tell(done, None), str(app.user_home) if is_shared else "")
    if form.json:
        output.json(as_json(found))
    elif form.writer is not None:
        _write(app, form, kind, "\n".join(markdown_lines(drawn(found))))
    else:
        output.pages(at_once((markdown_lines if form.markdown else text_lines)(drawn(found))))
        # Counting those that called a tool or hold the words would take longer than everything else here.
        if not form.markdown and wanted is not None and wanted.tool is None and wanted.uids is None:
            print_elsewhere(app, wanted, elsewhere)


def _write(app: App, form: Form, kind: str, facts: str) -> NoReturn:
    """Run an agent that phrases a report, in a session of its own; ends with the exit code of ``run``."""
    click.get_current_context().exit(write(app, str(form.writer), form.model, kind, facts))


def print_queries(queries: Mapping[str, str]) -> None:
    """Print queries for ``backstory sql``, each below the name of what it returns."""
    for part, query in queries.items():
        output.data(f"-- {part}\n{query};\n")


def print_where_there_is(app: App, wanted: SessionFilter, elsewhere: str = "--all") -> None:
    """Print where else there is history, when a report's time holds none. ``elsewhere``: as ``why_no_sessions``."""
    if wanted.about:
        output.talk(f"No session in this time is about {wanted.about!r}. All of them: backstory search {wanted.about}")
        return
    day = nearest_day(app.reader, wanted)
    if day is None:
        output.talk(why_no_sessions(app, wanted, elsewhere))
        return
    output.talk(
        f"No sessions in this time. The nearest are of {day}: {_range(wanted, day)}. If some are missing, "
        "`backstory reindex` imports them and rebuilds what is derived."
    )
    if more := more_elsewhere(app, wanted, 0, elsewhere):
        output.talk(more)


def _range(wanted: SessionFilter, day: str) -> str:
    """The options for a day. Where no end was asked for, it is still now."""
    return f"--since {day}" if wanted.until is None else f"--since {day} --until {day}"


def write(app: App, agent: str, model: str | None, kind: str, facts: str) -> int:
    """Run ``agent`` with the facts of a report; returns the exit code of ``run``. ``facts``: Markdown."""
    may_act(app)
    scheduler = app.workspace.scheduler
    for problem in scheduler.recover(close_orphans=True):
        output.talk(problem)
    # History cannot know this mark, so it cannot end the facts early.
    prompt = prompt_for(kind, facts, mark=secrets.token_hex(4))
    # What is quoted may ask for anything; nothing has to be edited to phrase it.
    options = Options(agent=agent, model=model, permissions=Permissions.ASK)
    return print_events(scheduler.submit(Destination(is_new=True), prompt, options, "fail"), printer_for(as_json=False))
