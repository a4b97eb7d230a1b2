"""Judges that know nothing, and people themselves, held against the same labels: what a judge must
beat, and reach.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from alps.calibration.labels import Scale, Value
from alps.calibration.matrix import Columns, most_say, pair_figures, table_figures
from alps.similarity import THRESHOLD, similarity
from alps.stats.bootstrap import Estimate

_PAIRWISE = ("1", "2")
_SAME, _UNRELATED = "same", "unrelated"
_Verdicts = list[Value | None]


@dataclass(frozen=True)
class Texts:
    """What of an item's payload can be read without knowing its rubric.

    None or empty where it isn't there.

    Attributes:
        response: What is judged.
        references: What it may be compared with: any of them will do.
        outputs: The two that are to be told apart, on a pairwise set.
    """

    response: str | None
    references: tuple[str, ...]
    outputs: tuple[str, str] | None


def texts_of(payload: Mapping[str, Any]) -> Texts:
    """Return the texts of a payload: an answer and its reference, two outputs, or a gold and a
    predicted memory.
    """
    gold, predicted = payload.get("gold"), payload.get("predicted")
    if isinstance(gold, Mapping) and isinstance(predicted, Mapping):
        return Texts(_first(predicted.get("value")), _texts(gold.get("value")), None)
    response = _first(payload.get("response"), payload.get("candidate"))
    references = _texts(payload.get("memory")) or _texts(payload.get("gold_answers"))
    first, second = payload.get("output_1"), payload.get("output_2")
    outputs = (first, second) if isinstance(first, str) and isinstance(second, str) else None
    return Texts(response, references, outputs)


def pairwise(scale: Scale) -> bool:
    """Whether a scale names the first or the second of two outputs."""
    return tuple(str(value) for value in scale.values) == _PAIRWISE


def references(data: Columns, *, seed: int, draws: int) -> dict[str, dict[str, Any]]:
    """Return `always-met`, `longest`, `lexical` and `people` as they stand in `calibration.json`.

    `always-met` gives the best value to everything: the last one. `longest` and, on scales of more
    than two values, `lexical` hand out people's own values by rank, of length or of similarity, so
    that only the order is at stake. All stand on the items that people and the judge say something
    of; `people` are each held against the others, over all items, and `n` counts their labels. What
    can't be told has a `reason` and no number.
    """
    makers: dict[str, Callable[[Columns], _Verdicts | str]] = {
        "always-met": _always_met,
        "longest": _longest,
        "lexical": _lexical,
    }
    made = {name: maker(data) for name, maker in makers.items()}
    said = {name: verdicts for name, verdicts in made.items() if not isinstance(verdicts, str)}
    truth, clusters = [data.truth[n] for n in data.parsed], data.clusters_of(data.parsed)
    names = _names(data)
    pairs = [(truth, verdicts) for verdicts in said.values()]
    found = (
        pair_figures(pairs, data.scale, names, clusters, seed=seed, draws=draws) if truth else []
    )
    rows = {name: _row(figures) for name, figures in zip(said, found, strict=False)}
    rows |= {
        name: {"n": 0, "reason": reason} for name, reason in made.items() if isinstance(reason, str)
    }
    return {
        **{name: rows[name] for name in makers if name in rows},
        "people": _people(data, seed=seed, draws=draws),
    }


def by_rank(
    values: Sequence[float | None], truth: Sequence[Value | None], scale: Scale
) -> _Verdicts:
    """Hand out the labels of `truth` by the rank of `values`: the greatest value gets the last
    label on the scale.

    As many items get each label as people gave it. An item without a value gets None and its label
    is not handed out. Among equal values the earlier item ranks lower.
    """
    held = [n for n, value in enumerate(values) if value is not None]
    codes = sorted(int(code) for code in scale.codes([truth[n] for n in held]))
    said: _Verdicts = [None] * len(values)
    for code, n in zip(codes, sorted(held, key=lambda n: values[n] or 0.0), strict=True):
        said[n] = scale.values[code]  # type: ignore[call-overload]
    return said


def _always_met(data: Columns) -> _Verdicts | str:
    # Relations of memories have no order; «same» is the one that counts as met.
    best: Any = _SAME if _relations(data.scale) else data.scale.values[-1]
    return [best] * len(data.parsed)


def _longest(data: Columns) -> _Verdicts | str:
    texts = [texts_of(data.items[n].payload) for n in data.parsed]
    if pairwise(data.scale):
        first, second = data.scale.values
        lengths = [text.outputs and (len(text.outputs[0]), len(text.outputs[1])) for text in texts]
        if not any(lengths):
            return "no item has output_1 and output_2 in its payload"
        # Of two equally long outputs none is the longer one.
        longer: list[Any] = [
            None if not pair or pair[0] == pair[1] else first if pair[0] > pair[1] else second
            for pair in lengths
        ]
        return longer
    if not data.measured:
        return "the values of the scale have no order"
    values = [None if text.response is None else float(len(text.response)) for text in texts]
    if all(value is None for value in values):
        return "no item has a response in its payload"
    return by_rank(values, [data.truth[n] for n in data.parsed], data.scale)


def _lexical(data: Columns) -> _Verdicts | str:
    if not data.measured and not _relations(data.scale):
        return "the values of the scale have no order"
    values = [_closest(texts_of(data.items[n].payload)) for n in data.parsed]
    if all(value is None for value in values):
        return "no item has a response and a reference in its payload"
    if not data.binary and data.measured:
        return by_rank(values, [data.truth[n] for n in data.parsed], data.scale)
    yes: Any = _SAME if _relations(data.scale) else data.scale.values[-1]
    no: Any = _UNRELATED if _relations(data.scale) else data.scale.values[0]
    return [None if value is None else yes if value >= THRESHOLD else no for value in values]


def _people(data: Columns, *, seed: int, draws: int) -> dict[str, Any]:
    """Hold each person against what the others say of an item; all persons' labels count together.

    Where the others' names tie each counts its share: left out, a third opinion that was only asked
    for where two people disagreed would make people look better than they are.
    """
    size = len(data.scale.values)
    places = {value: place for place, value in enumerate(data.scale.values)}
    rows, clusters = [], []
    for labels, cluster in zip(data.people, data.clusters, strict=True):
        given = [label for label in labels if label is not None]
        for place, label in enumerate(given if len(given) > 1 else []):
            table = np.zeros((size, size))
            others = most_say(given[:place] + given[place + 1 :], data.scale)
            table[[places[other] for other in others], places[label]] = 1 / len(others)
            rows.append(table.ravel())
            clusters.append(cluster)
    if not rows:
        return {"n": 0, "reason": "no item was labelled by two people or more"}
    names = _names(data)
    return _row(
        table_figures([np.array(rows)], data.scale, names, clusters, seed=seed, draws=draws)[0]
    )


def _names(data: Columns) -> list[str]:
    rates = ["sensitivity", "specificity"] if data.binary else []
    return [*rates, "kappa", "agreement", *(["mae"] if data.measured and not data.binary else [])]


def _row(figures: Mapping[str, Estimate]) -> dict[str, Any]:
    rows = {name: figure.row for name, figure in figures.items() if figure.value is not None}
    return {"n": figures["agreement"].n, **rows}


def _closest(texts: Texts) -> float | None:
    """Return how similar the response is to the reference that it is most similar to.

    None without either.
    """
    if texts.response is None or not texts.references:
        return None
    return max(similarity(texts.response, reference) for reference in texts.references)


def _relations(scale: Scale) -> bool:
    return scale.kind == "nominal" and {_SAME, _UNRELATED} <= set(scale.values)


def _first(*given: object) -> str | None:
    return next((text for value in given for text in _texts(value)), None)


def _texts(given: object) -> tuple[str, ...]:
    """Return the texts of a text, a memory with a value, or a list of either."""
    if isinstance(given, Mapping):
        return _texts(given.get("value"))
    if isinstance(given, list | tuple):
        return tuple(text for part in given for text in _texts(part))
    return (given,) if isinstance(given, str) else ()
