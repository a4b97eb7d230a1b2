"""Shared parts of the pages: templates, names of tracks and pages, views of boards."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from markupsafe import Markup

from alps.leaderboard.pages import computed, figure, money, pair, seconds, whole
from alps.leaderboard.pages.board_table import KINDS, BoardTable, board_table, foreign, metric_title
from alps.leaderboard.parts import part_of
from alps.leaderboard.ranking import Board, RankedSystem
from alps.leaderboard.references import ReferenceFile
from alps.leaderboard.site_data import SiteSystem, official
from alps.show.formatting import MEANINGS, letter_of
from alps.show.html import page_environment
from alps.stats.paired import SIGNIFICANT
from alps.tasks import TASKS, Task, board_tasks, board_tracks, load_task

TEMPLATES = Path(__file__).parent.parent / "templates"


@dataclass(frozen=True)
class Content:
    """Everything that the pages show."""

    systems: Sequence[SiteSystem]
    boards: Sequence[Board]
    references: ReferenceFile

    @cached_property
    def by_track(self) -> dict[str, list[Board]]:
        """The boards of each track that has any, the leading one first."""
        boards: dict[str, list[Board]] = {}
        for board in self.boards:
            boards.setdefault(board.key.track, []).append(board)
        return boards

    @cached_property
    def by_system(self) -> dict[str, list[tuple[Board, RankedSystem]]]:
        """Boards of each system and its rows there, by slug."""
        places: dict[str, list[tuple[Board, RankedSystem]]] = {}
        for board in self.boards:
            for row in (*board.standings, *board.floor_systems):
                places.setdefault(row.system.slug, []).append((board, row))
        return places

    @cached_property
    def tasks(self) -> list[str]:
        """The names of the tasks that have pages: of extensions and memory systems once ranked."""

        def always(name: str) -> bool:
            return name in TASKS and not load_task(name).by_memory.required

        return [name for name in board_tasks() if self.tracks_of(name) or always(name)]

    def tracks_of(self, task: str) -> list[Task]:
        """Return the tracks of a task that have boards."""
        tracks = []
        for track, one in board_tracks().items():
            if one.name == task and track in self.by_track:
                tracks.append(one)
        return tracks


@dataclass(frozen=True)
class BoardView:
    """A board as a page shows it."""

    board: Board
    table: BoardTable
    root: str

    @property
    def heading(self) -> str:
        """What it ranks by."""
        return metric_title(self.board.metric)

    @property
    def systems(self) -> Markup:
        """Number of systems on the board, in words."""
        count = len(self.board.standings)
        written = computed(count, "systems", self.board.id)
        return Markup("{} {}").format(written, "system" if count == 1 else "systems")

    @property
    def hidden(self) -> bool:
        """Whether some of its systems are not shown here."""
        return len(self.table.sections[0].rows) < len(self.board.standings)

    @property
    def judge(self) -> str:
        """Who judged."""
        return str(self.board.any.track["judge"].value)

    @property
    def judge_page(self) -> str:
        """The way to the page of its judge."""
        return f"{self.root}judges/{judge_id(self.board.any.system, self.board.key.track)}.html"

    @property
    def data(self) -> str:
        """The data set and its split."""
        return data_name(self.board.task, self.board.any.system)

    @property
    def conditions(self) -> str:
        """What it is run under, where that is not the usual."""
        conditions = json.loads(self.board.key.conditions)
        # A seed alone would say nothing: pools of another seed are other distractors.
        pools = conditions.pop("pools", {})
        words = [f"{name} {value}" for name, value in conditions.items()]
        words += [f"pools drawn with seed {pools['seed']}"] if "seed" in pools else []
        return ", ".join(words)

    @property
    def setup(self) -> str:
        """Common setup of its systems, in words, if the board requires one."""
        part = part_of(self.board.key.field)
        return "" if part is None else part.setup_words(json.loads(self.board.key.setup))

    @property
    def sessions(self) -> bool:
        """Whether its tests know which records come from one session."""
        return bool(self.board.any.system.sessions(self.board.key.track))

    @property
    def unproven(self) -> bool:
        """Whether a score on it could not be recomputed."""
        return any(not row.recomputed for row in (*self.board.standings, *self.board.floor_systems))

    @property
    def tested(self) -> bool:
        """Whether any system has a rank."""
        return any(row.rank is not None for row in self.board.standings)

    @property
    def leaders(self) -> list[RankedSystem]:
        """The systems that none is shown to be better than; none where nothing was tested."""
        rows = self.board.standings
        return [row for row in rows if row.rank is not None and row.rank.best == 1]

    @property
    def page(self) -> str:
        """Link to the whole board."""
        return f"{self.root}{page_of(self.board.task)}#{self.board.id}"

    @property
    def file(self) -> str:
        """The way to its data, without the suffix."""
        return f"{self.root}data/{self.board.id}"


def view(
    board: Board,
    *,
    root: str = "",
    most: int | None = None,
    brief: bool = False,
    first: bool = True,
) -> BoardView:
    """Return a board as a page shows it; only the first of a track shows reference rows."""
    table = board_table(board, root=root, most=most, brief=brief, reported=first)
    return BoardView(board, table, root)


def judge_id(system: SiteSystem, track: str) -> str:
    """Return the id of the page of a track's judge."""
    # Anybody may name a judge; a fingerprint is of its model, settings and rubrics.
    return str(system.tracks[track]["judge_fingerprint"].value)


def data_name(task: Task, system: SiteSystem) -> str:
    """Return the data set that a system was run on, and its split; files of its own have none."""
    card = system.run(task.track)["data"]
    split = f" {card['split'].value}" if task.data.open_records is None else ""
    return f"{card['name'].value}{split}"


def page_of(task: Task) -> str:
    """Return the page with the boards of a track."""
    return f"{task.page}.html"


def records_folder(task: Task) -> str:
    """Return the folder of the records of a track: pools of every size share one."""
    return task.track if task.data.pool_size is None else task.place.partition("/")[0]


def record_file(name: str) -> str:
    """Return the file of the page of a record."""
    # An id may hold a colon, which a link could not begin with.
    return f"{name.replace(':', '-')}.html"


def answer_id(track: str, slug: str) -> str:
    """Return the id of a system's answer on the page of a record."""
    return f"{track}-{slug}"


# Pages below a folder belong to the page that lists them.
_LISTED = {"systems": "systems.html", "judges": "judges.html", "records": "records/index.html"}


def _navigation(tasks: Sequence[str]) -> dict[str, dict[str, str]]:
    """Return the pages of the navigation, by group and heading."""
    boards = {"Overview": "index.html"}
    for name in tasks:
        tracks = [task for task in board_tracks().values() if task.name == name]
        heading = tracks[0].heading if len(tracks) == 1 else name.capitalize()
        boards[heading] = f"{name}.html"
    return {
        "Boards": boards,
        "Systems": {"All systems": "systems.html", "Records": "records/index.html"},
        "Judges": {"Judges": "judges.html"},
        "About": {
            "How to read this site": "about.html",
            "Reference scores": "references.html",
            "Changes": "changes.html",
        },
    }


def _is_in(here: str, pages: Iterable[str]) -> bool:
    """Tell whether a page is one of some pages, or listed by one of them."""
    folder, _, rest = here.partition("/")
    listed = _LISTED.get(folder, "") if rest else f"{here.partition('-')[0]}.html"
    return not {here, listed}.isdisjoint(pages)


class Renderer:
    """Renders the templates into the files of a site."""

    def __init__(self, out: Path, content: Content) -> None:
        self.out, self.content = out, content
        self.pages = self.bytes = 0
        self._environment = page_environment(TEMPLATES)
        self._environment.filters.update(foreign=foreign, metric_title=metric_title)
        self._environment.globals.update(
            figure=figure,
            computed=computed,
            whole=whole,
            money=money,
            seconds=seconds,
            pair=pair,
            page_of=page_of,
            navigation=_navigation(content.tasks),
            is_in=_is_in,
            official=official(),
            KINDS=KINDS,
            MEANINGS=MEANINGS,
            letter_of=letter_of,
            level=f"{100 * (1 - SIGNIFICANT):.0f} %",
            # Not the day of the build: the same submissions give the same bytes.
            latest=max((system.card.submitted for system in content.systems), default=""),
        )

    def write(self, name: str, template: str, /, **values: Any) -> None:
        """Render a template into the file `name`; links in it begin with `root`."""
        root = "../" * name.count("/")
        page = self._environment.get_template(template).render(root=root, here=name, **values)
        self.put(name, page)
        self.pages += 1

    def part(self, template: Path, **values: Any) -> Markup:
        """Render the template of an extension, as a part of a page."""
        text = template.read_text(encoding="utf-8")
        return Markup(self._environment.from_string(text).render(**values))

    def put(self, name: str, text: str) -> None:
        """Write a file of the site."""
        path = self.out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        # A lone surrogate in one submission must not stop the site.
        data = text.encode("utf-8", "replace")
        path.write_bytes(data)
        self.bytes += len(data)
