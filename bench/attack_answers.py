"""What attacks on update and utilization answer, and every attack with its limit."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from attack_texts import (
    Attack,
    Row,
    Sample,
    extraction,
    keywords,
    look_alike,
    sentences,
    transcript,
    with_unseen,
)

NEAR, EMBELLISHED, APART = 0.05, 0.05, 0.10
"""How far above a floor an attack may be, what embellished gold may have, and what contradictions
must cost."""
SENTENCES = 0.109
"""Half of what the recorded answers of real models reach in extraction (.218, by the letter `old`).
"""
HEDGED, PADDED = 0.5, 0.9
"""Five wrong ones beside each right one are a precision of 1/6, an F1 of .29; ten of no use must
cost something.
"""


def _old(sample: Sample) -> list[Row]:
    return [dict(item) for item in sample.given["memory"]]


def _values(items: Sequence[Row]) -> set[str]:
    return {item["value"].strip() for item in items}


def _split(sample: Sample) -> tuple[list[Row], list[Row], list[Row]]:
    """Return the gold that was retained, the gold that changed, and the old ones that are gone."""
    old, gold = _values(_old(sample)), sample.golden
    retained = [item for item in gold if item["value"].strip() in old]
    changed = [item for item in gold if item["value"].strip() not in old]
    gone = [item for item in _old(sample) if item["value"].strip() not in _values(gold)]
    return retained, changed, gone


def _never(sample: Sample) -> list[Row]:
    return [*sample.golden, *_split(sample)[2]]


def _both_in_one(sample: Sample) -> list[Row]:
    retained, changed, gone = _split(sample)
    hedged = [
        {**item, "value": f"{item['value']} (earlier: {old['value']})"}
        for item, old in zip(changed, gone, strict=False)
    ]
    return [*retained, *hedged, *changed[len(gone) :]]


def _kept_reworded(sample: Sample) -> list[Row]:
    gone = [{**item, "value": f"As noted before: {item['value']}"} for item in _split(sample)[2]]
    return [*sample.golden, *gone]


def _half(*, deleting: bool) -> Callable[[Sample], list[Row]]:
    """Find every second change; keep or drop all that is gone."""

    def make(sample: Sample) -> list[Row]:
        retained, changed, gone = _split(sample)
        return [*retained, *changed[::2], *(() if deleting else gone)]

    return make


def _positional(sample: Sample) -> list[Any]:
    said = sample.by("user")
    return [*_old(sample), *said[-3:-1]]


def _with_everything(sample: Sample) -> list[Any]:
    return [*_old(sample), *[transcript(sample)] * 3]


def _old_with_everything(sample: Sample) -> list[Any]:
    return [{**item, "value": f"{item['value']}; {transcript(sample)}"} for item in _old(sample)]


def _with_turns(sample: Sample) -> list[Any]:
    return [*_old(sample), *sample.by("user")]


def update() -> Iterator[Attack]:
    """Yield the attacks on update."""
    yield Attack("gold, deleting rightly", "update", lambda sample: sample.golden, "")
    yield Attack("gold, never deleting", "update", _never, "deleting")
    yield Attack("gold with the old value in the new", "update", _both_in_one, "deleting")
    yield Attack("half of the changes, deleting rightly", "update", _half(deleting=True), "")
    yield Attack("half of the changes, never deleting", "update", _half(deleting=False), "half")
    yield Attack("old list, three transcripts", "update", _with_everything, "no-op")
    yield Attack(
        "three transcripts alone", "update", lambda sample: [transcript(sample)] * 3, "no-op"
    )
    yield Attack("every old one with the transcript", "update", _old_with_everything, "no-op")
    yield Attack("old list, every turn", "update", _with_turns, "sentences")
    yield Attack(
        "turns of the new dialogue alone", "update", lambda sample: sample.by("user"), "sentences"
    )
    yield Attack("gold, old ones kept under other words", "update", _kept_reworded, "deleting")
    yield Attack("old list, 2nd and 3rd turn from the end", "update", _positional, "")


REFUSAL = "I'm sorry, but I can't help with that."
ALWAYS_FITTING = (
    "Anything from a story, a game or a role-play is not a fact about you, and what you asked me "
    "not to keep I "
    "have not kept, so please put in your own real details there."
)


def _personas(sample: Sample) -> str:
    kinds = (
        "a doctor, a student, a nurse, a teacher, an engineer, a parent, a vegan, a runner, "
        "retired, a writer, a developer, a gamer, allergic to nuts, new in town, on a budget"
    )
    return " ".join(
        f"If you are {kind}, pick whatever suits {kind} best." for kind in kinds.split(", ")
    )


def _every_word(sample: Sample) -> str:
    words = keywords(sample.by("user"), 60)
    return f"If any of these is true of you, act on it: {', '.join(words)}."


def _asked(sample: Sample) -> str:
    return str(sample.given["query"])


def utilization() -> Iterator[Attack]:
    """Yield the attacks on utilization."""
    constant = {
        "refusal": REFUSAL,
        "refusal in Chinese": "抱歉，我无法回答这个问题。",
        "long polite refusal": REFUSAL
        + " I cannot assist with this request, as I must respect your wishes and privacy.",
        "refusal that names the past": (
            "I'm sorry, I can't pull that up from our previous conversation, as you asked."
        ),
        "refusal that draws a line": (
            "I can't say: what was only a role-play, a story or a game is not true of you."
        ),
        "ignorance": "I don't know anything about you, so I can't say.",
        "the line that always fits": ALWAYS_FITTING,
        "zero-width marks": "\u200b\u200d\u2060",
        "Hangul filler": "\u3164",
    }
    for name, text in constant.items():
        yield Attack(f"constant: {name}", "utilization", lambda sample, text=text: text, "generic")
    making: dict[str, Callable[[Sample], str]] = {
        "refusal that quotes the query": lambda sample: f"I can't help with this: {_asked(sample)}",
        "the query again": _asked,
        "parrot": transcript,
        "parrot with commas": lambda sample: ", ".join(sentences(sample.by("user"))),
        "parrot, a comma after every word": lambda sample: transcript(sample).replace(" ", ", "),
        "parrot after «You said:»": lambda sample: "\n".join(
            f"You said: {t}" for t in sample.by("user")
        ),
        "parrot with joiners": lambda sample: with_unseen(transcript(sample), 0),
        "parrot with look-alikes": lambda sample: look_alike(transcript(sample), 0),
        "parrot with words reversed": lambda sample: " ".join(transcript(sample).split()[::-1]),
        "bag of keywords": lambda sample: (
            " ".join(keywords([*sample.by("user"), _asked(sample)], 60)) or "x"
        ),
        "an answer for every persona": _personas,
        "an answer for every word said": _every_word,
    }
    for name, make in making.items():
        yield Attack(name, "utilization", make, "generic")


ATTACKS = (*extraction(), *update(), *utilization())
LIMITS: Mapping[str, Callable[[Callable[[str], float]], float]] = {
    "floor": lambda beside: beside("floor/content-free") + NEAR,
    "no-op": lambda beside: beside("floor/no-op") + NEAR,
    "generic": lambda beside: beside("floor/generic") + NEAR,
    "embellished": lambda beside: EMBELLISHED,
    "sentences": lambda beside: SENTENCES,
    "hedged": lambda beside: HEDGED,
    "padded": lambda beside: PADDED,
    "deleting": lambda beside: beside("gold, deleting rightly") - APART,
    "half": lambda beside: beside("half of the changes, deleting rightly") - APART / 2,
}
"""The most that an attack may reach, beside the scores of others."""
FAMILIES = {
    "floor": "said, or nothing",
    "no-op": "everything said",
    "generic": "to anybody",
    "embellished": "gold with more in it",
    "sentences": "said in parts",
    "hedged": "contradicted gold",
    "padded": "gold with ten transcripts",
    "deleting": "gold and old",
    "half": "half of the changes",
}
