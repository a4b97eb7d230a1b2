"""Update: what an LLM need not say of an updated list, since the suite knows it."""

from typing import Any

from alps.schema import UpdatedMemory, UpdateSample
from alps.tasks.update import TASK
from tests.core.test_update import OLD, VIOLIN, answer, did, ratio, score, update_sample

ADDED = {
    **VIOLIN.model_dump(exclude={"memory_id", "evidence", "updated_at"}),
    "action": "add",
    "replaces": None,
    "turn": 1,
}


def read_for(sample: UpdateSample, *items: Any) -> list[UpdatedMemory]:
    answered = TASK.answer_to(sample)
    assert answered is not None
    return list(answered.read({"memory_items": list(items)}).value)


def test_what_only_names_an_old_memory_has_its_words():
    named = [{"action": "retain", "memory_id": "m1"}, {"action": "delete", "memory_id": "m2"}]
    moved = {**ADDED, "action": "modify", "replaces": "m3", "value": "Lives in Faro"}
    one, gone, new, added = read_for(update_sample(), *named, moved, ADDED)
    assert one == did(OLD[0], "retain")
    assert gone == did(OLD[1], "delete")
    assert (new.value, new.action, new.replaces) == ("Lives in Faro", "modify", "m3")
    assert len({item.memory_id for item in (one, gone, new, added)}) == 4
    assert added.evidence is not None
    assert (added.evidence.utterance_index, added.evidence.text) == (1, "")


def test_a_memory_that_is_written_out_keeps_the_words_that_it_has():
    (said,) = read_for(update_sample(), {**OLD[0].model_dump(), "value": "Has a cat"})
    assert said.value == "Has a cat"


def test_an_item_that_names_no_memory_there_is_is_left_out():
    kept = read_for(
        update_sample(),
        {"action": "retain", "memory_id": "m9"},
        {"action": "retain", "memory_id": "m4"},
        "Sings",
    )
    assert [item.value for item in kept] == ["Plays chess", "Sings"]


def test_named_memories_score_as_written_ones_do():
    names = [{"action": "retain", "memory_id": f"m{n}"} for n in (1, 3, 4)]
    nurse = {**ADDED, "action": "modify", "replaces": "m2", "value": "Teaches physics"}
    sample = update_sample()
    scored = score(sample, answer(*read_for(sample, *names, nurse, ADDED)))
    assert scored.scores["f1_changed"] == scored.scores["f1"] == 1.0
    assert ratio(scored, "lost") == 0
