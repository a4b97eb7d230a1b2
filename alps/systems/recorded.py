"""Predictions that were made elsewhere, read from a file."""

from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from alps.errors import DataError, UsageError
from alps.jsonl import Row, scan
from alps.llm.types import Completes, EmptyAnswer
from alps.schema import Outcome, Prediction
from alps.slips import HEAD, refuse_form
from alps.systems.base import one_line
from alps.tasks import Task


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
        DataError: If a row can't be read, or an id stands twice.
    """

    def __init__(self, path: Path, *, task: Task) -> None:
        path = _file_of(path)
        self.name = f"predictions:{path.name}"
        self._path = path
        self._task = task
        read = task.data.read_results if path.suffix == ".csv" else None
        self._is_table = read is not None
        self._lines, digest = _index(path, task.track) if read is None else _table(path, read)
        self.settings: Mapping[str, Any] = {"sha256": digest}
        for name, (line, row) in self._lines.items():  # a bad row is named before a run begins
            self._read(name, line, row)

    def on(self, client: Completes) -> "RecordedPredictions":
        """Return the system itself: it makes no requests."""
        return self

    async def answer(self, task: Task, sample: Any) -> Prediction:
        """Return the recorded answer to `sample`; the file was read for its task."""
        name = sample.benchmark_id
        if name not in self._lines:
            error = f"no row for this record in {self._path.name}"
            outcome: Outcome = "transport" if self._is_table else "empty"
            return Prediction(benchmark_id=name, track=task.track, outcome=outcome, error=error)
        return self._read(name, *self._lines[name])

    def _read(self, name: str, line: int, row: Row) -> Prediction:
        own = "outcome" in row  # a row of a run, not one that the release's tools exchange
        fields: Row = {"outcome": "ok", **(row if own else {}), "benchmark_id": name}
        fields["track"] = self._task.track
        answer = fields.pop("prediction", None)
        if not own:
            answer = {key: value for key, value in row.items() if key != "benchmark_id"}
        try:
            prediction = Prediction.model_validate(fields)
            read = self._task.answer.read(answer) if prediction.outcome == "ok" else None
        except EmptyAnswer as error:
            return prediction.model_copy(update={"outcome": "empty", "error": str(error)})
        except ValidationError as error:
            first = error.errors()[0]
            named = ".".join(map(str, first["loc"]))
            raise DataError(first["msg"], path=self._path, line=line, field=named) from error
        except ValueError as error:
            if self._is_table:
                # A model's reply, and no answer that somebody wrote down: it is invalid.
                failed = {"outcome": "invalid", "error": one_line(str(error))}
                return prediction.model_copy(update=failed)
            field = "prediction" if own else None
            raise DataError(str(error), path=self._path, line=line, field=field) from error
        if read is None:
            return prediction
        value, notes = self._task.to_prediction(read.value), (*prediction.notes, *read.notes)
        return prediction.model_copy(update={"prediction": value, "notes": notes})


def recorded_ids(path: Path) -> Iterator[tuple[str | None, str]]:
    """Yield the track and the id of each answer in a JSON Lines file, or in a run's folder.

    The track is None where a row names none. Rows that can't be read are left out.

    Raises:
        UsageError: If the file does not exist.
    """
    for _, _, row in scan(_file_of(path)):
        if row is not None and isinstance(row.get("benchmark_id"), str):
            track = row.get("track")
            for answer in _answers_of(row):
                yield track if isinstance(track, str) else None, answer["benchmark_id"]


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
