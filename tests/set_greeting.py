"""Writes what the MCP server answers first anew, as its library answers: ``python -m tests.set_greeting``."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from backstory.mcp.lobby import GREETING, INITIALIZE, LIST
from tests.support.mcp_client import Client


def answers_of_the_library(home: Path) -> dict[str, Any]:
    """The greeting, and the tools, of a server whose client asks something else first."""
    client = Client(home, {"HOME": str(home), "BACKSTORY_HOME": str(home / "backstory"), "PATH": os.environ["PATH"]})
    client.ask("ping")
    said, tools = client.begin()["result"], client.ask(LIST)["result"]
    client.close()
    del said["protocolVersion"], said["serverInfo"]["version"]
    return {INITIALIZE: said, LIST: tools, "versions": list(HANDSHAKE_PROTOCOL_VERSIONS)}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        GREETING.write_text(json.dumps(answers_of_the_library(Path(folder)), indent=1, ensure_ascii=False) + "\n")
