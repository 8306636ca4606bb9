"""Texts that leave the machine name no folder of it, not the machine, and not the account."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backstory.model import encoded
from backstory.sync.outward import MachineNames, Outward
from tests.support.counts import examples

HOME = "/home/janedoe"
FOLDERS = frozenset({f"{HOME}/app", f"{HOME}/secret-plan", "/depot/My Other/plan", "/srv/x"})
MACHINE = MachineNames(name="janes-laptop.corp.example", account="janedoe", home=HOME, folders=FOLDERS)
ROOTS = [f"{HOME}/app", f"{HOME}/app-worktree"]
P = "[path-1]"


def rewritten(text: str, machine: MachineNames = MACHINE) -> str:
    outward = Outward(machine, ROOTS, lambda kind, _: f"[{kind}-1]")
    left = outward.text(text)
    assert left == text or outward.may_change(encoded({"content": text}))
    return left


def test_a_line_in_which_nothing_is_of_this_machine_is_left_as_it_is() -> None:
    outward = Outward(MACHINE, ROOTS, lambda kind, _: f"[{kind}-1]")
    assert not outward.may_change(encoded({"type": "event", "content": "see src/a.py, https://x.example/y: a-b ~ c:d"}))


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (f"cat {HOME}/app/src/a.py:12, then {HOME}/app.", "cat src/a.py:12, then .."),
        (f"in {HOME}/app-worktree/src/a b", "in src/a b"),
        ("~/app/src/a.py", "src/a.py"),
        (f"file://{HOME}/app/x.py", "file://x.py"),
        (f'{{"path": "{HOME}/app/x.py"}}', '{"path": "x.py"}'),
        (f"one\\n{HOME}/app/x.py", "one\\nx.py"),
        (f"cd {HOME} && ls {HOME}/", "cd ~ && ls ~"),
    ],
)  # fmt: skip
def test_a_path_in_the_repository_is_relative_to_it(text: str, left: str) -> None:
    assert rewritten(text) == left


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (f"{HOME}/app2/x {HOME}/application/x", f"~/{P} ~/{P}"),
        ("~/secret-plan/x.md", f"~/{P}"),
        (f"cat {HOME}/My\\ Files/x.txt", f"cat ~/{P}"),
        ("see /depot/My Other/plan/x.md, and /depot/y", f"see {P}, and {P}"),
        ("/home/bob/x.py /tmp/z /Users/ann/y /srv/x", f"{P} {P} {P} {P}"),
        ("--path=/srv/x/y -I/srv/x", f"--path={P} -I{P}"),
        ("ls .claude/projects/-home-janedoe-secret-plan/x", f"ls .claude/projects/{P}/x"),
        ("C:\\Users\\janedoe\\x.txt, D:\\\\work\\\\y and e:/z/t", f"{P}, {P} and {P}"),
        (f"“{HOME}/x”", f"“~/{P}”"),
    ],
)  # fmt: skip
def test_any_other_path_of_the_machine_is_masked(text: str, left: str) -> None:
    assert rewritten(text) == left


@pytest.mark.parametrize(
    "text",
    [
        "https://github.com/home/x/y", "http://localhost:80/data/x", "GET /api/v1/users", "src/home/page.tsx", "</div>",
        "and/or",
        "/usr/bin/python3 /dev/null /etc/hosts", "a-b-home-c", "12:/", "~", "1/2", "/chronicle standup", "note: /x",
    ],
)  # fmt: skip
def test_what_is_no_path_of_the_machine_stays(text: str) -> None:
    assert rewritten(text) == text


def test_the_names_of_the_machine_and_the_account_are_masked() -> None:
    said = rewritten("janedoe@janes-laptop:~$ ssh janes-laptop.corp.example # janedoe's, not janedoes")
    assert said == "[account-1]@[host-1]:~$ ssh [host-1] # [account-1]'s, not janedoes"


def test_an_account_whose_name_is_a_word_is_masked_where_it_is_an_account() -> None:
    machine = MachineNames(name="localhost", account="dev", home="/home/dev", folders=frozenset())
    said = rewritten("dev@build7: npm run dev in /home/dev/x on localhost", machine)
    assert said == f"[account-1]@build7: npm run dev in ~/{P} on localhost"


def test_the_number_of_masks_is_known_by_their_names() -> None:
    outward = Outward(MACHINE, ROOTS, lambda kind, _: f"[{kind}-1]")
    outward.text(f"{HOME}/app/a {HOME}/b /tmp/c janedoe janes-laptop")
    assert outward.counts == {"path": 2, "account": 1, "host": 1}


AROUND = st.sampled_from(["", " ", "\n", '"', "'", "`", "(", "=", ",", ":", "\\n", "“", "<"])
PARTS = st.text(st.sampled_from("abcXYZ019_-+@%äß"), min_size=1, max_size=8)


@given(
    before=AROUND,
    after=AROUND,
    parts=st.lists(PARTS, min_size=1, max_size=4),
    top=st.sampled_from(["home", "tmp", "depot"]),
)
@settings(max_examples=examples(300), deadline=None)
def test_a_planted_path_is_never_left(before: str, after: str, parts: list[str], top: str) -> None:
    planted = f"/{top}/zq{'/'.join(parts)}"
    assert "/zq" not in re.sub(r"\[path-1]", "", rewritten(f"{before}{planted}{after}"))
