"""Rows of Parquet files, as data sets of the hub hold them, read one at a time by `datasets`."""

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from alps.errors import DataError


@dataclass(frozen=True)
class HubRow:
    """One row of a file, and what is made of its fields and of a name for it."""

    path: Path
    place: int
    name: str
    make: Callable[[str, Mapping[str, Any]], Any]

    def read(self) -> Any:
        """Read the row.

        Raises:
            DataError: If the file is no Parquet.
        """
        return self.make(self.name, _opened(self.path)[self.place])


@lru_cache(maxsize=2)
def _opened(path: Path) -> Any:
    from datasets import Dataset, disable_progress_bars
    from datasets.utils import logging

    disable_progress_bars()
    # What goes wrong is said in one line of ours.
    logging.set_verbosity(logging.CRITICAL)
    try:
        return Dataset.from_parquet(str(path))
    except Exception as error:  # whatever its reader raises
        raise DataError(f"not a Parquet file ({type(error).__name__})", path=path) from error


def rows_of(
    paths: Sequence[Path], make: Callable[[str, Mapping[str, Any]], Any]
) -> Iterator[HubRow]:
    """Yield the rows of the files of a split, named after it and numbered from 1."""
    number = 0
    for path in paths:
        for place in range(len(_opened(path))):
            number += 1
            yield HubRow(path, place, f"{path.stem.partition('-')[0]}-{number}", make)


def literal(text: str) -> Any:
    """Return the value of a Python literal.

    Raises:
        ValueError: If it is none.
    """
    try:
        return ast.literal_eval(text)
    except (SyntaxError, MemoryError, RecursionError) as error:
        raise ValueError("not a Python literal") from error
