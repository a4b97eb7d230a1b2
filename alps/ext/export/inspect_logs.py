"""Logs of Inspect: one for each track of a run, which its viewer and its data frames read."""

import json
import re
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from inspect_ai.log import (
    EvalConfig,
    EvalDataset,
    EvalError,
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

from alps.ext.export.rows import ExportedRecord, ExportedScore, record_rows, score_rows, times_of
from alps.folders import file_names
from alps.run.opened import RunFolder, read_wanted
from alps.schema import UNHEARD
from alps.tasks import Task
from alps.tasks.base import texts_of

_NO_WORD = re.compile(r"[^\w. -]")
_KINDS: dict[str, type[ChatMessageSystem | ChatMessageUser | ChatMessageAssistant]] = {
    "system": ChatMessageSystem,
    "user": ChatMessageUser,
    "assistant": ChatMessageAssistant,
}


def _log_name(begin: str, track: str) -> str:
    return _NO_WORD.sub("_", begin + track)


def write_inspect(runs: Sequence[RunFolder], out: Path) -> list[Path]:
    """Write one log for each track of each run; return their paths."""
    paths = []
    for number, run in enumerate(runs, start=1):
        figures, records = list(score_rows(run)), list(record_rows(run))
        # Inspect reads paths as addresses, where `#` and `?` end them.
        files = file_names(run.finished.tracks, partial(_log_name, f"{number}_{run.name}_"))
        for track, name in files.items():
            path = out / f"{name}.eval"
            own = [row for row in records if row.track == track]
            log = _log(run, track, own, [row for row in figures if row.track == track])
            write_eval_log(log, path)
            paths.append(path)
    return paths


def _log(
    run: RunFolder, track: str, records: Sequence[ExportedRecord], figures: Sequence[ExportedScore]
) -> EvalLog:
    task, samples = run.tasks[track], list(_samples(run, track, records))
    begun, ended = (moment.isoformat(timespec="seconds") for moment in times_of(run))
    spec = EvalSpec(
        created=begun,
        task=f"alps/{task.page}",
        model=run.model,
        # Records are samples there, and repeats are their epochs.
        dataset=EvalDataset(name=run.data, samples=len({sample.id for sample in samples})),
        config=EvalConfig(epochs=run.repeats),
        packages={"alps-eval": run.manifest.alps},
        metadata={"run": run.name, "track": track, "judge": run.judge},
    )
    results = EvalResults(
        total_samples=len(samples),
        completed_samples=sum(sample.error is None for sample in samples),
        scores=_results(figures),
    )
    stats = EvalStats(started_at=begun, completed_at=ended, model_usage=_usage_of_all(samples))
    return EvalLog(status="success", eval=spec, results=results, stats=stats, samples=samples)


def _results(figures: Sequence[ExportedScore]) -> list[EvalScore]:
    """Return the figures of all records: each with its interval, and its baselines'.

    Readers show the first one for the log: the track's headline, even without a value.
    """
    results = []
    for row in sorted(figures, key=lambda row: not _leads(row)):
        # A log has one number for each metric: groups of records stay in the tables.
        if row.slice or (row.value is None and not _leads(row)):
            continue
        name = f"{row.metric} ({row.system})" if row.baseline else row.metric
        metrics = {}
        for end, value in (("mean", row.value), ("ci_low", row.low), ("ci_high", row.high)):
            if value is not None:
                metrics[end] = EvalMetric(name=end, value=value)
        results.append(
            EvalScore(
                name=name,
                scorer=row.judge,
                scored_samples=row.n,
                metrics=metrics,
                metadata={"title": row.title, "baseline": row.baseline, "note": row.note},
            )
        )
    return results


def _leads(row: ExportedScore) -> bool:
    return row.headline and not row.baseline


def _usage_of_all(samples: Sequence[EvalSample]) -> dict[str, ModelUsage]:
    usage: dict[str, ModelUsage] = {}
    for sample in samples:
        for model, own in sample.model_usage.items():
            usage[model] = usage[model] + own if model in usage else own
    return usage


def _samples(run: RunFolder, track: str, records: Sequence[ExportedRecord]) -> Iterator[EvalSample]:
    task = run.tasks[track]
    samples = read_wanted(run, track, {row.record_id for row in records}).by_id
    for row in records:
        sample = samples.get(row.record_id)
        asked = [] if sample is None else _asked(task, sample)
        usage = _usage(row)
        answer = ChatMessageAssistant(content=_readable(row.answer or ""), model=run.model)
        yield EvalSample(
            id=row.record_id,
            epoch=row.repeat + 1,
            input=_input(asked),
            target=_target(task, sample),
            messages=[*asked, answer],
            output=ModelOutput(
                model=run.model,
                choices=[ChatCompletionChoice(message=answer)],
                usage=usage,
                error=row.error,
            ),
            scores=_scores(task, row, run.lead(track).name),
            error=_error(row),
            model_usage={} if usage is None else {run.model: usage},
            total_time=row.system_calls.seconds,
            metadata={"session": row.session, "outcome": row.outcome, **row.slices},
        )


def _asked(task: Task, sample: Any) -> list[ChatMessage]:
    """Return what a model is asked, as Inspect has messages."""
    messages: list[ChatMessage] = []
    for message in task.messages(sample):
        kind = _KINDS.get(message["role"], ChatMessageUser)
        messages.append(kind(content=_readable(message["content"])))
    return messages


def _input(asked: list[ChatMessage]) -> list[ChatMessage] | str:
    """Return what is asked without the instructions, which stand in the messages."""
    if not asked:
        return "(the data of the run is missing)"
    return asked[1:] if isinstance(asked[0], ChatMessageSystem) else asked


def _error(row: ExportedRecord) -> EvalError | None:
    """Return why a record is not completed: nothing was heard of the system."""
    if row.outcome not in UNHEARD:
        return None
    return EvalError(message=row.error or row.outcome, traceback="", traceback_ansi="")


def _target(task: Task, sample: Any) -> list[str]:
    # Inspect has no sample without a target.
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


def _scores(task: Task, row: ExportedRecord, lead: str) -> dict[str, Score]:
    # The viewer's list shows the answer of the first score; the headline is the first of figures.
    texts = () if row.answer is None else texts_of(task, json.loads(row.answer))
    told = Score(value=row.outcome, answer="\n".join(texts), explanation=row.error)
    names = sorted(row.scores, key=lambda name: name != lead)
    return {"outcome": told, **{name: Score(value=row.scores[name]) for name in names}}


def _usage(row: ExportedRecord) -> ModelUsage | None:
    calls = row.system_calls
    if calls.prompt_tokens is None or calls.completion_tokens is None:
        return None
    return ModelUsage(
        input_tokens=calls.prompt_tokens,
        output_tokens=calls.completion_tokens,
        total_tokens=calls.prompt_tokens + calls.completion_tokens,
        total_cost=calls.cost,
    )
