"""Judge the predictions of a submission again, with a maintainer's judge and gold; write a review.

The predictions become a run folder of their own, so everything that a run does holds here, too:
verdicts are on disk before the next question, the same command resumes, budgets stop it.
"""

import hashlib
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from pydantic import ValidationError

from alps.errors import DataError, UsageError
from alps.folders import own_folder
from alps.jsonl import dump
from alps.judges.embedded import is_embedded_judge
from alps.leaderboard.gold_data import data_for
from alps.leaderboard.packing import today
from alps.leaderboard.parts import AUDIT, all_parts, needed
from alps.leaderboard.settings import RescoreSettings
from alps.leaderboard.site_data import Contradiction, content_of, contradictions
from alps.leaderboard.submission import (
    REFUTED,
    REVIEW,
    SAMPLES,
    Review,
    SubmissionEntry,
    only,
    read_entry,
    without,
    write_card,
)
from alps.leaderboard.untrusted import faults_of
from alps.leaderboard.verify import Options, verify
from alps.llm.ledger import counted_in
from alps.run.estimate import Stage, estimated
from alps.run.folder import caps_left, write_json
from alps.run.opened import MANIFEST, read_manifest
from alps.run.session import resolve_again
from alps.run.source import open_data
from alps.run.start import score_again
from alps.run.summary import Finished
from alps.settings import JudgeSettings, RunSettings, parse_settings
from alps.show.formatting import counted

# Settings of a run that say which records it is about, how often each is answered, how it is
# scored.
_SHOWN = ("memory", "max_context_tokens", "k", "persona")
_RECORDS = ("task", "distractors", "ability", *_SHOWN, "prompt", "seed")
_CHOICES = (*_RECORDS, "repeats", "scoring", "extras")


@dataclass(frozen=True)
class Rescored:
    """The result of judging again: the review, its file, the runs behind it, what it refutes."""

    review: Review
    path: Path
    runs: tuple[Finished, ...]
    refuted: tuple[Contradiction, ...] = ()

    @property
    def budget_spent(self) -> bool:
        """Whether the budget stopped it; no review is written then."""
        return any(run.budget_spent for run in self.runs)

    @property
    def too_many_unscored(self) -> bool:
        """Whether too many answers have no verdict; no review is written then."""
        return any(run.too_many_unscored for run in self.runs)


def rescore(
    folder: Path,
    settings: RescoreSettings,
    typed: Sequence[str],
    *,
    tell: Callable[[Sequence[Stage]], None] = lambda stages: None,
) -> Rescored | None:
    """Judge the predictions of the submission in `folder` again, and write `review.json` into it.

    A score that is not found again under the submission's own judge makes the review a refutation.
    Before an LLM is asked, `tell` is called with what it will be asked, and one of the caps
    `max_cost` and `max_total_tokens` has to be given. Settings that are not among `typed` stay as
    the submitter's run had them. With `dry_run` nothing is asked and written, and None returned.

    Raises:
        AlpsError: If the submission is not in order, or the judge or the data can't be used.
    """
    # An LLM is paid by the answer: nothing is asked about rows that verification refuses.
    _check_in_order(folder)
    if settings.model_fields_set & {"audit_judge", "audit", "audit_labels"}:
        hint = "rescore judges every record; to audit a run, use alps score"
        raise UsageError(f"audit_judge=: {hint}")
    entry = read_entry(folder)
    work = Path(settings.out) if settings.out else Path("runs") / f"rescore-{entry.card.slug}"
    if settings.dry_run or not is_embedded_judge(settings.judge):
        calls = _estimate(entry, settings, typed, work)
        tell(calls)
        _check_capped(settings, calls)
    if settings.dry_run:
        return None
    runs = _runs(entry, settings, typed, work)
    judge = _judge_all if settings.sample is None else _judge_samples
    done = judge(entry, settings, runs)
    # Of a part alone it would be no review: the same command goes on where this one stopped.
    if not done.budget_spent and not done.too_many_unscored:
        write_card(done.path, done.review)
    return done


def _judge_all(
    entry: SubmissionEntry, settings: RescoreSettings, runs: Sequence["_RunToJudge"]
) -> Rescored:
    finished: list[Finished] = []
    for run in runs:
        # One cap for the whole review: the runs of a submission share it.
        caps = _left(settings, [one.folder for one in finished])
        finished.append(score_again(run.source, {**run.judging, **caps, "out": str(run.out)}))
    tracks: dict[str, Any] = {}
    for name, submitted in entry.card.tracks.items():
        track = finished[submitted.run].summary.tracks.get(name)
        if track is None:
            continue
        scores = {}
        for metric, score in track.scores.items():
            # A review says what the judge gave; the maintainer's calibrations are no part of that.
            scores[metric] = without(score.row(), "corrected")
        tracks[name] = {"scores": scores, "judge_fingerprint": track.judge_fingerprint}
    done = _rescored(entry, settings, tracks, finished[0].summary.judge_fingerprint)
    return replace(done, runs=tuple(finished))


def _judge_samples(
    entry: SubmissionEntry, settings: RescoreSettings, runs: Sequence["_RunToJudge"]
) -> Rescored:
    tracks: dict[str, Any] = {}
    judged: list[Path] = []
    content = content_of(entry.card)[:12]
    for run in runs:
        caps = _left(settings, judged)
        # Of each judge a folder of its own: an audit is of one. And none where all is judged. A
        # draw is of these very answers, verdicts and scores: who changes one after a review is
        # published knows which records were drawn.
        out = run.out.with_name(f"{run.out.name}-sample-{content}")
        out.mkdir(parents=True, exist_ok=True)
        for file in run.source.iterdir():
            shutil.copyfile(file, out / file.name)
        tracks |= needed(AUDIT).judge_sample(entry, out, settings, {**run.judging, **caps})
        judged.append(out)
    fingerprint = next(iter(tracks.values()))["judge_fingerprint"]
    return _rescored(entry, settings, tracks, fingerprint)


def _estimate(
    entry: SubmissionEntry, settings: RescoreSettings, typed: Sequence[str], work: Path
) -> list[Stage]:
    """Return what the judge would be asked, by run, besides what `work` has of it already."""
    calls: list[Stage] = []
    with TemporaryDirectory(prefix="alps-rescore-") as scratch:
        for run in _runs(entry, settings, typed, Path(scratch) / "work"):
            judged = work / run.out.name
            again = resolve_again(run.source, {**run.judging, "out": str(judged)}, dry=True)
            stages = estimated(*again, run.source, judged, generate=False)
            calls += [stage for stage in stages if stage.name == "judge"]
    return calls if settings.sample is None else _sampled_stages(calls, settings.sample)


def _rescored(
    entry: SubmissionEntry, settings: RescoreSettings, tracks: Mapping[str, Any], fingerprint: str
) -> Rescored:
    """Return the review with the scores of `tracks`, which refutes what they contradict."""
    review = _review(settings, tracks, fingerprint, _recomputed(entry.folder, settings))
    kept: dict[str, Any] = {}
    if entry.review is not None and entry.review.continues is not None:
        kept["continues"] = entry.review.continues
    for part in all_parts():
        kept |= part.review(entry)
    review = review.model_copy(update=kept)
    refuted = tuple(contradictions(entry.card, review))
    if refuted:
        review = review.model_copy(update={"status": REFUTED})
    return Rescored(review, entry.folder / REVIEW, (), refuted)


def _check_in_order(folder: Path) -> None:
    for finding in verify(folder, Options(reviewed=True)).findings:
        if finding.severity == "serious" and finding.code != "refuted":
            fault = f"{finding.what}; alps leaderboard verify shows all problems"
            raise DataError(fault, path=folder, field=finding.where)


def _sampled_stages(stages: Sequence[Stage], share: float) -> list[Stage]:
    """Return what judging a share of the sessions would ask, about."""
    parts = []
    for stage in stages:
        calls, tokens = ceil(share * stage.calls), int(share * stage.least_tokens)
        # The most stays that of all: which records are drawn is not known yet.
        parts.append(replace(stage, calls=calls, least_tokens=tokens, exact=False))
    return parts


class _RunToJudge(NamedTuple):
    """A run to judge again: its folder, the settings of its judge, and where it is judged."""

    source: Path
    judging: dict[str, Any]
    out: Path


def _runs(
    entry: SubmissionEntry, settings: RescoreSettings, typed: Sequence[str], work: Path
) -> list[_RunToJudge]:
    """Write the runs of a submission below `work`, all before the first of them is judged."""
    # What is judged again are a stranger's answers; of baselines the boards have figures of their
    # own.
    judging: dict[str, Any] = {"baseline_records": 0}
    for name in typed:
        if name in JudgeSettings.model_fields and name != "out":
            judging[name] = getattr(settings, name)
    runs = []
    for index in range(len(entry.card.runs)):
        predictions = []
        for track in entry.card.tracks.values():
            if track.run == index:
                predictions.append(track.files.predictions.sha256)
        # Other predictions get other folders: the verdicts on those before must not be taken.
        digest = hashlib.sha256("".join(predictions).encode()).hexdigest()[:8]
        source = _as_run(entry, index, settings, work / f"{index}-{digest}-predictions")
        plain = f"{index}-{digest}-{_word(settings.judge)}"
        judged = own_folder(work, settings.judge, plain, _judge_of)
        runs.append(_RunToJudge(source, judging, judged))
    return runs


def _check_capped(settings: RescoreSettings, stages: Sequence[Stage]) -> None:
    """Refuse to ask a judge that nothing stops: a stranger decides how many the answers are.

    Raises:
        UsageError: If it would be asked, and no cap was given.
    """
    if settings.dry_run or settings.max_cost is not None or settings.max_total_tokens is not None:
        return
    if calls := sum(stage.calls for stage in stages):
        most = "" if all(stage.exact for stage in stages) else "up to "
        tokens = sum(stage.least_tokens for stage in stages)
        what = f"judge={settings.judge}: {most}{counted(calls, 'call')}, at least {tokens:,} tokens"
        mend = "allow and limit these requests with max_cost= or max_total_tokens="
        raise UsageError(f"{what}; {mend}")


def _left(settings: RescoreSettings, judged: Sequence[Path]) -> dict[str, int | float]:
    """Return what is left of the caps, which are of all runs of a submission together."""
    return caps_left(settings, counted_in([*judged, *(folder / AUDIT for folder in judged)]))


def _as_run(entry: SubmissionEntry, index: int, settings: RescoreSettings, folder: Path) -> Path:
    """Write what of a submission's run is needed to judge it again, as the folder of a run.

    Raises:
        UsageError: If its records are not those of the data.
    """
    run = entry.card.runs[index]
    data = data_for(run, settings.data)
    if data is None:
        hint = "name the folder of the data with gold"
        raise UsageError(f"data=: alps cannot find {run.data.name}; {hint}")
    values = only(run.settings, _CHOICES)
    values |= {"model": run.settings.get("model") or "rules", "data": data}
    values["split"] = settings.split or (run.data.split if data != SAMPLES else None)
    experiment = parse_settings(values, RunSettings)
    opened = open_data(experiment)
    known: dict[str, set[str]] = {}
    for track in opened.tracks:
        known[track.task.track] = {sample.benchmark_id for sample in track.samples()}
    lines: list[bytes] = []
    for name, card in entry.card.tracks.items():
        if card.run == index:
            rows = list(entry.rows(name, "predictions"))
            _check_ids(name, rows, known.get(name), data)
            lines += map(dump, rows)
    folder.mkdir(parents=True, exist_ok=True)
    description = {"data": opened.description, "settings": experiment.recorded()}
    write_json(folder / MANIFEST, description)
    (folder / "predictions.jsonl").write_bytes(b"".join(lines))
    return folder


def _check_ids(
    name: str, rows: Sequence[Mapping[str, Any]], known: set[str] | None, data: str
) -> None:
    submitted = {row["benchmark_id"] for row in rows}
    if known is not None and submitted != known:
        lacking = f"{name} lacks {counted(len(known - submitted), 'record')} of the data"
        extra = f"has {counted(len(submitted - known), 'record')} outside the data"
        raise UsageError(f"data={data}: not the data of the submission: {lacking} and {extra}")


def _recomputed(folder: Path, settings: RescoreSettings) -> tuple[str, ...]:
    """Return the tracks whose printed scores were recomputed on the maintainer's data."""
    if settings.data is None:
        return ()
    options = Options(data=settings.data, split=settings.split, reviewed=True)
    return verify(folder, options).recomputed


def _review(
    settings: RescoreSettings,
    tracks: Mapping[str, Any],
    fingerprint: str,
    recomputed: Sequence[str],
) -> Review:
    row: dict[str, Any] = {
        "status": settings.status,
        "judge_fingerprint": fingerprint,
        "date": settings.date or today(),
        "tracks": tracks,
        "note": settings.note,
    }
    if seen := list(tracks if settings.status == "reproduced" else recomputed):
        row["recomputed"] = seen
    try:
        return Review.model_validate(row)
    except ValidationError as error:
        field, fault = faults_of(error)[0]
        raise UsageError(f"{field}: {fault}") from error


def _judge_of(folder: Path) -> str | None:
    """Return the judge of the run in a folder; None where there is no run."""
    if not (folder / MANIFEST).exists():
        return None
    return str(read_manifest(folder).settings.get("judge"))


def _word(judge: str) -> str:
    """Return a judge's name as a part of a folder's."""
    name = "".join(c if c.isalnum() else "-" for c in judge.rpartition("/")[2])
    return name[:40].strip("-") or "judge"
