"""The stress set as labelled items: our own, each made right or wrong on purpose, so that the
answer is known.

A judge is held against it kind by kind: how many reworded answers it accepts, and how many that are
vaguely wrong, of the wrong person, or that order the judge about.
"""

import hashlib
import json
from importlib.resources import files
from typing import Any

from alps.judges.asking import DIMENSION_OF, accepted_of, scale_of
from alps.judges.labels import Annotator, Item, LabelSet, Value
from alps.judges.rubric import DIMENSIONS, EMOTIONAL

STRESS = "stress"
KNOWN = "known"


def stress_labels() -> LabelSet:
    """Return every item of the stress set.

    The three dimensions of emotional intelligence are rubrics of their own.
    """
    folder = files("alps.judges") / STRESS
    texts = {
        path.name: path.read_bytes()
        for path in sorted(folder.iterdir(), key=lambda path: path.name)
        if path.name.endswith(".jsonl")
    }
    items: dict[str, Item] = {}
    labels: dict[str, dict[str, Value]] = {}
    for text in texts.values():
        for line in text.decode().splitlines():
            for item, label in _items(json.loads(line)):
                items[item.item_id], labels[item.item_id] = item, {KNOWN: label}
    rubrics = list(dict.fromkeys(item.rubric for item in items.values()))
    return LabelSet(
        items=items,
        scales={name: scale_of(name) for name in rubrics},
        labels=labels,
        annotators={KNOWN: Annotator(KNOWN, derived=True)},
        sha256=hashlib.sha256(b"".join(texts.values())).hexdigest(),
        positive={name: accepted_of(name) for name in rubrics},
    )


def _items(row: dict[str, Any]) -> list[tuple[Item, Value]]:
    name, cluster = row["item_id"], row["item_id"]
    shared: dict[str, Any] = {
        "system": None,
        "cluster": cluster,
        "payload": row["payload"],
        "kind": row["kind"],
    }
    shared["language"] = None
    if row["rubric"] != EMOTIONAL:
        return [(Item(name, row["rubric"], **shared), row["label"])]
    rubric_of = {dimension: rubric for rubric, dimension in DIMENSION_OF.items()}
    return [
        (Item(f"{name}:{dimension}", rubric_of[dimension], **shared), label)
        for dimension, label in zip(DIMENSIONS, row["label"], strict=True)
    ]
