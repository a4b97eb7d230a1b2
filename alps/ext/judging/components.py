"""Components of the variance of a score over judges, prompts and draws, by the method of moments.

A score m of a judge j with a prompt p in a draw r is a mean over n records. In the crossed design
of them m = μ + judge + prompt + judge × prompt + noise. The noise is what other records, or the
same judge asked once more, would change between two scores: its covariance V between scores is that
of sums over clusters. A mean square mᵀΠm / df of a projection Π has the expectation of its
components plus tr(ΠV) / df, which is subtracted; what is left is solved for the components, and
those below 0 are 0.

Source: Searle, Casella and McCulloch, Variance Components (1992), ch. 4; Brennan, Generalizability
Theory (2001), ch. 3, where records are crossed with all facets.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from alps.stats.bootstrap import Estimate, Floats, cluster_sums, ratio, resampled_figures

JUDGE, PROMPT, BOTH, NOISE = "judge", "prompt", "judge × prompt", "noise"


# A variance below this is that of floats, not of scores.
_ROUNDING = 1e-15


@dataclass(frozen=True)
class Component:
    """One source of the spread of a score.

    Attributes:
        deviation: Its standard deviation, in points of the score.
        share: Of the variance of all sources.
    """

    deviation: float
    share: Estimate


def variance_components(
    values: Floats, clusters: Sequence[Hashable]
) -> tuple[dict[str, Component], float | None]:
    """Split the spread of a score into judge, prompt, judge × prompt and noise.

    A factor with one level has no component. Intervals are those of `resampled_figure`: other
    records for the same judges and prompts.

    Args:
        values: Shape (records, judges, prompts, draws).
        clusters: Shape (records,).

    Returns:
        The components, and the standard deviation that asking once more makes: None with one draw.
        No components with fewer than two clusters or two scores.
    """
    judges, prompts, draws = values.shape[1:]
    flat = values.reshape(len(values), -1)
    if len(set(clusters)) < 2 or flat.shape[1] < 2:
        return {}, None
    design = _Design.of(judges, prompts, draws)
    counts = np.ones((len(flat), 1))
    sums = cluster_sums(np.concatenate([counts, flat], axis=1), clusters)
    moments = _Moments(sums[:, 0], sums[:, 1:], design)
    found = moments.components(np.ones(len(sums)))
    total = float(sum(map(float, found.values())))
    shares = resampled_figures(partial(_shares, moments=moments), range(len(sums)))
    components = {}
    for (name, variance), share in zip(found.items(), shares, strict=True):
        # Scores that are all equal spread by rounding alone, of which nothing has a share.
        kept = replace(share, n=len(flat)) if total > _ROUNDING else _none(flat)
        components[name] = Component(float(variance) ** 0.5, kept)
    return components, moments.of_draws()


def _none(flat: Floats) -> Estimate:
    return Estimate(None, None, None, len(flat))


def _shares(times: Floats, *, moments: "_Moments") -> list[Floats]:
    variances = list(moments.components(times).values())
    total = np.sum(variances, axis=0)
    return [ratio(variance, total) for variance in variances]


def _square(left: Floats, projection: Floats, right: Floats) -> Floats:
    """Return leftᵀ Π right of each row; shape (…)."""
    return np.asarray(((left @ projection) * right).sum(axis=-1))


@dataclass(frozen=True)
class _Design:
    """Projections of the scores, flat over judges × prompts × draws, and their sizes."""

    sizes: tuple[int, int, int]
    projections: Mapping[str, Floats]
    freedom: Mapping[str, int]

    @classmethod
    def of(cls, judges: int, prompts: int, draws: int) -> "_Design":
        """Return those of a crossed design; factors with one level have no projection."""
        centred = [np.eye(size) - 1 / size for size in (judges, prompts)]
        means = [np.full((size, size), 1 / size) for size in (judges, prompts, draws)]
        count = judges * prompts * draws
        projections = {NOISE: np.eye(count) - 1 / count}
        freedom = {NOISE: count - 1}
        crossed = {
            JUDGE: (centred[0], means[1], judges - 1),
            PROMPT: (means[0], centred[1], prompts - 1),
            BOTH: (centred[0], centred[1], (judges - 1) * (prompts - 1)),
        }
        for name, (over_judges, over_prompts, degrees) in crossed.items():
            if degrees:
                projections[name] = np.kron(np.kron(over_judges, over_prompts), means[2])
                freedom[name] = degrees
        return cls((judges, prompts, draws), projections, freedom)


class _Moments:
    """Mean squares of scores under any weights of the clusters.

    Args:
        counts: Shape (clusters,): how many records each has.
        sums: Shape (clusters, scores).
        design: The projections.
    """

    def __init__(self, counts: Floats, sums: Floats, design: _Design) -> None:
        self._counts, self._sums, self._design = counts, sums, design
        # Of each cluster its own square under each projection: what is resampled is added up.
        self._squares = {}
        for name, projection in design.projections.items():
            self._squares[name] = _square(sums, projection, sums)
        ones = np.ones(len(counts))
        self._noise = {name: float(self._noise_of(name, ones)) for name in design.projections}

    def components(self, times: Floats) -> dict[str, Floats]:
        """Return the variance of each component where clusters count `times` often; shape (…)."""
        judges, prompts, draws = self._design.sizes
        excess = {}
        for name in self._design.projections:
            if name != NOISE:
                excess[name] = self._excess(name, times)
        both = excess.get(BOTH, np.zeros(times.shape[:-1]))
        within = {JUDGE: prompts * draws, PROMPT: judges * draws, BOTH: draws}
        variances = {}
        for name, above in excess.items():
            rest = above if name == BOTH else above - both
            variances[name] = np.maximum(rest / within[name], 0.0)
        return {**variances, NOISE: self._noise_of(NOISE, times)}

    def of_draws(self) -> float | None:
        """Return the standard deviation between draws of one judge with one prompt."""
        judges, prompts, draws = self._design.sizes
        if draws < 2:
            return None
        within = np.eye(draws) - 1 / draws
        between = np.asarray(np.kron(np.eye(judges * prompts), within), dtype=np.float64)
        residuals = self._sums - np.outer(self._counts, self._means(np.ones(len(self._counts))))
        squares = float(_square(residuals, between, residuals).sum())
        clusters, total = len(self._counts), self._counts.sum()
        variance = squares / total**2 * clusters / (clusters - 1) / (judges * prompts * (draws - 1))
        return float(variance**0.5)

    def _excess(self, name: str, times: Floats) -> Floats:
        """Return a mean square less what noise adds to it."""
        means = self._means(times)
        projection, degrees = self._design.projections[name], self._design.freedom[name]
        square = _square(means, projection, means) / degrees
        excess = square - self._noise_of(name, times)
        # A resample has the noise of the records, and once more that of drawing among them.
        return np.asarray(excess if times.ndim == 1 else excess - self._noise[name])

    def _noise_of(self, name: str, times: Floats) -> Floats:
        """Return tr(ΠV) / df, of V between clusters."""
        means, clusters = self._means(times), len(self._counts)
        projection = self._design.projections[name]
        crossed = times @ (self._counts[:, None] * self._sums)
        squared = times @ self._counts**2
        total = times @ self._squares[name]
        total = total - 2 * _square(means, projection, crossed)
        total = total + squared * _square(means, projection, means)
        scale = clusters / (clusters - 1) / (times @ self._counts) ** 2
        return np.asarray(np.maximum(total * scale, 0.0) / self._design.freedom[name])

    def _means(self, times: Floats) -> Floats:
        return np.asarray((times @ self._sums) / (times @ self._counts)[..., None])
