"""What is wrong with an installation, and how to mend it.

Nothing here touches the network or imports litellm.
"""

import importlib.util
import os
import platform
import shutil
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal

from rich.console import Console
from rich.table import Table
from rich.text import Text

import alps
from alps.data.release import Split, open_split, read_samples
from alps.errors import AlpsError
from alps.llm.cache import default_path
from alps.report.formatting import visible
from alps.tasks import TASKS, load_tracks

LIBRARIES = (
    "litellm",
    "instructor",
    "pydantic",
    "rich",
    "click",
    "jinja2",
    "numpy",
    "scipy",
    "scikit-learn",
    "rapidfuzz",
    "regex",
    "confusable-homoglyphs",
    "json-repair",
    "platformdirs",
    "datasets",
    "huggingface_hub",
)
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

_NO_HOME = "set HOME, or ALPS_CACHE to a folder, or to off"
SCARCE, SPENT = 1 << 30, 50 << 20
_STYLES = {"ok": "green", "note": "yellow", "bad": "bold red"}

State = Literal["ok", "note", "bad"]


@dataclass(frozen=True)
class Finding:
    """One line of the examination; `mend` says what to do about it."""

    state: State
    text: str
    mend: str = ""


def examine(console: Console) -> int:
    """Print what was found, each with how to mend it; return 1 if anything is bad, else 0."""
    found = [
        *_versions(),
        *_keys(os.environ),
        *_cache(),
        *_links(Path(alps.__file__).parent),
        *_samples(),
        *_disks(),
    ]
    grid = Table.grid(padding=(0, 2))
    grid.add_column(width=4)
    grid.add_column(overflow="fold")
    for finding in found:
        text = Text(visible(finding.text))
        if finding.mend:
            text.append(f"\n→ {visible(finding.mend)}", style="bold")
        grid.add_row(Text(finding.state, style=_STYLES[finding.state]), text)
    console.print(grid, highlight=False)
    bad, notes = (sum(finding.state == state for finding in found) for state in ("bad", "note"))
    verdict = f"{bad} bad" if bad else "nothing bad"
    console.print(
        Text(
            f"\n{verdict}, {notes} {'note' if notes == 1 else 'notes'}",
            style="bold red" if bad else "bold",
        )
    )
    return 1 if bad else 0


def check_library(name: str, installed: str) -> Finding | None:
    """Return what is wrong with a release of a library, None where nothing is known to be."""
    numbers = _numbers(installed)
    if name == "litellm" and numbers[:2] == (1, 106):
        text = f"litellm {installed}: every tool call fails in a base install of 1.106"
        return Finding("bad", text, 'pip install "litellm>=1.90,!=1.106.*"')
    if name == "litellm" and numbers < (1, 90):
        return Finding(
            "bad", f"litellm {installed}: older than 1.90", 'pip install "litellm>=1.90,!=1.106.*"'
        )
    if name == "instructor" and numbers < (1, 16):
        text = f"instructor {installed}: before 1.16 it retries by another contract, so calls are miscounted"
        return Finding("bad", text, 'pip install "instructor>=1.16"')
    if name == "rich" and numbers >= (15,):
        return Finding(
            "bad",
            f"rich {installed}: instructor needs rich below 15",
            'pip install "rich>=13.7,<15"',
        )
    return None


def _versions() -> Iterator[Finding]:
    yield Finding("ok", f"alps {alps.__version__} on Python {platform.python_version()}")
    good = []
    for name in LIBRARIES:
        try:
            installed = version(name)
        except PackageNotFoundError:
            yield Finding(
                "bad", f"{name} is not installed", f"pip install {name}, or install alps again"
            )
            continue
        finding = check_library(name, installed)
        if finding is not None:
            yield finding
        else:
            good.append(f"{name} {installed}")
    if good:
        yield Finding("ok", ", ".join(good))


def _numbers(text: str) -> tuple[int, ...]:
    """Return the leading numbers of a version."""
    numbers = []
    for part in text.split("."):
        if not part.isdecimal():
            break
        numbers.append(int(part))
    return tuple(numbers)


def _keys(environment: Mapping[str, str]) -> Iterator[Finding]:
    """Tell which keys are there; only their names are ever shown."""
    there = [name for name in KEYS if environment.get(name, "").strip()]
    missing = [name for name in KEYS if name not in there]
    for name in there:
        value = environment[name]
        if value != value.strip() or value.strip("\"'") != value:
            yield Finding(
                "note",
                f"{name} has white space or quotes around it",
                f"export {name} again without them",
            )
    if there:
        yield Finding("ok", f"keys in the environment: {', '.join(there)}")
        if missing:
            yield Finding(
                "ok", f"not set, and needed for these providers alone: {', '.join(missing)}"
            )
        return
    mend = "export the key of your provider, or use model=rules, api_base= or another system without a key"
    yield Finding(
        "note", f"no provider's key is in the environment (looked for {', '.join(missing)})", mend
    )


def _cache() -> Iterator[Finding]:
    path = default_path()
    if path is None and os.environ.get("ALPS_CACHE") != "off":
        yield Finding("note", "your home folder is not known, so there is no reply cache", _NO_HOME)
        return
    if path is None:
        yield Finding(
            "note",
            "the reply cache is off (ALPS_CACHE=off): every call is paid for again",
            "unset ALPS_CACHE",
        )
        return
    if (aside := path.with_suffix(".broken")).exists():
        yield Finding(
            "note",
            f"a broken reply cache was put aside: {aside}",
            "remove it when nobody misses it",
        )
    if path.exists():
        yield _replies(path)
    else:
        yield Finding("ok", f"reply cache: none yet; it will be {path}")
    folder = _nearest(path.parent)
    if not _writable(folder):
        yield Finding(
            "bad",
            f"{folder}: the reply cache can't be written there",
            "set ALPS_CACHE to another folder, or to off",
        )


def _replies(path: Path) -> Finding:
    try:
        count = _count_replies(path)
    except sqlite3.DatabaseError as error:
        mend = (
            f"remove {path}, or let the next run put it aside as {path.with_suffix('.broken').name}"
        )
        if isinstance(error, sqlite3.OperationalError):
            mend = "wait for the run that uses it, or set ALPS_CACHE to another folder"
        return Finding("bad", f"reply cache {path} can't be read ({error})", mend)
    size = _size(path.stat().st_size)
    return Finding(
        "ok", f"reply cache: {count:,} {'reply' if count == 1 else 'replies'}, {size}, {path}"
    )


def _count_replies(path: Path) -> int:
    """Count the cached replies without leaving a trace.

    Only a cache that a run has open is read through its log.
    """
    in_use = path.with_name(f"{path.name}-wal").exists()
    address = f"{path.absolute().as_uri()}?{'mode=ro' if in_use else 'immutable=1'}"
    with closing(sqlite3.connect(address, uri=True, timeout=5)) as database:
        begun = database.execute("SELECT 1 FROM sqlite_master WHERE name = 'replies'").fetchone()
        return int(database.execute("SELECT count(*) FROM replies").fetchone()[0]) if begun else 0


def _links(package: Path) -> Iterator[Finding]:
    """Tell how each of the linked folders is reached from inside the package."""
    good: dict[str, list[str]] = {}
    for name in LINKED:
        place, above = package / name, package.parent / name
        if place.is_dir():
            good.setdefault("a link" if place.is_symlink() else "a folder", []).append(name)
        elif above.is_dir() and str(package.parent) in alps.__path__:
            good.setdefault("found through the repository root", []).append(name)
        else:
            mend = "git config core.symlinks true && git checkout -- alps, or install alps again"
            yield Finding("bad", f"alps/{name} leads nowhere", mend)
            continue
        if importlib.util.find_spec(f"alps.{name}") is None:
            yield Finding("bad", f"alps.{name} can't be imported", "install alps again")
    for how, names in good.items():
        yield Finding("ok", f"{', '.join(f'alps/{name}' for name in names)}: {how}")


def _samples() -> Iterator[Finding]:
    counts = []
    for name in TASKS:
        try:
            counts.append(f"{_count_samples(name):,} for {name}")
        except (AlpsError, OSError, ImportError) as error:
            yield Finding("bad", f"samples for {name} can't be read: {error}", "install alps again")
    if counts:
        yield Finding("ok", f"samples: {', '.join(counts)}")


def _count_samples(name: str) -> int:
    """Count the samples of a task.

    Of retrieval the queries, as their pools are built when they are needed.
    """
    split = open_split("samples", None)
    tracks = load_tracks(name)
    if (
        tracks[0].pool_size is not None
        and isinstance(split, Split)
        and not split.has(tracks[0].place)
    ):
        from alps.data.pools import PoolSource

        return len(PoolSource(split, seed=0).queries)
    return sum(
        1 for task in tracks for _ in read_samples(split.track(task.place), task.read_sample)
    )


def _disks() -> Iterator[Finding]:
    places = {"here": Path.cwd()}
    cache = default_path()
    if cache is not None and _writable(_nearest(cache.parent)):
        places["reply cache"] = cache.parent
    if not os.access(Path.cwd(), os.W_OK):
        yield Finding(
            "note", f"{Path.cwd()} can't be written", "go elsewhere, or give run folders with out="
        )
    for what, place in places.items():
        free = shutil.disk_usage(_nearest(place)).free
        state: State = "bad" if free < SPENT else "note" if free < SCARCE else "ok"
        mend = "free some, or use another disk" if state != "ok" else ""
        yield Finding(state, f"{what}: {_size(free)} free", mend)


def _writable(folder: Path) -> bool:
    return folder.is_dir() and os.access(folder, os.W_OK)


def _nearest(folder: Path) -> Path:
    """Return the folder, or the nearest one above it that exists."""
    return next((place for place in (folder, *folder.parents) if place.exists()), Path("/"))


def _size(count: int) -> str:
    size = float(count)
    for unit in ("bytes", "KB", "MB", "GB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "bytes" or size >= 10 else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TB"
