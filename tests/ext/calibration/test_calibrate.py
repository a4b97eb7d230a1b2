import io
import json
import re
import subprocess
import sys

import numpy as np
import pytest
from rich.console import Console

from alps.errors import UsageError
from alps.ext.calibration.agreement import LabelScale, disagreement, kappa_of, pair_table
from alps.ext.calibration.calibrate import Calibrated, rubric_reports
from alps.ext.calibration.labels import Verdict, Verdicts, read_labels, read_verdicts, truth_of
from alps.ext.calibration.report import FAIL, LIMITS, PASS, report_rows
from alps.ext.calibration.settings import Gates
from alps.ext.calibration.table import print_account, print_calibration
from alps.rows import Calls
from bench.label_sets import import_labels
from tests.endtoend import one_line
from tests.label_folders import BINARY, FIVE, binary, reports, write

NAMES = {"kind": "nominal", "values": ["yes", "partly", "no"]}


def printed(found):
    file = io.StringIO()
    print_calibration(list(found.values()), judge="j", console=Console(width=100, file=file))
    return file.getvalue()


def test_the_cells_and_rates_of_a_binary_judge(tmp_path):
    rows = (
        [binary(1, 1)] * 60
        + [binary(1, 0)] * 20
        + [binary(0, 1)] * 10
        + [binary(0, 0)] * 50
        + [binary(1, None)] * 2
    )
    (report,) = reports(write(tmp_path, {"pa": BINARY}, rows)).values()
    assert report.counts == {
        "n": 140,
        "unparsed": 2,
        "unlabelled": 0,
        "tp": 60,
        "fn": 20,
        "fp": 10,
        "tn": 50,
    }
    expected = {
        "sensitivity": 60 / 80,
        "specificity": 50 / 60,
        "ppv": 60 / 70,
        "npv": 50 / 70,
        "sensitivity_unparsed_wrong": 60 / 82,
        "people_kappa": 1,
        "pabak": 2 * 110 / 140 - 1,
        "prevalence_index": 10 / 140,
        "bias_index": -10 / 140,
    }
    assert {name: report.figures[name].value for name in expected} == pytest.approx(expected)
    assert report.details.base_rates["people"]["1"] == pytest.approx(80 / 140)
    assert report.row()["confusion"] == {"values": [0, 1], "counts": [[50, 10], [20, 60]]}


def test_where_nearly_everything_is_negative_kappa_has_company(tmp_path):
    rows = [binary(0, 0)] * 118 + [binary(0, 1)] * 5 + [binary(1, 0)] * 2
    figures = reports(write(tmp_path, {"pa": BINARY}, rows))["pa"].figures
    expected = {
        "agreement": 0.944,
        "kappa": -0.0234,
        "ac1": 0.9408,
        "pabak": 0.888,
        "prevalence_index": -0.944,
    }
    assert {name: figures[name].value for name in expected} == pytest.approx(expected, abs=5e-5)


def test_items_that_stand_alone_get_wilson_s_interval_and_few_the_exact_one(tmp_path):
    rows = [binary(1, 1)] * 45 + [binary(1, 0)] * 5 + [binary(0, 0)] * 20
    figures = reports(write(tmp_path, {"pa": BINARY}, rows))["pa"].figures
    assert (figures["sensitivity"].low, figures["sensitivity"].high) == pytest.approx(
        (0.7864, 0.9565), abs=5e-5
    )
    assert (figures["specificity"].low, figures["specificity"].high) == pytest.approx(
        (0.8316, 1), abs=5e-5
    )


def test_an_interval_of_rates_without_an_error_has_a_width_in_clusters_too(tmp_path):
    rows = [binary(n % 2, n % 2, cluster=f"user{n // 4}") for n in range(120)]
    sensitivity = reports(write(tmp_path, {"pa": BINARY}, rows))["pa"].figures["sensitivity"]
    assert (sensitivity.value, sensitivity.high) == (1, 1)
    assert 0.8 < sensitivity.low < 0.93


def test_a_judge_that_says_what_people_say_passes(tmp_path):
    rows = [binary(n % 2, n % 2) for n in range(120)]
    (report,) = reports(write(tmp_path, {"pa": BINARY}, rows)).values()
    assert (report.verdict, report.reasons) == (PASS, ())


def test_few_items_are_a_limit_and_wrong_verdicts_a_failure(tmp_path):
    few = reports(
        write(tmp_path / "few", {"pa": BINARY}, [binary(n % 2, n % 2) for n in range(40)])
    )["pa"]
    assert few.verdict == LIMITS
    assert "sensitivity: 20 items, but 50 are needed" in few.reasons
    wrong = reports(
        write(tmp_path / "wrong", {"pa": BINARY}, [binary(n % 2, n % 3 == 0) for n in range(240)])
    )["pa"]
    assert wrong.verdict == FAIL
    easy = Gates(rate=0.0, below_people=2.0, heterogeneity=0.0)
    assert reports(tmp_path / "wrong", gates=easy)["pa"].verdict != FAIL


def test_rubrics_are_never_pooled(tmp_path):
    rows = [binary(n % 2, n % 2) for n in range(40)] + [
        ("ei", {"anna": 3, "ben": 4}, 3),
        ("ei", {"anna": 5}, 5),
    ]
    found = reports(write(tmp_path, {"pa": BINARY, "ei": FIVE}, rows))
    assert {name: report.counts["n"] for name, report in found.items()} == {"pa": 40, "ei": 2}
    assert found["ei"].figures["mae"].value == 0
    assert "sensitivity" not in found["ei"].figures
    assert "all rubrics (not pooled)" in printed(found)


def test_on_a_scale_that_says_what_is_accepted_the_rates_of_accepting_are_told(tmp_path):
    rows = [
        ("ei", {"anna": truth}, said) for truth, said in ((5, 4), (4, 3), (4, 5), (2, 1), (1, 5))
    ]
    report = reports(write(tmp_path, {"ei": FIVE | {"positive": [4, 5]}}, rows))["ei"]
    found = report.row()["at_threshold"]
    assert [found[cell] for cell in ("tp", "fn", "fp", "tn")] == [2, 1, 1, 1]
    assert found["sensitivity"]["value"] == pytest.approx(2 / 3)


def test_every_two_people_and_the_judge_with_each_stand_beside_each_other(tmp_path):
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 2, (60, 3))
    rows = [
        ("pa", {"anna": int(a), "ben": int(b)} | ({"carla": int(c)} if n < 10 else {}), int(a))
        for n, (a, b, c) in enumerate(labels)
    ]
    pairs = reports(write(tmp_path, {"pa": BINARY}, rows))["pa"].row()["pairs"]
    assert [
        (pair["one"], pair["other"], pair["kappa"]["n"]) for pair in pairs if pair["judge"]
    ] == [("j", "anna", 60), ("j", "ben", 60), ("j", "carla", 10)]
    people = [pair for pair in pairs if not pair["judge"]]
    assert [(pair["one"], pair["other"]) for pair in people] == [
        ("anna", "ben"),
        ("anna", "carla"),
        ("ben", "carla"),
    ]
    scale = LabelScale("nominal", (0, 1))
    table = pair_table(labels[:, 0].tolist(), labels[:, 1].tolist(), scale)
    expected = kappa_of(table, disagreement(scale, "unweighted"))
    assert people[0]["kappa"]["value"] == pytest.approx(float(expected))
    assert pairs[0]["kappa"]["value"] == 1


def test_the_items_are_laid_open_for_corrections(tmp_path):
    rows = [binary(1, 0, cluster="user"), binary(0, None), ("pa", {"anna": 1, "ben": 0}, 1)]
    row = reports(write(tmp_path, {"pa": BINARY}, rows))["pa"].row()
    assert row["labelled"] == [
        ["i0", "user", 1, 0, 1.0],
        ["i1", "i1", 0, None, 0.0],
        ["i2", "i2", None, 1, 0.5],
    ]
    assert (row["scale"], row["sample"], row["clusters"]) == (BINARY, None, 3)


def test_probabilities_are_held_against_people_s_shares(tmp_path):
    rows = [binary(n < 3, 1, probability=0.95) for n in range(4)] + [
        binary(n < 1, 0, probability=0.15) for n in range(4)
    ]
    found = reports(write(tmp_path, {"pa": BINARY}, rows))["pa"].row()["reliability"]
    assert [(one["judge"], one["people"], one["n"]) for one in found["bins"]] == [
        (pytest.approx(0.15), 0.25, 4),
        (pytest.approx(0.95), 0.75, 4),
    ]
    assert found["calibration_error"] == pytest.approx((0.1 + 0.2) / 2)


def test_without_probabilities_verdicts_are_held_against_people_s_means(tmp_path):
    rows = [("ei", {"anna": truth}, said) for truth, said in ((1, 2), (3, 2), (5, 4), (4, 4))]
    found = reports(write(tmp_path, {"ei": FIVE}, rows))["ei"].row()["reliability"]
    assert [(one["judge"], one["people"], one["n"]) for one in found["bins"]] == [
        (2, 2, 2),
        (4, 4.5, 2),
    ]
    assert (found["by"], "calibration_error" in found) == ("verdict", False)


def test_a_judge_that_contradicts_itself_fails(tmp_path):
    rows = [binary(n % 2, n % 2, draws=[n % 2, n % 2, (n % 2) ^ (n < 24)]) for n in range(120)]
    report = reports(write(tmp_path, {"pa": BINARY}, rows))["pa"]
    assert report.figures["self_agreement"].value == pytest.approx(1 - 0.2 * 2 / 3)
    assert (report.verdict, len(report.reasons)) == (FAIL, 1)
    assert "repeated verdicts contradict each other in 13.3%" in report.reasons[0]
    assert reports(tmp_path, gates=Gates(self_flip=0.2))["pa"].verdict == PASS


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([("pa", {"anna": 1}, None)], "no item has both a label and a verdict"),
        ([("pa", {"anna": 1, "ben": 0}, 1)], "no item has both a label and a verdict"),
        (
            [("pa", {"anna": 1}, 1)] * 5,
            "every labelled item is 1, so specificity and kappa are unknown",
        ),
        (
            [binary(0, 1), binary(0, 0)],
            "every labelled item is 0, so sensitivity and kappa are unknown",
        ),
        (
            [("ei", {"anna": 3}, 3)] * 5,
            "every labelled item is 3, so agreement beyond chance is unknown",
        ),
        (
            [("pa", {"anna": 1}, 1), ("pa", {"anna": 0}, 1)],
            "human agreement is unknown, because only anna labelled these items",
        ),
        (
            [("pa", {"anna": 1}, 1), ("pa", {"ben": 0}, 1)],
            "human agreement is unknown, because no two people labelled the same item",
        ),
        (
            [binary(1, 1)] * 5,
            "human agreement is unknown, because people gave one label to all items that they "
            "share",
        ),
        ([("names", {"anna": "yes", "ben": "yes"}, "no")], "every labelled item is yes"),
    ],
)
def test_what_can_not_be_told_is_a_sentence(tmp_path, rows, said):
    found = reports(write(tmp_path, {"pa": BINARY, "ei": FIVE, "names": NAMES}, rows))
    (report,) = found.values()
    assert any(said in reason for reason in report.reasons)
    assert report.verdict != PASS
    json.dumps(report.row(), allow_nan=False)
    assert not re.search(r"nan|None|inf\b", printed(found))


def test_a_class_that_nobody_gave_is_no_failure_of_the_judge(tmp_path):
    report = reports(write(tmp_path, {"pa": BINARY}, [binary(1, n > 2) for n in range(100)]))["pa"]
    assert report.verdict == LIMITS
    assert "specificity below 0.75" not in report.reasons


def test_verdicts_on_nothing_that_people_labelled_are_one_line(tmp_path):
    labels = read_labels(write(tmp_path, {"pa": BINARY}, [binary(1, 1), ("pa", {}, 1)]))
    with pytest.raises(
        UsageError,
        match=r"judge=j: no verdict \(1 in total\) is on a labelled item; compare the item ids",
    ):
        rubric_reports(labels, Verdicts("j", {"i1": Verdict(1)}, "0"))
    with pytest.raises(UsageError, match="judge=j: gave no verdict"):
        rubric_reports(labels, Verdicts("j", {}, "0"))


@pytest.mark.parametrize(
    ("labels", "truth"),
    [
        ({"a": 1, "b": 1, "c": 0}, 1),
        ({"a": 1, "b": 0}, None),
        ({"a": 0, "b": 0, "adjudicated": 1}, 1),
        ({}, None),
    ],
)
def test_the_truth_is_adjudicated_or_the_majority(labels, truth):
    assert (
        truth_of(labels, ("a", "b", "c"), ("adjudicated",), LabelScale("nominal", (0, 1))) == truth
    )


def test_a_tie_on_an_ordinal_scale_is_the_median_of_its_places_rounded_down_though_nobody_gave_it():
    assert truth_of({"a": 1, "b": 5}, ("a", "b"), (), LabelScale("ordinal", (1, 2, 3, 4, 5))) == 3
    assert truth_of({"a": 2, "b": 4}, ("a", "b"), (), LabelScale("ordinal", (1, 2, 3, 4, 5))) == 3
    assert truth_of({"a": 2, "b": 3}, ("a", "b"), (), LabelScale("ordinal", (1, 2, 3, 4, 5))) == 2


def test_the_command_prints_a_table_and_writes_a_calibration(alps, tmp_path):
    write(
        tmp_path / "labels",
        {"pa": BINARY},
        [binary(n % 2, n % 2, probability=0.1 + 0.8 * (n % 2)) for n in range(120)],
    )
    finished = alps("calibrate", "labels=labels", "out=out")
    assert finished.returncode == 0, finished.stderr
    assert max(len(line) for line in finished.stdout.splitlines()) <= 80
    assert finished.stdout.startswith(
        "j on pa: PASS, you may rank systems with it (120 labelled items)\n"
    )
    found = json.loads((tmp_path / "out" / "calibration.json").read_text())
    assert found["rubrics"]["pa"]["sensitivity"]["value"] == 1
    assert found["rubrics"]["pa"]["verdict"] == "pass"


CALLS = {
    "http": 1,
    "cached": 1_200,
    "prompt_tokens": 3_000,
    "completion_tokens": 40,
    "cost": None,
    "unpriced": 1,
}


def accounted(**found):
    file = io.StringIO()
    done = Calibrated("org/[bold]judge", (), found.pop("row", {}), None, **found)
    print_account(done, Console(width=200, file=file))
    return file.getvalue().splitlines()


def test_what_a_calibration_took_and_lacks_is_said_in_sentences():
    assert accounted() == []
    assert accounted(unheard=1, left_out=("pa", "pf"), calls=Calls(**CALLS)) == [
        "org/[bold]judge cannot apply these rubrics, so alps ignores their labels: pa, pf.",
        "Left out: 1 item without a response from the judge.",
        "1 call (1,200 more from the cache), 3,000 tokens in, 40 out, cost –.",
    ]
    assert accounted(unheard=2) == ["Left out: 2 items without a response from the judge."]
    assert accounted(calls=Calls(**CALLS | {"http": 0, "cached": 0})) == []


def test_how_long_a_calibration_holds_is_said():
    (recorded,) = accounted(row={"made": "2026-01-01"})
    assert "alps reports agreement but corrects no scores" in recorded
    row = {"made": "2026-01-01", "expires": "9999-12-31", "pinned": True}
    assert accounted(row=row) == ["Valid for this judge with these settings until 9999-12-31."]
    (old,) = accounted(row={**row, "expires": "2026-02-01"})
    assert old.startswith(
        "The calibration expired on 2026-02-01, as the oldest verdict is from 2026-01-01; "
        "calibrate again in"
    )
    (unpinned,) = accounted(row={**row, "pinned": False})
    assert unpinned.endswith(
        "until 9999-12-31; the model name is undated, so the provider may change the model."
    )


def test_a_verdict_that_contradicts_the_scale_is_one_line(alps, tmp_path):
    write(tmp_path / "labels", {"pa": BINARY}, [binary(1, 1), binary(1, 2)])
    assert "verdicts.jsonl, line 2, verdict: 2 is not on the scale [0, 1]" in one_line(
        alps("calibrate", "labels=labels")
    )


@pytest.mark.release
def test_no_provider_and_no_learning_library_is_loaded_for_recorded_verdicts(tmp_path):
    write(tmp_path, {"pa": BINARY}, [binary(n % 2, n % 2, system=f"s{n % 3}") for n in range(60)])
    code = (
        "import sys; from tests.label_folders import reports; from pathlib import Path; "
        "reports(Path(sys.argv[1])); "
        "print([name for name in ('litellm', 'sklearn', 'datasets', 'torch') if name in "
        "sys.modules])"
    )
    finished = subprocess.run(
        [sys.executable, "-c", code, tmp_path], capture_output=True, text=True, check=True
    )
    assert finished.stdout == "[]\n"


@pytest.fixture(scope="module")
def public(sample, tmp_path_factory):
    folder = sample.parent / "human_labels"
    if not folder.is_dir():
        pytest.skip("the human labels are not here")
    out = tmp_path_factory.mktemp("public")
    import_labels("openqa_eval", folder / "openqa_eval" / "joined.jsonl", out / "openqa")
    import_labels("empathy", folder / "empathy_experts_llm" / "long.csv", out / "empathy")
    import_labels("llmbar", folder / "llmbar" / "llmbar_with_verdicts.jsonl", out / "llmbar")
    return out


@pytest.mark.real
def test_the_recorded_judge_of_the_public_set_gets_its_published_figures(alps, public, tmp_path):
    printed = alps(
        "calibrate", f"labels={public / 'openqa'}", "judge=gpt-4", "details=yes", "out=out"
    ).stdout
    assert re.search(r"confusion +tp 679, fn 137, fp 89, tn 583 *\n", printed)
    found = json.loads((tmp_path / "out" / "calibration.json").read_text())["rubrics"][
        "answer_match"
    ]
    alone = [found[f"{name}_unclustered"] for name in ("sensitivity", "specificity")]
    assert [[round(rate[key], 3) for key in ("value", "low", "high")] for rate in alone] == [
        [0.832, 0.805, 0.856],
        [0.868, 0.840, 0.891],
    ]
    assert (found["sensitivity"]["low"], found["sensitivity"]["high"]) == pytest.approx(
        (0.797, 0.864), abs=0.004
    )
    figures = [round(found[name]["value"], 3) for name in ("kappa", "people_kappa", "alpha_people")]
    assert figures == [0.695, 0.735, 0.731]
    assert (found["unparsed"], found["people_kappa"]["n"]) == (2, 1483)


@pytest.mark.few(1)
@pytest.mark.real
@pytest.mark.parametrize(
    ("judge", "cells", "kappa"),
    [("text-davinci-003", (667, 149, 93, 581), 0.675), ("BEM", (599, 217, 72, 602), 0.616)],
)
def test_the_other_recorded_judges_get_theirs(public, judge, cells, kappa):
    report = reports(public / "openqa", judge, draws=2)["answer_match"]
    assert tuple(report.counts[cell] for cell in ("tp", "fn", "fp", "tn")) == cells
    assert report.figures["kappa"].value == pytest.approx(kappa, abs=5e-4)
    if judge == "BEM":
        selective = report.row()["selective"]
        assert [selective[name] for name in ("confidence", "kept", "disagreements", "n")] == [
            0.937,
            1057,
            143,
            1490,
        ]
        assert selective["bound"] == pytest.approx(0.1498, abs=5e-5)


@pytest.mark.real
def test_gpt_4_follows_instructions_on_one_subset_and_guesses_on_another(public):
    found = reports(public / "llmbar", "GPT-4/Vanilla", draws=2)
    assert found["llmbar/natural"].figures["kappa"].value == pytest.approx(0.898, abs=5e-4)
    shares = [
        found[f"llmbar/{name}"].figures["agreement"].value for name in ("natural", "constraint")
    ]
    assert shares == pytest.approx([0.95, 0.47], abs=5e-3)


@pytest.mark.real
def test_kappa_weighs_the_declared_scale(public):
    labels = read_labels(public / "empathy")
    verdicts = read_verdicts(public / "empathy" / "verdicts.jsonl", "gpt", labels=labels)
    found = report_rows(rubric_reports(labels, verdicts, draws=2), verdicts, labels)["rubrics"]
    pairs = {
        (pair["one"], pair["other"]): pair["kappa"]
        for pair in found["lend_an_ear/self_oriented"]["pairs"]
    }
    assert pairs["expert1", "expert2"]["value"] == pytest.approx(0.786, abs=5e-4)
    assert len(found) == 21
