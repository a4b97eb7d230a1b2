"""Label folders: labels of people, and verdicts of judges, on declared scales.

The files are JSON, one row a line or one object:

- `items.jsonl`: `{"item_id", "rubric", "payload"}`; a row may have `"system"`, `"cluster"`,
  `"language"` and `"kind"`.
- `labels.jsonl`: `{"item_id", "annotator", "label"}`; where somebody gave no label there is no row.
- `scale.json`: `{RUBRIC: {"kind": "nominal", "ordinal" or "interval", "values": [all, in order],
  "positive": […]}}`. `positive` names the values that count as accepted; of a scale of two values
  that is always the last one.
- `people.json`, optional: `{"guidelines", "annotators": {NAME: {"kind", "expertise", "blind",
  "how"}}}`. Annotators are people unless it calls them `derived`: an adjudication or a median says
  nothing new.
- `verdicts.jsonl`, optional: `{"item_id", "judge", "verdict"}`; a row may have `"raw"`,
  `"probability"` and `"draws"`.
- `crowd.jsonl`, optional: `{"item_id", "annotator", "mean"}`, means of many people, which no scale
  declares.

Labels and verdicts come back as the scale declares them: 2.0 as 2, and on a scale of 0 and 1 true
as 1.
"""

import hashlib
import json
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib.resources import files
from itertools import chain
from pathlib import Path
from statistics import median
from typing import Any, Literal, get_args

from alps.errors import DataError, UsageError, closest, shown
from alps.ext.calibration.agreement import Kind, LabelScale
from alps.ext.calibration.calibration_file import rubric_of
from alps.ext.calibration.label_rows import LabelRow, Value, on_scale, read_object, read_rows
from alps.judges.base import Item as Memory
from alps.judges.rubric import Rubric, RubricQuestion, rubric
from alps.schema import Outcome
from alps.slips import Slips

ITEMS, LABELS, SCALE, PEOPLE = "items.jsonl", "labels.jsonl", "scale.json", "people.json"
VERDICTS, CROWD = "verdicts.jsonl", "crowd.jsonl"
WORK = "annotate.json"  # in the folder in which people label, before it is exported
STRESS, KNOWN = "stress", "known"
AnnotatorKind = Literal["person", "derived"]
# The largest number on a scale: squares of distances, and their sums, have to stay numbers.
LARGEST = 1_000_000_000


@dataclass(frozen=True)
class JudgedItem:
    """Something to be labelled.

    Attributes:
        cluster: What it shares with other items: a user, a question, a session.
        kind: What was done to make it right or wrong, where the answer is known because somebody
            made it so.
        line: Where its file has it.
    """

    item_id: str
    rubric: str
    system: str | None
    cluster: str | None
    language: str | None
    payload: Mapping[str, Any]
    kind: str | None = None
    line: int | None = field(default=None, compare=False)


@dataclass(frozen=True)
class LabelSet:
    """Contents of a label folder, in the order of its files.

    Attributes:
        labels: By item, then by annotator.
        annotators: Whether a name is that of a person, or of labels derived from those of others.
        sha256: Of the items, labels, scales and people, byte for byte.
        positive: The values that count as accepted, for the rubrics where any are declared.
        crowd: Means of many people, by annotator and item.
        own: Rubrics of the people's own, whose instructions lie in the folder.
        left_out: Items whose row is wrong; what is said of them is left out, too.
    """

    items: Mapping[str, JudgedItem]
    scales: Mapping[str, LabelScale]
    labels: Mapping[str, Mapping[str, Value]]
    annotators: Mapping[str, AnnotatorKind]
    sha256: str
    positive: Mapping[str, frozenset[Value]] = field(default_factory=dict)
    crowd: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    own: tuple[Rubric, ...] = ()
    left_out: frozenset[str] = frozenset()

    def without(self, names: Container[str]) -> "LabelSet":
        """Return the set without some items and their labels and verdicts."""
        items = {name: item for name, item in self.items.items() if name not in names}
        labels = {name: said for name, said in self.labels.items() if name in items}
        crowd: dict[str, dict[str, float]] = {}
        for annotator, means in self.crowd.items():
            crowd[annotator] = {name: mean for name, mean in means.items() if name in items}
        left_out = self.left_out | (self.items.keys() - items.keys())
        return replace(self, items=items, labels=labels, crowd=crowd, left_out=left_out)

    def rubric_of(self, name: str) -> Rubric:
        """Return the rubric by which a judge is asked about items labelled under `name`."""
        return rubric_of(name, self.own)

    @property
    def rubrics(self) -> tuple[str, ...]:
        """The rubrics that have items, in the order of `scale.json`."""
        return tuple(rubric for rubric in self.scales if rubric in self._by_rubric)

    def items_of(self, rubric: str) -> tuple[JudgedItem, ...]:
        """Return the items of `rubric`.

        Raises:
            UsageError: If no item has this rubric.
        """
        if rubric not in self._by_rubric:
            hint = closest(rubric, self.rubrics)
            raise UsageError(f"rubric={rubric}: no item has this rubric{hint}")
        return self._by_rubric[rubric]

    def labels_of(self, item_id: str) -> Mapping[str, Value]:
        """Return the labels of an item by annotator; empty where nobody labelled it."""
        return self.labels.get(item_id, {})

    def annotators_of(self, rubric: str, *, derived: bool = False) -> tuple[str, ...]:
        """Return the people who labelled items of `rubric`, or the names of its derived labels."""
        of_items = (self.labels_of(item.item_id) for item in self.items_of(rubric))
        names = dict.fromkeys(chain.from_iterable(of_items))
        return tuple(name for name in names if self._is_derived(name) == derived)

    def truth(self, item_id: str) -> Value | None:
        """Return what people say of an item; None where they don't settle it, see `truth_of`."""
        said, scale = self.labels_of(item_id), self.scales[self.items[item_id].rubric]
        derived = [name for name in said if self._is_derived(name)]
        people = [name for name in said if not self._is_derived(name)]
        return truth_of(said, people, derived, scale)

    def _is_derived(self, name: str) -> bool:
        return self.annotators[name] == "derived"

    @cached_property
    def _by_rubric(self) -> dict[str, tuple[JudgedItem, ...]]:
        by_rubric: defaultdict[str, list[JudgedItem]] = defaultdict(list)
        for item in self.items.values():
            by_rubric[item.rubric].append(item)
        return {rubric: tuple(items) for rubric, items in by_rubric.items()}


@dataclass(frozen=True)
class Verdict:
    """A judge's verdict on an item.

    Attributes:
        value: On the scale of the item; None where it could not be parsed, or was not given.
        raw: The judge's replies as they came.
        probability: That of the last value of the scale, where the judge gives one.
        draws: Its single verdicts, where it was asked several times.
        outcome: `ok`, or what kept the judge from a verdict; None where the verdict was recorded.
        error: What went wrong, in a line.
    """

    value: Value | None
    raw: str | None = None
    probability: float | None = None
    draws: tuple[Value | None, ...] = ()
    outcome: Outcome | None = None
    error: str | None = None


@dataclass(frozen=True)
class Verdicts:
    """The verdicts of one judge by item, and the hash of the file that they are in."""

    judge: str
    by_item: Mapping[str, Verdict]
    sha256: str


def read_labels(folder: Path, key: str = "labels") -> LabelSet:
    """Read a label folder; `key` is the setting that names it.

    People write its rows: slips in items, labels and means of crowds are named and left out.

    Raises:
        UsageError: If there is no such folder.
        DataError: If a file is missing or empty, or more of its rows are wrong than slips may be:
            names file, line, field and a repair.
    """
    if not folder.is_dir():
        beside = [one.name for one in folder.parent.glob("*/")]
        raise UsageError(f"{key}={folder}: no such folder{closest(folder.name, beside)}")
    if not any((folder / name).exists() for name in (ITEMS, LABELS, SCALE)):
        raise UsageError(
            f"{key}={folder}: not a label folder ({ITEMS}, {LABELS} and {SCALE} are missing)"
        )
    scales, positive = read_scales(folder / SCALE)
    items, left_out = _read_items(folder / ITEMS, scales)
    labels = _read_labels(folder / LABELS, items, scales, left_out)
    names = dict.fromkeys(chain.from_iterable(labels.values()))
    _refuse_one_name_twice(names, folder / LABELS)
    known = _read_people(folder / PEOPLE, tuple(names))
    # Without verdicts and crowds: what people said stays the same whoever is calibrated.
    parts = []
    for name in (ITEMS, LABELS, SCALE, PEOPLE):
        if (folder / name).exists():
            parts.append(name + _hash(folder / name))
    label_set = LabelSet(
        items=items,
        scales=scales,
        labels=labels,
        annotators={name: known.get(name, "person") for name in names},
        sha256=hashlib.sha256("\n".join(parts).encode()).hexdigest(),
        positive=positive,
        left_out=left_out,
    )
    # Means are checked against the scales, which are read by now.
    crowd = folder / CROWD
    return replace(label_set, crowd=read_crowd(crowd, label_set)) if crowd.is_file() else label_set


def read_verdicts(path: Path, judge: str | None = None, *, labels: LabelSet) -> Verdicts:
    """Read what one judge said of labelled items; a file of one judge need not have it named.

    Every row is read, whoever's it is.

    Raises:
        UsageError: If there is no such file or judge, or several judges and none is named: lists
            them.
        DataError: If the file is empty or a row can't be read: names file, line, field and a
            repair.
    """
    if not path.is_file():
        raise UsageError(f"verdicts={path}: no such file")
    judges: dict[str, dict[str, Verdict]] = {}
    # Also rows of other judges: what is wrong in the file is reported whoever is asked for.
    for row in read_rows(path):
        if _is_of(row, labels.left_out):
            continue
        row.refuse_near_misses(("raw", "probability", "draws"))
        item, name = _item_of(row, labels.items), row.text("judge")
        scale, value = labels.scales[item.rubric], None
        if row.get("verdict") is not None:
            value = row.value("verdict", scale, item.rubric)
        by_item = judges.setdefault(name, {})
        if item.item_id in by_item:
            second = f"an earlier line has a verdict by {shown(name)} on {shown(item.item_id)}"
            raise row.wrong("judge", f"{second}: keep one of them")
        raw, probability = row.optional_text("raw"), row.probability("probability")
        by_item[item.item_id] = Verdict(value, raw, probability, _draws(row, scale, item.rubric))
    names = ", ".join(judges)
    if judge is None and len(judges) > 1:
        raise UsageError(
            f"verdicts={path}: the file has several judges; name one with judge= (found: {names})"
        )
    chosen = next(iter(judges)) if judge is None else judge
    if chosen not in judges:
        hint = closest(chosen, judges)
        raise UsageError(
            f"judge={chosen}: {path} has no verdicts of this judge{hint} (found: {names})"
        )
    return Verdicts(chosen, judges[chosen], _hash(path))


def read_crowd(path: Path, labels: LabelSet) -> dict[str, dict[str, float]]:
    """Read means of many people, by annotator, then by item.

    Raises:
        DataError: If the file can't be read or is empty, or more rows than slips may be can't be
            read, or have a mean outside the scale of their rubric.
    """
    means: defaultdict[str, dict[str, float]] = defaultdict(dict)
    slips = Slips(path)
    for row in read_rows(path, slips):
        if _is_of(row, labels.left_out):
            continue
        with slips.leaving_out():
            item, name = _item_of(row, labels.items), row.text("annotator")
            if item.item_id in means[name]:
                second = f"an earlier line has a mean by {shown(name)} for {shown(item.item_id)}"
                raise row.wrong("annotator", f"{second}: keep one of them")
            means[name][item.item_id] = row.mean("mean", labels.scales[item.rubric])
    return dict(means)


def read_scales(path: Path) -> tuple[dict[str, LabelScale], dict[str, frozenset[Value]]]:
    """Return the scales, and the values that count as accepted where any are declared.

    Raises:
        DataError: If the file declares no scale, or one that can't be read.
    """
    row = read_object(path)
    if not row.values:
        raise DataError('has no scale: write {RUBRIC: {"kind": …, "values": […]}}', path=path)
    # All scales are read before any positive value: what is wrong with a scale is reported first.
    scales = {name: _scale(row.part(name)) for name in row.values}
    positive: dict[str, frozenset[Value]] = {}
    for name, scale in scales.items():
        accepted = _positive(row.part(name), scale)
        if accepted:
            positive[name] = accepted
    return scales, positive


def _positive(entry: LabelRow, scale: LabelScale) -> frozenset[Value]:
    """Return the values that count as accepted; none if a scale of more than two declares none."""
    entry.refuse_near_misses(("positive",))
    values, last = entry.values.get("positive"), scale.values[-1]
    binary = len(scale.values) == 2
    if values is None:
        return frozenset([last]) if binary else frozenset()  # type: ignore[list-item]
    declared: set[Value | None] = set()
    for value in values if isinstance(values, list) else ():
        declared.add(on_scale(value, scale))
    # With every value accepted no verdict could be wrong.
    if not declared or None in declared or len(declared) >= len(scale.values):
        message = f"must be a list of some of the values, not all of them, got {shown(values)}"
        raise entry.wrong("positive", message)
    if binary and declared != {last}:
        message = f"must be the last of two values, got {shown(values)}"
        raise entry.wrong("positive", f"{message}: write the positive value last")
    return frozenset(declared)  # type: ignore[arg-type]


def _scale(entry: LabelRow) -> LabelScale:
    kind, values = entry.get("kind"), entry.get("values")
    if kind not in get_args(Kind):
        hint = closest(kind, get_args(Kind)) if isinstance(kind, str) else ""
        kinds = ", ".join(get_args(Kind))
        raise entry.wrong("kind", f"must be one of {kinds}, got {shown(kind)}{hint}")
    if not isinstance(values, list):
        message = f"must be a list of every value of the scale, in order, got {shown(values)}"
        raise entry.wrong("values", message)
    for n, value in enumerate(values):
        if fault := _fault(value, values[:n]):
            raise entry.wrong(f"values.{n}", fault)
    if len(values) < 2:
        message = f"a scale has two or more values, got {shown(values)}"
        raise entry.wrong("values", f"{message}: declare unused values, too")
    try:
        return LabelScale(kind, tuple(values))
    except (ValueError, OverflowError) as error:
        raise entry.wrong("values", str(error)) from error


def _fault(value: object, before: Sequence[object]) -> str | None:
    """Return what is wrong with a value of a scale that comes after others."""
    # In Python true is 1: labels of it could not be told from those of the number.
    if isinstance(value, bool):
        return f"got {shown(value)}: write 0 and 1; labels may still be false and true"
    if not isinstance(value, int | float | str):
        return f"must be a number or text, got {shown(value)}"
    if not isinstance(value, str) and abs(value) > LARGEST:
        bounds = f"between {-LARGEST:,} and {LARGEST:,}"
        return f"numbers of a scale must be {bounds}, got {shown(value)}: choose another unit"
    if value in before:
        return f"{shown(value)} appears twice: a scale declares each value once"
    return None


def _read_items(
    path: Path, scales: Mapping[str, LabelScale]
) -> tuple[dict[str, JudgedItem], frozenset[str]]:
    """Return the items, and the ids of those that are left out."""
    items: dict[str, JudgedItem] = {}
    named: set[str] = set()
    slips = Slips(path)
    for row in read_rows(path, slips):
        named.add(str(row.values.get("item_id")))
        with slips.leaving_out():
            item = _item(row, scales, slips)
            if item.item_id in items:
                message = f"{shown(item.item_id)} appears twice: give each item a unique id"
                raise row.wrong("item_id", message)
            items[item.item_id] = item
    return items, frozenset(named - items.keys())


def _item(row: LabelRow, scales: Mapping[str, LabelScale], slips: Slips) -> JudgedItem:
    optional = ("system", "cluster", "language", "kind")
    item_id, rubric = row.text("item_id"), row.text("rubric")
    if rubric not in scales:
        message = f"{shown(rubric)} has no scale{closest(rubric, scales)}"
        raise row.wrong("rubric", f"{message}: declare a scale in {SCALE}")
    payload = row.object("payload")
    texts: dict[str, str | None] = dict.fromkeys(optional)
    with slips.leaving_out():
        row.refuse_near_misses(optional)
    for name in optional:
        with slips.leaving_out():
            texts[name] = row.optional_text(name)
    return JudgedItem(item_id, rubric, payload=payload, line=row.line, **texts)


def _is_of(row: LabelRow, items: frozenset[str]) -> bool:
    return str(row.values.get("item_id")) in items


def _read_labels(
    path: Path,
    items: Mapping[str, JudgedItem],
    scales: Mapping[str, LabelScale],
    left_out: frozenset[str],
) -> dict[str, dict[str, Value]]:
    labels: dict[str, dict[str, Value]] = {}
    # A folder that was drawn has none until people write it.
    if not path.exists():
        if (path.parent / WORK).exists():
            export = f"export it with alps annotate export {path.parent} out=DIR"
            raise DataError(f"is missing: this is the folder of alps annotate; {export}", path=path)
        fields = '{"item_id", "annotator", "label"}'
        raise DataError(f"is missing: write human labels, one {fields} per line", path=path)
    slips = Slips(path)
    for row in read_rows(path, slips):
        if _is_of(row, left_out):
            continue
        with slips.leaving_out():
            item, annotator = _item_of(row, items), row.text("annotator")
            label = row.value("label", scales[item.rubric], item.rubric)
            of_item = labels.setdefault(item.item_id, {})
            if annotator in of_item:
                second = f"{shown(annotator)} labelled item {shown(item.item_id)} above"
                raise row.wrong("annotator", f"{second}: keep one of the two labels")
            of_item[annotator] = label
    return labels


def _refuse_one_name_twice(names: Iterable[str], path: Path) -> None:
    """Refuse names that differ in letter case or spaces alone: two people would be counted."""
    by_key: dict[str, str] = {}
    for name in names:
        key = " ".join(unicodedata.normalize("NFKC", name).casefold().split())
        if (other := by_key.setdefault(key, name)) != name:
            both = f"{shown(other)} and {shown(name)} differ only in case or spaces"
            raise DataError(f"{both}: use one name for one person", path=path, field="annotator")


def _item_of(row: LabelRow, items: Mapping[str, JudgedItem]) -> JudgedItem:
    item = items.get(row.text("item_id"))
    if item is None:
        message = f"unknown item {shown(row.values['item_id'])}: it has no row in {ITEMS}"
        raise row.wrong("item_id", message)
    return item


def _read_people(path: Path, names: Sequence[str]) -> dict[str, AnnotatorKind]:
    """Return the kinds of the annotators that the file describes."""
    # What else it says is for people, and only has to be readable.
    if not path.exists():
        return {}
    row = read_object(path)
    row.refuse_near_misses(("annotators", "guidelines"))
    people = row.part("annotators") if "annotators" in row.values else LabelRow(path, None, {})
    annotators = {name: _annotator(people, name, names) for name in people.values}
    row.optional_text("guidelines")
    return annotators


def _annotator(people: LabelRow, name: str, names: Sequence[str]) -> AnnotatorKind:
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
    for name_of_text in ("expertise", "how"):
        about.optional_text(name_of_text)
    return "derived" if kind == "derived" else "person"


def _draws(row: LabelRow, scale: LabelScale, rubric: str) -> tuple[Value | None, ...]:
    draws = row.values.get("draws")
    if draws is None:
        return ()
    if not isinstance(draws, list):
        raise row.wrong("draws", f"must be a list of numbers, strings or null, got {shown(draws)}")
    declared: list[Value | None] = []
    for n, value in enumerate(draws):
        declared.append(on_scale(value, scale))
        if value is not None and declared[n] is None:
            message = f"{shown(value)} is not on the scale of {shown(rubric)}"
            raise row.wrong(f"draws.{n}", message)
    return tuple(declared)


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def stress_labels() -> LabelSet:
    """Return the stress set: items of our own, each made right or wrong on purpose.

    A judge is measured on it kind by kind: how many reworded answers it accepts, and how many that
    are vaguely wrong, of the wrong person, or that order the judge about. The three dimensions of
    emotional intelligence are rubrics of their own.
    """
    folder = files("alps.judges") / STRESS
    # Folders list their files in any order, and the hash must not depend on it.
    paths = sorted(folder.iterdir(), key=lambda path: path.name)
    texts = [path.read_bytes() for path in paths if path.name.endswith(".jsonl")]
    items: dict[str, JudgedItem] = {}
    labels: dict[str, dict[str, Value]] = {}
    for text in texts:
        for line in text.decode().splitlines():
            for item, label in _stress_items(json.loads(line)):
                items[item.item_id], labels[item.item_id] = item, {KNOWN: label}
    scales: dict[str, LabelScale] = {}
    positive: dict[str, frozenset[Value]] = {}
    for item in items.values():
        by = rubric_of(item.rubric)
        scales[item.rubric] = LabelScale(by.kind, by.scale)
        positive[item.rubric] = by.accepted
    return LabelSet(
        items=items,
        scales=scales,
        labels=labels,
        annotators={KNOWN: "derived"},
        sha256=hashlib.sha256(b"".join(texts)).hexdigest(),
        positive=positive,
    )


def rated_payload(question: RubricQuestion) -> dict[str, Any]:
    """Return what people are shown of an answer that they rate."""
    payload = question.payload()
    for name in ("kind", "rubric"):
        payload.pop(name)
    return payload


def pair_payload(gold: Memory, predicted: Memory) -> dict[str, Any]:
    """Return what people are shown of two memories that they relate."""
    payload = {"gold": gold.payload(), "predicted": predicted.payload()}
    for memory in payload.values():
        memory.pop("id")
    return payload


def _stress_items(row: dict[str, Any]) -> list[tuple[JudgedItem, Value]]:
    name, payload, kind = row["item_id"], row["payload"], row["kind"]
    by = rubric(row["rubric"])
    labels = [row["label"]] if len(by.marks) == 1 else row["label"]
    items = []
    for labelled, label in zip(by.labels, labels, strict=True):
        # The marks of one answer come from one reading of it: they are one cluster.
        item = JudgedItem(f"{name}{by.part(labelled)}", labelled, None, name, None, payload, kind)
        items.append((item, label))
    return items


def truth_of(
    labels: Mapping[str, Value], people: Sequence[str], derived: Sequence[str], scale: LabelScale
) -> Value | None:
    """Return what people say of an item: the adjudicated label, else the most frequent one.

    None where there is no label, or a tie on a nominal scale; see `most_frequent`.
    """
    # Who adjudicates has seen what the others said: it is no further vote.
    for name in derived:
        if name in labels:
            return labels[name]
    most = most_frequent([labels[name] for name in people if name in labels], scale)
    return most[0] if len(most) == 1 else None


def most_frequent(labels: Sequence[Value], scale: LabelScale) -> list[Value]:
    """Return the most frequent label.

    Where several tie, all of them on a nominal scale. On another scale the median of all labels by
    their places, rounded down to a place: labels of 1 and 5 on a scale of five make 3, which nobody
    gave, and 2 and 3 make 2.
    """
    counts = Counter(labels)
    highest = max(counts.values(), default=0)
    most = [label for label, count in counts.items() if count == highest]
    if len(most) < 2 or scale.kind == "nominal":
        return most
    return [scale.values[int(median(scale.codes(labels).tolist()))]]  # type: ignore[list-item]
