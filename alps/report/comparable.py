"""Whether runs may be compared: finished, on the same data, under the same judge, with a track in
common.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from alps.errors import RunFolderError, UsageError
from alps.jsonl import Row
from alps.report.runs import Run, open_run


def open_finished(folders: Sequence[Path]) -> list[Run]:
    """Open at least two runs.

    Raises:
        UsageError: If there are fewer, one is named twice, or one is not finished.
        RunFolderError: If a file of a run can't be read.
    """
    if len(folders) < 2:
        raise UsageError(f"compare takes at least two runs, got {len(folders)}")
    runs: list[Run] = []
    for folder in folders:
        run = open_run(folder)
        if any(run.folder.resolve() == other.folder.resolve() for other in runs):
            raise UsageError(f"{folder}: named twice; a run is compared with others")
        if run.summary is None:
            raise UsageError(f"{folder}: not finished; the same alps run again goes on with it")
        try:
            for track, found in run.summary["tracks"].items():
                _ = (
                    run.tasks[track],
                    int(run.tracks[track]["n"]),
                    run.tracks[track]["sha256"],
                    dict(found["scores"]),
                )
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise RunFolderError(f"{folder}: not a run of this alps ({error!r})") from error
        runs.append(run)
    return runs


def found_in(run: Run, track: str) -> Row:
    """Return the summary of a track of a finished run."""
    assert run.summary is not None
    found: Row = run.summary["tracks"][track]
    return found


def tracks_of(run: Run) -> list[str]:
    """Return the tracks that a run has scores on."""
    return list(run.summary["tracks"]) if run.summary is not None else []


def shared_tracks(runs: Mapping[str, Run]) -> list[str]:
    """Return the tracks that all `runs`, by their letters, have, in the order of the first.

    Raises:
        UsageError: If there is none.
    """
    first, *others = runs.values()
    shared = [track for track in tracks_of(first) if all(track in tracks_of(run) for run in others)]
    if not shared:
        said = "; ".join(
            f"{run.folder} has {', '.join(tracks_of(run)) or 'none'}" for run in runs.values()
        )
        raise UsageError(f"no track is in all of these runs: {said}")
    return shared


def _judge_id(run: Run, track: str) -> str:
    assert run.summary is not None
    return str(found_in(run, track).get("judge_fingerprint") or run.summary["judge_fingerprint"])


def judged_alike(runs: Mapping[str, Run], track: str) -> bool:
    """Tell whether all runs had the same judge on `track`."""
    return len({_judge_id(run, track) for run in runs.values()}) == 1


def refuse_other_data(runs: Mapping[str, Run], track: str) -> None:
    """Refuse runs whose data on `track` are not the same.

    Raises:
        UsageError: If they differ; names both hashes, and the settings behind them.
    """
    first, *others = runs.values()
    for other in others:
        here, there = (run.tracks[track] for run in (first, other))
        if here["sha256"] == there["sha256"]:
            continue
        hashes = " and ".join(
            f"{run.tracks[track]['sha256'][:12]} ({run.folder})" for run in (first, other)
        )
        settings = [
            _part(first, other, f"settings.{name}") for name in ("data", "split", "limit", "seed")
        ]
        parts = "; ".join(part for part in (*settings, _part(first, other, "data.split")) if part)
        raise UsageError(
            f"not on the same data: {track} has sha256 {hashes}{f'; {parts}' if parts else ''}"
        )


def refuse_other_scoring(runs: Mapping[str, Run], track: str) -> None:
    """Refuse runs whose scores on `track` are not the same measurement.

    Recall of a memory needs no judge.

    Raises:
        UsageError: If their scoring or their judge differs; names what is different.
    """
    first, *others = runs.values()
    for other in others:
        here, there = (run.tasks[track].conditions.get("scoring", "alps") for run in (first, other))
        if here != there:
            raise UsageError(
                f"not scored alike: {track} has scoring={here} in {first.folder}, {there} in {other.folder}"
            )
        ids = [_judge_id(run, track) for run in (first, other)]
        if ids[0] == ids[1] or first.tasks[track].name == "retrieval":
            continue
        there = {*first.manifest["judge"], *other.manifest["judge"]} - {"id"}
        names = sorted(there, key=lambda name: (name != "judge", name))
        parts = [part for name in names if (part := _part(first, other, f"judge.{name}"))]
        raise UsageError(
            f"not under the same judge: {track} has fingerprint {ids[0]} ({first.folder}) and {ids[1]} "
            f"({other.folder}); {'; '.join(parts[:3]) or 'its rubrics differ'}; alps score judges a run again"
        )


def _part(first: Run, other: Run, place: str) -> str:
    """Say how two manifests differ at a dotted place.

    Nothing where they don't, and no values that are long.
    """
    section, _, name = place.partition(".")
    here, there = (run.manifest[section].get(name) for run in (first, other))
    if here == there:
        return ""
    said = [str(value) if not isinstance(value, dict) else "{…}" for value in (here, there)]
    return (
        f"{place} is {_short(said[0])} and {_short(said[1])}"
        if said[0] != said[1]
        else f"{place} differs"
    )


def _short(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:12]}…"
