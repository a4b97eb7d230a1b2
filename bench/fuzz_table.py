"""What came of the inputs of bench/fuzz.py, counted, and laid out for its table and its section."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from document import Bound, Section


@dataclass
class Tally:
    """What became of the inputs of one reader.

    `failed` has a number and one line for each failing input.
    """

    accepted: int = 0
    refused: int = 0
    seconds: float = 0.0
    failed: list[tuple[int, str]] = field(default_factory=list)

    @property
    def inputs(self) -> int:
        """How many inputs there were."""
        return self.accepted + self.refused + len(self.failed)


def table(tallies: Mapping[str, Tally]) -> Iterator[list[str]]:
    """Yield the heading and the rows of the table."""
    yield ["reader", "inputs", "accepted", "refused", "failed", "seconds"]
    for name, tally in tallies.items():
        counts = (tally.inputs, tally.accepted, tally.refused, len(tally.failed))
        yield [name, *(f"{count:,}" for count in counts), f"{tally.seconds:.1f}"]


def section(cells: list[list[str]], total: Tally, command: str) -> Section:
    """Return the section of the page."""
    text = (
        "Every reader of foreign input is fed with broken files: real ones, mutated byte by byte "
        "or value by value,\nand some made up. It may return a proper result, or refuse the input "
        "in one line that says what is wrong; anything else\nis a failure, for a user would meet "
        "it as a traceback."
    )
    bound = Bound(
        f"failures in {total.inputs:,} inputs", "0", f"{len(total.failed):,}", not total.failed
    )
    return Section("fuzz", "Broken files", text, [bound], command, cells)


def together(tallies: Iterable[Tally]) -> Tally:
    """Add up what became of the inputs of several readers."""
    total = Tally()
    for tally in tallies:
        total.accepted += tally.accepted
        total.refused += tally.refused
        total.seconds += tally.seconds
        total.failed += tally.failed
    return total
