"""Controls of a judge: trivial baselines that it must beat, and tests of it for bias.

Agreement alone says little: a judge that always says the same, or always prefers the longest, can
agree with people, too.
"""

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from alps.ext.audits.intervals import clustered_statistics
from alps.ext.calibration.agreement import LabelScale, pair_features
from alps.ext.calibration.label_rows import Value
from alps.ext.calibration.labels import most_frequent
from alps.ext.calibration.matrix import LabelMatrix, at, rate, table_figures
from alps.similarity import THRESHOLD, similarity
from alps.stats.bootstrap import Estimate, Floats, Statistic, ratio
from alps.text import LENGTHS

# Characters by which two outputs must differ for one to count as the longer one, as in AlpacaEval.
NOTABLE = 30
# Of two systems a rank correlation is 1 or -1, whatever the judge says.
_SYSTEMS = 3
# Expected counts below which the statistic of Pearson's test is far from chi-squared (Cochran's
# rule), and the random tables that are counted instead.
_EXPECTED, _TABLES = 5, 10_000
_PAIRWISE = ["1", "2"]
_SAME, _UNRELATED = "same", "unrelated"

Estimates = Mapping[str, Estimate]
_Verdicts = list[Value | None]


@dataclass(frozen=True)
class Reference:
    """Figures of a trivial judge, or of people, on `n` items; a `reason` where it has none."""

    n: int
    figures: Estimates
    reason: str | None = None

    @property
    def row(self) -> dict[str, Any]:
        """The reference as files have it."""
        if self.reason is not None:
            return {"n": self.n, "reason": self.reason}
        return {"n": self.n, **estimate_rows(self.figures)}


@dataclass(frozen=True)
class GroupTest:
    """A test of whether the judge agrees with people equally often in every group.

    Attributes:
        p: Of the hypothesis that it does.
        agreement: By group.
        rates: Sensitivity and specificity by group, of a binary rubric.
        bounds: Of lengths: the last one, in characters, of the first and the second group.
    """

    p: float
    agreement: Mapping[str, float]
    rates: Mapping[str, Estimates] | None = None
    bounds: Sequence[int] | None = None


@dataclass(frozen=True)
class SystemRanking:
    """Rank correlations of the judge's means of `n` systems with people's; None if undefined."""

    n: int
    spearman: float | None
    kendall: float | None
    systems: Mapping[str, Mapping[str, float]]


@dataclass(frozen=True)
class LengthPreference:
    """How much more the judge likes long answers than people do.

    Attributes:
        by: `pairs` of outputs, or `halves` of the responses.
        net: The judge's preference less people's.
        sides: What it is the difference of.
        median: The length, in characters, at which the halves part.
    """

    by: str
    net: Estimate
    sides: Estimates
    median: float | None = None

    @property
    def row(self) -> dict[str, Any]:
        """The preference as files have it."""
        row = {"by": self.by, **self.net.row, **estimate_rows(self.sides)}
        return row if self.median is None else {**row, "median": self.median}


@dataclass(frozen=True)
class Acceptance:
    """Acceptance of items of one kind that are right or wrong on purpose.

    `right` of the `n` items with a verdict are right to accept, `accepted` the judge accepts, a
    share from `low` to `high`. Of `unparsed` further items the verdict could not be parsed.
    """

    n: int
    right: int
    accepted: int
    low: float | None
    high: float | None
    unparsed: int


def estimate_rows(estimates: Estimates) -> dict[str, Any]:
    """Return figures by name as files have them."""
    return {name: estimate.row for name, estimate in estimates.items()}


@dataclass(frozen=True)
class Texts:
    """The texts of a payload that can be read without knowing its rubric; None or empty if absent.

    Attributes:
        response: What is judged.
        references: What it may be compared with: any of them will do.
        outputs: The two that are to be told apart, on a pairwise set.
    """

    response: str | None
    references: tuple[str, ...]
    outputs: tuple[str, str] | None


def texts_of(payload: Mapping[str, Any]) -> Texts:
    """Return an answer and its reference, two outputs, or a gold and a predicted memory."""
    gold, predicted = payload.get("gold"), payload.get("predicted")
    if isinstance(gold, Mapping) and isinstance(predicted, Mapping):
        return Texts(_first(predicted.get("value")), _texts(gold.get("value")), None)
    response = _first(payload.get("response"), payload.get("candidate"))
    references = _texts(payload.get("memory")) or _texts(payload.get("gold_answers"))
    first, second = payload.get("output_1"), payload.get("output_2")
    outputs = (first, second) if isinstance(first, str) and isinstance(second, str) else None
    return Texts(response, references, outputs)


def pairwise(scale: LabelScale) -> bool:
    """Tell whether a scale names the first or the second of two outputs."""
    return [*map(str, scale.values)] == _PAIRWISE


def references(matrix: LabelMatrix, *, seed: int) -> dict[str, Reference]:
    """Return the references `always-met`, `longest`, `lexical` and `people`.

    `always-met` gives the best value to everything: the last one. `longest` and, on scales of more
    than two values, `lexical` hand out people's own values by rank, of length or of similarity, so
    that only the order is at stake. All are measured on the items that people and the judge say
    something of; `people` are each compared with the others, over all items, and `n` counts their
    labels.
    """
    makers: dict[str, Callable[[LabelMatrix], _Verdicts | str]] = {
        "always-met": _always_met,
        "longest": _longest,
        "lexical": _lexical,
    }
    rows: dict[str, Reference] = {}
    verdicts: dict[str, _Verdicts] = {}
    for name, maker in makers.items():
        made = maker(matrix)
        if isinstance(made, str):
            rows[name] = Reference(0, {}, made)
        elif matrix.parsed:
            rows[name], verdicts[name] = Reference(0, {}), made
    truth, clusters = at(matrix.truth, matrix.parsed), at(matrix.clusters, matrix.parsed)
    tables = [pair_features(truth, of_judge, matrix.scale) for of_judge in verdicts.values()]
    # All are measured on the same resampled clusters, so that they may be compared.
    figures = table_figures(tables, matrix.scale, _names(matrix), clusters, seed=seed)
    for name, estimates in zip(verdicts, figures, strict=True):
        rows[name] = _reference(estimates)
    return {**rows, "people": _people(matrix, seed=seed)}


def by_rank(
    values: Sequence[float | None], truth: Sequence[Value | None], scale: LabelScale
) -> _Verdicts:
    """Hand out the labels of `truth` by the rank of `values`: the greatest gets the last label.

    As many items get each label as people gave it. An item without a value gets None and its label
    is not handed out. Among equal values the earlier item ranks lower.
    """
    ranked = sorted((value, n) for n, value in enumerate(values) if value is not None)
    codes = np.sort(scale.codes([truth[n] for _, n in ranked]))
    verdicts: _Verdicts = [None] * len(values)
    for code, (_, n) in zip(codes, ranked, strict=True):
        verdicts[n] = scale.values[code]
    return verdicts


def _always_met(matrix: LabelMatrix) -> _Verdicts | str:
    # Relations of memories have no order; «same» is the one that counts as met.
    best: Any = _SAME if _relations(matrix.scale) else matrix.scale.values[-1]
    return [best] * len(matrix.parsed)


def _longest(matrix: LabelMatrix) -> _Verdicts | str:
    if pairwise(matrix.scale):
        outputs = [texts.outputs for texts in _texts_of_parsed(matrix)]
        if not any(outputs):
            return "no item has output_1 and output_2 in its payload"
        return [_longer(pair, matrix.scale) for pair in outputs]
    if not matrix.measured:
        return "the values of the scale have no order"
    # Length and similarity have no unit in common with the scale: only their order is used.
    lengths = _lengths(matrix)
    if lengths.count(None) == len(lengths):
        return "no item has a response in its payload"
    return by_rank(lengths, at(matrix.truth, matrix.parsed), matrix.scale)


def _longer(outputs: tuple[str, str] | None, scale: LabelScale) -> Any:
    """Return the value that names the longer output; None where both are equally long."""
    # Taking one of two equally long outputs would be a guess, right half of the time.
    if outputs is None or len(outputs[0]) == len(outputs[1]):
        return None
    return scale.values[0 if len(outputs[0]) > len(outputs[1]) else 1]


def _lexical(matrix: LabelMatrix) -> _Verdicts | str:
    relations = _relations(matrix.scale)
    if not matrix.measured and not relations:
        return "the values of the scale have no order"
    values = list(map(_closest, _texts_of_parsed(matrix)))
    if values.count(None) == len(values):
        return "no item has a response and a reference in its payload"
    if not matrix.binary and matrix.measured:
        return by_rank(values, at(matrix.truth, matrix.parsed), matrix.scale)
    # The threshold of the lexical judge, so that both accept the same answers.
    no_yes: Any = (_UNRELATED, _SAME) if relations else matrix.scale.values
    return [None if value is None else no_yes[value >= THRESHOLD] for value in values]


def _people(matrix: LabelMatrix, *, seed: int) -> Reference:
    """Compare each person with what the others say of an item; all their labels count together."""
    size = len(matrix.scale.values)
    rows, clusters = [], []
    for row, cluster in zip(matrix.people, matrix.clusters, strict=True):
        labels = [label for label in row if label is not None]
        if len(labels) < 2:
            continue
        for n, code in enumerate(matrix.scale.codes(labels)):
            # Where the others tie each label counts its share: left out, a third opinion that was
            # only asked for where two disagreed would make people look better than they are.
            others = most_frequent(labels[:n] + labels[n + 1 :], matrix.scale)
            table = np.zeros((size, size))
            table[matrix.scale.codes(others), code] = 1 / len(others)
            rows.append(table.ravel())
            clusters.append(cluster)
    if not rows:
        return Reference(0, {}, "no item was labelled by two people or more")
    (figures,) = table_figures([np.array(rows)], matrix.scale, _names(matrix), clusters, seed=seed)
    return _reference(figures)


def _texts_of_parsed(matrix: LabelMatrix) -> list[Texts]:
    return [texts_of(matrix.items[n].payload) for n in matrix.parsed]


def _names(matrix: LabelMatrix) -> list[str]:
    if matrix.binary:
        return ["sensitivity", "specificity", "kappa", "agreement"]
    return ["kappa", "agreement", "mae"] if matrix.measured else ["kappa", "agreement"]


def _reference(figures: Mapping[str, Estimate]) -> Reference:
    known = {name: figure for name, figure in figures.items() if figure.value is not None}
    return Reference(figures["agreement"].n, known)


def _closest(texts: Texts) -> float | None:
    """Return the similarity of the response to the nearest reference; None without either."""
    if texts.response is None or not texts.references:
        return None
    return max(similarity(texts.response, reference) for reference in texts.references)


def _relations(scale: LabelScale) -> bool:
    return scale.kind == "nominal" and {_SAME, _UNRELATED} <= set(scale.values)


def _first(*values: object) -> str | None:
    return next((text for value in values for text in _texts(value)), None)


def _texts(value: object) -> tuple[str, ...]:
    """Return the texts of a text, a memory with a value, or a list of either."""
    if isinstance(value, Mapping):
        return _texts(value.get("value"))
    if isinstance(value, list | tuple):
        return tuple(text for part in value for text in _texts(part))
    return (value,) if isinstance(value, str) else ()


def heterogeneity(matrix: LabelMatrix, *, seed: int = 0) -> dict[str, GroupTest]:
    """Test whether the judge agrees with people equally often on every system, language and length.

    p is as if items were independent. Lengths are thirds of the responses by characters. What
    can't be tested, with one group alone or without a disagreement, is left out.
    """
    lengths = _lengths(matrix)
    bounds = _thirds(lengths)
    groups: dict[str, list[str | None]] = {"system": [], "language": [], "length": []}
    for n, length in zip(matrix.parsed, lengths, strict=True):
        item = matrix.items[n]
        groups["system"].append(item.system)
        groups["language"].append(item.language)
        third = None if length is None else LENGTHS[bisect_left(bounds, length)]
        groups["length"].append(third)
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
    if len(systems) < _SYSTEMS or not matrix.measured:
        return None
    means, judge, people = {}, [], []
    for name, items in sorted(systems.items()):
        judge.append(float(matrix.numbers(at(matrix.judge, items)).mean()))
        people.append(float(matrix.numbers(at(matrix.truth, items)).mean()))
        means[name] = {"judge": judge[-1], "people": people[-1], "n": len(items)}
    spearman = kendall = None
    if len(set(judge)) > 1 and len(set(people)) > 1:
        from scipy.stats import kendalltau, spearmanr

        spearman = float(spearmanr(people, judge).statistic)
        kendall = float(kendalltau(people, judge).statistic)
    return SystemRanking(len(means), spearman, kendall, means)


def length_preference(matrix: LabelMatrix, *, seed: int) -> LengthPreference | None:
    """Estimate how much more the judge likes long answers than people do.

    On a pairwise set: the share of pairs in which it prefers the longer output, less people's
    share. Else: how far its verdicts on the longer half of the responses lie above people's, less
    the same of the other half, in units of the scale. The share or the difference of either side
    comes with it. None where there is nothing to compare.
    """
    if pairwise(matrix.scale):
        return _of_pairs(matrix, seed=seed)
    return _of_halves(matrix, seed=seed) if matrix.measured else None


def _of_halves(matrix: LabelMatrix, *, seed: int) -> LengthPreference | None:
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
    ahead = matrix.numbers(at(matrix.judge, items)) - matrix.numbers(at(matrix.truth, items))
    features = np.stack([ahead * longer, longer, ahead * (1 - longer), 1 - longer], axis=1)
    figures: Mapping[str, Statistic] = {
        "net": lambda sums: ratio(sums[..., 0], sums[..., 1]) - ratio(sums[..., 2], sums[..., 3]),
        "longer": lambda sums: ratio(sums[..., 0], sums[..., 1]),
        "shorter": lambda sums: ratio(sums[..., 2], sums[..., 3]),
    }
    counts = {"net": len(items), "longer": int(longer.sum()), "shorter": int((1 - longer).sum())}
    sides = _estimates(matrix, items, features, figures, counts, seed=seed)
    return LengthPreference("halves", sides.pop("net"), sides, float(np.median(known)))


def _of_pairs(matrix: LabelMatrix, *, seed: int) -> LengthPreference | None:
    longer: dict[int, int] = {}
    for n in matrix.parsed:
        # Outputs of about the same length say nothing about a preference.
        outputs = texts_of(matrix.items[n].payload).outputs
        if outputs is not None and abs(len(outputs[0]) - len(outputs[1])) > NOTABLE:
            longer[n] = int(len(outputs[1]) > len(outputs[0]))
    if not longer:
        return None
    items, codes = list(longer), np.array(list(longer.values()))
    judge = (matrix.judge_codes[items] == codes).astype(np.float64)
    people = (matrix.truth_codes[items] == codes).astype(np.float64)
    features = np.stack([judge, people, np.ones(len(items))], axis=1)
    figures: Mapping[str, Statistic] = {
        "net": lambda sums: ratio(sums[..., 0] - sums[..., 1], sums[..., 2]),
        "judge": lambda sums: ratio(sums[..., 0], sums[..., 2]),
        "people": lambda sums: ratio(sums[..., 1], sums[..., 2]),
    }
    counts = dict.fromkeys(figures, len(items))
    sides = _estimates(matrix, items, features, figures, counts, seed=seed)
    return LengthPreference("pairs", sides.pop("net"), sides)


def _estimates(
    matrix: LabelMatrix,
    items: Sequence[int],
    features: Floats,
    figures: Mapping[str, Statistic],
    counts: Mapping[str, int],
    *,
    seed: int,
) -> dict[str, Estimate]:
    estimates = clustered_statistics(
        features, at(matrix.clusters, items), list(figures.values()), seed=seed
    )
    # Each figure is over a part of the items, which the resampling does not know.
    named = zip(figures, estimates, strict=True)
    return {name: replace(estimate, n=counts[name]) for name, estimate in named}


def _lengths(matrix: LabelMatrix) -> list[int | None]:
    lengths: list[int | None] = []
    for texts in _texts_of_parsed(matrix):
        lengths.append(None if texts.response is None else len(texts.response))
    return lengths


def _thirds(lengths: Sequence[int | None]) -> list[int]:
    """Return the last lengths of the first and the second third."""
    ordered = sorted(length for length in lengths if length is not None)
    if len(ordered) < len(LENGTHS):
        return []
    return [ordered[len(ordered) // 3 - 1], ordered[len(ordered) * 2 // 3 - 1]]


def _test(matrix: LabelMatrix, of_items: Sequence[str | None], seed: int) -> GroupTest | None:
    groups: dict[str, list[int]] = {}
    for n, group in zip(matrix.parsed, of_items, strict=True):
        if group is not None:
            groups.setdefault(group, []).append(n)
    right: list[int] = []
    sizes: list[int] = []
    agreement: dict[str, float] = {}
    rates: dict[str, Estimates] = {}
    for group in sorted(groups, key=LENGTHS.index if set(groups) <= set(LENGTHS) else None):
        agrees = matrix.agrees_at(groups[group])
        right.append(int(agrees.sum()))
        sizes.append(len(agrees))
        agreement[group] = right[-1] / sizes[-1]
        if matrix.binary:
            rates[group] = _rates(matrix, groups[group])
    # Without a disagreement, or without an agreement, expected counts are 0 and p is undefined.
    if len(groups) < 2 or not 0 < sum(right) < sum(sizes):
        return None
    return GroupTest(_p(right, sizes, seed), agreement, rates or None)


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
        rates[name] = rate(matrix.agrees_at(of_class), at(matrix.clusters, of_class))
    return rates


def acceptance(matrix: LabelMatrix) -> dict[str, Acceptance] | None:
    """Return the judge's acceptance of items that are right or wrong on purpose, by kind.

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
        by_judge = matrix.accepts(at(matrix.judge, parsed))
        share = rate(by_judge, at(matrix.clusters, parsed))
        right = sum(matrix.accepts(at(matrix.truth, parsed)))
        unparsed = len(items) - len(parsed)
        rows[kind] = Acceptance(len(parsed), right, sum(by_judge), share.low, share.high, unparsed)
    return rows


def known_wrong(matrix: LabelMatrix) -> Estimate | None:
    """Return the share of the items made wrong on purpose that the judge accepts."""
    wrong: list[int] = []
    for n in matrix.parsed:
        if matrix.items[n].kind is not None and matrix.truth[n] not in matrix.accepted:
            wrong.append(n)
    if not wrong or not matrix.accepted:
        return None
    return rate(matrix.accepts(at(matrix.judge, wrong)), at(matrix.clusters, wrong))
