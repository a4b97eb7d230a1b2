"""The rows of a track: the form each file asks for, and checks of ids, answers and verdicts."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, StringConstraints, ValidationError

from alps.judges.base import Relation
from alps.judges.embedded import LexicalJudge
from alps.judges.rubric import GRADED, Rubric, rubric
from alps.leaderboard.checks import PACK_AGAIN, Findings, some_of
from alps.leaderboard.gold_data import GoldTrack
from alps.leaderboard.recompute import Key, Rows, fingerprints, judge_of
from alps.leaderboard.submission import PublishedTrack, RunCard, StrictFields
from alps.leaderboard.untrusted import Count, FingerprintId, faults_of, scan_rows, shown, texts_of
from alps.llm.types import Structured
from alps.schema import Outcome, Prediction
from alps.show.formatting import counted
from alps.tasks import Task

# Characters; what a system says beyond that is no answer, and would only slow down who reads it.
LONGEST_ANSWER = 200_000
# Memories of one answer: 32 times as many as any of seven real models gave to any of 654 dialogues.
MOST_ITEMS = 1_000
MOST_PAIRS = 20_000
# A file of millions of such rows would take an hour.
MOST_WRONG = 10_000
# Characters of gold times characters of predicted values, where every one meets every other
# (`authors-v1`). Real outputs need at most 2.1 million. A million takes up to 1 s (`abba`
# repeated), and a row of one mebibyte could ask for hundreds of millions.
MOST_COMPARED = 10_000_000

Id = Annotated[str, StringConstraints(min_length=1, max_length=200)]
Repeat = Annotated[int, Field(ge=0, lt=100)]
Number = Annotated[float, Field(ge=-1e9, le=1e9)]
Share = Annotated[float, Field(ge=0, le=1)]
Text = Annotated[str, StringConstraints(max_length=LONGEST_ANSWER)]
Texts = Annotated[list[Text], Field(max_length=1_000)]
ScoreName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_]{1,60}$")]
Mark = Annotated[int, Field(ge=0, lt=10_000)]
MarkName = Annotated[str, StringConstraints(pattern=r"^[a-z_]{1,30}( [0-9]{1,4})?( [a-z]{1,30})?$")]
Marks = Annotated[dict[MarkName, Mark], Field(max_length=20_000)]


class _About(StrictFields):
    benchmark_id: Id
    track: Id
    repeat: Repeat = 0


class ShownRow(StrictFields):
    """How much of a history a reader was shown, as `alps.schema.ShownToReader` has it."""

    turns: Count
    memories: Count = 0
    tokens: Count
    left_out: Count = 0
    positions: Annotated[list[Count], Field(max_length=100_000)] | None = None


class PredictionRow(_About):
    """An answer, as `alps.schema.Prediction` has it; `prediction` is up to its task."""

    outcome: Outcome
    repaired: bool = False
    truncated: bool = False
    strict: bool | None = None
    prediction: dict[str, Any] | None = None
    raw: str | None = None
    thought: str | None = None
    notes: Texts = Field(default_factory=list)
    error: Text | None = None
    shown: ShownRow | None = None


class NamedPair(StrictFields):
    """A relation that a judge named, by the ids it was shown."""

    gold: Annotated[str, StringConstraints(pattern=r"^g[1-9][0-9]{0,4}$")]
    predicted: Annotated[str, StringConstraints(pattern=r"^p[1-9][0-9]{0,4}$")]
    relation: Relation
    reason: Text
    strength: Share


class SupportRow(StrictFields):
    """Whether the dialogue supports a prediction, by a judge."""

    id: Annotated[str, StringConstraints(pattern=r"^p[1-9][0-9]{0,4}$")]
    support: Literal["supported", "unsupported", "not_about_user"]
    reason: Text


class Support(StrictFields):
    """Support of all predictions; `extras`: also of unmatched ones."""

    outcome: Outcome
    items: Annotated[list[SupportRow], Field(max_length=MOST_ITEMS)]
    error: Text | None
    raw: Text | None
    extras: bool = False


class RatedRow(StrictFields):
    """The marks of an answer."""

    outcome: Outcome
    marks: Marks
    reason: Text
    agreement: Share | None = None
    enforced: Text | None
    error: Text | None
    raw: Texts


class VerdictRow(_About):
    """A verdict: pairs, marks, an option or reviews, as the task asks for them."""

    outcome: Outcome
    judge: FingerprintId
    error: Text | None
    pairs: Annotated[list[NamedPair], Field(max_length=MOST_PAIRS)] | None = None
    notes: Texts | None = None
    raw: Texts | None = None
    agreement: Share | None = None
    support: Support | None = None
    used: RatedRow | None = None
    rubric: ScoreName | None = None
    marks: Marks | None = None
    reason: Text | None = None
    reasons: Annotated[dict[MarkName, Text], Field(max_length=20_000)] | None = None
    enforced: Text | None = None
    option: Annotated[int, Field(ge=0, le=3)] | None = None
    reviews: dict[str, Any] | None = None


class SubmittedScore(_About):
    """The scores of one answer."""

    outcome: Annotated[str, StringConstraints(pattern=r"^[a-z_]{1,30}$")]
    stage: Literal["generate", "judge", "score"]
    scores: Annotated[dict[ScoreName, Number], Field(max_length=60)]
    counts: Annotated[dict[ScoreName, Number], Field(max_length=100)] = Field(default_factory=dict)


class AuditRow(SubmittedScore):
    """The scores of one answer under the audit judge, and its verdict; None where it failed."""

    verdict: VerdictRow | None = None


class CallRow(StrictFields):
    """One call: what it was for and what it cost; never what it was keyed by."""

    purpose: Id
    about: Id
    model: Id
    ask: int
    attempt: int
    outcome: Id
    status: int | None
    prompt_tokens: Annotated[int, Field(ge=0)] | None
    completion_tokens: Annotated[int, Field(ge=0)] | None
    cost: Annotated[float, Field(ge=0)] | None
    seconds: Annotated[float, Field(ge=0)]
    assumed_tokens: Annotated[int, Field(ge=0)]
    assumed_cost: Annotated[float, Field(ge=0)]
    finish_reason: Id | None = None
    cached_tokens: Annotated[int, Field(ge=0)] | None = None
    reasoning_tokens: Annotated[int, Field(ge=0)] | None = None
    structured: Structured | None = None
    strict: bool | None = None


# By stage.
ROWS: dict[str, type[BaseModel]] = {
    "predictions": PredictionRow,
    "verdicts": VerdictRow,
    "scores": SubmittedScore,
    "calls": CallRow,
    "audit": AuditRow,
}


@dataclass(frozen=True)
class TrackRows:
    """The rows of a track by their keys; `verdicts` is None where there is no such file."""

    predictions: Rows
    verdicts: Rows | None
    scores: Rows
    audit: Rows = field(default_factory=dict)

    @property
    def answers(self) -> dict[Key, Mapping[str, Any]]:
        """The answers that were given."""
        rows = self.predictions
        return {key: rows[key]["prediction"] for key in rows if rows[key]["outcome"] == "ok"}


def read_track(folder: Path, task: Task, track: PublishedTrack, findings: Findings) -> TrackRows:
    """Read all files of a track; a row that has not the form of its file is a finding, left out."""
    rows = {}
    for stage in track.files.present():
        path = folder / task.track / f"{stage}.jsonl"
        rows[stage] = _read_stage(path, task, stage, findings)
    audit = rows.get("audit", {})
    return TrackRows(
        rows.get("predictions", {}), rows.get("verdicts"), rows.get("scores", {}), audit
    )


def check_ids(name: str, rows: TrackRows, expected: Iterable[Key], findings: Findings) -> None:
    """Compare the ids with those of the split: none may be missing or added."""
    wanted = dict.fromkeys(expected)
    for stage, of_stage in (("predictions", rows.predictions), ("scores", rows.scores)):
        where = f"{name}/{stage}.jsonl"
        if missing := _without(wanted, of_stage):
            what = f"lacks {len(missing):,} of the {len(wanted):,} ids of the split: "
            what += some_of(missing)
            findings.serious("missing_ids", where, what, "submit a run of the whole split")
        if extra := _without(of_stage, wanted):
            what = f"has {counted(len(extra), 'id')} outside the split: {some_of(extra)}"
            findings.serious("extra_ids", where, what, "submit a run of this split only")


def _without(keys: Iterable[Key], others: Collection[Key]) -> list[str]:
    """Name the keys that are not among `others`."""
    return [named(key) for key in keys if key not in others]


def check_verdicts(
    task: Task, track: PublishedTrack, run: RunCard, rows: TrackRows, findings: Findings
) -> None:
    """Check that verdicts are of the card's judge, on answers, and in the task's form."""
    judge, where = judge_of(track, run), f"{task.track}/verdicts.jsonl"
    allowed = fingerprints(judge, task)
    if isinstance(judge, LexicalJudge):
        # Its verdicts are made anew, and a fingerprint not its own was refused already.
        allowed.add(track.judge_fingerprint)
    verdicts = rows.verdicts or {}
    answered = rows.answers
    # No judge is asked about an answer that failed: such a verdict was made up.
    if stray := _without(verdicts, answered):
        what = f"has {counted(len(stray), 'verdict')} without an answer: {some_of(stray)}"
        findings.serious("extra_ids", where, what, PACK_AGAIN)
    if others := [named(key) for key, row in verdicts.items() if row["judge"] not in allowed]:
        verdicts_of = counted(len(others), "verdict")
        what = f"has {verdicts_of} by a judge other than the one on the card: {some_of(others)}"
        findings.serious("judge", where, what, PACK_AGAIN)
    for key, row in verdicts.items():
        if fault := _fault_of_verdict(row, task):
            findings.serious("verdict", f"{where}: {named(key)}", fault, PACK_AGAIN)


def _fault_of_verdict(row: Mapping[str, Any], task: Task) -> str:
    if task.public.paired is not None and row["outcome"] == "ok" and row.get("pairs") is None:
        return "the verdict has no pairs"
    return _fault_of_marks(row, task) or _fault_of_marks(row.get("used") or {}, task)


def check_answers(name: str, gold: GoldTrack, rows: TrackRows, findings: Findings) -> TrackRows:
    """Compare answers and verdicts with their records; return the rows that are consistent."""
    predictions, verdicts = dict(rows.predictions), dict(rows.verdicts or {})
    for key, row in rows.predictions.items():
        if (sample := gold.samples.get(key[0])) is None or row["outcome"] != "ok":
            continue
        # An answer in the right form can still choose an option that its record has not.
        try:
            gold.task.fits(sample, row["prediction"])
            fault = _too_much(gold, sample, row["prediction"])
        except (ValueError, KeyError, TypeError) as error:
            fault = shown(str(error), 160)
        if fault:
            where = f"{name}/predictions.jsonl: {named(key)}"
            findings.serious("answer", where, fault, PACK_AGAIN)
            del predictions[key]
            verdicts.pop(key, None)
        elif fault := _out_of_range(gold, sample, row, verdicts.get(key)):
            where = f"{name}/verdicts.jsonl: {named(key)}"
            findings.serious("verdict", where, fault, PACK_AGAIN)
            del verdicts[key]
    kept = verdicts if rows.verdicts is not None else None
    return replace(rows, predictions=predictions, verdicts=kept)


def _read_stage(
    path: Path, task: Task, stage: str, findings: Findings
) -> dict[Key, Mapping[str, Any]]:
    rows: dict[Key, Mapping[str, Any]] = {}
    twice: dict[str, None] = {}
    where, wrong = f"{task.track}/{path.name}", 0
    try:
        for number, row, unread in scan_rows(path):
            if wrong > MOST_WRONG:
                raise ValueError(f"more than {MOST_WRONG:,} rows are wrong or repeated")
            fault = unread if row is None else _fault_of_row(row, stage, task)
            if fault or row is None:
                wrong += 1
                findings.serious("row", f"{where}, line {number}", fault, PACK_AGAIN)
            # Calls have no key, and nothing is looked up in them.
            elif stage != "calls":
                key = row["benchmark_id"], row.get("repeat", 0)
                if key in rows:
                    wrong += 1
                    twice[named(key)] = None
                rows[key] = row
    except ValueError as error:
        findings.serious("file", where, str(error), PACK_AGAIN)
    if twice:
        what = f"repeats {counted(len(twice), 'id')}: {some_of(twice)}"
        findings.serious("duplicate_ids", where, what, "keep one row per record")
    return rows


def _fault_of_row(row: Mapping[str, Any], stage: str, task: Task) -> str:
    """Say what is wrong with the form of a row; nothing where it is right."""
    try:
        ROWS[stage].model_validate(row)
        if stage != "calls" and row["track"] != task.track:
            return f"the row belongs to {shown(row['track'], 40)}"
        return _fault_of_prediction(row, task) if stage == "predictions" else ""
    except ValidationError as error:
        field, fault = faults_of(error)[0]
        return f"{field}: {fault}"


def _fault_of_prediction(row: Mapping[str, Any], task: Task) -> str:
    """Check what an answer holds, as deep as its task reads it.

    Raises:
        ValidationError: If it has not the form of the task.
    """
    outcome, prediction = row["outcome"], row.get("prediction")
    if (outcome == "ok") != (prediction is not None):
        return f"outcome {outcome}, but {'no' if prediction is None else 'a'} prediction"
    if prediction is None:
        return ""
    items = prediction.get("memory_items")
    # Before anything looks at each of them.
    if isinstance(items, list) and len(items) > MOST_ITEMS:
        return f"{len(items):,} memories; an answer may have at most {MOST_ITEMS:,}"
    task.stored.model_validate(prediction)
    size = sum(len(text) for text, _ in texts_of(prediction, keys=False))
    if size > LONGEST_ANSWER:
        return f"{size:,} characters; an answer may have at most {LONGEST_ANSWER:,}"
    return ""


def _fault_of_marks(rating: Mapping[str, Any], task: Task) -> str:
    """Say what is wrong with marks: those of the task, met or not met, or three from 1 to 5."""
    marks = rating.get("marks")
    if marks is None or rating["outcome"] != "ok":
        return ""
    if task.public.is_mark is not None:
        return _fault_of_own_marks(marks, task.public.is_mark)
    if not marks:
        return "the verdict has no marks"
    if set(marks) == {"met"}:
        return "" if marks["met"] in (0, 1) else f"marks.met is {marks['met']}, neither 0 nor 1"
    for by in map(rubric, GRADED):
        if set(by.marks) == set(marks):
            return _fault_of_grades(by, marks)
    return f"no rubric has exactly these marks: {', '.join(sorted(marks))}"


def _fault_of_own_marks(marks: Mapping[str, int], is_mark: Callable[[str, int], bool]) -> str:
    """Say which mark the own rubrics of a task do not allow."""
    for name, mark in marks.items():
        if not is_mark(name, mark):
            return f"marks.{name} is {mark}, which no rubric allows"
    return ""


def _fault_of_grades(by: Rubric, marks: Mapping[str, Any]) -> str:
    low, *_, high = by.scale
    for name in by.marks:
        if not low <= marks[name] <= high:
            return f"marks.{name} is {marks[name]}, not from {low} to {high}"
    return ""


def _too_much(gold: GoldTrack, sample: Any, answer: Mapping[str, Any]) -> str:
    """Say that comparing an answer with its gold would take too long, where it would."""
    if "scoring" not in gold.task.conditions or not sample.gold:
        return ""
    compared = sum(len(memory.value) for memory in sample.gold)
    compared *= sum(len(item["value"]) for item in answer["memory_items"])
    if compared > MOST_COMPARED:
        return f"scoring needs {compared:,} character comparisons; the limit is {MOST_COMPARED:,}"
    return ""


def _out_of_range(
    gold: GoldTrack, sample: Any, row: Mapping[str, Any], verdict: Mapping[str, Any] | None
) -> str:
    """Say what of a verdict is about a memory that is not there, or stands twice."""
    if verdict is None or sample.gold is None or gold.task.public.paired is None:
        return ""
    pairs, support = verdict.get("pairs") or (), verdict.get("support") or {"items": ()}
    if not pairs and not support["items"]:
        return ""
    n_gold, n_predicted = gold.task.public.paired(sample, Prediction.model_validate(row))
    return _fault_of_pairs(pairs, n_gold, n_predicted) or _fault_of_support(support, n_predicted)


def _fault_of_pairs(pairs: Iterable[Mapping[str, Any]], n_gold: int, n_predicted: int) -> str:
    seen = set()
    for pair in pairs:
        ids = int(pair["gold"][1:]), int(pair["predicted"][1:])
        if ids[0] > n_gold or ids[1] > n_predicted:
            known = f"{counted(n_gold, 'gold memory', 'gold memories')} and "
            known += counted(n_predicted, "predicted memory", "predicted memories")
            return f"pairs {pair['gold']} with {pair['predicted']}, but the record has {known}"
        # Of a memory that is paired twice with another, one would count for two.
        if ids in seen:
            return f"{pair['gold']} and {pair['predicted']} are paired twice"
        seen.add(ids)
    return ""


def _fault_of_support(support: Mapping[str, Any], n_predicted: int) -> str:
    numbers = [int(item["id"][1:]) for item in support["items"]]
    # One that stands twice would count twice.
    if len(numbers) != len(set(numbers)) or max(numbers, default=0) > n_predicted:
        return "the support verdicts repeat a memory, or name a memory that was not predicted"
    return ""


def named(key: Key) -> str:
    """Name an answer: its record, and which of several it is where it is not the first."""
    name, repeat = key
    return shown(name, 40) + (f"#{repeat + 1}" if repeat else "")
