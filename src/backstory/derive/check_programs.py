"""Programs that test and build: by their names, the words behind them, and the programs that run another one. Pure."""

from __future__ import annotations

from enum import StrEnum

from backstory.lazy import lazy_regex


class DeedKind(StrEnum):
    """The kinds of acts."""

    EDIT = "edit"
    COMMIT = "commit"
    PULL_REQUEST = "pull request"
    TEST = "test"
    BUILD = "build"


_TEST, _BUILD = DeedKind.TEST, DeedKind.BUILD
_MAVEN = {"test": _TEST, "verify": _TEST, "package": _BUILD, "compile": _BUILD, "install": _BUILD}
_GRADLE = {"test": _TEST, "check": _TEST, "build": _BUILD, "assemble": _BUILD}
_BOTH = {"test": _TEST, "build": _BUILD}

TESTERS = frozenset(
    {"pytest", "unittest", "py.test", "tox", "nox", "jest", "vitest", "mocha", "rspec", "phpunit", "pest", "ctest",
     "ava", "bats", "prove"}
)  # fmt: skip
COMPILERS = frozenset({"tsc", "vue-tsc", "xcodebuild", "webpack", "msbuild", "esbuild", "rollup", "tsup", "build"})
VERBS: dict[str, dict[str, DeedKind]] = {
    "go": _BOTH,
    "cargo": _BOTH | {"nextest": _TEST, "check": _BUILD},
    "bazel": _BOTH | {"coverage": _TEST}, "bazelisk": _BOTH | {"coverage": _TEST},
    "buck2": _BOTH, "swift": _BOTH, "dotnet": _BOTH, "zig": _BOTH, "stack": _BOTH, "cabal": _BOTH, "forge": _BOTH,
    "flutter": _BOTH, "rails": {"test": _TEST}, "rake": {"test": _TEST, "spec": _TEST},
    "meson": {"test": _TEST, "compile": _BUILD}, "ninja": {"test": _TEST, "all": _BUILD},
    "dune": _BOTH | {"runtest": _TEST}, "sbt": {"test": _TEST, "compile": _BUILD, "package": _BUILD},
    "dart": {"test": _TEST, "compile": _BUILD}, "composer": {"test": _TEST},
    "mix": {"test": _TEST, "compile": _BUILD}, "deno": {"test": _TEST, "check": _BUILD},
    "mvn": _MAVEN, "mvnw": _MAVEN, "gradle": _GRADLE, "gradlew": _GRADLE,
    "docker": {"build": _BUILD, "buildx": _BUILD}, "podman": {"build": _BUILD},
    "playwright": {"test": _TEST}, "cypress": {"run": _TEST}, "ng": _BOTH, "nx": _BOTH, "turbo": _BOTH,
    "next": {"build": _BUILD}, "vite": {"build": _BUILD}, "astro": {"build": _BUILD},
    "manage.py": {"test": _TEST}, "setup.py": {"test": _TEST, "build": _BUILD},
    "uv": {"build": _BUILD}, "poetry": {"build": _BUILD}, "pdm": {"build": _BUILD}, "hatch": _BOTH, "rye": _BOTH,
    "flit": {"build": _BUILD},
}  # fmt: skip
"""The act of a program by the first word behind it that is no option."""
SEVERAL_GOALS = frozenset({"mvn", "mvnw", "gradle", "gradlew", "sbt", "zig", "ninja", "rake", "turbo", "nx"})
"""These take several goals, any of which counts; of the others only the first word is what is done."""
TASK_RUNNERS = frozenset({"make", "gmake", "just", "task", "mise"})
"""Their words are names of tasks, as scripts of a package are."""
SCRIPT_RUNNERS = frozenset({"npm", "yarn", "pnpm", "bun"})
TASKS: dict[str, DeedKind] = {
    "test": _TEST, "tests": _TEST, "check": _TEST, "build": _BUILD, "compile": _BUILD, "all": _BUILD,
}  # fmt: skip
SCRIPTS: dict[str, DeedKind] = {"test": _TEST, "t": _TEST, "build": _BUILD, "compile": _BUILD}
NO_CHECKS = frozenset(
    {"data", "fixtures", "fixture", "server", "env", "setup", "deps", "clean", "db", "image", "watch"}
)
"""Behind a separator in the name of a task: it prepares tests, or never ends."""

RUNNERS: dict[str, frozenset[str]] = {
    "uv": frozenset(
        {"--extra", "--group", "--only-group", "--no-group", "--with", "--with-requirements", "--with-editable",
         "--python", "-p", "--project", "--directory", "--env-file", "--package", "--no-extra", "--index"}
    ),
    "poetry": frozenset({"-C", "--directory", "-P", "--project"}),
    "pdm": frozenset({"-p", "--project"}),
    "hatch": frozenset({"-e", "--env", "-p", "--project"}),
    "rye": frozenset(), "pipenv": frozenset(), "bundle": frozenset(), "bunx": frozenset(),
    "npx": frozenset({"-p", "--package", "-w", "--workspace"}),
    "uvx": frozenset({"--from", "--with", "--python", "-p"}),
    "coverage": frozenset({"--source", "--rcfile", "--omit", "--include", "--data-file"}),
    "nice": frozenset({"-n", "--adjustment"}), "stdbuf": frozenset({"-i", "-o", "-e"}),
    "xvfb-run": frozenset({"-s", "-n"}),
    "timeout": frozenset({"-s", "--signal", "-k", "--kill-after"}),
}  # fmt: skip
"""Programs that run another one, behind the word ``run`` or ``exec`` or without it; their options that take a word."""
RUNNERS_OF_SCRIPTS = frozenset({"hatch", "pdm", "rye"})
"""These also run what a project calls a script, by its name."""
MAKE_OPTIONS = frozenset({"-C", "-f", "-I", "-o", "-W", "-j", "--directory", "--file"})
SCRIPT_OPTIONS = frozenset(
    {"--prefix", "-w", "--workspace", "-C", "--filter", "-F", "--dir", "--cwd", "--cache", "--env-file"}
)
"""Options of the script runners that take a word."""
PYTHON_OPTIONS = frozenset({"-X", "-W"})
ASKING = frozenset(
    {"--help", "-h", "--version", "--dry-run", "--collect-only", "--co", "-list", "--list", "--listTests", "--no-run"}
)
"""With one of these a program only says something, or runs no test."""
TEST_FILE = lazy_regex(r"(?:run[-_])?tests?(?:[-_][\w-]*)?\.(?:sh|bash|py|js|mjs|ts)|run[-_]tests?")
"""A program of a project that runs tests, by its name."""
BUILD_FILE = lazy_regex(r"build(?:[-_][\w-]*)?\.(?:sh|bash)")
INTERPRETERS = frozenset({"bash", "sh", "zsh", "node", "ruby", "tsx", "ts-node"})
