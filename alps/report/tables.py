"""The table at the end of a run; fits 80 columns."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from alps.judges.lexical import AGREEMENT
from alps.tasks import Metric

WIDTH = 80


def show_run(summary: Mapping[str, Any], metrics: Mapping[str, Sequence[Metric]], *, folder: str) -> None:
    """Print the summary of a run; `metrics` are the columns of each track."""
    console = Console(width=WIDTH, highlight=False)
    parts: list[RenderableType] = []
    for track, found in summary["tracks"].items():
        parts += [_scores(summary, track, found, metrics[track]), _floors(found, summary["judge"])]
        parts += [Text(line) for line in _account(found)]
    parts += [Text(line) for line in _footer(summary, folder)]
    console.print(Group(*parts))


def interval(score: Mapping[str, Any]) -> str:
    """Return `[.123, .456]`, or what stands for no interval."""
    if score["low"] is None or score["high"] is None:
        return "–"
    return f"[{number(score['low'])}, {number(score['high'])}]"


def number(value: float | None) -> str:
    """Return three decimals without the leading zero, or `–`."""
    if value is None:
        return "–"
    return f"{value:.3f}".replace("0.", ".", 1) if abs(value) < 1 else f"{value:.3f}"


def _table(title: str) -> Table:
    return Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)


def _scores(
    summary: Mapping[str, Any], track: str, found: Mapping[str, Any], metrics: Sequence[Metric]
) -> RenderableType:
    table = _table(f"{summary['model']} on {track}, judged by {summary['judge']}")
    table.add_column("")
    for name in ("score", "95 % interval", "n"):
        table.add_column(name, justify="right")
    bounded = found["unscored"] > 0
    if bounded:
        table.add_column("worst–best", justify="right")
    for metric in metrics:
        score = found["scores"][metric.name]
        row = [metric.title, number(score["value"]), interval(score), str(score["n"])]
        if bounded:
            has = "worst_case" in score
            row.append(f"{number(score['worst_case'])}–{number(score['best_case'])}" if has else "")
        table.add_row(*row, style="bold" if metric.headline else "")
    return table


def _floors(found: Mapping[str, Any], judge: str) -> RenderableType:
    judges = ", ".join(sorted({floor["judge"] for floor in found["floors"].values()}))
    table = _table(f"Floors: answers that deserve nothing, judged by {judges}")
    table.add_column("", no_wrap=True)
    for name in ("F1", "95 % interval", "this run is above by"):
        table.add_column(name, justify="right")
    for name, floor in found["floors"].items():
        score = floor["scores"]["f1"]
        above = floor.get("above")
        lead = f"{number(above['value'])} {interval(above)}" if above else f"not judged by {judge}"
        table.add_row(name, number(score["value"]), interval(score), lead)
    return table


def _account(found: Mapping[str, Any]) -> list[str]:
    """Say what became of every record."""
    lines = [f"{found['n']} records: {found['scored']} scored, {found['unscored']} unscored."]
    for stage, what in (("failed_predictions", "predictions"), ("failed_judgements", "judgements")):
        if found[stage]:
            kinds = ", ".join(f"{count} {kind}" for kind, count in found[stage].items())
            lines.append(f"Failed {what}: {kinds}.")
    lines += [f"  {kind}: {error[:66]}" for kind, error in found["errors"].items()]
    said = [f"{found['repaired']} mended ({found['truncated']} of them cut off)"] if found["repaired"] else []
    said += [f"{found['empty_vs_empty']} rightly empty"] if found["empty_vs_empty"] else []
    said += [f"{found['rejected_gold']} gold items marked as rejected"] if found["rejected_gold"] else []
    return [*lines, f"Among them {', '.join(said)}."] if said else lines


def _footer(summary: Mapping[str, Any], folder: str) -> list[str]:
    lines = []
    for found in summary["tracks"].values():
        reasons = {score["unscored"] for score in found["scores"].values() if "unscored" in score}
        lines += [f"– {reason}." for reason in sorted(reasons)]
    calls = summary["calls"]
    if calls["http"] or calls["cached"]:
        cost = "–" if calls["cost"] is None else f"${calls['cost']:.4f}"
        tokens = f"{calls['prompt_tokens']:,} + {calls['completion_tokens']:,} tokens"
        lines.append(f"{calls['http']:,} calls ({calls['cached']:,} more from the cache), {tokens}, cost {cost}.")
    if not summary["comparable"]:
        lines.append(f"Judge {summary['judge']}: not comparable with LLM-judged scores.")
        if summary["judge"] == "lexical":
            lines.append(f"  Its agreement: {AGREEMENT}.")
    return [*lines, f"Run folder: {folder}"]
