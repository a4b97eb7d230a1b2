import asyncio
import json
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from alps.errors import AlpsError, DataError, UsageError
from alps.ext.adapters.anonymous import Anonymous
from alps.judges.embedded import LexicalJudge
from alps.schema import CANONICAL_LABELS, ExtractionSample, Prediction
from alps.systems import is_local, resolve, resolve_system, resolve_systems
from alps.systems.base import Place
from alps.tasks import load_task
from tests.builders import TRACK, extraction_sample, heard, memories, memory

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


def test_a_system_is_told_where_it_works_and_what_it_raises_is_kept_there(tmp_path, monkeypatch):
    task = replace(TASK, systems={"mine": lambda sample: 1 / 0})
    resolve_system("mine", task, Place(folder=tmp_path)).answer_at_once(task, extraction_sample(()))
    assert "ZeroDivisionError" in (tmp_path / "tracebacks.log").read_text()
    monkeypatch.setattr(resolve, "brought", lambda kind: {"here:": "a:b"})
    monkeypatch.setattr(resolve, "load", lambda where: lambda name, place: (name, place))
    words = {"timeout": 3.0, "folder": tmp_path, "env": ("A",), "id_key": "k"}
    made = resolve_systems("here:it", [TASK, TASK], **words)
    assert made == (("it", Place(3.0, tmp_path, ("A",), "k", (TASK, TASK))),) * 2


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


def recorded(folder: Path, *rows: dict[str, Any] | str) -> str:
    path = folder / "predictions.jsonl"
    text = "".join(
        (row if isinstance(row, str) else json.dumps(row, ensure_ascii=False)) + "\n"
        for row in rows
    )
    path.write_text(text, encoding="utf-8")
    return f"predictions:{path}"


def ask(folder: Path, *rows: dict[str, Any] | str, benchmark_id: str = "b1") -> Prediction:
    return predict(
        recorded(folder, *rows), extraction_sample(GOLD, "Hello", benchmark_id=benchmark_id)
    )


def row_of(name: str, *said: str) -> dict[str, Any]:
    return {"benchmark_id": name, "memory_items": [m.model_dump() for m in memories(*said)]}


def test_recorded_predictions_are_joined_by_id(tmp_path):
    rows = [row_of("b2", "of b2"), row_of("b1", "of b1")]
    assert values(ask(tmp_path, *rows)) == ["of b1"]
    assert values(ask(tmp_path, *rows, benchmark_id="b2")) == ["of b2"]


def test_recorded_predictions_are_read_tolerantly_with_their_notes(tmp_path):
    noted = [{"value": "Owns a cat", "type": "user"}]
    prediction = ask(tmp_path, {"benchmark_id": "b1", "memories": noted})
    assert (values(prediction), prediction.outcome) == (["Owns a cat"], "ok")
    assert "the list was under `memories`" in prediction.notes
    nothing = ask(tmp_path, {"benchmark_id": "b1", "memory_items": []})
    assert (values(nothing), nothing.outcome) == ([], "ok")


@pytest.mark.parametrize(
    ("raw", "outcome"), [(None, "empty"), ("", "empty"), ('{"memory_items": []}', "ok")]
)
def test_a_record_of_the_authors_without_an_output_is_an_empty_answer_and_no_empty_list(
    tmp_path, raw, outcome
):
    record = {"benchmark_id": "b1", "model_output": {"raw_output": raw, "memory_items": []}}
    assert ask(tmp_path, record).outcome == outcome


def test_a_record_without_a_row_is_an_empty_answer_that_says_so(tmp_path):
    prediction = ask(tmp_path, row_of("another", "v"))
    assert (prediction.benchmark_id, prediction.outcome) == ("b1", "empty")
    assert prediction.prediction is None
    assert "predictions.jsonl" in prediction.error


FAILED = {"benchmark_id": "b1", "track": TRACK}
NOTED = {"repaired": True, "notes": ("a code fence",), "raw": "…"}
KEPT = {
    "heard": heard(memory("Owns a cat")).model_copy(update=NOTED),
    "refused": Prediction(**FAILED, outcome="refused", raw="I can't", error="the model declined"),
    "not heard": Prediction(**FAILED, outcome="transport", error="no answer"),
}


@pytest.mark.parametrize("row", KEPT.values(), ids=KEPT)
def test_a_row_of_a_run_is_taken_as_it_is(tmp_path, row):
    assert ask(tmp_path, row.model_dump()) == row


B1 = {"benchmark_id": "b1"}
BAD_ROWS: dict[str, tuple[Any, str]] = {
    "no JSON": ("{not json", "not a JSON object"),
    "a list": ("[]", "not a JSON object"),
    "no id": ({"memory_items": []}, "benchmark_id: is missing"),
    "an id that is a number": ({**B1, "benchmark_id": 3}, "benchmark_id: must be a string"),
    "an id that stands twice": (row_of("b0"), "benchmark_id: 'b0' appears twice"),
    "no list": ({**B1, "memory_items": None}, "memory_items"),
    "no values": ({**B1, "memory_items": [{"label": "x"}]}, "none of the 1 items"),
    "an unknown outcome": ({**B1, "outcome": "splendid"}, "outcome: "),
    "an unknown field": ({**B1, "outcome": "ok", "luck": 1}, "luck: "),
    "heard, without an answer": ({**B1, "outcome": "ok", "prediction": None}, "prediction"),
}


@pytest.mark.parametrize(("row", "problem"), BAD_ROWS.values(), ids=BAD_ROWS)
def test_a_bad_row_is_named_with_its_file_its_line_and_its_field(tmp_path, row, problem):
    with pytest.raises(DataError) as caught:
        ask(tmp_path, row_of("b0"), row)
    place = f"{tmp_path / 'predictions.jsonl'}, line 2"
    assert str(caught.value).startswith(place)
    assert problem in str(caught.value).removeprefix(place)


def test_a_row_of_a_run_whose_memories_lack_fields_is_read_or_named_but_no_crash(tmp_path):
    row = {**B1, "outcome": "ok", "prediction": {"memory_items": [{"value": "Lives in Porto"}]}}
    with suppress(DataError):
        assert f1(ask(tmp_path, row), extraction_sample(GOLD, "Hello")) == 0.5


def test_a_last_line_without_a_line_end_is_named(tmp_path):
    model = recorded(tmp_path, row_of("b1", "v"))
    path = tmp_path / "predictions.jsonl"
    path.write_bytes(path.read_bytes() + b'{"benchmark_id": "b2", "memory_it')
    with pytest.raises(DataError, match="line 2: the last line has no line break"):
        resolve_system(model, TASK)


def test_the_settings_of_recorded_predictions_change_with_the_file(tmp_path):
    one = resolve_system(recorded(tmp_path, row_of("b1", "v")), TASK)
    other = resolve_system(recorded(tmp_path, row_of("b1", "w")), TASK)
    assert one.name == other.name == "predictions:predictions.jsonl"
    assert one.settings != other.settings
    assert str(tmp_path) not in json.dumps({"name": one.name, **one.settings})


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
