"""`key=value` words and config files become typed settings; a typo names the closest key."""

import re
import tomllib
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
)

from alps.errors import DataError, UsageError, closest
from alps.llm.options import (
    JUDGE_SAMPLING,
    SAMPLING,
    TABLES,
    Extra,
    JudgeExtra,
    option_tables,
    over_file,
)
from alps.llm.retries import AUTO_MOST, PATIENCE, seconds_of
from alps.llm.secrets import check_address, names_in, redact
from alps.llm.types import Structured

SettingsT = TypeVar("SettingsT", bound=BaseModel)

OPERATIONAL = (
    *(
        "out",
        "concurrency",
        "max_failures",
        "timeout",
        "patience",
        "max_cost",
        "max_total_tokens",
        "dry_run",
        "config",
    ),
    "calibration",
)
"""Keys that change how a run is carried out but not what it measures; they may differ when it is
resumed.
"""


def _share(value: object) -> object:
    """Read `5%` as 0.05."""
    if isinstance(value, str) and value.endswith("%"):
        try:
            return float(value[:-1]) / 100
        except ValueError:
            return value
    return value


def _word(value: object) -> object:
    """Read the number of a config file as the word of the command line."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _seconds(value: object) -> object:
    """Read `30min` as 1800."""
    return seconds_of(value) if isinstance(value, str) else value


def _at_home(path: str) -> str:
    """Read a leading `~` as the home folder, which most shells leave alone behind a `key=`."""
    try:
        return str(Path(path).expanduser()) if path.startswith("~") else path
    except RuntimeError as error:
        raise ValueError(f"there is no home folder for {Path(path).parts[0]}") from error


def _unset(value: object) -> object:
    """Read nothing, and the word for it, as a setting that is not sent."""
    return "none" if isinstance(value, str) and value.strip().casefold() in ("", "none") else value


def _given_temperature(value: object) -> object:
    return None if _unset(value) == "none" else value


_DATA = "samples, hub[:OWNER/NAME][@REVISION], or a folder in the release layout"
Data = Annotated[str, Field(description=_DATA)]
HomePath = Annotated[str, AfterValidator(_at_home)]
"""A path that may begin with `~`."""
Distractors = Annotated[Literal["100", "300", "500", "700", "1000", "all"], BeforeValidator(_word)]
Ability = Literal["pa", "pf", "vra", "cf", "ei", "all"]
Temperature = Annotated[float, Field(ge=0)]
Share = Annotated[float, BeforeValidator(_share), Field(ge=0, le=1)]

_UNSETTABLE = ("temperature", "judge_temperature")
"""Settings that may be given as nothing."""
_NONE: frozenset[str] = frozenset()
_A_SLIP = 0.9
"""From this likeness on a word is a known key mistyped: `max_token`, but neither `token` nor
`judge_api_key`.
"""
_is_key = re.compile(r"(?i)(?:.*_)?api_?key|(?:.*_)?token|(?:.*_)?secret|key").fullmatch
_DAY = r"^\d{4}-\d\d-\d\d$"
_WHOLE = "it takes a whole number"
_IN_WORDS = {
    "int_parsing": _WHOLE,
    "int_parsing_size": _WHOLE,
    "int_from_float": _WHOLE,
    "int_type": _WHOLE,
    "float_parsing": "it takes a number",
    "float_type": "it takes a number",
    "finite_number": "it takes a finite number",
    "bool_parsing": "it takes yes or no",
    "bool_type": "it takes yes or no",
    "string_type": "it takes text",
    "greater_than": "it must be more than {gt:g}",
    "greater_than_equal": "it must be {ge:g} or more",
    "less_than": "it must be less than {lt:g}",
    "less_than_equal": "it must be {le:g} or less",
    "literal_error": "it takes {expected}",
}
"""What a value must be, by the validator's name of the fault."""


class AskSettings(BaseModel):
    """Who judges, and how it is asked."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    judge: Annotated[str, Field(description="lexical, a litellm model, or recorded:FILE")] = (
        "lexical"
    )
    judge_api_base: Annotated[str | None, Field(description="endpoint of the judge")] = None
    judge_temperature: Annotated[
        Temperature | Literal["none"] | None,
        BeforeValidator(_unset),
        Field(description="of the judge [0, where the model takes it]; none: not sent"),
    ] = None
    judge_max_tokens: Annotated[int | None, Field(ge=1, description="of the judge's replies")] = (
        None
    )
    judge_reasoning_effort: Annotated[str | None, Field(description="of the judge")] = None
    judge_request: Annotated[
        JudgeExtra, Field(description="judge_request.NAME=VALUE: the judge is sent, too")
    ] = None
    judge_structured: Annotated[
        Structured | None, Field(description="as structured=, of the judge")
    ] = None
    judge_repeats: Annotated[
        int, Field(ge=1, le=100, description="ask the judge so often, majority decides")
    ] = 1
    out: Annotated[HomePath | None, Field(description="the folder that is written")] = None
    seed: Annotated[int, Field(ge=0, description="of every random draw")] = 0
    concurrency: Annotated[
        Annotated[int, Field(ge=1, le=1024)] | Literal["auto"],
        Field(
            description=(
                "the most requests under way at each endpoint; auto: 16, and up to 200 while that "
                "is clean"
            )
        ),
    ] = "auto"
    timeout: Annotated[float, Field(gt=0, description="seconds for one request")] = 120.0
    patience: Annotated[
        float,
        BeforeValidator(_seconds),
        Field(
            ge=0,
            description=(
                "how long failures that may pass are tried again: seconds, 90s, 30min or 2h [30min]"
            ),
        ),
    ] = PATIENCE
    max_failures: Annotated[
        Share, Field(description="exit 1 when a larger share failed or is unscored")
    ] = 0.05
    max_cost: Annotated[float | None, Field(ge=0, description="US dollars for the whole run")] = (
        None
    )
    max_total_tokens: Annotated[
        int | None, Field(ge=0, description="prompt and completion tokens together")
    ] = None

    @property
    def at_once(self) -> int | None:
        """The most requests under way at each endpoint, None for as many as it is found to take."""
        return None if self.concurrency == "auto" else self.concurrency

    @property
    def workers(self) -> int:
        """How many records are worked on at once.

        Enough to keep the requests of two endpoints under way.
        """
        return 2 * (AUTO_MOST if self.concurrency == "auto" else self.concurrency)

    def judge_sampling(self) -> dict[str, Any]:
        """Return the decoding settings of the judge that were given.

        None for a temperature that is not to be sent.
        """
        given = {name: getattr(self, f"judge_{name}") for name in JUDGE_SAMPLING}
        return {
            name: None if value == "none" else value
            for name, value in given.items()
            if value is not None
        }

    @field_validator("judge_api_base", "api_base", check_fields=False)
    @classmethod
    def _readable(cls, address: str | None) -> str | None:
        if address is not None:
            check_address(address)
        return address


class JudgeSettings(AskSettings):
    """How predictions are judged and scored."""

    extras: Annotated[
        Literal["none", "judge"], Field(description="judge: is an unmatched prediction true?")
    ] = "none"
    baseline_records: Annotated[
        int,
        Field(
            ge=0, description="records of a track that an LLM judge judges each trivial baseline on"
        ),
    ] = 30
    scoring: Annotated[
        Literal["alps", "authors-v1"], Field(description="authors-v1: the published v1 score")
    ] = "alps"
    calibration: Annotated[
        str | None,
        Field(
            description=(
                "a calibration of the judge, to correct by; off: none; else those that are known"
            )
        ),
    ] = None


class SensitivitySettings(AskSettings):
    """What `alps sensitivity` can be told beside the runs."""

    judge: Annotated[str, Field(description="a litellm model")]
    prompts: Annotated[
        str,
        Field(description="a folder of wordings: NAME/RUBRIC.md, or NAME.md for a single rubric"),
    ]
    out: Annotated[
        HomePath | None,
        Field(description="where the scores land: RUN/WORDING; else beside the run"),
    ] = None
    format: Annotated[Literal["table", "json"], Field(description="table or json")] = "table"


class RunSettings(JudgeSettings):
    """Everything `alps run` can be told."""

    task: Annotated[
        str,
        Field(
            description="extraction, update, retrieval, utilization, several with commas, or all"
        ),
    ]
    model: Annotated[
        str,
        Field(
            description="a litellm model, rules, bm25, tfidf, minilm, floor/…, oracle, "
            "predictions:FILE, program:CMD, python:MODULE:CLASS"
        ),
    ]
    data: Data = "samples"
    split: Annotated[
        str | None, Field(description="dev, validation, …; needed where there are several")
    ] = None
    limit: Annotated[int | None, Field(ge=1, description="only the first so many records")] = None
    distractors: Annotated[
        Distractors, Field(description="100, 300, 500, 700, 1000 or all (retrieval)")
    ] = "100"
    ability: Annotated[Ability, Field(description="pa, pf, vra, cf, ei or all (utilization)")] = (
        "all"
    )
    condition: Annotated[
        Literal["history", "gold_memory"],
        Field(description="gold_memory: show the true memories, too (utilization)"),
    ] = "history"
    prompt: Annotated[
        Literal["precision", "recall"],
        Field(description="recall: ask for every memory, in six fields (extraction)"),
    ] = "precision"
    window: Annotated[
        int | None,
        Field(ge=100, description="tokens of history at most: the oldest turns go (utilization)"),
    ] = None
    env: Annotated[
        str | None, Field(description="NAME,NAME: variables that a program gets, too (program:CMD)")
    ] = None
    repeats: Annotated[int, Field(ge=1, le=100, description="ask the system so often")] = 1
    dry_run: Annotated[
        bool, Field(description="say what a run would ask and cost, without one request")
    ] = False
    config: Annotated[
        str | None, Field(description="a TOML file with any of these keys; words come first")
    ] = None
    api_base: Annotated[str | None, Field(description="endpoint of the model")] = None
    structured: Annotated[
        Structured | None,
        Field(description="how typed answers are asked for: schema, tools, json or prompt [auto]"),
    ] = None
    temperature: Annotated[
        Temperature | None,
        BeforeValidator(_given_temperature),
        Field(description="sent to the model, if given"),
    ] = None
    top_p: Annotated[float | None, Field(gt=0, le=1, description="sent to the model, if given")] = (
        None
    )
    max_tokens: Annotated[
        int | None, Field(ge=1, description="the longest answer; sent to the model, if given")
    ] = None
    frequency_penalty: Annotated[float | None, Field(description="sent to the model, if given")] = (
        None
    )
    presence_penalty: Annotated[float | None, Field(description="sent to the model, if given")] = (
        None
    )
    reasoning_effort: Annotated[str | None, Field(description="sent to the model, if given")] = None
    request: Annotated[
        Extra, Field(description="request.NAME=VALUE: what else the model is sent")
    ] = None

    @field_validator("task")
    @classmethod
    def _each_once(cls, task: str) -> str:
        return ",".join(dict.fromkeys(task.split(",")))

    @field_validator("env")
    @classmethod
    def _names_alone(cls, env: str | None) -> str | None:
        return None if env is None else ",".join(names_in(env))

    @property
    def passed(self) -> tuple[str, ...]:
        """The names of the variables that a program is given beside those that it needs."""
        return () if self.env is None else names_in(self.env)

    def sampling(self) -> dict[str, Any]:
        """Return the sampling settings of the model that were given."""
        return {name: value for name in SAMPLING if (value := getattr(self, name)) is not None}

    def experiment(self) -> dict[str, Any]:
        """Return what the run measures.

        Every setting that is not operational, a secret in a command left out.

        What came later is left out where it was not given: folders are named after a hash of these.
        """
        since = ("env", "request", "judge_request", "structured", "judge_structured")
        later = [name for name in since if getattr(self, name) is None]
        settings = self.model_dump(exclude={*OPERATIONAL, *later})
        return {**settings, "model": redact(self.model)}


class DataSettings(BaseModel):
    """Which data."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    data: Data = "samples"
    split: Annotated[
        str | None, Field(description="dev, validation, …; needed where there are several")
    ] = None


class AuditSettings(DataSettings):
    """What `alps data audit` can be told."""

    format: Annotated[Literal["table", "json"], Field(description="table or json")] = "table"


class PoolSettings(DataSettings):
    """What `alps data pools` can be told."""

    out: Annotated[HomePath, Field(description="the folder to write")]
    distractors: Annotated[Distractors, Field(description="100, 300, 500, 700, 1000 or all")] = (
        "all"
    )
    seed: Annotated[int, Field(ge=0, description="of the drawing")] = 0


def part_words(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Part words into folders and settings.

    A word with a = in it is a folder where there is one of that name.
    """
    settings = [word for word in words if "=" in word and not Path(word).exists()]
    return [word for word in words if word not in settings], settings


def parse_words(words: Sequence[str], model: type[SettingsT]) -> SettingsT:
    """Read `key=value` words into `model`.

    Raises:
        UsageError: If a word is not key=value, a key is unknown or stands twice, or a value does
            not fit.
    """
    pairs: dict[str, Any] = {}
    tables, words = option_tables(words, model.model_fields)
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
        _check_known(key, model)
        if not value.strip() and key not in _UNSETTABLE:
            raise UsageError(
                _missing(key, model) if _needed(key, model) else f"{key}=: empty; leave it out"
            )
    if "config" not in pairs:
        return parse_settings({**pairs, **tables}, model)
    config = Path(pairs["config"])
    values = read_config(config, model)
    pairs |= over_file(tables, values)
    values = {key: value for key, value in values.items() if key not in pairs}
    return _parse({**values, **pairs}, model, config=config, of_config=frozenset(values))


def read_config(path: Path, model: type[BaseModel]) -> dict[str, Any]:
    """Read a TOML file of settings; its keys are those of the command line.

    Raises:
        UsageError: If the file is not there.
        DataError: If it is not TOML, or has a key that is not known.
    """
    try:
        values = tomllib.loads(path.expanduser().read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise UsageError(f"config={path}: {error.strerror or 'can not be read'}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DataError(f"not TOML ({error})", path=path) from error
    for key in values:
        if key not in model.model_fields:
            raise DataError(f"unknown key{_instead(key, model)}", path=path, field=key)
    return values


def parse_settings(values: Mapping[str, Any], model: type[SettingsT]) -> SettingsT:
    """Validate `values` against `model`.

    Raises:
        UsageError: If a key is unknown or missing, or a value does not fit; one line, with the
            closest key.
    """
    for key in values:
        _check_known(key, model)
    return _parse(values, model)


def _parse(
    values: Mapping[str, Any],
    model: type[SettingsT],
    *,
    config: Path | None = None,
    of_config: frozenset[str] = _NONE,
) -> SettingsT:
    """Validate; what is wrong with a value out of a config file names the file."""
    empty = next(
        (key for key, value in values.items() if value == "" and _needed(key, model)), None
    )
    if empty is not None:
        raise UsageError(
            _missing(empty, model)
            if empty not in of_config
            else f"{config}: {_missing(empty, model)}"
        )
    try:
        return model.model_validate(dict(values))
    except ValidationError as error:
        first = error.errors()[0]
        key = str(first["loc"][0])
        if first["type"] == "missing":
            raise UsageError(_missing(key, model)) from error
        where = f"{config}, " if key in of_config else ""
        if key in TABLES:
            raise UsageError(f"{where}{key}: {_in_words(first)}") from error
        shown = values[key] if not key.endswith("api_base") and key != "env" else "…"
        raise UsageError(f"{where}{key}={shown}: {_in_words(first)}") from error


def _check_known(key: str, model: type[BaseModel]) -> None:
    known = model.model_fields
    if key not in known:
        those = "" if _names_a_secret(key, model) else f" (known: {', '.join(sorted(known))})"
        raise UsageError(f"unknown key '{key}'{_instead(key, model)}{those}")


def _names_a_secret(key: str, model: type[BaseModel]) -> bool:
    return bool(_is_key(key)) and not get_close_matches(
        key.lower(), model.model_fields, n=1, cutoff=_A_SLIP
    )


def _instead(key: str, model: type[BaseModel]) -> str:
    """Say what to do instead of giving a `key` that is not known."""
    if _names_a_secret(key, model):
        return "; keys come from the environment: export OPENAI_API_KEY=…, or that of your provider"
    return closest(key, model.model_fields)


def _needed(key: str, model: type[BaseModel]) -> bool:
    return key in model.model_fields and model.model_fields[key].is_required()


def _missing(key: str, model: type[BaseModel]) -> str:
    return f"{key}= is missing ({model.model_fields[key].description})"


def _in_words(error: Any) -> str:
    """Say what is wrong with a value, in words of users and not of the validator."""
    said = _IN_WORDS.get(error["type"])
    if said is not None:
        return said.format(**error.get("ctx", {}))
    if error["type"] == "string_pattern_mismatch" and error["ctx"]["pattern"] == _DAY:
        return "it takes a day, such as 2026-05-31"
    text = str(error["msg"]).removeprefix("Value error, ")
    return text[:1].lower() + text[1:]
