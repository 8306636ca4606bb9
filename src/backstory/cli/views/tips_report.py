"""Shared by ``report tips`` and ``report cost-tips``."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from backstory.chronicle.window import DAY_MS
from backstory.cli import output
from backstory.cli.report_options import print_report, print_where_there_is, wanted_by
from backstory.cli.views.counting import counting

if TYPE_CHECKING:
    from collections.abc import Callable

    from backstory.chronicle.tips import TipsReport
    from backstory.cli.app import App
    from backstory.cli.report_options import Form, ReportQuestion


DAYS = 30
WITHOUT_HERE = "leave out --here"
"""The way to other projects: --all still means every tip."""


def full_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """``--full``: the command receives ``whole``. ``--all``, its earlier name, works too, and says so."""

    @wraps(function)
    def with_full(*args: Any, whole: bool, whole_as_all: bool, **rest: Any) -> Any:
        if whole_as_all:
            output.talk("--all is called --full here now; in the next release it means every project.")
        return function(*args, whole=whole or whole_as_all, **rest)

    shown = click.option(
        "--full", "whole", is_flag=True, help="Print every tip, not only the strongest of each pattern."
    )
    return shown(click.option("--all", "whole_as_all", is_flag=True, hidden=True)(with_full))


def print_tips(app: App, asked: ReportQuestion, form: Form, *, about_costs: bool, whole: bool) -> None:
    """Look for patterns, and print what was found."""
    app.bring_up_to_date()
    from backstory.chronicle import tips

    wanted = wanted_by(app, asked, DAYS * DAY_MS)
    with counting("Looking for patterns") as report:
        found = tips.tips(app.reader, wanted, about_costs=about_costs, most=None if whole else tips.MOST, report=report)
    if form.explain:
        _print_queries(found, about_costs=about_costs)
        return
    if not found.turns:
        print_where_there_is(app, wanted, WITHOUT_HERE)
    elif not found.findings:
        output.talk(tips.no_tips(found))
    if not (found.findings or form.json or (about_costs and found.turns)):
        return
    print_report(
        app, form, found, as_json=tips.as_json, drawn=tips.report,
        kind="tips about how a person works with agents", wanted=wanted, elsewhere=WITHOUT_HERE,
    )  # fmt: skip


def _print_queries(found: TipsReport, *, about_costs: bool) -> None:
    from backstory.chronicle.explain_tips import explained

    for each in explained(found, about_costs=about_costs):
        output.data(each)
