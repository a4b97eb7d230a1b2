"""The command `alps`: the list of its subcommands, and what it says when it is asked nothing."""

import gc
import os
import sys
from typing import Any, NoReturn

import click

from alps import __version__
from alps.exit_codes import close_streams, encode_all, guarded, open_streams
from alps.explained import ExplainedGroup, tab_answers
from alps.extension import COMMANDS, has_command

COMPLETE_VAR = "_ALPS_COMPLETE"
"""The variable by which a shell asks what Tab is answered with."""
_EPILOG = "alps COMMAND --help lists settings"
_ON_TAB = "alps completion --help sets up Tab completion"
_TITLE = "Evaluate how LLM assistants extract, update, retrieve and use memories."
CAME_FOR = {
    "first score, offline": "alps run task=extraction model=rules",
    "your model": "alps run task=all model=openai/… judge=openai/… limit=3",
    "your memory system": "alps run task=personamem memory=python:mine:Mine …",
    "your judge": "alps calibrate judge=openai/… labels=DIR",
}
"""What people come for, and the command for it; the first works without network and key."""
_FURTHER = {"All commands": "alps --help", "Check this machine": "alps doctor"}


class _Alps(ExplainedGroup):
    """The commands of the spine, and of extensions."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Say what else helps; nothing is advised of a deleted extension."""
        self.epilog = f"{_EPILOG}; {_ON_TAB}" if has_command("completion") else _EPILOG
        super().format_epilog(ctx, formatter)


# Each command imports what it needs when it is called: help and Tab must not wait for libraries.
@click.group(
    cls=_Alps,
    lazy=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"]},
    invoke_without_command=True,
    subcommand_metavar="COMMAND [KEY=VALUE]…",
)
@click.version_option(__version__, prog_name="alps")
@click.pass_context
def cli(context: click.Context) -> None:
    """Evaluate how LLM assistants extract, update, retrieve and use memories."""
    if context.invoked_subcommand is None:
        click.echo(welcome())


def welcome() -> str:
    """Return the text, at most 80 columns wide, styled unless NO_COLOR is set."""
    width = max(map(len, CAME_FOR)) + 2
    lines = [_styled(_TITLE, bold=True), ""]
    # The command of a deleted extension is not advised.
    for what, command in CAME_FOR.items():
        if has_command(command.split()[1]):
            lines.append(f"  {what.ljust(width)}{_styled(command, fg='cyan')}")
    further = []
    for what, command in _FURTHER.items():
        if command == "alps --help" or has_command(command.split()[1]):
            further.append(f"{what}: {_styled(command, fg='cyan')}")
    return "\n".join([*lines, "", "       ".join(further)])


def _styled(text: str, **style: Any) -> str:
    return text if os.environ.get("NO_COLOR") else click.style(text, **style)


def _carry_out() -> Any:
    if COMPLETE_VAR in os.environ:
        tab_answers()  # a shell that click does not know by itself is answered, too
    return cli.main(standalone_mode=False, complete_var=COMPLETE_VAR)


def main() -> NoReturn:
    """Run the command; errors the user can mend are one line on stderr, without a traceback."""
    # Before anything is opened or printed: the first file would else become a closed stdout.
    open_streams()
    encode_all()
    # Records come and go without cycles: by its own thresholds the collector took 10 % of a run.
    gc.set_threshold(50_000, 20, 20)
    code = guarded(_carry_out)
    code = close_streams(code)
    # The interpreter would look through every object once more before it ends: 50 ms.
    gc.freeze()
    sys.exit(code)
