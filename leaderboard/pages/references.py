"""Page of reference rows: every table with who ran it, on what, judged by whom, and how."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from alps.leaderboard.pages.board_table import metric_title, reference_name
from alps.leaderboard.pages.charts import score_whisker
from alps.leaderboard.pages.common import Renderer, page_of
from alps.leaderboard.provenance import NOTHING, Place, bounds, figure, pair, whole
from alps.leaderboard.references import ReferenceTable
from alps.show.charts import axis_of
from alps.show.svg import axis_labels
from alps.tasks import Metric, Task, all_tracks


@dataclass(frozen=True)
class ReferenceView:
    """A table as the page shows it.

    Attributes:
        tracks: The tracks that its columns are of, each with the link to its page, if it has one.
        settings: The settings of the run that makes one row anew, in words; empty of what is
            reported.
        lead: The title of the leading column, and the labels of its axis.
    """

    table: ReferenceTable
    place: Place
    tracks: Sequence[tuple[str, str]]
    settings: str
    lead: tuple[str, Markup]
    others: Sequence[str]
    rows: Sequence[Sequence[Markup]]
    above: bool


def write_references(renderer: Renderer) -> None:
    """Write the page of all tables."""
    views = [_view(renderer, table, place) for table, place in renderer.content.references.placed()]
    renderer.write("references.html", "references.html", views=views)


def _view(renderer: Renderer, table: ReferenceTable, place: Place) -> ReferenceView:
    tracks = all_tracks()
    metrics = []
    links: dict[str, str] = {}
    for column in table.columns:
        task = tracks[column.track]
        metrics.append(_metric(task, column.metric))
        links[task.heading] = page_of(task) if task.track in renderer.content.by_track else ""
    named = [_title(table, n, metric) for n, metric in enumerate(metrics)]
    has_above = any(row.above is not None for row in table.rows)
    return ReferenceView(
        table=table,
        place=place,
        tracks=list(links.items()),
        settings="" if table.recipe is None else " ".join(table.recipe.settings),
        lead=(named[0], axis_labels(axis_of(metrics[0]))),
        others=named[1:],
        rows=list(_rows(table, place, metrics[0], above=has_above)),
        above=has_above,
    )


def _metric(task: Task, name: str) -> Metric:
    return next(metric for metric in task.metrics if metric.name == name)


def _title(table: ReferenceTable, n: int, metric: Metric) -> str:
    """Return the title of a column; it names the track where the table is of several."""
    track = table.columns[n].track
    title = metric_title(metric)
    if len({column.track for column in table.columns}) == 1:
        return title
    heading = all_tracks()[track].heading
    return heading if metric.headline else f"{heading}: {title}"


def _rows(
    table: ReferenceTable, place: Place, lead: Metric, *, above: bool
) -> Iterator[Sequence[Markup]]:
    for at, row in enumerate(table.rows):
        here = place["rows"][at]
        first, name = here["figures"][0], reference_name(row)
        if row.anchored is not None:
            shares = here["anchored"]["verbatim"]
            told = "<small>{} and {} of their items are the draft's</small>"
            name += Markup(told).format(figure(shares[0]), figure(shares[1]))
        drawn = score_whisker(first, axis_of(lead), "reported") if first else Markup()
        cells = [name, figure(first["value"]), bounds(first), drawn, figure(first["n"], whole)]
        if above:
            delta = here["above"]
            baseline = Markup("<small>{}</small>").format(row.above.baseline) if row.above else ""
            cells.append(pair(delta) + baseline if delta else NOTHING)
        cells += [pair(here["figures"][n]) for n in range(1, len(row.figures))]
        yield cells
