"""Extensions: the declaration of one, and all that are found.

The spine runs, scores and shows a task, and knows no extension by its name. Each folder of
`alps/ext` holds one, and a package of anybody's may bring others: an entry point of the group
`alps.extensions` that names an `Extension`.
"""

import pkgutil
import sys
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from alps.errors import AlpsError, UsageError

if TYPE_CHECKING:
    from pydantic import BaseModel

    Mixins = list[type[BaseModel]]

Named = Literal["commands", "moved", "removed", "scorings", "systems", "code", "judges", "exports"]
GROUP = "alps.extensions"
EVERYDAY = ""
"""The heading of the commands that help lists first."""
UNLISTED = "unlisted"
"""The heading of those that it does not list."""
COMMANDS = {
    "run": "alps.commands:run",
    "score": "alps.commands:score",
    "compare": "alps.commands:compare",
}
"""Where the commands of the spine lie; extensions name their own."""


@dataclass(frozen=True)
class Extension:
    """A feature that a plain run does not need.

    What it names by `module:name` is imported where it is first needed, so that a run pays for
    nothing that it does not use.

    Attributes:
        name: What messages call it.
        commands: Where its commands lie, by the words that call each: `{"view": "mine:view"}`, or
            `{"data mine": "mine:build"}` for one of the group `data`.
        tasks: Where the tasks that it brings are made, by their names: `{"mood": "mine:tracks"}`,
            from `alps.tasks.TaskOptions` to the tracks.
        task_keys: The keys of a run that mean something to those tasks, and not to every task; its
            own among them are in `TaskOptions.added`.
        heading: Under which `alps --help` lists them, such as `Memory`; `EVERYDAY` for none, and
            `UNLISTED` where it does not.
        on_tab: What answers Tab on the words of a command, from click's context and parameter, what
            is typed, and whether `runs` or other `folders` are among the words: `mine:answers`.
        moved: Commands by their old words, which work for one version: `{"old": "memory new"}`.
        removed: What to do instead of commands that are gone, by their words.
        needs: The names of the extensions that it imports, and of tasks that have a folder to
            themselves; without one of them it is left out.
        part_if: Settings of a run: it has a part where one of them is given and not its default.
        part_after: A file or folder of its part: it has a part where that is in the run folder.
        has_part: Tells, by the settings and the folder, whether it has one for another reason than
            these, or than that a task of its own is run.
        part: The class of that part, an `alps.run.parts.RunPart`: `mine:Part`.
        engine: What carries out a run that it has a part in, in place of this process:
            `mine:run`, from settings to a `Finished`.
        files: Files and folders that its part writes into a run folder with the answers.
        journals: Those of the files that have rows, which shards of a run are merged by.
        rescores: Tells by the names of the typed settings whether `alps score` is its own.
        rescore: What carries that out, from the folder of the run and the typed settings to a
            `Finished`: `mine:score`.
        judging: The class of the keys that it adds to those of `alps run` and `alps score`,
            `mine:Keys`: an `alps.keys.Keys` whose keys all have a default.
        settings: The class of the keys that it adds to those of `alps run` alone.
        doctor: The class of the keys that it adds to those of `alps doctor`.
        examine: What examines what they name, from the settings of `alps doctor` and a console to
            an exit code; None where they name nothing of it: `mine:examine`.
        scorings: Where tasks are scored in other ways, by the values of `scoring=`:
            `{"mine": "mine:rescored"}`, from tracks to tracks.
        systems: Where the systems that it brings are made, by the beginnings of their names:
            `{"mine:": "mine:system"}`, from the rest of the name and an `alps.systems.base.Place`.
        code: Where the hashes of the user's own files are found, by the beginnings of settings that
            name such: `{"mine:": "mine:hashes"}`, from the rest of the setting.
        judges: Where the judges that it brings are made, by the beginnings of their names:
            `{"mine:": "mine:MyJudge"}`, from the path behind it to an `alps.judges.base.Judge`.
        operational: Those of its keys that say how a run is carried out, not what it measures: a
            resumed run may change them.
        serves: Tells whether a model of that name is served by it, and by no provider.
        sends: What sends the requests to an endpoint, from an `alps.llm.types.EndpointCalls` to an
            `alps.llm.types.Sender`; None where that is none of its own: `mine:sender`.
        takes_words: Tells whether the words of `alps run` are its own to carry out.
        run_words: What carries them out: `mine:run`.
        next_step: Returns a line that follows the tables of a finished run, or nothing.
        in_notebook: What a notebook shows of a run, from an `alps.run.opened.RunFolder` to HTML:
            `mine:shown`.
        exports: Functions and classes that `alps` has of it, by their names there.
        begun: Tells of a run folder that holds one of its files whether a run is to go on from
            there; None where it has no say: `mine:is_begun`.
        shows: Tells whether a summary has something of it to show.
        shown: What tables, pages and comparisons show of that, an `alps.show.parts.ShownPart`:
            `mine:Shown`.
        agreement: The class of what it knows of people's agreement with judges, an
            `alps.judges.base.KnownAgreement`: `mine:Known`.
        board: Its part on boards, an `alps.leaderboard.parts.BoardPart`: `mine:BOARD`.
        on_card: The setting of a run, or the field of a submission, that it has that part in.
        references: Tables of reference rows for boards, as `package:FILE`.
    """

    name: str
    commands: dict[str, str] = field(default_factory=dict)
    tasks: dict[str, str] = field(default_factory=dict)
    task_keys: tuple[str, ...] = ()
    heading: str = "Others"
    on_tab: str = ""
    moved: dict[str, str] = field(default_factory=dict)
    removed: dict[str, str] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    part_if: tuple[str, ...] = ()
    part_after: str = ""
    has_part: Callable[[Any, Path], bool] | None = None
    part: str = ""
    engine: str = ""
    files: tuple[str, ...] = ()
    journals: tuple[str, ...] = ()
    rescores: Callable[[Collection[str]], bool] = lambda _: False
    rescore: str = ""
    judging: str = ""
    settings: str = ""
    doctor: str = ""
    examine: str = ""
    scorings: dict[str, str] = field(default_factory=dict)
    systems: dict[str, str] = field(default_factory=dict)
    code: dict[str, str] = field(default_factory=dict)
    judges: dict[str, str] = field(default_factory=dict)
    operational: tuple[str, ...] = ()
    serves: Callable[[str], bool] = lambda _: False
    sends: str = ""
    takes_words: Callable[[Sequence[str]], bool] = lambda _: False
    run_words: str = ""
    next_step: Callable[[Any], str] = lambda _: ""
    in_notebook: str = ""
    exports: dict[str, str] = field(default_factory=dict)
    begun: str = ""
    shows: Callable[[Any], bool] = lambda _: False
    shown: str = ""
    agreement: str = ""
    board: str = ""
    on_card: str = ""
    references: str = ""


@cache
def extensions() -> tuple[Extension, ...]:
    """Return all extensions, those of others first; one that can't be used is named and left out.

    What one of others names must be its own: neither the spine nor another may have it.
    """
    ours = {extension.name: extension for extension in _own()}
    others: dict[str, Extension] = {}
    for entry, extension in _of_others():
        if fault := _fault(extension, {"alps": _spine(), **ours, **others}):
            _leave_out(f"the extension {entry.name}", entry.value, TypeError(fault))
        else:
            others[extension.name] = extension
    kept = {**others, **ours}
    # One that is left out may be needed by another.
    while lacking := [name for name, one in kept.items() if _lacks(one, kept)]:
        # Whoever deletes a folder of ours knows it, and reads it in no line of every command.
        for name in sorted(others.keys() & lacking):
            needs = f"needs {', '.join(kept[name].needs)}"
            gone = LookupError("not all of these are installed")
            _leave_out(f"the extension {name}", needs, gone)
        kept = {name: one for name, one in kept.items() if name not in lacking}
    return tuple(kept.values())


def _fault(extension: Extension, others: Mapping[str, Extension]) -> str:
    """Return why an extension can't be used beside `others`, or nothing."""
    if fault := _ill_typed(extension):
        return fault
    if extension.name in others:
        return f"another extension is called {extension.name}"
    starts = _taken("systems", others) | _taken("judges", others)
    for start in (*extension.systems, *extension.judges):
        if not start.endswith(":") or start in starts:
            return f"the beginning {start} is another's, or has no colon at its end"
    for kind in ("tasks", "scorings", "exports", "code"):
        for name in getattr(extension, kind).keys() & _taken(kind, others):
            return f"{kind}: the name {name} is another's"
    if extension.on_card in {one.on_card for one in others.values()} - {""}:
        return f"on_card={extension.on_card}: another extension has this"
    return _fault_of_words(extension, set().union(*map(_words_of, others.values())))


def _taken(kind: str, others: Mapping[str, Extension]) -> set[str]:
    return {name for one in others.values() for name in getattr(one, kind)}


def _spine() -> Extension:
    """Return what the spine has, as an extension would declare it."""
    from alps import __all__ as public

    return Extension(
        "alps",
        commands=COMMANDS,
        tasks=dict.fromkeys(["all", *(module.name for module in _modules_of_tasks())], ""),
        exports=dict.fromkeys(public, ""),
        scorings={"alps": ""},
    )


def _words_of(extension: Extension) -> set[str]:
    return {*extension.commands, *extension.moved, *extension.removed}


def _fault_of_words(extension: Extension, taken: Collection[str]) -> str:
    """Return which of its commands can't be, or nothing."""
    for words in _words_of(extension):
        if words in taken:
            return f"there is a command alps {words} already"
    for words in extension.commands:
        group = words.rpartition(" ")[0]
        if group and group not in {*taken, *extension.commands}:
            return f"there is no group alps {group} for its command alps {words}"
    return ""


def _ill_typed(extension: Extension) -> str:
    """Return which field has a value of a wrong type, or nothing."""
    for one in fields(extension):
        value = getattr(extension, one.name)
        made = one.default_factory() if one.default_factory is not MISSING else one.default
        if not _is_like(value, "" if made is MISSING else made):
            return f"{one.name}={value!r} has the wrong type"
    return ""


def _is_like(value: Any, default: Any) -> bool:
    if default is None or callable(default):
        return callable(value) or value is default
    if type(value) is not type(default):
        return False
    inside = [*value, *value.values()] if isinstance(value, dict) else [*value]
    return all(isinstance(part, str) for part in inside)


def brought(kind: Named) -> dict[str, str]:
    """Return what extensions declare of a kind, by its names, words or beginnings."""
    declared: dict[str, str] = {}
    for extension in extensions():
        declared |= getattr(extension, kind)
    return declared


def has_command(word: str) -> bool:
    """Tell whether `alps WORD` is there, which a hint may name: an extension may be deleted."""
    return word in COMMANDS or word in brought("commands")


def headings() -> dict[str, str]:
    """Return the heading of each command of extensions, by its first word."""
    return {name: one.heading for one in extensions() for name in one.commands if " " not in name}


def _lacks(extension: Extension, kept: Collection[str]) -> bool:
    others = set(extension.needs) - set(kept)
    folders = _modules_of_tasks() if others else ()
    return not others <= {folder.name for folder in folders if folder.ispkg}


def _modules_of_tasks() -> Iterator[pkgutil.ModuleInfo]:
    # The package of tasks is found, and not imported: every command reads the extensions.
    tasks = find_spec("alps.tasks")
    return pkgutil.iter_modules(tasks.submodule_search_locations if tasks else [])


@cache
def brought_tasks() -> dict[str, Extension]:
    """Return the extensions that bring tasks, by the names of these."""
    return {name: one for one in extensions() for name in one.tasks}


def operational_keys() -> frozenset[str]:
    """Return the keys of extensions that a resumed run may change."""
    return frozenset(key for extension in extensions() for key in extension.operational)


def keys_of(kind: Literal["judging", "settings", "doctor"], *known: "type[BaseModel]") -> "Mixins":
    """Return the classes of keys that extensions add to the `known` ones, the last one first.

    Keys that can't be added are named and left out: they may break no command.
    """
    classes: Mixins = []
    taken = {key for kind in known for key in kind.model_fields}
    for extension in extensions():
        if where := getattr(extension, kind):
            try:
                own = load(where)
                keys = _own_keys(own, taken)
            except (Exception, SystemExit) as error:
                _leave_out(f"{extension.name}: its keys", where, error.__cause__ or error)
                continue
            taken |= keys
            classes.insert(0, own)
    return classes


def _own_keys(own: Any, taken: Collection[str]) -> set[str]:
    """Return the keys that a class adds to those that are `taken`.

    Raises:
        ValueError: If one of them can't be added.
    """
    if not (isinstance(own, type) and hasattr(own, "model_fields")):
        raise TypeError("it is no alps.keys.Keys")
    keys = {key for key in vars(own).get("__annotations__", {}) if key in own.model_fields}
    for key in sorted(keys & {*taken}):
        raise ValueError(f"the key {key} exists already")
    for key in sorted(key for key in keys if own.model_fields[key].is_required()):
        raise ValueError(f"the key {key} has no default")
    return keys


def is_served(model: str) -> bool:
    """Tell whether an extension serves a model of that name."""
    return any(extension.serves(model) for extension in extensions())


def sender_of(asking: Any) -> Any:
    """Return what sends the requests of an `Asking` in a way of its own, or raise a UsageError."""
    senders = (load(extension.sends)(asking) for extension in extensions() if extension.sends)
    return next((sender for sender in senders if sender is not None), None)


def load(where: str) -> Any:
    """Import what `module:name` says.

    Raises:
        UsageError: If the module is none of ours, and can't be imported or lacks the name.
    """
    module, _, name = where.partition(":")
    try:
        return getattr(import_module(module), name)
    except (Exception, SystemExit) as error:
        if isinstance(error, AlpsError) or module.startswith("alps."):
            raise
        raise UsageError(f"the extension's {where} could not be loaded: {_said(error)}") from error


def made(where: str, kind: type, *given: Any) -> Any:
    """Return what `module:name` makes of what is given, or refuse what is no `kind`."""
    thing = load(where)(*given)
    for name in (*vars(kind).get("__annotations__", {}), *dir(kind)):
        if not name.startswith("_") and not hasattr(thing, name):
            what = f"returned {thing!r:.60}, which is no {kind.__name__}: it lacks {name}"
            raise UsageError(f"the extension's {where} {what}")
    return thing


def sole(claims: Iterable[Extension], what: str) -> Extension | None:
    """Return the one extension that would carry out a command, or None; several are refused."""
    found = list(claims)
    if len(found) > 1:
        names = " and ".join(one.name for one in found)
        raise UsageError(f"the extensions {names} would all carry out this {what}; uninstall one")
    return found[0] if found else None


def names_of_others() -> list[str]:
    """Return the names of the extensions of others that are installed."""
    return sorted(entry.name for entry in entry_points(group=GROUP))


def blamed(error: BaseException) -> str:
    """Return the name of the extension of others whose code raised, and where; or nothing."""
    entries = entry_points(group=GROUP)
    packages = {entry.module.partition(".")[0]: entry.name for entry in entries}
    for frame, line in reversed(list(traceback.walk_tb(error.__traceback__))):
        package = frame.f_globals.get("__name__", "").partition(".")[0]
        if package in packages:
            where = f"{frame.f_code.co_filename}, line {line}"
            return f"the extension {packages[package]} failed in {where}: {_said(error)}"
    return ""


def _own() -> Iterator[Extension]:
    # Not `from alps import`: what the package lacks is looked for among extensions.
    ext = import_module("alps.ext")

    for module in pkgutil.iter_modules(ext.__path__, f"{ext.__name__}."):
        yield import_module(module.name).EXTENSION


def _of_others() -> Iterator[tuple[EntryPoint, Extension]]:
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
        try:
            found = entry.load()
        # Whatever a stranger's module raises: a broken extension must not break every command.
        except (Exception, SystemExit) as error:
            _leave_out(f"the extension {entry.name}", entry.value, error)
            continue
        if isinstance(found, Extension):
            yield entry, found
        else:
            why = TypeError("it is not an alps.extension.Extension")
            _leave_out(f"the extension {entry.name}", entry.value, why)


def _leave_out(what: str, where: str, error: BaseException) -> None:
    print(f"alps: {what} ({where}) could not be loaded: {_said(error)}", file=sys.stderr)


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0]
