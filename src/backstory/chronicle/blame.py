"""The sessions and turns behind lines, a commit or a pull request."""

from __future__ import annotations

from enum import StrEnum
from itertools import groupby
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct
from msgspec.structs import replace

from backstory.bounds import counted, iso, local
from backstory.chronicle.progress import line, names
from backstory.chronicle.report import Cell, Report, Section, Tone, facts, row, rows
from backstory.derive import written_lines
from backstory.derive.authorship import SECOND_MS, TimedEdit, is_telling, written_by_edits
from backstory.derive.git_values import UNCOMMITTED, BlamedLine
from backstory.ids import session_keys

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from backstory.derive.git_values import Commit, FileChange
    from backstory.workspace.history.authorship import Act, Authorship, FileEdit, Trailer, Witness
    from backstory.workspace.history.sessions import ListedSession
    from backstory.workspace.reader import Reader

RULE = """\
wrote it: the line equals one that an edit or a write of the turn put into this file before the commit that git blames
for the line, and no later edit, no later write of the whole file and no later commit took that text away. A line that
says little, such as a bracket, or that stands in the file more often than it was written, counts only beside lines that
the same edit put there. Or: a line below the commit's message names the session, and no other one.
likely: the turn changed this file within the hour before the commit was authored, and after the commit of the file
before it. Or: a command of its shell that changed this file after the commit before, however long ago, holds the text
of the line; one that says little goes with such lines above or below it. A new version and a line of a generated file
(a lock file, minified, linguist-generated, "do not edit") are never likely.
no session: everything else. Also what no session here did, or what a program did that a session ran in a shell.
Git follows renames, and lines that were moved or copied in a commit. Only sessions of this repository count, in any of
its worktrees, clones and former folders. A subagent's work is its parent's; the subagent stands beside it."""
MINUTE_MS, HOUR_MS = 60_000, 3_600_000
TITLE_CHARS = 60
HASH_CHARS = 10
GONE_SHOWN = 3
"""The most folders that are gone of which the path is shown."""
QUOTED_CHARS = 160
LINES_SHOWN = 20
"""The most lines of a file that are quoted."""


class Strength(StrEnum):
    """The strength of the evidence that a turn wrote a line there."""

    WROTE = "wrote it"
    LIKELY = "likely"
    NONE = "no session"


TONES = {Strength.WROTE: Tone.GOOD, Strength.LIKELY: Tone.OPEN, Strength.NONE: Tone.NOTE}


class Because(StrEnum):
    """The source of the evidence: an edit's lines, a line below the commit's message, an edit's time, a script."""

    EDIT = "edit"
    TRAILER = "trailer"
    HOUR = "hour"
    SHELL = "shell"


class GitQuestions(Protocol):
    """The questions asked of git; see ``projects/git_history.py``."""

    def lines(self, path: str, /, *, moved: bool) -> tuple[BlamedLine, ...]: ...
    def history(self, path: str, /) -> tuple[FileChange, ...]: ...
    def history_before(self, commit: str, paths: Sequence[str], /) -> tuple[FileChange, ...]: ...
    def commits(self, hashes: Iterable[str], /) -> dict[str, Commit]: ...
    def changes_of(self, commit: str, /) -> tuple[FileChange, ...]: ...
    def generated(self, paths: Sequence[str], /) -> frozenset[str]: ...


class Credit(Struct, frozen=True, kw_only=True):
    """The author of a line, and the evidence for it."""

    evidence: Strength = Strength.NONE
    because: Because | None = None
    act: Act | None = None


class LineRun(Struct, frozen=True, kw_only=True):
    """Lines that follow each other with the same credit. ``commit``: that they came with; None: not committed."""

    first: int
    last: int
    credit: Credit
    commit: str | None
    texts: tuple[str, ...]


class BlamedFile(Struct, frozen=True, kw_only=True):
    """A file's lines in runs; of a commit those that it added. ``is_generated``: no line of it is likely."""

    path: str
    runs: tuple[LineRun, ...]
    is_binary: bool = False
    is_generated: bool = False

    def count(self, evidence: Strength) -> int:
        """Return the number of lines with this evidence."""
        return sum(run.last - run.first + 1 for run in self.runs if run.credit.evidence == evidence)


class Blame(Struct, frozen=True, kw_only=True):
    """The report. ``kind``: file, commit or pull request; ``witnesses`` made a commit or a pull request, or name it.

    ``gone``: folders that are gone, in which sessions wrote telling lines that are of no session here.
    """

    kind: str
    name: str
    files: tuple[BlamedFile, ...] = ()
    commit: Commit | None = None
    commits: Mapping[str, Commit]
    trailers: tuple[Trailer, ...] = ()
    witnesses: tuple[Witness, ...] = ()
    sessions: Mapping[str, ListedSession]
    """By their uids: all that are named here."""
    gone: tuple[str, ...] = ()


def blame_file(reader: Reader, history: GitQuestions, path: str, span: tuple[int, int] | None = None) -> Blame:
    """Find who wrote the lines of a file as it is now; ``span``: only from one line to another."""
    lines, known, changes = history.lines(path, moved=False), reader.authorship(), history.history(path)
    origins = history.lines(path, moved=True)[: len(lines)]
    origins += lines[len(origins) :]
    hashes = {line.commit for line in (*lines, *origins)} | {change.commit for change in changes}
    commits = history.commits(hashes)
    names = {path, *(name for each in changes for name in (each.path, each.old_path) if name)}
    is_generated = path in history.generated([path]) or written_lines.is_generated(path, (line.text for line in lines))
    asked = _Asked(known, known.edits(sorted(names)), commits, changes, is_generated=is_generated)
    found = [(line, credit) for line, credit in zip(lines, asked.written(lines), strict=True)]
    # What no edit explains where it stands may have been moved or copied there.
    for family, places in _families(origins, names, path).items():
        if all(found[place][1] is not None for place in places):
            continue
        if family != path:
            past = history.history_before("HEAD", [family])
            asked = _Asked(known, known.edits([family]), commits, past, is_generated=is_generated)
        # All of them are looked at: how often a line stands there matters.
        for place, credit in zip(places, asked.credits([origins[place] for place in places]), strict=True):
            if found[place][1] is None:
                found[place] = origins[place], credit
    shown = [(line, credit or Credit()) for line, credit in found if _is_in(line.number, span)]
    blamed = {line.commit for line, _ in shown}
    file = BlamedFile(path=path, runs=tuple(_runs(shown)), is_generated=is_generated)
    return _with_sessions(
        reader, Blame(kind="file", name=path, files=(file,), sessions={}, gone=_gone(known, [file]),
                      commits={each: commits[each] for each in commits if each in blamed}),
    )  # fmt: skip


def _families(lines: Sequence[BlamedLine], names: set[str], path: str) -> dict[str, list[int]]:
    """The places of lines by the file that they come from: this one first, by any of its names."""
    found: dict[str, list[int]] = {path: []}
    for place, each in enumerate(lines):
        found.setdefault(path if each.path in names else each.path, []).append(place)
    return found


def blame_commit(reader: Reader, history: GitQuestions, commit: Commit) -> Blame:
    """Find who wrote the lines that a commit added, who made it, and the authors that its message names."""
    known, changes = reader.authorship(), history.changes_of(commit.hash)
    names = [name for each in changes for name in (each.path, each.old_path) if name]
    past = history.history_before(commit.hash, list(dict.fromkeys(names)))
    commits = {commit.hash: commit} | history.commits(each.commit for each in past)
    generated = history.generated([each.path for each in changes])
    files = []
    for change in changes:
        own = {change.path, change.old_path}
        lines = [
            BlamedLine(number=number, text=text, commit=commit.hash, path=change.path)
            for number, text in change.added()
        ]
        is_generated = change.path in generated or written_lines.is_generated(
            change.path, (line.text for line in lines if line.number <= written_lines.HEAD_LINES)
        )
        edits = known.edits([name for name in own if name])
        mine = [each for each in past if own & {each.path, each.old_path}]
        asked = _Asked(known, edits, commits, mine, is_generated=is_generated)
        runs = tuple(_runs(list(zip(lines, asked.credits(lines), strict=True))))
        files.append(BlamedFile(path=change.path, runs=runs, is_binary=change.is_binary, is_generated=is_generated))
    return _with_sessions(
        reader, Blame(kind="commit", name=commit.hash, files=tuple(files), commit=commit, sessions={},
                      gone=_gone(known, files),
                      commits={commit.hash: commit}, trailers=known.trailers(commit),
                      witnesses=known.of_commit(commit.hash)),
    )  # fmt: skip


def blame_pull_request(reader: Reader, typed: str, repository: str | None) -> Blame:
    """Find the sessions that opened or name a pull request. ``repository``: owner/name if ``typed`` has none."""
    witnesses = reader.authorship().of_pull_request(typed, repository)
    return _with_sessions(
        reader, Blame(kind="pull request", name=typed, commits={}, witnesses=witnesses, sessions={})
    )  # fmt: skip


class _Asked:
    """The facts known of one file, used to find the author of each of its lines."""

    def __init__(
        self, known: Authorship, edits: Sequence[FileEdit], commits: Mapping[str, Commit],
        history: Sequence[FileChange], *, is_generated: bool,
    ) -> None:  # fmt: skip
        self._known, self._edits, self._commits = known, edits, commits
        self._history, self._is_generated = history, is_generated
        self._named: dict[str, Act | None] = {}

    def written(self, lines: Sequence[BlamedLine]) -> list[Credit | None]:
        """The credit of each line that an edit put there; None for the others."""
        told = [each for each in self._edits if each.written is not None and each.written.lines]
        edits = [TimedEdit(at=each.at, written=each.written) for each in told if each.written is not None]
        authored = {each.hash: each.authored for each in self._commits.values()}
        amended = {each.hash: self._amended(each, told) for each in self._commits.values()}
        found = written_by_edits(lines, edits, authored, self._history, amended)
        return [
            None if edit is None else Credit(evidence=Strength.WROTE, because=Because.EDIT, act=told[edit].act)
            for edit in found
        ]

    def _amended(self, commit: Commit, told: Sequence[FileEdit]) -> frozenset[int]:
        """The numbers of the edits that came after a commit was authored, and that their own session amended it with.

        Who rebases a commit changes when it was committed, not what is in it.
        """
        until = commit.committed + SECOND_MS
        later = [n for n, each in enumerate(told) if commit.authored + SECOND_MS <= each.at < until]
        times = {n: self._known.amended(told[n].act.uid, commit) for n in later}
        return frozenset(n for n, at in times.items() if at is not None and told[n].at <= at)

    def credits(self, lines: Sequence[BlamedLine]) -> list[Credit]:
        """The credit of each line."""
        found = [credit or self._otherwise(line) for line, credit in zip(lines, self.written(lines), strict=True)]
        for step in (1, -1):
            for place in range(len(lines))[::step]:
                self._go_along(lines, found, place, place - step)
        return found

    def _go_along(self, lines: Sequence[BlamedLine], found: list[Credit], place: int, near: int) -> None:
        """Give a line that says little to the shell that likely put the line above or below it there."""
        if not 0 <= near < len(lines) or found[near].because != Because.SHELL or found[place].act is not None:
            return
        line, other = lines[place], lines[near]
        if line.commit == other.commit and abs(line.number - other.number) == 1 and not is_telling(line.text):
            found[place] = found[near]

    def _otherwise(self, line: BlamedLine) -> Credit:
        """The credit of a line that no edit explains."""
        commit = self._commits.get(line.commit)
        if commit is not None and (act := self._session_named(commit)) is not None:
            return Credit(evidence=Strength.WROTE, because=Because.TRAILER, act=act)
        if self._is_generated or written_lines.is_version(line.text):
            return Credit()
        until = None if commit is None else commit.authored + SECOND_MS
        since = self._committed_before(commit)
        edits = [each for each in self._edits if since <= each.at and (until is None or each.at < until)]
        if is_telling(line.text):
            text = line.text.strip()
            named = [each.act for each in edits if text in _unescaped(each.script)]
            if named:
                return Credit(evidence=Strength.LIKELY, because=Because.SHELL, act=named[-1])
        if commit is None or not edits or edits[-1].at < commit.authored - HOUR_MS:
            return Credit()
        return Credit(evidence=Strength.LIKELY, because=Because.HOUR, act=edits[-1].act)

    def _committed_before(self, commit: Commit | None) -> int:
        """Return the time of the file's previous commit: earlier changes were part of that one. None: not committed."""
        if commit is None:
            return max((each.authored + SECOND_MS for each in self._history), default=0)
        hashes = [each.commit for each in self._history]
        if commit.hash not in hashes:
            return 0
        # The newest is first. Git's times are of the second that a commit was in.
        earlier = (each for each in self._history[hashes.index(commit.hash) :] if each.commit != commit.hash)
        return max((each.authored + SECOND_MS for each in earlier if each.authored <= commit.authored), default=0)

    def _session_named(self, commit: Commit) -> Act | None:
        """The only session that a commit's message names, if it is here."""
        if commit.hash not in self._named:
            named = [each for each in self._known.trailers(commit) if each.names_session]
            acts = {each.act.uid: each.act for each in named if each.act is not None}
            is_one = len({each.value for each in named}) == 1 and len(acts) == 1
            self._named[commit.hash] = next(iter(acts.values())) if is_one else None
        return self._named[commit.hash]


def _unescaped(script: str) -> str:
    """A script as text, with the ends of lines and tabs that its words spell out."""
    return script.replace("\\n", "\n").replace("\\t", "\t")


def _gone(known: Authorship, files: Sequence[BlamedFile]) -> tuple[str, ...]:
    """The folders that are gone in which sessions wrote telling lines that no session here wrote."""
    found = set[str]()
    for file in files:
        nobodys = (run for run in file.runs if run.credit.evidence == Strength.NONE)
        texts = {text.strip() for run in nobodys for text in run.texts if is_telling(text)}
        if texts:
            found |= {
                folder
                for folder, edits in known.edits_elsewhere(file.path).items()
                if any(sign == "+" and line.strip() in texts for each in edits for sign, line in _lines(each))
            }
    return tuple(sorted(found))


def _lines(edit: FileEdit) -> tuple[tuple[str, str], ...]:
    return edit.written.lines if edit.written is not None else ()


def _is_in(number: int, span: tuple[int, int] | None) -> bool:
    return span is None or span[0] <= number <= span[1]


def _runs(shown: Sequence[tuple[BlamedLine, Credit]]) -> Iterator[LineRun]:
    """Lines with their credits as runs: of one turn, one kind of evidence and one commit."""
    numbered = enumerate(shown)

    def key(each: tuple[int, tuple[BlamedLine, Credit]]) -> tuple[object, ...]:
        place, (line, credit) = each
        act = credit.act
        whose = (line.commit,) if act is None else (act.uid, act.turn_seq, act.subagent, line.commit)
        return (line.number - place, credit.evidence, credit.because, *whose)

    for _, group in groupby(numbered, key):
        lines = [line_and_credit for _, line_and_credit in group]
        first, credit = lines[0]
        yield LineRun(
            first=first.number, last=lines[-1][0].number, credit=credit,
            commit=None if first.commit == UNCOMMITTED else first.commit, texts=tuple(line.text for line, _ in lines),
        )  # fmt: skip


def _with_sessions(reader: Reader, report: Blame) -> Blame:
    acts = [run.credit.act for file in report.files for run in file.runs]
    acts += [each.act for each in report.trailers] + [each.act for each in report.witnesses]
    uids = dict.fromkeys(uid for act in acts if act is not None for uid in (act.uid, act.subagent) if uid)
    return replace(report, sessions={each.uid: each for each in reader.sessions_of(list(uids))})


def show_command(act: Act, sessions: Mapping[str, ListedSession]) -> str:
    """The command that shows the turn: its session and the record of its prompt."""
    seq = act.seq if act.turn_seq is None else act.turn_seq
    return f"backstory show {label_of(act.uid, sessions)} @{seq}"


def label_of(uid: str, sessions: Mapping[str, ListedSession]) -> str:
    """Return the name by which commands accept a session."""
    session = sessions.get(uid)
    return uid if session is None else session.label


def report(found: Blame) -> Report:
    """Draw what names or made it, each file with the turns behind its lines, and the commands that show these turns."""
    head, *lead = list(_head(found)) or [""]
    sections = [Section(rows=rows(lead))] if lead else []
    sections += [_file_section(each, found) for each in found.files]
    acts = [run.credit.act for file in found.files for run in file.runs]
    acts += [each.act for each in found.trailers] + [each.act for each in found.witnesses]
    commands = dict.fromkeys(show_command(each, found.sessions) for each in acts if each is not None)
    if commands:
        sections.append(Section(rows=tuple(row(Cell(each, Tone.CODE)) for each in commands)))
    notes = (_gone_words(found),) if found.gone else ()
    if not head and sections:
        head, sections[0] = sections[0].title, replace(sections[0], title="")
    return Report(title=head, sections=tuple(sections), notes=notes)


def _head(found: Blame) -> Iterator[str]:
    if found.commit is not None:
        yield f"Commit {_commit_words(found.commit, found.commit.hash)}"
        if found.commit.is_merge:
            yield "It is a merge: its lines are of the commits that it joins."
    elif found.kind != "file":
        yield f"{found.kind.capitalize()} {found.name}"
    yield from (_trailer_words(each, found) for each in found.trailers)
    yield from (_witness_words(each, found) for each in found.witnesses)
    if found.kind == "pull request" and not found.witnesses:
        yield "No session here opened or names it."


def _gone_words(found: Blame) -> str:
    """Return the folders that nobody can look into any more, and how a person says what they were."""
    is_one = len(found.gone) == 1
    return (
        f"{counted(len(found.gone), 'folder')} of sessions that wrote such lines {'is' if is_one else 'are'} gone: "
        f"{names(found.gone, GONE_SHOWN)}. {'It' if is_one else 'They'} may have been this repository: "
        "backstory project move OLD NEW"
    )


def _trailer_words(each: Trailer, found: Blame) -> str:
    said = f"{each.key}: {line(each.value)}"
    if each.act is not None:
        return f"{said} (session {_act_words(each.act, found)})"
    return f"{said} ({'that session is not here' if each.names_session else f'names {each.agent} and no session'})"


def _witness_words(each: Witness, found: Blame) -> str:
    did = {"commit": "made by", "pull request": "opened by"}[found.kind] if each.is_maker else "named by"
    return f"{did} {_act_words(each.act, found)}"


def _file_section(file: BlamedFile, found: Blame) -> Section:
    counts = ", ".join(f"{count:,} {each}" for each in Strength if (count := file.count(each)))
    is_quoted = found.kind == "file" and sum(len(run.texts) for run in file.runs) <= LINES_SHOWN
    return Section(
        title=f"{file.path}: binary, without lines" if file.is_binary
        else f"{file.path}: {counts or 'no line'}{' (generated)' if file.is_generated else ''}",
        rows=tuple(
            row(
                Cell(f"{run.first}" if run.first == run.last else f"{run.first}-{run.last}", Tone.REF),
                Cell(run.credit.evidence, TONES[run.credit.evidence]),
                _credit_words(run, found),
                below=(row(Cell(each.rstrip()[:QUOTED_CHARS], Tone.CODE)) for each in (run.texts if is_quoted else ())),
            )
            for run in file.runs
        ),
        is_aligned=True,
    )  # fmt: skip


def _credit_words(run: LineRun, found: Blame) -> str:
    credit, commit = run.credit, found.commits.get(run.commit or "")
    where = "" if found.kind == "commit" else "not committed" if commit is None else _commit_words(commit)
    if credit.act is None:
        return where
    return facts((_act_words(credit.act, found), _why(credit, credit.act, commit), where and f"commit {where}"))


def _why(credit: Credit, act: Act, commit: Commit | None) -> str:
    if credit.because == Because.TRAILER:
        return "named below the commit's message"
    if credit.because == Because.SHELL:
        return "by its shell"
    if credit.because == Because.HOUR and commit is not None and act.at is not None:
        return f"changed the file {max(0, commit.authored - act.at) // MINUTE_MS} min before"
    return ""


def _act_words(act: Act, found: Blame) -> str:
    """A turn: the session's handle, the turn's record, the record itself, when, and what the session is about."""
    session = found.sessions.get(act.uid)
    seq = act.seq if act.turn_seq is None else act.turn_seq
    own = f"its @{act.seq}" if act.subagent else f"at @{act.seq}" if act.seq != seq else ""
    below = f"subagent {label_of(act.subagent, found.sessions)} {own}" if act.subagent else own
    title = line(session.heading, TITLE_CHARS) if session and session.heading else ""
    return facts((f"{label_of(act.uid, found.sessions)} @{seq}", below, act.agent, local(act.at), title))


def _commit_words(commit: Commit, name: str = "") -> str:
    subject = line(commit.subject, TITLE_CHARS)
    return f"{name or commit.hash[:HASH_CHARS]} {commit.author}, {local(commit.authored)}: {subject}"


def as_json(found: Blame) -> dict[str, Any]:
    """A report as ``report blame --json`` prints it."""
    commit = found.commit
    return {
        "kind": found.kind,
        "target": found.name,
        "commit": None if commit is None else _commit_as_json(commit),
        "trailers": [
            _act_as_json(each.act, found)
            | {"key": each.key, "value": each.value, "agent": each.agent, "names_session": each.names_session}
            for each in found.trailers
        ],
        "sessions": [{"is_maker": each.is_maker} | _act_as_json(each.act, found) for each in found.witnesses],
        "files": [_file_as_json(each, found) for each in found.files],
        "gone_folders": found.gone,
    }


def _commit_as_json(commit: Commit) -> dict[str, Any]:
    return {
        "hash": commit.hash, "author": commit.author, "authored": iso(commit.authored),
        "committed": iso(commit.committed), "subject": commit.subject, "is_merge": commit.is_merge,
    }  # fmt: skip


def _file_as_json(file: BlamedFile, report: Blame) -> dict[str, Any]:
    return {
        "path": file.path,
        "is_binary": file.is_binary,
        "is_generated": file.is_generated,
        "wrote": file.count(Strength.WROTE),
        "likely": file.count(Strength.LIKELY),
        "without_session": file.count(Strength.NONE),
        "runs": [
            {"first": run.first, "last": run.last, "strength": run.credit.evidence, "because": run.credit.because,
             "hash": run.commit} | _act_as_json(run.credit.act, report)
            for run in file.runs
        ],
    }  # fmt: skip


def _act_as_json(act: Act | None, report: Blame) -> dict[str, Any]:
    if act is None:
        return dict.fromkeys(("uid", "label", "title", "agent", "turn_seq", "seq", "at", "subagent_uid", "show"))
    session = report.sessions.get(act.uid)
    return {
        **session_keys(act.uid, session.label if session else None),
        "title": (session.heading or None) if session else None,
        "agent": act.agent, "turn_seq": act.turn_seq, "seq": act.seq, "at": iso(act.at), "subagent_uid": act.subagent,
        "show": show_command(act, report.sessions),
    }  # fmt: skip
