"""Settings of a run and of its judging: the keys of the spine, and those of extensions."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from alps.extension import brought, keys_of, operational_keys
from alps.keys import Format, FrozenSettings, JudgingKeys, RunKeys, as_of
from alps.llm.secrets import redact

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


class CompareSettings(FrozenSettings):
    """Settings of `alps compare`."""

    seed: int = Field(0, ge=0, description="has no effect; allowed because older commands have it")
    metrics: Literal["headline", "all"] = Field("headline", description="headline or all")
    format: Format = Field("table", description="table or json")
