import json

import pytest

from alps.judges.calibration import FAIL, LIMITS, PASS, Gates, calibrate, truth_of
from alps.judges.labels import read_labels, read_verdicts
from alps.stats.agreement import Scale
from tests.endtoend import one_line

BINARY = {"kind": "nominal", "values": [0, 1]}
FIVE = {"kind": "ordinal", "values": [1, 2, 3, 4, 5]}


def write(folder, scales, rows):
    """Write a label folder; a row is rubric, labels by annotator, verdict, and what else its item has."""
    folder.mkdir(exist_ok=True)
    items, labels, verdicts = [], [], []
    for number, (rubric, given, verdict, *more) in enumerate(rows):
        name = f"i{number}"
        item = {"item_id": name, "rubric": rubric, "system": None, "cluster": None, "language": None, "payload": {}}
        items.append(item | (more[0] if more else {}))
        labels += [{"item_id": name, "annotator": who, "label": label} for who, label in given.items()]
        verdicts.append({"item_id": name, "judge": "j", "verdict": verdict})
    (folder / "scale.json").write_text(json.dumps(scales))
    for name, found in (("items", items), ("labels", labels), ("verdicts", verdicts)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in found))
    return folder


def reports(folder, **options):
    labels = read_labels(folder)
    return {r.rubric: r for r in calibrate(labels, read_verdicts(folder / "verdicts.jsonl", labels=labels), **options)}


def binary(truth, verdict, **more):
    return ("pa", {"anna": truth, "ben": truth}, verdict, more)


def test_the_cells_and_rates_of_a_binary_judge(tmp_path):
    rows = [binary(1, 1)] * 60 + [binary(1, 0)] * 20 + [binary(0, 1)] * 10 + [binary(0, 0)] * 50 + [binary(1, None)] * 2
    (report,) = reports(write(tmp_path, {"pa": BINARY}, rows)).values()
    assert report.counts == {"n": 140, "unparsed": 2, "unlabelled": 0, "tp": 60, "fn": 20, "fp": 10, "tn": 50}
    assert report.figures["sensitivity"].value == pytest.approx(60 / 80)
    assert report.figures["specificity"].value == pytest.approx(50 / 60)
    assert report.figures["sensitivity_unparsed_wrong"].value == pytest.approx(60 / 82)
    assert report.figures["people_kappa"].value == 1
    assert report.details["base_rates"]["people"]["1"] == pytest.approx(80 / 140)


def test_a_judge_that_says_what_people_say_passes(tmp_path):
    rows = [binary(n % 2, n % 2) for n in range(120)]
    (report,) = reports(write(tmp_path, {"pa": BINARY}, rows)).values()
    assert (report.verdict, report.reasons) == (PASS, ())


def test_few_items_are_a_limit_and_wrong_verdicts_a_failure(tmp_path):
    few = reports(write(tmp_path / "few", {"pa": BINARY}, [binary(n % 2, n % 2) for n in range(40)]))["pa"]
    assert few.verdict == LIMITS
    assert "20 items for sensitivity, fewer than 50" in few.reasons
    wrong = reports(write(tmp_path / "wrong", {"pa": BINARY}, [binary(n % 2, n % 3 == 0) for n in range(240)]))["pa"]
    assert wrong.verdict == FAIL
    easy = Gates(rate=0.0, below_people=2.0, heterogeneity=0.0)
    assert reports(tmp_path / "wrong", gates=easy)["pa"].verdict != FAIL


def test_rubrics_are_never_pooled(tmp_path):
    rows = [binary(n % 2, n % 2) for n in range(40)] + [("ei", {"anna": 3, "ben": 4}, 3), ("ei", {"anna": 5}, 5)]
    found = reports(write(tmp_path, {"pa": BINARY, "ei": FIVE}, rows))
    assert {name: report.counts["n"] for name, report in found.items()} == {"pa": 40, "ei": 2}
    assert found["ei"].figures["mae"].value == 0
    assert "sensitivity" not in found["ei"].figures


def test_a_judge_that_is_worse_on_one_system_is_said_to_be(tmp_path):
    rows = [binary(n % 2, n % 2, system="a") for n in range(100)]
    rows += [binary(n % 2, (n % 2) ^ (n % 3 == 0), system="b") for n in range(100)]
    report = reports(write(tmp_path, {"pa": BINARY}, rows))["pa"]
    assert report.details["heterogeneity"]["system"]["agreement"] == {"a": 1.0, "b": 0.66}
    assert any("not equally good on every system" in reason for reason in report.reasons)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([("pa", {"anna": 1}, None)], "no item has both a label and a verdict"),
        ([("pa", {"anna": 1, "ben": 0}, 1)], "no item has both a label and a verdict"),
        ([("pa", {"anna": 1}, 1)] * 5, "people's agreement with each other is not known"),
        ([("pa", {"anna": 1}, 1), ("pa", {"ben": 1}, 1)], "people's agreement with each other is not known"),
    ],
    ids=["nothing parsed", "a tie", "one annotator, one class", "nothing labelled in common"],
)
def test_what_can_not_be_said_is_a_sentence(tmp_path, rows, said):
    report = reports(write(tmp_path, {"pa": BINARY}, rows))["pa"]
    assert said in report.reasons
    assert report.verdict != PASS
    assert "NaN" not in json.dumps(report.row())


@pytest.mark.parametrize(
    ("labels", "truth"),
    [({"a": 1, "b": 1, "c": 0}, 1), ({"a": 1, "b": 0}, None), ({"a": 0, "b": 0, "adjudicated": 1}, 1), ({}, None)],
)
def test_the_truth_is_adjudicated_or_the_majority(labels, truth):
    assert truth_of(labels, ("a", "b", "c"), ("adjudicated",), Scale("nominal", (0, 1))) == truth


def test_a_tie_on_an_ordinal_scale_is_its_lower_median():
    assert truth_of({"a": 2, "b": 4}, ("a", "b"), (), Scale("ordinal", (1, 2, 3, 4, 5))) == 3
    assert truth_of({"a": 2, "b": 3}, ("a", "b"), (), Scale("ordinal", (1, 2, 3, 4, 5))) == 2


def test_the_command_prints_a_table_and_writes_a_calibration(alps, tmp_path):
    write(tmp_path / "labels", {"pa": BINARY}, [binary(n % 2, n % 2) for n in range(120)])
    finished = alps("calibrate", "labels=labels", "out=out")
    assert finished.returncode == 0, finished.stderr
    assert max(len(line) for line in finished.stdout.splitlines()) <= 80
    assert "Verdict: pass" in finished.stdout
    found = json.loads((tmp_path / "out" / "calibration.json").read_text())
    assert found["rubrics"]["pa"]["sensitivity"]["value"] == 1
    assert found["rubrics"]["pa"]["verdict"] == "pass"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("calibrate", "labels=nowhere"), "nowhere"),
        (("calibrate",), "labels= is missing"),
        (("labels", "import", "format=openqa", "file=x", "out=y"), "did you mean 'openqa_eval'"),
    ],
)
def test_what_is_not_there_is_one_line(alps, words, said):
    assert said in one_line(alps(*words))


@pytest.mark.real
def test_the_recorded_judge_of_the_public_set_gets_its_published_figures(alps, sample, tmp_path):
    file = sample.parent / "human_labels" / "openqa_eval" / "joined.jsonl"
    if not file.is_file():
        pytest.skip("the human labels are not here")
    assert alps("labels", "import", "format=openqa_eval", f"file={file}", "out=labels").returncode == 0
    printed = alps("calibrate", "labels=labels", "judge=gpt-4", "out=out").stdout
    assert "Confusion: tp 679, fn 137, fp 89, tn 583." in printed
    found = json.loads((tmp_path / "out" / "calibration.json").read_text())["rubrics"]["answer_match"]
    alone = [found[f"{name}_unclustered"] for name in ("sensitivity", "specificity")]
    assert [[round(rate[key], 3) for key in ("value", "low", "high")] for rate in alone] == [
        [0.832, 0.805, 0.856],
        [0.868, 0.840, 0.891],
    ]
    figures = [round(found[name]["value"], 3) for name in ("kappa", "people_kappa", "alpha_people")]
    assert figures == [0.695, 0.735, 0.731]
    assert (found["unparsed"], found["people_kappa"]["n"]) == (2, 1483)
