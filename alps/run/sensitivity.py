"""Judging of the same predictions under several wordings of a judge's rubrics.

Each wording has a run folder of its own.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from alps.errors import DataError, UsageError, closest
from alps.judges.resolve import is_embedded_judge
from alps.judges.rubric import rubric
from alps.llm.ledger import counted_in
from alps.parsing import parse_settings
from alps.prompts import Prompt, read_prompt
from alps.rows import Manifest
from alps.run.opened import read_manifest
from alps.run.source import options_of
from alps.run.start import Finished, score_again
from alps.settings import RunSettings, SensitivitySettings
from alps.tasks import load_tracks

# The name of our own wording.
OURS = "ours"

_NOT_RUBRICS = ("payload", "support")
_OUR_OWN = frozenset({"prompts", "format", "out", "max_cost", "max_total_tokens"})


@dataclass(frozen=True)
class Wording:
    """Rubrics in other words, by the names of ours; those that are not among them stay as ours."""

    name: str
    rubrics: Mapping[str, Prompt]


@dataclass(frozen=True)
class WordingPlan:
    """What is to be judged.

    Attributes:
        sources: The runs whose predictions are judged.
        wordings: Ours, then the others by their names.
        folders: For each run, in their order, where each wording's scores land.
        notes: What lies among the wordings, and is not used.
    """

    judge: str
    sources: tuple[Path, ...]
    wordings: tuple[Wording, ...]
    folders: tuple[Mapping[str, Path], ...]
    max_cost: float | None
    max_total_tokens: int | None
    notes: tuple[str, ...]

    @property
    def announcement(self) -> str:
        """What will be done, in one line."""
        names = ", ".join(wording.name for wording in self.wordings)
        runs = str(self.sources[0]) if len(self.sources) == 1 else f"{len(self.sources)} runs"
        return (
            f"Nothing is generated: the predictions of {runs} are judged by {self.judge} in the "
            f"wordings {names}."
        )


@dataclass(frozen=True)
class Reworded:
    """A plan that was carried out; `finished` holds, for each run, what came of each wording."""

    plan: WordingPlan
    finished: tuple[Mapping[str, Finished], ...]

    @property
    def budget_spent(self) -> bool:
        """Whether the budget stopped any of it."""
        return any(run.budget_spent for run in self._runs())

    @property
    def too_many_unscored(self) -> bool:
        """Whether under any wording more records are unscored than may be."""
        return any(run.too_many_unscored for run in self._runs())

    def _runs(self) -> Iterator[Finished]:
        for row in self.finished:
            yield from row.values()


def plan_wordings(sources: Sequence[Path], settings: SensitivitySettings) -> WordingPlan:
    """Check runs, judge and wordings before anything is asked.

    Args:
        sources: Run folders; where there are several, all their common tracks must have the same
            data.
        settings: The judge, the folder of the wordings, and where the scores land.

    Raises:
        AlpsError: What can't be used, and why, in one line.
    """
    if is_embedded_judge(settings.judge):
        raise UsageError(
            f"judge={settings.judge}: no LLM is asked, so it has no wording; give a litellm model"
        )
    if not sources:
        raise UsageError("name at least one run")
    _check_apart(sources)
    manifests = [read_manifest(source) for source in sources]
    _check_same_data(sources, manifests)
    folder = Path(settings.prompts).expanduser()
    others, notes = read_wordings(folder, _rubrics_of(manifests))
    wordings = (Wording(OURS, {}), *others)
    first = sources[0].resolve()
    beside = sources[0].parent if sources[0].name not in ("", "..") else first.parent
    out = Path(settings.out) if settings.out else beside / f"{first.name}--sensitivity"
    return WordingPlan(
        judge=settings.judge,
        sources=tuple(sources),
        wordings=wordings,
        folders=tuple(
            {w.name: out / source.resolve().name / w.name for w in wordings} for source in sources
        ),
        max_cost=settings.max_cost,
        max_total_tokens=settings.max_total_tokens,
        notes=notes,
    )


def judge_reworded(plan: WordingPlan, given: Mapping[str, Any]) -> Reworded:
    """Judge every run under every wording; what is finished is not asked again.

    What a judge is asked beside the score (`extras`) is left out. Caps on money and tokens hold for
    all of it together.

    Args:
        plan: What is to be judged.
        given: The settings that were typed; the others stay as they were in each run.

    Raises:
        AlpsError: If the judge can't be used, or a folder holds another run.
    """
    judging = {
        **{key: value for key, value in given.items() if key not in _OUR_OWN},
        "extras": "none",
    }
    everywhere = [folder for row in plan.folders for folder in row.values()]
    finished: list[dict[str, Finished]] = []
    for source, row in zip(plan.sources, plan.folders, strict=True):
        finished.append({})
        for wording in plan.wordings:
            folder = row[wording.name]
            caps = _caps(plan, [other for other in everywhere if other != folder])
            own = {**judging, **caps, "out": str(folder)}
            finished[-1][wording.name] = score_again(source, own, wording=wording.rubrics)
    return Reworded(plan, tuple(finished))


def read_wordings(folder: Path, used: Sequence[str]) -> tuple[tuple[Wording, ...], tuple[str, ...]]:
    """Read the wordings in `folder`: `NAME/RUBRIC.md`, or `NAME.md` where there is a single rubric.

    Args:
        folder: Where they lie.
        used: The rubrics that the runs use.

    Returns:
        The wordings by their names, and what is not used, in words.

    Raises:
        UsageError: If there are none, or a file is none of the rubrics, or says what ours says.
        DataError: If a file can't be read.
    """
    if not folder.is_dir():
        raise UsageError(f"prompts={folder}: no such folder")
    found: list[Wording] = []
    unused: set[str] = set()
    for path in sorted(folder.iterdir()):
        if path.name.startswith("."):
            continue
        if path.is_dir():
            wording, others = _read_folder(path, used)
            found.append(wording)
            unused.update(others)
        elif path.suffix == ".md":
            found.append(_read_single(path, used))
    if not found:
        raise UsageError(f"prompts={folder}: no .md file in it, and no folder of them")
    _check_different(folder, found)
    notes = (
        f"Rubrics that these runs don't ask, left out of the wordings: {', '.join(sorted(unused))}",
    )
    return tuple(sorted(found, key=lambda wording: wording.name)), notes if unused else ()


def _read_folder(folder: Path, used: Sequence[str]) -> tuple[Wording, list[str]]:
    prompts = {path.stem: path for path in sorted(folder.glob("*.md"))}
    if not prompts:
        raise UsageError(f"{folder}: no .md file in it")
    they_use = f"these runs use {', '.join(used)}"
    for name, path in prompts.items():
        if name not in used and name not in _known_rubrics():
            raise UsageError(
                f"{path}: no rubric is called '{name}'{closest(name, used)} ({they_use})"
            )
    if not any(name in used for name in prompts):
        raise UsageError(f"{folder}: none of its rubrics is asked here ({they_use})")
    said = {name: _read(path, name) for name, path in prompts.items() if name in used}
    return Wording(folder.name, said), [name for name in prompts if name not in used]


def _read_single(path: Path, used: Sequence[str]) -> Wording:
    if len(used) > 1:
        raise UsageError(
            f"{path}: these runs use {len(used)} rubrics; say which it is: {path.stem}/RUBRIC.md "
            "with RUBRIC one of "
            f"{', '.join(used)}"
        )
    return Wording(path.stem, {used[0]: _read(path, used[0])})


def _read(path: Path, name: str) -> Prompt:
    try:
        prompt = read_prompt(path.read_text(encoding="utf-8"), str(path))
    except UnicodeDecodeError as error:
        raise DataError(f"not UTF-8 text ({error.reason})", path=path) from error
    except ValueError as error:
        raise DataError(
            "must be an id line: '<!-- id: NAME/VERSION -->'", path=path, line=1
        ) from error
    if not prompt.text:
        raise DataError("nothing stands below the id line", path=path)
    if prompt.sha256 == rubric(name).sha256:
        raise UsageError(
            f"{path}: says {name} as ours does, byte by byte; leave it out, ours is always among "
            "them"
        )
    return prompt


def _check_different(folder: Path, wordings: Sequence[Wording]) -> None:
    """Refuse two wordings with one name or one text, and a name that is taken."""
    seen: dict[frozenset[tuple[str, str]], str] = {}
    for number, wording in enumerate(wordings):
        if wording.name == OURS:
            raise UsageError(
                f"{folder}: '{OURS}' is the name of our own wording; choose another for that in it"
            )
        if any(wording.name == other.name for other in wordings[:number]):
            raise UsageError(
                f"{folder}: two wordings are called '{wording.name}', a folder and a file"
            )
        texts = frozenset((name, prompt.sha256) for name, prompt in wording.rubrics.items())
        if texts in seen:
            raise UsageError(
                f"{folder}: '{seen[texts]}' and '{wording.name}' are the same, byte by byte"
            )
        seen[texts] = wording.name


def _check_apart(sources: Sequence[Path]) -> None:
    """Refuse runs whose scores would land in one folder."""
    names: dict[str, Path] = {}
    for source in sources:
        name = source.resolve().name
        if name in names:
            same = source.resolve() == names[name].resolve()
            why = (
                "named twice" if same else f"is called as {names[name]}; rename one of the folders"
            )
            raise UsageError(f"{source}: {why}")
        names[name] = source


def _check_same_data(sources: Sequence[Path], manifests: Sequence[Manifest]) -> None:
    """Refuse runs that can't be ranked, before they are paid for."""
    first = manifests[0].data.tracks
    for source, manifest in zip(sources[1:], manifests[1:], strict=True):
        tracks = manifest.data.tracks
        shared = [track for track in first if track in tracks]
        if not shared:
            raise UsageError(f"{source}: no track in common with {sources[0]}")
        if other := [track for track in shared if first[track].sha256 != tracks[track].sha256]:
            raise UsageError(
                f"{source}: not on the data of {sources[0]}: {other[0]} has another sha256"
            )


def _rubrics_of(manifests: Sequence[Manifest]) -> list[str]:
    """Return the names of the rubrics that the tracks of these runs use."""
    used: list[Prompt] = []
    for manifest in manifests:
        settings = parse_settings(manifest.settings, RunSettings)
        for task in load_tracks(settings.task, options_of(settings)):
            if task.track in manifest.data.tracks:
                used += task.rubrics
    names = [name for name in _known_rubrics() if rubric(name) in used]
    if not names:
        raise UsageError(
            "no track of these runs asks a judge by a rubric: there is nothing to say otherwise"
        )
    return names


def _known_rubrics() -> list[str]:
    names = (path.name.removesuffix(".md") for path in (files("alps.judges") / "rubrics").iterdir())
    return sorted(name for name in names if name not in _NOT_RUBRICS)


def _caps(plan: WordingPlan, others: Sequence[Path]) -> dict[str, Any]:
    """Return what the other folders leave of the caps: a run knows only what it spends itself."""
    if plan.max_cost is None and plan.max_total_tokens is None:
        return {}
    tokens, cost = counted_in(others)
    caps: dict[str, Any] = {}
    if plan.max_cost is not None:
        caps["max_cost"] = max(0.0, plan.max_cost - cost)
    if plan.max_total_tokens is not None:
        caps["max_total_tokens"] = max(0, plan.max_total_tokens - tokens)
    return caps
