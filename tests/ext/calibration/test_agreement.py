"""Figures of agreement, on declared scales and on open labels, against published and independent
ones.
"""

import itertools
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kendalltau, spearmanr

from alps.ext.calibration.agreement import (
    LabelScale,
    disagreement,
    encode,
    kappa_of,
    pair_estimates,
    pair_features,
    pair_table,
    rater_estimates,
)
from alps.ext.people.gold import rank_correlation
from alps.stats.bootstrap import Estimate, name_estimates

BINARY = LabelScale("nominal", (True, False))
FIVE = LabelScale("ordinal", (1, 2, 3, 4, 5))
_ = None
# Four raters, twelve items: the published example.
FOUR = list(
    zip(
        [1, 2, 3, 3, 2, 1, 4, 1, 2, _, _, _],
        [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, _, _],
        [_, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, 3],
        [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, _],
        strict=True,
    )
)
THREE = list(
    zip(
        [_, _, _, _, _, 3, 4, 1, 2, 1, 1, 3, 3, _, 3],
        [1, _, 2, 1, 3, 3, 4, 3, _, _, _, _, _, _, _],
        [_, _, 2, 1, 3, 4, 4, _, 2, 1, 1, 3, 3, _, 4],
        strict=True,
    )
)
labels = st.sampled_from(FIVE.values)
pairs = st.lists(st.tuples(labels, labels), min_size=1, max_size=40)
row = st.lists(st.one_of(st.none(), labels), min_size=3, max_size=3)
rows = st.lists(row, min_size=1, max_size=15)


def sides(labelled: list[tuple]) -> tuple[list, list]:
    """Return the labels of each of two people."""
    return [pair[0] for pair in labelled], [pair[1] for pair in labelled]


def krippendorff(ratings, scale):
    return rater_estimates(ratings, scale)["alpha"].value


def near(value):
    """Return what a figure has to equal, which may be that there is none."""
    return None if value is None else pytest.approx(value, abs=1e-9)


def sklearn():
    # Here alone: every worker imports this file, one runs it, and scikit-learn takes a second.
    from sklearn import metrics

    return metrics


def alpha_by_hand(ratings, distance) -> float | None:
    """Compute alpha as it is defined: disagreement within items over disagreement of all pairable
    labels.
    """
    items = [[label for label in row if label is not None] for row in ratings]
    items = [row for row in items if len(row) >= 2]
    everything = [label for row in items for label in row]
    n = len(everything)
    seen = sum(
        sum(distance(a, b, everything) for a, b in itertools.permutations(row, 2)) / (len(row) - 1)
        for row in items
    )
    expected = sum(distance(a, b, everything) for a, b in itertools.permutations(everything, 2))
    return 1 - (n - 1) * seen / expected if expected else None


def ordinal(a, b, everything) -> float:
    low, high = sorted((a, b))
    between = sum(low <= label <= high for label in everything)
    return (between - (everything.count(a) + everything.count(b)) / 2) ** 2


DISTANCES = {
    "nominal": lambda a, b, _: float(a != b),
    "interval": lambda a, b, _: float(a - b) ** 2,
    "ordinal": ordinal,
}


def test_published_ac1_and_ac2_with_missing_labels_are_reproduced():
    found = rater_estimates(FOUR, FIVE)
    assert found["ac1"].value == pytest.approx(0.775444, abs=1e-6)
    assert found["ac2"].value == pytest.approx(0.914001, abs=1e-6)


ALPHAS = {
    "four, nominal": (FOUR, FIVE.values, 0.743421052631579),
    "four, ordinal": (FOUR, FIVE.values, 0.8153875037548814),
    "four, interval": (FOUR, FIVE.values, 0.8491071428571428),
    "three, nominal": (THREE, (1, 2, 3, 4), 0.691358024691358),
    "three, interval": (THREE, (1, 2, 3, 4), 0.8108448928121059),
}


@pytest.mark.parametrize("name", ALPHAS)
def test_published_alphas_are_reproduced(name):
    ratings, values, alpha = ALPHAS[name]
    found = krippendorff(ratings, LabelScale(name.split(", ")[1], values))
    assert found == pytest.approx(alpha, abs=1e-12)


@pytest.mark.parametrize("metric", DISTANCES)
@given(rows)
@settings(deadline=None)
def test_alpha_is_what_its_definition_says(metric, ratings):
    found = krippendorff(ratings, LabelScale(metric, FIVE.values))
    assert found == near(alpha_by_hand(ratings, DISTANCES[metric]))


@given(pairs, st.sampled_from(["unweighted", "linear", "quadratic"]))
@settings(deadline=None)
def test_kappa_is_scikit_learns_on_the_declared_scale(labelled, weights):
    first, second = sides(labelled)
    counts = pair_table(first, second, FIVE)
    assert (counts == sklearn().confusion_matrix(first, second, labels=FIVE.values)).all()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of scikit-learn, where one label is all there is
        expected = sklearn().cohen_kappa_score(
            first,
            second,
            labels=list(FIVE.values),
            weights=None if weights == "unweighted" else weights,
        )
    found = kappa_of(counts, disagreement(FIVE, weights))
    assert found == pytest.approx(expected, abs=1e-9, nan_ok=True)


@given(pairs)
@settings(deadline=None)
def test_rank_correlations_and_errors_are_scipys_and_numpys(labelled):
    first, second = map(np.array, sides(labelled))
    found = pair_estimates(first.tolist(), second.tolist(), FIVE)
    ranked = len(set(first)) > 1 and len(set(second)) > 1
    for name, scipys in (("spearman", spearmanr), ("kendall", kendalltau)):
        assert found[name].value == near(scipys(first, second).statistic if ranked else None)
    assert found["mae"].value == pytest.approx(np.abs(second - first).mean())
    assert found["bias"].value == pytest.approx((second - first).mean())
    assert found["agreement"].value == pytest.approx((first == second).mean())


@given(pairs)
@settings(deadline=None)
def test_two_raters_have_the_figures_of_many_whoever_is_first(labelled):
    first, second = sides(labelled)
    two = pair_estimates(first, second, FIVE)
    for name, other in pair_estimates(second, first, FIVE).items():
        mirrored = -other.value if name == "bias" else other.value
        assert two[name].value == near(mirrored)
    many = rater_estimates(labelled, FIVE)
    for name in ("alpha", "ac1", "ac2"):
        assert two[name].value == near(many[name].value)


@given(rows, st.permutations(range(3)))
@settings(deadline=None)
def test_figures_of_many_raters_are_bounded_whatever_the_order(ratings, order):
    found = rater_estimates(ratings, FIVE)
    assert all(figure.value is None or figure.value <= 1 + 1e-12 for figure in found.values())
    assert found["alpha"].n == sum(sum(label is not None for label in row) >= 2 for row in ratings)
    shuffled = [[row[place] for place in order] for row in reversed(ratings)]
    for name, figure in rater_estimates(shuffled, FIVE).items():
        assert figure.value == near(found[name].value)


def test_a_single_label_everywhere_leaves_chance_corrected_figures_undefined():
    found = pair_estimates([3] * 6, [3] * 6, FIVE)
    for name in ("kappa", "kappa_linear", "kappa_quadratic", "alpha", "spearman", "kendall"):
        assert found[name] == Estimate(None, None, None, 6)
    assert found["agreement"] == Estimate(1.0, 1.0, 1.0, 6)
    assert krippendorff([[3, 3]] * 6, FIVE) is None
    assert rater_estimates([[3, 3]] * 6, FIVE)["ac1"].value == 1


def test_nothing_labelled_in_common_has_no_figures():
    for first, second in (([], []), ([1, None], [None, 2])):
        for estimate in pair_estimates(first, second, FIVE).values():
            assert estimate == Estimate(None, None, None, 0)
    for ratings in ([], [[1, None], [None, 2]], [[None, None]]):
        assert krippendorff(ratings, FIVE) is None
        found = rater_estimates(ratings, FIVE)
        assert found["alpha"] == Estimate(None, None, None, 0)
        assert found["ac1"].value is None


def test_a_missing_label_is_none_or_nan_and_drops_its_item():
    whole = pair_estimates([1, 2, 3, 4], [1, 3, 3, 5], FIVE)
    holed = pair_estimates([1, 2, 3, 4, None, 2], [1, 3, 3, 5, 4, float("nan")], FIVE)
    found = [{name: (e.value, e.n) for name, e in one.items()} for one in (whole, holed)]
    assert found[0] == found[1]


def test_weights_follow_the_declared_values():
    even, uneven = LabelScale("ordinal", (0, 1, 2)), LabelScale("ordinal", (0, 1, 4))
    assert disagreement(uneven, "quadratic")[0].tolist() == [0, 1 / 16, 1]
    assert disagreement(even, "linear")[0].tolist() == [0, 0.5, 1]
    by_place = pair_estimates([0, 1, 1, 2], [0, 1, 2, 2], even)["kappa_quadratic"].value
    by_value = pair_estimates([0, 1, 1, 4], [0, 1, 4, 4], uneven)["kappa_quadratic"].value
    assert by_value != pytest.approx(by_place)


def test_values_that_nobody_used_count_for_ac1_and_change_no_quadratic_kappa():
    first, second = [1, 2, 2, 1, 2], [1, 2, 1, 1, 2]
    two = pair_estimates(first, second, LabelScale("ordinal", (1, 2)))
    five = pair_estimates(first, second, FIVE)
    assert two["kappa_quadratic"].value == pytest.approx(five["kappa_quadratic"].value)
    assert five["ac1"].value > two["ac1"].value


def test_names_of_an_ordinal_scale_stand_one_step_apart():
    names = LabelScale("ordinal", ("poor", "fair", "good"))
    found = pair_estimates(["poor", "fair", "good"], ["fair", "fair", "good"], names)
    numbers = pair_estimates([1, 2, 3], [2, 2, 3], LabelScale("ordinal", (1, 2, 3)))
    assert found == numbers
    assert found["bias"].value == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    ("kind", "values", "message"),
    [
        ("nominal", (1,), "at least two"),
        ("nominal", (1, 1), "two different values"),
        ("interval", ("a", "b"), "needs numbers"),
        ("ordinal", (2, 1), "ascend"),
    ],
)
def test_scales_that_cannot_be_are_refused(kind, values, message):
    with pytest.raises(ValueError, match=message):
        LabelScale(kind, values)


DIFFER = "lengths differ: 1, 2, 2"
OFF_THE_SCALE = r"label 7 at index 1 is not on the scale \[1, 2, 3, 4, 5\]"
CONTRADICTING = {
    "off the scale": (lambda: pair_features([1, 7], [1, 2], FIVE), OFF_THE_SCALE),
    "another count of labels": (lambda: pair_features([1], [1, 2], FIVE), "lengths differ"),
    "no clusters": (lambda: pair_estimates([1], [1], FIVE, []), "lengths differ"),
    "a short row": (
        lambda: encode([[1, 2], [1, 2, 3], [1]], FIVE),
        "write None for a missing label",
    ),
    "another count of open labels": (lambda: name_estimates(["a"], ["a", "b"], [0, 1]), DIFFER),
    "another count of ranks": (lambda: rank_correlation([0.1], [0.1, 0.2], [0, 1]), DIFFER),
}


@pytest.mark.parametrize(("call", "message"), CONTRADICTING.values(), ids=CONTRADICTING)
def test_labels_that_contradict_the_scale_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_items_that_resemble_each_other_widen_every_interval():
    generator = np.random.default_rng(3)
    first = np.repeat(generator.integers(1, 6, 30), 6)
    second = np.clip(first + np.repeat(generator.integers(-1, 2, 30), 6), 1, 5)
    clusters = [n // 6 for n in range(180)]
    apart = pair_estimates(first.tolist(), second.tolist(), FIVE)
    together = pair_estimates(first.tolist(), second.tolist(), FIVE, clusters)
    for name, estimate in together.items():
        assert estimate.value == apart[name].value
        assert estimate.low < estimate.value < estimate.high
        assert estimate.high - estimate.low > 1.5 * (apart[name].high - apart[name].low)


def large_sample_interval(counts, weights):
    """Kappa's interval over independent items: Fleiss, Cohen and Everitt 1969."""
    share, near = counts / counts.sum(), 1 - disagreement(FIVE, weights)
    rows, columns = share.sum(axis=1), share.sum(axis=0)
    value, chance = float(kappa_of(counts, 1 - near)), float(rows @ near @ columns)
    means = (near @ columns)[:, None] + (rows @ near)[None, :]
    spread = (share * (near - means * (1 - value)) ** 2).sum()
    variance = (spread - (value - chance * (1 - value)) ** 2) / counts.sum()
    width = 1.959964 * float(np.sqrt(variance)) / (1 - chance)
    return value - width, value + width


def test_the_bootstrap_of_kappa_comes_close_to_its_large_sample_interval():
    generator = np.random.default_rng(9)
    first = generator.integers(1, 6, 600)
    second = np.where(generator.random(600) < 0.7, first, generator.integers(1, 6, 600))
    labelled = first.tolist(), second.tolist()
    drawn = pair_estimates(*labelled, FIVE)
    weights = {"kappa": "unweighted", "kappa_linear": "linear", "kappa_quadratic": "quadratic"}
    for name, weighted in weights.items():
        exact = large_sample_interval(pair_table(*labelled, FIVE), weighted)
        assert (drawn[name].low, drawn[name].high) == pytest.approx(exact, abs=0.012)


def test_one_cluster_has_values_without_intervals_and_seeds_decide_the_draws():
    found = pair_estimates([1, 2, 3], [1, 3, 3], FIVE, ["a", "a", "a"])
    assert all(estimate.value is not None and estimate.low is None for estimate in found.values())
    labelled = [1, 2, 3, 4, 5, 2, 2], [1, 3, 3, 4, 4, 2, 1]
    one, again, other = (pair_estimates(*labelled, FIVE, seed=seed) for seed in (1, 1, 2))
    assert one == again
    assert one != other


def test_a_nominal_scale_has_no_distances():
    assert set(pair_estimates([True], [True], BINARY)) == {"agreement", "kappa", "ac1", "alpha"}
    assert set(rater_estimates([[True, True]], BINARY)) == {"alpha", "ac1"}


def drawn(items=600, clusters=60):
    """Return open labels of two people of whom one copies the other most of the time."""
    generator = np.random.default_rng(7)
    first = generator.integers(0, 40, items)
    copied = generator.random(items) < 0.7
    second = np.where(copied, first, generator.integers(0, 40, items))
    groups = generator.integers(0, clusters, items)
    return [f"l{n}" for n in first], [f"l{n}" for n in second], groups.tolist()


def test_a_vocabulary_has_the_figures_of_the_scale_of_its_labels():
    first, second, clusters = drawn()
    figures = name_estimates(first, second, clusters)
    scale = LabelScale("nominal", tuple(sorted({*first, *second})))
    declared = pair_estimates(first, second, scale, clusters)
    for name in ("agreement", "kappa", "alpha"):
        assert figures[name].value == pytest.approx(declared[name].value)
    assert figures["kappa"].value == pytest.approx(sklearn().cohen_kappa_score(first, second))


def bootstrapped(statistic, first, second, clusters):
    """Return the 95 % interval of a statistic over sessions that are drawn again, one by one."""
    generator = np.random.default_rng(0)
    members = [np.flatnonzero(clusters == name) for name in np.unique(clusters)]
    values = []
    for _ in range(300):
        chosen = generator.integers(0, len(members), len(members))
        items = np.concatenate([members[place] for place in chosen])
        values.append(statistic(first[items], second[items]))
    return tuple(np.percentile(values, [2.5, 97.5]))


def test_intervals_of_open_labels_are_those_of_a_plain_bootstrap_of_sessions():
    first, second, clusters = (np.array(part) for part in drawn())
    figure = name_estimates(first.tolist(), second.tolist(), clusters.tolist())["kappa"]
    expected = bootstrapped(sklearn().cohen_kappa_score, first, second, clusters)
    assert (figure.low, figure.high) == pytest.approx(expected, abs=0.02)


def test_ranks_with_ties_are_those_of_scipy_and_their_interval_that_of_a_plain_bootstrap():
    generator = np.random.default_rng(3)
    first = generator.integers(0, 6, 400) / 5
    second = np.clip(first + generator.integers(-1, 2, 400) / 5, 0, 1)
    clusters = generator.integers(0, 50, 400)
    figure = rank_correlation(first.tolist(), second.tolist(), clusters.tolist())
    assert figure.value == pytest.approx(spearmanr(first, second).statistic)
    expected = bootstrapped(lambda *pair: spearmanr(*pair).statistic, first, second, clusters)
    assert (figure.low, figure.high) == pytest.approx(expected, abs=0.02)


def test_one_open_label_throughout_leaves_kappa_and_ranks_undefined():
    figures = name_estimates(["a"] * 12, ["a"] * 12, range(12))
    assert figures["agreement"].value == 1
    assert figures["kappa"].value is figures["alpha"].value is None
    assert rank_correlation([0.5] * 12, [0.1] * 12, range(12)).value is None


def test_few_sessions_have_a_value_and_no_interval():
    figure = name_estimates(["a", "b", "a"], ["a", "b", "b"], ["s1", "s2", "s2"])["kappa"]
    assert figure.value == pytest.approx(0.4)
    assert (figure.low, figure.reason) == (None, "2 sessions are too few to resample")


@pytest.mark.release
def test_thousands_of_open_labels_are_resampled_in_seconds():
    labels = [f"l{n % 300}" for n in range(3_600)]
    other = [f"l{(n + n % 3) % 300}" for n in range(3_600)]
    sessions = [n // 3 for n in range(3_600)]
    assert name_estimates(labels, other, sessions)["kappa"].low is not None
    numbers = [n / 3_600 for n in range(3_600)]
    assert rank_correlation(numbers, numbers[::-1], sessions).value == pytest.approx(-1)
