"""Settings of a run and of its judging: the keys of the spine, and those of extensions.

`key=value` words and config files become these and other typed settings; a typo names the closest
key.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, Field, ValidationError

from alps.errors import DataError, UsageError, closest
from alps.extension import brought, keys_of, operational_keys
from alps.keys import Format, FrozenSettings, JudgingKeys, RunKeys, as_of
from alps.llm.options import TABLES, option_tables, over_file
from alps.llm.secrets import redact
from alps.slips import read_toml

SettingsT = TypeVar("SettingsT", bound=BaseModel)

# Every manifest says these, given or not: older versions of the package read them so.
_ALWAYS_SAID = frozenset(
    """
    judge judge_api_base judge_temperature judge_max_tokens judge_reasoning_effort judge_repeats
    seed extras baseline_records scoring task model data split limit distractors ability prompt
    repeats api_base temperature top_p max_tokens frequency_penalty presence_penalty
    reasoning_effort
    """.split()  # noqa: SIM905 - a list of quoted words hides what is in it
)
# Keys that others took the place of, as they stand in every manifest: a run that was begun before
# goes on in its folder. By the key before them.
_ONCE: dict[str, dict[str, Any]] = {"ability": {"condition": "history"}, "prompt": {"window": None}}
OPERATIONAL = operational_keys() | frozenset(
    """
    out concurrency max_failures timeout patience max_cost max_total_tokens dry_run config fresh
    judge_check requests_per_minute judge_requests_per_minute
    """.split()  # noqa: SIM905
)
"""Keys of how a run is carried out, not of what it measures: a resumed run may change them."""
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

if TYPE_CHECKING:

    class JudgeSettings(JudgingKeys):
        """How predictions are judged and scored: the keys of the spine, and of extensions."""

    class _RunKeys(RunKeys, JudgeSettings):
        pass

else:
    _ways = ("alps", *brought("scorings"))
    _told = {"authors-v1": as_of(JudgingKeys, "scoring").description}
    _said = "; ".join(_told.get(way, f"{way}: by an extension") for way in _ways[1:])
    Scoring = Annotated[Literal[_ways], Field(description=_said)]

    class JudgeSettings(*keys_of("judging", JudgingKeys), JudgingKeys):
        """How predictions are judged and scored."""

        scoring: Scoring = "alps"

    class _RunKeys(*keys_of("settings", JudgeSettings, RunKeys), RunKeys, JudgeSettings):
        scoring: Scoring = "alps"


class RunSettings(_RunKeys):
    """Settings of `alps run`."""

    def experiment(self) -> dict[str, Any]:
        """Return what the run measures, in the order of the alphabet; secrets are left out.

        That is each key that was given another value than its default, but for operational ones.
        Folders are named after a hash of it: a key that comes later leaves those of others alone.
        """
        names = sorted(set(type(self).model_fields) - OPERATIONAL)
        return {name: self._said(name) for name in names if self.is_given(name)}

    def recorded(self) -> dict[str, Any]:
        """Return what a manifest says of them: the experiment, and what every manifest says."""
        experiment, recorded = self.experiment(), dict[str, Any]()
        for name in type(self).model_fields:
            if name in _ALWAYS_SAID or name in experiment:
                recorded[name] = self._said(name)
            recorded |= _ONCE.get(name, {})
        return recorded

    def _said(self, name: str) -> Any:
        value = getattr(self, name)
        # A system, a program or an address may be given with a secret in it.
        hides = name == "model" or name not in RunKeys.model_fields
        return redact(value) if hides and isinstance(value, str) else value


def as_typed(value: object) -> str:
    """Return a setting as it is typed: several values with commas, a switch as yes or no."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def in_current_words(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Read `condition=gold_memory` as `memory=oracle`, `window=` as `max_context_tokens=`.

    So older versions called them, and so they stand in the manifests of their runs.
    """
    current = dict(settings)
    if settings.get("condition") in ("history", "gold_memory"):
        shown = current.pop("condition")
        current |= {"memory": "oracle"} if shown == "gold_memory" else {}
    if (window := current.pop("window", None)) is not None:
        current["max_context_tokens"] = window
    return current


class CompareSettings(FrozenSettings):
    """Settings of `alps compare`."""

    seed: int = Field(0, ge=0, description="has no effect; allowed because older commands have it")
    metrics: Literal["headline", "all"] = Field("headline", description="headline or all")
    format: Format = Field("table", description="table or json")


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
    for key, value in values.items():
        if must := _no_number(value, getattr(settings, key, None)):
            where = f"{config}, " if key in of_config else ""
            raise UsageError(f"{where}{key}={_shown_value(key, value)}: must be {must}")
    return settings


def _no_number(given: object, number: object) -> str:
    """Say what a setting must be whose value was read as a number that can't be meant."""
    if isinstance(number, bool) or not isinstance(number, int | float):
        return ""
    if isinstance(given, bool):  # it would count as 1 or 0
        return "a number, not yes or no"
    return "" if -_LARGEST < number < _LARGEST else "a finite number below 2^63"


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
