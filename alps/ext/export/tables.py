"""Two tables of runs, records and scores: CSV, Parquet by pyarrow, folders by `datasets`."""

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from alps.ext.export.rows import ExportedRecord, ExportedScore, record_rows, score_rows
from alps.run.opened import RunFolder
from alps.show.spreadsheets import csv_of

RECORDS, SCORES = "records", "scores"
SCORE, SLICE = "score_", "slice_"
"""What the columns of metrics, and of the groups of records, begin with."""
_USAGE = ("prompt_tokens", "completion_tokens", "cost", "seconds")


def write_csv(runs: Sequence[RunFolder], out: Path) -> list[Path]:
    """Write `records.csv` and `scores.csv`; return their paths."""

    def write(table: Any, path: str) -> None:
        text = csv_of(table.to_pylist(), table.column_names)
        Path(path).write_text(text, encoding="utf-8", errors="replace", newline="")

    return _write(runs, out, ".csv", write)


def write_parquet(runs: Sequence[RunFolder], out: Path) -> list[Path]:
    """Write `records.parquet` and `scores.parquet`; return their paths."""
    from pyarrow import parquet

    return _write(runs, out, ".parquet", parquet.write_table)


def write_hf(runs: Sequence[RunFolder], out: Path) -> list[Path]:
    """Write the folders `records` and `scores`, which `datasets.load_from_disk` reads."""
    from datasets import Dataset, disable_progress_bars

    disable_progress_bars()

    def write(table: Any, path: str) -> None:
        Dataset(table).save_to_disk(path)

    return _write(runs, out, "", write)


def _write(
    runs: Sequence[RunFolder], out: Path, suffix: str, write: Callable[[Any, str], None]
) -> list[Path]:
    records = [row for run in runs for row in record_rows(run)]
    scores = [row for run in runs for row in score_rows(run)]
    paths = [out / f"{name}{suffix}" for name in (RECORDS, SCORES)]
    for table, path in zip((record_table(records), score_table(scores)), paths, strict=True):
        write(table, str(path))
    return paths


def record_table(rows: Sequence[ExportedRecord]) -> Any:
    """Return a table of one row an answer, in which each metric and each slice is a column."""
    import pyarrow as pa

    columns: dict[str, Any] = {}
    for name in ExportedRecord.__dataclass_fields__:
        if name not in ("system_calls", "judge_calls", "scores", "slices"):
            kind = pa.int64() if name == "repeat" else pa.string()
            columns[name] = pa.array([getattr(row, name) for row in rows], kind)
    for prefix, calls in (
        ("", [row.system_calls for row in rows]),
        ("judge_", [row.judge_calls for row in rows]),
    ):
        for name in _USAGE:
            kind = pa.int64() if name.endswith("tokens") else pa.float64()
            columns[prefix + name] = pa.array([getattr(call, name) for call in calls], kind)
    for metric in _names(row.scores for row in rows):
        values = [row.scores.get(metric) for row in rows]
        columns[SCORE + metric] = pa.array(values, pa.float64())
    for title in _names(row.slices for row in rows):
        groups = [row.slices.get(title) for row in rows]
        columns[SLICE + title] = pa.array(groups, pa.string())
    return pa.table(columns)


def score_table(rows: Sequence[ExportedScore]) -> Any:
    """Return a table of one row a figure."""
    import pyarrow as pa

    kinds: dict[Any, Any] = {
        str: pa.string(),
        str | None: pa.string(),
        bool: pa.bool_(),
        int: pa.int64(),
        float | None: pa.float64(),
    }
    fields = [(field.name, kinds[field.type]) for field in dataclasses.fields(ExportedScore)]
    rows_as_json = [dataclasses.asdict(row) for row in rows]
    return pa.Table.from_pylist(rows_as_json, pa.schema(fields))


def _names(parts: Iterable[Any]) -> list[str]:
    """Return the keys of several mappings, each once, in the order in which they are met."""
    names: dict[str, None] = {}
    for part in parts:
        names |= dict.fromkeys(part)
    return list(names)
