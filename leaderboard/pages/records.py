"""Record by record, where the data are the package's own: the dialogue, the gold, and what every
system made of it.

Of other data only figures are shown, on the boards. The answers of one track at a time are held in
memory.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from alps.leaderboard.gold_data import all_tracks, known_track, own_track
from alps.leaderboard.pages.answers import answers_of, asked
from alps.leaderboard.pages.common import Content, Renderer, track_title
from alps.leaderboard.site_data import System
from alps.rejection import shown_value
from alps.tasks import Task

FEW = 6
"""Up to so many answers stand unfolded."""
EXCERPT = 140


def write_records(renderer: Renderer) -> None:
    """Write a page for every record of the package's own data that anybody submitted an answer to,
    and their list.
    """
    lists = []
    for folder, group in _groups().items():
        entries = _write_group(renderer, folder, group)
        if entries:
            lists.append(
                {
                    "folder": folder,
                    "title": "Retrieval" if len(group) > 1 else track_title(group[0]),
                    "entries": entries,
                }
            )
    renderer.write("records/index.html", "records.html", lists=lists)


def _groups() -> dict[str, list[Task]]:
    """Return the tracks whose records share a page: retrieval asks the same queries of pools of
    every size.
    """
    found: dict[str, list[Task]] = {}
    for task in all_tracks().values():
        found.setdefault("task3" if task.pool_size else task.track, []).append(task)
    return found


def _write_group(renderer: Renderer, folder: str, group: Sequence[Task]) -> list[dict[str, str]]:
    answers: dict[str, list[str]] = {}
    samples: Mapping[str, Any] = {}
    for task in group:
        systems = list(_systems(renderer.content, task))
        own = own_track(task.track) if systems else None
        if own is None:
            continue
        samples = own.samples
        ready = asked(samples)
        headed: set[str] = set()
        heading = Markup("<h3>{}</h3>").format(track_title(task).partition(", ")[2])
        for system in systems:
            for name, pieces in answers_of(system, task, ready).items():
                held = answers.setdefault(name, [])
                if len(group) > 1 and name not in headed:
                    headed.add(name)
                    held.append(heading)
                held.extend(pieces)
    names = [name for name in samples if name in answers]
    entries = []
    for n, name in enumerate(names):
        sample, pieces = samples[name], answers.pop(name)
        opened = (
            [piece.replace("<details", "<details open", 1) for piece in pieces]
            if len(pieces) <= FEW
            else pieces
        )
        renderer.write(
            f"records/{folder}/{file_of(name)}",
            "record.html",
            task=group[0],
            title="Retrieval" if len(group) > 1 else track_title(group[0]),
            folder=folder,
            name=name,
            sample=sample,
            gold=_gold(group[0], sample),
            answers=Markup("\n").join(Markup(piece) for piece in opened),
            before=file_of(names[n - 1]) if n else "",
            after=file_of(names[n + 1]) if n + 1 < len(names) else "",
        )
        entries.append({"name": name, "file": file_of(name), "excerpt": _excerpt(sample)})
    return entries


def file_of(name: str) -> str:
    """Return the file of a record; an id may hold a colon, which a link could not begin with."""
    return f"{name.replace(':', '-')}.html"


def _systems(content: Content, task: Task) -> Sequence[System]:
    """Return the systems that answered the package's own data of a track, in the order of its
    boards.
    """
    ordered: dict[str, System] = {}
    for board in content.by_track.get(task.track, ()):
        rows = (*board.standings, *board.floor_systems)
        ordered |= {row.system.slug: row.system for row in rows if row.system.slug not in ordered}
    rest = {
        one.slug: one
        for one in content.systems
        if task.track in one.tracks and one.slug not in ordered
    }
    found = [*ordered.values(), *rest.values()]
    return [
        one
        for one in found
        if known_track(task.track, str(one.tracks[task.track]["data_sha256"].value))
    ]


def _gold(task: Task, sample: Any) -> list[tuple[str, str, str]]:
    """Return what should have come: a mark, the words, and a remark."""
    if task.name in ("extraction", "update"):
        return [
            (f"g{n}", shown_value(memory.value), memory.label)
            for n, memory in enumerate(sample.gold or (), start=1)
        ]
    if task.name == "retrieval":
        return [
            ("gold", candidate.value, "")
            for candidate in sample.candidates
            if candidate.id == sample.gold
        ]
    return (
        [("memory", sample.gold.memory, f"rubric {sample.gold.rubric}")]
        if sample.gold is not None
        else []
    )


def _excerpt(sample: Any) -> str:
    turns = getattr(sample, "dialogue", ()) or getattr(sample, "new_dialogue", ())
    words = str(getattr(sample, "query", "")) or next(
        (turn.text for turn in turns if turn.role == "user"), ""
    )
    flat = " ".join(words.split())
    return flat if len(flat) <= EXCERPT else f"{flat[:EXCERPT].rsplit(' ', 1)[0]} …"
