"""Long form of a run: all its metrics, baselines, outcomes and breakdowns, in 80 columns."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from rich.console import Group

from alps.errors import AlpsError
from alps.extension import brought
from alps.judges.base import people_say
from alps.judges.embedded import AGREEMENTS, embedded_judge
from alps.llm.understanding import RAN_WILD
from alps.rows import BreakdownRow, Interval, Score, Summary, TrackSummary
from alps.run.opened import open_run
from alps.show.formatting import (
    GOLD_ACTIONS,
    PREDICTED_ACTIONS,
    conditions,
    counted,
    interval,
    judge_mark,
    known_item_lines,
    number,
    price_lines,
    served_lines,
    spent,
    task_title,
)
from alps.show.parts import ShownPart, shown_parts
from alps.show.short_form import needs_rating_judge, scores_of
from alps.show.table import (
    BLANK,
    Cell,
    Cells,
    Column,
    Line,
    Part,
    Row,
    Table,
    change,
    dim,
    figures,
    named,
    printed,
    row_of,
    terminal,
    thousands,
    ungrouped,
    with_interval,
)
from alps.systems.base import STDERR, TRACEBACKS
from alps.tasks import Metric
from alps.tasks.metrics import headline_of

_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f]")
NARROW = 72
"""Below so many columns the table of trivial baselines has to be narrower, too."""
_SUPPORTED = "whether the dialogue supports unmatched predictions"
_NOT_MATCHING = {
    "bundles": "with several facts (bundle)",
    "unsupported_detail": "with detail that the dialogue does not support",
    "invalid_items": "above the limit on length or number",
    "repeated_items": "almost the same as another memory",
}
"""Why predictions match nothing, by the count of a track that says how many."""
_INVALID = {
    "invalid_no_answer": "no answer",
    "invalid_two_answers": "two answers",
    "invalid_not_an_option": "not among the options",
    "invalid_format": "not in the requested form",
    "invalid_refusal": "refusal",
    "invalid_cut_off": "cut off",
    "invalid_too_long": "history too long",
}
"""Kinds of invalid responses, by the count of a track that says how many."""
_NO_SCORE = Score(value=None, low=None, high=None, n=0)


def track_tables(
    summary: Summary,
    name: str,
    metrics: Sequence[Metric],
    extended: Sequence[ShownPart],
    *,
    narrow: bool,
) -> Iterator[Part]:
    """Yield the tables of a track: scores, what extensions found, baselines, outcomes."""
    track = summary.tracks[name]
    yield _scores(summary, name, track, metrics)
    for part in extended:
        yield from part.tables(summary, name, metrics)
    if any(count.startswith("cell_") for count in track.counts):
        yield _actions(track)
    if has_floors(track):
        yield from _floor_tables(track, metrics, narrow=narrow)
    yield from map(Line, _outcomes(track, metrics))


def show_whole_run(folder: Path) -> None:
    """Print a finished run with all its metrics and breakdowns, below the table of its scores.

    Raises:
        UsageError: If it is not finished.
        RunFolderError: If a file of it can't be read.
    """
    run = open_run(folder)
    summary, console = run.finished, terminal()
    metrics = {track: task.metrics for track, task in run.tasks.items()}
    extended = shown_parts(summary)
    parts = [*scores_of(summary, metrics, folder, extended), BLANK]
    for name in summary.tracks:
        narrow = console.width < NARROW
        parts += track_tables(summary, name, metrics[name], extended, narrow=narrow)
    for part in extended:
        parts += part.tables_of_run(summary)
    for track in summary.tracks.values():
        for breakdown in track.breakdowns.values():
            parts += [breakdown_table(breakdown), BLANK]
    parts += map(Line, _footer(summary, metrics, extended, folder=folder))
    parts.append(Line(f"Run folder: {folder}"))
    console.print(Group(*printed(parts, console.width)))


def _scores(summary: Summary, name: str, track: TrackSummary, metrics: Sequence[Metric]) -> Table:
    by = f", judged by {summary.judge}{judge_mark(summary)}"
    judged = by if headline_of(metrics).judged else ""
    bounded = any(score.worst_case is not None for score in track.scores.values())
    # What unscored records could do to a score: without any, it has no bounds.
    headings = ("score", "95 % interval", "n", *(("worst–best",) if bounded else ()))
    rows = []
    for metric in metrics:
        score = track.scores.get(metric.name)
        if score is None:
            continue
        cells: list[Cells] = [metric.title, *_cells(score)]
        if score.worst_case is not None:
            cells.append(f"{number(score.worst_case)}–{number(score.best_case)}")
        rows.append(row_of(*cells, style="bold" if metric.headline else ""))
        rows += _floors_on(metric, track, judge=summary.judge)
    title = f"{summary.model} on {task_title(name, track)}{conditions(track, sized=False)}{judged}"
    return Table(title, [named(), *figures(*headings)], rows, layout="roomy")


def _cells(score: Score) -> tuple[Cells, ...]:
    return (*with_interval(score), ungrouped(score.n))


def _floors_on(metric: Metric, track: TrackSummary, *, judge: str) -> Iterator[Row]:
    """Yield what each trivial baseline scores on a metric, to be shown below the run's score."""
    # Copies of the old list are most of an updated list, so a whole-list F1 of .8 says nothing
    # without the .8 of returning the old list unchanged.
    if not metric.on_boards.with_baselines:
        return
    for name, floor in track.floors.items():
        score = floor.scores.get(metric.name)
        if score is not None:
            title = name if floor.judge == judge else f"{name}, {floor.judge}"
            yield row_of(f"  {title}", *_cells(score), style="dim")


def _actions(track: TrackSummary) -> Table:
    """Lay out gold actions against predicted ones."""
    cells: dict[str, dict[str, int]] = {}
    seen = set()
    for name, count in track.counts.items():
        if name.startswith("cell_"):
            gold, _, predicted = name.removeprefix("cell_").partition("_")
            cells.setdefault(gold, {})[predicted] = count
            seen.add(predicted)
    columns = [name for name in PREDICTED_ACTIONS if name in seen]
    rows = []
    for gold in GOLD_ACTIONS:
        if gold in cells:
            rows.append(row_of(gold, *(str(cells[gold].get(column, "")) for column in columns)))
    headings = [named(), *(Column(name, right=True) for name in columns)]
    return Table("Actions: gold ↓, predicted →", headings, rows, layout="roomy")


def _floor_tables(
    track: TrackSummary, metrics: Sequence[Metric], *, narrow: bool
) -> Iterator[Table]:
    paired = [metric for metric in metrics if metric.inference.baseline_differences]
    if not any(floor.differences for floor in track.floors.values()):
        yield _floors(track, metrics, narrow=narrow)
        return
    rows = []
    for metric in paired:
        rows.append(row_of(metric.title, style="bold"))
        for name, floor in track.floors.items():
            score, apart = floor.scores.get(metric.name), floor.differences.get(metric.name)
            if score is not None and apart is not None:
                shown = name.removeprefix("floor/") if narrow else name
                rows.append(row_of(f"  {shown}", *with_interval(score), *change(apart)))
    own = [*figures("score"), *figures("95 % interval", from_width=NARROW)]
    columns = [named(wraps="fold"), *own, *figures("Δ", "95 % interval of Δ")]
    title = "Trivial baselines and Δ of the run"
    yield Table(title, columns, rows, layout="roomy")


def _floors(track: TrackSummary, metrics: Sequence[Metric], *, narrow: bool) -> Table:
    first = next(iter(track.floors.values()))
    judged = f", judged by {first.judge}" if headline_of(metrics).judged else ""
    lead = first.lead
    title = next((metric.title for metric in metrics if metric.name == lead), lead)
    apart = "\n" if narrow else " "
    rows, scores = [], []
    for name, floor in track.floors.items():
        score = floor.scores.get(lead, _NO_SCORE)
        scores.append(score)
        # A difference between scores of two judges would mean nothing.
        gain = f"(another{apart}judge)"
        if score.value is None:
            gain = "–"
        elif floor.above is not None:
            gain = f"{number(floor.above.value)}{apart}{interval(floor.above)}"
        shown = name.removeprefix("floor/") if narrow else name
        rows.append(row_of(shown, *with_interval(score), gain))
    columns = [
        named(wraps="fold" if narrow else "no"),
        Column(title, right=True),
        *figures("95 % interval", f"Δ vs.{apart}baseline"),
    ]
    return Table(f"{baselines_title(scores)}{judged}", columns, rows, layout="roomy")


# The highest score of which tables say that it is about 0.
_ABOUT_ZERO = 0.05


def baselines_title(scores: Iterable[Score]) -> str:
    """Return the title of a table of trivial baselines; it says where all score about 0."""
    values = [score.value for score in scores]
    about_zero = bool(values)
    for value in values:
        about_zero = about_zero and value is not None and abs(value) < _ABOUT_ZERO
    return "Trivial baselines" + (" (expected to score about 0)" if about_zero else "")


def judge_check_lines(summary: Summary) -> Iterator[str]:
    """Say how many items a run's judge got right by rubric, or that its scores rest on no check."""
    checks = summary.judge_check or summary.judge_check_before
    yield from known_item_lines(summary.judge, checks)


def _outcomes(track: TrackSummary, metrics: Sequence[Metric]) -> Iterator[str]:
    """Say how many records were scored, and why others were not."""
    repeats = track.repeats
    answers = counted(track.n, "answer" if repeats > 1 else "record")
    if repeats > 1:
        answers += f" ({track.n // repeats} records, each answered {repeats} times)"
    yield f"{answers}: {track.scored} scored, {track.unscored} unscored."
    # PersonaMem's 589 rows at 32k have 400 distinct questions about a persona.
    if track.distinct is not None and track.distinct < track.scored:
        told = "for the intervals, records with the same question count as one session"
        yield f"{counted(track.distinct, 'distinct question')}; {told}."
    for name, values in track.by_repeat.items():
        yield f"{name} of each repeat: {', '.join(map(number, values))}."
    yield from _failure_lines(track)
    if cut := track.truncated:
        yield f"{counted(cut, 'answer')} {_were(cut)} cut off at max_tokens."
    # A real output repeated itself for 30,000 characters: more tokens would be more of the same.
    if wild := track.notes.get(RAN_WILD, 0):
        what = "repeated text until the cut-off; a larger max_tokens does not help"
        yield f"{counted(wild, 'answer')} {what}."
    yield from relation_lines(track.counts)
    # Gold of AlpsBench has items that its own second stage rejected, often with `[ERROR: …]` in the
    # text.
    if track.rejected_gold:
        items = counted(track.rejected_gold, "gold item")
        yield f"Annotators rejected {items} in the scored records."
    if track.unchecked:
        what = next(filter(None, (metric.needs.question for metric in metrics)), _SUPPORTED)
        answers = counted(track.unchecked, "answer")
        yield f"For {answers}, alps did not check {what}, because the call to the judge failed."
    if track.seconds_per_query is not None:
        yield f"Mean time per query: {track.seconds_per_query * 1000:.1f} ms."
    if track.pools is not None and track.pools.generated:
        yield f"{track.pools.generated:.0%} of the distractors are generated, not human-written."
    yield from _special_cases(track)


def _failure_lines(track: TrackSummary) -> Iterator[str]:
    failures = {"predictions": track.failed_predictions, "judgements": track.failed_judgements}
    for stage, failed in failures.items():
        if failed:
            outcomes = ", ".join(f"{count} {kind}" for kind, count in failed.items())
            yield f"Failed {stage}: {outcomes}."
    counts = track.counts
    kinds = [f"{kind} ({counts[name]})" for name, kind in _INVALID.items() if name in counts]
    if kinds:
        yield f"Invalid responses by kind: {', '.join(kinds)}."
    # A provider's message, or a user's exception, may hold anything that steers a terminal.
    for kind, error in track.errors.items():
        yield f"  {kind}: {_CONTROLS.sub('?', error)}"


def _special_cases(track: TrackSummary) -> Iterator[str]:
    counts = track.counts
    if repaired := track.repaired:
        yield f"{counted(repaired, 'answer')} {_were(repaired)} repaired before scoring."
    # What a system was not shown it could not remember: no fault of its answers.
    if long := counts.get("too_long"):
        it = "it" if long == 1 else "them"
        limited = f"over the length limit; metrics with this limit give {it} the lowest score"
        yield f"{counted(long, 'answer')} {_were(long)} {limited}."
    if cut := counts.get("histories_cut"):
        yield f"{counted(cut, 'history', 'histories')} {_were(cut)} truncated to fit the context."
    # Published options are in one fixed order: a system that favours a letter gains by it.
    if chosen := counts.get("letters"):
        shares = []
        for letter in "abcd":
            shares.append(f"{letter} {counts.get(f'letter_{letter}', 0) / chosen:.0%}")
        yield f"Share of choices per letter, over all orders of the options: {', '.join(shares)}."
    if enforced := counts.get("enforced"):
        yield f"{counted(enforced, 'verdict')} {_were(enforced)} overruled by a hard rule."
    # One scorer of the benchmark's authors gives such a record 0, another gives it 1.
    if empty := track.empty_vs_empty:
        yield empty_line(empty)


def _were(count: int) -> str:
    return "was" if count == 1 else "were"


def relation_lines(counts: Mapping[str, int]) -> Iterator[str]:
    """Yield the shares of matches by relation, and why predictions matched nothing."""
    same, narrower = counts.get("matched_same", 0), counts.get("matched_narrower", 0)
    if matched := same + narrower:
        added = f"{narrower / matched:.0%} narrower (the prediction adds supported detail)"
        yield f"{counted(matched, 'match', 'matches')}: {same / matched:.0%} same, {added}."
    reasons = []
    for name, why in _NOT_MATCHING.items():
        if counts.get(name):
            reasons.append(f"{counts[name]} {why}")
    if reasons:
        yield f"Unmatched predictions: {'; '.join(reasons)}."


def _no_intervals(summary: Summary, metrics: Mapping[str, Sequence[Metric]]) -> Iterator[str]:
    """Say why scores have no interval; of a track whose leading score has one, which scores."""
    lacking: dict[str, dict[str, None]] = {}
    for name, track in summary.tracks.items():
        whole = task_title(name, track) if len(summary.tracks) > 1 else ""
        leading = headline_of(metrics[name]).title.strip()
        own = dict.fromkeys(score.reason for score in track.scores.values() if score.reason)
        for reason in own:
            titles = []
            for metric in metrics[name]:
                score = track.scores.get(metric.name)
                if score is not None and score.reason == reason:
                    titles.append(metric.title.strip())
            some = titles and leading not in titles
            lacking.setdefault(reason, {})[", ".join(titles) if some else whole] = None
        # Baselines often lack an interval for the same reason: once is enough.
        for baseline, floor in track.floors.items():
            for score in floor.scores.values():
                if score.reason and score.reason not in own:
                    of = f"{baseline} ({whole})" if whole else baseline
                    lacking.setdefault(score.reason, {})[of] = None
    for reason, scores in lacking.items():
        of = ", ".join(filter(None, scores))
        yield f"No interval for {of}: {reason}." if of else f"No interval: {reason}."


def _footer(
    summary: Summary,
    metrics: Mapping[str, Sequence[Metric]],
    extended: Sequence[ShownPart],
    *,
    folder: Path,
) -> Iterator[str]:
    yield from _missing_lines(summary, metrics, extended)
    for reason in summary.not_calibrated:
        yield f"Calibration not used: {reason}."
    if summary.calls.http or summary.calls.cached:
        yield spent(summary.calls)
        yield from price_lines(summary.calls)
        yield from served_lines(summary.served, summary.calibrated_otherwise)
    yield from _judge_lines(summary, metrics)
    if any(track.errors for track in summary.tracks.values()):
        for name in (TRACEBACKS, STDERR):
            if (path := folder / name).is_file():
                yield f"More on the errors: {path}"


def _missing_lines(
    summary: Summary, metrics: Mapping[str, Sequence[Metric]], extended: Sequence[ShownPart]
) -> Iterator[str]:
    """Say why scores, intervals and tracks are missing."""
    untold: set[str] = set()
    bare: dict[str, None] = {}
    for name, track in summary.tracks.items():
        for score in all_scores(track):
            if score.unscored is not None:
                untold.add(score.unscored)
        bare |= dict.fromkeys(undefined(track, metrics[name]))
    for reason in sorted(untold):
        yield f"No score (–): {reason}."
    yield from _no_intervals(summary, metrics)
    yield from method_lines(summary.tracks.values())
    if bare:
        yield f"No scored record has a value for: {', '.join(bare)}."
    for part in extended:
        yield from part.notes(summary)
    left_out: dict[str, list[str]] = {}
    for name, reason in summary.left_out.items():
        left_out.setdefault(reason, []).append(name)
    for reason, names in left_out.items():
        yield f"Left out: {', '.join(names)} ({reason})."


def _judge_lines(summary: Summary, metrics: Mapping[str, Sequence[Metric]]) -> Iterator[str]:
    """Say with what the scores of the judge are not comparable."""
    tracks = summary.tracks
    judged = False
    unrated: dict[str, None] = {}
    for name, track in tracks.items():
        judged = judged or headline_of(metrics[name]).judged
        # A judge that was checked rates: where it is not admitted, that is said of it.
        if needs_rating_judge(track, metrics[name]) and not summary.judge_check:
            unrated[(track.task or "").capitalize()] = None
    for task in unrated:
        yield f"{task} needs an LLM judge: alps score RUN judge=PROVIDER/MODEL"
    if any(track.scoring == "authors-v1" for track in tracks.values()):
        yield "authors-v1: compare these scores only with the authors' first published scores."
    # Its scores are of words in common: beside an LLM judge's they would be read as the same.
    elif not summary.comparable and judged:
        judge = summary.judge
        yield f"Scores from the judge {judge} are not comparable with scores from an LLM judge."
        if agreement := known_agreement(summary.judge):
            yield f"  Agreement of this judge: {agreement}."
        for told in people_say(summary.judge, summary.judge_fingerprint):
            yield f"  Calibration of this judge: {told}."
    if judged:
        yield from judge_check_lines(summary)


def breakdown_table(breakdown: BreakdownRow) -> Table:
    """Return the table of a breakdown, and what to know before it is read."""
    between = figures("95 % interval", from_width=NARROW)
    columns = [named(), *figures(breakdown.metric), *between]
    if breakdown.standardised:
        columns += [*figures("standardised"), *between]
    rows = []
    for group in breakdown.groups:
        cells: list[Cells] = [Cell(group.group, note=group.also), *_group_cells(group.figure)]
        if breakdown.standardised:
            cells += _group_cells(group.standardised)
        rows.append(row_of(*cells, thousands(group.figure.n)))
    columns += figures("n")
    return Table(breakdown.title, columns, rows, list(map(dim, notes_of(breakdown))))


def _group_cells(figure: Interval | None) -> tuple[Cells, Cells]:
    return ("–", "–") if figure is None else with_interval(figure)


def has_floors(track: TrackSummary) -> bool:
    """Tell whether any trivial baseline has a score that its judge can tell."""
    return any(floor.scores[floor.lead].unscored is None for floor in track.floors.values())


def empty_line(count: int) -> str:
    """Say how many records have no gold memories, none predicted."""
    has, got = ("has", "an empty prediction") if count == 1 else ("have", "empty predictions")
    return f"{counted(count, 'record')} {has} no gold memories and correctly got {got} (score 1)."


def undefined(track: TrackSummary, metrics: Sequence[Metric]) -> list[str]:
    """Return the titles of the metrics that no scored record of a track defines."""
    titles = []
    for metric in metrics:
        score = track.scores.get(metric.name)
        if score is not None and score.value is None and score.unscored is None:
            titles.append(metric.title.strip())
    return titles


def method_lines(tracks: Iterable[TrackSummary]) -> Iterator[str]:
    """Say which intervals were made in another way than usual, and how."""
    methods: dict[str, None] = {}
    for track in tracks:
        methods |= dict.fromkeys(score.method for score in all_scores(track) if score.method)
    for method in methods:
        what = "means over question types and for scores from few large sessions"
        yield f"Intervals for {what} use this method: {method}."


def all_scores(track: TrackSummary) -> Iterator[Score]:
    """Yield the scores of a track and of its trivial baselines."""
    yield from track.scores.values()
    for floor in track.floors.values():
        yield from floor.scores.values()


def notes_of(breakdown: BreakdownRow) -> Iterator[str]:
    """Yield what to know of a breakdown: its warning, and which groups lack strata."""
    if breakdown.warning:
        yield f"Warning: {breakdown.warning}."
    if any(group.figure.reason for group in breakdown.groups):
        yield "– means that there are too few sessions or records for an interval."
    if not (stratum := breakdown.standardised):
        return
    yield f"The standardised score of each row weights {stratum}s by their shares of the whole run."
    lacking = []
    for group in breakdown.groups:
        if group.lacking:
            lacking.append(f"{group.group} ({counted(len(group.lacking), stratum)})")
    if lacking:
        yield f"These rows lack some {stratum}s, so their weights differ: {', '.join(lacking)}."


def known_agreement(name: str) -> str | None:
    """Return how far an embedded judge can be trusted, as it was measured; None if nobody knows."""
    if not name.startswith(tuple(brought("judges"))):
        return AGREEMENTS.get(name)
    try:
        return getattr(embedded_judge(name), "agreement", None)
    except AlpsError:  # a run is shown long after, and elsewhere
        return None
