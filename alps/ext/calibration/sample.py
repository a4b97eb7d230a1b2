"""Samples of what a judge was asked in a finished run, as label folders for people to fill in.

The folder has the items and their scales, `sample.json`, what was drawn out of how many, and a
`README.md` for those who label; `labels.jsonl` is theirs to write. The questions are found by
asking a judge that only listens about every prediction, so it does not matter who judged the run,
or whether that judge rates answers at all.

A rubric that is none of ours is written beside the items, where a judge that is asked about them
finds it; it is met or not met. Nothing but its task reads the marks of others: they are left out.

A rated rubric is drawn at random, without replacement, out of all answers that a judge was asked
about. Pairs of memories are not, as nearly all of them are unrelated: half are drawn among those
that the run's judge related, half are the most similar others.
"""

import hashlib
import json
import shlex
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, product
from pathlib import Path
from typing import Any

from alps.errors import UsageError
from alps.ext.audits import SAMPLE
from alps.ext.audits.draws import draw_sessions, place_of, run_seed
from alps.ext.calibration.judge_of_run import JudgeCall, asked_in, population_hash
from alps.ext.calibration.labels import ITEMS, SCALE, pair_payload, rated_payload
from alps.folders import refuse_full
from alps.jsonl import Row, dump
from alps.judges.base import Item, MatchQuestion
from alps.judges.rubric import MATCHING, BinaryReply, Rubric, RubricQuestion, labelled_as
from alps.run.folder import write_json
from alps.run.opened import open_run, read_rows
from alps.run.source import RunData, open_again
from alps.settings import RunSettings
from alps.similarity import similarity_matrix

README, RUBRICS = "README.md", "rubrics"
# Pairs of memories: track, record, repeat, and the ids of gold and predicted.
_Related = set[tuple[str, str, int, str, str]]
# A question that was drawn, and the items that people label for it.
_Chosen = tuple[JudgeCall, Sequence[Row]]


@dataclass(frozen=True)
class DrawCounts:
    """How many items of a rubric were drawn out of how many, and whether at random."""

    population: int
    drawn: int
    random: bool


@dataclass(frozen=True)
class DrawnLabels:
    """What was drawn: the label folder, the counts by rubric, and the rubrics left out."""

    folder: Path
    rubrics: Mapping[str, DrawCounts]
    left_out: tuple[str, ...] = ()

    @property
    def items(self) -> int:
        """How many items there are to label."""
        return sum(counts.drawn for counts in self.rubrics.values())


@dataclass(frozen=True)
class _RubricDraw:
    """All questions under one rubric of the judge, and the items of those that were drawn."""

    rubric: Rubric
    asked: Sequence[JudgeCall]
    chosen: Sequence[_Chosen]
    random: bool

    @property
    def rubrics(self) -> tuple[str, ...]:
        """The rubrics of its items: each dimension of an answer is labelled as one of its own."""
        return tuple(self.rubric.labels)

    @property
    def counts(self) -> DrawCounts:
        """The counts of each of them."""
        population = _population(self.asked)
        return DrawCounts(population, sum(map(_drawn, self.chosen)), self.random)


def draw_labels(
    run: Path, *, n: int, out: Path, seed: int = 0, pairs: bool | None = None
) -> DrawnLabels:
    """Write a label folder with `n` items, or all if fewer, of every rubric that a run asked about.

    The same run and seed give the same items in the same order, whatever the order of the run's
    files.

    Args:
        run: The finished run.
        n: Items of each rubric, at least 1.
        out: A folder that is not there yet, or empty.
        seed: Of the drawing.
        pairs: Whether memories are to be related, or answers to be rated; None for both.

    Raises:
        UsageError: If there is no finished run, no judge is asked such things in it, or `out` is
            not an empty folder; nothing is written then.
        RunFolderError: If the run can't be read, or its data have changed since.
    """
    if n < 1:
        raise UsageError(f"n={n}: draw at least 1 item per rubric")
    refuse_full(out)
    settings, data = _open(run)
    draws: list[_RubricDraw] = []
    usable, left_out = _asked_of(run, data, pairs)
    for rubric, asked in _by_rubric(usable, run).items():
        if rubric == MATCHING:
            chosen = _pairs(asked, _related(run), n, seed)
        else:
            ranked = sorted(asked, key=lambda one: rank(seed, one.rubric, one.name))
            chosen = [(one, _rating_items(one)) for one in ranked[:n]]
        draws.append(_RubricDraw(asked[0].by, asked, chosen, random=rubric != MATCHING))

    def order(items: Sequence[Row]) -> str:
        return rank(seed, "order", items[0]["item_id"])

    drawn = _write(out, draws, order, run=run, system=settings.model, seed=seed)
    return replace(drawn, left_out=left_out)


def draw_audit(
    run: Path, share: float, *, pairs: bool, out: Path, seed: int | None = None
) -> DrawnLabels:
    """Write a label folder of everything that a run asked about a share of its sessions.

    People who label it audit the run: its items are in the order in which sessions are drawn.

    Args:
        run: The finished run.
        share: Of the sessions of each track.
        pairs: Whether memories are to be related; else answers are to be rated.
        out: A folder that is not there yet, or empty.
        seed: Of the drawing, for runs that are to share their audits; else the answers' own.

    Raises:
        UsageError: As `draw_labels`, or if too few records would be audited; names the share that
            is needed.
        RunFolderError: If the run can't be read, or its data have changed since.
    """
    refuse_full(out)
    settings, data = _open(run)
    asked, _ = _asked_of(run, data, pairs)
    named = {one.track for one in asked}
    tracks: dict[str, tuple[str, ...]] = {}
    seeds: dict[str, int] = {}
    for track in data.tracks:
        if track.task.track in named:
            own = seed
            if own is None:
                own = run_seed(run, track.task, str(track.description["sha256"]))
            seeds[track.task.track] = own
            tracks[track.task.track] = draw_sessions(track, share, own).sessions
    draws = []
    for of_rubric in _by_rubric(asked, run).values():
        taken = [one for one in of_rubric if one.cluster in tracks[one.track]]
        chosen = [(one, _pair_items(one) if pairs else _rating_items(one)) for one in taken]
        draws.append(_RubricDraw(of_rubric[0].by, of_rubric, _without_copies(chosen), random=True))

    # In the order of the draw: people who stop early have labelled a random sample all the same.
    def order(items: Sequence[Row]) -> bytes:
        session = items[0]["cluster"]
        own = [seeds[name] for name, sessions in tracks.items() if session in sessions]
        return min(place_of(session, one) for one in own)

    audit = {"share": share, "seed": seed or 0, "seeds": seeds, "tracks": tracks}
    return _write(out, draws, order, run=run, system=settings.model, seed=seed or 0, audit=audit)


def _without_copies(chosen: Sequence[_Chosen]) -> list[_Chosen]:
    """Return the items that show what none before them shows.

    Repeats of a record often answer alike. Labels of people hold for all that shows the same; two
    of them that differ would leave it open, and nobody could settle it.
    """
    shown: set[bytes] = set()
    kept: list[_Chosen] = []
    for asked, items in chosen:
        new = []
        for item in items:
            content = dump({"rubric": item["rubric"], "payload": item["payload"]})
            if content not in shown:
                shown.add(content)
                new.append(item)
        if new:
            kept.append((asked, new))
    return kept


def _asked_of(
    run: Path, data: RunData, pairs: bool | None
) -> tuple[list[JudgeCall], tuple[str, ...]]:
    """Return what a judge was asked in a run, and the rubrics of what is left out.

    It was asked to relate memories (`pairs`), to rate answers, or both.
    """
    asked = asked_in(run, data)
    kept = [one for one in asked if pairs is None or (one.rubric == MATCHING) == pairs]
    if asked and not kept:
        does, other = ("rates answers", "rate") if pairs else ("relates memories", "match")
        raise UsageError(f"{run}: the judge of this run only {does}; use job={other}")
    usable = [one for one in kept if _is_ours(one.by) or one.by.reply is BinaryReply]
    left_out = tuple(dict.fromkeys(one.rubric for one in kept if one not in usable))
    if left_out and not usable:
        why = f"its rubrics ({', '.join(left_out)}) have other verdicts than met and not_met"
        raise UsageError(f"{run}: people's labels can't check the judge of this run: {why}")
    if pairs is not None:
        _refuse_without_page(run, usable)
    return usable, left_out


def _refuse_without_page(run: Path, asked: Sequence[JudgeCall]) -> None:
    # The page has no form, and a run no scores to correct, for the rubrics of others.
    for one in asked:
        if not _is_ours(one.by):
            fix = f"draw the items with alps annotate draw {shlex.quote(str(run))} out=DIR"
            raise UsageError(f"{run}: no page for the rubric {one.rubric} of its task; {fix}")


def _is_ours(rubric: Rubric) -> bool:
    return all(labelled_as(name) is not None for name in rubric.labels)


def _by_rubric(asked: Sequence[JudgeCall], run: Path) -> dict[str, list[JudgeCall]]:
    by_rubric: dict[str, list[JudgeCall]] = {}
    for one in sorted(asked, key=lambda one: one.rubric):
        by_rubric.setdefault(one.rubric, []).append(one)
    if not by_rubric:
        raise UsageError(
            f"{run}: no answer of this run needs a judge, so there is nothing to label"
        )
    return by_rubric


def _open(run: Path) -> tuple[RunSettings, RunData]:
    opened = open_run(run)
    if opened.summary_row is None:
        raise UsageError(f"{run}: not finished; to finish the run, repeat its command")
    return open_again(run, opened.manifest)


def _related(run: Path) -> _Related:
    """Return the pairs that the run's judge named, whatever the relation."""
    related = set()
    for key, row in read_rows(run / "verdicts.jsonl").items():
        for pair in row.get("pairs") or ():
            related.add((*key, pair["gold"], pair["predicted"]))
    return related


def _population(asked: Sequence[JudgeCall]) -> int:
    """Return how many items the questions are of: a question has one a rated answer or pair."""
    return sum(one.size for one in asked)


def rank(seed: int, *words: str) -> str:
    """Return a place in a random order, which depends on nothing but the seed and the words."""
    # Not of a generator: a further answer then leaves the order of all others as it is.
    return hashlib.sha256(json.dumps([seed, *words]).encode()).hexdigest()


def _rating_items(asked: JudgeCall) -> list[Row]:
    assert isinstance(asked.question, RubricQuestion)
    payload = rated_payload(asked.question)
    return [_item(asked, asked.by.part(name), name, payload) for name in asked.by.labels]


def _pairs(asked: Sequence[JudgeCall], related: _Related, n: int, seed: int) -> list[_Chosen]:
    """Draw pairs that a judge related and the most similar others; if one is short, more others."""
    named: list[tuple[float, str, JudgeCall, Item, Item]] = []
    others: list[tuple[float, str, JudgeCall, Item, Item]] = []
    for one in asked:
        assert isinstance(one.question, MatchQuestion)
        gold, predicted = one.question.gold, one.question.predicted
        values = [item.value for item in gold]
        likeness = similarity_matrix(values, [item.value for item in predicted])
        about = (one.track, one.about.benchmark_id, one.about.repeat)
        for (row, g), (column, p) in product(enumerate(gold), enumerate(predicted)):
            place = rank(seed, MATCHING, one.name, g.id, p.id)
            if (*about, g.id, p.id) in related:
                named.append((0.0, place, one, g, p))
            else:
                others.append((-likeness[row][column], place, one, g, p))
    # Half of each: of pairs drawn at random nearly all are unrelated.
    similar = sorted(others, key=lambda pair: pair[:2])[: n - min(len(named), (n + 1) // 2)]
    drawn = sorted(named, key=lambda pair: pair[:2])[: n - len(similar)]
    return [(one, [_pair_item(one, g, p)]) for _, _, one, g, p in (*drawn, *similar)]


def _pair_items(asked: JudgeCall) -> list[Row]:
    assert isinstance(asked.question, MatchQuestion)
    pairs = product(asked.question.gold, asked.question.predicted)
    return [_pair_item(asked, gold, predicted) for gold, predicted in pairs]


def _drawn(chosen: _Chosen) -> int:
    """Return how many items a question gave: its pairs, or one answer of however many marks."""
    asked, items = chosen
    return len(items) if asked.rubric == MATCHING else 1


def _pair_item(asked: JudgeCall, gold: Item, predicted: Item) -> Row:
    payload = pair_payload(gold, predicted)
    return _item(asked, f"/{gold.id}-{predicted.id}", MATCHING, payload)


def _item(asked: JudgeCall, part: str, rubric: str, payload: Row) -> Row:
    # Neither verdict nor reason: labels that follow the judge say nothing of its errors.
    about = {"system": None, "cluster": asked.cluster, "language": asked.language}
    return {"item_id": f"{asked.name}{part}", "rubric": rubric, **about, "payload": payload}


def _write(
    out: Path,
    draws: Sequence[_RubricDraw],
    order: Callable[[Sequence[Row]], str | bytes],
    *,
    run: Path,
    system: str,
    seed: int,
    audit: Row | None = None,
) -> DrawnLabels:
    """Write a label folder; `order` says where the items of an answer stand."""
    groups: list[Sequence[Row]] = []
    sample: dict[str, Any] = {}
    scales: dict[str, Any] = {}
    for draw in draws:
        for _, items_of_one in draw.chosen:
            groups.append(items_of_one)
        sample |= dict.fromkeys(draw.rubrics, _sample_row(draw))
        scales |= dict.fromkeys(draw.rubrics, _scale(draw.rubric))
    # Items of one answer stay together: who rates three dimensions reads its dialogue once.
    groups.sort(key=order)
    items = [{**item, "system": system} for item in chain.from_iterable(groups)]
    about = {"run": run.resolve().name, "seed": seed, "rubrics": sample}
    # Written before the folder is made, so that a draw that fails leaves none behind.
    text = _readme(draws, scales, example=items[0], folder=out)
    try:
        out.mkdir(parents=True, exist_ok=True)
        (out / ITEMS).write_bytes(b"".join(map(dump, items)))
        write_json(out / SCALE, scales)
        write_json(out / SAMPLE, about if audit is None else {**about, "audit": audit})
        (out / README).write_text(text, encoding="utf-8")
        for draw in draws:
            if not _is_ours(draw.rubric):
                _write_rubric(draw.rubric, out)
    except OSError as error:
        raise UsageError(f"out={out}: can't be written ({error.strerror})") from error
    counts: dict[str, DrawCounts] = {}
    for draw in draws:
        counts |= dict.fromkeys(draw.rubrics, draw.counts)
    return DrawnLabels(out, counts)


def _write_rubric(rubric: Rubric, out: Path) -> None:
    (out / RUBRICS).mkdir(exist_ok=True)
    text = f"<!-- id: {rubric.id} -->\n{rubric.text}\n"
    (out / RUBRICS / f"{rubric.name}.md").write_text(text, encoding="utf-8")


def _scale(rubric: Rubric) -> dict[str, Any]:
    positive = [value for value in rubric.scale if value in rubric.accepted]
    return {"kind": rubric.kind, "values": list(rubric.scale), "positive": positive}


def _sample_row(draw: _RubricDraw) -> dict[str, Any]:
    """Describe what was drawn; if several tracks ask for the rubric, each of them apart, too."""
    by_track: dict[str, list[JudgeCall]] = {}
    for one in draw.asked:
        by_track.setdefault(one.track, []).append(one)
    drawn: Counter[str] = Counter()
    for chosen in draw.chosen:
        drawn[chosen[0].track] += _drawn(chosen)
    tracks: dict[str, dict[str, Any]] = {}
    for track, asked in sorted(by_track.items()):
        tracks[track] = {
            "population": _population(asked),
            "drawn": drawn[track],
            # Names the answers that were drawn from: labels of a random sample of just these let
            # PPI++ correct a score of them.
            "predictions": population_hash([one.about for one in asked]),
        }
    only = next(iter(tracks)) if len(tracks) == 1 else None
    row: dict[str, Any] = {"track": only, **vars(draw.counts)}
    if not draw.counts.random:
        row["how"] = "pairs that the run's judge related, and the most similar other pairs"
    if only is not None:
        return row | {"predictions": tracks[only]["predictions"]}
    return row | {"predictions": None, "tracks": tracks}


def _readme(
    draws: Sequence[_RubricDraw], scales: Mapping[str, Any], *, example: Row, folder: Path
) -> str:
    rows, sections = [], []
    for draw in draws:
        for name in draw.rubrics:
            values = ", ".join(map(str, scales[name]["values"]))
            rows.append(f"| {name} | {_how_many(draw.counts)} | {values} |")
        how = _GRADED if draw.rubric.kind == "ordinal" else _BINARY
        how = _PAIRS if draw.rubric.name == MATCHING else how
        # People don't reply with JSON.
        text, _, _ = draw.rubric.text.partition("## The reply")
        quote = "\n".join(f"> {line}".rstrip() for line in text.strip().splitlines())
        sections.append(f"## {', '.join(draw.rubrics)}\n\n{how}\n\n{quote}\n")
    label = scales[example["rubric"]]["values"][-1]
    row = json.dumps({"item_id": example["item_id"], "annotator": "anna", "label": label})
    return _README.format(
        folder=folder, row=row, table="\n".join(rows), sections="\n".join(sections)
    )


def _how_many(counts: DrawCounts) -> str:
    if counts.drawn == counts.population:
        return f"all {counts.population:,}"
    return f"{counts.drawn:,} of {counts.population:,}"


_BINARY = "Label 1 means `met` in the text below, and label 0 means `not_met`."
_GRADED = "Each dimension of an answer is a separate item, rated from 1 to 5."
_PAIRS = (
    "An item is one pair of memories. Label how `predicted` relates to `gold`; "
    "if no other label fits, use `unrelated`."
)
_README = """# Items to label

`items.jsonl` contains the items that a run's judge rated, one per line, without verdicts.
The judge's instructions below also apply to annotators. The fields that the instructions name
are in `payload`.

- Two or more people label all items independently, before they see a judge's verdicts, the \
run or other labels.
- Write each label as one line of `labels.jsonl`, a new file in this folder:
  `{row}`
- Do not skip hard items: they are the most informative. If unsure, give your best guess.
- Each person uses one name as `annotator` on all lines; a pseudonym is fine.
- When all items are labelled, `alps calibrate labels={folder} judge=…` compares a judge with \
the labels.

| rubric | items | labels |
|---|---|---|
{table}

{sections}"""
