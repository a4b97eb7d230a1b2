"""Label folders of a few rows, and what a calibration says of them."""

import json

from alps.ext.calibration.calibrate import rubric_reports
from alps.ext.calibration.labels import read_labels, read_verdicts

BINARY = {"kind": "nominal", "values": [0, 1]}
FIVE = {"kind": "ordinal", "values": [1, 2, 3, 4, 5]}


def write(folder, scales, rows):
    """Write a label folder; a row is rubric, labels by annotator, verdict, and what else its item
    or verdict has.
    """
    folder.mkdir(exist_ok=True)
    items, labels, verdicts = [], [], []
    for number, (rubric, given, verdict, *more) in enumerate(rows):
        name, about = f"i{number}", dict(more[0]) if more else {}
        said = {key: about.pop(key) for key in ("probability", "draws") if key in about}
        item = {"item_id": name, "rubric": rubric, "payload": {}}
        items.append(item | dict.fromkeys(("system", "cluster", "language")) | about)
        for who, label in given.items():
            labels.append({"item_id": name, "annotator": who, "label": label})
        verdicts.append({"item_id": name, "judge": "j", "verdict": verdict, **said})
    (folder / "scale.json").write_text(json.dumps(scales))
    for name, found in (("items", items), ("labels", labels), ("verdicts", verdicts)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in found))
    return folder


def reports(folder, judge=None, **options):
    """Return the reports on a folder's judge by rubric."""
    labels = read_labels(folder)
    verdicts = read_verdicts(folder / "verdicts.jsonl", judge, labels=labels)
    found = rubric_reports(labels, verdicts, **options)
    return {report.rubric: report for report in found}


def binary(truth, verdict, **more):
    """Return a row that two people agree on."""
    return ("pa", {"anna": truth, "ben": truth}, verdict, more)


def report_of(folder, rows, scale=BINARY, **options):
    """Write a label folder of rows of one rubric, and return the report on its judge."""
    (report,) = reports(write(folder, {rows[0][0]: scale}, rows), **options).values()
    return report
