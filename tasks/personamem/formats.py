"""Other formats of a question of PersonaMem than one choice: orders, free text, the authors' own.

`alps.tasks.personamem.likelihood` has one more, by log-probability.

- Orders: each order of the options is asked, and the answers are scored together. With rotations,
  or all orders, each option stands at each letter equally often, so a letter that is chosen more
  often than the others is chosen for its place.
- Free text: no options are shown, a judge says which one is met. What a model says by itself is
  told apart from what it recognises among four options.
- The authors' prompt: plain text, and a letter after `<final_answer>`, read by their parsers, for
  comparison with published figures. Both of their parsers look at the right letter: the newer one
  gives a reply two chances, and the older one calls "(a) I understand" wrong.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import permutations
from random import Random
from statistics import fmean
from typing import Any

from pydantic import BaseModel, ConfigDict

from alps.judges.base import Judge
from alps.judges.rubric import OPTION, OptionQuestion, rubric
from alps.llm.replies import looks_like_refusal
from alps.prompts import load_prompt
from alps.schema import Outcome, Prediction, TextAnswer
from alps.tasks.base import (
    AGREEMENT,
    Answer,
    Asking,
    JudgingOptions,
    Row,
    Scored,
    Task,
    agreement_score,
    chat_messages,
    verdict_row,
)
from alps.tasks.metrics import LargestExcess, Metric
from alps.tasks.personamem.release import LETTERS
from alps.tasks.personamem.results import PARSERS, read_replies
from alps.tasks.personamem.samples import (
    ChoiceSample,
    Letter,
    for_class,
    invalid_kind,
)
from alps.tasks.personamem.scores import METRICS, RESAMPLED, score, scored
from alps.tasks.utilization import TEXT, fits

Order = tuple[int, ...]
"""Which options of the file stand at a, b, c and d."""


class OrderedChoice(BaseModel):
    """What was chosen under one order, as an option of the file.

    Attributes:
        order: The letters that the file gives the options, in the order in which they were shown.
        choice: The letter that the file gives the chosen option; None for an invalid response.
        tied: The options that a baseline can't tell apart.
        outcome: Of this order's answer.
    """

    model_config = ConfigDict(extra="forbid")

    order: str
    choice: Letter | None
    tied: list[Letter] = []
    reason: str = ""
    outcome: Outcome = "ok"
    error: str | None = None

    @property
    def kind(self) -> str:
        """The kind of an invalid response; empty for others."""
        return "" if self.outcome == "ok" else invalid_kind(self.outcome, self.error)

    @property
    def options(self) -> list[Letter]:
        """The options that it names: one, several of a tie, or none."""
        return self.tied or ([] if self.choice is None else [self.choice])


class OrderedChoices(BaseModel):
    """A prediction under several orders: one choice each."""

    model_config = ConfigDict(extra="forbid")

    choices: list[OrderedChoice]


def orders_of(sample: ChoiceSample, n: int, seed: int) -> list[Order]:
    """Return the four rotations of the options, or all 24 orders, in a sequence that is drawn."""
    places = tuple(range(len(LETTERS)))
    rotations = [places[first:] + places[:first] for first in places]
    orders = rotations if n == len(rotations) else list(permutations(places))
    # A program that is asked them in turn can't tell the order of the file by being the first.
    Random(f"{seed} {sample.benchmark_id}").shuffle(orders)
    return orders


def variants(sample: ChoiceSample, *, n: int, seed: int) -> list[ChoiceSample]:
    """Return the question under each order, with nothing that tells which it is."""
    return [_in_order(sample, order) for order in orders_of(sample, n, seed)]


def _in_order(sample: ChoiceSample, order: Order) -> ChoiceSample:
    question = sample.question
    options = tuple(question.options[place] for place in order)
    return replace(
        sample, question=replace(question, options=options, gold=order.index(question.gold))
    )


def joined(sample: ChoiceSample, answers: Sequence[Prediction], *, n: int, seed: int) -> Prediction:
    """Return one prediction with what was chosen under every order; failed where all failed."""
    first, choices = answers[0], []
    for order, answer in zip(orders_of(sample, n, seed), answers, strict=True):
        choices.append(_choice(order, answer))
    answered = [answer for answer in answers if answer.outcome == "ok"]
    held = [answer.strict for answer in answers if answer.strict is not None]
    notes = [note for answer in answers for note in answer.notes]
    together = Prediction(
        benchmark_id=sample.benchmark_id,
        track=first.track,
        outcome=first.outcome,
        error=first.error,
        repaired=any(answer.repaired for answer in answers),
        truncated=any(answer.truncated for answer in answers),
        strict=all(held) if held else None,
        raw=_all_texts([answer.raw for answer in answers]),
        thought=_all_texts([answer.thought for answer in answers]),
        notes=tuple(notes),
    )
    if not answered:
        return together
    chosen = OrderedChoices(choices=choices).model_dump()
    return together.model_copy(update={"outcome": "ok", "error": None, "prediction": chosen})


def _choice(order: Order, answer: Prediction) -> OrderedChoice:
    in_file = dict(zip(LETTERS, _letters_of(order), strict=True))
    given = answer.prediction or {}
    fields = {
        "order": _letters_of(order),
        "choice": in_file.get(str(given.get("choice"))),
        "tied": [in_file[letter] for letter in given.get("tied", ())],
        "reason": given.get("reason") or "",
        "outcome": answer.outcome,
        "error": answer.error,
    }
    return OrderedChoice.model_validate(fields)


def _all_texts(texts: Sequence[str | None]) -> str | None:
    return None if not any(texts) else json.dumps(texts, ensure_ascii=False)


def fits_orders(sample: ChoiceSample, prediction: Row, *, n: int, seed: int) -> None:
    """Check that what was kept of an answer has one choice for each order.

    Raises:
        ValueError: If it is something else.
    """
    # One order's own answer is checked by its schema.
    if "choices" not in prediction:
        return
    given = [choice.order for choice in OrderedChoices.model_validate(prediction).choices]
    asked = [_letters_of(order) for order in orders_of(sample, n, seed)]
    if sorted(given) != sorted(asked):
        raise ValueError(f"choices: expected one for each of the {n} orders")


def _letters_of(order: Order) -> str:
    return "".join(LETTERS[place] for place in order)


def reasons(answer: Row) -> Sequence[str]:
    """Return what was written under each order."""
    return tuple(choice["reason"] for choice in answer["choices"])


def first_choice(answer: Row) -> tuple[str, Sequence[str]]:
    """Return what was chosen under the first order, as the file has it; empty where nothing was."""
    return answer["choices"][0]["choice"] or "", ()


def score_orders(
    sample: ChoiceSample, prediction: Prediction, verdict: Row | None, judge: Judge
) -> Scored:
    """Score a question by its share of orders with the right answer, and how far they agree."""
    if prediction.prediction is None:
        whole = scored(sample, prediction, 0.0, None)
        return replace(whole, scores={**whole.scores, "consistency": 0.0})
    choices = OrderedChoices.model_validate(prediction.prediction).choices
    credits = []
    for choice in choices:
        credits.append(sample.gold in choice.options and 1 / len(choice.options))
    chosen = Counter(choice.choice for choice in choices if choice.choice is not None)
    most = chosen.most_common(1)
    whole = scored(sample, prediction, fmean(credits), most[0][0] if most else None)
    named = {frozenset(choice.options) for choice in choices}
    consistent = float(len(named) == 1 and named != {frozenset()})
    letters = _letters(choices)
    shown = {f"letter_{letter}": n for letter, n in letters.items()}
    failed = Counter(f"invalid_{choice.kind}" for choice in choices if choice.kind)
    return replace(
        whole,
        scores={**whole.scores, "consistency": consistent},
        counts={**whole.counts, **shown, "letters": sum(letters.values()), **failed},
        details={**whole.details, "letters": letters},
    )


def _letters(choices: Sequence[OrderedChoice]) -> dict[str, int]:
    """Return how often each letter was chosen, as it was shown; ties choose none."""
    shown: Counter[str] = Counter()
    for choice in choices:
        if choice.choice is not None and len(choice.options) == 1:
            shown[LETTERS[choice.order.index(choice.choice)]] += 1
    return {letter: shown[letter] for letter in LETTERS}


ORDER_METRICS = (
    Metric("consistency", "same option under all orders", judged=False, inference=RESAMPLED),
    Metric(
        "letter_pull",
        "bias toward letters",
        LargestExcess(tuple((f"letter_{letter}", "letters") for letter in LETTERS)),
        judged=False,
        lower_is_better=True,
        lowest=0.0,
        highest=0.75,
    ),
)


def in_orders(task: Task, n: int, seed: int) -> Task:
    """Return the same task with each question asked under `n` orders of its options."""
    return replace(
        task,
        asking=replace(
            task.asking,
            variants=partial(variants, n=n, seed=seed),
            joined=partial(joined, n=n, seed=seed),
        ),
        fits=partial(fits_orders, n=n, seed=seed),
        score=score_orders,
        metrics=(*METRICS, *ORDER_METRICS),
        public=replace(
            task.public,
            longest=n * 2_500,
            texts=reasons,
            choice=first_choice,
            schema=OrderedChoices,
        ),
        conditions={**task.conditions, "orders": n},
    )


FREE_PROMPT = load_prompt("alps.tasks", "prompts", "personamem_free")
JUDGED_BY = rubric(OPTION)


async def judge_prediction(
    sample: ChoiceSample, prediction: Prediction, judge: Judge, options: JudgingOptions
) -> dict[str, Any]:
    """Ask which option the answer agrees with; the judge is not told which one is right."""
    question = OptionQuestion(
        sample.question.message,
        (prediction.prediction or {}).get("answer", ""),
        sample.question.options,
    )
    verdict = await judge.answer(question, about=sample.benchmark_id)
    return {**verdict_row(judge, (JUDGED_BY,)), **verdict.row()}


def score_free(
    sample: ChoiceSample, prediction: Prediction, verdict: Row | None, judge: Judge
) -> Scored:
    """Score one answer: right where it agrees with the gold; a failed one is wrong."""
    option = None if verdict is None else verdict.get("option")
    choice = None if option is None else LETTERS[option]
    whole = scored(sample, prediction, float(choice == sample.gold), choice)
    own = {} if verdict is None else {"no_option": float(choice is None)}
    return replace(whole, scores={**whole.scores, **own, **agreement_score(verdict)})


FREE_SYSTEMS: dict[str, Answer | str] = {
    "oracle": lambda sample: {"answer": sample.question.options[sample.question.gold]},
    "floor/parrot": lambda sample: {"answer": sample.question.message},
    "floor/generic": "embedded:generic",
}

NO_OPTION = Metric(
    "no_option",
    "agrees with no option",
    lower_is_better=True,
    optional=True,
    inference=RESAMPLED,
)


def free(task: Task) -> Task:
    """Return `task`, whose questions have options, as one in which they are not shown."""
    metrics = tuple(replace(metric, judged=True) for metric in task.metrics)

    def input_row(sample: ChoiceSample) -> dict[str, Any]:
        row = task.input_row(sample)
        shown = {name: part for name, part in row["input"].items() if name != "options"}
        return {**row, "input": shown}

    return replace(
        task,
        prompt=FREE_PROMPT,
        answer=TEXT,
        messages=lambda sample: chat_messages(FREE_PROMPT.text, input_row(sample)["input"]),
        input_row=input_row,
        to_prediction=lambda text: {"answer": text},
        fits=fits,
        rubrics=(JUDGED_BY,),
        judge=judge_prediction,
        likely=lambda sample: {"answer": sample.question.message},
        score=score_free,
        metrics=(*metrics, NO_OPTION, AGREEMENT),
        asking=Asking(plain=True, for_class=lambda sample: replace(for_class(sample), options=())),
        public=replace(
            task.public,
            longest=10_000,
            texts=lambda answer: (answer["answer"],),
            choice=None,
            schema=TextAnswer,
        ),
        systems=FREE_SYSTEMS,
        data=replace(task.data, read_results=None, check_results=None),
        conditions={**task.conditions, "answer": "free"},
    )


AUTHORS_PROMPT = load_prompt("alps.tasks", "prompts", "personamem_authors")


def authors_messages(sample: ChoiceSample) -> tuple[Mapping[str, str], ...]:
    """Render the history as a chat, and message, instructions and options as its last turn."""
    seen = sample.seen()
    turns = [{"role": turn.role, "content": turn.text} for turn in seen.turns]
    options = zip(LETTERS, sample.question.options, strict=True)
    listed = "\n".join(f"({letter}) {option}" for letter, option in options)
    parts = [*seen.memories, sample.question.message, AUTHORS_PROMPT.text, listed]
    return (*turns, {"role": "user", "content": "\n\n".join(parts)})


def score_as_authors(
    sample: ChoiceSample,
    prediction: Prediction,
    verdict: Row | None,
    judge: Judge,
    *,
    parser: str,
) -> Scored:
    """Score a reply as one of the authors' parsers does; trivial baselines choose as ever."""
    given = prediction.prediction or {}
    if "answer" not in given:
        return score(sample, prediction, verdict, judge)
    named = PARSERS[parser](given["answer"])
    chosen = next((letters for letters in named if len(letters) == 1), None)
    if sample.gold in named:
        return scored(sample, prediction, 1.0, sample.gold)
    invalid = "" if chosen is not None else _invalid(prediction, given["answer"])
    return scored(sample, prediction, 0.0, chosen, invalid=invalid)


def _invalid(prediction: Prediction, text: str) -> str:
    """Return what kind of invalid response a reply is that names no letter alone."""
    letters = PARSERS["authors"](text)
    if prediction.truncated:
        return "cut_off"
    if any(len(one) == 1 for one in letters):
        return "format"
    if any(letters):
        return "two_answers"
    return "refusal" if looks_like_refusal(text) else "no_answer"


def _authors_texts(task: Task, answer: Row) -> tuple[str, ...]:
    # Embedded systems choose a letter, as in the task itself.
    return (answer["answer"],) if "answer" in answer else tuple(task.public.texts(answer))


def as_authors(task: Task, parser: str) -> Task:
    """Return the task of choices as one that asks and reads as the authors do."""
    return replace(
        task,
        prompt=AUTHORS_PROMPT,
        asking=replace(task.asking, plain=True),
        answer=TEXT,
        messages=authors_messages,
        to_prediction=lambda text: {"answer": text},
        score=partial(score_as_authors, parser=parser),
        public=replace(
            task.public,
            longest=30_000,
            texts=partial(_authors_texts, task),
            choice=None,
            schema=TextAnswer,
        ),
        data=replace(task.data, read_results=read_replies),
        conditions={**task.conditions, "parser": parser},
    )
