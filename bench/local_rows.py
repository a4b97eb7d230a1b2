"""Run `model=local` on the tasks that need no judge, and write its reference rows.

    python bench/local_rows.py [out=FOLDER]

The runs are kept in `out` (local_rows), so that the same command goes on. Replaces
`alps/ext/local/local.json`, which the leaderboard shows below the boards, with today's date.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from reference_rows import baselines_of, figure_of, lead_of, write
from words import read_words

from alps.ext.local import server
from alps.leaderboard.references import (
    ReferenceColumn,
    ReferenceData,
    ReferenceRow,
    References,
    ReferenceTable,
    Source,
)
from alps.run.opened import open_run
from alps.run.start import run
from alps.settings import RunSettings, parse_words

ROWS = Path(server.__file__).with_name("local.json")
NOTE = "This very small model is for trying out alps; do not rank it."


@dataclass(frozen=True)
class LocalRun:
    """A run: its table's id, title, metrics and conditions, and the settings."""

    name: str
    title: str
    settings: str
    metrics: tuple[str, ...]
    conditions: Mapping[str, str]


RUNS = (
    LocalRun(
        "local-retrieval-100",
        "The local model",
        "task=retrieval@100 model=local max_tokens=120 limit=24",
        ("recall_at_1",),
        {},
    ),
    LocalRun(
        "local-personamem",
        "The local model with BM25 memory",
        "task=personamem model=local memory=bm25 limit=105",
        ("accuracy",),
        {"size": "32k"},
    ),
)


def table_of(one: LocalRun, out: Path) -> ReferenceTable:
    """Run one system; return its table.

    Raises:
        AlpsError: If the model is not installed, or the run fails.
    """
    parsed = parse_words([*one.settings.split(), f"out={out / one.name}"], RunSettings)
    opened = open_run(run(parsed).folder)
    (track,) = opened.tracks
    summary = opened.summary_of(track)
    columns = [ReferenceColumn(track=track, metric=name) for name in one.metrics]
    table = ReferenceTable(
        id=one.name,
        title=one.title,
        kind="run",
        group="models",
        benchmark="samples of alps",
        ran_by=f"alps {version('alps-eval')}",
        data=ReferenceData(name="samples of alps", sha256=opened.tracks[track].sha256, n=summary.n),
        source=Source(
            title="alps", venue=f"{datetime.now(UTC):%Y-%m-%d}", place=f"alps run {one.settings}"
        ),
        note=NOTE,
        conditions=dict(one.conditions),
        columns=columns,
        rows=[],
    )
    own = ReferenceRow(
        name="local (SmolLM2-135M-Instruct)",
        figures=[figure_of(summary.scores.get(name)) for name in one.metrics],
        above=lead_of(summary, one.metrics[0]),
    )
    return table.model_copy(update={"rows": [own, *baselines_of(table, summary)]})


def main(words: Sequence[str]) -> None:
    """Run every system, and write the tables."""
    said = read_words(words, {"out": "local_rows"})
    tables = [table_of(one, Path(said["out"])) for one in RUNS]
    write(References(tables=tables), ROWS)


if __name__ == "__main__":
    main(sys.argv[1:])
