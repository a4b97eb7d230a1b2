"""Public sets of labels become label folders, with the verdicts that were recorded for them.

A converter is one function: it reads a file, fills a `Collected`, and is named in `CONVERTERS`. What it can't take, it
says with the line of the file that it reads, since nobody has seen the files that are written.
"""

import csv
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from alps.errors import DataError, UsageError, closest
from alps.jsonl import dump
from alps.judges.label_rows import Row, Value, read_rows, shown
from alps.judges.labels import CROWD, ITEMS, LABELS, PEOPLE, SCALE, VERDICTS
from alps.stats.agreement import Scale

Columns = tuple[str, ...]


@dataclass(frozen=True)
class Imported:
    """How much was written; `unparsed` of the verdicts are null, `means` are those of `crowd.jsonl`."""

    items: int
    labels: int
    verdicts: int
    unparsed: int
    means: int
    rubrics: tuple[str, ...]
    annotators: tuple[str, ...]
    judges: tuple[str, ...]


@dataclass
class Collected:
    """The rows of a label folder on their way there, each checked where it was read."""

    people: Mapping[str, Any]
    scales: dict[str, Scale] = field(default_factory=dict)
    items: dict[str, dict[str, Any]] = field(default_factory=dict)
    labels: dict[tuple[str, str], Value] = field(default_factory=dict)
    verdicts: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    means: dict[tuple[str, str], float] = field(default_factory=dict)

    def scale(self, row: Row, rubric: str, scale: Scale) -> None:
        """Declare the scale of a rubric.

        Raises:
            DataError: If it was declared otherwise before.
        """
        if self.scales.setdefault(rubric, scale) != scale:
            raise row.wrong("", f"{shown(rubric)} had another scale above: {shown(list(self.scales[rubric].values))}")

    def item(self, row: Row, item_id: str, rubric: str, *, cluster: str, payload: Mapping[str, Any]) -> None:
        """Add an item, in English and of no known system.

        Raises:
            DataError: If another item has this id.
        """
        item = {"item_id": item_id, "rubric": rubric, "system": None, "cluster": cluster, "language": "en"}
        if self.items.setdefault(item_id, made := {**item, "payload": payload}) != made:
            raise DataError(f"item {shown(item_id)} stands twice", path=row.path, line=row.line)
