"""The one meaning of each key of JSON."""

from __future__ import annotations

TEXTS = """
about: what a finding is about
accepted_count: secrets that a person accepted, and that are not listed
action: what is done: to settings `add`, `update`, `remove`, `none`; to a file `create`, `edit`, `read`, `delete`
added_lines: the lines that an edit adds
address: the address of a team server
advice: what to do, where `SESSION` is any session of the evidence
after_seq: the last record that a summary covers
age: when sessions were last active, in words
agent: the agent, by its name
agents: the agents of a session, by name
all_input_tokens: tokens of input, those from caches included
answer: the last text of the model
api_latency_ms: the time that the model took
as_of: when it was named first, which is how old its state is
as_text: records that are written as text
as_typed: a command as it is typed in a shell
asked: the last prompt that asked for work
asked_at: when that was
at: when it happened
at_least: true where the counts are lower bounds
author: who wrote it: a person of a commit, an agent of a board's item
authored: when a commit was written
backfill_failed_count: requests to derive anew that a team's server refused
backfill_queued_count: sessions that a team's server derives anew
because: why a line is likely that session's: `edit`, `trailer`, `hour`, `shell`
board: the names of the board's items that a prompt is offered
board_items: items of boards that came, changed or went
boards: boards, each with `item_count`
branch: the git branch
branches: branches of a session's tree
budget: the most characters that a context may have
by: what groups are by
by_age: figures of sessions by when they were last active
by_agent: figures of each agent
by_day: figures of each day
by_kind: figures of each kind of what is stored
by_model: figures of each model
by_person: figures of each person of a team
by_project: figures of each project; of a prune, of each agent in it
by_repository: figures of each repository
by_session: figures of each session
bytes: the length of a file or of what was moved
bytes_after: the length of the stores afterwards
bytes_before: the length of the stores before
bytes_read: bytes of logs that were read
cache_read: tokens that a cache gave
cache_read_tokens: tokens of input that a cache gave, in all turns of the report
cache_write: tokens that a cache took
cache_write_1h: the part of `cache_write` that a cache holds for an hour
calls: calls of a tool
calls_without_result: calls whose result never came
came: uids of imported sessions, by what was done with them
case: the case that was written; null where there was nothing to write one of
changed: when an item was written last
changes: the changes of a timer, by file
char_len: characters of the whole event
chars: characters
checked: how much was checked, by kind
checks: the last run of tests, build and so on
children: sessions that were begun from this one
columns: the columns of a query
command: a command as a list of words
command_line: a command as it was typed
commit: the commit that a report is about
commits: how many commits were made
committed: when a commit was committed
compaction: the summary that a context begins with
compaction_id: the number of a summary in its store
compactions: summaries within what is shown
companions: files beside a log
companions_read: files beside logs that were new or changed
complete: true if nothing failed
completed: true if the last turn ended well
computed_usd: the part of a cost that was computed from tokens
confirmed_count: sessions that a team's server has
conflict: true if the home store knows this uid from another place
content: the text of a prompt or item
context: the text that carries a session into a run
context_chars: characters of the context that a run was sent
context_limit: characters of context from which a summary is made
context_max: the most characters of a context
context_percent: `context_used` of `context_limit`, in percent
context_used: characters of context since the last summary
converted: records that are written in the agent's own form
copies: sessions that hold copies of what was deleted
copy: true if a hit is in a copied turn
copy_count: how many sessions hold copies of turns of those that went
cost_kind: how a cost is known: `exact`, `computed`, `lower bound`, `included`, `unknown`
cost_source: where a turn's cost is from
cost_usd: the cost in dollars, where it is known; `low_usd` and `high_usd` are its bounds
count: how often it was found: a tip's pattern, a type or key of records
counted_earlier: true where an earlier version counted some of it
counts: how many the store has of each kind; null where counting takes too long
created: when it was made
created_count: sessions that are new on a team's server
created_uids: sessions, by uid, that are new on a team's server
current: true of the turn or branch that the next prompt follows
cwd: the folder that it ran in
damaged: sessions of a file that are damaged
day: the day of a group
deleted: turns that are deleted for good
depth: how many turns are before it on its branch
description: the first line of an item
detail: what else is known of a finding
diff: the change of a file
dropped_count: queued prompts that were dropped
dropped_prompts: queued prompts that were dropped with their sessions
duration_ms: how long it took
edits: the changes of a settings file
elapsed_ms: how long a query took
emails: e-mail addresses that would leave as they are
enabled: true if history may leave this machine
ended: when a turn ended
env: the variables that a client gives the server
erased_count: sessions that were erased on a team's server
erased_uids: sessions, by uid, that a team's server erased since they were removed here
erasing_uids: sessions, by uid, that a team's server is to erase since they were removed here
error: why it failed
errors: what could not be read, each with `reason`
estimated_ms: about how much time a tip is worth
estimated_usd: about how many dollars a tip is worth
event_count: events of a session
events: events, in order; of `show -f` one a line
events_new: new events of an import
evidence: the places where a finding shows
exact: true if written byte for byte as the other tool does
exact_usd: the part of a cost that agents reported
exchanges: prompts with their answers that a summary covers
exit_code: the exit code of a command
expires: until when a login is good
explained: each turn of the branch, and whether it is sent; of `ingest` sentences
exports: the files of an export of several sessions
failed: sessions that were not imported, each with `reason`
failed_calls: calls that failed
failed_count: sessions that a team's server did not take
failed_uids: sessions, by uid, that are not in a file, because they went meanwhile or are damaged
fate: what a record becomes: `kept`, `converted`, `as_text`, `left_out`
file: the path of a file that is read or written
file_count: files that were written
file_reason: why that file
files: files, each with `path`
finding: the name of a kind of findings
findings: what was found: what went wrong more than once, or what a check-up says
fingerprint: the digits in the mask of a secret, made with a key of this machine
first: the first line or record of a range
first_prompt: the first prompt
first_seq: the first record of a result that is named
first_there: the first record of a range in the other store
fixed: the commands that `--fix` ran, each with `exit_code`
folder: a folder
follows: the record that the next prompt follows
forgotten_uids: sessions, by uid, that were taken out of a team's server and stay out
fork: where two branches part
format: the form of an export
found: the program of an agent
frame_count: frames that came
freed_bytes: bytes that are free on the disk afterwards; before that, about
from: the folder that was moved
from_elsewhere: true if it came with a store that is not trusted
gone_folders: folders that are gone, in which sessions wrote lines that no session here wrote
group: what a kind of findings is about: `machine`, `home`, `disk`, `stores`, `locks`, `runs`, `agents`, `sync`
groups: the same figures as `sums`, by group
has_board: true if context boards may leave, too
has_bytes: true if an export has the bytes of logs
has_more: true if the list goes on
hash: the hash of a commit
heartbeat: when a runner last said that it lives
held: true if it runs only when a person releases it
here_count: sessions of a report that only this machine has
high_usd: an estimate of what a lower bound may come to
history: a section of a summary
hit_count: how many hits there are
hits: hits, the best first
holder_label: the same session, as every command takes it
holder_uid: the session that holds the record: a subagent, or the same as `uid`
host: the host of a repository, or of a runner
hour: the hour of the day of a group, `09`
id: a queued prompt, as `queue edit` and `queue drop` take it; the `turn_uid` of the turn that it becomes
important_files: a section of a summary
in_force: true if contexts begin with this summary
input: tokens of input
instead: words that were searched for, by the word typed
invitation: a code by which one person comes in to a team
is_binary: true if a file is no text
is_dry_run: true where nothing was changed
is_due: true if a summary is due
is_enough: true if the store is as small as was asked for
is_generated: true if a file is generated
is_live: true if an event is not stored yet
is_log_there: true if the client's log is where it looks for it
is_maker: true if the session made the commit
is_merge: true if a commit has several parents
is_new: true if it was not there before
is_stored: true if a summary was stored
is_this: true of the machine that the command runs on
item_count: items of a board
items: items of a board
items_max: the most items of a board
kept: records that are written as they were
kept_exchanges: exchanges that stay beside a summary
kept_words: words of a case that no format has
key: the name of a setting, or of a commit's trailer; the path of a record's key, `message.content[text].text`
keys: keys of records that their agent's adapter does not know
kind: the kind: of an event, a prompt, a point, a check, a record
label: a session, as every command takes it
largest_input: tokens of the largest request
last: the last line of a range
last_active: when it was last active
last_cost_usd: the cost of the last turn
last_duration_ms: how long the last turn took
last_seq: the last record
last_there: its last record
late_stores: stores that could not be written now, and catch up later
leaf: the number of a branch
leaving: repositories of which sessions would leave
left: the first branch that is compared
left_out: how many are left out
left_out_uids: sessions, by uid, that a merge left out
left_paths: files that are not ours, so that they stayed
likely: lines that are likely a session's
limit: characters of context from which a summary is made
line: the number of a line in a file
listed_new: new sessions, without subagents
listed_updated: changed sessions, without subagents
live: the state of a turn that runs, or waits to be stored
log: the path of the log
login_id: a login at a team's server
login_token: the secret of a login, which is shown once
logins: logins of a person at a team's server
logs: the logs that were restored
logs_read: logs that were read
logs_seen: logs that were found
low_usd: what a cost is at least, in dollars
machine: a machine: one that was let in, whose history was erased, or that sent a session
machines: machines of the person that sent history
marks: where the words are in a snippet: start and end
mask: the name of a secret: its mask without the brackets
masked: how often something was masked, by its shape
meaning: what a setting is for
means: what a finding means, in a sentence
membership: the rights of a person in a team: `reader`, `member` or `admin`
model: the model, as the agent names it
moved: a folder that was moved
moved_paths: files that were moved
moved_records: records that have other numbers here
moves: folders that were moved
name: the name that a person gave it
named: how many facts of a kind a summary still names, of `total`
names: the names of a branch
names_session: true if a trailer names a session
native_id: the id that the agent gave it
near: true if the words are there in another form only
near_sessions: sessions with similar words
needs_mending: true where something is to be mended; else all are notes
next_steps: a section of a summary
not_covered: sessions that are not indexed yet
not_read: logs of agents that are not read, by agent
not_understood: logs that nobody understands, each with `reason`
number: `S1`: the number of a session in its project
number_there: its number in the other store
off: the setting by which nothing was done, as the home store is off
offered_count: sessions that the other side has
ok: true if it is well
on_current_branch: true of a turn that the next prompt follows, at once or not
open: what is left to do
options: the options of a queued prompt
organisation: the name of a team's organisation on its server
origin: what sets a setting
original: where a log once was
other: the other store
ours: true if `compact` made the summary
outcome: how a turn ended: `completed`, `failed`, `cancelled`, `crashed`
outdated: true if the index is of an earlier version
output: tokens of output
overview: a summary, or its first section
owner: the runner of a session
parent_seq: the record of the turn that this one follows
parent_turn_uid: the turn that this one follows
parent_uid: the session that this one belongs to
part: the part of its record
parts: the events of a record that has several, each with `fate`
passed_over: files that were not taken, each with the reason
path: the path of a file
paths: files that were changed
paths_elsewhere: files outside the project that were changed
pattern: the pattern of a tip
people: the people of an organisation
people_count: people who have history of it on a team's server
person: the name of a person of a team
pid: a process
places: repositories and folders, the last active first
points: prompts, decisions and commits
position: the place in a queue
prefix_chars: characters before a prompt
problem: what is wrong, in a sentence
problems: what is wrong, in sentences
program: the commands that remove the program itself
project: the folder of a project
project_name: the name of a project on screens
prompt: the prompt, as it was typed
prompts: prompts: queued, or of a recap
proposals: lines that an instruction file lacks
pruned: parts that are pruned: with `prompts` or `summaries` these stay, `tool-outputs` and `images` go; null: none
pulled: results of a pull, by the machine or the writer that it was from
pushed_uids: sessions, by uid, that were written
query: the words that were searched for
queued: when a prompt was queued
queued_count: prompts that wait
pruned_sessions: how many sessions were pruned in part
read_count: how often an item was read
reason: why, in a sentence
reasoning: tokens of thinking
record_text: a record that has no event, as its agent wrote it
records: records, each with `seq`
records_read: records that were read
records_written: records that were written
redacted: true if an export was masked
reduced: what a form has no place for, and how often
refs: pull requests, issues and commits that are named
refused: calls that were refused, each with `tool_name` and `input` of a `ToolCall`
relation: how a session belongs to its parent
relaxed: true if fewer words were asked for
remark: a sentence for people: `show -f` waits for another process
remarks: sentences
removed: when a turn was removed
removed_count: sessions that were removed
removed_items: items that were removed
removed_lines: the lines that an edit removes
removed_paths: logs and files that were removed
removed_turns: turns that were removed
removed_uids: sessions, by uid, that were removed
report: what becomes of each record
repositories: the repositories of which an organisation has history
repository: the repository, as its remote names it
restored: turns that were shown again
results: commits and pull requests
results_left_out: results that a context leaves out
resume_command: the command that continues it, as a list of words
retention: what a summary still names of what it covers
rewound: true if the agent went back before it
right: the second branch that is compared
rights: what a login may: `read`, `search`, `sync`, `admin`, `steer`
role: who speaks: `user`, `assistant`, `tool`
room_bytes: bytes of stores that something takes, about
row_counts: rows of a file, by kind
rows: rows, each a list in the order of `columns`
rule: the rule of a finding
rule_pruned: what the rule of the settings pruned: `uids`, `freed_bytes`; null without a rule
runs: runs; of a file ranges of lines
safe: true for a command that loses nothing, starts no agent and sends nothing
scope: the kind of text of a hit; of settings `user` or `project`
score: how well a hit fits
sealed: true where files are sealed with a passphrase
secrets: secrets that nobody accepted, each with its `sightings`; never a value
seen: the day on which a machine sent something last
sent: true if a turn is sent
sent_uids: sessions, by uid, of which a team's server confirmed something
seq: a record: `@12` of a session
seqs: records
served: settings that still have the old folder
session: a session
session_cost_usd: the cost of all turns of the session
session_count: how many sessions; of an item of a board, those that began since it was written
session_duration_ms: how long all turns of the session took
sessions: sessions, each with `uid` and `label`
sessions_derived: sessions that were derived again
sessions_gone: sessions whose logs are gone
sessions_new: new sessions, with subagents
sessions_updated: changed sessions, with subagents
set: the line for your shell
settings: settings
sha256: the hash of a file
show: the command that shows the turn
shown_in: the session, by uid, that shows a copied turn or what happened in it
sidecar: the file beside a log that has it; null where a record has it
sidecars_read: files beside logs that were looked through
sidecars_without_text: files beside logs that are no text, so that they were not looked at
sighting_count: the number of places that have it
sightings: the places of a secret: a session with a record or a file beside its log
since: the beginning of the time that was asked for
skipped_paths: files that the new folder has already
snippet: the text around a hit
source: where history was pulled from: a machine or a folder
spared: sessions that were meant and stay, each with the reason
src: who wrote an item: `user` or `agent`
started: when it began
state: the state of a run
status: whether work is done, open or stuck
staying: sessions that would stay, by repository and `reason`
staying_count: sessions that stay on this machine
step: which part of a summary is made
steps: how many parts a summary takes
stop_reason: why the model stopped
stopped: true if a search took too long
store: the path of a store
stores: stores, each with its path and figures
strength: how it is known who wrote lines: `wrote it`, `likely`, `no session`
subagent_uid: the subagent whose record it is
subagents: sessions that this one started
subagents_usd: what subagents cost
subject: the first line of a commit
success: true if the turn ended well
summaries: summaries of a session
summaries_without_cost: summaries whose cost is unknown
summaries_without_tokens: summaries whose tokens are unknown
summarized_exchanges: exchanges that a summary covers
summary: the text of a summary
summary_count: how many summaries
summary_sums: tokens and cost of summaries
sums: the figures of all that was asked for
symlink: true if a link was left in the old place
sync: what a team's server confirmed; null if nothing was to be sent
taken_out: true for what was taken out now
target: the file, commit or pull request that was asked for
technical_details: a section of a summary
text: a text
there_count: sessions of a report that a team's server has
things: what is ours on the machine
timer: what starts imports by the clock: `systemd`, `launchd` or `crontab`
tips: tips, those that cost most first
title: the title in a line
to: the folder it was moved to
tokens: the tokens of a turn, or of several: `input`, `output`, `cache_read`, `cache_write`
tokens_source: where a turn's tokens are from
tool: the name of a tool
tool_name: the tool of a call that was refused, as its agent names it
tools: calls of tools
total: how long the whole list is; how many there are
total_tokens: tokens read and written, caches included
totals: how many there are
trailers: lines of a commit's message that name an agent
truncated: true if there is more
trusted: true if it was trusted
turn: a turn: its number in the session, from 1
turn_count: how many turns
turn_seq: the record of the turn's prompt
turn_uid: the uid of a turn
turn_uids: turns, by uid
turns: turns, in order
turns_in_brief: turns of which a context has a short form
turns_left_out: turns that a context leaves out
turns_new: turns that are new here
turns_removed: turns that were removed here
turns_replaced: turns that have a longer copy now
turns_with_partial_tokens: turns of which a count is missing
turns_without_cost: turns whose cost is unknown
turns_without_duration: turns whose time is unknown
turns_without_tokens: turns whose tokens are unknown
type: `pr`, `issue` or `commit`
types: types of records that their agent's adapter does not know
types_only: agents whose adapters do not say which keys they know
uid: the uid of a session
uids: sessions, by uid
unchanged_count: sessions of which there was nothing to send
undated_turns: turns that were left out because they have no time
underived_count: sessions that a team's server has yet to derive, which are not counted
undone: true if it was undone
unknown_records: records that nobody understands, by kind
unnamed: the name that was removed
until: the end of the time that was asked for
unusable: entries of sync.repositories that name no repository
used: the day on which a login was used last
value: a value: of a setting, a trailer, a ref
version: the version of the agent, as its log has it
versions: the versions of an agent that wrote it, each with its first place
waiting_count: sessions that may have changed since they were sent
was_running: true if a run was stopped
was_summarising: true if a summary was stopped
weekday: the day of the week of a group, `Monday`
went_on_here: sessions, by uid, that went on here alone
went_on_there: sessions, by uid, that went on there alone
what: what was queued: `steer` or `followup`
why: why, in a few words
without_case: known types of records of which no case was recorded
without_session: lines that no session wrote
words: the words of the query that the hit has, as they are written there
work_done: a section of a summary
writer: the name of a folder that a machine writes to
written: true if the file is written
wrong: why a setting cannot be used
wrote: lines that a session wrote
"""
MEANINGS = dict(line.split(": ", 1) for line in TEXTS.strip().splitlines())
OF_NULL = {
    "api_latency_ms": "number", "because": "string", "parent_uid": "string", "reasoning": "number",
    "relation": "string", "shown_in": "string", "subagent_uid": "string",
    "wrong": "string",
}  # fmt: skip
"""The types of keys that are null on a small machine."""
_SECTIONS = ("ours", "overview", "history", "work_done", "technical_details", "important_files", "next_steps")
UNSEEN = {
    "remark": ("string", "show"),
    "removed_paths": ("list", "export", "resume"),
    **{each: ("boolean" if each == "ours" else "string", "report recap") for each in _SECTIONS},
    **dict.fromkeys(("first_there", "last_there"), ("number", "merge")),
    "named": ("number", "compact"),
    "step": ("number", "run"),
    "tool_name": ("string", "queue run", "run"),
    "parts": ("list", "export"),
    "steps": ("number", "run"),
}
"""Keys that no small machine prints, with the type and the command of each."""
