"""Judges compared: the same answers under several judges, prompts and draws."""

from alps.extension import Extension

EXTENSION = Extension(
    "judging",
    commands={
        "sensitivity": "alps.ext.judging.commands:sensitivity",
        "judges": "alps.ext.judging.commands:judges",
    },
)
