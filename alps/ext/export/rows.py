"""Rows of an export: one for each answer of a run, and one for each of its scores.

Their two tables are written as CSV, as Parquet by pyarrow, or in folders by `datasets`; with the
figures also into the stores of experiment trackers: MLflow's files, and Weights & Biases offline.
"""

import dataclasses
import json
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from alps.ext.audits.slices import SCRIPT
from alps.jsonl import Row, scan
from alps.rows import Corrected, Interval, Score, TrackSummary
from alps.run.opened import MANIFEST, SUMMARY, AnswerKey, RunFolder, read_wanted, state_of
from alps.show.formatting import share_of_known
from alps.show.spreadsheets import csv_of
from alps.tasks import Task
from alps.text import script_of, texts_of

GENERATE, JUDGE = "generate", "judge"
SIZE = "max_context_tokens"
STAGES = ("predictions", "verdicts", "scores")
RECORDS, SCORES = "records", "scores"
SCORE, SLICE = "score_", "slice_"
"""What the columns of metrics, and of the groups of records, begin with."""
_USAGE = ("prompt_tokens", "completion_tokens", "cost", "seconds")


@dataclass(frozen=True)
class Usage:
    """What calls of models took; `cost` is in US dollars, None where a price is not known."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cost: float | None = None
    seconds: float | None = None


@dataclass(frozen=True)
class ExportedRecord:
    """One answer of a run.

    Attributes:
        session: Whose records are not independent; None where the data are not there any more.
        repeat: Which of several answers to the record, from 0.
        outcome: What became of it, in the words of `alps show`.
        scores: By metric; those that are not defined for the record are absent.
        system_calls: What the system took; nothing is known where its reply was kept by the cache.
        judge_calls: What the judge took.
        slices: The groups that it is in, by what they group.
        answer: As JSON; None where there is none.
    """

    run: str
    system: str
    judge: str
    task: str
    track: str
    record_id: str
    session: str | None
    repeat: int
    outcome: str
    error: str | None
    answer: str | None
    system_calls: Usage
    judge_calls: Usage
    scores: Mapping[str, float] = field(default_factory=dict)
    slices: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ExportedScore:
    """One figure of a run with its 95 % interval.

    Attributes:
        system: What it is of: the system, or a trivial baseline on the same records.
        judge: Who judged it; another one than the run's for baselines of recorded verdicts.
        baseline: Whether it is a trivial baseline.
        slice: What the group is of; empty for a figure of all records.
        headline: Whether the metric stands for its track.
        worst_case: What it would be if every unscored record had scored worst; None where all are.
        best_case: The same for best.
        corrected: What it is without the judge's known errors; None where that is not known.
        corrected_note: What makes that doubtful, or why it is not known.
        note: Why there is no value, or no interval.
        judge_check: How many known items the judge got right, or that it was not checked; empty for
            an embedded judge.
    """

    run: str
    system: str
    judge: str
    task: str
    track: str
    metric: str
    title: str
    headline: bool
    lower_is_better: bool
    baseline: bool
    slice: str
    group: str
    value: float | None
    low: float | None
    high: float | None
    n: int
    note: str | None
    worst_case: float | None = None
    best_case: float | None = None
    corrected: float | None = None
    corrected_low: float | None = None
    corrected_high: float | None = None
    corrected_note: str | None = None
    judge_check: str = ""


def times_of(run: RunFolder) -> tuple[datetime, datetime]:
    """Return when a run began and ended: when its manifest and its summary were written."""
    # Nothing in a manifest depends on when it ran: the times of the files are all there is.
    began, ended = (
        datetime.fromtimestamp((run.folder / name).stat().st_mtime, UTC)
        for name in (MANIFEST, SUMMARY)
    )
    return began, ended


def usage_by_record(run: RunFolder) -> dict[str, dict[str, Usage]]:
    """Return what the calls about each record took, by its id and their purpose."""
    sums: dict[tuple[str, str], list[Row]] = {}
    for _, _, row in scan(run.folder / "calls.jsonl"):
        if row is not None and row.get("about"):
            sums.setdefault((str(row["about"]), str(row.get("purpose"))), []).append(row)
    usage: dict[str, dict[str, Usage]] = {}
    for (name, purpose), rows in sums.items():
        usage.setdefault(name, {})[purpose] = _sum_of(rows)
    return usage


def _sum_of(rows: Sequence[Row]) -> Usage:
    # An attempt that failed on its way was not billed, and tells no tokens.
    answered = [row for row in rows if row.get("outcome") != "transport"]
    costs = [row.get("cost") for row in answered]
    known = [cost for cost in costs if cost is not None]
    return Usage(
        sum(row.get("prompt_tokens") or 0 for row in answered),
        sum(row.get("completion_tokens") or 0 for row in answered),
        math.fsum(known) if len(known) == len(costs) else None,
        math.fsum(row.get("seconds") or 0.0 for row in rows),
    )


def record_rows(run: RunFolder) -> Iterator[ExportedRecord]:
    """Yield a row for each answer of a run, in the order of its tracks and its data."""
    stages = {stage: run.rows(stage) for stage in STAGES}
    keys = list(stages["scores"]) or list(stages["predictions"])
    usage = usage_by_record(run)
    # The ledger tells calls about a record, and not which of its answers they were for.
    answers: dict[str, int] = {}
    for key in keys:
        answers[key.id] = answers.get(key.id, 0) + 1
    for track in run.tracks:
        # Nor of which size of the context: the rows are those of the largest.
        found = run.finished.tracks.get(track)
        sizes = 1 if found is None or found.curve is None else len(found.curve.points)
        own = [key for key in keys if key.track == track]
        samples = read_wanted(run, track, {key.id for key in own}).by_id
        for key in own:
            rows = [stages[stage].get(key) for stage in STAGES]
            calls = usage.get(key.id, {}) if answers[key.id] * sizes == 1 else {}
            yield _record_row(run, key, samples.get(key.id), rows, calls)


def _record_row(
    run: RunFolder,
    key: AnswerKey,
    sample: Any,
    rows: Sequence[Row | None],
    calls: Mapping[str, Usage],
) -> ExportedRecord:
    prediction, verdict, score = rows
    answered, task = prediction or {}, run.tasks[key.track]
    answer = answered.get("prediction")
    return ExportedRecord(
        run=run.name,
        system=run.model,
        judge=run.judge,
        task=task.name,
        track=key.track,
        record_id=key.id,
        session=None if sample is None else str(sample.session_id),
        repeat=key.repeat,
        outcome=state_of(score, prediction),
        error=answered.get("error") or (verdict or {}).get("error"),
        answer=None if answer is None else json.dumps(answer, ensure_ascii=False),
        system_calls=calls.get(GENERATE, Usage()),
        judge_calls=calls.get(JUDGE, Usage()),
        scores=dict((score or {}).get("scores") or {}),
        slices={} if sample is None else _slices(task, sample, score or {}),
    )


def _slices(task: Task, sample: Any, score: Row) -> dict[str, str]:
    """Return the groups of a record: the script of what is asked, and those of its task."""
    slices = {SCRIPT: script_of(texts_of(task.input_row(sample).get("input")))}
    # An answer without scores is in no group that hangs on the answer.
    return slices | task.groups_of(sample, score if "scores" in score else {})


def score_rows(run: RunFolder) -> Iterator[ExportedScore]:
    """Yield every figure of a finished run: its own, its baselines', and those of groups.

    Raises:
        UsageError: If the run is not finished.
    """
    for track, summary in run.finished.tracks.items():
        yield from _track_scores(run, track, summary)


def _track_scores(run: RunFolder, track: str, summary: TrackSummary) -> Iterator[ExportedScore]:
    of = [(run.model, run.judge, summary.scores)]
    of += [(name, floor.judge, floor.scores) for name, floor in summary.floors.items()]
    for system, judge, scores in of:
        for metric in run.tasks[track].metrics:
            if (score := scores.get(metric.name)) is not None:
                note = score.unscored or score.reason
                row = _score_row(run, track, metric.name, score, note=note, system=system)
                own = row.judge_check if judge == run.judge else share_of_known(judge, None)
                yield replace(row, judge=judge, judge_check=own, **_bounds(score))
    for metric_name, of_slice, group, figure in _sliced(summary):
        about = {"slice_name": of_slice, "group": group}
        yield _score_row(run, track, metric_name, figure, note=figure.reason, **about)


def _sliced(summary: TrackSummary) -> Iterator[tuple[str, str, str, Interval]]:
    """Yield the figures of groups: a metric, what the group is of, its name, and the figure."""
    if (curve := summary.curve) is not None:
        yield curve.metric, SIZE, "area", curve.area
        for point in curve.points:
            yield curve.metric, SIZE, str(point.max_context_tokens), point.score
    for name, breakdown in summary.breakdowns.items():
        for row in breakdown.groups:
            yield breakdown.metric, name, row.group, row.figure


def _bounds(score: Score) -> dict[str, Any]:
    bounds: dict[str, Any] = {"worst_case": score.worst_case, "best_case": score.best_case}
    if (corrected := score.corrected) is not None:
        ends = {"corrected_low": corrected.low, "corrected_high": corrected.high}
        note = "; ".join(_doubts(corrected)) or None
        bounds |= {"corrected": corrected.value, **ends, "corrected_note": note}
    return bounds


def _doubts(corrected: Corrected) -> Iterator[str]:
    """Yield why there is no corrected score, or what is doubtful about it."""
    if corrected.reason is not None:
        yield f"not correctable: {corrected.reason}"
    yield from corrected.notes
    if corrected.impossible:
        yield "the value is off the scale, so the calibration may not fit"
    elif corrected.outside:
        yield "the interval extends beyond the scale"


def _score_row(
    run: RunFolder,
    track: str,
    metric: str,
    figure: Score | Interval,
    *,
    note: str | None,
    system: str = "",
    slice_name: str = "",
    group: str = "",
) -> ExportedScore:
    task = run.tasks[track]
    known = {one.name: one for one in task.metrics}.get(metric)
    return ExportedScore(
        run=run.name,
        system=system or run.model,
        judge=run.judge,
        task=task.name,
        track=track,
        metric=metric,
        title=metric if known is None else known.title.strip(),
        headline=not slice_name and metric == run.lead(track).name,
        lower_is_better=known is not None and known.lower_is_better,
        baseline=bool(system) and system != run.model,
        slice=slice_name,
        group=group,
        value=figure.value,
        low=figure.low,
        high=figure.high,
        n=figure.n,
        note=note,
        judge_check=share_of_known(run.judge, run.finished.judge_check),
    )


def write_csv(runs: Sequence[RunFolder], out: Path) -> list[Path]:
    """Write `records.csv` and `scores.csv`; return their paths."""

    def write(table: Any, path: str) -> None:
        # Not pyarrow's own CSV: a cell that begins like a formula would be computed by a
        # spreadsheet.
        text = csv_of(table.to_pylist(), table.column_names)
        Path(path).write_text(text, encoding="utf-8", errors="replace", newline="")

    return _write(runs, out, ".csv", write)


def write_parquet(runs: Sequence[RunFolder], out: Path) -> list[Path]:
    """Write `records.parquet` and `scores.parquet`; return their paths."""
    from pyarrow import parquet

    return _write(runs, out, ".parquet", parquet.write_table)


def write_hf(runs: Sequence[RunFolder], out: Path) -> list[Path]:
    """Write the folders `records` and `scores`, which `datasets.load_from_disk` reads."""
    from datasets import Dataset, disable_progress_bars

    disable_progress_bars()

    def write(table: Any, path: str) -> None:
        Dataset(table).save_to_disk(path)

    return _write(runs, out, "", write)


def _write(
    runs: Sequence[RunFolder], out: Path, suffix: str, write: Callable[[Any, str], None]
) -> list[Path]:
    records = [row for run in runs for row in record_rows(run)]
    scores = [row for run in runs for row in score_rows(run)]
    paths = [out / f"{name}{suffix}" for name in (RECORDS, SCORES)]
    for table, path in zip((record_table(records), score_table(scores)), paths, strict=True):
        write(table, str(path))
    return paths


def record_table(rows: Sequence[ExportedRecord]) -> Any:
    """Return a table of one row an answer, in which each metric and each slice is a column."""
    import pyarrow as pa

    columns: dict[str, Any] = {}
    for name in ExportedRecord.__dataclass_fields__:
        if name not in ("system_calls", "judge_calls", "scores", "slices"):
            # A column without any value would get the type null, which no other export has.
            kind = pa.int64() if name == "repeat" else pa.string()
            columns[name] = pa.array([getattr(row, name) for row in rows], kind)
    for prefix, calls in (
        ("", [row.system_calls for row in rows]),
        ("judge_", [row.judge_calls for row in rows]),
    ):
        for name in _USAGE:
            kind = pa.int64() if name.endswith("tokens") else pa.float64()
            columns[prefix + name] = pa.array([getattr(call, name) for call in calls], kind)
    for metric in _names(row.scores for row in rows):
        values = [row.scores.get(metric) for row in rows]
        columns[SCORE + metric] = pa.array(values, pa.float64())
    for title in _names(row.slices for row in rows):
        groups = [row.slices.get(title) for row in rows]
        columns[SLICE + title] = pa.array(groups, pa.string())
    return pa.table(columns)


def score_table(rows: Sequence[ExportedScore]) -> Any:
    """Return a table of one row a figure."""
    import pyarrow as pa

    kinds: dict[Any, Any] = {
        str: pa.string(),
        str | None: pa.string(),
        bool: pa.bool_(),
        int: pa.int64(),
        float | None: pa.float64(),
    }
    fields = [(field.name, kinds[field.type]) for field in dataclasses.fields(ExportedScore)]
    rows_as_json = [dataclasses.asdict(row) for row in rows]
    return pa.Table.from_pylist(rows_as_json, pa.schema(fields))


def _names(parts: Iterable[Any]) -> list[str]:
    """Return the keys of several mappings, each once, in the order in which they are met."""
    names: dict[str, None] = {}
    for part in parts:
        names |= dict.fromkeys(part)
    return list(names)


# What MLflow takes in no name of a metric.
_NO_METRIC = re.compile(r"[^\w./ -]")
_SMALL_FILES = (MANIFEST, SUMMARY, "config.toml")


def write_mlflow(runs: Sequence[RunFolder], out: Path) -> list[Path]:
    """Write a file store of MLflow: a run with metrics, settings and tables for each of ours."""
    # MLflow refuses a folder as a store without the first, and reports its use without the second.
    with _variables({"MLFLOW_ALLOW_FILE_STORE": "true", "MLFLOW_DISABLE_TELEMETRY": "true"}):
        from mlflow import MlflowClient
        from mlflow.entities import Param

        client = MlflowClient(tracking_uri=out.resolve().as_uri())
        experiment = client.create_experiment("alps")
        for run in runs:
            began, ended = (int(moment.timestamp() * 1000) for moment in times_of(run))
            made = client.create_run(experiment, start_time=began, run_name=run.name)
            number = made.info.run_id
            params = [Param(name, str(value)) for name, value in _settings(run).items()]
            client.log_batch(number, params=params)
            for name, value in _metrics(run).items():
                known = _NO_METRIC.sub("_", name)
                client.log_metric(number, known, value, timestamp=ended)
            with TemporaryDirectory() as folder:
                for path in _artifacts(run, Path(folder)):
                    client.log_artifact(number, str(path))
            client.set_terminated(number, end_time=ended)
    return [out]


def write_wandb(runs: Sequence[RunFolder], out: Path) -> list[Path]:
    """Write offline runs of Weights & Biases: nothing is sent, until the user does `wandb sync`."""
    import wandb

    # Its logs and settings are left in the user's folders otherwise.
    with (
        TemporaryDirectory() as own,
        _variables({"WANDB_SILENT": "true", "WANDB_CACHE_DIR": own, "WANDB_CONFIG_DIR": own}),
    ):
        for run in runs:
            # What is on this machine, and in the repository where it runs, is no part of a run.
            session = wandb.init(
                project="alps",
                name=run.name,
                dir=str(out),
                config=_settings(run),
                mode="offline",
                settings=wandb.Settings(
                    silent=True, console="off", disable_git=True, x_disable_stats=True
                ),
            )
            session.summary.update(_metrics(run))
            session.finish()
        # Its service flushes a run's file as it ends: one export in ten found only the head of it.
        wandb.teardown()
    return sorted((out / "wandb").glob("offline-run-*"))


def _settings(run: RunFolder) -> dict[str, Any]:
    """Return the settings of a run that were given, or took effect."""
    given = run.manifest.settings.items()
    settings = {name: value for name, value in given if value is not None}
    hashes = ",".join(str(track.sha256) for track in run.tracks.values())
    return {**settings, "alps": run.manifest.alps, "data_sha256": hashes}


def _metrics(run: RunFolder) -> dict[str, float]:
    """Return every figure of a run as TRACK/METRIC, with the ends of its interval and its n."""
    metrics: dict[str, float] = {}
    for row in score_rows(run):
        if row.slice or row.value is None:
            continue
        name = f"{row.track}/{row.metric}"
        if row.baseline:
            name = f"{row.track}/{row.system.replace('/', '_')}/{row.metric}"
        ends = {"ci_low": row.low, "ci_high": row.high, "n": float(row.n)}
        metrics[name] = row.value
        for end, value in ends.items():
            if value is not None:
                metrics[f"{name}_{end}"] = value
    for name in ("prompt_tokens", "completion_tokens", "cost"):
        if (taken := getattr(run.finished.calls, name)) is not None:
            metrics[f"calls/{name}"] = float(taken)
    return metrics


def _artifacts(run: RunFolder, folder: Path) -> list[Path]:
    """Return the small files of a run, and its two tables, written into `folder`."""
    own = [run.folder / name for name in _SMALL_FILES]
    return [path for path in own if path.is_file()] + write_parquet([run], folder)


@contextmanager
def _variables(values: Mapping[str, str]) -> Iterator[None]:
    """Set variables of the environment for a while."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
