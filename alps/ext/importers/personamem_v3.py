"""Results of PersonaMem v3: `results.csv` of its runs, a row a query with its metrics as JSON.

Source: `scripts/aggregate_eval.py` and `PRIMARY_METRIC` in `evaluation/task_registry.py` of
bowen-upenn/PersonaMem-v3. Each task has one metric that is its accuracy; a row that failed counts
as 0, and one without the metric (no judge ran) not at all.
"""

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from alps.errors import DataError
from alps.ext.importers.reading import ImportedAnswer, read_text

_COMBINED = ("pr_combined_personalization_score", "combined")
_LEAK, _PROACTIVE = ("personalization_leak_rate", "inverted"), ("proactive_action_score", "share")
_AGENTIC = (
    *("user_tone_post", "dm_digest", "cross_app_repost", "auto_reply", "vague_refind"),
    *("composed_post", "draft_audit", "group_dm_summary", "wrong_recipient_check"),
    *("proactive_daily_catchup", "trending_alert"),
)
_ACTING = (
    *("proactive_unfulfilled_stated_need", "proactive_close_friend_update"),
    *("restraint_sensitive_event_silence", "proactive_friend_feed_react"),
    *("proactive_trending_feed_react", "proactive_overactive_check"),
)
MISTAKES = "active_mistake_prevention"
PRIMARY: Mapping[str, tuple[str, str]] = {
    "at_ai_directive_followup": ("recall@5", "share"),
    "personalized_search_ranking": ("top3_alignment_rate", "share"),
    "short_vs_long_term_lifecycle": ("recall@1", "share"),
    "local_recommendation_geo_shift": ("geo_shift_correctness", "share"),
    "over_personalization_repetition_recsys": ("tail_passed", "share"),
    "over_personalization_repetition_chatbot": ("tail_passed", "share"),
    "new_suggestions_recsys": ("passed", "share"),
    "new_suggestions_chatbot": ("passed", "share"),
    "chatbot_personalized_response": _COMBINED,
    "over_personalization_chatbot_text": _LEAK,
    "over_personalization_context_shift": ("keyword_leak_rate", "inverted"),
    "over_personalization_sensitive_event": _LEAK,
    "preference_shift_followthrough": ("preference_shift_consistency", "share"),
    "hidden_persona_implicit_qa": ("deep_motivation_alignment", "share"),
    "hidden_persona_recommendation": ("recall_at_1", "share"),
    MISTAKES: ("correct", "share"),
    "personalized_recommendation": ("recall_at_5", "share"),
    **{f"agentic_{name}": _COMBINED for name in _AGENTIC},
    **dict.fromkeys(_ACTING, _PROACTIVE),
}
"""The metric of each task, and how it becomes a share."""
_COLUMNS = ("query_id", "user_id", "task_type", "metrics_json", "status", "agent_response")
_FAILED = frozenset(("failed_writes", "failed_quality", "error", "no_result"))
_SAYS_NOTHING = ("non_substantive_response", "response_is_substantive")


def read_personamem_v3(path: Path, system: str) -> tuple[list[ImportedAnswer], list[str]]:
    """Read the accuracy of each row, and the authors' mean over tasks.

    Raises:
        DataError: If it has another form, an unknown task, or a metric off its scale.
    """
    # Each user has a file of this name.
    system = path.resolve().parent.parent.name if path.stem == "results" else system
    answers = []
    for line, row in _rows(path):
        metrics = _metrics(row, path, line)
        answers.append(
            ImportedAnswer(
                system=system,
                id=row["query_id"],
                conversation=row["user_id"],
                category=row["task_type"],
                answer=row["agent_response"],
                score=_accuracy(row, metrics, path, line),
                unread={},
            )
        )
    failed = sum(row["status"] in _FAILED for _, row in _rows(path))
    why = "rows failed; as in the authors' script, they count as 0"
    return answers, [f"{path.parent.name}: {failed:,} {why}"] if failed else []


def mean_of_tasks(answers: Sequence[ImportedAnswer]) -> Iterator[str]:
    """Yield the authors' headline of each system, and of warnings both halves and their F1."""
    for system in dict.fromkeys(answer.system for answer in answers):
        own = [one for one in answers if one.system == system and one.score is not None]
        by_task: dict[str, list[float]] = {}
        for one in own:
            by_task.setdefault(one.category, []).append(one.score or 0.0)
        if by_task:
            mean = fmean(map(fmean, by_task.values()))
            yield f"{system}: mean of {len(by_task)} tasks {mean:.2%}"
        halves = []
        for end in ("_warn", "_foil"):
            marks = [one.score or 0.0 for one in own if one.id.endswith(end)]
            halves.append(fmean(marks) if marks else 0.0)
        if any(halves):
            warn, silent = halves
            f1 = 2 * warn * silent / (warn + silent)
            yield f"{system}: {MISTAKES}: warned {warn:.2%}, silent {silent:.2%}, F1 {f1:.2%}"


def _rows(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    table = csv.DictReader(io.StringIO(read_text(path), newline=""))
    missing = [name for name in _COLUMNS if name not in (table.fieldnames or ())]
    if missing:
        raise DataError(f"no column {', '.join(missing)}", path=path, line=1)
    for row in table:
        if None in (row[name] for name in _COLUMNS):
            raise DataError("too few columns", path=path, line=table.line_num)
        yield table.line_num, row


def _metrics(row: Mapping[str, str], path: Path, line: int) -> Mapping[str, Any]:
    try:
        found = json.loads(row["metrics_json"] or "{}")
    except ValueError as error:
        raise DataError("not JSON", path=path, line=line, field="metrics_json") from error
    return found if isinstance(found, dict) else {}


def _accuracy(
    row: Mapping[str, str], metrics: Mapping[str, Any], path: Path, line: int
) -> float | None:
    if row["task_type"] not in PRIMARY:
        raise DataError(f"unknown task {row['task_type']!r}", path=path, line=line)
    if row["status"] in _FAILED:
        return 0.0
    key, kind = PRIMARY[row["task_type"]]
    nothing, something = (metrics.get(name) for name in _SAYS_NOTHING)
    if row["task_type"] != MISTAKES and (nothing or (something is not None and not something)):
        return 0.0
    value = metrics.get(key)
    most = metrics.get("pr_combined_max_possible") if kind == "combined" else 1
    if value is None or not most:
        return None
    if not isinstance(value, int | float) or not 0 <= value / most <= 1:
        raise DataError(f"no share: {value!r}", path=path, line=line, field=key)
    return 1 - value if kind == "inverted" else value / most
