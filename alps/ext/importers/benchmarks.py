"""Results on LoCoMo, LongMemEval, BEAM and PersonaMem v3, as authors and harnesses write them.

The authors' code: `task_eval/evaluate_qa.py` of snap-research/locomo; `src/evaluation/
evaluate_qa.py` of xiaowu0162/LongMemEval; `run_evaluation.py`, `evaluation.py` and
`answer_generation.py` of mohammadtavakoli78/BEAM; `scripts/aggregate_eval.py` and `PRIMARY_METRIC`
in `evaluation/task_registry.py` of bowen-upenn/PersonaMem-v3. A task of PersonaMem v3 has one
metric that is its accuracy; a row that failed counts as 0, and one without the metric (no judge
ran) not at all.

Others: `evaluation/evals.py` of mem0ai/mem0, on LoCoMo; `src/memory_bench/models.py` and `dataset/`
of vectorize-io/agent-memory-benchmark, one JSON file a run, gzipped or not; `scripts/locomo/
locomo_eval.py` and `scripts/longmemeval/` of MemTensor/OmniMemEval, `…_locomo_judged.json` and
`…_lme_judged.json`.
"""

import csv
import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any

from pydantic import AliasChoices, AliasPath, BeforeValidator, Field

from alps.errors import DataError
from alps.ext.importers.reading import (
    UNKNOWN,
    Foreign,
    ImportedAnswer,
    Listed,
    Numbered,
    Score,
    Text,
    first_of,
    read_file,
    read_rows,
    read_text,
    refuse_off_scale,
    unless_empty,
)
from alps.show.formatting import counted

CATEGORIES = {
    "1": "multi-hop",
    "2": "temporal",
    "3": "open-domain",
    "4": "single-hop",
    "5": "adversarial",
}
ADVERSARIAL = "adversarial"
OF_MEM0 = {"single-hop": "multi-hop", "multi-hop": "open-domain", "open-domain": "single-hop"}
"""Names of LoCoMo's authors by those of Mem0 and the Agent Memory Benchmark: by its numbers of
questions (282, 321, 96, 841) the authors call them otherwise."""
_PREDICTION, _F1 = "_prediction", "_f1"
_SLACK = 5e-5
"""How far a mean that a file says may be from that of its marks: it may be rounded."""


class _LocomoConversation(Foreign):
    """One conversation: its questions, in which each system has fields of its own name."""

    sample_id: Text
    qa: Listed[dict[str, Any]]


class _LocomoQuestion(Foreign):
    """What of a question does not depend on the system."""

    question: Text
    category: Text
    answer: Text | None = None


class _Mem0Answer(Foreign):
    """One answer of Mem0's evaluation.

    Its judge leaves out the adversarial questions; the file of answers that it reads has them, and
    no score.
    """

    question: Text
    answer: Text
    response: Text
    category: Text
    llm_score: Score = None


def read_locomo(path: Path, system: str) -> list[ImportedAnswer]:
    """Read the `--out-file` of LoCoMo's evaluation; its score is the token F1 of each question.

    Raises:
        DataError: If it has another form.
    """
    conversations: list[_LocomoConversation] = read_file(path, list[_LocomoConversation])
    answers: list[ImportedAnswer] = []
    numbered = Numbered()
    for place, conversation in enumerate(conversations):
        for number, fields in enumerate(conversation.qa):
            where = f"{place}.qa.{number}"
            question = _locomo_question(fields, path, where)
            same = ImportedAnswer(
                system=system,
                id=numbered.of(conversation.sample_id, question.question),
                conversation=conversation.sample_id,
                category=CATEGORIES.get(question.category, question.category),
                question=question.question,
                gold=question.answer,
                abstains=CATEGORIES.get(question.category) == ADVERSARIAL,
                unread=_not_of_systems(question.unread),
            )
            answers += _of_each_system(same, fields, path, where)
    # One file may hold the answers of several models, under their names.
    if len({answer.system for answer in answers}) > 1:
        return answers
    return [answer.model_copy(update={"system": system}) for answer in answers]


def _locomo_question(fields: dict[str, Any], path: Path, where: str) -> _LocomoQuestion:
    try:
        return _LocomoQuestion.model_validate(fields)
    except ValueError as error:
        raise DataError("lacks a question or its category", path=path, field=where) from error


def _not_of_systems(fields: dict[str, Any]) -> dict[str, Any]:
    of_systems = (_PREDICTION, _F1)
    return {name: value for name, value in fields.items() if not name.endswith(of_systems)}


def _of_each_system(
    same: ImportedAnswer, fields: dict[str, Any], path: Path, where: str
) -> list[ImportedAnswer]:
    """Return the answer of each system that has fields of its name."""
    answers = []
    for field, said in fields.items():
        if not field.endswith(_PREDICTION):
            continue
        name = field.removesuffix(_PREDICTION)
        score = fields.get(name + _F1)
        refuse_off_scale(score, path, f"{where}.{name}{_F1}")
        own = {"system": name, "answer": None if said is None else str(said), "score": score}
        answers.append(same.model_copy(update=own))
    if not answers:
        raise DataError(f"no field NAME{_PREDICTION}", path=path, field=where)
    return answers


def read_mem0(path: Path, system: str) -> list[ImportedAnswer]:
    """Read the `--output_file` of Mem0's evaluation of LoCoMo; its score is the judge's.

    Its `--input_file` is read, too: all of it is unscored, to be judged here.

    Raises:
        DataError: If it has another form.
    """
    conversations: dict[str, list[_Mem0Answer]] = read_file(path, dict[str, list[_Mem0Answer]])
    answers, numbered = [], Numbered()
    for conversation, rows in conversations.items():
        for number, row in enumerate(rows):
            refuse_off_scale(row.llm_score, path, f"{conversation}.{number}.llm_score")
            # In Mem0's files `answer` is the gold; in those of Zep and OmniMemEval it is the
            # system's.
            said = {"gold": row.answer or None, "answer": row.response, "score": row.llm_score}
            answers.append(_of_locomo(system, conversation, row, numbered, **said))
    return answers


def _of_locomo(
    system: str, conversation: str, row: "_Mem0Answer | _Graded", numbered: Numbered, **said: Any
) -> ImportedAnswer:
    """Return an answer to a question whose category is a number of LoCoMo, or has its own name."""
    category = CATEGORIES.get(row.category, row.category)
    return ImportedAnswer(
        system=system,
        id=numbered.of(conversation, row.question),
        conversation=conversation,
        category=category,
        question=row.question,
        abstains=category == ADVERSARIAL,
        unread=row.unread,
        **said,
    )


ABSTENTION = "_abs"
"""What the ids of questions have whose right answer is that nothing is known."""


class _LongMemEvalLabel(Foreign):
    model: str | None = None
    label: Annotated[bool | None, BeforeValidator(unless_empty)] = None


def _as_label(value: object) -> object:
    # Forks of the script leave out who judged.
    return {"label": value} if isinstance(value, bool) else value


class _Hypothesis(Foreign):
    """One answer; without a label where nobody judged it yet."""

    question_id: Text
    hypothesis: Text
    question_type: str | None = None
    autoeval_label: Annotated[_LongMemEvalLabel, BeforeValidator(_as_label)] | None = None


def _either(name: str, other: str, *within: str | int) -> Any:
    return Field(validation_alias=AliasChoices(name, AliasPath(other, *within)))


class _LongMemEvalQuestion(Foreign):
    """One question of the benchmark's own file, or of the Agent Memory Benchmark's list of them."""

    question_id: Text = _either("question_id", "id")
    question_type: str = _either("question_type", "meta", "question_type")
    question: Text = _either("question", "query")
    answer: Text = _either("answer", "gold_answers", 0)


def read_longmemeval(
    path: Path, system: str, data: Path | None
) -> tuple[list[ImportedAnswer], list[str]]:
    """Read hypotheses, one a line or in one list, with or without `autoeval_label`.

    As in the script, answers to questions that are not in `data` are left out: they are named.

    Args:
        path: The file that `evaluate_qa.py` wrote, or its input.
        system: What the file is of.
        data: The questions, such as longmemeval_s.json; without them types and gold are unknown.

    Raises:
        DataError: If a line has another form.
    """
    rows: list[_Hypothesis] = read_rows(path, _Hypothesis)
    listed: list[_LongMemEvalQuestion] = (
        [] if data is None else read_rows(data, _LongMemEvalQuestion)
    )
    questions = {question.question_id: question for question in listed}
    answers = []
    others = [row.question_id for row in rows if data and row.question_id not in questions]
    for row in rows:
        if data is not None and row.question_id not in questions:
            continue
        known, label = questions.get(row.question_id), row.autoeval_label
        answers.append(
            ImportedAnswer(
                system=system,
                id=row.question_id,
                # Each question has a history of its own.
                conversation=row.question_id,
                category=(row.question_type or UNKNOWN) if known is None else known.question_type,
                question=None if known is None else known.question,
                gold=None if known is None else known.answer,
                answer=row.hypothesis,
                score=None if label is None or label.label is None else float(label.label),
                abstains=ABSTENTION in row.question_id,
                unread=row.unread | ({} if label is None else {"autoeval_label": label.unread}),
            )
        )
    if not others:
        return answers, []
    what = f"left out {counted(len(others), 'answer')} without a question in {data}"
    return answers, [f"{system}: {what}: {', '.join(others[:3])}"]


_ABSTAINS = "abstention"
_PREFIXES = ("evaluation-results-", "evaluation-")


class _BeamVerdict(Foreign):
    """The mean of the judge's marks over the items of a question's rubric, and these."""

    llm_judge_score: Score
    llm_judge_responses: Any = None

    @property
    def is_cut(self) -> bool:
        """Whether the marks give a higher score."""
        if self.llm_judge_score is None or not isinstance(self.llm_judge_responses, list):
            return False
        marks = [one.get("score") for one in self.llm_judge_responses if isinstance(one, dict)]
        known = [mark for mark in marks if isinstance(mark, int | float)]
        same = len(known) == len(self.llm_judge_responses) > 0
        return same and fmean(known) > self.llm_judge_score + _SLACK


class _BeamAnswer(Foreign):
    question: Text
    llm_response: Text
    ideal_response: Text | None = None
    ideal_answer: Text | None = None
    answer: Text | None = None


def read_beam(path: Path) -> tuple[list[ImportedAnswer], list[str]]:
    """Read the verdicts on one conversation, and whether the marks in them give its scores.

    The folder names the conversation, and the file the system.

    The score is `llm_judge_score` for all ten abilities; for event ordering the authors have a
    second one, of ranks.

    Raises:
        DataError: If it has another form.
    """
    judged: dict[str, list[_BeamVerdict]] = read_file(path, dict[str, list[_BeamVerdict]])
    prefix = next((start for start in _PREFIXES if path.name.startswith(start)), "")
    beside = path.with_name(path.name.removeprefix(prefix))
    asked: dict[str, list[_BeamAnswer]] = {}
    if prefix and beside.is_file():
        asked = read_file(beside, dict[str, list[_BeamAnswer]])
    # Conversations have numbers of their own at each length: results/1M/7.
    conversation = "/".join(path.resolve().parent.parts[-2:])
    answers = []
    for ability, rows in judged.items():
        questions = asked.get(ability, [])
        if asked and len(questions) != len(rows):
            answered = f"{counted(len(questions), 'answer')} in {beside.name}"
            what = f"{counted(len(rows), 'verdict')}, but {answered}; evaluate the answers again"
            raise DataError(what, path=path, field=ability)
        for number, row in enumerate(rows):
            refuse_off_scale(row.llm_judge_score, path, f"{ability}.{number}.llm_judge_score")
            known = questions[number] if number < len(questions) else None
            answers.append(
                ImportedAnswer(
                    system=beside.stem,
                    id=f"{conversation}/{ability}/{number + 1}",
                    conversation=conversation,
                    category=ability.replace("_", " "),
                    question=None if known is None else known.question,
                    gold=_gold(known),
                    answer=None if known is None else known.llm_response,
                    score=row.llm_judge_score,
                    abstains=ability == _ABSTAINS,
                    reasons=row.unread | {"llm_judge_responses": row.llm_judge_responses},
                )
            )
    if not any(row.is_cut for rows in judged.values() for row in rows):
        return answers, []
    why = "BEAM's script counts half marks as 0, except for event ordering"
    return answers, [f"{beside.stem}: scores are below the judge's marks: {why}"]


def _gold(asked: _BeamAnswer | None) -> str | None:
    if asked is None:
        return None
    return asked.ideal_response or asked.ideal_answer or asked.answer


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
    for line, row in _v3_rows(path):
        metrics = _v3_metrics(row, path, line)
        answers.append(
            ImportedAnswer(
                system=system,
                id=row["query_id"],
                conversation=row["user_id"],
                category=row["task_type"],
                answer=row["agent_response"],
                score=_v3_accuracy(row, metrics, path, line),
                unread={},
            )
        )
    failed = sum(row["status"] in _FAILED for _, row in _v3_rows(path))
    why = "counted as 0, as in the authors' script"
    rows = counted(failed, "failed row")
    return answers, [f"{path.parent.name}: {rows}, {why}"] if failed else []


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


def _v3_rows(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    table = csv.DictReader(io.StringIO(read_text(path), newline=""))
    missing = [name for name in _COLUMNS if name not in (table.fieldnames or ())]
    if missing:
        raise DataError(f"no column {', '.join(missing)}", path=path, line=1)
    for row in table:
        if None in (row[name] for name in _COLUMNS):
            raise DataError("too few columns", path=path, line=table.line_num)
        yield table.line_num, row


def _v3_metrics(row: Mapping[str, str], path: Path, line: int) -> Mapping[str, Any]:
    try:
        found = json.loads(row["metrics_json"] or "{}")
    except ValueError as error:
        raise DataError("not JSON", path=path, line=line, field="metrics_json") from error
    return found if isinstance(found, dict) else {}


def _v3_accuracy(
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
        raise DataError(f"not a share from 0 to 1: {value!r}", path=path, line=line, field=key)
    return 1 - value if kind == "inverted" else value / most


_CONVERSATIONS = ("sample_id", "conversation_id", "user_id")
_TYPES = ("question_type", "question_category", "category")
_LOCOMO, _LONGMEMEVAL = "locomo", "longmemeval"
# On LongMemEval; the run's own version stands before the number of the question.
_USER = re.compile(r"\A(lme_exper_user_)(?:.*_)?(\d+)\Z", re.DOTALL)


class _AmbResult(Foreign):
    query_id: Text
    query: Text
    answer: Text
    gold_answers: Listed[Text]
    correct: bool | None
    score: float | None = None
    meta: dict[str, Any] = Field(default_factory=dict)


class _AmbRun(Foreign):
    """A run; older ones have no name but that of their memory."""

    run_name: str | None = None
    memory_provider: str | None = None
    dataset: str
    accuracy: float
    results: Listed[_AmbResult]


def _answer_of_amb(
    run: "_AmbRun", row: "_AmbResult", system: str, score: float | None
) -> ImportedAnswer:
    category = first_of(row.meta, _TYPES) or UNKNOWN
    if run.dataset == _LOCOMO:
        category = OF_MEM0.get(category, category)
    # LongMemEval has no type for such questions: their ids tell them.
    absent = run.dataset == _LONGMEMEVAL and ABSTENTION in row.query_id
    return ImportedAnswer(
        system=system,
        part=run.dataset,
        id=row.query_id,
        conversation=first_of(row.meta, _CONVERSATIONS) or row.query_id,
        category=category,
        question=row.query,
        gold="\n".join(row.gold_answers) or None,
        answer=row.answer,
        score=score,
        abstains=absent or category == _ABSTAINS,
        unread=row.unread,
    )


def read_amb(path: Path, system: str) -> tuple[list[ImportedAnswer], list[str]]:
    """Read the answers of a run, and whether the accuracy that it says of itself is theirs.

    The score is the continuous one where the data set has one (BEAM), else right or wrong.

    Raises:
        DataError: If it has another form.
    """
    run: _AmbRun = read_file(path, _AmbRun)
    answers: list[ImportedAnswer] = []
    # As there, the rows without one then do not count.
    continuous = any(row.score is not None for row in run.results)
    system = run.run_name or run.memory_provider or system
    for number, row in enumerate(run.results):
        refuse_off_scale(row.score, path, f"results.{number}.score")
        right = None if continuous or row.correct is None else float(row.correct)
        answers.append(_answer_of_amb(run, row, system, row.score if right is None else right))
    return answers, [f"{path.name}: {told}" for told in _stated_otherwise(run.accuracy, answers)]


def _stated_otherwise(accuracy: float, answers: Sequence[ImportedAnswer]) -> Iterator[str]:
    scores = [answer.score for answer in answers if answer.score is not None]
    share = fmean(scores) if scores else 0.0
    if abs(share - accuracy) > _SLACK:
        yield f"the stated accuracy is {accuracy:.2%}, but the rows give {share:.2%}"


class _Graded(Foreign):
    """One answer with the verdict of each draw of the judge; without any where it was skipped."""

    question: Text
    category: Text
    answer: Text | None = None
    llm_judgments: dict[str, bool | None] = Field(default_factory=dict)
    golden_answer: Text | None


def _as_list(value: object) -> object:
    # LoCoMo has a list for each conversation, LongMemEval one answer, or a list of one.
    return [value] if isinstance(value, dict) else value


_Grades = Annotated[Listed[_Graded], BeforeValidator(_as_list)]


def read_omnimemeval(path: Path, system: str) -> list[ImportedAnswer]:
    """Read judged answers: the score is the share of the judge's draws that call it correct.

    Raises:
        DataError: If it has another form.
    """
    groups: dict[str, list[_Graded]] = read_file(path, dict[str, _Grades])
    answers, numbered = [], Numbered()
    for user, graded in groups.items():
        # Two runs would have no question in common.
        conversation = _USER.sub(r"\1\2", user)
        for row in graded:
            draws = [draw for draw in row.llm_judgments.values() if draw is not None]
            # Draws that were skipped are no votes against the answer.
            score = fmean(draws) if draws else None
            said = {"gold": row.golden_answer, "answer": row.answer, "score": score}
            answers.append(_of_locomo(system, conversation, row, numbered, **said))
    return answers
