"""Record of a run in the terminal: dialogue, gold, prediction and verdict."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from alps.errors import AlpsError, RunFolderError
from alps.ext.looking.dialogue import DialogueView, Piece, excerpt
from alps.ext.looking.record import RecordView, ShownPart, build_view
from alps.run.opened import AnswerKey, RunFolder, open_run, read_rows, read_wanted, track_data
from alps.schema import FAILURES, UNHEARD
from alps.show.formatting import folded_away, judge_of, number, visible
from alps.show.named_record import pick
from alps.tasks.record_parts import AnsweredRecord, Facts, Listed, Paired, Pairing, Passage, Side
from alps.tasks.registry import track_title

FOLDED_TURN = 400
FOLDED_RAW = 1_500
_SIGNS = {
    "same": "=",
    "narrower": "⊂",
    "bundle": "⊎",
    "broader": "⊃",
    "conflicting": "≠",
    "related": "~",
}
_STYLES = {
    "matched": "green",
    "missed": "red",
    "extra": "yellow",
    "kept": "red",
    "unjudged": "dim",
    "repeated": "dim",
}
_KINDS = ("matched", "missed", "kept", "extra", "repeated", "unjudged")
_MARKED = "bold underline"
_LINE_BREAKS = re.compile(r"\n\s*")


def show_record(run_folder: Path, word: str, console: Console, *, full: bool = False) -> None:
    """Print the record of a run that `pick` finds by a word; `full` shows long texts whole.

    Raises:
        UsageError: If there is no such run or record; names the closest id.
        RunFolderError: If the run can't be read.
    """
    run = open_run(run_folder)
    keys = read_keys(run)
    key = pick(word, keys, repeats=run.repeats, where=str(run_folder))
    if key.track not in run.tasks:
        title = visible(track_title(key.track))
        fault = f"manifest.json lists no data for {title}; repeat the run with another out="
        raise RunFolderError(f"{run_folder}: {fault}")
    samples = read_wanted(run, key.track, {key.id})
    stages = ("predictions", "verdicts", "scores")
    rows = [run.rows(stage, ids={key.id}).get(key) for stage in stages]
    record = AnsweredRecord(samples.by_id.get(key.id), *rows)
    view = build_view(key, run.tasks[key.track], record)
    parts = [*_head(run, view, keys)]
    # Data may have changed since the run: its figures stand, the texts of other records do not.
    if samples.problem is not None:
        parts += [Text(), Text(f"({visible(samples.problem)})", style="dim")]
    parts += [*_body(view, full=full), *_end(view, full=full)]
    console.print(Group(*parts), highlight=False)


def read_keys(run: RunFolder) -> list[AnswerKey]:
    """Return the first answer to every known record of a run, in the order of the data."""
    # Of a run that is not finished, records that nobody asked for yet can be shown, too.
    if run.summary_row is None:
        keys: list[AnswerKey] = []
        try:
            for track in run.tracks:
                for record in track_data(run, track).named():
                    keys.append(AnswerKey(track, record.benchmark_id))
            return keys
        except (AlpsError, OSError, LookupError):
            pass
    names: dict[AnswerKey, None] = {}
    for stage in ("scores", "predictions"):
        rows = read_rows(run.journal(stage), track=run.unnamed)
        names |= dict.fromkeys(AnswerKey(key.track, key.id) for key in rows)
    places = {track: place for place, track in enumerate(run.tracks)}
    return sorted(names, key=lambda key: places.get(key.track, 0))


def _head(run: RunFolder, view: RecordView, keys: Sequence[AnswerKey]) -> Iterator[RenderableType]:
    yield Text(visible(view.key.id), style="bold")
    answer = f", answer {view.key.repeat + 1} of {run.repeats}" if run.repeats > 1 else ""
    # Numbered as in the data, so that the number typed is the number shown.
    names = [key.id for key in keys if key.track == view.key.track]
    on = f"{track_title(view.key.track)}, " if len(run.tracks) > 1 else ""
    position = f"{on}record {names.index(view.key.id) + 1} of {len(names)}{answer}"
    judge = f"judged by {visible(judge_of(run))}"
    yield Text(f"{position} · {visible(run.model)} · {judge}", style="dim")
    explanation, style = view.explanation, "" if view.state in ("ok", "repaired") else "bold red"
    is_failed = view.state in (*FAILURES, *UNHEARD) or view.state.startswith("judge:")
    if is_failed and (cause := view.error or view.judge_error):
        # The cause itself, then its effect on the score.
        explanation = f"{visible(cause)}; {explanation.rpartition(': ')[2]}"
    yield Text(f"{view.state}: {explanation}", style=style)
    figures: list[str] = []
    scores = dict(view.scores)
    for metric in run.tasks[view.key.track].metrics:
        if metric.name in scores:
            figures.append(f"{metric.title.strip()} {number(scores.pop(metric.name))}")
    # Scores that are no metric of the track any more stand last, under their own names.
    figures += (f"{name} {number(score)}" for name, score in scores.items())
    if figures:
        yield Text(" · ".join(figures))


def _body(view: RecordView, *, full: bool) -> Iterator[RenderableType]:
    for part in view.parts:
        yield from _part(part, full=full)
    if view.prediction is None or any(not isinstance(part, DialogueView) for part in view.parts):
        return
    if view.compares_lists and view.scores:
        yield from _heading("Gold and prediction: both have no memories")
    else:
        yield from _heading("Prediction")
        yield Text(visible(json.dumps(view.prediction, ensure_ascii=False, indent=2)))


def _part(part: ShownPart, *, full: bool) -> Iterator[RenderableType]:
    match part:
        case DialogueView():
            yield from _dialogue(part, full=full)
        case Paired():
            yield from _pairs(part)
        case Listed():
            yield from _heading(part.title)
            for side in part.sides:
                yield _indented(_side(side))
        case Passage():
            yield from _heading(part.title)
            yield _indented(Text(_tidy(_folded(part.text, full=full))))
        case Facts():
            yield from _heading(part.title)
            for name, text in part.rows:
                yield _fact(name, text)


def _fact(name: str, text: str) -> Table:
    """Lay a name before its text, so that a long text keeps to its column."""
    grid = Table.grid(expand=True, padding=(0, 1))
    grid.add_column(width=19)
    grid.add_column(ratio=1, overflow="fold")
    grid.add_row(Text(f"  {name}", style="dim"), Text(visible(text)))
    return grid


def _dialogue(part: DialogueView, *, full: bool) -> Iterator[RenderableType]:
    yield from _heading(f"{part.title}{_quoting(part)}")
    # Of an update's old dialogue only what memories quote matters: whole, it would hide the new.
    shown = part.telling if part.folded and not full else range(len(part.turns))
    before = 0
    for place in shown:
        if place > before:
            yield _indented(Text(folded_away(place - before, "turns"), style="dim italic"))
        before = place + 1
        turn = part.turns[place]
        title = Text(f"{place} {turn.role}", style="bold cyan" if turn.role == "user" else "bold")
        if pointed := part.evidence.pointed.get(place):
            title.append(f"  ◂ {', '.join(pointed)}", style="green")
        if label := part.labels.get(place):
            title.append(f"  ◂ {label}", style="green")
        limit = len(turn.text) if full else FOLDED_TURN
        yield title
        spans = part.evidence.spans.get(place, ())
        yield _indented(_excerpt(excerpt(turn.text, spans, limit=limit)))
    if before < len(part.turns):
        rest = f"{len(part.turns):,} turns"
        if before:
            rest = folded_away(len(part.turns) - before, "turns")
        yield _indented(Text(f"{rest} (--full shows them)", style="dim italic"))


def _quoting(part: DialogueView) -> str:
    """Explain the brackets by the first of them."""
    if not part.evidence.pointed:
        return ""
    first = part.evidence.pointed[min(part.evidence.pointed)][0]
    quoting = "the gold quotes" if first.startswith("g") else "a memory quotes"
    return f" ([{first}: …] marks text that {quoting})"


def _indented(text: RenderableType) -> Padding:
    return Padding(text, (0, 0, 0, 2), expand=False)


def _excerpt(pieces: Sequence[Piece]) -> Text:
    text = Text()
    for piece in pieces:
        shown = _tidy(visible(piece.text))
        if piece.left_out:
            text.append(f" [{folded_away(piece.left_out, 'characters')}] ", style="dim italic")
        elif piece.gold:
            text.append(f"[{' '.join(piece.gold)}: ", style="green")
            text.append(shown, style=_MARKED)
            text.append("]", style="green")
        else:
            text.append(shown)
    return text


def _tidy(text: str) -> str:
    """Leave out blank lines."""
    # Split, not one pattern with blanks before the break: that takes quadratic time on long blanks.
    *lines, last = _LINE_BREAKS.split(text)
    lines = [line.rstrip(" \t") for line in lines]
    return "\n".join([*lines, last]).replace("\t", " ")


def _pairs(part: Paired) -> Iterator[RenderableType]:
    counts = Counter(pairing.kind for pairing in part.pairings)
    words = []
    for kind in _KINDS:
        if counts[kind]:
            words.append(f"{counts[kind]} {'not judged' if kind == 'unjudged' else kind}")
    yield from _heading(f"Gold and prediction: {', '.join(words)}")
    yield _row(Text("gold", style="dim"), " ", Text("prediction", style="dim"))
    for pairing in part.pairings:
        yield from _pairing(pairing)


def _pairing(pairing: Pairing) -> Iterator[RenderableType]:
    style = _STYLES[pairing.kind]
    sign = _SIGNS.get(pairing.relation, " ") if pairing.kind in ("matched", "kept") else " "
    yield Text()
    left = _side(pairing.gold) if pairing.gold is not None else _alone(pairing)
    right = _side(pairing.predicted) if pairing.predicted is not None else _alone(pairing)
    yield _row(left, sign, right)
    if pairing.kind in ("matched", "kept"):
        reason = f": {visible(pairing.reason)}" if pairing.reason else ""
        kept = "kept, but should be gone:  " if pairing.kind == "kept" else ""
        said = Text(f"{kept}{pairing.relation}{reason}", style=style)
        yield Padding(said, (0, 0, 0, 4), expand=False)


def _side(side: Side) -> Text:
    text = Text(f"{side.id} ", style="bold")
    text.append(
        visible(side.value) if side.value is not None else "(its text is in the data)",
        style="not bold",
    )
    if side.detail:
        text.append(f"\n{visible(side.detail)}", style="not bold dim")
    return text


def _alone(pairing: Pairing) -> Text:
    """Fill the empty cell beside a memory that has no partner with what the judge said of it."""
    # Without a verdict nothing is missed or extra yet.
    text = Text(pairing.kind if pairing.kind != "unjudged" else "", style=_STYLES[pairing.kind])
    for remark in pairing.remarks:
        text.append(f"\n{visible(remark)}", style="not bold dim")
    return text


def _row(left: RenderableType, sign: str, right: RenderableType) -> Table:
    """Lay two cells side by side; equal widths in every row make columns of them."""
    grid = Table.grid(expand=True, padding=(0, 1))
    grid.add_column(ratio=1, overflow="fold")
    grid.add_column(width=1)
    grid.add_column(ratio=1, overflow="fold")
    grid.add_row(left, sign, right)
    return grid


def _end(view: RecordView, *, full: bool) -> Iterator[RenderableType]:
    """Tell the notes, and of a failure its error and the text as it came."""
    if view.notes:
        yield from _heading("Notes")
        for note in view.notes:
            yield _indented(Text(visible(note)))
    # A failed answer is told of even where no error was kept: its kind says why.
    if view.error or view.state in (*FAILURES, *UNHEARD):
        yield from _heading(f"The prediction failed: {visible(view.error or view.state)}")
        yield Text(_folded(view.raw, full=full) if view.raw else "(no text)")
    if view.judge_error:
        yield from _heading(f"The judgement failed: {visible(view.judge_error)}")
        yield Text("\n".join(_folded(raw, full=full) for raw in view.judge_raw) or "(no text)")


def _folded(text: str, *, full: bool) -> str:
    if full or len(text) <= FOLDED_RAW:
        return visible(text)
    return f"{visible(text[:FOLDED_RAW])} [{folded_away(len(text) - FOLDED_RAW, 'characters')}]"


def _heading(title: str) -> Iterator[RenderableType]:
    yield Text()
    yield Rule(Text(title, style="bold"), align="left", style="dim", characters="─")
