"""What came when, and on what data: submissions by day, data versions, and how the site is to be
read.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from alps.leaderboard.gold_data import all_tracks, known_track
from alps.leaderboard.pages.common import Renderer, track_title
from alps.leaderboard.site_data import System


@dataclass(frozen=True)
class DataVersion:
    """One version of the data of a track."""

    track: str
    title: str
    name: str
    sha256: str
    public: bool
    known: bool
    systems: int


def write_changes(renderer: Renderer) -> None:
    """Write the changelog with the data versions, and the page on how to read the site."""
    systems = sorted(
        renderer.content.systems, key=lambda one: (one.card.submitted, one.slug), reverse=True
    )
    days: dict[str, list[System]] = {}
    for system in systems:
        days.setdefault(system.card.submitted, []).append(system)
    renderer.write("changes.html", "changes.html", days=days, versions=list(_versions(renderer)))
    renderer.write("about.html", "about.html", source=renderer.content.published.reports.source)


def _versions(renderer: Renderer) -> Iterator[DataVersion]:
    held: dict[tuple[str, str], list[tuple[str, bool]]] = {}
    for system in renderer.content.systems:
        for track, place in system.tracks.items():
            data = system.run(track)["data"]
            name = f"{data['name'].value} {data['split'].value}"
            held.setdefault((track, place["data_sha256"].value), []).append(
                (name, bool(data["public"].value))
            )
    for track in all_tracks():
        for (own, sha256), rows in sorted(held.items()):
            if own == track:
                name, public = rows[0]
                known = known_track(track, sha256) is not None
                yield DataVersion(
                    track, track_title(all_tracks()[track]), name, sha256, public, known, len(rows)
                )
