"""Feed every reader of foreign input with broken files.

Python bench/fuzz.py [inputs=100000] [seed=0] [write=yes].

Real files are mutated, byte by byte or value by value, and now and then replaced by something made
up. A reader may return a proper result or raise an `AlpsError` (the command prints an `OSError` on
one line, too); anything else would reach the user as a traceback. Prints a table, and of every
failing input the number that makes it again: `seed=N` with `reader=NAME` and `only=NUMBER` runs
that one alone, and shows its traceback. Exits 1 where anything failed, and `write=yes` writes the
section of docs/benchmarks.md.
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
from dataclasses import dataclass
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
from document import terminal, write_section
from fuzz_table import Tally, section, table, together

from alps import settings
from alps.data.release import read_samples
from alps.errors import AlpsError
from alps.ext.calibration.calibrate import calibrate_judge
from alps.ext.calibration.settings import CalibrateSettings, DrawSettings
from alps.ext.judging.settings import JudgesSettings
from alps.jsonl import dump
from alps.judges.calibration_file import read_calibration_row
from alps.judges.labels import read_labels, read_verdicts
from alps.judges.recorded import RecordedJudge
from alps.judges.rubric import (
    MATCH_ANSWER,
    BinaryReply,
    EmotionalReply,
    rating_answer,
    support_answer,
)
from alps.leaderboard.cards import Details
from alps.leaderboard.checks.files import file_card
from alps.leaderboard.packing import pack
from alps.leaderboard.submission import CARD, STAGES, checksum_of
from alps.leaderboard.verify import Options, verify
from alps.llm import prices
from alps.llm.types import Reply
from alps.llm.understanding import understand
from alps.parsing import parse_words, read_config
from alps.run.start import run
from alps.settings import RunSettings
from alps.tasks import load_tracks
from alps.tasks.base import JUST_THE_SCORE, Task, TaskOptions

TRACKS = ("task1", "task2", "task3_d100", *(f"task4_ability{number}" for number in range(1, 6)))
SCHEMAS = (
    *(
        RunSettings,
        CalibrateSettings,
        settings.JudgeSettings,
        JudgesSettings,
        settings.AuditSettings,
    ),
    *(settings.PoolSettings, DrawSettings),
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
    from alps.systems.recorded import RecordedPredictions

    system = RecordedPredictions(folder / "predictions.jsonl", task=task)
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
    return read_calibration_row(folder / "out" / "calibration.json")


def imported(folder: Path) -> object:
    """Import a public set of labels; its file tells which."""
    (file,) = [path for path in folder.iterdir() if path.is_file()]
    return label_sets.import_labels(file.stem, file, folder / "out")


def read_calibration(folder: Path) -> object:
    """Read a calibration, and what of it is used again."""
    row = read_calibration_row(folder / "calibration.json")
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
            track["files"] = {
                stage: file_card(path).model_dump()
                for stage, path in there.items()
                if path.exists()
            }
        card["checksum"] = checksum_of(card)
        (folder / CARD).write_text(json.dumps(card), encoding="utf-8")
    found = verify(folder, Options(data=data, reviewed=True))
    if found.serious:
        raise AlpsError("refused")
    return found


def read_reply(folder: Path, answers: list[Any]) -> object:
    """Read a model's reply by every typed answer; nothing usable counts as refused."""
    text = (folder / "reply.json").read_bytes().decode("utf-8", "replace")
    outcomes = [
        understand(Reply(text, finish), answer).outcome
        for finish in ("stop", "length")
        for answer in answers
    ]
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
    words = [
        "task=all",
        "scoring=alps",
        "model=rules",
        f"data={folder / 'data'}",
        f"out={folder / 'out'}",
    ]
    return run(parse_words(words, RunSettings))


def readers(folder: Path) -> tuple[Reader, ...]:
    """Return every reader; `folder` is for what they read beside their files."""
    data = folder / "data"
    for name in TRACKS:
        (data / "dev" / tracks()[name].place).mkdir(parents=True)
        for file, content in real_track(name).items():
            (data / "dev" / tracks()[name].place / file).write_bytes(content)
    small = ("task1", "task2", "task4_ability1")
    words = [
        "task=extraction,update,utilization",
        "ability=pa",
        "model=rules",
        f"data={data}",
        f"out={folder / 'run'}",
    ]
    run(parse_words(words, RunSettings))
    pack(
        [folder / "run"],
        Details(name="Fuzzed", submitted="2026-01-31"),
        out=folder / "packed" / "fuzzed",
    )
    samples = {name: list(_samples_of(data, name)) for name in TRACKS}
    return (
        *(
            Reader(
                f"release {name}",
                3,
                (real_track(name),),
                partial(read_release, task=tracks()[name]),
            )
            for name in TRACKS
        ),
        *(_predictions(folder / "run", name, samples[name]) for name in TRACKS),
        _recorded(folder / "run", small, samples),
        Reader("label folders", 9, label_folders(), read_label_folder),
        Reader("sample.json, calibrated", 1, label_folders(), calibrated),
        Reader("public label sets", 6, public_sets(), imported),
        Reader("calibration files", 6, (_calibration(folder),), read_calibration),
        Reader(
            "submissions",
            1.5,
            (_files_in(folder / "packed" / "fuzzed"),),
            partial(read_submission, data=str(data)),
        ),
        Reader("whole runs", 0.4, (_files_in(data, "data"),), whole_run),
        *_replies(samples),
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
    answer: dict[str, Any] = {
        "selected_memory_id": "c001",
        "answer": "Yes.",
        "reason": "It says so.",
    }
    if name in ("task1", "task2"):
        answer = _rows_of(run_folder, name)[-1]["prediction"]
    elif name != "task3_d100":
        answer = {"answer": "Certainly, here it is."}
    ids = [sample.benchmark_id for sample in samples]
    return Reader(
        f"predictions {name}",
        2,
        predictions(name, answer, ids),
        partial(read_predictions, task=task, samples=samples),
    )


def _recorded(run_folder: Path, names: tuple[str, ...], samples: Mapping[str, list[Any]]) -> Reader:
    """Give records of the authors' judge.

    Reviews of memories, marks of answers, and whether a memory was used.
    """
    from alps.schema import Prediction

    found: list[tuple[Task, Any, Any]] = []
    records: list[dict[str, Any]] = []
    published = {
        task.track: task
        for task in load_tracks("extraction,update", TaskOptions(scoring="authors-v1"))
    }
    for name in names:
        for sample, row in zip(samples[name], _rows_of(run_folder, name), strict=True):
            fields = {key: value for key, value in row.items() if key in Prediction.model_fields}
            prediction = Prediction.model_validate(fields)
            found += [
                (task, sample, prediction)
                for task in (tracks()[name], published.get(name))
                if task is not None
            ]
            records.append(
                {"benchmark_id": sample.benchmark_id, **record(prediction.prediction or {})}
            )
    return Reader(
        "recorded judges",
        6,
        ({"records.jsonl": b"".join(map(dump, records))},),
        partial(read_recorded, scored=found),
    )


def _calibration(folder: Path) -> Files:
    labels, out = folder / "labels", folder / "calibrated"
    labels.mkdir()
    for name, content in label_folders()[0].items():
        (labels / name).write_bytes(content)
    calibrate_judge(CalibrateSettings(labels=str(labels), judge="j", out=str(out)))
    return {"calibration.json": (out / "calibration.json").read_bytes()}


def _replies(samples: Mapping[str, list[Any]]) -> tuple[Reader, ...]:
    answers: list[Any] = [
        MATCH_ANSWER,
        support_answer(["p1"]),
        rating_answer(BinaryReply),
        rating_answer(EmotionalReply),
    ]
    answers += [
        found
        for name in TRACKS[:4]
        if (found := tracks()[name].answer_to(samples[name][0])) is not None
    ]
    return (Reader("replies of models", 12, replies(), partial(read_reply, answers=answers)),)


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


def main(words: list[str]) -> int:
    """Fuzz every reader, print what came of it, and return the exit code."""
    known = {"inputs": "100000", "seed": "0", "reader": "", "only": "", "write": ""}
    given = {**known, **dict(word.split("=", 1) for word in words)}
    inputs, seed = int(given["inputs"]), int(given["seed"])
    with tempfile.TemporaryDirectory() as name, contextlib.redirect_stderr(io.StringIO()):
        chosen = [reader for reader in readers(Path(name)) if given["reader"] in ("", reader.name)]
        if given["only"]:
            return again(chosen[0], int(given["only"]), seed, Path(name))
        share = sum(reader.share for reader in chosen)
        tallies = {
            r.name: fuzz(r, -int(-inputs * r.share // share), seed, Path(name)) for r in chosen
        }
    total = together(tallies.values())
    cells = list(table({**tallies, "all": total}))
    print(terminal(cells))
    for name, tally in tallies.items():
        for number, what in tally.failed:
            print(
                f'seed={seed} reader="{name}" only={number}: '
                f"{what.encode('ascii', 'backslashreplace').decode()}"
            )
    if given["write"] == "yes":
        write_section(
            section(
                cells, total, f"python bench/fuzz.py inputs={given['inputs']} seed={seed} write=yes"
            )
        )
    return 1 if any(tally.failed for tally in tallies.values()) else 0


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
    sys.exit(main(sys.argv[1:]))
