"""LoCoMo: ten conversations of two friends over months (Maharana et al., ACL 2024).

`locomo10.json` is a list of conversations, each with the questions about it; the archive of the
first release has one in each of ten files, at their top level. Kinds go by number: two conventions
of names contradict each other.

The authors' score is the F1 of stemmed words, by a rule for each category. Source:
`task_eval/evaluation.py` of snap-research/locomo.
"""

import re
import string
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from alps.errors import UsageError
from alps.ext.histories.files import (
    SetChoice,
    SetFiles,
    StoryPlace,
    Together,
    items,
    listed,
    maybe_listed,
    text,
)
from alps.ext.histories.model import (
    Authors,
    CitedSet,
    HistorySession,
    Marks,
    Message,
    SetQuestion,
    Story,
    when,
)
from alps.ext.histories.porter import stem
from alps.ext.histories.task import tracks_of
from alps.tasks.metrics import Inference, Metric

ADVERSARIAL = "5"
_NUMBER = re.compile(r"session_(\d+)\Z")
_TIME = "%I:%M %p on %d %B, %Y"
# Six strings of evidence hold several ids, with spaces or semicolons between.
_ID = re.compile(r"D\d+:\d+")


def _files(data: Path, choice: SetChoice) -> SetFiles:
    paths = sorted(data.rglob("*.json")) if data.is_dir() else [data]
    whole = [path for path in paths if path.name == "locomo10.json"] or paths
    if not whole:
        raise UsageError(f"data={data}: no locomo10.json in it")
    return SetFiles(tuple(_places(whole)), whole)


def _places(paths: list[Path]) -> Iterator[StoryPlace]:
    for path in paths:
        with path.open("rb") as file:
            is_list = file.read(64).lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"["
        # The first release has the numbers of its conversations in the names of files alone.
        yield from items(path) if is_list else (Together(f"conv-{path.stem}", (path,)),)


def _story(node: Mapping[str, Any] | tuple[str, Mapping[str, Any]]) -> Story:
    number, node = node if isinstance(node, tuple) else ("", node)
    said = node.get("conversation", node)
    name = number or text(node, "sample_id")
    numbers = sorted(int(found[1]) for key in said if (found := _NUMBER.match(key)))
    sessions = tuple(_session(said, number) for number in numbers)
    asked = [_question(one, place, name) for place, one in enumerate(listed(node, "qa"))]
    return Story(name, sessions, tuple(asked))


def _session(said: Mapping[str, Any], number: int) -> HistorySession:
    messages = tuple(_message(one) for one in listed(said, f"session_{number}"))
    written = str(said.get(f"session_{number}_date_time", ""))
    return HistorySession(f"D{number}", when(written, _TIME), messages, written)


def _message(one: Mapping[str, Any]) -> Message:
    # What a picture shows is a part of what was said, and 1,226 messages have one.
    said, who = text(one, "text"), text(one, "speaker")
    caption = f" [shares a picture: {one['blip_caption']}]" if one.get("blip_caption") else ""
    return Message("user", f"{said}{caption}", text(one, "dia_id"), who)


def _question(one: Mapping[str, Any], place: int, history: str) -> SetQuestion:
    kind = text(one, "category")
    absent = kind == ADVERSARIAL
    # The released file has two adversarial golds, and an empty one is no gold at all.
    given = "answer" if "answer" in one and not absent else "adversarial_answer"
    gold = text(one, given) if one.get(given) is not None or not absent else ""
    evidence = tuple(_ID.findall(" ".join(map(str, maybe_listed(one, "evidence")))))
    name, asked = f"{history}:q{place}", text(one, "question")
    return SetQuestion(name, history, asked, gold, kind, "", evidence, absent)


MULTI_HOP, OPEN_DOMAIN = "1", "3"
REFUSALS = ("no information available", "not mentioned")
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_LEFT_OUT = re.compile(r"\b(a|an|the|and)\b")


def _words_of(text: str) -> Counter[str]:
    """Return the stems of the words that are compared."""
    bare = text.replace(",", "").lower().translate(_PUNCTUATION)
    return Counter(stem(word) for word in _LEFT_OUT.sub(" ", bare).split())


def _f1(answer: str, gold: str) -> float:
    """Return the F1 of two texts; 0 where they share no word."""
    said, meant = _words_of(answer), _words_of(gold)
    shared = (said & meant).total()
    if not shared:
        return 0.0
    precision, recall = shared / said.total(), shared / meant.total()
    return 2 * precision * recall / (precision + recall)


def _f1_of_parts(answer: str, gold: str) -> float:
    """Return the mean over the parts of the gold of the best F1 of a part of the answer."""
    said = [part.strip() for part in answer.split(",")]
    return fmean(max(_f1(one, part.strip()) for one in said) for part in gold.split(","))


def score_of(category: str, answer: str, gold: str) -> float:
    """Return the score of one answer, in [0, 1]."""
    if category == ADVERSARIAL:
        return float(any(said in answer.lower() for said in REFUSALS))
    if category == MULTI_HOP:
        return _f1_of_parts(answer, gold)
    return _f1(answer, gold.split(";", maxsplit=1)[0].strip() if category == OPEN_DOMAIN else gold)


def _score(
    question: SetQuestion, answer: str | None, marks: Marks
) -> tuple[dict[str, float], dict[str, float]]:
    value = score_of(question.kind, answer or "", question.answer) if answer else 0.0
    scores = {"f1": value}
    if question.kind != ADVERSARIAL:
        scores["f1_1_to_4"] = value
        if "generous" in marks:
            scores["generous"] = marks["generous"]
        elif answer is None:
            scores["generous"] = 0.0
    return scores, {}


def _rubrics(question: SetQuestion) -> Sequence[tuple[str, str]]:
    return () if question.kind == ADVERSARIAL else (("generous", question.answer),)


_RESAMPLED = Inference(resampled=True)
PUBLISHED = Authors(
    metrics=(
        Metric("f1", "authors' F1, 1 to 5", judged=False, inference=_RESAMPLED),
        Metric("f1_1_to_4", "  1 to 4", judged=False, inference=_RESAMPLED),
        Metric(
            "generous",
            "Mem0's generous judge, 1 to 4",
            optional=True,
            inference=_RESAMPLED,
        ),
    ),
    rubrics=_rubrics,
    score=_score,
    judged="generous",
)


SET = CitedSet(
    name="locomo",
    title="LoCoMo",
    licence="CC BY-NC 4.0",
    language="English",
    source="snap-research/locomo, data/locomo10.json",
    files=_files,
    story=_story,
    kinds={
        "1": "multi-hop; by Mem0 single-hop",
        "2": "temporal",
        "3": "open-domain; by Mem0 multi-hop",
        "4": "single-hop; by Mem0 open-domain",
        ADVERSARIAL: "adversarial; left out by Mem0",
    },
    authors=PUBLISHED,
    rubrics=("generous",),
    expected=lambda choice: {"1": 282, "2": 321, "3": 96, "4": 841, ADVERSARIAL: 446},
)
tracks = tracks_of(SET)
