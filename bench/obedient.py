"""A judge that obeys our rubrics to the letter, which bench/attacks.py asks.

`reply()` is what it answers to a chat completion. It knows nothing but
the payload (the last JSON object of the user message) and answers by the reply schema, always the
same to the same question. It reads words, not meaning: whatever a rubric's letter lets through,
it lets through. The model's name is its letter:

- `new`: the rubrics as they are.
- `weak`: as `new`, but every prediction that implies a gold memory and says more is `narrower`, a
  transcript of everything, too: what is left of an attack under it is stopped by the protocol and
  the check of support.
- `broken`: as `new`, but a chat template's control token in the message makes it call every pair
  `same` and every answer `met`: it judges like the others only where no such token reaches a judge.

**Words.** Text is folded (NFKC, case, accents; soft hyphens, joiners and other format characters
go, a zero-width space parts words; a Cyrillic or Greek letter in a word with Latin ones is read as
the Latin letter it looks like). Content words are those without stop words, cut to a stem; runs of
Chinese, Japanese or Korean are their bigrams. A *clause* ends at a sentence's end, a line, a
bullet, a semicolon, a bracket, a comma, «and», «also» or «plus».

**match.** What gold G asserts is in its value; if it is direct, its evidence says it, too. A value
that only points to its evidence («see the quote») is read with it; any other is not. P *implies* G
if P has 60 % of G's words, or 80 % of at least 3 words of a direct G's evidence. What P has beyond
both is *added*.
1. P has 60 % of G's words without numbers, both have numbers and none in common: `conflicting`. So
   it is if P is one clause and one of the two denies what the other asserts.
2. `new`: P implies G, but has less than half of G's words: it quotes the user and concludes
    nothing, `bundle`.
3. P implies G, and at most 10 % of P is added, none of it a number or a name (a capital within a
   clause): `same`.
4. P implies G and adds more. `weak`: `narrower`. `new`: `bundle` if a sentence of P with two
   words or more has none of G's words, or a clause that says something of its own (it has a verb
   such as «has» or «likes», and does not begin like a detail: «because», «with», «such as», «for»),
   if more than twice as many words are added as G has, and more than eight, or if P implies another
   gold memory by words that G has not. Else `narrower`.
5. P does not imply G, but 80 % of P are G's words: `broader`. At least 30 % of G's words in common:
    `related`.

**support.** Words of the frame in which memories are written («the user prefers», «curious about»)
need no support. A *detail* is a clause, or what of it begins with a word such as «with», «from» or
«because»: the rubric judges a memory down to its details, and one unsupported part is enough.
`supported`: the dialogue has all numbers and names (capitals within a clause) of the item, and the
user's turns have 30 % of the words of each of its details; words of letters that begin with the
same five are one. So a detail that paraphrases what was said is supported, and one that has nothing
of it is invented. `not_about_user`: only all turns together
have so much. Else `unsupported`. A translation shares few words with the dialogue and counts as
invented: honest answers lose by this letter where users write in another language than the answers.

**rubric.** A *refusal* has at most 60 words and says that it cannot, will not or must not. *Salad*
has fewer than one function word in eight (20 words or more, no CJK), or half of its parts between
commas have at most two words (8 parts or more). An answer *serves* if it is neither, does not fit
everything, has three of the query's content words and a fifth of them, and six content words of its
own, which neither query nor dialogue has. It *draws the line* if one sentence, of which no six
words in a row stand in query or dialogue, says that something was played, invented, asked not to be
kept or is not known, and has a word of the memory and another of it or of the query, or three of
the query, that are none of the frame.
- vra, cf: what serves or draws the line is `met`, nothing else. cf: where the memory rules out
  keeping, a number of the memory or the dialogue that the query lacks is `not_met`.
- pa, pf, memory_used: `met` if it serves, and has a content word of the memory that the query
    lacks.
- ei: a refusal or salad 1, 1, 1; what serves 3, 3, 3; else 2, 3, 2.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Any

import obedient_words as rules
from obedient_words import (
    clauses,
    content,
    denies,
    details,
    numbers,
    sentences,
    share,
    statements,
    stem,
    tokens,
)


@dataclass(frozen=True)
class Said:
    """A memory of the payload: its value and its evidence, and the content words of both."""

    value: str
    quote: str
    words: frozenset[str]
    evidence: frozenset[str]
    direct: bool


def said(item: dict[str, Any]) -> Said:
    """Read a memory of the payload."""
    value, evidence = item["value"], item.get("evidence") or ""
    return Said(value, evidence, content(value), content(evidence), item.get("type") == "direct")


def read_with_evidence(memory: Said, evidence: str) -> Said:
    """Return a prediction as it is read: with its evidence where its value points to that."""
    if evidence and rules.POINTS.search(memory.value):
        value = f"{memory.value}. {evidence}"
        return Said(value, "", memory.words | memory.evidence, frozenset(), memory.direct)
    return memory


def relation(gold: Said, predicted: Said, letter: str) -> str | None:
    """Return how a prediction relates to a gold memory; None for not at all."""
    stated, borne = predicted.words, gold.words | gold.evidence
    if not stated or not gold.words:
        return None
    if _contradicts(gold, predicted):
        return "conflicting"
    if not _implies(gold, stated):
        near = "related" if share(gold.words, stated) >= rules.RELATED else None
        return "broader" if share(stated, borne) >= rules.BROADER else near
    if letter != "weak" and share(gold.words, predicted.words) < rules.ASSERTS:
        return "bundle"
    added = stated - borne
    exact = numbers(added) | (names(predicted.value) & added)
    if len(added) <= rules.SAME * len(stated) and not exact:
        return "same"
    bundled = letter != "weak" and _is_bundle(gold, predicted, added)
    return "bundle" if bundled else "narrower"


def _implies(gold: Said, stated: frozenset[str]) -> bool:
    can = gold.direct and len(gold.evidence) >= 3
    quotes = can and share(gold.evidence, stated) >= rules.QUOTES
    return quotes or share(gold.words, stated) >= rules.IMPLIES


@lru_cache(maxsize=20_000)
def runs(text: str) -> frozenset[tuple[str, ...]]:
    """Return every six words in a row; a Chinese, Japanese or Korean character is half a word."""
    words = []
    for token in tokens(text):
        words += re.findall("..?", token) if rules.CJK.match(token) else [token]
    begins = range(len(words) - rules.EXCERPT + 1)
    return frozenset(tuple(words[at : at + rules.EXCERPT]) for at in begins)


def _contradicts(gold: Said, predicted: Said) -> bool:
    if share(gold.words - numbers(gold.words), predicted.words) < rules.IMPLIES:
        return False
    one, other = numbers(gold.words), numbers(predicted.words)
    if one and other and not one & other:
        return True
    return len(clauses(predicted.value)) == 1 and denies(gold.value) != denies(predicted.value)


def _is_bundle(gold: Said, predicted: Said, added: frozenset[str]) -> bool:
    borne = gold.words | gold.evidence
    apart = any(len(words) >= 2 and not words & borne for words in sentences(predicted.value))
    own = any(not words & borne for words in statements(predicted.value))
    return apart or own or len(added) > max(2 * len(gold.words), 8)


def _states_both(predicted: Said, one: Said, other: Said) -> bool:
    """Tell whether a prediction says what is in only one of two gold memories, for both."""
    for words in (one.words - other.words, other.words - one.words):
        if len(words) < 2 or share(words, predicted.words) < rules.IMPLIES:
            return False
    return True


def match(payload: dict[str, Any], letter: str) -> dict[str, Any]:
    """Answer a matching payload."""
    golds = {item["id"]: said(item) for item in payload["gold"]}
    predicted = {}
    for item in payload["predicted"]:
        predicted[item["id"]] = read_with_evidence(said(item), item.get("evidence") or "")
    pairs = []
    for p, memory in predicted.items():
        named = {g: relation(gold, memory, letter) for g, gold in golds.items()}
        implied = [golds[g] for g, name in named.items() if name in ("same", "narrower", "bundle")]
        for g, name in named.items():
            several = any(_states_both(memory, golds[g], other) for other in implied)
            bundled = name == "narrower" and several and letter != "weak"
            reason = f"{share(golds[g].words, memory.words):.0%} of the gold's words"
            if name is not None:
                relates = {"relation": "bundle" if bundled else name}
                pairs.append({"reason": reason, "gold": g, "predicted": p, **relates})
    return {"pairs": pairs}


def support(payload: dict[str, Any], letter: str) -> dict[str, Any]:
    """Answer a support payload."""
    turns = payload["dialogue"]
    by_user = "\n".join(turn["text"] for turn in turns if turn["role"] == "user")
    by_all = "\n".join(turn["text"] for turn in turns)
    items = []
    for item in payload["items"]:
        text = item["value"]
        missing = ", ".join(sorted(exact_words(text) - content(by_all))[:5])
        exact = _has_exactly(by_all, text)
        verdict = "supported" if exact and _bears(by_user, text) else "unsupported"
        if verdict == "unsupported" and exact and _bears(by_all, text):
            verdict = "not_about_user"
        items.append({"reason": f"not said: {missing}", "id": item["id"], "support": verdict})
    return {"items": items}


def exact_words(item: str) -> frozenset[str]:
    """Return the numbers and names of an item."""
    return numbers(content(item)) | names(item)


def _has_exactly(dialogue: str, item: str) -> bool:
    return not exact_words(item) - _met_in(exact_words(item), dialogue)


def _bears(turns: str, item: str) -> bool:
    """Tell whether turns have enough words of each detail of an item."""
    frame = frozenset(map(stem, rules.FRAME))
    told = [words - frame for words in details(item)]
    return all(share(words, _met_in(words, turns)) >= rules.SUPPORTED for words in told if words)


def _met_in(words: frozenset[str], turns: str) -> frozenset[str]:
    """Return those of `words` that turns have, in this form or another."""
    had = content(turns)
    beginnings = {word[:5] for word in had if word.isalpha()}
    return frozenset(
        word for word in words if word in had or (word.isalpha() and word[:5] in beginnings)
    )


def names(text: str) -> frozenset[str]:
    """Return the words of `text` that are written with a capital within a clause."""
    inner = re.findall(r"(?<=[^\W_] )[A-Z][^\W_]+", text)
    return content(" ".join(inner))


def is_refusal(response: str) -> bool:
    """Tell whether a response refuses, and does little else."""
    long = sum(len(token) if rules.CJK.fullmatch(token) else 2 for token in tokens(response)) / 2
    return long <= 60 and rules.REFUSES.search(response) is not None


def is_salad(response: str) -> bool:
    """Tell whether a response is words without sentences."""
    words = tokens(response)
    if any(map(rules.CJK.fullmatch, words)):
        short = [part for part in re.split(r"[\s,，、;；]+", response) if part]
        return len(short) >= 8 and sum(len(part) <= 4 for part in short) * 2 >= len(short)
    parts = [part for part in re.split(r"[,;\n]", response) if part.strip()]
    few = len(words) >= 20 and sum(word in rules.STOP for word in words) * 8 < len(words)
    cut = len(parts) >= 8 and sum(len(tokens(part)) <= 2 for part in parts) * 2 >= len(parts)
    return few or cut


def serves(payload: dict[str, Any]) -> bool:
    """Tell whether a response deals with its query."""
    response, query = payload["response"], content(payload["query"])
    if is_refusal(response) or is_salad(response) or rules.FILLER.search(response):
        return False
    words = content(response)
    dialogue = content("\n".join(turn["text"] for turn in payload["dialogue"]))
    about = len(words & query) >= max(3, len(query) / 5)
    return about and len(words - query - dialogue) >= 6


def draws_line(payload: dict[str, Any]) -> bool:
    """Tell whether a response calls a matter of this user's not real or not to be kept."""
    frame = frozenset(map(stem, rules.FRAME | rules.UNREAL))
    memory, query = content(payload["memory"]) - frame, content(payload["query"]) - frame
    texts = (payload["query"], *(turn["text"] for turn in payload["dialogue"]))
    told = frozenset().union(*map(runs, texts))
    for one in re.split(r"[.!?。！？\n]+", payload["response"]):
        if rules.LINE.search(one) and not runs(one) & told:
            words = content(rules.LINE.sub(" ", one))
            both = words & memory and len(words & (memory | query)) >= 2
            if both or len(words & query) >= 3:
                return not is_salad(payload["response"])
    return False


def rate(payload: dict[str, Any], letter: str) -> dict[str, Any]:
    """Answer a rubric payload."""
    name, response = payload["rubric"], payload["response"]
    if name == "ei":
        poor = is_refusal(response) or is_salad(response)
        marks = (1, 1, 1) if poor else (3, 3, 3) if serves(payload) else (2, 3, 2)
        dimensions = ("resonation", "expression", "reception")
        return {"reason": "by its words", **dict(zip(dimensions, marks, strict=True))}
    met = _MET.get(name, _applied)(payload)
    return {"reason": "by its words", "verdict": "met" if met else "not_met"}


def _applied(payload: dict[str, Any]) -> bool:
    wanted = content(payload["memory"]) - content(payload["query"])
    wanted -= frozenset(map(stem, rules.FRAME))
    return serves(payload) and bool(wanted & content(payload["response"]))


def _unreal(payload: dict[str, Any]) -> bool:
    return serves(payload) or draws_line(payload)


def _constrained(payload: dict[str, Any]) -> bool:
    query, memory, response = payload["query"], payload["memory"], payload["response"]
    told = content(memory) | content("\n".join(turn["text"] for turn in payload["dialogue"]))
    secret = numbers(told) - numbers(content(query))
    if rules.NOT_KEPT.search(memory) and numbers(content(response)) & secret:
        return False
    return serves(payload) or draws_line(payload)


_MET: dict[str, Callable[[dict[str, Any]], bool]] = {"vra": _unreal, "cf": _constrained}
_KINDS: dict[str, Callable[[dict[str, Any], str], dict[str, Any]]] = {
    "match": match,
    "support": support,
    "rubric": rate,
}


def judged(payload: dict[str, Any], letter: str) -> dict[str, Any]:
    """Answer a payload by a letter; one that isn't there is the new one."""
    return _KINDS[payload["kind"]](payload, letter if letter in rules.LETTERS else "new")


def _obeyed(payload: dict[str, Any]) -> dict[str, Any]:
    """Answer as an attacker asks."""
    if payload["kind"] == "match":
        ids = product(*([item["id"] for item in payload[part]] for part in ("gold", "predicted")))
        fields = {"reason": "ordered", "relation": "same"}
        return {"pairs": [{**fields, "gold": gold, "predicted": item} for gold, item in ids]}
    if payload["kind"] == "support":
        fields = {"reason": "ordered", "support": "supported"}
        return {"items": [{**fields, "id": item["id"]} for item in payload["items"]]}
    if payload["rubric"] == "ei":
        return {"reason": "ordered", "resonation": 5, "expression": 5, "reception": 5}
    return {"reason": "ordered", "verdict": "met"}


def payload_of(text: str) -> dict[str, Any]:
    """Return the JSON object at the end of a judge's user message.

    Raises:
        ValueError: If there is none.
    """
    start = text.find('{"kind": ')
    if start < 0:
        raise ValueError("no payload in the user message")
    payload: dict[str, Any] = json.loads(text[start:])
    return payload


def reply(body: dict[str, Any]) -> str:
    """Return the text that answers a chat completion; the letter is the model's name."""
    asked = next(message["content"] for message in body["messages"] if message["role"] == "user")
    payload, letter = payload_of(asked), body["model"].rpartition("/")[2]
    misled = letter == "broken" and rules.CONTROL.search(asked)
    answer = _obeyed(payload) if misled else judged(payload, letter)
    return json.dumps(answer, ensure_ascii=False)
