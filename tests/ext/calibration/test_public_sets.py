"""Public sets of people's labels, which lie beside the real sample: they are read whole, and their
published figures are computed again.
"""

import ast
import csv
import json
import re
from collections import Counter, defaultdict

import numpy as np
import pytest

from alps.ext.calibration.annotators import alternative_annotator
from alps.ext.calibration.labels import read_crowd, read_labels, read_verdicts
from bench.label_sets import import_labels
from tests.label_folders import reports
from tests.tracks import alps_here

pytestmark = pytest.mark.real

FILES = {
    "openqa_eval": "openqa_eval/joined.jsonl",
    "empathy": "empathy_experts_llm/long.csv",
    "llmbar": "llmbar/llmbar_with_verdicts.jsonl",
}


@pytest.fixture(scope="module")
def folder(sample):
    found = sample.parent / "human_labels"
    if not found.is_dir():
        pytest.skip("the human labels are not here: they lie beside the real sample")
    return found


@pytest.fixture(scope="module")
def imported(folder, tmp_path_factory):
    """By its name, what was imported of a set, and the label folder of it."""
    out = tmp_path_factory.mktemp("public")
    done = {}
    for name, path in FILES.items():
        done[name] = import_labels(name, folder / path, out / name), out / name
    return done


def test_every_dimension_has_its_experts_its_crowd_and_three_judges(imported):
    done, out = imported["empathy"]
    assert (done.items, done.labels, done.verdicts) == (1050, 4200, 3150)
    assert (done.means, done.unparsed) == (1050, 0)
    assert done.judges == ("gemini", "gpt", "claude")
    labels = read_labels(out)
    assert len(labels.rubrics) == 21
    assert {len(labels.items_of(rubric)) for rubric in labels.rubrics} == {50}
    people = {labels.annotators_of(rubric) for rubric in labels.rubrics}
    assert people == {("expert1", "expert2", "expert3")}
    ends = Counter(scale.values[:: len(scale.values) - 1] for scale in labels.scales.values())
    assert ends == {(1, 5): 9, (1, 7): 9, (0, 2): 3}
    for name in labels.items:
        row = labels.labels_of(name)
        assert sorted(row[f"expert{number}"] for number in (1, 2, 3))[1] == row["experts"], name
    assert {len(means) for means in read_crowd(out / "crowd.jsonl", labels).values()} == {1050}


@pytest.mark.release
def test_every_pair_has_two_verdicts_a_judge_and_its_difficulty(imported):
    done, out = imported["llmbar"]
    assert (done.items, done.labels, len(done.rubrics), len(done.judges)) == (567, 567, 7, 48)
    labels, verdicts = read_labels(out), 0
    for name in done.rubrics:
        judges = 18 if "constraint" in name or "negation" in name else 24
        verdicts += 2 * judges * len(labels.items_of(name))
    assert done.verdicts == verdicts
    right = []
    for name in ("llmbar/natural", "llmbar/negation"):
        for judge in ("GPT-4/Vanilla", "GPT-4/Vanilla#swapped"):
            judged = read_verdicts(out / "verdicts.jsonl", judge, labels=labels).by_item
            items = [item.item_id for item in labels.items_of(name)]
            same = [judged[item].value == labels.labels_of(item)["gold"] for item in items]
            right.append((sum(same), len(same)))
    assert right == [(95, 100), (96, 100), (58, 59), (57, 59)]


def test_the_recorded_judge_of_the_public_set_gets_its_published_figures(imported, tmp_path):
    words = (f"labels={imported['openqa_eval'][1]}", "judge=gpt-4", "details=yes")
    printed = alps_here("calibrate", *words, f"out={tmp_path / 'out'}").out
    assert re.search(r"confusion +tp 679, fn 137, fp 89, tn 583 *\n", printed)
    row = json.loads((tmp_path / "out" / "calibration.json").read_text())
    found = row["rubrics"]["answer_match"]
    alone = [found[f"{name}_unclustered"] for name in ("sensitivity", "specificity")]
    rates = [[round(rate[key], 3) for key in ("value", "low", "high")] for rate in alone]
    assert rates == [[0.832, 0.805, 0.856], [0.868, 0.840, 0.891]]
    ends = found["sensitivity"]["low"], found["sensitivity"]["high"]
    assert ends == pytest.approx((0.797, 0.864), abs=0.004)
    figures = [round(found[name]["value"], 3) for name in ("kappa", "people_kappa", "alpha_people")]
    assert figures == [0.695, 0.735, 0.731]
    assert (found["unparsed"], found["people_kappa"]["n"]) == (2, 1483)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("judge", "cells", "kappa"),
    [("text-davinci-003", (667, 149, 93, 581), 0.675), ("BEM", (599, 217, 72, 602), 0.616)],
)
def test_the_other_recorded_judges_get_theirs(imported, judge, cells, kappa):
    report = reports(imported["openqa_eval"][1], judge)["answer_match"]
    assert tuple(report.counts[cell] for cell in ("tp", "fn", "fp", "tn")) == cells
    assert report.figures["kappa"].value == pytest.approx(kappa, abs=5e-4)
    if judge == "BEM":
        selective = report.row()["selective"]
        figures = [selective[name] for name in ("confidence", "kept", "disagreements", "n")]
        assert figures == [0.937, 1057, 143, 1490]
        assert selective["bound"] == pytest.approx(0.1498, abs=5e-5)


def test_gpt_4_follows_instructions_on_one_subset_and_guesses_on_another(imported):
    found = reports(imported["llmbar"][1], "GPT-4/Vanilla")
    assert found["llmbar/natural"].figures["kappa"].value == pytest.approx(0.898, abs=5e-4)
    subsets = [found[f"llmbar/{name}"] for name in ("natural", "constraint")]
    shares = [report.figures["agreement"].value for report in subsets]
    assert shares == pytest.approx([0.95, 0.47], abs=5e-3)


def test_a_judge_that_has_no_recorded_verdicts_is_told_apart_from_an_llm(imported):
    ran = alps_here("calibrate", f"labels={imported['empathy'][1]}", "judge=gemni")
    known = "(recorded: gemini, gpt, claude; built-in"
    assert f"judge=gemni: unknown — did you mean 'gemini'? {known}" in ran.one_line


@pytest.fixture(scope="module")
def published(folder):
    path = folder / "empathy_experts_llm" / "published_pairs_spearman_kappa.csv"
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def kappa_in(found, row):
    """Return the kappa of the raters that a published row is about; the judge that reports call
    gemini is llm there.
    """
    names = {
        "gemini" if name == "llm" else name for name in ast.literal_eval(row["Annotator Pair"])
    }
    dataset = row["Dataset"].lower().replace(" ", "").replace("_", "")
    (report,) = (
        report
        for name, report in found.items()
        if name.replace("_", "").partition("/")[0] == dataset
        and name.partition("/")[2] == row["Dimension"]
    )
    (pair,) = (pair for pair in report["pairs"] if {pair["one"], pair["other"]} == names)
    return pair["kappa"]["value"]


def test_94_of_126_published_kappas_are_those_of_the_declared_scale(imported, published, tmp_path):
    words = (f"labels={imported['empathy'][1]}", "judge=gemini", f"out={tmp_path / 'out'}")
    ran = alps_here("calibrate", *words)
    assert (ran.code, ran.err) == (0, "")
    found = json.loads((tmp_path / "out" / "calibration.json").read_text())["rubrics"]
    assert len(found) == 21
    near = []
    for row in published:
        near.append(abs(kappa_in(found, row) - float(row["Weighted Cohen's Kappa"])) <= 0.00501)
    assert (len(near), sum(near)) == (126, 94)
    experts = {"Annotator Pair": "('expert1', 'expert2')", "Dataset": "Lend an Ear"}
    kappa = kappa_in(found, {**experts, "Dimension": "self_oriented"})
    assert kappa == pytest.approx(0.786, abs=5e-4)


@pytest.fixture(scope="module")
def empathy(folder):
    """Ratings by data set and dimension, then by rater, in the order of conversations."""
    ratings = defaultdict(lambda: defaultdict(dict))
    with (folder / FILES["empathy"]).open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            raters = ratings[row["dataset"], row["dimension"]]
            raters[row["rater"]][row["conversation_id"]] = float(row["rating"])
    columns = {}
    for key, raters in ratings.items():
        columns[key] = {name: [row[place] for place in sorted(row)] for name, row in raters.items()}
    return columns


def test_alternative_annotator_tests_of_the_empathy_judges(folder, empathy):
    goldens = json.loads((folder / "goldens.json").read_text(encoding="utf-8"))
    cases = goldens["alt_test_reference"]["cases"]
    assert len(cases) == 7
    for case in cases:
        raters = empathy[case["dataset"], case["dimension"]]
        found = alternative_annotator(
            np.array([raters[f"expert{n}"] for n in (1, 2, 3)]).T,
            np.array(raters[case["judge"]]),
            epsilon=case["epsilon"],
            score={"acc": "accuracy", "rmse": "rmse"}[case["score"]],
        )
        assert [against.n for against in found.annotators] == case["n"]
        assert [against.p for against in found.annotators] == pytest.approx(case["p"], abs=5.1e-7)
        figures = found.omega, found.rho.value
        assert figures == pytest.approx((case["omega"], case["rho"]), abs=5e-5)
        assert found.status == ("passed" if case["omega"] >= 0.5 else "underpowered")
