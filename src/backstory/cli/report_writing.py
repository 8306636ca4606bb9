"""Let an agent phrase a report: a run like every other, in a new session of this project."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from backstory.chronicle.phrasing import prompt_for
from backstory.cli import output
from backstory.cli.printing import print_events, printer_for
from backstory.cli.trusting import may_act
from backstory.model import Permissions
from backstory.workspace.scheduler import Destination, Options

if TYPE_CHECKING:
    from backstory.cli.app import App


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
