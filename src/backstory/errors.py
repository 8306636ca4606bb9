"""Every error a person can meet: what happened, what to do about it, and the exit code a script sees.

They are raised where the facts are known and shown once, at the edge. Exit codes follow sysexits(3)
where it has one, so that a script can distinguish "try again" (75) from "give me another file" (65).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from pathlib import Path

REASON_CHARS_MAX = 200
"""The most characters printed of an error that is none of ours."""


def nearest(word: str, known: Collection[str]) -> str | None:
    """What was probably meant by a misspelt word."""
    from difflib import get_close_matches

    return next(iter(get_close_matches(word, known, n=1, cutoff=0.7)), None)


class BackstoryError(Exception):
    """The family. ``str(error)`` is the sentence to show; ``exit_code`` is what the command ends with."""

    exit_code: ClassVar[int] = 70
    """An error is never 1: that is the answer of a search that found nothing, and of a check that found something."""
    below: Sequence[str] = ()
    """Lines to show below the sentence, each by itself: commands to copy."""


class SessionNotFound(BackstoryError):
    """No session answers to what was asked for."""

    exit_code = 66

    def __init__(self, wanted: str) -> None:
        super().__init__(f"No session is called {wanted!r} or starts with it. Try: backstory list --all")


class SessionDiverged(BackstoryError):
    """Two stores have different turns of one session: one of them is an older copy, or both went on."""

    exit_code = 65

    def __init__(self, uid: str) -> None:
        super().__init__(
            f"Session {uid} has turns in one store that it lacks in the other, so neither was replaced: nothing is "
            f"lost. Compare them with `backstory show {uid}` and `backstory show --store FILE {uid}`."
        )


class SessionsNotCopied(BackstoryError):
    """Of a store's sessions some could not be copied into another one; the others were."""

    exit_code = 65

    def __init__(self, path: Path, reasons: Mapping[str, str]) -> None:
        listed = "; ".join(f"{uid}: {reason}" for uid, reason in reasons.items())
        super().__init__(
            f"Of {path} the machine's store could not take {len(reasons)} of the sessions ({listed}). They are safe "
            "there, the others were taken, and the next command tries again."
        )


class CopiesBehind(BackstoryError):
    """What was decided elsewhere about sessions of a store could not be written into it."""

    exit_code = 75

    def __init__(self, path: Path, sessions: int, reason: str) -> None:
        super().__init__(
            f"What you decided about {sessions} session{'s' * (sessions != 1)} of {path} could not be written there "
            f"({reason}). The next `backstory ingest` tries again."
        )


class NotASession(BackstoryError):
    """A call of the Python API was given something else where a session belongs."""

    exit_code = 64

    def __init__(self, given: object) -> None:
        super().__init__(
            f"{given!r:.200} is no session. Look it up first: store.session('S5') takes numbers and names."
        )


class SessionAmbiguous(BackstoryError):
    """Several sessions answer; the candidates are listed."""

    exit_code = 64

    def __init__(self, wanted: str, candidates: Sequence[str]) -> None:
        listed = ", ".join(candidates)
        super().__init__(f"{wanted!r} fits several sessions: {listed}. Give more characters of the one you mean.")


class StoreNotFound(BackstoryError):
    """A store was named that is not there."""

    exit_code = 66

    def __init__(self, path: Path) -> None:
        super().__init__(f"There is no store at {path}. Run `backstory ingest` to make one, or check --store.")


class NotAStore(BackstoryError):
    """The file named as a store is something else; it was not changed."""

    exit_code = 65

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(f"{path} is not a backstory store ({why}). It was left as it is; name another with --store.")


class StoreTooNew(BackstoryError):
    """The store was written by a newer backstory; reading it with this one could misread it."""

    exit_code = 76

    def __init__(self, path: Path, found: int, known: int) -> None:
        super().__init__(
            f"{path} has schema {found}, and this backstory knows up to {known}. "
            "Upgrade backstory (pipx upgrade backstory); the store was not touched."
        )


class StoreTooOld(BackstoryError):
    """The store was written before the first schema that was promised."""

    exit_code = 76

    def __init__(self, path: Path, found: int, revision: str) -> None:
        super().__init__(
            f"{path} has a draft of the schema ({found}), and is not read any more; the file was not changed. "
            "Move it aside and run `backstory ingest`: every log that still exists is read again. Only this file has "
            "your runs, and the logs whose files are gone. To write those out, install the revision that reads it "
            f"(`pip install .` at {revision}) and run its `backstory restore --all --store FILE --to FOLDER`."
        )


class NotTrusted(BackstoryError):
    """A store that came from elsewhere was to be acted in, and nobody has said that it may be."""

    exit_code = 77

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"{path} came from elsewhere: it was not made here, and nobody has trusted it. Nothing was changed. Look "
            "at it with `backstory list`; if it may be acted in, say the same with --trust, once."
        )


class StoreIsMachines(BackstoryError):
    """What lies in the place of a project's store is the machine's own."""

    exit_code = 77

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"{path} leads to the machine's own store, which is no project's. Nothing was changed; remove that link, "
            "and the project gets a store of its own."
        )


class StoreBusy(BackstoryError):
    """Another process kept the store locked for longer than we wait."""

    exit_code = 75

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} is locked by another process. Nothing was changed; try again when it is done.")


class QueueBusy(StoreBusy):
    """A process held the lock on a queue for longer than we wait; what it says of it names that process."""

    def __init__(self, path: Path, waited_s: float, holder: str) -> None:
        BackstoryError.__init__(
            self,
            f"{path} was locked for {waited_s:.0f} s by {holder}. Nothing was changed. Let that process go on or end "
            "it, then try again.",
        )


class NotQueuedNow(BackstoryError):
    """Texts could not be queued because the queue was locked; what was typed is printed again, as commands."""

    exit_code = 75

    def __init__(self, refused: QueueBusy, commands: Sequence[str]) -> None:
        super().__init__(f"{refused} Your text is not lost. To queue it:")
        self.below = commands


class NotErased(BackstoryError):
    """What was removed is no longer found, but the file may still hold some of its bytes."""

    exit_code = 75

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(
            f"Parts of what was removed may still be in {path}: {why}. `backstory optimize --store {path}` erases them."
        )


class StoreReadOnly(BackstoryError):
    """The store, or its folder, may not be written."""

    exit_code = 77

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"{path} cannot be written: the file, its folder or its disk is read-only. "
            "Nothing was changed; set BACKSTORY_HOME to a folder you may write, or fix the permissions."
        )


class DiskFull(BackstoryError):
    """No room left. What was committed before is whole."""

    exit_code = 74

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"The disk that holds {path} is full. What was stored before is whole; "
            "free some space and run the command again: it goes on where it stopped."
        )


class StoreDamaged(BackstoryError):
    """SQLite says the file is damaged, or bytes kept in it no longer match their checksum."""

    exit_code = 65

    def __init__(self, path: Path, detail: str) -> None:
        super().__init__(
            f"{path} is damaged: {detail}. Copy it aside first; `backstory verify` lists what is hurt, and "
            "`backstory restore --all` saves what is whole."
        )


class StoreFailed(BackstoryError):
    """Any other trouble between SQLite and the disk."""

    exit_code = 74

    def __init__(self, path: Path, detail: str) -> None:
        super().__init__(f"{path} could not be used: {detail}. What was stored before is whole.")


class StoreRefused(StoreFailed):
    """What was to be written breaks a rule of the tables. It is the fault of what was written, not of the file."""

    def __init__(self, path: Path, detail: str) -> None:
        BackstoryError.__init__(self, f"{path} cannot take it: {detail}. What was stored before is whole.")


STORE_CANNOT_GO_ON = (
    StoreNotFound, NotAStore, StoreTooNew, StoreTooOld, StoreBusy, StoreReadOnly, DiskFull, StoreDamaged, StoreFailed,
)  # fmt: skip


def is_for_one_only(refused: Exception) -> bool:
    """Whether trouble with one log, run or database is its own: the store goes on, and the others are done."""
    return isinstance(refused, StoreRefused) or not isinstance(refused, STORE_CANNOT_GO_ON)


def in_words(refused: Exception) -> str:
    """What went wrong, for a sentence: as an error of ours or of the system says it, else with its kind."""
    if isinstance(refused, OSError) and refused.strerror:
        return refused.strerror
    if isinstance(refused, BackstoryError | OSError):
        return str(refused)
    # Its text may be a whole record, or nothing.
    said = " ".join(str(refused).split())
    said = said if len(said) <= REASON_CHARS_MAX else f"{said[:REASON_CHARS_MAX]}…"
    return f"{type(refused).__name__}: {said}" if said else type(refused).__name__


def short_reason(refused: Exception) -> str:
    """Why a store could not be written, in a word or two where that is known."""
    short = {StoreBusy: "locked", StoreReadOnly: "read-only", DiskFull: "disk full", StoreNotFound: "not there"}
    return next((reason for kind, reason in short.items() if isinstance(refused, kind)), in_words(refused))


class FileInTheWay(BackstoryError):
    """A file that a command would write exists with other content."""

    exit_code = 73

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} exists and differs. It was left as it is; choose another folder, or add --force.")


class CannotWrite(BackstoryError):
    """A file or folder a command was asked to write could not be written."""

    exit_code = 73

    def __init__(self, path: Path, detail: str) -> None:
        super().__init__(f"Cannot write {path}: {detail}. Choose a folder you may write.")


class UnknownAgent(BackstoryError):
    """An agent was named that no adapter knows."""

    exit_code = 64

    def __init__(self, name: str, known: Sequence[str]) -> None:
        super().__init__(f"No agent is called {name!r}. Known agents: {', '.join(known)}.")


class AgentUnusable(UnknownAgent):
    """What another package registers as an agent is none that this version knows."""

    def __init__(self, name: str) -> None:
        BackstoryError.__init__(self, f"The agent {name!r} is not made for this version. Update its package.")


class ConfigBroken(BackstoryError):
    """A person's own configuration file cannot be read, or holds a value that means nothing."""

    exit_code = 78

    def __init__(self, path: Path, detail: str) -> None:
        super().__init__(
            f"{path}: {detail}. Fix that line, or remove the file to go back to the defaults. `backstory config list` "
            "shows what each setting may be."
        )


class UnknownSetting(BackstoryError):
    """A setting was named that does not exist."""

    exit_code = 64

    def __init__(self, key: str, known: Sequence[str]) -> None:
        near = nearest(key, known)
        meant = f" Did you mean {near}?" if near else ""
        super().__init__(f"There is no setting {key!r:.80}.{meant} Settings: {', '.join(known)}.")


class SettingRefused(BackstoryError):
    """A setting was given a value that it cannot have."""

    exit_code = 64

    def __init__(self, key: str, value: str, why: str) -> None:
        super().__init__(f"{key} cannot be {value!r:.80}: {why}. Nothing was changed.")


class SettingNotHere(BackstoryError):
    """A setting was to be set for a project, where it would be ignored."""

    exit_code = 64

    def __init__(self, key: str, why: str) -> None:
        super().__init__(
            f"{key} cannot be set so for one project: {why}. A project's settings come with each clone of it. To set "
            "it for yourself, leave out --here."
        )


class BadTime(BackstoryError):
    """A time on the command line could not be understood."""

    exit_code = 64

    def __init__(self, text: str) -> None:
        super().__init__(
            f"{text!r} is no time I understand. Examples: 2026-11-21, 2026-11-21T14:00, yesterday, monday, "
            "'last week', '3 days', 2h."
        )


class Cancelled(BackstoryError):
    """Somebody ended a question before its answer was found."""

    exit_code = 130

    def __init__(self) -> None:
        super().__init__("The search was cancelled before it was finished. Repeat it for the whole answer.")


class NotConfirmed(BackstoryError):
    """A question that had to be answered yes was not."""

    exit_code = 64

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} was not confirmed, so nothing was changed. Add --yes to skip the question.")


class SessionBusy(BackstoryError):
    """A run of the session is going on. ``holder`` says whose."""

    exit_code = 75

    def __init__(self, session: str, holder: str) -> None:
        self.holder = holder
        super().__init__(
            f"{session} is busy: {holder} is running it. Wait for it, or stop it with: backstory cancel {session}"
        )


class RunNotStored(BackstoryError):
    """An earlier run of a session is kept, and cannot be stored: what follows on from it cannot be run yet."""

    exit_code = 75

    def __init__(self, session: str, folder: Path, why: str) -> None:
        super().__init__(
            f"An earlier run of {session} could not be stored ({why}), so nothing was run behind it. What its agent "
            f"said is kept in {folder}. Each command tries again, a newer backstory too; to go on without it, move "
            "that folder elsewhere. Other sessions are not held up."
        )


class RunUnreadable(BackstoryError):
    """What a run left is there, but not whose it is."""

    exit_code = 65

    def __init__(self, folder: Path) -> None:
        super().__init__(
            f"{folder} holds a run whose run.json cannot be read, so nobody knows which session it is of. What its "
            "agent said is in stdout there. It holds up nothing; look at it, and move the folder elsewhere."
        )


class SessionElsewhere(BackstoryError):
    """A process of another machine runs the session."""

    exit_code = 75

    def __init__(self, session: str, pid: int, host: str) -> None:
        super().__init__(
            f"{session} is run on another machine: process {pid} on {host} was heard of less than 30 s ago. Wait for "
            "it, or stop it there."
        )


class QueueUnusable(BackstoryError):
    """The file that should be a store's queue is something else, or damaged; it was not changed."""

    exit_code = 65

    def __init__(self, path: Path, detail: str) -> None:
        super().__init__(
            f"{path} cannot be used as a queue ({detail}). The file was not changed. Move it aside and repeat the "
            "command; sessions are not touched by this."
        )


class QueueReadOnly(BackstoryError):
    """The queue, or the folder it would be made in, may not be written."""

    exit_code = 77

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"{path} cannot be written: the file, its folder or its disk is read-only. Nothing was queued or changed; "
            "fix the permissions, or run it later with: backstory run"
        )


class NotQueued(BackstoryError):
    """A text was named that is not queued."""

    exit_code = 66

    def __init__(self, wanted: str) -> None:
        super().__init__(f"No queued prompt matches {wanted!r}. Try: backstory queue list")


class AgentMissing(BackstoryError):
    """The agent's program is not on this machine."""

    exit_code = 69

    def __init__(self, agent: str, executable: str) -> None:
        super().__init__(
            f"{agent} could not be started: there is no {executable!r} on PATH. Install it, or name it with: "
            f"backstory config set agents.{agent} /path/to/it"
        )


class AgentNotStarted(BackstoryError):
    """The agent's program is there, and the system does not start it."""

    exit_code = 69

    def __init__(self, agent: str, executable: str, detail: str) -> None:
        super().__init__(
            f"{agent} could not be started: {executable}: {detail}. Check that the file is a program for this machine "
            "and that what runs it is installed."
        )


class FolderNotUsable(BackstoryError):
    """A folder to work in that is gone or may not be entered."""

    exit_code = 66

    def __init__(self, folder: Path | None, detail: str) -> None:
        where = f"The folder {folder}" if folder is not None else "The current folder"
        super().__init__(f"{where} cannot be worked in: {detail}. Go to another one, or name one with --cwd.")


class NoHome(BackstoryError):
    """Nothing says where the user's files lie."""

    exit_code = 78

    def __init__(self) -> None:
        super().__init__(
            "There is no home folder: HOME is not set. Set it, or set BACKSTORY_HOME to a folder of yours."
        )


class ClockUnusable(BackstoryError):
    """The machine's clock shows a time that no program here can write down."""

    exit_code = 71

    def __init__(self) -> None:
        super().__init__("The machine's clock is after the year 2262. Set it right, and run the command again.")


class OutputFailed(BackstoryError):
    """What is printed cannot be written."""

    exit_code = 74

    def __init__(self, detail: str) -> None:
        super().__init__(f"The output could not be written: {detail}. What was stored is whole.")


class OutOfMemory(BackstoryError):
    """The system gives no more memory."""

    exit_code = 71

    def __init__(self) -> None:
        super().__init__(
            "There is not enough memory for this. What was stored is whole; close other programs or raise the limit "
            "(ulimit -v), and run the command again."
        )


class OutOfFiles(BackstoryError):
    """The system opens no more files for us."""

    exit_code = 71

    def __init__(self) -> None:
        super().__init__(
            "Too many files are open. What was stored is whole; close other programs or raise the limit (ulimit -n), "
            "and run the command again."
        )


class RestoreIncomplete(BackstoryError):
    """Not every log, or not every file beside one, could be given back. Which ones was said before."""

    exit_code = 73

    def __init__(self, failed: int, wanted: int) -> None:
        super().__init__(
            f'{failed} of {wanted} files could not be given back; why is said above, with --json as "error". '
            "All the others were written, or were there already."
        )


class NotAPlace(BackstoryError):
    """What a store says of where a file lay leads out of the folder, or can be no file's name."""

    exit_code = 73

    def __init__(self, name: str) -> None:
        super().__init__(f"The store calls it {name[:200]!r}, which is no place inside a folder. It was not written.")


class NoFileToReplace(BackstoryError):
    """Where a file should go there is a link, a folder or a device. It is neither followed nor replaced."""

    exit_code = 73

    def __init__(self, path: Path, kind: str) -> None:
        super().__init__(f"{path} is {kind}. It was left as it is; move it away, or choose another folder.")


class AgentCannotRun(BackstoryError):
    """An agent whose logs are read, but which backstory does not run."""

    exit_code = 64

    def __init__(self, agent: str) -> None:
        super().__init__(f"{agent} cannot be run from here: only its logs are read.")


class EmptyPrompt(BackstoryError):
    """A run without words."""

    exit_code = 64

    def __init__(self) -> None:
        super().__init__('There is no prompt. Give it as an argument or on stdin: backstory run "Fix the test"')


class NothingRuns(BackstoryError):
    """A run was to be stopped, and there is none."""

    exit_code = 66

    def __init__(self, session: str) -> None:
        super().__init__(f"{session} is not running. `backstory ps` lists running sessions.")


class NotRunning(BackstoryError):
    """A message or a follow-up is for a running session, and the session is not running."""

    exit_code = 75

    def __init__(self, session: str) -> None:
        super().__init__(
            f"{session} is not running, so nothing was sent or queued. Add --or-run to run it as a prompt now, or "
            "--no-run to queue it."
        )


class PromptNotText(BackstoryError):
    """A prompt with bytes that are no text. ``at``: the number of the first such byte of stdin."""

    exit_code = 65

    def __init__(self, at: int | None = None) -> None:
        if at is None:
            super().__init__("The prompt is not UTF-8 text. Save it as UTF-8 and run it again; nothing was started.")
            return
        super().__init__(
            f"What came on stdin is not UTF-8 text: byte {at} is the first wrong one. Nothing was started. Convert it "
            "first, such as with `iconv -f latin1 -t utf-8`; if it is no text, put it in a file that the prompt names."
        )


class StdinTooLong(BackstoryError):
    """More came on stdin than a prompt can hold."""

    exit_code = 65

    def __init__(self, bytes_max: int) -> None:
        super().__init__(
            f"More than {bytes_max // 1_000_000} MB came on stdin. Nothing was started. Put it in a file and name that "
            "file in the prompt: the agent can read it piece by piece."
        )


class StdinUnreadable(BackstoryError):
    """The system does not read what is on stdin."""

    exit_code = 74

    def __init__(self, detail: str) -> None:
        super().__init__(f"stdin cannot be read: {detail}. Nothing was started; --no-stdin runs the prompt without it.")


class EditorMissing(BackstoryError):
    """A prompt was to be typed in an editor, and nothing says in which, or that one is not there."""

    exit_code = 69

    def __init__(self, wanted: str | None) -> None:
        why = f"there is no {wanted!r} on PATH" if wanted else "neither VISUAL nor EDITOR is set"
        super().__init__(
            f"There is no editor to write the prompt in: {why}. Set one, such as with `export EDITOR=nano`, or give "
            "the prompt as an argument or on stdin."
        )


class EditorFailed(BackstoryError):
    """The editor in which a prompt was to be typed ended with a failure."""

    exit_code = 69

    def __init__(self, editor: str, detail: str) -> None:
        super().__init__(f"The editor failed, so nothing was run: {editor}: {detail}.")


class PromptLeftEmpty(BackstoryError):
    """A prompt was to be typed in an editor, and nothing was."""

    exit_code = 64

    def __init__(self) -> None:
        super().__init__(
            "The prompt was left empty, so nothing was run. (An editor that returns at once needs the option that "
            "makes it wait, such as EDITOR='code --wait'.)"
        )


class StoreOutdated(BackstoryError):
    """The store has the tables of an earlier version."""

    exit_code = 65

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"{path} has the tables of an earlier version. Bring it up to date with "
            f"`backstory reindex --derived --store {path}`, or the machine's own store with `backstory ingest`. "
            f"Where it cannot be written, do so with a copy: `backstory backup --store {path} FILE`."
        )


class SqlWrong(BackstoryError):
    """A statement that SQLite does not understand, or that is not one statement."""

    exit_code = 64

    def __init__(self, detail: str) -> None:
        super().__init__(f"This SQL cannot be run: {detail}. `backstory sql --schema` lists what can be asked.")


class OnlyReading(BackstoryError):
    """A statement that would do something else than read."""

    exit_code = 77

    def __init__(self, what: str | None) -> None:
        super().__init__(f"Only reading is allowed here{f', not {what}' if what else ''}. Nothing was changed.")


class SqlTooSlow(BackstoryError):
    """A statement that gave no row in the time it had."""

    exit_code = 75

    def __init__(self, timeout_s: float) -> None:
        super().__init__(f"There was no answer within {timeout_s:g} s. Ask for less, or give it longer with --timeout.")


class SqlTooBig(BackstoryError):
    """A statement that makes a value, or needs memory, beyond what it may have."""

    exit_code = 65

    def __init__(self, value_bytes: int, heap_bytes: int) -> None:
        super().__init__(
            f"The answer needs a value of more than {value_bytes >> 20} MB, or more than {heap_bytes >> 20} MB of "
            "memory. Ask for less at once, such as substr(…) of it."
        )


class BadPattern(BackstoryError):
    """A regular expression that is none."""

    exit_code = 64

    def __init__(self, pattern: str, detail: str) -> None:
        super().__init__(f"{pattern!r} is no regular expression: {detail}. For its own letters use --exact.")


class NoSessionHere(BackstoryError):
    """No session was named, and there is none in this project to take instead."""

    exit_code = 66

    def __init__(self, folder: Path) -> None:
        super().__init__(
            f'There is no session in {folder} yet. Start one with `backstory run -n "…"`, import what agents logged '
            "here with `backstory ingest`, or name one that `backstory list --all` shows."
        )


class SeveralRunHere(BackstoryError):
    """No session was named, and several are running here."""

    exit_code = 64

    def __init__(self, running: Sequence[str]) -> None:
        super().__init__(f"Several sessions are running here: {', '.join(running)}. Name the one you mean with -S.")


class TurnNotFound(BackstoryError):
    """A session has no turn of this number."""

    exit_code = 66

    def __init__(self, session: str, turns: int) -> None:
        how = f": give -t a number from 1 to {turns}" if turns > 1 else ""
        super().__init__(f"{session} has {turns or 'no'} turn{'s' * (turns != 1)}{how}.")


class RecordNotFound(BackstoryError):
    """A session has no record of this number, or none that a prompt could follow."""

    exit_code = 66

    def __init__(self, seq: int, *, is_before_turns: bool = False) -> None:
        why = "comes before the first prompt, so nothing can follow it" if is_before_turns else "is not in this session"
        super().__init__(f"@{seq} {why}. `backstory tree` shows what can be named.")


class BranchNotFound(BackstoryError):
    """No branch has this name or number."""

    exit_code = 66

    def __init__(self, wanted: str) -> None:
        super().__init__(f"No branch is called {wanted[:80]!r}. Use a name of `backstory branches`, or a record: @12.")


class BranchRemoved(BackstoryError):
    """A record is on a branch that was removed."""

    exit_code = 66

    def __init__(self, seq: int) -> None:
        super().__init__(f"@{seq} is on a branch that was removed. Bring it back with: backstory branch restore @{seq}")


class NoBranches(BackstoryError):
    """A session without turns, or without removed ones, where some are needed."""

    exit_code = 66

    def __init__(self, session: str, what: str) -> None:
        super().__init__(f"{session} has no {what}.")


class BranchNameTaken(BackstoryError):
    """Another branch of the session has this name."""

    exit_code = 64

    def __init__(self, name: str) -> None:
        super().__init__(f"A branch is called {name[:80]!r}. Choose another name, or: backstory branch unname NAME")


class BranchNameUnusable(BackstoryError):
    """A name that could be taken for something else."""

    exit_code = 64

    def __init__(self, name: str) -> None:
        super().__init__(
            f"{name[:80]!r} is no name for a branch: it is empty, or means a record (@12) or a branch's number (3)."
        )


class BranchShared(BackstoryError):
    """A branch that has no turn of its own."""

    exit_code = 64

    def __init__(self, branch: str) -> None:
        super().__init__(
            f"Other branches begin inside the last turn of {branch[:80]!r}, so it has none of its own to remove. "
            "`backstory branch rm @N` removes the turn of that record with all that follows."
        )
