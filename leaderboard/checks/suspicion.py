"""What a person should look at before a submission is believed: nothing here proves anything."""

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from alps.leaderboard.checks.copied import check_copied
from alps.leaderboard.checks.rows import TrackRows, named
from alps.leaderboard.findings import Findings, some_of
from alps.leaderboard.leaks import leak_in_answer, texts_of
from alps.leaderboard.recompute import Rows
from alps.leaderboard.truth import Truth
from alps.leaderboard.wording import shown
from alps.text import fold

CONSTANT = 0.5
"""A larger share of one and the same answer."""
FEWEST = 10
"""Fewer answers than these say nothing about shares."""
LONGEST = {"extraction": 30_000, "update": 30_000, "retrieval": 30_000, "utilization": 10_000}
"""Characters of an answer, with evidence and reasons, that are too many for one, whatever the
others have.

The longest of real models have 16,401 as JSON (update, extraction 16,062) and 4,343 (utilization),
of 4,578 and 289 answers. A bound that followed the usual length let everything pass where all
answers were endless.
"""

INJECTIONS = (
    r"\b(?:ignore|disregard|forget|override)\b.{0,30}\b(?:previous|prior|above|earlier|all|your)\b.{0,30}"
    r"\b(?:instructions?|rules?|rubrics?|prompts?)\b",
    r"\b(?:as|dear|attention|note to|to) (?:the |an? )?(?:judge|grader|evaluator|annotator)\b",
    r"\b(?:you are|act as) (?:the |an? |now )?(?:judge|grader|evaluator)\b",
    r"\b(?:mark|rate|grade|score|judge) (?:this|it|everything|all|every \w+) (?:\w+ ){0,3}(?:as )?"
    r"(?:correct|met|same|supported|5|full marks|perfect)\b",
    r"\bsystem\s*(?:prompt|message|override)\b|<\|?(?:im_start|system|assistant)\|?>|\[/?INST\]",
    r"\"(?:verdict|relation|support)\"\s*:\s*\"(?:met|same|supported)\"|\"pairs\"\s*:\s*\[\s*\{|\"resonation\"\s*:\s*5",
    r"\b(?:ignoriere?|vergiss|missachte)\b.{0,40}\b(?:anweisung(?:en)?|regeln)\b",
    r"\b(?:ignore[zr]?|oubliez?)\b.{0,40}\b(?:instructions?|consignes?)\b",
    r"\b(?:ignora|olvida|ignore|esqueça|desconsidere)\b.{0,40}\b(?:instrucciones|instruções|reglas|regras|istruzioni)\b",
    r"(?:忽略|无视|無視|不要理会).{0,12}(?:指令|指示|说明|規則|规则|提示)",
    r"(?:作为|身为)(?:评委|裁判|评审|评分)",
    r"(?:игнорируй|забудь|не обращай внимания).{0,40}(?:инструкци|указани|правил)",
    r"(?:以前|上記|これまで|前)の.{0,8}(?:指示|命令).{0,8}(?:無視|忘れ)",
    r"(?:이전|위의?).{0,10}(?:지시|명령|지침).{0,10}(?:무시|잊)",
    r"(?:تجاهل|انس).{0,30}(?:التعليمات|الأوامر|القواعد)",
)
"""How answers talk to their judge, in the languages of the dialogues."""
_INJECTION = re.compile(
    "|".join(f"(?:{pattern})" for pattern in INJECTIONS), re.IGNORECASE | re.DOTALL
)
_HIDDEN = re.compile("[\u200b\u2060-\u2064\u202a-\u202e\u2066-\u2069\ufeff\U000e0000-\U000e007f]")
_MARKUP = re.compile(
    r"<\s*(?:script|iframe|img|svg|object|embed|style|link|meta|base)\b|javascript\s*:",
    re.IGNORECASE,
)


def check_suspicion(
    name: str, task: str, truth: Truth | None, rows: TrackRows, findings: Findings
) -> None:
    """Flag answers that look copied, constant, far too long or meant for the judge, and what should
    stay at home.

    Args:
        name: The track.
        task: Its task.
        truth: Its records; None where they are not here, and nothing can be said of copies.
        rows: The rows of the track.
        findings: Takes what is found.
    """
    answers = {
        key: row["prediction"] for key, row in rows.predictions.items() if row["outcome"] == "ok"
    }
    where = f"{name}/predictions.jsonl"
    if truth is not None:
        samples = {
            sample.benchmark_id: sample for sample in truth.samples if sample.gold is not None
        }
        of_record = {
            key[0]: answer
            for key, answer in sorted(answers.items(), key=lambda item: item[0], reverse=True)
        }
        pairs = [(samples[name], answer) for name, answer in of_record.items() if name in samples]
        check_copied(where, name, task, pairs, findings)
    if task == "retrieval":
        _check_ranked(where, rows.scores, findings)
    _check_constant(where, task, list(answers.values()), findings)
    texts = {named(key): _text(answer) for key, answer in answers.items()}
    _check_lengths(where, task, {record: len(said) for record, said in texts.items()}, findings)
    _check_texts(where, texts, findings)
    for stage, found in (("predictions", rows.predictions), ("verdicts", rows.verdicts or {})):
        leaks = {
            named(key): leak for key, row in found.items() if (leak := leak_in_answer(_text(row)))
        }
        if leaks:
            record, leak = next(iter(leaks.items()))
            what = f"{len(leaks):,} rows hold {leak}, the first is {record}"
            findings.warn("leak", f"{name}/{stage}.jsonl", what, "remove it and pack again")


def _text(row: Mapping[str, Any]) -> str:
    return "\n".join(text for text, _ in texts_of(row, keys=False))


def _check_ranked(where: str, scores: Rows, findings: Findings) -> None:
    """Flag systems that rank where they are sure, and leave the other answers out of what is a mean
    over rankings.
    """
    ranked = [
        bool((row.get("counts") or {}).get("ranked"))
        for row in scores.values()
        if row["stage"] == "score"
    ]
    if any(ranked) and not all(ranked):
        what = f"only {sum(ranked):,} of {len(ranked):,} answers are ranked: recall@5, recall@10 and MRR are of those"
        findings.warn("ranked", where, what, "rank all answers or none")


def _check_constant(
    where: str, task: str, answers: list[Mapping[str, Any]], findings: Findings
) -> None:
    if len(answers) < FEWEST:
        return
    said = Counter(_gist(task, answer) for answer in answers)
    gist, count = said.most_common(1)[0]
    if count > CONSTANT * len(answers):
        what = f"{count:,} of {len(answers):,} answers are the same, digits aside: {shown(gist) or 'nothing'}"
        findings.warn("constant", where, what)


def _gist(task: str, answer: Mapping[str, Any]) -> str:
    if task == "retrieval":
        return str(answer["selected_memory_id"])
    if task == "utilization":
        return re.sub(r"\d+", "0", fold(answer["answer"]))
    return "; ".join(
        sorted(re.sub(r"\d+", "0", fold(item["value"])) for item in answer["memory_items"])
    )


def _check_lengths(where: str, task: str, lengths: Mapping[str, int], findings: Findings) -> None:
    if long := [name for name, n in lengths.items() if n > LONGEST[task]]:
        most = f"up to {max(lengths.values()):,} characters, more than {LONGEST[task]:,}"
        findings.warn("length", where, f"{len(long):,} answers of {most}: {some_of(long)}")


def _check_texts(where: str, texts: Mapping[str, str], findings: Findings) -> None:
    """Flag what is addressed to a judge or a browser, and what hides in a text."""
    for code, what, pattern in (
        ("injection", "speak to the judge", _INJECTION),
        ("hidden", "hold invisible characters", _HIDDEN),
    ):
        found = {name: hit[0] for name, said in texts.items() if (hit := pattern.search(said))}
        if found:
            words = shown(next(iter(found.values())))
            findings.warn(
                code,
                where,
                f"{len(found):,} answers {what}: {some_of(found)}; the first says «{words}»",
            )
    if markup := [name for name, said in texts.items() if _MARKUP.search(said)]:
        what = f"{len(markup):,} answers hold markup, which is shown as text: {some_of(markup)}"
        findings.note("markup", where, what)
