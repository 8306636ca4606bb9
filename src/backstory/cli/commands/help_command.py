"""``backstory help``: what ``--help`` shows, of any command; the first page, and the page of all commands."""

from __future__ import annotations

from typing import Any

import click

from backstory import agents
from backstory.cli import ALIASES, COMMANDS, GROUPS, OF_TREE, end_with_examples, no_command, output

FRONT = {
    "Find": ("search", "list", "show", "stats", "report"),
    "Continue": ("run", "resume", "steer", "queue", "ps", "cancel"),
    "Branch": ("tree", "checkout", "diff"),
    "Keep": ("ingest", "restore", "export", "rename", "rm"),
    "Agents": ("mcp", "board"),
}
"""The commands of the first page."""
OTHER_NAMES = {
    "chronicle, /chronicle": "The same as report.",
    "/reindex": "The same as reindex.",
    "scan, branches": "The same as tree scan and tree branches.",
    "branch COMMAND": "The same as tree name, unname, rm, restore and prune.",
    "session_store_sql": "The tool of `backstory mcp` for SQL; for you: sql.",
    "--steer, --followup TEXT": "Without a command: steer and followup.",
    "--db PATH": "The same as --store PATH.",
    "-S SESSION": "The session that is meant, where no argument is one.",
    "run --name NAME": "Continue the session NAME; create it if needed.",
    "run -n PROMPT": "Begin a new session.",
    "run @N PROMPT": "Branch off after record N; checkout, show, diff: @N.",
}
"""Words that other tools have for the same; they work for good."""
EXAMPLES = """\
search rate limit --since monday
search --ref '#12' --path src/pool.py
list --all --sort cost
list --since 'last week' -a AGENT
tui
tui --all
web
web --open
show S3 @12
show S3 --md --redact > session.md
stats --by model --since monday
stats --room
report standup --since yesterday
report standup --remote --org 'The team'
report recap S3
report recap S3 --md
report search rate limit
report search parser --here
report cost --since 'last month'
report cost --remote --repo me/app
report blame src/pool.py:42
report blame HEAD~2
report tips
report tips --full --since 2026-01-01
report cost-tips
report cost-tips --since 'last month'
report improve
report improve --apply
report reindex
report reindex --derived
doctor --fix
doctor --bundle report.zip
doctor formats --since 2w
doctor formats --agent AGENT --json
secrets scan
secrets scan --since 'last week' --json
sql "select agent, count(*) from sessions group by agent"
sql --schema
run "Why does the build fail?"
run -n -a AGENT "Explain this repository"
resume S3
resume S3 --agent AGENT
steer "Leave the tests as they are"
steer -S S3 "Only even numbers"
followup "Now write the tests"
followup -S S3 --no-run "Now write the tests"
ps
ps S3 --verbose
cancel
cancel S3 --clear
queue add "Now write the tests"
queue add -S S3 --no-run "Update the changelog"
queue list
queue list S3 --json
queue edit 3f2a "Now write the tests, without mocks"
queue edit 3f2a --edit
queue drop 3f2a
queue drop 3f2a 9c1d
queue clear
queue clear S3
queue run
queue run S3
board add deploy "Deploy with make ship, never by hand"
board add style - < STYLE.md
board show deploy
board show deploy --json
board list
board list --all
board rm deploy
board rm deploy --src user
board prune
board prune --keep 5
context S3
context S3 --explain
context set ticket ABC-12
context set ticket ABC-12 S3
context unset ticket
context unset ticket -S S3
compact S3 --dry-run
compact S3 --now
tree S3
tree S3 --records
tree branches
tree branches S3 --json
tree scan
tree scan S3
tree name first-try
tree name second-try @12
tree unname first-try
tree unname first-try -S S3
tree rm @12
tree rm first-try --yes
tree restore
tree restore first-try
tree prune
tree prune -S S3 --yes
checkout @12
checkout S3
diff 1 2
diff S2 S3@12
ingest
ingest --explain
restore S3 --to logs
restore --all --to logs
export S3 --format json -o s3.json
export S3 -o s3.html
import s3.json
import s3.json --trust
pull ssh://desk.local
pull ~/Dropbox/history
push ~/Dropbox/history
push --plain /mnt/stick/history
serve
serve --data ~/team-server --organisation 'The team'
login https://backstory.example.com --code CODE
login --approve BCDF-GHJK
logout
logout --help
team invite
team invite --as admin
team users
team users ben --as reader
team repos
team repos --json
team logins
team logins --for builds --may sync --repo github.com/me/app
team export ~/team-history
team export ~/team-history --json
team leave
team leave --yes
sync
sync --dry-run
sync status
sync status --json
sync forget S3
sync forget --all
backup ~/history.db
backup history.db
merge ../copy/.backstory/sessions.bks
merge other.bks --trust
rename S3 parser
rename S3 "Rate limits of the gateway"
project move ~/old ~/new
project move ~/old --undo
project moves
project moves --json
rm S3
rm S3 --copies --yes
prune --older 90d --keep prompts
prune --to-size 2GB --keep named
verify
verify --json
optimize
optimize --all
reindex
reindex --sync
config list
config list --json
config get run.agent
config get run.agent --json
config set run.agent AGENT
config set run.agent AGENT --here
mcp install AGENT
mcp install AGENT --scope project --dry-run
mcp uninstall AGENT
mcp uninstall AGENT --dry-run
skill install AGENT
skill install AGENT --scope project
skill uninstall AGENT
skill uninstall AGENT --dry-run
skill show
skill show > SKILL.md
migrate-home ~/.local/share/backstory ~/data/backstory
migrate-home ~/.local/share/backstory ~/data/backstory --symlink
uninstall
uninstall mcp skill
completion bash >> ~/.bashrc
completion fish
help search
help --all
"""
"""Examples, at the end of the help of a command: the first two that begin with its words. AGENT: one that is there."""
EXAMPLES_SHOWN = 2
ABOUT = "One searchable history for all your coding agents."
OPTIONS = "-h, --help   --version   --store PATH: use this store file"
SIDE_BY_SIDE_COLUMNS_LEAST = 60
"""On narrower terminals the title of a group is above its commands."""


def _commands(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[Any]:
    from click.shell_completion import CompletionItem

    named, group = _named(ctx, ctx.params.get("names") or ())
    found = group.list_commands(named) if isinstance(group, click.Group) else []
    return [CompletionItem(name) for name in found if name.startswith(incomplete)]


@click.command("help")
@click.argument("names", metavar="[COMMAND]...", nargs=-1, shell_complete=_commands)
@click.option("--all", "lists_all", is_flag=True, help="List every command, and the names from other tools.")
@click.pass_context
def command(ctx: click.Context, names: tuple[str, ...], lists_all: bool) -> None:
    """Show the help of COMMAND, for example `search` or `queue list`; without one, the first page of commands."""
    if lists_all:
        if names:
            raise click.UsageError("--all lists every command: leave out COMMAND.")
        output.data(_all_commands(ctx.make_formatter()).rstrip("\n"))
        return
    output.data(_named(ctx, names)[0].get_help())


def _named(ctx: click.Context, names: tuple[str, ...]) -> tuple[click.Context, click.Command]:
    """Return the command with this name, such as ``queue list``. Raises UsageError."""
    at = ctx.find_root()
    for name in names:
        found = at.command.get_command(at, name) if isinstance(at.command, click.Group) else None
        if found is None:
            raise _unknown(at, name)
        end_with_examples(found)
        at = click.Context(found, info_name=name, parent=at)
    return at, at.command


def _unknown(at: click.Context, name: str) -> click.UsageError:
    if isinstance(at.command, click.Group):
        return no_command(at.command, at, name)
    return click.UsageError(f"{at.command_path} has no command {name!r}.", at)


# the pages of commands ------------------------------------------------------------------------------------------------


def first_page(width: int) -> str:
    """Return the commands that most people need, with no more than a line for each at 80 columns."""
    formatter = click.HelpFormatter(width=width)
    formatter.write_usage("backstory", "[COMMAND]")
    formatter.write_paragraph()
    with formatter.indentation():
        formatter.write_text(ABOUT)
        formatter.write_text("Without a command: pick a session of this project.")
    if formatter.width < SIDE_BY_SIDE_COLUMNS_LEAST:
        _write_groups(formatter, {title: {name: COMMANDS[name] for name in names} for title, names in FRONT.items()})
    else:
        formatter.write_paragraph()
        formatter.write_dl(_rows())
    rest = len(COMMANDS) - sum(map(len, FRONT.values()))
    formatter.write_paragraph()
    with formatter.indentation():
        formatter.write_text(f"backstory help COMMAND · backstory help --all: {rest} more commands")
        formatter.write_text(OPTIONS)
    return formatter.getvalue()


def _all_commands(formatter: click.HelpFormatter) -> str:
    """Return every command by what it is for, and the words of other tools that work, too."""
    formatter.write_usage("backstory", "[COMMAND]")
    _write_groups(formatter, GROUPS)
    _write_groups(formatter, {"Names from other tools": OTHER_NAMES})
    return formatter.getvalue()


def write_examples(ctx: click.Context, formatter: click.HelpFormatter) -> None:
    """Write the examples of the command that a context is about."""
    if found := examples(_name(ctx)):
        with formatter.section("Examples"):
            for each in found:
                formatter.write(f"{'':>{formatter.current_indent}}backstory {each}\n")


def examples(command: str) -> list[str]:
    """Return the examples of a command, or of the first commands of a group."""
    found = [each for each in EXAMPLES.splitlines() if each == command or each.startswith(f"{command} ")]
    agent = agents.with_part("run")[-1]
    return [each.replace("AGENT", agent) for each in found[:EXAMPLES_SHOWN]]


def _name(ctx: click.Context) -> str:
    """The words that name a command, without another tool's names for them."""
    if ctx.parent is None or ctx.info_name is None:
        return ""
    if ctx.parent.parent is None:
        return {**ALIASES, **OF_TREE}.get(ctx.info_name, ctx.info_name)
    return f"{_name(ctx.parent)} {ctx.info_name}"


def _rows() -> list[tuple[str, str]]:
    room, longest = max(map(len, FRONT)), max(len(name) for names in FRONT.values() for name in names)
    return [
        (f"{title if name == names[0] else '':<{room}}  {name:<{longest}}", COMMANDS[name])
        for title, names in FRONT.items()
        for name in names
    ]


def _write_groups(formatter: click.HelpFormatter, groups: dict[str, dict[str, str]]) -> None:
    # Descriptions begin in one column, whatever the section.
    longest = max(len(name) for group in groups.values() for name in group)
    for title, group in groups.items():
        with formatter.section(title):
            formatter.write_dl([(name.ljust(longest), about) for name, about in group.items()])
