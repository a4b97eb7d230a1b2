"""Runs without memory of one reader on the same data, held against each other.

The difference of a memory system is from its own run without memory, which its submitter made. Of
one reader, asked alike, all such runs have the same expected score.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from alps.errors import AlpsError
from alps.ext.memory.board_setup import (
    ahead,
    no_difference,
    reader_of,
    rows_without_memory,
    without_memory,
)
from alps.leaderboard.checks import MOST_EXAMPLES, Findings
from alps.leaderboard.checks.card import is_own
from alps.leaderboard.checks.copies import others_beside, unreadable_beside
from alps.leaderboard.comparison import record_scores
from alps.leaderboard.gold_data import needs_reader, task_under
from alps.leaderboard.parts import BoardDifference
from alps.leaderboard.site_data import SiteSystem, load_one
from alps.leaderboard.submission import BESIDE, Submission, memory_folder
from alps.leaderboard.untrusted import shown
from alps.show.formatting import number
from alps.stats.paired import holm, mcnemar
from alps.tasks import Task, board_tracks
from alps.tasks.base import OF_MEMORY
from alps.text import letters

# Strict, as a difference takes both submissions out of the ranks.
SIGNIFICANCE = 0.01
"""The p, by Holm's method over the runs of one reader, at which two of them differ."""
ALONE = "no other submission has a run of this reader without memory to compare with"
# Sampling that moves what a reader is expected to score by less than its own chance does. Whoever
# set one of them anew would else have a reader that nobody else has.
_OF_CHANCE = ("temperature", "top_p", "frequency_penalty", "presence_penalty")
_DATED = re.compile(r"[-@]?20\d\d-?\d\d-?\d\d$")


@dataclass(frozen=True)
class HeldAgainst:
    """What runs without memory of other systems say of a system's own.

    Attributes:
        apart: How it differs from one of the same reader; empty where it doesn't. One of both is
            wrong, and nobody can tell which.
        otherwise: How it differs from one of the same model under other settings, which may be why.
        alone: Whether there is no other to hold it against.
    """

    apart: str = ""
    otherwise: str = ""
    alone: bool = False


def _asked_alike(system: SiteSystem, track: str, task: Task) -> tuple[str, str] | None:
    """Return what runs without memory share that are held against each other: model and settings.

    None where there is none beside the run of a track, or no reader.
    """
    card = system.card
    row = card.tracks[track]
    memory = card.memory_of(row.run)
    if memory is None or not needs_reader(task) or without_memory(memory, track) is None:
        return None
    conditions = {name: part for name, part in row.conditions.items() if name not in OF_MEMORY}
    # Scores under two judges differ though the answers are the same.
    judge = row.judge_fingerprint if task.headline.judged else None
    reader = reader_of(card.runs[row.run], task)
    name = str(reader.pop("reader", None)).casefold()
    settings = {key: value for key, value in reader.items() if key not in _OF_CHANCE}
    # A provider in front, a date behind: the same model, perhaps not to the digit.
    base = letters(_DATED.sub("", name.rpartition("/")[2]))[1]
    shared = json.dumps([row.data_sha256, row.n, conditions, judge, base], sort_keys=True)
    own = json.dumps([letters(name)[1], settings], sort_keys=True)
    return shared, own


def hold_against(
    systems: Sequence[SiteSystem], track: str, unread: dict[str, str] | None = None
) -> dict[str, HeldAgainst]:
    """Return by slug what others' runs without memory say of those of memory systems.

    `unread` takes the submissions whose rows can't be read, and why.

    Raises:
        AlpsError: If a row of one can't be read, and there is no `unread`.
    """
    groups: dict[str, dict[str, str]] = {}
    scores: dict[str, Mapping[str, float]] = {}
    readers: dict[str, str] = {}
    for system in systems:
        if track not in system.tracks or system.card.memory is None:
            continue
        try:
            task = task_under(track, system.card.tracks[track].conditions)
            asked = _asked_alike(system, track, task)
            own: Mapping[str, float] = {}
            if asked is not None:
                rows = record_scores(rows_without_memory(system, track), [task.headline])
                own = rows.get(task.headline.name, {})
        except AlpsError as error:
            if unread is None:
                raise
            unread[system.slug] = str(error)
            continue
        if asked is not None and own:
            model, settings = asked
            groups.setdefault(model, {})[system.slug] = settings
            scores[system.slug] = own
            run = system.card.runs[system.card.tracks[track].run]
            readers[system.slug] = str(run.settings.get("model"))
    held: dict[str, HeldAgainst] = {}
    for group in groups.values():
        held |= _in_group(group, scores, readers)
    return held


def _in_group(
    group: Mapping[str, str],
    scores: Mapping[str, Mapping[str, float]],
    readers: Mapping[str, str],
) -> dict[str, HeldAgainst]:
    """Return what the runs of one model say of each other; `group` has the settings by slug."""
    same: dict[str, list[str]] = {}
    for slug, settings in group.items():
        same.setdefault(settings, []).append(slug)
    apart: dict[str, str] = {}
    for slugs in same.values():
        apart |= differing({slug: scores[slug] for slug in slugs})
    otherwise = differing({slug: scores[slug] for slug in group})
    held = {}
    for slug in group:
        # Readers of ours are made again where they are verified.
        alone = len(group) == 1 and not is_own(readers[slug])
        words = {}
        for kind, found in (("apart", apart), ("otherwise", otherwise)):
            if (other := found.get(slug)) is not None:
                mine, others = (number(fmean(scores[name].values())) for name in (slug, other))
                whom = (
                    "the same reader" if kind == "apart" else "the same model with other settings"
                )
                words[kind] = (
                    f"without memory, its reader scores {mine}, but in {other}, {whom} scores "
                )
                words[kind] += f"{others}; the difference is significant (p ≤ {SIGNIFICANCE})"
        if "apart" in words or group[slug] == group.get(otherwise.get(slug, "")):
            words.pop("otherwise", None)
        held[slug] = HeldAgainst(**words, alone=alone)
    return held


def differing(scores: Mapping[str, Mapping[str, float]]) -> dict[str, str]:
    """Return the systems whose run without memory differs, each with one that it differs from.

    That is the run of the median score. Of two that differ nobody can tell which is wrong: both
    are named. `scores` has by system what its reader scored on each record without memory.
    """
    order = sorted(scores, key=lambda name: (fmean(scores[name].values()), name))
    if len(order) < 2:
        return {}
    # Against the median alone: a single forged run can't make all the others differ.
    middle = order.pop(len(order) // 2)
    ps = holm([_sign_test(scores[name], scores[middle]) for name in order])
    apart = {}
    for name, p in zip(order, ps, strict=True):
        if p <= SIGNIFICANCE:
            apart[name] = middle
    if apart and len(order) == 1:
        apart[middle] = order[0]
    return apart


def _sign_test(one: Mapping[str, float], other: Mapping[str, float]) -> float:
    # Between two runs of one reader only its own chance is left, which is drawn record by record:
    # records of one session are as independent as others.
    shared = one.keys() & other.keys()
    higher = sum(one[name] > other[name] for name in shared)
    lower = sum(one[name] < other[name] for name in shared)
    return mcnemar(higher, lower).p


def differences(systems: Sequence[SiteSystem], track: str) -> dict[str, BoardDifference]:
    """Return by slug how far memory systems are ahead of no memory, and what others' runs say."""
    held, found = hold_against(systems, track), {}
    for system in systems:
        if track not in system.tracks or system.card.memory is None:
            continue
        none = held.get(system.slug, HeldAgainst())
        note = none.otherwise or (ALONE if none.alone else "")
        if reason := none.apart or no_difference(system, track):
            found[system.slug] = BoardDifference(reason=reason, note=note)
            continue
        headline = [metric for metric in board_tracks()[track].metrics if metric.headline]
        scores = record_scores(rows_without_memory(system, track), headline)
        found[system.slug] = BoardDifference(ahead(system, track), note=note, scores=scores)
    return found


def check_same_reader(folder: Path, card: Submission, findings: Findings) -> None:
    """Flag a run without memory that differs from one of the same reader on the same data."""
    if card.memory is None:
        return
    systems, unread = [], unreadable_beside(folder)
    for path in (folder, *(entry.folder for entry in others_beside(folder))):
        try:
            systems.append(load_one(path))
        except AlpsError as error:
            unread[path.name] = str(error)
    for name, track in card.tracks.items():
        if (memory := card.memory_of(track.run)) is not None:
            held = hold_against(systems, name, unread)
            where = f"{memory_folder(memory)}/{BESIDE}: {name}"
            _say(card, where, held.get(card.slug, HeldAgainst()), findings)
    # Its own rows are a finding where they are verified.
    for name in sorted(unread.keys() - {card.slug})[:MOST_EXAMPLES]:
        why = shown(unread[name], 160)
        what = f"runs without memory of {shown(name, 60)}: the files can't be read ({why})"
        findings.unchecked.append(what)


def _say(card: Submission, where: str, held: HeldAgainst, findings: Findings) -> None:
    if held.apart:
        mend = "run the reader again with alps memory compare; "
        mend += "the board ranks neither submission until the scores agree"
        findings.warn("beside", where, f"{card.slug}: {shown(held.apart, 300)}", mend)
    if held.otherwise:
        mend = "explain in notes why other settings of the model score differently"
        findings.warn("beside", where, f"{card.slug}: {shown(held.otherwise, 300)}", mend)
    if held.alone:
        findings.note("beside", where, ALONE)
