"""References that a judge must reach: trivial judges, and people, on the same labels."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from alps.calibration.matrix import LabelMatrix, most_frequent, pair_figures, table_figures
from alps.calibration.parts import Reference
from alps.calibration.rows import Value
from alps.similarity import THRESHOLD, similarity
from alps.stats.agreement import Scale
from alps.stats.bootstrap import Estimate

_PAIRWISE = ("1", "2")
_SAME, _UNRELATED = "same", "unrelated"
_Verdicts = list[Value | None]


@dataclass(frozen=True)
class Texts:
    """The texts of a payload that can be read without knowing its rubric; None or empty if absent.

    Attributes:
        response: What is judged.
        references: What it may be compared with: any of them will do.
        outputs: The two that are to be told apart, on a pairwise set.
    """

    response: str | None
    references: tuple[str, ...]
    outputs: tuple[str, str] | None


def texts_of(payload: Mapping[str, Any]) -> Texts:
    """Return an answer and its reference, two outputs, or a gold and a predicted memory."""
    gold, predicted = payload.get("gold"), payload.get("predicted")
    if isinstance(gold, Mapping) and isinstance(predicted, Mapping):
        return Texts(_first(predicted.get("value")), _texts(gold.get("value")), None)
    response = _first(payload.get("response"), payload.get("candidate"))
    references = _texts(payload.get("memory")) or _texts(payload.get("gold_answers"))
    first, second = payload.get("output_1"), payload.get("output_2")
    outputs = None
    if isinstance(first, str) and isinstance(second, str):
        outputs = first, second
    return Texts(response, references, outputs)


def pairwise(scale: Scale) -> bool:
    """Tell whether a scale names the first or the second of two outputs."""
    return tuple(str(value) for value in scale.values) == _PAIRWISE


def references(matrix: LabelMatrix, *, seed: int, draws: int) -> dict[str, Reference]:
    """Return the references `always-met`, `longest`, `lexical` and `people`.

    `always-met` gives the best value to everything: the last one. `longest` and, on scales of more
    than two values, `lexical` hand out people's own values by rank, of length or of similarity, so
    that only the order is at stake. All are measured on the items that people and the judge say
    something of; `people` are each compared with the others, over all items, and `n` counts their
    labels.
    """
    makers: dict[str, Callable[[LabelMatrix], _Verdicts | str]] = {
        "always-met": _always_met,
        "longest": _longest,
        "lexical": _lexical,
    }
    rows: dict[str, Reference] = {}
    verdicts: dict[str, _Verdicts] = {}
    for name, maker in makers.items():
        made = maker(matrix)
        if isinstance(made, str):
            rows[name] = Reference(0, {}, made)
        elif matrix.parsed:
            rows[name], verdicts[name] = Reference(0, {}), made
    truth, clusters = matrix.truth_at(matrix.parsed), matrix.clusters_of(matrix.parsed)
    pairs = [(truth, of_judge) for of_judge in verdicts.values()]
    figures = pair_figures(pairs, matrix.scale, _names(matrix), clusters, seed=seed, draws=draws)
    for name, estimates in zip(verdicts, figures, strict=True):
        rows[name] = _reference(estimates)
    return {**rows, "people": _people(matrix, seed=seed, draws=draws)}


def by_rank(
    values: Sequence[float | None], truth: Sequence[Value | None], scale: Scale
) -> _Verdicts:
    """Hand out the labels of `truth` by the rank of `values`: the greatest gets the last label.

    As many items get each label as people gave it. An item without a value gets None and its label
    is not handed out. Among equal values the earlier item ranks lower.
    """
    ranked = [(value, n) for n, value in enumerate(values) if value is not None]
    codes = sorted(int(code) for code in scale.codes([truth[n] for _, n in ranked]))
    verdicts: _Verdicts = [None] * len(values)
    for code, (_, n) in zip(codes, sorted(ranked), strict=True):
        verdicts[n] = scale.values[code]  # type: ignore[call-overload]
    return verdicts


def _always_met(matrix: LabelMatrix) -> _Verdicts | str:
    # Relations of memories have no order; «same» is the one that counts as met.
    best: Any = _SAME if _relations(matrix.scale) else matrix.scale.values[-1]
    return [best] * len(matrix.parsed)


def _longest(matrix: LabelMatrix) -> _Verdicts | str:
    texts = [texts_of(matrix.items[n].payload) for n in matrix.parsed]
    if pairwise(matrix.scale):
        if not any(text.outputs for text in texts):
            return "no item has output_1 and output_2 in its payload"
        return [_longer(text.outputs, matrix.scale) for text in texts]
    if not matrix.measured:
        return "the values of the scale have no order"
    # Length and similarity have no unit in common with the scale: only their order is used.
    values = [None if text.response is None else float(len(text.response)) for text in texts]
    if values.count(None) == len(values):
        return "no item has a response in its payload"
    return by_rank(values, matrix.truth_at(matrix.parsed), matrix.scale)


def _longer(outputs: tuple[str, str] | None, scale: Scale) -> Any:
    """Return the value that names the longer output; None where both are equally long."""
    if outputs is None or len(outputs[0]) == len(outputs[1]):
        return None
    return scale.values[0 if len(outputs[0]) > len(outputs[1]) else 1]


def _lexical(matrix: LabelMatrix) -> _Verdicts | str:
    relations = _relations(matrix.scale)
    if not matrix.measured and not relations:
        return "the values of the scale have no order"
    values = [_closest(texts_of(matrix.items[n].payload)) for n in matrix.parsed]
    if values.count(None) == len(values):
        return "no item has a response and a reference in its payload"
    if not matrix.binary and matrix.measured:
        return by_rank(values, matrix.truth_at(matrix.parsed), matrix.scale)
    no_yes: Any = (_UNRELATED, _SAME) if relations else matrix.scale.values
    return [None if value is None else no_yes[value >= THRESHOLD] for value in values]


def _people(matrix: LabelMatrix, *, seed: int, draws: int) -> Reference:
    """Compare each person with what the others say of an item; all their labels count together."""
    size = len(matrix.scale.values)
    codes = {value: code for code, value in enumerate(matrix.scale.values)}
    rows, clusters = [], []
    for row, cluster in zip(matrix.people, matrix.clusters, strict=True):
        labels = [label for label in row if label is not None]
        if len(labels) < 2:
            continue
        for n, label in enumerate(labels):
            # Where the others tie each label counts its share: left out, a third opinion that was
            # only asked for where two disagreed would make people look better than they are.
            others = most_frequent(labels[:n] + labels[n + 1 :], matrix.scale)
            table = np.zeros((size, size))
            for other in others:
                table[codes[other], codes[label]] = 1 / len(others)
            rows.append(table.ravel())
            clusters.append(cluster)
    if not rows:
        return Reference(0, {}, "no item was labelled by two people or more")
    (figures,) = table_figures(
        [np.array(rows)], matrix.scale, _names(matrix), clusters, seed=seed, draws=draws
    )
    return _reference(figures)


def _names(matrix: LabelMatrix) -> list[str]:
    if matrix.binary:
        return ["sensitivity", "specificity", "kappa", "agreement"]
    return ["kappa", "agreement", "mae"] if matrix.measured else ["kappa", "agreement"]


def _reference(figures: Mapping[str, Estimate]) -> Reference:
    known = {name: figure for name, figure in figures.items() if figure.value is not None}
    return Reference(figures["agreement"].n, known)


def _closest(texts: Texts) -> float | None:
    """Return the similarity of the response to the nearest reference; None without either."""
    if texts.response is None or not texts.references:
        return None
    return max(similarity(texts.response, reference) for reference in texts.references)


def _relations(scale: Scale) -> bool:
    return scale.kind == "nominal" and {_SAME, _UNRELATED} <= set(scale.values)


def _first(*values: object) -> str | None:
    return next((text for value in values for text in _texts(value)), None)


def _texts(value: object) -> tuple[str, ...]:
    """Return the texts of a text, a memory with a value, or a list of either."""
    if isinstance(value, Mapping):
        return _texts(value.get("value"))
    if isinstance(value, list | tuple):
        return tuple(text for part in value for text in _texts(part))
    return (value,) if isinstance(value, str) else ()
