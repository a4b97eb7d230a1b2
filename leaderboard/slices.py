"""Slices of the records of a track: a system's mean score by script, length and memories.

Only of the package's own data: of others the site holds no records.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from alps.leaderboard.gold_data import SampleTrack
from alps.rows import Interval
from alps.stats.bootstrap import clustered_mean
from alps.stats.lengths import LENGTHS, length_thirds
from alps.tasks import Metric
from alps.text import script_of, texts_of

# Of fewer records a mean says nothing.
FEWEST = 3
SCRIPT, LENGTH, MEMORY = "script of the input", "length of the input", "gold memories"

# The ids of the records in each group, by trait.
Groups = Mapping[str, Mapping[str, list[str]]]


@dataclass(frozen=True)
class Slice:
    """The mean of a system on the records of one group."""

    trait: str
    group: str
    score: Interval


def groups_of(track: SampleTrack) -> Groups:
    """Return the ids of the records in each group of every trait that has several groups."""
    asked = {}
    for name, sample in track.samples.items():
        asked[name] = texts_of(track.task.input_row(sample).get("input"))
    lengths = [len(text) for text in asked.values()]
    thirds: dict[str, list[str]] = {third: [] for third in LENGTHS}
    scripts: dict[str, list[str]] = {}
    for (name, text), third in zip(asked.items(), length_thirds(lengths), strict=True):
        thirds[third].append(name)
        scripts.setdefault(script_of(text), []).append(name)
    traits = {SCRIPT: scripts, LENGTH: thirds, MEMORY: _by_memory(track)}
    found: dict[str, dict[str, list[str]]] = {}
    for trait, groups in traits.items():
        large = {group: names for group, names in groups.items() if len(names) >= FEWEST}
        if len(large) > 1:
            found[trait] = large
    return found


def _by_memory(track: SampleTrack) -> dict[str, list[str]]:
    """Return the records by what their gold memories are about; a record may be in several."""
    groups: dict[str, list[str]] = {}
    for name, sample in track.samples.items():
        gold = track.task.public.gold(sample) if sample.gold is not None else ()
        # A label is a path; other remarks are none.
        for top in {remark.partition("/")[0] for _, _, remark in gold if "/" in remark}:
            groups.setdefault(top.replace("_", " "), []).append(name)
    return dict(sorted(groups.items()))


def slices_of(
    records: Mapping[str, float], groups: Groups, sessions: Mapping[str, str], metric: Metric
) -> Iterator[Slice]:
    """Yield the mean of a system on each group, with its interval by session."""
    for trait, members in groups.items():
        for group, names in members.items():
            scored = [name for name in names if name in records]
            if len(scored) < FEWEST:
                continue
            values = np.array([records[name] for name in scored])
            clusters = [sessions.get(name, name) for name in scored]
            mean = clustered_mean(values, clusters, bounds=(metric.lowest, metric.highest))
            score = Interval(value=mean.value, low=mean.low, high=mean.high, n=len(scored))
            yield Slice(trait, group, score)
