from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta, binom, binomtest

from alps.ext.audits.intervals import (
    Confusion,
    clopper_pearson,
    clustered_indices,
    clustered_rates,
    clustered_statistics,
    confusion,
    few_differ,
    proportion,
    selective_threshold,
    upper_bound,
    wilson,
)
from alps.stats.bootstrap import Estimate, percentile_interval, resampled_sums

counts = st.integers(1, 400).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


@given(counts)
@settings(deadline=None)
def test_intervals_are_those_of_scipy_hold_the_share_and_mirror_it(case):
    k, n = case
    for name, method in (("wilson", wilson), ("exact", clopper_pearson)):
        expected = binomtest(k, n).proportion_ci(0.95, method=name)
        found, mirrored = method(k, n), method(n - k, n)
        ends = found.low, found.high
        assert ends == pytest.approx((expected.low, expected.high), abs=1e-9)
        assert ends == pytest.approx((1 - mirrored.high, 1 - mirrored.low), abs=1e-9)
        assert 0 <= found.low <= found.value <= found.high <= 1
        assert found.n == n


@pytest.mark.parametrize("method", [wilson, clopper_pearson, proportion])
def test_all_and_none_reach_the_end_of_the_range_exactly_and_of_nothing_there_is_no_value(method):
    assert method(0, 17).low == 0.0
    assert method(17, 17).high == 1.0
    assert method(0, 0) == Estimate(None, None, None, 0)


@pytest.mark.parametrize("method", [wilson, clopper_pearson, partial(upper_bound, confidence=0.9)])
@pytest.mark.parametrize(("k", "n"), [(-1, 3), (4, 3)])
def test_counts_that_cannot_be_are_refused(method, k, n):
    with pytest.raises(ValueError, match="between 0 and trials"):
        method(k, n)


def test_small_samples_get_the_exact_interval():
    assert proportion(30, 39) == clopper_pearson(30, 39)
    assert proportion(30, 40) == wilson(30, 40)


@pytest.mark.parametrize(
    ("values", "few"),
    [
        ([0.0] * 20, True),
        ([0.0] * 18 + [1.0] * 2, True),
        ([0.0] * 14 + [0.2, 0.5, 0.7, 0.3, 0.9, 1.0], False),
        ([0.0] * 14 + [1.0] * 6, False),
    ],
    ids=["none", "a tenth", "scores", "three tenths"],
)
def test_only_rare_values_are_few(values, few):
    assert few_differ(np.array(values), range(20)) is few


@given(counts, st.sampled_from([0.9, 0.95]))
@settings(deadline=None)
def test_a_one_sided_bound_is_the_rate_at_which_so_few_are_just_possible(case, confidence):
    k, n = case
    bound = upper_bound(k, n, confidence=confidence)
    assert bound == pytest.approx(1.0 if k == n else beta.ppf(confidence, k + 1, n - k), abs=1e-9)
    if k < n:
        assert binom.cdf(k, n, bound) == pytest.approx(1 - confidence, abs=1e-6)


def test_a_judge_is_counted_against_people():
    people = [True, True, True, False, False, None, True, False]
    judge = [True, False, True, True, False, True, None, None]
    table = confusion(people, judge)
    assert table == Confusion(tp=2, fn=1, fp=1, tn=1, unparsed_positive=1, unparsed_negative=1)
    assert table.unparsed_as_wrong() == Confusion(tp=2, fn=2, fp=2, tn=1)


def test_rates_of_a_published_judge_are_reproduced():
    rates = Confusion(tp=679, fn=137, fp=89, tn=583).rates()
    published = {"sensitivity": (0.832, 0.805, 0.856), "specificity": (0.868, 0.840, 0.891)}
    for name, figures in published.items():
        rate = rates[name]
        assert (rate.value, rate.low, rate.high) == pytest.approx(figures, abs=5e-4), name
    assert rates["ppv"].value == pytest.approx(679 / 768)
    assert rates["npv"].value == pytest.approx(583 / 720)
    assert rates["accuracy"].value == pytest.approx(1262 / 1488)
    assert (rates["people"].value, rates["judge"].value) == pytest.approx((816 / 1488, 768 / 1488))


def test_a_table_without_a_class_has_no_rate_there():
    rates = Confusion(tp=3, fn=1, fp=0, tn=0).rates()
    assert rates["specificity"] == Estimate(None, None, None, 0)
    assert rates["sensitivity"].value == 0.75
    assert set(clustered_indices([], [], []).values()) == {Estimate(None, None, None, 0)}


def test_clustered_rates_have_the_values_of_the_table_and_wider_intervals():
    generator = np.random.default_rng(4)
    questions = np.repeat(generator.random(60) < 0.8, 5)
    people = np.repeat(generator.random(60) < 0.5, 5)
    judge = np.where(questions, people, ~people)
    clusters = [n // 5 for n in range(300)]
    plain = confusion(people.tolist(), judge.tolist()).rates()
    found = clustered_rates(people.tolist(), judge.tolist(), clusters)
    assert found.keys() == plain.keys()
    for name, rate in found.items():
        assert (rate.value, rate.n) == (pytest.approx(plain[name].value), plain[name].n)
        assert rate.high - rate.low > 1.5 * (plain[name].high - plain[name].low)


def test_clustered_rates_leave_out_what_was_not_labelled_or_not_parsed():
    people, judge = [True, None, True, False, True], [True, True, None, False, False]
    found = clustered_rates(people, judge, list("abcde"))
    assert (found["sensitivity"].value, found["sensitivity"].n) == (0.5, 2)
    assert (found["specificity"].value, found["specificity"].n) == (1.0, 1)
    assert clustered_rates([], [], [])["sensitivity"] == Estimate(None, None, None, 0)
    assert clustered_rates([True], [True], ["a"])["specificity"].value is None
    with pytest.raises(ValueError, match="lengths differ"):
        clustered_rates([True], [True], [])


def test_resampled_sums_are_those_of_a_plain_resample():
    values, clusters = np.random.default_rng(0).random(40), [n // 2 for n in range(40)]
    features = np.stack([values, np.ones(40)], axis=1)
    (found,) = clustered_statistics(features, clusters, [lambda s: s[..., 0] / s[..., 1]], seed=5)
    chosen = np.random.Generator(np.random.PCG64(5)).integers(0, 20, size=(2_000, 20))
    means = values.reshape(20, 2).mean(axis=1)[chosen].mean(axis=1)
    low, high = np.percentile(means, [2.5, 97.5])
    assert (found.value, found.low, found.high) == pytest.approx((values.mean(), low, high))


def test_a_chunked_resample_is_the_same_resample(monkeypatch):
    sums = np.random.default_rng(1).random((30, 2))
    whole = resampled_sums(sums, seed=2)
    monkeypatch.setattr("alps.stats.bootstrap._CHUNK", 90)
    assert resampled_sums(sums, seed=2) == pytest.approx(whole)


def test_an_interval_is_not_given_where_too_many_draws_are_undefined():
    drawn = np.arange(100.0)
    drawn[:4] = np.nan
    assert percentile_interval(drawn) is not None
    drawn[:6] = np.nan
    assert percentile_interval(drawn) is None
    assert percentile_interval(np.full(3, np.nan)) is None


def test_a_confidence_from_which_the_judge_may_be_believed_is_found():
    confidences = np.linspace(0, 1, 1001)
    wrong = (confidences < 0.6).astype(float)
    found = selective_threshold(confidences, wrong, risk=0.05, failure=0.1)
    assert 0.55 < found.confidence < 0.6
    assert found.bound <= 0.05
    bound = upper_bound(found.disagreements, found.kept, confidence=0.9)
    assert found.bound == pytest.approx(bound)
    assert found.kept == (confidences >= found.confidence).sum()
    following = confidences >= found.confidence - 0.001
    assert upper_bound(int(wrong[following].sum()), int(following.sum()), confidence=0.9) > 0.05
    assert found.n == 1001


def test_59_clean_items_certify_5_percent_and_58_do_not():
    assert selective_threshold(np.ones(59), np.zeros(59), risk=0.05, failure=0.05).kept == 59
    assert selective_threshold(np.ones(58), np.zeros(58), risk=0.05, failure=0.05) is None


def test_a_judge_wrong_where_it_is_surest_or_with_few_items_is_never_believed():
    confidences = np.linspace(0, 1, 500)
    surest = (confidences > 0.9).astype(float)
    assert selective_threshold(confidences, surest, risk=0.1, failure=0.1) is None
    for items in (29, 0):
        few = np.ones(items), np.zeros(items)
        assert selective_threshold(*few, risk=0.5, failure=0.1) is None
    with pytest.raises(ValueError, match="lengths differ"):
        selective_threshold(np.ones(2), np.ones(3), risk=0.5)
    for odd in ({"risk": 1.0}, {"risk": 0.5, "failure": 1.0}):
        with pytest.raises(ValueError, match="risk and failure must be in"):
            selective_threshold(np.ones(2), np.ones(2), **odd)


@pytest.mark.release
def test_the_guarantee_of_a_threshold_is_kept():
    generator = np.random.default_rng(8)
    broken = 0
    for _ in range(200):
        confidences = generator.random(300)
        wrong = (generator.random(300) > confidences).astype(float)
        found = selective_threshold(confidences, wrong, risk=0.2, failure=0.1)
        # Of those at least as sure as t, a share of (1 - t) / 2 is wrong.
        broken += found is not None and (1 - found.confidence) / 2 > 0.2
    assert broken / 200 <= 0.15
