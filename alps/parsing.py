"""`key=value` words and config files become typed settings; a typo names the closest key."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from alps.errors import DataError, UsageError, closest
from alps.llm.options import TABLES, option_tables, over_file
from alps.settings import RunSettings, in_current_words
from alps.slips import read_toml

SettingsT = TypeVar("SettingsT", bound=BaseModel)

_NOW = {
    "condition": "memory=oracle for the true memories, memory=full for the history alone",
    "window": "max_context_tokens=",
    "epochs": "repeats=",
}
# Settings that may be given as nothing.
_UNSETTABLE = ("temperature", "judge_temperature")
# From this likeness on a word is a known key mistyped: `max_token`, but neither `token` nor
# `judge_api_key`.
_A_SLIP = 0.9
_LARGEST = 2**63
_SHOWN = 200
is_secret = re.compile(r"(?i)(?:.*_)?api_?key|(?:.*_)?token|(?:.*_)?secret|key").fullmatch
"""Whether a word is the name of a key or a token, which no setting takes."""
_DAY = r"^\d{4}-\d\d-\d\d$"
_WHOLE = "must be a whole number"
# What a value must be, by the validator's name of the fault.
_IN_WORDS = {
    "int_parsing": _WHOLE,
    "int_parsing_size": _WHOLE,
    "int_from_float": _WHOLE,
    "int_type": _WHOLE,
    "float_parsing": "must be a number",
    "float_type": "must be a number",
    "finite_number": "must be a finite number",
    "bool_parsing": "must be yes or no",
    "bool_type": "must be yes or no",
    "string_type": "must be a string",
    "greater_than": "must be more than {gt:g}",
    "greater_than_equal": "must be {ge:g} or more",
    "less_than": "must be less than {lt:g}",
    "less_than_equal": "must be {le:g} or less",
    "literal_error": "must be {expected}",
}


def part_words(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Part words into folders and settings; one with a = in it may be a folder, too."""
    settings = [word for word in words if "=" in word and not _is_there(word)]
    return [word for word in words if word not in settings], settings


def _is_there(word: str) -> bool:
    try:
        return Path(word).exists()
    except (OSError, ValueError):  # too long a name, say
        return False


def parse_words(words: Sequence[str], model: type[SettingsT]) -> SettingsT:
    """Read `key=value` words into `model`.

    Raises:
        UsageError: If a word is not key=value, a key is unknown or stands twice, or a value does
            not fit.
    """
    tables, words = option_tables(words, model.model_fields)
    return parse_given({**_pairs(words, model), **tables}, model)


def parse_given(given: Mapping[str, Any], model: type[SettingsT]) -> SettingsT:
    """Read what was given into `model`, over the file that `config` names if it is among it.

    Raises:
        UsageError: If a key is unknown or missing, or a value does not fit.
        DataError: If the file is not TOML, or has a key that is not known.
    """
    if "config" not in given:
        return parse_settings(given, model)
    for key in given:
        _check_known(key, model)
    config = Path(given["config"])
    values = read_config(config, model)
    tables = {key: value for key, value in given.items() if isinstance(value, Mapping)}
    over = {**given, **over_file(tables, values)}
    values = {key: value for key, value in values.items() if key not in over}
    return _parse({**values, **over}, model, config=config, of_config=values)


def _pairs(words: Sequence[str], model: type[BaseModel]) -> dict[str, Any]:
    pairs: dict[str, Any] = {}
    for word in words:
        key, separator, value = word.partition("=")
        if not separator:
            known = word in model.model_fields
            hint = ", without spaces around =" if known else closest(word, model.model_fields)
            raise UsageError(f"'{word}': expected key=value{hint}")
        if key in pairs:
            raise UsageError(f"{key}: given twice")
        pairs[key] = value
    for key, value in pairs.items():
        if key in _NOW and model is RunSettings:
            raise UsageError(f"{key}={value}: write {_NOW[key]}")
        _check_known(key, model)
        if not value.strip() and key not in _UNSETTABLE:
            empty = f"{key}=: empty; leave it out"
            raise UsageError(_missing(key, model) if _needed(key, model) else empty)
    return pairs


def read_config(path: Path, model: type[BaseModel]) -> dict[str, Any]:
    """Read a TOML file of settings; its keys are those of the command line.

    Raises:
        UsageError: If the file is not there.
        DataError: If it is not TOML, or has a key that is not known.
    """
    try:
        values = read_toml(path.expanduser())
    except OSError as error:
        raise UsageError(f"config={path}: {error.strerror or 'unreadable'}") from error
    for key in values:
        if key not in model.model_fields:
            raise DataError(f"unknown key{unlike_any(key, model)}", path=path, field=key)
    return values


def parse_settings(values: Mapping[str, Any], model: type[SettingsT]) -> SettingsT:
    """Validate `values` against `model`.

    Raises:
        UsageError: If a key is unknown or missing, or a value does not fit; one line, with the
            closest key.
    """
    if model is RunSettings:
        values = in_current_words(values)
    for key in values:
        _check_known(key, model)
    return _parse(values, model)


def _parse(
    values: Mapping[str, Any],
    model: type[SettingsT],
    *,
    config: Path | None = None,
    of_config: Collection[str] = (),
) -> SettingsT:
    """Validate; what is wrong with a value out of a config file names the file."""
    for key, value in values.items():
        if value == "" and _needed(key, model):
            where = f"{config}: " if key in of_config else ""
            raise UsageError(f"{where}{_missing(key, model)}")
    try:
        settings = model.model_validate(dict(values))
    except ValidationError as error:
        first = error.errors()[0]
        key = str(first["loc"][0])
        if first["type"] == "missing":
            raise UsageError(_missing(key, model)) from error
        where = f"{config}, " if key in of_config else ""
        if key in TABLES:
            raise UsageError(f"{where}{key}: {_in_words(first)}") from error
        shown = _shown_value(key, values[key])
        raise UsageError(f"{where}{key}={shown}: {_in_words(first)}") from error
    for key in values:
        number = getattr(settings, key, None)
        if isinstance(number, int | float) and not -_LARGEST < number < _LARGEST:
            where = f"{config}, " if key in of_config else ""
            shown = _shown_value(key, values[key])
            raise UsageError(f"{where}{key}={shown}: must be a finite number below 2^63")
    return settings


def _shown_value(key: str, value: object) -> str:
    # An address can hold a password, and who writes variables may write their values, too.
    if key == "env" or key.endswith("api_base"):
        return "…"
    try:
        text = str(value)
    except ValueError:  # a number of thousands of digits
        return "…"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _check_known(key: str, model: type[BaseModel]) -> None:
    known = model.model_fields
    if key not in known:
        hint = unlike_any(key, model)
        those = "" if hint else f" (known: {', '.join(sorted(known))})"
        raise UsageError(f"unknown key '{key}'{hint}{those}")


def unlike_any(key: str, model: type[BaseModel], *, beside: Iterable[str] = ()) -> str:
    """Say what to do instead of giving a `key` that is not known, `beside` what else is taken."""
    a_slip = get_close_matches(key.lower(), model.model_fields, n=1, cutoff=_A_SLIP)
    if is_secret(key) and not a_slip:
        return "; set API keys in the environment: export OPENAI_API_KEY=…, or your provider's key"
    if key in _NOW and model is RunSettings:
        return f"; write {_NOW[key]}"
    return closest(key, [*model.model_fields, *beside])


def _needed(key: str, model: type[BaseModel]) -> bool:
    return key in model.model_fields and model.model_fields[key].is_required()


def _missing(key: str, model: type[BaseModel]) -> str:
    return f"{key}= is missing ({model.model_fields[key].description})"


def _in_words(error: Any) -> str:
    """Say what is wrong with a value, in words of users and not of the validator."""
    fault = _IN_WORDS.get(error["type"])
    if fault is not None:
        return fault.format(**error.get("ctx", {}))
    if error["type"] == "string_pattern_mismatch" and error["ctx"]["pattern"] == _DAY:
        return "must be a date, such as 2026-05-31"
    text = str(error["msg"]).removeprefix("Value error, ")
    return text[:1].lower() + text[1:]
