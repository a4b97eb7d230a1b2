"""Agreement of people on labels: how often they say the same, and Krippendorff's alpha."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from alps.annotate.decided import Decided
from alps.annotate.items import Answer, Item
from alps.annotate.memories import FIELDS
from alps.stats.agreement import Label, Scale, rater_estimates
from alps.stats.bootstrap import Estimate

# Confidences are numbers; how people agree on these, and on texts, alps agreement tells.
_COMPARED = ("label", "verdict", *(name for name in FIELDS if name != "confidence"))


@dataclass(frozen=True)
class Agreement:
    """How people agree on one field of a rubric.

    Attributes:
        agreement: The share of pairs of labels of one item that are the same.
        alpha: With its interval over sessions.
        n: How many items have two labels or more.
    """

    n: int
    agreement: float
    alpha: Estimate


def agreements(
    items: Mapping[str, Item], labels: Mapping[str, Decided], scales: Mapping[str, Scale]
) -> dict[str, Agreement]:
    """Estimate the agreement of people by rubric and field, where two labelled the same items."""
    rows: dict[str, list[tuple[str, list[Label | None]]]] = {}
    names = sorted({name for one in labels.values() for name in one.by})
    for item_id, one in labels.items():
        item = items[item_id]
        for field in _fields(item, one.by):
            said = [one.by.get(name, {}).get(field) for name in names]
            of_field = rows.setdefault(f"{item.rubric}: {field}", [])
            of_field.append((item.group, said))
    found = {}
    for name, of_field in rows.items():
        rubric, _, field = name.rpartition(": ")
        ratings = [row for _, row in of_field]
        scale = scales.get(rubric) if field == "label" else None
        done = _agreement(ratings, scale, [group for group, _ in of_field])
        if done is not None:
            found[name] = done
    return found


def _fields(item: Item, by: Mapping[str, Answer]) -> list[str]:
    if item.rubric in ("queries", "missing"):
        return []
    return [name for name in _COMPARED if any(name in answer for answer in by.values())]


def _agreement(
    ratings: Sequence[Sequence[Label | None]], scale: Scale | None, groups: Sequence[str]
) -> Agreement | None:
    """Return the agreement on a field; one without a declared scale has the labels that were given.

    None where no two people labelled the same item.
    """
    same = pairs = shared = 0
    given: dict[Label, None] = {}
    for row in ratings:
        said = [label for label in row if label is not None]
        given |= dict.fromkeys(said)
        shared += len(said) > 1
        for one, other in combinations(said, 2):
            pairs += 1
            same += one == other
    if not pairs:
        return None
    values = tuple(given) if len(given) > 1 else (*given, None)
    declared = scale or Scale("nominal", values)
    return Agreement(shared, same / pairs, rater_estimates(ratings, declared, groups)["alpha"])
