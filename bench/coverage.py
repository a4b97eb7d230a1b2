"""Simulate how often printed intervals hold the truth, and how often equal runs differ.

    python bench/coverage.py [draws=2000] [write=yes]

Samples are drawn of what runs print: rates of .5 to .99, F1 resampled from recorded models (beside
the checkout, or beside what `ALPS_SAMPLE` names), values with a mass at 0 or 1, marks of 1 to 5,
ratios of sums and paired differences, on 8 to 300 records, alone and in 5 to 40 sessions whose
records correlate by 0 to .7. Prints how many 95 % intervals hold the truth, on average and in the
worst setting, and how wide those of rates are beside Clopper and Pearson's at the effective number
of records; then in how many tables of three equal runs `alps compare` would print a bold p.

Exits 1 where intervals cover less often than the bounds say, are wider, or equal runs are told
apart more often; `write=yes` writes the section of bench/RESULTS.md.
"""

import sys
from collections.abc import Iterator, Sequence
from math import sqrt

import printed
from document import Bound, Section, at_least, at_most, finish
from printed import Alarm, Outcome
from words import read_words, whole

SEED = 20_251
HEAD = ["what", "settings", "on average", "s.e.", "in the worst setting", "width"]
TEXT = """
How many of the 95 % intervals that runs print hold the truth, over simulated samples of each
setting: rates of .5 to .99, F1 resampled from recorded models, masses at 0 or 1, marks of 1 to 5,
ratios of sums and differences, on 8 to 300 records, alone and in 5, 11 or 40 sessions whose
records correlate by 0, .3 or .7. The width is beside that of Clopper and Pearson's interval at
the effective number of records. A table of equal runs has three runs and four metrics.
"""


def covered(rows: Sequence[Outcome]) -> float:
    """Return the mean share of samples that were covered."""
    return sum(row.covered for row in rows) / len(rows)


def relative(rows: Sequence[Outcome]) -> float:
    """Return the mean width beside Clopper and Pearson's, over the rates among the rows."""
    ratios = [row.width / row.exact for row in rows if row.exact]
    return sum(ratios) / len(ratios)


def bounds(rows: Sequence[Outcome], alarms: Sequence[Alarm]) -> Iterator[Bound]:
    """Yield what printed intervals and p promise, and what came of it."""
    least = min(row.covered for row in rows)
    yield at_least("scores: covered in the worst setting", printed.LEAST, least, "{:.3f}")
    yield at_least("scores: covered on average", printed.MEAN, covered(rows), "{:.3f}")
    rates = [row for row in rows if row.kind == "rate"]
    yield at_most("rates: width beside the exact one's", printed.WIDEST, relative(rates), "{:.2f}")
    wide = {}
    for layout in dict.fromkeys(row.layout for row in rates):
        wide[layout] = relative([row for row in rates if row.layout == layout])
    widest = max(wide, key=lambda layout: wide[layout])
    yield at_most(f"the same, {widest}", printed.WIDEST, wide[widest], "{:.2f}")
    loudest = max(alarms, key=lambda alarm: alarm.printed)
    form = f"{{:.3f}} (s.e. {loudest.error:.3f}; {loudest.layout})"
    held = at_most("", printed.FALSE_ALARMS, loudest.printed, form)
    what = "tables of equal runs with a bold p"
    yield Bound(what, f"≤ {printed.FALSE_ALARMS}", held.measured, held.held)


def table(rows: Sequence[Outcome]) -> Iterator[list[str]]:
    """Yield the heading and a row for each kind of figure."""
    yield HEAD
    for kind in dict.fromkeys(row.kind for row in rows):
        own = [row for row in rows if row.kind == kind]
        variance = sum(row.covered * (1 - row.covered) / row.samples for row in own)
        least = min(own, key=lambda row: row.covered)
        figures = [f"{covered(own):.3f}", f"{sqrt(variance) / len(own):.4f}"]
        wide = f"{relative(own):.2f}" if own[0].exact else "–"
        worst = f"{least.covered:.3f} ({least.where})"
        yield [f"printed {kind}s", f"{len(own):,}", *figures, worst, wide]


def main() -> None:
    """Simulate, print, and compare with the bounds."""
    words = read_words(sys.argv[1:], {"draws": "2000"})
    draws = whole(words, "draws")
    rows, notes = printed.simulate_printed(draws, SEED)
    promised = list(bounds(rows, printed.simulate_tables(draws, SEED)))
    command = f"python bench/coverage.py draws={draws} write=yes"
    cells = list(table(rows))
    section = Section("coverage", "Coverage of intervals", TEXT, promised, command, cells, notes)
    finish(section, write=words["write"])


if __name__ == "__main__":
    main()
