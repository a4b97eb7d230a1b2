"""Reply models whose tolerance is in their validators: off where a reply is validated strictly, on
where it is read.

Whether a reply was valid as it came is then known, and one model says what both take.
"""

from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    ValidationError,
    ValidationInfo,
    model_validator,
)
from pydantic_core import PydanticCustomError

ModelT = TypeVar("ModelT", bound=BaseModel)
_TOLERANT = {"tolerant": True}


class ReplyModel(BaseModel):
    """A reply that is forgiven unknown keys, and keys that are missing are taken for null, where it
    is read.
    """

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _known_keys(cls, node: Any, info: ValidationInfo) -> Any:
        if info.context is not _TOLERANT:
            return node
        if not isinstance(node, dict):
            refuse("expected a JSON object")
        return {name: node.get(name) for name in cls.model_fields}


def forgiving(mend: Callable[[Any], Any]) -> BeforeValidator:
    """Return the validator that mends a value where a reply is read tolerantly.

    `mend` may `refuse` it.
    """

    def validate(value: Any, info: ValidationInfo) -> Any:
        return mend(value) if info.context is _TOLERANT else value

    return BeforeValidator(validate)


def refuse(message: str) -> NoReturn:
    """Refuse a value with a sentence for the model."""
    raise PydanticCustomError("reply", "{message}", {"message": message})


def read_tolerantly(model: type[ModelT], node: object) -> ModelT:
    """Read parsed JSON as `model`.

    Raises:
        ValueError: If it can't be one, with the first reason, and where.
    """
    try:
        return model.model_validate(node, context=_TOLERANT)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = " ".join(str(part + 1 if isinstance(part, int) else part) for part in first["loc"])
        told = (
            first["msg"]
            if first["type"] == "reply"
            else f"is {first['input']!r:.80}: {first['msg']}"
        )
        raise ValueError(f"{where} {told}".strip()) from error
