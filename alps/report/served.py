"""What answered the calls of a run, as the providers said, in short lines.

More than one is a change that is named.
"""

from collections.abc import Iterator, Mapping
from typing import Any

_ROLES = {"generate": "the answers", "judge": "the verdicts"}
_MOST_NAMES = 4


def price_lines(calls: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line on the models whose calls have no cost."""
    if names := calls.get("without_price"):
        yield f"No cost is known of calls to {_listed(names)}: a price file can tell it (ALPS_PRICES)."


def served_lines(summary: Mapping[str, Any]) -> Iterator[str]:
    """Yield what gave the answers and the verdicts, and whether that changed while they were given."""
    for purpose, rows in summary.get("served", {}).items():
        role = _ROLES.get(purpose, purpose)
        models = sorted({row["model"] for row in rows if row["model"]})
        builds = sorted({row["fingerprint"] for row in rows if row["fingerprint"]})
        if len(models) > 1:
            yield f"Warning: {role} are of more than one model: {_listed(models)}."
        elif models:
            yield f"Served for {role}: {models[0]}{f', build {builds[0]}' if len(builds) == 1 else ''}."
        if len(builds) > 1:
            yield f"Warning: {role} are of {len(builds)} builds of the model: {_listed(builds)}."
    for change in summary.get("calibrated_otherwise", ()):
        yield f"Warning: the model of the judge changed after its calibration: {change}."


def _listed(names: list[str]) -> str:
    more = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")
