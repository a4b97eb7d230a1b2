"""Data of the site: the submissions as they lie in their files."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic_core import from_json

from alps.errors import DataError, UsageError
from alps.ext.memory import FILE
from alps.ext.memory.comparison_runs import FOLDER as BESIDE
from alps.judges.embedded import LexicalJudge
from alps.leaderboard.audit_draws import drawn_by_a_maintainer
from alps.leaderboard.contradictions import contradictions, same_judge
from alps.leaderboard.gold_data import SampleTrack, known_track
from alps.leaderboard.provenance import Place
from alps.leaderboard.recompute import judge_of
from alps.leaderboard.submission import (
    CARD,
    REFUTED,
    REVIEW,
    SAMPLES,
    Entry,
    Submission,
    memory_folder,
    read_entry,
    without_memory,
)
from alps.tasks import all_tracks
from alps.tasks.by_memory import FULL


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

    @cached_property
    def slug(self) -> str:
        """The name of its folder."""
        return self.card.slug

    @property
    def is_floor(self) -> bool:
        """Whether it is a trivial baseline: shown, never ranked."""
        return self.card.system.kind == "floor"

    @cached_property
    def refuted(self) -> bool:
        """Whether a maintainer's second judgement contradicts a score that was submitted."""
        return self.entry.status == REFUTED or bool(contradictions(self.card, self.entry.review))

    @property
    def status(self) -> str:
        """How far it is confirmed."""
        return REFUTED if self.refuted else self.entry.status

    def again(self, track: str, metric: str) -> Place | None:
        """Return a maintainer's score under the same judge, which replaces the submitted one."""
        if not same_judge(self.card, self.entry.review, track, metric):
            return None
        score = self.review["tracks"][track]["scores"][metric]
        return score if score["value"] else None

    @cached_property
    def tracks(self) -> dict[str, Place]:
        """The places of its tracks."""
        return dict(self.root["tracks"].items())

    def run(self, track: str) -> Place:
        """Return the place of the run that a track comes from."""
        return self.root["runs"][self.card.tracks[track].run]

    def memory(self, track: Place) -> Place | None:
        """Return the place of the memory system of a track's run; None where it had none."""
        for n, memory in enumerate(self.card.memory or ()):
            if memory.run == track["run"].value:
                return self.root["memory"][n]
        return None

    def memory_name(self, track: str) -> str:
        """Return the published name of the memory of a track's run."""
        return str(self.run(track)["settings"]["memory"].value or FULL)

    def ahead(self, track: str) -> Place | None:
        """Return how far a memory system is ahead of no memory; None where that was not run."""
        memory = self.memory(self.tracks[track])
        ahead = memory["ahead"][track] if memory is not None else None
        return ahead if ahead is not None and ahead["value"] else None

    def no_difference(self, track: str) -> str:
        """Return why a memory system has no difference from no memory; empty where it has one."""
        if self.ahead(track) is not None:
            return ""
        memory = self.memory(self.tracks[track])
        reason = memory["ahead"][track]["reason"].value if memory is not None else None
        return str(reason or "no run without memory beside it")

    def beside(self, track: str) -> Iterator[tuple[str, Place, Place]]:
        """Yield the memory of each row beside a run, its track, and how far it is ahead of none."""
        memory = self.memory(self.tracks[track])
        for _, row in memory["beside"].items() if memory is not None else ():
            if row["tracks"][track]:
                name = str(row["run"]["settings"]["memory"].value or FULL)
                yield name, row["tracks"][track], row["ahead"][track]

    def hits(self, track: str) -> dict[str, list[Mapping[str, Any]]]:
        """Return what its memory system found on a track, by record and number of the search."""
        memory = self.card.memory_of(self.card.tracks[track].run)
        found: dict[str, list[Mapping[str, Any]]] = {}
        if memory is None:
            return found
        for row in self.entry.read(f"{memory_folder(memory)}/{FILE}", "phase"):
            of_track, _, name = str(row.get("sample")).partition(" ")
            hits = row.get("hits")
            # Rows of a submission that nobody verified are anybody's.
            if of_track == track and isinstance(hits, list):
                found[name] = [hit for hit in hits if isinstance(hit, dict)]
        return found

    def rows_without_memory(self, track: str) -> Iterator[dict[str, Any]]:
        """Yield the rows of the scores of the run without memory beside that of a track."""
        memory = self.card.memory_of(self.card.tracks[track].run)
        row = without_memory(memory, track) if memory is not None else None
        if memory is not None and row is not None:
            name = f"{memory_folder(memory)}/{BESIDE}/{row}/{track}/scores.jsonl"
            yield from self.entry.read(name, "benchmark_id")

    def recomputed(self, track: str, metric: str) -> bool:
        """Tell whether a score was recomputed when the submission was verified.

        It was where the records are the package's own, if its verdicts are there or none is needed,
        and else where a maintainer's review says so.
        """
        card = self.card.tracks[track]
        run, review = self.card.runs[card.run], self.entry.review
        if review is not None and track in review.recomputed:
            return True
        # Of other data only who has them can tell, and the site is built without them.
        if run.data.name != SAMPLES or self._own(track) is None:
            return False
        decided = metric in all_tracks()[track].unjudged or card.files.verdicts is not None
        return decided or isinstance(judge_of(card, run), LexicalJudge)

    def sessions(self, track: str) -> dict[str, str]:
        """Return the session of every record of a track; nothing where the data are not ours."""
        own = self._own(track)
        return own.sessions if own is not None else {}

    def _own(self, track: str) -> SampleTrack | None:
        card = self.card.tracks[track]
        seed = self.card.runs[card.run].settings.get("seed", 0)
        return known_track(track, card.data_sha256, seed, card.conditions)

    def audit_is_drawn(self, track: str) -> bool:
        """Tell whether a maintainer drew the sessions that a track's audit is of."""
        return drawn_by_a_maintainer(self.card, self.entry.review, track)

    def rows(self, track: str, stage: str) -> Iterator[dict[str, Any]]:
        """Yield the rows of a file of a track, as `Entry.rows` does."""
        return self.entry.rows(track, stage)


def load(submissions: Path) -> list[System]:
    """Read every submission below `submissions`, in the order of their names.

    Raises:
        UsageError: If there is no such folder.
        DataError: If one can't be read, or its folder has another name than its slug.
    """
    if not submissions.is_dir():
        hint = "submissions= takes the folder that holds them"
        raise UsageError(f"{submissions}: no such folder; {hint}")
    systems = []
    for folder in sorted(path for path in submissions.iterdir() if (path / CARD).is_file()):
        systems.append(load_one(folder))
    return systems


def load_one(folder: Path) -> System:
    """Read the submission in `folder`.

    Raises:
        DataError: If it can't be read, or its folder has another name than its slug.
    """
    entry = read_entry(folder)
    if entry.card.slug != folder.name:
        fault = f"is '{entry.card.slug}' in a folder called otherwise"
        raise DataError(fault, path=folder / CARD, field="slug")
    return System(entry, _root(folder, CARD), _root(folder, REVIEW))


def _root(folder: Path, name: str) -> Place:
    path = folder / name
    value = from_json(path.read_bytes()) if path.is_file() else None
    return Place(f"{folder.name}/{name}", "", value)
