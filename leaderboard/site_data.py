"""Data of the site: submissions and reviews as they lie in their files, and where these differ.

And the official data set and judge of all boards, as `official.toml` names them, which is a
`config=` of `alps run`. Systems under its judge, and scores that need no judge, come first on every
page; those under other LLM judges follow, and embedded judges, which are for debugging, come last.
"""

import hashlib
import json
import tomllib
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files
from pathlib import Path
from typing import Literal

from pydantic_core import from_json

from alps.errors import DataError, UsageError
from alps.judges.embedded import LexicalJudge, is_embedded_judge
from alps.leaderboard.gold_data import SampleTrack, known_track
from alps.leaderboard.pages import FilePlace
from alps.leaderboard.recompute import judge_of
from alps.leaderboard.submission import (
    CARD,
    REFUTED,
    REVIEW,
    SAMPLES,
    Review,
    Submission,
    SubmissionEntry,
    read_entry,
)
from alps.tasks import Metric, board_tracks
from alps.tasks.registry import track_title

# The share of a scale up to which two judgements of the same answers may differ, as judges do from
# day to day; and where no interval says how far the records let the score vary.
APART, WITHOUT_INTERVAL = 0.02, 0.05

# Of the replies of a run: the cost of one with more from a cache is not what it takes.
MOST_CACHED = 0.05


@dataclass(frozen=True)
class Contradiction:
    """A submitted score that a maintainer did not reproduce under the same judge."""

    track: str
    metric: str
    submitted: float
    again: float

    def __str__(self) -> str:
        scores = f"submitted {self.submitted:.3f}, judged again {self.again:.3f}"
        metrics = board_tracks()[self.track].metrics
        titles = {metric.name: metric.title.strip() for metric in metrics}
        return f"{track_title(self.track)}, {titles.get(self.metric, self.metric)}: {scores}"


def same_judge(card: Submission, review: Review | None, track: str, metric: str) -> bool:
    """Tell whether a review has the track under the same judge, or the metric needs none."""
    if review is None or review.status not in ("re-scored", "reproduced", REFUTED):
        return False
    if track not in review.tracks or track not in card.tracks:
        return False
    fingerprint = review.tracks[track].judge_fingerprint
    # Recall of a ranking follows from the gold, so any judge's review confirms it.
    unjudged = metric in board_tracks()[track].unjudged
    return unjudged or fingerprint == card.tracks[track].judge_fingerprint


def contradictions(card: Submission, review: Review | None) -> list[Contradiction]:
    """Return the headline scores that a review refutes.

    One is refuted where it lies outside the 95 % interval of the maintainer's, and more than
    `APART` of the scale away.
    """
    if review is None:
        return []
    refuted = []
    for name in review.tracks:
        for metric in board_tracks()[name].metrics:
            if metric.headline and same_judge(card, review, name, metric.name):
                refuted.append(_contradiction(card, review, name, metric))
    return list(filter(None, refuted))


def _contradiction(
    card: Submission, review: Review, name: str, metric: Metric
) -> Contradiction | None:
    submitted = card.tracks[name].scores.get(metric.name)
    again = review.tracks[name].scores.get(metric.name)
    if submitted is None or submitted.value is None or again is None or again.value is None:
        return None
    distance, scale = abs(submitted.value - again.value), metric.highest - metric.lowest
    apart = distance > WITHOUT_INTERVAL * scale
    if again.low is not None and again.high is not None:
        apart = distance > APART * scale and not again.low <= submitted.value <= again.high
    return Contradiction(name, metric.name, submitted.value, again.value) if apart else None


def content_of(card: Submission) -> str:
    """Return a hash of the answers, verdicts and scores of a submission."""
    parts = []
    for name, track in sorted(card.tracks.items()):
        files = track.files
        # Calls and notes are left out: they move no score, and would allow another draw.
        own = [files.predictions, files.verdicts, files.scores]
        parts.append([name, *(None if file is None else file.sha256 for file in own)])
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def drawn_by_a_maintainer(card: Submission, review: Review | None, track: str) -> bool:
    """Tell whether the sessions that a track's audit is of were drawn by a maintainer."""
    audit, draw = card.tracks[track].audit, None if review is None else review.audit_draw
    if audit is None or draw is None:
        return False
    return draw.seed == audit.seed and draw.answers == content_of(card)


@dataclass(frozen=True)
class SiteSystem:
    """One submission; `root` is its `submission.json`, which has all its numbers."""

    entry: SubmissionEntry
    root: FilePlace
    review: FilePlace

    @property
    def card(self) -> Submission:
        """The checked card."""
        return self.entry.card

    @cached_property
    def slug(self) -> str:
        """The name of its folder."""
        return self.card.slug

    @property
    def is_floor(self) -> bool:
        """Whether it is a trivial baseline: shown, never ranked."""
        return self.card.system.kind == "floor"

    @cached_property
    def refuted(self) -> bool:
        """Whether a maintainer's second judgement contradicts a score that was submitted."""
        return self.entry.status == REFUTED or bool(contradictions(self.card, self.entry.review))

    @property
    def status(self) -> str:
        """How far it is confirmed."""
        return REFUTED if self.refuted else self.entry.status

    def again(self, track: str, metric: str) -> FilePlace | None:
        """Return a maintainer's score under the same judge, which replaces the submitted one."""
        if not same_judge(self.card, self.entry.review, track, metric):
            return None
        score = self.review["tracks"][track]["scores"][metric]
        return score if score["value"] else None

    @cached_property
    def tracks(self) -> dict[str, FilePlace]:
        """The places of its tracks."""
        return dict(self.root["tracks"].items())

    def run(self, track: str) -> FilePlace:
        """Return the place of the run that a track comes from."""
        return self.root["runs"][self.card.tracks[track].run]

    def from_cache(self, track: str) -> bool:
        """Tell whether so many replies came from a cache that the cost of its run is another's."""
        # A run may ask the same twice, or again after an interruption: that it has paid for.
        calls = self.card.runs[self.card.tracks[track].run].calls
        return calls.cached > MOST_CACHED * (calls.http + calls.cached)

    def recomputed(self, track: str, metric: str) -> bool:
        """Tell whether a score was recomputed when the submission was verified.

        It was where the records are the package's own, if its verdicts are there or none is needed,
        and else where a maintainer's review says so.
        """
        card = self.card.tracks[track]
        run, review = self.card.runs[card.run], self.entry.review
        if review is not None and track in review.recomputed:
            return True
        # Of other data only who has them can tell, and the site is built without them.
        if run.data.name != SAMPLES or self._own(track) is None:
            return False
        decided = metric in board_tracks()[track].unjudged or card.files.verdicts is not None
        return decided or isinstance(judge_of(card, run), LexicalJudge)

    def sessions(self, track: str) -> dict[str, str]:
        """Return the session of every record of a track; nothing where the data are not ours."""
        own = self._own(track)
        return own.sessions if own is not None else {}

    def on_pages(self, track: str) -> SampleTrack | None:
        """Return the records of a track where pages may show them: gold of others is not ours."""
        return known_track(track, self.card.tracks[track].data_sha256)

    def _own(self, track: str) -> SampleTrack | None:
        card = self.card.tracks[track]
        seed = self.card.runs[card.run].settings.get("seed", 0)
        return known_track(track, card.data_sha256, seed, card.conditions)

    def audit_is_drawn(self, track: str) -> bool:
        """Tell whether a maintainer drew the audited sessions of a task."""
        return drawn_by_a_maintainer(self.card, self.entry.review, track)


def load(submissions: Path) -> list[SiteSystem]:
    """Read every submission below `submissions`, in the order of their names.

    Raises:
        UsageError: If there is no such folder.
        DataError: If one can't be read, or its folder has another name than its slug.
    """
    if not submissions.is_dir():
        hint = "submissions= must be the folder of submissions"
        raise UsageError(f"{submissions}: no such folder; {hint}")
    systems = []
    for folder in sorted(path for path in submissions.iterdir() if (path / CARD).is_file()):
        systems.append(load_one(folder))
    return systems


def load_one(folder: Path) -> SiteSystem:
    """Read the submission in `folder`.

    Raises:
        DataError: If it can't be read, or its folder has another name than its slug.
    """
    entry = read_entry(folder)
    if entry.card.slug != folder.name:
        fault = f"is '{entry.card.slug}', but its folder has another name; rename the folder"
        raise DataError(fault, path=folder / CARD, field="slug")
    return SiteSystem(entry, _root(folder, CARD), _root(folder, REVIEW))


def _root(folder: Path, name: str) -> FilePlace:
    path = folder / name
    value = from_json(path.read_bytes()) if path.is_file() else None
    return FilePlace(f"{folder.name}/{name}", "", value)


OFFICIAL = Path(__file__).with_name("official.toml")
CALIBRATIONS = Path(str(files("alps.judges"))) / "calibrations"

JudgedBy = Literal["official", "llm", "embedded"]
"""Who decides a score: the official judge or none, another LLM, or an embedded judge."""
ORDER: tuple[JudgedBy, ...] = ("official", "llm", "embedded")


@dataclass(frozen=True)
class Official:
    """The settings that all boards share, and whether a calibration of the judge passes."""

    data: str
    split: str
    judge: str
    calibrated: bool


@cache
def official() -> Official:
    """Return what `official.toml` names."""
    rows = tomllib.loads(OFFICIAL.read_text(encoding="utf-8"))
    judge = str(rows["judge"])
    return Official(str(rows["data"]), str(rows["split"]), judge, _passes(judge))


def judged_by(judge: str, *, decides: bool) -> JudgedBy:
    """Tell who decides a score of a run with a judge; `decides` is whether it has a part in it."""
    if not decides or judge == official().judge:
        return "official"
    return "embedded" if is_embedded_judge(judge) else "llm"


def _passes(judge: str) -> bool:
    """Tell whether any calibration of the package shows a judge to be fit for a rubric."""
    for path in calibrations_in(CALIBRATIONS):
        calibration = from_json(path.read_bytes())
        verdicts = {rubric.get("verdict", "?") for rubric in calibration["rubrics"].values()}
        if calibration["judge"] == judge and verdicts - {"fail", "?"}:
            return True
    return False


def calibrations_in(folder: Path) -> list[Path]:
    """Return the files of the calibrations in a folder."""
    return sorted({*folder.glob("*.json"), *folder.glob("*/calibration.json")})
