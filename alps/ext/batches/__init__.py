"""Batches: many requests in one order, answered within a day, at half the price."""

from alps.extension import Extension

AT_ONCE = 10_000
"""Records that are worked on at once, where their texts are short."""
DAY = 24 * 3600.0
"""Seconds in which providers promise to answer a batch."""
FILE = "batches.jsonl"
"""The journal of the batches of a run, in its folder."""

EXTENSION = Extension(
    "batches",
    part_if=("batch",),
    part_after=FILE,
    part="alps.ext.batches.part:BatchRunPart",
    judging="alps.ext.batches.settings:BatchKeys",
    operational=("batch", "batch_deadline"),
    journals=(FILE,),
)
