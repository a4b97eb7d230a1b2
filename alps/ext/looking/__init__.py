"""Runs in the terminal: a list of them, and what is in one."""

from alps.extension import EVERYDAY, Extension

EXTENSION = Extension(
    "looking",
    heading=EVERYDAY,
    commands={
        "ls": "alps.ext.looking.commands:ls",
        "show": "alps.ext.looking.commands:show",
    },
)
