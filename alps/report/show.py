"""One record of a run on the terminal: dialogue, gold beside prediction, verdicts, and what went wrong."""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from alps.errors import UsageError, closest
from alps.report.evidence import Piece, excerpt
from alps.report.record import Pairing, RecordView, Side, build_view
from alps.report.runs import MEANINGS, Key, Run, Samples, folded_away, open_run, read_ids, read_wanted, visible
from alps.report.tables import number

FOLDED_TURN = 400
FOLDED_RAW = 1_500
_SIGNS = {"same": "=", "narrower": "⊂", "broader": "⊃", "conflicting": "≠", "related": "~"}
_STYLES = {"matched": "green", "missed": "red", "extra": "yellow", "unjudged": "dim"}
_MARKED = "bold underline"
_BLANK_LINES = re.compile(r"[ \t]*\n\s*")


def show_record(run_folder: Path, benchmark_id: str, console: Console, *, full: bool = False) -> None:
    """Print one record of a run.

    Args:
        run_folder: The run.
        benchmark_id: What `pick` understands: an id, a beginning of it, or a number in the order of the data.
        console: Where to print.
        full: Whether long turns and raw texts are shown whole.

    Raises:
        UsageError: If there is no such run or record; names the closest id.
    """
    run = open_run(run_folder)
    ids = read_ids(run)
    key = pick(benchmark_id, ids, repeats=run.repeats, where=str(run_folder))
    samples = read_wanted(run, {key.id})
    view = build_view(
        key,
        sample=samples.by_id.get(key.id),
        prediction=run.rows("predictions").get(key),
        verdict=run.rows("verdicts").get(key),
        score=run.rows("scores").get(key),
    )
    parts = [*_head(run, view, ids.index(key.id) + 1, len(ids)), *_dialogue(view, samples, full=full)]
    parts += [*_pairs(view), *_end(run, view, full=full)]
    console.print(Group(*parts), highlight=False)


def pick(word: str, ids: Sequence[str], *, repeats: int = 1, where: str) -> Key:
    """Return the answer that `word` means: an id, its number counted from 1, or a beginning that only it has.

    Where records were answered several times, `#2` after it means the second answer.

    Raises:
        UsageError: If it means none, or several.
    """
    name, mark, repeat = word.rpartition("#")
    if mark and word not in ids and repeat.isdecimal() and 1 <= int(repeat) <= repeats:
        return Key(_pick_id(name, ids, where), int(repeat) - 1)
    return Key(_pick_id(word, ids, where))


def _pick_id(word: str, ids: Sequence[str], where: str) -> str:
    if word in ids:
        return word
    if word.isdecimal() and 1 <= int(word) <= len(ids):
        return ids[int(word) - 1]
    begun = [name for name in ids if word and name.startswith(word)]
    if len(begun) == 1:
        return begun[0]
    if begun:
        few = f"{', '.join(begun[:3])}{', …' if len(begun) > 3 else ''}"
        raise UsageError(f"'{word}' begins {len(begun)} ids of {where} ({few}); write more of it")
    if word.isdecimal():
        raise UsageError(f"{where} has {len(ids)} records; there is no number {word}")
    raise UsageError(f"'{word}': no such record in {where}{closest(word, ids)}")


def _head(run: Run, view: RecordView, place: int, total: int) -> Iterator[RenderableType]:
    yield Text(visible(view.key.id), style="bold")
    answer = f", answer {view.key.repeat + 1} of {run.repeats}" if run.repeats > 1 else ""
    yield Text(
        f"record {place} of {total}{answer} · {visible(run.model)} · judged by {visible(run.judge)}", style="dim"
    )
    yield Text(f"{view.state}: {view.explanation}", style="" if view.state in ("ok", "mended") else "bold red")
    if view.scores:
        titles = {metric.name: metric.title for metric in run.metrics}
        figures = (f"{titles.get(name, name)} {number(value)}" for name, value in view.scores.items())
        yield Text(" · ".join(figures))


def _dialogue(view: RecordView, samples: Samples, *, full: bool) -> Iterator[RenderableType]:
    if samples.problem is not None:
        yield Text()
        yield Text(f"({visible(samples.problem)})", style="dim")
        return
    if not view.dialogue:
        return
    yield from _heading("Dialogue" + (" ([g1: …] is what gold quotes)" if view.evidence.pointed else ""))
    for place, turn in enumerate(view.dialogue):
        title = Text(f"{place} {turn.role}", style="bold cyan" if turn.role == "user" else "bold")
        if pointed := view.evidence.pointed.get(place):
            title.append(f"  ◂ {', '.join(pointed)}", style="green")
        limit = len(turn.text) if full else FOLDED_TURN
        yield title
        yield Padding(
            _excerpt(excerpt(turn.text, view.evidence.spans.get(place, ()), limit=limit)), (0, 0, 0, 2), expand=False
        )


def _excerpt(pieces: Sequence[Piece]) -> Text:
    text = Text()
    for piece in pieces:
        shown = _BLANK_LINES.sub("\n", visible(piece.text)).replace("\t", " ")
        if piece.left_out:
            text.append(f" «{folded_away(piece.left_out, 'characters')}» ", style="dim italic")
        elif piece.gold:
            text.append(f"[{' '.join(piece.gold)}: ", style="green")
            text.append(shown, style=_MARKED)
            text.append("]", style="green")
        else:
            text.append(shown)
    return text


def _pairs(view: RecordView) -> Iterator[RenderableType]:
    kinds = {"matched": "matched", "missed": "missed", "extra": "extra", "unjudged": "not judged"}
    counts = ", ".join(f"{view.count(kind)} {word}" for kind, word in kinds.items() if view.count(kind))
    if view.pairings:
        yield from _heading(f"Gold and prediction: {counts}")
        yield _row(Text("gold", style="dim"), " ", Text("prediction", style="dim"))
        for pairing in view.pairings:
            yield from _pairing(pairing)
    elif view.scores and "f1" in view.scores and view.prediction is not None:
        yield from _heading("Gold and prediction: nothing to find, and nothing predicted")
    elif view.prediction is not None:
        yield from _heading("Prediction")
        yield Text(visible(json.dumps(view.prediction, ensure_ascii=False, indent=2)))


def _pairing(pairing: Pairing) -> Iterator[RenderableType]:
    style = _STYLES[pairing.kind]
    sign = _SIGNS.get(pairing.relation, " ") if pairing.kind == "matched" else " "
    yield Text()
    yield _row(_side(pairing.gold) or _alone(pairing), sign, _side(pairing.predicted) or _alone(pairing))
    if pairing.kind == "matched":
        reason = f": {visible(pairing.reason)}" if pairing.reason else ""
        yield Padding(Text(f"{pairing.relation}{reason}", style=style), (0, 0, 0, 4), expand=False)


def _side(side: Side | None) -> Text | None:
    if side is None:
        return None
    text = Text(f"{side.id} ", style="bold")
    text.append(visible(side.value) if side.value is not None else "(its text is in the data)", style="not bold")
    if side.detail:
        text.append(f"\n{visible(side.detail)}", style="not bold dim")
    return text


def _alone(pairing: Pairing) -> Text:
    """Fill the empty cell beside a memory that has no partner with what the judge said of it."""
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


def _end(run: Run, view: RecordView, *, full: bool) -> Iterator[RenderableType]:
    """Tell the notes, and of a failure its error and the text as it came."""
    if view.notes:
        yield from _heading("Notes")
        for note in view.notes:
            yield Padding(Text(visible(note)), (0, 0, 0, 2), expand=False)
    if view.error or view.state in MEANINGS:
        yield from _heading(f"The prediction failed: {visible(view.error or view.state)}")
        yield Text(_folded(view.raw, full=full) if view.raw else "(no text came)")
    if view.judge_error:
        yield from _heading(f"The judgement failed: {visible(view.judge_error)}")
        yield Text("\n".join(_folded(raw, full=full) for raw in view.judge_raw) or "(no text came)")


def _folded(text: str, *, full: bool) -> str:
    if full or len(text) <= FOLDED_RAW:
        return visible(text)
    return f"{visible(text[:FOLDED_RAW])} «{folded_away(len(text) - FOLDED_RAW, 'characters')}»"


def _heading(title: str) -> Iterator[RenderableType]:
    yield Text()
    yield Rule(Text(title, style="bold"), align="left", style="dim", characters="─")
