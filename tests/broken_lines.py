"""Counts how many of 100 broken lines the tests notice: ``python -m tests.broken_lines``.

The lines were chosen with a fixed seed, of each room as many as its size asks for, and are kept in a file beside this:
a path, the text of the line and what takes its place. First the whole suite runs in copies of the tree that note which
test comes by which of the lines, in whatever process. Then each line is broken alone, and the tests run that came by
it, the quickest first, until one fails: the line is *caught*, or *missed*. It is *unknown* where the time for a line
was too short, and *gone* where the line has changed since. A line that runs while its module is imported is tried with
the tests that are named after its module or import it. ``--root`` counts those of another revision, with its own tests.
"""

from __future__ import annotations

import argparse
import ast
import compileall
import json
import os
import random
import re
import shutil
import signal
import site
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from itertools import islice
from pathlib import Path
from py_compile import PycInvalidationMode
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).parent.parent
SOURCE = Path("src", "backstory")
KEPT = Path(__file__).with_name("broken_lines.json")
SEED, COUNT, SECONDS, ENDS_S = 20, 100, 90, 20
TESTS_MAX = 200
"""The most tests that are run for a line."""
FAILED_S = 1e9
NOTER = """\
import os
_seen = set()
def note(line):
    test = os.environ.get("PYTEST_CURRENT_TEST")
    if (line, test) not in _seen:
        _seen.add((line, test))
        with open({current!r}) as file:
            name = file.read()
        with open({hits!r}, "a") as file:
            file.write(f"{{line}}\\t{{name}}\\n")
def pytest_runtest_logstart(nodeid):
    # A command that runs in this process has no variable that names the test.
    _seen.clear()
    with open({current!r}, "w") as file:
        file.write(nodeid)
def pytest_runtest_logreport(report):
    with open({times!r}, "a") as file:
        file.write(f"{{1e9 if report.failed else report.duration}}\\t{{report.nodeid}}\\n")
"""
"""A module that notes which test came by a line, also in a process that the test started, and how long tests take.

A test that fails although nothing is broken would notice any line: it takes very long.
"""
COMPARED = {ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">"), ast.Eq: ("==", "!="),
            ast.NotEq: ("!=", "=="), ast.In: (" in ", " not in "), ast.Is: (" is ", " is not ")}  # fmt: skip
"""How each comparison is written, and what it becomes."""
SKIPPED = {"__init__.py", "__main__.py"}
TESTS_PASSED, NO_TESTS = 0, 5
"""Exit codes of pytest."""


class Broken(NamedTuple):
    """A line, and what takes its place."""

    path: str
    line: str
    becomes: str


def main() -> int:
    """Break each of the kept lines; prints a row a line, and the count."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--choose", action="store_true")
    parser.add_argument("--first", type=int, default=COUNT)
    parser.add_argument("--seconds", type=int, default=SECONDS)
    parser.add_argument("--root", type=Path, default=ROOT)
    parser.add_argument("--passed", type=Path, help="a file with what the first step found, made where it is not there")
    given = parser.parse_args()
    if given.choose:
        chosen = [each._asdict() for each in choose(ROOT)]
        KEPT.write_text(json.dumps(chosen, indent=1, ensure_ascii=False) + "\n", "utf-8")
        return 0
    ends = Counter[str]()
    with tempfile.TemporaryDirectory(prefix="backstory-broken-") as folder:
        if given.passed is None or not given.passed.exists():
            found = passed(given.root, Path(folder))
            if given.passed is not None:
                given.passed.write_text(json.dumps(found), "utf-8")
        else:
            found = {int(line): tests for line, tests in json.loads(given.passed.read_text("utf-8")).items()}
        tree = copied(given.root, Path(folder, "tree"))
        for number, each in enumerate(kept()[: given.first]):
            end = ends_as(tree, each, found.get(number), given.seconds)
            ends[end] += 1
            sys.stdout.write(f"{end:10} {each.path}: {each.line.strip()}  ->  {each.becomes.strip()}\n")
            sys.stdout.flush()
    sys.stdout.write(", ".join(f"{count} {end}" for end, count in ends.most_common()) + "\n")
    return 0


def kept() -> list[Broken]:
    """The lines that were chosen."""
    return [Broken(**each) for each in json.loads(KEPT.read_text("utf-8"))]


# choosing -----------------------------------------------------------------------------------------------------------


def choose(root: Path, count: int = COUNT) -> list[Broken]:
    """As many lines of each room as its size asks for, and one of each at least; the same every time."""
    rooms: dict[str, list[Broken]] = {}
    sizes = Counter[str]()
    for path in sorted((root / SOURCE).rglob("*.py")):
        room = path.relative_to(root / SOURCE).parts[0]
        sizes[room] += len(path.read_text("utf-8").splitlines())
        if path.name not in SKIPPED:
            rooms.setdefault(room, []).extend(breakable(path.read_text("utf-8"), str(path.relative_to(root))))
    chance, total = random.Random(SEED), sum(sizes.values())
    found: list[Broken] = []
    by_size = sorted(rooms, key=lambda room: (-sizes[room], room))
    drawn = {room: filter(is_python(root), chance.sample(rooms[room], len(rooms[room]))) for room in by_size}
    for room in by_size:
        found += islice(drawn[room], 1 + (count - len(rooms)) * sizes[room] // total)
    for room in by_size * count:
        found += islice(drawn[room], int(len(found) < count))
    # What is chosen first is broken first, so a few are of all rooms too.
    return chance.sample(found, len(found))


def breakable(text: str, path: str) -> Iterator[Broken]:
    """Each line of a module that can be broken, and that is written there once, in one way."""
    lines = text.splitlines()
    seen, tried = Counter(lines), set[int]()
    for node in ast.walk(ast.parse(text)):
        number = getattr(node, "lineno", 0)
        if not number or number in tried or number != getattr(node, "end_lineno", 0) or seen[lines[number - 1]] > 1:
            continue
        becomes = broken(node, lines[number - 1])
        if becomes is not None and becomes != lines[number - 1]:
            tried.add(number)
            yield Broken(path, lines[number - 1], becomes)


def broken(node: ast.AST, line: str) -> str | None:
    """A line with one thing of it broken; None where it is not of a kind that we break."""
    indent = line[: len(line) - len(line.lstrip())]
    match node:
        case ast.If(test=test) | ast.IfExp(test=test) if test.lineno == test.end_lineno and line.isascii():
            at, end = test.col_offset, test.end_col_offset
            return f"{line[:at]}not ({line[at:end]}){line[end:]}"
        case ast.Compare(ops=[op]) if type(op) in COMPARED:
            old, new = COMPARED[type(op)]
            return line.replace(old, new, 1) if line.count(old) == 1 else None
        case ast.Expr(value=ast.Call()) if line.strip().endswith(")"):
            return f"{indent}pass"
        case ast.Return(value=ast.Call() | ast.BinOp() | ast.Name()) if line.strip().startswith("return "):
            return f"{indent}return None"
        case ast.Constant(value=int(value)) if not isinstance(value, bool) and line.isascii():
            return f"{line[: node.col_offset]}{value + 1}{line[node.end_col_offset :]}"
        case ast.BoolOp(op=ast.And()) if line.count(" and ") == 1:
            return line.replace(" and ", " or ")
        case ast.BoolOp(op=ast.Or()) if line.count(" or ") == 1:
            return line.replace(" or ", " and ")
    return None


def is_python(root: Path) -> Callable[[Broken], bool]:
    """Tell of a broken line if its module can be read still."""

    def is_read(what: Broken) -> bool:
        text = (root / what.path).read_text("utf-8")
        try:
            ast.parse(text.replace(what.line, what.becomes, 1))
        except SyntaxError:
            return False
        return True

    return is_read


# which tests come by a line ------------------------------------------------------------------------------------------


def passed(root: Path, folder: Path) -> dict[int, list[str]]:
    """The tests that come by each line, by its place in the list, the quickest first. Two halves run side by side."""
    runs = []
    for half in range(2):
        tree = copied(root, folder / f"half-{half}")
        for number, each in enumerate(kept()):
            mark(tree, number, each)
        names = {name: str(tree / name) for name in ("current", "hits", "times")}
        (tree / "current").touch()
        (tree / "src" / "noted_lines.py").write_text(NOTER.format(**names), "utf-8")
        tests = sorted(str(each.relative_to(tree)) for each in (tree / "tests").rglob("test_*.py"))[half::2]
        words = [own_python(tree), "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "noted_lines", *tests]
        runs.append((tree, subprocess.Popen(words, cwd=tree, env=environ(), stdout=subprocess.DEVNULL)))
    times, hits = dict[str, float](), dict[int, set[str]]()
    for tree, process in runs:
        process.wait()
        for seconds, test in rows(tree / "times"):
            times[test] = times.get(test, 0) + float(seconds)
        for line, test in rows(tree / "hits"):
            hits.setdefault(int(line), set()).add(test)
        shutil.rmtree(tree)
    failed = {test for test, seconds in times.items() if seconds >= FAILED_S}
    sys.stderr.write("".join(f"fails although nothing is broken: {test}\n" for test in sorted(failed)))
    return {number: sorted(tests - failed, key=lambda test: times.get(test, 0)) for number, tests in hits.items()}


def rows(path: Path) -> list[list[str]]:
    """The lines of a file, each in its two parts."""
    return [line.split("\t") for line in path.read_text("utf-8").splitlines()] if path.exists() else []


def mark(tree: Path, number: int, what: Broken) -> None:
    """Have the statement that a line belongs to note that it runs; nothing where it does so while it is imported."""
    path, at = place_of(tree, what)
    if path is None:
        return
    lines = path.read_text("utf-8").splitlines(keepends=True)
    start = start_of_statement(ast.parse("".join(lines)), at + 1)
    if start is not None:
        line = lines[start - 1]
        indent = line[: len(line) - len(line.lstrip())]
        lines.insert(start - 1, f"{indent}import noted_lines; noted_lines.note({number})\n")
        path.write_text("".join(lines), "utf-8")


def place_of(tree: Path, what: Broken) -> tuple[Path | None, int]:
    """The module that holds a line once, and the line's place in it; the only one of all where it moved; else None."""
    for paths in ([tree / what.path], sorted((tree / SOURCE).rglob("*.py"))):
        found = [
            (path, at)
            for path in paths
            if path.exists()
            for at, line in enumerate(path.read_text("utf-8").splitlines())
            if line == what.line
        ]
        if len(found) == 1:
            return found[0]
    return None, 0


def start_of_statement(module: ast.Module, line: int) -> int | None:
    """The line where the innermost statement of a function that holds a line begins; None outside of functions."""
    start = None
    for function in ast.walk(module):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for block in (each for node in ast.walk(function) for each in blocks(node)):
                start = next((max(start or 0, node.lineno) for node in block if holds(node, line)), start)
    return start


def blocks(node: ast.AST) -> Iterator[list[ast.stmt]]:
    """The lists of statements below a node, but for one that is an ``elif``, before which nothing may stand."""
    for name in ("body", "orelse", "finalbody"):
        block = getattr(node, name, None)
        if not isinstance(block, list) or not block or not isinstance(block[0], ast.stmt):
            continue
        is_elif = name == "orelse" and isinstance(node, ast.If) and isinstance(block[0], ast.If)
        if not (is_elif and isinstance(node, ast.If) and block[0].col_offset == node.col_offset):
            yield block


def holds(statement: ast.stmt, line: int) -> bool:
    """Tell if a statement is on a line, but not in its first line as a docstring or a nested function is."""
    is_plain = not isinstance(
        statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Global | ast.Nonlocal
    )
    return is_plain and statement.lineno <= line <= (statement.end_lineno or 0)


# breaking -----------------------------------------------------------------------------------------------------------


def copied(root: Path, folder: Path) -> Path:
    """A copy of the tree without what was made there."""
    left_out = shutil.ignore_patterns(".*", "__pycache__", "bench-*", "dist")
    for path in (root / name for name in ("src", "tests", "bench", "demo", "docs")):
        if path.exists():
            shutil.copytree(path, folder / path.name, ignore=left_out)
    for path in root.glob("*.*"):
        if path.is_file():
            shutil.copy(path, folder / path.name)
    # A broken line is read however soon it follows another one.
    compileall.compile_dir(folder / "src", quiet=1, invalidation_mode=PycInvalidationMode.CHECKED_HASH)
    return folder


def own_python(tree: Path) -> str:
    """A Python with what this one has installed, but the package of that tree, also in commands that tests start."""
    folder, name = tree / ".venv", Path(sys.executable).name
    if folder.exists():
        return str(folder / "bin" / name)
    for purelib in map(Path, site.getsitepackages()):
        own = folder / purelib.relative_to(sys.prefix)
        own.mkdir(parents=True, exist_ok=True)
        for each in purelib.iterdir():
            if "editable" not in each.name:
                (own / each.name).symlink_to(each)
        (own / "backstory_of_this_tree.pth").write_text(f"{tree / SOURCE.parent}\n", "utf-8")
    (folder / "bin").mkdir()
    for each in Path(sys.prefix, "bin").iterdir():
        if each.name.startswith("python"):
            (folder / "bin" / each.name).symlink_to(each.resolve())
    shutil.copy(Path(sys.prefix, "pyvenv.cfg"), folder / "pyvenv.cfg")
    return str(folder / "bin" / name)


def ends_as(tree: Path, what: Broken, passing: list[str] | None, seconds: int) -> str:
    """Break a line, run the tests that should notice, and mend it; "caught", "missed", "gone" or "unknown"."""
    path, at = place_of(tree, what)
    if path is None:
        return "gone"
    text = path.read_text("utf-8")
    lines = text.splitlines(keepends=True)
    lines[at] = f"{what.becomes}\n"
    path.write_text("".join(lines), "utf-8")
    over = time.monotonic() + seconds
    try:
        chosen = [passing[:TESTS_MAX]] if passing else tests_of(tree, str(path.relative_to(tree)))
        ends = (end_of_tests(tree, tests, over - time.monotonic()) for tests in chosen)
        return next((end for end in ends if end != "missed"), "missed")
    finally:
        path.write_text(text, "utf-8")


def tests_of(tree: Path, path: str) -> Iterator[list[str]]:
    """The tests of a module, as arguments: those that are named after it or import it, the quick ones first."""
    module = Path(path).relative_to(SOURCE).with_suffix("")
    package, name = ".".join(("backstory", *module.parts[:-1])), module.name
    near = []
    for test in sorted((tree / "tests").rglob("test_*.py")):
        text = test.read_text("utf-8")
        imported = f"{package}.{name} import" in text or re.search(rf"from {package} import .*\b{name}\b", text)
        if imported or test.stem == f"test_{name}":
            near.append(str(test.relative_to(tree)))
    for marked in ("not slow", "slow") if near else ():
        yield ["-m", marked, *near]


def environ() -> dict[str, str]:
    """The environment in which a copy of the tree tests itself."""
    return {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}


def end_of_tests(tree: Path, tests: list[str], seconds: float) -> str:
    """Run tests until one fails, and so many seconds at most."""
    with subprocess.Popen(
        [own_python(tree), "-m", "pytest", "-x", "-p", "no:cacheprovider", *tests], cwd=tree, env=environ(),
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    ) as process:  # fmt: skip
        try:
            code = process.wait(max(seconds, 0))
        except subprocess.TimeoutExpired:
            # An interrupted test ends what it started, which a killed one leaves behind.
            process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                process.wait(ENDS_S)
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            return "unknown"
    return "missed" if code in (TESTS_PASSED, NO_TESTS) else "caught"


if __name__ == "__main__":
    sys.exit(main())
