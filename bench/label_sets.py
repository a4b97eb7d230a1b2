"""Convert a public set of labels to a label folder, with the verdicts that were recorded for it.

    python bench/label_sets.py format=openqa_eval file=joined.jsonl out=labels

The sets keep labels and verdicts in separate files; `file` is one into which those were joined:

- `openqa_eval`, 1,490 answers to questions (arXiv:2305.06984, `ehsk/OpenQA-eval`): JSON with `row`,
  `question_id`, `question`, `gold_answers`, `candidate`; by name `human`, `judges`, `judge_raw`;
- `empathy`, 21 dimensions rated by three experts (arXiv:2506.10150): CSV with `dataset`,
  `dimension`, `conversation_id`, `rater`, `rater_kind`, `rating`, `scale_min`, `scale_max`;
- `llmbar`, 567 pairs of outputs (arXiv:2310.07641, `princeton-nlp/LLMBar`): JSON with `subset`,
  `i`, `input`, `output_1`, `output_2`, `label`, and `verdicts` by judge, two in either order.

A converter is one function, named in `CONVERTERS`: it reads a file and fills a `Collected`, which
checks each row where it was read. What is wrong is reported with a line of the file that the user
has, not of one that was about to be written.
"""

import csv
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from alps.errors import AlpsError, DataError, UsageError, closest, shown
from alps.ext.calibration.agreement import LabelScale
from alps.ext.calibration.label_rows import LabelRow, Value, read_rows
from alps.ext.calibration.labels import CROWD, ITEMS, LABELS, PEOPLE, SCALE, VERDICTS
from alps.jsonl import dump
from alps.keys import HomePath
from alps.settings import parse_words


@dataclass(frozen=True)
class Imported:
    """How much was written.

    `unparsed` of the verdicts are null, and `means` are the rows of `crowd.jsonl`.
    """

    items: int
    labels: int
    verdicts: int
    unparsed: int
    means: int
    rubrics: tuple[str, ...]
    annotators: tuple[str, ...]
    judges: tuple[str, ...]


@dataclass(frozen=True)
class Collected:
    """A label folder on its way there.

    `people` is what `people.json` will hold of those who labelled something.
    """

    people: Mapping[str, Any]
    scales: dict[str, LabelScale] = field(default_factory=dict)
    items: dict[str, dict[str, Any]] = field(default_factory=dict)
    labels: dict[tuple[str, str], Value] = field(default_factory=dict)
    verdicts: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    means: dict[tuple[str, str], float] = field(default_factory=dict)

    def add_scale(self, row: LabelRow, rubric: str, scale: LabelScale) -> None:
        """Declare the scale of a rubric.

        Raises:
            DataError: If it was declared otherwise before.
        """
        if self.scales.setdefault(rubric, scale) != scale:
            values = shown(list(self.scales[rubric].values))
            raise DataError(
                f"{shown(rubric)} had the scale {values} above", path=row.path, line=row.line
            )

    def add_item(
        self, row: LabelRow, item_id: str, rubric: str, *, cluster: str, payload: Mapping[str, Any]
    ) -> None:
        """Add an item of no known system, in English; the same item again changes nothing.

        Raises:
            DataError: If another item has this id.
        """
        about = {"system": None, "cluster": cluster, "language": "en", "payload": dict(payload)}
        item: dict[str, Any] = {"item_id": item_id, "rubric": rubric, **about}
        if self.items.setdefault(item_id, item) != item:
            raise DataError(
                f"another item {shown(item_id)} stands above", path=row.path, line=row.line
            )

    def add_label(self, row: LabelRow, source: str, item_id: str, annotator: str) -> None:
        """Add the label that the field `source` holds.

        Raises:
            DataError: If it is not on the scale, or the annotator labelled the item before.
        """
        self._refuse_second(row, source, item_id, annotator, self.labels)
        self.labels[item_id, annotator] = self._value(row, source, item_id)

    def add_verdict(
        self, row: LabelRow, source: str, item_id: str, judge: str, **details: str | float | None
    ) -> None:
        """Add the verdict that the field `source` holds, null where it was not parsed.

        `details`: raw, probability.

        Raises:
            DataError: If it is not on the scale, or the judge judged the item before.
        """
        self._refuse_second(row, source, item_id, judge, self.verdicts)
        verdict = None if row.get(source) is None else self._value(row, source, item_id)
        given = {name: value for name, value in details.items() if value is not None}
        ids = {"item_id": item_id, "judge": judge}
        self.verdicts[item_id, judge] = {**ids, "verdict": verdict, **given}

    def add_mean(self, row: LabelRow, source: str, item_id: str, annotator: str) -> None:
        """Add the mean of many people that the field `source` holds.

        Raises:
            DataError: If it lies outside the scale, or the item has this mean already.
        """
        self._refuse_second(row, source, item_id, annotator, self.means)
        self.means[item_id, annotator] = row.mean(
            source, self.scales[self.items[item_id]["rubric"]]
        )

    def _value(self, row: LabelRow, source: str, item_id: str) -> Value:
        rubric = self.items[item_id]["rubric"]
        return row.value(source, self.scales[rubric], rubric)

    def _refuse_second(
        self,
        row: LabelRow,
        source: str,
        item_id: str,
        name: str,
        found: Mapping[tuple[str, str], object],
    ) -> None:
        if (item_id, name) in found:
            raise row.wrong(
                source, f"{shown(name)} is on item {shown(item_id)} above: keep one of the two rows"
            )


def import_labels(format: str, file: Path, out: Path) -> Imported:
    """Convert a public set of labels into a label folder; the same file gives the same bytes.

    Args:
        format: A name in `CONVERTERS`.
        file: The file of the set that the converter reads.
        out: A folder that is not there yet, or empty.

    Raises:
        UsageError: If the format is unknown, the file is not there, or `out` is not an empty
            folder.
        DataError: If the file is not what the format says: names line and field. Nothing is written
            then.
    """
    if format not in CONVERTERS:
        known = f"(known: {', '.join(CONVERTERS)})"
        raise UsageError(f"format={format}: unknown{closest(format, CONVERTERS)} {known}")
    if not file.is_file():
        raise UsageError(f"file={file}: no such file")
    if out.exists() and not out.is_dir():
        raise UsageError(f"out={out}: is a file; name a folder")
    if out.is_dir() and any(out.iterdir()):
        raise UsageError(f"out={out}: is not empty; name a new folder, or empty this one")
    collected = CONVERTERS[format](file)
    try:
        _write(collected, out)
    except OSError as error:
        raise UsageError(f"out={out}: can't be written ({error.strerror})") from error
    verdicts = collected.verdicts.values()
    return Imported(
        items=len(collected.items),
        labels=len(collected.labels),
        verdicts=len(verdicts),
        unparsed=sum(row["verdict"] is None for row in verdicts),
        means=len(collected.means),
        rubrics=tuple(collected.scales),
        annotators=tuple(dict.fromkeys(name for _, name in collected.labels)),
        judges=tuple(dict.fromkeys(name for _, name in collected.verdicts)),
    )


def _write(collected: Collected, out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    labels, means, scales = [], [], {}
    for (item, name), label in collected.labels.items():
        labels.append({"item_id": item, "annotator": name, "label": label})
    for (item, name), mean in collected.means.items():
        means.append({"item_id": item, "annotator": name, "mean": mean})
    for rubric, scale in collected.scales.items():
        scales[rubric] = {"kind": scale.kind, "values": list(scale.values)}
    about = {}
    for _, name in collected.labels:
        about[name] = collected.people["annotators"].get(name, {"kind": "person"})
    tables: dict[str, Iterable[dict[str, Any]]] = {
        ITEMS: collected.items.values(),
        LABELS: labels,
        VERDICTS: collected.verdicts.values(),
        CROWD: means,
    }
    for name, rows in tables.items():
        if written := b"".join(map(dump, rows)):
            (out / name).write_bytes(written)
    for name, values in ((SCALE, scales), (PEOPLE, {**collected.people, "annotators": about})):
        (out / name).write_bytes(json.dumps(values, ensure_ascii=False, indent=2).encode() + b"\n")


def openqa_eval(path: Path) -> Collected:
    """Read `joined.jsonl` of OpenQA-eval: is a candidate answer to a question right?

    Two people labelled most answers and a third where they disagreed; what that came to is the
    derived annotator `adjudicated`. Items cluster by question.
    """
    people = {
        "source": "OpenQA-eval (Kamalloo et al., ACL 2023, arXiv:2305.06984), MIT",
        "guidelines": None,
        "annotators": {
            **{f"annotator{number}": {"kind": "person"} for number in (1, 2, 3)},
            "adjudicated": {"kind": "derived", "how": "a third person decided where two disagreed"},
        },
    }
    rubric, collected = "answer_match", Collected(people)
    for row in read_rows(path):
        collected.add_scale(row, rubric, LabelScale("nominal", (0, 1)))
        item_id = f"row-{_whole(row, 'row'):04d}"
        payload = {name: row.get(name) for name in ("question", "gold_answers", "candidate")}
        collected.add_item(row, item_id, rubric, cluster=row.text("question_id"), payload=payload)
        human, judges, raw = row.part("human"), row.part("judges"), row.part("judge_raw")
        for annotator, label in human.values.items():
            if label is not None:
                collected.add_label(human, annotator, item_id, annotator)
        for judge in judges.values:
            chance = raw.probability(f"{judge}_p_equiv_max")
            said = raw.optional_text(judge)
            collected.add_verdict(judges, judge, item_id, judge, raw=said, probability=chance)
    return collected


def empathy(path: Path) -> Collected:
    """Read `long.csv` of the empathy ratings: a rubric a data set and dimension.

    Scales are as declared in the file. The experts' median is the derived annotator `experts`. The
    crowd's means are on no scale and go to `crowd.jsonl`. Items cluster by conversation; the set
    holds no texts in this file, so payloads only name what was rated.
    """
    people = {
        "source": "ratings of empathic communication (arXiv:2506.10150), MIT",
        "guidelines": None,
        "annotators": {
            **{
                f"expert{number}": {"kind": "person", "expertise": "expert"} for number in (1, 2, 3)
            },
            "experts": {"kind": "derived", "how": "median of the three experts"},
        },
    }
    collected = Collected(people)
    for row in _csv_rows(path, ("scale_min", "scale_max", "rating")):
        names = {name: row.text(name) for name in ("dataset", "dimension", "conversation_id")}
        rubric = f"{names['dataset'].lower().replace(' ', '_')}/{names['dimension']}"
        item_id = f"{rubric}/{names['conversation_id']}"
        rater, kind = row.text("rater"), row.text("rater_kind")
        collected.add_scale(row, rubric, _declared(row))
        collected.add_item(row, item_id, rubric, cluster=names["conversation_id"], payload=names)
        if kind in ("human_expert", "derived_expert_median"):
            collected.add_label(row, "rating", item_id, rater)
        elif kind == "human_crowd_mean":
            collected.add_mean(row, "rating", item_id, rater)
        elif kind == "llm":
            # The file calls the third model by what all three are.
            collected.add_verdict(row, "rating", item_id, "gemini" if rater == "llm" else rater)
        else:
            raise row.wrong("rater_kind", f"unknown kind {shown(kind)}")
    return collected


GOLD = "agreed among several people"
FOLLOWS = "the better output is the one that follows the instruction, whatever its style"


def llmbar(path: Path) -> Collected:
    """Read `llmbar_with_verdicts.jsonl`: which of two outputs follows the instruction better?

    A subset is a rubric. A judge is asked twice: `JUDGE/PROMPTING` saw the outputs in their order,
    `JUDGE/PROMPTING#swapped` the other way round. Both verdicts name the output as it is numbered
    here. The one label is the derived annotator `gold`.
    """
    people = {
        "source": "LLMBar (Zeng et al., arXiv:2310.07641), MIT",
        "guidelines": FOLLOWS,
        "annotators": {"gold": {"kind": "derived", "expertise": "the authors", "how": GOLD}},
    }
    collected = Collected(people)
    for row in read_rows(path):
        subset = row.text("subset").lower()
        rubric, item_id = f"llmbar/{subset}", f"{subset}/{_whole(row, 'i')}"
        collected.add_scale(row, rubric, LabelScale("nominal", (1, 2)))
        payload = {name: row.get(name) for name in ("input", "output_1", "output_2")}
        collected.add_item(row, item_id, rubric, cluster=item_id, payload=payload)
        collected.add_label(row, "label", item_id, "gold")
        verdicts = row.part("verdicts")
        for judge, pair in verdicts.values.items():
            if not isinstance(pair, list) or len(pair) != 2:
                raise verdicts.wrong(
                    judge,
                    f"must be two verdicts, in either order of the outputs, got {shown(pair)}",
                )
            both = dict(zip(("0", "1"), pair, strict=True))
            orders = LabelRow(row.path, row.line, both, f"verdicts.{judge}.")
            collected.add_verdict(orders, "0", item_id, judge)
            collected.add_verdict(orders, "1", item_id, f"{judge}#swapped")
    return collected


CONVERTERS: Mapping[str, Callable[[Path], Collected]] = {
    "openqa_eval": openqa_eval,
    "empathy": empathy,
    "llmbar": llmbar,
}


def _whole(row: LabelRow, field: str) -> int:
    value = row.get(field)
    if not isinstance(value, int) or isinstance(value, bool):
        raise row.wrong(field, f"must be a whole number, got {shown(value)}")
    return value


def _csv_rows(path: Path, numbers: Iterable[str]) -> Iterator[LabelRow]:
    """Yield the rows of a CSV file with a header.

    The columns `numbers` as numbers, all others as text.
    """
    line = 0
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file, strict=True)
            for values in reader:
                line = reader.line_num
                if None in values:
                    raise DataError("has more cells than the header", path=path, line=line)
                row = LabelRow(path, line, values)
                yield LabelRow(
                    path, line, {**values, **{name: _number(row, name) for name in numbers}}
                )
    except csv.Error as error:
        raise DataError(f"not CSV ({error})", path=path, line=line + 1) from error
    except UnicodeDecodeError as error:
        raise DataError(
            "not in UTF-8: save it as that", path=path, line=_undecodable(path)
        ) from error
    except OSError as error:
        raise DataError(f"can't be read ({error.strerror})", path=path) from error
    if not line:
        raise DataError("is empty: expected a header and rows below it", path=path)


def _undecodable(path: Path) -> int | None:
    """Return the first line that is not UTF-8.

    Text files are decoded far ahead of the row that was read last.
    """
    for line, raw in enumerate(path.read_bytes().split(b"\n"), start=1):
        try:
            raw.decode()
        except UnicodeDecodeError:
            return line
    return None


def _number(row: LabelRow, column: str) -> float:
    text = row.get(column)
    try:
        return float(text)
    except (TypeError, ValueError) as error:
        raise row.wrong(column, f"must be a number, got {shown(text)}") from error


def _declared(row: LabelRow) -> LabelScale:
    """Return the scale of the whole numbers from `scale_min` to `scale_max`."""
    low, high = row.get("scale_min"), row.get("scale_max")
    if not (low.is_integer() and high.is_integer() and low < high <= low + 100):
        raise row.wrong(
            "scale_max",
            f"from {low:g} to {high:g}: expected two ascending whole numbers, at most 100 apart",
        )
    return LabelScale("ordinal", tuple(range(int(low), int(high) + 1)))


class ImportSettings(BaseModel):
    """The settings of this script."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Annotated[str, Field(description=", ".join(CONVERTERS))]
    file: Annotated[HomePath, Field(description="the file of the set")]
    out: Annotated[HomePath, Field(description="the label folder to write")]


def main(words: Sequence[str]) -> int:
    """Convert what `words` say, and print how much it is; return the exit code."""
    try:
        settings = parse_words(words, ImportSettings)
        found = import_labels(settings.format, Path(settings.file), Path(settings.out))
    except AlpsError as error:
        print(f"label_sets: {error}", file=sys.stderr)
        return error.exit_code
    print(
        f"{settings.out}: {found.items:,} items (rubrics: {len(found.rubrics)}), "
        f"{found.labels:,} labels (annotators: {len(found.annotators)}), "
        f"{found.verdicts:,} verdicts (judges: {len(found.judges)})"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
