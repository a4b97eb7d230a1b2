"""Table of the sensitivity of scores to a judge's wording, in 80 columns."""

from collections.abc import Iterator, Sequence

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from alps.report.formatting import counted, interval, number, signed, spent, visible
from alps.report.sensitivity import (
    LEVEL_WIDTH,
    Flip,
    Ranking,
    Sensitivity,
    Spread,
    TrackSensitivity,
    UnderWording,
)
from alps.report.tables import close_table
from alps.report.terminal import WIDTH


def print_sensitivity(found: Sensitivity, console: Console) -> None:
    """Print for every track and run the scores by wording, and of several runs the rankings."""
    parts: list[RenderableType] = list(_legend(found))
    for track in found.tracks:
        for spread in track.spreads:
            parts += [Text(), *_spread(track, spread)]
        if track.ranking is not None:
            parts += [Text(), *_ranking(track, track.ranking)]
        elif len(track.spreads) > 1:
            parts += [
                Text(),
                Text(
                    visible(f"{track.track}: no record is scored in all runs under every variant.")
                ),
            ]
    parts.append(Text())
    parts += [Text(visible(f"{note}."), style="dim") for note in found.notes]
    parts += [Text(line, style="dim") for line in _explanations(found)]
    console.print(Group(*parts), width=min(WIDTH, console.width))


def _legend(found: Sensitivity) -> Iterator[RenderableType]:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for letter, (folder, model) in found.runs.items():
        name = Text(visible(str(folder)))
        name.append(visible(f"  {model}"), style="dim")
        grid.add_row(Text(letter, style="bold"), name)
    yield grid
    yield Text(
        visible(
            f"Judged by {found.judge} with {len(found.wordings)} prompt variants of its rubrics."
        )
    )


def _spread(track: TrackSensitivity, spread: Spread) -> Iterator[RenderableType]:
    title = f"{spread.letter} on {track.track}, {track.metric.title.strip()}"
    table = _table(
        f"{title}: {_records(spread)}",
        "variant",
        "score",
        "95 % interval",
        "Δ ours",
        "95 % interval",
        "changed",
        "n",
    )
    for one in spread.under:
        score = (number(one.score.value), interval(vars(one.score)))
        if one.difference is None:
            table.add_row(Text(visible(one.wording)), *score, "", "", "", str(one.score.n))
            continue
        moved = one.difference
        beyond = (
            moved.low is not None and moved.high is not None and (moved.low > 0 or moved.high < 0)
        )
        row = (
            *score,
            signed(moved.value),
            interval(vars(moved)),
            _percent(one.changed),
            str(one.score.n),
        )
        table.add_row(Text(visible(one.wording)), *row, style="bold" if beyond else "")
    if spread.n:
        yield table
    else:
        yield Text(visible(f"{title}: no record is scored under every variant."), style="bold")
    for line in _noise(spread):
        yield Text(line)
    if lost := [_unscored(one) for one in spread.under if one.unscored]:
        yield Text(
            visible(f"Unscored, and so left out under every variant: {', '.join(lost)}."),
            style="dim",
        )
    for one in spread.under:
        if one.error is not None:
            yield Text(visible(f"  {one.wording}: {one.error}")[: WIDTH - 2], style="dim")


def _unscored(one: UnderWording) -> str:
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in one.failures.items())
    return f"{one.unscored:,} under {one.wording}{f' ({kinds})' if kinds else ''}"


def _noise(spread: Spread) -> Iterator[str]:
    """Say how far the scores lie apart, and whether that is more than sampling does."""
    if spread.deviation is None:
        return
    records = counted(spread.n, "record")
    share = f"{spread.changed:,} of {records} ({_percent(spread.changed / spread.n)})"
    yield f"Spread {number(spread.spread)}; {share} scored differently by some two variants."
    sampling = spread.sampling_error
    if sampling is None:
        deviation = f"Standard deviation between variants {number(spread.deviation)}"
        yield f"{deviation}; sampling noise is not known."
        return
    deviation = f"standard deviation {number(spread.deviation)} between variants"
    yield f"Noise of the prompt variant: {deviation}."
    half = f"mean half-width {number(spread.half_width)}"
    yield f"Noise of sampling: standard error {number(sampling)} ({half})."
    if spread.deviation != sampling:
        larger = "the prompt variant" if spread.deviation > sampling else "sampling"
        yield f"The larger noise is that of {larger}."


def _ranking(track: TrackSensitivity, ranking: Ranking) -> Iterator[RenderableType]:
    records = counted(ranking.n, "record")
    title = f"Ranking on {track.track}, {records} scored in all runs under every variant"
    table = _table(title, "variant", "order", "tau")
    table.columns[1].justify, table.columns[1].no_wrap = "left", False
    for name, order in ranking.orders.items():
        tau = number(ranking.tau[name]) if name in ranking.tau else ""
        table.add_row(Text(visible(name)), " > ".join(" = ".join(place) for place in order), tau)
    yield table
    if not ranking.flips:
        yield Text("No two runs change places.")
    else:
        yield Text()
        yield _flips(ranking.flips)


def _flips(flips: Sequence[Flip]) -> Table:
    """Lay out the pairs of runs that change places, wording by wording."""
    table = _table(
        "Runs that change places", "variant", "pair", "difference", "95 % interval", "ahead"
    )
    for flip in flips:
        for name, estimate in flip.differences.items():
            value = round(estimate.value or 0.0, 9)
            ahead = "tied" if value == 0 else flip.first if value > 0 else flip.second
            row = (
                f"{flip.first} – {flip.second}",
                signed(estimate.value),
                interval(vars(estimate)),
                ahead,
            )
            table.add_row(Text(visible(name)), *row)
        table.add_section()
    return table


def _explanations(found: Sensitivity) -> Iterator[str]:
    if found.tracks:
        yield "changed: records that the variant scores differently from ours; bold: the interval"
        yield f"leaves out 0. Standard error: the half-width over {LEVEL_WIDTH}."
    if any(spread.clusters is None for track in found.tracks for spread in track.spreads):
        yield "The data was not found again: each record stands alone in intervals."
    if any(track.ranking for track in found.tracks):
        yield "tau: Kendall's tau-b with the order under ours (1: the same, -1: reversed)."
    yield spent(found.calls)
    folders = [
        one.folder for track in found.tracks for spread in track.spreads for one in spread.under
    ]
    if folders:
        yield visible(f"Run folders: {folders[0].parent.parent}/RUN/VARIANT")


def _table(title: str, first: str, *columns: str) -> Table:
    table = close_table(visible(title))
    table.add_column(first, overflow="fold")
    for name in columns:
        table.add_column(Text(name), justify="right", no_wrap=True)
    return table


def _records(spread: Spread) -> str:
    where = "" if spread.clusters is None else f" from {counted(spread.clusters, 'session')}"
    return f"{counted(spread.n, 'record')}{where}"


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.0f} %"
