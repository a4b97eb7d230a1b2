"""Page on which all records of runs are searched, filtered and read side by side."""

from alps.extension import EVERYDAY, Extension

EXTENSION = Extension(
    "view",
    needs=("looking",),
    commands={"view": "alps.ext.view.commands:view"},
    heading=EVERYDAY,
)
