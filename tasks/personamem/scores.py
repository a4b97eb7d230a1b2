"""Samples of PersonaMem, and what became of them: scores, trivial rules, figures.

In the published 32k set the gold is a longest option in .505 of the questions, and a rule that
looks at type and length alone reaches .661, more than published memory systems. So every score
stands beside such rules, and a second headline counts the questions that the rule gets wrong.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

from alps.judges.base import Judge
from alps.schema import Prediction, Turn
from alps.tasks.base import Answer, Row, Scored
from alps.tasks.metrics import Inference, MacroRatio, Metric, OnBoards
from alps.tasks.personamem.answers import invalid_kind
from alps.tasks.personamem.figures import error_of
from alps.tasks.personamem.mentions import NEW_IDEAS, SEARCHED, by_mentions, is_generated
from alps.tasks.personamem.release import LETTERS, PersonaMem, Question
from alps.tasks.recall import Context

TYPES = {
    "recall_user_shared_facts": "latest preference acknowledged",
    "recalling_facts_mentioned_by_the_user": "fact recalled",
    "track_full_preference_evolution": "evolution of a preference",
    "recalling_the_reasons_behind_previous_updates": "reason of a change",
    NEW_IDEAS: "new idea",
    "generalizing_to_new_scenarios": "new scenario",
    "provide_preference_aligned_recommendations": "recommendation",
}
"""The seven types as the files name them, with what tables call them. The paper's names differ: its
"acknowledge latest user preferences" is `recall_user_shared_facts`, and its "recall user-shared
facts" is `recalling_facts_mentioned_by_the_user`."""

TYPES_OF_V2 = {
    "ask_to_forget": "preference to be forgotten",
    "neutral_preferences": "neutral preference",
    "stereotypical_pref": "stereotypical preference",
    "anti_stereotypical_pref": "preference against a stereotype",
    "therapy_background": "therapy",
    "health_and_medical_conditions": "health",
    "sensitive_info": "sensitive information",
}
"""The types of PersonaMem-v2, its `pref_type`."""
_ALL_TYPES = TYPES | TYPES_OF_V2


@dataclass(frozen=True)
class ChoiceSample:
    """One question; its history is read from the file when somebody asks for it.

    Attributes:
        benchmark_id: The id of the question.
        session_id: The persona: questions about one person, duplicates among them, are not
            independent.
        files: Where the history is.
        frequent: The letters that are right most often in the whole file.
        hidden: Whether the system turns with the user's biography are left out.
        shown: What a memory chose of the history; None for all of it.
    """

    benchmark_id: str
    session_id: str
    question: Question
    files: PersonaMem
    frequent: tuple[str, ...]
    hidden: bool = False
    shown: Context | None = None

    @property
    def gold(self) -> str:
        """The letter of the right option."""
        return LETTERS[self.question.gold]

    def history(self) -> tuple[Turn, ...]:
        """Read the history up to the question.

        Raises:
            DataError: If it is not in the files.
        """
        turns = self.files.history(self.question)
        if not self.hidden:
            return turns
        return tuple(turn for turn in turns if turn.role != "system")

    def seen(self) -> Context:
        """Return what a system is shown of the history."""
        return Context(self.history()) if self.shown is None else self.shown


@dataclass(frozen=True)
class ChoiceQuestion:
    """One question as a class of the user's is given it.

    Attributes:
        history: The turns that are shown.
        memories: What a memory returned as texts.
        options: The four answers, without letters.
    """

    benchmark_id: str
    session_id: str
    history: tuple[Turn, ...]
    memories: tuple[str, ...]
    message: str
    options: tuple[str, ...]


def for_class(sample: ChoiceSample) -> ChoiceQuestion:
    """Return what a class of the user's is given: nothing that says which option is right."""
    seen = sample.seen()
    return ChoiceQuestion(
        sample.benchmark_id,
        sample.session_id,
        seen.turns,
        seen.memories,
        sample.question.message,
        sample.question.options,
    )


@dataclass(frozen=True)
class Credit:
    """What an answer is worth, in [0, 1], and the letter it chooses; None where it chooses none."""

    value: float
    choice: str | None


def score(
    sample: ChoiceSample, prediction: Prediction, verdict: Row | None, judge: Judge
) -> Scored:
    """Score one choice; a failed prediction is wrong.

    A baseline that can't tell k options apart gets 1/k where the gold is among them.
    """
    given = prediction.prediction or {}
    tied = given.get("tied") or [given.get("choice")]
    value = 1 / len(tied) if sample.gold in tied else 0.0
    return scored(sample, prediction, Credit(value, given.get("choice")))


def scored(
    sample: ChoiceSample, prediction: Prediction, credit: Credit, *, invalid: str = ""
) -> Scored:
    """Return the scores of an answer of this worth, or of the kind `invalid`.

    The counts split questions by whether the gold is among the picks of the length rule.
    """
    kind, value = sample.question.type, credit.value
    leaked = float(sample.question.gold in by_length_and_type(sample.question))
    scores = {"accuracy": value, kind: value}
    if not leaked:
        scores["leak_adjusted"] = value
    if is_generated(sample.question):
        scores["search" if kind in SEARCHED else "understanding"] = value
    counts = {
        f"{kind}_n": 1.0,
        f"{kind}_hits": value,
        f"{kind}_leaked_n": leaked,
        f"{kind}_leaked_hits": leaked * value,
        f"{kind}_unleaked_n": 1 - leaked,
        f"{kind}_unleaked_hits": (1 - leaked) * value,
    }
    details = {"choice": credit.choice, "gold": sample.gold, "type": kind}
    if prediction.outcome != "ok":
        invalid = invalid_kind(prediction.outcome, prediction.error)
    if invalid:
        counts[f"invalid_{invalid}"], details["invalid"] = 1.0, invalid
    if credit.choice != sample.gold:
        kinds = sample.files.kinds_of(sample.question)
        details["error"] = error_of(invalid or None, credit.choice, kinds)
    question = sample.question
    if question.who:
        details["who"] = question.who
    same = (question.persona, question.topic, question.message)
    return Scored(scores, counts, details, question=same)


def by_length_and_type(question: Question) -> list[int]:
    """Return the longest options, or the shortest of a question for new ideas.

    The strongest rule known on the published set: micro .661, macro .729 at 32k.
    """
    return _extreme(question, shortest=question.type == NEW_IDEAS)


def _extreme(question: Question, *, shortest: bool = False) -> list[int]:
    lengths = [len(option) for option in question.options]
    wanted = min(lengths) if shortest else max(lengths)
    return [place for place, length in enumerate(lengths) if length == wanted]


def _most_words(question: Question) -> list[int]:
    asked = set(question.message.casefold().split())
    shared = [len(asked & set(option.casefold().split())) for option in question.options]
    return [place for place, count in enumerate(shared) if count == max(shared)]


def _random_place(question: Question) -> list[int]:
    return [sha256(question.id.encode()).digest()[0] % len(LETTERS)]


def _answered(places: Sequence[int]) -> dict[str, Any]:
    letters = [LETTERS[place] for place in places]
    return {"choice": letters[0], "reason": "", "tied": letters}


SYSTEMS: dict[str, Answer | str] = {
    "rules": "baselines:best_told_option",
    "oracle": lambda sample: _answered([sample.question.gold]),
    # No baseline that stands in every run: who verifies a submission has no histories.
    "mentions": lambda sample: _answered(by_mentions(sample.files, sample.question)),
    "floor/longest": lambda sample: _answered(_extreme(sample.question)),
    "floor/shortest": lambda sample: _answered(_extreme(sample.question, shortest=True)),
    "floor/length-by-type": lambda sample: _answered(by_length_and_type(sample.question)),
    "floor/frequent-letter": lambda sample: _answered(
        [LETTERS.index(letter) for letter in sample.frequent]
    ),
    "floor/shared-words": lambda sample: _answered(_most_words(sample.question)),
    "floor/random": lambda sample: _answered(_random_place(sample.question)),
}

_PER_TYPE = tuple(((f"{kind}_hits", f"{kind}_n"),) for kind in _ALL_TYPES)
_HALVES = tuple(
    ((f"{kind}_leaked_hits", f"{kind}_leaked_n"), (f"{kind}_unleaked_hits", f"{kind}_unleaked_n"))
    for kind in _ALL_TYPES
)
_FIGURE = Metric(
    "", "", judged=False, inference=Inference(resampled=True, baseline_differences=True)
)
_OF_TYPES = Metric("", "", judged=False, optional=True, inference=Inference(resampled=True))
METRICS = (
    replace(
        _FIGURE,
        name="accuracy",
        title="accuracy",
        headline=True,
        inference=replace(_FIGURE.inference, sign_test=True),
        on_boards=OnBoards(
            companions=(
                *("macro_accuracy", "leak_adjusted", "length_balanced"),
                *("understanding", "search"),
            )
        ),
    ),
    replace(_FIGURE, name="macro_accuracy", title="mean over types", value=MacroRatio(_PER_TYPE)),
    replace(_FIGURE, name="leak_adjusted", title="accuracy where the length rule is wrong"),
    replace(
        _FIGURE,
        name="length_balanced",
        title="accuracy, length rule balanced",
        value=MacroRatio(_HALVES),
    ),
    # Of generated users alone: what a count of mentions solves is no understanding.
    replace(_OF_TYPES, name="understanding", title="accuracy, types to understand"),
    replace(_OF_TYPES, name="search", title="accuracy, types that a search solves"),
    *(replace(_OF_TYPES, name=kind, title=f"  {title}") for kind, title in _ALL_TYPES.items()),
)
