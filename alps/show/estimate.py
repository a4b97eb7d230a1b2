"""Table of what a run would ask and cost, before anything is asked."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain

from alps.run.estimate import Stage, add_known
from alps.show.table import Line, Part, Table, figures, named, printed, row_of, terminal

_STAGES = {"generate": "answers", "judge": "verdicts"}
"""What a stage asks for, where that is not its name."""


def show_estimate(
    stages: Sequence[Stage], *, max_cost: float | None, max_total_tokens: int | None
) -> None:
    """Print what a run would ask, and what it would cost."""
    console, total = terminal(), total_of(stages)
    rows = []
    for stage in stages:
        rows.append(row_of(f"{stage.model}, {_STAGES.get(stage.name, stage.name)}", *_cells(stage)))
    if len(stages) > 1:
        rows[-1] = rows[-1]._replace(ends=True)
        rows.append(row_of("total", *_cells(total), style="bold"))
    answer = Line(f"{_answer(total)}; no request sent yet", "bold")
    notes = _estimate_notes(stages, max_cost=max_cost, max_total_tokens=max_total_tokens)
    columns = [named(wraps="fold"), *figures("calls", "tokens in", "likely", "range")]
    parts: list[Part] = [answer, Table("", columns, rows, list(map(Line, notes)))]
    for part in printed(parts, console.width):
        console.print(part)


def _answer(total: Stage) -> str:
    if not total.calls and not total.unknown:
        return "Costs nothing: no LLM is called"
    more = " or more" if total.unknown else ""
    if total.likely_cost is None or not total.calls:
        return "Cost unknown"
    most = _dollars(total.most_cost)
    return f"Likely cost {_dollars(total.likely_cost)}{more}, at most {most}{more}"


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
            likely_tokens=total.likely_tokens + stage.likely_tokens,
            most_tokens=add_known(total.most_tokens, stage.most_tokens),
            least_cost=add_known(total.least_cost, stage.least_cost),
            most_cost=add_known(total.most_cost, stage.most_cost),
            likely_cost=add_known(total.likely_cost, stage.likely_cost),
        )
    return total


def _cells(stage: Stage) -> tuple[str, ...]:
    if stage.unknown and not stage.calls:
        return "?", "?", "?", "?"
    calls = f"{stage.calls:,}" if stage.exact else f"up to {stage.calls:,}"
    if not stage.calls:
        # A stage that asks nothing costs nothing: $0 would read as a price.
        return calls, "", "", ""
    more = " + ?" if stage.unknown else ""
    bounds = "unknown"
    if stage.least_cost is not None and stage.most_cost is not None:
        bounds = f"{_dollars(stage.least_cost)} – {_dollars(stage.most_cost)}"
    tokens = f"{stage.likely_tokens:,}"
    return f"{calls}{more}", tokens, f"{_dollars(stage.likely_cost)}{more}", bounds


def _estimate_notes(
    stages: Sequence[Stage], *, max_cost: float | None, max_total_tokens: int | None
) -> list[str]:
    notes = []
    if kept := sum(stage.cached for stage in stages):
        notes.append(f"Free replies from the cache: {kept:,}.")
    notes.append(
        "likely: the cost if every reply is as long as the gold answer. range: from the cost if "
        "all replies are empty to the cost if all have the maximum length."
    )
    notes += dict.fromkeys(chain.from_iterable(map(_unknown_bounds, stages)))
    # Where the bound of a stage is unknown, a cap can't be told to cover it: nothing is said.
    total = total_of(stages)
    cost, tokens = (None, None) if total.unknown else (total.most_cost, total.most_tokens)
    if max_cost is not None and cost is not None:
        notes.append(f"max_cost={max_cost:g} {_covers(cost <= max_cost)}")
    if max_total_tokens is not None and tokens is not None:
        notes.append(f"max_total_tokens={max_total_tokens:,} {_covers(tokens <= max_total_tokens)}")
    if total.likely_cost:
        advice = _advice(stages, total.likely_cost, limited=max_cost is not None)
        notes += [advice] if advice else []
    return notes


def _advice(stages: Sequence[Stage], likely: float, *, limited: bool) -> str:
    advice = []
    baselines = sum(stage.likely_cost or 0.0 for stage in stages if stage.name == "baselines")
    if baselines:
        less = _dollars(likely - baselines)
        advice.append(f"Without baselines (baseline_records=0), the likely cost is {less}.")
    if not limited:
        advice.append(f"Set a limit: max_cost={float(f'{2 * likely:.2g}'):g}")
    return " ".join(advice)


def _unknown_bounds(stage: Stage) -> Iterator[str]:
    if stage.unknown and stage.name == "generate":
        yield f"{stage.model}: calls by this system are not included; they can't be counted."
    elif stage.unknown:
        yield f"{stage.model}: calls by the memory system are not included; max_cost= limits them."
    # Taken as free, a model of no known price let max_cost= never stop a run.
    if stage.unpriced:
        yield f"{stage.model}: the price is unknown; only max_total_tokens= limits the run."
    if stage.calls and stage.most_tokens is None:
        bound = "max_tokens=" if stage.name == "generate" else "judge_max_tokens="
        yield f"{stage.model}: the output limit is unknown; set one with {bound}."


def _covers(covered: bool) -> str:
    if covered:
        return "covers the upper bound."
    return "is below the upper bound, so the run may stop at this limit."


def _dollars(cost: float | None) -> str:
    if cost is None:
        return "unknown"
    return f"${cost:.2f}" if cost >= 0.095 or not cost else f"${cost:.2g}"
