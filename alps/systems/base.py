"""The protocol of a system, any litellm model as one, and what the user's own code raises kept."""

import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from alps.errors import text_of
from alps.llm.secrets import masked, redact
from alps.llm.types import Completes, Completion, OutputBudget, Request, Structured
from alps.schema import Prediction, UsedToAnswer
from alps.tasks import Task

TRACEBACKS, STDERR = "tracebacks.log", "program.stderr.log"
# Tracebacks that are kept, and characters of each
_MOST, _LONGEST = 20, 20_000
_ERROR_LENGTH = 2_000


class System(Protocol):
    """Something that answers samples, of one task or of several.

    One that holds something open has an `aclose`, after which it can be asked again. One that can't
    answer all data has a `check_data`, which gets the `RunData` of a run before it begins.

    Attributes:
        name: What the user called it.
        settings: Everything that can change its answers; written into the manifest.
    """

    name: str
    settings: Mapping[str, Any]

    async def answer(self, task: Task, sample: Any) -> Prediction:
        """Answer what `task` asks about `sample`; a failure is a `Prediction`, no exception."""
        ...


@dataclass(frozen=True)
class Place:
    """Where a system works, and how long.

    Attributes:
        timeout: Seconds that it may take for one sample.
        folder: Where a program's stderr is kept, and what a class raises; None for nowhere.
        env: Variables of the environment that a program gets, too.
        id_key: Makes the ids that the user's own code is shown; None where it is shown those of the
            data.
        tasks: What it is asked.
    """

    timeout: float = 120.0
    folder: Path | None = None
    env: Sequence[str] = ()
    id_key: str | None = None
    tasks: Sequence[Task] = ()

    @property
    def tracebacks(self) -> Path | None:
        """The file of what is raised."""
        return None if self.folder is None else self.folder / TRACEBACKS


def on_client(system: System, client: Completes) -> System | None:
    """Return `system` with its requests going to `client`.

    None where that can't be done, so that nobody knows its calls beforehand: a dry run starts no
    program and no class of the user's, and an extension's system may have no `on(client)`.
    """
    on = getattr(system, "on", None)
    moved: System | None = None if on is None else on(client)
    return moved


class LlmSystem:
    """Any litellm model as the system under test: asks it what a task asks.

    Args:
        budgets: The output budgets of its answers, by track; those of others are not bounded.
        most: The most tokens that one may come to.
    """

    def __init__(
        self,
        model: str,
        *,
        client: Completes,
        api_base: str | None,
        sampling: Mapping[str, Any],
        extra: Mapping[str, Any] | None = None,
        repeat: int = 0,
        structured: Structured | None = None,
        budgets: Mapping[str, OutputBudget] | None = None,
        most: int | None = None,
    ) -> None:
        self.name = model
        self._budgets, self._most = budgets or {}, most
        settings: dict[str, Any] = {"sampling": dict(sampling), "api_base": api_base}
        if budgets:
            settings["output_budget"] = {track: one.row() for track, one in budgets.items()}
        self.settings: Mapping[str, Any] = settings | ({"request": dict(extra)} if extra else {})
        self._client, self._structured = client, structured
        fixed: dict[str, Any] = {"sampling": sampling, "api_base": api_base, "extra": extra or {}}
        self._request = partial(Request[Any], model, repeat=repeat, **fixed)

    def on(self, client: Completes) -> "LlmSystem":
        """Return the same model, asked through `client`."""
        moved = copy(self)
        moved._client = client
        return moved

    def request(self, task: Task, sample: Any) -> Request[Any]:
        """Return what the model is asked for `task` about `sample`."""
        messages, budget = task.messages(sample), self._budgets.get(task.track)
        longest = None if budget is None else budget.of_messages(messages, self._most)
        return self._request(
            messages=messages,
            longest=longest,
            answer=task.answer_to(sample),
            about=sample.benchmark_id,
            structured=self._structured if not task.asking.plain else None,
        )

    async def answer(self, task: Task, sample: Any) -> Prediction:
        """Ask the model about `sample`."""
        completion = await self._client.complete(self.request(task, sample))
        answered = completion.outcome == "ok"
        return Prediction(
            benchmark_id=sample.benchmark_id,
            track=task.track,
            outcome=completion.outcome,
            repaired=completion.repaired,
            truncated=completion.truncated,
            strict=completion.strict,
            prediction=task.to_prediction(completion.value) if answered else None,
            raw=completion.raw,
            thought=completion.thought,
            notes=completion.notes,
            error=completion.error,
            used=_used(completion),
        )


def _used(completion: Completion[Any]) -> UsedToAnswer | None:
    used = completion.used
    return None if used is None else used.model_copy(update={"cached": completion.cached})


class Tracebacks:
    """Keeps what is raised in a file, with secrets masked.

    Of exceptions of one type from one line only the first is kept, and 20 in all: a system that
    fails on every one of a thousand records fails in the same place.

    Args:
        path: The file, which is begun at the first exception and continued when a run goes on; None
            for nowhere.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._seen: set[tuple[str, str, int | None]] = set()

    def keep(self, error: BaseException, *, about: str) -> None:
        """Write down the traceback of `error`, which was raised about the record `about`."""
        frames = traceback.extract_tb(error.__traceback__)
        file, line = (frames[-1].filename, frames[-1].lineno) if frames else ("", None)
        origin = type(error).__name__, file, line
        if self._path is None or origin in self._seen or len(self._seen) == _MOST:
            return
        self._seen.add(origin)
        text = redact(masked(f"{about}:\n{_formatted(error)[-_LONGEST:]}\n"))
        with suppress(OSError), self._path.open("ab") as log:  # a full disk must not end the run
            log.write(text.encode(errors="replace"))


def described(error: BaseException) -> str:
    """Return an exception on one line, with secrets masked: `ValueError: its message`."""
    return one_line(text_of(error))


def one_line(text: str) -> str:
    """Return `text` on one line of at most 2,000 characters, with secrets masked."""
    return " ".join(redact(masked(text)).split())[:_ERROR_LENGTH]


def _formatted(error: BaseException) -> str:
    try:
        return "".join(traceback.format_exception(error))
    except BaseException:  # it raises when it is asked for its message, or its causes go too deep
        return "".join(traceback.format_tb(error.__traceback__))
