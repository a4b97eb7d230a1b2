"""The command about this machine: `doctor`."""

import sys

import click

from alps.commands.common import command, console
from alps.completion import takes


@command()
@takes("[memory=… memory.NAME=… …]", "alps.ext.memory.settings:DoctorSettings")
def doctor(settings: tuple[str, ...]) -> None:
    """Check versions, keys, cache, links and samples; or a memory system.

    What a run gives its memory system is given here, too.

    \b
      alps doctor
      alps doctor memory=python:mine:Store memory.index=small
    """
    from alps.ext.memory.check_table import examine_memory
    from alps.ext.memory.settings import DoctorSettings
    from alps.parsing import parse_words
    from alps.show.doctor import examine

    asked = parse_words(settings, DoctorSettings)
    if asked.memory is not None:
        sys.exit(examine_memory(asked, console()))
    if others := sorted(asked.model_fields_set):
        raise click.UsageError(f"{others[0]}= goes with memory=NAME")
    sys.exit(examine(console()))
