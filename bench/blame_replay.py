"""How often ``report blame`` is right: repositories rebuilt from logs of Claude Code that hold whole files.

    python -m bench.blame_replay HOME FOLDER [--mixed] [--rebased]

Every edit of such a log has the file as it was before (``originalFile``). So each file is rebuilt edit by edit, with
the dates of the log, and who wrote a line is known from the difference of two whole files: the turn whose call made it,
or nobody's (what stood there before, and what changed outside of edits). Where a session ran ``git commit``, the
rebuilt repository gets a commit. What changed outside is a commit of its own, or, with ``--mixed``, goes into the
session's next one, as when a person and an agent work at the same time. With ``--rebased`` another person commits each
of them again some hours later, and one in five was begun with the session's first edit and amended with its others.
Then the report is asked for each commit and each file, and compared line by line.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter, defaultdict
from datetime import datetime
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

from backstory.derive.authorship import is_telling

Owner = str | None
"""The id of a call; None: nobody's."""
UNSURE: Owner = ""
"""A line between lines that changed outside of edits: nobody can say whose it is, so it is not counted."""
SURE_LINES = 5
"""So many lines that stayed together beside a change outside of edits are surely the same."""
REBASED_S = 5 * 3600
"""So long after the session's own commit another person commits it again."""
AMENDED_EACH = 5
_COMMITTED = re.compile(r"^\[[^\]\n]+ [0-9a-f]{7,}\] (.*)", re.MULTILINE)


def main() -> None:
    """Rebuild, ask, compare, and print the counts."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("home", type=Path)
    options.add_argument("folder", type=Path)
    options.add_argument("--mixed", action="store_true")
    options.add_argument("--rebased", action="store_true")
    options.add_argument("--wrong", type=int, default=0, help="Print so many lines that are told wrong.")
    given = options.parse_args()
    shutil.rmtree(given.folder, ignore_errors=True)
    given.folder.mkdir(parents=True)
    steps, home = read_steps(given.home), given.home
    if given.rebased:
        amended, home = amended_calls(steps), given.folder / "home"
        write_amended(given.home, home, amended)
        for step in (each for mine in steps.values() for each in mine):
            step["is_amended"] = step["call"] in amended
    environ = {**os.environ, "HOME": str(home), "BACKSTORY_HOME": str(given.folder / "backstory")}
    run = Asking(environ, given.folder)
    run("ingest")
    counts, kinds, little = Counter[str](), Counter[str](), Counter[str]()
    shown = 0
    for number, (root, mine) in enumerate(sorted(steps.items(), key=lambda each: -len(each[0]))):
        rebuilt = Rebuilt(given.folder / f"r{number}", root, mixed=given.mixed, rebased=given.rebased)
        for step in mine:
            rebuilt.take(step)
        if not rebuilt.owners:
            continue
        rebuilt.end()
        run("project", "move", root, str(rebuilt.folder))
        for what, found, truth in compared(run, rebuilt, kinds):
            verdict = judged(found, truth)
            counts[verdict] += 1
            little[verdict] += not is_telling(what[-1])
            if verdict.startswith(("wrong", "missed")) and is_telling(what[-1]) and shown < given.wrong:
                shown += 1
                print(
                    verdict, what, found["commit"], found["session"], found["turn_seq"], found["at"], truth, sep=" | "
                )
    print(json.dumps({"counts": counts, "of lines that say little": little, "asked": kinds}, indent=1))
    wrote = sum(counts[each] for each in counts if each.endswith("wrote"))
    others = (each for each in counts if each.startswith(("missed", "wrong: another")))
    edits = counts["right wrote"] + sum(counts[each] for each in others)
    print(
        f"precision of wrote: {counts['right wrote'] / max(1, wrote):.4f}  recall: {counts['right wrote'] / edits:.4f}"
    )


def judged(found: dict[str, Any], truth: tuple[Any, ...]) -> str:
    """What a credit is worth beside the truth."""
    if truth[0] == "unsure":
        return "not counted"
    evidence, session, seq = found["evidence"].split()[0], found["session"], found["turn_seq"]
    if truth[0] is None:
        return {"wrote": "wrong: nobody's, told as wrote", "likely": "nobody's, told as likely"}.get(
            evidence, "right none"
        )
    if evidence == "wrote":
        return "right wrote" if (session, seq) == truth else "wrong: another turn's, told as wrote"
    if evidence == "likely":
        return "missed, but likely" if session == truth[0] else "missed, likely of another session"
    return "missed"


class Asking:
    """Runs the command line."""

    def __init__(self, environ: dict[str, str], folder: Path) -> None:
        self._environ, self._folder = environ, folder

    def __call__(self, *words: str, folder: Path | None = None) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "backstory", *words], cwd=folder or self._folder, env=self._environ,
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            raise SystemExit(f"{words}: {done.stderr}")
        return done.stdout


class Rebuilt:
    """A repository that is rebuilt, and who wrote each line of its files."""

    def __init__(self, folder: Path, root: str, *, mixed: bool, rebased: bool = False) -> None:
        self.folder, self.root, self._mixed, self._rebased = folder, root, mixed, rebased
        self._log = ""
        self._first_edit: int | None = None
        self.owners: dict[str, list[tuple[str, Owner]]] = {}
        self.commits: list[tuple[str, dict[str, list[tuple[str, Owner]]]]] = []
        self._at = 0
        self._once: dict[str, set[str]] = defaultdict(set)
        self._unseen: set[str] = set()
        """Lines of edits to files that nobody knows yet: they may be a subagent's."""
        folder.mkdir()
        self._git("init", "-q", "-b", "main")

    def take(self, step: dict[str, Any]) -> None:
        self._at = max(self._at, step["at"] // 1000)
        if "path" not in step:
            is_amended = step.get("is_amended") and self._first_edit and self._log == step["log"]
            began = self._first_edit if is_amended and self._first_edit else self._at
            if (made := self._commit(step["subject"] or "-", began + 1)) is not None:
                self.commits.append((made, {path: list(lines) for path, lines in self.owners.items()}))
            return
        if self._log != step["log"] or self._first_edit is None:
            # Only what a session did itself since anybody else did something is amended by it.
            self._log, self._first_edit = step["log"], self._at
        path = step["path"].removeprefix(self.root + "/")
        known = self.owners.get(path)
        if "change" in step:
            # What a subagent did is known without the file.
            text = "\n".join(line for line, _ in known) if known is not None else None
            becomes = changed(text, step["change"])
            step |= {"before": text, "after": becomes}
            if becomes is None:
                self._unseen |= set((step["change"]["new_string"] or "").split("\n"))
                return
        before, after = step["before"], str(step["after"])
        if before is not None and (known is None or [line for line, _ in known] != before.split("\n")):
            uncommitted = known is not None and self._git("status", "--porcelain", "--", path)
            self._once[path] |= {line for line, call in known or () if call}
            once = self._once[path]
            lines = carried(known or [], before.split("\n"), None)
            # What a call put there once, and is there again, may have been put back: by git, on another branch.
            lines = [(line, UNSURE if call is None and line in once else call) for line, call in lines]
            if known is None:
                lines = [(line, UNSURE if line in self._unseen else owner) for line, owner in lines]
            self.owners[path] = lines
            if known is None or not (self._mixed or uncommitted):
                self._put(path, before)
                self._commit("Outside", self._at - 1, path)
        owner = step["call"]
        self.owners[path] = carried(self.owners.get(path, []), after.split("\n"), owner)
        self._put(path, after)

    def end(self) -> None:
        self._commit("The rest", self._at + 60)

    def _put(self, path: str, content: str) -> None:
        place = self.folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content.encode())

    def _commit(self, message: str, at: int, *paths: str) -> str | None:
        self._git("add", *(paths or ("-A",)))
        if not self._git("diff", "--cached", "--name-only"):
            return None
        self._git("commit", "-q", "-m", message, at=at)
        # Only the last commit is amended.
        self._first_edit = None
        return self._git("rev-parse", "HEAD")

    def _git(self, *words: str, at: int | None = None) -> str:
        later = REBASED_S + max(self._at - (at or 0), 0) if self._rebased else 0
        who = dict[str, str]()
        for role, name, when in (("AUTHOR", "A", at or 0), ("COMMITTER", "B", (at or 0) + later)):
            facts = (("NAME", name), ("EMAIL", f"{name}@example.org"), ("DATE", f"{when} +0000"))
            who |= {f"GIT_{role}_{what}": value for what, value in facts}
        return subprocess.run(
            ["git", *words], cwd=self.folder, env={**os.environ, **who}, capture_output=True, text=True, check=True
        ).stdout.strip()


def changed(text: str | None, change: dict[str, Any]) -> str | None:
    """A file behind a subagent's edit; None where it is not known well enough."""
    if change["content"] is not None:
        return str(change["content"])
    if text is None or change["old_string"] not in text:
        return None
    return text.replace(change["old_string"], change["new_string"], -1 if change["replace_all"] else 1)


def carried(old: list[tuple[str, Owner]], new: list[str], owner: Owner) -> list[tuple[str, Owner]]:
    """A file's lines after a change: those that stay keep who wrote them."""
    found: list[tuple[str, Owner]] = []
    matcher = SequenceMatcher(None, [line for line, _ in old], new, autojunk=False)
    for how, a, _, c, d in matcher.get_opcodes():
        if how == "equal" and owner is None and d - c < SURE_LINES and d - c < len(new):
            found += [(new[n], UNSURE if old[a + n - c][1] is not None else None) for n in range(c, d)]
        else:
            found += [old[a + n - c] if how == "equal" else (new[n], owner) for n in range(c, d)]
    return found


def read_steps(home: Path) -> dict[str, list[dict[str, Any]]]:
    """What the sessions of each folder did to files and when they committed, in order of time."""
    steps: dict[str, list[dict[str, Any]]] = defaultdict(list)
    seen: set[str] = set()
    for log in sorted(home.glob(".claude/projects/**/*.jsonl")):
        called: dict[str, int] = {}
        told_calls: dict[str, dict[str, Any]] = {}
        for line in log.read_text("utf-8", "replace").splitlines():
            try:
                record = json.loads(line)
            except ValueError:
                continue
            if record.get("type") == "progress" and (told := told_of(record, str(log))) is not None:
                # What a subagent did, which only its parent's log has: without the files.
                call, step = told
                if call in told_calls and step == {}:
                    steps[record["cwd"]].append(told_calls.pop(call))
                elif step:
                    told_calls[call] = step
                continue
            content = (record.get("message") or {}).get("content")
            blocks = [each for each in content if isinstance(each, dict)] if isinstance(content, list) else []
            at = record.get("timestamp")
            for each in blocks:
                if each.get("type") == "tool_use" and at:
                    called[each["id"]] = int(datetime.fromisoformat(at).timestamp() * 1000)
            result = record.get("toolUseResult")
            ids = [each["tool_use_id"] for each in blocks if each.get("type") == "tool_result"]
            if not isinstance(result, dict) or len(ids) != 1 or ids[0] not in called or ids[0] in seen:
                continue
            own = step_of(result)
            if own is not None:
                seen.add(ids[0])
                steps[record["cwd"]].append(own | {"at": called[ids[0]], "call": ids[0], "log": str(log)})
    for root in sorted(steps, key=len, reverse=True):
        above = next((each for each in steps if root.startswith(f"{each}/") and "worktrees" not in root), None)
        if above is not None:
            steps[above] += steps.pop(root)
    for root, mine in steps.items():
        mine.sort(key=lambda each: each["at"])
        steps[root] = [each for each in mine if "path" not in each or each["path"].startswith(root + "/")]
    return steps


def amended_calls(steps: dict[str, list[dict[str, Any]]]) -> set[str]:
    """The calls of every fifth commit of a session."""
    made = [step["call"] for mine in steps.values() for step in mine if "path" not in step]
    return set(made[AMENDED_EACH - 1 :: AMENDED_EACH])


def write_amended(home: Path, target: Path, amended: set[str]) -> None:
    """Copy the logs; these calls amend a commit in the copy."""
    for log in sorted(home.glob(".claude/projects/**/*.jsonl")):
        copy = target / log.relative_to(home)
        copy.parent.mkdir(parents=True, exist_ok=True)
        lines = log.read_text("utf-8", "replace").splitlines(keepends=True)
        copy.write_text("".join(map(_amending(amended), lines)), "utf-8")


def _amending(amended: set[str]) -> Any:
    def line(text: str) -> str:
        if not any(call in text for call in amended) or "git commit" not in text:
            return text
        return text.replace("git commit", "git commit --amend")

    return line


def told_of(record: dict[str, Any], log: str) -> tuple[str, dict[str, Any]] | None:
    """A subagent's edit by the id of its call, or the end of one that went well."""
    message = (record.get("data") or {}).get("message") or {}
    content = (message.get("message") or {}).get("content")
    for each in content if isinstance(content, list) else []:
        if not isinstance(each, dict):
            continue
        given = each.get("input") or {}
        if each.get("type") == "tool_use" and each["name"] in ("Edit", "Write"):
            at = int(datetime.fromisoformat(message["timestamp"]).timestamp() * 1000)
            change = {key: given.get(key) for key in ("old_string", "new_string", "content", "replace_all")}
            return each["id"], {
                "path": given["file_path"], "change": change, "at": at, "call": each["id"], "log": log,
            }  # fmt: skip
        if each.get("type") == "tool_result" and not each.get("is_error"):
            return each["tool_use_id"], {}
    return None


def step_of(result: dict[str, Any]) -> dict[str, Any] | None:
    """An edit with the whole file before and after it, or a commit."""
    before = result.get("originalFile")
    if "oldString" in result and isinstance(before, str) and result["oldString"] in before:
        after = before.replace(result["oldString"], result["newString"], -1 if result.get("replaceAll") else 1)
        return {"path": result["filePath"], "before": before, "after": after}
    if "content" in result and "originalFile" in result and "filePath" in result:
        return {"path": result["filePath"], "before": before, "after": result["content"]}
    if made := _COMMITTED.search(result.get("stdout") or ""):
        return {"subject": made.group(1)}
    return None


def compared(run: Asking, rebuilt: Rebuilt, kinds: Counter[str]) -> Any:
    """Each line that is reported, with who wrote it."""
    truth = truth_of(run)
    for made, at_commit in rebuilt.commits:
        kinds["commits"] += 1
        report = json.loads(run("report", "blame", "--json", made, folder=rebuilt.folder))
        for file in report["files"]:
            yield from of_file(file, at_commit[file["path"]], truth, made[:8])
    for path, owners in rebuilt.owners.items():
        kinds["files"] += 1
        report = json.loads(run("report", "blame", "--json", f"./{path}", folder=rebuilt.folder))
        yield from of_file(report["files"][0], owners, truth, str(rebuilt.folder))


def of_file(file: dict[str, Any], owners: list[tuple[str, Owner]], truth: Any, where: str) -> Any:
    for each in file["runs"]:
        for number in range(each["first"], each["last"] + 1):
            text, owner = owners[number - 1]
            yield (where, file["path"], number, text), each, truth(owner)


_TURNS: dict[str, tuple[str, int]] = {}


def truth_of(run: Asking) -> Any:
    """A function from an owner to the uid of its session, the earliest that holds it, and the record of its prompt."""
    if not _TURNS:
        query = (
            "select json_extract(e.json, '$.ToolCall.tool_use_id'), s.uid, t.first_seq from events e "
            "join sessions s on s.id = e.session_id "
            "join turns t on t.session_id = s.id and t.turn_index = e.turn_index "
            "where e.kind = 'ToolCall' and s.relation is not 'subagent' order by s.uid desc"
        )
        for call, *turn in json.loads(run("sql", "--json", "--limit", "1000000", query))["rows"]:
            _TURNS[call] = turn[0], turn[1]

    def truth(owner: Owner) -> tuple[Any, ...]:
        return ("unsure",) if owner == UNSURE else (None, None) if owner is None else _TURNS.get(owner, ("unsure",))

    return truth


if __name__ == "__main__":
    main()
