"""Utilization: a past dialogue and a new query in, an answer in plain text out.

It is rated by the rubric of the ability.
"""

import json
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from typing import Any

from alps.judges.base import Judge
from alps.judges.copying import grounding
from alps.judges.rubric import RubricQuestion, rubric
from alps.llm.types import IN_WORDS, AnswerType, EmptyAnswer, Read
from alps.prompts import load_prompt
from alps.schema import (
    UNMAPPED,
    GoldNeeded,
    Prediction,
    Target,
    TextAnswer,
    Turn,
    UtilizationSample,
)
from alps.tasks.base import (
    AGREEMENT,
    Asking,
    ByMemory,
    JudgingOptions,
    Overlap,
    PublicAnswers,
    Row,
    Scored,
    Shown,
    Task,
    TaskOptions,
    agreement_score,
    chat_messages,
    memory_conditions,
    verdict_row,
)
from alps.tasks.by_memory import Context, History, HistoryPlace, Recall
from alps.tasks.metrics import Metric, Needs, OnBoards
from alps.tasks.record_parts import (
    FAILED,
    JUDGEMENT_FAILED,
    AnsweredRecord,
    Dialogue,
    Facts,
    Highlight,
    Listed,
    Passage,
    Rank,
    RecordPart,
    ScoredAnswer,
    Side,
    rating_rows,
)
from alps.text import is_rejected, length_in_letters, shown_value

PROMPT = load_prompt("alps.tasks", "prompts", "utilization")
EMOTIONAL = rubric("ei")
LONGEST_ANSWER = 3_000
"""Letters of the longest answer that can earn a score within the length: about 500 words. A wide
character counts as two."""
FIRST_INTERACTION = 981
"""In the authors' numbering of ability2, indices from here on are interaction preferences."""

_NUMBERED = re.compile(r"ability2_(\d+)\Z")
_INTERACTION = re.compile(
    r"\b(?:answers?|repl(?:y|ies)|respon[sd]\w*|tone|wording"
    r"|concise|brief|short|long|lengthy|detailed"
    r"|format\w*|bullet|tables?|lists?|step[- ]by[- ]step|emojis?|formal|informal|polite|style"
    r"|language|structured?|addressed|called)\b",
    re.IGNORECASE,
)


_RATED = Needs(rating=True)


def _binary(name: str, title: str, *, headline: bool = False) -> Metric:
    return Metric(name, title, headline=headline, rubrics=(name,), needs=_RATED)


def _within(metric: Metric) -> Metric:
    """Return the length-controlled form of a headline: a longer answer has the lowest mark."""
    title = f"  in at most {LONGEST_ANSWER:,} letters"
    name = f"{metric.name}_within"
    return replace(
        metric, name=name, title=title, headline=False, on_boards=OnBoards(), optional=True
    )


def _emotional(name: str, title: str, dimensions: Sequence[str] = EMOTIONAL.marks) -> Metric:
    rubrics = tuple(f"ei_{dimension}" for dimension in dimensions)
    return Metric(name, title, lowest=1.0, highest=5.0, rubrics=rubrics, needs=_RATED)


SYSTEMS = {
    "rules": "rules:quote",
    "floor/generic": "embedded:generic",
    # Where an ability did not have to be shown, a constant refusal met 28 of 28 records.
    "floor/refusal": "embedded:refusal",
    "floor/parrot": "rules:parrot",
}


@dataclass(frozen=True)
class Ability:
    """One ability: its number in the release, the rubrics that rate it, and what is reported."""

    name: str
    title: str
    number: int
    rubrics: tuple[str, ...]
    rated: tuple[Metric, ...]

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Its headline, the same within the length, and the rest."""
        lead, *rest = self.rated
        within = _within(lead)
        shown = OnBoards(companions=(within.name, *lead.on_boards.companions))
        return replace(lead, on_boards=shown), within, *rest


def _one_rubric(name: str, title: str, number: int) -> Ability:
    return Ability(name, title, number, (name,), (_binary(name, title, headline=True),))


ABILITIES = (
    _one_rubric("pa", "persona awareness", 1),
    Ability(
        "pf",
        "preference following",
        2,
        ("pf_general", "pf_interaction"),
        (
            Metric(
                "pf",
                "preference following",
                headline=True,
                needs=_RATED,
                on_boards=OnBoards(companions=("pf_general", "pf_interaction")),
            ),
            _binary("pf_general", "  general preferences"),
            _binary("pf_interaction", "  interaction preferences"),
        ),
    ),
    _one_rubric("vra", "virtual reality", 3),
    _one_rubric("cf", "constraints", 4),
    Ability(
        "ei",
        "emotional support",
        5,
        ("ei",),
        (
            replace(
                _emotional("ei", "emotional support (1–5)"),
                headline=True,
                on_boards=OnBoards(companions=("ei_en", "ei_zh")),
            ),
            _emotional("ei_en", "  in English"),
            _emotional("ei_zh", "  in Chinese"),
            *(_emotional(name, f"  {name}", (name,)) for name in EMOTIONAL.marks),
        ),
    ),
)


def read_samples(
    row: Row, gold: Row | None, *, ability: Ability, options: TaskOptions
) -> list[UtilizationSample]:
    """Build the samples of a row of `task4`: one for every query.

    Of several, each goes by the id of the query.

    Raises:
        ValueError: If there is no dialogue, or the id of a query occurs twice.
        GoldNeeded: If nothing else is missing, and the condition shows it.
    """
    # The system is shown the dialogue and the query alone: the selected memory, or anything else of
    # the row, would give away what is rated.
    given = row["input"]
    dialogue = _dialogue(given)
    queries = given.get("queries") or [{"query": given["query"]}]
    names = _names(row["benchmark_id"], queries)
    samples = []
    for name, query in zip(names, queries, strict=True):
        target = _target(row, gold, query["query"], dialogue, ability) if gold is not None else None
        fields = {"benchmark_id": name, "session_id": row.get("session_id") or row["benchmark_id"]}
        fields |= {"query": query["query"], "dialogue": dialogue, "memories": (), "gold": target}
        samples.append(UtilizationSample.model_validate(fields))
    if options.memory == "oracle" and gold is None:
        raise GoldNeeded("memory=oracle: needs gold, which this split withholds")
    return samples


def _names(benchmark_id: str, queries: Sequence[Row]) -> list[str]:
    """Name the samples of a row; an id that only tells its queries apart gets the row's."""
    # Journals and submissions know a sample by its id alone: of two alike one would be lost.
    if len(queries) == 1:
        return [benchmark_id]
    own = [str(query["query_id"]) for query in queries]
    if twice := next((name for name in own if own.count(name) > 1), None):
        raise ValueError(f"input.queries: '{twice}' appears twice")
    return [name if name.startswith(benchmark_id) else f"{benchmark_id}:{name}" for name in own]


def preference_kind(canonical_id: str, memory: Mapping[str, Any]) -> str:
    """Return a preference's rubric by the authors' numbering, else by what it is about."""
    # Two parts, as in the paper; the headline is over all records, to sort a board by.
    if numbered := _NUMBERED.match(canonical_id):
        return "pf_interaction" if int(numbered[1]) >= FIRST_INTERACTION else "pf_general"
    label = str(memory.get("label") or UNMAPPED)
    of_talk = label == UNMAPPED and _INTERACTION.search(str(memory["value"]))
    return "pf_interaction" if of_talk or "interaction" in label.casefold() else "pf_general"


def language_of(stratum: str, query: str) -> str:
    """Return `zh` or `en` as the row says, else by the script of the query."""
    if stratum.casefold() in ("ch", "zh", "en"):
        return "en" if stratum.casefold() == "en" else "zh"
    letters = [unicodedata.name(character, "") for character in query if character.isalpha()]
    return "zh" if sum(name.startswith("CJK") for name in letters) * 2 > len(letters) else "en"


def messages(sample: UtilizationSample) -> tuple[Mapping[str, str], ...]:
    """Render what an LLM is asked: the dialogue, what else it knows, and the query as JSON."""
    turns = [{"role": turn.role, "text": turn.text} for turn in sample.dialogue]
    known = {"known_about_user": list(sample.memories)} if sample.memories else {}
    shown = {"conversation": turns, **known, "message": sample.query}
    return chat_messages(PROMPT.text, shown)


def input_row(sample: UtilizationSample) -> dict[str, Any]:
    """Return what an external program is given: dialogue, query, and memories that are shown."""
    history = [turn.model_dump() for turn in sample.dialogue]
    known = {"known_about_user": list(sample.memories)} if sample.memories else {}
    given = {
        "query": sample.query,
        "model_input": {"query": sample.query, "dialogue_history": history, **known},
    }
    return {"benchmark_id": sample.benchmark_id, "task": "task4", "input": given}


def read_answer(node: object) -> Read[str]:
    """Read an answer that came as JSON: a text, or an object with one under `answer` or `response`.

    Raises:
        ValueError: If there is no text, or an empty one.
    """
    found = node
    if isinstance(node, dict):
        given = map(node.get, ("answer", "response", "response_text"))
        found = next((text for text in given if text is not None), None)
    if isinstance(found, str) and not found.strip():
        raise EmptyAnswer("the answer is empty")
    if not isinstance(found, str):
        raise ValueError("expected an object with a non-empty text `answer`")
    return Read(found)


TEXT = AnswerType(schema=TextAnswer, read=read_answer, partial=False, within=IN_WORDS)
"""An answer in words."""


async def judge_prediction(
    sample: UtilizationSample, prediction: Prediction, judge: Judge, options: JudgingOptions
) -> dict[str, Any]:
    """Ask for a rating by the ability's rubric; without one they are unscored."""
    question = _question(sample, prediction)
    verdict = verdict_row(judge, (question.rubric,))
    if RubricQuestion not in judge.answers:
        return verdict
    rating = await judge.answer(question, about=sample.benchmark_id)
    return {**verdict, "rubric": question.rubric.name, **rating.row()}


def fits(sample: UtilizationSample, prediction: Row) -> None:
    """Check that what was kept of an answer is text.

    Raises:
        ValueError: If it is something else.
    """
    if not isinstance(prediction.get("answer"), str):
        raise ValueError("answer: must be a string")


def score(
    sample: UtilizationSample, prediction: Prediction, verdict: Row | None, judge: Judge
) -> Scored:
    """Score one answer; a failed prediction gets the scale's minimum."""
    target = sample.gold
    assert target is not None
    marks = (verdict or {}).get("marks") or {}
    # Without a verdict the answer failed, and has the worst marks; without marks it was not rated.
    answer = (prediction.prediction or {}).get("answer", "")
    scores = _scores_of(marks, target) if verdict is None or marks else {}
    # Under a judge that rates nothing there are failures alone, and those are no figure.
    if marks or (scores and RubricQuestion in judge.answers):
        name = "pf" if target.rubric.startswith("pf_") else target.rubric
        scores[f"{name}_within"] = rubric(target.rubric).score({} if _is_long(answer) else marks)
    scores |= agreement_score(verdict)
    counts = {"enforced": int((verdict or {}).get("enforced") is not None)}
    if marks:
        counts |= {"asked": 1, "too_long": int(_is_long(answer))}
    # The rubric is about the whole dialogue, whatever part of it was shown.
    if prediction.shown is not None and prediction.shown.left_out:
        counts |= {"histories_cut": 1, "turns_left_out": prediction.shown.left_out}
    # Told with the answer, and no score: word salad has most of the memory's words.
    named = grounding(answer, target.memory, target.dialogue)
    details = {"rubric": target.rubric, "memory": target.memory}
    return Scored(scores, counts, details | ({"grounding": named} if named is not None else {}))


def _is_long(answer: str) -> bool:
    return length_in_letters(answer) > LONGEST_ANSWER


def _scores_of(marks: Mapping[str, int], target: Target) -> dict[str, float]:
    """Return what marks are worth: the score of the rubric, and that of each part it counts in."""
    by = rubric(target.rubric)
    scores = {by.name: by.score(marks)}
    if target.language is not None:
        scores[f"{by.name}_{target.language}"] = scores[by.name]
    if len(by.marks) > 1:
        scores |= by.all_marks(marks)
    if by.name.startswith("pf_"):
        scores["pf"] = scores[by.name]
    return scores


def _dialogue(given: Row) -> tuple[Turn, ...]:
    """Find the dialogue of a row; every ability is about the one in its audit context."""
    turns = (given.get("audit_context") or {}).get("conversation")
    turns = turns if turns is not None else (given.get("model_input") or {}).get("dialogue_history")
    if turns is None:
        raise ValueError("input.audit_context.conversation: no dialogue")
    return tuple(Turn.model_validate(turn) for turn in turns)


def _target(
    row: Row, gold: Row, query: str, dialogue: tuple[Turn, ...], ability: Ability
) -> Target:
    memory = gold["gold"]["selected_memory"]
    known = [item["value"] for item in gold["gold"].get("extracted_memory") or [memory]]
    kind = ability.rubrics[0]
    if ability.name == "pf":
        kind = preference_kind(str(row.get("canonical_id") or row["benchmark_id"]), memory)
    language = language_of(str(row.get("stratum") or ""), query) if ability.name == "ei" else None
    return Target(
        memory=shown_value(memory["value"]),
        memories=tuple(value for value in known if not is_rejected(value)),
        dialogue=dialogue,
        rubric=kind,
        language=language,
    )


def _question(sample: UtilizationSample, prediction: Prediction) -> RubricQuestion:
    target = sample.gold
    assert target is not None
    response = (prediction.prediction or {}).get("answer", "")
    by = rubric(target.rubric)
    return RubricQuestion(by, sample.query, response, target.memory, target.dialogue)


def _overlap(sample: UtilizationSample, answer: Row) -> Overlap:
    target = sample.gold
    assert target is not None
    turns = [turn.text for turn in (*target.dialogue, *sample.dialogue)]
    known = [*turns, sample.query, *sample.memories]
    return Overlap([target.memory], [answer["answer"]], known)


PUBLIC = PublicAnswers(
    # The longest of 289 answers of real models has 4,343 characters.
    longest=10_000,
    texts=lambda answer: (answer["answer"],),
    overlap=_overlap,
    gold=lambda sample: (("memory", sample.gold.memory, f"rubric {sample.gold.rubric}"),),
    unit="answers",
)


def record_parts(record: AnsweredRecord) -> list[RecordPart]:
    """Show the dialogue near the target memory, the query, the response and its verdict."""
    target, score = getattr(record.sample, "gold", None), record.score or {}
    verdict = record.verdict or {}
    if target is not None:
        memory, kind = target.memory, target.rubric
    else:
        memory, kind = str(score.get("memory") or ""), score.get("rubric")
    kind = verdict.get("rubric") or kind
    rows = [("rubric", str(kind))] if kind else []
    if verdict.get("outcome") == "ok":
        rows += rating_rows("verdict", verdict)
    if (share := score.get("grounding")) is not None:
        written = f"{share:.3f}".removeprefix("0")
        rows.append(("grounding (proxy)", f"{written} of the memory's words are in the response"))
    shown = [Side("•", shown_value(value)) for value in record.of_sample("memories")]
    return [
        Dialogue("Dialogue", record.of_sample("dialogue"), about=memory, folded=True),
        Passage("Query", getattr(record.sample, "query", "")),
        Passage("Target memory", memory),
        Listed("Memories shown to the system", tuple(shown)),
        Passage("Response", str(record.answer.get("answer") or "")),
        Facts("Verdict", tuple(rows)),
    ]


_LOW_RATING = 0.5


def _rating(answer: ScoredAnswer) -> float | None:
    """Return what a rubric gave as a share of its scale, in [0, 1]; None where nothing rated it."""
    if (emotional := answer.value("ei")) is not None:
        return (float(emotional) - 1) / 4
    return answer.value(str(answer.score.get("rubric")))


def _grounding(answer: ScoredAnswer) -> float:
    return float(answer.score.get("grounding") or 0.0)


def _grounded_and_low(answer: ScoredAnswer) -> Rank:
    low = answer.judged and _rating(answer) == 0
    return (_grounding(answer),) if low and _grounding(answer) else None


def _low(answer: ScoredAnswer) -> Rank:
    rating = _rating(answer)
    if not answer.judged or rating is None or rating > _LOW_RATING:
        return None
    return -rating, -_grounding(answer)


def _high(answer: ScoredAnswer) -> Rank:
    rating = _rating(answer)
    if not answer.judged or rating is None or rating <= _LOW_RATING:
        return None
    return rating, _grounding(answer)


HIGHLIGHTS = (
    FAILED,
    JUDGEMENT_FAILED,
    Highlight(
        "overruled by a hard rule",
        3,
        lambda answer: () if answer.judged and answer.count("enforced") else None,
    ),
    Highlight(
        "worst rating, although the answer contains the memory's words", 3, _grounded_and_low
    ),
    Highlight("lowest ratings", 3, _low),
    Highlight("best answers", 2, _high),
    Highlight("not rated", 2, lambda answer: () if answer.state == "unrated" else None),
)


def _history(sample: UtilizationSample) -> History:
    return History((sample.dialogue,))


def _place(sample: UtilizationSample) -> HistoryPlace:
    # By what was said: samples of several abilities are about the same dialogue.
    said = json.dumps([[turn.role, turn.text] for turn in sample.dialogue])
    return HistoryPlace(sha256(said.encode()).hexdigest(), len(sample.dialogue), sample.query)


def _shown(sample: UtilizationSample, shown: Context) -> UtilizationSample:
    return sample.model_copy(update={"dialogue": shown.turns, "memories": shown.memories})


def _evidence(sample: UtilizationSample) -> Context | None:
    """Return the true memories with the dialogue: what is left to tell systems apart is use."""
    target = sample.gold
    return None if target is None else Context(target.dialogue, target.memories)


def _needed(sample: UtilizationSample) -> tuple[str, ...]:
    return () if sample.gold is None else (sample.gold.memory,)


RECALL = Recall(_history, _place, _shown, _evidence, _needed)


def tracks(options: TaskOptions) -> tuple[Task, ...]:
    """Return one track for every ability that is asked for."""
    return tuple(
        Task(
            name="utilization",
            track=f"task4_ability{ability.number}",
            prompt=PROMPT,
            answer=TEXT,
            read_sample=partial(read_samples, ability=ability, options=options),
            messages=messages,
            input_row=input_row,
            to_prediction=lambda text: {"answer": text},
            judge=judge_prediction,
            likely=lambda sample: {"answer": sample.query},
            score=score,
            metrics=(*ability.metrics, AGREEMENT),
            fits=fits,
            rubrics=tuple(rubric(name) for name in ability.rubrics),
            conditions=memory_conditions(options),
            selects={"ability": ability.name},
            public=PUBLIC,
            systems=SYSTEMS,
            asking=Asking(plain=True),
            shown=Shown(
                title=ability.title,
                variant=ability.name,
                record_parts=record_parts,
                highlights=HIGHLIGHTS,
            ),
            by_memory=ByMemory(recall=RECALL),
        )
        for ability in ABILITIES
        if options.ability in (ability.name, "all")
    )
