"""Adapters: programs, Python classes and files of the user's own, as systems and judges."""

from alps.extension import Extension

EXTENSION = Extension(
    "adapters",
    systems={
        "predictions:": "alps.ext.adapters.recorded_answers:system_of",
        "program:": "alps.ext.adapters.program:system_of",
        "python:": "alps.ext.adapters.python_class:system_of",
    },
    judges={"recorded:": "alps.ext.adapters.recorded_verdicts:RecordedJudge"},
    code={"program:": "alps.ext.adapters.command_code:hashes_of_command"},
)
