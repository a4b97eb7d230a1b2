"""Figures of the work: agreement of people, how narrow the interval is, and anchoring."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from alps.annotate.differences import differing
from alps.annotate.items import Answer, Item, Work
from alps.annotate.journal import people_in
from alps.annotate.questions import KEEP
from alps.annotate.seat import Seat, first_labels
from alps.stats.agreement import Scale
from alps.stats.bootstrap import Estimate, clustered_mean

# Under this many labels an interval may be narrow by chance: nobody is told to stop.
FEWEST = 30


@dataclass(frozen=True)
class Standing:
    """How far the work is, of all people together.

    Attributes:
        agreement: Of two people, on the items that both labelled.
        half: Half the width of the interval of what the labels are for.
        what: What that is.
        differing: How many items people label differently.
    """

    agreement: Estimate | None
    half: float | None
    target: float | None
    what: str
    differing: int

    @property
    def reached(self) -> bool:
        """Whether the interval is as narrow as was asked for."""
        return self.target is not None and self.half is not None and self.half <= self.target


def standing_of(seat: Seat) -> Standing:
    """Return how far the work in the folder of `seat` is."""
    work, said = seat.work, people_in(seat.folder)
    labels = {name: first_labels(rows) for name, rows in said.items()}
    what, half = _half_width(work, labels, seat.scales)
    return Standing(
        agreement=agreement(work, labels),
        half=half,
        target=work.plan.target,
        what=what,
        differing=len(differing(work, said)),
    )


def agreement(work: Work, labels: Mapping[str, Mapping[str, Answer]]) -> Estimate | None:
    """Estimate how often two people agree about an item, over all pairs of people."""
    equal: list[float] = []
    groups: list[str] = []
    for item_id, item in work.items.items():
        main = [_main(of_person[item_id]) for of_person in labels.values() if item_id in of_person]
        if len(main) < 2 or main[0] is None:
            continue
        pairs = [a == b for n, a in enumerate(main) for b in main[n + 1 :]]
        equal.append(sum(pairs) / len(pairs))
        groups.append(item.group)
    return clustered_mean(np.array(equal), groups) if equal else None


def _main(answer: Answer) -> object:
    """Return what an answer comes to: its label, or its verdict."""
    return answer.get("label") if "verdict" not in answer else answer["verdict"]


def _half_width(
    work: Work, labels: Mapping[str, Mapping[str, Answer]], scales: Mapping[str, Scale]
) -> tuple[str, float | None]:
    """Return what the labels are for, and half the width of the widest interval of it by rubric."""
    widest: list[float] = []
    what = _WHAT[work.plan.job]
    by_rubric: dict[str, list[tuple[float, str]]] = {}
    for of_person in labels.values():
        for item_id, answer in of_person.items():
            item = work.items.get(item_id)
            value = None if item is None else _value(item, answer, scales)
            if item is not None and value is not None:
                by_rubric.setdefault(item.rubric, []).append((value, item.group))
    for values in by_rubric.values():
        if len(values) < FEWEST:
            return what, None
        done = clustered_mean(np.array([value for value, _ in values]), [g for _, g in values])
        if done.low is None or done.high is None:
            return what, None
        widest.append((done.high - done.low) / 2)
    return what, max(widest, default=None)


_WHAT = {
    "rate": "how often judge and people agree",
    "match": "how often judge and people agree",
    "gold": "how many memories are kept",
    "queries": "",
}


def _value(item: Item, answer: Answer, scales: Mapping[str, Scale]) -> float | None:
    """Return what a label adds to the figure that it is for; None where it adds nothing."""
    if item.rubric in scales:
        return None if item.shown is None else float(item.shown["label"] == answer["label"])
    if item.rubric == "gold":
        return float(answer["verdict"] == KEEP)
    return None
