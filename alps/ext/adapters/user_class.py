"""Classes that the user wrote: imported by name and made once, with what they say of themselves."""

import inspect
import json
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from pydantic import BaseModel

from alps.errors import UsageError, closest
from alps.ext.adapters.user_code import end_of
from alps.llm.secrets import redact
from alps.own_code import import_own
from alps.systems.base import described


def instantiate(path: str, key: str, methods: tuple[str, ...]) -> Any:
    """Import and make `package.module:Class`; the working directory is searched, too.

    Args:
        path: What names it.
        key: The setting that does, as messages say it.
        methods: What it must have.

    Raises:
        UsageError: If the module, the class or a method is missing, or one of them raises.
    """
    module_name, _, class_name = path.partition(":")
    if not module_name or not class_name:
        raise UsageError(f"{key}: expected python:package.module:Class")
    module = _import(module_name, key)
    made = attribute(module, class_name, key)
    if not callable(made):
        classes = [name for name, value in vars(module).items() if inspect.isclass(value)]
        hint = closest(class_name, classes)
        raise UsageError(f"{key}: no class '{class_name}' in {module_name}{hint}")
    instance, error = end_of(made)
    if error is not None:
        raise UsageError(f"{key}: {class_name}() raised {described(error)}") from error
    for method in methods:
        if not callable(attribute(instance, method, key)):
            hint = closest(method, _public(instance))
            if type(instance).__module__ == "builtins":  # a function that returns a text, say
                hint = f" (it gives a {type(instance).__name__})"
            raise UsageError(f"{key}: {class_name} has no method '{method}'{hint}")
    return instance


def attribute(owner: Any, name: str, key: str, read: Callable[[Any], Any] | None = None) -> Any:
    """Return an attribute of a module, or an object, of the user's; None where there is none.

    Args:
        owner: The module, or the object.
        name: The attribute.
        key: The setting that names it, as messages say it.
        read: What is made of the value; the value itself if None.

    Raises:
        UsageError: If looking at it raises: a property or a `__getattr__` may do anything.
    """

    def look() -> Any:
        value = getattr(owner, name, None)
        return value if read is None else read(value)

    value, error = end_of(look)
    if isinstance(error, KeyboardInterrupt | UsageError):
        raise error
    if error is not None:
        raise UsageError(f"{key}: its '{name}' raised {described(error)}") from error
    return value


def _public(instance: Any) -> list[str]:
    names, error = end_of(lambda: [name for name in dir(instance) if not name.startswith("_")])
    return [] if error is not None else names


def _import(name: str, key: str) -> ModuleType:
    try:
        return import_own(name)
    except (Exception, SystemExit) as error:
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing is not None and f"{name}.".startswith(f"{missing}."):
            raise UsageError(f"{key}: no module '{missing}'") from error
        raise UsageError(f"{key}: importing {name} raised {described(error)}") from error


def declared_settings(instance: Any, key: str) -> dict[str, Any]:
    """Return the object's `settings` as plain JSON; they are hashed into the manifest.

    Raises:
        UsageError: If they are none.
    """

    def read(declared: Any) -> dict[str, Any]:
        given = declared or {}
        if not isinstance(given, Mapping):
            raise UsageError(f"{key}: its settings must be a dict, got {type(given).__name__}")
        return dict(given)

    declared = attribute(instance, "settings", key, read)
    try:
        as_json = json.loads(json.dumps(declared, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"{key}: its settings must be plain JSON ({error})") from error
    redacted: dict[str, Any] = plain(as_json, redact)
    return redacted


def plain(node: Any, change: Callable[[str], str] = str) -> Any:
    """Turn models, mappings and sequences, however deep, into what JSON has; `change` its texts."""
    if isinstance(node, BaseModel):
        node = node.model_dump()
    if isinstance(node, Mapping):
        return {str(name): plain(value, change) for name, value in node.items()}
    if isinstance(node, (list, tuple)):
        return [plain(value, change) for value in node]
    return change(node) if isinstance(node, str) else node
