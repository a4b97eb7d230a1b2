"""The Python API: what `alps run` and `alps compare` do, as functions.

    import alps

    run = alps.evaluate(task="extraction", model="rules", data="samples")
    run.scores["extraction"]["f1"].value

The functions work in a script and in a notebook, whose event loop is running already. They take the
settings of the commands under the same names, refuse the same mistakes (as an `AlpsError`), write
the same run folders and resume them.
"""

import json
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from alps.errors import UsageError, closest
from alps.event_loop import run_apart, run_beside
from alps.extension import extensions, load
from alps.rows import Score
from alps.run.opened import RunFolder, find_run
from alps.run.opened import open_run as open_folder
from alps.tasks.registry import track_named, track_title

if TYPE_CHECKING:
    import datasets
    import pandas

    from alps.run.summary import Finished
    from alps.show.compare import Comparison

T = TypeVar("T")

_SCORED = "ok"


@dataclass(frozen=True)
class Record:
    """One answer of a system: what it predicted, and what that scored.

    Attributes:
        track: The task, as files call it, such as `task1`.
        id: The id of the record.
        repeat: Which of several answers to the record it is, counted from 0.
        outcome: `ok` where it is scored; else the kind of failure.
        prediction: The answer as it was read; None where none could be.
        error: What went wrong.
        scores: Its value for each metric that is defined for it.
        verdict: What the judge said.
    """

    track: str
    id: str
    repeat: int
    outcome: str
    prediction: Any
    error: str | None
    scores: Mapping[str, float]
    verdict: Mapping[str, Any]

    def __repr__(self) -> str:
        figures = ", ".join(f"{name} {value:g}" for name, value in list(self.scores.items())[:1])
        name = f"{track_title(self.track)}/{self.id}"
        return f"<Record {', '.join(filter(None, [f'{name}: {self.outcome}', figures]))}>"


class Named(dict[str, T]):
    """What a run has, by name; what it lacks is a KeyError that names what there is."""

    def __init__(self, kind: str, things: Mapping[str, T]) -> None:
        super().__init__(things)
        self._kind = kind

    def __missing__(self, name: str) -> T:
        raise KeyError(self._lacks(name, list(self)))

    def _lacks(self, name: object, names: Sequence[str]) -> str:
        known = f"known: {', '.join(names)}" if names else "there are none yet"
        return f"no {self._kind} {name!r}{closest(str(name), names)}; {known}"


class ByTask(Named[T]):
    """What a run has by task: by the name that people read, or the one in files."""

    def __missing__(self, name: str) -> T:
        track = track_named(name, list(self))
        if track is None:
            raise KeyError(self._lacks(name, [track_title(one) for one in self]))
        return self[track]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and track_named(name, list(self)) is not None

    def get(self, name: str, default: Any = None) -> Any:
        """Return what is there by a name, else `default`."""
        try:
            return self[name]
        except KeyError:
            return default


@dataclass(frozen=True)
class Run:
    """A run and its folder, finished or not; a notebook shows its scores as a table."""

    folder: Path

    @property
    def summary(self) -> dict[str, Any]:
        """The content of `summary.json`; empty until the run is finished."""
        return dict(self._read.summary_row or {})

    @property
    def scores(self) -> ByTask[Named[Score]]:
        """The scores by task and metric, `scores["extraction"]["f1"]`; empty until it is finished.

        Raises:
            KeyError: If there is no such task or metric; it names those that there are.
        """
        summary, scores = self._read.summary, dict[str, Named[Score]]()
        for name, track in summary.tracks.items() if summary else ():
            scores[name] = Named("metric", track.scores)
        return ByTask("task", scores)

    def __repr__(self) -> str:
        from alps.show.formatting import interval, number

        read, scores = self._read, self.scores
        if not scores:
            return f"<Run {self.folder}: {read.model}, not finished>"
        headlines = []
        for track, metrics in scores.items():
            lead, title = read.lead(track), track_title(track)
            score = metrics[lead.name]
            name = lead.title.strip()
            parts = [title if len(scores) > 1 else "", "" if name.startswith(title) else name]
            parts += [number(score.value), "" if score.low is None else interval(score)]
            headlines.append(" ".join(filter(None, parts)) + f", n {score.n:,}")
        what = f"{len(scores)} tasks" if len(scores) > 1 else track_title(next(iter(scores)))
        return f"<Run {what}: {read.model}, {'; '.join(headlines)}, {read.judge}>"

    def records(self) -> Iterator[Record]:
        """Yield every answer that was asked for so far, in the order of the data."""
        stages = {stage: self._read.rows(stage) for stage in ("predictions", "verdicts", "scores")}
        for key, prediction in stages["predictions"].items():
            # A run that is under way has predictions that are not judged yet.
            score, verdict = stages["scores"].get(key, {}), stages["verdicts"].get(key, {})
            yield Record(
                track=key.track,
                id=key.id,
                repeat=key.repeat,
                outcome=score.get("outcome") or prediction.get("outcome", _SCORED),
                prediction=prediction.get("prediction"),
                error=prediction.get("error") or verdict.get("error"),
                scores=score.get("scores", {}),
                verdict=verdict,
            )

    def to_pandas(self) -> "pandas.DataFrame":
        """Return a table with a row an answer, and a column a metric."""
        # Here, as in `to_dataset`: no command needs either of them.
        import pandas

        return pandas.DataFrame(self._rows())

    def to_dataset(self) -> "datasets.Dataset":
        """Return the same table as a data set of Hugging Face; predictions are JSON in it."""
        import datasets

        return datasets.Dataset.from_pandas(self.to_pandas(), preserve_index=False)

    def _rows(self) -> list[dict[str, Any]]:
        records = list(self.records())
        metrics = dict.fromkeys(name for record in records for name in record.scores)
        rows = []
        for record in records:
            row = {
                "track": record.track,
                "id": record.id,
                "repeat": record.repeat,
                "outcome": record.outcome,
                "prediction": json.dumps(record.prediction, ensure_ascii=False),
                "error": record.error,
            }
            rows.append(row | {name: record.scores.get(name) for name in metrics})
        return rows

    @property
    def _read(self) -> RunFolder:
        return open_folder(self.folder)

    def _repr_html_(self) -> str | None:
        shown = next(filter(None, (one.in_notebook for one in extensions())), None)
        return None if shown is None else str(load(shown)(self._read))


def evaluate(
    *,
    task: str | None = None,
    model: str | None = None,
    judge: str | None = None,
    **settings: Any,
) -> Run:
    """Run a system on a task, judge it and score it; resume a run that was interrupted.

    Args:
        task: `extraction`, `update`, `retrieval`, `utilization`, several with commas, or `all`.
        model: A litellm model, or another system that `alps run model=` takes.
        judge: A litellm model, or another judge that `alps run judge=` takes; `lexical` if None.
        settings: Any other setting of `alps run`, such as `data="samples"` or `limit=20`; options
            of a request are `request={"seed": 1}`.

    Raises:
        AlpsError: If the settings, the data or the folder can't be used.

    Warns:
        UserWarning: If more records than `max_failures` failed or are unscored.
    """
    return called(lambda: _evaluated({"task": task, "model": model, "judge": judge, **settings}))


async def aevaluate(
    *,
    task: str | None = None,
    model: str | None = None,
    judge: str | None = None,
    **settings: Any,
) -> Run:
    """Do what `evaluate` does, beside other tasks of an event loop; to cancel it ends the run."""
    given = {"task": task, "model": model, "judge": judge, **settings}
    return await run_beside(lambda: _evaluated(given))


def open_run(path: str | Path) -> Run:
    """Open the folder of a run, or the name of one in `runs/`.

    Raises:
        UsageError: If there is no run.
        RunFolderError: If its files can't be read.
    """
    folder = find_run(str(path))
    open_folder(folder)
    return Run(folder)


def compare(*runs: "Run | str | Path") -> "Comparison":
    """Compare runs on the records that all of them scored: differences, intervals and tests.

    Raises:
        UsageError: If they are of other data or under another judge, or fewer than two.
    """
    from alps.show.compare import compare_runs

    folders = [run.folder if isinstance(run, Run) else open_run(run).folder for run in runs]
    return compare_runs(folders)


def _evaluated(given: Mapping[str, Any]) -> Run:
    from alps.run.start import run
    from alps.settings import RunSettings, parse_given

    # Parsed as the command parses its words, so that both refuse the same mistakes.
    settings = parse_given(plain(given), RunSettings)
    if settings.dry_run:
        raise UsageError("dry_run=True: only the command estimates costs: alps run … dry_run=yes")
    finished: Finished = run(settings)
    # Where the command exits 1; an exception would keep the finished run from whoever called.
    if finished.complaint is not None:
        warnings.warn(finished.complaint, stacklevel=2)
    return Run(finished.folder)


def plain(given: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out what was not given, and write paths as the command line has them."""
    values = {}
    for name, value in given.items():
        if isinstance(value, type):
            where = f"python:{value.__module__}:{value.__qualname__}"
            raise UsageError(f"{name}={value.__name__}: name a class by text, such as {where}")
        if value is not None:
            values[name] = str(value) if isinstance(value, Path) else value
    return values


def called(work: Callable[[], T]) -> T:
    """Call `work`; where this thread runs an event loop, as in a notebook, apart from it."""
    import asyncio

    # A notebook runs a loop in this very thread, where `asyncio.run` raises a RuntimeError.
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return work()
    return run_apart(work)
