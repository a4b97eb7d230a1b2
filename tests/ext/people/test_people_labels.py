"""`alps annotate agreement` on label folders: hand-made ones, and public sets if present."""

import json
import subprocess
import sys

import pytest

from tests.conftest import ROOT
from tests.label_folders import BINARY, FIVE, write
from tests.tracks import alps_here

PUBLIC = ROOT.parent / "shared" / "human_labels"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Write labels of two people, and of a third on the last item alone."""
    table = [(0, 0)] * 15 + [(0, 1)] * 10 + [(1, 0)] * 5 + [(1, 1)] * 20
    rows = [("pa", {"anna": first, "ben": second}, 1) for first, second in table]
    rows[-1][1]["cleo"] = 1
    rows += [("tone", {"anna": mark, "ben": min(5, mark + 1)}, 3) for mark in (1, 2, 3, 4, 5) * 3]
    rows.append(("alone", {"anna": 1}, 1))
    scales = {"pa": BINARY, "tone": FIVE, "alone": BINARY}
    return write(tmp_path_factory.mktemp("labels") / "labels", scales, rows)


@pytest.fixture(scope="module")
def rubrics(folder):
    ran = alps_here("annotate", "agreement", folder, "format=json")
    assert ran.code == 0, ran.err
    return json.loads(ran.out)["rubrics"]


def test_each_rubric_that_two_people_labelled_has_kappa_and_alpha(rubrics):
    assert list(rubrics) == ["pa", "tone"]
    pa = rubrics["pa"]
    assert (pa["items"], pa["twice"], pa["people"]) == (50, 50, ["anna", "ben", "cleo"])
    # The textbook table of Cohen's kappa: .4 [.151, .649].
    kappa = pa["figures"]["kappa"]
    assert kappa["value"] == pytest.approx(0.4)
    assert (kappa["low"], kappa["high"]) == pytest.approx((0.151, 0.649), abs=0.04)
    assert kappa["n"] == 50
    assert 0 < pa["figures"]["alpha"]["value"] < 1


def test_an_ordered_scale_has_quadratic_kappa_and_the_mean_difference(rubrics):
    pair = rubrics["tone"]["pairs"][0]
    assert pair["people"] == ["anna", "ben"]
    assert pair["figures"]["mae"]["value"] == pytest.approx(0.8)
    assert pair["figures"]["kappa"]["value"] > 0.7 > pair["figures"]["agreement"]["value"]


def test_the_pairs_of_people_that_share_most_items_are_first(rubrics, folder):
    assert [pair["people"] for pair in rubrics["pa"]["pairs"]] == [
        ["anna", "ben"],
        ["anna", "cleo"],
        ["ben", "cleo"],
    ]
    out = alps_here("annotate", "agreement", folder).out
    assert "3 people, 50 items, 50 labelled twice or more" in out
    assert max(map(len, out.splitlines())) <= 80


@pytest.mark.parametrize(
    ("words", "said"),
    [
        pytest.param(("rule=lexical",), "rule=lexical would change nothing", id="a rule"),
        pytest.param(("draft=off",), "draft=off would change nothing", id="a draft"),
    ],
)
def test_what_has_no_effect_on_labels_is_refused(folder, words, said):
    ran = alps_here("annotate", "agreement", folder, *words)
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err


def test_labels_of_one_person_are_refused(tmp_path):
    folder = write(tmp_path / "labels", {"pa": BINARY}, [("pa", {"anna": 1}, 1)])
    ran = alps_here("annotate", "agreement", folder)
    assert ran.code == 2
    assert "agreement needs items that two people labelled" in ran.err


@pytest.mark.real
def test_the_published_agreement_on_answers_comes_out_of_the_public_labels(tmp_path):
    joined = PUBLIC / "openqa_eval" / "joined.jsonl"
    if not joined.is_file():
        pytest.skip("the public labels are not here: they lie beside the checkout")
    words = ("format=openqa_eval", f"file={joined}", f"out={tmp_path / 'labels'}")
    converter = str(ROOT / "bench" / "label_sets.py")
    subprocess.run([sys.executable, converter, *words], check=True, capture_output=True)
    figures = json.loads(alps_here("annotate", "agreement", tmp_path / "labels", "format=json").out)
    figures = figures["rubrics"]["answer_match"]["figures"]
    assert figures["kappa"]["value"] == pytest.approx(0.735, abs=5e-4)
    assert figures["kappa"]["n"] == 1_483
    assert figures["alpha"]["value"] == pytest.approx(0.731, abs=5e-4)
