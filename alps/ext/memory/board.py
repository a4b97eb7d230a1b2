"""Memory systems on boards: packing, verification and display, loaded on demand."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from alps.extension import load
from alps.leaderboard.parts import BoardPart
from alps.leaderboard.submission import public_name, without_folders

if TYPE_CHECKING:
    from alps.leaderboard.checks.rows import TrackRows
    from alps.leaderboard.gold_data import GoldTrack
    from alps.leaderboard.pages.common import Renderer
    from alps.leaderboard.site_data import SiteSystem
    from alps.leaderboard.verify import TrackCheck
    from alps.run.opened import RunFolder


def _by(where: str) -> Any:
    """Return a method that is a function of this folder; its module is loaded when it is called."""

    def method(part: BoardPart, *given: Any, **named: Any) -> Any:
        return load(f"alps.ext.memory.{where}")(*given, **named)

    return method


class MemoryBoardPart(BoardPart):
    """The memory systems of a submission; `BoardPart` says what each method is called for."""

    difference_title = "Δ from no memory"

    run_card = _by("board_packing:memory_card")
    check_card = _by("board_checks:check_memory")
    check_scores = _by("board_checks:check_recomputed")
    check_all = _by("board_readers:check_same_reader")
    behind = _by("board_checks:behind_memory")
    setup = _by("board_setup:setup_of")
    setup_words = _by("board_setup:words_of")
    differences = _by("board_readers:differences")
    beside = _by("board_setup:rows_beside")
    under_name = _by("board_pages:under_name")
    sections = _by("board_pages:sections")
    download = _by("board_pages:download")

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

    def check_answers(self, check: "TrackCheck", gold: "GoldTrack", rows: "TrackRows") -> None:
        """Compare the answers of a track with the hits in the diary of its run."""
        from alps.ext.memory.board_checks import check_hits, check_stray_hits

        diary = (check.notes[self] or {}).get(check.track.run)
        if diary is not None:
            check_hits(check.card, gold, rows, diary, check.findings)
            check_stray_hits(check.name, gold, diary, check.findings)

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
