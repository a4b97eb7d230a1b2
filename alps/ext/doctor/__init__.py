"""Check of an installation: versions, keys, cache folder, links and samples."""

import sys
from typing import TYPE_CHECKING

from alps.commands import command, console
from alps.extension import EVERYDAY, Extension, extensions, load

if TYPE_CHECKING:
    from alps.ext.doctor.settings import DoctorSettings


@command("[memory=… memory.NAME=… …]", "alps.ext.doctor.settings:DoctorSettings", quick=True)
def doctor(settings: "DoctorSettings") -> None:
    """Check installation, keys and samples, or a memory system.

    A memory system takes the same settings as in alps run.

    \b
      alps doctor
      alps doctor memory=python:mine:Store memory.index=small
    """
    from alps.ext.doctor.examination import examine

    screen = console()
    for extension in extensions():
        if extension.examine:
            code = load(extension.examine)(settings, screen)
            if code is not None:
                sys.exit(code)
    sys.exit(examine(screen))


EXTENSION = Extension("doctor", heading=EVERYDAY, commands={"doctor": "alps.ext.doctor:doctor"})
