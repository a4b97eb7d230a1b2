"""Table of an export: how much was written, and how far labels were anchored."""

from collections.abc import Iterator
from itertools import combinations
from typing import Any

from alps.ext.people.annotate.export import ANNOTATIONS, Exported
from alps.judges.labels import ITEMS
from alps.show.formatting import counted, interval, number


def print_export(done: Exported, console: Any) -> None:
    """Print what was written, anchoring, and what to do next."""
    from rich.table import Table

    parts = [f"{count:,} {name}" for name, count in done.counts.items()]
    console.print(f"{done.folder}: {', '.join(parts)}", soft_wrap=True)
    if done.anchoring:
        titles = "changed after something was shown", "towards it", "interval", "of", "away", "of"
        table = Table(*titles, box=None)
        for name, moved in done.anchoring.items():
            towards, away = moved.towards, moved.away
            figures = number(towards.value), interval(towards), str(towards.n)
            table.add_row(name, *figures, number(away.value), str(away.n))
        console.print(table)
        console.print(
            "Anchoring is the share changed towards it, of first labels that differed from it; "
            "away is the share of those that were the same."
        )
    if done.differing:
        what = counted(done.differing, "item")
        console.print(
            f"{what} differ between people: let somebody else decide with adjudicate=yes",
            soft_wrap=True,
        )
    if done.next:
        console.print(f"Next: {done.next}", soft_wrap=True)
    for named in _compared(done):
        console.print(f"How people agree: alps agreement {named}", soft_wrap=True)


def _compared(done: Exported) -> Iterator[str]:
    """Yield what `alps agreement` takes of an export: gold is compared between each two people."""
    people = sorted((done.folder / ANNOTATIONS).glob("annotator_*.jsonl"))
    if len(people) > 2:
        yield from (f"{first} {second}" for first, second in combinations(people, 2))
    elif len(people) == 2 or (done.people > 1 and (done.folder / ITEMS).is_file()):
        yield str(done.folder)
