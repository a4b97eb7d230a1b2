"""Export of runs to tables, and to the tools that people keep experiments in."""

from alps.extension import Extension

EXTENSION = Extension(
    "export",
    needs=("audits",),
    commands={"export": "alps.ext.export.commands:export"},
    heading="Data",
)
