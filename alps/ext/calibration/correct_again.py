"""Correcting the scores of a finished run by a calibration, without asking anybody."""

from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

from alps.ext.calibration.correction import choose, with_corrections
from alps.ext.calibration.judge_of_run import JudgeOfRun, PinnedJudge, without_rubrics
from alps.judges.calibration_file import ServedRow
from alps.rows import Json, ServedBy, Summary
from alps.run.finished import Finished
from alps.run.folder import locked_folder, write_summary
from alps.run.opened import RunFolder, open_run
from alps.run.source import open_again


def judge_of_run(run: RunFolder) -> JudgeOfRun:
    """Return the judge that gave the verdicts of a finished run."""
    summary, manifest = run.finished, run.manifest
    verdicts = run.folder / "verdicts.jsonl"
    asked = verdicts if verdicts.is_file() else run.folder
    return JudgeOfRun(
        run=str(run.folder),
        name=summary.judge,
        fingerprint=without_rubrics(manifest.judge),
        rubrics=manifest.judge.get("rubrics") or {},
        api_base=manifest.settings.get("judge_api_base"),
        served={name: tuple(map(_served, rows)) for name, rows in summary.served.items()},
        day=date.fromtimestamp(asked.stat().st_mtime),
    )


def correct_again(folder: Path, typed: Mapping[str, Any]) -> Finished:
    """Correct the scores of a finished run in its folder, without requests.

    Args:
        folder: The run.
        typed: `calibration`, one of its judge; `off` takes corrections away.

    Raises:
        AlpsError: If the folder is no finished run, or the calibration is not of its judge.
    """
    run = open_run(folder)
    raw = _as_judged(run.finished.row())
    settings, data = open_again(folder, run.manifest)
    judge, endpoint = PinnedJudge(judge_of_run(run)), settings.judge_api_base
    chosen = choose(typed["calibration"], judge, data, today=date.today(), api_base=endpoint)
    with locked_folder(folder):
        summary = with_corrections(raw, folder, data, chosen)
        write_summary(folder, summary)
    return Finished(folder, summary, data.tasks, too_many_unscored=False, budget_spent=False)


def _as_judged(row: Json) -> Summary:
    """Return a summary without corrected scores."""
    tracks = {}
    for name, track in row["tracks"].items():
        scores = {metric: _without(score, "corrected") for metric, score in track["scores"].items()}
        tracks[name] = {**track, "scores": scores}
    raw = _without(row, "not_calibrated", "calibrated_otherwise")
    return Summary.model_validate({**raw, "tracks": tracks})


def _served(row: ServedBy) -> ServedRow:
    return ServedRow(model=row.model)


def _without(row: Json, *names: str) -> Json:
    return {name: value for name, value in row.items() if name not in names}
