"""Table of an export: how much was written, and how far labels were anchored."""

from collections.abc import Iterator
from itertools import combinations
from typing import Any

from alps.ext.calibration.labels import ITEMS
from alps.ext.people.annotate.export import ANNOTATIONS, Exported
from alps.show.formatting import counted
from alps.show.table import Table, named, printed, row_of, scored, ungrouped, with_interval


def print_export(done: Exported, console: Any) -> None:
    """Print what was written, anchoring, and what to do next."""
    parts = [f"{count:,} {name}" for name, count in done.counts.items()]
    console.print(f"{done.folder}: {', '.join(parts)}", soft_wrap=True)
    if done.anchoring:
        titles = (
            "changed after the judge or draft was shown",
            "towards it",
            "interval",
            "of",
            "away",
            "of",
        )
        rows = []
        for name, moved in done.anchoring.items():
            towards, away = moved.towards, moved.away
            cells = *with_interval(towards), ungrouped(towards.n), scored(away), ungrouped(away.n)
            rows.append(row_of(name, *cells))
        console.print(*printed([Table("", list(map(named, titles)), rows, layout="plain")]))
        console.print(
            "towards it: share of first labels that people changed towards the label shown, among "
            "first labels that differed from the label shown; away: share of first labels that "
            "people changed, among first labels that equalled the label shown."
        )
    if done.differing:
        what = counted(done.differing, "item")
        console.print(
            f"Annotators differ on {what}: a third person decides with adjudicate=yes",
            soft_wrap=True,
        )
    if done.next:
        console.print(f"Next: {done.next}", soft_wrap=True)
    for words in _compared(done):
        console.print(f"Agreement: alps annotate agreement {words}", soft_wrap=True)


def _compared(done: Exported) -> Iterator[str]:
    """Yield the words of `alps annotate agreement` for an export: gold in pairs of people."""
    people = sorted((done.folder / ANNOTATIONS).glob("annotator_*.jsonl"))
    if len(people) > 2:
        yield from (f"{first} {second}" for first, second in combinations(people, 2))
    elif len(people) == 2 or (done.people > 1 and (done.folder / ITEMS).is_file()):
        yield str(done.folder)
