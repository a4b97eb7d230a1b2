"""Fields of the files of a set, each of the type that its reader expects, or named in a fault."""

from collections.abc import Mapping
from typing import Any, get_args

from alps.errors import shown
from alps.ext.histories.model import Role

ROLES = get_args(Role)


def field(node: Any, name: str) -> Any:
    """Return a field of an object.

    Raises:
        KeyError: If it is not there.
        ValueError: If there is no object.
    """
    if not isinstance(node, Mapping):
        raise ValueError(f"expected an object with {name}, got {shown(node)}")
    return node[name]


def text(node: Any, name: str) -> str:
    """Return a text; numbers are written out, as years and counts are in some files.

    Raises:
        KeyError: If it is not there.
        ValueError: If it is neither.
    """
    return as_text(field(node, name), name)


def as_text(value: Any, name: str) -> str:
    """Return a value as a text; see `text`."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(f"{name}: expected a text, got {shown(value)}")
    return str(value)


def role(node: Any) -> Role:
    """Return who says a message.

    Raises:
        KeyError: If nothing says so.
        ValueError: If it is nobody that a conversation has.
    """
    found: Any = text(node, "role")
    if found not in ROLES:
        raise ValueError(f"role: {shown(found)} is none of {', '.join(ROLES)}")
    given: Role = found
    return given


def listed(node: Any, name: str) -> list[Any]:
    """Return a list.

    Raises:
        KeyError: If it is not there.
        ValueError: If it is no list.
    """
    return as_list(field(node, name), name)


def maybe_listed(node: Any, name: str) -> list[Any]:
    """Return a list, nothing where there is none; see `listed`."""
    found = field(node, name) if isinstance(node, Mapping) and name in node else None
    return [] if found is None else as_list(found, name)


def as_list(value: Any, name: str) -> list[Any]:
    """Return a value that is a list; see `listed`."""
    if not isinstance(value, list):
        raise ValueError(f"{name}: expected a list, got {shown(value)}")
    return value
