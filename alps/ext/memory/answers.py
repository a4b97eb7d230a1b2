"""Answers of memory systems, read by type: whatever brings an answer has it read here.

An answer that is not of the type is a failure of the stage that asked for it. Nothing else of it
reaches the suite, so no odd answer ends a run.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import date
from numbers import Integral, Real
from typing import Annotated, Any, TypeVar
from uuid import UUID

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

from alps.ext.memory.protocol import LONGEST_ID, Hit, Settled
from alps.sizes import LARGEST_TEXT, check_size
from alps.systems.base import beginning

MOST_HITS = 100_000
"""Hits in one answer: a system that lists all memories of a user has fewer."""
_LARGEST_NUMBER = 2**63

ModelT = TypeVar("ModelT", bound=BaseModel)


def shaped(model: type[ModelT], value: Any, where: str) -> ModelT:
    """Read a part of an answer that has a form.

    Raises:
        ValueError: If it has not; names the field, which is `where` or within it.
    """
    try:
        return model.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(map(str, (where, *first["loc"])))
        message = str(first["msg"]).removeprefix("Value error, ")
        raise ValueError(f"{field}: {message}") from error


def _text(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError("expected a non-empty text")
    # Halves of characters, which broken escapes bring in, can be neither sent nor written.
    whole = value.encode(errors="replace")
    check_size(len(whole), LARGEST_TEXT, "the text")
    return whole.decode()


def _name(value: object) -> str:
    """Read an id or a time, which may be a number; or, from a class, an object of its own."""
    if isinstance(value, bool) or not isinstance(value, str | Real | UUID | date):
        raise ValueError(f"expected a text or a number, got {beginning(value)}")
    text = str(number(value) if isinstance(value, Real) else value)
    if len(text) > LONGEST_ID:
        raise ValueError(f"{len(text):,} characters; return one of at most {LONGEST_ID}")
    return text.encode(errors="replace").decode()


def number(value: object) -> int | float:
    """Return a number, one of numpy among them, as Python's own.

    Raises:
        ValueError: If it is none, infinite, or beyond 2^63.
    """
    if isinstance(value, bool) or not isinstance(value, Real):
        raise ValueError(f"expected a number, got {beginning(value)}")
    read: Any = value
    if not -_LARGEST_NUMBER < read < _LARGEST_NUMBER:  # nan, too
        raise ValueError("expected a finite number below 2^63")
    return int(read) if isinstance(value, Integral) else float(read)


def _names(value: object) -> tuple[str, ...]:
    if value is None:
        return ()
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Sequence):
        raise ValueError(f"expected a list, got {beginning(value)}")
    return tuple(map(_name, value))


_Name = Annotated[str, BeforeValidator(_name)]


class _Found(BaseModel):
    """One hit as a system gives it; what else it says of it is not read."""

    model_config = ConfigDict(extra="ignore")

    text: Annotated[str, BeforeValidator(_text)]
    id: _Name
    score: Annotated[float, BeforeValidator(number)] | None = None
    created_at: _Name | None = None
    sources: Annotated[tuple[str, ...], BeforeValidator(_names)] = ()


def read_hits(value: Any) -> list[Hit]:
    """Read what a search returned: hits, or rows with `text` (or `content`) and an `id`.

    Raises:
        ValueError: If it is something else; names the field.
    """
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Sequence):
        raise ValueError(f"expected a list of hits, got {beginning(value)}")
    if len(value) > MOST_HITS:
        raise ValueError(f"{len(value):,} hits; at most {MOST_HITS:,} are allowed")
    return [_read_hit(row, f"hits[{number}]") for number, row in enumerate(value)]


def _read_hit(row: Any, where: str) -> Hit:
    if isinstance(row, Hit):
        row = vars(row)
    if not isinstance(row, Mapping):
        raise ValueError(f"{where}: expected an object, got {beginning(row)}")
    fields = {name: row[name] for name in _Found.model_fields if name in row}
    fields.setdefault("text", row.get("content"))
    if fields.get("id") is None:
        raise ValueError(f"{where}.id: missing")
    return Hit(**vars(shaped(_Found, fields, where)))


def _read_settled(value: Any) -> Settled:
    if not isinstance(value, str) or value not in ("ready", "pending", "failed"):
        raise ValueError(f"expected 'ready', 'pending' or 'failed', got {beginning(value)}")
    return value  # type: ignore[return-value]


_READERS: Mapping[str, Callable[[Any], Any]] = {
    "search": read_hits,
    "memories": read_hits,
    "settle": _read_settled,
    "size": number,
}


def read_answer(method: str, value: Any) -> Any:
    """Return the parsed result of a call of `method`; None if its result is unused.

    Raises:
        ValueError: If it is not of the type; names the field.
    """
    read = _READERS.get(method)
    try:
        return None if read is None else read(value)
    except ValueError:
        raise
    except Exception as error:  # an object of the user's own may raise whenever it is looked at
        raise ValueError(f"its answer can't be read: {type(error).__name__}") from error
