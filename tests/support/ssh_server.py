"""An sshd on loopback with throw-away keys and an ``ssh`` that knows it; or an ``ssh`` that runs the far end itself."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Mapping

WAIT_S = 120.0
PLACES = "/usr/sbin:/usr/local/sbin:/sbin"
NEEDED = ("sshd", "ssh", "ssh-keygen")


def need_sshd() -> dict[str, str]:
    """The programs. Skip where one is missing; fail where that is demanded."""
    found = {name: shutil.which(name, path=f"{os.environ['PATH']}:{PLACES}") for name in NEEDED}
    if missing := [name for name, path in found.items() if path is None]:
        why = f"NOT TESTED over ssh: {', '.join(missing)} is not here (`apt-get install openssh-server openssh-client`)"
        if os.environ.get("CI") == "true":
            pytest.fail(why, pytrace=False)
        pytest.skip(why)
    return {name: path for name, path in found.items() if path is not None}


class SshServer:
    """A server in a folder. ``far``: the variables of what runs at its end. ``bin``: the folder with our ``ssh``."""

    def __init__(self, folder: Path, far: Mapping[str, str]) -> None:
        self._programs = need_sshd()
        folder.mkdir(mode=0o700)
        self.port, self.bin = _free_port(), folder / "bin"
        self.bin.mkdir()
        for name in ("host", "mine"):
            words = [self._programs["ssh-keygen"], "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
            subprocess.run(words, check=True)
        (folder / "authorized").write_bytes((folder / "mine.pub").read_bytes())
        (folder / "known").write_text(f"[127.0.0.1]:{self.port} {(folder / 'host.pub').read_text()}")
        variables = " ".join(f'"{name}={value}"' for name, value in far.items())
        (folder / "sshd_config").write_text(
            f"ListenAddress 127.0.0.1\nPort {self.port}\nHostKey {folder / 'host'}\nPidFile none\nUsePAM no\n"
            f"AuthorizedKeysFile {folder / 'authorized'}\nStrictModes no\nPasswordAuthentication no\n"
            f"KbdInteractiveAuthentication no\nPermitRootLogin prohibit-password\nSetEnv {variables}\n"
        )
        (folder / "ssh_config").write_text(
            f"Host *\n  IdentityFile {folder / 'mine'}\n  IdentitiesOnly yes\n  UserKnownHostsFile {folder / 'known'}\n"
            "  StrictHostKeyChecking yes\n  GlobalKnownHostsFile /dev/null\n"
        )
        script = self.bin / "ssh"
        script.write_text(f'#!/bin/sh\nexec {self._programs["ssh"]} -F {folder / "ssh_config"} "$@"\n')
        script.chmod(0o755)
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        self._process = subprocess.Popen(
            [self._programs["sshd"], "-D", "-e", "-f", str(folder / "sshd_config")], stderr=subprocess.PIPE
        )
        self._wait()

    @property
    def url(self) -> str:
        return f"ssh://127.0.0.1:{self.port}"

    def stop(self) -> None:
        self._process.terminate()
        self._process.communicate(timeout=WAIT_S)

    def _wait(self) -> None:
        until = time.monotonic() + WAIT_S
        while time.monotonic() < until:
            if self._process.poll() is not None:
                pytest.fail(f"sshd ended: {self._process.communicate()[1].decode()}")
            with socket.socket() as tried:
                if tried.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.02)
        pytest.fail("sshd does not listen")


def _free_port() -> int:
    with socket.socket() as tried:
        tried.bind(("127.0.0.1", 0))
        return int(tried.getsockname()[1])


def program_folder(folder: Path) -> Path:
    """A folder with a program called ``backstory``: this one."""
    folder.mkdir(exist_ok=True)
    script = folder / "backstory"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -m backstory "$@"\n')
    script.chmod(0o755)
    return folder


def own_ssh(folder: Path, then: str) -> Path:
    """A folder with an ``ssh`` that does this, in a shell, with the words for the far end as its arguments."""
    folder.mkdir(exist_ok=True)
    script = folder / "ssh"
    script.write_text(f'#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done\nshift 2\n{then}\n')
    script.chmod(0o755)
    return folder
