"""Adapters: programs and Python classes of the user's own, as systems."""

from alps.extension import Extension

EXTENSION = Extension(
    "adapters",
    systems={
        "program:": "alps.ext.adapters.program:system_of",
        "python:": "alps.ext.adapters.python_class:system_of",
    },
    code={"program:": "alps.ext.adapters.command_code:hashes_of_command"},
)
