"""Runs in the terminal: a list of them, and what is in one."""

from alps.extension import Extension

EXTENSION = Extension(
    "looking",
    commands={
        "ls": "alps.ext.looking.commands:ls",
        "show": "alps.ext.looking.commands:show",
    },
)
