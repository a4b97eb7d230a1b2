import asyncio
import json

import pytest

from alps.schema import Prediction
from tests.programs import (
    NAMES,
    QUICK,
    TASK,
    answered,
    ask,
    facts,
    sample,
)


def test_the_program_is_shown_the_dialogue_and_nothing_else(make, diary):
    predictions = ask(make("for name in rows(): answer(name)"), *NAMES)
    assert answered(predictions)
    rows = [json.loads(line) for line in diary.lines if line != "start"]
    turns = [{"role": "user", "text": "I am a"}, {"role": "assistant", "text": "ok"}]
    assert rows[0] == {"benchmark_id": "a", "task": "task1", "input": {"dialogue": turns}}
    assert [row["benchmark_id"] for row in rows] == list(NAMES)
    assert diary.starts == 1
    raw = json.dumps({"benchmark_id": "a", "memory_items": [{"value": "fact of a"}]})
    assert predictions["a"].raw == raw
    assert predictions["a"].track == "task1"
    assert "missing type" in predictions["a"].notes


def test_answers_out_of_order_are_joined_by_id(make):
    body = """
names = []
for name in rows():
    names.append(name)
    if len(names) == 3:
        for name in reversed(names): answer(name)
        names = []
"""
    assert answered(ask(make(body), *NAMES))


def test_no_more_rows_than_allowed_are_under_way(make, diary):
    body = """
os.set_blocking(0, False)
buffer, owed, most, answers = b"", [], 0, 0
while answers < 6:
    ready, _, _ = select.select([0], [], [], 0.1)
    if ready:
        buffer += os.read(0, 65536)
        *lines, buffer = buffer.split(b"\\n")
        owed += [json.loads(line)["benchmark_id"] for line in lines]
        most = max(most, len(owed))
    elif owed:
        answer(owed.pop())
        answers += 1
note(f"most {most}")
"""
    assert answered(ask(make(body, in_flight=3), *NAMES))
    assert "most 3" in diary.lines


def test_garbage_before_the_right_answer_is_noted(make):
    body = """
for name in rows():
    if name == "b": print("thinking about b")
    answer(name)
"""
    predictions = ask(make(body), *NAMES)
    assert answered(predictions)
    note = "ignored output that is not an answer: 'thinking about b'"
    assert [name for name in NAMES if note in predictions[name].notes] == ["b"]


@pytest.mark.few(1)
@pytest.mark.parametrize("in_flight", [1, 4])
def test_a_program_that_logs_to_stdout_loses_nothing(make, diary, in_flight):
    body = """
print("loading the model")
print(json.dumps({"level": "info", "items_seen": 0}))
for name in rows():
    print(f"DEBUG: row {name}")
    print(json.dumps({"step": 1}))
    print([])
    time.sleep(0.15)
    answer(name)
    print("done")
    print()
"""
    predictions = ask(make(body, timeout=QUICK, in_flight=in_flight), "a", "b", "c")
    assert answered(predictions)
    assert diary.starts == 1
    assert any("is not an answer" in note for note in predictions["c"].notes)


def test_a_concurrent_program_that_logs_to_stdout_loses_nothing(make, diary):
    body = """
names = []
for name in rows():
    print("read " + name)
    names.append(name)
    if len(names) == 4: break
for name in reversed(names):
    time.sleep(0.1)
    answer(name)
for name in rows(): answer(name)
"""
    assert answered(ask(make(body), *NAMES))
    assert diary.starts == 1


def test_json_that_is_no_answer_is_not_taken_for_one(make):
    lines = ['{"value_of_loss": 0.1}', "17", '"text"', "null", "[]", '{"benchmark_id": null}']
    body = f"""
lines = {lines!r}
for name in rows():
    print(lines.pop())
    answer(name)
"""
    predictions = ask(make(body, in_flight=1), *NAMES)
    assert answered(predictions)
    for prediction in predictions.values():
        assert any("is not an answer" in note for note in prediction.notes)


def test_answers_to_rows_that_do_not_wait_are_never_joined(make):
    body = """
for name in rows():
    answer("stranger")
    answer(name)
    answer(name, memory_items=[{"value": "second thoughts"}])
"""
    predictions = ask(make(body, in_flight=2), *NAMES)
    assert answered(predictions)
    assert all("ignored" in "".join(predictions[name].notes) for name in NAMES)


def test_an_answer_without_memories_is_invalid_and_an_empty_list_is_not(make):
    body = """
for name in rows():
    if name == "a": print(json.dumps({"benchmark_id": name, "status": "failed"}))
    elif name == "b": answer(name, memory_items=[])
    elif name == "c": answer(name, memory_items=[{"label": "Preferences/Food"}])
    else: answer(name)
"""
    predictions = ask(make(body), *NAMES)
    assert answered(predictions, "a", "b", "c")
    assert facts(predictions["b"]) == []
    for name in "ac":
        assert predictions[name].outcome == "invalid"
        assert predictions[name].prediction is None
        assert predictions[name].raw
        assert predictions[name].error
    assert json.loads(str(predictions["a"].raw)) == {"benchmark_id": "a", "status": "failed"}


def test_numeric_ids_a_byte_order_mark_and_an_unfinished_last_line_are_read(make):
    body = """
for name in rows():
    sys.stdout.write("\\ufeff" + json.dumps({"benchmark_id": int(name), "memory_items": []}) \
+ "\\r\\n")
    if name == "2": break
sys.stdout.write(json.dumps({"benchmark_id": "3", "memory_items": [{"value": "last"}]}))
"""
    predictions = ask(make(body), "1", "2", "3")
    assert [facts(predictions[name]) for name in "123"] == [[], [], ["last"]]


def test_the_same_sample_twice_at_once_is_asked_twice(make, diary):
    asked = make("for name in rows(): answer(name)")

    async def twice() -> list[Prediction]:
        try:
            return await asyncio.gather(*(asked.answer(TASK, sample("a")) for _ in range(3)))
        finally:
            await asked.aclose()

    predictions = asyncio.run(twice())
    assert [facts(prediction) for prediction in predictions] == [["fact of a"]] * 3
    assert len(diary.lines) == 1 + 3
    assert not any("ignored" in note for prediction in predictions for note in prediction.notes)
