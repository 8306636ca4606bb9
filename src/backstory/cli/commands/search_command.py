"""``backstory search``: everything that was ever said or done.

``--json`` prints ``query``, ``total`` (events, with those that fit nearly), ``truncated`` (there is more), ``relaxed``
(no event has every word), ``stopped`` (the time was up), ``not_covered`` (how many sessions index.repositories leaves
out), ``outdated`` (the settings of the index changed since the last reindex), ``instead`` (words that occur nowhere,
each with what was looked for in its place), ``totals`` and ``hits``. ``totals``: how many sessions hold what was asked
for, how many hits they have, ``near_sessions`` that hold it in another way only, and ``at_least``: there may be more.
Each hit has:

- ``uid``, ``label``, ``number``, ``name``, ``title`` (or how its first prompt begins), ``agents``, ``project``,
  ``repository``, ``branch`` of the session that holds the event; ``parent_uid``: the session whose helper it is;
- ``near``: it has what was asked for in another way only: other forms of the words, the parts of an identifier, the
  words in different events; ``words``: those of them that such a hit has, [] if it has all; ``copy``: it is in a copy
  of a turn that an older session, which was found too, has itself;
- ``file``: of a file that the session made, such as its plan, the name; ``seq`` is then the record that last wrote it,
  else the session's last;
- ``at``, ``seq``, ``part``, ``kind``, ``scope`` of the event, and its ``score``: of this search only. Hits are in their
  order: by score, where signs were typed those that have them first, for ``--regex`` the newest sessions first; those
  that are near after the others, but for other forms of the words in a prompt: these come before sessions in which
  tools alone printed the words, and after prompts with the words as typed;
- ``from_elsewhere``: whether the session came with a store that nobody had trusted;
- ``pruned``: what was pruned of the session in part, as in `list`; null: it is whole;
- ``native_id``: the agent's own id of the session, and ``resume_command``: the words of its own command that
  continues it; null for runs of backstory, subagents and sessions from elsewhere, which `resume --trust` continues;
- ``snippet``: one line of its text, and ``marks``: [start, end] of each match in it, in characters (code points).

With ``--remote`` the server's answer is printed: each hit is the newest of its session, and has its ``person`` and
``machine`` and how many hits the session has (``session_hits``); ``searched`` says what is searched there,
``waiting_sessions`` how many are not yet indexed as they are, ``end`` where a next page would begin.
"""

from __future__ import annotations

import sys
from itertools import chain
from typing import TYPE_CHECKING, Any

import click
from msgspec import Struct
from msgspec.structs import replace

from backstory.ask.search import BY_SCORE, BY_TIME, SCOPE_WEIGHT, terms
from backstory.cli import output
from backstory.cli.options import (
    SESSION,
    OneOf,
    json_option,
    limit_option,
    not_searched,
    pick_option,
    readable,
    scope_options,
    search_options,
    store_option,
    why_no_sessions,
)
from backstory.cli.output import fact_lines, spans
from backstory.derive import moments
from backstory.derive.naming import NO_PROMPT
from backstory.workspace.history import searching
from backstory.workspace.history.searching import Mode, SearchQuery, nothing_found
from backstory.workspace.history.sessions import SessionFilter, is_resumable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from backstory.cli.app import App
    from backstory.search.query import Excerpt, Findings
    from backstory.sync.searching import HitThere
    from backstory.workspace.history.searching import SearchAnswer


NOTHING_FOUND = 1
"""The exit code of a search without a hit, as grep has it; an error has another."""
HITS_TO_PICK = 50
"""The most hits that can be picked where no limit was given."""
LISTING = frozenset(("ref", "path", "branch", "repository", "in_project", "model", "status", "title"))
"""Filters that list sessions where no words are given."""
MARKER = "BACKSTORY_RUN"
"""Names the run that asks, as ``process.MARKER`` says; said here again so that a search loads no module of runs."""


@click.command("search")
@click.argument("query", nargs=-1)
@search_options
@scope_options(everywhere=True)
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    type=OneOf(sorted(map(str, SCOPE_WEIGHT))),
    help="Search only prompts, answers, …",
)
@click.option("--session", "inside", type=SESSION, help="Only in this session.")
@click.option("--not", "without", type=SESSION, multiple=True, help="Leave this session out.")
@click.option("--exact", is_flag=True, help="Match exactly: case, punctuation, spaces.")
@click.option("--regex", is_flag=True, help="As a regular expression (Python's); newest sessions first.")
@click.option("--no-near", is_flag=True, help="Only the words as typed: no other forms, no parts of identifiers.")
@click.option("--sort", type=OneOf((BY_SCORE, BY_TIME)), default=BY_SCORE, help="The best or the newest first.")
@click.option("--all-hits", is_flag=True, help="List every hit, not one per session.")
@click.option("--remote", is_flag=True, help="Search what your team's server has, not what is here.")
@click.option("--person", metavar="NAME", help="With --remote: only this person.")
@limit_option("The most sessions, or hits, listed.  [default: 20]", n_stays=True)
@pick_option
@json_option
@store_option
@click.pass_context
def command(
    ctx: click.Context, /, query: tuple[str, ...], chosen: dict[str, Any], exact: bool, regex: bool, picks: bool,
    prints: bool, as_json: bool, remote: bool,
    person: str | None, **how: Any,
) -> None:  # fmt: skip
    """Search prompts, answers, commands and output. All words must match; "a phrase"; log* for a prefix.

    userName also finds getUserName and user_name, limit also limits: marked as near, after what has the words as typed;
    but limits in a prompt comes before limit in the output of tools.
    Without words, --ref, --path, --branch or --repo and the like list sessions. Nothing found is exit code 1.
    From inside a run, its own session is left out. With -i you pick a hit and see the text around it; what
    you type next searches anew. Nothing picked is exit code 130.

    With --remote a team's server is asked, for what all of its people said, the newest first.
    """
    if remote or person is not None:
        _search_there(ctx, readable(" ".join(query)), chosen | {"person": person}, how, as_json=as_json)
        return
    picks = picks or prints
    if picks and as_json:
        raise click.UsageError("-i and --json exclude each other.")
    if exact and regex:
        raise click.UsageError("--exact and --regex exclude each other.")
    app: App = ctx.obj
    text = readable(" ".join(query))
    if not query and LISTING.isdisjoint(chosen):
        raise click.UsageError("Missing argument 'QUERY...': words to look for, or a filter like --ref or --path.")
    mode = Mode.EXACT if exact else Mode.REGEX if regex else Mode.WORDS
    if picks:
        how["limit"] = how["limit"] or HITS_TO_PICK
    asked = _query(app, text, mode, chosen, **how)
    if picks:
        from backstory.cli.picker.picking import can_pick, pick

        if can_pick(prints=prints):
            ctx.exit(pick(app, SessionFilter(**asked.shared, everywhere=not asked.here), query=asked, prints=prints))
    is_behind = app.bring_up_to_date()
    # A mistake in a filter is reported also where there is nothing to search.
    result = app.reader.search(asked)
    if as_json:
        output.json(searching.as_json(result))
    else:
        _print(app, result, is_behind=is_behind)
    if not result.findings.excerpts:
        ctx.exit(NOTHING_FOUND)


def _search_there(ctx: click.Context, text: str, chosen: dict[str, Any], how: dict[str, Any], *, as_json: bool) -> None:
    from backstory.cli import remote_search  # few searches ask a server

    remote_search.check(ctx)
    answer = remote_search.search(ctx.obj, text, chosen, how)
    if as_json:
        output.json(answer.said)
    else:
        now = ctx.obj.workspace.now()
        output.pages(drawn([_group_there(hits, now) for hits in remote_search.grouped(answer.found)]))
        for remark in remote_search.remarks(ctx.obj, answer):
            output.talk(remark)
    if not answer.found.hits:
        ctx.exit(NOTHING_FOUND)


def _query(
    app: App, text: str, mode: Mode, chosen: dict[str, Any], *, inside: str | None,
    without: tuple[str, ...], no_near: bool, limit: int | None, everywhere: bool, **same: Any,
) -> SearchQuery:  # fmt: skip
    return SearchQuery(
        **chosen,
        text=text,
        mode=mode,
        session=None if inside is None else readable(inside),
        without=tuple(map(readable, without)),
        asking_run=app.environ.get(MARKER),
        near=not no_near,
        here=not everywhere,
        limit=limit or app.config.settings.search.limit,
        **same,
    )


def _print(app: App, result: SearchAnswer, *, is_behind: bool) -> None:
    findings = result.findings
    for remark in searching.left_out(result.coverage):
        output.talk(remark)
    for typed, searched in findings.instead:
        output.talk(f"Nothing has {typed!r}; searched for {searched!r}.")
    if word := _first_word(app, result, is_behind=is_behind):
        output.talk(word)
    if not findings.excerpts:
        return
    lines = drawn(_grouped(result, app.workspace.now()))
    if sys.stdout.isatty():
        # The sessions that called a tool take long to count.
        more = not_searched(app, result.query) if result.query.tool is None else ""
        output.pages(chain(lines, foot(result, more)))
        return
    output.pages(lines)
    if findings.truncated or findings.near:
        output.talk(" · ".join(filter(None, counted(result))))


def _first_word(app: App, result: SearchAnswer, *, is_behind: bool) -> str:
    """Return the line before the hits."""
    findings, count = result.findings, len(result.findings.excerpts)
    if findings.stopped:
        return f"The time limit ended the search; {count} found so far. Narrow it with --since or --here."
    if not count:
        return _why_none(app, result, is_behind=is_behind)
    return "No session has all of these words; these have some." if findings.relaxed else ""


def _why_none(app: App, result: SearchAnswer, *, is_behind: bool) -> str:
    query = result.query
    if result.missing_store is None and query.mode is Mode.WORDS and not terms(query.text):
        return "Nothing to search for: give a word. Punctuation needs --exact."
    wanted = SessionFilter(**query.shared, everywhere=not query.here)
    searched = app.reader.count(wanted)
    if result.missing_store is not None or not (searched or app.reader.count(replace(wanted, subagents=True))):
        return why_no_sessions(app, wanted)
    if is_behind:
        return f"No imported log has {query.text!r}. Try fewer words or filters, or import the rest: backstory ingest"
    return " ".join(filter(None, (nothing_found(query.text, searched), not_searched(app, query) or IMPORT)))


IMPORT = "To import logs: backstory ingest"


# what a search found: each session with its title, below it its hits, wrapped inside a margin with matches marked -----


ONE_LINE_COLUMNS = 100
"""A terminal that is narrower shows what stands beside the title in a second line."""
TITLE_COLUMNS_MAX, TITLE_COLUMNS_LEAST = 100, 25
EXCERPT_COLUMNS_LEAST = 40
"""If an excerpt would have fewer columns, it begins below the number of its record."""
MARGIN = 3


class DrawnHit(Struct, frozen=True, kw_only=True):
    """A hit. ``words``: of one that is near those of the query that it has, if not all; ``file``: where it is one."""

    seq: int
    scope: str
    snippet: str
    marks: list[tuple[int, int]]
    near: bool = False
    copied: bool = False
    words: tuple[str, ...] = ()
    file: str | None = None


class HitGroup(Struct, frozen=True, kw_only=True):
    """The hits of one session. ``facts``: what stands beside its title."""

    label: str
    title: str
    facts: tuple[str, ...]
    hits: list[DrawnHit]


def foot(result: SearchAnswer, elsewhere: str = "") -> Iterator[str]:
    """Yield how much there is beside what is shown, and what to do next, for a terminal.

    ``elsewhere``: how much there is in other projects.
    """
    best = result.findings.excerpts[0]
    find = ""
    if result.query.text and result.query.mode is not Mode.REGEX:
        import shlex  # only where a command is shown

        find = f" --find {shlex.quote(result.query.text)}"
    read = f"read: backstory show {result.labels[best.session.uid]} @{best.stored.seq}{find}"
    steps = (*counted(result), elsewhere, output.one_liner(read), output.one_liner(_resume(best, result.labels)))
    yield ""
    for line in fact_lines(steps, output.width() - 1):
        yield f" {output.style(line, dim=True)}"


def _resume(best: Excerpt, labels: dict[str, str]) -> str:
    """Return the command that continues the best hit's session in its agent's own client; '' if there is none."""
    # A subagent's session is resumed as the one that began it.
    session = best.shown
    if session.elsewhere is not None or not is_resumable(session.agents, session.native_id, session.shown_number):
        return ""
    return f"resume: backstory resume {labels[session.uid]} ({', '.join(session.agents)} {session.native_id})"


def counted(result: SearchAnswer) -> tuple[str, ...]:
    """Return the numbers of sessions and hits, and how to see those that are not shown."""
    findings = result.findings
    shown = len({each.shown.uid for each in findings.excerpts})
    more = f"more: --limit {4 * result.query.limit}" if findings.truncated else ""
    if result.query.mode is not Mode.WORDS:
        return f"the first {output.counted(shown, 'session')}" if more else output.counted(shown, "session"), more
    if not findings.sessions:
        return f"no exact match; {output.counted(findings.near, 'similar session')} (marked near)", more
    near = f"{output.counted(findings.near, 'similar session')} (marked near)" if findings.near else ""
    return _exact_count(findings), near, more


def _exact_count(findings: Findings) -> str:
    least = "at least " if findings.at_least else ""
    sessions, hits = output.counted(findings.sessions, "session"), output.counted(findings.events, "hit")
    exact = len({each.shown.uid for each in findings.excerpts if not each.near})
    is_cut = findings.truncated and 0 < exact < findings.sessions
    return f"{exact:,} of {least}{sessions} ({hits})" if is_cut else f"{least}{sessions}, {hits}"


def _grouped(result: SearchAnswer, now: int) -> list[HitGroup]:
    gathered: dict[str, list[Excerpt]] = {}
    for each in result.findings.excerpts:
        gathered.setdefault(each.session.uid, []).append(each)
    return [_group(hits, result.labels, now) for hits in gathered.values()]


def _group(found: list[Excerpt], labels: dict[str, str], now: int) -> HitGroup:
    first, hits = found[0], [_shown(each) for each in found]
    session, shown = first.session, first.shown
    at = first.stored.at if first.stored.at is not None else session.last_active
    counts = first.events > 0 and not first.near and not first.copied
    facts = (
        "from elsewhere" if session.elsewhere is not None else "",
        session.pruned_fact,
        ", ".join(session.agents),
        session.shown_project,
        moments.when(at, now) if sys.stdout.isatty() else output.local(at)[:10],
        ", ".join([output.counted(first.events, "hit")] if counts else shared_marks(hits)),
        f"subagent of {labels[shown.uid]}" if shown.uid != session.uid else "",
    )
    title = " ".join((shown.shown_title or session.shown_title or NO_PROMPT).split())
    return HitGroup(label=labels[session.uid], title=title, facts=clean_facts(facts), hits=hits)


def _group_there(found: list[HitThere], now: int) -> HitGroup:
    first = found[0]
    hits = [
        DrawnHit(seq=each.seq, scope=each.scope, snippet=each.snippet, marks=each.marks, near=each.near)
        for each in found
    ]  # fmt: skip
    facts = (
        first.person, ", ".join(first.agents), first.repository or first.project or "",
        moments.when(first.at_ms, now) if sys.stdout.isatty() else output.local(first.at_ms)[:10],
        ", ".join(shared_marks(hits) or [output.counted(first.session_hits, "hit")]),
    )  # fmt: skip
    title = " ".join((first.title or NO_PROMPT).split())
    return HitGroup(label=first.label, title=title, facts=clean_facts(facts), hits=hits)


def _shown(each: Excerpt) -> DrawnHit:
    return DrawnHit(
        seq=each.stored.seq, scope=each.scope, snippet=each.snippet, marks=each.marks, near=each.near,
        copied=each.copied, words=each.words, file=each.file,
    )  # fmt: skip


def drawn(groups: Sequence[HitGroup]) -> Iterator[str]:
    """Yield the lines of what was found."""
    heads = _heads(groups)
    kinds = [_kinds(group.hits) for group in groups]
    numbers = max((len(f"@{each.seq}") for group in groups for each in group.hits), default=0)
    widest = max((len(kind) for each in kinds for kind in each), default=0)
    for group, head, of_group in zip(groups, heads, kinds, strict=True):
        yield head
        for hit, kind in zip(group.hits, of_group, strict=True):
            yield from _hit_lines(hit, kind.ljust(widest), numbers)


def clean_facts(facts: Sequence[str]) -> tuple[str, ...]:
    """Facts as they stand beside a title, in one line."""
    return tuple(output.clean(" ".join(each.split())) for each in facts)


def shared_marks(hits: Sequence[DrawnHit]) -> list[str]:
    """Return the marks that all of these hits share."""
    return [mark for mark in _marks(hits[0]) if all(mark in _marks(each) for each in hits)]


def _heads(groups: Sequence[HitGroup]) -> Iterator[str]:
    """The lines above each session's hits."""
    if not sys.stdout.isatty():
        for group in groups:
            about = "  ".join(filter(None, group.facts))
            yield f"{output.ident(group.label)}  {output.clean(group.title)}  {output.style(about, dim=True)}"
        return
    labels = max((output.columns(group.label) for group in groups), default=0)
    begun = [f" {output.padded(output.ident(group.label), labels)}  " for group in groups]
    room = output.width() - labels - 4
    if output.width() >= ONE_LINE_COLUMNS:
        yield from _in_columns(groups, begun, room)
        return
    for group, head in zip(groups, begun, strict=True):
        below = next(fact_lines(group.facts, output.width() - MARGIN), "")
        yield f"{head}{output.one_line(group.title, max(room, 8))}\n{' ' * MARGIN}{output.style(below, dim=True)}"


def _in_columns(groups: Sequence[HitGroup], begun: Sequence[str], room: int) -> Iterator[str]:
    """A line for each session: its title, and what stands beside it in columns, those that are empty left out."""
    widths = [max(map(output.columns, column)) for column in zip(*(group.facts for group in groups), strict=True)]
    kept = [n for n, wide in enumerate(widths) if wide]
    longest = max((output.columns(output.one_line(group.title, TITLE_COLUMNS_MAX)) for group in groups), default=0)
    room = min(longest, max(room - sum(widths[n] + 2 for n in kept), TITLE_COLUMNS_LEAST))
    for group, head in zip(groups, begun, strict=True):
        title = output.padded(output.one_line(group.title, room), room)
        about = "  ".join(output.padded(group.facts[n], widths[n]) for n in kept).rstrip()
        beside = output.one_line(about, output.width() - 1 - output.columns_shown(f"{head}{title}  "), keep_blanks=True)
        yield f"{head}{title}  {output.style(beside, dim=True)}"


def _marks(hit: DrawnHit) -> list[str]:
    """Return what is not usual about a hit: that it is near, with the words of the query that it has, or a copy."""
    near = f"near: {', '.join(hit.words)}" if hit.words else "near"
    return [*([near] if hit.near else []), *(["a copy"] if hit.copied else [])]


def _kinds(hits: Sequence[DrawnHit]) -> list[str]:
    """Return the kind of each hit: whose words, and the marks that not all of the session's hits share."""
    shared = shared_marks(hits)
    own = [[mark for mark in _marks(each) if mark not in shared] for each in hits]
    return [", ".join([_where(each), *more]) for each, more in zip(hits, own, strict=True)]


def _where(hit: DrawnHit) -> str:
    """Return whose words they are; of a file its name."""
    return hit.scope.replace("_", " ") if hit.file is None else output.one_liner(hit.file)


def _hit_lines(hit: DrawnHit, kind: str, numbers: int) -> Iterator[str]:
    """A hit's record, what it is, and its excerpt; ``numbers``: the columns of the records' numbers."""
    head = f"{' ' * MARGIN}{output.padded(output.ident(f'@{hit.seq}'), numbers)}  {kind}  "
    margin = MARGIN + numbers + 4 + len(kind)
    if not sys.stdout.isatty():
        yield head + _marked(hit.snippet, hit.marks)
        return
    if output.width() - margin < EXCERPT_COLUMNS_LEAST:
        yield head.rstrip()
        margin, head = MARGIN + 2, " " * (MARGIN + 2)
    for line in _marked_lines(hit.snippet, hit.marks, output.width() - margin - 1):
        yield head + line
        head = " " * margin


def _marked_lines(text: str, marks: list[tuple[int, int]], width: int) -> Iterator[str]:
    """Break an excerpt into lines of ``width`` columns, its matches marked also where they are broken."""
    text, marks = _harmless(text, marks)
    for start, end in spans(text, width):
        inside = [(max(a, start) - start, min(b, end) - start) for a, b in marks if a < end and b > start]
        yield _marked(text[start:end], inside)


def _harmless(text: str, marks: list[tuple[int, int]]) -> tuple[str, list[tuple[int, int]]]:
    """A text whose acting characters are written as escapes, and where its matches are in it."""
    cleaned = output.clean(text)
    if cleaned == text:
        return text, marks
    return cleaned, [(len(output.clean(text[:a])), len(output.clean(text[:b]))) for a, b in marks]


def _marked(text: str, marks: list[tuple[int, int]]) -> str:
    pieces, at = [], 0
    for start, end in marks:
        pieces += [output.clean(text[at:start]), output.style(output.clean(text[start:end]), bold=True, fg="green")]
        at = end
    return "".join([*pieces, output.clean(text[at:])])
