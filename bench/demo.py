"""Show what `alps` measures: every task on the samples, offline, in seconds.

`make demo` runs it. The embedded systems stand next to the trivial baselines. A report of a page
has the scores of one system, and another page every record of it.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

import alps
from alps.ext.looking.report_page import write_report
from alps.ext.view.page import RecordLines, write_files
from alps.run.opened import open_run

FOLDER = Path("runs/demo")
RUN, PAGE, RECORDS = FOLDER / "rules", FOLDER / "report.html", FOLDER / "records"
TASKS = "extraction,update,retrieval,personamem"
METRICS = {
    "task1": ("extraction", "f1", "F1 of the extracted memories"),
    "task2": ("update", "f1_changed", "F1 of changes"),
    "task3_d100": ("retrieval", "recall_at_1", "recall@1 among 100 others"),
    "personamem": ("PersonaMem 32k", "accuracy", "accuracy"),
}
"""What is shown of a track: its task, a key of its scores and what the key means."""

WIDTH = 25
"""The columns of a bar that stands for a score of 1."""
CLOSING = """
The system is patterns and word counts. The floor/… are trivial baselines: they
do not read the dialogue, and a system worth having is far above them.

All scores and records worth reading, in a browser:  {page}
Every record, searched and filtered:                 {records}
Answers of a model instead:
  .venv/bin/alps run task=extraction model=openai/gpt-4.1-mini"""

Tracks = dict[str, dict[str, Any]]


def run_system() -> Tracks:
    """Run the system, write the pages about it, and return its tracks."""
    shutil.rmtree(RUN, ignore_errors=True)
    run = alps.evaluate(task=TASKS, model="rules", data="samples", size="32k", out=RUN)
    write_report([RUN], PAGE)
    write_files(RecordLines([open_run(RUN)]), RECORDS)
    tracks: Tracks = run.summary["tracks"]
    return tracks


def line(name: str, score: dict[str, Any], colour: str | None) -> str:
    """Return a system's score, its interval and a bar."""
    value, low, high = (f"{score[key]:.3f}".lstrip("0") for key in ("value", "low", "high"))
    interval, bar = f"[{low}, {high}]", "█" * round(score["value"] * WIDTH)
    return click.style(f"   {name:<27}{value:>5}   {interval:<15}  {bar}", fg=colour)


def lines(track: str, found: dict[str, Any]) -> Iterator[str]:
    """Return the lines of a track: the system, then the trivial baselines."""
    task, key, metric = METRICS[track]
    yield f"\n {click.style(task, bold=True)}: {metric} ({found['n']} records)"
    yield line("rules", found["scores"][key], "cyan")
    for name, baseline in found["floors"].items():
        yield line(name, baseline["scores"][key], None)


def main() -> None:
    """Run the system, and print its scores and the paths of the pages."""
    click.echo("Running an embedded system on the hand-written samples: no network, no key …\n")
    tracks = run_system()
    click.echo(f"{'   system':<30}{'score':>5}   95 % interval")
    for track in METRICS:
        for text in lines(track, tracks[track]):
            click.echo(text)
    click.echo(CLOSING.format(page=PAGE, records=RECORDS / "index.html"))


if __name__ == "__main__":
    main()
