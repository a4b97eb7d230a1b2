"""Memories between a history and the system that reads it, by the name that `memory=` gives."""

from alps.extension import Extension

EXTENSION = Extension(
    "memory",
    commands={
        "memory": "alps.ext.memory.commands:memory",
        "beside": "alps.ext.memory.commands:beside",
        "diagnose": "alps.ext.memory.commands:diagnose",
    },
)
