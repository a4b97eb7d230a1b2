"""Finished runs: a list of them, what is in one, and a page about some."""

from alps.extension import EVERYDAY, Extension

EXTENSION = Extension(
    "looking",
    heading=EVERYDAY,
    commands={
        "ls": "alps.ext.looking.commands:ls",
        "show": "alps.ext.looking.commands:show",
        "report": "alps.ext.looking.commands:report",
    },
)
