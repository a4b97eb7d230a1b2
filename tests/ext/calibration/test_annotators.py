import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import false_discovery_control, ttest_1samp

from alps.ext.calibration.annotators import (
    alignment,
    alternative_annotator,
    leave_one_out,
    self_agreement,
)
from alps.stats.bootstrap import Estimate

NAN = float("nan")
NOTHING = Estimate(None, None, None, 0)
labels = st.one_of(st.just(NAN), st.sampled_from([1.0, 2.0, 3.0]))
tables = st.lists(st.lists(labels, min_size=4, max_size=4), min_size=1, max_size=12).map(np.array)


def numbers(*rows) -> np.ndarray:
    return np.array(rows, dtype=np.float64)


def crowd(items: int, *, noise: float, judge_noise: float, seed: int, people: int = 3):
    """Draw annotators who err with one probability and a judge who errs with another."""
    generator = np.random.default_rng(seed)
    truth = generator.integers(1, 4, items)

    def erring(share: float) -> np.ndarray:
        wrong = generator.random(items) < share
        return np.where(wrong, generator.integers(1, 4, items), truth).astype(float)

    return np.stack([erring(noise) for _ in range(people)], axis=1), erring(judge_noise)


def as_published(people, judge, epsilon, score):
    """Run the test item by item, without missing labels."""

    def close(label, others) -> float:
        if score == "accuracy":
            return float(np.mean(others == label))
        return -float(np.sqrt(np.mean((others - label) ** 2)))

    ps, wins = [], []
    for one in range(people.shape[1]):
        lead, own = [], []
        for row, verdict in zip(people, judge, strict=True):
            others = np.delete(row, one)
            judged, human = close(verdict, others), close(row[one], others)
            own.append(float(judged >= human))
            lead.append(float(human >= judged) - float(judged >= human))
        ps.append(ttest_1samp(lead, epsilon, alternative="less").pvalue)
        wins.append(np.mean(own))
    adjusted = false_discovery_control(ps, method="by")
    return adjusted, ps, np.mean(adjusted <= 0.05), np.mean(wins)


@pytest.mark.parametrize("score", ["accuracy", "rmse"])
@pytest.mark.parametrize("seed", range(4))
def test_the_test_is_the_published_one(score, seed):
    people, judge = crowd(60, noise=0.4, judge_noise=0.2, seed=seed)
    adjusted, ps, omega, rho = as_published(people, judge, 0.15, score)
    found = alternative_annotator(people, judge, epsilon=0.15, score=score)
    assert [against.p for against in found.annotators] == pytest.approx(ps)
    assert [against.adjusted for against in found.annotators] == pytest.approx(adjusted)
    assert found.omega == pytest.approx(omega)
    assert found.rho.value == pytest.approx(rho)
    assert found.rho.low <= found.rho.value <= found.rho.high
    wins = [against.judge_wins for against in found.annotators]
    assert found.rho.value == pytest.approx(np.mean(wins))
    assert (found.epsilon, found.score, found.rho.n) == (0.15, score, 60)


def test_a_judge_better_than_people_passes_and_a_guessing_one_fails():
    people, judge = crowd(200, noise=0.4, judge_noise=0.05, seed=1)
    good = alternative_annotator(people, judge, epsilon=0.1)
    assert (good.status, good.omega) == ("passed", 1.0)
    people, judge = crowd(200, noise=0.1, judge_noise=1.0, seed=1)
    bad = alternative_annotator(people, judge, epsilon=0.1)
    assert (bad.status, bad.omega) == ("failed", 0.0)
    assert all(against.judge_wins < against.annotator_wins for against in bad.annotators)


def test_a_sample_that_could_not_have_told_is_underpowered_and_a_larger_one_tells():
    people, judge = crowd(40, noise=0.4, judge_noise=0.4, seed=2)
    few = alternative_annotator(people, judge, epsilon=0.05)
    assert (few.status, few.omega) == ("underpowered", 0.0)
    assert all(against.power < 0.5 for against in few.annotators)
    people, judge = crowd(4_000, noise=0.4, judge_noise=0.4, seed=2)
    many = alternative_annotator(people, judge, epsilon=0.1)
    assert many.status == "passed"
    assert all(against.power > 0.9 for against in many.annotators)


@pytest.mark.release
def test_power_is_how_often_an_equal_judge_wins():
    won, powers = 0, []
    for seed in range(300):
        people, judge = crowd(150, noise=0.4, judge_noise=0.4, seed=seed, people=3)
        found = alternative_annotator(people, judge, epsilon=0.15)
        against = found.annotators[0]
        won += against.p <= 0.05 / (1 + 1 / 2 + 1 / 3)
        powers.append(against.power)
    assert won / 300 == pytest.approx(np.mean(powers), abs=0.09)


def test_two_annotators_are_too_few_and_one_has_nobody_to_be_compared_with():
    people, judge = crowd(100, noise=0.4, judge_noise=0.0, seed=3, people=2)
    pair = alternative_annotator(people, judge, epsilon=0.2)
    assert (pair.status, pair.omega) == ("underpowered", 1.0)
    alone = alternative_annotator(people[:, :1], judge, epsilon=0.2)
    assert (alone.status, alone.omega, alone.rho) == ("underpowered", None, NOTHING)
    assert alone.annotators[0].n == 0


def test_an_annotator_with_few_items_is_not_tested():
    people, judge = crowd(80, noise=0.3, judge_noise=0.1, seed=4, people=4)
    people[29:, 3] = NAN
    found = alternative_annotator(people, judge, epsilon=0.2)
    assert [against.n for against in found.annotators] == [80, 80, 80, 29]
    last = found.annotators[3]
    assert last.p is last.adjusted is last.power is None
    assert len([against for against in found.annotators if against.p is not None]) == 3
    people[29, 3] = 1.0
    enough = alternative_annotator(people, judge, epsilon=0.2)
    assert enough.annotators[3].p is not None


def test_items_without_a_verdict_or_with_one_label_are_left_out():
    people, judge = crowd(60, noise=0.3, judge_noise=0.1, seed=5)
    holed = np.vstack([people, [[1, NAN, NAN], [2, 2, 2], [NAN, NAN, NAN]]])
    found = alternative_annotator(holed, np.concatenate([judge, [1, NAN, 1]]), epsilon=0.1)
    whole = alternative_annotator(people, judge, epsilon=0.1)
    assert found.annotators == whole.annotators
    assert found.rho.value == whole.rho.value


def test_copies_of_an_item_in_a_cluster_add_nothing():
    people, judge = crowd(50, noise=0.4, judge_noise=0.25, seed=6)
    copied, verdicts = np.repeat(people, 4, axis=0), np.repeat(judge, 4)
    clusters = np.repeat(np.arange(50), 4).tolist()
    alone = alternative_annotator(people, judge, epsilon=0.15)
    together = alternative_annotator(copied, verdicts, clusters, epsilon=0.15)
    naive = alternative_annotator(copied, verdicts, epsilon=0.15)
    assert [a.p for a in together.annotators] == pytest.approx([a.p for a in alone.annotators])
    assert (together.rho.low, together.rho.high) == pytest.approx((alone.rho.low, alone.rho.high))
    assert naive.rho.high - naive.rho.low < 0.7 * (alone.rho.high - alone.rho.low)
    single = alternative_annotator(people, judge, ["one"] * 50, epsilon=0.15)
    assert [a.p for a in single.annotators] == [1.0, 1.0, 1.0]
    assert single.status == "underpowered"


def test_a_lead_that_never_varies_needs_no_spread():
    people = np.tile(numbers([1, 1, 1]), (40, 1))
    same = alternative_annotator(people, np.ones(40), epsilon=0.1)
    assert ([a.p for a in same.annotators], same.omega, same.status) == ([0.0] * 3, 1.0, "passed")
    other = alternative_annotator(people, np.full(40, 2.0), epsilon=0.1)
    assert [a.p for a in other.annotators] == [1.0] * 3
    assert other.omega == 0.0
    assert other.status == "failed"


@given(tables, st.data())
@settings(deadline=None)
def test_no_labels_crash_the_test(people, data):
    judge = np.array(data.draw(st.lists(labels, min_size=len(people), max_size=len(people))))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("alps.ext.calibration.annotators.ITEMS", 1)
        found = alternative_annotator(people, judge, epsilon=0.1)
    for against in found.annotators:
        if against.p is not None:
            assert 0 <= against.p <= against.adjusted <= 1
            assert 0 <= against.power <= 1
    assert found.omega is None or 0 <= found.omega <= 1
    assert found.rho.value is None or 0 <= found.rho.value <= 1
    aligned = alignment(people, judge)
    if aligned.full.value is not None:
        shares = aligned.full, aligned.partial, aligned.none
        assert sum(share.value for share in shares) == pytest.approx(1)


def test_published_agreement_of_draws_is_reproduced_and_one_verdict_has_no_variance():
    draws = numbers([1, 1, 1, 1], [2, 2, 2, 1])
    assert self_agreement(draws).value == 0.75
    assert leave_one_out(draws, np.ones(2))["everyone"].value == 0.875
    alone = self_agreement(numbers([1, 1], [2, NAN]))
    assert (alone.value, alone.n) == (1, 1)  # of one draw nothing can be told
    _, judge = crowd(50, noise=0.3, judge_noise=0.3, seed=9, people=5)
    same = np.repeat(judge[:, None], 4, axis=1)
    assert leave_one_out(same, judge)["everyone"].value == self_agreement(same).value == 1


def test_people_and_judge_are_measured_against_the_same_people():
    people = numbers([1, 1, 2], [2, 2, 2], [1, 2, 3])
    found = leave_one_out(people, np.array([1.0, 2.0, 2.0]))
    # Item 1: leaving out either 1 leaves a tie of 1 and 2; leaving out 2 leaves 1. Item 3: always a
    # tie without it.
    assert found["everyone"].value == pytest.approx((0.5 + 0.5 + 0 + 3 + 0) / 9)
    assert found["judge"].value == pytest.approx((0.5 + 0.5 + 1 + 3 + 0.5 + 0 + 0.5) / 9)
    assert (found["everyone"].n, found["judge"].n) == (9, 9)


def test_missing_labels_and_verdicts_are_not_compared():
    people = numbers([1, NAN, 1], [2, NAN, NAN], [NAN, NAN, NAN])
    found = leave_one_out(people, np.array([1.0, 2.0, NAN]))
    assert (found["everyone"].value, found["everyone"].n) == (1.0, 2)
    assert (found["judge"].value, found["judge"].n) == (1.0, 2)
    silent = leave_one_out(people, np.full(3, NAN))
    assert silent["judge"] == NOTHING


@given(tables)
@settings(deadline=None)
def test_shares_are_shares_and_do_not_depend_on_the_order_of_people(people):
    judge = people[:, 0]
    found, mirrored = leave_one_out(people, judge), leave_one_out(people[:, ::-1], judge)
    for name, estimate in found.items():
        assert mirrored[name].value == pytest.approx(estimate.value)
    for estimate in (*found.values(), self_agreement(people)):
        assert (estimate.value is None) == (estimate.n == 0)
        assert estimate.value is None or 0 <= estimate.value <= 1 + 1e-12


def test_alignment_is_full_partial_or_none():
    people = numbers([1, 1], [1, 2], [2, 2], [1, NAN], [1, 1], [3, 1])
    found = alignment(people, np.array([1.0, 2.0, 1.0, 1.0, NAN, 2.0]))
    assert [found.full.value, found.partial.value, found.none.value] == [0.25, 0.25, 0.5]
    assert {share.n for share in (found.full, found.partial, found.none)} == {4}
    assert alignment(people[3:5], np.array([1.0, NAN])).full == NOTHING


def test_sessions_that_resemble_each_other_widen_intervals():
    people, judge = crowd(40, noise=0.4, judge_noise=0.3, seed=10)
    copied, verdicts = np.repeat(people, 5, axis=0), np.repeat(judge, 5)
    sessions = np.repeat(np.arange(40), 5).tolist()
    for apart, together in (
        (self_agreement(copied), self_agreement(copied, sessions)),
        *zip(
            leave_one_out(copied, verdicts).values(),
            leave_one_out(copied, verdicts, sessions).values(),
            strict=True,
        ),
        (alignment(copied, verdicts).full, alignment(copied, verdicts, sessions).full),
    ):
        assert apart.value == pytest.approx(together.value)
        assert together.high - together.low > 1.5 * (apart.high - apart.low)


LABELS = np.ones((3, 2))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: alternative_annotator(np.ones(3), np.ones(3), epsilon=0.1), "shape"),
        (lambda: alternative_annotator(LABELS, np.ones(2), epsilon=0.1), "lengths differ"),
        (lambda: alternative_annotator(LABELS, np.ones(3), ["a"], epsilon=0.1), "lengths differ"),
        (
            lambda: alternative_annotator(LABELS, np.ones(3), epsilon=0.1, score="acc"),
            "accuracy, rmse",
        ),
        (lambda: leave_one_out(LABELS, np.ones(1)), "lengths differ"),
        (lambda: alignment(LABELS, np.ones(4)), "lengths differ"),
        (lambda: self_agreement(np.ones(3)), "shape"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
