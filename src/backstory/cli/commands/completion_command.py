"""``backstory completion``: scripts for shells."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from click.shell_completion import BashComplete, add_completion_class, get_completion_class

from backstory.cli import output

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print the completion script for a shell, with a key that picks a session: Ctrl-X B.

    bash: source <(backstory completion bash); zsh: the same with zsh, after compinit; fish: backstory completion fish |
    source.
    """
    output.data(script_for(shell, ctx.find_root().command))


# what shells are given: how they complete a line, with titles also in bash, and a key that picks a session ------------


VARIABLE = "_BACKSTORY_COMPLETE"
_BASH = """\
%(complete_func)s() {
    local IFS=$'\\n' line values=() shown=()
    while IFS='' read -r line; do
        case $line in
            dir,*) compopt -o dirnames ;;
            file,*) compopt -o default ;;
            plain,*) line=${line#plain,}; values+=("${line%%$'\\t'*}"); shown+=("${line/$'\\t'/  -- }") ;;
        esac
    done < <(COMP_WORDS="${COMP_WORDS[*]}" COMP_CWORD=$COMP_CWORD %(complete_var)s=bash_complete "$1")
    # Only what is listed has titles: what is inserted has none.
    COMPREPLY=("${values[@]}")
    [[ ${#values[@]} -le 1 || $COMP_TYPE != 63 ]] || COMPREPLY=("${shown[@]}")
}
complete -o nosort -F %(complete_func)s %(prog_name)s
"""
_KEYS = {
    "bash": """
# Ctrl-X B: pick a session. On an empty line the command for it is inserted, else its id.
_backstory_pick() {
    local picked
    picked=$(backstory list --all -i --print </dev/tty) || return
    [[ -z ${READLINE_LINE//[[:space:]]/} ]] || picked=${picked##* }
    READLINE_LINE=${READLINE_LINE:0:READLINE_POINT}$picked${READLINE_LINE:READLINE_POINT}
    READLINE_POINT=$((READLINE_POINT + ${#picked}))
}
[[ $- != *i* ]] || bind -x '"\\C-xb": _backstory_pick'
""",
    "zsh": """
# Ctrl-X B: pick a session. On an empty line the command for it is inserted, else its id.
_backstory_pick() {
    local picked
    picked=$(backstory list --all -i --print </dev/tty) || { zle reset-prompt; return 0 }
    [[ -z ${BUFFER//[[:space:]]/} ]] || picked=${picked##* }
    LBUFFER+=$picked
    zle reset-prompt
}
if [[ -o interactive ]]; then
    zle -N _backstory_pick
    bindkey '^Xb' _backstory_pick
fi
""",
    "fish": """
# Ctrl-X B: pick a session. On an empty line the command for it is inserted, else its id.
function _backstory_pick
    set -l picked (backstory list --all -i --print </dev/tty)
    and begin
        if string match -qr '\\S' -- (commandline)
            set picked (string split ' ' -- $picked)[-1]
        end
        commandline -i -- $picked
    end
    commandline -f repaint
end
if status is-interactive
    bind \\cxb _backstory_pick
end
""",
}


@add_completion_class
class TitledBash(BashComplete):
    """bash, which lists the title of each session behind it."""

    name = "bash"
    source_template = _BASH

    def format_completion(self, item: CompletionItem) -> str:
        """One completion as the script reads it."""
        title = f"\t{output.one_liner(item.help)}" if item.help and item.type == "plain" else ""
        return f"{item.type},{item.value}{title}"


def script_for(shell: str, cli: click.Command) -> str:
    """The script for a shell: its completion, then the key."""
    found = get_completion_class(shell)
    assert found is not None
    return found(cli, {}, "backstory", VARIABLE).source() + _KEYS[shell]
