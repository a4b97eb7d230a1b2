"""What goes into a completion and what comes out of it."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Generic, TypeVar

from pydantic import BaseModel

from alps.errors import AlpsError
from alps.schema import Outcome

T = TypeVar("T")


@cache
def schema_of(model: type[BaseModel]) -> str:
    """Return the JSON schema of a response model, as canonical JSON; made once, as it stands in every cache key."""
    return json.dumps(model.model_json_schema(), sort_keys=True, separators=(",", ":"))


@dataclass(frozen=True)
class Read(Generic[T]):
    """An answer that was understood, with a note for every liberty taken."""

    value: T
    notes: tuple[str, ...] = ()


class EmptyAnswer(ValueError):
    """There is an answer, and nothing in it: a failure of its own kind."""


@dataclass(frozen=True)
class AnswerType(Generic[T]):
    """What a completion must answer.

    Attributes:
        schema: The response model that is sent as JSON schema and that instructor validates against.
        read: Reads parsed JSON tolerantly; raises ValueError, with a sentence for the model, where it can't.
        partial: Whether an answer that was cut off may be used as far as it is complete.
    """

    schema: type[BaseModel]
    read: Callable[[object], Read[T]]
    partial: bool


@dataclass(frozen=True)
class Request(Generic[T]):
    """One question to one model; everything that can change the answer is in here.

    Attributes:
        model: A litellm model name.
        messages: The rendered messages.
        answer: The typed answer, or None for plain text.
        sampling: Sampling parameters, sent as they are.
        api_base: The endpoint, None for the provider's own.
        repeat: Which of several independent draws this is; only part of the cache key.
        purpose: `generate` or `judge`; only for the ledger.
        about: The record that this is about; only for the ledger.
        certain: Whether it is sure to be asked; an estimate counts the others in its upper bound alone.
    """

    model: str
    messages: tuple[Mapping[str, str], ...]
    answer: AnswerType[T] | None
    sampling: Mapping[str, Any] = field(default_factory=dict)
    api_base: str | None = None
    repeat: int = 0
    purpose: str = "generate"
    about: str = ""
    certain: bool = True


@dataclass(frozen=True)
class Reply:
    """One HTTP answer of a model, as it came."""

    text: str | None
    finish_reason: str | None = None
    refusal: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cost: float | None = None


@dataclass(frozen=True)
class Completion(Generic[T]):
    """What a model answered in the end.

    `value` is set exactly when `outcome` is `ok`; `raw` is the last text heard, None where nothing was.
    """

    outcome: Outcome
    value: T | None = None
    raw: str | None = None
    repaired: bool = False
    truncated: bool = False
    notes: tuple[str, ...] = ()
    error: str | None = None


class TransportError(Exception):
    """An HTTP attempt that brought no answer.

    Attributes:
        transient: Whether the same request may go through later.
        status: The HTTP status, None where there was none; 408 where the answer took too long.
        unsent: Whether no connection came about, so that nobody can have answered.
        retry_after: Seconds the server asked to wait.
        refused: Whether the provider's content filter refused the request.
        too_long: Whether the request is longer than the model or the server takes.
        billed: Whether the server began an answer of success that could not be read: it is likely to be on the bill.
        fatal: What to end the run with, where no later call can go through either.
    """

    def __init__(
        self,
        message: str,
        *,
        transient: bool,
        status: int | None = None,
        unsent: bool = False,
        retry_after: float | None = None,
        refused: bool = False,
        too_long: bool = False,
        billed: bool = False,
        fatal: AlpsError | None = None,
    ) -> None:
        super().__init__(message)
        self.transient, self.status, self.unsent = transient, status, unsent
        self.retry_after, self.refused, self.fatal = retry_after, refused, fatal
        self.too_long, self.billed = too_long, billed
