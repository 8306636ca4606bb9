"""Git is started so that a repository's own programs never run, its output and its time are bounded."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import time
from typing import TYPE_CHECKING, Any

import pytest

from backstory.errors import GitFailed, NoGit
from backstory.projects import git_program
from backstory.projects.git_history import GitHistory
from backstory.projects.git_program import GitProgram
from backstory.projects.git_status import uncommitted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

pytestmark = pytest.mark.slow

ENVIRON = {"PATH": os.environ["PATH"], "GIT_CONFIG_NOSYSTEM": "1"}
WHO = {
    f"GIT_{role}_{what}": value
    for role in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "Ann"), ("EMAIL", "ann@a.org"), ("DATE", "1777888800 +0000"))
}
CLEAN = '[filter "x"]\n\tclean = PROGRAM\n'
SEEN = {
    "monitor": "[core]\n\tfsmonitor = PROGRAM\n",
    "clean filter": CLEAN,
    "required filter": '[filter "x"]\n\tclean = PROGRAM\n\tsmudge = PROGRAM\n\trequired = true\n',
    "filter process": '[filter "x"]\n\tprocess = PROGRAM\n',
    "filter of an included file": "[include]\n\tpath = FOLDER/included\n",
    "filter of a file included for this folder": '[includeIf "gitdir:/"]\n\tpath = FOLDER/included\n',
    "filter of a file included for this branch": '[includeIf "onbranch:main"]\n\tpath = FOLDER/included\n',
    "filter of a file included for this remote": (
        '[remote "o"]\n\turl = https://a.org/b\n[includeIf "hasconfig:remote.*.url:https://a.org/**"]\n'
        "\tpath = FOLDER/included\n"
    ),
    "converter": '[diff "x"]\n\ttextconv = PROGRAM\n\tcachetextconv = true\n',
    "difference of a driver": '[diff "x"]\n\tcommand = PROGRAM\n',
    "difference": "[diff]\n\texternal = PROGRAM\n",
    "signature": "[gpg]\n\tprogram = PROGRAM\n[log]\n\tshowSignature = true\n",
    "signature of a format": '[gpg "openpgp"]\n\tprogram = PROGRAM\n[log]\n\tshowSignature = true\n',
    "hooks elsewhere": "[core]\n\thooksPath = FOLDER/hooks\n",
}
"""Settings by which a plain git runs a program when it is asked what we ask."""
UNSEEN = {
    "pager": "[core]\n\tpager = PROGRAM\n[pager]\n\tlog = PROGRAM\n\tblame = PROGRAM\n\tstatus = PROGRAM\n",
    "editor": "[core]\n\teditor = PROGRAM\n[sequence]\n\teditor = PROGRAM\n",
    "connection": "[core]\n\tsshCommand = PROGRAM\n\tgitProxy = PROGRAM\n\taskPass = PROGRAM\n",
    "password": "[credential]\n\thelper = PROGRAM\n",
    "alias": "[alias]\n\tblame = !PROGRAM\n\tlog = !PROGRAM\n\tstatus = !PROGRAM\n\tdiff = !PROGRAM\n",
    "alternates": "[core]\n\talternateRefsCommand = PROGRAM\n",
    "monitor of git's own": "[core]\n\tfsmonitor = true\n\tuntrackedCache = true\n",
    "filter with = in its name, unused": '[filter "a"]\n\tclean = cat\n[diff "a=b"]\n\ttextconv = PROGRAM\n',
    "trace": "[trace2]\n\teventTarget = FOLDER/ran\n",
    "worktree elsewhere": f"[core]\n\tworktree = FOLDER\n{CLEAN}",
    "objects from a program": (
        '[core]\n\trepositoryformatversion = 1\n[extensions]\n\tpartialClone = o\n[protocol "ext"]\n\tallow = always\n'
        '[remote "o"]\n\turl = ext::sh -c PROGRAM\n\tpromisor = true\n'
    ),
    "objects from a folder": (
        '[core]\n\trepositoryformatversion = 1\n[extensions]\n\tpartialClone = o\n[protocol "file"]\n\tallow = always\n'
        '[remote "o"]\n\turl = FOLDER\n\tpromisor = true\n\tuploadpack = PROGRAM\n'
    ),
    "objects over ssh": (
        '[core]\n\trepositoryformatversion = 1\n\tsshCommand = PROGRAM\n[extensions]\n\tpartialClone = o\n'
        '[protocol "ssh"]\n\tallow = always\n[remote "o"]\n\turl = ssh://127.0.0.1/a\n\tpromisor = true\n'
    ),
    "objects from a helper": (
        '[core]\n\trepositoryformatversion = 1\n[extensions]\n\tpartialClone = o\n[protocol]\n\tallow = always\n'
        '[remote "o"]\n\turl = a\n\tvcs = ours\n\tpromisor = true\n'
    ),
}  # fmt: skip
NAMES = ["a.clean", "a b", 'a"b', "A", "filter.x.clean", "process=", "a=b"]
ENDLESS = {
    "names": "[mailmap]\n\tfile = FOLDER/pipe\n",
    "excluded": "[core]\n\texcludesFile = FOLDER/pipe\n",
    "attributes": "[core]\n\tattributesFile = FOLDER/pipe\n",
    "order": "[diff]\n\torderFile = FOLDER/pipe\n",
}


def git(folder: Path, *words: str, given: str = "", **environ: str) -> str:
    done = subprocess.run(
        ["git", *words], cwd=folder, env={**ENVIRON, "HOME": str(folder.parent), **WHO, **environ}, input=given,
        capture_output=True, text=True, check=True, timeout=30,
    )  # fmt: skip
    return done.stdout.strip()


QUESTIONS: dict[str, Callable[[GitHistory], object]] = {
    "file": lambda asked: (asked.lines("a.txt", moved=True), asked.history("a.txt")),
    "commit": lambda asked: (asked.commits([asked.resolve("HEAD") or ""]), asked.changes_of("HEAD~1")),
    "names": lambda asked: asked.generated(["a.txt"]),
    "past": lambda asked: asked.history_before("HEAD", ["a.txt"]),
}
"""What we ask git of a file and of a commit."""


class Hostile:
    """A repository of an enemy: a changed file, a signed commit, an instruction file that git has to look at again."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.root, self.ran = folder, folder / "repository", folder / "ran"
        self.root.mkdir()
        self.program = self.executable(folder / "program", f"echo ran >> {self.ran}\ncat")
        self.config = self.root / ".git" / "config"
        git(self.root, "init", "-q", "-b", "main")
        (self.root / "a.txt").write_text("one\ntwo\n")
        (self.root / "AGENTS.md").write_text("Rules\n")
        (self.root / ".gitattributes").write_text("* diff=x\na.txt filter=x\n")
        git(self.root, "add", "-A")
        git(self.root, "commit", "-qm", "Begin")
        tree, first = git(self.root, "rev-parse", "HEAD^{tree}", "HEAD").split()
        signed = (
            f"tree {tree}\nparent {first}\nauthor A <a@a.b> 1777888800 +0000\ncommitter A <a@a.b> 1777888800 +0000\n"
            "gpgsig -----BEGIN PGP SIGNATURE-----\n \n aa\n -----END PGP SIGNATURE-----\n\nSigned\n"
        )
        commit = git(self.root, "hash-object", "-w", "-t", "commit", "--stdin", given=signed)
        git(self.root, "update-ref", "refs/heads/main", commit)
        self.change()

    def executable(self, path: Path, script: str) -> Path:
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return path

    def change(self) -> None:
        """Give the file other content of the same size, and another time to each: git has to look at them."""
        (self.root / "a.txt").write_text("one\nTWO\n")
        for name in ("a.txt", "AGENTS.md"):
            os.utime(self.root / name, (1, 1))

    def add(self, settings: str) -> None:
        (self.folder / "included").write_text(CLEAN.replace("PROGRAM", str(self.program)))
        for name in ("post-index-change", "fsmonitor-watchman", "reference-transaction", "post-checkout"):
            self.executable(self.folder / "hooks" / name, f"echo ran >> {self.ran}")
            self.executable(self.root / ".git" / "hooks" / name, f"echo ran >> {self.ran}")
        with self.config.open("a") as file:
            file.write(settings.replace("PROGRAM", str(self.program)).replace("FOLDER", str(self.folder)))

    def ask(self, environ: Mapping[str, str] | None = None) -> set[str]:
        """Everything that we ask git, each apart; returns what git could not answer."""
        given = ENVIRON | {"HOME": str(self.folder)} | dict(environ or {})
        failed = set[str]()
        for name, question in QUESTIONS.items():
            self.change()
            try:
                question(GitHistory(self.root, given))
            except GitFailed:
                failed.add(name)
        for name in ("AGENTS.md", "a.txt"):
            if "git does not say" in (uncommitted(self.root, self.root / name, given) or ""):
                failed.add("status")
        return failed

    def ask_plainly(self) -> None:
        """The same, asked of git as it is."""
        for words in (("status",), ("diff",), ("log", "-p"), ("blame", "a.txt"), ("show",)):
            self.change()
            subprocess.run(["git", *words], cwd=self.root, env=ENVIRON | {"HOME": str(self.folder)}, timeout=30,
                           capture_output=True, check=False)  # fmt: skip


@pytest.fixture
def hostile(tmp_path: Path) -> Hostile:
    return Hostile(tmp_path)


@pytest.mark.parametrize("kind", SEEN)
def test_no_program_runs_that_a_plain_git_runs(hostile: Hostile, kind: str) -> None:
    hostile.add(SEEN[kind])
    assert hostile.ask() == set()
    assert not hostile.ran.exists()
    hostile.ask_plainly()
    assert hostile.ran.exists()


@pytest.mark.parametrize("kind", UNSEEN)
def test_no_program_of_other_settings_runs(hostile: Hostile, kind: str) -> None:
    hostile.add(UNSEEN[kind])
    if "promisor" in UNSEEN[kind]:
        # Git would fetch an object that is not there.
        lost = git(hostile.root, "rev-parse", "HEAD:a.txt", given="")
        (hostile.root / ".git" / "objects" / lost[:2] / lost[2:]).unlink()
    hostile.ask()
    assert not hostile.ran.exists()


@pytest.mark.parametrize("name", NAMES)
def test_a_filter_of_any_name_stays_off(hostile: Hostile, name: str) -> None:
    quoted = name.replace('"', '\\"')
    hostile.add(f'[filter "{quoted}"]\n\tclean = PROGRAM\n\tprocess = PROGRAM\n')
    (hostile.root / ".gitattributes").write_text(f"* filter={name}\n")
    failed = hostile.ask()
    assert not hostile.ran.exists()
    # Git has no way to switch off a filter with = in its name, so it is not asked.
    assert ("file" in failed) == ("=" in name)


@pytest.mark.parametrize("place", ["info", "macro", "config.worktree", "elsewhere"])
def test_attributes_and_settings_from_other_places_name_no_program(hostile: Hostile, place: str) -> None:
    if place == "info":
        (hostile.root / ".git" / "info" / "attributes").write_text("* filter=x diff=x\n")
        hostile.add(CLEAN)
    elif place == "macro":
        (hostile.root / ".gitattributes").write_text("[attr]binary filter=x\n* binary\n")
        hostile.add(CLEAN)
    elif place == "elsewhere":
        (hostile.folder / "attributes").write_text("* filter=x diff=x\n")
        hostile.add(f"[core]\n\tattributesFile = FOLDER/attributes\n{CLEAN}")
    else:
        git(hostile.root, "config", "extensions.worktreeConfig", "true")
        (hostile.root / ".git" / "config.worktree").write_text(CLEAN.replace("PROGRAM", str(hostile.program)))
    assert hostile.ask() == set()
    assert not hostile.ran.exists()


def test_a_submodule_is_not_looked_into(hostile: Hostile) -> None:
    inner = hostile.root / "inner"
    inner.mkdir()
    git(inner, "init", "-q")
    (inner / "b.txt").write_text("one\n")
    git(inner, "add", "-A")
    git(inner, "commit", "-qm", "Begin")
    git(hostile.root, "add", "inner")
    git(hostile.root, "commit", "-qm", "Add a repository")
    (inner / "b.txt").write_text("two\n")
    (inner / ".gitattributes").write_text("* filter=x\n")
    with (inner / ".git" / "config").open("a") as file:
        file.write(f"[core]\n\tfsmonitor = {hostile.program}\n{CLEAN.replace('PROGRAM', str(hostile.program))}")
    hostile.add(
        '[submodule "inner"]\n\tignore = none\n[diff]\n\tsubmodule = log\n[status]\n\tsubmoduleSummary = true\n'
    )
    asked = GitHistory(hostile.root, ENVIRON)
    asked.history("inner")
    asked.changes_of("HEAD")
    uncommitted(hostile.root, inner, ENVIRON)
    assert not hostile.ran.exists()
    hostile.ask_plainly()
    assert hostile.ran.exists()


def test_the_environment_names_no_program_and_no_repository(hostile: Hostile) -> None:
    program, elsewhere = str(hostile.program), str(hostile.folder / "elsewhere")
    names = ("GIT_EXTERNAL_DIFF", "GIT_SSH", "GIT_SSH_COMMAND", "GIT_PAGER", "PAGER", "GIT_EDITOR", "EDITOR",
             "GIT_ASKPASS", "SSH_ASKPASS", "GIT_PROXY_COMMAND", "LD_PRELOAD")  # fmt: skip
    settings = {
        "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "core.fsmonitor", "GIT_CONFIG_VALUE_0": program,
        "GIT_CONFIG_PARAMETERS": f"'core.fsmonitor'='{program}'", "GIT_TRACE2_EVENT": str(hostile.ran),
    }  # fmt: skip
    places = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_EXEC_PATH",
              "GIT_CONFIG_GLOBAL")  # fmt: skip
    given = dict.fromkeys(names, program) | dict.fromkeys(places, elsewhere) | settings
    assert hostile.ask(given) == set()
    assert not hostile.ran.exists()


@pytest.mark.parametrize("place", ["bin", ".", ""])
def test_a_git_that_the_repository_brings_is_not_run(hostile: Hostile, place: str) -> None:
    hostile.executable(hostile.root / "bin" / "git", f"echo ran >> {hostile.ran}")
    hostile.executable(hostile.root / "git", f"echo ran >> {hostile.ran}")
    for before in (place, str(hostile.root / place)):
        assert hostile.ask({"PATH": f"{before}{os.pathsep}{ENVIRON['PATH']}"}) == set()
    assert not hostile.ran.exists()
    with pytest.raises(NoGit):
        GitProgram(hostile.root, {"PATH": str(hostile.root / "bin")}).ask("version")


def test_a_home_that_is_a_repository_may_hold_git(hostile: Hostile) -> None:
    hostile.executable(hostile.root / "bin" / "git", "echo ours")
    environ = {"PATH": f"{hostile.root}/bin:/bin", "HOME": str(hostile.root)}
    assert GitProgram(hostile.root, environ).ask("version").strip() == "ours"


@pytest.mark.parametrize("kind", ENDLESS)
def test_a_file_that_never_ends_is_not_waited_for(hostile: Hostile, kind: str) -> None:
    os.mkfifo(hostile.folder / "pipe")
    hostile.add(ENDLESS[kind])
    assert hostile.ask() == set()


@pytest.mark.parametrize("kind", ["included", "ignored commits", "of the repository"])
def test_a_file_that_never_ends_and_that_git_insists_on_ends_with_the_deadline(hostile: Hostile, kind: str) -> None:
    os.mkfifo(hostile.folder / "pipe")
    if kind == "of the repository":
        os.mkfifo(hostile.root / ".mailmap")
    else:
        hostile.add({"included": "[include]", "ignored commits": "[blame]"}[kind])
        hostile.add(f"\n\t{'path' if kind == 'included' else 'ignoreRevsFile'} = FOLDER/pipe\n")
    begun = time.monotonic()
    with pytest.raises(GitFailed, match="longer than"):
        GitHistory(hostile.root, ENVIRON, seconds=0.8).lines("a.txt", moved=False)
    assert time.monotonic() - begun < 10


def test_commits_that_a_setting_would_ignore_are_blamed(hostile: Hostile) -> None:
    before = GitHistory(hostile.root, ENVIRON).lines("a.txt", moved=True)
    (hostile.root / "a.txt").write_text("one\nthree\n")
    git(hostile.root, "commit", "-qam", "Change")
    third = git(hostile.root, "rev-parse", "HEAD")
    (hostile.folder / "ignored").write_text(f"{third}\n")
    hostile.add("[blame]\n\tignoreRevsFile = FOLDER/ignored\n\tmarkIgnoredLines = true\n")
    now = GitHistory(hostile.root, ENVIRON).lines("a.txt", moved=True)
    assert [each.commit for each in now] == [before[0].commit, third]


class Replaced:
    """A program in the place of git. It answers what its settings are, then does what the script says."""

    def __init__(self, hostile: Hostile, script: str) -> None:
        hostile.executable(hostile.folder / "bin" / "git", f'case "$*" in *filter*) exit 1;; esac\n{script}')
        self.environ = {"PATH": f"{hostile.folder}/bin{os.pathsep}{ENVIRON['PATH']}"}
        self.root = hostile.root

    def started(self, seconds: float = 30) -> GitProgram:
        return GitProgram(self.root, self.environ, seconds=seconds)


def test_output_is_read_up_to_the_bound_and_what_prints_on_is_ended(hostile: Hostile) -> None:
    git = Replaced(hostile, f"echo $$ > {hostile.folder}/pid\nexec yes a line that is printed for ever").started()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    told = git.begin("log")
    assert told.cut == "git printed more than 64 MB"
    assert len(told.text) == git_program.OUTPUT_BYTES_MAX
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300 << 10
    with pytest.raises(ProcessLookupError):
        os.kill(int((hostile.folder / "pid").read_text()), 0)
    with pytest.raises(GitFailed, match="more than 64 MB"):
        git.ask("log")


def test_errors_without_an_end_are_not_kept(hostile: Hostile) -> None:
    git = Replaced(hostile, "head -c 9000000 /dev/zero | tr '\\0' 'x' >&2\nexit 3").started()
    with pytest.raises(GitFailed) as refused:
        git.ask("log")
    assert len(str(refused.value)) < 400


def test_all_calls_share_one_deadline_and_children_end_with_git(hostile: Hostile) -> None:
    # Git may be ended at any moment, also between the file and what is written into it.
    child = hostile.folder / "child"
    script = f"sleep 600 &\necho $! > {child}.new\nmv {child}.new {child}\necho a\nwait"
    git = Replaced(hostile, script).started(2)
    begun = time.monotonic()
    for _ in range(9):
        told = git.begin("log")
        assert told.cut is not None
    with pytest.raises(GitFailed, match="longer than"):
        git.ask("log")
    assert time.monotonic() - begun < 10
    with pytest.raises(ProcessLookupError):
        _end_of(int(child.read_text()))


def _end_of(child: int) -> None:
    """Wait for a process that was told to end: raises ProcessLookupError once it is gone."""
    until = time.monotonic() + 120
    while time.monotonic() < until:
        os.kill(child, 0)
        # A child whose parent is gone is nobody's zombie for a moment.
        os.sched_yield()


def test_an_answer_that_is_cut_off_has_whole_parts_and_says_what_is_missing(
    hostile: Hostile, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(9):
        (hostile.root / "b.txt").write_text("".join(f"{number} {each}\n" for each in range(20)))
        git(hostile.root, "add", "b.txt")
        git(hostile.root, "commit", "-qm", f"Change {number}")
    whole = GitHistory(hostile.root, ENVIRON)
    changes, lines = whole.history("b.txt"), whole.lines("b.txt", moved=False)
    assert whole.left_out == {}
    monkeypatch.setattr(git_program, "OUTPUT_BYTES_MAX", 1500)
    cut = GitHistory(hostile.root, ENVIRON)
    some = cut.history("b.txt")
    assert 0 < len(some) < len(changes)
    assert some == changes[: len(some)]
    assert list(cut.left_out) == ["older changes of b.txt"]
    monkeypatch.setattr(git_program, "OUTPUT_BYTES_MAX", 700)
    assert cut.lines("b.txt", moved=False) == lines[: len(cut.lines("b.txt", moved=False))]
    assert "where the last lines of b.txt are from" in cut.left_out


def test_a_repository_of_somebody_else_is_refused_as_git_refuses_it(hostile: Hostile) -> None:
    if os.getuid() != 0:
        pytest.skip("only root gives a folder to somebody else")
    for each in (hostile.root, hostile.root / ".git"):
        os.chown(each, 12345, 12345)
    with pytest.raises(GitFailed, match="dubious ownership"):
        GitHistory(hostile.root, ENVIRON).resolve("HEAD")
    assert "dubious ownership" in (uncommitted(hostile.root, hostile.root / "AGENTS.md", ENVIRON) or "")


def test_a_linked_worktree_is_asked_like_any_other(hostile: Hostile) -> None:
    git(hostile.root, "worktree", "add", "-q", str(hostile.folder / "linked"), "-b", "other")
    hostile.add(SEEN["clean filter"])
    asked = GitHistory(hostile.folder / "linked", ENVIRON)
    assert [each.text for each in asked.lines("a.txt", moved=False)] == ["one", "two"]
    assert uncommitted(hostile.folder / "linked", hostile.folder / "linked" / "AGENTS.md", ENVIRON) is None
    assert not hostile.ran.exists()


def test_a_bare_repository_inside_a_folder_is_not_used(hostile: Hostile) -> None:
    bare = hostile.folder / "bare"
    git(hostile.folder, "init", "-q", "--bare", "bare")
    with (bare / "config").open("a") as file:
        file.write(f"[core]\n\tfsmonitor = {hostile.program}\n")
    assert GitHistory(bare, ENVIRON).root is None
    with pytest.raises(GitFailed, match="bare repository"):
        GitHistory(bare, ENVIRON).resolve("HEAD")
    assert not hostile.ran.exists()


def test_a_commit_of_very_many_files_is_answered(hostile: Hostile) -> None:
    names = [f"{number:05}-{'x' * 120}" for number in range(20_000)]
    (hostile.root / ".gitattributes").write_text("00007* linguist-generated\n")
    assert GitHistory(hostile.root, ENVIRON).generated(names) == {names[7]}


def test_a_git_that_works_before_it_is_known_ends_with_an_interrupt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("bin", "work"):
        (tmp_path / folder).mkdir()
    (tmp_path / "bin" / "git").write_text("#!/bin/sh\nexec sleep 600\n")
    (tmp_path / "bin" / "git").chmod(0o755)
    begin, begun = subprocess._fork_exec, list[int]()  # type: ignore[attr-defined]

    def interrupted(*given: Any) -> int:
        begun.append(begin(*given))
        signal.raise_signal(signal.SIGINT)
        return begun[0]

    monkeypatch.setattr(subprocess, "_fork_exec", interrupted)
    with pytest.raises(KeyboardInterrupt):
        GitProgram(tmp_path / "work", ENVIRON | {"PATH": f"{tmp_path}/bin:{os.environ['PATH']}"}).ask("status")
    with pytest.raises(ProcessLookupError):
        os.kill(begun[0], signal.SIGKILL)
