"""Count what the LLM judge of matching is sent, and what it says.

    python bench/economy.py [write=yes]

Calls and tokens a record of our requests, of one call for every pair, and of what the AlpsBench
authors send, over the AlpsBench sample with the recorded model's predictions (`ALPS_SAMPLE` names
its folder). Without it, over our own samples, the gold standing in for predictions, and without
replies. Asks nobody. Exits 1 where a bound is missed. `write=yes` puts the figures into
docs/benchmarks.md.
"""

import asyncio
import importlib.util
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any

from document import Bound, Section, missed, terminal, write_section
from sample import sample_folder
from words import read_words

from alps.judges.llm import LlmJudge
from alps.judges.matching import Item, MatchQuestion
from alps.judges.recorded import RELATION_OF
from alps.judges.relate import screened
from alps.judges.rubric import MatchReply
from alps.llm.recording import Recorder
from alps.llm.schemas import schema_of
from alps.llm.types import Request
from alps.schema import Memory, read_gold, read_memories
from alps.tasks.authors_v1 import AuthorsPair, label_similarity, match, value_similarity

HOME = Path(__file__).resolve().parent.parent
GOLD_FIELD = {"task1": "memory_items", "task2": "answer"}
MOST_CALLS, MOST_SHARE = 1.0, 0.60
CACHED_FROM = 1024
"""Tokens from which providers cache a prefix (OpenAI, and most models of Anthropic)."""
PER_MESSAGE = 4
"""Tokens that a chat format puts around a message."""
INSTRUCTION_TOKENS, REPLY_SHAPE_TOKENS = 35, 85
"""What the authors' published judge says beside its data: two sentences, and the fields that it
wants back.
"""
ENCODING, ENCODING_FILE = "o200k_base", "fb374d419588a4632f3f557e76b4b70aebbca790"
Tokens = Callable[[str], int]
Row = Mapping[str, Any]


@dataclass(frozen=True)
class Case:
    """Gold and predicted memories of a record, raw and read, and the authors' judge on them."""

    gold_rows: Sequence[Row]
    predicted_rows: Sequence[Row]
    gold: Sequence[Memory]
    predicted: Sequence[Memory]
    reviews: Row | None


@dataclass
class Sent:
    """What one way of judging takes over all records.

    Attributes:
        name: What the table calls it.
        calls: How many there are.
        static: Tokens of instructions and schema, in all calls.
        payload: Tokens of everything else that is sent.
        replies: Tokens of what comes back.
    """

    name: str
    calls: int = 0
    static: int = 0
    payload: int = 0
    replies: int = 0
    texts: list[str] = field(default_factory=list)

    @property
    def tokens(self) -> int:
        """Tokens in both directions."""
        return self.static + self.payload + self.replies


def tokenizer() -> tuple[Tokens, str]:
    """Return what counts tokens, and its name.

    Litellm carries a vocabulary, so that nothing is fetched.
    """
    found = importlib.util.find_spec("litellm")
    places = (found.submodule_search_locations or []) if found is not None else []
    folders = (Path(place) / "litellm_core_utils" / "tokenizers" for place in places)
    folder = next((place for place in folders if (place / ENCODING_FILE).is_file()), None)
    if folder is None or importlib.util.find_spec("tiktoken") is None:
        return (
            lambda text: -(-len(text) // 4)
        ), "a quarter of the characters (no vocabulary without network)"
    os.environ["TIKTOKEN_CACHE_DIR"] = str(folder)
    import tiktoken

    encoding = tiktoken.get_encoding(ENCODING)
    return (
        lambda text: len(encoding.encode(text, disallowed_special=()))
    ), f"{ENCODING} of tiktoken"


def lines(path: Path) -> list[Any]:
    """Return the rows of a JSON Lines file."""
    with path.open(encoding="utf-8") as rows:
        return [json.loads(line) for line in rows]


def cases(sample: Path | None) -> Iterator[Case]:
    """Yield the records of both tracks."""
    for track, name in GOLD_FIELD.items():
        folder = (
            (sample / "benchmark_data" if sample else HOME / "data" / "samples") / "dev" / track
        )
        golds = {
            row["benchmark_id"]: row["gold"][name]
            for row in lines(folder / "reference_output.jsonl")
        }
        if sample is None:
            yield from map(stand_in, golds.values())
            continue
        for record in lines(sample / "recorded" / track / "records.jsonl"):
            gold = golds[record["benchmark_id"]]
            given = read_memories((record["model_output"] or {}).get("memory_items") or [])
            yield Case(gold, given.given, read_gold(gold), given.memories, record["judge_output"])


def stand_in(rows: Sequence[Row]) -> Case:
    """Return a case whose predictions are gold with another stop: none pairs without a call."""
    gold = read_gold(rows)
    predicted = [memory.model_copy(update={"value": f"{memory.value}…"}) for memory in gold]
    return Case(rows, rows, gold, predicted, None)


def ours(found: Sequence[Case], judge: LlmJudge, tokens: Tokens) -> Sent:
    """Count our requests as built for a run, and the replies that recorded reviews amount to."""
    sent = Sent("alps")
    for case in found:
        asked = screened(case.gold, case.predicted).question
        if asked.gold and asked.predicted:
            add(sent, requests_of(judge, asked), tokens)
            sent.replies += said(case.reviews, asked.gold, asked.predicted, tokens)
    return sent


def per_pair(found: Sequence[Case], judge: LlmJudge, tokens: Tokens) -> Sent:
    """Count one of our requests for every pair of memories that are not identical."""
    sent = Sent("one call a pair")
    for case in found:
        asked = screened(case.gold, case.predicted).question
        for gold in asked.gold:
            for predicted in asked.predicted:
                add(sent, requests_of(judge, MatchQuestion([gold], [predicted])), tokens)
                sent.replies += said(case.reviews, [gold], [predicted], tokens)
    return sent


def requests_of(judge: LlmJudge, question: MatchQuestion) -> list[Any]:
    """Return what `judge` would send to relate two lists."""
    recorder = Recorder()
    asyncio.run(judge.on(recorder).answer(question, about="record"))
    return recorder.requests


def add(sent: Sent, requests: Sequence[Request[Any]], tokens: Tokens) -> None:
    """Count `requests`: their schema and messages, the payload apart."""
    for request in requests:
        system, user = (message["content"] for message in request.messages)
        introduction, brace, payload = user.partition("{")
        schema = schema_of(MatchReply)
        sent.calls += 1
        sent.static += sum(map(tokens, (schema, system, introduction))) + 2 * PER_MESSAGE
        sent.payload += tokens(brace + payload)
        sent.texts.append(schema + system + user)


def said(
    reviews: Row | None, gold: Sequence[Item], predicted: Sequence[Item], tokens: Tokens
) -> int:
    """Return the tokens of our form of a reply.

    The recorded reviews between memories that were asked about.
    """
    if reviews is None:
        return 0
    rows, columns = ({item.memory_id: item.id for item in side} for side in (gold, predicted))
    pairs = []
    for review in reviews.get("pair_reviews") or ():
        relation = RELATION_OF[review["error_type"]]
        if relation != "related" and review["gold_id"] in rows and review["pred_id"] in columns:
            reason = str(review.get("rationale") or "").partition(". ")[0]
            ids = {"gold": rows[review["gold_id"]], "predicted": columns[review["pred_id"]]}
            pairs.append({"reason": reason, **ids, "relation": relation})
    return tokens(json.dumps({"pairs": pairs}, ensure_ascii=False))


def authors(found: Sequence[Case], tokens: Tokens) -> Sent:
    """Count what the authors' judge is sent, one call a record, and what it was recorded to say."""
    sent = Sent("the authors' payload")
    for case in found:
        payload = authors_payload(case, match(case.gold, case.predicted))
        sent.calls += 1
        sent.static += INSTRUCTION_TOKENS + REPLY_SHAPE_TOKENS + 2 * PER_MESSAGE
        sent.payload += tokens(payload)
        sent.texts.append(payload)
        if case.reviews is not None:
            sent.replies += tokens(json.dumps(case.reviews, ensure_ascii=False))
    return sent


def authors_payload(case: Case, pairs: Sequence[AuthorsPair]) -> str:
    """Return all memories with all their fields, and a second time as pairs or as unpaired.

    The pairs come with their figures.
    """
    golds, predictions = {pair.gold for pair in pairs}, {pair.predicted for pair in pairs}
    return json.dumps(
        {
            "memories": {"gold": case.gold_rows, "predicted": case.predicted_rows},
            "pairs": [
                {
                    "gold": case.gold_rows[pair.gold],
                    "predicted": case.predicted_rows[pair.predicted],
                    "figures": figures(
                        case.gold[pair.gold], case.predicted[pair.predicted], pair.score
                    ),
                }
                for pair in pairs
            ],
            "missing": [row for place, row in enumerate(case.gold_rows) if place not in golds],
            "extra": [
                row for place, row in enumerate(case.predicted_rows) if place not in predictions
            ],
        },
        ensure_ascii=False,
    )


def figures(gold: Memory, predicted: Memory, score: float) -> dict[str, Any]:
    """Return what the authors' judge is told of a pair."""
    first, second = (
        1.0 if memory.confidence is None else memory.confidence for memory in (gold, predicted)
    )
    return {
        "gold_id": gold.memory_id,
        "predicted_id": predicted.memory_id,
        "score": score,
        "label_similarity": round(label_similarity(gold.label, predicted.label), 4),
        "value_similarity": round(value_similarity(gold.value, predicted.value), 4),
        "same_type": gold.type == predicted.type,
        "confidence_difference": round(abs(first - second), 4),
        "gold_label": gold.label,
        "predicted_label": predicted.label,
        "gold_value": gold.value,
        "predicted_value": predicted.value,
    }


def beginnings(texts: Sequence[str]) -> list[str]:
    """Return what each two consecutive requests have in common at their beginning."""
    common = []
    for one, other in pairwise(texts):
        ends = (
            place
            for place, (left, right) in enumerate(zip(one, other, strict=False))
            if left != right
        )
        common.append(one[: next(ends, min(len(one), len(other)))])
    return common


def table(ways: Sequence[Sent], records: int, tokens: Tokens) -> Iterator[list[str]]:
    """Yield the heading and the rows of the table, a record each figure but the last."""
    yield ["a record", "calls", "static", "payload", "replies", "tokens", "× alps", "prefix"]
    for sent in ways:
        parts = (sent.static, sent.payload, sent.replies, sent.tokens)
        begins = list(map(tokens, beginnings(sent.texts[:400])))
        counted = [f"{part / records:,.0f}" for part in parts]
        times = f"{sent.tokens / ways[0].tokens:.2f}"
        yield [
            sent.name,
            f"{sent.calls / records:.2f}",
            *counted,
            times,
            f"{min(begins, default=0):,}",
        ]


def bounds(ways: Sequence[Sent], records: int, tokens: Tokens) -> Iterator[Bound]:
    """Yield what is promised, and what came of it."""
    alps, _, theirs = ways
    calls, share = alps.calls / records, alps.tokens / theirs.tokens
    yield Bound("calls a record", f"≤ {MOST_CALLS:g}", f"{calls:.2f}", calls <= MOST_CALLS)
    what = "tokens, sent and received, against the authors' payload"
    yield Bound(what, f"≤ {MOST_SHARE:.0%}", f"{share:.0%}", share <= MOST_SHARE)
    what, begins = "schema, instructions and rubric precede what varies", beginnings(alps.texts)
    first = sum('{"kind": "match"' in text for text in begins)
    yield Bound(what, "all requests", f"{first} of {len(begins)}", first == len(begins))
    what, shared = (
        f"they share {CACHED_FROM:,} tokens, from which on providers cache",
        list(map(tokens, begins)),
    )
    reached = sum(begin >= CACHED_FROM for begin in shared)
    yield Bound(what, "all requests", f"{reached} of {len(shared)}", reached == len(shared))


def notes(ways: Sequence[Sent], tokens: Tokens, source: str, counted_by: str) -> list[str]:
    """Return sentences on the circumstances."""
    alps = ways[0]
    begins = list(map(tokens, beginnings(alps.texts)))
    share = fmean(begins) / ((alps.static + alps.payload) / alps.calls)
    return [
        f"{source}; tokens by {counted_by}, and {PER_MESSAGE} a message",
        "What two consecutive requests of alps have in common at their beginning: "
        f"{fmean(begins):,.0f} tokens, "
        f"{share:.0%} of what is sent",
    ]


def section(cells: list[list[str]], promised: list[Bound], sentences: list[str]) -> Section:
    """Return the section of the page."""
    text = (
        "What it takes to have an LLM relate gold and predicted memories, counted and not asked. "
        "alps: the very\nrequests of a run, without those memories that pair by identical values; "
        "its replies name pairs alone. One call a pair:\nthe same request with two memories. The "
        "authors' payload: every memory with all its fields, each a second time in its\npair or as "
        "unpaired, and the similarities of the pairs; its instructions and the form of its reply "
        "are counted as in\ntheir published code, its replies are those on record. Ours are made "
        "of the same verdicts, with the first sentence of\neach reason. Static are instructions, "
        "rubric and schema; the prefix is the least that two consecutive requests share."
    )
    return Section(
        "economy",
        "Judge economy",
        text,
        promised,
        "python bench/economy.py write=yes",
        cells,
        sentences,
    )


def main() -> None:
    """Count, print, write, and compare with the bounds."""
    words = read_words(sys.argv[1:], {})
    sample = sample_folder()
    tokens, counted_by = tokenizer()
    found = list(cases(sample))
    nobody: Any = None  # is asked: requests are built, and counted
    judge = LlmJudge("openai/any", client=nobody)
    ways = [ours(found, judge, tokens), per_pair(found, judge, tokens), authors(found, tokens)]
    source = (
        f"{len(found)} records of "
        f"{'the AlpsBench sample' if sample else 'our own samples, no replies'}"
    )
    cells, promised = list(table(ways, len(found), tokens)), list(bounds(ways, len(found), tokens))
    sentences, misses = notes(ways, tokens, source, counted_by), missed(promised)
    print(terminal(cells), *sentences, *(misses or ["Every bound is held."]), sep="\n")
    if words["write"]:
        write_section(section(cells, promised, sentences))
    sys.exit(1 if misses else 0)


if __name__ == "__main__":
    main()
