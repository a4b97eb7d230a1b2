"""What a calibration lays open beside its figures: the scale, the confusion, pairs of raters, the
items themselves.

All of it is plain data as it stands in `calibration.json`, for pages that draw it and corrections
that use it.
"""

from itertools import combinations
from typing import Any

from alps.judges.columns import Columns
from alps.judges.pair_figures import pair_figures
from alps.stats.agreement import pair_table

PAIRS = 15


def particulars(data: Columns, *, seed: int, draws: int) -> dict[str, Any]:
    """Return clusters, scale, confusion, pairs of raters and labelled items as they stand in
    `calibration.json`.

    A labelled item is a list of its id, its cluster, what people say, what the judge says, and the
    mean of the people's labels, which is there even where they don't settle the item. Items made
    right or wrong on purpose are not listed:
    nothing may be corrected by them. `sample` says how the items were drawn; nothing is known of
    that here.
    """
    values = list(data.scale.values)
    made = any(item.kind is not None for item in data.items)
    return {
        "clusters": len(set(data.clusters)),
        "scale": {"kind": data.scale.kind, "values": values},
        "confusion": {"values": values, "counts": _counts(data)},
        "pairs": _pairs(data, seed=seed, draws=draws),
        "labelled": [
            list(row)
            for row in zip(
                [item.item_id for item in data.items],
                data.clusters,
                data.truth,
                data.judge,
                data.means,
                strict=True,
            )
            if not made
        ],
        "sample": None,
    }


def _counts(data: Columns) -> list[list[int]]:
    table = pair_table(
        [data.truth[n] for n in data.parsed], [data.judge[n] for n in data.parsed], data.scale
    )
    return [[int(count) for count in row] for row in table]


def _pairs(data: Columns, *, seed: int, draws: int) -> list[dict[str, Any]]:
    """Return the kappas of the judge with people and of people with each other, of the pairs with
    most in common.

    After them come pairs with labels that are no single person's, which say so: `single` is false.
    """
    columns = {name: [row[place] for row in data.people] for place, name in enumerate(data.names)}
    given = {
        name: {n for n, label in enumerate(column) if label is not None}
        for name, column in columns.items()
    }
    said = {n for n, label in enumerate(data.judge) if label is not None}
    alone = [((data.judge_name, name, True), len(said & given[name])) for name in data.names]
    both = [
        ((one, other, False), len(given[one] & given[other]))
        for one, other in combinations(data.names, 2)
    ]
    chosen = [
        pair
        for group in (alone, both)
        for pair, shared in sorted(group, key=lambda found: -found[1])[:PAIRS]
        if shared
    ]
    names = list(data.beside)
    derived = [(data.judge_name, name, True) for name in names] + [
        (*pair, False) for pair in combinations(names, 2)
    ]
    columns |= {name: list(column) for name, column in data.beside.items()}
    raters = [
        (data.judge if judge else columns[one], columns[other])
        for one, other, judge in [*chosen, *derived]
    ]
    found = pair_figures(raters, data.scale, ["kappa"], data.clusters, seed=seed, draws=draws)
    return [
        {
            "one": one,
            "other": other,
            "judge": judge,
            "single": place < len(chosen),
            "kappa": figures["kappa"].row,
        }
        for place, ((one, other, judge), figures) in enumerate(
            zip([*chosen, *derived], found, strict=True)
        )
    ]
