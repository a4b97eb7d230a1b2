"""Measure extraction on real records: those that patterns were developed on, and unseen ones.

    python bench/rules.py SAMPLE_FOLDER FULL_FOLDER

SAMPLE_FOLDER holds the AlpsBench sample, whose dialogues were looked at when the patterns of
`rules` were written; FULL_FOLDER holds more sessions of the same release. Those that are not in the
sample's extraction track are unseen: no pattern was chosen on them. Figures are those of `alps run
task=extraction model=… judge=lexical`; every record is scored, or counted as unscored.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from words import rows

from alps.data.release import write_track
from alps.rows import Score
from alps.run.start import run
from alps.settings import RunSettings

SYSTEMS = ("rules", "floor/empty", "floor/content-free", "floor/content-free-fluent")
FIGURES = ("f1", "precision", "recall")
Row = dict[str, Any]


def read_rows(folder: Path) -> list[tuple[Row, Row]]:
    """Return the input row and the gold row of every record of extraction, joined by id."""
    place = folder / "benchmark_data" / "dev" / "task1"
    gold = {row["benchmark_id"]: row for row in rows(place / "reference_output.jsonl")}
    return [(row, gold[row["benchmark_id"]]) for row in rows(place / "model_input.jsonl")]


def print_figures(title: str, records: Sequence[tuple[Row, Row]], models: dict[str, str]) -> None:
    """Run every system on `records`, and print what it scores and what became of the records."""
    with TemporaryDirectory() as scratch:
        write_track(Path(scratch) / "data" / "dev" / "task1", iter(records))
        print(f"{title}: {len(records)} records")
        for number, (name, model) in enumerate(models.items()):
            words = {"task": "extraction", "model": model, "data": f"{scratch}/data"}
            words["out"] = f"{scratch}/{number}"
            track = run(RunSettings.model_validate(words)).summary.tracks["task1"]
            shown = "  ".join(
                f"{figure} {_with_interval(track.scores[figure])}" for figure in FIGURES
            )
            failed = " ".join(f"{count} {kind}" for kind, count in track.failed_predictions.items())
            print(
                f"  {name:26s}{shown}  scored {track.scored}, unscored {track.unscored}, "
                f"failed: {failed or 0}"
            )


def _with_interval(score: Score) -> str:
    bounds = f" [{score.low:.3f}, {score.high:.3f}]" if score.low is not None else ""
    return f"{score.value:.3f}{bounds}"


def main() -> None:
    """Print the figures of the sample, and those of the unseen sessions."""
    if len(sys.argv) != 3:
        sys.exit("usage: python bench/rules.py SAMPLE_FOLDER FULL_FOLDER")
    sample, full = (read_rows(Path(name)) for name in sys.argv[1:3])
    embedded = {name: name for name in SYSTEMS}
    print_figures("sample (looked at)", sample, embedded)
    seen = {row["session_id"] for row, _ in sample}
    unseen = [pair for pair in full if pair[0]["session_id"] not in seen]
    print_figures("unseen", unseen, embedded)


if __name__ == "__main__":
    main()
