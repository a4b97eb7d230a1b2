"""Types of the input and output of a completion, and of requests that are sent together."""

import asyncio
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any, Generic, Literal, Protocol, TypeVar

from pydantic import BaseModel, Field

from alps.errors import AlpsError
from alps.schema import Outcome, UsedToAnswer

if TYPE_CHECKING:
    from alps.llm.ledger import Totals
    from alps.llm.limiter import Limiter
    from alps.llm.wire import Exchange

T = TypeVar("T")
Structured = Literal["schema", "tools", "json", "prompt"]
"""How a typed answer is asked for, as `alps.llm.structured` tells."""


@dataclass(frozen=True)
class Read(Generic[T]):
    """An answer that was understood, with a note for every liberty taken."""

    value: T
    notes: tuple[str, ...] = ()


class EmptyAnswer(ValueError):
    """There is an answer, and nothing in it: a failure of its own kind."""


@dataclass(frozen=True)
class OutputBudget:
    """Tokens within which an answer of some form ends, by what it is about.

    It bounds answers that run wild, and has to let any real answer through, under any vocabulary.

    Attributes:
        fixed: For the form, and for an answer about nothing.
        an_item: For each item that the answer speaks of.
        a_byte: For each byte of what is shown; English has about four bytes a token.
    """

    fixed: int
    an_item: int = 0
    a_byte: float = 0.0

    def tokens(self, *, size: int = 0, items: int = 0, most: int | None = None) -> int:
        """Return the tokens for an answer to `size` bytes, or about `items`: at most `most`."""
        tokens = self.fixed + self.an_item * items + int(self.a_byte * size)
        return tokens if most is None else min(tokens, most)

    def of_messages(self, messages: Iterable[Mapping[str, str]], most: int | None = None) -> int:
        """Return the output tokens allowed for the content of messages, without instructions."""
        shown = [message["content"] for message in messages if message["role"] != "system"]
        size = sum(len(text.encode(errors="replace")) for text in shown)
        return self.tokens(size=size, most=most)

    def row(self) -> dict[str, float]:
        """Return the budget as a manifest has it."""
        return {name: value for name, value in vars(self).items() if value}


IN_WORDS = OutputBudget(4_096)
"""Of an answer in plain text: of 133 recorded ones, the longest has 1,402 tokens."""
A_CHOICE = OutputBudget(2_048)
"""Of a choice with its reason, which has at most some sentences."""


@dataclass(frozen=True)
class AnswerType(Generic[T]):
    """What a completion must answer.

    Attributes:
        schema: The response model that is sent as JSON schema; instructor validates against it.
        read: Reads parsed JSON tolerantly, or raises ValueError with a sentence for the model.
        partial: Whether an answer that was cut off may be used as far as it is complete.
        decision: What two answers must have in common not to contradict each other: a judge's
            verdict, without reasons. None: all of it, and nothing in a list that may be cut off.
        within: Its output budget; None where nothing is known of its length.
        choices: The values that a field may have, for a server of one's own: a grammar holds a
            model to them.
    """

    schema: type[BaseModel]
    read: Callable[[object], Read[T]]
    partial: bool
    decision: Callable[[T], object] | None = None
    within: OutputBudget | None = None
    choices: Mapping[str, Sequence[str]] = field(default_factory=dict)


JUDGE_CHECK = "judge_check"
"""What calls go by that check a judge before it judges."""


@dataclass(frozen=True)
class Request(Generic[T]):
    """One question to one model; everything that can change the answer is in here.

    Attributes:
        model: A litellm model name.
        answer: The typed answer, or None for plain text.
        api_base: The endpoint, None for the provider's own.
        extra: What else the provider is sent, as `alps.llm.options` describes it.
        longest: Its output budget in tokens, for where `sampling` bounds no answer; None for none.
        repeat: Which of several independent draws this is; only part of the cache key.
        purpose: `generate`, `judge` or `judge_check`, for the ledger; the last waits for no batch.
        about: The record that this is about; only for the ledger.
        certain: Whether it is sure to be asked; an estimate counts others in its upper bound alone.
        likely: The answer that a dry run takes for the likeliest; not part of the cache key.
        structured: How a typed answer is asked for; None where the client is to find out.
        steps_down: Whether another mode may be tried where an endpoint refuses that one.
        plain: Whether its schema goes without lengths, which its endpoint refused.
        form: How its only message is sent, and what its answer is, where that is no chat; None for
            a chat.
    """

    model: str
    messages: tuple[Mapping[str, str], ...]
    answer: AnswerType[T] | None
    sampling: Mapping[str, Any] = field(default_factory=dict)
    api_base: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)
    longest: int | None = None
    repeat: int = 0
    purpose: str = "generate"
    about: str = ""
    certain: bool = True
    likely: Callable[[], T] | None = None
    structured: Structured | None = None
    steps_down: bool = False
    plain: bool = False
    form: "RequestForm | None" = None

    @property
    def decoding(self) -> dict[str, Any]:
        """The sampling parameters as they are sent, with the output budget."""
        bound = {} if self.longest is None else {"max_tokens": self.longest}
        return {**bound, **self.sampling}


Text = Annotated[str, Field(strict=True)]
Count = Annotated[int, Field(strict=True, ge=0, le=100_000_000)]
Cost = Annotated[float, Field(strict=True, ge=0, allow_inf_nan=False)]


@dataclass(frozen=True)
class Reply:
    """One HTTP answer of a model, as it came.

    `thought` is what the provider itself tells apart from the text. `strict` says whether the text
    is valid by the response model as it is; None where there is none. Counts of tokens are None
    where it told none that can be believed, and so is `cost`, in US dollars, where its price is not
    known. `served_model`, `fingerprint`, `request_id` and `service` are what the provider says it
    was answered by, by which build of it, under which number, and how (as `flex`).
    """

    text: Text | None
    finish_reason: Text | None = None
    refusal: Text | None = None
    prompt_tokens: Count | None = None
    completion_tokens: Count | None = None
    cost: Cost | None = None
    thought: Text | None = None
    strict: bool | None = None
    cached_tokens: Count | None = None
    cache_write_tokens: Count | None = None
    reasoning_tokens: Count | None = None
    served_model: Text | None = None
    fingerprint: Text | None = None
    request_id: Text | None = None
    service: Text | None = None


@dataclass(frozen=True)
class Completion(Generic[T]):
    """What a model answered in the end.

    `value` is set exactly when `outcome` is `ok`; `raw` is the last text heard, None where nothing
    was. `thought` is what the model thought before it answered: of `raw`, or given beside it.
    `strict` is that of the reply. `starved` tells that it broke off after thought had taken of its
    tokens. `cached` tells that nobody was asked: a reply was kept, or one is shared. `used` is what
    the replies took, None where none came.
    """

    outcome: Outcome
    value: T | None = None
    raw: str | None = None
    repaired: bool = False
    truncated: bool = False
    notes: tuple[str, ...] = ()
    error: str | None = None
    thought: str | None = None
    strict: bool | None = None
    starved: bool = field(default=False, compare=False)
    cached: bool = field(default=False, compare=False)
    used: UsedToAnswer | None = field(default=None, compare=False)


@dataclass(eq=False)
class TransportError(Exception):
    """An HTTP attempt that brought no answer.

    Attributes:
        transient: Whether the same request may go through later.
        status: The HTTP status, None where there was none; 408 where the answer took too long.
        unsent: Whether no connection came about, so that nobody can have answered.
        retry_after: Seconds the server asked to wait.
        refused: Whether the provider's content filter refused the request.
        too_long: Whether the request is longer than the model or the server takes.
        billed: Whether an answer of success began and could not be read: it is likely on the bill.
        fatal: What to end the run with, where no later call can go through either.
        shape_refused: Whether the form of a typed answer was refused, so that another may do.
    """

    message: str
    _: KW_ONLY
    transient: bool
    status: int | None = None
    unsent: bool = False
    retry_after: float | None = None
    refused: bool = False
    too_long: bool = False
    billed: bool = False
    fatal: AlpsError | None = None
    shape_refused: bool = False

    def __str__(self) -> str:
        # One that `replace` made has no arguments of its own
        return self.message

    @property
    def may_be_billed(self) -> bool:
        """Whether an attempt without a readable answer may be on the bill all the same."""
        return self.billed or (not self.unsent and self.status in (None, 408))


@dataclass(frozen=True)
class EndpointCalls:
    """A model at an endpoint, and what its requests keep to; nothing where its name is checked."""

    model: str
    api_base: str | None
    timeout: float = math.inf
    limiter: "Limiter | None" = None
    totals: "Totals | None" = None
    notice: Callable[[str], None] = print


class Sender(Protocol):
    """What an extension sends requests to one endpoint by; it keeps their time itself."""

    async def ready(self) -> None:
        """Wait until it can be asked."""

    async def __call__(self, request: Request[Any], messages: list[dict[str, str]]) -> Reply:
        """Make one request, as `alps.llm.provider.send` does."""

    async def aclose(self) -> None:
        """End what it started."""


class RequestForm(Protocol):
    """A way to ask a model that is no chat of ours; the text of its replies is its own."""

    @property
    def key(self) -> Mapping[str, Any]:
        """What it adds to the key of the cache."""

    @property
    def most(self) -> int | None:
        """The most tokens of an answer; None where only the model bounds it."""

    async def ask(
        self, request: Request[Any], message: str, options: Mapping[str, Any], exchange: "Exchange"
    ) -> Reply:
        """Make one request of litellm, which is given `options`, too.

        Raises:
            TransportError: If the reply is none; whatever else is raised says that none came.
        """

    def check(self, text: str) -> None:
        """Raise a ValueError for the text of a kept reply that is none of this form."""


class Completes(Protocol):
    """An object that answers requests: `alps.llm.client.Client` or a `Recorder`."""

    async def complete(self, request: Request[T]) -> Completion[T]:
        """Answer `request`."""


class Recorder:
    """Notes requests, and gives each the answer that it takes for the likeliest.

    Attributes:
        requests: What it was asked, in this order. What was asked after an answer was given hangs
            on that answer, so it is not `certain`.
    """

    def __init__(self) -> None:
        self.requests: list[Request[Any]] = []
        self._answered = False

    async def complete(self, request: Request[T]) -> Completion[T]:
        """Return the likeliest answer; a failure where the request knows none."""
        self.requests.append(replace(request, certain=not self._answered))
        # Requests that are made together must all be noted before one of them is answered.
        await asyncio.sleep(0)
        self._answered = True
        if request.likely is None:
            return Completion("empty", error="only noted")
        return Completion("ok", request.likely())


class Gathering(Protocol):
    """Where requests wait to be sent together."""

    @property
    def places(self) -> AbstractAsyncContextManager[None] | None:
        """What a record waits for before it is read; None where it need not."""

    def takes(self, request: Request[Any], key: str) -> bool:
        """Tell whether a request waits here."""

    def is_sent(self, key: str) -> bool:
        """Tell whether a request was sent before, by a command that was killed, say."""

    def note(self, messages: Sequence[dict[str, str]]) -> None:
        """Record the memory use of the current record's requests."""

    async def answered(
        self, request: Request[Any], messages: list[dict[str, str]], key: str
    ) -> Any:
        """Return the answer; None if a single request must be sent.

        Its `batch` is what it came in, as the provider calls it. Its `result` has why it was not
        answered, `lost`, which is empty where it was, and whether it is `billed`, None if unknown.
        """

    def is_billed(self, key: str, batch: str) -> bool:
        """Tell whether the ledger has the answer already."""

    async def read(
        self, request: Request[Any], messages: list[dict[str, str]], answered: Any
    ) -> Reply:
        """Return the reply of an answer.

        Raises:
            TransportError: If there is none.
        """

    def taken(self, answered: Any) -> None:
        """Forget an answer, which the ledger and the cache have."""

    async def aclose(self) -> None:
        """Give up what waits."""
