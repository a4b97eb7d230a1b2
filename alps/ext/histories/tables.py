"""What is shown of a run on a set beside its scores: which files, and what intervals rest on."""

from collections.abc import Iterable

from alps.ext.histories import SETS
from alps.rows import Summary
from alps.show.parts import ShownPart


class Shown(ShownPart):
    """Notes on runs of sets."""

    def notes(self, summary: Summary) -> Iterable[str]:
        """Say of which judgement the score is, and what its intervals can tell."""
        for track in summary.tracks:
            if track in SETS:
                yield (
                    f"{track}: «right answers» is our strict judgement, one for all sets; figures "
                    "of the authors' scoring are named so"
                )
