"""The judge of a run, kept with its verdicts: a calibration by them is bound to that judge.

`judge.json` lies in a folder to annotate, and in the label folder that is exported from it.

The questions that a judge was asked in a run are found again by asking a judge that only listens:
so it does not matter who judged the run, or whether that judge rates answers at all.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict, ValidationError

from alps.errors import DataError, RunFolderError
from alps.event_loop import run_loop
from alps.ext.calibration.calibration_file import ServedRow, without_rubrics
from alps.jsonl import Row, parse_json
from alps.judges.base import RELATIONS, Judgement, MatchQuestion, Question
from alps.judges.embedded import EmbeddedJudge
from alps.judges.rubric import MATCHING, Rubric, RubricQuestion, rubric
from alps.rows import ServedBy
from alps.run.opened import RunFolder, read_rows
from alps.run.source import RunData
from alps.schema import Prediction
from alps.tasks import Task
from alps.tasks.base import JUST_THE_SCORE

JUDGE = "judge.json"


class Answer(NamedTuple):
    """One answer that a judge was asked about.

    `repeat` counts answers to one record from 0; `shown` is everything that the judge was shown of
    this one, as a line of JSON: the same answer to another question, or compared with other gold,
    is another one.
    """

    benchmark_id: str
    repeat: int
    shown: str


@dataclass(frozen=True)
class JudgeCall:
    """One question to a judge about one answer.

    `name` is its item id, or how those of its items begin.
    """

    name: str
    track: str
    cluster: str
    language: str | None
    about: Answer
    question: RubricQuestion | MatchQuestion

    @property
    def by(self) -> Rubric:
        """The rubric that the judge was given."""
        asked = self.question
        return asked.rubric if isinstance(asked, RubricQuestion) else rubric(MATCHING)

    @property
    def rubric(self) -> str:
        """Its name."""
        return self.by.name

    @property
    def size(self) -> int:
        """How many items it could give under each of its rubrics: one, or its pairs."""
        if isinstance(self.question, RubricQuestion):
            return 1
        return len(self.question.gold) * len(self.question.predicted)


class _Listener(EmbeddedJudge):
    """A judge that remembers its questions and answers none."""

    name = "listener"
    fingerprint: Mapping[str, Any] = {}
    answers: frozenset[type[Question[Any]]] = frozenset({MatchQuestion, RubricQuestion})
    relations = frozenset(RELATIONS)
    comparable = False

    def __init__(self) -> None:
        self.questions: list[RubricQuestion | MatchQuestion] = []

    async def answer(self, question: Question[Any], *, about: str) -> Any:
        if isinstance(question, RubricQuestion | MatchQuestion):
            self.questions.append(question)
        if isinstance(question, MatchQuestion):
            return Judgement("ok")
        return question.failed("invalid", "only listens")


class JudgeOfRun(BaseModel):
    """The judge of a run, as recorded.

    Attributes:
        run: The folder of the run, as it was named.
        name: As the user called the judge.
        fingerprint: Everything that all its verdicts depend on.
        rubrics: By the id of each rubric, the hash of its text.
        api_base: The endpoint that was asked.
        served: The models that answered, by the purpose of the calls.
        day: When it was asked.
        verdicts: The sha256 of the file of its verdicts; None before they are exported.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    run: str
    name: str
    fingerprint: dict[str, Any]
    rubrics: dict[str, str]
    api_base: str | None
    served: dict[str, tuple[ServedRow, ...]]
    day: date
    verdicts: str | None = None

    def said(self, verdicts: Path, judge: str) -> bool:
        """Tell whether a file holds what this judge said, unchanged."""
        # An edited verdict would give error rates that this judge never had.
        return judge == self.name and self.verdicts == hash_of(verdicts)

    def with_verdicts(self, verdicts: Path) -> "JudgeOfRun":
        """Return the same judge, with the file that holds what it said."""
        return self.model_copy(update={"verdicts": hash_of(verdicts)})


class PinnedJudge:
    """A judge that is not asked: its fingerprint is known from the run that it judged."""

    def __init__(self, of_run: JudgeOfRun) -> None:
        self.name = of_run.name
        self.fingerprint: Mapping[str, Any] = of_run.fingerprint
        self._rubrics = of_run.rubrics

    def fingerprint_for(self, rubrics: Sequence[Rubric]) -> Mapping[str, Any]:
        """Return everything that verdicts under `rubrics` depended on."""
        hashes = {one.id: self._rubrics[one.id] for one in rubrics if one.id in self._rubrics}
        return {**self.fingerprint, "rubrics": hashes} if hashes else self.fingerprint


def judge_of_run(run: RunFolder) -> JudgeOfRun:
    """Return the judge that gave the verdicts of a finished run."""
    summary, manifest = run.finished, run.manifest
    verdicts = run.folder / "verdicts.jsonl"
    asked = verdicts if verdicts.is_file() else run.folder
    return JudgeOfRun(
        run=str(run.folder),
        name=summary.judge,
        fingerprint=without_rubrics(manifest.judge),
        rubrics=manifest.judge.get("rubrics") or {},
        api_base=manifest.settings.get("judge_api_base"),
        served={name: tuple(map(_served, rows)) for name, rows in summary.served.items()},
        # Verdicts of a run have no dates; the file was last written when the last one came.
        day=date.fromtimestamp(asked.stat().st_mtime),
    )


def _served(row: ServedBy) -> ServedRow:
    return ServedRow(model=row.model)


def read_judge_of_run(folder: Path) -> JudgeOfRun | None:
    """Read the judge whose verdicts a folder holds; None where the folder names none.

    Raises:
        DataError: If the file is not what `alps annotate` writes.
    """
    path = folder / JUDGE
    if not path.is_file():
        return None
    try:
        return JudgeOfRun.model_validate(parse_json(path.read_bytes()))
    except (ValueError, ValidationError, OSError) as error:
        raise DataError(
            "not written by alps annotate; export the labels again", path=path
        ) from error


def hash_of(path: Path) -> str:
    """Return the sha256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def asked_in(run: Path, data: RunData) -> list[JudgeCall]:
    """Return every question to a judge about the predictions of a run, in the order of their data.

    Predictions that failed are left out, as no judge is asked about them; those whose judgement
    failed are not.

    Raises:
        RunFolderError: If a prediction can't be read.
    """
    path = run / "predictions.jsonl"
    predictions: dict[tuple[str, str], dict[int, Row]] = {}
    for key, row in read_rows(path).items():
        predictions.setdefault((key.track, key.id), {})[key.repeat] = row

    async def ask() -> list[JudgeCall]:
        questions = []
        for track in data.tracks:
            name = track.task.track
            for sample in track.samples():
                answers = predictions.get((name, sample.benchmark_id), {})
                for repeat, row in answers.items():
                    try:
                        questions += await _ask(track.task, sample, repeat, row)
                    except (LookupError, TypeError, AttributeError, ValueError) as error:
                        raise RunFolderError(
                            f"{path}: the row about {name}/{sample.benchmark_id} can't be read; "
                            "repeat the run with another out="
                        ) from error
        return questions

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


async def _ask(task: Task, sample: Any, repeat: int, row: Row) -> list[JudgeCall]:
    listener, prediction = _Listener(), Prediction.model_validate(row)
    if prediction.outcome == "ok" and task.has_gold(sample):
        # A judge that only listens might not mind a prediction of another shape.
        task.answer.read(prediction.prediction)
        await task.judge(sample, prediction, listener, JUST_THE_SCORE)
    name = f"{task.track}/{sample.benchmark_id}{f'#{repeat + 1}' if repeat else ''}"
    language = getattr(sample.gold, "language", None)
    asked = []
    for question in listener.questions:
        payload: Any = question.payload()
        # The hashes of samples that people have labelled hold lists of memories in this form.
        if "rubric" not in payload:
            payload = [payload["gold"], payload["predicted"]]
        shown = json.dumps(payload, sort_keys=True, separators=(",", ":"))
        about = Answer(sample.benchmark_id, repeat, shown)
        asked.append(JudgeCall(name, task.track, sample.session_id, language, about, question))
    if len(asked) < 2:
        return asked
    # A task of somebody's own may ask several things about one answer, by one rubric, too.
    number, named = Counter[str](), []
    for one in asked:
        number[one.rubric] += 1
        again = f":{number[one.rubric]}" if number[one.rubric] > 1 else ""
        named.append(replace(one, name=f"{name}:{one.rubric}{again}"))
    return named
