"""Code that a run names: who looks into a stranger's run must not run the stranger's code."""

from collections.abc import Mapping

from alps.errors import UsageError
from alps.run.opened import RunFolder

_FOREIGN = ("python:", "program:", "mcp:", "http://", "https://")


def refuse_untyped(run: RunFolder, typed: Mapping[str, str | None]) -> None:
    """Refuse a run whose system or memory is code or a server, unless that is typed again.

    Raises:
        UsageError: If one is not; says what to type.
    """
    for key, value in typed.items():
        named = str(run.manifest.settings.get(key) or "")
        if value is not None and value != named:
            raise UsageError(f"{key}={value}: {run.folder} has {key}={named}")
        if value is None and named.startswith(_FOREIGN):
            raise UsageError(
                f"{run.folder} was made with {key}={named}, and this command would run that code: "
                f"if you trust the code, add {key}=… to the command"
            )
