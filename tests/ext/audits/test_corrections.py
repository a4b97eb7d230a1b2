"""Means corrected by few labels: error rates carried over, and prediction-powered inference."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import t

from alps.ext.audits.corrections import (
    Cells,
    clustered_rogan_gladen,
    labels_for,
    ppi,
    rogan_gladen,
    youden,
)
from alps.ext.audits.intervals import confusion, grouped_interval, interval_by_variance, wilson
from alps.stats.bootstrap import Estimate
from tests.few import few

PEOPLE = np.array([1, 1, 0, 0, 1, 0, 1, 1, 0, 1.0])
JUDGE = np.array([1, 1, 0, 1, 1, 0, 1, 0, 0, 1.0])
OTHERS = np.array([1, 1, 0, 1, 0, 1, 0, 1, 1, 1, 0, 1, 1, 0, 1, 1, 0, 1, 1, 1.0])
# Rate of the judge, specificity, sensitivity, and the items behind each; then the clipped estimate,
# its interval, and whether either is off the scale unclipped.
LEE = [
    (
        (0.4, 0.7, 0.9),
        (1000, 200, 200),
        0.1666666666666668,
        (0.05635072484160894, 0.2627330257859588),
        False,
    ),
    ((0.8, 0.95, 0.9), (500, 50, 50), 0.8823529411764705, (0.801589631397719, 1.0), True),
    ((0.05, 0.9, 0.9), (200, 30, 30), 0.0, (0.0, 0.052710541836699196), True),
]
GOOD = Cells(tp=90, fn=10, fp=15, tn=85)
bits = st.lists(st.integers(0, 1), min_size=2, max_size=30).map(
    lambda values: np.array(values, dtype=np.float64)
)
cells = st.integers(0, 60)


def figures(found):
    return found.value, found.low, found.high


def width(found):
    return found.high - found.low


def measured(shares, sizes):
    (rate, specificity, sensitivity), (n, negatives, positives) = shares, sizes
    hit, spared = sensitivity * positives, specificity * negatives
    return rate * n, n, Cells(tp=hit, fn=positives - hit, fp=negatives - spared, tn=spared)


@pytest.mark.parametrize(("shares", "sizes", "value", "bounds", "outside"), LEE)
def test_published_corrections_are_reproduced_up_to_their_clipping(
    shares, sizes, value, bounds, outside
):
    found = rogan_gladen(*measured(shares, sizes))
    rate, specificity, sensitivity = shares
    # What is impossible is shown as such.
    assert found.value == pytest.approx((rate + specificity - 1) / (sensitivity + specificity - 1))
    assert found.outside == outside == (found.low < 0 or found.high > 1)
    assert np.clip(found.value, 0, 1) == pytest.approx(value, abs=1e-12)
    assert np.clip([found.low, found.high], 0, 1) == pytest.approx(bounds, abs=1e-12)
    assert found.raw.value == pytest.approx(rate)


GUESSING = "so the judge hardly does better than guessing"


@pytest.mark.parametrize(
    ("positives", "n", "counts", "reason"),
    [
        (0, 0, GOOD, "the judge scored no items"),
        (5, 10, Cells(0, 0, 3, 7), "no labelled item is positive"),
        (5, 10, Cells(7, 3, 0, 0), "no labelled item is negative"),
        (5, 10, Cells(0, 0, 0, 0), "no labelled item"),
        (5, 10, Cells(500, 500, 450, 550), rf"is 0\.05, {GUESSING} \(limit: 0\.1\)"),
        (5, 10, Cells(10, 90, 90, 10), "the judge contradicts people"),
        (5, 10, Cells(3, 1, 2, 2), r"may be 0 \(-0\.\d+ to 0\.\d+\): label more items"),
    ],
)
def test_what_cannot_be_corrected_says_why(positives, n, counts, reason):
    found = rogan_gladen(positives, n, counts)
    assert found.value is found.low is found.high is None
    assert re.search(reason, found.reason)
    assert not found.outside


def test_a_judge_that_is_just_at_the_minimum_is_not_corrected_by(monkeypatch):
    exact = Cells(tp=75, fn=25, fp=25, tn=75)
    monkeypatch.setattr("alps.ext.audits.corrections.YOUDEN", 0.5)
    found = rogan_gladen(5, 10, exact)
    assert found.value is None
    assert f"is 0.50, {GUESSING} (limit: 0.5)" in found.reason
    monkeypatch.setattr("alps.ext.audits.corrections.YOUDEN", 0.49)
    assert rogan_gladen(5, 10, exact).value is not None


def test_a_perfect_judge_is_not_corrected_but_its_calibration_is_counted():
    few, many = (rogan_gladen(60, 100, Cells(n, 0, 0, n)) for n in (20, 2_000))
    assert few.value == many.value == pytest.approx(0.6)
    assert width(few) > width(many)
    assert width(many) == pytest.approx(width(wilson(60, 100)), rel=0.02)


def test_both_sources_of_noise_widen_the_interval_and_a_design_effect_is_a_smaller_sample():
    base = rogan_gladen(50, 100, GOOD)
    more_items = rogan_gladen(5_000, 10_000, GOOD)
    more_labels = rogan_gladen(50, 100, Cells(9_000, 1_000, 1_500, 8_500))
    for narrower in (more_items, more_labels):
        assert narrower.value == pytest.approx(base.value)
        assert width(narrower) < 0.95 * width(base)
    effect = rogan_gladen(100, 200, Cells(180, 20, 30, 170), design_effect=2)
    assert figures(effect) == pytest.approx(figures(base))
    assert effect.raw.low == pytest.approx(base.raw.low)
    assert (effect.raw.n, effect.labelled) == (200, 400)
    with pytest.raises(ValueError, match="at least 1"):
        rogan_gladen(1, 2, GOOD, design_effect=0.5)


@given(st.integers(0, 50), cells, cells, cells, cells)
@settings(deadline=None)
def test_no_counts_crash_a_correction(positives, tp, fn, fp, tn):
    found = rogan_gladen(positives, 50, Cells(tp, fn, fp, tn))
    assert (found.value is None) == (found.reason is not None) == (found.low is None)
    if found.value is not None:
        assert np.isfinite(figures(found)).all()
        # Swapping what yes and no mean mirrors the estimate.
        mirrored = rogan_gladen(50 - positives, 50, Cells(tn, fp, fn, tp))
        expected = 1 - found.value, 1 - found.high, 1 - found.low
        assert figures(mirrored) == pytest.approx(expected)


def test_youdens_index_is_bounded_by_its_parts():
    found = youden(GOOD)
    assert found.value == pytest.approx(0.75)
    assert found.low < 0.75 < found.high
    assert youden(Cells(1, 1, 0, 0)) == Estimate(None, None, None, 2)


def counted(truth, said):
    table = confusion(truth.tolist(), said.tolist())
    return Cells(table.tp, table.fn, table.fp, table.tn)


def simulated(generator, theta, sensitivity, specificity, n):
    truth = generator.random(n) < theta
    return truth, np.where(
        truth, generator.random(n) < sensitivity, generator.random(n) >= specificity
    )


@pytest.mark.parametrize(
    ("theta", "sensitivity", "specificity", "labelled", "n"),
    few([(0.7, 0.9, 0.85, 100, 200), (0.9, 0.9, 0.70, 100, 500), (0.7, 0.97, 0.95, 500, 200)]),
)
def test_corrected_intervals_cover_the_truth_where_the_raw_rate_does_not(
    theta, sensitivity, specificity, labelled, n
):
    generator = np.random.default_rng(1)
    carried, powered, corrected, raw = 0, 0, 0, 0
    for _ in range(400):
        truth, said = simulated(generator, theta, sensitivity, specificity, labelled)
        _, others = simulated(generator, theta, sensitivity, specificity, n)
        found = rogan_gladen(int(others.sum()), n, counted(truth, said))
        if found.value is not None:
            corrected += 1
            carried += found.low <= theta <= found.high
        raw += found.raw.low <= theta <= found.raw.high
        found = ppi(truth * 1.0, said * 1.0, others * 1.0, interval="score")
        powered += found.low <= theta <= found.high
    assert corrected > 380
    assert carried / corrected >= 0.92
    assert powered / 400 >= 0.92
    assert raw / 400 < 0.96 if sensitivity > 0.95 else raw / 400 < 0.9


@pytest.mark.parametrize(("copies", "near"), [(1, 1e-9), (4, 0.005)])
def test_copies_of_items_in_clusters_add_little_and_clusters_of_one_nothing(copies, near):
    generator = np.random.default_rng(3)
    truth, said = simulated(generator, 0.6, 0.9, 0.8, 120)
    _, others = simulated(generator, 0.6, 0.9, 0.8, 200)
    alone = rogan_gladen(int(others.sum()), 200, counted(truth, said))
    parts = (others, np.arange(200), truth, said, np.arange(200, 320))
    many, names, *labelled, label_names = (np.repeat(part, copies) for part in parts)
    found = clustered_rogan_gladen(many, names.tolist(), *labelled, label_names.tolist())
    assert figures(found) == pytest.approx(figures(alone), abs=near)


def test_a_cluster_effect_that_cannot_be_seen_is_taken_at_its_worst():
    labels = [True] * 20 + [False] * 20
    clusters = [n // 4 for n in range(40)]
    found = clustered_rogan_gladen([True] * 40, clusters, labels, labels, clusters)
    assert found.value == pytest.approx(1)
    assert found.raw.low == wilson(5, 5).low
    useless = clustered_rogan_gladen([True, False], ["a", "b"], labels, [True] * 40, clusters)
    assert useless.value is None
    assert clustered_rogan_gladen([], [], [], [], []).reason == "the judge scored no items"
    with pytest.raises(ValueError, match="lengths differ"):
        clustered_rogan_gladen([True], ["a"], [True], [True, False], ["a"])


@pytest.mark.parametrize(
    ("weight", "used", "value", "low", "high"),
    [
        (None, 0.406, 0.6406000000000001, 0.37532452584944465, 0.9058754741505555),
        (1, 1, 0.7, 0.3577070055768438, 1.042292994423156),
        (0, 0, 0.6, 0.29636368514840156, 0.9036363148515985),
    ],
)
def test_published_prediction_powered_means_are_reproduced(weight, used, value, low, high):
    found = ppi(PEOPLE, JUDGE, OTHERS, weight=weight)
    assert (found.weight, *figures(found)) == pytest.approx((used, value, low, high), abs=1e-12)
    assert found.outside == (high > 1)


@pytest.mark.parametrize("together", [1, 2])
def test_labels_in_clusters_of_one_size_have_the_interval_of_students_t(together):
    names, means = np.arange(10) // together, PEOPLE.reshape(-1, together).mean(axis=1)
    found = ppi(PEOPLE, JUDGE, np.array([]), (names.tolist(), []))
    error = means.std(ddof=1) / np.sqrt(len(means))
    student = t.interval(0.95, len(means) - 1, means.mean(), error)
    assert (found.error, found.low, found.high) == pytest.approx((error, *student))


def test_the_best_weight_makes_the_shortest_interval_on_average():
    generator = np.random.default_rng(4)
    widths = dict.fromkeys((None, 0, 1), 0.0)
    for _ in range(50):
        truth, said = simulated(generator, 0.6, 0.8, 0.8, 150)
        _, others = simulated(generator, 0.6, 0.8, 0.8, 1_500)
        for weight in widths:
            found = ppi(truth * 1.0, said * 1.0, others * 1.0, weight=weight)
            widths[weight] += width(found)
    assert widths[None] < 0.85 * widths[0]
    assert widths[None] < widths[1]


def test_a_judge_that_never_varies_or_was_not_asked_further_leaves_the_labels_alone():
    for judge, others in ((np.ones(10), np.ones(20)), (JUDGE, np.array([]))):
        found = ppi(PEOPLE, judge, others)
        assert (found.weight, found.value) == (0, pytest.approx(PEOPLE.mean()))
        plain = ppi(PEOPLE, JUDGE, OTHERS, weight=0)
        assert (found.low, found.high) == pytest.approx((plain.low, plain.high))


def test_a_judge_that_is_always_wrong_is_of_use_and_scores_may_be_of_any_scale():
    one, other = ppi(PEOPLE, JUDGE, OTHERS), ppi(PEOPLE, 1 - JUDGE, 1 - OTHERS)
    assert (other.weight, *figures(other)) == pytest.approx((-one.weight, *figures(one)))
    # Of 1 to 5: shifted and stretched.
    marks = ppi(1 + 4 * PEOPLE, 1 + 4 * JUDGE, 1 + 4 * OTHERS, bounds=(1, 5))
    assert figures(marks) == pytest.approx([1 + 4 * figure for figure in figures(one)])
    assert not marks.outside


@pytest.mark.parametrize("count", [0, 1])
def test_fewer_than_two_labels_are_not_enough(count):
    found = ppi(PEOPLE[:count], JUDGE[:count], OTHERS)
    assert (found.value, found.labelled) == (None, count)
    assert "at least 2 are needed" in found.reason
    assert found.raw.n == 20 + count
    clustered = ppi(PEOPLE, JUDGE, OTHERS, (["a"] * 10, list(range(20))))
    assert clustered.reason == "labels on 1 cluster: at least 2 are needed"
    assert ppi(np.array([]), np.array([]), np.array([])).raw == Estimate(None, None, None, 0)


def test_a_score_interval_stays_possible_and_has_a_width_where_all_agree():
    perfect = ppi(np.ones(12), np.ones(12), np.ones(50), interval="score")
    assert (perfect.value, perfect.high) == (1, 1)
    # Wilson's interval allows for no quantile of Student's t.
    assert 0.7 < perfect.low < wilson(12, 12).low
    found = ppi(PEOPLE, JUDGE, OTHERS, interval="score")
    assert 0 < found.low < found.value < found.high < 1
    with pytest.raises(ValueError, match="needs labels 0 or 1"):
        ppi(PEOPLE * 5, JUDGE, OTHERS, interval="score")


@given(bits, bits, st.data(), st.sampled_from(["normal", "score"]))
@settings(deadline=None)
def test_no_labels_crash_a_powered_mean(people, others, data, interval):
    verdicts = st.lists(st.integers(0, 1), min_size=len(people), max_size=len(people))
    judge = np.array(data.draw(verdicts), dtype=float)
    found = ppi(people, judge, others, interval=interval)
    assert np.isfinite(figures(found)).all()
    assert found.low - 1e-9 <= found.value <= found.high + 1e-9
    mirrored = ppi(1 - people, 1 - judge, 1 - others, interval=interval)
    expected = 1 - found.value, 1 - found.high
    assert (mirrored.value, mirrored.low) == pytest.approx(expected, abs=1e-9)


def test_copies_in_clusters_add_nothing_to_a_powered_mean():
    generator = np.random.default_rng(5)
    truth, said = simulated(generator, 0.6, 0.9, 0.8, 100)
    _, others = simulated(generator, 0.6, 0.9, 0.8, 300)
    parts = [part * 1.0 for part in (truth, said, others)]
    alone = ppi(*parts, (list(range(100)), list(range(100, 400))), interval="score")
    clusters = (np.repeat(np.arange(100), 3).tolist(), np.repeat(np.arange(100, 400), 3).tolist())
    copied = ppi(*(np.repeat(part, 3) for part in parts), clusters, interval="score")
    assert figures(copied) == pytest.approx(figures(alone), abs=0.002)
    assert width(copied.raw) == pytest.approx(width(alone.raw), rel=0.02)


def test_clustered_intervals_cover_where_plain_ones_do_not():
    generator = np.random.default_rng(6)
    covered, naive = 0, 0
    for _ in range(200):
        users = np.repeat(generator.beta(1.4, 0.6, 100), 5)
        truth = generator.random(500) < users
        said = np.where(truth, generator.random(500) < 0.9, generator.random(500) < 0.2)
        parts = truth[:200] * 1.0, said[:200] * 1.0, said[200:] * 1.0
        names = np.repeat(np.arange(100), 5).tolist()
        found = ppi(*parts, (names[:200], names[200:]), interval="score")
        plain = ppi(*parts, interval="score")
        covered += found.low <= 0.7 <= found.high
        naive += plain.low <= 0.7 <= plain.high
    assert covered / 200 >= 0.9
    assert naive / 200 < 0.85


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ppi(PEOPLE, JUDGE[1:], OTHERS), "lengths differ: 10 labels, 9 verdicts"),
        (lambda: ppi(PEOPLE, JUDGE, OTHERS, (["a"], ["b"])), "name one cluster for each"),
        (lambda: ppi(PEOPLE, JUDGE, np.array([np.nan])), "must be finite"),
        (lambda: rogan_gladen(3, 2, GOOD), "between 0 and trials"),
    ],
)
def test_what_does_not_fit_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_a_judge_who_guesses_makes_an_interval_of_sessions_hardly_shorter():
    """Its groups hold records of every session, which err together."""
    known = np.zeros(100)
    known[:5] = 1.0  # one session of 20
    others = np.arange(400) % 2.0
    clusters = np.arange(100) // 5, np.arange(500, 900) // 5
    low, high = grouped_interval(known, np.arange(100) % 2.0, others, clusters, bounds=(0.0, 1.0))
    alone = grouped_interval(known, np.zeros(100), others * 0, clusters, bounds=(0.0, 1.0))
    assert high - low > 0.9 * (alone[1] - alone[0])


def test_degrees_of_freedom_count_the_clusters_without_a_label_too():
    generator = np.random.default_rng(0)
    people, judge = generator.random(20), generator.random(20)
    judge = (judge + people) / 2
    # The interval of the labels alone has those of the labels: Student's at 19.
    alone = ppi(people, judge, judge[:0], interval="bounded")
    variance = alone.error**2 * 20 / 19
    expected = interval_by_variance(alone.value, variance, (0.0, 1.0), freedom=19, records=20)
    assert (alone.low, alone.high) == pytest.approx(expected)
    both = ppi(people, judge, generator.random(400), interval="bounded", weight=1.0)
    variance = both.error**2 * 20 / 19
    fewer = interval_by_variance(both.value, variance, (0.0, 1.0), freedom=19, records=20)
    assert width(both) < fewer[1] - fewer[0]


def test_few_errors_of_a_good_judge_are_allowed_for():
    """Of 20 audits a judge who is right nine times in ten often gets all, and erred elsewhere."""
    generator = np.random.default_rng(7)
    held, draws = 0, 400
    for _ in range(draws):
        truth = generator.random(300) < 0.5
        drawn = generator.random(300)
        judge = np.where(truth, drawn < 0.85, drawn >= 0.97).astype(float)
        found = ppi(truth[:20].astype(float), judge[:20], judge[20:], interval="bounded")
        held += found.low <= 0.5 <= found.high
    assert held / draws >= 0.93


def answers(seed, count):
    """F1 of records as judged and as audited: many zeros, and a judge that misses matches."""
    draw = np.random.default_rng(seed)
    truth = np.where(draw.random(count) < 0.4, 0.0, draw.beta(1.5, 2.5, count))
    cheap = np.where(draw.random(count) < 0.5, truth, truth * draw.random(count) * 0.6)
    return truth, cheap


def audited(truth, cheap, few):
    """Correct a mean by the first `few` records, each a session of its own."""
    names = list(range(len(truth)))
    clusters = names[:few], names[few:]
    return ppi(truth[:few], cheap[:few], cheap[few:], clusters, interval="bounded")


def needed(half, truth, cheap, few):
    """Return how many audits give an interval of which this is the half."""
    error = audited(truth, cheap, few).error
    return labels_for(half, truth[:few], cheap[:few], cheap[few:], error)


def test_the_interval_of_many_audits_is_that_of_a_plain_bootstrap():
    truth, cheap = answers(2, 2_000)
    few = 400
    found = audited(truth, cheap, few)
    draw, values = np.random.default_rng(0), []
    for _ in range(1_000):
        a, b = draw.integers(0, few, few), draw.integers(few, 2_000, 1_600)
        values.append(ppi(truth[a], cheap[a], cheap[b]).value)
    low, high = np.percentile(values, [2.5, 97.5])
    assert (found.low, found.high) == pytest.approx((low, high), abs=0.006)


def test_twenty_audits_of_skewed_scores_are_covered_where_the_normal_interval_is_not():
    truth = float(answers(99, 200_000)[0].mean())
    held, held_by_normal = 0, 0
    for seed in range(250):
        y, f = answers(seed, 84)
        found = audited(y, f, 20)
        normal = ppi(y[:20], f[:20], f[20:])
        held += found.low <= truth <= found.high
        held_by_normal += normal.low <= truth <= normal.high
    assert 0.92 * 250 <= held <= 0.99 * 250
    assert held_by_normal < held


def test_the_number_of_audits_that_is_named_gives_the_interval_that_was_asked_for():
    records = answers(5, 2_000)
    many = needed(0.03, *records, 40)
    found = audited(*records, many)
    assert many > 40
    assert width(found) / 2 == pytest.approx(0.03, abs=0.006)
    # None makes up for too few records, and those that are enough are not asked for again.
    assert needed(0.03, *answers(5, 60), 20) is None
    assert needed(0.2, *answers(6, 300), 250) == 250
