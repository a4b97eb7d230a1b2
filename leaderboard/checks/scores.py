"""Every printed number of a track against the one that comes out again from its predictions and
verdicts.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from alps.leaderboard.findings import Findings
from alps.leaderboard.recompute import Recomputed, Rows
from alps.leaderboard.submission import NO_JUDGE, Track
from alps.leaderboard.wording import shown
from alps.run.correction import OTHER_ENDPOINT
from alps.run.engine import NO_GOLD
from alps.schema import UNHEARD

TOLERANCE = 1e-6
SUMMARISED = (
    *(
        "task",
        "n",
        "scored",
        "unscored",
        "failed_predictions",
        "failed_judgements",
        "judge_fingerprint",
    ),
    *("scores", "counts", "floors"),
)
"""The parts of a track's card that are recomputed under the same names."""
MOST_UNSCORED = 0.05
"""A larger share of answers without a score leaves out too much of the split."""
_MEND = "nothing but alps submit should write the card: pack again"
_ABSENT = object()
Difference = tuple[str, Any, Any]


def compare_summary(
    name: str, printed: Mapping[str, Any], found: Recomputed, findings: Findings
) -> int:
    """Compare a track's card, as it stands in the file, with what was recomputed.

    Return how many values were.
    """
    again = {part: found.summary[part] for part in SUMMARISED}
    again["floors"] = {floor: _without(row, "above") for floor, row in again["floors"].items()}
    said = {part: printed[part] for part in SUMMARISED}
    said["scores"] = {metric: _without(row, "corrected") for metric, row in said["scores"].items()}
    for where, one, other in differences(said, again):
        _tell(f"tracks.{name}.{where}", one, other, findings)
    _compare_corrected(name, printed["scores"], found, findings)
    return sum(1 for _ in _leaves(said))


def compare_unjudged(
    name: str, printed: Mapping[str, Any], found: Recomputed, findings: Findings
) -> None:
    """Compare what of a track's card needs no judge: counts, floors, and the metrics that none has
    a part in.
    """
    parts = ("n", "scored", "unscored", "failed_predictions", "failed_judgements")
    scores, again = printed["scores"], found.summary["scores"]
    metrics = [metric for metric in scores if metric in NO_JUDGE]
    said = {part: printed[part] for part in parts} | {
        "scores": {metric: scores[metric] for metric in metrics}
    }
    known = {part: found.summary[part] for part in parts} | {
        "scores": {m: again.get(m) for m in metrics}
    }
    said["floors"] = printed["floors"]
    known["floors"] = {
        floor: _without(row, "above") for floor, row in found.summary["floors"].items()
    }
    for where, one, other in differences(said, known):
        _tell(f"tracks.{name}.{where}", one, other, findings)


def check_silence(name: str, track: Track, findings: Findings) -> None:
    """Refuse a track with too many answers that were not heard or not judged.

    Withheld gold is no such reason, nor is a judge that can tell none of its figures: it stands on
    no board.
    """
    silent = track.unscored - track.failed_judgements.get(NO_GOLD, 0)
    if track.scores and all(score.unscored for score in track.scores.values()):
        silent = sum(track.failed_predictions.get(kind, 0) for kind in UNHEARD)
    if silent > MOST_UNSCORED * track.n:
        failed = [
            (kind, count) for kind, count in track.failed_predictions.items() if kind in UNHEARD
        ]
        failed += [
            (f"judge {kind}", count)
            for kind, count in track.failed_judgements.items()
            if kind != NO_GOLD
        ]
        kinds = ", ".join(f"{shown(kind, 20)} {count:,}" for kind, count in failed)
        most = f"at most {100 * MOST_UNSCORED:.0f} % may lack one"
        what = f"{silent:,} of {track.n:,} answers have no score ({kinds}); {most}"
        findings.serious(
            "silence", f"tracks.{name}.unscored", what, "the same alps run again asks for them"
        )


def compare_means(
    name: str, printed: Mapping[str, Any], again: Mapping[str, Any], findings: Findings
) -> int:
    """Compare what follows from the scores of single answers; return how many values were compared."""
    parts = [part for part in again if part != "scores"]
    said: dict[str, Any] = {part: printed[part] for part in parts}
    there = {
        metric: row for metric, row in printed["scores"].items() if row.get("unscored") is None
    }
    said["scores"] = {
        metric: {part: row[part] for part in ("value", "n")} for metric, row in there.items()
    }
    known = {
        **{part: again[part] for part in parts},
        "scores": {m: again["scores"].get(m) for m in there},
    }
    for where, one, other in differences(said, known):
        _tell(f"tracks.{name}.{where}", one, other, findings)
    return sum(1 for _ in _leaves(said))


def compare_rows(
    name: str, printed: Rows, again: Rows, findings: Findings, *, judged: bool = True
) -> None:
    """Compare the scores of single answers.

    One finding names the first that differs, and counts the others.

    Without `judged`, of answers that were judged only what needs no judge is compared.
    """
    wrong = []
    for key in printed.keys() & again.keys():
        one_row, other_row = (_row_of(row[key], judged) for row in (printed, again))
        found = list(differences(one_row, other_row))
        wrong += [(key, found[0])] if found else []
    if wrong:
        (record, repeat), (where, one, other) = min(wrong)
        again_there = f"#{repeat + 1}" if repeat else ""
        what = f"{where} printed {_figure(one)}, recomputed {_figure(other)}; {len(wrong):,} rows differ in all"
        findings.serious(
            "row_score", f"{name}/scores.jsonl: {shown(record, 40)}{again_there}", what, _MEND
        )


def compare_verdicts(name: str, printed: Rows, again: Rows, findings: Findings) -> None:
    """Compare verdicts with those that the embedded judge gives when it is asked again."""
    parts = ("outcome", "judge", "pairs", "marks", "support", "used")
    wrong = sorted(
        key
        for key in printed.keys() | again.keys()
        if {part: _heart(printed.get(key, {}).get(part)) for part in parts}
        != {part: _heart(again.get(key, {}).get(part)) for part in parts}
    )
    if wrong:
        what = f"{len(wrong):,} verdicts are not what the embedded judge says, the first on {shown(wrong[0][0], 40)}"
        findings.serious(
            "verdict", f"{name}/verdicts.jsonl", what, "submit the verdicts as the run has them"
        )


def differences(said: Any, again: Any, where: str = "") -> Iterator[Difference]:
    """Yield `(where, printed, recomputed)` of all that differs in two trees of plain JSON, numbers
    by `TOLERANCE`.
    """
    if isinstance(said, Mapping) and isinstance(again, Mapping):
        for key in [*said, *(key for key in again if key not in said)]:
            path = f"{where}.{key}" if where else str(key)
            yield from differences(said.get(key, _ABSENT), again.get(key, _ABSENT), path)
    elif _is_number(said) and _is_number(again):
        if abs(said - again) > TOLERANCE:
            yield where, said, again
    elif said != again:
        yield where, said, again


def _compare_corrected(
    name: str, scores: Mapping[str, Any], found: Recomputed, findings: Findings
) -> None:
    for metric, row in scores.items():
        corrected, where = row.get("corrected"), f"tracks.{name}.scores.{metric}.corrected"
        if corrected is None:
            continue
        again = found.corrected.get(metric)
        if again is None or set(again["calibration"].values()) != set(
            corrected["calibration"].values()
        ):
            findings.warn("corrected", where, "not recomputed: its calibration is not known here")
            continue
        rows = (_comparable(corrected), _comparable(again))
        for place, one, other in differences(*rows, where):
            _tell(place, one, other, findings)


def _row_of(row: Mapping[str, Any], judged: bool) -> dict[str, Any]:
    held = {part: row.get(part, {}) for part in ("outcome", "stage", "scores", "counts")}
    if judged or row["stage"] == "generate":
        return held
    scores = {metric: value for metric, value in held["scores"].items() if metric in NO_JUDGE}
    return {"outcome": held["outcome"], "stage": held["stage"], "scores": scores}


def _tell(where: str, printed: Any, again: Any, findings: Findings) -> None:
    findings.serious(
        "score", where, f"printed {_figure(printed)}, recomputed {_figure(again)}", _MEND
    )


def _figure(value: Any) -> str:
    if value is _ABSENT:
        return "nothing"
    return f"{value:.10g}" if isinstance(value, float) else shown(str(value), 60)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _leaves(node: Any) -> Iterator[Any]:
    if isinstance(node, Mapping):
        for child in node.values():
            yield from _leaves(child)
    else:
        yield node


def _without(row: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in row.items() if key != name}


def _comparable(corrected: Mapping[str, Any]) -> dict[str, Any]:
    """Return a corrected score without what can differ: what a file is called, and where the judge
    was reached.
    """
    row = _without(corrected, "calibration")
    return row | {"notes": [note for note in row.get("notes", ()) if note != OTHER_ENDPOINT]}


def _heart(part: Any) -> Any:
    """Return what counts of a verdict's part: reasons and raw texts may be left out."""
    if isinstance(part, Mapping):
        return {
            name: _heart(value)
            for name, value in part.items()
            if name not in ("reason", "raw", "error")
        }
    return [_heart(item) for item in part] if isinstance(part, list) else part
