"""HaluMem's published rates, from the records behind them.

Source: `aggregate_eval_results` in `eval/evaluation.py` of MemTensor/HaluMem. Each rate is over the
records that have a verdict (`valid` there); F1, as there, is of the figures over all records.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_TARGET = (True, "true", "True")
_SLACK = 5e-5
Rates = Mapping[str, Mapping[str, float]]


def rates_of(
    answers: Sequence[str | None],
    updates: Sequence[str | None],
    kept: Sequence[tuple[bool, int | None, float]],
    stored: Sequence[tuple[bool, int | None]],
) -> dict[str, dict[str, float]]:
    """Return the rates by task and name, as `overall_score` has them; none over no records.

    Args:
        answers: The outcome of each answer in small letters, None without a verdict.
        updates: The same of each update.
        kept: Of each gold memory whether it only distracts, its mark from 0 to 2, its importance.
        stored: Of each stored memory whether gold memories are about it, and its mark.
    """
    real = [(mark, weight) for distracts, mark, weight in kept if not distracts]
    known = [(mark, weight) for mark, weight in real if mark is not None]
    about = [mark for target, mark in stored if target]
    rated = [mark for mark in about if mark is not None]
    marks = [mark for _, mark in stored if mark is not None]
    left = [mark for distracts, mark, _ in kept if distracts and mark is not None]
    whole = sum(mark == 2 for mark, _ in known)
    weights = sum(weight for _, weight in known)
    found: dict[str, dict[str, tuple[float, float]]] = {
        "memory_integrity": {
            "recall(valid)": (whole, len(known)),
            "weighted_recall(valid)": (sum(m * w for m, w in known) / 2, weights),
        },
        "memory_accuracy": {
            "target_accuracy(valid)": (sum(rated) / 2, len(rated)),
            "weighted_accuracy(valid)": (sum(marks) / 2, len(marks)),
            "interference_accuracy(valid)": (sum(mark == 0 for mark in left), len(left)),
        },
        "memory_update": _shares(updates, "{}_update_memory_ratio(valid)", _UPDATES),
        "question_answering": _shares(answers, "{}_qa_ratio(valid)", _UPDATES[:3]),
    }
    rates: dict[str, dict[str, float]] = {}
    for task, own in found.items():
        rates[task] = {name: above / below for name, (above, below) in own.items() if below}
    if (
        real
        and about
        and (recall := whole / len(real)) + (precision := sum(rated) / 2 / len(about))
    ):
        f1 = 2 * precision * recall / (precision + recall)
        rates["memory_accuracy"]["memory_extraction_f1"] = f1
    return rates


_UPDATES = ("correct", "hallucination", "omission", "other")


def _shares(
    outcomes: Sequence[str | None], name: str, known: Sequence[str]
) -> dict[str, tuple[float, float]]:
    valid = [one for one in outcomes if one in known]
    return {name.format(one): (valid.count(one), len(valid)) for one in known}


def lines_of(system: str, rates: Rates) -> Iterator[str]:
    """Yield a line a task with its rates."""
    for task, own in rates.items():
        if own:
            shown = ", ".join(
                f"{name.replace('(valid)', '')} {one:.2%}" for name, one in own.items()
            )
            yield f"{system}: {task}: {shown}"


def contradicted(name: str, said: Mapping[str, Any], rates: Rates) -> Iterator[str]:
    """Yield each rate that a file says of itself, and its records do not give."""
    for task, own in rates.items():
        for rate, value in own.items():
            claims = said if rate == "memory_extraction_f1" else said.get(task)
            claim = claims.get(rate) if isinstance(claims, dict) else None
            if isinstance(claim, int | float) and abs(value - claim) > _SLACK:
                yield (
                    f"{name}: says {claim:.2%} for {task}, {rate}, and its records give {value:.2%}"
                )
