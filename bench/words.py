"""The `key=value` words of a benchmark; one that can't be read ends it with a sentence."""

import json
import os
import subprocess
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

BESIDE = Path(__file__).resolve().parents[2] / "shared" / "alpsbench_sample"


def read_words(arguments: Sequence[str], defaults: Mapping[str, str]) -> dict[str, str]:
    """Return the words by their keys, those of `defaults` where they are not given.

    `write` takes yes, or nothing.
    """
    words = {"write": "", **defaults, **dict(word.partition("=")[::2] for word in arguments)}
    if unknown := [word for word in words if word not in defaults and word != "write"]:
        known = ", ".join(dict.fromkeys((*defaults, "write")))
        sys.exit(f"{unknown[0]}: not a word of this benchmark ({known}).")
    if words["write"] not in ("", "yes"):
        sys.exit(f"write={words['write']}: expected yes, or nothing.")
    return words


def whole(words: Mapping[str, str], key: str, *, least: int = 1) -> int:
    """Return the whole number of a word."""
    if not words[key].isdecimal() or int(words[key]) < least:
        sys.exit(f"{key}={words[key]}: expected a whole number of at least {least}.")
    return int(words[key])


def some_of(words: Mapping[str, str], key: str, known: Collection[str]) -> list[str]:
    """Return the names of a word, which are some of `known` with commas between them."""
    named = words[key].split(",")
    if unknown := [name for name in named if name not in known]:
        sys.exit(f"{key}={unknown[0]}: expected some of {','.join(known)}.")
    return named


def program(words: Mapping[str, str], key: str) -> str:
    """Return the interpreter of a word from the root on, or nothing.

    A link stays one: it makes an environment.
    """
    return os.path.abspath(words[key]) if words[key] else ""


def version(python: str, *packages: str) -> str:
    """Return the versions of packages in an environment; end with a sentence where it lacks one."""
    names = ", ".join(f"version({package!r})" for package in packages)
    asking = [python, "-c", f"from importlib.metadata import version; print({names})"]
    try:
        done = subprocess.run(asking, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        sys.exit(f"{python} is no Python that has {' and '.join(packages)}; name another.")
    return done.stdout.strip()


def sample_folder() -> Path | None:
    """Return the folder of the AlpsBench sample, which is no part of the repository.

    It is what `ALPS_SAMPLE` names, else the one beside the checkout; None where it is not there.
    """
    folder = Path(os.environ.get("ALPS_SAMPLE") or BESIDE)
    return folder if (folder / "benchmark_data").is_dir() else None


def full_folder() -> Path | None:
    """Return the folder with the outputs of seven models; None where it is not there.

    It is what `ALPS_FULL` names, else `alpsbench_full` beside the sample or the checkout.
    """
    sample = Path(os.environ.get("ALPS_SAMPLE") or BESIDE)
    beside = [place.with_name("alpsbench_full") for place in (sample, BESIDE)]
    places = [Path(os.environ.get("ALPS_FULL") or beside[0]), *beside]
    return next((place for place in places if (place / "outputs" / "task1").is_dir()), None)


def rows(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a file of JSON lines."""
    return [json.loads(line) for line in path.read_bytes().splitlines()]
