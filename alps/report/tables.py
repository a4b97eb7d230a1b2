"""Tables at the end of a run, in 80 columns."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from alps.judges.lexical import AGREEMENT
from alps.report.formatting import counted, interval, number, price_lines, served_lines, spent
from alps.report.terminal import WIDTH, terminal
from alps.run.estimate import Stage
from alps.systems.base import STDERR, TRACEBACKS
from alps.tasks import Metric

_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f]")
NARROW = 72
"""Below so many columns a table of floors has to be narrower, too."""


def show_run(
    summary: Mapping[str, Any], metrics: Mapping[str, Sequence[Metric]], *, folder: str
) -> None:
    """Print the summary of a run; `metrics` are the columns of each track."""
    console = terminal()
    parts: list[RenderableType] = []
    for track, found in summary["tracks"].items():
        parts.append(_scores(summary, track, found, metrics[track]))
        parts += corrected_part(found, metrics[track])
        parts += (
            [_actions(found)]
            if any(name.startswith("cell_") for name in found.get("counts", ()))
            else []
        )
        if has_floors(found):
            parts.append(_floors(found, metrics[track], narrow=console.width < NARROW))
        parts += [Text(line) for line in _account(found)]
    if len(summary["tracks"]) > 1:
        parts.append(_overview(summary, metrics, narrow=console.width < NARROW))
    parts += [Text(line) for line in _footer(summary, metrics, folder=folder)]
    console.print(Group(*parts), markup=False)


def show_estimate(
    stages: Sequence[Stage], *, max_cost: float | None, max_total_tokens: int | None
) -> None:
    """Print what a run would ask and cost."""
    console = terminal()
    table = _table("What this run would ask, counted without a request")
    for name in ("stage", "calls", "tokens", "cost"):
        table.add_column(name, justify="left" if name == "stage" else "right")
    for stage in stages:
        calls = f"{stage.calls:,}" if stage.exact else f"up to {stage.calls:,}"
        most = "?" if stage.most_tokens is None else f"{stage.most_tokens:,}"
        low, high = (_dollars(cost) for cost in (stage.least_cost, stage.most_cost))
        asked = (f"{stage.least_tokens:,} – {most}", f"{low} – {high}") if stage.calls else ("", "")
        table.add_row(stage.name, calls, *asked)
    console.print(table, markup=False)
    notes = _estimate_notes(stages, max_cost=max_cost, max_total_tokens=max_total_tokens)
    console.print(Text("\n".join(notes)))


def _estimate_notes(
    stages: Sequence[Stage], *, max_cost: float | None, max_total_tokens: int | None
) -> list[str]:
    notes = [f"{stage.name}: {stage.model}{_kept(stage)}" for stage in stages]
    notes.append(
        "The lower bound takes 4 bytes a token and empty answers; re-asks and retries come on top."
    )
    for stage in stages:
        if stage.unpriced:
            notes.append(f"{stage.model}: price unknown; only max_total_tokens= can stop it.")
        if stage.calls and stage.most_tokens is None:
            bound = "max_tokens=" if stage.name == "generate" else "judge_max_tokens="
            notes.append(f"{stage.model}: how much it can answer is unknown; {bound} bounds it.")
    costs, tokens = [stage.most_cost for stage in stages], [stage.most_tokens for stage in stages]
    if max_cost is not None and None not in costs:
        notes.append(f"max_cost={max_cost:g} {_covers(sum(filter(None, costs)) <= max_cost)}")
    if max_total_tokens is not None and None not in tokens:
        covered = sum(filter(None, tokens)) <= max_total_tokens
        notes.append(f"max_total_tokens={max_total_tokens:,} {_covers(covered)}")
    return notes


def _covers(covered: bool) -> str:
    if covered:
        return "covers the upper bound."
    return "does not cover the upper bound; a run ends when it is spent, passing it by at most what is in flight."


def _kept(stage: Stage) -> str:
    return f" ({counted(stage.cached, 'answer')} in the reply cache)" if stage.cached else ""


def _dollars(cost: float | None) -> str:
    return "–" if cost is None else f"${cost:.4f}"


def close_table(title: str) -> Table:
    """Return a table without columns, with cells so close that many fit."""
    shape: Any = {"box": box.SIMPLE_HEAD, "pad_edge": False, "padding": (0, 1, 0, 0)}
    width = min(WIDTH, len(title))
    return Table(title=Text(title, style="bold"), title_justify="left", min_width=width, **shape)


def _table(title: str) -> Table:
    shape: Any = {"box": box.SIMPLE_HEAD, "pad_edge": False, "min_width": min(WIDTH, len(title))}
    return Table(title=Text(title, style="bold"), title_justify="left", **shape)


def _scores(
    summary: Mapping[str, Any], track: str, found: Mapping[str, Any], metrics: Sequence[Metric]
) -> RenderableType:
    judged = "" if found.get("task") == "retrieval" else f", judged by {summary['judge']}"
    table = _table(f"{summary['model']} on {track}{conditions(found)}{judged}")
    table.add_column("")
    for name in ("score", "95 % interval", "n"):
        table.add_column(name, justify="right", no_wrap=True)
    bounded = any("worst_case" in score for score in found["scores"].values())
    if bounded:
        table.add_column("worst–best", justify="right", no_wrap=True)
    for metric in metrics:
        score = found["scores"].get(metric.name)
        if score is None:
            continue
        row = [metric.title, number(score["value"]), interval(score), str(score["n"])]
        if bounded:
            has = "worst_case" in score
            row.append(f"{number(score['worst_case'])}–{number(score['best_case'])}" if has else "")
        table.add_row(*row, style="bold" if metric.headline else "")
        for floor_row in _floors_on(metric, found, judge=summary["judge"]):
            table.add_row(*floor_row, style="dim")
    return table


def _floors_on(
    metric: Metric, found: Mapping[str, Any], *, judge: str
) -> list[tuple[str, str, str, str]]:
    """Return what each trivial baseline scores on a metric, to stand right below the run's score.

    Copies of the old list are most of an updated list, so a whole-list F1 of .8 says nothing
    without the .8 of returning the old list unchanged.
    """
    if not metric.with_floors:
        return []
    rows = []
    for name, floor in found["floors"].items():
        score = floor["scores"].get(metric.name)
        if score is not None:
            title = name if floor["judge"] == judge else f"{name}, {floor['judge']}"
            rows.append((f"  {title}", number(score["value"]), interval(score), str(score["n"])))
    return rows


def conditions(found: Mapping[str, Any]) -> str:
    """Return the conditions of a track as titles show them: ` (gold_memory)`, or nothing."""
    said = [str(found["condition"])] if "condition" in found else []
    said += [str(found["scoring"])] if "scoring" in found else []
    said += [f"window {found['window']:,}"] if "window" in found else []
    said += [f"prompt {found['prompt']}"] if "prompt" in found else []
    return f" ({', '.join(said)})" if said else ""


def _actions(found: Mapping[str, Any]) -> RenderableType:
    """Lay out gold actions against predicted ones."""
    cells = {
        name.removeprefix("cell_"): n
        for name, n in found["counts"].items()
        if name.startswith("cell_")
    }
    rows = ("retain", "add", "modify", "delete", "none")
    columns = [c for c in (*rows, "failed") if any(name.endswith(f"_{c}") for name in cells)]
    table = _table("Actions: gold ↓, predicted →")
    for name in ("", *columns):
        table.add_column(name, justify="right" if name else "left")
    for row in rows:
        if any(name.startswith(f"{row}_") for name in cells):
            table.add_row(row, *(str(cells.get(f"{row}_{column}", "")) for column in columns))
    return table


def _overview(
    summary: Mapping[str, Any], metrics: Mapping[str, Sequence[Metric]], *, narrow: bool
) -> RenderableType:
    """Put the headline of every track into one table: the whole run at a glance, never averaged."""
    table = _table(
        f"{summary['model']}, judged by {summary['judge']}: every track, none of them averaged"
    )
    for name in (
        "track",
        "figure",
        "score",
        "95 % interval",
        "n",
        *(() if narrow else ("unscored",)),
    ):
        justify: Any = "left" if name in ("track", "figure") else "right"
        table.add_column(name, justify=justify, no_wrap=name != "figure", overflow="fold")
    for track, found in summary["tracks"].items():
        shown = [metric for metric in metrics[track] if metric.name in found["scores"]]
        lead = lead_of(found, shown)
        score = found["scores"][lead.name]
        title = f"{lead.title}{conditions(found)}".strip()
        row = (number(score["value"]), interval(score), str(score["n"]), str(found["unscored"]))
        table.add_row(track, title, *row[: len(table.columns) - 2])
    return table


def lead_of(found: Mapping[str, Any], metrics: Sequence[Metric]) -> Metric:
    """Return the headline metric of a track, or what could be scored instead."""
    scored = [
        metric
        for metric in metrics
        if "unscored" not in found["scores"].get(metric.name, {"unscored": ""})
    ]
    headline = next((metric for metric in metrics if metric.headline), metrics[0])
    return headline if headline in scored or not scored else scored[0]


def has_floors(found: Mapping[str, Any]) -> bool:
    """Tell whether any trivial baseline has a score that its judge can tell."""
    return any(
        not is_untold(floor["scores"][floor.get("lead", "f1")])
        for floor in found["floors"].values()
    )


def is_untold(score: Mapping[str, Any]) -> bool:
    """Tell whether a score is one that its judge can't tell."""
    return "unscored" in score


def _floors(found: Mapping[str, Any], metrics: Sequence[Metric], *, narrow: bool) -> RenderableType:
    floors = found["floors"]
    judged = (
        ""
        if found.get("task") == "retrieval"
        else f", judged by {next(iter(floors.values()))['judge']}"
    )
    lead = next(iter(floors.values())).get("lead", "f1")
    title = next((metric.title for metric in metrics if metric.name == lead), lead)
    table = _table(f"Floors: answers that deserve nothing{judged}")
    table.add_column("", no_wrap=not narrow, overflow="fold")
    table.add_column(title.replace(" (macro)", ""), justify="right")
    table.add_column("95 % interval", justify="right", no_wrap=True)
    table.add_column(
        "this run is\nabove by" if narrow else "this run is above by", justify="right", no_wrap=True
    )
    for name, floor in floors.items():
        score = floor["scores"].get(lead, {"value": None, "low": None, "high": None})
        above = floor.get("above")
        apart = "\n" if narrow else " "
        ahead = (
            f"{number(above['value'])}{apart}{interval(above)}"
            if above
            else f"(another{apart}judge)"
        )
        ahead = "–" if score["value"] is None else ahead
        table.add_row(
            name.removeprefix("floor/") if narrow else name,
            number(score["value"]),
            interval(score),
            ahead,
        )
    return table


def _account(found: Mapping[str, Any]) -> list[str]:
    """Say what became of every record."""
    repeats = found.get("repeats", 1)
    each = (
        f" ({found['n'] // repeats} records, each answered {repeats} times)" if repeats > 1 else ""
    )
    answers = counted(found["n"], "answer" if repeats > 1 else "record")
    lines = [f"{answers}{each}: {found['scored']} scored, {found['unscored']} unscored."]
    lines += [
        f"{name} of each repeat: {', '.join(number(value) for value in values)}."
        for name, values in found.get("by_repeat", {}).items()
    ]
    for stage, what in (("failed_predictions", "predictions"), ("failed_judgements", "judgements")):
        if found[stage]:
            kinds = ", ".join(f"{count} {kind}" for kind, count in found[stage].items())
            lines.append(f"Failed {what}: {kinds}.")
    lines += [f"  {kind}: {_CONTROLS.sub('?', error)}" for kind, error in found["errors"].items()]
    lines += [
        f"{counted(cut, 'answer')} {'was' if cut == 1 else 'were'} cut off (max_tokens)."
        for cut in _cut(found)
    ]
    said = [f"{found['repaired']} mended"] if found["repaired"] else []
    counts = found.get("counts", {})
    lines += relation_lines(counts)
    if cut := counts.get("histories_cut"):
        said.append(f"{counted(cut, 'history', 'histories')} cut to fit the window")
    if enforced := counts.get("enforced"):
        said.append(f"{counted(enforced, 'verdict')} overruled by a hard rule")
    said += [f"{found['empty_vs_empty']} rightly empty"] if found["empty_vs_empty"] else []
    if rejected := found["rejected_gold"]:
        lines.append(
            f"Marked as rejected by their annotators: {counted(rejected, 'gold item')} of the scored records."
        )
    if found.get("unchecked"):
        what = (
            "whether the memory was used"
            if found.get("task") == "retrieval"
            else "against the dialogue"
        )
        lines.append(f"Not checked {what}, as the judge failed: {found['unchecked']}.")
    if "seconds_per_query" in found:
        lines.append(f"{found['seconds_per_query'] * 1000:.1f} ms a query.")
    if found.get("pools", {}).get("generated"):
        share = found["pools"]["generated"]
        lines.append(f"{share:.0%} of the distractors are generated, not written by hand.")
    return [*lines, f"Among them {', '.join(said)}."] if said else lines


def relation_lines(counts: Mapping[str, int]) -> list[str]:
    """Return the shares of matches by relation, and why predictions matched nothing."""
    lines = []
    same, narrower = counts.get("matched_same", 0), counts.get("matched_narrower", 0)
    if matched := same + narrower:
        shares = (
            f"{same / matched:.0%} same, {narrower / matched:.0%} narrower (adds supported detail)"
        )
        lines.append(f"{counted(matched, 'match', 'matches')}: {shares}.")
    reasons = {
        "bundles": "state several facts (bundle)",
        "unsupported_detail": "add detail that the dialogue does not support",
        "invalid_items": "are too long to be a memory, or too many",
        "repeated_items": "nearly repeat another, counted once",
    }
    aside = [f"{counts[name]} {reason}" for name, reason in reasons.items() if counts.get(name)]
    return [*lines, f"Predictions that match nothing: {'; '.join(aside)}."] if aside else lines


def _cut(found: Mapping[str, Any]) -> list[int]:
    """Return how many answers ended before they were complete, if any did."""
    return [found["truncated"]] if found.get("truncated") else []


def needs_rating_judge(found: Mapping[str, Any]) -> bool:
    """Tell whether a track has no score, since its judge rates no answers."""
    return found.get("task") == "utilization" and all(map(is_untold, found["scores"].values()))


def undefined(found: Mapping[str, Any], metrics: Sequence[Metric]) -> list[str]:
    """Return the titles of the metrics that no scored record of a track defines."""
    shown = ((metric, found["scores"].get(metric.name)) for metric in metrics)
    return [
        m.title.strip()
        for m, score in shown
        if score and score["value"] is None and "unscored" not in score
    ]


def reasons_of(summary: Mapping[str, Any]) -> list[str]:
    """Return why scores of a run have no interval, each reason once, with its tracks."""
    of_tracks: dict[str, list[str]] = {}
    for track, found in summary["tracks"].items():
        floors = found["floors"].values()
        rows = [
            *found["scores"].values(),
            *(row for floor in floors for row in floor["scores"].values()),
        ]
        for reason in dict.fromkeys(row["reason"] for row in rows if "reason" in row):
            of_tracks.setdefault(reason, []).append(track)
    several = len(summary["tracks"]) > 1
    return [
        f"{reason} ({', '.join(tracks)})" if several else reason
        for reason, tracks in of_tracks.items()
    ]


def _footer(
    summary: Mapping[str, Any], metrics: Mapping[str, Sequence[Metric]], *, folder: str
) -> list[str]:
    rows = [
        row for found in summary["tracks"].values() for row in (found, *found["floors"].values())
    ]
    scores = [score for row in rows for score in row["scores"].values()]
    lines = [
        f"– {reason}."
        for reason in sorted({score["unscored"] for score in scores if "unscored" in score})
    ]
    lines += [f"No interval: {reason}." for reason in reasons_of(summary)]
    bare = dict.fromkeys(
        title
        for track, found in summary["tracks"].items()
        for title in undefined(found, metrics[track])
    )
    lines += [f"– {', '.join(bare)}: no scored record has any."] if bare else []
    reasons: dict[str, list[str]] = {}
    for track, why in summary.get("left_out", {}).items():
        reasons.setdefault(why, []).append(track)
    lines += [f"Left out: {', '.join(tracks)} ({why})." for why, tracks in reasons.items()]
    lines += [f"Calibration not used: {why}." for why in summary.get("not_calibrated", ())]
    if summary["calls"]["http"] or summary["calls"]["cached"]:
        lines += [spent(summary["calls"]), *price_lines(summary["calls"]), *served_lines(summary)]
    if any(needs_rating_judge(found) for found in summary["tracks"].values()):
        lines.append("Utilization needs a judge that rates: alps score RUN judge=PROVIDER/MODEL")
    if any("scoring" in found for found in summary["tracks"].values()):
        lines.append("authors-v1: for comparison with published first-version scores only.")
    elif not summary["comparable"] and any(
        found.get("task") != "retrieval" for found in summary["tracks"].values()
    ):
        lines.append(f"Judge {summary['judge']}: not comparable with LLM-judged scores.")
        if summary["judge"] == "lexical":
            lines.append(f"  Its agreement: {AGREEMENT}.")
    failed = any(found["errors"] for found in summary["tracks"].values())
    logs = (Path(folder) / name for name in (TRACEBACKS, STDERR))
    lines += [f"More on the errors: {path}" for path in logs if failed and path.is_file()]
    return [*lines, f"Run folder: {folder}"]


_METHODS = {
    "ppi": "PPI++: the labelled answers are a random sample of these.",
    "rogan_gladen": "Rogan–Gladen: assumes that the judge errs here as often as on the labelled items.",
}


def corrected_part(found: Mapping[str, Any], metrics: Sequence[Metric]) -> list[RenderableType]:
    """Return the table of what was corrected on a track, and how; nothing where nothing was."""
    rows = {
        metric.title: score
        for metric in metrics
        if "corrected" in (score := found["scores"].get(metric.name) or {})
    }
    if not rows:
        return []
    title = "Corrected for the judge's errors, as people's labels show them"
    table = Table(
        title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False
    )
    for name in ("", "as judged", "corrected", "labels", "n"):
        table.add_column(name, justify="right" if name else "left")
    for metric_title, score in rows.items():
        row = score["corrected"]
        said = (
            "not correctable"
            if row["value"] is None
            else _figure(row) + ("!" if row["outside"] else "")
        )
        table.add_row(metric_title, _figure(score), said, str(row["labelled"]), str(row["n"]))
    lines = correction_lines({name: score["corrected"] for name, score in rows.items()})
    return [table, *(Text(line) for line in lines)]


def _figure(row: Mapping[str, Any]) -> str:
    return f"{number(row['value'])} {interval(row)}"


def correction_lines(rows: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return how scores were corrected, by their titles, and what could not be."""
    corrected = [row for row in rows.values() if row["value"] is not None]
    lines = [_METHODS[method] for method in dict.fromkeys(row["method"] for row in corrected)]
    if any(row["impossible"] for row in corrected):
        lines.append("! off the scale: a sign that the calibration does not fit this run.")
    elif any(row["outside"] for row in corrected):
        lines.append("! reaches beyond the scale, and is shown as it is.")
    lines += [
        f"Not correctable ({name.strip()}): {row['reason']}."
        for name, row in rows.items()
        if row.get("reason")
    ]
    notes = dict.fromkeys(note for row in rows.values() for note in row.get("notes", ()))
    lines += [f"Doubtful: {note}." for note in notes]
    names = dict.fromkeys(name for row in rows.values() for name in row["calibration"])
    return [*lines, f"Calibration: {', '.join(names)}."]
