"""Memory systems whose packages clash with those of `alps`: each in an environment of its own.

What is installed is pinned, with the hashes of its files, by `programs/NAME.txt`.
"""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from venv import EnvBuilder

from alps.errors import UsageError, closest
from alps.folders import user_folder
from alps.systems.process import program_environment
from alps.waiting import status

PROGRAMS = Path(__file__).parent / "programs"
SERVE = PROGRAMS / "serve.py"
INSTALLED = "installed"
"""The file of an environment with the hash of what was installed into it, once all of it was."""
# How a machine reaches the package index; no key of a provider is among them
_PASSED = re.compile(
    r"(?i)(https?|all|no)_proxy|pip_((extra_)?index_url|find_links|no_index|(client_)?cert|proxy"
    r"|trusted_host|(default_)?timeout|retries|(no_)?cache_dir|config_file|keyring_provider)"
)


@dataclass(frozen=True)
class Apart:
    """A memory system in an environment of its own.

    Attributes:
        adapter: The module beside `serve.py` and the class in it.
        packages: What it is; all that these need is in `programs/NAME.txt`, too.
    """

    adapter: str
    packages: tuple[str, ...]


APART: Mapping[str, Apart] = {
    "memos": Apart("memos_store:MemOS", ("MemoryOS==2.0.33", "qdrant-client==1.20.0")),
}
"""The systems by the name that `memory=` gives."""


def environment(name: str) -> Path:
    """Return the folder of the environment of a system, whether it is there or not.

    Raises:
        UsageError: If there is no such system, or the user has no cache folder.
    """
    if name not in APART:
        known = ", ".join(APART)
        raise UsageError(f"{name}: unknown{closest(name, APART)} (known: {known})")
    folder = user_folder("cache")
    if folder is None:
        raise UsageError(f"{name}: there is no home folder to install into; set XDG_CACHE_HOME")
    return folder / "memory" / name


def installed(name: str) -> bool:
    """Tell whether all packages of a system were installed."""
    marker = environment(name) / INSTALLED
    return marker.is_file() and marker.read_text(
        encoding="utf-8", errors="replace"
    ).strip() == _pinned(name)


def requirements(name: str) -> Path:
    """Return the file with every package of a system, its version and the hashes of its files."""
    return PROGRAMS / f"{name}.txt"


def _pinned(name: str) -> str:
    return sha256(requirements(name).read_bytes()).hexdigest()


def packages(name: str) -> list[str]:
    """Return what the environment of a system needs."""
    return list(APART[name].packages)


def install(name: str) -> Path:
    """Make the environment of a system; return its folder. What pip says goes to our stderr.

    Only files with a known hash are installed, and no code of theirs runs for it.

    Raises:
        UsageError: If it can't be made, or pip can't install its packages.
    """
    folder = environment(name)
    if installed(name):
        return folder
    try:
        with status(f"{name}: making its environment", announced=True):
            EnvBuilder(with_pip=True, clear=True, symlinks=True).create(folder)
    except (OSError, subprocess.CalledProcessError) as error:
        raise UsageError(f"{folder}: can't make an environment: {error}") from error
    # Isolated: no module of the folder that the user is in, or of PYTHONPATH, stands in for pip's.
    pip = [_python(folder), "-I", "-m", "pip", "install"]
    pip += ["--disable-pip-version-check", "--no-deps"]
    pinned = ["--require-hashes", "--only-binary", ":all:", "-r", str(requirements(name))]
    passed = [variable for variable in os.environ if _PASSED.fullmatch(variable)]
    # In a terminal pip shows how far it is.
    shown = (
        nullcontext() if sys.stderr.isatty() else status(f"{name}: pip installs", announced=True)
    )
    with shown:
        done = subprocess.run(
            [*pip, *pinned], stdout=sys.stderr, check=False, env=program_environment(passed)
        )
    if done.returncode != 0:
        raise UsageError(f"{name}: pip could not install {' '.join(packages(name))}; see above")
    (folder / INSTALLED).write_text(_pinned(name) + "\n", encoding="utf-8")
    return folder


def command(name: str) -> str:
    """Return the command that runs a system.

    Raises:
        UsageError: If it is not installed; names the command that does it.
    """
    if not installed(name):
        raise UsageError(f"memory={name}: not installed — alps memory install {name}")
    return shlex.join([_python(environment(name)), "-I", str(SERVE), APART[name].adapter])


def _python(folder: Path) -> str:
    return str(folder / "bin" / "python")
