"""Every printed number of a track against the one recomputed from its predictions and verdicts."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from alps.leaderboard.checks import Findings
from alps.leaderboard.checks.rows import named
from alps.leaderboard.parts import CORRECTED, needed
from alps.leaderboard.recompute import Key, Recomputed, Rows
from alps.leaderboard.submission import PublishedTrack, without
from alps.leaderboard.untrusted import is_number, shown
from alps.rows import Corrected
from alps.run.engine import NO_GOLD
from alps.schema import UNHEARD
from alps.show.formatting import counted
from alps.tasks import Task

# Sums of floats differ in their last digits from machine to machine.
TOLERANCE = 1e-6
# The parts of a track's card that are recomputed under the same names.
_COUNTS = ("n", "scored", "unscored", "failed_predictions", "failed_judgements")
SUMMARISED = ("task", *_COUNTS, "judge_fingerprint", "scores", "counts", "floors", "tokens_shown")
# A larger share of answers without a score leaves out too much of the split.
MOST_UNSCORED = 0.05
_FIX = "only alps leaderboard submit may write a submission: pack again"
_ABSENT = object()
# Texts beside figures: versions of alps word them differently, and only that they are there counts.
_WORDS = ("unscored", "reason", "method")
# Trivial baselines that cards of earlier versions lack.
_LATER = frozenset({"floor/excerpts"})


def compare_summary(
    name: str, printed: Mapping[str, Any], again: Recomputed, findings: Findings
) -> None:
    """Compare a track of the card, as written, with the recomputed one."""
    scores = printed["scores"]
    card = _only(printed, SUMMARISED)
    # A corrected score hangs on calibrations, which need not be known here: it is compared below.
    card["scores"] = _each_without(scores, "corrected")
    summary = _only(again.summary.row(), SUMMARISED) | {"floors": _floors(again, printed)}
    report_differences(f"tracks.{name}", card, summary, findings)
    for metric, score in scores.items():
        where = f"tracks.{name}.scores.{metric}.corrected"
        if (corrected := score.get("corrected")) is not None:
            _compare_corrected(where, corrected, again.corrected.get(metric), findings)


def compare_unjudged(
    task: Task, printed: Mapping[str, Any], again: Recomputed, findings: Findings
) -> None:
    """Compare what of a track's card needs no judge: counts, baselines, metrics without a judge."""
    card = _only(printed, (*_COUNTS, "floors", "tokens_shown"))
    metrics = [metric for metric in printed["scores"] if metric in task.unjudged]
    card["scores"] = _only(printed["scores"], metrics)
    recomputed = again.summary.row()
    summary = _only(recomputed, (*_COUNTS, "tokens_shown"))
    summary |= {"floors": _floors(again, printed)}
    # What is not printed is no claim, and not compared.
    summary["scores"] = _only(recomputed["scores"], metrics)
    report_differences(f"tracks.{task.track}", card, summary, findings)


def compare_means(
    name: str, printed: Mapping[str, Any], again: Mapping[str, Any], findings: Findings
) -> None:
    """Compare what of a track's card follows from the scores of single answers."""
    scores = {}
    for metric, row in printed["scores"].items():
        if row.get("unscored") is None:
            scores[metric] = _only(row, ("value", "n"))
    card = _only(printed, again) | {"scores": scores}
    summary = {**again, "scores": _only(again["scores"], scores)}
    report_differences(f"tracks.{name}", card, summary, findings)


def check_silence(name: str, track: PublishedTrack, findings: Findings) -> None:
    """Refuse a track with too many answers that failed or were not judged.

    Withheld gold is no such reason, nor is a judge that can tell none of its figures: it stands on
    no board.
    """
    failed = {kind: n for kind, n in track.failed_predictions.items() if kind in UNHEARD}
    silent = track.unscored - track.failed_judgements.get(NO_GOLD, 0)
    if track.scores and all(score.unscored for score in track.scores.values()):
        silent = sum(failed.values())
    if silent <= MOST_UNSCORED * track.n:
        return
    for kind, n in track.failed_judgements.items():
        if kind != NO_GOLD:
            failed[f"judge {kind}"] = n
    kinds = ", ".join(f"{shown(kind, 20)} {n:,}" for kind, n in failed.items())
    most = f"at most {100 * MOST_UNSCORED:.0f} % of the answers may lack a score"
    what = f"no score for {silent:,} of {track.n:,} answers ({kinds}); {most}"
    fix = "to retry these answers, repeat the same alps run, then pack again"
    findings.serious("silence", f"tracks.{name}.unscored", what, fix)


def compare_rows(
    name: str,
    printed: Rows,
    again: Rows,
    findings: Findings,
    *,
    only: frozenset[str] | None = None,
) -> None:
    """Compare the scores of single answers; one finding names the first that differs.

    Of answers that were judged, `only` these metrics are compared where it is given.
    """
    wrong: list[tuple[Key, tuple[str, Any, Any]]] = []
    for key in printed.keys() & again.keys():
        rows = _row_of(printed[key], only), _row_of(again[key], only)
        if (first := next(differences(*rows), None)) is not None:
            wrong.append((key, first))
    # One finding for all: whoever changes a metric changes every row.
    if wrong:
        key, (where, before, now) = min(wrong, key=lambda item: item[0])
        what = f"{where}: the file has {figure(before)}, but alps recomputed {figure(now)}; "
        what += counted(len(wrong), "row differs", "rows differ")
        findings.serious("row_score", f"{name}/scores.jsonl: {named(key)}", what, _FIX)


def compare_verdicts(name: str, printed: Rows, again: Rows, findings: Findings) -> None:
    """Compare verdicts with new verdicts of the embedded judge."""
    parts = ("outcome", "judge", "pairs", "marks", "support", "used")
    wrong = []
    for key in printed.keys() | again.keys():
        before, now = printed.get(key, {}), again.get(key, {})
        if _decision(_only(before, parts)) != _decision(_only(now, parts)):
            wrong.append(key)
    if wrong:
        first = shown(min(wrong)[0], 40)
        what = counted(len(wrong), "verdict differs", "verdicts differ")
        what += f" from the built-in judge's; the first is on {first}"
        mend = "submit the verdicts unchanged"
        findings.serious("verdict", f"{name}/verdicts.jsonl", what, mend)


def differences(printed: Any, again: Any, where: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield `(where, printed, recomputed)` of all that differs, numbers by `TOLERANCE`."""
    if isinstance(printed, Mapping) and isinstance(again, Mapping):
        for key in dict.fromkeys([*printed, *again]):
            path = f"{where}.{key}" if where else str(key)
            yield from differences(printed.get(key, _ABSENT), again.get(key, _ABSENT), path)
    elif is_number(printed) and is_number(again):
        if abs(printed - again) > TOLERANCE:
            yield where, printed, again
    elif printed != again:
        yield where, printed, again


def report_differences(
    where: str,
    printed: Any,
    again: Any,
    findings: Findings,
    *,
    code: str = "score",
    fix: str = _FIX,
) -> None:
    """Find every figure of a card that is not the recomputed one; other words are one warning."""
    words = []
    for place, before, now in differences(printed, again, where):
        what = f"the card has {figure(before)}, but alps recomputed {figure(now)}"
        texts = isinstance(before, str) and isinstance(now, str)
        if texts and place.rpartition(".")[2] in _WORDS:
            words.append((place, what))
        else:
            findings.serious(code, place, what, fix)
    if words:
        place, what = words[0]
        more = f"; so have {len(words) - 1:,} more fields" if len(words) > 1 else ""
        # Pages show the words of the card, so a reviewer reads them.
        findings.warn("words", place, what + more, "accept it if both say the same")


def _floors(again: Recomputed, printed: Mapping[str, Any]) -> dict[str, Any]:
    # How far the run is above a floor is on no card.
    rows = {}
    for name, floor in again.summary.floors.items():
        if name in printed["floors"] or name not in _LATER:
            rows[name] = floor.row()
    return _each_without(rows, "above", "differences")


def _compare_corrected(
    where: str, corrected: Mapping[str, Any], again: Corrected | None, findings: Findings
) -> None:
    calibrations = set(corrected["calibration"].values())
    if again is None or set(again.calibration.values()) != calibrations:
        what = "not recomputed, because alps does not have the calibration"
        findings.warn("corrected", where, what)
        return
    to_compare = needed(CORRECTED).to_compare
    report_differences(where, to_compare(corrected), to_compare(again.row()), findings)


def _row_of(row: Mapping[str, Any], only: frozenset[str] | None) -> dict[str, Any]:
    kept = {part: row.get(part, {}) for part in ("outcome", "stage", "scores", "counts")}
    if only is not None and row["stage"] != "generate":
        # What a judge decided is in the counts, too.
        del kept["counts"]
        kept["scores"] = _only(kept["scores"], filter(only.__contains__, kept["scores"]))
    return kept


def _only(row: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    return {name: row.get(name) for name in names}


def figure(value: Any) -> str:
    """Return a printed or recomputed value for a message."""
    if value is _ABSENT:
        return "nothing"
    return f"{value:.10g}" if isinstance(value, float) else shown(str(value), 60)


def _each_without(rows: Mapping[str, Mapping[str, Any]], *names: str) -> dict[str, Any]:
    return {key: without(row, *names) for key, row in rows.items()}


def _decision(part: Any) -> Any:
    """Return what counts of a verdict's part: reasons and raw texts may be left out."""
    if isinstance(part, Mapping):
        return {key: _decision(part[key]) for key in part.keys() - {"reason", "raw", "error"}}
    return list(map(_decision, part)) if isinstance(part, list) else part
