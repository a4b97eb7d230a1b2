"""One self-contained HTML page about one run or several: no script is needed to read it, nothing is fetched by it."""

import base64
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

from alps.errors import RunFolderError, UsageError
from alps.jsonl import Row
from alps.judges.lexical import AGREEMENT
from alps.report import charts
from alps.report.evidence import Piece, excerpt
from alps.report.instructive import choose, rule
from alps.report.record import RecordView, build_view, state_of
from alps.report.runs import MEANINGS, Key, Run, Samples, folded_away, open_run, read_wanted, visible
from alps.report.tables import interval, number
from alps.schema import FAILURES, UNHEARD
from alps.tasks import Metric

TEMPLATES = Path(__file__).with_name("templates")
FOLDED_TURN, FOLDED_VALUE, FOLDED_RAW = 280, 400, 1_200
MOST_PAIRINGS = 40
UNASKED_TURNS = 2

SCRIPT = """\
const all = () => document.querySelectorAll("details");
addEventListener("beforeprint", () => all().forEach((one) => { one.open = true; }));
document.querySelectorAll("button.toggle").forEach((button) => {
  button.hidden = false;
  button.onclick = () => {
    const open = button.ariaPressed !== "true";
    button.ariaPressed = open;
    button.closest("section").querySelectorAll("details").forEach((one) => { one.open = open; });
  };
});
"""
"""An enhancement: unfolds every record for printing, and on demand."""


@dataclass(frozen=True)
class MetricRow:
    """A row of a score table."""

    metric: Metric
    score: Mapping[str, Any]
    chart: Markup


@dataclass(frozen=True)
class FloorRow:
    """A floor beside a run; `above` is how far the run is above it, None where they had different judges."""

    name: str
    judge: str
    score: Mapping[str, Any]
    above: Mapping[str, Any] | None
    chart: Markup
    sign: Markup


@dataclass(frozen=True)
class AccountRow:
    """What became of some of the records."""

    name: str
    style: str
    count: int
    meaning: str


@dataclass(frozen=True)
class TurnView:
    """A turn of an excerpt; `skipped` turns before it are not shown."""

    place: int
    role: str
    pieces: list[Piece]
    skipped: int


@dataclass(frozen=True)
class RecordCard:
    """A record as it stands on the page."""

    view: RecordView
    turns: list[TurnView]
    skipped_after: int


@dataclass(frozen=True)
class Section:
    """One track of one run."""

    letter: str
    colour: int
    run: Run
    summary: Row
    track: str
    found: Row
    headline: MetricRow
    metrics: list[MetricRow]
    floors: list[FloorRow]
    account: list[AccountRow]
    bar: Markup
    plane: Markup
    without_recall: int
    records: list[tuple[str, list[RecordCard]]]
    samples: Samples

    @property
    def anchor(self) -> str:
        """The fragment by which the section is reached."""
        return f"run-{self.letter.lower()}"

    @property
    def comparable_with(self) -> tuple[str, ...]:
        """What two sections must share to stand on one axis: task, judge and data."""
        sha256 = str(self.run.tracks[self.track].get("sha256"))
        return self.run.task.name, self.track, str(self.summary["judge_fingerprint"]), sha256, str(self.found["n"])


@dataclass(frozen=True)
class Comparison:
    """Sections that share task, judge and data, with their floors, and their macro points in one plane."""

    sections: list[Section]
    floors: list[FloorRow]
    plane: Markup


def write_report(run_folders: Sequence[Path], out: Path) -> Path:
    """Write the report on some finished runs; the same runs give the same bytes.

    Args:
        run_folders: The runs, in the order in which they shall stand.
        out: The HTML file.

    Raises:
        UsageError: If there is no run, one of them is not finished, or `out` is a folder.
        RunFolderError: If a file of a run can't be read, or the page can't be written.
    """
    if out.is_dir():
        raise UsageError(f"out={out}: a folder is there; name a file, such as {out / 'report.html'}")
    runs = [open_run(folder) for folder in run_folders]
    if not runs:
        raise UsageError("no run to report on")
    page = render(runs)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        temporary = out.with_name(f"{out.name}.tmp")
        temporary.write_bytes(page.encode(errors="replace"))
        temporary.replace(out)
    except OSError as error:
        raise RunFolderError(f"{out}: {error.strerror or error}; choose another out=") from error
    return out


def render(runs: Sequence[Run]) -> str:
    """Return the page about some finished runs."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_finalize,
    )
    environment.filters.update(number=number, interval=interval)
    environment.globals.update(
        folded=lambda text, limit=FOLDED_VALUE: _folded(text, limit),
        folded_away=folded_away,
        FOLDED_RAW=FOLDED_RAW,
        MOST_PAIRINGS=MOST_PAIRINGS,
    )
    sections = _sections(runs)
    return environment.get_template("report.html").render(
        title=_title(sections),
        sections=sections,
        comparisons=_comparisons(sections),
        axis=charts.axis(),
        rule=rule(),
        agreement=AGREEMENT,
        script=Markup(SCRIPT),
        script_hash=base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode(),
    )


def _finalize(value: Any) -> Any:
    """Make whatever is printed safe to encode; markup of our own stays as it is."""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _title(sections: Sequence[Section]) -> str:
    models = list(dict.fromkeys(section.run.model for section in sections))
    return models[0] if len(sections) == 1 else f"{len(sections)} runs"


def _sections(runs: Iterable[Run]) -> list[Section]:
    sections: list[Section] = []
    for run in runs:
        if run.summary is None:
            raise UsageError(f"{run.folder}: not finished; the same alps run again goes on with it")
        try:
            sections += [
                _section(run, run.summary, track, position)
                for position, track in enumerate(run.summary["tracks"], start=len(sections))
            ]
        except (LookupError, TypeError, ValueError, AttributeError, StopIteration) as error:
            raise RunFolderError(f"{run.folder}: not a run of this alps ({error!r})") from error
        if not run.summary["tracks"]:
            raise RunFolderError(f"{run.folder}: its summary is of no track")
    return sections


def _section(run: Run, summary: Row, track: str, position: int) -> Section:
    found = summary["tracks"][track]
    predictions = run.rows("predictions")
    scores = {key: row for key, row in run.rows("scores").items() if row["track"] == track}
    letter = _letter(position)
    metrics = [
        _metric_row(metric, found["scores"], position) for metric in run.metrics if metric.name in found["scores"]
    ]
    floors = [_floor_row(name, n, floor, run.headline) for n, (name, floor) in enumerate(found["floors"].items())]
    account = _account(scores, predictions)
    records, samples = _records(run, scores, predictions)
    pairs = [row["scores"] for row in scores.values() if row["scores"]]
    return Section(
        letter=letter,
        colour=position,
        run=run,
        summary=summary,
        track=track,
        found=found,
        headline=next(row for row in metrics if row.metric.headline),
        metrics=metrics,
        floors=floors,
        account=account,
        bar=charts.stacked([charts.Part(r.name, r.style, r.count) for r in account], name=f"unscored-{letter.lower()}"),
        plane=_plane([(letter, position, run.model, found)], found["floors"], pairs),
        without_recall=sum("precision" in row and "recall" not in row for row in pairs),
        records=records,
        samples=samples,
    )


def _letter(position: int) -> str:
    """Return A … Z, then AA, AB, …."""
    return (_letter(position // 26 - 1) if position >= 26 else "") + chr(ord("A") + position % 26)


def _metric_row(metric: Metric, scores: Row, colour: int) -> MetricRow:
    score = scores[metric.name]
    return MetricRow(metric, score, charts.whisker(score, name=metric.title, colour=colour))


def _floor_row(name: str, position: int, floor: Row, headline: Metric) -> FloorRow:
    score = floor["scores"][headline.name]
    chart = charts.whisker(score, name=name, floor=True)
    return FloorRow(name, floor["judge"], score, floor.get("above"), chart, charts.floor_sign(position))


def _plane(points: Sequence[tuple[str, int, str, Row]], floors: Row, records: Sequence[Row]) -> Markup:
    """Draw the precision–recall plane, or nothing where the task has no such figures."""
    placed = [
        charts.Point(model, letter, colour, found["scores"]["precision"], found["scores"]["recall"])
        for letter, colour, model, found in points
        if _has_place(found["scores"])
    ]
    hollow = [
        charts.Point(name, "", 0, floor["scores"]["precision"], floor["scores"]["recall"])
        for name, floor in floors.items()
        if _has_place(floor["scores"])
    ]
    if not placed:
        return Markup()
    dots = [(row["recall"], row["precision"]) for row in records if "recall" in row and "precision" in row]
    return charts.plane(
        placed, hollow, dots, name=f"Precision and recall of {', '.join(point.name for point in placed)}"
    )


def _has_place(scores: Row) -> bool:
    return all(scores.get(name, {}).get("value") is not None for name in ("precision", "recall"))


def _account(scores: Mapping[Key, Row], predictions: Mapping[Key, Row]) -> list[AccountRow]:
    """Count what became of the records, by kind; every record is in exactly one row."""
    states = [state_of(row, predictions.get(key)) for key, row in scores.items()]
    rows = [AccountRow("as it came", "ok", states.count("ok"), "answered, judged and scored")]
    rows.append(AccountRow("mended", "mended", states.count("mended"), "mended before it could be read, then scored"))
    for kind in FAILURES:
        rows.append(AccountRow(kind, f"failed {kind}", states.count(kind), f"{MEANINGS[kind]}: scored as the worst"))
    for kind in UNHEARD:
        rows.append(AccountRow(kind, "unscored", states.count(kind), f"{MEANINGS[kind]}: unscored"))
    for state in sorted({state for state in states if state.startswith("judge:")}):
        kind = state.removeprefix("judge:")
        whose = "" if kind == "no_gold" else "of the judge: "
        meaning = f"{whose}{MEANINGS.get(kind, kind)}: unscored"
        rows.append(
            AccountRow("no gold" if kind == "no_gold" else f"judge {kind}", "unscored", states.count(state), meaning)
        )
    return [row for row in rows if row.count]


def _records(
    run: Run, scores: Mapping[Key, Row], predictions: Mapping[Key, Row]
) -> tuple[list[tuple[str, list[RecordCard]]], Samples]:
    chosen = choose(scores, predictions)
    samples = read_wanted(run, {key.id for _, keys in chosen for key in keys})
    verdicts = run.rows("verdicts")

    def card(key: Key) -> RecordCard:
        view = build_view(
            key,
            sample=samples.by_id.get(key.id),
            prediction=predictions.get(key),
            verdict=verdicts.get(key),
            score=scores[key],
        )
        return _card(view)

    return [(group.title, [card(key) for key in keys]) for group, keys in chosen], samples


def _card(view: RecordView) -> RecordCard:
    """Keep the turns that gold points to; the first ones where it points to none."""
    wanted = sorted(view.evidence.pointed) or list(range(min(UNASKED_TURNS, len(view.dialogue))))
    turns: list[TurnView] = []
    shown = 0
    for place in wanted:
        turn = view.dialogue[place]
        pieces = excerpt(turn.text, view.evidence.spans.get(place, ()), limit=FOLDED_TURN, context=100)
        turns.append(TurnView(place, turn.role, pieces, place - shown))
        shown = place + 1
    return RecordCard(view, turns, len(view.dialogue) - shown)


def _comparisons(sections: Sequence[Section]) -> list[Comparison]:
    """Put the sections that may stand on one axis together, in their order."""
    together: dict[tuple[str, ...], list[Section]] = {}
    for section in sections:
        together.setdefault(section.comparable_with, []).append(section)
    return [_comparison(members) for members in together.values()]


def _comparison(sections: list[Section]) -> Comparison:
    first = sections[0]
    points = [(section.letter, section.colour, section.run.model, section.found) for section in sections]
    plane = _plane(points, first.found["floors"], ()) if len(sections) > 1 else Markup()
    return Comparison(sections, first.floors, plane)


def _folded(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    return f"{text[:limit]} {folded_away(len(text) - limit, 'characters')}"
