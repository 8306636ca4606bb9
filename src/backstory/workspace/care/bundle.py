"""The facts of a machine that a bug report needs, and nothing that a person wrote, or that names a person or a place.

A value is told only if it is a number, one of ours, or one of a closed list; any other is ``*``. Of records that nobody
could read it has the keys and types: a word that our own list of the agent's format lacks is ``*``.
"""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from backstory import __version__, agents
from backstory.agents.formats import DEPTH_MAX, Format, format_of, own_words
from backstory.config import SETTINGS
from backstory.errors import BackstoryError
from backstory.lazy import lazy_regex
from backstory.model import encoded
from backstory.store.file import migrate, untouched
from backstory.store.file.outline import MASK, outline, strange_records
from backstory.workspace.care import checkup, machine
from backstory.workspace.care.clients import agents_seen

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from backstory.config import Config
    from backstory.store.file.untouched import StoreLook
    from backstory.workspace.care.case import Case
    from backstory.workspace.care.findings import Finding

SHAPES_MAX = 200
ELEMENTS_MAX = 50
"""The most elements of a list whose shapes are told apart."""
VARIABLES = ("BACKSTORY_HOME", "XDG_DATA_HOME", "BACKSTORY_PROGRESS", "NO_COLOR")
"""Variables beside those of settings of which it is told whether they are set."""
ABOUT = {
    "versions.json": "versions of backstory, Python, SQLite and libraries; the system",
    "settings.json": "each setting; values that may name a person or a place are *",
    "stores.json": "each store: its schema and state, and counts by kind",
    "agents.json": "agents with logs here, and their versions",
    "findings.json": "names of findings, with counts",
    "timings.json": "milliseconds of each question of the check-up",
    "shapes.json": "known keys, and types, of records that no adapter knows",
    "errors.json": "the last errors: day, agent and length, without texts",
}
"""The files of a bundle."""
_VERSION = lazy_regex(r"([0-9]{1,4}(?:\.[0-9]{1,4}){1,2})(?:[-+].*)?")
"""A version as agents have them. Longer numbers may be somebody's, and four are an address."""


class Program(NamedTuple):
    """The program that runs: versions of what it is made of, by name, and the system it runs on."""

    versions: Mapping[str, str]
    system: str


def bundle_of(case: Case, config: Config | None, program: Program) -> dict[str, Any]:
    """Return the files of a bundle, by name. ``config``: None where the settings cannot be read."""
    # First, while nothing is known yet: later questions find what earlier ones read.
    timings = _timings(case)
    stores = case.stores
    looked = {look.path: outline(look.path, _agent_names()) for look in stores if look.schema == migrate.SCHEMA_VERSION}
    return {
        "versions.json": {"backstory": __version__, "schema": migrate.SCHEMA_VERSION, "system": program.system}
        | {"sqlite": untouched.sqlite_version(), **program.versions},
        "settings.json": {"settings": list(_settings(config)) if config else "unreadable"}
        | {"variables": [name for name in _variables() if case.environ.get(name)]},
        "stores.json": [_store(case, look, looked.get(look.path)) for look in stores],
        "agents.json": list(_agents(case)),
        "findings.json": _findings(checkup.check_up(case)),
        "timings.json": timings,
        "shapes.json": _shapes(stores),
        "errors.json": [
            {"unread_logs": each.unread_logs, "errors": each.errors} for each in looked.values() if each is not None
        ],
    }  # fmt: skip


def _settings(config: Config) -> Iterator[dict[str, Any]]:
    known = {each.key: each for each in SETTINGS}
    for each in config.every_setting():
        setting, table = known.get(each.key), each.key.partition(".")[0]
        try:
            value = config.get(each.key)
        except BackstoryError:
            value = "invalid"
        else:
            is_ours = setting is not None and (value == setting.default or value in setting.choices)
            value = value if is_ours else masked(value)
        key = each.key if setting is not None else f"{table if table == 'agents' else MASK}.{MASK}"
        yield {"key": key, "value": value, "is_set": config.origin(each.key) is not None}


def masked(value: Any) -> Any:
    """A value without anything that a person wrote: numbers stay, texts are ``*``.

    >>> masked({"mine": 3, "me": ["/home/ann", True]})
    {'*': 2}
    """
    match value:
        case bool() | int() | float() | None:
            return value
        case dict():
            return {MASK: len(value)}
        case list() | tuple():
            return [MASK] * len(value)
        case _:
            return MASK


def _variables() -> list[str]:
    return [*VARIABLES, *(each.variable for each in SETTINGS if each.has_variable)]


def _store(case: Case, look: StoreLook, counts: Any) -> dict[str, Any]:
    role = "project" if look.path != case.store else "named" if case.named is not None else "home"
    facts = {
        name: getattr(look, name)
        for name in ("state", "schema", "bytes", "is_cut_off", "is_stale", "is_in_bulk", "is_index_outdated",
                     "is_to_erase", "is_prune_due")
    }  # fmt: skip
    told = {} if counts is None else {"rows": counts.rows, "events": counts.events, "logs": counts.logs}
    return {"role": role, **facts, **told}


def _agent_names() -> list[str]:
    """The agents that come with us: another package may be named after whoever wrote it."""
    return [each for each in agents.names() if agents.is_ours(each)]


def _agents(case: Case) -> Iterator[dict[str, Any]]:
    names = _agent_names()
    for each in agents_seen(case):
        found = None if each.version is None else _VERSION.fullmatch(each.version)
        yield {
            "agent": each.agent if each.agent in names else MASK, "logs": each.logs,
            "version": None if each.version is None else found[1] if found else MASK, "known": each.known,
            "unknown_records": each.unknown, "deletes_after_days": each.deletes_after_days,
        }  # fmt: skip


def _findings(found: Sequence[Finding]) -> list[dict[str, Any]]:
    counts = Counter(each.name for each in found)
    return [{"finding": name, "count": count} for name, count in counts.items()]


def _timings(case: Case) -> dict[str, float]:
    found = {}
    # Where a mark is all that can be found, the check-up asks nothing else either.
    for question in () if list(machine.of_marks(case)) else checkup.QUESTIONS:
        began = time.perf_counter()
        list(question(case))
        found[question.__name__] = round((time.perf_counter() - began) * 1000, 1)
    return found


# shapes ---------------------------------------------------------------------------------------------------------------


class _Shapes:
    """The shapes of one agent's records, in the words that our own list of its format has."""

    def __init__(self, form: Format) -> None:
        self.form, self.words = form, own_words(form)
        self.kinds = frozenset(word for kind in form.seen for word in kind.split("/"))

    def kind(self, record: Any) -> str:
        """The words by which a record says what it is."""
        found = []
        for path in self.form.kind:
            value = record
            for word in path.split("."):
                value = value.get(word) if isinstance(value, dict) else None
            if isinstance(value, str) and value:
                found.append(value if value in self.kinds else MASK)
        return "/".join(found)

    def of(self, value: Any, path: str = "", depth: int = 0) -> Any:
        """The keys of a value and the types of what they hold."""
        match value:
            case None:
                return "null"
            case bool():
                return "boolean"
            case int() | float():
                return "number"
            case str():
                return "string"
            case dict():
                # Below these anybody names keys.
                if depth >= DEPTH_MAX or path in self.form.free:
                    return "object"
                return self._object(value, path, depth)
            case _:
                found = [self.of(each, f"{path}[]", depth + 1) for each in value[:ELEMENTS_MAX]]
                return [each for number, each in enumerate(found) if each not in found[:number]]

    def _object(self, value: dict[str, Any], path: str, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for word, each in value.items():
            key = word if word in self.words and path not in self.form.maps else MASK
            if key not in found:
                found[key] = self.of(each, f"{path}.{key}" if path else key, depth + 1)
        return found


def _shapes(stores: Sequence[StoreLook]) -> list[dict[str, Any]]:
    """The shapes of records that no adapter knows, each once, with how often it came."""
    counts, forms, names = Counter[bytes](), dict[str, _Shapes](), _agent_names()
    for look in stores:
        for agent, record in strange_records(look.path, names):
            if agent not in forms:
                forms[agent] = _Shapes((format_of(agent) if agent != MASK else None) or Format())
            form = forms[agent]
            try:
                value = msgspec.json.decode(record)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                counts[encoded({"agent": agent, "kind": "", "shape": "no JSON"})] += 1
                continue
            counts[encoded({"agent": agent, "kind": form.kind(value), "shape": form.of(value)})] += 1
    return [{**msgspec.json.decode(told), "count": count} for told, count in counts.most_common(SHAPES_MAX)]
