"""Metrics of annotation in progress: agreement of people, and the interval's width.

Of what the labels are for only the width is shown, never the value: it would be a hint.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from alps.ext.people.annotate.differences import differing
from alps.ext.people.annotate.items import Answer, LabelItem
from alps.ext.people.annotate.journal import people_in
from alps.ext.people.annotate.questions import KEEP
from alps.ext.people.annotate.seat import Seat, first_labels
from alps.stats.bootstrap import Estimate, clustered_mean

# Under this many labels an interval may be narrow by chance: nobody is told to stop.
FEWEST = 30
_Labels = Mapping[str, Mapping[str, Answer]]


@dataclass(frozen=True)
class WorkProgress:
    """How far the work is, of all people together.

    Attributes:
        agreement: Of two people, on the items that both labelled.
        half: Half the width of the interval of what the labels are for; of several rubrics, of the
            one where it is widest.
        target: The half-width that was asked for.
        what: What the labels are for.
        differing: How many items people label differently, and nobody has decided.
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


def standing_of(seat: Seat) -> WorkProgress:
    """Return how far the work in the folder of `seat` is."""
    said = people_in(seat.folder)
    labels = {name: first_labels(rows) for name, rows in said.items()}
    decided: set[str] = set()
    for rows in said.values():
        decided.update(one.item_id for one in rows if one.stage == "adjudicated")
    waiting = [one for one in differing(seat.work, said) if one.item.item_id not in decided]
    judged = any(item.shown is not None for item in seat.work.items.values())
    what = "how often judge and people agree" if judged else "how many are accepted"
    return WorkProgress(
        agreement=agreement(seat.work.items, labels),
        half=_half_width(seat, labels),
        target=seat.work.plan.target,
        what="how many memories are kept" if seat.work.plan.job == "gold" else what,
        differing=len(waiting),
    )


def agreement(items: Mapping[str, LabelItem], labels: _Labels) -> Estimate | None:
    """Estimate how often two people agree about an item, over all pairs of people."""
    equal: list[float] = []
    groups: list[str] = []
    for item_id, item in items.items():
        main = [_main(of_person[item_id]) for of_person in labels.values() if item_id in of_person]
        if len(main) < 2 or main[0] is None:
            continue
        alike = 0
        for place, one in enumerate(main):
            alike += main[place + 1 :].count(one)
        equal.append(alike / (len(main) * (len(main) - 1) / 2))
        groups.append(item.group)
    return clustered_mean(np.array(equal), groups) if equal else None


def _main(answer: Answer) -> object:
    """Return what an answer comes to: its verdict, else its label; None of what is written."""
    return answer.get("verdict", answer.get("label"))


def _half_width(seat: Seat, labels: _Labels) -> float | None:
    """Return half the width of the widest interval, None while there are too few labels for one."""
    by_rubric: dict[str, list[tuple[float, str]]] = {}
    for of_person in labels.values():
        for item_id, answer in of_person.items():
            item = seat.work.items[item_id]
            value = _value(item, answer, seat)
            if value is not None:
                by_rubric.setdefault(item.rubric, []).append((value, item.group))
    widest = 0.0
    for pairs in by_rubric.values():
        values, groups = zip(*pairs, strict=True)
        done = clustered_mean(np.array(values), groups)
        if len(pairs) < FEWEST or done.low is None or done.high is None:
            return None
        widest = max(widest, (done.high - done.low) / 2)
    return widest or None


def _value(item: LabelItem, answer: Answer, seat: Seat) -> float | None:
    """Return what a label adds to the figure that it is for; None where it adds nothing."""
    if item.rubric == "gold":
        return float(answer["verdict"] == KEEP)
    if item.rubric not in seat.scales:
        return None
    if item.shown is not None:
        return float(item.shown["label"] == answer["label"])
    return float(answer["label"] in seat.positive.get(item.rubric, ()))
