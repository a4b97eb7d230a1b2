"""Few audits and many cheap scores: the estimate, its interval, and how many audits are needed."""

import numpy as np
import pytest

from alps.ext.audits.corrections import labels_for, ppi

FEW, ALL = 60, 300


def answers(seed, count):
    """F1 of records as judged and as audited: many zeros, and a judge that misses matches."""
    draw = np.random.default_rng(seed)
    truth = np.where(draw.random(count) < 0.4, 0.0, draw.beta(1.5, 2.5, count))
    cheap = np.where(draw.random(count) < 0.5, truth, truth * draw.random(count) * 0.6)
    return truth, cheap


def audited(seed, few=FEW, count=ALL):
    truth, cheap = answers(seed, count)
    names = list(range(count))
    clusters = names[:few], names[few:]
    return truth, ppi(truth[:few], cheap[:few], cheap[few:], clusters, interval="bounded")


def test_the_value_is_the_published_estimate_computed_by_hand():
    """The power-tuned mean as `ppi_py.ppi_mean_pointestimate` computes it."""
    truth, cheap = answers(1, ALL)
    y, f, others = truth[:FEW], cheap[:FEW], cheap[FEW:]
    n, more = len(y), len(others)
    covariance = ((y - y.mean()) * (f - f.mean())).mean()
    weight = covariance / ((1 + n / more) * np.concatenate([f, others]).var(ddof=1))
    by_hand = weight * others.mean() + (y - weight * f).mean()
    variance = (y - weight * f).var() / n + (weight * others).var() / more
    found = audited(1)[1]
    assert found.value == pytest.approx(by_hand, abs=1e-12)
    assert found.error == pytest.approx(np.sqrt(variance * n / (n - 1)), rel=1e-9)


def test_the_interval_of_many_audits_is_that_of_a_plain_bootstrap():
    truth, cheap = answers(2, 2_000)
    few = 400
    clusters = list(range(few)), list(range(few, 2_000))
    found = ppi(truth[:few], cheap[:few], cheap[few:], clusters, interval="bounded")
    draw, values = np.random.default_rng(0), []
    for _ in range(1_000):
        a, b = draw.integers(0, few, few), draw.integers(few, 2_000, 1_600)
        values.append(ppi(truth[a], cheap[a], cheap[b]).value)
    low, high = np.percentile(values, [2.5, 97.5])
    assert (found.low, found.high) == pytest.approx((low, high), abs=0.006)


def test_twenty_audits_of_skewed_scores_are_covered_where_the_normal_interval_is_not():
    truth = float(answers(99, 200_000)[0].mean())
    clusters = list(range(20)), list(range(20, 84))
    held, held_by_normal = 0, 0
    for seed in range(250):
        y, f = answers(seed, 84)
        found = ppi(y[:20], f[:20], f[20:], clusters, interval="bounded")
        normal = ppi(y[:20], f[:20], f[20:])
        held += found.low <= truth <= found.high
        held_by_normal += normal.low <= truth <= normal.high
    assert 0.92 * 250 <= held <= 0.99 * 250
    assert held_by_normal < held


def test_records_of_one_session_widen_the_interval():
    truth, cheap = answers(3, 100)
    y, f = np.repeat(truth, 3), np.repeat(cheap, 3)
    names = np.repeat(np.arange(100), 3).tolist()
    copied = ppi(y[:90], f[:90], f[90:], (names[:90], names[90:]), interval="bounded")
    alone = ppi(truth[:30], cheap[:30], cheap[30:], (list(range(30)), list(range(30, 100))))
    assert copied.error == pytest.approx(alone.error, rel=1e-3)
    assert copied.value == pytest.approx(alone.value, abs=1e-3)


def test_the_number_of_audits_that_is_named_gives_the_interval_that_was_asked_for():
    truth, found = audited(5, few=40, count=2_000)
    _, cheap = answers(5, 2_000)
    needed = labels_for(0.03, truth[:40], cheap[:40], cheap[40:], found.error)
    more = audited(5, few=needed, count=2_000)[1]
    assert needed > 40
    assert (more.high - more.low) / 2 == pytest.approx(0.03, abs=0.006)


def test_no_number_of_audits_makes_up_for_too_few_records():
    truth, found = audited(5, few=20, count=60)
    _, cheap = answers(5, 60)
    assert labels_for(0.03, truth[:20], cheap[:20], cheap[20:], found.error) is None


def test_audits_that_are_enough_are_not_asked_for_again():
    truth, found = audited(6, few=250, count=300)
    _, cheap = answers(6, 300)
    assert labels_for(0.2, truth[:250], cheap[:250], cheap[250:], found.error) == 250
