"""Memory systems on boards: packing, verification and display, loaded on demand."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from alps.leaderboard.parts import BoardDifference, BoardPart
from alps.leaderboard.submission import Submission, public_name, without_folders
from alps.tasks import Metric, Task

if TYPE_CHECKING:
    from alps.ext.memory.board_checks import PackedDiary
    from alps.leaderboard.cards import SubmitterDetails
    from alps.leaderboard.checks.rows import TrackRows
    from alps.leaderboard.findings import Findings
    from alps.leaderboard.gold_data import GoldTrack
    from alps.leaderboard.pages.board_table import BoardSection
    from alps.leaderboard.pages.common import Renderer
    from alps.leaderboard.ranking import Board, RankedSystem, RowBeside
    from alps.leaderboard.site_data import SiteSystem
    from alps.leaderboard.verify import CheckedTrack, TrackCheck
    from alps.run.opened import RunFolder
    from alps.systems import System as Answering


class MemoryBoardPart(BoardPart):
    """The memory systems of a submission."""

    difference_title = "Δ from no memory"

    def stopped(self, run: "RunFolder") -> "RunFolder | None":
        """Return a run that a check of admission stopped, with a summary of no scores."""
        from alps.ext.memory.board_packing import stopped_by, without_scores

        fault = stopped_by(run)
        return None if fault is None else without_scores(run, fault)

    def public_name(self, name: str) -> str:
        """Return the name of a memory without folders and hosts."""
        from alps.ext.memory.resolve import HTTP, MCP

        if name.startswith(HTTP):
            return name.partition(":")[0]
        return without_folders(name) if name.startswith(MCP) else public_name(name)

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
        """Write the files of a run's memory system; return their card."""
        from alps.ext.memory.board_packing import memory_card

        return memory_card(folder, run, index, details, calls=calls, verdicts=verdicts)

    def check_card(
        self, folder: Path, card: Submission, findings: "Findings"
    ) -> "dict[int, PackedDiary]":
        """Check admission, phases and diary; return the diaries by run."""
        from alps.ext.memory.board_checks import check_memory

        return check_memory(folder, card, findings)

    def check_answers(self, check: "TrackCheck", gold: "GoldTrack", rows: "TrackRows") -> None:
        """Compare the answers of a track with the hits in the diary of its run."""
        from alps.ext.memory.board_checks import check_hits, check_stray_hits

        diary = (check.notes[self] or {}).get(check.track.run)
        if diary is not None:
            check_hits(check.card, gold, rows, diary, check.findings)
            check_stray_hits(check.name, gold, diary, check.findings)

    def check_scores(self, check: "TrackCheck", checked: "CheckedTrack") -> None:
        """Check the comparison rows of a run, and every difference from no memory."""
        from alps.ext.memory.board_checks import check_recomputed

        check_recomputed(check, checked)

    def check_all(self, folder: Path, card: Submission, findings: "Findings") -> None:
        """Compare its runs without memory with those of other submissions with the same reader."""
        from alps.ext.memory.board_readers import check_same_reader

        check_same_reader(folder, card, findings)

    def behind(self, system: "Answering", gold: "GoldTrack") -> "Answering":
        """Return a system of ours behind the memory of its run."""
        from alps.ext.memory.board_checks import behind_memory

        return behind_memory(system, gold)

    def setup(self, card: Submission, track: str, task: Task) -> dict[str, Any] | None:
        """Return how the memory system of a track was run; None where it had none."""
        from alps.ext.memory.board_setup import setup_of

        return setup_of(card, track, task)

    def setup_words(self, setup: Mapping[str, Any]) -> str:
        """Describe how memory systems were run."""
        from alps.ext.memory.board_setup import words_of

        return words_of(setup)

    def differences(
        self, systems: "Sequence[SiteSystem]", track: str
    ) -> dict[str, BoardDifference]:
        """Return how far memory systems are ahead of no memory."""
        from alps.ext.memory.board_readers import differences

        return differences(systems, track)

    def beside(self, system: "SiteSystem", track: str) -> "Iterator[RowBeside]":
        """Yield the same reader with other memories."""
        from alps.ext.memory.board_setup import rows_beside

        return rows_beside(system, track)

    def under_name(self, board: "Board", row: "RankedSystem") -> Markup:
        """Return which memory it is, how it was called, and why it has no place."""
        from alps.ext.memory.board_pages import under_name

        return under_name(board, row)

    def sections(
        self, board: "Board", shown: Sequence[Metric], width: int
    ) -> "Iterator[BoardSection]":
        """Yield the comparison rows of a board."""
        from alps.ext.memory.board_pages import sections

        return sections(board, shown, width)

    def download(self, board: "Board", row: "RankedSystem") -> dict[str, Any]:
        """Return the memory of a system, and how far it is ahead of none."""
        from alps.ext.memory.board_pages import download

        return download(board, row)

    def on_page(self, renderer: "Renderer", system: "SiteSystem") -> Iterator[Markup]:
        """Yield a section for each memory system of a submission."""
        from alps.ext.memory.board_pages import TEMPLATE, memories

        for index, memory in enumerate(memories(system)):
            yield renderer.part(TEMPLATE, memory=memory, index=index)

    def under_answers(self, system: "SiteSystem", track: str) -> Callable[[str], str]:
        """Return what lists the hits of a record."""
        from alps.ext.memory.board_pages import listed_hits
        from alps.ext.memory.board_setup import hits

        found = hits(system, track)
        return lambda record: listed_hits(found, record)


BOARD = MemoryBoardPart()
