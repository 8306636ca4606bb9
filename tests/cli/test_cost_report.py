"""``report cost``: what agents used and cost in some time, and the SQL that returns the same."""

from __future__ import annotations

import json
import re
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from backstory import Tokens, open_store
from backstory.store.tables import compactions
from backstory.store.tables.compactions import NewCompaction
from tests.support.machines import SMALL, case

if TYPE_CHECKING:
    import apsw

    from tests.support.shell import Shell

pytestmark = pytest.mark.slow

ALL = ("--since", "2020-01-01")
KINDS = ("input", "output", "cache_read", "cache_write")
CODEX_FIELDS = ("input_tokens", "cached_input_tokens", "output_tokens")
GROUPINGS = ("day", "agent", "model", "repository", "session")


def cost(shell: Shell, *words: str) -> dict[str, Any]:
    done = shell("chronicle", "cost", "--json", *words)
    assert done.code == 0, done.err
    return dict(done.json())


def queries(shell: Shell, *words: str) -> dict[str, str]:
    """The SQL that ``--explain`` prints, by what it is of."""
    printed = shell("chronicle", "cost", "--explain", *words).out
    parts = re.split(r"^-- ", printed, flags=re.MULTILINE)[1:]
    return dict(part.split("\n", 1) for part in parts)


def answer(shell: Shell, query: str) -> list[dict[str, Any]]:
    found = shell("sql", "--json", query).json()
    return [dict(zip(found["columns"], row, strict=True)) for row in found["rows"]]


def sums(figures: dict[str, Any]) -> list[float | None]:
    counts = figures.get("tokens", figures)
    return [*(counts[kind] for kind in KINDS), None if figures["low_usd"] is None else round(figures["low_usd"], 9)]


def logs_of(agent: str) -> list[str]:
    """The recorded logs of an agent, but one whose parts do not add up to its totals."""
    return [name for name in SMALL if name.startswith(f"{agent}/") and name != "codex/mcp"]


def logged(agent: str) -> Counter[str]:
    """The tokens that the recorded logs name, copied records left out.

    Of Claude Code each message's largest count; of Codex what each total adds to the one before it.
    The first total of a fork holds what was used before it: there the last request counts.
    """
    messages: dict[str, dict[str, int]] = {}
    counts: Counter[str] = Counter()
    before: dict[str, int] | None = None
    for name in logs_of(agent):
        for line in case(name).decode().splitlines():
            record = json.loads(line)
            message, payload = record.get("message") or {}, record.get("payload") or {}
            if record.get("type") == "assistant" and message.get("model") != "<synthetic>":
                fields = (
                    "input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"
                )  # fmt: skip
                used = message.get("usage") or {}
                largest = messages.setdefault(message["id"], dict.fromkeys(KINDS, 0))
                for kind, field in zip(KINDS, fields, strict=True):
                    largest[kind] = max(largest[kind], used.get(field) or 0)
            if record.get("type") == "session_meta":
                before = None if payload.get("forked_from_id") else dict.fromkeys(CODEX_FIELDS, 0)
            if payload.get("type") == "token_count" and (info := payload.get("info")):
                total, last = info["total_token_usage"], info["last_token_usage"]
                used = {each: last[each] if before is None else total[each] - before[each] for each in CODEX_FIELDS}
                before = total
                counts["input"] += used["input_tokens"] - used["cached_input_tokens"]
                counts["output"] += used["output_tokens"]
                counts["cache_read"] += used["cached_input_tokens"]
    for each in messages.values():
        counts.update(each)
    return counts


@pytest.mark.parametrize("agent", ["claude", "codex"])
def test_tokens_are_those_that_the_logs_name_without_copies(bare: Shell, agent: str) -> None:
    bare.put(*logs_of(agent))
    assert bare("ingest").code == 0
    total = cost(bare, *ALL)["sums"]
    assert {kind: total["tokens"][kind] or 0 for kind in KINDS} == {kind: logged(agent)[kind] for kind in KINDS}


@pytest.mark.parametrize(
    "words",
    [
        (), ("--agent", "claude"), ("--until", "2026-06-01"), ("--repo", "work"), ("--branch", "worktree-*"),
        ("--ref", "12"), ("--path", "notes.txt"), ("--agent", "codex", "--repo", "irrlicht"), ("file",),
    ],
)  # fmt: skip
def test_each_number_is_what_its_sql_returns(read_once: Shell, words: tuple[str, ...]) -> None:
    found, asked = cost(read_once, *ALL, *words), queries(read_once, *ALL, *words)
    (total,) = answer(read_once, asked.pop("total"))
    assert sums(total) == sums(found["sums"])
    assert (total["exact_usd"], total["unknown_turns"]) == (found["exact_usd"], found["turns_without_cost"])
    assert list(asked) == ["summaries", *(f"by {by}" for by in GROUPINGS)]
    for by in GROUPINGS:
        key = "uid" if by == "session" else by
        groups = {
            (each.get("project") if by == "repository" else None) or each[key]: each for each in found[f"by_{by}"]
        }
        returned = {next(iter(row.values())): row for row in answer(read_once, asked[f"by {by}"])}
        assert {key: sums(each) for key, each in groups.items()} == {key: sums(each) for key, each in returned.items()}


@pytest.mark.parametrize("words", [("--agent", "claude"), ("--branch", "it's"), ("--here",)])
def test_sql_names_what_was_asked_for_not_the_sessions_that_fit_today(read_once: Shell, words: tuple[str, ...]) -> None:
    uids = [each["uid"] for each in read_once("list", "--all", "--json").json()["sessions"]]
    printed = read_once("chronicle", "cost", "--explain", *ALL, *words).out
    assert printed
    assert not [uid for uid in uids if uid in printed]


@pytest.mark.parametrize("by", GROUPINGS)
def test_the_groups_of_each_kind_add_up_to_the_whole(read_once: Shell, by: str) -> None:
    found = cost(read_once, *ALL)
    assert len(found[f"by_{by}"]) > 1
    groups = found[f"by_{by}"]
    assert sum(each["turn_count"] for each in groups) == found["sums"]["turn_count"]
    for kind in KINDS:
        assert sum(each["tokens"][kind] or 0 for each in groups) == found["sums"]["tokens"][kind]


def test_what_is_reported_and_what_is_computed_is_all_that_is_known(read_once: Shell) -> None:
    found = cost(read_once, *ALL)
    assert (found["exact_usd"] or 0) + found["computed_usd"] == pytest.approx(found["sums"]["low_usd"])


def test_unasked_it_is_about_the_last_thirty_days(read_once: Shell) -> None:
    since = datetime.fromisoformat(cost(read_once)["since"])
    assert timedelta(days=30) <= datetime.now(UTC) - since < timedelta(days=30, minutes=5)


def test_a_time_without_sessions_names_the_nearest_that_has_some(read_once: Shell) -> None:
    first = min(each["created"] for each in read_once("list", "--all", "--json").json()["sessions"])
    done = read_once("chronicle", "cost", "--since", "2030-01-01")
    assert (done.code, done.out) == (0, "")
    assert "--since 2026-11-" in done.err
    assert "backstory reindex" in done.err
    assert f"--since {first[:10]}" not in done.err
    assert cost(read_once, "--since", "2030-01-01")["sums"]["turn_count"] == 0


def test_a_machine_without_history_says_how_to_begin(bare: Shell) -> None:
    done = bare("chronicle", "cost")
    assert (done.code, done.out) == (0, "")
    assert "backstory ingest" in done.err


def test_the_dearest_sessions_are_shown_by_handle_and_title(read_once: Shell) -> None:
    printed = read_once("chronicle", "cost", *ALL).out
    dearest = cost(read_once, *ALL)["by_session"][0]["uid"]
    (listed,) = (each for each in read_once("list", "--all", "--json").json()["sessions"] if each["uid"] == dearest)
    (line,) = (each for each in printed.splitlines() if dearest.startswith(each.split(" ")[0]) and each.split(" ")[0])
    assert str(listed["title"] or listed["first_prompt"])[:20] in line


def test_as_markdown_every_line_of_a_table_has_as_many_cells_whatever_a_title_holds(bare: Shell) -> None:
    prompt = {"type": "user", "sessionId": "3f2b8f5e-5a6b-4d5c-9d8f-0a1b2c3d4e5f", "uuid": "u1", "parentUuid": None,
              "cwd": "/p", "timestamp": "2026-05-01T10:00:00.000Z",
              "message": {"role": "user", "content": "a | b\n<b>bold</b> `|`"}}  # fmt: skip
    path = bare.home / ".claude" / "projects" / "p" / f"{prompt['sessionId']}.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(prompt) + "\n")
    assert bare("ingest").code == 0
    printed = bare("chronicle", "cost", *ALL, "--md").out
    rows = [each for each in printed.splitlines() if each.startswith("|")]
    assert "bold" in printed
    # A sign behind a backslash is itself, also a backslash: an escaped one escapes nothing.
    assert {re.sub(r"\\.", "", each).count("|") for each in rows} == {10}
    assert "<b>" not in printed


def test_forms_exclude_each_other(read_once: Shell) -> None:
    done = read_once("chronicle", "cost", "--md", "--json")
    assert (done.code, done.out) == (2, "")


@pytest.fixture
def summarised(bare: Shell) -> Shell:
    """A machine with the recorded logs and three summaries: one taken back, one by a model without a known price."""
    bare.put(*logs_of("claude"))
    assert bare("ingest").code == 0
    took = Tokens(input=700, output=90, cache_read=5)
    with open_store(bare.store) as store:
        (first, second, *_) = (
            store.session(each["uid"]) for each in bare("list", "--all", "--json").json()["sessions"]
        )
        # Summaries of one moment and one length would count as copies of each other.
        for session, usd, words in ((first, 0.0008, "Done."), (second, 0.0011, "It is done."), (second, None, "Over.")):
            last = max(turn.last_seq for turn in store.turns(session))
            new = NewCompaction(after_seq=last, summary=f"{words} {usd}", agent="claude", tokens=took, cost_usd=usd)
            assert store.decide(compactions.add, session.id, new)
            store.decide(compactions.undo, session.id)
        store.decide(own_summary, first.id)
    return bare


def own_summary(db: apsw.Connection, session_id: int) -> None:
    """A summary that another program wrote: nobody was asked for it."""
    db.execute("insert into compactions(session_id, after_seq, summary) values (?, 1, 'Mine.')", (session_id,))


@pytest.mark.parametrize("command", [("stats", "--all"), ("chronicle", "cost", *ALL)])
def test_what_summaries_took_is_a_part_of_the_sums_of_its_own(summarised: Shell, command: tuple[str, ...]) -> None:
    by = () if "cost" in command else ("--by", "agent")
    found = summarised(*command, *by, "--json").json()
    groups = found["groups" if by else "by_agent"]
    made = found["summary_sums"]
    assert (made["summary_count"], made["low_usd"], made["cost_kind"]) == (3, pytest.approx(0.0019), "lower bound")
    assert sum(each["low_usd"] or 0 for each in (*groups, made)) == pytest.approx(found["sums"]["low_usd"])
    for kind in KINDS:
        parts = [each["tokens"][kind] for each in (*groups, made)]
        assert sum(each or 0 for each in parts) == found["sums"]["tokens"][kind]
    assert found["sums"]["turn_count"] == sum(each["turn_count"] for each in groups)


def test_the_sql_of_a_cost_report_counts_summaries(summarised: Shell) -> None:
    found, asked = cost(summarised, *ALL), queries(summarised, *ALL)
    for part, key in (("total", "sums"), ("summaries", "summary_sums")):
        (returned,) = answer(summarised, asked[part])
        assert sums(returned) == sums(found[key])


def test_summaries_have_a_line_and_what_is_not_known_of_them_is_said(summarised: Shell) -> None:
    done = summarised("stats", "--all")
    assert "Summaries  3: 2,100 input · 270 output · 15 cache read · – cache write, ≥ $0.002, in these sums" in done.out
    assert "cost of 1 summary" in done.err


def test_a_summary_counts_in_the_time_in_which_it_was_made(summarised: Shell) -> None:
    assert cost(summarised, "--since", "2020-01-01", "--until", "2021-01-01")["summary_sums"]["summary_count"] == 0
    made = cost(summarised, "--since", "1h")
    assert (made["summary_sums"]["summary_count"], made["sums"]["turn_count"]) == (3, 0)
