"""Seed of an audit's draw, derived from the audited answers so that it is not chosen.

Who writes the answers can still search for one, a word more here or there: what is published as
confirmed is of a draw that a maintainer gave (`alps.ext.audits.board`).
"""

import hashlib
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from alps.run.opened import read_rows
from alps.tasks import Task
from alps.tasks.base import texts_of
from alps.text import fold_loosely, letters, prototypes

_DIGITS = 9
"""Hexadecimal digits of a seed: a JSON number that every reader keeps whole."""

Rows = Mapping[tuple[str, int], Mapping[str, Any]]


def answer_seed(task: Task, data: str, predictions: Rows, scores: Rows) -> int:
    """Return the seed that the answers and scores of a track give.

    Only what a score can depend on counts: the letters and digits of answers as they look, in any
    order of the answer's parts, and what the judge's verdicts were worth. Spaces, signs, accents,
    case, letters that look alike, what nobody sees, ids and explanations don't, so that another
    draw costs another answer or verdict.

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
        lines.append(json.dumps([*key, sorted(map(_looks, texts)), figures]))
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


def _looks(text: str) -> str:
    return letters(fold_loosely(text))[0].translate(_alike())


@cache
def _alike() -> dict[int, str]:
    """Return one letter for each of those that are one by case or by look.

    A Greek Ν is an N to the eye, and by case a ν, which is a v: all of them are one.
    """
    first: dict[str, str] = {}

    def found(letter: str) -> str:
        while letter in first:
            letter = first[letter]
        return letter

    for character in prototypes():
        by_case, by_look = map(found, letters(character))
        if by_case != by_look and len(by_case) == len(by_look) == 1:
            first[max(by_case, by_look)] = min(by_case, by_look)
    return {ord(letter): found(letter) for letter in first}
