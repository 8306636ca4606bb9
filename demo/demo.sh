#!/bin/sh
# The main job on real sample logs: read, list, find, show, give back, check. Touches nothing outside a
# temporary folder, and needs no agent installed.
set -eu
backstory=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM
cp -R "$here/home" "$work/home"
# A log that was written just now could be open in its agent, so it would not be resumed.
find "$work/home" -name '*.jsonl' -exec touch -t 202601010000 {} +
HOME=$work/home
BACKSTORY_HOME=$work/store
# Nobody is asked to leave a pager.
PAGER=cat
export HOME BACKSTORY_HOME PAGER
unset CLAUDE_CONFIG_DIR CODEX_HOME 2>/dev/null || true
cd "$work"

run() {
    printf '\n\033[1m$ backstory %s\033[0m\n' "$*"
    "$backstory" "$@"
}

printf 'Logs of two agents, as they left them on the disk:\n'
find home -name '*.jsonl' -exec wc -c {} + | awk '$2 != "total" { size += $1; n++ } END { printf "%d logs, %.1f MB\n", n, size / 1e6 }'

run ingest
run ingest
run list --all
run rename 011ed182-7e99-4421-9c41-c873947f9fe6 'First steps'
run restore --all --to "$work/out" --json >"$work/restored.json"
printf '%s files written, compared with the originals: ' "$(grep -c '"sha256"' "$work/restored.json")"
diff -r "$work/home/.claude" "$work/out/claude" -x '*.meta.json'
diff -r "$work/home/.codex" "$work/out/codex"
printf 'all the same, byte for byte\n'

printf '\n\033[1mNow a live run, with a scripted agent in the place of claude:\033[0m\n'
mkdir "$work/project"
cd "$work/project"
printf 'alpha\n' >notes.txt
PATH=$here/agent:$PATH
export PATH
run run -a claude 'What is in this folder?'
run run -a claude 'What did you say?'
run show S1
printf '\n\033[1mAnother way on from its first answer, @5:\033[0m\n'
run run -a claude @5 'What else did you see?'
run tree
run diff @9 @13
cd "$work"
run verify
run backup "$work/copy.db"

printf '\n\033[1mA day: find it, read it, go on with it, and see what it took.\033[0m\n'
run search notes.txt beta --agent claude --limit 1
run show 011ed182-7e99-4421-9c41-c873947f9fe6
run resume 011ed182-7e99-4421-9c41-c873947f9fe6 --cwd "$work/project"
run stats --all --by agent
printf '\n\033[1mDone.\033[0m Everything was in %s, which is removed again. On your own logs: backstory ingest\n' "$work"
