import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import ttest_1samp, ttest_rel

from alps.stats.bootstrap import Estimate, clustered_difference
from alps.stats.paired import (
    McNemar,
    holm,
    mcnemar,
    paired_difference,
    shared_letters,
)

probabilities = st.lists(st.floats(0, 1), max_size=8)
numbers = st.integers(-20, 20).map(lambda n: n / 4)
pairs = st.lists(st.tuples(numbers, numbers), min_size=2, max_size=25)


@pytest.mark.parametrize(
    ("b", "c", "chi2", "p"),
    [(121, 59, 21.355555555555554, 4.4344492637551645e-06), (8, 1, 49 / 9, 0.0390625)],
)
def test_published_mcnemar_tests_are_reproduced(b, c, chi2, p):
    found = mcnemar(b, c)
    assert (found.chi2, found.p) == (pytest.approx(chi2, abs=1e-12), pytest.approx(p, rel=1e-9))
    assert (found.first_only, found.second_only) == (b, c)


@given(st.integers(0, 60), st.integers(0, 60))
@settings(deadline=None)
def test_mcnemars_test_does_not_depend_on_who_is_first(b, c):
    found, mirrored = mcnemar(b, c), mcnemar(c, b)
    assert found.p == pytest.approx(mirrored.p)
    assert found.chi2 == mirrored.chi2
    assert 0 < found.p <= 1
    if b == c:
        assert found.p == 1


def test_mcnemars_test_says_nothing_where_verdicts_never_differ():
    assert mcnemar(0, 0) == McNemar(0, 0, None, 1.0)


def test_a_difference_has_the_p_of_the_paired_t_test_and_the_interval_of_a_clustered_mean():
    generator = np.random.default_rng(0)
    first, second = generator.random(40), generator.random(40) - 0.2
    found = paired_difference(first, second)
    assert found.p == pytest.approx(ttest_rel(first, second).pvalue)
    assert found.estimate == clustered_difference(first, second, range(40))


@given(pairs)
@settings(max_examples=60, deadline=None)
def test_a_difference_turns_its_sign_with_its_sides(scores):
    first, second = (np.array([pair[side] for pair in scores]) for side in (0, 1))
    one, other = paired_difference(first, second), paired_difference(second, first)
    assert one.p == pytest.approx(other.p)
    assert 0 < one.p <= 1
    assert (one.estimate.low is None) == (other.estimate.low is None)
    if one.estimate.low is not None:
        mirrored = (-other.estimate.high, -other.estimate.low)
        assert (one.estimate.low, one.estimate.high) == pytest.approx(mirrored)
    assert one.detectable == pytest.approx(other.detectable)


def test_a_shift_of_both_sides_changes_nothing():
    generator = np.random.default_rng(1)
    first, second = generator.random(30), generator.random(30)
    one = paired_difference(first, second)
    other = paired_difference(first + 5, second + 5, bounds=(5, 6))
    assert one.p == pytest.approx(other.p)
    assert one.estimate.low == pytest.approx(other.estimate.low)


def test_copies_of_records_in_a_cluster_add_nothing():
    generator = np.random.default_rng(2)
    first, second = generator.random(25), generator.random(25) - 0.1
    alone = paired_difference(first, second)
    clusters = np.repeat(np.arange(25), 4).tolist()
    together = paired_difference(np.repeat(first, 4), np.repeat(second, 4), clusters)
    naive = paired_difference(np.repeat(first, 4), np.repeat(second, 4))
    assert together.p == pytest.approx(alone.p)
    assert together.detectable == pytest.approx(alone.detectable)
    bounds = [(found.estimate.low, found.estimate.high) for found in (together, alone, naive)]
    assert bounds[0] == pytest.approx(bounds[1], abs=0.02)
    assert bounds[0][1] - bounds[0][0] > 1.5 * (bounds[2][1] - bounds[2][0])
    assert naive.p < alone.p
    assert naive.detectable < 0.6 * alone.detectable


def test_a_difference_that_never_varies_is_judged_by_its_sign():
    assert paired_difference(np.full(10, 0.3), np.full(10, 0.2)).p == pytest.approx(2.0**-9)
    assert paired_difference(np.full(10, 0.1 + 0.2), np.full(10, 0.3)).p == 1
    same = paired_difference(np.ones(10), np.ones(10))
    assert (same.p, same.estimate.value, same.detectable) == (1, 0.0, 0.0)
    assert same.estimate.low == pytest.approx(-same.estimate.high)
    # Ten records that agree don't exclude one in four that differ.
    assert 0.2 < same.estimate.high < 0.4


def test_one_cluster_or_no_record_has_no_test():
    one = paired_difference(np.ones(3), np.zeros(3), ["a"] * 3)
    assert (one.estimate, one.p, one.detectable) == (Estimate(1.0, None, None, 3), None, None)
    none = paired_difference(np.array([]), np.array([]))
    assert (none.estimate, none.p, none.detectable) == (Estimate(None, None, None, 0), None, None)


def test_true_nulls_are_rejected_about_as_often_as_they_should_be():
    generator = np.random.default_rng(3)
    rejected = 0
    for _ in range(400):
        users = np.repeat(generator.normal(0, 1, 20), 4)
        found = paired_difference(
            users + generator.normal(0, 1, 80), np.zeros(80), np.repeat(np.arange(20), 4).tolist()
        )
        rejected += found.p <= 0.05
    assert rejected / 400 == pytest.approx(0.05, abs=0.03)


def detectable_difference(ahead):
    return paired_difference(ahead, np.zeros(len(ahead)), bounds=None).detectable


def test_a_difference_as_large_as_detectable_is_detected_in_four_of_five_cases():
    generator = np.random.default_rng(4)
    # At 100 records rather than 10,000.
    detectable = detectable_difference(generator.normal(0, 1, 10_000)) * 10
    assert detectable == pytest.approx(2.8016 / 10, rel=0.03)
    drawn = [generator.normal(detectable, 1, 100) for _ in range(500)]
    found = sum(ttest_1samp(ahead, 0).pvalue <= 0.05 for ahead in drawn)
    assert found / 500 == pytest.approx(0.8, abs=0.06)


def test_the_detectable_difference_is_that_of_a_t_distribution_and_grows_with_the_spread():
    five = np.array([-2.0, -1.0, 0.0, 1.0, 2.0])
    quantiles = 2.776445 + 0.940965  # of t with 4 degrees of freedom, at .975 and .8
    assert detectable_difference(five) == pytest.approx(quantiles * (2.5 / 5) ** 0.5, rel=1e-5)
    ahead = np.random.default_rng(5).normal(0, 1, 50)
    assert detectable_difference(2 * ahead) == pytest.approx(2 * detectable_difference(ahead))


def test_holm_multiplies_the_smallest_most():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx((0.03, 0.06, 0.06, 0.02))
    assert holm([0.5, 0.9]) == (1.0, 1.0)
    assert holm([]) == ()
    assert holm([0.02]) == (0.02,)


@given(probabilities, st.randoms())
@settings(deadline=None)
def test_holm_lies_between_no_correction_and_bonferroni_and_ignores_order(ps, random):
    found = holm(ps)
    for p, corrected in zip(ps, found, strict=True):
        assert p <= corrected <= min(1.0, len(ps) * p) + 1e-12
    order = list(range(len(ps)))
    random.shuffle(order)
    assert holm([ps[place] for place in order]) == pytest.approx([found[place] for place in order])
    ranked = [found[place] for place in sorted(order, key=lambda place: ps[place])]
    assert ranked == sorted(ranked)


@pytest.mark.parametrize("ps", [[-0.1], [1.1], [float("nan")]])
def test_holm_refuses_what_is_no_probability(ps):
    with pytest.raises(ValueError, match="p-values must be in"):
        holm(ps)


@given(st.integers(0, 7), st.data())
@settings(deadline=None)
def test_two_systems_share_a_letter_exactly_if_they_are_not_told_apart(count, data):
    every = list(itertools.combinations(range(count), 2))
    different = data.draw(st.lists(st.sampled_from(every), unique=True)) if every else []
    letters = shared_letters(count, different)
    assert len(letters) == count
    assert all(own for own in letters)
    for one, other in every:
        assert bool(set(letters[one]) & set(letters[other])) == ((one, other) not in different)
    classes = [
        {n for n, own in enumerate(letters) if name in own}
        for name in set(itertools.chain(*letters))
    ]
    assert not any(one < other for one, other in itertools.permutations(classes, 2))


def test_letters_go_down_the_ranking():
    assert shared_letters(4, []) == (("a",),) * 4
    assert shared_letters(3, [(0, 1), (0, 2), (1, 2)]) == (("a",), ("b",), ("c",))
    assert shared_letters(4, [(0, 2), (0, 3), (1, 3)]) == (("a",), ("a", "b"), ("b", "c"), ("c",))
    assert shared_letters(0, []) == ()
    assert shared_letters(28, itertools.combinations(range(28), 2))[26:] == (("aa",), ("ab",))
    with pytest.raises(ValueError, match="itself"):
        shared_letters(2, [(1, 1)])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: mcnemar(-1, 2), "not be negative"),
        (lambda: paired_difference(np.ones(2), np.ones(3)), "lengths differ"),
        (lambda: paired_difference(np.ones(2), np.ones(2), ["a"]), "lengths differ"),
        (
            lambda: paired_difference(np.array([1, np.nan]), np.ones(2)),
            "only records that both sides have",
        ),
    ],
)
def test_what_does_not_fit_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
