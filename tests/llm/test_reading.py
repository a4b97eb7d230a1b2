"""Reading what a model wrote: irregular JSON, answers that break off, thoughts and drafts."""

import json
from time import process_time
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from alps.judges.rubric import BinaryReply, rating_answer
from alps.llm.replies import close_truncated, readings
from alps.llm.types import Completion, Reply
from alps.llm.understanding import part_thought, understand
from alps.schema import Memory
from alps.tasks.extraction import TASK
from tests.conftest import real_sample_folder
from tests.desk import Desk, chat, in_turn, question
from tests.endtoend import rows
from tests.loopback import Answer, serve
from tests.tracks import alps_here, between, llm, met, target_row, track_of, write_ability

REPRODUCIBLY = settings(max_examples=100, deadline=None, derandomize=True, database=None)

SAID = ("Plays the cello, badly", 'Says "never" to [durian] {and tripe}', "住在成都 🌶 naïve")
EVIDENCE = ("I play, sort of", "never: [durian]", "成都很辣")
ITEMS: list[dict[str, Any]] = []
for value, text in zip(SAID, EVIDENCE, strict=True):
    number = len(ITEMS) + 1
    ITEMS.append({"memory_id": f"m{number}", "type": "direct", "label": "Preferences/Music"})
    quote = {"session_id": None, "utterance_index": 12, "text": text}
    ITEMS[-1] |= {"value": value, "confidence": 0.95, "evidence": quote}
NODE = {"memory_items": ITEMS}
TEXT = json.dumps(NODE, ensure_ascii=False)
LIST = json.dumps(ITEMS, ensure_ascii=False)
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
    "single quotes": SINGLE_QUOTED,
    "single quotes in a fence": f"```python\n{SINGLE_QUOTED}\n```",
}
HARMLESS = {
    "clean": TEXT,
    "white space around": f"\n\t {TEXT} \r\n",
    "a byte order mark": f"\ufeff{TEXT}",
    "a byte order mark after a line end": f"\n\ufeff {TEXT}",
    "a raw line end within a string": TEXT.replace("sort of", "sort\nof"),
    "ASCII escapes": ESCAPED,
}


@pytest.mark.parametrize("name", [*IRREGULAR, *HARMLESS])
def test_every_memory_is_read_and_only_an_irregular_answer_is_marked_as_repaired(name: str):
    completion = read(IRREGULAR.get(name) or HARMLESS[name])
    assert values(completion) == (without_quotes(SAID) if name.startswith("single") else SAID)
    assert completion.repaired == (name in IRREGULAR)
    assert bool(completion.notes) == (name in IRREGULAR)
    assert not completion.truncated


ESCAPES = {
    r"caf\u00zz": r"caf\u00zz",
    r"caf\u0": r"caf\u0",
    r"caf\xe9": r"caf\xe9",
    r"it\'s": r"it\'s",
    r"C:\Users": r"C:\Users",
    r"fine \u00e9, broken \u12": r"fine é, broken \u12",
}


def test_a_broken_escape_or_half_an_emoji_costs_no_memory():
    for broken, shown in ESCAPES.items():
        assert values(read(TEXT.replace(SAID[0], broken))) == (shown, *SAID[1:]), broken
        last = SAID[2].replace("naïve", shown)
        assert values(read(TEXT.replace("naïve", broken))) == (*SAID[:2], last), broken
    completion = read(ESCAPED.replace(r"\udf36", ""))
    assert completion.outcome == "ok"
    assert values(completion)[:2] == SAID[:2]
    assert len(values(completion)) == 3


NO_MEMORIES = {
    '{"memory_items": []}': "ok",
    "[]": "ok",
    '```json\n{"memory_items": []}\n```': "ok",
    "```json\n[]\n```": "ok",
    "": "empty",
    " \n\t": "empty",
    "\ufeff": "unparsable",
    "Sure! Beat two eggs, add flour, and rest the dough.": "unparsable",
    "See [the recipe](eggs.html) and add {a pinch of} salt.": "unparsable",
    "Write `rows = []` first.": "unparsable",
    "```json\n```": "unparsable",
    "null": "unparsable",
    '{"type": "object", "properties": {}}': "invalid",
    "42": "invalid",
    '"nothing"': "invalid",
}


@pytest.mark.parametrize("text", NO_MEMORIES)
def test_what_holds_no_memories_is_an_empty_list_or_the_failure_that_it_is(text: str):
    completion = read(text)
    assert completion.outcome == NO_MEMORIES[text]
    assert completion.value == (() if completion.outcome == "ok" else None)
    assert bool(completion.error) == (completion.outcome != "ok")


def test_json_that_breaks_off_before_the_first_memory_is_a_failure():
    half = '{"memory_items": [{"memory_id": "m1", "value": "Pl'
    for text in ('[{"0432\\u043.', half[:1], half[:15], half[:18], half):
        assert read(text, cut=True).outcome == "truncated", text
        assert read(text).outcome in ("truncated", "unparsable", "invalid"), text


WITHIN = json.dumps(TEXT, ensure_ascii=False)
DRESSES = {
    "plain": (TEXT, SAID),
    "indented": (INDENTED, SAID),
    "ASCII escapes": (ESCAPED, SAID),
    "a bare list": (LIST, SAID),
    "a fence": (IRREGULAR["a fence"], SAID),
    "prose": (f"The memories [so far]: {TEXT} That's all.", SAID),
    "over-escaped": (WITHIN[1:-1], SAID),
    "JSON within a JSON string": (WITHIN, SAID),
    "single quotes": (SINGLE_QUOTED, without_quotes(SAID)),
    "a trailing comma in each item": (TEXT.replace("}}", "},}"), SAID),
}
REGULAR = ("plain", "indented", "ASCII escapes", "a bare list", "a fence", "prose")


def is_whole(memory: Memory, said: tuple[str, ...]) -> bool:
    quote = memory.evidence
    return (
        memory.value in said
        and memory.label in ("Preferences/Music", "UNMAPPED")
        and memory.confidence in (0.95, None)
        and (quote is None or quote.text in ("", *EVIDENCE))
        and (quote is None or quote.utterance_index in (12, None))
    )


@pytest.mark.few(3)
@pytest.mark.parametrize("dress", DRESSES)
def test_an_answer_cut_anywhere_keeps_what_was_complete_and_nothing_half_said(dress: str):
    text, said = DRESSES[dress]
    ending = "}\n    }" if dress in ("indented", "a fence") else "}}"
    ends = []
    for number in (1, 2, 3) if dress in REGULAR else ():
        ends.append(text.index(ending, text.index(f'"m{number}"')) + len(ending))
    data = text.encode()
    for length in range(len(data)):
        cut = data[:length].decode(errors="ignore")
        completion = read(cut, cut=True)
        half_said = [one for one in completion.value or () if not is_whole(one, said)]
        assert half_said == [], cut[-20:]
        complete = said[: sum(len(cut) >= end for end in ends)]
        assert values(completion)[: len(complete)] == complete, cut[-20:]


@pytest.mark.parametrize("finish_reason", ["length", "stop"])
@pytest.mark.parametrize("dress", ["plain", "indented", "a bare list", "a fence"])
def test_an_answer_that_breaks_off_between_memories_says_so(dress: str, finish_reason: str):
    text, said = DRESSES[dress]
    completion = understand(Reply(text[: text.index('"m3"')], finish_reason), TASK.answer)
    assert (completion.outcome, values(completion)) == ("ok", said[:2])
    assert completion.repaired
    assert completion.truncated


CLOSED: dict[str, str | None] = {
    '{"a": 1, "b": 0.9': '{"a": 1}',  # a number may go on
    '{"a": 1, "b": tru': '{"a": 1}',
    '{"a": 1, "b": "hal': '{"a": 1}',
    '{"a": "whole"': '{"a": "whole"}',
    '{"a": 1, "key"': '{"a": 1}',
    '{"a": 1, "key":': '{"a": 1}',
    '["whole", "hal': '["whole"]',
    '["whole", "also"': '["whole", "also"]',
    '{"a": "said \\"so\\"': "{}",  # an escaped quote does not close
    '{"a": "back\\\\"': '{"a": "back\\\\"}',
    "[[1, 2], [3": "[[1, 2], []]",
    '{"a": {"b": [1, {"c": "d"': '{"a": {"b": [1, {"c": "d"}]}}',
    '{"a": "]}': "{}",  # brackets within a string
    '{"a": 1}': None,  # what does not break off is not closed
    "[]": None,
    '[{"a": "b"}] and more': None,
    '{"a": 1]': None,
}


def test_only_what_was_complete_is_kept_when_json_is_closed():
    assert {cut: close_truncated(cut) for cut in CLOSED} == CLOSED


DEEP = {
    "lists, closed": "[" * 10_000 + "]" * 10_000,
    "objects, closed": '{"a":' * 10_000 + "1" + "}" * 10_000,
    "objects in a fence, open": "```json\n" + '{"a":' * 10_000,
}
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
    started = process_time()
    completion = read(text, cut=True)
    assert process_time() - started < 2
    assert set(values(completion)) <= {"I like tea"}


def test_a_loop_of_whole_memories_keeps_all_that_were_complete():
    completion = read(LOOPS["a memory"] + '{"value": "I li', cut=True)
    assert values(completion) == ("I like tea",) * 1200
    assert completion.truncated


@pytest.mark.parametrize("text", [*DEEP.values(), LOOPS["brackets"]], ids=[*DEEP, "lists, open"])
def test_brackets_nested_10_000_deep_are_a_failure_and_not_a_crash(text: str):
    assert read(text).outcome in ("unparsable", "invalid", "truncated")


@REPRODUCIBLY
@given(st.one_of(st.text(), st.text(alphabet="{}[]\"',:\\u0019abe.-`\n tfn")))
def test_no_text_makes_the_reader_raise_and_only_a_success_has_a_value(text: str):
    for reading in readings(text):
        assert reading.repaired or reading.how == ""
    completion = read(text)
    assert (completion.outcome == "ok") == (completion.value is not None)
    assert completion.raw == text


WORDS = st.text(alphabet="abcd ÄЖ中,.:;!?'()\"\n")
LEAVES = st.none() | st.booleans() | st.integers() | st.text()
NODES: st.SearchStrategy[Any] = st.recursive(
    LEAVES | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)
QUOTES_A_FENCE = {"a": [{"b": 1}], "c": "``` and {"}


@pytest.mark.release
@settings(REPRODUCIBLY, max_examples=100)
@given(
    around=st.tuples(WORDS, WORDS),
    node=st.dictionaries(st.text(), NODES, min_size=1),
    fence=st.sampled_from(["", "```", "```json"]),
    ascii_only=st.booleans(),
    indent=st.sampled_from([None, 2]),
)
@example(around=("", ""), node=QUOTES_A_FENCE, fence="```json", ascii_only=False, indent=None)
@example(around=('He said "', '" {'), node={"a": 1}, fence="", ascii_only=False, indent=None)
def test_any_object_survives_a_fence_and_prose_around_it(around, node, fence, ascii_only, indent):
    body = json.dumps(node, ensure_ascii=ascii_only, indent=indent)
    dressed = f"{around[0]}\n{fence}\n{body}\n{fence.rstrip('json')}\n{around[1]}"
    assert next(readings(dressed)).node == node


@pytest.mark.real
@pytest.mark.usefixtures("sample")
@pytest.mark.parametrize(("track", "unusable"), [("task1", 0), ("task2", 2)])
def test_every_recorded_output_that_holds_memories_is_read_without_a_loss(track: str, unusable):
    path = (real_sample_folder() or "") / "recorded" / track / "records.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines()
    outputs = [json.loads(line)["model_output"].get("raw_output") for line in lines]
    completions = [(text, read(text)) for text in outputs if isinstance(text, str)]
    assert len(completions) > 70
    assert sum(completion.outcome != "ok" for _, completion in completions) == unusable
    lost = []
    for text, completion in completions:
        if completion.repaired and not completion.truncated:
            lost += [text] * (len(values(completion)) != text.count('"value":'))
    assert lost == []


# Thoughts and drafts: the final answer is read, or none is


def memories(*texts: str) -> str:
    items = [{"memory_id": f"m{n}", "value": value} for n, value in enumerate(texts)]
    return json.dumps({"memory_items": items})


DRAFT, FINAL, EMPTY = memories("Owns a cat"), memories("Owns a dog", "Plays the oboe"), memories()
HARMONY = "<|channel|>analysis<|message|>{}<|end|><|start|>assistant<|channel|>final<|message|>{}"
SOLUTION = "<|begin_of_solution|>{}<|end_of_solution|>"
MORE = '{"memory_id": "m1", "value": "Plays the oboe"}'
DOG, BOTH = ("Owns a dog",), ("Owns a dog", "Plays the oboe")
CUT = None

ANSWERED = {
    "a closed thought with a draft": f"<think>Maybe {DRAFT}? No.</think>\n{FINAL}",
    "an empty thought": f"<think>\n\n</think>\n\n{FINAL}",
    "a thought closed only": f"Maybe {DRAFT}? No.\n</think>\n\n{FINAL}",
    "a thought closed only, with an empty draft": f"Maybe {EMPTY}?</think>{FINAL}",
    "a draft that breaks off in the thought": f"<think>I'd say {DRAFT[:-9]} … no</think>{FINAL}",
    "a broken draft in a thought closed only": f"I'd say {DRAFT[:-9]} … no</think>{FINAL}",
    "a thought that says its own end": f"<think>Close with `</think>`: {DRAFT}</think>{FINAL}",
    "a thought within a thought": f"<think><think>{DRAFT}</think> hm</think>{FINAL}",
    "two thoughts": f"<think>a</think>Let me see. <think>{DRAFT}</think>{FINAL}",
    "thinking": f"<thinking>{DRAFT}</thinking>{FINAL}",
    "reasoning, in a fence": f"<reasoning>{DRAFT}</reasoning>\n```json\n{FINAL}\n```",
    "begin of thought": (f"<|begin_of_thought|>{DRAFT}<|end_of_thought|>{SOLUTION.format(FINAL)}"),
    "start thinking": f"<|START_THINKING|>{DRAFT}<|END_THINKING|>{FINAL}",
    "brackets": f"[THINK]{DRAFT}[/THINK]{FINAL}",
    "triangles": f"◁think▷{DRAFT}◁/think▷{FINAL}",
    "a name space": f"<seed:think>{DRAFT}</seed:think>{FINAL}",
    "harmony": HARMONY.format(DRAFT, FINAL),
    "harmony, constrained, with its end": (
        HARMONY.format(DRAFT, FINAL).replace("final<|", "final <|constrain|>json<|") + "<|return|>"
    ),
    "harmony, its markers stripped": f"analysisPerhaps {DRAFT}assistantfinal{FINAL}",
    "two fenced blocks": f"Draft:\n```json\n{DRAFT}\n```\nFinal:\n```json\n{FINAL}\n```",
    "three answers in prose": f"Perhaps {DRAFT}. Or {EMPTY}. No: {FINAL} it is.",
    "a draft, and a final answer to mend": f"Draft: {DRAFT}\nFinal: {FINAL[:-2]},]}}",
    "an answer, then one memory of it": f"{FINAL}\nMost certain: {MORE}",
}
LONG: dict[str, tuple[str, Any]] = {
    "a thought that is cut off": (f"<think>First: {DRAFT}. But wait", CUT),
    "an answer that is cut off after a thought": (f"<think>{DRAFT}</think>{FINAL[:-20]}", DOG),
    "harmony, cut off in the analysis": (f"<|channel|>analysis<|message|>Hm, {DRAFT} or", CUT),
    "harmony, stripped and cut off": (f"analysisPerhaps {DRAFT}. Or", CUT),
    "a draft, and a final answer that is cut off": (f"Draft: {DRAFT}\nFinal: {FINAL[:-20]}", DOG),
    "a draft, and a final answer cut off at once": (f"Draft: {DRAFT}\nFinal: {FINAL[:22]}", CUT),
    "an answer that is begun again and cut off": (f"{FINAL}\n{FINAL[:40]}", BOTH),
}
STOPPED: dict[str, tuple[str, Any]] = {
    "a thought that stops unfinished": (f"<think>First: {DRAFT}. That is all", CUT),
    "nothing but a thought, closed": (f"<think>{DRAFT}</think>", CUT),
}
REPLIES = {**{name: (text, BOTH) for name, text in ANSWERED.items()}, **LONG, **STOPPED}


@pytest.mark.parametrize("name", REPLIES)
def test_the_final_answer_is_read_or_none(name):
    text, expected = REPLIES[name]
    completion = read(text, cut=name in LONG)
    assert (None if completion.value is None else values(completion)) == expected
    assert completion.raw == text
    if expected is None:
        assert completion.outcome in ("truncated", "empty")


VERDICTS = {
    DRAFT: '{"reason": "draft", "verdict": "met"}',
    FINAL: '{"reason": "ok", "verdict": "not_met"}',
}


def test_no_verdict_is_read_from_a_draft():
    judged = {name: text for name, text in ANSWERED.items() if DRAFT in text and FINAL in text}
    assert len(judged) > 15
    for name, text in judged.items():
        said = text.replace(DRAFT, VERDICTS[DRAFT]).replace(FINAL, VERDICTS[FINAL])
        read_as = understand(Reply(said, "stop"), rating_answer(BinaryReply)).value
        assert read_as == ({"met": 0}, "ok"), name


QUOTING = {
    "a value that quotes a thought": memories(
        "Asks what <think>hm</think> means", "Writes </think> often"
    ),
    "a value that quotes a channel": memories("Saw <|channel|>final<|message|> in a log"),
    "in a fence": f"```json\n{memories('Asks what <think> is')}\n```",
    "behind a thought": f"<think>hm</think>{memories('Writes </think> often')}",
    "in an answer that needs mending": memories("Writes </think> often", "Owns a cat")[:-2] + ",]}",
    "in an answer that is cut off": memories("Writes </think> often", "Owns a cat")[:-12],
}
QUOTED = ("Asks what <think>", "Writes </think> often", "Saw <|channel|>final<|message|> in a log")


@pytest.mark.parametrize("text", QUOTING.values(), ids=QUOTING)
def test_a_thought_that_the_answer_quotes_is_not_cut(text):
    assert values(read(text))[0].startswith(QUOTED)


TEA = "Have some tea."
TWICE = f"Milk? <think>They like tea, not milk.</think> I'd say so.</think>{TEA}"
CODE = "Write this:\n```\n<think>\nlong thoughts about tea here\n</think>\n```\nas is."
PLAIN = {
    "a closed thought": (f"<think>They like tea.</think>\n\n{TEA}", TEA),
    "a thought closed only": (f"They like tea, so I'll offer it.\n</think>\n\n{TEA}", TEA),
    "in a line": ("Sure! <think>They like tea, not milk.</think>Have tea.", "Sure! Have tea."),
    "harmony": (HARMONY.format("They like tea.", TEA) + "<|return|>", TEA),
    "harmony, its markers stripped": (f"analysisThey like tea.assistantfinal{TEA}", TEA),
    "a thought that is closed twice": (TWICE, TEA),
    "an answer in tags": (f"<think>Tea.</think><answer>{TEA}</answer>", TEA),
    "tags that are spoken of": ("Put it between <think> and </think>, as in XML.", None),
    "tags in code": (CODE, None),
    "tags in quotes": ("The model closes with `</think>` then.", None),
    "one tag alone": ("Some models write <think> before they answer; it is a tag.", None),
    "the word analysis": ("analysis of your week: more tea.", None),
}


@pytest.mark.parametrize(("text", "expected"), PLAIN.values(), ids=PLAIN)
def test_plain_text_is_judged_without_its_thought(text, expected):
    completion = understand(Reply(text, "stop"), None)
    assert (completion.outcome, completion.value, completion.raw) == ("ok", expected or text, text)
    assert (completion.thought is None) == (expected is None)


def test_a_thought_alone_is_no_answer():
    for text, finish, outcome in (
        ("<think>They like tea. Or", "length", "truncated"),
        ("<think>They like tea. Or", "stop", "truncated"),
        ("analysisThey like tea. Or", "length", "truncated"),
        ("<|channel|>analysis<|message|>They like", "length", "truncated"),
        ("<think>They like tea.</think>", "stop", "empty"),
        ("<think>They like tea.</think>\n", "length", "truncated"),
    ):
        completion = understand(Reply(text, finish), None)
        assert (completion.outcome, completion.value) == (outcome, None), text
        assert (completion.thought or "").startswith("They like"), text


def test_a_thought_is_kept_apart_whoever_parted_it():
    parted = read(f"<think>my cat</think>{FINAL}")
    by_provider = understand(Reply(FINAL, "stop", thought="my cat"), TASK.answer)
    for completion in (parted, by_provider):
        assert (completion.thought, completion.repaired) == ("my cat", False)


def test_verdicts_that_differ_in_reasons_alone_do_not_contradict_each_other():
    text = '{"reason": "a", "verdict": "met"}\n{"reason": "b", "verdict": "met"}'
    assert understand(Reply(text, "stop"), rating_answer(BinaryReply)).value == ({"met": 1}, "b")


MARKERS = ("<think></think>", "<think>", "</think>", "<think>{</think>", "`</think>`")
MARKERS += ("<|channel|>", '{"a": "</think>')


@pytest.mark.parametrize("loop", MARKERS)
def test_markers_in_a_loop_are_parted_in_time(loop):
    text, started = loop * (30_000 // len(loop)), process_time()
    for typed in (True, False):
        parted = part_thought(text, typed=typed)
        assert len(parted.answer) + len(parted.thought or "") <= len(text)
    assert process_time() - started < 5  # a hundredth of that, unless it goes back over the text


def test_a_re_ask_quotes_no_thought_and_one_that_the_endpoint_parts_is_kept_apart(desk: Desk):
    said = Answer("<think>Chess, and tea.</think>They like chess.")
    thought = 'Or {"hobbies": []}?'
    parted = chat('{"hobbies": ["chess"]}', said={"reasoning_content": thought})
    with serve(in_turn(said, Answer(body=json.dumps(parted)))) as server:
        completion = desk.ask(question(server))
    assert server.requests[1]["messages"][2] == {"role": "assistant", "content": "They like chess."}
    assert (completion.value, completion.thought) == (("chess",), thought)
    assert completion.raw == '{"hobbies": ["chess"]}'


def test_a_run_keeps_a_thought_beside_the_answer_and_judges_the_answer(tmp_path):
    data, out = write_ability(tmp_path / "data", 4, target_row("u1")), tmp_path / "out"
    asked = []

    def judged(body):
        asked.append(body["messages"][-1]["content"])
        return met()

    said = Answer("They hate rain, I know.\n</think>\nTake the market hall.")
    with serve(between(lambda _: said, judged)) as server:
        words = ("run", "task=utilization", "ability=cf", f"data={data}", f"out={out}")
        assert alps_here(*words, *llm(server.url)).code == 0
    (row,) = rows(out / "predictions.jsonl")
    assert row["prediction"] == {"answer": "Take the market hall."}
    assert (row["thought"], row["raw"]) == ("They hate rain, I know.", said.text)
    assert "They hate rain" not in asked[0]
    assert track_of(out, "task4_ability4")["scores"]["cf"]["value"] == 1.0


def test_a_text_of_too_much_is_no_answer_and_kept_in_part():
    for text, said in (
        ('{"verdict": [' + "{}," * 60_000 + "{}]}", "the text has more than 50,000 JSON values"),
        ('{"verdict": [' + "1," * 60_000 + "1]}", "the text has more than 50,000 JSON values"),
        ('{"verdict": "' + "x" * (4 << 20) + '"}', "the text has 4,194,319 characters; alps read"),
    ):
        found = understand(Reply(text, "stop"), rating_answer(BinaryReply))
        assert (found.outcome, (found.error or "")[: len(said)]) == ("invalid", said)
        assert len(found.raw or "") < 100_000
    brackets_in_a_text = json.dumps({"reason": "a, [b], {c}; " * 40_000, "verdict": "met"})
    read_whole = understand(Reply(brackets_in_a_text, "stop"), rating_answer(BinaryReply))
    assert read_whole.outcome == "ok"
