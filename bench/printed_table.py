"""The table of the coverage of printed figures, and its bounds."""

from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import fill

from document import Bound
from printed import FALSE_ALARMS, LEAST, MEAN, OURS, WIDEST, Alarm, Layout, Outcome


@dataclass(frozen=True)
class Printed:
    """What came of the samples of printed figures, and of tables of equal runs."""

    outcomes: Sequence[Outcome]
    alarms: Sequence[Alarm]
    notes: Sequence[str]

    def of(self, method: str, **parts: object) -> list[Outcome]:
        """Return the outcomes of a method; `parts` are fields that they have."""
        rows = [row for row in self.outcomes if row.method == method]
        return [
            row for row in rows if all(getattr(row, name) == part for name, part in parts.items())
        ]

    def bounds(self) -> list[Bound]:
        """Return what printed intervals and p promise, and what came of it."""
        rows = self.of(OURS)
        least, wide = min(rows, key=lambda row: row.covered), self.widths()
        mean, widest = covered(rows), max(wide, key=lambda layout: wide[layout])
        ratios, loudest = relative(rows), max(self.alarms, key=lambda alarm: alarm.printed)
        told = f"{loudest.printed:.3f} (s.e. {loudest.error:.3f}; {loudest.layout})"
        allowed = loudest.printed <= FALSE_ALARMS
        return [
            Bound(
                "scores: covered in the worst setting",
                f"≥ {LEAST}",
                f"{least.covered:.3f}",
                least.covered >= LEAST,
            ),
            Bound("scores: covered on average", f"≥ {MEAN}", f"{mean:.3f}", mean >= MEAN),
            Bound(
                "rates: width beside the exact one's",
                f"≤ {WIDEST}",
                f"{ratios:.2f}",
                ratios <= WIDEST,
            ),
            Bound(
                f"the same, {widest}", f"≤ {WIDEST}", f"{wide[widest]:.2f}", wide[widest] <= WIDEST
            ),
            Bound("tables of equal runs with a bold p", f"≤ {FALSE_ALARMS}", told, allowed),
        ]

    def widths(self) -> dict[Layout, float]:
        """Return for each layout how wide rates' intervals are beside the exact one's."""
        layouts = dict.fromkeys(row.layout for row in self.of(OURS, kind="rate"))
        return {layout: relative(self.of(OURS, kind="rate", layout=layout)) for layout in layouts}


def covered(rows: Sequence[Outcome]) -> float:
    """Return the mean share of samples that were covered."""
    return sum(row.covered for row in rows) / len(rows)


def relative(rows: Sequence[Outcome]) -> float:
    """Return the mean width beside Clopper and Pearson's, over the rates among the rows."""
    ratios = [row.width / row.exact for row in rows if row.exact]
    return sum(ratios) / len(ratios)


def show_printed(found: Printed, draws: int) -> None:
    """Print in 80 columns how printed intervals did, by kind and layout, and equal runs."""
    print(f"Printed figures, {draws:,} samples a setting\n\n{'':40}covers  lowest  width/exact")
    for kind in dict.fromkeys(row.kind for row in found.outcomes):
        for method in dict.fromkeys(row.method for row in found.outcomes if row.kind == kind):
            rows = found.of(method, kind=kind)
            wide = f"{relative(rows):.2f}" if rows[0].exact else ""
            least = min(row.covered for row in rows)
            print(f"  {f'{kind}, {method}':38}{covered(rows):6.3f}{least:8.3f}{wide:>13}")
    print("\nOurs by sizes; last the widest of one rate and correlation")
    for layout, width in found.widths().items():
        rows = found.of(OURS, layout=layout)
        widest = max(row.width / row.exact for row in rows if row.exact)
        least = min(rows, key=lambda row: row.covered)
        print(f"  {layout!s:38}{covered(rows):6.3f}{least.covered:8.3f}{width:13.2f}{widest:9.2f}")
    print("\nLeast covered")
    for row in sorted(found.of(OURS), key=lambda row: row.covered)[:5]:
        print(
            fill(
                f"{row.covered:.3f}  {row.where}",
                80,
                initial_indent="  ",
                subsequent_indent="         ",
            )
        )
    print("\nThree equal runs with a bold p: as printed, a family a pair, not corrected")
    for alarm in found.alarms:
        print(f"  {alarm.layout!s:38}{alarm.printed:6.3f}{alarm.a_pair_each:8.3f}{alarm.raw:8.3f}")
    print()
    for note in found.notes:
        print(fill(f"{note}.", 80))
    print()
