"""Sweeps: many systems on many tasks, in one process, within one budget."""

from collections.abc import Sequence

from alps.extension import Extension

_ONE_NAME = ("program:", "predictions:")


def models_of(text: str) -> tuple[str, ...]:
    """Return the models that commas separate; commands and paths may hold commas of their own."""
    if any(name in text for name in _ONE_NAME):
        return (text,)
    return tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))


def models_in(words: Sequence[str]) -> tuple[str, ...]:
    """Return the models that `model=` names among the words of `alps run`."""
    typed = [word.partition("=")[2] for word in words if word.startswith("model=")]
    return models_of(typed[0]) if len(typed) == 1 else ()


EXTENSION = Extension(
    "sweeps",
    commands={"sweep": "alps.ext.sweeps.commands:sweep"},
    heading="Scale",
    takes_words=lambda words: len(models_in(words)) > 1,
    run_words="alps.ext.sweeps.commands:run_words",
)
