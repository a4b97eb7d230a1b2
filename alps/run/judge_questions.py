"""What a judge was asked in a run, found again from its predictions.

Every one is put before a judge that only listens.

So it does not matter who judged the run, or whether that judge rates answers at all.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from alps.errors import RunFolderError
from alps.event_loop import run_loop
from alps.jsonl import Row, scan
from alps.judges.base import Embedded
from alps.judges.calibration_file import MATCHING
from alps.judges.matching import RELATIONS, Item, Judgement
from alps.judges.rubric import Rating, RubricQuestion
from alps.run.source import Data
from alps.schema import Prediction
from alps.tasks import Task
from alps.tasks.base import JUST_THE_SCORE


class Answer(NamedTuple):
    """One answer that a judge was asked about.

    `repeat` counts answers to one record from 0; `shown` is everything that the judge was shown of
    this one, as a line of JSON: the same answer to another question, or held against other gold, is
    another one.
    """

    benchmark_id: str
    repeat: int
    shown: str


@dataclass(frozen=True)
class Lists:
    """Two lists of memories whose relations a judge was asked for.

    Pairs of identical values are left out of both.
    """

    gold: tuple[Item, ...]
    predicted: tuple[Item, ...]


@dataclass(frozen=True)
class Asked:
    """One question to a judge about one answer.

    `name` is its item id, or how those of its items begin.
    """

    name: str
    track: str
    cluster: str
    language: str | None
    about: Answer
    question: RubricQuestion | Lists

    @property
    def rubric(self) -> str:
        """The rubric that the judge was given."""
        return self.question.rubric if isinstance(self.question, RubricQuestion) else MATCHING

    @property
    def size(self) -> int:
        """How many items it could give under each of its rubrics: one, or its pairs."""
        return (
            len(self.question.gold) * len(self.question.predicted)
            if isinstance(self.question, Lists)
            else 1
        )


def asked_in(run: Path, data: Data) -> list[Asked]:
    """Return every question that the predictions in the folder `run` put to a judge.

    They come in the order of the `data`.

    Predictions that failed are left out, as no judge is asked about them; those whose judgement
    failed are not.

    Raises:
        RunFolderError: If a prediction can't be read.
    """
    predictions = by_record(run / "predictions.jsonl")

    async def ask() -> list[Asked]:
        found = []
        for track in data.tracks:
            for sample in track.samples():
                for repeat, row in predictions.get(
                    (track.task.track, sample.benchmark_id), {}
                ).items():
                    try:
                        found += await _ask(track.task, sample, repeat, row)
                    except (LookupError, TypeError, AttributeError, ValueError) as error:
                        where = (
                            f"{run / 'predictions.jsonl'}: the row about "
                            f"{track.task.track}/{sample.benchmark_id}"
                        )
                        raise RunFolderError(
                            f"{where} can't be read; carry out the run again, with another out="
                        ) from error
        return found

    return run_loop(ask())


def population_hash(rows: Iterable[Answer]) -> str:
    """Return what tells one population of answers from another: `predictions` in `sample.json`.

    It is the sha256 over the sorted rows, each as the JSON list `[benchmark_id, repeat, shown]` in
    ASCII, without spaces, and a line feed. Labelled items of a rubric are a random sample of what a
    run was judged for on a track if the rubric's entry is `random`, is of this track, and has the
    hash of

        [one.about for one in asked_in(run, data) if (one.track, one.rubric) == (track, rubric)]

    where `rubric` is the judge's: `ei` for each of its three dimensions.
    """
    lines = (json.dumps(list(row), separators=(",", ":")) + "\n" for row in sorted(rows))
    return hashlib.sha256("".join(lines).encode()).hexdigest()


class _Listener(Embedded):
    """A judge that remembers what it is asked, and says nothing."""

    name = "listener"
    fingerprint: Mapping[str, Any] = {}
    relations = frozenset(RELATIONS)
    comparable = False
    rates = True

    def __init__(self) -> None:
        self.heard: list[RubricQuestion | Lists] = []

    async def match(
        self, gold: Sequence[Item], predicted: Sequence[Item], *, about: str
    ) -> Judgement:
        self.heard.append(Lists(tuple(gold), tuple(predicted)))
        return Judgement("ok")

    async def rate(self, question: RubricQuestion, *, about: str) -> Rating:
        self.heard.append(question)
        return Rating("invalid", error="only listens")


async def _ask(task: Task, sample: Any, repeat: int, row: Row) -> list[Asked]:
    listener, prediction = _Listener(), Prediction.model_validate(row)
    if prediction.outcome == "ok" and task.has_gold(sample):
        task.answer.read(
            prediction.prediction
        )  # a judge that only listens might not mind another shape
        await task.judge(sample, prediction, listener, JUST_THE_SCORE)
    name = f"{task.track}/{sample.benchmark_id}{f'#{repeat + 1}' if repeat else ''}"
    language = getattr(sample.gold, "language", None)
    asked = [
        Asked(
            name,
            task.track,
            sample.session_id,
            language,
            Answer(sample.benchmark_id, repeat, _shown(said)),
            said,
        )
        for said in listener.heard
    ]
    # A task of somebody's own may ask several things about one answer.
    return [replace(one, name=f"{name}:{one.rubric}") for one in asked] if len(asked) > 1 else asked


def _shown(question: RubricQuestion | Lists) -> str:
    if isinstance(question, RubricQuestion):
        shown: Any = question.payload()
    else:
        shown = [[item.payload() for item in side] for side in (question.gold, question.predicted)]
    return json.dumps(shown, sort_keys=True, separators=(",", ":"))


def by_record(path: Path) -> dict[tuple[str, str], dict[int, Row]]:
    """Return the last readable row of every answer, by track and record, then by repeat."""
    found: dict[tuple[str, str], dict[int, Row]] = {}
    for _, _, row in scan(path):
        if (
            row is not None
            and isinstance(row.get("benchmark_id"), str)
            and isinstance(row.get("repeat", 0), int)
        ):
            answers = found.setdefault((str(row.get("track", "")), row["benchmark_id"]), {})
            answers[row.get("repeat", 0)] = row
    return found
