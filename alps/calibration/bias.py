"""Tests of a judge for bias: on systems, languages, lengths and kinds of answers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from alps.calibration.baselines import pairwise, texts_of
from alps.calibration.matrix import LabelMatrix, rate
from alps.calibration.parts import Acceptance, GroupTest, LengthPreference, SystemRanking
from alps.stats.bootstrap import Estimate, Floats, clustered_statistics, ratio

LENGTHS = ("short", "medium", "long")
# Characters by which two outputs must differ for one to count as the longer one, as in AlpacaEval.
NOTABLE = 30

_SYSTEMS = 3
_EXPECTED = 5
_TABLES = 10_000

_Statistics = Mapping[str, Callable[[Floats], Floats]]


def heterogeneity(matrix: LabelMatrix, *, seed: int = 0) -> dict[str, GroupTest]:
    """Test whether the judge agrees with people equally often on every system, language and length.

    p is as if items were independent. Lengths are thirds of the responses by characters. What
    can't be tested, with one group alone or without a disagreement, is left out.
    """
    items = [matrix.items[n] for n in matrix.parsed]
    lengths = _lengths(matrix)
    bounds = _thirds([length for length in lengths if length is not None])
    groups: dict[str, Sequence[str | None]] = {
        "system": [item.system for item in items],
        "language": [item.language for item in items],
        "length": [_third(length, bounds) for length in lengths],
    }
    tests = {}
    for name, of_items in groups.items():
        test = _test(matrix, of_items, seed)
        if test is not None:
            tests[name] = replace(test, bounds=bounds) if name == "length" else test
    return tests


def system_ranking(matrix: LabelMatrix) -> SystemRanking | None:
    """Correlate the mean verdicts of systems with the means of what people say, by rank.

    None under three systems. A correlation that is not defined, where all means of one side are the
    same, is None.
    """
    systems: dict[str, list[int]] = {}
    for n in matrix.parsed:
        name = matrix.items[n].system
        if name is not None:
            systems.setdefault(name, []).append(n)
    # Of two systems a rank correlation is 1 or -1, whatever the judge says.
    if len(systems) < _SYSTEMS or not matrix.measured:
        return None
    means, judge, people = {}, [], []
    for name, items in sorted(systems.items()):
        judge.append(float(matrix.numbers(matrix.judge_at(items)).mean()))
        people.append(float(matrix.numbers(matrix.truth_at(items)).mean()))
        means[name] = {"judge": judge[-1], "people": people[-1], "n": len(items)}
    spearman = kendall = None
    if len(set(judge)) > 1 and len(set(people)) > 1:
        from scipy.stats import kendalltau, spearmanr

        spearman = float(spearmanr(people, judge).statistic)
        kendall = float(kendalltau(people, judge).statistic)
    return SystemRanking(len(means), spearman, kendall, means)


def length_preference(matrix: LabelMatrix, *, seed: int, draws: int) -> LengthPreference | None:
    """Estimate how much more the judge likes long answers than people do.

    On a pairwise set: the share of pairs in which it prefers the longer output, less people's
    share. Else: how far its verdicts on the longer half of the responses lie above people's, less
    the same of the other half, in units of the scale. The share or the difference of either side
    comes with it. None where there is nothing to compare.
    """
    if pairwise(matrix.scale):
        return _of_pairs(matrix, seed=seed, draws=draws)
    return _of_halves(matrix, seed=seed, draws=draws) if matrix.measured else None


def _of_halves(matrix: LabelMatrix, *, seed: int, draws: int) -> LengthPreference | None:
    lengths: dict[int, int] = {}
    for n, length in zip(matrix.parsed, _lengths(matrix), strict=True):
        if length is not None:
            lengths[n] = length
    items, known = list(lengths), np.array(list(lengths.values()))
    if not items:
        return None
    longer = (known > np.median(known)).astype(np.float64)
    if not longer.any():  # all are as long as the median
        return None
    ahead = matrix.numbers(matrix.judge_at(items)) - matrix.numbers(matrix.truth_at(items))
    features = np.stack([ahead * longer, longer, ahead * (1 - longer), 1 - longer], axis=1)
    figures: _Statistics = {
        "net": lambda sums: ratio(sums[..., 0], sums[..., 1]) - ratio(sums[..., 2], sums[..., 3]),
        "longer": lambda sums: ratio(sums[..., 0], sums[..., 1]),
        "shorter": lambda sums: ratio(sums[..., 2], sums[..., 3]),
    }
    counts = {"net": len(items), "longer": int(longer.sum()), "shorter": int((1 - longer).sum())}
    sides = _estimates(matrix, items, features, figures, counts, seed=seed, draws=draws)
    return LengthPreference("halves", sides.pop("net"), sides, float(np.median(known)))


def _of_pairs(matrix: LabelMatrix, *, seed: int, draws: int) -> LengthPreference | None:
    longer: dict[int, object] = {}
    for n in matrix.parsed:
        # Outputs of about the same length say nothing about a preference.
        outputs = texts_of(matrix.items[n].payload).outputs
        if outputs is not None and abs(len(outputs[0]) - len(outputs[1])) > NOTABLE:
            longer[n] = matrix.scale.values[int(len(outputs[1]) > len(outputs[0]))]
    if not longer:
        return None
    items = list(longer)
    judge = np.array([matrix.judge[n] == longer[n] for n in items], dtype=np.float64)
    people = np.array([matrix.truth[n] == longer[n] for n in items], dtype=np.float64)
    features = np.stack([judge, people, np.ones(len(items))], axis=1)
    figures: _Statistics = {
        "net": lambda sums: ratio(sums[..., 0] - sums[..., 1], sums[..., 2]),
        "judge": lambda sums: ratio(sums[..., 0], sums[..., 2]),
        "people": lambda sums: ratio(sums[..., 1], sums[..., 2]),
    }
    counts = dict.fromkeys(figures, len(items))
    sides = _estimates(matrix, items, features, figures, counts, seed=seed, draws=draws)
    return LengthPreference("pairs", sides.pop("net"), sides)


def _estimates(
    matrix: LabelMatrix,
    items: Sequence[int],
    features: Floats,
    figures: _Statistics,
    counts: Mapping[str, int],
    *,
    seed: int,
    draws: int,
) -> dict[str, Estimate]:
    estimates = clustered_statistics(
        features, matrix.clusters_of(items), list(figures.values()), seed=seed, draws=draws
    )
    # Each figure is over a part of the items, which the resampling does not know.
    named = zip(figures, estimates, strict=True)
    return {name: replace(estimate, n=counts[name]) for name, estimate in named}


def _lengths(matrix: LabelMatrix) -> list[int | None]:
    responses = [texts_of(matrix.items[n].payload).response for n in matrix.parsed]
    return [None if response is None else len(response) for response in responses]


def _thirds(lengths: Sequence[int]) -> list[int]:
    """Return the last lengths of the first and the second third."""
    ordered = sorted(lengths)
    if len(ordered) < len(LENGTHS):
        return []
    return [ordered[len(ordered) * part // 3 - 1] for part in (1, 2)]


def _third(length: int | None, bounds: Sequence[int]) -> str | None:
    return None if length is None else LENGTHS[sum(length > bound for bound in bounds)]


def _test(matrix: LabelMatrix, of_items: Sequence[str | None], seed: int) -> GroupTest | None:
    """Test whether the judge agrees with people equally often in every group of items."""
    groups: dict[str, list[int]] = {}
    for n, group in zip(matrix.parsed, of_items, strict=True):
        if group is not None:
            groups.setdefault(group, []).append(n)
    order = sorted(groups)
    if set(groups) <= set(LENGTHS):
        order = [name for name in LENGTHS if name in groups]
    sizes = {group: len(groups[group]) for group in order}
    right = {group: sum(matrix.agrees_at(groups[group])) for group in order}
    # Without a disagreement, or without an agreement, expected counts are 0 and p is undefined.
    if len(groups) < 2 or not 0 < sum(right.values()) < sum(sizes.values()):
        return None
    agreement = {group: right[group] / sizes[group] for group in order}
    rates = {group: _rates(matrix, groups[group]) for group in order} if matrix.binary else None
    return GroupTest(_p(list(right.values()), list(sizes.values()), seed), agreement, rates)


def _p(right: Sequence[int], sizes: Sequence[int], seed: int) -> float:
    """Return p of Pearson's test that shares are the same."""
    total, agreed = sum(sizes), sum(right)
    expected = np.outer(sizes, [agreed / total, 1 - agreed / total])

    def statistic(counts: Floats) -> Floats:
        apart = np.square(counts - expected[:, 0])
        return np.asarray((apart / expected[:, 0] + apart / expected[:, 1]).sum(axis=-1))

    observed = float(statistic(np.array(right, dtype=np.float64)))
    if expected.min() >= _EXPECTED:
        from scipy.stats import chi2

        return float(chi2.sf(observed, len(sizes) - 1))
    # Where expected counts are small the statistic is far from chi-squared: random tables instead.
    generator = np.random.Generator(np.random.PCG64(seed))
    tables = generator.multivariate_hypergeometric(sizes, agreed, size=_TABLES)
    drawn = statistic(tables.astype(np.float64))
    # The observed table is one of the tables: p is never 0. Rounding must not split ties.
    return float((1 + (drawn >= observed - 1e-9).sum()) / (1 + _TABLES))


def _rates(matrix: LabelMatrix, items: Sequence[int]) -> dict[str, Estimate]:
    rates = {}
    for name, place in (("sensitivity", -1), ("specificity", 0)):
        value = matrix.scale.values[place]
        of_class = [n for n in items if matrix.truth[n] == value]
        rates[name] = rate(matrix.agrees_at(of_class), matrix.clusters_of(of_class))
    return rates


def acceptance(matrix: LabelMatrix) -> dict[str, Acceptance] | None:
    """Return what the judge accepts of items made right or wrong on purpose, kind by kind.

    None where no item is of a kind, or nothing counts as accepted.
    """
    kinds: dict[str, list[int]] = {}
    for n in matrix.settled:
        kind = matrix.items[n].kind
        if kind is not None:
            kinds.setdefault(kind, []).append(n)
    if not kinds or not matrix.accepted:
        return None
    rows = {}
    for kind, items in sorted(kinds.items()):
        parsed = [n for n in items if matrix.judge[n] is not None]
        by_judge = matrix.accepts(matrix.judge_at(parsed))
        share = rate(by_judge, matrix.clusters_of(parsed))
        right = sum(matrix.accepts(matrix.truth_at(parsed)))
        unparsed = len(items) - len(parsed)
        rows[kind] = Acceptance(len(parsed), right, sum(by_judge), share.low, share.high, unparsed)
    return rows


def known_wrong(matrix: LabelMatrix) -> Estimate | None:
    """Return the share of the items made wrong on purpose that the judge accepts."""
    made = [n for n in matrix.parsed if matrix.items[n].kind is not None]
    wrong = [n for n in made if matrix.truth[n] not in matrix.accepted]
    if not wrong or not matrix.accepted:
        return None
    return rate(matrix.accepts(matrix.judge_at(wrong)), matrix.clusters_of(wrong))
