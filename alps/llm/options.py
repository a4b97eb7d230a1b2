"""Options of a request beyond the sampling settings, by the provider's own names.

They are written `request.NAME=VALUE`, and `judge_request.NAME=VALUE` for the judge, or as a table
`[request]` of a config file. A dot leads into a nested table:
`request.extra_body.chat_template_kwargs.enable_thinking=false`. A value is read as JSON where it is
some, else as text. `request.headers.NAME=env:VARIABLE` takes a header's value from the
environment: keys never get into a file.
"""

import json
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import date, time
from functools import partial
from math import isfinite
from typing import Annotated, Any

from pydantic import BeforeValidator

from alps.errors import UsageError
from alps.llm.secrets import keep_secret, redact

HEADERS, BODY = "headers", "extra_body"

# Options that have a setting of another name, and that
_SETTINGS = {
    **dict.fromkeys(("max_completion_tokens", "max_output_tokens"), "max_tokens"),
    **dict.fromkeys(("api_base", "base_url"), "api_base"),
    **dict.fromkeys(("timeout", "request_timeout", "stream_timeout"), "timeout"),
}
_DECIDED = """
    model messages prompt input n stream stream_options response_format tools tool_choice functions
    function_call parallel_tool_calls modalities audio max_retries num_retries drop_params
    additional_drop_params deployment_id model_list shared_session caching client
    custom_llm_provider fallbacks web_search_options
"""
# What alps decides itself: whom it asks what, how often, in which form, and how the reply comes.
_OURS = frozenset(_DECIDED.split())
# Options that litellm keeps for itself and that change where, or how, it sends a request
_PASSED_ON = frozenset(
    {"api_version", "allowed_openai_params", "base_model", "region_name", HEADERS}
)
_NAME = re.compile(r"[A-Za-z][\w-]*")
_A_CREDENTIAL = re.compile(
    r"(?:^|[-_])(?:api[-_]?key|secret|password|passwd|credentials?|authorization|bearer|cookie"
    r"|private[-_]?key)"
    r"|(?:access|session|ad|auth|id|refresh|security)[-_]?(?:key|token)|^(?:key|token|auth)$",
    re.IGNORECASE,
)
_SECRET_HEADER = re.compile(
    r"auth|key|token|secret|cookie|password|credential|bearer|session", re.IGNORECASE
)
_FROM_ENVIRONMENT = re.compile(r"env:([A-Za-z_]\w*)")


def read_words(words: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """Read `NAME.NAME=VALUE` words, their names without the first, into a nested table.

    Raises:
        ValueError: If a name stands twice, or is both a table and a value.
    """
    table: dict[str, Any] = {}
    for path, text in words:
        *above, last = path.split(".")
        inner = table
        for name in above:
            inner = inner.setdefault(name, {})
            if not isinstance(inner, dict):
                raise ValueError(f"{path}: {name} is a value, not a table")
        if last in inner:
            raise ValueError(f"{path}: given twice")
        inner[last] = _value(text)
    return table


def _texts(words: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return `NAME=VALUE` words as they are: what a memory takes is its own.

    Raises:
        ValueError: If a name stands twice.
    """
    table: dict[str, str] = {}
    for name, text in words:
        if name in table:
            raise ValueError(f"{name}: given twice")
        table[name] = text
    return table


def _value(text: str) -> Any:
    # `False` is no text: a chat template would take it for true
    if text.casefold() in ("true", "false"):
        return text.casefold() == "true"
    try:
        return json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError):
        return text


def _no_number(name: str) -> Any:
    raise ValueError(name)


def merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return `base` with the values of `over` in place of its own, table by table."""
    table = dict(base)
    for name, value in over.items():
        there = table.get(name)
        both = isinstance(there, Mapping) and isinstance(value, Mapping)
        table[name] = merged(there, value) if both else value  # type: ignore[arg-type]
    return table


def checked(value: Any, *, settings: Collection[str], prefix: str = "") -> Any:
    """Return a table of options as plain JSON.

    Args:
        value: The table, or its JSON.
        settings: Options with a setting of their own name.
        prefix: `judge_` for settings of the judge.

    Raises:
        ValueError: If an option is no JSON, has a setting of its own, is decided by alps, or would
            hold a secret.
    """
    if value is None or value == {}:
        return None
    if isinstance(value, str):
        value = _value(value)
    if not isinstance(value, Mapping):
        raise ValueError('write options such as request.seed=7, or a table: {"seed": 7}')
    table = _plain(value)
    body = table.get(BODY, {})
    for name in (*table, *(body if isinstance(body, dict) else ())):
        if instead := name if name in settings else _SETTINGS.get(name):
            own = instead if instead == "timeout" else f"{prefix}{instead}"
            raise ValueError(f"{name} has its own setting; write {own}=")
        if name == "extra_headers":
            raise ValueError(f"write {HEADERS}.NAME=VALUE for a header")
        if name in _OURS or name.startswith(("mock_", "litellm_")):
            raise ValueError(f"alps sets {name} itself; leave it out")
    if not isinstance(body, dict):
        raise ValueError(f"{BODY} takes single options: write {BODY}.NAME=VALUE")
    _check_values(table)
    if "api_version" in table:
        table["api_version"] = str(table["api_version"])
    return table


def _check_values(table: dict[str, Any]) -> None:
    """Refuse a value that may be a key, and write headers as text."""
    headers = table.get(HEADERS, {})
    if not isinstance(headers, dict):
        raise ValueError(f"{HEADERS} takes single headers: write {HEADERS}.NAME=VALUE")
    for name, header in headers.items():
        headers[name] = one_header(name, header)
    for path, leaf in leaves({name: inner for name, inner in table.items() if name != HEADERS}):
        check_secret(path, leaf)


def _plain(node: Any) -> Any:
    if isinstance(node, Mapping):
        if odd := [name for name in node if not _NAME.fullmatch(str(name))]:
            raise ValueError(f"{redact(str(odd[0]))[:40]!r} is not a valid option name")
        return {str(name): _plain(inner) for name, inner in node.items()}
    if isinstance(node, list | tuple):
        return [_plain(inner) for inner in node]
    return _plain_leaf(node)


def _plain_leaf(node: Any) -> Any:
    if isinstance(node, date | time):  # a day of TOML without quotes: api_version = 2024-10-21
        return node.isoformat()
    if node is None:
        raise ValueError("alps does not send null options; leave it out")
    if isinstance(node, float) and not isfinite(node):
        raise ValueError("numbers must be finite")
    if not isinstance(node, str | bool | int | float):
        takes = "must be texts, numbers, yes or no, lists or tables"
        raise ValueError(f"{takes}, not {type(node).__name__}")
    return node


def one_header(name: str, value: Any) -> str:
    """Return the value of a header as text; raises a ValueError where that may hold a key."""
    if isinstance(value, dict | list) or (isinstance(value, str) and not value.isprintable()):
        raise ValueError(f"header {name} takes one line of text")
    text = str(value)
    if _FROM_ENVIRONMENT.fullmatch(text):
        return text
    if _SECRET_HEADER.search(name) or redact(text) != text:
        raise ValueError(f"header {name} may hold a key; write {HEADERS}.{name}=env:VARIABLE")
    return text


def leaves(node: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values of nested tables and lists by their paths, a dot between their names."""
    if not isinstance(node, dict | list):
        yield path, node
        return
    for name, child in node.items() if isinstance(node, dict) else enumerate(node):
        yield from leaves(child, f"{path}.{name}" if path else str(name))


def check_secret(path: str, leaf: Any) -> None:
    """Refuse a text that may be a key: options stand in the manifest and in the fingerprint."""
    if not isinstance(leaf, str):
        return
    if redact(leaf) != leaf or any(_A_CREDENTIAL.search(name) for name in path.split(".")):
        instead = "keys come from the environment; in headers, write env:VARIABLE"
        raise ValueError(f"{path} may hold a key; {instead}")


def variables(extra: Mapping[str, Any]) -> list[str]:
    """Return the variables of the environment that headers take their values from."""
    matches = (_FROM_ENVIRONMENT.fullmatch(value) for value in extra.get(HEADERS, {}).values())
    return [match[1] for match in matches if match is not None]


def sent(extra: Mapping[str, Any]) -> dict[str, Any]:
    """Return options as litellm takes them: headers with their values out of the environment."""
    if not extra:
        return {}
    options = {name: value for name, value in extra.items() if name != HEADERS}
    if headers := extra.get(HEADERS):
        keep_secret(variables(extra))
        options["extra_headers"] = dict(headers)
        for name, value in headers.items():
            if match := _FROM_ENVIRONMENT.fullmatch(value):
                options["extra_headers"][name] = os.environ.get(match[1], "")
    return options


def kept_by_litellm(extra: Mapping[str, Any], owned: Iterable[str]) -> list[str]:
    """Return the options that litellm, which owns those names, would keep for itself."""
    return sorted({*extra} & {*owned} - _PASSED_ON)


_OF_THOUGHT = re.compile(r"think|reason", re.IGNORECASE)
_NO_THOUGHT = (False, "none", "disable", "disabled", 0)


def may_think(options: Mapping[str, Any]) -> bool | None:
    """Tell whether options ask a model to think, or not to; None where they say nothing of it."""
    said = [leaf for path, leaf in leaves(dict(options)) if _OF_THOUGHT.search(path)]
    return any(leaf not in _NO_THOUGHT for leaf in said) if said else None


JUDGE_SAMPLING = ("temperature", "max_tokens", "reasoning_effort")
SAMPLING: tuple[str, ...] = ("temperature", "top_p", "max_tokens", "frequency_penalty")
SAMPLING += ("presence_penalty", "reasoning_effort")
_TABLE_OF = {"request": "request", "judge_request": "judge_request", "memory": "memory_options"}
TABLES = tuple(_TABLE_OF.values())

_of_the_model = partial(checked, settings=SAMPLING)
_of_the_judge = partial(checked, settings=JUDGE_SAMPLING, prefix="judge_")
Extra = Annotated[dict[str, Any] | None, BeforeValidator(_of_the_model)]
"""Options by a provider's own names, see `alps.llm.options`; None where there are none."""
JudgeExtra = Annotated[dict[str, Any] | None, BeforeValidator(_of_the_judge)]


def key_of(word: str) -> str:
    """Return the setting that a `key=value` word is about: of `request.seed=7` it is `request`."""
    return word.partition("=")[0].partition(".")[0]


def option_tables(words: Sequence[str], known: Collection[str]) -> tuple[dict[str, Any], list[str]]:
    """Return the tables that words with a dot in their key make, and the other words.

    Raises:
        UsageError: If one is empty, stands twice, or is a table and a value.
    """
    others: list[str] = []
    parts: dict[str, list[tuple[str, str]]] = {}
    for word in words:
        key, _, value = word.partition("=")
        name, dot, option = key.partition(".")
        table = _TABLE_OF.get(name)
        if not dot or table is None or table not in known:
            others.append(word)
        elif not value.strip():
            raise UsageError(f"{key}=: empty; leave it out")
        else:
            parts.setdefault(name, []).append((option, value))
    tables: dict[str, Any] = {}
    for name, options in parts.items():
        table = _TABLE_OF[name]
        if table in map(key_of, others):
            raise UsageError(f"{table}: given twice, as a table and as {name}.{options[0][0]}=")
        try:
            tables[table] = _texts(options) if name == "memory" else read_words(options)
        except ValueError as error:
            raise UsageError(f"{name}.{error}") from error
    return tables, others


def over_file(typed: Mapping[str, Any], of_file: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tables that were typed, with what only those of a config file hold."""
    return {
        name: merged(of_file[name], table) if isinstance(of_file.get(name), Mapping) else table
        for name, table in typed.items()
    }
