"""Keys of the commands of the spine, and the types that extensions make keys of their own of."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    field_validator,
    model_validator,
)

from alps.errors import UsageError
from alps.extension import EVERYDAY
from alps.llm.options import JUDGE_SAMPLING, SAMPLING, Extra, JudgeExtra
from alps.llm.retries import AUTO_MOST, PATIENCE, seconds_of
from alps.llm.secrets import check_address, names_in
from alps.llm.types import Structured


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
    return seconds_of(value) if isinstance(value, str) else value


def largest_context(sizes: int | Sequence[int] | None) -> int | None:
    """Return the largest size of `max_context_tokens=`, which the scores of a run are of."""
    return max(sizes) if isinstance(sizes, list | tuple) else sizes  # type: ignore[return-value]


def _at_home(path: str) -> str:
    """Read a leading `~` as the home folder, which most shells leave alone behind a `key=`."""
    try:
        return str(Path(path).expanduser()) if path.startswith("~") else path
    except RuntimeError as error:
        raise ValueError(f"no home folder for {Path(path).parts[0]}") from error


def _readable(address: str | None) -> str | None:
    if address is not None:
        check_address(address)
    return address


def unset(value: object) -> object:
    """Read nothing, and the word for it, as a setting that is not sent."""
    return "none" if isinstance(value, str) and value.strip().casefold() in ("", "none") else value


def given_temperature(value: object) -> object:
    """Read nothing, and the word for it, as no temperature."""
    return None if unset(value) == "none" else value


Address = Annotated[str | None, AfterValidator(_readable)]
Format = Literal["table", "json"]
# A path that may begin with `~`.
HomePath = Annotated[str, AfterValidator(_at_home)]
Distractors = Annotated[Literal["100", "300", "500", "700", "1000", "all"], BeforeValidator(_word)]
Orders = Annotated[
    Literal[1, 4, 24], BeforeValidator(lambda n: int(n) if n in ("1", "4", "24") else n)
]
Temperature = Annotated[float, Field(ge=0)]
Seconds = Annotated[float, BeforeValidator(_seconds)]
Concurrency = Annotated[int, Field(ge=1, le=1024)] | Literal["auto"]
Share = Annotated[float, BeforeValidator(_share), Field(ge=0, le=1)]


KeysT = TypeVar("KeysT", bound="Keys")

Ability = Literal["pa", "pf", "vra", "cf", "ei", "all"]
DATA = "samples, hub[:OWNER/NAME][@REVISION], or a folder in the release layout"
SPLIT = "dev, validation, …; needed if the data has several splits"
_SENT = "sent to the model if given"


class Keys(BaseModel):
    """Keys that an extension adds to those of `alps run`, or of whatever judges."""

    @classmethod
    def of(cls: type[KeysT], settings: BaseModel) -> KeysT:
        """Return the settings of a run as ones that have these keys, which all of them have."""
        assert isinstance(settings, cls)
        return settings


class FrozenSettings(BaseModel):
    """Settings that nothing can be added to."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


def as_of(settings: type[BaseModel], key: str) -> Any:
    """Return a key as other settings have it: its default, its limits and its description."""
    return settings.model_fields[key]


class AskSettings(Keys):
    """Who judges, and how it is asked."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, defer_build=True)

    judge: str = Field(
        "lexical",
        description="PROVIDER/MODEL, lexical (offline, for debugging only), minilm or "
        "recorded:FILE",
    )
    judge_api_base: Address = Field(None, description="base URL of the judge's endpoint")
    judge_temperature: Annotated[Temperature | Literal["none"] | None, BeforeValidator(unset)] = (
        Field(None, description="temperature of the judge [0, if supported]; none: not sent")
    )
    judge_max_tokens: int | None = Field(
        None, ge=1, description="maximum tokens per reply of the judge"
    )
    judge_reasoning_effort: str | None = Field(None, description="reasoning effort of the judge")
    judge_request: JudgeExtra = Field(
        None, description="judge_request.NAME=VALUE: further parameter of the judge's requests"
    )
    judge_structured: Structured | None = Field(
        None, description="structured output of the judge; values as for structured="
    )
    judge_requests_per_minute: int | None = Field(
        None, ge=1, description="rate limit of the judge's endpoint"
    )
    judge_repeats: int = Field(
        1, ge=1, le=100, description="judge calls per item; the majority decides"
    )
    out: HomePath | None = Field(None, description="folder to write")
    seed: int = Field(0, ge=0, description="seed of every random draw")
    concurrency: Concurrency = Field(
        "auto",
        description="parallel requests per endpoint; auto starts at 16 and grows to 200 while no "
        "request fails",
    )
    timeout: float = Field(120.0, gt=0, description="seconds for one request")
    patience: Seconds = Field(
        PATIENCE,
        ge=0,
        description="retry transient errors for this long: seconds, 90s, 30min or 2h",
    )
    max_failures: Share = Field(
        0.05, description="exit 1 if a larger share of records failed or is unscored"
    )
    max_cost: float | None = Field(
        None, ge=0, description="US dollars; the run stops before exceeding them"
    )
    max_total_tokens: int | None = Field(
        None, ge=0, description="limit on prompt and completion tokens together"
    )

    @property
    def at_once(self) -> int | None:
        """The most requests under way at each endpoint, None for as many as it is found to take."""
        return None if self.concurrency == "auto" else self.concurrency

    @property
    def records_at_once(self) -> int:
        """How many records are worked on at once: two endpoints are kept busy."""
        return 2 * (self.at_once or AUTO_MOST)

    def judge_sampling(self) -> dict[str, Any]:
        """Return the judge's sampling that was given; None for a temperature not to be sent."""
        sampling: dict[str, Any] = {}
        for name in JUDGE_SAMPLING:
            value = getattr(self, f"judge_{name}")
            if value is not None:
                sampling[name] = None if value == "none" else value
        return sampling

    def is_given(self, name: str) -> bool:
        """Tell whether a key was given another value than its default."""
        field = type(self).model_fields[name]
        default = field.get_default(call_default_factory=True)
        return field.is_required() or getattr(self, name) != default


class JudgingKeys(AskSettings):
    """How predictions are judged and scored.

    `GROUPS` has the groups that help lists keys under, for those of `alps run`, too; extensions
    have such of their own.
    """

    GROUPS: ClassVar[Mapping[str, str]] = {
        EVERYDAY: "task model judge data limit out max_cost dry_run api_base config",
        "task": "task data split limit ability distractors prompt size persona answer orders "
        "parser scoring extras repeats seed",
        "model": "model api_base temperature top_p max_tokens reasoning_effort structured request "
        "frequency_penalty presence_penalty env",
        "judge": "judge judge_api_base judge_temperature judge_max_tokens judge_reasoning_effort "
        "judge_structured judge_request judge_repeats judge_check baseline_records",
        "limits": "max_cost max_total_tokens max_failures timeout patience concurrency "
        "requests_per_minute judge_requests_per_minute",
        "folder": "out config fresh dry_run",
    }

    extras: Literal["none", "judge"] = Field(
        "none", description="judge: check unmatched predictions against the dialogue"
    )
    baseline_records: int = Field(
        30, ge=0, description="records per task on which an LLM judge rates each trivial baseline"
    )
    scoring: str = Field("alps", description="authors-v1: the AlpsBench authors' v1 score")
    judge_check: bool = Field(
        True, description="no: do not check an LLM judge on known items; the scores are marked"
    )


EnvNames = Annotated[
    str | None, AfterValidator(lambda env: None if env is None else ",".join(names_in(env)))
]
"""Variables that a program gets beside those that it needs: names with commas, and no values."""


def passed(env: str | None) -> tuple[str, ...]:
    """Return the names of the variables that a program is given beside those that it needs."""
    return () if env is None else names_in(env)


class RunKeys(JudgingKeys):
    """How systems are asked."""

    task: str = Field(
        description="extraction, update, retrieval, utilization, personamem or forgetting; "
        "several, separated by commas; or all"
    )
    model: str = Field(
        description="PROVIDER/MODEL, rules, bm25, tfidf, minilm, e5, oracle, floor/…, "
        "predictions:FILE, program:CMD, python:MODULE:CLASS"
    )
    data: str = Field("samples", description=DATA)
    split: str | None = Field(None, description=SPLIT)
    limit: int | None = Field(None, ge=1, description="first N records")
    distractors: Distractors = Field(
        "100", description="100, 300, 500, 700, 1000 or all (retrieval)"
    )
    ability: Ability = Field("all", description="pa, pf, vra, cf, ei or all (utilization)")
    prompt: Literal["precision", "recall"] = Field(
        "precision", description="recall: ask for every memory, in six fields (extraction)"
    )
    size: str | None = Field(
        None, description="32k, 128k or 1M: length of the histories (personamem)"
    )
    persona: Literal["shown", "hidden"] = Field(
        "shown", description="hidden: leave out turns that describe the user (personamem)"
    )
    answer: Literal["choice", "logprob", "free"] = Field(
        "choice",
        description="logprob: compare the options by likelihood; free: show no options "
        "(personamem)",
    )
    orders: Orders = Field(
        1, description="1, 4 (rotations) or 24: orders in which options are shown (personamem)"
    )
    parser: Literal["alps", "authors", "authors-older"] = Field(
        "alps", description="authors or authors-older: published prompt and parser (personamem)"
    )
    env: EnvNames = Field(None, description="NAME,NAME: environment variables for program:CMD")
    repeats: int = Field(1, ge=1, le=100, description="samples per record")
    fresh: bool = Field(
        False, description="yes: answer again in the same folder; alps keeps the old run"
    )
    dry_run: bool = Field(False, description="yes: print calls and cost without sending a request")
    config: str | None = Field(
        None, description="TOML file with these keys; the command line takes precedence"
    )
    api_base: Address = Field(None, description="base URL of your OpenAI-compatible server")
    requests_per_minute: int | None = Field(
        None, ge=1, description="rate limit of the model's endpoint"
    )
    structured: Structured | None = Field(
        None, description="structured output: schema, tools, json or prompt [auto]"
    )
    temperature: Annotated[Temperature | None, BeforeValidator(given_temperature)] = Field(
        None, description=_SENT
    )
    top_p: float | None = Field(None, gt=0, le=1, description=_SENT)
    max_tokens: int | None = Field(
        None, ge=1, description="maximum tokens per answer; sent to the model if given"
    )
    frequency_penalty: float | None = Field(None, description=_SENT)
    presence_penalty: float | None = Field(None, description=_SENT)
    reasoning_effort: str | None = Field(None, description=_SENT)
    request: Extra = Field(
        None, description="request.NAME=VALUE: further parameter of the model's requests"
    )

    @model_validator(mode="before")
    @classmethod
    def _named_as_shown(cls, values: Any) -> Any:
        """Read a task by the name that people see: `task=retrieval@300`, `task=constraints`."""
        named = values.get("task") if isinstance(values, Mapping) else None
        if not isinstance(named, str) or not named:
            return values
        from alps.tasks.registry import ALL, PYTHON, TASKS, with_choices

        if all(name in (*TASKS, ALL) or name.startswith(PYTHON) for name in named.split(",")):
            return values
        typed = with_choices(named)
        for key, value in typed.items():
            if key != "task" and str(values.get(key, value)) != value:
                raise UsageError(f"task={named}: this name means {key}={value}, not {values[key]}")
        return {**values, **typed}

    @field_validator("task")
    @classmethod
    def _each_once(cls, task: str) -> str:
        return ",".join(dict.fromkeys(task.split(",")))

    @property
    def passed(self) -> tuple[str, ...]:
        """The names of the variables that a program is given beside those that it needs."""
        return passed(self.env)

    def sampling(self) -> dict[str, Any]:
        """Return the sampling settings of the model that were given."""
        return {name: value for name in SAMPLING if (value := getattr(self, name)) is not None}
