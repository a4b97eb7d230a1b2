import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from alps.errors import AlpsError, UsageError
from alps.ext.adapters.asking import Anonymous
from alps.judges.embedded import LexicalJudge
from alps.schema import CANONICAL_LABELS, ExtractionSample, Prediction
from alps.systems import is_local, resolve, resolve_system, resolve_systems
from alps.systems.base import Place
from alps.tasks import Task, load_task
from tests.builders import TRACK, extraction_sample, memories, memory

TASK = load_task("extraction")
GOLD = memories("Allergic to walnuts", "Lives in Porto", "Wants answers without tables")


def predict(model: str, sample: ExtractionSample) -> Prediction:
    return asyncio.run(resolve_system(model, TASK).answer(TASK, sample))


def values(prediction: Prediction) -> list[str]:
    assert prediction.prediction is not None
    return [item["value"] for item in prediction.prediction["memory_items"]]


def f1(prediction: Prediction, sample: ExtractionSample) -> float:
    judge = LexicalJudge()
    verdict = asyncio.run(TASK.judge(sample, prediction, judge))
    return TASK.score(sample, prediction, verdict, judge).scores["f1"]


@dataclass(frozen=True)
class Told:
    name: str
    place: Place
    settings: Mapping[str, Any] = field(default_factory=dict)

    async def answer(self, task: Task, sample: Any) -> Prediction:
        return Prediction(benchmark_id=sample.benchmark_id, track=task.track, outcome="invalid")


def test_a_system_is_told_where_it_works_and_what_it_raises_is_kept_there(tmp_path, monkeypatch):
    task = replace(TASK, systems={"mine": lambda sample: 1 / 0})
    resolve_system("mine", task, Place(folder=tmp_path)).answer_at_once(task, extraction_sample(()))
    assert "ZeroDivisionError" in (tmp_path / "tracebacks.log").read_text()
    monkeypatch.setattr(resolve, "brought", lambda kind: {"here:": f"{__name__}:Told"})
    words = {"timeout": 3.0, "folder": tmp_path, "env": ("A",), "id_key": "k"}
    made = resolve_systems("here:it", [TASK, TASK], **words)
    place = Place(3.0, tmp_path, ("A",), "k", (TASK, TASK))
    assert [(one.name, one.place) for one in made] == [("it", place)] * 2


@pytest.mark.parametrize("model", TASK.systems)
def test_an_embedded_system_answers_in_the_form_of_the_release(model):
    sample = extraction_sample(
        GOLD, "I live in Porto and I am allergic to walnuts.", benchmark_id="b42"
    )
    prediction = predict(model, sample)
    assert (prediction.benchmark_id, prediction.track, prediction.outcome) == ("b42", TRACK, "ok")
    read = TASK.answer.read(prediction.prediction)
    assert read.notes == ()
    assert TASK.to_prediction(read.value) == prediction.prediction
    assert is_local(model)


def test_the_empty_floor_says_nothing_and_the_others_say_the_same_to_everybody():
    samples = extraction_sample(GOLD, "I live in Porto."), extraction_sample((), "我养了一只猫。")
    floors = ("floor/empty", "floor/content-free", "floor/content-free-fluent")
    one, other = ([values(predict(name, sample)) for name in floors] for sample in samples)
    assert one == other
    assert one[:2] == [[], ["x", "x", "x"]]


def test_excerpts_are_the_users_own_words_whatever_the_gold_is():
    said = "I am vegetarian.\n  Grams, please. " + "And so on. " * 60
    answer = predict("floor/excerpts", extraction_sample(GOLD, said))
    (excerpt,) = values(answer)
    assert excerpt == " ".join(said.split())[:300]
    assert values(predict("floor/excerpts", extraction_sample([], said))) == [excerpt]


def test_the_content_free_floors_wear_labels_and_types_of_real_gold():
    prediction = predict("floor/content-free", extraction_sample(GOLD, "Hello"))
    items = prediction.prediction["memory_items"]
    assert {item["label"] for item in items} <= set(CANONICAL_LABELS)
    assert {item["type"] for item in items} == {"direct", "indirect"}


def test_the_oracle_answers_with_gold():
    sample = extraction_sample(GOLD, "Hello")
    assert values(predict("oracle", sample)) == [m.value for m in GOLD]
    assert f1(predict("oracle", sample), sample) == 1.0


def test_an_oracle_without_gold_says_so_in_one_line():
    with pytest.raises(AlpsError, match="gold"):
        predict("oracle", extraction_sample(None, "Hello"))


def test_the_rules_quote_the_turn_that_says_it_word_for_word():
    said = ("Hello there", "Well, I’m allergic to walnuts, and I live in Porto.", "我住在苏州。")
    sample = extraction_sample(None, *said)
    items = predict("rules", sample).prediction["memory_items"]
    assert len(items) >= 3
    for item in items:
        turn = sample.dialogue[item["evidence"]["utterance_index"]]
        assert turn.role == "user"
        assert item["evidence"]["text"] in turn.text
        assert item["evidence"]["session_id"] == "s1"


CLOSEST = {"rule": "rules", "floor/emty": "floor/empty", "Oracle": "oracle"}
CLOSEST |= {"floor/content_free": "floor/content-free"}


@pytest.mark.parametrize(("model", "closest"), CLOSEST.items(), ids=CLOSEST)
def test_a_system_that_does_not_exist_names_the_closest(model, closest):
    assert not is_local(model)
    told = f"model={model}: unknown system — did you mean '{closest}'"
    with pytest.raises(UsageError, match=told):
        resolve_system(model, TASK)


class Repeats:
    """Answers with the id that it was shown."""

    name, settings = "repeats", {}

    async def answer(self, task, sample):
        items = [memory(sample.benchmark_id).model_dump()]
        shown = {"outcome": "ok", "prediction": {"memory_items": items}, "raw": sample.session_id}
        return Prediction(benchmark_id=sample.benchmark_id, track=task.track, **shown)


def test_a_record_of_two_tracks_is_two_records_to_a_program_and_answers_have_the_ids_of_the_data():
    asked = []

    class Asked(Repeats):
        async def answer(self, task, sample):
            asked.append((sample.benchmark_id, sample.session_id))
            return await super().answer(task, sample)

    sample = extraction_sample(GOLD, "Hello", benchmark_id="b42")
    for track in (TRACK, "task4_ability1"):
        hidden = Anonymous(Asked(), key="data")
        answer = asyncio.run(hidden.answer(replace(TASK, track=track), sample))
        assert (answer.benchmark_id, answer.raw) == ("b42", sample.session_id)
        assert values(answer) == ["b42"]
    (first, session), (second, again) = asked
    assert len({first, second, "b42"}) == 3
    assert session == again != sample.session_id
