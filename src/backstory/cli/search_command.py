"""``backstory search``: everything that was ever said or done.

``--json`` prints ``query``, ``total`` (events, with those that fit nearly), ``truncated`` (there is more), ``relaxed``
(no event has every word), ``stopped`` (the time was up), ``not_covered`` (how many sessions index.repositories leaves
out), ``outdated`` (the settings of the index changed since the last reindex), ``instead`` (words that occur nowhere,
each with what was looked for in its place), ``totals`` and ``hits``. ``totals``: ``sessions`` that hold what was asked
for, ``hits`` in them, ``near_sessions`` that hold it in another way only, and ``at_least``: whether there may be more.
Each hit has:

- ``session`` (what every command takes for it in any folder: the start of its uid), ``uid``, ``number``, ``name``,
  ``title`` (or how its first prompt begins), ``agent``, ``project``, ``repository``, ``branch`` of the session that
  holds the event; ``parent``: the uid of the session whose helper it is;
- ``near``: it has what was asked for in another way only: other forms of the words, the parts of an identifier, the
  words in different events; ``copy``: it is in a copy of a turn that an older session, which was found too, has itself;
- ``at``, ``seq``, ``part``, ``kind``, ``scope`` of the event, and its ``score``: of this search only. Hits are in their
  order: by score, where signs were typed those that have them first, for ``--regex`` the newest sessions first; those
  that are near after the others;
- ``from_elsewhere``: whether the session came with a store that nobody had trusted;
- ``native_id``: the agent's own id of the session, and ``resume_command``: the words of its own command that
  continues it; null for runs of backstory, subagents and sessions from elsewhere, which `resume --trust` continues;
- ``snippet``: one line of its text, and ``marks``: [start, end] of each match in it, in characters (code points).
"""

from __future__ import annotations

import sys
from itertools import chain
from typing import TYPE_CHECKING, Any

import click

from backstory.ask.search import BY_SCORE, BY_TIME, ROLES, SCOPE_WEIGHT, terms
from backstory.cli import hits_view, output
from backstory.cli.filters import filter_options
from backstory.cli.options import SESSION, TOOL, json_option, pick_option, readable, store_option
from backstory.workspace import searching
from backstory.workspace.searching import Mode, SearchQuery

if TYPE_CHECKING:
    from backstory.cli.app import App
    from backstory.store.session_filter import SessionFilter
    from backstory.workspace.searching import SearchResult

NOTHING_FOUND = 1
"""The exit code of a search without a hit, as grep has it; an error has another."""
HITS_TO_PICK = 50
"""So many hits can be picked where no limit was given."""
MARKER = "BACKSTORY_RUN"
"""Names the run that asks, as ``spool.MARKER`` says; said here again so that others need not wait for ``spool``."""


@click.command("search")
@click.argument("query", nargs=-1)
@filter_options
@click.option("--here", is_flag=True, help="Only this project's sessions.")
@click.option("--role", type=click.Choice(sorted(ROLES)), help="Only what the user, the assistant, a tool, … said.")
@click.option("--scope", "scopes", multiple=True, type=click.Choice(sorted(map(str, SCOPE_WEIGHT))), help="Only there.")
@click.option("--tool", type=TOOL, help="Only calls of this tool, and what came back.")
@click.option("--session", "inside", type=SESSION, help="Only in this session.")
@click.option("--not", "without", type=SESSION, multiple=True, help="Leave this session out.")
@click.option("--exact", is_flag=True, help="Match exactly: case, punctuation, spaces.")
@click.option("--regex", is_flag=True, help="As a regular expression (Python's); newest sessions first.")
@click.option("--no-near", is_flag=True, help="Only the words as typed: no other forms, no parts of identifiers.")
@click.option("--sort", type=click.Choice((BY_SCORE, BY_TIME)), default=BY_SCORE, help="The best or the newest first.")
@click.option("--all-hits", is_flag=True, help="List every hit, not one per session.")
@click.option("--limit", "-n", type=click.IntRange(min=1), help="How many sessions, or hits.  [default: 20]")
@pick_option
@json_option
@store_option
@click.pass_context
def command(
    ctx: click.Context, /, query: tuple[str, ...], chosen: SessionFilter, exact: bool, regex: bool, picks: bool,
    prints: bool, as_json: bool,
    **how: Any,
) -> None:  # fmt: skip
    """Search prompts, answers, commands and output. All words must match; "a phrase"; log* for a prefix.

    userName also finds getUserName and user_name, limit also limits: marked as near, after what has the words as typed.
    Without words, --ref, --path, --branch or --repo list sessions. Nothing found is exit code 1.
    From inside a run, its own session is left out. With -i you pick a hit, in fzf if that is installed, and see the
    text around it; nothing picked is exit code 130.
    """
    picks = picks or prints
    if picks and as_json:
        raise click.UsageError("-i and --json exclude each other.")
    if exact and regex:
        raise click.UsageError("--exact and --regex exclude each other.")
    app: App = ctx.obj
    text = readable(" ".join(query))
    if not query and not any((chosen.ref, chosen.path, chosen.branch, chosen.repository)):
        raise click.UsageError("Missing argument 'QUERY...': words to look for, or --ref, --path, --branch, --repo.")
    mode = Mode.EXACT if exact else Mode.REGEX if regex else Mode.WORDS
    if picks:
        how["limit"] = how["limit"] or HITS_TO_PICK
    asked = _query(app, text, mode, chosen, **how)
    is_behind = app.bring_up_to_date()
    # A mistake in a filter is reported also where there is nothing to search.
    result = app.reader.search(asked)
    if picks and result.findings.excerpts:
        ctx.exit(_pick(app, result, prints=prints))
    if as_json:
        output.json(searching.as_json(result))
    else:
        _print(app, result, is_behind=is_behind)
    if not result.findings.excerpts:
        ctx.exit(NOTHING_FOUND)


def _pick(app: App, result: SearchResult, *, prints: bool) -> int:
    from backstory.cli.choices import hit_choice
    from backstory.cli.picking import pick

    words = "" if result.query.mode is Mode.REGEX else result.query.text
    return pick(app, [[hit_choice(each) for each in result.findings.excerpts]], words=words, prints=prints)


def _query(
    app: App, text: str, mode: Mode, chosen: SessionFilter, *, tool: str | None, inside: str | None,
    without: tuple[str, ...], no_near: bool, limit: int | None, **same: Any,
) -> SearchQuery:  # fmt: skip
    return SearchQuery(
        **chosen.shared,
        text=text,
        mode=mode,
        tool=None if tool is None else readable(tool),
        session=None if inside is None else readable(inside),
        without=tuple(map(readable, without)),
        asking_run=app.environ.get(MARKER),
        near=not no_near,
        limit=limit or app.config.settings.search.limit,
        **same,
    )


def _print(app: App, result: SearchResult, *, is_behind: bool) -> None:
    findings = result.findings
    for remark in searching.left_out(result.coverage):
        output.talk(remark)
    for typed, searched in findings.instead:
        output.talk(f"Nothing has {typed!r}; searched for {searched!r}.")
    if word := _first_word(result, is_behind=is_behind):
        output.talk(word)
    if not findings.excerpts:
        return
    lines = hits_view.screen(result, app.workspace.now())
    if sys.stdout.isatty():
        output.pages(chain(lines, hits_view.foot(result)))
        return
    output.pages(lines)
    if findings.truncated or findings.near:
        output.talk(" · ".join(filter(None, hits_view.counted(result))))


def _first_word(result: SearchResult, *, is_behind: bool) -> str:
    """What a person should know before they read the hits."""
    findings, count = result.findings, len(result.findings.excerpts)
    if findings.stopped:
        return f"The time limit ended the search; {count} found so far. Narrow it with --since or --here."
    if not count:
        return _why_none(result, is_behind=is_behind)
    return "No session has all of these words; these have some." if findings.relaxed else ""


def _why_none(result: SearchResult, *, is_behind: bool) -> str:
    query = result.query
    if result.missing_store is not None:
        return f"Nothing was imported yet: there is no store at {result.missing_store}. Try: backstory ingest"
    if query.mode is Mode.WORDS and not terms(query.text):
        return "Nothing to search for: give a word. Punctuation needs --exact."
    if is_behind:
        return f"No imported log has {query.text!r}. Try fewer words or filters, or import the rest: backstory ingest"
    return f"Nothing found for {query.text!r}. Try fewer words or filters, or: backstory ingest"
