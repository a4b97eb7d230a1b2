"""Small multiples of a system's page: its scores by task, pool size, script, length and memories.

And the records on which it differs most from the strongest other system of a board. Slices of the
records are of the package's own data alone: of others the site holds no records.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from markupsafe import Markup

from alps.leaderboard.comparison import DIGITS
from alps.leaderboard.gold_data import SampleTrack, known_track
from alps.leaderboard.pages import computed, figure, pair, whole
from alps.leaderboard.pages.charts import score_whisker
from alps.leaderboard.pages.common import Content, answer_id, page_of, record_file, records_folder
from alps.leaderboard.pages.records import place_on, record_score
from alps.leaderboard.ranking import Board, RankedSystem
from alps.leaderboard.site_data import SiteSystem
from alps.show.charts import axis_of, whisker
from alps.show.formatting import number
from alps.stats.bootstrap import clustered_mean
from alps.tasks import board_tracks
from alps.text import LENGTHS, length_thirds, script_of, texts_of

# Of fewer records a mean says nothing.
FEWEST = 3
SCRIPT, LENGTH, MEMORY = "script of the input", "length of the input", "gold memories"

# The ids of the records in each group, by trait.
Groups = Mapping[str, Mapping[str, list[str]]]


def groups_of(track: SampleTrack) -> Groups:
    """Return the ids of the records in each group of every trait that has several groups."""
    asked = {}
    for name, sample in track.samples.items():
        asked[name] = texts_of(track.task.input_row(sample).get("input"))
    lengths = [len(text) for text in asked.values()]
    thirds: dict[str, list[str]] = {third: [] for third in LENGTHS}
    scripts: dict[str, list[str]] = {}
    for (name, text), third in zip(asked.items(), length_thirds(lengths), strict=True):
        thirds[third].append(name)
        scripts.setdefault(script_of(text), []).append(name)
    traits = {SCRIPT: scripts, LENGTH: thirds, MEMORY: _by_memory(track)}
    found: dict[str, dict[str, list[str]]] = {}
    for trait, groups in traits.items():
        large = {group: names for group, names in groups.items() if len(names) >= FEWEST}
        if len(large) > 1:
            found[trait] = large
    return found


def _by_memory(track: SampleTrack) -> dict[str, list[str]]:
    """Return the records by what their gold memories are about; a record may be in several."""
    groups: dict[str, list[str]] = {}
    for name, sample in track.samples.items():
        gold = track.task.public.gold(sample) if sample.gold is not None else ()
        # A label is a path; other remarks are none.
        for top in {remark.partition("/")[0] for _, _, remark in gold if "/" in remark}:
            groups.setdefault(top.replace("_", " "), []).append(name)
    return dict(sorted(groups.items()))


# How many records a comparison shows: those that differ most.
MOST_DIFFERENT = 8


@dataclass(frozen=True)
class Bar:
    """A row of a panel: its name, its value on an axis, the value in words, and n."""

    name: str
    drawn: Markup
    value: Markup
    n: Markup


@dataclass(frozen=True)
class Multiple:
    """A panel; `page` is the way to what it is about."""

    title: str
    page: str
    rows: Sequence[Bar]


def multiples_of(content: Content, system: SiteSystem) -> Iterator[Multiple]:
    """Yield the panels of a system that have several rows."""
    places = list(_standings(content, system))
    pools = [place for place in places if place[0].task.data.pool_size is not None]
    once = list(_with_smallest_pool(places))
    tasks = [(board.task.heading, board, row) for board, row in once]
    sizes = [(f"{board.task.data.pool_size:,} distractors", board, row) for board, row in pools]
    yield from _panel("Tasks", "", tasks)
    if pools:
        yield from _panel("Pool size", f"{pools[0][0].task.name}.html", sizes)
    # Pools of all sizes have the same queries.
    for board, row in once:
        yield from _slices(board, row)
    failures = list(_failures(system))
    if failures:
        yield Multiple("Failed answers, by kind", "", failures)


def _with_smallest_pool(
    places: Sequence[tuple[Board, RankedSystem]],
) -> Iterator[tuple[Board, RankedSystem]]:
    """Yield the places of a system; of pools of many sizes, that with the smallest."""
    seen = set()
    for board, row in places:
        if board.task.data.pool_size is None:
            yield board, row
        elif board.task.name not in seen:
            seen.add(board.task.name)
            yield board, row


def _standings(content: Content, system: SiteSystem) -> Iterator[tuple[Board, RankedSystem]]:
    """Yield the leading board of each track that a system stands on, and its place there."""
    seen = set()
    for board, row in content.by_system.get(system.slug, ()):
        if board.key.track not in seen and not row.withheld:
            seen.add(board.key.track)
            yield board, row


def _panel(
    title: str, page: str, rows: Sequence[tuple[str, Board, RankedSystem]]
) -> Iterator[Multiple]:
    bars = []
    for name, board, row in rows:
        score = row.lead(board.metric.name)
        drawn = score_whisker(score, axis_of(board.metric))
        bars.append(Bar(name, drawn, pair(score), figure(score["n"], whole)))
    if len(bars) > 1:
        yield Multiple(title, page, bars)


@lru_cache(maxsize=32)
def _groups(track: str, sha256: str) -> Groups:
    # Once for all systems: every text of the track is looked through.
    known = known_track(track, sha256)
    return {} if known is None else groups_of(known)


def _slices(board: Board, row: RankedSystem) -> Iterator[Multiple]:
    """Yield a panel for each trait of the records of a track, with the mean on each group."""
    groups = _groups(board.key.track, str(row.track["data_sha256"].value))
    for trait, members in groups.items():
        bars = []
        for group, names in members.items():
            scored = [name for name in names if name in row.records]
            if len(scored) >= FEWEST:
                bars.append(_slice(board, row, trait, group, scored))
        if bars:
            yield Multiple(f"{board.task.heading} by {trait}", page_of(board.task), bars)


def _slice(board: Board, row: RankedSystem, trait: str, group: str, names: list[str]) -> Bar:
    """Return the mean of a system on some records, with its interval by session."""
    metric, sessions = board.metric, row.system.sessions(board.key.track)
    values = np.array([row.records[name] for name in names])
    clusters = [sessions.get(name, name) for name in names]
    mean = clustered_mean(values, clusters, bounds=(metric.lowest, metric.highest))
    args = (row.system.slug, board.key.track, trait.replace(" ", "_"), group.replace(" ", "_"))
    value = round(mean.value or 0.0, DIGITS)
    written = computed(value, "slice", *args, written=number(value))
    drawn = whisker(mean, axis=axis_of(metric), style="system")
    return Bar(group, drawn, written, computed(len(names), "slice_n", *args))


def _failures(system: SiteSystem) -> Iterator[Bar]:
    for track, place in system.tracks.items():
        for kind, count in place["failed_predictions"].items():
            name = f"{board_tracks()[track].heading}: {kind}"
            yield Bar(name, Markup(), figure(count, whole), figure(place["n"], whole))


def beside_of(content: Content, system: SiteSystem) -> Iterator[dict[str, object]]:
    """Yield a system next to the strongest other one on each task where records are known."""
    smallest: set[str] = set()
    for board, row in _standings(content, system):
        known, rival = system.on_pages(board.key.track), _rival_of(board, row)
        if known is None or rival is None or board.task.name in smallest:
            continue
        if board.task.data.pool_size is not None:
            smallest.add(board.task.name)
        shared = sorted(row.records.keys() & rival.records.keys())
        yield {
            "board": board,
            "other": rival.system,
            "rows": list(_different(board, row, rival, shared)),
            # Where the system is compared with any other.
            "page": place_on(board, system.slug),
        }


def _rival_of(board: Board, row: RankedSystem) -> RankedSystem | None:
    """Return the strongest other system of a board whose records are known."""
    # Its own copies have the same answers: there is nothing to compare.
    own = row.copy_of or row.system.slug
    for other in board.standings:
        if own not in (other.system.slug, other.copy_of) and other.records and other.recomputed:
            return other
    return None


def _different(
    board: Board, row: RankedSystem, rival: RankedSystem, shared: Sequence[str]
) -> Iterator[dict[str, str]]:
    """Yield the records on which two systems differ most, those that the first one lost before."""

    def order(name: str) -> tuple[float, float, str]:
        ahead = row.records[name] - rival.records[name]
        return -abs(ahead), ahead, name

    folder = records_folder(board.task)
    for name in sorted(shared, key=order)[:MOST_DIFFERENT]:
        if row.records[name] != rival.records[name]:
            answer = answer_id(board.key.track, row.system.slug)
            page = f"records/{folder}/{record_file(name)}#{answer}"
            own, other = (record_score(board, one, name) for one in (row, rival))
            yield {"name": name, "page": page, "own": own, "other": other}
