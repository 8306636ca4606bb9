#!/usr/bin/env python3
"""Deterministic synthetic corpus of coding-agent session logs (Claude Code, Codex, Copilot shapes).

Text comes from real source and documentation on this machine (Python stdlib, installed packages,
C headers, .rst/.md docs).  Session k depends only on (seed, k, the files on the machine).

  make_logs.py --out DIR [--sessions 2000] [--start 0] [--seed 1] [--format claude|codex|copilot] [--procs 2]
"""

from __future__ import annotations
import argparse, base64, hashlib, json, math, multiprocessing as mp, os, random, re, sys, sysconfig, time
from pathlib import Path

PY = Path(sysconfig.get_paths()["stdlib"])
ROOTS = [
    (PY, ".py"),
    (PY / "site-packages", ".py"),
    (Path("/usr/include"), ".h"),
    (Path("/usr/lib/python3/dist-packages"), ".py"),
    (Path("/usr/share/doc"), ".txt"),
    (Path("/usr/lib/node_modules"), ".js"),
    (Path("/usr/local/lib/node_modules"), ".js"),
]
POOL_LIMIT = 140_000_000
REPOS: list = []
PROSE: list = []
TESTNAMES: list = []


def load():
    groups: dict[str, list[Path]] = {}
    for root, ext in ROOTS:
        if not root.exists():
            continue
        for p in sorted(root.rglob("*" + ext)):
            try:
                rel = p.relative_to(root)
                if "site-packages" in rel.parts or "__pycache__" in rel.parts:
                    continue
                n = p.stat().st_size
            except OSError:
                continue
            if not 600 < n < 150_000:
                continue
            groups.setdefault(f"{root.name}-{rel.parts[0] if len(rel.parts) > 1 else 'core'}", []).append(p)
    order = sorted((k for k, v in groups.items() if len(v) >= 8), key=lambda k: hashlib.md5(k.encode()).digest())
    total = 0
    for k in order:
        files = []
        for p in groups[k][:400]:
            try:
                t = p.read_text("utf-8")
            except (OSError, UnicodeDecodeError):
                continue
            if "\x00" in t:
                continue
            files.append((str(p.relative_to(p.parents[min(3, len(p.parents) - 1)])), t.split("\n")))
            total += len(t)
        if len(files) >= 8:
            REPOS.append((k, files))
        if total > POOL_LIMIT:
            break
    sents: list[str] = []
    for root in [Path("/usr/share/doc"), PY / "site-packages", PY]:
        for p in sorted(list(root.rglob("*.rst")) + list(root.rglob("*.md")))[:1500]:
            try:
                t = p.read_text("utf-8")
            except (OSError, UnicodeDecodeError):
                continue
            for para in t.split("\n\n"):
                s = " ".join(para.split())
                if 60 < len(s) < 600 and s[0].isupper() and s[-1] in ".:":
                    sents.append(s)
    for _, files in REPOS[:60]:
        for _, lines in files[:60]:
            t = "\n".join(lines[:400])
            for m in re.findall(r'"""([A-Z][^"]{60,500}?)"""', t):
                sents.append(" ".join(m.split()))
            TESTNAMES.extend(re.findall(r"def (\w{4,40})\(", t)[:20])
    PROSE.extend(sents)
    if os.environ.get("GEN_V"):
        print(
            f"pool {total / 1e6:.0f} MB, {len(REPOS)} repos, {len(PROSE)} sentences, {len(TESTNAMES)} names",
            file=sys.stderr,
        )


class Sess:
    def __init__(s, seed: int, k: int):
        s.r = random.Random(seed * 1_000_003 + k)
        r = s.r
        s.k = k
        # Zipf-ish choice of repository: a few repositories get most sessions
        i = min(int(len(REPOS) * r.random() ** 2.2), len(REPOS) - 1)
        s.repo, s.files = REPOS[i]
        s.focus = r.sample(range(len(s.files)), min(len(s.files), r.randint(5, 30)))
        s.cwd = f"/home/dev{r.randint(1, 9)}/work/{s.repo}"
        s.branch = r.choice(
            ["main", "main", "develop", f"feat/{r.choice(TESTNAMES)}", f"fix/issue-{r.randint(1, 4000)}"]
        )
        s.t = 1_735_700_000 + r.random() * 3.3e7
        s.model = r.choice(["claude-opus-4-6", "claude-sonnet-4-5-20250929", "claude-haiku-4-5"])
        s.ctx = 14_000

    def uuid(s):
        h = f"{s.r.getrandbits(128):032x}"
        return f"{h[:8]}-{h[8:12]}-4{h[13:16]}-a{h[17:20]}-{h[20:]}"

    def tok(s, n):
        a = "ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz123456789"
        return "".join(s.r.choices(a, k=n))

    def now(s, dt=8.0):
        s.t += s.r.expovariate(1 / dt)
        g = time.gmtime(s.t)
        return time.strftime("%Y-%m-%dT%H:%M:%S", g) + f".{int((s.t % 1) * 1000):03d}Z"

    def file(s):
        r = s.r
        j = r.choice(s.focus) if r.random() < 0.85 else r.randrange(len(s.files))
        p, lines = s.files[j]
        return f"{s.cwd}/{p}", lines

    def ident(s):
        _, lines = s.file()
        for _ in range(8):
            m = re.findall(r"[A-Za-z_][A-Za-z0-9_]{4,30}", s.r.choice(lines))
            if m:
                return s.r.choice(m)
        return "main"

    def prose(s, lo, hi):
        r = s.r
        out = []
        n = 0
        want = r.randint(lo, hi)
        while n < want:
            x = r.choice(PROSE)
            if r.random() < 0.5:
                x = f"`{s.ident()}` " + x[0].lower() + x[1:]
            if r.random() < 0.25:
                x = f"- In `{s.file()[0][len(s.cwd) + 1 :]}:{r.randint(1, 900)}`: " + x
            out.append(x)
            n += len(x) + 1
        return r.choice([" ", "\n", "\n\n"]).join(out)[: want + 60]

    def chunk(s, lines, lo=5, hi=60):
        n = min(len(lines), s.r.randint(lo, hi))
        a = s.r.randrange(max(1, len(lines) - n + 1))
        return a, lines[a : a + n]

    def nlines(s, mu=4.3, sg=1.0, cap=900):  # log-normal number of lines: median about 75
        return max(3, min(cap, int(math.exp(s.r.gauss(mu, sg)))))

    # tool → (name, input, result text, toolUseResult as Claude Code writes it)
    def tool(s):
        r = s.r
        x = r.random()
        p, lines = s.file()
        if x < 0.30:
            n = min(len(lines), s.nlines())
            a = 0 if r.random() < 0.6 else r.randrange(max(1, len(lines) - n + 1))
            c = lines[a : a + n]
            inp = {"file_path": p} if a == 0 and n == len(lines) else {"file_path": p, "offset": a + 1, "limit": n}
            txt = "\n".join(f"{a + i + 1:6d}→{l}" for i, l in enumerate(c))
            return (
                "Read",
                inp,
                txt,
                {
                    "type": "text",
                    "file": {
                        "filePath": p,
                        "content": "\n".join(c),
                        "numLines": n,
                        "startLine": a + 1,
                        "totalLines": len(lines),
                    },
                },
            )
        if x < 0.45:
            a, c = s.chunk(lines, 2, 25)
            old = "\n".join(c)
            new = []
            for l in c:
                new.append(l.replace(s.ident(), s.ident()) if r.random() < 0.5 else l)
                if r.random() < 0.35:
                    new.append(
                        (l[: len(l) - len(l.lstrip())])
                        + f"{s.ident()} = {s.ident()}({s.ident()!r})  # {r.choice(PROSE)[:50]}"
                    )
            new = "\n".join(new)
            orig = lines if len(lines) < 500 and r.random() < 0.5 else None
            snip = "\n".join(f"{a + i + 1:6d}→{l}" for i, l in enumerate(new.split("\n")))
            patch = [
                {
                    "oldStart": a + 1,
                    "oldLines": len(c),
                    "newStart": a + 1,
                    "newLines": new.count("\n") + 1,
                    "lines": ["-" + l for l in c] + ["+" + l for l in new.split("\n")],
                }
            ]
            return (
                "Edit",
                {"file_path": p, "old_string": old, "new_string": new},
                f"The file {p} has been updated. Here's the result of running `cat -n` on a snippet of the edited file:\n{snip}",
                {
                    "filePath": p,
                    "oldString": old,
                    "newString": new,
                    "originalFile": "\n".join(orig) if orig else None,
                    "structuredPatch": patch,
                    "userModified": False,
                    "replaceAll": False,
                },
            )
        if x < 0.50:
            a, c = s.chunk(lines, 20, 250)
            t = "\n".join(c)
            return (
                "Write",
                {"file_path": p, "content": t},
                f"File created successfully at: {p}",
                {"type": "create", "filePath": p, "content": t, "structuredPatch": []},
            )
        if x < 0.62:
            pat = s.ident()
            hits = []
            for j in s.focus[:14]:
                fp, fl = s.files[j]
                for i, l in enumerate(fl):
                    if pat in l:
                        hits.append(f"{s.cwd}/{fp}:{i + 1}:{l[:240]}")
                        if len(hits) > 160:
                            break
                if len(hits) > 160:
                    break
            t = "\n".join(hits) or "No matches found"
            return (
                "Grep",
                {"pattern": pat, "path": s.cwd, "output_mode": "content", "-n": True},
                t,
                {"mode": "content", "numFiles": 0, "filenames": [], "content": t, "numLines": len(hits)},
            )
        if x < 0.66:
            fs = [f"{s.cwd}/{q}" for q, _ in r.sample(s.files, min(len(s.files), r.randint(3, 60)))]
            t = "\n".join(fs)
            return (
                "Glob",
                {"pattern": f"**/*{r.choice(['.py', '.h', 'test*', s.ident()])}"},
                t,
                {"filenames": fs, "durationMs": r.randint(3, 400), "numFiles": len(fs), "truncated": False},
            )
        if x < 0.70:
            todos = [
                {
                    "content": r.choice(PROSE)[:90],
                    "status": r.choice(["pending", "in_progress", "completed"]),
                    "activeForm": r.choice(PROSE)[:80],
                }
                for _ in range(r.randint(2, 8))
            ]
            return (
                "TodoWrite",
                {"todos": todos},
                "Todos have been modified successfully. Ensure that you continue to use the todo list to track your progress. Please proceed with the current tasks if applicable",
                {"oldTodos": todos[:-1], "newTodos": todos},
            )
        cmd, t = s.bash()
        return (
            "Bash",
            {"command": cmd, "description": r.choice(PROSE)[:60]},
            t,
            {"stdout": t, "stderr": "", "interrupted": False, "isImage": False},
        )

    def bash(s):
        r = s.r
        k = r.random()
        p, lines = s.file()
        if k < 0.28:
            n = s.nlines(3.4, 0.8, 300)
            fn = f"tests/test_{s.ident()}.py"
            o = [
                f"============================= test session starts ==============================\nplatform linux -- Python 3.11.7, pytest-8.3.2\nrootdir: {s.cwd}\ncollected {n} items\n"
            ]
            for i in range(n):
                o.append(
                    f"{fn}::test_{r.choice(TESTNAMES)} {'PASSED' if r.random() < 0.93 else 'FAILED'} [{100 * (i + 1) // n:3d}%]"
                )
            if r.random() < 0.5:
                _, c = s.chunk(lines, 5, 40)
                o.append(
                    "=================================== FAILURES ===================================\n"
                    + "\n".join("    " + l for l in c)
                    + f"\nE       {r.choice(['AssertionError', 'TypeError', 'KeyError', 'ValueError'])}: {s.ident()!r} {r.choice(PROSE)[:70]}\n{p}:{r.randint(1, 900)}: AssertionError"
                )
            o.append(
                f"=================== {r.randint(0, 3)} failed, {n} passed in {r.random() * 30:.2f}s ==================="
            )
            return f"cd {s.cwd} && python -m pytest {fn} -x -q 2>&1 | tail -{r.randint(20, 200)}", "\n".join(o)
        if k < 0.45:
            o = []
            for _ in range(r.randint(1, 4)):
                p, lines = s.file()
                a, c = s.chunk(lines, 6, 50)
                h = f"{r.getrandbits(28):07x}"
                o.append(
                    f"diff --git a/{p[len(s.cwd) + 1 :]} b/{p[len(s.cwd) + 1 :]}\nindex {h}..{r.getrandbits(28):07x} 100644\n@@ -{a + 1},{len(c)} +{a + 1},{len(c)} @@"
                )
                for l in c:
                    o.append((" " if r.random() < 0.6 else r.choice("+-")) + l)
            return r.choice(["git diff", "git diff HEAD~1", f"git show {r.getrandbits(28):07x}"]), "\n".join(o)
        if k < 0.58:
            fs = r.sample(s.files, min(len(s.files), r.randint(4, 50)))
            return "ls -la", "total 412\n" + "\n".join(
                f"-rw-r--r-- 1 dev dev {len(l) * 31:8d} {r.choice(['Jan', 'Mar', 'Jul', 'Nov'])} {r.randint(1, 28):2d} {r.randint(0, 23):02d}:{r.randint(0, 59):02d} {q.split('/')[-1]}"
                for q, l in fs
            )
        if k < 0.70:
            n = r.randint(4, 40)
            return f"git log --oneline -{n}", "\n".join(
                f"{r.getrandbits(28):07x} {r.choice(['fix', 'feat', 'refactor', 'docs', 'test'])}: {r.choice(PROSE)[:64]} (#{r.randint(1, 5000)})"
                for _ in range(n)
            )
        if k < 0.82:
            n = s.nlines(3.2, 1.0, 400)
            T = s.t
            o = []
            for _ in range(n):
                T += r.random() * 2
                o.append(
                    f"{time.strftime('%Y-%m-%d %H:%M:%S', time.gmtime(T))},{int(T % 1 * 1000):03d} {r.choice(['INFO', 'DEBUG', 'WARNING', 'ERROR'])} {s.repo}.{s.ident()}: {s.ident()} id={r.getrandbits(48):012x} took {r.random() * 900:.1f}ms"
                )
            return f"tail -{n} /var/log/{s.ident()}.log", "\n".join(o)
        if k < 0.90:
            o = ["Traceback (most recent call last):"]
            for _ in range(r.randint(2, 14)):
                p, lines = s.file()
                i = r.randrange(len(lines))
                o.append(f'  File "{p}", line {i + 1}, in {s.ident()}\n    {lines[i].strip()}')
            o.append(f"{r.choice(['TypeError', 'ValueError', 'RuntimeError', 'OSError'])}: {r.choice(PROSE)[:100]}")
            return f"python -c 'import {s.ident()}'", "\n".join(o)
        a, c = s.chunk(lines, 10, 200)
        return f"sed -n {a + 1},{a + len(c)}p {p}", "\n".join(c)

    # one session as a list of abstract steps
    def steps(s):
        r = s.r
        n = max(12, int(r.lognormvariate(math.log(132), 0.6)))
        n = min(n, 1500)
        out = 0
        while out < n:
            yield "user", s.prose(30, 700) if r.random() < 0.85 else s.prose(900, 6000)
            out += 1
            for _ in range(max(1, int(r.expovariate(1 / 9)))):
                if r.random() < 0.33:
                    yield "think", s.prose(150, 1800)
                    out += 1
                if r.random() < 0.42:
                    yield "text", s.prose(50, 420)
                    out += 1
                yield "tool", s.tool()
                out += 2
            yield "text", s.prose(300, 2600)
            out += 1


J = lambda o: json.dumps(o, ensure_ascii=False, separators=(",", ":"))


def claude(s: Sess):
    r = s.r
    sid = s.uuid()
    parent = None
    ver = f"2.{r.randint(0, 1)}.{r.randint(0, 99)}"
    out = []

    def env(**kw):
        nonlocal parent
        u = s.uuid()
        d = {
            "parentUuid": parent,
            "isSidechain": False,
            "userType": "external",
            "cwd": s.cwd,
            "sessionId": sid,
            "version": ver,
            "gitBranch": s.branch,
        }
        d.update(kw)
        d.update(uuid=u, timestamp=s.now())
        parent = u
        out.append(J(d))

    def asst(block, stop="tool_use"):
        n = len(J(block)) // 4
        s.ctx = min(s.ctx + n, 180_000)
        env(
            message={
                "model": s.model,
                "id": "msg_01" + s.tok(22),
                "type": "message",
                "role": "assistant",
                "content": [block],
                "stop_reason": stop,
                "stop_sequence": None,
                "usage": {
                    "input_tokens": r.randint(1, 12),
                    "cache_creation_input_tokens": n,
                    "cache_read_input_tokens": s.ctx,
                    "cache_creation": {"ephemeral_5m_input_tokens": n, "ephemeral_1h_input_tokens": 0},
                    "output_tokens": max(1, n),
                    "service_tier": "standard",
                },
            },
            requestId="req_011C" + s.tok(20),
            type="assistant",
        )

    out.append(
        J(
            {
                "type": "file-history-snapshot",
                "messageId": s.uuid(),
                "snapshot": {"messageId": s.uuid(), "trackedFileBackups": {}, "timestamp": s.now()},
                "isSnapshotUpdate": False,
            }
        )
    )
    for kind, v in s.steps():
        if kind == "user":
            env(
                type="user",
                message={"role": "user", "content": v},
                thinkingMetadata={"level": "high", "disabled": False, "triggers": []},
                todos=[],
            )
        elif kind == "think":
            asst(
                {
                    "type": "thinking",
                    "thinking": v,
                    "signature": base64.b64encode(r.randbytes(180 + len(v) // 3)).decode(),
                },
                None,
            )
        elif kind == "text":
            asst({"type": "text", "text": v}, "end_turn")
        else:
            name, inp, txt, tur = v
            tid = "toolu_01" + s.tok(22)
            asst({"type": "tool_use", "id": tid, "name": name, "input": inp})
            env(
                type="user",
                message={
                    "role": "user",
                    "content": [
                        {"tool_use_id": tid, "type": "tool_result", "content": txt[:50_000]}
                        | ({"is_error": False} if name == "Bash" else {})
                    ],
                },
                toolUseResult=tur,
            )
    return f"claude/-{s.cwd.strip('/').replace('/', '-')}/{sid}.jsonl", out


def codex(s: Sess):
    r = s.r
    sid = s.uuid()
    out = []

    def w(t, p):
        out.append(J({"timestamp": s.now(), "type": t, "payload": p}))

    w(
        "session_meta",
        {
            "id": sid,
            "timestamp": s.now(0.01),
            "cwd": s.cwd,
            "originator": "codex_cli_rs",
            "cli_version": "0.65.0",
            "instructions": None,
            "source": "cli",
            "model_provider": "openai",
            "git": {
                "commit_hash": f"{r.getrandbits(160):040x}",
                "branch": s.branch,
                "repository_url": f"git@github.com:acme/{s.repo}.git",
            },
        },
    )
    tot = 0
    for kind, v in s.steps():
        if kind == "user":
            w(
                "turn_context",
                {
                    "cwd": s.cwd,
                    "approval_policy": "on-request",
                    "sandbox_policy": {"mode": "workspace-write", "network_access": False},
                    "model": "gpt-5-codex",
                    "effort": "high",
                    "summary": "auto",
                },
            )
            w("response_item", {"type": "message", "role": "user", "content": [{"type": "input_text", "text": v}]})
            w("event_msg", {"type": "user_message", "message": v, "images": []})
        elif kind == "think":
            w("event_msg", {"type": "agent_reasoning", "text": v[:400]})
            w(
                "response_item",
                {
                    "type": "reasoning",
                    "summary": [{"type": "summary_text", "text": v[:400]}],
                    "content": None,
                    "encrypted_content": base64.b64encode(r.randbytes(600 + len(v))).decode(),
                },
            )
        elif kind == "text":
            w("event_msg", {"type": "agent_message", "message": v})
            w(
                "response_item",
                {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": v}]},
            )
        else:
            name, inp, txt, _ = v
            cid = "call_" + s.tok(24)
            if name == "Bash":
                fn, args = "shell", {"command": ["bash", "-lc", inp["command"]], "workdir": s.cwd, "timeout_ms": 120000}
            elif name in ("Edit", "Write"):
                fn, args = (
                    "apply_patch",
                    {
                        "input": "*** Begin Patch\n*** Update File: "
                        + inp["file_path"]
                        + "\n"
                        + "\n".join("-" + l for l in inp.get("old_string", "").split("\n"))
                        + "\n"
                        + "\n".join("+" + l for l in inp.get("new_string", inp.get("content", "")).split("\n"))
                        + "\n*** End Patch"
                    },
                )
            else:
                fn, args = "shell", {"command": ["bash", "-lc", f"rg -n {J(inp)[:200]}"], "workdir": s.cwd}
            w("response_item", {"type": "function_call", "name": fn, "arguments": J(args), "call_id": cid})
            w(
                "response_item",
                {
                    "type": "function_call_output",
                    "call_id": cid,
                    "output": J(
                        {
                            "output": txt[:10_000],
                            "metadata": {"exit_code": 0, "duration_seconds": round(r.random() * 3, 1)},
                        }
                    ),
                },
            )
            tot += len(txt) // 4
            w(
                "event_msg",
                {
                    "type": "token_count",
                    "info": {
                        "total_token_usage": {
                            "input_tokens": tot,
                            "cached_input_tokens": tot // 2,
                            "output_tokens": tot // 9,
                            "reasoning_output_tokens": tot // 20,
                            "total_tokens": tot + tot // 9,
                        },
                        "model_context_window": 272000,
                    },
                    "rate_limits": {"primary": {"used_percent": 12.0, "window_minutes": 300, "resets_at": int(s.t)}},
                },
            )
    g = time.gmtime(s.t)
    return f"codex/{time.strftime('%Y/%m/%d', g)}/rollout-{time.strftime('%Y-%m-%dT%H-%M-%S', g)}-{sid}.jsonl", out


def copilot(s: Sess):
    sid = s.uuid()
    out = []
    parent = None

    def w(t, d):
        nonlocal parent
        i = s.uuid()
        out.append(J({"type": t, "data": d, "id": i, "timestamp": s.now(), "parentId": parent}))
        parent = i

    w(
        "session.start",
        {
            "sessionId": sid,
            "version": 1,
            "producer": "copilot-agent",
            "copilotVersion": "1.0.48",
            "startTime": s.now(0.01),
            "context": {"cwd": s.cwd, "gitRoot": s.cwd, "branch": s.branch, "repository": f"acme/{s.repo}"},
        },
    )
    for kind, v in s.steps():
        if kind == "user":
            w(
                "user.message",
                {
                    "content": v,
                    "transformedContent": f"<current_datetime>{s.now(0.01)}</current_datetime>\n\n{v}",
                    "attachments": [],
                },
            )
        elif kind in ("think", "text"):
            w("assistant.message", {"messageId": s.uuid(), "content": v, "toolRequests": []})
        else:
            name, inp, txt, _ = v
            tid = "toolu_" + s.tok(24)
            m = {"Read": "view", "Bash": "bash", "Edit": "edit", "Write": "create", "Grep": "grep", "Glob": "glob"}.get(
                name, name.lower()
            )
            w(
                "assistant.message",
                {
                    "messageId": s.uuid(),
                    "content": "",
                    "toolRequests": [{"toolCallId": tid, "name": m, "arguments": inp}],
                },
            )
            w("tool.execution_start", {"toolCallId": tid, "toolName": m, "arguments": inp})
            w(
                "tool.execution_complete",
                {
                    "toolCallId": tid,
                    "success": True,
                    "result": {"content": txt[:20_000], "detailedContent": txt[:50_000]},
                    "toolTelemetry": {},
                },
            )
    return f"copilot/{sid}/events.jsonl", out


def one(a):
    out, seed, k, fmt = a
    rel, lines = {"claude": claude, "codex": codex, "copilot": copilot}[fmt](Sess(seed, k))
    p = Path(out) / rel
    p.parent.mkdir(parents=True, exist_ok=True)
    b = ("\n".join(lines) + "\n").encode()
    p.write_bytes(b)
    return len(b), len(lines)


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--out", required=True)
    ap.add_argument("--sessions", type=int, default=2000)
    ap.add_argument("--start", type=int, default=0)
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--format", default="claude")
    ap.add_argument("--procs", type=int, default=2)
    a = ap.parse_args()
    os.environ["GEN_V"] = "1"
    load()
    t = time.time()
    nb = nl = 0
    with mp.get_context("fork").Pool(a.procs) as pool:
        for b, l in pool.imap_unordered(
            one, ((a.out, a.seed, k, a.format) for k in range(a.start, a.start + a.sessions)), 8
        ):
            nb += b
            nl += l
    print(
        f"{a.format}: {a.sessions} sessions, {nl} lines, {nb / 1e6:.1f} MB, mean line {nb / nl:.0f} B, mean session {nb / a.sessions / 1e3:.0f} KB, {time.time() - t:.1f}s"
    )
