"""Every error a person can meet: what happened, what to do about it, and the exit code a script sees.

They are raised where the facts are known and shown once, at the edge. Exit codes follow sysexits(3)
where it has one, so that a script can distinguish "try again" (75) from "give me another file" (65).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from pathlib import Path

REASON_CHARS_MAX = 200
"""The most characters shown of an error that backstory itself did not raise."""


def nearest(word: str, known: Collection[str]) -> str | None:
    """Return the known word that is closest to a misspelt one."""
    from difflib import get_close_matches

    return next(iter(get_close_matches(word, known, n=1, cutoff=0.7)), None)


def _meant(word: str, known: Collection[str]) -> str:
    """A question for the nearest known word; '' where none is near."""
    near = nearest(word, known)
    return f" Did you mean {near}?" if near else ""


def _quoted(path: Path) -> str:
    """A path as a shell reads it."""
    import shlex

    return shlex.quote(str(path))


class Next:
    """A command that a person can go on with, as data: each face shows it in its own words.

    ``words`` are shown as they are, a path as a shell reads it; an option that is True has no value.

    >>> str(Next("show", "SESSION", store="FILE"))
    'backstory show --store FILE SESSION'
    """

    def __init__(self, command: str, *words: str | Path, **options: str | Path | Literal[True]) -> None:
        self.command, self.words, self.options = command, words, options

    def __str__(self) -> str:
        return " ".join(["backstory", self.command, *self._option_words(), *map(_as_typed, self.words)])

    def _option_words(self) -> Iterator[str]:
        for name, value in self.options.items():
            yield f"-{name}" if len(name) == 1 else f"--{name.replace('_', '-')}"
            if value is not True:
                yield _as_typed(value)


def _as_typed(word: str | Path) -> str:
    return word if isinstance(word, str) else _quoted(word)


class BackstoryError(Exception):
    """The base class: the parts of a message, in which what to do next is data.

    ``str(error)`` is the message with commands for a terminal; ``exit_code`` is the exit code of the command.
    """

    exit_code: ClassVar[int] = 70
    """Never 1: that means that a search found nothing, or that a check found something."""
    below: Sequence[str | Next] = ()
    """The lines to show below the message, one command to copy in each."""
    candidates: Sequence[str] = ()
    """The sessions, as a command takes them, of which one was meant."""

    def __init__(self, *parts: str | Next) -> None:
        super().__init__(*parts)

    def __str__(self) -> str:
        return self.message(str)

    @property
    def next(self) -> list[str]:
        """The commands that a person can go on with, in order."""
        commands = [str(part) for part in self.args if isinstance(part, Next)]
        return [*commands, *map(str, self.below)]

    def message(self, shown: Callable[[Next], str]) -> str:
        """Return the message, with each command ``shown`` as a face shows it."""
        return "".join(shown(part) if isinstance(part, Next) else str(part) for part in self.args)


class SessionNotFound(BackstoryError):
    """No session matches the given name or uid."""

    exit_code = 66

    def __init__(self, wanted: str) -> None:
        super().__init__(f"No session matches {wanted!r}. Try: ", Next("list", all=True))


class CursorUnknown(BackstoryError):
    """A text is no cursor of a list, or of one that is sorted otherwise."""

    exit_code = 66

    def __init__(self, cursor: str) -> None:
        super().__init__(f"{cursor!r:.80} is no place in this list. Begin with its first page.")


class OutOfScope(BackstoryError):
    """An agent asked for a session that its server does not answer from."""

    exit_code = 66

    def __init__(self, wanted: str, name: str) -> None:
        super().__init__(
            f"Session {wanted!r:.80} is not of {name}, and this server answers from that alone. "
            "The person can widen it: ",
            Next("config set", "mcp.scope", "all"),
        )


def adding(package: str) -> str:
    """The command that adds a package to the installation that runs."""
    import sys
    from importlib.util import find_spec

    folders = sys.prefix.split("/")
    if "pipx" in folders:
        return f"pipx inject {folders[-1]} '{package}'"
    if find_spec("pip") is None:
        return f"uv pip install --python {sys.executable} '{package}'"
    return f"{sys.executable} -m pip install '{package}'"


class McpNotInstalled(BackstoryError):
    """The packages of the extra ``mcp`` are missing."""

    exit_code = 69

    def __init__(self) -> None:
        super().__init__(f"`backstory mcp` needs one more package. Add it with: {adding('mcp>=2.3')}")


class ScreenNotInstalled(BackstoryError):
    """The packages of the extra ``tui`` are missing."""

    exit_code = 69

    def __init__(self) -> None:
        super().__init__(f"The screen needs one more package. Add it with: {adding('textual>=8.2')}")


class PagesNotInstalled(BackstoryError):
    """The packages of the extra ``web`` are missing."""

    exit_code = 69

    def __init__(self) -> None:
        needed = "' '".join(["starlette>=1.0", "uvicorn>=0.30", "jinja2>=3.1", "markdown-it-py>=3"])
        super().__init__(f"The pages need more packages. Add them with: {adding(needed)}")


class LockNotInstalled(BackstoryError):
    """The package that encrypts files is missing."""

    exit_code = 69

    def __init__(self, what: str = "`export --password`") -> None:
        super().__init__(f"{what} needs one more package. Add it with: {adding('cryptography>=42')}")


class ServerNotInstalled(BackstoryError):
    """The packages of the extra ``server`` are missing."""

    exit_code = 69

    def __init__(self) -> None:
        super().__init__(f"The team server needs more packages. Add them with: {adding('backstory[server]')}")


class DatabaseNotStarted(BackstoryError):
    """The server's own PostgreSQL cannot be made or started. ``log``: what it says itself."""

    exit_code = 69

    def __init__(self, why: str, log: Path) -> None:
        super().__init__(f"The server's PostgreSQL does not start: {why}. What it said is in {_quoted(log)}")


class DatabaseUnusable(BackstoryError):
    """The server's database cannot be reached, or is not one that it may use."""

    exit_code = 69

    def __init__(self, why: str) -> None:
        super().__init__(f"The server's database cannot be used: {why}.")


class BackupRefused(BackstoryError):
    """A server's copy cannot be made here, or one cannot be brought back."""

    exit_code = 65

    def __init__(self, why: str) -> None:
        super().__init__(f"Nothing was changed: {why}.")


class PortTaken(BackstoryError):
    """The team server cannot listen where it was told to."""

    exit_code = 69

    def __init__(self, host: str, port: int, why: str) -> None:
        super().__init__(
            f"The server cannot listen at {host}, port {port}: {why}. Choose another: ", Next("serve", port="0")
        )


class ListeningRefused(BackstoryError):
    """The team server would be reached from other machines without encryption."""

    exit_code = 64

    def __init__(self, host: str) -> None:
        super().__init__(
            f"At {host} other machines would reach the server, and read what is sent: nothing is encrypted. "
            "Give --tls-cert and --tls-key, or say --behind-proxy if a proxy in front of it encrypts."
        )


class SyncNotInstalled(BackstoryError):
    """The package that talks to a team server is missing."""

    exit_code = 69

    def __init__(self) -> None:
        super().__init__(f"A team server needs one more package here. Add it with: {adding('httpx>=0.27')}")


class NothingMayLeave(BackstoryError):
    """A setting lets no history leave this machine. ``key``: of the setting; ``value``: one that would let it."""

    exit_code = 78

    def __init__(self, key: str, value: str) -> None:
        super().__init__("No history may leave this machine. To allow it: ", Next("config set", key, value))


class NotLoggedIn(BackstoryError):
    """This home is logged in to no team server."""

    exit_code = 77

    def __init__(self) -> None:
        super().__init__("You are logged in to no team server. Log in: ", Next("login", "ADDRESS"))


class ServerAddressWrong(BackstoryError):
    """The address of a team server cannot be used."""

    exit_code = 64

    def __init__(self, typed: str, why: str) -> None:
        super().__init__(f"{typed!r:.100} is no address of a team server that can be used: {why}.")


class ServerUnreachable(BackstoryError):
    """A team server does not answer, or what answers is none."""

    exit_code = 69

    def __init__(self, address: str, why: str) -> None:
        super().__init__(f"The team server at {address} does not answer: {why:.{REASON_CHARS_MAX}}.")


class ServerRefused(BackstoryError):
    """A team server did not do what was asked. ``status``: of HTTP; ``kind``: its own name for the reason."""

    exit_code = 64

    def __init__(self, address: str, status: int, kind: str, message: str) -> None:
        super().__init__(f"The team server at {address} refuses: {message:.{REASON_CHARS_MAX}}")
        self.status, self.kind = status, kind


class ServerOther(BackstoryError):
    """A team server speaks another version of what is said with it."""

    exit_code = 76

    def __init__(self, address: str, *, is_newer: bool) -> None:
        whom = "Update backstory here" if is_newer else "Whoever runs it has to update it"
        age = "a newer" if is_newer else "an older"
        super().__init__(
            f"The team server at {address} is of {age} backstory, which does not go with this one. {whom}."
        )


class LoginRefused(ServerRefused):
    """A team server does not know this login or code, or it may not do what was asked."""

    exit_code = 77


class ServerBusy(ServerRefused):
    """A team server cannot answer now. ``retry_s``: how long it asks to be left alone."""

    exit_code = 75

    def __init__(self, address: str, status: int, kind: str, message: str, retry_s: float = 0.0) -> None:
        super().__init__(address, status, kind, message)
        self.retry_s = retry_s


PORT_END, FREE_PORT = 65_536, 8_765
"""The number behind the last port, and one to try where no port follows."""


class NoPort(BackstoryError):
    """No port is free for the pages. ``first``: the first that was tried; ``tried``: how many."""

    exit_code = 69

    def __init__(self, first: int, tried: int) -> None:
        which = f"Port {first} is" if tried == 1 else f"The ports from {first} to {first + tried - 1} are"
        other = first + tried if first + tried < PORT_END else FREE_PORT
        super().__init__(f"{which} taken, so no pages are served. Choose another one: ", Next("web", port=str(other)))


class NoScreen(BackstoryError):
    """There is no terminal that the screen can be painted on. ``size``: of one that is too small, and the least."""

    exit_code = 2

    def __init__(self, size: str = "") -> None:
        lacking = f"a larger terminal: this one has {size}" if size else "a terminal that can be painted"
        super().__init__(f"The screen needs {lacking}. The same in plain text: `", Next("list"), "`.")


class SessionDiverged(BackstoryError):
    """Two stores have different turns of one session: one of them is an older copy, or both continued."""

    exit_code = 65

    def __init__(self, uid: str) -> None:
        super().__init__(
            f"Each of two stores has turns of session {uid} that the other one lacks. Neither was replaced. "
            "Compare them with `",
            Next("show", uid),
            "` and `",
            Next("show", uid, store="FILE"),
            "`.",
        )


class SessionsNotCopied(BackstoryError):
    """Some sessions of a store could not be copied into another one; the others were."""

    exit_code = 65

    def __init__(self, path: Path, reasons: Mapping[str, str]) -> None:
        listed = "; ".join(f"{uid}: {reason}" for uid, reason in reasons.items())
        super().__init__(
            f"{len(reasons)} session{'s' * (len(reasons) != 1)} of {path} could not be copied into the home store "
            f"({listed}). They are safe there, all others were copied, and the next command tries again."
        )


class CopiesBehind(BackstoryError):
    """Changes made elsewhere to sessions of a store could not be written into it."""

    exit_code = 75

    def __init__(self, path: Path, sessions: int, reason: str) -> None:
        super().__init__(
            f"Your changes to {sessions} session{'s' * (sessions != 1)} of {path} could not be written there "
            f"({reason}). The next `",
            Next("ingest"),
            "` tries again.",
        )


class SameStore(BackstoryError):
    """The store to merge is the one that it would be merged into."""

    exit_code = 64

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"{path} is the store that it would be merged into. Name another one, or the folder of a copy."
        )


class OtherProject(BackstoryError):
    """The store to merge holds sessions of another project."""

    exit_code = 64

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"{path} is the store of another project: no session and no folder or remote of it is known here. "
            "Nothing was changed. If you want its sessions here all the same, add --foreign."
        )


class MergeDuringRun(BackstoryError):
    """A session of one of two stores runs, so they are not merged now."""

    exit_code = 75

    def __init__(self, uid: str, what: str) -> None:
        super().__init__(
            f"Session {uid} {what}, so nothing was merged. Wait until it is over (", Next("ps"), "), and merge again."
        )


class NotASession(BackstoryError):
    """A call of the Python API got another object where it needs a session."""

    exit_code = 64

    def __init__(self, given: object) -> None:
        super().__init__(
            f"{given!r:.200} is not a session. Look it up first: store.session('S5') accepts numbers and names."
        )


class SessionAmbiguous(BackstoryError):
    """Several sessions match; the message lists them, each with a uid as its first word."""

    exit_code = 64

    def __init__(self, wanted: str, candidates: Sequence[str]) -> None:
        self.candidates = [each.partition(" ")[0] for each in candidates]
        listed = ", ".join(candidates)
        super().__init__(f"{wanted!r} matches several sessions: {listed}. Give more characters of the one you mean.")


class StoreNotFound(BackstoryError):
    """The named store does not exist."""

    exit_code = 66

    def __init__(self, path: Path) -> None:
        super().__init__(f"There is no store at {path}. Run `", Next("ingest"), "` to create one, or check --store.")


class PathNotText(BackstoryError):
    """A store lies at a path that is not UTF-8, so neither SQLite nor a column can name it."""

    exit_code = 64

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"{str(path)!a} is not UTF-8, and paths are kept as text. Nothing was changed: rename the folder, or "
            "move the project to another one."
        )


class NotAStore(BackstoryError):
    """The file named as a store is not one; it was not changed."""

    exit_code = 65

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(
            f"{path} is not a backstory store ({why}). The file was not changed; name another one with --store."
        )
        self.why = why


class StoreTooNew(BackstoryError):
    """The store was written by a newer backstory; this one could misread it."""

    exit_code = 76

    def __init__(self, path: Path, found: int, known: int) -> None:
        self.short = f"{path} has schema {found}; this version of backstory reads schemas up to {known}"
        super().__init__(f"{self.short}. Upgrade it (pipx upgrade backstory). The store was not changed.")


class StoreTooOld(BackstoryError):
    """The store was written before the first schema that was promised."""

    exit_code = 76

    def __init__(self, path: Path, found: int, revision: str) -> None:
        super().__init__(
            f"{path} has a draft of the schema ({found}), which is no longer supported. The file was not changed. "
            "Move it aside and run `",
            Next("ingest"),
            "`: every log that still exists is read again. Only this file "
            "has your runs, and the logs whose files are gone. To write those out, install the revision that reads it "
            f"(`pip install .` at {revision}) and run its `",
            Next("restore", all=True, store="FILE", to="FOLDER"),
            "`.",
        )


class NotTrusted(BackstoryError):
    """A command would change a store that came from elsewhere and that nobody has trusted."""

    exit_code = 77

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"{path} came from elsewhere: it was not created here, and nobody has trusted it. Nothing was changed. "
            "Look at it with `",
            Next("list"),
            "`; to trust it, repeat the command once with --trust.",
        )


class StoreIsMachines(BackstoryError):
    """The path of a project's store leads to the home store."""

    exit_code = 77

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"{path} leads to the home store, which belongs to no project. Nothing was changed. Remove that link, "
            "and the project gets a store of its own."
        )


class StoreBusy(BackstoryError):
    """Another process kept the store locked for longer than we wait."""

    exit_code = 75

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"{path} is locked by another process. Nothing was changed. Try again when that process is done."
        )


class QueueBusy(StoreBusy):
    """Another process held a queue's lock for longer than we wait; the message names that process."""

    def __init__(self, path: Path, waited_s: float, holder: str) -> None:
        BackstoryError.__init__(
            self,
            f"{path} was locked for {waited_s:.0f} s by {holder}. Nothing was changed. Let that process continue, or "
            "end it, then try again.",
        )


class NotQueuedNow(BackstoryError):
    """Texts could not be queued because the queue was locked; they are printed as commands to repeat."""

    exit_code = 75

    def __init__(self, refused: QueueBusy, commands: Sequence[str]) -> None:
        super().__init__(f"{refused} Your text is not lost. To queue it:")
        self.below = commands


class NotErased(BackstoryError):
    """The removed sessions are no longer found, but the file may still hold some of their bytes."""

    exit_code = 75

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(
            f"{path} may still hold parts of removed sessions: {why}. `", Next("optimize", store=path), "` erases them."
        )


class PruneRefused(BackstoryError):
    """A session cannot be pruned in part now."""

    exit_code = 75

    def __init__(self, session: str, why: str) -> None:
        self.why = why
        super().__init__(f"{session} was not pruned: {why}.")


class LogPruned(BackstoryError):
    """A log, or a file beside it, was pruned in part, so it cannot be given back as it was."""

    exit_code = 66

    def __init__(self, *, partial: bool) -> None:
        rest = "; --partial gives what is left" if partial else ""
        super().__init__(f"it was pruned in part, and what went is kept nowhere{rest}")


class StoreReadOnly(BackstoryError):
    """The store, or its folder, may not be written."""

    exit_code = 77

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"{path} cannot be written: the file, its folder or its disk is read-only. "
            "Nothing was changed; set BACKSTORY_HOME to a folder you may write, or fix the permissions."
        )


class DiskFull(BackstoryError):
    """The disk is full. Everything committed before is complete."""

    exit_code = 74

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"The disk that holds {path} is full. Everything stored before is complete. "
            "Free some space and run the command again: it continues where it stopped."
        )


class WalStuck(DiskFull):
    """The disk is so full that what was stored last cannot be moved from the WAL into the file."""

    def __init__(self, path: Path, needed: int) -> None:
        from backstory.bounds import size

        BackstoryError.__init__(
            self,
            f"The disk that holds {path} is full. Everything stored before is complete, the last of it in a file "
            f"beside it. Free {size(needed)} there and run the command again: it first gives that file's room back.",
        )


def too_little(needed: int, free: int) -> str:
    """Say that a file cannot be written anew on its disk."""
    from backstory.bounds import size

    return f"to write it anew may take {size(needed)} on its disk, which has {size(free)} left"


class NoRoomLeft(DiskFull):
    """The disk has less room than the next step of some may take: those before it are done."""

    def __init__(self, path: Path, needed: int, free: int) -> None:
        from backstory.bounds import size

        BackstoryError.__init__(
            self,
            f"The next session may take {size(needed)} for a moment on the disk that holds {path}, which has "
            f"{size(free)} left. It is as it was. Free some space and run the command again: it does the rest.",
        )


class NoRoom(BackstoryError):
    """The disk has less room than the work may take. Nothing was changed."""

    exit_code = 74

    def __init__(self, path: Path, needed: int, free: int) -> None:
        from backstory.bounds import size

        super().__init__(
            f"This may take {size(needed)} on the disk that holds {path}, which has {size(free)} left. "
            "Nothing was changed. Free some space and run the command again."
        )


class StoreDamaged(BackstoryError):
    """SQLite reports damage, or stored bytes no longer match their checksum."""

    exit_code = 65

    def __init__(self, path: Path, detail: str) -> None:
        super().__init__(
            f"{path} is damaged: {detail}. Copy it aside first. `",
            Next("verify"),
            "` lists the damage, and `",
            Next("restore", all=True, to="FOLDER"),
            "` saves everything that is intact.",
        )


class SessionDamaged(StoreDamaged):
    """A session of a store holds a value that no store of ours can hold."""

    def __init__(self, path: Path, detail: str) -> None:
        BackstoryError.__init__(
            self,
            f"A session in {path} is damaged: {detail}. Nothing of it is taken over. `",
            Next("verify"),
            "` lists such values, and `",
            Next("rm", "SESSION"),
            "` takes such a session out.",
        )


class StoreFailed(BackstoryError):
    """Any other failure of SQLite or the disk."""

    exit_code = 74

    def __init__(self, path: Path, detail: str) -> None:
        super().__init__(f"{path} could not be used: {detail}. Everything stored before is complete.")


class StoreRefused(StoreFailed):
    """A value breaks a rule of the tables. The value is at fault, not the file."""

    def __init__(self, path: Path, detail: str) -> None:
        BackstoryError.__init__(self, f"{path} did not accept a value: {detail}. Everything stored before is complete.")


STORE_CANNOT_GO_ON = (
    StoreNotFound, NotAStore, StoreTooNew, StoreTooOld, StoreBusy, StoreReadOnly, DiskFull, StoreDamaged, StoreFailed,
)  # fmt: skip


def is_for_one_only(refused: Exception) -> bool:
    """Return True if a failure concerns only one log, run or database, so that work on the others continues."""
    return isinstance(refused, StoreRefused | SessionDamaged) or not isinstance(refused, STORE_CANNOT_GO_ON)


def in_words(refused: Exception) -> str:
    """Return the reason for use in a sentence: the message of a known error, else its class and text."""
    if isinstance(refused, OSError) and refused.strerror:
        return refused.strerror
    if isinstance(refused, BackstoryError | OSError):
        return str(refused)
    # The text may be a whole record, or empty.
    said = " ".join(str(refused).split())
    said = said if len(said) <= REASON_CHARS_MAX else f"{said[:REASON_CHARS_MAX]}…"
    return f"{type(refused).__name__}: {said}" if said else type(refused).__name__


def short_reason(refused: Exception) -> str:
    """Return why a store could not be written, in one or two words where the cause is known."""
    short = {StoreBusy: "locked", StoreReadOnly: "read-only", DiskFull: "disk full", StoreNotFound: "not there"}
    return next((reason for kind, reason in short.items() if isinstance(refused, kind)), in_words(refused))


class ImportRefused(BackstoryError):
    """A file that was to be imported is none, or is not whole. ``line``: the number of its first wrong line."""

    exit_code = 65

    def __init__(self, name: str, line: int, reason: str) -> None:
        super().__init__(f"{name}, line {line}: {reason[:REASON_CHARS_MAX]}. Nothing was imported.")


class SessionNotStorable(BackstoryError):
    """A session of an import contradicts what the store holds already."""

    exit_code = 65

    def __init__(self, uid: str, reason: str) -> None:
        super().__init__(f"Session {uid} contradicts what is stored here: {reason[:REASON_CHARS_MAX]}.")


class ImportTooNew(BackstoryError):
    """A file that was to be imported has a later format."""

    exit_code = 76

    def __init__(self, name: str, found: int, known: int) -> None:
        super().__init__(
            f"{name} has format {found}; this version reads format {known}. Nothing was imported; a newer backstory "
            "reads it."
        )


class FileUnreadable(BackstoryError):
    """A file that a command was given cannot be read."""

    exit_code = 66

    def __init__(self, path: Path, detail: str) -> None:
        super().__init__(f"Cannot read {path}: {detail}.")


class ImportRunning(BackstoryError):
    """Another process imports, or syncs, at this moment."""

    exit_code = 75

    def __init__(self, what: str = "import") -> None:
        super().__init__(f"Another {what} is running. Try again when it is done.")


class NoSsh(BackstoryError):
    """The program ssh is missing."""

    exit_code = 69

    def __init__(self) -> None:
        super().__init__("There is no ssh here. Install OpenSSH's client, or go by a folder that both machines see.")


class FarNameUnusable(BackstoryError):
    """A name cannot be given to ssh, or to the far end's shell."""

    exit_code = 64

    def __init__(self, name: str) -> None:
        super().__init__(
            f"{name!r:.80} cannot be used. A machine is ssh://HOST, ssh://USER@HOST or ssh://HOST:PORT, of letters, "
            "digits, dots and dashes; give other settings a Host in ~/.ssh/config. A program is a path without blanks."
        )


class FarEndUnreachable(BackstoryError):
    """The machine at the other end does not answer."""

    exit_code = 69

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"ssh cannot reach {name}: {reason}. Try it by hand: ssh {name} true")


class FarEndLacks(BackstoryError):
    """The machine at the other end has no backstory, or its shell does not find it."""

    exit_code = 69

    def __init__(self, name: str, program: str) -> None:
        super().__init__(
            f"{name} finds no {program}. Install backstory there; if it is there, say where it is: "
            "--program ~/.local/bin/backstory"
        )


class FarEndOther(BackstoryError):
    """The backstory at the other end speaks another version of what is said between machines."""

    exit_code = 76

    def __init__(self, name: str, made_by: str, *, is_newer: bool) -> None:
        where = "here" if is_newer else f"on {name}"
        super().__init__(f"{name} has {made_by:.80}, which does not go with this one. Update backstory {where}.")


class FarEndBroken(BackstoryError):
    """The words of the other end are cut, or are not those that backstory sends."""

    exit_code = 75

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(
            f"The other end cannot be read: {reason}. What came whole is here; the same command goes on where it was."
        )


class PassphraseWrong(BackstoryError):
    """A folder was sealed with another passphrase."""

    exit_code = 77

    def __init__(self, folder: Path) -> None:
        super().__init__(f"{folder} was sealed with another passphrase. Nothing of it was read or written.")


class PassphraseMissing(BackstoryError):
    """A passphrase is needed, and nobody gave one."""

    exit_code = 64

    def __init__(self) -> None:
        super().__init__(
            "A folder is sealed with a passphrase: type it when asked, or give it in BACKSTORY_PASSPHRASE or with "
            "--passphrase-file FILE. To write it in clear, say so each time: --plain"
        )


class FileInTheWay(BackstoryError):
    """A file that a command would write already exists with other content."""

    exit_code = 73

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} exists and differs. It was not changed; choose another folder, or add --force.")


class CannotWrite(BackstoryError):
    """A file or folder a command was asked to write could not be written."""

    exit_code = 73

    def __init__(self, path: Path, detail: str) -> None:
        super().__init__(f"Cannot write {path}: {detail}. Choose a folder you may write.")


class UnknownAgent(BackstoryError):
    """No adapter has this name."""

    exit_code = 64

    def __init__(self, name: str, known: Sequence[str]) -> None:
        super().__init__(f"No agent is called {name!r}.{_meant(name, known)} Known agents: {', '.join(known)}.")


class UnknownValue(BackstoryError):
    """An option takes one of a few words, and this is none of them."""

    exit_code = 64

    def __init__(self, option: str, value: str, known: Sequence[str]) -> None:
        super().__init__(f"{option} cannot be {value!r:.80}.{_meant(value, known)} It is one of: {', '.join(known)}.")


class UnknownTool(BackstoryError):
    """No call of a tool of this name is stored."""

    exit_code = 64

    def __init__(self, name: str, known: Collection[str]) -> None:
        super().__init__(
            f"No call of a tool {name!r:.80} is stored.{_meant(name, known)} `",
            Next("stats", all=True, by="tool"),
            "` lists them.",
        )


class AgentUnusable(UnknownAgent):
    """Another package registers an agent that this version cannot load."""

    def __init__(self, name: str) -> None:
        BackstoryError.__init__(self, f"The agent {name!r} is not made for this version. Update its package.")


class ConfigBroken(BackstoryError):
    """A person's own configuration file cannot be read, or has an invalid value."""

    exit_code = 78

    def __init__(self, path: Path, detail: str) -> None:
        super().__init__(
            f"{path}: {detail}. Fix that line, or remove the file to restore the defaults. `",
            Next("config list"),
            "` shows the allowed values.",
        )


class UnknownSetting(BackstoryError):
    """The named setting does not exist."""

    exit_code = 64

    def __init__(self, key: str, known: Sequence[str]) -> None:
        super().__init__(f"There is no setting {key!r:.80}.{_meant(key, known)} Settings: {', '.join(known)}.")


class SettingRefused(BackstoryError):
    """The value is not allowed for this setting."""

    exit_code = 64

    def __init__(self, key: str, value: str, why: str) -> None:
        super().__init__(f"{key} cannot be {value!r:.80}: {why}. Nothing was changed.")


class SettingNotHere(BackstoryError):
    """The setting cannot be set for a project: it would be ignored there."""

    exit_code = 64

    def __init__(self, key: str, why: str) -> None:
        super().__init__(
            f"{key} cannot be set this way for one project: {why}. Each clone of a project brings its settings along. "
            "To set it for yourself, omit --here."
        )


class BadTime(BackstoryError):
    """A time on the command line could not be parsed."""

    exit_code = 64

    def __init__(self, text: str) -> None:
        super().__init__(
            f"Cannot read {text!r} as a time. Examples: 2026-11-21, 2026-11-21T14:00, yesterday, monday, "
            "'last week', '3 days', 2h."
        )


class Cancelled(BackstoryError):
    """Somebody ended a question before its answer was found."""

    exit_code = 130

    def __init__(self) -> None:
        super().__init__("The search was cancelled before it was finished. Repeat it for the whole answer.")


class NotConfirmed(BackstoryError):
    """A required confirmation was not given."""

    exit_code = 64

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} was not confirmed, so nothing was changed. Add --yes to skip the question.")


class AnsweredLate(BackstoryError):
    """A question was answered so late that it may be about something else by now."""

    exit_code = 75

    def __init__(self) -> None:
        super().__init__("More than a minute went by before the answer, so nothing was changed. Run it again.")


class NoRepository(BackstoryError):
    """A folder is in no git repository."""

    exit_code = 66

    def __init__(self, folder: Path) -> None:
        super().__init__(f"{folder} is in no git repository, so there is no file of instructions to add to.")


class OutsideRepository(BackstoryError):
    """A file of instructions is not in the repository, or a link leads out of it."""

    exit_code = 77

    def __init__(self, path: Path, root: Path) -> None:
        super().__init__(f"{path} is not a file of the repository {root}, or leads out of it. Nothing was changed.")


class InstructionsUnreadable(BackstoryError):
    """A file of instructions cannot be read."""

    exit_code = 66

    def __init__(self, path: Path, detail: str) -> None:
        super().__init__(f"Cannot read {path}: {detail}. Choose another file with --file.")


class InstructionsNotText(BackstoryError):
    """A file of instructions is not in UTF-8."""

    exit_code = 65

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} is not UTF-8 text, so it was not changed. Convert it, or choose another with --file.")


class NotWritable(BackstoryError):
    """A file that a command would change is read-only."""

    exit_code = 77

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} is read-only, so it was not changed.")


class FileChanged(BackstoryError):
    """A file changed after it was read to be changed."""

    exit_code = 75

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} was changed meanwhile, so it was not written. Repeat the command.")


class UncommittedChanges(BackstoryError):
    """A file would be changed that git could not bring back. ``why``: a clause."""

    exit_code = 64

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(f"{path} was not changed: {why}. Commit it first, or add --dirty.")


class OnlyToLookAt(BackstoryError):
    """Proposals from another repository's sessions cannot be written."""

    exit_code = 64

    def __init__(self) -> None:
        super().__init__(
            "With --repo the proposals are only shown: --apply writes into the repository you are in. "
            "Go to that repository, and leave --repo away."
        )


class SessionBusy(BackstoryError):
    """The session is running. ``holder`` names who runs it."""

    exit_code = 75

    def __init__(self, session: str, holder: str) -> None:
        self.holder = holder
        super().__init__(
            f"{session} is busy: {holder} is running it. Wait for it, or stop it with: ", Next("cancel", session)
        )


class RunNotStored(BackstoryError):
    """An earlier run of a session could not be stored, so no prompt that follows it can run yet."""

    exit_code = 75

    def __init__(self, session: str, folder: Path, why: str) -> None:
        super().__init__(
            f"An earlier run of {session} could not be stored ({why}), so no further prompt was run. The agent's "
            f"output is kept in {folder}. Every command tries again to store it, also after an upgrade. To continue "
            "without it, move that folder elsewhere. Other sessions are not affected."
        )


class RunUnreadable(BackstoryError):
    """A run's folder exists, but its session is unknown."""

    exit_code = 65

    def __init__(self, folder: Path) -> None:
        super().__init__(
            f"{folder} holds a run whose run.json cannot be read, so its session is unknown. The agent's output is in "
            "the file stdout there. Nothing else is affected; look at it, then move the folder elsewhere."
        )


class SessionElsewhere(BackstoryError):
    """A process on another machine runs the session."""

    exit_code = 75

    def __init__(self, session: str, pid: int, host: str) -> None:
        super().__init__(
            f"{session} is running on another machine: process {pid} on {host} was active less than 30 s ago. Wait for "
            "it, or stop it there."
        )


class QueueUnusable(BackstoryError):
    """The file of a store's queue is not a queue, or damaged; it was not changed."""

    exit_code = 65

    def __init__(self, path: Path, detail: str) -> None:
        super().__init__(
            f"{path} cannot be used as a queue ({detail}). The file was not changed. Move it aside and repeat the "
            "command. This does not affect sessions."
        )


class QueueReadOnly(BackstoryError):
    """The queue, or its folder, may not be written."""

    exit_code = 77

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"{path} cannot be written: the file, its folder or its disk is read-only. Nothing was queued or changed; "
            "fix the permissions, or run it later with: ",
            Next("run"),
        )


class NotQueued(BackstoryError):
    """No queued prompt has the given id."""

    exit_code = 66

    def __init__(self, wanted: str) -> None:
        super().__init__(f"No queued prompt matches {wanted!r}. Try: ", Next("queue list"))


class AgentMissing(BackstoryError):
    """The agent's program is not on this machine."""

    exit_code = 69

    def __init__(self, agent: str, executable: str) -> None:
        super().__init__(
            f"{agent} could not be started: there is no {executable!r} on PATH. Install it, or name it with: ",
            Next("config set", f"agents.{agent}", "/path/to/it"),
        )


class AgentNotStarted(BackstoryError):
    """The agent's program exists, but the system cannot start it."""

    exit_code = 69

    def __init__(self, agent: str, executable: str, detail: str) -> None:
        super().__init__(
            f"{agent} could not be started: {executable}: {detail}. Check that the file is a program for this machine "
            "and that its interpreter is installed."
        )


class FolderNotUsable(BackstoryError):
    """The working folder does not exist or may not be entered."""

    exit_code = 66

    def __init__(self, folder: Path | None, detail: str) -> None:
        where = f"The folder {folder}" if folder is not None else "The current folder"
        super().__init__(f"{where} cannot be used: {detail}. Change to another one, or name one with --cwd.")


class NoHome(BackstoryError):
    """The home folder is unknown."""

    exit_code = 78

    def __init__(self) -> None:
        super().__init__(
            "There is no home folder: HOME is not set. Set it, or set BACKSTORY_HOME to a folder of yours."
        )


class HomeNotAFolder(BackstoryError):
    """A file has the place of the home folder."""

    exit_code = 78

    def __init__(self, home: Path) -> None:
        super().__init__(f"The home {home} is not a folder. Set BACKSTORY_HOME to one of yours, or move that file.")


class ClockUnusable(BackstoryError):
    """The machine's clock shows a time that cannot be stored."""

    exit_code = 71

    def __init__(self) -> None:
        super().__init__("The machine's clock is after the year 2262. Correct it, and run the command again.")


class OutputFailed(BackstoryError):
    """The output cannot be written."""

    exit_code = 74

    def __init__(self, detail: str) -> None:
        super().__init__(f"The output could not be written: {detail}. Everything stored is complete.")


class OutOfMemory(BackstoryError):
    """The system has no more memory for us."""

    exit_code = 71

    def __init__(self) -> None:
        super().__init__(
            "There is not enough memory for this. Everything stored is complete. Close other programs or raise the "
            "limit (ulimit -v), and run the command again."
        )


class OutOfFiles(BackstoryError):
    """The system opens no more files for us."""

    exit_code = 71

    def __init__(self) -> None:
        super().__init__(
            "Too many files are open. Everything stored is complete. Close other programs or raise the limit "
            "(ulimit -n), and run the command again."
        )


class RestoreIncomplete(BackstoryError):
    """Some logs or sidecars could not be restored. The output above names them."""

    exit_code = 73

    def __init__(self, failed: int, wanted: int) -> None:
        super().__init__(
            f'{failed} of {wanted} files could not be restored; the reasons are above, with --json in "error". '
            "All others were written, or existed already."
        )


class NotAPlace(BackstoryError):
    """The stored path of a file leads out of the folder, or is not a valid file name."""

    exit_code = 73

    def __init__(self, name: str) -> None:
        super().__init__(f"Its stored path {name[:200]!r} is not a path inside the folder. The file was not written.")


class NoFileToReplace(BackstoryError):
    """A link, a folder or a device has the path of a file to write. It is neither followed nor replaced."""

    exit_code = 73

    def __init__(self, path: Path, kind: str) -> None:
        super().__init__(f"{path} is {kind}. It was not changed; move it away, or choose another folder.")


class AgentCannotRun(BackstoryError):
    """An agent whose logs are read, but which backstory does not run."""

    exit_code = 64

    def __init__(self, agent: str) -> None:
        super().__init__(f"backstory cannot run {agent}; it only reads its logs.")


class AgentCannotSummarise(AgentCannotRun):
    """The agent that is set to write summaries cannot be run."""

    def __init__(self, agent: str) -> None:
        BackstoryError.__init__(
            self,
            f"{agent} cannot write summaries: backstory only reads its logs. Choose another agent: ",
            Next("config set", "compaction.agent", "NAME"),
        )


class EmptyPrompt(BackstoryError):
    """The prompt is empty."""

    exit_code = 64

    def __init__(self) -> None:
        super().__init__("There is no prompt. Give it as an argument or on stdin: ", Next("run", '"Fix the test"'))


class NothingRuns(BackstoryError):
    """There is no run to stop."""

    exit_code = 66

    def __init__(self, session: str) -> None:
        super().__init__(f"{session} is not running. `", Next("ps"), "` lists running sessions.")


class NotRunning(BackstoryError):
    """A message or a follow-up is for a running session, and the session is not running."""

    exit_code = 75

    def __init__(self, session: str) -> None:
        super().__init__(
            f"{session} is not running, so nothing was sent or queued. Add --or-run to run it as a prompt now, or "
            "--no-run to queue it."
        )


class NothingToCompact(BackstoryError):
    """A session whose context has a single exchange: a summary never covers the last one."""

    exit_code = 64

    def __init__(self, session: str) -> None:
        super().__init__(
            f"There is nothing to summarise in {session}: only one exchange follows what is summarised already, and "
            "the last one always stays as it is."
        )


class CompactionRunning(BackstoryError):
    """Another process summarises the session."""

    exit_code = 75

    def __init__(self, session: str) -> None:
        super().__init__(
            f"{session} is being summarised. `", Next("ps"), "` shows it, `", Next("cancel", session), "` stops it."
        )


class CompactionFailed(BackstoryError):
    """The agent gave no text that can stand for the history. ``why``: half a sentence."""

    exit_code = 69

    def __init__(self, session: str, why: str) -> None:
        super().__init__(
            f"No summary of {session} was stored: {why}. It is tried again after the next turn; `",
            Next("compact", session, now=True),
            "` tries it now, the setting compaction.agent chooses another agent.",
        )


class TemporaryFolderUnusable(BackstoryError):
    """The folder for temporary files cannot take what an agent is asked, or its answer. ``detail``: the system's."""

    exit_code = 74

    def __init__(self, detail: str) -> None:
        super().__init__(
            f"No temporary folder could be used: {detail}. Free some space there, or set TMPDIR to another folder."
        )


class PromptNotText(BackstoryError):
    """The prompt is not UTF-8. ``at``: the position of the first invalid byte of stdin."""

    exit_code = 65

    def __init__(self, at: int | None = None) -> None:
        if at is None:
            super().__init__("The prompt is not UTF-8 text. Save it as UTF-8 and run it again; nothing was started.")
            return
        super().__init__(
            f"stdin is not UTF-8 text: byte {at} is the first invalid one. Nothing was started. Convert it first, for "
            "example with `iconv -f latin1 -t utf-8`; if it is not text, save it as a file and name that in the prompt."
        )


class StdinTooLong(BackstoryError):
    """stdin is longer than a prompt can be."""

    exit_code = 65

    def __init__(self, bytes_max: int) -> None:
        super().__init__(
            f"stdin has more than {bytes_max // 1_000_000} MB. Nothing was started. Save it as a file and name that "
            "file in the prompt: the agent can read it in parts."
        )


class StdinUnreadable(BackstoryError):
    """stdin cannot be read."""

    exit_code = 74

    def __init__(self, detail: str) -> None:
        super().__init__(f"stdin cannot be read: {detail}. Nothing was started; --no-stdin runs the prompt without it.")


class EditorMissing(BackstoryError):
    """No editor is configured, or its program does not exist."""

    exit_code = 69

    def __init__(self, wanted: str | None) -> None:
        why = f"there is no {wanted!r} on PATH" if wanted else "neither VISUAL nor EDITOR is set"
        super().__init__(
            f"There is no editor for the prompt: {why}. Set one, for example with `export EDITOR=nano`, or give "
            "the prompt as an argument or on stdin."
        )


class EditorFailed(BackstoryError):
    """The editor for the prompt failed."""

    exit_code = 69

    def __init__(self, editor: str, detail: str) -> None:
        super().__init__(f"The editor failed, so nothing was run: {editor}: {detail}.")


class PromptLeftEmpty(BackstoryError):
    """The editor was closed without a prompt."""

    exit_code = 64

    def __init__(self) -> None:
        super().__init__(
            "The prompt is empty, so nothing was run. (An editor that returns at once needs an option that makes it "
            "wait, for example EDITOR='code --wait'.)"
        )


class StoreOutdated(BackstoryError):
    """The store has the tables of an earlier version."""

    exit_code = 65

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"{path} has the tables of an earlier version. Update it with `",
            Next("reindex", derived=True, store=path),
            "`, or the home store with `",
            Next("ingest"),
            "`. If it cannot be written, update a copy: `",
            Next("backup", "FILE", store=path),
            "`.",
        )


class SqlWrong(BackstoryError):
    """SQLite cannot parse the statement, or it is not exactly one."""

    exit_code = 64

    def __init__(self, detail: str) -> None:
        super().__init__(
            f"This SQL cannot be run: {detail}. `", Next("sql", schema=True), "` lists the tables and views."
        )


class OnlyReading(BackstoryError):
    """The statement would do more than read."""

    exit_code = 77

    def __init__(self, what: str | None) -> None:
        super().__init__(f"This query is read-only{f'; {what} is not allowed' if what else ''}. Nothing was changed.")


class SqlTooSlow(BackstoryError):
    """The statement returned no row within its time limit."""

    exit_code = 75

    def __init__(self, timeout_s: float) -> None:
        super().__init__(
            f"The query returned nothing within {timeout_s:g} s. Ask for less, or raise the limit with --timeout."
        )


class SqlTooBig(BackstoryError):
    """The statement exceeds its limit for one value or for memory."""

    exit_code = 65

    def __init__(self, value_bytes: int, heap_bytes: int) -> None:
        super().__init__(
            f"The query needs a value of more than {value_bytes >> 20} MB, or more than {heap_bytes >> 20} MB of "
            "memory. Ask for less at once, for example with substr(…)."
        )


class BadPattern(BackstoryError):
    """The regular expression is invalid."""

    exit_code = 64

    def __init__(self, pattern: str, detail: str) -> None:
        super().__init__(f"Invalid regular expression {pattern!r}: {detail}. For a literal search use --exact.")


class NoSessionFits(BackstoryError):
    """The filters let no session through. ``why``: the sentence that a list says then."""

    exit_code = 66

    def __init__(self, why: str) -> None:
        super().__init__(why)


class NoSessionHere(BackstoryError):
    """No session was named, and this project has none."""

    exit_code = 66

    def __init__(self, why: str) -> None:
        """``why``: what was looked at."""
        super().__init__(
            f"{why or 'There are no sessions yet'}. Start one with `",
            Next("run", n='"…"'),
            "`, import what agents logged here with `",
            Next("ingest"),
            "`, or name one that `",
            Next("list", all=True),
            "` shows.",
        )


class SeveralRunHere(BackstoryError):
    """No session was named, and several are running here."""

    exit_code = 64

    def __init__(self, running: Mapping[str, str]) -> None:
        """``running``: what each is called on a screen, by its label."""
        self.candidates = list(running)
        called = ", ".join(running.values())
        super().__init__(f"Several sessions are running here: {called}. Name the one you mean with -S.")


class TurnNotFound(BackstoryError):
    """A session has no turn of this number."""

    exit_code = 66

    def __init__(self, session: str, turns: int) -> None:
        how = f": give -t a number from 1 to {turns}" if turns > 1 else ""
        super().__init__(f"{session} has {turns or 'no'} turn{'s' * (turns != 1)}{how}.")


class RecordNotFound(BackstoryError):
    """The session has no record with this number, or no prompt can follow it."""

    exit_code = 66

    def __init__(self, seq: int, *, is_before_turns: bool = False) -> None:
        why = "comes before the first prompt, so nothing can follow it" if is_before_turns else "is not in this session"
        super().__init__(f"@{seq} {why}. `", Next("tree"), "` shows the records.")


class BranchNotFound(BackstoryError):
    """No branch has this name or number."""

    exit_code = 66

    def __init__(self, wanted: str) -> None:
        super().__init__(
            f"No branch is called {wanted[:80]!r}. Use a name or number from `",
            Next("tree branches"),
            "`, or a record: @12.",
        )


class BranchRemoved(BackstoryError):
    """The record is on a removed branch."""

    exit_code = 66

    def __init__(self, seq: int) -> None:
        super().__init__(
            f"@{seq} is on a branch that was removed. Bring it back with: ", Next("tree restore", f"@{seq}")
        )


class NoBranches(BackstoryError):
    """The session has no turns, or no removed ones."""

    exit_code = 66

    def __init__(self, session: str, what: str) -> None:
        super().__init__(f"{session} has no {what}.")


class BoardNameUnusable(BackstoryError):
    """The name of a board's item is not kebab-case, or too long. ``proposed``: one like it that can be used, or ""."""

    exit_code = 64

    def __init__(self, name: str, proposed: str, most: int) -> None:
        instead = f" Try: {proposed}" if proposed else ""
        super().__init__(
            f"{name[:80]!r} cannot be the name of an item: names are lower-case letters and digits, in words joined by "
            f"single hyphens, at most {most} characters.{instead}"
        )


class BoardTextUnusable(BackstoryError):
    """The text of a board's item, or its description, is empty or too long."""

    exit_code = 64


class BoardFull(BackstoryError):
    """The board has as many items as it takes."""

    exit_code = 65

    def __init__(self, repository: str, branch: str, items: int) -> None:
        super().__init__(
            f"The board of {repository} ({branch}) is full: it has {items} items. Nothing was added. Make room with `",
            Next("board prune"),
            "`, which removes the agents' items read least, or `",
            Next("board rm", "NAME"),
            "`.",
        )


class BoardItemNotFound(BackstoryError):
    """The board has no item of this name."""

    exit_code = 66

    def __init__(self, name: str, known: Collection[str], repository: str, branch: str) -> None:
        super().__init__(
            f"The board of {repository} ({branch}) has no item {name[:80]!r}.{_meant(name, known)} Try: ",
            Next("board list"),
        )


class BoardItemAmbiguous(BackstoryError):
    """Both an agent and a person wrote an item of this name."""

    exit_code = 64

    def __init__(self, name: str) -> None:
        super().__init__(f"An agent and a person both wrote {name!r}. Say which one: --src agent or --src user")


class ContextUnusable(BackstoryError):
    """The key or the value cannot be set in a session's context."""

    exit_code = 64


class ContextFull(BackstoryError):
    """The context of the session has as many keys set as it takes."""

    exit_code = 65

    def __init__(self, keys: int) -> None:
        super().__init__(
            f"The session has {keys} keys set in its context, and takes no more. Nothing was set. Make room with: ",
            Next("context unset", "KEY"),
        )


class ContextKeyNotFound(BackstoryError):
    """Nobody set this key in the context of the session."""

    exit_code = 66

    def __init__(self, key: str, known: Collection[str]) -> None:
        said = f"Set are: {', '.join(each[:80] for each in sorted(known))}." if known else "None is set."
        super().__init__(f"The key {key[:80]!r} was not set in the context of this session.{_meant(key, known)} {said}")


class BranchNameTaken(BackstoryError):
    """Another branch of the session has this name."""

    exit_code = 64

    def __init__(self, name: str) -> None:
        super().__init__(f"A branch is called {name[:80]!r}. Choose another name, or: ", Next("tree unname", "NAME"))


class BranchNameUnusable(BackstoryError):
    """The name is empty, or would be read as a record or a number."""

    exit_code = 64

    def __init__(self, name: str) -> None:
        super().__init__(f"{name[:80]!r} cannot be the name of a branch: it is empty, a record (@12) or a number (3).")


class BranchShared(BackstoryError):
    """A branch that has no turn of its own."""

    exit_code = 64

    def __init__(self, branch: str) -> None:
        super().__init__(
            f"Other branches begin inside the last turn of {branch[:80]!r}, so no turn belongs to it alone. `",
            Next("tree rm", "@N"),
            "` removes the turn of record N and everything after it.",
        )


class RunsContinue(BackstoryError):
    """A session of backstory's own runs: no agent ever had a log of it as a whole."""

    exit_code = 64

    def __init__(self, session: str) -> None:
        super().__init__(
            f"{session} consists of runs of backstory, so there is no log to put back. `resume` writes one for an "
            "agent's client, and `run` continues it with any agent:"
        )
        self.below = (Next("resume", session), Next("run", '"…"', S=session))


class CannotResume(BackstoryError):
    """No agent's client can continue the session; ``why`` is a clause."""

    exit_code = 64

    def __init__(self, session: str, why: str) -> None:
        super().__init__(f"{session} cannot be resumed: {why}. `run` continues it as a session of its own:")
        self.below = (Next("run", '"…"', S=session),)


class ClientTooOld(BackstoryError):
    """The agent's client is older than the one that was seen to continue logs that we write, or says no version."""

    exit_code = 69

    def __init__(self, agent: str, found: str | None, least: str) -> None:
        is_of = f"is version {found}" if found else "does not say its version"
        super().__init__(
            f"The client of {agent} on this machine {is_of}. Logs that backstory writes need {least} or later. "
            "Nothing was written. Update the client first."
        )


class CannotHandOver(BackstoryError):
    """No log that an agent's client would find can be written on this machine; ``why`` is a clause."""

    exit_code = 69

    def __init__(self, agent: str, why: str) -> None:
        super().__init__(f"No log for {agent} can be written here: {why}. Nothing was written.")


class WrittenLogWrong(BackstoryError):
    """A log that was written anew does not say what the session says; ``how`` is a clause."""

    exit_code = 70

    def __init__(self, session: str, agent: str, how: str) -> None:
        super().__init__(
            f"{session} cannot be written as a log of {agent}: read back, {how}. Nothing was left behind. `run` "
            "continues it with any agent:"
        )
        self.below = (Next("run", '"…"', S=session, a=agent),)


class OtherLogThere(BackstoryError):
    """Another log is at the place where one would be written."""

    exit_code = 73

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} exists, and was not written from this session as it is now. It was not changed.")


class RunMissing(BackstoryError):
    """A run of a session goes on, or is over and not stored: a log that is written now would lack it."""

    exit_code = 75

    def __init__(self, session: str, *, is_running: bool) -> None:
        if is_running:
            super().__init__(
                f"An agent runs in {session}: what it does would be missing. Wait until it is done, or stop it:"
            )
            self.below = (Next("cancel", session),)
        else:
            super().__init__(f"A run of {session} is over and not stored yet. This stores it:")
            self.below = (Next("ingest"),)


class SessionNotTrusted(BackstoryError):
    """A session came with a store from elsewhere that nobody has trusted."""

    exit_code = 77

    def __init__(self, path: str) -> None:
        super().__init__(
            f"This session came with {path}, which was not created here and which nobody has trusted. Nothing was "
            "started or written. Read it with `",
            Next("show"),
            "`; to trust it, repeat the command with --trust in that project.",
        )


class FolderGone(BackstoryError):
    """The folder of a session does not exist any more."""

    exit_code = 66

    def __init__(self, folder: str | None) -> None:
        where = f"was in {folder}, which is gone" if folder else "does not say in which folder it was"
        from pathlib import Path  # the folder is what a log says, and the command may be pasted

        moved: list[str | Next] = [" If it was moved: ", Next("project move", Path(folder), "NEW")] if folder else []
        super().__init__(f"The session {where}. Name the folder to resume it in: --cwd DIR.", *moved)


class HomeWasMoved(BackstoryError):
    """The home was moved to another folder; a command that acted in the old one would begin an empty store."""

    exit_code = 78

    def __init__(self, home: Path, to: Path) -> None:
        import os

        anew = f" (it cannot be reached now; to begin anew here, remove {home / 'moved-to'})"
        gone = "" if os.access(to, os.X_OK) else anew
        super().__init__(f"The home {home} was moved to {to}{gone}: set BACKSTORY_HOME={_quoted(to)}")


class HomeIsMoving(BackstoryError):
    """Another process moves the home now."""

    exit_code = 75

    def __init__(self, home: Path, to: Path) -> None:
        super().__init__(
            f"The home {home} is being moved to {to} by another process. Nothing was changed. "
            "Try again when it is done."
        )


class HomeNotWhole(BackstoryError):
    """A move into this folder was not finished, so what it holds may be half of a home. ``mark``: what says so."""

    exit_code = 75

    def __init__(self, home: Path, source: Path, mark: Path) -> None:
        super().__init__(
            f"{home} does not have all of {source} yet: moving it was not finished. To finish it: ",
            Next("migrate-home", source, home),
            f" (to use {home} as it is, remove {mark})",
        )


class HomeInUse(BackstoryError):
    """Something works in the home or a store, so it is not moved or removed now. ``what``: a clause that names it."""

    exit_code = 75

    def __init__(self, home: Path, what: str, until: str = "Wait until it is over", *, done: str = "moved") -> None:
        super().__init__(f"{what}, so {home} was not {done}. {until}, and repeat the command.")


class HomeHasStore(BackstoryError):
    """There is a store where a home would be moved to. Neither was changed."""

    exit_code = 73

    def __init__(self, source: Path, to: Path) -> None:
        super().__init__(
            f"{to} has a store already, and two stores do not become one by moving. Nothing was moved. Either move "
            "to another folder, or merge them, and then use that folder:"
        )
        self.below = [
            f"BACKSTORY_HOME={_quoted(to)} backstory merge --foreign --trust --store {_quoted(to / 'store.db')} "
            f"{_quoted(source / 'store.db')}"
        ]


class HomeNotMoved(BackstoryError):
    """A home cannot be moved as a person said. ``why`` is a sentence or two."""

    exit_code = 64

    def __init__(self, why: str) -> None:
        super().__init__(f"Nothing was moved. {why}")


class HomeNotFound(BackstoryError):
    """The folder to move is no home of ours, or the home that was moved is not where it was moved to."""

    exit_code = 66

    def __init__(self, source: Path, why: str) -> None:
        super().__init__(f"{source} {why}. Nothing was moved.")


class HomeOfOther(BackstoryError):
    """A folder of a move belongs to another user."""

    exit_code = 77

    def __init__(self, folder: Path) -> None:
        super().__init__(f"{folder} belongs to another user. Nothing was moved; choose a folder of your own.")


class HomeCopyDiffers(BackstoryError):
    """A copy differs from its source when read back. The old home stays in use."""

    exit_code = 74

    def __init__(self, path: Path, detail: str) -> None:
        super().__init__(
            f"{path} did not pass the check: {detail}. The old home was not changed and stays in use; check the disk, "
            "and repeat the command."
        )


class IndexOff(BackstoryError):
    """There is no search index, because the settings say so."""

    exit_code = 78

    def __init__(self) -> None:
        super().__init__(
            "The search index is off (index.enabled). Turn it on: ",
            Next("config set", "index.enabled", "true"),
            " (or unset BACKSTORY_INDEX_ENABLED). Then build it: ",
            Next("reindex"),
        )


class MoveRefused(BackstoryError):
    """A folder cannot have been moved as a person said. ``why`` is a sentence or two."""

    exit_code = 64

    def __init__(self, why: str) -> None:
        super().__init__(f"Nothing was changed. {why}")


class FolderNotKnown(BackstoryError):
    """No session is known in a folder that is said to be moved. ``gone``: folders of sessions that are gone."""

    exit_code = 66

    def __init__(self, folder: str, gone: Sequence[str]) -> None:
        known = f"Folders of sessions that are gone: {', '.join(gone)}" if gone else "No folder of a session is gone."
        super().__init__(f"No session was in {folder}. {known}")


class NotMoved(BackstoryError):
    """Nobody said that a folder was moved. ``known``: those that were."""

    exit_code = 66

    def __init__(self, folder: str, known: Sequence[str]) -> None:
        moved = f"Moved folders: {', '.join(known)}" if known else "No folder was."
        super().__init__(f"{folder} was not moved. {moved}")


class InUseNow(BackstoryError):
    """The agent's own client is at work in a session, or was a moment ago. ``how`` is a clause."""

    exit_code = 75

    def __init__(self, session: str, how: str) -> None:
        super().__init__(f"{session} is in use: {how}. Close it there first, or add --force.")


class LogDiffers(BackstoryError):
    """A log at the place of one to put back has other content, or less."""

    exit_code = 73

    def __init__(self, path: Path, original: str, *, is_shorter: bool) -> None:
        how = "is only the beginning of" if is_shorter else "differs from"
        super().__init__(
            f"{path} {how} the log that the store has, which was read from {original}. It was not changed. Compare "
            "them with `",
            Next("restore", "SESSION", to="FOLDER"),
            "`, and move one of them away.",
        )


class LogNotRead(BackstoryError):
    """A log has changed since it was last read, so what would be put back is not all of the session."""

    exit_code = 75

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"{path} has changed since it was last read. Nothing was put back; first run: ", Next("ingest")
        )


class LogAppeared(BackstoryError):
    """Another process made a file while one was put in its place."""

    exit_code = 75

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} was created by another process at this moment. It was not changed. Try again.")


class IndexFailed(BackstoryError):
    """The agent's own database could not be made to lead to a log."""

    exit_code = 75

    def __init__(self, agent: str, reason: str) -> None:
        super().__init__(
            f"The database of {agent} could not be changed ({reason}), so nothing else was. Close its client, and "
            "repeat the command."
        )


class PutFileChanged(BackstoryError):
    """A file that was put somewhere is not what it was then."""

    exit_code = 73

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"{path} has changed since it was put back, so it belongs to the agent by now. Nothing was removed."
        )


class NothingPutBack(BackstoryError):
    """There is nothing to undo."""

    exit_code = 66

    def __init__(self, session: str) -> None:
        super().__init__(f"Nothing was put back for {session}, or it was removed already.")


class NoteUnreadable(BackstoryError):
    """The note of files put back for a session cannot be read."""

    exit_code = 65

    def __init__(self, path: Path, detail: str) -> None:
        super().__init__(f"{path} says which files were put back, and cannot be read ({detail[:200]}). Move it aside.")


class NoGit(BackstoryError):
    """The program git is needed, and not on this machine."""

    exit_code = 69

    def __init__(self) -> None:
        super().__init__("There is no `git` on PATH, and it is asked who wrote what. Install it.")


class GitFailed(BackstoryError):
    """Git could not answer. ``detail``: what it said."""

    exit_code = 69

    def __init__(self, detail: str) -> None:
        self.detail = detail[:REASON_CHARS_MAX]
        super().__init__(f"git could not answer: {self.detail}. Check the repository with `git status`.")


class NotInRepository(BackstoryError):
    """The folder is in no repository of git."""

    exit_code = 66

    def __init__(self, folder: Path) -> None:
        super().__init__(f"{folder} is in no git repository with files. Run this in one, or name a pull request's URL.")


class FileNotHere(BackstoryError):
    """The name given is no file of this repository."""

    exit_code = 66

    def __init__(self, path: str, *, is_folder: bool = False) -> None:
        what = "is a folder: name a file in it" if is_folder else "is no file of this repository"
        super().__init__(f"{path} {what}.")


class NothingToBlame(BackstoryError):
    """The name given is neither a file, nor a commit, nor a pull request."""

    exit_code = 66

    def __init__(self, wanted: str) -> None:
        super().__init__(
            f"{wanted[:80]!r} is no file or commit of this repository, and no pull request. "
            "Name one as src/a.py, src/a.py:12, 1a2b3c4, #12 or owner/repo#12."
        )


class LinesNotThere(BackstoryError):
    """A file does not have the lines that were named."""

    exit_code = 64

    def __init__(self, path: str, wanted: str, lines: int) -> None:
        super().__init__(f"{path} has no line {wanted}: its lines are 1 to {lines}." if lines else f"{path} is empty.")


class FileIsBinary(BackstoryError):
    """A file has no lines of text."""

    exit_code = 65

    def __init__(self, path: str) -> None:
        super().__init__(f"{path} is binary, so it has no lines. Name the commit that changed it: `git log`.")


class BaselineUnusable(BackstoryError):
    """A file that should have the fingerprints of accepted secrets has none that fit here."""

    exit_code = 65

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(f"{path} cannot be the baseline: {why}. Name another file, or move it aside.")


class InstallNoteUnreadable(BackstoryError):
    """The note of changes to another program's settings cannot be read."""

    exit_code = 65

    def __init__(self, path: Path, detail: str) -> None:
        super().__init__(
            f"{path} says what was put into an agent's settings, and cannot be read ({detail[:200]}). Move it aside."
        )


class SettingsUnusable(BackstoryError):
    """An agent's settings that cannot be changed by one entry alone. ``why`` is said behind "it"."""

    exit_code = 65

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(
            f"{path} was left as it is: it {why}. Put it right, or change it by hand; `backstory mcp` is the server."
        )


class SettingsReadOnly(BackstoryError):
    """An agent's settings may not be written."""

    exit_code = 77

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} was left as it is: it is read-only. Allow writing it (chmod u+w), and repeat this.")


class SettingsChanged(BackstoryError):
    """Another program changed a file between reading and writing it."""

    exit_code = 75

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} was changed at this moment by another program. It was left as it is; try again.")


class EntryNotOurs(BackstoryError):
    """The settings have an entry of our name that was not added from here."""

    exit_code = 73

    def __init__(self, path: Path, name: str) -> None:
        super().__init__(
            f"{path} has another server called {name!r}, or one that was changed by hand. It was left alone. "
            "Remove or rename that entry there, and repeat this."
        )


class FileNotOurs(BackstoryError):
    """There is a skill or a timer of our name that was not written from here, or that was changed."""

    exit_code = 73

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"{path} was not written by backstory, or was changed since. It was left alone. Move it aside, and repeat "
            "this."
        )


class LineNotOurs(BackstoryError):
    """A line of the crontab that was written from here, and that somebody changed."""

    exit_code = 73

    def __init__(self, line: str) -> None:
        super().__init__(
            f"This line of your crontab was changed by hand, and left alone: {line} Take it out with `crontab -e`, "
            "and repeat this."
        )


class NotInstalled(BackstoryError):
    """There is nothing to uninstall."""

    exit_code = 66

    def __init__(self, name: str, path: Path) -> None:
        super().__init__(f"There is no {name} in {path}, so nothing was changed.")


class AgentWithout(BackstoryError):
    """An agent whose client has no such settings."""

    exit_code = 64

    def __init__(self, agent: str, what: str, known: Sequence[str]) -> None:
        super().__init__(f"backstory knows no {what} of {agent}. Agents with {what}: {', '.join(known)}.")


class NoTimers(BackstoryError):
    """Nothing on this machine starts programs by the clock, or it refused. ``why`` is a sentence without its stop."""

    exit_code = 69

    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__(f"{why}, so nothing was scheduled. Have what you use instead start: ", Next("ingest"))


class ProgramNotUsable(BackstoryError):
    """This program could not be started by another one."""

    exit_code = 69

    def __init__(self, command: Sequence[str], why: str) -> None:
        super().__init__(
            f"Another program could not start {' '.join(command)!a} ({why}), so nothing was written. Install backstory "
            "with pipx, and run the installed one."
        )
