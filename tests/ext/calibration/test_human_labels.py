"""The published figures about people's labels, recomputed from the files that lie beside the real
sample.
"""

import ast
import csv
import json
from collections import defaultdict

import numpy as np
import pytest
from scipy.stats import spearmanr

from alps.ext.calibration.agreement import (
    LabelScale,
    disagreement,
    kappa_of,
    pair_estimates,
    pair_table,
)
from alps.ext.calibration.annotators import alternative_annotator

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def folder(sample):
    found = sample.parent / "human_labels"
    if not found.is_dir():
        pytest.skip("the human labels are not here: they lie beside the real sample")
    return found


@pytest.fixture(scope="module")
def goldens(folder):
    return json.loads((folder / "goldens.json").read_text(encoding="utf-8"))


def table(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def empathy(folder):
    """Ratings by data set and dimension, then by rater, in the order of conversations; and the
    scale of each.
    """
    ratings, scales = defaultdict(lambda: defaultdict(dict)), {}
    for row in table(folder / "empathy_experts_llm" / "long.csv"):
        key = row["dataset"], row["dimension"]
        scales[key] = LabelScale(
            "ordinal", tuple(range(int(row["scale_min"]), int(row["scale_max"]) + 1))
        )
        ratings[key][row["rater"]][row["conversation_id"]] = float(row["rating"])
    columns = {
        key: {rater: [found[name] for name in sorted(found)] for rater, found in raters.items()}
        for key, raters in ratings.items()
    }
    return columns, scales


def published(folder, empathy):
    """Pair what was published with the two raters' columns."""
    columns, scales = empathy
    for row in table(folder / "empathy_experts_llm" / "published_pairs_spearman_kappa.csv"):
        key = row["Dataset"], row["Dimension"]
        first, second = (columns[key][rater] for rater in ast.literal_eval(row["Annotator Pair"]))
        yield (
            first,
            second,
            scales[key],
            float(row["Weighted Cohen's Kappa"]),
            float(row["Spearman Correlation"]),
        )


def quadratic(first, second, scale):
    return float(kappa_of(pair_table(first, second, scale), disagreement(scale, "quadratic")))


def with_averages(scale, labels):
    """A crowd's means, which the scale does not declare, as further values of it."""
    return LabelScale(scale.kind, tuple(sorted({*scale.values, *labels})))


def reproduced(cases):
    return sum(abs(quadratic(*case[:3]) - case[3]) <= 0.00501 for case in cases)


def test_94_of_126_published_kappas_are_those_of_the_declared_scale(folder, empathy):
    # The crowd's ratings are means: they come onto the declared scale by rounding, halves up.
    cases = [
        ([int(a + 0.5) for a in first], [int(b + 0.5) for b in second], scale, expected)
        for first, second, scale, expected, _ in published(folder, empathy)
    ]
    assert (len(cases), reproduced(cases)) == (126, 94)


def test_with_the_crowd_s_means_left_as_they_are_one_fewer_is_reproduced(folder, empathy):
    cases = [
        (a, b, with_averages(scale, [*a, *b]), kappa)
        for a, b, scale, kappa, _ in published(folder, empathy)
    ]
    assert reproduced(cases) == 93


def test_all_126_published_kappas_weigh_the_places_of_the_observed_values(folder, empathy):
    for first, second, _, expected, _ in published(folder, empathy):
        observed = sorted({*first, *second})
        places = LabelScale("ordinal", tuple(range(len(observed))))
        one, other = ([observed.index(value) for value in side] for side in (first, second))
        assert quadratic(one, other, places) == pytest.approx(expected, abs=0.00501)


def test_all_126_published_rank_correlations_are_reproduced(folder, empathy):
    for first, second, scale, _, expected in published(folder, empathy):
        found = pair_estimates(first, second, with_averages(scale, [*first, *second]), draws=1)[
            "spearman"
        ].value
        assert found == pytest.approx(expected, abs=0.00501)
        assert found == pytest.approx(spearmanr(first, second).statistic, abs=1e-9)


def test_alternative_annotator_tests_of_the_empathy_judges(empathy, goldens):
    columns, _ = empathy
    cases = goldens["alt_test_reference"]["cases"]
    assert len(cases) == 7
    for case in cases:
        raters = columns[case["dataset"], case["dimension"]]
        found = alternative_annotator(
            np.array([raters[f"expert{n}"] for n in (1, 2, 3)]).T,
            np.array(raters[case["judge"]]),
            epsilon=case["epsilon"],
            score={"acc": "accuracy", "rmse": "rmse"}[case["score"]],
        )
        assert [against.n for against in found.annotators] == case["n"]
        assert [against.p for against in found.annotators] == pytest.approx(case["p"], abs=5.1e-7)
        assert (found.omega, found.rho.value) == pytest.approx(
            (case["omega"], case["rho"]), abs=5e-5
        )
        assert found.status == ("passed" if case["omega"] >= 0.5 else "underpowered")
