"""The server as a client meets it: a process on pipes, whatever the client sends."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import closing
from typing import TYPE_CHECKING, Any

import anyio
import apsw
import pytest
from mcp_types import CallToolRequestParams

from backstory.cli.app import App
from backstory.mcp.answer import CHARS_MAX
from backstory.mcp.kept import KeptWorkspace
from backstory.mcp.lobby import GREETING
from backstory.mcp.server import _Calls
from backstory.mcp.tools import TOOLS
from backstory.mcp.transport import LINE_BYTES_MAX, WAITING_MAX
from backstory.store.file.migrate import SCHEMA_VERSION
from backstory.workspace.history import agent_history
from backstory.workspace.history.agent_history import AgentHistory
from tests.set_greeting import answers_of_the_library
from tests.support.going import until
from tests.support.mcp_client import HERE, NOBODY, answered, asked

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.mcp_client import Client, History

pytestmark = pytest.mark.slow
QUESTIONS: dict[str, dict[str, Any]] = {
    "search_sessions": {"query": "parser"}, "get_session": {"session": HERE}, "recap": {"session": HERE},
    "expand": {"session": HERE, "from_seq": 1, "to_seq": 2}, "find_fix": {"error": "it fails"},
    "file_history": {"path": "parser.py"}, "stats": {}, "session_store_sql": {"sql": "select 1"},
    "board": {"action": "add", "name": "n", "content": "c", "description": "d"},
}  # fmt: skip
PARSE_ERROR, INVALID_REQUEST, NO_METHOD, INVALID_PARAMS = -32700, -32600, -32601, -32602
MODERN = "2026-07-28"
KB = 1024


@pytest.fixture
def client(shared: History) -> Iterator[Client]:
    """A client that has shaken hands, and ends in peace."""
    client = shared.client()
    client.begin()
    yield client
    assert client.close() == (0, "")


def call(number: int, tool: str, **arguments: Any) -> dict[str, Any]:
    params = {"name": tool, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


def lines(*messages: Any) -> bytes:
    return b"".join(json.dumps(each).encode() + b"\n" for each in messages)


def memory_kb(client: Client, name: str = "VmRSS") -> int:
    with open(f"/proc/{client.process.pid}/status") as status:  # noqa: PTH123 - a file of the kernel
        return int(next(line for line in status if line.startswith(f"{name}:")).split()[1])


# the protocol


def test_the_server_says_what_it_is_and_which_tools_only_read(shared: History) -> None:
    client = shared.client()
    said = client.begin()["result"]
    assert said["serverInfo"]["name"] == "backstory"
    assert "never instructions" in said["instructions"]
    tools = {each["name"]: each for each in client.ask("tools/list")["result"]["tools"]}
    assert tools.keys() == TOOLS.keys()
    assert {name for name, tool in tools.items() if not tool["annotations"]["readOnlyHint"]} == {"board"}
    assert tools["search_sessions"]["inputSchema"]["required"] == ["query"]
    assert client.close() == (0, "")


@pytest.mark.parametrize("is_open", [True, False])
def test_a_server_that_is_older_than_its_store_says_at_each_call_to_restart_it(history: History, is_open: bool) -> None:
    client = history.client()
    client.begin()
    if is_open:
        assert not client.call("search_sessions", query="parser").is_error
    assert QUESTIONS.keys() == TOOLS.keys()
    with closing(apsw.Connection(str(history.shell.store))) as db:
        db.execute("update meta set value = ? where key = 'schema_version'", (str(SCHEMA_VERSION + 1),))
        version = db.execute("pragma data_version").fetchone()
        said = [client.call(tool, **arguments) for tool, arguments in QUESTIONS.items() for _ in range(2)]
        assert db.execute("pragma data_version").fetchone() == version
    assert [(each.is_error, each.text.count("restart this client")) for each in said] == [(True, 1)] * len(said)
    assert all(f"reads schemas up to {SCHEMA_VERSION}. " in each.text for each in said)
    # Nothing of it on stderr: the agent passes it on.
    assert client.close() == (0, "")


def test_the_first_answers_are_those_of_the_library(tmp_path: Path) -> None:
    assert json.loads(GREETING.read_bytes()) == answers_of_the_library(tmp_path), "python -m tests.set_greeting"


def test_the_definitions_of_all_tools_are_short() -> None:
    """A client gives them to its model with every request."""
    tools = json.loads(GREETING.read_bytes())["tools/list"]
    assert len(json.dumps(tools, ensure_ascii=False, separators=(",", ":"))) <= 7_000


@pytest.mark.parametrize("asked", ["2024-11-05", "2025-11-25", "1999-01-01"])
def test_a_version_of_the_protocol_is_agreed_on_as_by_the_library(shared: History, asked: str) -> None:
    said = []
    for first in ((), ("ping",)):
        client = shared.client()
        for method in first:
            client.ask(method)
        info = {"name": "test", "version": "1"}
        said.append(client.ask("initialize", protocolVersion=asked, capabilities={}, clientInfo=info)["result"])
        client.close()
    assert said[0] == said[1]


def test_a_client_has_its_tools_before_anything_is_imported(shared: History) -> None:
    client = shared.client()
    client.begin()
    client.ask("tools/list")
    # A tenth of a second; half a second with the library.
    assert cpu_s(client) <= 0.2
    assert client.ask("ping")["result"] == {}
    assert client.close() == (0, "")


def test_a_server_that_was_only_asked_for_its_tools_ends_with_its_client(shared: History) -> None:
    client = shared.client()
    client.begin()
    assert client.close() == (0, "")


@pytest.mark.parametrize("line", [b"{}\n", b"nonsense\n", b'{"jsonrpc":"2.0","id":null,"method":"tools/list"}\n'])
def test_nonsense_before_the_handshake_is_the_librarys_to_answer(shared: History, line: bytes) -> None:
    client = shared.client()
    client.write(line)
    assert "error" in client.read()
    assert client.begin()["result"]["serverInfo"]["name"] == "backstory"
    assert client.close() == (0, "")


def test_a_client_of_the_newer_protocol_needs_no_handshake(shared: History) -> None:
    client, meta = shared.client(), {
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }  # fmt: skip
    assert MODERN in client.ask("server/discover", _meta=meta)["result"]["supportedVersions"]
    found = client.ask("tools/call", name="search_sessions", arguments={"query": "marmot"}, _meta=meta)
    assert "marmot" in found["result"]["content"][0]["text"]
    assert client.close() == (0, "")


def test_every_tool_answers(client: Client) -> None:
    every: dict[str, dict[str, Any]] = {
        "search_sessions": {"query": "parser"}, "get_session": {"session": HERE},
        "expand": {"session": HERE, "from_seq": 1, "to_seq": 3}, "find_fix": {"error": "QuokkaError: unexpected token"},
        "file_history": {"path": "parser.py"}, "session_store_sql": {"query": "select uid from sessions"},
        "board": {"action": "list"}, "recap": {"session": HERE}, "stats": {"by": "tool", "status": "completed"},
    }  # fmt: skip
    assert every.keys() == TOOLS.keys()
    for tool, arguments in every.items():
        said = client.call(tool, **arguments)
        assert not said.is_error
        assert len(said.text) <= CHARS_MAX
    assert client.ask("ping")["result"] == {}


def test_wrong_arguments_are_answered_with_what_is_wrong(client: Client) -> None:
    wrong: list[tuple[str, dict[str, Any], str]] = [
        ("search_sessions", {}, "missing required field `query`"),
        ("search_sessions", {"query": "x", "limit": 0}, "`int` >= 1"),
        ("search_sessions", {"query": "x", "limit": 51}, "`int` <= 50"),
        ("search_sessions", {"query": ["x"]}, "Expected `str`"),
        ("search_sessions", {"query": "x" * 3000}, "length <= 2000"),
        ("search_sessions", {"query": "x", "since": "soonish"}, "soonish"),
        ("search_sessions", {"query": "x", "nonsense": 1}, "unknown field `nonsense`"),
        ("search_sessions", {"query": "x", "status": "done"}, "status cannot be 'done'"),
        ("search_sessions", {"query": "x", "repo": ["x"]}, "Expected `str`"),
        ("stats", {"role": "user"}, "unknown field `role`"),
        ("get_session", {"session": HERE, "max_chars": 20001}, "`int` <= 20000"),
        ("get_session", {"session": "nobody"}, "No session matches"),
        ("expand", {"session": HERE, "from_seq": -1, "to_seq": 1}, "`int` >= 0"),
        ("session_store_sql", {"query": "drop table sessions"}, "read-only"),
        ("board", {"action": "format"}, "Invalid enum value"),
    ]  # fmt: skip
    for tool, arguments, why in wrong:
        said = client.call(tool, **arguments)
        assert said.is_error, (tool, arguments)
        assert why in said.text, said.text
    # What models write for a number, and for what they leave out.
    assert not client.call("search_sessions", query="parser", limit="5", agent=None).is_error


# bad clients


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"hello", PARSE_ERROR), (b"{", PARSE_ERROR), (b"\xff\xfe\x00", PARSE_ERROR), (b"[" * 100_000, PARSE_ERROR),
        (b"[]", INVALID_REQUEST), (b"null", INVALID_REQUEST), (b"1", INVALID_REQUEST), (b"{}", INVALID_REQUEST),
        (b'{"jsonrpc":"1.0","id":1,"method":"ping"}', INVALID_REQUEST),
        (b'{"jsonrpc":"2.0","id":{},"method":"ping"}', INVALID_REQUEST),
        (b'{"jsonrpc":"2.0","id":1,"method":7}', INVALID_REQUEST),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}', INVALID_REQUEST),
        (b'{"jsonrpc":"2.0","id":1,"method":"no/such"}', NO_METHOD),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"half":"\\ud83d"}}', PARSE_ERROR),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call"}', INVALID_PARAMS),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"nope"}}', INVALID_PARAMS),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"board","arguments":"x"}}', INVALID_PARAMS),
    ],
)  # fmt: skip
def test_nonsense_is_answered_with_an_error_and_the_next_call_as_ever(client: Client, line: bytes, code: int) -> None:
    client.write(line + b"\n")
    refused = client.read()
    assert refused["error"]["code"] == code
    if b'"id":1' in line:
        assert refused["id"] == 1
    assert "marmot" in client.call("search_sessions", query="marmot").text


def test_what_needs_no_answer_gets_none(client: Client) -> None:
    for line in (
        b"", b"   ", b'{"jsonrpc":"2.0","method":"notifications/nonsense"}', b'{"jsonrpc":"2.0","id":99,"result":{}}',
        b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":12345}}',
        b'{"jsonrpc":"2.0","id":98,"error":{"code":1,"message":"x"}}', b'{"jsonrpc":"2.0","method":"ping"}',
    ):  # fmt: skip
        client.write(line + b"\n")
    assert client.ask("ping")["result"] == {}


def test_a_line_without_end_takes_no_memory(client: Client) -> None:
    client.call("search_sessions", query="marmot")
    before = memory_kb(client, "VmHWM")
    block = b'{"jsonrpc":"2.0","id":7,"method":"' + b"x" * (KB * KB)
    for _ in range(100):
        client.write(block)
    client.write(b'"}\n')
    refused = client.read()
    assert refused["error"]["code"] == INVALID_REQUEST
    assert f"{LINE_BYTES_MAX:,} bytes" in refused["error"]["message"]
    assert memory_kb(client, "VmHWM") - before < 24 * KB
    assert "marmot" in client.call("search_sessions", query="marmot").text


def test_a_line_up_to_the_limit_is_read(client: Client) -> None:
    padded = json.dumps(call(5, "search_sessions", query="marmot")).encode()
    client.write(padded + b" " * (LINE_BYTES_MAX - len(padded)) + b"\n")
    assert "marmot" in client.read()["result"]["content"][0]["text"]


def test_a_flood_is_answered_in_order_and_takes_no_memory(client: Client) -> None:
    """More requests than wait at once: the rest stays in the pipe, and the client waits."""
    client.call("search_sessions", query="marmot")
    before, count = memory_kb(client), WAITING_MAX * 20
    writer = subprocess.Popen(
        [sys.executable, "-c", "import sys; sys.stdout.write(sys.stdin.read() * int(sys.argv[1]))", str(count)],
        stdin=subprocess.PIPE, stdout=client.process.stdin,
    )  # fmt: skip
    writer.communicate((json.dumps(call(3, "search_sessions", query="marmot")) + "\n").encode(), timeout=60)
    for _ in range(count):
        assert "marmot" in client.read()["result"]["content"][0]["text"]
    assert memory_kb(client) - before < 24 * KB


def test_a_cancelled_call_is_not_answered_and_blocks_nothing(client: Client) -> None:
    for number in range(100, 100 + WAITING_MAX * 3):
        client.send(call(number, "session_store_sql", query=ENDLESS if number == 100 else "select 1"))
        if number < 100 + WAITING_MAX - 1:
            cancelled = {"requestId": number, "reason": "test"}
            client.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancelled})
    client.send({"jsonrpc": "2.0", "id": 999, "method": "ping"})
    answered_to = set[int]()
    while 999 not in answered_to:
        answered_to.add(client.read()["id"])
    assert 100 not in answered_to


def test_a_cancelled_statement_ends(shared: History, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would last for an hour."""
    monkeypatch.setattr(agent_history, "SQL_TIMEOUT_S", 3_600.0)
    kept = Kept(shared)
    query = "with recursive n(x) as (select 1 union all select x + 1 from n) select max(x) from n"
    params = CallToolRequestParams(name="session_store_sql", arguments={"query": query})

    async def cancel() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_Calls(kept, lambda _: None).call, None, params)
            while not kept.was_asked:
                await anyio.sleep(0.01)
            tasks.cancel_scope.cancel()

    try:
        anyio.run(cancel)
    finally:
        kept.close()


class Kept(KeptWorkspace):
    """The history of a machine, in this process. ``was_asked``: a call has begun to answer."""

    was_asked = False

    def __init__(self, machine: History) -> None:
        app = App(machine.shell.environ, machine.work)
        super().__init__(app.new_workspace, app.user_home, NOBODY, ())

    def history(self, *asked: Any) -> AgentHistory:
        self.was_asked = True
        return super().history(*asked)


ENDLESS = "with recursive n(x) as (select 1 union all select x + 1 from n) select max(x) from n where x < 2000000"


# the end


def test_a_client_that_leaves_in_the_middle_of_a_call_ends_the_server_in_peace(shared: History) -> None:
    client = shared.client()
    client.begin()
    for number in range(20):
        client.send(call(number, "search_sessions", query="marmot parser"))
    assert client.process.stdout is not None
    client.process.stdout.close()
    assert client.close() == (0, "")


@pytest.mark.parametrize("sent", [b"", b"{", b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}'])
def test_a_client_that_says_nothing_or_half_a_line_ends_the_server_in_peace(shared: History, sent: bytes) -> None:
    client = shared.client()
    client.write(sent)
    assert client.close() == (0, "")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_server(shared: History, number: int) -> None:
    client = shared.client()
    client.begin()
    client.process.send_signal(number)
    assert client.process.wait(20) == 0
    assert client.process.stderr is not None and client.process.stderr.read() == b""


def test_a_signal_ends_a_server_whose_call_lasts(shared: History) -> None:
    client = shared.client()
    client.begin()
    client.send(call(1, "session_store_sql", query=ENDLESS.replace("2000000", "1e12")))
    time.sleep(0.5)
    began = time.monotonic()
    client.process.send_signal(signal.SIGTERM)
    assert client.process.wait(20) == 0
    assert time.monotonic() - began < 8


def test_only_the_protocol_is_on_stdout(shared: History) -> None:
    """Also where something prints: a handler of ours, or a library."""
    program = (
        "import os, sys\n"
        "from backstory.mcp import tools\n"
        "def answer(self, history, remarks):\n"
        "    print('stray'); os.system('echo child'); os.write(1, b'raw')\n"
        "    return 'said'\n"
        "tools.SearchSessions.answer = answer\n"
        "sys.argv = ['backstory', 'mcp']\n"
        "from backstory.cli import main\nmain()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=shared.work, env=shared.shell.environ, capture_output=True, timeout=60,
        input=lines(*HANDSHAKE, call(2, "search_sessions", query="x")),
    )  # fmt: skip
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == [1, 2]
    assert {word for word in ("stray", "child", "raw") if word in done.stderr.decode()} == {"stray", "child", "raw"}


HANDSHAKE = [
    {
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
    },
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
]  # fmt: skip


def test_stdin_may_be_a_file(shared: History, tmp_path: Path) -> None:
    requests = tmp_path / "requests"
    requests.write_text(
        "".join(json.dumps(each) + "\n" for each in [*HANDSHAKE, call(2, "search_sessions", query="marmot")])
    )
    with requests.open() as stdin:
        done = subprocess.run(
            [sys.executable, "-m", "backstory", "mcp"], cwd=shared.work, env=shared.shell.environ, stdin=stdin,
            capture_output=True, timeout=60, check=True,
        )  # fmt: skip
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == [1, 2]


def test_pipes_that_never_block_are_waited_for(shared: History) -> None:
    """A client may have both ends in that mode."""
    theirs_in, ours_in = os.pipe()
    ours_out, theirs_out = os.pipe()
    for each in (theirs_in, theirs_out):
        os.set_blocking(each, False)
    with subprocess.Popen(
        [sys.executable, "-m", "backstory", "mcp"], cwd=shared.work, env=shared.shell.environ, stdin=theirs_in,
        stdout=theirs_out, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        os.close(theirs_in)
        os.close(theirs_out)
        with open(ours_in, "wb", buffering=0) as stdin, open(ours_out, "rb") as stdout:  # noqa: PTH123 - pipes
            stdin.write(lines(*HANDSHAKE))
            assert json.loads(stdout.readline())["id"] == 1
            for number in range(2, 2 + WAITING_MAX):
                stdin.write(lines(call(number, "get_session", session=HERE)))
            assert [json.loads(stdout.readline())["id"] for _ in range(WAITING_MAX)] == list(range(2, 2 + WAITING_MAX))
            stdin.close()
            assert stdout.read() == b""
        assert process.wait(60) == 0


# what changes meanwhile


def test_what_an_agent_wrote_since_is_found(history: History) -> None:
    client = history.client()
    client.begin()
    assert not client.call("search_sessions", query="narwhal").history
    history.write_log(
        "77777777-0000-4000-8000-000000000007", history.work, [*asked("narwhal"), *answered("narwhal")], 5
    )
    assert "narwhal" in client.call("search_sessions", query="narwhal").history
    assert client.close() == (0, "")


def test_a_store_with_a_value_that_no_column_holds_is_answered_with_the_row(history: History) -> None:
    with closing(apsw.Connection(str(history.shell.store))) as db:
        db.execute("update turns set started = 'seven', ended = 'eight'; update sessions set title = x'ff00'")
    client = history.client(BACKSTORY_INGEST_AUTO="off")
    client.begin()
    said = [client.call("search_sessions", query="marmot")]
    assert any(each.is_error and "is not text that can be kept" in each.text for each in said)
    assert client.close() == (0, "")


def test_a_store_that_is_replaced_is_opened_anew(history: History) -> None:
    client = history.client(BACKSTORY_INGEST_AUTO="off")
    client.begin()
    assert client.call("search_sessions", query="marmot").history
    store, kept = history.shell.store, history.shell.home / "kept.db"
    shutil.copy(store, kept)
    for each in store.parent.glob("store.db*"):
        each.unlink()
    gone = client.call("search_sessions", query="marmot")
    assert not gone.history
    kept.replace(store)
    assert client.call("search_sessions", query="marmot").history
    store.write_bytes(b"no store at all" * 1000)
    broken = client.call("search_sessions", query="marmot")
    assert broken.is_error and "Traceback" not in broken.text
    assert client.ask("ping")["result"] == {}
    assert client.close() == (0, "")


def test_a_home_that_moved_while_the_server_runs_is_named(history: History, tmp_path: Path) -> None:
    client, old, new = history.client(), history.shell.store.parent, tmp_path / "new"
    client.begin()
    assert client.call("search_sessions", query="marmot").history
    until(lambda: history.shell("migrate-home", old, new).code == 0)
    for said in (client.call("search_sessions", query="marmot"), client.call("board", action="list")):
        assert said.is_error
        assert f"was moved to {new}" in said.text
    assert [each.name for each in old.iterdir()] == ["moved-to"]
    assert client.close() == (0, "")


def test_the_setting_is_followed_while_the_server_runs(history: History) -> None:
    client = history.client()
    client.begin()
    assert not client.call("search_sessions", query="zebra").history
    assert history.shell("config", "set", "mcp.scope", "all").code == 0
    assert "zebra" in client.call("search_sessions", query="zebra").history
    assert client.close() == (0, "")


def test_the_store_is_one_file_again_soon_after_a_question(history: History) -> None:
    client = history.client()
    client.begin()
    client.call("search_sessions", query="marmot")
    deadline = time.monotonic() + 120
    while any(str(history.shell.store) in os.path.realpath(each) for each in open_files(client)):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert client.call("search_sessions", query="marmot").history
    assert client.close() == (0, "")


def open_files(client: Client) -> list[str]:
    folder = f"/proc/{client.process.pid}/fd"
    return [f"{folder}/{each}" for each in os.listdir(folder)]  # noqa: PTH208 - files of the kernel


def test_without_any_history_the_tools_say_so(history: History, tmp_path: Path) -> None:
    client = history.client(BACKSTORY_HOME=str(tmp_path / "nothing"), HOME=str(tmp_path))
    client.begin()
    assert "Nothing was imported yet." in client.call("search_sessions", query="marmot").text
    assert "No earlier failure" in client.call("find_fix", error="marmot").text
    assert "No session touched" in client.call("file_history", path="marmot").text
    assert client.call("get_session", session="x").is_error
    assert client.call("session_store_sql", query="select 1 from turns").is_error
    assert not (tmp_path / "nothing").exists()
    assert client.close() == (0, "")


# the package


def test_without_the_extra_one_sentence_says_how_to_install_it(shared: History, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['mcp'] = None\n")
    done = shared.shell("mcp", PYTHONPATH=str(tmp_path))
    assert (done.code, done.out) == (69, "")
    added = f"{sys.executable} -m pip install 'mcp>=2.3'"
    assert done.err == f"backstory: `backstory mcp` needs one more package. Add it with: {added}\n"


# a thousand calls


def cpu_s(client: Client) -> float:
    with open(f"/proc/{client.process.pid}/stat") as status:  # noqa: PTH123 - a file of the kernel
        user, system = status.read().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def test_memory_is_flat_over_many_calls_and_a_call_takes_20_ms_at_most(client: Client) -> None:
    kinds: list[tuple[str, dict[str, Any]]] = [
        ("search_sessions", {"query": "parser"}), ("get_session", {"session": HERE}),
        ("find_fix", {"error": "QuokkaError: unexpected token"}), ("file_history", {"path": "parser.py"}),
        ("session_store_sql", {"query": "select tool_name, count(*) from tool_calls group by 1"}),
        ("expand", {"session": HERE, "from_seq": 1, "to_seq": 20}),
    ]  # fmt: skip
    for count in (120, 240):
        before, used_s = memory_kb(client), cpu_s(client)
        for number in range(count):
            tool, arguments = kinds[number % len(kinds)]
            assert not client.call(tool, **arguments).is_error
    assert memory_kb(client) - before < 8 * KB
    assert cpu_s(client) - used_s < 0.02 * count
