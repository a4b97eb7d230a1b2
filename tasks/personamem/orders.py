"""Orders of a question's options: each is asked, and the answers are scored together.

With rotations, or all orders, each option stands at each letter equally often. So a letter that is
chosen more often than the others is chosen for its place.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import permutations
from random import Random
from statistics import fmean

from pydantic import BaseModel, ConfigDict

from alps.judges.base import Judge
from alps.schema import Outcome, Prediction
from alps.tasks.base import Row, Scored
from alps.tasks.metrics import Inference, LargestExcess, Metric
from alps.tasks.personamem.answers import Letter, invalid_kind
from alps.tasks.personamem.release import LETTERS
from alps.tasks.personamem.scores import ChoiceSample, Credit, scored

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
        raw=_texts([answer.raw for answer in answers]),
        thought=_texts([answer.thought for answer in answers]),
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


def _texts(texts: Sequence[str | None]) -> str | None:
    return None if not any(texts) else json.dumps(texts, ensure_ascii=False)


def fits(sample: ChoiceSample, prediction: Row, *, n: int, seed: int) -> None:
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


def score(
    sample: ChoiceSample, prediction: Prediction, verdict: Row | None, judge: Judge
) -> Scored:
    """Score a question by its share of orders with the right answer, and how far they agree."""
    if prediction.prediction is None:
        whole = scored(sample, prediction, Credit(0.0, None))
        return replace(whole, scores={**whole.scores, "consistency": 0.0})
    choices = OrderedChoices.model_validate(prediction.prediction).choices
    credits = []
    for choice in choices:
        credits.append(sample.gold in choice.options and 1 / len(choice.options))
    chosen = Counter(choice.choice for choice in choices if choice.choice is not None)
    most = chosen.most_common(1)
    whole = scored(sample, prediction, Credit(fmean(credits), most[0][0] if most else None))
    named = {frozenset(choice.options) for choice in choices}
    consistent = float(len(named) == 1 and named != {frozenset()})
    letters = _letters(choices)
    failed = Counter(f"invalid_{choice.kind}" for choice in choices if choice.kind)
    return replace(
        whole,
        scores={**whole.scores, "consistency": consistent},
        counts={**whole.counts, **_counts(letters), **failed},
        details={**whole.details, "letters": letters},
    )


def _letters(choices: Sequence[OrderedChoice]) -> dict[str, int]:
    """Return how often each letter was chosen, as it was shown; ties choose none."""
    shown: Counter[str] = Counter()
    for choice in choices:
        if choice.choice is not None and len(choice.options) == 1:
            shown[LETTERS[choice.order.index(choice.choice)]] += 1
    return {letter: shown[letter] for letter in LETTERS}


def _counts(letters: Mapping[str, int]) -> dict[str, float]:
    counts: dict[str, float] = {f"letter_{letter}": n for letter, n in letters.items()}
    return {**counts, "letters": sum(letters.values())}


_RESAMPLED = Inference(resampled=True)
METRICS = (
    Metric("consistency", "same option under all orders", judged=False, inference=_RESAMPLED),
    Metric(
        "letter_pull",
        "the letter's pull",
        LargestExcess(tuple((f"letter_{letter}", "letters") for letter in LETTERS)),
        judged=False,
        lower_is_better=True,
        lowest=0.0,
        highest=0.75,
    ),
)
