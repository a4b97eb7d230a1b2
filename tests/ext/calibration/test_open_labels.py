"""Agreement on labels that no scale declares, against published and independent figures."""

import numpy as np
import pytest
from scipy.stats import spearmanr

from alps.ext.calibration.agreement import LabelScale, pair_estimates
from alps.stats.open_labels import name_estimates, rank_correlation


def of_table(table: list[list[int]]) -> tuple[list[str], list[str]]:
    pairs: list[tuple[str, str]] = []
    for row, counts in enumerate(table):
        for column, count in enumerate(counts):
            pairs += [(str(row), str(column))] * count
    first, second = zip(*pairs, strict=True)
    return list(first), list(second)


def drawn(items: int = 600, clusters: int = 60) -> tuple[list[str], list[str], list[int]]:
    """Return labels of two people of whom one copies the other most of the time."""
    generator = np.random.default_rng(7)
    first = generator.integers(0, 40, items)
    copied = generator.random(items) < 0.7
    second = np.where(copied, first, generator.integers(0, 40, items))
    groups = generator.integers(0, clusters, items)
    return [f"l{n}" for n in first], [f"l{n}" for n in second], groups.tolist()


@pytest.mark.parametrize(
    ("table", "kappa"),
    [
        pytest.param([[20, 5], [10, 15]], 0.4, id="the textbook table of Cohen's kappa"),
        pytest.param([[19, 10], [6, 256]], 0.67358, id="salmon, of epiR's manual"),
        pytest.param(
            [[13, 0, 0], [0, 20, 7], [0, 4, 56]], 0.796, id="abstractors, of irrCAC's manual"
        ),
    ],
)
def test_kappa_of_published_tables(table, kappa):
    first, second = of_table(table)
    figure = name_estimates(first, second, range(len(first)))["kappa"]
    assert figure.value == pytest.approx(kappa, abs=5e-4)


def test_alpha_and_spearman_are_as_they_were_published():
    # Krippendorff, Computing Krippendorff's alpha-reliability (2011), B: nominal data.
    ben, gerry = list("aabbdcccedda"), list("babbbccceddd")
    assert name_estimates(ben, gerry, range(12))["alpha"].value == pytest.approx(0.692, abs=5e-4)
    # Wikipedia, Spearman's rank correlation coefficient: -29/165, of intelligence and television.
    mind = [106, 100, 86, 101, 99, 103, 97, 113, 112, 110]
    hours = [7, 27, 2, 50, 28, 29, 20, 12, 6, 17]
    assert rank_correlation(mind, hours, range(10)).value == pytest.approx(-29 / 165)


def kappa_of(first, second):
    # Here alone: every worker imports this file, one runs it, and scikit-learn takes a second.
    from sklearn.metrics import cohen_kappa_score

    return cohen_kappa_score(first, second)


def test_a_vocabulary_has_the_figures_of_the_scale_of_its_labels():
    first, second, clusters = drawn()
    figures = name_estimates(first, second, clusters)
    scale = LabelScale("nominal", tuple(sorted({*first, *second})))
    declared = pair_estimates(first, second, scale, clusters, draws=50)
    for name in ("agreement", "kappa", "alpha"):
        assert figures[name].value == pytest.approx(declared[name].value)
    assert figures["kappa"].value == pytest.approx(kappa_of(first, second))


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


def test_intervals_are_those_of_a_plain_bootstrap_of_sessions():
    first, second, clusters = (np.array(part) for part in drawn())
    figure = name_estimates(first.tolist(), second.tolist(), clusters.tolist())["kappa"]
    expected = bootstrapped(kappa_of, first, second, clusters)
    assert (figure.low, figure.high) == pytest.approx(expected, abs=0.02)


def test_ranks_with_ties_are_those_of_scipy_and_its_interval_that_of_a_plain_bootstrap():
    generator = np.random.default_rng(3)
    first = generator.integers(0, 6, 400) / 5
    second = np.clip(first + generator.integers(-1, 2, 400) / 5, 0, 1)
    clusters = generator.integers(0, 50, 400)
    figure = rank_correlation(first.tolist(), second.tolist(), clusters.tolist())
    assert figure.value == pytest.approx(spearmanr(first, second).statistic)
    expected = bootstrapped(lambda *pair: spearmanr(*pair).statistic, first, second, clusters)
    assert (figure.low, figure.high) == pytest.approx(expected, abs=0.02)


def test_one_label_throughout_leaves_kappa_and_ranks_undefined():
    figures = name_estimates(["a"] * 12, ["a"] * 12, range(12))
    assert figures["agreement"].value == 1
    assert figures["kappa"].value is figures["alpha"].value is None
    assert rank_correlation([0.5] * 12, [0.1] * 12, range(12)).value is None


def test_few_sessions_have_a_value_and_no_interval():
    figure = name_estimates(["a", "b", "a"], ["a", "b", "b"], ["s1", "s2", "s2"])["kappa"]
    assert figure.value == pytest.approx(0.4)
    assert (figure.low, figure.reason) == (None, "2 sessions are too few to resample")


def test_lengths_that_differ_are_refused():
    with pytest.raises(ValueError, match="lengths differ: 1, 2, 2"):
        name_estimates(["a"], ["a", "b"], [0, 1])
    with pytest.raises(ValueError, match="lengths differ: 1, 2, 2"):
        rank_correlation([0.1], [0.1, 0.2], [0, 1])


@pytest.mark.release
def test_thousands_of_labels_are_resampled_in_seconds():
    labels = [f"l{n % 300}" for n in range(3_600)]
    other = [f"l{(n + n % 3) % 300}" for n in range(3_600)]
    sessions = [n // 3 for n in range(3_600)]
    assert name_estimates(labels, other, sessions)["kappa"].low is not None
    numbers = [n / 3_600 for n in range(3_600)]
    assert rank_correlation(numbers, numbers[::-1], sessions).value == pytest.approx(-1)
