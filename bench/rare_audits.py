"""Simulated audits of rare verdicts: how often corrected rates and differences hold the truth.

Part of `bench/audits.py`. Records are positive at a rate, alone or in sessions of three that
correlate by .3; a cheap judge of a known sensitivity and specificity sees all of them, and a share
is audited. A cell that covers little over its draws is drawn again, five times as often, and the
new figure counts: of hundreds of cells the lowest is else mostly chance.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import NamedTuple

import numpy as np
from document import Bound, Section
from numpy.typing import NDArray

from alps.ext.audits.draws import LEAST
from alps.ext.audits.records import Pairs, corrected_score
from alps.stats.paired import powered_difference

Floats = NDArray[np.float64]
RATES, SIZES, SHARES = (0.01, 0.02, 0.05, 0.1, 0.3, 0.5), (60, 200, 300, 600), (0.05, 0.2, 0.5)
JUDGES = {
    "perfect": (1.0, 1.0),
    "good": (0.9, 0.95),
    "uneven": (0.85, 0.97),
    "lenient": (0.95, 0.8),
    "strict": (0.5, 0.99),
    "chance": (0.5, 0.5),
}
APART = ((0.02, 0.02), (0.02, 0.05), (0.1, 0.1), (0.05, 0.15), (0.3, 0.5))
LOWEST, AGAIN = 0.93, 0.945
SESSION, WITHIN = 3, 0.3
SEED = 20_261
_MEANS = ("covered", "none", "width")


@dataclass(frozen=True)
class RareCell:
    """One setting, and the share of its intervals that held the truth; `none` had no interval."""

    kind: str
    rates: tuple[float, ...]
    records: int
    share: float
    judge: str
    covered: float = 0.0
    none: float = 0.0
    width: float = 0.0

    @property
    def sentence(self) -> str:
        """The setting in words."""
        rates = " and ".join(f"{rate:g}" for rate in self.rates)
        size = f"{self.share:.0%} of {self.records}"
        return f"{rates}, {size}, {self.judge} judge"


class _Interval(NamedTuple):
    low: float | None
    high: float | None


def _sessions(cell: RareCell) -> NDArray[np.int64]:
    size = SESSION if cell.kind == "rate in sessions" else 1
    return np.arange(cell.records) // size


def _truth(
    generator: np.random.Generator, rate: float, sessions: NDArray[np.int64]
) -> NDArray[np.bool_]:
    own = generator.random(len(sessions)) < rate
    of_session = (generator.random(len(sessions)) < rate)[sessions]
    # Both records of a pair follow their session with the root of the correlation's frequency.
    follows = generator.random(len(sessions)) < np.sqrt(WITHIN)
    together = len(sessions) > sessions[-1] + 1
    return np.where(follows & together, of_session, own)


def _cheap(generator: np.random.Generator, truth: NDArray[np.bool_], judge: str) -> Floats:
    hit, spared = JUDGES[judge]
    drawn = generator.random(len(truth))
    return np.where(truth, drawn < hit, drawn >= spared).astype(np.float64)


def _pairs(
    generator: np.random.Generator,
    truth: NDArray[np.bool_],
    cell: RareCell,
    sessions: NDArray[np.int64],
) -> Pairs:
    size = cell.records / (sessions[-1] + 1)
    audited = sessions * size < max(LEAST, cell.share * cell.records)
    values = np.where(audited, truth, np.nan)
    cheap = _cheap(generator, truth, cell.judge)
    return Pairs(cheap, values, audited, sessions.tolist(), (0.0, 1.0))


def _rate(generator: np.random.Generator, cell: RareCell) -> tuple[_Interval, float]:
    sessions = _sessions(cell)
    truth = _truth(generator, cell.rates[0], sessions)
    score = corrected_score(_pairs(generator, truth, cell, sessions))
    return _Interval(score.low, score.high), cell.rates[0]


def _difference(generator: np.random.Generator, cell: RareCell) -> tuple[_Interval, float]:
    sessions = _sessions(cell)
    hard = generator.random(cell.records)
    sides = []
    for rate in cell.rates:
        # What is hard for one system is hard for the other in half of the records.
        own = np.where(generator.random(cell.records) < 0.5, hard, generator.random(cell.records))
        sides.append(_pairs(generator, own < rate, cell, sessions))
    found = powered_difference(*sides[0].less(sides[1])).estimate
    return _Interval(found.low, found.high), cell.rates[0] - cell.rates[1]


Design = Callable[[np.random.Generator, RareCell], tuple[_Interval, float]]
DESIGNS: dict[str, Design] = {
    "rate": _rate,
    "rate in sessions": _rate,
    "difference": _difference,
}


def cells() -> Iterator[RareCell]:
    """Yield all settings."""
    for rate, size, share, judge in product(RATES, SIZES, SHARES, JUDGES):
        yield RareCell("rate", (rate,), size, share, judge)
    for rate, share, judge in product(RATES, SHARES[1:], ("perfect", "good")):
        yield RareCell("rate in sessions", (rate,), 300, share, judge)
    for rates, size, judge in product(APART, (200, 600), ("perfect", "good")):
        yield RareCell("difference", rates, size, 0.2, judge)


def simulated(cell: RareCell, draws: int, seed: Sequence[int]) -> RareCell:
    """Return a setting with what came of `draws` samples."""
    generator = np.random.default_rng(seed)
    held = none = 0
    widths = []
    for _ in range(draws):
        (low, high), truth = DESIGNS[cell.kind](generator, cell)
        if low is None or high is None:
            none += 1
            continue
        held += low <= truth <= high
        widths.append(high - low)
    shares = {"covered": held / max(1, len(widths)), "none": none / draws}
    return replace(cell, **shares, width=float(np.mean(widths or [0.0])))


def simulate_rare(draws: int) -> list[RareCell]:
    """Return every setting with what came of it."""
    rows = []
    for number, cell in enumerate(cells()):
        row = simulated(cell, draws, [SEED, number, 0])
        if row.covered < AGAIN:
            row = simulated(cell, 5 * draws, [SEED, number, 1])
        rows.append(row)
    return rows


def rare_bounds(rows: Sequence[RareCell]) -> list[Bound]:
    """Return what the intervals promise of each kind, and the setting that covers least."""
    bounds = []
    for kind in DESIGNS:
        worst = min((row for row in rows if row.kind == kind), key=lambda row: row.covered)
        measured = f"{worst.covered:.3f} ({worst.sentence})"
        held = worst.covered >= LOWEST
        what = f"audited {kind}: covered in the worst setting"
        bounds.append(Bound(what, f"≥ {LOWEST}", measured, held))
    return bounds


def rare_table(rows: Sequence[RareCell]) -> list[list[str]]:
    """Return a line for each kind and rate: the least and mean coverage and the mean width."""
    table = [["what", "true rate", "settings", "covered", "worst", "no interval", "width"]]
    for kind, rates in dict.fromkeys((row.kind, row.rates) for row in rows):
        own = [row for row in rows if (row.kind, row.rates) == (kind, rates)]
        least = min(row.covered for row in own)
        means = [float(np.mean([getattr(row, name) for row in own])) for name in _MEANS]
        figures = [f"{means[0]:.3f}", f"{least:.3f}", f"{means[1]:.3f}", f"{means[2]:.3f}"]
        title = " and ".join(f"{rate:g}" for rate in rates)
        table.append([kind, title, str(len(own)), *figures])
    return table


def rare_section(rows: Sequence[RareCell], bounds: list[Bound], draws: int) -> Section:
    """Return the section of the page."""
    text = (
        f"How many 95 % intervals of audited rates and differences hold the truth, over {draws:,} "
        f"samples of each of {len(rows)}\nsettings: verdicts of a true rate of .01 to .5 on 60 to "
        f"600 records, 5 to 50 % of them audited, never fewer than {LEAST},\nunder a cheap judge "
        "who is perfect, good (sensitivity .9, specificity .95), uneven (.85, .97), lenient (.95, "
        ".8), strict\n(.5, .99) or guesses. Sessions hold three records that correlate by .3. A "
        f"setting that covers less than {AGAIN} is drawn\nagain, five times as often, and the new "
        "figure counts."
    )
    command = f"python bench/audits.py rare={draws} write=yes"
    title = "Audits of rare verdicts"
    return Section("rare_audits", title, text, bounds, command, rare_table(rows), [])
