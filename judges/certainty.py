"""How sure a judge is, and how far that may be believed: reliability, selective use, agreement with
itself.
"""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from alps.judges.columns import Columns
from alps.judges.pair_figures import rate
from alps.stats.annotators import self_agreement
from alps.stats.bootstrap import Estimate, Floats, clustered_mean
from alps.stats.intervals import selective_threshold

BINS = 10
RISK, FAILURE = 0.15, 0.1
"""Of selective use: the highest acceptable share of disagreements, and the probability that the
bound does not hold.
"""


def reliability(data: Columns) -> dict[str, Any]:
    """Return how often people agree to what the judge says, in bins of its probability, else of its
    verdict.

    Probabilities count where most labelled items of a binary rubric have one; `calibration_error`
    is then the mean distance of probability and people's share over the bins, weighted by their
    items. Labels without a mean (three names or more) leave no bins.
    """
    likely = [n for n in data.heard if data.verdicts[n].probability is not None]
    if data.binary and len(likely) > len(data.heard) / 2:
        sure = _probabilities(data, likely)
        places = np.minimum((sure * BINS).astype(int), BINS - 1)
        bins = [
            _bin(data, np.array(likely)[places == b], sure[places == b]) for b in np.unique(places)
        ]
        error = sum(one["n"] * abs(one["judge"] - one["people"]) for one in bins) / len(likely)
        return {"by": "probability", "bins": bins, "calibration_error": error}
    bins = []
    for value in data.scale.values if data.measured else ():
        chosen = [n for n in data.parsed if data.judge[n] == value]
        if chosen:
            said = data.numbers([data.judge[n] for n in chosen])
            bins.append(_bin(data, chosen, said))
    return {"by": "verdict", "bins": bins}


def selective(data: Columns) -> dict[str, Any] | None:
    """Return from which confidence the judge may be believed.

    None where verdicts have no probabilities.

    Confidence is the greater one of the probability and its complement. Where no threshold keeps
    the promise, `reason` stands in the place of the numbers.
    """
    sure = [n for n in data.parsed if data.verdicts[n].probability is not None]
    if not data.binary or not sure:
        return None
    likely = _probabilities(data, sure)
    wrong = np.array([data.judge[n] != data.truth[n] for n in sure], dtype=np.float64)
    found = selective_threshold(np.maximum(likely, 1 - likely), wrong, risk=RISK, failure=FAILURE)
    promised = {"risk": RISK, "failure": FAILURE}
    if found is None:
        return {
            "n": len(sure),
            **promised,
            "reason": f"no confidence keeps disagreements at or under {RISK:g}",
        }
    return {**asdict(found), **promised}


def agreement_with_itself(data: Columns) -> Estimate | None:
    """Estimate how often two of the judge's draws on an item agree; None where no item has two."""
    repeated = [
        n
        for n, verdict in enumerate(data.verdicts)
        if sum(said is not None for said in verdict.draws) > 1
    ]
    if not repeated:
        return None
    width = max(len(data.verdicts[n].draws) for n in repeated)
    codes = np.full((len(repeated), width), np.nan)
    for row, n in enumerate(repeated):
        said = data.scale.codes(data.verdicts[n].draws)
        codes[row, : len(said)] = np.where(said >= 0, said, np.nan)
    return self_agreement(codes, data.clusters_of(repeated))


def _probabilities(data: Columns, places: Sequence[int]) -> Floats:
    return np.array([data.verdicts[n].probability for n in places], dtype=np.float64)


def _bin(data: Columns, places: Sequence[int], said: Floats) -> dict[str, Any]:
    truth = data.numbers([data.truth[n] for n in places])
    clusters = data.clusters_of(places)
    if data.binary:
        people = rate([bool(value) for value in truth], clusters)
    else:
        ends = float(data.scale.numbers.min()), float(data.scale.numbers.max())
        people = clustered_mean(truth, clusters, bounds=ends)
    bounds = {"low": people.low, "high": people.high}
    return {"judge": float(said.mean()), "people": people.value, **bounds, "n": len(places)}
