"""Judges compared: the same answers under several judges, prompts and draws."""

from alps.extension import Extension

EXTENSION = Extension(
    "judging",
    heading="Judge",
    commands={"judges": "alps.ext.judging.commands:judges"},
    moved={"sensitivity": "judges"},
)
