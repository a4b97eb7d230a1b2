"""Who labels what, in which order: by the seed alone, so that every page comes to the same."""

from collections import Counter
from collections.abc import Sequence

from alps.ext.calibration.sample import rank
from alps.ext.people.annotate.items import LabelItem, LabelPlan, Work


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
