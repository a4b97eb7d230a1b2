"""Invented users whose texts a model writes, and questions that a model answers blind dropped."""

from alps.extension import Extension

EXTENSION = Extension(
    "personas",
    needs=("datasets", "personamem"),
    commands={"data personas": "alps.ext.personas.commands:data_personas"},
)
