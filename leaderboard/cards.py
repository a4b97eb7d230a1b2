"""Parts of a card and the files of a track, made from a finished run."""

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from alps import rows
from alps.data.hub import HIDDEN_SPLIT, HUB
from alps.data.hub import public_name as public_data
from alps.errors import RunFolderError, UsageError
from alps.jsonl import dump, scan
from alps.judges.embedded import LexicalJudge
from alps.leaderboard.checks.files import file_card
from alps.leaderboard.checks.rows import CallRow, SubmittedScore
from alps.leaderboard.parts import MEMORY as MEMORY_FIELD
from alps.leaderboard.parts import check_filled, needed, parts_of_run
from alps.leaderboard.submission import (
    MEMORY,
    SAMPLES,
    STAGES,
    PublishedCalls,
    PublishedTrack,
    TrackFiles,
    kinds_of,
    memory_of_run,
    only,
    public_name,
    without,
)
from alps.leaderboard.untrusted import all_text, leak_in, leak_in_answer, shown
from alps.llm.options import SAMPLING
from alps.run.opened import RunFolder
from alps.tasks.base import DEFAULTS, keeps_memories
from alps.tasks.by_memory import FULL

# What a card calls the split of data that have none, as a task's files of its own.
WHOLE = "whole"
# Settings that name a host and not what was measured.
LEFT_OUT = (
    *("api_base", "judge_api_base", "memory_llm_api_base", "memory_embedder_api_base"),
    "address",
)


@dataclass(frozen=True)
class SubmitterDetails:
    """What only the submitter can say.

    `kind`, `snapshot` and `open_weights` are about the system; `public` says whether everybody can
    see the gold of the data, where that can't be known from their name.
    """

    name: str
    submitted: str
    org: str | None = None
    url: str | None = None
    notes: str | None = None
    kind: str | None = None
    snapshot: str | None = None
    open_weights: bool | None = None
    public: bool | None = None


def model_of(run: RunFolder) -> str:
    """Return what a run evaluated: its memory system where it has one, else its model."""
    memory = memory_of_run(run.manifest.settings)
    return run.model if memory is None else f"{MEMORY}{_memory_name(memory)}"


def _memory_name(memory: str) -> str:
    return needed(MEMORY_FIELD).public_name(memory) if keeps_memories(memory) else memory


def system_card(run: RunFolder, details: SubmitterDetails) -> dict[str, Any]:
    """Return the card of the system of a run.

    Raises:
        UsageError: If it is not of the kind that the submitter says.
    """
    model = model_of(run)
    kinds = kinds_of(model)
    if details.kind is not None and details.kind not in kinds:
        known = " or kind=".join(kinds)
        raise UsageError(f"kind={details.kind}: {model} can only be submitted with kind={known}")
    # A memory system has a card of its own, since its runs may differ in it.
    settings = without(run.manifest.system, "name", "memory", *LEFT_OUT)
    # The folder that a program lies in is nobody's business.
    if isinstance(settings.get("command"), str):
        settings["command"] = public_name(f"program:{settings['command']}").removeprefix("program:")
    return {
        "kind": details.kind or kinds[0],
        "model": public_name(model),
        "snapshot": details.snapshot,
        "open_weights": details.open_weights,
        "settings": settings,
    }


def run_card(run: RunFolder, details: SubmitterDetails) -> dict[str, Any]:
    """Return the card of a run."""
    asked, data = run.manifest.settings, _data(run, details)
    settings = without(asked, *LEFT_OUT)
    settings["data"] = data["name"]
    settings |= {"model": public_name(run.model), "judge": public_name(run.judge)}
    if "memory" in settings:
        settings["memory"] = _memory_name(str(settings["memory"]))
    card = {
        "settings": settings,
        "prompts": run.manifest.prompts,
        "data": data,
        "judge": run.manifest.judge,
        "calls": only(run.finished.calls.row(), PublishedCalls.model_fields),
        "seconds": _seconds(run),
    }
    if run.finished.judge_check is not None:
        checks = run.finished.judge_check.items()
        card["judge_check"] = {name: share.row() for name, share in checks}
    served: dict[str, list[dict[str, str | None]]] = {}
    for purpose, answered in run.finished.served.items():
        for row in answered:
            names = {part: _served_name(value) for part, value in row}
            served.setdefault(purpose, []).append(names)
    return {**card, "served": served} if served else card


def _seconds(run: RunFolder) -> float | None:
    seconds = [float(call.get("seconds") or 0) for call in calls_of(run)]
    return round(sum(seconds), 3) if seconds else None


def _data(run: RunFolder, details: SubmitterDetails) -> dict[str, Any]:
    about = run.manifest.data
    name = public_data(str(run.manifest.settings.get("data", SAMPLES)))
    split = about.split or WHOLE
    public = name == SAMPLES or (name == HUB and split != HIDDEN_SPLIT)
    if details.public is not None and name != SAMPLES:
        public = details.public
    return {"name": name, "split": split, "commit": about.commit, "public": public}


def calls_of(run: RunFolder) -> Iterator[dict[str, Any]]:
    """Yield the calls of a run."""
    for _, _, row in scan(run.folder / "calls.jsonl"):
        # A torn line is one call that a crash cut off, and nothing to refuse a run for.
        if row is not None:
            yield row


def _served_name(name: str | None) -> str | None:
    # Servers of one's own name a model by its folder, which is nobody's business.
    bare = (name or "").rstrip("/").rpartition("/")[2] if (name or "").startswith("/") else name
    return bare if bare and leak_in(bare) is None else None


def track_card(run: RunFolder, index: int, name: str, files: Mapping[str, Any]) -> dict[str, Any]:
    """Return the card of a track; `index` is that of its run."""
    summary, track = run.finished, run.summary_of(name)
    floors = {}
    for floor, row in track.floors.items():
        # What another judge said of them nobody can recompute.
        if row.judge == LexicalJudge.name:
            scores = _scores(row.scores)
            floors[floor] = {"lead": row.lead, "judge": row.judge, "scores": scores}
    conditions = dict(run.tasks[name].conditions)
    if "memory" in conditions:
        conditions["memory"] = _memory_name(str(conditions["memory"]))
    card: dict[str, Any] = {
        "run": index,
        "task": track.task,
        "conditions": conditions,
        "n": track.n,
        "scored": track.scored,
        "unscored": track.unscored,
        "failed_predictions": track.failed_predictions,
        "failed_judgements": track.failed_judgements,
        "counts": track.counts,
        "judge_fingerprint": run.judge_fingerprint(name),
        "data_sha256": run.tracks[name].sha256,
        "judge": summary.judge,
        "comparable": summary.comparable,
        "scores": _scores(track.scores),
        "floors": floors,
        "files": dict(files),
    }
    for known_by, part in parts_of_run(run).items():
        own = part.track_card(run, name, files)
        check_filled(known_by, own, PublishedTrack, "track_card")
        card |= own
    if track.tokens_shown is not None:
        card["tokens_shown"] = track.tokens_shown.row()
    if track.seconds_per_query is not None:
        card["seconds_per_query"] = track.seconds_per_query
    return card


def _scores(scores: Mapping[str, rows.Score]) -> dict[str, Any]:
    return {metric: score.row() for metric, score in scores.items()}


def write_track(
    folder: Path, run: RunFolder, name: str, calls: bool, verdicts: bool, *, withheld: bool = False
) -> dict[str, Any]:
    """Write the files of one track; return their cards by their stage.

    Those of a track whose scores are `withheld` have no rows.
    """
    folder.mkdir(parents=True)
    if withheld:
        stages = ("predictions", "scores")
        return {stage: write_rows(folder / f"{stage}.jsonl", []) for stage in stages}
    cards: dict[str, Any] = {}
    ids = set()
    for stage in STAGES[:3]:
        published, own = _rows_of_stage(run, stage, name, calls)
        ids |= own
        if stage != "verdicts" or (verdicts and published):
            check_publishable(published, f"{run.folder / stage}.jsonl", run)
            cards[stage] = write_rows(folder / f"{stage}.jsonl", published)
    for stage, rows_of in _rows_of_parts(run, name, calls):
        check_publishable(rows_of, f"{run.folder / stage}", run)
        cards[stage] = write_rows(folder / f"{stage}.jsonl", rows_of)
    if calls and (made := _calls_about(run, ids)):
        cards["calls"] = write_rows(folder / "calls.jsonl", made)
    return cards


def _rows_of_stage(
    run: RunFolder, stage: str, track: str, calls: bool
) -> tuple[list[dict[str, Any]], set[str]]:
    """Return what is published of a stage of a track, and the ids of its records."""
    own = {key: row for key, row in run.rows(stage).items() if key.track == track}
    return [_published(stage, row, calls) for row in own.values()], {key.id for key in own}


def _rows_of_parts(
    run: RunFolder, track: str, calls: bool
) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield the files that parts add to a track, by their names."""
    for known_by, part in parts_of_run(run).items():
        found = part.track_rows(run, track)
        check_filled(known_by, found, TrackFiles, "track_rows")
        for stage, rows_of in found.items():
            for row in rows_of:
                if row.get("verdict") is not None:
                    row["verdict"] = _published("verdicts", row["verdict"], calls)
            yield stage, rows_of


def _calls_about(run: RunFolder, ids: Set[str]) -> list[dict[str, Any]]:
    # What a call was keyed by is a hash of everything that was asked: it stays here.
    made = [call for call in calls_of(run) if call.get("about") in ids]
    return [{part: call.get(part) for part in CallRow.model_fields} for call in made]


def write_rows(path: Path, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Write rows as a file; return its card.

    Raises:
        RunFolderError: If a number in them is not finite.
    """
    # JSON has no NaN: what can't be written can't be published.
    try:
        path.write_bytes(b"".join(dump(dict(row)) for row in rows))
        return file_card(path).model_dump()
    except ValueError as error:
        where = f"{path.parent.name}/{path.name}"
        raise RunFolderError(f"{where}: alps cannot publish this file ({error})") from error


def _published(stage: str, row: Mapping[str, Any], calls: bool) -> dict[str, Any]:
    """Return what of a row is published; raw texts, thoughts and errors only where calls are."""
    if stage == "scores":
        return only(row, SubmittedScore.model_fields)
    kept = dict(row)
    if calls:
        return kept
    for part in (kept, kept.get("support"), kept.get("used")):
        if isinstance(part, dict):
            part.update({"error": None} if "error" in part else {})
            if "raw" in part:
                part["raw"] = [] if isinstance(part["raw"], list) else None
    kept.pop("thought", None)
    return kept


def check_publishable(rows: Sequence[Mapping[str, Any]], where: str, run: RunFolder) -> None:
    """Refuse rows that hold what must not be published.

    Raises:
        UsageError: If there is one; names the record.
    """
    passed = str(run.manifest.settings.get("env") or "").split(",")
    for row in rows:
        # Our own code writes these; all other fields of a prediction are the system's words.
        ours = all_text([row.get("notes"), row.get("error")])
        leak = leak_in_answer(all_text(row), secret=passed) or (leak_in(ours) if ours else None)
        if leak:
            record = shown(str(row.get("benchmark_id") or row.get("sample")), 40)
            other = ", or unset the variable if it holds no key" if ": the value of" in leak else ""
            mend = f"remove it from the file before you publish the run{other}"
            raise UsageError(f"{where}, {record}: contains {leak}; {mend}")


def system_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the settings of a run, as asked or as published, say of its system."""
    from alps.systems.resolve import RECORDED

    model = str(settings.get("model"))
    kind, memory = kinds_of(model)[0], memory_of_run(settings)
    # An embedded system is another function in each task, and recorded predictions lie in a file a
    # task: there the name says enough.
    found = {"model": RECORDED if kind == "recorded" else model, "memory": memory or FULL}
    names: tuple[str, ...] = ()
    if memory is not None:
        found["k"] = settings.get("k", DEFAULTS.k)
        names = ("memory_options", "memory_llm", "memory_embedder")
    if kind in ("llm", "program", "python"):
        names += (*SAMPLING, "request")
    return found | {name: settings.get(name) for name in names}


def different(first: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """Describe the first setting of both in which two systems differ; empty where none does."""
    for name in first:
        pair = first[name], other.get(name, first[name])
        if pair[0] != pair[1]:
            plain = all(isinstance(value, str | int | float) for value in pair)
            return f"{name} ({pair[0]} and {pair[1]})" if plain else name
    return ""
