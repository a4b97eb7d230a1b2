"""Feed every reader of foreign input with broken files.

Python bench/fuzz.py [inputs=100000] [seed=0] [write=yes].

Real files are mutated, byte for byte or value by value, and now and then replaced by something made
up. A reader may return a proper result or raise an `AlpsError` (the command prints an `OSError` on
one line, too); anything else would reach the user as a traceback. Prints a table, and of every
failing input the number that makes it again: `seed=N` with `reader=NAME` and `only=NUMBER` runs
that one alone, and shows its traceback. Exits 1 where anything failed, and `write=yes` writes the
section of bench/RESULTS.md.
"""

import asyncio
import contextlib
import io
import json
import os
import random
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import label_sets
from broken_files import (
    PRICES,
    Files,
    configs,
    label_folders,
    mutated,
    predictions,
    public_sets,
    real_track,
    record,
    replies,
    tracks,
    word_files,
)
from document import Section, at_most, finish
from words import read_words as bench_words
from words import whole

from alps.data.release import read_samples
from alps.errors import AlpsError
from alps.ext.adapters.recorded_verdicts import RecordedJudge
from alps.ext.calibration import calibration_file
from alps.ext.calibration.calibrate import calibrate_judge
from alps.ext.calibration.labels import read_labels, read_verdicts
from alps.ext.calibration.settings import CalibrateSettings, DrawSettings
from alps.ext.datasets.settings import AuditSettings, PoolSettings
from alps.ext.judging.settings import JudgesSettings
from alps.jsonl import dump
from alps.judges.rubric import (
    MATCH_ANSWER,
    BinaryReply,
    EmotionalReply,
    rating_answer,
    support_answer,
)
from alps.leaderboard.cards import SubmitterDetails
from alps.leaderboard.checks.files import file_card
from alps.leaderboard.packing import pack
from alps.leaderboard.submission import CARD, STAGES, checksum_of
from alps.leaderboard.verify import Options, verify
from alps.llm import prices
from alps.llm.types import Reply
from alps.llm.understanding import understand
from alps.run.start import run
from alps.settings import JudgeSettings, RunSettings, parse_words, read_config
from alps.tasks import load_tracks
from alps.tasks.base import JUST_THE_SCORE, Task, TaskOptions

TRACKS = ("task1", "task2", "task3_d100", *(f"task4_ability{number}" for number in range(1, 6)))
SCHEMAS = (
    *(RunSettings, CalibrateSettings, DrawSettings, JudgeSettings),
    *(JudgesSettings, AuditSettings, PoolSettings),
)


@dataclass(frozen=True)
class Reader:
    """Something that reads what others wrote: real files to begin with, and what reads them.

    `files` gives several sets of files by name; `read` is given a folder that holds one of them,
    mutated. `share` is how many of a hundred inputs it gets.
    """

    name: str
    share: float
    files: tuple[Files, ...]
    read: Callable[[Path], object]


def read_release(folder: Path, task: Task) -> object:
    """Read the samples of a track, and render what a model and a program would be shown."""
    samples = list(read_samples(folder, task.read_sample))
    for sample in samples:
        task.messages(sample)
        dump(task.input_row(sample))
        task.has_gold(sample)
    return samples


def read_predictions(folder: Path, task: Task, samples: list[Any]) -> object:
    """Read recorded predictions, and check and write them as a run does."""
    from alps.ext.adapters.recorded_answers import RecordedPredictions

    system = RecordedPredictions(folder / "predictions.jsonl", tasks=(task,))
    for sample in samples:
        prediction = asyncio.run(system.answer(task, sample))
        if prediction.prediction is not None:
            with contextlib.suppress(ValueError):
                task.fits(sample, prediction.prediction)
        dump(prediction.model_dump(mode="json"))
    return system


def read_recorded(folder: Path, scored: list[tuple[Task, Any, Any]]) -> object:
    """Read a recorded judge, let it judge, and score by its verdicts as a run does."""
    judge = RecordedJudge(folder / "records.jsonl")
    for task, sample, prediction in scored:
        verdict = asyncio.run(_waited(task.judge(sample, prediction, judge, JUST_THE_SCORE)))
        dump(verdict)
        if verdict["outcome"] == "ok":
            dump(dict(task.score(sample, prediction, verdict, judge).scores))
    return judge


async def _waited(answer: Awaitable[dict[str, Any]]) -> dict[str, Any]:
    return await answer


def read_label_folder(folder: Path) -> object:
    """Read labels, and the verdicts on the same items."""
    return read_verdicts(folder / "verdicts.jsonl", "j", labels=read_labels(folder))


def calibrated(folder: Path) -> object:
    """Calibrate a recorded judge on a label folder, and read what was written."""
    calibrate_judge(CalibrateSettings(labels=str(folder), judge="j", out=str(folder / "out")))
    return calibration_file.read_calibration(folder / "out" / "calibration.json")


def imported(folder: Path) -> object:
    """Import a public set of labels; its file tells which."""
    (file,) = [path for path in folder.iterdir() if path.is_file()]
    return label_sets.import_labels(file.stem, file, folder / "out")


def read_calibration(folder: Path) -> object:
    """Read a calibration, and what of it is used again."""
    row = calibration_file.read_calibration(folder / "calibration.json")
    return [
        (found.uneven, found.sample and found.sample.of("task1")) for found in row.rubrics.values()
    ]


def read_submission(folder: Path, data: str) -> object:
    """Verify a submission, with hashes that fit where its card can be read.

    Somebody who means it makes them so.
    """
    with contextlib.suppress(Exception):
        card = json.loads((folder / CARD).read_bytes())
        for name, track in card["tracks"].items():
            there = {stage: folder / name / f"{stage}.jsonl" for stage in STAGES}
            files = {stage: path for stage, path in there.items() if path.exists()}
            track["files"] = {stage: file_card(path).model_dump() for stage, path in files.items()}
        card["checksum"] = checksum_of(card)
        (folder / CARD).write_text(json.dumps(card), encoding="utf-8")
    found = verify(folder, Options(data=data, reviewed=True))
    if found.serious:
        raise AlpsError("refused")
    return found


def read_reply(folder: Path, answers: list[Any]) -> object:
    """Read a model's reply by every typed answer; nothing usable counts as refused."""
    text = (folder / "reply.json").read_bytes().decode("utf-8", "replace")
    replies = [Reply(text, finish) for finish in ("stop", "length")]
    outcomes = [understand(reply, answer).outcome for reply in replies for answer in answers]
    if "ok" not in outcomes:
        raise AlpsError("not usable")
    return outcomes


def read_words(folder: Path) -> object:
    """Read key=value words, one a line, into every kind of settings.

    Those that no kind takes are refused.
    """
    words = (folder / "words").read_bytes().decode("utf-8", "surrogateescape").split("\n")
    read: list[object] = []
    refused: AlpsError | None = None
    for schema in SCHEMAS:
        try:
            read.append(parse_words([word for word in words if word], schema))
        except AlpsError as error:
            refused = error
    if refused is not None and not read:
        raise refused
    return read


def read_prices(folder: Path) -> object:
    """Read a price file."""
    os.environ["ALPS_PRICES"] = str(folder / "prices.toml")
    prices._own_prices.cache_clear()
    try:
        return prices.has_own_price("openai/my-model")
    finally:
        del os.environ["ALPS_PRICES"]


def whole_run(folder: Path) -> object:
    """Run an embedded system over data, from the first row to the summary."""
    words = ["task=all", "scoring=alps", "model=rules"]
    words += [f"data={folder / 'data'}", f"out={folder / 'out'}"]
    return run(parse_words(words, RunSettings))


def readers(folder: Path) -> tuple[Reader, ...]:
    """Return every reader; `folder` is for what they read beside their files."""
    data = folder / "data"
    for name in TRACKS:
        (data / "dev" / tracks()[name].place).mkdir(parents=True)
        for file, content in real_track(name).items():
            (data / "dev" / tracks()[name].place / file).write_bytes(content)
    small = ("task1", "task2", "task4_ability1")
    words = ["task=extraction,update,utilization", "ability=pa", "model=rules"]
    words += [f"data={data}", f"out={folder / 'run'}"]
    run(parse_words(words, RunSettings))
    packed = folder / "packed" / "fuzzed"
    pack([folder / "run"], SubmitterDetails(name="Fuzzed", submitted="2026-01-31"), out=packed)
    verified = partial(read_submission, data=str(data))
    samples = {name: list(_samples_of(data, name)) for name in TRACKS}
    found = []
    for name in TRACKS:
        read = partial(read_release, task=tracks()[name])
        found.append(Reader(f"release {name}", 3, (real_track(name),), read))
        found.append(_predictions(folder / "run", name, samples[name]))
    return (
        *found,
        _recorded(folder / "run", small, samples),
        Reader("label folders", 9, label_folders(), read_label_folder),
        Reader("sample.json, calibrated", 1, label_folders(), calibrated),
        Reader("public label sets", 6, public_sets(), imported),
        Reader("calibration files", 6, (_calibration(folder),), read_calibration),
        Reader("submissions", 1.5, (_files_in(packed),), verified),
        Reader("whole runs", 0.4, (_files_in(data, "data"),), whole_run),
        _replies(samples),
        Reader("key=value words", 9, word_files(), read_words),
        Reader("config files", 6, configs(), lambda at: read_config(at / "alps.toml", RunSettings)),
        Reader("price files", 4, (PRICES,), read_prices),
    )


def _samples_of(data: Path, name: str) -> Iterator[Any]:
    return read_samples(data / "dev" / tracks()[name].place, tracks()[name].read_sample)


def _files_in(folder: Path, within: str = "") -> Files:
    found = ((Path(within) / path.relative_to(folder), path) for path in folder.rglob("*.json*"))
    return {name.as_posix(): path.read_bytes() for name, path in found}


def _rows_of(run_folder: Path, track: str) -> list[dict[str, Any]]:
    lines = (run_folder / "predictions.jsonl").read_bytes().splitlines()
    return [row for line in lines if (row := json.loads(line))["track"] == track]


def _predictions(run_folder: Path, name: str, samples: list[Any]) -> Reader:
    """Give rows of a run, rows of the release's tools, and records as the authors keep them."""
    task = tracks()[name]
    answer: dict[str, Any] = {"selected_memory_id": "c001", "answer": "Yes.", "reason": "Said."}
    if name in ("task1", "task2"):
        answer = _rows_of(run_folder, name)[-1]["prediction"]
    elif name != "task3_d100":
        answer = {"answer": "Certainly, here it is."}
    files = predictions(name, answer, [sample.benchmark_id for sample in samples])
    read = partial(read_predictions, task=task, samples=samples)
    return Reader(f"predictions {name}", 2, files, read)


def _recorded(run_folder: Path, names: tuple[str, ...], samples: Mapping[str, list[Any]]) -> Reader:
    """Give records of the authors' judge.

    Reviews of memories, marks of answers, and whether a memory was used.
    """
    from alps.schema import Prediction

    found: list[tuple[Task, Any, Any]] = []
    records: list[dict[str, Any]] = []
    options = TaskOptions(scoring="authors-v1")
    published = {task.track: task for task in load_tracks("extraction,update", options)}
    for name in names:
        for sample, row in zip(samples[name], _rows_of(run_folder, name), strict=True):
            fields = {key: value for key, value in row.items() if key in Prediction.model_fields}
            prediction = Prediction.model_validate(fields)
            tasks = [tracks()[name], *([published[name]] if name in published else [])]
            found += [(task, sample, prediction) for task in tasks]
            about = {"benchmark_id": sample.benchmark_id}
            records.append({**about, **record(prediction.prediction or {})})
    files = {"records.jsonl": b"".join(map(dump, records))}
    return Reader("recorded judges", 6, (files,), partial(read_recorded, scored=found))


def _calibration(folder: Path) -> Files:
    labels, out = folder / "labels", folder / "calibrated"
    labels.mkdir()
    for name, content in label_folders()[0].items():
        (labels / name).write_bytes(content)
    calibrate_judge(CalibrateSettings(labels=str(labels), judge="j", out=str(out)))
    return {"calibration.json": (out / "calibration.json").read_bytes()}


def _replies(samples: Mapping[str, list[Any]]) -> Reader:
    answers: list[Any] = [MATCH_ANSWER, support_answer(["p1"])]
    answers += [rating_answer(reply) for reply in (BinaryReply, EmotionalReply)]
    asked = (tracks()[name].answer_to(samples[name][0]) for name in TRACKS[:4])
    answers += [answer for answer in asked if answer is not None]
    return Reader("replies of models", 12, replies(), partial(read_reply, answers=answers))


@dataclass
class Tally:
    """What became of the inputs of one reader.

    `failed` has a number and one line for each failing input.
    """

    accepted: int = 0
    refused: int = 0
    seconds: float = 0.0
    failed: list[tuple[int, str]] = field(default_factory=list)

    def row(self, name: str) -> list[str]:
        """Return the row of the table."""
        counts = (self.accepted, self.refused, len(self.failed))
        shown = (f"{count:,}" for count in (sum(counts), *counts))
        return [name, *shown, f"{self.seconds:.1f}"]

    def __iadd__(self, other: "Tally") -> "Tally":
        for name in ("accepted", "refused", "seconds", "failed"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        return self


def feed(reader: Reader, number: int, seed: int, folder: Path) -> None:
    """Make the input with this number, and give it to `reader`."""
    draw = random.Random(f"{seed} {reader.name} {number}")
    files = mutated(draw, draw.choice(reader.files)) if number else reader.files[0]
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    with contextlib.redirect_stderr(io.StringIO()):
        reader.read(folder)


def fuzz(reader: Reader, inputs: int, seed: int, folder: Path) -> Tally:
    """Give `reader` so many inputs; the first is the real one."""
    tally, started = Tally(), time.perf_counter()
    for number in range(inputs):
        at = folder / "fuzzed"
        at.mkdir()
        try:
            feed(reader, number, seed, at)
            tally.accepted += 1
        except (AlpsError, OSError) as error:
            if str(error).strip():
                tally.refused += 1
            else:
                tally.failed.append((number, "an error without a word"))
        except Exception as error:
            tally.failed.append((number, f"{type(error).__name__}: {error}"[:150]))
        finally:
            shutil.rmtree(at)
    tally.seconds = time.perf_counter() - started
    return tally


HEAD = ["reader", "inputs", "accepted", "refused", "failed", "seconds"]
TEXT = """
Every reader of foreign input is fed with broken files: real ones, mutated byte for byte or value
by value, and some made up. It may return a proper result, or refuse the input in one line that
says what is wrong; anything else is a failure, for a user would meet it as a traceback.
"""


def main() -> None:
    """Fuzz every reader, and print what came of it."""
    defaults = {"inputs": "100000", "seed": "0", "reader": "", "only": ""}
    given = bench_words(sys.argv[1:], defaults)
    inputs, seed = whole(given, "inputs"), whole(given, "seed", least=0)
    total, rows, failures = Tally(), [], []
    with tempfile.TemporaryDirectory() as name, contextlib.redirect_stderr(io.StringIO()):
        chosen = [reader for reader in readers(Path(name)) if given["reader"] in ("", reader.name)]
        if given["only"]:
            sys.exit(again(chosen[0], int(given["only"]), seed, Path(name)))
        share = sum(reader.share for reader in chosen)
        for reader in chosen:
            tally = fuzz(reader, -int(-inputs * reader.share // share), seed, Path(name))
            total += tally
            rows.append(tally.row(reader.name))
            for number, what in tally.failed:
                said = what.encode("ascii", "backslashreplace").decode()
                failures.append(f'seed={seed} reader="{reader.name}" only={number}: {said}')
    print(*failures, sep="\n")
    bound = at_most(f"failures in {inputs:,} inputs", 0, len(total.failed))
    command = f"python bench/fuzz.py inputs={inputs} seed={seed} write=yes"
    table = [HEAD, *rows, total.row("all")]
    finish(Section("fuzz", "Broken files", TEXT, [bound], command, table), write=given["write"])


def again(reader: Reader, number: int, seed: int, folder: Path) -> int:
    """Feed one input again; show what came of it."""
    at = folder / "fuzzed"
    at.mkdir()
    try:
        feed(reader, number, seed, at)
    except (AlpsError, OSError) as error:
        print(f"refused: {error}")
    except Exception:
        print(traceback.format_exc())
        return 1
    return 0


if __name__ == "__main__":
    main()
