"""Cases of which every run of the suite takes the first, and a release all."""

from collections.abc import Iterable, Mapping
from typing import Any

import pytest


def few(cases: Iterable[Any] | Mapping[str, Any], plain: int = 1) -> list[Any]:
    """Return the cases of a parametrised test, those after the first ones marked `release`.

    Args:
        cases: Arguments, tuples of them, or a mapping of ids to either.
        plain: How many of them every run of the suite takes.
    """
    named = cases.items() if isinstance(cases, Mapping) else [(None, case) for case in cases]
    marked = []
    for place, (name, case) in enumerate(named):
        values = case if isinstance(case, tuple) else (case,)
        marks = () if place < plain else (pytest.mark.release,)
        marked.append(pytest.param(*values, id=name, marks=marks))
    return marked
