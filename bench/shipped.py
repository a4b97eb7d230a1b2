"""Calibrations that are shipped: the embedded judges of matching, on people's public labels.

    python bench/shipped.py file=joined.jsonl

Writes `judges/calibrations/JUDGE.json`. The labels are those of OpenQA-eval (arXiv:2305.06984, MIT;
the file is that of `format=openqa_eval` in bench/label_sets.py): two people, and a third where they
differ, say of an answer to a question whether it is the gold answer in other words. Questions with
several gold answers are left out: a pair has one. Figures alone are written, and no text.
"""

import json
import sys
import tempfile
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

from words import read_words

from alps.errors import UsageError
from alps.ext.calibration.calibrate import calibrate_judge
from alps.ext.calibration.label_rows import read_rows
from alps.ext.calibration.labels import ITEMS, LABELS, PEOPLE, SCALE
from alps.ext.calibration.settings import CalibrateSettings
from alps.jsonl import dump
from alps.judges.base import UNRELATED

JUDGES = ("lexical", "minilm")
VALID_DAYS = 1_825
"""Five years: embedded judges change by their fingerprint alone, and people's English slowly."""
SHIPPED = Path(__file__).resolve().parent.parent / "judges" / "calibrations"
RESTS_ON = {
    "source": "OpenQA-eval (Kamalloo et al., ACL 2023)",
    "address": "https://github.com/ehsk/OpenQA-eval",
    "licence": "MIT",
    "what": "short English answers to questions, not memories",
}
SAME = "same"
Json = Mapping[str, Any]


def memory(value: str) -> Json:
    """Return a text as a memory without a type and a label that would say anything."""
    return {"value": value, "type": "direct", "label": "UNMAPPED"}


def write_labels(file: Path, folder: Path) -> None:
    """Write the label folder of the answers to questions with one gold answer."""
    rows: dict[str, list[Json]] = {ITEMS: [], LABELS: []}
    for row in read_rows(file):
        gold = row.get("gold_answers")
        if not isinstance(gold, list) or len(gold) != 1:
            continue
        name = f"openqa-{row.get('row'):04d}"
        pair = {"gold": memory(gold[0]), "predicted": memory(row.text("candidate"))}
        about = {"item_id": name, "rubric": "matching", "cluster": row.text("question_id")}
        rows[ITEMS].append({**about, "payload": pair})
        for annotator, label in row.part("human").values.items():
            if label is not None:
                said = {"item_id": name, "annotator": annotator}
                rows[LABELS].append({**said, "label": SAME if label else UNRELATED})
    for name, lines in rows.items():
        (folder / name).write_text("".join(json.dumps(line) + "\n" for line in lines))
    scale = {"kind": "nominal", "values": [UNRELATED, SAME], "positive": [SAME]}
    kinds = {f"annotator{number}": {"kind": "person"} for number in (1, 2, 3)}
    kinds["adjudicated"] = {"kind": "derived"}
    (folder / SCALE).write_text(json.dumps({"matching": scale}))
    (folder / PEOPLE).write_text(json.dumps({"guidelines": None, "annotators": kinds}))


def shipped(judge: str, labels: Path, out: Path) -> dict[str, Any]:
    """Return the calibration of a judge, with what it rests on."""
    words = {"judge": judge, "labels": str(labels), "out": str(out), "valid_days": VALID_DAYS}
    row = calibrate_judge(CalibrateSettings.model_validate(words)).row
    # What people said of each item is theirs, and corrects nothing here: F1 is no mean of marks.
    row["rubrics"]["matching"].pop("labelled")
    made = {"n": row["rubrics"]["matching"]["n"], "date": date.today().isoformat()}
    return {**row, "rests_on": {**RESTS_ON, **made}}


def main(arguments: list[str]) -> int:
    """Write the calibrations, and print what they say."""
    words = read_words(arguments, {"file": ""})
    with tempfile.TemporaryDirectory() as name:
        labels = Path(name) / "labels"
        labels.mkdir()
        write_labels(Path(words["file"]), labels)
        for judge in JUDGES:
            try:
                row = shipped(judge, labels, Path(name) / judge)
            except UsageError as error:
                print(f"{judge}: {error}")
                continue
            dump(row)
            text = json.dumps(row, indent=1, ensure_ascii=False) + "\n"
            (SHIPPED / f"{judge}.json").write_text(text, encoding="utf-8")
            known = row["rubrics"]["matching"]
            print(judge, known["verdict"], known["n"], known["kappa"], known["sensitivity"])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
