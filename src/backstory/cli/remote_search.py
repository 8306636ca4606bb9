"""``search --remote``: what a team's server finds of all that its people sent."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import click
from click.core import ParameterSource
from msgspec import Struct

from backstory.ask.search import BY_TIME
from backstory.bounds import iso
from backstory.cli import output
from backstory.sync import account as accounts
from backstory.sync import searching
from backstory.sync.remote import Remote
from backstory.workspace.history.searching import nothing_found

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backstory.cli.app import App
    from backstory.sync.account import Account
    from backstory.sync.searching import FoundThere, HitThere

LOCAL = "It is for what is here: `backstory pull` brings your own sessions."
REFUSED = {
    "exact": f"The server knows words alone. {LOCAL}", "regex": f"The server knows words alone. {LOCAL}",
    "picks": "Hits there are not picked. Leave it out.", "prints": "Hits there are not picked. Leave it out.",
    "here": "Name the repository: --repo OWNER/NAME.", "without": LOCAL,
    "store": "The server has no such file. Leave it out.", "only_project": "Name the repository: --repo OWNER/NAME.",
    "only_path": LOCAL, "only_ref": LOCAL, "only_tool": LOCAL, "only_model": LOCAL, "only_status": LOCAL,
    "only_role": "Name what is searched: --scope prompt, answer, command or tool_input.",
}  # fmt: skip
"""Options that the server does not know, by their names in the command, with what to do instead."""


def check(ctx: click.Context) -> None:
    """Refuse options that the server does not know. Raises UsageError."""
    if not ctx.params["remote"]:
        raise click.UsageError("--person is about the team's server: add --remote.")
    names = {each.name: each.opts[0] for each in ctx.command.params}
    typed = [name for name in names if name and ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE]
    for name in typed:
        if name in REFUSED:
            raise click.UsageError(f"{names[name]} does not go with --remote. {REFUSED[name]}")
    if "sort" in typed and ctx.params["sort"] != BY_TIME:
        raise click.UsageError("--sort score does not go with --remote: there the newest come first.")
    if "all_hits" in typed and ctx.params["inside"] is None:
        raise click.UsageError("--all-hits goes with --remote for one session: --session NAME.")


class AnswerThere(Struct, frozen=True, kw_only=True):
    """An answer, read, and as the server said it; by whose login, for what."""

    own: Account
    text: str
    limit: int
    found: FoundThere
    said: Any


def search(app: App, text: str, chosen: dict[str, Any], how: dict[str, Any]) -> AnswerThere:
    """Ask the server. Raises UsageError, NotLoggedIn, ServerUnreachable, ServerRefused."""
    if not text:
        raise click.UsageError("Missing argument 'QUERY...': words to look for.")
    own = accounts.account(app.home)
    limit = min(how["limit"] or app.config.settings.search.limit, searching.LIMIT_MAX)
    wanted = {
        "words": text, "person": chosen.get("person"), "agent": chosen.get("agent"),
        "repository": chosen.get("repository"), "branch": chosen.get("branch"), "title": chosen.get("title"),
        "since": iso(chosen.get("since")), "until": iso(chosen.get("until")),
        "scope": ",".join(how["scopes"]) or None, "session": how["inside"],
        "near": "false" if how["no_near"] else None, "all_hits": "true" if how["all_hits"] else None, "limit": limit,
    }  # fmt: skip
    with Remote(own.address, own.token) as remote:
        found, said = searching.search(remote, wanted)
    return AnswerThere(own=own, text=text, limit=limit, found=found, said=said)


def grouped(found: FoundThere) -> list[list[HitThere]]:
    """The hits of each session as a machine has it."""
    gathered: dict[tuple[str, str, str], list[HitThere]] = {}
    for each in found.hits:
        gathered.setdefault((each.uid, each.person, each.machine), []).append(each)
    return [*gathered.values()]


def remarks(app: App, answer: AnswerThere) -> Iterator[str]:
    """Yield what a person is told besides the hits: what was searched, how far the index is, what to do next."""
    found = answer.found
    if not found.hits:
        yield nothing_found(answer.text)
    yield f"Searched at {answer.own.address}: {found.searched}."
    if found.waiting_sessions:
        is_one = found.waiting_sessions == 1
        sessions = output.counted(found.waiting_sessions, "session")
        yield f"{sessions} there {'waits' if is_one else 'wait'} to be indexed, and may have more."
    if found.hits:
        yield " · ".join((*_counted(found, answer.limit), _next(app, answer)))


def _counted(found: FoundThere, limit: int) -> Iterator[str]:
    totals = found.totals
    sessions = output.counted(totals.session_count + totals.near_sessions, "session")
    yield f"{'the newest ' if totals.at_least else ''}{sessions}, {output.counted(totals.hit_count, 'hit')}"
    if found.truncated and limit < searching.LIMIT_MAX:
        yield f"more: --limit {min(4 * limit, searching.LIMIT_MAX)}"


def _next(app: App, answer: AnswerThere) -> str:
    """Return how the best hit is read: here if its session is, by its page on the server else."""
    own, best = answer.own, answer.found.hits[0]
    if any(each.exists and each.has(best.uid) for each in app.stores):
        find = f" --find {shlex.quote(answer.text)}"
        return output.one_liner(f"read: backstory show {best.uid} @{best.seq}{find}")
    # Who reads it there may have a copy of their own.
    page = f"read: {own.address}/s/{best.uid}?{urlencode({'person': best.person, 'machine': best.machine})}"
    return output.one_liner(f"{page} · `backstory pull` brings it here" if best.person == own.name else page)
