"""Simulate how often printed intervals hold the truth, and how often equal runs differ.

Python bench/coverage.py.

    python bench/coverage.py [draws=N] [out=FILE] [write=yes]

First what runs print: rates of .5 to .99, F1 resampled from recorded models (beside the checkout,
or beside what `ALPS_SAMPLE` names), values with a mass at 0 or 1, marks of 1 to 5, ratios of sums
and paired differences, on 8 to 300 records, alone and in 5 to 40 sessions whose records correlate
by 0 to .7. Prints how many 95 % intervals hold the truth, on average and in the worst setting, and
how wide those of rates are beside Clopper and Pearson's at the effective number of records; then in
how many tables of three equal runs `alps compare` would print a bold p.

Then corrected scores: for each setting and method, how often a 95 % interval covers the true rate,
with the standard error of the simulation; the same among the intervals given; their mean width; how
often the method gives none, which counts as a miss; and how often a value or bound is outside [0,
1]. Methods that runs don't use stand beside ours, marked `x`: the judge's rate as it is, a
bootstrap of the labels alone, and PPI++ with the normal interval of its authors. A second table
does the same where items come in clusters. `audits=yes` does what `bench/audits.py` does instead.

Exits 1 where one of our methods covers less often than the bounds say, is wider, or equal runs are
told apart more often; `out` writes the figures as JSON, and `write=yes` the section of
docs/benchmarks.md.
"""

import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from math import sqrt
from pathlib import Path
from textwrap import fill
from typing import Annotated, NamedTuple

import audits
import numpy as np
from document import Bound, Section, write_section
from numpy.typing import NDArray
from printed import (
    OURS,
    simulate_printed,
    simulate_tables,
)
from printed_table import Printed, covered, show_printed
from pydantic import BaseModel, ConfigDict, Field

from alps.errors import UsageError
from alps.parsing import parse_words
from alps.stats.bootstrap import Floats, ratio
from alps.stats.corrections import Correction, clustered_rogan_gladen, ppi, rogan_gladen
from alps.stats.intervals import Confusion, confusion, wilson

EACH, AVERAGE = 0.92, 0.94
SEED, RESAMPLES = 20_251, 1_000
CLUSTER, TOGETHER = 5, 0.2
NAIVE, LABELS_ALONE = "x judge's rate as it is", "x labels resampled alone"

Flags = NDArray[np.bool_]
Names = NDArray[np.int64]


class Words(BaseModel):
    """What the bench can be told."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    draws: Annotated[int, Field(ge=1, description="simulated samples a setting")] = 2_000
    out: Annotated[str | None, Field(description="a JSON file for the figures")] = None
    audits: Annotated[bool, Field(description="audits of recorded answers, and nothing else")] = (
        False
    )
    write: Annotated[bool, Field(description="write the section of docs/benchmarks.md")] = False


@dataclass(frozen=True)
class Setting:
    """The truth that a sample is drawn from, and its sizes."""

    theta: float
    sensitivity: float
    specificity: float
    labelled: int
    judged: int

    def __str__(self) -> str:
        rates = (
            f"true rate {self.theta}, sensitivity {self.sensitivity}, specificity "
            f"{self.specificity}"
        )
        return f"{rates}; {self.labelled} labels, {self.judged:,} judged"


SETTINGS = (
    Setting(0.7, 0.9, 0.85, 100, 200),
    Setting(0.7, 0.9, 0.85, 100, 2_000),
    Setting(0.7, 0.9, 0.85, 300, 300),
    Setting(0.9, 0.9, 0.70, 100, 500),
    Setting(0.7, 0.97, 0.95, 500, 200),
)


class Interval(NamedTuple):
    """What a method says of one sample; bounds of None where it says nothing."""

    low: float | None
    high: float | None
    outside: bool = False


@dataclass(frozen=True)
class Figures:
    """How a method did over all samples of a setting.

    `error` is the standard error of `coverage`, `none` the share of samples without an interval,
    which count as not covered; `given` is the coverage of the others and `width` their mean width,
    None where there are none.
    """

    coverage: float
    error: float
    given: float | None
    width: float | None
    none: float
    outside: float


Intervals = dict[str, Interval]
Design = Callable[[np.random.Generator, Setting], Intervals]


def counted(generator: np.random.Generator, setting: Setting, count: int) -> Confusion:
    """Draw `count` independent labelled items with their verdicts."""
    theta, hit, spared = setting.theta, setting.sensitivity, setting.specificity
    shares = [theta * hit, theta * (1 - hit), (1 - theta) * (1 - spared), (1 - theta) * spared]
    tp, fn, fp, tn = generator.multinomial(count, shares).tolist()
    return Confusion(tp=tp, fn=fn, fp=fp, tn=tn)


def carried_over(generator: np.random.Generator, setting: Setting) -> Intervals:
    """Correct by error rates that were measured elsewhere, at the same base rate.

    The two bad methods do, too.
    """
    labelled, judged = (
        counted(generator, setting, size) for size in (setting.labelled, setting.judged)
    )
    positives = judged.tp + judged.fp
    raw = wilson(positives, setting.judged)
    return {
        "Rogan-Gladen": _interval(rogan_gladen(positives, setting.judged, labelled)),
        NAIVE: Interval(raw.low, raw.high),
        LABELS_ALONE: labels_alone(generator, positives / setting.judged, labelled),
    }


def same_population(generator: np.random.Generator, setting: Setting) -> Intervals:
    """Correct by labels on a random sample of the items that the judge scored."""
    cells, judged = (
        counted(generator, setting, size) for size in (setting.labelled, setting.judged)
    )
    counts = [cells.tp, cells.fn, cells.fp, cells.tn]
    people, judge = np.repeat([1.0, 1.0, 0.0, 0.0], counts), np.repeat([1.0, 0.0, 1.0, 0.0], counts)
    others = np.repeat([1.0, 0.0], [judged.tp + judged.fp, judged.fn + judged.tn])
    return {
        "PPI++ normal (Student's)": _interval(ppi(people, judge, others, _alone(people, others))),
        "x PPI++ normal, as published": _interval(ppi(people, judge, others)),
        "PPI++ score": _interval(ppi(people, judge, others, interval="score")),
    }


def labels_alone(generator: np.random.Generator, rate: float, labelled: Confusion) -> Interval:
    """Return the percentile interval over resampled labels, as if the judge's rate had no noise.

    Too narrow.

    Resamples that lack a class, or in which the judge is no better than a guess, are left out.
    """
    cells = np.array([labelled.tp, labelled.fn, labelled.fp, labelled.tn])
    tp, fn, fp, tn = generator.multinomial(labelled.n, cells / labelled.n, size=RESAMPLES).T.astype(
        np.float64
    )
    spared = ratio(tn, tn + fp)
    values = ratio(rate + spared - 1, ratio(tp, tp + fn) + spared - 1)
    values = values[~np.isnan(values)]
    if not len(values):
        return Interval(None, None)
    low, high = np.percentile(values, [2.5, 97.5]).tolist()
    return Interval(low, high, low < 0 or high > 1)


def clustered_items(
    generator: np.random.Generator, setting: Setting, count: int
) -> tuple[Flags, Flags, Names]:
    """Draw `count` items in clusters of five, with labels and verdicts.

    Each cluster has a base rate, a sensitivity and a specificity of its own, drawn from beta
    distributions around those of the setting; two items of a cluster correlate by 0.2 in each.
    Within a setting's truth they are independent of each other, so that the judge's rates over all
    items are still those of the setting.
    """
    names = np.arange(count) // CLUSTER
    weight = 1 / TOGETHER - 1

    def rates(mean: float) -> Floats:
        drawn: Floats = generator.beta(mean * weight, (1 - mean) * weight, names[-1] + 1)
        return drawn[names]

    truth = generator.random(count) < rates(setting.theta)
    hit = generator.random(count) < rates(setting.sensitivity)
    spared = generator.random(count) < rates(setting.specificity)
    return truth, np.where(truth, hit, ~spared), names


def clustered(generator: np.random.Generator, setting: Setting) -> Intervals:
    """Correct clustered items by each method, with and without saying what belongs together."""
    truth, judge, names = clustered_items(generator, setting, setting.labelled)
    _, said, others = clustered_items(generator, setting, setting.judged)
    others += names[-1] + 1
    by_name = clustered_rogan_gladen(
        said.tolist(), others.tolist(), truth.tolist(), judge.tolist(), names.tolist()
    )
    alone = rogan_gladen(int(said.sum()), len(said), confusion(truth.tolist(), judge.tolist()))
    found = {"Rogan-Gladen": _interval(by_name), "x unclustered": _interval(alone)}
    everyone = clustered_items(generator, setting, setting.labelled + setting.judged)
    scattered = generator.permutation(len(everyone[0]))
    for label, order in (
        ("whole clusters", np.arange(len(scattered))),
        ("items anywhere", scattered),
    ):
        chosen, rest = order[: setting.labelled], order[setting.labelled :]
        truth, said, names = everyone
        parts = [part.astype(np.float64) for part in (truth[chosen], said[chosen], said[rest])]
        groups = (names[chosen].tolist(), names[rest].tolist())
        found[f"PPI++ score, {label}"] = _interval(
            ppi(parts[0], parts[1], parts[2], groups, interval="score")
        )
        found[f"x unclustered, {label}"] = _interval(
            ppi(parts[0], parts[1], parts[2], interval="score")
        )
    return found


def simulate(
    designs: Sequence[Design], setting: Setting, *, draws: int, seed: Sequence[int]
) -> dict[str, Figures]:
    """Return the figures of every method of `designs`, over `draws` samples."""
    found: dict[str, list[Interval]] = {}
    for number, design in enumerate(designs):
        generator = np.random.default_rng([*seed, number])
        for _ in range(draws):
            for method, interval in design(generator, setting).items():
                found.setdefault(method, []).append(interval)
    return {method: figures(intervals, setting.theta) for method, intervals in found.items()}


def simulate_all(
    designs: Sequence[Design], draws: int, *, part: int
) -> dict[Setting, dict[str, Figures]]:
    """Return the figures of `designs` under every setting, random numbers drawn by `part`."""
    return {
        setting: simulate(designs, setting, draws=draws, seed=[SEED, part, number])
        for number, setting in enumerate(SETTINGS)
    }


def figures(intervals: Sequence[Interval], theta: float) -> Figures:
    """Summarise the intervals that a method gave where `theta` is true."""
    given = [(low, high) for low, high, _ in intervals if low is not None and high is not None]
    count = len(intervals)
    held = sum(low <= theta <= high for low, high in given)
    return Figures(
        coverage=held / count,
        error=sqrt(held * (count - held) / count) / count,
        given=held / len(given) if given else None,
        width=sum(high - low for low, high in given) / len(given) if given else None,
        none=1 - len(given) / count,
        outside=sum(interval.outside for interval in intervals) / count,
    )


def average(table: dict[Setting, dict[str, Figures]], method: str) -> tuple[float, float]:
    """Return the mean coverage of a method over the settings, and its standard error."""
    rows = [found[method] for found in table.values()]
    return sum(row.coverage for row in rows) / len(rows), sqrt(
        sum(row.error**2 for row in rows)
    ) / len(rows)


def misses(table: dict[Setting, dict[str, Figures]]) -> list[str]:
    """Name the settings where our methods cover less than the bounds.

    Methods that do so on average are named, too.
    """
    said = []
    for method in (method for method in next(iter(table.values())) if not method.startswith("x ")):
        rows = {setting: found[method] for setting, found in table.items()}
        low = {setting: row for setting, row in rows.items() if row.coverage < EACH}
        said += [
            f"{method}: {row.coverage:.3f} (s.e. {row.error:.4f}) at {setting}"
            for setting, row in low.items()
        ]
        mean, error = average(table, method)
        if mean < AVERAGE:
            said.append(f"{method}: {mean:.3f} (s.e. {error:.4f}) on average")
    return said


def show(title: str, table: dict[Setting, dict[str, Figures]]) -> None:
    """Print a table of 80 columns: a block a setting, then what each method covers on average."""
    print(f"{title}\n\n{'':34}covers   s.e.   given  width    none outside")
    for setting, found in table.items():
        print(setting)
        for method, row in found.items():
            given, width = (
                "    –" if figure is None else f"{figure:.3f}" for figure in (row.given, row.width)
            )
            print(
                f"  {method:32}{row.coverage:6.3f}{row.error:7.4f}{given:>8}{width:>7}"
                f"{row.none:8.2%}{row.outside:8.2%}"
            )
    print("All settings")
    for method in next(iter(table.values())):
        mean, error = average(table, method)
        least = min(found[method].coverage for found in table.values())
        print(f"  {method:32}{mean:6.3f}{error:7.4f}   lowest {least:.3f}")
    print()


def say(title: str, lines: Sequence[str]) -> None:
    """Print lines under a title, wrapped to 80 columns."""
    print(f"{title}:")
    for line in lines:
        print(fill(line, 80, initial_indent="  ", subsequent_indent="    "))


def bounds(table: dict[Setting, dict[str, Figures]]) -> list[Bound]:
    """Return what our methods promise for independent items, and what came of it."""
    found = []
    for method in (method for method in next(iter(table.values())) if not method.startswith("x ")):
        least = min(rows[method].coverage for rows in table.values())
        mean, error = average(table, method)
        measured = f"{mean:.3f} (s.e. {error:.4f})"
        found += [
            Bound(
                f"{method}: covered in the worst setting",
                f"≥ {EACH}",
                f"{least:.3f}",
                least >= EACH,
            ),
            Bound(f"{method}: covered on average", f"≥ {AVERAGE}", measured, mean >= AVERAGE),
        ]
    return found


def section(
    parts: dict[str, dict[Setting, dict[str, Figures]]], printed: Printed, draws: int
) -> Section:
    """Return the section of the page."""
    models = len(
        {row.population for row in printed.of(OURS) if row.population.startswith("F1 of ")}
    )
    text = (
        f"How many of the 95 % intervals that runs print hold the truth, over {draws:,} simulated "
        f"samples of each\nsetting: rates of .5 to .99, F1 resampled from {models} recorded "
        "models, masses at 0 or 1, marks of 1 to 5, ratios of\nsums and differences, on 8 to 300 "
        "records, alone and in 5, 11 or 40 sessions whose records correlate by 0, .3 or .7. The\n"
        "width is beside that of Clopper and Pearson's interval at the effective number of "
        "records. A table of equal runs has\nthree runs and four metrics. Then how many intervals "
        f"of corrected scores hold the true rate, in each of {len(SETTINGS)}\nsettings of true "
        "rate, sensitivity, specificity and sizes; their bounds are for independent items. Methods "
        f"marked x are\nnot used; in clusters of {CLUSTER}, items correlate by {TOGETHER}."
    )
    cells = [["items", "method", "on average", "s.e.", "in the worst setting"]]
    for method in dict.fromkeys(row.method for row in printed.outcomes):
        for kind in dict.fromkeys(row.kind for row in printed.of(method)):
            rows = printed.of(method, kind=kind)
            error = sqrt(sum(row.covered * (1 - row.covered) / row.samples for row in rows)) / len(
                rows
            )
            least = min(row.covered for row in rows)
            cells.append(
                [f"printed {kind}s", method, f"{covered(rows):.3f}", f"{error:.4f}", f"{least:.3f}"]
            )
    for items, table in parts.items():
        for method in next(iter(table.values())):
            mean, error = average(table, method)
            least = min(rows[method].coverage for rows in table.values())
            cells.append([items, method, f"{mean:.3f}", f"{error:.4f}", f"{least:.3f}"])
    promised = [*printed.bounds(), *bounds(parts["independent"])]
    command = f"python bench/coverage.py draws={draws} write=yes"
    return Section(
        "coverage", "Coverage of intervals", text, promised, command, cells, list(printed.notes)
    )


def record(table: dict[Setting, dict[str, Figures]]) -> list[dict[str, object]]:
    """Return a table as JSON has it."""
    return [
        {**asdict(setting), "methods": {method: asdict(row) for method, row in found.items()}}
        for setting, found in table.items()
    ]


def main() -> None:
    """Simulate, print, and compare with the bounds."""
    try:
        words = parse_words(sys.argv[1:], Words)
        if words.out and not Path(words.out).absolute().parent.is_dir():
            raise UsageError(f"out={words.out}: its folder is not there")
    except UsageError as error:
        print(f"coverage: {error}", file=sys.stderr)
        sys.exit(2)
    if words.audits:
        sys.argv[1:] = [word for word in sys.argv[1:] if not word.startswith("audits=")]
        audits.main()
        return
    started = time.perf_counter()
    outcomes, notes = simulate_printed(words.draws, SEED)
    printed = Printed(outcomes, simulate_tables(words.draws, SEED), notes)
    show_printed(printed, words.draws)
    alone = simulate_all((carried_over, same_population), words.draws, part=0)
    together = simulate_all((clustered,), words.draws, part=1)
    print(f"How many of {words.draws:,} samples' 95 % intervals hold the true rate; x: not used\n")
    show("Independent items", alone)
    show(
        f"Items in clusters of {CLUSTER}, correlated by {TOGETHER} in truth and in the judge's "
        "errors",
        together,
    )
    unkept = [bound.sentence for bound in printed.bounds() if not bound.held]
    say("Bounds for printed figures", unkept or ["kept"])
    missed, shown = misses(alone), misses(together)
    say(
        f"Bounds for independent items, {EACH} in each setting and {AVERAGE} on average",
        missed or ["kept"],
    )
    say("In clusters the same bounds, which decide nothing here, are missed by", shown or ["none"])
    print(f"{time.perf_counter() - started:.0f} s")
    if words.out:
        rows = {
            "draws": words.draws,
            "seed": SEED,
            "independent": record(alone),
            "clustered": record(together),
        }
        rows |= {
            "printed": [asdict(row) for row in outcomes],
            "tables": [asdict(row) for row in printed.alarms],
        }
        text = json.dumps({**rows, "missed": [*unkept, *missed]}, indent=2)
        Path(words.out).write_text(f"{text}\n", encoding="utf-8")
    if words.write:
        write_section(
            section({"independent": alone, "in clusters": together}, printed, words.draws)
        )
    if missed or unkept:
        sys.exit(1)


def _alone(people: Floats, others: Floats) -> tuple[range, range]:
    """Return clusters of one item each.

    The variance is then that of a sample, and quantiles are Student's.
    """
    return range(len(people)), range(len(people), len(people) + len(others))


def _interval(found: Correction) -> Interval:
    return Interval(found.low, found.high, found.outside)


if __name__ == "__main__":
    main()
