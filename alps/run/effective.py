"""The settings as they take effect: what the environment adds to them, and what a model needs that
nobody gave.

They are resolved once, before anything is asked or named after them, so that the manifest, the keys
of the reply cache and the fingerprint of a judge hold where requests really go.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any, TypeVar
from urllib.parse import urlsplit

import click

from alps.judges.resolve import is_embedded_judge
from alps.settings import AskSettings, RunSettings
from alps.systems import is_local
from alps.tasks import Task

SettingsT = TypeVar("SettingsT", bound=AskSettings)


def effective_run(settings: RunSettings, tasks: Sequence[Task]) -> RunSettings:
    """Return the settings of a run as they take effect.

    Raises:
        UsageError: If an address in the environment can't be used.
    """
    if not is_local(settings.model, tasks):
        settings = settings.model_copy(update=_added(settings, "model", ""))
    return effective_judge(settings)


def effective_judge(settings: SettingsT) -> SettingsT:
    """Return the settings as they take effect for the judge; see `effective_run`."""
    if is_embedded_judge(settings.judge):
        return settings
    settings = settings.model_copy(update=_added(settings, "judge", "judge_"))
    return (
        settings.model_copy(update={"judge_temperature": "none"})
        if _takes_no_temperature(settings)
        else settings
    )


def _takes_no_temperature(settings: AskSettings) -> bool:
    """Tell whether the judge was given no temperature, and takes none but its own."""
    from alps.llm.preflight import default_temperature, is_known

    sampling, extra = settings.judge_sampling(), settings.judge_request or {}
    if "temperature" in sampling or not is_known(settings.judge):
        return False
    default = default_temperature(
        settings.judge, api_base=settings.judge_api_base, sampling=sampling, extra=extra
    )
    return default is None


def _added(settings: AskSettings, who: str, prefix: str) -> dict[str, Any]:
    """Return the settings that were not given, and take effect all the same."""
    from alps.llm.endpoints import endpoint_from_environment, version_from_environment
    from alps.llm.preflight import is_known, unlisted_answer

    model = getattr(settings, who)
    if not is_known(model):
        return {}
    added: dict[str, Any] = {}
    if (
        getattr(settings, f"{prefix}api_base") is None
        and (elsewhere := endpoint_from_environment(model)) is not None
    ):
        variable, address = elsewhere
        added[f"{prefix}api_base"] = address
        say_once(f"{model} is asked at {urlsplit(address).netloc}, as {variable} says")
    extra = getattr(settings, f"{prefix}request") or {}
    if "api_version" not in extra and (version := version_from_environment(model)) is not None:
        added[f"{prefix}request"] = {**extra, "api_version": version}
    longest = unlisted_answer(model, {"max_tokens": getattr(settings, f"{prefix}max_tokens")})
    if longest is not None:
        added[f"{prefix}max_tokens"] = longest
        why = f"how much it can answer is not known, so it may answer {longest:,} tokens"
        say_once(f"{model}: {why}; {prefix}max_tokens= says otherwise")
    return added


@cache
def say_once(line: str) -> None:
    """Say something on stderr, however often it is checked before a run begins."""
    click.echo(f"alps: {line}", err=True)
