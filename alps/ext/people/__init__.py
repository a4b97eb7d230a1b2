"""Human labels: the page to give them, their export, and their agreement."""

from alps.extension import Extension

EXTENSION = Extension(
    "people",
    needs=("audits", "calibration", "datasets", "view"),
    commands={"annotate": "alps.ext.people.commands:annotate"},
    heading="Judge",
    moved={
        "agreement": "annotate agreement",
        "annotate serve": "annotate",
        "labels draw": "annotate draw",
    },
    board="alps.ext.people.board:BOARD",
    on_card="people",
)
