"""The command about this machine: `doctor`."""

import sys

from alps.commands.common import command, console
from alps.completion import takes


@command()
@takes("[memory=… memory.NAME=… …]", "alps.settings:DoctorSettings")
def doctor(settings: tuple[str, ...]) -> None:
    """Check versions, keys, cache, links and samples; or a memory system.

    What a run gives its memory system is given here, too.

    \b
      alps doctor
      alps doctor memory=python:mine:Store memory.index=small
    """
    from alps.extension import extensions, load
    from alps.parsing import parse_words
    from alps.settings import DoctorSettings
    from alps.show.doctor import examine

    asked, screen = parse_words(settings, DoctorSettings), console()
    for extension in extensions():
        if extension.examine:
            code = load(extension.examine)(asked, screen)
            if code is not None:
                sys.exit(code)
    sys.exit(examine(screen))
