"""Import of result files: the folder that is written, with all that was found in them."""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path
from shlex import quote
from typing import Any

from rich.console import Console
from rich.text import Text

from alps.data.release import write_track
from alps.errors import DataError, RunFolderError, UsageError
from alps.ext.importers import benchmarks, halumem
from alps.ext.importers.answered import TRACK
from alps.ext.importers.figures import (
    BlindBaseline,
    GroupScore,
    Ties,
    baselines_of,
    figures_of,
    flags_of,
    parse_share,
    ties_of,
)
from alps.ext.importers.plain import (
    as_systems,
    contradicted,
    read_plain,
    the_verdict,
    with_outcomes,
)
from alps.ext.importers.reading import ImportedAnswer
from alps.ext.importers.settings import FORMS, ImportSettings
from alps.ext.importers.verdicts import with_verdicts
from alps.folders import file_names, refuse_full
from alps.jsonl import dump
from alps.show.formatting import number
from alps.show.table import (
    Cell,
    Column,
    Line,
    Part,
    Row,
    Table,
    named,
    printed,
    row_of,
    thousands,
    with_interval,
)

ANSWERS, SUMMARY, DATA, PREDICTIONS = "answers.jsonl", "summary.json", "data", "predictions"
_OF_ANOTHER_SHAPE = ("is not a list", "is not an object", "is missing")
_ENDINGS = re.compile(r"(\.eval-results-[^/]*|\.jsonl?|\.log|\.eval|\.gz)+\Z")
_Read = Callable[[Path, str], tuple[list[ImportedAnswer], list[str]]]
"""Reads a file of a system; returns its answers, and what is in doubt about it."""
_TASK = "python:alps.ext.importers.answered"
_NAMED = 3


@dataclass(frozen=True)
class Imported:
    """What was imported.

    Attributes:
        flags: What is wrong, or in doubt, a line each.
        predictions: A file for each system that any judge can judge again; none where the files
            lack questions, gold or answers.
        verdict: The field that the user named as the verdict.
    """

    folder: Path
    form: str
    figures: Sequence[GroupScore]
    baselines: Sequence[BlindBaseline]
    ties: Sequence[Ties]
    flags: Sequence[str]
    predictions: Sequence[Path]
    verdict: str | None = None


def import_files(form: str, paths: Sequence[Path], settings: ImportSettings) -> Imported:
    """Read result files, recompute their scores, and write a new folder.

    Raises:
        UsageError: If a file is not there, a setting means nothing here, or there is something in
            the folder.
        DataError: If a file has another form; names file, line and field.
        RunFolderError: If the folder can't be written.
    """
    out = Path(settings.out)
    refuse_full(out)
    if settings.data is not None and form != "longmemeval":
        raise UsageError(f"data={settings.data}: {form} files need no data file; leave data= out")
    if settings.reported is not None:
        parse_share(settings.reported)
    try:
        answers, flags = _read(form, paths, settings)
    except DataError as error:
        named = form != "rows" and error.field is not None
        # What is no JSON at all has no rows either.
        other = named and str(error).endswith(_OF_ANOTHER_SHAPE)
        hint = "; to read other shapes, use the format 'rows'" if other else ""
        raise DataError(f"{error}; {form} expects {FORMS[form]}{hint}") from error
    figures = figures_of(answers)
    flags += flags_of(form, answers, figures, settings.reported)
    try:
        predictions = _write(out, answers)
        baselines, ties = baselines_of(answers), ties_of(answers)
        found = Imported(out, form, figures, baselines, ties, flags, predictions, settings.verdict)
        content = json.dumps(as_json(found), ensure_ascii=False, indent=2)
        # Texts may hold halves of characters, as files cut by bytes do.
        (out / SUMMARY).write_text(content + "\n", encoding="utf-8", errors="replace")
    except OSError as error:
        raise RunFolderError(f"{out}: {error.strerror or error}; choose another out=") from error
    return found


def as_json(found: Imported) -> dict[str, Any]:
    """Return the results as in `summary.json`."""
    return {
        "format": found.form,
        **({"verdict": found.verdict} if found.verdict else {}),
        "figures": [asdict(figure) for figure in found.figures],
        "baselines": [asdict(baseline) for baseline in found.baselines],
        "ties": [asdict(ties) for ties in found.ties],
        "flags": list(found.flags),
    }


def _read(
    form: str, paths: Sequence[Path], settings: ImportSettings
) -> tuple[list[ImportedAnswer], list[str]]:
    answers: list[ImportedAnswer] = []
    flags: list[str] = []
    known: set[tuple[str, str, str]] = set()
    for path, name in _names_of(paths).items():
        own, doubts = _read_one(form, path, name, settings)
        if known & {_place(answer) for answer in own}:
            # Two runs of one system: as one, every question would have been asked twice.
            own = [one.model_copy(update={"system": f"{one.system} ({name})"}) for one in own]
        known |= {_place(answer) for answer in own}
        answers += own
        # Of a benchmark with a file for each conversation one line is enough.
        flags += [one for one in doubts if one not in flags]
    if form == "personamem_v3":
        flags += benchmarks.mean_of_tasks(answers)
    if form == "rows":
        answers, joined = as_systems(answers)
        flags += joined
    if form == "amb" and len({answer.part for answer in answers}) == 1:
        # One data set alone needs no name; figures of several are never averaged.
        answers = [answer.model_copy(update={"part": ""}) for answer in answers]
    return answers, flags


def _read_one(
    form: str, path: Path, name: str, settings: ImportSettings
) -> tuple[list[ImportedAnswer], list[str]]:
    """Return the answers of a file with their verdicts, and what is in doubt about them."""
    own, doubts = _readers(settings)[form](path, name)
    if not own:
        raise UsageError(f"{path}: no answers in this file; {form} expects {FORMS[form]}")
    # A format knows its verdict; in rows of any project it is first to be found.
    if form != "rows":
        own, unsure = with_verdicts(path, own, settings.verdict)
        return own, [*doubts, *unsure]
    verdict = settings.verdict
    if verdict is None and (verdict := the_verdict(own)) is not None:
        doubts = [*doubts, f"alps reads the verdict from the field {verdict}"]
    own, unsure = with_verdicts(path, own, verdict)
    doubts = [*doubts, *unsure]
    if verdict is not None:
        own = with_outcomes(own, verdict)
        doubts += contradicted(path, own)
    return own, doubts


def _place(answer: ImportedAnswer) -> tuple[str, str, str]:
    return answer.system, answer.part, answer.id


def _readers(settings: ImportSettings) -> Mapping[str, _Read]:
    data = None if settings.data is None else Path(settings.data)
    return {
        "amb": benchmarks.read_amb,
        "beam": lambda path, _: benchmarks.read_beam(path),
        "halumem": halumem.read_halumem,
        "inspect": lambda path, _: _read_inspect(path),
        "locomo": lambda path, name: (benchmarks.read_locomo(path, name), []),
        "longmemeval": lambda path, name: benchmarks.read_longmemeval(path, name, data),
        "mem0": lambda path, name: (benchmarks.read_mem0(path, name), []),
        "omnimemeval": lambda path, name: (benchmarks.read_omnimemeval(path, name), []),
        "personamem_v3": benchmarks.read_personamem_v3,
        "rows": read_plain,
    }


def _read_inspect(path: Path) -> tuple[list[ImportedAnswer], list[str]]:
    try:
        from alps.ext.importers.inspect_logs import read_inspect
    except ModuleNotFoundError as error:
        raise UsageError(
            f"Inspect logs need {error.name}: pip install 'alps-eval[inspect]'"
        ) from error
    return read_inspect(path)


def _names_of(paths: Sequence[Path]) -> dict[Path, str]:
    """Name the system of each file after it, with its folders where several have one name.

    Raises:
        UsageError: If a file is named twice.
    """
    whole = [path.resolve() for path in paths]
    twice = [path for path, count in Counter(whole).items() if count > 1]
    if twice:
        raise UsageError(f"{twice[0]}: named twice; name it once")
    names = {}
    for path, resolved in zip(paths, whole, strict=True):
        # Mem0's script calls the file of every system evaluation_metrics.json.
        depth = 1
        while _is_shared(name := _name(resolved, depth), whole, depth):
            depth += 1
        names[path] = name
    return names


def _is_shared(name: str, paths: Sequence[Path], depth: int) -> bool:
    within = depth < min(len(path.parts) for path in paths)
    return within and sum(_name(path, depth) == name for path in paths) > 1


def _name(path: Path, depth: int) -> str:
    """Return the last parts of a path without what a format appends; `gpt-4.1` is a name."""
    return _ENDINGS.sub("", "/".join(path.parts[-depth:]))


def _write(out: Path, answers: Sequence[ImportedAnswer]) -> list[Path]:
    out.mkdir(parents=True, exist_ok=True)
    with (out / ANSWERS).open("wb") as file:
        for answer in answers:
            file.write(dump(answer.model_dump()))
    whole = [one for one in answers if None not in (one.question, one.gold, one.answer)]
    if not whole:
        return []
    questions = {answer.id: answer for answer in whole}
    write_track(out / DATA / "dev" / TRACK, map(_question_rows, questions.values()))
    paths = []
    files = file_names((answer.system for answer in whole), _as_file)
    for system, name in files.items():
        path = out / PREDICTIONS / f"{name}.jsonl"
        path.parent.mkdir(exist_ok=True)
        # Of a question that stands in a file twice one answer is judged again.
        said = {answer.id: answer.answer for answer in whole if answer.system == system}
        rows = [dump({"benchmark_id": about, "answer": text}) for about, text in said.items()]
        path.write_bytes(b"".join(rows))
        paths.append(path)
    return paths


def _as_file(system: str) -> str:
    return "".join(sign if sign.isalnum() or sign in "-_." else "_" for sign in system)


def _question_rows(answer: ImportedAnswer) -> tuple[dict[str, Any], dict[str, Any]]:
    ids = {"benchmark_id": answer.id, "session_id": answer.conversation, "task": TRACK}
    asked = {"question": answer.question, "category": answer.category}
    return {**ids, "input": asked}, {**ids, "gold": {"answer": answer.gold}}


def print_imported(found: Imported, console: Console) -> None:
    """Print the figures, the baselines, the ties, what is in doubt, and how to judge again."""
    for part in printed(_parts(found), console.width):
        console.print(part, highlight=False)
    for path in found.predictions:
        words = f"task={_TASK}", f"data={found.folder / DATA}", f"model=predictions:{path}"
        again = " ".join(map(quote, words))
        console.print(Text(f"Judge again: alps run {again} judge=PROVIDER/MODEL"), soft_wrap=True)


def _parts(found: Imported) -> Iterator[Part]:
    for part in dict.fromkeys(figure.part for figure in found.figures):
        yield _table(found, part)
    for flag in found.flags:
        yield Line(f"– {flag}")
    yield Line(f"Folder: {found.folder}")


def _table(found: Imported, part: str) -> Table:
    title = f"{found.form}, {part}" if part else found.form
    columns = [named("system", "fold"), named("questions", "fold")]
    for name in ("score", "95 % interval", "n", "unscored", "token F1"):
        columns.append(Column(name, right=True))
    notes = [*_without_interval(found, part)]
    for ties in found.ties:
        if ties.part == part:
            notes += map(Line, _compared(ties))
    return Table(title, columns, list(_rows(found, part)), notes, layout="bare")


def _without_interval(found: Imported, part: str) -> Iterator[Line]:
    """Say why scores of a table have no interval."""
    scores = [figure.score for figure in found.figures if figure.part == part]
    reasons = [_in_conversations(one.reason) for one in scores if one.reason]
    if reasons:
        yield Line(f"–: no interval, because {'; '.join(_first_few(dict.fromkeys(reasons)))}")


def _in_conversations(reason: str) -> str:
    # What is resampled are sessions elsewhere.
    return reason.replace("session", "conversation").replace("record", "question")


def _untested(ties: Ties) -> dict[str, list[str]]:
    """Return the pairs of systems that were not tested, by why."""
    pairs = {(one.first, one.second): one for one in ties.pairs}
    reasons: dict[str, list[str]] = {}
    for names in combinations(ties.letters, 2):
        pair = pairs.get(names)
        if pair is None or pair.p_holm is None:
            why = "no question in common" if pair is None else pair.difference.estimate.reason
            reasons.setdefault(_in_conversations(why or ""), []).append(" and ".join(names))
    return reasons


def _first_few(texts: Iterable[str]) -> list[str]:
    listed = list(texts)
    more = len(listed) - _NAMED
    return listed if more <= 0 else [*listed[:_NAMED], f"{more:,} more"]


def _compared(ties: Ties) -> Iterator[str]:
    """Yield the letters of systems, and the pairs that no test compares."""
    reasons = _untested(ties)
    if any(pair.p_holm is not None for pair in ties.pairs):
        letters = ", ".join(f"{name} {own}" for name, own in ties.letters.items())
        but = ", unless they were not tested" if reasons else ""
        yield f"Systems that share a letter do not differ significantly (Holm){but}: {letters}"
    for why, untested in reasons.items():
        yield f"not tested: {'; '.join(_first_few(untested))} ({why})"


def _rows(found: Imported, part: str) -> Iterator[Row]:
    shown = ""
    for figure in found.figures:
        if figure.part != part:
            continue
        system = figure.system if figure.system != shown else ""
        shown = figure.system
        counts = thousands(figure.score.n), thousands(figure.unscored)
        f1 = _f1(None if figure.f1 is None else figure.f1.value)
        cells = *with_interval(figure.score), *counts, f1
        yield row_of(system, figure.category or "all", *cells)
    for baseline in found.baselines:
        if baseline.part == part:
            score = "–" if baseline.score is None else f"≥ {number(baseline.score)}"
            yield row_of(baseline.name, "baseline", score, "", "", "", _f1(baseline.f1))


def _f1(value: float | None) -> Cell:
    return Cell(number(value), value)
