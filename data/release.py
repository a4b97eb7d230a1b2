"""The public release layout: `<root>/<split>/<track>/{model_input,reference_output}.jsonl`.

The two files are joined on `benchmark_id`. Input rows stream; of the gold rows only their places
are kept in memory.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from alps.data.hub import HubSplit, is_hub, open_hub
from alps.errors import DataError, UsageError, closest, first_fault
from alps.jsonl import dump, parse_json
from alps.schema import GoldNeeded
from alps.slips import HEAD, refuse_form

INPUT, GOLD = "model_input.jsonl", "reference_output.jsonl"
Row = dict[str, Any]
_LINE_BITS = 32
UNREADABLE = (ValueError, KeyError, TypeError, AttributeError, RecursionError)


class JoinError(DataError):
    """A row that can't be joined: no JSON object, without an id, with another's, or gold alone.

    Args:
        kind: What is wrong.
        message: The same for people.
        path: The file.
        line: The line, counted from 1.
        name: The id of the row, where it has one.
    """

    def __init__(
        self,
        kind: Literal["unreadable", "nameless", "twice", "orphan"],
        message: str,
        *,
        path: Path,
        line: int,
        name: str = "",
    ) -> None:
        field = None if kind == "unreadable" else "benchmark_id"
        super().__init__(message, path=path, line=line, field=field)
        self.kind, self.name, self.place = kind, name, f"{path.name} line {line}"


def _refuse(fault: JoinError) -> None:
    raise fault


@dataclass(frozen=True)
class RowPair:
    """An input row, its gold row where that is not withheld, and their line numbers."""

    input: Row
    gold: Row | None
    line: int
    gold_line: int | None


@dataclass(frozen=True)
class Split:
    """One split of a data set on disk."""

    name: str
    folder: Path

    def has(self, track: str) -> bool:
        """Tell whether the split has `track`."""
        return (self.folder / track / INPUT).is_file()

    def track(self, track: str) -> Path:
        """Return the folder of `track`.

        Raises:
            UsageError: If the split does not have it.
        """
        if not self.has(track):
            what = f"{self.folder}: no {track}/{INPUT} here"
            raise UsageError(f"{what}; data= takes a folder in the release layout")
        return self.folder / track


def open_split(data: str, split: str | None) -> Split | HubSplit:
    """Find a split.

    `data` is `samples`, `hub[:OWNER/NAME][@REVISION]`, a data set's folder, or that of one split.

    Raises:
        UsageError: If there is no such folder or split, or the split must be named.
    """
    if is_hub(data):
        return open_hub(data, split)
    root = _root(data)
    splits = sorted(path.name for path in root.iterdir() if _is_split(path))
    if not splits and _is_split(root):
        if split not in (None, root.name):
            what = f"{root} is itself the split '{root.name}'; leave out split="
            raise UsageError(f"split={split}: {what}")
        return Split(root.name, root)
    if not splits:
        what = f"data={data}: no SPLIT/TRACK folders in it, such as dev/task1 with a {INPUT}"
        raise UsageError(what)
    if split is None:
        if len(splits) != 1:
            raise UsageError(f"data={data}: name a split with split= (found: {', '.join(splits)})")
        split = splits[0]
    if split not in splits:
        what = f"split={split}: not in {data}{closest(split, splits)} (found: {', '.join(splits)})"
        raise UsageError(what)
    return Split(split, root / split)


def _root(data: str) -> Path:
    """Return the folder that holds the splits of a data set."""
    if data == "samples":
        return Path(str(files("alps.data") / "samples"))
    root = Path(data).expanduser()
    if not root.is_dir():
        guess = closest(data, ("samples", "hub"))
        what = f"data={data}: no such folder{guess} (data= takes samples, hub, or a folder)"
        raise UsageError(what)
    inner = root / "benchmark_data"
    return inner if inner.is_dir() else root


def _is_split(folder: Path) -> bool:
    if not folder.is_dir() or folder.name.startswith("task"):
        return False
    return any(folder.glob(f"*/{INPUT}")) or any(folder.glob(f"task*/*/{INPUT}"))


def read_track(
    folder: Path, *, with_gold: bool = True, on_fault: Callable[[JoinError], None] = _refuse
) -> Iterator[RowPair]:
    """Yield the joined rows of one track in the order of the input file.

    Args:
        folder: That of the track.
        with_gold: Whether the gold file is opened.
        on_fault: Takes what is wrong with a row that can't be joined, which is then left out.

    Raises:
        DataError: If a row can't be joined, unless `on_fault` raises nothing.
    """
    inputs, golds = folder / INPUT, folder / GOLD
    places = _gold_places(golds, on_fault) if with_gold else {}
    without_gold: set[str] = set()
    gold_file = golds.open("rb") if places else None
    try:
        for line, _, name, row in _named_rows(inputs, on_fault):
            place = places.get(name)
            if name in without_gold or (place is not None and place < 0):
                on_fault(_twice(name, inputs, line))
            elif gold_file is None or place is None:
                without_gold.add(name)
                yield RowPair(row, None, line, None)
            else:
                places[name] = ~place  # met: below 0
                gold_file.seek(place >> _LINE_BITS)
                yield RowPair(row, parse_json(gold_file.readline()), line, _line_of(place))
    finally:
        if gold_file is not None:
            gold_file.close()
    for name, place in places.items():
        if place >= 0:
            message = f"'{name}' has no row in {INPUT}"
            on_fault(JoinError("orphan", message, path=golds, line=_line_of(place), name=name))


def read_samples(folder: Path, read: Any) -> Iterator[Any]:
    """Yield what `read(input_row, gold_row)` makes of every row: a sample, or a list of samples.

    Raises:
        DataError: If a row can't be read; names the file, the line and the field.
    """
    for pair in read_track(folder):
        try:
            made = read(pair.input, pair.gold)
        except UNREADABLE as error:
            raise _row_error(error, folder, pair, read) from error
        yield from made if isinstance(made, list) else (made,)


def _row_error(error: Exception, folder: Path, pair: RowPair, read: Any) -> DataError:
    """Say what is wrong with a row; one that reads without its gold has bad gold."""
    path, line = folder / INPUT, pair.line
    if pair.gold is not None:
        try:
            with suppress(GoldNeeded):
                read(pair.input, None)
            path, line = folder / GOLD, pair.gold_line or 0
        except UNREADABLE as error_of_input:
            error = error_of_input
    said, field = fault_of(error)
    return DataError(said, path=path, line=line, field=field)


def fault_of(error: Exception) -> tuple[str, str | None]:
    """Return what one of the `UNREADABLE` errors says, and the field where it names one."""
    if isinstance(error, ValidationError):
        said, field = first_fault(error)
        return said, field or None
    if isinstance(error, KeyError):
        return "missing field", str(error.args[0])
    return str(error), None


def track_hash(folder: Path) -> str:
    """Return the sha256 over the files of a track."""
    digest = hashlib.sha256()
    for name in (INPUT, GOLD):
        if (folder / name).is_file():
            digest.update(f"{name}\n".encode())
            with (folder / name).open("rb") as file:
                while chunk := file.read(1 << 20):
                    digest.update(chunk)
    return digest.hexdigest()


def write_track(
    folder: Path, pairs: Iterable[tuple[Mapping[str, Any], Mapping[str, Any] | None]]
) -> int:
    """Write the rows of a track in the release layout, no file without gold; return how many."""
    folder.mkdir(parents=True, exist_ok=True)
    count = 0
    with (folder / INPUT).open("wb") as inputs, (folder / GOLD).open("wb") as golds:
        for row, gold in pairs:
            inputs.write(dump(dict(row)))
            if gold is not None:
                golds.write(dump(dict(gold)))
            count += 1
        withheld = golds.tell() == 0
    if withheld:
        (folder / GOLD).unlink()
    return count


def read_rows(
    path: Path, on_fault: Callable[[JoinError], None] = _refuse
) -> Iterator[tuple[int, Row]]:
    """Yield the object on each line of a file, with the number of the line.

    Blank lines are skipped, and those of which `on_fault` is told what is wrong with them.

    Raises:
        DataError: If a line is not a JSON object, unless `on_fault` raises nothing.
    """
    for line, _, row in _scan(path, on_fault):
        yield line, row


def _scan(path: Path, on_fault: Callable[[JoinError], None]) -> Iterator[tuple[int, int, Row]]:
    """Yield the number, the offset and the object of every line that holds one."""
    offset = 0
    with path.open("rb") as file:
        refuse_form(file.read(HEAD), path)
        file.seek(0)
        for line, raw in enumerate(file, start=1):
            row = _parse(raw, path, line, on_fault) if raw.strip() else None
            if row is not None:
                yield line, offset, row
            offset += len(raw)


def _parse(raw: bytes, path: Path, line: int, on_fault: Callable[[JoinError], None]) -> Row | None:
    try:
        row = parse_json(raw)
    except ValueError as error:
        on_fault(JoinError("unreadable", f"not JSON ({error})", path=path, line=line))
        return None
    if not isinstance(row, dict):
        message = f"expected a JSON object, got {type(row).__name__}"
        on_fault(JoinError("unreadable", message, path=path, line=line))
        return None
    return row


def _named_rows(
    path: Path, on_fault: Callable[[JoinError], None]
) -> Iterator[tuple[int, int, str, Row]]:
    """Yield the number, the offset, the id and the object of every line that has an id."""
    for line, offset, row in _scan(path, on_fault):
        name = row.get("benchmark_id")
        if isinstance(name, str) and name:
            yield line, offset, name, row
        else:
            on_fault(JoinError("nameless", "must be a non-empty string", path=path, line=line))


def _twice(name: str, path: Path, line: int) -> JoinError:
    return JoinError("twice", f"'{name}' appears twice", path=path, line=line, name=name)


def _gold_places(path: Path, on_fault: Callable[[JoinError], None]) -> dict[str, int]:
    """Return by id the place of every gold row: its offset above `_LINE_BITS` bits, its line."""
    places: dict[str, int] = {}
    if path.is_file():
        for line, offset, name, _ in _named_rows(path, on_fault):
            if name in places:
                on_fault(_twice(name, path, line))
            else:
                places[name] = offset << _LINE_BITS | line
    return places


def _line_of(place: int) -> int:
    return place & ((1 << _LINE_BITS) - 1)
