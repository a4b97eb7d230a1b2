"""Keys of the commands of the spine, and what extensions make keys of their own of."""

from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, field_validator

from alps.llm.options import JUDGE_SAMPLING, SAMPLING, Extra, JudgeExtra
from alps.llm.retries import AUTO_MOST, PATIENCE
from alps.llm.secrets import names_in
from alps.llm.types import Structured
from alps.values import (
    Address,
    Concurrency,
    Distractors,
    HomePath,
    Orders,
    Seconds,
    Share,
    Temperature,
    given_temperature,
    unset,
)

KeysT = TypeVar("KeysT", bound="Keys")

Ability = Literal["pa", "pf", "vra", "cf", "ei", "all"]
DATA = "samples, hub[:OWNER/NAME][@REVISION], or a folder in the release layout"
SPLIT = "dev, validation, …; needed where there are several"
_SENT = "sent to the model, if given"


class Keys(BaseModel):
    """Keys that an extension adds to those of `alps run`, or of whatever judges."""

    @classmethod
    def of(cls: type[KeysT], settings: BaseModel) -> KeysT:
        """Return the settings of a run as ones that have these keys, which all of them have."""
        assert isinstance(settings, cls)
        return settings


class FrozenSettings(BaseModel):
    """Settings that nothing can be added to."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def as_of(settings: type[BaseModel], key: str) -> Any:
    """Return a key as other settings have it: its default, its limits and its description."""
    return settings.model_fields[key]


class AskSettings(Keys):
    """Who judges, and how it is asked."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    judge: str = Field("lexical", description="lexical, minilm, a litellm model, or recorded:FILE")
    judge_api_base: Address = Field(None, description="endpoint of the judge")
    judge_temperature: Annotated[Temperature | Literal["none"] | None, BeforeValidator(unset)] = (
        Field(None, description="of the judge [0, where the model takes it]; none: not sent")
    )
    judge_max_tokens: int | None = Field(None, ge=1, description="of the judge's replies")
    judge_reasoning_effort: str | None = Field(None, description="of the judge")
    judge_request: JudgeExtra = Field(
        None, description="judge_request.NAME=VALUE: the judge is sent, too"
    )
    judge_structured: Structured | None = Field(None, description="as structured=, of the judge")
    judge_requests_per_minute: int | None = Field(
        None, ge=1, description="the most requests a minute at the endpoint of the judge"
    )
    judge_repeats: int = Field(
        1, ge=1, le=100, description="ask the judge so often, majority decides"
    )
    out: HomePath | None = Field(None, description="the folder that is written")
    seed: int = Field(0, ge=0, description="of every random draw")
    concurrency: Concurrency = Field(
        "auto",
        description="the most requests under way at each endpoint; auto: 16, and up to 200 while "
        "that is clean",
    )
    timeout: float = Field(120.0, gt=0, description="seconds for one request")
    patience: Seconds = Field(
        PATIENCE,
        ge=0,
        description="how long failures that may pass are tried again: seconds, 90s, 30min or 2h",
    )
    max_failures: Share = Field(
        0.05, description="exit 1 when a larger share failed or is unscored"
    )
    max_cost: float | None = Field(None, ge=0, description="US dollars for the whole run")
    max_total_tokens: int | None = Field(
        None, ge=0, description="prompt and completion tokens together"
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
        """Return the decoding settings of the judge that were given.

        None for a temperature that is not to be sent.
        """
        sampling: dict[str, Any] = {}
        for name in JUDGE_SAMPLING:
            value = getattr(self, f"judge_{name}")
            if value is not None:
                sampling[name] = None if value == "none" else value
        return sampling


class JudgingKeys(AskSettings):
    """How predictions are judged and scored."""

    extras: Literal["none", "judge"] = Field(
        "none", description="judge: is an unmatched prediction true?"
    )
    baseline_records: int = Field(
        30,
        ge=0,
        description="records of a track that an LLM judge judges each trivial baseline on",
    )
    scoring: Literal["alps", "authors-v1"] = Field(
        "alps", description="authors-v1: the published v1 score"
    )
    judge_check: bool = Field(
        True, description="no: an LLM judge answers no known items first, its scores are marked"
    )


def _names_alone(env: str | None) -> str | None:
    return None if env is None else ",".join(names_in(env))


EnvNames = Annotated[str | None, AfterValidator(_names_alone)]
"""Variables that a program gets beside those that it needs: names with commas, and no values."""


def passed(env: str | None) -> tuple[str, ...]:
    """Return the names of the variables that a program is given beside those that it needs."""
    return () if env is None else names_in(env)


class RunKeys(JudgingKeys):
    """How systems are asked."""

    task: str = Field(
        description="extraction, update, retrieval, utilization, personamem, forgetting, several "
        "with commas, or all"
    )
    model: str = Field(
        description="a litellm model, rules, bm25, tfidf, minilm, floor/…, oracle, "
        "predictions:FILE, program:CMD, python:MODULE:CLASS"
    )
    data: str = Field("samples", description=DATA)
    split: str | None = Field(None, description=SPLIT)
    limit: int | None = Field(None, ge=1, description="only the first so many records")
    distractors: Distractors = Field(
        "100", description="100, 300, 500, 700, 1000 or all (retrieval)"
    )
    ability: Ability = Field("all", description="pa, pf, vra, cf, ei or all (utilization)")
    prompt: Literal["precision", "recall"] = Field(
        "precision", description="recall: ask for every memory, in six fields (extraction)"
    )
    size: str | None = Field(None, description="32k, 128k or 1M: which histories (personamem)")
    persona: Literal["shown", "hidden"] = Field(
        "shown", description="hidden: without the turns that describe the user (personamem)"
    )
    answer: Literal["choice", "logprob", "free"] = Field(
        "choice",
        description="logprob: compare the options by their likelihood; free: show none "
        "(personamem)",
    )
    orders: Orders = Field(
        1, description="1, 4 (rotations) or 24: orders in which options are shown (personamem)"
    )
    parser: Literal["alps", "authors", "authors-older"] = Field(
        "alps", description="authors or authors-older: ask and read as published (personamem)"
    )
    env: EnvNames = Field(
        None, description="NAME,NAME: variables that a program gets, too (program:CMD)"
    )
    repeats: int = Field(1, ge=1, le=100, description="ask the system so often")
    fresh: bool = Field(
        False, description="yes: answer all again in the same folder; the run there is kept"
    )
    dry_run: bool = Field(
        False, description="say what a run would ask and cost, without one request"
    )
    config: str | None = Field(
        None, description="a TOML file with any of these keys; words come first"
    )
    api_base: Address = Field(None, description="endpoint of the model")
    requests_per_minute: int | None = Field(
        None, ge=1, description="the most requests a minute at the endpoint of the model"
    )
    structured: Structured | None = Field(
        None,
        description="how typed answers are asked for: schema, tools, json or prompt [auto]",
    )
    temperature: Annotated[Temperature | None, BeforeValidator(given_temperature)] = Field(
        None, description=_SENT
    )
    top_p: float | None = Field(None, gt=0, le=1, description=_SENT)
    max_tokens: int | None = Field(
        None, ge=1, description="the longest answer; sent to the model, if given"
    )
    frequency_penalty: float | None = Field(None, description=_SENT)
    presence_penalty: float | None = Field(None, description=_SENT)
    reasoning_effort: str | None = Field(None, description=_SENT)
    request: Extra = Field(None, description="request.NAME=VALUE: what else the model is sent")

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
