"""The card of a submission, made from finished runs: what they measured, without what is only
somebody's machine.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from alps.data.hub import HIDDEN_SPLIT, HUB
from alps.data.hub import public_name as public_data
from alps.errors import RunFolderError, UsageError
from alps.jsonl import scan
from alps.judges.lexical import LexicalJudge
from alps.leaderboard.strict_reader import faults_of
from alps.leaderboard.submission import SAMPLES, Submission, checksum_of, kinds_of, public_name
from alps.leaderboard.unsafe_text import leak_in
from alps.llm.options import SAMPLING
from alps.report.runs import Run
from alps.systems.resolve import RECORDED

LEFT_OUT = ("api_base", "judge_api_base")
"""Settings that name a host and not what was measured."""
_SCORE = ("value", "low", "high", "n", "worst_case", "best_case", "unscored", "reason", "corrected")
_CORRECTED = (
    *(
        "method",
        "status",
        "value",
        "low",
        "high",
        "labelled",
        "judged",
        "n",
        "outside",
        "calibration",
    ),
    *("impossible", "notes", "reason", "youden"),
)
_COUNTED = (
    "n",
    "scored",
    "unscored",
    "failed_predictions",
    "failed_judgements",
    "counts",
    "judge_fingerprint",
)


@dataclass(frozen=True)
class Details:
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


def make_card(
    slug: str, runs: Sequence[Run], details: Details, files: Mapping[str, Mapping[str, Any]]
) -> Submission:
    """Make the card.

    Args:
        slug: The name of the submission's folder.
        runs: Finished runs of one system, without a track in common.
        details: What the submitter says.
        files: By track, the cards of its files by their stage.

    Raises:
        UsageError: If something in it can't be published as it is; names the field.
        RunFolderError: If the files of a run lack something, as those of an older version may.
    """
    try:
        row: dict[str, Any] = {
            "format": 1,
            "slug": slug,
            **{part: getattr(details, part) for part in ("name", "org", "url", "submitted")},
            "alps": runs[0].manifest.get("alps", "?"),
            "notes": details.notes,
            "system": _system(runs[0], details),
            "runs": [_run(run, details) for run in runs],
            "tracks": {
                name: _track(run, place, name, files[name])
                for place, run in enumerate(runs)
                for name in run.tracks
            },
        }
    except KeyError as error:
        folders = ", ".join(str(run.folder) for run in runs)
        raise RunFolderError(
            f"{folders}: its summary or manifest lacks {error}; the same alps run again"
        ) from error
    try:
        Submission.model_validate(row)
        return Submission.model_validate({**row, "checksum": checksum_of(row)})
    except ValidationError as error:
        field, fault = faults_of(error)[0]
        raise UsageError(f"{field}: {fault}; it can't be published so") from error


def system_of(run: Run) -> dict[str, Any]:
    """Return what two runs must share to be of one system.

    An embedded system is another function in each task, and recorded predictions lie in a file a
    task: there the name says enough.
    """
    settings, kind = run.manifest["settings"], kinds_of(run.model)[0]
    shared = {
        "model": RECORDED if kind == "recorded" else run.model,
        "alps": run.manifest.get("alps"),
    }
    if kind in ("llm", "program", "python"):
        shared |= {
            "settings": run.manifest.get("system"),
            "sampling": {name: settings.get(name) for name in SAMPLING},
        }
    return shared


def _system(run: Run, details: Details) -> dict[str, Any]:
    kinds = kinds_of(run.model)
    if details.kind is not None and details.kind not in kinds:
        raise UsageError(
            f"kind={details.kind}: {run.model} can be submitted as {' or '.join(kinds)}"
        )
    settings = {
        k: v for k, v in run.manifest.get("system", {}).items() if k not in ("name", *LEFT_OUT)
    }
    if isinstance(settings.get("command"), str):
        settings["command"] = public_name(f"program:{settings['command']}").removeprefix("program:")
    return {
        "kind": details.kind or kinds[0],
        "model": public_name(run.model),
        "snapshot": details.snapshot,
        "open_weights": details.open_weights,
        "settings": settings,
    }


def _run(run: Run, details: Details) -> dict[str, Any]:
    assert run.summary is not None
    given = run.manifest["settings"]
    data = str(given.get("data", SAMPLES))
    name = public_data(data)
    settings = {key: value for key, value in given.items() if key not in LEFT_OUT}
    settings |= {"data": name, "model": public_name(run.model), "judge": public_name(run.judge)}
    split = str(run.manifest["data"].get("split", "?"))
    known = name == SAMPLES or (name == HUB and split != HIDDEN_SPLIT)
    public = known if details.public is None or name == SAMPLES else details.public
    return {
        "settings": settings,
        "prompts": run.manifest.get("prompts", {}),
        "data": {
            "name": name,
            "split": split,
            "commit": run.manifest["data"].get("commit"),
            "public": public,
        },
        "judge": run.manifest["judge"],
        "calls": {
            part: run.summary["calls"][part]
            for part in ("http", "cached", "prompt_tokens", "completion_tokens", "cost", "unpriced")
        },
        "seconds": _seconds(run),
        **_served(run.summary.get("served", {})),
    }


def _served(by_purpose: Mapping[str, Any]) -> dict[str, Any]:
    """Return what answered, where that is known: servers of one's own name a model by its folder,
    which is nobody's.
    """
    public = {
        purpose: [
            {"model": _public(row["model"]), "fingerprint": _public(row["fingerprint"])}
            for row in rows
        ]
        for purpose, rows in by_purpose.items()
    }
    return {"served": public} if public else {}


def _public(name: str | None) -> str | None:
    """Return a name without the folder it lies in; None where it holds something else of a machine."""
    bare = (name or "").rstrip("/").rpartition("/")[2] if (name or "").startswith("/") else name
    return bare if bare and leak_in(bare) is None else None


def _seconds(run: Run) -> float | None:
    """Return how long the calls of a run took together, None where it made none."""
    rows = [row for _, _, row in scan(run.folder / "calls.jsonl") if row is not None]
    return round(sum(float(row.get("seconds") or 0) for row in rows), 3) if rows else None


def _track(run: Run, place: int, name: str, files: Mapping[str, Any]) -> dict[str, Any]:
    assert run.summary is not None
    found = run.summary["tracks"][name]
    row = {
        "run": place,
        "task": found["task"],
        "conditions": dict(run.tasks[name].conditions),
        **{part: found[part] for part in _COUNTED},
        "data_sha256": run.tracks[name]["sha256"],
        "judge": run.summary["judge"],
        "comparable": run.summary["comparable"],
        "scores": {metric: _score(score) for metric, score in found["scores"].items()},
        "floors": {
            floor: {
                "lead": said["lead"],
                "judge": said["judge"],
                "scores": {metric: _score(score) for metric, score in said["scores"].items()},
            }
            for floor, said in found["floors"].items()
            if said["judge"]
            == LexicalJudge.name  # what another judge said of them nobody can recompute
        },
        "files": dict(files),
    }
    return row | (
        {"seconds_per_query": found["seconds_per_query"]} if "seconds_per_query" in found else {}
    )


def _score(score: Mapping[str, Any]) -> dict[str, Any]:
    kept = {part: score[part] for part in _SCORE if part in score}
    if "corrected" in kept:
        kept["corrected"] = {
            part: kept["corrected"][part] for part in _CORRECTED if part in kept["corrected"]
        }
    return kept
