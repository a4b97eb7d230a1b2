"""Numbers, intervals, counts, names and strangers' text, as they are written for people.

So are caveats of scores: below a trivial baseline, or by an unchecked judge.
"""

import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from alps.judges.admission import DRAWN, is_admitted
from alps.judges.embedded import is_embedded_judge
from alps.rows import AuditSummary, Calls, Figure, RubricCheck, ServedBy, Summary, TrackSummary
from alps.tasks import Metric
from alps.tasks.registry import track_title

if TYPE_CHECKING:
    from alps.run.opened import RunFolder

GOLD_ACTIONS = ("retain", "add", "modify", "delete", "none")
PREDICTED_ACTIONS = (*GOLD_ACTIONS, "failed")
"""What becomes of a memory in an update, in the order of tables and charts."""
MEANINGS = {
    "transport": "no response (API error): network, server or rate limit",
    "budget": "not sent: the run's budget is spent",
    "refused": "the model, or its provider, declined to answer",
    "too_long": "prompt longer than the limit of the model or its server",
    "truncated": "cut off before a complete answer",
    "unparsable": "not JSON, even after repairs",
    "invalid": "JSON, but not in the requested form",
    "empty": "empty text (an empty list is a valid answer)",
    "no_gold": "the gold answer is withheld",
    "unrated": "answered, but the judge cannot rate answers",
}
"""What each kind of failure means, in words."""
BELOW_MARK = "↓"
"""What marks a row of a table that is below a trivial baseline."""
NOT_CHECKED = "not checked"
"""What scores are marked with whose judge answered no known items."""
_DIGITS = 3


def letter_of(place: int) -> str:
    """Return the letter that names a run, by its place from 0: A … Z, then AA, AB, …."""
    return (letter_of(place // 26 - 1) if place >= 26 else "") + chr(ord("A") + place % 26)


def interval(score: Figure | Mapping[str, Any]) -> str:
    """Return `[.123, .456]`, or `–` without an interval."""
    if isinstance(score, Mapping):
        low, high = score["low"], score["high"]
    else:
        low, high = score.low, score.high
    return "–" if low is None or high is None else f"[{number(low)}, {number(high)}]"


def number(value: float | None) -> str:
    """Return three decimals without the leading zero, or `–`."""
    if value is None:
        return "–"
    text = f"{value:.3f}"
    # What rounds to nothing has no sign: -.000 would read as a loss.
    if text.strip("-0.") == "":
        return ".000"
    return text.replace("0.", ".", 1) if abs(value) < 1 else text


def p_value(value: float | None) -> str:
    """Return a p as tables show it."""
    # Three decimals would show a p of .000, which none is.
    return "<.001" if value is not None and value < 0.001 else number(value)


def signed(value: float | None) -> str:
    """Return `number` with its sign, except for what rounds to nothing."""
    # What is below half of the last digit is written as .000, and +.000 would be a gain.
    return f"+{number(value)}" if value is not None and value >= 0.0005 else number(value)


def tokens(mean: float | None) -> str:
    """Return a mean number of tokens, or `–`."""
    return "–" if mean is None else f"{mean:,.0f}"


def seconds(took: float | None) -> str:
    """Return seconds with three digits that count, or `–`."""
    return "–" if took is None else f"{took:.3g}" if took >= 0.001 else f"{took:.4f}"


def duration(took: float) -> str:
    """Return seconds as people say them: `5 ms`, `2.8 s`, `3 min 5 s`, `2 h 10 min`."""
    if took < 0.0995:
        return f"{1000 * took:.2g} ms"
    if took < 59.95:
        return f"{took:.1f} s"
    minutes, rest = divmod(round(took), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def dollars(cost: float | None) -> str:
    """Return US dollars with two digits that count, or `–`; what costs nothing is `$0`."""
    return "–" if cost is None else f"${cost:.2g}"


def counted(count: int, one: str, several: str = "") -> str:
    """Return `1 record` or `2 records`; `several` is the plural where it is not made by an s."""
    return f"{count:,} {one if count == 1 else several or f'{one}s'}"


def spent(calls: Calls) -> str:
    """Return the sentence on calls, tokens and cost."""
    cost = "–" if calls.cost is None else f"${calls.cost:.4f}"
    kept = ""
    # Providers bill these lower: without them the cost does not follow from the tokens.
    if calls.cached_tokens:
        share = calls.cached_tokens / calls.prompt_tokens
        kept = f" ({share:.0%} from the provider's cache)"
    tokens = f"{calls.prompt_tokens:,} tokens in{kept}, {calls.completion_tokens:,} out"
    asked = f"{counted(calls.http, 'call')} ({calls.cached:,} more from the cache)"
    return f"{asked}, {tokens}, cost {cost}."


_BIDI_OVERRIDES = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def visible(text: str) -> str:
    """Make `text` safe to show in a terminal, which it must not steer, and on a page.

    Control characters become pictures of themselves, marks that reorder text are dropped.
    """
    text = text.replace("\r\n", "\n")
    # Most text is, and a page of records holds a lot of it.
    if text.isprintable():
        return text
    return "".join(map(_visible_character, text))


def folded_away(count: int, what: str) -> str:
    """Say that `count` of `what` (in the plural) are not shown here."""
    return f"… {count:,} more {what if count != 1 else what.removesuffix('s')}"


def _visible_character(character: str) -> str:
    if character in "\n\t" or character.isprintable():
        return character
    if character in _BIDI_OVERRIDES:
        return ""
    code = ord(character)
    # Unicode has a picture of each control character of ASCII, in the same order.
    if code < 32 or code == 127:
        return chr(0x2400 + (code if code < 32 else 33))
    return "\ufffd" if unicodedata.category(character) in ("Cc", "Cs") else character


MORE_THAN_ONE = "Warning: "
"""How a line begins that says that the model changed."""
_ROLES = {"generate": "the answers", "judge": "the verdicts"}
_MOST_NAMES = 4
NO_COUNTS = "some replies reported no token counts"


def price_lines(calls: Calls) -> Iterator[str]:
    """Yield a line on why the cost of calls is unknown."""
    if calls.without_price:
        models = _listed(calls.without_price)
        yield f"Cost unknown for calls to {models}; set prices with ALPS_PRICES=FILE."
    elif calls.cost is None:
        yield f"Cost unknown: {NO_COUNTS}."


def served_lines(
    served: Mapping[str, Sequence[ServedBy]], changes: Sequence[str] = ()
) -> Iterator[str]:
    """Yield which model answered, in lines; a change during the run is a warning.

    Args:
        served: What answered, by the purpose of the calls.
        changes: Where another model judged than in the calibration.
    """
    # An alias of a provider may mean another model tomorrow, and even within one run.
    for purpose, rows in served.items():
        yield from _served_lines(_ROLES.get(purpose, purpose), rows)
    for change in changes:
        yield f"{MORE_THAN_ONE}the judge's model differs from the calibrated model: {change}."


def _served_lines(role: str, rows: Sequence[ServedBy]) -> Iterator[str]:
    models = sorted({row.model for row in rows if row.model})
    builds = sorted({row.fingerprint for row in rows if row.fingerprint})
    if len(models) > 1:
        yield f"{MORE_THAN_ONE}{role} come from more than one model: {_listed(models)}."
    elif models:
        build = f", build {builds[0]}" if len(builds) == 1 else ""
        yield f"Model that served {role}: {models[0]}{build}."
    if len(builds) > 1:
        yield f"{MORE_THAN_ONE}{role} come from {len(builds)} model builds: {_listed(builds)}."


def _listed(names: list[str]) -> str:
    more = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def task_title(track: str, found: TrackSummary) -> str:
    """Return the name of a track's task: `extraction`, `retrieval@100`, `PersonaMem 32k`."""
    size = (found.model_extra or {}).get("size")
    return track_title(track, size)


def metric_title(metric: Metric) -> str:
    """Return the short name of a metric: `F1`, `joint score`."""
    return metric.title.strip().partition(",")[0]


def task_and_metric(track: str, found: TrackSummary, metric: Metric) -> str:
    """Return both names, or one where it says both: `extraction, F1`, `persona awareness`."""
    task, title = task_title(track, found), metric_title(metric)
    return title if title.startswith(task) else f"{task}, {title}"


def conditions(track: TrackSummary, *, sized: bool = True) -> str:
    """Return the conditions of a track for titles, with the size of its data if that is `sized`."""
    # Runs of older versions call it a window.
    most = track.max_context_tokens or track.window
    context = None if most is None else f"{most:,}"
    given = [("", track.condition), ("", track.scoring), ("memory ", track.memory)]
    given += [("context ", context), ("prompt ", track.prompt)]
    parts = [f"{name}{value}" for name, value in given if value is not None]
    for name, value in (track.model_extra or {}).items():
        if sized or name != "size":
            parts.append(f"{name} {value}")
    return f" ({', '.join(parts)})" if parts else ""


def strongest_above(differences: Mapping[str, float], *, lower_is_better: bool) -> str | None:
    """Return the trivial baseline that a system is furthest below; None where it is below none.

    Args:
        differences: The score of the system less that of each baseline, by its name.
        lower_is_better: Whether a lower score is the better one.
    """
    sign = -1.0 if lower_is_better else 1.0
    # What is written as a difference of .000 is none.
    losses = {name: sign * round(value, _DIGITS) for name, value in differences.items()}
    worst = min(losses, key=lambda name: losses[name], default=None)
    return worst if worst is not None and losses[worst] < 0 else None


def share_of_known(judge: str, checks: Mapping[str, RubricCheck] | None) -> str:
    """Return how many known items a judge got right: `known items 23/24`, or that nobody asked.

    Nothing for an embedded judge, whose errors calibrations tell.
    """
    if is_embedded_judge(judge):
        return ""
    if not checks:
        return NOT_CHECKED
    right = sum(share.right for share in checks.values())
    return f"known items {right}/{DRAWN * len(checks)}"


def judge_mark(summary: Summary | AuditSummary) -> str:
    """Return the same in brackets, to follow the name of a judge in a title."""
    before = summary.judge_check_before
    share = share_of_known(summary.judge, before or summary.judge_check)
    if before and not all(map(is_admitted, before.values())):
        share += ", not admitted"
    return f" ({share})" if share else ""


def judge_of(run: "RunFolder") -> str:
    """Return the name of a run's judge, with the same mark once the run is finished."""
    return run.judge if run.summary is None else f"{run.judge}{judge_mark(run.summary)}"


def known_item_lines(judge: str, checks: Mapping[str, RubricCheck] | None) -> Iterator[str]:
    """Say how many items a judge got right by rubric, or that nobody asked it any."""
    if is_embedded_judge(judge):
        return
    if not checks:
        what = f"Judge {judge} was {NOT_CHECKED} on items with known answers"
        yield f"{what}, so it may be unable to tell good answers from bad ones."
        return
    parts = []
    for name, share in checks.items():
        failed = "" if is_admitted(share) else " (not admitted)"
        parts.append(f"{name} {share.right}/{DRAWN}{failed}")
    yield f"Items with known answers that judge {judge} got right: {', '.join(parts)}."
