"""Settings that nobody would heed are refused: whoever gave one believes that it changes something."""

from typing import Any

from alps.errors import UsageError
from alps.judges.resolve import is_embedded_judge
from alps.llm.options import SAMPLING
from alps.llm.secrets import redact
from alps.settings import AskSettings, RunSettings
from alps.systems import PROGRAM, is_local
from alps.tasks import load_tracks
from alps.tasks.registry import allow_modules

OF_THE_MODEL = ("api_base", "prompt", *SAMPLING, "request")
OF_THE_JUDGE = (
    "judge_api_base",
    "judge_temperature",
    "judge_max_tokens",
    "judge_reasoning_effort",
    "judge_request",
    "judge_repeats",
)


def check_run(settings: RunSettings) -> None:
    """Refuse what only a litellm model would heed, where the system or the judge is none.

    `settings` are what the user typed: the module of a task of their own may be imported from here
    on.

    Raises:
        UsageError: If there is such a setting, whether it was typed or stands in a config file.
    """
    allow_modules(settings.task)
    if is_local(settings.model, load_tracks(settings.task)):
        _refuse(settings, OF_THE_MODEL, f"model={redact(settings.model)} is no litellm model")
    if settings.env is not None and not settings.model.startswith(PROGRAM):
        raise UsageError(
            f"env={settings.env} would change nothing: only program:CMD heeds it; leave it out"
        )
    check_judge(settings)


def check_judge(settings: AskSettings) -> None:
    """Refuse what only a litellm model would heed, where the judge is none.

    Raises:
        UsageError: If there is such a setting.
    """
    if is_embedded_judge(settings.judge):
        forgotten = "judge" not in settings.model_fields_set
        why = f"judge={settings.judge} is no litellm model"
        _refuse(
            settings,
            OF_THE_JUDGE,
            f"no judge= was given, so {settings.judge} judges" if forgotten else why,
        )


def _refuse(settings: AskSettings, keys: tuple[str, ...], why: str) -> None:
    for key in keys:
        value: Any = getattr(settings, key)
        if value != type(settings).model_fields[key].default:
            shown = "" if key.endswith(("api_base", "request")) else value
            raise UsageError(
                f"{key}={shown} would change nothing: {why}; leave it out, or name a litellm model"
            )
