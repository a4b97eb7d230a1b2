"""Programs that run in environments of their own: their packages clash with those of `alps`.

What is installed into one is pinned, with the hashes of its files, by `NAME.txt`. `serve.py` is
started by the environment's Python, beside the adapter that it is told: nothing of `alps` can be
imported in either.
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
from alps.llm.secrets import program_environment
from alps.waiting import status

PROGRAMS = Path(__file__).parent
SERVE = PROGRAMS / "serve.py"
INSTALLED = "installed"
"""The file of an environment with the hash of what was installed into it, once all of it was."""
# How a machine reaches the package index; no key of a provider is among them
_PASSED = re.compile(
    r"(?i)(https?|all|no)_proxy|pip_((extra_)?index_url|find_links|no_index|(client_)?cert|proxy"
    r"|trusted_host|(default_)?timeout|retries|(no_)?cache_dir|config_file|keyring_provider)"
)


@dataclass(frozen=True)
class Environment:
    """An environment of its own in the user's cache folder.

    Attributes:
        name: What it is for, as messages call it.
        place: Its folder, below the cache folder.
        pinned: The file with every package of it, its version and the hashes of its files.
        of: The packages that it is made for, as a message says.
    """

    name: str
    place: str
    pinned: Path
    of: str

    @property
    def folder(self) -> Path:
        """Where it is, whether it is there or not.

        Raises:
            UsageError: If the user has no cache folder.
        """
        folder = user_folder("cache")
        if folder is None:
            why = "there is no home folder to install into; set XDG_CACHE_HOME"
            raise UsageError(f"{self.name}: {why}")
        return folder / self.place

    @property
    def python(self) -> str:
        """The Python of it."""
        return str(self.folder / "bin" / "python")

    @property
    def is_installed(self) -> bool:
        """Whether all of its packages were installed."""
        if user_folder("cache") is None:
            return False
        marker = self.folder / INSTALLED
        if not marker.is_file():
            return False
        return marker.read_text(encoding="utf-8", errors="replace").strip() == self._hash()

    def install(self) -> Path:
        """Make it; return its folder. What pip says goes to our stderr.

        Only files with a known hash are installed, and no code of theirs runs for it.

        Raises:
            UsageError: If it can't be made, or pip can't install its packages.
        """
        folder = self.folder
        if self.is_installed:
            return folder
        try:
            with status(f"{self.name}: creating its environment", announced=True):
                # Cleared: an installation that was broken off left half of its packages.
                EnvBuilder(with_pip=True, clear=True, symlinks=True).create(folder)
        except (OSError, subprocess.CalledProcessError) as error:
            raise UsageError(f"{folder}: can't create an environment: {error}") from error
        # Isolated: no module of the folder that the user is in, or of PYTHONPATH, stands in for
        # pip's.
        pip = [self.python, "-I", "-m", "pip", "install"]
        # The file has every package; a dependency that is resolved today would have no known hash.
        pip += ["--disable-pip-version-check", "--no-deps"]
        # Building from source would run code of the packages.
        pinned = ["--require-hashes", "--only-binary", ":all:", "-r", str(self.pinned)]
        passed = [variable for variable in os.environ if _PASSED.fullmatch(variable)]
        # In a terminal pip shows how far it is.
        quiet = sys.stderr.isatty()
        shown = (
            nullcontext() if quiet else status(f"{self.name}: installing with pip", announced=True)
        )
        with shown:
            done = subprocess.run(
                [*pip, *pinned], stdout=sys.stderr, check=False, env=program_environment(passed)
            )
        if done.returncode != 0:
            raise UsageError(f"{self.name}: pip could not install {self.of}; see above")
        # Last, and with the hash: a new version of `alps` with other pins installs again.
        (folder / INSTALLED).write_text(self._hash() + "\n", encoding="utf-8")
        return folder

    def _hash(self) -> str:
        return sha256(self.pinned.read_bytes()).hexdigest()


APART: Mapping[str, Environment] = {
    "memos": Environment(
        "memos",
        place="memory/memos",
        pinned=PROGRAMS / "memos.txt",
        of="MemoryOS==2.0.33 qdrant-client==1.20.0",
    ),
}
"""The memory systems that run apart, by the name that `memory=` gives."""
_ADAPTERS: Mapping[str, str] = {"memos": "memos_store:MemOS"}
"""The module of each beside `serve.py`, and the class in it."""


def environment(name: str) -> Environment:
    """Return the environment of a system, whether it is there or not.

    Raises:
        UsageError: If there is no such system.
    """
    if name not in APART:
        known = ", ".join(APART)
        raise UsageError(f"{name}: unknown{closest(name, APART)} (known: {known})")
    return APART[name]


def command(name: str) -> str:
    """Return the command that runs a system.

    Raises:
        UsageError: If it is not installed; names the command that does it.
    """
    apart = environment(name)
    if not apart.is_installed:
        raise UsageError(f"memory={name}: not installed; run alps memory install {name}")
    return shlex.join([apart.python, "-I", str(SERVE), _ADAPTERS[name]])
