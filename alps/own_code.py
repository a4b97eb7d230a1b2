"""Files of the user's own code: a module with all that it imports, or what a command names.

Nothing is run to find them: sources are parsed, and modules are looked up as Python would find
them. What lies in the standard library, in site-packages and in `alps` is not the user's.
"""

import ast
import os
import re
import shlex
import shutil
import sys
import sysconfig
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from hashlib import sha256
from importlib import import_module, invalidate_caches
from importlib.machinery import ModuleSpec, PathFinder
from itertools import product
from pathlib import Path
from types import ModuleType

Hashes = dict[str, str]
"""The sha256 of files, by names that do not depend on where their project lies."""

_INSTALLED = {"site-packages", "dist-packages"}
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/opt", "/nix", "/snap", "/System", "/Library")
_LOOKED_AT = 8_192
_TEXTS = {".md", ".txt", ".j2", ".jinja", ".jinja2", ".prompt", ".tmpl", ".toml", ".yaml", ".yml"}
_NAMED_IN_SOURCE = {".py", *_TEXTS}
# Of what a command names, a log or a store is no code, and changes with every run.
_SCRIPTS = set(
    """
    .py .pyz .sh .bash .js .mjs .cjs .ts .mts .rb .pl .php .lua .r .R .jl .go .rs .java .jar .kts
    .scala .ex .exs .ml .hs .swift .cs .sql .wasm .json .ini .cfg .conf
    """.split()  # noqa: SIM905 - a list of quoted words hides what is in it
)
_SHELLS = {"", ".sh", ".bash"}
_MAY_BE_WRITTEN = {".json", ".txt", ".md"}
_LONGEST_NAME, _LONGEST_SCRIPT, _MOST_LAYERS = 200, 1 << 16, 4
_FOLDER_OF_SCRIPT = re.compile(r"\A\$(\([^)]*\)|\{[^}]*\}|\w+)/")
_PYTHON = re.compile(r"python[\d.]*\Z")
_TAKE_A_WORD = (["-W"], ["-X"])

Find = Callable[[str, Sequence[str] | None], ModuleSpec | None]
"""Finds a module by its full name, in the folders of its package; None for one at the top."""


def hashes_of_module(name: str) -> Hashes:
    """Return the hashes of a module and of all own modules and texts that its source names."""
    search_working_folder()
    walk = _Walk(_on_the_path, "")
    walk.add_module(name)
    return walk.hashes()


def hashes_of_command(command: str) -> Hashes:
    """Return the hashes of the files that a command names, and of what Python scripts import."""
    found: Hashes = {}
    with suppress(ValueError):  # quotes that do not close: whoever starts it says so
        for words in _commands(shlex.split(command)):
            found |= _hashes_of_words(words)
    return found


_imported: dict[str, Hashes] = {}


def import_own(name: str) -> ModuleType:
    """Import a module of the user's; one whose files changed since is imported again.

    In a notebook, the class before an edit would else answer for the one after it.
    """
    search_working_folder()
    walk = _Walk(_on_the_path, "")
    walk.add_module(name)
    now = walk.hashes()
    if _imported.get(name, now) != now:
        _forget({path.resolve() for path in walk.files.values()})
    # Compiled files are known by their size and second: an edit within that would not be seen.
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        module = import_module(name)
    finally:
        sys.dont_write_bytecode = before
    _imported[name] = now
    return module


def search_working_folder() -> None:
    """Have modules of the working folder found, after all others."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)  # last: a file of the user's must not stand in for a library


def _forget(files: set[Path]) -> None:
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str) and Path(file).resolve() in files:
            del sys.modules[name]
    invalidate_caches()


class _Walk:
    """The files that are reached from where it began, by their names.

    Args:
        find: How modules are found.
        prefix: What names of modules are shown below, with a slash at its end.
    """

    def __init__(self, find: Find, prefix: str) -> None:
        self.files: dict[str, Path] = {}
        self._find, self._prefix = find, prefix
        self._seen: set[str] = set()

    def hashes(self) -> Hashes:
        found = {}
        for name in sorted(self.files):
            with suppress(OSError):
                found[name] = sha256(self.files[name].read_bytes()).hexdigest()
        return found

    def add_module(self, name: str, elsewhere: Sequence[str] = ()) -> None:
        """Add a module, and the packages above it, which are imported before it.

        Args:
            name: Its full name.
            elsewhere: Folders where it may lie, too.
        """
        folders: Sequence[str] | None = None
        parts = name.split(".")
        for end in range(1, len(parts) + 1):
            part = ".".join(parts[:end])
            spec = self._found(part, folders)
            if spec is None and end == 1 and elsewhere:
                spec = PathFinder.find_spec(part, elsewhere)
            if spec is None:
                return
            self._add_found(spec)
            folders = spec.submodule_search_locations
            if folders is None:
                return

    def add_source(self, path: Path, shown: str, package: str = "") -> None:
        """Add a file, and what its source imports and names."""
        if shown in self.files:
            return
        self.files[shown] = path
        tree = _parsed(path)
        elsewhere = _added_to_path(tree, path.parent)
        for name in _imports(tree, package):
            self.add_module(name, elsewhere)
        if _imports_by_variable(tree):
            self._add_what_may_be_imported(tree, package)
        for text, named in _named_files(tree, path.parent):
            below = shown.rpartition("/")[0]
            self.files.setdefault(f"{below}/{text}".lstrip("/"), named)

    def _add_what_may_be_imported(self, tree: ast.AST, package: str) -> None:
        """Add the modules that a source names in a text, and those of its packages.

        It imports by a name that it makes up, and whatever is near may be meant.
        """
        for text in sorted(_texts_of(tree)):
            if re.fullmatch(r"\.*\w+(\.\w+)*", text):
                self.add_module(_absolute(text, package))
        for name in {package, *_imports(tree, package)} - {""}:
            spec = self._found(name, None) if "." not in name else None
            for folder in (spec and spec.submodule_search_locations) or ():
                for path in sorted(Path(folder).glob("*.py")) if _is_own(Path(folder)) else ():
                    self.add_module(f"{name}.{path.stem}")

    def _found(self, name: str, folders: Sequence[str] | None) -> ModuleSpec | None:
        try:
            return self._find(name, folders)
        except KeyError:
            return _without_init(name, folders or ())
        except Exception:  # a finder of somebody's, or a name that is none
            return None

    def _add_found(self, spec: ModuleSpec) -> None:
        if spec.name in self._seen:
            return
        self._seen.add(spec.name)
        path = _file_of(spec)
        if path is None or not _is_own(path):
            return
        parts = spec.name.split(".")
        is_package = spec.submodule_search_locations is not None
        below = parts if is_package else parts[:-1]
        package = ".".join(below)
        self.add_source(path, self._prefix + "/".join([*below, path.name]), package)


def _on_the_path(name: str, folders: Sequence[str] | None) -> ModuleSpec | None:
    for finder in sys.meta_path:
        find = getattr(finder, "find_spec", None)
        if find is not None and (spec := find(name, folders)) is not None:
            found: ModuleSpec = spec
            return found
    return None


def _below(roots: Sequence[str]) -> Find:
    """Return what finds modules in these folders alone."""

    def find(name: str, folders: Sequence[str] | None) -> ModuleSpec | None:
        return PathFinder.find_spec(name, roots if folders is None else folders)

    return find


def _without_init(name: str, folders: Sequence[str]) -> ModuleSpec | None:
    """Return a package without `__init__.py` that lies in another, which is not imported."""
    below = [str(Path(root, name.rpartition(".")[2])) for root in folders]
    spec = ModuleSpec(name, None, is_package=True)
    spec.submodule_search_locations = [place for place in below if Path(place).is_dir()]
    return spec if spec.submodule_search_locations else None


def _file_of(spec: ModuleSpec) -> Path | None:
    """Return the file that a module is read from, an archive too."""
    if not spec.origin:
        return None
    path = Path(spec.origin)
    return next((one for one in (path, *path.parents) if one.is_file()), None)


def _is_own(path: Path) -> bool:
    resolved = path.resolve()
    if not _INSTALLED.isdisjoint(resolved.parts):
        return False
    return not any(resolved.is_relative_to(root) for root in _not_own())


@cache
def _not_own() -> list[Path]:
    places = [sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")]
    roots = [Path(place).resolve() for place in places if place]
    package = Path(__file__).resolve().parent
    return [*roots, package, *(link.resolve() for link in package.iterdir() if link.is_symlink())]


def _parsed(path: Path) -> ast.AST:
    if path.suffix in (".py", ""):
        with suppress(OSError, SyntaxError, ValueError, RecursionError, MemoryError):
            return ast.parse(path.read_bytes())
    return ast.Module([], [])


def _imports(tree: ast.AST, package: str) -> Iterator[str]:
    """Yield the names of the modules that a source may import, wherever in it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = _absolute("." * node.level + (node.module or ""), package)
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names if alias.name != "*")
        elif isinstance(node, ast.Call) and _imports_by_name(node.func):
            for argument in node.args[:1]:
                if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                    yield _absolute(argument.value, package)


def _added_to_path(tree: ast.AST, folder: Path) -> list[str]:
    """Return the folders that a source may add to `sys.path`: its own, those above, named ones."""
    nodes = list(ast.walk(tree))
    if not any(isinstance(node, ast.Attribute) and _is_path(node) for node in nodes):
        return []
    near = [folder, *folder.absolute().parents[:2]]
    words = [node.value for node in nodes if isinstance(node, ast.Constant)]
    named = {word for word in words if isinstance(word, str) and 0 < len(word) <= _LONGEST_NAME}
    below = [root / word for root in near for word in sorted(named) if word.isprintable()]
    return [str(place) for place in (*near, *below) if place.is_dir()]


def _is_path(node: ast.Attribute) -> bool:
    return node.attr == "path" and isinstance(node.value, ast.Name) and node.value.id == "sys"


def _imports_by_name(function: ast.expr) -> bool:
    name = function.attr if isinstance(function, ast.Attribute) else None
    name = function.id if isinstance(function, ast.Name) else name
    return name in ("import_module", "__import__", "run_module")


def _imports_by_variable(tree: ast.AST) -> bool:
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    named = [call.args[0] for call in calls if call.args and _imports_by_name(call.func)]
    return any(not isinstance(argument, ast.Constant) for argument in named)


def _texts_of(tree: ast.AST) -> set[str]:
    words = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            words.add(node.value)
    return {word for word in words if 0 < len(word) <= _LONGEST_NAME and word.isprintable()}


def _absolute(name: str, package: str) -> str:
    """Return a name that dots may begin as one from the top."""
    bare = name.lstrip(".")
    level = len(name) - len(bare)
    if level == 0:
        return name
    parents = package.split(".")
    above = parents[: len(parents) - level + 1]
    return ".".join([*above, bare] if bare else above)


def _named_files(tree: ast.AST, folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield the texts, as a prompt, that a source names beside it, or in a folder it names."""
    short = sorted(_texts_of(tree))
    texts = [word for word in short if Path(word).suffix in _NAMED_IN_SOURCE]
    if not texts:
        return
    folders = [""]
    for word in short:
        if re.fullmatch(r"[\w-][\w./ -]*", word) and (folder / word).is_dir():
            folders.append(f"{word.rstrip('/')}/")
    for text in texts:
        for place in folders:
            path = folder / (place + text)
            if os.path.isabs(text):
                continue
            if "*" in text:
                for found in sorted(path.parent.glob(path.name)) if path.parent.is_dir() else ():
                    yield found.relative_to(folder).as_posix(), found
            elif path.is_file():
                yield place + text, path


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
    return (is_script or path.suffix in _SCRIPTS | _TEXTS) and _is_own(path)


def _is_text(path: Path) -> bool:
    with path.open("rb") as file:
        return b"\0" not in file.read(_LOOKED_AT)


def _of_script(path: Path, above: Sequence[Path] = ()) -> Hashes:
    """Return the hashes of a script, and of what it imports, or its lines name."""
    if path in above:
        return {}
    shown = _shown(path, path.name)
    with path.open("rb") as file:
        first = file.readline(_LONGEST_NAME)
    is_python = path.suffix == ".py" or (first.startswith(b"#!") and b"python" in first)
    if not is_python:
        found = {shown: sha256(path.read_bytes()).hexdigest()}
        return found | _of_lines(path, above) if path.suffix in _SHELLS else found
    below = shown.rpartition("/")[0]
    beside = [str(path.resolve().parent), str(path.absolute().parent)]
    walk = _Walk(_below([*beside, *_python_path()]), f"{below}/".lstrip("/"))
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
    walk = _Walk(_below([os.getcwd(), *folders, *_python_path()]), "")
    walk.add_module(name)
    walk.add_module(f"{name}.__main__")
    return walk.hashes()


def _of_code(code: str) -> Hashes:
    """Return the hashes of what the code of `python -c CODE` imports."""
    walk = _Walk(_below([os.getcwd(), *_python_path()]), "")
    with suppress(SyntaxError, ValueError, RecursionError, MemoryError):
        for name in _imports(ast.parse(code), ""):
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
