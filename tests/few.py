"""Cases of which every run of the suite takes some, and a release all."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import pytest


def few(cases: Iterable[Any] | Mapping[str, Any], plain: int | Collection[object] = 1) -> list[Any]:
    """Return the cases of a parametrised test, those that can wait marked `release`.

    Args:
        cases: Arguments, tuples of them, or a mapping of ids to either.
        plain: How many of the first ones every run of the suite takes, or their places or ids.
    """
    named = cases.items() if isinstance(cases, Mapping) else enumerate(cases)
    kept = range(plain) if isinstance(plain, int) else plain
    marked = []
    for place, (name, case) in enumerate(named):
        values = case if isinstance(case, tuple) else (case,)
        marks = () if place in kept or name in kept else (pytest.mark.release,)
        given = name if isinstance(cases, Mapping) else None
        marked.append(pytest.param(*values, id=given, marks=marks))
    return marked
