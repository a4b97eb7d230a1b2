"""Memories by the name that `memory=` gives.

What it names may be code: who looks into a stranger's run must not run the stranger's code.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from importlib.metadata import Distribution, distributions
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from alps.embeddings import EMBEDDERS
from alps.errors import UsageError, closest
from alps.ext.adapters.python_class import declared_settings, instantiate
from alps.ext.memory import FILE, STORED
from alps.ext.memory.built_in import BOXED, PRODUCTS, Placebo, asks_models, is_boxed, open_boxed
from alps.ext.memory.connection import METHODS, ClassConnection, MemoryConnection
from alps.ext.memory.journal import ADMISSION, Diary
from alps.ext.memory.line_protocol import JsonLines, McpTools, SpokenConnection
from alps.ext.memory.programs import APART, command
from alps.ext.memory.protocol import Opening
from alps.ext.memory.reader import SELECTORS, EmbeddedMemory, open_embedded
from alps.ext.memory.store import Samples, Store
from alps.llm.secrets import redact
from alps.run.opened import RunFolder
from alps.systems.base import TRACEBACKS
from alps.systems.embedded import RETRIEVERS
from alps.tasks.by_memory import PLACEBO

if TYPE_CHECKING:
    from rich.console import Console

    from alps.ext.memory.proxy import Behind

PYTHON, PROGRAM, MCP = "python:", "program:", "mcp:"
SPOKEN, HTTP = (PROGRAM, MCP), ("http://", "https://")
OURS = (*SELECTORS, PLACEBO, *BOXED)
KNOWN = (*OURS, *APART, f"{PYTHON}MODULE:CLASS", f"{PROGRAM}CMD", "http://…", f"{MCP}CMD")

_FOREIGN = (PYTHON, *SPOKEN, *HTTP)


@dataclass(frozen=True)
class MemoryOptions:
    """What a memory is opened with.

    Attributes:
        k: How many hits it is asked for.
        timeout: Seconds that one call may take.
        seed: Of every random draw.
        folder: The run folder; None where nothing is kept, as in a dry run.
        options: What the user gave as `memory.NAME=VALUE`.
        env: Variables of the environment that a program gets, too.
        llm: Whom it may ask; None for nobody.
        embedder: Who embeds for it; None for nobody.
    """

    k: int
    timeout: float = 120.0
    seed: int = 0
    folder: Path | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    env: Sequence[str] = ()
    llm: "Behind | None" = None
    embedder: "Behind | None" = None


def is_ours(name: str) -> bool:
    """Tell whether `name` is a memory of the package that reads no file and asks nobody."""
    boxed = is_boxed(name) and ":" not in name and not asks_models(name)
    return boxed or name == PLACEBO or open_embedded(name) is not None


def check_memory(name: str, options: MemoryOptions) -> None:
    """Refuse a memory that nothing is called by, and options that it does not take.

    Nothing is started, and no server is asked.

    Raises:
        UsageError: If there is none by that name, or it can't be used.
    """
    if name != PLACEBO and open_embedded(name) is None:
        _connect(name, options)
    elif options.options:
        option = next(iter(options.options))
        raise UsageError(f"memory.{option}: memory={name} takes no options")


def adapter_versions(name: str) -> dict[str, str]:
    """Return the hash of the module of a class, and the version of the package that it is in."""
    if not name.startswith(PYTHON):
        return {}
    module = name.removeprefix(PYTHON).partition(":")[0]
    spec = find_spec(module)
    versions = {}
    if spec is not None and spec.origin is not None and Path(spec.origin).is_file():
        digest = sha256(Path(spec.origin).read_bytes()).hexdigest()
        # A file of the user's has no version but its content.
        versions["adapter"] = f"sha256 {digest}"
    top = module.partition(".")[0]
    for package in distributions():
        if _has_module(package, top):
            versions[package.name] = package.version
    return versions


def _has_module(package: Distribution, top: str) -> bool:
    """Tell whether a top-level module is of a package, from what its installation noted."""
    # `packages_distributions` parses the lists of files of all packages: .4 s of every start
    declared = package.read_text("top_level.txt")
    if declared is not None:
        return top in declared.split()
    noted = package.read_text("RECORD") or ""
    return re.search(rf"^{re.escape(top)}(?:/|\.py,)", noted, re.MULTILINE) is not None


def open_memory(name: str, options: MemoryOptions, samples: Samples) -> EmbeddedMemory:
    """Return the memory called `name`.

    `samples` yields everything that it will be asked about.

    Raises:
        UsageError: If there is none by that name, or it can't be used.
    """
    embedded = open_embedded(name)
    if embedded is not None:
        return embedded
    if name == PLACEBO:
        return Placebo(samples, k=options.k)
    folder, connection = options.folder, _connect(name, options)
    checked, llm, embedder = None, None, None
    if folder is not None and (options.llm is not None or options.embedder is not None):
        from alps.ext.memory.metering import Meter, MeteredConnection

        meter = Meter(options.llm, options.embedder, folder=folder)
        checked = MeteredConnection(connection, meter, ADMISSION)
        connection = MeteredConnection(connection, meter)
        llm, embedder = meter.endpoints
    scratch = Path() if folder is None else folder / STORED
    opening = Opening(scratch, llm, embedder, options.seed, options.options)
    return Store(
        name,
        connection,
        opening,
        Diary(None if folder is None else folder / FILE),
        samples,
        k=options.k,
        timeout=options.timeout,
        # Where there is no run folder, no program is started and no server or model is asked; what
        # is bundled and local shows its real context.
        dry=folder is None and (asks_models(name) or not is_boxed(name)),
        checked=checked,
        brief=name in RETRIEVERS,
    )


def _connect(name: str, options: MemoryOptions) -> MemoryConnection:
    key = f"memory={redact(name)}"
    if is_boxed(name):
        return ClassConnection(open_boxed(name, options.options))
    if name.startswith(PYTHON):
        system = instantiate(name.removeprefix(PYTHON), key, METHODS)
        log = None if options.folder is None else options.folder / TRACEBACKS
        settings = {"class": name.removeprefix(PYTHON), **declared_settings(system, key)}
        return ClassConnection(system, settings=settings, key=key, tracebacks=log)
    if name.startswith(HTTP):
        from alps.ext.memory.server import HttpConnection

        return HttpConnection(name, options.options)
    folder, env = options.folder, options.env
    if name in APART:
        settings = {"packages": APART[name].of}
        return SpokenConnection(
            command(name), JsonLines(), key=key, env=env, folder=folder, settings=settings
        )
    for prefix, language in ((PROGRAM, JsonLines), (MCP, McpTools)):
        if name.startswith(prefix):
            typed = name.removeprefix(prefix)
            return SpokenConnection(typed, language(), key=key, env=env, folder=folder)
    known = ", ".join(KNOWN)
    raise UsageError(f"memory={name}: unknown{closest(name, KNOWN)} (known: {known})")


def refuse_untyped(run: RunFolder, typed: Mapping[str, str | None]) -> None:
    """Refuse a run whose system or memory is code or a server, unless that is typed again.

    Raises:
        UsageError: If one is not; says what to type.
    """
    for key, value in typed.items():
        named = str(run.manifest.settings.get(key) or "")
        if value is not None and value != named:
            raise UsageError(f"{key}={value}: {run.folder} was made with {key}={named}")
        if value is None and named.startswith(_FOREIGN):
            raise UsageError(
                f"{run.folder} was made with {key}={named}, and this command would use this code "
                f"or server: if you trust it, add {key}=… to the command"
            )


def list_memories(console: "Console") -> None:
    """Print the memory systems that `memory=` accepts, and what each lacks."""
    from alps.show.table import Table, named, printed, row_of

    # A command in two lines could not be copied.
    columns = [named("memory=", "no"), named("description", "fold"), named("installed", "no")]
    rows = [row_of(*cells) for cells in _known()]
    console.print(*printed([Table("", columns, rows, layout="plain")]))


def _known() -> Iterator[tuple[str, str, str]]:
    for name in BOXED:
        if name not in PRODUCTS:
            model = EMBEDDERS.get(name)
            missing = model.installation if model is not None and model.missing else ""
            yield name, "bundled with alps", missing or "yes"
    for name in PRODUCTS:
        # An extra has the name of the module that it installs.
        missing = f"pip install 'alps-eval[{name}]'"
        yield name, "in the process of alps", "yes" if find_spec(name) else missing
    for name, apart in APART.items():
        there = apart.is_installed
        what = f"in a separate environment: {apart.of}"
        what += f" ({apart.folder})" if there else ""
        yield name, what, "yes" if there else f"alps memory install {name}"
