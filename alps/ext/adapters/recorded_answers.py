"""Predictions that were made elsewhere, read from a file."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from alps.errors import DataError, UsageError, first_fault
from alps.folders import typed_path
from alps.jsonl import Row, scan
from alps.llm.types import Completes, EmptyAnswer
from alps.run.services import say_once
from alps.run.source import RunData, TrackData
from alps.schema import Outcome, Prediction
from alps.slips import HEAD, refuse_form
from alps.systems.base import Place, one_line
from alps.systems.resolve import RECORDED
from alps.tasks import Task

Rows = Mapping[str, tuple[int, Row]]
"""Rows of one track with their lines, by the id of the record."""


class RecordedPredictions:
    """Answers with the rows of a JSON Lines file, or of a run's folder, joined on `benchmark_id`.

    A row is what the release's tools exchange (`{"benchmark_id", "memory_items": […]}`), a record
    of the authors' own (`{"benchmark_id", "model_output": …}`, as they read the output), or a row
    of a run's `predictions.jsonl`; rows that name another track are left to it. A record of theirs
    without any `raw_output` is an empty answer, no empty list: the model said nothing. So is a
    record without a row: it was not predicted. One without a row in a published table had no
    response: its authors leave out the rows of API errors.

    Raises:
        UsageError: If the file does not exist.
        DataError: If a line is no row of an answer, or an id stands twice.
    """

    def __init__(self, path: Path, *, tasks: Sequence[Task]) -> None:
        path = _file_of(path)
        self.name = f"{RECORDED}{path.name}"
        self._path = path
        tables = [task.data.read_results for task in tasks if task.data.read_results is not None]
        self._is_table = path.suffix == ".csv" and bool(tables)
        self._tasks, self._rows = tasks, dict[str, Rows]()
        for task in tasks:
            read = task.data.read_results if self._is_table else None
            rows, digest = _index(path, task.track) if read is None else _table(path, read)
            self.settings: Mapping[str, Any] = {"sha256": digest}
            self._rows[task.track] = rows

    def on(self, client: Completes) -> "RecordedPredictions":
        """Return the system itself: it makes no requests."""
        return self

    def check_data(self, data: RunData) -> None:
        """Refuse data that the answers do not belong to, and rows that can't be read.

        Raises:
            DataError: If a table has other records, or says of one something else than the data, if
                no row of a JSON Lines file is about any of them, or one of them is no answer.
        """
        # With `limit=` the answers still belong to all of the data.
        tracks = [replace(track, limit=None) for track in data.tracks]
        if not self._is_table:
            _check_ids(self._path, tracks)
        for track in tracks if self._is_table else ():
            if track.task.data.check_results is not None:
                for line in track.task.data.check_results(self._path, track.samples()):
                    say_once(f"{self._path}: {line}")
        # Answers to another task are mostly to other records, too, and that says more.
        for task in self._tasks:
            for name, (number, row) in self._rows[task.track].items():
                self._read(task, name, number, row)

    async def answer(self, task: Task, sample: Any) -> Prediction:
        """Return the recorded answer to `sample`."""
        name, rows = sample.benchmark_id, self._rows[task.track]
        if name in rows:
            return self._read(task, name, *rows[name])
        error = f"no row for this record in {self._path.name}"
        outcome: Outcome = "transport" if self._is_table else "empty"
        return Prediction(benchmark_id=name, track=task.track, outcome=outcome, error=error)

    def _read(self, task: Task, name: str, line: int, row: Row) -> Prediction:
        own = "outcome" in row  # a row of a run, not one that the release's tools exchange
        fields: Row = {"outcome": "ok", **(row if own else {}), "benchmark_id": name}
        fields["track"] = task.track
        answer = fields.pop("prediction", None)
        if not own:
            answer = {key: value for key, value in row.items() if key != "benchmark_id"}
        try:
            prediction = Prediction.model_validate(fields)
            read = task.answer.read(answer) if prediction.outcome == "ok" else None
        except EmptyAnswer as error:
            return prediction.model_copy(update={"outcome": "empty", "error": str(error)})
        except ValidationError as error:
            said, named = first_fault(error)
            raise DataError(said, path=self._path, line=line, field=named) from error
        except ValueError as error:
            if self._is_table:
                # A model's reply, and no answer that somebody wrote down: it is invalid.
                failed = {"outcome": "invalid", "error": one_line(str(error))}
                return prediction.model_copy(update=failed)
            field = "prediction" if own else None
            raise DataError(str(error), path=self._path, line=line, field=field) from error
        if read is None:
            return prediction
        value, notes = task.to_prediction(read.value), (*prediction.notes, *read.notes)
        return prediction.model_copy(update={"prediction": value, "notes": notes})


def system_of(path: str, place: Place) -> RecordedPredictions:
    """Return the answers in a file, or in the folder of a run.

    Raises:
        UsageError: If no file is named, or a task asks several variants of a record.
    """
    if not path:
        raise UsageError(
            f"model={RECORDED} names no file; write {RECORDED}FILE, such as {RECORDED}runs/mine"
        )
    for task in place.tasks:
        _refuse_variants(f"{RECORDED}{path}", task)
    return RecordedPredictions(typed_path(path), tasks=place.tasks)


def _refuse_variants(model: str, task: Task) -> None:
    """Refuse answers that would be taken for answers to each variant of a sample."""
    if task.asking.variants is not None:
        ways = ", ".join(f"{name}={value}" for name, value in task.conditions.items())
        raise UsageError(
            f"model={model}: the file has one answer per record, but this run needs answers to "
            f"several variants of each record ({ways}); leave out the setting that adds them"
        )


def _check_ids(path: Path, tracks: Sequence[TrackData]) -> None:
    """Refuse a file of answers to other records: each would count as not predicted."""
    known: dict[str, dict[str, None]] = {}
    for track in tracks:
        known[track.task.track] = dict.fromkeys(one.benchmark_id for one in track.samples())
    others: list[str] = []
    for of, name in _ids(path):
        tracks_named = known.values() if of is None else [known.get(of, {})]
        if any(name in names for names in tracks_named):
            return
        others.append(name)
    if others:
        theirs = list(dict.fromkeys(chain.from_iterable(known.values())))
        what = (
            f"the data has none of the file's ids ({len(others):,}); in the file: {_some(others)}"
        )
        what += f"; in the data: {_some(theirs)}"
        raise DataError(what, path=path, field="benchmark_id")


def _ids(path: Path) -> Iterator[tuple[str | None, str]]:
    """Yield the track and the id of each answer in a JSON Lines file, None where it names none."""
    for _, _, row in scan(path):
        if row is not None and isinstance(row.get("benchmark_id"), str):
            track = row.get("track")
            for answer in _answers_of(row):
                yield track if isinstance(track, str) else None, answer["benchmark_id"]


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(f"'{name[:40]}'" for name in names[:2])
    return f"{shown}, …" if len(names) > 2 else shown


def _file_of(path: Path) -> Path:
    file = path / "predictions.jsonl" if path.is_dir() else path
    if not file.is_file():
        raise UsageError(f"model=predictions:{file}: no such file")
    return file


def _answers_of(row: Row) -> list[Row]:
    """Return the row itself, or the rows that the authors' record of an output stands for."""
    output = row.get("model_output")
    if not isinstance(output, dict):
        return [row]
    responses = output.get("responses")
    if isinstance(responses, list) and all(isinstance(response, dict) for response in responses):
        answers = []
        for response in responses:
            name = row["benchmark_id"] if len(responses) == 1 else str(response.get("query_id"))
            answers.append({"benchmark_id": name, "answer": response.get("response") or ""})
        return answers
    answer: Row = {"outcome": "empty", "error": "the recorded model gave no answer"}
    silent = not (output.get("raw_output", True) or output.get("memory_items"))
    if not silent and isinstance(output.get("parsed_response"), dict):
        answer = output["parsed_response"]
    elif not silent and "memory_items" in output:
        answer = {"memory_items": output["memory_items"] or []}
    return [{"benchmark_id": row["benchmark_id"], **answer}]


def _table(
    path: Path, read: Callable[[Path], Iterator[tuple[int, Row]]]
) -> tuple[dict[str, tuple[int, Row]], str]:
    """Return the rows of a published table by their ids, and its hash."""
    rows: dict[str, tuple[int, Row]] = {}
    for line, row in read(path):
        name = row["benchmark_id"]
        if name in rows:
            raise DataError(f"'{name}' appears twice", path=path, line=line, field="question_id")
        rows[name] = line, row
    return rows, sha256(path.read_bytes()).hexdigest()


def _index(path: Path, track: str) -> tuple[dict[str, tuple[int, Row]], str]:
    """Return the rows of a track with their lines, by id, and the sha256 of the file."""
    rows: dict[str, tuple[int, Row]] = {}
    data = path.read_bytes()
    refuse_form(data[:HEAD], path)
    if data and not data.endswith(b"\n"):
        what = "the last line has no line break; check that the file is complete"
        raise DataError(what, path=path, line=data.count(b"\n") + 1)
    for line, (offset, length, row) in enumerate(scan(path), start=1):
        if row is None:
            is_text = "\ufffd" not in data[offset : offset + length].decode(errors="replace")
            wrong = "not a JSON object" if is_text else "is not UTF-8; save the file as UTF-8"
            raise DataError(wrong, path=path, line=line)
        if row.get("track", track) != track:
            continue
        _check_row(row, path, line)
        for answer in _answers_of(row):
            if answer["benchmark_id"] in rows:
                message = f"'{answer['benchmark_id']}' appears twice"
                raise DataError(message, path=path, line=line, field="benchmark_id")
            rows[answer["benchmark_id"]] = line, answer
    return rows, sha256(data).hexdigest()


def _check_row(row: Row, path: Path, line: int) -> None:
    if not isinstance(row.get("benchmark_id"), str):
        wrong = "must be a string" if "benchmark_id" in row else "is missing"
        raise DataError(wrong, path=path, line=line, field="benchmark_id")
    if row.get("repeat"):
        what = "a prediction file can hold only one answer per record, but this run has several "
        what += "(repeats=); use alps score"
        raise DataError(what, path=path, line=line, field="repeat")
