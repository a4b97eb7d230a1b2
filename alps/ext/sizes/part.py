"""The part of sizes in a run: the reader is asked again with less of the same history."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from alps.ext.memory.settings import MemoryKeys
from alps.ext.sizes import smaller_sizes
from alps.ext.sizes.run import folder_of, has_sizes, run_sizes, shown_less, with_curves
from alps.rows import Summary
from alps.run.collector import Outcome
from alps.run.engine import TrackPlan
from alps.run.folder import write_whole
from alps.run.opened import PREDICTIONS
from alps.run.parts import Course, RunPart
from alps.run.progress import Advance
from alps.run.source import RunData
from alps.settings import RunSettings


class Part(RunPart):
    """The smaller sizes of one run."""

    def __init__(self, settings: RunSettings) -> None:
        super().__init__(settings)
        self._sizes: Sequence[int] = smaller_sizes(settings)
        self._outcomes: Mapping[int, Mapping[str, Outcome]] = {}

    def place(self, source: Path, folder: Path) -> None:
        """Bring the predictions at smaller sizes; what was submitted has only the largest."""
        self._sizes = [
            size for size in self._sizes if (folder_of(source, size) / PREDICTIONS).is_file()
        ]
        for size in self._sizes:
            folder_of(folder, size).mkdir(parents=True, exist_ok=True)
            lines = (folder_of(source, size) / PREDICTIONS).read_bytes()
            write_whole(folder_of(folder, size) / PREDICTIONS, lines)

    def more_records(self, data: RunData) -> int:
        """Return how many answers are asked for at smaller sizes."""
        return len(self._sizes) * sum(track.n for track in data.tracks if has_sizes(track.task))

    async def more(self, course: Course, progress: Advance) -> None:
        """Ask and judge the tracks at smaller sizes."""
        folder = course.session.folder
        self._outcomes = await run_sizes(course.plan, self._sizes, folder, progress=progress)

    def summarise(self, summary: Summary, course: Course) -> Summary:
        """Add the curve of each track that was asked at several sizes."""
        if not self._sizes:
            return summary
        largest = MemoryKeys.of(self.settings).most_context, course.outcomes
        return with_curves(summary, course.plan, largest, self._outcomes, course.session.folder)

    def rounds(self, plans: Sequence[TrackPlan]) -> Iterator[tuple[str, Sequence[TrackPlan]]]:
        """Yield what is evaluated at each smaller size."""
        for size in self._sizes:
            yield str(folder_of(Path(), size)), shown_less(plans, size)
