"""Judging of the same predictions in several cells: a judge, a wording of its rubrics, a draw.

Each cell of each run has a run folder of its own, so that it resumes, and nothing is asked twice.
Trivial judges stand beside those that are named: `lexical`, and two that always say the same.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

from alps.errors import DataError, UsageError, closest
from alps.ext.judging.settings import JudgesSettings
from alps.folders import same_file, slug
from alps.judges.embedded import CONSTANT_JUDGES, LexicalJudge, is_embedded_judge
from alps.judges.rubric import rubric
from alps.keys import AskSettings
from alps.llm.ledger import counted_in
from alps.prompts import Prompt, read_prompt
from alps.rows import Calls, Manifest
from alps.run.folder import caps_left
from alps.run.opened import RunFolder, open_run, read_manifest, refuse_same_names
from alps.run.services import AskedAs
from alps.run.session import OF_THE_JUDGE
from alps.run.source import options_of, settings_of_run
from alps.run.start import score_again
from alps.run.summary import Finished
from alps.show.formatting import letter_of
from alps.slips import read_text
from alps.tasks import Metric, load_tracks
from alps.tasks.registry import track_title

# The name of our own wording.
OURS = "ours"

# Texts of that folder that rate no answer: how a question is laid out, and whether a dialogue
# supports a memory.
_NOT_RUBRICS = ("payload", "support")


@dataclass(frozen=True)
class RubricWording:
    """Prompt variants by rubric; rubrics without a variant use the bundled prompt."""

    name: str = OURS
    rubrics: Mapping[str, Prompt] = field(default_factory=dict)


def read_wordings(
    folder: Path, used: Sequence[str]
) -> tuple[tuple[RubricWording, ...], tuple[str, ...]]:
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
    found: list[RubricWording] = []
    unused: set[str] = set()
    for path in sorted(folder.iterdir()):
        if path.name.startswith("."):  # such as .DS_Store
            continue
        if path.is_dir():
            wording, others = _read_folder(path, used)
            found.append(wording)
            unused.update(others)
        elif path.suffix == ".md":
            found.append(_read_single(path, used))
    if not found:
        raise UsageError(f"prompts={folder}: no .md files, and no folders with .md files")
    _check_different(folder, found)
    names = ", ".join(sorted(unused))
    notes = (f"Left out (these runs do not use these rubrics): {names}",)
    return tuple(sorted(found, key=lambda wording: wording.name)), notes if unused else ()


def _read_folder(folder: Path, used: Sequence[str]) -> tuple[RubricWording, list[str]]:
    prompts = {path.stem: path for path in sorted(folder.glob("*.md"))}
    if not prompts:
        raise UsageError(f"{folder}: no .md file in this folder")
    they_use = f"these runs use {', '.join(used)}"
    for name, path in prompts.items():
        if name not in used and name not in _known_rubrics():
            raise UsageError(
                f"{path}: no rubric has the name '{name}'{closest(name, used)} ({they_use})"
            )
    if not any(name in used for name in prompts):
        raise UsageError(f"{folder}: no prompt for a rubric that these runs use ({they_use})")
    said = {name: _read(path, name) for name, path in prompts.items() if name in used}
    return RubricWording(folder.name, said), [name for name in prompts if name not in used]


def _read_single(path: Path, used: Sequence[str]) -> RubricWording:
    if len(used) > 1:
        raise UsageError(
            f"{path}: these runs use {len(used)} rubrics; name the file {path.stem}/RUBRIC.md, "
            "where RUBRIC is one of "
            f"{', '.join(used)}"
        )
    return RubricWording(path.stem, {used[0]: _read(path, used[0])})


def _read(path: Path, name: str) -> Prompt:
    try:
        prompt = read_prompt(read_text(path), str(path))
    except ValueError as error:
        raise DataError(
            "must be an id line: '<!-- id: NAME/VERSION -->'", path=path, line=1
        ) from error
    if not prompt.text:
        raise DataError("no text below the id line", path=path)
    # Ours twice would be two equal columns, and a spread that looks smaller than it is.
    if prompt.sha256 == rubric(name).sha256:
        raise UsageError(
            f"{path}: identical to the built-in {name}, which is always included; remove this file"
        )
    return prompt


def _check_different(folder: Path, wordings: Sequence[RubricWording]) -> None:
    """Refuse two wordings with one name or one text, and a name that is taken."""
    seen: dict[frozenset[tuple[str, str]], str] = {}
    for number, wording in enumerate(wordings):
        if wording.name == OURS:
            raise UsageError(
                f"{folder}: '{OURS}' is the name of the built-in prompt; rename your prompt"
            )
        if any(wording.name == other.name for other in wordings[:number]):
            raise UsageError(
                f"{folder}: a folder and a file are both named '{wording.name}'; rename one"
            )
        texts = frozenset((name, prompt.sha256) for name, prompt in wording.rubrics.items())
        if texts in seen:
            raise UsageError(
                f"{folder}: '{seen[texts]}' and '{wording.name}' are identical; remove one"
            )
        seen[texts] = wording.name


def rubrics_of(sources: Sequence[Path], manifests: Sequence[Manifest]) -> list[str]:
    """Return the names of the rubrics that the tracks of these runs use."""
    used: list[Prompt] = []
    for source, manifest in zip(sources, manifests, strict=True):
        settings = settings_of_run(source, manifest.settings)
        for task in load_tracks(settings.task, options_of(settings)):
            if task.track in manifest.data.tracks:
                used += task.rubrics
    names = [name for name in _known_rubrics() if rubric(name) in used]
    if not names:
        raise UsageError("no task of these runs uses a rubric, so there is no prompt to vary")
    return names


def _known_rubrics() -> list[str]:
    names = (path.name.removesuffix(".md") for path in (files("alps.judges") / "rubrics").iterdir())
    return sorted(name for name in names if name not in _NOT_RUBRICS)


# Settings of the commands that judge in cells, of which a single run knows nothing.
_OUR_OWN = frozenset({"judge", "prompts", "draws", "format", "out", "max_cost", "max_total_tokens"})


@dataclass(frozen=True)
class JudgingCell:
    """One way in which all predictions are judged.

    Attributes:
        name: Of its folder in that of a run.
        draw: Which independent draw of the judge, from 0.
    """

    name: str
    judge: str
    wording: RubricWording
    draw: int = 0


@dataclass(frozen=True)
class CellPlan:
    """What is to be judged.

    Attributes:
        sources: The runs whose predictions are judged.
        folders: For each run, in their order, where the scores of each cell land, by its name.
        notes: What is left out.
    """

    sources: tuple[Path, ...]
    cells: tuple[JudgingCell, ...]
    folders: tuple[Mapping[str, Path], ...]
    max_cost: float | None
    max_total_tokens: int | None
    notes: tuple[str, ...]

    @property
    def out(self) -> Path:
        """The folder that those of all runs are in."""
        return next(iter(self.folders[0].values())).parent.parent

    @property
    def judges(self) -> tuple[str, ...]:
        """The judges, in their order."""
        return tuple(dict.fromkeys(cell.judge for cell in self.cells))

    @property
    def wordings(self) -> tuple[RubricWording, ...]:
        """The wordings, in their order."""
        return tuple({cell.wording.name: cell.wording for cell in self.cells}.values())

    @property
    def announcement(self) -> str:
        """What will be done, in one line."""
        others = ", ".join(one.name for one in self.wordings if one.name != OURS)
        # Tables call the built-in ones by their name, which is said where there are others.
        prompts = f" ({OURS}) and those of {others}" if others else ""
        runs = str(self.sources[0]) if len(self.sources) == 1 else f"{len(self.sources)} runs"
        return (
            f"alps generates no answers: {', '.join(self.judges)} will judge the answers of "
            f"{runs} with the built-in prompts{prompts}."
        )


@dataclass(frozen=True)
class JudgedCells:
    """A plan that was carried out; `finished` holds, for each run, what came of each cell."""

    plan: CellPlan
    finished: tuple[Mapping[str, Finished], ...]

    @property
    def budget_spent(self) -> bool:
        """Whether the budget stopped any of it."""
        return any(run.budget_spent for run in self._runs())

    @property
    def too_many_unscored(self) -> bool:
        """Whether in any cell more records are unscored than may be."""
        return any(run.too_many_unscored for run in self._runs())

    @property
    def calls(self) -> Calls:
        """Calls of all cells together; the cost is None if a part of it is unknown."""
        counts = dict.fromkeys(("http", "cached", "prompt_tokens", "completion_tokens"), 0)
        cost: float | None = 0.0
        for run in self._runs():
            calls = run.summary.calls
            for name in counts:
                counts[name] += getattr(calls, name)
            # A sum of the known prices alone would read as the bill.
            cost = None if cost is None or calls.cost is None else cost + calls.cost
        return Calls.model_validate({**counts, "cost": cost})

    def opened(self) -> tuple[dict[str, dict[str, RunFolder]], dict[str, tuple[Path, str]]]:
        """Return the runs of every cell, and the folders and models judged, by their letters.

        Raises:
            RunFolderError: If a file of a run can't be read.
        """
        runs: dict[str, dict[str, RunFolder]] = {}
        sources = {}
        for position, (row, source) in enumerate(
            zip(self.finished, self.plan.sources, strict=True)
        ):
            letter = letter_of(position)
            runs[letter] = {name: open_run(one.folder) for name, one in row.items()}
            sources[letter] = (source, next(iter(runs[letter].values())).model)
        return runs, sources

    def _runs(self) -> Iterator[Finished]:
        for row in self.finished:
            yield from row.values()


def plan_cells(
    sources: Sequence[Path],
    settings: AskSettings,
    cells: Sequence[JudgingCell],
    *,
    kind: str,
    notes: Sequence[str] = (),
) -> CellPlan:
    """Assign a folder to every cell of every run: in `out=`, else next to the first run.

    `kind` is what the folder beside the run is called for.
    """
    first = sources[0].resolve()
    # A run given as `.` or `..` has its name only once it is resolved.
    beside = sources[0].parent if sources[0].name not in ("", "..") else first.parent
    out = Path(settings.out) if settings.out else beside / f"{first.name}--{kind}"
    folders = []
    for source in sources:
        folders.append({cell.name: out / source.resolve().name / cell.name for cell in cells})
    caps = settings.max_cost, settings.max_total_tokens
    return CellPlan(tuple(sources), tuple(cells), tuple(folders), *caps, tuple(notes))


def read_same_data(sources: Sequence[Path]) -> list[Manifest]:
    """Read the manifests of runs that can be judged together.

    Raises:
        UsageError: If there is none, two would land in one folder, or their data differ.
    """
    if not sources:
        raise UsageError("name at least one run")
    refuse_same_names(sources)
    manifests = [read_manifest(source) for source in sources]
    first = manifests[0].data.tracks
    for source, manifest in zip(sources[1:], manifests[1:], strict=True):
        tracks = manifest.data.tracks
        shared = [track for track in first if track in tracks]
        if not shared:
            raise UsageError(f"{source}: no task in common with {sources[0]}")
        if other := [track for track in shared if first[track].sha256 != tracks[track].sha256]:
            raise UsageError(
                f"{source} and {sources[0]} have different data (sha256 of {other[0]})"
            )
    return manifests


def judge_cells(plan: CellPlan, given: Mapping[str, Any]) -> JudgedCells:
    """Judge every run in every cell; what is finished is not asked again.

    What a judge is asked beside the score (`extras`) is left out. Caps on money and tokens hold for
    all of it together.

    Args:
        plan: What is to be judged.
        given: The settings that were typed; the others stay as they were in each run.

    Raises:
        AlpsError: If a judge can't be used, or a folder holds another run.
    """
    judging = {key: value for key, value in given.items() if key not in _OUR_OWN}
    everywhere = [folder for row in plan.folders for folder in row.values()]
    finished: list[dict[str, Finished]] = []
    for source, row in zip(plan.sources, plan.folders, strict=True):
        finished.append({})
        for cell in plan.cells:
            folder = row[cell.name]
            # Further questions about a record cost a call in each cell, and no figure here reads
            # them.
            own = {**_for_judge(cell.judge, judging), "out": str(folder), "extras": "none"}
            if not is_embedded_judge(cell.judge):
                # A run knows only what it spends itself.
                others = [other for other in everywhere if other != folder]
                own |= caps_left(plan, counted_in(others))
            asked_as = AskedAs(cell.wording.rubrics, cell.draw)
            finished[-1][cell.name] = score_again(source, own, asked_as=asked_as)
    return JudgedCells(plan, tuple(finished))


def _for_judge(judge: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that have an effect on this judge."""
    # What was typed for LLM judges would be refused beside an embedded one.
    ignored = OF_THE_JUDGE if is_embedded_judge(judge) else ()
    own = {key: value for key, value in given.items() if key not in ignored}
    return {**own, "judge": judge}


# A judge that agrees with people no better than these adds nothing.
TRIVIAL_JUDGES = (LexicalJudge.name, *CONSTANT_JUDGES)


def plan_judges(sources: Sequence[Path], settings: JudgesSettings) -> CellPlan:
    """Check runs, judges and wordings before anything is asked.

    The cells are those of a crossed design of all LLM judges, wordings and draws; an embedded judge
    has one, and so has each trivial judge, in the end.

    Args:
        sources: Run folders; where there are several, all their common tracks must have the same
            data.
        settings: The judges, the folder of the wordings, and where the scores land.

    Raises:
        AlpsError: What can't be used, and why, in one line.
    """
    if not settings.judge:
        raise UsageError("name judges with judge=a,b; to measure drift, set anchors=DIR instead")
    _refuse_level(settings)
    judges = [name.strip() for name in settings.judge.split(",")]
    _check_names(judges)
    asked = [name for name in judges if not is_embedded_judge(name)]
    for key, value in (("prompts", settings.prompts), ("draws", settings.draws)):
        if not asked and value not in (None, 1):
            why = "no judge is a litellm model; leave it out"
            raise UsageError(f"{key}={value} would change nothing: {why}")
    manifests = read_same_data(sources)
    notes: tuple[str, ...] = ()
    wordings: tuple[RubricWording, ...] = (RubricWording(),)
    if settings.prompts is not None:
        folder = Path(settings.prompts).expanduser()
        others, notes = read_wordings(folder, rubrics_of(sources, manifests))
        wordings = (RubricWording(), *others)
    cells: list[JudgingCell] = []
    for judge in dict.fromkeys((*judges, *TRIVIAL_JUDGES)):
        if judge in asked:
            cells += _crossed(judge, wordings, settings.draws)
        else:
            cells.append(JudgingCell(slug(judge), judge, RubricWording()))
    _check_cells(cells)
    return plan_cells(sources, settings, cells, kind="judges", notes=notes)


def _crossed(judge: str, wordings: Iterable[RubricWording], draws: int) -> list[JudgingCell]:
    cells = []
    for wording in wordings:
        for draw in range(draws):
            again = f"--draw{draw + 1}" if draw else ""
            cells.append(JudgingCell(f"{slug(judge)}--{wording.name}{again}", judge, wording, draw))
    return cells


def _check_names(judges: Sequence[str]) -> None:
    for judge in judges:
        if not judge:
            raise UsageError("judge=: a name is missing between two commas")
        if judges.count(judge) > 1:
            raise UsageError(f"judge={judge}: named twice; name it once")


def _check_cells(cells: Sequence[JudgingCell]) -> None:
    folders: dict[str, JudgingCell] = {}
    for cell in cells:
        # `slug` keeps what is behind the last slash: a/x and b/x would share a folder.
        other = folders.setdefault(same_file(cell.name), cell)
        if other is not cell:
            about = "" if other.judge != cell.judge else f" with the prompt {other.wording.name}"
            raise UsageError(
                f"judge={cell.judge}: its folder has the same name as that of {other.judge}"
                f"{about}; use two commands with different out="
            )


def _refuse_level(settings: JudgesSettings) -> None:
    if "level" in settings.model_fields_set:
        why = "would change nothing without anchors=DIR; leave it out"
        raise UsageError(f"level={settings.level} {why}")


def plan_wordings(sources: Sequence[Path], settings: JudgesSettings) -> CellPlan:
    """Check runs, judge and wordings before anything is asked; a cell is named by its wording.

    Args:
        sources: Run folders; where there are several, all their common tracks must have the same
            data.
        settings: One LLM judge, the folder of the wordings, and where the scores land.

    Raises:
        AlpsError: What can't be used, and why, in one line.
    """
    assert settings.prompts is not None
    _refuse_level(settings)
    manifests = read_same_data(sources)
    folder = Path(settings.prompts).expanduser()
    others, notes = read_wordings(folder, rubrics_of(sources, manifests))
    cells = []
    for wording in (RubricWording(), *others):
        cells.append(JudgingCell(wording.name, settings.judge, wording))
    return plan_cells(sources, settings, cells, kind="sensitivity", notes=notes)


def track_and_metric(track: str, metric: Metric) -> str:
    """Return both titles, or one where it says both: `update, F1`, `constraints`."""
    title, figure = track_title(track), metric.title.strip()
    return figure if figure.startswith(title) else f"{title}, {figure}"
