"""Messages of workers to the owner of a run, checked: who has the token may say no nonsense.

A message that can't be right ends the connection, as that of a worker that was lost: what it held
counts as paid.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from alps.llm.budget import Wanted
from alps.llm.ledger import Call

_Count = Annotated[int, Field(ge=0, le=10**12)]
_Number = Annotated[float, Field(ge=0, le=1e12, allow_inf_nan=False)]
_Name = Annotated[str, Field(max_length=2_000)]
Where = tuple[_Name | None, _Name]
"""An endpoint: its address, where it is not the provider's, and the provider."""


class _Message(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Live(_Message):
    """The worker is there."""

    do: Literal["live"]
    id: int


class Record(_Message):
    """A record is done."""

    model_config = ConfigDict(frozen=True, extra="allow")

    do: Literal["record"]
    shard: _Name
    scored: bool
    cost: _Number
    unpriced: _Count


class Leave(_Message):
    """A place is given back."""

    do: Literal["leave"]
    at: Where


class Told(_Message):
    """What a server says is left of its limit."""

    do: Literal["told"]
    at: Where
    remaining: _Number
    seconds: _Number


class Sent(_Message):
    """A request is sent, by the clock of the worker."""

    do: Literal["sent"]
    at: Where
    sent: _Number


class How(_Message):
    """How a request ended."""

    seconds: _Number | None = None
    retry_after: _Number | None = None
    hung: bool | None = None


class Ended(_Message):
    """A request ended; `sent` is what its beginning was called, if it was told of."""

    do: Literal["interrupted", "answered", "succeeded", "throttled", "failed"]
    at: Where
    sent: float
    how: How


class Enter(_Message):
    """A place is asked for."""

    do: Literal["enter"]
    id: int
    at: Where
    most: Annotated[int, Field(ge=1)] | None
    patience: _Number
    per_minute: Annotated[int, Field(ge=1)] | None


class Pause(_Message):
    """The end of a pause is waited for."""

    do: Literal["pause"]
    id: int
    at: Where


class Size(_Message):
    """A call that is to be made."""

    model: _Name
    purpose: _Name
    size: Annotated[int, Field(ge=1, le=10**12)]
    most: _Count | None
    service: _Name | None = None
    sent: bool = False
    in_full: bool = False

    def wanted(self) -> Wanted:
        """Return it as a budget takes it."""
        return Wanted(**self.model_dump())


class Reserve(_Message):
    """A part of the budget is asked for."""

    do: Literal["reserve"]
    id: int
    call: Size


class Used(_Message):
    """What a call used, as far as it told."""

    prompt_tokens: _Count | None = None
    completion_tokens: _Count | None = None
    cost: _Number | None = None

    def call(self) -> Call:
        """Return a call with what it used; the rest of it a budget does not look at."""
        return Call(
            key="",
            purpose="",
            about="",
            model="",
            ask=0,
            attempt=0,
            outcome="",
            **self.model_dump(exclude_unset=True),
        )


class Settle(_Message):
    """What was reserved is replaced by what was used."""

    do: Literal["settle"]
    id: int
    ticket: int
    used: Used
    billed: bool | None


Question = Live | Enter | Pause | Reserve | Settle
News = Leave | Told | Sent | Ended
_READER: TypeAdapter[Any] = TypeAdapter(
    Annotated[Question | News | Record, Field(discriminator="do")]
)


def read_message(message: object) -> Question | News | Record:
    """Return a message of a worker.

    Raises:
        ValueError: If it can't be right.
    """
    read: Question | News | Record = _READER.validate_python(message)
    return read
