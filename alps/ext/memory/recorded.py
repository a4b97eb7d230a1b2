"""Memory whose extractions a model once made: they are looked up by the text of a session."""

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from alps.errors import DataError, UsageError
from alps.ext.memory.protocol import Session, SpokenTurn
from alps.ext.memory.turns import whole_turns
from alps.jsonl import Row, dump, scan
from alps.schema import read_memories
from alps.slips import refuse_form_of

_NAMES = ("records.jsonl", "predictions.jsonl")


class Recorded:
    """Recorded memories of each dialogue.

    A session that is none of them is kept turn by turn, and one of which the model made nothing
    that can be read is a failure to ingest it.

    Args:
        records: A file of extractions by `benchmark_id`: the authors' records of a model's output,
            rows of the release's form, or `predictions.jsonl` of a run; or a folder with such one.
        dialogues: The input rows of extraction in the release layout, which have the dialogues.

    Raises:
        UsageError: If a file is not there, or they have no record in common.
        DataError: If a row can't be read.
    """

    def __init__(self, records: Path, dialogues: Path) -> None:
        file = _file(records)
        extracted = _by_id(file)
        if not dialogues.is_file():
            raise UsageError(f"memory.dialogues={dialogues}: no such file")
        self._texts: dict[str, Sequence[str] | None] = {}
        for row in _rows(dialogues):
            name, turns = row.get("benchmark_id"), _turns(row)
            if name in extracted and turns is not None:
                self._texts[_hashed(turns)] = extracted[name]
        if not self._texts:
            raise UsageError(f"memory.dialogues={dialogues}: none of the records in {file}")
        digest = sha256(dump({"of": sorted(self._texts)}) + file.read_bytes()).hexdigest()
        self.settings: Mapping[str, Any] = {"extractions": digest, "n": len(self._texts)}

    def __call__(self, session: Session) -> Iterable[SpokenTurn]:
        """Return what was extracted from a session.

        Raises:
            ValueError: If the model's reply could not be parsed.
        """
        key = _hashed([(turn.role, turn.text) for turn in session.turns])
        if key not in self._texts:
            return list(whole_turns(session))
        texts = self._texts[key]
        if texts is None:
            raise ValueError("the model's reply could not be parsed")
        return [SpokenTurn("user", text, session.started_at) for text in texts]


def _file(path: Path) -> Path:
    known = [path / name for name in _NAMES] if path.is_dir() else [path]
    found = next((file for file in known if file.is_file()), None)
    if found is None:
        raise UsageError(f"memory=recorded:{path}: no such file")
    return found


def _rows(path: Path) -> Iterable[Row]:
    refuse_form_of(path)
    for line, (_, _, row) in enumerate(scan(path), start=1):
        if row is None:
            raise DataError("not a JSON object", path=path, line=line)
        yield row


def _by_id(file: Path) -> dict[str, Sequence[str] | None]:
    """Return the values that were extracted by the ids of records; None where nothing was read."""
    extracted: dict[str, Sequence[str] | None] = {}
    for row in _rows(file):
        output = row.get("model_output") or row.get("prediction") or row
        try:
            # As `predictions:` has it: of an output that is not there nothing was extracted.
            heard = output.get("raw_output", True) or output.get("memory_items")
            read = read_memories(output["memory_items"]) if heard else None
        except (LookupError, AttributeError, ValueError):
            read = None
        values = None if read is None else [memory.value for memory in read.memories]
        extracted[str(row.get("benchmark_id"))] = values
    return extracted


def _turns(row: Row) -> list[tuple[str, str]] | None:
    try:
        return [(turn["role"], turn["text"]) for turn in row["input"]["dialogue"]]
    except (LookupError, TypeError):
        return None


def _hashed(turns: Sequence[tuple[str, str]]) -> str:
    return sha256(dump({"turns": [list(turn) for turn in turns]})).hexdigest()
