"""Items on which judges differ from people, with their texts."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from alps.ext.calibration.calibration_file import Calibration, Value
from alps.ext.calibration.labels import JudgedItem, LabelSet, Verdicts

MOST, MOST_OF_ONE = 6, 3
"""Examples of a rubric, of many judges and of one."""
_TITLES = {
    "query": "query",
    "response": "response",
    "memory": "memory of the user",
    "gold": "gold memory",
    "predicted": "predicted memory",
}


@dataclass(frozen=True)
class Said:
    """The label of an item by a person or a judge, and whether it is the consensus."""

    name: str
    label: Value
    right: bool


@dataclass(frozen=True)
class Example:
    """An item that some judge labels otherwise than people do.

    Attributes:
        texts: Titles and texts.
        truth: What people say together.
    """

    item_id: str
    texts: tuple[tuple[str, str], ...]
    truth: Value
    people: tuple[Said, ...]
    judges: tuple[Said, ...]


def disagreements(
    calibrations: Sequence[Calibration], labels: LabelSet, rubric: str
) -> tuple[Example, ...]:
    """Return the items on which most judges differ from people, at most one a cluster.

    Only calibrations on these very labels have a say.
    """
    verdicts: dict[str, list[Said]] = {}
    for calibration in calibrations:
        row = calibration.rubrics.get(rubric)
        if row is None or calibration.labels != labels.sha256:
            continue
        for item in row.labelled:
            if item.truth is not None and item.verdict is not None:
                said = Said(calibration.judge, item.verdict, item.verdict == item.truth)
                verdicts.setdefault(item.item_id, []).append(said)
    return _chosen(labels, verdicts, MOST)


def disagreements_of(labels: LabelSet, verdicts: Verdicts, rubric: str) -> tuple[Example, ...]:
    """Return items on which one judge differs from people, at most one a cluster."""
    said: dict[str, list[Said]] = {}
    for item in labels.items_of(rubric):
        verdict, truth = verdicts.by_item.get(item.item_id), labels.truth(item.item_id)
        if truth is not None and verdict is not None and verdict.value is not None:
            right = verdict.value == truth
            said[item.item_id] = [Said(verdicts.judge, verdict.value, right)]
    return _chosen(labels, said, MOST_OF_ONE)


def _chosen(labels: LabelSet, verdicts: Mapping[str, list[Said]], most: int) -> tuple[Example, ...]:
    known = [name for name in verdicts if name in labels.items]
    known.sort(key=lambda name: -sum(not one.right for one in verdicts[name]))
    chosen: dict[str, Example] = {}
    for name in known:
        wrong = not all(one.right for one in verdicts[name])
        cluster = labels.items[name].cluster or name
        # Items of one question are often missed alike, and would fill the list.
        if wrong and cluster not in chosen and len(chosen) < most:
            chosen[cluster] = _example(labels, name, verdicts[name])
    return tuple(chosen.values())


def _example(labels: LabelSet, name: str, verdicts: Sequence[Said]) -> Example:
    item, truth = labels.items[name], labels.truth(name)
    assert truth is not None
    people = []
    for annotator, label in labels.labels_of(name).items():
        people.append(Said(annotator, label, label == truth))
    return Example(name, tuple(_texts(item)), truth, tuple(people), tuple(verdicts))


def _texts(item: JudgedItem) -> Iterator[tuple[str, str]]:
    for name, value in item.payload.items():
        title = _TITLES.get(name, name.replace("_", " "))
        text = _text(value)
        if text:
            yield title, text


def _text(value: Any) -> str:
    """Return a part of a payload as text: a memory's value, a dialogue's turns, or a list."""
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        role = f"{value['role']}: " if isinstance(value.get("role"), str) else ""
        return role + str(value.get("value") or value.get("text") or "")
    if isinstance(value, list):
        return "\n".join(filter(None, map(_text, value)))
    return ""
