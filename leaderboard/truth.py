"""The records that a submission says it is about, from the samples or from a folder that the reader
of it names.
"""

from dataclasses import dataclass
from typing import Any

from alps.errors import AlpsError
from alps.leaderboard.submission import RunCard, Track
from alps.run.source import Data, open_data, options_of
from alps.settings import RunSettings, parse_settings
from alps.tasks import Task, load_tracks
from alps.tasks.utilization import ABILITIES

SAMPLES = "samples"


@dataclass(frozen=True)
class Truth:
    """The records of one track, all of them in memory, with the task that scores them."""

    task: Task
    data: Data
    samples: tuple[Any, ...]
    sha256: str

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of the records, in their order."""
        return tuple(sample.benchmark_id for sample in self.samples)


def task_of(name: str, track: Track) -> Task:
    """Return the task of a track, under the conditions that its card gives.

    Raises:
        AlpsError: If there is no such track under them.
    """
    settings = _settings_of(name, track, data=SAMPLES, split=None, seed=0)
    return load_tracks(settings.task, options_of(settings))[0]


def open_truth(name: str, track: Track, run: RunCard, *, data: str, split: str | None) -> Truth:
    """Read the records of a track.

    Args:
        name: The track.
        track: Its card, for the conditions it was run under.
        run: The card of its run, for the seed of its pools.
        data: What `data=` takes; never a word of the submission itself.
        split: The split, None where there is only one.

    Raises:
        AlpsError: If they are not there, or can't be read.
    """
    seed = run.settings.get("seed", 0)
    settings = _settings_of(
        name, track, data=data, split=split, seed=seed if isinstance(seed, int) else 0
    )
    opened = open_data(settings)
    found = opened.tracks[0]
    return Truth(found.task, opened, tuple(found.samples()), str(found.description["sha256"]))


def data_for(run: RunCard, given: str | None) -> str | None:
    """Return the data to hold a run against: what was given, else the samples where it names them.

    None for neither.
    """
    return given if given is not None else SAMPLES if run.data.name == SAMPLES else None


def _settings_of(
    name: str, track: Track, *, data: str, split: str | None, seed: int
) -> RunSettings:
    values: dict[str, Any] = {
        "task": track.task,
        "model": "rules",
        "data": data,
        "split": split,
        "seed": seed,
    }
    place = name.partition("_")[2]
    if name.startswith("task3_"):
        values["distractors"] = place.removeprefix("d")
    elif name.startswith("task4_"):
        number = int(place.removeprefix("ability"))
        values["ability"] = next(ability.name for ability in ABILITIES if ability.number == number)
    settings = parse_settings({**values, **track.conditions}, RunSettings)
    if set(track.conditions) - {"condition", "window", "prompt", "scoring"}:
        raise AlpsError(f"conditions: unknown ones: {', '.join(sorted(track.conditions))}")
    return settings
