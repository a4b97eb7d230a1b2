"""A person's way through the items: what comes next, and what becomes of what they say.

Who labels what, in which order, follows from the seed alone, so that every page comes to the same.
"""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from alps.errors import UsageError
from alps.ext.calibration.agreement import LabelScale
from alps.ext.calibration.label_rows import Value
from alps.ext.calibration.labels import SCALE, read_scales
from alps.ext.calibration.part import export_command, how_to_correct_f1, purpose_of
from alps.ext.calibration.sample import rank
from alps.ext.people.annotate import (
    ADD,
    Answer,
    LabelForm,
    LabelItem,
    LabelPlan,
    Work,
    form_of,
    open_work,
    read_answer,
)
from alps.ext.people.annotate.labels import (
    GivenLabel,
    LabelDifference,
    LabelJournal,
    Stage,
    before_shown,
    by_item,
    differing,
    people_in,
)

_NOBODY = "me"  # the default of as=


@dataclass(frozen=True)
class Step:
    """One showing of an item.

    Attributes:
        place: Its place in this person's order, from 1.
        rows: How many labels of it were on disk when it was shown: where there are more by now,
            another tab of the same person has labelled it.
        said: The label that the form starts with.
        shown: What the judge or the draft says, where it may be seen.
        others: The labels to be decided between, without names.
        in_another_tab: What another tab said of it meanwhile; nothing, where none did.
    """

    item: LabelItem
    form: LabelForm
    stage: Stage
    place: int
    rows: int
    said: Answer | None = None
    shown: Answer | None = None
    others: tuple[Answer, ...] = ()
    in_another_tab: Answer | None = None


class Seat:
    """One person at a folder, who labels, or decides what others labelled differently.

    Raises:
        UsageError: If the person is not among those who label, or labels already.
    """

    def __init__(self, folder: Path, person: str, *, adjudicate: bool = False) -> None:
        self.work: Work = open_work(folder)
        self.person, self.adjudicate = person, adjudicate
        self.scales: Mapping[str, LabelScale] = {}
        self.positive: Mapping[str, frozenset[Value]] = {}
        if (folder / SCALE).is_file():
            self.scales, self.positive = read_scales(folder / SCALE)
        plan = self.work.plan
        if not adjudicate:
            plan.check_person(person)
        # Who labelled would vote a second time on their own label.
        if adjudicate and person in people_in(folder) and by_item(people_in(folder)[person]):
            fault = f"{person} has labelled items here; another person must adjudicate"
            raise UsageError(f"as={person}: {fault}")
        self._journal = LabelJournal(folder, person)
        self._since: tuple[str, float] = ("", 0.0)
        rulings = [one for one in self._journal.said if one.stage == "adjudicated"]
        self._rulings = {one.item_id: one.answer for one in rulings}
        self._own = {name: [*said] for name, said in by_item(self._journal.said).items()}
        self._showings = {one.showing for one in self._journal.said if one.showing}
        self._set_order(self._to_decide() if adjudicate else order_for(self.work, person))

    @property
    def folder(self) -> Path:
        """Where the items and the journals are."""
        return self.work.folder

    def refresh(self) -> None:
        """Look again at what others labelled differently."""
        self._set_order(self._to_decide())

    def _to_decide(self) -> list[LabelItem]:
        return [one.item for one in self._differing()]

    def _set_order(self, order: Sequence[LabelItem]) -> None:
        self.order = order
        self._places = {item.item_id: place for place, item in enumerate(order, start=1)}
        self._done = {item.item_id for item in order if self._is_done(item)}

    def _differing(self) -> list[LabelDifference]:
        return differing(self.work, people_in(self.folder))

    @property
    def done(self) -> int:
        """How many items are finished."""
        return len(self._done)

    def has_labelled(self, rubric: str) -> bool:
        """Tell whether this person has labelled an item of a rubric."""
        return any(one.rubric == rubric and self._own.get(one.item_id) for one in self.order)

    def _is_done(self, item: LabelItem) -> bool:
        if self.adjudicate:
            return item.item_id in self._rulings
        said = self._own.get(item.item_id, ())
        if not said or said[-1].answer.get("verdict") == ADD:
            return False
        # Unfinished until it was also seen with judge or draft: anchoring is measured between both
        # labels.
        hidden = self.work.plan.blind and item.shown is not None
        return not hidden or any(one.shown for one in said)

    def next(self) -> Step | None:
        """Return the first item that is not finished, None where all are."""
        for place, item in enumerate(self.order, start=1):
            if item.item_id not in self._done:
                return self._step(item, place)
        return None

    def at(self, place: int) -> Step | None:
        """Return the item at a place, finished or not; None where there is no such place."""
        if not 1 <= place <= len(self.order):
            return None
        return self._step(self.order[place - 1], place)

    def _step(self, item: LabelItem, place: int) -> Step:
        # Reloading the page does not start the clock again.
        if self._since[0] != item.item_id:
            self._since = (item.item_id, time.monotonic())
        form = form_of(item, self.scales)
        if self.adjudicate:
            others = {one.item.item_id: one.answers for one in self._differing()}
            ruling, others_say = self._rulings.get(item.item_id), others.get(item.item_id, ())
            rows = int(ruling is not None)
            return Step(item, form, "adjudicated", place, rows, ruling, others=others_say)
        said = self._own.get(item.item_id, [])
        seen = item.shown if said or not self.work.plan.blind else None
        if not said or said[-1].answer.get("verdict") == ADD:
            return Step(item, form, "first", place, len(said), shown=seen)
        return Step(item, form, "revised", place, len(said), said[-1].answer, seen)

    def say(
        self, item_id: str, rows: int, given: Mapping[str, str], showing: str = ""
    ) -> Step | None:
        """Put a label on disk, and return what comes next.

        Where another tab has labelled the item meanwhile, both labels are kept and the item comes
        once more. A form that is sent again, after a reply that was lost, is written once.

        Args:
            item_id: The item.
            rows: How many labels of it were on disk when its form was shown.
            given: The form.
            showing: The name of this showing of the form, which no other has.

        Raises:
            UsageError: If the label does not fit the item; one sentence.
            OSError: If it can't be written.
        """
        if item_id not in self._places:
            raise UsageError("This item is not assigned to you")
        place = self._places[item_id]
        item = self.order[place - 1]
        step = self._step(item, place)
        if showing in self._showings:
            return self.next()
        answer = dict(read_answer(step.item, step.form, given))
        said = GivenLabel(
            item_id=item_id,
            stage=step.stage,
            answer=answer,
            shown=step.shown is not None,
            seconds=round(time.monotonic() - self._since[1], 1),
            at=datetime.now(UTC).isoformat(timespec="seconds"),
            showing=showing,
        )
        self._journal.append(said)
        self._keep(item, said)
        if step.rows > rows and step.said is not None:
            return replace(self._step(item, place), in_another_tab=step.said)
        return self.next()

    def _keep(self, item: LabelItem, said: GivenLabel) -> None:
        self._since = ("", 0.0)
        if said.showing:
            self._showings.add(said.showing)
        if self.adjudicate:
            self._rulings[said.item_id] = said.answer
        else:
            self._own.setdefault(said.item_id, []).append(said)
        if self._is_done(item):
            self._done.add(item.item_id)

    def close(self) -> None:
        """Let the person sit down elsewhere."""
        self._journal.close()


def first_labels(said: Sequence[GivenLabel]) -> dict[str, Answer]:
    """Return by item what one person said before anything was shown."""
    labels: dict[str, Answer] = {}
    for item_id, of_item in by_item(said).items():
        if (one := before_shown(of_item)) is not None:
            labels[item_id] = one.answer
    return labels


def order_for(work: Work, person: str) -> list[LabelItem]:
    """Return the items of a person; those of one session follow each other.

    Where those who label are named, each group of items goes to `annotators` of them, and all have
    about as many; else whoever comes labels everything, in an order of their own. For an audit all
    follow the order of the drawing: who stops early leaves a smaller share.
    """
    groups: dict[str, list[LabelItem]] = {}
    for item in work.items.values():
        groups.setdefault(item.group, []).append(item)
    plan = work.plan
    if plan.people:
        assigned = _assign([*groups], plan)
        groups = {name: items for name, items in groups.items() if person in assigned[name]}
    ordered: list[LabelItem] = []
    names = [*groups]
    if plan.audit is None:
        names.sort(key=lambda name: rank(plan.seed, person, name))
    for name in names:
        ordered += groups[name]
    return ordered


def _assign(names: Sequence[str], plan: LabelPlan) -> dict[str, tuple[str, ...]]:
    """Return the people of each group: always those with the fewest so far, ties by the seed."""
    load: Counter[str] = Counter()
    assigned = {}
    for name in sorted(names, key=lambda name: rank(plan.seed, "", name)):
        ranked = sorted(
            plan.people, key=lambda person: (load[person], rank(plan.seed, person, name))
        )
        assigned[name] = tuple(ranked[: plan.annotators])
        load.update(assigned[name])
    return assigned


def lines_at_start(seat: Seat) -> list[str]:
    """Return what a person reads before the first label."""
    plan = seat.work.plan
    lines: list[str] = []
    if plan.job in ("rate", "match"):
        pairs, audit = plan.job == "match", plan.audit is not None
        judged = any(item.shown is not None for item in seat.work.items.values())
        lines.append(purpose_of(plan.source, pairs=pairs, audit=audit, judged=judged))
        if pairs and not audit:
            person = "" if seat.person == _NOBODY else seat.person
            lines.append(how_to_correct_f1(plan.source, person))
    return [*lines, f"When the items are labelled: {export_command(seat.folder)}"]
