"""What a judge accepts of items that somebody made right or wrong on purpose, kind by kind."""

from typing import Any

from alps.judges.columns import Columns
from alps.judges.pair_figures import rate


def acceptance(data: Columns) -> dict[str, Any] | None:
    """Return, for every kind, its items, how many are rightly accepted, and how many the judge
    accepts.

    `low` and `high` are of the share that it accepts; `unparsed` items, whose verdict can't be
    parsed, are not among the `n`. None where no item is of a kind, or nothing counts as accepted.
    """
    places = [n for n in data.heard if data.items[n].kind is not None]
    if not places or not data.accepted:
        return None
    found: dict[str, Any] = {}
    for kind in sorted({str(data.items[n].kind) for n in places}):
        asked = [n for n in places if data.items[n].kind == kind]
        of_kind = [n for n in asked if data.judge[n] is not None]
        accepted = rate(
            [data.judge[n] in data.accepted for n in of_kind], data.clusters_of(of_kind)
        )
        found[kind] = {
            "n": len(of_kind),
            "right": sum(data.truth[n] in data.accepted for n in of_kind),
            "accepted": sum(data.judge[n] in data.accepted for n in of_kind),
            "low": accepted.low,
            "high": accepted.high,
            "unparsed": len(asked) - len(of_kind),
        }
    return found


def known_wrong(data: Columns) -> dict[str, Any] | None:
    """Return the share of the items made wrong on purpose that the judge accepts.

    None where there are none.
    """
    wrong = [
        n
        for n in data.parsed
        if data.items[n].kind is not None and data.truth[n] not in data.accepted
    ]
    if not wrong or not data.accepted:
        return None
    return rate([data.judge[n] in data.accepted for n in wrong], data.clusters_of(wrong)).row
