"""Files of the user's own code that a command names, and what its Python scripts import.

Nothing is run to find them.
"""

import ast
import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from hashlib import sha256
from importlib.machinery import ModuleSpec, PathFinder
from itertools import product
from pathlib import Path

from alps.own_code import LONGEST_NAME, TEXTS, Find, Hashes, Walk, imports, is_own

_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/opt", "/nix", "/snap", "/System", "/Library")
_LOOKED_AT = 8_192
# Of what a command names, a log or a store is no code, and changes with every run.
_SCRIPTS = set(
    """
    .py .pyz .sh .bash .js .mjs .cjs .ts .mts .rb .pl .php .lua .r .R .jl .go .rs .java .jar .kts
    .scala .ex .exs .ml .hs .swift .cs .sql .wasm .json .ini .cfg .conf
    """.split()  # noqa: SIM905 - a list of quoted words hides what is in it
)
_SHELLS = {"", ".sh", ".bash"}
_MAY_BE_WRITTEN = {".json", ".txt", ".md"}
_LONGEST_SCRIPT, _MOST_LAYERS = 1 << 16, 4
_FOLDER_OF_SCRIPT = re.compile(r"\A\$(\([^)]*\)|\{[^}]*\}|\w+)/")
_PYTHON = re.compile(r"python[\d.]*\Z")
_TAKE_A_WORD = (["-W"], ["-X"])


def hashes_of_command(command: str) -> Hashes:
    """Return the hashes of the files that a command names, and of what Python scripts import."""
    found: Hashes = {}
    with suppress(ValueError):  # quotes that do not close: whoever starts it says so
        for words in _commands(shlex.split(command)):
            found |= _hashes_of_words(words)
    return found


def _below(roots: Sequence[str]) -> Find:
    """Return what finds modules in these folders alone."""

    def find(name: str, folders: Sequence[str] | None) -> ModuleSpec | None:
        return PathFinder.find_spec(name, roots if folders is None else folders)

    return find


def _commands(words: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield a command, and those that are words of it, as behind `sh -c`."""
    yield words
    for word in words[1:]:
        if " " in word:
            with suppress(ValueError):
                within = shlex.shlex(word, posix=True, punctuation_chars=True)
                within.whitespace_split = True
                yield from _commands(list(within))


def _hashes_of_words(words: Sequence[str], above: Sequence[Path] = ()) -> Hashes:
    """Return the hashes of what a command names; `above` are the scripts that it is a line of."""
    found = _hashes_of_executable(words[0], above) if words else {}
    folders = [word for word in words[1:] if os.path.isdir(word)]
    folders += [str(script.parent) for script in above]
    asked = None
    for place, word in enumerate(words):
        if asked == "-m":
            found |= _of_script_module(word, folders)
        elif asked == "-c":
            found |= _of_code(word)
        elif place:
            found |= _of_named(word, folders, above)
        asked = word if word in ("-m", "-c") and _of_python(words[:place]) else None
    return found


def _of_python(words: Sequence[str]) -> bool:
    """Tell whether the last of these words but its options calls Python."""
    rest = list(words)
    while rest and (rest[-1].startswith("-") or rest[-2:-1] in _TAKE_A_WORD):
        rest.pop()
    return bool(rest) and _PYTHON.match(Path(rest[-1]).name) is not None


def _hashes_of_executable(word: str, above: Sequence[Path]) -> Hashes:
    path = shutil.which(word)
    if path is None or _PYTHON.match(Path(word).name):
        return {}
    resolved = Path(path).resolve()
    places = [*_SYSTEM, sys.prefix, sys.base_prefix]
    if any(resolved.is_relative_to(place) for place in places):
        return {}
    # What is installed for all projects, such as node, is found by its bare name.
    bare = os.sep not in word
    return {} if bare and not _is_text(Path(path)) else _of_script(Path(path), above)


def _of_named(word: str, folders: Sequence[str], above: Sequence[Path]) -> Hashes:
    """Return the hashes of the file that a word names, also behind `--name=`.

    Args:
        word: A word of a command.
        folders: Those that the command names: it may begin in one, as behind `cd`.
        above: The scripts that the command is a line of.
    """
    texts = dict.fromkeys((word, word.partition("=")[2]))
    if above:  # as in `"$(dirname "$0")/answer.py"`
        texts[_FOLDER_OF_SCRIPT.sub("", word)] = None
    for folder, text in product(("", *folders), texts):
        path = Path(folder, text)
        with suppress(OSError, ValueError):
            if text and path.is_dir():
                path /= "__main__.py"
            if text and path.is_file() and _is_source(path):
                # What a script names may be what it writes.
                written = bool(above) and path.suffix in _MAY_BE_WRITTEN
                return {} if written else _of_script(path, above)
    return {}


def _is_source(path: Path) -> bool:
    """Tell whether a file that a command names is the user's code or settings."""
    with path.open("rb") as file:
        is_script = file.read(2) == b"#!" or os.access(path, os.X_OK)
    return (is_script or path.suffix in _SCRIPTS | TEXTS) and is_own(path)


def _is_text(path: Path) -> bool:
    with path.open("rb") as file:
        return b"\0" not in file.read(_LOOKED_AT)


def _of_script(path: Path, above: Sequence[Path] = ()) -> Hashes:
    """Return the hashes of a script, and of what it imports, or its lines name."""
    if path in above:
        return {}
    shown = _shown(path, path.name)
    with path.open("rb") as file:
        first = file.readline(LONGEST_NAME)
    is_python = path.suffix == ".py" or (first.startswith(b"#!") and b"python" in first)
    if not is_python:
        found = {shown: sha256(path.read_bytes()).hexdigest()}
        return found | _of_lines(path, above) if path.suffix in _SHELLS else found
    below = shown.rpartition("/")[0]
    beside = [str(path.resolve().parent), str(path.absolute().parent)]
    walk = Walk(_below([*beside, *_python_path()]), f"{below}/".lstrip("/"))
    walk.add_source(path, shown)
    return walk.hashes()


def _of_lines(script: Path, above: Sequence[Path]) -> Hashes:
    """Return the hashes of what the lines of a script of a shell name."""
    found: Hashes = {}
    if len(above) >= _MOST_LAYERS or script.stat().st_size > _LONGEST_SCRIPT:
        return found
    for line in script.read_text(encoding="utf-8", errors="replace").splitlines():
        with suppress(ValueError):  # quotes that go on in the next line
            for words in _commands(shlex.split(line, comments=True)):
                found |= _hashes_of_words(words, (*above, script))
    return found


def _of_script_module(name: str, folders: Sequence[str]) -> Hashes:
    """Return the hashes of what `python -m NAME` runs."""
    walk = Walk(_below([os.getcwd(), *folders, *_python_path()]), "")
    walk.add_module(name)
    walk.add_module(f"{name}.__main__")
    return walk.hashes()


def _of_code(code: str) -> Hashes:
    """Return the hashes of what the code of `python -c CODE` imports."""
    walk = Walk(_below([os.getcwd(), *_python_path()]), "")
    with suppress(SyntaxError, ValueError, RecursionError, MemoryError):
        for name in imports(ast.parse(code), ""):
            walk.add_module(name)
    return walk.hashes()


def _python_path() -> list[str]:
    return [place for place in os.environ.get("PYTHONPATH", "").split(os.pathsep) if place]


def _shown(path: Path, otherwise: str) -> str:
    """Return a path from the working folder on, or what it is called where it lies elsewhere."""
    # Not resolved: a link is named as it was typed.
    place = Path(os.path.normpath(path.absolute()))
    if place.is_relative_to(Path.cwd()):
        return place.relative_to(Path.cwd()).as_posix()
    return otherwise
