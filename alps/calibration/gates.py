"""What a judge must reach to be used, and what keeps it from a pass.

What is too bad is a failure; what is too little to tell is a limit, and so is what must be known to
use the judge well.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from alps.calibration.matrix import Columns
from alps.stats.bootstrap import Estimate

UNSETTLED = 0.05
"""The largest share of items that people leave open without a word about it: the figures are of the
others.
"""
PASS, LIMITS, FAIL = "pass", "limits", "fail"


@dataclass(frozen=True)
class Gates:
    """What a judge must reach; every one of them can be set.

    Attributes:
        items: Labelled items of each class, below which a judge passes with caveats only.
        rate: What sensitivity and specificity must reach; where only their intervals begin below,
            the judge is limited.
        below_people: How far the judge's kappa may be below that of people with each other.
        omega: The share of annotators whom the judge can replace, which stands in for the former.
        unparsed: The largest share of verdicts that can't be parsed.
        heterogeneity: The smallest p of the hypothesis that the judge is as good on every system,
            language and length.
        epsilon: Of the alternative-annotator test: what being cheaper than a person is worth, in
            wins.
        known_wrong: The largest share of known wrong answers that it accepts; where only the
            interval ends above, the judge is limited.
        self_flip: The largest share of pairs of its own draws that contradict each other.
    """

    items: int = 50
    rate: float = 0.75
    below_people: float = 0.10
    omega: float = 0.5
    unparsed: float = 0.02
    heterogeneity: float = 0.01
    epsilon: float = 0.2
    known_wrong: float = 0.10
    self_flip: float = 0.05


GATES = Gates()


def hold(
    data: Columns,
    figures: Mapping[str, Estimate],
    counts: Mapping[str, int],
    details: Mapping[str, Any],
    gates: Gates,
) -> tuple[str, tuple[str, ...]]:
    """Hold what is known of a judge under one rubric against the gates.

    Return its verdict and the reasons for it.
    """
    found = [
        *_classes(data, figures, counts, details, gates),
        *_people(data, figures, details, gates),
        *_itself(figures, counts, gates),
        *_made_wrong(details, gates),
        *_unsettled(data),
        *_groups(details, gates),
    ]
    failures = [reason for grave, reason in found if grave]
    limits = [reason for grave, reason in found if not grave]
    return FAIL if failures else LIMITS if limits else PASS, (*failures, *limits)


def _classes(
    data: Columns,
    figures: Mapping[str, Estimate],
    counts: Mapping[str, int],
    details: Mapping[str, Any],
    gates: Gates,
) -> Iterator[tuple[bool, str]]:
    given = {data.truth[n] for n in data.parsed}
    if len(given) == 1:
        (only,) = given
        untold = "agreement beyond chance"
        if data.binary:
            untold = (
                f"{'specificity' if only == data.scale.values[-1] else 'sensitivity'} and kappa"
            )
        yield False, f"every labelled item is {only}: {untold} can't be told"
    threshold = details.get("at_threshold")
    cells = threshold or counts
    if not data.binary and not threshold and counts["n"] < 2 * gates.items:
        yield False, f"{counts['n']} items, fewer than {2 * gates.items}"
    for name, classes in (("sensitivity", ("tp", "fn")), ("specificity", ("tn", "fp"))):
        estimate = Estimate(**threshold[name]) if threshold else figures.get(name)
        labelled = sum(cells.get(cell, 0) for cell in classes)
        if estimate is None or not labelled:
            continue
        if labelled < gates.items:
            yield False, f"{labelled} items for {name}, fewer than {gates.items}"
        if estimate.value is not None and estimate.value < gates.rate:
            yield True, f"{name} below {gates.rate:g}"
        elif estimate.low is None or estimate.low < gates.rate:
            yield False, f"the interval of {name} reaches below {gates.rate:g}"


def _people(
    data: Columns, figures: Mapping[str, Estimate], details: Mapping[str, Any], gates: Gates
) -> Iterator[tuple[bool, str]]:
    kappa, people = figures["kappa"].value, figures.get("people_kappa")
    omega = (details.get("alternative_annotator") or {}).get("omega")
    if people is None or people.value is None:
        yield False, f"people's agreement with each other is not known: {_why_unknown(data)}"
        return
    said = f"(kappa {people.value:.2f})".replace("0.", ".", 1)
    if people.value <= 0:
        yield False, f"people agree with each other no better than by chance {said}"
    elif people.low is None:
        yield False, "too few items to tell how far people agree"
    elif people.low <= 0:
        yield False, f"people may agree no better than by chance {said}"
    replaces = omega is not None and omega >= gates.omega
    below = kappa is None or kappa < people.value - gates.below_people
    if below and not replaces and len({data.truth[n] for n in data.parsed}) > 1:
        yield True, f"kappa more than {gates.below_people:g} below people's with each other"


def _why_unknown(data: Columns) -> str:
    if not data.names:
        return "the labels are derived, none is a person's own"
    if len(data.names) == 1:
        return f"only {data.names[0]} labelled these items"
    if all(sum(label is not None for label in row) < 2 for row in data.people):
        return "no two people labelled the same item"
    return "those who labelled the same items gave one and the same label to all"


def _itself(
    figures: Mapping[str, Estimate], counts: Mapping[str, int], gates: Gates
) -> Iterator[tuple[bool, str]]:
    if counts["unparsed"] > gates.unparsed * (counts["n"] + counts["unparsed"]):
        yield True, f"more than {gates.unparsed:.0%} of the verdicts can't be parsed"
    same = figures.get("self_agreement")
    if same is not None and same.value is not None and 1 - same.value > gates.self_flip:
        yield (
            True,
            f"two of its draws contradict each other in {1 - same.value:.1%}, more than {gates.self_flip:.0%}",
        )


def _made_wrong(details: Mapping[str, Any], gates: Gates) -> Iterator[tuple[bool, str]]:
    share = details.get("known_wrong")
    if share is None:
        return
    if share["value"] > gates.known_wrong:
        yield (
            True,
            f"accepts {share['value']:.0%} of the items made wrong on purpose, more than {gates.known_wrong:.0%}",
        )
    elif share["high"] is None or share["high"] > gates.known_wrong:
        yield (
            False,
            f"may accept more than {gates.known_wrong:.0%} of the items made wrong on purpose",
        )


def _unsettled(data: Columns) -> Iterator[tuple[bool, str]]:
    tied, items = len(data.tied), len(data.items)
    if tied > UNSETTLED * items:
        yield (
            False,
            f"people tie on {tied} of {items} items ({tied / items:.0%}): the figures are of the others alone",
        )


def _groups(details: Mapping[str, Any], gates: Gates) -> Iterator[tuple[bool, str]]:
    for name, test in details["heterogeneity"].items():
        if test["p"] < gates.heterogeneity:
            yield False, f"not equally good on every {name} (p = {test['p']:.2g})"
