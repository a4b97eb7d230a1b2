"""Files of the user's own code: a module with all that it imports.

Nothing is run to find them: sources are parsed, and modules are looked up as Python would find
them. What lies in the standard library, in site-packages and in `alps` is not the user's.
"""

import ast
import os
import re
import sys
import sysconfig
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from hashlib import sha256
from importlib import import_module, invalidate_caches
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

Hashes = dict[str, str]
"""The sha256 of files, by names that do not depend on where their project lies."""

_INSTALLED = {"site-packages", "dist-packages"}
TEXTS = {".md", ".txt", ".j2", ".jinja", ".jinja2", ".prompt", ".tmpl", ".toml", ".yaml", ".yml"}
"""How the names of files end that may be a prompt."""
_NAMED_IN_SOURCE = {".py", *TEXTS}
LONGEST_NAME = 200
"""The most characters of a text that may name something."""

Find = Callable[[str, Sequence[str] | None], ModuleSpec | None]
"""Finds a module by its full name, in the folders of its package; None for one at the top."""


def hashes_of_module(name: str) -> Hashes:
    """Return the hashes of a module and of all own modules and texts that its source names."""
    return _reached_from(name).hashes()


def _reached_from(name: str) -> "Walk":
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)  # last: a file of the user's must not stand in for a library
    walk = Walk(_on_the_path, "")
    walk.add_module(name)
    return walk


_imported: dict[str, Hashes] = {}


def import_own(name: str) -> ModuleType:
    """Import a module of the user's; one whose files changed since is imported again.

    In a notebook, the class before an edit would else answer for the one after it.
    """
    walk = _reached_from(name)
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


def _forget(files: set[Path]) -> None:
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str) and Path(file).resolve() in files:
            del sys.modules[name]
    invalidate_caches()


class Walk:
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
        """Return the hashes of all that were added and can be read."""
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
        for name in imports(tree, package):
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
        for name in {package, *imports(tree, package)} - {""}:
            spec = self._found(name, None) if "." not in name else None
            for folder in (spec and spec.submodule_search_locations) or ():
                for path in sorted(Path(folder).glob("*.py")) if is_own(Path(folder)) else ():
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
        if path is None or not is_own(path):
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


def is_own(path: Path) -> bool:
    """Tell whether a file is the user's own."""
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


def imports(tree: ast.AST, package: str) -> Iterator[str]:
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
    paths = (node for node in ast.walk(tree) if getattr(node, "attr", "") == "path")
    if "sys.path" not in map(ast.unparse, paths):
        return []
    near = [folder, *folder.absolute().parents[:2]]
    below = [root / word for root in near for word in sorted(_texts_of(tree))]
    return [str(place) for place in (*near, *below) if place.is_dir()]


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
    return {word for word in words if 0 < len(word) <= LONGEST_NAME and word.isprintable()}


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
