import json
import re
import unicodedata
from collections import Counter
from itertools import combinations

import pytest

from alps.data.release import RowPair
from alps.schema import CANONICAL_LABELS
from alps.similarity import THRESHOLD, similarity
from tests.ability_rows import dialogue, gold, pairs, target, user_text

INTERACTION = "Preferences/Interaction_Preferences"
ABILITIES = ("ability1", "ability2")
PAIRS: dict[str, list[RowPair]] = {ability: pairs(ability) for ability in ABILITIES}
ALL = [pair for pairs in PAIRS.values() for pair in pairs]
EACH = pytest.mark.parametrize(
    "pair", [pytest.param(pair, id=pair.input["benchmark_id"]) for pair in ALL]
)
PER_ABILITY = pytest.mark.parametrize("ability", ABILITIES)

FUNCTION_WORDS = {
    "English": (
        "the a and my to is it for what with should of how i'm you this that on which there from"
    ),
    "German": "ich und der die das nicht wie mit von für wir uns seit bitte im bis",
    "Spanish": "el los las por qué que se me y para en cuántos tengo este",
    "French": "le les la notre vient par quoi où avec je tu pour leur mail dit nous vous",
    "Portuguese": "o da que minha eu um uma pouco todo pra até acordo cartão não",
}


def query(pair: RowPair) -> str:
    return str(pair.input["input"]["query"])


def language(text: str) -> str:
    """Tell the language by script, and within Latin by the commonest function words; code is left
    out.
    """
    bare = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    scripts = Counter(unicodedata.name(c).split()[0] for c in bare if c.isalpha())
    if scripts["HIRAGANA"] + scripts["KATAKANA"] > scripts["CJK"] / 4:
        return "Japanese"
    most = scripts.most_common(1)[0][0]
    if most != "LATIN":
        return most
    words = Counter(re.findall(r"[^\W\d_]+(?:'[^\W\d_]+)?", bare.lower()))
    return max(
        FUNCTION_WORDS, key=lambda name: sum(words[word] for word in FUNCTION_WORDS[name].split())
    )


def pieces(text: str) -> set[str]:
    """Return what a text is about: words of four letters or more, and pairs of characters where
    there are no spaces.
    """
    folded = text.casefold()
    unspaced = re.findall(r"[\u3040-\u30ff\u3400-\u9fff]+", folded)
    words = re.findall(r"[^\W_\u3040-\u30ff\u3400-\u9fff]{4,}", folded)
    return set(words) | {run[i : i + 2] for run in unspaced for i in range(len(run) - 1)}


def test_preferences_come_in_both_kinds_and_personas_in_neither():
    labels = [target(pair)["label"] for pair in PAIRS["ability2"]]
    assert labels.count(INTERACTION) >= 9
    assert len(labels) - labels.count(INTERACTION) >= 9
    assert INTERACTION not in [target(pair)["label"] for pair in PAIRS["ability1"]]


def test_the_kinds_are_mixed_so_that_ids_do_not_tell_them():
    kinds = [target(pair)["label"] == INTERACTION for pair in PAIRS["ability2"]]
    assert kinds not in (sorted(kinds), sorted(kinds, reverse=True))


@PER_ABILITY
def test_the_target_does_not_always_stand_at_the_same_place(ability):
    assert len({gold(pair)["memory_key"] for pair in PAIRS[ability]}) >= 3


@PER_ABILITY
def test_at_least_four_records_are_not_english(ability):
    found = [language(user_text(pair)) for pair in PAIRS[ability]]
    assert len([name for name in found if name != "English"]) >= 4
    assert len(set(found)) >= 4


@EACH
def test_query_and_dialogue_speak_one_language_and_values_are_english(pair):
    assert language(query(pair)) == language(user_text(pair))
    for memory in gold(pair)["extracted_memory"]:
        assert all(unicodedata.name(c).startswith("LATIN") for c in memory["value"] if c.isalpha())


def test_no_person_no_query_and_no_dialogue_stands_twice():
    for name in ("benchmark_id", "session_id"):
        assert len({pair.input[name] for pair in ALL}) == len(ALL)
    assert len({query(pair) for pair in ALL}) == len(ALL)
    turns = Counter(turn.text for pair in ALL for turn in dialogue(pair) if len(turn.text) > 40)
    assert [text for text, count in turns.items() if count > 1] == []


def test_no_two_queries_and_no_two_targets_are_nearly_the_same():
    for texts in ([query(pair) for pair in ALL], [target(pair)["value"] for pair in ALL]):
        assert [both for both in combinations(texts, 2) if similarity(*both) >= THRESHOLD] == []


@EACH
def test_the_dialogue_has_between_6_and_20_turns_and_is_the_same_everywhere(pair):
    shown = pair.input["input"]["model_input"]["dialogue_history"]
    assert 6 <= len(shown) <= 20
    assert all(turn.text.strip() for turn in dialogue(pair))
    assert (
        pair.input["input"]["audit_context"]["conversation"] == shown == gold(pair)["conversation"]
    )


@EACH
def test_the_query_is_the_same_everywhere_and_comes_after_the_dialogue(pair):
    text = query(pair)
    assert pair.input["input"]["model_input"]["query"] == text
    assert pair.input["input"]["queries"] == [
        {"query_id": f"{pair.input['benchmark_id']}:1", "query": text}
    ]
    assert text not in [turn.text for turn in dialogue(pair)]


@EACH
def test_the_target_is_one_of_two_to_six_memories_that_differ(pair):
    memories = gold(pair)["extracted_memory"]
    assert 2 <= len(memories) <= 6
    assert [memory["memory_id"] for memory in memories] == [
        f"m{n}" for n in range(1, len(memories) + 1)
    ]
    assert all(list(memory) == ["memory_id", "value", "label"] for memory in memories)
    assert {memory["label"] for memory in memories} <= set(CANONICAL_LABELS)
    chosen = {name: part for name, part in target(pair).items() if name != "evidence"}
    assert chosen in memories
    assert gold(pair)["memory_key"] == chosen["memory_id"]
    values = [memory["value"] for memory in memories]
    assert [both for both in combinations(values, 2) if similarity(*both) >= THRESHOLD] == []


@EACH
def test_the_target_is_said_in_one_user_turn_that_is_not_the_last(pair):
    evidence = target(pair)["evidence"]
    assert list(evidence) == ["session_id", "utterance_index", "text"]
    assert evidence["session_id"] == pair.input["session_id"]
    turns = dialogue(pair)
    index = evidence["utterance_index"]
    assert turns[index].role == "user"
    assert evidence["text"].strip()
    assert [n for n, turn in enumerate(turns) if evidence["text"] in turn.text] == [index]
    assert any(turn.role == "user" for turn in turns[index + 1 :])


@EACH
def test_the_query_does_not_repeat_the_memory(pair):
    asked = pieces(query(pair))
    for told in (target(pair)["value"], target(pair)["evidence"]["text"]):
        said = pieces(told)
        assert len(asked & said) <= max(1, len(said) / 5), asked & said
        assert similarity(query(pair), told) < THRESHOLD / 2


@EACH
def test_input_rows_hold_no_gold(pair):
    shown = json.dumps(pair.input, ensure_ascii=False)
    assert not [memory for memory in gold(pair)["extracted_memory"] if memory["value"] in shown]
    assert "selected_memory" not in shown
    assert pair.input["stratum"] not in CANONICAL_LABELS
