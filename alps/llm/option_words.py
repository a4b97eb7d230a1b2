"""The words and the types of the settings that are tables: `request.seed=7`,
`judge_request.seed=7`.
"""

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Annotated, Any

from pydantic import BeforeValidator

from alps.errors import UsageError
from alps.llm.extra import checked, merged, read_words

SAMPLING = (
    "temperature",
    "top_p",
    "max_tokens",
    "frequency_penalty",
    "presence_penalty",
    "reasoning_effort",
)
JUDGE_SAMPLING = ("temperature", "max_tokens", "reasoning_effort")
TABLES = ("request", "judge_request")

_of_the_model = partial(checked, settings=SAMPLING)
_of_the_judge = partial(checked, settings=JUDGE_SAMPLING, prefix="judge_")
Extra = Annotated[dict[str, Any] | None, BeforeValidator(_of_the_model)]
"""Options by a provider's own names, see `alps.llm.extra`; None where there are none."""
JudgeExtra = Annotated[dict[str, Any] | None, BeforeValidator(_of_the_judge)]


def key_of(word: str) -> str:
    """Return the setting that a `key=value` word is about: of `request.seed=7` it is `request`."""
    return word.partition("=")[0].partition(".")[0]


def option_tables(words: Sequence[str], known: Collection[str]) -> tuple[dict[str, Any], list[str]]:
    """Return the tables that words with a dot in their key make, and the other words.

    Raises:
        UsageError: If one is empty, stands twice, or is a table and a value.
    """
    own = [
        word
        for word in words
        if "." in word.partition("=")[0] and key_of(word) in {*TABLES} & {*known}
    ]
    others = [word for word in words if word not in own]
    parts: dict[str, list[tuple[str, str]]] = {}
    for word in own:
        key, _, value = word.partition("=")
        if not value.strip():
            raise UsageError(f"{key}=: empty; leave it out")
        parts.setdefault(key_of(word), []).append((key.partition(".")[2], value))
    for name, options in parts.items():
        if name in map(key_of, others):
            raise UsageError(f"{name}: given twice, as a table and as {name}.{options[0][0]}=")
    return {name: _table(name, options) for name, options in parts.items()}, others


def _table(name: str, options: Sequence[tuple[str, str]]) -> dict[str, Any]:
    try:
        return read_words(options)
    except ValueError as error:
        raise UsageError(f"{name}.{error}") from error


def over_file(typed: Mapping[str, Any], of_file: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tables that were typed, with what only those of a config file hold."""
    return {
        name: merged(of_file[name], table) if isinstance(of_file.get(name), Mapping) else table
        for name, table in typed.items()
    }
