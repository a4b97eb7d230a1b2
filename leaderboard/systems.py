"""What kind of system a `model=` is, and how it is named where strangers read it."""

from pathlib import Path

from alps.systems.embedded import RETRIEVERS
from alps.systems.resolve import EMBEDDED, PROGRAM, PYTHON, RECORDED

_CEILING = "oracle"


def kinds_of(model: str) -> tuple[str, ...]:
    """Return the kinds that a system may be submitted as, the one it is by its name first.

    What deserves nothing, and the oracle that reads the gold, are never ranked: both are of the
    kind `floor`.
    """
    if model.startswith("floor/") or model == _CEILING:
        return ("floor",)
    if model in RETRIEVERS:
        return ("retriever",)
    if model == "rules" or any(model in names for names in EMBEDDED.values()):
        return ("rules",)
    for prefix, kind in ((RECORDED, "recorded"), (PROGRAM, "program"), (PYTHON, "python")):
        if model.startswith(prefix):
            return (
                (kind, "memory", "llm", "retriever")
                if prefix == RECORDED
                else (kind, "memory", "retriever")
            )
    return ("llm", "memory")


def public_name(name: str) -> str:
    """Return how a `model=` or `judge=` is published: files and programs without the folders they
    lie in.
    """
    head, separator, rest = name.partition(":")
    if f"{head}:" not in (RECORDED, "recorded:", PROGRAM) or not separator:
        return name
    return f"{head}:{' '.join(_last(word) for word in rest.split())}"


def _last(word: str) -> str:
    """Return the last part of an absolute path, any other word as it is."""
    absolute = word.startswith(("/", "~")) or (
        len(word) > 2 and word[1] == ":" and word[2] in "\\/"
    )
    return Path(word.replace("\\", "/")).name if absolute else word
