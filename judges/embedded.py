"""Judges by name, and the embedded ones: lexical, by embeddings, and two constant ones.

Embedded judges are deterministic and free. The lexical judge and the semantic one, which needs `pip
install 'alps-eval[minilm]'`, tell «same» from «unrelated» and nothing between, so scores that need
another relation are unscored under them. Of options the lexical judge names the one whose own words
an answer has; the semantic one reads English, and takes a negation for nearly the same. How far the
lexical one can be trusted is measured against the recorded pair reviews of the AlpsBench sample:
see `AGREEMENT`. The constant judges show what an agreement or a score owes to no judgement at all.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from alps.errors import UsageError, closest
from alps.extension import brought, made
from alps.folders import typed_path
from alps.judges.base import Judge, Judgement, MatchQuestion, Pair, Question, Relation
from alps.judges.rubric import (
    OptionQuestion,
    OptionVerdict,
    Rating,
    Rubric,
    RubricQuestion,
    enforce,
)
from alps.similarity import THRESHOLD, VERSION, features, similar_pairs

if TYPE_CHECKING:
    from alps.llm.types import Completes

AGREEMENT = (
    "kappa .51 [.41, .60] with recorded LLM verdicts on 362 pairs; .21 [.11, .33] on the 216 pairs "
    "with different texts"
)
"""Cross-validated by session, with clustered 95 % intervals; measured by `bench/lexical_judge.py`.
"""
# Another share raises `similarity.VERSION`, by which the fingerprint of the lexical judge tells.
AGREES = 0.5
"""The share of an option's own words from which an answer that holds them agrees with it."""


class EmbeddedJudge:
    """What embedded judges share: they make no calls, and read no rubrics."""

    fingerprint: Mapping[str, Any]
    answers: frozenset[type[Question[Any]]] = frozenset({MatchQuestion})
    relations: frozenset[Relation] = frozenset({"same"})
    comparable = False

    def on(self, client: "Completes") -> Self:
        """Return itself."""
        return self

    def under(self, purpose: str) -> Self:
        """Return itself."""
        return self

    def fingerprint_for(self, rubrics: Sequence[Rubric]) -> Mapping[str, Any]:
        """Return the fingerprint, whatever the rubrics."""
        return self.fingerprint


class LexicalJudge(EmbeddedJudge):
    """Pairs values whose similarity reaches `THRESHOLD`; labels and types are never looked at."""

    name = "lexical"
    answers: frozenset[type[Question[Any]]] = frozenset({MatchQuestion, OptionQuestion})

    def __init__(self) -> None:
        self.fingerprint: Mapping[str, Any] = {
            "judge": "lexical",
            "threshold": THRESHOLD,
            "version": VERSION,
        }

    async def answer(self, question: Question[Any], *, about: str) -> Any:
        """Name every pair whose similarity reaches the threshold, or the option that is named."""
        if isinstance(question, OptionQuestion):
            return _closest_option(question)
        if not isinstance(question, MatchQuestion):
            return question.refused()
        gold = [item.value for item in question.gold]
        predicted = [item.value for item in question.predicted]
        pairs = tuple(
            Pair(row, column, "same", f"lexical similarity {strength:.2f}", strength)
            for row, column, strength in similar_pairs(gold, predicted, THRESHOLD)
        )
        return Judgement("ok", pairs)


def _closest_option(question: OptionQuestion) -> OptionVerdict:
    """Name the option of whose own words the answer has the largest share, from `AGREES` on.

    Words of all options tell nothing. A tie is no agreement. An answer that is an option, word for
    word, agrees with it.
    """
    answer, options = features(question.answer), list(map(features, question.options))
    common = set(options[0].content).intersection(*(option.content for option in options[1:]))
    same = [place for place, option in enumerate(options) if option.folded == answer.folded]
    if len(same) == 1:
        return OptionVerdict("ok", same[0], "word for word")
    shares = []
    for option in options:
        own = {word: n for word, n in option.content.items() if word not in common}
        shares.append(_share(own, answer.content))
    best = max(shares)
    if best < AGREES or shares.count(best) > 1:
        return OptionVerdict("ok", reason=f"no option is closest (largest share {best:.2f})")
    return OptionVerdict(
        "ok", shares.index(best), f"{best:.2f} of the option's own words are in the answer"
    )


def _share(own: Mapping[str, float], known: Mapping[str, float]) -> float:
    whole = sum(own.values())
    shared = sum(min(weight, known[piece]) for piece, weight in own.items() if piece in known)
    return round(shared / whole, 9) if whole else 0.0


# Raised with every change of a verdict: it stands in the fingerprint.
MINILM_VERSION = 1
MINILM_THRESHOLD = 0.75
"""The cosine from which two values count as the same: that of `community_detection` in
sentence-transformers, whose published example groups paraphrases with this very model. It was not
chosen on the verdicts that its agreement is measured on.
"""
MINILM_AGREEMENT = (
    "kappa .45 [.35, .54] with recorded LLM verdicts on 362 pairs; .21 [.07, .34] on the 216 pairs "
    "with different texts"
)
"""With clustered 95 % intervals; measured by `bench/lexical_judge.py`."""


class MiniLMJudge(EmbeddedJudge):
    """Pairs values whose embeddings have a cosine of at least `MINILM_THRESHOLD`.

    Raises:
        UsageError: If the extra is not installed.
    """

    name = "minilm"

    def __init__(self) -> None:
        from alps.embeddings import MINILM

        self.fingerprint: Mapping[str, Any] = {
            "judge": self.name,
            "model": MINILM.model,
            "package": MINILM.version(),
            "threshold": MINILM_THRESHOLD,
            "version": MINILM_VERSION,
        }

    async def answer(self, question: Question[Any], *, about: str) -> Any:
        """Name every pair whose cosine reaches the threshold."""
        if not isinstance(question, MatchQuestion):
            return question.refused()
        # Here, as whoever asks for a judge by its name need not load numpy.
        import numpy as np

        from alps.embeddings import DECIMALS, MINILM

        gold = MINILM.embed([item.value for item in question.gold])
        predicted = MINILM.embed([item.value for item in question.predicted])
        cosines = np.round(gold.astype(np.float64) @ predicted.T.astype(np.float64), DECIMALS)
        pairs = []
        for row, column in np.argwhere(cosines >= MINILM_THRESHOLD).tolist():
            strength = float(cosines[row, column])
            reason = f"cosine {strength:.2f}"
            pairs.append(Pair(row, column, "same", reason, strength))
        return Judgement("ok", tuple(pairs))


ALWAYS_YES, ALWAYS_NO = "always-yes", "always-no"
CONSTANT_JUDGES = (ALWAYS_YES, ALWAYS_NO)


class ConstantJudge(EmbeddedJudge):
    """Says `always-yes` or `always-no` of each pair and mark, and names the first option or none.

    The hard rules of a rubric bind it as they bind any judge.
    """

    answers: frozenset[type[Question[Any]]] = frozenset(
        {MatchQuestion, RubricQuestion, OptionQuestion}
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.fingerprint: Mapping[str, Any] = {"judge": name}

    async def answer(self, question: Question[Any], *, about: str) -> Any:
        """Say it of every pair, or of every mark."""
        yes = self.name == ALWAYS_YES
        if isinstance(question, RubricQuestion):
            scale = question.rubric.scale
            marks = dict.fromkeys(question.rubric.marks, int(scale[-1 if yes else 0]))
            return enforce(Rating("ok", marks, self.name), question)
        if isinstance(question, OptionQuestion):
            return OptionVerdict("ok", 0 if yes else None, self.name)
        if not isinstance(question, MatchQuestion):
            return question.refused()
        pairs = []
        for gold in range(len(question.gold) if yes else 0):
            for predicted in range(len(question.predicted)):
                pairs.append(Pair(gold, predicted, "same", self.name, 1.0))
        return Judgement("ok", tuple(pairs))


EMBEDDED_JUDGES = ("lexical", "minilm")
AGREEMENTS: Mapping[str, str] = {"lexical": AGREEMENT, "minilm": MINILM_AGREEMENT}
"""How far embedded judges can be trusted, as it was measured."""
RECORDED = "recorded:"


def is_embedded_judge(name: str) -> bool:
    """Tell whether `name` is a judge that needs no LLM client."""
    embedded = name in (*EMBEDDED_JUDGES, *CONSTANT_JUDGES)
    return embedded or name.startswith(beginnings_of_judges())


def beginnings_of_judges() -> tuple[str, ...]:
    """Return how the names of judges begin that say what they read."""
    return tuple(dict.fromkeys((RECORDED, *brought("judges"))))


def embedded_judge(name: str) -> Judge:
    """Return the embedded judge or an extension's judge of that name.

    Raises:
        UsageError: If there is none, or it needs an extra that is not installed.
        DataError: If what it reads can't be read.
    """
    for start, where in brought("judges").items():
        if name.startswith(start):
            judge: Judge = made(where, Judge, typed_path(name.removeprefix(start)))
            return judge
    if name == "lexical":
        return LexicalJudge()
    if name == "minilm":
        return MiniLMJudge()
    if name in CONSTANT_JUDGES:
        return ConstantJudge(name)
    hint, known = closest(name, EMBEDDED_JUDGES), ", ".join(EMBEDDED_JUDGES)
    raise UsageError(f"judge={name}: unknown judge{hint} (built-in: {known})")
