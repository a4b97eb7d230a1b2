"""Check of an installation: versions, keys, cache folder, links and samples, and how to fix each.

Nothing here touches the network or imports litellm.
"""

import importlib.util
import os
import platform
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Literal

from packaging.requirements import Requirement
from rich.console import Console
from rich.table import Table
from rich.text import Text

import alps
from alps.data.release import Split, open_split, read_samples
from alps.errors import AlpsError
from alps.llm.cache import default_path
from alps.show.formatting import counted, visible
from alps.tasks import TASKS, load_tracks

PACKAGE = "alps-eval"
LINKED = ("tasks", "judges", "data", "leaderboard")
KEYS = (
    "OPENAI_API_KEY",
    "ANTHROPIC_API_KEY",
    "GEMINI_API_KEY",
    "AZURE_API_KEY",
    "AWS_ACCESS_KEY_ID",
    "MISTRAL_API_KEY",
    "DEEPSEEK_API_KEY",
    "GROQ_API_KEY",
    "OPENROUTER_API_KEY",
    "TOGETHERAI_API_KEY",
    "XAI_API_KEY",
    "COHERE_API_KEY",
    "DASHSCOPE_API_KEY",
    "MOONSHOT_API_KEY",
    "FIREWORKS_API_KEY",
    "HUGGINGFACE_API_KEY",
)
"""The environment variables in which litellm looks for the keys of the commonest providers."""

_REASONS = {
    "litellm": "with 1.106, every tool call fails in a base install",
    "instructor": "versions before 1.16 retry differently, so alps miscounts calls",
    "rich": "instructor needs rich below 15",
}
"""What is known to go wrong with releases that do not fit."""
_STYLES = {"ok": "green", "note": "yellow", "bad": "bold red"}

State = Literal["ok", "note", "bad"]


@dataclass(frozen=True)
class DoctorLine:
    """One line of the examination; `fix` says what to do about it."""

    state: State
    text: str
    fix: str = ""


def examine(console: Console) -> int:
    """Print every finding with its fix; return 1 if anything is bad, else 0."""
    findings = [
        *_versions(),
        *_keys(os.environ),
        *_folders(),
        *_links(Path(alps.__file__).parent),
        *_samples(),
    ]
    grid = Table.grid(padding=(0, 2))
    grid.add_column(width=4)
    grid.add_column(overflow="fold")
    for finding in findings:
        text = Text(visible(finding.text))
        if finding.fix:
            text.append(f"\n→ {visible(finding.fix)}", style="bold")
        grid.add_row(Text(finding.state, style=_STYLES[finding.state]), text)
    console.print(grid, highlight=False)
    states = [finding.state for finding in findings]
    bad = states.count("bad")
    verdict = f"\n{f'{bad} bad' if bad else 'nothing bad'}, {counted(states.count('note'), 'note')}"
    console.print(Text(verdict, style="bold red" if bad else "bold"))
    return 1 if bad else 0


def _versions() -> Iterator[DoctorLine]:
    """Check the installed libraries against the requirements of the package."""
    yield DoctorLine("ok", f"alps {alps.__version__} on Python {platform.python_version()}")
    try:
        requirements = list(map(Requirement, requires(PACKAGE) or ()))
    except PackageNotFoundError:
        text = f"{PACKAGE} is not installed, so alps can't check library versions"
        yield DoctorLine("note", text, "pip install -e . in the folder with pyproject.toml")
        return
    good = []
    for requirement in requirements:
        # Extras are for who asked for them: their absence is no fault.
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        try:
            installed = version(requirement.name)
        except PackageNotFoundError:
            fix = f"pip install {requirement.name}, or install alps again"
            yield DoctorLine("bad", f"{requirement.name} is not installed", fix)
            continue
        if (finding := check_library(requirement, installed)) is not None:
            yield finding
        else:
            good.append(f"{requirement.name} {installed}")
    if good:
        yield DoctorLine("ok", ", ".join(good))


def check_library(requirement: Requirement, installed: str) -> DoctorLine | None:
    """Return the fault of an installed library version; None if it fits."""
    if requirement.specifier.contains(installed, prereleases=True):
        return None
    reason = _REASONS.get(requirement.name, f"alps needs {requirement.specifier}")
    fix = f'pip install "{requirement.name}{requirement.specifier}"'
    return DoctorLine("bad", f"{requirement.name} {installed}: {reason}", fix)


def _keys(environment: Mapping[str, str]) -> Iterator[DoctorLine]:
    """Tell which keys are set; only their names are ever shown."""
    # What doctor prints is pasted into reports of faults: it must hold no secret.
    present: list[str] = []
    unset: list[str] = []
    for name in KEYS:
        (present if environment.get(name, "").strip() else unset).append(name)
    missing = ", ".join(unset)
    for name in present:
        value = environment[name]
        # Pasted with its quotes, a key is refused by its provider, whose message names no reason.
        if value != value.strip() or value.strip("\"'") != value:
            text = f"{name} begins or ends with white space or quotes"
            yield DoctorLine("note", text, f"export {name} again without them")
    if not present:
        text = f"the environment has no provider key (looked for {missing})"
        fix = "export the key of your provider, or use model=rules, api_base= or another system"
        yield DoctorLine("note", text, f"{fix} without a key")
        return
    yield DoctorLine("ok", f"keys in the environment: {', '.join(present)}")
    if missing:
        yield DoctorLine("ok", f"not set (each is needed only for its own provider): {missing}")


def _folders() -> Iterator[DoctorLine]:
    """Check the folder of the reply cache, and the one where run folders go."""
    cache = default_path()
    if cache is None and os.environ.get("ALPS_CACHE") == "off":
        text = "the reply cache is off (ALPS_CACHE=off): you pay for every repeated call"
        yield DoctorLine("note", text, "unset ALPS_CACHE")
    elif cache is None:
        text = "your home folder is unknown, so alps keeps no reply cache"
        yield DoctorLine("note", text, "set HOME, or set ALPS_CACHE to a folder or to off")
    else:
        yield _cache(cache)
    if not os.access(Path.cwd(), os.W_OK):
        fix = "change to another folder, or set out="
        yield DoctorLine("note", f"{Path.cwd()} can't be written", fix)


def _cache(path: Path) -> DoctorLine:
    # A folder that does not exist yet is created by the first run, if the one above it allows.
    nearest = next((folder for folder in path.parents if folder.exists()), Path("/"))
    if not nearest.is_dir() or not os.access(nearest, os.W_OK):
        text = f"{nearest}: the reply cache can't be written there"
        return DoctorLine("bad", text, "set ALPS_CACHE to another folder, or to off")
    return DoctorLine("ok", f"reply cache: {'' if path.exists() else 'not created yet: '}{path}")


def _links(package: Path) -> Iterator[DoctorLine]:
    """Tell how each of the linked folders is reached from inside the package."""
    reached: dict[str, list[str]] = {}
    for name in LINKED:
        # Where links are not made, as on Windows, a file stands there that holds their target.
        inside, above = package / name, package.parent / name
        if inside.is_dir():
            way = "a link" if inside.is_symlink() else "a folder"
        elif above.is_dir() and str(package.parent) in alps.__path__:
            way = "found through the repository root"
        else:
            fix = "git config core.symlinks true && git checkout -- alps, or install alps again"
            yield DoctorLine("bad", f"the link alps/{name} is broken", fix)
            continue
        reached.setdefault(way, []).append(f"alps/{name}")
        if importlib.util.find_spec(f"alps.{name}") is None:
            yield DoctorLine("bad", f"alps.{name} can't be imported", "install alps again")
    for way, names in reached.items():
        yield DoctorLine("ok", f"{', '.join(names)}: {way}")


def _samples() -> Iterator[DoctorLine]:
    counts = []
    for name in TASKS:
        try:
            counts.append(f"{_samples_of(name)} for {name}")
        except (AlpsError, OSError, ImportError) as error:
            yield DoctorLine(
                "bad", f"samples for {name} can't be read: {error}", "install alps again"
            )
    if counts:
        yield DoctorLine("ok", f"samples: {', '.join(counts)}")


def _samples_of(name: str) -> str:
    """Count the samples of a task; of retrieval the queries, as pools are built when needed."""
    tracks = load_tracks(name)
    # Samples in files of its own are generated when a run asks for them; nothing is written here.
    if tracks[0].data.open_records is not None:
        return "generated"
    split = open_split("samples", None)
    pools = tracks[0].data.pool_size is not None
    # The samples hold queries and a bank of memories, from which pools of any size are built.
    if pools and isinstance(split, Split) and not split.has(tracks[0].place):
        from alps.data.pools import PoolSource

        return f"{len(PoolSource(split, seed=0).queries):,}"
    count = 0
    for task in tracks:
        count += sum(1 for _ in read_samples(split.track(task.place), task.read_sample))
    return f"{count:,}"
