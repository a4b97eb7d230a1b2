"""Agreement of two raters whose labels no scale declares: names of any vocabulary, and numbers.

Two people who write labels of their own use hundreds of them. A table of all pairs of labels would
be resampled in gigabytes; unweighted kappa and nominal alpha need only how often both agree and how
often each label was given.
"""

from collections.abc import Hashable, Sequence

import numpy as np

from alps.stats.bootstrap import Estimate, Floats, ratio, resampled_statistic


def name_estimates(
    first: Sequence[str], second: Sequence[str], clusters: Sequence[Hashable]
) -> dict[str, Estimate]:
    """Estimate `agreement`, Cohen's `kappa` and Krippendorff's nominal `alpha` of two raters.

    Intervals are those of `resampled_statistic`. Kappa and alpha have no value where both raters
    give one label throughout.

    Raises:
        ValueError: If lengths differ.
    """
    if not len(first) == len(second) == len(clusters):
        raise ValueError(f"lengths differ: {len(first)}, {len(second)}, {len(clusters)}")
    names = {name: code for code, name in enumerate(dict.fromkeys((*first, *second)))}
    items = np.arange(len(first))
    features = np.zeros((len(first), 2 + 2 * len(names)))
    features[:, 0] = 1
    features[:, 1] = [one == other for one, other in zip(first, second, strict=True)]
    for side, labels in enumerate((first, second)):
        codes = np.array([names[label] for label in labels], dtype=np.int64)
        features[items, 2 + side * len(names) + codes] = 1
    figures = {"agreement": _agreement, "kappa": _kappa, "alpha": _alpha}
    estimates = {}
    for name, figure in figures.items():
        estimates[name] = resampled_statistic(features, clusters, figure)
    return estimates


def _agreement(sums: Floats) -> Floats:
    return ratio(sums[..., 1], sums[..., 0])


def _kappa(sums: Floats) -> Floats:
    count, same, (rows, columns) = sums[..., 0], sums[..., 1], _margins(sums)
    chance = (rows * columns).sum(axis=-1)
    return np.asarray(1 - ratio((count - same) * count, count**2 - chance))


def _alpha(sums: Floats) -> Floats:
    count, same, (rows, columns) = sums[..., 0], sums[..., 1], _margins(sums)
    labels = rows + columns
    given = 2 * count
    unlike = given**2 - np.square(labels).sum(axis=-1)
    return np.asarray(1 - ratio((count - same) * 2 * (given - 1), unlike))


def _margins(sums: Floats) -> tuple[Floats, Floats]:
    half = (sums.shape[-1] - 2) // 2
    return sums[..., 2 : 2 + half], sums[..., 2 + half :]
