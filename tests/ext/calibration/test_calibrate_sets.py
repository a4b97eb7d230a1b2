"""Calibrating on sets of labels that exist: our stress set, and the public sets where they are."""

import ast
import csv
import json

import pytest

from bench.label_sets import import_labels
from tests.tracks import alps_here


def calibrated(folder, *words):
    ran = alps_here("calibrate", *words, f"out={folder / 'out'}")
    assert (ran.code, ran.err) == (0, ""), ran
    return json.loads((folder / "out" / "calibration.json").read_text())["rubrics"], ran.out


@pytest.fixture(scope="module")
def stressed(tmp_path_factory):
    return calibrated(
        tmp_path_factory.mktemp("stress"), "judge=lexical", "labels=stress", "details=yes"
    )


def test_the_stress_set_tells_what_a_judge_accepts_of_each_kind(stressed):
    found, printed = stressed
    kinds = found["matching"]["acceptance"]
    assert sum(row["n"] for row in kinds.values()) == found["matching"]["n"] >= 60
    assert kinds["same"]["right"] == kinds["same"]["n"]
    assert kinds["wrong_person"]["right"] == 0
    for name, row in kinds.items():
        line = next(
            line for line in printed.splitlines() if line.strip().startswith(name.replace("_", " "))
        )
        assert line.split()[-1] == str(row["n"])
        assert row["low"] <= row["accepted"] / row["n"] <= row["high"]
    assert max(map(len, printed.splitlines())) <= 80


def test_a_judge_that_takes_wrong_for_right_fails(stressed):
    matching = stressed[0]["matching"]
    assert matching["known_wrong"]["value"] > 0.1
    assert matching["verdict"] == "fail"
    assert any("known to be wrong" in reason for reason in matching["reasons"])


def test_every_gate_can_be_set(tmp_path):
    gates = (
        "rate=0",
        "known_wrong=1",
        "items=0",
        "below_people=2",
        "omega=0",
        "unparsed=1",
        "heterogeneity=0",
    )
    words = [f"gate_{gate}" for gate in (*gates, "epsilon=0.1", "self_flip=1")]
    found, _ = calibrated(tmp_path, "judge=lexical", "labels=stress", *words)
    assert found["matching"]["verdict"] != "fail"
    assert (
        "gate_rate=2: must be 1 or less"
        in alps_here("calibrate", "judge=lexical", "labels=stress", "gate_rate=2").err
    )


def test_a_judge_that_rates_nothing_says_what_it_left_out(stressed):
    assert stressed[0].keys() == {"matching"}
    left_out = " ".join(stressed[1].split())
    assert (
        "lexical cannot apply these rubrics, so alps ignores their labels: cf, "
        "ei_resonation, ei_expression, ei_reception, memory_used, pa" in left_out
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("labels=stress",), "judge= is missing"),
        (("labels=nowhere", "judge=lexical"), "labels=nowhere: no such folder"),
        (("judge=lexical",), "labels= is missing"),
        (("labels=stress", "judge=lexicl"), "did you mean 'lexical'"),
    ],
)
def test_what_is_missing_is_one_line(words, said):
    assert said in alps_here("calibrate", *words).one_line


@pytest.fixture(scope="module")
def empathy(sample, tmp_path_factory):
    folder = sample.parent / "human_labels" / "empathy_experts_llm"
    if not folder.is_dir():
        pytest.skip("the human labels are not here: they lie beside the real sample")
    out = tmp_path_factory.mktemp("empathy")
    import_labels("empathy", folder / "long.csv", out / "labels")
    found, _ = calibrated(out, "judge=gemini", f"labels={out / 'labels'}")
    with (folder / "published_pairs_spearman_kappa.csv").open(encoding="utf-8", newline="") as file:
        return out / "labels", found, list(csv.DictReader(file))


def pairs_of(found, row):
    """Return the pair of raters that a published row is about; the judge is called gemini here, and
    llm there.
    """
    names = {
        "gemini" if name == "llm" else name for name in ast.literal_eval(row["Annotator Pair"])
    }
    dataset = row["Dataset"].lower().replace(" ", "_")
    rubric = dataset.replace("empatheticdialogues", "empathetic_dialogues")
    (report,) = (
        report
        for name, report in found.items()
        if name.replace("_", "").partition("/")[0] == rubric.replace("_", "")
        and name.partition("/")[2] == row["Dimension"]
    )
    (pair,) = (pair for pair in report["pairs"] if {pair["one"], pair["other"]} == names)
    return pair


@pytest.mark.release
@pytest.mark.real
def test_94_of_126_published_kappas_are_those_of_the_declared_scale(empathy):
    _, found, published = empathy
    near = [
        abs(pairs_of(found, row)["kappa"]["value"] - float(row["Weighted Cohen's Kappa"]))
        <= 0.00501
        for row in published
    ]
    assert (len(near), sum(near)) == (126, 94)


@pytest.mark.real
def test_a_judge_that_has_no_recorded_verdicts_is_told_apart_from_an_llm(empathy):
    labels, _, _ = empathy
    ran = alps_here("calibrate", f"labels={labels}", "judge=gemni")
    assert (
        "judge=gemni: unknown — did you mean 'gemini'? (recorded: gemini, gpt, claude; built-in"
        in ran.one_line
    )
