"""Tables of a run on a set: files read, basis of intervals, cost of answers."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from alps.ext.histories.part import (
    ECONOMY,
    NAME,
    NEVER,
    NO_GOLD,
    TURNS,
    UNRATED,
    Economy,
    Even,
)
from alps.rows import Interval, Summary
from alps.show.charts import (
    DASHES,
    Chart,
    ChartLine,
    LegendKey,
    colour_of,
    context_curve,
    letter_sign,
    line_sign,
)
from alps.show.formatting import counted, dollars, seconds
from alps.show.parts import More, ShownPart
from alps.show.svg import Axis
from alps.show.table import (
    BLANK,
    Cell,
    Part,
    Table,
    dim,
    figures,
    named,
    row_of,
)
from alps.tasks import Metric
from alps.tasks.registry import track_title

if TYPE_CHECKING:
    from alps.run.opened import RunFolder
    from alps.show.parts import ChartedTrack

FEW = 15
"""Histories of which there are so few that an interval between them is rough."""
EACH = 1000
"""Turns that a chart draws the dollars of: those of one are too small for an axis."""
EXPLANATION = (
    "A turn is a question about one history. From the turn shown onwards, memory costs less in "
    "total than sending the whole history in every prompt at the price for cached tokens."
)


class HistoryShownPart(ShownPart):
    """Tables, charts and notes of runs on sets."""

    def facts(self, summary: Summary) -> Iterator[str]:
        """Yield what a right answer took, and how many answers have no score."""
        yield from _without_score(summary)
        yield from _without_times(summary)
        for track in summary.parts.get(NAME, {}):
            if (took := _economy_in(summary, track)) is not None:
                spent = None if took.seconds.value is None else f"{seconds(took.seconds.value)} s"
                yield f"a right answer cost {dollars(took.dollars.value)} and {spent or '–'}"

    def tables(self, summary: Summary, track: str, metrics: Sequence[Metric]) -> Iterator[Table]:
        """Yield what right answers took."""
        if (took := _economy_in(summary, track)) is not None:
            yield _table_of(took)

    def charts(self, sections: "Sequence[ChartedTrack]") -> "Iterable[Chart]":
        """Draw the dollars of a turn over turns, of the runs on the same records together."""
        together: dict[tuple[str, ...], list[tuple[ChartedTrack, Even]]] = {}
        for section in sections:
            took = _economy_in(section.summary, section.track)
            if took is not None and took.even is not None:
                *same, _ = section.comparable_with
                together.setdefault(tuple(same), []).append((section, took.even))
        return map(_chart, together.values())

    def more(
        self,
        runs: "Mapping[str, RunFolder]",
        track: str,
        metric: Metric,
        sessions: Mapping[str, str],
    ) -> More | None:
        """Return what right answers of several runs took."""
        row, parts = _compared(runs, track)
        return More(row, parts, EXPLANATION) if parts else None

    def notes(self, summary: Summary) -> Iterable[str]:
        """Say what the files are, what is known to be wrong in them, and what intervals tell."""
        yield from _without_score(summary)
        yield from _without_times(summary)
        for track, held in summary.parts.get(NAME, {}).items():
            task = track_title(track)
            yield _files(task, held)
            yield from _wrong(task, held)
            if held["histories"] < FEW < held["questions"]:
                number = counted(held["histories"], "history", "histories")
                yield (
                    f"{task}: the intervals are rough, because they come from only {number}; a "
                    "difference of a few points may be chance"
                )


def _without_score(summary: Summary) -> Iterator[str]:
    """Say how many answers have no score for being right, and why."""
    for track, held in summary.parts.get(NAME, {}).items():
        task, n = track_title(track), summary.tracks[track].n
        unrated: dict[str, int] = held.get(UNRATED, {})
        if unrated:
            count = f"{task}: {sum(unrated.values()):,} of {counted(n, 'answer')} not rated"
            if summary.judge.startswith("recorded:"):
                yield f"{count}, because recorded verdicts are not those of the rubrics of alps"
            else:
                kinds = ", ".join(f'"scoring": "{name}"' for name in unrated)
                yield f"{count}: judge {summary.judge} cannot rate {kinds}; use an LLM judge"
        if lacking := held.get(NO_GOLD, 0):
            asked = counted(held["questions"], "question")
            yield (
                f"{task}: {lacking:,} of {asked} without a gold answer, so unscored; alps data "
                "audit lists them (no-answer)"
            )


def _without_times(summary: Summary) -> Iterator[str]:
    """Say of how many histories the times are left out."""
    for track, held in summary.parts.get(NAME, {}).items():
        if count := held.get("undated", 0):
            histories = counted(count, "history has", "histories have")
            yield (
                f"{track_title(track)}: {histories} a session without a valid time, so a memory "
                "system gets none of their times; alps data audit lists them (impossible-date)"
            )


def _files(task: str, held: Mapping[str, Any]) -> str:
    histories = counted(held["histories"], "history", "histories")
    digest = str(held.get("sha256"))[:12]
    said = f"{task}: {counted(held['questions'], 'question')} about {histories}, sha256 {digest}"
    if official := held.get("not_official"):
        said += f"; not the official set: {official} questions; the numbers by kind differ"
    return said


def _wrong(task: str, held: Mapping[str, Any]) -> Iterable[str]:
    wrong = held["wrong_golds"]
    if wrong:
        # Published figures lie above that bound: one has .940 on LoCoMo, where 93.57 % can be
        # right.
        total, of = sum(wrong.values()), held["answerable"]
        by_kind = []
        for kind, count in sorted(wrong.items()):
            by_kind.append(f"{kind} {100 - 100 * count / held['kinds'][kind]:.2f}")
        yield (
            f"{task}: {total} of {of:,} gold answers are known to be wrong, so a correct system "
            f"scores at most {100 - 100 * total / of:.2f} % on answerable questions (by kind: "
            f"{', '.join(by_kind)})"
        )


def _economy_in(summary: Summary, track: str) -> Economy | None:
    """Return cost and time of a track's right answers, if recorded."""
    row = summary.parts.get(NAME, {}).get(track, {}).get(ECONOMY)
    return None if row is None else Economy.model_validate(row)


def _table_of(took: Economy) -> Table:
    rows = [
        row_of("US dollars", *_cells(took.dollars, dollars)),
        row_of("seconds", *_cells(took.seconds, seconds)),
    ]
    notes = []
    if took.even is not None:
        name = "turn from which memory costs less than the whole history"
        rows.append(row_of(name, *_turn_cells(took.even)))
        notes.append(dim(_explained(took.even)))
    columns = [named(), *figures("", "95 % interval")]
    return Table("For each right answer", columns, rows, notes)


def _cells(figure: Interval, written: Any) -> tuple[Cell, str]:
    between = _between(figure.low, figure.high, written)
    return Cell(written(figure.value), figure.value), between


def _turn_cells(even: Even) -> tuple[Cell, str]:
    return Cell(_turn(even.turn), even.turn or None), _between(even.low, even.high, _turn)


def _between(low: float | None, high: float | None, written: Any) -> str:
    return "–" if low is None or high is None else f"[{written(low)}, {written(high)}]"


def _turn(turn: int) -> str:
    return "never" if turn == NEVER else f"{turn:,}"


def _explained(even: Even) -> str:
    cached = "the price for cached tokens"
    cached = cached if even.cached else f"the full price ({cached} is unknown)"
    return (
        "A turn is a question about one history. With memory, ingesting the history costs "
        f"{dollars(even.ingested)} and each turn costs {dollars(even.each)}. Without memory, "
        f"sending all {even.tokens:,.0f} tokens costs {dollars(even.first)} for the first turn and "
        f"{dollars(even.again)} for each later turn at {cached}."
    )


def _compared(runs: "Mapping[str, RunFolder]", track: str) -> tuple[dict[str, Any], list[Part]]:
    """Return what right answers of several runs took, as JSON has it and as tables."""
    found: dict[str, Economy] = {}
    for letter, run in runs.items():
        took = _economy_in(run.finished, track)
        if took is not None:
            found[letter] = took
    if not found:
        return {}, []
    rows = []
    for letter, took in found.items():
        turn = ("–", "–") if took.even is None else _turn_cells(took.even)
        each = Cell(seconds(took.seconds.value), took.seconds.value)
        rows.append(row_of(letter, *_cells(took.dollars, dollars), each, *turn))
    title = f"{track_title(track)}: cost per right answer, and turn from which memory is cheaper"
    heads = figures("cost", "95 % interval", "seconds", "turn", "95 % interval")
    parts: list[Part] = [BLANK, Table(title, [named("run"), *heads], rows)]
    evens = {letter: took.even for letter, took in found.items() if took.even is not None}
    if evens:
        parts += [BLANK, _curve_table(track, evens)]
    return {ECONOMY: {letter: took.row() for letter, took in found.items()}}, parts


def _curve_table(track: str, evens: Mapping[str, Even]) -> Table:
    rows = []
    for letter, even in evens.items():
        spent = [dollars(spot.memory.value) for spot in even.curve]
        rows += [row_of(f"{letter} memory", *spent)]
        rows += [row_of(f"{letter} history", *[dollars(spot.whole) for spot in even.curve])]
    title = f"{track_title(track)}: mean cost per turn over the first n turns"
    return Table(title, [named("run"), *figures(*map(str, TURNS))], rows)


def _chart(drawn: "Sequence[tuple[ChartedTrack, Even]]") -> Chart:
    lines, legend = [], []
    for n, (section, even) in enumerate(drawn):
        memory = f"{section.run.model}, memory {section.found.memory}"
        kept = [(spot.turn, _times(spot.memory)) for spot in even.curve]
        lines.append(ChartLine(memory, section.letter, colour_of(section.colour), kept))
        name, whole = f"{section.letter}: whole history in every prompt", []
        for spot in even.curve:
            value = spot.whole * EACH
            whole.append((spot.turn, Interval(value=value, low=None, high=None)))
        dashes = DASHES[n % len(DASHES)]
        lines.append(ChartLine(name, "", "floor-line", whole, dashes))
        note = f"costs less from turn {_turn(even.turn)} {_turn_cells(even)[1].strip('–')}".strip()
        legend.append(LegendKey(letter_sign(section.letter, section.colour), memory, note))
        legend.append(LegendKey(line_sign(dashes), name, "at the price for cached tokens"))
    heights = [figure.high or figure.value or 0.0 for line in lines for _, figure in line.points]
    name = f"US dollars per {EACH:,} turns, by number of turns"
    about = (
        f"The lines show the mean cost of the first n turns, in US dollars per {EACH:,} turns. A "
        "turn is a question about one history; the x-axis is log₂ n. Bands show 95 % bootstrap "
        "intervals over histories."
    )
    axis = Axis(0.0, max(heights) or 1.0)
    drawing = context_curve(lines, axis, name=name, across="turns")
    heading = f"Cost of memory and of the whole history: {track_title(drawn[0][0].track)}"
    return Chart("turns", "Cost over turns", heading, about, drawing, legend)


def _times(figure: Interval) -> Interval:
    value, low, high = (
        None if one is None else one * EACH for one in (figure.value, figure.low, figure.high)
    )
    return Interval(value=value, low=low, high=high)
