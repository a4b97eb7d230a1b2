"""A bank of memories beside the queries of retrieval: what pools of distractors are drawn from."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from alps.errors import DataError

_FIELDS = ("memory_id", "session_id", "value", "label")


@dataclass(frozen=True)
class BankMemory:
    """One memory of somebody; `generated` ones were not written by hand."""

    memory_id: str
    session_id: str | None
    value: str
    label: str
    generated: bool = False


def read_bank(path: Path) -> tuple[BankMemory, ...]:
    """Read a bank: one object a line with `memory_id`, `session_id`, `value` and `label`.

    Raises:
        DataError: If a line is no such object, or an id stands twice; names the file, the line and the field.
    """
    found: dict[str, BankMemory] = {}
    with path.open(encoding="utf-8") as file:
        for line, text in enumerate(file, start=1):
            if text.strip():
                memory = _memory(_parse(text, path, line), path, line)
                if memory.memory_id in found:
                    raise DataError(f"'{memory.memory_id}' stands twice", path=path, line=line, field="memory_id")
                found[memory.memory_id] = memory
    return tuple(found.values())


def _parse(text: str, path: Path, line: int) -> dict[str, Any]:
    try:
        row = json.loads(text)
    except ValueError as error:
        raise DataError(f"not JSON ({error})", path=path, line=line) from error
    if not isinstance(row, dict):
        raise DataError(f"expected a JSON object, got {type(row).__name__}", path=path, line=line)
    return row


def _memory(row: dict[str, Any], path: Path, line: int) -> BankMemory:
    for name in _FIELDS:
        if not isinstance(row.get(name), str) or not row[name].strip():
            raise DataError("must be a non-empty text", path=path, line=line, field=name)
    return BankMemory(*(row[name] for name in _FIELDS))
