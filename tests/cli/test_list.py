"""Which sessions ``list`` shows, and in which order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.support.machines import CLAUDE_FOLDER, claude_line, lines

if TYPE_CHECKING:
    from tests.support.shell import Shell

HAIKU = "claude-haiku-4-5"


def tool_use(call: str, path: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": call, "name": "Read", "input": {"file_path": path}}


def log(name: str, day: int, prompt: str, branch: str, path: str, tokens: int, seconds: int, turns: int = 1) -> bytes:
    records = []
    for turn in range(turns):
        began, ended = f"2026-11-{day:02}T10:{turn:02}:00.000Z", f"2026-11-{day:02}T10:{turn:02}:{seconds:02}.000Z"
        usage = {"input_tokens": tokens, "output_tokens": 1}
        said = {
            "id": f"m{turn}", "role": "assistant", "model": HAIKU, "stop_reason": "end_turn", "usage": usage,
            "content": [{"type": "text", "text": "done"}, tool_use(f"{name}{turn}", path)],
        }  # fmt: skip
        more: dict[str, Any] = {"gitBranch": branch, "sessionId": name, "cwd": "/work/tool"}
        seen = [{"type": "tool_result", "tool_use_id": f"{name}{turn}", "content": "1 line"}]
        records.append(claude_line("user", f"{name}-u{turn}", prompt, **more | {"timestamp": began}))
        records.append(claude_line("assistant", f"{name}-a{turn}", **more | {"timestamp": ended, "message": said}))
        answered: dict[str, Any] = {"timestamp": ended, "message": {"role": "user", "content": seen}}
        records.append(claude_line("user", f"{name}-r{turn}", **more | answered))
    return lines(*records)


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    from tests.support.shell import Shell

    home = tmp_path_factory.mktemp("list") / "home"
    home.mkdir()
    made = Shell(home)
    folder = home / CLAUDE_FOLDER
    folder.mkdir(parents=True)
    (folder / "early.jsonl").write_bytes(log("early", 2, "Mend the 100% Heron", "main", "/work/tool/a.py", 900, 2))
    (folder / "long.jsonl").write_bytes(
        log(
            "long", 9, "Paint the owl, see https://github.com/acme/tool/pull/12", "feat/owl", "/work/tool/b/c.py", 5, 50
        )
    )
    (folder / "many.jsonl").write_bytes(log("many", 16, "Count the geese", "feat/geese", "/work/tool/a.py", 50, 1, 3))
    assert made("ingest").code == 0
    return made


def listed(shell: Shell, *options: str) -> list[str]:
    done = shell("list", "--all", "--json", *options)
    assert done.code == 0, done.err
    return [each["native_id"] for each in done.json()["sessions"]]


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ([], ["many", "long", "early"]),
        (["--branch", "main"], ["early"]),
        (["--branch", "feat/*"], ["many", "long"]),
        (["--branch", "other"], []),
        (["--path", "a.py"], ["many", "early"]),
        (["--path", "/work/tool/b"], ["long"]),
        (["--ref", "#12"], ["long"]),
        (["--ref", "13"], []),
        (["--repo", "/work/tool"], ["many", "long", "early"]),
        (["--repo", "nowhere"], []),
        (["--agent", "codex"], []),
        (["--since", "2026-11-09"], ["many", "long"]),
        (["--until", "2026-11-09"], ["long", "early"]),
        (["--since", "2026-11-03", "--until", "2026-11-10"], ["long"]),
        (["--grep", "THE OWL"], ["long"]),
        (["--grep", "100%"], ["early"]),
        (["--grep", "1_0"], []),
        (["--grep", "%"], ["early"]),
        (["--branch", "feat/*", "--path", "a.py"], ["many"]),
        (["--model", "Haiku-4"], ["many", "long", "early"]),
        (["--model", "haiku_4"], []),
        (["--status", "failed"], []),
        (["--status", "running"], []),
        (["--tool", "read", "--branch", "main"], ["early"]),
        (["--project", "work/tool"], ["many", "long", "early"]),
        (["--project", "TOOL", "--path", "a.py"], ["many", "early"]),
        (["--project", "/work/tool/", "--ref", "12"], ["long"]),
        (["--project", "ool"], []),
        (["--sort", "tokens"], ["early", "many", "long"]),
        (["--sort", "turns"], ["many", "long", "early"]),
        (["--sort", "time"], ["long", "many", "early"]),
        (["--sort", "cost"], ["early", "many", "long"]),
        (["--sort", "cost", "--branch", "feat/*"], ["many", "long"]),
        (["--sort", "tokens", "--limit", "1"], ["early"]),
    ],
    ids=" ".join,
)
def test_the_sessions_that_fit_are_listed_in_the_order_that_is_asked_for(
    shell: Shell, options: list[str], found: list[str]
) -> None:
    assert listed(shell, *options) == found


@pytest.mark.parametrize(
    "options",
    [
        ["--branch", "feat/*"], ["--path", "a.py"], ["--ref", "12"], ["--repo", "work/tool"], ["--project", "tool"],
        ["--model", "haiku"], ["--grep", "owl"], ["--grep", "geese", "--tool", "Read"],
    ],
)  # fmt: skip
def test_a_filter_means_the_same_sessions_to_search(shell: Shell, options: list[str]) -> None:
    hits = shell("search", "--json", *options).json()["hits"]
    listed_uids = {each["uid"] for each in shell("list", "--all", "--json", *options).json()["sessions"]}
    assert {each["uid"] for each in hits} == listed_uids != set()


def test_a_session_is_found_by_the_name_that_it_was_given_and_no_longer_by_its_prompt(
    shell: Shell, tmp_path_factory: pytest.TempPathFactory
) -> None:
    import shutil

    from tests.support.shell import Shell

    home = tmp_path_factory.mktemp("renamed") / "home"
    shutil.copytree(shell.home, home)
    own = Shell(home)
    assert own("rename", "early", "A bird").code == 0
    assert (listed(own, "--grep", "bird"), listed(own, "--grep", "heron")) == (["early"], [])


def test_json_has_the_tokens_that_a_session_is_sorted_by(shell: Shell) -> None:
    assert [
        each["total_tokens"] for each in shell("list", "--all", "--json", "--sort", "tokens").json()["sessions"]
    ] == [901, 153, 6]


def test_the_rest_of_a_sorted_list_is_counted(shell: Shell) -> None:
    done = shell("list", "--all", "--sort", "cost", "--limit", "1")
    assert done.err == "1 of 3 sessions; all: --limit 0\n"
    assert "Heron" in done.out


def test_the_title_in_json_is_what_a_screen_shows(shell: Shell) -> None:
    listed = shell("list", "--all", "--json").json()["sessions"]
    shown = [line.split("\t")[2] for line in shell("list", "--all").out.splitlines()]
    assert [each["title"] for each in listed] == shown
    assert {"Count the geese", "Mend the 100% Heron"} <= {*shown}
    assert shell("show", listed[0]["uid"], "--json").json()["session"]["title"] == shown[0]


def test_where_a_project_has_no_session_a_filter_is_not_the_reason(shell: Shell) -> None:
    done = shell("list", "--until", "2020-01-01")
    assert done.err.startswith(f"No sessions of {shell.cwd}, and none of 3 in other projects fits: change the filter")


def test_where_no_session_fits_it_says_among_how_many(shell: Shell) -> None:
    done = shell("list", "--all", "--until", "2020-01-01")
    assert (done.code, done.out) == (0, "")
    assert done.err.startswith("None of 3 sessions fits: change the filter")


@pytest.mark.parametrize(
    ("words", "why"), [(["--since", "the day of the owl"], "time"), (["--sort", "beauty"], "'beauty'")]
)
def test_a_filter_that_cannot_be_read_is_refused(shell: Shell, words: list[str], why: str) -> None:
    done = shell("list", *words)
    assert done.code in (2, 64)
    assert why in done.err


# titles of sessions whose first prompt says too little ----------------------------------------------------------------


def small(name: str, *prompts: str, call: dict[str, Any] | None = None) -> bytes:
    """A session of these prompts, and one call behind them."""
    more = {"sessionId": name, "cwd": "/work/tool"}
    found = [claude_line("user", f"{name}-{n}", prompt, **more) for n, prompt in enumerate(prompts)]
    if call is not None:
        said = {"role": "assistant", "content": [{"type": "tool_use", "id": f"{name}-c", **call}]}
        found.append(claude_line("assistant", f"{name}-a", **more, message=said))
    return lines(*found)


READ = {"name": "Read", "input": {"file_path": "/work/tool/src/app.py"}}
TITLES = {
    "later": ("Mend the parser of dates", small("later", "ls", "go on", "Mend the parser of dates", call=READ)),
    "file": ("ls · src/app.py", small("file", "ls", "go on", call=READ)),
    "command": ("1 · make test", small("command", "1", call={"name": "Bash", "input": {"command": "make test"}})),
    "nothing": ("Do the work.", small("nothing", "Do the work.")),
    "enough": ("Count the geese", small("enough", "Count the geese", "Mend the parser of owls")),
}


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    from tests.support.shell import Shell

    home = tmp_path_factory.mktemp("short") / "home"
    (home / CLAUDE_FOLDER).mkdir(parents=True)
    for name, (_, data) in TITLES.items():
        (home / CLAUDE_FOLDER / f"{name}.jsonl").write_bytes(data)
    made = Shell(home)
    assert made("ingest").code == 0
    return made


def test_a_title_is_the_first_prompt_that_says_enough_else_it_names_what_was_worked_on(short: Shell) -> None:
    shown = {line.split("\t")[2] for line in short("list", "--all").out.splitlines()}
    assert shown == {title for title, _ in TITLES.values()}
    first = {each["title"]: each["first_prompt"] for each in short("list", "--all", "--json").json()["sessions"]}
    assert (first["ls · src/app.py"], first["Mend the parser of dates"]) == ("ls", "ls")


@pytest.mark.parametrize("name", TITLES)
def test_a_title_is_the_same_on_every_face_and_is_what_a_filter_finds(short: Shell, name: str) -> None:
    title = TITLES[name][0]
    assert short("show", name, "--json").json()["session"]["title"] == title
    (hit, *_) = short("search", "--repo", "tool", "--session", name, "--regex", ".", "--json").json()["hits"]
    assert hit["title"] == title
    assert title in short("report", "recap", name).out.splitlines()[0]
    assert title in short("export", name, "--format", "md", "-o", "-").out
    assert [line.split("\t")[2] for line in short("list", "--all", "--grep", title).out.splitlines()] == [title]
