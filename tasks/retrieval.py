"""Retrieval: a query and a pool of memories in, the one that the query calls for out.

Scored by whether it is the gold. Whether the memory was used in the answer is a second figure,
asked of a judge that can tell.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache, partial
from typing import Annotated, Any

from pydantic import Field, StringConstraints

from alps.data.pools import SIZES
from alps.judges.base import Judge
from alps.judges.rubric import RubricQuestion, rubric
from alps.llm.types import A_CHOICE, AnswerType, Read
from alps.prompts import load_prompt
from alps.schema import Prediction, RetrievalAnswer, RetrievalSample, Turn
from alps.tasks.base import (
    AGREEMENT,
    Asking,
    JudgingOptions,
    PublicAnswers,
    Row,
    Scored,
    Shown,
    Task,
    TaskData,
    TaskOptions,
    agreement_score,
    chat_messages,
    verdict_row,
)
from alps.tasks.by_memory import (
    History,
    MemoryProbes,
    Probe,
    Remembered,
    is_no_candidate,
    ranking_of,
)
from alps.tasks.metrics import Metric, Needs, OnBoards
from alps.tasks.record_parts import (
    FAILED,
    JUDGEMENT_FAILED,
    AnsweredRecord,
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
from alps.text import fold_value, shown_value

PROMPT = load_prompt("alps.tasks", "prompts", "retrieval")
USED = "memory_used"
RUBRICS = (rubric(USED),)

METRICS = (
    Metric(
        "recall_at_1",
        "recall@1",
        headline=True,
        judged=False,
        on_boards=OnBoards(people="task3.same_memory"),
    ),
    Metric("recall_at_5", "recall@5", needs=Needs(ranking=True), judged=False),
    Metric("recall_at_10", "recall@10", needs=Needs(ranking=True), judged=False),
    Metric("mrr", "mean reciprocal rank", needs=Needs(ranking=True), judged=False),
    Metric(
        USED,
        "memory used in the answer",
        optional=True,
        rubrics=(USED,),
        needs=Needs(rating=True, question="whether the memory was used"),
        # Recall tells nothing of it: the right memory can be found and left unused.
        on_boards=OnBoards(own_board=True),
    ),
    AGREEMENT,
)

SYSTEMS = {
    "rules": "bm25",
    "bm25": "bm25",
    "tfidf": "tfidf",
    "minilm": "minilm",
    "e5": "e5",
    "oracle": "embedded:oracle_retrieval",
    "floor/random": "embedded:random_candidate",
    "floor/lowest-unique-id": "embedded:lowest_unique_id",
}


Id = Annotated[str, StringConstraints(min_length=1, max_length=200)]


class Choice(RetrievalAnswer):
    """A prediction: the memory that was chosen, and the ids from best to worst."""

    selected_memory_id: Id
    # Imported ones may be longer than what an LLM is asked to write.
    answer: str
    reason: str
    ranking: Annotated[list[Id], Field(max_length=2_000)]


def read_sample(row: Row, gold: Row | None) -> RetrievalSample:
    """Build a sample from rows of `task3` in the release layout.

    Values that occur twice are kept once, and every candidate gets an id of its own.

    Raises:
        ValueError: If there are no candidates, one has no value, or the gold is not among them.
    """
    # Kept once: of two equal values one would be right and the other wrong.
    values: dict[str, str] = {}
    for item in row["input"]["candidate_memories"]:
        value = _said(item, "input.candidate_memories")
        values.setdefault(fold_value(value), value)
    if not values:
        raise ValueError("input.candidate_memories: the list is empty")
    # Published ids are per user, repeat themselves, and give the gold away: the lowest one that
    # occurs once was the answer in 140 of 140 pools.
    ids = _ids(len(values))
    chosen = None
    if gold is not None:
        right = fold_value(_said(gold["gold"]["selected_memory"], "gold.selected_memory"))
        if right not in values:
            raise ValueError("gold.selected_memory.value: not among the candidates")
        chosen = ids[list(values).index(right)]
    # Checked in one go: candidates that are built one by one take twice as long.
    return RetrievalSample.model_validate(
        {
            "benchmark_id": row["benchmark_id"],
            "session_id": row.get("session_id") or row["benchmark_id"],
            "query": row["input"]["query"],
            "candidates": [
                {"id": name, "value": value}
                for name, value in zip(ids, values.values(), strict=True)
            ],
            "gold": chosen,
            "told": row["input"].get("dialogue") or (),
        }
    )


@lru_cache(maxsize=16)
def _ids(count: int) -> tuple[str, ...]:
    width = len(str(count)) if count > 999 else 3
    return tuple(f"c{number:0{width}}" for number in range(1, count + 1))


def _said(item: Row, where: str) -> str:
    value = item["value"]
    if not isinstance(value, str) or not (said := value.strip()):
        raise ValueError(f"{where}: a memory's value must be a non-empty string")
    return shown_value(said)


def messages(sample: RetrievalSample) -> tuple[Mapping[str, str], ...]:
    """Render what an LLM is asked: candidates and query as JSON."""
    shown = {
        "candidates": [candidate.model_dump() for candidate in sample.candidates],
        "query": sample.query,
    }
    return chat_messages(PROMPT.text, shown)


def input_row(sample: RetrievalSample) -> dict[str, Any]:
    """Return what an external program is given: query and candidates, with local ids."""
    pool = [{"id": candidate.id, "value": candidate.value} for candidate in sample.candidates]
    return {
        "benchmark_id": sample.benchmark_id,
        "task": "task3",
        "input": {"query": sample.query, "candidate_memories": pool},
    }


def _for_class(sample: RetrievalSample) -> RetrievalSample:
    return sample.model_copy(update={"gold": None, "told": ()})


def _choices(sample: RetrievalSample) -> dict[str, list[str]]:
    return {"selected_memory_id": [candidate.id for candidate in sample.candidates]}


def read_answer(node: object) -> Read[dict[str, Any]]:
    """Read a system's choice tolerantly: `ranking`, ids from best to worst, may come with it.

    Raises:
        ValueError: If no memory is named.
    """
    given = {"selected_memory_id": node} if isinstance(node, str) else node
    if not isinstance(given, dict):
        raise ValueError("expected an object with `selected_memory_id`")
    order = _ranking_of(given)
    # Who ranks and names no choice has chosen what stands first.
    named = (*map(given.get, ("selected_memory_id", "memory_id", "id")), *order[:1])
    chosen = next(filter(None, named), None)
    if not isinstance(chosen, str) or not chosen.strip():
        raise ValueError("`selected_memory_id` is missing: name the id of one candidate")
    texts = {name: str(given.get(name) or "") for name in ("answer", "reason")}
    notes = ("a bare id",) if isinstance(node, str) else ()
    return Read({"selected_memory_id": chosen.strip(), **texts, "ranking": order}, notes)


def _ranking_of(given: Row) -> list[str]:
    ranking = given.get("ranking") or []
    if not isinstance(ranking, list) or not all(isinstance(name, str) for name in ranking):
        raise ValueError("`ranking` must be a list of ids")
    # An id that stands twice has its first rank.
    return list(dict.fromkeys(map(str.strip, ranking)))


def _choice_of(answer: Mapping[str, Any]) -> tuple[str, list[str]]:
    return answer["selected_memory_id"], answer.get("ranking") or []


def fits(sample: RetrievalSample, prediction: Row) -> None:
    """Check that a choice is among the candidates.

    Raises:
        ValueError: If it is not, or the ranking names something else.
    """
    known = {candidate.id for candidate in sample.candidates}
    named = [prediction["selected_memory_id"], *prediction["ranking"]]
    # What a memory found that is no candidate keeps its place in the ranking.
    others = (name for name in named if name not in known and not is_no_candidate(name))
    if (unknown := next(others, None)) is not None:
        what = f"selected_memory_id: '{unknown[:40]}' is not among the ids of the candidates"
        raise ValueError(what)


async def judge_prediction(
    sample: RetrievalSample, prediction: Prediction, judge: Judge, options: JudgingOptions
) -> dict[str, Any]:
    """Ask whether the memory was used in the answer, where there is one and the judge can tell."""
    # The verdict is fine without that: recall is counted from the choice, and needs no judge.
    question = _question(sample, prediction.prediction or {})
    verdict = verdict_row(judge, RUBRICS)
    if question is not None and RubricQuestion in judge.answers:
        verdict["used"] = (await judge.answer(question, about=sample.benchmark_id)).row()
    return verdict


def likely_prediction(sample: RetrievalSample) -> dict[str, Any]:
    """Return the choice of the gold memory, which is also the answer."""
    return {"selected_memory_id": sample.gold, "answer": _value(sample, sample.gold), "ranking": []}


def score(
    sample: RetrievalSample, prediction: Prediction, verdict: Row | None, judge: Judge
) -> Scored:
    """Score a choice; one that failed finds nothing and, where a judge could tell, uses nothing."""
    given = prediction.prediction or {}
    chosen, ranking = given.get("selected_memory_id"), given.get("ranking") or []
    scores = {"recall_at_1": float(chosen == sample.gold)}
    # A shorter ranking can't say whether the gold is among the first ten.
    ranked = len(ranking) >= min(10, len(sample.candidates))
    if ranked or verdict is None:
        scores |= _ranking_scores(ranking, sample.gold)
    counts = {"ranked": int(ranked), "candidates": len(sample.candidates)}
    used = (verdict or {}).get("used")
    if verdict is None and RubricQuestion in judge.answers:
        # It would have been asked: who fails must not be left out of the mean.
        scores[USED] = 0.0
    if used is not None:
        scores |= _use_scores(used)
        counts["asked"] = 1
        if used["outcome"] != "ok":
            counts["unchecked"] = 1
    details = {"chosen": _details(sample, chosen)} if chosen else {}
    return Scored(scores, counts, {**details, "gold": _details(sample, sample.gold)})


def _ranking_scores(ranking: Sequence[str], gold: str | None) -> dict[str, float]:
    rank = ranking.index(gold) + 1 if gold in ranking else None
    scores = {f"recall_at_{k}": float(rank is not None and rank <= k) for k in (5, 10)}
    return {**scores, "mrr": 1 / rank if rank is not None else 0.0}


def _use_scores(used: Row) -> dict[str, float]:
    # Nothing is known of an answer whose judgement failed: it is unscored, and not unused.
    if used["outcome"] != "ok":
        return {}
    return {USED: float(used["marks"]["met"]), **agreement_score(used)}


def _details(sample: RetrievalSample, name: str | None) -> dict[str, Any]:
    return {"id": name, "value": _value(sample, name)}


def _question(sample: RetrievalSample, given: Row) -> RubricQuestion | None:
    if not given.get("answer") or sample.gold is None:
        return None
    memory = _value(sample, sample.gold)
    return RubricQuestion(rubric(USED), sample.query, given["answer"], memory, ())


def _value(sample: RetrievalSample, name: str | None) -> str:
    return next((candidate.value for candidate in sample.candidates if candidate.id == name), "")


_FIRST_OF_RANKING = 5


def record_parts(record: AnsweredRecord) -> list[RecordPart]:
    """Show the query, gold and choice, the beginning of the ranking, and the answer."""
    answer, score = record.answer, record.score or {}
    values, ranking = _known_values(record), list(answer.get("ranking") or ())
    gold = getattr(record.sample, "gold", None) or (score.get("gold") or {}).get("id")
    sides = _gold_and_choice(gold, answer.get("selected_memory_id"), values)
    # A ranking of one is the choice again.
    first = []
    for name in ranking[:_FIRST_OF_RANKING] if len(ranking) > 1 else ():
        first.append(_side(name, values, "the gold" if name == gold else ""))
    return [
        Passage("Query", getattr(record.sample, "query", "")),
        Listed("Gold and choice", sides),
        Facts("Metrics", tuple(_facts(record, gold, ranking))),
        Listed(f"The first {len(first)} of the ranking", tuple(first)),
        Passage("Answer", str(answer.get("answer") or "")),
        Passage("Reason given", str(answer.get("reason") or "")),
    ]


def _gold_and_choice(
    gold: str | None, chosen: str | None, values: Mapping[str, str]
) -> tuple[Side, ...]:
    sides = [Side(gold, values.get(gold), "the gold")] if gold else []
    if chosen:
        right = ": correct" if chosen == gold else ": not the gold"
        sides.append(_side(chosen, values, f"chosen{right if gold else ''}"))
    return tuple(sides)


def _side(name: str, values: Mapping[str, str], detail: str = "") -> Side:
    """Show a candidate, or a place of a memory's ranking at which none was found."""
    if not is_no_candidate(name):
        return Side(name, values.get(name), detail)
    return Side("–", "not a candidate, or a duplicate of a higher hit", detail)


def _known_values(record: AnsweredRecord) -> dict[str, str]:
    """Return the values of candidates by id; gold and choice alone without the data."""
    values = {candidate.id: candidate.value for candidate in record.of_sample("candidates")}
    for name in ("gold", "chosen"):
        known = (record.score or {}).get(name)
        if known and known.get("id"):
            values[known["id"]] = known["value"]
    return values


def _facts(
    record: AnsweredRecord, gold: str | None, ranking: Sequence[str]
) -> Iterator[tuple[str, str]]:
    counts = (record.score or {}).get("counts", {})
    if size := len(record.of_sample("candidates")) or counts.get("candidates"):
        yield "pool", f"{size:,} candidates"
    if gold and len(ranking) > 1:
        yield "rank of the gold", _rank(gold, ranking)
    if used := (record.verdict or {}).get("used"):
        yield from rating_rows("memory used", used)


def _rank(gold: str, ranking: Sequence[str]) -> str:
    if gold not in ranking:
        return f"not among the {len(ranking)} ranked memories"
    return f"{ranking.index(gold) + 1} of {len(ranking)}"


def _wrong_choice(answer: ScoredAnswer) -> Rank:
    wrong = answer.judged and answer.value("recall_at_1") == 0
    return (-(answer.value("mrr") or 0.0), answer.count("candidates")) if wrong else None


def _unused(answer: ScoredAnswer) -> Rank:
    right = answer.judged and answer.value("recall_at_1") == 1
    return () if right and answer.value(USED) == 0 else None


def _right_choice(answer: ScoredAnswer) -> Rank:
    right = answer.judged and answer.value("recall_at_1") == 1
    return (answer.value(USED) or 0.0,) if right else None


HIGHLIGHTS = (
    FAILED,
    JUDGEMENT_FAILED,
    Highlight("wrong memory, gold ranked lowest", 7, _wrong_choice),
    Highlight("right memory, not used in the answer", 4, _unused),
    Highlight("right memory", 2, _right_choice),
)


def _bank(sample: RetrievalSample) -> tuple[Turn, ...]:
    """Return the candidates as a user dictates them, without the right one if it was told."""
    told = sample.gold if sample.told else None
    values = [candidate.value for candidate in sample.candidates if candidate.id != told]
    return tuple(Turn(role="user", text=value) for value in values)


def _history(sample: RetrievalSample) -> History:
    bank = _bank(sample)
    return History((sample.told, bank) if sample.told else (bank,))


def _probes(sample: RetrievalSample) -> tuple[Probe]:
    return (Probe(len(_history(sample).turns), sample.query),)


def _by_hits(
    sample: RetrievalSample, found: Sequence[Sequence[Remembered]], k: int
) -> dict[str, Any] | None:
    """Return the choice of the first hit, and a ranking of `k`; None where nothing was found."""
    if not found[0]:
        return None
    pool = {candidate.id: candidate.value for candidate in sample.candidates}
    ranking = ranking_of(found[0], pool, k)
    return {"selected_memory_id": ranking[0], "answer": "", "reason": "", "ranking": ranking}


def tracks(options: TaskOptions) -> tuple[Task, ...]:
    """Return one track for every pool size that is asked for."""
    wanted = SIZES if options.distractors == "all" else (int(options.distractors),)
    by_memory = MemoryProbes(_history, _probes, partial(_by_hits, k=options.k), lists=False)
    return tuple(
        Task(
            name="retrieval",
            track=f"task3_d{size}",
            prompt=PROMPT,
            answer=AnswerType(
                schema=RetrievalAnswer,
                read=read_answer,
                # The id comes first: where the text behind it is cut off, the choice is known.
                partial=True,
                decision=_choice_of,
                within=A_CHOICE,
            ),
            fits=fits,
            read_sample=read_sample,
            messages=messages,
            input_row=input_row,
            to_prediction=dict,
            judge=judge_prediction,
            likely=likely_prediction,
            score=score,
            metrics=METRICS,
            rubrics=RUBRICS,
            selects={"distractors": str(size)},
            public=PublicAnswers(
                texts=lambda answer: (answer["answer"], answer["reason"]),
                choice=_choice_of,
                gold=lambda sample: (("gold", _value(sample, sample.gold), ""),),
                schema=Choice,
            ),
            systems=SYSTEMS,
            asking=Asking(for_class=_for_class, choices=_choices),
            shown=Shown(
                title=f"retrieval@{size}",
                variant=str(size),
                record_parts=record_parts,
                highlights=HIGHLIGHTS,
            ),
            data=TaskData(folder=f"task3/d{size}", pool_size=size),
        ).answered_by(by_memory, options, "memory", "k")
        for size in wanted
    )
