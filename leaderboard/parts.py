"""Parts of extensions on boards: packing, verification and display of submissions.

A part is loaded where a card has its field, where the settings of a run name it, or where a
maintainer writes a review. Of a plain submission none is.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup
from pydantic import BaseModel

from alps.errors import UsageError
from alps.extension import extensions, load
from alps.leaderboard.submission import PublishedTrack, Submission, SubmissionEntry, memory_of_run
from alps.rows import Corrected
from alps.tasks import Metric, Task

if TYPE_CHECKING:
    from alps.leaderboard.cards import SubmitterDetails
    from alps.leaderboard.checks import Findings
    from alps.leaderboard.checks.rows import TrackRows
    from alps.leaderboard.gold_data import GoldTrack
    from alps.leaderboard.pages import FilePlace
    from alps.leaderboard.pages.board_table import BoardColumn, BoardSection
    from alps.leaderboard.pages.common import Renderer
    from alps.leaderboard.ranking import Board, People, RankedSystem, RowBeside
    from alps.leaderboard.recompute import Rows
    from alps.leaderboard.settings import RescoreSettings
    from alps.leaderboard.site_data import SiteSystem
    from alps.leaderboard.verify import CheckedTrack, TrackCheck
    from alps.run.opened import RunFolder
    from alps.systems import System as Answering

MEMORY, AUDIT, CORRECTED, PEOPLE = "memory", "audit", "corrected", "people"
"""Fields of the format that extensions fill: of a card, a track, a score; and the row of people."""


@dataclass(frozen=True)
class BoardDifference:
    """How far a system is ahead of its own run without what a board is about.

    Attributes:
        value: The place of the difference; None where there is none.
        reason: Why there is none, and so no rank.
        note: What a reader of the board should know of it.
        scores: What that other run scored on each record, by metric.
    """

    value: "FilePlace | None" = None
    reason: str = ""
    note: str = ""
    scores: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


class BoardPart:
    """The part of an extension on boards; a method that it does not define does nothing.

    All methods but those of pages may raise an `AlpsError`. What a submission can hold is given by
    its format: fields and files that it does not have are refused when a run is packed. A part may
    check submissions of runs with its setting, and show what their cards say. Where `on_card` is a
    setting, `public_name`, `corrected`, `to_compare`, `behind`, `judge_sample`, `setup`,
    `setup_words`, `people`, `under_name`, `sections` and `download` are never called: they are of
    the fields of the format.
    """

    difference_title = ""
    """The title of the column of differences, on boards that sort by one."""

    # Packing.
    def stopped(self, run: "RunFolder") -> "RunFolder | None":
        """Return a run that the extension stopped, with a summary of no scores; None of others."""
        return None

    def public_name(self, name: str) -> str:
        """Return the published form of a name in the settings of a run."""
        return name

    def track_rows(self, run: "RunFolder", name: str) -> Mapping[str, list[dict[str, Any]]]:
        """Return rows of a track that are published besides its own, by the name of their file.

        The format of submissions must have the file: `audit` is the only one of an extension.
        """
        return {}

    def track_card(self, run: "RunFolder", name: str, files: Mapping[str, Any]) -> dict[str, Any]:
        """Return fields of the card of a track, of those that the format has."""
        return {}

    def run_card(
        self,
        folder: Path,
        run: "RunFolder",
        index: int,
        details: "SubmitterDetails",
        *,
        calls: bool,
        verdicts: bool,
    ) -> dict[str, Any] | None:
        """Write files of the run at `index` below `folder`; return their card.

        The format must have a field of the name that the part is known by, as it has `memory`.
        """
        return None

    # Verification, in the order in which it is called.
    def check_card(self, folder: Path, card: Submission, findings: "Findings") -> Any:
        """Check what needs no records; return notes, which checks of its tracks find again."""
        return None

    def check_rows(self, check: "TrackCheck", rows: "TrackRows", findings: "Findings") -> None:
        """Check the rows of a track before they are held against its records."""

    def check_answers(self, check: "TrackCheck", gold: "GoldTrack", rows: "TrackRows") -> None:
        """Check rows that are in order, with the records of the track."""

    def check_scores(self, check: "TrackCheck", checked: "CheckedTrack") -> None:
        """Check a track that was scored again."""

    def check_all(self, folder: Path, card: Submission, findings: "Findings") -> None:
        """Check the submission as a whole, among the others in its folder."""

    def corrected(
        self, gold: "GoldTrack", track: PublishedTrack, predictions: "Rows", scores: "Rows"
    ) -> dict[str, Corrected]:
        """Return the corrected scores of a track that was scored again, by metric."""
        return {}

    def to_compare(self, corrected: Mapping[str, Any]) -> dict[str, Any]:
        """Return what of a corrected score is the same wherever it is recomputed."""
        return dict(corrected)

    def behind(self, system: "Answering", gold: "GoldTrack") -> "Answering":
        """Return a system of ours as a run of a track asked it."""
        return system

    # A maintainer's review.
    def review(self, entry: SubmissionEntry) -> dict[str, Any]:
        """Return fields of a review that a submission gets."""
        return {}

    def judge_sample(
        self,
        entry: SubmissionEntry,
        source: Path,
        settings: "RescoreSettings",
        judging: Mapping[str, Any],
    ) -> dict[str, dict[str, Any]]:
        """Judge a share of the answers of a run again; return its tracks as a review has them."""
        raise NotImplementedError

    # Boards.
    def setup(self, card: Submission, track: str, task: Task) -> dict[str, Any] | None:
        """Return what else must be the same for two systems to be ranked together, if any."""
        return None

    def setup_words(self, setup: Mapping[str, Any]) -> str:
        """Return a setup in words."""
        return ""

    def differences(
        self, systems: "Sequence[SiteSystem]", track: str
    ) -> dict[str, BoardDifference]:
        """Return the differences that a board of a track sorts by, by the slug of the system."""
        return {}

    def beside(self, system: "SiteSystem", track: str) -> "Iterator[RowBeside]":
        """Yield the comparison rows of a system, which are never ranked."""
        return iter(())

    def people(self, path: Path) -> "People":
        """Read how far people agree."""
        raise NotImplementedError

    # Pages.
    def columns(
        self, board: "Board"
    ) -> "Sequence[tuple[BoardColumn, Callable[[RankedSystem], Markup]]]":
        """Return further columns of a board, each with what makes a cell of it."""
        return ()

    def under_name(self, board: "Board", row: "RankedSystem") -> Markup:
        """Return the line below the name of a system."""
        return Markup()

    def sections(
        self, board: "Board", shown: Sequence[Metric], width: int
    ) -> "Iterator[BoardSection]":
        """Yield sections of rows below the ranked ones."""
        return iter(())

    def download(self, board: "Board", row: "RankedSystem") -> dict[str, Any]:
        """Return fields of the row of a system in downloads."""
        return {}

    def on_page(self, renderer: "Renderer", system: "SiteSystem") -> Iterator[Markup]:
        """Yield sections of the page of a system."""
        return iter(())

    def under_answers(self, system: "SiteSystem", track: str) -> Callable[[str], str]:
        """Return the HTML below the answer of a system to a record."""
        return lambda record: ""


@cache
def part_of(name: str) -> BoardPart | None:
    """Return the part that a field of the format, or a setting, belongs to."""
    for extension in extensions():
        if extension.board and extension.on_card == name:
            return _loaded(extension.board)
    return None


def check_filled(name: str, given: Iterable[str], kind: type[BaseModel], method: str) -> None:
    """Refuse what a part, by its field or setting, would add that a submission has no field for.

    Raises:
        UsageError: If there is any; names the extension.
    """
    for filled in given:
        if filled not in kind.model_fields:
            names = [one.name for one in extensions() if one.board and one.on_card == name]
            fault = f"{method} of its board part returns {filled}, which no submission can have"
            raise UsageError(f"extension {names[0]}: {fault}; return nothing under this name")


@cache
def _loaded(where: str) -> BoardPart:
    part = load(where)
    assert isinstance(part, BoardPart)
    return part


def needed(name: str) -> BoardPart:
    """Return the part of a field that can't be handled without it.

    Raises:
        UsageError: If its extension is not here.
    """
    if (part := part_of(name)) is None:
        raise UsageError(f"{name}: the extension for this field is not installed")
    return part


def all_parts() -> list[BoardPart]:
    """Return the parts of all extensions."""
    return [_loaded(extension.board) for extension in extensions() if extension.board]


def parts_of(card: Submission) -> list[BoardPart]:
    """Return the parts that have to do with a submission, in the order of the format."""
    settings = [run.settings for run in card.runs]
    return list(dict.fromkeys(_parts(fields_of(card), settings).values()))


def fields_of(card: Submission) -> list[str]:
    """Return the fields of the format that extensions fill, as far as a card has them."""
    tracks = card.tracks.values()
    fields = []
    if card.memory or any(memory_of_run(run.settings) is not None for run in card.runs):
        fields.append(MEMORY)
    if any(track.audit is not None or track.files.audit is not None for track in tracks):
        fields.append(AUDIT)
    return fields


def parts_of_run(run: "RunFolder") -> dict[str, BoardPart]:
    """Return the parts that have to do with a run that is packed, by their field or setting."""
    settings = run.manifest.settings
    fields = [] if memory_of_run(settings) is None else [MEMORY]
    if run.summary is not None and run.finished.audit is not None:
        fields.append(AUDIT)
    return _parts(fields, [settings])


def _parts(fields: Sequence[str], settings: Sequence[Mapping[str, Any]]) -> dict[str, BoardPart]:
    names = dict.fromkeys(fields)
    for of_run in settings:
        typed = sorted(name for name, value in of_run.items() if value is not None)
        names |= dict.fromkeys(name for name in typed if name not in (MEMORY, AUDIT))
    found = {name: part_of(name) for name in names}
    return {name: part for name, part in found.items() if part is not None}
