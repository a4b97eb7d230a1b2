"""The rows of a track: each of the form its file asks for, about a record of the split, about each
record once.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from alps.judges.lexical import LexicalJudge
from alps.judges.rubric import DIMENSIONS
from alps.leaderboard.findings import Findings, some_of
from alps.leaderboard.reading import faults_of, scan_rows
from alps.leaderboard.recompute import Key, Rows, fingerprints, judge_of
from alps.leaderboard.rows import ANSWERS, LONGEST_ANSWER, MOST_COMPARED, MOST_ITEMS, ROWS
from alps.leaderboard.submission import RunCard, Track
from alps.leaderboard.truth import Truth
from alps.leaderboard.wording import shown
from alps.schema import Prediction
from alps.tasks import Task
from alps.tasks.extraction import predicted_memories
from alps.tasks.update import predicted_lists
from alps.tasks.update_actions import compare

_AGAIN = "pack the runs again with alps submit"


@dataclass(frozen=True)
class TrackRows:
    """The rows of a track by their keys; `verdicts` is None where there is no such file."""

    predictions: Rows
    verdicts: Rows | None
    scores: Rows


def read_track(folder: Path, name: str, track: Track, findings: Findings) -> TrackRows:
    """Read all files of a track.

    A row that has not the form of its file is a finding, and left out.
    """
    found = {
        stage: _read_stage(folder / name / f"{stage}.jsonl", name, stage, track, findings)
        for stage in track.files.present()
    }
    return TrackRows(found.get("predictions", {}), found.get("verdicts"), found.get("scores", {}))


def check_ids(name: str, rows: TrackRows, expected: Iterable[Key], findings: Findings) -> None:
    """Hold the ids against those of the split: none may be missing, none may be added."""
    wanted = dict.fromkeys(expected)
    for stage, found in (("predictions", rows.predictions), ("scores", rows.scores)):
        where = f"{name}/{stage}.jsonl"
        if missing := [named(key) for key in wanted if key not in found]:
            what = f"{len(missing):,} of {len(wanted):,} ids of the split are missing: {some_of(missing)}"
            findings.serious("missing_ids", where, what, "submit a run of the whole split")
        if extra := [named(key) for key in found if key not in wanted]:
            what = f"{len(extra):,} ids are not of the split: {some_of(extra)}"
            findings.serious("extra_ids", where, what, "submit a run of this split alone")


def check_verdicts(
    task: Task, track: Track, run: RunCard, rows: TrackRows, findings: Findings
) -> None:
    """Check that the verdicts are of the judge on the card, on answers that were heard, and in the
    task's form.
    """
    judge, where = judge_of(track, run), f"{task.track}/verdicts.jsonl"
    allowed = fingerprints(judge, task)
    if isinstance(
        judge, LexicalJudge
    ):  # what it says is made anew, and a fingerprint not its own was refused already
        allowed.add(track.judge_fingerprint)
    verdicts = rows.verdicts or {}
    heard = {key for key, row in rows.predictions.items() if row["outcome"] == "ok"}
    if stray := [named(key) for key in verdicts if key not in heard]:
        findings.serious(
            "extra_ids", where, f"{len(stray):,} verdicts on no answer: {some_of(stray)}", _AGAIN
        )
    if strangers := [named(key) for key, row in verdicts.items() if row["judge"] not in allowed]:
        what = f"{len(strangers):,} verdicts of another judge than the card's: {some_of(strangers)}"
        findings.serious("judge", where, what, _AGAIN)
    paired = task.name in ("extraction", "update") and "scoring" not in track.conditions
    for key, row in verdicts.items():
        fault = (
            "no pairs in it"
            if paired and row["outcome"] == "ok" and row.get("pairs") is None
            else None
        )
        fault = fault or next(
            filter(None, map(_fault_of_marks, (row, row.get("used") or {}))), None
        )
        if fault:
            findings.serious("verdict", f"{where}: {named(key)}", fault, _AGAIN)


def check_answers(name: str, truth: Truth, rows: TrackRows, findings: Findings) -> TrackRows:
    """Hold answers and verdicts against their records.

    Return the rows without those that can't be of them.
    """
    samples = {sample.benchmark_id: sample for sample in truth.samples}
    predictions, verdicts = dict(rows.predictions), dict(rows.verdicts or {})
    for key, row in rows.predictions.items():
        if (sample := samples.get(key[0])) is None or row["outcome"] != "ok":
            continue
        try:
            truth.task.fits(sample, row["prediction"])
            fault = _too_much(truth, sample, row["prediction"])
        except (ValueError, KeyError, TypeError) as error:
            fault = shown(str(error), 160)
        if fault:
            findings.serious("answer", f"{name}/predictions.jsonl: {named(key)}", fault, _AGAIN)
            del predictions[key]
            verdicts.pop(key, None)
            continue
        if fault := _out_of_range(truth, sample, row, verdicts.get(key)):
            findings.serious("verdict", f"{name}/verdicts.jsonl: {named(key)}", fault, _AGAIN)
            del verdicts[key]
    return TrackRows(predictions, verdicts if rows.verdicts is not None else None, rows.scores)


def _read_stage(
    path: Path, name: str, stage: str, track: Track, findings: Findings
) -> dict[Key, Mapping[str, Any]]:
    found: dict[Key, Mapping[str, Any]] = {}
    twice: dict[str, None] = {}
    where = f"{name}/{path.name}"
    try:
        for number, row, unread in scan_rows(path):
            fault = unread if row is None else _fault_of_row(row, stage, name, track)
            if fault or row is None:
                findings.serious("row", f"{where}, line {number}", fault, _AGAIN)
            elif stage != "calls":
                key = row["benchmark_id"], row.get("repeat", 0)
                if key in found:
                    twice[named(key)] = None
                found[key] = row
    except ValueError as error:
        findings.serious("file", where, str(error), _AGAIN)
    if twice:
        what = f"{len(twice):,} ids stand twice: {some_of(twice)}"
        findings.serious("duplicate_ids", where, what, "leave one row a record")
    return found


def _fault_of_row(row: Mapping[str, Any], stage: str, name: str, track: Track) -> str:
    """Say what is wrong with the form of a row; nothing where it is right."""
    try:
        ROWS[stage].model_validate(row)
        if stage != "calls" and row["track"] != name:
            return f"a row of the track {shown(row['track'], 40)}"
        if stage == "predictions":
            return _fault_of_prediction(row, track)
    except ValidationError as error:
        field, fault = faults_of(error)[0]
        return f"{field}: {fault}"
    except RecursionError:
        return "nested too deeply"
    return ""


def _fault_of_prediction(row: Mapping[str, Any], track: Track) -> str:
    """Check what an answer holds, as deep as its task reads it.

    Raises:
        ValidationError: If it has not the form of the task.
    """
    if (row["outcome"] == "ok") != (row.get("prediction") is not None):
        return (
            f"outcome {row['outcome']}, {'but' if row.get('prediction') else 'and no'} prediction"
        )
    if row["outcome"] != "ok":
        return ""
    items = row["prediction"].get("memory_items")
    if isinstance(items, list) and len(items) > MOST_ITEMS:  # before anything looks at each of them
        return f"{len(items):,} memories; at most {MOST_ITEMS:,} are an answer"
    ANSWERS[track.task].model_validate(row["prediction"])
    size = sum(len(text) for text in _texts(row["prediction"]))
    return (
        f"{size:,} characters; at most {LONGEST_ANSWER:,} are an answer"
        if size > LONGEST_ANSWER
        else ""
    )


def _texts(node: Any) -> Iterable[str]:
    if isinstance(node, str):
        yield node
    elif isinstance(node, dict | list):
        for child in node.values() if isinstance(node, dict) else node:
            yield from _texts(child)


def _fault_of_marks(rating: Mapping[str, Any]) -> str | None:
    """Say what is wrong with marks: one that is met or not met, or three from 1 to 5."""
    marks = rating.get("marks")
    if not marks or rating["outcome"] != "ok":
        return "no marks in it" if marks is not None and rating["outcome"] == "ok" else None
    if set(marks) == {"met"}:
        return None if marks["met"] in (0, 1) else f"marks.met is {marks['met']}, neither 0 nor 1"
    if set(marks) != set(DIMENSIONS):
        return f"marks of {', '.join(sorted(marks))}, which belong to no rubric"
    wrong = next((name for name in DIMENSIONS if not 1 <= marks[name] <= 5), None)
    return f"marks.{wrong} is {marks[wrong]}, not from 1 to 5" if wrong else None


def _too_much(truth: Truth, sample: Any, answer: Mapping[str, Any]) -> str:
    """Say that comparing an answer with its gold would take too long; nothing where it would not."""
    if "scoring" not in truth.task.conditions or not sample.gold:
        return ""
    gold = sum(len(memory.value) for memory in sample.gold)
    compared = gold * sum(len(item["value"]) for item in answer["memory_items"])
    return (
        f"{compared:,} comparisons of characters; at most {MOST_COMPARED:,}"
        if compared > MOST_COMPARED
        else ""
    )


def _out_of_range(
    truth: Truth, sample: Any, row: Mapping[str, Any], verdict: Mapping[str, Any] | None
) -> str:
    """Say what of a verdict is about a memory that is not there, or stands twice, before anything
    is paired by it.
    """
    pairs, support = (verdict or {}).get("pairs"), (verdict or {}).get("support")
    if not (pairs or support) or sample.gold is None:
        return ""
    prediction = Prediction.model_validate(row)
    if truth.task.name == "update":
        gold, predicted = (
            len(compare(sample.memory, sample.gold).rows),
            len(predicted_lists(prediction)[0]),
        )
    else:
        gold, predicted = len(sample.gold), len(predicted_memories(prediction))
    seen = set()
    for pair in pairs or ():
        place = int(pair["gold"][1:]), int(pair["predicted"][1:])
        if place[0] > gold or place[1] > predicted:
            return f"a pair of {pair['gold']} and {pair['predicted']}, of {gold} gold and {predicted} predicted ones"
        if place in seen:
            return f"{pair['gold']} and {pair['predicted']} are paired twice"
        seen.add(place)
    items = [item["id"] for item in support["items"]] if support else []
    if len(items) != len(set(items)) or any(int(name[1:]) > predicted for name in items):
        return f"support of {len(items):,} memories, of {predicted} predicted ones"
    return ""


def named(key: Key) -> str:
    """Name an answer: its record, and which of several it is where it is not the first."""
    name, repeat = key
    return shown(name, 40) + (f"#{repeat + 1}" if repeat else "")
