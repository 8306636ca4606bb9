"""Completions for a shell: sessions by their ids, names and titles, and the names that options take."""

from __future__ import annotations

import os
import shlex
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from backstory.ask import known_values
from backstory.errors import BackstoryError
from backstory.store.tables import sessions as stored_sessions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from click.shell_completion import CompletionItem

    from backstory.agents.contract import Agent
    from backstory.cli.app import App
    from backstory.store import Session, Store

SESSIONS_MAX, NAMES_MAX = 500, 200
"""The most of the last active sessions that are looked at, and names that are offered."""
ID_CHARS_LEAST = 12
TITLE_COLUMNS = 60


def sessions(ctx: click.Context, incomplete: str) -> list[CompletionItem]:
    """Sessions whose number, uid or name begins so, else those whose title has all of these words."""
    with_ids = _with_ids(_app(ctx))
    start, words = incomplete.upper(), incomplete.casefold().split()
    found = [(value, each) for value, each in with_ids if value.startswith(start) or each.uid.startswith(start)]
    if not found:
        named = ((value, each, each.shown_title.casefold()) for value, each in with_ids)
        found = [(value, each) for value, each, title in named if all(word in title for word in words)]
    return [_item(value, each.shown_title) for value, each in found[:NAMES_MAX]]


def _with_ids(app: App) -> list[tuple[str, Session]]:
    """Sessions with what names them here: their number in this project, else the start of their uid."""
    found = {each.uid: each for store in _stores(app) for each in _listed(store)}
    uids = sorted(found)
    shown = dict[str, str]()
    for before, uid, after in zip(["", *uids], uids, [*uids[1:], ""], strict=False):
        shown[uid] = uid[: max(ID_CHARS_LEAST, _shared(before, uid) + 1, _shared(uid, after) + 1)]
    numbers = _numbers(app.project_store)
    return [(numbers.get(uid, shown[uid]), each) for uid, each in found.items()]


def _numbers(store: Store) -> dict[str, str]:
    """The numbers of sessions, by uid, that mean one session of the store that a number is looked up in first."""
    if not store.exists or store.is_elsewhere:
        return {}
    found = {each.uid: each.shown_number for each in _listed(store)}
    count = Counter(found.values())
    return {uid: number for uid, number in found.items() if number is not None and count[number] == 1}


def _shared(one: str, other: str) -> int:
    """Return the number of characters at the beginning that two uids share."""
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), 0)


def _listed(store: Store) -> list[Session]:
    try:
        return store.sessions(limit=SESSIONS_MAX)
    except BackstoryError:
        return []


def agents(_ctx: click.Context, incomplete: str) -> list[CompletionItem]:
    """The agents there are, with their titles."""
    return [_item(each.name, each.title) for each in _agents(incomplete)]


def running_agents(_ctx: click.Context, incomplete: str) -> list[CompletionItem]:
    """The agents that prompts can be sent to."""
    return [_item(each.name, each.title) for each in _agents(incomplete) if each.run is not None]


def served_agents(_ctx: click.Context, incomplete: str) -> list[CompletionItem]:
    """The agents whose clients start MCP servers or read skills: what `mcp install` gives them."""
    return [_item(each.name, each.title) for each in _agents(incomplete) if each.servers or each.skills]


def skilled_agents(_ctx: click.Context, incomplete: str) -> list[CompletionItem]:
    """The agents whose clients read skills."""
    return [_item(each.name, each.title) for each in _agents(incomplete) if each.skills is not None]


def _agents(start: str) -> Iterator[Agent]:
    from backstory import agents as known

    for name in known.names():
        if name.startswith(start):
            try:
                yield known.load(name)
            except BackstoryError:
                continue


def tools(_ctx: click.Context, incomplete: str) -> list[CompletionItem]:
    """Our names of tools, which every agent's have."""
    from backstory.model import Tool

    return _starting((tool.value.lower() for tool in Tool), incomplete)


def repositories(ctx: click.Context, incomplete: str) -> list[CompletionItem]:
    """The repositories of sessions, also by their names without the owner."""
    names = list(_of_stores(ctx, lambda store: store.ask_or([], stored_sessions.repositories)))
    return _starting(names, incomplete) or _starting((name.rpartition("/")[2] for name in names), incomplete)


def git_branches(ctx: click.Context, incomplete: str) -> list[CompletionItem]:
    """The git branches that sessions were on."""
    return _starting(_of_stores(ctx, lambda store: store.ask_or([], stored_sessions.git_branches)), incomplete)


def projects(ctx: click.Context, incomplete: str) -> list[CompletionItem]:
    """The projects of sessions, by the last part of their names."""
    return _starting(_of_stores(ctx, lambda store: sorted(store.ask_or(set(), known_values.projects))), incomplete)


def models(ctx: click.Context, incomplete: str) -> list[CompletionItem]:
    """The models that answered in sessions."""
    return _starting(_of_stores(ctx, lambda store: sorted(store.ask_or(set(), known_values.models))), incomplete)


def session_names(ctx: click.Context, incomplete: str) -> list[CompletionItem]:
    """The names that people gave to sessions, but for those that a shell would take apart."""
    names = (each.name for _, each in _with_ids(_app(ctx)))
    return _starting((name for name in names if name and name == shlex.quote(name)), incomplete)


def board_items(ctx: click.Context, incomplete: str) -> list[CompletionItem]:
    """The items of the board that is meant, with what they are about."""
    try:
        asked = ctx.params.get("repo"), ctx.params.get("branch")
        items = _app(ctx).workspace.board(*asked).items()
    except BackstoryError:
        return []
    about = {each.name: each.description or each.content.partition("\n")[0] for each in items}
    return [_item(name, described) for name, described in about.items() if name.startswith(incomplete)]


def settings(ctx: click.Context, incomplete: str) -> list[CompletionItem]:
    """The settings, with what they mean."""
    found = _app(ctx).config.every_setting(each.name for each in _agents("") if each.run is not None)
    return [_item(each.key, each.meaning) for each in found if each.key.startswith(incomplete)]


def _of_stores(ctx: click.Context, ask: Callable[[Store], list[str]]) -> Iterator[str]:
    for store in _stores(_app(ctx)):
        try:
            yield from ask(store)
        except BackstoryError:
            continue


def _starting(names: Iterable[str], incomplete: str) -> list[CompletionItem]:
    found = dict.fromkeys(name for name in names if name.lower().startswith(incomplete.lower()))
    return [_item(name) for name in list(found)[:NAMES_MAX]]


def _item(value: str, described: str | None = None) -> CompletionItem:
    from click.shell_completion import CompletionItem

    from backstory.cli import output

    help_ = output.one_line(described, TITLE_COLUMNS) if described else None
    return CompletionItem(output.one_liner(value), help=help_)


def _stores(app: App) -> list[Store]:
    return [store for store in app.stores if store.exists]


def _app(ctx: click.Context) -> App:
    """Return the app that commands are given; while a line is completed none of them has been called yet."""
    from backstory.cli.app import App

    root = ctx.find_root()
    app: Any = root.obj
    return app if isinstance(app, App) else App(os.environ, Path.cwd(), root.params.get("store_path"))
