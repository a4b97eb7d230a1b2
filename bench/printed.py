"""Simulated samples of what runs print.

Rates, scores, ratios and paired differences, in clusters or not.

Each sample is reduced to its moments, many samples at once, and goes through the code that runs
use.
"""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr, ndtr, ndtri
from scipy.stats import beta as beta_law
from scipy.stats import binom
from words import full_folder, rows, sample_folder

from alps.stats.bounded import Moments, bounded_interval, lacking
from alps.stats.paired import holm_all, t_tests

Floats = NDArray[np.float64]
Bounds = tuple[float, float]

RATES = (0.5, 0.8, 0.9, 0.95, 0.98, 0.99)
SIZES, CLUSTERS, WITHIN = (8, 11, 25, 60, 300), (5, 11, 40), (0.0, 0.3, 0.7)
LEAST, MEAN, WIDEST = 0.90, 0.93, 1.3
BOLD, FALSE_ALARMS = 0.05, 0.05
METRICS, RUNS = 4, 3
_POOL = 40_000


class Layout(NamedTuple):
    """How many records there are, in how many clusters of about the same size."""

    records: int
    clusters: int

    @property
    def sizes(self) -> NDArray[np.int64]:
        """How many records each cluster has."""
        each, more = divmod(self.records, self.clusters)
        return np.array([each + (n < more) for n in range(self.clusters)])

    @property
    def crowding(self) -> float:
        """How many records the cluster of a record has, on average over records."""
        return float(np.square(self.sizes).sum() / self.records)

    def __str__(self) -> str:
        alone = self.records == self.clusters
        return f"n {self.records}" + ("" if alone else f" in {self.clusters}")


def layouts() -> Iterator[Layout]:
    """Yield every size, alone and in every number of clusters that is smaller."""
    for size in SIZES:
        yield from (Layout(size, clusters) for clusters in CLUSTERS if clusters < size)
        yield Layout(size, size)


@dataclass(frozen=True)
class Population:
    """What values are drawn from: `values` stand for equally likely ones, sorted.

    A ratio has weights beside them.
    """

    kind: str
    name: str
    values: Floats
    bounds: Bounds = (0.0, 1.0)
    weights: Floats | None = None

    @property
    def truth(self) -> float:
        """The figure that intervals should hold."""
        weights = np.ones(len(self.values)) if self.weights is None else self.weights
        return float((self.values * weights).sum() / weights.sum())


@dataclass(frozen=True)
class Outcome:
    """How intervals did on samples of one population in one layout.

    The share covered, and the mean width.

    `exact` is the mean width of Clopper and Pearson's interval at the effective number of records;
    of rates alone.
    """

    kind: str
    population: str
    layout: Layout
    within: float
    samples: int
    covered: float
    width: float
    exact: float | None

    @property
    def where(self) -> str:
        """The setting in words."""
        tied = f", correlation {self.within}" if self.layout.records > self.layout.clusters else ""
        return f"{self.population}, {self.layout}{tied}"


@dataclass(frozen=True)
class Samples:
    """Moments of samples of one population in one layout; `exact` is as in `Outcome`."""

    kind: str
    name: str
    layout: Layout
    within: float
    truth: float
    moments: Moments
    bounds: Bounds = (0.0, 1.0)
    exact: float | None = None


def populations(recorded: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[Population]:
    """Return what is drawn from beside rates.

    Masses at an end, marks, differences, and what real models scored.
    """
    generator = np.random.default_rng(7)
    found = []
    for share in (0.5, 0.8, 0.9, 0.95):
        for end in (0.0, 1.0):
            some = generator.random(_POOL) < share
            values = np.where(some, end, generator.random(_POOL))
            found.append(_score(f"{share:.0%} at {end:.0f}, else even", values))
        high = np.where(generator.random(_POOL) < share, 1.0, generator.beta(5, 2, _POOL))
        found.append(_score(f"{share:.0%} at 1, else about .7", high))
    found.append(_score("about .8", generator.beta(8, 2, _POOL)))
    for name, shares in (
        ("marks of 4", (0.02, 0.08, 0.3, 0.4, 0.2)),
        ("marks of 5", (0.01, 0.02, 0.02, 0.15, 0.8)),
    ):
        marks = generator.choice(np.arange(1.0, 6.0), _POOL, p=shares)
        found.append(Population("marks", name, np.sort(marks), (1.0, 5.0)))
    for name, shares in (("rarely apart", (0.02, 0.9, 0.08)), ("often apart", (0.15, 0.6, 0.25))):
        apart = generator.choice(np.array([-1.0, 0.0, 1.0]), _POOL, p=shares)
        found.append(Population("difference", name, np.sort(apart), (-1.0, 1.0)))
    return found + list(_of_models(recorded))


def _score(name: str, values: Floats) -> Population:
    return Population("mean", name, np.sort(values))


def _of_models(recorded: Mapping[str, Sequence[Mapping[str, Any]]]) -> Iterator[Population]:
    f1 = {}
    for model, scored in recorded.items():
        f1[model] = np.array([row["scores"]["f1"] for row in scored])
    for model, values in f1.items():
        yield _score(f"F1 of {model}", values)
        counts = [row["counts"] for row in recorded[model]]
        weights = np.array([float(count["gold"] + count["predicted"]) for count in counts])
        matched = np.array([2.0 * count["matched"] for count in counts])
        ratios = np.divide(matched, weights, out=np.zeros(len(counts)), where=weights > 0)
        order = np.argsort(ratios, kind="stable")
        yield Population("ratio", f"micro F1 of {model}", ratios[order], weights=weights[order])
    for one, other in zip(f1, list(f1)[1:], strict=False):
        if len(f1[one]) == len(f1[other]):
            apart = np.sort(f1[one] - f1[other])
            yield Population("difference", f"F1, {one} – {other}", apart, (-1.0, 1.0))


def recorded_rows(folder: Path | None, sample: Path | None) -> dict[str, list[dict[str, Any]]]:
    """Return the records of recorded models, by model, scored by `alps run` itself.

    The judge is the lexical one.

    Args:
        folder: `alpsbench_full` with the outputs of seven models, or None.
        sample: `alpsbench_sample` with those of one, or None.
    """
    asked: dict[str, tuple[Path, Path]] = {}
    if folder is not None:
        outputs = sorted((folder / "outputs" / "task1").glob("*/records.jsonl"))
        asked = {path.parent.name: (path, folder / "benchmark_data") for path in outputs}
    elif sample is not None:
        own = sample / "recorded/task1/records.jsonl", sample / "benchmark_data"
        asked = {"the sample's model": own}
    with TemporaryDirectory() as work:
        return {model: _scored(*paths, Path(work) / model) for model, paths in asked.items()}


def _scored(predictions: Path, data: Path, out: Path) -> list[dict[str, Any]]:
    words = [f"model=predictions:{predictions}", f"data={data}", "judge=lexical", f"out={out}"]
    # One recorded model gave nothing for 14 % of the records: that fails no run here.
    words.append("max_failures=100%")
    command = [sys.executable, "-m", "alps", "run", "task=extraction", *words]
    environment = {**os.environ, "ALPS_CACHE": "off"}
    subprocess.run(command, check=True, capture_output=True, env=environment)
    return [row for row in rows(out / "scores.jsonl") if "f1" in row.get("scores", {})]


def simulate_printed(draws: int, seed: int) -> tuple[list[Outcome], list[str]]:
    """Return how every method did on everything that is drawn, and what was not done and why."""
    folder, sample = full_folder(), sample_folder()
    recorded = recorded_rows(folder, sample)
    notes = []
    if folder is None:
        left = "the F1 of seven recorded models is left out"
        notes.append(f"alpsbench_full is not beside the checkout: {left}")
    if folder is None and sample is None:
        left = "no recorded F1 is resampled"
        notes.append(f"the AlpsBench sample is not here either (ALPS_SAMPLE): {left}")
    outcomes: list[Outcome] = []
    of_values = populations(recorded)
    crowded = [layout for layout in layouts() if reason_of(layout)]
    for layout in crowded:
        notes.append(f"{reason_of(layout)}: no interval is printed, and none simulated")
    for number, layout in enumerate(layout for layout in layouts() if layout not in crowded):
        tied = WITHIN if layout.clusters < layout.records else (0.0,)
        for within in tied:
            generator = np.random.default_rng([seed, number, int(10 * within)])
            for rate in RATES:
                outcomes += _of_rate(generator, rate, layout, within, draws)
            for population in of_values:
                outcomes.append(_of_population(generator, population, layout, within, draws))
    return outcomes, notes


def reason_of(layout: Layout) -> str | None:
    """Return why a layout has no interval; None where it has one."""
    sums = layout.sizes.astype(np.float64)
    groups = layout.records / layout.crowding
    moments = Moments(0.5, 1.0, 1.0, layout.clusters, layout.records, groups)
    return lacking(int((sums > 0).sum()), layout.records, moments)


def _of_rate(
    generator: np.random.Generator, rate: float, layout: Layout, within: float, draws: int
) -> Iterator[Outcome]:
    """Simulate a rate whose clusters have rates of their own.

    Drawn from a beta law, and from a latent normal one.
    """
    exact = exact_width(rate, layout.records / (1 + (layout.crowding - 1) * within))
    tied = {"beta": beta_rates, "latent normal": latent_rates}
    for law, rates in (tied if within else {"alone": beta_rates}).items():
        own = rates(generator, rate, within, (draws, layout.clusters))
        sums = generator.binomial(layout.sizes, own).astype(np.float64)
        value = sums.sum(axis=1) / layout.records
        moments = moments_from(sums, layout, value * (1 - value) / layout.records)
        setting = "rate", f"rate {rate} ({law})", layout, within, rate
        yield _judged(Samples(*setting, moments, exact=exact))


def beta_rates(
    generator: np.random.Generator, rate: float, within: float, shape: tuple[int, int]
) -> Floats:
    """Draw rates of clusters from a beta law; two records of one correlate by `within`."""
    if not within:
        return np.full(shape, rate)
    weight = 1 / within - 1
    return np.nan_to_num(generator.beta(rate * weight, (1 - rate) * weight, shape), nan=1.0)


def latent_rates(
    generator: np.random.Generator, rate: float, within: float, shape: tuple[int, int]
) -> Floats:
    """Draw them from a normal law behind a threshold; two of one correlate by `within`."""
    tied = _latent(rate, within)
    drawn: Floats = ndtr(
        (ndtri(rate) - np.sqrt(tied) * generator.standard_normal(shape)) / np.sqrt(1 - tied)
    )
    return drawn


@cache
def _latent(rate: float, within: float) -> float:
    """Return the correlation of normal values that correlate by `within` above a threshold."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    low, high = 0.0, 0.9999
    for _ in range(50):
        tied = (low + high) / 2
        own = ndtr((ndtri(rate) - np.sqrt(tied) * nodes) / np.sqrt(1 - tied))
        seen = ((weights * own * own).sum() / weights.sum() - rate**2) / (rate * (1 - rate))
        low, high = (tied, high) if seen < within else (low, tied)
    return tied


def _of_population(
    generator: np.random.Generator,
    population: Population,
    layout: Layout,
    within: float,
    draws: int,
) -> Outcome:
    """Simulate values whose places in the population come from normal ones.

    Those correlate by `within` in clusters.
    """
    names = np.repeat(np.arange(layout.clusters), layout.sizes)
    shared = generator.standard_normal((draws, layout.clusters))[:, names]
    own = generator.standard_normal((draws, layout.records))
    places = (
        ndtr(np.sqrt(within) * shared + np.sqrt(1 - within) * own) * len(population.values)
    ).astype(np.int64)
    chosen = np.minimum(places, len(population.values) - 1)
    values = population.values[chosen]
    weights = np.ones(values.shape) if population.weights is None else population.weights[chosen]
    some = weights.sum(axis=1) > 0
    values, weights = values[some], weights[some]
    total = weights.sum(axis=1)
    errors = weights * (values - ((values * weights).sum(axis=1) / total)[:, None])
    starts = np.cumsum([0, *layout.sizes[:-1]])
    of_weights = np.add.reduceat(weights, starts, axis=1)
    moments = Moments(
        value=(values * weights).sum(axis=1) / total,
        alone=np.square(errors).sum(axis=1) / total**2,
        together=np.square(np.add.reduceat(errors, starts, axis=1)).sum(axis=1) / total**2,
        clusters=(of_weights > 0).sum(axis=1).astype(np.float64),
        records=total**2 / np.square(weights).sum(axis=1),
        groups=total**2 / np.square(of_weights).sum(axis=1),
        magnitude=np.abs(values).mean(axis=1) if population.kind == "difference" else None,
    )
    setting = population.kind, population.name, layout, within, population.truth
    return _judged(Samples(*setting, moments, population.bounds))


def moments_from(sums: Floats, layout: Layout, alone: Floats) -> Moments:
    """Return the moments of equally weighed records, from the sums of their clusters."""
    value = sums.sum(axis=1) / layout.records
    errors = sums - value[:, None] * layout.sizes
    groups = layout.records / layout.crowding
    together = np.square(errors).sum(axis=1) / layout.records**2
    return Moments(value, alone, together, float(layout.clusters), float(layout.records), groups)


def _judged(samples: Samples) -> Outcome:
    """Return how intervals did on the samples."""
    low, high = bounded_interval(samples.moments, *samples.bounds)
    # A ratio may lack weight in some clusters: with fewer than two there is no interval.
    given = np.asarray(samples.moments.clusters) >= 2
    held = ((low <= samples.truth + 1e-12) & (samples.truth <= high + 1e-12))[given]
    width = float((high - low)[given].mean())
    setting = samples.kind, samples.name, samples.layout, samples.within
    return Outcome(*setting, len(held), float(held.mean()), width, samples.exact)


@cache
def exact_width(rate: float, trials: float) -> float:
    """Return the mean width of Clopper and Pearson's interval.

    Between whole numbers of trials, on the line.
    """
    lower = int(trials)
    over = trials - lower
    narrow = _exact(rate, lower)
    return narrow if over < 1e-9 else (1 - over) * narrow + over * _exact(rate, lower + 1)


def _exact(rate: float, trials: int) -> float:
    counts = np.arange(trials + 1)
    low = np.where(
        counts == 0, 0.0, beta_law.ppf(0.025, np.maximum(counts, 0.5), trials - counts + 1)
    )
    high = np.where(
        counts == trials, 1.0, beta_law.ppf(0.975, counts + 1, np.maximum(trials - counts, 0.5))
    )
    return float((binom.pmf(counts, trials, rate) * (high - low)).sum())


@dataclass(frozen=True)
class Alarm:
    """In which share of tables of equal runs any p was bold.

    As printed, and as other families would have it.
    """

    layout: Layout
    tables: int
    printed: float
    a_pair_each: float
    raw: float

    @property
    def error(self) -> float:
        """The standard error of `printed`."""
        return float(np.sqrt(max(self.printed * (1 - self.printed), 1 / self.tables) / self.tables))


def simulate_tables(draws: int, seed: int) -> list[Alarm]:
    """Draw tables of three equal runs and four metrics, and count those with a bold p.

    A record is as hard for every run, and each does by chance better or worse on it; half of the
    metrics are 0 or 1.
    """
    return [
        _alarms(np.random.default_rng([seed, 99, *layout]), layout, draws) for layout in layouts()
    ]


def _alarms(generator: np.random.Generator, layout: Layout, draws: int) -> Alarm:
    pairs = [(one, other) for one in range(RUNS) for other in range(one + 1, RUNS)]
    ps = np.empty((draws, len(pairs), METRICS))
    names = np.repeat(np.arange(layout.clusters), layout.sizes)
    starts = np.cumsum([0, *layout.sizes[:-1]])
    for table in range(draws):
        shape = (RUNS, METRICS, layout.records)
        hard = (
            generator.standard_normal(layout.records)
            + generator.standard_normal(layout.clusters)[names]
        )
        done = generator.standard_normal(
            (RUNS, 1, layout.records)
        ) + 0.7 * generator.standard_normal(shape)
        tied = generator.standard_normal((RUNS, 1, layout.clusters))[:, :, names]
        scores = ndtr(hard + done + tied - 0.5)
        scores[:, ::2] = scores[:, ::2] > 0.5
        for place, (one, other) in enumerate(pairs):
            ps[table, place] = _ps(scores[one] - scores[other], starts, layout)
    flat = ps.reshape(draws, -1)
    whole = np.array([holm_all(row).min() for row in flat])
    each = np.array([min(holm_all(pair).min() for pair in table) for table in ps])
    shares = [float((part <= BOLD).mean()) for part in (whole, each, flat.min(axis=1))]
    return Alarm(layout, draws, *shares)


def _ps(apart: Floats, starts: NDArray[np.int64], layout: Layout) -> Floats:
    """Return the p of each metric as `alps compare` takes it.

    McNemar's where it is exact, else between clusters.
    """
    means = apart.mean(axis=1)
    sums = np.add.reduceat(apart - means[:, None], starts, axis=1)
    clusters = layout.clusters
    errors = np.sqrt(clusters / (clusters - 1) * np.square(sums).sum(axis=1)) / layout.records
    ps = t_tests(means, errors, np.full(len(means), float(clusters)))
    if clusters == layout.records:
        wins, losses = (apart[::2] > 0).sum(axis=1), (apart[::2] < 0).sum(axis=1)
        ps[::2] = np.minimum(1.0, 2 * bdtr(np.minimum(wins, losses), wins + losses, 0.5))
    return ps
