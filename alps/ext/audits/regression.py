"""Linear regression whose records come in clusters: what a difference goes along with."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from alps.stats.bootstrap import Floats, cluster_sums
from alps.stats.bounded import LEVEL
from alps.stats.paired import holm

_SINGULAR = 1e-9


@dataclass(frozen=True)
class Effect:
    """How a value changes with one covariate, all others held.

    Attributes:
        slope: The change for one standard deviation of the covariate.
        low: Of the 95 % interval.
        high: Of it.
        p: Two-sided, of a t test between clusters.
        corrected: The same by Holm's method over all covariates.
    """

    name: str
    slope: float
    low: float
    high: float
    p: float
    corrected: float


def clustered_effects(
    values: Floats, covariates: Mapping[str, Floats], clusters: Sequence[Hashable]
) -> list[Effect]:
    """Regress values on covariates by least squares, with errors between clusters.

    Covariates that don't vary, or follow from others, are left out. Empty where fewer clusters than
    twice the number of coefficients are there: their errors would be far too small.

    Source: Liang and Zeger, Biometrika 73 (1986) 13; the correction for few clusters (CR1) as in
        Cameron and Miller, Journal of Human Resources 50 (2015) 317, §II.B.

    Args:
        values: Shape (records,), finite.
        covariates: By name, each of shape (records,), finite.
        clusters: What each record belongs to.
    """
    from scipy.special import stdtr, stdtrit

    design, names = _design(covariates, len(values))
    units, (n, width) = len(set(clusters)), design.shape
    if not names or units < 2 * width:
        return []
    bread = np.linalg.inv(design.T @ design)
    slopes = bread @ design.T @ values
    left = values - design @ slopes
    meat = cluster_sums(design * left[:, None], clusters)
    few = units / (units - 1) * (n - 1) / (n - width)
    errors = np.sqrt(few * np.diag(bread @ meat.T @ meat @ bread))[1:]
    wide = float(stdtrit(units - 1, (1 + LEVEL) / 2))
    own = slopes[1:]
    ratios = np.divide(np.abs(own), errors, out=np.zeros_like(own), where=errors > 0)
    ps = np.minimum(1.0, 2 * stdtr(units - 1, -ratios)).tolist()
    effects = []
    for name, slope, error, p, corrected in zip(names, own, errors, ps, holm(ps), strict=True):
        ends = float(slope - wide * error), float(slope + wide * error)
        effects.append(Effect(name, float(slope), *ends, p, corrected))
    return effects


def _design(covariates: Mapping[str, Floats], n: int) -> tuple[Floats, list[str]]:
    """Return a column of ones and the covariates that add something, in standard deviations."""
    columns, names = [np.ones(n)], []
    for name, covariate in covariates.items():
        spread = float(covariate.std())
        if spread <= _SINGULAR:
            continue
        scaled = (covariate - covariate.mean()) / spread
        basis = np.stack(columns, axis=1)
        left = scaled - basis @ np.linalg.lstsq(basis, scaled, rcond=None)[0]
        if float(np.abs(left).max()) > _SINGULAR:
            columns.append(scaled)
            names.append(name)
    return np.stack(columns, axis=1), names
