"""Signs that a person should look at a submission, and answers of false baselines."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from alps.errors import AlpsError
from alps.event_loop import run_loop
from alps.leaderboard.checks import Findings, some_of
from alps.leaderboard.checks.card import RENAME, is_baseline, is_own
from alps.leaderboard.checks.copies import check_gold_overlap
from alps.leaderboard.checks.rows import TrackRows, named
from alps.leaderboard.gold_data import GoldTrack
from alps.leaderboard.parts import MEMORY, needed
from alps.leaderboard.recompute import Key, Rows
from alps.leaderboard.submission import Submission
from alps.leaderboard.untrusted import all_text, leak_in_answer, shown
from alps.show.formatting import counted
from alps.systems import System, resolve_system
from alps.systems.resolve import in_variants
from alps.tasks import Task
from alps.text import fold

# A larger share of one and the same answer; fewer answers say nothing about shares.
CONSTANT, FEWEST = 0.5, 10
# How answers talk to their judge.
_INJECTIONS = (
    r"\b(?:ignore|disregard|forget|override)\b.{0,30}"
    r"\b(?:previous|prior|above|earlier|all|your)\b.{0,30}"
    r"\b(?:instructions?|rules?|rubrics?|prompts?)\b",
    r"\b(?:as|dear|attention|note to|to) (?:the |an? )?(?:judge|grader|evaluator|annotator)\b",
    r"\b(?:you are|act as) (?:the |an? |now )?(?:judge|grader|evaluator)\b",
    r"\b(?:mark|rate|grade|score|judge) (?:this|it|everything|all|every \w+) (?:\w+ ){0,3}(?:as )?"
    r"(?:correct|met|same|supported|5|full marks|perfect)\b",
    r"\bsystem\s*(?:prompt|message|override)\b|<\|?(?:im_start|system|assistant)\|?>|\[/?INST\]",
    r"\"(?:verdict|relation|support)\"\s*:\s*\"(?:met|same|supported)\""
    r"|\"pairs\"\s*:\s*\[\s*\{|\"resonation\"\s*:\s*5",
    # The same in German, French, Chinese and Russian.
    r"\b(?:ignoriere?|vergiss|missachte)\b.{0,40}\b(?:anweisung(?:en)?|regeln)\b",
    r"\b(?:ignore[zr]?|oubliez?)\b.{0,40}\b(?:instructions?|consignes?)\b",
    r"(?:忽略|无视|無視|不要理会).{0,12}(?:指令|指示|说明|規則|规则|提示)",
    r"(?:игнорируй|забудь|не обращай внимания).{0,40}(?:инструкци|указани|правил)",
)
_INJECTION = re.compile("|".join(f"(?:{p})" for p in _INJECTIONS), re.IGNORECASE | re.DOTALL)
# Text that people don't see can still be read by a judge that is an LLM.
_HIDDEN = re.compile("[\u200b\u2060-\u2064\u202a-\u202e\u2066-\u2069\ufeff\U000e0000-\U000e007f]")
_MARKUP = re.compile(
    r"<\s*(?:script|iframe|img|svg|object|embed|style|link|meta|base)\b|javascript\s*:",
    re.IGNORECASE,
)


def check_suspicion(
    task: Task, gold: GoldTrack | None, rows: TrackRows, findings: Findings
) -> None:
    """Flag answers that look copied, constant, too long or meant for the judge, and leaks.

    Without the records, nothing can be said of copies of the gold.
    """
    answers = rows.answers
    where = f"{task.track}/predictions.jsonl"
    if gold is not None:
        check_gold_overlap(where, task, _with_gold(gold, answers), findings)
    if any(metric.needs.ranking for metric in task.metrics):
        _check_ranked(where, rows.scores, findings)
    _check_constant(where, task, list(answers.values()), findings)
    texts = {named(key): _text(answer) for key, answer in answers.items()}
    _check_texts(where, task, texts, findings)
    _check_leaks(where, rows.predictions, findings)
    _check_leaks(f"{task.track}/verdicts.jsonl", rows.verdicts or {}, findings)


def _with_gold(
    gold: GoldTrack, answers: Mapping[Key, Mapping[str, Any]]
) -> list[tuple[Any, Mapping[str, Any]]]:
    """Return the samples that have gold, each with the first answer to it."""
    # Of several answers to a record, the later ones are overwritten.
    first = {key[0]: answers[key] for key in sorted(answers, reverse=True)}
    pairs = []
    for record, answer in first.items():
        if (sample := gold.samples.get(record)) is not None and sample.gold is not None:
            pairs.append((sample, answer))
    return pairs


def _check_leaks(where: str, rows: Rows, findings: Findings) -> None:
    leaks = []
    for key, row in rows.items():
        if leak := leak_in_answer(_text(row)):
            leaks.append((named(key), leak))
    if leaks:
        rows_of = counted(len(leaks), "row")
        what = f"{rows_of} with {leaks[0][1]}; the first is {leaks[0][0]}"
        findings.warn("leak", where, what, "remove this text and pack again")


def _text(row: Mapping[str, Any]) -> str:
    return all_text(row, keys=False)


def _check_ranked(where: str, scores: Rows, findings: Findings) -> None:
    # Who ranks only where it is sure leaves the other answers out of what is a mean over rankings.
    ranked = []
    for row in scores.values():
        if row["stage"] == "score":
            ranked.append(bool((row.get("counts") or {}).get("ranked")))
    if any(ranked) and not all(ranked):
        have = "has" if sum(ranked) == 1 else "have"
        what = f"only {sum(ranked):,} of {len(ranked):,} answers {have} a ranking; recall@5, "
        what += "recall@10 and MRR cover only answers with a ranking"
        findings.warn("ranked", where, what, "return a ranking for every record or for none")


def _check_constant(
    where: str, task: Task, answers: list[Mapping[str, Any]], findings: Findings
) -> None:
    if len(answers) < FEWEST:
        return
    counts = Counter(_gist(task, answer) for answer in answers)
    gist, count = counts.most_common(1)[0]
    if count > CONSTANT * len(answers):
        what = f"{count:,} of {len(answers):,} answers are the same apart from digits: "
        what += f"“{shown(gist)}”" if gist else "all are empty"
        findings.warn("constant", where, what)


def _gist(task: Task, answer: Mapping[str, Any]) -> str:
    # Where a system chooses, how it words its choice is beside the point.
    if task.public.choice is not None:
        return task.public.choice(answer)[0]
    texts = map(fold, task.public.texts(answer))
    return "; ".join(sorted(re.sub(r"\d+", "0", text) for text in texts))


def _check_texts(where: str, task: Task, texts: Mapping[str, str], findings: Findings) -> None:
    """Flag texts that are too long, addressed to a judge or a browser, or hidden."""
    longest = task.public.longest
    if long := [name for name, text in texts.items() if len(text) > longest]:
        most = f"up to {max(map(len, texts.values())):,} characters (limit {longest:,})"
        what = f"{counted(len(long), 'answer')} with {most}: {some_of(long)}"
        findings.warn("length", where, what)
    for code, fault, pattern in (
        ("injection", "text that addresses the judge", _INJECTION),
        ("hidden", "invisible characters", _HIDDEN),
    ):
        if hits := _hits(pattern, texts):
            words = shown(next(iter(hits.values())))
            what = f"{counted(len(hits), 'answer')} with {fault}: {some_of(hits)}; the first "
            what += f"contains “{words}”"
            findings.warn(code, where, what)
    if markup := _hits(_MARKUP, texts):
        what = f"{counted(len(markup), 'answer')} with markup, which boards show as text: "
        what += some_of(markup)
        findings.note("markup", where, what)


def _hits(pattern: re.Pattern[str], texts: Mapping[str, str]) -> dict[str, str]:
    """Return the first match of a pattern in each text that has one, by the name of the text."""
    return {name: hit[0] for name, text in texts.items() if (hit := pattern.search(text))}


def check_baseline(
    name: str, card: Submission, gold: GoldTrack | None, rows: Rows, findings: Findings
) -> None:
    """Compare the answers of a system named like one of ours with the answers of ours.

    Boards show trivial baselines apart, and take from them what a score is worth: answers that are
    not theirs are refused. Of other systems of ours, as `rules`, a difference is a warning.
    """
    model = card.system.model
    if not is_own(model):
        return
    unchecked = f"{name}: whether these are the answers of {shown(model)}"
    if gold is None:
        findings.unchecked.append(f"{unchecked}, because alps does not have the records")
        return
    try:
        system = as_run(model, gold)
    except AlpsError as error:
        if is_baseline(card):
            findings.serious("baseline", f"{name}: system.model", shown(str(error), 160), RENAME)
        else:
            findings.unchecked.append(f"{unchecked}, because this system cannot run here")
        return
    try:
        other = [named(key) for key in differing(system, gold, rows)]
    # What it reads of a record may lie in files that nobody needs to hold answers against gold.
    except AlpsError as error:
        findings.unchecked.append(f"{unchecked} ({shown(str(error), 160)})")
        return
    if other:
        add = findings.serious if is_baseline(card) else findings.warn
        answers = counted(len(other), "answer")
        those = f"those of {shown(model)} in this version of alps"
        what = f"{answers} unlike {those}: {some_of(other)}"
        add("baseline", f"{name}/predictions.jsonl", what, RENAME)


def as_run(model: str, gold: GoldTrack) -> System:
    """Return a system of ours as a run asked it.

    Raises:
        UsageError: If it can't be run here.
    """
    system = in_variants(resolve_system(model, gold.task), gold.task)
    task = gold.task
    asked = {MEMORY, "max_context_tokens", "k"} & task.conditions.keys()
    if (task.by_memory.recall is None and task.by_memory.answers is None) or not asked:
        return system
    return needed(MEMORY).behind(system, gold)


def differing(system: System, gold: GoldTrack, rows: Rows) -> Iterator[Key]:
    """Yield the answers that a system of ours does not give."""
    by_record: dict[str, list[Key]] = {}
    for key in rows:
        by_record.setdefault(key[0], []).append(key)
    for record, sample in gold.samples.items():
        if keys := by_record.get(record):
            own = run_loop(system.answer(gold.task, sample))
            for key in keys:
                given = rows[key]["outcome"], rows[key].get("prediction")
                if given != (own.outcome, own.prediction):
                    yield key
