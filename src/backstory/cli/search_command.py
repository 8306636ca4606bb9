"""``backstory search``: everything that was ever said or done."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from backstory.cli import output
from backstory.cli.options import json_option, moment, store_option
from backstory.extract import searchable
from backstory.fullform import FullForms
from backstory.snippet import snippet
from backstory.store import Filter
from backstory.store.search import terms

if TYPE_CHECKING:
    from backstory.cli.app import App
    from backstory.store import Found, Session, Store


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
    text = " ".join(query)
    wanted = Filter(
        agent=agent,
        project=app.project_key if here else None,
        folder=str(app.project_folder) if here else None,
        since=moment(since, datetime.now().astimezone()),
    )
    store = app.home_store
    if not store.exists:
        found, hits = None, []
    else:
        found = store.search(text, wanted, limit=limit or app.config.get("search.limit"))
        hits = _hits(store, found, text)
    if as_json:
        output.json(
            {
                "query": text,
                "total": found.total if found else 0,
                "truncated": bool(found and found.truncated),
                "hits": [hit for hit, _, _ in hits],
            }
        )
    else:
        _tell(app, text, found, hits)


def _hits(store: Store, found: Found, query: str) -> list[tuple[dict[str, Any], Session, list[tuple[int, int]]]]:
    forms, hits = FullForms(store), []
    for hit in found.hits:
        stored = store.event(hit.event_id)
        if stored is None:
            continue
        session = store.session(hit.session_id)
        _, text = searchable(forms.of(stored)) or ("", "")
        excerpt, marks = snippet(text, query)
        hits.append(
            (
                {
                    "session": session.shown_number or session.shown_name or session.uid,
                    "uid": session.uid,
                    "agent": ", ".join(session.agents),
                    "project": session.project,
                    "at": output.iso(stored.at),
                    "seq": stored.seq,
                    "scope": hit.scope,
                    "snippet": excerpt,
                    "score": round(hit.score, 4),
                },
                session,
                marks,
            )
        )
    return hits


def _tell(
    app: App, text: str, found: Found | None, hits: list[tuple[dict[str, Any], Session, list[tuple[int, int]]]]
) -> None:
    if found is None:
        output.talk(f"Nothing has been read yet: there is no store at {app.home_store.path}. Try: backstory ingest")
        return
    for hit, session, marks in hits:
        name = output.one_line(session.name or session.title or "", 50)
        facts = [hit["agent"], (hit["project"] or "").rpartition("/")[2], (hit["at"] or "")[:10], hit["scope"], name]
        line = "  ".join(each for each in facts if each)
        label = session.shown_number or session.uid[:12]
        output.data(f"{output.style(label, fg='yellow')} @{hit['seq']}  {output.style(line, dim=True)}")
        output.data(f"    {_marked(hit['snippet'], marks)}")
    if not hits:
        why = "it has no letter or digit to look for" if not terms(text) else "try fewer words, or: backstory ingest"
        output.talk(f"Nothing found for {text!r}: {why}.")
    elif found.truncated:
        output.talk(f"The best {len(hits)} sessions of {found.total} hits; --limit shows more.")


def _marked(text: str, marks: list[tuple[int, int]]) -> str:
    pieces, at = [], 0
    for start, end in marks:
        pieces += [output.clean(text[at:start]), output.style(output.clean(text[start:end]), bold=True, fg="green")]
        at = end
    return "".join([*pieces, output.clean(text[at:])])
