"""Verification of a submission without trusting it: no network, none of its code or paths."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

from alps.errors import AlpsError
from alps.judges.embedded import LexicalJudge
from alps.leaderboard.checks import MOST_EXAMPLES, Findings, Verification
from alps.leaderboard.checks import card as cards
from alps.leaderboard.checks import scores as compare
from alps.leaderboard.checks.copies import check_copies
from alps.leaderboard.checks.files import check_changes, check_files, check_folder
from alps.leaderboard.checks.rows import (
    TrackRows,
    check_answers,
    check_ids,
    check_verdicts,
    read_track,
)
from alps.leaderboard.checks.suspicion import check_baseline, check_suspicion
from alps.leaderboard.gold_data import GoldTrack, data_for, known_track, open_gold, task_of
from alps.leaderboard.parts import BoardPart, fields_of, part_of, parts_of
from alps.leaderboard.recompute import (
    LONGEST_SECONDS,
    Recomputed,
    Rows,
    judge_of,
    recompute,
    recompute_from_scores,
    undecided,
)
from alps.leaderboard.submission import (
    FORMAT_CHECKED,
    SAMPLES,
    STATUSES,
    PublishedTrack,
    Review,
    RunCard,
    Submission,
)
from alps.leaderboard.untrusted import shown
from alps.run.source import Pools
from alps.tasks import Task, board_tracks

SELF_REPORTED = STATUSES[0]


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


def verify(folder: Path, options: Options = DEFAULTS) -> Verification:
    """Verify the submission in `folder`; whatever lies there, nothing is raised."""
    findings = Findings()
    check_folder(folder, findings)
    # Names, kinds and sizes come first: among links, pipes or too many files nothing is opened.
    card = None if findings.refused else cards.read_card(folder, findings)
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
        reviewed = options.reviewed
        review = cards.check_review(folder, findings, card, reviewed=reviewed, in_change=touched)
        cards.check_refuted(card, review, findings)
    recomputed: tuple[str, ...] = ()
    if card is not None:
        check_files(folder, card, findings)
        cards.check_judges(card, findings)
        cards.check_served(card, findings)
        cards.check_baseline_name(card, findings)
        cards.check_claims(card, findings)
        cards.check_reference_names(card, findings)
        cards.check_tasks(card, findings)
        cards.check_systems(card, findings)
        # A review that comes with the change could join its submission to another's history.
        own_review = options.reviewed or not touched
        continues = options.continues
        cards.check_name(folder, card, findings, continues=continues, own_review=own_review)
        # A track of a run that is not there, or under a judge whose parts are not those of its id,
        # can't be looked at.
        if findings.codes.isdisjoint(("run", "fingerprint")):
            recomputed = _check_tracks(folder, card, review, options, findings)
            check_copies(folder, card, findings)
            for part in parts_of(card):
                part.check_all(folder, card, findings)
        findings.checked["scores"] = _outcome(card, len(recomputed), findings)
    return _verification(folder, card, review, recomputed, findings)


def _verification(
    folder: Path,
    card: Submission | None,
    review: Review | None,
    recomputed: tuple[str, ...],
    findings: Findings,
) -> Verification:
    confirmed = review.status if review is not None else FORMAT_CHECKED
    complete = card is not None and len(recomputed) == len(card.tracks)
    refused = findings.refused
    return Verification(
        folder=shown(folder.resolve().name),
        status=SELF_REPORTED if refused else confirmed,
        # Scores that nobody could recompute are not consistent, though nothing contradicts them.
        consistent=complete and not refused,
        findings=findings.ordered(),
        checked=tuple(findings.checked.items()),
        unchecked=tuple(findings.unchecked),
        # A maintainer's `record=yes` writes these into the review, by which boards rank.
        recomputed=() if refused else recomputed,
    )


def _check_tracks(
    folder: Path,
    card: Submission,
    review: Review | None,
    options: Options,
    findings: Findings,
) -> tuple[str, ...]:
    """Check the tracks of a card; return those whose every score was recomputed."""
    for name in fields_of(card):
        if part_of(name) is None:
            what = "the extension for this field is not installed, so alps can't check it"
            fix = "verify the submission with an installation that has all extensions"
            findings.serious("extension", name, what, fix)
    recomputed = []
    pools: Pools = {}
    notes = {part: part.check_card(folder, card, findings) for part in parts_of(card)}
    for name in card.tracks:
        track = TrackCheck(folder, card, name, options, findings, notes, review=review, pools=pools)
        checked = track.check()
        if checked.recomputed:
            recomputed.append(name)
        for part in notes:
            part.check_scores(track, checked)
    return tuple(recomputed)


def _outcome(card: Submission, recomputed: int, findings: Findings) -> str:
    total = len(card.tracks)
    if not recomputed:
        return "alps could not recompute the scores of any task"
    numbers = sum(len(track.scores) for track in card.tracks.values())
    consistent = findings.codes.isdisjoint(("score", "row_score", "verdict"))
    how = "consistent" if consistent else "with differences"
    what = f"alps recomputed {recomputed} of {total} tasks from predictions and verdicts"
    return f"{what} ({numbers} scores): {how}"


@dataclass(frozen=True)
class CheckedTrack:
    """A track that was checked: whether every score was recomputed, and its rows.

    `gold` are its records; None where they are not here, or its rows are not in order.
    """

    recomputed: bool = False
    gold: GoldTrack | None = None
    scores: Rows = field(default_factory=dict)
    predictions: Rows = field(default_factory=dict)


@dataclass(frozen=True)
class TrackCheck:
    """One track of a submission while it is checked.

    `notes` are what parts of extensions found in the card; `floors` says whether it has the trivial
    baselines; `review` is that of a maintainer, where it applies; `pools` are shared by all tracks.
    """

    folder: Path
    card: Submission
    name: str
    options: Options
    findings: Findings
    notes: Mapping[BoardPart, Any]
    floors: bool = True
    review: Review | None = None
    pools: Pools = field(default_factory=dict)

    @property
    def track(self) -> PublishedTrack:
        """Its card."""
        return self.card.tracks[self.name]

    @property
    def run(self) -> RunCard:
        """The card of its run."""
        return self.card.runs[self.track.run]

    @property
    def printed(self) -> Mapping[str, Any]:
        """The track as written on the card."""
        printed: Mapping[str, Any] = self.track.model_dump(exclude_unset=True)
        return printed

    def check(self) -> CheckedTrack:
        """Check the track, and recompute what can be."""
        where, expected = f"tracks.{self.name}", board_tracks()[self.name].name
        if self.track.task != expected:
            what = f"{self.track.task}, but the scores are for {expected}"
            self.findings.serious("identity", f"{where}.task", what, "pack the runs again")
            return CheckedTrack()
        try:
            task = task_of(self.name, self.track.conditions)
        except AlpsError as error:
            what = shown(str(error), 160)
            self.findings.serious("identity", f"{where}.conditions", what, "pack the runs again")
            return CheckedTrack()
        cards.check_identity(self.name, self.track, self.run, task, self.findings)
        cards.check_judge_check(self.name, self.track, self.run, task, self.findings)
        cards.check_prompt(self.name, self.run, task, self.findings)
        compare.check_silence(self.name, self.track, self.findings)
        if self.card.withheld(self.name) is not None:
            # There is nothing to recompute, and what is said of it was compared.
            return CheckedTrack(recomputed=True)
        return self._check_scores(task)

    def _check_scores(self, task: Task) -> CheckedTrack:
        # Apart from the others: on these alone it hangs whether the rows can be scored at all.
        of_rows = Findings()
        rows = read_track(self.folder, task, self.track, of_rows)
        check_verdicts(task, self.track, self.run, rows, of_rows)
        for part in self.notes:
            part.check_rows(self, rows, of_rows)
        gold = self._gold()
        rows = self._check_rows(task, gold, rows, of_rows)
        self.findings.take(of_rows)
        if of_rows.refused:
            self.findings.unchecked.append(f"{self.name}: the scores, because rows have errors")
            return CheckedTrack()
        lexical = isinstance(judge_of(self.track, self.run), LexicalJudge)
        unjudged = rows.verdicts is None and not lexical
        # Means follow from the scores of single answers, whatever else is lacking here.
        if gold is None or unjudged:
            means = recompute_from_scores(task, rows.scores)
            compare.compare_means(self.name, self.printed, means, self.findings)
        if gold is None:
            return CheckedTrack()
        for part in self.notes:
            part.check_answers(self, gold, rows)
        again = self._recompute_unjudged(gold, rows) if unjudged else self._recompute(gold, rows)
        return CheckedTrack(again, gold, rows.scores, rows.predictions)

    def _check_rows(
        self, task: Task, gold: GoldTrack | None, rows: TrackRows, findings: Findings
    ) -> TrackRows:
        if gold is None:
            check_ids(self.name, rows, rows.predictions, findings)
        else:
            repeats = self.run.settings.get("repeats", 1)
            # Every repeat: without the failed ones the mean of the others would be better.
            expected = list(product(gold.samples, range(repeats)))
            check_ids(self.name, rows, expected, findings)
            rows = check_answers(self.name, gold, rows, findings)
        check_baseline(self.name, self.card, gold, rows.predictions, findings)
        check_suspicion(task, gold, rows, self.findings)
        return rows

    def _recompute_unjudged(self, gold: GoldTrack, rows: TrackRows) -> bool:
        """Score again what needs no judge, without verdicts; return whether that is everything."""
        verdicts = undecided(rows.predictions, rows.scores)
        again = self._again(gold, rows.predictions, verdicts)
        if self._is_overdue(again):
            return False
        compare.compare_unjudged(gold.task, self.printed, again, self.findings)
        of_rows = rows.scores, again.scores
        compare.compare_rows(self.name, *of_rows, self.findings, only=gold.task.unjudged)
        known = {name for name, score in self.track.scores.items() if score.value is not None}
        # Recall, for one, follows from a ranking and its gold, whoever judged the rest.
        unjudged = known & gold.task.unjudged
        if unjudged == known:
            return True
        what = "the judge's verdicts" if unjudged else "the scores"
        self.findings.unchecked.append(f"{self.name}: {what}, because verdicts.jsonl is missing")
        return False

    def _recompute(self, gold: GoldTrack, rows: TrackRows) -> bool:
        """Score the track again, and compare everything."""
        again = self._again(gold, rows.predictions, rows.verdicts)
        if self._is_overdue(again):
            return True
        for record, fault in again.broken[:MOST_EXAMPLES]:
            where = f"{self.name}: {shown(record, 40)}"
            what = f"alps cannot score this answer ({shown(fault, 100)})"
            self.findings.serious("unscorable", where, what, "pack the runs again")
        compare.compare_summary(self.name, self.printed, again, self.findings)
        compare.compare_rows(self.name, rows.scores, again.scores, self.findings)
        if again.verdicts and rows.verdicts is not None:
            compare.compare_verdicts(self.name, rows.verdicts, again.verdicts, self.findings)
        return True

    def _again(self, gold: GoldTrack, predictions: Rows, verdicts: Rows | None) -> Recomputed:
        limits: dict[str, Any] = {"seconds": self.options.seconds, "floors": self.floors}
        return recompute(gold, self.track, self.run, predictions, verdicts, **limits)

    def _is_overdue(self, again: Recomputed) -> bool:
        # A row of a mebibyte could ask for hours, and who verifies many must not wait for them.
        if again.overdue:
            limit = f"{self.options.seconds:,g} s"
            what = f"alps stopped scoring after {limit}"
            self.findings.serious("time", f"tracks.{self.name}", what, "shorten the answers")
        return again.overdue

    def _gold(self) -> GoldTrack | None:
        """Return the records of the track, None where they are not here, or are other ones."""
        run, name = self.run, self.name
        # Samples that go by another name escape every check against their gold.
        if run.data.name != SAMPLES and (own := self._own_gold()) is not None:
            what = f"{shown(run.data.name)}, but these are the records of the samples"
            where, mend = f"runs.{self.track.run}.data.name", "repeat the run with data=samples"
            self.findings.serious("data", where, what, mend)
            return own
        asked = self.options.data
        data = data_for(run, asked[self.track.run] if isinstance(asked, tuple) else asked)
        if data is None:
            reason = f"because alps cannot find {shown(run.data.name)}; set data=FOLDER"
            self.findings.unchecked.append(f"{name}: ids and scores, {reason}")
            return None
        try:
            split = self.options.split or (run.data.split if data != SAMPLES else None)
            gold = self._opened(data, split)
        except AlpsError as error:
            self.findings.unchecked.append(f"{name}: ids and scores, because records can't be read")
            what = shown(str(error), 160)
            self.findings.warn("data", f"tracks.{name}", what, "set data= or split=")
            return None
        return self._same_data(gold, data)

    def _same_data(self, gold: GoldTrack, data: str) -> GoldTrack | None:
        """Return records by whose hash the track is about them; None where it is about others."""
        run, name, split = self.run, self.name, gold.data.description["split"]
        if data == SAMPLES and split and run.data.split != split:
            what = f"{shown(run.data.split)}, but the split of the samples is {split}"
            where = f"runs.{self.track.run}.data.split"
            self.findings.serious("data", where, what, "pack the runs again")
        # Scores on other records can't be recomputed from these, and would only look forged.
        if gold.sha256 != self.track.data_sha256:
            what = f"the card has {self.track.data_sha256[:12]}…, but {shown(data)} has "
            what += f"{gold.sha256[:12]}…, so the records differ"
            mend = "repeat the run on the current data"
            self.findings.serious("data", f"tracks.{name}.data_sha256", what, mend)
            return None
        return gold

    def _own_gold(self) -> GoldTrack | None:
        """Return the package's own records, where by their hash the track is about them."""
        seed, conditions = self.run.settings.get("seed", 0), self.track.conditions
        own = known_track(self.name, self.track.data_sha256, seed, conditions)
        return self._opened(SAMPLES, None) if own is not None else None

    def _opened(self, data: str, split: str | None) -> GoldTrack:
        """Return the records of the track in some data, read once.

        Raises:
            AlpsError: If they are not there, or can't be read.
        """
        return open_gold(self.name, self.track, self.run, data=data, split=split, pools=self.pools)
