"""The submissions as the site reads them: the checked card, and the very values in its files."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic_core import from_json

from alps.errors import DataError, UsageError
from alps.judges.lexical import LexicalJudge
from alps.leaderboard.origin import Place
from alps.leaderboard.reading import LARGEST_FILE, open_plain
from alps.leaderboard.recompute import judge_of
from alps.leaderboard.reviewed import contradictions, same_judge
from alps.leaderboard.samples import Track, known_track
from alps.leaderboard.submission import (
    CARD,
    NO_JUDGE,
    REFUTED,
    REVIEW,
    Entry,
    Submission,
    read_entry,
)
from alps.leaderboard.truth import SAMPLES


@dataclass(frozen=True)
class System:
    """One submission; `root` is its `submission.json`, in which every number of it stands."""

    entry: Entry
    root: Place
    review: Place

    @property
    def card(self) -> Submission:
        """The checked card."""
        return self.entry.card

    @property
    def slug(self) -> str:
        """The name of its folder."""
        return self.card.slug

    @property
    def is_floor(self) -> bool:
        """Whether it deserves nothing: shown, never ranked."""
        return self.card.system.kind == "floor"

    @cached_property
    def refuted(self) -> bool:
        """Whether a maintainer's second judgement contradicts a score that was submitted."""
        review = self.entry.review
        return review is not None and (
            review.status == REFUTED or bool(contradictions(self.card, review))
        )

    @property
    def status(self) -> str:
        """How far it is confirmed."""
        return REFUTED if self.refuted else self.entry.status

    def again(self, track: str, metric: str) -> Place | None:
        """Return the place of a maintainer's score under the same judge.

        It stands for the submitted one.
        """
        if not same_judge(self.card, self.entry.review, track, metric):
            return None
        found = self.review["tracks"][track]["scores"][metric]
        return found if found["value"] else None

    @cached_property
    def tracks(self) -> dict[str, Place]:
        """The places of its tracks."""
        return dict(self.root["tracks"].items())

    def run(self, track: str) -> Place:
        """Return the place of the run that a track comes from."""
        return self.root["runs"][self.card.tracks[track].run]

    def recomputed(self, track: str, metric: str) -> bool:
        """Tell whether a score came out again when the submission was verified.

        It did where the records are the package's own, if its verdicts are there or none is needed,
        and else where a maintainer's review says so.
        """
        card = self.card.tracks[track]
        run, review = self.card.runs[card.run], self.entry.review
        if review is not None and track in review.recomputed:
            return True
        if run.data.name != SAMPLES or self._own(track) is None:
            return False
        decided = metric in NO_JUDGE or card.files.verdicts is not None
        return decided or isinstance(judge_of(card, run), LexicalJudge)

    def sessions(self, track: str) -> dict[str, str]:
        """Return the session of every record of a track.

        Nothing where the data are not the package's own.
        """
        own = self._own(track)
        return own.sessions if own is not None else {}

    def _own(self, track: str) -> Track | None:
        """Return the package's own track where the data are its, with pools as this run drew them."""
        card = self.card.tracks[track]
        return known_track(
            track, card.data_sha256, self.card.runs[card.run].settings.get("seed", 0)
        )

    def rows(self, track: str, stage: str) -> Iterator[dict[str, Any]]:
        """Yield the rows of a file of a track, one line in memory at a time.

        None where there is no such file.

        Raises:
            DataError: If the file or a row can't be read; names the line.
        """
        if stage not in self.card.tracks[track].files.present():
            return
        path = self.entry.folder / track / f"{stage}.jsonl"
        try:
            file = open_plain(path, LARGEST_FILE)
        except ValueError as error:
            raise DataError(str(error), path=path) from error
        with file:
            for number, line in enumerate(file, start=1):
                try:
                    row = from_json(line, allow_inf_nan=False)
                except ValueError as error:
                    raise DataError(
                        "not JSON; alps verify tells more", path=path, line=number
                    ) from error
                if not isinstance(row, dict) or not isinstance(row.get("benchmark_id"), str):
                    raise DataError(
                        "no row with a benchmark_id; alps verify tells more", path=path, line=number
                    )
                yield row


def load(submissions: Path) -> list[System]:
    """Read every submission below `submissions`, in the order of their names.

    Raises:
        UsageError: If there is no such folder.
        DataError: If one can't be read, or its folder has another name than its slug.
    """
    if not submissions.is_dir():
        raise UsageError(
            f"{submissions}: no such folder; submissions= takes the folder that holds them"
        )
    found = []
    for folder in sorted(path for path in submissions.iterdir() if (path / CARD).is_file()):
        entry = read_entry(folder)
        if entry.card.slug != folder.name:
            raise DataError(
                f"is '{entry.card.slug}' in a folder called otherwise",
                path=folder / CARD,
                field="slug",
            )
        found.append(System(entry, _place(folder, CARD), _place(folder, REVIEW)))
    return found


def _place(folder: Path, name: str) -> Place:
    path = folder / name
    value = from_json(path.read_bytes()) if path.is_file() else None
    return Place(f"{folder.name}/{name}", "", value)
