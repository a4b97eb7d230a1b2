"""The first page: every track's leading board in short, a tab for each task.

Nothing is averaged over tasks.
"""

from alps.leaderboard.pages.common import TASKS, Renderer, page_of, track_title, view

LEADING = 10
"""How many systems of a board the first page shows."""


def write_overview(renderer: Renderer) -> None:
    """Write the first page."""
    content = renderer.content
    tabs = []
    for task in TASKS:
        tracks = [
            {
                "title": track_title(one),
                "page": page_of(one),
                "view": view(content.by_track[one.track][0], most=LEADING, brief=True),
                "more": len(content.by_track[one.track]) - 1,
                "track": one.track,
            }
            for one in content.tracks_of(task)
        ]
        tabs.append({"name": task, "tracks": tracks})
    renderer.write("index.html", "overview.html", tabs=tabs, tabs_systems=len(content.systems))
