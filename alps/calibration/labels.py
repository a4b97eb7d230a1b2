"""Label folders: what people said of items, on declared scales, and what judges said of the same
items.

| file | one row a line, or one object |
|---|---|
| `items.jsonl` | `{"item_id", "rubric", "payload"}`; may have `"system"`, `"cluster"`, `"language"` and `"kind"` |
| `labels.jsonl` | `{"item_id", "annotator", "label"}`; where somebody gave no label there is no row |
| `scale.json` | `{RUBRIC: {"kind": "nominal", "ordinal" or "interval", "values": [all, in order], "positive": […]}}` |
| `people.json` | optional: `{"guidelines", "annotators": {NAME: {"kind", "expertise", "blind", "how"}}}` |
| `verdicts.jsonl` | optional: `{"item_id", "judge", "verdict"}`; may have `"raw"`, `"probability"` and `"draws"` |
| `crowd.jsonl` | optional: `{"item_id", "annotator", "mean"}`, means of many people, which no scale declares |

`positive` names the values that count as accepted; of a scale of two values that is always the last
one.

Annotators are people unless `people.json` calls them `derived`: an adjudication or a median says
nothing new. Labels and verdicts come back as the scale declares them: 2.0 as 2, and on a scale of 0
and 1 true as 1.
"""

import hashlib
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import Any, get_args

from alps.calibration.rows import Row, Value, on_scale, read_object, read_rows
from alps.errors import DataError, UsageError, closest, shown
from alps.judges.calibration_file import DIMENSION_OF, MATCHING
from alps.judges.matching import POLICIES, RELATIONS
from alps.judges.rubric import DIMENSIONS, EMOTIONAL
from alps.stats.agreement import Kind, Scale

__all__ = [
    "Annotator",
    "Item",
    "LabelSet",
    "Scale",
    "Value",
    "Verdict",
    "Verdicts",
    "on_scale",
    "read_crowd",
    "read_labels",
    "read_verdicts",
]

ITEMS, LABELS, SCALE, PEOPLE = "items.jsonl", "labels.jsonl", "scale.json", "people.json"
VERDICTS, CROWD = "verdicts.jsonl", "crowd.jsonl"
UNRELATED = "unrelated"
LARGEST = 1_000_000_000
"""The largest number on a scale: squares of distances, and their sums, have to stay numbers."""


@dataclass(frozen=True)
class Item:
    """Something to be labelled.

    `cluster` is what it shares with other items: a user, a question, a session.

    `kind` names what was done to make it right or wrong, where the answer is known because somebody
    made it so.
    """

    item_id: str
    rubric: str
    system: str | None
    cluster: str | None
    language: str | None
    payload: Mapping[str, Any]
    kind: str | None = None


@dataclass(frozen=True)
class Annotator:
    """Who labelled, or the name of labels that were derived from those of others."""

    name: str
    derived: bool = False


@dataclass(frozen=True)
class LabelSet:
    """What a label folder holds, in the order of its files.

    `labels` is by item, then by annotator; `sha256` is of the items, labels, scales and people,
    byte by byte. `positive` has the values that count as accepted, for the rubrics where any are
    declared; `crowd` means of many people by annotator and item.
    """

    items: Mapping[str, Item]
    scales: Mapping[str, Scale]
    labels: Mapping[str, Mapping[str, Value]]
    annotators: Mapping[str, Annotator]
    sha256: str
    positive: Mapping[str, frozenset[Value]] = field(default_factory=dict)
    crowd: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    @property
    def rubrics(self) -> tuple[str, ...]:
        """The rubrics that have items, in the order of `scale.json`."""
        return tuple(rubric for rubric in self.scales if rubric in self._by_rubric)

    def items_of(self, rubric: str) -> tuple[Item, ...]:
        """Return the items of `rubric`.

        Raises:
            UsageError: If no item has this rubric.
        """
        if rubric not in self._by_rubric:
            raise UsageError(f"rubric={rubric}: no such items here{closest(rubric, self.rubrics)}")
        return self._by_rubric[rubric]

    def labels_of(self, item_id: str) -> Mapping[str, Value]:
        """Return the labels of an item by annotator; empty where nobody labelled it."""
        return self.labels.get(item_id, {})

    def annotators_of(self, rubric: str, *, derived: bool = False) -> tuple[str, ...]:
        """Return the names of the people who labelled items of `rubric`, or those of its derived
        labels.

        Raises:
            UsageError: If no item has this rubric.
        """
        names = {
            name: None for item in self.items_of(rubric) for name in self.labels_of(item.item_id)
        }
        return tuple(name for name in names if self.annotators[name].derived == derived)

    @cached_property
    def _by_rubric(self) -> dict[str, tuple[Item, ...]]:
        found: defaultdict[str, list[Item]] = defaultdict(list)
        for item in self.items.values():
            found[item.rubric].append(item)
        return {rubric: tuple(items) for rubric, items in found.items()}


@dataclass(frozen=True)
class Verdict:
    """What a judge said: None where it could not be parsed.

    `probability` is that of the last value of the scale, where the judge gives one; `draws` are its
    single opinions, where it was asked several times.
    """

    value: Value | None
    raw: str | None = None
    probability: float | None = None
    draws: tuple[Value | None, ...] = ()


@dataclass(frozen=True)
class Verdicts:
    """The verdicts of one judge by item, and the hash of the file they stand in."""

    judge: str
    by_item: Mapping[str, Verdict]
    sha256: str

    @property
    def unparsed(self) -> tuple[str, ...]:
        """The items whose verdict could not be parsed."""
        return tuple(name for name, verdict in self.by_item.items() if verdict.value is None)


def read_labels(folder: Path) -> LabelSet:
    """Read a label folder.

    Raises:
        UsageError: If there is no such folder.
        DataError: If a file is missing or empty, or a row can't be read: names file, line, field
            and a mend.
    """
    if not folder.is_dir():
        raise UsageError(f"labels={folder}: no such folder")
    if not any((folder / name).exists() for name in (ITEMS, LABELS, SCALE)):
        raise UsageError(
            f"labels={folder}: no label folder ({ITEMS}, {LABELS} and {SCALE} are missing)"
        )
    scales, positive = _read_scales(folder / SCALE)
    items = _read_items(folder / ITEMS, scales)
    labels = _read_labels(folder / LABELS, items, scales)
    names = {name: None for row in labels.values() for name in row}
    known = _read_people(folder / PEOPLE, tuple(names))
    annotators = {name: known.get(name, Annotator(name)) for name in names}
    parts = [
        name + _hash(folder / name)
        for name in (ITEMS, LABELS, SCALE, PEOPLE)
        if (folder / name).exists()
    ]
    sha256 = hashlib.sha256("\n".join(parts).encode()).hexdigest()
    found = LabelSet(items, scales, labels, annotators, sha256, positive)
    crowd = folder / CROWD
    return replace(found, crowd=read_crowd(crowd, found)) if crowd.is_file() else found


def read_verdicts(
    path: Path, judge: str | None = None, *, labels: LabelSet | None = None
) -> Verdicts:
    """Read what one judge said; `judge` may be left out where the file holds only one.

    Every row is read, whoever's it is. With `labels`, verdicts must be of its items and on their
    scales.

    Raises:
        UsageError: If there is no such file or judge, or several judges and none is named: lists
            them.
        DataError: If the file is empty or a row can't be read: names file, line and field, and how
            to mend it.
    """
    if not path.is_file():
        raise UsageError(f"verdicts={path}: no such file")
    judges: dict[str, dict[str, Verdict]] = {}
    for row in read_rows(path):
        row.refuse_near_misses(("raw", "probability", "draws"))
        item_id, name = row.text("item_id"), row.text("judge")
        value, raw, likely = (
            _verdict(row, labels),
            row.optional_text("raw"),
            row.probability("probability"),
        )
        verdict = Verdict(value, raw, likely, _draws(row, labels))
        if judges.setdefault(name, {}).setdefault(item_id, verdict) is not verdict:
            raise row.wrong(
                "judge",
                f"{shown(name)} has a verdict on item {shown(item_id)} above: keep one of them",
            )
    if judge is None and len(judges) > 1:
        raise UsageError(
            f"verdicts={path}: several judges are in it, name one with judge= (found: {', '.join(judges)})"
        )
    chosen = next(iter(judges)) if judge is None else judge
    if chosen not in judges:
        found = f"{closest(chosen, judges)} (found: {', '.join(judges)})"
        raise UsageError(f"judge={chosen}: has no verdicts in {path}{found}")
    return Verdicts(chosen, judges[chosen], _hash(path))


def read_crowd(path: Path, labels: LabelSet) -> dict[str, dict[str, float]]:
    """Read means of many people, by annotator, then by item.

    Raises:
        UsageError: If there is no such file.
        DataError: If the file is empty, a row can't be read, or a mean lies outside the scale of
            its rubric.
    """
    if not path.is_file():
        raise UsageError(f"{path}: no such file")
    means: defaultdict[str, dict[str, float]] = defaultdict(dict)
    for row in read_rows(path):
        item, name = _item_of(row, labels.items), row.text("annotator")
        if item.item_id in means[name]:
            raise row.wrong(
                "annotator",
                f"{shown(name)} has a mean of item {shown(item.item_id)} above: keep one of them",
            )
        means[name][item.item_id] = row.mean("mean", labels.scales[item.rubric])
    return dict(means)


def _read_scales(path: Path) -> tuple[dict[str, Scale], dict[str, frozenset[Value]]]:
    row = read_object(path)
    if not row.values:
        raise DataError('holds no scale: write {RUBRIC: {"kind": …, "values": […]}}', path=path)
    scales = {rubric: _scale(row, rubric) for rubric in row.values}
    accepted = {rubric: _positive(row.part(rubric), scale) for rubric, scale in scales.items()}
    return scales, {rubric: values for rubric, values in accepted.items() if values}


def _positive(entry: Row, scale: Scale) -> frozenset[Value]:
    """Return the values that count as accepted.

    None where nothing is declared of a scale of more than two.
    """
    entry.refuse_near_misses(("positive",))
    given = entry.values.get("positive")
    if given is None:
        return frozenset(scale.values[-1:]) if len(scale.values) == 2 else frozenset()  # type: ignore[arg-type]
    found = [on_scale(value, scale) for value in given] if isinstance(given, list) else []
    if not found or None in found or len(set(found)) >= len(scale.values):
        message = f"must be a list of some of the values, not all of them, got {shown(given)}"
        raise entry.wrong("positive", message)
    if len(scale.values) == 2 and found[0] != scale.values[-1]:
        raise entry.wrong(
            "positive",
            f"must be the last of two values, got {shown(given)}: write the positive value last",
        )
    return frozenset(value for value in found if value is not None)


def _scale(row: Row, rubric: str) -> Scale:
    entry = row.part(rubric)
    kind, values = entry.get("kind"), entry.get("values")
    if kind not in get_args(Kind):
        hint = closest(kind, get_args(Kind)) if isinstance(kind, str) else ""
        raise entry.wrong(
            "kind", f"must be one of {', '.join(get_args(Kind))}, got {shown(kind)}{hint}"
        )
    if not isinstance(values, list):
        raise entry.wrong(
            "values", f"must be a list of every value of the scale, in order, got {shown(values)}"
        )
    for place, value in enumerate(values):
        if isinstance(value, bool):
            message = f"got {shown(value)}: write 0 and 1, labels may still say false and true"
            raise entry.wrong(f"values.{place}", message)
        if not isinstance(value, int | float | str):
            raise entry.wrong(f"values.{place}", f"must be a number or text, got {shown(value)}")
        if not isinstance(value, str) and abs(value) > LARGEST:
            message = f"numbers of a scale lie between {-LARGEST:,} and {LARGEST:,}, got {shown(value)}: choose a unit"
            raise entry.wrong(f"values.{place}", message)
        if value in values[:place]:
            raise entry.wrong(
                f"values.{place}", f"{shown(value)} stands twice: a scale declares each value once"
            )
    if len(values) < 2:
        message = f"a scale has two or more values, got {shown(values)}: declare those that nobody used, too"
        raise entry.wrong("values", message)
    try:
        return Scale(kind, tuple(values))
    except (ValueError, OverflowError) as error:
        raise entry.wrong("values", str(error)) from error


def _read_items(path: Path, scales: Mapping[str, Scale]) -> dict[str, Item]:
    items: dict[str, Item] = {}
    for row in read_rows(path):
        row.refuse_near_misses(("system", "cluster", "language", "kind"))
        item_id, rubric = row.text("item_id"), row.text("rubric")
        if item_id in items:
            raise row.wrong(
                "item_id", f"{shown(item_id)} stands twice: give each item an id of its own"
            )
        if rubric not in scales:
            raise row.wrong(
                "rubric",
                f"{shown(rubric)} has no scale{closest(rubric, scales)}: declare it in {SCALE}",
            )
        system, cluster, language, kind = (
            row.optional_text(name) for name in ("system", "cluster", "language", "kind")
        )
        items[item_id] = Item(
            item_id, rubric, system, cluster, language, row.object("payload"), kind
        )
    return items


def _read_labels(
    path: Path, items: Mapping[str, Item], scales: Mapping[str, Scale]
) -> dict[str, dict[str, Value]]:
    labels: dict[str, dict[str, Value]] = {}
    if not path.exists():
        raise DataError(
            'is not there: write people\'s labels, {"item_id", "annotator", "label"} a line',
            path=path,
        )
    for row in read_rows(path):
        item, annotator = _item_of(row, items), row.text("annotator")
        given = labels.setdefault(item.item_id, {})
        if annotator in given:
            message = f"{shown(annotator)} labelled item {shown(item.item_id)} above: keep one of the two labels"
            raise row.wrong("annotator", message)
        given[annotator] = row.value("label", scales[item.rubric], item.rubric)
    return labels


def _item_of(row: Row, items: Mapping[str, Item]) -> Item:
    item = items.get(row.text("item_id"))
    if item is None:
        message = f"unknown item {shown(row.values['item_id'])}: it has no row in {ITEMS}"
        raise row.wrong("item_id", message)
    return item


def _read_people(path: Path, names: Sequence[str]) -> dict[str, Annotator]:
    """Return the annotators that the file describes.

    What else it says is for people, and only has to be readable.
    """
    if not path.exists():
        return {}
    row = read_object(path)
    row.refuse_near_misses(("annotators", "guidelines"))
    people = row.part("annotators") if "annotators" in row.values else Row(path, None, {})
    found = {name: _annotator(people, name, names) for name in people.values}
    row.optional_text("guidelines")
    return found


def _annotator(people: Row, name: str, names: Sequence[str]) -> Annotator:
    if name not in names:
        # A misspelt name would let derived labels pass as a person's.
        raise people.wrong(name, f"has no label in {LABELS}{closest(name, names)}")
    about = people.part(name)
    about.refuse_near_misses(("kind", "expertise", "blind", "how"))
    kind, blind = about.values.get("kind", "person"), about.values.get("blind")
    if kind not in ("person", "derived"):
        raise about.wrong("kind", f"must be person or derived, got {shown(kind)}")
    if not isinstance(blind, bool | None):
        raise about.wrong("blind", f"must be true, false or null, got {shown(blind)}")
    for field_name in ("expertise", "how"):
        about.optional_text(field_name)
    return Annotator(name, kind == "derived")


def _verdict(row: Row, labels: LabelSet | None) -> Value | None:
    verdict = row.get("verdict")
    if labels is not None:
        item = _item_of(row, labels.items)
        return (
            None
            if verdict is None
            else row.value("verdict", labels.scales[item.rubric], item.rubric)
        )
    if not isinstance(verdict, int | float | str | None):
        raise row.wrong(
            "verdict", f"must be a number, text, true, false or null, got {shown(verdict)}"
        )
    return verdict


def _draws(row: Row, labels: LabelSet | None) -> tuple[Value | None, ...]:
    given = row.values.get("draws")
    if given is None:
        return ()
    if not isinstance(given, list) or not all(
        isinstance(said, int | float | str | None) for said in given
    ):
        raise row.wrong("draws", f"must be a list of numbers, texts or null, got {shown(given)}")
    if labels is None:
        return tuple(given)
    item = _item_of(row, labels.items)
    scale = labels.scales[item.rubric]
    for place, said in enumerate(given):
        if said is not None and on_scale(said, scale) is None:
            raise row.wrong(
                f"draws.{place}", f"{shown(said)} is not on the scale of {shown(item.rubric)}"
            )
    return tuple(None if said is None else on_scale(said, scale) for said in given)


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


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


def scale_of(name: str) -> Scale:
    """Return the scale on which people label one of our rubrics."""
    if name == MATCHING:
        return Scale("nominal", (*RELATIONS, UNRELATED))
    return Scale("ordinal", (1, 2, 3, 4, 5)) if name in DIMENSION_OF else Scale("nominal", (0, 1))


def accepted_of(name: str) -> frozenset[Value]:
    """Return the labels of one of our rubrics that count as accepted."""
    if name == MATCHING:
        return frozenset(POLICIES["lenient"])
    return frozenset({4, 5}) if name in DIMENSION_OF else frozenset({1})
