"""LongMemEval: 500 questions, each with a history of its own (Wu et al., ICLR 2025).

Three files hold the same questions: `oracle` with the sessions of the evidence alone, `s` with
about 50 sessions each, `m` with about 500. A question whose id ends with `_abs` can't be answered;
it stays in the figure of its type. Nothing of the ids reaches a system: those of sessions give the
evidence away.

The authors' score is that of a judge with a rule for each type of question, abstention apart.
Source: `src/evaluation/evaluate_qa.py` and `print_qa_metrics.py` of xiaowu0162/LongMemEval. Three
figures are called accuracy there: over questions, over the six types, and of abstention alone.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from alps.errors import UsageError
from alps.ext.histories.files import (
    SetChoice,
    SetFiles,
    as_list,
    as_text,
    items,
    listed,
    role,
    text,
)
from alps.ext.histories.model import (
    Authors,
    CitedSet,
    HistorySession,
    Marks,
    Message,
    SetQuestion,
    Story,
    when,
)
from alps.ext.histories.task import tracks_of
from alps.tasks.metrics import Inference, MacroRatio, Metric, Needs

ABSTAINS = "_abs"
PREFERENCE = "single-session-preference"
NAMES: Mapping[str, tuple[str, ...]] = {
    "oracle": ("longmemeval_oracle.json",),
    "s": ("longmemeval_s_cleaned.json", "longmemeval_s.json"),
    "m": ("longmemeval_m_cleaned.json", "longmemeval_m.json"),
}
_TIME = "%Y/%m/%d (%a) %H:%M"


def _files(data: Path, choice: SetChoice) -> SetFiles:
    if data.is_file():
        return SetFiles(tuple(items(data)), (data,))
    wanted = [choice.set] if choice.set else list(NAMES)
    there = [data / name for one in wanted for name in NAMES[one] if (data / name).is_file()]
    if not there:
        raise UsageError(f"data={data}: no {NAMES[wanted[0]][0]} in it")
    if len(there) > 1 and choice.set is None:
        names = ", ".join(path.name for path in there)
        raise UsageError(f"data={data}: name a set with set= (found: {names})")
    return SetFiles(tuple(items(there[0])), (there[0],))


def _story(node: Mapping[str, Any]) -> Story:
    name = text(node, "question_id")
    parts = [listed(node, f"haystack_{part}") for part in ("session_ids", "dates", "sessions")]
    sessions, seen, evidence = [], dict[str, int](), []
    for id_, date, said in zip(*parts, strict=True):
        own, written = as_text(id_, "haystack_session_ids"), as_text(date, "haystack_dates")
        # Thirteen histories hold one session twice: the second one needs an id of its own.
        seen[own] = seen.get(own, 0) + 1
        unique = own if seen[own] == 1 else f"{own}#{seen[own]}"
        messages = []
        for place, one in enumerate(as_list(said, "haystack_sessions")):
            messages.append(Message(role(one), text(one, "content"), f"{unique}/{place}"))
            if one.get("has_answer"):
                evidence.append(f"{unique}/{place}")
        sessions.append(HistorySession(unique, when(written, _TIME), tuple(messages), written))
    kind, asked = text(node, "question_type"), text(node, "question_date")
    question = SetQuestion(
        id=name,
        history=name,
        text=text(node, "question"),
        answer=text(node, "answer"),
        kind=kind,
        at=when(asked, _TIME),
        evidence=tuple(evidence or map(str, listed(node, "answer_session_ids"))),
        abstains=name.endswith(ABSTAINS),
        scoring="guided" if kind == PREFERENCE else "judged",
        more={"written": asked},
    )
    return Story(name, tuple(sessions), (question,))


TYPES = (
    *("single-session-user", "single-session-assistant", "single-session-preference"),
    *("multi-session", "temporal-reasoning", "knowledge-update"),
)
_OF_TYPE = {
    "single-session-preference": "type_guide",
    "temporal-reasoning": "type_time",
    "knowledge-update": "type_update",
}
RUBRICS = ("guide", "type_answer", "type_time", "type_update", "type_guide", "type_absent")


def rubric_of_type(question: SetQuestion) -> str:
    """Return the name of the rubric by which the authors judge a question."""
    return "type_absent" if question.abstains else _OF_TYPE.get(question.kind, "type_answer")


def _rubrics(question: SetQuestion) -> Sequence[tuple[str, str]]:
    return ((rubric_of_type(question), question.answer),)


def _score(
    question: SetQuestion, answer: str | None, marks: Marks
) -> tuple[dict[str, float], dict[str, float]]:
    by = rubric_of_type(question)
    if answer is not None and by not in marks:
        return {}, {}
    value = 0.0 if answer is None else float(marks[by])
    scores = {"by_type": value}
    if question.abstains:
        scores["by_type_absent"] = value
    kind = _name(question.kind)
    return scores, {f"right_{kind}": value, f"asked_{kind}": 1.0}


def _name(kind: str) -> str:
    return kind.replace("-", "_")


_RATED = Needs(rating=True)
_RESAMPLED = Inference(resampled=True)
PUBLISHED = Authors(
    metrics=(
        Metric(
            "by_type",
            "authors' accuracy, by question",
            optional=True,
            needs=_RATED,
            inference=_RESAMPLED,
        ),
        Metric(
            "by_type_mean",
            "  mean of the six types",
            MacroRatio(
                tuple(((f"right_{_name(kind)}", f"asked_{_name(kind)}"),) for kind in TYPES)
            ),
            optional=True,
            needs=_RATED,
        ),
        Metric(
            "by_type_absent",
            "  abstention alone",
            optional=True,
            needs=_RATED,
            inference=_RESAMPLED,
        ),
    ),
    rubrics=_rubrics,
    score=_score,
    judged="by_type",
)


SET = CitedSet(
    name="longmemeval",
    title="LongMemEval",
    licence="MIT",
    language="English",
    source="hub:xiaowu0162/longmemeval-cleaned",
    hub="xiaowu0162/longmemeval-cleaned",
    wanted=lambda choice: NAMES[choice.set or "oracle"][:1],
    files=_files,
    story=_story,
    authors=PUBLISHED,
    rubrics=RUBRICS,
    expected=lambda choice: {
        "single-session-user": 70,
        "single-session-assistant": 56,
        PREFERENCE: 30,
        "multi-session": 133,
        "temporal-reasoning": 133,
        "knowledge-update": 78,
    },
    chosen={"set": tuple(NAMES)},
)
tracks = tracks_of(SET)
