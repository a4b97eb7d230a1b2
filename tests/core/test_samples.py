import json
import re
import unicodedata
from itertools import combinations
from typing import Any

import pytest

from alps.data.release import GOLD, INPUT, open_split, read_samples
from alps.rejection import is_rejected
from alps.schema import CANONICAL_LABELS, UNMAPPED, ExtractionSample, Memory
from alps.similarity import THRESHOLD, similarity
from alps.tasks import load_task
from tests.builders import TRACK

FOLDER = open_split("samples", None).track(TRACK)
SAMPLES: list[ExtractionSample] = list(read_samples(FOLDER, load_task("extraction").read_sample))
EACH = pytest.mark.parametrize(
    "sample", [pytest.param(sample, id=sample.benchmark_id) for sample in SAMPLES]
)


def rows(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (FOLDER / name).read_text(encoding="utf-8").splitlines()]


def user_text(sample: ExtractionSample) -> str:
    return "\n".join(turn.text for turn in sample.dialogue if turn.role == "user")


def language(sample: ExtractionSample) -> str:
    """Tell the language by script, and within Latin by letters that few languages have; code is
    left out.
    """
    letters = [
        c for c in re.sub(r"```.*?(```|\Z)", "", user_text(sample), flags=re.DOTALL) if c.isalpha()
    ]
    scripts = [unicodedata.name(c).split()[0] for c in letters]
    most = max(set(scripts), key=scripts.count)
    if most != "LATIN":
        return most
    counts = {
        "German": sum(c in "äöüß" for c in letters),
        "Spanish": sum(c in "ñáíóú" for c in letters),
    }
    marked = max(counts, key=lambda name: counts[name])
    return marked if counts[marked] > len(letters) / 200 else "English"


def test_there_are_enough_dialogues_and_every_one_has_gold():
    assert len(SAMPLES) >= 12
    assert all(sample.gold is not None for sample in SAMPLES)


def test_input_and_gold_stand_in_the_same_order():
    assert [row["benchmark_id"] for row in rows(INPUT)] == [
        row["benchmark_id"] for row in rows(GOLD)
    ]


def test_they_speak_at_least_four_languages_and_one_is_written_from_right_to_left():
    assert len({language(sample) for sample in SAMPLES}) >= 4
    assert len([s for s in SAMPLES if language(s) == "English"]) < len(SAMPLES)
    right_to_left = [
        sample
        for sample in SAMPLES
        if sum(unicodedata.bidirectional(c) in ("R", "AL") for c in user_text(sample))
        > len(user_text(sample)) / 2
    ]
    assert right_to_left


def test_ids_are_unique():
    for name in ("benchmark_id", "session_id"):
        assert len({getattr(sample, name) for sample in SAMPLES}) == len(SAMPLES)


def test_one_dialogue_holds_nothing_to_remember():
    assert [sample.gold for sample in SAMPLES].count(()) >= 1


def test_one_dialogue_begins_with_the_assistant():
    assert any(sample.dialogue[0].role == "assistant" for sample in SAMPLES)


def test_both_types_of_memory_and_most_of_the_taxonomy_occur():
    memories = [memory for sample in SAMPLES for memory in sample.gold or ()]
    assert {memory.type for memory in memories} == {"direct", "indirect"}
    assert len({memory.label for memory in memories} & set(CANONICAL_LABELS)) >= 20


@EACH
def test_a_dialogue_has_between_6_and_40_turns_and_none_is_blank(sample):
    assert 6 <= len(sample.dialogue) <= 40
    assert all(turn.text.strip() for turn in sample.dialogue)


@EACH
def test_gold_is_written_in_full(sample):
    (row,) = [row for row in rows(GOLD) if row["benchmark_id"] == sample.benchmark_id]
    assert tuple(Memory.model_validate(item) for item in row["gold"]["memory_items"]) == sample.gold


@EACH
def test_evidence_is_quoted_word_for_word_from_a_turn_of_the_user(sample):
    for memory in sample.gold:
        assert memory.evidence is not None, memory.value
        assert memory.evidence.session_id == sample.session_id
        turn = sample.dialogue[memory.evidence.utterance_index]
        assert turn.role == "user", memory.value
        assert memory.evidence.text.strip()
        assert memory.evidence.text in turn.text, memory.value


@EACH
def test_labels_are_canonical_or_unmapped_with_a_suggestion(sample):
    for memory in sample.gold:
        if memory.label == UNMAPPED:
            assert memory.label_suggestion
            assert memory.label_suggestion not in CANONICAL_LABELS
        else:
            assert memory.label in CANONICAL_LABELS
            assert memory.label_suggestion is None


@EACH
def test_confidence_lies_on_the_grid(sample):
    assert {memory.confidence for memory in sample.gold} <= {0.95, 0.8, 0.65, 0.5}


@EACH
def test_memories_have_a_type_and_an_id_of_their_own_and_none_is_marked_as_rejected(sample):
    assert len({memory.memory_id for memory in sample.gold}) == len(sample.gold)
    assert all(memory.type for memory in sample.gold)
    assert not any(is_rejected(memory.value) for memory in sample.gold)


@EACH
def test_no_two_memories_of_a_dialogue_say_nearly_the_same(sample):
    values = [memory.value for memory in sample.gold]
    assert [pair for pair in combinations(values, 2) if similarity(*pair) >= THRESHOLD] == []


@EACH
def test_input_rows_hold_the_dialogue_and_no_gold(sample):
    (row,) = [row for row in rows(INPUT) if row["benchmark_id"] == sample.benchmark_id]
    assert list(row["input"]) == ["dialogue"]
    shown = json.dumps(row, ensure_ascii=False)
    assert not [memory.value for memory in sample.gold if memory.value in shown]
