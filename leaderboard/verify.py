"""Verify a submission without trusting it: no network, nothing of it is run, and no word of it is
taken for a path.
"""

import json
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from alps.errors import AlpsError
from alps.judges.lexical import LexicalJudge
from alps.leaderboard.checks.baseline import check_baseline, check_baseline_name
from alps.leaderboard.checks.card import check_refuted, check_review, read_card
from alps.leaderboard.checks.changes import check_changes
from alps.leaderboard.checks.copies import check_copies
from alps.leaderboard.checks.files import check_files, file_card
from alps.leaderboard.checks.folder import check_folder
from alps.leaderboard.checks.identity import check_identity, check_judges, check_prompt, task_name
from alps.leaderboard.checks.rows import (
    TrackRows,
    check_answers,
    check_ids,
    check_verdicts,
    read_track,
)
from alps.leaderboard.checks.scores import (
    check_silence,
    compare_means,
    compare_rows,
    compare_summary,
    compare_unjudged,
    compare_verdicts,
)
from alps.leaderboard.checks.served import check_served
from alps.leaderboard.checks.suspicion import check_suspicion
from alps.leaderboard.checks.system import check_name, check_tasks
from alps.leaderboard.findings import MOST_EXAMPLES, Findings, Verification
from alps.leaderboard.recompute import (
    LONGEST_SECONDS,
    Recomputed,
    Rows,
    judge_of,
    recompute,
    recompute_from_scores,
    undecided,
)
from alps.leaderboard.samples import known_track
from alps.leaderboard.submission import NO_JUDGE, STATUSES, RunCard, Submission, Track
from alps.leaderboard.truth import SAMPLES, Truth, data_for, open_truth, task_of
from alps.leaderboard.wording import shown

SELF_REPORTED, SCHEMA_VALID = STATUSES[:2]
_SENSELESS = ("run", "fingerprint")
"""Findings of the card after which its tracks can't be looked at."""


@dataclass
class Known:
    """What was read and recomputed already: whoever verifies many submissions gives it to all of
    them.
    """

    truths: MutableMapping[str, Truth] = field(default_factory=dict)
    recomputed: MutableMapping[str, Recomputed] = field(default_factory=dict)
    suspicion: MutableMapping[str, Findings] = field(default_factory=dict)


@dataclass(frozen=True)
class Options:
    """How a submission is verified.

    Attributes:
        data: The data to hold it against, where they are not the samples, or those of each run;
            None leaves scores and ids unchecked then.
        split: Their split, where it is not the one on the card.
        base: A git reference, or another copy of the folder of submissions: nothing else may have
            changed since.
        changed: Instead of that, the paths in the repository that have changed.
        reviewed: Whether a maintainer's review may lie there.
        continues: The submission whose submitter sent this one, as a maintainer knows: itself,
            where it is changed, or an earlier one of the same name.
        seconds: How long scoring a track again may take.
    """

    data: str | tuple[str | None, ...] | None = None
    split: str | None = None
    base: str | None = None
    changed: tuple[str, ...] | None = None
    reviewed: bool = False
    continues: str | None = None
    seconds: float = LONGEST_SECONDS


DEFAULTS = Options()


def verify(
    folder: Path, options: Options = DEFAULTS, *, known: Known | None = None
) -> Verification:
    """Verify the submission in `folder`.

    Whatever lies there, the result says so, and nothing is raised.
    """
    findings = Findings()
    check_folder(folder, findings)
    card = None if findings.refused else read_card(folder, findings)
    touched = check_changes(
        folder,
        findings,
        base=options.base,
        changed=options.changed,
        reviewed=options.reviewed,
        continues=options.continues,
    )
    review = None
    if folder.is_dir():
        review = check_review(folder, findings, card, reviewed=options.reviewed, in_change=touched)
        check_refuted(card, review, findings)
    recomputed: tuple[str, ...] = ()
    if card is not None:
        check_files(folder, card, findings)
        check_judges(card, findings)
        check_served(card, findings)
        check_baseline_name(card, findings)
        check_tasks(card, findings)
        heeded = options.reviewed or not touched
        check_name(folder, card, findings, continues=options.continues, own_review=heeded)
        if not any(finding.code in _SENSELESS for finding in findings.kept):
            tracks = [
                _TrackWork(folder, card, name, options, findings, known or Known())
                for name in card.tracks
            ]
            recomputed = tuple(track.name for track in tracks if track.check())
            check_copies(folder, card, findings)
        findings.checked["scores"] = _said_of(card, len(recomputed), findings)
    confirmed = review.status if review is not None else SCHEMA_VALID
    return Verification(
        folder=shown(folder.resolve().name),
        status=SELF_REPORTED if findings.refused else confirmed,
        consistent=card is not None
        and not findings.refused
        and len(recomputed) == len(card.tracks),
        findings=findings.ordered(),
        checked=tuple(findings.checked.items()),
        unchecked=tuple(findings.unchecked),
        recomputed=() if findings.refused else recomputed,
    )


@dataclass(frozen=True)
class _TrackWork:
    """One track of a submission while it is checked."""

    folder: Path
    card: Submission
    name: str
    options: Options
    findings: Findings
    known: Known

    @property
    def track(self) -> Track:
        return self.card.tracks[self.name]

    @property
    def run(self) -> RunCard:
        return self.card.runs[self.track.run]

    @property
    def printed(self) -> Mapping[str, Any]:
        """The track as it stands in the card."""
        printed: Mapping[str, Any] = self.card.model_dump(exclude_unset=True)["tracks"][self.name]
        return printed

    def check(self) -> bool:
        """Check the track; return whether every score of it was recomputed."""
        where = f"tracks.{self.name}"
        if self.track.task != task_name(self.name):
            what = f"{self.track.task}, but the track is of {task_name(self.name)}"
            self.findings.serious("identity", f"{where}.task", what, "pack the runs again")
            return False
        try:
            task = task_of(self.name, self.track)
        except AlpsError as error:
            self.findings.serious(
                "identity", f"{where}.conditions", shown(str(error), 160), "pack the runs again"
            )
            return False
        check_identity(self.name, self.track, self.run, task, self.findings)
        check_prompt(self.name, self.run, task, self.findings)
        check_silence(self.name, self.track, self.findings)
        of_rows = Findings()
        rows = read_track(self.folder, self.name, self.track, of_rows)
        check_verdicts(task, self.track, self.run, rows, of_rows)
        truth = self._truth()
        if truth is None:
            check_ids(self.name, rows, rows.predictions, of_rows)
        else:
            repeats = range(self.run.settings.get("repeats", 1))
            check_ids(
                self.name,
                rows,
                [(name, repeat) for name in truth.ids for repeat in repeats],
                of_rows,
            )
            rows = check_answers(self.name, truth, rows, of_rows)
        check_baseline(self.name, self.card, truth, rows.predictions, of_rows)
        self._suspect(truth, rows)
        self.findings.take(of_rows)
        if of_rows.refused:
            self.findings.unchecked.append(f"{self.name}: the scores, before its rows are in order")
            return False
        unjudged = rows.verdicts is None and not isinstance(
            judge_of(self.track, self.run), LexicalJudge
        )
        if truth is None or unjudged:
            compare_means(
                self.name, self.printed, recompute_from_scores(task, rows.scores), self.findings
            )
        if truth is None:
            return False
        if unjudged:
            return self._recompute_unjudged(truth, rows)
        self._recompute(truth, rows)
        return True

    def _recompute_unjudged(self, truth: Truth, rows: TrackRows) -> bool:
        """Score again what needs no judge, where its verdicts are lacking.

        Return whether that is everything.
        """
        found = self._again(truth, rows.predictions, undecided(rows.predictions, rows.scores))
        if found.overdue:
            self._overdue()
            return False
        compare_unjudged(self.name, self.printed, found, self.findings)
        compare_rows(self.name, rows.scores, found.scores, self.findings, judged=False)
        known = [name for name, score in self.track.scores.items() if score.value is not None]
        if all(name in NO_JUDGE for name in known):
            return True
        what = "what its judge decided" if any(name in NO_JUDGE for name in known) else "the scores"
        self.findings.unchecked.append(f"{self.name}: {what}, without verdicts.jsonl")
        return False

    def _again(self, truth: Truth, predictions: Rows, verdicts: Rows | None) -> Recomputed:
        return recompute(
            truth, self.track, self.run, predictions, verdicts, seconds=self.options.seconds
        )

    def _overdue(self) -> None:
        what = f"scoring it again took longer than {self.options.seconds:,g} s, and was given up"
        self.findings.serious("time", f"tracks.{self.name}", what, "shorten the answers")

    def _suspect(self, truth: Truth | None, rows: TrackRows) -> None:
        """Flag what a person should look at."""
        if (key := self._key(truth)) not in self.known.suspicion:
            self.known.suspicion[key] = Findings()
            check_suspicion(self.name, self.track.task, truth, rows, self.known.suspicion[key])
        self.findings.take(self.known.suspicion[key])

    def _recompute(self, truth: Truth, rows: TrackRows) -> None:
        """Score the track again, and compare everything."""
        if (key := self._key(truth)) not in self.known.recomputed:
            self.known.recomputed[key] = self._again(truth, rows.predictions, rows.verdicts)
        found = self.known.recomputed[key]
        if found.overdue:
            self._overdue()
            return
        for record, fault in found.broken[:MOST_EXAMPLES]:
            what = f"can't be scored ({shown(fault, 100)})"
            self.findings.serious(
                "unscorable", f"{self.name}: {shown(record, 40)}", what, "pack the runs again"
            )
        compare_summary(self.name, self.printed, found, self.findings)
        compare_rows(self.name, rows.scores, found.scores, self.findings)
        if found.verdicts and rows.verdicts is not None:
            compare_verdicts(self.name, rows.verdicts, found.verdicts, self.findings)

    def _key(self, truth: Truth | None) -> str:
        """Return everything that recomputing depends on."""
        data = truth.sha256 if truth is not None else ""
        paths = [
            self.folder / self.name / f"{stage}.jsonl"
            for stage in ("predictions", "verdicts", "scores")
        ]
        hashes = [_hash(path) for path in paths if path.stem in self.track.files.present()]
        asked = {name: self.run.settings.get(name) for name in ("seed", "repeats", "extras")}
        known = [
            score.corrected.calibration for score in self.track.scores.values() if score.corrected
        ]
        judge = [self.track.judge, self.run.judge]
        return json.dumps(
            [data, self.name, self.track.conditions, judge, asked, hashes, known], sort_keys=True
        )

    def _truth(self) -> Truth | None:
        """Return the records of the track, None where they are not here, or are other ones."""
        run, unchecked = self.run, self.findings.unchecked
        given = self.options.data
        data = data_for(run, given[self.track.run] if isinstance(given, tuple) else given)
        if run.data.name != SAMPLES and (own := self._own_truth()) is not None:
            what = f"{shown(run.data.name)}, but these are the records of the samples"
            self.findings.serious(
                "data", f"runs.{self.track.run}.data.name", what, "run it again with data=samples"
            )
            return own
        if data is None:
            unchecked.append(
                f"{self.name}: ids and scores, as {shown(run.data.name)} is not here; give data=FOLDER"
            )
            return None
        try:
            truth = self._opened(
                data, self.options.split or (run.data.split if data != SAMPLES else None)
            )
        except AlpsError as error:
            unchecked.append(f"{self.name}: ids and scores, as its records can't be read")
            self.findings.warn(
                "data", f"tracks.{self.name}", shown(str(error), 160), "give data=, or split="
            )
            return None
        if data == SAMPLES and run.data.split != truth.data.description["split"]:
            what = f"{shown(run.data.split)}, but the samples are {truth.data.description['split']}"
            self.findings.serious(
                "data", f"runs.{self.track.run}.data.split", what, "pack the runs again"
            )
        if truth.sha256 != self.track.data_sha256:
            what = f"printed {self.track.data_sha256[:12]}…, but {shown(data)} has {truth.sha256[:12]}…: other records"
            mend = "run it again on the present data"
            self.findings.serious("data", f"tracks.{self.name}.data_sha256", what, mend)
            return None
        return truth

    def _own_truth(self) -> Truth | None:
        """Return the records of the package's own track, where by their hash the track is about
        them.
        """
        own = known_track(self.name, self.track.data_sha256, self.run.settings.get("seed", 0))
        return self._opened(SAMPLES, None) if own is not None else None

    def _opened(self, data: str, split: str | None) -> Truth:
        """Return the records of the track in some data, read once.

        Raises:
            AlpsError: If they are not there, or can't be read.
        """
        key = json.dumps(
            [data, split, self.name, self.track.conditions, self.run.settings.get("seed")],
            sort_keys=True,
        )
        if key not in self.known.truths:
            self.known.truths[key] = open_truth(
                self.name, self.track, self.run, data=data, split=split
            )
        return self.known.truths[key]


def _hash(path: Path) -> str:
    """Return the hash of a file, nothing where it can't be read."""
    try:
        return file_card(path).sha256
    except ValueError:
        return ""


def _said_of(card: Submission, recomputed: int, findings: Findings) -> str:
    """Say how many scores came out again."""
    if not recomputed:
        return f"none of {len(card.tracks)} tracks could be recomputed"
    numbers = sum(len(track.scores) for track in card.tracks.values())
    wrong = any(finding.code in ("score", "row_score", "verdict") for finding in findings.kept)
    how = "with differences" if wrong else "consistent"
    return f"{recomputed} of {len(card.tracks)} tracks recomputed from predictions and verdicts ({numbers} scores): {how}"
