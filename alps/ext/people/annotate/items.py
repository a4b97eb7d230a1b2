"""Items to be labelled, the questions about each, and the plan of the folder that holds them.

The files of a folder:

- `annotate.json`: the plan, `LabelPlan`.
- `items.jsonl`: `{"item_id", "rubric", "system", "cluster", "language", "payload"}` a line. Items
  to rate or to relate are those of a label folder, whose `scale.json` and `sample.json` lie beside.
- `shown.jsonl`: `{"item_id", "by", "answer"}`, what is hidden until a label is given.
- `records.jsonl`: `{"record", "track", "input", "gold"}`, the rows that memories come from.
- `journal-NAME.jsonl`: what one person said, `journal.Said` a line.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from alps.errors import DataError, UsageError
from alps.ext.calibration.labels import ITEMS
from alps.ext.people.annotate.settings import Job
from alps.jsonl import Row, parse_json, scan
from alps.run.folder import write_json
from alps.schema import FrozenRow
from alps.slips import refuse_form_of

PLAN, SHOWN, RECORDS = "annotate.json", "shown.jsonl", "records.jsonl"
Answer = Mapping[str, Any]


class LabelPlan(FrozenRow):
    """What a folder is for, as `annotate.json` has it.

    Attributes:
        source: What it is made from, as it was typed.
        n: Items of each rubric, or memories, at most.
        annotators: People an item, where `people` names all who label.
        target: The half-width of the interval at which people may stop.
        audit: The share of the sessions that are labelled whole, to audit the run by.
        audit_seed: Of their drawing; None where the answers draw them.
    """

    job: Job
    source: str
    split: str | None = None
    n: int = 100
    seed: int = 0
    annotators: int = 2
    people: tuple[str, ...] = ()
    blind: bool = True
    target: float | None = None
    audit: float | None = None
    audit_seed: int | None = None


@dataclass(frozen=True)
class LabelItem:
    """Something to be labelled.

    Attributes:
        group: What is read once for several items: those of one session, or the item alone.
        shown: What is shown after a label is given; None where there is nothing.
        by: Whose answer that is: a judge's name, or `draft`.
    """

    item_id: str
    rubric: str
    cluster: str | None
    payload: Mapping[str, Any]
    system: str | None = None
    language: str | None = None
    shown: Answer | None = None
    by: str | None = None

    @property
    def group(self) -> str:
        """The items that one person reads together."""
        return self.cluster or self.item_id


@dataclass(frozen=True)
class Work:
    """The plan of a folder, and its items in their order."""

    folder: Path
    plan: LabelPlan
    items: Mapping[str, LabelItem] = field(default_factory=dict)


def open_work(folder: Path) -> Work:
    """Read what is to be labelled in `folder`.

    Raises:
        UsageError: If nothing is there.
        DataError: If a file can't be read.
    """
    path = folder / PLAN
    if not path.is_file():
        raise UsageError(f"{folder}: nothing to annotate ({PLAN} is missing)")
    try:
        plan = LabelPlan.model_validate(parse_json(path.read_bytes()))
    except (ValueError, ValidationError) as error:
        raise DataError("is not the plan of an annotation folder", path=path) from error
    shown: dict[str, Row] = {}
    for row in read_lines(folder / SHOWN):
        shown[str(row.get("item_id"))] = row
    items: dict[str, LabelItem] = {}
    for row in read_lines(folder / ITEMS):
        item = _item(row, shown.get(str(row.get("item_id")), {}), folder / ITEMS)
        items[item.item_id] = item
    if not items:
        raise DataError("holds no item", path=folder / ITEMS)
    return Work(folder, plan, items)


def read_lines(path: Path) -> list[Row]:
    """Read the objects of a file, one a line; none where there is no file.

    Raises:
        DataError: If a line is not an object.
    """
    rows = []
    refuse_form_of(path)
    for line, (_, _, row) in enumerate(scan(path), start=1):
        if row is None:
            raise DataError("not a JSON object", path=path, line=line)
        rows.append(row)
    return rows


def _item(row: Row, shown: Row, path: Path) -> LabelItem:
    try:
        named: Row = {name: row[name] for name in ("item_id", "rubric", "payload")}
    except KeyError as error:
        raise DataError("missing field", path=path, field=str(error.args[0])) from error
    about: Row = {name: row.get(name) for name in ("system", "cluster", "language")}
    return LabelItem(**named, **about, shown=shown.get("answer"), by=shown.get("by"))


def write_plan(folder: Path, plan: LabelPlan) -> None:
    """Write the plan; last, as a folder without one is not begun."""
    write_json(folder / PLAN, plan.model_dump())
