"""A bank of memories beside the queries of retrieval: what pools of distractors are drawn from."""

from dataclasses import dataclass
from pathlib import Path

from alps.data.release import Row, read_rows
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
        DataError: If a line is no such object, or an id stands twice; names the file, the line and
            the field.
    """
    found: dict[str, BankMemory] = {}
    for line, row in read_rows(path):
        memory = _memory(row, path, line)
        if memory.memory_id in found:
            raise DataError(
                f"'{memory.memory_id}' stands twice", path=path, line=line, field="memory_id"
            )
        found[memory.memory_id] = memory
    return tuple(found.values())


def _memory(row: Row, path: Path, line: int) -> BankMemory:
    for name in _FIELDS:
        if not isinstance(row.get(name), str) or not row[name].strip():
            raise DataError("must be a non-empty text", path=path, line=line, field=name)
    return BankMemory(*(row[name] for name in _FIELDS))
