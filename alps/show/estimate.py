"""Table of what a run would ask and cost, before anything is asked."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from alps.run.estimate import Stage
from alps.show.formatting import counted
from alps.show.table import Line, Table, figures, named, printed, row_of, terminal

_TITLE = "What this run would ask, counted without a request"
Number = TypeVar("Number", int, float)


def show_estimate(
    stages: Sequence[Stage], *, max_cost: float | None, max_total_tokens: int | None
) -> None:
    """Print what a run would ask and cost."""
    console = terminal()
    rows = [row_of(stage.name, *_cells(stage)) for stage in stages]
    if len(stages) > 1:
        rows[-1] = rows[-1]._replace(ends=True)
        rows.append(row_of("total", *_cells(total_of(stages)), style="bold"))
    notes = _estimate_notes(stages, max_cost=max_cost, max_total_tokens=max_total_tokens)
    columns = [named("stage"), *figures("calls", "tokens", "likely cost", "range")]
    for part in printed([Table(_TITLE, columns, rows, list(map(Line, notes)))], console.width):
        console.print(part)


def total_of(stages: Sequence[Stage]) -> Stage:
    """Return what all stages ask together."""
    total = Stage("total", "")
    for stage in stages:
        total = replace(
            total,
            calls=total.calls + stage.calls,
            exact=total.exact and stage.exact and not stage.unknown,
            unknown=total.unknown or stage.unknown,
            least_tokens=total.least_tokens + stage.least_tokens,
            most_tokens=_sum(total.most_tokens, stage.most_tokens),
            least_cost=_sum(total.least_cost, stage.least_cost),
            most_cost=_sum(total.most_cost, stage.most_cost),
            likely_cost=_sum(total.likely_cost, stage.likely_cost),
        )
    return total


def _sum(one: Number | None, other: Number | None) -> Number | None:
    return None if one is None or other is None else one + other


def _cells(stage: Stage) -> tuple[str, ...]:
    if stage.unknown and not stage.calls:
        return "?", "?", "?", "?"
    calls = f"{stage.calls:,}" if stage.exact else f"up to {stage.calls:,}"
    if not stage.calls:
        # A stage that asks nothing costs nothing: $0.0000 would read as a price.
        return calls, "", "", ""
    more = " + ?" if stage.unknown else ""
    most = "?" if stage.most_tokens is None else f"{stage.most_tokens:,}"
    tokens = f"{stage.least_tokens:,} – {most}"
    costs = f"{_dollars(stage.least_cost)} – {_dollars(stage.most_cost)}"
    return f"{calls}{more}", tokens, f"{_dollars(stage.likely_cost)}{more}", costs


def _estimate_notes(
    stages: Sequence[Stage], *, max_cost: float | None, max_total_tokens: int | None
) -> list[str]:
    notes = [f"{stage.name}: {stage.model}{_kept(stage)}" for stage in stages]
    notes.append(
        "Likely: 4 bytes a token, answers as long as the gold (200 tokens where that is unknown), "
        "verdicts of 120 tokens, and every call made. A model that reasons writes more."
    )
    notes.append(
        "Range: the lower bound takes empty answers, the upper the longest that may be written; "
        "re-asks and retries come on top."
    )
    bounds = (bound for stage in stages for bound in _unknown_bounds(stage))
    notes += dict.fromkeys(bounds)
    # Where the bound of a stage is unknown, a cap can't be told to cover it: nothing is said.
    total = total_of(stages)
    cost, tokens = (None, None) if total.unknown else (total.most_cost, total.most_tokens)
    if max_cost is not None and cost is not None:
        notes.append(f"max_cost={max_cost:g} {_covers(cost <= max_cost)}")
    if max_total_tokens is not None and tokens is not None:
        notes.append(f"max_total_tokens={max_total_tokens:,} {_covers(tokens <= max_total_tokens)}")
    return notes


def _unknown_bounds(stage: Stage) -> Iterator[str]:
    if stage.unknown:
        yield f"{stage.model}: how often a memory system asks it is unknown; max_cost= counts it."
    # Taken as free, a model of no known price let max_cost= never stop a run.
    if stage.unpriced:
        yield f"{stage.model}: price unknown; only max_total_tokens= can stop it."
    if stage.calls and stage.most_tokens is None:
        bound = "max_tokens=" if stage.name == "generate" else "judge_max_tokens="
        yield f"{stage.model}: how much it can answer is unknown; {bound} bounds it."


def _covers(covered: bool) -> str:
    if covered:
        return "covers the upper bound."
    passing = "passing it by at most what is in flight"
    return f"does not cover the upper bound; a run ends when it is spent, {passing}."


def _kept(stage: Stage) -> str:
    return f" ({counted(stage.cached, 'answer')} in the reply cache)" if stage.cached else ""


def _dollars(cost: float | None) -> str:
    return "–" if cost is None else f"${cost:.4f}"
