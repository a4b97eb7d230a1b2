"""The command about this machine: `doctor`."""

import sys

from alps.commands.common import command, console
from alps.completion import takes


@command()
@takes("[memory=…]", "alps.settings:DoctorSettings")
def doctor(settings: tuple[str, ...]) -> None:
    """Check versions, keys, cache, links and samples; or a memory system.

    \b
      alps doctor
      alps doctor memory=python:mine:Store
    """
    from alps.parsing import parse_words
    from alps.report.doctor import examine
    from alps.report.memory import examine_memory
    from alps.settings import DoctorSettings

    asked = parse_words(settings, DoctorSettings)
    if asked.memory is not None:
        sys.exit(examine_memory(asked, console()))
    sys.exit(examine(console()))
