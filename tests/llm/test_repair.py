import json
import time
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from alps.llm.repair import close_truncated, readings
from alps.llm.types import Completion, Reply
from alps.llm.understanding import understand
from alps.schema import Memory
from alps.tasks.extraction import TASK
from tests.conftest import real_sample_folder

REPRODUCIBLY = settings(max_examples=200, deadline=None, derandomize=True, database=None)

SAID = ("Plays the cello, badly", 'Says "never" to [durian] {and tripe}', "住在成都 🌶 naïve")
EVIDENCE = ("I play, sort of", "never: [durian]", "成都很辣")
NODE = {
    "memory_items": [
        {
            "memory_id": f"m{number}",
            "type": "direct",
            "label": "Preferences/Music",
            "value": value,
            "confidence": 0.95,
            "evidence": {"session_id": None, "utterance_index": 12, "text": text},
        }
        for number, (value, text) in enumerate(zip(SAID, EVIDENCE, strict=True), start=1)
    ]
}
TEXT = json.dumps(NODE, ensure_ascii=False)
LIST = json.dumps(NODE["memory_items"], ensure_ascii=False)
INDENTED = json.dumps(NODE, ensure_ascii=False, indent=2)
ESCAPED = json.dumps(NODE)
WITHOUT_QUOTES_INSIDE = TEXT.replace('\\"never\\"', "never")
SINGLE_QUOTED = WITHOUT_QUOTES_INSIDE.replace('"', "'").replace("None", "null")


def read(text: str, *, cut: bool = False) -> Completion[tuple[Memory, ...]]:
    return understand(Reply(text, "length" if cut else "stop"), TASK.answer)


def values(completion: Completion[tuple[Memory, ...]]) -> tuple[str, ...]:
    return tuple(memory.value for memory in completion.value or ())


def without_quotes(texts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(text.replace('"', "") for text in texts)


def test_clean_json_is_read_as_it_is():
    completion = read(TEXT)
    assert values(completion) == SAID
    assert (completion.repaired, completion.truncated, completion.notes) == (False, False, ())


IRREGULAR = {
    "a fence": f"```json\n{INDENTED}\n```",
    "a fence without a language": f"```\n{TEXT}\n```",
    "a fence with a language in capitals": f"```JSON\n{TEXT}\n```",
    "a fence on one line": f"```json {TEXT} ```",
    "a fence that is never closed": f"```json\n{INDENTED}",
    "a fence between prose": f"Here is what I found:\n\n```json\n{INDENTED}\n```\n\nShall I go on?",
    "the second of two fences": (
        f'The schema:\n```json\n{{"type": "object"}}\n```\nMy answer:\n```json\n{TEXT}\n```'
    ),
    "a fence around a value that quotes a fence": (
        f"```json\n{TEXT.replace('sort of', 'x ```py y``` z')}\n```"
    ),
    "prose before and after": f"Sure, the memories: {TEXT} I hope this helps.",
    "prose with brackets before": f"From turns [0] and [3] {{see there}} I read: {TEXT}",
    "prose with forty footnotes before": " ".join(f"[{n}]" for n in range(40)) + f"\n{TEXT}",
    "another JSON before": f'You wrote {{"conversation": [{{"turn": 0, "role": "user"}}]}}. {TEXT}',
    "another JSON after": f'{TEXT}\n{{"confidence_of_this_answer": 0.9}}',
    "the answer twice": f"{TEXT}\n{TEXT}",
    "brackets after the object": f"{TEXT}]\\]",
    "brackets after the list": f"{LIST}\\]",
    "a bracket too many within the object": f"{TEXT[:-1]}\\]}}",
    "a trailing comma after the last item": TEXT[:-2] + ",]}",
    "a trailing comma in the second item": TEXT.replace('"never: [durian]"', '"never: [durian]",'),
    "a comma missing between items": TEXT.replace("}}, {", "}} {"),
    "over-escaped throughout": json.dumps(TEXT, ensure_ascii=False)[1:-1],
    "over-escaped in the second item": TEXT.replace('"never: [durian]"', '\\"never: [durian]\\"'),
    "JSON within a JSON string": json.dumps(TEXT),
    "JSON within a JSON string within a JSON string": json.dumps(json.dumps(TEXT)),
    "a fence within a JSON string": json.dumps(f"```json\n{TEXT}\n```"),
    "the middle brace missing": TEXT.replace('"never: [durian]"}}', '"never: [durian]"}'),
}


HARMLESS = {
    "white space around": f"\n\t {TEXT} \r\n",
    "a byte order mark": f"\ufeff{TEXT}",
    "a byte order mark after a line end": f"\n\ufeff {TEXT}",
    "a raw line end within a string": TEXT.replace("sort of", "sort\nof"),
    "ASCII escapes": ESCAPED,
}


@pytest.mark.parametrize("text", IRREGULAR.values(), ids=IRREGULAR)
def test_every_memory_of_an_irregular_answer_is_read(text: str):
    assert values(read(text)) == SAID


@pytest.mark.parametrize("text", IRREGULAR.values(), ids=IRREGULAR)
def test_an_irregular_answer_is_marked_as_repaired_and_not_as_cut_off(text: str):
    completion = read(text)
    assert completion.repaired
    assert completion.notes
    assert not completion.truncated


@pytest.mark.parametrize("text", HARMLESS.values(), ids=HARMLESS)
def test_what_needs_no_repair_is_not_marked_as_repaired(text: str):
    completion = read(text)
    assert values(completion) == SAID
    assert not completion.repaired


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(SINGLE_QUOTED, id="single quotes"),
        pytest.param(f"```python\n{SINGLE_QUOTED}\n```", id="single quotes in a fence"),
    ],
)
def test_single_quotes_are_read(text: str):
    assert values(read(text)) == without_quotes(SAID)


@pytest.mark.parametrize(
    ("broken", "shown"),
    [
        pytest.param(r"caf\u00zz", r"caf\u00zz", id="four places not hexadecimal"),
        pytest.param(r"caf\u0", r"caf\u0", id="too few places"),
        pytest.param(r"caf\xe9", r"caf\xe9", id="an escape that JSON lacks"),
        pytest.param(r"it\'s", r"it\'s", id="an escaped apostrophe"),
        pytest.param(r"C:\Users", r"C:\Users", id="a path"),
        pytest.param(
            r"fine \u00e9, broken \u12", r"fine é, broken \u12", id="one fine and one broken"
        ),
    ],
)
def test_a_broken_escape_costs_no_memory(broken: str, shown: str):
    assert values(read(TEXT.replace("Plays the cello, badly", broken))) == (shown, *SAID[1:])
    assert values(read(TEXT.replace("naïve", broken))) == (
        *SAID[:2],
        SAID[2].replace("naïve", shown),
    )


def test_half_an_emoji_costs_no_memory():
    completion = read(ESCAPED.replace(r"\udf36", ""))
    assert completion.outcome == "ok"
    assert values(completion)[:2] == SAID[:2]
    assert len(values(completion)) == 3


@pytest.mark.parametrize(
    "text",
    [
        pytest.param('{"memory_items": []}', id="an object"),
        pytest.param("[]", id="a list"),
        pytest.param('```json\n{"memory_items": []}\n```', id="an object in a fence"),
        pytest.param("```json\n[]\n```", id="a list in a fence"),
    ],
)
def test_an_empty_list_is_an_answer(text: str):
    completion = read(text)
    assert (completion.outcome, completion.value) == ("ok", ())


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        pytest.param("", "empty", id="nothing"),
        pytest.param(" \n\t", "empty", id="white space"),
        pytest.param("\ufeff", "unparsable", id="a byte order mark alone"),
        pytest.param(
            "Sure! Beat two eggs, add flour, and rest the dough.",
            "unparsable",
            id="an answer to the dialogue",
        ),
        pytest.param(
            "See [the recipe](eggs.html) and add {a pinch of} salt.",
            "unparsable",
            id="prose with brackets",
        ),
        pytest.param("Write `rows = []` first.", "unparsable", id="prose with code"),
        pytest.param("```json\n```", "unparsable", id="an empty fence"),
        pytest.param('{"type": "object", "properties": {}}', "invalid", id="the schema"),
        pytest.param("42", "invalid", id="a number"),
        pytest.param('"nothing"', "invalid", id="a string"),
        pytest.param("null", "unparsable", id="null"),
    ],
)
def test_what_holds_no_memories_is_the_failure_that_it_is(text: str, outcome: str):
    completion = read(text)
    assert completion.outcome == outcome
    assert completion.value is None
    assert completion.error


@pytest.mark.parametrize(
    "text",
    [
        '[{"0432\\u043.',
        "{",
        '{"memory_items"',
        '{"memory_items": [',
        '{"memory_items": [{"memory_id": "m1", "value": "Pl',
    ],
)
def test_json_that_breaks_off_before_the_first_memory_is_a_failure(text: str):
    assert read(text, cut=True).outcome == "truncated"
    assert read(text).outcome in ("truncated", "unparsable", "invalid")


DRESSES = {
    "plain": (TEXT, SAID, EVIDENCE),
    "indented": (INDENTED, SAID, EVIDENCE),
    "ASCII escapes": (ESCAPED, SAID, EVIDENCE),
    "a bare list": (LIST, SAID, EVIDENCE),
    "a fence": (f"```json\n{INDENTED}\n```", SAID, EVIDENCE),
    "prose": (f"The memories [so far]: {TEXT} That's all.", SAID, EVIDENCE),
    "over-escaped": (json.dumps(TEXT, ensure_ascii=False)[1:-1], SAID, EVIDENCE),
    "JSON within a JSON string": (json.dumps(TEXT, ensure_ascii=False), SAID, EVIDENCE),
    "single quotes": (SINGLE_QUOTED, without_quotes(SAID), EVIDENCE),
    "a trailing comma in each item": (TEXT.replace("}}", "},}"), SAID, EVIDENCE),
}


def cuts(text: str) -> list[tuple[int, str]]:
    data = text.encode()
    return [(length, data[:length].decode(errors="ignore")) for length in range(len(data))]


@pytest.mark.parametrize(("text", "said", "evidence"), DRESSES.values(), ids=DRESSES)
def test_an_answer_cut_anywhere_never_yields_a_half_said_memory(
    text: str, said: tuple[str, ...], evidence: tuple[str, ...]
):
    half_said = []
    for length, cut in cuts(text):
        for memory in read(cut, cut=True).value or ():
            whole = (
                memory.value in said
                and memory.label in ("Preferences/Music", "UNMAPPED")
                and memory.confidence in (0.95, None)
                and (memory.evidence is None or memory.evidence.text in ("", *evidence))
                and (memory.evidence is None or memory.evidence.utterance_index in (12, None))
            )
            if not whole:
                half_said.append((length, cut[-20:], memory.value, memory.label, memory.evidence))
    assert half_said[:3] == []


@pytest.mark.parametrize(
    "dress", ["plain", "indented", "ASCII escapes", "a bare list", "a fence", "prose"]
)
def test_an_answer_cut_anywhere_keeps_every_memory_that_was_complete(dress: str):
    text, said, _ = DRESSES[dress]
    ending = "}\n    }" if dress in ("indented", "a fence") else "}}"
    ends = [text.index(ending, text.index(f'"m{number}"')) + len(ending) for number in (1, 2, 3)]
    lost = []
    for length, cut in cuts(text):
        complete = tuple(value for value, end in zip(said, ends, strict=True) if len(cut) >= end)
        if values(read(cut, cut=True))[: len(complete)] != complete:
            lost.append((length, cut[-20:]))
    assert lost[:3] == []


@pytest.mark.parametrize("finish_reason", ["length", "stop"])
@pytest.mark.parametrize("dress", ["plain", "indented", "a bare list", "a fence"])
def test_an_answer_that_breaks_off_between_memories_says_so(dress: str, finish_reason: str):
    text, said, _ = DRESSES[dress]
    completion = understand(Reply(text[: text.index('"m3"')], finish_reason), TASK.answer)
    assert (completion.outcome, values(completion)) == ("ok", said[:2])
    assert completion.repaired
    assert completion.truncated


@pytest.mark.parametrize(
    ("cut", "closed"),
    [
        pytest.param('{"a": 1, "b": 0.9', '{"a": 1}', id="a number may go on"),
        pytest.param('{"a": 1, "b": tru', '{"a": 1}', id="a word may go on"),
        pytest.param('{"a": 1, "b": "hal', '{"a": 1}', id="a string that was not closed"),
        pytest.param('{"a": "whole"', '{"a": "whole"}', id="a string that was closed"),
        pytest.param('{"a": 1, "key"', '{"a": 1}', id="a key without a value"),
        pytest.param('{"a": 1, "key":', '{"a": 1}', id="a key and a colon"),
        pytest.param('["whole", "hal', '["whole"]', id="a string in a list"),
        pytest.param('["whole", "also"', '["whole", "also"]', id="two strings in a list"),
        pytest.param('{"a": "said \\"so\\"', "{}", id="an escaped quote does not close"),
        pytest.param(
            '{"a": "back\\\\"', '{"a": "back\\\\"}', id="an escaped backslash before the quote"
        ),
        pytest.param("[[1, 2], [3", "[[1, 2], []]", id="a list within a list"),
        pytest.param(
            '{"a": {"b": [1, {"c": "d"', '{"a": {"b": [1, {"c": "d"}]}}', id="four levels"
        ),
        pytest.param('{"a": "]}', "{}", id="brackets within a string"),
    ],
)
def test_only_what_was_complete_is_kept_when_json_is_closed(cut: str, closed: str):
    assert close_truncated(cut) == closed


@pytest.mark.parametrize("whole", ['{"a": 1}', "[]", '[{"a": "b"}] and more', '{"a": 1]'])
def test_json_that_does_not_break_off_is_not_closed(whole: str):
    assert close_truncated(whole) is None


LOOPS = {
    "a sentence": '{"memory_items": [{"value": "' + "I like tea. " * 2500,
    "a memory": '{"memory_items": [' + '{"value": "I like tea"}, ' * 1200,
    "a fence": "```json\n" * 3750,
    "a fence and a brace": "```{ " * 6000,
    "braces": "{" * 30_000,
    "brackets": "[" * 30_000,
    "brackets and braces": "[{" * 15_000,
    "a key": '{"a": ' * 5000,
    "quotes": '{"' * 15_000,
    "escaped quotes": '{"memory_items": [{"value": "' + '\\"' * 15_000,
    "backslashes": '{"memory_items": [{"value": "' + "\\" * 30_000,
    "strings": '{"memory_items": [{"value": ' + '"I like tea" ' * 2300,
    "commas": '{"memory_items": [' + "," * 30_000,
    "apostrophes": "{'a': " * 5000,
}


@pytest.mark.parametrize("text", LOOPS.values(), ids=LOOPS)
def test_a_loop_of_30_000_characters_is_read_in_two_seconds(text: str):
    started = time.process_time()
    completion = read(text, cut=True)
    assert time.process_time() - started < 2
    assert set(values(completion)) <= {"I like tea"}


def test_a_loop_of_whole_memories_keeps_all_that_were_complete():
    completion = read(
        '{"memory_items": [' + '{"value": "I like tea"}, ' * 1200 + '{"value": "I li', cut=True
    )
    assert values(completion) == ("I like tea",) * 1200
    assert completion.truncated


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("[" * 10_000 + "]" * 10_000, id="lists, closed"),
        pytest.param("[" * 10_000, id="lists, open"),
        pytest.param('{"a":' * 10_000 + "1" + "}" * 10_000, id="objects, closed"),
        pytest.param("```json\n" + '{"a":' * 10_000, id="objects in a fence, open"),
    ],
)
def test_brackets_nested_10_000_deep_are_a_failure_and_not_a_crash(text: str):
    assert read(text).outcome in ("unparsable", "invalid", "truncated")


TEXTS = st.one_of(st.text(), st.text(alphabet="{}[]\"',:\\u0019abe.-`\n tfn"))


@REPRODUCIBLY
@given(TEXTS)
def test_no_text_makes_the_reader_raise(text: str):
    for reading in readings(text):
        assert reading.repaired or reading.how == ""


@REPRODUCIBLY
@given(TEXTS)
def test_a_failure_never_has_a_value_and_a_success_always_has_one(text: str):
    completion = read(text)
    assert (completion.outcome == "ok") == (completion.value is not None)
    assert completion.raw == text


WORDS = st.text(alphabet="abcd ÄЖ中,.:;!?'()\"\n")
NODES: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@settings(REPRODUCIBLY, max_examples=100)
@given(
    before=WORDS,
    node=st.dictionaries(st.text(), NODES, min_size=1),
    after=WORDS,
    fence=st.sampled_from(["", "```", "```json"]),
    ascii_only=st.booleans(),
    indent=st.sampled_from([None, 2]),
)
@example(
    before="",
    node={"a": [{"b": 1}], "c": "``` and {"},
    after="",
    fence="```json",
    ascii_only=False,
    indent=None,
)
@example(before='He said "', node={"a": 1}, after='" {', fence="", ascii_only=False, indent=None)
def test_any_object_survives_a_fence_and_prose_around_it(
    before: str, node: dict[str, Any], after: str, fence: str, ascii_only: bool, indent: int | None
):
    body = json.dumps(node, ensure_ascii=ascii_only, indent=indent)
    dressed = f"{before}\n{fence}\n{body}\n{fence.rstrip('json')}\n{after}"
    assert next(readings(dressed)).node == node


def recorded(track: str) -> list[str]:
    folder = real_sample_folder()
    if folder is None:
        return []
    lines = (folder / "recorded" / track / "records.jsonl").read_text(encoding="utf-8").splitlines()
    outputs = (json.loads(line)["model_output"].get("raw_output") for line in lines)
    return [output for output in outputs if isinstance(output, str)]


@pytest.mark.real
@pytest.mark.usefixtures("sample")
@pytest.mark.parametrize(("track", "unusable"), [("task1", 0), ("task2", 2)])
def test_every_recorded_output_that_holds_memories_is_read(track: str, unusable: int):
    outcomes = [read(output).outcome for output in recorded(track)]
    assert len(outcomes) > 70
    assert sum(outcome != "ok" for outcome in outcomes) == unusable


@pytest.mark.real
@pytest.mark.usefixtures("sample")
@pytest.mark.parametrize("track", ["task1", "task2"])
def test_no_memory_of_a_recorded_output_is_lost_in_mending(track: str):
    lost = [
        (output.count('"value":'), len(values(completion)))
        for output in recorded(track)
        if (completion := read(output)).repaired
        and not completion.truncated
        and len(values(completion)) != output.count('"value":')
    ]
    assert lost == []
