"""Writes the keys that recorded cases have: ``PYTHONPATH=src python -m tests.set_formats``.

They go into ``formats.json`` of each agent (what its adapter knows; its other words are written by hand) and, as pages
for people, into docs/formats.
"""

from __future__ import annotations

import json
import tempfile
import textwrap
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from backstory import agents
from backstory.agents.formats import EVERY, FILE_NAME, Format, KnownKeys, format_of, version_in, version_order
from backstory.ingest.formats import records_of_line
from backstory.ingest.ingest import ingest
from backstory.ingest.log_reader import kept_lines
from backstory.store import open_store
from backstory.store.tables.logs import FILE
from tests.support.clock import NOW
from tests.support.promises import has_adapter
from tests.support.reading import cases, log_of, records_of
from tests.support.recorded import cases_of, home_of

if TYPE_CHECKING:
    from collections.abc import Iterable

ROOT = Path(__file__).parents[1]
PAGES = ROOT / "docs" / "formats"
HEAD = """# The records of {title}

The types of records in recorded logs, and the keys of each, by the versions that write them; no version where a log
names none. `[text]` are the elements of that type, and `*` is a key that is a path, an id or a name. This page is
written by `python -m tests.set_formats` from the cases in tests/agents/cases. `backstory doctor formats` lists what a
store has beyond it.
"""
Seen = dict[str, dict[str, list[str]]]


def names() -> list[str]:
    """The agents whose adapters say which keys they know."""
    return [name for name in agents.names() if agents.is_ours(name) and format_of(name) is not None]


def form_of(name: str) -> Format:
    form = format_of(name)
    assert form is not None
    return form


def logs(name: str) -> list[list[bytes]]:
    """The records of every log in the cases of an agent."""
    found = [records_of(name, log.read_bytes(), log) for log in map(log_of, cases()) if name in log.parts]
    for agent, case in cases_of(name):
        if has_adapter(agent):
            with tempfile.TemporaryDirectory() as folder:
                found += _kept(Path(folder), agent, case)
    return found


def _kept(folder: Path, agent: str, case: str) -> list[list[bytes]]:
    home = home_of(folder, agent, case)
    with open_store(folder / "store.db", shared=True, now=lambda: NOW) as store:
        ingest(store, [agents.load(agent)], environ={}, home=home, now=NOW)
        kept = [log for log in (store.logs() if store.exists else ()) if log.source_kind == FILE]
        return [[line.content or b"" for line in kept_lines(store, log)] for log in kept]


def seen(name: str) -> Seen:
    """The keys of each kind of record, with the versions that wrote them; those of most kinds under ``*``."""
    keys = KnownKeys(msgspec.structs.replace(form_of(name), seen={}), learns=True)
    found: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for lines in logs(name):
        version = None
        for record in (each for line in lines for each in records_of_line(line)):
            version = version_in(keys.form, record) or version
            kind = keys.kind(record)
            for path in ("", *(key.path for key in keys.unknown(kind, record))):
                found[kind][path] |= {version} if version else set()
    shared = _shared(found)
    for kind, paths in found.items():
        found[kind] = defaultdict(set, {path: of for path, of in paths.items() if not path or path not in shared})
    whole = {EVERY: shared, **found} if len(shared) > 1 else found
    return {kind: _shortened(whole[kind]) for kind in sorted(whole)}


def _shared(found: dict[str, dict[str, set[str]]]) -> dict[str, set[str]]:
    """The keys of more than half of the kinds."""
    counts = Counter(path for paths in found.values() for path in paths)
    shared: dict[str, set[str]] = defaultdict(set)
    for paths in found.values():
        for path in paths:
            if counts[path] > max(2, len(found) // 2):
                shared[path] |= paths[path]
    return shared


def _shortened(paths: dict[str, set[str]]) -> dict[str, list[str]]:
    """The same, in order, without versions where all of the kind's have the key."""
    whole = paths.get("", set())
    return {
        path: sorted(of, key=version_order) if not path or of != whole else [] for path, of in sorted(paths.items())
    }


def data(name: str) -> str:
    """The whole ``formats.json``: what is written by hand first, then a key a line."""
    words = json.loads((Path(agents.__file__).parent / name / FILE_NAME).read_text("utf-8"))
    words.pop("seen", None)
    lines = [f" {json.dumps(key)}: {json.dumps(value)}" for key, value in words.items()]
    kinds = []
    for kind, paths in seen(name).items():
        rows = ",\n".join(f"   {json.dumps(path)}: {json.dumps(of)}" for path, of in paths.items())
        kinds.append(f"  {json.dumps(kind)}: {{\n{rows}\n  }}" if rows else f"  {json.dumps(kind)}: {{}}")
    return "{\n" + ",\n".join([*lines, ' "seen": {\n' + ",\n".join(kinds) + "\n }"]) + "\n}\n"


def page(name: str) -> str:
    """The page of an agent: its types of records, and of each the keys by the versions that have them."""
    form = form_of(name)
    parts = [HEAD.format(title=agents.load(name).title)]
    for kind in sorted(form.seen, key=lambda kind: (kind != EVERY, kind)):
        versions = form.seen[kind].get("", [])
        by_version: dict[tuple[str, ...], list[str]] = {(): []}
        for path, of in form.seen[kind].items():
            if path:
                by_version.setdefault(tuple(of), []).append(path)
        head = "Most types" if kind == EVERY else f"`{kind}`" if kind else "Without a type"
        parts.append(
            f"## {head}\n\n{_flowing('Versions: ' + ', '.join(versions)) if versions else ''}".rstrip("\n") + "\n"
        )
        every = f"- In all{' of them' if versions else ''}: " if len(by_version) > 1 else "- "
        rows = [
            (f"- {', '.join(of)}: " if of else every, paths) for of, paths in sorted(by_version.items(), key=_newest)
        ]
        parts.append("".join(_flowing(f"{word}{_quoted(paths)}", "  ") for word, paths in rows if paths))
    for words, paths in (("Known, and in no case", form.known), ("Anybody's keys are below", (*form.free, *form.maps))):
        if paths:
            parts.append(f"## {words}\n\n{_flowing(_quoted(sorted(paths)))}")
    return "\n".join(filter(None, parts))


def _newest(row: tuple[tuple[str, ...], list[str]]) -> tuple[bool, list[Any]]:
    return bool(row[0]), [version_order(each) for each in row[0]]


def _quoted(paths: Iterable[str]) -> str:
    return ", ".join(f"`{path}`" for path in paths)


def _flowing(text: str, indent: str = "") -> str:
    lines = textwrap.wrap(text, 120, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
    return "".join(f"{line}\n" for line in lines)


def main() -> None:
    PAGES.mkdir(exist_ok=True)
    for name in names():
        (Path(agents.__file__).parent / name / FILE_NAME).write_text(data(name), "utf-8")
        (PAGES / f"{name}.md").write_text(page(name), "utf-8")


if __name__ == "__main__":
    main()
