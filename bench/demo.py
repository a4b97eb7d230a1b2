"""Show what `alps` measures: every task on the samples, offline, in seconds.

`make demo` runs it. The embedded systems stand next to the trivial baselines, and a report page
shows every record of the runs.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

import alps
from alps.show.report_page import write_report

FOLDER = Path("runs/demo")
PAGE = FOLDER / "report.html"
RUNS = {"rules": ("extraction,update,utilization", "rules"), "bm25": ("retrieval", "bm25")}
"""Task and model of each run, by the name of the system."""
METRICS = {
    "task1": ("extraction", "f1", "F1 of the extracted memories"),
    "task2": ("update", "f1_changed", "F1 of the changed memories"),
    "task3_d100": ("retrieval", "recall_at_1", "recall@1 among 100 others"),
}
"""What is shown of a track: its task, a key of its scores and what the key means."""

WIDTH = 25
"""The columns of a bar that stands for a score of 1."""
CLOSING = """
 utilization: {answers} answers in {abilities} abilities. Only an LLM judge can rate them:
   .venv/bin/alps score runs/demo/rules judge=openai/gpt-4.1

The systems are patterns and word counts. The floor/… are trivial baselines: they do
not read the dialogue, and a system worth having is far above them.

Every record, in a browser: runs/demo/report.html
One record, here:           .venv/bin/alps show runs/demo/rules task1/1"""

Tracks = dict[str, dict[str, Any]]


def run_systems() -> dict[str, Tracks]:
    """Run every system, write the page about the first, and return the tracks of each."""
    summaries = {}
    for name, (task, model) in RUNS.items():
        shutil.rmtree(FOLDER / name, ignore_errors=True)
        run = alps.evaluate(task=task, model=model, data="samples", out=FOLDER / name)
        summaries[name] = run.summary["tracks"]
    write_report([FOLDER / "rules"], PAGE)
    return summaries


def line(name: str, score: dict[str, Any], colour: str | None) -> str:
    """Return a system's score, its interval and a bar."""
    value, low, high = (f"{score[key]:.3f}".lstrip("0") for key in ("value", "low", "high"))
    interval, bar = f"[{low}, {high}]", "█" * round(score["value"] * WIDTH)
    return click.style(f"   {name:<27}{value:>5}   {interval:<15}  {bar}", fg=colour)


def lines(track: str, systems: dict[str, Tracks]) -> Iterator[str]:
    """Return the lines of a track: the systems, then the trivial baselines."""
    task, key, metric = METRICS[track]
    runs = {name: tracks[track] for name, tracks in systems.items() if track in tracks}
    first = next(iter(runs.values()))
    yield f"\n {click.style(task, bold=True)}: {metric} ({first['n']} records)"
    for name, run in runs.items():
        yield line(name, run["scores"][key], "cyan")
    for name, baseline in first["floors"].items():
        yield line(name, baseline["scores"][key], None)


def main() -> None:
    """Run the systems, and print their scores and the path of the page."""
    click.echo("Running two embedded systems on the hand-written samples: no network, no key …\n")
    systems = run_systems()
    click.echo(f"{'   system':<30}{'score':>5}   95 % interval")
    for track in METRICS:
        for text in lines(track, systems):
            click.echo(text)
    click.echo(CLOSING.format(**answers(systems)))


def answers(systems: dict[str, Tracks]) -> dict[str, int]:
    """Count the answers that the closing lines speak of."""
    tracks = [track for name, track in systems["rules"].items() if name.startswith("task4")]
    return {"answers": sum(track["n"] for track in tracks), "abilities": len(tracks)}


if __name__ == "__main__":
    main()
