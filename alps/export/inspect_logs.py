"""Logs of Inspect: one for each track of a run, which its viewer and its data frames read."""

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from inspect_ai.log import (
    EvalConfig,
    EvalDataset,
    EvalLog,
    EvalMetric,
    EvalResults,
    EvalSample,
    EvalScore,
    EvalSpec,
    EvalStats,
    write_eval_log,
)
from inspect_ai.model import (
    ChatCompletionChoice,
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageUser,
    ModelOutput,
    ModelUsage,
)
from inspect_ai.scorer import Score

from alps.export.rows import RecordRow, ScoreRow, record_rows, score_rows
from alps.run.opened import MANIFEST, SUMMARY, Run, read_wanted
from alps.tasks import Task


def write_inspect(runs: Sequence[Run], out: Path) -> list[Path]:
    """Write one log for each track of each run; return their paths."""
    paths = []
    for number, run in enumerate(runs, start=1):
        figures, records = list(score_rows(run)), list(record_rows(run))
        for track in run.finished.tracks:
            path = out / f"{number}_{run.name}_{track}.eval"
            own = [row for row in records if row.track == track]
            log = _log(run, track, own, [row for row in figures if row.track == track])
            write_eval_log(log, path)
            paths.append(path)
    return paths


def _log(
    run: Run, track: str, records: Sequence[RecordRow], figures: Sequence[ScoreRow]
) -> EvalLog:
    task, samples = run.tasks[track], list(_samples(run, track, records))
    begun, ended = _written(run.folder / MANIFEST), _written(run.folder / SUMMARY)
    spec = EvalSpec(
        created=begun,
        task=f"alps/{task.page}",
        model=run.model,
        dataset=EvalDataset(name=run.data, samples=len(samples)),
        config=EvalConfig(epochs=run.repeats),
        packages={"alps-eval": run.manifest.alps},
        metadata={"run": run.name, "track": track, "judge": run.judge},
    )
    scored = sum(bool(row.scores) for row in records)
    results = EvalResults(
        total_samples=len(samples), completed_samples=scored, scores=_results(run, figures)
    )
    stats = EvalStats(started_at=begun, completed_at=ended)
    return EvalLog(status="success", eval=spec, results=results, stats=stats, samples=samples)


def _written(path: Path) -> str:
    return datetime.fromtimestamp(path.stat().st_mtime, UTC).isoformat(timespec="seconds")


def _results(run: Run, figures: Sequence[ScoreRow]) -> list[EvalScore]:
    """Return the figures of all records: each with its interval, and its baselines'."""
    results = []
    for row in figures:
        if row.slice or row.value is None:
            continue
        name = f"{row.metric} ({row.system})" if row.baseline else row.metric
        metrics = {"mean": EvalMetric(name="mean", value=row.value)}
        for end, value in (("ci_low", row.low), ("ci_high", row.high)):
            if value is not None:
                metrics[end] = EvalMetric(name=end, value=value)
        results.append(
            EvalScore(
                name=name,
                scorer=run.judge,
                scored_samples=row.n,
                metrics=metrics,
                metadata={"title": row.title, "baseline": row.baseline, "note": row.note},
            )
        )
    return results


def _samples(run: Run, track: str, records: Sequence[RecordRow]) -> Iterator[EvalSample]:
    task = run.tasks[track]
    samples = read_wanted(run, track, {row.record_id for row in records}).by_id
    for row in records:
        sample = samples.get(row.record_id)
        asked = [] if sample is None else _asked(task, sample)
        answer = ChatMessageAssistant(content=_readable(row.answer or ""), model=run.model)
        yield EvalSample(
            id=row.record_id,
            epoch=row.repeat + 1,
            input=asked[1:] or "(the data of the run are not here any more)",
            target=_target(task, sample),
            messages=[*asked, answer],
            output=ModelOutput(
                model=run.model,
                choices=[ChatCompletionChoice(message=answer)],
                usage=_usage(row),
                error=row.error,
            ),
            scores=_scores(task, row),
            model_usage={} if (usage := _usage(row)) is None else {run.model: usage},
            total_time=row.system_calls.seconds,
            metadata={"session": row.session, "outcome": row.outcome, **row.slices},
        )


def _asked(task: Task, sample: Any) -> list[ChatMessage]:
    """Return what a model is asked, as Inspect has messages."""
    messages: list[ChatMessage] = []
    for message in task.messages(sample):
        kind = ChatMessageSystem if message["role"] == "system" else ChatMessageUser
        messages.append(kind(content=_readable(message["content"])))
    return messages


def _target(task: Task, sample: Any) -> list[str]:
    if sample is None or not task.has_gold(sample):
        return [""]
    return [words for _, words, _ in task.public.gold(sample)] or [""]


def _readable(text: str) -> str:
    """Return JSON indented, in a block that viewers of Markdown leave alone; else the text."""
    try:
        node = json.loads(text)
    except ValueError:
        return text
    if not isinstance(node, dict | list):
        return text
    return f"```json\n{json.dumps(node, ensure_ascii=False, indent=2)}\n```"


def _scores(task: Task, row: RecordRow) -> dict[str, Score]:
    # The viewer's list shows the answer of the first score.
    texts = () if row.answer is None else task.public.texts(json.loads(row.answer))
    told = Score(value=row.outcome, answer="\n".join(texts), explanation=row.error)
    return {"outcome": told, **{name: Score(value=value) for name, value in row.scores.items()}}


def _usage(row: RecordRow) -> ModelUsage | None:
    calls = row.system_calls
    if calls.prompt_tokens is None or calls.completion_tokens is None:
        return None
    return ModelUsage(
        input_tokens=calls.prompt_tokens,
        output_tokens=calls.completion_tokens,
        total_tokens=calls.prompt_tokens + calls.completion_tokens,
    )
