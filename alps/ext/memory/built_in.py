"""Memory systems in the box, by the name that `memory=` gives, and the options that each takes."""

from collections.abc import Mapping
from importlib import import_module

from alps.errors import UsageError, closest
from alps.ext.memory.protocol import MemorySystem
from alps.ext.memory.turns import RULES_SETTINGS, Recorded, Turns, statements
from alps.folders import typed_path
from alps.systems.embedded import RETRIEVERS

RECORDED = "recorded:"
RULES = "rules"
NOTES: Mapping[str, str] = {"notes": "notes.files:Notes"}
"""Memory systems that ask nobody, by module and class."""
MODELS: Mapping[str, str] = {"files": "notes.files:Files", "llm": "extractor:LlmMemory"}
"""Memory systems that ask the models of the run, by module and class."""
PRODUCTS: Mapping[str, str] = {"mem0": "products:Mem0", "langmem": "products:LangMem"}
"""Memory systems that others make, each behind an extra of its name, by module and class."""
_CLASSES: Mapping[str, str] = {**NOTES, **MODELS, **PRODUCTS}
BOXED = (*RETRIEVERS, RULES, f"{RECORDED}FILE", *_CLASSES)
"""Their names, as lists show them."""
_TAKES: Mapping[str, tuple[str, ...]] = {
    RULES: ("retriever",),
    RECORDED: ("retriever", "dialogues"),
    **dict.fromkeys(_CLASSES, ()),
}


def is_boxed(name: str) -> bool:
    """Tell whether a memory system in the box is called `name`."""
    return name in RETRIEVERS or _kind(name) in _TAKES


def asks_models(name: str) -> bool:
    """Tell whether a memory system in the box is called `name` that asks the run's models."""
    return name in MODELS or name in PRODUCTS


def needed_models(name: str) -> tuple[str, ...]:
    """Return the keys of the models without which a memory system in the box can't begin."""
    if name == "files":
        return ("memory_llm",)
    return ("memory_llm", "memory_embedder") if asks_models(name) else ()


def _kind(name: str) -> str:
    return RECORDED if name.startswith(RECORDED) else name


def check_boxed(name: str, options: Mapping[str, str]) -> None:
    """Refuse options that the memory system `name` does not take.

    Raises:
        UsageError: If there is such an option, or one is missing.
    """
    takes = _TAKES.get(_kind(name), ())
    for key, value in options.items():
        if key not in takes:
            known = f"known: {', '.join(f'memory.{one}=' for one in takes) or 'none'}"
            raise UsageError(f"memory.{key}={value}: not an option of memory={name}; {known}")
    retriever = options.get("retriever", "bm25")
    if retriever not in RETRIEVERS:
        known = ", ".join(RETRIEVERS)
        hint = closest(retriever, RETRIEVERS)
        raise UsageError(f"memory.retriever={retriever}: unknown{hint} (known: {known})")
    if _kind(name) == RECORDED:
        _check_files(name, options)


def _check_files(name: str, options: Mapping[str, str]) -> None:
    if name == RECORDED:
        raise UsageError(f"memory={name} names no file; write {RECORDED}FILE")
    if not typed_path(name.removeprefix(RECORDED)).exists():
        raise UsageError(f"memory={name}: no such file")
    if "dialogues" not in options:
        wanted = "memory.dialogues=FILE (model_input.jsonl of the recorded dialogues)"
        raise UsageError(f"memory={name}: also set {wanted}")


def open_boxed(name: str, options: Mapping[str, str]) -> MemorySystem:
    """Return the memory system in the box that is called `name`.

    Raises:
        UsageError: If it does not take the options, a file is not there, or it needs an extra that
            is not installed.
        DataError: If a file can't be read.
    """
    check_boxed(name, options)
    if name in RETRIEVERS:
        return Turns(name)
    retriever = options.get("retriever", "bm25")
    if name == RULES:
        return Turns(retriever, statements, RULES_SETTINGS)
    if name in _CLASSES:
        module, _, kind = _CLASSES[name].partition(":")
        system: MemorySystem = getattr(import_module(f"alps.ext.memory.{module}"), kind)()
        return system
    records = typed_path(name.removeprefix(RECORDED))
    extract = Recorded(records, typed_path(options["dialogues"]))
    return Turns(retriever, extract, extract.settings)
