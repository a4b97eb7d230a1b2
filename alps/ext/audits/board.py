"""Audits on boards: what of one is published, and which records a maintainer draws for one.

Whatever a seed is made of that a submission holds, its submitter can vary: a word more in one of
the answers is another draw, and the best of 2,000 makes a score. So boards have what an audit
corrects where a maintainer's review drew its seed, for these very answers, verdicts and scores.
"""

import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alps.ext.audits import FOLDER
from alps.ext.audits.audit import SCORES, VERDICTS, read_audit
from alps.leaderboard.checks import Findings
from alps.leaderboard.checks.rows import SubmittedScore, TrackRows
from alps.leaderboard.gold_data import GoldTrack
from alps.leaderboard.parts import AUDIT, BoardPart
from alps.leaderboard.site_data import content_of
from alps.leaderboard.submission import AuditDraw, SubmissionEntry, only
from alps.run.opened import RunFolder, read_rows
from alps.tasks import board_tracks

if TYPE_CHECKING:
    from alps.leaderboard.settings import RescoreSettings
    from alps.leaderboard.verify import TrackCheck

_SEEDS = 2**31


class AuditBoardPart(BoardPart):
    """The audits of a submission."""

    def track_rows(self, run: RunFolder, name: str) -> Mapping[str, list[dict[str, Any]]]:
        """Return the scores under the audit judge, where any score of the track is corrected.

        Each comes with its verdict, if any.

        Raises:
            RunFolderError: If a file of the audit can't be read.
        """
        summary = run.summary
        found = summary.audit if summary is not None else None
        if found is None or name not in found.tracks or not found.tracks[name].scores:
            return {}
        verdicts = read_rows(run.folder / FOLDER / VERDICTS)
        rows = []
        for key, row in read_rows(run.folder / FOLDER / SCORES).items():
            if key.track == name:
                own = only(row, SubmittedScore.model_fields)
                rows.append({**own, "verdict": verdicts.get(key)})
        return {AUDIT: rows} if rows else {}

    def track_card(self, run: RunFolder, name: str, files: Mapping[str, Any]) -> dict[str, Any]:
        """Return the card of the audit of a track."""
        if AUDIT not in files:
            return {}
        about, found = read_audit(run.folder / FOLDER), run.finished.audit
        assert about is not None
        assert found is not None
        scores = {metric: score.row() for metric, score in found.tracks[name].scores.items()}
        checks = about.judge_check
        known = {}
        if checks is not None:
            known["judge_check"] = {one: checks[one].row() for one in checks}
        card = {
            **known,
            "judge": about.judge,
            "fingerprint": about.fingerprint,
            "sessions": len(about.tracks[name].sessions),
            "seed": about.seed_of(name),
            "scores": scores,
        }
        return {AUDIT: card}

    def check_rows(self, check: "TrackCheck", rows: TrackRows, findings: Findings) -> None:
        """Say of an audit that no maintainer drew that its submitter could choose the records."""
        from alps.ext.audits.board_checks import check_audit_draw

        check_audit_draw(check, rows, findings)

    def check_answers(self, check: "TrackCheck", gold: GoldTrack, rows: TrackRows) -> None:
        """Recompute the audit of a track."""
        from alps.ext.audits.board_checks import check_audit

        check_audit(check, gold, rows)

    def review(self, entry: SubmissionEntry) -> dict[str, Any]:
        """Return the draw that a review gives the audits of a submission.

        The same answers, verdicts and scores get one draw, whoever sends them under whatever name,
        and others get another. None is given where no judge has a part in the scores.
        """
        from alps.leaderboard.checks.copies import others_beside

        content = content_of(entry.card)
        # Sent again under another name, the same answers must not get a second draw to choose from.
        for one in (entry, *others_beside(entry.folder)):
            there = None if one.review is None else one.review.audit_draw
            if there is not None and there.answers == content:
                return {"audit_draw": there}
        if not any(board_tracks()[name].judged for name in entry.card.tracks):
            return {}
        # From the system's randomness: what follows from the card could be tried out beforehand.
        return {"audit_draw": AuditDraw(answers=content, seed=secrets.randbelow(_SEEDS))}

    def judge_sample(
        self,
        entry: SubmissionEntry,
        source: Path,
        settings: "RescoreSettings",
        judging: Mapping[str, Any],
    ) -> dict[str, dict[str, Any]]:
        """Judge a sample of the answers in `source`, as an audit of the submitted verdicts."""
        from alps.ext.audits.board_checks import judge_sample

        return judge_sample(entry, source, settings, judging)


BOARD = AuditBoardPart()
