"""Baselines are ours: whoever goes by the name of one must answer as it does, record by record."""

from collections.abc import Iterator

from alps.errors import AlpsError
from alps.event_loop import run_loop
from alps.leaderboard.checks.rows import named
from alps.leaderboard.findings import Findings, some_of
from alps.leaderboard.recompute import Key, Rows
from alps.leaderboard.submission import Submission
from alps.leaderboard.truth import Truth
from alps.leaderboard.wording import shown
from alps.schema import Prediction
from alps.systems import EMBEDDED, System, resolve_system
from alps.systems.embedded import RETRIEVERS
from alps.text import fold_loosely

_FLOOR = "floor/"
_WORDS = frozenset({"baseline", "baselines", "floor", "floors", "oracle", "ceiling"})
_RENAME = "submit it under the name of your system, as alps submit knows it"


def is_baseline(card: Submission) -> bool:
    """Tell whether a card says that its system is a floor or the oracle, which boards show apart
    and never rank.
    """
    return card.system.kind == "floor" or card.system.model.startswith(_FLOOR)


def is_embedded(model: str) -> bool:
    """Tell whether a system goes by the name of one of the package's own."""
    return any(model in names for names in (*EMBEDDED.values(), RETRIEVERS)) or model.startswith(
        _FLOOR
    )


def check_baseline_name(card: Submission, findings: Findings) -> None:
    """Refuse a name that calls a system a baseline which by its model is none."""
    words = fold_loosely(card.name).replace("/", " ").replace("-", " ").replace(":", " ").split()
    if words and words[0] in _WORDS and not is_baseline(card):
        what = f"{shown(card.name)} calls itself a baseline, and its model is {shown(card.system.model)}"
        findings.serious("baseline", "name", what, _RENAME)


def check_baseline(
    name: str, card: Submission, truth: Truth | None, rows: Rows, findings: Findings
) -> None:
    """Hold the answers of a system that goes by one of our names against those that it gives here.

    Boards show floors apart, and take from them what a score is worth: answers that are not theirs
    are refused. Of other systems of ours, as `rules`, a difference is a warning.

    Args:
        name: The track.
        card: The submission.
        truth: The records of the track; None where they are not here.
        rows: The predictions.
        findings: Takes what is found.
    """
    model = card.system.model
    if not is_embedded(model):
        return
    if truth is None:
        findings.unchecked.append(f"{name}: whether {shown(model)} answers so, without its records")
        return
    add = findings.serious if is_baseline(card) else findings.warn
    try:
        system = resolve_system(model, truth.task)
    except AlpsError as error:
        if is_baseline(card):
            add("baseline", f"{name}: system.model", shown(str(error), 160), _RENAME)
        else:
            findings.unchecked.append(
                f"{name}: whether {shown(model)} answers so; it can't run here"
            )
        return
    if other := list(_differing(system, truth, rows)):
        what = f"{len(other):,} answers are not those of {shown(model)} in this version: {some_of(map(named, other))}"
        add("baseline", f"{name}/predictions.jsonl", what, _RENAME)


def _differing(system: System, truth: Truth, rows: Rows) -> Iterator[Key]:
    """Yield the answers that a system of ours does not give."""
    by_record: dict[str, list[Key]] = {}
    for key in rows:
        by_record.setdefault(key[0], []).append(key)
    for sample in truth.samples:
        if keys := by_record.get(sample.benchmark_id):
            own = run_loop(system.answer(truth.task, sample))
            given = ((key, rows[key]) for key in keys)
            yield from (
                key for key, row in given if (row["outcome"], row.get("prediction")) != _said(own)
            )


def _said(own: Prediction) -> tuple[str, object]:
    return own.outcome, own.prediction
