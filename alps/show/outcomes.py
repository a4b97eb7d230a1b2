"""Record outcomes: how many records of a track were scored, failed or could not be scored."""

from collections import Counter
from dataclasses import dataclass

from alps.schema import FAILURES, UNHEARD
from alps.show import charts
from alps.show.formatting import MEANINGS


@dataclass(frozen=True)
class AccountRow(charts.Part):
    """What became of some of the records."""

    meaning: str


def account(states: Counter[str]) -> list[AccountRow]:
    """Count what became of the records, by kind; every record is in exactly one row.

    Args:
        states: How many came to what `state_of` says.
    """
    repaired = "repaired before it could be read, then scored"
    rows = [
        AccountRow("OK", "ok", states["ok"], "answered, judged and scored"),
        AccountRow("repaired", "repaired", states["repaired"], repaired),
    ]
    for kind in FAILURES:
        meaning = f"{MEANINGS[kind]}: scored as the worst"
        rows.append(AccountRow(kind, f"failed {kind}", states[kind], meaning))
    for kind in UNHEARD:
        rows.append(AccountRow(kind, "unscored", states[kind], f"{MEANINGS[kind]}: unscored"))
    unrated = f"{MEANINGS['unrated']}: unscored"
    rows.append(AccountRow("not rated", "unscored", states["unrated"], unrated))
    for state, count in sorted(states.items()):
        if state.startswith("judge:"):
            kind = state.removeprefix("judge:")
            name, whose = f"judge {kind}", "of the judge: "
            if kind == "no_gold":
                name, whose = "no gold", ""
            meaning = f"{whose}{MEANINGS.get(kind, kind)}: unscored"
            rows.append(AccountRow(name, "unscored", count, meaning))
    return [row for row in rows if row.count]
