"""Scores recomputed from predictions and verdicts, by the code that scored them first.

The embedded lexical judge costs nothing, so the verdicts of anything called lexical are made anew,
whatever else its fingerprint claims. Those of any other judge are taken as they stand in the
submission, with the capabilities that its fingerprint gives it.
"""

import re
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from alps.event_loop import run_loop
from alps.jsonl import Journal, key_of
from alps.judges.admission import partly_admitted
from alps.judges.base import (
    RELATIONS,
    Judge,
    MatchQuestion,
    Question,
    Relation,
    SupportQuestion,
    fingerprint_id,
)
from alps.judges.embedded import RECORDED, EmbeddedJudge, LexicalJudge
from alps.judges.rubric import Rubric, RubricQuestion
from alps.leaderboard.gold_data import GoldTrack
from alps.leaderboard.parts import CORRECTED, part_of
from alps.leaderboard.submission import PublishedTrack, RunCard, only, without
from alps.rows import PEOPLE, Corrected, TrackSummary
from alps.run.collector import Journals, RunPlan, run_tracks
from alps.run.engine import TrackPlan
from alps.run.scores import RecordScores
from alps.run.summary import summarise_track
from alps.schema import Prediction
from alps.systems import Unheard, floor_systems
from alps.tasks import JudgingOptions, Scored, Task
from alps.tasks.base import Row
from alps.text import fold_loosely

# How long recomputing one track may take; the largest track of the samples takes seconds.
LONGEST_SECONDS = 900.0

# Rows by the id of their record and which of its answers they are about.
Key = tuple[str, int]
Rows = Mapping[Key, Mapping[str, Any]]
_ABOUT = ("benchmark_id", "track", "repeat")
_NO_VERDICT = {"outcome": "empty", "judge": "", "error": None}


@dataclass(frozen=True)
class Recomputed:
    """The recomputed results of a track.

    Attributes:
        summary: As the summary of a run gives it for a track.
        scores: The rows of the scores.
        verdicts: The rows of the verdicts, where they were made anew; else empty.
        corrected: Corrected scores by metric, for the calibrations that are known here.
        broken: Records that can't be scored, and why.
        overdue: Whether the time was up before all were scored; nothing may be concluded then.
    """

    summary: TrackSummary
    scores: Rows
    verdicts: Rows = field(default_factory=dict)
    corrected: Mapping[str, Corrected] = field(default_factory=dict)
    broken: Sequence[tuple[str, str]] = ()
    overdue: bool = False


class ReplayedJudge(EmbeddedJudge):
    """Stand-in for the judge of a submission, by its name and its fingerprint there without id."""

    def __init__(self, name: str, parts: Mapping[str, Any]) -> None:
        self.name = name
        rest = dict(parts)
        self._rubrics: Mapping[str, Any] = rest.pop("rubrics", None) or {}
        self.fingerprint: Mapping[str, Any] = rest
        self.relations: frozenset[Relation] = frozenset(RELATIONS)
        # Labels are of what was asked: people checked nothing against a dialogue besides.
        self.comparable = parts.get("judge") not in ("recorded", PEOPLE)
        kinds: set[type[Question[Any]]] = {MatchQuestion, RubricQuestion}
        self.answers = frozenset(kinds | {SupportQuestion} if self.comparable else kinds)

    async def answer(self, question: Question[Any], *, about: str) -> Any:
        """Fail: verdicts come from the submission only."""
        return question.failed("empty", "no verdict in the submission")

    def fingerprint_for(self, rubrics: Sequence[Rubric]) -> Mapping[str, Any]:
        """Return the fingerprint with the hashes of `rubrics`; embedded judges read none."""
        if not self._rubrics:
            return self.fingerprint
        asked = {prompt.id for prompt in rubrics}
        hashes = only(self._rubrics, filter(asked.__contains__, self._rubrics))
        return {**self.fingerprint, "rubrics": hashes}


def judge_of(track: PublishedTrack, run: RunCard) -> Judge:
    """Return the judge to score a track with: the lexical one if it is named, else a replay.

    Under rubrics whose known items it could not tell apart it gives no scores.
    """
    names = (run.judge.get("judge"), run.settings.get("judge"))
    judge = judge_named(track.judge, run.fingerprint, *names)
    if isinstance(judge, LexicalJudge):
        return judge
    return partly_admitted(judge, run.judge_check or {})


def judge_named(name: str, parts: Mapping[str, Any], *others: object) -> Judge:
    """Return the judge of a name and a fingerprint; `others` are what else it is called."""
    # The name alone decides. A fingerprint that adds or changes a part is another one than its own,
    # and `check_identity` refuses it; its verdicts were once believed for an extra `rubrics: {}`.
    lexical = any(map(is_lexical, (name, *others)))
    return LexicalJudge() if lexical else ReplayedJudge(name, parts)


def is_lexical(name: object) -> bool:
    """Tell whether a judge goes by the name of the embedded one, in whatever case or guise."""
    if not isinstance(name, str) or name.startswith(RECORDED):
        return False
    return LexicalJudge.name in re.sub(r"[^a-z]", "", fold_loosely(name))


def fingerprints(judge: Judge, task: Task) -> set[str]:
    """Return the ids that verdicts of `judge` on `task` may carry: under all rubrics, or one."""
    sets: list[Sequence[Rubric]] = [task.rubrics, *((rubric,) for rubric in task.rubrics)]
    return {fingerprint_id(judge.fingerprint_for(rubrics)) for rubrics in sets}


def recompute(
    gold: GoldTrack,
    track: PublishedTrack,
    run: RunCard,
    predictions: Rows,
    verdicts: Rows | None,
    *,
    seconds: float = LONGEST_SECONDS,
    floors: bool = True,
) -> Recomputed:
    """Score the predictions of a track again, from rows that were checked.

    Only the lexical judge can do without verdicts. What is left after `seconds` is not scored;
    trivial baselines are made where `floors` asks for them.
    """
    judge = judge_of(track, run)
    broken: list[tuple[str, str]] = []
    clock = _TimeLimit(time.monotonic() + seconds)
    task = _guarded(_replaying(gold.task, judge, verdicts), broken, clock)
    repeats = run.settings.get("repeats") or 1
    systems = tuple(_Recorded(predictions, repeat) for repeat in range(repeats))
    # No floors under an LLM: its verdicts on them are not in a submission.
    baselines = floor_systems(gold.task) if floors and not judge.comparable else {}
    plan_of = TrackPlan(task, gold.samples.values, systems, baselines)
    verdicts_made, scores = _JournalInMemory(), _JournalInMemory()
    # Nothing waits for a network here, so that one worker is as fast as many.
    plan = RunPlan(
        tracks=(plan_of,),
        judge=judge,
        options=JudgingOptions(extras=run.settings.get("extras") == "judge"),
        floor_judge=LexicalJudge(),
        journals=Journals(_JournalInMemory(), verdicts_made, scores),
        workers=1,
    )
    outcomes = run_loop(run_tracks(plan, progress=lambda scored, failure="": None))
    summary = summarise_track(plan, plan_of, outcomes[task.track])
    anew = verdicts_made.by_key() if isinstance(judge, LexicalJudge) else {}
    return Recomputed(
        summary,
        scores.by_key(),
        anew,
        _corrected(gold, track, predictions, scores.by_key()),
        tuple(broken),
        clock.struck,
    )


def undecided(predictions: Rows, scores: Rows) -> dict[Key, Mapping[str, Any]]:
    """Return empty verdicts for a track without its own: metrics without a judge are scored anyway.

    Where the scores say that a judgement failed, it failed here, too.
    """
    verdicts: dict[Key, Mapping[str, Any]] = {}
    for key in predictions:
        score = scores.get(key, {})
        outcome = score["outcome"] if score.get("stage") == "judge" else "ok"
        verdicts[key] = {**_NO_VERDICT, "outcome": outcome}
    return verdicts


def recompute_from_scores(task: Task, scores: Rows) -> dict[str, Any]:
    """Return means and counts, without intervals, from the scores of single answers only."""
    # For data that are not here: sessions, which the intervals need, are part of them.
    board = RecordScores(task.metrics)
    failed: dict[str, Counter[str]] = {"generate": Counter(), "judge": Counter()}
    unrated = 0
    for index, ((name, repeat), row) in enumerate(sorted(scores.items())):
        if row["stage"] != "score":
            failed[row["stage"]][row["outcome"]] += 1
        if row["scores"] or row.get("counts"):
            board.add(index, name, Scored(row["scores"], row.get("counts") or {}), repeat=repeat)
            unrated += task.only_rated and not row["scores"]
        else:
            board.unscored += 1
    means = {}
    for metric in task.metrics:
        estimate = board.estimate(metric)
        means[metric.name] = {"value": estimate.value, "n": estimate.n}
    return {
        "n": board.scored + board.unscored,
        "scored": board.scored - unrated,
        "unscored": board.unscored + unrated,
        "failed_predictions": dict(failed["generate"]),
        "failed_judgements": dict(failed["judge"]),
        "counts": board.totals(),
        "scores": means,
    }


class _Recorded:
    """The system of a submission, for one of its repeats: gives the submitted answers."""

    def __init__(self, predictions: Rows, repeat: int) -> None:
        self.name = "submitted"
        self.settings: Mapping[str, Any] = {}
        self._predictions, self._repeat = predictions, repeat
        self._unheard = Unheard(self.name)

    async def answer(self, task: Task, sample: Any) -> Prediction:
        """Return the submitted answer to `sample`."""
        row = self._predictions.get((sample.benchmark_id, self._repeat))
        if row is None:
            return await self._unheard.answer(task, sample)
        return Prediction.model_validate(row)


def _replaying(task: Task, judge: Judge, verdicts: Rows | None) -> Task:
    """Let the verdicts of `judge` be those of the submission; those of floors are asked as ever."""
    if isinstance(judge, LexicalJudge):
        return task
    submitted = verdicts or {}

    async def replay(
        sample: Any, prediction: Prediction, asked: Judge, options: JudgingOptions
    ) -> dict[str, Any]:
        if asked is not judge:
            return await task.judge(sample, prediction, asked, options)
        row = submitted.get((sample.benchmark_id, prediction.repeat), _NO_VERDICT)
        return without(row, *_ABOUT)

    return replace(task, judge=replay)


@dataclass
class _TimeLimit:
    """When the time of a track is up; `struck` says whether anything was left undone for it."""

    end: float
    struck: bool = False

    def is_up(self) -> bool:
        self.struck = self.struck or time.monotonic() > self.end
        return self.struck


def _guarded(task: Task, broken: list[tuple[str, str]], clock: _TimeLimit) -> Task:
    """Note records that can't be scored, and pass over what is left once the time is up."""

    async def judge(
        sample: Any, prediction: Prediction, asked: Judge, options: JudgingOptions
    ) -> dict[str, Any]:
        if clock.is_up():
            return dict(_NO_VERDICT)
        return await task.judge(sample, prediction, asked, options)

    def score(sample: Any, prediction: Prediction, verdict: Row | None, by: Judge) -> Scored:
        if clock.is_up():
            return Scored({})
        try:
            return task.score(sample, prediction, verdict, by)
        # A stranger's verdict can be wrong in more ways than can be foreseen.
        except Exception as error:
            broken.append((sample.benchmark_id, f"{type(error).__name__}: {error}"))
            return Scored({})

    return replace(task, judge=judge, score=score)


class _JournalInMemory(Journal):
    """A journal in memory: nothing has to survive a crash, and the disk would take most time."""

    def __init__(self) -> None:
        self._rows: dict[str, dict[str, Any]] = {}

    def get(self, name: str) -> dict[str, Any] | None:
        """Return the row under the key `name`."""
        return self._rows.get(name)

    def write(self, row: dict[str, Any]) -> None:
        """Keep `row`; it replaces an earlier one of the same record."""
        self._rows[key_of(row) or ""] = row

    async def append_together(self, row: dict[str, Any]) -> None:
        """Keep `row`, as `write` does."""
        self.write(row)

    async def withdraw(self, about: dict[str, Any]) -> None:
        """Drop the row of the record that `about` names."""
        self._rows.pop(key_of(about) or "", None)

    def settle(self, order: Iterable[str]) -> None:
        """Leave the rows as they are: they are looked up by their keys."""

    def by_key(self) -> dict[Key, Mapping[str, Any]]:
        """Return the rows by the ids of their records."""
        return {(row["benchmark_id"], row.get("repeat", 0)): row for row in self._rows.values()}


def _corrected(
    gold: GoldTrack, track: PublishedTrack, predictions: Rows, scores: Rows
) -> dict[str, Corrected]:
    part = part_of(CORRECTED) if any(one.corrected for one in track.scores.values()) else None
    return {} if part is None else part.corrected(gold, track, predictions, scores)
