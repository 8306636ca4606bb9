"""The files by which a team's server is run say what the program takes."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from backstory.cli.commands.serve_command import PORT
from backstory.cli.commands.serve_command import command as serve

DEPLOY = Path(__file__).parent.parent / "deploy"
UNIT = DEPLOY / "backstory-server.service"


def typed_in_the_image() -> list[str]:
    said = (DEPLOY / "Dockerfile").read_text("utf-8")
    words = [json.loads(found) for found in re.findall(r"^(?:ENTRYPOINT|CMD) (\[.*\])$", said, re.MULTILINE)]
    return [each for some in words for each in some]


def typed_by_the_unit() -> list[str]:
    (line,) = re.findall(r"^ExecStart=(.*)$", UNIT.read_text("utf-8"), re.MULTILINE)
    return shlex.split(line)


@pytest.mark.parametrize("typed", [typed_in_the_image, typed_by_the_unit])
def test_the_command_that_is_run_is_one(typed: object) -> None:
    assert callable(typed)
    program, name, *words = typed()
    assert (Path(program).name, name) == ("backstory", "serve")
    given = serve.make_context("serve", words).params
    assert str(given["log"]) == "-"


def test_what_reaches_the_server_asks_at_its_port() -> None:
    for name, place in (("Dockerfile", f"127.0.0.1:{PORT}/v1/ready"), ("Caddyfile", f"backstory:{PORT}"),
                        ("compose.yaml", f'- "{PORT}"'), ("Dockerfile", f"EXPOSE {PORT}")):  # fmt: skip
        assert place in (DEPLOY / name).read_text("utf-8")


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not here, which checks units")
def test_systemd_understands_the_unit(tmp_path: Path) -> None:
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text("utf-8").replace("/usr/local/bin/backstory", sys.executable), "utf-8")
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
