"""Wordings of a judge's rubrics, read from a folder.

`NAME/RUBRIC.md`, or `NAME.md` where the runs use a single rubric.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path

from alps.errors import DataError, UsageError, closest
from alps.judges.rubric import rubric
from alps.parsing import parse_settings
from alps.prompts import Prompt, read_prompt
from alps.rows import Manifest
from alps.run.source import options_of
from alps.settings import RunSettings
from alps.slips import read_text
from alps.tasks import load_tracks

# The name of our own wording.
OURS = "ours"

_NOT_RUBRICS = ("payload", "support")


@dataclass(frozen=True)
class Wording:
    """Rubrics in other words, by the names of ours; those that are not among them stay as ours."""

    name: str = OURS
    rubrics: Mapping[str, Prompt] = field(default_factory=dict)


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
        prompt = read_prompt(read_text(path), str(path))
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


def rubrics_of(manifests: Sequence[Manifest]) -> list[str]:
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
