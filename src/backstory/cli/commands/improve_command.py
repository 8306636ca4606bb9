"""``backstory report improve``: what to tell agents in this repository, so that friction does not come again."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

from backstory.chronicle.improve import content_with, diff_of, proposal_section
from backstory.chronicle.report import Section
from backstory.chronicle.window import DAY_MS
from backstory.cli import output
from backstory.cli.remote_reports import without_team
from backstory.cli.report_options import about_one_place, print_report, print_where_there_is, wanted_by
from backstory.cli.views.report_view import section_lines
from backstory.errors import NotConfirmed, UncommittedChanges
from backstory.projects import instruction_file

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from backstory.chronicle.improve import Friction, Improvements
    from backstory.chronicle.proposals import Proposal
    from backstory.cli.app import App
    from backstory.cli.report_options import Form, ReportQuestion
    from backstory.derive.secrets import Redactor
    from backstory.workspace.clients.instructions import Instructions


SPAN_MS = 90 * DAY_MS


@click.command("improve", short_help="Propose what to tell agents in a repository.")
@about_one_place
@click.option("--file", "name", metavar="PATH", help="The file of instructions to add to, in this repository.")
@click.option("--diff", "only_diff", is_flag=True, help="Print only the change, for `git apply`.")
@click.option("--apply", "is_applied", is_flag=True, help="Ask about each proposal, and add it to the file.")
@click.option("--yes", "-y", is_flag=True, help="With --apply: add all of them without asking.")
@click.option("--dirty", is_flag=True, help="With --apply: also to a file with uncommitted changes.")
@without_team("The team's server does not keep what went wrong in each call")
@click.pass_obj
def command(
    app: App,
    asked: ReportQuestion,
    form: Form,
    name: str | None,
    only_diff: bool,
    is_applied: bool,
    yes: bool,
    dirty: bool,
) -> None:
    """Propose what to tell agents in this repository, from what went wrong in its sessions.

    The last 90 days: corrections, failures that were left to you, checks that failed again and again, mistakes of
    several sessions, explanations that you typed again. --repo shows those of another repository.
    """
    from backstory.chronicle import improve

    _check_words(form, only_diff=only_diff, is_applied=is_applied, yes=yes, dirty=dirty)
    if form.explain:
        output.data(improve.RULES)
        return
    is_elsewhere = "repository" in asked.chosen
    if is_applied:
        _may_apply(app, is_elsewhere=is_elsewhere)
    friction = _friction(app, asked, is_elsewhere=is_elsewhere)
    mask = _redactor(app, friction)
    instructions, why = (None, "--repo only shows") if is_elsewhere else _instructions(app, friction, name, is_applied)
    report = improve.improvements(friction, instructions, mask.text, why)
    if only_diff:
        output.exact(report.diff)
    elif is_applied and instructions is not None:
        from backstory.cli.stop_signals import stop_on_signals

        stop_on_signals()
        apply(report, instructions, app.workspace.environ, yes=yes, dirty=dirty)
    else:
        _print(app, form, report)


def _check_words(form: Form, *, only_diff: bool, is_applied: bool, yes: bool, dirty: bool) -> None:
    forms = form.markdown or form.json or form.explain or form.writer is not None
    if only_diff + is_applied + forms > 1:
        raise click.UsageError("Choose one of --diff, --apply, --md, --json, --explain and --write.")
    if (yes or dirty) and not is_applied:
        raise click.UsageError("--yes and --dirty need --apply.")


def _may_apply(app: App, *, is_elsewhere: bool) -> None:
    """Check that proposals may be written: of this repository, whose store is trusted."""
    from backstory.cli.trusting import may_act
    from backstory.errors import OnlyToLookAt

    if is_elsewhere:
        raise OnlyToLookAt
    may_act(app)


def _friction(app: App, asked: ReportQuestion, *, is_elsewhere: bool) -> Friction:
    from backstory.chronicle.improve import read_friction
    from backstory.cli.views.counting import counting

    app.bring_up_to_date()
    wanted = replace(wanted_by(app, asked, SPAN_MS), everywhere=is_elsewhere)
    with counting("Reading sessions") as report:
        friction = read_friction(app.reader, wanted, report)
    if not friction.sessions:
        print_where_there_is(app, wanted, "--repo NAME")
    return friction


def _redactor(app: App, friction: Friction) -> Redactor:
    """Return the redactor that masks the sentences, also for a file that others read."""
    redactor = app.workspace.redactor(str(app.user_home))
    redactor.learn(friction)
    return redactor


def _instructions(app: App, friction: Friction, name: str | None, is_needed: bool) -> tuple[Instructions | None, str]:
    """The instructions of this repository; without them, why there are none, unless they are needed."""
    from backstory.errors import InstructionsNotText, InstructionsUnreadable, NoRepository, OutsideRepository
    from backstory.workspace.clients.instructions import instructions_of

    try:
        return instructions_of(app.cwd, friction.agents, name), ""
    except (NoRepository, OutsideRepository, InstructionsUnreadable, InstructionsNotText) as refused:
        if is_needed or name is not None:
            raise
        return None, str(refused).rstrip(".")


def _print(app: App, form: Form, report: Improvements) -> None:
    from backstory.chronicle import improve

    if not (report.sessions or form.json):
        return
    print_report(
        app, form, report, as_json=improve.as_json, drawn=improve.report,
        kind="what to tell agents in a repository, each proposal with its evidence",
    )  # fmt: skip


# a person decides about each proposal; those that are agreed to are added to the file of instructions -----------------


CHOICES = "y: add it · n: leave it · q: leave this and the rest"


def apply(
    report: Improvements, instructions: Instructions, environ: Mapping[str, str], *, yes: bool, dirty: bool
) -> None:
    """Ask about each proposal, and add those that are agreed to; all of them with ``yes``.

    A file that git could not bring back is asked about apart, and with ``yes`` changed only if it may be ``dirty``.
    Raises NotConfirmed if no person can be asked, UncommittedChanges, and as ``Instructions.write``.
    """
    if not report.proposals:
        output.talk("Nothing to propose, so nothing was changed.")
        return
    what = f"Adding to {report.file}"
    if not yes and not output.can_ask():
        raise NotConfirmed(what)
    why = None if dirty else instructions.uncommitted(environ)
    if why is not None and yes:
        raise UncommittedChanges(instructions.file.target, why)
    if why is not None and not output.confirm(f"{report.file}: {why}. Change it nevertheless?"):
        output.talk("Nothing was changed.")
        return
    chosen = list(report.proposals) if yes else _chosen(report, instructions)
    if not chosen:
        output.talk("Nothing was changed.")
        return
    instruction_file.write(instructions.file, content_with(instructions, chosen))
    output.talk(f"Added {output.counted(len(chosen), 'line')} to {instructions.file.target}. See: git diff")


def _chosen(report: Improvements, instructions: Instructions) -> Sequence[Proposal]:
    chosen: list[Proposal] = []
    for number, each in enumerate(report.proposals, 1):
        for part in (proposal_section(report, number, each), Section(diff=diff_of(instructions, [each]))):
            for line in ("", *section_lines(part)):
                output.talk(line)
        answer = _answer(f"Add this to {report.file}? [y/n/q] ")
        if answer == "q":
            break
        if answer == "y":
            chosen.append(each)
    return chosen


def _answer(question: str) -> str:
    """``y``, ``n`` or ``q``; the end of the input is ``q``."""
    while True:
        output.ask(question)
        line = sys.stdin.readline()
        answer = line.strip().lower()[:1]
        if not line or answer in ("y", "n", "q"):
            return answer or "q"
        output.talk(CHOICES)
