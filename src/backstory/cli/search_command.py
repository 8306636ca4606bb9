"""``backstory search``: everything that was ever said or done.

``--json`` prints ``query``, ``total`` (events, with those that fit nearly), ``truncated`` (there is more), ``relaxed``
(no event has every word), ``stopped`` (the time was up), ``instead`` (words that occur nowhere, each with what was
looked for in its place), ``totals`` and ``hits``. ``totals``: ``sessions`` that hold what was asked for, ``hits`` in
them, ``near_sessions`` that hold it in another way only, and ``at_least``: whether there may be more. Each hit has:

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
  continues it; null for runs of backstory and subagents;
- ``snippet``: one line of its text, and ``marks``: [start, end] of each match in it, in characters (code points).
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from backstory.cli import output
from backstory.cli.filters import filter_options
from backstory.cli.options import SESSION, TOOL, json_option, pick_option, readable, store_option
from backstory.derive.naming import NO_PROMPT
from backstory.store.search import BY_SCORE, BY_TIME, ROLES, SCOPE_WEIGHT, terms
from backstory.workspace import searching
from backstory.workspace.resume_command import is_resumable
from backstory.workspace.searching import Mode, SearchQuery

if TYPE_CHECKING:
    from backstory.cli.app import App
    from backstory.search.query import Excerpt, Findings
    from backstory.store.session_filter import SessionFilter
    from backstory.workspace.searching import SearchResult

TITLE_COLUMNS_LEAST = 20
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
@click.option("--exact", is_flag=True, help="To the letter: case, signs and blanks as typed.")
@click.option("--regex", is_flag=True, help="As a regular expression (Python's); newest sessions first.")
@click.option("--no-near", is_flag=True, help="Only the words as typed: no other forms, no parts of identifiers.")
@click.option("--sort", type=click.Choice((BY_SCORE, BY_TIME)), default=BY_SCORE, help="The best or the newest first.")
@click.option("--all-hits", is_flag=True, help="Every event that was found, not the best of each session.")
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
    """Search prompts, answers, tools and their output. All words must occur; "quoted words" together; log* begins.

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
    app.bring_up_to_date()
    # A mistake in a filter is reported also where there is nothing to search.
    result = app.reader.search(asked)
    if picks and result.findings.excerpts:
        ctx.exit(_pick(app, result, prints=prints))
    if as_json:
        output.json(searching.as_json(result))
    else:
        _print(result)
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


def _print(result: SearchResult) -> None:
    findings, query = result.findings, result.query
    for typed, searched in findings.instead:
        output.talk(f"Nothing has {typed!r}; searched for {searched!r}.")
    for excerpt in findings.excerpts:
        _print_hit(excerpt, result.labels)
    if word := _last_word(result):
        output.talk(word)
    if findings.excerpts and query.text and query.mode is not Mode.REGEX:
        _print_how_to_read(result)


def _print_hit(found: Excerpt, labels: dict[str, str]) -> None:
    session = found.session
    agent, project = ", ".join(session.agents), session.shown_project
    parent = f"subagent of {labels[found.shown.uid]}" if found.shown.uid != session.uid else ""
    day = output.local(found.stored.at if found.stored.at is not None else session.last_active)[:10]
    origin = "from elsewhere" if session.elsewhere is not None else ""
    marks = [("near", found.near), ("a copy", found.copied)]
    facts = [origin, agent, project, day, found.scope, parent, *(mark for mark, is_so in marks if is_so)]
    about = "  ".join(each for each in facts if each)
    label = f"{labels[session.uid]} @{found.stored.seq}"
    room = output.width() - output.columns(f"{label}    {about}")
    title = output.one_line(found.shown.shown_title or session.shown_title or NO_PROMPT, max(room, TITLE_COLUMNS_LEAST))
    output.data(f"{output.style(label, fg='yellow')}  {title}  {output.style(output.clean(about), dim=True)}")
    output.data(f"    {_marked(found.snippet, found.marks)}")


def _print_how_to_read(result: SearchResult) -> None:
    """How to see more of the best hit, on a terminal, with the same words marked; and how to continue its session."""
    if not sys.stdout.isatty():
        return
    import shlex  # only where a command is shown

    best = result.findings.excerpts[0]
    label, marked = result.labels[best.session.uid], f"--find {shlex.quote(result.query.text)}"
    output.talk(output.one_liner(f"Read one: backstory show {label} @{best.stored.seq} {marked}"))
    # A subagent's session is resumed as the one that began it.
    session = best.shown
    if session.elsewhere is None and is_resumable(session.agents, session.native_id, session.shown_number):
        own = f"{', '.join(session.agents)} {session.native_id}"
        output.talk(output.one_liner(f"Resume it: backstory resume {result.labels[session.uid]}  ({own})"))


def _last_word(result: SearchResult) -> str:
    """What a person should know of the hits as a whole."""
    findings, count = result.findings, len(result.findings.excerpts)
    if findings.stopped:
        return f"The time limit ended the search; {count} found so far. Narrow it with --since or --here."
    if not count:
        return _why_none(result)
    if findings.relaxed:
        return "No event has all of these words; these have some of them."
    if result.query.mode is not Mode.WORDS:
        return f"The first {count}; --limit shows more." if findings.truncated else ""
    is_told = findings.truncated or findings.near or sys.stdout.isatty()
    return _counted(findings) if is_told else ""


def _counted(findings: Findings) -> str:
    """How many sessions and hits there are, and how many of them are shown."""
    more = f"; {len({each.shown.uid for each in findings.excerpts}):,} shown, --limit shows more"
    more = more if findings.truncated else ""
    if not findings.sessions:
        return f"Nowhere as typed; nearly in {output.counted(findings.near, 'session')}{more}."
    near = f", {findings.near:,} more nearly (marked: near)" if findings.near else ""
    least = "at least " if findings.at_least else ""
    sessions, hits = output.counted(findings.sessions, "session"), output.counted(findings.events, "hit")
    return f"Found in {least}{sessions}, {hits}{near}{more}."


def _why_none(result: SearchResult) -> str:
    query = result.query
    if result.missing_store is not None:
        return f"Nothing was imported yet: there is no store at {result.missing_store}. Try: backstory ingest"
    if query.mode is Mode.WORDS and not terms(query.text):
        return "Nothing to search for: give a word. Punctuation needs --exact."
    return f"Nothing found for {query.text!r}. Try fewer words or filters, or: backstory ingest"


def _marked(text: str, marks: list[tuple[int, int]]) -> str:
    pieces, at = [], 0
    for start, end in marks:
        pieces += [output.clean(text[at:start]), output.style(output.clean(text[start:end]), bold=True, fg="green")]
        at = end
    return "".join([*pieces, output.clean(text[at:])])
