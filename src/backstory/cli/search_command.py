"""``backstory search``: everything that was ever said or done."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from backstory.cli import output
from backstory.cli.options import json_option, moment, readable, store_option
from backstory.finding import Excerpt, Findings, find
from backstory.store import Filter
from backstory.store.search import terms

if TYPE_CHECKING:
    from backstory.cli.app import App


@click.command("search")
@click.argument("query", nargs=-1, required=True)
@click.option("--agent", "-a", metavar="NAME", help="Only sessions of this agent.")
@click.option("--here", is_flag=True, help="Only this project's sessions.")
@click.option("--since", metavar="TIME", help="Only from then on: 2026-11-01, yesterday, '3 days', 2h.")
@click.option("--limit", "-n", type=click.IntRange(min=1), help="How many sessions.  [default: 20]")
@json_option
@store_option
@click.pass_obj
def command(
    app: App, query: tuple[str, ...], agent: str | None, here: bool, since: str | None, limit: int | None, as_json: bool
) -> None:
    """Search prompts, answers, tools and their output. All words must occur; "quoted words" together; log* begins."""
    text = readable(" ".join(query))
    wanted = Filter(
        agent=agent,
        project=app.project_key if here else None,
        folder=str(app.project_folder) if here else None,
        since=moment(since, datetime.now().astimezone()),
    )
    findings = Findings(total=0, truncated=False, excerpts=[])
    if app.home_store.exists:
        findings = find(app.home_store, text, wanted, limit=limit or app.config.get("search.limit"))
    if as_json:
        hits = [_as_json(excerpt) for excerpt in findings.excerpts]
        output.json({"query": text, "total": findings.total, "truncated": findings.truncated, "hits": hits})
        return
    for excerpt in findings.excerpts:
        _tell(excerpt)
    if not findings.excerpts:
        output.talk(_why_none(app, text))
    elif findings.truncated:
        output.talk(f"The best {len(findings.excerpts)} sessions of {findings.total} hits; --limit shows more.")


def _as_json(found: Excerpt) -> dict[str, Any]:
    session = found.session
    return {
        "session": session.shown_number or session.shown_name or session.uid,
        "uid": session.uid,
        "agent": ", ".join(session.agents),
        "project": session.project,
        "at": output.iso(found.stored.at),
        "seq": found.stored.seq,
        "scope": found.scope,
        "snippet": found.snippet,
        "score": round(found.score, 4),
    }


def _tell(found: Excerpt) -> None:
    session = found.session
    agent, project = ", ".join(session.agents), (session.project or "").rpartition("/")[2]
    facts = [agent, project, output.local(found.stored.at)[:10], found.scope, session.name or session.title]
    line = output.one_line("  ".join(each for each in facts if each), output.width() - 24)
    label = session.shown_number or session.uid[:12]
    output.data(f"{output.style(label, fg='yellow')} @{found.stored.seq}  {output.style(line, dim=True)}")
    output.data(f"    {_marked(found.snippet, found.marks)}")


def _why_none(app: App, text: str) -> str:
    if not app.home_store.exists:
        return f"Nothing has been read yet: there is no store at {app.home_store.path}. Try: backstory ingest"
    why = "try fewer words, or: backstory ingest" if terms(text) else "it has no letter or digit to look for"
    return f"Nothing found for {text!r}: {why}."


def _marked(text: str, marks: list[tuple[int, int]]) -> str:
    pieces, at = [], 0
    for start, end in marks:
        pieces += [output.clean(text[at:start]), output.style(output.clean(text[start:end]), bold=True, fg="green")]
        at = end
    return "".join([*pieces, output.clean(text[at:])])
