"""Everything that the commands can be told, as typed settings."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    field_validator,
    model_validator,
)

from alps.ext.batches import AT_ONCE
from alps.llm.options import (
    JUDGE_SAMPLING,
    SAMPLING,
    Extra,
    JudgeExtra,
    MemoryExtra,
)
from alps.llm.retries import AUTO_MOST, DAY, PATIENCE
from alps.llm.secrets import names_in, redact
from alps.llm.types import Structured
from alps.values import (
    Address,
    Concurrency,
    ContextSizes,
    Distractors,
    Format,
    HomePath,
    Orders,
    Seconds,
    Share,
    Temperature,
    given_temperature,
    shard_of,
    unset,
)

# Keys that others took the place of, as they stand in every manifest: the hash of the settings
# names a run's folder, and a run that was begun before must find its own. By the key before them.
_ONCE: dict[str, dict[str, Any]] = {
    "ability": {"condition": "history"},
    "prompt": {"window": None},
}
_MEMORY = "memory:"
# Keys of how a run is carried out, not of what it measures: a resumed run may change them.
OPERATIONAL = frozenset(
    """
    out concurrency max_failures timeout patience max_cost max_total_tokens dry_run config
    calibration audit audit_judge audit_judge_api_base audit_labels audit_seed engine workers
    fresh judge_check scheduler batch batch_deadline requests_per_minute
    judge_requests_per_minute
    """.split()  # noqa: SIM905 - a list of quoted words hides what is in it
)
HERE: Final = "asyncio"
"""The engine that is this process alone."""


Ability = Literal["pa", "pf", "vra", "cf", "ei", "all"]
_DATA = "samples, hub[:OWNER/NAME][@REVISION], or a folder in the release layout"
_SPLIT = "dev, validation, …; needed where there are several"
_SENT = "sent to the model, if given"


class AskSettings(BaseModel):
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


class JudgeSettings(AskSettings):
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
    calibration: str | None = Field(
        None,
        description="a calibration of the judge, to correct by; off: none; else those that are "
        "known",
    )
    audit_judge: str | None = Field(
        None, description="a better judge, who judges a drawn share of the records once more"
    )
    audit_judge_api_base: Address = Field(None, description="endpoint of audit_judge")
    audit: Share | None = Field(
        None, description="the share of the sessions that audit_judge judges: 10%"
    )
    audit_labels: HomePath | None = Field(None, description="labels of people who audited a share")
    audit_seed: int | None = Field(
        None,
        ge=0,
        lt=2**36,
        description="draws the same sessions in every run, for compare; else the answers draw them",
    )
    judge_check: bool = Field(
        True, description="no: an LLM judge answers no known items first, its scores are marked"
    )
    batch: bool = Field(False, description="yes: ask in batches, at half the price, within a day")
    batch_deadline: Seconds = Field(
        DAY, ge=0, description="what a batch has not answered by then is asked one by one"
    )

    @property
    def records_at_once(self) -> int:
        """How many records are worked on at once; with batches, as many as fill one."""
        return AT_ONCE if self.batch else super().records_at_once


class SensitivitySettings(AskSettings):
    """What `alps sensitivity` can be told beside the runs."""

    judge: str = Field(description="a litellm model")
    prompts: str = Field(
        description="a folder of wordings: NAME/RUBRIC.md, or NAME.md for a single rubric"
    )
    out: HomePath | None = Field(
        None, description="where the scores land: RUN/WORDING; else beside the run"
    )
    format: Format = Field("table", description="table or json")


class JudgesSettings(AskSettings):
    """What `alps judges` can be told beside the runs."""

    judge: str = Field(
        "", description="judges, with commas between: litellm models or embedded ones"
    )
    prompts: str | None = Field(
        None, description="a folder of wordings: NAME/RUBRIC.md, or NAME.md for a single rubric"
    )
    draws: int = Field(
        1, ge=1, le=20, description="ask each LLM judge so often, each time a run of its own"
    )
    anchors: HomePath | None = Field(
        None, description="a folder: the first run's answers, judged once more without the cache"
    )
    level: float = Field(
        0.001, gt=0, lt=1, description="the share of checks of an unchanged judge that alarm"
    )
    out: HomePath | None = Field(
        None, description="where the scores land: RUN/JUDGE--WORDING; else beside the run"
    )
    format: Format = Field("table", description="table or json")


def _names_alone(env: str | None) -> str | None:
    return None if env is None else ",".join(names_in(env))


EnvNames = Annotated[str | None, AfterValidator(_names_alone)]
"""Variables that a program gets beside those that it needs: names with commas, and no values."""


def passed(env: str | None) -> tuple[str, ...]:
    """Return the names of the variables that a program is given beside those that it needs."""
    return () if env is None else names_in(env)


class MemoryModels(BaseModel):
    """The models that a memory system is given."""

    memory_llm: str | None = Field(
        None, description="a litellm model: whom a memory system may ask"
    )
    memory_llm_api_base: Address = Field(None, description="endpoint of memory_llm")
    memory_embedder: str | None = Field(
        None,
        description="hash, minilm or a litellm model: what embeds for a memory system",
    )
    memory_embedder_api_base: Address = Field(None, description="endpoint of memory_embedder")


class RunSettings(JudgeSettings, MemoryModels):
    """Everything `alps run` can be told."""

    task: str = Field(
        description="extraction, update, retrieval, utilization, personamem, forgetting, several "
        "with commas, or all"
    )
    model: str = Field(
        description="a litellm model, rules, bm25, tfidf, minilm, floor/…, oracle, "
        "predictions:FILE, program:CMD, python:MODULE:CLASS"
    )
    data: str = Field("samples", description=_DATA)
    split: str | None = Field(None, description=_SPLIT)
    limit: int | None = Field(None, ge=1, description="only the first so many records")
    shard: str | None = Field(
        None, description="3/8: only the third of eight parts of the sessions, for alps merge"
    )
    distractors: Distractors = Field(
        "100", description="100, 300, 500, 700, 1000 or all (retrieval)"
    )
    ability: Ability = Field("all", description="pa, pf, vra, cf, ei or all (utilization)")
    prompt: Literal["precision", "recall"] = Field(
        "precision", description="recall: ask for every memory, in six fields (extraction)"
    )
    memory: str = Field(
        "full",
        description="what of a history is shown: full, none, last:N, bm25, tfidf, minilm, oracle, "
        "python:MODULE:CLASS, program:CMD, http://… or mcp:CMD",
    )
    memory_options: MemoryExtra = Field(
        None, description="memory.NAME=VALUE: what a memory system is opened with"
    )
    reader: str | None = Field(
        None, description="who answers behind model=memory:NAME: what model= takes [rules]"
    )
    max_context_tokens: ContextSizes = Field(
        None,
        description="tokens of history at most: the oldest turns go; several with commas, as "
        "256,1k,4k, for a curve (utilization, personamem)",
    )
    k: int = Field(5, ge=1, le=1_000, description="how many turns or memories a memory finds")
    size: Literal["32k", "128k", "1M"] | None = Field(
        None, description="32k, 128k or 1M: which histories (personamem)"
    )
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
    engine: Literal["asyncio", "processes", "dask"] = Field(
        HERE, description="processes: shards in processes of this machine; dask: of a cluster"
    )
    workers: int | None = Field(
        None, ge=1, le=1024, description="how many processes, or workers of the cluster [all]"
    )
    scheduler: str | None = Field(None, description="the address of the scheduler of engine=dask")
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

    @model_validator(mode="before")
    @classmethod
    def _memory_first(cls, values: Any) -> Any:
        """Read `model=memory:NAME reader=READER` as `model=READER memory=NAME`."""
        if not isinstance(values, Mapping) or not str(values.get("model", "")).startswith(_MEMORY):
            return values
        # Two ways to write one run: both have the same folder and the same settings.
        others = {name: value for name, value in values.items() if name != "reader"}
        reader = values.get("reader") or "rules"
        return {**others, "model": reader, "memory": values["model"].removeprefix(_MEMORY)}

    @field_validator("reader")
    @classmethod
    def _behind_a_memory(cls, reader: str | None) -> str | None:
        if reader is not None:
            raise ValueError("it goes with model=memory:NAME; else the reader is model=")
        return reader

    @field_validator("task")
    @classmethod
    def _each_once(cls, task: str) -> str:
        return ",".join(dict.fromkeys(task.split(",")))

    @field_validator("shard")
    @classmethod
    def _of_a_whole(cls, shard: str | None) -> str | None:
        if shard is not None:
            shard_of(shard)
        return shard

    @property
    def most_context(self) -> int | None:
        """The most tokens of a history that are shown; None for any number."""
        return largest_context(self.max_context_tokens)

    @property
    def less_contexts(self) -> tuple[int, ...]:
        """The sizes that the run is asked at beside the largest, the larger first."""
        sizes = self.max_context_tokens
        return sizes[-2::-1] if isinstance(sizes, tuple) else ()

    @property
    def passed(self) -> tuple[str, ...]:
        """The names of the variables that a program is given beside those that it needs."""
        return passed(self.env)

    def sampling(self) -> dict[str, Any]:
        """Return the sampling settings of the model that were given."""
        return {name: value for name in SAMPLING if (value := getattr(self, name)) is not None}

    def experiment(self) -> dict[str, Any]:
        """Return what the run measures: settings that are not operational, secrets left out."""
        # Folders are named after a hash of these: what came later is left out where not given.
        since = (
            *("env", "request", "judge_request", "structured", "judge_structured"),
            *("size", "memory", "max_context_tokens", "k", "persona", "answer", "orders", "parser"),
            *("memory_options", "reader", "shard"),
            *MemoryModels.model_fields,
        )
        fields = type(self).model_fields
        later = [name for name in since if getattr(self, name) == fields[name].default]
        settings = self.model_dump(exclude={*OPERATIONAL, *later})
        kept: dict[str, Any] = {}
        for name, value in settings.items():
            kept[name] = value
            kept |= _ONCE.get(name, {})
        if "memory" in kept:
            kept["memory"] = redact(self.memory)
        return {**kept, "model": redact(self.model)}


def largest_context(sizes: int | Sequence[int] | None) -> int | None:
    """Return the largest size of `max_context_tokens=`, which the scores of a run are of."""
    return max(sizes) if isinstance(sizes, list | tuple) else sizes  # type: ignore[return-value]


def as_typed(value: object) -> str:
    """Return a setting as it is typed: several sizes with commas."""
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


class FrozenSettings(BaseModel):
    """Settings that nothing can be added to."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def _as_of(settings: type[BaseModel], key: str) -> Any:
    """Return a key as other settings have it: its default, its limits and its description."""
    return settings.model_fields[key]


class DoctorSettings(FrozenSettings, MemoryModels):
    """What `alps doctor` can be told."""

    memory: str | None = Field(None, description="a memory system, as alps run takes it")
    memory_options: MemoryExtra = _as_of(RunSettings, "memory_options")
    env: EnvNames = _as_of(RunSettings, "env")
    timeout: float = Field(120.0, gt=0, description="seconds for one call of it")


class ReportSettings(FrozenSettings):
    """What `alps report` can be told beside the runs."""

    out: HomePath | None = Field(None, description="the page that is written")


class CompareSettings(FrozenSettings):
    """What `alps compare` can be told beside the runs."""

    seed: int = Field(0, ge=0, description="taken from older commands; nothing is drawn")
    format: Format = Field("table", description="table or json")


_TYPED_AGAIN = "that of the run, to be typed where it is code or a server of yours"


class BesideSettings(FrozenSettings):
    """What `alps beside` can be told beside the run."""

    model: str | None = Field(None, description=_TYPED_AGAIN)
    rows: str = Field(
        "none,last:10,full,bm25,oracle,placebo", description="memories, as alps run takes them"
    )
    max_cost: float | None = Field(None, ge=0, description="US dollars for each row")
    format: Format = Field("table", description="table or json")


class DiagnoseSettings(FrozenSettings):
    """What `alps diagnose` can be told beside the run."""

    model: str | None = Field(None, description=_TYPED_AGAIN)
    memory: str | None = Field(None, description=_TYPED_AGAIN)
    format: Format = Field("table", description="table or json")


class DataSettings(FrozenSettings):
    """Which data."""

    data: str = Field("samples", description=_DATA)
    split: str | None = Field(None, description=_SPLIT)


class AuditSettings(DataSettings):
    """What `alps data audit` can be told."""

    format: Format = Field("table", description="table or json")


class PoolSettings(DataSettings):
    """What `alps data pools` can be told."""

    out: HomePath = Field(description="the folder to write")
    distractors: Distractors = Field("all", description="100, 300, 500, 700, 1000 or all")
    seed: int = Field(0, ge=0, description="of the drawing")


class PersonaSettings(FrozenSettings):
    """What `alps data personas` can be told."""

    out: HomePath = Field(description="the folder to write")
    n: int = Field(20, ge=1, le=10_000, description="how many personas, of 35 questions each")
    size: Literal["32k", "128k", "1M"] = Field("32k", description="tokens of each history")
    language: Literal["en", "zh"] = Field("en", description="en or zh")
    seed: int = Field(0, ge=0, description="of the drawing")
    model: str = Field(
        "templates", description="who writes the texts: templates, or a litellm model"
    )
    filter: str | None = Field(
        None, description="a litellm model; questions that it answers without history are dropped"
    )
    filter_api_base: Address = Field(None, description="endpoint of the filter")
    api_base: Address = _as_of(RunSettings, "api_base")
    structured: Structured | None = _as_of(RunSettings, "structured")
    temperature: Annotated[Temperature | None, BeforeValidator(given_temperature)] = _as_of(
        RunSettings, "temperature"
    )
    max_tokens: int | None = _as_of(RunSettings, "max_tokens")
    reasoning_effort: str | None = _as_of(RunSettings, "reasoning_effort")
    request: Extra = _as_of(RunSettings, "request")
    concurrency: Concurrency = _as_of(AskSettings, "concurrency")
    timeout: float = _as_of(AskSettings, "timeout")
    patience: Seconds = _as_of(AskSettings, "patience")
    max_cost: float | None = _as_of(AskSettings, "max_cost")
    max_total_tokens: int | None = _as_of(AskSettings, "max_total_tokens")

    @property
    def at_once(self) -> int | None:
        """The most requests under way at each endpoint, None for as many as it is found to take."""
        return None if self.concurrency == "auto" else self.concurrency

    def sampling(self) -> dict[str, Any]:
        """Return the sampling settings of the model that were given."""
        given = {name: getattr(self, name, None) for name in SAMPLING}
        return {name: value for name, value in given.items() if value is not None}

    def content(self) -> dict[str, Any]:
        """Return what the texts depend on: how they are asked for and paid is left out."""
        asking = {"out", "concurrency", "timeout", "patience", "max_cost", "max_total_tokens"}
        values = self.model_dump(exclude=asking, exclude_defaults=True)
        for key in {"model", "filter"} & set(values):
            values[key] = redact(values[key])
        return values
