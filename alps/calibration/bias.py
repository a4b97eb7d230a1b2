"""Whether a judge is equally good everywhere: on every system and language, and on short answers as
on long ones.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from alps.calibration.baselines import pairwise, texts_of
from alps.calibration.matrix import Columns, rate
from alps.stats.bootstrap import Floats, clustered_statistics, ratio

LENGTHS = ("short", "medium", "long")
NOTABLE = 30
"""Characters by which two outputs must differ for one to count as the longer one, as in AlpacaEval.
"""

_SYSTEMS = 3
_EXPECTED = 5
_TABLES = 10_000


def heterogeneity(data: Columns, *, seed: int = 0) -> dict[str, Any]:
    """Test whether the judge agrees with people equally often on every system, every language and
    every length.

    Each part has `p`, of the hypothesis that it does if items were independent, and `agreement` by
    group; on binary rubrics also `rates`: sensitivity and specificity by group. Lengths are thirds
    of the responses by characters, `bounds` the last lengths of the first two. A part that can't be
    tested, with one group alone or without a disagreement, is left out.
    """
    groups: dict[str, list[str | None]] = {
        name: [getattr(data.items[n], name) for n in data.parsed] for name in ("system", "language")
    }
    lengths = [len(text) if text is not None else None for text in _responses(data)]
    bounds = _thirds([length for length in lengths if length is not None])
    groups["length"] = [
        None if length is None else LENGTHS[sum(length > bound for bound in bounds)]
        for length in lengths
    ]
    found = {
        name: part
        for name, given in groups.items()
        if (part := _part(data, given, seed)) is not None
    }
    if "length" in found:
        found["length"]["bounds"] = bounds
    return found


def system_ranking(data: Columns) -> dict[str, Any] | None:
    """Correlate the mean verdicts of systems with the means of what people say, by rank.

    None under three systems.

    A correlation that is not defined, where all means of one side are the same, is None.
    """
    systems: dict[str, list[int]] = {}
    for n in data.parsed:
        if (name := data.items[n].system) is not None:
            systems.setdefault(name, []).append(n)
    if len(systems) < _SYSTEMS or not data.measured:
        return None
    means = {
        name: {
            "judge": float(data.numbers([data.judge[n] for n in places]).mean()),
            "people": float(data.numbers([data.truth[n] for n in places]).mean()),
            "n": len(places),
        }
        for name, places in sorted(systems.items())
    }
    judge, people = ([mean[side] for mean in means.values()] for side in ("judge", "people"))
    found: dict[str, Any] = {"n": len(means), "spearman": None, "kendall": None, "systems": means}
    if len(set(judge)) > 1 and len(set(people)) > 1:
        from scipy.stats import kendalltau, spearmanr

        found |= {
            "spearman": float(spearmanr(people, judge).statistic),
            "kendall": float(kendalltau(people, judge).statistic),
        }
    return found


def length_preference(data: Columns, *, seed: int, draws: int) -> dict[str, Any] | None:
    """Estimate how much more the judge likes long answers than people do.

    None where there is nothing to compare.

    On a pairwise set: the share of pairs in which it prefers the longer output, less people's
    share. Else: how far its verdicts on the longer half of the responses lie above people's, less
    the same of the other half, in units of the scale. The share or the difference of either side
    stands beside it.
    """
    if pairwise(data.scale):
        return _of_pairs(data, seed=seed, draws=draws)
    lengths = [len(text) if text is not None else -1 for text in _responses(data)]
    held = [place for place, length in enumerate(lengths) if length >= 0]
    if not held or not data.measured:
        return None
    known = np.array([lengths[place] for place in held])
    longer = (known > np.median(known)).astype(np.float64)
    if not longer.any():
        return None
    places = [data.parsed[place] for place in held]
    ahead = data.numbers([data.judge[n] for n in places]) - data.numbers(
        [data.truth[n] for n in places]
    )
    features = np.stack([ahead * longer, longer, ahead * (1 - longer), 1 - longer], axis=1)
    figures: Mapping[str, Callable[[Floats], Floats]] = {
        "": lambda sums: ratio(sums[..., 0], sums[..., 1]) - ratio(sums[..., 2], sums[..., 3]),
        "longer": lambda sums: ratio(sums[..., 0], sums[..., 1]),
        "shorter": lambda sums: ratio(sums[..., 2], sums[..., 3]),
    }
    counts = {"": len(held), "longer": int(longer.sum()), "shorter": int((1 - longer).sum())}
    found = _estimates(data, places, features, figures, counts, seed=seed, draws=draws)
    return {"by": "halves", **found, "median": float(np.median(known))}


def _of_pairs(data: Columns, *, seed: int, draws: int) -> dict[str, Any] | None:
    longer: dict[int, object] = {}
    for n in data.parsed:
        outputs = texts_of(data.items[n].payload).outputs
        if outputs is not None and abs(len(outputs[0]) - len(outputs[1])) > NOTABLE:
            longer[n] = data.scale.values[int(len(outputs[1]) > len(outputs[0]))]
    if not longer:
        return None
    places = list(longer)
    judge = np.array([data.judge[n] == longer[n] for n in places], dtype=np.float64)
    people = np.array([data.truth[n] == longer[n] for n in places], dtype=np.float64)
    features = np.stack([judge, people, np.ones(len(places))], axis=1)
    figures: Mapping[str, Callable[[Floats], Floats]] = {
        "": lambda sums: ratio(sums[..., 0] - sums[..., 1], sums[..., 2]),
        "judge": lambda sums: ratio(sums[..., 0], sums[..., 2]),
        "people": lambda sums: ratio(sums[..., 1], sums[..., 2]),
    }
    counts = dict.fromkeys(figures, len(places))
    return {
        "by": "pairs",
        **_estimates(data, places, features, figures, counts, seed=seed, draws=draws),
    }


def _estimates(
    data: Columns,
    places: Sequence[int],
    features: Floats,
    figures: Mapping[str, Callable[[Floats], Floats]],
    counts: Mapping[str, int],
    *,
    seed: int,
    draws: int,
) -> dict[str, Any]:
    """Estimate named figures; the one without a name stands at the top of the row."""
    clusters = data.clusters_of(places)
    found = clustered_statistics(features, clusters, list(figures.values()), seed=seed, draws=draws)
    rows: dict[str, Any] = {}
    for name, estimate in zip(figures, found, strict=True):
        row = replace(estimate, n=counts[name]).row
        rows |= {name: row} if name else row
    return rows


def _responses(data: Columns) -> list[str | None]:
    return [texts_of(data.items[n].payload).response for n in data.parsed]


def _thirds(lengths: Sequence[int]) -> list[int]:
    """Return the last lengths of the first and the second third."""
    ordered = sorted(lengths)
    return (
        [ordered[len(ordered) * part // 3 - 1] for part in (1, 2)]
        if len(ordered) >= len(LENGTHS)
        else []
    )


def _part(data: Columns, given: Sequence[str | None], seed: int) -> dict[str, Any] | None:
    groups: dict[str, list[int]] = {}
    for n, group in zip(data.parsed, given, strict=True):
        if group is not None:
            groups.setdefault(group, []).append(n)
    order = (
        [name for name in LENGTHS if name in groups]
        if set(groups) <= set(LENGTHS)
        else sorted(groups)
    )
    right = {group: sum(data.truth[n] == data.judge[n] for n in groups[group]) for group in order}
    sizes = {group: len(groups[group]) for group in order}
    if len(groups) < 2 or not 0 < sum(right.values()) < sum(sizes.values()):
        return None
    part: dict[str, Any] = {
        "p": _p(list(right.values()), list(sizes.values()), seed),
        "agreement": {group: right[group] / sizes[group] for group in order},
    }
    if data.binary:
        part["rates"] = {group: _rates(data, groups[group]) for group in order}
    return part


def _p(right: Sequence[int], sizes: Sequence[int], seed: int) -> float:
    """Return p of Pearson's test that shares are the same.

    Over random tables where expected counts are small.
    """
    total, agreed = sum(sizes), sum(right)
    expected = np.outer(sizes, [agreed / total, 1 - agreed / total])

    def statistic(counts: Floats) -> Floats:
        apart = np.square(counts - expected[:, 0])
        return np.asarray((apart / expected[:, 0] + apart / expected[:, 1]).sum(axis=-1))

    seen = float(statistic(np.array(right, dtype=np.float64)))
    if expected.min() >= _EXPECTED:
        from scipy.stats import chi2

        return float(chi2.sf(seen, len(sizes) - 1))
    generator = np.random.Generator(np.random.PCG64(seed))
    drawn = statistic(
        generator.multivariate_hypergeometric(sizes, agreed, size=_TABLES).astype(np.float64)
    )
    return float((1 + (drawn >= seen - 1e-9).sum()) / (1 + _TABLES))


def _rates(data: Columns, places: Sequence[int]) -> dict[str, dict[str, Any]]:
    found = {}
    for name, value in (
        ("sensitivity", data.scale.values[-1]),
        ("specificity", data.scale.values[0]),
    ):
        of_class = [n for n in places if data.truth[n] == value]
        found[name] = rate(
            [data.judge[n] == value for n in of_class], data.clusters_of(of_class)
        ).row
    return found


def acceptance(data: Columns) -> dict[str, Any] | None:
    """Return, for every kind, its items, how many are rightly accepted, and how many the judge
    accepts.

    `low` and `high` are of the share that it accepts; `unparsed` items, whose verdict can't be
    parsed, are not among the `n`. None where no item is of a kind, or nothing counts as accepted.
    """
    places = [n for n in data.heard if data.items[n].kind is not None]
    if not places or not data.accepted:
        return None
    found: dict[str, Any] = {}
    for kind in sorted({str(data.items[n].kind) for n in places}):
        asked = [n for n in places if data.items[n].kind == kind]
        of_kind = [n for n in asked if data.judge[n] is not None]
        accepted = rate(
            [data.judge[n] in data.accepted for n in of_kind], data.clusters_of(of_kind)
        )
        found[kind] = {
            "n": len(of_kind),
            "right": sum(data.truth[n] in data.accepted for n in of_kind),
            "accepted": sum(data.judge[n] in data.accepted for n in of_kind),
            "low": accepted.low,
            "high": accepted.high,
            "unparsed": len(asked) - len(of_kind),
        }
    return found


def known_wrong(data: Columns) -> dict[str, Any] | None:
    """Return the share of the items made wrong on purpose that the judge accepts.

    None where there are none.
    """
    wrong = [
        n
        for n in data.parsed
        if data.items[n].kind is not None and data.truth[n] not in data.accepted
    ]
    if not wrong or not data.accepted:
        return None
    return rate([data.judge[n] in data.accepted for n in wrong], data.clusters_of(wrong)).row
