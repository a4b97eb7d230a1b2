"""Seed of the draw of an audit, from what is audited: nobody chooses which answers are."""

import hashlib
import json
import re
import unicodedata
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from alps.run.opened import read_rows
from alps.tasks import Task
from alps.tasks.base import texts_of

_WORDS = re.compile(r"\w+")
_DIGITS = 9
"""Hexadecimal digits of a seed: a JSON number that every reader keeps whole."""

Rows = Mapping[tuple[str, int], Mapping[str, Any]]


def answer_seed(task: Task, data: str, predictions: Rows, scores: Rows) -> int:
    """Return the seed that the answers and scores of a track give.

    Only what a score can depend on counts: the words of answers, in any order of the answer's
    parts, and what the judge's verdicts were worth. Spaces, case, ids and explanations don't, so
    that another draw costs another answer or verdict.

    Args:
        task: The task of the track.
        data: The hash of its data.
        predictions: The rows of answers, by record and repeat.
        scores: The rows of scores.
    """
    lines = [data]
    for key in sorted(predictions):
        answer = predictions[key].get("prediction")
        texts = () if answer is None else texts_of(task, answer)
        worth = (scores.get(key) or {}).get("scores") or {}
        figures = sorted((name, round(float(value), 6)) for name, value in worth.items())
        lines.append(json.dumps([*key, sorted(map(_words, texts)), figures]))
    text = "\n".join(lines).encode(errors="surrogatepass")
    return int(hashlib.sha256(text).hexdigest()[:_DIGITS], 16)


def run_seed(run: Path, task: Task, data: str) -> int:
    """Return the seed of a track of a run, from the files in its folder.

    Raises:
        RunFolderError: If one can't be read.
    """
    sides = []
    for name in ("predictions.jsonl", "scores.jsonl"):
        rows = {}
        for key, row in read_rows(run / name).items():
            if key.track == task.track:
                rows[key.id, key.repeat] = row
        sides.append(rows)
    return answer_seed(task, data, *sides)


def rows_by_key(rows: Iterable[Mapping[str, Any]]) -> Rows:
    """Return published rows by record and repeat."""
    return {(row["benchmark_id"], row.get("repeat", 0)): row for row in rows}


def _words(text: str) -> str:
    return " ".join(_WORDS.findall(unicodedata.normalize("NFKC", text).casefold()))
