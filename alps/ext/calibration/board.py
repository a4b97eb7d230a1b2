"""Corrected scores on boards: recomputed by those calibrations of a card that are known here."""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from alps.errors import DataError
from alps.ext.calibration.calibration_file import Calibration, calibration_files, read_calibration
from alps.ext.calibration.correction import OTHER_ENDPOINT, Chosen, corrected_scores
from alps.ext.calibration.judge_of_run import hash_of
from alps.jsonl import dump
from alps.leaderboard.gold_data import GoldTrack
from alps.leaderboard.parts import BoardPart
from alps.leaderboard.recompute import Rows
from alps.leaderboard.submission import PublishedTrack, without
from alps.rows import Corrected


class CalibrationBoardPart(BoardPart):
    """The corrected scores of a submission."""

    def corrected(
        self, gold: GoldTrack, track: PublishedTrack, predictions: Rows, scores: Rows
    ) -> dict[str, Corrected]:
        """Correct the scores again by those calibrations of the card that are known here."""
        wanted: set[str] = set()
        for score in track.scores.values():
            if score.corrected:
                wanted.update(score.corrected.calibration.values())
        if not wanted:
            return {}
        by_rubric: dict[str, list[Calibration]] = {}
        for path in calibration_files():
            if hash_of(path) in wanted:
                # One that can't be read corrects nothing, and the score is told as not recomputed.
                with suppress(DataError):
                    calibration = read_calibration(path)
                    for rubric in calibration.rubrics:
                        by_rubric.setdefault(rubric, []).append(calibration)
        # Correction reads the rows of a run from their files.
        with TemporaryDirectory(prefix="alps-verify-") as scratch:
            folder = Path(scratch)
            for name, rows in (("predictions", predictions), ("scores", scores)):
                lines = [dump(dict(row)) for row in rows.values()]
                (folder / f"{name}.jsonl").write_bytes(b"".join(lines))
            by_track = corrected_scores(folder, gold.data, Chosen(by_rubric))
            return dict(by_track.get(gold.task.track, {}))

    def to_compare(self, corrected: Mapping[str, Any]) -> dict[str, Any]:
        """Leave out what a calibration's file is called, and where the judge was reached."""
        notes = [note for note in corrected.get("notes", ()) if note != OTHER_ENDPOINT]
        return {**without(corrected, "calibration"), "notes": notes}


BOARD = CalibrationBoardPart()
