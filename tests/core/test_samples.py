"""The samples that come with alps: each test loops over a table of checks, and names the record
and the check that fails.
"""

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any

from alps.data.release import GOLD, INPUT, RowPair, open_split, read_samples, read_track
from alps.rejection import is_rejected
from alps.schema import CANONICAL_LABELS, UNMAPPED, ExtractionSample, Memory
from alps.similarity import THRESHOLD, similarity
from alps.tasks import load_task
from alps.text import fold
from tests.endtoend import rows

SPLIT = open_split("samples", None)
Checks = Mapping[str, Callable[[Any], Any]]


def failing(things: Iterable[tuple[str, Any]], checks: Checks) -> list[str]:
    """Return the name of each thing and of each check that it fails."""
    return [
        f"{name}: {check}" for name, one in things for check in checks if not checks[check](one)
    ]


def untrue(facts: Mapping[str, Any]) -> list[str]:
    return [name for name, holds in facts.items() if not holds]


def differ(values: Sequence[str]) -> bool:
    """Tell whether no two texts say nearly the same."""
    return all(similarity(*both) < THRESHOLD for both in combinations(values, 2))


def is_latin(text: str) -> bool:
    return all(unicodedata.name(c).startswith("LATIN") for c in text if c.isalpha())


def is_right_to_left(text: str) -> bool:
    return sum(unicodedata.bidirectional(c) in ("R", "AL") for c in text) > len(text) / 2


def users(turns: Sequence[Mapping[str, str]]) -> str:
    return "\n".join(turn["text"] for turn in turns if turn["role"] == "user")


def quotes(evidence: Any, turns: Sequence[Mapping[str, str]], session: str) -> bool:
    """Tell whether evidence is quoted word for word from a turn of the user."""
    turn = turns[evidence["utterance_index"]]
    said = evidence["text"]
    is_user = turn["role"] == "user" and evidence["session_id"] == session
    return is_user and bool(said.strip()) and said in turn["text"]


def is_labelled(memory: Memory) -> bool:
    if memory.label == UNMAPPED:
        return memory.label_suggestion and memory.label_suggestion not in CANONICAL_LABELS
    return memory.label in CANONICAL_LABELS and memory.label_suggestion is None


# Extraction


def language(sample: ExtractionSample) -> str:
    """Tell the language by script, and within Latin by letters that few languages have; code is
    left out.
    """
    said = "\n".join(turn.text for turn in sample.dialogue if turn.role == "user")
    bare = re.sub(r"```.*?(```|\Z)", "", said, flags=re.DOTALL)
    letters = [c for c in bare if c.isalpha()]
    ((most, _),) = Counter(unicodedata.name(c).split()[0] for c in letters).most_common(1)
    if most != "LATIN":
        return most
    marks = {"German": "äöüß", "Spanish": "ñáíóú"}
    counts = {name: sum(c in marks[name] for c in letters) for name in marks}
    marked = max(counts, key=lambda name: counts[name])
    return marked if counts[marked] > len(letters) / 200 else "English"


DIALOGUE_CHECKS: Checks = {
    "6 to 40 turns, none blank": lambda it: (
        6 <= len(it.turns) <= 40 and all(turn["text"].strip() for turn in it.turns)
    ),
    "gold is written in full": lambda it: (
        tuple(Memory.model_validate(item) for item in it.items) == it.sample.gold
    ),
    "evidence is quoted": lambda it: all(
        item["evidence"] and quotes(item["evidence"], it.turns, it.sample.session_id)
        for item in it.items
    ),
    "labels": lambda it: all(is_labelled(memory) for memory in it.sample.gold),
    "confidence on the grid": lambda it: (
        {memory.confidence for memory in it.sample.gold} <= {0.95, 0.8, 0.65, 0.5}
    ),
    "ids and types": lambda it: (
        len({item["memory_id"] for item in it.items}) == len(it.items)
        and all(memory.type for memory in it.sample.gold)
    ),
    "none is rejected": lambda it: not any(is_rejected(one["value"]) for one in it.items),
    "memories differ": lambda it: differ([item["value"] for item in it.items]),
    "input holds the dialogue and no gold": lambda it: (
        list(it.row["input"]) == ["dialogue"]
        and not [i for i in it.items if i["value"] in json.dumps(it.row, ensure_ascii=False)]
    ),
}


class Dialogue:
    """A sample of extraction beside its rows."""

    def __init__(self, sample: ExtractionSample, row: Any, gold: Any) -> None:
        self.sample, self.row = sample, row
        self.turns, self.items = row["input"]["dialogue"], gold["gold"]["memory_items"]


def test_dialogues_of_extraction():
    folder = SPLIT.track("task1")
    samples = list(read_samples(folder, load_task("extraction").read_sample))
    inputs, golds = rows(folder / INPUT), rows(folder / GOLD)
    ids = [sample.benchmark_id for sample in samples]
    together = zip(samples, inputs, golds, strict=True)
    named = [(sample.benchmark_id, Dialogue(sample, *more)) for sample, *more in together]
    languages = Counter(map(language, samples))
    memories = [memory for sample in samples for memory in sample.gold or ()]
    facts = {
        "enough dialogues": len(samples) >= 12,
        "input and gold stand in the same order": (
            ids == [row["benchmark_id"] for row in inputs] == [row["benchmark_id"] for row in golds]
        ),
        "ids are unique": len(set(ids)) == len({one.session_id for one in samples}) == len(ids),
        "several languages": len(languages) >= 4 and languages["English"] < len(samples),
        "one from right to left": any(is_right_to_left(users(it.turns)) for _, it in named),
        "one holds nothing": any(sample.gold == () for sample in samples),
        "one begins with the assistant": any(
            sample.dialogue[0].role == "assistant" for sample in samples
        ),
        "both types": {memory.type for memory in memories} == {"direct", "indirect"},
        "most labels": len({memory.label for memory in memories} & set(CANONICAL_LABELS)) >= 20,
    }
    assert untrue(facts) == []
    assert failing(named, DIALOGUE_CHECKS) == []


# Update

FOREIGN = (
    *(("coeliac", "coeliac"), ("budgies", "budgies"), ("netball", "netball"), ("拉二胡", "erhu")),
    *(("vegan", "vegan"), ("handball", "handball"), ("بنسلين", "penicillin"), ("Emacs", "emacs")),
    *(("marathon", "marathon"), ("Heuschnupfen", "hay fever"), ("parrot", "parrot")),
    *(("dentist", "dentist"), ("ferret", "ferret"), ("e-bike", "e-bike"), ("海南", "hainan")),
    *(("車禍", "accident"), ("gatos persas", "persian"), ("תאומים", "twins")),
    *(("postman", "postman"), ("scared of dogs", "dogs"), ("água-viva", "jellyfish")),
    *(("baccarat", "baccarat"), ("titanium", "titanium"), ("judo", "judo")),
    *(("消防士", "firefighter"), ("dinghy", "dinghy")),
)
"""What the new dialogue of each record says of somebody else: a word said there, and the English
word a careless system would store.
"""


class Update:
    """A record of update, and what its gold did to each memory."""

    def __init__(self, pair: RowPair, foreign: tuple[str, str]) -> None:
        self.input, self.gold, self.foreign = pair.input, pair.gold, foreign
        given = pair.input["input"]
        self.old_turns, self.new_turns = given["old_dialogue"], given["new_dialogue"]
        self.memory = given["memory"]
        self.old = {item["memory_id"]: item for item in self.memory}
        self.answer = (pair.gold or {})["gold"]["answer"]
        self.ids = [item["memory_id"] for item in self.answer]
        self.added = [one for one in self.answer if one["memory_id"].startswith("m_new_")]
        self.modified = []
        for item in self.answer:
            name, suffix = item["memory_id"], "_updated"
            if name.endswith(suffix):
                self.modified.append((self.old[name.removesuffix(suffix)], item))
        replaced = {before["memory_id"] for before, _ in self.modified}
        self.deleted = set(self.old) - set(self.ids) - replaced

    def values(self, items: Any) -> list[str]:
        return [item["value"] for item in items]

    def is_quoted(self, item: Any) -> bool:
        """Indices count on through the new dialogue."""
        is_old = item["evidence"]["utterance_index"] < len(self.old_turns)
        turns = self.old_turns + self.new_turns
        quoted = quotes(item["evidence"], turns, self.input["session_id"])
        return quoted and is_old == (item["memory_id"] in self.old)


def is_english_chat(text: str) -> bool:
    """Tell English by its letters and by the words that every English chat has."""
    prose = re.sub(r"```.*?(```|\Z)", "", text, flags=re.DOTALL)
    letters = [c for c in prose if c.isalpha()]
    latin = sum(unicodedata.name(c).startswith("LATIN") for c in letters)
    words = re.findall(r"[a-z]+", prose.lower())
    common = sum(word in ("the", "and", "is", "it", "to") for word in words)
    return latin > 0.9 * len(letters) and common > len(words) / 20


def is_full(item: Mapping[str, Any]) -> bool:
    memory = Memory.model_validate(item)
    on_grid = memory.confidence in (0.95, 0.8, 0.65, 0.5)
    is_known = bool(memory.label_suggestion) or memory.label in CANONICAL_LABELS
    is_whole = list(item) == list(Memory.model_fields) and bool(memory.type)
    return is_whole and on_grid and is_known and (is_labelled(memory) or memory.label == UNMAPPED)


HEAD = ["benchmark_id", "task", "session_id", "canonical_id"]
UPDATE_CHECKS: Checks = {
    "layout": lambda it: (
        (list(it.input), list(it.gold)) == ([*HEAD, "stratum", "input"], [*HEAD, "gold"])
        and list(it.input["input"]) == ["old_dialogue", "new_dialogue", "memory"]
        and [it.input[key] for key in HEAD] == [it.gold[key] for key in HEAD]
        and it.input["task"] == "task2"
        and it.input["canonical_id"] == it.input["benchmark_id"]
    ),
    "input holds nothing of the answer": lambda it: (
        not [
            item["value"]
            for item in [*it.added, *(after for _, after in it.modified)]
            if item["value"] in json.dumps(it.input, ensure_ascii=False)
        ]
    ),
    "sizes": lambda it: (
        6 <= len(it.old_turns) <= 16 and 8 <= len(it.new_turns) <= 16 and 4 <= len(it.memory) <= 10
    ),
    "no blank turn": lambda it: all(t["text"].strip() for t in it.old_turns + it.new_turns),
    "written in full": lambda it: all(map(is_full, [*it.memory, *it.answer])),
    "ids name what was done": lambda it: (
        list(it.old) == [f"m{n}" for n in range(1, len(it.memory) + 1)]
        and len(set(it.ids)) == len(it.ids)
        and [one["memory_id"] for one in it.added]
        == [f"m_new_{n}" for n in range(1, len(it.added) + 1)]
        and all(
            name in it.old or name.startswith("m_new_") or name.endswith("_updated")
            for name in it.ids
        )
    ),
    "what did not change is identical": lambda it: all(
        json.dumps(one) == json.dumps(it.old[one["memory_id"]])
        for one in it.answer
        if one["memory_id"] in it.old
    ),
    "modified memories say something else, and the old are gone": lambda it: all(
        before["memory_id"] not in it.ids
        and similarity(before["value"], after["value"]) < 1
        and fold(before["value"]) != fold(after["value"])
        for before, after in it.modified
    ),
    "evidence is quoted": lambda it: all(map(it.is_quoted, [*it.memory, *it.answer])),
    "memories differ": lambda it: differ(it.values(it.answer)) and differ(it.values(it.memory)),
    "what is new is not in the old list": lambda it: all(
        similarity(old, new) < THRESHOLD
        for old in it.values(it.memory)
        for new in it.values(it.added)
    ),
    "facts about somebody else are said and not taken up": lambda it: (
        it.foreign[0] in users(it.new_turns)
        and not [v for v in it.values(it.answer) if it.foreign[1] in v.lower()]
    ),
    "gold is English": lambda it: all(map(is_latin, it.values(it.answer))),
}


def test_records_of_update():
    folder = SPLIT.track("task2")
    pairs = list(read_track(folder))
    expected = [f"alps_upd_{number:03d}" for number in range(1, len(pairs) + 1)]
    records = [Update(pair, said) for pair, said in zip(pairs, FOREIGN, strict=True)]
    shapes = Counter((len(r.modified), len(r.added), len(r.deleted)) for r in records)
    only_added = [s for s in shapes.elements() if s[1] and not s[0] and not s[2]]
    changes = [both for record in records for both in record.modified]
    far = [similarity(old["value"], new["value"]) < THRESHOLD for old, new in changes]
    texts = [users(record.new_turns) for record in records]
    foreign = [text for text in texts if not is_english_chat(text)]
    known = {pair.input["session_id"]: pair for pair in read_track(SPLIT.track("task1"))}
    continued = [record for record in records if record.input["session_id"] in known]
    facts = {
        "enough records": len(records) >= 24,
        "the same order": [
            [row["benchmark_id"] for row in rows(folder / name)] for name in (INPUT, GOLD)
        ]
        == [expected, expected],
        "one person each": len({r.input["session_id"] for r in records}) == len(records),
        "up to three modified": {shape[0] for shape in shapes} == {0, 1, 2, 3},
        "up to three added": {shape[1] for shape in shapes} == {0, 1, 2, 3},
        "one without a change": shapes[(0, 0, 0)] == 1,
        "one with added ones alone": len(only_added) == 1,
        "three withdraw a memory": [s[2] for s in shapes.elements() if s[2]] == [1, 1, 1],
        "modified values are far from the old": sum(far) > len(far) * 0.9,
        "several languages": 5 <= len(foreign) < len(records),
        "one from right to left": any(map(is_right_to_left, foreign)),
        "enough are continued": len(continued) >= 12,
    }
    assert untrue(facts) == []
    for record in continued:
        first = known[record.input["session_id"]]
        dialogue = first.input["input"]["dialogue"]
        assert record.old_turns == dialogue[: len(record.old_turns)]
        values = {item["value"] for item in (first.gold or {})["gold"]["memory_items"]}
        strange = [value for value in record.values(record.memory) if value not in values]
        assert len(strange) <= 1, record.input["benchmark_id"]
    assert failing(zip(expected, records, strict=True), UPDATE_CHECKS) == []


# Utilization

PREFIXES = {
    "ability1": ("alps_pa_", 14),
    "ability2": ("alps_pf_", 20),
    "ability3": ("alps_vra_", 14),
    "ability4": ("alps_cf_", 14),
    "ability5": ("alps_ei_", 14),
}
"""What ids of an ability begin with, and how many records it has at least."""
FUNCTION_WORDS = {
    "English": (
        "the a and my to is it for what with should of how i'm you this that on which there from"
    ),
    "German": "ich und der die das nicht wie mit von für wir uns seit bitte im bis",
    "Spanish": "el los las por qué que se me y para en cuántos tengo este",
    "French": "le les la notre vient par quoi où avec je tu pour leur mail dit nous vous",
    "Portuguese": "o da que minha eu um uma pouco todo pra até acordo cartão não",
}
INTERACTION = "Preferences/Interaction_Preferences"
CONSTRAINTS = {
    label for label in CANONICAL_LABELS if label.startswith("Constraints_and_Boundaries/")
}
MOST_SHARED = 0.34
"""The largest share of a memory's words that its query may repeat."""


def language_of(text: str) -> str:
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
    counts = {name: sum(words[w] for w in FUNCTION_WORDS[name].split()) for name in FUNCTION_WORDS}
    return max(counts, key=lambda name: counts[name])


def pieces(text: str) -> set[str]:
    """Return what a text is about: words of four letters or more, and pairs of characters where
    there are no spaces.
    """
    folded = text.casefold()
    unspaced = re.findall(r"[\u3040-\u30ff\u3400-\u9fff]+", folded)
    words = re.findall(r"[^\W_\u3040-\u30ff\u3400-\u9fff]{4,}", folded)
    return set(words) | {run[i : i + 2] for run in unspaced for i in range(len(run) - 1)}


def long_words(text: str) -> set[str]:
    """Return the words of four letters or more; writing without spaces has none."""
    return set(re.findall(r"[^\W\d_\u3400-\u9fff]{4,}", text.casefold()))


def is_chinese(text: str) -> bool:
    letters = [c for c in text if c.isalpha()]
    return sum("\u3400" <= c <= "\u9fff" for c in letters) > len(letters) / 2


def is_english(text: str) -> bool:
    """Tell English by its letters: in the other languages of the samples one in a hundred or more
    is not ASCII.
    """
    letters = [c for c in text if c.isalpha()]
    return sum(not c.isascii() for c in letters) < len(letters) / 200


class Asked:
    """A record of utilization."""

    def __init__(self, pair: RowPair) -> None:
        self.row, self.gold = pair.input, (pair.gold or {})["gold"]
        self.head, self.session = pair.input["benchmark_id"], pair.input["session_id"]
        self.given = pair.input["input"]
        self.query, self.turns = self.given["query"], self.given["model_input"]["dialogue_history"]
        self.queries = [item["query"] for item in self.given["queries"]]
        self.query_ids = [item["query_id"] for item in self.given["queries"]]
        self.target, self.memories = self.gold["selected_memory"], self.gold["extracted_memory"]
        self.values = [memory["value"] for memory in self.memories]
        self.evidence = self.target["evidence"]
        self.shown = json.dumps(pair.input, ensure_ascii=False)

    def is_repeated(self, told: str) -> bool:
        """Tell whether the query says what a text says."""
        said = pieces(told)
        shared = len(pieces(self.query) & said) > max(1, len(said) / 5)
        return shared or similarity(self.query, told) >= THRESHOLD / 2


EVERY_ABILITY: Checks = {
    "the dialogue is the same everywhere": lambda it: (
        it.turns == it.given["audit_context"]["conversation"] == it.gold["conversation"]
        and all(turn["text"].strip() for turn in it.turns)
    ),
    "the first query stands in all its places": lambda it: (
        it.query == it.given["model_input"]["query"] == it.queries[0]
        and all(query.strip() == query and query for query in it.queries)
    ),
    "memories differ, have labels and stand in order": lambda it: (
        [one["memory_id"] for one in it.memories]
        == [f"m{n}" for n in range(1, len(it.memories) + 1)]
        and {memory["label"] for memory in it.memories} <= set(CANONICAL_LABELS)
        and differ(it.values)
    ),
    "the target is one of them": lambda it: (
        list(it.target) == ["memory_id", "value", "label", "evidence"]
        and {key: it.target[key] for key in ("memory_id", "value", "label")} in it.memories
    ),
    "evidence is quoted, and not from the last turn of the user": lambda it: (
        list(it.evidence) == ["session_id", "utterance_index", "text"]
        and quotes(it.evidence, it.turns, it.session)
        and bool(users(it.turns[it.evidence["utterance_index"] + 1 :]))
    ),
    "input holds no gold": lambda it: (
        not [value for value in it.values if value in it.shown]
        and "selected_memory" not in it.shown
    ),
}
CHECKS: dict[str, Checks] = {
    "ability1 ability2": {
        "6 to 20 turns, 2 to 6 memories": lambda it: (
            6 <= len(it.turns) <= 20 and 2 <= len(it.memories) <= 6
        ),
        "one query, after the dialogue": lambda it: (
            it.query_ids == [f"{it.head}:1"] and it.query not in [t["text"] for t in it.turns]
        ),
        "the stratum is no label": lambda it: it.row["stratum"] not in CANONICAL_LABELS,
        "the key is the target's": lambda it: it.gold["memory_key"] == it.target["memory_id"],
        "memories of three fields": lambda it: all(
            list(memory) == ["memory_id", "value", "label"] for memory in it.memories
        ),
        "said in one turn": lambda it: (
            [n for n, turn in enumerate(it.turns) if it.evidence["text"] in turn["text"]]
            == [it.evidence["utterance_index"]]
        ),
        "query and dialogue speak one language, values are English": lambda it: (
            language_of(it.query) == language_of(users(it.turns)) and all(map(is_latin, it.values))
        ),
        "the query does not repeat the memory": lambda it: (
            not it.is_repeated(it.target["value"]) and not it.is_repeated(it.evidence["text"])
        ),
    },
    "ability3 ability4 ability5": {
        "6 to 16 turns, 2 to 5 memories": lambda it: (
            6 <= len(it.turns) <= 16 and 2 <= len(it.memories) <= 5
        ),
        "values are English": lambda it: all(map(is_english, it.values)),
        "no query quotes the memory": lambda it: all(
            len(long_words(it.target["value"]) & long_words(query))
            <= MOST_SHARED * len(long_words(it.target["value"]))
            for query in it.queries
        ),
        "input holds no label": lambda it: not [
            label for label in CANONICAL_LABELS if label in json.dumps(it.given, ensure_ascii=False)
        ],
    },
    "ability3 ability4": {
        "one query": lambda it: it.query_ids == [f"{it.head}:1"],
        "the key is the target's": lambda it: it.gold["memory_key"] == it.target["memory_id"],
    },
    "ability5": {
        "no key": lambda it: it.gold["memory_key"] is None,
        "written in its language": lambda it: all(
            map({"en": is_english, "ch": is_chinese}[it.row["stratum"]],
                [users(it.turns), *it.queries])
        ),
        "five queries that are different moments": lambda it: (
            it.query_ids == [f"{it.head}:{number}" for number in range(5)] and differ(it.queries)
        ),
        "one category": lambda it: (
            {item["category"] for item in it.given["queries"]} == {"Emotional Support"}
        ),
    },
}  # fmt: skip


def records_of(ability: str) -> list[Asked]:
    return [Asked(pair) for pair in read_track(SPLIT.track(f"task4_{ability}"))]


def is_laid_out(ability: str, row: Mapping[str, Any], answer: Mapping[str, Any]) -> bool:
    head = ["benchmark_id", "task", "ability", "session_id", "canonical_id"]
    gold = ["memory_key", "selected_memory", "extracted_memory", "conversation"]
    return (
        (list(row), list(answer)) == ([*head, "stratum", "input"], [*head, "gold"])
        and list(row["input"]) == ["query", "queries", "model_input", "audit_context"]
        and list(row["input"]["model_input"]) == ["query", "dialogue_history"]
        and list(answer["gold"]) == gold
        and [row[name] for name in head] == [answer[name] for name in head]
        and [row["task"], row["ability"]] == ["task4", ability]
        and row["canonical_id"] == row["benchmark_id"]
    )


def test_records_of_utilization():
    asked: dict[str, list[Asked]] = {}
    for ability, (prefix, least) in PREFIXES.items():
        folder = SPLIT.track(f"task4_{ability}")
        inputs, golds = rows(folder / INPUT), rows(folder / GOLD)
        expected = [f"{prefix}{number:03d}" for number in range(1, len(inputs) + 1)]
        assert len(inputs) >= least
        assert [row["benchmark_id"] for row in inputs] == expected
        strange = [r["benchmark_id"] for r, g in zip(inputs, golds, strict=True)
                   if not is_laid_out(ability, r, g)]  # fmt: skip
        assert strange == []
        asked[ability] = records_of(ability)
    for abilities, checks in {" ".join(PREFIXES): EVERY_ABILITY, **CHECKS}.items():
        for ability in abilities.split():
            assert failing([(one.head, one) for one in asked[ability]], checks) == []


def labels_of(records: Sequence[Asked]) -> list[str]:
    return [one.target["label"] for one in records]


def test_records_of_utilization_as_a_whole():
    asked = {
        name: [Asked(p) for p in read_track(SPLIT.track(f"task4_{name}"))] for name in PREFIXES
    }
    styles = [label == INTERACTION for label in labels_of(asked["ability2"])]
    strata = [one.row["stratum"] for one in asked["ability5"]]
    facts: dict[str, Any] = {
        "preferences of both kinds": min(styles.count(True), styles.count(False)) >= 9,
        "personas in neither": INTERACTION not in labels_of(asked["ability1"]),
        "kinds are mixed": styles not in (sorted(styles), sorted(styles, reverse=True)),
        "constraints are of all kinds": set(labels_of(asked["ability4"])) == CONSTRAINTS,
        "emotional sessions in two languages": min(strata.count("en"), strata.count("ch")) >= 7,
        "and in no other": set(strata) == {"en", "ch"},
    }
    for ability in ("ability1", "ability2", "ability3", "ability4"):
        records = asked[ability]
        facts[f"{ability}: places"] = len({one.gold["memory_key"] for one in records}) >= 3
    for ability in ("ability1", "ability2"):
        found = [language_of(users(one.turns)) for one in asked[ability]]
        other = [name for name in found if name != "English"]
        facts[f"{ability}: languages"] = len(other) >= 4 and len(set(found)) >= 4
    for ability in ("ability3", "ability4"):
        other = [one for one in asked[ability] if not is_english(users(one.turns))]
        facts[f"{ability}: languages"] = len(other) >= 4
    for abilities in ("ability1 ability2", "ability3 ability4 ability5"):
        records = [one for ability in abilities.split() for one in asked[ability]]
        queries = [query for one in records for query in one.queries]
        long = Counter(turn["text"] for one in records for turn in one.turns)
        twice = [text for text, count in long.items() if count > 1 and len(text) > 40]
        said = {users(one.turns) for one in records}
        facts |= {
            f"{abilities}: ids": len({one.head for one in records}) == len(records),
            f"{abilities}: no query twice": len(set(queries)) == len(queries),
            f"{abilities}: no dialogue twice": len(said) == len(records),
            f"{abilities}: targets differ": differ([one.target["value"] for one in records]),
        }
        if abilities == "ability1 ability2":
            sessions = {one.session for one in records}
            facts["no person twice"] = len(sessions) == len(records)
            facts["queries differ"] = differ(queries)
            facts["no turn twice"] = twice == []
    for ability in ("ability3", "ability4", "ability5"):
        sessions = {one.session for one in asked[ability]}
        facts[f"{ability}: no person twice"] = len(sessions) == len(asked[ability])
    assert untrue(facts) == []
