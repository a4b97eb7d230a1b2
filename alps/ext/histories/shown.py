"""One record on a page: the question, the evidence, what a memory found, and the verdict."""

from collections.abc import Iterator, Sequence

from alps.ext.histories.sample import HistorySample, evidence_of, history_of
from alps.tasks.record_parts import (
    FAILED,
    JUDGEMENT_FAILED,
    AnsweredRecord,
    Dialogue,
    Facts,
    Highlight,
    Part,
    Passage,
    Rank,
    ScoredAnswer,
)


def record_parts(record: AnsweredRecord) -> Sequence[Part]:
    """Show the question, the answer with its verdict, and the evidence in the history."""
    answer = Passage("Answer", str(record.answer.get("answer") or ""))
    verdict = Facts("Judgement", tuple(_verdict(record)))
    sample: HistorySample | None = record.sample
    if sample is None:
        return [answer, verdict]
    question = sample.question
    about = [("kind", question.kind), ("history", question.history)]
    about += [("asked at", question.at)] if question.at else []
    about += [("known to be wrong", ", ".join(sample.entry.defects))] if not sample.sound else []
    gold = "nothing is known" if question.abstains else question.answer
    parts: list[Part] = [
        Facts("Question", tuple(about)),
        Passage("Question", question.text),
        Passage("Right answer", gold),
        answer,
        verdict,
    ]
    return [*parts, *_evidence(sample)]


def _verdict(record: AnsweredRecord) -> Iterator[tuple[str, str]]:
    verdict = record.verdict or {}
    reasons = verdict.get("reasons") or {}
    for name, mark in (verdict.get("marks") or {}).items():
        reason = reasons.get(name)
        yield name, f"{mark} – {reason}" if reason else str(mark)


def _evidence(sample: HistorySample) -> Iterator[Part]:
    found = evidence_of(sample)
    if found is not None and found.positions:
        turns = history_of(sample).turns
        labels = dict.fromkeys(found.positions, "evidence")
        yield Dialogue(
            "History, the evidence",
            turns,
            folded=True,
            shown=tuple(found.positions[:12]),
            labels=labels,
        )


def _wrong(answer: ScoredAnswer) -> Rank:
    return () if answer.judged and answer.value("sound") == 0 else None


def _credited(answer: ScoredAnswer) -> Rank:
    return () if answer.judged and answer.value("wrong_gold") == 1 else None


HIGHLIGHTS = (
    FAILED,
    JUDGEMENT_FAILED,
    Highlight("wrong answers to sound questions", 6, _wrong),
    Highlight("credit for a gold that is known to be wrong", 3, _credited),
)
