"""Simulated samples of what runs print: rates, scores, ratios and paired differences, in clusters or not.

Each sample is reduced to its moments, many samples at once, and goes through the code that runs use.
"""

import json
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
from sample import BESIDE, sample_folder
from scipy.special import bdtr, ndtr, ndtri
from scipy.stats import beta as beta_law
from scipy.stats import binom

from alps.stats.bounded import Moments, bounded_interval, lacking
from alps.stats.paired import holm_all, t_tests

Floats = NDArray[np.float64]
Bounds = tuple[float, float]

RATES = (0.5, 0.8, 0.9, 0.95, 0.98, 0.99)
SIZES, CLUSTERS, WITHIN = (8, 11, 25, 60, 300), (5, 11, 40), (0.0, 0.3, 0.7)
LEAST, MEAN, WIDEST = 0.90, 0.93, 1.3
PERCENTILES, WILSON, STUDENT = "x percentiles of a bootstrap", "x Wilson, Kish's effect", "x Student's t"
OURS = "ours"
RESAMPLES = 400
BOLD, FALSE_ALARMS = 0.05, 0.05
METRICS, RUNS = 4, 3
_POOL = 40_000


class Design(NamedTuple):
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


def designs() -> Iterator[Design]:
    """Yield every size, alone and in every number of clusters that is smaller."""
    for size in SIZES:
        yield from (Design(size, clusters) for clusters in CLUSTERS if clusters < size)
        yield Design(size, size)


@dataclass(frozen=True)
class Population:
    """What values are drawn from: `values` stand for equally likely ones, sorted; a ratio has weights beside them."""

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
    """How a method did on samples of one population in one design: the share covered, and the mean width.

    `exact` is the mean width of Clopper and Pearson's interval at the effective number of records; of rates alone.
    """

    kind: str
    population: str
    design: Design
    within: float
    method: str
    covered: float
    width: float
    exact: float | None

    @property
    def where(self) -> str:
        """The setting in words."""
        tied = f", correlation {self.within}" if self.design.records > self.design.clusters else ""
        return f"{self.population}, {self.design}{tied}"


def populations(recorded: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[Population]:
    """Return what is drawn from beside rates: masses at an end, marks, differences, and what real models scored."""
    generator = np.random.default_rng(7)
    found = []
    for share in (0.5, 0.8, 0.9, 0.95):
        for end in (0.0, 1.0):
            some = generator.random(_POOL) < share
            found.append(_score(f"{share:.0%} at {end:.0f}, else even", np.where(some, end, generator.random(_POOL))))
        high = np.where(generator.random(_POOL) < share, 1.0, generator.beta(5, 2, _POOL))
        found.append(_score(f"{share:.0%} at 1, else about .7", high))
    found.append(_score("about .8", generator.beta(8, 2, _POOL)))
    for name, shares in (("marks of 4", (0.02, 0.08, 0.3, 0.4, 0.2)), ("marks of 5", (0.01, 0.02, 0.02, 0.15, 0.8))):
        marks = generator.choice(np.arange(1.0, 6.0), _POOL, p=shares)
        found.append(Population("marks", name, np.sort(marks), (1.0, 5.0)))
    for name, shares in (("rarely apart", (0.02, 0.9, 0.08)), ("often apart", (0.15, 0.6, 0.25))):
        apart = generator.choice(np.array([-1.0, 0.0, 1.0]), _POOL, p=shares)
        found.append(Population("difference", name, np.sort(apart), (-1.0, 1.0)))
    return found + list(_of_models(recorded))


def _score(name: str, values: Floats) -> Population:
    return Population("mean", name, np.sort(values))


def _of_models(recorded: Mapping[str, Sequence[Mapping[str, Any]]]) -> Iterator[Population]:
    f1 = {model: np.array([row["scores"]["f1"] for row in rows]) for model, rows in recorded.items()}
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
            yield Population("difference", f"F1, {one} – {other}", np.sort(f1[one] - f1[other]), (-1.0, 1.0))


def recorded_rows(folder: Path | None, sample: Path | None) -> dict[str, list[dict[str, Any]]]:
    """Return the scored records of recorded models, by model, scored by `alps run` itself with the lexical judge.

    Args:
        folder: `alpsbench_full` with the outputs of seven models, or None.
        sample: `alpsbench_sample` with those of one, or None.
    """
    asked: dict[str, tuple[Path, Path]] = {}
    if folder is not None:
        outputs = sorted((folder / "outputs" / "task1").glob("*/records.jsonl"))
        asked = {path.parent.name: (path, folder / "benchmark_data") for path in outputs}
    elif sample is not None:
        asked = {"the sample's model": (sample / "recorded/task1/records.jsonl", sample / "benchmark_data")}
    with TemporaryDirectory() as work:
        return {model: _scored(*paths, Path(work) / str(n)) for n, (model, paths) in enumerate(asked.items())}


def _scored(predictions: Path, data: Path, out: Path) -> list[dict[str, Any]]:
    words = [f"model=predictions:{predictions}", f"data={data}", "judge=lexical", f"out={out}"]
    command = [sys.executable, "-m", "alps", "run", "task=extraction", *words]
    environment = {**os.environ, "ALPS_CACHE": "off"}
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
    with (out / "scores.jsonl").open(encoding="utf-8") as rows:
        return [row for line in rows if "f1" in (row := json.loads(line)).get("scores", {})]


def full_folder() -> Path | None:
    """Return the folder with the outputs of seven models beside the checkout, or beside what `ALPS_SAMPLE` names."""
    beside = [Path(os.environ["ALPS_SAMPLE"]).parent] if os.environ.get("ALPS_SAMPLE") else []
    places = [place / "alpsbench_full" for place in (*beside, BESIDE.parent)]
    return next((place for place in places if (place / "outputs" / "task1").is_dir()), None)


def simulate_printed(draws: int, seed: int) -> tuple[list[Outcome], list[str]]:
    """Return how every method did on everything that is drawn, and what was not done and why."""
    folder, sample = full_folder(), sample_folder()
    rows = recorded_rows(folder, sample)
    notes = []
    if folder is None:
        notes.append("alpsbench_full is not beside the checkout: the F1 of seven recorded models is left out")
    if folder is None and sample is None:
        notes.append("the AlpsBench sample is not here either (ALPS_SAMPLE): no recorded F1 is resampled")
    outcomes: list[Outcome] = []
    crowded = [design for design in designs() if reason_of(design)]
    notes += [f"{reason_of(design)}: no interval is printed, and none simulated" for design in crowded]
    for number, design in enumerate(design for design in designs() if design not in crowded):
        tied = WITHIN if design.clusters < design.records else (0.0,)
        for within in tied:
            generator = np.random.default_rng([seed, number, int(10 * within)])
            for rate in RATES:
                outcomes += _of_rate(generator, rate, design, within, draws)
            for population in populations(rows):
                outcomes += _of_population(generator, population, design, within, draws)
    return outcomes, notes


def reason_of(design: Design) -> str | None:
    """Return why a design has no interval; None where it has one."""
    sums = design.sizes.astype(np.float64)
    moments = Moments(0.5, 1.0, 1.0, design.clusters, design.records, design.records / design.crowding)
    return lacking(int((sums > 0).sum()), design.records, moments)


def _of_rate(
    generator: np.random.Generator, rate: float, design: Design, within: float, draws: int
) -> Iterator[Outcome]:
    """Simulate a rate whose clusters have rates of their own: drawn from a beta law, and from a latent normal one."""
    exact = exact_width(rate, design.records / (1 + (design.crowding - 1) * within))
    laws = (("beta", beta_rates), ("latent normal", latent_rates)) if within else (("alone", beta_rates),)
    for law, rates in laws:
        own = rates(generator, rate, within, (draws, design.clusters))
        sums = generator.binomial(design.sizes, own).astype(np.float64)
        value = sums.sum(axis=1) / design.records
        moments = moments_from(sums, design, value * (1 - value) / design.records)
        yield from _judge("rate", f"rate {rate} ({law})", moments, sums, design, within, rate, (0.0, 1.0), exact)


def beta_rates(generator: np.random.Generator, rate: float, within: float, shape: tuple[int, int]) -> Floats:
    """Draw the rates of clusters from a beta law, so that two records of one correlate by `within`."""
    if not within:
        return np.full(shape, rate)
    weight = 1 / within - 1
    return np.nan_to_num(generator.beta(rate * weight, (1 - rate) * weight, shape), nan=1.0)


def latent_rates(generator: np.random.Generator, rate: float, within: float, shape: tuple[int, int]) -> Floats:
    """Draw them from a normal law behind a threshold, so that two records of one correlate by `within`."""
    tied = _latent(rate, within)
    drawn: Floats = ndtr((ndtri(rate) - np.sqrt(tied) * generator.standard_normal(shape)) / np.sqrt(1 - tied))
    return drawn


@cache
def _latent(rate: float, within: float) -> float:
    """Return the correlation of normal values that makes those above a threshold correlate by `within`."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    low, high = 0.0, 0.9999
    for _ in range(50):
        tied = (low + high) / 2
        own = ndtr((ndtri(rate) - np.sqrt(tied) * nodes) / np.sqrt(1 - tied))
        seen = ((weights * own * own).sum() / weights.sum() - rate**2) / (rate * (1 - rate))
        low, high = (tied, high) if seen < within else (low, tied)
    return tied


def _of_population(
    generator: np.random.Generator, population: Population, design: Design, within: float, draws: int
) -> Iterator[Outcome]:
    """Simulate values whose places in the population come from normal ones that correlate by `within` in clusters."""
    names = np.repeat(np.arange(design.clusters), design.sizes)
    shared = generator.standard_normal((draws, design.clusters))[:, names]
    own = generator.standard_normal((draws, design.records))
    places = (ndtr(np.sqrt(within) * shared + np.sqrt(1 - within) * own) * len(population.values)).astype(np.int64)
    chosen = np.minimum(places, len(population.values) - 1)
    values = population.values[chosen]
    weights = np.ones(values.shape) if population.weights is None else population.weights[chosen]
    some = weights.sum(axis=1) > 0
    values, weights = values[some], weights[some]
    total = weights.sum(axis=1)
    errors = weights * (values - ((values * weights).sum(axis=1) / total)[:, None])
    starts = np.cumsum([0, *design.sizes[:-1]])
    sums, of_weights = (np.add.reduceat(part, starts, axis=1) for part in (values * weights, weights))
    groups = total**2 / np.square(of_weights).sum(axis=1)
    moments = Moments(
        value=(values * weights).sum(axis=1) / total,
        alone=np.square(errors).sum(axis=1) / total**2,
        together=np.square(np.add.reduceat(errors, starts, axis=1)).sum(axis=1) / total**2,
        clusters=(of_weights > 0).sum(axis=1).astype(np.float64),
        records=total**2 / np.square(weights).sum(axis=1),
        groups=groups,
        magnitude=np.abs(values).mean(axis=1) if population.kind == "difference" else None,
    )
    truth, bounds = population.truth, population.bounds
    given = (moments.clusters >= 2) & np.isfinite(groups)
    yield from _judge(
        population.kind, population.name, moments, sums, design, within, truth, bounds, None, of_weights, given
    )


def moments_from(sums: Floats, design: Design, alone: Floats) -> Moments:
    """Return the moments of samples whose records weigh the same, from the sums of their clusters."""
    value = sums.sum(axis=1) / design.records
    errors = sums - value[:, None] * design.sizes
    groups = design.records / design.crowding
    together = np.square(errors).sum(axis=1) / design.records**2
    return Moments(value, alone, together, float(design.clusters), float(design.records), groups)


def _judge(
    kind: str,
    name: str,
    moments: Moments,
    sums: Floats,
    design: Design,
    within: float,
    truth: float,
    bounds: Bounds,
    exact: float | None,
    weights: Floats | None = None,
    given: NDArray[np.bool_] | None = None,
) -> Iterator[Outcome]:
    """Yield how every method did on the same samples."""
    below = np.broadcast_to(design.sizes.astype(np.float64), sums.shape) if weights is None else weights
    methods: dict[str, tuple[Floats, Floats]] = {
        OURS: bounded_interval(moments, *bounds),
        PERCENTILES: percentiles(sums, below),
        STUDENT: students(moments),
    }
    if kind == "rate":
        methods[WILSON] = kish_wilson(moments)
    for method, (low, high) in methods.items():
        kept = slice(None) if given is None else given
        covered = ((low <= truth + 1e-12) & (truth <= high + 1e-12))[kept].mean()
        width = float((high - low)[kept].mean())
        yield Outcome(kind, name, design, within, method, float(covered), width, exact)


def percentiles(sums: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Return the percentiles of resampled clusters, the same resamples for every sample."""
    clusters = sums.shape[1]
    generator = np.random.default_rng(clusters)
    times = generator.multinomial(clusters, np.full(clusters, 1 / clusters), RESAMPLES).astype(np.float64)
    below = times @ weights.T
    ratios = np.divide(times @ sums.T, below, out=np.zeros(below.shape), where=below > 0)
    low, high = np.percentile(ratios, [2.5, 97.5], axis=0)
    return low, high


def students(moments: Moments) -> tuple[Floats, Floats]:
    """Return Student's interval between clusters."""
    from scipy.special import stdtrit

    clusters = np.asarray(moments.clusters)
    half = stdtrit(clusters - 1, 0.975) * np.sqrt(np.asarray(moments.together) * clusters / (clusters - 1))
    return np.asarray(moments.value) - half, np.asarray(moments.value) + half


def kish_wilson(moments: Moments) -> tuple[Floats, Floats]:
    """Return Wilson's interval at the effective number of records; at that of clusters where all records agree."""
    value, z = np.asarray(moments.value), float(ndtri(0.975))
    records, clusters = float(moments.records), float(moments.clusters)
    alone = value * (1 - value) / (records - 1)
    agree = alone <= 0
    effect = np.maximum(1.0, np.asarray(moments.together) * clusters / (clusters - 1) / np.where(agree, 1.0, alone))
    trials = np.where(agree, clusters, records / effect)
    centre = (value + z * z / (2 * trials)) / (1 + z * z / trials)
    half = z / (1 + z * z / trials) * np.sqrt(value * (1 - value) / trials + z * z / (4 * trials**2))
    return centre - half, centre + half


@cache
def exact_width(rate: float, trials: float) -> float:
    """Return the mean width of Clopper and Pearson's interval; between whole numbers of trials, on the line."""
    lower = int(trials)
    over = trials - lower
    narrow = _exact(rate, lower)
    return narrow if over < 1e-9 else (1 - over) * narrow + over * _exact(rate, lower + 1)


def _exact(rate: float, trials: int) -> float:
    counts = np.arange(trials + 1)
    low = np.where(counts == 0, 0.0, beta_law.ppf(0.025, np.maximum(counts, 0.5), trials - counts + 1))
    high = np.where(counts == trials, 1.0, beta_law.ppf(0.975, counts + 1, np.maximum(trials - counts, 0.5)))
    return float((binom.pmf(counts, trials, rate) * (high - low)).sum())


@dataclass(frozen=True)
class Alarm:
    """In which share of tables of equal runs any p was bold: as printed, and as other families would have it."""

    design: Design
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

    A record is as hard for every run, and each run does by chance better or worse on it; half of the metrics are 0 or 1.
    """
    return [_alarms(np.random.default_rng([seed, 99, *design]), design, draws) for design in designs()]


def _alarms(generator: np.random.Generator, design: Design, draws: int) -> Alarm:
    pairs = [(one, other) for one in range(RUNS) for other in range(one + 1, RUNS)]
    ps = np.empty((draws, len(pairs), METRICS))
    names = np.repeat(np.arange(design.clusters), design.sizes)
    starts = np.cumsum([0, *design.sizes[:-1]])
    for table in range(draws):
        shape = (RUNS, METRICS, design.records)
        hard = generator.standard_normal(design.records) + generator.standard_normal(design.clusters)[names]
        done = generator.standard_normal((RUNS, 1, design.records)) + 0.7 * generator.standard_normal(shape)
        tied = generator.standard_normal((RUNS, 1, design.clusters))[:, :, names]
        scores = ndtr(hard + done + tied - 0.5)
        scores[:, ::2] = scores[:, ::2] > 0.5
        for place, (one, other) in enumerate(pairs):
            ps[table, place] = _ps(scores[one] - scores[other], starts, design)
    flat = ps.reshape(draws, -1)
    whole = np.array([holm_all(row).min() for row in flat])
    each = np.array([min(holm_all(pair).min() for pair in table) for table in ps])
    shares = [float((part <= BOLD).mean()) for part in (whole, each, flat.min(axis=1))]
    return Alarm(design, draws, *shares)


def _ps(apart: Floats, starts: NDArray[np.int64], design: Design) -> Floats:
    """Return the p of each metric as `alps compare` takes it: McNemar's where it is exact, else between clusters."""
    means = apart.mean(axis=1)
    sums = np.add.reduceat(apart - means[:, None], starts, axis=1)
    clusters = design.clusters
    errors = np.sqrt(clusters / (clusters - 1) * np.square(sums).sum(axis=1)) / design.records
    ps = t_tests(means, errors, np.full(len(means), float(clusters)))
    if clusters == design.records:
        wins, losses = (apart[::2] > 0).sum(axis=1), (apart[::2] < 0).sum(axis=1)
        ps[::2] = np.minimum(1.0, 2 * bdtr(np.minimum(wins, losses), wins + losses, 0.5))
    return ps
