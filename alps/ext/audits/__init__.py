"""Audits: a drawn share of a run's records is judged once more, by a better judge or people."""

from collections.abc import Collection
from operator import attrgetter

from alps.extension import Extension

FOLDER = "audit"
"""Where an audit lies in a run folder."""
DIFFER = "annotators differ"
"""What is said of a record that waits for a third person, in the error of its verdict."""
LABELLED = "people:"
"""A label folder, which the extension of calibration reads as a judge."""
SAMPLE = "sample.json"
"""The file of a label folder that says how its items were drawn from a run, where they were."""
_KEYS = ("audit_judge", "audit_judge_api_base", "audit", "audit_labels", "audit_seed")


def _rescores(typed: Collection[str]) -> bool:
    # Without a new judge the run keeps its folder: audits stand beside its own verdicts.
    return bool({"audit_judge", "audit_labels"} & set(typed)) and "judge" not in typed


EXTENSION = Extension(
    "audits",
    part_if=_KEYS,
    part_after=FOLDER,
    part="alps.ext.audits.part:AuditRunPart",
    judging="alps.ext.audits.settings:AuditKeys",
    operational=_KEYS,
    rescores=_rescores,
    rescore="alps.ext.audits.part:audit_again",
    shows=attrgetter("audit"),
    shown="alps.ext.audits.tables:AuditShownPart",
    board="alps.ext.audits.board:BOARD",
    on_card="audit",
)
